//! Schemas none of whose documents fulfils a given one: the union of what breaks each of its keywords.

use serde_json::{json, Value};

use super::local::FORMATS;
use super::{all_of, any_of, is_false, is_true, requiring, values, weight, with, Members, Rewriter, TYPES};
use crate::error::Result;

impl<'a> Rewriter<'a> {
    pub fn reject_each(&mut self, schemas: &'a [Value]) -> Result<Vec<Value>> {
        self.charge(schemas.len())?;
        schemas.iter().map(|schema| self.reject(schema)).collect()
    }

    /// A schema none of whose documents fulfils `schema`. A keyword for which there is none is refused: without it too
    /// little might be left.
    pub fn reject(&mut self, schema: &'a Value) -> Result<Value> {
        if let Value::Bool(any) = schema {
            return Ok(Value::Bool(!any));
        }
        let members = self.members(schema)?;
        self.within(schema, |this| {
            let mut ways = Vec::new();
            for (keyword, value) in members {
                ways.extend(this.break_keyword(schema, members, keyword, value)?);
            }
            ways.extend(this.break_items(schema, members)?);
            Ok(any_of(ways))
        })
    }

    fn no_opposite(&self, schema: &Value, keyword: &str) -> crate::error::Error {
        self.refused(schema, keyword, "must be violated there (under not, if or oneOf), and no grammar says how")
    }

    /// The ways to violate one keyword.
    fn break_keyword(
        &mut self,
        schema: &'a Value,
        members: &'a Members,
        keyword: &str,
        value: &'a Value,
    ) -> Result<Vec<Value>> {
        self.charge(1)?;
        match keyword {
            "$ref" | "$dynamicRef" => {
                Ok(vec![self.following(schema, keyword, value, |this, target| this.reject(target))?])
            }
            "allOf" => self.reject_each(self.list(schema, keyword, value)?),
            "anyOf" => Ok(vec![all_of(self.reject_each(self.list(schema, keyword, value)?)?)]),
            "oneOf" => self.break_one_of(self.list(schema, keyword, value)?),
            "not" => Ok(vec![self.accept(value)?]),
            "if" => self.break_conditional(members, value),
            "type" => {
                self.known_types(schema, keyword, value)?;
                Ok(vec![self.other_types(members)])
            }
            "const" | "enum" => self.break_listed(schema, keyword, value),
            "required"
            | "properties"
            | "patternProperties"
            | "additionalProperties"
            | "propertyNames"
            | "dependentRequired"
            | "dependentSchemas" => self.break_object(schema, members, keyword, value),
            "contains" => self.break_contains(schema, members, value),
            // An annotation of draft 2020-12, so nothing violates it; if the engine takes it, its strings are fewer.
            "format" if value.as_str().is_some_and(|format| FORMATS.contains(&format)) => Ok(Vec::new()),
            "pattern" | "multipleOf" | "unevaluatedItems" | "unevaluatedProperties" => {
                Err(self.no_opposite(schema, keyword))
            }
            "uniqueItems" if value == &Value::Bool(true) => Err(self.no_opposite(schema, keyword)),
            _ => self.break_bound(schema, keyword, value),
        }
    }

    fn break_bound(&mut self, schema: &Value, keyword: &str, value: &Value) -> Result<Vec<Value>> {
        let (kind, opposite) = match keyword {
            "minimum" => ("number", "exclusiveMaximum"),
            "maximum" => ("number", "exclusiveMinimum"),
            "exclusiveMinimum" => ("number", "maximum"),
            "exclusiveMaximum" => ("number", "minimum"),
            "minLength" => ("string", "maxLength"),
            "maxLength" => ("string", "minLength"),
            "minItems" => ("array", "maxItems"),
            "maxItems" => ("array", "minItems"),
            "minProperties" => ("object", "maxProperties"),
            "maxProperties" => ("object", "minProperties"),
            _ => return Ok(Vec::new()),
        };
        self.exact(schema, keyword, value)?;
        if kind == "number" {
            return if value.is_number() {
                Ok(vec![json!({ "type": kind, opposite: value })])
            } else {
                Err(self.no_opposite(schema, keyword))
            };
        }
        let count = self.count(schema, keyword, value)?;
        let opposite_count = if keyword.starts_with("max") { Some(count + 1) } else { count.checked_sub(1) };
        if opposite == "minProperties" && count > 0 {
            return Err(self.no_opposite(schema, keyword));
        }
        Ok(opposite_count.map(|count| json!({ "type": kind, opposite: count })).into_iter().collect())
    }

    /// All types but those of `type`.
    fn other_types(&mut self, members: &Members) -> Value {
        let named = values::named_types(members).unwrap_or_default();
        if named.contains(&"integer") && !named.contains(&"number") {
            // No pattern of numbers says "with a fraction" beside bounds: numbers are left out altogether.
            self.notes.insert("integer");
        }
        let other = |name: &&str| !(named.contains(name) || *name == "number" && named.contains(&"integer"));
        let others: Vec<&str> = TYPES.into_iter().filter(other).collect();
        if others.is_empty() {
            return Value::Bool(false);
        }
        json!({ "type": others })
    }

