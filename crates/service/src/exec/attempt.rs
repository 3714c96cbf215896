//! One start of a task, and what is known of it from its folder, whoever started it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One start of a task: its directory, and its number among all starts of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Identifier of the task.
    pub(crate) task: String,
    pub(crate) folder: PathBuf,
    pub(crate) number: u32,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// At least one of its processes lives.
    Running,
    /// It ended, and how was noted.
    Exited(Exit),
    /// None of its processes lives, and how it ended was not noted: who would have noted it was
    /// killed too.
    Lost,
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
pub(super) const EXIT: &str = "exit.json";

pub(super) fn lock_of(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

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

impl Attempt {
    /// What its folder tells of it, whoever launched it.
    pub(super) fn status(&self) -> io::Result<Status> {
        if Lock::take(&self.folder)?.is_none() {
            return Ok(Status::Running);
        }
        let noted = match fs::read(self.folder.join(EXIT)) {
            Ok(text) => serde_json::from_slice(&text).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let exit = noted.filter(|exit: &Exit| exit.attempt == self.number);
        Ok(exit.map_or(Status::Lost, Status::Exited))
    }
}

#[cfg(test)]
mod tests {
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
        let attempt =
            |number| Attempt { task: "job_1".to_owned(), folder: folder.path().to_owned(), number };
        let exit = Exit { attempt: 1, code: Some(0), signal: None, memory_ran_out: None };
        fs::write(folder.path().join(EXIT), serde_json::to_vec(&exit).unwrap()).unwrap();
        assert_eq!(attempt(1).status().unwrap(), Status::Exited(exit));
        assert_eq!(attempt(2).status().unwrap(), Status::Lost);
        let lock = Lock::take(folder.path()).unwrap().unwrap();
        assert_eq!(attempt(1).status().unwrap(), Status::Running);
        assert!(Lock::take(folder.path()).unwrap().is_none());
        drop(lock);
        assert_eq!(attempt(1).status().unwrap(), Status::Exited(exit));
    }
}
