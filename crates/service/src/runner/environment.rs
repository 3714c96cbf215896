//! Whether workers can carry out tasks at all: interpreter, packages, sandbox, platform, GPU.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::getuid;
use serde_json::Value;
use tokio::process::Command;

use crate::app::installation;
use crate::config::{Config, Engine};
use crate::exec::attempt::{self, Attempt};
use crate::exec::capacity::Share;
use crate::exec::confine::{Confinement, NOT_FOUND, SANDBOX, THIS_PROGRAM, UNAVAILABLE, WORK};
use crate::exec::{Executors, Stop};
use crate::record::{Lane, Status};
use crate::runner::failure::Fault;
use crate::runner::left::{self, LOG};
use crate::runner::log::last_lines;
use crate::worker::{Plan, TaskFile};

/// How long a check may take, in s; on an idle machine it takes one.
const CHECK_SECONDS: u32 = 120;
/// On how many nodes a check is tried of which none begins it.
const NODES: u32 = 3;
/// How often a check that runs on a node is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The folder of those of checks, each with the number of its process and a count for its name.
const CHECKS: &str = "check";
/// How the names of those on a cluster begin.
pub(super) const CHECK: &str = "check_";
/// Code of everything that is wrong and has no code of its own.
pub(crate) const BROKEN: &str = "environment_broken";

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) code: String,
    /// For the operator; it may name paths.
    pub(crate) cause: String,
}

/// The command of a worker. It is isolated: it takes modules from its environment alone, not from
/// the present folder nor from where a variable points. It writes no bytecode, and its log at once.
pub(crate) fn worker(python: &str, folder: &str) -> Vec<String> {
    [python, "-I", "-B", "-u", "-m", "molbox_worker", folder].map(str::to_owned).to_vec()
}

/// Removes what checks of processes that are gone have left. A `molboxd doctor` may be at work while
/// the service starts.
pub(crate) fn clear_left(data: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(data.join(CHECKS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
        // One of our number is of an earlier service: in a container all have the same.
        let is_at_work = process.is_some_and(|process| {
            process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
        });
        if !is_at_work {
            left::discard(&entry.path())?;
        }
    }
    Ok(())
}

/// Has a worker carry out the task that every environment can, where and as the others are; returns
/// what there is, `sandbox` among it: the line of its log that has how it was confined. On a cluster
/// it waits for a place for as long as others do, or for `patience` at most.
pub(crate) async fn check(
    config: &Config,
    gpu: Option<u32>,
    patience: Option<Duration>,
) -> Result<Value, Broken> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = Folder(config.tasks_root().join(CHECKS).join(&name));
    let python = config.worker.python.display();
    let wrong = |cause: String| Broken { code: BROKEN.to_owned(), cause };
    let written = write_task(config, gpu, &folder.0);
    let (confinement, log) =
        written.map_err(|error| wrong(format!("write {}: {error}", folder.0.display())))?;
    let command = worker(&python.to_string(), &folder.0.display().to_string());
    let found = match config.tasks.executor {
        Engine::Process => {
            let status = run_here(&folder.0, &command, &confinement, log).await.map_err(wrong)?;
            result(&folder.0, status, config.worker.memory_mb)
        }
        Engine::Slurm => {
            let end = run_on_cluster(config, &name, &folder.0, &command, &confinement, patience);
            let end = end.await?;
            result(&folder.0, end.status, config.worker.memory_mb).map(|mut found| {
                found["node"] = end.node.into();
                found["broken_nodes"] = end.broken_nodes.into();
                found["seen_after_seconds"] = end.seen_after.as_secs_f64().into();
                found
            })
        }
    };
    found.map_err(|broken| Broken { cause: format!("{python}: {}", broken.cause), ..broken })
}

/// As a process of this machine; how it ended.
async fn run_here(
    folder: &Path,
    command: &[String],
    confinement: &Confinement,
    log: File,
) -> Result<ExitStatus, String> {
    let python = &command[0];
    let mut confined = Command::new(THIS_PROGRAM);
    confined.arg0("molboxd").args(confinement.arguments(folder, command));
    // A worker reports on its standard output, an interpreter that does not come to that on the
    // other.
    let output = log.try_clone().map_err(|error| format!("share its log: {error}"))?;
    confined.stdin(Stdio::null()).stdout(output).stderr(log);
    let started = confined.kill_on_drop(true).spawn();
    let mut child = started.map_err(|error| format!("confine {python}: {error}"))?;
    let timeout = Duration::from_secs(CHECK_SECONDS.into());
    match tokio::time::timeout(timeout, child.wait()).await {
        Ok(status) => status.map_err(|error| format!("wait for {python}: {error}")),
        Err(_) => Err(format!("{python} has not answered for {CHECK_SECONDS} s")),
    }
}

