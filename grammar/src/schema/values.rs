//! Types and listed values: what a schema allows of them, and all values but some.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use super::{all_of, any_of, pattern, Members, TYPES};

/// The squares of the lengths of strings that are excluded, all together.
const MAX_EXCLUDED: usize = 40_000;
/// Beyond it not every whole number is a double.
pub const EXACT: f64 = 9_007_199_254_740_992.0;

pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The values of `const` or `enum`.
pub fn listed(members: &Members) -> Option<&[Value]> {
    match (members.get("const"), members.get("enum")) {
        (Some(value), _) => Some(std::slice::from_ref(value)),
        (None, Some(Value::Array(values))) => Some(values),
        _ => None,
    }
}

/// The names in `type`.
pub fn named_types(members: &Members) -> Option<Vec<&str>> {
    match members.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// The types that are possible, "integer" being "number".
pub fn possible_types(members: &Members) -> Vec<&'static str> {
    let named = named_types(members);
    let values = listed(members);
    let possible = |name: &&'static str| {
        let has = |names: &Vec<&str>| names.contains(name) || (*name == "number" && names.contains(&"integer"));
        named.as_ref().is_none_or(has) && values.is_none_or(|list| list.iter().any(|value| type_of(value) == *name))
    };
    TYPES.into_iter().filter(possible).collect()
}

pub fn allows_type(members: &Members, name: &str) -> bool {
    possible_types(members).contains(&name)
}

/// All values but `values`, or None where that cannot be said.
pub fn all_but(values: &[Value]) -> Option<Value> {
    let absent: Vec<&str> =
        TYPES.into_iter().filter(|name| !values.iter().any(|value| type_of(value) == *name)).collect();
    let mut ways = vec![if absent.is_empty() { Value::Bool(false) } else { json!({ "type": absent }) }];
    for truth in [true, false] {
        if values.iter().any(Value::is_boolean) && !values.contains(&Value::Bool(truth)) {
            ways.push(json!({ "const": truth }));
        }
    }
    ways.extend(other_numbers(values)?);
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    if !texts.is_empty() {
        ways.push(json!({ "type": "string", "pattern": other_texts(&texts)? }));
    }
    for name in ["array", "object"] {
        let mut parts = Vec::new();
        for value in values.iter().filter(|value| type_of(value) == name) {
            parts.push(other_than(value)?);
        }
        if !parts.is_empty() {
            parts.insert(0, json!({ "type": name }));
            ways.push(all_of(parts));
        }
    }
    Some(any_of(ways))
}

/// The ranges between numbers.
fn other_numbers(values: &[Value]) -> Option<Vec<Value>> {
    let mut numbers = Vec::new();
    for value in values.iter().filter(|value| value.is_number()) {
        numbers.push(value.as_f64().filter(|number| number.abs() < EXACT)?);
    }
    numbers.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Some(Vec::new()) };
    let mut ways = vec![
        json!({ "type": "number", "exclusiveMaximum": first }),
        json!({ "type": "number", "exclusiveMinimum": last }),
    ];
    for pair in numbers.windows(2).filter(|pair| pair[0] < pair[1]) {
        ways.push(json!({ "type": "number", "exclusiveMinimum": pair[0], "exclusiveMaximum": pair[1] }));
    }
    Some(ways)
}

/// An array or object that differs from one.
fn other_than(value: &Value) -> Option<Value> {
    let mut ways = Vec::new();
    match value {
        Value::Array(elements) => {
            if let Some(less) = elements.len().checked_sub(1) {
                ways.push(json!({ "type": "array", "maxItems": less }));
            }
            ways.push(json!({ "type": "array", "minItems": elements.len() + 1 }));
            for (at, element) in elements.iter().enumerate() {
                let mut first = vec![Value::Bool(true); at];
                first.push(all_but(std::slice::from_ref(element))?);
                ways.push(json!({ "type": "array", "prefixItems": first, "minItems": at + 1 }));
            }
        }
        Value::Object(members) => {
            let names: Vec<&String> = members.keys().collect();
            ways.push(json!({ "type": "object", "required": names, "minProperties": names.len() + 1 }));
            for (name, member) in members {
                ways.push(json!({ "type": "object", "properties": { name: false } }));
                let other = all_but(std::slice::from_ref(member))?;
                ways.push(json!({ "type": "object", "required": [name], "properties": { name: other } }));
            }
        }
        _ => return None,
    }
    Some(any_of(ways))
}

#[derive(Default)]
struct Trie {
    ends: bool,
    next: BTreeMap<char, Trie>,
}

impl Trie {
    fn add(&mut self, text: &str) {
        let mut node = self;
        for c in text.chars() {
            node = node.next.entry(c).or_default();
        }
        node.ends = true;
    }

    /// Patterns of the texts that leave the tree below here, or end where no excluded one does. `before`: what leads here.
    /// All of them side by side: a pattern may not nest deeply.
    fn others(&self, before: &str, out: &mut Vec<String>) {
        let excluded: String = self.next.keys().map(|c| escaped(*c)).collect();
        match (excluded.is_empty(), self.ends) {
            (true, true) => out.push(format!("{before}(?s:.)+")),
            (true, false) => out.push(format!("{before}(?s:.)*")),
            (false, true) => out.push(format!("{before}[^{excluded}](?s:.)*")),
            (false, false) => out.extend([before.to_string(), format!("{before}[^{excluded}](?s:.)*")]),
        }
        for (c, next) in &self.next {
            next.others(&format!("{before}{}", escaped(*c)), out);
        }
    }
}

fn escaped(c: char) -> String {
    format!("\\x{{{:x}}}", u32::from(c))
}

/// A pattern of all texts but some: those that leave the tree of the excluded ones, or end where none of them does.
fn other_texts(texts: &[&str]) -> Option<String> {
    // Each character stands in the pattern once for each character after it in its text.
    if texts.iter().map(|text| text.chars().count().pow(2)).sum::<usize>() > MAX_EXCLUDED {
        return None;
    }
    let mut excluded = Trie::default();
    for text in texts {
        excluded.add(text);
    }
    let mut others = Vec::new();
    excluded.others("", &mut others);
    Some(pattern::safe(&format!("^(?:{})$", others.join("|"))))
}
