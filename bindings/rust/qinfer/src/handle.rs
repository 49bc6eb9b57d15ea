//! Handles of the library that free themselves, and how text, paths and arrays pass between Rust and C.

use std::borrow::Cow;
use std::ffi::{c_char, CStr, CString};
use std::path::Path;
use std::ptr::{self, NonNull};

use crate::error::{attempt, call, Error, Status};
use crate::{panics, sys};

/// A handle, freed when it is dropped.
pub(crate) struct Owned<T> {
    pointer: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

// SAFETY: handles may move between threads, and freeing is for any thread.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: these may be used by several threads at once: a runtime, a cache, a store and a scheduler lock themselves
// (only the thread of an engine steps its scheduler), a model does not change, and a cancel and that of a request are atomic.
unsafe impl Sync for Owned<sys::qinfer_runtime> {}
unsafe impl Sync for Owned<sys::qinfer_model> {}
unsafe impl Sync for Owned<sys::qinfer_kv_cache> {}
unsafe impl Sync for Owned<sys::qinfer_kv_store> {}
unsafe impl Sync for Owned<sys::qinfer_cancel> {}
unsafe impl Sync for Owned<sys::qinfer_scheduler> {}
unsafe impl Sync for Owned<sys::qinfer_request> {}

impl<T> Owned<T> {
    /// What a function that creates a handle makes; `free` is the one that releases it.
    pub(crate) fn create(
        free: unsafe extern "C" fn(*mut T),
        function: impl FnOnce(*mut *mut T, *mut sys::qinfer_error) -> sys::qinfer_status,
    ) -> Result<Owned<T>, Error> {
        let mut out = ptr::null_mut();
        let result = attempt(|error| function(&mut out, error));
        // Before the panic of a callback goes on: then what was made nevertheless is freed.
        let owned = NonNull::new(out).map(|pointer| Owned { pointer, free });
        panics::resume();
        result?;
        owned.ok_or_else(|| Error::new(Status::Internal, "success without a handle", 0))
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: nothing else frees the handle, and what borrows it is gone.
        panics::quiet(|| unsafe { (self.free)(self.pointer.as_ptr()) });
    }
}

/// NUL-terminated text. `what` is its name in the error for one with a NUL inside, whose detail is where.
pub(crate) fn c_text(text: impl Into<Vec<u8>>, what: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|found| {
        let at = found.nul_position();
        let message = format!("{what} has a NUL byte at offset {at}");
        Error::new(Status::InvalidArgument, message, at as i64)
    })
}

/// Text that may be absent: NULL.
pub(crate) fn optional_text(text: Option<&str>, what: &str) -> Result<Option<CString>, Error> {
    text.map(|text| c_text(text, what)).transpose()
}

pub(crate) fn c_path(path: &Path, what: &str) -> Result<CString, Error> {
    c_text(path.as_os_str().as_encoded_bytes(), what)
}

pub(crate) fn pointer_of(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

/// The address of an array for the library, which takes NULL for an empty one.
pub(crate) fn array<T>(values: &[T]) -> *const T {
    if values.is_empty() {
        ptr::null()
    } else {
        values.as_ptr()
    }
}

/// # Safety
/// `text` is NULL or NUL-terminated text that lives for `'a`.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// # Safety
/// `data` is NULL or the address of `n` values that live for `'a`.
pub(crate) unsafe fn slice_at<'a, T>(data: *const T, n: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(data, n) }
}

/// What a function writes to (array, capacity, out_n); `room` elements are tried first.
pub(crate) fn read_array<T: Clone + Default>(
    room: usize,
    mut function: impl FnMut(*mut T, usize, *mut usize, *mut sys::qinfer_error) -> sys::qinfer_status,
) -> Result<Vec<T>, Error> {
    let mut values = vec![T::default(); room];
    loop {
        let mut n = 0;
        match call(|error| function(values.as_mut_ptr(), values.len(), &mut n, error)) {
            Ok(()) => {
                fits(n, values.len())?;
                values.truncate(n);
                return Ok(values);
            }
            Err(failed) if failed.status() == Status::BufferTooSmall && n > values.len() => {
                grow(&mut values, n)?;
            }
            // Also of a size that fits, which would be asked for again and again.
            Err(failed) => return Err(failed),
        }
    }
}

/// That no more than `room` elements were written.
pub(crate) fn fits(n: usize, room: usize) -> Result<(), Error> {
    if n <= room {
        return Ok(());
    }
    let message = format!("{n} elements were written to room for {room}");
    Err(Error::new(Status::Internal, message, 0))
}

/// Makes room for `n` elements, if that is more than there is.
pub(crate) fn grow<T: Clone + Default>(values: &mut Vec<T>, n: usize) -> Result<(), Error> {
    let more = n.saturating_sub(values.len());
    values.try_reserve_exact(more).map_err(|_| {
        let message = format!("there is no room for {n} elements");
        Error::new(Status::NoMemory, message, 0)
    })?;
    values.resize(n.max(values.len()), T::default());
    Ok(())
}

/// The same for text.
pub(crate) fn read_text(
    room: usize,
    mut function: impl FnMut(
        *mut c_char,
        usize,
        *mut usize,
        *mut sys::qinfer_error,
    ) -> sys::qinfer_status,
) -> Result<String, Error> {
    let bytes = read_array::<u8>(room, |text, capacity, n, error| {
        function(text.cast(), capacity, n, error)
    })?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()))
}

/// What a function fills.
pub(crate) fn read_struct<T: sys::StructSize>(
    function: impl FnOnce(*mut T, *mut sys::qinfer_error) -> sys::qinfer_status,
) -> Result<T, Error> {
    let mut out = sys::sized::<T>();
    call(|error| function(&mut out, error))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for by a call that reports these sizes, and then has its values.
    fn asked(sizes: &[usize]) -> (Vec<usize>, Result<Vec<u8>, Error>) {
        let mut asked = Vec::new();
        let result = read_array::<u8>(4, |values, capacity, n, _| {
            asked.push(capacity);
            let size = sizes.get(asked.len() - 1).copied();
            // SAFETY: n is the call's, and values has the room that is told.
            unsafe {
                *n = size.unwrap_or(2);
                if size.is_some() {
                    return sys::QINFER_E_BUFFER_TOO_SMALL;
                }
                ptr::write_bytes(values, b'a', 2);
            }
            sys::QINFER_OK
        });
        (asked, result)
    }

    #[test]
    fn a_size_that_is_above_the_room_is_given() {
        assert_eq!(asked(&[5, 6]), (vec![4, 5, 6], Ok(b"aa".to_vec())));
    }

    #[test]
    fn a_size_that_fits_is_an_error() {
        for size in [0, 3, 4] {
            let (asked, result) = asked(&[size]);
            assert_eq!(asked, [4]);
            assert_eq!(result.unwrap_err().status(), Status::BufferTooSmall);
        }
    }

    #[test]
    fn a_size_that_no_memory_has_is_an_error() {
        for size in [usize::MAX, 1 << 62] {
            let (asked, result) = asked(&[size]);
            assert_eq!(asked, [4]);
            assert_eq!(result.unwrap_err().status(), Status::NoMemory);
        }
    }

    #[test]
    fn more_than_the_room_is_an_error() {
        let result = read_array::<u8>(4, |_, _, n, _| {
            // SAFETY: n is the call's.
            unsafe { *n = 5 };
            sys::QINFER_OK
        });
        assert_eq!(result.unwrap_err().status(), Status::Internal);
    }
}
