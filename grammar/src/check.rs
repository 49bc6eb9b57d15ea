//! What is looked at before a text is read: its bytes and its depth.

use crate::error::{Code, Error, Result};

/// The bytes of a text argument as UTF-8 without NUL, within the limit.
pub fn text<'a>(bytes: &'a [u8], max_bytes: usize, what: &str) -> Result<&'a str> {
    if bytes.len() > max_bytes {
        let message = format!("the {what} has {} bytes, and max_source_bytes is {max_bytes}", bytes.len());
        return Err(Error::at(Code::Unsupported, bytes.len() as i64, message));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        Error::at(Code::InvalidArgument, at as i64, format!("the {what} is not UTF-8 at byte {at}"))
    })?;
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        return Err(Error::at(Code::InvalidArgument, at as i64, format!("the {what} has a NUL at byte {at}")));
    }
    if text.trim().is_empty() && what != "regular expression" {
        return Err(Error::new(Code::Format, format!("the {what} is empty")));
    }
    Ok(text)
}

/// Refuses a text whose brackets, outside of what quotes and slashes enclose, go deeper than allowed. In a regular
/// expression nothing is quoted but what follows a backslash.
pub fn depth(text: &str, max_depth: u32, quotes: &[u8], what: &str) -> Result<()> {
    let (mut depth, mut quoted_from) = (0u32, None);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (byte, quoted_from) {
            (b'\\', _) => drop(bytes.next()),
            (_, None) if quotes.contains(&byte) => quoted_from = Some((byte, depth)),
            (_, Some((quote, outer))) if byte == quote || (quotes.contains(&b'/') && byte == b'\n') => {
                (depth, quoted_from) = (outer, None);
            }
            (b'(' | b'[' | b'{', _) if quoted_from.is_none_or(|(quote, _)| quote == b'/') => depth += 1,
            (b')' | b']' | b'}', _) if quoted_from.is_none_or(|(quote, _)| quote == b'/') => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        if depth > max_depth {
            let message = format!("the {what} is nested deeper than {max_depth} levels (max_depth) at byte {at}");
            return Err(Error::at(Code::Unsupported, at as i64, message));
        }
    }
    Ok(())
}
