//! `cargo xtask spec check`: the rules, the interface, the service's routes and statuses, the
//! examples, the last commit, the derived files; each violation with its place and what fixes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use molbox_codegen::Document;
use openapi_drift::{Api, Report};
use serde_json::{Value, json};

use super::examples::{Examples, FOLDER};
use super::lines::Lines;
use super::served::{self, Place};
use super::source::PATH;
use super::{interface, since};
use crate::regenerate::{derived, printed, stale_from};

/// Something that is not as it must be.
pub struct Violation {
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

impl Violation {
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
            examples: Examples::read(&root.join(FOLDER)).map_err(|error| format!("{error:#}")),
        })
    }

    /// With another document to compare with.
    #[cfg(test)]
    pub fn since(self, name: &str, api: Api) -> Self {
        Self { base: (name.to_owned(), api), ..self }
    }

    /// Every violation of the document in `text`, of its examples, and of the derived files. What
    /// is wrong in itself comes first, then what changed, and last what is merely stale.
    pub fn violations(&self, text: &str) -> Result<Vec<Violation>> {
        let document = match Document::read(text) {
            Ok(document) => document,
            // The message names line and column.
            Err(error) => return Ok(vec![broken(PATH, None, "", &error.to_string())]),
        };
        let lines = Lines::read(text)?;
        let here = |at: &str, message: &str| broken(PATH, Some(lines.of(at)), at, message);
        let mut out: Vec<Violation> = document
            .violations()
            .iter()
            .map(|violation| here(&violation.at, &violation.message))
            .collect();
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
            Ok(examples) => out.extend(self.in_examples(examples, &api)),
            Err(error) => out.push(broken(FOLDER, None, "", error)),
        }
        let (name, base) = &self.base;
        // Of a broken document no code is generated.
        let report =
            if out.is_empty() { since::report(base, &api) } else { Report::new(base, &api) };
        out.extend(since::loosened(&report, &api).into_iter().map(|(at, message)| Violation {
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

    fn in_examples(&self, examples: &Examples, api: &Api) -> Vec<Violation> {
        let mut out = Vec::new();
        for (file, molbox_codegen::Violation { at, message }) in examples.violations(api) {
            let file = format!("{FOLDER}/{file}");
            let text = std::fs::read_to_string(self.root.join(&file)).ok();
            let lines = text.and_then(|text| Lines::read(&text).ok());
            out.push(broken(&file, lines.map(|lines| lines.of(&at)), &at, &message));
        }
        out
    }
}

fn broken(file: &str, line: Option<u64>, at: &str, message: &str) -> Violation {
    Violation {
        state: State::Broken,
        file: file.to_owned(),
        line,
        at: at.to_owned(),
        message: message.to_owned(),
    }
}

/// Whether the document and the packages have the number of the same release.
fn release(api: &Api) -> Option<String> {
    let packages = env!("CARGO_PKG_VERSION");
    let stated = api.value.pointer(since::RELEASE).and_then(Value::as_str).unwrap_or("missing");
    (stated != packages)
        .then(|| format!("is {stated}, and Cargo.toml has version {packages}: they are one number"))
}

fn stale(root: &Path, files: Vec<(PathBuf, String)>) -> Vec<Violation> {
    let found = files
        .into_iter()
        .filter_map(|(path, text)| Some((stale_from(&root.join(&path), &text)?, path)));
    let violations = found.map(|(line, path)| Violation {
        state: State::Stale,
        file: path.display().to_string(),
        line: Some(line),
        at: String::new(),
        message: "is not what it is derived from".to_owned(),
    });
    violations.collect()
}

pub fn state(violations: &[Violation]) -> State {
    violations.iter().map(|violation| violation.state).max().unwrap_or(State::Fine)
}

/// Checks, prints, and returns the exit code.
pub fn check(root: &Path, json: bool) -> Result<u8> {
    let path = root.join(PATH);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let repository = Repository::read(root)?;
    // To standard error: standard output is the report alone.
    eprintln!(
        "comparing {PATH} with the interface, the service's source and {} …",
        repository.base.0
    );
    let mut violations = repository.violations(&text)?;
    if state(&violations) < State::Changed {
        eprintln!("building molbox and molboxd to compare what they print of themselves …");
        violations.extend(stale(root, printed()?));
    }
    let state = state(&violations);
    let report = if json {
        let violations: Vec<Value> = violations.iter().map(Violation::json).collect();
        serde_json::to_string_pretty(&json!({ "state": state.name(), "violations": violations }))?
            + "\n"
    } else {
        let lines = violations.iter().map(|violation| {
            let at =
                if violation.at.is_empty() { String::new() } else { format!("{}: ", violation.at) };
            format!(
                "{}: {at}{}\n    {}\n",
                violation.place(),
                violation.message,
                violation.remedy()
            )
        });
        lines.collect::<String>() + &format!("{PATH}: {}\n", state.name())
    };
    crate::shell::print(&report)?;
    Ok(state.exit_code())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Repository, State, Violation, stale, state};
    use crate::shell::root;
    use crate::spec::source::PATH;

    fn violations(text: &str) -> Vec<Violation> {
        Repository::read(&root()).unwrap().violations(text).unwrap()
    }

    fn text() -> String {
        fs::read_to_string(root().join(PATH)).unwrap()
    }

    #[test]
    fn the_document_is_fine_and_its_derived_files_are_current() {
        let violations = violations(&text());
        let lines: Vec<String> = violations
            .iter()
            .map(|p| format!("{}: {} ({})", p.place(), p.message, p.remedy()))
            .collect();
        assert_eq!(state(&violations), State::Fine, "{lines:#?}");
    }

    /// What is found after `before` became `after` for the first time: the violation that has
    /// `words`.
    fn found(before: &str, after: &str, words: &str) -> Violation {
        let text = text();
        assert!(text.contains(before), "the document no longer has {before:?}");
        let violations = violations(&text.replacen(before, after, 1));
        let messages: Vec<String> = violations.iter().map(|p| p.message.clone()).collect();
        violations
            .into_iter()
            .find(|p| p.message.contains(words))
            .unwrap_or_else(|| panic!("{messages:#?}"))
    }

    #[test]
    fn a_misspelled_keyword_is_reported_with_its_line() {
        let violation = found(
            "          minimum: 0\n          nullable: true\n          x-unit: K",
            "          minimun: 0\n          nullable: true\n          x-unit: K",
            "misspelled",
        );
        let line =
            text().lines().position(|line| line.trim() == "temperature:").unwrap() as u64 + 1;
        assert_eq!(violation.state, State::Broken);
        assert_eq!(violation.line, Some(line + 3), "{}", violation.at);
        assert!(violation.remedy().contains(&format!("{PATH}:{}", line + 3)));
    }

    #[test]
    fn an_example_that_its_schema_refuses_is_broken() {
        let violation = found(
            "        box_shape:\n          type: string",
            "        box_shape:\n          type: boolean",
            "must be boolean",
        );
        assert!(violation.file.starts_with("openapi/examples/system_"), "{}", violation.file);
        assert!(violation.at.ends_with("/box_shape"));
        assert!(violation.line.is_some());
        let violation =
            found("        box_shape:\n", "        box_form:\n", "is not in the schema");
        assert_eq!(violation.state, State::Broken);
    }

    #[test]
    fn what_the_generated_code_would_drop_is_reported() {
        let bound = found(
            "          minimum: 0\n          nullable: true\n          x-unit: K",
            "          minimum: 3\n          nullable: true\n          x-unit: K",
            "no Rust type enforces",
        );
        assert!(bound.at.ends_with("/properties/temperature"), "{}", bound.at);
        let dropped = found(
            "        pH:\n",
            "        pH:\n          uniqueItems: true\n",
            "honours `uniqueItems`",
        );
        assert!(dropped.at.ends_with("/properties/pH") && dropped.line.is_some(), "{}", dropped.at);
    }

    #[test]
    fn an_operation_that_nobody_serves_is_broken() {
        let violation = found(
            "operationId: job_view",
            "operationId: job_show",
            "job_show is documented but not served",
        );
        assert_eq!(
            (violation.state, violation.at.as_str()),
            (State::Broken, "/paths/~1info~1job~1{job_id}/get")
        );
        let violation = found(
            "operationId: job_view",
            "operationId: job_show",
            "job_view is served but not documented",
        );
        assert_eq!(violation.file, "crates/service/src/http/routes.rs");
        assert!(violation.remedy().contains("routes.rs:"), "{}", violation.remedy());
        let violation = found(
            "        '429':\n",
            "        '402':\n",
            "402, which nothing in the service answers",
        );
        assert!(violation.line.is_some());
    }

    #[test]
    fn a_derived_file_is_stale_from_the_line_that_was_edited() {
        let files =
            vec![("Cargo.toml".into(), fs::read_to_string(root().join("Cargo.toml")).unwrap())];
        assert!(stale(&root(), files.clone()).is_empty());
        let [(path, text)]: [_; 1] = files.try_into().unwrap();
        let edited = text.replacen("[workspace]", "[work space]", 1);
        let line = text.lines().position(|line| line == "[workspace]").unwrap() as u64 + 1;
        for (path, text, line) in [
            (path, edited, line),
            ("Cargo.toml".into(), text.trim_end().to_owned(), text.lines().count() as u64),
            ("no such file".into(), String::new(), 1),
        ] {
            let violations = stale(&root(), vec![(path, text)]);
            let [violation] = violations.as_slice() else { panic!("it is not the same") };
            assert_eq!((violation.state, violation.line), (State::Stale, Some(line)));
            assert_eq!(violation.remedy(), "cargo xtask regenerate");
        }
    }

    #[test]
    fn other_words_make_the_derived_files_stale() {
        let text = text().replacen("description: Simulation jobs", "description: Jobs", 1);
        let violations = violations(&text);
        assert_eq!(state(&violations), State::Stale);
        let files: Vec<&str> = violations.iter().map(|violation| violation.file.as_str()).collect();
        for file in
            ["openapi/openapi.json", "openapi/openapi-workflow.json", "docs/reference/job.md"]
        {
            assert!(files.contains(&file), "{file} is not in {files:?}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_broken() {
        assert_eq!(found("openapi: 3.0.3", "openapi: [", "line").state, State::Broken);
    }
}
