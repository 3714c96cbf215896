//! Releases: `cargo xtask version` begins the work on one, `cargo xtask release` makes it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::regenerate::document;
use crate::shell::{run, target};
use crate::spec::{self, numbers};

const CHANGELOG: &str = "CHANGELOG.md";
const DOCUMENT: &str = "openapi/molbox.yaml";
const NPM: [&str; 2] = ["typescript/package.json", "typescript/package-lock.json"];
/// Packages of Python have their version here.
const PYTHON: [&str; 2] = ["worker/molbox_worker/__init__.py", "python/molbox_client/_version.py"];

/// Gives the packages and the document another version, and the changelog a section for
/// it.
pub fn version(root: &Path, to: &str) -> Result<()> {
    let from =
        document()?.value["info"]["x-release"].as_str().context("info.x-release")?.to_owned();
    let new = numbers(to);
    let old = numbers(&from);
    ensure!(new.is_some(), "{to} is no version such as 0.2.0");
    ensure!(new > old, "{to} is not newer than {from}");
    number(root, &from, to)?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut update = Command::new("cargo");
        update.current_dir(root).args([
            "update",
            "--workspace",
            "--offline",
            "--quiet",
            "--manifest-path",
            manifest,
        ]);
        run(&mut update)?;
    }
    println!("{from} -> {to}; next: cargo xtask regenerate, and the changelog");
    Ok(())
}

/// Writes another number to every file that has it.
fn number(root: &Path, from: &str, to: &str) -> Result<()> {
    for file in lines(git(root).args(["ls-files", "*Cargo.toml"]))? {
        change(&root.join(file), |text| Ok(of_packages(text, from, to)))?;
    }
    change(&root.join(DOCUMENT), |text| {
        replaced(text, &format!("x-release: {from}"), &format!("x-release: {to}"))
    })?;
    for file in PYTHON {
        change(&root.join(file), |text| {
            let [from, to] = [from, to].map(|version| format!("__version__ = \"{version}\""));
            replaced(text, &from, &to)
        })?;
    }
    for file in NPM {
        change(&root.join(file), |text| Ok(of_npm(text, from, to)))?;
    }
    for file in lines(git(root).args(["ls-files", "*pyproject.toml", "packaging"]))? {
        let path = root.join(file);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if pinned(&text, from) != 0 {
            change(&path, |text| Ok(with_pins(text, from, to)))?;
        }
    }
    change(&root.join(CHANGELOG), |text| Ok(begun(text, to)))?;
    Ok(())
}

/// What stands in the changelog for the date of a version that was not released.
const UNRELEASED: &str = "unreleased";

fn heading(version: &str, date: &str) -> String {
    format!("## {version}, {date}")
}

/// The changelog with a section for a version: that of what has no version yet, if there is one.
fn begun(changelog: &str, version: &str) -> String {
    let heading = heading(version, UNRELEASED);
    if changelog.contains("\n## Unreleased\n") {
        return changelog.replace("\n## Unreleased\n", &format!("\n{heading}\n"));
    }
    changelog.replacen("# Changelog\n", &format!("# Changelog\n\n{heading}\n"), 1)
}

/// A manifest in which our packages have another version: its own, and where it names another of
/// ours.
fn of_packages(manifest: &str, from: &str, to: &str) -> String {
    let from = format!("version = \"{from}\"");
    let to = format!("version = \"{to}\"");
    let mut section = "";
    let lines = manifest.split_inclusive('\n').map(|line| {
        if line.starts_with('[') {
            section = line.trim_end();
        }
        let is_own = section == "[workspace.package]" && line.starts_with(&from);
        let is_ours = line.contains("path = \"");
        if is_own || is_ours { line.replace(&from, &to) } else { line.to_owned() }
    });
    lines.collect()
}

/// A manifest or lock file of npm, in which our package comes before any other.
fn of_npm(manifest: &str, from: &str, to: &str) -> String {
    let end = manifest.find("\"node_modules/").unwrap_or(manifest.len());
    let (own, others) = manifest.split_at(end);
    let version = |version: &str| format!("\"version\": \"{version}\"");
    own.replace(&version(from), &version(to)) + others
}

