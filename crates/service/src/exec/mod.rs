//! Where tasks run. An executor gets a command and a directory and reports a status; it neither
//! knows what a task computes nor writes the database.

pub(crate) mod confine;
pub(crate) mod process;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
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
    /// Whether the kernel killed something for want of memory meanwhile; none where it does not report that.
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

/// How often the kernel has killed a process for want of memory: in this process's cgroup, or on the whole
/// machine where there is no such count. None where the kernel gives none.
pub(crate) fn oom_kills() -> Option<u64> {
    let count = |path: &Path| count_of("oom_kill", &fs::read_to_string(path).ok()?);
    let own = fs::read_to_string("/proc/self/cgroup").ok();
    let group = own.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")));
    let of_group = group.and_then(|group| count(&Path::new("/sys/fs/cgroup").join(group).join("memory.events")));
    of_group.or_else(|| count(Path::new("/proc/vmstat")))
}

/// The number after a name in a file of lines `name number`.
fn count_of(name: &str, text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
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
    fn only_a_kill_while_memory_ran_out_is_for_want_of_memory() {
        let exit = |signal, memory_ran_out| Exit { attempt: 1, code: None, signal, memory_ran_out };
        assert!(exit(Some(9), Some(true)).is_out_of_memory());
        for other in
            [exit(Some(9), Some(false)), exit(Some(9), None), exit(Some(11), Some(true)), exit(None, Some(true))]
        {
            assert!(!other.is_out_of_memory(), "{other:?}");
        }
        // Of a service that noted less.
        let earlier: Exit = serde_json::from_str(r#"{"attempt": 1, "code": null, "signal": 9}"#).unwrap();
        assert!(!earlier.is_out_of_memory());
    }

    #[test]
    fn kills_for_want_of_memory_are_counted_as_the_kernel_writes_them() {
        let events = "low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\noom_group_kill 0\n";
        assert_eq!(count_of("oom_kill", events), Some(3));
        assert_eq!(count_of("oom_kill", "pgfault 12\noom_kill 7\n"), Some(7));
        assert_eq!(count_of("oom_kill", "oom 4\noom_group_kill 1\n"), None);
    }

    #[test]
    fn the_exit_of_an_earlier_attempt_ends_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = |number| Attempt { folder: folder.path().to_owned(), number };
        let exit = Exit { attempt: 1, code: Some(0), signal: None, memory_ran_out: None };
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
