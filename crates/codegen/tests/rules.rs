//! The rules, each broken once in the document that obeys them all.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use molbox_codegen::{Document, Part, Scope};

fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/molbox.yaml");
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_document_obeys_the_rules() {
    let violations = Document::read(&text()).unwrap().violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

/// A first occurrence of some text in the document, what to put in its place, and words of the
/// violation that this makes.
const FAULTS: [(&str, &str, &str); 45] = [
    ("openapi: 3.0.3", "openapi: 3.1.0", "must be 3.0.3"),
    (
        "          minimum: 0\n          nullable: true\n          x-unit: K",
        "          minimun: 0\n          nullable: true\n          x-unit: K",
        "misspelled",
    ),
    (
        "          minimum: 0\n          nullable: true\n          x-unit: K",
        "          minimum: 1\n          nullable: true\n          x-unit: K",
        "no Rust type enforces",
    ),
    (
        "          minimum: 0\n          nullable: true\n          x-unit: K",
        "          minimum: 0\n          maximum: 9\n          nullable: true\n          x-unit: K",
        "honours `maximum`",
    ),
    (
        "          format: double\n          minimum: 0\n          nullable: true\n          \
         x-unit: K",
        "          minimum: 0\n          nullable: true\n          x-unit: K",
        "no Rust type enforces",
    ),
    (
        "          format: int64\n          minimum: 0\n          nullable: true\n          \
         description: 'Index",
        "          format: int32\n          minimum: 0\n          nullable: true\n          \
         description: 'Index",
        "no Rust type enforces",
    ),
    (
        "      minLength: 1\n      description: |\n        Associated",
        "      minItems: 1\n      description: |\n        Associated",
        "honours `minItems`",
    ),
    ("      operationId: job_list", "      operationId: listJobs", "operationId in snake_case"),
    ("      operationId: job_list\n", "", "operationId in snake_case"),
    (
        "      tags: [job]\n      summary: List jobs",
        "      tags: [job, file]\n      summary: List jobs",
        "one tag",
    ),
    ("      summary: List jobs\n", "", "needs a summary"),
    (
        "      description: Lists the jobs of the account, newest first, a page at a time.\n",
        "",
        "needs a description",
    ),
    (
        "          description: 'Human-friendly batch name, at most 200 characters, none of them \
         a control character. Default: none.'\n",
        "",
        "needs a description",
    ),
    ("x-unit: K\n", "x-unit: °C\n", "does not name the unit °C"),
    ("x-default: 300\n", "x-default: 298\n", "does not say `Default: 298`"),
    ("x-values: [cube, rectangular", "x-values: [cube, sphere", "does not name `sphere`"),
    (
        "x-values: [cube, rectangular, dodecahedron, ",
        "x-values: [",
        "none of the values that are allowed",
    ),
    ("x-values: [cube, ", "x-values: [cube, cu-be, ", "cu-be is another of x-values"),
    ("          x-open: true\n", "          x-open: false\n", "not an extension of this document"),
    ("x-to: 14\n", "x-to: 13.5\n", "does not name 13.5, which is x-to"),
    ("x-from: 0\n          x-to: 14\n", "x-from: 14\n", "none of the values that are allowed"),
    ("x-above: 0\n          x-to: 10\n", "x-above: 3\n", "none of the values that are allowed"),
    ("x-above: 0\n          x-to: 10\n", "x-above: 0\n          x-from: 0\n", "not with both"),
    ("x-to: 14\n", "x-to: ten\n", "not an extension of this document"),
    (
        "      in: path\n      required: true\n      description: Identifier of a file.",
        "      in: path\n      description: Identifier of a file.",
        "a path parameter is `required: true`",
    ),
    (
        "          x-origin: molbox\n",
        "          x-origin: somebody\n",
        "not an extension of this document",
    ),
    ("x-choice: the defaults", "x-because: the defaults", "not an extension of this document"),
    (
        "        name:\n          type: string\n          x-from: 1\n          x-to: 200\n          \
         description: |\n            Name given",
        "        name:\n          type: string\n          enum: [a]\n          x-from: 1\n          \
         x-to: 200\n          description: |\n            Name given",
        "needs a name of its own",
    ),
    (
        "        pdb_id:\n          $ref: '#/components/schemas/PdbId'",
        "        pdb_id:\n          $ref: '#/components/schemas/PdbId'\n          nullable: true",
        "beside a $ref nothing is read",
    ),
    (
        "            - $ref: '#/components/schemas/ProductionParams'\n            - enum: [null]",
        "            - $ref: '#/components/schemas/ProductionParams'\n            - type: object",
        "anyOf is only for a nullable reference",
    ),
    (
        "          anyOf:\n            - $ref: '#/components/schemas/ProductionParams'\n            \
         - enum: [null]",
        "          nullable: true\n          allOf:\n            - $ref: \
         '#/components/schemas/ProductionParams'",
        "allOf and not are read differently",
    ),
    ("      enum: [NPT, NVT]", "      enum: [NPT, npt]", "become one identifier"),
    (
        "      additionalProperties: {}",
        "      additionalProperties: true",
        "write `additionalProperties: {}`",
    ),
    (
        "      required: [file_id, upload_url, expires_at]",
        "      required: [file_id, upload_url, expires_on]",
        "requires expires_on",
    ),
    (
        "      pattern: '^job_[0-9a-z]{20}$'",
        "      pattern: 'job_[0-9a-z]{20}'",
        "anchored at both ends",
    ),
    (
        "        '422':\n          $ref: '#/components/responses/ValidationFailed'",
        "        default:\n          $ref: '#/components/responses/ValidationFailed'",
        "write a status in full",
    ),
    (
        "        required: true\n        description: The file registration record.",
        "        required: false\n        description: The file registration record.",
        "must be required",
    ),
    (
        "          application/json:\n            schema:\n              $ref: \
         '#/components/schemas/FileRegistration'",
        "          text/csv:\n            schema:\n              $ref: \
         '#/components/schemas/FileRegistration'",
        "must be application/json first",
    ),
    ("        - $ref: '#/components/parameters/PageToken'\n", "", "a paged list needs"),
    (
        "      schema:\n        $ref: '#/components/schemas/JobId'",
        "      schema:\n        type: string",
        "needs a named schema with a pattern",
    ),
    (
        "    BoxId:",
        "    OtherId:\n      type: string\n      description: Unused.\n    BoxId:",
        "is used nowhere",
    ),
    (
        "$ref: '#/components/schemas/BoxId'",
        "$ref: '#/components/schemas/Missing'",
        "does not exist",
    ),
    (
        "$ref: '#/components/schemas/JobSettings'",
        "$ref: '#/components/schemas/JobCreateParams'",
        "a schema of its own",
    ),
    (
        "          type: string\n          description: Identifier of the job.\n",
        "          $ref: '#/components/schemas/JobId'\n",
        "an answer holds plain texts",
    ),
    ("      additionalProperties: {}\n    FilePage:", "    FilePage:", "an answer is open"),
];

#[test]
fn every_rule_is_noticed_when_it_is_broken() {
    let text = text();
    for (before, after, words) in FAULTS {
        assert!(text.contains(before), "the document no longer has {before:?}");
        let document = Document::read(&text.replacen(before, after, 1)).unwrap();
        let violations = document.violations();
        let found = violations.iter().any(|violation| violation.message.contains(words));
        assert!(found, "{before:?} -> {after:?}: expected {words:?}, found {violations:#?}");
    }
}

#[test]
fn what_is_not_yaml_is_reported_with_its_line() {
    let error = Document::read("openapi: 3.0.3\ninfo: [").unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn the_generated_code_is_the_same_each_time_and_knows_its_part() {
    let document = Document::read(&text()).unwrap();
    for part in Part::ALL {
        let once = document.rust(part, Scope::Client).unwrap();
        assert_eq!(once, document.rust(part, Scope::Client).unwrap());
        assert_eq!(once.contains("fn margin_submit"), part == Part::Margin);
        assert_eq!(once.contains("fn job_submit"), part == Part::Workflow);
        assert!(!once.contains("pub fn new(baseurl"), "progenitor's constructor is gone");
        let types = document.rust(part, Scope::Types).unwrap();
        assert!(!types.contains("reqwest"), "types need no HTTP");
    }
}
