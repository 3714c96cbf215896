//! What a task has come to, as it is kept and as its record shows it.

use std::collections::BTreeMap;

use molbox::Finite;
use molbox::workflow::types::{Failure, Notice, Progress, StageResult, SystemSummary};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::plan::simulate::DefaultMasks;
use crate::shown::all_without_folders;
use crate::worker::{ProgressFile, Report, Summary};

/// What a task has come to: in its row when it has ended, JSON, and in memory while it runs. Its
/// members are those of records, where these have any.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warnings: Option<Vec<Notice>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<SystemSummary>,
    /// What the default masks of a system are made of.
    #[serde(skip)]
    pub(super) solvent_residues: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<BTreeMap<String, Finite>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stages: Option<Vec<StageResult>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) engine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) versions: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default_masks: Option<DefaultMasks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) citations: Option<Vec<String>>,
    /// While it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<Progress>,
}

impl From<Report> for Outcome {
    fn from(report: Report) -> Self {
        let (summary, solvent_residues) = match report.summary {
            Some(Summary { shown, solvent_residues }) => (Some(shown), solvent_residues),
            None => (None, Vec::new()),
        };
        Self {
            warnings: Some(report.warnings),
            error: report.error,
            traceback: report.traceback,
            summary,
            solvent_residues,
            seconds: report.seconds,
            stages: report.stages,
            platform: report.platform,
            engine: report.engine,
            versions: report.versions,
            ..Self::default()
        }
    }
}

impl From<ProgressFile> for Outcome {
    fn from(file: ProgressFile) -> Self {
        let ProgressFile { warnings, stages, platform, engine, progress } = file;
        Self { warnings, stages, platform, engine, progress: Some(progress), ..Self::default() }
    }
}

impl Outcome {
    /// Of a task that failed without a report.
    pub(super) fn failed(error: Failure) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// The same of a task whose next attempt waits for a place in a cluster, for this reason in
    /// its words.
    pub(super) fn waiting(self, reason: &str) -> Self {
        let so_far = self.progress.map_or(json!(0.0), |progress| json!(progress.fraction));
        let progress = json!({ "fraction": so_far, "stage": format!("waiting: {reason}") });
        let progress = serde_json::from_value(progress).expect("it has what is required");
        Self { progress: Some(progress), ..self }
    }

    /// The same of a task that has ended, with what it had come to before its end.
    pub(super) fn with(self, so_far: Self) -> Self {
        Self {
            warnings: self.warnings.or(so_far.warnings),
            stages: self.stages.or(so_far.stages),
            platform: self.platform.or(so_far.platform),
            engine: self.engine.or(so_far.engine),
            progress: None,
            ..self
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("its members have names and finite numbers")
    }

    /// Takes the folders out of what people read, which are of no use to a client.
    pub(super) fn hide_folders(&mut self) -> serde_json::Result<()> {
        self.error = without_folders(&self.error)?;
        self.warnings = without_folders(&self.warnings)?;
        Ok(())
    }
}

/// The same with every text as clients are shown it.
fn without_folders<T: Serialize + DeserializeOwned>(of: &T) -> serde_json::Result<T> {
    let mut value = serde_json::to_value(of)?;
    all_without_folders(&mut value);
    serde_json::from_value(value)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::record::Kind;

    fn stored(outcome: Outcome) -> Value {
        serde_json::to_value(outcome).unwrap()
    }

    fn progress() -> Outcome {
        let file = json!({
            "fraction": 0.5, "step": 3, "later": 1, "platform": "CPU", "stages": null,
            "warnings": [{ "code": "a", "message": "read /srv/x.pdb" }],
        });
        serde_json::from_value::<ProgressFile>(file).unwrap().into()
    }

    #[test]
    fn progress_is_shown_apart_from_what_else_a_record_has() {
        let shown = json!({
            "warnings": [{ "code": "a", "message": "read /srv/x.pdb" }],
            "platform": "CPU",
            "progress": { "fraction": 0.5, "step": 3, "later": 1 },
        });
        assert_eq!(stored(progress()), shown);
    }

    #[test]
    fn what_waits_again_has_got_as_far_as_it_had() {
        let shown = stored(progress().waiting("Priority"));
        assert_eq!(
            (&shown["progress"], &shown["platform"]),
            (&json!({ "fraction": 0.5, "stage": "waiting: Priority" }), &json!("CPU"))
        );
        let first = stored(Outcome::default().waiting("Resources"));
        assert_eq!(
            first,
            json!({ "progress": { "fraction": 0.0, "stage": "waiting: Resources" } })
        );
    }

    #[test]
    fn what_a_report_has_replaces_what_was_said_before_it() {
        let report = json!({
            "status": "failed", "attempt": 2, "warnings": [], "stages": [], "seconds": { "a": 1.5 },
            "error": { "code": "unstable", "message": "in /srv/y", "log": ["/a/b"], "step": 7 },
        });
        let report = Report::read(Kind::Job, &report).unwrap();
        let mut outcome = Outcome::from(report).with(progress());
        outcome.hide_folders().unwrap();
        let kept = json!({
            "warnings": [], "stages": [], "seconds": { "a": 1.5 },
            "error": { "code": "unstable", "message": "in y", "log": ["b"], "step": 7 },
            "platform": "CPU",
        });
        assert_eq!(stored(outcome), kept);
    }

    #[test]
    fn what_did_not_come_to_a_report_has_what_was_said_until_then() {
        let mut outcome = Outcome::default().with(progress());
        outcome.hide_folders().unwrap();
        let kept =
            json!({ "warnings": [{ "code": "a", "message": "read x.pdb" }], "platform": "CPU" });
        assert_eq!(stored(outcome), kept);
    }
}
