//! Language models on CPUs, in the process, without a server: the safe interface to qinfer.
//!
//! A [`Model`] holds weights and tokenizer, a [`KvCache`] the keys and values of any number of sessions, and a
//! [`Session`] one sequence of tokens with its sampler. [`Chat`] holds a conversation, and an [`Engine`] draws the tokens
//! of many sessions together.
//!
//! ```
//! # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).unwrap();
//! use qinfer::{GenerateOptions, LoadOptions, Model, Session};
//!
//! let model = Model::load("examples/models/tiny-stories", LoadOptions::default())?;
//! let mut session = Session::for_model(&model)?;
//! session.append_text("Once upon a time")?;
//! let done = session.generate(&GenerateOptions { max_tokens: 16, ..Default::default() })?;
//! assert_eq!(done.text, ", there was a little girl named Lily. She was a very kind girl.");
//! # Ok::<(), qinfer::Error>(())
//! ```
//!
//! With the feature `grammar`, which links libqinfer_grammar, `Session::set_grammar` has what is drawn fulfil a `Grammar`:
//! a JSON schema, a regular expression or a Lark grammar.
//!
//! # Rules
//! * Every failure is an [`Error`] with the library's status, message and detail. A path or name with a NUL byte is
//!   [`Status::InvalidArgument`].
//! * Options are plain structs of which all members have defaults. Later versions add members: end with
//!   `..Default::default()`.
//! * [`Runtime`], [`Model`], [`KvCache`], [`KvStore`], [`Engine`] and [`Cancel`], `Vocabulary` and `Grammar` are for all
//!   threads, and cloning one gives another handle to the same object. A [`Session`], [`Job`], [`Detokenizer`], [`Reply`]
//!   or [`Chat`] may move between threads, and is used by one at a time. Each object keeps what it needs: they are dropped
//!   in any order.
//! * Callbacks run on the thread of the call that makes them. What one panics with comes out of that call; the
//!   objects involved stay usable. Hooks of sessions that an [`Engine`] has run on its thread, and what one panics with
//!   comes out of its [`Job`]. What panics while an object is dropped (a file that is closed, a hook that is
//!   released) is lost after the panic hook has reported it. None of this holds under `panic = "abort"`.

mod cache;
mod cancel;
mod chat;
mod chat_text;
mod engine;
mod engine_options;
mod engine_thread;
mod error;
mod files;
mod generate;
#[cfg(feature = "grammar")]
mod grammar;
mod handle;
mod hook;
mod info;
mod job;
mod model;
mod model_info;
mod options;
mod panics;
mod reply;
mod runtime;
mod sampler;
mod session;
mod snapshot;
mod store;
mod stream;
mod text;
mod texts;

pub use cache::{KvCache, KvCacheOptions, KvType};
pub use cancel::Cancel;
pub use chat::{message, Chat, ChatStream};
pub use chat_text::{ChatOptions, Rendered};
pub use engine::{Engine, Refused};
pub use engine_options::{EngineOptions, EngineStats, RequestOptions};
pub use error::{Error, Status};
pub use files::{File, FileMode, Files};
pub use generate::{Finish, GenerateOptions, Generated, Logprobs, Piece};
#[cfg(feature = "grammar")]
pub use grammar::{
    grammar_version_number, Grammar, GrammarKind, GrammarOptions, Matcher, MatcherState, TokenMask,
    Vocabulary,
};
pub use hook::LogitsHook;
pub use info::{build_info, cpu_info, kernel_sets, version, version_number, CpuInfo, KernelSet};
pub use job::{Job, JobLogprobs, JobPiece};
pub use model::{plan, plan_map, Model, PlanOptions};
pub use model_info::{
    KvCacheStats, KvStoreStats, Memory, Metrics, ModelInfo, RuntimeInfo, SessionInfo, SessionMemory,
};
pub use options::{LoadOptions, LogLevel, LogSink, Progress, RuntimeOptions};
pub use qinfer_sys as sys;
pub use reply::{Part, Reply, ReplyFormat, ReplyOptions};
pub use runtime::Runtime;
pub use sampler::{SamplerOptions, Steps};
pub use session::{evaluate, EvalOptions, Pooling, Session, SessionOptions};
pub use snapshot::{Loaded, SnapshotOptions};
pub use store::{KeptOptions, KvStore};
pub use stream::Stream;
pub use text::{Detokenizer, TokenFlags, TokenizeOptions};
pub use texts::{EmbeddingOptions, EmbeddingTextOptions, ScoreOptions};

/// The id of a token in a model's vocabulary.
pub type Token = i32;
