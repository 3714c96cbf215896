//! The table of cases that all clients written by hand run: `clients/cases.yaml`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::{Answer, JOB_ID, Received, Server};
use futures::TryStreamExt;
use molbox::{Client, Error};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const CONTENT_BYTES: usize = 1200;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    call: Call,
    #[serde(default = "four")]
    retries: u32,
    file: Option<String>,
    part: Option<usize>,
    answers: Vec<Reply>,
    #[serde(default)]
    elsewhere: Vec<Reply>,
    requests: Vec<Wanted>,
    requests_elsewhere: Option<Vec<Wanted>>,
    #[serde(default)]
    one_key: bool,
    outcome: Outcome,
}

fn four() -> u32 {
    4
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Call {
    ViewJob,
    SubmitJob,
    DeleteJob,
    WaitJob,
    ListJobs,
    Upload,
    Download,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    example: Option<String>,
    json: Option<Value>,
    text: Option<String>,
    jobs: Option<usize>,
    next_page: Option<String>,
    content: Option<[usize; 2]>,
    #[serde(default)]
    transfer: Transfer,
    #[serde(default)]
    silent: bool,
}

fn ok() -> u16 {
    200
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Transfer {
    #[default]
    Length,
    Chunked,
    Close,
    Cut,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    line: String,
    #[serde(default)]
    has: BTreeMap<String, String>,
    #[serde(default)]
    lacks: Vec<String>,
    #[serde(default)]
    sends: BTreeMap<String, Value>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    status: Option<Value>,
    items: Option<usize>,
    #[serde(default)]
    whole: bool,
    at_least_seconds: Option<u64>,
    error: Option<String>,
    #[serde(default)]
    message: String,
    files: Option<usize>,
    retry_after: Option<u64>,
    request_id: Option<String>,
    violations: Option<usize>,
}

/// What a call has come to.
enum Done {
    Nothing,
    Status(String),
    Items(usize),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_of_the_table_ends_as_it_says() {
    let text = include_str!("../clients/cases.yaml");
    let cases: Vec<Case> = serde_saphyr::from_str(text).unwrap();
    // Some of them wait: together they take as long as the longest.
    let running: Vec<_> =
        cases.into_iter().map(|case| (case.name.clone(), tokio::spawn(run(case)))).collect();
    let mut failed = Vec::new();
    for (name, case) in running {
        if case.await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "failed, with the reason above: {failed:#?}");
}

async fn run(case: Case) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(size) = case.part {
        let part = format!("results.zip.{}.part", digest());
        fs::write(folder.path().join(part), &content()[..size]).unwrap();
    }
    let other = service(case.elsewhere.clone(), String::new()).await;
    let origin = other.base_url.trim_end_matches("/local").to_owned();
    let server = service(case.answers.clone(), origin).await;
    let molbox = server.connection().retries(case.retries).workflow().unwrap();

    let start = Instant::now();
    let result = called(&case, &molbox, folder.path()).await;
    let least = Duration::from_secs(case.outcome.at_least_seconds.unwrap_or_default());
    assert!(start.elapsed() >= least, "{}: it did not wait", case.name);

    expect_outcome(&case, result, folder.path());
    expect_requests(&case.name, &server.base_url, &case.requests, &server.received());
    if let Some(requests) = &case.requests_elsewhere {
        expect_requests(&case.name, &other.base_url, requests, &other.received());
    }
    if case.one_key {
        let received = server.received();
        let first = received[0].header("idempotency-key");
        assert!(first.is_some() && received.iter().all(|r| r.header("idempotency-key") == first));
    }
}

async fn called(case: &Case, molbox: &Client, folder: &Path) -> Result<Done, Error> {
    Ok(match case.call {
        Call::ViewJob => {
            Done::Status(molbox.job_view().job_id(JOB_ID).send().await?.into_inner().status)
        }
        Call::SubmitJob => {
            let job = molbox.job_submit().body_map(|job| job.box_id("box_1")).send().await?;
            Done::Status(job.into_inner().status)
        }
        Call::DeleteJob => {
            molbox.job_delete().job_id(JOB_ID).send().await?;
            Done::Nothing
        }
        Call::WaitJob => Done::Status(molbox.wait_job(JOB_ID).await?.status),
        Call::ListJobs => {
            let jobs: Vec<_> = molbox.job_list().status("succeeded").stream().try_collect().await?;
            Done::Items(jobs.len())
        }
        Call::Upload => {
            let upload = match &case.file {
                Some(name) => {
                    let path = folder.join(name);
                    fs::write(&path, content()).unwrap();
                    molbox.upload(path)
                }
                None => molbox.upload_bytes("pdb", content()).name("villin"),
            };
            Done::Status(upload.await?.status)
        }
        Call::Download => {
            molbox.download_job(JOB_ID, folder.join("results.zip")).await?;
            Done::Nothing
        }
    })
}

fn expect_outcome(case: &Case, result: Result<Done, Error>, folder: &Path) {
    let (name, wanted) = (&case.name, &case.outcome);
    let files = fs::read_dir(folder).unwrap().count();
    if let Some(n_files) = wanted.files {
        assert_eq!(files, n_files, "{name}: files that are left");
    }
    match (&wanted.error, result) {
        (None, Ok(done)) => match done {
            Done::Nothing if wanted.whole => {
                assert_eq!(fs::read(folder.join("results.zip")).unwrap(), content(), "{name}");
                assert_eq!(files, 1, "{name}: files that are left");
            }
            Done::Nothing => {}
            Done::Status(status) => assert_eq!(Some(json!(status)), wanted.status, "{name}"),
            Done::Items(count) => assert_eq!(Some(count), wanted.items, "{name}"),
        },
        (Some(kind), Err(error)) => {
            assert_eq!(kind, kind_of(&error), "{name}: {error}");
            assert!(error.to_string().contains(&wanted.message), "{name}: {error}");
            let Error::Refused(refusal) = error else { return };
            assert_eq!(Some(json!(refusal.status.as_u16())), wanted.status, "{name}");
            assert_eq!(refusal.retry_after.map(|d| d.as_secs()), wanted.retry_after, "{name}");
            assert_eq!(refusal.request_id, wanted.request_id, "{name}");
            assert_eq!(refusal.violations.len(), wanted.violations.unwrap_or(1), "{name}");
        }
        (None, Err(error)) => panic!("{name}: {error}"),
        (Some(kind), Ok(_)) => panic!("{name}: it did not fail, with {kind}"),
    }
}

fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::Invalid(_) => "invalid",
        Error::Refused(_) => "refused",
        Error::Connection(_) | Error::Stalled { .. } | Error::Truncated { .. } => "connection",
        Error::Unexpected { .. } => "unexpected",
        Error::TaskFailed(_) => "failed",
        Error::Damaged { .. } => "damaged",
        _ => "another",
    }
}

