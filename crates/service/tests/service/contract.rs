//! The service keeps to the document, whoever asks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::common::{Service, example, python};
use molbox::workflow::types::{JobCreateParams, SystemBuildRequest};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

/// Requests as they are, without what the client makes of them.
struct Raw {
    http: reqwest::Client,
    base_url: String,
    key: String,
}

impl Raw {
    fn new(service: &Service) -> Self {
        Self {
            http: reqwest::Client::new(),
            base_url: service.base_url.clone(),
            key: service.key("raw"),
        }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url)).header("x-api-key", &self.key)
    }

    async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
        let request =
            self.request(Method::POST, path).header("content-type", "application/json").body(body);
        let response = request.send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }
}

fn kinds(body: &Value) -> Vec<(String, Value)> {
    let detail = body["detail"].as_array().unwrap();
    detail
        .iter()
        .map(|item| (item["type"].as_str().unwrap().to_owned(), item["loc"].clone()))
        .collect()
}

#[tokio::test]
async fn violations_have_the_place_and_the_kind_that_fastapi_gives() {
    let service = Service::start();
    let raw = Raw::new(&service);
    let body = r#"{"temperature": -1, "equilibration": [{"time": 1}, {"time": -0.5, "type": "NPH"}],
                   "integration_timestep": 0, "batch_index": 1.5, "box_id": "", "minimization_steps": "many"}"#;
    let (status, answer) = raw.post("/submit/job", body).await;
    assert_eq!(status, 422);
    let expected = [
        ("string_too_short", json!(["body", "box_id"])),
        ("int_from_float", json!(["body", "batch_index"])),
        ("greater_than_equal", json!(["body", "equilibration", 1, "time"])),
        ("enum", json!(["body", "equilibration", 1, "type"])),
        ("greater_than_equal", json!(["body", "temperature"])),
        ("greater_than", json!(["body", "integration_timestep"])),
        ("int_parsing", json!(["body", "minimization_steps"])),
    ];
    assert_eq!(kinds(&answer), expected.map(|(kind, loc)| (kind.to_owned(), loc)));
    assert_eq!(answer["detail"][4]["msg"], "Input should be greater than or equal to 0");
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_the_common_shape() {
    let service = Service::start_with(&["limits.body_bytes=1000"]);
    let raw = Raw::new(&service);
    let json = "application/json";
    let long = format!("{{\"batch_name\": \"{}\"}}", "x".repeat(2000));
    for (content_type, body, status, kind, loc) in [
        (json, "{\"temperature\": }", 422, "json_invalid", json!(["body", 16])),
        (json, "", 422, "missing", json!(["body"])),
        (json, "[]", 422, "model_attributes_type", json!(["body"])),
        ("text/plain", "{}", 422, "model_attributes_type", json!(["body"])),
        (json, long.as_str(), 413, "too_large", json!(["body"])),
    ] {
        let request = raw.request(Method::POST, "/submit/job").header("content-type", content_type);
        let response = request.body(body.to_owned()).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{body}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(kinds(&answer), [(kind.to_owned(), loc)], "{body}");
    }
    let nested = format!("{}{}", "[".repeat(400), "]".repeat(400));
    let request = raw.request(Method::POST, "/submit/job").header("content-type", json);
    assert_eq!(request.body(nested).send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn what_is_not_in_the_document_is_not_served() {
    let service = Service::start();
    let raw = Raw::new(&service);
    for (method, path, status) in [
        (Method::GET, "/nope", 404),
        (Method::POST, "/submit/file", 404),
        (Method::PUT, "/info/jobs", 405),
        (Method::GET, "/submit/job", 405),
        (Method::GET, "/info/job/%ff", 404),
        (Method::GET, "/info/job/job_00000000000000000000", 404),
        (Method::GET, "/info/job/box_00000000000000000000", 404),
        (Method::GET, "/info/system/nope", 404),
        (Method::GET, "/info/file/nope", 404),
        (Method::GET, "/retrieve/job/nope", 404),
        (Method::GET, "/info/jobs?limit=0", 422),
        (Method::GET, "/info/jobs?limit=x", 422),
        (Method::GET, "/info/jobs?page_token=x", 422),
        (Method::GET, "/info/jobs?status=lost", 422),
        (Method::GET, "/submit/upload-url", 422),
        (Method::GET, "/submit/upload-url?filetype=exe", 422),
    ] {
        let response = raw.request(method.clone(), path).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
        assert!(response.headers().contains_key("x-request-id"), "{method} {path}");
        let body: Value = response.json().await.unwrap();
        assert!(!kinds(&body).is_empty(), "{method} {path}");
    }
}

#[tokio::test]
async fn a_key_is_asked_for_before_anything_else() {
    let service = Service::start();
    let mut raw = Raw::new(&service);
    let good = raw.key.clone();
    let swapped = format!("{}{}", &good[..good.len() - 2], "zz");
    for key in ["", "mbx_nope", &swapped, &good.to_lowercase()] {
        raw.key = key.to_owned();
        let response = raw.request(Method::POST, "/submit/job").body("{").send().await.unwrap();
        assert_eq!(response.status(), 401, "{key:?}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(kinds(&body), [("unauthorized".to_owned(), json!(["header", "x-api-key"]))]);
    }
    let health = reqwest::get(format!("{}/healthz", service.base_url)).await.unwrap();
    assert_eq!(health.status(), 200, "health needs no key");
    assert_eq!(
        reqwest::get(format!("{}/healthz", service.margin_url)).await.unwrap().status(),
        200
    );
}

/// What ends a key, so that only the database tells that it is wrong.
fn checksum(body: &str) -> String {
    let digits: Vec<char> = ('0'..='9').chain('A'..='Z').chain('a'..='z').collect();
    let sum = crc32fast::hash(body.as_bytes()) as usize;
    (0..6).rev().map(|place| digits[sum / 62_usize.pow(place) % 62]).collect()
}

#[tokio::test]
async fn a_key_that_is_revoked_or_of_a_disabled_account_is_refused_at_once() {
    let mut service = Service::start();
    let key = service.key("ada");
    let ada = service.client_with(&key);
    let account = ada.account_view().send().await.unwrap();
    assert_eq!(account.account, "ada");
    service.command(&["key", "revoke", &account.key_id]);
    assert_eq!(
        ada.account_view().send().await.unwrap_err().status(),
        Some(StatusCode::UNAUTHORIZED)
    );

    let other = service.client("ada");
    let id = other.account_view().send().await.unwrap().key_id.clone();
    service.command(&["account", "disable", "ada"]);
    let refused = async |molbox: &molbox::Client| {
        let error = molbox.account_view().send().await.unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::UNAUTHORIZED));
        let [violation] = error.violations() else { panic!("{error}") };
        (violation.type_.clone(), violation.msg.clone())
    };
    let (kind, message) = refused(&other).await;
    assert_eq!(kind, "account_disabled");
    assert!(message.contains("disabled; ask whoever runs the service"), "{message}");
    // Nobody else learns that: neither who has the first eight characters, which are listed, nor who
    // has a key that is over.
    let forged = format!("{id}{}", &service.key("bob")[12..55]);
    let forged = format!("mbx_{forged}{}", checksum(&forged));
    let (kind, message) = refused(&service.client_with(&forged)).await;
    assert_eq!((kind.as_str(), message.as_str()), ("unauthorized", "the API key is not valid"));
    let (kind, message) = refused(&ada).await;
    assert_eq!(kind, "unauthorized");
    assert!(message.starts_with("this API key was revoked on"), "{message}");

    let listed = service.command(&["key", "list", "ada"]);
    assert!(listed.contains("revoked") && !listed.contains(&key), "{listed}");
    let database = std::fs::read(service.data.join("molbox.sqlite-wal")).unwrap_or_default();
    let secret = &key.as_bytes()[12..40];
    assert!(!database.windows(secret.len()).any(|w| w == secret), "the secret is stored nowhere");
    service.stop();
    assert!(!service.log().contains(&key), "nor is it logged");
}

#[tokio::test]
async fn the_request_id_of_a_caller_is_kept_when_it_is_plain() {
    let service = Service::start();
    let raw = Raw::new(&service);
    let id = |given: &'static str| {
        let request = raw.request(Method::GET, "/info/account").header("x-request-id", given);
        async move {
            request.send().await.unwrap().headers()["x-request-id"].to_str().unwrap().to_owned()
        }
    };
    assert_eq!(id("trace-17").await, "trace-17");
    assert_ne!(id("a b;c").await, "a b;c");
    service.wait_until_it_logs("trace-17");
}

