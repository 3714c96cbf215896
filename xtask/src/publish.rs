//! `cargo xtask release publish`: a release, step by step, to where people get it from. Each step asks
//! first whether it is done, so that the command can be given again after it was cut off.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::package::{self, Build, Tools};
use crate::packages::PUBLISHED;
use crate::portal;
use crate::release::{check, git, lines};
use crate::shell::{run, shown, target};
use crate::spec::numbers;
use crate::{docs, thin};

/// What a release consists of, in the order in which people need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// The container, to the registry and name in `MOLBOX_IMAGE`.
    Image,
    /// The wheels of target/dist, to PyPI.
    Wheels,
    /// The crates, each after those that it needs, to crates.io.
    Crates,
    /// The package of TypeScript, to npm.
    Npm,
    /// The pages, as folders of the branch `gh-pages`.
    Site,
}

const BRANCH: &str = "gh-pages";
/// The versions that the site has, newest first.
const VERSIONS: &str = "versions.json";

/// Takes these steps, or all; dry, only reports which would be.
pub fn publish(root: &Path, steps: &[Step], is_dry: bool) -> Result<()> {
    let version = package::version()?;
    if !is_dry {
        check(root, &format!("v{version}"))?;
    }
    let all = Step::value_variants();
    for step in if steps.is_empty() { all } else { steps } {
        match step {
            Step::Image => image(root, &version, is_dry)?,
            Step::Wheels => wheels(&version, is_dry)?,
            Step::Crates => crates(root, &version, is_dry)?,
            Step::Npm => npm(&version, is_dry)?,
            Step::Site => site(root, &version, is_dry)?,
        }
    }
    Ok(())
}

/// Whether something is to be done now, which is reported if it is not.
fn is_due(what: &str, version: &str, is_there: bool, is_dry: bool) -> bool {
    match (is_there, is_dry) {
        (true, _) => println!("{what} {version}: there already"),
        (false, true) => println!("{what} {version}: would be published"),
        (false, false) => println!("{what} {version}"),
    }
    !is_there && !is_dry
}

/// Whether a command succeeds; one that fails otherwise than by saying that there is no such thing is
/// an error.
fn is_there(command: &mut Command, missing: &[&str]) -> Result<bool> {
    let output = command.output().with_context(|| format!("start {}", shown(command)))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let is_missing = missing.iter().any(|words| said.contains(words));
    ensure!(output.status.success() || is_missing, "{} failed: {said}", shown(command));
    Ok(output.status.success())
}

fn crates(root: &Path, version: &str, is_dry: bool) -> Result<()> {
    // Elsewhere: in the workspace cargo would show what lies here.
    let place = tempfile::tempdir()?;
    for name in PUBLISHED {
        let mut info = Command::new("cargo");
        info.current_dir(place.path()).args(["info", "--quiet", "--registry", "crates-io"]);
        let is_there = is_there(info.arg(format!("{name}@{version}")), &["could not find"])?;
        if is_due(name, version, is_there, is_dry) {
            let mut cargo = Command::new("cargo");
            run(cargo.current_dir(root).args(["publish", "--locked", "--package", name]))?;
        }
    }
    Ok(())
}

/// Uploads what of it is not there; by hand, for the workflow of a release needs no token.
fn wheels(version: &str, is_dry: bool) -> Result<()> {
    let tools = Tools::install()?;
    let mut due = false;
    for name in package::WHEELS {
        let mut download = tools.command("python");
        download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]);
        let place = tempfile::tempdir()?;
        download.arg("--dest").arg(place.path()).arg(format!("{name}=={version}"));
        let is_there = is_there(&mut download, &["No matching distribution"])?;
        due |= is_due(name, version, is_there, is_dry);
    }
    if due {
        let mut files = package::wheels_in(&Build::Release.dist())?;
        files.push(Build::Release.dist().join(format!("molbox_client-{version}.tar.gz")));
        let mut twine = tools.command("twine");
        run(twine.args(["upload", "--skip-existing"]).args(files))?;
    }
    Ok(())
}

