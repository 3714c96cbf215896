//! Connections as careless and hostile clients leave them: silent, half-sent, slow, smuggled.
//! Spoken to in bytes, since no client library sends these.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::common::{Service, wait_for};
use crate::holds::FakeWorker;
use crate::work::water;

/// Where the simulation workflow listens.
fn connect(service: &Service) -> TcpStream {
    let stream = TcpStream::connect(host(service)).unwrap();
    // Longer than anything here takes; a test that waits for it fails.
    stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
    stream
}

fn host(service: &Service) -> &str {
    service.base_url.strip_prefix("http://").unwrap().split('/').next().unwrap()
}

fn send(service: &Service, bytes: &str) -> TcpStream {
    let mut stream = connect(service);
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// All that comes before the connection is closed, in order or not.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&bytes)),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn status(service: &Service, key: &str, path: &str) -> StatusCode {
    let request =
        reqwest::Client::new().get(format!("{}{path}", service.base_url)).header("x-api-key", key);
    request.send().await.map_or(StatusCode::IM_A_TEAPOT, |response| response.status())
}

/// Waits until a request is answered with 200.
async fn until_answered(service: &Service, key: &str) {
    let start = Instant::now();
    while status(service, key, "/info/files").await != 200 {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody gets in");
    }
}

/// The head of a submission of 100 bytes, and one of them.
fn half_a_submission(key: &str) -> String {
    format!(
        "POST /local/submit/job HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{"
    )
}

#[tokio::test]
async fn silent_and_half_sent_connections_keep_nobody_out() {
    let settings = [
        "connections.most=20",
        "connections.reserve=2",
        "connections.head_seconds=3600",
        "limits.requests_per_minute=0",
    ];
    let service = Service::start_with(&settings);
    let key = service.key("ada");
    let mut open = Vec::new();
    for n in 0..300 {
        open.push(if n % 2 == 0 {
            connect(&service)
        } else {
            send(&service, "GET /local/healthz HTTP/1.1\r\nhost")
        });
    }
    until_answered(&service, &key).await;
    assert_eq!(status(&service, &key, "/healthz").await, 200);
}

#[tokio::test]
async fn strangers_who_do_not_end_what_they_send_keep_nobody_out() {
    let settings = [
        "connections.most=20",
        "connections.reserve=2",
        "connections.body_seconds=3600",
        "limits.requests_per_minute=0",
    ];
    let service = Service::start_with(&settings);
    let key = service.key("ada");
    let origin = host(&service);
    let half_a_sign_in = format!(
        "POST /local/session HTTP/1.1\r\nhost: {origin}\r\norigin: http://{origin}\r\n\
         content-type: application/json\r\ncontent-length: 900\r\nexpect: 100-continue\r\n\r\n"
    );
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = send(&service, &half_a_sign_in);
        // Its body is waited for now.
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"HTTP/1.1 100");
        stream.write_all(b"{").unwrap();
        open.push(stream);
    }
    until_answered(&service, &key).await;
    assert_eq!(status(&service, &key, "/healthz").await, 200);
}

#[tokio::test]
async fn an_account_that_ends_none_of_its_requests_leaves_others_their_half() {
    let settings = [
        "connections.most=20",
        "connections.reserve=2",
        "connections.body_seconds=3600",
        "limits.requests_per_minute=0",
    ];
    let service = Service::start_with(&settings);
    let (greedy, key) = (service.key("ada"), service.key("bob"));
    let half_a_submission = format!(
        "POST /local/submit/job HTTP/1.1\r\nhost: x\r\nx-api-key: {greedy}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n"
    );
    let mut open = Vec::new();
    let mut answer = || {
        let mut stream = send(&service, &half_a_submission);
        // Its body is waited for, or it is refused before.
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        open.push(stream);
        String::from_utf8_lossy(&said).into_owned()
    };
    for nth in 0..10 {
        assert_eq!(answer(), "HTTP/1.1 100", "{nth}");
    }
    assert_eq!(answer(), "HTTP/1.1 429");
    let refusal = rest(open.last_mut().unwrap());
    assert!(refusal.contains("10 requests under way"), "{refusal}");
    assert!(refusal.contains("retry-after: 5"), "{refusal}");
    until_answered(&service, &key).await;
    open.clear();
    until_answered(&service, &greedy).await;
}

