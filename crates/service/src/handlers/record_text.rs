//! Records of systems, jobs and analyses. What is stored of them is in the wire's form and goes out
//! as it is: to read and write it again would be most of the work of a listing.

use anyhow::anyhow;
use jiff::Timestamp;
use molbox::workflow::types::{Hold, QueuePlace};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::app::App;
use crate::error::{ApiError, unreadable};
use crate::record::{Kind, NewTask, Status, Task};

/// What a task reports of itself: its outcome, or how far it is while it runs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reported<'a> {
    #[serde(borrow)]
    progress: Option<&'a RawValue>,
    warnings: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    platform: Option<&'a RawValue>,
    engine: Option<&'a RawValue>,
    stages: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    citations: Option<&'a RawValue>,
}

/// What the service knows of a task, as far as records show it.
struct Known<'a> {
    kind: Kind,
    id: &'a str,
    name: Option<&'a str>,
    parent: Option<&'a str>,
    status: Status,
    is_cancelling: bool,
    request: &'a str,
    parameters: &'a str,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    attempts: u64,
    warnings: &'a str,
}

impl<'a> From<&'a Task> for Known<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            kind: task.kind,
            id: &task.id,
            name: task.name.as_deref(),
            parent: task.parent.as_deref(),
            status: task.status,
            is_cancelling: task.is_cancelled && task.finished_at.is_none(),
            request: &task.request,
            parameters: &task.parameters,
            created_at: task.created_at,
            started_at: task.started_at,
            finished_at: task.finished_at,
            expires_at: task.expires_at,
            attempts: task.attempts.unsigned_abs(),
            warnings: &task.warnings,
        }
    }
}

impl<'a> From<&'a NewTask> for Known<'a> {
    fn from(task: &'a NewTask) -> Self {
        Self {
            kind: task.kind,
            id: &task.id,
            name: task.name.as_deref(),
            parent: task.parent.as_deref(),
            status: Status::Queued,
            is_cancelling: false,
            request: &task.request,
            parameters: &task.parameters,
            created_at: task.created_at,
            started_at: None,
            finished_at: None,
            expires_at: None,
            attempts: 0,
            warnings: &task.warnings,
        }
    }
}

/// The record of a task as JSON: `JobRecord`, `SystemRecord` or `AnalysisRecord` of the document.
pub(crate) fn record(app: &App, task: &Task) -> Result<String, ApiError> {
    let running = if task.outcome.is_none() { app.progress(&task.id) } else { None };
    let reported = match task.outcome.as_deref().or(running.as_deref()) {
        Some(text) => serde_json::from_str(text).map_err(unreadable)?,
        None => Reported::default(),
    };
    let waits = match task.status {
        Status::Queued => {
            Waits { held: app.held(task.kind), place: app.place(task.kind, &task.id) }
        }
        _ => Waits::default(),
    };
    written(&task.into(), &reported, &waits)
}

/// The record of a task that is to be queued.
pub(crate) fn new_record(app: &App, task: &NewTask) -> Result<String, ApiError> {
    let waits = Waits { held: app.held(task.kind), place: None };
    written(&task.into(), &Reported::default(), &waits)
}

/// What a task waits for.
#[derive(Default)]
struct Waits {
    held: Option<Hold>,
    place: Option<QueuePlace>,
}

fn written(known: &Known<'_>, reported: &Reported<'_>, waits: &Waits) -> Result<String, ApiError> {
    let mut object =
        Object(String::with_capacity(known.request.len() + known.parameters.len() + 2048));
    match known.kind {
        Kind::Job => {
            object.value("job_id", known.id)?;
            let no_system = || ApiError::internal(anyhow!("{} has no system", known.id));
            object.value("box_id", known.parent.ok_or_else(no_system)?)?;
            object.optional("batch_name", known.name)?;
            if let Some(index) = batch_index(known.parameters) {
                object.stored("batch_index", index);
            }
            object.stored("parameters", known.parameters);
            object.optional_stored("platform", reported.platform);
            object.optional_stored("engine", reported.engine);
            object.optional_stored(
                "stages",
                reported.stages.filter(|stages| !items(stages.get()).is_empty()),
            );
            object.optional_stored("citations", reported.citations);
        }
        Kind::System => {
            object.value("system_id", known.id)?;
            object.optional("box_name", known.name)?;
            object.optional_stored("summary", reported.summary);
            object.optional_stored("citations", reported.citations);
        }
        Kind::Analysis => {
            object.value("analysis_id", known.id)?;
            object.optional("job_id", known.parent)?;
        }
    }
    object.value("status", &known.status)?;
    object.optional("cancelling", known.is_cancelling.then_some(true))?;
    object.stored("request", known.request);
    object.value("created_at", &known.created_at)?;
    object.optional("started_at", known.started_at)?;
    object.optional("finished_at", known.finished_at)?;
    object.optional("expires_at", known.expires_at)?;
    object.value("attempts", &known.attempts)?;
    object
        .optional_stored("progress", reported.progress.filter(|_| known.status == Status::Running));
    // About the request, then of the run.
    object.stored("warnings", &both(known.warnings, reported.warnings.map_or("[]", RawValue::get)));
    object.optional_stored("error", reported.error);
    object.optional("queue", waits.place.as_ref())?;
    object.optional("held", waits.held.as_ref())?;
    Ok(object.end())
}

