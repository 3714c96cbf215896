//! Python environments under `target/`, with the versions that requirements pin.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::shell::{root, run, target};

/// OpenMM has wheels for these.
const INTERPRETERS: [&str; 7] =
    ["python3", "python3.13", "python3.12", "python3.11", "python3.10", "python3.14", "python"];
const MIN_VERSION: (u32, u32) = (3, 10);
const REQUIREMENTS: [&str; 2] = ["requirements.txt", "requirements-test.txt"];

const UV: &str = "uv==0.13.9";

/// Makes the worker's environment, or brings it up to date; returns its interpreter.
pub fn environment() -> Result<PathBuf> {
    let worker = root().join("worker");
    let files = REQUIREMENTS.map(|file| worker.join(file));
    make("worker-env", &files, Some(&worker))
}

/// The same of the Python client; its package is taken from where it lies.
pub fn client() -> Result<PathBuf> {
    let folder = root().join("python");
    make("client-env", &[folder.join("requirements-test.txt")], Some(&folder))
}

/// The same for tools that tests use.
pub fn tools(name: &str, requirements: &Path) -> Result<PathBuf> {
    make(name, &[requirements.to_owned()], None)
}

/// An environment under `target/` with these requirements, and perhaps a package that is taken
/// from where it lies.
fn make(name: &str, requirements: &[PathBuf], package: Option<&Path>) -> Result<PathBuf> {
    let folder = target().join(name);
    let python = folder.join("bin/python");
    let wanted = wanted(requirements, package)?;
    let stamp = folder.join("requirements.stamp");
    let is_current = python.exists() && fs::read_to_string(&stamp).is_ok_and(|have| have == wanted);
    if !is_current {
        let base = interpreter()?;
        eprintln!("making a Python environment in {}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        match uv() {
            Ok(uv) => install_with_uv(&uv, &base, &folder, requirements, package.is_some())?,
            Err(error) => {
                eprintln!("without uv, which is faster: {error:#}");
                install_with_pip(&base, &folder, requirements)?;
            }
        }
        if let Some(package) = package {
            let site = Command::new(&python)
                .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
                .output()
                .context("ask Python for its packages' folder")?;
            let site = PathBuf::from(String::from_utf8(site.stdout)?.trim());
            fs::write(site.join("package.pth"), format!("{}\n", package.display()))?;
        }
        fs::write(&stamp, wanted)?;
    }
    Ok(python)
}

/// The program that makes environments a few times as fast as pip does: seconds rather than minutes
/// of a run of all tests.
pub fn uv() -> Result<PathBuf> {
    let folder = target().join(UV);
    let program = folder.join("bin/uv");
    if !program.exists() {
        make_empty(&interpreter()?, &folder)?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV]);
        run(&mut pip)?;
    }
    Ok(program)
}

fn make_empty(base: &str, folder: &Path) -> Result<()> {
    run(Command::new(base).args(["-m", "venv"]).arg(folder)).with_context(|| {
        format!("make a virtual environment with {base} (on Debian: apt-get install python3-venv)")
    })
}

fn install_with_pip(base: &str, folder: &Path, requirements: &[PathBuf]) -> Result<()> {
    make_empty(base, folder)?;
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    for file in requirements {
        install.arg("--requirement").arg(file);
    }
    run(&mut install)
}

fn install_with_uv(
    uv: &Path,
    base: &str,
    folder: &Path,
    requirements: &[PathBuf],
    is_sandboxed: bool,
) -> Result<()> {
    run(Command::new(uv).args(["venv", "--quiet", "--seed", "--python", base]).arg(folder))?;
    let mut install = Command::new(uv);
    install.args(["pip", "install", "--quiet", "--python"]).arg(folder.join("bin/python"));
    if is_sandboxed {
        // A worker cannot write beside its code: it would compile all of it at every start.
        install.arg("--compile-bytecode");
    }
    for file in requirements {
        install.arg("--requirement").arg(file);
    }
    run(&mut install)
}

fn wanted(requirements: &[PathBuf], package: Option<&Path>) -> Result<String> {
    let mut text = package.map(|package| format!("{}\n", package.display())).unwrap_or_default();
    for file in requirements {
        text += &fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    }
    Ok(text)
}

/// The first Python on the path that is new enough.
fn interpreter() -> Result<String> {
    let found = INTERPRETERS.iter().find(|name| asked(Path::new(name)).is_some());
    found.map(|name| (*name).to_owned()).with_context(|| {
        format!("molbox needs Python 3.10 or newer; none of {} is", INTERPRETERS.join(", "))
    })
}

/// One of each version of Python on this machine that is new enough, by the path of its program,
/// oldest first: on the search path, and where pyenv has them.
pub fn all() -> Result<Vec<PathBuf>> {
    let pyenv = env::home_dir().map(|home| home.join(".pyenv/versions"));
    let mut programs: Vec<PathBuf> = INTERPRETERS.map(PathBuf::from).into();
    for entry in pyenv.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten() {
        programs.push(entry?.path().join("bin/python3"));
    }
    let found = programs.iter().filter_map(|program| asked(program));
    Ok(found.collect::<BTreeMap<_, _>>().into_values().collect())
}

/// Version and path of an interpreter, if it is new enough.
fn asked(program: &Path) -> Option<((u32, u32), PathBuf)> {
    let code = "import sys; print(*sys.version_info[:2], sys.executable)";
    let output = Command::new(program).args(["-c", code]).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, rest) = text.trim().split_once(' ')?;
    let (minor, path) = rest.split_once(' ')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    (version >= MIN_VERSION).then(|| (version, PathBuf::from(path)))
}
