//! What becomes of what a task's command has left: objects, a manifest, the layout of its bundle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;

use anyhow::{Context, Result};
use jiff::Timestamp;
use molbox::workflow::types::{Failure, Notice, StageResult, SystemSummary};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::exec::confine;
use crate::objects::bundle::{self, DEFLATED, Entry, Layout, Measured};
use crate::objects::{Key, Objects};
use crate::plan::build::BuildPlan;
use crate::plan::simulate::{DefaultMasks, Parameters};
use crate::record::{Kind, Status, Task};
use crate::runner::left::{self, COLLECTED, COMMIT, LOG};
use crate::runner::log;
use crate::runner::outcome::Outcome;
use crate::runner::readme::{self, README};

/// Most bytes of the topology of a system, for each atom that it may have. The worker writes some
/// 130.
const TOPOLOGY_BYTES: u64 = 1024;

/// What a command has left cannot be used.
#[derive(Debug)]
pub(super) struct Unusable;

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what the command has left cannot be used")
    }
}

/// Makes what a task wrote into objects and lays out its bundle. Doing it again gives the same.
pub(super) fn collect(
    app: &App,
    row: &Task,
    status: Status,
    mut outcome: Outcome,
) -> Result<(Outcome, Layout)> {
    let folder = app.task_folder(&row.id);
    let key = Key::task(&row.id);
    left::settle(&folder)?;
    let output = folder.join(COLLECTED);
    fs::create_dir_all(&output)?;
    let mut room = left::Room { bytes: confine::most_bytes(&app.config)? };
    let mut stays = left::take(&folder, &["output"], &output, &mut room)?;
    // Not in the bundle: what a job goes on from when it is extended or tried again.
    stays.extend(left::take(&folder, &[COMMIT], &output.join(COMMIT), &mut room)?);
    if left::open_below(&folder, &[LOG])?.is_some() {
        if !stays.is_empty() {
            log::add(&app.objects, &folder, &row.id, &format!("not kept: {}", stays.join(", ")))?;
        }
        fs::rename(folder.join(LOG), output.join(LOG))?;
    }
    // Every attempt has a log, and it goes with its results: what is found without one stayed
    // behind when these were collected.
    let is_new = output.join(LOG).exists();
    if is_new {
        // A job that went on has results already, which these contain.
        app.objects.remove(&key)?;
    } else if app.objects.exists(&key)? {
        // Collected before. A folder here would pass for what a retried job had come to.
        left::remove(&output)?;
    } else if fs::read_dir(&output)?.next().is_some() {
        // Without a log, and one day with: that some of it has become objects would pass for all of
        // it, were this cut off.
        File::create(output.join(LOG))?.sync_all()?;
    }
    if !app.objects.exists(&key)? {
        app.objects.adopt(&output, &key)?;
    }
    if row.kind == Kind::System && status == Status::Succeeded {
        let masks = default_masks(app, row, &outcome.solvent_residues).context(Unusable)?;
        outcome.default_masks = Some(masks);
    }
    outcome.citations = Some(citations(app, row, outcome.engine.as_deref())?);
    let layout = lay_out(app, row, status, &outcome)?;
    Ok((outcome, layout))
}

/// What to cite for what a task has come to: of a job, the simulation and then its system; of an
/// analysis nothing, its tables have their definitions.
fn citations(app: &App, row: &Task, engine: Option<&str>) -> Result<Vec<String>> {
    let owned = |cited: Vec<&str>| cited.into_iter().map(str::to_owned).collect::<Vec<_>>();
    Ok(match row.kind {
        Kind::System => owned(serde_json::from_str::<BuildPlan>(&row.parameters)?.citations()),
        Kind::Job => {
            let parameters: Parameters = serde_json::from_str(&row.parameters)?;
            let mut cited = owned(parameters.citations(engine));
            let system = row.parent.as_deref().context("a job without a system")?;
            cited.extend(of_system(app, system)?);
            cited
        }
        Kind::Analysis => Vec::new(),
    })
}

/// What to cite for a system, as its manifest has it; nothing in those of earlier versions.
fn of_system(app: &App, system: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Cited {
        #[serde(default)]
        citations: Vec<String>,
    }

    let key = Key::task(system).under("manifest.json");
    if !app.objects.exists(&key)? {
        return Ok(Vec::new());
    }
    let manifest = app.objects.read(&key)?;
    Ok(serde_json::from_slice::<Cited>(&manifest)?.citations)
}

