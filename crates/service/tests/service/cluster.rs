//! Tasks as jobs of Slurm, as the users and the operator of a service meet them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use molbox::Client;
use molbox::workflow::types::SystemRecord;

use crate::analyses::test_data;
use crate::common::{Service, settings_of, wait_for};
use crate::holds::FakeWorker;
use crate::slurm::{self, Slurm};
use crate::work::{endless_job, wait_until, water};

fn start(cluster: &Slurm, settings: &[&str]) -> Service {
    let of_cluster = settings_of(cluster);
    let all: Vec<&str> =
        of_cluster.iter().map(String::as_str).chain(settings.iter().copied()).collect();
    Service::start_with(&all)
}

async fn submit(molbox: &Client) -> String {
    let system = molbox.system_submit().body_map(|s| s.box_name("water").minimum_padding(1.2));
    system.send().await.unwrap().system_id.as_str().to_owned()
}

async fn until(
    molbox: &Client,
    id: &str,
    what: &str,
    is_it: impl Fn(&SystemRecord) -> bool,
) -> SystemRecord {
    for _ in 0..1200 {
        let record = molbox.system_view().system_id(id).send().await.unwrap().into_inner();
        if is_it(&record) {
            return record;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it did not come about that {what}");
}

#[tokio::test]
async fn a_task_that_waits_in_slurm_s_queue_says_why_and_its_time_is_not_counted() {
    let Some(cluster) = slurm::shared() else { return };
    let held = ["tasks.slurm.options=[\"--begin=now+1hour\"]", "worker.wall_seconds=1"];
    let service = start(cluster, &[held[0], held[1], "worker.heartbeat_timeout_seconds=1"]);
    let molbox = service.client("ada");
    let id = submit(&molbox).await;
    let stage = |record: &SystemRecord| record.progress.as_ref().and_then(|p| p.stage.clone());
    let waits = |record: &SystemRecord| stage(record).as_deref() == Some("waiting: BeginTime");
    until(&molbox, &id, "it waits", waits).await;
    // Longer than it may be silent, and than it may take.
    let since = std::time::Instant::now();
    let record = until(&molbox, &id, "it still waits", |_| since.elapsed().as_secs() >= 3).await;
    assert!(waits(&record) && record.status == "running", "{record:?}");
    molbox.system_cancel().system_id(id.as_str()).send().await.unwrap();
    let record = until(&molbox, &id, "it has ended", |record| record.status != "running").await;
    assert_eq!(record.status, "cancelled");
    let live = "--states=PENDING,RUNNING";
    let jobs = cluster.run("squeue", &["--noheader", live, "--format=%j"]);
    assert!(!jobs.contains(&id), "{jobs}");
}

#[tokio::test]
async fn an_analysis_is_a_job_without_gpus_where_that_is_set() {
    let Some(cluster) = slurm::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let program = folder.path().join("molboxd");
    // What nodes run in its place notes what Slurm gave the job.
    let script = format!(
        "#!/bin/sh\necho \"$SLURM_JOB_NAME $SLURM_CPUS_PER_TASK ${{SLURM_JOB_GPUS:-none}}\" >>{}\nexec {} \"$@\"\n",
        marks.display(),
        env!("CARGO_BIN_EXE_molboxd"),
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = format!("tasks.slurm.molboxd={:?}", program.display().to_string());
    let settings =
        ["tasks.slurm.analyses=true", "tasks.slurm.gpus=\"gpu:1\"", "tasks.slurm.cpus=3"];
    let service = start(cluster, &[&settings[..], &[&program]].concat());
    let molbox = service.client("ada");
    for name in ["pep.psf", "cdf2.nc"] {
        molbox.upload(test_data("formats").join(name)).name(name).await.unwrap();
    }
    let analysis = molbox
        .analysis_submit()
        .body_map(|a| a.topology("pep.psf").trajectory("cdf2.nc").rmsf_masks(["@CA"]));
    let id = analysis.send().await.unwrap().analysis_id.clone();
    let record = molbox.wait_analysis(&id).await.unwrap();
    assert_eq!(record.status, "succeeded", "{record:?}");
    let marks = fs::read_to_string(&marks).unwrap();
    let jobs: Vec<&str> = marks.lines().filter(|line| line.contains(id.as_str())).collect();
    let [job] = jobs[..] else { panic!("{marks}") };
    assert!(job.ends_with("-1 3 none"), "{job}");
}

#[tokio::test]
async fn a_node_on_which_nothing_begins_uses_up_no_attempts() {
    let Some(cluster) = slurm::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("molboxd");
    // As where one node lacks the program.
    let molboxd = env!("CARGO_BIN_EXE_molboxd");
    let script =
        format!("#!/bin/sh\n[ \"$SLURMD_NODENAME\" = n1 ] && exit 127\nexec {molboxd} \"$@\"\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = format!("tasks.slurm.molboxd={:?}", program.display().to_string());
    let service = start(cluster, &[&program, "tasks.slurm.partition=\"md,spare\""]);
    let molbox = service.client("ada");
    for _ in 0..2 {
        let record = molbox.wait_system(&submit(&molbox).await).await.unwrap();
        assert_eq!((record.status.as_str(), record.attempts), ("succeeded", 1), "{record:?}");
    }
    service.wait_until_it_logs("a job has ended there before it began");
}

#[tokio::test]
async fn a_job_that_the_cluster_cuts_short_before_its_first_commit_each_time_fails() {
    let Some(cluster) = slurm::shared() else { return };
    let worker = FakeWorker::new();
    let service = start(cluster, &[&worker.setting(), "worker.attempts=2"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    // As a worker ends that is asked to stop before there is anything to commit.
    worker.set("stopped");
    let job = endless_job(&molbox, &system).await;
    let record = wait_until(&molbox, &job, |job| job.status == "failed").await;
    let error = record.error.unwrap();
    assert_eq!((error.code.as_str(), record.attempts), ("wall_limit", 2));
    assert!(error.message.contains("time limit of the partition"), "{}", error.message);
    let remedy = error.remedy.unwrap();
    assert!(remedy.contains("tasks.slurm.partition"), "{remedy}");
}

#[tokio::test]
async fn a_job_that_an_administrator_ends_is_submitted_again() {
    let Some(cluster) = slurm::shared() else { return };
    let service = start(cluster, &["tasks.slurm.options=[\"--begin=now+1hour\"]"]);
    let molbox = service.client("ada");
    let id = submit(&molbox).await;
    let mut ended = Vec::new();
    // More often than a task may be started that ends without a word.
    for _ in 0..4 {
        let number = wait_for("it has another job", || {
            let waiting = ["--noheader", "--states=PENDING", "--format=%A %j"];
            let jobs = cluster.run("squeue", &waiting);
            let number = jobs.lines().find(|line| line.contains(&id))?.split(' ').next()?;
            (!ended.contains(&number.to_owned())).then(|| number.to_owned())
        });
        cluster.run("scancel", &[&number]);
        ended.push(number);
    }
    let record = until(&molbox, &id, "it waits again", |record| record.status == "running").await;
    assert!(record.attempts <= 1 && record.error.is_none(), "{record:?}");
}

/// Has a job wait in Slurm's queue.
const LATER: &str = "tasks.slurm.options=[\"--begin=now+1hour\"]";

/// Whether a task has a job that waits or runs.
fn has_job(cluster: &Slurm, id: &str) -> bool {
    let live = "--states=PENDING,RUNNING";
    cluster.run("squeue", &["--noheader", live, "--format=%j"]).contains(id)
}

#[tokio::test]
async fn a_job_that_no_record_knows_is_ended() {
    let Some(cluster) = slurm::shared() else { return };
    let mut service = start(cluster, &[LATER]);
    let molbox = service.client("ada");
    let [known, unknown] = [submit(&molbox).await, submit(&molbox).await];
    for id in [&known, &unknown] {
        until(&molbox, id, "it waits", |record| record.progress.is_some()).await;
    }
    service.kill();
    // As after the records were restored from a backup of before.
    service.sql(&format!("delete from task where id = '{unknown}' returning id"));
    let settings = settings_of(cluster);
    let settings: Vec<&str> = settings.iter().map(String::as_str).chain([LATER]).collect();
    service.restart_with(&settings);
    wait_for("its job has been ended", || (!has_job(cluster, &unknown)).then_some(()));
    assert!(has_job(cluster, &known));
}

#[tokio::test]
async fn a_copy_with_a_folder_of_its_own_leaves_the_jobs_of_the_original_alone() {
    let Some(cluster) = slurm::shared() else { return };
    let place = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"]
        .map(|name| format!("tasks.folder={:?}", place.path().join(name).display().to_string()));
    let mut service = start(cluster, &[LATER, &own]);
    let key = service.key("ada");
    let waits = async |service: &Service| {
        let molbox = service.client_with(&key);
        let id = submit(&molbox).await;
        until(&molbox, &id, "it waits", |record| record.progress.is_some()).await;
        id
    };
    let original = waits(&service).await;
    service.kill();
    service.sql(&format!("delete from task where id = '{original}' returning id"));
    let settings = settings_of(cluster);
    let settings: Vec<&str> =
        settings.iter().map(String::as_str).chain([LATER, other.as_str()]).collect();
    service.restart_with(&settings);
    // Jobs that are to be ended are so before any is submitted.
    waits(&service).await;
    assert!(has_job(cluster, &original));
}

#[tokio::test]
async fn tasks_wait_while_the_controller_is_away_and_go_on_when_it_is_back() {
    let Some(cluster) = Slurm::start() else { return };
    let service = start(&cluster, &[]);
    let molbox = service.client("ada");
    molbox.wait_system(&submit(&molbox).await).await.unwrap();
    cluster.save();
    cluster.kill("slurmctld");
    let id = submit(&molbox).await;
    let is_held = |record: &SystemRecord| {
        record.held.as_ref().is_some_and(|hold| hold.code == "slurm_unavailable")
    };
    let record = until(&molbox, &id, "it is held", is_held).await;
    assert_eq!((record.status.as_str(), record.attempts), ("queued", 0));
    cluster.restart("slurmctld");
    assert_eq!(molbox.wait_system(&id).await.unwrap().attempts, 1);
}

#[tokio::test]
async fn a_task_that_slurm_refuses_waits_for_the_operator() {
    let Some(cluster) = slurm::shared() else { return };
    let mut service = start(cluster, &["tasks.slurm.partition=none"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let id = submit(&molbox).await;
    until(&molbox, &id, "it is held", |record| record.held.is_some()).await;
    service.wait_until_it_logs("tasks.slurm.partition");
    service.stop();
    let settings = settings_of(cluster);
    service.restart_with(&settings.iter().map(String::as_str).collect::<Vec<_>>());
    let record = service.client_with(&key).wait_system(&id).await.unwrap();
    assert_eq!(record.attempts, 1);
}

#[test]
fn the_doctor_runs_a_job_and_names_the_setting_that_slurm_refuses() {
    let Some(cluster) = slurm::shared() else { return };
    let service = start(cluster, &[]);
    let settings = settings_of(cluster);
    let doctor = |more: &[&str]| {
        let all = settings.iter().map(String::as_str).chain(more.iter().copied());
        let mut arguments: Vec<String> =
            all.flat_map(|setting| ["--set".to_owned(), setting.to_owned()]).collect();
        let python = crate::common::python().expect("the workers' environment");
        arguments.extend(["--set".to_owned(), format!("worker.python={python:?}")]);
        arguments.push("doctor".to_owned());
        arguments
    };
    let sound = doctor(&[]);
    let report = service.command(&sound.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(report.contains("ok      tasks: Slurm takes jobs; one ran on node"), "{report}");
    assert!(report.contains("OpenMM"), "{report}");
    for (setting, named) in [
        ("tasks.slurm.partition=none", "tasks.slurm.partition"),
        ("tasks.slurm.gpus=\"gpu:9\"", "tasks.slurm.gpus"),
        ("tasks.slurm.options=[\"--constraint=none\"]", "tasks.slurm.options"),
        ("tasks.slurm.conf=\"/nowhere/slurm.conf\"", "tasks.slurm.conf"),
        ("tasks.slurm.molboxd=\"/nowhere/molboxd\"", "tasks.slurm.molboxd"),
    ] {
        let broken = doctor(&[setting]);
        let report =
            service.failing_command(&broken.iter().map(String::as_str).collect::<Vec<_>>());
        let line = report.lines().find(|line| line.starts_with("broken  tasks: "));
        assert!(line.is_some_and(|line| line.contains(named)), "{named}: {report}");
    }
}

#[tokio::test]
async fn tasks_work_in_a_shared_folder_and_their_results_come_to_the_data_folder() {
    let Some(cluster) = slurm::shared() else { return };
    // Another file system than that of the data.
    let shared = tempfile::tempdir_in("/dev/shm").unwrap();
    let folder = format!("tasks.folder={:?}", shared.path().display().to_string());
    let service = start(cluster, &[&folder]);
    let molbox = service.client("ada");
    let id = submit(&molbox).await;
    molbox.wait_system(&id).await.unwrap();
    let results = std::fs::read_dir(service.objects().join("tasks").join(&id)).unwrap();
    assert!(results.count() > 1);
    assert!(shared.path().join("cache").exists() && !service.data.join("cache").exists());
    assert!(!service.data.join("tasks").exists());
    wait_for("nothing is left of the task", || {
        (std::fs::read_dir(shared.path().join("tasks")).unwrap().count() == 0).then_some(())
    });
}
