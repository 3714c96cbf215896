//! Tasks as jobs of Slurm, by its commands: to submit them, ask for them, and stop them.
//!
//! The name of a job says whose it is: installation, task, attempt. Numbers of jobs come back after
//! an unclean end of the controller, so none is kept. What became of an attempt is first what
//! `run-task` noted in its folder, then what Slurm reports, then whether its files still change:
//! each of the three alone was wrong once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use rustix::process::getuid;
use tokio::process::Command;
use tokio::time::timeout;

use super::attempt::{Attempt, Entry, Lock, NotTaken, Status, Stop, has_no_locks};
use super::capacity::Share;
use super::confine::{Confinement, WORK};
use super::process;
use crate::config::{self, Config};
use crate::record::Lane;

/// How long a command of Slurm may take. Without its controller they give up after some nine
/// seconds by themselves.
const LIMIT: Duration = Duration::from_secs(20);
/// How often it is tried whether Slurm takes jobs again.
const RETRY: Duration = Duration::from_secs(10);
/// How long before the end of its time a job is asked to stop.
const MARGIN_SECONDS: u64 = 60;
/// Earlier attempts that are looked for before the next is submitted: one that is older has been
/// superseded more than once.
const EARLIER: u32 = 4;
/// How long no job is sent to a node on which one has ended before it began.
const AVOID: Duration = Duration::from_secs(600);
/// What is asked of each job: name, state, reason, nodes, folder. The JSON of `squeue` has changed with
/// every other release.
const FORMAT: &str = "%j|%T|%r|%N|%Z";

/// Runs attempts as jobs of Slurm.
pub(crate) struct Slurm {
    commands: Commands,
    settings: config::Slurm,
    /// Seconds until Slurm ends a job; none for the partition's limit.
    seconds: Option<u64>,
    memory_mb: u64,
    /// How the names of all jobs of this installation begin.
    prefix: String,
    /// Where they work. A copy of the installation goes by its name, and works elsewhere.
    tasks: PathBuf,
    /// `molboxd` as the nodes have it.
    program: PathBuf,
    asked: Option<Instant>,
    signs: HashMap<String, Signs>,
    /// Submissions since statuses were asked for last.
    submitted: u32,
    /// Whether there is anything to ask about.
    has_attempts: bool,
    submitted_at: Option<Instant>,
    trouble: Option<Trouble>,
    /// Tasks whose last job Slurm has ended through no fault of theirs.
    taken_back: HashSet<String>,
    /// Nodes on which a job has ended before it began, and when that was seen.
    avoided: BTreeMap<String, Instant>,
}

/// Why Slurm takes no jobs.
struct Trouble {
    cause: String,
    tried: Instant,
}

/// When an attempt's files last changed, seen by our clock: those of nodes may differ.
struct Signs {
    modified: Option<SystemTime>,
    seen: Instant,
    /// Whether its job was ended from here.
    is_ended: bool,
}

/// What Slurm reports of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    phase: Phase,
    reason: String,
    /// Empty before it has one.
    node: String,
    /// Whether it was ended by an administrator, for another job, or with its node.
    is_taken_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits for a place.
    Pending,
    Running,
    /// It has its place and stands still, by the cluster's rules or somebody's word.
    Suspended,
    /// Its processes are being ended.
    Completing,
    Over,
}

impl Phase {
    fn of(state: &str) -> Self {
        match state {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" | "CONFIGURING" => Self::Pending,
            "SUSPENDED" | "STOPPED" => Self::Suspended,
            "COMPLETING" | "STAGE_OUT" => Self::Completing,
            "BOOT_FAIL" | "CANCELLED" | "COMPLETED" | "DEADLINE" | "FAILED" | "NODE_FAIL"
            | "OUT_OF_MEMORY" | "PREEMPTED" | "REVOKED" | "TIMEOUT" => Self::Over,
            // RUNNING, SIGNALING, RESIZING, and what is to come.
            _ => Self::Running,
        }
    }
}

