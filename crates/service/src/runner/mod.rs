//! The runner: claims queued tasks, launches them, follows them, collects what they leave.
//!
//! Everything that it knows is in the database and in the task's folder, so it can be killed at
//! any moment: the next one adopts what runs and collects what has ended.

mod beside;
mod checks;
mod cited;
pub(crate) mod collect;
pub(crate) mod commit;
mod end;
pub(crate) mod environment;
pub(crate) mod failure;
pub(crate) mod folder;
pub(crate) mod forecast;
pub(crate) mod hold;
mod kept;
pub(crate) mod left;
pub(crate) mod log;
mod outcome;
pub(crate) mod output;
mod pace;
pub(crate) mod places;
mod readme;
mod right;
mod ro_crate;
pub(crate) mod series;
mod watch;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Result, bail};
use futures::FutureExt as _;
use jiff::Timestamp;
use molbox::workflow::types::Failure;
use tokio::runtime::Handle;

use crate::app::App;
use crate::db::{Lease, Requeue};
use crate::exec::attempt::{self, Attempt, Exit};
use crate::exec::capacity::{Place, Share};
use crate::exec::confine::{Confinement, THIS_PROGRAM, UNAVAILABLE};
use crate::exec::{self, Entry, Executors, NotTaken, Stop};
use crate::folder::failure::{is_full, storage_failure};
use crate::folder::{KnownTasks, has_tasks, take_tasks};
use crate::record::{Kind, Lane, Status, Task};
use crate::shown::counted;
use beside::{Beside, Places};
use checks::Checks;
use failure::{Fault, STOPPED, Why, failure, failure_of, invalid_result};
use folder::{has_progressed, prepare, progress, read_result, task_file};
use forecast::Forecast;
use hold::{Hold, Source};
use outcome::Outcome;
use right::Right;
use watch::Watch;

/// How often the queue is looked at when nothing runs: what kept it from starting, a full disk
/// for example, may have passed.
const IDLE_TICK: Duration = Duration::from_secs(2);
/// How often the speed of a job that runs is noted: a production may take days.
const PACE_TICK: Duration = Duration::from_secs(60);
/// How often other servers are told how far tasks are.
const TELL: Duration = Duration::from_secs(2);
/// How often it is looked for tasks of servers that are lost.
const SEARCH: Duration = Duration::from_secs(5);
/// How long what could not be concluded waits.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the runner waits after a defect.
const AFTER_DEFECT: Duration = Duration::from_secs(5);
/// How much more than when a worker found the disk full has to be free, in bytes.
const ROOM: u64 = 1 << 20;
/// Exit status of a worker that could not write because the disk is full.
const DISK_FULL: i32 = 4;

/// Runs tasks, whenever this server may, until the service is asked to end; they go on without it.
/// A defect that breaks it off does not end it: nobody would start, follow or collect a task.
pub(crate) async fn run(app: Arc<App>) {
    while AssertUnwindSafe(run_tasks(app.clone())).catch_unwind().await.is_err() {
        tracing::error!("the runner of tasks has broken off by a defect, and begins again");
        tokio::time::sleep(AFTER_DEFECT).await;
    }
}

async fn run_tasks(app: Arc<App>) {
    while let Some(right) = Right::wait_for(&app).await {
        let mut runner = Runner::new(app.clone(), right.lease.clone());
        let mut has_begun = false;
        while !right.is_lost() && !*app.leaving.borrow() {
            if !runner.has_folder().await {
                runner.wait().await;
                continue;
            }
            if !has_begun {
                runner.begin().await;
                has_begun = true;
            }
            runner.turn().await;
        }
        runner.rest().await;
        app.disown_progress();
        // What this server knew of them, nobody here renews any more.
        app.holds.clear();
        app.queues.clear();
        if !right.is_lost() {
            right.give_back(&app).await;
        }
    }
}

struct Runner {
    app: Arc<App>,
    lease: Lease,
    executors: Executors,
    /// Tasks that were claimed, and whose folders are being filled.
    beginning: HashMap<String, Beginning>,
    running: HashMap<String, Running>,
    /// Tasks of which an attempt has ended: their results are being collected, or what they resume from
    /// is being kept.
    ending: HashMap<String, Ending>,
    preparing: Places,
    collecting: Places,
    requeueing: Places,
    keeping: Places,
    checks: Checks,
    forecast: Forecast,
    /// Free bytes when a worker found the disk full, which it may be for it before it is for us.
    full_at: Option<u64>,
    /// What has been said of progress that other servers have not been told, and since when.
    untold: HashMap<String, String>,
    told: Instant,
    /// When it was looked last for tasks of servers that are lost.
    searched: Instant,
    /// The folder of tasks elsewhere, once it is known to be that in which this server's tasks work.
    known_folder: Option<KnownTasks>,
    /// Whether a task may count as running that nobody follows: what became of it could not be noted.
    is_astray: bool,
}

/// A task that was claimed, with its part of the machine and the right to its folder.
struct Claimed {
    row: Task,
    attempt: Attempt,
    share: Share,
    entry: Entry,
}

/// A task whose folder is being filled, before its command is launched.
struct Beginning {
    claimed: Claimed,
    prepared: Beside<Confinement>,
}

/// A task of which an attempt has ended.
struct Ending {
    account: i64,
    /// What ran; none when it was cancelled while it waited.
    task: Option<Running>,
    ended: Beside<()>,
}

