//! What the service and the commands that carry tasks out hand each other: `task.json` and
//! `result.json` in the folder of a task, and `progress.json` until there is a result. Examples of
//! the first two lie in `worker/tests/contract`: of the first a test of the service writes them and
//! the worker's tests read them, of the second the other way round.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail, ensure};
use molbox::Finite;
use molbox::workflow::types::{Failure, Notice, Progress, ResidueName, StageResult, SystemSummary};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::exec::attempt::boot_id;
use crate::exec::capacity::Share;
use crate::exec::confine::Confinement;
use crate::plan::analyze::AnalyzeInputs;
use crate::plan::build::BuildPlan;
use crate::plan::simulate::{SimulatePlan, is_stage_name};
use crate::record::{Kind, Status};

/// What a command can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    Build,
    Simulate,
    Analyze,
    /// To show that the environment of the workers is sound.
    Environment,
}

/// `task.json`: what a command is to do, and with what of the machine. `P` is the plan, of which
/// the service reads nothing again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskFile<P> {
    pub(crate) kind: Work,
    pub(crate) id: String,
    /// Number of the attempt, which `result.json` repeats.
    pub(crate) attempt: u32,
    /// Run of the machine in which the attempt began. With this and the next, one that left no
    /// result is judged.
    pub(crate) boot: Option<String>,
    /// Commits of the simulation when it began.
    pub(crate) commits: u64,
    pub(crate) plan: P,
    pub(crate) seed: i64,
    /// OpenMM platform; none for the best that there is.
    pub(crate) platform: Option<String>,
    /// The program `gmx`; none for the one of the search path.
    pub(crate) gromacs: Option<String>,
    pub(crate) threads: usize,
    /// Index of the GPU.
    pub(crate) device: Option<u32>,
    /// Number of the user that it runs as, if it has one of its own.
    pub(crate) user: Option<u32>,
    /// A folder that outlives the task.
    pub(crate) cache: PathBuf,
    pub(crate) ligand_seconds: u64,
    pub(crate) checkpoint_seconds: f64,
}

/// The plan of each kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Plan {
    Build(Box<BuildPlan>),
    Simulate(SimulatePlan),
    Analyze(Box<AnalyzeInputs>),
    /// A check that may take so many seconds.
    Environment {
        seconds: u32,
    },
}

impl Plan {
    fn work(&self) -> Work {
        match self {
            Self::Build(_) => Work::Build,
            Self::Simulate(_) => Work::Simulate,
            Self::Analyze(_) => Work::Analyze,
            Self::Environment { .. } => Work::Environment,
        }
    }
}

impl TaskFile<Plan> {
    /// The first attempt of a task without commits, with what the settings give it.
    pub(crate) fn new(
        id: &str,
        plan: Plan,
        seed: i64,
        share: Share,
        confinement: &Confinement,
        config: &Config,
    ) -> Self {
        let worker = &config.worker;
        Self {
            kind: plan.work(),
            id: id.to_owned(),
            attempt: 1,
            boot: boot_id(),
            commits: 0,
            plan,
            seed,
            platform: Some(&worker.platform).filter(|name| !name.is_empty()).cloned(),
            gromacs: Some(&worker.gromacs).filter(|path| !path.is_empty()).cloned(),
            threads: share.cpus,
            device: share.gpu,
            user: share.user,
            cache: confinement.cache.clone(),
            ligand_seconds: worker.ligand_seconds,
            checkpoint_seconds: worker.checkpoint_seconds,
        }
    }
}

/// `result.json`: how a task ended, in the words of what carried it out, which have no others. Its
/// members are those of records, where these have any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    status: Status,
    /// Number of the attempt.
    attempt: u32,
    pub(crate) warnings: Vec<Notice>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
    /// Of a defect, for those who repair it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceback: Option<String>,
    /// What was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Summary>,
    /// Wall time of each step of a build, in s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<BTreeMap<String, Finite>>,
    /// Of a simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stages: Option<Vec<StageResult>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<String>,
    /// Of the programs that had a part in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) versions: Option<BTreeMap<String, String>>,
    /// Of a check of the environment: the platforms that there are, whether there is what ligands
    /// need, and which GROMACS there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    platforms: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ligand_tools: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gromacs: Option<String>,
}

/// `progress.json`: how far a task is, in the words of what carries it out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ProgressFile {
    pub(crate) warnings: Option<Vec<Notice>>,
    /// Of a simulation, those that are done.
    pub(crate) stages: Option<Vec<StageResult>>,
    pub(crate) platform: Option<String>,
    pub(crate) engine: Option<String>,
    #[serde(flatten)]
    pub(crate) progress: Progress,
}

/// What records show of a built system, and what its default masks are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Names of the residues that surround the solute.
    pub(crate) solvent_residues: Vec<String>,
    #[serde(flatten)]
    pub(crate) shown: SystemSummary,
}

