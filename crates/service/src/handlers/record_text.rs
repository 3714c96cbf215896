//! Records of systems, jobs and analyses. What is stored of them is in the wire's form and goes out
//! as it is: to read and write it again would be most of the work of a listing.

use anyhow::anyhow;
use molbox::workflow::types::Hold;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::app::App;
use crate::db::TaskRow;
use crate::error::{ApiError, unreadable};
use crate::record::{Kind, Status};

/// What a task says of itself: its outcome, or how far it is while it runs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    progress: Option<&'a RawValue>,
    warnings: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    platform: Option<&'a RawValue>,
    stages: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    citations: Option<&'a RawValue>,
}

/// The record of a task as JSON: `JobRecord`, `SystemRecord` or `AnalysisRecord` of the document.
pub(crate) fn record(app: &App, row: &TaskRow) -> Result<String, ApiError> {
    let running = if row.outcome.is_none() { app.progress(&row.id) } else { None };
    let said = match row.outcome.as_deref().or(running.as_deref()) {
        Some(text) => serde_json::from_str(text).map_err(unreadable)?,
        None => Said::default(),
    };
    written(row, &said, held(app, row).as_ref())
}

/// Why a queued task is not started.
fn held(app: &App, row: &TaskRow) -> Option<Hold> {
    if row.status != Status::Queued {
        return None;
    }
    Some(app.holds.of_lane(row.kind.lane(), &app.config.worker.gpus)?.shown())
}

fn written(row: &TaskRow, said: &Said<'_>, held: Option<&Hold>) -> Result<String, ApiError> {
    let stored =
        row.request.len() + row.parameters.len() + row.outcome.as_ref().map_or(0, String::len);
    let mut object = Object(String::with_capacity(stored + 512));
    match row.kind {
        Kind::Job => {
            object.value("job_id", &row.id)?;
            let no_system = || ApiError::internal(anyhow!("{} has no system", row.id));
            object.value("box_id", row.parent.as_ref().ok_or_else(no_system)?)?;
            object.optional("batch_name", row.name.as_ref())?;
            if let Some(index) = batch_index(&row.parameters) {
                object.stored("batch_index", index);
            }
            object.stored("parameters", &row.parameters);
            object.optional_stored("platform", said.platform);
            object.optional_stored(
                "stages",
                said.stages.filter(|stages| !items(stages.get()).is_empty()),
            );
            object.optional_stored("citations", said.citations);
        }
        Kind::System => {
            object.value("system_id", &row.id)?;
            object.optional("box_name", row.name.as_ref())?;
            object.optional_stored("summary", said.summary);
            object.optional_stored("citations", said.citations);
        }
        Kind::Analysis => {
            object.value("analysis_id", &row.id)?;
            object.optional("job_id", row.parent.as_ref())?;
        }
    }
    object.value("status", &row.status)?;
    object.stored("request", &row.request);
    object.value("created_at", &row.created_at)?;
    object.optional("started_at", row.started_at)?;
    object.optional("finished_at", row.finished_at)?;
    object.value("attempts", &row.attempts.unsigned_abs())?;
    object.optional_stored("progress", said.progress.filter(|_| row.status == Status::Running));
    // About the request, then of the run.
    object.stored("warnings", &both(&row.warnings, said.warnings.map_or("[]", RawValue::get)));
    object.optional_stored("error", said.error);
    object.optional("held", held)?;
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

    fn row(kind: Kind) -> TaskRow {
        TaskRow {
            kind,
            name: Some("a \"batch_index\":7, of \\ names".to_owned()),
            parameters: json!({ "batch_name": "a \"batch_index\":7,", "batch_index": 1 })
                .to_string(),
            ..TaskRow::example()
        }
    }

    fn read(row: &TaskRow, said: &Said<'_>, held: Option<&Hold>) -> Value {
        serde_json::from_str(&written(row, said, held).unwrap()).unwrap()
    }

    #[test]
    fn records_have_the_members_that_the_document_names() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let text = r#"{"progress": {}, "error": {}, "platform": "CPU", "stages": [{}], "summary": {}, "citations": [], "other": 1}"#;
        let said = serde_json::from_str(text).unwrap();
        let held = Hold {
            kinds: Vec::new(),
            code: String::new(),
            message: String::new(),
            fault: String::new(),
            since: String::new(),
            extra: Default::default(),
        };
        for (kind, schema) in [
            (Kind::Job, "JobRecord"),
            (Kind::System, "SystemRecord"),
            (Kind::Analysis, "AnalysisRecord"),
        ] {
            let record = read(&row(kind), &said, Some(&held));
            let mut served: Vec<&String> = record.as_object().unwrap().keys().collect();
            let properties =
                document["components"]["schemas"][schema]["properties"].as_object().unwrap();
            let mut named: Vec<&String> = properties.keys().collect();
            served.sort();
            named.sort();
            assert_eq!(served, named, "{schema}");
        }
    }

    #[test]
    fn what_is_stored_comes_back_and_what_is_not_there_is_left_out() {
        let (row, empty) =
            (row(Kind::Job), TaskRow { name: None, parameters: "{}".to_owned(), ..row(Kind::Job) });
        let record = read(&row, &Said::default(), None);
        assert_eq!(
            (&record["batch_index"], &record["parameters"]["batch_index"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(record["batch_name"], row.name.unwrap());
        let said =
            serde_json::from_str(r#"{"stages": [ ], "platform": null, "progress": {"step": 1}}"#)
                .unwrap();
        for row in
            [TaskRow { parameters: r#"{"batch_index":null}"#.to_owned(), ..empty.clone() }, empty]
        {
            let record = read(&TaskRow { status: Status::Succeeded, ..row }, &said, None);
            for absent in
                ["batch_name", "batch_index", "stages", "platform", "progress", "error", "held"]
            {
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
