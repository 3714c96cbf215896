//! Where tasks run. An executor gets a command and a folder and reports a status; it neither
//! knows what a task computes nor writes the database.

pub(crate) mod attempt;
pub(crate) mod capacity;
pub(crate) mod confine;
mod process;
pub(crate) mod run_task;
#[cfg(test)]
mod suite;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use tokio::process::Child;

use attempt::{Attempt, Lock, Status};
use capacity::{Capacity, Share};
use confine::{Confinement, THIS_PROGRAM};

/// How often running tasks are looked at. To look at one takes a lock and reads a file.
const TICK: Duration = Duration::from_millis(200);

/// Runs attempts as processes of this machine.
pub(crate) struct Executor {
    pub(crate) capacity: Capacity,
    /// `molboxd`, which stands between the service and a command.
    program: PathBuf,
    /// Processes that were launched here, by task; waited for so that they do not stay as zombies.
    children: HashMap<String, Child>,
}

/// The right to launch an attempt, while no process of an earlier one lives.
pub(crate) struct Entry(Lock);

/// How a task is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It may save what it has come to.
    Ask,
    Kill,
}

impl Executor {
    pub(crate) fn new(capacity: Capacity) -> Self {
        // This very program, also when its file has been replaced by a newer one since.
        Self { capacity, program: THIS_PROGRAM.into(), children: HashMap::new() }
    }

    /// Enters the folder of an attempt, which is made. None when there were processes of an earlier
    /// one, which have been killed: they must not meet another.
    pub(crate) fn enter(&self, attempt: &Attempt) -> io::Result<Option<Entry>> {
        let lock = Lock::take(&attempt.folder)?;
        if lock.is_none() {
            let n_killed = process::kill(&attempt.folder)?;
            tracing::error!(task = %attempt.task, n_killed, "a queued task had processes");
        }
        Ok(lock.map(Entry))
    }

    /// Starts a command in the folder of an attempt, confined, with its output in `log.txt` there.
    /// It goes on when the service ends.
    pub(crate) fn launch(
        &mut self,
        entry: Entry,
        attempt: &Attempt,
        share: Share,
        command: &[String],
        confinement: &Confinement,
    ) -> Result<()> {
        let child = process::launch(&self.program, entry.0, attempt, command, confinement)?;
        self.children.insert(attempt.task.clone(), child);
        self.capacity.take(&attempt.task, share);
        Ok(())
    }

    /// Counts what a task has of the machine that an earlier executor launched.
    pub(crate) fn adopt(&mut self, task: &str, share: Share) {
        self.capacity.take(task, share);
    }

    /// What became of each attempt.
    pub(crate) fn statuses(&mut self, attempts: &[Attempt]) -> Vec<io::Result<Status>> {
        attempts.iter().map(|attempt| self.status(attempt)).collect()
    }

    fn status(&mut self, attempt: &Attempt) -> io::Result<Status> {
        let child = self.children.get_mut(&attempt.task);
        if child.is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return Ok(Status::Running);
        }
        attempt.status()
    }

    /// Stops an attempt, whoever launched it. What is killed may be about to start another process,
    /// so this is done again as long as it runs.
    pub(crate) fn stop(&self, attempt: &Attempt, how: Stop) -> io::Result<()> {
        match how {
            Stop::Ask => process::ask_to_stop(&attempt.folder),
            Stop::Kill => process::kill(&attempt.folder).map(drop),
        }
    }

    /// Forgets an attempt that has ended: what it had of the machine is free.
    pub(crate) fn forget(&mut self, task: &str) {
        self.children.remove(task);
        self.capacity.give_back(task);
    }

    /// How often to ask for statuses.
    pub(crate) fn tick(&self) -> Duration {
        TICK
    }
}