/// Most programs of which a worker tells the version.
const MAX_VERSIONS: usize = 100;
/// Most bytes of a name or a version.
const MAX_WORD: usize = 200;
/// Most steps and frames of a stage, whose sums are whole numbers wherever JSON is read.
const MAX_COUNT: u64 = 1 << 50;

impl ProgressFile {
    /// Whether it is what a worker writes: its numbers are added up, its words shown.
    pub(crate) fn is_sound(&self) -> bool {
        let words = [&self.platform, &self.engine, &self.progress.stage];
        self.stages.as_deref().is_none_or(|stages| check_stages(stages).is_ok())
            && self.progress.step.is_none_or(|step| step <= MAX_COUNT)
            && words.into_iter().flatten().all(|word| word.len() <= MAX_WORD)
    }
}

/// Stages have the names that jobs give them, each once: files are found by them.
fn check_stages(stages: &[StageResult]) -> Result<()> {
    let mut names = HashSet::new();
    for stage in stages {
        ensure!(is_stage_name(&stage.name), "stages: a name that no stage has");
        ensure!(names.insert(&stage.name), "stages: {} twice", stage.name);
        ensure!(stage.steps <= MAX_COUNT, "stages: more steps than can be taken");
        ensure!(stage.frames <= MAX_COUNT, "stages: more frames than can be written");
    }
    Ok(())
}

impl Report {
    /// The report of a task of some kind.
    ///
    /// # Errors
    ///
    /// What of it no worker writes, by its name.
    pub(crate) fn read(kind: Kind, result: &Value) -> Result<Self> {
        let report: Self = serde_path_to_error::deserialize(result)?;
        report.check(kind)?;
        Ok(report)
    }

    fn check(&self, kind: Kind) -> Result<()> {
        match self.status {
            Status::Succeeded => {
                ensure!(self.versions.is_some(), "missing field `versions`");
                ensure!(kind != Kind::System || self.summary.is_some(), "missing field `summary`");
                ensure!(kind != Kind::Job || self.stages.is_some(), "missing field `stages`");
                ensure!(kind != Kind::Job || self.platform.is_some(), "missing field `platform`");
                ensure!(kind != Kind::Job || self.engine.is_some(), "missing field `engine`");
                ensure!(self.error.is_none(), "error: of a task that succeeded");
            }
            Status::Failed => {
                ensure!(self.error.is_some(), "missing field `error`");
                ensure!(self.summary.is_none(), "summary: of a task that failed");
            }
            other => bail!("status: no task of a worker ends as {other}"),
        }
        check_stages(self.stages.as_deref().unwrap_or_default())?;
        let versions = self.versions.iter().flatten();
        let words = versions.clone().flat_map(|(name, version)| [name, version]);
        ensure!(versions.count() <= MAX_VERSIONS, "versions: of too many programs");
        let mut words = words.chain(&self.platform).chain(&self.engine);
        ensure!(words.all(|word| word.len() <= MAX_WORD), "a name or a version is too long");
        self.unknown().map_or(Ok(()), |word| Err(anyhow!("unknown field `{word}`")))
    }

