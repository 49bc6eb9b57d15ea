//! Engines: the tokens of many requests, drawn together on a separate thread. Here is what programs see of one from any
//! thread; engine_thread.rs has the thread.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, ThreadId};
use std::time::Instant;

use crate::engine_options::nanoseconds;
use crate::engine_thread::{self, Running};
use crate::error::{call, Error, Status};
use crate::generate::Stops;
use crate::handle::{read_struct, Owned};
use crate::job::Item;
use crate::options::flag;
use crate::{
    sys, EngineOptions, EngineStats, GenerateOptions, Job, KvCache, RequestOptions, Session,
};

/// Draws the tokens of many requests together, on its own thread, with each request's tokens the same as alone. Clones
/// are the same engine.
///
/// ```
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).unwrap();
/// # use qinfer::{Engine, EngineOptions, GenerateOptions, KvCache, KvCacheOptions, LoadOptions, Model, Session};
/// # let model = Model::load("examples/models/tiny-stories", LoadOptions::default())?;
/// let cache = KvCache::new(&model, &KvCacheOptions { budget_blocks: 60, ..Default::default() })?;
/// let engine = Engine::new(&cache, &EngineOptions::default())?;
/// let mut session = Session::new(&cache, &Default::default())?;
/// session.append_text("Once upon a time")?;
/// let options = GenerateOptions { max_tokens: 16, ..Default::default() };
/// let mut job = engine.submit(session, &options, &Default::default())?;
/// let text = job.by_ref().map(|piece| piece.map(|piece| piece.text)).collect::<Result<String, _>>()?;
/// assert_eq!(text, ", there was a little girl named Lily. She was a very kind girl.");
/// let session = job.into_session(); // to go on with
/// # assert_eq!(session.len(), 20);
/// # Ok::<(), qinfer::Error>(())
/// ```
///
/// It ends when the last of its clones and [`Job`]s is dropped, or with [`Engine::close`]. That waits for the evaluation
/// that runs, except in a hook that the engine calls.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What clones and jobs hold, and the thread does not.
pub(crate) struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
    memory_bytes: u64,
}

/// What the thread holds, too.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    /// A request has come, or the engine is closed.
    pub(crate) wake: Condvar,
    /// The thread has ended all requests.
    pub(crate) over: Condvar,
}

pub(crate) struct State {
    /// Until the thread has ended all requests.
    pub(crate) scheduler: Option<Arc<Scheduler>>,
    /// Submitted since the thread has looked.
    pub(crate) incoming: HashMap<usize, Running>,
    /// Of those that have not ended.
    pub(crate) requests: HashMap<usize, Arc<Request>>,
    pub(crate) closing: bool,
    pub(crate) over: bool,
    last_id: usize,
}

impl Shared {
    /// No code of the program runs under the lock, and nothing waits with it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A scheduler, and its clock.
pub(crate) struct Scheduler {
    // First, so that it is freed before what it uses.
    pub(crate) handle: Owned<sys::qinfer_scheduler>,
    clock: Box<Instant>,
    _cache: KvCache,
}

unsafe extern "C" fn clock(user: *mut c_void) -> u64 {
    // SAFETY: user is the clock, which outlives the scheduler.
    now(unsafe { &*user.cast::<Instant>() })
}

/// Never 0, which means no deadline.
fn now(clock: &Instant) -> u64 {
    nanoseconds(clock.elapsed()).saturating_add(1)
}

impl Scheduler {
    fn new(cache: &KvCache, options: &EngineOptions) -> Result<(Scheduler, u64), Error> {
        let mut start = Box::new(Instant::now());
        let mut raw = options.raw()?;
        raw.options.clock = Some(clock);
        raw.options.clock_user = ptr::from_mut(&mut *start).cast();
        let mut memory_bytes = 0;
        // SAFETY: options and cache live through the calls, the clock as long as the scheduler.
        let handle = unsafe {
            call(|error| sys::qinfer_scheduler_plan(&raw.options, &mut memory_bytes, error))?;
            Owned::create(sys::qinfer_scheduler_free, |out, error| {
                sys::qinfer_scheduler_create(cache.as_ptr(), &raw.options, out, error)
            })?
        };
        let scheduler = Scheduler {
            handle,
            clock: start,
            _cache: cache.clone(),
        };
        Ok((scheduler, memory_bytes))
    }

