//! Random kills of the service, of workers and of `run-task`, as power cuts and bad memory would,
//! under submissions, uploads, deletions and running simulations: nothing that was acknowledged is
//! lost, no frame is missing, and nothing is there or done twice.
//!
//! `MOLBOX_SOAK_SECONDS` sets how long kills go on, `MOLBOX_SOAK_SEED` repeats a run, and what was
//! done is written to `MOLBOX_SOAK_REPORT`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use molbox::workflow::types::{EquilibrationStep, ProductionParams};
use molbox::{Client, Error};
use serde_json::{Value, json};

use crate::common::{Process, Service, has_slurm, kill_task, processes, settings_of, wait_for};
use crate::slurm::Slurm;
use crate::work::{archive, water};

const SECONDS: u64 = 30;
/// The same kills each time that the tests run; `cargo xtask soak` draws others.
const SEED: u64 = 1;
/// Jobs that wait or run at a time; more would only wait.
const MAX_OPEN: usize = 4;
const FRAMES: u64 = 12;
const STEPS_PER_FRAME: u64 = 25;

/// `SplitMix64`: numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A service that is killed, and what it has acknowledged.
struct Killed {
    service: Service,
    /// Where its tasks are jobs, if they are; nobody else's, for its daemons are killed as well.
    cluster: Option<Slurm>,
    key: String,
    random: Random,
    system: String,
    n_atoms: usize,
    /// What has been submitted and not deleted.
    jobs: BTreeSet<String>,
    /// Those that have not been seen to end.
    open: Vec<String>,
    /// Attempts and state when a job was last looked at.
    ranks: BTreeMap<String, (u64, usize)>,
    /// Contents of the files that are registered.
    files: BTreeMap<String, Vec<u8>>,
    deleted: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_kills_lose_and_double_no_submission_no_file_and_no_frame() {
    let seed = from_environment("MOLBOX_SOAK_SEED", SEED);
    let budget = Duration::from_secs(from_environment("MOLBOX_SOAK_SECONDS", SECONDS));
    println!("MOLBOX_SOAK_SEED={seed}");
    let mut killed = Killed::new(seed).await;
    let start = Instant::now();
    while start.elapsed() < budget {
        match killed.random.below(if killed.cluster.is_some() { 10 } else { 9 }) {
            0 | 1 if killed.open.len() < MAX_OPEN => killed.submit().await,
            0..=2 => killed.upload().await,
            3 => killed.delete().await,
            4 => killed.kill_service(),
            9 => killed.kill_of_a_daemon(),
            _ => killed.kill_of_a_task(),
        }
        killed.no_task_has_two_workers();
        let pause = Duration::from_millis(killed.random.below(1500));
        tokio::time::sleep(pause).await;
        killed.no_job_goes_back().await;
    }
    killed.everything_is_there_once().await;
    println!("{:?}", killed.counts);
    if let Some(path) = std::env::var_os("MOLBOX_SOAK_REPORT") {
        std::fs::write(path, serde_json::to_string(&killed.counts).unwrap()).unwrap();
    }
}

/// The answer to a request; none when the service died over it.
fn answered<T>(answer: Result<T, Error>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) if error.status().is_none() => None,
        Err(error) => panic!("refused: {error}"),
    }
}

