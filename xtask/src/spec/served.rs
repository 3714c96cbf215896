//! The document against the service's source: its route table, and the statuses that it answers.
//!
//! Bodies are held together by types, and what really happens by the service's tests and
//! schemathesis; this says the same early, with the line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use openapi_drift::Api;
use serde_json::Value;

use crate::sources::each_file;

pub const ROUTES: &str = "crates/service/src/http/routes.rs";
const ERRORS: &str = "crates/service/src/error.rs";
const ANSWERS: &str = "crates/service/src/http/answer.rs";
const DOWNLOADS: &str = "crates/service/src/http/download.rs";
/// Answered where no operation is: to an unknown method, and by upload links.
const OUTSIDE: [u16; 1] = [405];
/// Served on the margin address, too; the document has them once.
const ON_BOTH: [&str; 2] = ["service_health", "service_document"];

/// The source of the service, as far as it is read here.
pub struct Source {
    pub routes: String,
    pub answers: [(&'static str, String); 3],
}

/// A difference: on a line of a source file, or at a place of the document.
pub struct Difference {
    pub place: Place,
    pub message: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    Document(String),
    Line(&'static str, u64),
}

/// A line of the route table.
struct Route<'a> {
    line: u64,
    is_margin: bool,
    method: String,
    path: &'a str,
}

impl Source {
    pub fn read(root: &Path) -> Result<Self> {
        let answers = [
            (ERRORS, read(root, ERRORS)?),
            (ANSWERS, read(root, ANSWERS)?),
            (DOWNLOADS, read(root, DOWNLOADS)?),
        ];
        Ok(Self { routes: read(root, ROUTES)?, answers })
    }

    /// The route table by operation.
    fn routes(&self) -> Result<BTreeMap<&str, Route<'_>>> {
        let mut out = BTreeMap::new();
        let mut is_margin = None;
        for (index, line) in self.routes.lines().enumerate() {
            if line.ends_with("= routes! {") {
                is_margin = Some(line.contains(" MARGIN:"));
            } else if line == "};" {
                is_margin = None;
            } else if let Some(is_margin) = is_margin {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [method, path, handler] = words.as_slice() else {
                    bail!("{ROUTES}:{}: not a method, a path and a handler", index + 1);
                };
                let operation = handler.rsplit("::").next().unwrap_or(handler);
                let line = index as u64 + 1;
                let method = method.to_ascii_lowercase();
                let route = Route { line, is_margin, method, path: path.trim_matches('"') };
                if !is_margin || !ON_BOTH.contains(&operation) {
                    out.insert(operation, route);
                }
            }
        }
        if out.is_empty() {
            bail!("{ROUTES} has no `routes! {{`");
        }
        Ok(out)
    }

    /// The statuses that something in it says, each with where.
    fn statuses(&self) -> BTreeMap<u16, Place> {
        let mut out = BTreeMap::from([(200, Place::Line(ANSWERS, 1))]);
        for (file, text) in &self.answers {
            for (index, line) in text.lines().enumerate() {
                for rest in line.split("StatusCode::").skip(1) {
                    let name = rest
                        .split(|c: char| !c.is_ascii_uppercase() && c != '_')
                        .next()
                        .unwrap_or_default();
                    if let Some((_, status)) = STATUSES.iter().find(|(known, _)| *known == name) {
                        out.entry(*status).or_insert(Place::Line(file, index as u64 + 1));
                    }
                }
            }
        }
        out
    }
}

/// The names that the service's HTTP library has for the statuses that may come up.
pub const STATUSES: [(&str, u16); 27] = [
    ("OK", 200),
    ("CREATED", 201),
    ("ACCEPTED", 202),
    ("NO_CONTENT", 204),
    ("PARTIAL_CONTENT", 206),
    ("SEE_OTHER", 303),
    ("NOT_MODIFIED", 304),
    ("TEMPORARY_REDIRECT", 307),
    ("BAD_REQUEST", 400),
    ("UNAUTHORIZED", 401),
    ("PAYMENT_REQUIRED", 402),
    ("FORBIDDEN", 403),
    ("NOT_FOUND", 404),
    ("METHOD_NOT_ALLOWED", 405),
    ("NOT_ACCEPTABLE", 406),
    ("REQUEST_TIMEOUT", 408),
    ("CONFLICT", 409),
    ("GONE", 410),
    ("PRECONDITION_FAILED", 412),
    ("PAYLOAD_TOO_LARGE", 413),
    ("UNSUPPORTED_MEDIA_TYPE", 415),
    ("RANGE_NOT_SATISFIABLE", 416),
    ("UNPROCESSABLE_ENTITY", 422),
    ("TOO_MANY_REQUESTS", 429),
    ("INTERNAL_SERVER_ERROR", 500),
    ("NOT_IMPLEMENTED", 501),
    ("SERVICE_UNAVAILABLE", 503),
];

/// Where the document and the service differ.
pub fn differences(api: &Api, source: &Source) -> Result<Vec<Difference>> {
    let mut out = Vec::new();
    let mut say = |place, message: String| out.push(Difference { place, message });
    let mut routes = source.routes()?;
    let mut reported = source.statuses();
    let known: Vec<u16> = reported.keys().copied().collect();
    for (path, item) in api.value["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let Some(id) = operation["operationId"].as_str() else { continue };
            let at = format!("/paths/{}/{method}", path.replace('~', "~0").replace('/', "~1"));
            let is_margin = item.get("servers").is_some();
            match routes.remove(id) {
                None => say(
                    Place::Document(at.clone()),
                    format!("{id} is documented but not served: add it to the table in {ROUTES}"),
                ),
                Some(route)
                    if (route.method.as_str(), route.path, route.is_margin)
                        != (method, path, is_margin) =>
                {
                    let there = address(route.is_margin);
                    let here = address(is_margin);
                    let served = format!(
                        "{} {} on the {there} address",
                        route.method.to_uppercase(),
                        route.path
                    );
                    say(
                        Place::Line(ROUTES, route.line),
                        format!(
                            "{id} is served as {served}, documented as {} {path} on the {here} \
                             address",
                            method.to_uppercase()
                        ),
                    );
                }
                Some(_) => {}
            }
            let documented: Vec<u16> = operation["responses"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(s, _)| s.parse().ok())
                .collect();
            for (status, why) in expected(api, operation) {
                if !documented.contains(&status) {
                    say(
                        Place::Document(format!("{at}/responses")),
                        format!("{id} lacks {status}, which {why} may get"),
                    );
                }
            }
            for status in documented {
                reported.remove(&status);
                if !known.contains(&status) {
                    let at = format!("{at}/responses/{status}");
                    say(
                        Place::Document(at),
                        format!("{id} has {status}, which nothing in the service answers"),
                    );
                }
            }
        }
    }
    for (id, route) in routes {
        let message = format!("{id} is served but not documented");
        say(Place::Line(ROUTES, route.line), message);
    }
    for (status, place) in reported.into_iter().filter(|(status, _)| !OUTSIDE.contains(status)) {
        say(place, format!("{status} is answered, but no operation of the document has it"));
    }
    Ok(out)
}

