//! What the library tells of models, memory, caches and sessions: its structs with Rust's types.

use crate::handle::text_at;
use crate::sys;

/// Declares a struct of numbers and how it is filled from the library's.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident = $raw:ident { $($(#[$doc:meta])* $member:ident: $type:ty = $from:ident,)* }) => {
        $(#[$about])*
        #[non_exhaustive]
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $member: $type,)* }

        impl From<&sys::$raw> for $name {
            fn from(raw: &sys::$raw) -> $name {
                $name { $($member: raw.$from,)* }
            }
        }
    };
}

numbers! {
    /// Bytes, as planned or as in use: for equal options the two agree exactly.
    Memory = qinfer_memory {
        /// Clean file pages that the system can drop, or what [`File::map`](crate::File::map) gave.
        weights_mapped: u64 = weights_mapped,
        /// Converted or copied weights.
        weights_private: u64 = weights_private,
        /// Tokenizer and RoPE.
        tables: u64 = tables,
        /// Activations for a batch.
        scratch: u64 = scratch,
        /// One block of a cache.
        kv_per_block: u64 = kv_per_block,
        /// A whole cache; 0 without cache options.
        kv_cache_bytes: u64 = kv_cache_bytes,
        /// A session outside the cache.
        per_session: u64 = per_session,
        /// The largest total while loading.
        load_peak: u64 = load_peak,
        /// Everything without sessions.
        total: u64 = total,
        /// Lists of a cache.
        kv_lists: u64 = kv_lists,
        /// Keys and values of one token.
        kv_per_token: u64 = kv_per_token,
        /// Blocks that a session of `max_tokens` holds at most.
        kv_per_session: u64 = kv_per_session,
        /// Of this machine or cgroup; 0 = not known.
        system_limit: u64 = system_limit,
        /// Of this machine or cgroup now; 0 = not known.
        system_available: u64 = system_available,
        /// Of the weights, what is read to compute one token.
        active_weight_bytes: u64 = active_weight_bytes,
        /// Of the weights, what all experts have together.
        expert_weight_bytes: u64 = expert_weight_bytes,
    }
}

numbers! {
    /// The blocks of a cache. Used: held by at least one session.
    KvCacheStats = qinfer_kv_cache_stats {
        /// Tokens of a block.
        block_tokens: u32 = block_tokens,
        /// Blocks of the budget.
        blocks_total: u64 = blocks_total,
        /// Held by at least one session.
        blocks_used: u64 = blocks_used,
        /// Held by several.
        blocks_shared: u64 = blocks_shared,
        /// Free, but of use as a prefix.
        blocks_cached: u64 = blocks_cached,
        /// Address space, in bytes.
        bytes_reserved: u64 = bytes_reserved,
        /// Memory of the blocks used and cached.
        bytes_committed: u64 = bytes_committed,
        /// As the operating system counts it; 0 where it does not tell.
        bytes_resident: u64 = bytes_resident,
    }
}

numbers! {
    /// The files of a [`KvStore`](crate::KvStore).
    KvStoreStats = qinfer_kv_store_stats {
        /// Files there now.
        files: u64 = n_files,
        /// Their bytes.
        bytes: u64 = bytes,
        /// Files written since it was opened.
        written: u64 = written,
        /// Files read.
        read: u64 = read,
        /// Those used longest ago, removed for others.
        removed: u64 = removed,
        /// Damaged ones, which were removed.
        damaged: u64 = damaged,
    }
}

numbers! {
    /// Totals since creation; a session counts its own share of a batch. Times are in nanoseconds.
    Metrics = qinfer_metrics {
        /// Tokens evaluated, several at once.
        prefill_tokens: u64 = prefill_tokens,
        /// Tokens evaluated alone.
        decode_tokens: u64 = decode_tokens,
        /// Evaluations.
        evals: u64 = evals,
        /// Tokens found in the cache instead of evaluated.
        cached_tokens: u64 = cached_tokens,
        /// For prefill tokens.
        prefill_ns: u64 = prefill_ns,
        /// For decoded tokens.
        decode_ns: u64 = decode_ns,
        /// For sampling.
        sample_ns: u64 = sample_ns,
        /// Waiting for the threads of the runtime.
        wait_ns: u64 = wait_ns,
        /// Guessed tokens that were evaluated, by their place in the guess.
        drafted: [u64; 16] = drafted,
        /// Those of them that were right.
        accepted: [u64; 16] = accepted,
    }
}

