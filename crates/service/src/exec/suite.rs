//! What any executor promises. Each test runs on every executor there is.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::attempt::{Attempt, Exit, Status};
use super::capacity::Share;
use super::confine::{Confinement, WORK};
use super::{Entry, Executor, Executors, Stop};
use crate::config::{Config, Engine, Sandbox};
use crate::record::Lane;

#[path = "../../tests/service/slurm.rs"]
#[allow(clippy::print_stdout, dead_code, reason = "of the tests of the service")]
mod slurm;

/// Longer than anything here takes on a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(5);
/// How long a job of Slurm may seem to live.
const SETTLE_SECONDS: u64 = 2;

/// What looks and Slurm's own commands take on a machine that is busy.
const SLACK: Duration = Duration::from_secs(20);

const SHARE: Share = Share { lane: Lane::Workers, cpus: 1, gpu: None, user: None };

/// A folder of tasks, and executors on it, one after the other, as services are that are restarted.
struct Bench {
    folder: PathBuf,
    config: Config,
    installation: String,
    executors: Executors,
}

/// Hands a promise every kind of executor, without tasks.
fn on_each_executor(promise: impl AsyncFn(&mut Bench)) {
    on(Config::default(), &promise);
    if let Some(cluster) = slurm::shared() {
        on(config_of(cluster), &promise);
    }
}

/// Hands a promise a cluster.
fn on_slurm(promise: impl AsyncFn(&mut Bench)) {
    if let Some(cluster) = slurm::shared() {
        on(config_of(cluster), promise);
    }
}

fn config_of(cluster: &slurm::Slurm) -> Config {
    let mut config = Config::default();
    config.tasks.executor = Engine::Slurm;
    let slurm = &mut config.tasks.slurm;
    (slurm.conf, slurm.molboxd) = (cluster.conf(), molboxd());
    (slurm.slots, slurm.poll_seconds, slurm.submit_per_second) = (2, 0.1, 1000);
    slurm.settle_seconds = SETTLE_SECONDS;
    config
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn on(mut config: Config, promise: impl AsyncFn(&mut Bench)) {
    config.worker.slots = 2;
    let folder = tempfile::tempdir().unwrap();
    config.tasks.folder = folder.path().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // So that none sees the jobs of another.
        let installation = format!("{:08x}", COUNT.fetch_add(1, Ordering::Relaxed));
        let executors = executors(&config, &installation);
        let folder = folder.path().to_owned();
        promise(&mut Bench { folder, config, installation, executors }).await;
    });
}

/// Of which two tasks may run.
fn executors(config: &Config, installation: &str) -> Executors {
    let mut executors = Executors::new(config, installation);
    if let Executor::Processes(processes) = &mut executors.workers {
        processes.program = molboxd();
    }
    executors
}

/// The service's program, which is built beside its tests.
fn molboxd() -> PathBuf {
    let program = env::current_exe().unwrap().ancestors().nth(2).unwrap().join("molboxd");
    assert!(program.exists(), "cargo build --package molbox-service");
    program
}

impl Bench {
    fn attempt(&self, task: &str, number: u32) -> Attempt {
        let folder = self.folder.join(task);
        Attempt { task: task.to_owned(), folder, number, lane: Lane::Workers }
    }

    /// Starts a shell's script as the first attempt of a task.
    async fn start(&mut self, task: &str, script: &str) -> Attempt {
        let attempt = self.attempt(task, 1);
        self.launch(&attempt, script).await;
        attempt
    }

    async fn launch(&mut self, attempt: &Attempt, script: &str) {
        let confinement = self.confinement();
        self.launch_in(&confinement, attempt, &["/bin/sh", "-c", script]).await;
    }

    async fn launch_in(&mut self, confined: &Confinement, attempt: &Attempt, command: &[&str]) {
        let start = Instant::now();
        let entry = loop {
            if let Some(entry) = self.enter(attempt).await {
                break entry;
            }
            assert!(start.elapsed() < TIMEOUT, "somebody stays in the folder");
            tokio::time::sleep(PAUSE).await;
        };
        fs::create_dir_all(attempt.folder.join(WORK)).unwrap();
        let command: Vec<String> = command.iter().map(|&part| part.to_owned()).collect();
        self.executors.launch(entry, attempt, SHARE, &command, confined).await.unwrap();
    }

