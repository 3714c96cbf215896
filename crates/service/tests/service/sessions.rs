//! People who sign in with a browser: invitations, passwords, sessions, keys.

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::common::{Service, example, wait_for};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A browser: it keeps a cookie, and says where its requests come from.
pub(crate) struct Browser {
    base_url: String,
    pub(crate) cookie: Option<String>,
}

impl Browser {
    pub(crate) fn new(service: &Service) -> Self {
        Self { base_url: service.base_url.clone(), cookie: None }
    }

    /// One that has signed in to an account that was made for it.
    pub(crate) async fn of(service: &Service, account: &str) -> Self {
        service.command(&["account", "create", account]);
        let mut browser = Self::new(service);
        let answer = browser.accept(&invitation(service, account), PASSWORD).await;
        assert_eq!(answer.status(), 200);
        browser
    }

    pub(crate) fn plain(&self, method: Method, path: &str) -> RequestBuilder {
        let request = reqwest::Client::new().request(method, format!("{}{path}", self.base_url));
        match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.plain(method, path).header("sec-fetch-site", "same-origin")
    }

    async fn send(&mut self, request: RequestBuilder) -> Response {
        let answer = request.send().await.unwrap();
        if let Some(cookie) = answer.headers().get("set-cookie") {
            let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
            self.cookie = Some(cookie.to_owned());
        }
        answer
    }

    pub(crate) async fn accept(&mut self, token: &str, password: &str) -> Response {
        let body = json!({ "token": token, "password": password });
        let request = self.request(Method::POST, "/session/invitation").json(&body);
        self.send(request).await
    }

    /// Looks at an invitation without accepting it.
    async fn check(&self, token: &str) -> Response {
        let request = self.request(Method::POST, "/session/invitation/check");
        request.json(&json!({ "token": token })).send().await.unwrap()
    }

    pub(crate) async fn sign_in(&mut self, account: &str, password: &str) -> Response {
        let body = json!({ "account": account, "password": password });
        let request = self.request(Method::POST, "/session").json(&body);
        self.send(request).await
    }

    pub(crate) async fn status(&self, method: Method, path: &str) -> u16 {
        self.request(method, path).send().await.unwrap().status().as_u16()
    }
}

/// The token of a new invitation.
fn invitation(service: &Service, account: &str) -> String {
    let link = service.command(&["account", "invite", account]);
    let (page, token) = link.split_once('#').unwrap();
    assert_eq!(page, format!("{}/portal/invitation", service.base_url), "where it listens");
    token.to_owned()
}

pub(crate) async fn body(answer: Response) -> Value {
    answer.json().await.unwrap()
}