    fn break_listed(&mut self, schema: &Value, keyword: &str, value: &'a Value) -> Result<Vec<Value>> {
        let values = match keyword {
            "const" => std::slice::from_ref(value),
            _ => self.list(schema, keyword, value)?,
        };
        self.charge(weight(value))?;
        match values::all_but(values) {
            Some(others) => {
                self.charge(weight(&others))?;
                Ok(vec![others])
            }
            None => Err(self.no_opposite(schema, keyword)),
        }
    }

    /// None is fulfilled, or two are.
    fn break_one_of(&mut self, schemas: &'a [Value]) -> Result<Vec<Value>> {
        let mut ways = vec![all_of(self.reject_each(schemas)?)];
        for (at, a) in schemas.iter().enumerate() {
            for b in &schemas[at + 1..] {
                self.charge(1)?;
                if !self.disjoint_alone(a, b) {
                    ways.push(all_of(vec![self.accept(a)?, self.accept(b)?]));
                }
            }
        }
        Ok(ways)
    }

    fn break_conditional(&mut self, members: &'a Members, condition: &'a Value) -> Result<Vec<Value>> {
        let mut ways = Vec::new();
        if let Some(then) = members.get("then") {
            ways.push(all_of(vec![self.accept(condition)?, self.reject(then)?]));
        }
        if let Some(other) = members.get("else") {
            ways.push(all_of(vec![self.reject(condition)?, self.reject(other)?]));
        }
        Ok(ways)
    }

    fn break_object(
        &mut self,
        schema: &'a Value,
        members: &'a Members,
        keyword: &str,
        value: &'a Value,
    ) -> Result<Vec<Value>> {
        let lacking = |name: &str| json!({ "type": "object", "properties": { name: false } });
        match keyword {
            "required" => {
                self.charge(4 * weight(value))?;
                let names = self.list(schema, keyword, value)?.iter().filter_map(Value::as_str);
                Ok(names.map(lacking).collect())
            }
            "properties" => {
                let mut ways = Vec::new();
                for (name, property) in self.map(schema, keyword, value)? {
                    let rejected = self.reject(property)?;
                    if !is_false(&rejected) {
                        ways.push(json!({ "type": "object", "required": [name], "properties": { name: rejected } }));
                    }
                }
                Ok(ways)
            }
            "patternProperties" if self.map(schema, keyword, value)?.values().all(is_true) => Ok(Vec::new()),
            "additionalProperties" | "propertyNames" if is_true(value) => Ok(Vec::new()),
            "propertyNames" if is_false(value) => Ok(vec![json!({ "type": "object", "minProperties": 1 })]),
            "additionalProperties"
                if !members.contains_key("properties") && !members.contains_key("patternProperties") =>
            {
                let rejected = self.reject(value)?;
                if !is_true(&rejected) {
                    self.notes.insert("additionalProperties");
                }
                Ok(vec![json!({ "type": "object", "additionalProperties": rejected, "minProperties": 1 })])
            }
            "dependentRequired" => {
                let mut ways = Vec::new();
                for (name, names) in self.map(schema, keyword, value)? {
                    for other in self.list(schema, keyword, names)?.iter().filter_map(Value::as_str) {
                        ways.push(all_of(vec![requiring(name, &Value::Null), lacking(other)]));
                    }
                }
                Ok(ways)
            }
            "dependentSchemas" => {
                let mut ways = Vec::new();
                for (name, dependent) in self.map(schema, keyword, value)? {
                    ways.push(all_of(vec![with(name), self.reject(dependent)?]));
                }
                Ok(ways)
            }
            _ => Err(self.no_opposite(schema, keyword)),
        }
    }

    /// An element that violates its schema. One that is not among the first may stand anywhere, and stands right after
    /// them, since a grammar cannot look for it.
    fn break_items(&mut self, schema: &'a Value, members: &'a Members) -> Result<Vec<Value>> {
        let (first, rest) = self.element_schemas(schema, members)?;
        let mut ways = Vec::new();
        for (at, element) in first.iter().chain(rest).enumerate() {
            let rejected = self.reject(element)?;
            if is_false(&rejected) {
                continue;
            }
            if at == first.len() && !is_true(&rejected) {
                self.notes.insert("items");
            }
            self.charge(at)?;
            let mut elements = vec![Value::Bool(true); at];
            elements.push(rejected);
            ways.push(json!({ "type": "array", "prefixItems": elements, "minItems": at + 1 }));
        }
        Ok(ways)
    }

    /// Too few elements that fulfil a schema, or too many.
    fn break_contains(&mut self, schema: &'a Value, members: &'a Members, element: &'a Value) -> Result<Vec<Value>> {
        let least = self.optional_count(schema, members, "minContains")?.unwrap_or(1);
        let most = self.optional_count(schema, members, "maxContains")?;
        if least.max(most.unwrap_or(0)) > super::MAX_CONTAINS {
            return Err(self.no_opposite(schema, "contains"));
        }
        let mut ways = Vec::new();
        if least > 0 {
            let free = vec![Value::Bool(true); least as usize - 1];
            if least > 1 {
                self.notes.insert("contains");
            }
            ways.push(json!({ "type": "array", "prefixItems": free, "items": self.reject(element)? }));
        }
        if let Some(most) = most {
            self.notes.insert("contains");
            let accepted = self.accept(element)?;
            let many = self.copies(&accepted, most as usize + 1)?;
            ways.push(json!({ "type": "array", "prefixItems": many, "minItems": most + 1 }));
        }
        Ok(ways)
    }
}
