//! The runner: claims queued tasks, launches them, follows them, collects what they leave.
//!
//! Everything that it knows is in the database and in the task's folder, so it can be killed at
//! any moment: the next one adopts what runs and collects what has ended.

pub(crate) mod build;
pub(crate) mod simulate;
pub(crate) mod topology;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::app::{App, rfc3339};
use crate::bundle::{self, Entry, Layout};
use crate::db::{End, TaskRow};
use crate::exec::{self, Exit, Status, process};
use simulate::DefaultMasks;
use topology::Built;

/// How often running tasks are looked at.
const TICK: Duration = Duration::from_millis(200);
/// Lines of the log that a failed task shows.
const LOG_LINES: usize = 20;
/// Exit status of a worker that was asked to stop.
const STOPPED: i32 = 3;
/// Files of a task's output that matter to the service, not to people.
const NOT_IN_BUNDLE: [&str; 1] = [".deflate"];

/// Runs tasks until the service ends; they go on without it.
pub(crate) async fn run(app: Arc<App>) {
    let mut runner = Runner { app, running: HashMap::new() };
    if let Err(error) = runner.adopt() {
        tracing::error!(cause = format!("{error:#}"), "look for tasks that were running");
    }
    loop {
        runner.look_after().await;
        runner.start_queued().await;
        let idle = runner.running.is_empty();
        tokio::select! {
            () = runner.app.wake.notified() => {}
            () = tokio::time::sleep(TICK), if !idle => {}
        }
    }
}

struct Runner {
    app: Arc<App>,
    running: HashMap<String, Running>,
}

/// A task that runs, or has ended and waits to be collected.
struct Running {
    row: TaskRow,
    cpus: usize,
    /// The process, when it was launched by this service; waited for so that it does not stay as
    /// a zombie.
    child: Option<Child>,
}

impl Runner {
    /// Takes over the tasks that were running when the service ended.
    fn adopt(&mut self) -> Result<()> {
        for row in self.app.db.running_tasks()? {
            tracing::info!(task = %row.id, "adopted");
            let cpus = cpus_of(&self.app.task_folder(&row.id)).unwrap_or(1);
            self.running.insert(row.id.clone(), Running { row, cpus, child: None });
        }
        Ok(())
    }

    async fn look_after(&mut self) {
        let mut ended = Vec::new();
        for (id, task) in &mut self.running {
            let folder = self.app.task_folder(id);
            if let Some(child) = &mut task.child
                && matches!(child.try_wait(), Ok(None))
            {
                self.app.set_progress(id, progress(&folder));
                continue;
            }
            match exec::status(&folder) {
                Ok(Status::Running) => self.app.set_progress(id, progress(&folder)),
                Ok(Status::Exited(exit)) => ended.push((id.clone(), Some(exit))),
                Ok(Status::Lost) => ended.push((id.clone(), None)),
                Err(error) => tracing::error!(task = %id, %error, "look at a task"),
            }
        }
        for (id, exit) in ended {
            let task = self.running.remove(&id).expect("it was just looked at");
            if let Err(error) = self.conclude(&task.row, exit).await {
                // It stays running in the database; the next look tries again.
                tracing::error!(task = %id, cause = format!("{error:#}"), "collect a task");
                self.running.insert(id, Running { child: None, ..task });
                tokio::time::sleep(TICK).await;
            }
        }
    }

    /// Starts what is queued, as far as there are CPUs.
    async fn start_queued(&mut self) {
        loop {
            let used: usize = self.running.values().map(|task| task.cpus).sum();
            let free = self.app.config.worker.cpus.saturating_sub(used);
            let next = self.app.db.next_queued();
            let (row, waiting) = match next {
                Ok(Some(next)) if free > 0 => next,
                Ok(_) => return,
                Err(error) => return tracing::error!(%error, "look for queued tasks"),
            };
            // Two tasks with a CPU each get more done than one after the other with both.
            let cpus = (free / waiting).max(1);
            let id = row.id.clone();
            match self.start(row, cpus).await {
                Ok(Some(task)) => drop(self.running.insert(id, task)),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(task = %id, cause = format!("{error:#}"), "start a task");
                    let failure = json!({"code": "not_started", "message": "the service could not start the task"});
                    if let Err(error) = self.end(&id, "failed", json!({ "error": failure }), None).await {
                        return tracing::error!(task = %id, cause = format!("{error:#}"), "end a task");
                    }
                }
            }
        }
    }

    async fn start(&self, row: TaskRow, cpus: usize) -> Result<Option<Running>> {
        let (app, folder) = (self.app.clone(), self.app.task_folder(&row.id));
        let prepared = row.clone();
        let path = folder.clone();
        tokio::task::spawn_blocking(move || prepare(&app, &prepared, &path, cpus)).await??;
        if !self.app.db.start_task(row.id.clone(), self.app.now()).await? {
            return Ok(None);
        }
        let python = self.app.config.worker.python.display().to_string();
        let command = [&python, "-m", "molbox_worker", &folder.display().to_string()].map(str::to_owned);
        let child = process::launch(&folder, &command)?;
        tracing::info!(task = %row.id, cpus, attempt = row.attempts + 1, "started");
        let row = TaskRow { attempts: row.attempts + 1, status: "running".to_owned(), ..row };
        Ok(Some(Running { row, cpus, child: Some(child) }))
    }

    /// Decides what the end of a task's process means.
    async fn conclude(&self, row: &TaskRow, exit: Option<Exit>) -> Result<()> {
        let folder = self.app.task_folder(&row.id);
        let result = read_result(&folder)?;
        let (status, outcome) = match result {
            Some(result) if result["status"] == "succeeded" => ("succeeded", result),
            Some(mut result) => {
                result["error"]["log"] = last_lines(&folder).into();
                ("failed", result)
            }
            // No word of its own: it was stopped or killed. Its commits are good.
            None => {
                let was_stopped = exit.is_some_and(|exit| exit.code == Some(STOPPED));
                if was_stopped || row.attempts < self.app.config.worker.attempts as i64 {
                    tracing::warn!(task = %row.id, ?exit, attempt = row.attempts, "queued again");
                    self.app.set_progress(&row.id, None);
                    self.app.db.requeue_task(row.id.clone()).await?;
                    return Ok(());
                }
                ("failed", json!({ "error": died(exit, &folder) }))
            }
        };
        let (app, row) = (self.app.clone(), row.clone());
        let (row, outcome, layout) =
            tokio::task::spawn_blocking(move || collect(&app, &row, status, outcome).map(|(o, l)| (row, o, l)))
                .await??;
        self.end(&row.id, status, outcome, Some(layout)).await?;
        tracing::info!(task = %row.id, status, "ended");
        // What is left is of no use to anybody.
        if let Err(error) = fs::remove_dir_all(&folder) {
            tracing::warn!(task = %row.id, %error, "remove the folder of a task");
        }
        Ok(())
    }

    async fn end(&self, id: &str, status: &'static str, outcome: Value, layout: Option<Layout>) -> Result<()> {
        let bundle = layout.map(|layout| serde_json::to_string(&layout)).transpose()?;
        let end = End { status, outcome: outcome.to_string(), bundle };
        self.app.db.end_task(id.to_owned(), end, self.app.now()).await?;
        self.app.set_progress(id, None);
        Ok(())
    }
}

