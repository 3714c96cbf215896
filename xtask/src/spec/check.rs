//! `cargo xtask spec check`: the rules, the examples, the service's routes and statuses, the derived
//! files; each problem with its place and what mends it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use molbox_codegen::Document;
use serde_json::{Value, json};

use super::examples::{Examples, FOLDER};
use super::lines::Lines;
use super::served::{self, Place};
use super::shape::Api;
use super::source::PATH;
use crate::regenerate::{derived, printed, stale_from};

/// Something that is not as it must be.
pub struct Problem {
    state: State,
    file: String,
    line: Option<u64>,
    /// JSON pointer in the file.
    at: String,
    message: String,
}

/// How the document and what belongs to it stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Fine,
    /// `cargo xtask regenerate` mends it.
    Stale,
    /// Somebody has to think.
    Broken,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Stale => "stale",
            Self::Broken => "broken",
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Broken => 1,
            Self::Stale => 4,
        }
    }
}

impl Problem {
    fn remedy(&self) -> String {
        match self.state {
            State::Stale => "cargo xtask regenerate".to_owned(),
            _ => format!("edit {}, then cargo xtask spec check", self.place()),
        }
    }

    fn place(&self) -> String {
        self.line.map_or_else(|| self.file.clone(), |line| format!("{}:{line}", self.file))
    }

    fn json(&self) -> Value {
        json!({
            "state": self.state.name(),
            "file": self.file,
            "line": self.line,
            "at": self.at,
            "message": self.message,
            "remedy": self.remedy(),
        })
    }
}

/// Every problem of the document in `text`, of its examples, and of the derived files under `root`.
pub fn problems(root: &Path, text: &str) -> Result<Vec<Problem>> {
    let broken = |file: &str, line, at: &str, message: &str| Problem {
        state: State::Broken,
        file: file.to_owned(),
        line,
        at: at.to_owned(),
        message: message.to_owned(),
    };
    let document = match Document::read(text) {
        Ok(document) => document,
        // The message names line and column.
        Err(problem) => return Ok(vec![broken(PATH, None, "", &problem.to_string())]),
    };
    let lines = Lines::read(text)?;
    let mut out: Vec<Problem> = document
        .problems()
        .iter()
        .map(|problem| broken(PATH, Some(lines.of(&problem.at)), &problem.at, &problem.message))
        .collect();
    let api = Api::new(document.value.clone());
    for difference in served::differences(&api, &served::Source::read(root)?)? {
        out.push(match difference.place {
            Place::Document(at) => broken(PATH, Some(lines.of(&at)), &at, &difference.message),
            Place::Line(file, line) => broken(file, Some(line), "", &difference.message),
        });
    }
    let examples = match Examples::read(&root.join(FOLDER)) {
        Ok(examples) => examples,
        // The message names file, line and column.
        Err(problem) => {
            out.push(broken(FOLDER, None, "", &format!("{problem:#}")));
            return Ok(out);
        }
    };
    for fault in examples.faults(&api) {
        let file = format!("{FOLDER}/{}", fault.file);
        let line = std::fs::read_to_string(root.join(&file)).ok().and_then(|text| Lines::read(&text).ok());
        out.push(broken(&file, line.map(|lines| lines.of(&fault.at)), &fault.at, &fault.message));
    }
    // From a broken document nothing is derived.
    if out.is_empty() {
        out.extend(stale(root, derived(&document, &examples)?));
    }
    Ok(out)
}

fn stale(root: &Path, files: Vec<(PathBuf, String)>) -> Vec<Problem> {
    let found = files.into_iter().filter_map(|(path, text)| Some((stale_from(&root.join(&path), &text)?, path)));
    let problem = |(line, path): (u64, PathBuf)| Problem {
        state: State::Stale,
        file: path.display().to_string(),
        line: Some(line),
        at: String::new(),
        message: "is not what it is derived from".to_owned(),
    };
    found.map(problem).collect()
}

pub fn state(problems: &[Problem]) -> State {
    problems.iter().map(|problem| problem.state).max().unwrap_or(State::Fine)
}

