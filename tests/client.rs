//! What the client sends, and what it makes of the answers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Answer, FAILED, JOB, JOB_ID, QUEUED, REFUSAL, RUNNING, Server, answer, json};
use futures::StreamExt;
use molbox::workflow::types::{
    EquilibrationStep, JobCreateParams, JobRecord, ProductionParams, SystemBuildRequest,
};
use molbox::{Client, Connection, Error, NonNegative, Positive};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

// What is refused before anything is sent.

#[tokio::test]
async fn a_number_below_its_bound_is_refused_before_anything_is_sent() {
    let server = Server::always(|| json("200 OK", JOB)).await;
    let molbox = server.client();
    let stages = [EquilibrationStep::builder().time(0.1), EquilibrationStep::builder().time(-0.5)];
    let error =
        molbox.job_submit().body_map(|job| job.equilibration(stages)).send().await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)));
    assert_eq!(error.to_string(), "equilibration[1].time: must be a number >= 0, got -0.5");

    let refused = [
        (
            molbox.job_submit().body_map(|job| job.temperature(-1)),
            "temperature: must be a number >= 0, got -1",
        ),
        (
            molbox.job_submit().body_map(|job| job.integration_timestep(0)),
            "integration_timestep: must be a number > 0, got 0",
        ),
        (
            molbox.job_submit().body_map(|job| job.friction(f64::NAN)),
            "friction: must be a number >= 0, got NaN",
        ),
        (
            molbox.job_submit().body_map(|job| job.pressure(f64::INFINITY)),
            "pressure: must be a number >= 0, got inf",
        ),
        (
            molbox.job_submit().body_map(|job| job.minimization_steps(-1)),
            "minimization_steps: must be an integer >= 0, got -1",
        ),
        (molbox.job_submit().body_map(|job| job.box_id("")), "box_id: shorter than 1 characters"),
        (
            molbox
                .job_submit()
                .body_map(|job| job.production(ProductionParams::builder().type_("NPH"))),
            "production.type: must be one of NPT, NVT, got \"NPH\"",
        ),
    ];
    for (request, text) in refused {
        assert_eq!(request.send().await.unwrap_err().to_string(), text);
    }
    let system =
        molbox.system_submit().body_map(|system| system.p_h(f64::NAN)).send().await.unwrap_err();
    assert_eq!(system.to_string(), "pH: must be a finite number, got NaN");
    let limit = molbox.job_list().limit(0).send().await.unwrap_err();
    assert_eq!(limit.to_string(), "query limit: must be an integer >= 1, got 0");
    assert!(server.received().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn an_identifier_that_would_change_the_path_is_refused() {
    let server = Server::always(|| json("200 OK", JOB)).await;
    let molbox = server.client();
    for id in ["", ".", "..", "a/b", "box_0123456789abcdefghij", "job_0123456789abcdefghij?x=1"] {
        let error = molbox.job_view().job_id(id).send().await.unwrap_err();
        assert!(error.to_string().starts_with("path job_id: "), "{id:?}: {error}");
    }
    let error = molbox.job_view().send().await.unwrap_err();
    assert_eq!(error.to_string(), "path job_id: required, but not given");
    assert!(server.received().is_empty(), "nothing was sent");
}

#[test]
fn json_of_a_person_is_refused_with_the_path_of_what_is_wrong() {
    for (text, start) in [
        (
            r#"{"equilibration": [{"time": 1}, {"time": -0.5}]}"#,
            "equilibration[1].time: must be a number >= 0, got -0.5",
        ),
        (r#"{"integration_timestep": 0.0}"#, "integration_timestep: must be a number > 0, got 0"),
        (r#"{"batch_index": -1}"#, "batch_index: invalid value"),
        (r#"{"trajectory_output_format": "xtc"}"#, "trajectory_output_format: "),
        (r#"{"production": {"type": "NPH"}}"#, "production.type: "),
        (r#"{"box_id": ""}"#, "box_id: shorter than 1 characters"),
        (r#"{"temperature": "#, "temperature: EOF while parsing"),
        (r#"{} {}"#, "trailing characters"),
    ] {
        let error = molbox::from_json::<JobCreateParams>(text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text}: {error}");
    }
}

/// What is reported of the members of a request that the document does not have.
fn unknown<T: molbox::Request>(request: serde_json::Value) -> Vec<String> {
    let unknown = molbox::unknown_fields::<T>(&request);
    assert_eq!(unknown.more, 0);
    unknown.listed.iter().map(ToString::to_string).collect()
}

#[test]
fn a_misspelt_field_is_named_with_the_one_that_was_meant() {
    use molbox::margin::types::MarginJobRequest;
    use molbox::workflow::types::{AnalysisRequest, FileRegistration, JobExtension};

    for (wrong, meant) in [
        ("keep_hs", "keep_Hs"),
        ("keepHs", "keep_Hs"),
        ("ph", "pH"),
        ("PH", "pH"),
        ("boxShape", "box_shape"),
        ("boxshape", "box_shape"),
        ("BOX-SHAPE", "box_shape"),
        ("forcefield", "force_field"),
        ("protien", "protein"),
        ("prot", "protein"),
        ("ligand", "ligands"),
        ("padding", "minimum_padding"),
        ("water", "water_type"),
        ("water_model", "water_type"),
        ("salt_concentration", "concentration"),
        ("ion", "ions"),
    ] {
        let request = serde_json::json!({ wrong: null });
        assert_eq!(
            unknown::<SystemBuildRequest>(request),
            [format!("{wrong}: no such field; did you mean {meant}?")]
        );
    }
    for (request, reported) in [
        (
            serde_json::json!({"temprature": 500}),
            "temprature: no such field; did you mean temperature?",
        ),
        (serde_json::json!({"temp": 500}), "temp: no such field; did you mean temperature?"),
        (
            serde_json::json!({"timestep": {}}),
            "timestep: no such field; did you mean integration_timestep?",
        ),
        (
            serde_json::json!({"cutoff": []}),
            "cutoff: no such field; did you mean non_bonded_cutoff?",
        ),
        (
            serde_json::json!({"equilibration": [{}, {"tme": 5}]}),
            "equilibration[1].tme: no such field; did you mean equilibration[1].time?",
        ),
        (
            serde_json::json!({"time": 5}),
            "time: no such field; did you mean equilibration[].time or production.time?",
        ),
        (
            serde_json::json!({"production": {"restraint_mask": "@CA"}}),
            "production.restraint_mask: no such field; did you mean \
             equilibration[].restraint_mask?",
        ),
        (
            serde_json::json!({"production": {"temperature": 310}}),
            "production.temperature: no such field; did you mean temperature?",
        ),
        (serde_json::json!({"colour": "blue"}), "colour: no such field"),
    ] {
        assert_eq!(unknown::<JobCreateParams>(request), [reported]);
    }
    let rmsd = unknown::<AnalysisRequest>(serde_json::json!({"rmsd": [["@CA"]]}));
    assert_eq!(rmsd, ["rmsd: no such field; did you mean rmsd_masks?"]);
    let id = unknown::<FileRegistration>(serde_json::json!({"fileid": ""}));
    assert_eq!(id, ["fileid: no such field; did you mean file_id?"]);
    assert_eq!(
        unknown::<JobExtension>(serde_json::json!({"tme": 1})),
        ["tme: no such field; did you mean time?"]
    );
    let margin = serde_json::json!({
        "settings": {"start": "2020-01-01"}, "portfolio": {"futures": [{"qty": 1, "side": "long"}]}, "lookback": 1
    });
    assert_eq!(
        unknown::<MarginJobRequest>(margin),
        [
            "settings.start: no such field; did you mean settings.startDate?",
            "portfolio.futures[0].qty: no such field",
            "portfolio.futures[0].side: no such field",
            "lookback: no such field; did you mean volatilityLookbackDays?",
        ]
    );
}

#[test]
fn what_is_reported_of_unknown_fields_is_bounded() {
    let mut request = serde_json::Map::new();
    for index in 0..100_000 {
        request.insert(format!("field {index}"), serde_json::Value::Null);
    }
    let start = Instant::now();
    let unknown = molbox::unknown_fields::<JobCreateParams>(&serde_json::Value::Object(request));
    assert_eq!((unknown.listed.len(), unknown.more), (20, 99_980));
    let long =
        serde_json::json!({ format!("{}\u{1b}[2J", "é".repeat(60)): 1, "x".repeat(1 << 20): 2 });
    let unknown = molbox::unknown_fields::<JobCreateParams>(&long);
    let reported: Vec<String> = unknown.listed.iter().map(ToString::to_string).collect();
    assert_eq!(reported[0], format!("{}\u{fffd}[2J: no such field", "é".repeat(60)));
    assert_eq!(reported[1], format!("{}…: no such field", "x".repeat(64)));
    // Names are compared with few others, and only those that are named.
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn json_with_unknown_fields_is_refused_with_all_of_them() {
    let text =
        r#"{"temprature": 310, "equilibration": [{"tme": 1, "time": -1}], "nonsense": null}"#;
    let error = molbox::from_json::<JobCreateParams>(text).unwrap_err();
    let reported: Vec<String> = error.violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported[..3],
        [
            "temprature: no such field; did you mean temperature?",
            "equilibration[0].tme: no such field; did you mean equilibration[0].time?",
            "nonsense: no such field",
        ]
    );
    assert!(
        reported[3].starts_with("equilibration[0].time: must be a number >= 0, got -1 at line 1"),
        "{reported:?}"
    );
    assert_eq!(reported.len(), 4);
}

#[test]
fn bounded_numbers_are_parsed_and_shown() {
    assert_eq!("2.5".parse::<NonNegative>().unwrap().to_string(), "2.5");
    assert_eq!("x".parse::<Positive>().unwrap_err(), "must be a number > 0, got \"x\"");
    assert_eq!("-0.1".parse::<NonNegative>().unwrap_err(), "must be a number >= 0, got -0.1");
}

// What is sent.

#[tokio::test]
async fn a_request_carries_the_key_and_what_was_asked_and_no_more() {
    let server = Server::always(|| json("200 OK", JOB)).await;
    let molbox = server.client();
    molbox
        .job_submit()
        .body_map(|job| {
            job.box_id("box_1").temperature(310).equilibration(Vec::<EquilibrationStep>::new())
        })
        .send()
        .await
        .unwrap();
    let request = &server.received()[0];
    assert_eq!(request.line, "POST /local/submit/job HTTP/1.1");
    assert_eq!(request.header("x-api-key"), Some("mbx_secret"));
    assert!(request.header("user-agent").unwrap().starts_with("molbox-rust/"));
    assert_eq!(request.header("api-version"), None, "progenitor's own header is gone");
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"box_id": "box_1", "temperature": 310.0, "equilibration": []})
    );
}

#[tokio::test]
async fn every_post_has_an_idempotency_key_of_its_own() {
    let server = Server::always(|| json("200 OK", JOB)).await;
    let molbox = server.client();
    for _ in 0..2 {
        molbox.job_submit().send().await.unwrap();
    }
    molbox.job_submit().idempotency_key("mine").send().await.unwrap();
    let keys: Vec<String> =
        server.received().iter().map(|r| r.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys[0].len(), 32);
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2], "mine");
    let error = molbox.job_submit().idempotency_key("x".repeat(256)).send().await.unwrap_err();
    assert!(
        error.to_string().starts_with("header idempotency-key: longer than 255 characters"),
        "{error}"
    );
}

#[tokio::test]
async fn the_trailing_slash_of_the_path_is_kept_and_that_of_the_address_is_not_doubled() {
    let record = include_str!("../openapi/examples/file_register.200.json");
    let server = Server::always(move || json("200 OK", record)).await;
    let molbox = Client::new(&format!("{}//", server.base_url), "mbx_secret").unwrap();
    molbox.file_register().body_map(|file| file.name("x")).send().await.unwrap();
    assert_eq!(server.received()[0].line, "POST /local/submit/file/ HTTP/1.1");
}

#[test]
fn the_key_is_in_no_debug_form() {
    let connection = Connection::new("http://127.0.0.1:1/local", "mbx_secret").unwrap();
    let molbox = connection.workflow().unwrap();
    let shown = format!("{connection:?} {molbox:?} {:?}", molbox.job_submit());
    assert!(!shown.contains("mbx_secret"), "{shown}");
    let error = Connection::new("http://127.0.0.1:1/local", "mbx_secret\n\u{7f}x").unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn an_address_that_is_none_is_refused() {
    for address in ["not an address", "ftp://host/x", "http://host/local?x=1"] {
        let error = Connection::new(address, "mbx_secret").unwrap_err();
        assert!(error.to_string().starts_with("base_url: "), "{error}");
    }
    assert!(Connection::new("http://host/local", " ").is_err());
}

#[tokio::test]
async fn a_redirect_to_another_origin_does_not_get_the_key() {
    let other = Server::always(|| answer("200 OK", "", "PK")).await;
    let target = other.base_url.clone();
    let server = Server::start(move |_, _| {
        answer("302 Found", &format!("location: {target}/bundle.zip\r\n"), "")
    })
    .await;
    server.client().job_download().job_id(JOB_ID).send().await.unwrap();
    let at_home = &server.received()[0];
    assert_eq!(at_home.header("x-api-key"), Some("mbx_secret"));
    let abroad = &other.received()[0];
    assert_eq!(abroad.header("x-api-key"), None);
    assert_eq!(abroad.header("referer"), None);
}

#[tokio::test]
async fn a_redirect_at_home_keeps_the_key_and_a_post_is_not_redirected() {
    let server = Server::start(|number, _| match number {
        0 => answer("307 Temporary Redirect", "location: /local/info/elsewhere\r\n", ""),
        _ => json("200 OK", JOB),
    })
    .await;
    server.client().job_view().job_id(JOB_ID).send().await.unwrap();
    assert_eq!(server.received()[1].line, "GET /local/info/elsewhere HTTP/1.1");
    assert_eq!(server.received()[1].header("x-api-key"), Some("mbx_secret"));

    let server =
        Server::always(|| answer("307 Temporary Redirect", "location: /local/elsewhere\r\n", ""))
            .await;
    let error = server.client().job_submit().send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 307);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_redirect_without_end_ends() {
    let server = Server::always(|| answer("302 Found", "location: /local/again\r\n", "")).await;
    let error = server.client().job_view().job_id(JOB_ID).send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 302);
    assert!(server.received().len() < 10);
}

// Retries.

#[tokio::test]
async fn a_passing_trouble_is_retried_under_the_same_idempotency_key() {
    let server = Server::start(|number, _| match number {
        0 => json("503 Service Unavailable", "{}"),
        1 => Answer::Broken(Vec::new()),
        2 => answer("502 Bad Gateway", "content-type: text/html\r\n", "<html>"),
        _ => json("200 OK", QUEUED),
    })
    .await;
    server.client().job_submit().send().await.unwrap();
    let keys: Vec<_> =
        server.received().iter().map(|r| r.header("idempotency-key").map(str::to_owned)).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| *key == keys[0] && key.is_some()));
}

#[tokio::test]
async fn a_refusal_is_not_retried_and_neither_is_an_uncertain_delete() {
    let server = Server::always(|| json("422 Unprocessable Entity", REFUSAL)).await;
    server.client().job_submit().send().await.unwrap_err();
    assert_eq!(server.received().len(), 1);

    let server = Server::always(|| json("502 Bad Gateway", "{}")).await;
    server.client().job_delete().job_id(JOB_ID).send().await.unwrap_err();
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn retry_after_is_waited_for_and_one_too_far_off_is_reported() {
    let server = Server::start(|number, _| match number {
        0 => answer("429 Too Many Requests", "retry-after: 1\r\n", ""),
        _ => json("200 OK", JOB),
    })
    .await;
    let start = Instant::now();
    server.client().job_view().job_id(JOB_ID).send().await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));

    let server =
        Server::always(|| answer("429 Too Many Requests", "retry-after: 3600\r\n", "")).await;
    let error = server.client().job_view().job_id(JOB_ID).send().await.unwrap_err();
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(3600)));
    assert!(error.is_transient());
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_minute_that_the_service_asks_for_is_waited_for_and_an_age_is_not() {
    let of = async |retry_after: u64| {
        let headers = format!("retry-after: {retry_after}\r\n");
        let server = Server::always(move || answer("429 Too Many Requests", &headers, "")).await;
        let (report, mut delay) = tokio::sync::mpsc::unbounded_channel();
        let connection = server.connection().on_retry(move |retry| {
            report.send(retry.delay).unwrap();
        });
        let molbox = connection.workflow().unwrap();
        let view = molbox.job_view().job_id(JOB_ID).send();
        tokio::select! {
            refused = view => Err(refused.unwrap_err()),
            delay = delay.recv() => Ok(delay.unwrap().as_secs()),
        }
    };
    assert_eq!(of(60).await.unwrap(), 60);
    for age in [61, u64::MAX] {
        let Error::Refused(refusal) = of(age).await.unwrap_err() else { panic!("{age}") };
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(age)));
    }
}