/// How a check ended on a node.
struct End {
    status: ExitStatus,
    node: String,
    /// Those on which it did not begin.
    broken_nodes: Vec<String>,
    /// After which time that was seen here.
    seen_after: Duration,
}

/// As a task is run there, by `run-task`; it may wait for a place for that long, or for as long as
/// others do.
async fn run_on_cluster(
    config: &Config,
    name: &str,
    folder: &Path,
    command: &[String],
    confinement: &Confinement,
    patience: Option<Duration>,
) -> Result<End, Broken> {
    let wrong = |cause: String| Broken { code: BROKEN.to_owned(), cause };
    let refused = |error: anyhow::Error| Broken {
        code: "slurm_unavailable".to_owned(),
        cause: format!("{error:#}"),
    };
    let installation = installation(&config.data).map_err(refused)?;
    let mut executors = Executors::new(config, &installation);
    let (task, folder) = (format!("{CHECK}{name}"), folder.to_owned());
    let attempt = Attempt { task, folder, number: 1, lane: Lane::Workers };
    let share = Share { lane: Lane::Workers, cpus: config.tasks.slurm.cpus, gpu: None, user: None };
    let launch = async |executors: &mut Executors, attempt: &Attempt| {
        let entry = executors.enter(attempt).await.map_err(refused)?;
        let entry = entry.ok_or_else(|| wrong("another check has its folder".to_owned()))?;
        executors.launch(entry, attempt, share, command, confinement).await.map_err(refused)
    };
    launch(&mut executors, &attempt).await?;
    let (mut submitted, mut since, mut n_tried) = (Instant::now(), Instant::now(), 1);
    let exit = loop {
        let (mut pause, mut gives_up) = (LOOK, None);
        executors.hurry();
        let looked = executors.statuses(vec![attempt.clone()]).await.pop();
        match looked.map(|(_, status)| status) {
            Some(Ok(attempt::Status::Exited(exit))) => break exit,
            Some(Ok(attempt::Status::Lost)) => {
                // Its node may be the only one that is broken.
                if executors.avoided().len() != n_tried as usize || n_tried == NODES {
                    return Err(wrong(unseen(config)));
                }
                n_tried += 1;
                // Its number stays that of the task's file.
                attempt.withdraw().map_err(|error| wrong(format!("try it again: {error}")))?;
                executors.forget(&attempt.task);
                // Where there is no other, that is what is wrong.
                launch(&mut executors, &attempt).await.map_err(|_| wrong(unseen(config)))?;
                (submitted, since) = (Instant::now(), Instant::now());
            }
            Some(Ok(attempt::Status::Waiting(reason))) => {
                since = Instant::now();
                // It may take hours.
                pause = Duration::from_secs_f64(config.tasks.slurm.poll_seconds).max(LOOK);
                if let Some(patience) = patience {
                    let left = patience.saturating_sub(submitted.elapsed());
                    pause = pause.min(left);
                    gives_up = left.is_zero().then(|| {
                        format!(
                            "Slurm takes jobs, and one had no place for {} s: {reason}",
                            patience.as_secs()
                        )
                    });
                }
            }
            Some(Err(error)) => return Err(wrong(format!("look at the check: {error}"))),
            Some(Ok(attempt::Status::Running | attempt::Status::Unknown)) | None => {}
        }
        if since.elapsed() > Duration::from_secs(CHECK_SECONDS.into()) {
            gives_up = Some(format!("a job has not ended for {CHECK_SECONDS} s"));
        }
        if let Some(why) = gives_up {
            if let Err(error) = executors.stop(&attempt, Stop::Kill).await {
                tracing::warn!(%error, "end the job of a check");
            }
            return Err(wrong(why));
        }
        tokio::time::sleep(pause).await;
    };
    let seen_after = age(&attempt.folder).unwrap_or_default();
    let begun = attempt.begun().ok().flatten().ok_or_else(|| wrong(unseen(config)))?;
    let (version, user) = (env!("CARGO_PKG_VERSION"), getuid().as_raw());
    if begun.version != version || begun.user != user {
        return Err(wrong(format!(
            "node {} has molboxd {} and runs jobs as user {}, this server has {version} and user \
             {user}: set tasks.slurm.molboxd",
            begun.node, begun.version, begun.user
        )));
    }
    let raw = exit.signal.unwrap_or_else(|| exit.code.unwrap_or(1) << 8);
    let (status, broken_nodes) = (ExitStatus::from_raw(raw), executors.avoided());
    Ok(End { status, node: begun.node, broken_nodes, seen_after })
}

