//! What runtimes and models are made with, and how the library reads it.

use std::ffi::{c_char, c_void, CString};
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use crate::cancel::pointer_of as cancel_pointer;
use crate::error::Error;
use crate::files::FilesUser;
use crate::handle::{array, c_path, optional_text, pointer_of, slice_at};
use crate::panics::guard;
use crate::{sys, Cancel, Files, Runtime};

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    #[default]
    Warn,
    /// What is done.
    Info,
    /// How it is done.
    Debug,
}

impl LogLevel {
    fn code(self) -> i32 {
        (match self {
            LogLevel::Error => sys::QINFER_LOG_ERROR,
            LogLevel::Warn => sys::QINFER_LOG_WARN,
            LogLevel::Info => sys::QINFER_LOG_INFO,
            LogLevel::Debug => sys::QINFER_LOG_DEBUG,
        }) as i32
    }

    fn from_code(code: i32) -> LogLevel {
        match code as u32 {
            sys::QINFER_LOG_ERROR => LogLevel::Error,
            sys::QINFER_LOG_WARN => LogLevel::Warn,
            sys::QINFER_LOG_INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }
}

/// Takes lines of the log, without their newline, on any thread that makes a call.
pub type LogSink = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// What a [`Runtime`] is made with. Nothing set: all physical cores, and the kernel set that suits CPU and model
/// best.
#[derive(Clone, Default)]
pub struct RuntimeOptions {
    /// Compute threads, the caller included; 0 = physical cores.
    pub threads: u32,
    /// Microseconds that threads spin between evaluations; 0 = they sleep at once.
    pub spin_us: u32,
    /// A kernel set by name, of [`kernel_sets`](crate::kernel_sets).
    pub cpu_target: Option<String>,
    /// f32 activations and sums.
    pub exact: bool,
    /// No 2 MiB pages: what the system counts is then exact to the page.
    pub normal_pages: bool,
    /// The system is never asked for tiles of AMX.
    pub no_tiles: bool,
    /// The CPU of each thread; empty = no pinning.
    pub cpu_ids: Vec<u32>,
    /// Takes the log; `None` = silent.
    pub log: Option<LogSink>,
    /// The most verbose level that `log` gets.
    pub log_level: LogLevel,
}

impl fmt::Debug for RuntimeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeOptions")
            .field("threads", &self.threads)
            .field("cpu_target", &self.cpu_target)
            .field("exact", &self.exact)
            .finish_non_exhaustive()
    }
}

/// Runtime options as the library reads them. They borrow from the options; `log` has to live as long as the runtime.
pub(crate) struct RawRuntime {
    pub(crate) options: sys::qinfer_runtime_options,
    // In a box, so that its address stays.
    pub(crate) log: Option<Box<LogSink>>,
    _cpu_target: Option<CString>,
}

impl RuntimeOptions {
    pub(crate) fn raw(&self) -> Result<RawRuntime, Error> {
        let cpu_target = optional_text(self.cpu_target.as_deref(), "cpu_target")?;
        let log = self.log.clone().map(Box::new);
        let flags = flag(self.exact, sys::QINFER_RUNTIME_EXACT)
            | flag(self.normal_pages, sys::QINFER_RUNTIME_NORMAL_PAGES)
            | flag(self.no_tiles, sys::QINFER_RUNTIME_NO_TILES);
        let options = sys::qinfer_runtime_options {
            n_threads: self.threads,
            spin_us: self.spin_us,
            log_level: self.log_level.code(),
            log: log.as_ref().map(|_| log_line as _),
            log_user: log
                .as_ref()
                .map_or(ptr::null_mut(), |log| ptr::from_ref(&**log) as *mut c_void),
            cpu_ids: array(&self.cpu_ids),
            n_cpu_ids: count(self.cpu_ids.len()),
            flags,
            cpu_target: pointer_of(&cpu_target),
            ..sys::sized()
        };
        Ok(RawRuntime {
            options,
            log,
            _cpu_target: cpu_target,
        })
    }
}

unsafe extern "C" fn log_line(level: i32, line: *const c_char, len: usize, user: *mut c_void) {
    guard((), || {
        // SAFETY: user is the LogSink that the runtime keeps; the line lives during the call.
        let (log, bytes) = unsafe { (&*user.cast::<LogSink>(), slice_at(line.cast::<u8>(), len)) };
        log(LogLevel::from_code(level), &String::from_utf8_lossy(bytes));
    });
}

/// Told how many bytes of how many are read; `Break` ends the call with
/// [`Status::Cancelled`](crate::Status::Cancelled).
pub type Progress<'a> = Box<dyn FnMut(u64, u64) -> ControlFlow<()> + 'a>;