/// How a version of ours is written where others than cargo pin it: the wheels to each other, the
/// image and the recipe of conda.
fn pins(version: &str) -> Vec<String> {
    let wheels = ["molbox-cli", "molbox-client", "molbox-worker", "molbox-worker[cuda]", "molboxd"];
    let wheels = wheels.map(|name| format!("{name}=={version}"));
    wheels.into_iter().chain([format!("  version: {version}\n")]).collect()
}

/// How often a version of ours is pinned.
fn pinned(text: &str, version: &str) -> usize {
    pins(version).iter().map(|pin| text.matches(pin).count()).sum()
}

fn with_pins(text: &str, from: &str, to: &str) -> String {
    let pairs = pins(from).into_iter().zip(pins(to));
    pairs.fold(text.to_owned(), |text, (from, to)| text.replace(&from, &to))
}

/// Where wheels of ours are pinned to another version than the packages have, by `file: pin`; and
/// wheels that are built here and that the service's does not ask for.
pub fn wrong_pins(root: &Path, version: &str) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for file in lines(git(root).args(["ls-files", "*pyproject.toml", "packaging"]))? {
        let Ok(text) = fs::read_to_string(root.join(&file)) else { continue };
        let names = pins("").into_iter().filter(|pin| pin.ends_with("=="));
        for name in names {
            for rest in text.split(&name).skip(1) {
                let found = rest.split(['"', ' ', '\n']).next().unwrap_or_default();
                if found != version {
                    wrong.push(format!("{file}: {name}{found}, and the packages are {version}"));
                }
            }
        }
    }
    let service = fs::read_to_string(root.join("crates/service/pyproject.toml"))?;
    for (folder, name) in [("worker", "molbox-worker"), ("python", "molbox-client")] {
        let is_built = root.join(folder).join("pyproject.toml").exists();
        if is_built && !service.contains(&format!("\"{name}=={version}\"")) {
            wrong.push(format!("crates/service/pyproject.toml: \"{name}=={version}\" is missing"));
        }
    }
    Ok(wrong)
}

/// A text with another part in the place of one that is there once.
fn replaced(text: &str, from: &str, to: &str) -> Result<String> {
    ensure!(text.matches(from).count() == 1, "{from:?} is not there once");
    Ok(text.replace(from, to))
}