pub(crate) async fn problem(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body = body(answer).await;
    (status, body["detail"][0]["type"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn an_invitation_is_good_once_and_signs_in() {
    let service = Service::start();
    service.command(&["account", "create", "ada"]);
    let (first, second) = (invitation(&service, "ada"), invitation(&service, "ada"));
    let mut browser = Browser::new(&service);
    let unauthorized = (401, "unauthorized".to_owned());
    let replaced = browser.accept(&first, PASSWORD).await;
    assert_eq!(problem(replaced).await, unauthorized, "a later invitation took its place");
    let short = body(browser.accept(&second, "too short").await).await;
    assert_eq!(short["detail"][0]["loc"], json!(["body", "password"]));
    assert!(!short.to_string().contains("too short"), "{short}");

    let accepted = browser.accept(&second, PASSWORD).await;
    let cookie = accepted.headers()["set-cookie"].to_str().unwrap().to_owned();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/local"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "a browser would drop it over plain HTTP: {cookie}");
    assert_eq!(body(accepted).await["account"], "ada");
    assert_eq!(
        body(browser.request(Method::GET, "/session").send().await.unwrap()).await["role"],
        "user"
    );

    let again = Browser::new(&service).accept(&second, "another password").await;
    assert_eq!(problem(again).await, unauthorized);
    let mut elsewhere = Browser::new(&service);
    assert_eq!(elsewhere.sign_in("ada", PASSWORD).await.status(), 200);
    assert_eq!(elsewhere.status(Method::GET, "/info/jobs").await, 200);

    // A password that is lost: another invitation, which ends the sessions that there were.
    let lost = invitation(&service, "ada");
    assert_eq!(Browser::new(&service).accept(&lost, "a second password").await.status(), 200);
    assert_eq!(elsewhere.status(Method::GET, "/session").await, 401);
    assert_eq!(browser.status(Method::GET, "/info/jobs").await, 401);
    assert_eq!(Browser::new(&service).sign_in("ada", PASSWORD).await.status(), 401);
}

#[tokio::test]
async fn an_invitation_is_looked_at_as_often_as_one_likes_until_it_is_accepted() {
    let service = Service::start();
    service.command(&["account", "create", "ada"]);
    let (first, second) = (invitation(&service, "ada"), invitation(&service, "ada"));
    let mut browser = Browser::new(&service);
    let unauthorized = (401, "unauthorized".to_owned());
    assert_eq!(problem(browser.check(&first).await).await, unauthorized, "it was replaced");
    for _ in 0..2 {
        let seen = browser.check(&second).await;
        assert!(!seen.headers().contains_key("set-cookie"), "nobody is signed in by looking");
        let seen = body(seen).await;
        assert_eq!(seen["account"], "ada");
        assert!(seen["expires_at"].is_string(), "{seen}");
    }
    assert_eq!(browser.accept(&second, PASSWORD).await.status(), 200);
    let used = browser.check(&second).await;
    assert_eq!(problem(used).await, unauthorized, "it was accepted");

    let third = invitation(&service, "ada");
    service.command(&["account", "disable", "ada"]);
    assert_eq!(problem(browser.check(&third).await).await, unauthorized, "the account is disabled");
}

#[tokio::test]
async fn only_one_of_those_who_use_an_invitation_at_once_gets_in() {
    let service = Service::start();
    service.command(&["account", "create", "ada"]);
    let token = invitation(&service, "ada");
    let tries = (0..4).map(|n| {
        let (token, mut browser) = (token.clone(), Browser::new(&service));
        async move { browser.accept(&token, &format!("password number {n}")).await.status() }
    });
    let statuses = futures::future::join_all(tries).await;
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::OK).count(), 1);
    assert!(statuses.iter().all(|status| [200, 401].contains(&status.as_u16())), "{statuses:?}");
}

#[tokio::test]
async fn a_name_that_is_not_there_is_refused_as_a_wrong_password_is() {
    let service = Service::start_with(&["sessions.tries_per_minute=0"]);
    Browser::of(&service, "ada").await;
    service.command(&["account", "create", "bob"]);
    let mut refusals = Vec::new();
    for (name, password) in
        [("ada", "wrong password"), ("nobody", PASSWORD), ("bob", PASSWORD), ("ada", "")]
    {
        let answer = Browser::new(&service).sign_in(name, password).await;
        assert_eq!(answer.status(), 401, "{name}");
        assert!(!answer.headers().contains_key("set-cookie"));
        refusals.push(body(answer).await);
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
    let noted = service.command(&["audit", "--action", "password_refuse", "--json"]);
    let noted: Vec<Value> =
        noted.lines().map(|entry| serde_json::from_str(entry).unwrap()).collect();
    let whose: Vec<&Value> = noted.iter().map(|entry| &entry["subject"]).collect();
    assert_eq!(whose, ["ada", "no such account", "bob", "ada"]);
    for entry in &noted {
        assert_eq!(entry["address"], "127.0.0.1", "{entry}");
        assert!(entry.get("account").is_none(), "nobody is signed in: {entry}");
    }
    service.command(&["account", "disable", "ada"]);
    let disabled = Browser::new(&service).sign_in("ada", PASSWORD).await;
    assert_eq!(disabled.status(), 401);
    assert_eq!(body(disabled).await, refusals[0]);
}

#[tokio::test]
async fn tries_are_limited_by_name_and_by_address() {
    let service = Service::start_with(&[
        "sessions.tries_per_minute=2",
        "sessions.tries_per_minute_from_address=4",
    ]);
    let mut statuses = Vec::new();
    for name in ["ada", "ada", "ada", "bob", "eve"] {
        // Who a client says that it is counts for nothing.
        let request = Browser::new(&service)
            .request(Method::POST, "/session")
            .header("x-forwarded-for", format!("192.0.2.{}", statuses.len()))
            .json(&json!({ "account": name, "password": PASSWORD }));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers().contains_key("retry-after"), answer.status() == 429);
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [401, 401, 429, 401, 429]);
}

#[tokio::test]
async fn who_tries_passwords_for_an_account_keeps_nobody_out_elsewhere() {
    let service =
        Service::start_with(&["sessions.tries_per_minute=2", "proxies=[\"127.0.0.0/8\"]"]);
    service.key("ada");
    let tried = async |address: &str| {
        let request = Browser::new(&service)
            .request(Method::POST, "/session")
            .header("x-forwarded-for", address)
            .json(&json!({ "account": "ada", "password": "a guess" }));
        request.send().await.unwrap().status().as_u16()
    };
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(tried("192.0.2.1").await);
    }
    statuses.push(tried("192.0.2.2").await);
    assert_eq!(statuses, [401, 401, 429, 429, 401]);
    // From all addresses together there are ten times as many, and some that flow in meanwhile.
    for host in 10..250 {
        let status = tried(&format!("192.0.2.{host}")).await;
        if status == 429 {
            assert!(host >= 27, "{host}");
            return;
        }
        assert_eq!(status, 401, "{host}");
    }
    panic!("passwords are tried without end");
}

