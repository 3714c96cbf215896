//! The generated types and the examples against the document.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use molbox::{margin, workflow};
use molbox_codegen::Document;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn document() -> Document {
    Document::read(include_str!("../openapi/molbox.yaml")).unwrap()
}

fn resolved<'a>(document: &'a Document, value: &'a Value) -> &'a Value {
    value["$ref"].as_str().map_or(value, |reference| document.resolve(reference).unwrap())
}

/// Whether a request of this schema is refused by the generated type, and with what words.
fn refusal(schema: &str, body: &Value) -> Option<String> {
    fn of<T: molbox::Request>(body: &Value) -> Option<String> {
        molbox::from_json::<T>(&body.to_string()).err().map(|error| error.to_string())
    }
    match schema {
        "EquilibrationStep" => of::<workflow::types::EquilibrationStep>(body),
        "FileRegistration" => of::<workflow::types::FileRegistration>(body),
        "JobCreateParams" => of::<workflow::types::JobCreateParams>(body),
        "JobExtension" => of::<workflow::types::JobExtension>(body),
        "ProductionParams" => of::<workflow::types::ProductionParams>(body),
        "SystemBuildRequest" => of::<workflow::types::SystemBuildRequest>(body),
        "AnalysisRequest" => of::<workflow::types::AnalysisRequest>(body),
        "MarginJobRequest" => of::<margin::types::MarginJobRequest>(body),
        "HistoricalSettings" => of::<margin::types::HistoricalSettings>(body),
        "Portfolio" => of::<margin::types::Portfolio>(body),
        "FuturesPosition" => of::<margin::types::FuturesPosition>(body),
        other => panic!("{other} is a request without a type in this table"),
    }
}

/// Values that a schema refuses, and a value at its edge that it accepts.
fn beyond_and_within(document: &Document, schema: &Value) -> (Vec<Value>, Option<Value>) {
    let schema = schema["anyOf"].as_array().map_or(schema, |any| &any[0]);
    let schema = resolved(document, schema);
    match (schema["minimum"].as_f64(), schema["exclusiveMinimum"] == true) {
        (Some(minimum), exclusive) => {
            let mut beyond = vec![json!(minimum - 1.0), json!("text")];
            if schema["type"] == "integer" {
                return (vec![json!(minimum as i64 - 1), json!(0.5)], Some(json!(minimum as i64)));
            }
            if exclusive {
                beyond.push(json!(minimum));
            }
            (beyond, Some(if exclusive { json!(f64::MIN_POSITIVE) } else { json!(minimum) }))
        }
        _ if schema["enum"].is_array() => {
            (vec![json!("no such value")], Some(schema["enum"][0].clone()))
        }
        _ if schema["minLength"].is_u64() => (vec![json!("")], Some(json!("x"))),
        _ if schema["pattern"].is_string() => (vec![json!("../etc/passwd"), json!("")], None),
        _ => (Vec::new(), None),
    }
}

#[test]
fn the_generated_types_enforce_every_bound_of_every_request() {
    let document = document();
    let mut bounds = 0;
    let interface = Document::read(include_str!("../openapi/interface.yaml")).unwrap().value;
    let schemas = interface["components"]["schemas"].as_object().unwrap();
    let records = schemas
        .iter()
        .filter(|(name, schema)| schema["type"] == "object" && !name.contains("Error"));
    for name in records.map(|(name, _)| name.as_str()).chain(["JobExtension"]) {
        let schema = &document.value["components"]["schemas"][name];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (property, value) in schema["properties"].as_object().unwrap() {
            let (beyond, within) = beyond_and_within(&document, value);
            for wrong in &beyond {
                let error = refusal(name, &json!({ property: wrong }));
                let error = error.unwrap_or_else(|| panic!("{name}.{property} takes {wrong}"));
                assert!(
                    error.starts_with(property),
                    "{name}.{property}: {wrong}: the error names the field: {error}"
                );
                bounds += 1;
            }
            // Types hold to the bounds of the schema, reading to what else is allowed too.
            let is_narrower = |within: &Value| within.is_number() && value["x-from"].is_number();
            let within = within
                .map(|within| if is_narrower(&within) { value["x-from"].clone() } else { within });
            if let Some(within) = within.filter(|_| required.is_empty() || required == [property]) {
                assert_eq!(
                    refusal(name, &json!({ property: within })),
                    None,
                    "{name}.{property} takes {within}"
                );
            }
        }
    }
    assert!(bounds >= 45, "only {bounds} values were tried");
}