/// What becomes of a task whose attempt has ended.
enum Fate {
    /// It is not known yet: the environment is being checked.
    Open,
    /// It is queued again, with this behind it.
    Again(Requeue),
    /// It ends like this, once its results have been collected.
    Ends(Status, Box<Outcome>),
}

/// A task that runs, or has ended and waits to be concluded.
struct Running {
    row: Task,
    attempt: Attempt,
    gpu: Option<u32>,
    /// Whether nothing is known of it yet but that an earlier service had started it.
    is_adopted: bool,
    watch: Watch,
    /// Whether nothing of the task was done before this attempt, and before this service.
    is_whole: bool,
    /// When its speed was noted last.
    paced: Instant,
    /// The check whether the environment is to blame for its end.
    suspicion: Option<checks::Running>,
    /// What it has committed, on its way to where other servers find it, and when the last was
    /// there.
    keeping: Option<Beside<()>>,
    kept: Instant,
}

impl Running {
    /// `row` is as it was before the attempt, which began `now`, or, of one that is adopted, before.
    fn new(
        mut row: Task,
        attempt: Attempt,
        gpu: Option<u32>,
        is_adopted: bool,
        now: Timestamp,
    ) -> Self {
        let is_whole = row.attempts == 1 && row.started_at.is_none();
        row.started_at.get_or_insert(now);
        let before = if is_adopted { attempt.age(now) } else { Duration::ZERO };
        let (watch, begun) = (Watch::new(before), Instant::now());
        Self {
            row,
            attempt,
            gpu,
            is_adopted,
            watch,
            is_whole,
            paced: begun,
            suspicion: None,
            keeping: None,
            kept: begun,
        }
    }
}

impl Runner {
    fn new(app: Arc<App>, lease: Lease) -> Self {
        let now = Instant::now();
        Self {
            executors: Executors::new(&app.config, &app.installation),
            checks: Checks::first(&app),
            app,
            lease,
            beginning: HashMap::new(),
            running: HashMap::new(),
            ending: HashMap::new(),
            preparing: Places::new(),
            collecting: Places::new(),
            requeueing: Places::new(),
            keeping: Places::new(),
            forecast: Forecast::default(),
            full_at: None,
            untold: HashMap::new(),
            told: now,
            searched: now,
            known_folder: None,
            is_astray: true,
        }
    }

    /// Whether the folder of tasks is there. Without it every task that runs seemed to be lost, and what
    /// is started would work where nobody finds it: all lanes are held, and nothing is concluded.
    async fn has_folder(&mut self) -> bool {
        let Err(error) = self.look_at_folder().await else {
            if self.app.holds.release(Source::Folder) {
                tracing::info!("the folder of tasks is there again");
            }
            return true;
        };
        let (since, cause) = (self.app.now(), format!("{error:#}"));
        for lane in Lane::ALL {
            let code = "tasks_folder_missing".to_owned();
            let hold = Hold { source: Source::Folder, lane, gpu: None, code, since };
            if self.app.holds.place(hold) {
                tracing::error!(?lane, cause, "no task is started or ended until that has passed");
            }
        }
        false
    }

    async fn look_at_folder(&mut self) -> Result<()> {
        let App { config, installation, db, .. } = &*self.app;
        if !config.has_tasks_elsewhere() {
            return Ok(());
        }
        let tasks = config.tasks_root();
        let is_taken = has_tasks(&config.data, tasks, installation)?;
        if self.known_folder.is_some() {
            return Ok(());
        }
        // Servers that share a bucket find a copy there.
        let is_shared = !config.objects.url.is_empty();
        let hold = || KnownTasks::hold(&config.data, tasks, is_shared);
        let known = is_taken.then(hold).transpose()?;
        // An earlier version has left no mark, and another server may have another folder.
        db.put_back_unbegun(self.lease.clone(), self.app.now()).await?;
        let running = db.running_tasks(&self.lease).await?;
        let has_its_folder = |row: &Task| self.app.task_folder(&row.id).exists();
        if let Some(first) = running.first().filter(|_| !running.iter().any(has_its_folder)) {
            bail!(
                "none of {} that run has its folder in {} (tasks.folder): mount it; if they are lost for \
                 good, make the folder {}",
                counted(running.len(), "task"),
                tasks.display(),
                self.app.task_folder(&first.id).display()
            );
        }
        self.known_folder = Some(match known {
            Some(known) => known,
            None => {
                take_tasks(&config.data, tasks, installation)?;
                hold()?
            }
        });
        Ok(())
    }

    /// Takes over what an earlier service has left.
    async fn begin(&mut self) {
        if let Err(error) = environment::clear_left(self.app.config.tasks_root()) {
            tracing::warn!(%error, "clear the folders of checks");
        }
        if let Err(error) = self.end_unknown().await {
            tracing::warn!(cause = format!("{error:#}"), "look for jobs that no record knows");
        }
        if let Err(error) = self.clear_left().await {
            tracing::warn!(
                cause = format!("{error:#}"),
                "clear the folders of tasks that have ended"
            );
        }
    }