#[tokio::test]
async fn a_retry_is_reported_with_its_reason_before_it_is_waited_for() {
    let server = Server::start(|number, _| match number {
        0 => answer("503 Service Unavailable", "retry-after: 1\r\n", r#"{"detail": "disk full"}"#),
        1 => Answer::Broken(Vec::new()),
        _ => json("200 OK", JOB),
    })
    .await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let (log, start) = (reported.clone(), Instant::now());
    let connection = server.connection().on_retry(move |retry| {
        let entry = (retry.error.to_string(), retry.delay, start.elapsed());
        log.lock().unwrap().push((entry, retry.number, retry.of));
    });
    connection.workflow().unwrap().job_view().job_id(JOB_ID).send().await.unwrap();
    let reported = reported.lock().unwrap();
    let [((first, delay, at), 1, 4), ((second, ..), 2, 4)] = reported.as_slice() else {
        panic!("{reported:?}")
    };
    assert!(first.contains("503") && first.contains("disk full"), "{first}");
    assert!(*delay >= Duration::from_secs(1) && at < delay, "{delay:?}, at {at:?}");
    assert!(second.starts_with("reach http://127.0.0.1:"), "{second}");
}

#[tokio::test]
async fn retries_come_to_an_end() {
    let server = Server::always(|| json("503 Service Unavailable", "{}")).await;
    let molbox = server.connection().retries(2).workflow().unwrap();
    molbox.job_view().job_id(JOB_ID).send().await.unwrap_err();
    assert_eq!(server.received().len(), 3);
}

// Errors.

#[tokio::test]
async fn an_error_gives_the_status_every_violation_and_the_request_id() {
    let server = Server::always(|| {
        answer(
            "422 Unprocessable Entity",
            "content-type: application/json\r\nx-request-id: r-17\r\n",
            REFUSAL,
        )
    })
    .await;
    let error = server.client().job_submit().send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 422);
    assert_eq!(error.request_id(), Some("r-17"));
    assert_eq!(error.violations().len(), 2);
    assert_eq!(error.violations()[0].path(), "equilibration[1].time");
    assert_eq!(error.violations()[0].type_, "greater_than_equal");
    assert_eq!(
        error.to_string(),
        "422 Unprocessable Entity: equilibration[1].time: Input should be greater than or equal \
         to 0; integration_timestep: Input should be greater than 0 (request r-17)"
    );
}

