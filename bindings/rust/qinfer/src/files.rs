//! Files of the host in place of the operating system's: an archive, an encrypted store, memory.

use std::ffi::{c_char, c_void, CStr};
use std::ptr;
use std::sync::Arc;

use crate::handle::slice_at;
use crate::panics::{guard, guard_release};
use crate::{sys, Status};

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// An existing file, to read.
    Read,
    /// To read and write; where there is no file an empty one is made.
    Write,
}

/// Where models and snapshots are. Names are the paths of the call as they are; the files of a model directory are
/// asked for as `<path>/config.json`, after `path` itself was not found. Calls on several threads use it at once.
///
/// An error is a [`Status`] that the call then ends with, with a message that names the file. [`Status::NotFound`] of
/// `open` says that there is no such file.
pub trait Files: Send + Sync {
    /// Opens a file.
    fn open(&self, name: &str, mode: FileMode) -> Result<Box<dyn File>, Status>;

    /// Whether [`File::map`] works. Otherwise weights are read into private memory.
    fn maps(&self) -> bool {
        false
    }
}

/// An open file. It is dropped after [`File::close`], and after what it mapped. After a failure only these two are
/// called.
pub trait File: Send {
    /// Its bytes; asked once, after opening.
    fn size(&mut self) -> Result<u64, Status>;

    /// Fills `data` from `offset` on, or fails.
    fn read_at(&mut self, offset: u64, data: &mut [u8]) -> Result<(), Status>;

    /// Writes all of `data`. Beyond the end the file grows.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Status> {
        let _ = (offset, data);
        Err(Status::Unsupported)
    }

    /// Returns when all that was written will last.
    fn sync(&mut self) -> Result<(), Status> {
        Ok(())
    }

    /// Cuts off what is of no use any more. By default nothing is.
    fn truncate(&mut self, n_bytes: u64) -> Result<(), Status> {
        let _ = n_bytes;
        Ok(())
    }

    /// The whole file in memory, at a multiple of 64, which is read until it is dropped.
    fn map(&mut self, n_bytes: u64) -> Result<Arc<dyn AsRef<[u8]> + Send + Sync>, Status> {
        let _ = n_bytes;
        Err(Status::Unsupported)
    }

    /// The file is closed whatever this returns; a failure counts only where it was written to.
    fn close(self: Box<Self>) -> Result<(), Status> {
        Ok(())
    }
}

/// What the library holds of a host's files: the callbacks, whose user is this.
pub(crate) struct FilesUser {
    native: sys::qinfer_files,
    files: Arc<dyn Files>,
}

// SAFETY: the pointers in `native` are to functions and to this.
unsafe impl Send for FilesUser {}
unsafe impl Sync for FilesUser {}

impl FilesUser {
    /// In a box, so that its address stays.
    pub(crate) fn new(files: Arc<dyn Files>) -> Box<FilesUser> {
        let maps = files.maps();
        let native = sys::qinfer_files {
            open: Some(open),
            size: Some(size),
            read_at: Some(read_at),
            close: Some(close),
            map: maps.then_some(map as _),
            unmap: maps.then_some(unmap as _),
            write_at: Some(write_at),
            sync: Some(sync),
            truncate: Some(truncate),
            ..sys::sized()
        };
        let mut user = Box::new(FilesUser { native, files });
        user.native.user = ptr::from_ref(&*user) as *mut c_void;
        user
    }

    pub(crate) fn native(&self) -> *const sys::qinfer_files {
        &self.native
    }
}

/// An open file as the library knows it.
struct Open {
    file: Box<dyn File>,
    mapped: Option<Arc<dyn AsRef<[u8]> + Send + Sync>>,
}

/// The status of a result. An error is never 0, whatever the host says.
fn code_of(result: Result<(), Status>) -> sys::qinfer_status {
    match result {
        Ok(()) => sys::QINFER_OK,
        Err(status) if status.code() < 0 => status.code(),
        Err(_) => sys::QINFER_E_IO,
    }
}

/// Runs a callback of an open file.
///
/// # Safety
/// `file` is what open() gave, and not closed.
unsafe fn with(
    file: *mut c_void,
    callback: impl FnOnce(&mut Open) -> Result<(), Status>,
) -> sys::qinfer_status {
    guard(sys::QINFER_E_IO, || {
        // SAFETY: as above; the library makes one call at a time for a file.
        code_of(callback(unsafe { &mut *file.cast::<Open>() }))
    })
}

