//! The data folder: a database without its objects or the other way round, a folder that is moved
//! under the service, content that is damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use molbox::Error;
use serde_json::{Value, json};

use crate::common::{Service, example, wait_for};
use crate::work::{endless_job, until_it_produces, wait_until, water};

/// Names of everything in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Takes the database away, with its log and the index of it where these are there.
fn remove_database(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = ["", "-wal", "-shm"].map(|end| data.join(format!("molbox.sqlite{end}")));
    let mut removed = Vec::new();
    for file in files.into_iter().filter(|file| file.exists()) {
        removed.push((file.clone(), fs::read(&file).unwrap()));
        fs::remove_file(file).unwrap();
    }
    removed
}

#[tokio::test]
async fn contents_without_their_database_are_not_taken_for_a_new_service() {
    let mut service = Service::start();
    service.client("ada").upload(example("1vii.pdb")).await.unwrap();
    service.stop();
    let refused = |what: &str| {
        for command in [
            &["serve"][..],
            &["account", "create", "bob"],
            &["key", "list", "ada"],
            &["migrate"],
            &["check"],
        ] {
            let said = service.failing_command(command);
            assert!(
                said.contains("has contents in objects/files but"),
                "{what}, {command:?}: {said}"
            );
            assert!(said.contains("restore molbox.sqlite"), "{what}, {command:?}: {said}");
        }
    };
    let backup = remove_database(&service.data);
    refused("a lost database");
    assert!(!service.data.join("molbox.sqlite").exists(), "none was made");
    fs::write(service.data.join("molbox.sqlite"), "").unwrap();
    refused("an empty file");
    remove_database(&service.data);
    fs::rename(service.data.join("objects"), service.data.join("aside")).unwrap();
    service.command(&["account", "create", "bob"]);
    fs::remove_dir_all(service.data.join("objects")).ok();
    fs::rename(service.data.join("aside"), service.data.join("objects")).unwrap();
    let said = service.failing_command(&["serve"]);
    assert!(said.contains("but a database that is empty"), "{said}");
    remove_database(&service.data);
    for (file, content) in backup {
        fs::write(file, content).unwrap();
    }
    service.restart();
    assert_eq!(service.client("ada").file_list().send().await.unwrap().items.len(), 1);
}

#[test]
fn a_new_folder_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    // That of the user's own service was perhaps meant.
    let own = folder.path().join("molbox");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("molbox.sqlite"), "").unwrap();
    let run = |command: &[&str]| {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(&data).args(command).env("XDG_DATA_HOME", folder.path());
        let output = molboxd.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for question in [
        &["account", "list"][..],
        &["account", "show", "ada"],
        &["key", "list", "ada"],
        &["task", "list"],
    ] {
        let (is_done, said) = run(question);
        assert!(!is_done && said.contains("there is no data in "), "{question:?}: {said}");
        assert!(said.contains(&format!("`--data {}`", own.display())), "{said}");
        assert!(!data.exists(), "{question:?}");
    }
    let (is_done, said) = run(&["account", "create", "ada"]);
    assert!(is_done && said.contains("new data folder: "), "{said}");
    assert!(said.contains(&format!("`--data {}`", own.display())), "{said}");
    let (is_done, said) = run(&["account", "list"]);
    assert!(is_done, "{said}");
}

#[tokio::test]
async fn a_folder_that_is_moved_away_is_noticed_at_once() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let elsewhere = service.data.with_file_name("elsewhere");
    let content = fs::read(example("1vii.pdb")).unwrap();
    let http = reqwest::Client::new();
    let health = format!("{}/healthz", service.base_url);
    let displaced = "the service's data folder is not in its place";

    // Moved away, and then another one in its place.
    for round in 0..2 {
        if round == 0 {
            fs::rename(&service.data, &elsewhere).unwrap();
        } else {
            fs::create_dir_all(service.data.join("objects")).unwrap();
            fs::copy(elsewhere.join("molbox.sqlite"), service.data.join("molbox.sqlite")).unwrap();
        }
        for error in [
            molbox.upload_url_create().filetype("pdb").send().await.unwrap_err(),
            molbox.system_submit().send().await.unwrap_err(),
            molbox.file_list().send().await.unwrap_err(),
            molbox.file_delete().file_id(&link.file_id).send().await.unwrap_err(),
        ] {
            assert_eq!(error.status().unwrap(), 503, "{error}");
            assert!(error.to_string().contains(displaced), "{error}");
        }
        let sent = http.put(&link.upload_url).body(content.clone()).send().await.unwrap();
        assert_eq!(sent.status(), 503, "an upload is no exception");
        let answer = http.get(&health).send().await.unwrap();
        assert_eq!(answer.status(), 503);
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["detail"][0]["msg"], displaced);
    }
    assert!(
        names(&service.data.join("objects")).is_empty(),
        "nothing was written to the other folder"
    );

    // Back in its place, it is served again; nothing was acknowledged meanwhile.
    fs::remove_dir_all(&service.data).unwrap();
    fs::rename(&elsewhere, &service.data).unwrap();
    assert_eq!(http.get(&health).send().await.unwrap().status(), 200);
    assert_eq!(http.put(&link.upload_url).body(content).send().await.unwrap().status(), 200);
    assert_eq!(molbox.file_list().send().await.unwrap().items.len(), 1);
    assert!(molbox.system_list().send().await.unwrap().items.is_empty());
    service.stop();
    let log = service.log();
    assert_eq!(log.matches("nothing is acknowledged any more").count(), 1, "{log}");
    assert!(log.contains("the data folder is back in its place"));
}