#[tokio::test]
async fn an_error_with_another_body_keeps_its_status_and_its_words() {
    let cases: [(&str, &str, &str, &str); 7] = [
        (
            "422 Unprocessable Entity",
            "text/html",
            "<html>no</html>",
            "the answer is a web page, of a proxy on the way or of another server",
        ),
        ("422 Unprocessable Entity", "application/json", r#"{"message": "too cold"}"#, "too cold"),
        ("403 Forbidden", "application/json", r#"{"detail": "Forbidden here"}"#, "Forbidden here"),
        ("404 Not Found", "text/plain", "", "Not Found"),
        ("418 I'm a teapot", "text/plain", "short and stout", "short and stout"),
        ("500 Internal Server Error", "application/json", r#"{"detail": []}"#, r#"{"detail": []}"#),
        (
            "501 Not Implemented",
            "application/json",
            r#"{"detail":[{"loc":[],"msg":"later","type":"x"}]}"#,
            "later",
        ),
    ];
    for (status, media, body, words) in cases {
        let server = Server::start(move |_, _| {
            answer(status, &format!("content-type: {media}\r\nx-request-id: r-1\r\n"), body)
        })
        .await;
        let error = server.client().job_view().job_id(JOB_ID).send().await.unwrap_err();
        assert_eq!(error.status().unwrap().as_str(), &status[..3], "{status}");
        assert_eq!(error.violations()[0].msg, words, "{status}");
        assert_eq!(error.request_id(), Some("r-1"), "{status}");
    }
}

#[tokio::test]
async fn an_endless_error_body_is_read_up_to_a_bound() {
    let server = Server::always(|| answer("400 Bad Request", "", "x".repeat(4 << 20))).await;
    let error = server.client().job_view().job_id(JOB_ID).send().await.unwrap_err();
    assert_eq!(error.violations()[0].msg.len(), 500);
}

#[tokio::test]
async fn a_success_that_is_not_as_documented_is_an_error() {
    let server = Server::always(|| json("200 OK", r#"{"job_id": 5}"#)).await;
    let error = server.client().job_view().job_id(JOB_ID).send().await.unwrap_err();
    assert!(matches!(error, Error::Unexpected { .. }), "{error}");
    let server = Server::always(|| json("201 Created", JOB)).await;
    let error = server.client().job_view().job_id(JOB_ID).send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 201);
}

#[tokio::test]
async fn a_service_that_is_not_there_is_a_connection_error() {
    let molbox = Connection::new("http://127.0.0.1:9/local", "mbx_secret")
        .unwrap()
        .retries(1)
        .workflow()
        .unwrap();
    let error = molbox.job_list().send().await.unwrap_err();
    assert!(matches!(error, Error::Connection(_)));
    assert!(error.to_string().contains("http://127.0.0.1:9"), "{error}");
    assert!(error.is_transient());
}

// Timeouts.

#[tokio::test]
async fn a_slow_transfer_is_not_cut_off_but_one_that_stands_still_is() {
    let slow = |pieces: usize, pause: u64| {
        move || Answer::Slow {
            head: format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", pieces * 4),
            pieces: vec![b"data".to_vec(); pieces],
            pause: Duration::from_millis(pause),
        }
    };
    let server = Server::always(slow(8, 100)).await;
    let idle = |server: &Server| {
        server.connection().idle_timeout(Duration::from_millis(300)).retries(0).workflow().unwrap()
    };
    let stream =
        idle(&server).job_download().job_id(JOB_ID).send().await.unwrap().into_inner_stream();
    let size: usize =
        stream.map(|chunk| chunk.unwrap().len()).fold(0, |a, b| async move { a + b }).await;
    assert_eq!(size, 32, "longer in all than the idle timeout");

    let server = Server::always(slow(3, 2000)).await;
    let start = Instant::now();
    let mut stream =
        idle(&server).job_download().job_id(JOB_ID).send().await.unwrap().into_inner_stream();
    assert!(stream.next().await.unwrap().is_err());
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn the_idle_timeout_does_not_end_an_upload_that_moves() {
    let client = |server: &Server| {
        server.connection().idle_timeout(Duration::from_millis(300)).retries(0).workflow().unwrap()
    };
    let server = upload_server(1 << 20, |_| answer("200 OK", "", "")).await;
    let (mut writer, reader) = tokio::io::duplex(4);
    let written = tokio::spawn(async move {
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            writer.write_all(b"data").await.unwrap();
        }
    });
    client(&server).upload_reader("pdb", reader, 32).await.unwrap();
    written.await.unwrap();

    // All was sent, and no answer comes.
    let server = upload_server(1 << 20, |_| Answer::Slow {
        head: String::new(),
        pieces: vec![Vec::new()],
        pause: Duration::from_secs(20),
    })
    .await;
    let start = Instant::now();
    let error = client(&server).upload_bytes("pdb", "END").await.unwrap_err();
    assert!(matches!(error, molbox::Error::Stalled { .. }), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(10));

    // What is to be sent does not come.
    let server = upload_server(1 << 20, |_| answer("200 OK", "", "")).await;
    let (_writer, reader) = tokio::io::duplex(4);
    let error = client(&server).upload_reader("pdb", reader, 32).await.unwrap_err();
    assert!(matches!(error, molbox::Error::Stalled { .. }), "{error:?}");
}

// Listings.

#[tokio::test]
async fn a_listing_streams_over_its_pages() {
    let server = Server::start(|number, _| {
        let next = if number < 2 { format!("\"page{}\"", number + 1) } else { "null".to_owned() };
        json("200 OK", &format!(r#"{{"items": [{JOB}, {JOB}], "next_page": {next}}}"#))
    })
    .await;
    let molbox = server.client();
    let jobs: Vec<JobRecord> =
        molbox.job_list().limit(2).status("succeeded").stream().map(Result::unwrap).collect().await;
    assert_eq!(jobs.len(), 6);
    let lines: Vec<String> = server.received().iter().map(|r| r.line.clone()).collect();
    assert_eq!(lines[0], "GET /local/info/jobs?limit=2&status=succeeded HTTP/1.1");
    assert_eq!(lines[1], "GET /local/info/jobs?limit=2&page_token=page1 HTTP/1.1");
}

// Upload.

fn link(server: &str, max_bytes: u64) -> String {
    serde_json::json!({
        "file_id": "file_0123456789abcdefghij", "upload_url": format!("{server}/upload/x?signature=s%2Fs"),
        "expires_at": "2026-11-21T13:00:00Z", "content_type": "chemical/x-pdb", "max_bytes": max_bytes
    })
    .to_string()
}

async fn upload_server(max_bytes: u64, put: fn(usize) -> Answer) -> Server {
    let puts = AtomicU64::new(0);
    Server::start(move |_, request| {
        let host = request.header("host").unwrap();
        match request.line.split(' ').nth(1).unwrap() {
            path if path.starts_with("/local/submit/upload-url") => {
                json("200 OK", &link(&format!("http://{host}/local"), max_bytes))
            }
            path if path.starts_with("/local/upload") => {
                put(puts.fetch_add(1, Ordering::Relaxed) as usize)
            }
            _ => json("200 OK", include_str!("../openapi/examples/file_register.200.json")),
        }
    })
    .await
}

#[tokio::test]
async fn an_upload_is_a_link_the_content_and_a_registration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Villin.PDB");
    let content = "ATOM  \n".repeat(100_000);
    fs::write(&path, &content).unwrap();
    let server = upload_server(1 << 20, |_| answer("200 OK", "", "")).await;
    let progress = Arc::new(Mutex::new(Vec::new()));
    let seen = progress.clone();
    let molbox = server.client();
    let file = molbox
        .upload(&path)
        .kind("protein")
        .on_progress(move |done, all| seen.lock().unwrap().push((done, all)))
        .await;
    assert_eq!(file.unwrap().name, "villin");

    let [link, put, register] = &server.received()[..] else { panic!("three requests") };
    assert_eq!(link.line, "GET /local/submit/upload-url?filetype=pdb HTTP/1.1");
    assert_eq!(put.line, "PUT /local/upload/x?signature=s%2Fs HTTP/1.1");
    assert_eq!(put.header("x-api-key"), None, "the link needs no key and gets none");
    assert_eq!(put.header("content-length"), Some("700000"));
    assert_eq!(put.header("transfer-encoding"), None);
    assert_eq!(put.header("content-type"), Some("chemical/x-pdb"));
    assert_eq!(put.body, content.as_bytes());
    let body: serde_json::Value = serde_json::from_slice(&register.body).unwrap();
    let expected = serde_json::json!({"file_id": "file_0123456789abcdefghij", "format": "pdb", "name": "Villin", "type": "protein"});
    assert_eq!(body, expected);
    let progress = progress.lock().unwrap();
    assert_eq!(*progress.last().unwrap(), (700_000, 700_000));
    assert!(progress.len() > 1 && progress.is_sorted());
}

#[tokio::test]
async fn an_upload_that_breaks_is_sent_again_and_one_that_is_refused_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pdb");
    fs::write(&path, "END\n").unwrap();
    let server = upload_server(100, |number| match number {
        0 => json("503 Service Unavailable", ""),
        _ => answer("200 OK", "", ""),
    })
    .await;
    server.client().upload(&path).await.unwrap();
    assert_eq!(server.received().len(), 4);

    let server = upload_server(100, |_| {
        json("403 Forbidden", r#"{"detail": [{"loc": ["query"], "msg": "expired", "type": "x"}]}"#)
    })
    .await;
    let error = server.client().upload(&path).await.unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_uploaded_says_so_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pdb");
    fs::write(&path, "longer than that").unwrap();
    let server = upload_server(10, |_| answer("200 OK", "", "")).await;
    let error = server.client().upload(&path).await.unwrap_err();
    assert!(error.to_string().contains("has 16 bytes, the service takes 10"), "{error}");
    let missing = server.client().upload(folder.path().join("missing.pdb")).await.unwrap_err();
    assert!(matches!(missing, Error::File { .. }) && missing.to_string().contains("missing.pdb"));
    let nameless = server.client().upload(folder.path().join("nameless")).await.unwrap_err();
    assert!(nameless.to_string().starts_with("format: "), "{nameless}");
    assert!(server.received().iter().all(|request| !request.line.starts_with("PUT")));
}

// Download.

fn content() -> Vec<u8> {
    (0..300_000u32).flat_map(u32::to_le_bytes).collect()
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Serves `content` by ranges; the first answers break off after `pieces` bytes each.
async fn download_server(content: Vec<u8>, etag: String, pieces: Vec<usize>) -> Server {
    Server::start(move |number, request| {
        let start: usize = request
            .header("range")
            .map_or(0, |r| r["bytes=".len()..].trim_end_matches('-').parse().unwrap());
        let rest = &content[start..];
        let (status, range) = match start {
            0 => ("200 OK", String::new()),
            _ => (
                "206 Partial Content",
                format!("content-range: bytes {start}-{}/{}\r\n", content.len() - 1, content.len()),
            ),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\netag: \"sha256-{etag}\"\r\n{range}content-length: {}\r\n\r\n",
            rest.len()
        );
        match pieces.get(number) {
            Some(&piece) => Answer::Broken([head.as_bytes(), &rest[..piece]].concat()),
            None => Answer::Whole([head.as_bytes(), rest].concat()),
        }
    })
    .await
}

#[tokio::test]
async fn a_download_that_breaks_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let server = download_server(content(), digest(&content()), vec![400_000, 100_000]).await;
    let last = Arc::new(Mutex::new((0, None)));
    let seen = last.clone();
    let path = server
        .client()
        .download_job(JOB_ID, &to)
        .on_progress(move |done, all| *seen.lock().unwrap() = (done, all))
        .await
        .unwrap();
    assert_eq!(path, to);
    assert_eq!(fs::read(&to).unwrap(), content());
    assert_eq!(*last.lock().unwrap(), (1_200_000, Some(1_200_000)));
    let ranges: Vec<_> =
        server.received().iter().map(|r| r.header("range").map(str::to_owned)).collect();
    assert_eq!(ranges, [None, Some("bytes=400000-".to_owned()), Some("bytes=500000-".to_owned())]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
}

#[tokio::test]
async fn a_download_of_an_earlier_process_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let server = download_server(content(), digest(&content()), vec![400_000]).await;
    let molbox = server.connection().retries(0).workflow().unwrap();
    molbox.download_job(JOB_ID, &to).await.unwrap_err();
    assert!(!to.exists(), "the target is whole or not there");
    molbox.download_job(JOB_ID, &to).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), content());
    assert_eq!(server.received()[1].header("range"), Some("bytes=400000-"));
}

#[tokio::test]
async fn a_part_of_another_content_is_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    fs::write(folder.path().join(format!("results.zip.{}.part", "0".repeat(64))), "something else")
        .unwrap();
    let server = download_server(content(), digest(&content()), vec![]).await;
    server.client().download_job(JOB_ID, &to).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), content());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_download_with_a_wrong_checksum_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let server = download_server(content(), "0".repeat(64), vec![]).await;
    let error = server.client().download_job(JOB_ID, &to).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("SHA-256 is"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What a proxy that sends everything in chunks of its own makes of an answer: the length is gone.
fn rechunked(status: &str, headers: &str, content: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 {status}\r\n{headers}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for chunk in content.chunks(100_000) {
        answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
        answer.extend(chunk);
        answer.extend(b"\r\n");
    }
    answer.extend(b"0\r\n\r\n");
    answer
}

#[tokio::test]
async fn a_download_without_a_length_is_whole_when_its_digest_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    for weak in ["", "W/"] {
        let etag = format!("etag: {weak}\"sha256-{}\"\r\n", digest(&content()));
        let server =
            Server::always(move || Answer::Whole(rechunked("200 OK", &etag, &content()))).await;
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = sizes.clone();
        let molbox = server.client();
        let download = molbox.download_job(JOB_ID, &to);
        download.on_progress(move |_, all| seen.lock().unwrap().push(all)).await.unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
        assert!(sizes.lock().unwrap().iter().all(Option::is_none));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");

        let wrong = format!("etag: {weak}\"sha256-{}\"\r\n", "0".repeat(64));
        let server =
            Server::always(move || Answer::Whole(rechunked("200 OK", &wrong, &content()))).await;
        let error = server
            .client()
            .download_job(JOB_ID, folder.path().join("wrong.zip"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("which was removed: SHA-256 is"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "it was removed");
    }
}

#[tokio::test]
async fn a_download_without_a_length_resumes_and_has_its_size_from_the_range() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let digest = digest(&content());
    fs::write(folder.path().join(format!("results.zip.{digest}.part")), &content()[..400_000])
        .unwrap();
    let headers =
        format!("etag: \"sha256-{digest}\"\r\ncontent-range: bytes 400000-1199999/1200000\r\n");
    let rest = rechunked("206 Partial Content", &headers, &content()[400_000..]);
    let server = Server::always(move || Answer::Whole(rest.clone())).await;
    let last = Arc::new(Mutex::new((0, None)));
    let seen = last.clone();
    let molbox = server.client();
    let download = molbox.download_job(JOB_ID, &to);
    download.on_progress(move |done, all| *seen.lock().unwrap() = (done, all)).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), content());
    assert_eq!(*last.lock().unwrap(), (1_200_000, Some(1_200_000)));
}

