//! Definitions that no document fulfils, since they are `false` or since every document would have to hold itself: a list
//! that needs a list in it, a reference to itself. The engine takes the first, wherever it is referred to, for a schema
//! that nothing fulfils, and finds out about the second when no token goes on. So references to them become `false`.

use std::collections::HashSet;

use serde_json::Value;

use super::values::possible_types;
use super::{weight, Members};
use crate::error::{Code, Error, Result};

/// Parts that are looked at, passes over all definitions included.
const MAX_LOOKS: usize = 20_000_000;

/// Replaces references to definitions without a finite document, and a schema without one, by `false`.
pub fn forbid_endless(schema: &mut Value, definitions: &mut Members) -> Result<()> {
    let mut finite: HashSet<String> = HashSet::new();
    let parts: usize = definitions.values().map(weight).sum();
    let mut looks = 0;
    loop {
        let before = finite.len();
        looks += parts;
        if looks > MAX_LOOKS {
            return Err(Error::new(
                Code::Unsupported,
                "the JSON schema has too many references that refer to references",
            ));
        }
        // Definitions mostly refer to later ones.
        for (name, definition) in definitions.iter().rev() {
            let address = format!("#/$defs/{name}");
            if !finite.contains(&address) && has_document(definition, &finite) {
                finite.insert(address);
            }
        }
        if finite.len() == before {
            break;
        }
    }
    if !has_document(schema, &finite) {
        *schema = Value::Bool(false);
    }
    if finite.len() < definitions.len() {
        forbid(schema, &finite);
        definitions.values_mut().for_each(|definition| forbid(definition, &finite));
    }
    Ok(())
}

/// Whether a schema that was made here may have a document, if of the definitions those in `finite` have one.
fn has_document(schema: &Value, finite: &HashSet<String>) -> bool {
    let Some(members) = schema.as_object() else { return schema != &Value::Bool(false) };
    let each = |keyword: &str| members.get(keyword).and_then(Value::as_array);
    let to = members.get("$ref").and_then(Value::as_str);
    if to.is_some_and(|to| !finite.contains(to)) {
        return false;
    }
    if each("allOf").is_some_and(|list| !list.iter().all(|one| has_document(one, finite))) {
        return false;
    }
    if ["anyOf", "oneOf"]
        .iter()
        .filter_map(|keyword| each(keyword))
        .any(|list| !list.iter().any(|one| has_document(one, finite)))
    {
        return false;
    }
    possible_types(members).into_iter().any(|name| match name {
        "array" => has_array(members, finite),
        "object" => has_object(members, finite),
        _ => true,
    })
}

fn has_array(members: &Members, finite: &HashSet<String>) -> bool {
    let least = members.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
    let first = members.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rest = members.get("items").filter(|_| least > first.len());
    first.iter().take(least).chain(rest).all(|element| has_document(element, finite))
}

fn has_object(members: &Members, finite: &HashSet<String>) -> bool {
    let required = members.get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str).all(|name| {
        let property = members.get("properties").and_then(|properties| properties.get(name));
        property.is_none_or(|property| has_document(property, finite))
    })
}

fn forbid(schema: &mut Value, finite: &HashSet<String>) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.get("$ref").and_then(Value::as_str).is_some_and(|to| !finite.contains(to)) {
        *schema = Value::Bool(false);
        return;
    }
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                list.iter_mut().for_each(|one| forbid(one, finite));
            }
            ("properties" | "patternProperties", Value::Object(map)) => {
                map.values_mut().for_each(|one| forbid(one, finite));
            }
            ("additionalProperties" | "items", one) => forbid(one, finite),
            _ => {}
        }
    }
}
