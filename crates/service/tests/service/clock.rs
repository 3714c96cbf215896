//! What expires, and when: with a clock that the tests set.

use reqwest::StatusCode;

use crate::audits::{audit, deeds};
use crate::common::{Service, example, wait_for};
use crate::files::contents;
use crate::work::{endless_job, until_it_produces, wait_until, water};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The machine's clock goes on meanwhile.
const SLACK: i64 = 5 * MINUTE;
/// A service that carries nothing out.
const IDLE: &str = "worker.python=\"/bin/false\"";

#[tokio::test]
async fn a_key_is_good_until_it_expires_and_not_after() {
    let service = Service::start_with_clock(&[]);
    service.command(&["account", "create", "ada"]);
    let key = service.command(&["key", "create", "ada", "--days", "1"]);
    let lasting = service.client("ada");
    let ada = service.client_with(&key);
    let listed = || service.command(&["key", "list", "ada"]);
    ada.account_view().send().await.unwrap();

    service.set_clock(DAY - SLACK);
    let account = ada.account_view().send().await.unwrap();
    assert!(account.key_expires_at.is_some());
    let link = ada.upload_url_create().filetype("pdb").send().await.unwrap();
    assert!(listed().contains("\texpires "), "{}", listed());

    service.set_clock(DAY + 1);
    assert_eq!(
        ada.account_view().send().await.unwrap_err().status(),
        Some(StatusCode::UNAUTHORIZED)
    );
    assert_eq!(put(&link.upload_url).await, StatusCode::FORBIDDEN, "its links end with it");
    assert!(listed().contains("\texpired "), "{}", listed());
    lasting.account_view().send().await.unwrap();
}

#[tokio::test]
async fn the_time_of_a_task_goes_on_when_the_service_is_started_anew() {
    let mut service = Service::start_with_clock(&["worker.wall_seconds=3600"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    service.set_clock(HOUR + 1);
    service.kill_and_restart();
    let molbox = service.client("ada");
    let job = wait_until(&molbox, &job, |job| job.status != "running").await;
    assert_eq!((job.status.as_str(), job.attempts), ("failed", 1));
    assert_eq!(job.error.unwrap().code, "wall_limit");
}

#[tokio::test]
async fn a_link_is_good_for_an_hour_and_not_longer() {
    let service = Service::start_with_clock(&[IDLE]);
    let ada = service.client("ada");
    let early = ada.upload_url_create().filetype("pdb").send().await.unwrap();
    let late = ada.upload_url_create().filetype("pdb").send().await.unwrap();
    service.set_clock(HOUR - SLACK);
    assert_eq!(put(&early.upload_url).await, StatusCode::OK);
    service.set_clock(HOUR + 1);
    let response = reqwest::Client::new().put(&late.upload_url).body("END").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(response.text().await.unwrap().contains("the link has expired; ask for another"));
    // What arrived in time can still be registered.
    ada.file_register().body_map(|file| file.file_id(&early.file_id)).send().await.unwrap();
}

#[tokio::test]
async fn a_request_is_answered_as_the_first_time_for_a_day_and_not_longer() {
    let service = Service::start_with_clock(&[IDLE]);
    let ada = service.client("ada");
    let submit = || async {
        ada.system_submit().idempotency_key("once").send().await.unwrap().system_id.clone()
    };
    let first = submit().await;
    service.set_clock(DAY - SLACK);
    assert_eq!(submit().await, first);
    service.set_clock(DAY + 1);
    let second = submit().await;
    assert_ne!(second, first);
    assert_eq!(submit().await, second, "it is kept anew");
}

#[tokio::test]
async fn what_is_deleted_is_kept_for_its_days_and_then_gone() {
    let settings = ["objects.keep_deleted_days=2", IDLE];
    let mut service = Service::start_with_clock(&settings);
    let ada = service.client("ada");
    let file = ada.upload(example("1vii.pdb")).await.unwrap();
    ada.file_delete().file_id(&file.file_id).send().await.unwrap();
    assert_eq!(contents(&service).len(), 1, "its content is still there");
    service.stop();
    service.set_clock(2 * DAY - SLACK);
    service.restart();
    assert!(service.command(&["check"]).contains("0 orphans"), "it is nobody's loss");
    assert_eq!(contents(&service).len(), 1);
    service.stop();
    service.set_clock(2 * DAY + 1);
    service.restart();
    wait_for("the content is gone", || contents(&service).is_empty().then_some(()));
}

#[tokio::test]
async fn what_was_never_registered_is_deleted_after_its_hours_and_not_before() {
    let mut service = Service::start_with_clock(&["limits.pending_hours=24", IDLE]);
    let ada = service.client("ada");
    let pending = ada.upload_url_create().filetype("pdb").send().await.unwrap();
    let registered = ada.upload_url_create().filetype("pdb").send().await.unwrap();
    for link in [&pending, &registered] {
        assert_eq!(put(&link.upload_url).await, StatusCode::OK);
    }
    ada.file_register().body_map(|file| file.file_id(&registered.file_id)).send().await.unwrap();

    // Its deletion shows that files that have waited too long were looked for.
    service.set_clock(-HOUR);
    let older = service.client("bob").upload_url_create().filetype("pdb").send().await.unwrap();
    service.stop();
    service.set_clock(DAY - SLACK);
    service.restart();
    wait_for("the older file is deleted", || (!expired(&service).is_empty()).then_some(()));
    assert_eq!(expired(&service), [older.file_id.as_str()]);
    service.stop();
    service.set_clock(DAY + 1);
    service.restart();
    wait_for("the file is deleted", || (expired(&service).len() == 2).then_some(()));
    assert_eq!(expired(&service)[1], pending.file_id.as_str());
    let ada = service.client("ada");
    let files = ada.file_list().send().await.unwrap().into_inner();
    let ids: Vec<&str> = files.items.iter().map(|file| file.file_id.as_str()).collect();
    assert_eq!(ids, [registered.file_id.as_str()]);
}

#[tokio::test]
async fn the_audit_log_forgets_what_is_older_than_its_days_and_notes_what_expires() {
    let mut service = Service::start_with_clock(&["audit_days=30", IDLE]);
    service.command(&["account", "create", "ada"]);
    service.set_clock(2 * DAY);
    let ada = service.client("ada");
    let key = ada.account_view().send().await.unwrap().key_id.clone();
    service.set_clock(10 * DAY);
    let link = ada.upload_url_create().filetype("pdb").send().await.unwrap();
    service.stop();
    service.set_clock(31 * DAY);
    service.restart();
    let created = || audit(&service, &["--action", "account_create"]);
    wait_for("the oldest entry is gone", || created().is_empty().then_some(()));
    let (entries, id) = (audit(&service, &[]), link.file_id.as_str());
    assert_eq!(
        deeds(&entries),
        [("key_create", key.as_str()), ("upload_url_create", id), ("file_expire", id)]
    );
    assert_eq!(
        (&entries[2]["operator"], &entries[2]["account"]),
        (&"molboxd".into(), &"ada".into())
    );
}

/// The files that were deleted because they had waited too long, in that order.
fn expired(service: &Service) -> Vec<String> {
    let entries = audit(service, &["--action", "file_expire"]);
    entries.iter().map(|entry| entry["subject"].as_str().unwrap().to_owned()).collect()
}

async fn put(url: &str) -> StatusCode {
    let content = std::fs::read(example("1vii.pdb")).unwrap();
    reqwest::Client::new().put(url).body(content).send().await.unwrap().status()
}
