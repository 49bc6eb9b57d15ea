//! Stores: keys and values in a folder, for conversations that go on later.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::cancel::pointer_of as cancel_pointer;
use crate::error::{call, Error};
use crate::handle::{array, c_path, c_text, read_struct, Owned};
use crate::{sys, Cancel, KvCache, KvStoreStats, Session, Token};

/// Whose conversations a call of a [`KvStore`] is about, and what ends it.
#[derive(Clone, Debug, Default)]
pub struct KeptOptions {
    /// Those of one name do not find the blocks of another.
    pub tenant: String,
    /// Looked at before each block.
    pub cancel: Option<Cancel>,
}

/// A folder with blocks of keys and values, so that a conversation that goes on later, in another process too, is not
/// evaluated again. Blocks are found by their tokens and all tokens before them; conversations that begin alike share
/// the files of their beginning. Clones are the same store; the folder is let go of with the last.
///
/// ```
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).unwrap();
/// # let folder = std::env::temp_dir().join(format!("qinfer-doc-{}", std::process::id()));
/// use qinfer::{KeptOptions, KvCache, KvCacheOptions, KvStore, LoadOptions, Model, Session};
///
/// let model = Model::load("examples/models/tiny-stories", LoadOptions::default())?;
/// let options = KvCacheOptions { prefix: true, ..Default::default() };
/// let cache = KvCache::new(&model, &options)?;
/// let store = KvStore::open(&cache, &folder, 10 << 30)?;
/// let of_zoe = KeptOptions { tenant: "Zoe".into(), ..Default::default() };
///
/// let tokens = model.tokenize(&"Once upon a time, there was a dog. ".repeat(9))?;
/// store.fetch(&tokens, &of_zoe)?; // before they are evaluated
/// let mut session = Session::new(&cache, &Default::default())?;
/// session.append(&tokens)?;
/// session.evaluate()?;
/// let kept = store.keep(&mut session, &of_zoe)?; // when the conversation rests
/// assert!(kept > 0 && kept <= tokens.len());
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), qinfer::Error>(())
/// ```
#[derive(Clone)]
pub struct KvStore {
    inner: Arc<Inner>,
}

struct Inner {
    // First, so that it is freed before what it uses.
    handle: Owned<sys::qinfer_kv_store>,
    cache: KvCache,
}

impl KvStore {
    /// Opens a folder, made for its owner alone where there is none, for a cache with
    /// [`KvCacheOptions::prefix`](crate::KvCacheOptions::prefix). Of its files those used longest ago are removed where
    /// there would be more than `max_bytes`. [`Status::State`](crate::Status::State) while another store has the
    /// folder, of this process or another.
    pub fn open(cache: &KvCache, path: impl AsRef<Path>, max_bytes: u64) -> Result<KvStore, Error> {
        let path = c_path(path.as_ref(), "path")?;
        let raw = sys::qinfer_kv_store_options {
            path: path.as_ptr(),
            max_bytes,
            ..sys::sized()
        };
        // SAFETY: cache and options live through the call.
        let handle = Owned::create(sys::qinfer_kv_store_free, |out, error| unsafe {
            sys::qinfer_kv_store_open(cache.as_ptr(), &raw, out, error)
        })?;
        let cache = cache.clone();
        Ok(KvStore {
            inner: Arc::new(Inner { handle, cache }),
        })
    }

    /// The cache that it is for.
    pub fn cache(&self) -> &KvCache {
        &self.inner.cache
    }

    /// Writes the full blocks of a session of the cache that are not in the folder, best when its conversation rests.
    /// Returns how many of its tokens are there now, from the first on. A session that came out of a snapshot is
    /// [`Status::Unsupported`](crate::Status::Unsupported). After an error what was written stays.
    pub fn keep(&self, session: &mut Session, options: &KeptOptions) -> Result<usize, Error> {
        let tenant = c_text(options.tenant.as_str(), "tenant")?;
        let mut n = 0;
        // SAFETY: all of it lives through the call.
        call(|error| unsafe {
            sys::qinfer_kv_store_keep(
                self.as_ptr(),
                session.as_mut_ptr(),
                tenant.as_ptr(),
                cancel_pointer(&options.cancel),
                &mut n,
                error,
            )
        })?;
        Ok(n)
    }

    /// Puts what is known of the tokens into the cache, where evaluations find it: before a session of them is
    /// evaluated or submitted. Returns how many of the tokens the cache knows now, from the first on and never the
    /// last; fewer where it has no room or a file is damaged.
    pub fn fetch(&self, tokens: &[Token], options: &KeptOptions) -> Result<usize, Error> {
        let tenant = c_text(options.tenant.as_str(), "tenant")?;
        let mut n = 0;
        // SAFETY: all of it lives through the call.
        call(|error| unsafe {
            sys::qinfer_kv_store_fetch(
                self.as_ptr(),
                array(tokens),
                tokens.len(),
                tenant.as_ptr(),
                cancel_pointer(&options.cancel),
                &mut n,
                error,
            )
        })?;
        Ok(n)
    }

    /// Its files now.
    pub fn stats(&self) -> Result<KvStoreStats, Error> {
        // SAFETY: the handle lives; out is a struct with its size.
        read_struct::<sys::qinfer_kv_store_stats>(|out, error| unsafe {
            sys::qinfer_kv_store_get_stats(self.as_ptr(), out, error)
        })
        .map(|stats| KvStoreStats::from(&stats))
    }

    /// The handle of the C ABI, which lives as long as any clone.
    pub fn as_ptr(&self) -> *mut sys::qinfer_kv_store {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for KvStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KvStore").field(self.cache()).finish()
    }
}
