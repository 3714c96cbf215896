//! The document: fields of requests, their units and descriptions.

use std::sync::OnceLock;

use serde_json::Value;

/// The document that this command line was made with.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        serde_json::from_str(include_str!("../../../openapi/openapi.json")).expect("the repository's tests read it")
    })
}

/// A schema of a name.
pub(crate) fn named(name: &str) -> &'static Value {
    &document()["components"]["schemas"][name]
}

/// A schema without what stands around it: references, and the alternative of null.
pub(crate) fn resolved(schema: &'static Value) -> &'static Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
        return resolved(named(name));
    }
    match schema["anyOf"].get(0).or_else(|| schema["allOf"].get(0)) {
        Some(first) => resolved(first),
        None => schema,
    }
}

/// The fields of an object's schema.
pub(crate) fn fields(schema: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    resolved(schema)["properties"].as_object().into_iter().flatten().map(|(name, field)| (name.as_str(), field))
}

/// What a field is for, in one line.
pub(crate) fn description(field: &'static Value) -> String {
    let own = field["description"].as_str();
    let text = own.or_else(|| resolved(field)["description"].as_str()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The unit of a number; of a plain one, nothing.
pub(crate) fn unit(field: &'static Value) -> Option<&'static str> {
    field["x-unit"].as_str()
}

/// Operations: method, path, id, summary, and whether they have the margin address.
pub(crate) fn operations() -> Vec<(String, &'static str, &'static str, &'static str, bool)> {
    let mut operations = Vec::new();
    for (path, item) in document()["paths"].as_object().into_iter().flatten() {
        let is_margin = item.get("servers").is_some();
        for (method, operation) in item.as_object().into_iter().flatten() {
            if let Some(id) = operation["operationId"].as_str() {
                let summary = operation["summary"].as_str().unwrap_or_default();
                operations.push((method.to_uppercase(), path.as_str(), id, summary, is_margin));
            }
        }
    }
    operations
}
