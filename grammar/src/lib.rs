//! The C ABI of qinfer_grammar.h over llguidance: vocabularies, compiled grammars, and matchers that plug into the logits
//! hook of qinfer.h. Every exported function is in `abi::guard`, which lets no panic out; what panics is printed nowhere.
//! Handles are `Arc`s, so they may be freed in any order.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod abi;
mod check;
mod compile;
mod error;
mod matcher;
mod rows;
mod schema;
mod thread;
mod vocab;
mod watch;
