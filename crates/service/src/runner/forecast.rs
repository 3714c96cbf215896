//! Foretells when what is queued starts.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use molbox::workflow::types::Progress;
use serde::Deserialize;

use crate::app::App;
use crate::config::Config;
use crate::db::{Db, Mark, Queued, elapsed};
use crate::plan::simulate::{Parameters, System};
use crate::queue::{Line, Running, Waiting};
use crate::record::{Kind, Lane, Task};
use crate::runner::commit::Commit;
use crate::runner::kept::{Kept, is_kept};
use crate::speed::{self, Asked, Measured};

/// How often it is looked whether a queue has changed.
const LOOK: Duration = Duration::from_secs(1);
/// How often the times are renewed of a queue that has not.
const RENEW: Duration = Duration::from_secs(30);
/// Tasks of a lane that are looked at.
const MAX_WAITING: usize = 5000;
/// Tasks whose requests are read in one look: others that are new have to wait for the next.
const MAX_READ: usize = 200;

/// What makes a task longer than others of its kind.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Of a simulation, as far as it is not done.
    Steps(Asked),
    /// As long as others were.
    Usual,
    /// Nobody knows.
    Unknown,
}

/// What the forecast of each lane is made of.
#[derive(Default)]
pub(super) struct Forecast {
    lanes: [Seen; 2],
    /// By task, with its lane.
    works: HashMap<String, (Lane, Work)>,
    looked: Option<Instant>,
}

/// A queue when it was looked at.
#[derive(Default)]
struct Seen {
    mark: Mark,
    running: Vec<String>,
    renewed: Option<Instant>,
}

/// How fast tasks were.
pub(crate) struct Speeds {
    jobs: Vec<Measured>,
    systems: Vec<Measured>,
    analyses: Vec<Measured>,
    threads: u64,
}

impl Forecast {
    /// Renews the forecast of a lane that has changed, or whose times are old. `running` is what has
    /// a slot, `slots` how many there are.
    pub(super) async fn look(&mut self, app: &App, lanes: [(Lane, usize, Vec<String>); 2]) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        for (lane, slots, running) in lanes {
            if let Err(error) = self.look_at(app, lane, slots, running).await {
                // The next look tries again; until then records show what was known.
                tracing::warn!(?lane, cause = format!("{error:#}"), "foretell when tasks start");
            }
        }
    }

    async fn look_at(
        &mut self,
        app: &App,
        lane: Lane,
        slots: usize,
        running: Vec<String>,
    ) -> Result<()> {
        let mark = app.db.queue_mark(lane).await?;
        let seen = &self.lanes[lane as usize];
        let is_recent = seen.renewed.is_some_and(|renewed| renewed.elapsed() < RENEW);
        if is_recent && seen.mark == mark && seen.running == running {
            return Ok(());
        }
        // One that waits again has come further.
        self.works.retain(|id, _| running.contains(id) || !seen.running.contains(id));
        let now = app.now();
        let queue = app.db.queue_of_lane(lane, MAX_WAITING, now).await?;
        let speeds = Speeds::read(&app.db, &app.config).await?;
        let mut unread = MAX_READ;
        let mut line =
            Line { slots, served: queue.served, weights: queue.weights, ..Line::default() };
        for task in &queue.waiting {
            let work = self.work(app, task, &mut unread).await;
            let seconds = work.and_then(|work| speeds.seconds(task.kind, work));
            let (id, account, priority) = (task.id.clone(), task.account, task.priority);
            line.waiting.push(Waiting { id, account, priority, seconds });
        }
        for (task, since) in &queue.running {
            let elapsed = elapsed(*since, now);
            let work = self.work(app, task, &mut unread).await;
            let whole = work.and_then(|work| speeds.seconds(task.kind, work));
            let left = says_left(app, &task.id)
                .or_else(|| whole.map(|seconds| (seconds - elapsed).max(0.0)));
            line.running.push(Running { account: task.account, elapsed, left });
        }
        let running_now = queue.running.iter().map(|(task, _)| task);
        let known: HashSet<&str> =
            queue.waiting.iter().chain(running_now).map(|task| task.id.as_str()).collect();
        self.works.retain(|id, (of, _)| *of != lane || known.contains(id.as_str()));
        let length = usize::try_from(mark.0).unwrap_or_default().max(line.waiting.len());
        app.queues.renew(lane, line, length, now);
        let renewed = (unread > 0).then(Instant::now);
        self.lanes[lane as usize] = Seen { mark, running, renewed };
        Ok(())
    }

    /// What a task has to do; none when it is not read yet.
    async fn work(&mut self, app: &App, task: &Queued, unread: &mut usize) -> Option<Work> {
        if let Some((_, work)) = self.works.get(&task.id) {
            return Some(*work);
        }
        *unread = unread.checked_sub(1)?;
        let done = |row: &Task| last_commit(app, row);
        let work = work(&app.db, task, done).await.unwrap_or_else(|error| {
            // Deleted in the meantime, for example.
            tracing::debug!(task = %task.id, cause = format!("{error:#}"), "how long a task takes");
            Work::Unknown
        });
        self.works.insert(task.id.clone(), (task.kind.lane(), work));
        Some(work)
    }
}

