//! Answers of a service of years later, with fields, values, ranges and forms that this client does
//! not know: all are read, and nothing is lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{JOB, JOB_ID, RUNNING, Server, answer, json};
use futures::{StreamExt, TryStreamExt};
use molbox::Error;
use molbox::workflow::types::{self, JobCreateParams, JobRecord, SystemBuildRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json as value};

/// Everything in an answer as a later service may have it: a member more in each object, `1.0` for
/// 1, texts that this version does not list, numbers beyond every range.
fn later(now: &Value) -> Value {
    match now {
        Value::Object(members) => {
            // Counts by name get a name more.
            let is_counts = members.values().all(Value::is_u64);
            let more = if is_counts { value!(1) } else { value!({"x": [1, null]}) };
            let members = members.iter().map(|(name, member)| (name.clone(), later(member)));
            members.chain([("of_later".to_owned(), more)]).collect()
        }
        Value::Array(items) => items.iter().map(later).collect(),
        Value::String(text) => value!(format!("{text}, later")),
        Value::Number(number) if !number.is_f64() => value!(number.as_f64().unwrap()),
        Value::Number(number) => value!(-1e9 - number.as_f64().unwrap()),
        other => other.clone(),
    }
}

/// An answer whose lists are null, as some writers have empty ones.
fn without_lists(now: &Value) -> Value {
    match now {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), without_lists(member))).collect()
        }
        Value::Array(_) => Value::Null,
        other => other.clone(),
    }
}

/// The same with 1 for `1.0`, and without what means the same when it is absent.
fn meaning(of: &Value) -> Value {
    match of {
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), meaning(member)))
            .filter(|(_, member)| {
                !member.is_null() && *member != value!([]) && *member != value!({})
            })
            .collect(),
        Value::Array(items) => items.iter().map(meaning).collect(),
        Value::Number(number) => value!(number.as_f64()),
        other => other.clone(),
    }
}

fn survives<T: DeserializeOwned + Serialize>(name: &str, now: &Value) {
    for answer in [later(now), without_lists(now), later(&without_lists(now))] {
        let read: T = serde_json::from_value(answer.clone())
            .unwrap_or_else(|e| panic!("{name}: {e}: {answer:#}"));
        assert_eq!(meaning(&serde_json::to_value(read).unwrap()), meaning(&answer), "{name}");
    }
}

#[test]
fn every_answer_of_a_later_service_is_read_and_written_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/examples");
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with(".json") || name.contains(".request.") {
            continue;
        }
        let now = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let operation = name.split('.').next().unwrap().to_owned();
        match operation.as_str() {
            "upload_url_create" => survives::<types::UploadLink>(&name, &now),
            "file_register" | "file_view" => survives::<types::FileRecord>(&name, &now),
            "file_list" => survives::<types::FilePage>(&name, &now),
            "system_submit" | "system_view" | "system_cancel" => {
                survives::<types::SystemRecord>(&name, &now)
            }
            "system_list" => survives::<types::SystemPage>(&name, &now),
            "job_submit" | "job_view" | "job_cancel" | "job_extend" | "job_retry" => {
                survives::<JobRecord>(&name, &now)
            }
            "job_list" => survives::<types::JobPage>(&name, &now),
            "job_series" => survives::<types::JobSeries>(&name, &now),
            "file_contents" => survives::<types::FileContents>(&name, &now),
            "mask_view" => survives::<types::MaskSelection>(&name, &now),
            "analysis_submit" | "analysis_view" | "analysis_cancel" => {
                survives::<types::AnalysisRecord>(&name, &now)
            }
            "analysis_list" => survives::<types::AnalysisPage>(&name, &now),
            "analysis_retrieve" => survives::<types::AnalysisData>(&name, &now),
            "system_check" => survives::<types::SystemPreview>(&name, &now),
            "job_check" => survives::<types::JobPreview>(&name, &now),
            "analysis_check" => survives::<types::AnalysisPreview>(&name, &now),
            "account_view" => survives::<types::Account>(&name, &now),
            "usage_view" => survives::<types::Usage>(&name, &now),
            "sign_in_view" => survives::<types::SignInWays>(&name, &now),
            "invitation_check" => survives::<types::OpenInvitation>(&name, &now),
            "session_create" | "session_view" | "invitation_accept" => {
                survives::<types::Session>(&name, &now)
            }
            "session_list" => survives::<types::SessionList>(&name, &now),
            "key_list" => survives::<types::KeyList>(&name, &now),
            "key_create" => survives::<types::NewKey>(&name, &now),
            "account_list" => survives::<types::AccountPage>(&name, &now),
            "account_create" | "account_change" => survives::<types::ManagedAccount>(&name, &now),
            "invitation_create" => survives::<types::Invitation>(&name, &now),
            "queue_list" => survives::<types::QueuePage>(&name, &now),
            "queue_cancel" => survives::<types::QueueEntry>(&name, &now),
            "service_view" => survives::<types::ServiceView>(&name, &now),
            "service_health" | "service_live" => survives::<types::Health>(&name, &now),
            "service_document" => survives::<types::Document>(&name, &now),
            // What the client sends is not read by it, and margins come as text.
            "margin_submit" => continue,
            error if error.starts_with(char::is_uppercase) => {
                survives::<types::HttpValidationError>(&name, &now)
            }
            other => panic!("{other} is an answer without a type in this test"),
        }
        seen.insert(operation);
    }
    assert!(seen.len() >= 30, "{seen:?}");
}

