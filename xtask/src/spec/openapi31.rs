//! The document as OpenAPI 3.1, for generators that read nullable references better there.

use serde_json::{Map, Value, json};

const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The document in OpenAPI 3.1, with the same meaning. `format: binary` stays: generators know it.
pub fn openapi31(document: &Value) -> Value {
    let mut out = convert(document);
    out["openapi"] = json!("3.1.0");
    if let Some(schemas) = out.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        schemas.values_mut().for_each(|value| *value = schema(value));
    }
    out
}

/// Everything around schemas stays as it is.
fn convert(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| {
                let value = match key.as_str() {
                    "schema" => schema(value),
                    // Values, and components that the caller converts.
                    "example" | "examples" | "schemas" => value.clone(),
                    _ => convert(value),
                };
                (key.clone(), value)
            });
            Value::Object(entries.collect())
        }
        Value::Array(items) => items.iter().map(convert).collect(),
        _ => value.clone(),
    }
}

fn schema(value: &Value) -> Value {
    let Some(map) = value.as_object().filter(|map| !map.contains_key("$ref")) else {
        return value.clone();
    };
    if map.get("enum") == Some(&json!([null])) {
        return json!({"type": "null"});
    }
    let is_nullable = map.get("nullable") == Some(&Value::Bool(true));
    let mut out = Map::new();
    for (key, value) in map {
        let (key, value) = match key.as_str() {
            "nullable" => continue,
            // A flag beside a limit becomes the limit.
            "minimum" if map.get("exclusiveMinimum") == Some(&Value::Bool(true)) => {
                ("exclusiveMinimum", value.clone())
            }
            "maximum" if map.get("exclusiveMaximum") == Some(&Value::Bool(true)) => {
                ("exclusiveMaximum", value.clone())
            }
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => continue,
            "type" if is_nullable => ("type", json!([value, "null"])),
            "enum" if is_nullable => {
                let mut values = value.as_array().cloned().unwrap_or_default();
                values.push(Value::Null);
                ("enum", Value::Array(values))
            }
            "example" => ("examples", json!([value])),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                (
                    "properties",
                    Value::Object(
                        properties.map(|(name, value)| (name.clone(), schema(value))).collect(),
                    ),
                )
            }
            "items" | "additionalProperties" | "not" => (key.as_str(), schema(value)),
            list if LISTS.contains(&list) => {
                (list, value.as_array().into_iter().flatten().map(schema).collect())
            }
            key => (key, value.clone()),
        };
        out.insert(key.to_owned(), value);
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use openapi_drift::{Api, Report};

    use super::openapi31;

    #[test]
    fn the_copy_means_the_same() {
        let document = crate::regenerate::document().unwrap().value;
        let copy = openapi31(&document);
        let findings = Report::new(&Api::new(document), &Api::new(copy)).findings;
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, ["3.0.3 became 3.1.0"], "{findings:#?}");
    }
}
