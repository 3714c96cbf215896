//! What a submission would come to, told before it is made.

use std::fs;
use std::path::Path;

use molbox::workflow::types::{
    EquilibrationStep, Estimate, JobCreateParams, ProductionParams, QueuePlace,
};
use serde_json::{Value, json};

use crate::common::{Service, example};
use crate::work::water;

/// Status and body of the answer to a request.
pub(crate) async fn post(service: &Service, key: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = reqwest::Client::new().post(format!("{}{path}", service.base_url));
    let request = request.header("x-api-key", key).header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

/// An estimate but for when the task would start: what is known of the queue is renewed meanwhile.
fn timeless(estimate: &Estimate) -> Estimate {
    let queue = estimate.queue.clone();
    let queue = queue.map(|place| QueuePlace { expected_start_at: None, ..place });
    Estimate { queue, ..estimate.clone() }
}

fn is_within(found: u64, expected: u64, share: f64) {
    let ratio = found as f64 / expected as f64;
    assert!((ratio - 1.0).abs() <= share, "{found} for {expected}");
}

#[tokio::test]
async fn a_check_refuses_what_the_submission_refuses_and_queues_nothing() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let refused = [
        ("system", json!({"box_shape": "sphere", "minimum_padding": 9})),
        ("system", json!({"protein": "nobody", "concentration": -1})),
        ("system", json!({"ligands": ["nobody"]})),
        ("system", json!({"force_field": "charmm36", "ions": "NaBr", "chain_id": "A"})),
        ("system", json!([])),
        ("job", json!({"box_id": "box_00000000000000000000", "temperature": -1})),
        ("job", json!({"production": {"time": 0.001, "traj_freq": 100_000}})),
        ("analysis", json!({"job_id": "job_00000000000000000000"})),
        ("analysis", json!({"rmsd_masks": [["@@"]]})),
    ];
    for (what, body) in refused {
        let check = post(&service, &key, &format!("/check/{what}"), &body).await;
        let submission = post(&service, &key, &format!("/submit/{what}"), &body).await;
        assert!(submission.0 >= 400, "{body}: {submission:?}");
        assert_eq!(check, submission, "{body}");
    }
    let body = json!({"protien": "x", "minimum_padding": 0.7});
    let (status, preview) = post(&service, &key, "/check/system", &body).await;
    assert_eq!(status, 200, "{preview}");
    assert_eq!(preview["warnings"][0]["code"], "unknown_field");
    assert_eq!(preview["parameters"]["minimum_padding"], 0.7);
    assert_eq!(preview["parameters"]["water_type"], "tip3p");
    assert!(molbox.system_list().send().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_chain_that_the_structure_lacks_is_named_by_the_check_which_estimates_nothing_then() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let check = |chains: &'static str| {
        let body = json!({"protein": "villin", "chain_id": chains});
        let (service, key) = (&service, &key);
        async move { post(service, key, "/check/system", &body).await.1 }
    };
    let preview = check("A, X").await;
    let warning = &preview["warnings"][0];
    assert_eq!(warning["code"], "no_such_chain");
    assert_eq!(warning["message"], "the structure has no chain X; it has A");
    assert_eq!(warning["loc"], json!(["body", "chain_id"]));
    assert!(preview["estimate"]["atoms"].is_null(), "{preview}");
    let preview = check("A").await;
    assert!(preview["estimate"]["atoms"].is_u64(), "{preview}");
}

