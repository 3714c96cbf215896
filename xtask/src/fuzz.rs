//! Random bytes for everything that parses strangers' bytes; see `fuzz/README.md`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{cargo, root, run};

/// Every target in turn.
pub fn fuzz(seconds: u64) -> Result<()> {
    build()?;
    for target in targets()? {
        run(&mut command(&target, seconds)?)?;
        println!("{target}: nothing found in {seconds} s");
    }
    Ok(())
}

/// The names of all targets.
pub fn targets() -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        let name =
            path.file_stem().and_then(|name| name.to_str()).context("a target has a name")?;
        targets.push(name.to_owned());
    }
    targets.sort();
    Ok(targets)
}

/// Builds all targets.
pub fn build() -> Result<()> {
    let mut build = cargo();
    build
        .args(["fuzz", "build", "--sanitizer", "none", "--target-dir"])
        .arg(folder().join("target"));
    // Its instrumentation is not in the stable compiler's options.
    build.env("RUSTC_BOOTSTRAP", "1");
    run(&mut build).context("cargo-fuzz is installed by `cargo install cargo-fuzz`")
}

/// Runs a target as built. It starts from what earlier runs found, which lies in `fuzz/corpus`, and
/// from what the repository has.
pub fn command(target: &str, seconds: u64) -> Result<Command> {
    let corpus = folder().join("corpus").join(target);
    let artifacts = artifacts(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut command =
        Command::new(folder().join("target").join(host()?).join("release").join(target));
    command.arg(&corpus).arg(folder().join("seeds").join(target));
    if target == "request" {
        command.arg(root().join("openapi/examples"));
    }
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // A minute by the clock: the machine may have other things to do.
    command.args([
        &format!("-max_total_time={seconds}"),
        "-timeout=60",
        "-rss_limit_mb=2048",
        "-verbosity=0",
    ]);
    Ok(command)
}

/// Where the inputs lie that a target crashed with.
pub fn artifacts(target: &str) -> PathBuf {
    folder().join("artifacts").join(target)
}

fn folder() -> PathBuf {
    root().join("fuzz")
}

/// What cargo-fuzz builds for.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names its host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_built_and_starts_from_small_seeds() {
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() > 12, "{targets:?}");
        for target in targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            let seeds: Vec<_> =
                fs::read_dir(folder().join("seeds").join(&target)).unwrap().flatten().collect();
            assert!(!seeds.is_empty(), "{target}");
            let bytes: u64 = seeds.iter().map(|seed| seed.metadata().unwrap().len()).sum();
            assert!(bytes < 10_000, "{target}: {bytes} bytes");
        }
    }
}
