//! Runs, replicas, streams of records and calls without a builder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{FAILED, JOB, JOB_ID, QUEUED, REFUSAL, RUNNING, Server, answer, json};
use futures::TryStreamExt;
use molbox::run::{Plan, Run};
use molbox::workflow::types::JobCreateParams;
use molbox::{Blocking, Error};
use serde_json::Value;

const SYSTEM: &str = include_str!("../openapi/examples/system_view.200.succeeded.json");

#[tokio::test]
async fn replicas_differ_in_index_and_seed_and_are_named() {
    let server = Server::always(|| json("200 OK", QUEUED)).await;
    let job: JobCreateParams = molbox::from_json(r#"{"seed": 7}"#).unwrap();
    let jobs = server.client().submit_replicas(&job, 3, "villin", 2).await.unwrap();
    assert_eq!(jobs.len(), 3);
    let mut sent: Vec<(String, Value)> = server
        .received()
        .iter()
        .map(|r| (r.header("idempotency-key").unwrap().to_owned(), serde_json::from_slice(&r.body).unwrap()))
        .collect();
    sent.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (index, (key, body)) in sent.iter().enumerate() {
        assert_eq!(key, &format!("villin-{index}"));
        assert_eq!(*body, serde_json::json!({"batch_index": index, "seed": 7 + index}));
    }
    let error = server.client().submit_replicas(&job, 1, "", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "batch: must be 1 to 240 printable ASCII characters");
}

#[tokio::test]
async fn a_stream_gives_each_record_once_and_ends_with_the_task() {
    let server = Server::start(|n, _| json("200 OK", [QUEUED, RUNNING, RUNNING, FAILED][n.min(3)])).await;
    let records: Vec<_> = server.client().wait_job(JOB_ID).stream().try_collect().await.unwrap();
    let statuses: Vec<&str> = records.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["queued", "running", "failed"]);
}

#[tokio::test]
async fn a_call_without_a_builder_has_key_and_errors_of_the_others() {
    let server = Server::start(|n, _| json(if n == 0 { "200 OK" } else { "422 Unprocessable Entity" }, REFUSAL)).await;
    let client = server.client();
    let answer = client.call("get", "/info/jobs").unwrap().query("limit", "1").send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), REFUSAL.as_bytes());
    let received = server.received();
    assert!(received[0].line.starts_with("GET /local/info/jobs?limit=1 "), "{}", received[0].line);
    assert_eq!(received[0].header("x-api-key"), Some("mbx_secret"));
    let error = client.call("POST", "/submit/job").unwrap().body("{}").send().await.unwrap_err();
    assert!(matches!(&error, Error::Refused(refusal) if !refusal.violations.is_empty()), "{error}");
    assert!(client.call("GET", "info/jobs").is_err());
}

#[tokio::test]
async fn a_run_that_broke_is_taken_up_and_submits_nothing_twice() {
    let is_up = Arc::new(AtomicBool::new(false));
    let storage = is_up.clone();
    let server = Server::start(move |_, request| {
        let is = |path: &str| request.line.contains(path);
        if is("/submit/system") {
            json("200 OK", SYSTEM)
        } else if is("/submit/job") {
            json("200 OK", QUEUED)
        } else if is("/info/job/") {
            json("200 OK", JOB)
        } else if is("/retrieve/job/") && storage.load(Ordering::Relaxed) {
            answer("200 OK", "content-type: application/zip\r\n", "bundle")
        } else {
            json("500 Internal Server Error", REFUSAL)
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let plan = Plan { replicas: 2, analysis: None, ..Plan::of("1L2Y") };
    let mut run = Run::begin(plan.clone(), &folder).unwrap();
    assert!(run.finish(&server.client(), |_| {}).await.is_err());
    assert!(Run::begin(plan, &folder).is_err(), "a folder holds one run");

    is_up.store(true, Ordering::Relaxed);
    let mut run = Run::open(&folder).unwrap();
    run.finish(&server.client(), |_| {}).await.unwrap();
    assert!(Run::open(&folder).unwrap().is_done);
    let posts = |path: &str| server.received().iter().filter(|r| r.line.starts_with(&format!("POST {path}"))).count();
    assert_eq!((posts("/local/submit/system"), posts("/local/submit/job")), (1, 2));
    for replica in [1, 2] {
        assert_eq!(std::fs::read(folder.join(format!("replica_{replica}/results.zip"))).unwrap(), b"bundle");
    }
}

#[test]
fn calls_can_block() {
    let blocking = Blocking::new().unwrap();
    let server = blocking.run(Server::always(|| json("200 OK", JOB)));
    let job = blocking.run(server.client().wait_job(JOB_ID)).unwrap();
    assert_eq!(*job.job_id, JOB_ID);
}
