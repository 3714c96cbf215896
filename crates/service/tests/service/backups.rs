//! Backups: taken under load, onto the same folder again, and put back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use molbox::Client;
use molbox::workflow::types::{EquilibrationStep, FileRecord, ProductionParams, SystemRecord};
use serde_json::json;

use crate::common::{Service, example};
use crate::work::{archive, water};

/// `molboxd` on a folder: whether it succeeded, and what it said.
fn molboxd(data: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    let output = command.arg("--data").arg(data).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// Uploads and deletes files until it is told to stop; every third stays.
async fn come_and_go(molbox: &Client, worker: usize, is_over: &AtomicBool) {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let file =
            molbox.upload(example("1vii.pdb")).name(format!("{worker} {count}")).await.unwrap();
        if count % 3 > 0 {
            molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
        }
        count += 1;
    }
}

/// Submits systems and cancels or deletes most of them, until it is told to stop.
async fn submit_and_delete(molbox: &Client, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let system =
            molbox.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await.unwrap();
        let cancelled = molbox.system_cancel().system_id(&system.system_id).send().await.unwrap();
        if cancelled.status == "cancelled" {
            molbox.system_delete().system_id(&system.system_id).send().await.unwrap();
        }
    }
}

/// Extends a job again and again, so that its results are replaced by others.
async fn extend(molbox: &Client, system: &SystemRecord, is_over: &AtomicBool) -> String {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(10)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(
                ProductionParams::builder().type_("NVT").time(0.0002).traj_freq(20).log_freq(20),
            )
    });
    let job = job.send().await.unwrap().into_inner();
    molbox.wait_job(&job.job_id).await.unwrap();
    while !is_over.load(Ordering::Relaxed) {
        molbox.job_extend().job_id(&job.job_id).body_map(|e| e.time(0.0001)).send().await.unwrap();
        molbox.wait_job(&job.job_id).await.unwrap();
    }
    job.job_id.as_str().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_restored_with_the_content_of_every_record() {
    let service = Service::start_with(&["limits.requests_per_minute=0", "worker.slots=2"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    let is_over = AtomicBool::new(false);
    let backups = async {
        let mut said = Vec::new();
        for _ in 0..5 {
            let (data, folder) = (service.data.clone(), to.clone());
            let run = move || molboxd(&data, &["backup", folder.to_str().unwrap()]);
            said.push(tokio::task::spawn_blocking(run).await.unwrap());
            // Each is whole by itself.
            let backup = to.clone();
            let checked =
                tokio::task::spawn_blocking(move || molboxd(&backup, &["check"])).await.unwrap();
            assert!(checked.0 && checked.1.ends_with("0 damaged, 0 orphans\n"), "{}", checked.1);
        }
        is_over.store(true, Ordering::Relaxed);
        said
    };
    let (said, job, ..) = tokio::join!(
        backups,
        extend(&molbox, &system, &is_over),
        come_and_go(&molbox, 1, &is_over),
        come_and_go(&molbox, 2, &is_over),
        submit_and_delete(&molbox, &is_over),
    );
    for (succeeded, text) in &said {
        assert!(succeeded, "{text}");
    }
    drop(service);

    let data = folder.path().join("data");
    let (succeeded, text) = molboxd(&data, &["restore", to.to_str().unwrap()]);
    assert!(succeeded && text.ends_with("0 damaged, 0 orphans\n"), "{text}");
    let restored = Service::start_in(&data, &[]);
    let molbox = restored.client_with(&key);
    let files: Vec<FileRecord> =
        molbox.file_list().status("ready").stream().map(Result::unwrap).collect().await;
    assert!(!files.is_empty());
    for file in files {
        // The client compares the digest.
        molbox.download_file(&file.file_id, folder.path().join("file")).await.unwrap();
    }
    let bundle =
        molbox.download_system(&system.system_id, folder.path().join("system.zip")).await.unwrap();
    assert!(archive(&bundle).contains_key("system.pdb"));
    // Perhaps it was running when the backup was taken; then it goes on.
    molbox.wait_job(&job).await.unwrap();
    let bundle = molbox.download_job(&job, folder.path().join("job.zip")).await.unwrap();
    assert!(archive(&bundle).contains_key("production.dcd"));
    assert!(restored.command(&["check"]).contains(": 0 damaged, "));
    water(&molbox).await;
}

#[tokio::test]
async fn a_second_backup_copies_what_is_new_and_drops_what_is_gone() {
    let service = Service::start_with(&["worker.python=\"/bin/false\""]);
    let molbox = service.client("ada");
    let kept = molbox.upload(example("1vii.pdb")).name("kept").await.unwrap();
    let gone = molbox.upload(example("1vii.pdb")).name("gone").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    let backup = || service.command(&["backup", to.to_str().unwrap()]);
    assert!(backup().starts_with("2 objects copied, "));
    assert!(backup().starts_with("0 objects copied, 0 bytes"));
    molbox.file_delete().file_id(&gone.file_id).send().await.unwrap();
    molbox.upload(example("1vii.pdb")).name("new").await.unwrap();
    assert!(backup().starts_with("1 object copied, "));
    assert_eq!(fs::read_dir(to.join("objects/files")).unwrap().count(), 2);
    assert!(molboxd(&to, &["check"]).1.ends_with("2 files, 0 tasks: 0 damaged, 0 orphans\n"));

    // What is lost is named, and the rest is backed up all the same.
    let sql = format!("select object from file where id = '{}'", kept.file_id.as_str());
    let object = service.sql(&sql);
    fs::remove_file(service.objects().join(&object)).unwrap();
    let said = service.failing_command(&["backup", to.to_str().unwrap()]);
    assert!(
        said.contains(&format!("lost: {} {object}: the content is missing", kept.file_id.as_str())),
        "{said}"
    );
}

#[tokio::test]
async fn a_task_between_its_old_results_and_its_new_ones_is_no_part_of_a_whole_backup() {
    let mut service = Service::start();
    let system = water(&service.client("ada")).await;
    service.kill();
    // As while what was tried again is being collected.
    let id = system.system_id.as_str();
    service.sql(&format!("update task set status = 'queued' where id = '{id}' returning id"));
    let objects = service.objects().join("tasks").join(id);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    fs::rename(&objects, folder.path().join("away")).unwrap();
    let said = service.failing_command(&["backup", to.to_str().unwrap()]);
    assert!(said.contains("changes faster than it can be copied"), "{said}");
    fs::rename(folder.path().join("away"), &objects).unwrap();
    service.command(&["backup", to.to_str().unwrap()]);
}

/// Has a backup say of itself what molboxd 0.1 had them say.
fn mark_as_before(backup: &Path, is_whole: bool) {
    let marker = json!({"molboxd": "0.1.0", "at": "2026-01-31T12:00:00Z", "is_whole": is_whole});
    fs::write(backup.join("backup.json"), marker.to_string()).unwrap();
}

#[tokio::test]
async fn what_would_be_lost_by_a_backup_is_not_replaced() {
    let service = Service::start_with(&["worker.python=\"/bin/false\""]);
    service.client("ada").upload(example("1vii.pdb")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    let path = to.to_str().unwrap();
    service.command(&["backup", path]);

    // As where the disk with the data is not mounted when a backup is due.
    let new = folder.path().join("new");
    molboxd(&new, &["account", "create", "ada"]);
    let (succeeded, said) = molboxd(&new, &["backup", path]);
    assert!(!succeeded && said.contains("where no service has run yet"), "{said}");
    let other = Service::start_with(&["worker.python=\"/bin/false\""]);
    let refused = |why: &str| {
        let said = other.failing_command(&["backup", path]);
        assert!(said.contains(why) && said.contains("name another folder"), "{said}");
        let (_, checked) = molboxd(&to, &["check"]);
        assert!(checked.ends_with("1 file, 0 tasks: 0 damaged, 0 orphans\n"), "{checked}");
    };
    refused("has the backup of another installation");
    mark_as_before(&to, true);
    refused("has the backup of another installation");
    service.command(&["backup", path]);
    refused("has the backup of another installation");

    // What was restored is the same installation.
    let restored = folder.path().join("restored");
    assert!(molboxd(&restored, &["restore", path]).0);
    let (succeeded, said) = molboxd(&restored, &["backup", path]);
    assert!(succeeded, "{said}");

    molboxd(&to, &["account", "create", "bob"]);
    for is_marked in [true, false] {
        if !is_marked {
            mark_as_before(&to, true);
        }
        let said = service.failing_command(&["backup", path]);
        assert!(said.contains("as its data folder since the backup there was made"), "{said}");
    }
    assert!(molboxd(&to, &["account", "list"]).1.contains("bob"));
}

#[tokio::test]
async fn what_was_written_in_a_backup_since_is_not_lost_by_a_restore() {
    let mut service = Service::start_with(&["worker.python=\"/bin/false\""]);
    let key = service.key("ada");
    let folder = tempfile::tempdir().unwrap();
    let [to, again, restored] = ["backup", "again", "restored"].map(|it| folder.path().join(it));
    service.command(&["backup", to.to_str().unwrap()]);
    service.kill();

    // A key is revoked in the backup, whose service is killed: that is in the log of the database.
    let mut used = Service::start_in(&to, &["worker.python=\"/bin/false\""]);
    let id = used.client_with(&key).account_view().send().await.unwrap().key_id.clone();
    used.command(&["key", "revoke", &id]);
    let (succeeded, said) = molboxd(&restored, &["restore", to.to_str().unwrap()]);
    assert!(!succeeded && said.contains("another molboxd serves"), "{said}");
    used.kill();
    let (succeeded, said) = molboxd(&restored, &["restore", to.to_str().unwrap()]);
    assert!(!succeeded && said.contains("as its data folder since the backup"), "{said}");
    assert!(!restored.exists());

    // By what is said to help.
    assert!(said.contains(&format!("--data {} backup", to.display())), "{said}");
    assert!(molboxd(&to, &["backup", again.to_str().unwrap()]).0);
    assert!(molboxd(&restored, &["restore", again.to_str().unwrap()]).0);
    let restored = Service::start_in(&restored, &["worker.python=\"/bin/false\""]);
    restored.client_with(&key).file_list().send().await.unwrap_err();
}

/// What a damage makes of the content of a file.
type Damage<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

#[tokio::test]
async fn whatever_is_damaged_in_a_backup_is_found() {
    let service = Service::start_with(&["worker.python=\"/bin/false\""]);
    service.client("ada").upload(example("1vii.pdb")).name("a name").await.unwrap();
    service.command(&["market", "sample"]);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    let path = to.to_str().unwrap();
    service.command(&["backup", path]);

    let flip = |content: &[u8], at: usize| {
        let mut content = content.to_vec();
        content[at] ^= 1;
        content
    };
    let place_of = |content: &[u8], text: &[u8]| {
        content.windows(text.len()).position(|found| found == text).unwrap()
    };
    let damages: [(&str, Damage<'_>); 7] = [
        ("secret", &|it| it[..31].to_vec()),
        ("secret", &|it| flip(it, 7)),
        ("market/prices.csv", &|it| it[..it.len() / 2].to_vec()),
        ("market/prices.csv", &|it| flip(it, it.len() - 3)),
        ("molbox.sqlite", &|it| flip(it, place_of(it, b"a name"))),
        ("backup.json", &|it| flip(it, place_of(it, b"\"at\": \"20") + 10)),
        ("backup.json", &|it| flip(it, place_of(it, b"\"files\"") + 3)),
    ];
    for (index, (name, damage)) in damages.into_iter().enumerate() {
        let whole = fs::read(to.join(name)).unwrap();
        fs::write(to.join(name), damage(&whole)).unwrap();
        let restored = folder.path().join(index.to_string());
        for (data, arguments) in [(&to, &["check"][..]), (&restored, &["restore", path])] {
            let (succeeded, said) = molboxd(data, arguments);
            assert!(!succeeded && said.contains(name), "{index}, {arguments:?}: {said}");
        }
        if ["molbox.sqlite", "backup.json"].contains(&name) {
            let said = service.failing_command(&["backup", path]);
            assert!(said.contains("damaged") && said.contains("another folder"), "{said}");
        }
        fs::write(to.join(name), whole).unwrap();
    }
    assert!(molboxd(&to, &["check"]).1.ends_with(": 0 damaged, 0 orphans\n"));

    // What was changed on purpose is not damaged: it is a data folder.
    molboxd(&to, &["account", "create", "bob"]);
    fs::remove_file(to.join("market/prices.csv")).unwrap();
    assert!(molboxd(&to, &["check"]).1.ends_with(": 0 damaged, 0 orphans\n"));

    let secret = fs::read(service.data.join("secret")).unwrap();
    fs::write(service.data.join("secret"), &secret[..31]).unwrap();
    let said = service.failing_command(&["check"]);
    assert!(said.contains("secret is damaged: it has 31 bytes, not 32"), "{said}");
}

#[test]
fn a_backup_that_is_cut_off_leaves_the_market_data_of_the_one_before() {
    let service = Service::start_with(&["worker.python=\"/bin/false\""]);
    service.command(&["market", "sample"]);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    service.command(&["backup", to.to_str().unwrap()]);
    let files = |data: &Path| {
        let names = fs::read_dir(data.join("market")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files(&to);
    // It ends as one is copied that is larger than files may be.
    fs::write(service.data.join("market/large.csv"), vec![b'x'; 16 << 20]).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 16384 && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_molboxd")).arg("--data").arg(&service.data);
    assert!(!command.arg("backup").arg(&to).output().unwrap().status.success());
    let data = folder.path().join("restored");
    let (succeeded, said) = molboxd(&data, &["restore", to.to_str().unwrap()]);
    assert!(succeeded, "{said}");
    assert_eq!(files(&data), before);
    // Nor is market data replaced that is there already.
    let used = folder.path().join("used");
    fs::create_dir_all(used.join("market")).unwrap();
    fs::set_permissions(&used, fs::Permissions::from_mode(0o700)).unwrap();
    let (succeeded, said) = molboxd(&used, &["restore", to.to_str().unwrap()]);
    assert!(!succeeded && said.contains("it has market"), "{said}");
}

#[tokio::test]
async fn what_is_no_backup_or_no_new_folder_is_refused() {
    let service = Service::start();
    service.client("ada").upload(example("1vii.pdb")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup");
    let path = to.to_str().unwrap();
    for (arguments, why) in [
        (["restore", path], "holds no backup"),
        (["backup", service.objects().to_str().unwrap()], "lie in each other"),
    ] {
        let said = service.failing_command(&arguments);
        assert!(said.contains(why), "{said}");
    }
    service.command(&["backup", path]);
    let said = service.failing_command(&["restore", path]);
    assert!(said.contains("another molboxd serves"), "{said}");
    let used = folder.path().join("used");
    molboxd(&used, &["account", "create", "bob"]);
    let (succeeded, said) = molboxd(&used, &["restore", path]);
    assert!(
        !succeeded && said.contains("is in use, it has molbox.sqlite: restore to a new folder"),
        "{said}"
    );

    // One that was cut off between content and database.
    mark_as_before(&to, false);
    let (succeeded, said) = molboxd(&folder.path().join("new"), &["restore", path]);
    assert!(!succeeded && said.contains("was cut off; take it again"), "{said}");
    service.command(&["backup", path]);
    assert!(molboxd(&folder.path().join("new"), &["restore", path]).0);
}
