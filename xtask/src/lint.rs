//! Other people's linters of OpenAPI documents, in pinned versions under target/lint.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{root, run, target};

/// The copies are linted: other people read them, not the YAML.
const DOCUMENTS: [&str; 3] =
    ["openapi/openapi.json", "openapi/openapi-workflow.json", "openapi/openapi-margin.json"];
/// The oldest version that the linters start on.
const NODE: Version = (20, 0);

/// The first two numbers of a version.
pub type Version = (u32, u32);

/// Lints the document; what cannot be installed here is an error.
pub fn lint() -> Result<()> {
    with_node(&node_linters()?)?;
    with_python(&python_validator()?)
}

/// Lints the document with what there is on this machine, and says what there is not.
pub fn lint_where_possible() -> Result<()> {
    where_possible("Spectral and Redocly", node(), |()| with_node(&node_linters()?))?;
    with_python(&python_validator()?)
}

/// Works with a tool. Where there is none the work is skipped and reported; whatever fails with it is
/// an error, as what it installs is the repository's to say.
pub fn where_possible<T, R>(
    what: &str,
    tool: Result<T>,
    work: impl FnOnce(T) -> Result<R>,
) -> Result<Option<R>> {
    match tool {
        Ok(tool) => work(tool).map(Some),
        Err(missing) => {
            println!("skipped: {what}: {missing:#}");
            Ok(None)
        }
    }
}

fn with_node(folder: &Path) -> Result<()> {
    let bin = folder.join("node_modules/.bin");
    let config = root().join("openapi/lint");
    for document in DOCUMENTS {
        let mut spectral = Command::new(bin.join("spectral"));
        spectral.args(["lint", "--quiet", "--fail-severity", "hint", "--ruleset"]);
        run(spectral.arg(config.join("spectral.yaml")).arg(document).current_dir(root()))?;
        let mut redocly = Command::new(bin.join("redocly"));
        redocly.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        redocly.args(["lint", "--format", "stylish", "--config"]).arg(config.join("redocly.yaml"));
        quiet(redocly.arg(document).current_dir(root()))?;
    }
    println!("Spectral and Redocly: clean");
    Ok(())
}

fn with_python(folder: &Path) -> Result<()> {
    for document in DOCUMENTS {
        quiet(
            Command::new(folder.join("bin/openapi-spec-validator"))
                .arg(document)
                .current_dir(root()),
        )?;
    }
    println!("openapi-spec-validator: clean");
    Ok(())
}

/// Runs a command whose output matters only when it fails.
pub fn quiet(command: &mut Command) -> Result<()> {
    let output =
        command.output().with_context(|| format!("start {}", crate::shell::shown(command)))?;
    if !output.status.success() {
        print!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        bail!("{} failed", crate::shell::shown(command));
    }
    Ok(())
}

/// Installs the linters that need Node; their folder.
fn node_linters() -> Result<PathBuf> {
    node_packages("lint/node", &root().join("openapi/lint"))
}

/// A folder under target/ with what the package-lock.json of another names.
pub fn node_packages(name: &str, from: &Path) -> Result<PathBuf> {
    node()?;
    installed(name, &from.join("package-lock.json"), |folder| {
        for name in ["package.json", "package-lock.json"] {
            fs::copy(from.join(name), folder.join(name))?;
        }
        npm_install(folder)
    })
}

/// Installs what a folder's package-lock.json names. Scripts of packages are not run: none is
/// needed, and some only count their users.
fn npm_install(folder: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    quiet(npm.current_dir(folder))
}

/// An error when there is no Node, or none that is new enough.
pub fn node() -> Result<()> {
    at_least("node", "--version", NODE)?;
    at_least("npm", "--version", (0, 0))
}

/// An error when there is no Go that builds the module.
pub fn has_go() -> Result<()> {
    at_least("go", "version", (1, 23))
}

/// An error when there is no such program, or none that is new enough.
pub fn at_least(program: &str, argument: &str, oldest: Version) -> Result<()> {
    let output = Command::new(program)
        .arg(argument)
        .output()
        .with_context(|| format!("there is no {program}"))?;
    // Java says it where errors go.
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    match version(&text) {
        Some(found) if found >= oldest => Ok(()),
        _ => {
            bail!(
                "{program} must be {}.{} or newer, says {:?}",
                oldest.0,
                oldest.1,
                text.lines().next().unwrap_or("")
            )
        }
    }
}

/// The first version in a text.
fn version(text: &str) -> Option<Version> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    words.filter_map(|word| word.split_once('.')).find_map(|(major, rest)| {
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

fn python_validator() -> Result<PathBuf> {
    python_packages("lint/python", &root().join("openapi/lint/requirements.txt"))
}

/// A virtual environment with what a list of requirements names.
pub fn python_packages(name: &str, requirements: &Path) -> Result<PathBuf> {
    let python = crate::python::tools(name, requirements)?;
    Ok(python.ancestors().nth(2).context("the folder of an environment")?.to_owned())
}

/// A folder under target/ that `install` fills anew whenever `wanted` has changed.
fn installed(
    name: &str,
    wanted: &Path,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = target().join(name);
    let stamp = folder.join("installed.stamp");
    let wanted =
        fs::read_to_string(wanted).with_context(|| format!("read {}", wanted.display()))?;
    if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    install(&folder)?;
    fs::write(&stamp, wanted)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use anyhow::{Result, bail};

    use super::{version, where_possible};

    #[test]
    fn only_the_lack_of_a_tool_is_skipped_and_what_fails_with_it_is_an_error() {
        let tool =
            |is_there| -> Result<()> { if is_there { Ok(()) } else { bail!("there is none") } };
        assert_eq!(where_possible("work", tool(false), |()| Ok(1)).unwrap(), None);
        assert_eq!(where_possible("work", tool(true), |()| Ok(1)).unwrap(), Some(1));
        let failing = |()| -> Result<u8> { bail!("npm ci failed") };
        assert!(where_possible("work", tool(true), failing).is_err());
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, found) in [
            ("v20.20.2\n", (20, 20)),
            ("go version go1.26.8 linux/amd64", (1, 26)),
            ("openjdk version \"17.0.15\" 2025-04-15", (17, 0)),
            ("Apache Maven 3.8.7", (3, 8)),
        ] {
            assert_eq!(version(text), Some(found), "{text}");
        }
        assert_eq!(version("command not found"), None);
    }
}
