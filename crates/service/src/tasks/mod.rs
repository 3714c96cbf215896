//! The runner: claims queued tasks, launches them, follows them, collects what they leave.
//!
//! Everything that it knows is in the database and in the task's folder, so it can be killed at
//! any moment: the next one adopts what runs and collects what has ended.

pub(crate) mod analyze;
pub(crate) mod build;
pub(crate) mod environment;
pub(crate) mod failure;
pub(crate) mod hold;
pub(crate) mod left;
pub(crate) mod simulate;
pub(crate) mod topology;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use jiff::Timestamp;
use molbox::workflow::types::{Failure, Notice, Progress, StageResult, SystemSummary};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::task::{JoinError, JoinHandle};

use crate::app::{App, rfc3339};
use crate::bundle::{self, Entry, Layout};
use crate::db::{End, Lane, Requeue, TaskRow};
use crate::error::obstacle;
use crate::exec::confine::{self, Confinement, THIS_PROGRAM, UNAVAILABLE, WORK};
use crate::exec::{self, Attempt, Exit, Lock, Status, process};
use crate::shown::all_without_folders;
use environment::Broken;
use failure::{Fault, failure};
use hold::{Hold, Source};
use simulate::DefaultMasks;

/// How often running tasks are looked at.
const TICK: Duration = Duration::from_millis(200);
/// How often the queue is looked at when nothing runs: what kept it from starting, a full disk
/// for example, may have passed.
const IDLE_TICK: Duration = Duration::from_secs(2);
/// How long a killed task may take to die before it is killed again.
const KILL_PAUSE: Duration = Duration::from_secs(5);
/// How often it is checked whether what holds a lane has passed.
const RECHECK: Duration = Duration::from_secs(10);
/// How much more than when a worker found the disk full has to be free, in bytes.
const ROOM: u64 = 1 << 20;
/// Lines of the log that a failed task shows.
const LOG_LINES: usize = 20;
/// Most bytes of them.
const LOG_BYTES: u64 = 64 << 10;
/// Exit status of a worker that was asked to stop.
const STOPPED: i32 = 3;
/// Exit status of a worker that could not write because the disk is full.
const DISK_FULL: i32 = 4;
const LOG: &str = "log.txt";
/// What the bundle is made of besides what the worker wrote.
const OURS: [&str; 2] = ["manifest.json", LOG];
/// How the name of an object ends that is another one deflated, for the bundle.
const DEFLATED: &str = ".deflate";
/// What a simulation goes on from: a folder of its command's, and of its objects when it has ended.
const COMMIT: &str = "commit";
/// A folder of the task's folder: what its command has left that becomes objects.
pub(crate) const COLLECTED: &str = "collected";
/// Most bytes of the topology of a system, for each atom that it may have. The worker writes some 130.
const TOPOLOGY_BYTES: u64 = 1024;

/// Whether a job that has ended left something to go on from.
pub(crate) fn has_commit(app: &App, id: &str) -> bool {
    app.objects.exists(&format!("tasks/{id}/{COMMIT}/commit.json"))
}

/// How often a simulation has committed what it had come to.
fn n_commits(folder: &Path) -> u64 {
    // What cannot be read has not got anywhere.
    let commit = left::read_json(folder, &[COMMIT, "commit.json"]).ok().flatten();
    commit.and_then(|commit| commit["number"].as_u64()).unwrap_or(0)
}

/// Runs tasks until the service ends; they go on without it.
pub(crate) async fn run(app: Arc<App>) {
    let mut runner = Runner { checks: Check::first(&app), app, running: HashMap::new(), full_at: None };
    // Of a service that was killed.
    if let Err(error) = left::discard(&runner.app.config.data.join("check")) {
        tracing::warn!(%error, "clear the folders of checks");
    }
    if let Err(error) = runner.adopt() {
        tracing::error!(cause = format!("{error:#}"), "look for tasks that were running");
    }
    loop {
        runner.look_after().await;
        runner.look_at_checks().await;
        runner.look_at_disk();
        runner.cancel_of_disabled().await;
        runner.end_cancelled().await;
        runner.start_queued().await;
        runner.wait().await;
    }
}

struct Runner {
    app: Arc<App>,
    running: HashMap<String, Running>,
    /// Checks of the environment: the first, and those of what is held.
    checks: Vec<Check>,
    /// Free bytes when a worker found the disk full, which it may be for it before it is for us.
    full_at: Option<u64>,
}

/// A check of the workers' environment on a GPU, under way or to come.
struct Check {
    gpu: Option<u32>,
    due: Instant,
    running: Option<JoinHandle<Result<Value, Broken>>>,
}

impl Check {
    fn new(gpu: Option<u32>, due: Instant) -> Self {
        Self { gpu, due, running: None }
    }

    /// Those with which a service starts: of each GPU that is used.
    fn first(app: &App) -> Vec<Self> {
        let gpus = &app.config.worker.gpus;
        let gpus: Vec<_> = if gpus.is_empty() { vec![None] } else { gpus.iter().copied().map(Some).collect() };
        gpus.into_iter().map(|gpu| Self::new(gpu, Instant::now())).collect()
    }
}

fn start_check(app: &Arc<App>, gpu: Option<u32>) -> JoinHandle<Result<Value, Broken>> {
    let app = app.clone();
    tokio::spawn(async move { environment::check(&app.config, gpu).await })
}

