//! Failures: the statuses of the library, and the error that a call fills.

use std::ffi::{c_char, CStr};
use std::fmt;
use std::mem::MaybeUninit;

use crate::{panics, sys};

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:ident,)*) => {
        /// Why a call failed. Later versions of the library may add statuses: [`Status::Other`].
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Status {
            $($(#[$doc])* $name,)*
            /// A status that this version of the binding does not know.
            Other(i32),
        }

        impl Status {
            /// The status of a `QINFER_E_*` number.
            pub fn from_code(code: i32) -> Status {
                match code {
                    $(sys::$code => Status::$name,)*
                    other => Status::Other(other),
                }
            }

            /// The number, `QINFER_E_*`.
            pub fn code(self) -> i32 {
                match self {
                    $(Status::$name => sys::$code,)*
                    Status::Other(code) => code,
                }
            }
        }
    };
}

statuses! {
    /// A bug in qinfer: the objects involved can only be dropped.
    Internal = QINFER_E_INTERNAL,
    /// An argument that cannot be; detail: the index of the element at fault, where it is one of an array.
    InvalidArgument = QINFER_E_INVALID_ARGUMENT,
    /// The right call at the wrong time, such as sampling before evaluating.
    State = QINFER_E_STATE,
    /// An architecture, format, CPU or option that the library does not know.
    Unsupported = QINFER_E_UNSUPPORTED,
    /// An allocation failed or a budget is exceeded; detail: bytes needed, where known.
    NoMemory = QINFER_E_NO_MEMORY,
    /// The operating system failed; detail: errno.
    Io = QINFER_E_IO,
    /// A file, token or template that is not there; detail: errno, where a file is missing.
    NotFound = QINFER_E_NOT_FOUND,
    /// Damaged or malformed input; detail: byte offset or -1.
    Format = QINFER_E_FORMAT,
    /// Room that does not suffice; detail: elements needed.
    BufferTooSmall = QINFER_E_BUFFER_TOO_SMALL,
    /// The KV cache has no blocks left; detail: index of the first session without room.
    KvFull = QINFER_E_KV_FULL,
    /// The session holds as many tokens as it may.
    ContextFull = QINFER_E_CONTEXT_FULL,
    /// Ended by a [`Cancel`](crate::Cancel) or a callback.
    Cancelled = QINFER_E_CANCELLED,
    /// Logits that are not finite, or none left to draw from.
    Numeric = QINFER_E_NUMERIC,
}

impl Status {
    /// The name of the constant in qinfer.h, such as `QINFER_E_IO`.
    pub fn name(self) -> &'static str {
        // SAFETY: the library gives static text for any number.
        let name = unsafe { CStr::from_ptr(sys::qinfer_status_name(self.code())) };
        name.to_str().unwrap_or_default()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
    detail: i64,
}

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>, detail: i64) -> Error {
        Error {
            status,
            message: message.into(),
            detail,
        }
    }

    /// Why the call failed.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The name of the status in qinfer.h, such as `QINFER_E_IO`.
    pub fn name(&self) -> &'static str {
        self.status.name()
    }

    /// What failed, in English: the file, field or value at fault.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A number whose meaning the status says: an index, errno, an offset, bytes; otherwise 0.
    pub fn detail(&self) -> i64 {
        self.detail
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for Error {}

/// Room for a message: long enough for two of the longest paths of the system. It is not initialised, so it costs
/// nothing.
const MESSAGE_ROOM: usize = 2 * 4096 + 1024;

/// Calls a function that ends with an error argument, without looking for panics of callbacks.
pub(crate) fn attempt(
    function: impl FnOnce(*mut sys::qinfer_error) -> sys::qinfer_status,
) -> Result<(), Error> {
    let mut room = [MaybeUninit::<c_char>::uninit(); MESSAGE_ROOM];
    room[0].write(0);
    let mut full = sys::qinfer_full_error {
        text: room.as_mut_ptr().cast(),
        capacity: room.len(),
        ..sys::sized()
    };
    // SAFETY: full lives until the function has returned.
    let argument = unsafe { sys::qinfer_full_error_arg(&mut full) };
    let code = function(argument);
    if code == sys::QINFER_OK {
        return Ok(());
    }
    // SAFETY: a call that failed has filled the text, with its NUL; otherwise there is the NUL of above.
    let message = unsafe { CStr::from_ptr(room.as_ptr().cast()) };
    Err(Error {
        status: Status::from_code(code),
        message: message.to_string_lossy().into_owned(),
        detail: full.error.detail,
    })
}

/// Calls a function that ends with an error argument. What a callback panicked with goes on from here.
pub(crate) fn call(
    function: impl FnOnce(*mut sys::qinfer_error) -> sys::qinfer_status,
) -> Result<(), Error> {
    let result = attempt(function);
    panics::resume();
    result
}