/// Where what the service does with a value stands.
const SOURCES: [(&str, &str); 4] = [
    ("crates/service/src", "rs"),
    ("crates/margin/src", "rs"),
    ("crates/analysis/src", "rs"),
    ("worker/molbox_worker", "py"),
];

/// Every word of the service's and the worker's source, in small letters and without separators, as
/// `text/csv`, `Text_CSV` and `TextCsv` have them alike.
pub fn words(root: &Path) -> Result<BTreeSet<String>> {
    let mut words = BTreeSet::new();
    for (folder, extension) in SOURCES {
        each_file(&root.join(folder), extension, &mut |_, text| {
            let found = text.split(|c: char| !c.is_alphanumeric() && !"-_.".contains(c));
            words.extend(found.flat_map(|word| word.split('.').chain([word])).map(plain));
        })?;
    }
    Ok(words)
}

fn plain(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase()
}

/// Values that requests may have by the document, but that no line of the service knows: JSON
/// pointers and messages. What it does with those that it knows is for its tests.
pub fn unknown_values(value: &Value, words: &BTreeSet<String>, at: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                let values =
                    inner.as_array().filter(|_| ["enum", "x-values"].contains(&key.as_str()));
                for text in values.into_iter().flatten().filter_map(Value::as_str) {
                    if !words.contains(&plain(text)) {
                        out.push((
                            at.clone(),
                            format!(
                                "admits {text}, which no line of the service or the worker has"
                            ),
                        ));
                    }
                }
                out.extend(unknown_values(inner, words, &at));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.extend(unknown_values(item, words, &format!("{at}/{index}")));
            }
        }
        _ => {}
    }
    out
}

