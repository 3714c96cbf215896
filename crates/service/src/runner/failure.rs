//! Why tasks fail, and whose fault it is.

use std::fmt;

use molbox::workflow::types::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::config::Worker;
use crate::exec::attempt::Exit;
use crate::record::Kind;

/// Exit status of a worker that was asked to stop.
pub(crate) const STOPPED: i32 = 3;

/// Whose fault a failure is. A task ends as failed through the first three; the others have nothing
/// to do with it, and it waits until they have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fault {
    /// What was asked for cannot be.
    Request,
    /// A file that was given.
    Input,
    /// This program, or what it is made of.
    Engine,
    /// Disk, memory or GPU of the machine.
    Machine,
    /// How the service is set up.
    Operator,
}

/// Whose fault each failure is, of the service and of the worker, by its code.
const FAULTS: &[(&str, Fault)] = include!("faults.in.rs");

impl Fault {
    /// Whose fault a failure with this code is; a code that the table lacks is a defect of ours.
    pub(crate) fn of(code: &str) -> Self {
        let found = FAULTS.iter().find(|(known, _)| *known == code);
        found.map_or(Self::Engine, |(_, fault)| *fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A failure that the service reports, in the form of the records.
pub(crate) fn failure(code: &str, message: impl Into<String>, remedy: &str) -> Failure {
    Failure {
        code: code.to_owned(),
        message: message.into(),
        fault: Some(Fault::of(code).to_string()),
        remedy: Some(remedy.to_owned()),
        loc: Vec::new(),
        log: Vec::new(),
        residues: Vec::new(),
        stage: None,
        step: None,
        extra: Map::new(),
    }
}

/// Why the runner stopped a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Cancelled,
    /// It gave no sign of life.
    Silent,
    WallLimit,
}

/// Why a task that left no result has failed.
pub(crate) fn failure_of(worker: &Worker, why: Option<Why>, exit: Option<Exit>) -> Failure {
    match why {
        Some(Why::WallLimit) => failure(
            "wall_limit",
            format!("it took longer than the {} s that a task may take", worker.wall_seconds),
            "ask for less time or fewer atoms, or ask the operator for a longer limit",
        ),
        Some(Why::Silent) => failure(
            "worker_hung",
            format!(
                "the worker gave no sign of life for {} s each time it was started",
                worker.heartbeat_timeout_seconds
            ),
            "tell the operator of the service; the machine may be overloaded or its GPU stuck",
        ),
        // One that nobody of ours has asked to stop: the cluster did, before the end of its time.
        None if exit.is_some_and(|exit| exit.code == Some(STOPPED)) => failure(
            "wall_limit",
            "the cluster asked it to stop each time it was started, before it had committed anything: it \
             does not come far enough within the time limit of the partition",
            "ask for fewer atoms, or ask the operator for a partition with a longer limit \
             (tasks.slurm.partition), or for more attempts where others' jobs are preferred \
             (worker.attempts)",
        ),
        None if exit.is_some_and(|exit| exit.is_out_of_memory()) => failure(
            "out_of_memory",
            "the machine ran out of memory, and the worker was killed for it each time it was started",
            MORE_MEMORY,
        ),
        _ => {
            let how = match exit {
                Some(Exit { signal: Some(signal), .. }) => format!("was killed by signal {signal}"),
                Some(Exit { code: Some(code), .. }) => format!("ended with status {code}"),
                _ => "vanished".to_owned(),
            };
            failure(
                "worker_died",
                format!("the worker {how} each time it was started"),
                "its log may say why; memory that runs out is the usual cause",
            )
        }
    }
}

/// A result that no command of ours writes.
pub(crate) fn invalid_result(kind: Kind) -> Failure {
    failure(
        "result_invalid",
        format!(
            "the worker ended without a {kind} that can be used: what it left is not what a worker writes"
        ),
        "check the files that were given; tell the operator of the service if they are sound",
    )
}

/// What to do when a task needs more memory than there is.
pub(crate) const MORE_MEMORY: &str = "ask for fewer atoms or a shorter trajectory; the operator gives workers more \
     memory (worker.memory_mb, worker.slots) or the machine";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_the_cluster_cuts_short_each_time_names_the_limit_of_the_partition() {
        let exit = Exit { attempt: 3, code: Some(STOPPED), signal: None, memory_ran_out: None };
        let failure = failure_of(&Worker::default(), None, Some(exit));
        assert_eq!(failure.code, "wall_limit");
        assert!(failure.message.contains("time limit of the partition"), "{}", failure.message);
    }
}
