//! Lanes that are held: nothing is started there until what is wrong with the machine, or with how
//! the service is set up, has passed. Tasks stay queued.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use molbox::workflow::types;

use crate::record::{Kind, Lane};
use crate::runner::failure::Fault;

/// What found out that a lane has to be held, and will find out when no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Disk,
    /// The folder of tasks is not there.
    Folder,
    /// Who runs the tasks takes none.
    Engine,
    /// The check of the workers' environment, on this GPU.
    Environment(Option<u32>),
}

/// Why a lane is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) source: Source,
    pub(crate) lane: Lane,
    /// The one GPU that is not used; none when nothing of the lane is started.
    pub(crate) gpu: Option<u32>,
    pub(crate) code: String,
    /// In microseconds since 1970.
    pub(crate) since: Timestamp,
}

/// Everything that is held.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<Vec<Hold>>);

impl Holds {
    pub(crate) fn all(&self) -> Vec<Hold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why nothing of a lane is started that may use these GPUs.
    pub(crate) fn of_lane(&self, lane: Lane, gpus: &[u32]) -> Option<Hold> {
        let all = self.all();
        let mut of_lane = all.iter().filter(|hold| hold.lane == lane);
        let all_gpus = || !gpus.is_empty() && gpus.iter().all(|gpu| self.has_gpu(*gpu));
        let whole = of_lane.clone().find(|hold| hold.gpu.is_none());
        whole.or_else(|| of_lane.next().filter(|_| all_gpus())).cloned()
    }

    /// Whether a GPU is not used.
    pub(crate) fn has_gpu(&self, gpu: u32) -> bool {
        self.all().iter().any(|hold| hold.gpu == Some(gpu))
    }

    /// Whether this is why anything is held.
    pub(crate) fn has(&self, source: Source) -> bool {
        self.all().iter().any(|hold| hold.source == source)
    }

    /// Holds, for a reason that replaces the one before of the same source; false if it is the
    /// same.
    pub(crate) fn place(&self, hold: Hold) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |it: &Hold| it.source == hold.source && it.lane == hold.lane;
        if all.iter().any(|it| is_same(it) && it.code == hold.code && it.gpu == hold.gpu) {
            return false;
        }
        all.retain(|it| !is_same(it));
        all.push(hold);
        true
    }

    /// Lets go whatever is held.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Lets go what was held for this; whether anything was.
    pub(crate) fn release(&self, source: Source) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.len();
        all.retain(|it| it.source != source);
        all.len() < before
    }
}

impl Hold {
    /// As records and `/healthz` show it: without anything that only the operator may know.
    pub(crate) fn shown(&self) -> types::Hold {
        let kinds = Kind::ALL.iter().filter(|kind| kind.lane() == self.lane);
        types::Hold {
            kinds: kinds.map(ToString::to_string).collect(),
            code: self.code.clone(),
            message: message(&self.code).to_owned(),
            fault: Fault::of(&self.code).to_string(),
            since: self.since.to_string(),
            extra: Default::default(),
        }
    }
}

fn message(code: &str) -> &'static str {
    match code {
        "disk_full" => "the service's disk is full; tasks start when there is room",
        "gpu_lost" => "a GPU of the service does not work; nothing is started on it until it does",
        "platform_missing" => {
            "the service lacks the platform that it is set to; tasks start when it has it"
        }
        "tasks_folder_missing" => {
            "the service's folder of tasks (tasks.folder) is not there; tasks go on when it is"
        }
        "slurm_unavailable" => "the service's cluster takes no jobs; tasks start when it does",
        "sandbox_unavailable" => "the service cannot sandbox its workers; tasks start when it can",
        _ => "the service's workers do not start; tasks start when the operator has repaired them",
    }
}
