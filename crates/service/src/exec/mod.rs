//! Where tasks run. An executor gets a command and a folder and reports a status; it neither
//! knows what a task computes nor writes the database.

pub(crate) mod attempt;
pub(crate) mod capacity;
pub(crate) mod confine;
mod process;
pub(crate) mod run_task;
mod slurm;
#[cfg(test)]
mod suite;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::config::{Config, Engine};
use crate::record::Lane;
use attempt::{Attempt, Status};
pub(crate) use attempt::{Entry, NotTaken, Stop};
use capacity::{Capacity, Place, Share};
use confine::Confinement;
use process::Processes;
use slurm::Slurm;

/// Kills the tasks that run as processes of this machine in the folders of a folder, which no service
/// has any more; how many processes that were.
pub(crate) fn kill_all(tasks: &Path) -> io::Result<usize> {
    let folders = match fs::read_dir(tasks) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read?.collect::<io::Result<Vec<_>>>()?,
    };
    let mut n_killed = 0;
    for folder in folders {
        // What was being started while it was looked is found the next time.
        loop {
            match process::kill(&folder.path())? {
                0 => break,
                n => n_killed += n,
            }
        }
    }
    Ok(n_killed)
}

/// Kills what runs as processes of this machine in the folder of a task, whoever launched it.
pub(crate) fn kill_here(folder: &Path) -> io::Result<()> {
    process::kill(folder).map(drop)
}

/// Where the tasks of each lane run: workers where the settings have it, analyses there or on this
/// machine.
pub(crate) struct Executors {
    pub(crate) capacity: Capacity,
    workers: Executor,
    /// None where they run as workers do.
    analyses: Option<Executor>,
}

/// Runs attempts.
pub(crate) enum Executor {
    Processes(Processes),
    Slurm(Box<Slurm>),
}

impl Executors {
    /// `installation` names this service among all that have jobs in the same cluster.
    pub(crate) fn new(config: &Config, installation: &str) -> Self {
        Self {
            capacity: Capacity::of(config),
            workers: Executor::of(config, installation),
            analyses: (!config.is_on_cluster(Lane::Analyses))
                .then(|| Executor::Processes(Processes::new())),
        }
    }

    fn of(&self, lane: Lane) -> &Executor {
        match (lane, &self.analyses) {
            (Lane::Analyses, Some(analyses)) => analyses,
            (Lane::Workers | Lane::Analyses, _) => &self.workers,
        }
    }

    fn of_mut(&mut self, lane: Lane) -> &mut Executor {
        match (lane, &mut self.analyses) {
            (Lane::Analyses, Some(analyses)) => analyses,
            (Lane::Workers | Lane::Analyses, _) => &mut self.workers,
        }
    }

    /// Where another task of a lane can run, if it can at all, besides so many that are being made
    /// ready: no more are than may be launched at once. Not on GPUs that are held.
    pub(crate) fn place(
        &self,
        lane: Lane,
        n_prepared: usize,
        is_held: impl Fn(u32) -> bool,
    ) -> Option<Place> {
        let place = self.capacity.place(lane, is_held);
        place.filter(|_| self.of(lane).takes(n_prepared))
    }

    /// Whether a lane takes tasks at all.
    pub(crate) fn takes(&self, lane: Lane) -> bool {
        match self.of(lane) {
            Executor::Processes(_) => true,
            Executor::Slurm(slurm) => slurm.trouble().is_none(),
        }
    }

    /// Whether what is ready to be launched may be, before other things are looked at.
    pub(crate) fn takes_now(&self, lane: Lane) -> bool {
        match self.of(lane) {
            Executor::Processes(_) => true,
            Executor::Slurm(slurm) => !slurm.is_round_full(0),
        }
    }