/// Writes over a part of a file.
fn damage(path: &Path, from: usize, with: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[from..from + with.len()].copy_from_slice(with);
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_database_that_is_damaged_is_not_served() {
    let mut service = Service::start();
    let molbox = service.client("ada");
    for _ in 0..50 {
        molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    }
    service.stop();
    let database = service.data.join("molbox.sqlite");
    // What is in the log goes into the file.
    rusqlite::Connection::open(&database)
        .unwrap()
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    let whole = fs::read(&database).unwrap();
    // Every page but the first is overwritten in its middle.
    for page in 1..whole.len() / 4096 {
        damage(&database, page * 4096 + 1000, &[0xa5; 2000]);
    }
    let said = service.failing_command(&["serve"]);
    assert!(said.contains("molbox.sqlite is damaged; restore it from a backup"), "{said}");
    let found: Value =
        serde_json::from_str(&service.failing_command(&["check", "--json"])).unwrap();
    assert_eq!(found["findings"][0]["kind"], "database", "{found}");
    fs::write(
        &database,
        "this is no database, and longer than the header of one would be: ".repeat(20),
    )
    .unwrap();
    let said = service.failing_command(&["serve"]);
    assert!(said.contains("molbox.sqlite") && said.contains("not a database"), "{said}");
    assert!(service.failing_command(&["check"]).contains("damaged database: "));
    fs::write(&database, whole).unwrap();
    service.restart();
}

#[tokio::test]
async fn a_check_reads_the_results_that_a_task_goes_on_from() {
    let mut service = Service::start();
    let system = water(&service.client("ada")).await;
    service.kill();
    // As one that is tried again, and has not begun.
    let id = system.system_id.as_str();
    service.sql(&format!("update task set status = 'queued' where id = '{id}' returning id"));
    assert_eq!(service.command(&["check"]), "0 files, 1 task: 0 damaged, 0 orphans");
    let results = service.objects().join("tasks").join(id);
    let topology = results.join("topology.json.deflate");
    let whole = fs::read(&topology).unwrap();
    damage(&topology, 100, &[0; 8]);
    let said = service.failing_command(&["check"]);
    assert!(said.contains(&format!("damaged {id}: its bundle has the SHA-256 ")), "{said}");
    fs::remove_file(&topology).unwrap();
    let said = service.failing_command(&["check"]);
    assert!(said.contains(&format!("{id}/topology.json.deflate: it is missing")), "{said}");
    // Where another manifest lies there, these are its results already.
    fs::write(results.join("manifest.json.deflate"), "another").unwrap();
    assert_eq!(service.command(&["check"]), "0 files, 1 task: 0 damaged, 0 orphans");
    fs::write(topology, whole).unwrap();
    fs::remove_dir_all(results).unwrap();
    let said = service.failing_command(&["check"]);
    assert!(said.contains(&format!("damaged {id}: its results are missing")), "{said}");
}

#[tokio::test]
async fn a_check_reads_everything_and_names_what_is_damaged_missing_or_nobody_s() {
    let mut service = Service::start();
    let molbox = service.client("ada");
    let mut files = Vec::new();
    for name in ["whole", "altered", "shorter", "missing"] {
        files.push(molbox.upload(example("1vii.pdb")).name(name).await.unwrap());
    }
    let [first, second] = [water(&molbox).await, water(&molbox).await];
    let check = |service: &Service| -> Value {
        serde_json::from_str(&service.command(&["check", "--json"])).unwrap()
    };
    let nothing = json!({"files": 4, "tasks": 2, "findings": []});
    assert_eq!(check(&service), nothing, "while the service runs");
    service.stop();
    assert_eq!(check(&service), nothing, "and while it does not");
    assert_eq!(service.command(&["check"]), "4 files, 2 tasks: 0 damaged, 0 orphans");

    let objects = service.data.join("objects");
    let object =
        |name: &str| service.sql(&format!("select object from file where name = '{name}'"));
    let orphan = "files/object_00000000000000000000";
    fs::write(objects.join(orphan), "nobody's").unwrap();
    fs::create_dir(objects.join("tasks/job_00000000000000000000")).unwrap();
    let report = check(&service);
    let found: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["object"].as_str().unwrap())
        .collect();
    assert_eq!(found, [orphan, "tasks/job_00000000000000000000"]);
    assert_eq!(
        service.command(&["check"]).lines().last(),
        Some("4 files, 2 tasks: 0 damaged, 2 orphans")
    );

    damage(&objects.join(object("altered")), 1000, b"X");
    fs::write(objects.join(object("shorter")), "short").unwrap();
    fs::remove_file(objects.join(object("missing"))).unwrap();
    let (first, second) = (first.system_id.as_str(), second.system_id.as_str());
    fs::remove_file(objects.join("tasks").join(first).join("system.xml.deflate")).unwrap();
    damage(&objects.join("tasks").join(second).join("topology.json.deflate"), 100, &[0; 8]);
    let said = service.failing_command(&["check"]);
    let id = |index: usize| files[index].file_id.as_str();
    for line in [
        format!("damaged {} {}: the content has the SHA-256 ", id(1), object("altered")),
        format!("damaged {} {}: the content has 5 bytes, not ", id(2), object("shorter")),
        format!("damaged {} {}: the content is missing", id(3), object("missing")),
        format!("damaged {first} tasks/{first}/system.xml.deflate: it is missing"),
        format!("damaged {second}: its bundle has the SHA-256 "),
        format!("orphan {orphan}: no record refers to it"),
        "4 files, 2 tasks: 5 damaged, 2 orphans".to_owned(),
    ] {
        assert!(said.contains(&line), "{line} is missing from\n{said}");
    }
    assert!(!said.contains(id(0)), "{said}");
}

