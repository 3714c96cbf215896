//! Analyses: from a request to a plan, and the plan carried out in a process of its own.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use molbox::workflow::types::{AnalysisRequest, LocItem, Notice, ValidationError};
use molbox_analysis::params::{InvalidParams, Params, Parsed};
use molbox_analysis::read::{Series, Structure};
use molbox_analysis::{Control, Error, Report, Topology, analyze};
use molbox_plot::Figure;
use rustix::fs::{AtFlags, CWD, linkat};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::App;
use crate::db::{FileRow, TaskRow};
use crate::error::ApiError;
use crate::exec::confine::WORK;
use crate::handlers::file::referred;
use crate::handlers::not_ready;
use crate::tasks::build::no_file;
use crate::tasks::failure::failure;
use crate::tasks::topology::Built;
use crate::tasks::{COLLECTED, left};
use crate::validate::{loc, violation};

const TRAJECTORY: &str = "production.dcd";
/// Exit status of an analysis that failed for a reason that `result.json` explains.
const FAILED: u8 = 2;

/// An analysis to be made, with everything that it refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AnalyzePlan {
    /// The job that gives what is not given as a file.
    pub(crate) job: Option<String>,
    /// Its system.
    system: Option<String>,
    topology: Option<Given>,
    trajectory: Option<Given>,
}

/// A registered file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) file_id: String,
    format: String,
}

/// What a request refers to, and whether it can be done; and what to say of a job that is not all that
/// was asked of it. `outside` are the values that the document does not allow.
///
/// # Errors
///
/// 404 and 409 for what it refers to, 422 with everything else that is wrong.
pub(crate) fn resolve(
    app: &App,
    account: i64,
    request: &AnalysisRequest,
    outside: Vec<ValidationError>,
) -> Result<(AnalyzePlan, Option<Notice>), ApiError> {
    let mut wrong = outside;
    let parsed = kept(params(request).parse().map_err(invalid), &mut wrong)?;
    let topology = given(app, account, "topology", request.topology.as_deref(), &["pdb", "cif"]);
    let topology = kept(topology, &mut wrong)?.flatten();
    let trajectory = given(app, account, "trajectory", request.trajectory.as_deref(), &["dcd", "xtc"]);
    let trajectory = kept(trajectory, &mut wrong)?.flatten();
    let job = if request.job_id.is_some() || request.topology.is_none() || request.trajectory.is_none() {
        kept(job(app, account, request, request.trajectory.is_none()), &mut wrong)?
    } else {
        None
    };
    let Some(parsed) = parsed.filter(|_| wrong.is_empty()) else {
        return Err(ApiError::unresolved(wrong));
    };
    let system = job.as_ref().and_then(|job| job.parent.clone());
    let partial = job.as_ref().filter(|_| trajectory.is_none()).and_then(partial);
    let plan = AnalyzePlan { job: job.map(|job| job.id), system, topology, trajectory };
    let (topology, positions) = plan.stored_structure(app)?;
    parsed.select(&topology, &positions).map_err(invalid)?;
    if let Some(given) = &plan.trajectory {
        let series = Series::open(&[app.objects.local_file(&app.content_of(&given.file_id)?)]);
        let n_atoms = series.map_err(|e| ApiError::internal(anyhow::Error::new(e)))?.n_atoms();
        if n_atoms != topology.n_atoms() {
            let msg = format!("has {n_atoms} atoms, its topology {}", topology.n_atoms());
            return Err(ApiError::invalid_body("value_error", vec![loc("trajectory")], msg));
        }
    }
    Ok((plan, partial))
}

/// What to say of a job whose trajectory may be shorter than was asked for.
fn partial(job: &TaskRow) -> Option<Notice> {
    let state = match job.status.as_str() {
        "succeeded" => return None,
        "failed" => "has failed",
        "cancelled" => "was cancelled",
        _ => "has not ended",
    };
    Some(Notice {
        code: "partial_trajectory".to_owned(),
        message: format!("{} {state}; the frames that it has written are analysed", job.id),
        loc: vec![loc("job_id")],
        extra: Default::default(),
    })
}

/// A part of a request that can be done; none for one whose violations are kept.
fn kept<T>(part: Result<T, ApiError>, wrong: &mut Vec<ValidationError>) -> Result<Option<T>, ApiError> {
    match part {
        Ok(part) => Ok(Some(part)),
        Err(refusal) => refusal.add_to(wrong).map(|()| None),
    }
}

