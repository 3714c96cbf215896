//! A worker that was taken over gets nowhere, and nothing that it leaves stops the service.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use molbox::Client;
use molbox::workflow::types::{Health, SystemRecord};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::json;
use tempfile::TempDir;

use crate::common::{Place, Service, kill_task, python, wait_for};
use crate::work::{archive, endless_job, until_it_produces, wait_until, water};

const ATTACKER: &str = include_str!("attacker.py");

/// A program in the place of the workers' interpreter.
struct Worker {
    folder: TempDir,
}

impl Worker {
    fn new(interpreter: &Path, program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = Self { folder };
        fs::write(worker.path(), format!("#!{}\n{program}", interpreter.display())).unwrap();
        for path in [worker.folder.path(), &worker.path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        worker
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("python")
    }

    fn setting(&self) -> String {
        format!("worker.python={:?}", self.path().display().to_string())
    }
}

fn interpreter() -> PathBuf {
    python().expect("the workers' environment")
}

/// What came of each attack, by its name.
fn attacks(log: &str) -> BTreeMap<String, String> {
    let lines = log.lines().filter_map(|line| line.strip_prefix("attack ")?.split_once(": "));
    let found: BTreeMap<_, _> =
        lines.map(|(name, came)| (name.to_owned(), came.to_owned())).collect();
    let n_known = ATTACKER.lines().filter(|line| *line == "@attack").count();
    let n_tried = n_known - usize::from(is_root() && !found.contains_key("multiply"));
    assert!(n_known > 60 && found.len() == n_tried, "{} of {n_known}: {log}", found.len());
    found
}

fn done(attacks: &BTreeMap<String, String>) -> Vec<&str> {
    attacks
        .iter()
        .filter(|(_, came)| !came.starts_with("refused"))
        .map(|(name, _)| name.as_str())
        .collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Processes and threads of this user now, and some more.
fn processes_setting() -> String {
    let own = fs::metadata("/proc/self").unwrap().uid();
    let threads =
        |entry: fs::DirEntry| fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count);
    let of_user = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|e| e.metadata().is_ok_and(|m| m.uid() == own));
    format!("worker.processes={}", of_user.map(threads).sum::<usize>() + 500)
}

async fn submit(molbox: &Client) -> String {
    molbox.system_submit().send().await.unwrap().system_id.as_str().to_owned()
}

async fn ended(molbox: &Client, id: &str) -> SystemRecord {
    molbox.wait_system(id).await.unwrap_err();
    molbox.system_view().system_id(id).send().await.unwrap().into_inner()
}

/// Runs the attacker on a service; what came of each attack.
async fn attack(service: &Service) -> BTreeMap<String, String> {
    let molbox = service.client("ada");
    let id = submit(&molbox).await;
    let system = ended(&molbox, &id).await;
    let error = system.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str(), system.attempts),
        ("internal", "over", 1)
    );
    let folder = tempfile::tempdir().unwrap();
    let files =
        archive(&molbox.download_system(&id, folder.path().join("system.zip")).await.unwrap());
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["honest.txt", "log.txt", "manifest.json", "ro-crate-metadata.json", "shut.txt"]
    );
    wait_for("its folder is gone", || {
        fs::read_dir(service.data.join("tasks")).unwrap().next().is_none().then_some(())
    });
    // It serves as before.
    let next = submit(&molbox).await;
    assert_eq!(ended(&molbox, &next).await.error.unwrap().message, "over");
    let log = String::from_utf8(files["log.txt"].clone()).unwrap();
    assert!(log.contains("not kept: "), "{log}");
    attacks(&log)
}

/// Needs a kernel that can confine; `cargo xtask test` leaves it out elsewhere, and says so.
#[tokio::test]
async fn a_worker_that_was_taken_over_gets_nowhere() {
    let attacker = Worker::new(&interpreter(), ATTACKER);
    let settings = [&*attacker.setting(), "worker.sandbox=\"required\"", &processes_setting()];
    let service = Service::start_with(&settings);
    let attacks = attack(&service).await;
    assert_eq!(done(&attacks), [""; 0], "{attacks:#?}");
}

