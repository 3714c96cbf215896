//! What becomes of what a task's command has left: objects, a manifest, the layout of its bundle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt as _;
use jiff::Timestamp;
use molbox::workflow::types::{Failure, Notice, StageResult, SystemSummary};
use serde::Serialize;
use serde_json::Value;
use tokio::spawn;

use crate::app::App;
use crate::db::Lease;
use crate::exec::confine;
use crate::objects::bundle::{self, DEFLATED, Entry, Layout, Measured};
use crate::objects::{Key, May, Objects, ask};
use crate::plan::build::{BuildPlan, InputFile};
use crate::plan::defaults::document_version;
use crate::plan::force_field::Contents;
use crate::plan::simulate::DefaultMasks;
use crate::record::{Kind, Status, Task};
use crate::runner::cited::cited;
use crate::runner::kept;
use crate::runner::left::{self, COLLECTED, COMMIT, INPUT, LOG};
use crate::runner::log;
use crate::runner::outcome::Outcome;
use crate::runner::readme::{self, MANIFEST, README, RO_CRATE};
use crate::runner::ro_crate::{self, OfSystem};

/// Most bytes of the topology of a system, for each atom that it may have. The worker writes some
/// 130.
const TOPOLOGY_BYTES: u64 = 1024;
/// Most bytes of what a worker notes of how it ran a stage. It writes some thousand.
const MAX_METHOD: u64 = 64 << 10;

/// What a command has left cannot be used.
#[derive(Debug)]
pub(super) struct Unusable;

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what the command has left cannot be used")
    }
}

/// Makes what a task wrote into objects and lays out its bundle. Doing it again gives the same. Who
/// has lost the right to run tasks touches none of the objects.
pub(super) fn collect(
    app: &Arc<App>,
    lease: &Lease,
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
    if row.kind == Kind::System {
        keep_inputs(row, &folder.join(INPUT), &output.join(INPUT))?;
    }
    // Where this server stood still for long, another may have ended the task since: it is asked before
    // each change, for no transaction undoes one.
    let may = || {
        let (app, lease) = (app.clone(), lease.clone());
        // By another thread: the database waits on the one that it is asked from, where a store may be
        // waiting for others of its answers.
        let asked = spawn(async move { app.db.affirm_lease(lease, app.now()).await });
        async { asked.await.map_err(io::Error::other)?.map_err(io::Error::other) }.boxed()
    };
    ask(&may)?;
    // Every attempt has a log, and it goes with its results: what is found without one stayed
    // behind when these were collected.
    let is_new = output.join(LOG).exists();
    let is_kept = kept::is_kept(app, row);
    if is_new {
        // A job that went on has results already, which these contain. What it would resume from
        // stays until they are there: this server may be lost before.
        match is_kept {
            true => kept::remove_results(&app.objects, &row.id)?,
            false => app.objects.remove(&key)?,
        }
    } else if kept::has_results(&app.objects, &row.id)? {
        // Collected before. A folder here would pass for what a retried job had come to.
        left::remove(&output)?;
    } else if fs::read_dir(&output)?.next().is_some() {
        // Without a log, and one day with: that some of it has become objects would pass for all of
        // it, were this cut off.
        File::create(output.join(LOG))?.sync_all()?;
    }
    if !kept::has_results(&app.objects, &row.id)? {
        app.objects.adopt(&output, &key, &may)?;
    }
    if is_kept {
        ask(&may)?;
        kept::remove(&app.objects, &row.id)?;
    }
    if row.kind == Kind::System && status == Status::Succeeded {
        let masks = default_masks(app, row, &outcome.solvent_residues).context(Unusable)?;
        outcome.default_masks = Some(masks);
    }
    let methods = methods(app, row, &outcome)?;
    outcome.citations = Some(citations(app, row, &outcome, &methods)?);
    let layout = lay_out(app, row, status, &outcome, &methods, &may)?;
    Ok((outcome, layout))
}

