//! Runtimes: threads and the choice of kernels.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::handle::{read_struct, Owned};
use crate::{sys, LogSink, Metrics, RuntimeInfo, RuntimeOptions};

/// Threads and kernel sets. Evaluations on one runtime run one after another, each on all of its threads. Clones are
/// the same runtime.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Owned<sys::qinfer_runtime>,
    // After the handle: the library logs while it frees. What depends on the runtime holds a clone of it, and so
    // this.
    _log: Option<Box<LogSink>>,
}

impl Runtime {
    /// A runtime with its threads.
    pub fn new(options: &RuntimeOptions) -> Result<Runtime, Error> {
        let raw = options.raw()?;
        // SAFETY: raw lives through the call, and its log as long as the handle and all that is made from it.
        let handle = Owned::create(sys::qinfer_runtime_free, |out, error| unsafe {
            sys::qinfer_runtime_create(&raw.options, out, error)
        })?;
        let inner = Inner {
            handle,
            _log: raw.log,
        };
        Ok(Runtime {
            inner: Arc::new(inner),
        })
    }

    /// Threads and kernel set.
    pub fn info(&self) -> Result<RuntimeInfo, Error> {
        // SAFETY: the handle lives; out is a struct with its size.
        read_struct::<sys::qinfer_runtime_info>(|out, error| unsafe {
            sys::qinfer_runtime_get_info(self.as_ptr(), out, error)
        })
        .map(|info| RuntimeInfo::from(&info))
    }

    /// What has been computed on it.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        // SAFETY: as in info().
        read_struct::<sys::qinfer_metrics>(|out, error| unsafe {
            sys::qinfer_runtime_get_metrics(self.as_ptr(), out, error)
        })
        .map(|metrics| Metrics::from(&metrics))
    }

    /// The handle of the C ABI, which lives as long as any clone.
    pub fn as_ptr(&self) -> *mut sys::qinfer_runtime {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtime")
    }
}
