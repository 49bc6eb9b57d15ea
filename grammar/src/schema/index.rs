//! Where everything in a schema document stands: its places (for messages), the resources that `$id` begins, the
//! anchors, and what a `$ref` or `$dynamicRef` leads to. Only what stands where a schema may stand is looked at: an
//! `$id` in a `const` or under an unknown keyword is data.

use std::collections::HashMap;

use fluent_uri::{Uri, UriRef};
use serde_json::{Map, Value};

use crate::error::{Code, Error, Result};

/// Bytes of an `$id`: each one inside another is resolved against it.
const MAX_ADDRESS: usize = 2_000;
/// The address of a document without `$id`.
const NO_ADDRESS: &str = "document:/";
const ONE_SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const MAPS: [&str; 6] = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// What has an address of its own: the document, and each schema in it with an `$id`.
struct Resource<'a> {
    address: Uri<String>,
    value: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    dynamic_anchors: HashMap<&'a str, &'a Value>,
}

/// What leads from a schema to one inside it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Keyword(&'a str),
    Element(&'a str, usize),
    Member(&'a str, &'a str),
}

struct Place<'a> {
    resource: usize,
    outer: *const Value,
    step: Step<'a>,
}

pub struct Index<'a> {
    resources: Vec<Resource<'a>>,
    by_address: HashMap<String, usize>,
    /// By the address in memory: values do not move while the index borrows them.
    places: HashMap<*const Value, Place<'a>>,
    /// Some name is a `$dynamicAnchor` of more than one resource, so that what a `$dynamicRef` means depends on the way
    /// that led to it.
    dynamic: bool,
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}

fn refused(message: String) -> Error {
    Error::new(Code::Unsupported, message)
}

impl<'a> Index<'a> {
    pub fn new(document: &'a Value) -> Result<Self> {
        let address = Uri::parse(NO_ADDRESS.to_string()).map_err(|_| refused("no address".to_string()))?;
        let mut index =
            Index { resources: Vec::new(), by_address: HashMap::new(), places: HashMap::new(), dynamic: false };
        index.begin(document, address);
        let root = Place { resource: 0, outer: std::ptr::null(), step: Step::Root };
        index.walk(document, root)?;
        let mut holders: HashMap<&str, usize> = HashMap::new();
        for resource in &index.resources {
            for name in resource.dynamic_anchors.keys() {
                *holders.entry(name).or_default() += 1;
            }
        }
        index.dynamic = holders.values().any(|&count| count > 1);
        Ok(index)
    }

    fn begin(&mut self, value: &'a Value, address: Uri<String>) -> usize {
        self.by_address.entry(address.as_str().to_string()).or_insert(self.resources.len());
        let (anchors, dynamic_anchors) = (HashMap::new(), HashMap::new());
        self.resources.push(Resource { address, value, anchors, dynamic_anchors });
        self.resources.len() - 1
    }

    fn walk(&mut self, value: &'a Value, place: Place<'a>) -> Result<()> {
        let mut resource = place.resource;
        self.places.insert(value, place);
        let Some(members) = value.as_object() else { return Ok(()) };
        if let Some(id) = text(members, "$id") {
            match id.strip_prefix('#') {
                Some(anchor) => drop(self.resources[resource].anchors.insert(anchor, value)),
                None => {
                    let address = self.resolve_address(value, id, "$id")?.strip_fragment().to_string();
                    let address = Uri::parse(address).map_err(|_| refused(format!("\"$id\" is {id}")))?;
                    resource = self.begin(value, address);
                    self.places.entry(value).and_modify(|place| place.resource = resource);
                }
            }
        }
        if let Some(anchor) = text(members, "$anchor") {
            self.resources[resource].anchors.insert(anchor, value);
        }
        if let Some(anchor) = text(members, "$dynamicAnchor") {
            self.resources[resource].anchors.insert(anchor, value);
            self.resources[resource].dynamic_anchors.insert(anchor, value);
        }
        for (name, member) in members {
            self.walk_keyword(name, member, resource, value)?;
        }
        Ok(())
    }