#[tokio::test]
async fn another_origin_gets_nothing_done() {
    let service = Service::start();
    let browser = Browser::of(&service, "ada").await;
    let own = service.base_url.rsplit_once('/').unwrap().0.to_owned();
    let key = json!({ "name": "stolen" });
    for (headers, status) in [
        (vec![("sec-fetch-site", "cross-site")], 403),
        (vec![("sec-fetch-site", "same-site")], 403),
        (vec![("sec-fetch-site", "none")], 403),
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("sec-fetch-site", "cross-site"), ("origin", own.as_str())], 403),
        (vec![], 403),
        (vec![("origin", own.as_str())], 200),
        (vec![("sec-fetch-site", "same-origin")], 200),
    ] {
        let mut request = browser.plain(Method::POST, "/submit/key").json(&key);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{headers:?}");
        if status == 403 {
            assert_eq!(problem(answer).await.1, "cross_origin");
        }
    }
    // Neither are strangers signed in by a page of another origin.
    let sign_in = json!({ "account": "ada", "password": PASSWORD });
    let forced = Browser::new(&service).plain(Method::POST, "/session").json(&sign_in);
    let forced = forced.header("sec-fetch-site", "cross-site").send().await.unwrap();
    assert_eq!(problem(forced).await, (403, "cross_origin".to_owned()));
    // A link from elsewhere leads to what can be seen; one that makes something does not.
    for (path, status) in [("/info/jobs", 200), ("/submit/upload-url?filetype=pdb", 403)] {
        let link = browser.plain(Method::GET, path).header("sec-fetch-site", "cross-site");
        assert_eq!(link.send().await.unwrap().status(), status, "{path}");
    }
}