fn expect_requests(name: &str, base_url: &str, wanted: &[Wanted], received: &[Received]) {
    let host = base_url.trim_start_matches("http://").trim_end_matches("/local");
    let lines: Vec<_> = received
        .iter()
        .map(|request| parsed(host, request.line.trim_end_matches(" HTTP/1.1")))
        .collect();
    let wanted_lines: Vec<_> =
        wanted.iter().map(|one| parsed(host, &one.line.replace("{job}", JOB_ID))).collect();
    assert_eq!(lines, wanted_lines, "{name}");
    for (one, request) in wanted.iter().zip(received) {
        for (header, value) in &one.has {
            assert_eq!(request.header(header), Some(value.as_str()), "{name}: {header}");
        }
        for header in &one.lacks {
            assert_eq!(request.header(header), None, "{name}: {header}");
        }
        if !one.sends.is_empty() {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            for (field, value) in &one.sends {
                assert_eq!(body.get(field), Some(value), "{name}: {field}");
            }
        }
    }
}

/// Method, path, and the parameters in some order.
fn parsed(host: &str, line: &str) -> (String, String, Vec<(String, String)>) {
    let (method, target) = line.split_once(' ').unwrap();
    let url = reqwest::Url::parse(&format!("http://{host}{target}")).unwrap();
    let mut query: Vec<_> = url.query_pairs().into_owned().collect();
    query.sort();
    (method.to_owned(), url.path().to_owned(), query)
}

async fn service(answers: Vec<Reply>, other: String) -> Server {
    Server::start(move |number, request| {
        let base = format!("http://{}/local", request.header("host").unwrap());
        let names = [("{base}", base.as_str()), ("{other}", &other), ("{job}", JOB_ID)];
        let filled = |text: &str| {
            let text =
                names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
            text.replace("{digest}", digest())
        };
        match answers.get(number.min(answers.len().saturating_sub(1))) {
            Some(answer) => answer.over_the_wire(filled),
            None => Answer::Broken(Vec::new()),
        }
    })
    .await
}

impl Reply {
    fn over_the_wire(&self, filled: impl Fn(&str) -> String) -> Answer {
        if self.silent {
            return Answer::Broken(Vec::new());
        }
        let body = self.body(&filled);
        let mut head = format!("HTTP/1.1 {} of the table\r\nconnection: close\r\n", self.status);
        if self.example.is_some() || self.json.is_some() || self.jobs.is_some() {
            head += "content-type: application/json\r\n";
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {}\r\n", filled(value));
        }
        let bytes = match self.transfer {
            Transfer::Length if self.status == 204 => format!("{head}\r\n").into_bytes(),
            Transfer::Length => {
                [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
            }
            Transfer::Close => [format!("{head}\r\n").as_bytes(), &body].concat(),
            Transfer::Chunked => {
                let head = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len());
                [head.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
            }
            Transfer::Cut => {
                let [first, _] = self.content.unwrap();
                let promised = CONTENT_BYTES - first;
                let head = format!("{head}content-length: {promised}\r\n\r\n");
                return Answer::Broken([head.as_bytes(), &body].concat());
            }
        };
        Answer::Whole(bytes)
    }

    fn body(&self, filled: impl Fn(&str) -> String) -> Vec<u8> {
        if let Some([first, end]) = self.content {
            return content()[first..end].to_vec();
        }
        if let Some(name) = &self.example {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/examples");
            return fs::read(folder.join(name)).unwrap();
        }
        if let Some(count) = self.jobs {
            return page(count, self.next_page.as_deref());
        }
        match (&self.text, &self.json) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(json)) => filled(&json.to_string()).into_bytes(),
            (None, None) => Vec::new(),
        }
    }
}

/// A page of so many jobs.
fn page(count: usize, next_page: Option<&str>) -> Vec<u8> {
    let job = json!({
        "job_id": JOB_ID, "box_id": "box_77jpjj2n2sksrj1kkw21", "status": "succeeded", "request": {},
        "parameters": {}, "created_at": "2026-11-21T12:02:00Z", "attempts": 1, "warnings": []
    });
    json!({"items": vec![job; count], "next_page": next_page}).to_string().into_bytes()
}

fn content() -> Vec<u8> {
    (0..CONTENT_BYTES).map(|n| (n % 251) as u8).collect()
}

/// SHA-256 of the content, in hexadecimal.
fn digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| Sha256::digest(content()).iter().map(|b| format!("{b:02x}")).collect())
}