fn npm(version: &str, is_dry: bool) -> Result<()> {
    let mut view = Command::new("npm");
    view.args(["view", &format!("molbox@{version}"), "version"]).current_dir("/");
    let printed = lines(&mut view);
    let is_there = match &printed {
        Ok(lines) => lines.iter().any(|line| line.trim() == version),
        Err(error) if error.to_string().contains("E404") => false,
        Err(error) => bail!("npm does not say whether it has molbox: {error:#}"),
    };
    if is_due("molbox for npm", version, is_there, is_dry) {
        thin::typescript()?;
        let package = target().join(thin::TYPESCRIPT);
        let mut npm = Command::new("npm");
        npm.args(["publish", "--ignore-scripts", "--access", "public"]);
        if env::var_os("GITHUB_ACTIONS").is_some() {
            let [server, repository] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY"]
                .map(|name| env::var(name).with_context(|| format!("{name} is not set")));
            let manifest = package.join("package.json");
            let text = fs::read_to_string(&manifest)?;
            fs::write(&manifest, with_repository(&text, &server?, &repository?)?)?;
            npm.arg("--provenance");
        }
        run(npm.current_dir(package))?;
    }
    Ok(())
}

/// A manifest of npm that says where its sources are, which the registry compares with where the
/// workflow has run. What lies here says nothing: nobody knows who will publish it, and where.
fn with_repository(manifest: &str, server: &str, repository: &str) -> Result<String> {
    let mut manifest: Value = serde_json::from_str(manifest).context("read package.json")?;
    let url = format!("git+{server}/{repository}.git");
    manifest["repository"] = json!({ "type": "git", "url": url, "directory": "typescript" });
    Ok(serde_json::to_string_pretty(&manifest)? + "\n")
}

fn image(root: &Path, version: &str, is_dry: bool) -> Result<()> {
    let Some(name) = env::var("MOLBOX_IMAGE").ok().filter(|name| !name.is_empty()) else {
        ensure!(is_dry, "MOLBOX_IMAGE names no image, such as ghcr.io/OWNER/molboxd");
        println!("image {version}: MOLBOX_IMAGE names none");
        return Ok(());
    };
    let engines = ["podman", "docker"];
    let starts = |engine: &&str| Command::new(engine).arg("--version").output().is_ok();
    let engine = engines.into_iter().find(starts).context("neither podman nor docker is here")?;
    let tagged = format!("{name}:{version}");
    let mut inspect = Command::new(engine);
    inspect.args(["manifest", "inspect", &tagged]);
    let missing = ["manifest unknown", "no such manifest", "not found"];
    if is_due(&name, version, is_there(&mut inspect, &missing)?, is_dry) {
        let newest = format!("{name}:latest");
        let mut build = Command::new(engine);
        build.current_dir(root).args(["build", "--file", "packaging/Containerfile"]);
        if engine == "podman" {
            // Its own format has no health check.
            build.args(["--format", "docker"]);
        }
        run(build.args(["--tag", &tagged, "--tag", &newest, "."]))?;
        for tag in [tagged, newest] {
            run(Command::new(engine).args(["push", &tag]))?;
        }
    }
    Ok(())
}

