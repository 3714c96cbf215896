//! What `cargo xtask spec check` answers to changes of the document: every place of every kind is
//! changed in turn, and the answer must be the right one, and name the place.
//!
//! What the answer must be follows from the change and from whose the place is, as its marks in the
//! document have it; nothing here knows how the check is made.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check::{Repository, State, state};
use crate::shell::root;

/// Of each kind of change at most so many places, from the first to the last.
const PLACES: usize = 4;

/// A change of the document and the answer that it must have.
struct Mutation {
    kind: &'static str,
    place: String,
    edits: Vec<Edit>,
    expected: State,
    /// What a line of the answer must have: the place as people call it.
    words: Vec<String>,
}

/// A key of the object at a JSON pointer gets a value, or is taken away.
#[derive(Clone)]
struct Edit {
    at: String,
    key: String,
    value: Option<Value>,
}

fn set(at: &str, key: &str, value: impl Into<Value>) -> Edit {
    Edit { at: at.to_owned(), key: key.to_owned(), value: Some(value.into()) }
}

fn remove(at: &str, key: &str) -> Edit {
    Edit { at: at.to_owned(), key: key.to_owned(), value: None }
}

impl Mutation {
    fn apply(&self, document: &Value) -> Value {
        let mut changed = document.clone();
        for edit in &self.edits {
            let object = changed.pointer_mut(&edit.at).and_then(Value::as_object_mut);
            let object =
                object.unwrap_or_else(|| panic!("{}: {} is no object", self.kind, edit.at));
            match &edit.value {
                Some(value) => drop(object.insert(edit.key.clone(), value.clone())),
                None => drop(object.shift_remove(&edit.key)),
            }
        }
        assert_ne!(changed, *document, "{} of {} changes nothing", self.kind, self.place);
        changed
    }
}

struct Mutations<'a> {
    document: &'a Value,
    out: Vec<Mutation>,
}

/// Whether something is ours by its own mark.
fn is_ours(value: &Value) -> bool {
    value["x-origin"] == "molbox"
}

/// What the loss of something means: of the interface's it is wrong, of ours it must be meant.
fn lost(is_ours: bool) -> State {
    if is_ours { State::Changed } else { State::Broken }
}

fn without(list: &Value, index: usize) -> Value {
    let items = list.as_array().unwrap().iter().enumerate();
    items.filter(|(other, _)| *other != index).map(|(_, item)| item.clone()).collect()
}

fn with(list: &Value, item: &str) -> Value {
    list.as_array().unwrap().iter().cloned().chain([json!(item)]).collect()
}