#[tokio::test]
async fn the_document_is_served_as_it_is() {
    let service = Service::start();
    let served = service.client("ada").service_document().send().await.unwrap().into_inner();
    let written: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    assert_eq!(serde_json::to_value(&served).unwrap(), written);
    let address = format!("{}/openapi.json", service.margin_url);
    assert_eq!(reqwest::get(address).await.unwrap().json::<Value>().await.unwrap(), written);
}

#[tokio::test]
async fn each_address_has_the_document_that_its_clients_are_generated_from() {
    let service = Service::start();
    for (url, name, text) in [
        (&service.base_url, "workflow", include_str!("../../../../openapi/openapi-workflow.json")),
        (&service.margin_url, "margin", include_str!("../../../../openapi/openapi-margin.json")),
    ] {
        let mut written: Value = serde_json::from_str(text).unwrap();
        written["servers"][0]["url"] = url.as_str().into();
        let served = reqwest::get(format!("{url}/openapi-{name}.json"))
            .await
            .unwrap()
            .json::<Value>()
            .await
            .unwrap();
        assert_eq!(served, written);
    }
}

#[tokio::test]
async fn the_reference_is_a_page_that_needs_nothing_from_elsewhere() {
    let service = Service::start();
    for address in [&service.base_url, &service.margin_url] {
        let page = reqwest::get(format!("{address}/docs/api")).await.unwrap();
        assert_eq!(page.url().as_str(), format!("{address}/docs/api.html"));
        let page = page.text().await.unwrap();
        let scripts: Vec<&str> =
            page.split("src=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(scripts.len(), 3);
        for script in scripts {
            assert!(!script.contains('/'), "{script}");
            let response = reqwest::get(format!("{address}/docs/{script}")).await.unwrap();
            assert_eq!(response.status(), 200, "{script}");
            assert_eq!(response.headers()["content-type"], "text/javascript");
        }
        assert_eq!(reqwest::get(format!("{address}/docs/else")).await.unwrap().status(), 404);
        // The guides where the program has them, otherwise the reference.
        let front = reqwest::get(format!("{address}/docs")).await.unwrap();
        assert_eq!(front.status(), 200);
        assert!(front.url().as_str().starts_with(&format!("{address}/docs/")), "{}", front.url());
    }
    let origin = service.base_url.strip_suffix("/local").unwrap();
    for path in ["/docs", "/docs/", "/docs/api.html", "/docs/api"] {
        let page = reqwest::get(format!("{origin}{path}")).await.unwrap();
        assert!(page.url().path().starts_with("/local/docs/"), "{path}: {}", page.url());
    }
    let page = reqwest::get(&service.margin_url).await.unwrap();
    assert!(page.url().path().starts_with("/docs/"), "the margin's address itself: {}", page.url());
}

#[tokio::test]
async fn what_a_system_cannot_be_is_told_field_by_field() {
    let service = Service::start();
    let molbox = service.client("ada");
    let wrong = SystemBuildRequest::builder()
        .box_shape("sphere")
        .concentration(-1)
        .force_field("amber12")
        .ions("CaCl2")
        .minimum_padding(0)
        .p_h(15)
        .water_type("ice")
        .chain_id("A,,B")
        .seed(1u64 << 40);
    let error = molbox.system_submit().body(wrong).send().await.unwrap_err();
    let mut fields: Vec<String> =
        error.violations().iter().map(|violation| violation.path()).collect();
    fields.sort();
    fields.dedup();
    let expected = [
        "box_shape",
        "chain_id",
        "concentration",
        "force_field",
        "ions",
        "minimum_padding",
        "pH",
        "seed",
        "water_type",
    ];
    assert_eq!(fields, expected);
    assert!(
        error.to_string().contains("must be one of cube, rectangular, dodecahedron, octahedron"),
        "{error}"
    );

    let wrong = SystemBuildRequest::builder()
        .force_field("amberfb15")
        .water_type("tip4pfb")
        .membrane("POPC")
        .ligand_residue_names(["TOOLONG"])
        .ligand_rotations([vec![serde_json::json!("x")]]);
    let error = molbox.system_submit().body(wrong).send().await.unwrap_err();
    let mut fields: Vec<String> =
        error.violations().iter().map(|violation| violation.path()).collect();
    fields.sort();
    let expected = [
        "ligand_residue_names",
        "ligand_residue_names[0]",
        "ligand_rotations",
        "membrane",
        "water_type",
    ];
    assert_eq!(fields, expected, "{error}");

    let error =
        molbox.system_submit().body_map(|s| s.ligands(["nothing"])).send().await.unwrap_err();
    assert_eq!(
        (error.status().unwrap().as_u16(), error.violations()[0].path()),
        (404, "ligands[0]".to_owned())
    );
    let error = molbox.system_submit().body_map(|s| s.protein("nothing")).send().await.unwrap_err();
    assert_eq!(
        (error.status().unwrap().as_u16(), error.violations()[0].path()),
        (404, "protein".to_owned())
    );
}

#[tokio::test]
async fn a_ligand_that_cannot_be_turned_or_called_so_is_refused_by_the_check() {
    let service = Service::start();
    let molbox = service.client("ada");
    let xylene =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worker/tests/data/p-xylene.mol2");
    molbox.upload(xylene).name("xylene").await.unwrap();
    let asked = |name: &str, rotation: Value| {
        let Value::Array(rotation) = rotation else { unreachable!() };
        let asked = molbox.system_check().body_map(|system| {
            system.ligands(["xylene"]).ligand_residue_names([name]).ligand_rotations([rotation])
        });
        asked.send()
    };
    for (name, rotation, field) in [
        ("ALA", json!([]), "ligand_residue_names[0]"),
        ("HOH", json!([]), "ligand_residue_names[0]"),
        ("CL", json!([]), "ligand_residue_names[0]"),
        ("XYL", json!([0, 0, 0, 0]), "ligand_rotations[0]"),
        ("XYL", json!([2, 0, 0, 0, 1, 0, 0, 0, 1]), "ligand_rotations[0]"),
        // Mirrored, and two rows in one direction.
        ("XYL", json!([[-1, 0, 0], [0, 1, 0], [0, 0, 1]]), "ligand_rotations[0]"),
        ("XYL", json!([1, 0, 0, 1, 0, 0, 0, 0, 1]), "ligand_rotations[0]"),
    ] {
        let error = asked(name, rotation.clone()).await.unwrap_err();
        let fields: Vec<String> =
            error.violations().iter().map(|violation| violation.path()).collect();
        assert_eq!(fields, [field], "{name} {rotation}: {error}");
    }
    // The second has squares that a double does not hold.
    for rotation in
        [json!([0, 0, 0, 1]), json!([0, 0, 0, 1e-200]), json!([0, 1, 0, 0, 0, 1, 1, 0, 0])]
    {
        asked("XYL", rotation).await.unwrap();
    }
}

#[tokio::test]
async fn the_settings_of_a_membrane_have_its_box_and_not_what_was_asked_for() {
    let service = Service::start();
    let molbox = service.client("ada");
    for (membrane, shape) in [(Some("POPC"), "rectangular"), (None, "cube")] {
        let request = SystemBuildRequest::builder().box_shape("cube");
        let request = match membrane {
            Some(lipid) => request.membrane(lipid),
            None => request,
        };
        let checked = molbox.system_check().body(request).send().await.unwrap();
        assert_eq!(checked.parameters.box_shape.as_deref(), Some(shape));
    }
}

#[tokio::test]
async fn a_job_refers_to_a_system_of_the_account_that_is_built() {
    let service = Service::start();
    let molbox = service.client("ada");
    let none = molbox.job_submit().body(JobCreateParams::default()).send().await.unwrap_err();
    assert_eq!(
        (none.status().unwrap().as_u16(), none.violations()[0].path()),
        (422, "box_id".to_owned())
    );
    let unknown = molbox
        .job_submit()
        .body_map(|j| j.box_id("box_00000000000000000000"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (unknown.status().unwrap().as_u16(), unknown.violations()[0].path()),
        (404, "box_id".to_owned())
    );

    // No interpreter: the build stays queued or fails, but is never built.
    let service =
        Service::start_with(&["worker.python=\"/nonexistent/python\"", "worker.attempts=1"]);
    let molbox = service.client("ada");
    let system = molbox.system_submit().send().await.unwrap();
    let unfinished = molbox.job_submit().send().await.unwrap_err();
    assert_eq!(unfinished.status().unwrap(), 409);
    assert!(unfinished.violations()[0].msg.starts_with(system.system_id.as_str()), "{unfinished}");
}

#[tokio::test]
async fn metrics_count_and_name_nobody() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    molbox.account_view().send().await.unwrap();
    let request = reqwest::Client::new()
        .get(format!("{}/metrics", service.base_url))
        .header("x-api-key", &key);
    let text = request.send().await.unwrap().text().await.unwrap();
    assert!(
        text.contains("molbox_requests_total{operation=\"account_view\",status=\"200\"} 1"),
        "{text}"
    );
    assert!(text.contains("molbox_free_disk_bytes "));
    assert!(!text.contains("ada") && !text.contains(&key[4..12]));
}

/// Anions that OpenMM's files have parameters for, by force field, beside any of their waters.
const ANIONS: &str = r#"
import json, sys
from openmm import app
found = {}
for files in json.loads(sys.argv[1]):
    name, *files = files
    force_field = app.ForceField(*files)
    def has(symbol):
        topology = app.Topology()
        residue = topology.addResidue(symbol.upper(), topology.addChain())
        topology.addAtom(symbol.upper(), app.Element.getBySymbol(symbol), residue)
        return not force_field.getUnmatchedResidues(topology)
    assert all(has(symbol) for symbol in ["Na", "K", "Li", "Cs", "Rb"])
    found[name] = [symbol for symbol in ["Cl", "Br", "F", "I"] if has(symbol)]
print(json.dumps(found))
"#;

#[tokio::test]
async fn a_salt_is_refused_where_the_force_field_lacks_its_ions() {
    let service = Service::start();
    let raw = Raw::new(&service);
    let files = json!([
        ["amber14", "amber14-all.xml", "amber14/tip3p.xml"],
        ["amber19", "amber19-all.xml", "amber19/opc.xml"],
        ["amber14-ff15ipq", "amber14/protein.ff15ipq.xml", "amber14/spce.xml"],
        ["amberfb15", "amberfb15.xml", "tip3pfb.xml"],
        ["charmm36", "charmm36.xml", "charmm36/water.xml"],
        ["charmm36_2024", "charmm36_2024.xml", "charmm36_2024/water.xml"],
    ]);
    let answer = std::process::Command::new(python().unwrap())
        .args(["-c", ANIONS, &files.to_string()])
        .output();
    let anions: BTreeMap<String, Vec<String>> =
        serde_json::from_slice(&answer.unwrap().stdout).unwrap();
    assert_eq!(anions.len(), 6);
    for (force_field, has) in anions {
        for anion in ["Cl", "Br", "F", "I"] {
            // The concentration is refused in any case, so that nothing is built.
            let body = json!({"force_field": force_field, "ions": format!("K{anion}"), "concentration": 9});
            let (status, answer) = raw.post("/submit/system", body.to_string()).await;
            assert_eq!(status, 422);
            let refused = answer["detail"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["loc"] == json!(["body", "ions"]));
            let has = has.iter().any(|other| other == anion);
            assert_eq!(refused.is_none(), has, "{force_field} with K{anion}: {answer}");
            if let Some(refused) = refused {
                assert!(refused["msg"].as_str().unwrap().ends_with("for example KCl"), "{answer}");
            }
        }
    }
}

#[test]
fn the_doctor_finds_what_is_missing() {
    let service = Service::start();
    service.key("ada");
    let python = python().unwrap().display().to_string();
    let found = service.command(&["--set", &format!("worker.python={python:?}"), "doctor"]);
    assert!(found.contains("ok      workers: Python 3") && found.contains("CPU"), "{found}");
    let database = found.lines().find(|line| line.contains(" database: ")).unwrap();
    let is_of_a_server = database.contains("PostgreSQL") && database.contains("; 1 account");
    assert!(is_of_a_server || database == "ok      database: sound, 1 account", "{found}");
    let (folder, name) = python.rsplit_once('/').unwrap();
    let mut here = service.place().molboxd();
    here.current_dir(folder).args(["--set", &format!("worker.python=./{name}"), "doctor"]);
    let found = String::from_utf8(here.output().unwrap().stdout).unwrap();
    assert!(found.contains("ok      workers: Python 3"), "{found}");
    let broken = service.failing_command(&["--set", "worker.python=\"/nonexistent\"", "doctor"]);
    assert!(
        broken.contains(
            "cannot start /nonexistent: No such file or directory (os error 2); set worker.python"
        ),
        "{broken}"
    );
    let missing = format!("worker.python={python:?}");
    let broken =
        service.failing_command(&["--set", &missing, "--set", "worker.platform=CUDA", "doctor"]);
    assert!(broken.contains("has no platform CUDA"), "{broken}");
}

#[test]
fn the_doctor_tells_the_service_s_own_addresses_from_those_that_others_have() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("margin_listen=\"{}\"", other.local_addr().unwrap());
    let mut service = Service::start();
    let doctor = ["--set", "listen=\"127.0.0.1:0\"", "--set", &taken, "doctor"];
    let found = |service: &Service| {
        let output = service.place().molboxd().args(doctor).output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        found.lines().find(|line| line.contains("addresses: ")).unwrap().to_owned()
    };
    let line = found(&service);
    assert!(line.starts_with("ok ") && line.contains("the service of this data folder"), "{line}");
    service.stop();
    let line = found(&service);
    assert!(
        line.contains(&format!("{}: set margin_listen", other.local_addr().unwrap())),
        "{line}"
    );
}

