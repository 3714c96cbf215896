//! Where tasks run. An executor gets a command and a directory and reports a status; it neither
//! knows what a task computes nor writes the database.

pub(crate) mod process;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One start of a task: its directory, and its number among all starts of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
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
}

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

/// Identifier of the machine's present run, from its start to its end; none where the kernel gives none.
pub(crate) fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// What a command may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Most memory, in MiB; 0 for no limit.
    pub(crate) memory_mb: u64,
}

/// The right to work in a task's directory.
///
/// It is a lock that belongs to an open file, not to a process. Every process of the task inherits
/// that file as its standard input, so the directory is locked until the last one of them has ended,
/// whichever of them is killed first. A process number could be another's by then; a lock cannot.
#[derive(Debug)]
pub(crate) struct Lock(File);

const LOCK: &str = "lock";
const EXIT: &str = "exit.json";

fn lock_of(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

impl Lock {
    /// Locks a directory, which is made; none while a process of an earlier attempt lives.
    pub(crate) fn take(folder: &Path) -> io::Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        // NFS locks only what may be written.
        let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(lock_of(folder))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The status of an attempt, whoever launched it.
pub(crate) fn status(attempt: &Attempt) -> io::Result<Status> {
    if Lock::take(&attempt.folder)?.is_none() {
        return Ok(Status::Running);
    }
    let noted = match fs::read(attempt.folder.join(EXIT)) {
        Ok(text) => serde_json::from_slice(&text).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let exit = noted.filter(|exit: &Exit| exit.attempt == attempt.number);
    Ok(exit.map_or(Status::Lost, Status::Exited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_of_an_earlier_attempt_ends_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = |number| Attempt { folder: folder.path().to_owned(), number };
        let exit = Exit { attempt: 1, code: Some(0), signal: None };
        fs::write(folder.path().join(EXIT), serde_json::to_vec(&exit).unwrap()).unwrap();
        assert_eq!(status(&attempt(1)).unwrap(), Status::Exited(exit));
        assert_eq!(status(&attempt(2)).unwrap(), Status::Lost);
        let lock = Lock::take(folder.path()).unwrap().unwrap();
        assert_eq!(status(&attempt(1)).unwrap(), Status::Running);
        assert!(Lock::take(folder.path()).unwrap().is_none());
        drop(lock);
        assert_eq!(status(&attempt(1)).unwrap(), Status::Exited(exit));
    }
}
