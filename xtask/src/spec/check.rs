//! `cargo xtask spec check`: the rules, the interface, the service's routes and statuses, the examples,
//! the last commit, the derived files; each problem with its place and what fixes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use molbox_codegen::Document;
use openapi_drift::{Api, Report};
use serde_json::{Value, json};

use super::examples::{Examples, FOLDER, Fault};
use super::lines::Lines;
use super::served::{self, Place};
use super::source::PATH;
use super::{interface, since};
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
    /// `cargo xtask regenerate` is all that it needs.
    Stale,
    /// Something breaks clients, or demands less than before: somebody has to want it.
    Changed,
    /// It is wrong.
    Broken,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Stale => "stale",
            Self::Changed => "changed",
            Self::Broken => "broken",
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Broken => 1,
            Self::Changed => 3,
            Self::Stale => 4,
        }
    }
}

impl Problem {
    fn remedy(&self) -> String {
        match self.state {
            State::Stale => "cargo xtask regenerate".to_owned(),
            State::Changed => format!("restore {}, or commit it if it is meant", self.place()),
            _ => format!("edit {}, then cargo xtask spec check", self.place()),
        }
    }

    fn place(&self) -> String {
        self.line.map_or_else(|| self.file.clone(), |line| format!("{}:{line}", self.file))
    }

    pub fn json(&self) -> Value {
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

/// What the document is checked against.
pub struct Repository {
    root: PathBuf,
    /// An earlier document, and what it is.
    base: (String, Api),
    source: served::Source,
    words: BTreeSet<String>,
    /// The examples, or what is wrong with a file of them.
    examples: Result<Examples, String>,
}

impl Repository {
    pub fn read(root: &Path) -> Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            base: since::last_commit(root)?,
            source: served::Source::read(root)?,
            words: served::words(root)?,
            // The message names file, line and column.
            examples: Examples::read(&root.join(FOLDER)).map_err(|problem| format!("{problem:#}")),
        })
    }

    /// With another document to compare with.
    #[cfg(test)]
    pub fn since(self, name: &str, api: Api) -> Self {
        Self { base: (name.to_owned(), api), ..self }
    }

    /// Every problem of the document in `text`, of its examples, and of the derived files. What is
    /// wrong in itself comes first, then what changed, and last what is merely stale.
    pub fn problems(&self, text: &str) -> Result<Vec<Problem>> {
        let document = match Document::read(text) {
            Ok(document) => document,
            // The message names line and column.
            Err(problem) => return Ok(vec![broken(PATH, None, "", &problem.to_string())]),
        };
        let lines = Lines::read(text)?;
        let here = |at: &str, message: &str| broken(PATH, Some(lines.of(at)), at, message);
        let mut out: Vec<Problem> =
            document.problems().iter().map(|problem| here(&problem.at, &problem.message)).collect();
        let api = match Api::checked(document.value.clone()) {
            Ok(api) => api,
            Err(error) => {
                out.push(broken(PATH, None, "", &error.to_string()));
                return Ok(out);
            }
        };
        out.extend(interface::differences(&api)?.iter().map(|(at, message)| here(at, message)));
        out.extend(release(&api).map(|message| here(since::RELEASE, &message)));
        let unknown = served::unknown_values(&api.value, &self.words, "");
        out.extend(unknown.iter().map(|(at, message)| here(at, message)));
        for difference in served::differences(&api, &self.source)? {
            out.push(match difference.place {
                Place::Document(at) => here(&at, &difference.message),
                Place::Line(file, line) => broken(file, Some(line), "", &difference.message),
            });
        }
        match &self.examples {
            Ok(examples) => out.extend(self.faults(examples, &api)),
            Err(problem) => out.push(broken(FOLDER, None, "", problem)),
        }
        let (name, base) = &self.base;
        // Of a broken document no code is generated.
        let report = if out.is_empty() { since::report(base, &api) } else { Report::new(base, &api) };
        out.extend(since::loosened(&report, &api).into_iter().map(|(at, message)| Problem {
            state: State::Changed,
            file: PATH.to_owned(),
            line: (!at.is_empty()).then(|| lines.of(&at)),
            at,
            message: format!("since {name}: {message}"),
        }));
        // From a broken document nothing is derived, and a change that nobody may want is decided
        // first.
        if let (Ok(examples), true) = (&self.examples, out.is_empty()) {
            out.extend(stale(&self.root, derived(&document, examples)?));
        }
        Ok(out)
    }

    fn faults(&self, examples: &Examples, api: &Api) -> Vec<Problem> {
        let problem = |fault: Fault| {
            let file = format!("{FOLDER}/{}", fault.file);
            let text = std::fs::read_to_string(self.root.join(&file)).ok();
            let lines = text.and_then(|text| Lines::read(&text).ok());
            broken(&file, lines.map(|lines| lines.of(&fault.at)), &fault.at, &fault.message)
        };
        examples.faults(api).into_iter().map(problem).collect()
    }
}

fn broken(file: &str, line: Option<u64>, at: &str, message: &str) -> Problem {
    Problem { state: State::Broken, file: file.to_owned(), line, at: at.to_owned(), message: message.to_owned() }
}

/// Whether the document and the packages have the number of the same release.
fn release(api: &Api) -> Option<String> {
    let packages = env!("CARGO_PKG_VERSION");
    let stated = api.value.pointer(since::RELEASE).and_then(Value::as_str).unwrap_or("missing");
    (stated != packages).then(|| format!("is {stated}, and Cargo.toml has version {packages}: they are one number"))
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
    let repository = Repository::read(root)?;
    // To standard error: standard output is the report alone.
    eprintln!("comparing {PATH} with the interface, the service's source and {} …", repository.base.0);
    let mut problems = repository.problems(&text)?;
    if state(&problems) < State::Changed {
        eprintln!("building molbox and molboxd to compare what they print of themselves …");
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

    use super::{Problem, Repository, State, stale, state};
    use crate::root;
    use crate::spec::source::PATH;

    fn problems(text: &str) -> Vec<Problem> {
        Repository::read(&root()).unwrap().problems(text).unwrap()
    }

    fn text() -> String {
        fs::read_to_string(root().join(PATH)).unwrap()
    }

    #[test]
    fn the_document_is_fine_and_its_derived_files_are_current() {
        let problems = problems(&text());
        let told: Vec<String> =
            problems.iter().map(|p| format!("{}: {} ({})", p.place(), p.message, p.remedy())).collect();
        assert_eq!(state(&problems), State::Fine, "{told:#?}");
    }

    /// What is found after `before` became `after` for the first time: the problem that has `words`.
    fn found(before: &str, after: &str, words: &str) -> Problem {
        let text = text();
        assert!(text.contains(before), "the document no longer has {before:?}");
        let problems = problems(&text.replacen(before, after, 1));
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
        let problems = problems(&text);
        assert_eq!(state(&problems), State::Stale);
        let files: Vec<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
        for file in ["openapi/openapi.json", "openapi/openapi-workflow.json", "docs/reference/job.md"] {
            assert!(files.contains(&file), "{file} is not in {files:?}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_broken() {
        assert_eq!(found("openapi: 3.0.3", "openapi: [", "line").state, State::Broken);
    }
}
