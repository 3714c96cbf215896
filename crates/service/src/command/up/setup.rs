//! `molboxd setup`: the worker's environment, where the service came without, as from a Debian package
//! or an archive.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::command::say::say;

use super::python;

#[derive(Args)]
pub(crate) struct SetupOptions {
    /// Folder to make the environment in, as `env`.
    #[arg(default_value = "/opt/molbox")]
    folder: PathBuf,
    /// Also what OpenMM needs for NVIDIA GPUs.
    #[arg(long)]
    cuda: bool,
    /// Folder with packages to take instead of those of PyPI, for a machine without a network.
    #[arg(long, value_name = "FOLDER")]
    wheels: Option<PathBuf>,
}

/// Makes the environment, or brings the one that is there to this version.
pub(crate) fn setup(options: &SetupOptions) -> Result<u8> {
    // The service runs as another user than the one who sets it up.
    umask(Mode::WGRP | Mode::WOTH);
    let folder = std::path::absolute(&options.folder)?.join("env");
    let python = folder.join("bin/python");
    if !python.exists() {
        let base = python::base()?;
        say(&format!("making {} with {}", folder.display(), base.display()));
        run(Command::new(&base).args(["-m", "venv"]).arg(&folder)).context(
            "make an environment (on Debian and Ubuntu `apt install python3-venv` is needed)",
        )?;
    }
    let extra = if options.cuda { "[cuda]" } else { "" };
    let worker = format!("molbox-worker{extra}=={}", python::VERSION);
    say(&format!("installing {worker}: about 170 MB to load"));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    if let Some(wheels) = &options.wheels {
        pip.args(["--no-index", "--find-links"]).arg(std::path::absolute(wheels)?);
    }
    run(pip.arg(&worker)).with_context(|| without_packages(options.wheels.as_deref(), &worker))?;
    python::check(&python)?;
    say(&format!("workers can run with {}: that is the setting worker.python", python.display()));
    Ok(0)
}

/// What helps where a package was not to be had.
fn without_packages(wheels: Option<&Path>, worker: &str) -> String {
    let (from, remedy) = match wheels {
        Some(folder) => (format!("from {}", folder.display()), "fill the folder"),
        None => ("from PyPI".to_owned(), "without a network give --wheels FOLDER, filled"),
    };
    format!(
        "install {worker} {from}: {remedy} on a machine that has a network and the same Python by \
         `pip download --dest FOLDER '{worker}'`"
    )
}

/// Runs a command, which reports by itself what is wrong.
fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).to_owned();
    // Elsewhere: modules of the folder where somebody happens to be would be taken for Python's.
    let status = command.current_dir("/").status();
    let status = status.with_context(|| format!("start {}", program.display()))?;
    if !status.success() {
        bail!("{} failed ({status})", program.display());
    }
    Ok(())
}
