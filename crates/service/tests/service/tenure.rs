//! Records that were copied or restored from a backup, beside the original on the same bucket: they
//! do nothing there, until the original is gone for good.

use std::fs;
use std::path::Path;

use crate::buckets::files_of;
use crate::common::{Place, Service, example, wait_for};
use crate::s3::Bucket;
use crate::{postgres, s3};

/// Nothing is started.
const SETTINGS: [&str; 1] = ["worker.python=\"/nonexistent/python\""];

/// Runs a command on other records with these contents, which may succeed; what it says.
fn run(data: &Path, url: &str, bucket: &Bucket, command: &[&str]) -> (bool, String) {
    let mut molboxd = Place::on(data, url, bucket).molboxd();
    molboxd.args(["--set", "listen=\"127.0.0.1:0\"", "--set", "margin_listen=\"127.0.0.1:0\""]);
    let output = molboxd.args(["--set", SETTINGS[0]]).args(command).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// The step that a bucket is at.
fn step(bucket: &Bucket) -> String {
    fs::read_to_string(bucket.folder.join("tenure")).unwrap()
}

#[tokio::test]
async fn a_copy_of_the_records_does_nothing_on_the_bucket_of_the_original() {
    let (Some(server), Some(s3)) = (postgres::shared(), s3::shared()) else { return };
    let (url, bucket) = (server.database(), s3.bucket());
    let service = Service::start_shared(&url, &bucket, &SETTINGS);
    let molbox = service.client("ada");
    let copy = server.copy(&url);
    // What the copy knows nothing of.
    let villin = molbox.upload(example("1vii.pdb")).await.unwrap().file_id.to_string();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let remedies = ["objects.url", "molboxd take-over"];
    // Also at once, when both stand where they stood together: it waits for who is first to go on.
    let (done, said) = run(&data, &copy, &bucket, &["serve"]);
    assert!(!done && remedies.iter().all(|part| said.contains(part)), "{said}");
    let (_, said) = run(&data, &copy, &bucket, &["doctor"]);
    let line = said.lines().find(|line| line.starts_with("broken  database: "));
    assert!(line.is_some_and(|line| remedies.iter().all(|it| line.contains(it))), "{said}");
    // Nor does it become the original by mistake.
    let (done, said) = run(&data, &copy, &bucket, &["take-over"]);
    assert!(!done && said.contains("a server of another database works on"), "{said}");
    assert_eq!(files_of(&molbox).await, [villin]);
    let before = step(&bucket);
    wait_for("the original goes on", || (step(&bucket) != before).then_some(()));
}

#[tokio::test]
async fn restored_records_take_the_place_of_the_original_by_a_command() {
    let (Some(server), Some(s3)) = (postgres::shared(), s3::shared()) else { return };
    let (url, bucket) = (server.database(), s3.bucket());
    let mut service = Service::start_shared(&url, &bucket, &SETTINGS);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let villin = molbox.upload(example("1vii.pdb")).await.unwrap().file_id.to_string();
    let restored = server.copy(&url);
    service.kill_and_restart();
    service.stop();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (done, said) = run(&data, &restored, &bucket, &["serve"]);
    assert!(!done && said.contains("molboxd take-over"), "{said}");
    let (done, said) = run(&data, &restored, &bucket, &["take-over"]);
    assert!(done && said.contains("from now on"), "{said}");
    let (done, said) = run(&data, &restored, &bucket, &["take-over"]);
    assert!(done && said.contains("already"), "{said}");
    let other = Service::start_at(&data, Place::on(&data, &restored, &bucket), &SETTINGS);
    assert_eq!(files_of(&other.client_with(&key)).await, [villin]);
    drop(other);
    // Should it come back, it is the copy now.
    let (done, said) = run(&service.data, &url, &bucket, &["serve"]);
    assert!(!done && said.contains("has gone on without"), "{said}");
}

#[test]
fn a_server_ends_whose_bucket_goes_on_with_other_records() {
    let Some(s3) = s3::shared() else { return };
    let bucket = s3.bucket();
    let mut service = Service::start_in_bucket(&bucket, &SETTINGS);
    let early = step(&bucket);
    service.kill_and_restart();
    service.stop();
    // A bucket that was restored, or a step that was not noted there, is no other's.
    let tenure = bucket.folder.join("tenure");
    let last = step(&bucket);
    assert!(last != early);
    fs::write(&tenure, &early).unwrap();
    service.restart();
    let now = step(&bucket);
    assert!(now != early && now != last, "{now}");
    // A server that runs knows the steps that its database has forgotten, as a standby has that was
    // behind when it took over.
    let noted = service.sql("select holder from runner where name = 'contents'");
    wait_for("it goes on", || (step(&bucket) != now).then_some(()));
    service.sql(&format!(
        "update runner set holder = '{noted}' where name = 'contents' returning name"
    ));
    service.wait_until_it_logs("has lost what it had acknowledged");
    let now = step(&bucket);
    wait_for("it goes on", || (step(&bucket) != now).then_some(()));
    fs::write(&tenure, "1000000 another").unwrap();
    service.wait_until_it_logs("has gone on without");
    wait_for("it has ended", || (!service.is_running()).then_some(()));
    assert_eq!(step(&bucket), "1000000 another");
}
