//! Whether two schemas can be fulfilled by one document: with what is seen at once, types, listed values, and properties
//! that one of them requires. "No" is certain; "yes" means that it was not seen.

use serde_json::Value;

use super::values::{allows_type, listed, possible_types};
use super::{is_false, Members, Rewriter};

/// References and compositions that are looked into.
const MAX_LEVELS: usize = 8;
const MAX_CONJUNCTS: usize = 32;
/// Comparisons for one document, beyond which nothing more is seen.
const MAX_LOOKS: usize = 2_000_000;
static ANY: Value = Value::Bool(true);

/// The schema of a property, or true where that depends on a pattern.
fn property<'a>(members: &'a Members, name: &str) -> &'a Value {
    let of_name = members.get("properties").and_then(|properties| properties.get(name));
    match of_name {
        Some(schema) => schema,
        None if members.contains_key("patternProperties") => &ANY,
        None => members.get("additionalProperties").unwrap_or(&ANY),
    }
}

fn required(members: &Members) -> impl Iterator<Item = &str> {
    members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn value_differs(a: &Value, b: &Value) -> bool {
    match (a, b) {
        // As numbers, 1 and 1.0 are equal.
        (Value::Number(a), Value::Number(b)) => a.as_f64() != b.as_f64(),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => false,
        _ => a != b,
    }
}

/// Types or listed values that differ.
fn values_differ(a: &Members, b: &Members) -> bool {
    match (listed(a), listed(b)) {
        // As numbers, 1 and 1.0 are equal, and as values of serde_json they are not.
        (Some(a), Some(b)) => a.iter().all(|a| b.iter().all(|b| value_differs(a, b))),
        _ => {
            let b = possible_types(b);
            !possible_types(a).iter().any(|name| b.contains(name))
        }
    }
}

fn objects_only(conjuncts: &[&Members]) -> bool {
    let others = ["null", "boolean", "number", "string", "array"];
    others.iter().all(|name| conjuncts.iter().any(|members| !allows_type(members, name)))
}

impl<'a> Rewriter<'a> {
    /// Whether no document fulfils both, and what the members of the schema around them say of it beside them.
    pub fn disjoint(&self, around: &'a Members, a: &'a Value, b: &'a Value) -> bool {
        self.disjoint_within(Some(around), a, b, MAX_LEVELS)
    }

    /// The same where nothing is known of what is around them: under a `not` it need not be fulfilled.
    pub fn disjoint_alone(&self, a: &'a Value, b: &'a Value) -> bool {
        self.disjoint_within(None, a, b, MAX_LEVELS)
    }

    fn disjoint_within(&self, around: Option<&'a Members>, a: &'a Value, b: &'a Value, levels: usize) -> bool {
        self.looks.set(self.looks.get() + 1);
        if levels == 0 || self.looks.get() > MAX_LOOKS {
            return false;
        }
        if is_false(a) || is_false(b) {
            return true;
        }
        let (mut all_a, mut all_b) = (Vec::new(), Vec::new());
        self.conjuncts(a, levels, &mut all_a);
        self.conjuncts(b, levels, &mut all_b);
        if self.branches_differ(&all_a, b, levels) || self.branches_differ(&all_b, a, levels) {
            return true;
        }
        all_a.extend(around);
        // What is compared with what: names and listed values.
        let size = |all: &[&Members]| all.iter().map(|one| 1 + listed(one).map_or(0, <[Value]>::len)).sum::<usize>();
        let names = |all: &[&Members]| all.iter().map(|one| required(one).count()).sum::<usize>();
        let work = size(&all_a) * size(&all_b) + (names(&all_a) + names(&all_b)) * all_a.len() * all_b.len();
        self.looks.set(self.looks.get() + work / 16);
        if self.looks.get() > MAX_LOOKS {
            return false;
        }
        if all_a.iter().any(|a| all_b.iter().any(|b| values_differ(a, b))) {
            return true;
        }
        (objects_only(&all_a) || objects_only(&all_b)) && self.properties_differ(&all_a, &all_b, levels)
    }

    /// The schemas that all apply where `schema` does.
    fn conjuncts(&self, schema: &'a Value, levels: usize, out: &mut Vec<&'a Members>) {
        let Some(members) = schema.as_object().filter(|_| levels > 0 && out.len() < MAX_CONJUNCTS) else { return };
        out.push(members);
        for part in members.get("allOf").and_then(Value::as_array).into_iter().flatten().take(MAX_CONJUNCTS) {
            self.conjuncts(part, levels - 1, out);
        }
        if let Some(Ok(target)) = members.get("$ref").map(|value| self.target(schema, "$ref", value)) {
            self.conjuncts(target, levels - 1, out);
        }
    }

    fn properties_differ(&self, a: &[&'a Members], b: &[&'a Members], levels: usize) -> bool {
        let names = a.iter().chain(b).flat_map(|members| required(members));
        names.into_iter().any(|name| {
            a.iter()
                .any(|a| b.iter().any(|b| self.disjoint_within(None, property(a, name), property(b, name), levels - 1)))
        })
    }

    /// Whether all of the alternatives of one of the conjuncts are disjoint from `other`.
    fn branches_differ(&self, conjuncts: &[&'a Members], other: &'a Value, levels: usize) -> bool {
        conjuncts.iter().any(|members| {
            ["anyOf", "oneOf"].into_iter().any(|keyword| {
                let branches = members.get(keyword).and_then(Value::as_array);
                branches.is_some_and(|list| list.iter().all(|one| self.disjoint_within(None, one, other, levels - 1)))
            })
        })
    }
}