/// A task that runs, or has ended and waits to be collected.
struct Running {
    row: TaskRow,
    share: Share,
    /// The process, when it was launched by this service; waited for so that it does not stay as
    /// a zombie.
    child: Option<Child>,
    /// Whether nothing is known of it yet but that an earlier service had started it.
    is_adopted: bool,
    /// Since when this service knows that it runs.
    since: Instant,
    sign: SignOfLife,
    stop: Option<Stop>,
    /// The check whether the environment is to blame for its end.
    suspicion: Option<JoinHandle<Result<Value, Broken>>>,
}

/// What a task has of the machine while it runs.
#[derive(Clone, Copy, Debug)]
struct Share {
    cpus: usize,
    gpu: Option<u32>,
    /// Number of the user that it runs as, if it has one of its own.
    user: Option<u32>,
}

/// Where a task can run.
struct Place {
    /// Free ones of its lane.
    slots: usize,
    /// Slots of its lane.
    all: usize,
    gpu: Option<u32>,
}

/// What became of a task that was to be started.
enum Start {
    Running(Box<Running>),
    /// It was cancelled in the meantime.
    NotQueued,
    /// It stays queued.
    Later,
}

/// When a worker last touched a file. The clock may jump, so that only a change counts, and when
/// it was seen.
struct SignOfLife {
    modified: Option<SystemTime>,
    seen: Instant,
}

/// A worker that has been asked to stop, and why.
#[derive(Clone, Copy)]
struct Stop {
    why: Why,
    asked: Instant,
    /// When it was killed last.
    killed: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Cancelled,
    Silent,
    WallLimit,
}

impl Running {
    fn new(row: TaskRow, share: Share, child: Option<Child>) -> Self {
        let now = Instant::now();
        let sign = SignOfLife { modified: None, seen: now };
        let is_adopted = child.is_none();
        Self { row, share, is_adopted, child, since: now, sign, stop: None, suspicion: None }
    }
}

impl Runner {
    /// Takes over the tasks that were running when the service ended.
    fn adopt(&mut self) -> Result<()> {
        for row in self.app.db.running_tasks()? {
            tracing::info!(task = %row.id, "adopted");
            let task = read_json(&self.app.task_folder(&row.id).join("task.json")).unwrap_or_default();
            let number = |member: &str| task[member].as_u64().and_then(|number| u32::try_from(number).ok());
            let cpus = number("threads").map_or(1, |cpus| cpus as usize);
            let share = Share { cpus, gpu: number("device"), user: number("user") };
            self.running.insert(row.id.clone(), Running::new(row, share, None));
        }
        for row in self.app.db.cancelled_queued_tasks()? {
            self.app.cancel(&row.id);
        }
        Ok(())
    }

    async fn look_after(&mut self) {
        let mut ended = Vec::new();
        for (id, task) in &mut self.running {
            let attempt = attempt(&self.app, &task.row);
            let folder = attempt.folder.clone();
            let is_alive = task.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
            let status = if is_alive { Ok(Status::Running) } else { exec::status(&attempt) };
            match status {
                Ok(Status::Running) => {
                    if let Some(progress) = progress(&folder) {
                        self.app.set_progress(id, &progress);
                    }
                    task.is_adopted = false;
                    watch_over(&self.app, task, &folder);
                }
                Ok(Status::Exited(exit)) => ended.push((id.clone(), Some(exit))),
                Ok(Status::Lost) => ended.push((id.clone(), None)),
                Err(error) => tracing::error!(task = %id, %error, "look at a task"),
            }
        }
        for (id, exit) in ended {
            let mut task = self.running.remove(&id).expect("it was just looked at");
            if exit.is_some_and(|exit| exit.code == Some(DISK_FULL)) {
                self.full_at = self.app.objects.free_bytes().ok();
            }
            match self.is_environment_to_blame(&mut task, exit).await {
                Ok(Some(false)) => {}
                Ok(Some(true)) => {
                    let folder = self.app.task_folder(&id);
                    let behind = if has_progressed(&folder) { Requeue::Progressed } else { Requeue::NotBegun };
                    if let Err(error) = self.requeue(&task, behind).await {
                        tracing::error!(task = %id, cause = format!("{error:#}"), "queue a task again");
                        self.running.insert(id, task);
                    }
                    continue;
                }
                Ok(None) => {
                    self.running.insert(id, task);
                    continue;
                }
                Err(error) => {
                    tracing::error!(task = %id, cause = format!("{error:#}"), "look at how a task ended");
                    self.running.insert(id, task);
                    continue;
                }
            }
            if let Err(error) = self.conclude(&task, exit).await {
                // It stays running in the database; the next look tries again.
                tracing::error!(task = %id, cause = format!("{error:#}"), "collect a task");
                self.running.insert(id, Running { child: None, ..task });
                tokio::time::sleep(TICK).await;
            }
        }
    }

    /// Whether a task ended because of the environment: if it left no result, or one that blames machine or
    /// operator, and a check finds the same. None while that is being checked.
    async fn is_environment_to_blame(&mut self, task: &mut Running, exit: Option<Exit>) -> Result<Option<bool>> {
        let source = Source::Environment(task.share.gpu);
        if let Some(check) = &mut task.suspicion {
            if !check.is_finished() {
                return Ok(None);
            }
            let found = check.await?;
            let is_broken = found.is_err();
            self.judge(task.share.gpu, found);
            return Ok(Some(is_broken));
        }
        if !is_suspicious(task, exit, &attempt(&self.app, &task.row))? {
            return Ok(Some(false));
        }
        if self.app.holds.has(source) {
            return Ok(Some(true));
        }
        task.suspicion = Some(start_check(&self.app, task.share.gpu));
        Ok(None)
    }

