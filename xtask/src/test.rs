//! Every test of every crate and of the worker.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::shell::{cargo, root, run};
use crate::{clients, conformance, lint, packages, portal, python, regenerate, spec, tidy};

/// How long random requests go on; `cargo xtask soak` takes longer.
const CONFORMANCE_SECONDS: u64 = 80;

/// What of the service is tested on PostgreSQL, too: what reads and writes most. `cargo xtask soak`
/// takes all of it.
const ON_POSTGRES: [&str; 8] = [
    "access::",
    "admin::",
    "audits::",
    "kills::",
    "queue::",
    "quotas::",
    "repeats::",
    "sessions::",
];

/// What is about a database that is a file of the data folder.
const ON_SQLITE_ALONE: [&str; 11] = [
    "access::a_data_folder_is_its_owner_s_alone",
    "admin::a_backup_has_hashes_of_tokens",
    "backups::",
    "disk::a_copy_of_the_folder",
    "disk::a_database_that_another_program_holds",
    "disk::on_a_full_disk",
    "files::an_installation_of_the_first_version",
    "folder::a_database_that_is_damaged",
    "folder::a_folder_that_is_moved_away",
    "folder::contents_without_their_database",
    "sessions::what_is_secret_is_in_no_log",
];

/// What of the service is tested on S3, too: what writes and reads contents most. `cargo xtask soak`
/// takes all of it.
const ON_S3: [&str; 4] = ["files::", "kills::", "quotas::", "retries::"];

/// What is about contents that are in the data folder, or names a configuration without a bucket.
const ON_DISK_ALONE: [&str; 8] = [
    "access::a_data_folder_is_its_owner_s_alone",
    "backups::",
    "confinement::as_root::",
    "disk::",
    "files::an_installation_of_the_first_version",
    "folder::",
    "moves::",
    "outages::a_database_is_that_of_one_data_folder",
];

/// What of the service is tested with Slurm, too: what becomes of attempts, whatever is killed.
/// `cargo xtask soak` takes all of it.
const ON_SLURM: [&str; 3] = ["attempts::", "cluster::", "kills::"];

/// What is about processes of this machine, with the reason.
const ON_PROCESSES_ALONE: [(&str, &str); 8] = [
    (
        "attempts::a_worker_whose_run_task_was_killed_can_be_cancelled",
        "Slurm asks a job to stop by its run-task",
    ),
    ("attempts::the_loss_of_the_machine", "it is the service's machine, not a node"),
    ("attempts::results_that_were_collected", "it tells a loss from a kill by the machine's run"),
    ("confinement::as_root", "users of their own are of workers that the service starts"),
    ("disk::", "a file system of the service's alone, which no node has"),
    ("folder::a_folder_that_is_moved_away", "nodes lose the folder, too"),
    ("holds::a_lost_gpu", "GPUs of a job come from Slurm"),
    ("queue::", "slots and CPUs of this machine"),
];