/// Jobs by their names.
type Jobs = HashMap<String, Job>;

impl Slurm {
    pub(super) fn new(config: &Config, installation: &str) -> Self {
        let settings = config.tasks.slurm.clone();
        let worker = &config.worker;
        // The service's own limits come first, so that it can say which one it was.
        let margin = worker.stop_seconds + 2 * MARGIN_SECONDS;
        let program = match settings.molboxd.as_os_str().is_empty() {
            // Nodes have no descriptor of ours: its path.
            true => std::env::current_exe().unwrap_or_else(|_| "molboxd".into()),
            false => settings.molboxd.clone(),
        };
        Self {
            commands: Commands { conf: settings.conf.clone() },
            seconds: Some(worker.wall_seconds)
                .filter(|&seconds| seconds > 0)
                .map(|wall| wall + margin),
            memory_mb: worker.memory_mb,
            prefix: format!("molbox-{}-", &installation[..installation.len().min(8)]),
            tasks: config.tasks_root().to_owned(),
            settings,
            program,
            asked: None,
            signs: HashMap::new(),
            submitted: 0,
            has_attempts: false,
            submitted_at: None,
            trouble: None,
            taken_back: HashSet::new(),
            avoided: BTreeMap::new(),
        }
    }

    fn name(&self, task: &str, number: u32) -> String {
        format!("{}{task}-{number}", self.prefix)
    }

    /// None when a job of an earlier attempt lives, which has been killed, or one that was withdrawn
    /// as it ended, or a process that holds the folder.
    pub(super) async fn enter(&mut self, attempt: &Attempt) -> Result<Option<Entry>> {
        let oldest = attempt.number.saturating_sub(EARLIER).max(1);
        let names: Vec<String> =
            (oldest..=attempt.number).map(|number| self.name(&attempt.task, number)).collect();
        let jobs = self.asking(&[format!("--name={}", names.join(","))]).await?;
        let (own, earlier) = names.split_last().expect("there is one at least");
        if let Some(job) = jobs.get(own) {
            if attempt.is_fenced()? {
                // It was submitted before the service ended, or before an answer was lost.
                return Ok(Some(Entry::Submitted));
            }
            // It is of an attempt that was withdrawn, whose number this one has. How it ended was
            // noted before Slurm ends it, which may take a while.
            if job.phase != Phase::Over {
                return Ok(None);
            }
        }
        let is_live = |name: &&String| {
            let live = [Phase::Pending, Phase::Running, Phase::Suspended];
            jobs.get(*name).is_some_and(|job| live.contains(&job.phase))
        };
        let live: Vec<&String> = earlier.iter().filter(is_live).collect();
        for name in &live {
            tracing::error!(job = %name, "a queued task had a job");
            self.commands.cancel(name, Stop::Kill).await?;
        }
        Ok((live.is_empty() && is_free(&attempt.folder)?).then_some(Entry::Open))
    }

    pub(super) async fn launch(
        &mut self,
        attempt: &Attempt,
        share: Share,
        command: &[String],
        confinement: &Confinement,
    ) -> Result<()> {
        let script = attempt.folder.join("job.sh");
        fs::write(&script, self.script(attempt, command, confinement)?)?;
        if let Some(before) = self.submitted_at {
            let gap = Duration::from_secs(1) / self.settings.submit_per_second;
            tokio::time::sleep(gap.saturating_sub(before.elapsed())).await;
        }
        let mut arguments = vec!["--parsable".into()];
        arguments.extend(self.options(share.lane, share.cpus));
        let name = self.name(&attempt.task, attempt.number);
        arguments.push(format!("--job-name={name}").into());
        arguments.extend(self.excluding());
        arguments.push(joined("--chdir=", &attempt.folder));
        arguments.push(script.into());
        let submitted = self.commands.run("sbatch", &arguments).await;
        self.submitted_at = Some(Instant::now());
        self.submitted += 1;
        self.has_attempts = true;
        if submitted.is_err() {
            // There may be no others.
            self.avoided.clear();
        }
        let job = self.taken(submitted)?;
        tracing::info!(task = %attempt.task, name, job = job.trim(), "submitted");
        Ok(())
    }