unsafe extern "C" fn open(
    name: *const c_char,
    mode: i32,
    out_file: *mut *mut c_void,
    user: *mut c_void,
) -> sys::qinfer_status {
    guard(sys::QINFER_E_IO, || {
        // SAFETY: user is the FilesUser, name lives during the call, and out_file is the library's.
        unsafe {
            let files = &(*user.cast::<FilesUser>()).files;
            let Ok(name) = CStr::from_ptr(name).to_str() else {
                return sys::QINFER_E_INVALID_ARGUMENT;
            };
            let mode = match mode as u32 {
                sys::QINFER_FILE_READ => FileMode::Read,
                _ => FileMode::Write,
            };
            code_of(files.open(name, mode).map(|file| {
                let open = Box::new(Open { file, mapped: None });
                *out_file = Box::into_raw(open).cast();
            }))
        }
    })
}

unsafe extern "C" fn size(file: *mut c_void, out: *mut u64, _: *mut c_void) -> sys::qinfer_status {
    // SAFETY: file is open, and out is the library's.
    unsafe { with(file, |open| open.file.size().map(|bytes| *out = bytes)) }
}

unsafe extern "C" fn read_at(
    file: *mut c_void,
    offset: u64,
    data: *mut c_void,
    n: usize,
    _: *mut c_void,
) -> sys::qinfer_status {
    // SAFETY: file is open, and data has room for n bytes. The host may read them, so they must have a value.
    unsafe {
        with(file, |open| {
            if n == 0 {
                return open.file.read_at(offset, &mut []); // data may be NULL, which no slice begins at
            }
            ptr::write_bytes(data.cast::<u8>(), 0, n);
            let data = std::slice::from_raw_parts_mut(data.cast::<u8>(), n);
            open.file.read_at(offset, data)
        })
    }
}

unsafe extern "C" fn write_at(
    file: *mut c_void,
    offset: u64,
    data: *const c_void,
    n: usize,
    _: *mut c_void,
) -> sys::qinfer_status {
    // SAFETY: file is open, and data has n bytes.
    unsafe {
        with(file, |open| {
            open.file.write_at(offset, slice_at(data.cast::<u8>(), n))
        })
    }
}

unsafe extern "C" fn sync(file: *mut c_void, _: *mut c_void) -> sys::qinfer_status {
    // SAFETY: file is open.
    unsafe { with(file, |open| open.file.sync()) }
}

unsafe extern "C" fn truncate(
    file: *mut c_void,
    n_bytes: u64,
    _: *mut c_void,
) -> sys::qinfer_status {
    // SAFETY: file is open.
    unsafe { with(file, |open| open.file.truncate(n_bytes)) }
}

unsafe extern "C" fn map(
    file: *mut c_void,
    n_bytes: u64,
    out_data: *mut *const c_void,
    _: *mut c_void,
) -> sys::qinfer_status {
    // SAFETY: file is open, and out_data is the library's. The bytes are borrowed from `mapped` until unmap().
    unsafe {
        with(file, |open| {
            let mapped = open.file.map(n_bytes)?;
            let bytes = (*mapped).as_ref();
            if (bytes.len() as u64) < n_bytes {
                return Err(Status::Io);
            }
            *out_data = bytes.as_ptr().cast();
            open.mapped = Some(mapped);
            Ok(())
        })
    }
}

unsafe extern "C" fn unmap(file: *mut c_void, _: *const c_void, _: u64, _: *mut c_void) {
    // SAFETY: file is open, and nothing reads what it mapped any more.
    guard_release((), || unsafe { (*file.cast::<Open>()).mapped = None });
}

unsafe extern "C" fn close(file: *mut c_void, _: *mut c_void) -> sys::qinfer_status {
    guard_release(sys::QINFER_E_IO, || {
        // SAFETY: what open() gave, once.
        let open = unsafe { Box::from_raw(file.cast::<Open>()) };
        drop(open.mapped);
        code_of(open.file.close())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty;

    impl File for Empty {
        fn size(&mut self) -> Result<u64, Status> {
            Ok(0)
        }
        fn read_at(&mut self, _: u64, data: &mut [u8]) -> Result<(), Status> {
            assert!(data.is_empty());
            Ok(())
        }
        fn write_at(&mut self, _: u64, data: &[u8]) -> Result<(), Status> {
            assert!(data.is_empty());
            Ok(())
        }
    }

    #[test]
    fn no_bytes_may_be_at_null() {
        let mut open = Open {
            file: Box::new(Empty),
            mapped: None,
        };
        let file = ptr::from_mut(&mut open).cast();
        // SAFETY: the file is open, and no bytes are read or written.
        unsafe {
            assert_eq!(read_at(file, 0, ptr::null_mut(), 0, ptr::null_mut()), 0);
            assert_eq!(write_at(file, 0, ptr::null(), 0, ptr::null_mut()), 0);
        }
    }
}