impl Killed {
    async fn new(seed: u64) -> Self {
        let settings = [
            "worker.checkpoint_seconds=0.2",
            "worker.attempts=1000",
            "limits.requests_per_minute=0",
        ];
        let cluster = has_slurm().then(|| Slurm::start().expect("Slurm is asked for"));
        let of_cluster = cluster.as_ref().map(settings_of).unwrap_or_default();
        // What Slurm has forgotten with its controller is known by its silence alone.
        let silence = cluster.as_ref().map(|_| "worker.heartbeat_timeout_seconds=30");
        let of_cluster = of_cluster.iter().map(String::as_str);
        let all: Vec<&str> = settings.into_iter().chain(of_cluster).chain(silence).collect();
        let service = Service::start_with(&all);
        let key = service.key("ada");
        let system = water(&service.client_with(&key)).await;
        Self {
            service,
            cluster,
            key,
            random: Random(seed),
            n_atoms: system.summary.as_ref().unwrap().atoms as usize,
            system: system.system_id.as_str().to_owned(),
            jobs: BTreeSet::new(),
            open: Vec::new(),
            ranks: BTreeMap::new(),
            files: BTreeMap::new(),
            deleted: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    fn client(&self) -> Client {
        self.service.client_with(&self.key)
    }

    fn count(&mut self, what: &'static str, n: usize) {
        *self.counts.entry(what).or_default() += n as u64;
    }

    fn kill_service(&mut self) {
        self.service.kill_and_restart();
        self.count("kills of the service", 1);
    }

    /// Sends a request, perhaps with the death of the service while it is under way. What is not
    /// answered is sent again.
    async fn send<T, F>(&mut self, request: impl Fn(Client, String) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let sent = tokio::spawn(request(self.client(), self.service.base_url.clone()));
        let dies = self.random.below(2) == 0;
        if dies {
            let moment = Duration::from_micros(self.random.below(15_000));
            tokio::time::sleep(moment).await;
            self.kill_service();
        }
        match sent.await.unwrap() {
            Some(answer) => answer,
            None if dies => request(self.client(), self.service.base_url.clone())
                .await
                .expect("the service is up"),
            None => panic!("no answer, and nobody died"),
        }
    }

    async fn submit(&mut self) {
        let (system, name) =
            (self.system.clone(), format!("job {}", self.counts.get("jobs").unwrap_or(&0)));
        let submission = (system.clone(), name.clone());
        let first = self.send(move |molbox, _| submit(molbox, submission.clone())).await;
        let again = submit(self.client(), (system, name)).await.expect("the service is up");
        assert_eq!(first, again, "one key made two jobs");
        self.open.push(first.clone());
        self.jobs.insert(first);
        self.count("jobs", 1);
    }

    async fn upload(&mut self) {
        let name = format!("file {}", self.counts.get("uploads").unwrap_or(&0));
        let remarks = format!("REMARK {}\n", self.random.below(u64::MAX))
            .repeat(self.random.below(100_000) as usize);
        let content = remarks + "ATOM      1  O   HOH A   1       0.000   0.000   0.000\n";
        // One that is not answered leaves a link that nobody knows.
        let link = self
            .send(|molbox, _| async move {
                answered(molbox.upload_url_create().filetype("pdb").send().await)
                    .map(|link| link.into_inner())
            })
            .await;
        let (_, path) = link.upload_url.split_once("/upload/").unwrap();
        let (path, sent) = (path.to_owned(), content.clone());
        let status = self
            .send(move |_, base_url| {
                let request = reqwest::Client::new()
                    .put(format!("{base_url}/upload/{path}"))
                    .body(sent.clone());
                async { request.send().await.ok().map(|answer| answer.status()) }
            })
            .await;
        assert_eq!(status, 200);
        let id = link.file_id.as_str().to_owned();
        let registration = (id.clone(), name);
        self.send(move |molbox, _| register(molbox, registration.clone())).await;
        self.files.insert(id, content.into_bytes());
        self.count("uploads", 1);
    }

    /// Deletes a file, or a job that has ended, which is looked through before.
    async fn delete(&mut self) {
        let ended: Vec<&String> = self.jobs.iter().filter(|id| !self.open.contains(id)).collect();
        let n = self.random.below((ended.len() + self.files.len()).max(1) as u64) as usize;
        let chosen = ended.into_iter().chain(self.files.keys()).nth(n).cloned();
        let Some(id) = chosen else { return };
        if self.files.remove(&id).is_none() {
            self.job_is_whole(&id).await;
            self.jobs.remove(&id);
        }
        let of = id.clone();
        self.send(move |molbox, _| delete(molbox, of.clone())).await;
        self.deleted.push(id);
        self.count("deletions", 1);
    }

    /// Kills the controller of the cluster, or what starts jobs on a node, and starts it again.
    fn kill_of_a_daemon(&mut self) {
        let daemon = ["slurmctld", "slurmd.n1"][self.random.below(2) as usize];
        let cluster = self.cluster.as_ref().expect("its tasks are jobs");
        cluster.kill(daemon);
        cluster.restart(daemon);
        cluster.wait();
        self.count("kills of Slurm's daemons", 1);
    }

    /// Kills the worker of a task, its `run-task`, or both at once.
    fn kill_of_a_task(&mut self) {
        let (folders, which) = (folders(&self.service), self.random.below(3));
        let n = self.random.below(folders.len().max(1) as u64) as usize;
        let Some(folder) = folders.get(n) else { return };
        if which == 0 {
            let is_killed = kill_task(folder);
            self.count("kills of workers with their run-task", usize::from(is_killed));
            return;
        }
        // Without its `run-task` a worker goes on, and nobody notes how it ends.
        let (is_victim, what): (fn(&Process) -> bool, _) = if which == 1 {
            (Process::is_run_task, "kills of run-task alone")
        } else {
            (is_worker, "kills of workers alone")
        };
        let victim = processes(folder).into_iter().find(is_victim);
        victim.iter().for_each(|process| process.signal("KILL"));
        self.count(what, victim.iter().count());
    }

    fn no_task_has_two_workers(&self) {
        for folder in folders(&self.service) {
            let mut workers = processes(&folder);
            workers.retain(is_worker);
            // What a process starts has its command line until it is another program: the
            // interpreter that `confine` asks for its paths, GROMACS that a worker runs.
            let all: Vec<u32> = workers.iter().map(|process| process.pid).collect();
            workers.retain(|process| {
                let is_child = process.parent().is_some_and(|parent| all.contains(&parent));
                !is_child && !process.command.contains(" confine ")
            });
            let workers: Vec<u32> = workers.iter().map(|process| process.pid).collect();
            assert!(workers.len() <= 1, "{} has workers {workers:?}", folder.display());
        }
    }

    async fn no_job_goes_back(&mut self) {
        let molbox = self.client();
        for id in self.open.clone() {
            let job = molbox
                .job_view()
                .job_id(id.as_str())
                .send()
                .await
                .expect("what was acknowledged is there");
            let rank = ["queued", "running", "succeeded"].iter().position(|s| *s == job.status);
            let rank = rank.unwrap_or_else(|| panic!("{id} is {}: {:?}", job.status, job.error));
            let before = self.ranks.insert(id.clone(), (job.attempts, rank)).unwrap_or_default();
            // Back to queued only for another attempt. What Slurm did not take, or has forgotten
            // before it began, was no attempt.
            let was_running = before.1 == 1;
            let withdrawn = u64::from(was_running && rank < 2 && self.cluster.is_some());
            let is_counted = job.attempts + withdrawn >= before.0.max(u64::from(rank == 2));
            let goes_on = is_counted && (rank >= before.1 || was_running && rank == 0);
            assert!(goes_on, "{id} was {before:?} and is {:?}", (job.attempts, &job.status));
            if rank == 2 {
                self.open.retain(|other| *other != id);
                self.count("jobs of several attempts", usize::from(job.attempts > 1));
            }
        }
    }

    /// Every frame and every line of the log of a job is there once.
    async fn job_is_whole(&self, id: &str) {
        let molbox = self.client();
        let mut ends = pin!(molbox.wait_job(id).into_future());
        let job = loop {
            match tokio::time::timeout(Duration::from_secs(1), &mut ends).await {
                Ok(ended) => break ended.unwrap(),
                Err(_) => self.cluster.iter().for_each(Slurm::resume),
            }
        };
        let stage = job.stages.iter().find(|stage| stage.name == "production").unwrap();
        assert_eq!((stage.steps, stage.frames), (FRAMES * STEPS_PER_FRAME, FRAMES));
        let folder = tempfile::tempdir().unwrap();
        let files = archive(&molbox.download_job(id, folder.path().join("job.zip")).await.unwrap());
        let names: Vec<&String> = files.keys().collect();
        assert!(
            files.contains_key("production.csv") && files.contains_key("production.dcd"),
            "{id} has {names:?}"
        );
        let log = String::from_utf8(files["production.csv"].clone()).unwrap();
        let steps: Vec<u64> = log
            .lines()
            .skip(1)
            .map(|line| line.split(',').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(
            steps,
            (1..=FRAMES * STEPS_PER_FRAME / 5).map(|n| n * 5).collect::<Vec<u64>>(),
            "{id}"
        );
        let frames = files["production.dcd"].get(276..).expect("a header");
        let frames: Vec<&[u8]> = frames.chunks(56 + 3 * (4 * self.n_atoms + 8)).collect();
        assert_eq!(frames.len() as u64, FRAMES, "{id}");
        assert_eq!(
            frames[0].len(),
            frames[frames.len() - 1].len(),
            "{id}: the last frame is whole"
        );
        // Atoms move: two frames that are the same are one that is there twice.
        assert_eq!(frames.iter().collect::<BTreeSet<_>>().len() as u64, FRAMES, "{id}");
    }

    async fn everything_is_there_once(&mut self) {
        let molbox = self.client();
        for id in &self.jobs {
            self.job_is_whole(id).await;
        }
        let folder = tempfile::tempdir().unwrap();
        for (id, content) in &self.files {
            let path = molbox.download_file(id, folder.path().join("file.pdb")).await.unwrap();
            assert!(std::fs::read(path).unwrap() == *content, "{id} has other content");
        }
        let jobs = molbox.job_list().stream().map_ok(|job| job.job_id.as_str().to_owned());
        let jobs: Vec<String> = jobs.try_collect().await.unwrap();
        assert_eq!(jobs.len(), self.jobs.len(), "every submission is there once");
        assert_eq!(jobs.into_iter().collect::<BTreeSet<_>>(), self.jobs);
        let files = molbox
            .file_list()
            .status("ready")
            .stream()
            .map_ok(|file| file.file_id.as_str().to_owned());
        let files: Vec<String> = files.try_collect().await.unwrap();
        assert_eq!(files.len(), self.files.len(), "every upload is there once");
        assert!(files.iter().all(|id| self.files.contains_key(id)));
        for id in &self.deleted {
            let found = if id.starts_with("file_") {
                molbox.file_view().file_id(id.as_str()).send().await.map(drop)
            } else {
                molbox.job_view().job_id(id.as_str()).send().await.map(drop)
            };
            assert_eq!(found.unwrap_err().status().unwrap(), 404, "{id} was deleted");
        }
        wait_for("nothing is left of the tasks", || {
            folders(&self.service).is_empty().then_some(())
        });
        // What uploads and deletions have left that were broken off is removed at the start.
        self.service.kill_and_restart();
        wait_for("nothing is found by the check", || {
            let report: Value =
                serde_json::from_str(&self.service.command(&["check", "--json"])).unwrap();
            (report["findings"] == json!([])).then_some(())
        });
    }
}

async fn submit(molbox: Client, (system, name): (String, String)) -> Option<String> {
    let job = molbox.job_submit().idempotency_key(name.as_str()).body_map(|job| {
        job.box_id(system.as_str())
            .batch_name(name.as_str())
            .minimization_steps(10)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(
                ProductionParams::builder()
                    .type_("NVT")
                    .time(0.000_002 * (FRAMES * STEPS_PER_FRAME) as f64)
                    .traj_freq(STEPS_PER_FRAME as i64)
                    .log_freq(5),
            )
    });
    answered(job.send().await).map(|job| job.job_id.as_str().to_owned())
}

async fn register(molbox: Client, (id, name): (String, String)) -> Option<()> {
    let registration = molbox
        .file_register()
        .idempotency_key(name.as_str())
        .body_map(|file| file.file_id(id.as_str()).name(name.as_str()));
    answered(registration.send().await).map(drop)
}

async fn delete(molbox: Client, id: String) -> Option<()> {
    let deleted = if id.starts_with("file_") {
        molbox.file_delete().file_id(id.as_str()).send().await.map(drop)
    } else {
        molbox.job_delete().job_id(id.as_str()).send().await.map(drop)
    };
    match deleted {
        // It was deleted before the service died.
        Err(error) if error.status().is_some_and(|status| status == 404) => Some(()),
        deleted => answered(deleted),
    }
}

fn is_worker(process: &Process) -> bool {
    process.command.contains(" -m molbox_worker ") && !process.is_run_task()
}

/// Those of the tasks that run.
fn folders(service: &Service) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(service.data.join("tasks")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