#[tokio::test]
async fn a_download_that_ends_early_is_kept_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let digest = digest(&content());
    let part = folder.path().join(format!("results.zip.{digest}.part"));
    fs::write(&part, &content()[..100_000]).unwrap();
    let server = Server::start(move |number, request| {
        let range = request.header("range").unwrap();
        let from: usize = range["bytes=".len()..].trim_end_matches('-').parse().unwrap();
        // The first answer ends early, as if it were whole.
        let end = if number == 0 { from + 100_000 } else { content().len() };
        let headers =
            format!("etag: \"sha256-{digest}\"\r\ncontent-range: bytes {from}-1199999/1200000\r\n");
        Answer::Whole(rechunked("206 Partial Content", &headers, &content()[from..end]))
    })
    .await;
    let molbox = server.connection().retries(0).workflow().unwrap();
    let error = molbox.download_job(JOB_ID, &to).await.unwrap_err();
    assert!(
        matches!(error, Error::Truncated { received: 200_000, total: 1_200_000, .. }),
        "{error}"
    );
    assert!(error.is_transient());
    assert!(error.to_string().contains(part.to_str().unwrap()), "{error}");
    molbox.download_job(JOB_ID, &to).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), content());
    let ranges: Vec<_> =
        server.received().iter().map(|r| r.header("range").map(str::to_owned)).collect();
    assert_eq!(ranges, [Some("bytes=100000-".to_owned()), Some("bytes=200000-".to_owned())]);
}