    /// Looks at everything once, and waits until there is a reason to do so again.
    async fn turn(&mut self) {
        if self.is_astray {
            // What has not begun would be put back.
            self.launch_all().await;
            match self.adopt().await {
                Ok(()) => self.is_astray = false,
                Err(error) => {
                    tracing::error!(
                        cause = format!("{error:#}"),
                        "look for tasks that were running"
                    );
                }
            }
        }
        self.hear_cancelled().await;
        self.look_after().await;
        self.look_at_endings().await;
        self.tell_progress().await;
        self.checks.look(&self.app).await;
        self.launch_prepared().await;
        self.look_at_disk();
        self.look_at_executors();
        self.search_orphans().await;
        self.start_queued().await;
        self.foretell().await;
        self.wait().await;
    }

    /// Ends jobs of a cluster that no record knows, as after records were restored from a backup.
    async fn end_unknown(&mut self) -> Result<()> {
        for (task, number) in self.executors.on_cluster().await? {
            // A check of `molboxd doctor` has no record, and ends by itself.
            if !task.starts_with(environment::CHECK) && !self.app.db.is_open(&task).await? {
                tracing::warn!(%task, attempt = number, "no record knows it; its job is ended");
                let folder = self.app.task_folder(&task);
                let attempt = Attempt { task, folder, number, lane: Lane::Workers };
                self.executors.stop(&attempt, Stop::Kill).await?;
            }
        }
        Ok(())
    }

    /// Removes the folders of tasks that ended, or were not started, as the service died, and of those
    /// that another server has begun again.
    async fn clear_left(&self) -> Result<()> {
        let entries = match fs::read_dir(self.app.tasks_folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let task = entry.file_name().to_string_lossy().into_owned();
            // One that is opened meanwhile gets its folder from us, after this. A folder of several
            // servers has theirs, too.
            let (is_needed, runs) = match self.app.config.has_tasks_elsewhere() {
                false => match self.app.db.status_here(&self.lease, &task).await? {
                    Some(status) => (true, status == Status::Running),
                    None => (false, false),
                },
                true => (self.app.db.is_open(&task).await?, true),
            };
            let path = entry.path();
            if !is_needed || !runs {
                // What is left of it here are processes, whoever runs it now or will.
                exec::kill_here(&path)?;
            }
            if !is_needed {
                tokio::task::spawn_blocking(move || left::discard(&path)).await??;
            }
        }
        Ok(())
    }

    /// Takes over the tasks that were running when the service ended.
    async fn adopt(&mut self) -> Result<()> {
        self.app.db.put_back_unbegun(self.lease.clone(), self.app.now()).await?;
        for row in self.app.db.running_tasks(&self.lease).await? {
            if self.running.contains_key(&row.id) || self.ending.contains_key(&row.id) {
                continue;
            }
            tracing::info!(task = %row.id, "adopted");
            let attempt = self.attempt(&row);
            let lane = row.kind.lane();
            let share = task_file(&attempt.folder).map_or(
                Share { lane, cpus: 1, gpu: None, user: None },
                |task| Share { lane, cpus: task.threads, gpu: task.device, user: task.user },
            );
            self.executors.reserve(&row.id, share);
            let running = Running::new(row, attempt, share.gpu, true, self.app.now());
            self.running.insert(running.row.id.clone(), running);
        }
        Ok(())
    }

    /// The present attempt of a task.
    fn attempt(&self, row: &Task) -> Attempt {
        Attempt {
            task: row.id.clone(),
            folder: self.app.task_folder(&row.id),
            number: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            lane: row.kind.lane(),
        }
    }

