//! Every test of every crate and of the worker.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::backends::{Backend, Backends};
use crate::shell::{cargo, cpu_of_children, root, run, target};
use crate::{
    clients, conformance, docs, lint, mcp, packages, portal, python, regenerate, spec, tidy,
};

/// How long random requests go on; `cargo xtask soak` takes longer.
const CONFORMANCE_SECONDS: u64 = 80;

/// Steps that go on beside each other: they wait for servers and processes rather than for a core,
/// or leave cores idle at their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lane {
    Code,
    Worker,
    Crates,
    Backends,
    Clients,
}

impl Lane {
    fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Worker => "worker",
            Self::Crates => "crates",
            Self::Backends => "backends",
            Self::Clients => "clients",
        }
    }

    /// What the steps before it have built is there.
    pub fn run(self) -> Result<()> {
        let python = python::environment()?;
        match self {
            Self::Code => {
                step("linters of the document", lint::lint_where_possible)?;
                // Before the service is compiled, which contains them.
                step("building the portal", portal::portal_where_possible)?;
                step("the site", docs::site)?;
                step("document and derived files", || regenerate::regenerate(true))?;
                step("the document since the last release", spec::since_release)?;
                step("lints", lints)?;
                step("the packages as strangers use them", packages::packages)?;
                step("building the tests", || {
                    run(cargo().args(["test", "--workspace", "--no-run", "--quiet"]))
                })
            }
            Self::Worker => step("the worker", || worker(&python)),
            Self::Crates => step("the crates", || crates(&python)),
            Self::Backends => {
                for backend in Backend::ALL {
                    let name = format!("the service on {}", backend.name());
                    step(&name, || on(backend, &name, &python))?;
                }
                Ok(())
            }
            Self::Clients => {
                step("the portal", portal::test_where_possible)?;
                step("the Python client", || python_client(&python))?;
                step("assistants", mcp::assistant)?;
                step("the commands of the pages", || docs::run(false))?;
                step("clients in other languages", || clients::clients(&[]))?;
                step("the live service against the document", || {
                    conformance::conformance(CONFORMANCE_SECONDS)
                })
            }
        }
    }
}

