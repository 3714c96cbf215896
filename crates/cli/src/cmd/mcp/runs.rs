//! Runs that go on while the assistant does something else.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use molbox::run::Run;
use serde_json::{Value, json};

use crate::cmd::run;
use crate::context::Context;
use crate::failure::{Code, Failure};

/// Runs that go on together: each has uploads, waits and downloads.
const MAX_RUNS: usize = 8;
/// How often the state of a run is looked at.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// How a run of this process ended: where everything is, or why not.
type Ended = Option<Result<Value, Arc<Failure>>>;

/// The runs of this process, by their folders.
#[derive(Default)]
pub(super) struct Runs(Mutex<HashMap<PathBuf, Arc<Mutex<Ended>>>>);

impl Runs {
    /// Continues a run by itself. It ends with this process; its folder has what is needed to
    /// resume it.
    pub(super) fn start(&self, mut run: Run, context: Context) -> Result<(), Failure> {
        let folder = run.folder().to_owned();
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|known, ended| *known != folder || is_going(ended));
        if runs.contains_key(&folder) {
            return Err(Failure::new(Code::Conflict, "that run goes on already")
                .remedy("wait for it with molbox_wait"));
        }
        if runs.values().filter(|ended| is_going(ended)).count() >= MAX_RUNS {
            return Err(Failure::new(Code::Rate, format!("{MAX_RUNS} runs go on already"))
                .remedy("wait for one of them with molbox_wait"));
        }
        let ended: Arc<Mutex<Ended>> = Arc::default();
        runs.insert(folder, ended.clone());
        tokio::spawn(async move {
            let result = run::finish(&mut run, &context).await.map_err(Arc::new);
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        Ok(())
    }

    fn ended(&self, folder: &Path) -> Option<Ended> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = runs.get(folder)?;
        Some(ended.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// How far the run of a folder is.
    pub(super) fn state(&self, folder: &Path) -> Result<State, Failure> {
        let run = Run::open(folder).map_err(|_| {
            Failure::new(Code::NotFound, format!("{}: holds no run", folder.display()))
        })?;
        let ended = self.ended(folder);
        let failure = match &ended {
            Some(Some(Err(failure))) => Some(failure.clone()),
            _ => None,
        };
        let (status, more) = match ended {
            Some(None) => ("running", Value::Null),
            Some(Some(Ok(summary))) => ("succeeded", summary),
            Some(Some(Err(failure))) => ("failed", failure.json()),
            None if run.is_done => ("succeeded", Value::Null),
            None if run.failure.is_some() => ("failed", json!({"error": run.failure})),
            None => ("interrupted", json!({"remedy": "molbox_run with `output` and `resume`"})),
        };
        Ok(State { run, status, failure, more })
    }
}

fn is_going(ended: &Mutex<Ended>) -> bool {
    ended.lock().unwrap_or_else(PoisonError::into_inner).is_none()
}

/// A run as it was looked at.
pub(super) struct State {
    run: Run,
    pub(super) status: &'static str,
    /// Why it came to nothing in this process.
    pub(super) failure: Option<Arc<Failure>>,
    more: Value,
}

impl State {
    /// Whether there are jobs of it.
    pub(super) fn is_submitted(&self) -> bool {
        !self.run.replicas.is_empty()
    }

    fn is_simulated(&self) -> bool {
        self.run.replicas.iter().all(|replica| replica.job.status == "succeeded")
    }

    pub(super) fn is_going(&self) -> bool {
        self.status == "running"
    }

    /// What it is at.
    pub(super) fn at(&self) -> &'static str {
        match self.run.system.as_ref().map(|system| system.status.as_str()) {
            None => "uploading",
            Some("succeeded") if !self.is_submitted() => "submitting",
            Some("succeeded") if self.is_simulated() => "analysing",
            Some("succeeded") => "simulating",
            Some(_) => "building",
        }
    }

    /// Identifiers of its jobs.
    pub(super) fn job_ids(&self) -> Vec<&str> {
        self.run.replicas.iter().map(|replica| replica.job.job_id.as_str()).collect()
    }

    /// The run as a record.
    pub(super) fn record(&self, id: &str) -> Value {
        let replicas: Vec<Value> = self
            .run
            .replicas
            .iter()
            .map(|replica| {
                json!({
                    "job_id": replica.job.job_id,
                    "job_status": replica.job.status,
                    "analysis_id": replica.analysis.as_ref().map(|analysis| &analysis.analysis_id),
                })
            })
            .collect();
        let mut record = json!({
            "id": id,
            "status": self.status,
            "folder": self.run.folder(),
            "system_id": self.run.system.as_ref().map(|system| &system.system_id),
            "replicas": replicas,
        });
        match (self.status, &self.more) {
            ("running", _) => record["at"] = self.at().into(),
            ("succeeded", summary) if summary.is_object() => {
                record["report"] = summary["report"].clone();
                record["replicas"] = summary["replicas"].clone();
            }
            (_, Value::Object(more)) => {
                more.iter().for_each(|(name, value)| record[name] = value.clone());
            }
            _ => {}
        }
        record
    }
}
