//! The document as read: its operations, and what its references lead to.

use std::collections::BTreeSet;

use serde_json::Value;

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
    /// The target of a local reference.
    pub fn resolve(&self, reference: &str) -> Option<&Value> {
        target(&self.value, reference)
    }

    /// [`follow`] in this document.
    pub fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        follow(&self.value, value)
    }

    /// Every operation, in the order of the document.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let paths = self.value["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, item)| {
            let part = if item.get("servers").is_some() { Part::Margin } else { Part::Workflow };
            let methods = item.as_object().into_iter().flatten();
            methods
                .filter(|(method, _)| METHODS.contains(&method.as_str()))
                .map(move |(method, value)| Operation { path, method, part, value })
        })
    }
}

/// The value itself, or what it refers to; one that refers to nothing is itself.
pub fn follow<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    reference(value).and_then(|reference| target(document, reference)).unwrap_or(value)
}

/// The name in `components` that a value refers to, such as `JobCreateParams`.
pub fn referred_name(value: &Value) -> Option<&str> {
    reference(value)?.rsplit('/').next()
}

/// Every local reference in `document` that can be followed from those of `open`, these included.
pub fn reached(document: &Value, mut open: Vec<String>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    while let Some(reference) = open.pop() {
        if let Some(target) = target(document, &reference)
            && !reached.contains(&reference)
        {
            open.extend(references(target));
            reached.insert(reference);
        }
    }
    reached
}

/// Every `$ref` at or below `value`.
pub fn references(value: &Value) -> Vec<String> {
    fn collect(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                out.extend(reference(value).map(str::to_owned));
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

pub(crate) fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

fn target<'a>(document: &'a Value, reference: &str) -> Option<&'a Value> {
    document.pointer(reference.strip_prefix('#')?)
}
