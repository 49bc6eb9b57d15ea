//! Threads: for work that needs a large stack, since compilers recurse as deep as their input goes and a host's thread
//! may have little room; and those that watch.

use crate::abi::{caught, panic_text, panicked};
use crate::error::{Code, Error, Result};

/// What every compilation gets, and what it gets for each byte of its text. The deepest recursions known (chains of
/// references, of rules, of intersections) take less than half of it.
const STACK_BYTES: usize = 16 << 20;
const STACK_PER_BYTE: usize = 1 << 10;

/// sigset_t of glibc and musl: 1024 bits.
#[repr(C, align(8))]
struct SignalSet([u8; 128]);

const SIG_SETMASK: i32 = 2;

extern "C" {
    fn pthread_sigmask(how: i32, set: *const SignalSet, previous: *mut SignalSet) -> i32;
}

/// Signals of the host are for its own threads: while this lives, new threads begin with all of them blocked.
struct BlockedSignals(SignalSet);

impl BlockedSignals {
    fn new() -> Self {
        let mut previous = SignalSet([0; 128]);
        // SAFETY: both sets are as large as the system's. The system leaves out what cannot be blocked.
        unsafe { pthread_sigmask(SIG_SETMASK, &SignalSet([0xff; 128]), &mut previous) };
        BlockedSignals(previous)
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: as in new().
        unsafe { pthread_sigmask(SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

fn not_started(stack: usize, error: std::io::Error) -> Error {
    let message = format!("a thread with a stack of {stack} bytes could not be started: {error}");
    Error::at(Code::NoMemory, stack as i64, message)
}

/// Starts a thread that ends by itself.
pub fn start(stack: usize, body: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let _blocked = BlockedSignals::new();
    std::thread::Builder::new().stack_size(stack).spawn(body).map_err(|error| not_started(stack, error))
}

/// Runs `body` on a thread with room for what `text_bytes` bytes of input may need, and waits for it.
pub fn with_stack<T: Send>(text_bytes: usize, body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let stack = STACK_BYTES + STACK_PER_BYTE * text_bytes;
    std::thread::scope(|scope| {
        let started = {
            let _blocked = BlockedSignals::new();
            std::thread::Builder::new().stack_size(stack).spawn_scoped(scope, || caught(body))
        };
        let thread = started.map_err(|error| not_started(stack, error))?;
        thread.join().unwrap_or_else(|payload| Err(panicked(&panic_text(payload.as_ref()))))
    })
}
