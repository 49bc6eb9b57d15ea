//! What is looked at before a text reaches the compiler: its bytes, its depth, and of schemas what would be taken
//! otherwise than it is meant.

use serde_json::Value;

use crate::error::{Code, Error, Result};

/// Counts in a schema beyond this are taken for mistakes: each makes states.
const MAX_COUNT: u64 = 1_000_000;
const COUNTS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
/// Members that hold a map of schemas, and those that hold data.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const DATA: [&str; 6] = ["const", "enum", "default", "examples", "required", "dependentRequired"];

fn unsupported(message: String) -> Error {
    Error::new(Code::Unsupported, message)
}

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

/// A place in a schema, for messages: "#/properties/size".
fn place(path: &[String]) -> String {
    std::iter::once("#").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join("/")
}

/// What the compiler would take otherwise than it is meant, or not at all.
pub fn schema(value: &Value) -> Result<()> {
    walk(value, false, false, &mut Vec::new())
}

/// `in_map`: the members of `value` are schemas by name; `rebased`: an `$id` inside the document changes what references
/// are relative to.
fn walk(value: &Value, in_map: bool, rebased: bool, path: &mut Vec<String>) -> Result<()> {
    match value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push(index.to_string());
                walk(element, false, rebased, path)?;
                path.pop();
            }
        }
        Value::Object(members) => {
            let id = !in_map && !path.is_empty() && members.get("$id").is_some_and(Value::is_string);
            if !in_map {
                keywords(members, rebased || id, path)?;
            }
            for (name, member) in members {
                if !in_map && DATA.contains(&name.as_str()) {
                    continue;
                }
                path.push(name.clone());
                walk(member, !in_map && MAPS.contains(&name.as_str()), rebased || id, path)?;
                path.pop();
            }
        }
        _ => {}
    }
    Ok(())
}

fn keywords(members: &serde_json::Map<String, Value>, rebased: bool, path: &[String]) -> Result<()> {
    for name in COUNTS {
        // 2.0 is a whole number too, in JSON schema; the compiler says what else is wrong.
        let Some(value) = members.get(name) else { continue };
        if value.as_f64().is_some_and(|count| count > MAX_COUNT as f64) {
            let message = format!("\"{name}\" at {} is {value}, expected at most {MAX_COUNT}", place(path));
            return Err(unsupported(message));
        }
    }
    let required = members.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
    if members.get("minProperties").and_then(Value::as_u64).is_some_and(|count| count > required + 1) {
        let message = format!(
            "\"minProperties\" at {} asks for more than one property beyond the required ones, \
             and a grammar cannot see that their names differ",
            place(path)
        );
        return Err(unsupported(message));
    }
    if let (true, Some(reference)) = (rebased, members.get("$ref").and_then(Value::as_str)) {
        let message = format!("\"$ref\" {reference} at {} is relative to an \"$id\" inside the schema", place(path));
        return Err(unsupported(message));
    }
    Ok(())
}