#[tokio::test]
async fn a_part_that_another_download_writes_is_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let part = folder.path().join(format!("results.zip.{}.part", digest(&content())));
    fs::write(&part, &content()[..400_000]).unwrap();
    let theirs = fs::OpenOptions::new().append(true).open(&part).unwrap();
    theirs.lock().unwrap();
    let server = download_server(content(), digest(&content()), vec![]).await;
    let error = server.client().download_job(JOB_ID, &to).await.unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert!(!to.exists() && fs::read(&part).unwrap() == content()[..400_000]);
    drop(theirs);
    server.client().download_job(JOB_ID, &to).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), content());
}

#[tokio::test]
async fn a_part_that_another_program_has_written_to_is_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let part = folder.path().join(format!("results.zip.{}.part", digest(&content())));
    fs::write(&part, &content()[..400_000]).unwrap();
    let server = download_server(content(), digest(&content()), vec![]).await;
    let molbox = server.client();
    let mut theirs = fs::OpenOptions::new().append(true).open(&part).unwrap();
    let download = molbox.download_job(JOB_ID, &to);
    let download = download.on_progress(move |_, _| theirs.write_all(b"theirs").unwrap());
    let error = download.await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(!to.exists(), "what arrived is not what the file has");
}

#[tokio::test]
async fn a_part_is_not_continued_with_what_has_no_known_digest() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    let server = Server::start(move |number, request| match (number, request.header("range")) {
        (0, _) => Answer::Broken(rechunked("200 OK", "", &vec![b'a'; 300_000])[..150_000].to_vec()),
        // Another content, of which no answer has an `ETag`.
        (_, None) => Answer::Whole(rechunked("200 OK", "", b"another")),
        (_, Some(range)) => {
            let from: usize = range["bytes=".len()..].trim_end_matches('-').parse().unwrap();
            let headers = format!("content-range: bytes {from}-299999/300000\r\n");
            Answer::Whole(rechunked("206 Partial Content", &headers, &vec![b'b'; 300_000 - from]))
        }
    })
    .await;
    server.client().download_job(JOB_ID, &to).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"another");
}

