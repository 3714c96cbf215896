//! What an account may hold: counted as things change, exact after a crash, refused with the
//! numbers.

use std::fs;
use std::path::Path;

use molbox::workflow::types::{EquilibrationStep, ProductionParams};
use molbox::{Client, Error};
use serde_json::Value;

use crate::common::{Service, wait_for};
use crate::files::{SlowUpload, atom, contents};
use crate::work::{endless_job, until_it_produces, water};

/// What all files below a folder take.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                bytes_below(&entry.path())
            } else {
                entry.metadata().unwrap().len()
            }
        })
        .sum()
}

/// What all objects take.
fn stored(service: &Service) -> u64 {
    ["files", "tasks"].iter().map(|room| bytes_below(&service.objects().join(room))).sum()
}

fn held(service: &Service, account: &str) -> u64 {
    let sql = format!("select bytes from account where name = '{account}'");
    service.sql(&sql).parse().unwrap()
}

fn is_over_quota(error: &Error, numbers: &str) {
    assert_eq!(error.status().unwrap(), 422, "{error}");
    for part in [numbers, "limits.account_bytes", "delete files"] {
        assert!(error.to_string().contains(part), "{part} is missing from {error}");
    }
}

/// Makes a link and sends a structure to it; status and body.
async fn send(molbox: &Client) -> (u16, String) {
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let answer = reqwest::Client::new().put(&link.upload_url).body(atom(1.0)).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_holds_no_more_than_it_may_whoever_sends_it_when() {
    let size = atom(1.0).len() as u64;
    // Three, and not four, and a whole one beside most of another.
    let service = Service::start_with(&[
        &format!("limits.account_bytes={}", 4 * size - 10_000),
        "worker.python=\"/bin/false\"",
    ]);
    let molbox = service.client("ada");
    let http = reqwest::Client::new();
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(http.put(&link.upload_url).body(atom(2.0)).send().await.unwrap().status(), 200);
        assert_eq!(held(&service, "ada"), size, "what is replaced is not counted any more");
    }
    let file = molbox
        .file_register()
        .body_map(|f| f.file_id(link.file_id.as_str()).name("one"))
        .send()
        .await
        .unwrap();
    assert_eq!(held(&service, "ada"), size);
    assert_eq!(send(&molbox).await.0, 200);

    // Each of two has room, both together have not.
    let links = [
        molbox.upload_url_create().filetype("pdb").send(),
        molbox.upload_url_create().filetype("pdb").send(),
    ];
    let links = futures::future::try_join_all(links).await.unwrap();
    let content = atom(3.0);
    let [first, second] =
        [0, 1].map(|n| SlowUpload::begin(&service, &links[n].upload_url, &content[..300_000 + n]));
    assert_eq!(first.finish(&content[300_000..]).await, 200);
    assert_eq!(second.finish(&content[300_001..]).await, 422);
    let (status, body) = send(&molbox).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, body["detail"][0]["type"].as_str()), (422, Some("quota")), "{body}");
    let message = body["detail"][0]["msg"].as_str().unwrap();
    assert!(
        message.contains(
            "the account holds 1.1 MB of the 1.4 MB that it may (limits.account_bytes, or"
        ),
        "{message}"
    );
    assert_eq!(contents(&service).len(), 3, "what was refused is not kept");
    assert_eq!((held(&service, "ada"), held(&service, "ada")), (3 * size, stored(&service)));
    assert_eq!(send(&service.client("bob")).await.0, 200, "another account has its own");

    molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    assert_eq!(held(&service, "ada"), 2 * size);
    assert_eq!(send(&molbox).await.0, 200);
    let counted = service.command(&["check"]);
    assert!(counted.ends_with("0 damaged, 0 orphans"), "{counted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_under_way_are_held_against_what_their_account_may_hold() {
    let size = atom(1.0).len() as u64;
    let service = Service::start_with(&[&format!("limits.account_bytes={}", 2 * size)]);
    let molbox = service.client("ada");
    let content = atom(1.0);
    // Several to one link, of which it comes to hold one.
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let [first, second] =
        [0, 1].map(|n| SlowUpload::begin(&service, &link.upload_url, &content[..300_000 + n]));
    let (status, body) = send(&molbox).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, body["detail"][0]["type"].as_str()), (422, Some("quota")), "{body}");
    let message = body["detail"][0]["msg"].as_str().unwrap();
    assert!(
        message.contains("no room beside the 600.0 kB of its other uploads under way"),
        "{message}"
    );
    assert_eq!(held(&service, "ada"), 0);
    assert_eq!(send(&service.client("bob")).await.0, 200, "another account has its own");
    assert_eq!(first.finish(&content[300_000..]).await, 200);
    assert_eq!(second.finish(&content[300_001..]).await, 200);
    assert_eq!(send(&molbox).await.0, 200, "what is under way no more is given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_refused_leaves_its_room_to_the_others_at_once() {
    let service = Service::start_with(&["limits.account_bytes=1000000"]);
    let molbox = service.client("ada");
    let link = async || {
        molbox.upload_url_create().filetype("pdb").send().await.unwrap().upload_url.clone()
    };
    let kept = SlowUpload::begin(&service, &link().await, &[b' '; 400_000]);
    let refused = SlowUpload::begin(&service, &link().await, &[b'\n'; 500_000]);
    refused.send(&[b'\n'; 200_000]);
    wait_for("one of two is written on", || {
        (fs::read_dir(service.data.join("partial")).unwrap().count() == 1).then_some(())
    });
    // It goes on sending meanwhile.
    assert_eq!(kept.finish(&[b' '; 500_000]).await, 200);
    assert_eq!(refused.finish(&[]).await, 422);
}