#[test]
fn the_doctor_finds_passwords_that_can_be_read_on_their_way() {
    let service = Service::start();
    let found = |setting: &str| {
        let python = format!("worker.python={:?}", python().unwrap().display().to_string());
        let found = service.command(&["--set", &python, "--set", setting, "doctor"]);
        found.lines().find(|line| line.contains("portal: ")).unwrap().to_owned()
    };
    for safe in [
        "listen=\"127.0.0.1:0\"",
        "public_url=\"https://molbox.example.org\"",
        "public_url=\"http://localhost:8080\"",
        "public_url=\"http://[::1]:8080\"",
    ] {
        assert!(found(safe).starts_with("ok "), "{safe}");
    }
    for open in ["listen=\"0.0.0.0:0\"", "public_url=\"http://molbox.example.org\""] {
        let line = found(open);
        assert!(line.starts_with("weak ") && line.contains("public_url"), "{open}: {line}");
    }
}

#[test]
fn man_pages_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut man = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    assert!(man.arg("man").arg(folder.path().join("pages")).status().unwrap().success());
    let page = fs::read_to_string(folder.path().join("pages/molboxd-account-create.1")).unwrap();
    assert!(page.contains("manages accounts"), "{page}");
}

#[test]
fn two_services_do_not_share_a_folder() {
    let service = Service::start();
    let error = service.failing_command(&["--set", "listen=\"127.0.0.1:0\"", "serve"]);
    assert!(error.contains("another molboxd serves"), "{error}");
}

