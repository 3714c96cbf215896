//! One start of a task, and what is known of it from its folder, whoever started it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::record::Lane;

/// One start of a task: its directory, and its number among all starts of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Identifier of the task.
    pub(crate) task: String,
    pub(crate) folder: PathBuf,
    pub(crate) number: u32,
    /// Where it runs depends on it.
    pub(crate) lane: Lane,
}

/// How a command ended: `exit.json` in its directory, written by `molboxd run-task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// Number of the attempt that ended: what an earlier one writes late is ignored.
    pub(crate) attempt: u32,
    /// Exit status; none when a signal ended the command.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Whether the kernel killed something for want of memory meanwhile; none where it does not
    /// report that.
    #[serde(default)]
    pub(crate) memory_ran_out: Option<bool>,
}

impl Exit {
    /// Whether the kernel killed the command for want of memory, if nobody of ours did.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.signal == Some(KILLED) && self.memory_ran_out == Some(true)
    }
}

/// SIGKILL.
const KILLED: i32 = 9;

/// What is known of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It waits until there is a place for it, or until it may go on there, for this reason.
    Waiting(String),
    /// At least one of its processes lives.
    Running,
    /// It ended, and how was noted.
    Exited(Exit),
    /// None of its processes lives, and how it ended was not noted: who would have noted it was
    /// killed too.
    Lost,
    /// Who runs it does not answer: nothing is known of it, and nothing may be concluded.
    Unknown,
}

/// That an attempt has begun on a node: `begun.json` in its directory, written by `run-task` where
/// the service does not start it itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) attempt: u32,
    /// Whether the lock of the directory is held there: not every shared file system has locks.
    pub(crate) is_locked: bool,
    pub(crate) version: String,
    /// Number of the user.
    pub(crate) user: u32,
    pub(crate) node: String,
}

/// Identifier of the machine's present run, from its start to its end; none where the kernel gives
/// none.
pub(crate) fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// The right to work in a task's directory.
///
/// It is a lock that belongs to an open file, not to a process. Every process of the task inherits
/// that file as its standard input, so the directory is locked until the last one of them has
/// ended, whichever of them is killed first. A process number could be another's by then; a lock
/// cannot.
#[derive(Debug)]
pub(crate) struct Lock(pub(super) File);

const LOCK: &str = "lock";
pub(crate) const EXIT: &str = "exit.json";
pub(super) const BEGUN: &str = "begun.json";
/// The number of the attempt that a directory belongs to: whoever is of an earlier one gives up.
pub(super) const FENCE: &str = "attempt";

pub(super) fn lock_of(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

/// The right to launch an attempt, while no process of an earlier one lives.
pub(crate) enum Entry {
    /// Whoever has it is the only one in the folder.
    Lock(Lock),
    Open,
    /// It has been launched already.
    Submitted,
}

/// How a task is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It may save what it has come to.
    Ask,
    Kill,
}

/// Who runs attempts has not taken this one, and will not take another until that has passed.
#[derive(Debug)]
pub(crate) struct NotTaken(pub(super) String);

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotTaken {}

