//! One attempt at a task at a time, whichever of its processes is killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use molbox::workflow::types::{EquilibrationStep, ProductionParams, SystemRecord};
use molbox::{Client, Error};
use serde_json::{Value, json};

use crate::common::{Process, Service, kill_task, processes, wait_for};
use crate::work::{endless_job, until_it_produces, wait_until, water};

fn folder(service: &Service, id: &str) -> PathBuf {
    service.data.join("tasks").join(id)
}

/// Kills `run-task` alone; its worker goes on.
fn kill_run_task(service: &Service, id: &str) -> Process {
    let found = processes(&folder(service, id));
    let (run_task, workers): (Vec<_>, Vec<_>) = found.into_iter().partition(Process::is_run_task);
    run_task[0].signal("KILL");
    let gone = |process: &Process| !processes(&folder(service, id)).contains(process);
    wait_for("run-task is gone", || gone(&run_task[0]).then_some(()));
    assert_eq!(workers.len(), 1, "{workers:?}");
    workers[0].clone()
}

async fn job_of(molbox: &Client, system: &SystemRecord, steps: f64) -> String {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(20)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(
                ProductionParams::builder()
                    .type_("NVT")
                    .time(steps * 2e-6)
                    .traj_freq(100)
                    .log_freq(50),
            )
    });
    job.send().await.unwrap().job_id.as_str().to_owned()
}