    /// What every job of a task of a lane is submitted with.
    fn options(&self, lane: Lane, cpus: usize) -> Vec<OsString> {
        let config::Slurm { partition, account, qos, gpus, options, .. } = &self.settings;
        // A second attempt is decided here. Without `--export` the job had all that this service
        // was started with.
        let fixed = ["--output=/dev/null", "--export=NONE", "--no-requeue", "--nodes=1"];
        let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
        all.push("--ntasks=1".to_owned());
        all.push(format!("--cpus-per-task={cpus}"));
        all.push(format!("--signal=B:TERM@{MARGIN_SECONDS}"));
        if self.memory_mb > 0 {
            all.push(format!("--mem={}M", self.memory_mb));
        }
        if let Some(seconds) = self.seconds {
            all.push(format!("--time={}", seconds.div_ceil(60)));
        }
        let named = [("partition", partition), ("account", account), ("qos", qos), ("gres", gpus)];
        let is_for = |name: &str| name != "gres" || lane == Lane::Workers;
        let named = named.into_iter().filter(|(name, value)| !value.is_empty() && is_for(name));
        all.extend(named.map(|(name, value)| format!("--{name}={value}")));
        all.extend(options.iter().cloned());
        all.into_iter().map(OsString::from).collect()
    }

    /// Keeps a job from nodes on which others did not begin. Of the same option sbatch takes the last.
    fn excluding(&mut self) -> Option<OsString> {
        self.avoided.retain(|_, since| since.elapsed() < AVOID);
        let set = self.settings.options.iter().filter_map(|it| it.strip_prefix("--exclude="));
        let nodes: Vec<&str> = set.chain(self.avoided.keys().map(String::as_str)).collect();
        let option = || format!("--exclude={}", nodes.join(",")).into();
        (!self.avoided.is_empty()).then(option)
    }

    /// Nodes on which a job has ended before it began.
    pub(super) fn avoided(&self) -> Vec<String> {
        self.avoided.keys().cloned().collect()
    }

    /// Whether Slurm has ended the job of a task through no fault of the task's.
    pub(super) fn has_taken_back(&self, task: &str) -> bool {
        self.taken_back.contains(task)
    }

    /// Notes whose fault it is that a job ended and did not say how.
    fn blame(&mut self, task: &str, job: &Job, has_begun: bool) {
        if job.is_taken_back {
            self.taken_back.insert(task.to_owned());
        } else if !has_begun
            && !job.node.is_empty()
            && self.avoided.insert(job.node.clone(), Instant::now()).is_none()
        {
            tracing::error!(
                node = job.node,
                "a job has ended there before it began, and none is sent there for {} s: the node needs \
                 the folder of the tasks (tasks.folder) and the program (tasks.slurm.molboxd)",
                AVOID.as_secs()
            );
        }
    }

    fn script(
        &self,
        attempt: &Attempt,
        command: &[String],
        confinement: &Confinement,
    ) -> Result<String> {
        let own = [
            self.program.display().to_string(),
            "run-task".to_owned(),
            format!("--attempt={}", attempt.number),
            format!("--confinement={}", serde_json::to_string(confinement)?),
            attempt.folder.display().to_string(),
            "--".to_owned(),
        ];
        let words: Vec<String> = own.iter().chain(command).map(|word| quoted(word)).collect();
        Ok(format!("#!/bin/sh\nexec {}\n", words.join(" ")))
    }

