//! The document: fields of requests, their units and descriptions.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::OnceLock;

use molbox_codegen::{Document, Operation, Part, referred_name};
use serde_json::Value;

pub(crate) fn document() -> &'static Document {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let text = include_str!("../../../openapi/openapi.json");
        Document { value: serde_json::from_str(text).expect("the repository's tests read it") }
    })
}

pub(crate) fn named(name: &str) -> &'static Value {
    &document().value["components"]["schemas"][name]
}

/// A schema without what stands around it: references, and the alternative of null.
pub(crate) fn resolved(schema: &'static Value) -> &'static Value {
    let schema = document().follow(schema);
    match schema["anyOf"].get(0).or_else(|| schema["allOf"].get(0)) {
        Some(first) => resolved(first),
        None => schema,
    }
}

pub(crate) fn fields(
    schema: &'static Value,
) -> impl Iterator<Item = (&'static str, &'static Value)> {
    resolved(schema)["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| (name.as_str(), field))
}

/// What a field is for, in one line.
pub(crate) fn description(field: &'static Value) -> String {
    let own = field["description"].as_str();
    let text = own.or_else(|| resolved(field)["description"].as_str()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Units by name: none where things of this name have several, or some of them none.
type Units<K> = HashMap<K, Option<&'static str>>;

/// The unit of a member of a record, by its name and by that of the member that it is in.
pub(crate) fn unit_of(within: &str, name: &str) -> Option<&'static str> {
    type ByPlace = Units<(&'static str, &'static str)>;
    static UNITS: OnceLock<(ByPlace, Units<&str>)> = OnceLock::new();
    let (by_place, by_name) = UNITS.get_or_init(|| {
        let (mut by_place, mut by_name) = (Units::new(), Units::new());
        let schemas = document().value["components"]["schemas"].as_object();
        let members = schemas.into_iter().flat_map(serde_json::Map::values).flat_map(properties);
        for (name, field) in members {
            note(&mut by_name, name, field);
            for (inner, field) in properties(resolved(field)) {
                note(&mut by_place, (name, inner), field);
            }
        }
        (by_place, by_name)
    });
    by_place.get(&(within, name)).or_else(|| by_name.get(name)).copied().flatten()
}

fn properties(schema: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(name, field)| (name.as_str(), field))
}

fn note<K: Eq + Hash>(units: &mut Units<K>, key: K, field: &'static Value) {
    if !matches!(field["type"].as_str(), Some("number" | "integer" | "array")) {
        return;
    }
    let unit = field["x-unit"].as_str();
    let known = units.entry(key).or_insert(unit);
    if *known != unit {
        *known = None;
    }
}

/// The unit of a number; of a plain one, nothing.
pub(crate) fn unit(field: &'static Value) -> Option<&'static str> {
    field["x-unit"].as_str()
}

/// The texts that a field may have, or that are known among others; empty where there is no list.
pub(crate) fn texts(field: &'static Value) -> impl Iterator<Item = &'static str> {
    let schema = resolved(field);
    let of_items = schema["items"].is_object().then(|| resolved(&schema["items"]));
    let texts = listed(schema).or_else(|| of_items.and_then(listed));
    texts.into_iter().flatten().filter_map(Value::as_str)
}

/// Name of the schema of the JSON that an operation takes, by its method and a path of it.
pub(crate) fn request(method: &str, path: &str, part: Part) -> Option<&'static str> {
    let operation = document().operations().find(|operation| {
        operation.part == part
            && operation.method.eq_ignore_ascii_case(method)
            && is_of(path, operation.path)
    })?;
    referred_name(&operation.value["requestBody"]["content"]["application/json"]["schema"])
}

/// Whether a path is one of those that a template with parameters in braces stands for.
fn is_of(path: &str, template: &str) -> bool {
    let given: Vec<&str> = path.split('/').collect();
    let known: Vec<&str> = template.split('/').collect();
    given.len() == known.len()
        && given.iter().zip(known).all(|(given, step)| *given == step || step.starts_with('{'))
}

/// What calls an operation in Rust, in the command line and in the reference.
pub(crate) fn id(operation: &Operation<'static>) -> &'static str {
    operation.value["operationId"].as_str().expect("every operation of the document has one")
}

/// The values that a schema allows or names.
fn listed(schema: &Value) -> Option<&Vec<Value>> {
    schema["enum"].as_array().or_else(|| schema["x-values"].as_array())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_unit_of_its_place() {
        for (within, name, unit) in [
            ("queue", "length", None),
            ("longest_bond", "length", Some("nm")),
            ("bytes", "used", Some("bytes")),
            ("files", "used", None),
            ("", "temperature", Some("K")),
            ("[0]", "restraint_force", Some("kJ/mol/nm²")),
            // Some have one, and it is not known which this is.
            ("elsewhere", "length", None),
        ] {
            assert_eq!(unit_of(within, name), unit, "{within}.{name}");
        }
    }
}