numbers! {
    /// A session now.
    SessionInfo = qinfer_session_info {
        /// `QINFER_SESSION_*` of [`crate::sys`].
        flags: u32 = flags,
        /// Tokens that it may hold.
        max_tokens: u32 = max_tokens,
        /// Rows of logits that it may keep.
        max_logits: u32 = max_logits,
        /// Tokens that it holds.
        n_tokens: u64 = n_tokens,
        /// Those that are evaluated; the rest is pending.
        n_evaluated: u64 = n_evaluated,
        /// Rows that [`Session::logits`](crate::Session::logits) gives.
        n_logits: u32 = n_logits,
        /// Entries of the bias.
        n_bias: u32 = n_bias,
        /// 1 with a logits hook, otherwise 0.
        has_logits_hook: u32 = has_logits_hook,
        /// Tokens that are guessed ahead.
        max_draft: u32 = max_draft,
    }
}

numbers! {
    /// Bytes of a session.
    SessionMemory = qinfer_session_memory {
        /// Blocks of the cache that only it holds.
        kv_private: u64 = kv_private,
        /// Blocks that others hold, too.
        kv_shared: u64 = kv_shared,
        /// Address space in a contiguous cache.
        kv_reserved: u64 = kv_reserved,
        /// Everything else.
        other: u64 = other,
    }
}

/// A runtime.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Compute threads, the caller included.
    pub threads: u32,
    /// The kernel set that was asked for, or the default one.
    pub target: String,
}

impl From<&sys::qinfer_runtime_info> for RuntimeInfo {
    fn from(raw: &sys::qinfer_runtime_info) -> RuntimeInfo {
        RuntimeInfo {
            threads: raw.n_threads,
            // SAFETY: a text of the library's own.
            target: unsafe { text_at(raw.target) }.into_owned(),
        }
    }
}

/// A loaded model.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// As the checkpoint names it.
    pub architecture: String,
    /// The checkpoint's own name, or "".
    pub name: String,
    /// The type of its matrices in memory.
    pub weight_format: String,
    /// The kernel set that it runs on.
    pub kernel_set: String,
    /// `QINFER_MODEL_*` of [`crate::sys`].
    pub flags: u32,
    /// 0 without weights.
    pub n_params: u64,
    /// What one token is computed with.
    pub n_active_params: u64,
    /// Of the weights.
    pub file_bytes: u64,
    /// Tokens of the vocabulary.
    pub n_vocab: u32,
    /// Layers.
    pub n_layers: u32,
    /// Width of a hidden state.
    pub n_embd: u32,
    /// Attention heads.
    pub n_heads: u32,
    /// Heads of keys and values.
    pub n_kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Trained context length.
    pub context_tokens: u32,
    /// The longest text of one token.
    pub max_token_bytes: u32,
    /// The token that begins a text.
    pub bos_token: Option<i32>,
    /// Experts of a layer; 0 = none.
    pub n_experts: u32,
    /// Those that a token goes through.
    pub n_active_experts: u32,
    /// Values of an embedding.
    pub embedding_dims: u32,
    /// The most tokens of a text that an embedding or a score is made of.
    pub embedding_tokens: u32,
    /// The files say how pairs of texts are scored.
    pub scores: bool,
}

impl ModelInfo {
    /// # Safety
    /// `raw` was filled by the library, and its model lives.
    pub(crate) unsafe fn from_raw(raw: &sys::qinfer_model_info) -> ModelInfo {
        // SAFETY: the texts live as long as the model.
        let text = |text| unsafe { text_at(text) }.into_owned();
        ModelInfo {
            architecture: text(raw.architecture),
            name: text(raw.name),
            weight_format: text(raw.weight_format),
            kernel_set: text(raw.kernel_set),
            flags: raw.flags,
            n_params: raw.n_params,
            n_active_params: raw.n_active_params,
            file_bytes: raw.file_bytes,
            n_vocab: raw.n_vocab,
            n_layers: raw.n_layers,
            n_embd: raw.n_embd,
            embedding_dims: raw.embedding_dims,
            embedding_tokens: raw.embedding_tokens,
            scores: raw.scoring != sys::QINFER_SCORING_NONE as i32,
            n_heads: raw.n_heads,
            n_kv_heads: raw.n_kv_heads,
            head_dim: raw.head_dim,
            context_tokens: raw.context_tokens,
            max_token_bytes: raw.max_token_bytes,
            bos_token: (raw.bos_token >= 0).then_some(raw.bos_token),
            n_experts: raw.n_experts,
            n_active_experts: raw.n_active_experts,
        }
    }
}
