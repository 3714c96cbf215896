//! The invariants of ARCHITECTURE.md that a machine can check.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::errors::{Errors, FAULTS, SOURCE};
use crate::imports;
use crate::package;
use crate::release;
use crate::rooms;
use crate::shell::root;
use crate::sources::each_file;
use crate::spec::STATUSES;

/// Words that may stand in some files only: where they may not, where they may all the same, and
/// why.
const ONLY_THERE: [(&str, &[&str], &[&str], &str); 10] = [
    ("crates/service/src", &["rusqlite"], &["db/sqlite.rs"], "only db/sqlite.rs knows SQLite"),
    (
        "crates/service/src",
        &["tokio_postgres"],
        &["db/postgres.rs"],
        "only db/postgres.rs knows PostgreSQL",
    ),
    ("crates/service/src", &["object_store"], &["objects/s3.rs"], "only objects/s3.rs knows S3"),
    (
        "crates/service/src",
        &["\"sbatch\"", "\"squeue\"", "\"scancel\""],
        &["exec/slurm.rs", "exec/suite.rs"],
        "only exec/slurm.rs runs the commands of Slurm",
    ),
    (
        "crates/service/src",
        &["StatusCode::UNPROCESSABLE", "StatusCode::CONFLICT"],
        &["error.rs"],
        "only error.rs maps errors to statuses",
    ),
    ("crates/service/src", &["println!"], &["command/say.rs"], "only the command line prints"),
    ("crates/cli/src", &["println!", "print!("], &["output.rs"], "only output.rs prints"),
    (
        "crates/service/src",
        &["Timestamp::now", "SystemTime::now", "Zoned::now", "clock_gettime"],
        &["clock.rs"],
        "only clock.rs reads the clock",
    ),
    ("crates/service/src", &["getrandom"], &["random.rs"], "only random.rs draws what is random"),
    (
        "crates/service/src/handlers",
        &["process::launch", "std::process"],
        &[],
        "handlers spawn nothing",
    ),
];

/// What no crate that computes may touch.
const PURE: [&str; 6] = ["tokio", "reqwest", "axum", "rusqlite", "std::env", "SystemTime::now"];

pub fn tidy() -> Result<()> {
    let mut problems = Vec::new();
    for (folder, words, allowed, rule) in ONLY_THERE {
        each_file(&root().join(folder), "rs", &mut |path, text| {
            if allowed.iter().any(|part| path.to_string_lossy().contains(&format!("src/{part}"))) {
                return;
            }
            problems.extend(lines_with(path, text, words).map(|at| format!("{at}: {rule}")));
        })?;
    }
    for crate_name in ["analysis", "margin", "plot"] {
        let folder = root().join("crates").join(crate_name).join("src");
        if folder.exists() {
            each_file(&folder, "rs", &mut |path, text| {
                let rule = format!("{crate_name} touches nothing outside of its arguments");
                problems.extend(lines_with(path, text, &PURE).map(|at| format!("{at}: {rule}")));
            })?;
        }
    }
    problems.extend(release::wrong_pins(&root(), &package::version()?)?);
    for folder in ["", "docs", "clients", "packaging", "portal", "python", "examples"] {
        pages(&root().join(folder), &mut problems)?;
    }
    dependencies(&mut problems)?;
    codes(&mut problems)?;
    rooms::check(&mut problems)?;
    imports::check(&mut problems)?;
    if problems.is_empty() {
        return Ok(());
    }
    bail!("invariants of ARCHITECTURE.md are broken:\n  {}", problems.join("\n  "))
}

/// On PyPI the name `molbox` is somebody else's: no page may have people install that.
fn pages(folder: &Path, problems: &mut Vec<String>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let is_page = path.extension().is_some_and(|extension| {
            ["md", "html", "toml", "yaml", "yml", "def"].iter().any(|known| extension == *known)
        });
        if is_page {
            let text = fs::read_to_string(&path)?;
            let lines = text.lines().enumerate().filter(|(_, line)| installs_another(line));
            problems.extend(lines.map(|(n, _)| {
                format!("{}:{}: the name molbox on PyPI is another's", path.display(), n + 1)
            }));
        } else if path.is_dir() && folder != root() && !path.ends_with("node_modules") {
            pages(&path, problems)?;
        }
    }
    Ok(())
}

/// Whether a line installs `molbox` from PyPI.
fn installs_another(line: &str) -> bool {
    let installers = ["pip install", "pipx install", "uv tool install", "uv add", "pip download"];
    installers.iter().any(|installer| {
        line.match_indices(installer).any(|(at, _)| {
            let rest = line[at + installer.len()..].split(['`', '&', ';', '|', '#']).next();
            rest.unwrap_or_default().split_whitespace().any(|word| {
                let word = word.trim_matches(['\'', '"', ',', '.', ')']);
                word.split(['=', '[', '<', '>', '~', '!']).next() == Some("molbox")
            })
        })
    })
}

