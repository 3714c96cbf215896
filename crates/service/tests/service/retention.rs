//! Results that are kept for a time, and announced before they are deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use molbox::Client;
use serde_json::Value;

use crate::audits::audit;
use crate::common::{Service, wait_for};
use crate::webhooks::{PATIENCE, end, receiver};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// The machine's clock goes on meanwhile.
const SLACK: i64 = 300;
/// Between looks, of which a key has so many a minute.
const PAUSE: Duration = Duration::from_millis(100);
/// Tasks stay queued, and end when they are cancelled.
const IDLE: &str = "worker.python=\"/nonexistent/python\"";
const KEPT: [&str; 3] = ["retention.days=30", "retention.warn_days=7", IDLE];

/// When a system is deleted, if that is announced; none within when it has been.
async fn expiry(molbox: &Client, id: &str) -> Option<Option<String>> {
    match molbox.system_view().system_id(id).send().await {
        Ok(system) => Some(system.expires_at.clone()),
        Err(error) if error.status().is_some_and(|status| status == 404) => None,
        Err(error) => panic!("{error}"),
    }
}

fn at(service: &mut Service, seconds: i64, settings: &[&str]) {
    service.stop();
    service.set_clock(seconds);
    service.restart_with(settings);
}

fn deleted(service: &Service) -> Vec<String> {
    let entries = audit(service, &["--action", "result_expire"]);
    entries.iter().map(|entry| entry["subject"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_deleted_when_they_were_kept_and_announced_for_their_days() {
    let mut service = Service::start_with_clock(&KEPT);
    let key = service.key("ada");
    let (url, reports) = receiver(&[204]);
    service.command(&["account", "webhook", "ada", "--url", &url]);
    // Of one that was sent as the service ended nobody knows that it arrived, and it comes again.
    let mut seen = BTreeSet::new();
    let mut next = || loop {
        let report = reports.recv_timeout(PATIENCE).unwrap();
        let report: Value = serde_json::from_str(&report.body).unwrap();
        if seen.insert(report["delivery_id"].as_str().unwrap().to_owned()) {
            return report;
        }
    };
    // What is announced or deleted of the older one shows that results were looked at.
    service.set_clock(-HOUR);
    let older = end(&service).await;
    service.set_clock(0);
    let id = end(&service).await;
    assert_eq!(
        [next(), next()].map(|report| report["event"].clone()),
        ["task_ended", "task_ended"]
    );

    at(&mut service, 23 * DAY - SLACK, &KEPT);
    let report = next();
    assert_eq!((&report["event"], &report["task_id"]), (&"task_expires".into(), &older.into()));
    let molbox = service.client_with(&key);
    assert_eq!(expiry(&molbox, &id).await, Some(None));

    at(&mut service, 23 * DAY + SLACK, &KEPT);
    let report = next();
    assert_eq!(
        (&report["event"], &report["task_id"]),
        (&"task_expires".into(), &id.as_str().into())
    );
    let molbox = service.client_with(&key);
    let announced = expiry(&molbox, &id).await.unwrap().unwrap();
    assert_eq!(report["expires_at"], announced.as_str());
    let [expires, ended] = [&report["expires_at"], &report["finished_at"]]
        .map(|at| at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap());
    // Announced late, it has its seven days all the same.
    let kept = expires.duration_since(ended).as_secs();
    assert!((30 * DAY..30 * DAY + 2 * SLACK).contains(&kept), "{kept}");
    let listed = molbox.system_list().send().await.unwrap().into_inner();
    let of_list = listed.items.iter().find(|system| system.system_id == id).unwrap();
    assert_eq!(of_list.expires_at.as_deref(), Some(announced.as_str()));

    at(&mut service, 30 * DAY - SLACK, &KEPT);
    wait_for("the older one is deleted", || (!deleted(&service).is_empty()).then_some(()));
    let molbox = service.client_with(&key);
    assert_eq!(expiry(&molbox, &id).await, Some(Some(announced)));

    at(&mut service, 30 * DAY + SLACK, &KEPT);
    wait_for("it is deleted", || (deleted(&service).len() == 2).then_some(()));
    assert_eq!(deleted(&service)[1], id);
    let molbox = service.client_with(&key);
    assert_eq!(expiry(&molbox, &id).await, None);
    let gone = molbox.system_view().system_id(&id).send().await.unwrap_err();
    assert!(gone.to_string().contains("ended more than 30 days ago is deleted"), "{gone}");
    let entries = audit(&service, &["--action", "result_expire"]);
    let by = (&entries[1]["operator"], &entries[1]["account"]);
    assert_eq!(by, (&"molboxd".into(), &"ada".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_when_results_begin_to_be_kept_for_a_time_has_its_warning_first() {
    let mut service = Service::start_with_clock(&[IDLE]);
    let key = service.key("ada");
    let id = end(&service).await;
    at(&mut service, 400 * DAY, &KEPT);
    let molbox = service.client_with(&key);
    let announced = loop {
        match expiry(&molbox, &id).await.expect("it is not deleted") {
            Some(at) => break at.parse::<jiff::Timestamp>().unwrap(),
            None => tokio::time::sleep(PAUSE).await,
        }
    };
    let ahead = announced.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((407 * DAY - SLACK..=407 * DAY).contains(&ahead), "{ahead}");
    // Nothing is deleted any more by a service that keeps results for ever.
    at(&mut service, 408 * DAY, &[IDLE]);
    let molbox = service.client_with(&key);
    while expiry(&molbox, &id).await != Some(None) {
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(deleted(&service), Vec::<String>::new());
}