fn params(request: &AnalysisRequest) -> Params {
    Params {
        downsample_frames: request.downsample_frames.map(molbox::Finite::get),
        distance_masks: request.distance_masks.clone(),
        rmsd_masks: request.rmsd_masks.clone(),
        rmsf_masks: request.rmsf_masks.clone(),
        hbond_angle: request.hbond_angle.map(molbox::Finite::get),
        hbond_distance: request.hbond_distance.map(molbox::Finite::get),
        skip_damaged_frames: request.skip_damaged_frames.unwrap_or(false),
    }
}

fn invalid(problems: InvalidParams) -> ApiError {
    let violations = problems.0.into_iter().map(|invalid| -> ValidationError {
        let index = |index: &usize| LocItem::Int64(*index as i64);
        let at = [loc("body"), loc(invalid.at.name)].into_iter().chain(invalid.at.indexes.iter().map(index));
        let kind = if invalid.at.name.ends_with("_masks") { "mask" } else { "out_of_range" };
        violation(kind, at.collect(), invalid.problem.to_string())
    });
    ApiError::invalid(violations.collect())
}

/// A registered file that a field names.
fn given(
    app: &App,
    account: i64,
    field: &'static str,
    wanted: Option<&str>,
    formats: &[&str],
) -> Result<Option<Given>, ApiError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let Some(FileRow { id, format, name, .. }) = referred(app, account, wanted)? else {
        return Err(ApiError::not_found_in_body(field, no_file(wanted)));
    };
    if !formats.contains(&format.as_str()) {
        let msg = format!("must be a {} file, {name} is {format}", formats.join(" or "));
        return Err(ApiError::invalid_body("value_error", vec![loc(field)], msg));
    }
    Ok(Some(Given { file_id: id, format }))
}

/// The job that is analysed, which must have frames if they are to come from it.
fn job(app: &App, account: i64, request: &AnalysisRequest, needs_frames: bool) -> Result<TaskRow, ApiError> {
    let at = vec![loc("body"), loc("job_id")];
    let job = match &request.job_id {
        Some(id) => app
            .db
            .task(account, "job", id)?
            .ok_or_else(|| ApiError::not_found_in_body("job_id", format!("no job {id}")))?,
        None => app.db.latest_task(account, "job")?.ok_or_else(|| {
            ApiError::invalid_body("missing", vec![loc("job_id")], "there is no job yet; run one and give its id")
        })?,
    };
    let is_over = !["queued", "running"].contains(&job.status.as_str());
    if needs_frames && !is_over && request.allow_unfinished != Some(true) {
        let needs = "a job is analysed when it has ended; `allow_unfinished: true` analyses the frames so far";
        return Err(not_ready(at, &job.id, &job.status, needs));
    }
    if needs_frames {
        let found = Frames::of(app, &job.id)?;
        let frames = found.and_then(|found| Series::open(&[found.path()]).ok().map(|series| series.n_frames()));
        if frames.unwrap_or(0) == 0 {
            let needs = if is_over { "it has no frames of a production" } else { "it has no frames yet" };
            return Err(not_ready(at, &job.id, &job.status, needs));
        }
    }
    Ok(job)
}

/// The production trajectory of a job.
enum Frames {
    /// Of a job whose command may be writing: this very file, whatever has its name by now.
    Open(File),
    Stored(PathBuf),
}

impl Frames {
    /// In the job's folder while it runs, for a moment among what is collected, among its objects after.
    fn of(app: &App, job: &str) -> io::Result<Option<Self>> {
        let folder = app.task_folder(job);
        let mut open = left::open_file(&folder, &["output", TRAJECTORY])?;
        if open.is_none() {
            open = left::open_below(&folder, &[COLLECTED, TRAJECTORY])?;
        }
        let stored = app.objects.local_file(&format!("tasks/{job}/{TRAJECTORY}"));
        Ok(open.map(Self::Open).or_else(|| stored.exists().then_some(Self::Stored(stored))))
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Open(file) => format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            Self::Stored(path) => path.clone(),
        }
    }

    /// Puts it somewhere else, where it stays when its job ends.
    fn place(&self, to: &Path) -> io::Result<()> {
        left::discard(to)?;
        let from = self.path();
        let linked = linkat(CWD, &from, CWD, to, AtFlags::SYMLINK_FOLLOW);
        linked.map_err(io::Error::from).or_else(|_| fs::copy(&from, to).map(drop))
    }
}

