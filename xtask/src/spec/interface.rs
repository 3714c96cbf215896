//! The document against the interface that it describes: `openapi/interface.yaml` has what that
//! states.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use openapi_drift::{Api, Direction, Effect, Finding, Report, Verdict};
use serde_json::Value;

/// The interface's own table, as an OpenAPI document.
pub const TABLE: &str = include_str!("../../../openapi/interface.yaml");

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// The response whose body the interface does not show.
const NOT_SHOWN: &str = "#/components/responses/NotShown";

/// Kinds of change that leave what the interface states as it is.
const ADDITIONS: [&str; 10] = [
    "format",
    "header-added",
    "media-type-added",
    "operation-added",
    "operation-name",
    "parameter-added",
    "property-added",
    "schema-name",
    "tags",
    "wording",
];

/// Where the document is not what the interface states: JSON pointers and messages.
pub fn differences(document: &Api) -> Result<Vec<(String, String)>> {
    let interface = Api::parse(TABLE).context("read openapi/interface.yaml")?;
    let compared = Api::new(without_own_ways_in(&document.value));
    let mut out: Vec<(String, String)> = Report::new(&interface, &compared)
        .findings
        .iter()
        .filter(|finding| !is_addition(finding) && !is_open(&interface, finding))
        .map(|finding| {
            let direction =
                finding.direction.map_or(String::new(), |way| format!(" in a {}", way.name()));
            let message = format!(
                "{}{direction}: {}; the interface has it otherwise",
                finding.at, finding.message
            );
            (pointer(document, finding), message)
        })
        .collect();
    let url = &interface.value["servers"][0]["url"];
    if *url != document.value["servers"][0]["url"] {
        out.push(("/servers".to_owned(), format!("the interface's base address is {url}")));
    }
    words(&interface.value, document, "", &mut out);
    let mut marks = Marks { interface: &interface, document, out };
    marks.operations();
    marks.schemas();
    Ok(marks.out)
}

/// The document with the interface's ways in alone: a scheme that is ours stands beside them, for
/// operations that need none of it.
fn without_own_ways_in(document: &Value) -> Value {
    let mut document = document.clone();
    let schemes = document["components"]["securitySchemes"].clone();
    let is_own = |way: &Value| {
        way.as_object().is_some_and(|way| way.keys().any(|name| is_ours(&schemes[name.as_str()])))
    };
    if let Some(ways) = document["security"].as_array_mut() {
        ways.retain(|way| !is_own(way));
    }
    document
}

/// Whether the interface leaves room for it: it says less, not something else.
fn is_addition(finding: &Finding) -> bool {
    // Bodies of responses are not shown, so whatever they are is within what is stated.
    let is_narrower_answer =
        finding.direction == Some(Direction::Response) && finding.effect == Some(Effect::Narrower);
    // The interface shows allowed values and ends in its schemas or not at all.
    let is_beside = ["x-values", "x-from", "x-to"].contains(&finding.rule);
    let is_stated =
        is_beside || (["default", "unit"].contains(&finding.rule) && finding.effect.is_none());
    // What comes besides the answer that is stated has the mark of ours.
    let is_besides = finding.rule == "response-added";
    // The address of a deployment and texts are nobody's contract.
    let is_deployment = finding.rule == "servers" && finding.operations.is_empty();
    is_narrower_answer
        || is_stated
        || is_besides
        || is_deployment
        || ADDITIONS.contains(&finding.rule) && finding.verdict != Verdict::Breaking
}

fn is_open(interface: &Api, finding: &Finding) -> bool {
    interface.value["x-open"][&finding.at] == finding.rule
}

/// Words that must stand in a description.
fn words(stated: &Value, document: &Api, at: &str, out: &mut Vec<(String, String)>) {
    let Some(map) = stated.as_object() else { return };
    let here = document.value.pointer(at).map(|value| document.follow(value));
    let description = here.and_then(|value| value["description"].as_str()).unwrap_or_default();
    for text in stated["x-words"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !description.contains(text) {
            out.push((
                at.to_owned(),
                format!("the description lacks {text}, which the interface states"),
            ));
        }
    }
    for (key, value) in map {
        words(value, document, &format!("{at}/{}", escape(key)), out);
    }
}

/// What is ours is marked, and what is the interface's is not.
struct Marks<'a> {
    interface: &'a Api,
    document: &'a Api,
    out: Vec<(String, String)>,
}

