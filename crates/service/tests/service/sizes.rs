//! How much a job may write.

use molbox::workflow::types::{EquilibrationStep, JobCreateParams, ProductionParams};
use molbox::{Client, Error};
use serde_json::{Value, json};

use crate::common::Service;
use crate::work::{endless_job, until_it_produces, water};

/// Where a refusal points, and what it says.
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> (Value, String) {
    let error = answer.unwrap_err();
    assert_eq!(error.status().unwrap(), 422, "{error}");
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    let violation = &refusal.violations[0];
    assert_eq!(
        (refusal.violations.len(), violation.type_.as_str()),
        (1, "results_too_large"),
        "{error}"
    );
    (serde_json::to_value(&violation.loc).unwrap(), violation.msg.clone())
}

async fn submit(molbox: &Client, system: &str, job: Value) -> Result<String, Error> {
    let mut job: JobCreateParams = serde_json::from_value(job).unwrap();
    job.box_id = system.parse().ok();
    Ok(molbox.job_submit().body(job).send().await?.job_id.as_str().to_owned())
}

#[tokio::test]
async fn a_trajectory_of_terabytes_is_refused_with_its_size_before_it_is_written() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = system.system_id.as_str();
    let atoms = system.summary.unwrap().atoms as f64;
    let everything =
        json!({"equilibration": [], "production": {"time": 1000, "traj_freq": 1, "log_freq": 0}});
    let (at, message) = refused(submit(&molbox, id, everything).await);
    assert_eq!(at, json!(["body", "production", "traj_freq"]));
    let terabytes = 5e8 * (80.0 + 12.0 * atoms) / 1e12;
    assert!(
        message.contains(&format!("logs of {terabytes:.1} TB in all, more than the ")),
        "{message}"
    );
    assert!(molbox.job_list().send().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn what_a_refusal_proposes_is_the_most_that_is_accepted() {
    let service = Service::start_with(&["limits.result_bytes=10000000", "worker.slots=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = system.system_id.as_str();
    let job = |every: u64| json!({"equilibration": [{"time": 0.01}], "production": {"time": 0.02, "traj_freq": every, "log_freq": 10}});
    let (at, message) = refused(submit(&molbox, id, job(1)).await);
    assert_eq!(at, json!(["body", "production", "traj_freq"]));
    assert!(
        message.contains("10.0 MB that the results of a job may have here (limits.result_bytes)"),
        "{message}"
    );
    let words: Vec<&str> = message.split_whitespace().collect();
    let every =
        words[words.iter().rposition(|word| *word == "every").unwrap() + 1].parse::<u64>().unwrap();
    submit(&molbox, id, job(every)).await.unwrap();
    refused(submit(&molbox, id, job(every - 1)).await);

    let stages = json!({"equilibration": [{"time": 0.01}, {"time": 0.1, "traj_freq": 5}]});
    let (at, _) = refused(submit(&molbox, id, stages).await);
    assert_eq!(at, json!(["body", "equilibration", 1, "traj_freq"]));
    let lines =
        json!({"equilibration": [], "production": {"time": 1, "traj_freq": 0, "log_freq": 1}});
    let (at, message) = refused(submit(&molbox, id, lines).await);
    assert_eq!(at, json!(["body", "production", "log_freq"]));
    assert!(message.starts_with("a line of "), "{message}");
    // However seldom it is written: there is no room for the other stage.
    let hopeless = json!({"equilibration": [{"time": 0.2, "traj_freq": 2}], "production": {"time": 1, "traj_freq": 9}});
    let (_, message) = refused(submit(&molbox, id, hopeless).await);
    assert!(message.ends_with("; ask for less time"), "{message}");
}

#[tokio::test]
async fn a_job_that_goes_on_has_no_more_room_than_a_new_one() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(10)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().time(0.0001).traj_freq(1))
    });
    let done = job.send().await.unwrap().job_id.clone();
    molbox.wait_job(&done).await.unwrap();
    let more = molbox.job_extend().job_id(&done).body_map(|more| more.time(1000)).send().await;
    let (at, message) = refused(more);
    assert_eq!(at, json!(["body", "time"]));
    assert!(message.contains(" TB in all") && message.contains("ask for less time"), "{message}");

    let running = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &running).await;
    molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
    molbox.wait_job(&running).await.unwrap_err();
    service.stop();
    let service = Service::start_in(&service.data, &["limits.result_bytes=1000000"]);
    let molbox = service.client_with(&key);
    let (at, message) = refused(molbox.job_retry().job_id(running.as_str()).send().await);
    assert_eq!(at, json!(["path", "job_id"]));
    assert!(message.contains("more than the 1.0 MB"), "{message}");
    assert_eq!(
        molbox.job_view().job_id(running.as_str()).send().await.unwrap().status,
        "cancelled"
    );
}