    /// Holds or releases what a check was about.
    fn judge(&mut self, gpu: Option<u32>, found: Result<Value, Broken>) {
        let source = Source::Environment(gpu);
        self.checks.retain(|check| check.gpu != gpu);
        let Broken { code, cause } = match found {
            Err(broken) => broken,
            Ok(found) => {
                if found["ligand_tools"] == false {
                    tracing::warn!("the workers lack the programs for charges of ligands; builds with ligands fail");
                }
                if self.app.holds.release(source) {
                    tracing::info!(?gpu, "the workers' environment is sound again");
                }
                return;
            }
        };
        // Of several GPUs one may be lost; all else is the same for all of them.
        let only = gpu.filter(|_| code == "gpu_lost");
        let since = self.app.now();
        // Analyses need no Python, but they are confined too.
        let lanes: &[Lane] = match &*code {
            "sandbox_unavailable" => &[Lane::Workers, Lane::Analyses],
            _ => &[Lane::Workers],
        };
        for &lane in lanes {
            let hold = Hold { source, lane, gpu: only, code: code.clone(), since };
            if self.app.holds.place(hold) {
                tracing::error!(?gpu, ?lane, code, cause, "no task is started until this is repaired");
            }
        }
        self.checks.push(Check::new(gpu, Instant::now() + RECHECK));
    }

    async fn look_at_checks(&mut self) {
        for mut check in std::mem::take(&mut self.checks) {
            match check.running.take() {
                None if check.due <= Instant::now() => check.running = Some(start_check(&self.app, check.gpu)),
                Some(running) if running.is_finished() => {
                    match running.await {
                        Ok(found) => self.judge(check.gpu, found),
                        Err(error) => {
                            tracing::error!(%error, "check the workers' environment");
                            self.checks.push(Check::new(check.gpu, Instant::now() + RECHECK));
                        }
                    }
                    continue;
                }
                running => check.running = running,
            }
            self.checks.push(check);
        }
    }

    /// Holds all lanes while the disk is full.
    fn look_at_disk(&mut self) {
        let is_full_for_us = self.app.check_disk().is_err();
        let free = self.app.objects.free_bytes().unwrap_or(0);
        self.full_at = self.full_at.filter(|then| free < then + ROOM);
        if !is_full_for_us && self.full_at.is_none() {
            if self.app.holds.release(Source::Disk) {
                tracing::info!(free, "the disk has room again");
            }
            return;
        }
        for lane in [Lane::Workers, Lane::Analyses] {
            let code = "disk_full".to_owned();
            let hold = Hold { source: Source::Disk, lane, gpu: None, code, since: self.app.now() };
            if self.app.holds.place(hold) {
                tracing::error!(?lane, free, "the disk is full; no task is started until there is room");
            }
        }
    }

    /// Cancels what disabled accounts have queued and running. They are disabled by another process.
    async fn cancel_of_disabled(&self) {
        let cancelled = match self.app.db.has_tasks_of_disabled() {
            Ok(true) => self.app.db.cancel_tasks_of_disabled(self.app.now()).await,
            Ok(false) => return,
            Err(error) => Err(error.into()),
        };
        match cancelled {
            Ok(open) => open.iter().for_each(|id| self.app.cancel(id)),
            Err(error) => tracing::error!(cause = format!("{error:#}"), "cancel the tasks of disabled accounts"),
        }
    }

    /// Ends what was cancelled while it waited for another attempt. It has results of before, which are to
    /// show what became of it.
    async fn end_cancelled(&self) {
        if self.app.cancelled_tasks().iter().all(|id| self.running.contains_key(id)) {
            return;
        }
        let rows = match self.app.db.cancelled_queued_tasks() {
            Ok(rows) => rows,
            Err(error) => return tracing::error!(%error, "look for cancelled tasks"),
        };
        for row in rows {
            let folder = self.app.task_folder(&row.id);
            if let Err(error) = self.finish(&row, "cancelled", so_far(&folder)).await {
                // The next look tries again.
                tracing::error!(task = %row.id, cause = format!("{error:#}"), "collect a cancelled task");
            }
        }
    }

    /// Waits until it is time to look at everything again, or there is a reason to. What is queued in a
    /// lane where nothing can be started is none.
    async fn wait(&self) {
        let pause = if self.running.is_empty() { IDLE_TICK } else { TICK };
        let woken = async {
            loop {
                let lane = tokio::select! {
                    () = self.app.wake.notified() => return,
                    () = self.app.queued(Lane::Workers).notified() => Lane::Workers,
                    () = self.app.queued(Lane::Analyses).notified() => Lane::Analyses,
                };
                if self.place(lane).is_some() {
                    return;
                }
            }
        };
        // Woken before that, or not.
        let _ = tokio::time::timeout(pause, woken).await;
    }

    /// Starts what is queued, as far as there are slots, GPUs and disk.
    async fn start_queued(&mut self) {
        for lane in [Lane::Workers, Lane::Analyses] {
            self.start_lane(lane).await;
        }
    }

    fn of_lane(&self, lane: Lane) -> impl Iterator<Item = &Running> {
        self.running.values().filter(move |task| Lane::of(&task.row.kind) == lane)
    }

