//! Fields that a request does not have: accepted, and told in every record.

use std::fs;

use molbox::workflow::types::Notice;
use serde_json::{Value, json};

use crate::common::{Service, example};
use crate::work::archive;

/// Requests as somebody writes them by hand.
struct Raw {
    http: reqwest::Client,
    base_url: String,
    key: String,
}

impl Raw {
    fn new(service: &Service, key: &str) -> Self {
        Self {
            http: reqwest::Client::new(),
            base_url: service.base_url.clone(),
            key: key.to_owned(),
        }
    }

    async fn post(&self, path: &str, body: String) -> Value {
        let request =
            self.http.post(format!("{}{path}", self.base_url)).header("x-api-key", &self.key);
        let response =
            request.header("content-type", "application/json").body(body).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// Messages of the warnings about the request, in the order of a record.
fn told(warnings: &[Notice]) -> Vec<&str> {
    let of_request = warnings
        .iter()
        .filter(|warning| ["unknown_field", "repeated_field"].contains(&&*warning.code));
    of_request.map(|warning| warning.message.as_str()).collect()
}

fn told_in(record: &Value) -> Vec<String> {
    let warnings: Vec<Notice> = serde_json::from_value(record["warnings"].clone()).unwrap();
    told(&warnings).into_iter().map(str::to_owned).collect()
}

fn manifest(path: &std::path::Path) -> Value {
    serde_json::from_slice(&archive(path)["manifest.json"]).unwrap()
}

#[tokio::test]
async fn a_misspelt_field_stands_in_the_record_from_the_first_answer_to_the_bundle() {
    let mut service = Service::start();
    let key = service.key("ada");
    let (molbox, raw) = (service.client_with(&key), Raw::new(&service, &key));
    let folder = tempfile::tempdir().unwrap();

    let methane = folder.path().join("methane.sdf");
    // Hydrogens are added where a file has none: a warning of the worker's.
    fs::write(&methane, "methane\n  molbox          3D\n\n  1  0  0  0  0  0            999 V2000\n    0.1000    0.2000    0.3000 C   0  0\nM  END\n$$$$\n").unwrap();
    molbox.upload(&methane).name("methane").await.unwrap();
    let body = json!({"ligands": ["methane"], "minimum_padding": 1.2, "seed": 7, "boxshape": "octahedron", "PH": null});
    let submitted = raw.post("/submit/system", body.to_string()).await;
    let system_said = [
        "boxshape is not a field of this request and was ignored; did you mean box_shape?",
        "PH is not a field of this request and was ignored; did you mean pH?",
    ];
    assert_eq!(told_in(&submitted), system_said);
    assert_eq!(submitted["warnings"][0]["loc"], json!(["body", "boxshape"]));
    let id = submitted["system_id"].as_str().unwrap();
    service.kill_and_restart();
    let (molbox, raw) = (service.client_with(&key), Raw::new(&service, &key));
    let system = molbox.wait_system(id).await.unwrap();
    let codes: Vec<&str> = system.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes[..2], ["unknown_field", "unknown_field"], "those of the request come first");
    assert!(codes[2..].contains(&"ligand_hydrogens_added"), "{codes:?}");
    let listed = molbox.system_list().send().await.unwrap();
    assert_eq!(listed.items[0].warnings, system.warnings);
    let bundle = molbox.download_system(id, folder.path().join("system.zip")).await.unwrap();
    assert_eq!(manifest(&bundle)["warnings"], serde_json::to_value(&system.warnings).unwrap());

    let body = json!({
        "box_id": id, "temprature": 500, "minimization_steps": 10, "time": 1,
        "equilibration": [{"time": 0.0001, "log_freq": 10}, {"time": 0.0001, "log_freq": 10, "tme": 5}],
        "production": {"type": "NVT", "time": 0.0002, "traj_freq": 50, "restraint_mask": "@CA"}
    });
    let submitted = raw.post("/submit/job", body.to_string()).await;
    let mut job_said = vec![
        "temprature is not a field of this request and was ignored; did you mean temperature?",
        "time is not a field of this request and was ignored; did you mean equilibration[].time or production.time?",
        "equilibration[1].tme is not a field of this request and was ignored; did you mean equilibration[1].time?",
        "production.restraint_mask is not a field of this request and was ignored; \
         did you mean equilibration[].restraint_mask?",
    ];
    assert_eq!(told_in(&submitted), job_said);
    assert_eq!(submitted["warnings"][2]["loc"], json!(["body", "equilibration", 1, "tme"]));
    let id = submitted["job_id"].as_str().unwrap();
    let job = molbox.wait_job(id).await.unwrap();
    assert_eq!(told(&job.warnings), job_said);
    let extended = raw
        .post(&format!("/extend/job/{id}"), json!({"time": 0.0001, "tiem": 1}).to_string())
        .await;
    job_said.push("tiem is not a field of this request and was ignored; did you mean time?");
    assert_eq!(told_in(&extended), job_said);
    let job = molbox.wait_job(id).await.unwrap();
    assert_eq!(told(&job.warnings), job_said, "of the submission and of the extension");
    let bundle = molbox.download_job(id, folder.path().join("job.zip")).await.unwrap();
    assert_eq!(manifest(&bundle)["warnings"], serde_json::to_value(&job.warnings).unwrap());

    let body = json!({"job_id": id, "distance_masks": [":1@C1 :2@O"], "stride": 5, "hbond": {}});
    let submitted = raw.post("/submit/analysis", body.to_string()).await;
    let said = [
        "stride is not a field of this request and was ignored",
        "hbond is not a field of this request and was ignored; did you mean hbond_angle or hbond_masks?",
    ];
    assert_eq!(told_in(&submitted), said);
    let analysis = molbox.wait_analysis(submitted["analysis_id"].as_str().unwrap()).await.unwrap();
    assert_eq!(told(&analysis.warnings), said);
}

#[tokio::test]
async fn a_task_that_fails_keeps_the_warnings_about_its_request() {
    let service = Service::start();
    let key = service.key("ada");
    let (molbox, raw) = (service.client_with(&key), Raw::new(&service, &key));
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let body = json!({"protein": "villin", "chain_id": "Q", "salt": "KCl"});
    let submitted = raw.post("/submit/system", body.to_string()).await;
    let id = submitted["system_id"].as_str().unwrap();
    molbox.wait_system(id).await.unwrap_err();
    let system = molbox.system_view().system_id(id).send().await.unwrap();
    assert_eq!((system.status.as_str(), told(&system.warnings).len()), ("failed", 1));
    let folder = tempfile::tempdir().unwrap();
    let bundle = molbox.download_system(id, folder.path().join("failed.zip")).await.unwrap();
    assert_eq!(manifest(&bundle)["warnings"][0]["code"], "unknown_field");
}

#[tokio::test]
async fn a_file_s_record_has_the_warnings_of_its_registration() {
    let service = Service::start();
    let key = service.key("ada");
    let (molbox, raw) = (service.client_with(&key), Raw::new(&service, &key));
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    reqwest::Client::new().put(&link.upload_url).body(content).send().await.unwrap();
    let body = json!({"file_id": link.file_id.as_str(), "fromat": "pdb", "Name": "villin"});
    let registered = raw.post("/submit/file/", body.to_string()).await;
    let said = [
        "fromat is not a field of this request and was ignored; did you mean format?",
        "Name is not a field of this request and was ignored; did you mean name?",
    ];
    assert_eq!(told_in(&registered), said);
    let file = molbox.file_view().file_id(&link.file_id).send().await.unwrap();
    assert_eq!(told(&file.warnings), said);
    let plain = molbox.upload(example("1vii.pdb")).name("plain").await.unwrap();
    assert!(plain.warnings.is_empty());
}

#[tokio::test]
async fn a_field_that_is_given_twice_is_told() {
    let service = Service::start();
    let raw = Raw::new(&service, &service.key("ada"));
    let body = r#"{"pH": 4, "pH": 9, "ions": "KCl", "pH": 5}"#;
    let submitted = raw.post("/submit/system", body.to_owned()).await;
    assert_eq!(told_in(&submitted), ["pH is given more than once; the last one counts"]);
    assert_eq!(submitted["request"]["pH"], 5.0);
}

#[tokio::test]
async fn a_hostile_body_is_answered_within_bounds() {
    let service = Service::start();
    let raw = Raw::new(&service, &service.key("ada"));
    let many: Vec<String> = (0..60_000).map(|index| format!("\"field {index}\":1")).collect();
    let submitted = raw.post("/submit/system", format!("{{{}}}", many.join(","))).await;
    let said = told_in(&submitted);
    assert_eq!(said.len(), 21);
    assert_eq!(said[20], "59980 more fields that this request does not have were ignored");
    let long = format!(r#"{{"{}": 1, "\u001b[2J\u0000\u202e": null}}"#, "x".repeat(1_000_000));
    let submitted = raw.post("/submit/system", long).await;
    let said = told_in(&submitted);
    assert!(said[0].starts_with(&format!("{}… is not a field", "x".repeat(64))), "{}", said[0]);
    assert!(said[0].len() < 200 && !said[1].contains(char::is_control), "{said:?}");
    assert!(submitted.to_string().len() < 5000);
}

#[tokio::test]
async fn a_margin_names_fields_that_there_are_not_in_every_shape() {
    let service = Service::start();
    let key = service.key("ada");
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let url = |path: &str| format!("{}/margin/submit_job/historical/{path}", service.margin_url);
    let ask = |path: &str, media: &str, accept: &str, body: String| {
        let request = reqwest::Client::new()
            .post(url(path))
            .header("x-api-key", &key)
            .header("content-type", media);
        let request = request.header("accept", accept).body(body);
        async move {
            let response = request.send().await.unwrap();
            let warnings =
                response.headers().get("x-margin-warnings").map(|v| v.to_str().unwrap().to_owned());
            let (status, text) = (response.status(), response.text().await.unwrap());
            assert_eq!(status, 200, "{text}");
            (warnings.unwrap_or_default(), text)
        }
    };
    let position = json!({"ticker": "XEQ1", "type": "long", "quantity": 2, "qantity": 3});
    let job = json!({
        "numScenarios": 500, "marginDate": "2024-12-31", "ewmaDecay": 0.9, "settings": {"start": "2020-01-01"},
        "portfolio": {"futures": [position], "options": []}
    });
    let said = [
        "ewmaDecay is not a field of this request and was ignored; did you mean ewmaDecayFactor?",
        "settings.start is not a field of this request and was ignored; did you mean settings.startDate?",
        "portfolio.futures[0].qantity is not a field of this request and was ignored; \
         did you mean portfolio.futures[0].quantity?",
        "portfolio.options is not a field of this request and was ignored",
    ];
    for accept in ["text/csv", "application/json", "application/xml", "application/yaml"] {
        let (header, text) = ask("json", "application/json", accept, job.to_string()).await;
        assert!(header.starts_with(&said.join("; ")), "{accept}: {header}");
        if accept != "text/csv" {
            assert!(text.contains(said[0]), "{accept}: {text}");
        }
    }
    let lines =
        ask("json?shape=lines&numScenario=7", "application/json", "*/*", job.to_string()).await.0;
    assert!(
        lines.starts_with("numScenario is not a query parameter of this request and was ignored"),
        "{lines}"
    );
    assert!(lines.contains("did you mean numScenarios?") && lines.contains(said[0]), "{lines}");

    let csv = "ticker,type,quantity,entrydate\nXEQ1,long,2,2024-12-30\n";
    let (header, _) = ask("csv?marginDate=2024-12-31", "text/csv", "*/*", csv.to_owned()).await;
    assert!(header.contains("entrydate is not a field of this request"), "{header}");
    assert!(header.contains("did you mean portfolio.futures.entryDate?"), "{header}");
    let xml = "<marginJob xmlns='urn:x'><seeed>1</seeed><portfolio><futures>\
               <future ticker='XEQ1' type='long' quantity='2' color='red'/></futures></portfolio></marginJob>";
    let (header, _) =
        ask("xml?marginDate=2024-12-31", "application/xml", "*/*", xml.to_owned()).await;
    assert!(
        header.contains("seeed is not a field") && header.contains("did you mean seed?"),
        "{header}"
    );
    assert!(
        header.contains("portfolio.futures[0].color is not a field") && !header.contains("xmlns"),
        "{header}"
    );
    let yaml =
        "numScenario: 5\nportfolio:\n  futures:\n    - {ticker: XEQ1, type: long, quantity: 2}\n";
    let (header, _) =
        ask("yaml?marginDate=2024-12-31", "application/yaml", "*/*", yaml.to_owned()).await;
    assert!(header.contains(
        "numScenario is not a field of this request and was ignored; did you mean numScenarios?"
    ));
    let form =
        "--x\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{\"lambda\": 1, \"sed\": 2}\r\n\
                --x\r\ncontent-disposition: form-data; name=\"jbo\"\r\n\r\n{}\r\n\
                --x\r\ncontent-disposition: form-data; name=\"portfolio\"\r\n\r\n"
            .to_owned()
            + csv + "\r\n--x--\r\n";
    let (header, _) = ask("csv", "multipart/form-data; boundary=x", "*/*", form).await;
    assert!(
        header.contains("jbo is not a part of this request")
            && header.contains("lambda is not a field"),
        "{header}"
    );
    assert!(
        header.contains("sed is not a field of this request and was ignored; did you mean seed?"),
        "{header}"
    );
}