#[tokio::test]
async fn an_account_has_so_many_links_that_wait_for_their_file_and_no_more() {
    let service = Service::start_with(&["limits.pending_files=2"]);
    let molbox = service.client("ada");
    let link = async || molbox.upload_url_create().filetype("pdb").send().await;
    let first = link().await.unwrap();
    link().await.unwrap();
    let error = link().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 429);
    assert!(error.to_string().contains("limits.pending_files"), "{error}");
    molbox.file_delete().file_id(&first.file_id).send().await.unwrap();
    link().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_account_can_read_and_delete_and_nothing_else() {
    let size = atom(1.0).len();
    let mut service = Service::start_with(&[]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = atom(1.0);
    reqwest::Client::new().put(&link.upload_url).body(content.clone()).send().await.unwrap();
    let file =
        molbox.file_register().body_map(|f| f.file_id(link.file_id.as_str())).send().await.unwrap();
    // Killed in the middle of another, nothing of that is counted.
    let other = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let cut_off = SlowUpload::begin(&service, &other.upload_url, &content[..300_000]);
    service.kill();
    drop(cut_off);
    service
        .restart_with(&[&format!("limits.account_bytes={size}"), "worker.python=\"/bin/false\""]);
    assert_eq!(held(&service, "ada"), size as u64);
    assert!(service.command(&["check"]).ends_with("0 damaged, 0 orphans"));
    let molbox = service.client_with(&key);
    let numbers = "the account holds 350.1 kB of the 350.1 kB that it may";
    is_over_quota(&molbox.upload_url_create().filetype("pdb").send().await.unwrap_err(), numbers);
    is_over_quota(&molbox.system_submit().send().await.unwrap_err(), numbers);
    molbox.file_download().file_id(&file.file_id).send().await.unwrap();
    molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    assert_eq!(held(&service, "ada"), 0);
    molbox.system_submit().send().await.unwrap();
}

#[tokio::test]
async fn a_job_is_counted_by_what_it_may_write_and_then_by_what_it_wrote() {
    let mut service = Service::start();
    let key = service.key("ada");
    let system = water(&service.client_with(&key)).await;
    let before = held(&service, "ada");
    assert_eq!(before, stored(&service));
    // Room for one job of 500 frames, and not for two.
    let atoms = system.summary.as_ref().unwrap().atoms as u64;
    let max = before + 800 * 12 * atoms;
    service.stop();
    service.restart_with(&[&format!("limits.account_bytes={max}"), "worker.slots=1"]);
    let molbox = service.client_with(&key);
    let submit = async |every: u64| {
        let job = molbox.job_submit().body_map(|job| {
            job.box_id(system.system_id.as_str())
                .minimization_steps(10)
                .equilibration(Vec::<EquilibrationStep>::new())
                .production(
                    ProductionParams::builder()
                        .type_("NVT")
                        .time(0.002)
                        .traj_freq(every)
                        .log_freq(1000),
                )
        });
        job.send().await.map(|job| job.job_id.as_str().to_owned())
    };
    let job = submit(2).await.unwrap();
    let reserved = held(&service, "ada") - before;
    assert!(
        (500 * 12 * atoms..501 * 13 * atoms).contains(&reserved),
        "{reserved} bytes for 500 frames of {atoms} atoms"
    );
    is_over_quota(&submit(2).await.unwrap_err(), "the account holds ");
    let waiting = submit(1000).await.unwrap();
    for id in [&job, &waiting] {
        molbox.wait_job(id).await.unwrap();
    }
    assert_eq!(held(&service, "ada"), stored(&service), "what was written is counted");
    for id in [&job, &waiting] {
        molbox.job_delete().job_id(id.as_str()).send().await.unwrap();
    }
    assert_eq!(held(&service, "ada"), before);
    assert!(service.command(&["check"]).ends_with("0 damaged, 0 orphans"));
}

#[tokio::test]
async fn a_queued_job_that_is_cancelled_takes_nothing() {
    let service = Service::start_with(&["worker.slots=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let before = held(&service, "ada");
    let running = endless_job(&molbox, &system).await;
    let of_one = held(&service, "ada") - before;
    let queued = endless_job(&molbox, &system).await;
    assert_eq!(held(&service, "ada"), before + 2 * of_one);
    molbox.job_cancel().job_id(queued.as_str()).send().await.unwrap();
    assert_eq!(held(&service, "ada"), before + of_one);
    molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
}

#[tokio::test]
async fn a_file_that_nobody_registers_is_deleted_with_what_arrived() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let ready = molbox.upload(crate::common::example("1vii.pdb")).name("ready").await.unwrap();
    let mut pending = Vec::new();
    for _ in 0..3 {
        let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap().into_inner();
        reqwest::Client::new().put(&link.upload_url).body(atom(1.0)).send().await.unwrap();
        pending.push(link.file_id);
    }
    service.stop();
    let hour = 3600 * 1_000_000_i64;
    let wait = |id: &str, hours: i64| {
        let earlier = hours * hour;
        service
            .sql(&format!("update file set created_at = created_at - {earlier} where id = '{id}'"));
    };
    wait(pending[0].as_str(), 25);
    wait(pending[1].as_str(), 23);
    wait(ready.file_id.as_str(), 1000);
    service.restart();
    let molbox = service.client_with(&key);
    wait_for("what arrived is removed", || (contents(&service).len() == 3).then_some(()));
    let gone = molbox.file_view().file_id(&pending[0]).send().await.unwrap_err();
    assert_eq!(gone.status().unwrap(), 404);
    for file in [&pending[1], &pending[2], &ready.file_id] {
        molbox.file_view().file_id(file).send().await.unwrap();
    }
    assert_eq!(held(&service, "ada"), stored(&service));
}

#[tokio::test]
async fn a_check_compares_what_is_counted_and_a_start_counts_what_is_not() {
    let mut service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    assert_eq!(send(&molbox).await.0, 200);
    service.stop();
    let change = |sql: &str| assert_eq!(service.sql(sql), "");
    let objects = held(&service, "ada");
    change("update account set bytes = bytes + 1");
    let said = service.failing_command(&["check"]);
    let expected = format!(
        "miscounted account ada: {} bytes are counted, its files and tasks have {objects}",
        objects + 1
    );
    assert!(said.contains(&expected), "{said}");
    change("update account set bytes = bytes - 1");
    change("update file set bytes = bytes - 7");
    change("update task set bytes = bytes + 5");
    let said = service.failing_command(&["check"]);
    let id = system.system_id.as_str();
    for part in [format!("damaged {id}: its objects take "), "the content takes ".to_owned()] {
        assert!(said.contains(&part), "{said}");
    }
    assert!(!said.contains("miscounted"), "{said}");
    change("update file set bytes = bytes + 7");
    // As an earlier version left it.
    change("update task set bytes = null");
    service.restart();
    wait_for("the results are counted", || (held(&service, "ada") == objects).then_some(()));
    assert!(service.command(&["check"]).ends_with("0 damaged, 0 orphans"));
}

#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_had_slots_for_its_hours_queues_nothing_until_they_are_past() {
    const HOUR: i64 = 3600;
    let settings = ["limits.account_hours=2", "limits.hours_days=7", "worker.slots=1"];
    let service = Service::start_with_clock(&settings);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    let submit = || molbox.system_submit().send();
    let cancelled = submit().await.unwrap().system_id.clone();
    molbox.system_cancel().system_id(&cancelled).send().await.unwrap();
    service.set_clock(3 * HOUR);
    let hours = molbox.usage_view().send().await.unwrap().hours.clone().unwrap();
    assert!((3.0..3.2).contains(&hours.used.get()), "{hours:?}");
    assert_eq!((hours.most.unwrap().get(), hours.days), (2.0, 7));
    let error = submit().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 422, "{error}");
    for part in
        ["for 3.", "in the last 7 days", "may have 2 h", "limits.account_hours", "again from 2"]
    {
        assert!(error.to_string().contains(part), "{part} is missing from {error}");
    }
    service.client("bob").system_submit().send().await.unwrap();

    service.command(&["account", "limit", "ada", "--hours", "10", "--bytes", "5GB"]);
    let wrong = service.failing_command(&["account", "limit", "ada", "--bytes", "5 boxes"]);
    assert!(wrong.contains("5000000000 or 5GB"), "{wrong}");
    let shown = service.command(&["account", "show", "ada"]);
    // The command is not told the service's settings here.
    assert!(shown.contains(" h in 30 days of 10 h, its own limit"), "{shown}");
    assert!(shown.contains(" of 5.0 GB, its own limit"), "{shown}");
    submit().await.unwrap();
    service.command(&["account", "limit", "ada", "--service-limits"]);
    submit().await.unwrap_err();
    // What it has is finished all the same, and counted no more when the days are past.
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    molbox.wait_job(&job).await.ok();
    service.set_clock(8 * 24 * HOUR);
    submit().await.unwrap();
}

#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_charged_no_weekend_for_which_the_machine_was_off() {
    let mut service = Service::start_with_clock(&[]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    service.set_clock(60 * 3600);
    service.power_cut_and_restart();
    let molbox = service.client_with(&key);
    crate::work::wait_until(&molbox, &job, |job| job.status == "running" && job.attempts == 2)
        .await;
    let hours = molbox.usage_view().send().await.unwrap().hours.clone().unwrap();
    assert!(hours.used.get() < 1.0, "{hours:?}");
}
