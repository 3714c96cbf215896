//! Two accounts: what belongs to one does not exist for the other.

use molbox::workflow::types::{EquilibrationStep, ProductionParams};
use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Service, example};
use crate::work::water;

/// What one account has, by the name of the path parameter that stands for it.
struct Things(Vec<(&'static str, String)>);

impl Things {
    fn id(&self, parameter: &str) -> &str {
        &self.0.iter().find(|(name, _)| *name == parameter).expect(parameter).1
    }

    /// Identifiers that nobody has.
    fn of_nobody() -> Self {
        let id = |prefix: &str| format!("{prefix}_00000000000000000000");
        Self(vec![
            ("file_id", id("file")),
            ("name", "nothing".to_owned()),
            ("system_id", id("box")),
            ("job_id", id("job")),
            ("analysis_id", id("ana")),
        ])
    }
}

/// Every body of an operation that refers to something, with nothing else in it.
fn bodies(operation: &str, things: &Things) -> Vec<Value> {
    let [file, name] = ["file_id", "name"].map(|parameter| things.id(parameter).to_owned());
    let [system, job] = ["system_id", "job_id"].map(|parameter| things.id(parameter).to_owned());
    match operation {
        "file_register" => vec![json!({ "file_id": file, "name": "mine" })],
        "system_submit" => [&file, &name]
            .into_iter()
            .flat_map(|file| {
                [
                    json!({ "protein": file }),
                    json!({ "ligands": [file], "ligand_input_formats": ["sdf"] }),
                    json!({ "force_field": file }),
                ]
            })
            .collect(),
        "job_submit" => vec![json!({ "box_id": system })],
        "job_extend" => vec![json!({ "time": 1 })],
        "analysis_submit" => vec![
            json!({ "job_id": job, "rmsd_masks": ["@CA"] }),
            json!({ "topology": name, "trajectory": name, "rmsd_masks": ["@CA"] }),
            json!({ "topology": file, "trajectory": file, "rmsd_masks": ["@CA"] }),
        ],
        "margin_submit" => vec![json!({ "portfolio": { "futures": [] } })],
        _ => Vec::new(),
    }
}

/// Asks, and gives status and body.
async fn ask(
    service: &Service,
    key: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, String) {
    let is_margin = path.starts_with("/margin");
    let base = if is_margin { &service.margin_url } else { &service.base_url };
    let method: Method = method.to_uppercase().parse().unwrap();
    let mut request =
        reqwest::Client::new().request(method, format!("{base}{path}")).header("x-api-key", key);
    if let Some(body) = body {
        request = request.json(body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn no_operation_tells_another_account_anything() {
    let service = Service::start();
    let (ada, bob) = (service.client("ada"), service.key("bob"));
    let file = ada.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = water(&ada).await;
    let job = ada.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(10)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.0002).traj_freq(50))
    });
    let job = job.send().await.unwrap();
    ada.wait_job(&job.job_id).await.unwrap();
    let analysis =
        ada.analysis_submit().body_map(|a| a.distance_masks([":1@O :2@O"])).send().await.unwrap();
    ada.wait_analysis(&analysis.analysis_id).await.unwrap();
    let of_ada = Things(vec![
        ("file_id", file.file_id.as_str().to_owned()),
        ("name", file.name.clone()),
        ("system_id", system.system_id.as_str().to_owned()),
        ("job_id", job.job_id.as_str().to_owned()),
        ("analysis_id", analysis.analysis_id.as_str().to_owned()),
    ]);
    let of_nobody = Things::of_nobody();
    let before = everything(&service, &ada).await;

    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let mut walked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(id) = operation["operationId"].as_str() else {
                continue;
            };
            let place = |things: &Things| {
                let mut path = path.clone();
                for (name, id) in &things.0 {
                    path = path.replace(&format!("{{{name}}}"), id);
                }
                path.replace("{data_format}", "json")
                    .replace("/upload-url", "/upload-url?filetype=pdb")
            };
            let has_body = operation.get("requestBody").is_some();
            let (theirs, nobodys) = (bodies(id, &of_ada), bodies(id, &of_nobody));
            assert_eq!(!theirs.is_empty(), has_body, "say what a body of {id} can refer to");
            let requests: Vec<_> = if has_body {
                theirs.iter().map(Some).zip(nobodys.iter().map(Some)).collect()
            } else {
                vec![(None, None)]
            };
            for (their_body, nobodys_body) in requests {
                let theirs = ask(&service, &bob, method, &place(&of_ada), their_body).await;
                let mut told = theirs.1.clone();
                for ((_, id), (_, nobody)) in of_ada.0.iter().zip(&of_nobody.0) {
                    told = told.replace(id, nobody);
                }
                let nobodys = ask(&service, &bob, method, &place(&of_nobody), nobodys_body).await;
                let refers = place(&of_ada) != place(&of_nobody) || their_body != nobodys_body;
                if refers {
                    assert!([404, 422].contains(&theirs.0), "{id} {their_body:?}: {theirs:?}");
                    assert_eq!(
                        (theirs.0, told),
                        nobodys,
                        "{id} {their_body:?} tells one that is not there apart"
                    );
                } else {
                    for (_, theirs_id) in of_ada.0.iter().filter(|(name, _)| *name != "name") {
                        assert!(!theirs.1.contains(theirs_id), "{id} shows {theirs_id}");
                    }
                }
                walked += 1;
            }
        }
    }
    assert!(walked >= 32, "{walked}");
    assert_eq!(everything(&service, &ada).await, before, "nothing was touched");
    let none = ask(&service, &bob, "post", "/submit/job", Some(&json!({}))).await;
    assert_eq!(none.0, 422, "the latest system of another account is no default");
}

/// All records of an account and its content.
async fn everything(service: &Service, client: &molbox::Client) -> Vec<String> {
    let key = service.key("ada");
    let mut all = Vec::new();
    for path in ["/info/files", "/info/systems", "/info/jobs", "/info/analyses"] {
        all.push(ask(service, &key, "get", path, None).await.1);
    }
    let files = client.file_list().send().await.unwrap();
    for file in &files.items {
        all.push(
            ask(service, &key, "get", &format!("/retrieve/file/{}", file.file_id.as_str()), None)
                .await
                .1,
        );
    }
    all
}
