//! What any executor promises. Each test runs on every executor there is.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::attempt::{Attempt, Exit, Status};
use super::capacity::{Capacity, Share};
use super::confine::{Confinement, WORK};
use super::{Executor, Stop};
use crate::config::{Config, Sandbox};
use crate::record::Lane;

/// Longer than anything here takes on a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(60);

const SHARE: Share = Share { lane: Lane::Workers, cpus: 1, gpu: None, user: None };

/// A folder of tasks, and executors on it, one after the other, as services are that are restarted.
struct Bench {
    folder: PathBuf,
    executor: Executor,
}

/// Hands a promise every kind of executor, without tasks.
fn on_each_executor(promise: impl AsyncFn(&mut Bench)) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        promise(&mut Bench { folder: folder.path().to_owned(), executor: executor() }).await;
    });
}

/// Processes of this machine, of which two may run.
fn executor() -> Executor {
    let mut config = Config::default();
    config.worker.slots = 2;
    Executor { program: molboxd(), ..Executor::new(Capacity::of(&config)) }
}

/// The service's program, which is built beside its tests.
fn molboxd() -> PathBuf {
    let program = env::current_exe().unwrap().ancestors().nth(2).unwrap().join("molboxd");
    assert!(program.exists(), "cargo build --package molbox-service");
    program
}

impl Bench {
    fn attempt(&self, task: &str, number: u32) -> Attempt {
        Attempt { task: task.to_owned(), folder: self.folder.join(task), number }
    }

    /// Starts a shell's script as the first attempt of a task.
    fn start(&mut self, task: &str, script: &str) -> Attempt {
        let attempt = self.attempt(task, 1);
        self.launch(&attempt, script);
        attempt
    }

    fn launch(&mut self, attempt: &Attempt, script: &str) {
        let entry = self.executor.enter(attempt).unwrap().expect("nobody is in the folder");
        fs::create_dir_all(attempt.folder.join(WORK)).unwrap();
        let confinement = Confinement {
            sandbox: Sandbox::Off,
            user: None,
            cache: self.folder.join("cache"),
            memory_mb: 0,
            file_bytes: 0,
            processes: 0,
        };
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        self.executor.launch(entry, attempt, SHARE, &command, &confinement).unwrap();
    }

    fn status(&mut self, attempt: &Attempt) -> Status {
        self.executor.statuses(std::slice::from_ref(attempt)).remove(0).unwrap()
    }

    /// The status in the end, whatever `again` does until then.
    async fn end_of(&mut self, attempt: &Attempt, again: impl Fn(&Executor)) -> Status {
        wait_for(|| match self.status(attempt) {
            Status::Running => {
                again(&self.executor);
                None
            }
            ended => Some(ended),
        })
        .await
    }
}

async fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "nothing came of it");
        tokio::time::sleep(Duration::from_millis(5)).await;
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
        let attempt = bench.start("job_1", "pwd; echo failing >&2; exit 7");
        assert_eq!(plain(bench.end_of(&attempt, |_| {}).await), exited(1, 7));
        let log = fs::read_to_string(attempt.folder.join("log.txt")).unwrap();
        let folder = attempt.folder.canonicalize().unwrap();
        assert!(log.contains(&format!("{}\nfailing\n", folder.display())), "{log}");
    });
}

#[test]
fn statuses_of_many_come_in_their_order() {
    on_each_executor(async |bench| {
        let ended = bench.start("job_1", "exit 0");
        bench.end_of(&ended, |_| {}).await;
        let running = bench.start("job_2", "sleep 600");
        let never = bench.attempt("job_3", 1);
        let all = [running.clone(), never, ended];
        let statuses = bench.executor.statuses(&all);
        let statuses: Vec<_> = statuses.into_iter().map(|status| plain(status.unwrap())).collect();
        assert_eq!(statuses, [Status::Running, Status::Lost, exited(1, 0)]);
        bench.end_of(&running, |executor| executor.stop(&running, Stop::Kill).unwrap()).await;
    });
}

#[test]
fn a_command_that_is_asked_to_stop_may_save_what_it_has() {
    on_each_executor(async |bench| {
        // `wait` is interrupted by a signal, a `sleep` in the foreground is not.
        let script = "trap 'echo saved; exit 3' TERM; sleep 600 & echo ready > work/ready; wait";
        let attempt = bench.start("job_1", script);
        written(&attempt.folder.join("work/ready")).await;
        bench.executor.stop(&attempt, Stop::Ask).unwrap();
        assert_eq!(plain(bench.end_of(&attempt, |_| {}).await), exited(1, 3));
        let log = fs::read_to_string(attempt.folder.join("log.txt")).unwrap();
        assert!(log.contains("saved"), "{log}");
    });
}

#[test]
fn what_is_killed_is_gone_with_all_that_it_has_started() {
    on_each_executor(async |bench| {
        let script = "trap '' TERM; sleep 600 & echo $! > work/child; wait";
        let attempt = bench.start("job_1", script);
        let child = written(&attempt.folder.join("work/child")).await;
        let end = bench.end_of(&attempt, |executor| executor.stop(&attempt, Stop::Kill).unwrap());
        // Who would have noted the end is killed too.
        assert_eq!(end.await, Status::Lost);
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
        let attempt = bench.start("job_1", "echo ready > work/ready; sleep 600");
        written(&attempt.folder.join("work/ready")).await;
        let next = bench.attempt("job_1", 2);
        assert!(bench.executor.enter(&next).unwrap().is_none());
        // Whoever tried has had them killed.
        let entry = wait_for(|| bench.executor.enter(&next).unwrap()).await;
        drop(entry);
        bench.launch(&next, "exit 0");
        assert_eq!(plain(bench.end_of(&next, |_| {}).await), exited(2, 0));
    });
}

#[test]
fn the_end_of_an_earlier_attempt_is_not_that_of_a_later() {
    on_each_executor(async |bench| {
        let first = bench.start("job_1", "exit 0");
        assert_eq!(plain(bench.end_of(&first, |_| {}).await), exited(1, 0));
        let second = bench.attempt("job_1", 2);
        assert_eq!(bench.status(&second), Status::Lost);
        bench.launch(&second, "exit 5");
        assert_eq!(plain(bench.end_of(&second, |_| {}).await), exited(2, 5));
        assert_eq!(bench.status(&first), Status::Lost);
    });
}

#[test]
fn what_one_executor_has_launched_another_finds_stops_and_counts() {
    on_each_executor(async |bench| {
        let attempt = bench.start("job_1", "echo ready > work/ready; sleep 600");
        written(&attempt.folder.join("work/ready")).await;
        bench.executor = executor();
        bench.executor.adopt("job_1", SHARE);
        assert_eq!(bench.status(&attempt), Status::Running);
        assert!(bench.executor.capacity.place(Lane::Workers, |_| false).is_some());
        bench.executor.adopt("job_2", SHARE);
        assert!(bench.executor.capacity.place(Lane::Workers, |_| false).is_none());
        let end = bench.end_of(&attempt, |executor| executor.stop(&attempt, Stop::Kill).unwrap());
        assert_eq!(end.await, Status::Lost);
        bench.executor.forget("job_1");
        assert!(bench.executor.capacity.place(Lane::Workers, |_| false).is_some());
    });
}
