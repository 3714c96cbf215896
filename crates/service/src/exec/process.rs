//! Tasks as processes of this machine.
//!
//! `molboxd run-task` stands between the service and the command, so that there is somebody to
//! note how it ended while the service is away: the service may stop and start again, and finds
//! in the directory what it missed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::{EXIT, Exit, LOCK, Resources};

/// Exit status of `run-task` when another one is at work in the directory.
pub(crate) const BUSY: u8 = 75;

/// Starts a command in a directory, with its output in `log.txt` there. It goes on when the
/// service ends.
pub(crate) fn launch(folder: &Path, command: &[String], resources: Resources) -> Result<tokio::process::Child> {
    let stale = folder.join(EXIT);
    if stale.exists() {
        fs::remove_file(&stale)?;
    }
    // This very program, also when its file has been replaced by a newer one since.
    Command::new("/proc/self/exe")
        .arg0("molboxd")
        .arg("run-task")
        .arg(format!("--memory-mb={}", resources.memory_mb))
        .arg(folder)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C at the service's terminal is not meant for its tasks.
        .process_group(0)
        .kill_on_drop(false)
        .spawn()
        .with_context(|| format!("start a task in {}", folder.display()))
}

/// `molboxd run-task`: runs the command, passes on what stops it, and notes how it ended.
pub(crate) async fn run_task(folder: &Path, command: &[String], resources: Resources) -> Result<u8> {
    let Some((program, arguments)) = command.split_first() else { bail!("no command to run") };
    // Held until this process ends, however it ends. Its content tells whom to signal.
    let mut lock = OpenOptions::new().create(true).write(true).truncate(false).open(folder.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(BUSY);
    }
    lock.set_len(0)?;
    write!(lock, "{}", std::process::id())?;
    if resources.memory_mb > 0 {
        let bytes = Some(resources.memory_mb << 20);
        let limit = rustix::process::Rlimit { current: bytes, maximum: bytes };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).context("limit the memory")?;
    }
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log.txt"))?;
    let mut stop = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .env("PYTHONUNBUFFERED", "1")
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            writeln!(&log, "cannot start {program}: {error}")?;
            note(folder, Exit { code: Some(127), signal: None })?;
            return Ok(127);
        }
    };
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = stop.recv() => terminate(&child),
            _ = interrupt.recv() => terminate(&child),
        }
    };
    note(folder, Exit { code: status.code(), signal: status.signal() })?;
    Ok(status.code().map_or(1, |code| code as u8))
}

/// Asks the command in a directory to stop, whoever launched it.
pub(crate) fn ask_to_stop(folder: &Path) {
    if let Some(leader) = leader(folder) {
        // It may have ended in the meantime.
        let _ = rustix::process::kill_process(leader, rustix::process::Signal::TERM);
    }
}

/// Kills the command in a directory with all that it has started.
pub(crate) fn kill(folder: &Path) {
    if let Some(leader) = leader(folder) {
        let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    }
}

/// Who holds the lock of a directory. Ask only while it is held: the number is reused after.
fn leader(folder: &Path) -> Option<rustix::process::Pid> {
    let text = fs::read_to_string(folder.join(LOCK)).ok()?;
    rustix::process::Pid::from_raw(text.trim().parse().ok()?)
}

fn terminate(child: &tokio::process::Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended in the meantime.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn note(folder: &Path, exit: Exit) -> Result<()> {
    let partial = folder.join("exit.json.tmp");
    let mut file = File::create(&partial)?;
    serde_json::to_writer(&mut file, &exit)?;
    file.sync_all()?;
    fs::rename(&partial, folder.join(EXIT))?;
    Ok(())
}