/// A default or a value as descriptions have it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl<'a> Mutations<'a> {
    fn follow(&self, value: &'a Value) -> &'a Value {
        molbox_codegen::follow(self.document, value)
    }

    fn push(
        &mut self,
        kind: &'static str,
        place: &str,
        expected: State,
        words: &[&str],
        edits: impl IntoIterator<Item = Edit>,
    ) {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let edits = edits.into_iter().collect();
        self.out.push(Mutation { kind, place: place.to_owned(), edits, expected, words });
    }

    fn schemas(&mut self) {
        for (name, schema) in self.document["components"]["schemas"].as_object().unwrap() {
            let at = format!("/components/schemas/{name}");
            let ours = is_ours(schema);
            self.restrictions(schema, &at, &[name], ours);
            if ours {
                self.push(
                    "mark of a schema lost",
                    &at,
                    State::Broken,
                    &[name],
                    [remove(&at, "x-origin")],
                );
            }
            if schema.get("additionalProperties") == Some(&json!({})) {
                // Only answers are open, and they have to be.
                let edit = remove(&at, "additionalProperties");
                self.push("open record closed", &at, State::Broken, &[name], [edit]);
            }
            for (index, required) in schema["required"].as_array().into_iter().flatten().enumerate()
            {
                let required = required.as_str().unwrap();
                let edit = set(&at, "required", without(&schema["required"], index));
                self.push(
                    "required lost",
                    &format!("{at} {required}"),
                    lost(ours),
                    &[name, required],
                    [edit],
                );
            }
            for (property, value) in schema["properties"].as_object().into_iter().flatten() {
                let place = format!("{at}/properties/{property}");
                let ours = ours || is_ours(value);
                self.restrictions(value, &place, &[name, property], ours);
                self.property(name, property, value, &place, ours);
            }
        }
    }

    /// Bounds, lengths, patterns, values, null.
    fn restrictions(&mut self, value: &Value, at: &str, words: &[&str], ours: bool) {
        if value.get("pattern").is_some() {
            // A path parameter or a part of a body.
            self.push("pattern lost", at, State::Changed, &[], [remove(at, "pattern")]);
            self.push(
                "pattern changed",
                at,
                State::Changed,
                &[],
                [set(at, "pattern", "^other_[0-9]+$")],
            );
        }
        if let Some(most) = value.get("maxLength") {
            self.push(
                "largest length lost",
                at,
                State::Changed,
                &[&most.to_string()],
                [remove(at, "maxLength")],
            );
        }
        if value.get("minLength").is_some() {
            self.push("length lost", at, lost(ours), &["1 characters"], [remove(at, "minLength")]);
        }
        if value.get("exclusiveMinimum").is_some() {
            self.push("strictness lost", at, lost(ours), words, [remove(at, "exclusiveMinimum")]);
        }
        if value.get("minimum").is_some() {
            let edits = [remove(at, "minimum"), remove(at, "exclusiveMinimum")];
            self.push("bound lost", at, lost(ours), words, edits);
            // No Rust type has it.
            self.push("bound raised", at, State::Broken, words, [set(at, "minimum", 2)]);
            self.push("other width", at, State::Broken, words, [set(at, "format", "float")]);
        }
        if value["nullable"] == true {
            self.push("null lost", at, lost(ours), words, [remove(at, "nullable")]);
        } else if value["type"].is_string() && words.len() == 2 {
            self.push("null admitted", at, lost(ours), words, [set(at, "nullable", true)]);
        }
        if value["enum"].is_array() && value["type"] == "string" {
            let values = &value["enum"];
            let rest = without(values, values.as_array().unwrap().len() - 1);
            let rest = if rest == json!([]) { json!(["other"]) } else { rest };
            self.push("value lost", at, lost(ours), words, [set(at, "enum", rest)]);
            // Nobody wrote a line for it.
            self.push(
                "value invented",
                at,
                State::Broken,
                &["unheardof"],
                [set(at, "enum", with(values, "unheardof"))],
            );
        }
    }

    fn property(&mut self, name: &str, property: &str, value: &Value, at: &str, ours: bool) {
        let words = [name, property];
        let schema = format!("/components/schemas/{name}");
        let required = &self.document.pointer(&schema).unwrap()["required"];
        let mut edits = vec![remove(&format!("{schema}/properties"), property)];
        if let Some(index) =
            required.as_array().and_then(|names| names.iter().position(|other| other == property))
        {
            edits.push(set(&schema, "required", without(required, index)));
        }
        self.push("property lost", at, lost(ours), &[property], edits);
        if value["type"] == "string" {
            self.push("type changed", at, lost(ours), &words, [set(at, "type", "boolean")]);
        }
        if is_ours(value) {
            self.push("mark lost", at, State::Broken, &words, [remove(at, "x-origin")]);
        }
        let description = value["description"].as_str().unwrap_or_default();
        if let Some(default) = value.get("x-default") {
            let other = match default {
                Value::Number(_) => json!(7),
                Value::Bool(known) => json!(!known),
                _ => json!("NaBr"),
            };
            let edit = set(at, "x-default", other.clone());
            self.push("default and text disagree", at, State::Broken, &[property], [edit.clone()]);
            let before = format!("Default: {}", shown(default));
            let after = format!("Default: {}", shown(&other));
            let text = set(at, "description", description.replacen(&before, &after, 1));
            self.push("default changed", at, State::Changed, &words, [edit, text]);
            self.push("default lost", at, State::Changed, &words, [remove(at, "x-default")]);
        }
        if let Some(unit) = value["x-unit"].as_str() {
            let edit = set(at, "x-unit", "furlong");
            self.push("unit and text disagree", at, State::Broken, &[property], [edit.clone()]);
            let text = set(at, "description", description.replace(unit, "furlong"));
            self.push("unit changed", at, State::Changed, &words, [edit, text]);
            self.push("unit lost", at, State::Changed, &words, [remove(at, "x-unit")]);
        }
        if value["x-choice"].is_string() && (value.get("x-from").or(value.get("x-to"))).is_some() {
            let edit = remove(at, "x-choice");
            self.push("mark of a limit lost", at, State::Broken, &words, [edit]);
        }
        if value["x-values"].is_array() {
            let edit = set(at, "x-values", with(&value["x-values"], "unheardof"));
            self.push("values and text disagree", at, State::Broken, &[property], [edit]);
        }
    }

    fn operations(&mut self) {
        for (path, item) in self.document["paths"].as_object().unwrap() {
            let at = format!("/paths/{}", path.replace('/', "~1"));
            let methods = ["get", "put", "post", "delete", "patch"];
            for (method, operation) in
                item.as_object().unwrap().iter().filter(|(key, _)| methods.contains(&key.as_str()))
            {
                self.operation(path, operation, &at, method, is_ours(operation) || is_ours(item));
            }
            let moved = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
            let edits = [remove("/paths", path), set("/paths", &moved, item.clone())];
            self.push("path moved", path, State::Broken, &[path], edits);
            if item.get("servers").is_some() {
                self.push(
                    "base address lost",
                    path,
                    State::Broken,
                    &["address"],
                    [remove(&at, "servers")],
                );
                let edit = set(&format!("{at}/servers/0"), "url", "https://elsewhere.invalid");
                self.push("base address changed", path, State::Broken, &["base address"], [edit]);
            }
        }
    }

    fn operation(
        &mut self,
        path: &str,
        operation: &'a Value,
        item: &str,
        method: &str,
        ours: bool,
    ) {
        let at = &format!("{item}/{method}");
        let id = operation["operationId"].as_str().unwrap();
        // The service's route table has it.
        self.push("operation lost", at, State::Broken, &[id], [remove(item, method)]);
        self.push(
            "operation renamed",
            at,
            State::Broken,
            &[id],
            [set(at, "operationId", "thing_do")],
        );
        if operation.get("security").is_none() {
            self.push(
                "operation opened",
                at,
                lost(ours),
                &[path],
                [set(at, "security", json!([]))],
            );
        }
        if is_ours(operation) && !is_ours(self.document.pointer(item).unwrap()) {
            self.push(
                "mark of an operation lost",
                at,
                State::Broken,
                &[path],
                [remove(at, "x-origin")],
            );
        }
        if operation.get("x-dropshot-pagination").is_some() {
            let edit = remove(at, "x-dropshot-pagination");
            self.push("stream lost", at, State::Changed, &["stream"], [edit]);
        }
        if operation.get("requestBody").is_some() {
            let edit = set(&format!("{at}/requestBody"), "required", false);
            self.push("body optional", at, State::Broken, &["required"], [edit]);
        }
        for (index, written) in operation["parameters"].as_array().into_iter().flatten().enumerate()
        {
            let here = format!("{at}/parameters/{index}");
            let target = written["$ref"]
                .as_str()
                .map_or_else(|| here.clone(), |reference| reference[1..].to_owned());
            let parameter = self.follow(written);
            let name = parameter["name"].as_str().unwrap();
            let is_operation_ours = ours;
            let ours = ours || is_ours(parameter);
            let edit = set(at, "parameters", without(&operation["parameters"], index));
            self.push("parameter lost", &here, lost(ours), &[name], [edit]);
            if parameter["in"] == "path" {
                let edit = remove(&target, "required");
                self.push(
                    "path parameter without required",
                    &target,
                    State::Broken,
                    &["required: true"],
                    [edit],
                );
            } else if parameter["required"] != true {
                // What the interface lets everybody send may not need more than it states.
                let edit = set(&target, "required", true);
                self.push("parameter required", &target, lost(is_operation_ours), &[name], [edit]);
            }
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let rest = operation["responses"]
                .as_object()
                .unwrap()
                .iter()
                .filter(|(other, _)| *other != status);
            let rest =
                Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect());
            let place = format!("{at} {status}");
            self.push(
                "status lost",
                &place,
                State::Changed,
                &[status],
                [set(at, "responses", rest)],
            );
            let target = response["$ref"]
                .as_str()
                .map_or_else(|| format!("{at}/responses/{status}"), |r| r[1..].to_owned());
            if status == "200"
                && !ours
                && self.follow(response).get("x-choice").is_some()
                && !target.contains("margin")
            {
                let edit = remove(&target, "x-choice");
                self.push(
                    "mark of an answer lost",
                    &target,
                    State::Broken,
                    &[path, "x-origin"],
                    [edit],
                );
            }
            for (media, value) in self.follow(response)["content"].as_object().into_iter().flatten()
            {
                let content = format!("{target}/content");
                let edits =
                    [remove(&content, media), set(&content, "application/x-other", value.clone())];
                self.push("media type changed", &content, State::Changed, &[media], edits);
            }
        }
    }

    fn rest(&mut self) {
        let schemes = "/components/securitySchemes/ApiKey";
        for (kind, words, edit) in [
            ("key lost", "security", remove("", "security")),
            ("key optional", "security", set("", "security", json!([{"ApiKey": []}, {}]))),
            ("key header renamed", "x-api-key", set(schemes, "name", "x-key")),
            ("key moved", "x-api-key", set(schemes, "in", "query")),
            ("base address lost", "server", remove("", "servers")),
            (
                "base address changed",
                "{base_url}",
                set("/servers/0", "url", "https://elsewhere.invalid"),
            ),
            ("the interface's version changed", "info.version", set("/info", "version", "0.2.0")),
            ("release without its packages", "0.9.0", set("/info", "x-release", "0.9.0")),
            ("release lost", "one number", remove("/info", "x-release")),
            ("another OpenAPI", "3.0.3", set("", "openapi", "3.1.0")),
        ] {
            self.push(kind, "the document", State::Broken, &[words], [edit]);
        }
        let shape = "/components/schemas/SystemBuildRequest/properties/box_shape";
        let edit = set(shape, "x-values", json!(["cube", "unheardof"]));
        self.push(
            "values and text disagree",
            shape,
            State::Broken,
            &["box_shape", "unheardof"],
            [edit],
        );
        let request = "/components/schemas/AnalysisRequest";
        let edit = set(request, "x-choice", "units, defaults, and which fields are required");
        let words = ["AnalysisRequest.hbond_angle", "x-choice"];
        self.push("mark of all limits lost", request, State::Broken, &words, [edit]);
        // The other direction: what needs nobody's decision.
        let jobs = "/paths/~1info~1jobs";
        let edit = set(&format!("{jobs}/get"), "description", "Lists jobs.");
        self.push("other words", jobs, State::Stale, &[], [edit]);
        for name in ["JobRecord", "SystemRecord", "FileRecord", "AnalysisRecord"] {
            let at = format!("/components/schemas/{name}/properties");
            let edit =
                set(&at, "note_of_the_day", json!({"type": "string", "description": "A note."}));
            self.push("record with one more property", &at, State::Stale, &[], [edit]);
        }
        let job = "/components/schemas/JobCreateParams";
        let at = format!("{job}/properties");
        let comment = json!({"type": "string", "x-origin": "molbox", "description": "A comment."});
        self.push(
            "one more option of ours",
            &at,
            State::Stale,
            &[],
            [set(&at, "comment", comment)],
        );
        let comment = json!({"type": "string", "description": "A comment."});
        let words = ["JobCreateParams.comment", "x-origin"];
        self.push(
            "one more option of nobody's",
            &at,
            State::Broken,
            &words,
            [set(&at, "comment", comment)],
        );
        let edit = set(job, "required", json!(["box_id"]));
        self.push("a new duty", job, State::Broken, &["JobCreateParams.box_id"], [edit]);
        let mut operation = self.document.pointer(&format!("{jobs}/get")).unwrap().clone();
        operation["operationId"] = json!("job_count");
        let edit = set(jobs, "put", operation);
        self.push(
            "an operation of nobody's",
            jobs,
            State::Broken,
            &["documented but not served"],
            [edit],
        );
    }
}