/// How a [`Model`](crate::Model) is loaded.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// The runtime to compute on; `None` = a separate one with defaults.
    pub runtime: Option<Runtime>,
    /// Metadata and tokenizer only: fast, but no sessions.
    pub no_weights: bool,
    /// Read into private memory instead of mapping files.
    pub no_mmap: bool,
    /// Keep weights resident.
    pub lock: bool,
    /// Check that norm weights, biases and mapped scales are finite, and the checksums of a packed model.
    pub verify: bool,
    /// Tied embeddings: a table of rows in addition to the LM head.
    pub embed_rows: bool,
    /// The budget does not count mapped weights.
    pub budget_private: bool,
    /// Copy weights into the layout that the kernel set multiplies fastest, where it would use the mapped file.
    pub pack: bool,
    /// Tokens evaluated in one pass over the weights; 0 = 512.
    pub max_batch_tokens: u32,
    /// Bytes for the model, its caches and sessions; 0 = no bound.
    pub memory_budget_bytes: u64,
    /// Tokens that sessions will have at most; 0 = any. It matters to models with longrope, which take their short
    /// factors for contexts up to the one before scaling.
    pub max_context: u32,
    /// A type of weights that the kernel set knows; `None` = the one it wants.
    pub weight_format: Option<String>,
    /// A file that [`Model::pack`](crate::Model::pack) made of this model, used if it is still up to date.
    pub packed_path: Option<PathBuf>,
    /// Called about every 16 MiB and once at the end.
    pub progress: Option<Progress<'a>>,
    /// Ends the loading.
    pub cancel: Option<Cancel>,
    /// Where the paths are; `None` = the operating system's files.
    pub files: Option<Arc<dyn Files>>,
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("no_weights", &self.no_weights)
            .field("memory_budget_bytes", &self.memory_budget_bytes)
            .field("weight_format", &self.weight_format)
            .field("packed_path", &self.packed_path)
            .finish_non_exhaustive()
    }
}

/// Load options as the library reads them. `files` has to live as long as the model.
pub(crate) struct RawLoad<'o, 'a> {
    pub(crate) options: sys::qinfer_load_options,
    pub(crate) files: Option<Box<FilesUser>>,
    _texts: [Option<CString>; 2],
    // The library calls progress, of the options, until the call is over.
    _progress: PhantomData<&'o mut LoadOptions<'a>>,
}

impl<'a> LoadOptions<'a> {
    pub(crate) fn raw(&mut self) -> Result<RawLoad<'_, 'a>, Error> {
        let format = optional_text(self.weight_format.as_deref(), "weight_format")?;
        let packed = self.packed_path.as_deref();
        let packed = packed.map(|path| c_path(path, "packed_path")).transpose()?;
        let files = self.files.clone().map(FilesUser::new);
        let flags = flag(self.no_weights, sys::QINFER_LOAD_NO_WEIGHTS)
            | flag(self.no_mmap, sys::QINFER_LOAD_NO_MMAP)
            | flag(self.lock, sys::QINFER_LOAD_LOCK)
            | flag(self.verify, sys::QINFER_LOAD_VERIFY)
            | flag(self.embed_rows, sys::QINFER_LOAD_EMBED_ROWS)
            | flag(self.budget_private, sys::QINFER_LOAD_BUDGET_PRIVATE)
            | flag(self.pack, sys::QINFER_LOAD_PACK);
        let options = sys::qinfer_load_options {
            flags,
            max_batch_tokens: self.max_batch_tokens,
            memory_budget_bytes: self.memory_budget_bytes,
            max_context: self.max_context,
            weight_format: pointer_of(&format),
            progress: self.progress.as_ref().map(|_| report as _),
            progress_user: ptr::from_mut(&mut self.progress).cast(),
            cancel: cancel_pointer(&self.cancel),
            packed_path: pointer_of(&packed),
            files: files.as_ref().map_or(ptr::null(), |files| files.native()),
            ..sys::sized()
        };
        Ok(RawLoad {
            options,
            files,
            _texts: [format, packed],
            _progress: PhantomData,
        })
    }
}

unsafe extern "C" fn report(done: u64, total: u64, user: *mut c_void) -> i32 {
    guard(1, || {
        // SAFETY: user is the member of the options that RawLoad borrows.
        let progress = unsafe { &mut *user.cast::<Option<Progress<'_>>>() };
        let flow = progress.as_mut().map(|progress| progress(done, total));
        flow.is_some_and(|flow| flow.is_break()) as i32
    })
}

/// A length for the library. It refuses the largest one; a remainder of 2^32 it would take for a short list.
pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

pub(crate) fn flag(wanted: bool, flag: u32) -> u32 {
    if wanted {
        flag
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn long_lists_are_not_taken_for_short_ones() {
        assert_eq!((count(0), count(256)), (0, 256));
        assert_eq!(count(u32::MAX as usize + 2), u32::MAX);
    }
}
