//! `cargo xtask docs --run`: the commands of the pages, and whether they print what is written there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::blocks::{Answer, LONG, Step, blocks, steps};
use super::pages::{Pages, lay_out_files};
use crate::python;
use crate::service::Service;
use crate::shell::{program, target};

/// Before what a command prints, in what a page prints.
const STEP: &str = "@@step ";
const FAILED: &str = "@@failed ";
/// How many lines of a command that went wrong are shown.
const SHOWN_LINES: usize = 40;

/// Runs the commands of pages, each page in a folder of its own, with one service: those that
/// simulate for long, or the others.
pub fn run(is_long: bool) -> Result<()> {
    let pages = Pages::read()?;
    let chosen: Vec<(&Path, Vec<Step>)> = pages
        .written()
        .filter(|(_, text)| text.lines().any(|line| line == LONG) == is_long)
        .map(|(path, text)| {
            (path, blocks(text).iter().filter(|b| b.is_of_commands()).flat_map(steps).collect())
        })
        .filter(|(_, steps): &(_, Vec<Step>)| !steps.is_empty())
        .collect();
    program("molbox")?;
    let out = target().join("docs/run");
    let service = Service::start(&out, &python::environment()?, &[])?;
    for (path, steps) in &chosen {
        let name = path.with_extension("").display().to_string().replace('/', "-");
        // What one page has uploaded is not there for another.
        let key = service.key(&name)?;
        let folder = out.join(name);
        let printed = print_of(&folder, steps, &service, &key)?;
        check(steps, &printed).with_context(|| format!("the commands of {}", path.display()))?;
        println!("{}: {} commands", path.display(), steps.len());
    }
    service.stop()
}

/// What the commands print, one after the other in one shell, as on a terminal.
fn print_of(folder: &Path, steps: &[Step], service: &Service, key: &str) -> Result<String> {
    lay_out_files(folder)?;
    let mut script = "stty cols 100 rows 40\n".to_owned();
    for (index, step) in steps.iter().enumerate() {
        script += &format!(
            "printf '\\n{STEP}{index}\\n'\n{{\n{}\n}} || {{ printf '\\n{FAILED}%s\\n' $?; exit 1; }}\n",
            step.command
        );
    }
    let file = folder.join(".page.sh");
    fs::write(&file, script).with_context(|| format!("write {}", file.display()))?;
    let mut path = target().join("debug").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let home = folder.join(".home");
    fs::create_dir_all(&home).with_context(|| format!("make {}", home.display()))?;
    // Programs print tables and remarks to a terminal alone.
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", "bash --norc .page.sh", "/dev/null"])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", &home)
        .env("TERM", "xterm")
        .env_remove("XDG_CONFIG_HOME")
        .env("MOLBOX_BASE_URL", &service.base_url)
        .env("MOLBOX_MARGIN_URL", &service.margin_url)
        .env("MOLBOX_API_KEY", key)
        .stdin(Stdio::null())
        .output()
        .context("start script, of Debian's package bsdutils")?;
    Ok(plain(&String::from_utf8_lossy(&output.stdout)))
}

/// What is left of a terminal's output: lines, also those that others replaced, without colours.
fn plain(printed: &str) -> String {
    let mut out = String::new();
    let mut left = printed.chars().peekable();
    while let Some(c) = left.next() {
        match c {
            '\u{1b}' => {
                if left.next_if_eq(&'[').is_some() {
                    while left.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
                }
            }
            '\r' => out.push('\n'),
            c => out.push(c),
        }
    }
    out
}

/// Fails when a command has failed, or when a line that it was to print is missing.
fn check(steps: &[Step], printed: &str) -> Result<()> {
    for (index, step) in steps.iter().enumerate() {
        let marker = format!("\n{STEP}{index}\n");
        let Some((_, rest)) = printed.split_once(&marker) else {
            bail!("`{}` was not reached", step.command);
        };
        let end = rest.find(&format!("\n{STEP}")).unwrap_or(rest.len());
        let answer: Vec<&str> =
            rest[..end].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let tail = || answer[answer.len().saturating_sub(SHOWN_LINES)..].join("\n  ");
        if answer.iter().any(|line| line.starts_with(FAILED)) {
            bail!("`{}` failed:\n  {}", step.command, tail());
        }
        let mut left = answer.iter();
        let said = step.answer.iter().filter(|answer| !["", "…"].contains(&answer.line.trim()));
        for wanted in said {
            if !left.any(|line| matches(wanted, line)) {
                bail!("`{}` does not print\n  {}\nbut\n  {}", step.command, wanted.line, tail());
            }
        }
    }
    Ok(())
}

/// Whether a line is as the page has it: `…` stands for anything, blanks for any number of them.
fn matches(wanted: &Answer, line: &str) -> bool {
    let single = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut wanted, mut line, is_about) = (single(&wanted.line), single(line), wanted.is_about);
    if is_about {
        (wanted, line) = (without_numbers(&wanted), without_numbers(&line));
    }
    let parts: Vec<&str> = wanted.split('…').map(str::trim).collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    if parts.len() == 1 {
        return wanted == line;
    }
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// A text with 0 in place of each number.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let is_of_number = c.is_ascii_digit() || (c == '.' && out.ends_with('0'));
        if !is_of_number {
            out.push(c);
        } else if !out.ends_with('0') {
            out.push('0');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_prints_something_else_is_reported() {
        let step = |command: &str, answer: &str| Step {
            command: command.to_owned(),
            answer: vec![Answer { line: answer.to_owned(), is_about: false }],
        };
        let steps = [step("a", "1 … of 3 atoms"), step("b", "done")];
        let good = "\n@@step 0\nfirst\n1 and 2  of 3 atoms\n\n@@step 1\ndone\n";
        check(&steps, good).unwrap();
        let other = check(&steps, &good.replace("of 3", "of 4")).unwrap_err().to_string();
        assert!(other.starts_with("`a` does not print"), "{other}");
        let failed = check(&steps, &good.replace("done", "@@failed 2")).unwrap_err().to_string();
        assert!(failed.starts_with("`b` failed"), "{failed}");
        let ended = check(&steps, &good[..30]).unwrap_err().to_string();
        assert!(ended.contains("does not print") || ended.contains("not reached"), "{ended}");
    }

    #[test]
    fn numbers_of_one_run_may_be_others_in_the_next() {
        let wanted = Answer { line: "59 at -15.4 Å".to_owned(), is_about: true };
        assert!(matches(&wanted, "61 at  -15.62 Å"));
        assert!(!matches(&wanted, "61 at 15.62 Å"));
        assert!(!matches(&Answer { is_about: false, ..wanted }, "61 at -15.62 Å"));
    }

    #[test]
    fn what_a_terminal_is_sent_is_read_without_its_colours() {
        assert_eq!(plain("\u{1b}[2Ka\rb\u{1b}[36mc\u{1b}[0m"), "a\nbc");
    }
}