impl AnalyzePlan {
    /// Identifiers of the registered files that are read.
    pub(crate) fn inputs(&self) -> Vec<String> {
        [&self.topology, &self.trajectory].into_iter().flatten().map(|given| given.file_id.clone()).collect()
    }

    /// The structure from where it is stored.
    fn stored_structure(&self, app: &App) -> Result<(Topology, Vec<[f64; 3]>), ApiError> {
        match (&self.topology, &self.system) {
            (Some(given), _) => {
                let key = app.content_of(&given.file_id)?;
                let text = String::from_utf8_lossy(&app.objects.read(&key)?).into_owned();
                let parsed =
                    if given.format == "cif" { Structure::from_mmcif(&text) } else { Structure::from_pdb(&text) };
                // It was checked when it was registered.
                let structure = parsed.map_err(|e| ApiError::internal(anyhow::anyhow!("{key}: {e:?}")))?;
                Ok((structure.topology, structure.positions))
            }
            (None, Some(system)) => Ok(app.systems.read(&app.objects, system)?.parts()),
            (None, None) => Err(ApiError::internal(anyhow::anyhow!("a plan without a topology"))),
        }
    }

    /// Names of the files in the folder of the task.
    fn structure_file(&self) -> String {
        self.topology.as_ref().map_or_else(|| "topology.json".to_owned(), |given| format!("topology.{}", given.format))
    }
}

/// Puts the input files into the folder of the task; returns the plan.
pub(crate) fn place_inputs(app: &App, row: &TaskRow, input: &Path) -> Result<Value> {
    fs::create_dir_all(input)?;
    let plan: AnalyzePlan = serde_json::from_str(&row.parameters)?;
    let to = input.join(plan.structure_file());
    match (&plan.topology, &plan.system) {
        (Some(given), _) => app.objects.place(&app.content_of(&given.file_id)?, &to)?,
        (None, system) => {
            let system = system.as_deref().context("an analysis without a topology has a system")?;
            app.objects.place(&format!("tasks/{system}/topology.json"), &to)?;
        }
    }
    // Named so that a message about the file says something.
    let (name, frames) = match &plan.trajectory {
        Some(given) => {
            let file = app.objects.local_file(&app.content_of(&given.file_id)?);
            (format!("trajectory.{}", given.format), Some(Frames::Stored(file)))
        }
        None => {
            let job = plan.job.as_deref().context("an analysis without a trajectory has a job")?;
            (TRAJECTORY.to_owned(), Frames::of(app, job)?)
        }
    };
    let trajectory: Vec<String> = frames.iter().map(|_| name.clone()).collect();
    frames.map(|frames| frames.place(&input.join(name))).transpose()?;
    let request: AnalysisRequest = serde_json::from_str(&row.request)?;
    Ok(json!({ "job": plan.job, "structure": plan.structure_file(), "trajectory": trajectory, "request": request }))
}

/// The plan as the process reads it.
#[derive(Deserialize)]
struct Task {
    id: String,
    attempt: u32,
    plan: TaskPlan,
    threads: usize,
}

#[derive(Deserialize)]
struct TaskPlan {
    job: Option<String>,
    structure: String,
    trajectory: Vec<String>,
    request: AnalysisRequest,
}

/// `molboxd analyze`: carries out the analysis of a folder; its exit status.
pub(crate) fn run(folder: &Path) -> Result<u8> {
    let task: Task = serde_json::from_slice(&fs::read(folder.join("task.json"))?)?;
    // The task's log.
    let mut log = io::stdout();
    let work = folder.join(WORK);
    let output = work.join("output");
    fs::create_dir_all(&output)?;
    match calculate(folder, &task) {
        // The other two are in the way of anybody who writes there.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull => Err(source.into()),
        Ok(report) => {
            for warning in &report.warnings {
                writeln!(log, "warning: {warning}")?;
            }
            writeln!(log, "{} of {} frames, {} tables", report.n_analyzed, report.n_frames, report.tables.len())?;
            write_results(&output, &task, &report)?;
            let result = json!({ "status": "succeeded", "warnings": warnings(&report), "versions": versions() });
            finish(&work, &task, result)?;
            Ok(0)
        }
        Err(error) => {
            let failure = explain(&error, &folder.join("input"));
            let text = |member: &str| failure[member].as_str().unwrap_or_default();
            writeln!(log, "failed: {}: {}", text("code"), text("message"))?;
            finish(&work, &task, json!({ "status": "failed", "error": failure, "versions": versions() }))?;
            Ok(FAILED)
        }
    }
}

