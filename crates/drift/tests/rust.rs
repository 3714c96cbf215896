//! The verdict for Rust: from the generated code of both documents, or unknown with a reason.
#![cfg(feature = "rust")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use openapi_drift::{Api, Report, Rust, Verdict};
use serde_json::{Value, json};

const DOCUMENT: &str = "
openapi: 3.0.3
info: {title: Small, version: 0.1.0}
paths:
  /jobs:
    get:
      operationId: job_list
      x-dropshot-pagination: {required: []}
      parameters:
        - {name: limit, in: query, schema: {type: integer, format: int64, minimum: 1}}
        - {name: page_token, in: query, schema: {type: string}}
      responses: {'200': {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/JobPage'}}}}}
    post:
      operationId: job_submit
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/JobRequest'}}}}
      responses: {'200': {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Job'}}}}}
  /jobs/{job_id}:
    get:
      operationId: job_view
      parameters: [{name: job_id, in: path, required: true, schema: {$ref: '#/components/schemas/JobId'}}]
      responses: {'200': {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Job'}}}}}
components:
  schemas:
    JobId: {type: string, pattern: '^job_'}
    JobRequest:
      type: object
      properties:
        temperature: {type: number, format: double, minimum: 0}
        steps: {type: integer, format: int64, minimum: 0}
        stages: {type: array, items: {type: string}}
        mask: {type: string}
        ensemble: {$ref: '#/components/schemas/Ensemble'}
    Ensemble: {type: string, enum: [NPT, NVT]}
    Job:
      type: object
      required: [job_id, state]
      properties:
        job_id: {$ref: '#/components/schemas/JobId'}
        state: {$ref: '#/components/schemas/State'}
        note: {type: string}
      additionalProperties: {}
    State: {type: string, enum: [queued, done]}
    JobPage:
      type: object
      required: [items]
      properties: {items: {type: array, items: {$ref: '#/components/schemas/Job'}}, next_page: {type: string, nullable: true}}
";

fn document() -> Value {
    serde_saphyr::from_str(DOCUMENT).unwrap()
}

/// The comparison with a document in which something is set, or taken away for null.
fn after(pointer: &str, value: Value) -> Report {
    let mut changed = document();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/");
    let parent = changed.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no place"));
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().shift_remove(&key)),
        value => parent[key] = value,
    }
    Report::with_rust(&Api::new(document()), &Api::new(changed))
}

const REQUEST: &str = "/components/schemas/JobRequest/properties";

#[test]
fn what_changes_the_generated_types_breaks_code_that_uses_them() {
    let integer = |minimum: Option<i64>| {
        let mut schema = json!({"type": "integer", "format": "int64"});
        if let Some(minimum) = minimum {
            schema["minimum"] = json!(minimum);
        }
        schema
    };
    let list = "/paths/~1jobs/get";
    for (pointer, value, item, message) in [
        // Bounds are types, whatever they mean on the wire.
        (
            "temperature/minimum",
            Value::Null,
            "types::JobRequest.temperature",
            "NonNegative> became Option<crate::Finite>",
        ),
        (
            "temperature/exclusiveMinimum",
            json!(true),
            "types::JobRequest.temperature",
            "NonNegative> became Option<crate::Positive>",
        ),
        (
            "steps",
            integer(Some(1)),
            "types::JobRequest.steps",
            "Option<u64> became Option<NonZeroU64>",
        ),
        ("steps", integer(None), "types::JobRequest.steps", "Option<u64> became Option<i64>"),
        // So are lengths and patterns.
        (
            "mask/maxLength",
            json!(80),
            "types::JobRequest.mask",
            "Option<String> became Option<JobRequestMask>",
        ),
        (
            "mask/pattern",
            json!("^@"),
            "types::JobRequest.mask",
            "Option<String> became Option<JobRequestMask>",
        ),
        (
            "stages/nullable",
            json!(true),
            "types::JobRequest.stages",
            "Vec<String> became Option<Vec<String>>",
        ),
        ("mask", Value::Null, "types::JobRequest.mask", "the field is gone"),
        (
            "/components/schemas/Job/required",
            json!(["job_id", "state", "note"]),
            "types::Job.note",
            "Option<String> became String",
        ),
        (
            "/components/schemas/Ensemble/enum",
            json!(["NPT"]),
            "types::Ensemble::Nvt",
            "the variant is gone",
        ),
        (
            "/components/schemas/State/enum",
            json!(["queued", "done", "held"]),
            "types::State::Held",
            "the variant is new",
        ),
        // What can be left out no longer.
        (
            "/components/schemas/JobRequest/required",
            json!(["mask"]),
            "types::JobRequest: Default",
            "the implementation is gone",
        ),
        // Calls.
        (
            "/paths/~1jobs~1{job_id}/get/operationId",
            json!("job_show"),
            "Client::job_view()",
            "the method is gone",
        ),
        (
            &format!("{list}/x-dropshot-pagination"),
            Value::Null,
            "builder::JobList::stream()",
            "the method is gone",
        ),
        (
            &format!("{list}/parameters/0/schema/minimum"),
            json!(0),
            "builder::JobList::limit()",
            "Option<NonZeroU64>>) -> Self became",
        ),
        (
            &format!("{list}/parameters/0/name"),
            json!("size"),
            "builder::JobList::limit()",
            "the method is gone",
        ),
    ] {
        let pointer = if pointer.starts_with('/') {
            pointer.to_owned()
        } else {
            format!("{REQUEST}/{pointer}")
        };
        let report = after(&pointer, value);
        let Rust::Compared(changes) = &report.rust else { panic!("{pointer}: {:?}", report.rust) };
        let reported = changes.iter().any(|change| {
            change.verdict == Verdict::Breaking
                && change.item.ends_with(item)
                && change.message.contains(message)
        });
        assert!(reported, "{pointer} says nothing of {item}: {changes:#?}");
        assert_eq!(report.rust(), Ok(Some(Verdict::Breaking)));
    }
}

#[test]
fn what_only_adds_to_the_generated_code_breaks_nobody() {
    let operation =
        json!({"operationId": "job_count", "responses": {"200": {"description": "ok"}}});
    for (pointer, value) in [
        ("/components/schemas/JobRequest/properties/seed", json!({"type": "string"})),
        ("/components/schemas/Job/properties/seed", json!({"type": "string"})),
        // Nobody has to match what only they themselves send.
        ("/components/schemas/Ensemble/enum", json!(["NPT", "NVT", "NVE"])),
        ("/paths/~1jobs~1count", json!({"get": operation})),
        // It compiles; the wire has its own verdict.
        ("/components/schemas/JobId/pattern", json!("^box_")),
    ] {
        let report = after(pointer, value);
        assert_eq!(report.rust(), Ok(Some(Verdict::Compatible)), "{pointer}: {:#?}", report.rust);
    }
    let same = after("/components/schemas/Job/description", json!("A job."));
    assert_eq!((same.rust(), same.wire()), (Ok(Some(Verdict::Cosmetic)), Some(Verdict::Cosmetic)));
    // Answers keep other fields whatever the document says.
    let closed = after("/components/schemas/Job/additionalProperties", Value::Null);
    assert_eq!(closed.rust(), Ok(None));
}

#[test]
fn a_moved_operation_is_compared_with_what_it_was() {
    let mut changed = document();
    let paths = changed["paths"].as_object_mut().unwrap();
    let mut item = paths.shift_remove("/jobs/{job_id}").unwrap();
    item["get"]["parameters"][0]["name"] = json!("id");
    paths.insert("/job/{id}".to_owned(), item);
    let report = Report::with_rust(&Api::new(document()), &Api::new(changed));
    let Rust::Compared(changes) = &report.rust else { panic!("{:?}", report.rust) };
    let items: Vec<&str> = changes
        .iter()
        .filter(|c| c.verdict == Verdict::Breaking)
        .map(|c| c.item.as_str())
        .collect();
    assert_eq!(
        items,
        ["workflow::builder::JobView::job_id()", "workflow::builder::JobView::id()"],
        "{changes:#?}"
    );
}

#[test]
fn an_operation_on_another_base_address_is_another_client() {
    let report = after("/paths/~1jobs~1{job_id}/servers", json!([{"url": "http://other.invalid"}]));
    let Rust::Compared(changes) = &report.rust else { panic!("{:?}", report.rust) };
    assert!(
        changes
            .iter()
            .any(|c| c.item == "workflow::Client::job_view()" && c.message == "the method is gone"),
        "{changes:#?}"
    );
}

#[test]
fn what_no_code_is_generated_of_is_unknown_and_never_fine() {
    let error = |schema: Value| json!({"description": "no", "content": {"application/json": {"schema": schema}}});
    let view = "/paths/~1jobs~1{job_id}/get";
    for (pointer, value, words) in [
        ("/openapi".to_owned(), json!("3.1.0"), "progenitor reads OpenAPI 3.0, not 3.1.0"),
        // Two kinds of failure: the generator panics.
        (
            format!("{view}/responses"),
            json!({"200": {"description": "ok"}, "404": error(json!({"type": "string"})), "422": error(json!({"type": "object"}))}),
            "the generator panics",
        ),
        (
            "/paths/~1jobs/post/requestBody/content".to_owned(),
            json!({"multipart/form-data": {"schema": {"type": "object"}}}),
            "new document",
        ),
        (format!("{view}/operationId"), Value::Null, "new document"),
    ] {
        let report = after(&pointer, value);
        assert!(
            report.rust().is_err_and(|reason| reason.contains(words)),
            "{pointer}: {:?}",
            report.rust()
        );
        assert_eq!(report.json()["generated_code"]["rust"], "unknown");
        assert!(!report.is_announced(), "{pointer}");
        assert!(report.text(false).contains("rust unknown ("), "{}", report.text(false));
    }
}