#[tokio::test]
async fn strangers_who_do_not_read_what_they_asked_for_keep_nobody_out() {
    let settings = [
        "connections.most=20",
        "connections.reserve=2",
        "connections.answer_seconds=3600",
        "limits.requests_per_minute=0",
    ];
    let service = Service::start_with(&settings);
    let key = service.key("ada");
    // More than the machine keeps of what is not read; nobody has to say who asks for this.
    let many = "GET /local/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(40);
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&service);
        stream.write_all(many.as_bytes()).unwrap();
        let mut said = [0; 15];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"HTTP/1.1 200 OK");
        open.push(stream);
    }
    until_answered(&service, &key).await;
}

#[tokio::test]
async fn when_all_connections_are_busy_operators_get_in_and_others_learn_when_to_come_again() {
    let settings = ["connections.most=3", "connections.reserve=2", "connections.body_seconds=3600"];
    let service =
        Service::start_with(&[settings.as_slice(), &["limits.requests_per_minute=0"]].concat());
    let key = service.key("ada");
    // One account has two of three at most.
    let keys = [key.clone(), service.key("bob"), service.key("eve")];
    let mut busy: Vec<TcpStream> =
        keys.iter().map(|key| send(&service, &half_a_submission(key))).collect();
    let url = format!("{}/info/files", service.base_url);
    let refusal = loop {
        let refusal =
            reqwest::Client::new().get(&url).header("x-api-key", &key).send().await.unwrap();
        // Perhaps none of them has been read yet.
        if refusal.status() != 200 {
            break refusal;
        }
    };
    assert_eq!(refusal.status(), 503);
    assert_eq!(refusal.headers()["retry-after"], "5");
    let refusal: Value = refusal.json().await.unwrap();
    assert_eq!(refusal["detail"][0]["type"], "unavailable");
    for path in ["/healthz", "/metrics"] {
        assert_eq!(status(&service, &key, path).await, 200, "{path}");
    }
    busy.pop();
    until_answered(&service, &key).await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let service = Service::start_with(&["connections.head_seconds=1"]);
    for begun in ["", "GET /local/healthz HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = send(&service, begun);
        rest(&mut stream);
    }
    // Nor the next request on a connection.
    let mut stream = send(&service, "GET /local/healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(rest(&mut stream).starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_body_that_pauses_or_drips_is_refused() {
    let settings = ["connections.body_seconds=1", "connections.body_bytes_per_second=100_000"];
    let service = Service::start_with(&settings);
    let key = service.key("ada");
    let link = service.client_with(&key).upload_url_create().filetype("pdb").send().await.unwrap();
    let path = link.upload_url.split_once(host(&service)).unwrap().1.to_owned();
    let upload = format!("PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nATOM");
    for begun in [half_a_submission(&key), upload.clone()] {
        let answer = rest(&mut send(&service, &begun));
        assert!(
            answer.starts_with("HTTP/1.1 408 ") && answer.contains("connection: close"),
            "{answer}"
        );
        assert!(answer.contains("\"type\":\"too_slow\""), "{answer}");
    }
    // Never a pause, and never an end.
    let mut stream = send(&service, &upload);
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut answer = [0; 12];
    let start = Instant::now();
    while stream.read_exact(&mut answer).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "a body may drip without end");
        // It fails once the other end is closed, with the answer still to be read.
        drop(stream.write_all(b"A"));
    }
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_broken_off() {
    let service = Service::start_with(&["connections.answer_seconds=1"]);
    let key = service.key("ada");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.pdb");
    let remark = format!("REMARK {}\n", "x".repeat(70)).repeat(400_000);
    fs::write(&file, remark + "ATOM      1  O   HOH A   1       0.000   0.000   0.000\n").unwrap();
    let file = service.client_with(&key).upload(&file).name("large").await.unwrap();
    let id = file.file_id.as_str();
    let download =
        format!("GET /local/retrieve/file/{id} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
    let mut stream = send(&service, &download);
    // It is more than lies between two programs of one machine, so the other end has not sent all
    // of it when it is found closed.
    wait_for("it is broken off", || stream.write_all(b" ").is_err().then_some(()));
}

#[tokio::test]
async fn the_service_ends_in_bounded_time_whatever_is_open() {
    let fake = FakeWorker::new();
    let mut service = Service::start_with(&["connections.stop_seconds=1", &fake.setting()]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    // It stays queued, and its events go on.
    fake.remove();
    let job = molbox
        .job_submit()
        .body_map(|job| job.box_id(system.system_id.as_str()))
        .send()
        .await
        .unwrap();
    let id = job.job_id.as_str();
    let watch =
        format!("GET /local/info/job/{id}/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let path = link.upload_url.split_once(host(&service)).unwrap().1;
    let upload = format!("PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nATOM");
    let mut open: Vec<TcpStream> =
        ["", "GET /local/heal", &watch, &upload, &half_a_submission(&key)]
            .into_iter()
            .map(|begun| send(&service, begun))
            .collect();
    // The event stream has begun.
    open[2].read_exact(&mut [0; 100]).unwrap();
    let start = Instant::now();
    service.stop();
    assert!(start.elapsed() < Duration::from_secs(9), "it took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_request_cannot_be_smuggled_behind_another() {
    let service = Service::start();
    let key = service.key("ada");
    let smuggled = "GET /local/healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let chunked = format!("0\r\n\r\n{smuggled}");
    let length = format!("content-length: {}\r\n", chunked.len());
    for (head, body) in [
        ("content-length: 4\r\ntransfer-encoding: chunked\r\n", &*chunked),
        ("transfer-encoding: chunked\r\ncontent-length: 4\r\n", &chunked),
        (&format!("{length}transfer-encoding: chunked\r\n"), &chunked),
        ("content-length: 2\r\ncontent-length: 50\r\n", &format!("{{}}{smuggled}")),
        ("content-length: 2, 50\r\n", &format!("{{}}{smuggled}")),
        ("content-length: +2\r\n", &format!("{{}}{smuggled}")),
        ("content-length: 0x2\r\n", &format!("{{}}{smuggled}")),
        ("content-length : 2\r\n", &format!("{{}}{smuggled}")),
        ("transfer-encoding: chunked, identity\r\n", &chunked),
        ("transfer-encoding: xchunked\r\n", &chunked),
        ("transfer-encoding: identity\r\ncontent-length: 2\r\n", &format!("{{}}{smuggled}")),
        ("transfer-encoding : chunked\r\n", &chunked),
        (" transfer-encoding: chunked\r\n", &chunked),
        ("transfer-encoding: chunked\r\n", &format!("2;\n{{}}\r\n{chunked}")),
        ("transfer-encoding: chunked\r\n", &format!("g\r\n{{}}\r\n{chunked}")),
        ("transfer-encoding: chunked\r\n", &format!("-2\r\n{{}}\r\n{chunked}")),
        ("transfer-encoding: chunked\r\n", &format!("10000000000000002\r\n{{}}\r\n{chunked}")),
        ("transfer-encoding: chunked\r\n", &format!("2\r\n{{}}XX{chunked}")),
        ("content-length: 2\r\nx-a: b\rtransfer-encoding: chunked\r\n", &format!("{{}}{smuggled}")),
        ("content-length: 2\r\nx-a: b\0c\r\n", &format!("{{}}{smuggled}")),
    ] {
        let request = format!(
            "POST /local/submit/job HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             {head}\r\n{body}"
        );
        let mut stream = send(&service, &request);
        let answers = rest(&mut stream);
        // What follows is read by nobody: a proxy may have seen its end elsewhere.
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{head:?} {body:?}: {answers}");
        assert!(answers.starts_with("HTTP/1.1 4"), "{head:?} {body:?}: {answers}");
    }
    // Two requests on one connection that are told apart by everybody are two.
    let honest = format!("{smuggled}{}", smuggled.replace("host", "connection: close\r\nhost"));
    let answers = rest(&mut send(&service, &honest));
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
}

#[tokio::test]
async fn metrics_need_a_key_but_on_the_address_for_prometheus() {
    let service = Service::start_with(&["metrics_listen=\"127.0.0.1:0\""]);
    let key = service.key("ada");
    assert_eq!(status(&service, "", "/metrics").await, 401);
    assert_eq!(status(&service, &key, "/metrics").await, 200);
    let addresses: Value =
        serde_json::from_str(&fs::read_to_string(service.data.join("addresses.json")).unwrap())
            .unwrap();
    let metrics = addresses["metrics_url"].as_str().unwrap();
    let text = reqwest::get(metrics).await.unwrap().text().await.unwrap();
    assert!(
        text.contains("molbox_requests_total{operation=\"service_metrics\",status=\"401\"} 1"),
        "{text}"
    );
    for (path, status) in [("healthz", 200), ("info/files", 404), ("submit/job", 404)] {
        assert_eq!(
            reqwest::get(metrics.replace("metrics", path)).await.unwrap().status(),
            status,
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_counts_of_tasks_follow_them() {
    // Without an interpreter nothing leaves the queue by itself.
    let settings = ["worker.python=\"/nonexistent/python\"", "limits.requests_per_minute=0"];
    let mut service = Service::start_with(&settings);
    let start = Instant::now();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let counts = async |service: &Service, wanted: &[&str]| loop {
        let request = reqwest::Client::new()
            .get(format!("{}/metrics", service.base_url))
            .header("x-api-key", &key);
        let text = request.send().await.unwrap().text().await.unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("molbox_tasks{kind=\"system\",status=\""));
        let mut counts: Vec<&str> = lines.filter(|line| !line.ends_with(" 0")).collect();
        counts.sort_unstable();
        // One may be found running for a moment, until it is seen that it cannot run.
        if counts == wanted {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{counts:?} are not {wanted:?}");
    };
    counts(&service, &[]).await;
    let first = molbox.system_submit().send().await.unwrap();
    molbox.system_submit().send().await.unwrap();
    counts(&service, &["queued\"} 2"]).await;
    molbox.system_cancel().system_id(first.system_id.as_str()).send().await.unwrap();
    counts(&service, &["cancelled\"} 1", "queued\"} 1"]).await;
    service.kill_and_restart();
    counts(&service, &["cancelled\"} 1", "queued\"} 1"]).await;
    let molbox = service.client_with(&key);
    molbox.system_delete().system_id(first.system_id.as_str()).send().await.unwrap();
    counts(&service, &["queued\"} 1"]).await;
}

#[tokio::test]
async fn wrong_keys_of_an_address_are_limited_and_right_ones_are_not() {
    let post = |service: &Service, key: &str, from: &str| {
        let url = format!("{}/submit/job", service.base_url);
        let request = reqwest::Client::new()
            .post(url)
            .header("x-api-key", key)
            .header("x-forwarded-for", from);
        async { request.json(&json!({})).send().await.unwrap() }
    };
    let service = Service::start_with(&["limits.wrong_keys_per_minute=2"]);
    let key = service.key("ada");
    // What a client says of its address counts for nothing, unless a proxy is trusted to say it.
    for (n, expected) in [401, 401, 429, 429].into_iter().enumerate() {
        let answer = post(&service, "mbx_wrong", &format!("192.0.2.{n}")).await;
        assert_eq!(answer.status(), expected);
        assert_eq!(answer.headers().contains_key("retry-after"), expected == 429);
    }
    assert_eq!(post(&service, &key, "").await.status(), 422, "a good key is accepted all the same");
    assert_eq!(post(&service, "", "").await.status(), 401, "none is not a wrong one");

    let service =
        Service::start_with(&["limits.wrong_keys_per_minute=1", "proxies=[\"127.0.0.0/8\"]"]);
    for (from, expected) in
        [("192.0.2.1", 401), ("192.0.2.2", 401), ("192.0.2.1", 429), ("192.0.2.2", 429)]
    {
        assert_eq!(post(&service, "mbx_wrong", from).await.status(), expected, "{from}");
    }
}

#[test]
fn a_machine_that_allows_few_open_files_is_told_so_and_served_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let few = ["sh", "-c", "ulimit -n 300 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let place = crate::common::Place::within(few, &data);
    let service = Service::start_at(&data, place, &[]);
    service.wait_until_it_logs("fewer files may be open");
    let soft = ["sh", "-c", "ulimit -Sn 300 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let data = folder.path().join("other");
    let place = crate::common::Place::within(soft, &data);
    let mut service = Service::start_at(&data, place, &["connections.most=100"]);
    service.stop();
    assert!(!service.log().contains("fewer files may be open"), "{}", service.log());
}