/// Checks, prints, and returns the exit code.
pub fn check(root: &Path, json: bool) -> Result<u8> {
    let path = root.join(PATH);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let mut problems = problems(root, &text)?;
    // From a broken document nothing is built.
    if state(&problems) != State::Broken {
        problems.extend(stale(root, printed()?));
    }
    let state = state(&problems);
    let report = if json {
        let problems: Vec<Value> = problems.iter().map(Problem::json).collect();
        serde_json::to_string_pretty(&json!({ "state": state.name(), "problems": problems }))? + "\n"
    } else {
        let told = problems.iter().map(|problem| {
            let at = if problem.at.is_empty() { String::new() } else { format!("{}: ", problem.at) };
            format!("{}: {at}{}\n    {}\n", problem.place(), problem.message, problem.remedy())
        });
        told.collect::<String>() + &format!("{PATH}: {}\n", state.name())
    };
    crate::print(&report)?;
    Ok(state.exit_code())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Problem, State, problems, stale, state};
    use crate::root;
    use crate::spec::source::PATH;

    fn text() -> String {
        fs::read_to_string(root().join(PATH)).unwrap()
    }

    #[test]
    fn the_document_is_fine_and_its_derived_files_are_current() {
        let problems = problems(&root(), &text()).unwrap();
        let told: Vec<String> =
            problems.iter().map(|p| format!("{}: {} ({})", p.place(), p.message, p.remedy())).collect();
        assert_eq!(state(&problems), State::Fine, "{told:#?}");
    }

    /// What is found after `before` became `after` for the first time: the problem that has `words`.
    fn found(before: &str, after: &str, words: &str) -> Problem {
        let text = text();
        assert!(text.contains(before), "the document no longer has {before:?}");
        let problems = problems(&root(), &text.replacen(before, after, 1)).unwrap();
        let told: Vec<String> = problems.iter().map(|p| p.message.clone()).collect();
        problems.into_iter().find(|p| p.message.contains(words)).unwrap_or_else(|| panic!("{told:#?}"))
    }

    #[test]
    fn a_misspelled_keyword_is_told_with_its_line() {
        let problem = found(
            "          minimum: 0\n          nullable: true\n          x-unit: K",
            "          minimun: 0\n          nullable: true\n          x-unit: K",
            "misspelled",
        );
        let line = text().lines().position(|line| line.trim() == "temperature:").unwrap() as u64 + 1;
        assert_eq!(problem.state, State::Broken);
        assert_eq!(problem.line, Some(line + 3), "{}", problem.at);
        assert!(problem.remedy().contains(&format!("{PATH}:{}", line + 3)));
    }

    #[test]
    fn an_example_that_its_schema_refuses_is_broken() {
        let problem = found(
            "        box_shape:\n          type: string",
            "        box_shape:\n          type: boolean",
            "must be boolean",
        );
        assert!(problem.file.starts_with("openapi/examples/system_"), "{}", problem.file);
        assert!(problem.at.ends_with("/box_shape"));
        assert!(problem.line.is_some());
        let problem = found("        box_shape:\n", "        box_form:\n", "is not in the schema");
        assert_eq!(problem.state, State::Broken);
    }

    #[test]
    fn what_the_generated_code_would_drop_is_told() {
        let bound = found(
            "          minimum: 0\n          nullable: true\n          x-unit: K",
            "          minimum: 3\n          nullable: true\n          x-unit: K",
            "no Rust type enforces",
        );
        assert!(bound.at.ends_with("/properties/temperature"), "{}", bound.at);
        let dropped = found("        pH:\n", "        pH:\n          uniqueItems: true\n", "honours `uniqueItems`");
        assert!(dropped.at.ends_with("/properties/pH") && dropped.line.is_some(), "{}", dropped.at);
    }

    #[test]
    fn an_operation_that_nobody_serves_is_broken() {
        let problem = found("operationId: job_view", "operationId: job_show", "job_show is documented but not served");
        assert_eq!((problem.state, problem.at.as_str()), (State::Broken, "/paths/~1info~1job~1{job_id}/get"));
        let problem = found("operationId: job_view", "operationId: job_show", "job_view is served but not documented");
        assert_eq!(problem.file, "crates/service/src/routes.rs");
        assert!(problem.remedy().contains("routes.rs:"), "{}", problem.remedy());
        let problem = found("        '429':\n", "        '402':\n", "402, which nothing in the service answers");
        assert!(problem.line.is_some());
    }

    #[test]
    fn a_derived_file_is_stale_from_the_line_that_was_edited() {
        let files = vec![("Cargo.toml".into(), fs::read_to_string(root().join("Cargo.toml")).unwrap())];
        assert!(stale(&root(), files.clone()).is_empty());
        let [(path, text)]: [_; 1] = files.try_into().unwrap();
        let edited = text.replacen("[workspace]", "[work space]", 1);
        let line = text.lines().position(|line| line == "[workspace]").unwrap() as u64 + 1;
        for (path, text, line) in [
            (path, edited, line),
            ("Cargo.toml".into(), text.trim_end().to_owned(), text.lines().count() as u64),
            ("no such file".into(), String::new(), 1),
        ] {
            let problems = stale(&root(), vec![(path, text)]);
            let [problem] = problems.as_slice() else { panic!("it is not the same") };
            assert_eq!((problem.state, problem.line), (State::Stale, Some(line)));
            assert_eq!(problem.remedy(), "cargo xtask regenerate");
        }
    }

    #[test]
    fn other_words_make_the_derived_files_stale() {
        let text = text().replacen("description: Simulation jobs", "description: Jobs", 1);
        let problems = problems(&root(), &text).unwrap();
        assert_eq!(state(&problems), State::Stale);
        let files: Vec<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
        for file in ["openapi/openapi.json", "openapi/openapi-3.1.json", "docs/reference/job.md"] {
            assert!(files.contains(&file), "{file} is not in {files:?}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_broken() {
        assert_eq!(found("openapi: 3.0.3", "openapi: [", "line").state, State::Broken);
    }
}
