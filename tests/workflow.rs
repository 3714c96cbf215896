//! Runs, replicas, streams of records and calls without a builder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{FAILED, JOB, JOB_ID, QUEUED, REFUSAL, RUNNING, Received, Server, answer, json};
use futures::TryStreamExt;
use molbox::run::{Plan, Run};
use molbox::workflow::types::JobCreateParams;
use molbox::{Blocking, Error};
use serde_json::Value;

const ANALYSIS: &str = include_str!("../openapi/examples/analysis_view.200.json");
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
        .map(|r| {
            (
                r.header("idempotency-key").unwrap().to_owned(),
                serde_json::from_slice(&r.body).unwrap(),
            )
        })
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
    let server =
        Server::start(|n, _| json("200 OK", [QUEUED, RUNNING, RUNNING, FAILED][n.min(3)])).await;
    let records: Vec<_> = server.client().wait_job(JOB_ID).stream().try_collect().await.unwrap();
    let statuses: Vec<&str> = records.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["queued", "running", "failed"]);
}

#[tokio::test]
async fn a_call_without_a_builder_has_key_and_errors_of_the_others() {
    let server = Server::start(|n, _| {
        json(if n == 0 { "200 OK" } else { "422 Unprocessable Entity" }, REFUSAL)
    })
    .await;
    let client = server.client();
    let answer =
        client.call("get", "/info/jobs").unwrap().query("limit", "1").send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), REFUSAL.as_bytes());
    let received = server.received();
    assert!(received[0].line.starts_with("GET /local/info/jobs?limit=1 "), "{}", received[0].line);
    assert_eq!(received[0].header("x-api-key"), Some("mbx_secret"));
    let error = client.call("POST", "/submit/job").unwrap().body("{}").send().await.unwrap_err();
    assert!(matches!(&error, Error::Refused(refusal) if !refusal.violations.is_empty()), "{error}");
    assert!(client.call("GET", "info/jobs").is_err());
}

/// A service whose tasks end at once; its storage can be down.
async fn service(is_up: Arc<AtomicBool>) -> Server {
    let examples = [
        ("/submit/system", SYSTEM),
        ("/submit/job", QUEUED),
        ("/info/job/", JOB),
        ("/submit/analysis", ANALYSIS),
        ("/info/analysis/", ANALYSIS),
    ];
    let reply = move |_, request: &Received| {
        if request.line.contains("/retrieve/") && is_up.load(Ordering::Relaxed) {
            return answer("200 OK", "content-type: application/zip\r\n", "bundle");
        }
        let example = examples.iter().find(|(path, _)| request.line.contains(path));
        example.map_or_else(
            || json("500 Internal Server Error", REFUSAL),
            |(_, body)| json("200 OK", body),
        )
    };
    Server::start(reply).await
}

#[tokio::test]
async fn a_run_that_broke_is_resumed_and_submits_nothing_twice() {
    let is_up = Arc::new(AtomicBool::new(false));
    let server = service(is_up.clone()).await;
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
    let posts = |path: &str| {
        server.received().iter().filter(|r| r.line.starts_with(&format!("POST {path}"))).count()
    };
    assert_eq!((posts("/local/submit/system"), posts("/local/submit/job")), (1, 2));
    for replica in [1, 2] {
        assert_eq!(
            std::fs::read(folder.join(format!("replica_{replica}/results.zip"))).unwrap(),
            b"bundle"
        );
    }
}

#[tokio::test]
async fn replicas_that_were_submitted_are_not_submitted_again_after_others_failed() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = is_up.clone();
    let server = Server::start(move |_, request: &Received| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let is_submission = request.line.contains("/submit/job");
        match body["batch_index"].as_u64() {
            Some(1) if !up.load(Ordering::Relaxed) => json("422 Unprocessable Entity", REFUSAL),
            _ if is_submission => json("200 OK", QUEUED),
            _ if request.line.contains("/submit/system") => json("200 OK", SYSTEM),
            _ => json("500 Internal Server Error", REFUSAL),
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { replicas: 3, analysis: None, ..Plan::of("1L2Y") };
    let mut run = Run::begin(plan, folder.path()).unwrap();
    run.finish(&server.client(), |_| {}).await.unwrap_err();
    assert_eq!(run.replicas.len(), 0, "not all are submitted");

    is_up.store(true, Ordering::Relaxed);
    let before = server.received().len();
    let mut run = Run::open(folder.path()).unwrap();
    run.finish(&server.client(), |_| {}).await.unwrap_err();
    assert_eq!(run.replicas.len(), 3);
    let again: Vec<Value> = server.received()[before..]
        .iter()
        .filter(|r| r.line.contains("/submit/job"))
        .map(|r| serde_json::from_slice::<Value>(&r.body).unwrap()["batch_index"].clone())
        .collect();
    assert_eq!(again, [1]);
}

#[tokio::test]
async fn a_run_whose_results_are_outside_of_its_folder_is_not_opened() {
    let server = service(Arc::new(AtomicBool::new(true))).await;
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { analysis: None, ..Plan::of("1L2Y") };
    Run::begin(plan, folder.path()).unwrap().finish(&server.client(), |_| {}).await.unwrap();
    let state = folder.path().join("molbox-run.json");
    let whole: Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    assert_eq!(whole["replicas"][0]["bundle"], "replica_1/results.zip");
    Run::open(folder.path()).unwrap();
    for field in ["bundle", "tables"] {
        for path in ["/tmp/results.zip", "../results.zip", "replica_1/../../results.zip"] {
            let mut crafted = whole.clone();
            crafted["replicas"][0][field] = path.into();
            std::fs::write(&state, crafted.to_string()).unwrap();
            let error = Run::open(folder.path()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{path} is not in the folder")), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_replicas_ends_with_their_bundles_and_tables() {
    let server = service(Arc::new(AtomicBool::new(true))).await;
    let folder = tempfile::tempdir().unwrap();
    // Cargo builds the examples with the tests, beside them.
    let tests = std::env::current_exe().unwrap();
    let example = tests.ancestors().nth(2).unwrap().join("examples/replicas");
    assert!(example.exists(), "build it: `cargo build -p molbox --examples`");
    let mut command = std::process::Command::new(example);
    command.args(["1L2Y", "out"]).current_dir(folder.path());
    command.env("MOLBOX_BASE_URL", &server.base_url).env("MOLBOX_API_KEY", "mbx_secret");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let mut paths: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    paths.sort();
    let wanted = [1, 2, 3]
        .map(|n| ["analysis", "results"].map(|name| format!("out/replica_{n}/{name}.zip")));
    assert_eq!(paths, wanted.concat(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn calls_can_block() {
    let blocking = Blocking::new().unwrap();
    let server = blocking.run(Server::always(|| json("200 OK", JOB)));
    let job = blocking.run(server.client().wait_job(JOB_ID)).unwrap();
    assert_eq!(job.job_id, JOB_ID);
}
