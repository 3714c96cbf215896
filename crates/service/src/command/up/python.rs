//! The Python that workers are started with: found beside this program, where `pip`, `uv`, `pipx`
//! and conda put both.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use rustix::process::getuid;
use serde::Deserialize;

use crate::shown::quoted;

/// The worker must be of this version: what it is handed is no interface of others.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The oldest Python that the worker runs on.
const OLDEST: [u32; 2] = [3, 10];
/// The oldest C library that OpenMM's wheels run on.
const GLIBC: [u32; 2] = [2, 34];
/// What the worker's package asks for.
const OPENMM: &str = "openmm>=8.6";

/// Says of an interpreter what it is and has. OpenMM is looked for and not imported: that takes
/// half a second, and what is broken in it the service finds when it starts.
const QUESTION: &str = r#"
import importlib.util, json, os, platform, sys, sysconfig
found = {"version": list(sys.version_info[:2]), "worker": None, "libc": platform.libc_ver()[1]}
found["has_openmm"] = importlib.util.find_spec("openmm") is not None
managed = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
found["has_pip"] = importlib.util.find_spec("pip") is not None
found["is_managed"] = sys.prefix == sys.base_prefix and os.path.exists(managed)
try:
    import molbox_worker
    found["worker"] = molbox_worker.__version__
except ImportError:
    pass
print(json.dumps(found))
"#;

/// What an interpreter says of itself.
#[derive(Debug, Deserialize)]
struct Found {
    version: Vec<u32>,
    worker: Option<String>,
    libc: String,
    has_openmm: bool,
    has_pip: bool,
    is_managed: bool,
}

impl Found {
    /// How much of what is needed it has; more is nearer to it.
    fn rank(&self) -> usize {
        let has = [
            self.version.as_slice() >= OLDEST.as_slice(),
            self.worker.is_some(),
            self.worker.as_deref() == Some(VERSION),
            self.has_openmm,
        ];
        has.iter().take_while(|has| **has).count()
    }

    fn is_good(&self) -> bool {
        self.rank() == 4
    }

    /// What it lacks, and the line that helps.
    fn lack(&self, python: &Path) -> anyhow::Error {
        let name = python.display();
        let word = quoted(&python.to_string_lossy()).into_owned();
        let pip = |package: &str| {
            if self.is_managed {
                return format!(
                    "its packages are the system's, so make an environment of its own: `{word} -m \
                     venv ~/molbox && ~/molbox/bin/pip install molboxd=={VERSION} && \
                     ~/molbox/bin/molboxd up`"
                );
            }
            // Environments that uv makes have none.
            if !self.has_pip {
                return format!("install it: `uv pip install --python {word} '{package}'`");
            }
            format!("install it: `{word} -m pip install '{package}'`")
        };
        let worker = format!("molbox-worker=={VERSION}");
        let version: Vec<String> = self.version.iter().map(u32::to_string).collect();
        match (self.rank(), &self.worker) {
            (0, _) => anyhow!(
                "{name} is Python {}, and the worker needs {}.{} or newer: install a newer one",
                version.join("."),
                OLDEST[0],
                OLDEST[1]
            ),
            (1, _) => anyhow!("{name} has no molbox-worker: {}", pip(&worker)),
            (2, found) => anyhow!(
                "{name} has molbox-worker {}, and this is molboxd {VERSION}: {}",
                found.as_deref().unwrap_or("?"),
                pip(&worker)
            ),
            _ if self.has_old_libc() => anyhow!(
                "{name} has no OpenMM, whose packages on PyPI need glibc {}.{}, and this machine has \
                 {}: install molbox with conda, or run its container with Apptainer",
                GLIBC[0],
                GLIBC[1],
                self.libc
            ),
            _ => anyhow!("{name} has no OpenMM: {}", pip(OPENMM)),
        }
    }

    /// None is known of other C libraries, such as musl.
    fn has_old_libc(&self) -> bool {
        let numbers: Vec<u32> = self.libc.split('.').map_while(|part| part.parse().ok()).collect();
        !numbers.is_empty() && numbers.as_slice() < GLIBC.as_slice()
    }
}

