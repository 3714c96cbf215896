//! Blocks of commands and code in pages, and how the site shows them.
//!
//! A block of `sh` has commands after `$ ` and, below each, what it answers after `#=> `, in which
//! `…` stands for anything; after `#=~ ` numbers are those of one run, and others will do. The site shows commands and answers as blocks of their own, so that what
//! is copied is what is typed. A page that has the line [`LONG`] simulates for longer than a test may.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::shell::root;

/// Files of code that pages include.
pub const EXAMPLES: &str = "docs/examples";
pub const LONG: &str = "<!-- long -->";
/// Above a block that no test can run; what follows is why.
const NOT_RUN: &str = "<!-- not run: ";
const COMMAND: &str = "$ ";
const ANSWER: &str = "#=>";
const ABOUT: &str = "#=~";

/// A block of a page between fences.
#[derive(Debug)]
pub struct Block<'a> {
    /// Lines of the page, those of the fences among them.
    pub lines: std::ops::Range<usize>,
    indent: &'a str,
    language: &'a str,
    content: Vec<&'a str>,
    /// The line of text above it.
    above: &'a str,
}

impl Block<'_> {
    pub fn is_of_commands(&self) -> bool {
        self.language == "sh" && self.content.iter().any(|line| line.starts_with(COMMAND))
    }

    /// Whether something keeps it right: it is run, it is a file that is, or it is no code.
    pub fn is_kept_right(&self) -> bool {
        let is_included =
            self.content.iter().all(|line| line.starts_with("--8<--") || line.is_empty());
        self.is_of_commands()
            || is_included
            || self.language == "text"
            || self.above.starts_with(NOT_RUN)
    }
}

/// A command and the lines that it is to print, in their order.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub command: String,
    pub answer: Vec<Answer>,
}

/// A line that a command is to print.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub line: String,
    /// Whether its numbers may be others.
    pub is_about: bool,
}

pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let unindented = lines[at].trim_start();
        let Some(language) = unindented.strip_prefix("```") else {
            at += 1;
            continue;
        };
        let indent = &lines[at][..lines[at].len() - unindented.len()];
        let body = lines[at + 1..].iter().take_while(|line| line.trim() != "```");
        let content: Vec<&str> =
            body.map(|line| line.strip_prefix(indent).unwrap_or(line.trim_start())).collect();
        let end = (at + content.len() + 2).min(lines.len());
        let above = lines[..at].iter().rev().find(|line| !line.trim().is_empty());
        let above = above.map_or("", |line| line.trim());
        found.push(Block { lines: at..end, indent, language: language.trim(), content, above });
        at = end;
    }
    found
}

pub fn steps(block: &Block<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in &block.content {
        if let Some(command) = line.strip_prefix(COMMAND) {
            steps.push(Step { command: command.to_owned(), answer: Vec::new() });
        } else if let Some(step) = steps.last_mut() {
            let answer = [(ANSWER, false), (ABOUT, true)]
                .into_iter()
                .find_map(|(mark, is_about)| Some((line.strip_prefix(mark)?, is_about)));
            if let Some((text, is_about)) = answer {
                let line = text.strip_prefix(' ').unwrap_or(text).to_owned();
                step.answer.push(Answer { line, is_about });
            } else {
                step.command += &format!("\n{line}");
            }
        }
    }
    steps
}

/// A page as the site shows it.
pub fn shown(path: &Path, text: &str) -> Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    let mut done = 0;
    for block in blocks(text) {
        out.extend(lines[done..block.lines.start].iter().map(|line| (*line).to_owned()));
        done = block.lines.end;
        if block.is_of_commands() {
            out.extend(split(&block).into_iter().map(|line| format!("{}{line}", block.indent)));
        } else if let [include] = block.content[..]
            && let Some(name) = include.strip_prefix("--8<-- ")
        {
            let file = root().join(EXAMPLES).join(name.trim_matches('"'));
            let code = fs::read_to_string(&file)
                .with_context(|| format!("{} includes {}", path.display(), file.display()))?;
            let fenced = format!("```{}\n{}\n```", block.language, code.trim_end());
            out.extend(fenced.lines().map(|line| format!("{}{line}", block.indent)));
        } else {
            out.extend(lines[block.lines].iter().map(|line| (*line).to_owned()));
        }
    }
    out.extend(lines[done..].iter().map(|line| (*line).to_owned()));
    out.retain(|line| !line.trim().starts_with(NOT_RUN) && line.trim() != LONG);
    Ok(out.join("\n") + "\n")
}

/// Commands in one block as far as nothing is answered, and answers in another.
fn split(block: &Block<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let mut commands = Vec::new();
    for step in steps(block) {
        commands.extend(step.command.lines().map(str::to_owned));
        if !step.answer.is_empty() {
            out.extend(fenced("sh", commands.drain(..)));
            out.extend(fenced(
                "{ .text .answer }",
                step.answer.into_iter().map(|answer| answer.line),
            ));
            out.push(String::new());
        }
    }
    if !commands.is_empty() {
        out.extend(fenced("sh", commands.into_iter()));
    }
    out
}

fn fenced(language: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let head = [format!("``` {language}")];
    head.into_iter().chain(lines).chain(["```".to_owned(), String::new()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n=== \"Terminal\"\n\n    ```sh\n    $ molbox job list \\\n        --all\n    \
                        #=> NAME  …\n    #=~ 59 at 1.5\n    $ cd x\n    ```\n\n```text\nno code\n```\n\n```toml\na = 1\n```\n";

    #[test]
    fn commands_and_their_answers_are_shown_apart() {
        let shown = shown(Path::new("docs/guides/a.md"), PAGE).unwrap();
        let expected = "    ``` sh\n    molbox job list \\\n        --all\n    ```\n    \n    \
                        ``` { .text .answer }\n    NAME  …\n    59 at 1.5\n    ```\n";
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains("$ "), "{shown}");
    }

    #[test]
    fn code_that_is_neither_run_nor_included_is_loose() {
        let loose: Vec<bool> = blocks(PAGE).iter().map(Block::is_kept_right).collect();
        assert_eq!(loose, [true, true, false]);
    }
}