    /// Where another task of a lane can run, if it can at all.
    fn place(&self, lane: Lane) -> Option<Place> {
        let config = &self.app.config;
        let all = match lane {
            Lane::Workers => config.slots(),
            Lane::Analyses => config.worker.analyses,
        };
        let slots = all.saturating_sub(self.of_lane(lane).count());
        let is_free =
            |gpu: &u32| self.running.values().all(|task| task.share.gpu != Some(*gpu)) && !self.app.holds.has_gpu(*gpu);
        let gpu = config.worker.gpus.iter().copied().find(is_free).filter(|_| lane == Lane::Workers);
        let needs_gpu = lane == Lane::Workers && !config.worker.gpus.is_empty();
        let is_held = || self.app.holds.of_lane(lane, &config.worker.gpus).is_some();
        let is_there = slots > 0 && (!needs_gpu || gpu.is_some()) && !is_held();
        is_there.then_some(Place { slots, all, gpu })
    }

    async fn start_lane(&mut self, lane: Lane) {
        while let Some(Place { slots, all, gpu }) = self.place(lane) {
            let (row, waiting) = match self.app.db.next_queued(lane, all) {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(error) => return tracing::error!(%error, "look for queued tasks"),
            };
            // Two tasks with a CPU each get more done than one after the other with both. One that
            // finds none free gets one all the same: it would wait for days.
            let used: usize = self.of_lane(lane).map(|task| task.share.cpus).sum();
            let cpus = (self.app.config.cpus().saturating_sub(used) / waiting.min(slots)).max(1);
            let id = row.id.clone();
            let share = Share { cpus, gpu, user: self.free_user() };
            match self.start(row, share).await {
                Ok(Start::Running(task)) => drop(self.running.insert(id, *task)),
                Ok(Start::NotQueued) => {}
                Ok(Start::Later) => return,
                Err(error) if obstacle(&error).is_some() => {
                    self.full_at = self.app.objects.free_bytes().ok();
                    tracing::error!(task = %id, cause = format!("{error:#}"), "start a task later");
                    if let Err(error) = self.app.db.requeue_task(id.clone(), Requeue::NotBegun).await {
                        tracing::error!(task = %id, cause = format!("{error:#}"), "queue a task again");
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(task = %id, cause = format!("{error:#}"), "start a task");
                    let failure = failure(
                        "not_started",
                        "the service could not start the task; its log says why",
                        "tell the operator of the service",
                    );
                    if let Err(error) = self.end(&id, "failed", json!({ "error": failure }), None).await {
                        return tracing::error!(task = %id, cause = format!("{error:#}"), "end a task");
                    }
                }
            }
        }
    }

    /// Number of a user as whom nothing runs, if tasks have users of their own.
    fn free_user(&self) -> Option<u32> {
        let first = Some(self.app.config.worker.user).filter(|user| *user > 0)?;
        (first..).find(|user| self.running.values().all(|task| task.share.user != Some(*user)))
    }

    async fn start(&self, queued: TaskRow, share: Share) -> Result<Start> {
        let row = TaskRow { attempts: queued.attempts + 1, status: "running".to_owned(), ..queued };
        let attempt = attempt(&self.app, &row);
        let Some(lock) = Lock::take(&attempt.folder)? else {
            // What is queued has no processes. Should one be left over, it must not meet another.
            let n_killed = process::kill(&attempt.folder)?;
            tracing::error!(task = %row.id, n_killed, "a queued task had processes");
            return Ok(Start::Later);
        };
        let (app, prepared, folder) = (self.app.clone(), row.clone(), attempt.folder.clone());
        let confinement = tokio::task::spawn_blocking(move || prepare(&app, &prepared, &folder, share)).await??;
        if !self.app.db.start_task(row.id.clone(), self.app.now()).await? {
            return Ok(Start::NotQueued);
        }
        let worker = &self.app.config.worker;
        let (python, folder) = (worker.python.display().to_string(), attempt.folder.display().to_string());
        let command = match row.kind.as_str() {
            "analysis" => [THIS_PROGRAM, "analyze", &folder].map(str::to_owned).to_vec(),
            _ => environment::worker(&python, &folder),
        };
        let child = process::launch(lock, &attempt, &command, &confinement)?;
        tracing::info!(task = %row.id, cpus = share.cpus, gpu = ?share.gpu, attempt = row.attempts, "started");
        Ok(Start::Running(Box::new(Running::new(row, share, Some(child)))))
    }

    /// Decides what the end of a task's process means.
    async fn conclude(&self, task: &Running, exit: Option<Exit>) -> Result<()> {
        let row = &task.row;
        let folder = self.app.task_folder(&row.id);
        let why = task.stop.map(|stop| stop.why);
        let is_cancelled = why == Some(Why::Cancelled) || self.is_cancelled(row)?;
        let has_attempts = row.fruitless + 1 < i64::from(self.app.config.worker.attempts);
        let (status, outcome) = match read_result(&row.kind, &attempt(&self.app, row))? {
            Some(result) if result["status"] == "succeeded" => ("succeeded", result),
            Some(mut result) => {
                let code = result["error"]["code"].as_str().unwrap_or_default();
                let mut fault = Fault::of(code);
                if matches!(fault, Fault::Machine | Fault::Operator) {
                    if has_attempts && !is_cancelled {
                        return self.requeue(task, Requeue::Fruitless).await;
                    }
                    // It is said each time, and a check finds nothing of it.
                    fault = Fault::Engine;
                }
                if code == "out_of_memory" {
                    result["error"]["remedy"] = failure::MORE_MEMORY.into();
                }
                result["error"]["fault"] = json!(fault);
                result["error"]["log"] = end_of_log(&self.app, &row.id)?.into();
                ("failed", with_so_far(result, &folder))
            }
            // No word of its own: it was stopped or killed. Its commits are good.
            None if is_cancelled => ("cancelled", so_far(&folder)),
            None => {
                let behind = behind(task, exit, &folder);
                if why != Some(Why::WallLimit) && (behind != Requeue::Fruitless || has_attempts) {
                    return self.requeue(task, behind).await;
                }
                let mut outcome = so_far(&folder);
                outcome["error"] = died(&self.app, why, exit, &row.id)?;
                ("failed", outcome)
            }
        };
        match self.finish(row, status, outcome).await {
            Err(error) if error.is::<Unusable>() || error.is::<JoinError>() => {
                tracing::error!(task = %row.id, cause = format!("{error:#}"), "results that cannot be used");
                self.finish(row, "failed", json!({ "error": invalid_result(&row.kind) })).await
            }
            finished => finished,
        }
    }

    /// Collects what a task left, and ends it.
    async fn finish(&self, row: &TaskRow, status: &'static str, mut outcome: Value) -> Result<()> {
        for member in ["error", "warnings"] {
            outcome.get_mut(member).into_iter().for_each(all_without_folders);
        }
        let (app, copy) = (self.app.clone(), row.clone());
        let collected = tokio::task::spawn_blocking(move || collect(&app, &copy, status, outcome));
        let (outcome, layout) = collected.await??;
        self.end(&row.id, status, outcome, Some(layout)).await?;
        tracing::info!(task = %row.id, status, "ended");
        // What is left is of no use to anybody.
        let folder = self.app.task_folder(&row.id);
        if let Err(error) = tokio::task::spawn_blocking(move || left::remove(&folder)).await? {
            tracing::warn!(task = %row.id, %error, "remove the folder of a task");
        }
        Ok(())
    }

    async fn requeue(&self, task: &Running, behind: Requeue) -> Result<()> {
        let row = &task.row;
        tracing::warn!(task = %row.id, attempt = row.attempts, ?behind, "queued again");
        self.app.forget(&row.id);
        self.app.db.requeue_task(row.id.clone(), behind).await?;
        // Cancelled at the last moment: it must not wait for what may never come.
        if self.is_cancelled(row)? {
            self.app.cancel(&row.id);
        }
        Ok(())
    }

    fn is_cancelled(&self, row: &TaskRow) -> Result<bool> {
        let row = self.app.db.task(row.account, &row.kind, &row.id)?;
        Ok(row.is_some_and(|row| row.is_cancelled))
    }

    async fn end(&self, id: &str, status: &'static str, outcome: Value, layout: Option<Layout>) -> Result<()> {
        let bundle = layout.map(|layout| serde_json::to_string(&layout)).transpose()?;
        let (objects, prefix) = (self.app.objects.clone(), format!("tasks/{id}"));
        let bytes = tokio::task::spawn_blocking(move || objects.size(&prefix)).await??;
        let end = End { status, outcome: outcome.to_string(), bundle, bytes };
        self.app.db.end_task(id.to_owned(), end, self.app.now()).await?;
        self.app.forget(id);
        Ok(())
    }
}

/// Whether the environment may be to blame for how an attempt ended.
fn is_suspicious(task: &Running, exit: Option<Exit>, attempt: &Attempt) -> Result<bool> {
    let is_unconfined = exit.is_some_and(|exit| exit.code == Some(i32::from(UNAVAILABLE)));
    if (task.row.kind == "analysis" && !is_unconfined) || task.stop.is_some() {
        return Ok(false);
    }
    Ok(match read_result(&task.row.kind, attempt)? {
        Some(result) if result["status"] == "succeeded" => false,
        Some(result) => {
            let code = result["error"]["code"].as_str().unwrap_or_default();
            matches!(Fault::of(code), Fault::Machine | Fault::Operator)
        }
        None => exit.is_some_and(|exit| ![Some(STOPPED), Some(DISK_FULL)].contains(&exit.code)),
    })
}

/// Whether an attempt has committed anything.
fn has_progressed(folder: &Path) -> bool {
    let begun = read_json(&folder.join("task.json")).unwrap_or_default();
    n_commits(folder) > begun["commits"].as_u64().unwrap_or(0)
}

/// What an attempt that left no result was to its task.
fn behind(task: &Running, exit: Option<Exit>, folder: &Path) -> Requeue {
    let begun = read_json(&folder.join("task.json")).unwrap_or_default();
    let was_stopped =
        task.stop.is_none() && exit.is_some_and(|exit| [Some(STOPPED), Some(DISK_FULL)].contains(&exit.code));
    // With the service and its worker, whoever would have noted the end was gone too; at a shutdown it may
    // have noted how it was killed.
    let machine_stopped = (task.is_adopted && exit.is_none())
        || exec::boot_id().is_some_and(|now| begun["boot"].as_str().is_some_and(|then| then != now));
    if has_progressed(folder) {
        Requeue::Progressed
    } else if was_stopped || machine_stopped {
        Requeue::Interrupted
    } else {
        Requeue::Fruitless
    }
}

/// Stops a running task that was cancelled, says nothing any more, or takes too long; kills it
/// when it does not stop.
fn watch_over(app: &App, task: &mut Running, folder: &Path) {
    let worker = &app.config.worker;
    task.sign.look(folder);
    if let Some(stop) = &mut task.stop {
        let (since, patience) = match stop.killed {
            Some(killed) => (killed, KILL_PAUSE),
            None => (stop.asked, Duration::from_secs(worker.stop_seconds)),
        };
        if since.elapsed() > patience {
            report("kill a task", process::kill(folder));
            stop.killed = Some(Instant::now());
        }
        return;
    }
    let is_over = |since: Instant, seconds: u64| seconds > 0 && since.elapsed() > Duration::from_secs(seconds);
    let why = if app.is_cancelled(&task.row.id) || task.row.is_cancelled {
        Why::Cancelled
    } else if is_over(task.sign.seen, worker.silence_seconds) {
        Why::Silent
    } else if is_over(task.since, worker.wall_seconds) {
        Why::WallLimit
    } else {
        return;
    };
    tracing::info!(task = %task.row.id, silent = why == Why::Silent, cancelled = why == Why::Cancelled, "stopping");
    // What gives no sign of life would not hear.
    let is_hung = why == Why::Silent;
    if is_hung {
        report("kill a task", process::kill(folder));
    } else {
        report("stop a task", process::ask_to_stop(folder));
    }
    let now = Instant::now();
    task.stop = Some(Stop { why, asked: now, killed: is_hung.then_some(now) });
}

/// A signal that could not be sent is sent again.
fn report<T>(what: &str, sent: std::io::Result<T>) {
    if let Err(error) = sent {
        tracing::error!(%error, "{what}");
    }
}

impl SignOfLife {
    fn look(&mut self, folder: &Path) {
        let of_worker = ["heartbeat", "progress.json"].iter().filter_map(|name| left::modified(folder, &[name]));
        let of_log = fs::symlink_metadata(folder.join(LOG)).and_then(|found| found.modified()).ok();
        let newest = of_worker.chain(of_log).max();
        if newest != self.modified {
            *self = Self { modified: newest, seen: Instant::now() };
        }
    }
}

/// The present attempt of a task.
fn attempt(app: &App, row: &TaskRow) -> Attempt {
    Attempt { folder: app.task_folder(&row.id), number: u32::try_from(row.attempts).unwrap_or(u32::MAX) }
}

/// Writes the folder of a task; what its command may do there. Progress that an earlier attempt committed
/// stays.
fn prepare(app: &App, row: &TaskRow, folder: &Path, share: Share) -> Result<Confinement> {
    left::settle(folder)?;
    restore(app, row, folder)?;
    let input = folder.join("input");
    let (kind, plan) = match row.kind.as_str() {
        "system" => ("build", build::place_inputs(app, row, &input)?),
        "analysis" => ("analyze", analyze::place_inputs(app, row, &input)?),
        _ => ("simulate", simulate::place_inputs(app, row, &input)?),
    };
    // What a command may write to, none of another account may read, nor one that runs as another user.
    let cache = match share.user {
        Some(user) => format!("{}-{user}", row.account),
        None => row.account.to_string(),
    };
    let confinement = Confinement::new(&app.config, app.config.data.join("cache").join(cache), share.user)?;
    let task = json!({
        "kind": kind,
        "id": row.id,
        "attempt": row.attempts,
        // With these, an attempt that left no result is judged.
        "boot": exec::boot_id(),
        "commits": n_commits(folder),
        "plan": plan,
        "seed": row.seed,
        "platform": Some(&app.config.worker.platform).filter(|name| !name.is_empty()),
        "threads": share.cpus,
        "device": share.gpu,
        "user": share.user,
        "cache": confinement.cache,
        "ligand_seconds": app.config.worker.ligand_seconds,
        "checkpoint_seconds": app.config.worker.checkpoint_seconds,
    });
    fs::write(folder.join("task.json"), serde_json::to_vec_pretty(&task)?)?;
    // Of an earlier attempt.
    left::discard(&folder.join(WORK).join("result.json"))?;
    Ok(confinement)
}

/// Puts what a job that goes on had come to back into its folder. It is copied: the job's bundle
/// stays what it is until there is another.
fn restore(app: &App, row: &TaskRow, folder: &Path) -> Result<()> {
    let prefix = format!("tasks/{}", row.id);
    let work = folder.join(WORK);
    let output = work.join("output");
    if output.exists() || !app.objects.exists(&prefix) {
        return Ok(());
    }
    let log = app.objects.local_file(&format!("{prefix}/log.txt"));
    if log.exists() {
        fs::copy(log, folder.join("log.txt"))?;
    }
    if !has_commit(app, &row.id) {
        // It begins again.
        return Ok(());
    }
    let copy = |from: &str, to: &Path| -> Result<()> {
        fs::create_dir_all(to)?;
        for key in app.objects.list(from)? {
            let name = key.rsplit('/').next().unwrap_or_default();
            if !name.ends_with(DEFLATED) && !OURS.contains(&name) {
                fs::copy(app.objects.local_file(&key), to.join(name))?;
            }
        }
        Ok(())
    };
    copy(&format!("{prefix}/{COMMIT}"), &work.join(COMMIT))?;
    let partial = work.join("output.partial");
    copy(&prefix, &partial)?;
    // Last: it shows that all is there.
    fs::rename(partial, output)?;
    Ok(())
}

/// What a worker says of its progress, in the form of the records; none when it has said nothing.
fn progress(folder: &Path) -> Option<Value> {
    // It is shown, and no more: what cannot be read is not there yet.
    let mut said = left::read_json(folder, &["progress.json"]).ok().flatten()?;
    let mut record = json!({});
    for member in ["warnings", "stages", "platform"] {
        if let Some(value) = said.as_object_mut()?.remove(member) {
            record[member] = value;
        }
    }
    record["progress"] = said;
    has_form(&record).then_some(record)
}

/// Whether what a command reports of itself has the form in which records show it.
fn has_form(said: &Value) -> bool {
    fn is<T: DeserializeOwned>(value: &Value) -> bool {
        value.is_null() || T::deserialize(value).is_ok()
    }
    is::<Vec<Notice>>(&said["warnings"])
        && is::<Vec<StageResult>>(&said["stages"])
        && is::<String>(&said["platform"])
        && is::<Progress>(&said["progress"])
        && is::<Failure>(&said["error"])
}

/// What a task says of its end, and what it had done until then.
fn with_so_far(result: Value, folder: &Path) -> Value {
    let mut said = so_far(folder);
    if let (Value::Object(said), Value::Object(result)) = (&mut said, result) {
        said.extend(result);
    }
    said
}

/// What a task that did not come to its end had done.
fn so_far(folder: &Path) -> Value {
    let mut said = progress(folder).unwrap_or_else(|| json!({}));
    if let Some(said) = said.as_object_mut() {
        said.remove("progress");
    }
    said
}

/// A file of JSON; none when it is not there, or not whole because its writer died.
fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The result of an attempt; none when there is none, or another attempt's. One that cannot be used is a
/// failure: to read it again would not help.
fn read_result(kind: &str, attempt: &Attempt) -> Result<Option<Value>> {
    const RESULT: &[&str] = &["result.json"];
    let found = left::read_json(&attempt.folder, RESULT).context("read result.json")?;
    match found {
        Some(result) if result["attempt"].as_u64().is_some_and(|number| number != u64::from(attempt.number)) => {
            Ok(None)
        }
        Some(result) if is_result(kind, &result) => Ok(Some(result)),
        None if left::modified(&attempt.folder, RESULT).is_none() => Ok(None),
        _ => Ok(Some(json!({ "status": "failed", "error": invalid_result(kind) }))),
    }
}

fn is_result(kind: &str, result: &Value) -> bool {
    let is_complete = match result["status"].as_str() {
        Some("succeeded") => kind != "system" || SystemSummary::deserialize(&result["summary"]).is_ok(),
        Some("failed") => result["error"].is_object(),
        _ => false,
    };
    is_complete && result["attempt"].is_u64() && has_form(result)
}

fn invalid_result(kind: &str) -> Value {
    failure(
        "result_invalid",
        format!("the worker ended without a {kind} that can be used: what it left is not what a worker writes"),
        "check the files that were given; tell the operator of the service if they are sound",
    )
}

/// What a command has left cannot be used.
#[derive(Debug)]
struct Unusable;

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what the command has left cannot be used")
    }
}