#[tokio::test]
async fn a_worker_whose_run_task_was_killed_stays_the_only_one_and_its_result_counts() {
    let mut service =
        Service::start_with(&["worker.checkpoint_seconds=0.5", "limits.requests_per_minute=0"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = job_of(&molbox, &system, 3000.0).await;
    until_it_produces(&molbox, &id).await;
    let worker = kill_run_task(&service, &id);
    // The service may die on top of that.
    service.kill_and_restart();
    let molbox = service.client_with(&key);
    let job = loop {
        let found = processes(&folder(&service, &id));
        assert!(found.is_empty() || found == [worker.clone()], "{found:?}");
        let job = molbox.job_view().job_id(id.as_str()).send().await.unwrap().into_inner();
        if !["queued", "running"].contains(&job.status.as_str()) {
            break job;
        }
        assert_eq!((job.status.as_str(), job.attempts), ("running", 1));
    };
    assert_eq!((job.status.as_str(), job.attempts), ("succeeded", 1), "{:?}", job.error);
    assert_eq!(job.stages.last().unwrap().frames, 30);
}

#[tokio::test]
async fn a_worker_whose_run_task_was_killed_can_be_cancelled() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    let worker = kill_run_task(&service, &id);
    molbox.job_cancel().job_id(id.as_str()).send().await.unwrap();
    let job = wait_until(&molbox, &id, |job| job.status != "running").await;
    assert_eq!((job.status.as_str(), job.attempts), ("cancelled", 1));
    assert!(!processes(&folder(&service, &id)).contains(&worker));
    // It was asked, not killed: what it had run is committed.
    let log = molbox.job_log().job_id(id.as_str()).send().await.unwrap().into_inner_stream();
    let log: Vec<_> = futures::StreamExt::collect(log).await;
    let log: Vec<u8> = log.into_iter().flat_map(|chunk| chunk.unwrap().to_vec()).collect();
    assert!(String::from_utf8(log).unwrap().trim_end().ends_with(" stopped"));
}

#[tokio::test]
async fn a_worker_whose_run_task_was_killed_keeps_to_the_limit_of_time() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    kill_run_task(&service, &id);
    // On a busy machine it takes longer than any limit until then.
    service.kill();
    service.restart_with(&["worker.wall_seconds=2"]);
    let molbox = service.client_with(&key);
    let error = molbox.wait_job(&id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    assert_eq!(task.failure.as_ref().unwrap().code, "wall_limit");
    assert_eq!(molbox.job_view().job_id(id.as_str()).send().await.unwrap().attempts, 1);
    assert!(processes(&folder(&service, &id)).is_empty());
}

#[tokio::test]
async fn a_worker_that_stands_still_is_killed_also_without_its_run_task() {
    let service = Service::start_with(&[
        "worker.heartbeat_timeout_seconds=3",
        "worker.checkpoint_seconds=0.5",
    ]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    let worker = kill_run_task(&service, &id);
    worker.signal("STOP");
    wait_until(&molbox, &id, |job| job.attempts == 2 && job.status == "running").await;
    assert!(!processes(&folder(&service, &id)).contains(&worker));
}

#[tokio::test]
async fn an_analysis_whose_run_task_was_killed_stays_the_only_one_and_its_result_counts() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = molbox.wait_job(&job_of(&molbox, &system, 1000.0).await).await.unwrap();
    // It is over so soon that it may be missed.
    for _ in 0..20 {
        let analysis =
            molbox.analysis_submit().body_map(|a| a.job_id(job.job_id.as_str()).rmsf_masks(["@O"]));
        let id = analysis.send().await.unwrap().analysis_id.as_str().to_owned();
        let found = wait_for("the analysis runs or has run", || {
            let found = processes(&folder(&service, &id));
            let has_ended = service.objects().join("tasks").join(&id).exists();
            (found.len() > 1 || has_ended).then_some(found)
        });
        let (run_task, workers): (Vec<_>, Vec<_>) =
            found.into_iter().partition(Process::is_run_task);
        let [run_task] = run_task.as_slice() else { continue };
        run_task.signal("KILL");
        let after = processes(&folder(&service, &id));
        let analysis = molbox.wait_analysis(&id).await.unwrap();
        assert_eq!(analysis.attempts, 1, "{}", service.log());
        if !workers.is_empty() && after == workers {
            return;
        }
    }
    panic!("no analysis was met while it ran");
}

#[tokio::test]
async fn while_large_results_are_collected_other_tasks_begin_and_end() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = molbox.wait_job(&job_of(&molbox, &system, 1000.0).await).await.unwrap();
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    // Whoever reads it is busy for a while, and the disk has few blocks for it; of a file with none
    // nothing would be taken.
    let mut large = File::create(folder(&service, &id).join("work/output/large.log")).unwrap();
    large.write_all(&vec![0; 8 << 20]).unwrap();
    large.set_len(1 << 30).unwrap();
    molbox.job_cancel().job_id(id.as_str()).send().await.unwrap();
    wait_for("its files are objects", || {
        service.objects().join("tasks").join(&id).exists().then_some(())
    });
    let analysis =
        molbox.analysis_submit().body_map(|a| a.job_id(job.job_id.as_str()).rmsf_masks(["@O"]));
    let analysis = analysis.send().await.unwrap();
    molbox.wait_analysis(analysis.analysis_id.as_str()).await.unwrap();
    let job = molbox.job_view().job_id(id.as_str()).send().await.unwrap();
    assert_eq!(job.status, "running", "its results were collected before");
    wait_until(&molbox, &id, |job| job.status == "cancelled").await;
}