#[tokio::test]
async fn a_session_manages_the_keys_of_its_account_alone() {
    let service = Service::start();
    let mut ada = Browser::of(&service, "ada").await;
    let eve = Browser::of(&service, "eve").await;
    let made =
        ada.request(Method::POST, "/submit/key").json(&json!({ "name": "laptop", "days": 1 }));
    let made = body(made.send().await.unwrap()).await;
    let key = made["key"].as_str().unwrap();
    let account = service.client_with(key).account_view().send().await.unwrap().into_inner();
    assert_eq!((account.account.as_str(), account.key_name.as_str()), ("ada", "laptop"));
    assert_eq!(account.key_expires_at.as_deref(), made["expires_at"].as_str());

    let list = body(ada.request(Method::GET, "/info/keys").send().await.unwrap()).await;
    assert_eq!(list["keys"][0]["key_id"], made["key_id"]);
    assert!(!list.to_string().contains(key), "a key is shown once");
    let with_key = reqwest::Client::new()
        .get(format!("{}/info/keys", service.base_url))
        .header("x-api-key", key)
        .send();
    assert_eq!(problem(with_key.await.unwrap()).await, (403, "forbidden".to_owned()));

    let path = format!("/info/key/{}", made["key_id"].as_str().unwrap());
    assert_eq!(eve.status(Method::DELETE, &path).await, 404, "it is another's");
    assert!(service.client_with(key).account_view().send().await.is_ok());
    assert_eq!(ada.status(Method::DELETE, &path).await, 204);
    assert!(service.client_with(key).account_view().send().await.is_err());
    let list = body(ada.request(Method::GET, "/info/keys").send().await.unwrap()).await;
    assert_eq!(list, json!({ "keys": [] }));

    let out = ada.request(Method::DELETE, "/session");
    let before = ada.cookie.clone();
    assert_eq!(ada.send(out).await.status(), 204);
    assert_eq!(ada.cookie.as_deref(), Some("molbox_session="));
    ada.cookie = before;
    assert_eq!(ada.status(Method::GET, "/session").await, 401, "the cookie is worth nothing now");
}