#[test]
fn accounts_and_keys_are_managed_with_clear_words() {
    let service = Service::start();
    service.command(&["account", "create", "ada"]);
    assert!(
        service
            .failing_command(&["account", "create", "ada"])
            .contains("there is an account named ada")
    );
    assert!(
        service
            .failing_command(&["key", "create", "bob"])
            .contains("make it with `molboxd account create bob`")
    );
    assert!(service.failing_command(&["key", "revoke", "nope"]).contains("there is no key nope"));
    service.command(&["key", "create", "ada", "--name", "laptop", "--days", "30"]);
    let listed = service.command(&["key", "list", "ada"]);
    assert!(
        listed.contains("laptop") && listed.contains("expires") && listed.contains("never used"),
        "{listed}"
    );
}

#[test]
fn a_number_of_a_command_that_is_none_is_refused_in_words() {
    let service = Service::start();
    service.command(&["account", "create", "ada"]);
    for (arguments, wanted) in [
        (&["account", "limit", "ada", "--hours", "x"][..], "a whole number >= 0, got \"x\""),
        (
            &["account", "limit", "ada", "--bytes", "5GX"],
            "a number of bytes as 5000000000 or 5GB, got \"5GX\"",
        ),
        (
            &["account", "limit", "ada", "--bytes", "5GBGB"],
            "a number of bytes as 5000000000 or 5GB, got \"5GBGB\"",
        ),
        (&["account", "limit", "ada", "--open-tasks", "1.5"], "a whole number >= 0, got \"1.5\""),
        (
            &["account", "limit", "ada", "--weight", "101"],
            "a whole number from 1 to 100, got \"101\"",
        ),
        (
            &["account", "limit", "ada", "--weight", "-1"],
            "a whole number from 1 to 100, got \"-1\"",
        ),
        (&["account", "limit", "ada", "--hours", "-1"], "a whole number >= 0, got \"-1\""),
        (&["key", "create", "ada", "--days", "0"], "a whole number >= 1, got \"0\""),
        (&["audit", "--after", "last"], "a whole number >= 0, got \"last\""),
    ] {
        let said = service.failing_command(arguments);
        let flag = arguments[arguments.len() - 2];
        assert!(said.contains(&format!("must be {wanted}")), "{said}");
        assert!(said.contains(flag), "{said}");
    }
    let said = service.failing_command(&["key", "create", "ada", "--days", "9999999999999999"]);
    assert!(said.contains("--days ends after the last day of the calendar"), "{said}");
}