    fn request(
        &self,
        generation: &Owned<sys::qinfer_generation>,
        options: &RequestOptions,
        id: usize,
    ) -> Result<Request, Error> {
        let deadline = |timeout| now(&self.clock).saturating_add(nanoseconds(timeout));
        let raw = sys::qinfer_request_options {
            priority: options.priority,
            key: options.key,
            deadline_ns: options.timeout.map_or(0, deadline),
            user: ptr::without_provenance_mut(id),
            ..sys::sized()
        };
        let (scheduler, generation) = (self.handle.as_ptr(), generation.as_ptr());
        // SAFETY: scheduler, generation and options live through the call.
        let handle = Owned::create(sys::qinfer_request_free, |out, error| unsafe {
            sys::qinfer_scheduler_submit(scheduler, generation, &raw, out, error)
        })?;
        Ok(Request { handle })
    }
}

/// Freed by the job or by the engine's thread, whichever is later.
pub(crate) struct Request {
    handle: Owned<sys::qinfer_request>,
}

impl Request {
    pub(crate) fn cancel(&self) {
        // SAFETY: the handle lives; any thread may do this.
        unsafe { sys::qinfer_request_cancel(self.handle.as_ptr()) }
    }
}

/// A request that an [`Engine`] did not take, and its session. `?` makes an [`Error`] of it.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: Error,
    /// As it was.
    pub session: Session,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        refused.error
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl Engine {
    /// An engine for sessions of this cache. Give the cache blocks for as many requests as are to run together.
    pub fn new(cache: &KvCache, options: &EngineOptions) -> Result<Engine, Error> {
        let (scheduler, memory_bytes) = Scheduler::new(cache, options)?;
        let scheduler = Arc::new(scheduler);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                scheduler: Some(scheduler.clone()),
                incoming: HashMap::new(),
                requests: HashMap::new(),
                closing: false,
                over: false,
                last_id: 0,
            }),
            wake: Condvar::new(),
            over: Condvar::new(),
        });
        let of_thread = shared.clone();
        let thread = Builder::new()
            .name("qinfer-engine".into())
            .spawn(move || engine_thread::run(&of_thread, scheduler))
            .map_err(|failed| {
                let message = format!("no thread for the engine: {failed}");
                Error::new(Status::NoMemory, message, 0)
            })?;
        Ok(Engine {
            inner: Arc::new(Inner {
                shared,
                id: thread.thread().id(),
                thread: Mutex::new(Some(thread)),
                memory_bytes,
            }),
        })
    }

    /// Draws the tokens that follow the session's. Until they are drawn the session is the engine's, with its sampler,
    /// bias and hook, which is called on the engine's thread: the [`Job`] gives it back. Give `max_tokens`, or sessions
    /// with few: blocks for all tokens that may come are promised before a request begins, unless the engine parks.
    ///
    /// [`Status::NoMemory`] where `max_waiting` requests are waiting, [`Status::KvFull`] for one that the whole cache has
    /// no room for, [`Status::State`] once the engine is closed. A panic of the session's hook comes out of the job's
    /// `next`, and other requests go on.
    ///
    /// ```compile_fail
    /// # fn example(engine: &qinfer::Engine, session: qinfer::Session) -> Result<(), qinfer::Error> {
    /// let job = engine.submit(session, &Default::default(), &Default::default())?;
    /// session.len(); // it is the engine's
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit(
        &self,
        mut session: Session,
        options: &GenerateOptions,
        request: &RequestOptions,
    ) -> Result<Job, Refused> {
        match self.inner.submit(&mut session, options, request) {
            Ok((items, request)) => Ok(Job::new(items, request, session, self.inner.clone())),
            Err(error) => Err(Refused { error, session }),
        }
    }

    /// Requests that wait, run and are parked, steps and rows so far, and the memory that the engine takes.
    /// [`Status::State`] once it is closed.
    pub fn stats(&self) -> Result<EngineStats, Error> {
        // Not under the lock: where the engine is closed meanwhile, this frees the scheduler.
        let scheduler = self.inner.shared.lock().scheduler.clone();
        let scheduler = scheduler.ok_or_else(is_closed)?;
        // SAFETY: the handle lives; out is a struct with its size.
        read_struct::<sys::qinfer_scheduler_stats>(|out, error| unsafe {
            sys::qinfer_scheduler_get_stats(scheduler.handle.as_ptr(), out, error)
        })
        .map(|stats| EngineStats::new(&stats, self.inner.memory_bytes))
    }

    /// Ends the thread; requests that have not ended fail with [`Status::State`], and their jobs have the sessions. It
    /// may be called at any time, from any thread, and again.
    pub fn close(&self) {
        self.inner.close();
    }
}

fn is_closed() -> Error {
    Error::new(Status::State, "the engine is closed", 0)
}

impl Inner {
    /// Whether this is the engine's thread: in a hook of a session.
    pub(crate) fn is_here(&self) -> bool {
        std::thread::current().id() == self.id
    }

    /// Leaves the session without its handle, unless it fails.
    fn submit(
        &self,
        session: &mut Session,
        options: &GenerateOptions,
        shares: &RequestOptions,
    ) -> Result<(Receiver<Item>, Arc<Request>), Error> {
        let stops = Stops::new(options);
        let with_logprobs = flag(
            options.top_logprobs.is_some(),
            sys::QINFER_GENERATE_LOGPROBS,
        );
        let raw = sys::qinfer_generate_options {
            flags: with_logprobs,
            ..options.raw(&stops)
        };
        // SAFETY: session and options live through the call; the cancel is kept with the generation.
        let generation = Owned::create(sys::qinfer_generation_free, |out, error| unsafe {
            sys::qinfer_generation_create(session.as_mut_ptr(), &raw, out, error)
        })?;
        let (sender, items) = channel();
        let mut state = self.shared.lock();
        let scheduler = match &state.scheduler {
            Some(scheduler) if !state.closing => scheduler.clone(),
            _ => return Err(is_closed()),
        };
        // With the lock: a step may bring events of the request at once, and then looks for it here.
        let id = state.last_id.wrapping_add(1);
        let request = Arc::new(scheduler.request(&generation, shares, id)?);
        state.last_id = id;
        state.requests.insert(id, request.clone());
        let (session, options) = (session.take(), (options, shares));
        let running = Running::new(generation, session, options, request.clone(), sender);
        state.incoming.insert(id, running);
        self.shared.wake.notify_one();
        Ok((items, request))
    }

    fn close(&self) {
        let requests: Vec<Arc<Request>> = {
            let mut state = self.shared.lock();
            state.closing = true;
            self.shared.wake.notify_one();
            state.requests.values().cloned().collect()
        };
        for request in requests {
            request.cancel();
        }
        if self.is_here() {
            return;
        }
        let mut state = self.shared.lock();
        while !state.over {
            let waited = self.shared.over.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let thread = self.thread.lock();
        let thread = thread.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has ended all requests, and panics no more.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