/// Finds the worker's interpreter: the one that is set; beside this program, by `molbox-worker` or by
/// its name; the one of before; the one of the search path.
pub(super) fn find(set: &Path, before: Option<&Path>) -> Result<PathBuf> {
    if set != Path::new("python3") {
        let python = located(set).with_context(|| {
            format!("worker.python is {}, and there is no such program", set.display())
        })?;
        let found = ask(&python)?;
        return if found.is_good() { Ok(python) } else { Err(found.lack(&python)) };
    }
    let program = env::current_exe().context("find this program")?;
    let beside = program.with_file_name("python3");
    let candidates = [
        of_worker(&program.with_file_name("molbox-worker")),
        Some(beside).filter(|python| python.exists()),
        before.map(Path::to_owned).filter(|python| python.exists()),
        located(Path::new("python3")),
    ];
    let mut nearest: Option<(usize, anyhow::Error)> = None;
    for python in candidates.into_iter().flatten() {
        let (rank, lack) = match ask(&python) {
            Ok(found) if found.is_good() => return Ok(python),
            Ok(found) => (found.rank(), found.lack(&python)),
            Err(error) => (0, error),
        };
        if nearest.as_ref().is_none_or(|(best, _)| rank > *best) {
            nearest = Some((rank, lack));
        }
    }
    Err(nearest.map_or_else(|| anyhow!(no_python()), |(_, lack)| lack))
}

/// The interpreter of the search path, if an environment for the worker can be made with it.
pub(super) fn base() -> Result<PathBuf> {
    // Root's own, as pyenv and conda put it first, the user of the service could not start.
    if getuid().is_root()
        && let Some(python) = search("python3")
            .find(|python| is_for_all(python) && ask(python).is_ok_and(|found| found.rank() > 0))
    {
        return Ok(python);
    }
    let python = located(Path::new("python3")).with_context(no_python)?;
    let found = ask(&python)?;
    // The version alone counts; what else there is goes into the environment.
    if found.rank() == 0 { Err(found.lack(&python)) } else { Ok(python) }
}

/// Fails unless workers can run with an interpreter.
pub(super) fn check(python: &Path) -> Result<()> {
    let found = ask(python)?;
    if found.is_good() { Ok(()) } else { Err(found.lack(python)) }
}

fn no_python() -> String {
    format!("there is no python3: install Python {}.{} or newer", OLDEST[0], OLDEST[1])
}

/// The interpreter of the worker's script, which it names itself.
fn of_worker(script: &Path) -> Option<PathBuf> {
    let output = Command::new(script)
        .arg("--print-python")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let python = PathBuf::from(text.trim());
    (output.status.success() && python.is_absolute()).then_some(python)
}

/// The whole path of a program: of this folder when it is a path, of the search path when it is a
/// name.
fn located(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|path| path.is_file());
    }
    search(program).next()
}

/// The programs of a name in the search path.
fn search(name: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<PathBuf> =
        env::var_os("PATH").map_or_else(Vec::new, |path| env::split_paths(&path).collect());
    folders.into_iter().map(move |folder| folder.join(&name)).filter(|path| path.is_file())
}

/// Whether every user can start a program: all folders on the way to it let them pass.
fn is_for_all(program: &Path) -> bool {
    let lets_pass = |path: &Path| path.metadata().is_ok_and(|found| found.mode() & 0o001 != 0);
    let real = program.canonicalize();
    real.is_ok_and(|real| program.ancestors().chain(real.ancestors()).all(lets_pass))
}

fn ask(python: &Path) -> Result<Found> {
    // Elsewhere: modules of the folder where somebody happens to be would be taken for Python's.
    let output = Command::new(python)
        .args(["-c", QUESTION])
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", python.display()))?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default().to_owned();
        format!("{} does not work as Python 3 does ({}): {last}", python.display(), output.status)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_openmm_is_named_as_the_worker_asks_for() {
        let manifest = include_str!("../../../../../worker/pyproject.toml");
        assert!(manifest.contains(&format!("\"{OPENMM}\"")));
        assert!(manifest.contains(&format!("requires-python = \">={}.{}\"", OLDEST[0], OLDEST[1])));
    }
}