/// The defaults that the document states for machines, by schema and field.
fn stated_defaults(document: &Value) -> BTreeMap<String, Map<String, Value>> {
    let schemas = document["components"]["schemas"].as_object().unwrap().iter();
    let of = |schema: &Value| -> Map<String, Value> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties
            .filter_map(|(name, value)| Some((name.clone(), value.get("x-default")?.clone())))
            .collect()
    };
    schemas
        .map(|(name, schema)| (name.clone(), of(schema)))
        .filter(|(_, defaults)| !defaults.is_empty())
        .collect()
}

/// Whether the parameters have every default; JSON writes the same number as 1 or as 1.0.
fn assert_states(parameters: &Value, defaults: &Map<String, Value>, what: &str) {
    for (field, default) in defaults {
        let used = &parameters[field];
        let is_same =
            used == default || used.as_f64().is_some_and(|number| Some(number) == default.as_f64());
        assert!(is_same, "{what}.{field}: the document states {default}, the service uses {used}");
    }
}

#[tokio::test]
async fn every_default_of_the_document_is_the_services() {
    let service = Service::start();
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let raw = Raw::new(&service);
    let molbox = service.client_with(&raw.key);
    let document: Value =
        raw.request(Method::GET, "/openapi.json").send().await.unwrap().json().await.unwrap();
    let mut stated = stated_defaults(&document);
    let mut take = |schema: &str| {
        stated.remove(schema).unwrap_or_else(|| panic!("{schema} states no defaults"))
    };
    let post = async |path: &str, body: &Value| -> Value {
        let response = raw.request(Method::POST, path).json(body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}: {body}");
        response.json().await.unwrap()
    };
    // What a task was run with, as its bundle has it.
    let parameters = async |path: String| -> Value {
        let request = raw.request(Method::GET, &path).header("accept", "application/zip");
        let bytes = request.send().await.unwrap().bytes().await.unwrap();
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
        let mut manifest = zip.by_index(0).unwrap();
        assert!(manifest.name().unwrap().ends_with("/manifest.json"));
        serde_json::from_reader::<_, Value>(&mut manifest).unwrap()["parameters"].clone()
    };

    // Six residues: a small box at the default padding.
    let protein: String = fs::read_to_string(example("1vii.pdb"))
        .unwrap()
        .lines()
        .filter(|line| {
            line.starts_with("ATOM")
                && line[22..26].trim().parse::<i32>().is_ok_and(|residue| residue <= 46)
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("six.pdb"), protein + "END\n").unwrap();
    molbox.upload(folder.path().join("six.pdb")).name("six").await.unwrap();

    // A system shows its parameters in its bundle alone, and in the service's words: leaving all
    // out must come to the same as stating all.
    let mut systems = Vec::new();
    let all = Value::Object(take("SystemBuildRequest"));
    for mut body in [json!({}), all] {
        body["protein"] = json!("six");
        body["seed"] = json!(7);
        systems.push(post("/submit/system", &body).await["system_id"].as_str().unwrap().to_owned());
    }
    let mut built = Vec::new();
    for id in &systems {
        molbox.wait_system(id).await.unwrap();
        built.push(parameters(format!("/retrieve/system/{id}")).await);
    }
    assert_eq!(
        built[0], built[1],
        "a system with its protein alone, and one with every default stated"
    );

    // A job's record has every parameter.
    let body = json!({ "box_id": systems[0], "equilibration": [{}], "production": {} });
    let job = post("/submit/job", &body).await;
    assert_states(&job["parameters"], &take("JobCreateParams"), "JobCreateParams");
    assert_states(
        &job["parameters"]["equilibration"][0],
        &take("EquilibrationStep"),
        "EquilibrationStep",
    );
    assert_states(&job["parameters"]["production"], &take("ProductionParams"), "ProductionParams");
    molbox.job_cancel().job_id(job["job_id"].as_str().unwrap()).send().await.unwrap();

    // One criterion of a hydrogen bond asks for hydrogen bonds, so each is left out by itself.
    let body = json!({
        "box_id": systems[0], "minimization_steps": 10, "equilibration": [],
        "production": { "time": 0.0002, "traj_freq": 20 },
    });
    let short = post("/submit/job", &body).await["job_id"].as_str().unwrap().to_owned();
    molbox.wait_job(&short).await.unwrap();
    let defaults = take("AnalysisRequest");
    let analysis = async |left_out: &str| -> Value {
        let mut body = defaults.clone();
        body.remove(left_out);
        body.insert("job_id".to_owned(), json!(short));
        let id = post("/submit/analysis", &Value::Object(body)).await["analysis_id"]
            .as_str()
            .unwrap()
            .to_owned();
        molbox.wait_analysis(&id).await.unwrap();
        parameters(format!("/retrieve/analysis/{id}")).await
    };
    let all = analysis("nothing").await;
    for field in defaults.keys() {
        assert_eq!(
            analysis(field).await,
            all,
            "AnalysisRequest.{field} left out, and its default stated"
        );
    }

    // A margin is the same to the last digit.
    let defaults = take("MarginJobRequest");
    let margin = async |left_out: &str| -> String {
        let mut body = defaults.clone();
        body.remove(left_out);
        body.insert("marginDate".to_owned(), json!("2024-12-31"));
        let future = json!({ "ticker": "XEQ1", "type": "long", "quantity": 2 });
        body.insert("portfolio".to_owned(), json!({ "futures": [future] }));
        let url = format!("{}/margin/submit_job/historical/json", service.margin_url);
        let request = raw.http.post(url).header("x-api-key", &raw.key).json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.text().await.unwrap()
    };
    let all = margin("nothing").await;
    for field in defaults.keys() {
        assert_eq!(
            margin(field).await,
            all,
            "MarginJobRequest.{field} left out, and its default stated"
        );
    }
    assert!(stated.is_empty(), "defaults that no part of this test compares: {stated:?}");
}

#[test]
fn a_header_that_never_ends_does_not_keep_the_service_from_ending() {
    let mut service = Service::start();
    let address = service.base_url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut silent = std::net::TcpStream::connect(address).unwrap();
    silent.write_all(b"GET /healthz HTTP/1.1\r\nhost: molbox\r\n\r\n").unwrap();
    assert!(silent.read(&mut [0; 4096]).unwrap() > 0, "the service has accepted the connection");
    silent.write_all(b"GET /healthz HTTP/1.1\r\nx-half: ").unwrap();
    service.stop();
    drop(silent);
}
