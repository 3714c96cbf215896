//! The document as read, and its two parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use openapiv3::OpenAPI;
use serde_json::{Map, Value};

/// The clients that one document yields, one per base address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Paths on the document's own server: the simulation workflow.
    Workflow,
    /// Paths with a server of their own: the margin endpoint.
    Margin,
}

impl Part {
    /// Both parts.
    pub const ALL: [Self; 2] = [Self::Workflow, Self::Margin];

    /// Name of the generated module.
    pub fn module(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Margin => "margin",
        }
    }
}

/// Something in the document that would break a generator or a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer of the place.
    pub at: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.at, self.message) }
    }
}

impl std::error::Error for Problem {}

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// One operation of a document.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Its path, with parameters in braces.
    pub path: &'a str,
    /// Its method, in lower case.
    pub method: &'a str,
    /// The base address that it lives on.
    pub part: Part,
    /// The operation object.
    pub value: &'a Value,
}

impl Operation<'_> {
    /// JSON pointer of the operation.
    pub fn pointer(&self) -> String {
        format!("/paths/{}/{}", escape(self.path), self.method)
    }
}

/// A key as a step of a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// An OpenAPI document.
#[derive(Clone, Debug)]
pub struct Document {
    /// The document as written, in the order of the file.
    pub value: Value,
}