/// The statuses that the service answers to every request of this form, before or after its
/// handler.
fn expected(api: &Api, operation: &Value) -> Vec<(u16, &'static str)> {
    let parameters = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|parameter| api.follow(parameter));
    let parameters: Vec<&Value> = parameters.collect();
    let content = operation["requestBody"]["content"].as_object();
    let ways = operation.get("security").or(api.value.get("security"));
    let takes = |scheme: &str| {
        ways.and_then(Value::as_array).into_iter().flatten().any(|way| way.get(scheme).is_some())
    };
    let is_secured = takes("ApiKey") || takes("Session");
    let has_identifier = parameters.iter().any(|parameter| {
        parameter["in"] == "path" && api.follow(&parameter["schema"]).get("pattern").is_some()
    });
    let takes_range = parameters.iter().any(|parameter| parameter["name"] == "Range");
    let mut out = vec![(500, "every request"), (503, "every request")];
    let mut add = |condition: bool, statuses: &[u16], why| {
        out.extend(statuses.iter().filter(|_| condition).map(|status| (*status, why)));
    };
    add(is_secured, &[401, 429], "a request with a key or a session");
    add(is_secured && !takes("ApiKey"), &[403], "a request that takes no key");
    add(has_identifier, &[404], "a request for something by its identifier");
    add(!parameters.is_empty() || content.is_some(), &[422], "a request with parameters or a body");
    add(content.is_some(), &[400, 413], "a request with a body");
    add(
        content.is_some_and(|content| content.len() > 1),
        &[415],
        "a body in one of several media types",
    );
    add(takes_range, &[206, 416], "a request for a range");
    out
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))
}

fn address(is_margin: bool) -> &'static str {
    if is_margin { "margin" } else { "workflow" }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use openapi_drift::Api;

    use super::{Place, ROUTES, Source, differences};
    use crate::regenerate;
    use crate::shell::root;

    /// What is reported after the source and the document were changed.
    fn reported(change: impl FnOnce(&mut serde_json::Value, &mut Source)) -> Vec<(Place, String)> {
        let mut document = regenerate::document().unwrap().value;
        let mut source = Source::read(&root()).unwrap();
        change(&mut document, &mut source);
        differences(&Api::new(document), &source)
            .unwrap()
            .into_iter()
            .map(|d| (d.place, d.message))
            .collect()
    }

    /// The line of the route table that has these words.
    fn line(words: &str) -> u64 {
        let text = fs::read_to_string(root().join(ROUTES)).unwrap();
        text.lines().position(|line| line.contains(words)).unwrap() as u64 + 1
    }

    #[test]
    fn the_service_has_the_routes_and_statuses_of_the_document() {
        assert_eq!(reported(|_, _| {}), []);
    }

    #[test]
    fn what_is_documented_is_served_and_the_other_way_round() {
        let unserved = reported(|_, source| {
            let rest: Vec<&str> = source
                .routes
                .lines()
                .filter(|line| !line.contains("service::service_metrics"))
                .collect();
            source.routes = rest.join("\n");
        });
        let message = format!(
            "service_metrics is documented but not served: add it to the table in {ROUTES}"
        );
        assert_eq!(unserved, [(Place::Document("/paths/~1metrics/get".to_owned()), message)]);
        let undocumented = reported(|document, _| {
            drop(document["paths"].as_object_mut().unwrap().remove("/metrics"))
        });
        let place = Place::Line(ROUTES, line("service::service_metrics"));
        assert_eq!(
            undocumented,
            [(place, "service_metrics is served but not documented".to_owned())]
        );
        let moved = reported(|_, source| {
            source.routes = source.routes.replace("POST   \"/submit/job\"", "PUT \"/submit/job\"")
        });
        let [(place, message)] = moved.as_slice() else { panic!("{moved:?}") };
        assert_eq!(*place, Place::Line(ROUTES, line("job::job_submit")));
        assert!(
            message.contains("served as PUT /submit/job") && message.contains("documented as POST"),
            "{message}"
        );
    }
    #[test]
    fn a_status_is_documented_where_it_is_answered_and_only_there() {
        let submit = "/paths/~1submit~1job/post/responses";
        let lacking = reported(|document, _| {
            drop(document.pointer_mut(submit).unwrap().as_object_mut().unwrap().remove("413"));
        });
        let message = "job_submit lacks 413, which a request with a body may get".to_owned();
        assert_eq!(lacking, [(Place::Document(submit.to_owned()), message)]);
        let invented =
            reported(|document, _| document.pointer_mut(submit).unwrap()["402"] = "…".into());
        let message = "job_submit has 402, which nothing in the service answers".to_owned();
        assert_eq!(invented, [(Place::Document(format!("{submit}/402")), message)]);
        let new = reported(|_, source| source.answers[0].1.insert_str(0, "StatusCode::GONE\n"));
        let message = "410 is answered, but no operation of the document has it".to_owned();
        assert_eq!(new, [(Place::Line("crates/service/src/error.rs", 1), message)]);
    }
}