fn site(root: &Path, version: &str, is_dry: bool) -> Result<()> {
    let remote = lines(git(root).args(["remote", "get-url", "origin"]));
    let remote = match remote {
        Ok(remote) => remote.concat(),
        Err(_) if is_dry => {
            println!("site {version}: there is no remote `origin`");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if !is_dry {
        docs::site()?;
    }
    put_site(root, &target().join("site"), &remote, version, is_dry)
}

/// What says in a checkout how its remote is reached: GitHub's writes a header with its token there
/// and nowhere else.
const REACHES: &str = r"^(http|credential|url)\.|^core\.sshcommand$";

/// git as the remote is reached from a checkout, also from elsewhere; by the environment, for
/// everybody sees arguments.
fn reaching(checkout: &Path) -> Result<Command> {
    let mut config = git(checkout);
    config.args(["config", "--local", "--includes", "--null", "--get-regexp", REACHES]);
    let output = config.output().context("start git")?;
    // It fails when there is nothing.
    let listed = String::from_utf8(output.stdout).context("read the checkout's configuration")?;
    let mut git = Command::new("git");
    let mut count = 0;
    for entry in listed.split_terminator('\0') {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        git.env(format!("GIT_CONFIG_KEY_{count}"), key);
        git.env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    git.env("GIT_CONFIG_COUNT", count.to_string());
    Ok(git)
}

/// Puts the pages of a version, as built, on the branch of the site: as `X.Y`, and as `latest` when no
/// newer one is there.
fn put_site(
    checkout: &Path,
    built: &Path,
    remote: &str,
    version: &str,
    is_dry: bool,
) -> Result<()> {
    let [major, minor, _] = numbers(version).context("a version has three numbers")?;
    let name = format!("{major}.{minor}");
    let place = tempfile::tempdir()?;
    let clone = place.path().join("site");
    let has_branch =
        !lines(reaching(checkout)?.args(["ls-remote", "--heads", remote, BRANCH]))?.is_empty();
    let mut get = reaching(checkout)?;
    if has_branch {
        get.args(["clone", "--quiet", "--depth=1", "--branch", BRANCH, remote]).arg(&clone);
    } else {
        get.args(["init", "--quiet", "--initial-branch", BRANCH]).arg(&clone);
    }
    run(&mut get)?;
    let mut versions = versions(&clone)?;
    versions.insert(parsed(&name)?);
    let newest = versions.last().context("there is one at least")?;
    let mut folders = vec![name.clone()];
    if *newest == parsed(&name)? {
        folders.push("latest".to_owned());
    }
    if !built.exists() {
        ensure!(is_dry, "{} is missing: `cargo xtask docs`", built.display());
        println!("site {version}: {} are written by `cargo xtask docs`", folders.join(", "));
        return Ok(());
    }
    for folder in folders {
        portal::replace(built, &clone.join(folder))?;
    }
    let listed: Vec<Value> =
        versions.iter().rev().map(|[a, b]| json!({ "version": format!("{a}.{b}") })).collect();
    fs::write(clone.join(VERSIONS), serde_json::to_string_pretty(&listed)? + "\n")?;
    let to_latest = "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=latest/index.html\">\
                     <a href=\"latest/index.html\">molbox</a>\n";
    fs::write(clone.join("index.html"), to_latest)?;
    // Files and folders are served as they are.
    fs::write(clone.join(".nojekyll"), "")?;
    run(git(&clone).args(["add", "--all"]))?;
    let changed = lines(git(&clone).args(["status", "--porcelain"]))?;
    if is_due("site", version, changed.is_empty(), is_dry) {
        commit(&clone, version)?;
        let mut push = reaching(checkout)?;
        run(push.current_dir(&clone).args(["push", "--quiet", remote, BRANCH]))?;
    }
    Ok(())
}

/// Commits in the name of whoever has made the last commit of the sources.
fn commit(clone: &Path, version: &str) -> Result<()> {
    let author = lines(git(&crate::shell::root()).args(["log", "-1", "--format=%an%n%ae"]))?;
    let [name, email] = &author[..] else { bail!("the last commit has no author") };
    let mut commit = git(clone);
    commit.args(["-c", &format!("user.name={name}"), "-c", &format!("user.email={email}")]);
    run(commit.args(["commit", "--quiet", "--message", &format!("site: {version}")]))
}

/// The versions that the branch has.
fn versions(clone: &Path) -> Result<BTreeSet<[u64; 2]>> {
    let path: PathBuf = clone.join(VERSIONS);
    if !path.exists() {
        return Ok(BTreeSet::new());
    }
    let listed: Vec<Value> = serde_json::from_slice(&fs::read(&path)?)
        .with_context(|| format!("read {VERSIONS} of the branch {BRANCH}"))?;
    listed.iter().map(|one| parsed(one["version"].as_str().unwrap_or_default())).collect()
}

fn parsed(name: &str) -> Result<[u64; 2]> {
    let (major, minor) = name.split_once('.').with_context(|| format!("{name:?} is no version"))?;
    Ok([major.parse()?, minor.parse()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with one page, and a repository that takes it.
    fn place() -> (tempfile::TempDir, PathBuf, String) {
        let place = tempfile::tempdir().unwrap();
        let built = place.path().join("built");
        fs::create_dir(&built).unwrap();
        let remote = place.path().join("remote.git").display().to_string();
        run(Command::new("git").args(["init", "--quiet", "--bare", &remote])).unwrap();
        (place, built, remote)
    }

    #[test]
    fn the_site_is_reached_as_the_checkout_reaches_its_remote() {
        let (place, built, remote) = place();
        fs::write(built.join("index.html"), "one").unwrap();
        let checkout = place.path().join("checkout");
        run(Command::new("git").args(["init", "--quiet"]).arg(&checkout)).unwrap();
        // Known in the checkout alone.
        let alias = format!("url.{remote}.insteadOf");
        run(git(&checkout).args(["config", &alias, "https://forge.invalid/molbox"])).unwrap();
        for (version, text) in [("0.1.0", "one"), ("0.2.0", "two")] {
            fs::write(built.join("index.html"), text).unwrap();
            put_site(&checkout, &built, "https://forge.invalid/molbox", version, false).unwrap();
            assert_eq!(page(&remote, "latest/index.html").unwrap(), text);
        }
    }

    #[test]
    fn the_package_of_npm_names_the_repository_that_publishes_it() {
        let manifest = fs::read_to_string(crate::shell::root().join("typescript/package.json"));
        let text = with_repository(&manifest.unwrap(), "https://github.com", "someone/fork");
        let manifest: Value = serde_json::from_str(&text.unwrap()).unwrap();
        assert_eq!(manifest["repository"]["url"], "git+https://github.com/someone/fork.git");
        assert_eq!(manifest["name"], "molbox");
    }

    fn page(remote: &str, path: &str) -> Option<String> {
        let mut show = Command::new("git");
        show.args(["-C", remote, "show", &format!("{BRANCH}:{path}")]);
        lines(&mut show).ok().map(|lines| lines.concat())
    }

    #[test]
    fn the_site_keeps_older_versions_and_the_newest_is_the_latest() {
        let (_place, built, remote) = place();
        for (version, text) in [("0.2.0", "two"), ("0.10.0", "ten"), ("0.2.1", "two again")] {
            fs::write(built.join("index.html"), text).unwrap();
            put_site(&crate::shell::root(), &built, &remote, version, false).unwrap();
        }
        let found = ["0.2/index.html", "0.10/index.html", "latest/index.html"];
        let found = found.map(|path| page(&remote, path).unwrap());
        assert_eq!(found, ["two again", "ten", "ten"]);
        let listed = page(&remote, VERSIONS).unwrap().replace([' ', '\n'], "");
        assert_eq!(listed, r#"[{"version":"0.10"},{"version":"0.2"}]"#);
        assert!(page(&remote, "index.html").unwrap().contains("latest/index.html"));
    }

    #[test]
    fn a_site_that_is_there_is_not_published_again_and_a_dry_run_publishes_nothing() {
        let (_place, built, remote) = place();
        fs::write(built.join("index.html"), "one").unwrap();
        put_site(&crate::shell::root(), &built, &remote, "0.1.0", true).unwrap();
        assert_eq!(page(&remote, "latest/index.html"), None);
        put_site(&crate::shell::root(), &built, &remote, "0.1.0", false).unwrap();
        let head =
            || lines(Command::new("git").args(["-C", &remote, "rev-parse", BRANCH])).unwrap();
        let first = head();
        put_site(&crate::shell::root(), &built, &remote, "0.1.0", false).unwrap();
        assert_eq!(head(), first);
    }
}