    /// Tasks and numbers of the attempts that have a job which waits or runs, whether they are known
    /// here or not.
    pub(super) async fn live(&mut self) -> Result<Vec<(String, u32)>> {
        let mut jobs = self.asking(&[]).await?;
        jobs.retain(|_, job| !matches!(job.phase, Phase::Completing | Phase::Over));
        let attempt = |name: &String| {
            let (task, number) = name.strip_prefix(&self.prefix)?.rsplit_once('-')?;
            Some((task.to_owned(), number.parse().ok()?))
        };
        Ok(jobs.keys().filter_map(attempt).collect())
    }

    /// What became of each attempt; none until it is time to ask again.
    pub(super) async fn statuses(
        &mut self,
        attempts: &[Attempt],
    ) -> Option<Vec<io::Result<Status>>> {
        self.submitted = 0;
        self.look_at_trouble().await;
        self.has_attempts = !attempts.is_empty();
        if self.asked.is_some_and(|asked| asked.elapsed() < self.poll()) || attempts.is_empty() {
            return None;
        }
        let answer = self.asking(&[]).await;
        self.asked = Some(Instant::now());
        let jobs = match answer {
            Ok(jobs) => Some(jobs),
            Err(refusal) => {
                tracing::warn!(%refusal, "nothing is known of the tasks that run");
                None
            }
        };
        let mut statuses = Vec::new();
        for attempt in attempts {
            statuses.push(self.status(attempt, jobs.as_ref()).await);
        }
        Some(statuses)
    }

    async fn status(&mut self, attempt: &Attempt, jobs: Option<&Jobs>) -> io::Result<Status> {
        if let Some(exit) = attempt.exit()? {
            return Ok(Status::Exited(exit));
        }
        let Some(jobs) = jobs else { return Ok(Status::Unknown) };
        let name = self.name(&attempt.task, attempt.number);
        let job = jobs.get(&name);
        let phase = job.map_or(Phase::Over, |job| job.phase);
        let signs = self.signs.entry(attempt.task.clone()).or_insert_with(Signs::new);
        if let (Phase::Pending, Some(job)) = (phase, job) {
            *signs = Signs::new();
            return Ok(Status::Waiting(job.reason.clone()));
        }
        if phase == Phase::Suspended {
            *signs = Signs::new();
            return Ok(Status::Waiting("Suspended".to_owned()));
        }
        signs.look(&attempt.folder);
        let is_silent = signs.seen.elapsed() >= Duration::from_secs(self.settings.settle_seconds);
        let begun = attempt.begun()?;
        // What holds the lock lives. That nobody does proves nothing where there are no locks.
        let has_begun = begun.is_some();
        let has_lock = begun.is_some_and(|begun| begun.is_locked);
        let lives = has_lock && !is_free(&attempt.folder)?;
        let is_gone = has_lock && !lives && is_silent;
        if phase == Phase::Running && is_gone {
            signs.is_ended = true;
        }
        let is_ended = signs.is_ended;
        let status = match phase {
            Phase::Running if is_gone => {
                // Slurm said this of a job whose processes had all been killed, for as long as it
                // was not told to end it.
                tracing::warn!(job = name, "ended, as none of its processes lives");
                report(self.commands.cancel(&name, Stop::Kill).await);
                Status::Running
            }
            Phase::Completing if is_gone => Status::Lost,
            Phase::Over if lives => Status::Running,
            // It was ended before it came to a node.
            Phase::Over if job.is_some_and(|job| job.node.is_empty()) && !has_begun => Status::Lost,
            Phase::Over if is_silent => Status::Lost,
            Phase::Pending
            | Phase::Running
            | Phase::Suspended
            | Phase::Completing
            | Phase::Over => Status::Running,
        };
        if let (Status::Lost, Some(job), false) = (&status, job, is_ended) {
            self.blame(&attempt.task, job, has_begun);
        }
        Ok(status)
    }