    fn confinement(&self) -> Confinement {
        Confinement {
            sandbox: Sandbox::Off,
            user: None,
            cache: self.folder.join("cache"),
            program: None,
            memory_mb: 0,
            has_gpu: false,
            file_bytes: 0,
            processes: 0,
        }
    }

    async fn enter(&mut self, attempt: &Attempt) -> Option<Entry> {
        self.executors.enter(attempt).await.unwrap()
    }

    /// The next look at an attempt.
    async fn status(&mut self, attempt: &Attempt) -> Status {
        self.statuses(std::slice::from_ref(attempt)).await.remove(0)
    }

    /// What became of each, in the same order.
    async fn statuses(&mut self, attempts: &[Attempt]) -> Vec<Status> {
        loop {
            let statuses = self.executors.statuses(attempts.to_vec()).await;
            if !statuses.is_empty() {
                let looked_at = statuses.iter().map(|(attempt, _)| attempt);
                assert!(looked_at.eq(attempts));
                return statuses.into_iter().map(|(_, status)| plain(status.unwrap())).collect();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for a status of an attempt.
    async fn becomes(&mut self, attempt: &Attempt, is_it: impl Fn(&Status) -> bool) -> Status {
        let start = Instant::now();
        loop {
            let status = self.status(attempt).await;
            if is_it(&status) {
                return status;
            }
            assert!(start.elapsed() < TIMEOUT, "it stays {status:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The status in the end.
    async fn end_of(&mut self, attempt: &Attempt) -> Status {
        self.becomes(attempt, is_end).await
    }

    /// The same of one that is killed as long as it lives.
    async fn end_by_kills(&mut self, attempt: &Attempt) -> Status {
        loop {
            let status = self.status(attempt).await;
            if is_end(&status) {
                return status;
            }
            self.executors.stop(attempt, Stop::Kill).await.unwrap();
        }
    }
}

fn is_end(status: &Status) -> bool {
    matches!(status, Status::Exited(_) | Status::Lost)
}

/// Who would have noted the end is killed too, but Slurm ends a job in steps, and may have `run-task`
/// hear of it a moment before.
fn is_kill(status: &Status) -> bool {
    match status {
        // As a shell tells of what it has started.
        Status::Exited(exit) => exit.signal.is_some() || exit.code == Some(128 + 9),
        other => *other == Status::Lost,
    }
}

async fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "nothing came of it");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The content of a file, once a script has written it.
async fn written(path: &Path) -> String {
    wait_for(|| fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))).await
}

fn exited(attempt: u32, code: i32) -> Status {
    Status::Exited(Exit { attempt, code: Some(code), signal: None, memory_ran_out: None })
}

/// Without what depends on the machine.
fn plain(status: Status) -> Status {
    match status {
        Status::Exited(exit) => Status::Exited(Exit { memory_ran_out: None, ..exit }),
        other => other,
    }
}

#[test]
fn a_command_runs_in_its_folder_and_its_end_and_its_output_are_known() {
    on_each_executor(async |bench| {
        let attempt = bench.start("job_1", "pwd; echo failing >&2; exit 7").await;
        assert_eq!(bench.end_of(&attempt).await, exited(1, 7));
        let log = fs::read_to_string(attempt.folder.join("log.txt")).unwrap();
        let folder = attempt.folder.canonicalize().unwrap();
        assert!(log.contains(&format!("{}\nfailing\n", folder.display())), "{log}");
    });
}

#[test]
fn statuses_of_many_come_in_their_order() {
    on_each_executor(async |bench| {
        let ended = bench.start("job_1", "exit 0").await;
        bench.end_of(&ended).await;
        let running = bench.start("job_2", "sleep 600").await;
        let never = bench.attempt("job_3", 1);
        bench.becomes(&running, |status| *status == Status::Running).await;
        bench.end_of(&never).await;
        let statuses = bench.statuses(&[running.clone(), never, ended]).await;
        assert_eq!(statuses, [Status::Running, Status::Lost, exited(1, 0)]);
        bench.end_by_kills(&running).await;
    });
}

#[test]
fn a_command_that_is_asked_to_stop_may_save_what_it_has() {
    on_each_executor(async |bench| {
        // `wait` is interrupted by a signal, a `sleep` in the foreground is not.
        let script = "trap 'echo saved; exit 3' TERM; sleep 600 & echo ready > work/ready; wait";
        let attempt = bench.start("job_1", script).await;
        written(&attempt.folder.join("work/ready")).await;
        bench.executors.stop(&attempt, Stop::Ask).await.unwrap();
        assert_eq!(bench.end_of(&attempt).await, exited(1, 3));
        let log = fs::read_to_string(attempt.folder.join("log.txt")).unwrap();
        assert!(log.contains("saved"), "{log}");
    });
}

#[test]
fn what_is_killed_is_gone_with_all_that_it_has_started() {
    on_each_executor(async |bench| {
        let script = "trap '' TERM; sleep 600 & echo $! > work/child; wait";
        let attempt = bench.start("job_1", script).await;
        let child = written(&attempt.folder.join("work/child")).await;
        assert!(is_kill(&bench.end_by_kills(&attempt).await));
        let stat = format!("/proc/{}/stat", child.trim());
        // A dead one whose parent has not noticed is a zombie.
        let is_gone = || match fs::read_to_string(&stat) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        wait_for(|| is_gone().then_some(())).await;
    });
}

#[test]
fn nobody_enters_while_a_process_of_an_earlier_attempt_lives() {
    on_each_executor(async |bench| {
        let attempt = bench.start("job_1", "echo ready > work/ready; sleep 600").await;
        written(&attempt.folder.join("work/ready")).await;
        let next = bench.attempt("job_1", 2);
        assert!(bench.enter(&next).await.is_none());
        // Whoever tried has had them killed.
        let start = Instant::now();
        while bench.enter(&next).await.is_none() {
            assert!(start.elapsed() < TIMEOUT, "somebody stays in the folder");
        }
        bench.launch(&next, "exit 0").await;
        assert_eq!(bench.end_of(&next).await, exited(2, 0));
    });
}

#[test]
fn nobody_enters_while_a_program_lives_that_was_asked_where_its_modules_lie() {
    on(Config::default(), async |bench: &mut Bench| {
        let program = bench.folder.join("python");
        let asked = bench.folder.join("asked");
        let script = format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", asked.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let confinement = Confinement { sandbox: Sandbox::Auto, ..bench.confinement() };
        let attempt = bench.attempt("job_1", 1);
        bench.launch_in(&confinement, &attempt, &[program.to_str().unwrap()]).await;
        let confine = parent_of(&written(&asked).await);
        let run_task = parent_of(&confine);
        kill(&[&run_task, &confine]);
        let next = bench.attempt("job_1", 2);
        assert!(bench.enter(&next).await.is_none());
    });
}

#[test]
fn the_end_of_an_earlier_attempt_is_not_that_of_a_later() {
    on_each_executor(async |bench| {
        let first = bench.start("job_1", "exit 0").await;
        assert_eq!(bench.end_of(&first).await, exited(1, 0));
        let second = bench.attempt("job_1", 2);
        assert_eq!(bench.end_of(&second).await, Status::Lost);
        bench.launch(&second, "exit 5").await;
        assert_eq!(bench.end_of(&second).await, exited(2, 5));
        assert_eq!(bench.end_of(&first).await, Status::Lost);
    });
}

#[test]
fn what_one_executor_has_launched_another_finds_stops_and_counts() {
    on_each_executor(async |bench| {
        let attempt = bench.start("job_1", "echo ready > work/ready; sleep 600").await;
        written(&attempt.folder.join("work/ready")).await;
        bench.executors = executors(&bench.config, &bench.installation);
        bench.executors.reserve("job_1", SHARE);
        bench.becomes(&attempt, |status| *status == Status::Running).await;
        assert!(bench.executors.place(Lane::Workers, 0, |_| false).is_some());
        bench.executors.reserve("job_2", SHARE);
        assert!(bench.executors.place(Lane::Workers, 0, |_| false).is_none());
        assert!(is_kill(&bench.end_by_kills(&attempt).await));
        bench.executors.forget("job_1");
        assert!(bench.executors.place(Lane::Workers, 0, |_| false).is_some());
    });
}

#[test]
fn what_is_launched_twice_runs_once() {
    on_slurm(async |bench| {
        let script = "echo run >> work/runs; while [ ! -e work/go ]; do sleep 0.05; done";
        let attempt = bench.start("job_1", script).await;
        let runs = attempt.folder.join("work/runs");
        written(&runs).await;
        // As after a submission whose answer was lost.
        let entry = bench.enter(&attempt).await;
        assert!(matches!(entry, Some(Entry::Submitted)));
        fs::write(attempt.folder.join("work/go"), "").unwrap();
        assert_eq!(bench.end_of(&attempt).await, exited(1, 0));
        assert!(matches!(bench.enter(&attempt).await, Some(Entry::Submitted)));
        assert_eq!(fs::read_to_string(&runs).unwrap(), "run\n");
    });
}

#[test]
fn an_attempt_that_counts_as_none_leaves_its_number_to_another() {
    on_each_executor(async |bench| {
        let withdrawn = bench.start("job_1", "exit 127").await;
        assert_eq!(bench.end_of(&withdrawn).await, exited(1, 127));
        withdrawn.withdraw().unwrap();
        let again = bench.start("job_1", "exit 0").await;
        assert_eq!(bench.end_of(&again).await, exited(1, 0));
    });
}

#[test]
fn fifty_at_once_are_asked_for_in_one_question() {
    on_slurm(async |bench| {
        let mut all = Vec::new();
        for n in 0..50 {
            all.push(bench.start(&format!("job_{n}"), "exit 6").await);
        }
        let start = Instant::now();
        // Each look at all of them is one `squeue`.
        while bench.statuses(&all).await.iter().any(|status| *status != exited(1, 6)) {
            assert!(start.elapsed() < TIMEOUT, "{:?}", bench.statuses(&all).await);
        }
    });
}

#[test]
fn the_environment_of_the_service_is_not_in_a_job() {
    on_slurm(async |bench| {
        // Cargo has set this for the tests.
        assert!(env::var_os("CARGO_MANIFEST_DIR").is_some());
        let attempt = bench.attempt("job_1", 1);
        let entry = bench.enter(&attempt).await.unwrap();
        fs::create_dir_all(attempt.folder.join(WORK)).unwrap();
        let confinement = bench.confinement();
        // What `confine` is started with, which leaves little of it to the command.
        let script = "tr '\\0' '\\n' < /proc/$PPID/environ > work/names; echo >> work/names";
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        bench.executors.launch(entry, &attempt, SHARE, &command, &confinement).await.unwrap();
        assert_eq!(bench.end_of(&attempt).await, exited(1, 0));
        let names = written(&attempt.folder.join("work/names")).await;
        assert!(names.contains("SLURM_JOB_ID="), "{names}");
        assert!(!names.contains("CARGO_"), "{names}");
    });
}

/// A process of this machine, by its number.
fn parent_of(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().to_owned()
}

fn kill(pids: &[&str]) {
    let status = std::process::Command::new("kill").arg("-KILL").args(pids).status().unwrap();
    assert!(status.success(), "{pids:?}");
}

/// A job whose processes are known: `slurmstepd`, `run-task`, and the command.
async fn job_of_processes(bench: &mut Bench) -> (Attempt, [String; 3]) {
    let attempt = bench.start("job_1", "echo $$ > work/pid; exec sleep 600").await;
    let command = written(&attempt.folder.join("work/pid")).await.trim().to_owned();
    let run_task = parent_of(&command);
    let step = parent_of(&run_task);
    bench.becomes(&attempt, |status| *status == Status::Running).await;
    (attempt, [step, run_task, command])
}

/// Slurm says that such a job runs, for as long as it is not told to end it.
#[test]
fn a_job_whose_processes_were_all_killed_is_lost() {
    on_slurm(async |bench| {
        let (attempt, pids) = job_of_processes(bench).await;
        kill(&pids.each_ref().map(String::as_str));
        let since = Instant::now();
        assert_eq!(bench.end_of(&attempt).await, Status::Lost);
        assert!(since.elapsed() < Duration::from_secs(SETTLE_SECONDS) + SLACK, "{since:?}");
    });
}

#[test]
fn a_job_without_its_slurmstepd_is_not_lost_while_its_child_lives() {
    on_slurm(async |bench| {
        let (attempt, [step, run_task, command]) = job_of_processes(bench).await;
        kill(&[&step]);
        let until = Instant::now() + 2 * Duration::from_secs(SETTLE_SECONDS);
        while Instant::now() < until {
            assert_eq!(bench.status(&attempt).await, Status::Running);
        }
        kill(&[&run_task, &command]);
        assert_eq!(bench.end_of(&attempt).await, Status::Lost);
    });
}

#[test]
fn nothing_is_concluded_while_the_controller_is_away() {
    let Some(cluster) = slurm::Slurm::start() else { return };
    on(config_of(&cluster), async |bench| {
        let script = "while [ ! -e work/go ]; do sleep 0.05; done; exit 4";
        let attempt = bench.start("job_1", script).await;
        bench.becomes(&attempt, |status| *status == Status::Running).await;
        cluster.save();
        cluster.kill("slurmctld");
        bench.becomes(&attempt, |status| *status == Status::Unknown).await;
        let trouble = bench.executors.trouble().unwrap();
        assert!(trouble.contains("controller"), "{trouble}");
        assert!(bench.executors.place(Lane::Workers, 0, |_| false).is_none());
        cluster.restart("slurmctld");
        bench.becomes(&attempt, |status| *status == Status::Running).await;
        fs::write(attempt.folder.join("work/go"), "").unwrap();
        assert_eq!(bench.end_of(&attempt).await, exited(1, 4));
    });
}

#[test]
fn a_job_that_is_preempted_saves_what_it_has_and_the_next_attempt_goes_on() {
    let Some(cluster) = slurm::shared() else { return };
    let mut config = config_of(cluster);
    config.tasks.slurm.partition = "spare".to_owned();
    on(config, async |bench| {
        let script = "trap 'echo saved > work/saved; exit 3' TERM; echo ready > work/ready; \
                      sleep 600 & wait";
        let attempt = bench.start("job_1", script).await;
        written(&attempt.folder.join("work/ready")).await;
        let urgent = ["--partition=urgent", "--exclusive", "--output=/dev/null"];
        let urgent = [&urgent[..], &["--parsable", "--wrap=sleep 600"]].concat();
        let urgent = cluster.run("sbatch", &urgent);
        assert_eq!(bench.end_of(&attempt).await, exited(1, 3));
        let next = bench.attempt("job_1", 2);
        let entry = loop {
            if let Some(entry) = bench.enter(&next).await {
                break entry;
            }
        };
        let command = ["/bin/sh", "-c", "test -e work/saved"].map(str::to_owned);
        let confinement = bench.confinement();
        bench.executors.launch(entry, &next, SHARE, &command, &confinement).await.unwrap();
        // The other one has the node.
        bench.becomes(&next, |status| matches!(status, Status::Waiting(_))).await;
        cluster.run("scancel", &[&urgent]);
        assert_eq!(bench.end_of(&next).await, exited(2, 0));
    });
}

#[test]
fn a_job_that_waits_is_called_back_at_once() {
    let Some(cluster) = slurm::shared() else { return };
    let mut config = config_of(cluster);
    config.tasks.slurm.options = vec!["--begin=now+1hour".to_owned()];
    config.tasks.slurm.settle_seconds = 3600;
    on(config, async |bench| {
        let attempt = bench.start("job_1", "exit 0").await;
        let waits = bench.becomes(&attempt, |status| matches!(status, Status::Waiting(_))).await;
        assert_eq!(waits, Status::Waiting("BeginTime".to_owned()));
        bench.executors.stop(&attempt, Stop::Kill).await.unwrap();
        assert_eq!(bench.end_of(&attempt).await, Status::Lost);
    });
}

#[test]
fn what_slurm_refuses_names_the_setting_and_is_tried_again() {
    let Some(cluster) = slurm::shared() else { return };
    type Change = fn(&mut Config);
    let changed: [(Change, &str); 5] = [
        (|config| config.tasks.slurm.partition = "none".to_owned(), "tasks.slurm.partition"),
        (|config| config.tasks.slurm.gpus = "gpu:9".to_owned(), "tasks.slurm.gpus"),
        (|config| config.worker.memory_mb = 1 << 30, "worker.memory_mb"),
        (
            |config| config.tasks.slurm.options = vec!["--nonsense".to_owned()],
            "tasks.slurm.options",
        ),
        (|config| config.tasks.slurm.conf = "/nowhere/slurm.conf".into(), "tasks.slurm.conf"),
    ];
    for (change, named) in changed {
        let mut config = config_of(cluster);
        change(&mut config);
        on(config, async |bench| {
            let attempt = bench.attempt("job_1", 1);
            let confinement = bench.confinement();
            let refused = match bench.executors.enter(&attempt).await {
                Ok(entry) => {
                    let entry = entry.expect("nobody is in the folder");
                    let command = ["true".to_owned()];
                    let executors = &mut bench.executors;
                    executors.launch(entry, &attempt, SHARE, &command, &confinement).await
                }
                Err(error) => Err(error),
            };
            let error = format!("{:#}", refused.unwrap_err());
            assert!(error.contains(named), "{named}: {error}");
            assert_eq!(bench.executors.trouble(), Some(&*error));
        });
    }
}