    fn walk_keyword(&mut self, name: &'a str, member: &'a Value, resource: usize, outer: &'a Value) -> Result<()> {
        let inside = |step| Place { resource, outer, step };
        match member {
            Value::Array(list) if LISTS.contains(&name) => {
                for (at, schema) in list.iter().enumerate() {
                    self.walk(schema, inside(Step::Element(name, at)))?;
                }
            }
            Value::Object(map) if MAPS.contains(&name) => {
                for (key, schema) in map {
                    self.walk(schema, inside(Step::Member(name, key)))?;
                }
            }
            _ if ONE_SCHEMA.contains(&name) => self.walk(member, inside(Step::Keyword(name)))?,
            _ => {}
        }
        Ok(())
    }

    fn resolve_address(&self, schema: &Value, reference: &str, keyword: &str) -> Result<Uri<String>> {
        let base = &self.resources[self.resource(schema)].address;
        let failed = |why: String| refused(format!("\"{keyword}\" {reference} at {} {why}", self.place(schema)));
        if keyword == "$id" && reference.len() > MAX_ADDRESS {
            return Err(failed(format!("has more than {MAX_ADDRESS} bytes")));
        }
        let relative = UriRef::parse(reference).map_err(|_| failed("is no URI reference".to_string()))?;
        relative.resolve_against(base).map_err(|_| failed(format!("cannot be resolved against {base}")))
    }

    /// Where a schema stands, as a JSON pointer after '#'.
    pub fn place(&self, schema: &Value) -> String {
        let mut steps = Vec::new();
        let mut at: *const Value = schema;
        while let Some(place) = self.places.get(&at) {
            match place.step {
                Step::Root => break,
                Step::Keyword(name) => steps.push(name.to_string()),
                Step::Element(name, element) => steps.push(format!("{name}/{element}")),
                Step::Member(name, key) => {
                    steps.push(format!("{name}/{}", key.replace('~', "~0").replace('/', "~1")));
                }
            }
            at = place.outer;
        }
        steps.push("#".to_string());
        steps.reverse();
        steps.join("/")
    }

    /// The resource that a schema is part of.
    pub fn resource(&self, schema: &Value) -> usize {
        self.places.get(&(schema as *const Value)).map_or(0, |place| place.resource)
    }

    /// Whether a way through the document (the resources on it) matters for what its `$dynamicRef` mean.
    pub fn matters(&self, resource: usize) -> bool {
        self.dynamic && !self.resources[resource].dynamic_anchors.is_empty()
    }

    /// What a reference in `schema` leads to.
    pub fn follow(&self, schema: &Value, keyword: &str, reference: &str) -> Result<&'a Value> {
        let address = self.resolve_address(schema, reference, keyword)?;
        let failed = |why| refused(format!("\"{keyword}\" {reference} at {} {why}", self.place(schema)));
        let Some(&resource) = self.by_address.get(address.strip_fragment().as_str()) else {
            return Err(failed("leads to another document"));
        };
        let (number, resource) = (resource, &self.resources[resource]);
        let fragment = address.fragment().map_or(String::new(), |f| f.decode().to_string_lossy().into_owned());
        let found = if fragment.is_empty() || fragment.starts_with('/') {
            resource.value.pointer(&fragment)
        } else {
            resource.anchors.get(fragment.as_str()).copied()
        };
        let found = found.ok_or_else(|| failed("leads to nothing in the schema"))?;
        // There nothing is known of the addresses and anchors inside.
        if number != 0 && !self.places.contains_key(&std::ptr::from_ref(found)) {
            return Err(failed("leads to a place where no schema is expected"));
        }
        Ok(found)
    }

    /// What `$dynamicRef` in `schema` leads to, `way` being the resources that led there, the outermost first: if the
    /// reference is the name of a `$dynamicAnchor`, to the outermost one of that name, else as `$ref`.
    pub fn follow_dynamic(&self, schema: &Value, reference: &str, way: &[usize]) -> Result<&'a Value> {
        let target = self.follow(schema, "$dynamicRef", reference)?;
        let name = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        if target.as_object().and_then(|members| text(members, "$dynamicAnchor")) != Some(name) {
            return Ok(target);
        }
        let outermost = way.iter().find_map(|&resource| self.resources[resource].dynamic_anchors.get(name));
        Ok(outermost.copied().unwrap_or(target))
    }
}
