//! Records that move from one database to another.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use molbox::Client;
use serde_json::{Value, json};

use crate::common::{Service, example, wait_for};
use crate::postgres;
use crate::servers::Shared;
use crate::work::{endless_job, until_it_produces, wait_until, water};

/// Everything that an account sees of its records, newest first.
async fn seen(molbox: &Client) -> Value {
    let files = molbox.file_list().send().await.unwrap().into_inner();
    let systems = molbox.system_list().send().await.unwrap().into_inner();
    let usage = molbox.usage_view().send().await.unwrap().into_inner();
    // What runs goes on to take hours.
    let usage = json!([usage.bytes, usage.files, usage.open_tasks]);
    let bundle = molbox.system_view().system_id(systems.items[0].system_id.clone()).send().await;
    json!({
        "files": files.items, "systems": systems.items, "usage": usage,
        "bundle": bundle.unwrap().into_inner(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn records_move_to_postgresql_and_back_and_nothing_is_lost() {
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let [url, other] = [server.database(), server.database()];
    let configuration = |name: &str, url: &str| -> PathBuf {
        let path = folder.path().join(name);
        let text = format!("data = {data:?}\n[database]\nurl = {url:?}\n");
        fs::write(&path, text).unwrap();
        path
    };
    let [on_sqlite, on_postgres, on_other] =
        [("sqlite", ""), ("postgres", &url), ("other", &other)]
            .map(|(name, url)| configuration(name, url));
    let run = |from: &PathBuf, to: &PathBuf| -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output =
            command.arg("--config").arg(from).args(["move", "--to"]).arg(to).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };

    let mut service = Service::start_in_sqlite(&data);
    let key = service.key("ada");
    service.key("bob");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    let gone = molbox.upload(example("1vii.pdb")).name("gone").await.unwrap();
    molbox.file_delete().file_id(&gone.file_id).send().await.unwrap();
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let before = seen(&molbox).await;
    let audit = service.command(&["audit", "--json"]);
    assert!(run(&on_sqlite, &on_postgres).1.contains("another molboxd serves"), "it still runs");
    service.stop();

    assert!(run(&on_sqlite, &on_sqlite).1.contains("database.url"), "there is one database only");
    let (done, said) = run(&on_sqlite, &on_postgres);
    assert!(done && said.contains("task\t2\n") && said.contains("account\t2\n"), "{said}");
    let (done, said) = run(&on_sqlite, &on_postgres);
    assert!(done && said.contains("task\t2\n"), "of one that was cut off at its end: {said}");
    let (done, said) = run(&on_sqlite, &on_other);
    assert!(
        !done && said.contains("has brought the records"),
        "the old one is not used any more: {said}"
    );
    // Without the end of its tasks.
    std::mem::forget(service);

    let mut service = Service::start_at_url(&data, &url);
    let molbox = service.client_with(&key);
    assert_eq!(seen(&molbox).await, before);
    // What ran goes on: the same attempt.
    let record = molbox.job_cancel().job_id(job.as_str()).send().await.unwrap().into_inner();
    assert_eq!((record.status.as_str(), record.attempts), ("running", 1));
    wait_until(&molbox, &job, |job| job.status.as_str() == "cancelled").await;
    assert_eq!(service.command(&["check"]), "1 file, 2 tasks: 0 damaged, 0 orphans");
    let now = service.command(&["audit", "--json"]);
    assert!(now.starts_with(&audit) && now.contains("\"action\":\"move\""), "{now}");
    // Numbers go on: what is new is newest.
    let new = molbox.upload(example("1vii.pdb")).name("new").await.unwrap();
    let files = molbox.file_list().send().await.unwrap().into_inner();
    assert_eq!(files.items[0].file_id, new.file_id);
    water(&molbox).await;
    let before = seen(&molbox).await;
    service.stop();

    let (done, said) = run(&on_postgres, &on_sqlite);
    assert!(done && said.contains("task\t3\n"), "{said}");
    drop(service);
    let (done, said) = run(&on_postgres, &on_sqlite);
    assert!(done && said.contains("task\t3\n"), "of one that was cut off at its end: {said}");
    // As one leaves it that was cut off before: neither database is one to go on with.
    let database = data.join("molbox.sqlite");
    fs::rename(&database, data.join("molbox.sqlite.partial")).unwrap();
    let _ = fs::remove_file(data.join("molbox.sqlite-wal"));
    for on in [&on_sqlite, &on_postgres] {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output = serve.arg("--config").arg(on).arg("serve").output().unwrap();
        assert!(!output.status.success() && !database.exists());
    }
    let (done, said) = run(&on_postgres, &on_sqlite);
    assert!(done && said.contains("task\t3\n"), "{said}");
    let service = Service::start_in_sqlite(&data);
    let molbox = service.client_with(&key);
    assert_eq!(seen(&molbox).await, before);
    assert_eq!(service.command(&["check"]), "2 files, 3 tasks: 0 damaged, 0 orphans");
    molbox.file_delete().file_id(&new.file_id).send().await.unwrap();
    drop(service);
    let (done, said) = run(&on_sqlite, &on_postgres);
    assert!(!done && said.contains("has other rows already"), "{said}");
    assert!(data.join("molbox.sqlite").exists(), "what was not moved is as it was");
    let (done, said) = run(&on_sqlite, &on_other);
    assert!(done && said.contains("task\t3\n"), "{said}");
    for kept in ["molbox.sqlite.moved", "molbox.sqlite.moved.1"] {
        assert!(data.join(kept).exists(), "{kept}");
    }
}

#[tokio::test]
async fn records_of_one_installation_do_not_get_among_those_of_another() {
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [own, others] = ["own", "others"].map(|name| folder.path().join(name));
    let url = server.database();
    let other = Service::start_at_url(&others, &url);
    let mut service = Service::start_in_sqlite(&own);
    service.key("ada");
    service.stop();
    let run = |data: &PathBuf, urls: [&str; 2]| -> String {
        let [from, to] = urls.map(|url| {
            let path = folder.path().join(format!("{}.toml", url.len()));
            fs::write(&path, format!("data = {data:?}\n[database]\nurl = {url:?}\n")).unwrap();
            path
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output =
            command.arg("--config").arg(from).args(["move", "--to"]).arg(to).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // One that is new, and on which its service works.
    let said = run(&own, ["", &url]);
    assert!(said.contains("is that of another data folder"), "{said}");
    assert_eq!(other.sql("select count(*) from account"), "0");
    assert_eq!(service.command(&["account", "list"]).split('\t').next(), Some("ada"));
    other.command(&["account", "create", "bob"]);
    drop(other);
    // Its server counts as gone.
    server.sql(&url, "delete from server");
    fs::rename(own.join("molbox.sqlite"), folder.path().join("aside")).unwrap();
    let said = run(&own, [&url, ""]);
    assert!(said.contains("is that of another data folder"), "{said}");
    assert!(!own.join("molbox.sqlite").exists());
    Service::start_at_url(&others, &url).command(&["account", "show", "bob"]);
}

#[test]
fn what_is_kept_of_records_that_have_moved_is_one_whole_file() {
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut service = Service::start_in_sqlite(&data);
    service.key("ada");
    // What it has acknowledged is in a log beside the file yet.
    service.kill();
    assert!(data.join("molbox.sqlite-wal").exists());
    let url = server.database();
    let [sqlite, postgres] = [("sqlite", ""), ("postgres", &url)].map(|(name, url)| {
        let path = folder.path().join(name);
        fs::write(&path, format!("data = {data:?}\n[database]\nurl = {url:?}\n")).unwrap();
        path
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    command.arg("--config").arg(sqlite).args(["move", "--to"]).arg(postgres);
    assert!(command.output().unwrap().status.success());
    for log in ["molbox.sqlite-wal", "molbox.sqlite-shm"] {
        assert!(
            !data.join(log).exists(),
            "another database in its place would take it for its own"
        );
    }
    let kept = rusqlite::Connection::open(data.join("molbox.sqlite.moved")).unwrap();
    let name = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    assert_eq!(kept.query_row("select name from account", (), name).unwrap(), "ada");
}

#[test]
fn what_other_servers_work_on_does_not_move_away_from_under_them() {
    let Some(shared) = Shared::new() else { return };
    let (mut one, mut other) = (shared.start(&[]), shared.start(&[]));
    let folder = tempfile::tempdir().unwrap();
    let configuration = |name: &str, url: &str| -> PathBuf {
        let bucket = one.place().bucket.as_ref().unwrap().told().join("\n");
        let text = format!("data = {:?}\n{bucket}\n[database]\nurl = {url:?}\n", one.data);
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let [shared, alone] =
        [("shared", one.database()), ("alone", "")].map(|(name, url)| configuration(name, url));
    let run = || -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.arg("--config").arg(&shared).args(["move", "--to"]).arg(&alone);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    one.stop();
    wait_for("the other shows that it is there", || {
        (other.sql("select count(*) from server") == "1").then_some(())
    });
    let (done, said) = run();
    assert!(!done && said.contains("another server works on the database"), "{said}");
    assert!(said.contains("database.url"), "{said}");
    other.command(&["account", "create", "ada"]);
    other.stop();
    // What a newer program has added is not known here, and would be lost.
    other.sql("update schema_version set version = version + 1");
    let (done, said) = run();
    assert!(!done && said.contains("a newer molboxd has added to it"), "{said}");
    other.sql("update schema_version set version = version - 1");
    let (done, said) = run();
    assert!(done && said.contains("account\t1\n"), "{said}");
}
