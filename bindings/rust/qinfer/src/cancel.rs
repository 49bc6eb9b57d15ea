//! Requests to stop.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::handle::Owned;
use crate::sys;

/// A request to stop, which calls look at while they work. Clones are the same request, so one thread may hold a
/// clone and request while another computes.
#[derive(Clone)]
pub struct Cancel {
    handle: Arc<Owned<sys::qinfer_cancel>>,
}

impl Cancel {
    /// One that is not requested.
    pub fn new() -> Result<Cancel, Error> {
        // SAFETY: the pointers are those of the call.
        let handle = Owned::create(sys::qinfer_cancel_free, |out, error| unsafe {
            sys::qinfer_cancel_create(out, error)
        })?;
        Ok(Cancel {
            handle: Arc::new(handle),
        })
    }

    /// Ends the calls that were given this, and those that will be, until [`Cancel::reset`].
    pub fn request(&self) {
        // SAFETY: the handle lives; any thread may do this.
        unsafe { sys::qinfer_cancel_request(self.as_ptr()) }
    }

    /// Takes the request back.
    pub fn reset(&self) {
        // SAFETY: as in request().
        unsafe { sys::qinfer_cancel_reset(self.as_ptr()) }
    }

    /// The handle of the C ABI, which lives as long as any clone.
    pub fn as_ptr(&self) -> *mut sys::qinfer_cancel {
        self.handle.as_ptr()
    }
}

/// NULL where there is none.
pub(crate) fn pointer_of(cancel: &Option<Cancel>) -> *const sys::qinfer_cancel {
    cancel
        .as_ref()
        .map_or(std::ptr::null(), |cancel| cancel.as_ptr())
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}
