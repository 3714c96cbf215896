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

/// The texts that a field may have, or that are known among others; empty where there is no list.
pub(crate) fn texts(field: &'static Value) -> impl Iterator<Item = &'static str> {
    let schema = resolved(field);
    let of_items = schema["items"].is_object().then(|| resolved(&schema["items"]));
    let listed = |schema: &'static Value| schema["enum"].as_array().or_else(|| schema["x-values"].as_array());
    let texts = listed(schema).or_else(|| of_items.and_then(listed));
    texts.into_iter().flatten().filter_map(Value::as_str)
}

/// Name of the schema of the JSON that an operation takes, by its method and a path of it.
pub(crate) fn request(method: &str, path: &str, is_margin: bool) -> Option<&'static str> {
    let is_parameter = |step: &str| step.starts_with('{');
    let is_path = |template: &str| {
        let (given, known): (Vec<&str>, Vec<&str>) = (path.split('/').collect(), template.split('/').collect());
        given.len() == known.len() && given.iter().zip(known).all(|(given, step)| *given == step || is_parameter(step))
    };
    let operation = operations().into_iter().find(|(known, template, _, _, of_margin)| {
        known.eq_ignore_ascii_case(method) && is_path(template) && *of_margin == is_margin
    })?;
    let operation = &document()["paths"][operation.1][method.to_lowercase()];
    let reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str()?;
    reference.rsplit('/').next()
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