/// Says in the log and in the record why a task without a word of its own has failed.
fn died(app: &App, why: Option<Why>, exit: Option<Exit>, id: &str) -> Result<Value> {
    let worker = &app.config.worker;
    let mut failure = match why {
        Some(Why::WallLimit) => failure(
            "wall_limit",
            format!("it took longer than the {} s that a task may take", worker.wall_seconds),
            "ask for less time or fewer atoms, or ask the operator for a longer limit",
        ),
        Some(Why::Silent) => failure(
            "worker_hung",
            format!("the worker gave no sign of life for {} s each time it was started", worker.silence_seconds),
            "tell the operator of the service; the machine may be overloaded or its GPU stuck",
        ),
        None if exit.is_some_and(|exit| exit.is_out_of_memory()) => failure(
            "out_of_memory",
            "the machine ran out of memory, and the worker was killed for it each time it was started",
            failure::MORE_MEMORY,
        ),
        _ => {
            let how = match exit {
                Some(Exit { signal: Some(signal), .. }) => format!("was killed by signal {signal}"),
                Some(Exit { code: Some(code), .. }) => format!("ended with status {code}"),
                _ => "vanished".to_owned(),
            };
            failure(
                "worker_died",
                format!("the worker {how} each time it was started"),
                "its log may say why; memory that runs out is the usual cause",
            )
        }
    };
    let text = |member: &str| failure[member].as_str().unwrap_or_default();
    add_to_log(app, id, &format!("failed: {}: {}", text("code"), text("message")))?;
    failure["log"] = end_of_log(app, id)?.into();
    Ok(failure)
}