#[tokio::test]
async fn what_a_build_would_do_to_a_structure_is_told_by_the_check() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let atom = |serial: usize, name: &str, residue: &str, chain: &str, number: usize| {
        let x = 1.5 * serial as f64;
        let at = format!("{x:8.3}  50.000  50.000");
        format!("HETATM{serial:>5}  {name:<3} {residue} {chain}{number:>4}    {at}\n")
    };
    let mut text = std::fs::read_to_string(example("1vii.pdb")).unwrap();
    text = text.replace(" TRP A  64 ", " TRX A  64 ");
    text.truncate(text.find("\nTER").unwrap());
    text += "\nTER\n";
    let ligand = |chain| {
        let atoms = [1, 2].map(|residue| {
            [("C1", 0), ("C2", 1)]
                .map(|(name, nth)| atom(900 + 2 * residue + nth, name, "BEN", chain, 200 + residue))
        });
        atoms.concat().concat()
    };
    text += &ligand("A");
    text += &ligand("B");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.pdb");
    std::fs::write(&path, text + "END\n").unwrap();
    molbox.upload(&path).await.unwrap();
    for (more, expected) in [
        (json!({}), "BEN (4) would be removed, unless the force field has a template of it"),
        (
            json!({"chain_id": "A"}),
            "BEN (2) would be removed, unless the force field has a template of it",
        ),
        (
            json!({"membrane": "POPC"}),
            "BEN (4) would be removed, unless the force field has a template of it",
        ),
    ] {
        let mut body = json!({"protein": "odd"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (_, preview) = post(&service, &key, "/check/system", &body).await;
        let told: Vec<_> = preview["warnings"].as_array().unwrap().iter().collect();
        let said = |code: &str| {
            let one = told.iter().find(|warning| warning["code"] == code);
            one.unwrap_or_else(|| panic!("{code}: {preview}"))["message"].as_str().unwrap()
        };
        assert_eq!(said("no_template"), "TRX (1) needs a force field that has a template of it");
        assert_eq!(said("heterogen_removed"), expected, "{body}");
    }
}

#[tokio::test]
async fn what_is_probably_not_meant_is_told_by_the_check_and_kept_with_the_job() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let told = |record: &Value| -> Vec<(Value, Value)> {
        let warnings = record["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| (warning["code"].clone(), warning["loc"][1].clone())).collect()
    };
    let stage = json!({"type": "NVT", "time": 0.0002});
    let odd = json!({
        "box_id": system.system_id.as_str(), "temperature": 3100, "friction": 0, "pressure": 101_325,
        "equilibration": [stage],
    });
    let code = json!("unlikely_value");
    // Nothing is of NPT here.
    let expected = ["temperature", "friction"].map(|field| (code.clone(), json!(field)));
    for path in ["/check/job", "/submit/job"] {
        let (status, record) = post(&service, &key, path, &odd).await;
        assert_eq!(status, 200, "{record}");
        assert_eq!(told(&record), expected, "{path}");
        let message = record["warnings"][0]["message"].as_str().unwrap();
        assert!(message.ends_with("did you mean 310 K?"), "{message}");
    }
    let short = json!({
        "box_id": system.system_id.as_str(), "equilibration": [stage, {"time": 1e-9}],
        "production": {"time": 9e-7},
    });
    let (_, preview) = post(&service, &key, "/check/job", &short).await;
    let places = preview["warnings"].as_array().unwrap().iter().map(|one| &one["loc"]);
    let stages =
        [json!(["body", "equilibration", 1, "time"]), json!(["body", "production", "time"])];
    assert!(places.eq(&stages), "{preview}");
    let usual = json!({"box_id": system.system_id.as_str(), "temperature": 310});
    let (_, preview) = post(&service, &key, "/check/job", &usual).await;
    assert_eq!(told(&preview), []);
    let mut high = usual;
    high["pressure"] = json!(101_325);
    let (_, preview) = post(&service, &key, "/check/job", &high).await;
    assert_eq!(told(&preview), [(code, json!("pressure"))], "two default stages are of NPT");
}

#[tokio::test]
async fn a_job_writes_as_much_as_was_estimated_and_others_take_as_long() {
    let service = Service::start_with(&["worker.slots=1", "worker.cpus=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let asked = molbox.system_check().body_map(|system| system.minimum_padding(1.2));
    let guessed = asked.send().await.unwrap();
    let atoms = system.summary.as_ref().unwrap().atoms;
    is_within(guessed.estimate.atoms.unwrap(), atoms, 0.04);
    let molecules = &system.summary.as_ref().unwrap().molecules;
    is_within(guessed.estimate.waters.unwrap(), molecules["water"], 0.04);
    let stage = EquilibrationStep::builder().time(0.0002).log_freq(10);
    let production = ProductionParams::builder().time(0.0006).traj_freq(50).log_freq(10);
    let job: JobCreateParams = JobCreateParams::builder()
        .box_id(system.system_id.as_str())
        .minimization_steps(10)
        .equilibration([stage])
        .production(production)
        .try_into()
        .unwrap();
    let check = || molbox.job_check().body(job.clone()).send();
    let before = check().await.unwrap().into_inner();
    assert_eq!((before.estimate.hours, before.parameters.seed), (None, None));
    let held = async || {
        let usage = molbox.usage_view().send().await.unwrap();
        u64::try_from(usage.bytes.used).unwrap()
    };
    let before_job = held().await;
    let submitted = molbox.job_submit().body(job.clone()).send().await.unwrap().into_inner();
    let done = molbox.wait_job(&submitted.job_id).await.unwrap();

    let estimate = &before.estimate;
    let run: Vec<_> = done.stages.iter().filter(|stage| stage.name != "minimization").collect();
    assert_eq!(estimate.atoms, Some(atoms));
    assert_eq!(estimate.steps, Some(run.iter().map(|stage| stage.steps).sum()));
    assert_eq!(estimate.frames, Some(run.iter().map(|stage| stage.frames).sum()));
    let folder = service.objects().join("tasks").join(submitted.job_id.as_str());
    let files = files(&folder);
    let of = |end: &str| -> u64 {
        files.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, size)| size).sum()
    };
    assert_eq!(estimate.trajectory_bytes, Some(of(".dcd")));
    // It was over before there was a checkpoint, for which its last state stands.
    let checkpoint = of("production.state.xml") + 51 * atoms;
    let held = held().await - before_job;
    is_within(estimate.result_bytes.unwrap(), held + checkpoint, 0.06);
    let mut parameters = serde_json::to_value(&done.parameters).unwrap();
    parameters.as_object_mut().unwrap().remove("seed");
    assert_eq!(serde_json::to_value(&before.parameters).unwrap(), parameters);

    let after = check().await.unwrap();
    let hours = after.estimate.hours.expect("a job was measured").get();
    assert!(hours > 0.0 && hours < 1.0, "{hours}");

    let unbuilt = JobCreateParams { box_id: None, ..job };
    let unbuilt = molbox.job_check().atoms(atoms).body(unbuilt).send().await.unwrap();
    assert_eq!(
        timeless(&unbuilt.estimate),
        timeless(&after.estimate),
        "on a system of that size, built or not"
    );
    assert_eq!(unbuilt.parameters.box_id, None);
}

#[tokio::test]
async fn a_job_on_a_system_that_is_not_built_is_checked_as_far_as_its_size_tells() {
    let service = Service::start();
    let key = service.key("ada");
    for (body, expected) in [
        (json!({"temperature": -1}), ("greater_than_equal", json!(["body", "temperature"]))),
        (
            json!({"production": {"time": 1e6, "traj_freq": 1}}),
            ("results_too_large", json!(["body", "production", "traj_freq"])),
        ),
    ] {
        let (status, refusal) = post(&service, &key, "/check/job?atoms=20000", &body).await;
        assert_eq!(status, 422, "{refusal}");
        let violations = refusal["detail"].as_array().unwrap();
        assert_eq!(violations.len(), 1, "of no system: {refusal}");
        assert_eq!(
            (violations[0]["type"].as_str().unwrap(), violations[0]["loc"].clone()),
            expected
        );
    }
    let asked = json!({"box_id": "box_00000000000000000000", "temperature": 3100});
    let (status, preview) = post(&service, &key, "/check/job?atoms=20000", &asked).await;
    assert_eq!((status, &preview["estimate"]["atoms"]), (200, &json!(20000)), "{preview}");
    assert_eq!(preview["warnings"][0]["code"], "unlikely_value");
}

#[tokio::test]
async fn a_job_on_a_queued_system_is_checked_and_estimated_by_what_its_build_is_to_give() {
    let service = Service::start_with(&["tasks.runner=off"]);
    let key = service.key("ada");
    let submitted = async |system: Value| {
        let (status, record) = post(&service, &key, "/submit/system", &system).await;
        assert_eq!(status, 200, "{record}");
        record["system_id"].as_str().unwrap().to_owned()
    };
    let box_id = submitted(json!({"minimum_padding": 1.2})).await;
    let (_, of_system) =
        post(&service, &key, "/check/system", &json!({"minimum_padding": 1.2})).await;
    let atoms = of_system["estimate"]["atoms"].as_u64().unwrap();
    let stage = json!({"type": "NVT", "time": 0.1, "traj_freq": 100, "restraint_mask": "@CA"});
    let job = json!({"box_id": box_id, "temperature": 3100, "equilibration": [stage]});
    let (status, preview) = post(&service, &key, "/check/job", &job).await;
    assert_eq!(status, 200, "{preview}");
    let codes = [&preview["warnings"][0]["code"], &preview["warnings"][1]["code"]];
    assert_eq!(codes, ["system_not_built", "unlikely_value"]);
    assert_eq!(preview["parameters"]["box_id"], *box_id);
    let (_, by_atoms) = post(&service, &key, &format!("/check/job?atoms={atoms}"), &job).await;
    assert_eq!(preview["estimate"], by_atoms["estimate"]);
    assert!(preview["estimate"]["trajectory_bytes"].as_u64() > Some(atoms));

    let wrong = json!({"box_id": box_id, "temperature": -1});
    assert_eq!(post(&service, &key, "/check/job", &wrong).await.0, 422);
    let (status, refusal) = post(&service, &key, "/submit/job", &job).await;
    assert_eq!((status, &refusal["detail"][0]["loc"]), (409, &json!(["body", "box_id"])));

    let membrane = submitted(json!({"membrane": "POPC"})).await;
    let (status, preview) = post(&service, &key, "/check/job", &json!({"box_id": membrane})).await;
    assert_eq!(status, 200, "{preview}");
    let estimate = &preview["estimate"];
    let known = ["atoms", "memory_bytes", "trajectory_bytes", "steps", "frames"]
        .map(|name| estimate[name].is_number());
    assert_eq!(known, [false, false, false, true, true], "{estimate}");

    let (status, _) = post(&service, &key, &format!("/cancel/system/{box_id}"), &json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(post(&service, &key, "/check/job", &job).await.0, 409, "it is never built");
}

#[tokio::test]
async fn no_number_of_a_body_however_large_or_small_breaks_a_check() {
    let service = Service::start();
    let key = service.key("ada");
    service.client_with(&key).upload(example("1vii.pdb")).name("villin").await.unwrap();
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let extremes =
        ["0", "5e-324", "1e-9", "1e9", "9223372036854775807", "1e18", "1.7976931348623157e308"];
    let mut accepted = 0;
    for (path, schema, about) in [
        ("/check/job?atoms=1", "JobCreateParams", json!({"production": {}})),
        ("/check/job?atoms=100000000", "JobCreateParams", json!({"production": {"traj_freq": 0}})),
        ("/check/system", "SystemBuildRequest", json!({"protein": "villin"})),
    ] {
        let schema = &document["components"]["schemas"][schema];
        let places = places_of_numbers(&document, schema);
        assert!(places.len() > 3, "{path}: {places:?}");
        for place in places {
            for extreme in extremes {
                let number: Value = serde_json::from_str(extreme).unwrap();
                let mut body = about.clone();
                put(&mut body, &place, number);
                let (status, answer) = post(&service, &key, path, &body).await;
                assert!(matches!(status, 200 | 422), "{path} {body}: {status} {answer}");
                accepted += usize::from(status == 200);
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
    let bytes = async |temperature: f64| {
        let body = json!({"temperature": temperature});
        let (_, preview) = post(&service, &key, "/check/job?atoms=100000000", &body).await;
        preview["estimate"]["result_bytes"].as_u64().unwrap()
    };
    assert!(bytes(f64::MAX).await > bytes(1e300).await);
}

/// Where a body of a schema has numbers: members one in another, an array's `[]`.
fn places_of_numbers(document: &Value, schema: &Value) -> Vec<Vec<String>> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return places_of_numbers(document, &document["components"]["schemas"][name]);
    }
    if matches!(schema["type"].as_str(), Some("number" | "integer")) {
        return vec![Vec::new()];
    }
    let mut places = Vec::new();
    let members = schema["properties"].as_object().into_iter().flatten();
    let members = members.map(|(name, member)| (Some(name.as_str()), member));
    let items = schema.get("items").map(|items| (Some("[]"), items));
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|of| schema[of].as_array());
    for (step, part) in members.chain(items).chain(parts.flatten().map(|part| (None, part))) {
        let steps = step.map(str::to_owned);
        let below = places_of_numbers(document, part).into_iter();
        places.extend(below.map(|place| steps.iter().cloned().chain(place).collect()));
    }
    places
}

/// Puts a value into a body, with what it takes to be there.
fn put(body: &mut Value, place: &[String], value: Value) {
    let target = place.iter().fold(body, |at, step| match step.as_str() {
        "[]" => {
            if at.as_array().is_none_or(Vec::is_empty) {
                *at = json!([null]);
            }
            &mut at[0]
        }
        step => &mut at[step],
    });
    *target = value;
}

/// Names and sizes of the plain files in a folder.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            let name = entry.file_name().into_string().unwrap();
            found.push((name, entry.metadata().unwrap().len()));
        }
    }
    found
}

#[tokio::test]
async fn the_atoms_around_a_protein_are_foretold_and_nobody_else_s_file_is_read() {
    let service = Service::start();
    let molbox = service.client("ada");
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    // As they were built with OpenMM 8.
    for (shape, padding, atoms) in [("cube", 1.0, 15_968), ("dodecahedron", 1.0, 11_166)] {
        let preview = molbox
            .system_check()
            .body_map(|system| system.protein("villin").box_shape(shape).minimum_padding(padding));
        let estimate = preview.send().await.unwrap().into_inner().estimate;
        is_within(estimate.atoms.unwrap(), atoms, 0.03);
        assert!(estimate.memory_bytes.unwrap() > 100_000_000);
    }
    let other = service.client("grace");
    let refused = other.system_check().body_map(|system| system.protein("villin")).send().await;
    assert_eq!(refused.unwrap_err().status().unwrap(), 404);
}
