//! `unevaluatedProperties` and `unevaluatedItems`: what they apply to depends on which of the schemas beside them are
//! fulfilled. So a schema is spelled out as alternatives, one for each outcome of its `anyOf`, `oneOf`, `if` and
//! `dependentSchemas`, each with the properties and elements that were evaluated then; in each of them the keyword becomes
//! an `additionalProperties` or `items` for the remaining ones. Leaving an outcome out leaves documents out; a document of
//! an alternative fulfils the schema even if it fulfils more branches than that alternative says, since those can only
//! evaluate more.

use serde_json::{json, Value};

use super::{all_of, any_of, is_true, order, pattern, requiring, weight, with, without, Members, Rewriter};
use crate::error::Result;

const MAX_ALTERNATIVES: usize = 64;
/// Of `anyOf`, up to here every combination of branches is an alternative.
const MAX_COMBINED: usize = 3;

#[derive(Clone, Default)]
struct Alternative {
    parts: Vec<Value>,
    names: Vec<String>,
    patterns: Vec<String>,
    all_names: bool,
    first_items: usize,
    all_items: bool,
    /// What `contains` asked for: elements that fulfil one of these are evaluated.
    contained: Vec<Value>,
}

impl Alternative {
    fn of(part: Value) -> Self {
        Alternative { parts: vec![part], ..Self::default() }
    }

    fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.parts.extend(other.parts.iter().cloned());
        both.names.extend(other.names.iter().cloned());
        both.patterns.extend(other.patterns.iter().cloned());
        both.all_names |= other.all_names;
        both.first_items = both.first_items.max(other.first_items);
        both.all_items |= other.all_items;
        both.contained.extend(other.contained.iter().cloned());
        both
    }

    fn size(&self) -> usize {
        1 + self.parts.iter().map(weight).sum::<usize>() + self.names.len() + self.patterns.len()
    }
}

impl<'a> Rewriter<'a> {
    /// `accept` for a schema with one of the two keywords.
    pub fn evaluated(&mut self, schema: &'a Value, members: &'a Members) -> Result<Value> {
        let alternatives = self.alternatives_of(schema, members)?;
        Ok(any_of(alternatives.into_iter().map(|alternative| all_of(alternative.parts)).collect()))
    }

    /// The alternatives of a schema, with what is evaluated in each.
    fn alternatives(&mut self, schema: &'a Value) -> Result<Vec<Alternative>> {
        match schema {
            Value::Bool(true) => Ok(vec![Alternative::default()]),
            Value::Bool(false) => Ok(Vec::new()),
            _ => {
                let members = self.members(schema)?;
                self.within(schema, |this| this.alternatives_of(schema, members))
            }
        }
    }

    fn alternatives_of(&mut self, schema: &'a Value, members: &'a Members) -> Result<Vec<Alternative>> {
        let mut all = vec![Alternative::default()];
        for keyword in order(members) {
            match keyword {
                None => {
                    let own = self.own(schema, members)?;
                    all = self.both(schema, &all, &[own])?;
                }
                Some((keyword, value)) => all = self.applied(schema, members, all, keyword, value)?,
            }
        }
        for alternative in &mut all {
            self.remaining_names(members, alternative)?;
            self.remaining_items(members, alternative)?;
        }
        Ok(all)
    }

    fn both(&mut self, schema: &Value, a: &[Alternative], b: &[Alternative]) -> Result<Vec<Alternative>> {
        let mut all = Vec::new();
        for a in a {
            for b in b {
                let both = a.and(b);
                self.charge(both.size())?;
                all.push(both);
            }
        }
        self.few(schema, all)
    }

    fn few(&self, schema: &Value, all: Vec<Alternative>) -> Result<Vec<Alternative>> {
        if all.len() > MAX_ALTERNATIVES {
            let why = format!("has more than {MAX_ALTERNATIVES} combinations of the schemas beside it");
            return Err(self.refused(schema, "unevaluatedProperties or unevaluatedItems", &why));
        }
        Ok(all)
    }

    /// What the keywords demand and evaluate that apply no schema to the same value.
    fn own(&mut self, schema: &'a Value, members: &'a Members) -> Result<Alternative> {
        let mut own = Alternative { parts: self.local(schema, members)?, ..Alternative::default() };
        let names = |keyword: &str| -> Vec<String> {
            members.get(keyword).and_then(Value::as_object).map_or(Vec::new(), |map| map.keys().cloned().collect())
        };
        own.names = names("properties");
        own.patterns = names("patternProperties").iter().map(|name| pattern::safe(name)).collect();
        own.all_names = members.contains_key("additionalProperties");
        let (first, rest) = self.element_schemas(schema, members)?;
        own.first_items = first.len();
        own.all_items = rest.is_some();
        if let Some(element) = members.get("contains") {
            own.contained.push(self.accept(element)?);
        }
        Ok(own)
    }