fn calculate(folder: &Path, task: &Task) -> Result<Report, Error> {
    let input = folder.join("input");
    let path = input.join(&task.plan.structure);
    let read = |source| Error::Io { path: path.clone(), source };
    let (topology, positions) = if task.plan.structure.ends_with(".json") {
        let built = fs::read(&path).map_err(read)?;
        Built::parse(&built).map_err(|e| read(io::Error::other(format!("{e:#}"))))?.parts()
    } else {
        let structure = Structure::open(&path)?;
        (structure.topology, structure.positions)
    };
    let parsed: Parsed = params(&task.plan.request).parse().map_err(Error::Params)?;
    let selected = parsed.select(&topology, &positions).map_err(Error::Params)?;
    let files: Vec<PathBuf> = task.plan.trajectory.iter().map(|name| input.join(name)).collect();
    let trajectory = Series::open(&files)?;
    let progress = |done: usize, all: usize| {
        let said =
            json!({ "fraction": done as f64 / all.max(1) as f64, "stage": "frames", "step": done, "steps": all });
        // A picture of the moment; the next one makes up for it.
        let _ = write_atomically(&folder.join(WORK).join("progress.json"), said.to_string().as_bytes());
    };
    let control = Control {
        n_threads: NonZeroUsize::new(task.threads).unwrap_or(NonZeroUsize::MIN),
        progress: &progress,
        cancelled: &AtomicBool::new(false),
    };
    let report = analyze(&topology, &trajectory, &selected.request, &control)?;
    Ok(Report { warnings: selected.warnings.into_iter().chain(report.warnings).collect(), ..report })
}

/// The failure in the form of the records; `input` is the folder of the files that it may name.
fn explain(error: &Error, input: &Path) -> Value {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let message = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let message = message.replace(&format!("{}/", input.display()), "");
    match error {
        Error::AtomCount { .. } => failure("atom_count", message, "give the topology that belongs to the trajectory"),
        Error::NoFrames => failure("no_frames", message, "analyse again when the job has written frames"),
        Error::Format { .. } => failure("trajectory_damaged", message, "check the file, or run the job again"),
        Error::Damaged { .. } => {
            let remedy = "run the job again, or leave such frames out with skip_damaged_frames";
            failure("frame_damaged", message, remedy)
        }
        Error::AllDamaged { .. } => failure("frame_damaged", message, "check the file, or run the job again"),
        Error::Io { .. } => {
            let remedy = "analyse again; tell the operator of the service if it stays so";
            failure("trajectory_unreadable", message, remedy)
        }
        Error::NotFinite { .. } => failure("internal", message, "tell the operator of the service"),
        _ => failure("not_analysed", message, "see the message; change the masks or the topology"),
    }
}

fn warnings(report: &Report) -> Vec<Value> {
    report.warnings.iter().map(|w| json!({ "code": "analysis", "message": w.to_string() })).collect()
}

fn versions() -> Value {
    json!({ "molbox-analysis": env!("CARGO_PKG_VERSION") })
}

/// The data as JSON, each table as CSV and Parquet, and plots of those that have a course.
fn write_results(output: &Path, task: &Task, report: &Report) -> Result<()> {
    let data = json!({
        "analysis_id": task.id,
        "job_id": task.plan.job,
        "stride": report.stride,
        "frames_total": report.n_frames,
        "frames_analyzed": report.n_analyzed,
        "tables": report.tables,
    });
    write_durably(&output.join("data.json"), &serde_json::to_vec(&super::without_nulls(data))?)?;
    for table in &report.tables {
        let path = |extension: &str| output.join(format!("{}.{extension}", table.name));
        write_durably(&path("csv"), table.to_csv().as_bytes())?;
        write_durably(&path("parquet"), &table.to_parquet())?;
        if let Some(figure) = Figure::of(table) {
            write_durably(&path("png"), &figure.png())?;
            write_durably(&path("svg"), figure.svg().as_bytes())?;
        }
    }
    Ok(())
}

fn finish(work: &Path, task: &Task, mut result: Value) -> Result<()> {
    result["attempt"] = task.attempt.into();
    write_atomically(&work.join("result.json"), result.to_string().as_bytes())
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("tmp");
    write_durably(&partial, bytes)?;
    fs::rename(&partial, path).with_context(|| format!("write {}", path.display()))
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().with_context(|| format!("write {}", path.display()))
}