    /// Why no worker can be started at all.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match &self.workers {
            Executor::Processes(_) => None,
            Executor::Slurm(slurm) => slurm.trouble(),
        }
    }

    /// Whether who runs a task has ended it through no fault of the task's.
    pub(crate) fn has_taken_back(&self, lane: Lane, task: &str) -> bool {
        match self.of(lane) {
            Executor::Processes(_) => false,
            Executor::Slurm(slurm) => slurm.has_taken_back(task),
        }
    }

    /// Nodes on which what was sent there has ended before it began.
    pub(crate) fn avoided(&self) -> Vec<String> {
        match &self.workers {
            Executor::Processes(_) => Vec::new(),
            Executor::Slurm(slurm) => slurm.avoided(),
        }
    }

    /// Whether what runs workers would take one; none of it is started.
    pub(crate) async fn test(&self) -> Result<(), NotTaken> {
        match &self.workers {
            Executor::Processes(_) => Ok(()),
            Executor::Slurm(slurm) => {
                slurm.test().await.map(drop).map_err(|refusal| NotTaken(refusal.to_string()))
            }
        }
    }

    /// Enters the folder of an attempt, which is made. None when there were processes of an earlier
    /// one, which have been killed: they must not meet another.
    pub(crate) async fn enter(&mut self, attempt: &Attempt) -> Result<Option<Entry>> {
        self.of_mut(attempt.lane).enter(attempt).await
    }

    /// Starts a command in the folder of an attempt, confined, with its output in `log.txt` there.
    /// It goes on when the service ends.
    pub(crate) async fn launch(
        &mut self,
        entry: Entry,
        attempt: &Attempt,
        share: Share,
        command: &[String],
        confinement: &Confinement,
    ) -> Result<()> {
        self.of_mut(attempt.lane).launch(entry, attempt, share, command, confinement).await
    }

    /// Counts what a task has of the machine that is about to be launched, or that an earlier executor
    /// has launched.
    pub(crate) fn reserve(&mut self, task: &str, share: Share) {
        self.capacity.take(task, share);
    }

    /// What became of each attempt, but for those that it is not time to look at.
    pub(crate) async fn statuses(
        &mut self,
        attempts: Vec<Attempt>,
    ) -> Vec<(Attempt, io::Result<Status>)> {
        let has_own = self.analyses.is_some();
        let (analyses, workers): (Vec<_>, Vec<_>) =
            attempts.into_iter().partition(|it| has_own && it.lane == Lane::Analyses);
        let mut all = Vec::new();
        let executors =
            [Some((&mut self.workers, workers)), self.analyses.as_mut().zip(Some(analyses))];
        for (executor, attempts) in executors.into_iter().flatten() {
            let statuses = executor.statuses(&attempts).await;
            all.extend(attempts.into_iter().zip(statuses.unwrap_or_default()));
        }
        all
    }

    /// Tasks and numbers of the attempts that a cluster has, whether they are known here or not.
    pub(crate) async fn on_cluster(&mut self) -> Result<Vec<(String, u32)>> {
        match &mut self.workers {
            Executor::Processes(_) => Ok(Vec::new()),
            Executor::Slurm(slurm) => slurm.live().await,
        }
    }

    /// Stops an attempt, whoever launched it. What is killed may be about to start another process,
    /// so this is done again as long as it runs.
    pub(crate) async fn stop(&self, attempt: &Attempt, how: Stop) -> io::Result<()> {
        self.of(attempt.lane).stop(attempt, how).await
    }

    /// Forgets an attempt that has ended: what it had of the machine is free.
    pub(crate) fn forget(&mut self, task: &str) {
        self.workers.forget(task);
        if let Some(analyses) = &mut self.analyses {
            analyses.forget(task);
        }
        self.capacity.give_back(task);
    }

    /// Has everything looked at now.
    pub(crate) fn hurry(&mut self) {
        if let Executor::Slurm(slurm) = &mut self.workers {
            slurm.hurry();
        }
    }

    /// How long to wait before statuses are asked for again.
    pub(crate) fn tick(&self) -> Duration {
        let of_lane = |lane| match self.capacity.n_running(lane) {
            0 => Duration::MAX,
            _ => self.of(lane).tick(),
        };
        of_lane(Lane::Workers).min(of_lane(Lane::Analyses))
    }
}

impl Executor {
    /// What runs workers.
    pub(crate) fn of(config: &Config, installation: &str) -> Self {
        match config.tasks.executor {
            Engine::Process => Self::Processes(Processes::new()),
            Engine::Slurm => Self::Slurm(Box::new(Slurm::new(config, installation))),
        }
    }

    /// Whether it would take another attempt after so many that are about to be launched.
    fn takes(&self, n_prepared: usize) -> bool {
        match self {
            Self::Processes(_) => true,
            Self::Slurm(slurm) => slurm.trouble().is_none() && !slurm.is_round_full(n_prepared),
        }
    }

    async fn enter(&mut self, attempt: &Attempt) -> Result<Option<Entry>> {
        let entry = match self {
            Self::Processes(processes) => processes.enter(attempt)?,
            Self::Slurm(slurm) => slurm.enter(attempt).await?,
        };
        if let Some(Entry::Lock(_) | Entry::Open) = entry {
            let folder = attempt.folder.display();
            attempt.fence().with_context(|| format!("enter {folder}"))?;
        }
        Ok(entry)
    }

    async fn launch(
        &mut self,
        entry: Entry,
        attempt: &Attempt,
        share: Share,
        command: &[String],
        confinement: &Confinement,
    ) -> Result<()> {
        match (self, entry) {
            (Self::Processes(processes), Entry::Lock(lock)) => {
                processes.launch(lock, attempt, command, confinement)
            }
            (Self::Slurm(slurm), Entry::Open) => {
                slurm.launch(attempt, share, command, confinement).await
            }
            (_, Entry::Submitted) => Ok(()),
            (Self::Processes(_), Entry::Open) | (Self::Slurm(_), Entry::Lock(_)) => {
                unreachable!("a lane has one executor")
            }
        }
    }

    /// None until it is time to look again.
    async fn statuses(&mut self, attempts: &[Attempt]) -> Option<Vec<io::Result<Status>>> {
        match self {
            Self::Processes(processes) => {
                Some(attempts.iter().map(|attempt| processes.status(attempt)).collect())
            }
            Self::Slurm(slurm) => slurm.statuses(attempts).await,
        }
    }

    async fn stop(&self, attempt: &Attempt, how: Stop) -> io::Result<()> {
        match self {
            Self::Processes(processes) => processes.stop(attempt, how),
            Self::Slurm(slurm) => slurm.stop(attempt, how).await,
        }
    }

    fn forget(&mut self, task: &str) {
        match self {
            Self::Processes(processes) => processes.forget(task),
            Self::Slurm(slurm) => slurm.forget(task),
        }
    }

    fn tick(&self) -> Duration {
        match self {
            Self::Processes(_) => process::TICK,
            Self::Slurm(slurm) => slurm.tick(),
        }
    }
}
