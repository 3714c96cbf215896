//! Random kills of the service and of its workers, as power cuts and bad memory would: no
//! acknowledged submission, no state and no frame is lost, and nothing is done twice.
//!
//! `MOLBOX_SOAK_SECONDS` sets how long kills go on, `MOLBOX_SOAK_SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use molbox::Client;
use molbox::workflow::types::{EquilibrationStep, ProductionParams};

use crate::common::{Process, Service, kill_task, processes, wait_for};
use crate::work::{archive, water};

const SECONDS: u64 = 30;
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

async fn submit(molbox: &Client, system: &str, key: &str) -> Option<String> {
    let job = molbox.job_submit().idempotency_key(key).body_map(|job| {
        job.box_id(system)
            .batch_name(key)
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
    Some(job.send().await.ok()?.job_id.as_str().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_kills_lose_no_submission_no_state_and_no_frame() {
    let seed = from_environment("MOLBOX_SOAK_SEED", u64::from(std::process::id()));
    let budget = Duration::from_secs(from_environment("MOLBOX_SOAK_SECONDS", SECONDS));
    println!("MOLBOX_SOAK_SEED={seed}");
    let mut random = Random(seed);
    let mut service = Service::start_with(&["worker.checkpoint_seconds=0.2", "worker.attempts=1000"]);
    let key = service.key("ada");
    let system = water(&service.client_with(&key)).await;
    let n_atoms = system.summary.as_ref().unwrap().atoms as usize;
    let system = system.system_id.as_str().to_owned();

    // Idempotency key -> the identifier that was acknowledged.
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    let mut open: Vec<String> = Vec::new();
    let mut ranks: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    let (mut service_kills, mut worker_kills, mut run_task_kills) = (0, 0, 0);
    let start = Instant::now();
    while start.elapsed() < budget {
        let molbox = service.client_with(&key);
        match random.below(5) {
            // A submission, and perhaps the death of the service while it is under way.
            0 if open.len() < MAX_OPEN => {
                let name = format!("kill-{}", acknowledged.len());
                let (client, box_id, once) = (molbox.clone(), system.clone(), name.clone());
                let sent = tokio::spawn(async move { submit(&client, &box_id, &once).await });
                if random.below(2) == 0 {
                    tokio::time::sleep(Duration::from_micros(random.below(15_000))).await;
                    service.kill_and_restart();
                    service_kills += 1;
                }
                let first = sent.await.unwrap();
                // What was not answered is sent again, under the same key.
                let again = submit(&service.client_with(&key), &system, &name).await.expect("the service is up");
                assert!(first.is_none_or(|id| id == again), "one key made two jobs");
                open.push(again.clone());
                acknowledged.insert(name, again);
            }
            1 => {
                service.kill_and_restart();
                service_kills += 1;
            }
            choice => {
                let folders = folders(&service);
                let folder = folders.get(random.below(folders.len().max(1) as u64) as usize);
                if choice == 2 {
                    // Its worker goes on, and nobody notes how it ends.
                    let run_task = folder.and_then(|f| processes(f).into_iter().find(Process::is_run_task));
                    run_task.iter().for_each(|process| process.signal("KILL"));
                    run_task_kills += run_task.iter().count();
                } else {
                    worker_kills += folder.iter().filter(|folder| kill_task(folder)).count();
                }
            }
        }
        for folder in folders(&service) {
            let workers =
                processes(&folder).into_iter().filter(|process| process.command.contains(" -m molbox_worker "));
            let workers: BTreeSet<u32> = workers.filter(|process| !process.is_run_task()).map(|p| p.pid).collect();
            assert!(workers.len() <= 1, "{} has workers {workers:?}", folder.display());
        }
        tokio::time::sleep(Duration::from_millis(random.below(1500))).await;
        let molbox = service.client_with(&key);
        for id in open.clone() {
            let job = molbox.job_view().job_id(id.as_str()).send().await.expect("what was acknowledged is there");
            let rank = ["queued", "running", "succeeded"].iter().position(|s| *s == job.status);
            let rank = rank.unwrap_or_else(|| panic!("{id} is {}: {:?}", job.status, job.error));
            let before = ranks.insert(id.clone(), (job.attempts, rank)).unwrap_or_default();
            // Back to queued only for another attempt.
            let is_next_attempt = before.1 == 1 && rank == 0;
            assert!(
                job.attempts >= before.0 && (rank >= before.1 || is_next_attempt),
                "{id} {before:?} {}",
                job.status
            );
            if rank == 2 {
                open.retain(|other| *other != id);
            }
        }
    }

    let molbox = service.client_with(&key);
    let folder = tempfile::tempdir().unwrap();
    for id in acknowledged.values() {
        let job = molbox.wait_job(id).await.unwrap();
        let stage = job.stages.iter().find(|stage| stage.name == "production").unwrap();
        assert_eq!((stage.steps, stage.frames), (FRAMES * STEPS_PER_FRAME, FRAMES));
        let files = archive(&molbox.download_job(id.as_str(), folder.path().join("job.zip")).await.unwrap());
        let log = String::from_utf8(files["production.csv"].clone()).unwrap();
        let steps: Vec<u64> =
            log.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!(steps, (1..=FRAMES * STEPS_PER_FRAME / 5).map(|n| n * 5).collect::<Vec<u64>>(), "{id}");
        assert_eq!(files["production.dcd"].len(), 276 + FRAMES as usize * (56 + 3 * (4 * n_atoms + 8)), "{id}");
    }
    let listed: Vec<String> = molbox
        .job_list()
        .stream()
        .map(|job| job.map(|job| job.job_id.as_str().to_owned()))
        .try_collect()
        .await
        .unwrap();
    let expected: BTreeSet<&String> = acknowledged.values().collect();
    assert_eq!(listed.len(), expected.len(), "every submission is there once");
    assert_eq!(listed.iter().collect::<BTreeSet<_>>(), expected);
    wait_for("nothing is left of them", || {
        std::fs::read_dir(service.data.join("tasks")).map_or(true, |mut d| d.next().is_none()).then_some(())
    });
    println!(
        "{} jobs, {service_kills} kills of the service, {worker_kills} of tasks, {run_task_kills} of run-task alone",
        listed.len()
    );
}

fn folders(service: &Service) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(service.data.join("tasks")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
