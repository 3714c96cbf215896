//! The two documents that others generate clients from: one for each address, with nothing in it
//! that generators stumble over.
//!
//! Each is OpenAPI 3.1, since several generators lose or misread what may be null in 3.0; has one
//! server, written out, since some send a call to the server of its path whatever the caller chose,
//! and some post to `{margin_base_url}` as it stands; and of each body and answer that can be JSON
//! nothing else, since some send the other media types under a wrong name or not at all, and take
//! one answer for another. What answers are made of is open to what later versions add.

use std::collections::BTreeSet;

use molbox_codegen::{reached, references};
use serde_json::{Map, Value, json};

use crate::spec::openapi31::openapi31;

/// What both addresses serve.
const ON_BOTH: [&str; 2] = ["/healthz", "/openapi.json"];
const JSON: &str = "application/json";
/// The parameter that asks for JSON.
const ASKS_FOR_JSON: &str = "shape";

/// One of the two base addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    Workflow,
    Margin,
}

impl Address {
    pub const BOTH: [Self; 2] = [Self::Workflow, Self::Margin];

    pub fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Margin => "margin",
        }
    }

    /// Where its document lies.
    pub fn file(self) -> &'static str {
        match self {
            Self::Workflow => "openapi/openapi-workflow.json",
            Self::Margin => "openapi/openapi-margin.json",
        }
    }

    fn serves(self, path: &str, item: &Value) -> bool {
        let is_of_margin = item.get("servers").is_some();
        is_of_margin == (self == Self::Margin) || ON_BOTH.contains(&path)
    }
}

/// The document of one address.
pub fn published(document: &Value, address: Address) -> Value {
    let mut out = openapi31(document);
    let paths = out["paths"].as_object_mut().expect("a document has paths");
    paths.retain(|path, item| address.serves(path, item));
    let servers = paths.values_mut().filter_map(|item| item.as_object_mut()?.remove("servers"));
    let servers = servers.last().unwrap_or_else(|| out["servers"].clone());
    out["servers"] = json!([written_out(&servers[0])]);
    json_alone(&mut out);
    read_leniently(&mut out);
    out["info"]["title"] = format!("molbox {}", address.name()).into();
    prune(&mut out);
    out
}

/// Leaves JSON alone of each body and answer that have it. Where the answer is JSON only when it is
/// asked for, that has to be asked for: what generated clients accept differs.
pub fn json_alone(document: &mut Value) {
    for operation in operations(document) {
        if let Some(content) = content(operation, "/requestBody/content") {
            content.retain(|media, _| media == JSON);
        }
        let Some(content) = content(operation, "/responses/200/content") else { continue };
        let is_for_the_asking = content.keys().next().is_some_and(|media| media != JSON);
        content.retain(|media, _| media == JSON);
        let parameters =
            operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
        for parameter in
            parameters.filter(|parameter| is_for_the_asking && parameter["name"] == ASKS_FOR_JSON)
        {
            parameter["required"] = true.into();
        }
    }
}

/// The media types at a place of an operation, if JSON is one.
fn content<'a>(operation: &'a mut Value, at: &str) -> Option<&'a mut Map<String, Value>> {
    operation.pointer_mut(at)?.as_object_mut().filter(|content| content.contains_key(JSON))
}

/// Opens the schemas that answers are made of: clients outlive the service that they were made for,
/// and some refuse a whole list for one value that they do not know. Requests have schemas of their
/// own.
fn read_leniently(document: &mut Value) {
    let answers =
        operations(document).flat_map(|operation| references(&operation["responses"])).collect();
    for reference in
        reached(document, answers).iter().filter(|reference| reference.contains("/schemas/"))
    {
        if let Some(schema) = document.pointer_mut(&reference[1..]) {
            *schema = opened(schema);
        }
    }
}

/// A schema that admits what a later version may answer.
fn opened(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| {
                !["enum", "minimum", "exclusiveMinimum"].contains(&key.as_str())
            });
            let mut out: Map<String, Value> =
                kept.map(|(key, value)| (key.clone(), opened(value))).collect();
            if map.contains_key("properties") && !map.contains_key("additionalProperties") {
                out.insert("additionalProperties".to_owned(), json!({}));
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(opened).collect(),
        other => other.clone(),
    }
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let items = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    items
        .filter_map(Value::as_object_mut)
        .flat_map(|item| item.values_mut().filter(|value| value.is_object()))
}

/// A server without variables: each has its default's value.
fn written_out(server: &Value) -> Value {
    let mut url = server["url"].as_str().unwrap_or_default().to_owned();
    for (name, variable) in server["variables"].as_object().into_iter().flatten() {
        url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
    }
    json!({"url": url, "description": server["description"]})
}

/// Removes the components and tags that nothing refers to any more.
fn prune(document: &mut Value) {
    let used = reached(document, references(&document["paths"]));
    let components = document["components"].as_object_mut().into_iter().flatten();
    for (kind, members) in components.filter(|(kind, _)| *kind != "securitySchemes") {
        if let Some(members) = members.as_object_mut() {
            members.retain(|name, _| used.contains(&format!("#/components/{kind}/{name}")));
        }
    }
    if let Some(components) = document["components"].as_object_mut() {
        components
            .retain(|_, members| members.as_object().is_none_or(|members| !members.is_empty()));
    }
    let tags: BTreeSet<String> =
        operations(document).flat_map(|operation| tags_of(operation)).collect();
    document["tags"].as_array_mut().into_iter().for_each(|all| {
        all.retain(|tag| tag["name"].as_str().is_some_and(|name| tags.contains(name)))
    });
}