pub fn test() -> Result<()> {
    let start = Instant::now();
    step("document and derived files", || regenerate::regenerate(true))?;
    step("the document since the last release", spec::since_release)?;
    step("linters of the document", lint::lint_where_possible)?;
    step("invariants", tidy::tidy)?;
    step("formatting", || run(cargo().args(["fmt", "--all", "--check"])))?;
    step("lints", || {
        run(cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ]))?;
        run(cargo().args([
            "clippy",
            "--package",
            "molbox",
            "--no-default-features",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ]))
    })?;
    // Before the service is compiled, which contains it.
    let node = step("building the portal", portal::portal_where_possible)?;
    step("the packages as strangers use them", packages::packages)?;
    let python = python::environment()?;
    step("the worker", || {
        for arguments in [
            &["-m", "ruff", "check", "--quiet", "."] as &[&str],
            &["-m", "ruff", "format", "--check", "--quiet", "."],
            &["-m", "mypy", "--no-error-summary", "molbox_worker"],
            &["-m", "pytest", "--quiet"],
        ] {
            run(Command::new(&python).current_dir(root().join("worker")).args(arguments))?;
        }
        Ok(())
    })?;
    // The service's tests start workers with this interpreter.
    step("the crates", || {
        let mut tests = cargo();
        tests.args(["test", "--workspace", "--"]).env("MOLBOX_TEST_PYTHON", &python);
        // Those of the service wait for processes most of their time.
        let n_cores = thread::available_parallelism()?.get();
        tests.arg(format!("--test-threads={}", 2 * n_cores));
        for (names, why) in cannot_run(&python)? {
            println!("skipped: {names}: {why}");
            tests.args(["--skip", names]);
        }
        run(&mut tests)
    })?;
    step("the service on PostgreSQL", || {
        if has_postgres() {
            run(on_postgres(&python).args(ON_POSTGRES))
        } else {
            println!("skipped: the service on PostgreSQL: {NO_POSTGRES}");
            Ok(())
        }
    })?;
    step("the service on S3", || {
        if has_s3() {
            run(on_s3(&python).args(ON_S3))
        } else {
            println!("skipped: the service on S3: {NO_S3}");
            Ok(())
        }
    })?;
    step("the service with Slurm", || {
        if has_slurm() {
            for (names, why) in ON_PROCESSES_ALONE {
                println!("skipped with Slurm: {names}: {why}");
            }
            run(on_slurm(&python).args(ON_SLURM))
        } else {
            println!("skipped: the service with Slurm: {NO_SLURM}");
            Ok(())
        }
    })?;
    if let Some(node) = &node {
        step("the portal", || portal::test(node))?;
    }
    step("clients in other languages", || clients::clients(&[]))?;
    step("the live service against the document", || {
        conformance::conformance(CONFORMANCE_SECONDS)
    })?;
    println!("all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The tests of the service with records in PostgreSQL.
pub fn on_postgres(python: &Path) -> Command {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--test", "service", "--"]);
    tests.args(ON_SQLITE_ALONE.map(|name| ["--skip", name]).as_flattened());
    tests.env("MOLBOX_TEST_PYTHON", python).env("MOLBOX_TEST_DATABASE", "postgres");
    tests
}

/// The tests of the service with contents in a bucket of S3.
pub fn on_s3(python: &Path) -> Command {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--test", "service", "--"]);
    tests.args(ON_DISK_ALONE.map(|name| ["--skip", name]).as_flattened());
    tests.env("MOLBOX_TEST_PYTHON", python).env("MOLBOX_TEST_OBJECTS", "s3");
    tests
}

pub const NO_S3: &str =
    "versitygw is not installed (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)";

/// Whether a server for tests can be started.
pub fn has_s3() -> bool {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let of_go = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    std::env::split_paths(&searched).chain(of_go).any(|folder| folder.join("versitygw").exists())
}

pub const NO_POSTGRES: &str = "PostgreSQL is not installed (Debian: postgresql)";

/// Whether a server for tests can be started.
pub fn has_postgres() -> bool {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    Path::new("/usr/lib/postgresql").exists()
        || std::env::split_paths(&searched).any(|folder| folder.join("initdb").exists())
}

/// The tests of the service with tasks as jobs of Slurm.
pub fn on_slurm(python: &Path) -> Command {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--test", "service", "--"]);
    tests.args(ON_PROCESSES_ALONE.map(|(name, _)| ["--skip", name]).as_flattened());
    tests.env("MOLBOX_TEST_PYTHON", python).env("MOLBOX_TEST_TASKS", "slurm");
    tests
}

pub const NO_SLURM: &str = "Slurm is not installed (Debian: slurm-wlm, munge)";

/// Whether a cluster for tests can be started.
pub fn has_slurm() -> bool {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &str| std::env::split_paths(&searched).any(|folder| folder.join(name).exists());
    ["slurmctld", "slurmd", "munged"].into_iter().all(is_there)
}

/// The tests that this machine cannot run, each with the reason.
fn cannot_run(python: &Path) -> Result<Vec<(&'static str, &'static str)>> {
    let can_confine = can_confine(python)?;
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let needs = [
        ("disk::", can_mount(), "no file system can be mounted here"),
        (
            "confinement::as_root::",
            can_confine && is_root && Path::new("/usr/bin/python3").exists(),
            "needs root, /usr/bin/python3 and Landlock of Linux 6.12",
        ),
        (
            "confinement::a_worker_that_was_taken_over_gets_nowhere",
            can_confine,
            "needs Landlock of Linux 6.12",
        ),
    ];
    Ok(needs
        .into_iter()
        .filter(|(_, is_met, _)| !is_met)
        .map(|(names, _, why)| (names, why))
        .collect())
}

/// Whether the kernel offers all that `worker.sandbox = "required"` asks for; many containers keep
/// it away.
fn can_confine(python: &Path) -> Result<bool> {
    // landlock_create_ruleset, asked for its version; 6 keeps signals and sockets inside.
    let version = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    let answer = Command::new(python).args(["-c", version]).output()?;
    Ok(String::from_utf8(answer.stdout)?.trim().parse::<i32>()? >= 6)
}

/// Whether file systems in memory can be mounted in a namespace, as the tests of disks do. Many
/// containers allow that to nobody.
fn can_mount() -> bool {
    let mount = ["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"];
    [&["--user", "--map-root-user"][..], &[]].iter().any(|user| {
        let status = Command::new("unshare").args(*user).args(mount).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    println!("== {name}");
    let done = work()?;
    println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(done)
}
