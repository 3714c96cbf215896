//! The command `openapi-drift`, as people run it.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A document with one optional field in a request, of the type and version given.
fn document(openapi: &str, kind: &str, version: &str) -> String {
    format!(
        "{{\"openapi\": \"{openapi}\", \"info\": {{\"title\": \"T\", \"version\": \"{version}\"}}, \"paths\": {{\"/jobs\": {{\"get\": {{
            \"operationId\": \"job_list\", \"parameters\": [{{\"name\": \"limit\", \"in\": \"query\", \"schema\": {kind}}}],
            \"responses\": {{\"200\": {{\"description\": \"ok\"}}}}}}}}}}}}"
    )
}

const NUMBER: &str = "{\"type\": \"number\"}";
const INTEGER: &str = "{\"type\": \"integer\"}";

struct Desk(TempDir);

impl Desk {
    /// A folder with the documents `number`, `integer` and some others.
    fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        for (name, text) in [
            ("number.json", document("3.0.3", NUMBER, "1.0.0")),
            ("integer.json", document("3.0.3", INTEGER, "1.0.0")),
            ("integer-2.json", document("3.0.3", INTEGER, "2.0.0")),
            ("number-3.1.json", document("3.1.0", NUMBER, "1.0.0")),
            ("width-2.json", document("3.0.3", "{\"type\": \"number\", \"format\": \"float\"}", "2.0.0")),
            ("width.json", document("3.0.3", "{\"type\": \"number\", \"format\": \"float\"}", "1.0.0")),
            // Keys as people write them in YAML.
            (
                "number.yaml",
                "openapi: 3.0.3\ninfo: {title: T, version: 1.0.0}\npaths:\n  /jobs:\n    \
                             get:\n      operationId: job_list\n      parameters:\n        - \
                             {name: limit, in: query, schema: {type: number}}\n      responses:\n        \
                             200: {description: ok}\n"
                    .to_owned(),
            ),
            ("swagger.json", "{\"swagger\": \"2.0\"}".to_owned()),
            ("broken.yaml", "openapi: [".to_owned()),
            ("split.yaml", "openapi: 3.0.3\npaths: {/a: {$ref: 'other.yaml#/a'}}\n".to_owned()),
        ] {
            fs::write(desk.0.path().join(name), text).unwrap();
        }
        desk
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_openapi-drift"))
            .current_dir(self.path())
            .args(arguments)
            .output()
            .unwrap()
    }

    fn code(&self, arguments: &[&str]) -> i32 {
        self.run(arguments).status.code().unwrap()
    }
}

#[test]
fn the_exit_status_says_whether_something_breaks() {
    let desk = Desk::new();
    for (arguments, code) in [
        (&["number.json", "number.json"][..], 0),
        (&["integer.json", "number.json"], 0),
        (&["number.json", "integer.json"], 1),
        (&["number.json", "integer-2.json"], 1),
        (&["--allow-announced", "number.json", "integer-2.json"], 0),
        (&["--allow-announced", "number.json", "integer.json"], 1),
        // Nothing on the wire, another type in Go and Java, and in Rust.
        (&["number.json", "width.json"], 0),
        (&["--fail-on", "any", "--no-rust", "number.json", "width.json"], 1),
        // What is announced is what counts.
        (&["--fail-on", "any", "--allow-announced", "--no-rust", "number.json", "width.json"], 1),
        (&["--fail-on", "any", "--allow-announced", "number.json", "width.json"], 1),
        (&["--fail-on", "any", "--allow-announced", "--no-rust", "number.json", "width-2.json"], 0),
        (&["number.json", "missing.json"], 2),
        (&["number.json", "swagger.json"], 2),
        (&["number.json", "broken.yaml"], 2),
        (&["number.json", "split.yaml"], 2),
        (&["number.json"], 2),
        (&["number.json", "integer.json", "--no-such-flag"], 2),
        // Not known is not fine.
        (&["--fail-on", "rust", "--no-rust", "integer.json", "integer-2.json"], 2),
        (&["--fail-on", "rust", "number.json", "number-3.1.json"], 2),
    ] {
        let output = desk.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert_eq!(
            code == 2,
            output.stdout.is_empty() || !text.is_empty(),
            "{arguments:?}: {text}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_reason() {
    let desk = Desk::new();
    for (name, words) in [
        ("missing.json", "missing.json is neither a file nor a REVISION:PATH"),
        ("swagger.json", "not an OpenAPI 3 document"),
        ("broken.yaml", "line 1"),
        ("split.yaml", "bundle the document first"),
        (
            "nowhere:number.json",
            "nowhere:number.json is neither a file nor a REVISION:PATH of a git repository here: ",
        ),
    ] {
        let output = desk.run(&["number.json", name]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(words), "{name}: {text}");
    }
}

#[test]
fn json_has_every_verdict_and_every_finding() {
    let output = Desk::new().run(&["--json", "number.json", "integer.json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "breaking");
    assert_eq!(report["generated_code"]["go"], "breaking");
    assert_eq!(report["generated_code"]["typescript"], "compatible");
    assert_eq!(report["findings"][0]["at"], "query parameter limit");
    assert_eq!(report["findings"][0]["operations"][0], "GET /jobs");
    assert_eq!(report["announced"], false);
}

#[test]
fn yaml_and_json_and_both_versions_of_openapi_are_one() {
    let desk = Desk::new();
    for name in ["number.yaml", "number-3.1.json"] {
        let text = String::from_utf8(desk.run(&["number.json", name, "--no-rust"]).stdout).unwrap();
        assert!(text.contains("0 breaking, 0 compatible"), "{name}: {text}");
    }
}

#[test]
fn a_revision_of_a_repository_is_read() {
    let desk = Desk::new();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(desk.path())
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(arguments);
        assert!(git.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "first"]);
    fs::write(desk.path().join("number.json"), document("3.0.3", INTEGER, "1.0.0")).unwrap();
    assert_eq!(desk.code(&["HEAD:number.json", "number.json", "--no-rust"]), 1);
    assert_eq!(desk.code(&["HEAD:./integer.json", "number.json", "--no-rust"]), 0);
    // A name that begins like an option is none.
    assert_eq!(desk.code(&["--", "--output=x:number.json", "number.json"]), 2);
    assert!(!desk.path().join("x:number.json").exists());
}
