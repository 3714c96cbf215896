//! Every test of every crate and of the worker.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Result;

use crate::{cargo, clients, lint, python, regenerate, root, run, soak, spec, tidy};

/// How long random requests go on; `cargo xtask soak` takes longer.
const CONFORMANCE_SECONDS: u64 = 80;

pub fn test() -> Result<()> {
    let start = Instant::now();
    step("document and derived files", || regenerate::regenerate(true))?;
    step("the document since the last release", spec::since_release)?;
    step("linters of the document", lint::lint_where_possible)?;
    step("invariants", tidy::tidy)?;
    step("formatting", || run(cargo().args(["fmt", "--all", "--check"])))?;
    step("lints", || {
        run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]))?;
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
    let python = python::environment()?;
    step("the worker", || {
        let worker = |arguments: &[&str]| run(Command::new(&python).current_dir(root().join("worker")).args(arguments));
        worker(&["-m", "ruff", "check", "--quiet", "."])?;
        worker(&["-m", "ruff", "format", "--check", "--quiet", "."])?;
        worker(&["-m", "mypy", "--no-error-summary", "molbox_worker"])?;
        worker(&["-m", "pytest", "--quiet"])
    })?;
    // The service's tests start workers with this interpreter.
    step("the crates", || {
        let mut tests = cargo();
        tests.args(["test", "--workspace"]).env("MOLBOX_TEST_PYTHON", &python);
        if !can_mount() {
            println!("skipped: the service on small, full and read-only disks: no file system can be mounted here");
            tests.args(["--", "--skip", "disk::"]);
        }
        run(&mut tests)
    })?;
    step("clients in other languages", || clients::clients(&[]))?;
    step("the live service against the document", || soak::conformance(CONFORMANCE_SECONDS))?;
    println!("all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Whether file systems in memory can be mounted in a namespace, as the tests of disks do. Many containers
/// allow that to nobody.
fn can_mount() -> bool {
    let mount = ["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"];
    [&["--user", "--map-root-user"][..], &[]].iter().any(|user| {
        let status = Command::new("unshare").args(*user).args(mount).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    println!("== {name}");
    work()?;
    println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
