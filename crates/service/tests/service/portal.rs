//! The portal as browsers find it, and what it needs of addresses.

use std::net::TcpListener;
use std::path::Path;

use reqwest::header::{CONTENT_LENGTH, CONTENT_SECURITY_POLICY, ETAG, HOST, LOCATION};
use reqwest::{Client, redirect};
use serde_json::{Value, json};

use crate::common::Service;

/// Whether the tested program was built with the portal.
fn is_built() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../portal/dist/index.html").exists()
}

#[tokio::test]
async fn every_address_above_the_portal_leads_to_it() {
    let service = Service::start();
    let http = Client::builder().redirect(redirect::Policy::none()).build().unwrap();
    let origin = service.base_url.strip_suffix("/local").unwrap();
    for (from, way) in [
        ("/", "local/portal/"),
        ("/local", "local/portal/"),
        ("/local/", "portal/"),
        ("/local/portal", "portal/"),
    ] {
        let answer = http.get(format!("{origin}{from}")).send().await.unwrap();
        assert_eq!(answer.status(), 303, "{from}");
        assert_eq!(answer.headers()[LOCATION], way, "{from}");
        let page = reqwest::get(format!("{origin}{from}")).await.unwrap();
        assert_eq!(page.url().path(), "/local/portal/", "{from}");
    }
    assert_eq!(http.get(format!("{origin}/other")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn the_portal_is_served_without_a_key_or_says_how_to_build_it() {
    let service = Service::start();
    let http = Client::new();
    let doctor = service.place().molboxd().arg("doctor").output().unwrap();
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    let finding = doctor.lines().find(|line| line.contains(" portal: ")).unwrap();
    for path in ["/portal/", "/portal/job/job_00000000000000000000"] {
        let url = format!("{}{path}", service.base_url);
        let answer = http.get(&url).send().await.unwrap();
        if !is_built() {
            assert_eq!(answer.status(), 503);
            let text = answer.text().await.unwrap();
            assert!(text.contains("run `cargo xtask portal`"), "{text}");
            assert!(finding.contains(&text), "{finding}");
            continue;
        }
        assert_eq!(finding, "ok      portal: built in");
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().contains_key(CONTENT_SECURITY_POLICY));
        let etag = answer.headers()[ETAG].clone();
        let html = answer.text().await.unwrap();
        assert!(html.contains("<base href=\"/local/portal/\">"), "{html}");
        assert!(!html.contains("style=") && !html.contains("<style"), "the policy refuses it");
        let again = http.get(&url).header("if-none-match", etag).send().await.unwrap();
        assert_eq!(again.status(), 304);
        let head = http.head(&url).send().await.unwrap();
        assert_eq!(head.status(), 200);
        assert_eq!(head.headers()[CONTENT_LENGTH], html.len().to_string());
        assert_eq!(head.text().await.unwrap(), "");
    }
    let posted = http.post(format!("{}/portal/", service.base_url)).send().await.unwrap();
    assert_eq!(posted.status(), 405);
}

#[tokio::test]
async fn an_upload_link_leads_to_where_the_service_was_asked() {
    let service = Service::start();
    let key = service.key("ada");
    let base_url = service.base_url.as_str();
    for (host, begins) in [
        (None, base_url),
        (Some("md.example.org:8080"), "http://md.example.org:8080/local"),
        // What is no host is no address.
        (Some("ada@md.example.org"), base_url),
    ] {
        let link = upload_url(base_url, &key, host).await;
        assert!(link.starts_with(&format!("{begins}/upload/")), "{host:?}: {link}");
    }

    // Free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let service = Service::start_with(&[
        "public_url=\"https://md.example.org/lab\"",
        &format!("listen=\"{address}\""),
    ]);
    let key = service.key("ada");
    let link = upload_url(&format!("http://{address}/local"), &key, None).await;
    assert!(link.starts_with("https://md.example.org/lab/local/upload/"), "{link}");
}

async fn upload_url(base_url: &str, key: &str, host: Option<&str>) -> String {
    let url = format!("{base_url}/submit/upload-url?filetype=pdb");
    let mut request = Client::new().get(url).header("x-api-key", key);
    if let Some(host) = host {
        request = request.header(HOST, host);
    }
    let link: Value = request.send().await.unwrap().json().await.unwrap();
    link["upload_url"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_margin_is_the_same_at_both_addresses() {
    let service = Service::start();
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let key = service.key("ada");
    let job = json!({ "marginDate": "2024-12-31", "numScenarios": 500, "portfolio": { "futures": [
        { "ticker": "XEQ1", "type": "long", "quantity": 2 },
    ] } });
    let mut answers = Vec::new();
    for address in [&service.base_url, &service.margin_url] {
        let url = format!("{address}/margin/submit_job/historical/json");
        let refused = Client::new().post(&url).json(&job).send().await.unwrap();
        assert_eq!(refused.status(), 401, "{address}");
        let request = Client::new().post(&url).header("x-api-key", &key).json(&job);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{address}");
        answers.push(answer.text().await.unwrap());
    }
    assert_eq!(answers[0], answers[1]);
}
