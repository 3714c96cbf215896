//! The invariants of ARCHITECTURE.md that a machine can check.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::root;

/// Words that may stand in some files only: where they may not, where they may all the same, and
/// why.
const ONLY_THERE: [(&str, &[&str], &[&str], &str); 6] = [
    ("crates/service/src", &["rusqlite::params", "prepare_cached("], &["db/"], "only db/ knows SQL"),
    (
        "crates/service/src",
        &["StatusCode::UNPROCESSABLE", "StatusCode::CONFLICT"],
        &["error.rs"],
        "only error.rs maps errors to statuses",
    ),
    ("crates/service/src", &["println!"], &["command.rs"], "only command.rs prints"),
    ("crates/cli/src", &["println!", "print!("], &["output.rs"], "only output.rs prints"),
    (
        "crates/service/src",
        &["Timestamp::now"],
        &["app.rs", "command.rs"],
        "the clock is read through the application's state",
    ),
    ("crates/service/src/handlers", &["process::launch", "std::process"], &[], "handlers spawn nothing"),
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
    dependencies(&mut problems)?;
    codes(&mut problems)?;
    if problems.is_empty() {
        return Ok(());
    }
    bail!("invariants of ARCHITECTURE.md are broken:\n  {}", problems.join("\n  "))
}

/// What stands before a code in the sources.
const CODES: [(&str, &str, &[&str]); 4] = [
    ("worker/molbox_worker", "py", &["JobError(", ".warn("]),
    (
        "crates/service/src",
        "rs",
        &["violation(", "invalid_body(", "failure(", "add(", "Self::new(StatusCode::", "ApiError::new(StatusCode::"],
    ),
    ("crates/margin/src", "rs", &["Fault::new("]),
    // The client refuses as the service does.
    ("src", "rs", &["kind: "]),
];

/// Every code that a refusal, a failure or a warning has is explained in `docs/errors.md`, and
/// nothing else is.
fn codes(problems: &mut Vec<String>) -> Result<()> {
    let page = "docs/errors.md";
    let text = fs::read_to_string(root().join(page)).with_context(|| format!("read {page}"))?;
    let explained: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(code, _)| code).collect();
    let mut sources = String::new();
    for (folder, extension, markers) in CODES {
        each_file(&root().join(folder), extension, &mut |path, text| {
            // It lists every code, whether something has it or not.
            if !path.ends_with("tasks/failure.rs") {
                sources += text;
            }
            for marker in markers {
                for (at, _) in text.match_indices(marker) {
                    let rest = &text[at + marker.len()..];
                    // The status comes before the code.
                    let rest = if marker.ends_with("::") { rest.split_once(',').map_or("", |(_, r)| r) } else { rest };
                    let code = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
                    let is_code = |c: &&str| c.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b));
                    if let Some(code) = code.map(|(code, _)| code).filter(is_code)
                        && !explained.contains(code)
                    {
                        problems.push(format!("{page} does not explain `{code}` of {}", path.display()));
                    }
                }
            }
        })?;
    }
    for code in explained {
        if !sources.contains(&format!("\"{code}\"")) {
            problems.push(format!("{page} explains `{code}`, which nothing says"));
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
    if of_plot.lines().any(|line| line.contains("path = \"../") && !line.contains("path = \"../analysis\"")) {
        problems.push("crates/plot/Cargo.toml: of our crates it depends on that whose tables it draws".to_owned());
    }
    let client = manifest(".")?;
    let dependencies =
        client.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or_default();
    if dependencies.contains("path = ") {
        problems.push("Cargo.toml: the client depends on no crate of ours but the code generator".to_owned());
    }
    Ok(())
}

fn manifest(package: &str) -> Result<String> {
    let path = root().join(package).join("Cargo.toml");
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn lines_with<'a>(path: &'a Path, text: &'a str, words: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let shown = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_comment = line.trim_start().starts_with("//");
        let word = words.iter().find(|word| !is_comment && line.contains(**word))?;
        Some(format!("{shown}:{}: {word}", number + 1))
    })
}

/// Hands every file of a folder that has the extension to `look`.
pub fn each_file(folder: &Path, extension: &str, look: &mut dyn FnMut(&Path, &str)) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, extension, look)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            look(&path, &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
