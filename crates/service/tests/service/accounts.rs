//! Two accounts: what belongs to one does not exist for the other.

use molbox::workflow::types::{EquilibrationStep, ProductionParams};
use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Service, example};
use crate::sessions::{Browser, PASSWORD};
use crate::work::water;

pub(crate) type Headers = Vec<(&'static str, String)>;

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
            ("key_id", "00000000".to_owned()),
            ("task_id", id("job")),
            ("account", "nobody".to_owned()),
        ])
    }
}

/// Every body of an operation that refers to something, with nothing else in it.
fn bodies(operation: &str, things: &Things) -> Vec<Value> {
    let [file, name] = ["file_id", "name"].map(|parameter| things.id(parameter).to_owned());
    let [system, job] = ["system_id", "job_id"].map(|parameter| things.id(parameter).to_owned());
    match operation {
        "file_register" => vec![json!({ "file_id": file, "name": "mine" })],
        "system_submit" | "system_check" => [&file, &name]
            .into_iter()
            .flat_map(|file| {
                [
                    json!({ "protein": file }),
                    json!({ "ligands": [file], "ligand_input_formats": ["sdf"] }),
                    json!({ "force_field": file }),
                ]
            })
            .collect(),
        "job_submit" | "job_check" => vec![json!({ "box_id": system })],
        "job_extend" => vec![json!({ "time": 1 })],
        "analysis_submit" | "analysis_check" => vec![
            json!({ "job_id": job, "rmsd_masks": ["@CA"] }),
            json!({ "topology": name, "trajectory": name, "rmsd_masks": ["@CA"] }),
            json!({ "topology": file, "trajectory": file, "rmsd_masks": ["@CA"] }),
        ],
        "margin_submit" => vec![json!({ "portfolio": { "futures": [] } })],
        "session_create" => {
            vec![json!({ "account": things.id("account"), "password": "not the right one" })]
        }
        "password_change" => {
            vec![json!({ "password": "not the right one", "new_password": "another one" })]
        }
        "invitation_check" => vec![json!({ "token": "none" })],
        "invitation_accept" => vec![json!({ "token": "none", "password": "not the right one" })],
        "key_create" => vec![json!({ "name": "mine" })],
        "account_create" => vec![json!({ "account": things.id("account") })],
        "account_change" => vec![json!({ "disabled": true })],
        _ => Vec::new(),
    }
}

/// The headers of a request with a key.
fn with_key(key: &str) -> Headers {
    vec![("x-api-key", key.to_owned())]
}

/// Those of a browser that has just signed in.
pub(crate) async fn signed_in(service: &Service, account: &str) -> Headers {
    let mut browser = Browser::new(service);
    assert_eq!(browser.sign_in(account, PASSWORD).await.status(), 200);
    vec![("cookie", browser.cookie.unwrap()), ("sec-fetch-site", "same-origin".to_owned())]
}

/// Asks, and gives status and body.
async fn ask(
    service: &Service,
    way: &Headers,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, String) {
    let is_margin = path.starts_with("/margin");
    let base = if is_margin { &service.margin_url } else { &service.base_url };
    let method: Method = method.to_uppercase().parse().unwrap();
    let mut request = reqwest::Client::new().request(method, format!("{base}{path}"));
    for (name, value) in way {
        request = request.header(*name, value);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn no_operation_tells_another_account_anything() {
    let service = Service::start_with(&[
        "sessions.tries_per_minute=0",
        "sessions.tries_per_minute_from_address=0",
    ]);
    Browser::of(&service, "ada").await;
    Browser::of(&service, "bob").await;
    let (ada, bob) = (service.client("ada"), with_key(&service.key("bob")));
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
        ("key_id", ada.account_view().send().await.unwrap().into_inner().key_id),
        ("task_id", job.job_id.as_str().to_owned()),
        ("account", "ada".to_owned()),
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
            // It does not end: tests of events hold it to its own account.
            if id == "account_watch" {
                continue;
            }
            let place = |things: &Things| {
                let mut path = path.clone();
                for (name, id) in &things.0 {
                    path = path.replace(&format!("{{{name}}}"), id);
                }
                path.replace("{data_format}", "json")
                    .replace("/upload-url", "/upload-url?filetype=pdb")
            };
            let ways = operation.get("security").unwrap_or(&document["security"]);
            let takes_session_alone = *ways == json!([{ "Session": [] }]);
            let has_body = operation.get("requestBody").is_some();
            let (theirs, nobodys) = (bodies(id, &of_ada), bodies(id, &of_nobody));
            assert_eq!(!theirs.is_empty(), has_body, "say what a body of {id} can refer to");
            let requests: Vec<_> = if has_body {
                theirs.iter().map(Some).zip(nobodys.iter().map(Some)).collect()
            } else {
                vec![(None, None)]
            };
            for (their_body, nobodys_body) in requests {
                // Anew for each: one of them signs out.
                let session = signed_in(&service, "bob").await;
                let way = if takes_session_alone { &session } else { &bob };
                let theirs = ask(&service, way, method, &place(&of_ada), their_body).await;
                let mut told = theirs.1.clone();
                for ((_, id), (_, nobody)) in of_ada.0.iter().zip(&of_nobody.0) {
                    told = told.replace(id, nobody);
                }
                let nobodys = ask(&service, way, method, &place(&of_nobody), nobodys_body).await;
                let refers = place(&of_ada) != place(&of_nobody) || their_body != nobodys_body;
                if refers {
                    // Without an origin, as of a program, signing in is refused at once, and so is
                    // what is for administrators.
                    let tag = operation["tags"][0].as_str().unwrap();
                    let is_forbidden = ["session", "admin"].contains(&tag);
                    let refused: &[u16] = if is_forbidden { &[403] } else { &[404, 422] };
                    assert!(refused.contains(&theirs.0), "{id} {their_body:?}: {theirs:?}");
                    assert_eq!(
                        (theirs.0, told),
                        nobodys,
                        "{id} {their_body:?} tells one that is not there apart"
                    );
                } else {
                    for (_, theirs_id) in
                        of_ada.0.iter().filter(|(name, _)| !["name", "account"].contains(name))
                    {
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
    let key = with_key(&service.key("ada"));
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
