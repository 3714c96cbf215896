//! Whether the packages work where there is nothing but Python: installed into an empty environment,
//! a service brought up, a simulation run, the service ended.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::build::{
    Build, NOTICES, PROGRAMS, Tools, check_pure_sizes, sums_in, version, wheels, wheels_in,
};
use crate::lint::quiet;
use crate::python;
use crate::shell::{output, root};

/// Residues of the villin headpiece that are simulated.
const RESIDUES: std::ops::RangeInclusive<u32> = 42..=44;
/// How long `up` may take in programs for use, with a new folder and with one that is there.
const UP: [Duration; 2] = [Duration::from_millis(1000), Duration::from_millis(500)];

/// The packages of `cargo xtask package`, on the oldest and the newest Python of this machine.
pub fn check() -> Result<()> {
    let dist = Build::Release.dist();
    ensure!(sums_in(&dist).exists(), "there are no packages; run `cargo xtask package`");
    let tools = Tools::install()?;
    quiet(tools.command("twine").args(["check", "--strict"]).args(wheels_in(&dist)?))?;
    audit(&tools, &dist)?;
    debian(&dist)?;
    for (python, installer) in interpreters()? {
        Place::new(Build::Release, python, installer)?.try_out(Build::Release)?;
    }
    Ok(())
}

/// The wheels alone, of the programs as the tests have them, on the oldest and the newest Python.
pub fn try_out() -> Result<()> {
    let tools = Tools::install()?;
    lint(&tools)?;
    timed("build the wheels", || wheels(&tools, Build::Debug, None))?;
    let dist = Build::Debug.dist();
    quiet(tools.command("twine").args(["check", "--strict"]).args(wheels_in(&dist)?))?;
    audit(&tools, &dist)?;
    for (python, installer) in interpreters()? {
        Place::new(Build::Debug, python, installer)?.try_out(Build::Debug)?;
    }
    check_pure_sizes(&dist)
}

/// Other people's linters of what packages are made by, none of which needs a network.
fn lint(tools: &Tools) -> Result<()> {
    quiet(tools.command("hadolint").arg("packaging/Containerfile"))?;
    let workflow = ".github/workflows/release.yml";
    quiet(tools.command("zizmor").args(["--offline", "--quiet", workflow]))?;
    let read = "import rattler_build, sys; rattler_build.MultiOutputRecipe.from_file(sys.argv[1])";
    quiet(tools.command("python").args(["-c", read, "packaging/conda/recipe.yaml"]))
}

/// Whether each tag is true: a wheel promises by it on which systems it runs; and whether the licences
/// of what is in its program are with it.
fn audit(tools: &Tools, dist: &Path) -> Result<()> {
    let wheels = wheels_in(dist)?;
    for wheel in wheels.iter().filter(|wheel| !wheel.to_string_lossy().ends_with("-any.whl")) {
        let said = String::from_utf8(output(tools.command("auditwheel").arg("show").arg(wheel))?)?;
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, rest) =
            words.split_once("the following platform tag: \"").context("auditwheel show")?;
        let tag = rest.split('"').next().unwrap_or_default();
        let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(name.contains(tag), "{name} asks for what {tag} has");
        let files = output(tools.command("python").args(["-m", "zipfile", "--list"]).arg(wheel))?;
        let has_notices = String::from_utf8(files)?.contains(&format!("/licenses/{NOTICES} "));
        ensure!(has_notices, "{name} lacks the licences of what is in its program");
        println!("   {name}: {tag}");
    }
    Ok(())
}

/// Whether the Debian packages have their programs, which can be started, and pages about them.
fn debian(dist: &Path) -> Result<()> {
    for (_, name) in PROGRAMS {
        let package = fs::read_dir(dist)?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| {
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
            })
            .with_context(|| format!("the Debian package {name}"))?;
        let contents =
            String::from_utf8(output(Command::new("dpkg-deb").arg("--contents").arg(package))?)?;
        let program = format!("/usr/bin/{name}");
        let is_there = contents
            .lines()
            .any(|line| line.starts_with("-rwxr-xr-x root/root") && line.ends_with(&program));
        ensure!(is_there, "{program} is not in the package, or cannot be started");
        let page = format!("/usr/share/man/man1/{name}.1.gz");
        let is_there = contents.lines().any(|line| line.ends_with(&page));
        ensure!(is_there, "{page} is not in the package");
    }
    Ok(())
}

/// A simulation by the Python client, with the profile that `up` has written.
const PROGRAM: &str = "
import molbox_client as molbox

with molbox.Client() as client:
    job = client.run('peptide.pdb', time='0.4 ps', equilibration=[], minimization_steps=10)
    assert job.status == 'succeeded', job.status
    assert 'production' in job.log(), job.log()
    assert {one.status for one in client.jobs()} == {'succeeded'}
    assert job.download('job.zip').stat().st_size > 10_000
";

/// What installs packages.
enum Installer {
    Pip,
    Uv(PathBuf),
}

/// The oldest Python of this machine that the worker runs on, with pip, and the newest, with uv.
fn interpreters() -> Result<Vec<(PathBuf, Installer)>> {
    let mut found = python::all()?;
    let newest = found.pop().context("there is no Python 3.10 or newer")?;
    let uv = Installer::Uv(python::uv()?);
    Ok(match found.into_iter().next() {
        Some(oldest) => vec![(oldest, Installer::Pip), (newest, uv)],
        None => vec![(newest, Installer::Pip)],
    })
}

/// An empty environment, and a home folder that is as empty.
struct Place {
    dist: PathBuf,
    python: PathBuf,
    installer: Installer,
    folder: tempfile::TempDir,
    /// Where `pip` and `uv` keep what they have fetched.
    caches: PathBuf,
}