// Contents that are no files.

#[tokio::test]
async fn bytes_and_readers_are_uploaded_as_files_are() {
    let content = "ATOM  \n".repeat(100_000);
    let put = |number| match number {
        0 => json("503 Service Unavailable", ""),
        _ => answer("200 OK", "", ""),
    };
    let server = upload_server(1 << 20, put).await;
    server
        .client()
        .upload_bytes("pdb", content.clone())
        .name("villin")
        .kind("protein")
        .await
        .unwrap();
    let sent = server.received();
    let puts: Vec<&[u8]> =
        sent.iter().filter(|r| r.line.starts_with("PUT")).map(|r| &r.body[..]).collect();
    assert_eq!(puts, [content.as_bytes(), content.as_bytes()], "sent again as a whole");
    assert_eq!(sent[1].header("content-length"), Some("700000"));
    let body: serde_json::Value = serde_json::from_slice(&sent.last().unwrap().body).unwrap();
    let expected = serde_json::json!({"file_id": "file_0123456789abcdefghij", "format": "pdb", "name": "villin", "type": "protein"});
    assert_eq!(body, expected);

    let server = upload_server(1 << 20, |_| answer("200 OK", "", "")).await;
    let reader = std::io::Cursor::new(content.clone());
    server.client().upload_reader("pdb", reader, 700_000).await.unwrap();
    assert_eq!(server.received()[1].body, content.as_bytes());
    let body: serde_json::Value = serde_json::from_slice(&server.received()[2].body).unwrap();
    assert_eq!(body.get("name"), None, "the service names it");

    // A reader has been read; a content that ends early is not taken for whole.
    let server = upload_server(1 << 20, put).await;
    let error =
        server.client().upload_reader("pdb", std::io::Cursor::new("END"), 3).await.unwrap_err();
    assert_eq!(error.status().unwrap(), 503);
    let server = upload_server(1 << 20, |_| answer("200 OK", "", "")).await;
    server.client().upload_reader("pdb", std::io::Cursor::new("END"), 4).await.unwrap_err();
    assert!(
        server.received().iter().all(|r| !r.line.starts_with("POST")),
        "nothing was registered"
    );
    let error = server.client().upload_bytes("pdb", vec![0; 2 << 20]).await.unwrap_err();
    assert!(
        error.to_string().contains("content: has 2097152 bytes, the service takes 1048576"),
        "{error}"
    );
}