fn change(path: &Path, changed: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let changed = changed(&text).with_context(|| format!("change {}", path.display()))?;
    if changed != text {
        fs::write(path, changed).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Releases what was committed last, as the version that it has. All of it happens in a clone; only
/// when everything is as it must be, the commit and the tag are taken over, the tag last.
pub fn release(root: &Path, is_dry: bool) -> Result<()> {
    unchanged(root)?;
    let version =
        document()?.value["info"]["x-release"].as_str().context("info.x-release")?.to_owned();
    let tag = format!("v{version}");
    if let Some((before, _)) = spec::last_release(root)? {
        ensure!(
            numbers(&version) > numbers(&before),
            "{version} is not newer than {before}, which was released: begin the next with `cargo \
             xtask version`"
        );
    }
    ensure!(lines(git(root).args(["tag", "--list", &tag]))?.is_empty(), "there is a tag {tag}");
    // That of the commit: the same release is the same wherever and whenever it is made.
    let date = lines(git(root).args(["show", "--no-patch", "--format=%cs"]))?.concat();

    let clone = target().join("releases").join(&version);
    if clone.exists() {
        fs::remove_dir_all(&clone).with_context(|| format!("clear {}", clone.display()))?;
    }
    run(Command::new("git").args(["clone", "--quiet"]).arg(root).arg(&clone))?;
    for key in ["user.name", "user.email"] {
        let value = lines(git(root).args(["config", key]))?.concat();
        run(git(&clone).args(["config", key, &value]))?;
    }
    // The clone's own, which are all that others will have. Not built where this is: cargo takes
    // programs of two checkouts for the same, and the next `cargo xtask` here would work on the
    // clone.
    let built = target().join("releases/target");
    xtask(&clone, &built, &["regenerate"])?;
    unchanged(&clone).context("what is derived is stale; run `cargo xtask regenerate`")?;
    println!("== changelog");
    change(&clone.join(CHANGELOG), |text| dated(text, &version, &date))?;
    let wrong = wrong_pins(&clone, &version)?;
    ensure!(wrong.is_empty(), "wheels are pinned wrong:\n  {}", wrong.join("\n  "));
    xtask(&clone, &built, &["spec", "check"])?;
    xtask(&clone, &built, &["spec", "diff"])?;
    xtask(&clone, &built, &["packages"])?;
    keep_document(&clone, &version)?;
    // Nothing has changed since the document that is compared with now.
    xtask(&clone, &built, &["spec", "diff"])?;

    commit(&clone, &version)?;
    run(git(&clone).args(["show", "--stat", "--format=%h %s", &tag]))?;
    if is_dry {
        println!("dry run: the release lies in {}, nothing was taken over", clone.display());
        return Ok(());
    }
    run(git(root).args(["pull", "--quiet", "--ff-only"]).arg(&clone).arg("HEAD"))?;
    run(git(root).args(["fetch", "--quiet"]).arg(&clone).args(["tag", &tag]))?;
    println!("{tag} is made; RELEASING.md says how it is published");
    Ok(())
}

/// Whether all that lies here is committed.
fn unchanged(root: &Path) -> Result<()> {
    let changed = lines(git(root).args(["status", "--porcelain"]))?;
    ensure!(changed.is_empty(), "there are changes that are not committed: {}", changed.join(", "));
    Ok(())
}

/// Keeps the document of a version, with which later ones are compared.
fn keep_document(clone: &Path, version: &str) -> Result<()> {
    let released = clone.join(spec::RELEASED);
    fs::create_dir_all(&released)?;
    fs::copy(clone.join("openapi/openapi.json"), released.join(format!("{version}.json")))?;
    Ok(())
}

/// Commits a release and tags it.
fn commit(clone: &Path, version: &str) -> Result<()> {
    let changelog = fs::read_to_string(clone.join(CHANGELOG))?;
    let message = format!("release: {version}\n\n{}", section(&changelog, version)?);
    run(git(clone).args(["add", "--all"]))?;
    run(git(clone).args(["commit", "--quiet", "--message", &message]))?;
    let about = format!("molbox {version}");
    run(git(clone).args(["tag", "--annotate", &format!("v{version}"), "--message", &about]))
}

/// Whether a tag names what lies here, as a release has it: every number the same, a date in the
/// changelog, the document among those that were released.
pub fn check(root: &Path, tag: &str) -> Result<()> {
    let problems = unready(root, tag, &crate::package::version()?)?;
    ensure!(problems.is_empty(), "{tag} cannot be released:\n  {}", problems.join("\n  "));
    println!("{tag} is of one version throughout");
    Ok(())
}

/// What keeps a tag from being published.
fn unready(root: &Path, tag: &str, version: &str) -> Result<Vec<String>> {
    let mut problems = wrong_pins(root, version)?;
    if tag != format!("v{version}") {
        problems.push(format!("the packages are {version}"));
    }
    let cargo = fs::read_to_string(root.join("Cargo.toml"))?;
    if !cargo.contains(&format!("[workspace.package]\nversion = \"{version}\"")) {
        problems.push(format!("Cargo.toml has another version than {DOCUMENT}, {version}"));
    }
    let changelog = fs::read_to_string(root.join(CHANGELOG))?;
    let newest = changelog.lines().find(|line| line.starts_with("## ")).unwrap_or_default();
    let date = newest.strip_prefix(&heading(version, ""));
    if date.is_none_or(|date| date == UNRELEASED) {
        problems.push(format!("{CHANGELOG} begins with {newest:?}, not with {version} and a date"));
    }
    let name = format!("{version}.json");
    let released = fs::read(root.join(spec::RELEASED).join(&name)).ok();
    if released != Some(fs::read(root.join("openapi/openapi.json"))?) {
        problems.push(format!("{}/{name} is not the document as it is now", spec::RELEASED));
    }
    Ok(problems)
}

/// Prints what the changelog says of the version that the packages have.
pub fn notes(root: &Path) -> Result<()> {
    let changelog = fs::read_to_string(root.join(CHANGELOG))?;
    crate::shell::print(&format!("{}\n", section(&changelog, &crate::package::version()?)?))
}

fn xtask(clone: &Path, built: &Path, arguments: &[&str]) -> Result<()> {
    println!("== cargo xtask {}", arguments.join(" "));
    run(Command::new("cargo")
        .current_dir(clone)
        .env("CARGO_TARGET_DIR", built)
        .arg("xtask")
        .args(arguments))
}

/// The changelog with the date of a version, which has something to say of it.
fn dated(changelog: &str, version: &str, date: &str) -> Result<String> {
    ensure!(!section(changelog, version)?.is_empty(), "{version} has nothing in it");
    replaced(changelog, &heading(version, UNRELEASED), &heading(version, date))
}

/// What the changelog says of a version, which must be its newest.
fn section<'a>(changelog: &'a str, version: &str) -> Result<&'a str> {
    let newest = changelog.split_once("\n## ").and_then(|(_, rest)| rest.split_once('\n'));
    let Some((title, rest)) = newest else { bail!("there is no version in it") };
    ensure!(
        title.split(',').next() == Some(version),
        "its newest version is {title:?}, not {version}: add `{}`",
        heading(version, UNRELEASED)
    );
    Ok(rest.split("\n## ").next().unwrap_or_default().trim())
}