    fn applied(
        &mut self,
        schema: &'a Value,
        members: &'a Members,
        all: Vec<Alternative>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<Vec<Alternative>> {
        match keyword {
            "$ref" | "$dynamicRef" => {
                let target = self.following(schema, keyword, value, |this, target| this.alternatives(target))?;
                self.both(schema, &all, &target)
            }
            "allOf" => {
                let mut all = all;
                for part in self.list(schema, keyword, value)? {
                    let part = self.alternatives(part)?;
                    all = self.both(schema, &all, &part)?;
                }
                Ok(all)
            }
            "anyOf" => {
                let branches = self.any_branches(schema, members, self.list(schema, keyword, value)?)?;
                self.both(schema, &all, &branches)
            }
            "oneOf" => {
                let schemas = self.list(schema, keyword, value)?;
                let mut branches = Vec::new();
                let overlaps = self.overlaps(members, schemas)?;
                for (branch, overlapping) in schemas.iter().zip(overlaps) {
                    let parts = self.none_of(schema, schemas, overlapping)?;
                    let none = Alternative { parts, ..Alternative::default() };
                    let branch = self.alternatives(branch)?;
                    branches.extend(self.both(schema, &branch, &[none])?);
                }
                self.both(schema, &all, &branches)
            }
            "if" => {
                let branches = self.if_branches(schema, members, value)?;
                self.both(schema, &all, &branches)
            }
            _ => {
                let mut all = all;
                for (name, dependent) in self.map(schema, keyword, value)? {
                    let mut branches = vec![Alternative::of(without(name))];
                    if dependent.is_array() {
                        branches.push(Alternative::of(requiring(name, dependent)));
                    } else {
                        let dependent = self.alternatives(dependent)?;
                        branches.extend(self.both(schema, &[Alternative::of(with(name))], &dependent)?);
                    }
                    all = self.both(schema, &all, &branches)?;
                }
                Ok(all)
            }
        }
    }

    /// One branch, or several that are fulfilled together.
    fn any_branches(
        &mut self,
        schema: &'a Value,
        members: &'a Members,
        schemas: &'a [Value],
    ) -> Result<Vec<Alternative>> {
        let mut of_branch = Vec::with_capacity(schemas.len());
        for branch in schemas {
            of_branch.push(self.alternatives(branch)?);
        }
        let combined = schemas.len() <= MAX_COMBINED;
        let mut all: Vec<Alternative> = Vec::new();
        let sets: Vec<Vec<usize>> = if combined {
            let chosen = |set: usize| (0..schemas.len()).filter(|at| set >> at & 1 == 1).collect();
            (1..1 << schemas.len()).map(chosen).collect()
        } else {
            self.notes.insert("unevaluated");
            (0..schemas.len()).map(|at| vec![at]).collect()
        };
        for chosen in sets {
            let apart = |a: &usize| chosen.iter().any(|b| a < b && self.disjoint(members, &schemas[*a], &schemas[*b]));
            if chosen.len() > 1 && chosen.iter().any(apart) {
                continue;
            }
            let mut together = vec![Alternative::default()];
            for at in chosen {
                together = self.both(schema, &together, &of_branch[at])?;
            }
            all.extend(together);
        }
        self.few(schema, all)
    }

    fn if_branches(
        &mut self,
        schema: &'a Value,
        members: &'a Members,
        condition: &'a Value,
    ) -> Result<Vec<Alternative>> {
        let mut met = self.alternatives(condition)?;
        if let Some(then) = members.get("then") {
            let then = self.alternatives(then)?;
            met = self.both(schema, &met, &then)?;
        }
        let mut unmet = vec![Alternative::of(self.reject(condition)?)];
        if let Some(other) = members.get("else") {
            let other = self.alternatives(other)?;
            unmet = self.both(schema, &unmet, &other)?;
        }
        met.extend(unmet);
        self.few(schema, met)
    }

    fn remaining_names(&mut self, members: &'a Members, alternative: &mut Alternative) -> Result<()> {
        let Some(value) = members.get("unevaluatedProperties") else { return Ok(()) };
        if !alternative.all_names && !is_true(value) {
            let named =
                |names: &[String]| -> Members { names.iter().map(|name| (name.clone(), Value::Bool(true))).collect() };
            let rest = self.accept(value)?;
            alternative.parts.push(json!({
                "properties": named(&alternative.names),
                "patternProperties": named(&alternative.patterns),
                "additionalProperties": rest,
            }));
        }
        alternative.all_names = true;
        Ok(())
    }

    fn remaining_items(&mut self, members: &'a Members, alternative: &mut Alternative) -> Result<()> {
        let Some(value) = members.get("unevaluatedItems") else { return Ok(()) };
        if !alternative.all_items && !is_true(value) {
            let mut rest = vec![self.accept(value)?];
            rest.append(&mut alternative.contained);
            let rest = any_of(rest);
            self.charge(weight(&rest))?;
            let first = vec![Value::Bool(true); alternative.first_items];
            alternative.parts.push(json!({ "prefixItems": first, "items": rest }));
        }
        alternative.all_items = true;
        Ok(())
    }
}
