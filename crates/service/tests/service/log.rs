//! The request log: gathered lines, none of which is lost.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::Duration;

use crate::common::Service;

async fn ask(service: &Service, path: &str, id: &str) {
    // So long only when the service does not answer at all.
    let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
    http.get(format!("{}/{path}", service.base_url))
        .header("x-request-id", id)
        .send()
        .await
        .unwrap();
}

#[tokio::test]
async fn every_line_is_there_when_the_service_has_stopped() {
    let mut service = Service::start();
    for number in 0..20 {
        ask(&service, "healthz", &format!("request-{number}-")).await;
    }
    service.stop();
    for number in 0..20 {
        assert_eq!(
            service.log().matches(&format!("request-{number}-")).count(),
            1,
            "{}",
            service.log()
        );
    }
}

#[tokio::test]
async fn a_line_comes_while_the_service_has_nothing_more_to_do() {
    let service = Service::start();
    ask(&service, "healthz", "the-only-one").await;
    service.wait_until_it_logs("the-only-one");
}

#[tokio::test]
async fn no_request_waits_for_who_reads_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (data, pipe) = (folder.path().join("data"), folder.path().join("data.log"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let mut service = Service::start_in(&data, &[]);
    // More than the 64 KiB that a pipe holds.
    let long = "x".repeat(8000);
    for number in 0..20 {
        ask(&service, &long, &format!("request-{number}-")).await;
    }
    let mut lines = BufReader::new(reader).lines();
    for number in 0..20 {
        let wanted = format!("request-{number}-");
        assert!(lines.any(|line| line.unwrap().contains(&wanted)), "{wanted}");
    }
    service.stop();
}
