//! Jobs that failed or were cancelled, and go on.

use std::collections::BTreeMap;
use std::fs;

use molbox::workflow::types::{EquilibrationStep, JobRecord, ProductionParams, SystemRecord};
use molbox::{Client, Error};
use serde_json::Value;

use crate::common::{Service, processes, wait_for};
use crate::work::{archive, endless_job, unstable_job, until_it_produces, wait_until, water};

async fn submit(
    molbox: &Client,
    system: &SystemRecord,
    minimization_steps: i64,
    steps: u32,
) -> String {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .seed(11)
            .minimization_steps(minimization_steps)
            .equilibration([EquilibrationStep::builder().time(0.0001).log_freq(10)])
            .production(
                ProductionParams::builder()
                    .time(f64::from(steps) * 2e-6)
                    .traj_freq(20)
                    .log_freq(10),
            )
    });
    job.send().await.unwrap().job_id.as_str().to_owned()
}

async fn retry(molbox: &Client, id: &str) -> JobRecord {
    molbox.job_retry().job_id(id).send().await.unwrap().into_inner()
}

async fn cancel(molbox: &Client, id: &str) -> JobRecord {
    molbox.job_cancel().job_id(id).send().await.unwrap();
    wait_until(molbox, id, |job| job.status != "running").await
}

async fn results(molbox: &Client, id: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    archive(&molbox.download_job(id, folder.path().join("results.zip")).await.unwrap())
}

fn committed(service: &Service, id: &str) -> Option<Value> {
    let folder = service.data.join("tasks").join(id);
    serde_json::from_str(&fs::read_to_string(folder.join("work/commit/commit.json")).ok()?).ok()
}

fn refused<T>(answer: Result<T, Error>) -> (u16, String) {
    let error = answer.err().unwrap();
    (error.status().unwrap().as_u16(), error.to_string())
}