/// What stands before a code in the sources.
const CODES: [(&str, &str, &[&str]); 4] = [
    ("worker/molbox_worker", "py", &["TaskError(", ".warn("]),
    (
        "crates/service/src",
        "rs",
        &[
            "violation(",
            "invalid_body(",
            "failure(",
            "add(",
            "Self::new(StatusCode::",
            "ApiError::new(StatusCode::",
        ],
    ),
    ("crates/margin/src", "rs", &["ValueError::new("]),
    // The client refuses as the service does.
    ("src", "rs", &["kind: "]),
];

/// Every code that a refusal, a failure or a warning has is explained in the table of errors, and
/// nothing else is.
fn codes(problems: &mut Vec<String>) -> Result<()> {
    let errors = Errors::read(&root())?;
    let explained: BTreeSet<&str> = errors.codes().collect();
    let mut sources = String::new();
    for (folder, extension, markers) in CODES {
        each_file(&root().join(folder), extension, &mut |path, text| {
            // What is made of the table says nothing of what is used.
            if path.ends_with(FAULTS) {
                return;
            }
            sources += text;
            for code in markers.iter().flat_map(|marker| codes_after(text, marker)) {
                if !explained.contains(code) {
                    problems
                        .push(format!("{SOURCE} does not explain `{code}` of {}", path.display()));
                }
            }
        })?;
    }
    for code in explained {
        if !sources.contains(&format!("\"{code}\"")) {
            problems.push(format!("{SOURCE} explains `{code}`, which nothing says"));
        }
    }
    statuses(&errors, problems)
}

/// The codes in quotes that follow a marker.
fn codes_after<'a>(text: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(marker).filter_map(move |(at, _)| {
        let rest = &text[at + marker.len()..];
        // The status comes before the code.
        let rest = if marker.ends_with("::") {
            rest.split_once(',').map_or("", |(_, rest)| rest)
        } else {
            rest
        };
        let (code, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let is_code = code.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b));
        is_code.then_some(code)
    })
}

/// A refusal has a status that the table gives its code.
fn statuses(errors: &Errors, problems: &mut Vec<String>) -> Result<()> {
    const MARKER: &str = "new(StatusCode::";
    let path = "crates/service/src/error.rs";
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("read {path}"))?;
    for (at, _) in text.match_indices(MARKER) {
        let rest = &text[at + MARKER.len()..];
        let Some((name, rest)) = rest.split_once(',') else { continue };
        let Some(code) =
            rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
        else {
            continue;
        };
        let Some((_, status)) = STATUSES.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{path}: `cargo xtask tidy` does not know the status {name}"));
            continue;
        };
        if !errors.refusals.codes.get(code).is_some_and(|refusal| refusal.status.contains(status)) {
            problems.push(format!("{SOURCE} does not have {status} as a status of `{code}`"));
        }
    }
    Ok(())
}

/// Who may know whom.
fn dependencies(problems: &mut Vec<String>) -> Result<()> {
    let leaves = ["crates/analysis", "crates/margin", "crates/codegen"];
    for package in leaves.iter().filter(|package| root().join(package).exists()) {
        let manifest = manifest(package)?;
        if manifest.contains("path = \"../") {
            problems.push(format!("{package}/Cargo.toml: a leaf depends on none of our crates"));
        }
    }
    let of_plot = manifest("crates/plot")?;
    if of_plot
        .lines()
        .any(|line| line.contains("path = \"../") && !line.contains("path = \"../analysis\""))
    {
        problems.push(
            "crates/plot/Cargo.toml: of our crates it depends on that whose tables it draws"
                .to_owned(),
        );
    }
    let client = manifest(".")?;
    let dependencies = client
        .split("[dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .unwrap_or_default();
    if dependencies.contains("path = ") {
        problems.push(
            "Cargo.toml: the client depends on no crate of ours but the code generator".to_owned(),
        );
    }
    Ok(())
}

fn manifest(package: &str) -> Result<String> {
    let path = root().join(package).join("Cargo.toml");
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn lines_with<'a>(
    path: &'a Path,
    text: &'a str,
    words: &'a [&str],
) -> impl Iterator<Item = String> + 'a {
    let shown = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_comment = line.trim_start().starts_with("//");
        let word = words.iter().find(|word| !is_comment && line.contains(**word))?;
        Some(format!("{shown}:{}: {word}", number + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_the_name_that_is_another_s_is_found_and_our_names_are_not() {
        for line in [
            "pip install molbox",
            "run `pip install 'molbox'` first",
            "pip install --upgrade molbox==0.1.4",
            "python -m pip install numpy molbox[gpu], then",
            "pipx install molbox",
        ] {
            assert!(installs_another(line), "{line}");
        }
        for line in [
            "pip install molboxd && molbox up",
            "pip install molbox-cli molbox-client",
            "uv tool install molboxd --with-executables-from molbox-cli",
            "`pip install molboxd` brings molbox",
        ] {
            assert!(!installs_another(line), "{line}");
        }
    }
}
