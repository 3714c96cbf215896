//! Requests that are repeated under their `Idempotency-Key`.

use std::collections::BTreeSet;
use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Service, example};

const JSON: &str = "application/json";

/// A POST that can be sent again as it was.
#[derive(Clone)]
struct Post {
    operation: &'static str,
    url: String,
    key: String,
    body: Option<Value>,
}

/// What of an answer is the same when it is given again.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    content_type: Option<String>,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The requests of an account.
struct Account {
    http: reqwest::Client,
    api_key: String,
}

impl Account {
    fn new(api_key: &str) -> Self {
        Self { http: reqwest::Client::new(), api_key: api_key.to_owned() }
    }

    fn request(&self, post: &Post) -> reqwest::RequestBuilder {
        let request = self.http.post(&post.url).header("x-api-key", &self.api_key);
        let request = request.header("idempotency-key", &post.key).header("accept", "*/*");
        match &post.body {
            Some(body) => request.header("content-type", JSON).body(body.to_string()),
            None => request,
        }
    }

    async fn send(&self, post: &Post) -> Answer {
        answer(self.request(post)).await
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let content_type =
        response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    Answer { status, content_type, body: response.bytes().await.unwrap().to_vec() }
}

/// Requests and their first answers.
struct Repeats {
    account: Account,
    done: Vec<(Post, Answer)>,
}

impl Repeats {
    /// Sends a request for the first time; the record that it is answered with.
    async fn first(
        &mut self,
        base: &str,
        operation: &'static str,
        path: &str,
        body: Option<Value>,
    ) -> Value {
        let post = Post {
            operation,
            url: format!("{base}{path}"),
            key: format!("{operation} once"),
            body,
        };
        let first = self.account.send(&post).await;
        assert_eq!(first.status, 200, "{operation}: {}", String::from_utf8_lossy(&first.body));
        let record = serde_json::from_slice(&first.body).unwrap_or_default();
        self.done.push((post, first));
        record
    }