#[tokio::test]
async fn a_download_to_a_writer_is_resumed_and_checked() {
    let server = download_server(content(), digest(&content()), vec![400_000, 100_000]).await;
    let mut written = Vec::new();
    assert_eq!(server.client().copy_job(JOB_ID, &mut written).await.unwrap(), 1_200_000);
    assert_eq!(written, content());
    assert_eq!(server.received().len(), 3);

    let server = download_server(content(), "0".repeat(64), vec![]).await;
    let error = server.client().copy_job(JOB_ID, &mut Vec::new()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { path: None, message } if message.contains("SHA-256 is")),
        "{error}"
    );
    let server = download_server(content(), digest(&content()), vec![400_000]).await;
    let molbox = server.connection().retries(0).workflow().unwrap();
    assert!(molbox.copy_job(JOB_ID, &mut Vec::new()).await.unwrap_err().is_transient());

    let (mut full, _reader) = tokio::io::duplex(8);
    drop(_reader);
    let error = server.client().copy_job(JOB_ID, &mut full).await.unwrap_err();
    assert!(matches!(error, Error::Write(_)), "{error}");
}

#[tokio::test]
async fn a_content_that_may_have_been_cut_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("results.zip");
    // Without a length, chunks or a digest the end of the connection is the end of the content.
    let endless =
        || Answer::Whole(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf of it".to_vec());
    let server = Server::always(endless).await;
    let error = server.client().download_job(JOB_ID, &to).await.unwrap_err();
    assert!(error.to_string().contains("without length and digest"), "{error}");
    assert!(!to.exists());
    server.client().copy_job(JOB_ID, &mut Vec::new()).await.unwrap_err();

    let etag = format!("etag: \"sha256-{}\"\r\n", digest(b"half of it"));
    let server = Server::always(move || {
        Answer::Whole(
            format!("HTTP/1.1 200 OK\r\n{etag}connection: close\r\n\r\nhalf of it").into_bytes(),
        )
    })
    .await;
    assert_eq!(
        server.client().copy_job(JOB_ID, &mut Vec::new()).await.unwrap(),
        10,
        "the digest is right"
    );
}

// The way to the service.

