//! JSON schema as written by people, made into the keywords that the engine enforces.
//!
//! The engine (llguidance) knows the keywords that describe what a value is, and references by JSON pointer. It has none
//! of those that say what a value is not, that depend on another keyword's outcome, or that count matches: `not`, `if`,
//! `dependentRequired`, `contains`, `unevaluatedProperties` and so on. They are spelled out here as unions and
//! intersections. Two functions call each other, and both work on the schema as it was written:
//!
//! * `accept(s)`: a schema all of whose documents fulfil `s`,
//! * `reject(s)`: a schema none of whose documents fulfils `s`.
//!
//! Each is allowed to leave documents out (what the engine draws is a part of what a schema allows anyway: it writes
//! properties in one order), never to let one in. So neither may be applied to what the other returned: `not` of `not` is
//! `accept`, and never `reject(reject(s))`. Where documents are left out, a note says so; where too little would be left,
//! or nothing can be said, the schema is refused with the keyword's name and place.

mod disjoint;
mod evaluated;
mod finite;
mod index;
mod local;
mod pattern;
mod reject;
mod values;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::{json, Map, Value};

use crate::error::{Code, Error, Result};
use index::Index;

type Members = Map<String, Value>;

/// Counts in a schema beyond this are taken for mistakes: each makes states.
const MAX_COUNT: u64 = 1_000_000;
/// Elements that `contains` spells out.
const MAX_CONTAINS: u64 = 1_000;
/// Schemas inside one another, references that are spelled out included.
const MAX_DEPTH: usize = 300;
/// Parts of the schema that is made.
const MAX_PARTS: usize = 200_000;
/// Alternatives that are compared, to leave out equal ones.
const MAX_COMPARED: usize = 32;
/// Properties of one object that the engine takes in a second or so; its time grows with their square.
const MAX_PROPERTIES: usize = 4_000;
/// The same for patterns, each of which is held against the other ones.
const MAX_PATTERNS: usize = 200;
/// Remainders of `multipleOf`.
const MAX_STEPS: u64 = 1_000_000;
/// The squares of the numbers of members of all properties, and of all patternProperties.
const MAX_SQUARES: usize = MAX_PROPERTIES * MAX_PROPERTIES;
const MAX_PATTERN_SQUARES: usize = MAX_PATTERNS * MAX_PATTERNS;
const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
const COUNTS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
/// Keywords that apply schemas to the same value; the annotations of those schemas count for the schema that holds them.
const IN_PLACE: [&str; 8] =
    ["$dynamicRef", "$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "if", "oneOf"];

/// A schema of the engine's keywords.
pub struct Rewritten {
    pub schema: Value,
    /// Kinds of documents that fulfil the schema as written and not this one.
    pub notes: usize,
}

struct Rewriter<'a> {
    index: Index<'a>,
    /// The resources on the way here, the outermost first, as far as a `$dynamicRef` may need them.
    way: Vec<usize>,
    definitions: HashMap<(*const Value, Vec<usize>), usize>,
    queue: VecDeque<(&'a Value, Vec<usize>)>,
    /// References whose targets are being spelled out.
    following: Vec<*const Value>,
    depth: usize,
    parts: usize,
    /// The least common multiple of the digits of all `multipleOf`.
    steps: u64,
    /// Of properties and of patternProperties, see MAX_SQUARES.
    squares: (usize, usize),
    looks: Cell<usize>,
    notes: BTreeSet<&'static str>,
}

/// Spells out `document`.
pub fn rewrite(document: &Value) -> Result<Rewritten> {
    let mut rewriter = Rewriter {
        index: Index::new(document)?,
        way: Vec::new(),
        definitions: HashMap::new(),
        queue: VecDeque::new(),
        following: Vec::new(),
        depth: 0,
        parts: 0,
        steps: 1,
        squares: (0, 0),
        looks: Cell::new(0),
        notes: BTreeSet::new(),
    };
    let mut schema = rewriter.accept(document)?;
    let mut definitions = Members::new();
    while let Some((target, way)) = rewriter.queue.pop_front() {
        rewriter.way = way;
        let definition = rewriter.accept(target)?;
        definitions.insert(format!("q{}", definitions.len()), definition);
    }
    finite::forbid_endless(&mut schema, &mut definitions)?;
    if let (Some(members), false) = (schema.as_object_mut(), definitions.is_empty()) {
        members.insert("$defs".to_string(), definitions.into());
    }
    Ok(Rewritten { schema, notes: rewriter.notes.len() })
}

fn is_true(schema: &Value) -> bool {
    matches!(schema, Value::Bool(true)) || schema.as_object().is_some_and(Map::is_empty)
}

fn is_false(schema: &Value) -> bool {
    matches!(schema, Value::Bool(false))
}

/// What all of `parts` allow.
fn all_of(parts: Vec<Value>) -> Value {
    joined(parts, "allOf", json!({}), is_true, is_false)
}

/// What one of `parts` allows.
fn any_of(parts: Vec<Value>) -> Value {
    joined(parts, "anyOf", Value::Bool(false), is_false, is_true)
}

/// `parts` without those that change nothing; one that decides stands alone.
fn joined(
    parts: Vec<Value>,
    keyword: &str,
    none: Value,
    neutral: fn(&Value) -> bool,
    decides: fn(&Value) -> bool,
) -> Value {
    let few = parts.len() <= MAX_COMPARED;
    let mut kept: Vec<Value> = Vec::with_capacity(parts.len());
    for part in parts {
        if decides(&part) {
            return part;
        }
        if !(neutral(&part) || few && kept.contains(&part)) {
            kept.push(part);
        }
    }
    match kept.len() {
        0 => none,
        1 => kept.swap_remove(0),
        _ => json!({ keyword: kept }),
    }
}

/// Objects with a property, and all else without.
fn without(name: &str) -> Value {
    json!({ "properties": { name: false } })
}

fn with(name: &str) -> Value {
    json!({ "type": "object", "required": [name] })
}

/// How many parts a schema has; a long text counts as several.
fn weight(schema: &Value) -> usize {
    match schema {
        Value::Array(list) => 1 + list.iter().map(weight).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(name, one)| name.len() / 64 + weight(one)).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}

impl<'a> Rewriter<'a> {
    fn error(&self, code: Code, schema: &Value, keyword: &str, why: &str) -> Error {
        Error::new(code, format!("\"{keyword}\" at {} {why}", self.index.place(schema)))
    }

    fn refused(&self, schema: &Value, keyword: &str, why: &str) -> Error {
        self.error(Code::Unsupported, schema, keyword, why)
    }

    fn charge(&mut self, parts: usize) -> Result<()> {
        self.parts += parts;
        if self.parts > MAX_PARTS {
            let message = format!("the JSON schema grows beyond {MAX_PARTS} parts when its keywords are spelled out");
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok(())
    }

    /// `n` copies of a schema.
    fn copies(&mut self, schema: &Value, n: usize) -> Result<Vec<Value>> {
        self.charge(n.saturating_mul(weight(schema)))?;
        Ok(vec![schema.clone(); n])
    }

    /// Calls `work` with `schema` on the way, within the limits.
    fn within<T>(&mut self, schema: &'a Value, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.charge(1)?;
        if self.depth == MAX_DEPTH {
            let message =
                format!("the JSON schema is nested deeper than {MAX_DEPTH} when its keywords are spelled out");
            return Err(Error::new(Code::Unsupported, message));
        }
        let resource = self.index.resource(schema);
        let entered = self.index.matters(resource) && !self.way.contains(&resource);
        if entered {
            self.way.push(resource);
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        if entered {
            self.way.pop();
        }
        result
    }

    fn members(&self, schema: &'a Value) -> Result<&'a Members> {
        schema.as_object().ok_or_else(|| {
            let said = schema.to_string().chars().take(40).collect::<String>();
            let place = self.index.place(schema);
            Error::new(Code::Format, format!("a JSON schema is an object, true or false, not {said} (at {place})"))
        })
    }

    fn list(&self, schema: &Value, keyword: &str, value: &'a Value) -> Result<&'a Vec<Value>> {
        value.as_array().ok_or_else(|| self.error(Code::Format, schema, keyword, "is no array"))
    }

    fn map(&self, schema: &Value, keyword: &str, value: &'a Value) -> Result<&'a Members> {
        value.as_object().ok_or_else(|| self.error(Code::Format, schema, keyword, "is no object"))
    }

    /// A whole number, which may be written as 2.0.
    fn count(&self, schema: &Value, keyword: &str, value: &Value) -> Result<u64> {
        let number = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
        let number = number.ok_or_else(|| {
            self.error(Code::Format, schema, keyword, &format!("is {value}, expected a whole number"))
        })?;
        if number > MAX_COUNT as f64 {
            return Err(self.refused(schema, keyword, &format!("is {value}, expected at most {MAX_COUNT}")));
        }
        Ok(number as u64)
    }

    fn optional_count(&self, schema: &Value, members: &Members, keyword: &str) -> Result<Option<u64>> {
        members.get(keyword).map(|value| self.count(schema, keyword, value)).transpose()
    }

    fn accept_each(&mut self, schemas: &'a [Value]) -> Result<Vec<Value>> {
        self.charge(schemas.len())?;
        schemas.iter().map(|schema| self.accept(schema)).collect()
    }

    /// A schema all of whose documents fulfil `schema`.
    fn accept(&mut self, schema: &'a Value) -> Result<Value> {
        if schema.is_boolean() {
            return Ok(schema.clone());
        }
        let members = self.members(schema)?;
        self.within(schema, |this| {
            if members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems") {
                return this.evaluated(schema, members);
            }
            let mut parts = Vec::new();
            for keyword in order(members) {
                match keyword {
                    None => parts.extend(this.local(schema, members)?),
                    Some((keyword, value)) => parts.extend(this.in_place(schema, members, keyword, value)?),
                }
            }
            Ok(all_of(parts))
        })
    }

    /// What a keyword of IN_PLACE demands.
    fn in_place(
        &mut self,
        schema: &'a Value,
        members: &'a Members,
        keyword: &str,
        value: &'a Value,
    ) -> Result<Vec<Value>> {
        match keyword {
            "$ref" | "$dynamicRef" => Ok(vec![self.reference(schema, keyword, value)?]),
            "allOf" => self.accept_each(self.list(schema, keyword, value)?),
            "anyOf" => Ok(vec![any_of(self.accept_each(self.list(schema, keyword, value)?)?)]),
            "oneOf" => Ok(vec![self.one_of(schema, members, self.list(schema, keyword, value)?)?]),
            "if" => Ok(vec![self.conditional(members, value)?]),
            _ => {
                let mut parts = Vec::new();
                for (name, dependent) in self.map(schema, keyword, value)? {
                    self.charge(2 + name.len() / 32)?;
                    let then = if dependent.is_array() { requiring(name, dependent) } else { self.accept(dependent)? };
                    parts.push(any_of(vec![without(name), all_of(vec![with(name), then])]));
                }
                Ok(parts)
            }
        }
    }

    /// What `$ref` or `$dynamicRef` leads to.
    fn target(&self, schema: &Value, keyword: &str, value: &Value) -> Result<&'a Value> {
        let Some(reference) = value.as_str() else {
            return Err(self.error(Code::Format, schema, keyword, "is no string"));
        };
        match keyword {
            "$ref" => self.index.follow(schema, keyword, reference),
            _ => self.index.follow_dynamic(schema, reference, &self.way),
        }
    }

    /// A reference to the definition that the target becomes.
    fn reference(&mut self, schema: &Value, keyword: &str, value: &Value) -> Result<Value> {
        let target = self.target(schema, keyword, value)?;
        self.charge(1 + self.way.len())?;
        if target.is_boolean() {
            return Ok(target.clone());
        }
        let next = self.definitions.len();
        let (queue, way) = (&mut self.queue, &self.way);
        let number = *self.definitions.entry((target, way.clone())).or_insert_with(|| {
            queue.push_back((target, way.clone()));
            next
        });
        Ok(json!({ "$ref": format!("#/$defs/q{number}") }))
    }

    /// Calls `work` with what a reference leads to, unless that is under way already.
    fn following<T>(
        &mut self,
        schema: &'a Value,
        keyword: &str,
        value: &Value,
        work: impl FnOnce(&mut Self, &'a Value) -> Result<T>,
    ) -> Result<T> {
        let target = self.target(schema, keyword, value)?;
        if self.following.contains(&std::ptr::from_ref(target)) {
            return Err(self.refused(schema, keyword, "leads back to itself where it must be spelled out"));
        }
        self.following.push(target);
        let result = work(self, target);
        self.following.pop();
        result
    }

    /// Exactly one of `schemas`. Each with the opposites of those that may be fulfilled at the same time.
    fn one_of(&mut self, schema: &'a Value, members: &'a Members, schemas: &'a [Value]) -> Result<Value> {
        let mut parts = Vec::with_capacity(schemas.len());
        let overlaps = self.overlaps(members, schemas)?;
        for (branch, overlapping) in schemas.iter().zip(overlaps) {
            let mut both = vec![self.accept(branch)?];
            both.extend(self.none_of(schema, schemas, overlapping)?);
            parts.push(all_of(both));
        }
        Ok(any_of(parts))
    }

    /// For each of the `schemas` of a `oneOf` those that may be fulfilled by the same document.
    fn overlaps(&mut self, around: &'a Members, schemas: &'a [Value]) -> Result<Vec<Vec<usize>>> {
        self.charge(schemas.len())?;
        let mut overlaps = vec![Vec::new(); schemas.len()];
        for (at, a) in schemas.iter().enumerate() {
            for (other, b) in schemas.iter().enumerate().skip(at + 1) {
                if !self.disjoint(around, a, b) {
                    self.charge(2)?;
                    overlaps[at].push(other);
                    overlaps[other].push(at);
                }
            }
        }
        Ok(overlaps)
    }

    /// The opposites of some branches of a `oneOf`.
    fn none_of(&mut self, schema: &Value, schemas: &'a [Value], branches: Vec<usize>) -> Result<Vec<Value>> {
        let mut parts = Vec::with_capacity(branches.len());
        for branch in branches {
            let rejected = self.reject(&schemas[branch]).map_err(|cause| {
                let why = "has schemas that are not seen to exclude each other; give each a required property with a \
                           const of its own, or say anyOf";
                self.refused(schema, "oneOf", &format!("{why} ({})", cause.message))
            })?;
            parts.push(rejected);
        }
        Ok(parts)
    }

    fn conditional(&mut self, members: &'a Members, condition: &'a Value) -> Result<Value> {
        let (then, other) = (members.get("then"), members.get("else"));
        match (then, other) {
            (None, None) => Ok(json!({})),
            (None, Some(other)) => Ok(any_of(vec![self.accept(condition)?, self.accept(other)?])),
            (Some(then), _) => {
                let met = all_of(vec![self.accept(condition)?, self.accept(then)?]);
                let mut unmet = vec![self.reject(condition)?];
                if let Some(other) = other {
                    unmet.push(self.accept(other)?);
                }
                Ok(any_of(vec![met, all_of(unmet)]))
            }
        }
    }
}

/// The keywords in the order in which they apply: those of IN_PLACE where they stand; the others together (None) where
/// `properties` or `prefixItems` stands, or the first one. The order of properties in documents comes from it.
fn order(members: &Members) -> Vec<Option<(&str, &Value)>> {
    let in_place = |keyword: &str| IN_PLACE.contains(&keyword);
    let leading = ["properties", "prefixItems"].into_iter().find(|keyword| members.contains_key(*keyword));
    let leading = leading.or_else(|| members.keys().map(String::as_str).find(|keyword| !in_place(keyword)));
    let each = |(keyword, value)| {
        if in_place(keyword) {
            Some(Some((keyword, value)))
        } else {
            (leading == Some(keyword)).then_some(None)
        }
    };
    members.iter().map(|(keyword, value)| (keyword.as_str(), value)).filter_map(each).collect()
}

/// Objects with the property `name` and those of a list.
fn requiring(name: &str, names: &Value) -> Value {
    let mut required = vec![Value::from(name)];
    required.extend(names.as_array().into_iter().flatten().cloned());
    json!({ "type": "object", "required": required })
}