    pub(super) async fn stop(&self, attempt: &Attempt, how: Stop) -> io::Result<()> {
        let name = self.name(&attempt.task, attempt.number);
        self.commands.cancel(&name, how).await.map_err(io::Error::other)?;
        // A job that Slurm has given up may still have processes; those of this machine are known.
        if how == Stop::Kill {
            process::kill(&attempt.folder)?;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, task: &str) {
        self.signs.remove(task);
        self.taken_back.remove(task);
    }

    fn poll(&self) -> Duration {
        Duration::from_secs_f64(self.settings.poll_seconds)
    }

    /// Asks at the next look, whenever the last one was.
    pub(super) fn hurry(&mut self) {
        self.asked = None;
    }

    /// Until there is something to look at.
    pub(super) fn tick(&self) -> Duration {
        if self.is_round_full(0) {
            return Duration::ZERO;
        }
        if !self.has_attempts {
            return self.poll();
        }
        self.asked.map_or(Duration::ZERO, |asked| self.poll().saturating_sub(asked.elapsed()))
    }

    /// Whether as many were submitted as may be before other things are looked at, besides so many
    /// that are about to be.
    pub(super) fn is_round_full(&self, n_prepared: usize) -> bool {
        self.submitted as usize + n_prepared >= self.settings.submit_per_second as usize
    }

    /// Why Slurm takes no jobs.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.cause.as_str())
    }

    /// Tries whether Slurm takes jobs again, if it did not.
    async fn look_at_trouble(&mut self) {
        if self.trouble.as_ref().is_some_and(|trouble| trouble.tried.elapsed() > RETRY) {
            let tried = self.test().await;
            if self.taken(tried).is_ok() {
                self.trouble = None;
            }
        }
    }

    /// Has Slurm look at a job without taking it.
    pub(super) async fn test(&self) -> Result<String, Refusal> {
        let mut arguments: Vec<OsString> = vec!["--test-only".into()];
        arguments.extend(self.options(Lane::Workers, self.settings.cpus));
        arguments.push("--wrap=true".into());
        self.commands.run("sbatch", &arguments).await
    }

    /// Notes why Slurm does not take jobs.
    fn taken<T>(&mut self, answer: Result<T, Refusal>) -> Result<T, NotTaken> {
        answer.map_err(|refusal| {
            let cause = refusal.to_string();
            self.trouble = Some(Trouble { cause: cause.clone(), tried: Instant::now() });
            NotTaken(cause)
        })
    }

    /// The jobs of this installation that Slurm remembers, or some of them.
    async fn asking(&mut self, which: &[String]) -> Result<Jobs, NotTaken> {
        let fixed = ["--noheader", "--states=all"].map(str::to_owned);
        let own = [format!("--user={}", getuid().as_raw()), format!("--format={FORMAT}")];
        let arguments = fixed.into_iter().chain(own).chain(which.iter().cloned());
        let answer =
            self.commands.run("squeue", &arguments.map(OsString::from).collect::<Vec<_>>()).await;
        let text = self.taken(answer)?;
        let mut jobs = Jobs::new();
        for (name, job) in text.lines().filter_map(|line| job(line, &self.prefix, &self.tasks)) {
            // Of two of one name, that of a withdrawn attempt is over.
            if job.phase != Phase::Over || !jobs.contains_key(&name) {
                jobs.insert(name, job);
            }
        }
        Ok(jobs)
    }
}

/// The commands of Slurm, and where its configuration lies.
struct Commands {
    conf: PathBuf,
}

impl Commands {
    /// Asks a job to stop or kills it, by its name. One that is not there has nothing to be stopped.
    async fn cancel(&self, name: &str, how: Stop) -> Result<(), Refusal> {
        let name = format!("--name={name}");
        let user = format!("--user={}", getuid().as_raw());
        let of_job = |options: &[&str]| {
            let own = [user.as_str(), name.as_str()];
            options.iter().copied().chain(own).map(OsString::from).collect::<Vec<_>>()
        };
        match how {
            Stop::Ask => {
                self.run("scancel", &of_job(&["--quiet", "--batch", "--signal=TERM"])).await?
            }
            Stop::Kill => {
                self.run("scancel", &of_job(&["--quiet", "--full", "--signal=KILL"])).await?;
                self.run("scancel", &of_job(&["--quiet"])).await?
            }
        };
        Ok(())
    }