/// What of the environment says how the registry is reached.
const REGISTRY: [&str; 8] = [
    "PIP_CERT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "SSL_CERT_FILE",
    "UV_DEFAULT_INDEX",
    "HTTPS_PROXY",
    "https_proxy",
];

impl Place {
    /// With caches that are as empty, for programs for use: what their installation takes is
    /// measured. For a run of the tests, with those of whoever runs it.
    fn new(build: Build, python: PathBuf, installer: Installer) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let users = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let users = users.or_else(|| Some(env::home_dir()?.join(".cache")));
        let caches = match (build, users) {
            (Build::Debug, Some(users)) => users,
            _ => folder.path().join("caches"),
        };
        Ok(Self { dist: build.dist(), python, installer, folder, caches })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program of the environment or of the system, which finds nothing of whoever runs this.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:/usr/bin:/bin", self.path("env/bin").display());
        command.current_dir(self.folder.path()).env_clear().env("PATH", path);
        command.env("HOME", self.path("home")).env("LANG", "C.UTF-8");
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        command.env("PIP_CACHE_DIR", self.caches.join("pip"));
        command.env("UV_CACHE_DIR", self.caches.join("uv"));
        for name in REGISTRY {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    fn program(&self, name: &str) -> Command {
        self.command(&self.path("env/bin").join(name))
    }

    fn install(&self) -> Result<()> {
        let environment = self.path("env");
        let package = format!("molboxd=={}", version()?);
        match &self.installer {
            Installer::Pip => {
                timed("make an environment", || {
                    quiet(self.command(&self.python).args(["-m", "venv"]).arg(&environment))
                })?;
                timed("install with pip", || {
                    let mut pip = self.program("python");
                    pip.args(["-m", "pip", "install", "--quiet", "--find-links"]).arg(&self.dist);
                    quiet(pip.arg(package))
                })
            }
            Installer::Uv(uv) => {
                timed("make an environment", || {
                    let mut venv = self.command(uv);
                    quiet(venv.args(["venv", "--python"]).arg(&self.python).arg(&environment))
                })?;
                timed("install with uv", || {
                    let mut install = self.command(uv);
                    install
                        .args(["pip", "install", "--python"])
                        .arg(environment.join("bin/python"));
                    quiet(install.arg("--find-links").arg(&self.dist).arg(package))
                })
            }
        }
    }

    /// Installs, and goes the way of somebody who has never seen it.
    fn try_out(&self, build: Build) -> Result<()> {
        println!("-- {}", self.python.display());
        fs::create_dir(self.path("home"))?;
        self.install()?;
        let up = ["up", "--detach", "--no-browser"];
        let _ended = Ended(self);
        let new = timed_as("up, new", || quiet(self.program("molboxd").args(up)))?;
        // Nothing is in the place of what it makes itself.
        let again = timed_as("up, which runs", || quiet(self.program("molboxd").args(up)))?;
        quiet(self.program("molboxd").arg("status"))?;
        timed("down", || quiet(self.program("molboxd").arg("down")))?;
        let begun = timed_as("up, again", || quiet(self.program("molboxd").args(up)))?;
        if build == Build::Release {
            let limits = [(new, UP[0]), (again, UP[1]), (begun, UP[1])];
            for (took, _) in limits.iter().filter(|(took, limit)| took > limit) {
                println!("   {:.2} s is above the aim", took.as_secs_f64());
            }
        }
        fs::write(self.path("peptide.pdb"), peptide()?)?;
        timed("molbox run --preset quick", || {
            let mut run = self.program("molbox");
            run.args(["run", "peptide.pdb", "--preset", "quick", "--time", "2ps"]);
            if build == Build::Debug {
                // The preset's own 30 ps take half a minute.
                run.args(["--equilibration", r#"[{"type": "NPT", "time": 0.001}]"#]);
            }
            quiet(run.args(["--output", "results"]))
        })?;
        timed("Client.run", || quiet(self.program("python").args(["-c", PROGRAM])))?;
        let results = self.path("results");
        let is_there = fs::read_dir(&results).is_ok_and(|mut entries| entries.next().is_some());
        ensure!(is_there, "the run has left nothing in {}", results.display());
        timed("down --purge", || {
            quiet(self.program("molboxd").args(["down", "--purge", "--yes"]))
        })?;
        ensure!(
            !self.path("home/.local/share/molbox").exists(),
            "the data are there after `down --purge`"
        );
        Ok(())
    }
}

/// Ends the service when something went wrong before.
struct Ended<'a>(&'a Place);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // It runs no more when all went well.
        let _ = self.0.program("molboxd").args(["down", "--purge", "--yes"]).output();
    }
}

/// Some residues of the villin headpiece: few atoms need little water.
fn peptide() -> Result<String> {
    let whole = fs::read_to_string(root().join("examples/1vii.pdb"))?;
    let is_kept = |line: &&str| {
        let residue = line.get(22..26).and_then(|number| number.trim().parse().ok());
        line.starts_with("ATOM") && residue.is_some_and(|number| RESIDUES.contains(&number))
    };
    let atoms: Vec<&str> = whole.lines().filter(is_kept).collect();
    ensure!(!atoms.is_empty(), "examples/1vii.pdb has no residues {RESIDUES:?}");
    Ok(format!("{}\nEND\n", atoms.join("\n")))
}

fn timed(what: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    timed_as(what, work).map(drop)
}

fn timed_as(what: &str, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work().with_context(|| what.to_owned())?;
    println!("   {:>8.2} s  {what}", start.elapsed().as_secs_f64());
    Ok(start.elapsed())
}