/// Why a job may have ended without a word.
fn unseen(config: &Config) -> String {
    let slurm = &config.tasks.slurm;
    format!(
        "a job has ended, and nothing of it is seen here: the nodes need the folder {} (tasks.folder) \
         and the program {} (tasks.slurm.molboxd) at these paths; if they have them, set \
         tasks.slurm.settle_seconds, now {}, higher",
        config.tasks_root().display(),
        if slurm.molboxd.as_os_str().is_empty() {
            "molboxd".into()
        } else {
            slurm.molboxd.display().to_string()
        },
        slurm.settle_seconds,
    )
}

/// How old the end of an attempt is, by the clock of the file system.
fn age(folder: &Path) -> io::Result<Duration> {
    let probe = folder.join("probe");
    fs::write(&probe, "now")?;
    let now = fs::metadata(&probe)?.modified()?;
    let ended = fs::metadata(folder.join("exit.json"))?.modified()?;
    Ok(now.duration_since(ended).unwrap_or_default())
}

fn result(folder: &Path, status: ExitStatus, memory_mb: u64) -> Result<Value, Broken> {
    let log = left::open_below(folder, &[LOG])
        .ok()
        .flatten()
        .and_then(|log| last_lines(log).ok())
        .unwrap_or_default();
    let reported =
        |start: &str| log.iter().rev().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
    let result = left::read_json(folder, &["result.json"]).ok().flatten();
    let Some(mut result) = result else {
        let last = log.last().cloned().unwrap_or_default();
        if status.code() == Some(i32::from(UNAVAILABLE)) {
            return Err(Broken { code: "sandbox_unavailable".to_owned(), cause: last });
        }
        if status.code() == Some(i32::from(NOT_FOUND)) {
            return Err(Broken { code: BROKEN.to_owned(), cause: last });
        }
        let memory = match memory_mb {
            0 => String::new(),
            mb => format!(", or set worker.memory_mb, now {mb}, higher"),
        };
        let cause = format!(
            "{status}: {last}; install worker/requirements.txt and ./worker into it{memory}"
        );
        return Err(Broken { code: BROKEN.to_owned(), cause });
    };
    result["sandbox"] = reported(SANDBOX).into();
    if result["status"] == Status::Succeeded.name() {
        return Ok(result);
    }
    let text = |member: &str| result["error"][member].as_str().unwrap_or_default().to_owned();
    let is_known = matches!(Fault::of(&text("code")), Fault::Machine | Fault::Operator);
    Err(Broken {
        code: if is_known { text("code") } else { BROKEN.to_owned() },
        cause: text("message"),
    })
}

fn write_task(config: &Config, gpu: Option<u32>, folder: &Path) -> io::Result<(Confinement, File)> {
    fs::create_dir_all(folder.join(WORK))?;
    // After those of tasks.
    let users = config.slots() + config.worker.analyses;
    let first = Some(config.worker.user).filter(|user| *user > 0);
    let user = first.and_then(|first| first.checked_add(u32::try_from(users).ok()?));
    let confinement = Confinement::new(config, folder.join("cache"), user)?;
    let share = Share { lane: Lane::Workers, cpus: 1, gpu, user };
    let plan = Plan::Environment { seconds: CHECK_SECONDS };
    let task = TaskFile::new("environment", plan, 1, share, &confinement, config);
    fs::write(folder.join("task.json"), serde_json::to_vec(&task)?)?;
    Ok((confinement, File::create(folder.join("log.txt"))?))
}

/// The folder of a check, which goes with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What a check leaves is cleared when the service starts.
        let _ = left::remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::parent_id;

    use super::*;

    #[test]
    fn what_a_check_at_work_has_stays() {
        let data = tempfile::tempdir().unwrap();
        clear_left(data.path()).unwrap();
        let folder = |process: u32| data.path().join(CHECKS).join(format!("{process}-0"));
        // No process has a number as large as the last.
        let [ours, other, gone] = [std::process::id(), parent_id(), 1 << 30].map(folder);
        for folder in [&ours, &other, &gone] {
            fs::create_dir_all(folder.join(WORK)).unwrap();
        }
        clear_left(data.path()).unwrap();
        assert_eq!([ours, other, gone].map(|folder| folder.exists()), [false, true, false]);
    }
}