#[tokio::test]
async fn a_late_exit_of_an_earlier_attempt_counts_for_nothing() {
    let service = Service::start_with(&["worker.attempts=1", "worker.checkpoint_seconds=100000"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    // It has committed its minimisation, so that it may try again.
    assert!(kill_task(&folder(&service, &id)));
    wait_until(&molbox, &id, |job| job.attempts == 2 && job.progress.is_some()).await;
    until_it_produces(&molbox, &id).await;
    wait_for("it runs", || {
        processes(&folder(&service, &id)).iter().any(|process| !process.is_run_task()).then_some(())
    });
    // As of a worker that was asked to stop, which is queued again however often that happens.
    let late = json!({ "attempt": 1, "code": 3, "signal": null });
    fs::write(folder(&service, &id).join("exit.json"), late.to_string()).unwrap();
    assert!(kill_task(&folder(&service, &id)));
    let job =
        wait_until(&molbox, &id, |job| ["queued", "failed"].contains(&job.status.as_str())).await;
    assert_eq!((job.status.as_str(), job.attempts), ("failed", 2));
    assert_eq!(job.error.unwrap().code, "worker_died");
}

/// The service dies after a failed task's files have become objects, and before its record has
/// ended.
#[tokio::test]
async fn the_folder_of_a_task_that_ended_as_the_service_died_is_removed() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let running = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &running).await;
    service.kill();
    // Of the system that has ended, and of one that is deleted.
    let ended = folder(&service, system.system_id.as_str());
    for left in [&ended, &folder(&service, "box_00000000000000000000")] {
        fs::create_dir_all(left.join("work/output")).unwrap();
        fs::write(left.join("work/output/system.xml"), "<System/>").unwrap();
    }
    service.restart();
    wait_for("the folder of the task that runs is the only one", || {
        let entries = fs::read_dir(service.data.join("tasks")).unwrap();
        let left: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        (left == [folder(&service, &running)]).then_some(())
    });
    let molbox = service.client_with(&key);
    let built = molbox.system_view().system_id(system.system_id.as_str()).send().await.unwrap();
    assert_eq!(built.status, "succeeded");
    let job = molbox.job_view().job_id(running.as_str()).send().await.unwrap();
    assert_eq!((job.status.as_str(), job.attempts), ("running", 1));
}