/// The number that a job has in its batch, as its parameters have it. In a text the quotes would be
/// escaped, so it is found without reading the rest.
fn batch_index(parameters: &str) -> Option<&str> {
    let (_, value) = parameters.split_once("\"batch_index\":")?;
    value.split([',', '}']).next().filter(|value| *value != "null")
}

/// What stands between the brackets of a list.
fn items(list: &str) -> &str {
    list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default().trim()
}

/// Two lists as one, all of them JSON.
pub(super) fn both(first: &str, second: &str) -> String {
    let between = if items(first).is_empty() || items(second).is_empty() { "" } else { "," };
    format!("[{}{between}{}]", items(first), items(second))
}

/// An object that is written member by member.
struct Object(String);

impl Object {
    /// A member whose value is JSON already.
    fn stored(&mut self, name: &str, json: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        for part in ["\"", name, "\":", json] {
            self.0.push_str(part);
        }
    }

    fn value(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), ApiError> {
        self.stored(name, &serde_json::to_string(value).map_err(ApiError::internal)?);
        Ok(())
    }

    fn optional(&mut self, name: &str, value: Option<impl Serialize>) -> Result<(), ApiError> {
        value.map_or(Ok(()), |value| self.value(name, &value))
    }

    fn optional_stored(&mut self, name: &str, json: Option<&RawValue>) {
        if let Some(json) = json {
            self.stored(name, json.get());
        }
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::http::validate::DOCUMENT;

    fn row(kind: Kind) -> Task {
        Task {
            kind,
            name: Some("a \"batch_index\":7, of \\ names".to_owned()),
            parameters: json!({ "batch_name": "a \"batch_index\":7,", "batch_index": 1 })
                .to_string(),
            ..Task::example()
        }
    }

    fn read(row: &Task, reported: &Reported<'_>, waits: &Waits) -> Value {
        serde_json::from_str(&written(&row.into(), reported, waits).unwrap()).unwrap()
    }

    #[test]
    fn records_have_the_members_that_the_document_names() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let text = r#"{"progress": {}, "error": {}, "platform": "CPU", "engine": "openmm", "stages": [{}], "summary": {}, "citations": [], "other": 1}"#;
        let reported = serde_json::from_str(text).unwrap();
        let held = Hold {
            kinds: Vec::new(),
            code: String::new(),
            message: String::new(),
            fault: String::new(),
            since: String::new(),
            extra: Default::default(),
        };
        let place = QueuePlace {
            position: 1,
            length: 1,
            expected_start_at: None,
            extra: Default::default(),
        };
        let waits = Waits { held: Some(held), place: Some(place) };
        for (kind, schema) in [
            (Kind::Job, "JobRecord"),
            (Kind::System, "SystemRecord"),
            (Kind::Analysis, "AnalysisRecord"),
        ] {
            let ended = row(kind);
            let leaving = Task { is_cancelled: true, finished_at: None, ..row(kind) };
            let records = [&ended, &leaving].map(|row| read(row, &reported, &waits));
            let members = records.iter().flat_map(|record| record.as_object().unwrap().keys());
            let mut served: Vec<&String> = members.collect();
            let properties =
                document["components"]["schemas"][schema]["properties"].as_object().unwrap();
            let mut named: Vec<&String> = properties.keys().collect();
            served.sort();
            named.sort();
            served.dedup();
            assert_eq!(served, named, "{schema}");
        }
    }

    #[test]
    fn what_is_stored_comes_back_and_what_is_not_there_is_left_out() {
        let (row, empty) =
            (row(Kind::Job), Task { name: None, parameters: "{}".to_owned(), ..row(Kind::Job) });
        let record = read(&row, &Reported::default(), &Waits::default());
        assert_eq!(
            (&record["batch_index"], &record["parameters"]["batch_index"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(record["batch_name"], row.name.unwrap());
        let reported =
            serde_json::from_str(r#"{"stages": [ ], "platform": null, "progress": {"step": 1}}"#)
                .unwrap();
        for row in
            [Task { parameters: r#"{"batch_index":null}"#.to_owned(), ..empty.clone() }, empty]
        {
            let record =
                read(&Task { status: Status::Succeeded, ..row }, &reported, &Waits::default());
            for absent in [
                "batch_name",
                "batch_index",
                "stages",
                "platform",
                "progress",
                "error",
                "queue",
                "held",
            ] {
                assert_eq!(record.get(absent), None, "{absent}");
            }
        }
    }

    #[test]
    fn warnings_of_the_request_come_before_those_of_the_run() {
        for (first, second, all) in [
            ("[]", "[]", "[]"),
            (r#"["a"]"#, "[]", r#"["a"]"#),
            ("[]", r#"["b"]"#, r#"["b"]"#),
            (r#"["a"]"#, r#"["b","c"]"#, r#"["a","b","c"]"#),
        ] {
            assert_eq!(both(first, second), all);
        }
    }
}
