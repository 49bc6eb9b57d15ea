//! The C ABI of qinfer as qinfer.h declares it. `bindings.rs` is made out of the header by `generate.sh` and checked
//! against it by the tests; the crate `qinfer` is the safe interface.
//!
//! With the feature `grammar` also what qinfer_grammar.h declares, out of `grammar.rs`.
//!
//! Each struct implements `Default`: all zero, as the header wants what is not set. `struct_size` is the caller's to
//! set; [`sized`] does.
#![no_std]

mod bindings;

pub use bindings::*;

#[cfg(feature = "grammar")]
mod grammar;
#[cfg(feature = "grammar")]
pub use grammar::*;

/// A struct of the C ABI that begins with its size.
///
/// # Safety
/// The struct is `repr(C)`, its first member is a `u32` called `struct_size`, and all zero is a valid value.
pub unsafe trait StructSize: Default {}

macro_rules! struct_size {
    ($($name:ident)*) => { $(unsafe impl StructSize for $name {})* };
}

struct_size! {
    qinfer_full_error qinfer_files qinfer_cpu_info qinfer_kernel_set_info qinfer_allocator qinfer_runtime_options
    qinfer_runtime_info qinfer_load_options qinfer_kv_cache_options qinfer_session_options qinfer_memory
    qinfer_model_details qinfer_model_info qinfer_encoding_info qinfer_tokenize_options qinfer_chat_options
    qinfer_reply_options qinfer_reply_part qinfer_kv_cache_stats qinfer_kv_store_options
    qinfer_kv_store_stats qinfer_sampler_options
    qinfer_session_save_options qinfer_session_load_options qinfer_session_load_result qinfer_eval_options
    qinfer_embedding_options qinfer_embedding_text_options qinfer_score_options
    qinfer_logits_hook qinfer_token_info qinfer_generate_options qinfer_generate_result qinfer_metrics
    qinfer_session_memory qinfer_session_info qinfer_scheduler_options qinfer_request_options qinfer_event
    qinfer_scheduler_stats
}

#[cfg(feature = "grammar")]
struct_size! {
    qinfer_grammar_vocab_options qinfer_grammar_options qinfer_grammar_info qinfer_grammar_matcher_info
}

/// A struct with its size set, and everything else zero.
pub fn sized<T: StructSize>() -> T {
    let mut out = T::default();
    // SAFETY: the trait says that a u32, the size, comes first.
    unsafe { (&raw mut out).cast::<u32>().write(size_of::<T>() as u32) };
    out
}