pub fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder);
    git
}

/// What a program prints, by lines.
pub fn lines(command: &mut Command) -> Result<Vec<String>> {
    let output =
        command.output().with_context(|| format!("start {}", crate::shell::shown(command)))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        crate::shell::shown(command),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_packages_get_the_version_and_others_keep_theirs() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"\n[dependencies]\n\
                        ours = { version = \"0.1.0\", path = \"../ours\" }\nother = \"0.1.0\"\n\
                        third = { version = \"0.1.0\", features = [] }\n";
        let changed = of_packages(manifest, "0.1.0", "0.2.0");
        let changes: Vec<&str> = changed
            .lines()
            .zip(manifest.lines())
            .filter(|(a, b)| a != b)
            .map(|(line, _)| line)
            .collect();
        assert_eq!(
            changes,
            ["version = \"0.2.0\"", "ours = { version = \"0.2.0\", path = \"../ours\" }"]
        );
    }

    /// A repository as small as a release allows.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (path, text) in [
            (CHANGELOG, "# Changelog\n\n## 0.2.0, unreleased\n\n- more\n"),
            ("Cargo.toml", "[workspace.package]\nversion = \"0.2.0\"\n"),
            ("openapi/openapi.json", "{}"),
            ("worker/pyproject.toml", "[project]\n"),
            ("crates/service/pyproject.toml", "dependencies = [\"molbox-worker==0.2.0\"]\n"),
        ] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        for words in [
            &["init", "--quiet"][..],
            &["config", "user.name", "somebody"],
            &["config", "user.email", "somebody@example.org"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "all: Begin"],
        ] {
            run(git(root).args(words)).unwrap();
        }
        folder
    }

    #[test]
    fn a_release_is_one_commit_with_a_tag_and_is_ready_to_be_published() {
        let repository = repository();
        let root = repository.path();
        let before = unready(root, "v0.2.0", "0.2.0").unwrap().join("; ");
        assert!(before.contains("unreleased") && before.contains("0.2.0.json"), "{before}");
        change(&root.join(CHANGELOG), |text| dated(text, "0.2.0", "2026-02-03")).unwrap();
        keep_document(root, "0.2.0").unwrap();
        commit(root, "0.2.0").unwrap();
        let tagged = lines(git(root).args(["show", "--no-patch", "--format=%B", "v0.2.0^{}"]));
        assert_eq!(tagged.unwrap()[..3], ["release: 0.2.0", "", "- more"]);
        assert_eq!(unready(root, "v0.2.0", "0.2.0").unwrap(), Vec::<String>::new());
        let other = unready(root, "v0.3.0", "0.2.0").unwrap();
        assert_eq!(other, ["the packages are 0.2.0"]);
        let wheel = root.join("crates/service/pyproject.toml");
        fs::write(wheel, "dependencies = [\"molbox-worker==0.1.0\"]\n").unwrap();
        let other = unready(root, "v0.2.0", "0.2.0").unwrap().join("; ");
        assert!(other.contains("molbox-worker==0.1.0, and the packages are 0.2.0"), "{other}");
    }

    #[test]
    fn a_derived_file_that_is_not_what_was_committed_is_no_release() {
        let repository = repository();
        unchanged(repository.path()).unwrap();
        fs::write(repository.path().join("openapi/openapi.json"), "{\"derived\": true}").unwrap();
        let error = unchanged(repository.path()).unwrap_err().to_string();
        assert!(error.contains("openapi/openapi.json"), "{error}");
    }

    #[test]
    fn the_last_commit_can_be_released_as_the_next_version() {
        let folder = tempfile::tempdir().unwrap();
        let clone = folder.path().join("clone");
        let mut get = Command::new("git");
        get.args(["clone", "--quiet", "--shared"]).arg(crate::shell::root()).arg(&clone);
        run(&mut get).unwrap();
        for pair in [["user.name", "somebody"], ["user.email", "somebody@example.org"]] {
            run(git(&clone).arg("config").args(pair)).unwrap();
        }
        let from = crate::package::version().unwrap();
        let [major, minor, _] = numbers(&from).unwrap();
        let next = format!("{major}.{}.0", minor + 1);
        number(&clone, &from, &next).unwrap();
        // Right after a release there is nothing to report yet.
        let more = |text: &str| Ok(text.replacen(", unreleased\n", ", unreleased\n\n- more\n", 1));
        change(&clone.join(CHANGELOG), more).unwrap();
        change(&clone.join(CHANGELOG), |text| dated(text, &next, "2026-02-03")).unwrap();
        keep_document(&clone, &next).unwrap();
        commit(&clone, &next).unwrap();
        assert_eq!(unready(&clone, &format!("v{next}"), &next).unwrap(), Vec::<String>::new());
        let left = lines(git(&clone).args([
            "grep",
            "--line-number",
            "--fixed-strings",
            &from,
            "--",
            "*pyproject.toml",
            "packaging",
            "*_version.py",
            "typescript/package.json",
        ]));
        assert!(left.is_err(), "the old number is left: {left:?}");
    }

    #[test]
    fn what_has_no_version_yet_gets_it_in_the_changelog() {
        let with =
            begun("# Changelog\n\n## Unreleased\n\n- more\n\n## 0.1.0, 2026-01-01\n", "0.2.0");
        assert_eq!(section(&with, "0.2.0").unwrap(), "- more");
        let without = begun("# Changelog\n\n## 0.1.0, 2026-01-01\n\n- all\n", "0.2.0");
        assert!(
            without.starts_with("# Changelog\n\n## 0.2.0, unreleased\n\n## 0.1.0"),
            "{without}"
        );
    }

    #[test]
    fn wheels_are_pinned_to_the_new_version_and_others_stay() {
        let manifest = "dependencies = [\"molbox-cli==0.1.0\", \"numpy==0.1.0\"]\n\
                        cuda = [\"molbox-worker[cuda]==0.1.0\"]\n";
        assert_eq!(pinned(manifest, "0.1.0"), 2);
        let changed = with_pins(manifest, "0.1.0", "0.2.0");
        assert_eq!(pinned(&changed, "0.2.0"), 2);
        assert!(changed.contains("numpy==0.1.0"), "{changed}");
    }

    #[test]
    fn our_npm_package_gets_the_version_and_others_keep_theirs() {
        let lock = "{\"version\": \"0.1.0\", \"packages\": {\"\": {\"version\": \"0.1.0\"}, \
                    \"node_modules/other\": {\"version\": \"0.1.0\"}}}";
        let changed = of_npm(lock, "0.1.0", "0.2.0");
        assert_eq!(changed.matches("0.2.0").count(), 2, "{changed}");
        assert!(changed.contains("other\": {\"version\": \"0.1.0\""), "{changed}");
    }

    #[test]
    fn a_changelog_is_dated_when_its_newest_version_is_the_one_and_has_something_in_it() {
        let changelog =
            "# Changelog\n\n## 0.2.0, unreleased\n\n- more\n\n## 0.1.0, 2026-01-01\n\n- all\n";
        let dated = |changelog: &str, version: &str| dated(changelog, version, "2026-02-03");
        assert_eq!(
            dated(changelog, "0.2.0").unwrap(),
            "# Changelog\n\n## 0.2.0, 2026-02-03\n\n- more\n\n## 0.1.0, 2026-01-01\n\n- all\n"
        );
        assert_eq!(section(changelog, "0.2.0").unwrap(), "- more");
        for (changelog, version, reason) in [
            (changelog.to_owned(), "0.3.0", "not 0.3.0"),
            (changelog.to_owned(), "0.1.0", "not 0.1.0"),
            (changelog.replace("unreleased", "2026-02-02"), "0.2.0", "is not there once"),
            (changelog.replace("- more\n", ""), "0.2.0", "has nothing in it"),
            ("# Changelog\n".to_owned(), "0.1.0", "there is no version"),
        ] {
            let refusal = dated(&changelog, version).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}