impl Lock {
    /// Locks a directory, which is made; none while a process of an earlier attempt lives.
    pub(crate) fn take(folder: &Path) -> io::Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        // NFS locks only what may be written.
        let mut options = OpenOptions::new();
        options.create(true).read(true).write(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(lock_of(folder))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Whether a file system said that it has no locks.
pub(super) fn has_no_locks(error: &io::Error) -> bool {
    let codes = [libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP, libc::EIO];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

impl Attempt {
    /// What its folder tells of it, whoever launched it.
    pub(super) fn status(&self) -> io::Result<Status> {
        if Lock::take(&self.folder)?.is_none() {
            return Ok(Status::Running);
        }
        Ok(self.exit()?.map_or(Status::Lost, Status::Exited))
    }

    /// How it ended, if that was noted.
    pub(super) fn exit(&self) -> io::Result<Option<Exit>> {
        let exit = read_json::<Exit>(&self.folder.join(EXIT))?;
        Ok(exit.filter(|exit| exit.attempt == self.number))
    }

    /// Where it has begun, if that was noted.
    pub(crate) fn begun(&self) -> io::Result<Option<Begun>> {
        let begun = read_json::<Begun>(&self.folder.join(BEGUN))?;
        Ok(begun.filter(|begun| begun.attempt == self.number))
    }

    /// How long ago it began, or was entered where the service starts it itself; nothing of one of which
    /// that is not known.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        let files = [BEGUN, FENCE].map(|name| self.folder.join(name));
        let began = files.iter().find_map(|file| fs::metadata(file).ok()?.modified().ok());
        let age = began.and_then(|began| SystemTime::from(now).duration_since(began).ok());
        age.unwrap_or_default()
    }

    /// Takes the directory from all earlier attempts, wherever they may still run.
    pub(super) fn fence(&self) -> io::Result<()> {
        self.remove(&[EXIT, BEGUN])?;
        files::write(&self.folder.join(FENCE), self.number.to_string().as_bytes())
    }

    /// Makes the attempt one that has not been: another will have its number.
    pub(crate) fn withdraw(&self) -> io::Result<()> {
        self.remove(&[FENCE, EXIT, BEGUN])
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        for name in names {
            match fs::remove_file(self.folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the directory was last taken for this attempt.
    pub(super) fn is_fenced(&self) -> io::Result<bool> {
        Ok(fenced(&self.folder)? == Some(self.number))
    }
}

/// Whether a directory belongs to a later attempt.
pub(super) fn is_superseded(folder: &Path, attempt: u32) -> io::Result<bool> {
    Ok(fenced(folder)?.is_some_and(|number| number > attempt))
}

/// The attempt that a directory belongs to. It is opened, not looked for: on NFS what is opened is as
/// it is, while entries of a folder may be old.
fn fenced(folder: &Path) -> io::Result<Option<u32>> {
    match fs::read_to_string(folder.join(FENCE)) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A small file of ours; none when it is not there, or not whole because a machine stopped.
fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn only_a_kill_while_memory_ran_out_is_for_want_of_memory() {
        let exit = |signal, memory_ran_out| Exit { attempt: 1, code: None, signal, memory_ran_out };
        assert!(exit(Some(9), Some(true)).is_out_of_memory());
        for other in [
            exit(Some(9), Some(false)),
            exit(Some(9), None),
            exit(Some(11), Some(true)),
            exit(None, Some(true)),
        ] {
            assert!(!other.is_out_of_memory(), "{other:?}");
        }
        // Of a service that noted less.
        let earlier: Exit =
            serde_json::from_str(r#"{"attempt": 1, "code": null, "signal": 9}"#).unwrap();
        assert!(!earlier.is_out_of_memory());
    }

    #[test]
    fn the_exit_of_an_earlier_attempt_ends_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = |number| Attempt {
            task: "job_1".to_owned(),
            folder: folder.path().to_owned(),
            number,
            lane: Lane::Workers,
        };
        let exit = Exit { attempt: 1, code: Some(0), signal: None, memory_ran_out: None };
        fs::write(folder.path().join(EXIT), serde_json::to_vec(&exit).unwrap()).unwrap();
        // A process that another test starts holds what was locked until it has become another program.
        let end = |attempt: Attempt| loop {
            match attempt.status().unwrap() {
                Status::Running => thread::yield_now(),
                end => return end,
            }
        };
        assert_eq!(end(attempt(1)), Status::Exited(exit));
        assert_eq!(end(attempt(2)), Status::Lost);
        let lock = loop {
            if let Some(lock) = Lock::take(folder.path()).unwrap() {
                break lock;
            }
        };
        assert_eq!(attempt(1).status().unwrap(), Status::Running);
        assert!(Lock::take(folder.path()).unwrap().is_none());
        drop(lock);
        assert_eq!(end(attempt(1)), Status::Exited(exit));
    }

    #[test]
    fn a_directory_belongs_to_the_latest_attempt_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_superseded(folder.path(), 1).unwrap(), "of a service that noted nothing");
        let attempt = Attempt {
            task: "job_1".to_owned(),
            folder: folder.path().to_owned(),
            number: 10,
            lane: Lane::Workers,
        };
        attempt.fence().unwrap();
        let superseded = [9, 10, 11].map(|n| is_superseded(folder.path(), n).unwrap());
        assert_eq!(superseded, [true, false, false]);
    }
}