/// The masks of a system that has been built, in a solvent of these residues.
fn default_masks(app: &App, row: &Task, solvent: &[String]) -> Result<DefaultMasks> {
    let size = app.objects.size(&Key::task(&row.id).under("topology.json"))?;
    let most = app.config.limits.atoms.saturating_mul(TOPOLOGY_BYTES);
    anyhow::ensure!(size <= most, "a topology of {size} bytes");
    let built = app.systems.read(&app.objects, &row.id)?;
    Ok(DefaultMasks::new(&built, solvent))
}

/// `manifest.json`: what a bundle holds, and how it came about.
#[derive(Serialize)]
struct Manifest<'a> {
    id: &'a str,
    kind: Kind,
    status: Status,
    /// The system of a job, the job of an analysis.
    system: Option<&'a str>,
    created_at: Timestamp,
    molboxd: &'a str,
    versions: Option<&'a BTreeMap<String, String>>,
    platform: Option<&'a str>,
    engine: Option<&'a str>,
    seed: i64,
    attempts: i64,
    request: Value,
    parameters: Value,
    summary: Option<&'a SystemSummary>,
    stages: Option<&'a [StageResult]>,
    citations: Option<&'a [String]>,
    warnings: Vec<Notice>,
    error: Option<&'a Failure>,
    files: &'a [Measured],
}

/// The bundle: what the task wrote, the system that it ran on, and a manifest of both.
fn lay_out(app: &App, row: &Task, status: Status, outcome: &Outcome) -> Result<Layout> {
    let key = Key::task(&row.id).under("manifest.json");
    let mut found = entries(&app.objects, &row.id, &row.id)?;
    let readme = Key::task(&row.id).under(README);
    // Of an earlier collection.
    found.retain(|entry| entry.key != key && entry.key != readme);
    if let Some(system) = row.parent.as_ref().filter(|_| row.kind == Kind::Job) {
        found.extend(entries(&app.objects, system, &format!("{}/system", row.id))?);
    }
    if row.kind == Kind::Job {
        found.push(with_readme(app, row, &found, readme)?);
    }
    let mut measured = found
        .iter()
        .map(|entry| bundle::measure(&app.objects, entry))
        .collect::<Result<Vec<_>>>()?;
    let manifest = Manifest {
        id: &row.id,
        kind: row.kind,
        status,
        system: row.parent.as_deref(),
        created_at: row.created_at,
        molboxd: env!("CARGO_PKG_VERSION"),
        versions: outcome.versions.as_ref(),
        platform: outcome.platform.as_deref(),
        engine: outcome.engine.as_deref(),
        seed: row.seed,
        attempts: row.attempts,
        request: serde_json::from_str(&row.request)?,
        parameters: serde_json::from_str(&row.parameters)?,
        summary: outcome.summary.as_ref(),
        stages: outcome.stages.as_deref(),
        citations: outcome.citations.as_deref(),
        warnings: warnings(row, outcome)?,
        error: outcome.error.as_ref(),
        files: &measured,
    };
    let manifest = without_nulls(serde_json::to_value(manifest)?);
    app.objects.write(&key, &serde_json::to_vec_pretty(&manifest)?)?;
    let manifest = Entry { name: format!("{}/manifest.json", row.id), key };
    measured.insert(0, bundle::measure(&app.objects, &manifest)?);
    Layout::archive(&app.objects, &measured, row.created_at)
}

/// The entry of the file that says what the others of a job's bundle are, which is written.
fn with_readme(app: &App, row: &Task, found: &[Entry], key: Key) -> Result<Entry> {
    let prefix = format!("{}/", row.id);
    let names: Vec<&str> =
        found.iter().filter_map(|entry| entry.name.strip_prefix(&prefix)).collect();
    app.objects.write(&key, readme::text(&row.id, &names).as_bytes())?;
    Ok(Entry { name: format!("{prefix}{README}"), key })
}

/// Warnings about the request, then those of the run.
fn warnings(row: &Task, outcome: &Outcome) -> Result<Vec<Notice>> {
    let mut all: Vec<Notice> = serde_json::from_str(&row.warnings)?;
    all.extend(outcome.warnings.iter().flatten().cloned());
    Ok(all)
}

/// The objects of a task, in a folder of an archive.
fn entries(objects: &Objects, id: &str, folder: &str) -> Result<Vec<Entry>> {
    let mut keys = match objects.list(&Key::task(id)) {
        // Of a task that has never begun.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => found?,
    };
    keys.retain(|key| !key.name().ends_with(DEFLATED));
    Ok(keys
        .into_iter()
        .map(|key| Entry { name: format!("{folder}/{}", key.name()), key })
        .collect())
}

pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k, without_nulls(v)))
                .collect(),
        ),
        other => other,
    }
}
