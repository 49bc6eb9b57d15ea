//! KV caches: memory for the keys and values of sessions.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::handle::{read_struct, Owned};
use crate::options::flag;
use crate::{sys, KvCacheStats, Model};

/// The type of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// What the kernel set prefers.
    #[default]
    Default,
    /// 4 bytes.
    F32,
    /// 2 bytes.
    F16,
    /// 2 bytes, with the range of f32.
    Bf16,
}

/// How a [`KvCache`] is made.
#[derive(Clone, Debug, Default)]
pub struct KvCacheOptions {
    /// The type of keys and values.
    pub kv_type: KvType,
    /// Tokens of a block, a power of two from 32 to 256; 0 = 32.
    pub block_tokens: u32,
    /// Bytes at most; 0 = no such bound.
    pub budget_bytes: u64,
    /// Blocks at most; 0 = no such bound. Without any, room for one session of the model's context.
    pub budget_blocks: u64,
    /// Freed blocks serve sessions that begin alike.
    pub prefix: bool,
    /// Take all memory at once.
    pub commit: bool,
    /// Each session sees one flat range of address space.
    pub contiguous: bool,
}

impl KvCacheOptions {
    pub(crate) fn raw(&self) -> sys::qinfer_kv_cache_options {
        let kv_type = match self.kv_type {
            KvType::Default => sys::QINFER_KV_DEFAULT,
            KvType::F32 => sys::QINFER_KV_F32,
            KvType::F16 => sys::QINFER_KV_F16,
            KvType::Bf16 => sys::QINFER_KV_BF16,
        };
        sys::qinfer_kv_cache_options {
            flags: flag(self.prefix, sys::QINFER_CACHE_PREFIX)
                | flag(self.commit, sys::QINFER_CACHE_COMMIT)
                | flag(self.contiguous, sys::QINFER_CACHE_CONTIGUOUS),
            kv_type: kv_type as i32,
            block_tokens: self.block_tokens,
            budget_bytes: self.budget_bytes,
            budget_blocks: self.budget_blocks,
            ..sys::sized()
        }
    }
}

/// Keys and values of any number of sessions, in blocks of a fixed budget. Clones are the same cache.
#[derive(Clone)]
pub struct KvCache {
    inner: Arc<Inner>,
}

struct Inner {
    // First, so that it is freed before what it uses.
    handle: Owned<sys::qinfer_kv_cache>,
    model: Model,
}

impl KvCache {
    /// A cache for sessions of this model.
    pub fn new(model: &Model, options: &KvCacheOptions) -> Result<KvCache, Error> {
        let raw = options.raw();
        // SAFETY: model and options live through the call.
        let handle = Owned::create(sys::qinfer_kv_cache_free, |out, error| unsafe {
            sys::qinfer_kv_cache_create(model.as_ptr(), &raw, out, error)
        })?;
        let model = model.clone();
        Ok(KvCache {
            inner: Arc::new(Inner { handle, model }),
        })
    }

    /// The model that it is for.
    pub fn model(&self) -> &Model {
        &self.inner.model
    }

    /// Its blocks now.
    pub fn stats(&self) -> Result<KvCacheStats, Error> {
        // SAFETY: the handle lives; out is a struct with its size.
        read_struct::<sys::qinfer_kv_cache_stats>(|out, error| unsafe {
            sys::qinfer_kv_cache_get_stats(self.as_ptr(), out, error)
        })
        .map(|stats| KvCacheStats::from(&stats))
    }

    /// The handle of the C ABI, which lives as long as any clone, and as its sessions.
    pub fn as_ptr(&self) -> *mut sys::qinfer_kv_cache {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for KvCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KvCache").field(self.model()).finish()
    }
}
