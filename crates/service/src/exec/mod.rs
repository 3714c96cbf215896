//! Where tasks run. An executor gets a command and a directory and reports a status; it neither
//! knows what a task computes nor writes the database.

pub(crate) mod process;

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How a command ended: `exit.json` in its directory, written by `molboxd run-task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// Exit status; none when a signal ended the command.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

/// What is known of a command in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Somebody holds its lock.
    Running,
    /// It ended and said how.
    Exited(Exit),
    /// Nobody holds its lock, and it did not say how it ended: it was killed, with all around it.
    Lost,
}

/// What a command may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Most memory, in MiB; 0 for no limit.
    pub(crate) memory_mb: u64,
}

const LOCK: &str = "lock";
const EXIT: &str = "exit.json";

/// The status of the command in a directory, whoever launched it. The lock dies with its holder,
/// so it cannot be mistaken as a process number can.
pub(crate) fn status(folder: &Path) -> io::Result<Status> {
    let lock = OpenOptions::new().create(true).write(true).truncate(false).open(folder.join(LOCK))?;
    let is_held = match lock.try_lock() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => return Err(error),
    };
    if is_held {
        return Ok(Status::Running);
    }
    match fs::read(folder.join(EXIT)) {
        Ok(text) => Ok(Status::Exited(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Status::Lost),
        Err(error) => Err(error),
    }
}