fn tags_of(operation: &Value) -> Vec<String> {
    let tags = operation["tags"].as_array().into_iter().flatten();
    tags.filter_map(|tag| tag.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::{Address, ON_BOTH, operations, published, reached, references};

    fn both() -> [Value; 2] {
        let document = crate::regenerate::document().unwrap().value;
        Address::BOTH.map(|address| published(&document, address))
    }

    #[test]
    fn every_operation_is_in_the_document_of_its_address() {
        let document = crate::regenerate::document().unwrap().value;
        let mut expected: BTreeMap<&String, usize> =
            document["paths"].as_object().unwrap().keys().map(|path| (path, 1)).collect();
        expected
            .iter_mut()
            .filter(|(path, _)| ON_BOTH.contains(&path.as_str()))
            .for_each(|(_, count)| *count = 2);
        let both = both();
        let mut found: BTreeMap<&String, usize> = BTreeMap::new();
        for path in both.iter().flat_map(|document| document["paths"].as_object().unwrap().keys()) {
            *found.entry(path).or_default() += 1;
        }
        assert_eq!(found, expected);
        let margin = both[1]["paths"].as_object().unwrap();
        assert_eq!(margin.keys().filter(|path| path.contains("margin")).count(), 1);
    }

    #[test]
    fn each_has_one_server_json_bodies_and_what_it_refers_to() {
        for (document, url) in
            both().iter().zip(["http://127.0.0.1:8080/local", "http://127.0.0.1:8081"])
        {
            assert_eq!(document["servers"].as_array().unwrap().len(), 1);
            assert_eq!(document["servers"][0]["url"], url);
            assert!(document["servers"][0].get("variables").is_none());
            for (path, item) in document["paths"].as_object().unwrap() {
                assert!(item.get("servers").is_none(), "{path}");
                for operation in item.as_object().unwrap().values() {
                    let content = operation["requestBody"]["content"].as_object();
                    assert!(
                        content.is_none_or(|content| content.keys().eq(["application/json"])),
                        "{path}"
                    );
                }
            }
            let references = references(document);
            for reference in &references {
                assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
            }
            for (kind, members) in document["components"].as_object().unwrap() {
                for name in
                    members.as_object().unwrap().keys().filter(|_| kind != "securitySchemes")
                {
                    assert!(
                        references.contains(&format!("#/components/{kind}/{name}")),
                        "{kind} {name}"
                    );
                }
            }
        }
    }

    #[test]
    fn answers_are_json_where_they_can_be_and_asked_for_where_they_would_not() {
        let document = crate::regenerate::document().unwrap().value;
        let [workflow, margin] = both();
        let submit = "/paths/~1margin~1submit_job~1historical~1{data_format}/post";
        let required = |document: &Value| {
            let parameters = document
                .pointer(&format!("{submit}/parameters"))
                .unwrap()
                .as_array()
                .unwrap()
                .iter();
            let required = parameters.filter(|parameter| parameter["required"] == true);
            required
                .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(required(&document), ["data_format"]);
        assert_eq!(required(&margin), ["data_format", "shape"]);
        let media = |document: &Value, operation: &str| {
            let content = document.pointer(&format!("{operation}/responses/200/content")).unwrap();
            content.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(media(&margin, submit), ["application/json"]);
        assert_eq!(
            media(&workflow, "/paths/~1retrieve~1analysis~1{job_id}/get"),
            ["application/json"]
        );
    }

    #[test]
    fn answers_admit_what_a_later_version_may_answer_and_requests_stay_as_they_are() {
        let document = crate::regenerate::document().unwrap().value;
        let [workflow, _] = both();
        let record = &workflow["components"]["schemas"]["JobRecord"]["properties"];
        assert_eq!(record["parameters"]["$ref"], "#/components/schemas/JobSettings");
        for name in ["JobCreateParams", "EquilibrationStep", "Ensembles", "SystemBuildRequest"] {
            let pointer = format!("/components/schemas/{name}");
            assert_eq!(
                workflow.pointer(&pointer),
                super::openapi31(&document).pointer(&pointer),
                "{name}"
            );
        }
        for mut document in both() {
            let answers: Vec<Value> =
                operations(&mut document).map(|operation| operation["responses"].clone()).collect();
            let reached = reached(&document, answers.iter().flat_map(references).collect());
            for reference in reached.iter().filter(|reference| reference.contains("/schemas/")) {
                let schema = document.pointer(&reference[1..]).unwrap();
                assert_eq!(super::opened(schema), *schema, "{reference}");
            }
        }
    }

    #[test]
    fn what_only_the_workflow_has_is_not_in_the_margin_s_document() {
        let [workflow, margin] = both();
        assert_eq!(margin["components"]["schemas"].get("JobRecord"), None);
        assert_eq!(workflow["components"]["schemas"].get("MarginJobRequest"), None);
        let tags = |document: &Value| {
            document["tags"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tag| tag["name"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(tags(&margin), [json!("margin"), json!("service")]);
    }
}