fn later_job(status: &str) -> String {
    let mut job: Value = later(&serde_json::from_str(RUNNING).unwrap());
    job["status"] = value!(status);
    job["request"]["equilibration"] = value!([]);
    job["parameters"]["trajectory_output_format"] = value!("xtc");
    job["parameters"]["production"]["type"] = value!("NVE");
    job.to_string()
}

#[tokio::test]
async fn records_of_a_later_service_are_viewed_listed_watched_and_waited_for() {
    let server = Server::start(|number, request| {
        let job = later_job(["running", "paused", "succeeded"][number.min(2)]);
        match request.line.split(' ').nth(1).unwrap() {
            path if path.contains("/info/jobs") => {
                let next = if path.contains("page_token") { Value::Null } else { value!("more") };
                json(
                    "200 OK",
                    &format!(r#"{{"items": [{job}, {job}], "next_page": {next}, "total": 4}}"#),
                )
            }
            path if path.ends_with("/events") => answer(
                "200 OK",
                "content-type: text/event-stream\r\n",
                format!("event: later\ndata: {job}\n\n"),
            ),
            _ => json("200 OK", &job),
        }
    })
    .await;
    let molbox = server.client();
    let job = molbox.wait_job(JOB_ID).await.unwrap();
    assert_eq!(
        (job.status.as_str(), server.received().len()),
        ("succeeded", 3),
        "`paused` is no end"
    );
    assert_eq!(job.parameters.production.as_ref().unwrap().type_.as_deref(), Some("NVE"));
    assert_eq!(
        job.request.equilibration.as_deref(),
        Some(&[][..]),
        "an empty list is not the default"
    );

    let viewed = molbox.job_view().job_id(JOB_ID).send().await.unwrap().into_inner();
    assert_eq!(
        meaning(&serde_json::to_value(viewed).unwrap()),
        meaning(&serde_json::from_str(&later_job("succeeded")).unwrap())
    );
    let page = molbox.job_list().send().await.unwrap().into_inner();
    assert_eq!((page.items.len(), &page.extra["total"]), (2, &value!(4)));
    let listed: Vec<JobRecord> = molbox.job_list().stream().try_collect().await.unwrap();
    assert_eq!(listed.len(), 4);
    let events = molbox.job_watch().job_id(JOB_ID).send().await.unwrap().into_inner_stream();
    let events = events.map(|chunk| chunk.unwrap().to_vec()).concat().await;
    let data = String::from_utf8(events).unwrap();
    let watched: JobRecord =
        serde_json::from_str(data.lines().find_map(|l| l.strip_prefix("data: ")).unwrap()).unwrap();
    assert_eq!(watched, job);
}

#[tokio::test]
async fn an_end_of_a_later_service_is_an_end() {
    let server = Server::always(|| {
        let mut job: Value = serde_json::from_str(JOB).unwrap();
        job["status"] = value!("expired");
        json("200 OK", &job.to_string())
    })
    .await;
    let error = server.client().wait_job(JOB_ID).await.unwrap_err();
    assert!(matches!(&error, Error::TaskFailed(task) if task.status == "expired"), "{error}");
    let seen: Vec<JobRecord> =
        server.client().wait_job(JOB_ID).stream().try_collect().await.unwrap();
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn a_job_is_submitted_again_with_all_its_settings_or_not_at_all() {
    let server = Server::always(|| json("200 OK", JOB)).await;
    let molbox = server.client();
    let job: JobRecord = serde_json::from_str(JOB).unwrap();
    molbox.job_submit().body(job.request.clone()).send().await.unwrap();
    let sent: Value = serde_json::from_slice(&server.received()[0].body).unwrap();
    assert_eq!(meaning(&sent), meaning(&serde_json::from_str::<Value>(JOB).unwrap()["request"]));

    let mut settings: Value = serde_json::from_str::<Value>(JOB).unwrap()["request"].clone();
    settings["equilibration"] = value!([{"type": "NVE"}]);
    settings["hydrogen_mass"] = value!(3);
    let settings: types::JobSettings = serde_json::from_value(settings).unwrap();
    let error = molbox.job_submit().body(settings.clone()).send().await.unwrap_err();
    let paths: Vec<String> = error.violations().iter().map(types::ValidationError::path).collect();
    assert_eq!(paths, ["hydrogen_mass", "equilibration[0].type"], "{error}");
    assert_eq!(server.received().len(), 1, "it was not sent without them");

    // As they are, with what this client does not know.
    molbox.call("POST", "/submit/job").unwrap().json(&settings).unwrap().send().await.unwrap();
    let sent: Value = serde_json::from_slice(&server.received()[1].body).unwrap();
    assert_eq!(sent["hydrogen_mass"], 3);
    assert_eq!(sent, serde_json::to_value(&settings).unwrap());
    assert_eq!(server.received()[1].header("content-type"), Some("application/json"));
}

#[test]
fn settings_of_records_are_the_fields_of_their_requests_without_limits() {
    let document = molbox_codegen::Document::read(include_str!("../openapi/molbox.yaml")).unwrap();
    let resolved = |value: &Value| {
        value["$ref"].as_str().map_or(value.clone(), |r| document.resolve(r).unwrap().clone())
    };
    let plain = |property: &Value| {
        let kind = resolved(property["anyOf"].get(0).unwrap_or(property));
        (kind["type"].clone(), kind["format"].clone(), property["x-unit"].clone())
    };
    for (settings, request) in [
        ("SystemSettings", "SystemBuildRequest"),
        ("JobSettings", "JobCreateParams"),
        ("EquilibrationSettings", "EquilibrationStep"),
        ("ProductionSettings", "ProductionParams"),
        ("AnalysisSettings", "AnalysisRequest"),
    ] {
        let schemas = &document.value["components"]["schemas"];
        let members = |schema: &str| -> Vec<(String, _)> {
            let properties = schemas[schema]["properties"].as_object().unwrap();
            properties.iter().map(|(name, property)| (name.clone(), plain(property))).collect()
        };
        assert_eq!(members(settings), members(request), "{settings}");
    }
}

#[test]
fn what_a_request_cannot_be_is_reported_all_at_once_with_what_is_allowed() {
    use molbox::workflow::types::{EquilibrationStep, ProductionParams};
    let job = JobCreateParams::builder()
        .temperature(-1)
        .integration_timestep(0)
        .friction(f64::NAN)
        .equilibration([
            EquilibrationStep::builder(),
            EquilibrationStep::builder().time(-0.5).type_("NPH"),
        ])
        .production(ProductionParams::builder().type_("NVE").traj_freq(-1))
        .box_id("");
    let invalid = JobCreateParams::try_from(job).unwrap_err();
    let mut found: Vec<(Value, String, Value)> = invalid
        .violations
        .iter()
        .map(|v| {
            (serde_json::to_value(&v.loc).unwrap(), v.type_.clone(), Value::Object(v.ctx.clone()))
        })
        .collect();
    found.sort_by_key(|(loc, ..)| loc.to_string());
    let ensembles = value!({"expected": ["NPT", "NVT"]});
    let expected = [
        (value!(["box_id"]), "string_too_short", value!({})),
        (value!(["equilibration", 1, "time"]), "greater_than_equal", value!({"ge": 0})),
        (value!(["equilibration", 1, "type"]), "enum", ensembles.clone()),
        (value!(["friction"]), "finite_number", value!({})),
        (value!(["integration_timestep"]), "greater_than", value!({"gt": 0})),
        (value!(["production", "traj_freq"]), "greater_than_equal", value!({"ge": 0})),
        (value!(["production", "type"]), "enum", ensembles),
        (value!(["temperature"]), "greater_than_equal", value!({"ge": 0})),
    ];
    assert_eq!(found, expected.map(|(loc, kind, ctx)| (loc, kind.to_owned(), ctx)));
    assert!(
        invalid.to_string().contains(r#"production.type: must be one of NPT, NVT, got "NVE""#),
        "{invalid}"
    );
}

#[tokio::test]
async fn a_call_is_refused_with_the_places_of_a_refusal_of_the_service() {
    let server = Server::always(|| json("200 OK", JOB)).await;
    let molbox = server.client();
    let refused = [
        (
            molbox.job_list().limit(0).status("eaten").send().await.unwrap_err(),
            value!([["query", "limit"], ["query", "status"]]),
        ),
        (molbox.job_view().send().await.unwrap_err(), value!([["path", "job_id"]])),
        (
            molbox.job_submit().idempotency_key("").send().await.unwrap_err(),
            value!([["header", "idempotency-key"]]),
        ),
        (
            molbox
                .system_submit()
                .body(SystemBuildRequest::builder().p_h(f64::NAN).seed(-1))
                .send()
                .await
                .unwrap_err(),
            value!([["body", "pH"], ["body", "seed"]]),
        ),
        (molbox.download_analysis("", "x.zip").await.unwrap_err(), value!([["path", "job_id"]])),
    ];
    for (error, places) in refused {
        let found: Vec<_> =
            error.violations().iter().map(|violation| violation.loc.clone()).collect();
        assert_eq!(serde_json::to_value(found).unwrap(), places, "{error}");
        assert!(matches!(error, Error::Invalid(_)));
    }
    assert!(server.received().is_empty(), "nothing was sent");
}