/// Every kind, with some of its places.
fn mutations(document: &Value) -> Vec<Mutation> {
    let mut all = Mutations { document, out: Vec::new() };
    all.schemas();
    all.operations();
    all.rest();
    let mut kinds: BTreeMap<&str, Vec<Mutation>> = BTreeMap::new();
    for mutation in all.out {
        kinds.entry(mutation.kind).or_default().push(mutation);
    }
    let some = kinds.into_values().flat_map(|places| {
        let step = places.len().div_ceil(PLACES);
        places.into_iter().step_by(step)
    });
    some.collect()
}

/// What is wrong with the answer to a change; none when it is right.
fn wrong(mutation: &Mutation, document: &Value, repository: &Repository) -> Option<String> {
    let text = serde_json::to_string_pretty(&mutation.apply(document)).unwrap();
    let violations = repository.violations(&text).unwrap();
    let found = state(&violations);
    let lines: Vec<String> =
        violations.iter().map(|violation| violation.json().to_string()).collect();
    let is_named = mutation.words.is_empty()
        || lines.iter().any(|line| mutation.words.iter().all(|word| line.contains(word)));
    let is_right = match mutation.expected {
        // What must be meant may be wrong besides, for example where an example has it.
        State::Changed => found >= State::Changed,
        expected => found == expected,
    };
    let Mutation { kind, place, expected, words, .. } = mutation;
    let found_lines = lines.join("\n  ");
    (!is_right || !is_named).then(|| {
        format!("{kind} at {place}: {found:?}, not {expected:?} with {words:?}:\n  {found_lines}")
    })
}

#[test]
fn every_change_of_the_document_has_the_right_answer() {
    let document = &crate::regenerate::document().unwrap().value;
    let base = openapi_drift::Api::new(document.clone());
    let repository = &Repository::read(&root()).unwrap().since("what it was", base);
    let mutations = &mutations(document);
    assert!(mutations.len() >= 120, "only {} changes", mutations.len());
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads = [0, 1].map(|part| {
            let mine = mutations.iter().skip(part).step_by(2);
            scope.spawn(move || -> Vec<String> {
                mine.filter_map(|mutation| wrong(mutation, document, repository)).collect()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let count = wrong.len();
    let all = mutations.len();
    assert!(wrong.is_empty(), "{count} of {all} answers are wrong:\n{}", wrong.join("\n"));
}
