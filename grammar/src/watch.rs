//! A bound on the time of a call into the engine. The engine counts its steps between the rows of its parser, but not
//! within one, and there are texts after which a grammar has rows without end. So a thread sleeps until the calling
//! thread may have used the CPU time that it has, and then has the engine give up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{park_timeout, JoinHandle, Thread};
use std::time::Duration;

use llguidance::CancellationHandle;

use crate::error::Result;
use crate::thread::start;

const STACK_BYTES: usize = 128 << 10;

/// struct timespec and clockid_t of glibc and musl, where long has 64 bits.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn pthread_self() -> usize;
    fn pthread_getcpuclockid(thread: usize, clock: *mut i32) -> i32;
    fn clock_gettime(clock: i32, now: *mut Timespec) -> i32;
}

/// The CPU time of one thread, which other threads can ask for.
#[derive(Clone, Copy)]
struct CpuClock(i32);

impl CpuClock {
    fn of_this_thread() -> Self {
        let mut clock = 0;
        // SAFETY: this thread lives, and `clock` is written if that succeeds.
        unsafe { pthread_getcpuclockid(pthread_self(), &mut clock) };
        CpuClock(clock)
    }

    /// Nothing once the thread has ended.
    fn now(self) -> Option<Duration> {
        let mut now = Timespec { seconds: 0, nanoseconds: 0 };
        // SAFETY: `now` is as large as the system's.
        let known = unsafe { clock_gettime(self.0, &mut now) } == 0;
        known.then(|| Duration::new(now.seconds as u64, now.nanoseconds as u32))
    }
}

/// While this lives, a thread watches.
struct Watch {
    done: Arc<AtomicBool>,
    thread: Thread,
}

impl Watch {
    /// The thread is left in `last`, where the one before is waited for.
    fn new(engine: CancellationHandle, limit: Duration, last: &mut Option<JoinHandle<()>>) -> Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let (clock, ended) = (CpuClock::of_this_thread(), done.clone());
        let end = clock.now().unwrap_or_default() + limit;
        let watch = move || {
            while !ended.load(Ordering::Acquire) {
                match clock.now().map(|now| end.saturating_sub(now)) {
                    None => return,
                    Some(Duration::ZERO) => return engine.cancel(),
                    Some(left) => park_timeout(left.max(Duration::from_millis(1))),
                }
            }
        };
        if let Some(before) = last.take() {
            let _ = before.join();
        }
        let thread = last.insert(start(STACK_BYTES, watch)?).thread().clone();
        Ok(Watch { done, thread })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Watches the calls of one matcher. The thread of a call is waited for in the next one, when it will have ended: so a
/// matcher has one, and no call waits until it is scheduled.
#[derive(Default)]
pub struct Watcher {
    last: Mutex<Option<JoinHandle<()>>>,
}

impl Watcher {
    /// Runs what calls the engine. After `limit` of this thread's CPU time the engine is cancelled, and says so.
    pub fn run<T>(
        &self,
        engine: Option<CancellationHandle>,
        limit: Duration,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let _watch = engine.map(|engine| Watch::new(engine, limit, &mut last)).transpose()?;
        body()
    }
}