impl Marks<'_> {
    fn judge(&mut self, at: String, name: &str, is_marked: bool, is_known: bool) {
        match (is_marked, is_known) {
            (false, false) => {
                self.out.push((
                    at,
                    format!("{name} is not of the interface: mark it with `x-origin: molbox`"),
                ));
            }
            (true, true) => self
                .out
                .push((at, format!("{name} is the interface's, not ours: take x-origin away"))),
            _ => {}
        }
    }

    /// The interface states no limits beside its schemas: one that it has here is a choice of ours,
    /// named beside it or, for all that the schema has, on the schema.
    fn limits(&mut self, at: String, name: &str, value: &Value, of_all: &str) {
        let is_named = value["x-choice"].is_string()
            || ["allowed values", "limits", "ranges"].iter().any(|word| of_all.contains(word));
        if !is_named && is_limited(value) {
            self.out.push((
                at,
                format!("{name} is narrower than the interface has it: say so with `x-choice`"),
            ));
        }
    }

    fn operations(&mut self) {
        for (path, item) in self.document.value["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                if !METHODS.contains(&method.as_str()) {
                    continue;
                }
                let at = format!("/paths/{}/{method}", escape(path));
                let known = self.interface.value.pointer(&at);
                let is_marked = is_ours(operation) || is_ours(item);
                self.judge(
                    at.clone(),
                    &format!("{} {path}", method.to_uppercase()),
                    is_marked,
                    known.is_some(),
                );
                let Some(known) = known else { continue };
                let known_parameters: BTreeSet<&str> =
                    names(self.interface, known).into_iter().collect();
                let parameters =
                    operation["parameters"].as_array().into_iter().flatten().enumerate();
                for (index, parameter) in parameters {
                    let parameter = self.document.follow(parameter);
                    let name = parameter["name"].as_str().unwrap_or_default();
                    let at = format!("{at}/parameters/{index}");
                    if known_parameters.contains(name) {
                        self.limits(at.clone(), &format!("parameter {name}"), parameter, "");
                    }
                    self.judge(
                        at,
                        &format!("parameter {name}"),
                        is_ours(parameter),
                        known_parameters.contains(name),
                    );
                }
                for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                    let response = self.document.follow(response);
                    let at = format!("{at}/responses/{status}");
                    match known["responses"].get(status) {
                        None => self.judge(at, status, is_ours(response), false),
                        // A body that is not shown is settled here.
                        Some(known) if known["$ref"] == NOT_SHOWN => {
                            self.judge(
                                at,
                                &format!("the body of {path}"),
                                is_settled(response),
                                false,
                            );
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }

    fn schemas(&mut self) {
        for (name, schema) in
            self.document.value["components"]["schemas"].as_object().into_iter().flatten()
        {
            // What has no type of its own is a name for a part of something that has.
            let is_known = self.interface.value["components"]["schemas"].get(name).is_some();
            if !is_known && schema.get("type").is_some() {
                self.judge(
                    format!("/components/schemas/{}", escape(name)),
                    name,
                    is_settled(schema),
                    false,
                );
            }
        }
        let known = self.interface.value["components"]["schemas"].as_object().into_iter().flatten();
        for (name, known) in known {
            let at = format!("/components/schemas/{name}");
            let Some(schema) = self.document.value.pointer(&at) else {
                self.out.push((
                    "/components/schemas".to_owned(),
                    format!("{name} is gone, which the interface has"),
                ));
                continue;
            };
            for (property, value) in schema["properties"].as_object().into_iter().flatten() {
                let is_known = known["properties"].get(property).is_some();
                // Beside a reference nothing is read; what it leads to has the mark.
                let is_marked = is_ours(value) || !is_known && is_ours(self.document.follow(value));
                let at = format!("{at}/properties/{}", escape(property));
                let shown = format!("{name}.{property}");
                if is_known {
                    let of_all = schema["x-choice"].as_str().unwrap_or_default();
                    self.limits(at.clone(), &shown, value, of_all);
                }
                self.judge(at, &shown, is_marked, is_known);
            }
        }
    }
}

fn is_ours(value: &Value) -> bool {
    value["x-origin"] == "molbox"
}

/// Whether something is ours, or the interface's with what it left open.
fn is_settled(value: &Value) -> bool {
    is_ours(value) || value["x-choice"].is_string()
}

/// Whether what is allowed is limited beside the schema, or beside that of its items.
fn is_limited(value: &Value) -> bool {
    ["x-values", "x-from", "x-above", "x-to"].iter().any(|key| value.get(key).is_some())
        || value.get("items").is_some_and(is_limited)
}

fn names<'a>(api: &'a Api, operation: &'a Value) -> Vec<&'a str> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.filter_map(|parameter| api.follow(parameter)["name"].as_str()).collect()
}

pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Where a finding is in the document: the component that it names as far as that is there, else
/// its first operation.
pub fn pointer(document: &Api, finding: &Finding) -> String {
    let mut at = String::new();
    let (name, path) = finding.at.split_once(['.', '[']).unwrap_or((&finding.at, ""));
    let component = format!("/components/schemas/{}", escape(name));
    if document.value.pointer(&component).is_some() {
        at = component;
        let steps = path.split('.').flat_map(|step| step.split_inclusive("[]"));
        for step in steps.flat_map(|step| match step.strip_suffix("[]") {
            Some(property) => vec![property, "[]"],
            None => vec![step],
        }) {
            let next = match step {
                "" | "]" => continue,
                "[]" => format!("{at}/items"),
                "*" => format!("{at}/additionalProperties"),
                property => format!("{at}/properties/{}", escape(property)),
            };
            if document.value.pointer(&next).is_none() {
                break;
            }
            at = next;
        }
    } else if let Some((method, path)) =
        finding.operations.first().and_then(|operation| operation.split_once(' '))
    {
        let item = format!("/paths/{}", escape(path));
        let operation = format!("{item}/{}", method.to_lowercase());
        at = if document.value.pointer(&operation).is_some() { operation } else { item };
    }
    at
}