#[tokio::test]
async fn a_check_of_a_busy_service_finds_nothing() {
    let service = Service::start();
    let molbox = service.client("ada");
    let place = service.place().clone();
    let checks = tokio::task::spawn_blocking(move || -> Vec<Value> {
        let check = || place.molboxd().args(["check", "--json"]).output().unwrap();
        (0..20).map(|_| serde_json::from_slice(&check().stdout).unwrap()).collect()
    });
    let mut kept = 0;
    while !checks.is_finished() {
        let file = molbox.upload(example("1vii.pdb")).name(format!("{kept}")).await.unwrap();
        molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
        molbox.upload(example("1vii.pdb")).name(format!("{kept}")).await.unwrap();
        kept += 1;
    }
    for report in checks.await.unwrap() {
        assert_eq!(report["findings"], json!([]), "{report}");
    }
    wait_for("everything that was deleted is gone", || {
        (names(&service.objects().join("files")).len() == kept).then_some(())
    });
}

#[tokio::test]
async fn a_database_that_another_program_holds_is_named() {
    let service = Service::start();
    let molbox = service.client("ada");
    let other = rusqlite::Connection::open(service.data.join("molbox.sqlite")).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let (first, second) = tokio::join!(
        molbox.system_submit().send(),
        molbox.upload_url_create().filetype("pdb").send()
    );
    for error in [first.err().unwrap(), second.err().unwrap()] {
        let Error::Refused(refusal) = &error else { panic!("{error}") };
        assert!(refusal.retry_after.is_some_and(|after| after > Duration::ZERO));
        assert_eq!(error.status().unwrap(), 503, "{error}");
        let said = error.to_string();
        assert!(said.contains("another program holds the service's database"), "{said}");
    }
    other.execute_batch("rollback").unwrap();
    molbox.system_submit().send().await.unwrap();
    assert_eq!(
        molbox.system_list().send().await.unwrap().items.len(),
        1,
        "what was refused was not done"
    );
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--archive").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

#[tokio::test]
async fn a_copy_of_the_folder_is_a_backup() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let file = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = water(&molbox).await;
    service.stop();

    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("data");
    copy_folder(&service.data, &copy);
    let restored = Service::start_in(&copy, &[]);
    let molbox = restored.client_with(&key);
    assert_eq!(molbox.file_view().file_id(&file.file_id).send().await.unwrap().name, "villin");
    let path =
        molbox.download_system(&system.system_id, folder.path().join("system.zip")).await.unwrap();
    assert!(crate::work::archive(&path).contains_key("system.pdb"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_folder_beside_the_original_leaves_what_that_runs_alone() {
    let place = tempfile::tempdir().unwrap();
    let [work, copy] = ["work", "copy"].map(|name| place.path().join(name));
    let setting = format!("tasks.folder={:?}", work.display().to_string());
    let mut service = Service::start_with(&[&setting]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    service.stop();
    copy_folder(&service.data, &copy);
    service.restart();
    let molbox = service.client_with(&key);
    // The copy does not know it.
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    let other = Service::start_in(&copy, &[&setting]);
    other.wait_until_it_logs("another molboxd works in");
    let health = other.client_with(&key).service_health().send().await.unwrap().into_inner();
    assert!(health.held.iter().any(|hold| hold.code == "tasks_folder_missing"), "{health:?}");
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    let record = wait_until(&molbox, &job, |job| job.status == "cancelled").await;
    assert_eq!(record.attempts, 1);
}