/// Only root can have others run something: elsewhere `cargo xtask test` leaves these out, and says
/// so.
mod as_root {
    use super::*;

    #[tokio::test]
    async fn a_worker_with_a_user_of_its_own_gets_nowhere_either() {
        let attacker = Worker::new(&interpreter_of_all(), ATTACKER);
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let settings = [
            &*attacker.setting(),
            "worker.sandbox=\"required\"",
            "worker.user=270001",
            "worker.processes=100",
        ];
        let service = Service::start_in(&folder.path().join("data"), &settings);
        let attacks = attack(&service).await;
        assert_eq!(done(&attacks), [""; 0], "{attacks:#?}");
        assert!(attacks.contains_key("multiply"));
        let mode = |name: &str| fs::metadata(service.data.join(name)).unwrap().mode() & 0o777;
        assert_eq!(["", "tasks", "objects", "secret"].map(mode), [0o711, 0o711, 0o700, 0o600]);
        assert!(
            service
                .command(&["--set", settings[0], "--set", settings[2], "doctor"])
                .contains("ok      sandbox: no network")
        );
    }

    #[test]
    fn a_worker_has_a_user_of_its_own_without_a_sandbox_too() {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let task = root.path().join("data/tasks/sys_1");
        fs::create_dir_all(task.join("work")).unwrap();
        fs::write(task.join("task.json"), "{}").unwrap();
        let confinement = json!({
            "sandbox": "off", "user": 270_201, "cache": root.path().join("data/cache/1"),
            "memory_mb": 0, "file_bytes": 0, "processes": 0,
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.args(["confine", "--confinement", &confinement.to_string()]).arg(&task).arg("--");
        command
            .arg(interpreter_of_all())
            .args(["-c", "import os; print(os.getuid(), os.getgid())"]);
        let output = command.output().unwrap();
        let said = [output.stderr, output.stdout].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(said, ["sandbox: off\n", "270201 270201\n"]);
    }

    #[test]
    fn without_landlock_it_reaches_what_every_user_does() {
        let attacks = attack_without_landlock(Some(270_101));
        let done: Vec<&str> =
            done(&attacks).into_iter().filter(|name| !FOR_ALL.contains(name)).collect();
        assert_eq!(done, [""; 0], "{attacks:#?}");
    }
}

#[test]
fn a_limit_that_a_container_has_set_lower_stays() {
    let root = tempfile::tempdir().unwrap();
    let task = root.path().join("data/tasks/sys_1");
    fs::create_dir_all(task.join("work")).unwrap();
    fs::write(task.join("task.json"), "{}").unwrap();
    let confinement = json!({
        "sandbox": "off", "user": null, "cache": root.path().join("data/cache/1"),
        "memory_mb": 0, "file_bytes": 1 << 30, "processes": 0,
    });
    let contained = "import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
os.execv(sys.argv[1], sys.argv[1:])";
    let found = "import resource; print(*resource.getrlimit(resource.RLIMIT_FSIZE))";
    let mut command = Command::new(interpreter_of_all());
    command.args(["-c", contained, env!("CARGO_BIN_EXE_molboxd"), "confine", "--confinement"]);
    command.arg(confinement.to_string()).arg(&task).arg("--");
    let output = command.arg(interpreter_of_all()).args(["-c", found]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "1048576 1048576\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// An interpreter of the system, which every user may start.
fn interpreter_of_all() -> PathBuf {
    PathBuf::from("/usr/bin/python3")
}

/// Does something on a machine whose kernel has no Landlock, or whose container keeps it away.
fn without_landlock<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        let calls = [(libc::SYS_landlock_create_ruleset, Vec::new())].into();
        let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let filter =
            SeccompFilter::new(calls, SeccompAction::Allow, missing, ARCH.try_into().unwrap())
                .unwrap();
        // Of this thread, and of the processes that it starts.
        seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// Runs the attacker confined on this machine without Landlock; what came of each attack.
fn attack_without_landlock(user: Option<u32>) -> BTreeMap<String, String> {
    let interpreter = if user.is_some() { interpreter_of_all() } else { interpreter() };
    let attacker = Worker::new(&interpreter, ATTACKER);
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let data = root.path().join("data");
    let task = data.join("tasks/sys_1");
    for path in ["input", "work/output"] {
        fs::create_dir_all(task.join(path)).unwrap();
    }
    fs::create_dir(data.join("objects")).unwrap();
    for path in [data.join("secret"), data.join("molbox.sqlite"), task.join("input/protein.pdb")] {
        fs::write(path, "content").unwrap();
    }
    fs::write(task.join("task.json"), json!({"kind": "build", "attempt": 1}).to_string()).unwrap();
    let confinement = json!({
        "sandbox": "auto", "user": user, "cache": data.join("cache/1"),
        "memory_mb": 0, "file_bytes": 1 << 30, "processes": 200,
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    command.args(["confine", "--confinement", &confinement.to_string()]).arg(&task).arg("--");
    command.arg(attacker.path()).arg(&task);
    let output = without_landlock(|| command.output().unwrap());
    let log = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(log.contains("sandbox: without files and sockets of its own"), "{log}");
    attacks(&log)
}

/// As the driver of a GPU does: addresses that nothing is written to; or memory that is written to.
const RESERVING: &str = "import mmap, sys
reserved = mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0)
written = bytearray(int(sys.argv[1]) << 20)
print('done')";

#[test]
fn the_limit_of_memory_counts_what_a_worker_on_a_gpu_can_write_to() {
    let root = tempfile::tempdir().unwrap();
    let task = root.path().join("task");
    fs::create_dir_all(task.join("work")).unwrap();
    let ends_well = |has_gpu: bool, mebibytes: u32| {
        let confinement = json!({
            "sandbox": "off", "user": null, "cache": root.path(), "memory_mb": 1024,
            "has_gpu": has_gpu, "file_bytes": 0, "processes": 0,
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.args(["confine", "--confinement", &confinement.to_string()]).arg(&task).arg("--");
        let command = command.arg(python().unwrap()).args(["-c", RESERVING]);
        command.arg(mebibytes.to_string()).output().unwrap().status.success()
    };
    assert!(ends_well(true, 100));
    assert!(!ends_well(true, 2000));
    assert!(!ends_well(false, 100));
}

/// What Landlock alone keeps from a worker that runs as the service itself: the files of its user.
const FILES: [&str; 21] = [
    "read_the_database",
    "read_the_secret",
    "list_the_data_folder",
    "list_the_other_tasks",
    "list_the_objects",
    "write_in_the_data_folder",
    "change_the_task",
    "forge_the_exit",
    "replace_the_lock",
    "replace_the_input",
    "read_the_environment_of_run_task",
    "read_the_memory_of_run_task",
    "list_the_files_of_run_task",
    "list_the_processes",
    "change_a_setting_of_the_kernel",
    "share_memory_by_name",
    "write_in_the_folder_for_all",
    "read_the_accounts_of_the_machine",
    "read_the_settings_of_the_machine",
    "read_the_home_of_root",
    "read_the_disk",
];
/// What Landlock alone keeps from a worker with a user of its own: what every user of a machine may
/// do.
const FOR_ALL: [&str; 6] = [
    "list_the_processes",
    "list_the_other_tasks",
    "share_memory_by_name",
    "write_in_the_folder_for_all",
    "read_the_accounts_of_the_machine",
    "read_the_settings_of_the_machine",
];

#[test]
fn without_landlock_a_worker_reaches_no_network_no_process_and_no_link() {
    let attacks = attack_without_landlock(None);
    let done: Vec<&str> = done(&attacks).into_iter().filter(|name| !FILES.contains(name)).collect();
    assert_eq!(done, [""; 0], "{attacks:#?}");
}

async fn until_health(molbox: &Client, is_wanted: impl Fn(&Health) -> bool) -> Health {
    for _ in 0..600 {
        let health = molbox.service_health().send().await.unwrap().into_inner();
        if is_wanted(&health) {
            return health;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the health did not become what was waited for");
}

#[tokio::test]
async fn what_is_required_and_missing_holds_all_lanes_and_doctor_names_it() {
    let service = without_landlock(|| Service::start_with(&["worker.sandbox=\"required\""]));
    let molbox = service.client("ada");
    let held = until_health(&molbox, |health| health.held.len() == 2).await;
    for hold in &held.held {
        assert_eq!((hold.code.as_str(), hold.fault.as_str()), ("sandbox_unavailable", "operator"));
    }
    let found = |sandbox: &str| {
        let python = format!("worker.python={:?}", interpreter().display().to_string());
        let settings = ["--set", &python, "--set", sandbox, "doctor"];
        without_landlock(|| service.place().molboxd().args(settings).output().unwrap())
    };
    let strict = found("worker.sandbox=\"required\"");
    let text = String::from_utf8(strict.stdout).unwrap();
    assert!(
        !strict.status.success()
            && text.contains("this machine lacks what worker.sandbox requires"),
        "{text}"
    );
    let lenient = found("worker.sandbox=\"auto\"");
    let text = String::from_utf8(lenient.stdout).unwrap();
    assert!(
        lenient.status.success() && text.contains("weak    sandbox: without files and sockets"),
        "{text}"
    );
    assert_eq!(text.contains("the service is root"), is_root(), "{text}");
}

/// Writes what the test puts beside it.
const LIAR: &str = r#"
import json, os, sys, time
if "-c" in sys.argv:
    exec(sys.argv[sys.argv.index("-c") + 1])
    sys.exit()
folder = sys.argv[-1]
work = folder + "/work"
task = json.load(open(folder + "/task.json"))
os.makedirs(work + "/output", exist_ok=True)

def finish(**result):
    open(work + "/result.json", "w").write(json.dumps({"attempt": task["attempt"], "warnings": [], **result}))

def topology(**changes):
    empty = {"atoms": {"name": [], "element": [], "mass": [], "residue": []},
             "residues": {"name": [], "id": [], "insertion": [], "chain": []},
             "chains": {"id": []}, "bonds": [], "positions": []}
    open(work + "/output/topology.json", "w").write(json.dumps({**empty, **changes}))

SUMMARY = {"atoms": 1, "residues": 1, "box_vectors_nm": [[3, 0, 0], [0, 3, 0], [0, 0, 3]], "solvent_residues": ["HOH"]}
STAGE = {"name": "production", "steps": 1, "frames": 0, "seconds": 1.0}
if task["kind"] == "environment":
    finish(status="succeeded", versions={}, platforms=[], ligand_tools=True)
else:
    exec(open(os.path.dirname(os.path.abspath(__file__)) + "/lie").read())
"#;

#[tokio::test]
async fn a_result_that_no_worker_writes_ends_its_task_and_nothing_else() {
    let liar = Worker::new(&interpreter(), LIAR);
    let service = Service::start_with(&[&liar.setting()]);
    let molbox = service.client("ada");
    for lie in [
        "os.mkdir(work + '/result.json')",
        "open(work + '/result.json', 'w').write('{')",
        "open(work + '/result.json', 'w').write('[1]')",
        "open(work + '/result.json', 'w').truncate(1 << 33)",
        "os.close(os.open(work + '/result.json', os.O_CREAT | os.O_WRONLY, 0))",
        "finish(status='succeeded')",
        "finish(status='succeeded', summary='x')",
        "finish(status='failed', error='x')",
        "finish(status='failed', error={'code': 1, 'message': 'x'})",
        "finish(status='failed', error={'code': 'internal', 'message': 'x'}, warnings=[1])",
        "finish(status='failed', error={'code': 'internal', 'message': 'x'}, stages=3)",
        "finish(status='done')",
        "finish(status='failed', error={'code': 'internal', 'message': 'x', 'remidy': 'x'})",
        "finish(status='failed', error={'code': 'internal', 'message': 'x'}, summary=SUMMARY)",
        "finish(status='failed', error={'code': 'internal', 'message': 'x'}, stages=[STAGE | {'name': '../x'}])",
        "finish(status='failed', error={'code': 'internal', 'message': 'x'}, stages=[STAGE, STAGE])",
        "finish(status='failed', error={'code': 'internal', 'message': 'x'}, stages=[STAGE | {'steps': 2**64 - 1}])",
        "finish(status='succeeded', summary=SUMMARY, versions={str(n): '1' for n in range(1000)})",
        // Whose topology is missing, has too few residues, or is no topology.
        "finish(status='succeeded', summary=SUMMARY)",
        "finish(status='succeeded', summary=SUMMARY); topology(atoms={'name': ['O'], 'element': [], 'mass': [], 'residue': [9]})",
        "finish(status='succeeded', summary=SUMMARY); open(work + '/output/topology.json', 'w').truncate(1 << 33)",
    ] {
        fs::write(liar.folder.path().join("lie"), lie).unwrap();
        let id = submit(&molbox).await;
        let system = ended(&molbox, &id).await;
        let error = system.error.unwrap();
        assert_eq!(
            (error.code.as_str(), system.attempts),
            ("result_invalid", 1),
            "{lie}: {}",
            error.message
        );
    }
    // What is wrong with it is for the operator.
    service.wait_until_it_logs("unknown field `error.remidy`");
    // What has the name of a folder of the service's stays behind.
    let lie = "open(work + '/output/input', 'w'); open(work + '/output/commit', 'w'); finish(status='failed', error={'code': 'internal', 'message': 'x'})";
    fs::write(liar.folder.path().join("lie"), lie).unwrap();
    let id = submit(&molbox).await;
    assert_eq!(ended(&molbox, &id).await.error.unwrap().code, "internal");
    // Nor does it show what it says meanwhile.
    let lie = "open(work + '/progress.json', 'w').write('{\"fraction\": \"x\", \"stages\": 5}'); time.sleep(2); finish()";
    fs::write(liar.folder.path().join("lie"), lie).unwrap();
    let id = submit(&molbox).await;
    assert_eq!(ended(&molbox, &id).await.error.unwrap().code, "result_invalid");
}

#[tokio::test]
async fn workers_take_no_code_from_where_the_service_was_started() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    for module in ["ast", "json", "numpy", "sitecustomize"] {
        fs::write(place.join(format!("{module}.py")), "raise SystemExit('taken over')").unwrap();
    }
    let data = folder.path().join("data");
    let path = place.display().to_string();
    let within =
        ["env", "--chdir", &path, &format!("PYTHONPATH={path}")].map(str::to_owned).to_vec();
    let service = Service::start_at(&data, Place::within(within, &data), &[]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    assert_eq!(system.attempts, 1, "{}", service.log());
}

#[tokio::test]
async fn a_simulation_of_an_earlier_version_resumes_from_its_commit() {
    let mut service = Service::start_with(&["worker.checkpoint_seconds=0.3"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    service.kill();
    let folder = service.data.join("tasks").join(&id);
    while kill_task(&folder) {}
    // As that had it: all in one folder.
    for entry in fs::read_dir(folder.join("work")).unwrap().flatten() {
        fs::rename(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    fs::remove_dir(folder.join("work")).unwrap();
    service.restart();
    let molbox = service.client_with(&key);
    wait_until(&molbox, &id, |job| job.attempts == 2 && job.status == "running").await;
    wait_for("it has resumed", || {
        let log = fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
        log.contains("resuming at step").then_some(())
    });
}