/// Adds a line to the log of a task. One that has been collected stays as it is: another in the folder would
/// pass for that of new results.
fn add_to_log(app: &App, id: &str, line: &str) -> Result<()> {
    let path = app.task_folder(id).join(LOG);
    if !path.exists() && log_of(app, id)?.is_some() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).custom_flags(libc::O_NOFOLLOW);
    let mut log = options.open(path).context("open the log of a task")?;
    Ok(writeln!(log, "{line}")?)
}

/// The log of a task: in its folder while it runs, among its objects when it has ended, for a moment between
/// among what is collected. None when it has not begun.
pub(crate) fn log_of(app: &App, id: &str) -> io::Result<Option<File>> {
    let folder = app.task_folder(id);
    for path in [&[LOG][..], &[COLLECTED, LOG]] {
        if let Some(file) = left::open_below(&folder, path)? {
            return Ok(Some(file));
        }
    }
    match app.objects.open_object(&format!("tasks/{id}/{LOG}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The last lines of the log of a task.
fn end_of_log(app: &App, id: &str) -> io::Result<Vec<String>> {
    log_of(app, id)?.map_or_else(|| Ok(Vec::new()), last_lines)
}

/// The last lines of a log.
pub(crate) fn last_lines(mut log: File) -> io::Result<Vec<String>> {
    let start = log.metadata()?.len().saturating_sub(LOG_BYTES);
    log.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    log.take(LOG_BYTES).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|&line| line.to_owned()).collect())
}

/// Makes what a task wrote into objects and lays out its bundle. Doing it again gives the same.
fn collect(app: &App, row: &TaskRow, status: &str, mut outcome: Value) -> Result<(Value, Layout)> {
    let folder = app.task_folder(&row.id);
    let prefix = format!("tasks/{}", row.id);
    left::settle(&folder)?;
    let output = folder.join(COLLECTED);
    fs::create_dir_all(&output)?;
    let mut room = left::Room { bytes: confine::most_bytes(&app.config)? };
    let mut stays = left::take(&folder, &["output"], &output, &mut room)?;
    // Not in the bundle: what a job goes on from when it is extended or tried again.
    stays.extend(left::take(&folder, &[COMMIT], &output.join(COMMIT), &mut room)?);
    if left::open_below(&folder, &[LOG])?.is_some() {
        if !stays.is_empty() {
            add_to_log(app, &row.id, &format!("not kept: {}", stays.join(", ")))?;
        }
        fs::rename(folder.join(LOG), output.join(LOG))?;
    }
    // Every attempt has a log, and it goes with its results: what is found without one stayed behind when
    // these were collected.
    let is_new = output.join(LOG).exists();
    if is_new {
        // A job that went on has results already, which these contain.
        app.objects.remove(&prefix)?;
    } else if app.objects.exists(&prefix) {
        // Collected before. A folder here would pass for what a retried job had come to.
        left::remove(&output)?;
    }
    if !app.objects.exists(&prefix) {
        app.objects.adopt(&output, &prefix)?;
    }
    if row.kind == "system" && status == "succeeded" {
        outcome["default_masks"] = default_masks(app, row, &mut outcome["summary"]).context(Unusable)?;
    }
    let layout = lay_out(app, row, status, &outcome)?;
    Ok((outcome, layout))
}

/// The masks of a system that has been built; takes what they are made of out of its summary.
fn default_masks(app: &App, row: &TaskRow, summary: &mut Value) -> Result<Value> {
    let solvent = summary.as_object_mut().context("no summary")?.remove("solvent_residues");
    let solvent: Vec<String> = serde_json::from_value(solvent.unwrap_or_default())?;
    let size = app.objects.local_file(&format!("tasks/{}/topology.json", row.id)).metadata()?.len();
    let most = app.config.limits.atoms.saturating_mul(TOPOLOGY_BYTES);
    anyhow::ensure!(size <= most, "a topology of {size} bytes");
    let built = app.systems.read(&app.objects, &row.id)?;
    Ok(serde_json::to_value(DefaultMasks::new(&built, &solvent))?)
}

/// The bundle: what the task wrote, the system that it ran on, and a manifest of both.
fn lay_out(app: &App, row: &TaskRow, status: &str, outcome: &Value) -> Result<Layout> {
    let mut entries = entries(app, &row.id, &row.id)?;
    if let Some(system) = row.parent.as_ref().filter(|_| row.kind == "job") {
        entries.extend(self::entries(app, system, &format!("{}/system", row.id))?);
    }
    let mut measured = entries.iter().map(|entry| bundle::measure(&app.objects, entry)).collect::<Result<Vec<_>>>()?;
    let manifest = json!({
        "id": row.id,
        "kind": row.kind,
        "status": status,
        "system": row.parent,
        "created_at": rfc3339(row.created_at),
        "molboxd": env!("CARGO_PKG_VERSION"),
        "versions": outcome["versions"],
        "platform": outcome["platform"],
        "seed": row.seed,
        "attempts": row.attempts,
        "request": serde_json::from_str::<Value>(&row.request)?,
        "parameters": serde_json::from_str::<Value>(&row.parameters)?,
        "summary": outcome["summary"],
        "stages": outcome["stages"],
        "warnings": warnings(row, outcome)?,
        "error": outcome["error"],
        "files": measured,
    });
    let manifest = without_nulls(manifest);
    let key = format!("tasks/{}/manifest.json", row.id);
    app.objects.write(&key, &serde_json::to_vec_pretty(&manifest)?)?;
    let manifest = Entry { name: format!("{}/manifest.json", row.id), key };
    measured.insert(0, bundle::measure(&app.objects, &manifest)?);
    Layout::archive(&app.objects, &measured, Timestamp::from_microsecond(row.created_at)?)
}

/// Warnings about the request, then those of the run.
fn warnings(row: &TaskRow, outcome: &Value) -> Result<Vec<Value>> {
    let mut all: Vec<Value> = serde_json::from_str(&row.warnings)?;
    all.extend(outcome["warnings"].as_array().into_iter().flatten().cloned());
    Ok(all)
}

fn entries(app: &App, id: &str, folder: &str) -> Result<Vec<Entry>> {
    let keys = app.objects.list(&format!("tasks/{id}"))?;
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(keys
        .into_iter()
        .filter(|key| !key.ends_with(DEFLATED))
        .map(|key| Entry { name: format!("{folder}/{}", name(&key)), key })
        .filter(|entry| entry.name != format!("{id}/manifest.json"))
        .collect())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect())
        }
        other => other,
    }
}
