//! `molboxd run-task`, which stands between the service and a command, so that there is somebody to
//! note how it ended while the service is away: the service may stop and start again, and finds
//! in the folder what it missed.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::fstat;
use rustix::process::{Pid, Signal, getpgrp, getuid, kill_process, setsid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::attempt::{BEGUN, Begun, EXIT, Exit, Lock, has_no_locks, is_superseded, lock_of};
use super::confine::{Confinement, THIS_PROGRAM};
use super::process::processes;
use crate::files;

/// How long what a command leaves behind may take to die before it is killed again.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(20);

/// How long a process of an earlier attempt that holds the directory may take to end.
const RELEASE: Duration = Duration::from_secs(5);
/// Exit status when the directory is another attempt's.
const SUPERSEDED: u8 = 75;

/// `molboxd run-task`: runs the command, passes on what stops it, and notes how it ended. It is not
/// confined itself: what it writes, the command cannot.
pub(crate) async fn run_task(
    folder: &Path,
    attempt: u32,
    command: &[String],
    confinement: &Confinement,
) -> Result<u8> {
    if is_superseded(folder, attempt)? {
        return Ok(SUPERSEDED);
    }
    let session = session().context("begin a session")?;
    let lock = if is_given_the_lock(folder)? {
        Holding::Given
    } else {
        let Some(taken) = take_lock(folder).await? else { return Ok(SUPERSEDED) };
        note_begin(folder, attempt, matches!(taken, Holding::Taken(_)))?;
        taken
    };
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log.txt"))?;
    let mut stop = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let killed_before = oom_kills();
    let mut child = Command::new(THIS_PROGRAM)
        .arg0("molboxd")
        .args(confinement.arguments(folder, command))
        // All that it starts inherits the lock with it.
        .stdin(lock.stdin()?)
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("confine the command")?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = stop.recv() => terminate(&child),
            _ = interrupt.recv() => terminate(&child),
        }
    };
    let memory_ran_out = killed_before.and_then(|before| Some(oom_kills()? > before));
    // Programs that a killed worker had started would write into the directory of the next attempt.
    loop {
        let mut left = processes()?;
        left.retain(|process| process.group == session && process.pid != session);
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|process| process.signal(Signal::KILL));
        tokio::time::sleep(LEFTOVER_PAUSE).await;
    }
    let exit = Exit { attempt, code: status.code(), signal: status.signal(), memory_ran_out };
    files::write(&folder.join(EXIT), &serde_json::to_vec(&exit)?)?;
    Ok(status.code().map_or(1, |code| code as u8))
}

/// Ctrl-C at the service's terminal is not meant for its tasks; and no task can enter the process
/// group of the service, which is spared when tasks are killed. Who leads a group already, as a
/// job of Slurm, cannot begin a session and needs none.
fn session() -> io::Result<Pid> {
    match setsid() {
        Err(rustix::io::Errno::PERM) => Ok(getpgrp()),
        session => Ok(session?),
    }
}

/// The lock of a directory, as this process has it.
enum Holding {
    /// On standard input, from who started it.
    Given,
    Taken(Lock),
    /// Not at all: the file system has no locks.
    Without,
}

impl Holding {
    fn stdin(&self) -> io::Result<Stdio> {
        Ok(match self {
            Self::Given => Stdio::inherit(),
            Self::Taken(lock) => lock.0.try_clone()?.into(),
            Self::Without => Stdio::null(),
        })
    }
}

fn is_given_the_lock(folder: &Path) -> io::Result<bool> {
    let given = fstat(io::stdin())?;
    match fs::metadata(lock_of(folder)) {
        Ok(lock) => Ok((lock.dev(), lock.ino()) == (given.st_dev, given.st_ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// None while processes of an earlier attempt live.
async fn take_lock(folder: &Path) -> io::Result<Option<Holding>> {
    let start = Instant::now();
    loop {
        match Lock::take(folder) {
            Ok(Some(lock)) => return Ok(Some(Holding::Taken(lock))),
            Ok(None) if start.elapsed() > RELEASE => return Ok(None),
            Ok(None) => tokio::time::sleep(LEFTOVER_PAUSE).await,
            Err(error) if has_no_locks(&error) => return Ok(Some(Holding::Without)),
            Err(error) => return Err(error),
        }
    }
}

fn note_begin(folder: &Path, attempt: u32, is_locked: bool) -> Result<()> {
    let begun = Begun {
        attempt,
        is_locked,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        user: getuid().as_raw(),
        node: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    Ok(files::write(&folder.join(BEGUN), &serde_json::to_vec(&begun)?)?)
}

fn terminate(child: &Child) {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
        // It may have ended in the meantime.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// How often the kernel has killed a process for want of memory: in this process's cgroup, or on
/// the whole machine where there is no such count. None where the kernel gives none.
fn oom_kills() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok();
    let group =
        own.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")));
    let of_group = group
        .and_then(|group| kills_in(&Path::new("/sys/fs/cgroup").join(group).join("memory.events")));
    of_group.or_else(|| kills_in(Path::new("/proc/vmstat")))
}

fn kills_in(path: &Path) -> Option<u64> {
    count_of("oom_kill", &fs::read_to_string(path).ok()?)
}

/// The number after a name in a file of lines `name number`.
fn count_of(name: &str, text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_want_of_memory_are_counted_as_the_kernel_writes_them() {
        let events = "low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\noom_group_kill 0\n";
        assert_eq!(count_of("oom_kill", events), Some(3));
        assert_eq!(count_of("oom_kill", "pgfault 12\noom_kill 7\n"), Some(7));
        assert_eq!(count_of("oom_kill", "oom 4\noom_group_kill 1\n"), None);
    }
}