#[tokio::test]
async fn an_account_has_a_hundred_keys_at_most_however_many_are_asked_for_at_once() {
    let service = Service::start();
    let ada = Browser::of(&service, "ada").await;
    let key = json!({ "name": "script" });
    let asked = (0..110).map(|_| ada.request(Method::POST, "/submit/key").json(&key).send());
    let answers = futures::future::join_all(asked).await;
    let count = |status: u16| {
        let is_it = |answer: &&reqwest::Result<reqwest::Response>| {
            answer.as_ref().unwrap().status().as_u16() == status
        };
        answers.iter().filter(is_it).count()
    };
    assert_eq!([count(200), count(409)], [100, 10]);
    let list = body(ada.request(Method::GET, "/info/keys").send().await.unwrap()).await;
    assert_eq!(list["keys"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn a_session_ends_with_its_account_and_with_time() {
    let service = Service::start();
    let ada = Browser::of(&service, "ada").await;
    let link = ada.request(Method::GET, "/submit/upload-url?filetype=pdb").send().await.unwrap();
    let link = body(link).await["upload_url"].as_str().unwrap().to_owned();
    service.command(&["account", "disable", "ada"]);
    assert_eq!(ada.status(Method::GET, "/info/jobs").await, 401);
    let upload = reqwest::Client::new().put(link).body("HEADER").send().await.unwrap();
    assert_eq!(upload.status(), 403, "nor are its links good");

    let service = Service::start_with(&["sessions.idle_hours=0"]);
    let ada = Browser::of(&service, "ada").await;
    assert_eq!(ada.status(Method::GET, "/info/jobs").await, 401);
    let service = Service::start_with(&["sessions.days=0"]);
    let ada = Browser::of(&service, "ada").await;
    assert_eq!(ada.status(Method::GET, "/info/jobs").await, 401);
}

#[tokio::test]
async fn what_is_secret_is_in_no_log_no_audit_and_no_database() {
    let service = Service::start();
    let mut ada = Browser::new(&service);
    service.command(&["account", "create", "ada"]);
    let token = invitation(&service, "ada");
    ada.accept(&token, PASSWORD).await;
    let cookie = ada.cookie.clone().unwrap();
    let session = cookie.split_once('=').unwrap().1;
    for name in ["\u{1b}]0;p\u{7}", "lap\u{202e}pot"] {
        let named = ada.request(Method::POST, "/submit/key").json(&json!({ "name": name }));
        let expected = (422, "value_error".to_owned());
        assert_eq!(problem(named.send().await.unwrap()).await, expected, "{name:?}");
    }
    let made = ada.request(Method::POST, "/submit/key").json(&json!({ "name": "laptop" }));
    let made = body(made.send().await.unwrap()).await;
    service.wait_until_it_logs("/submit/key");
    let audit = service.command(&["audit", "--json"]);
    for action in ["account_create", "invitation_create", "invitation_accept", "key_create"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
    let stored = ["molbox.sqlite", "molbox.sqlite-wal"]
        .map(|name| std::fs::read(service.data.join(name)).unwrap_or_default());
    let stored = stored.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(stored.contains("invitation_accept"), "it is the database that is looked at");
    for secret in [token.as_str(), session, PASSWORD, made["key"].as_str().unwrap()] {
        for (place, text) in [("log", &service.log()), ("audit", &audit), ("database", &stored)] {
            assert!(!text.contains(secret), "{secret} is in the {place}");
        }
    }
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_their_account_alone() {
    let service = Service::start();
    let ada = Browser::of(&service, "ada").await;
    let eve = Browser::of(&service, "eve").await;
    let mut phone = Browser::new(&service);
    let sign_in = phone
        .request(Method::POST, "/session")
        .header("user-agent", format!("Phöne {}", "x".repeat(500)))
        .json(&json!({ "account": "ada", "password": PASSWORD }));
    let session = body(phone.send(sign_in).await).await;
    let list = body(ada.request(Method::GET, "/info/sessions").send().await.unwrap()).await;
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{list}");
    assert_eq!([&sessions[0]["is_current"], &sessions[1]["is_current"]], [true, false]);
    assert_eq!(sessions[1]["session_id"], session["session_id"]);
    assert_eq!(sessions[1]["address"], "127.0.0.1");
    assert!(sessions[1]["browser"].as_str().unwrap().len() < 300, "as much as tells it apart");

    let path = format!("/info/session/{}", session["session_id"].as_str().unwrap());
    assert_eq!(eve.status(Method::DELETE, &path).await, 404, "it is another's");
    assert_eq!(phone.status(Method::GET, "/session").await, 200);
    let forged = ada.plain(Method::DELETE, &path).header("sec-fetch-site", "cross-site");
    assert_eq!(problem(forged.send().await.unwrap()).await.1, "cross_origin");
    assert_eq!(ada.status(Method::DELETE, &path).await, 204);
    assert_eq!(phone.status(Method::GET, "/session").await, 401);
    assert_eq!(ada.status(Method::DELETE, &path).await, 404, "it has ended");
    assert_eq!(ada.status(Method::DELETE, "/info/session/ses_..").await, 404);
}

#[tokio::test]
async fn who_knows_the_password_changes_it_and_the_other_sessions_end() {
    let service = Service::start_with(&["sessions.tries_per_minute=6"]);
    let ada = Browser::of(&service, "ada").await;
    let mut elsewhere = Browser::new(&service);
    assert_eq!(elsewhere.sign_in("ada", PASSWORD).await.status(), 200);
    let invited = invitation(&service, "ada");
    let change = async |password: &str, new_password: &str| {
        let body = json!({ "password": password, "new_password": new_password });
        ada.request(Method::POST, "/session/password").json(&body).send().await.unwrap()
    };
    // Any characters, which are counted as such.
    let chosen = "пароль-密码-🔑🔑";
    assert_eq!(chosen.chars().count(), 12);
    for (password, new_password, field) in [
        ("wrong password", chosen, "password"),
        (PASSWORD, "eleven char", "new_password"),
        (PASSWORD, &*"x".repeat(201), "new_password"),
    ] {
        let refused = change(password, new_password).await;
        assert_eq!(refused.status(), 422, "{field}");
        let refused = body(refused).await;
        assert_eq!(refused["detail"][0]["loc"], json!(["body", field]), "{refused}");
        assert!(!refused.to_string().contains(new_password), "{refused}");
    }
    assert_eq!(elsewhere.status(Method::GET, "/session").await, 200, "nothing has happened yet");
    let noted = service.command(&["audit", "--action", "password_refuse", "--account", "ada"]);
    assert_eq!(noted.matches("ses_").count(), 1, "{noted}");
    assert_eq!(change(PASSWORD, chosen).await.status(), 204);
    assert_eq!(elsewhere.status(Method::GET, "/session").await, 401);
    assert_eq!(ada.status(Method::GET, "/session").await, 200, "the one that did it goes on");
    let late = Browser::new(&service).accept(&invited, "another password").await;
    assert_eq!(late.status(), 401, "an invitation ends with the password that it was to replace");
    let mut browser = Browser::new(&service);
    assert_eq!(browser.sign_in("ada", PASSWORD).await.status(), 401);
    assert_eq!(browser.sign_in("ada", chosen).await.status(), 200);
    // Who has got hold of a session cannot guess on. Where a guess takes long, a try comes back every
    // 10 s.
    let mut guesses = Vec::new();
    while guesses.last() != Some(&429) {
        assert!(guesses.len() < 20, "{guesses:?}");
        guesses.push(change("guess", PASSWORD).await.status().as_u16());
    }
    let refused = &guesses[..guesses.len() - 1];
    assert!(!refused.is_empty() && refused.iter().all(|status| *status == 422), "{guesses:?}");
    let audit = service.command(&["audit", "--action", "password_change", "--json"]);
    assert_eq!(audit.lines().count(), 1, "what was done, and nothing that was refused: {audit}");
}

#[tokio::test]
async fn an_account_is_told_what_it_uses_and_may() {
    let service = Service::start_with(&["limits.open_tasks=0", "limits.account_bytes=1000000"]);
    let ada = service.client("ada");
    let before = ada.usage_view().send().await.unwrap().into_inner();
    assert_eq!((before.open_tasks.used, before.open_tasks.most), (0, None));
    assert_eq!((before.bytes.used, before.bytes.most), (0, Some(1_000_000)));
    let path = example("1vii.pdb");
    let size = std::fs::metadata(&path).unwrap().len();
    ada.upload(path).await.unwrap();
    let after = ada.usage_view().send().await.unwrap().into_inner();
    assert_eq!((after.files.used, after.files.most), (1, None));
    assert_eq!(after.bytes.used, i64::try_from(size).unwrap());
    let other = service.client("bob").usage_view().send().await.unwrap().into_inner();
    assert_eq!((other.files.used, other.bytes.used), (0, 0), "each has its own");
    let browser = Browser::of(&service, "eve").await;
    assert_eq!(browser.status(Method::GET, "/info/usage").await, 200);
}

#[tokio::test]
async fn a_browser_keeps_no_token_that_somebody_else_has_chosen() {
    let service = Service::start();
    Browser::of(&service, "ada").await;
    let planted = format!("molbox_session={}", "ab".repeat(32));
    let mut browser = Browser::new(&service);
    browser.cookie = Some(planted.clone());
    assert_eq!(browser.sign_in("ada", PASSWORD).await.status(), 200);
    assert_ne!(browser.cookie.as_ref(), Some(&planted));
    assert_eq!(browser.status(Method::GET, "/session").await, 200);
    let first = browser.cookie.clone();
    assert_eq!(browser.sign_in("ada", PASSWORD).await.status(), 200);
    assert_ne!(browser.cookie, first, "each sign-in has a token of its own");
    browser.cookie = Some(planted);
    assert_eq!(browser.status(Method::GET, "/session").await, 401);
}

#[tokio::test]
async fn a_session_is_good_for_its_own_service_alone() {
    let here = Service::start();
    let there = Service::start_with(&["stage=\"other\""]);
    let ada = Browser::of(&here, "ada").await;
    let mut other = Browser::of(&there, "ada").await;
    assert!(other.base_url.ends_with("/other"));
    other.cookie = ada.cookie.clone();
    assert_eq!(other.status(Method::GET, "/session").await, 401);
}

#[tokio::test]
async fn no_key_does_what_is_for_those_who_have_signed_in() {
    let service = Service::start();
    let ada = Browser::of(&service, "ada").await;
    let key = service.key("ada");
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let mut n_operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["security"] != json!([{ "Session": [] }]) {
                continue;
            }
            n_operations += 1;
            let path = path
                .replace("{key_id}", "00000000")
                .replace("{session_id}", "ses_00000000000000000000")
                .replace("{account}", "ada")
                .replace("{task_id}", "job_00000000000000000000");
            let method: Method = method.to_uppercase().parse().unwrap();
            // Also beside a session: what has a key is a program.
            for with_cookie in [false, true] {
                let browser = if with_cookie { &ada } else { &Browser::new(&service) };
                let request = browser.request(method.clone(), &path).header("x-api-key", &key);
                let refused = problem(request.send().await.unwrap()).await;
                assert_eq!(refused, (403, "forbidden".to_owned()), "{method} {path}");
            }
            let nobody = Browser::new(&service).request(method.clone(), &path);
            assert_eq!(nobody.send().await.unwrap().status(), 401, "{method} {path}");
        }
    }
    assert!(n_operations >= 15, "{n_operations}");
    assert_eq!(ada.status(Method::GET, "/session").await, 200, "nothing of it has happened");
}

#[tokio::test]
async fn names_and_passwords_of_any_length_and_script_are_answered() {
    let service = Service::start_with(&["sessions.tries_per_minute_from_address=0"]);
    Browser::of(&service, "ada").await;
    let long = "a".repeat(200);
    for (name, password, status) in [
        ("", PASSWORD, 422),
        (&*long, PASSWORD, 401),
        (&*"é".repeat(200), PASSWORD, 401),
        (&*"a".repeat(201), PASSWORD, 422),
        ("ada", &*"p".repeat(201), 422),
        ("ada", &*"p".repeat(10_000), 422),
        // Bodies of those who have not signed in are held in a room that all of them share.
        ("ada", &*"p".repeat(100_000), 413),
        ("ADA", PASSWORD, 401),
        ("ada ", PASSWORD, 401),
        ("аda", PASSWORD, 401),
        ("ada\u{0}", PASSWORD, 401),
        ("ada' or 1=1 --", PASSWORD, 401),
    ] {
        let answer = Browser::new(&service).sign_in(name, password).await;
        assert_eq!(answer.status(), status, "{name:?}");
        let answer = body(answer).await.to_string();
        assert!(!answer.contains(password), "{name:?}: {answer}");
    }
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn an_invitation_is_good_for_three_days_and_a_session_while_it_is_used() {
    const HOUR: i64 = 3600;
    let service = Service::start_with_clock(&["sessions.idle_hours=12", "sessions.days=1"]);
    service.command(&["account", "create", "ada"]);
    let (late, mut browser) = (invitation(&service, "ada"), Browser::new(&service));
    service.set_clock(72 * HOUR + 1);
    assert_eq!(browser.check(&late).await.status(), 401);
    assert_eq!(browser.accept(&late, PASSWORD).await.status(), 401);
    service.set_clock(0);
    let token = invitation(&service, "ada");
    service.set_clock(71 * HOUR);
    assert_eq!(browser.accept(&token, PASSWORD).await.status(), 200);
    service.set_clock(82 * HOUR);
    assert_eq!(browser.status(Method::GET, "/session").await, 200);
    // A use is noted a moment later.
    wait_for("the use is noted", || {
        let sql = "select count(*) from session where seen_at > created_at";
        (service.sql(sql) == "1").then_some(())
    });
    service.set_clock(93 * HOUR);
    assert_eq!(browser.status(Method::GET, "/session").await, 200, "it was used meanwhile");
    service.set_clock(95 * HOUR + 1);
    assert_eq!(browser.status(Method::GET, "/session").await, 401, "a day is over");
    let mut idle = Browser::new(&service);
    assert_eq!(idle.sign_in("ada", PASSWORD).await.status(), 200);
    service.set_clock(107 * HOUR + 2);
    assert_eq!(idle.status(Method::GET, "/session").await, 401, "it was not used for too long");
}
