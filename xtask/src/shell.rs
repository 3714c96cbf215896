//! Where the repository is, and how commands are run in it.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

/// Cargo's folder for what is built.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Builds a program of the workspace; where it is then.
pub fn program(name: &str) -> Result<PathBuf> {
    build(["--bin", name])?;
    Ok(target().join("debug").join(name))
}

/// The same of an example.
pub fn example(name: &str) -> Result<PathBuf> {
    build(["--example", name])?;
    Ok(target().join("debug/examples").join(name))
}

fn build(what: [&str; 2]) -> Result<()> {
    // With the features of the whole workspace, as for its tests: those of one package alone would have
    // most of what it needs built once more.
    run(cargo().args(["build", "--quiet", "--workspace"]).args(what))
}

/// Runs a command to its end; an error when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// What a command prints; an error, with what it said, when it fails.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| shown(command))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        shown(command),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// CPU time of all children that have ended.
pub fn cpu_of_children() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may hold anything.
    let (_, fields) = text.rsplit_once(')').context("/proc/self/stat has a name")?;
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(13).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_secs_f64(
        ticks.iter().sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// Prints to whoever still reads: `| head` is no error.
pub fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("print"),
    }
}

pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