#[tokio::test]
async fn a_deadline_ends_a_call_with_all_its_retries() {
    let server = Server::always(|| json("503 Service Unavailable", "{}")).await;
    let molbox =
        server.connection().retries(1000).deadline(Duration::from_millis(400)).workflow().unwrap();
    let start = Instant::now();
    let error = molbox.job_view().job_id(JOB_ID).send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 503, "the last answer, not a sleep beyond the deadline");
    assert!(start.elapsed() < Duration::from_secs(10));

    let slow = || Answer::Slow {
        head: "HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n".to_owned(),
        pieces: vec![b"data".to_vec(); 1000],
        pause: Duration::from_millis(50),
    };
    let server = Server::always(slow).await;
    let molbox =
        server.connection().retries(0).deadline(Duration::from_millis(400)).workflow().unwrap();
    let start = Instant::now();
    molbox.copy_job(JOB_ID, &mut Vec::new()).await.unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "each byte comes in time, the whole does not"
    );
}

#[tokio::test]
async fn the_http_client_is_set_up_by_its_user_but_never_follows_redirects() {
    let proxy = Server::always(|| json("200 OK", JOB)).await;
    let address = proxy.base_url.trim_end_matches("/local").to_owned();
    let connection = Connection::new("http://molbox.invalid/prod", "mbx_secret").unwrap();
    let molbox = connection.clone().proxy(&address).unwrap().workflow().unwrap();
    molbox.job_view().job_id(JOB_ID).send().await.unwrap();
    let line = format!("GET http://molbox.invalid/prod/info/job/{JOB_ID} HTTP/1.1");
    assert_eq!(proxy.received()[0].line, line);

    let other = Server::always(|| json("200 OK", JOB)).await;
    let target = other.base_url.clone();
    let server =
        Server::start(move |_, _| answer("302 Found", &format!("location: {target}\r\n"), ""))
            .await;
    let follows = molbox::reqwest::redirect::Policy::limited;
    let connection =
        server.connection().http(move |http| http.user_agent("mine").redirect(follows(5)));
    connection.workflow().unwrap().job_view().job_id(JOB_ID).send().await.unwrap();
    assert_eq!(server.received()[0].header("user-agent"), Some("mine"));
    assert_eq!(other.received()[0].header("x-api-key"), None);

    for error in [
        server.connection().root_certificates(b"no certificate").unwrap_err(),
        server.connection().identity(b"no key").unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("pem: "), "{error}");
    }
    let error = server.connection().proxy("no address").unwrap_err();
    assert!(error.to_string().starts_with("address: "), "{error}");
}

// Waiting.

#[tokio::test]
async fn a_wait_shows_progress_and_ends_with_the_record() {
    let server = Server::start(|number, _| match number {
        0 => json("200 OK", QUEUED),
        1 => json("200 OK", RUNNING),
        2 => answer("503 Service Unavailable", "", ""),
        _ => json("200 OK", JOB),
    })
    .await;
    let molbox = server.connection().retries(0).workflow().unwrap();
    let mut seen = Vec::new();
    let job =
        molbox.wait_job(JOB_ID).on_progress(|job| seen.push(job.status.clone())).await.unwrap();
    assert_eq!(job.status, "succeeded");
    assert_eq!(seen, ["queued", "running", "succeeded"]);
}

#[tokio::test]
async fn a_wait_for_a_job_that_fails_says_why() {
    let server = Server::always(|| json("200 OK", FAILED)).await;
    let error = server.client().wait_job(JOB_ID).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    assert_eq!(task.failure.as_ref().unwrap().code, "unstable");
    assert!(error.to_string().contains("became unstable after step 120"), "{error}");
    assert!(error.to_string().contains("minimise longer"), "{error}");
}

#[tokio::test]
async fn a_wait_ends_at_its_limit_and_the_job_runs_on() {
    let server = Server::always(|| json("200 OK", RUNNING)).await;
    let error =
        server.client().wait_job(JOB_ID).timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains(JOB_ID), "{error}");
}

#[tokio::test]
async fn a_wait_for_what_does_not_exist_ends_at_once() {
    let server =
        Server::always(|| json("404 Not Found", include_str!("../openapi/examples/NotFound.json")))
            .await;
    let error = server.client().wait_job(JOB_ID).await.unwrap_err();
    assert_eq!(error.status().unwrap(), 404);
    assert_eq!(server.received().len(), 1);
}

// The environment.

#[test]
fn the_environment_names_the_service() {
    // A process of its own, for the environment belongs to all tests.
    let run = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "environment_of_a_child", "--nocapture", "--include-ignored"]);
        command
            .env_remove("MOLBOX_API_KEY")
            .env("MOLBOX_TEST_CHILD", "1")
            .envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(run(&[]).contains("MOLBOX_API_KEY: not set"));
    assert!(run(&[("MOLBOX_API_KEY", "k"), ("MOLBOX_BASE_URL", "x")]).contains("base_url: "));
    let fine = run(&[("MOLBOX_API_KEY", "k"), ("MOLBOX_BASE_URL", "http://127.0.0.1:9/prod/")]);
    assert!(fine.contains("baseurl: \"http://127.0.0.1:9/prod\""), "{fine}");
}

#[test]
#[allow(clippy::print_stdout, reason = "read by the parent")]
fn environment_of_a_child() {
    if std::env::var_os("MOLBOX_TEST_CHILD").is_some() {
        match Client::from_env() {
            Ok(client) => println!("{client:?}"),
            Err(error) => println!("{error}"),
        }
    }
}

#[test]
fn futures_can_be_spawned() {
    fn is_send<T: Send>(_: &T) {}
    let molbox = Client::new("http://127.0.0.1:9/local", "k").unwrap();
    is_send(&molbox.job_submit().body(JobCreateParams::default()).send());
    is_send(&molbox.system_submit().body(SystemBuildRequest::builder().protein("1L2Y")).send());
    is_send(&molbox.wait_job(JOB_ID).into_future());
    is_send(&molbox.upload("x.pdb").into_future());
    is_send(&molbox.upload_reader("pdb", tokio::io::empty(), 0).into_future());
    is_send(&molbox.copy_job(JOB_ID, &mut Vec::new()));
    is_send(&molbox.download_job(JOB_ID, "x.zip").into_future());
}