/// Copies the files that a system was built from into what becomes its objects: whoever uploaded
/// them may delete them, and a bundle is to have all that it takes to do it again.
fn keep_inputs(row: &Task, from: &Path, to: &Path) -> Result<()> {
    let plan: BuildPlan = serde_json::from_str(&row.parameters)?;
    for input in plan.input_files() {
        let (source, kept) = (from.join(input.file), to.join(input.file));
        // There is none of a system that was cancelled before it began, nor once it was kept.
        if source.exists() && !kept.exists() {
            fs::create_dir_all(to)?;
            fs::copy(&source, &kept).with_context(|| format!("keep {}", source.display()))?;
            File::open(&kept)?.sync_all()?;
        }
    }
    Ok(())
}

/// What to cite for what a task has come to: of a system what it was really made of; of a job, the
/// simulation and then its system; of an analysis nothing, its tables have their definitions.
fn citations(app: &App, row: &Task, outcome: &Outcome, methods: &[Value]) -> Result<Vec<String>> {
    let owned = |cited: Vec<&str>| cited.into_iter().map(str::to_owned).collect::<Vec<_>>();
    Ok(match row.kind {
        Kind::System => {
            let Some(summary) = &outcome.summary else { return Ok(Vec::new()) };
            let built = app.systems.read(&app.objects, &row.id).context(Unusable)?;
            let contents = Contents::of(&built, &summary.molecules);
            owned(serde_json::from_str::<BuildPlan>(&row.parameters)?.citations(&contents))
        }
        Kind::Job => {
            let mut cited = owned(cited(methods));
            let system = row.parent.as_deref().context("a job without a system")?;
            cited.extend(of_system(app, system)?.citations);
            cited
        }
        Kind::Analysis => Vec::new(),
    })
}

/// The manifest of a system, as far as its jobs' bundles repeat it.
fn of_system(app: &App, system: &str) -> Result<OfSystem> {
    let key = Key::task(system).under(MANIFEST);
    if !app.objects.exists(&key)? {
        return Ok(OfSystem::default());
    }
    Ok(serde_json::from_slice(&app.objects.read(&key)?)?)
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
    started_at: Option<Timestamp>,
    finished_at: Timestamp,
    molboxd: &'a str,
    /// Version of the document, by which requests are read.
    document: &'a str,
    versions: Option<&'a BTreeMap<String, String>>,
    platform: Option<&'a str>,
    engine: Option<&'a str>,
    seed: i64,
    attempts: i64,
    request: Value,
    parameters: Value,
    /// What a system was asked for with every default filled in, as a request has it.
    settings: Option<Value>,
    /// What a system was built from; the files lie under `input/`.
    inputs: Vec<InputFile<'a>>,
    summary: Option<&'a SystemSummary>,
    stages: Option<&'a [StageResult]>,
    citations: Option<&'a [String]>,
    warnings: Vec<Notice>,
    error: Option<&'a Failure>,
    files: &'a [Measured],
}

/// The bundle: what the task wrote, the system that it ran on, and a manifest of both, for people
/// and as a research object.
fn lay_out(
    app: &App,
    row: &Task,
    status: Status,
    outcome: &Outcome,
    methods: &[Value],
    may: May<'_>,
) -> Result<Layout> {
    let measured = measured(app, row, may)?;
    let plan: Option<BuildPlan> =
        (row.kind == Kind::System).then(|| serde_json::from_str(&row.parameters)).transpose()?;
    let settings = match &plan {
        Some(plan) => Some(plan.settings(&serde_json::from_str(&row.request)?)?),
        None => None,
    };
    let warnings = warnings(row, outcome)?;
    let manifest = Manifest {
        id: &row.id,
        kind: row.kind,
        status,
        system: row.parent.as_deref(),
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: app.now(),
        molboxd: env!("CARGO_PKG_VERSION"),
        document: document_version(),
        versions: outcome.versions.as_ref(),
        platform: outcome.platform.as_deref(),
        engine: outcome.engine.as_deref(),
        seed: row.seed,
        attempts: row.attempts,
        request: serde_json::from_str(&row.request)?,
        parameters: serde_json::from_str(&row.parameters)?,
        settings: settings.map(serde_json::to_value).transpose()?,
        inputs: plan.iter().flat_map(BuildPlan::input_files).collect(),
        summary: outcome.summary.as_ref(),
        stages: outcome.stages.as_deref(),
        citations: outcome.citations.as_deref(),
        warnings,
        error: outcome.error.as_ref(),
        files: &measured,
    };
    let system = match row.parent.as_deref().filter(|_| row.kind == Kind::Job) {
        Some(system) => Some(of_system(app, system)?),
        None => None,
    };
    let content = without_nulls(serde_json::to_value(&manifest)?);
    let key = Key::task(&row.id).under(MANIFEST);
    app.objects.put(&key, &serde_json::to_vec_pretty(&content)?, may)?;
    let entry = Entry { name: format!("{}/manifest.json", row.id), key };
    let mut all = vec![bundle::measure(&app.objects, &entry, may)?];
    all.extend(measured.iter().cloned());
    let described = ro_crate::of(&ro_crate::Described {
        id: &row.id,
        name: row.name.as_deref(),
        manifest: &content,
        system: system.as_ref(),
        methods,
        files: &all,
    });
    let key = Key::task(&row.id).under(RO_CRATE);
    app.objects.put(&key, &serde_json::to_vec_pretty(&described)?, may)?;
    let entry = Entry { name: format!("{}/{}", row.id, RO_CRATE), key };
    all.insert(1, bundle::measure(&app.objects, &entry, may)?);
    Layout::archive(&app.objects, &all, row.created_at)
}

