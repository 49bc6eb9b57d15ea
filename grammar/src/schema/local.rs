//! The keywords that say what a value itself is: those that the engine has too, and of those that it has not `not`,
//! `contains`, `propertyNames` and `dependentRequired`.

use std::collections::BTreeSet;

use serde_json::{json, Value};

use super::{
    any_of, is_false, pattern, requiring, values, weight, with, without, Members, Rewriter, COUNTS, IN_PLACE,
    MAX_CONTAINS, MAX_PATTERNS, MAX_PATTERN_SQUARES, MAX_PROPERTIES, MAX_SQUARES, MAX_STEPS, TYPES,
};
use crate::error::{Code, Result};

/// Those that the engine checks; others are annotations, as draft 2020-12 has all of them.
pub const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
const COPIED: [&str; 8] =
    ["const", "enum", "exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "required", "type"];

impl<'a> Rewriter<'a> {
    /// What the keywords demand that are not in IN_PLACE.
    pub fn local(&mut self, schema: &'a Value, members: &'a Members) -> Result<Vec<Value>> {
        let mut simple = Members::new();
        let mut parts = Vec::new();
        for (keyword, value) in members {
            match keyword.as_str() {
                "properties" | "patternProperties" => {
                    let mut made = Members::new();
                    let map = self.map(schema, keyword, value)?;
                    self.few_properties(schema, keyword, map.len())?;
                    for (name, property) in map {
                        let name = if keyword == "properties" { name.clone() } else { pattern::safe(name) };
                        made.insert(name, self.accept(property)?);
                    }
                    simple.insert(keyword.clone(), made.into());
                }
                "additionalProperties" => drop(simple.insert(keyword.clone(), self.accept(value)?)),
                "not" => parts.push(self.reject(value)?),
                "contains" => parts.extend(self.contains(schema, members, value)?),
                "propertyNames" => parts.push(self.property_names(schema, members, value)?),
                "dependentRequired" => {
                    for (name, names) in self.map(schema, keyword, value)? {
                        self.list(schema, keyword, names)?;
                        self.charge(weight(names) + name.len() / 32)?;
                        parts.push(any_of(vec![without(name), requiring(name, names)]));
                    }
                }
                _ => self.simple(schema, keyword, value, &mut simple)?,
            }
        }
        self.items(schema, members, &mut simple)?;
        self.sizes(schema, members)?;
        parts.extend(self.some_property(schema, members, &mut simple)?);
        self.charge(simple.len())?;
        parts.insert(0, simple.into());
        Ok(parts)
    }

    fn few_properties(&mut self, schema: &Value, keyword: &str, count: usize) -> Result<()> {
        let patterns = keyword == "patternProperties";
        let most = if patterns { MAX_PATTERNS } else { MAX_PROPERTIES };
        let squares = if patterns { &mut self.squares.1 } else { &mut self.squares.0 };
        *squares += count * count;
        let beyond = *squares > if patterns { MAX_PATTERN_SQUARES } else { MAX_SQUARES };
        if count > most || beyond {
            let why = format!("has {count} members, expected at most {most}, fewer if others have many");
            return Err(self.refused(schema, keyword, &why));
        }
        Ok(())
    }

    /// A keyword that the engine has too, or that changes nothing.
    fn simple(&mut self, schema: &Value, keyword: &str, value: &Value, out: &mut Members) -> Result<()> {
        match keyword {
            "format" if value.as_str().is_some_and(|format| !FORMATS.contains(&format)) => {
                self.notes.insert("format");
            }
            "format" => drop(out.insert(keyword.to_string(), value.clone())),
            "$recursiveRef" => {
                return Err(self.refused(schema, keyword, "is not known; draft 2020-12 has $dynamicRef"))
            }
            "multipleOf" => {
                self.step(schema, value)?;
                out.insert(keyword.to_string(), value.clone());
            }
            "pattern" if !value.is_string() => return Err(self.error(Code::Format, schema, keyword, "is no string")),
            "pattern" => {
                out.insert(keyword.to_string(), pattern::safe(value.as_str().unwrap_or_default()).into());
            }
            _ if COPIED.contains(&keyword) => {
                self.charge(weight(value))?;
                self.exact(schema, keyword, value)?;
                self.known_types(schema, keyword, value)?;
                self.copied(keyword, value, out);
            }
            _ if COUNTS.contains(&keyword) => {
                out.insert(keyword.to_string(), self.count(schema, keyword, value)?.into());
            }
            _ => {}
        }
        Ok(())
    }

    /// Of listed values those that can be drawn.
    fn copied(&mut self, keyword: &str, value: &Value, out: &mut Members) {
        let drawable = match (keyword, value) {
            ("const", one) => is_drawable(one).then(|| one.clone()),
            ("enum", Value::Array(list)) => Some(list.iter().filter(|one| is_drawable(one)).cloned().collect()),
            _ => Some(value.clone()),
        };
        if drawable.as_ref() != Some(value) {
            self.notes.insert("control characters");
        }
        match drawable {
            Some(value) => out.insert(keyword.to_string(), value),
            None => out.insert("allOf".to_string(), json!([false])),
        };
    }

    /// Refuses whole numbers that the engine would round to doubles.
    pub fn exact(&self, schema: &Value, keyword: &str, value: &Value) -> Result<()> {
        match value {
            Value::Number(number) if whole(number).is_some_and(|n| n > values::EXACT as u64) => Err(self.refused(
                schema,
                keyword,
                &format!("has {value}, expected at most 2^53, beyond which it is rounded"),
            )),
            Value::Array(list) => list.iter().try_for_each(|one| self.exact(schema, keyword, one)),
            Value::Object(members) => members.values().try_for_each(|one| self.exact(schema, keyword, one)),
            _ => Ok(()),
        }
    }

    /// Refuses types that there are not.
    pub fn known_types(&self, schema: &Value, keyword: &str, value: &Value) -> Result<()> {
        let known = |one: &Value| one.as_str().is_some_and(|name| name == "integer" || TYPES.contains(&name));
        let right = match value {
            _ if keyword != "type" => true,
            Value::Array(names) => names.iter().all(known),
            one => known(one),
        };
        if right {
            return Ok(());
        }
        Err(self.error(Code::Format, schema, keyword, &format!("is {value}, expected names of JSON's types")))
    }

    /// Takes a `multipleOf` into account: the engine has a state for each remainder, and where several apply to one number
    /// those of their least common multiple. Zeros at the end make none.
    fn step(&mut self, schema: &Value, value: &Value) -> Result<()> {
        let digits: String = value.to_string().split(['e', 'E']).next().unwrap_or("").replace(['.', '-'], "");
        let step = digits.trim_start_matches('0').trim_end_matches('0').parse::<u64>().unwrap_or(1);
        let mut rest = (self.steps, step);
        while rest.1 != 0 {
            rest = (rest.1, rest.0 % rest.1);
        }
        self.steps = (self.steps / rest.0).saturating_mul(step);
        if self.steps > MAX_STEPS {
            let why = format!("makes more than {MAX_STEPS} remainders, with those of other places");
            return Err(self.refused(schema, "multipleOf", &why));
        }
        Ok(())
    }

    /// The schemas of the first elements, and that of the other ones, which have other names in the drafts before 2020.
    pub fn element_schemas(&self, schema: &Value, members: &'a Members) -> Result<(&'a [Value], Option<&'a Value>)> {
        if let Some(Value::Array(first)) = members.get("items") {
            if members.contains_key("prefixItems") {
                return Err(self.error(
                    Code::Format,
                    schema,
                    "items",
                    "is a list beside prefixItems, expected a schema",
                ));
            }
            return Ok((first, members.get("additionalItems")));
        }
        let first = match members.get("prefixItems") {
            Some(value) => self.list(schema, "prefixItems", value)?.as_slice(),
            None => &[],
        };
        Ok((first, members.get("items")))
    }

    fn items(&mut self, schema: &Value, members: &'a Members, out: &mut Members) -> Result<()> {
        let (first, rest) = self.element_schemas(schema, members)?;
        if !first.is_empty() {
            out.insert("prefixItems".to_string(), self.accept_each(first)?.into());
        }
        if let Some(rest) = rest {
            out.insert("items".to_string(), self.accept(rest)?);
        }
        Ok(())
    }

    /// `minProperties` 1 beside `properties` becomes one of these: the engine counts only where there are none. What the
    /// required properties fulfil already is dropped.
    fn some_property(&mut self, schema: &Value, members: &Members, simple: &mut Members) -> Result<Option<Value>> {
        let Some(least) = self.optional_count(schema, members, "minProperties")? else { return Ok(None) };
        let required =
            members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        if least <= required.collect::<BTreeSet<&str>>().len() as u64 {
            simple.remove("minProperties");
            return Ok(None);
        }
        let names = members.get("properties").and_then(Value::as_object);
        let Some(names) = names.filter(|names| least == 1 && !names.is_empty()) else { return Ok(None) };
        self.charge(weight(&Value::Object(names.clone())))?;
        self.notes.insert("minProperties");
        simple.remove("minProperties");
        let mut ways: Vec<Value> = names.keys().map(|name| with(name)).collect();
        ways.push(json!({ "type": ["null", "boolean", "number", "string", "array"] }));
        Ok(Some(any_of(ways)))
    }

    /// What a grammar cannot see: that names or elements differ.
    fn sizes(&self, schema: &Value, members: &'a Members) -> Result<()> {
        let required: BTreeSet<&str> =
            members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let required = required.len() as u64;
        if self.optional_count(schema, members, "minProperties")?.is_some_and(|count| count > required + 1) {
            let why = "asks for more than one property beyond the required ones, \
                       and a grammar cannot see that their names differ";
            return Err(self.refused(schema, "minProperties", why));
        }
        if members.get("uniqueItems") == Some(&Value::Bool(true)) {
            let (first, rest) = self.element_schemas(schema, members)?;
            let at_most = rest.filter(|rest| is_false(rest)).map(|_| first.len() as u64);
            let most = self.optional_count(schema, members, "maxItems")?.or(at_most);
            if most.is_none_or(|most| most > 1) {
                return Err(self.refused(schema, "uniqueItems", "cannot be enforced by a grammar"));
            }
        }
        Ok(())
    }

    /// Arrays of which at least `minContains` and at most `maxContains` elements fulfil a schema. A grammar cannot look
    /// for them: they stand first, or after some of the elements of `prefixItems`.
    fn contains(&mut self, schema: &'a Value, members: &'a Members, element: &'a Value) -> Result<Vec<Value>> {
        let least = self.optional_count(schema, members, "minContains")?.unwrap_or(1);
        let most = self.optional_count(schema, members, "maxContains")?;
        if least == 0 && most.is_none() {
            return Ok(Vec::new());
        }
        if least.max(most.unwrap_or(0)) > MAX_CONTAINS {
            return Err(self.refused(schema, "contains", &format!("counts beyond {MAX_CONTAINS} elements")));
        }
        if most.is_some_and(|most| most < least) {
            return Ok(vec![json!({ "type": ["null", "boolean", "number", "string", "object"] })]);
        }
        self.notes.insert("contains");
        let (least, most) = (least as usize, most.map(|most| most as usize));
        let accepted = self.accept(element)?;
        let rejected = most.map(|_| self.reject(element)).transpose()?;
        let before = self.element_schemas(schema, members)?.0.len();
        let mut ways = Vec::with_capacity(before + 1);
        for offset in 0..=before {
            let mut first = self.copies(rejected.as_ref().unwrap_or(&Value::Bool(true)), offset)?;
            first.extend(self.copies(&accepted, least)?);
            first.extend(vec![Value::Bool(true); most.map_or(0, |most| most - least)]);
            let rest = rejected.clone().unwrap_or(Value::Bool(true));
            ways.push(json!({ "prefixItems": first, "items": rest, "minItems": offset + least }));
        }
        Ok(vec![any_of(ways)])
    }

    /// Objects all of whose names are fulfilled by a schema for strings.
    fn property_names(&mut self, schema: &'a Value, members: &'a Members, names: &'a Value) -> Result<Value> {
        match names {
            Value::Bool(true) => return Ok(json!({})),
            Value::Bool(false) => return Ok(json!({ "maxProperties": 0 })),
            _ => {}
        }
        let wanted = self.members(names)?;
        if wanted.contains_key("const") && wanted.contains_key("enum") {
            return Err(self.refused(names, "const", "beside enum cannot be enforced of the names of properties"));
        }
        if let (Some(value), 1) = (wanted.get("$ref"), wanted.keys().filter(|key| asserts(key)).count()) {
            return self.following(names, "$ref", value, |this, target| this.property_names(schema, members, target));
        }
        let known = ["type", "const", "enum", "pattern", "minLength", "maxLength", "format"];
        if let Some(keyword) = wanted.keys().find(|key| asserts(key) && !known.contains(&key.as_str())) {
            return Err(self.refused(names, keyword, "cannot be enforced of the names of properties"));
        }
        if !values::allows_type(wanted, "string") {
            return Ok(json!({ "maxProperties": 0 }));
        }
        let least = self.optional_count(names, wanted, "minLength")?.unwrap_or(0);
        let most = self.optional_count(names, wanted, "maxLength")?;
        let pattern = wanted.get("pattern");
        if let Some(list) = values::listed(wanted) {
            if pattern.is_some() {
                return Err(self.refused(names, "pattern", "beside a list of names cannot be enforced"));
            }
            let mut properties = Members::new();
            for name in list.iter().filter_map(Value::as_str) {
                let length = name.chars().count() as u64;
                if length >= least && most.is_none_or(|most| length <= most) {
                    properties.insert(name.to_string(), Value::Bool(true));
                }
            }
            self.charge(properties.len())?;
            self.few_properties(names, "enum", properties.len())?;
            return Ok(json!({ "properties": properties, "additionalProperties": false }));
        }
        let bounded = least > 0 || most.is_some();
        let pattern = match pattern {
            Some(_) if bounded => {
                return Err(self.refused(names, "pattern", "beside bounds of length cannot be enforced"))
            }
            Some(Value::String(pattern)) => pattern::safe(pattern),
            Some(_) => return Err(self.error(Code::Format, names, "pattern", "is no string")),
            None if bounded => format!("^(?s:.{{{least},{}}})$", most.map_or(String::new(), |most| most.to_string())),
            None => return Ok(json!({})),
        };
        if members.contains_key("patternProperties") {
            return Err(self.refused(schema, "propertyNames", "beside patternProperties cannot be enforced"));
        }
        Ok(json!({ "patternProperties": { pattern: true }, "additionalProperties": false }))
    }
}

fn is_drawable(value: &Value) -> bool {
    match value {
        Value::String(text) => pattern::is_drawable(text),
        Value::Array(list) => list.iter().all(is_drawable),
        Value::Object(members) => members.values().all(is_drawable),
        _ => true,
    }
}

/// A whole number without its sign.
fn whole(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs))
}

/// Whether a keyword may make a document invalid.
fn asserts(keyword: &str) -> bool {
    let others = [
        "additionalProperties",
        "contains",
        "dependentRequired",
        "format",
        "items",
        "multipleOf",
        "not",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ];
    COPIED.contains(&keyword) || COUNTS.contains(&keyword) || IN_PLACE.contains(&keyword) || others.contains(&keyword)
}
