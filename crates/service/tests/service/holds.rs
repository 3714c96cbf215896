//! What is wrong with the machine, or with how the service is set up: it ends no task, it holds the
//! queue.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt;
use molbox::Client;
use molbox::workflow::types::{EquilibrationStep, Health, JobRecord, SystemRecord};
use tempfile::TempDir;

use crate::common::{Service, processes, python, wait_for};
use crate::work::{endless_job, short_job, until_it_produces, wait_until, water};

/// An interpreter of workers that can be broken and repaired. Builds and checks are done by the
/// real one, simulations take no time unless they are to be real.
pub(crate) struct FakeWorker {
    folder: TempDir,
}

const FAKE: &str = r#"
import json, os, sys

# It shares the worker's modules with all that use the environment, and leaves nothing beside them.
sys.dont_write_bytecode = True
if "-c" in sys.argv:
    # Asked where its modules lie; this folder is among them.
    exec(sys.argv[sys.argv.index("-c") + 1])
    sys.exit()
folder = sys.argv[-1]
task = json.load(open(folder + "/task.json"))
mode = open(os.path.dirname(os.path.abspath(__file__)) + "/mode").read().split()

def finish(**result):
    open(folder + "/work/result.json", "w").write(json.dumps({"attempt": task["attempt"], "warnings": [], **result}))

def fail(code):
    finish(status="failed", error={"code": code, "message": "as the test has it"})
    sys.exit(2)

is_check = task["kind"] == "environment"
if mode[0] == "import":
    sys.exit("ModuleNotFoundError: No module named 'numpy'")
if mode[0] == "unloadable":
    print("cannot import openmm: libOpenMM.so is missing")
    sys.exit(5)
if mode[0] == "fails":
    fail(mode[1])
if mode[0] == "gpu" and task["device"] == int(mode[1]) and task["kind"] != "build":
    fail("gpu_lost")
if mode[0] == "dies" and not is_check:
    sys.exit(1)
if mode[0] == "blames" and not is_check and task["kind"] != "build":
    fail(mode[1])
if mode[0] == "memory" and task["kind"] == "simulate":
    from molbox_worker import __main__ as main, simulate
    def hungry(*_):
        raise MemoryError("as the test has it")
    simulate.simulate = hungry
    sys.exit(main.main(["", folder]))
if mode[0] == "stopped" and task["kind"] == "simulate":
    sys.exit(3)
if mode[0] == "killed" and task["kind"] == "simulate":
    os.kill(os.getpid(), 9)
if mode[0] == "ligandless":
    # Not isolated, so that it takes a module from there.
    os.environ["PYTHONPATH"] = mode[1]
    os.execv(REAL, [REAL, "-B", "-m", "molbox_worker", folder])
if is_check or task["kind"] == "build" or mode[0] == "real":
    os.execv(REAL, [REAL, *sys.argv[1:]])
finish(status="succeeded", versions={}, stages=[], engine="openmm", platform="GPU " + str(task["device"]))
"#;

impl FakeWorker {
    pub(crate) fn new() -> Self {
        let fake = Self { folder: tempfile::tempdir().unwrap() };
        let real = python().expect("the workers' environment").display().to_string();
        // `-I … -m molbox_worker FOLDER` comes as arguments of the script.
        let text = format!("#!{real}\nREAL = {real:?}\n{FAKE}");
        fs::write(fake.path(), text).unwrap();
        fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fake.set("sound");
        fake
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("python")
    }

    pub(crate) fn setting(&self) -> String {
        format!("worker.python={:?}", self.path().display().to_string())
    }

    pub(crate) fn set(&self, mode: &str) {
        let partial = self.folder.path().join("mode.tmp");
        fs::write(&partial, mode).unwrap();
        fs::rename(partial, self.folder.path().join("mode")).unwrap();
    }

    pub(crate) fn remove(&self) {
        fs::rename(self.path(), self.folder.path().join("away")).unwrap();
    }