#[tokio::test]
async fn a_job_cancelled_anywhere_and_retried_gives_the_bytes_of_one_that_ran_through() {
    // On one thread a simulation is exact.
    let service =
        Service::start_with(&["worker.cpus=1", "worker.slots=1", "worker.checkpoint_seconds=0.3"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let whole = submit(&molbox, &system, 100, 400).await;
    let id = submit(&molbox, &system, 100, 400).await;
    // Before it has started.
    assert_eq!(cancel(&molbox, &id).await.attempts, 0);
    let whole_job = molbox.wait_job(&whole).await.unwrap();
    let queued = retry(&molbox, &id).await;
    assert_eq!((queued.status.as_str(), queued.attempts, queued.finished_at), ("queued", 0, None));
    for (attempt, stage) in [(1, None), (2, Some(0)), (3, Some(1))] {
        wait_until(&molbox, &id, |job| job.status == "running" && job.attempts == attempt).await;
        wait_for("it is in the stage", || {
            let commit = committed(&service, &id)?;
            (commit["stage"].as_u64() == stage && (stage != Some(1) || commit["step"] != 0))
                .then_some(())
        });
        let job = cancel(&molbox, &id).await;
        assert_eq!((job.status.as_str(), job.attempts), ("cancelled", attempt));
        let names = results(&molbox, &id).await.into_keys().collect::<Vec<_>>();
        assert!(
            !names.iter().any(|name| name.contains("commit") || name.contains("checkpoint")),
            "{names:?}"
        );
        let queued = retry(&molbox, &id).await;
        assert_eq!(
            (queued.status.as_str(), queued.error, queued.finished_at),
            ("queued", None, None)
        );
    }
    let job = molbox.wait_job(&id).await.unwrap();
    assert_eq!(job.attempts, 4);
    let (whole, retried) = (results(&molbox, &whole).await, results(&molbox, &id).await);
    assert_eq!(whole.keys().collect::<Vec<_>>(), retried.keys().collect::<Vec<_>>());
    for (name, content) in &whole {
        // These tell when, and as which job.
        let describes = ["README.txt", "log.txt", "manifest.json", "ro-crate-metadata.json"];
        if !describes.contains(&name.as_str()) {
            assert!(retried[name] == *content, "{name} differs");
        }
    }
    let steps = |job: &JobRecord| {
        job.stages.iter().map(|stage| (stage.steps, stage.frames)).collect::<Vec<_>>()
    };
    assert_eq!(steps(&job), steps(&whole_job));
    let log = String::from_utf8(retried["log.txt"].clone()).unwrap();
    assert!(log.contains("resuming at step"), "{log}");
}

#[tokio::test]
async fn a_job_that_took_longer_than_it_may_ends_by_a_retry() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = submit(&molbox, &system, 20, 2000).await;
    until_it_produces(&molbox, &id).await;
    let folder = service.data.join("tasks").join(&id);
    // However fast the machine is, it stands still until its time is over.
    processes(&folder)
        .iter()
        .filter(|process| !process.is_run_task())
        .for_each(|worker| worker.signal("STOP"));
    service.kill();
    service.restart_with(&["worker.wall_seconds=1", "worker.stop_seconds=1"]);
    let error = service.client_with(&key).wait_job(&id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    assert_eq!(task.failure.as_ref().unwrap().code, "wall_limit");
    service.kill();
    service.restart_with(&[]);
    let molbox = service.client_with(&key);
    assert_eq!(retry(&molbox, &id).await.attempts, 1);
    molbox.wait_job(&id).await.unwrap();
    let files = results(&molbox, &id).await;
    let log = String::from_utf8(files["production.csv"].clone()).unwrap();
    let steps: Vec<u64> =
        log.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(steps, (1..=200).map(|n| n * 10).collect::<Vec<u64>>());
    let n_atoms = system.summary.unwrap().atoms as usize;
    assert_eq!(files["production.dcd"].len(), 276 + 100 * (56 + 3 * (4 * n_atoms + 8)));
    // What was retried can be extended.
    molbox
        .job_extend()
        .job_id(id.as_str())
        .body_map(|more| more.time(0.0001))
        .send()
        .await
        .unwrap();
    let job = molbox.wait_job(&id).await.unwrap();
    assert_eq!(job.stages.last().unwrap().frames, 102);
}

#[tokio::test]
async fn a_failure_that_repeats_is_told_again() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = unstable_job(&molbox, &system).await;
    for attempt in 1..=3 {
        molbox.wait_job(&id).await.unwrap_err();
        let job = molbox.job_view().job_id(id.as_str()).send().await.unwrap().into_inner();
        assert_eq!((job.error.unwrap().code.as_str(), job.attempts), ("unstable", attempt));
        retry(&molbox, &id).await;
    }
    molbox.wait_job(&id).await.unwrap_err();
    let log = String::from_utf8(results(&molbox, &id).await["log.txt"].clone()).unwrap();
    assert_eq!(log.matches("failed: unstable: ").count(), 4, "the log has all attempts: {log}");
}

#[tokio::test]
async fn a_job_cancelled_before_its_next_attempt_has_a_manifest_of_that() {
    let mut service = Service::start_with(&["worker.slots=1"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let failed = unstable_job(&molbox, &system).await;
    molbox.wait_job(&failed).await.unwrap_err();
    let done = submit(&molbox, &system, 5, 40).await;
    molbox.wait_job(&done).await.unwrap();
    let before = results(&molbox, &done).await;
    let busy = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &busy).await;

    retry(&molbox, &failed).await;
    molbox
        .job_extend()
        .job_id(done.as_str())
        .body_map(|more| more.time(0.0001))
        .send()
        .await
        .unwrap();
    for id in [&failed, &done] {
        molbox.job_cancel().job_id(id.as_str()).send().await.unwrap();
        let job = wait_until(&molbox, id, |job| job.status != "queued").await;
        assert_eq!((job.status.as_str(), &job.error), ("cancelled", &None));
        let files = results(&molbox, id).await;
        let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        assert_eq!((&manifest["status"], manifest.get("error")), (&"cancelled".into(), None));
        assert_eq!(manifest["parameters"], serde_json::to_value(&job.parameters).unwrap());
    }
    let after = results(&molbox, &done).await;
    assert_eq!(after["production.dcd"], before["production.dcd"], "what it had stays");

    // It still goes on from there, also when the service is killed in between.
    service.sql(&format!("update task set expires_at = 1 where id = '{done}'"));
    let again = retry(&molbox, &done).await;
    assert_eq!(again.expires_at, None, "what begins anew is not to be deleted");
    molbox.job_cancel().job_id(done.as_str()).send().await.unwrap();
    service.kill_and_restart();
    let molbox = service.client_with(&key);
    wait_until(&molbox, &done, |job| job.status == "cancelled").await;
    cancel(&molbox, &busy).await;
    retry(&molbox, &done).await;
    let job = molbox.wait_job(&done).await.unwrap();
    assert_eq!(job.stages.last().unwrap().steps, 90);
}

#[tokio::test]
async fn only_a_job_of_the_account_that_failed_or_was_cancelled_is_retried() {
    let service = Service::start_with(&["limits.open_tasks=2"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let done = submit(&molbox, &system, 5, 20).await;
    molbox.wait_job(&done).await.unwrap();
    let running = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &running).await;
    for id in [&done, &running] {
        let (status, message) = refused(molbox.job_retry().job_id(id.as_str()).send().await);
        assert_eq!(status, 409);
        assert!(message.contains("failed or was cancelled"), "{message}");
    }
    cancel(&molbox, &running).await;
    let bob = service.client("bob");
    assert_eq!(refused(bob.job_retry().job_id(running.as_str()).send().await).0, 404);
    assert_eq!(refused(molbox.job_retry().job_id("job_00000000000000000000").send().await).0, 404);
    let others = [endless_job(&molbox, &system).await, endless_job(&molbox, &system).await];
    assert_eq!(refused(molbox.job_retry().job_id(running.as_str()).send().await).0, 429);
    cancel(&molbox, &others[0]).await;
    retry(&molbox, &running).await;
}

#[tokio::test]
async fn analyses_see_the_frames_of_before_and_after_a_retry() {
    let service = Service::start_with(&["worker.slots=1", "worker.checkpoint_seconds=0.3"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = submit(&molbox, &system, 10, 2000).await;
    wait_for("frames are committed", || {
        let commit = committed(&service, &id)?;
        (commit["stage"] == 1 && commit["step"].as_u64()? > 20).then_some(())
    });
    cancel(&molbox, &id).await;
    let analyse = || {
        molbox
            .analysis_submit()
            .body_map(|a| a.job_id(id.as_str()).distance_masks([":1@O :2@O"]))
            .send()
    };
    let frames = async |analysis: &str| {
        molbox.wait_analysis(analysis).await.unwrap();
        molbox.analysis_retrieve().job_id(analysis).send().await.unwrap().frames_total
    };
    let before = analyse().await.unwrap().analysis_id.as_str().to_owned();
    let n_before = frames(&before).await;
    assert!(n_before > 0 && n_before < 100, "{n_before}");
    retry(&molbox, &id).await;
    assert_eq!(refused(analyse().await).0, 409, "its frames are those so far");
    molbox.wait_job(&id).await.unwrap();
    let after = analyse().await.unwrap().analysis_id.as_str().to_owned();
    assert_eq!(frames(&after).await, 100);
    assert_eq!(frames(&before).await, n_before, "the analysis of before stays");
}