    /// Runs a command of Slurm; what it printed. Of the environment it has nothing that would change
    /// what it does, but for the place of its configuration.
    async fn run(&self, program: &'static str, arguments: &[OsString]) -> Result<String, Refusal> {
        const THEIRS: [&str; 5] = ["SLURM_", "SQUEUE_", "SBATCH_", "SCANCEL_", "MOLBOX"];
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text != "SLURM_CONF" && THEIRS.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        if !self.conf.as_os_str().is_empty() {
            if !self.conf.exists() {
                return Err(Refusal::NoConf(self.conf.clone()));
            }
            command.env("SLURM_CONF", &self.conf);
        }
        let answer =
            timeout(LIMIT, command.output()).await.map_err(|_| Refusal::Silent(program))?;
        let output = answer.map_err(|error| Refusal::NotStarted(program, error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let errors = text
            .lines()
            .map(|line| line.trim().trim_start_matches("sbatch: ").trim_start_matches("error: "));
        Err(Refusal::Refused(program, errors.collect::<Vec<_>>().join("; ")))
    }
}

/// A line of `squeue`, if it is about a job of ours.
fn job(line: &str, prefix: &str, tasks: &Path) -> Option<(String, Job)> {
    let mut fields = line.trim().splitn(5, '|');
    let name = fields.next().filter(|name| name.starts_with(prefix))?;
    let state = fields.next()?;
    let is_taken_back =
        ["BOOT_FAIL", "CANCELLED", "NODE_FAIL", "PREEMPTED", "REVOKED"].contains(&state);
    let reason = fields.next()?.to_owned();
    let node = fields.next()?.to_owned();
    let folder = Path::new(fields.next()?);
    if !folder.starts_with(tasks) {
        return None;
    }
    Some((name.to_owned(), Job { phase: Phase::of(state), reason, node, is_taken_back }))
}

/// Whether nobody holds the lock of a folder, as far as the file system tells.
fn is_free(folder: &Path) -> io::Result<bool> {
    match Lock::take(folder) {
        Ok(lock) => Ok(lock.is_some()),
        Err(error) if has_no_locks(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// It is tried again at the next look.
fn report(done: Result<(), Refusal>) {
    if let Err(refusal) = done {
        tracing::error!(%refusal, "end a job");
    }
}

/// Why a command of Slurm gave no answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Its commands would try for longer than anybody waits.
    NoConf(PathBuf),
    NotStarted(&'static str, io::Error),
    Silent(&'static str),
    /// What it said.
    Refused(&'static str, String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConf(path) => {
                write!(f, "{} is not there: tasks.slurm.conf names it", path.display())
            }
            Self::NotStarted(program, error) if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "{program} is not there: install Slurm's commands, or set tasks.executor")
            }
            Self::NotStarted(program, error) => write!(f, "{program} does not start: {error}"),
            Self::Silent(program) => {
                let seconds = LIMIT.as_secs();
                write!(
                    f,
                    "{program} has not answered for {seconds} s; its controller may be away, or its \
                     configuration, which SLURM_CONF or tasks.slurm.conf names"
                )
            }
            Self::Refused(program, text) => write!(f, "{program}: {}{}", text, remedy(text)),
        }
    }
}

impl std::error::Error for Refusal {}

/// It is away, or died while it was asked.
const AWAY: &str = "; its controller does not answer: SLURM_CONF names its configuration";

/// The setting that a refusal is about.
fn remedy(text: &str) -> &'static str {
    let text = text.to_lowercase();
    let settings = [
        ("invalid partition", "; set tasks.slurm.partition to one that `sinfo` lists"),
        (
            "invalid account",
            "; set tasks.slurm.account (and tasks.slurm.partition) to what the user may use",
        ),
        ("invalid qos", "; set tasks.slurm.qos to one that the user may use"),
        (
            "generic resource",
            "; set tasks.slurm.gpus to what the nodes have (`sinfo --format='%P %G'`)",
        ),
        ("time limit", "; set worker.wall_seconds below the partition's limit"),
        ("memory", "; set worker.memory_mb below what the nodes have"),
        (
            "node configuration is not available",
            "; set tasks.slurm.cpus, tasks.slurm.gpus and worker.memory_mb to what a node has",
        ),
        ("unrecognized option", "; set tasks.slurm.options to what this sbatch knows"),
        ("invalid option", "; set tasks.slurm.options to what this sbatch knows"),
        ("feature specification", "; set tasks.slurm.options to features that the nodes have"),
        ("unable to contact", AWAY),
        ("zero bytes", AWAY),
        ("connection reset", AWAY),
        ("socket error", AWAY),
        ("socket timed out", AWAY),
        ("configuration source", "; SLURM_CONF names its configuration"),
    ];
    settings.iter().find(|(words, _)| text.contains(words)).map_or("", |(_, remedy)| remedy)
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut joined = OsString::from(option);
    joined.push(path);
    joined
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Signs {
    fn new() -> Self {
        Self { modified: None, seen: Instant::now(), is_ended: false }
    }

    fn look(&mut self, folder: &Path) {
        let work = folder.join(WORK);
        let files = [work.join("heartbeat"), work.join("progress.json"), folder.join("log.txt")];
        let newest = files
            .iter()
            .filter_map(|file| fs::symlink_metadata(file).and_then(|found| found.modified()).ok())
            .max();
        if newest != self.modified {
            (self.modified, self.seen) = (newest, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_squeue_is_about_a_job_of_ours_or_none() {
        let prefix = "molbox-0123abcd-";
        let tasks = Path::new("/shared/work");
        let job = |of_job: &str, folder: &str| job(&format!("{of_job}|{folder}"), prefix, tasks);
        let own = "/shared/work/tasks/job_1";
        let (name, found) = job("molbox-0123abcd-job_1-2|PENDING|Resources|", own).unwrap();
        assert_eq!(name, "molbox-0123abcd-job_1-2");
        let waits = Job {
            phase: Phase::Pending,
            reason: "Resources".to_owned(),
            node: String::new(),
            is_taken_back: false,
        };
        assert_eq!(found, waits);
        let (_, runs) = job("molbox-0123abcd-job_1-2|RUNNING|None|n1", own).unwrap();
        assert_eq!((runs.phase, &*runs.node), (Phase::Running, "n1"));
        for (state, is_taken_back) in [("CANCELLED", true), ("NODE_FAIL", true), ("FAILED", false)]
        {
            let line = format!("molbox-0123abcd-job_1-2|{state}|None|n1");
            assert_eq!(job(&line, own).unwrap().1.is_taken_back, is_taken_back, "{state}");
        }
        assert_eq!(job("molbox-other-job_1-2|RUNNING|None|n1", own), None);
        assert_eq!(job("", own), None);
        // Of a copy of the installation.
        let elsewhere = "/shared/workshop/tasks/job_1";
        assert_eq!(job("molbox-0123abcd-job_1-2|RUNNING|None|n1", elsewhere), None);
    }

    #[test]
    fn every_end_that_slurm_knows_is_one_and_an_unknown_state_is_none() {
        let over = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"];
        assert!(over.iter().all(|state| Phase::of(state) == Phase::Over));
        assert_eq!(Phase::of("SUSPENDED"), Phase::Suspended);
        assert_eq!(Phase::of("OF_A_LATER_RELEASE"), Phase::Running);
    }

    #[test]
    fn a_word_stays_one_in_a_shell() {
        let word = "it's {\"a\": $HOME} `x` \\";
        let script = format!("printf %s {}", quoted(word));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
    }
}