/// Writes the folder of a task. Progress that an earlier attempt committed stays.
fn prepare(app: &App, row: &TaskRow, folder: &Path, cpus: usize) -> Result<()> {
    fs::create_dir_all(folder)?;
    let input = folder.join("input");
    let (kind, plan) = match row.kind.as_str() {
        "system" => ("build", build::place_inputs(app, row, &input)?),
        _ => ("simulate", simulate::place_inputs(app, row, &input)?),
    };
    let task = json!({
        "kind": kind,
        "id": row.id,
        "plan": plan,
        "seed": row.seed,
        "platform": app.config.worker.platform,
        "threads": cpus,
        "checkpoint_seconds": app.config.worker.checkpoint_seconds,
    });
    fs::write(folder.join("task.json"), serde_json::to_vec_pretty(&task)?)?;
    // Of an earlier attempt.
    let result = folder.join("result.json");
    if result.exists() {
        fs::remove_file(result)?;
    }
    Ok(())
}

fn cpus_of(folder: &Path) -> Option<usize> {
    let task: Value = serde_json::from_slice(&fs::read(folder.join("task.json")).ok()?).ok()?;
    task["threads"].as_u64().map(|cpus| cpus as usize)
}

/// What a worker says of its progress, in the form of the records; none when it has said nothing.
fn progress(folder: &Path) -> Option<Value> {
    let mut said: Value = serde_json::from_slice(&fs::read(folder.join("progress.json")).ok()?).ok()?;
    let mut record = json!({});
    for member in ["warnings", "stages", "platform"] {
        if let Some(value) = said.as_object_mut()?.remove(member) {
            record[member] = value;
        }
    }
    record["progress"] = said;
    Some(record)
}

fn read_result(folder: &Path) -> Result<Option<Value>> {
    match fs::read(folder.join("result.json")) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text).context("read result.json")?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("read result.json"),
    }
}

fn died(exit: Option<Exit>, folder: &Path) -> Value {
    let how = match exit {
        Some(Exit { signal: Some(signal), .. }) => format!("was killed by signal {signal}"),
        Some(Exit { code: Some(code), .. }) => format!("ended with status {code}"),
        _ => "vanished".to_owned(),
    };
    json!({
        "code": "worker_died",
        "message": format!("the worker {how} each time it was started"),
        "remedy": "its log may say why; memory that runs out is the usual cause",
        "log": last_lines(folder),
    })
}

fn last_lines(folder: &Path) -> Vec<String> {
    let text = fs::read(folder.join("log.txt")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|&line| line.to_owned()).collect()
}

/// Makes what a task wrote into objects and lays out its bundle. Doing it again gives the same.
fn collect(app: &App, row: &TaskRow, status: &str, mut outcome: Value) -> Result<(Value, Layout)> {
    let folder = app.task_folder(&row.id);
    let prefix = format!("tasks/{}", row.id);
    let log = folder.join("log.txt");
    let output = folder.join("output");
    fs::create_dir_all(&output)?;
    if log.exists() {
        fs::rename(&log, output.join("log.txt"))?;
    }
    if !app.objects.exists(&prefix) {
        app.objects.adopt(&output, &prefix)?;
    }
    if row.kind == "system" && status == "succeeded" {
        let solvent = serde_json::from_value::<Vec<String>>(outcome["summary"]["solvent_residues"].take())?;
        outcome["summary"].as_object_mut().context("a summary")?.remove("solvent_residues");
        let built = Built::read(&app.objects, &row.id)?;
        outcome["default_masks"] = serde_json::to_value(DefaultMasks::new(&built, &solvent))?;
    }
    let layout = lay_out(app, row, status, &outcome)?;
    Ok((outcome, layout))
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
        "warnings": outcome["warnings"],
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

fn entries(app: &App, id: &str, folder: &str) -> Result<Vec<Entry>> {
    let keys = app.objects.list(&format!("tasks/{id}"))?;
    let is_for_people = |key: &String| !NOT_IN_BUNDLE.iter().any(|end| key.ends_with(end));
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(keys
        .into_iter()
        .filter(is_for_people)
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
