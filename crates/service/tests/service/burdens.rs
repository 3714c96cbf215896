//! What costs memory and CPUs, and who pays for it: bodies, registrations, margins of several
//! accounts.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::common::Service;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn margin(service: &Service, key: &str) -> reqwest::RequestBuilder {
    let url = format!("{}/margin/submit_job/historical/json", service.margin_url);
    reqwest::Client::new().post(url).header("x-api-key", key)
}

fn job(scenarios: u32, days: u32) -> Value {
    let tickers = [
        "XEQ1", "XEQ2", "XEQ3", "XEQ4", "XBD1", "XBD2", "XIR1", "XFX1", "XCM1", "XCM2", "XCM3",
        "XSP1",
    ];
    let futures: Vec<Value> = tickers
        .iter()
        .map(|ticker| json!({ "ticker": ticker, "type": "long", "quantity": 1 }))
        .collect();
    json!({ "marginDate": "2024-12-31", "numScenarios": scenarios, "timeHorizonDays": days,
        "portfolio": { "futures": futures } })
}

fn with_market(settings: &[&str]) -> Service {
    let service = Service::start_with(settings);
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    service
}

/// The most memory that a service has had, in MiB.
fn peak(service: &Service) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_a_large_one_is_refused_before_it_is_large() {
    let service = with_market(&[]);
    let key = service.key("ada");
    let send = |body: Vec<u8>| {
        let request = margin(&service, &key)
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_ENCODING, "gzip");
        async { request.body(body).send().await.unwrap() }
    };
    assert_eq!(send(gzip(job(100, 1).to_string().as_bytes())).await.status(), 200);
    let before = peak(&service);
    let bomb =
        gzip(format!("{{\"portfolio\":{{\"futures\":[{}0]}}}}", "0,".repeat(15 << 20)).as_bytes());
    assert!(bomb.len() < 40_000);
    let refusal = send(bomb).await;
    assert_eq!(refusal.status(), 413);
    let refusal: Value = refusal.json().await.unwrap();
    assert_eq!(
        (&refusal["detail"][0]["type"], &refusal["detail"][0]["loc"]),
        (&json!("too_large"), &json!(["body"]))
    );
    assert!(
        refusal["detail"][0]["msg"].as_str().unwrap().contains("compressed more than 200 times"),
        "{refusal}"
    );
    assert!(peak(&service) < before + 32, "{before} MiB before, {} MiB after", peak(&service));
    // The end of it is missing, and it is not gzip at all.
    let whole = gzip(job(100, 1).to_string().as_bytes());
    assert_eq!(send(whole[..whole.len() - 9].to_vec()).await.status(), 400);
    assert_eq!(send(b"{}".to_vec()).await.status(), 400);
}

#[tokio::test]
async fn a_body_of_very_many_values_is_refused_where_they_would_be_kept() {
    let service = with_market(&["limits.body_values=1000"]);
    let key = service.key("ada");
    let submit = |values: usize| {
        let request = reqwest::Client::new().post(format!("{}/submit/system", service.base_url));
        let request =
            request.header("x-api-key", &key).json(&json!({ "ligands": vec![0; values] }));
        async { request.send().await.unwrap() }
    };
    // The object and the list are values, too.
    assert_eq!(submit(998).await.status(), 422);
    let refusal = submit(999).await;
    assert_eq!(refusal.status(), 413);
    assert!(refusal.text().await.unwrap().contains("more than 1000 values"));
    // A margin reads one position after another, and names what is wrong with the first of them.
    let futures = json!({ "portfolio": { "futures": vec![0; 5000] } });
    let refusal = margin(&service, &key).json(&futures).send().await.unwrap();
    assert_eq!(refusal.status(), 422);
    let refusal: Value = refusal.json().await.unwrap();
    assert_eq!(
        refusal["detail"][0]["loc"],
        json!(["body", "portfolio", "futures", 0]),
        "{refusal}"
    );
}