    fn put_back(&self) {
        fs::rename(self.folder.path().join("away"), self.path()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_left_alone_while_their_folder_is_not_there() {
    let place = tempfile::tempdir().unwrap();
    let [work, aside] = ["work", "aside"].map(|name| place.path().join(name));
    let setting = format!("tasks.folder={:?}", work.display().to_string());
    let mut service = Service::start_with(&[&setting]);
    let key = service.key("ada");
    let mut molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    let until_held = async |molbox: &Client, is_held: bool| {
        let code = "tasks_folder_missing";
        while health(molbox).await.held.iter().any(|hold| hold.code == code) != is_held {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    for starts_anew in [false, true] {
        if starts_anew {
            service.stop();
        }
        // As where a share is not mounted. What runs would miss its files.
        let running = processes(&work.join("tasks").join(&job));
        running.iter().for_each(|process| process.signal("STOP"));
        fs::rename(&work, &aside).unwrap();
        fs::create_dir_all(&work).unwrap();
        if starts_anew {
            service.restart();
            molbox = service.client_with(&key);
        }
        until_held(&molbox, true).await;
        let said = service.failing_command(&["--set", &setting, "doctor"]);
        assert!(said.contains("(tasks.folder) is not what it was: mount it"), "{said}");
        let record = molbox.job_view().job_id(job.as_str()).send().await.unwrap().into_inner();
        assert_eq!((record.status.as_str(), record.attempts), ("running", 1));
        fs::remove_dir_all(&work).unwrap();
        fs::rename(&aside, &work).unwrap();
        running.iter().for_each(|process| process.signal("CONT"));
        until_held(&molbox, false).await;
    }
    // An earlier version has left no mark of whose it is.
    service.stop();
    let marks = [work.join("installation"), service.data.join("tasks-folder")];
    marks.iter().for_each(|mark| fs::remove_file(mark).unwrap());
    service.restart();
    wait_for("it is marked", || marks[1].exists().then_some(()));
    let molbox = service.client_with(&key);
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    let record = wait_until(&molbox, &job, |job| job.status == "cancelled").await;
    assert_eq!(record.attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_not_lost_where_another_folder_of_tasks_is_named() {
    let place = tempfile::tempdir().unwrap();
    let [own, other, foreign] = ["own", "other", "foreign"]
        .map(|name| format!("tasks.folder={:?}", place.path().join(name).display().to_string()));
    // As a data folder has one.
    let key_of_another = place.path().join("foreign/installation");
    fs::create_dir(key_of_another.parent().unwrap()).unwrap();
    fs::write(&key_of_another, [0xff; 32]).unwrap();
    let mut service = Service::start_with(&[&own]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    service.kill();
    service.restart_with(&[&other]);
    service.wait_until_it_logs("none of 1 task that run has its folder in");
    service.stop();
    service.restart_with(&[&foreign]);
    service.wait_until_it_logs("is in use for something else");
    assert_eq!(fs::read(&key_of_another).unwrap(), [0xff; 32]);
    service.stop();
    service.restart_with(&[&own]);
    let molbox = service.client_with(&key);
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    let record = wait_until(&molbox, &job, |job| job.status == "cancelled").await;
    assert_eq!(record.attempts, 1);
}

async fn health(molbox: &Client) -> Health {
    molbox.service_health().send().await.unwrap().into_inner()
}

async fn until_health(molbox: &Client, is_wanted: impl Fn(&Health) -> bool) -> Health {
    for _ in 0..600 {
        let health = health(molbox).await;
        if is_wanted(&health) {
            return health;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{:?}", health(molbox).await);
}

async fn submit(molbox: &Client, system: &SystemRecord, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let job = molbox.job_submit().body_map(|job| {
            job.box_id(system.system_id.as_str()).equilibration(Vec::<EquilibrationStep>::new())
        });
        ids.push(job.send().await.unwrap().job_id.as_str().to_owned());
    }
    ids
}

async fn jobs(molbox: &Client) -> Vec<JobRecord> {
    molbox.job_list().stream().try_collect().await.unwrap()
}

#[tokio::test]
async fn a_queue_of_sixty_outlasts_a_broken_environment() {
    let fake = FakeWorker::new();
    let service = Service::start_with(&[&fake.setting(), "limits.requests_per_minute=0"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    assert_eq!(health(&molbox).await.status, "ok");
    fake.remove();
    let ids = submit(&molbox, &system, 60).await;
    let held = until_health(&molbox, |health| health.status == "held").await;
    let hold = &held.held[0];
    assert_eq!((hold.code.as_str(), hold.fault.as_str()), ("environment_broken", "operator"));
    assert_eq!(hold.kinds, ["system", "job"]);
    assert!(!hold.message.contains('/'), "{}", hold.message);
    for id in &ids {
        let job = wait_until(&molbox, id, |job| job.status != "running").await;
        assert_eq!((job.status.as_str(), job.attempts, job.error), ("queued", 0, None));
        assert_eq!(job.held.unwrap().code, "environment_broken", "the record has why it waits");
    }
    let metrics = molbox.service_metrics().send().await.unwrap().into_inner().into_inner();
    let metrics =
        String::from_utf8(metrics.try_collect::<Vec<_>>().await.unwrap().concat()).unwrap();
    assert!(
        metrics.contains("molbox_held{lane=\"workers\",code=\"environment_broken\"} 1"),
        "{metrics}"
    );
    service.wait_until_it_logs("no task is started until this is repaired");
    let doctor = service.failing_command(&["--set", &fake.setting(), "doctor"]);
    assert!(doctor.contains("broken  workers: ") && doctor.contains("cannot start "), "{doctor}");
    assert!(doctor.contains("set worker.python"), "{doctor}");

    fake.put_back();
    until_health(&molbox, |health| health.status == "ok" && health.held.is_empty()).await;
    for id in &ids {
        let job =
            wait_until(&molbox, id, |job| job.status != "queued" && job.status != "running").await;
        assert_eq!((job.status.as_str(), job.attempts, job.held), ("succeeded", 1, None));
    }
}

#[tokio::test]
async fn whatever_breaks_all_workers_holds_their_lane_until_it_has_passed() {
    let fake = FakeWorker::new();
    let service = Service::start_with(&[&fake.setting(), "worker.attempts=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    for (mode, code) in [
        ("import", "environment_broken"),
        ("fails sandbox_unavailable", "sandbox_unavailable"),
        ("fails platform_missing", "platform_missing"),
    ] {
        fake.set(mode);
        let ids = submit(&molbox, &system, 3).await;
        let held = until_health(&molbox, |health| health.status == "held").await;
        assert_eq!(held.held[0].code, code);
        for id in &ids {
            let job = wait_until(&molbox, id, |job| job.status != "running").await;
            assert_eq!((job.status.as_str(), job.attempts), ("queued", 0), "{mode}");
        }
        // What is queued can be cancelled.
        let cancelled = molbox.job_cancel().job_id(ids[2].as_str()).send().await.unwrap();
        assert_eq!((cancelled.status.as_str(), &cancelled.held), ("cancelled", &None));
        fake.set("sound");
        for id in &ids[..2] {
            assert_eq!(molbox.wait_job(id).await.unwrap().attempts, 1, "{mode}");
        }
    }
}

#[tokio::test]
async fn the_doctor_shows_what_a_worker_reports_that_cannot_begin() {
    let fake = FakeWorker::new();
    let service = Service::start_with(&[&fake.setting()]);
    fake.set("unloadable");
    let doctor = service.failing_command(&["--set", &fake.setting(), "doctor"]);
    assert!(doctor.contains("cannot import openmm: libOpenMM.so is missing"), "{doctor}");
}

#[tokio::test]
async fn memory_in_which_no_worker_starts_holds_their_lane_and_is_named() {
    let memory = "worker.memory_mb=20";
    let service = Service::start_with(&[memory, "worker.attempts=1"]);
    let molbox = service.client("ada");
    let system = molbox.system_submit().send().await.unwrap();
    let held = until_health(&molbox, |health| health.status == "held").await;
    assert_eq!(held.held[0].code, "environment_broken");
    let worker = python().expect("the workers' environment").display().to_string();
    let worker = format!("worker.python={worker:?}");
    let doctor = service.failing_command(&["--set", memory, "--set", &worker, "doctor"]);
    assert!(doctor.contains("worker.memory_mb, now 20, higher"), "{doctor}");
    let system = molbox.system_view().system_id(&system.system_id).send().await.unwrap();
    assert!(["queued", "running"].contains(&system.status.as_str()), "{system:?}");
}

#[tokio::test]
async fn a_broken_environment_is_found_before_any_task_meets_it() {
    let fake = FakeWorker::new();
    fake.remove();
    let service = Service::start_with(&[&fake.setting()]);
    let molbox = service.client("ada");
    until_health(&molbox, |health| health.status == "held").await;
    let system = molbox.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await.unwrap();
    assert_eq!(system.held.as_ref().unwrap().code, "environment_broken");
    fake.put_back();
    let system = molbox.wait_system(&system.system_id).await.unwrap();
    assert_eq!(system.attempts, 1);
}

/// A module that the real interpreter imports when it starts.
const NO_TOOLS: &str = r#"
import importlib.metadata, importlib.util

def without(find):
    return lambda name, *more: None if name in ("acpype", "mopactools") else find(name, *more)

importlib.util.find_spec = without(importlib.util.find_spec)
"#;

/// Methanol, with bond orders and hydrogens.
const METHANOL: &str = "methanol
  molbox

  6  5  0  0  0  0  0  0  0  0999 V2000
   -0.3700    0.0000    0.0000 C   0  0
    1.0500    0.0000    0.0000 O   0  0
   -0.7300    1.0300    0.0000 H   0  0
   -0.7300   -0.5100    0.8900 H   0  0
   -0.7300   -0.5100   -0.8900 H   0  0
    1.3600    0.9100    0.0000 H   0  0
  1  2  1  0
  1  3  1  0
  1  4  1  0
  1  5  1  0
  2  6  1  0
M  END
$$$$
";

#[tokio::test]
async fn without_the_programs_for_ligands_all_but_ligands_are_built() {
    let fake = FakeWorker::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("sitecustomize.py"), NO_TOOLS).unwrap();
    fs::write(folder.path().join("methanol.sdf"), METHANOL).unwrap();
    fake.set(&format!("ligandless {}", folder.path().display()));
    // Which reads the module from where the test has put it.
    let settings = [&*fake.setting(), "worker.sandbox=\"off\""];
    let service = Service::start_with(&settings);
    let molbox = service.client("ada");
    assert_eq!(water(&molbox).await.attempts, 1);
    let ligand = molbox.upload(folder.path().join("methanol.sdf")).await.unwrap();
    let system = molbox
        .system_submit()
        .body_map(|s| s.ligands([ligand.file_id.as_str()]).minimum_padding(1.2));
    let id = system.send().await.unwrap().system_id.clone();
    molbox.wait_system(&id).await.unwrap_err();
    let system = molbox.system_view().system_id(&id).send().await.unwrap().into_inner();
    let error = system.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.fault.as_deref(), system.attempts),
        ("ligand_tools_missing", Some("request"), 1)
    );
    assert_eq!(health(&molbox).await.status, "ok");
    service.wait_until_it_logs("lack the programs for charges of ligands");
    let doctor = service.command(&["--set", &fake.setting(), "--set", settings[1], "doctor"]);
    assert!(doctor.contains("without the programs for charges of ligands"), "{doctor}");
}

#[tokio::test]
async fn a_lost_gpu_leaves_the_others_their_work() {
    let fake = FakeWorker::new();
    let service = Service::start_with(&[
        &fake.setting(),
        "worker.gpus=[0, 1]",
        "worker.attempts=1",
        "worker.slots=2",
    ]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    fake.set("gpu 1");
    for id in submit(&molbox, &system, 6).await {
        let job = molbox.wait_job(&id).await.unwrap();
        assert_eq!((job.platform.as_deref(), job.attempts), (Some("GPU 0"), 1));
    }
    let held = until_health(&molbox, |health| health.status == "held").await;
    assert_eq!(
        (held.held.len(), held.held[0].code.as_str(), held.held[0].fault.as_str()),
        (1, "gpu_lost", "machine")
    );
    fake.set("sound");
    until_health(&molbox, |health| health.status == "ok").await;
    service.wait_until_it_logs("sound again");
}

#[tokio::test]
async fn a_worker_without_memory_names_it_and_one_that_is_killed_does_not() {
    let fake = FakeWorker::new();
    let service = Service::start_with(&[&fake.setting(), "worker.attempts=2"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    for (mode, code, fault, attempts, remedy) in [
        ("memory", "out_of_memory", "request", 1, "worker.memory_mb"),
        ("killed", "worker_died", "engine", 2, "its log may say why"),
    ] {
        fake.set(mode);
        let id = submit(&molbox, &system, 1).await.remove(0);
        molbox.wait_job(&id).await.unwrap_err();
        let job = molbox.job_view().job_id(id.as_str()).send().await.unwrap().into_inner();
        let error = job.error.unwrap();
        assert_eq!(
            (error.code.as_str(), error.fault.as_deref(), job.attempts),
            (code, Some(fault), attempts)
        );
        assert!(error.remedy.as_ref().is_some_and(|text| text.contains(remedy)), "{error:?}");
    }
}

#[tokio::test]
async fn a_fault_of_the_machine_that_no_check_finds_is_counted_and_ends_the_task() {
    let fake = FakeWorker::new();
    let service = Service::start_with(&[&fake.setting(), "worker.attempts=2"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    fake.set("blames gpu_lost");
    for id in submit(&molbox, &system, 2).await {
        molbox.wait_job(&id).await.unwrap_err();
    }
    for job in jobs(&molbox).await {
        let error = job.error.unwrap();
        assert_eq!(
            (job.status.as_str(), job.attempts, error.code.as_str()),
            ("failed", 2, "gpu_lost")
        );
        assert_eq!(error.fault.as_deref(), Some("engine"));
    }
    assert_eq!(health(&molbox).await.status, "ok");
}

#[tokio::test]
async fn what_an_analysis_that_waits_refers_to_is_not_deleted() {
    let fake = FakeWorker::new();
    fake.set("ligandless /nonexistent");
    let service = Service::start_with(&[&fake.setting(), "worker.attempts=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = short_job(&molbox, &system).await;
    let (job, reference) = (molbox.wait_job(&job.job_id).await.unwrap(), water(&molbox).await);
    // Nothing is confined from now on, so that analyses wait.
    fake.set("fails sandbox_unavailable");
    submit(&molbox, &system, 1).await;
    until_health(&molbox, |health| health.status == "held").await;
    let analysis = molbox.analysis_submit().body_map(|analysis| {
        let analysis = analysis.job_id(job.job_id.as_str()).rmsd_masks([vec![":1-4@O".to_owned()]]);
        analysis.reference_system(reference.system_id.as_str())
    });
    let analysis = analysis.send().await.unwrap();
    let delete = async || molbox.system_delete().system_id(&reference.system_id).send().await;
    let needed = delete().await.unwrap_err();
    assert_eq!(needed.status().unwrap(), 409);
    assert!(needed.to_string().contains(analysis.analysis_id.as_str()), "{needed}");
    fake.set("sound");
    molbox.wait_analysis(&analysis.analysis_id).await.unwrap();
    delete().await.unwrap();
}