pub fn test() -> Result<()> {
    let start = Instant::now();
    step("formatting", || run(cargo().args(["fmt", "--all", "--check"])))?;
    step("invariants", tidy::tidy)?;
    // Here, for each lane would make it.
    python::environment()?;
    beside(&[&[Lane::Code], &[Lane::Worker]])?;
    // With three tracks on two cores the portal's tests took three times as long.
    beside(&[&[Lane::Crates], &[Lane::Backends, Lane::Clients]])?;
    println!("all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// How many of a failed lane's last lines are printed again at the end.
const N_LAST_LINES: usize = 60;

/// A lane that failed, with the last lines that it printed.
struct Failed(&'static str, VecDeque<String>);

/// Runs tracks of lanes at once, each lane in a process of its own, whose lines are printed behind
/// its name. Those that failed are told at the end, where the lines of others do not bury them.
fn beside(tracks: &[&[Lane]]) -> Result<()> {
    let program = env::current_exe().context("find this program")?;
    let run_lane = |lane: Lane| -> Result<Option<Failed>> {
        let (lines, writer) = io::pipe()?;
        let mut command = Command::new(&program);
        command.args(["test", "--lane", lane.name()]).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().context("start a lane")?;
        // With its ends of the pipe, which would keep it open.
        drop(command);
        let mut last = VecDeque::new();
        for line in BufReader::new(lines).split(b'\n') {
            let line = format!("{}: {}", lane.name(), String::from_utf8_lossy(&line?));
            println!("{line}");
            if last.len() == N_LAST_LINES {
                last.pop_front();
            }
            last.push_back(line);
        }
        Ok((!child.wait()?.success()).then(|| Failed(lane.name(), last)))
    };
    // What fails does not keep what comes after it on its track from being tried.
    let run_track = |track: &[Lane]| -> Result<Vec<Failed>> {
        let failed = track.iter().filter_map(|lane| run_lane(*lane).transpose());
        failed.collect()
    };
    thread::scope(|scope| {
        let run_track = &run_track;
        let running: Vec<_> =
            tracks.iter().map(|track| scope.spawn(move || run_track(track))).collect();
        let mut failed = Vec::new();
        for thread in running {
            failed.extend(thread.join().expect("a lane's reader does not panic")?);
        }
        for Failed(name, lines) in &failed {
            println!("== {name} failed; its last lines:");
            for line in lines {
                println!("{line}");
            }
        }
        let names: Vec<_> = failed.iter().map(|Failed(name, _)| *name).collect();
        ensure!(names.is_empty(), "failed: {}", names.join(", "));
        Ok(())
    })
}

fn lints() -> Result<()> {
    for what in [&["--workspace", "--all-targets"], &["--package=molbox", "--no-default-features"]]
    {
        run(cargo().arg("clippy").args(what).args(["--quiet", "--", "--deny", "warnings"]))?;
    }
    Ok(())
}

/// The crates; the service's tests start workers with this interpreter.
fn crates(python: &Path) -> Result<()> {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--"]).env("MOLBOX_TEST_PYTHON", python);
    // Those of the service wait for processes most of their time.
    let n_cores = thread::available_parallelism()?.get();
    tests.arg(format!("--test-threads={}", 2 * n_cores));
    for (names, why) in cannot_run(python)? {
        println!("skipped: {names}: {why}");
        tests.args(["--skip", names]);
    }
    run(&mut tests)
}

/// The worker: checked, and tested with this interpreter.
fn worker(python: &Path) -> Result<()> {
    for name in ["gmx", "gmx_d"].into_iter().filter(|name| !has_program(name)) {
        println!("skipped: the worker's tests of GROMACS: needs {name}: Debian's package gromacs");
    }
    for arguments in [
        &["-m", "ruff", "check", "--quiet", "."] as &[&str],
        &["-m", "ruff", "format", "--check", "--quiet", "."],
        &["-m", "mypy", "--no-error-summary", "molbox_worker"],
        &["-m", "pytest", "--quiet"],
    ] {
        run(Command::new(python).current_dir(root().join("worker")).args(arguments))?;
    }
    Ok(())
}

/// The Python client: checked, and tested against the service that the crates' tests have built,
/// whose workers run with this interpreter.
fn python_client(worker: &Path) -> Result<()> {
    let python = python::client()?;
    for arguments in [
        &["-m", "ruff", "check", "--quiet", "."] as &[&str],
        &["-m", "ruff", "format", "--check", "--quiet", "."],
        &["-m", "mypy", "--no-error-summary", "molbox_client", "tests", "generate.py"],
        &["-m", "pytest", "--quiet"],
    ] {
        let mut command = Command::new(&python);
        command.current_dir(root().join("python")).args(arguments);
        command.env("MOLBOXD", target().join("debug/molboxd")).env("MOLBOX_TEST_PYTHON", worker);
        run(&mut command)?;
    }
    Ok(())
}

/// The fixed part of the service's tests on a backend, if it can be started here.
fn on(backend: Backend, name: &str, python: &Path) -> Result<()> {
    if let Some(missing) = backend.missing() {
        println!("skipped: {name}: {missing}");
        return Ok(());
    }
    for (test, why) in backend.skipped() {
        println!("skipped on {}: {test}: {why}", backend.name());
    }
    run(Backends(vec![backend]).tests(python).args(backend.fixed_part()))
}

/// Tests of the service that not every machine can run, and what they need. All of the workspace
/// whose name contains one of these is left out with them: nothing else may be called so.
const NEEDS: [(&str, &str); 5] = [
    ("engines::", "needs gmx: Debian's package gromacs"),
    ("nginx::", "needs nginx and openssl: Debian's packages of these names"),
    ("mounted::", "no file system can be mounted here"),
    ("confinement::as_root::", "needs root, /usr/bin/python3 and Landlock of Linux 6.12"),
    ("confinement::a_worker_that_was_taken_over_gets_nowhere", "needs Landlock of Linux 6.12"),
];

/// The tests that this machine cannot run, each with the reason.
fn cannot_run(python: &Path) -> Result<Vec<(&'static str, &'static str)>> {
    let can_confine = can_confine(python)?;
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let can_be_another = can_confine && is_root && Path::new("/usr/bin/python3").exists();
    let is_met =
        [has_program("gmx"), has_program("nginx"), can_mount(), can_be_another, can_confine];
    let needs = NEEDS.into_iter().zip(is_met);
    Ok(needs.filter(|(_, is_met)| !is_met).map(|(need, _)| need).collect())
}

/// Whether a program is on the search path.
fn has_program(name: &str) -> bool {
    let search = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&search).any(|folder| folder.join(name).is_file())
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
    let (start, cpu) = (Instant::now(), cpu_of_children()?);
    println!("== {name}");
    let done = work().with_context(|| name.to_owned())?;
    let cpu = cpu_of_children()?.saturating_sub(cpu);
    let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu.as_secs_f64());
    println!("== {name}: {elapsed:.0} s, {cpu:.0} s of CPU");
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::NEEDS;
    use crate::release::{git, lines};
    use crate::shell::root;

    /// What `.ci/run` prints for a user that is not root, where there is nothing but these programs.
    fn ci(programs: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir_all(folder.path().join(".ci")).unwrap();
        fs::create_dir(&bin).unwrap();
        fs::copy(root().join(".ci/run"), folder.path().join(".ci/run")).unwrap();
        for name in ["dirname", "env"] {
            symlink(format!("/usr/bin/{name}"), bin.join(name)).unwrap();
        }
        let own =
            [("id", "echo 1000"), ("cc", ""), ("python3", ""), ("cargo", "echo \"tests: $*\"")];
        for (name, lines) in own.iter().chain(programs) {
            fs::write(bin.join(name), format!("#!/bin/sh\n{lines}\n")).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut run = Command::new("/bin/sh");
        run.arg(folder.path().join(".ci/run")).env_clear().env("PATH", &bin).env("HOME", &bin);
        String::from_utf8(run.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn ci_comes_to_the_tests_on_a_machine_where_it_is_not_root() {
        let tests = "tests: xtask test\n";
        assert_eq!(ci(&[("apt-get", "exit 100")]), tests);
        let apt = ("apt-get", "[ -n \"$IS_ROOT\" ] && echo \"$1\"");
        let said = ci(&[apt, ("sudo", "shift; IS_ROOT=yes exec \"$@\"")]);
        assert!(said.starts_with("update\ninstall\n") && said.ends_with(tests), "{said}");
    }

    #[test]
    fn only_tests_of_the_service_have_the_names_that_are_left_out() {
        let files = lines(git(&root()).args(["ls-files", "*.rs"])).unwrap();
        for (names, _) in NEEDS {
            let module = names.split("::").next().unwrap();
            let ends = [format!("/{module}.rs"), format!("/{module}/mod.rs")];
            let found: Vec<&String> =
                files.iter().filter(|file| ends.iter().any(|end| file.ends_with(end))).collect();
            assert_eq!(found, [&format!("crates/service/tests/service/{module}.rs")]);
        }
    }
}
