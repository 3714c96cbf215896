//! Servers that are lost for good, with all that they had on their disks: their simulations go on
//! from what was kept of them in the bucket while they ran.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use molbox::Client;
use molbox::workflow::types::{EquilibrationStep, ProductionParams, SystemRecord};
use serde_json::Value;

use crate::common::{Service, kill_task, wait_for};
use crate::servers::{Shared, identifier};
use crate::work::{archive, wait_until, water};

/// One thread, so that what is resumed has the same bytes.
const SETTINGS: [&str; 4] = [
    "worker.cpus=1",
    "worker.checkpoint_seconds=0.2",
    "tasks.lost_seconds=1",
    "tasks.keep_seconds=1",
];
const STEPS: usize = 6000;

/// Submits a job of so many steps of production; its identifier.
async fn submit(molbox: &Client, system: &SystemRecord) -> String {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .seed(11)
            .minimization_steps(20)
            .integration_timestep(2)
            .equilibration([EquilibrationStep::builder().time(0.0002).traj_freq(20)])
            .production(
                ProductionParams::builder().time(STEPS as f64 * 2e-6).traj_freq(20).log_freq(10),
            )
    });
    job.send().await.unwrap().job_id.as_str().to_owned()
}

/// What is kept of a job in the bucket.
fn kept(service: &Service, job: &str) -> PathBuf {
    service.objects().join("tasks").join(job).join("kept")
}

/// A job that runs on a server of several, which is to be lost.
struct Running {
    shared: Shared,
    lost: Service,
    key: String,
    system: SystemRecord,
    job: String,
}

impl Running {
    /// Waits until frames of its production are kept that have come in so many parts, the head of the
    /// file among them. None where there are no several servers.
    async fn until_kept(parts: usize) -> Option<Self> {
        let shared = Shared::new()?;
        let lost = shared.start(&SETTINGS);
        let key = lost.key("ada");
        let molbox = lost.client_with(&key);
        let system = water(&molbox).await;
        let job = submit(&molbox, &system).await;
        let path = kept(&lost, &job).join("kept.json");
        wait_for("frames of its production are kept", || {
            let kept: Value = serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()?;
            let found = kept["files"]["work/output/production.dcd"]["parts"].as_array()?;
            (found.len() >= parts).then_some(())
        });
        Some(Self { shared, lost, key, system, job })
    }
}

/// Takes a server away with its tasks and all that it has; another may take its place at once.
fn lose(mut lost: Service, other: &Service) {
    let name = format!("host-{}", identifier(&lost.data));
    lost.kill();
    for entry in fs::read_dir(lost.data.join("tasks")).unwrap().flatten() {
        while kill_task(&entry.path()) {}
    }
    fs::remove_dir_all(&lost.data).unwrap();
    other.sql(&format!("update runner set expires_at = 0 where name = '{name}'"));
}

async fn results(molbox: &Client, job: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    archive(&molbox.download_job(job, folder.path().join("job.zip")).await.unwrap())
}

/// The step at which the last attempt of a job has resumed its production.
fn resumed_at(files: &BTreeMap<String, Vec<u8>>) -> usize {
    let log = String::from_utf8(files["log.txt"].clone()).unwrap();
    let mut steps = log.lines().filter_map(|line| {
        line.split_once("resuming at step ")?.1.strip_suffix(" of production")?.parse().ok()
    });
    steps.next_back().unwrap_or_else(|| panic!("it has not resumed: {log}"))
}

#[tokio::test]
async fn a_job_of_a_machine_that_never_comes_back_goes_on_from_what_was_kept_while_it_ran() {
    // Frames that were sent at two times.
    let Some(running) = Running::until_kept(3).await else { return };
    let Running { shared, lost, key, system, job } = running;
    let other = shared.start(&SETTINGS);
    lose(lost, &other);
    let molbox = other.client_with(&key);
    let record = wait_until(&molbox, &job, |job| job.status == "succeeded").await;
    assert_eq!(record.attempts, 2);
    assert!(!kept(&other, &job).exists(), "it has become results");
    let files = results(&molbox, &job).await;
    assert!(resumed_at(&files) > 0);
    // No frame is missing, and none is there twice.
    let undisturbed = submit(&molbox, &system).await;
    let record = wait_until(&molbox, &undisturbed, |job| job.status == "succeeded").await;
    assert_eq!(record.attempts, 1);
    let expected = results(&molbox, &undisturbed).await;
    for name in ["equilibration_1.dcd", "production.dcd", "production.csv", "production.pdb"] {
        assert!(files[name] == expected[name], "{name}");
    }
    assert_eq!(other.command(&["check"]), "0 files, 3 tasks: 0 damaged, 0 orphans");
}

#[tokio::test]
async fn a_job_whose_results_were_on_their_way_when_its_machine_was_lost_loses_none() {
    let Some(running) = Running::until_kept(2).await else { return };
    let Running { shared, lost, key, job, .. } = running;
    // One of its results cannot be written: there is something else of that name.
    let results_of = lost.objects().join("tasks").join(&job);
    fs::create_dir(results_of.join("production.dcd")).unwrap();
    lost.wait_until_it_logs("end an attempt");
    wait_for("others are there", || results_of.join("production.csv").exists().then_some(()));
    assert!(!results_of.join("commit/commit.json").exists(), "it shows that all are there");
    let other = shared.start(&SETTINGS);
    lose(lost, &other);
    fs::remove_dir(results_of.join("production.dcd")).unwrap();
    let molbox = other.client_with(&key);
    let record = wait_until(&molbox, &job, |job| job.status == "succeeded").await;
    assert_eq!(record.attempts, 2);
    let files = results(&molbox, &job).await;
    assert!(resumed_at(&files) > 0);
    let lines = String::from_utf8(files["production.csv"].clone()).unwrap();
    let steps: Vec<usize> = lines
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(steps, (1..=STEPS / 10).map(|n| 10 * n).collect::<Vec<_>>());
    assert_eq!(other.command(&["check"]), "0 files, 2 tasks: 0 damaged, 0 orphans");
}