#[test]
fn the_examples_are_what_their_schemas_say_and_none_is_missing() {
    let document = document();
    let root = schemas_for_validation(&document);
    let mut examples: BTreeMap<String, String> = BTreeMap::new();
    for entry in
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/examples")).unwrap()
    {
        let path = entry.unwrap().path();
        examples.insert(
            path.file_name().unwrap().to_str().unwrap().to_owned(),
            fs::read_to_string(&path).unwrap(),
        );
    }
    let mut check = |prefix: String, content: &Value| {
        let mut found = 0;
        let names: Vec<String> =
            examples.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
        for name in names {
            let text = examples.remove(&name).unwrap();
            if name.ends_with(".json") {
                let schema = content["application/json"]["schema"]["$ref"].as_str().unwrap();
                validate(&root, schema, &serde_json::from_str(&text).unwrap(), &name);
            }
            found += 1;
        }
        // Archives and arbitrary bytes have no example that says anything.
        let has_text = content
            .as_object()
            .into_iter()
            .flatten()
            .any(|(media, _)| media == "application/json" || media.starts_with("text/"));
        assert!(found > 0 || !has_text, "{prefix}: no example");
    };
    for operation in document.operations() {
        let id = operation.value["operationId"].as_str().unwrap();
        check(format!("{id}.request."), &operation.value["requestBody"]["content"]);
        for (status, response) in operation.value["responses"].as_object().unwrap() {
            if response.get("$ref").is_none() {
                check(format!("{id}.{status}."), &response["content"]);
            }
        }
    }
    for (name, response) in document.value["components"]["responses"].as_object().unwrap() {
        check(format!("{name}."), &response["content"]);
    }
    assert!(examples.is_empty(), "examples of nothing: {examples:?}");
}

/// The document's schemas in the words of JSON Schema draft 4, to which only nullability is new.
fn schemas_for_validation(document: &Document) -> Value {
    fn rewrite(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.values_mut().for_each(rewrite);
                if map.remove("nullable") == Some(json!(true)) {
                    let plain = Value::Object(std::mem::take(map));
                    map.insert("anyOf".to_owned(), json!([plain, {"type": "null"}]));
                }
                // In draft 4 an unknown format is no error, but these are not formats of its.
                map.remove("format");
            }
            Value::Array(items) => items.iter_mut().for_each(rewrite),
            _ => {}
        }
    }
    let mut schemas = document.value["components"]["schemas"].clone();
    for schema in schemas.as_object_mut().unwrap().values_mut() {
        // Properties may be called `format` and `nullable`; only schemas are rewritten.
        rewrite_properties(schema, &mut rewrite);
    }
    json!({"components": {"schemas": schemas}})
}

fn rewrite_properties(schema: &mut Value, rewrite: &mut impl FnMut(&mut Value)) {
    match schema.get_mut("properties").and_then(Value::as_object_mut) {
        Some(properties) => properties.values_mut().for_each(rewrite),
        None => rewrite(schema),
    }
}

fn validate(root: &Value, reference: &str, example: &Value, name: &str) {
    let mut compiler = boon::Compiler::new();
    compiler.set_default_draft(boon::Draft::V4);
    compiler.add_resource("molbox:document", root.clone()).unwrap();
    let mut schemas = boon::Schemas::new();
    let schema = compiler.compile(&format!("molbox:document{reference}"), &mut schemas).unwrap();
    if let Err(error) = schemas.validate(example, schema) {
        panic!("{name}: {error}");
    }
}

