//! Tasks as processes of this machine: to start, find and signal them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgrp, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal,
};
use tokio::process::{Child, Command};

use super::attempt::{Attempt, Entry, Lock, Status, Stop, lock_of};
use super::confine::{Confinement, THIS_PROGRAM};

/// How often running tasks are looked at. To look at one takes a lock and reads a file.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// Runs attempts as processes of this machine.
pub(crate) struct Processes {
    /// `molboxd`, which stands between the service and a command.
    pub(super) program: PathBuf,
    /// Processes that were launched here, by task; waited for so that they do not stay as zombies.
    children: HashMap<String, Child>,
}

impl Processes {
    pub(super) fn new() -> Self {
        // This very program, also when its file has been replaced by a newer one since.
        Self { program: THIS_PROGRAM.into(), children: HashMap::new() }
    }

    /// None when there were processes of an earlier attempt, which have been killed.
    pub(super) fn enter(&self, attempt: &Attempt) -> io::Result<Option<Entry>> {
        let lock = Lock::take(&attempt.folder)?;
        if lock.is_none() {
            let n_killed = kill(&attempt.folder)?;
            tracing::error!(task = %attempt.task, n_killed, "a queued task had processes");
        }
        Ok(lock.map(Entry::Lock))
    }

    pub(super) fn launch(
        &mut self,
        lock: Lock,
        attempt: &Attempt,
        command: &[String],
        confinement: &Confinement,
    ) -> Result<()> {
        let child = launch(&self.program, lock, attempt, command, confinement)?;
        self.children.insert(attempt.task.clone(), child);
        Ok(())
    }

    pub(super) fn status(&mut self, attempt: &Attempt) -> io::Result<Status> {
        let child = self.children.get_mut(&attempt.task);
        if child.is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return Ok(Status::Running);
        }
        attempt.status()
    }

    pub(super) fn stop(&self, attempt: &Attempt, how: Stop) -> io::Result<()> {
        match how {
            Stop::Ask => ask_to_stop(&attempt.folder),
            Stop::Kill => kill(&attempt.folder).map(drop),
        }
    }

    pub(super) fn forget(&mut self, task: &str) {
        self.children.remove(task);
    }
}

/// Starts a command in the directory of an attempt, confined, with its output in `log.txt` there.
/// It goes on when the service ends.
fn launch(
    program: &Path,
    lock: Lock,
    attempt: &Attempt,
    command: &[String],
    confinement: &Confinement,
) -> Result<Child> {
    Command::new(program)
        .arg0("molboxd")
        .arg("run-task")
        .arg(format!("--attempt={}", attempt.number))
        .arg(format!("--confinement={}", serde_json::to_string(confinement)?))
        .arg(&attempt.folder)
        .arg("--")
        .args(command)
        // All that it starts inherits the lock with it.
        .stdin(Stdio::from(lock.0))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(false)
        .spawn()
        .with_context(|| format!("start a task in {}", attempt.folder.display()))
}

/// Asks the task in a directory to stop, whoever launched it: `run-task`, which passes it on, or
/// the command itself when `run-task` is gone.
fn ask_to_stop(folder: &Path) -> io::Result<()> {
    let all = processes()?;
    let holders = holders(folder, &all)?;
    let pids: HashSet<Pid> = holders.iter().map(|process| process.pid).collect();
    for process in
        holders.iter().filter(|process| process.parent.is_none_or(|parent| !pids.contains(&parent)))
    {
        process.signal(Signal::TERM);
    }
    Ok(())
}

/// Kills the task in a directory with all that it has started; the number of processes that were
/// found. Who asks again finds those that were about to be started while the directory is locked.
pub(super) fn kill(folder: &Path) -> io::Result<usize> {
    let all = processes()?;
    let groups: HashSet<Pid> = holders(folder, &all)?.iter().map(|process| process.group).collect();
    let mut members: Vec<&Process> =
        all.iter().filter(|process| groups.contains(&process.group)).collect();
    // `run-task` first, or it would note that the command has ended by itself.
    let pids: HashSet<Pid> = members.iter().map(|process| process.pid).collect();
    members.sort_by_key(|process| process.parent.is_some_and(|parent| pids.contains(&parent)));
    members.iter().for_each(|process| process.signal(Signal::KILL));
    // What they have started meanwhile may not hold the lock. None can leave its group, and none
    // starts another while that is killed.
    for group in groups {
        match kill_process_group(group, Signal::KILL) {
            // Nobody is left of it.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(members.len())
}

/// A process of this machine, alive when it was looked at.
pub(super) struct Process {
    pub(super) pid: Pid,
    /// Refers to this process, also when its number is another's by now. None before Linux 5.3.
    handle: Option<OwnedFd>,
    parent: Option<Pid>,
    pub(super) group: Pid,
}

/// All processes. One that has ended meanwhile, or is not ours to look at, is nobody that we look
/// for.
pub(super) fn processes() -> io::Result<Vec<Process>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| number(&entry)).filter_map(Process::look).collect())
}

fn number(entry: &fs::DirEntry) -> Option<Pid> {
    process_number(entry.file_name().to_str()?)
}

/// One that is just ending has 0 for its parent, or -1 for its group.
fn process_number(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw)
}

/// The processes that hold the lock of a directory, but for the caller's own process group: the
/// service has the lock itself for a moment when it launches a task.
///
/// What the kernel knows about the lock is asked rather than a number in a file, which could be
/// out of date or somebody's forgery.
fn holders<'a>(folder: &Path, all: &'a [Process]) -> io::Result<Vec<&'a Process>> {
    let lock = match fs::metadata(lock_of(folder)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let own = getpgrp();
    Ok(all.iter().filter(|process| process.group != own && process.holds(&lock)).collect())
}

impl Process {
    fn look(pid: Pid) -> Option<Self> {
        // First, so that all that is found out below is about this process or about none.
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::NOSYS) => None,
            Err(_) => return None,
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it may hold anything, parentheses too.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        if fields.next()? == "Z" {
            // Dead; it only waits for its parent to notice.
            return None;
        }
        let parent = process_number(fields.next()?);
        let group = process_number(fields.next()?)?;
        Some(Self { pid, handle, parent, group })
    }

    /// Whether it has the file open that the lock belongs to, rather than the same file for some
    /// other reason, as who copies the folder has.
    fn holds(&self, lock: &fs::Metadata) -> bool {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|file| {
            let is_it = fs::metadata(&file)
                .is_ok_and(|it| (it.dev(), it.ino()) == (lock.dev(), lock.ino()));
            let number = file.file_name().unwrap_or_default().display().to_string();
            is_it
                && fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.pid))
                    .is_ok_and(|text| text.lines().any(|line| line.starts_with("lock:")))
        })
    }

    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended in the meantime.
        let _ = match &self.handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(self.pid, signal),
        };
    }
}