/// What a bundle holds besides what describes it all.
fn measured(app: &App, row: &Task, may: May<'_>) -> Result<Vec<Measured>> {
    let mut found = entries(&app.objects, &row.id, &row.id)?;
    let readme = Key::task(&row.id).under(README);
    // Of an earlier collection.
    found.retain(|entry| ![MANIFEST, README, RO_CRATE].contains(&entry.key.name()));
    if let Some(system) = row.parent.as_ref().filter(|_| row.kind == Kind::Job) {
        let mut of_system = entries(&app.objects, system, &format!("{}/system", row.id))?;
        // All is described in one place.
        of_system.retain(|entry| entry.key.name() != RO_CRATE);
        found.extend(of_system);
    }
    if row.kind == Kind::Job {
        found.push(with_readme(app, row, &found, readme, may)?);
    }
    found.iter().map(|entry| bundle::measure(&app.objects, entry, may)).collect()
}

/// How each stage of a job was run, in their order, as its worker noted it.
fn methods(app: &App, row: &Task, outcome: &Outcome) -> Result<Vec<Value>> {
    let mut methods = Vec::new();
    for stage in outcome.stages.iter().flatten() {
        let key = Key::task(&row.id).under(&format!("{}.method.json", stage.name));
        // The minimisation has none, nor has a stage of an earlier version or one that was not run.
        if app.objects.exists(&key)? {
            // It is a stranger's, and no more than repeated.
            let text = app.objects.read_at_most(&key, MAX_METHOD)?;
            methods.extend(text.and_then(|text| serde_json::from_slice::<Value>(&text).ok()));
        }
    }
    Ok(methods)
}

/// The entry of the file that says what the others of a job's bundle are, which is written.
fn with_readme(app: &App, row: &Task, found: &[Entry], key: Key, may: May<'_>) -> Result<Entry> {
    let prefix = format!("{}/", row.id);
    let names: Vec<&str> =
        found.iter().filter_map(|entry| entry.name.strip_prefix(&prefix)).collect();
    app.objects.put(&key, readme::text(&row.id, &names).as_bytes(), may)?;
    Ok(Entry { name: format!("{prefix}{README}"), key })
}

/// Warnings about the request, then those of the run.
fn warnings(row: &Task, outcome: &Outcome) -> Result<Vec<Notice>> {
    let mut all: Vec<Notice> = serde_json::from_str(&row.warnings)?;
    all.extend(outcome.warnings.iter().flatten().cloned());
    Ok(all)
}

/// The objects of a task, and those that it was made of, in a folder of an archive.
fn entries(objects: &Objects, id: &str, folder: &str) -> Result<Vec<Entry>> {
    let key = Key::task(id);
    let mut found = listed(objects, &key, folder)?;
    found.extend(listed(objects, &key.under(INPUT), &format!("{folder}/{INPUT}"))?);
    Ok(found)
}

fn listed(objects: &Objects, key: &Key, folder: &str) -> Result<Vec<Entry>> {
    let mut keys = match objects.list(key) {
        // Of a task that has never begun, or that was made of no files.
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