#[tokio::test]
async fn results_that_were_collected_before_the_service_died_are_kept() {
    let mut service =
        Service::start_with(&["worker.attempts=1", "worker.checkpoint_seconds=100000"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    assert!(kill_task(&folder(&service, &id)));
    wait_until(&molbox, &id, |job| job.attempts == 2 && job.progress.is_some()).await;
    until_it_produces(&molbox, &id).await;
    service.kill();
    // Of a task that was killed as a whole nobody knows that it was not the machine. Its worker may
    // only just begin.
    wait_for("its processes are gone", || {
        let left = processes(&folder(&service, &id));
        let workers = left.iter().filter(|process| !process.is_run_task());
        workers.for_each(|worker| worker.signal("KILL"));
        left.is_empty().then_some(())
    });
    let before = tempfile::tempdir().unwrap();
    copy(&service.data, before.path());

    service.restart();
    let ended = wait_until(&service.client_with(&key), &id, |job| job.status == "failed").await;
    service.stop();
    let results = service.objects().join("tasks").join(&id);
    let kept = content(&results);
    assert!(
        kept.keys().any(|name| name == "production.dcd") && kept.contains_key("log.txt"),
        "{:?}",
        kept.keys()
    );

    // As that was: the record as before, the files among the objects, the rest of the folder still
    // there.
    for name in ["molbox.sqlite", "molbox.sqlite-wal", "molbox.sqlite-shm"] {
        let (from, to) = (before.path().join(name), service.data.join(name));
        if from.exists() {
            fs::copy(from, to).unwrap();
        } else {
            fs::remove_file(to).unwrap_or_default();
        }
    }
    copy(&before.path().join("tasks"), &service.data.join("tasks"));
    fs::remove_file(folder(&service, &id).join("log.txt")).unwrap();
    fs::remove_dir_all(folder(&service, &id).join("work/commit")).unwrap();
    for file in fs::read_dir(folder(&service, &id).join("work/output")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    // What a first collection leaves behind does not replace what it took.
    fs::write(folder(&service, &id).join("work/output/late.txt"), "left behind").unwrap();
    service.restart();
    let again = wait_until(&service.client_with(&key), &id, |job| job.status == "failed").await;
    assert_eq!(again.error.unwrap(), ended.error.unwrap());
    let differs = |name: &&String| {
        !["manifest.json", "ro-crate-metadata.json"].contains(&name.trim_end_matches(".deflate"))
            && content(&results).get(*name) != kept.get(*name)
    };
    assert_eq!(kept.keys().find(differs), None);
}

/// Copies a folder onto another.
fn copy(from: &Path, to: &Path) {
    assert!(
        Command::new("cp")
            .args(["-a", "--"])
            .arg(from.join("."))
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
}

/// The files of a folder and of those in it.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            files.extend(
                content(&entry.path())
                    .into_iter()
                    .map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    files
}

fn n_commits(service: &Service, id: &str) -> Option<u64> {
    let text = fs::read_to_string(folder(service, id).join("work/commit/commit.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["number"].as_u64()
}

#[tokio::test]
async fn a_job_that_gets_further_each_time_is_never_given_up() {
    let service = Service::start_with(&["worker.attempts=1", "worker.checkpoint_seconds=0.3"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    let mut committed = 0;
    for attempt in 1..=4 {
        wait_until(&molbox, &id, |job| job.status == "running" && job.attempts == attempt).await;
        wait_for("it has got further", || n_commits(&service, &id).filter(|n| *n > committed));
        let killed = processes(&folder(&service, &id));
        assert!(kill_task(&folder(&service, &id)));
        wait_for("the attempt has ended", || {
            let left = processes(&folder(&service, &id));
            killed.iter().all(|process| !left.contains(process)).then_some(())
        });
        // It may have committed once more until then, which is not what the next one comes to.
        committed = n_commits(&service, &id).expect("what is committed stays");
    }
    wait_until(&molbox, &id, |job| job.status == "running" && job.attempts == 5).await;
}

#[tokio::test]
async fn the_loss_of_the_machine_is_held_against_no_task() {
    let mut service = Service::start_with(&["worker.attempts=1"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    let has_worker = |service: &Service, attempt: u64| {
        let found = processes(&folder(service, &id));
        let is_started =
            found.iter().any(|process| process.command.contains(&format!("--attempt={attempt}")));
        found.into_iter().find(|process| !process.is_run_task()).filter(|_| is_started)
    };
    // Nothing is committed between them: the next checkpoint is a minute away.
    for attempt in 1..=3 {
        wait_for("it runs", || has_worker(&service, attempt));
        service.power_cut_and_restart();
    }
    // The machine is shut down: the worker is killed, its end is noted, and another run of the
    // machine begins.
    let worker = wait_for("it runs", || has_worker(&service, 4));
    service.kill();
    worker.signal("KILL");
    wait_for("its end is noted", || folder(&service, &id).join("exit.json").exists().then_some(()));
    let path = folder(&service, &id).join("task.json");
    let mut task: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    task["boot"] = "another run of this machine".into();
    fs::write(&path, task.to_string()).unwrap();
    service.restart();
    let worker = wait_for("it runs", || has_worker(&service, 5));
    worker.signal("KILL");
    let molbox = service.client_with(&key);
    let job = wait_until(&molbox, &id, |job| job.status != "running").await;
    assert_eq!((job.status.as_str(), job.attempts), ("failed", 5), "this one counts");
    assert_eq!(job.error.unwrap().code, "worker_died");
}

#[test]
fn what_a_killed_worker_had_started_does_not_outlive_it() {
    let folder = tempfile::tempdir().unwrap();
    let lock = File::create(folder.path().join("lock")).unwrap();
    lock.try_lock().unwrap();
    let worker = "sleep 1000 & echo $! > \"$0/started\"; kill -KILL $$";
    let mut run_task = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    let confinement = json!({
        "sandbox": "off", "user": null, "cache": folder.path().join("cache"),
        "memory_mb": 0, "file_bytes": 0, "processes": 0,
    });
    run_task.args(["run-task", "--attempt=4"]).arg(format!("--confinement={confinement}"));
    run_task.arg(folder.path()).args(["--", "sh", "-c", worker]).arg(folder.path());
    run_task.stdin(lock).status().unwrap();
    let exit: Value =
        serde_json::from_slice(&fs::read(folder.path().join("exit.json")).unwrap()).unwrap();
    assert_eq!(
        (&exit["attempt"], &exit["code"], &exit["signal"]),
        (&json!(4), &Value::Null, &json!(9)),
        "{exit}"
    );
    let started = fs::read_to_string(folder.path().join("started")).unwrap();
    let state = fs::read_to_string(format!("/proc/{}/stat", started.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(" Z "), "{state}");
}