#[test]
fn a_request_survives_the_generated_types() {
    fn survives<T: DeserializeOwned + Serialize>(name: &str, text: &str) {
        fn without_nulls(value: Value) -> Value {
            match value {
                Value::Object(map) => map
                    .into_iter()
                    .filter(|(_, v)| !v.is_null())
                    .map(|(k, v)| (k, without_nulls(v)))
                    .collect(),
                Value::Array(items) => items.into_iter().map(without_nulls).collect(),
                Value::Number(number) => json!(number.as_f64()),
                other => other,
            }
        }
        let written: Value = serde_json::from_str(text).unwrap();
        let typed: T = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut again = serde_json::to_value(typed).unwrap();
        // An empty list that may not be null is sent by leaving it out.
        if let (Some(again), Some(written)) = (again.as_object_mut(), written.as_object()) {
            for (key, value) in written.iter().filter(|(_, value)| **value == json!([])) {
                again.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        assert_eq!(without_nulls(again), without_nulls(written), "{name}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/examples");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        match name.split_once(".request").map(|(operation, _)| operation) {
            Some("file_register") => survives::<workflow::types::FileRegistration>(&name, &text),
            Some("system_submit" | "system_check") => {
                survives::<workflow::types::SystemBuildRequest>(&name, &text)
            }
            Some("job_submit" | "job_check") => {
                survives::<workflow::types::JobCreateParams>(&name, &text)
            }
            Some("job_extend") => survives::<workflow::types::JobExtension>(&name, &text),
            Some("analysis_submit" | "analysis_check") => {
                survives::<workflow::types::AnalysisRequest>(&name, &text)
            }
            Some("password_change") => survives::<workflow::types::PasswordChange>(&name, &text),
            Some("session_create") => survives::<workflow::types::SignIn>(&name, &text),
            Some("invitation_check") => survives::<workflow::types::InvitationCheck>(&name, &text),
            Some("invitation_accept") => {
                survives::<workflow::types::InvitationAcceptance>(&name, &text)
            }
            Some("key_create") => survives::<workflow::types::KeyRequest>(&name, &text),
            Some("account_create") => survives::<workflow::types::AccountRequest>(&name, &text),
            Some("account_change") => survives::<workflow::types::AccountChange>(&name, &text),
            Some("margin_submit") => {
                // `excludedDates: []` lies a level below.
                let text =
                    text.replace("\"excludedDates\": []", "\"excludedDates\": [\"2020-03-16\"]");
                survives::<margin::types::MarginJobRequest>(&name, &text);
            }
            Some(other) => panic!("{other} is a request without a type in this test"),
            None => continue,
        }
        count += 1;
    }
    assert!(count >= 10);
}

#[test]
fn a_record_with_members_of_a_later_version_keeps_them() {
    let text = include_str!("../openapi/examples/job_view.200.running.json");
    let mut later: Value = serde_json::from_str(text).unwrap();
    later["from_a_later_version"] = json!({"x": 1});
    later["progress"]["temperature_of_the_day"] = json!(20);
    let record: workflow::types::JobRecord = serde_json::from_value(later.clone()).unwrap();
    let again = serde_json::to_value(record).unwrap();
    assert_eq!(again["from_a_later_version"], later["from_a_later_version"]);
    assert_eq!(again["progress"]["temperature_of_the_day"], 20);
}

#[test]
fn tiny_and_zero_numbers_pass_exactly() {
    let text = r#"{"temperature": 0, "integration_timestep": 2.2250738585072014e-308, "friction": 5e-324}"#;
    let job: workflow::types::JobCreateParams = molbox::from_json(text).unwrap();
    assert_eq!(job.temperature.unwrap().get(), 0.0);
    let again: workflow::types::JobCreateParams =
        molbox::from_json(&serde_json::to_string(&job).unwrap()).unwrap();
    assert_eq!(again.integration_timestep.unwrap().get(), f64::MIN_POSITIVE);
    assert_eq!(again.friction.unwrap().get(), 5e-324);
}

#[test]
fn no_path_parameter_can_lead_to_another_operation() {
    let document = document();
    let mut parameters = 0;
    for item in document.value["paths"].as_object().unwrap().values() {
        let operations = item
            .as_object()
            .unwrap()
            .values()
            .filter(|operation| operation.get("operationId").is_some());
        let all = operations
            .flat_map(|operation| operation["parameters"].as_array().into_iter().flatten());
        for parameter in
            all.map(|parameter| resolved(&document, parameter)).filter(|p| p["in"] == "path")
        {
            let schema = resolved(&document, &parameter["schema"]);
            let pattern =
                schema["pattern"].as_str().map(|pattern| regress::Regex::new(pattern).unwrap());
            for value in
                ["", ".", "..", "../jobs", "a/b", "/", "a?limit=1", "a#b", "a%2Fb", " ", "a\nb"]
            {
                let is_listed =
                    schema["enum"].as_array().is_some_and(|values| values.contains(&json!(value)));
                let is_allowed =
                    pattern.as_ref().map_or(is_listed, |pattern| pattern.find(value).is_some());
                assert!(!is_allowed, "{} takes {value:?}", parameter["name"]);
            }
            parameters += 1;
        }
    }
    assert!(parameters > 10, "{parameters}");
}