    /// A word in a member that clients read leniently, for the sake of later versions; the service
    /// and its workers have one version.
    fn unknown(&self) -> Option<String> {
        let first = |at: &str, extra: &Map<String, Value>| {
            extra.keys().next().map(|word| format!("{at}.{word}"))
        };
        let residues = |residues: &[ResidueName]| {
            residues.iter().find_map(|residue| first("residues", &residue.extra))
        };
        let warnings = self.warnings.iter().find_map(|warning| {
            first("warnings", &warning.extra).or_else(|| residues(&warning.residues))
        });
        let error = self
            .error
            .iter()
            .find_map(|error| first("error", &error.extra).or_else(|| residues(&error.residues)));
        let stages = self.stages.iter().flatten().find_map(|stage| first("stages", &stage.extra));
        let summary = self.summary.iter().find_map(|summary| {
            let check = summary.shown.check.as_ref();
            let bond = check.and_then(|check| check.longest_bond.as_ref());
            let contact = check.and_then(|check| check.closest_contact.as_ref());
            let force = check.and_then(|check| check.largest_force.as_ref());
            first("summary", &summary.shown.extra)
                .or_else(|| first("summary.check", &check?.extra))
                .or_else(|| first("summary.check.longest_bond", &bond?.extra))
                .or_else(|| first("summary.check.closest_contact", &contact?.extra))
                .or_else(|| first("summary.check.largest_force", &force?.extra))
        });
        warnings.or(error).or(stages).or(summary)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// Examples of `result.json`, which the worker's tests write, by name.
    fn examples() -> Vec<(String, Kind, Value)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worker/tests/contract");
        let mut examples = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
            let Some(what) = name.strip_prefix("result_") else { continue };
            // A check of the environment ends as any task does that nothing more is asked of.
            let kind = match what.split(['_', '.']).next().unwrap() {
                "build" => Kind::System,
                "job" | "simulate" => Kind::Job,
                _ => Kind::Analysis,
            };
            let result = serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
            examples.push((name, kind, result));
        }
        assert!(examples.iter().any(|(_, kind, _)| *kind == Kind::System), "there are examples");
        assert!(examples.iter().any(|(_, kind, _)| *kind == Kind::Job));
        examples
    }

    #[test]
    fn a_report_with_what_no_worker_writes_is_refused() {
        let stage = |name: &str, steps: u64| json!({"name": name, "steps": steps, "frames": 0, "seconds": 1.0});
        let report = |stages: Value, versions: Value| {
            json!({
                "status": "succeeded", "attempt": 1, "warnings": [], "versions": versions,
                "platform": "CPU", "engine": "openmm", "stages": stages,
            })
        };
        let none = || json!({});
        let sound =
            json!([stage("minimization", 5), stage("equilibration_1", 9), stage("production", 9)]);
        Report::read(Kind::Job, &report(sound, none())).unwrap();
        let many: Map<_, _> = (0..=MAX_VERSIONS).map(|i| (i.to_string(), json!("1"))).collect();
        for (wrong, expected) in [
            (report(json!([stage("../production", 1)]), none()), "a name that no stage has"),
            (report(json!([stage("equilibration_0", 1)]), none()), "a name that no stage has"),
            (report(json!([stage("equilibration_01", 1)]), none()), "a name that no stage has"),
            (report(json!([stage("production", 1), stage("production", 1)]), none()), "twice"),
            (report(json!([stage("production", u64::MAX)]), none()), "more steps"),
            (report(json!([]), Value::Object(many)), "of too many programs"),
            (report(json!([]), json!({"openmm": "8".repeat(MAX_WORD + 1)})), "too long"),
        ] {
            let error = Report::read(Kind::Job, &wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{error} for {expected}");
        }
    }

    #[test]
    fn progress_whose_numbers_cannot_be_added_up_counts_as_none() {
        let progress = |stages: Value, step: u64| {
            let said = json!({"fraction": 0.5, "step": step, "stages": stages});
            serde_json::from_value::<ProgressFile>(said).unwrap().is_sound()
        };
        let stage = |steps: u64| json!([{"name": "production", "steps": steps, "frames": 0, "seconds": 1.0}]);
        assert!(progress(Value::Null, 3) && progress(stage(3), 3));
        assert!(!progress(Value::Null, u64::MAX) && !progress(stage(u64::MAX), 3));
    }

    /// Paths to the members of objects, but for those whose names are data.
    fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
        const DATA: [&str; 5] = ["molecules", "variants", "versions", "seconds", "residues"];
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let path = format!("{at}/{name}");
                    if !DATA.contains(&name.as_str()) || member.is_array() {
                        paths(member, &path, out);
                    }
                    out.push(path);
                }
            }
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| paths(item, &format!("{at}/{index}"), out));
            }
            _ => {}
        }
    }

    /// A value without members that are empty, which come to the same as none.
    fn without_empty(value: Value) -> Value {
        let is_empty =
            |value: &Value| value.as_object().is_some_and(Map::is_empty) || *value == json!([]);
        match value {
            Value::Object(members) => {
                let members =
                    members.into_iter().map(|(name, member)| (name, without_empty(member)));
                members.filter(|(_, member)| !is_empty(member)).collect()
            }
            Value::Array(items) => items.into_iter().map(without_empty).collect(),
            other => other,
        }
    }

    #[test]
    fn what_workers_write_is_read_and_stored_as_it_is() {
        for (name, kind, result) in examples() {
            let outcome =
                Report::read(kind, &result).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            let stored = serde_json::to_value(outcome).unwrap();
            assert_eq!(without_empty(stored), without_empty(result), "{name}");
        }
    }

    #[test]
    fn a_word_that_is_misspelt_anywhere_is_refused_by_its_name() {
        let mut n_words = 0;
        for (name, kind, result) in examples() {
            let mut all = Vec::new();
            paths(&result, "", &mut all);
            for path in all {
                let (parent, word) = path.rsplit_once('/').unwrap();
                let mut misspelt = result.clone();
                let members = misspelt.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                let value = members.remove(word).unwrap();
                members.insert(format!("{word}x"), value);
                let refusal = Report::read(kind, &misspelt).unwrap_err();
                assert!(format!("{refusal:#}").contains(word), "{name}: {path}: {refusal:#}");
                n_words += 1;
            }
        }
        assert!(n_words > 50, "{n_words}");
    }
}