impl Speeds {
    pub(crate) async fn read(db: &Db, config: &Config) -> Result<Self> {
        Ok(Self {
            jobs: db.speeds(Kind::Job).await?,
            systems: db.speeds(Kind::System).await?,
            analyses: db.speeds(Kind::Analysis).await?,
            threads: config.cpus_of_a_worker() as u64,
        })
    }

    /// How long a task has a slot, in s, while all slots are taken.
    pub(crate) fn seconds(&self, kind: Kind, work: Work) -> Option<f64> {
        match (work, kind) {
            (Work::Steps(mut asked), _) => {
                asked.threads = self.threads;
                speed::job_seconds(&self.jobs, &asked)
            }
            (Work::Usual, Kind::System) => speed::usual_seconds(&self.systems),
            (Work::Usual, Kind::Analysis) => speed::usual_seconds(&self.analyses),
            (Work::Usual, Kind::Job) | (Work::Unknown, _) => None,
        }
    }
}

/// What a running task says that it still takes, in s.
fn says_left(app: &App, id: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Said {
        progress: Progress,
    }
    let said: Said = serde_json::from_str(&app.progress(id)?).ok()?;
    Some(said.progress.eta_seconds?.get())
}

/// What a task has to do, of which so much is done.
async fn work(db: &Db, task: &Queued, done: impl FnOnce(&Task) -> Result<Commit>) -> Result<Work> {
    if task.kind != Kind::Job {
        return Ok(Work::Usual);
    }
    let row = db.task(task.account, Kind::Job, &task.id).await?.context("it is gone")?;
    let system = row.parent.as_deref().context("a job without a system")?;
    let system = db.task(row.account, Kind::System, system).await?.context("no system")?;
    work_of_job(&row, &system_of(&system)?, done)
}

fn system_of(row: &Task) -> Result<System<'_>> {
    System::of(row).map_err(|error| anyhow!("{error:?}"))
}

/// What all jobs have to do that run or are queued, by their names, as if nothing of it was done.
/// Each by itself would be two questions, which take a while for thousands in a database elsewhere.
pub(crate) async fn works_of_jobs(db: &Db) -> Result<HashMap<String, Work>> {
    let (jobs, systems) = db.open_jobs().await?;
    let systems: HashMap<&str, System<'_>> =
        systems.iter().filter_map(|row| Some((row.id.as_str(), system_of(row).ok()?))).collect();
    let work = |row: &Task| {
        let system = row.parent.as_deref().and_then(|parent| systems.get(parent));
        let system = system.context("a job without a system")?;
        work_of_job(row, system, |_| Ok(Commit::default()))
    };
    let known = jobs.iter().map(|row| (row.id.clone(), work(row).unwrap_or(Work::Unknown)));
    Ok(known.collect())
}

fn work_of_job(
    row: &Task,
    system: &System<'_>,
    done: impl FnOnce(&Task) -> Result<Commit>,
) -> Result<Work> {
    let parameters: Parameters = serde_json::from_str(&row.parameters)?;
    // One that was extended, or is tried again, goes on from there.
    let commit = if row.attempts > 0 { done(row)? } else { Commit::default() };
    let is_minimised = commit.is_minimised();
    Ok(Work::Steps(Asked {
        threads: 1,
        atoms: system.atoms,
        cutoff_nm: parameters.cutoff_nm(),
        minimise_steps: if is_minimised { 0 } else { parameters.minimization_steps() },
        steps: parameters.size(system.atoms).steps.saturating_sub(commit.steps(&parameters)),
    }))
}

/// The commit that the next attempt of a job resumes from, wherever that is made: the last one here,
/// or that of a server that has come further and is lost.
fn last_commit(app: &App, row: &Task) -> Result<Commit> {
    let here = Commit::of(app, &row.id)?.unwrap_or_default();
    if !is_kept(app, row) {
        return Ok(here);
    }
    let kept = Kept::of(&app.objects, &row.id)?.commit;
    Ok(if kept.number > here.number { kept } else { here })
}