#[tokio::test]
async fn bodies_share_a_bounded_memory_of_which_no_account_has_more_than_half() {
    let settings = [
        "limits.body_bytes=1000",
        "margin.body_bytes=1000",
        "limits.bodies_bytes=2000",
        "limits.requests_per_minute=0",
    ];
    let service = Service::start_with(&settings);
    let host =
        service.base_url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let (ada, bob, eve) = (service.key("ada"), service.key("bob"), service.key("eve"));
    let begin = |key: &str| {
        let mut stream = TcpStream::connect(&host).unwrap();
        let head = format!(
            "POST /local/submit/job HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: 1000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&[b' '; 900]).unwrap();
        stream
    };
    let first = begin(&ada);
    let refused = until(&service, &ada, |status| status != 422).await;
    assert_eq!(refused, (429, "rate_limited".to_owned()));
    assert_eq!(until(&service, &bob, |_| true).await.0, 422, "the other half is free");
    let _second = begin(&bob);
    let refused = until(&service, &eve, |status| status != 422).await;
    assert_eq!(refused, (503, "unavailable".to_owned()));
    drop(first);
    assert_eq!(until(&service, &eve, |status| status == 422).await.0, 422, "it is given back");
}

/// Submits 300 bytes of blanks, which are no job, until the answer is as wanted: its status and
/// type.
async fn until(service: &Service, key: &str, is_wanted: impl Fn(u16) -> bool) -> (u16, String) {
    loop {
        let request = reqwest::Client::new()
            .post(format!("{}/submit/job", service.base_url))
            .header("x-api-key", key);
        let answer = request
            .header(CONTENT_TYPE, "application/json")
            .body(" ".repeat(300))
            .send()
            .await
            .unwrap();
        let status = answer.status().as_u16();
        let answer: Value = answer.json().await.unwrap();
        if is_wanted(status) {
            return (status, answer["detail"][0]["type"].as_str().unwrap().to_owned());
        }
    }
}

#[tokio::test]
async fn a_registration_takes_no_more_memory_for_a_larger_file() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.pdb");
    let atom = "ATOM      1  O   HOH A   1       1.000   2.000   3.000  1.00  0.00           O  \n";
    fs::write(&file, atom.repeat(250_000)).unwrap();
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let sent = reqwest::Client::new()
        .put(&link.upload_url)
        .body(fs::read(&file).unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(sent.status(), 200);
    let before = peak(&service);
    let registered = molbox
        .file_register()
        .body_map(|f| f.file_id(link.file_id.as_str()).name("large"))
        .send()
        .await;
    assert_eq!(registered.unwrap().size_bytes, Some(81 * 250_000));
    assert!(peak(&service) < before + 12, "{before} MiB before, {} MiB after", peak(&service));
}

#[tokio::test]
async fn a_text_that_is_too_large_to_be_checked_is_refused_and_so_is_a_custom_energy() {
    let service = Service::start_with(&["limits.text_bytes=2000"]);
    let molbox = service.client("ada");
    let register = async |filetype: &str, text: String| {
        let link = molbox.upload_url_create().filetype(filetype).send().await.unwrap();
        reqwest::Client::new().put(&link.upload_url).body(text).send().await.unwrap();
        let body = molbox.file_register().body_map(|f| f.file_id(link.file_id.as_str()).name("x"));
        body.send().await.unwrap_err().violations()[0].msg.clone()
    };
    let large = register("sdf", " ".repeat(2001)).await;
    assert!(large.contains("it has 2001 bytes; 2000 is the most"), "{large}");
    let nested = format!("{}r{}", "(".repeat(800), ")".repeat(800));
    let deep = register(
        "xml",
        format!("<ForceField>\n<CustomBondForce energy=\"{nested}\"/></ForceField>"),
    )
    .await;
    assert!(
        deep.contains("line 2: energy of <CustomBondForce> has more than 100 parentheses"),
        "{deep}"
    );
}

#[tokio::test]
async fn margins_of_one_account_do_not_keep_another_waiting() {
    let service = with_market(&["margin.calculations=1", "limits.wait_seconds=3600"]);
    let (ada, bob) = (service.key("ada"), service.key("bob"));
    let (leave, left) = tokio::sync::watch::channel(());
    let long: Vec<_> = (0..4)
        .map(|_| {
            let request = margin(&service, &ada).json(&job(1_000_000, 250)).send();
            let mut left = left.clone();
            tokio::spawn(async move {
                tokio::select! {
                    answer = request => Some(answer.unwrap().status()),
                    _ = left.changed() => None,
                }
            })
        })
        .collect();
    // Those take minutes, one after the other.
    for _ in 0..3 {
        assert_eq!(margin(&service, &bob).json(&job(100, 1)).send().await.unwrap().status(), 200);
    }
    drop(leave);
    for request in long {
        assert_eq!(request.await.unwrap(), None, "one has ended");
    }
}

#[tokio::test]
async fn a_margin_has_its_time_and_so_has_waiting_for_one() {
    let service = with_market(&[
        "margin.calculations=1",
        "margin.seconds=4",
        "limits.wait_seconds=0",
        "limits.requests_per_minute=0",
    ]);
    let key = service.key("ada");
    let refusal = margin(&service, &key).json(&job(1_000_000, 250)).send().await.unwrap();
    assert_eq!(refusal.status(), 422);
    let refusal: Value = refusal.json().await.unwrap();
    assert_eq!(refusal["detail"][0]["type"], "time_limit");
    // Its place is free again as soon as it has seen that it is to end.
    loop {
        let answer = margin(&service, &key).json(&job(100, 1)).send().await.unwrap();
        match answer.status().as_u16() {
            200 => break,
            503 => assert!(answer.headers().contains_key("retry-after")),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn broken_market_data_takes_the_margin_address_down_alone() {
    let mut service = with_market(&[]);
    let key = service.key("ada");
    let prices = service.data.join("market/prices.csv");
    let good = fs::read_to_string(&prices).unwrap();
    fs::write(&prices, good.replacen("2005-01-04,XEQ1,", "2005-01-04,XEQ1,x", 1)).unwrap();
    service.kill_and_restart();
    let health = |url: &str| {
        let url = format!("{url}/healthz");
        async { reqwest::get(url).await.unwrap() }
    };
    assert_eq!(health(&service.base_url).await.status(), 200);
    let down = health(&service.margin_url).await;
    assert_eq!(down.status(), 503);
    assert!(down.text().await.unwrap().contains("market data is broken"));
    let refusal = margin(&service, &key).json(&job(100, 1)).send().await.unwrap();
    assert_eq!(refusal.status(), 503);
    assert!(refusal.headers().contains_key("retry-after"));
    service.wait_until_it_logs("prices.csv");
    fs::write(&prices, good).unwrap();
    service.command(&["market", "reload"]);
    assert_eq!(health(&service.margin_url).await.status(), 200);
    assert_eq!(margin(&service, &key).json(&job(100, 1)).send().await.unwrap().status(), 200);
    service.wait_until_it_logs("market data reloaded");
}