impl Document {
    /// Reads YAML (or JSON, which is YAML).
    ///
    /// # Errors
    ///
    /// A [`Problem`] with line and column when the text is not YAML.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let value = serde_saphyr::from_str(text).map_err(|e| Problem::new("", e.to_string()))?;
        Ok(Self { value })
    }

    /// The part's paths and the components that they reach.
    ///
    /// progenitor ignores `servers` at every level, so this is what keeps the base addresses
    /// apart: a call on the wrong one cannot be written.
    pub(crate) fn part(&self, part: Part) -> Result<OpenAPI, Problem> {
        let mut value = self.without_extensions();
        let Some(Value::Object(paths)) = value.get_mut("paths") else {
            return Err(Problem::new("/paths", "missing"));
        };
        paths.retain(|_, item| part == if item.get("servers").is_some() { Part::Margin } else { Part::Workflow });
        // progenitor takes one media type of each body. Of requests that is JSON; one without it is left for
        // progenitor to judge. Of answers it is the first, which the service sends to whom asks for none.
        for (_, operation) in paths.values_mut().flat_map(|item| item.as_object_mut().into_iter().flatten()) {
            let content = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut);
            if let Some(content) = content.filter(|content| content.contains_key("application/json")) {
                content.retain(|media, _| media == "application/json");
            }
            let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
            for response in responses.into_iter().flat_map(Map::values_mut) {
                if let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) {
                    let mut is_first = true;
                    content.retain(|_, _| std::mem::take(&mut is_first));
                }
            }
        }

        let reached = self.reached(references(&value["paths"]));
        if let Some(Value::Object(components)) = value.get_mut("components") {
            for (kind, entries) in components.iter_mut().filter(|(kind, _)| *kind != "securitySchemes") {
                if let Value::Object(entries) = entries {
                    entries.retain(|name, _| reached.contains(&format!("#/components/{kind}/{name}")));
                }
            }
        }
        crate::parse(value)
    }

    /// Every reference that can be followed from `open`, these included.
    fn reached(&self, mut open: Vec<String>) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        while let Some(reference) = open.pop() {
            if let Some(target) = self.resolve(&reference)
                && !reached.contains(&reference)
            {
                open.extend(references(target));
                reached.insert(reference);
            }
        }
        reached
    }

    /// Every reference that can be followed from an operation.
    pub(crate) fn reachable(&self) -> BTreeSet<String> {
        self.reached(references(&self.value["paths"]))
    }

    /// The target of a local reference.
    pub fn resolve(&self, reference: &str) -> Option<&Value> {
        self.value.pointer(reference.strip_prefix('#')?)
    }

    /// Every operation, in the order of the document.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let paths = self.value["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, item)| {
            let part = if item.get("servers").is_some() { Part::Margin } else { Part::Workflow };
            let methods = item.as_object().into_iter().flatten();
            methods.filter(|(method, _)| METHODS.contains(&method.as_str())).map(move |(method, value)| Operation {
                path,
                method,
                part,
                value,
            })
        })
    }

    /// Where each parameter of an operation stands and how a refusal spells it, by its name in Rust.
    pub(crate) fn parameters(&self) -> BTreeMap<String, (String, String)> {
        let parameters = self.operations().flat_map(|op| op.value["parameters"].as_array().into_iter().flatten());
        let resolved = parameters.map(|p| p["$ref"].as_str().and_then(|r| self.resolve(r)).unwrap_or(p));
        let places = resolved.filter_map(|parameter| {
            let (name, place) = (parameter["name"].as_str()?, parameter["in"].as_str()?);
            let spelt = if place == "header" { name.to_lowercase() } else { name.to_owned() };
            Some((name.to_lowercase().replace('-', "_"), (place.to_owned(), spelt)))
        });
        places.collect()
    }

    /// Names of the schemas that answers are made of, errors included.
    pub(crate) fn answer_schemas(&self) -> BTreeSet<String> {
        self.schemas_of(self.operations().map(|op| &op.value["responses"]))
    }

    /// Names of the schemas that parameters and bodies of requests are made of.
    pub(crate) fn asked_schemas(&self) -> BTreeSet<String> {
        self.schemas_of(self.operations().flat_map(|op| [&op.value["parameters"], &op.value["requestBody"]]))
    }

    fn schemas_of<'a>(&self, values: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
        let reached = self.reached(values.flat_map(references).collect());
        reached.iter().filter_map(|r| r.strip_prefix("#/components/schemas/")).map(str::to_owned).collect()
    }

    /// Names of the schemas that request bodies are made of.
    pub(crate) fn request_schemas(&self) -> BTreeSet<String> {
        self.schemas_of(self.operations().map(|op| &op.value["requestBody"]["content"]["application/json"]))
    }

    /// Rust source of a table: the name of each schema that request bodies are made of, and its
    /// fields as name, schema of the object that the field holds (empty for a plain value), whether
    /// it holds a list of them, and what is allowed of its value as JSON text: one object for the
    /// field itself, then one for each level of lists in it.
    pub fn fields(&self) -> String {
        let mut table = String::from("&[\n");
        for name in self.request_schemas() {
            let schema = &self.value["components"]["schemas"][&name];
            let Some(properties) = schema["properties"].as_object() else { continue };
            table.push_str(&format!("    ({name:?}, &[\n"));
            for (field, property) in properties {
                let (holds, is_list) = self.object_of(property);
                let allowed = Value::Array(self.allowed(property)).to_string();
                table.push_str(&format!("        ({field:?}, {holds:?}, {is_list}, {allowed:?}),\n"));
            }
            table.push_str("    ]),\n");
        }
        table.push_str("]\n");
        table
    }

    /// Name of the object schema that a property is a reference to, or a list of references.
    fn object_of(&self, property: &Value) -> (String, bool) {
        if property["type"] == "array" {
            return (self.object_of(&property["items"]).0, true);
        }
        let property = property["anyOf"].get(0).unwrap_or(property);
        let reference = property["$ref"].as_str().unwrap_or_default();
        let is_object = self.resolve(reference).is_some_and(|target| target["type"] == "object");
        let name = reference.rsplit('/').next().filter(|_| is_object);
        (name.unwrap_or_default().to_owned(), false)
    }

    /// What a property states for machines of its value, and of the items of its lists.
    fn allowed(&self, property: &Value) -> Vec<Value> {
        let stated = property.as_object().into_iter().flatten();
        let stated = stated.filter(|(key, _)| ALLOWED.contains(&key.as_str()) || *key == "x-unit");
        let own = Value::Object(stated.map(|(key, value)| (key.clone(), value.clone())).collect());
        let items = property.get("items").map(|items| self.allowed(items));
        std::iter::once(own).chain(items.into_iter().flatten()).collect()
    }

    /// The document without its `x-` keys, but for the one that progenitor reads. They would
    /// keep a bounded number from matching its Rust type.
    pub(crate) fn without_extensions(&self) -> Value {
        fn strip(value: &mut Value) {
            match value {
                Value::Object(map) => {
                    map.retain(|key, _| !is_extension(key) || key == "x-dropshot-pagination");
                    map.values_mut().for_each(strip);
                }
                Value::Array(items) => items.iter_mut().for_each(strip),
                _ => {}
            }
        }
        let mut value = self.value.clone();
        strip(&mut value);
        value
    }
}

/// The keys that state what is allowed where a schema cannot.
const ALLOWED: [&str; 5] = ["x-values", "x-open", "x-from", "x-above", "x-to"];

/// Whether a key of the document is a specification extension.
pub(crate) fn is_extension(key: &str) -> bool {
    const OTHERS: [&str; 6] = ["x-origin", "x-choice", "x-unit", "x-default", "x-dropshot-pagination", "x-release"];
    ALLOWED.contains(&key) || OTHERS.contains(&key)
}

/// Every `$ref` at or below `value`.
fn references(value: &Value) -> Vec<String> {
    fn collect(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                out.extend(reference(map).map(str::to_owned));
                map.values().for_each(|v| collect(v, out));
            }
            Value::Array(items) => items.iter().for_each(|v| collect(v, out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    collect(value, &mut out);
    out
}

/// The target of an object that is a reference.
pub(crate) fn reference(map: &Map<String, Value>) -> Option<&str> {
    map.get("$ref").and_then(Value::as_str)
}