    /// Sends all of them again.
    async fn again(&self, state: &str) {
        for (post, first) in &self.done {
            assert_eq!(self.account.send(post).await, *first, "{} {state}", post.operation);
        }
    }
}

/// The operations whose requests can be named. Answers of those for browsers hold secrets, which
/// are not kept to be told again, and checks change nothing.
fn repeatable() -> BTreeSet<String> {
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let items = document["paths"].as_object().unwrap().values();
    let of_browsers = ["session", "key", "admin"].map(Value::from);
    let posts = items
        .filter_map(|item| item.get("post"))
        .filter(|post| !of_browsers.contains(&post["tags"][0]))
        .filter(|post| !post["operationId"].as_str().unwrap().ends_with("_check"));
    let named = posts.inspect(|post| {
        let parameters = post["parameters"].as_array().unwrap();
        let key = json!({"$ref": "#/components/parameters/IdempotencyKey"});
        assert!(parameters.contains(&key), "{} cannot be named", post["operationId"]);
    });
    named.map(|post| post["operationId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_post_is_answered_as_the_first_time_in_every_state() {
    let mut service = Service::start();
    let api_key = service.key("ada");
    let molbox = service.client_with(&api_key);
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let (base, margin) = (service.base_url.clone(), service.margin_url.clone());
    let mut repeats = Repeats { account: Account::new(&api_key), done: Vec::new() };
    let text = |value: &Value| value.as_str().unwrap().to_owned();

    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    reqwest::Client::new().put(&link.upload_url).body(content).send().await.unwrap();
    let file = json!({"file_id": link.file_id.as_str(), "name": "villin"});
    repeats.first(&base, "file_register", "/submit/file/", Some(file)).await;
    let system = json!({"minimum_padding": 1.2, "seed": 7});
    let system = text(
        &repeats.first(&base, "system_submit", "/submit/system", Some(system)).await["system_id"],
    );
    repeats.again("while it is built").await;
    molbox.wait_system(&system).await.unwrap();
    let job = json!({
        "box_id": system, "minimization_steps": 10, "equilibration": [],
        "production": {"type": "NVT", "time": 0.0002, "traj_freq": 50}
    });
    let job = text(&repeats.first(&base, "job_submit", "/submit/job", Some(job)).await["job_id"]);
    molbox.wait_job(&job).await.unwrap();
    let longer = Some(json!({"time": 0.0001}));
    repeats.first(&base, "job_extend", &format!("/extend/job/{job}"), longer).await;
    repeats.again("while it is extended").await;
    let extended = molbox.wait_job(&job).await.unwrap();
    assert_eq!(extended.stages.last().unwrap().steps, 150, "it was extended once");
    repeats.again("after it was extended").await;
    let stopped =
        molbox.job_submit().body_map(|job| job.box_id(system.as_str())).send().await.unwrap();
    let stopped = stopped.job_id.as_str();
    molbox.job_cancel().job_id(stopped).send().await.unwrap();
    molbox.wait_job(stopped).await.unwrap_err();
    repeats.first(&base, "job_retry", &format!("/retry/job/{stopped}"), None).await;
    molbox.job_cancel().job_id(stopped).send().await.unwrap();
    molbox.wait_job(stopped).await.unwrap_err();
    repeats.again("after it was retried and cancelled").await;
    let after = molbox.job_view().job_id(stopped).send().await.unwrap();
    assert_eq!(after.status, "cancelled", "it was retried once");
    molbox.job_delete().job_id(stopped).send().await.unwrap();
    let analysis = json!({"job_id": job, "distance_masks": [":1@O :2@O"]});
    let analysis =
        repeats.first(&base, "analysis_submit", "/submit/analysis", Some(analysis)).await;
    let analysis = text(&analysis["analysis_id"]);
    repeats.first(&base, "analysis_cancel", &format!("/cancel/analysis/{analysis}"), None).await;
    repeats.first(&base, "job_cancel", &format!("/cancel/job/{job}"), None).await;
    repeats.first(&base, "system_cancel", &format!("/cancel/system/{system}"), None).await;
    let position = json!({"ticker": "XEQ1", "type": "long", "quantity": 2});
    let portfolio = json!({"numScenarios": 500, "portfolio": {"futures": [position]}});
    repeats
        .first(&margin, "margin_submit", "/margin/submit_job/historical/json", Some(portfolio))
        .await;
    let walked: BTreeSet<String> =
        repeats.done.iter().map(|(post, _)| post.operation.to_owned()).collect();
    assert_eq!(walked, repeatable());

    // Whether it was cancelled in time or not, it ends.
    let _ = molbox.wait_analysis(&analysis).await;
    molbox.analysis_delete().analysis_id(analysis.as_str()).send().await.unwrap();
    molbox.job_delete().job_id(job.as_str()).send().await.unwrap();
    molbox.system_delete().system_id(system.as_str()).send().await.unwrap();
    molbox.file_delete().file_id(&link.file_id).send().await.unwrap();
    repeats.again("after everything was deleted").await;
    assert!(molbox.system_list().send().await.unwrap().items.is_empty(), "nothing was made again");
    assert!(molbox.file_list().send().await.unwrap().items.is_empty());

    service.kill_and_restart();
    for (post, _) in &mut repeats.done {
        post.url = post.url.replace(&base, &service.base_url).replace(&margin, &service.margin_url);
    }
    repeats.again("after a kill").await;
}

#[tokio::test]
async fn a_key_with_another_request_is_refused() {
    let service = Service::start();
    let api_key = service.key("ada");
    let account = Account::new(&api_key);
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let margin = format!("{}/margin/submit_job/historical", service.margin_url);
    let position = json!({"ticker": "XEQ1", "type": "long", "quantity": 2});
    let body = json!({"numScenarios": 500, "portfolio": {"futures": [position]}});
    let post = Post {
        operation: "",
        url: format!("{margin}/json"),
        key: "one".to_owned(),
        body: Some(body.clone()),
    };
    assert_eq!(account.send(&post).await.status, 200);
    let with = |url: String| Post { url, ..post.clone() };
    let other_body = json!({"numScenarios": 600, "portfolio": body["portfolio"]});
    for (what, request) in [
        ("path", account.request(&with(format!("{margin}/csv")))),
        ("query", account.request(&with(format!("{margin}/json?shape=lines")))),
        ("body", account.request(&Post { body: Some(other_body), ..post.clone() })),
        ("accept", account.http.post(&post.url).header("accept", JSON)),
        (
            "content type",
            account.http.post(&post.url).header("content-type", "application/json; charset=utf-8"),
        ),
    ] {
        let mut request = request.build().unwrap();
        for (name, value) in account.request(&post).build().unwrap().headers() {
            request.headers_mut().entry(name).or_insert(value.clone());
        }
        if request.body().is_none() {
            *request.body_mut() = Some(body.to_string().into());
        }
        let request = reqwest::RequestBuilder::from_parts(account.http.clone(), request);
        let refused = answer(request).await;
        assert_eq!((what, refused.status), (what, 409));
        assert_eq!(
            refused.json()["detail"][0]["loc"],
            json!(["header", "idempotency-key"]),
            "{what}"
        );
    }
    assert_eq!(account.send(&post).await.status, 200, "the first answer stays");
    assert_eq!(
        Account::new(&service.key("bob")).send(&post).await.status,
        200,
        "keys are an account's own"
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_one_is_refused_and_never_ignored() {
    let service = Service::start();
    let api_key = service.key("ada");
    let account = Account::new(&api_key);
    let url = format!("{}/submit/system", service.base_url);
    let request = || {
        account
            .http
            .post(&url)
            .header("x-api-key", &api_key)
            .header("content-type", JSON)
            .body("{}")
    };
    let long = "x".repeat(256);
    let keys: [&[u8]; 6] =
        [b"", "sch\u{f6}n".as_bytes(), b"\xff", b"a\tb", b"   ", long.as_bytes()];
    for key in keys {
        let value = reqwest::header::HeaderValue::from_bytes(key).unwrap();
        let refused = answer(request().header("idempotency-key", value)).await;
        assert_eq!(refused.status, 422, "{key:?}");
        assert_eq!(
            refused.json()["detail"][0]["loc"],
            json!(["header", "Idempotency-Key"]),
            "{key:?}"
        );
    }
    let twice =
        answer(request().header("idempotency-key", "a").header("idempotency-key", "b")).await;
    assert_eq!(
        (twice.status, &twice.json()["detail"][0]["msg"]),
        (422, &json!("is given more than once"))
    );
    let longest = "~".repeat(255);
    assert_eq!(answer(request().header("idempotency-key", longest)).await.status, 200);
    let listed = account.http.request(Method::GET, format!("{}/info/systems", service.base_url));
    let listed = answer(listed.header("x-api-key", &api_key)).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "nothing else was made");
}

#[tokio::test]
async fn two_requests_of_one_key_at_once_run_once() {
    let service = Service::start();
    let api_key = service.key("ada");
    let molbox = service.client_with(&api_key);
    let account = Account::new(&api_key);
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    reqwest::Client::new().put(&link.upload_url).body(content).send().await.unwrap();
    let url = format!("{}/submit/file/", service.base_url);
    let body = Some(json!({"file_id": link.file_id.as_str(), "name": "villin"}));
    let post = Post { operation: "file_register", url, key: "at once".to_owned(), body };
    let answers = futures::future::join_all((0..8).map(|_| account.send(&post))).await;
    assert_eq!(answers[0].status, 200);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[tokio::test]
async fn a_request_that_was_refused_may_be_corrected_under_its_key() {
    let service = Service::start();
    let account = Account::new(&service.key("ada"));
    let url = format!("{}/submit/system", service.base_url);
    let post = |body: Value| Post {
        operation: "",
        url: url.clone(),
        key: "one".to_owned(),
        body: Some(body),
    };
    assert_eq!(account.send(&post(json!({"pH": 15}))).await.status, 422);
    assert_eq!(account.send(&post(json!({"pH": "x"}))).await.status, 422);
    assert_eq!(account.send(&post(json!({"pH": 5}))).await.status, 200);
    assert_eq!(account.send(&post(json!({"pH": 6}))).await.status, 409);
}
