//! How an engine is made, how a request shares it with others, and what an engine tells of itself.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::handle::{c_path, pointer_of};
use crate::sys;

/// How an [`Engine`](crate::Engine) is made.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Requests that are evaluated together; 0 = 16.
    pub max_running: u32,
    /// Requests that have not begun; 0 = 256.
    pub max_waiting: u32,
    /// What an evaluation should take at most while tokens are drawn; zero = 100 ms.
    pub step: Duration,
    /// A directory. With it a request begins when the cache has blocks for its prompt. Where they run out later, one is
    /// written there, and goes on when there is room. `None`: a request begins when there are blocks for its prompt and
    /// all tokens that it may add.
    pub park: Option<PathBuf>,
    /// In files of parked requests at most; 0 = as many as needed.
    pub park_bytes: u64,
}

/// Engine options as the library reads them.
pub(crate) struct RawEngine {
    pub(crate) options: sys::qinfer_scheduler_options,
    _park: Option<CString>,
}

impl EngineOptions {
    pub(crate) fn raw(&self) -> Result<RawEngine, Error> {
        let park = self.park.as_deref().map(|path| c_path(path, "park"));
        let park = park.transpose()?;
        let options = sys::qinfer_scheduler_options {
            max_running: self.max_running,
            max_waiting: self.max_waiting,
            step_ns: nanoseconds(self.step),
            park_path: pointer_of(&park),
            park_bytes: self.park_bytes,
            ..sys::sized()
        };
        Ok(RawEngine {
            options,
            _park: park,
        })
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How a request shares an [`Engine`](crate::Engine) with others.
#[derive(Clone, Debug, Default)]
pub struct RequestOptions {
    /// Higher ones begin first.
    pub priority: i32,
    /// Whose it is: keys share alike.
    pub key: u64,
    /// After this it ends with [`Status::Cancelled`](crate::Status::Cancelled).
    pub timeout: Option<Duration>,
    /// The session is dropped as soon as the request has ended, on the engine's thread, so that its blocks serve others
    /// at once: for engines that park, and for many jobs that are read one after the other. The job then gives a session back of which all calls
    /// fail. Otherwise the session has its blocks until the job gives it back or is dropped, and requests that find none
    /// may end with [`Status::KvFull`](crate::Status::KvFull).
    pub drop_session: bool,
}

/// An [`Engine`](crate::Engine) now, and totals since it was made.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Requests that have not begun.
    pub waiting: u32,
    /// Requests that have, and have not ended.
    pub running: u32,
    /// Of these, those that are in files, or on their way there or back.
    pub parked: u32,
    /// Of the cache's blocks, promised to running requests.
    pub promised_bytes: u64,
    /// Requests so far.
    pub submitted: u64,
    /// Those of them that have ended.
    pub ended: u64,
    /// Evaluations.
    pub steps: u64,
    /// Tokens evaluated to draw the next one.
    pub decode_rows: u64,
    /// Tokens of prompts evaluated.
    pub prompt_rows: u64,
    /// What the last evaluation took.
    pub last_step: Duration,
    /// In files of parked requests.
    pub parked_bytes: u64,
    /// How often a request was parked.
    pub times_parked: u64,
    /// What the engine takes besides the cache and the sessions; the model's budget is charged with it.
    pub memory_bytes: u64,
}

impl EngineStats {
    pub(crate) fn new(raw: &sys::qinfer_scheduler_stats, memory_bytes: u64) -> EngineStats {
        EngineStats {
            waiting: raw.waiting,
            running: raw.running,
            parked: raw.parked,
            promised_bytes: raw.promised_bytes,
            submitted: raw.submitted,
            ended: raw.ended,
            steps: raw.steps,
            decode_rows: raw.decode_rows,
            prompt_rows: raw.prompt_rows,
            last_step: Duration::from_nanos(raw.last_step_ns),
            parked_bytes: raw.parked_bytes,
            times_parked: raw.times_parked,
            memory_bytes,
        }
    }
}
