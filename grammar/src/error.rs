//! Statuses with their messages, and how they get into a caller's qinfer_error.

/// A qinfer_status of qinfer.h.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    Internal = -1,
    InvalidArgument = -2,
    State = -3,
    Unsupported = -4,
    NoMemory = -5,
    Format = -8,
    BufferTooSmall = -9,
}

/// What a call that fails reports.
#[derive(Clone, Debug)]
pub struct Error {
    pub code: Code,
    pub detail: i64,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, detail: 0, message: message.into() }
    }
    pub fn at(code: Code, detail: i64, message: impl Into<String>) -> Self {
        Error { code, detail, message: message.into() }
    }
}

/// qinfer_error: the layout is frozen.
#[repr(C)]
pub struct CError {
    code: i32,
    reserved: i32,
    detail: i64,
    message: [u8; 240],
}

/// qinfer_full_error, to which qinfer_full_error_arg() gives the address plus one.
#[repr(C)]
struct CFullError {
    struct_size: u32,
    reserved: u32,
    error: CError,
    text: *mut u8,
    capacity: usize,
    text_len: usize,
}

/// As many characters of `text` as fit before `most`, as one line: a control character becomes a question mark.
fn append_line(text: &str, most: usize, line: &mut [u8], mut size: usize) -> usize {
    for c in text.chars() {
        let c = if c.is_control() { '?' } else { c };
        if size + c.len_utf8() > most {
            break;
        }
        c.encode_utf8(&mut line[size..]);
        size += c.len_utf8();
    }
    size
}

/// A long message loses its middle, as in the core library.
fn fill_message(message: &str, out: &mut [u8; 240]) {
    const BEGINNING: usize = 80;
    *out = [0; 240];
    let room = out.len() - 1;
    if message.len() <= room {
        append_line(message, room, out, 0);
        return;
    }
    let size = append_line(message, BEGINNING, out, 0);
    let size = append_line("...", room, out, size);
    let mut end = message.len() - (room - size);
    while !message.is_char_boundary(end) {
        end += 1;
    }
    append_line(&message[end..], room, out, size);
}

/// Fills the caller's error, which may be null or come from qinfer_full_error_arg().
///
/// # Safety
/// `err` is null, a qinfer_error's address, or what qinfer_full_error_arg() gave.
pub unsafe fn fill(err: *mut CError, error: &Error) {
    if err.is_null() {
        return;
    }
    let mut target = err;
    if (err as usize) & 1 != 0 {
        // SAFETY: an odd address is that of a qinfer_full_error plus one.
        unsafe {
            let full = &mut *(err as *mut u8).sub(1).cast::<CFullError>();
            full.text_len = error.message.len();
            if !full.text.is_null() && full.capacity != 0 {
                let text = std::slice::from_raw_parts_mut(full.text, full.capacity);
                let size = append_line(&error.message, full.capacity - 1, text, 0);
                text[size] = 0;
            }
            target = &mut full.error;
        }
    }
    let mut filled = CError { code: error.code as i32, reserved: 0, detail: error.detail, message: [0; 240] };
    fill_message(&error.message, &mut filled.message);
    // SAFETY: the caller's struct, of this layout.
    unsafe { target.write(filled) };
}
