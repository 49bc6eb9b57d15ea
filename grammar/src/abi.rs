//! What every exported function shares: the guard that lets no panic out, and the rules of size-first structs.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::error::{fill, CError, Code, Error, Result};

/// Nothing is printed about a panic: its text goes into the status. The hook belongs to the copy of Rust's standard
/// library inside this shared library, so no other Rust code of the process is affected.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// The text of a panic.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_string())
}

pub fn panicked(what: &str) -> Error {
    Error::new(Code::Internal, format!("the grammar engine panicked, please report it: {what}"))
}

/// Runs what may panic.
pub fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    silence_panics();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(panicked(&panic_text(payload.as_ref()))),
    }
}

/// The body of an exported function that can fail.
///
/// # Safety
/// `err` as `error::fill` wants it.
pub unsafe fn guard(err: *mut CError, body: impl FnOnce() -> Result<()>) -> i32 {
    match caught(body) {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: passed on.
            unsafe { fill(err, &error) };
            error.code as i32
        }
    }
}

pub fn null_argument(name: &str) -> Error {
    Error::new(Code::InvalidArgument, format!("{name} is NULL"))
}

/// A struct of the C ABI that begins with its size, consists of integers and pointers, and means "default" where zero.
///
/// # Safety
/// Zero bytes are a value of it, and its first member is a u32.
pub unsafe trait SizeFirst: Sized {
    const NAME: &'static str;
}

const MAX_STRUCT_SIZE: usize = 4096;

fn check_size(size: u32, name: &str) -> Result<usize> {
    if (4..=MAX_STRUCT_SIZE).contains(&(size as usize)) {
        return Ok(size as usize);
    }
    let message = format!("{name}.struct_size is {size}, expected sizeof({name})");
    Err(Error::new(Code::InvalidArgument, message))
}

/// A caller's struct: what it does not have reads as zero, what is not known here must be zero. Null: all zero.
///
/// # Safety
/// `caller` is null or has as many bytes as its struct_size says.
pub unsafe fn copy_in<T: SizeFirst>(caller: *const T) -> Result<T> {
    // SAFETY: SizeFirst allows zero bytes; sizes are checked before bytes are read.
    unsafe {
        let mut out: T = std::mem::zeroed();
        if caller.is_null() {
            return Ok(out);
        }
        let size = check_size(caller.cast::<u32>().read_unaligned(), T::NAME)?;
        let known = std::mem::size_of::<T>();
        let bytes = std::slice::from_raw_parts(caller.cast::<u8>(), size);
        if bytes.iter().skip(known).any(|&byte| byte != 0) {
            let name = T::NAME;
            let message = format!("{name} has {size} bytes and sets an option after the {known} that this version knows");
            return Err(Error::new(Code::Unsupported, message));
        }
        let out_bytes = (&mut out as *mut T).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out_bytes, size.min(known));
        Ok(out)
    }
}

/// Fills a caller's struct up to its struct_size, which stays, with zeros beyond what is known here.
///
/// # Safety
/// `caller` has as many bytes as its struct_size says.
pub unsafe fn copy_out<T: SizeFirst>(mut value: T, caller: *mut T) -> Result<()> {
    if caller.is_null() {
        return Err(null_argument(T::NAME));
    }
    // SAFETY: as in copy_in.
    unsafe {
        let stated = caller.cast::<u32>().read_unaligned();
        let size = check_size(stated, T::NAME)?;
        (&mut value as *mut T).cast::<u32>().write(stated);
        let known = std::mem::size_of::<T>();
        std::ptr::write_bytes(caller.cast::<u8>(), 0, size);
        std::ptr::copy_nonoverlapping((&value as *const T).cast::<u8>(), caller.cast::<u8>(), size.min(known));
    }
    Ok(())
}

/// The bytes (text, len) of the C ABI: len SIZE_MAX means that NUL ends them.
///
/// # Safety
/// `text` has `len` bytes, or a NUL.
pub unsafe fn bytes<'a>(text: *const u8, len: usize, name: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return if len == 0 { Ok(&[]) } else { Err(null_argument(name)) };
    }
    // SAFETY: promised by the caller.
    unsafe {
        if len == usize::MAX {
            return Ok(std::ffi::CStr::from_ptr(text.cast()).to_bytes());
        }
        Ok(std::slice::from_raw_parts(text, len))
    }
}

/// Gives out a new handle.
///
/// # Safety
/// `out` is where the caller wants it.
pub unsafe fn give<T>(out: *mut *const T, value: std::sync::Arc<T>) {
    // SAFETY: checked by who calls.
    unsafe { out.write(std::sync::Arc::into_raw(value)) };
}

/// Sets an output handle to NULL, as every function does that then fails.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn clear<T>(out: *mut *const T) -> Result<()> {
    if out.is_null() {
        return Err(null_argument("out"));
    }
    // SAFETY: not null.
    unsafe { out.write(std::ptr::null()) };
    Ok(())
}

/// Borrows what a handle points to.
///
/// # Safety
/// `handle` is null, or one of this library that is not freed.
pub unsafe fn borrow<'a, T>(handle: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    unsafe { handle.as_ref() }.ok_or_else(|| null_argument(name))
}