    async fn look_after(&mut self) {
        let attempts: Vec<Attempt> =
            self.running.values().map(|task| task.attempt.clone()).collect();
        let statuses = self.executors.statuses(attempts).await;
        // What was found where their folder is not means nothing.
        if !self.has_folder().await {
            return;
        }
        for (attempt, status) in statuses {
            let exit = match status {
                Ok(attempt::Status::Unknown) => continue,
                Ok(attempt::Status::Waiting(reason)) => {
                    self.follow_waiting(&attempt, &reason).await;
                    continue;
                }
                Ok(attempt::Status::Running) => {
                    self.follow(&attempt).await;
                    continue;
                }
                Ok(attempt::Status::Exited(exit)) => Some(exit),
                Ok(attempt::Status::Lost) => None,
                Err(error) => {
                    tracing::error!(task = %attempt.task, %error, "look at a task");
                    continue;
                }
            };
            let mut task = self.running.remove(&attempt.task).expect("it was just looked at");
            match self.close(&mut task, exit).await {
                Ok(Fate::Open) => drop(self.running.insert(attempt.task, task)),
                Ok(Fate::Again(behind)) => self.queue_again(task, behind),
                Ok(Fate::Ends(status, outcome)) => {
                    let row = task.row.clone();
                    let (app, lease) = (self.app.clone(), self.lease.clone());
                    let work = end::collected(app, lease, row.clone(), status, *outcome);
                    self.end(&self.collecting.clone(), &row, Some(task), work);
                }
                Err(error) => {
                    // It stays running in the database; the next look tries again.
                    tracing::error!(task = %attempt.task, cause = format!("{error:#}"), "conclude a task");
                    self.running.insert(attempt.task, task);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Ends a task, or the last attempt of it, beside the turns.
    fn end(
        &mut self,
        places: &Places,
        row: &Task,
        mut task: Option<Running>,
        work: impl Future<Output = Result<()>> + Send + 'static,
    ) {
        let keeping = task.as_mut().and_then(|task| task.keeping.take());
        let ended = Beside::start(&self.app, places, async move {
            if let Some(keeping) = keeping {
                // Its last is kept now, or becomes results.
                drop(keeping.end().await);
            }
            work.await
        });
        self.ending.insert(row.id.clone(), Ending { account: row.account, task, ended });
    }

    fn queue_again(&mut self, task: Running, behind: Requeue) {
        let row = task.row.clone();
        tracing::warn!(task = %row.id, attempt = row.attempts, ?behind, "queued again");
        self.app.forget(&row.id);
        let (app, lease) = (self.app.clone(), self.lease.clone());
        let work = end::queue_again(app, lease, row.clone(), task.attempt.clone(), behind);
        self.end(&self.requeueing.clone(), &row, Some(task), work);
    }

    /// Forgets the tasks that have ended, or were queued again.
    async fn look_at_endings(&mut self) {
        for (id, mut ending) in std::mem::take(&mut self.ending) {
            match ending.ended.look() {
                None => drop(self.ending.insert(id, ending)),
                Some(Ok(())) => self.executors.forget(&id),
                Some(Err(error)) => {
                    // The next look tries again.
                    tracing::error!(task = %id, cause = format!("{error:#}"), "end an attempt");
                    match ending.task {
                        Some(task) => drop(self.running.insert(id, task)),
                        // It was claimed, if it was cancelled before it was launched.
                        None => self.put_back(ending.account, &id).await,
                    }
                }
            }
        }
    }

    /// Waits for what goes on beside the turns, before anybody else takes these tasks over.
    async fn rest(&mut self) {
        for (id, Beginning { claimed, prepared }) in std::mem::take(&mut self.beginning) {
            if let Err(error) = prepared.end().await {
                tracing::warn!(task = %id, cause = format!("{error:#}"), "prepare a task");
            }
            self.put_back(claimed.row.account, &id).await;
        }
        for (id, Ending { ended, .. }) in std::mem::take(&mut self.ending) {
            if let Err(error) = ended.end().await {
                tracing::warn!(task = %id, cause = format!("{error:#}"), "end an attempt");
            }
        }
    }

    /// Takes in what a task that runs reports, and stops it when it has to be.
    async fn follow(&mut self, attempt: &Attempt) {
        let task = self.running.get_mut(&attempt.task).expect("it was just looked at");
        if let Some(progress) = progress(&attempt.folder) {
            keep_progress(&self.app, &mut self.untold, &attempt.task, progress.to_json());
            if task.paced.elapsed() > PACE_TICK {
                task.paced = Instant::now();
                pace::note(&self.app, &task.row, attempt, &progress, None).await;
            }
        }
        task.is_adopted = false;
        let Running { row, watch, .. } = task;
        watch.look(&self.app.config.worker, &self.executors, attempt, row).await;
        self.keep(&attempt.task);
    }

    /// Keeps what a job has committed where other servers find it, from time to time.
    fn keep(&mut self, id: &str) {
        let task = self.running.get_mut(id).expect("it was just looked at");
        if let Some(keeping) = &mut task.keeping {
            match keeping.look() {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::warn!(task = %id, cause = format!("{error:#}"), "keep what a job has committed");
                }
            }
            task.keeping = None;
            // What takes long leaves the network to others for as long as usual.
            task.kept = Instant::now();
        }
        let interval = kept::interval(&self.app, &task.row);
        if interval.is_none_or(|interval| task.kept.elapsed() < interval) {
            return;
        }
        let (app, lease, row) = (self.app.clone(), self.lease.clone(), task.row.clone());
        task.keeping = Some(Beside::start(&self.app, &self.keeping, async move {
            tokio::task::spawn_blocking(move || kept::keep(&app, &lease, &row)).await?
        }));
    }

    /// Shows why a task waits where it was sent to, and calls it back when it is cancelled.
    async fn follow_waiting(&mut self, attempt: &Attempt, reason: &str) {
        let task = self.running.get_mut(&attempt.task).expect("it was just looked at");
        let so_far = progress(&attempt.folder).unwrap_or_default();
        let said = so_far.waiting(reason).to_json();
        keep_progress(&self.app, &mut self.untold, &attempt.task, said);
        task.is_adopted = false;
        task.watch.wait(&self.executors, attempt, &task.row).await;
    }

    /// Tells the other servers how far the tasks are that run.
    async fn tell_progress(&mut self) {
        if self.untold.is_empty() || self.told.elapsed() < TELL {
            return;
        }
        self.told = Instant::now();
        let said = self.untold.drain().collect();
        if let Err(error) =
            self.app.db.report_progress(self.lease.clone(), said, self.app.now()).await
        {
            // It is shown, and no more; what is said next is told again.
            tracing::warn!(%error, "tell the progress of tasks");
        }
    }

    /// Queues tasks again whose servers are lost with all that ran there.
    async fn search_orphans(&mut self) {
        if self.searched.elapsed() < SEARCH {
            return;
        }
        self.searched = Instant::now();
        let lost = Duration::from_secs(self.app.config.tasks.lost_seconds);
        match self.app.db.requeue_orphans(lost, self.app.now()).await {
            Ok(tasks) => tasks.iter().for_each(|task| {
                tracing::warn!(%task, "queued again: the server that ran it is lost");
            }),
            Err(error) => tracing::error!(%error, "look for tasks of lost servers"),
        }
    }

    /// What becomes of a task whose attempt has ended.
    async fn close(&mut self, task: &mut Running, exit: Option<Exit>) -> Result<Fate> {
        if exit.is_some_and(|exit| exit.code == Some(DISK_FULL)) {
            self.full_at = self.app.free_for_tasks().ok();
        }
        if task.is_adopted && task.suspicion.is_none() {
            self.end_slot(task).await?;
        }
        match self.is_environment_to_blame(task, exit).await? {
            None => Ok(Fate::Open),
            Some(true) => {
                let has_progressed = has_progressed(&task.attempt.folder);
                let behind = if has_progressed { Requeue::Progressed } else { Requeue::NotBegun };
                Ok(Fate::Again(behind))
            }
            Some(false) => self.conclude(task, exit).await,
        }
    }

    /// Whether a task ended because of the environment: if it left no result, or one that blames
    /// machine or operator, and a check finds the same. None while that is being checked.
    async fn is_environment_to_blame(
        &mut self,
        task: &mut Running,
        exit: Option<Exit>,
    ) -> Result<Option<bool>> {
        let source = Source::Environment(task.gpu);
        if let Some(check) = task.suspicion.take() {
            if !check.is_finished() {
                task.suspicion = Some(check);
                return Ok(None);
            }
            let found = check.await?;
            let is_broken = found.is_err();
            self.checks.judge(&self.app, task.gpu, found);
            return Ok(Some(is_broken));
        }
        if !is_suspicious(task, exit, self.has_begun(task, exit)?)? || self.was_taken_back(task) {
            return Ok(Some(false));
        }
        if self.app.holds.has(source) {
            return Ok(Some(true));
        }
        task.suspicion = Some(checks::start(&self.app, task.gpu));
        Ok(None)
    }

    /// Holds all lanes while the disk is full.
    fn look_at_disk(&mut self) {
        let free = self.app.free_for_tasks().unwrap_or(0);
        let is_full_for_us =
            self.app.check_disk().is_err() || free < self.app.config.limits.free_disk_bytes;
        self.full_at = self.full_at.filter(|then| free < then + ROOM);
        if !is_full_for_us && self.full_at.is_none() {
            if self.app.holds.release(Source::Disk) {
                tracing::info!(free, "the disk has room again");
            }
            return;
        }
        for lane in Lane::ALL {
            let code = "disk_full".to_owned();
            let hold = Hold { source: Source::Disk, lane, gpu: None, code, since: self.app.now() };
            if self.app.holds.place(hold) {
                tracing::error!(
                    ?lane,
                    free,
                    "the disk is full; no task is started until there is room"
                );
            }
        }
    }

    /// Hears of what was cancelled, here or by another process: what runs is stopped, and what waits
    /// for another attempt ends. That has results of before, which are to show what became of it.
    async fn hear_cancelled(&mut self) {
        let rows = match self.app.db.cancelled_tasks().await {
            Ok(rows) => rows,
            Err(error) => return tracing::error!(%error, "look for cancelled tasks"),
        };
        for row in rows {
            if let Some(task) = self.running.get_mut(&row.id) {
                if !task.row.is_cancelled {
                    self.executors.hurry();
                }
                task.row.is_cancelled = true;
                continue;
            }
            if let Some(Beginning { claimed, .. }) = self.beginning.get_mut(&row.id) {
                claimed.row.is_cancelled = true;
                continue;
            }
            if row.status != Status::Queued || self.ending.contains_key(&row.id) {
                continue;
            }
            let lease = self.lease.clone();
            match self.app.db.claim_cancelled(lease, row.account, row.id.clone()).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::error!(task = %row.id, %error, "end a cancelled task");
                    continue;
                }
            }
            self.end_cancelled(row);
        }
    }

    /// Ends a task that was cancelled while nothing of it ran.
    fn end_cancelled(&mut self, row: Task) {
        let next = self.attempt(&Task { attempts: row.attempts + 1, ..row.clone() });
        let (app, lease) = (self.app.clone(), self.lease.clone());
        let work = end::cancelled(app, lease, row.clone(), next);
        self.end(&self.collecting.clone(), &row, None, work);
    }

    /// Waits until it is time to look at everything again, or there is a reason to. What is queued
    /// in a lane where nothing can be started is none.
    async fn wait(&self) {
        let pause = self.executors.tick().min(IDLE_TICK);
        let mut leaving = self.app.leaving.subscribe();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.woken() => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    async fn woken(&self) {
        loop {
            let lane = tokio::select! {
                () = self.app.wake.notified() => return,
                () = self.app.queued(Lane::Workers).notified() => Lane::Workers,
                () = self.app.queued(Lane::Analyses).notified() => Lane::Analyses,
            };
            if self.place(lane).is_some() {
                return;
            }
        }
    }

    /// Starts what is queued, as far as there are slots, GPUs and disk.
    async fn start_queued(&mut self) {
        for lane in Lane::ALL {
            self.start_lane(lane).await;
        }
    }

    /// Where another task of a lane can run, if it can at all.
    fn place(&self, lane: Lane) -> Option<Place> {
        let holds = &self.app.holds;
        if holds.of_lane(lane, &self.app.config.worker.gpus).is_some() {
            return None;
        }
        let n_prepared =
            self.beginning.values().filter(|task| task.claimed.share.lane == lane).count();
        self.executors.place(lane, n_prepared, |gpu| holds.has_gpu(gpu))
    }

    /// Renews what is known of when tasks start.
    async fn foretell(&mut self) {
        let lanes = Lane::ALL.map(|lane| {
            let beginning = self.beginning.values().map(|task| &task.claimed.row);
            let ending = self.ending.values().filter_map(|ending| ending.task.as_ref());
            let rows = self.running.values().chain(ending).map(|task| &task.row).chain(beginning);
            let of_lane = rows.filter(|row| row.kind.lane() == lane);
            let mut running: Vec<String> = of_lane.map(|row| row.id.clone()).collect();
            running.sort();
            let gpus = self.app.config.worker.gpus.iter();
            let held = gpus.filter(|gpu| lane == Lane::Workers && self.app.holds.has_gpu(**gpu));
            let slots = self.executors.capacity.slots(lane).saturating_sub(held.count());
            (lane, slots, running)
        });
        self.forecast.look(&self.app, lanes).await;
    }

    async fn start_lane(&mut self, lane: Lane) {
        let slots = self.executors.capacity.slots(lane);
        while let Some(place) = self.place(lane) {
            let claimed = self.app.db.claim(self.lease.clone(), lane, slots, self.app.now()).await;
            let (row, waiting) = match claimed {
                Ok(Some(claimed)) => claimed,
                Ok(None) => return,
                Err(error) => {
                    // It may have been claimed, and the answer to that lost.
                    self.is_astray = true;
                    return tracing::error!(%error, "look for queued tasks");
                }
            };
            let (account, id) = (row.account, row.id.clone());
            let share = self.executors.capacity.share(place, waiting);
            match self.start(row, share).await {
                Ok(true) => {}
                Ok(false) => return self.put_back(account, &id).await,
                Err(error) => {
                    if !self.ends_unstarted(account, &id, &error).await {
                        return;
                    }
                }
            }
        }
    }

    /// Ends a task that could not be started; puts it back if the reason passes, and says false then.
    async fn ends_unstarted(&mut self, account: i64, id: &str, error: &anyhow::Error) -> bool {
        let cause = format!("{error:#}");
        if storage_failure(error).is_some() {
            if is_full(error) {
                self.full_at = self.app.free_for_tasks().ok();
            }
            tracing::error!(task = id, cause, "start a task later");
            self.put_back(account, id).await;
            return false;
        }
        if error.is::<NotTaken>() {
            tracing::warn!(task = id, cause, "start a task later");
            self.put_back(account, id).await;
            return false;
        }
        tracing::error!(task = id, cause, "start a task");
        let failure = failure(
            "not_started",
            "the service could not start the task; its log says why",
            "tell the operator of the service",
        );
        let outcome = Outcome::failed(failure);
        let ended = end::end(&self.app, &self.lease, account, id, Status::Failed, outcome, None);
        if let Err(error) = ended.await {
            self.is_astray = true;
            tracing::error!(task = id, cause = format!("{error:#}"), "end a task");
            return false;
        }
        true
    }

    /// Puts a task back that could not begin.
    async fn put_back(&mut self, account: i64, id: &str) {
        let (lease, id) = (self.lease.clone(), id.to_owned());
        let behind = Requeue::NotBegun;
        let requeued = self.app.db.requeue_task(lease, account, id.clone(), behind, self.app.now());
        if let Err(error) = requeued.await {
            tracing::error!(task = %id, cause = format!("{error:#}"), "queue a task again");
            self.is_astray = true;
        }
    }

    /// Starts a task that was claimed; false when it has to wait.
    async fn start(&mut self, claimed: Task, share: Share) -> Result<bool> {
        let row = Task { attempts: claimed.attempts + 1, ..claimed };
        if let Some(Ending { ended, .. }) = self.ending.remove(&row.id) {
            // It goes on already, while the last of its folder is being removed.
            if let Err(error) = ended.end().await {
                tracing::warn!(task = %row.id, cause = format!("{error:#}"), "end an attempt");
            }
            self.executors.forget(&row.id);
        }
        let attempt = self.attempt(&row);
        let Some(entry) = self.executors.enter(&attempt).await? else { return Ok(false) };
        if matches!(entry, Entry::Submitted) {
            return self.start_submitted(row, attempt, share).await;
        }
        let (app, prepared, entered) = (self.app.clone(), row.clone(), attempt.clone());
        let prepared = Beside::start(&self.app, &self.preparing, async move {
            let preparing = tokio::task::spawn_blocking(move || {
                Handle::current().block_on(prepare(&app, &prepared, &entered, share))
            });
            preparing.await?
        });
        let id = row.id.clone();
        self.executors.reserve(&id, share);
        let claimed = Claimed { row, attempt, share, entry };
        self.beginning.insert(id, Beginning { claimed, prepared });
        Ok(true)
    }

    /// Launches the tasks whose folders have been filled.
    async fn launch_prepared(&mut self) {
        for (id, mut task) in std::mem::take(&mut self.beginning) {
            let is_due = self.executors.takes_now(task.claimed.share.lane);
            match is_due.then(|| task.prepared.look()).flatten() {
                None => drop(self.beginning.insert(id, task)),
                Some(prepared) => self.launch_or_put_back(task.claimed, prepared).await,
            }
        }
    }

    /// Launches all tasks that were claimed, once their folders have been filled.
    async fn launch_all(&mut self) {
        for (_, Beginning { claimed, prepared }) in std::mem::take(&mut self.beginning) {
            let prepared = prepared.end().await;
            self.launch_or_put_back(claimed, prepared).await;
        }
    }

    async fn launch_or_put_back(&mut self, claimed: Claimed, prepared: Result<Confinement>) {
        let (account, id) = (claimed.row.account, claimed.row.id.clone());
        if claimed.row.is_cancelled {
            let row = claimed.row;
            self.executors.forget(&id);
            // The attempt was none.
            return self.end_cancelled(Task { attempts: row.attempts - 1, ..row });
        }
        let launched = match prepared {
            Ok(_) if !self.may_launch(&claimed) => Ok(None),
            Ok(confinement) => self.launch(claimed, &confinement).await,
            Err(error) => Err(error),
        };
        match launched {
            Ok(Some(task)) => return drop(self.running.insert(id, task)),
            Ok(None) => self.put_back(account, &id).await,
            Err(error) => drop(self.ends_unstarted(account, &id, &error).await),
        }
        self.executors.forget(&id);
    }

    /// Whether nothing has come between while the folder was being filled.
    fn may_launch(&self, claimed: &Claimed) -> bool {
        let Share { lane, gpu, .. } = claimed.share;
        let holds = &self.app.holds;
        holds.of_lane(lane, &self.app.config.worker.gpus).is_none()
            && !gpu.is_some_and(|gpu| holds.has_gpu(gpu))
            && self.executors.takes(lane)
    }

    /// Launches a task whose folder has been filled; none when it does not run any longer.
    async fn launch(
        &mut self,
        claimed: Claimed,
        confinement: &Confinement,
    ) -> Result<Option<Running>> {
        let Claimed { row, attempt, share, entry } = claimed;
        let (lease, now) = (self.lease.clone(), self.app.now());
        if !self.app.db.begin_attempt(lease, row.account, row.id.clone(), now).await? {
            return Ok(None);
        }
        let (python, folder) =
            (self.app.config.worker.python.display(), attempt.folder.display().to_string());
        let command = match row.kind {
            Kind::Analysis => [THIS_PROGRAM, "analyze", &folder].map(str::to_owned).to_vec(),
            Kind::System | Kind::Job => environment::worker(&python.to_string(), &folder),
        };
        self.executors.launch(entry, &attempt, share, &command, confinement).await?;
        tracing::info!(task = %row.id, cpus = share.cpus, gpu = ?share.gpu, attempt = row.attempts, "started");
        Ok(Some(Running::new(row, attempt, share.gpu, false, now)))
    }

    /// Takes over an attempt that was launched before the answer to that was lost.
    async fn start_submitted(&mut self, row: Task, attempt: Attempt, share: Share) -> Result<bool> {
        let (lease, now) = (self.lease.clone(), self.app.now());
        if !self.app.db.begin_attempt(lease, row.account, row.id.clone(), now).await? {
            return Ok(false);
        }
        tracing::info!(task = %row.id, attempt = row.attempts, "started before");
        self.executors.reserve(&row.id, share);
        let id = row.id.clone();
        self.running.insert(id, Running::new(row, attempt, share.gpu, true, now));
        Ok(true)
    }

    /// Holds the workers while who runs them takes none.
    fn look_at_executors(&mut self) {
        let Some(cause) = self.executors.trouble() else {
            if self.app.holds.release(Source::Engine) {
                tracing::info!("Slurm takes jobs again");
            }
            return;
        };
        let since = self.app.now();
        for lane in Lane::ALL.into_iter().filter(|lane| self.app.config.is_on_cluster(*lane)) {
            let code = "slurm_unavailable".to_owned();
            let hold = Hold { source: Source::Engine, lane, gpu: None, code, since };
            if self.app.holds.place(hold) {
                tracing::error!(?lane, cause, "no task is started until Slurm takes jobs");
            }
        }
    }

    /// Decides what the end of a task's process means.
    async fn conclude(&self, task: &Running, exit: Option<Exit>) -> Result<Fate> {
        let row = &task.row;
        let folder = &task.attempt.folder;
        let why = task.watch.why();
        let is_cancelled = why == Some(Why::Cancelled) || self.is_cancelled(row).await?;
        let has_attempts = row.fruitless + 1 < i64::from(self.app.config.worker.attempts);
        let so_far = || progress(folder).unwrap_or_default();
        let result = match read_result(row.kind, &task.attempt)? {
            None => None,
            Some(Ok(report)) => Some(Outcome::from(report)),
            Some(Err(error)) => {
                tracing::error!(task = %row.id, cause = format!("{error:#}"), "a result that no worker writes");
                Some(Outcome::failed(invalid_result(row.kind)))
            }
        };
        let (status, outcome) = match result {
            Some(mut outcome) => match outcome.error.take() {
                None => (Status::Succeeded, outcome),
                Some(mut error) => {
                    let mut fault = Fault::of(&error.code);
                    if matches!(fault, Fault::Machine | Fault::Operator) {
                        if has_attempts && !is_cancelled {
                            return Ok(Fate::Again(Requeue::Fruitless));
                        }
                        // It is said each time, and a check finds nothing of it.
                        fault = Fault::Engine;
                    }
                    if error.code == "out_of_memory" {
                        error.remedy = Some(failure::MORE_MEMORY.to_owned());
                    }
                    error.fault = Some(fault.to_string());
                    error.log = log::end_of(&self.app.objects, folder, &row.id)?;
                    outcome.error = Some(error);
                    (Status::Failed, outcome.with(so_far()))
                }
            },
            // No word of its own: it was stopped or killed. Its commits are good.
            None if is_cancelled => (Status::Cancelled, Outcome::default().with(so_far())),
            None => {
                let behind = self.behind(task, exit)?;
                if why != Some(Why::WallLimit) && (behind != Requeue::Fruitless || has_attempts) {
                    return Ok(Fate::Again(behind));
                }
                (Status::Failed, Outcome::failed(self.failure_of(task, exit)?).with(so_far()))
            }
        };
        if status == Status::Succeeded {
            let elapsed = task.is_whole.then(|| task.watch.elapsed());
            pace::note(&self.app, row, &task.attempt, &outcome, elapsed).await;
        }
        Ok(Fate::Ends(status, Box::new(outcome)))
    }

    /// What an attempt that left no result was to its task.
    fn behind(&self, task: &Running, exit: Option<Exit>) -> Result<Requeue> {
        // A cluster asks a job to stop before its time is over. What had committed nothing until then
        // would be asked again each time.
        let is_cut_short = self.app.config.is_on_cluster(task.row.kind.lane())
            && exit.is_some_and(|exit| exit.code == Some(STOPPED));
        Ok(match behind(task, exit) {
            Requeue::Interrupted if is_cut_short => Requeue::Fruitless,
            Requeue::Fruitless if task.watch.why().is_some() => Requeue::Fruitless,
            Requeue::Fruitless if !self.has_begun(task, exit)? => Requeue::NotBegun,
            Requeue::Fruitless if self.was_taken_back(task) => Requeue::Interrupted,
            behind => behind,
        })
    }

    /// Whether anything of an attempt has come to where it was sent.
    fn has_begun(&self, task: &Running, exit: Option<Exit>) -> Result<bool> {
        let is_sent = self.app.config.is_on_cluster(task.row.kind.lane());
        Ok(!is_sent || exit.is_some() || task.attempt.begun()?.is_some())
    }

    /// Whether who ran it has ended it, and nobody of ours had asked for that.
    fn was_taken_back(&self, task: &Running) -> bool {
        let lane = task.row.kind.lane();
        task.watch.why().is_none() && self.executors.has_taken_back(lane, &task.row.id)
    }

    /// Why a task that left no result has failed, in its log and for its record.
    fn failure_of(&self, task: &Running, exit: Option<Exit>) -> Result<Failure> {
        let (objects, folder, id) = (&self.app.objects, &task.attempt.folder, &task.row.id);
        let mut failure = failure_of(&self.app.config.worker, task.watch.why(), exit);
        let line = format!("failed: {}: {}", failure.code, failure.message);
        log::add(objects, folder, id, &line)?;
        failure.log = log::end_of(objects, folder, id)?;
        Ok(failure)
    }

    /// Counts the time of a task that ended while no service was there to see it: until its last sign of
    /// life, or a weekend without the machine would be its account's.
    async fn end_slot(&self, task: &Running) -> Result<()> {
        let Some(seen) = watch::last_sign(&task.attempt.folder) else { return Ok(()) };
        let until = Timestamp::try_from(seen)?.min(self.app.now());
        let (account, id) = (task.row.account, task.row.id.clone());
        Ok(self.app.db.end_slot(self.lease.clone(), account, id, until).await?)
    }

    async fn is_cancelled(&self, row: &Task) -> Result<bool> {
        let row = self.app.db.task(row.account, row.kind, &row.id).await?;
        Ok(row.is_some_and(|row| row.is_cancelled))
    }
}

/// Keeps what a task says of itself, for other servers too.
fn keep_progress(app: &App, untold: &mut HashMap<String, String>, task: &str, said: String) {
    if app.set_progress(task, &said) && app.db.is_shared() {
        untold.insert(task.to_owned(), said);
    }
}

/// Whether the environment may be to blame for how an attempt ended.
fn is_suspicious(task: &Running, exit: Option<Exit>, has_begun: bool) -> Result<bool> {
    if task.watch.why().is_some() {
        return Ok(false);
    }
    if !has_begun {
        return Ok(true);
    }
    let is_unconfined = exit.is_some_and(|exit| exit.code == Some(i32::from(UNAVAILABLE)));
    if task.row.kind == Kind::Analysis && !is_unconfined {
        return Ok(false);
    }
    Ok(match read_result(task.row.kind, &task.attempt)? {
        Some(Ok(report)) => {
            let fault = report.error.map(|error| Fault::of(&error.code));
            matches!(fault, Some(Fault::Machine | Fault::Operator))
        }
        Some(Err(_)) => false,
        None => exit.is_some_and(|exit| ![Some(STOPPED), Some(DISK_FULL)].contains(&exit.code)),
    })
}

/// What an attempt that left no result was to its task.
fn behind(task: &Running, exit: Option<Exit>) -> Requeue {
    let folder = &task.attempt.folder;
    let boot = task_file(folder).and_then(|begun| begun.boot);
    let was_stopped = task.watch.why().is_none()
        && exit.is_some_and(|exit| [Some(STOPPED), Some(DISK_FULL)].contains(&exit.code));
    // With the service and its worker, whoever would have noted the end was gone too; at a shutdown
    // it may have noted how it was killed.
    let machine_stopped = (task.is_adopted && exit.is_none())
        || attempt::boot_id().is_some_and(|now| boot.is_some_and(|then| then != now));
    if has_progressed(folder) {
        Requeue::Progressed
    } else if was_stopped || machine_stopped {
        Requeue::Interrupted
    } else {
        Requeue::Fruitless
    }
}
