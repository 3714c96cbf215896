//! Signing in by an identity provider, which is well-behaved or not.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use reqwest::Method;
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::{Service, wait_for};
use crate::sessions::Browser;

const SECRET: &str = "a secret+of/molbox";
const CODE: &str = "code-of-ada";
const ACCESS: &str = "token-of-ada";
/// `molbox` and the secret, each encoded as in a form, in base 64.
const BASIC: &str = "Basic bW9sYm94OmErc2VjcmV0JTJCb2YlMkZtb2xib3g=";

/// What the provider answers, as a test has it.
struct Answers {
    origin: String,
    discovery: Value,
    /// Claims of the ID token, without the nonce if that is here.
    claims: Value,
    userinfo: Value,
    /// Addresses at which it does something else.
    odd: HashMap<&'static str, Odd>,
    /// The query with which somebody came for a code that was not used.
    asked: Option<HashMap<String, String>>,
}

#[derive(Clone, Copy)]
enum Odd {
    /// Answers as it should, but for the status.
    Broken,
    Redirect,
    Endless,
    Silent,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<Answers>>);

impl Fake {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let answers = Answers {
            origin,
            discovery: json!({}),
            claims: json!({}),
            userinfo: json!({}),
            odd: HashMap::new(),
            asked: None,
        };
        let fake = Self(Arc::new(Mutex::new(answers)));
        let router = Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake.reset();
        fake
    }

    /// Has it behave well.
    fn reset(&self) {
        self.change(|fake| {
            let at = |path: &str| format!("{}{path}", fake.origin);
            let now = seconds();
            fake.discovery = json!({
                "issuer": fake.origin, "authorization_endpoint": at("/authorize?a=b"),
                "token_endpoint": at("/token"), "userinfo_endpoint": at("/userinfo"),
            });
            fake.claims = json!({
                "iss": fake.origin, "aud": "molbox", "sub": "ada-1", "iat": now, "exp": now + 300,
            });
            fake.userinfo = json!({
                "sub": "ada-1", "preferred_username": "ada", "groups": ["other", "md"],
            });
            fake.odd.clear();
        });
    }

    fn change(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.0.lock().unwrap());
    }

    fn origin(&self) -> String {
        self.0.lock().unwrap().origin.clone()
    }

    /// What has a service sign people in by it, with a secret in a file.
    fn settings(&self, secret: &Path) -> Vec<String> {
        std::fs::write(secret, format!("{SECRET}\n")).unwrap();
        let here = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        vec![
            format!("listen={here}"),
            format!("public_url=http://{here}"),
            format!("oidc.issuer={}", self.origin()),
            "oidc.client_id=molbox".to_owned(),
            format!("oidc.client_secret_file={}", secret.display()),
            "sessions.tries_per_minute_from_address=0".to_owned(),
        ]
    }

    fn service(&self, more: &[&str]) -> Service {
        let secret = tempfile::NamedTempFile::new().unwrap();
        let settings = self.settings(secret.path());
        Service::start_with_clock(&all(&settings, more))
    }
}

fn all<'a>(settings: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    settings.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1)).collect();
    let digit = |bits: &[u8]| (0..6).fold(0, |all, i| all << 1 | bits.get(i).copied().unwrap_or(0));
    bits.chunks(6).map(|bits| char::from(DIGITS[usize::from(digit(bits))])).collect()
}

fn fields(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

async fn answer(State(fake): State<Fake>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get("authorization").cloned();
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let odd = fake.0.lock().unwrap().odd.get(path.as_str()).copied();
    match odd {
        Some(Odd::Redirect) => {
            return (
                axum::http::StatusCode::TEMPORARY_REDIRECT,
                [("location", format!("{path}-moved"))],
            )
                .into_response();
        }
        Some(Odd::Endless) => {
            let spaces = Bytes::from_static(&[b' '; 4096]);
            let all = futures::stream::repeat_with(move || Ok::<_, Infallible>(spaces.clone()));
            return Body::from_stream(all).into_response();
        }
        Some(Odd::Silent) => std::future::pending().await,
        Some(Odd::Broken) | None => {}
    }
    let good = if matches!(odd, Some(Odd::Broken)) { 500 } else { 200 };
    let mut fake = fake.0.lock().unwrap();
    match path.trim_end_matches("-moved") {
        "/.well-known/openid-configuration" => axum_json(200, &fake.discovery),
        "/token" => {
            let form = fields(std::str::from_utf8(&body).unwrap());
            let is_posted = fake.discovery["token_endpoint_auth_methods_supported"].is_array();
            let is_proven = match is_posted {
                true => {
                    form.get("client_secret").is_some_and(|it| it == SECRET)
                        && authorization.is_none()
                }
                false => authorization.is_some_and(|it| it == BASIC),
            };
            let asked = fake.asked.take();
            let Some(asked) = asked.filter(|_| is_proven && form["code"] == CODE) else {
                return axum_json(400, &json!({ "error": "invalid_grant" }));
            };
            let challenge = base64url(&Sha256::digest(&form["code_verifier"]));
            assert_eq!(asked["code_challenge"], challenge);
            assert_eq!(asked["redirect_uri"], form["redirect_uri"]);
            let mut claims = json!({ "nonce": asked["nonce"] });
            claims.as_object_mut().unwrap().extend(fake.claims.as_object().unwrap().clone());
            let part = |value: &Value| base64url(value.to_string().as_bytes());
            let token = format!("{}.{}.c2ln", part(&json!({ "alg": "RS256" })), part(&claims));
            axum_json(good, &json!({ "id_token": token, "access_token": ACCESS }))
        }
        "/userinfo" => {
            assert_eq!(authorization.unwrap(), format!("Bearer {ACCESS}").as_str());
            axum_json(200, &fake.userinfo)
        }
        _ => axum_json(404, &json!({})),
    }
}

fn axum_json(status: u16, value: &Value) -> Response {
    let status = axum::http::StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/json")], value.to_string()).into_response()
}

/// A browser that goes to the provider.
struct Visit {
    /// Its cookie.
    cookie: Option<String>,
    /// What it comes back with.
    query: String,
}

/// An answer of the service: where it leads to, and the cookies that it sets.
struct Led {
    to: String,
    cookies: Vec<String>,
}

impl Led {
    /// Why nobody was signed in; empty if somebody was.
    fn why(&self) -> &str {
        let why = self.to.split_once("#sign-in=").map_or("", |(_, why)| why);
        assert_eq!(why.is_empty(), self.session().is_some(), "{}", self.to);
        why
    }

    fn session(&self) -> Option<String> {
        let cookie = self.cookies.iter().find(|cookie| cookie.starts_with("molbox_session="))?;
        for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/local;"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        cookie.split(';').next().map(str::to_owned)
    }
}

async fn led(service: &Service, path: &str, cookie: Option<&str>) -> Led {
    let client = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    let request = client.get(format!("{}{path}", service.base_url));
    let request = cookie.into_iter().fold(request, |it, cookie| it.header("cookie", cookie));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 303);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
    let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap().to_owned();
    Led {
        to: text(&answer.headers()["location"]),
        cookies: answer.headers().get_all("set-cookie").iter().map(text).collect(),
    }
}

async fn begin(service: &Service, fake: &Fake) -> Visit {
    let there = led(service, "/session/oidc?back=job/new%3Fx%3D1", None).await;
    let (place, query) = there.to.split_once('?').unwrap();
    assert_eq!(place, format!("{}/authorize", fake.origin()));
    let query = fields(query);
    for (name, value) in [
        ("a", "b"),
        ("response_type", "code"),
        ("client_id", "molbox"),
        ("scope", "openid profile"),
        ("redirect_uri", &format!("{}/session/oidc/callback", service.base_url)),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(query[name], value);
    }
    let back = format!("code={CODE}&state={}", query["state"]);
    fake.change(|fake| fake.asked = Some(query));
    for part in ["; HttpOnly", "; SameSite=Lax", "; Path=/local/session/oidc;", "; Max-Age=600"] {
        assert!(there.cookies[0].contains(part), "{}", there.cookies[0]);
    }
    let cookie = there.cookies[0].split(';').next().map(str::to_owned);
    Visit { cookie, query: back }
}

async fn back(service: &Service, visit: &Visit) -> Led {
    let path = format!("/session/oidc/callback?{}", visit.query);
    led(service, &path, visit.cookie.as_deref()).await
}

async fn sign_in(service: &Service, fake: &Fake) -> Led {
    back(service, &begin(service, fake).await).await
}

const ADMIT: [&str; 2] = ["oidc.admit_claim=groups", "oidc.admit_values=['md']"];

async fn account_of(service: &Service, led: &Led) -> String {
    let url = format!("{}/session", service.base_url);
    let request = reqwest::Client::new().get(url).header("cookie", led.session().unwrap());
    let session: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(session["role"], "user");
    session["account"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_admitted_gets_an_account_and_has_it_again_the_next_time() {
    let fake = Fake::start().await;
    let mut service = fake.service(&ADMIT);
    let first = sign_in(&service, &fake).await;
    assert_eq!(first.why(), "");
    assert_eq!(first.to, format!("{}/portal/job/new?x=1", service.base_url));
    assert!(first.cookies.iter().any(|it| it.starts_with("molbox_oidc=;")), "{:?}", first.cookies);
    assert_eq!(account_of(&service, &first).await, "ada");
    let audit = service.command(&["audit", "--json"]);
    assert!(audit.contains("\"session_oidc\"") && audit.contains("\"account_create\""), "{audit}");

    // By the subject, whatever else is said, and with what other providers do.
    fake.change(|fake| {
        fake.userinfo = json!({ "sub": "ada-1", "preferred_username": "bob" });
        fake.claims["aud"] = json!(["molbox", "other"]);
        fake.claims["azp"] = json!("molbox");
        fake.discovery["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    });
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada");
    fake.reset();
    fake.change(|fake| {
        fake.discovery.as_object_mut().unwrap().remove("userinfo_endpoint");
    });
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada");

    // Its clock may be behind, or before.
    for (issued, expires) in [(seconds() - 90, seconds() - 30), (seconds() + 30, seconds() + 90)] {
        fake.reset();
        fake.change(|fake| {
            (fake.claims["iat"], fake.claims["exp"]) = (json!(issued), json!(expires));
        });
        assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada");
    }

    service.command(&["account", "disable", "ada"]);
    fake.reset();
    assert_eq!(sign_in(&service, &fake).await.why(), "disabled");
    // All of it is written then.
    service.stop();
    let log = service.log();
    for secret in [SECRET, CODE, ACCESS, "eyJ"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_given_with_a_number() {
    let fake = Fake::start().await;
    let service = fake.service(&ADMIT);
    service.command(&["account", "create", "ada", "--admin"]);
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada-2");
    // There would be no room for a number.
    let long = "a".repeat(181);
    for (subject, name, account) in [
        ("w", long.as_str(), "person"),
        ("x", "ada", "ada-3"),
        ("y", "a/b", "person-2"),
        ("z", "", "person-3"),
    ] {
        fake.change(|fake| {
            fake.claims["sub"] = json!(subject);
            fake.userinfo = json!({ "sub": subject, "preferred_username": name, "groups": "md" });
        });
        assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, account);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_who_is_neither_admitted_nor_linked() {
    let fake = Fake::start().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    let settings = fake.settings(secret.path());
    let mut service = Service::start_with_clock(&all(&settings, &[]));
    service.command(&["account", "create", "ada"]);
    assert_eq!(sign_in(&service, &fake).await.why(), "unknown", "a name alone is nobody's");
    fake.change(|fake| fake.claims["email"] = json!("ada@uni.example"));
    for more in [
        ["oidc.admit_claim=groups", "oidc.admit_values=['m', 'md2']"],
        ["oidc.admit_claim=email", "oidc.admit_values=['ada@uni.example']"],
    ] {
        service.stop();
        service.restart_with(&all(&settings, &more));
        assert_eq!(sign_in(&service, &fake).await.why(), "unknown", "{more:?}");
    }
    // An address that was proven.
    fake.change(|fake| fake.claims["email_verified"] = json!(true));
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada-2");
    let link = |name| is_linked(&service, &settings, name, "ada-1");
    assert!(link("ada") && !link("eve"));
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada");
}

/// Whether `molboxd account link` does it.
fn is_linked(service: &Service, settings: &[String], name: &str, subject: &str) -> bool {
    let mut molboxd = service.place().molboxd();
    molboxd.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let command = ["account", "link", name, "--subject", subject];
    molboxd.args(command).output().unwrap().status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_unlinked_is_signed_out_and_does_not_get_in_any_more() {
    let fake = Fake::start().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    let settings = fake.settings(secret.path());
    let service = Service::start_with_clock(&all(&settings, &[]));
    let unlink = |words: &[&str]| {
        let mut molboxd = service.place().molboxd();
        let said = molboxd.args(["account", "unlink"]).args(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (said.status.success(), text(said.stdout), text(said.stderr))
    };
    let refused = |words: &[&str], cause: &str| {
        let (is_done, _, said) = unlink(words);
        assert!(!is_done && said.contains(cause), "{words:?}: {said}");
    };
    service.command(&["account", "create", "ada"]);
    let bob = Browser::of(&service, "bob").await;
    refused(&["eve"], "there is no account named eve");
    refused(&["ada"], "nobody signs in to the account ada");
    for (name, subject) in [("ada", "ada-1"), ("ada", "ada-2"), ("bob", "bob-1")] {
        assert!(is_linked(&service, &settings, name, subject));
    }
    refused(&["ada", "--subject", "bob-1"], "bob-1 does not sign in to the account ada");
    let session = sign_in(&service, &fake).await;
    assert_eq!(account_of(&service, &session).await, "ada");

    let gone = |subject: &str| format!("{}\t{subject}\n", fake.origin());
    let (_, shown, said) = unlink(&["ada", "--subject", "ada-1"]);
    assert_eq!((shown, said), (gone("ada-1"), String::new()), "another is linked");
    let mut ada = Browser::new(&service);
    ada.cookie = session.session();
    assert_eq!(ada.status(Method::GET, "/session").await, 401);
    assert_eq!(sign_in(&service, &fake).await.why(), "unknown");
    let (_, shown, said) = unlink(&["ada"]);
    assert_eq!(shown, gone("ada-2"));
    assert!(said.contains("`molboxd account invite ada`"), "{said}");
    refused(&["ada"], "nobody signs in to the account ada");
    let audit = service.command(&["audit", "--account", "ada", "--action", "account_unlink"]);
    assert_eq!(audit.lines().count(), 2, "{audit}");

    assert_eq!(bob.status(Method::GET, "/session").await, 200, "bob has nothing to do with it");
    fake.change(|fake| {
        fake.claims["sub"] = json!("bob-1");
        fake.userinfo = json!({ "sub": "bob-1" });
    });
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "bob");
    assert_eq!(unlink(&["bob"]), (true, gone("bob-1"), String::new()), "he has a password");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_not_begin_it_here_just_now_is_not_signed_in() {
    let fake = Fake::start().await;
    let service = fake.service(&ADMIT);
    let visit = begin(&service, &fake).await;
    let (state, other) = (visit.query.clone(), begin(&service, &fake).await);
    let forged = |from: &str, to: &str| visit.cookie.as_ref().map(|it| it.replacen(from, to, 1));
    let own = visit.query.split_once("state=").unwrap().1;
    for (what, cookie, query) in [
        ("no cookie", None, state.clone()),
        ("the cookie of another sign-in", other.cookie.clone(), state.clone()),
        ("another state", visit.cookie.clone(), other.query.clone()),
        ("no state", visit.cookie.clone(), format!("code={CODE}")),
        ("no cookie's form", Some("molbox_oidc=a.b.c.d".to_owned()), state.clone()),
        (
            "a forged state",
            forged(own, &"0".repeat(64)),
            format!("code={CODE}&state={}", "0".repeat(64)),
        ),
        ("a forged way back", forged(".6a6f62", ".6a6f63"), state.clone()),
    ] {
        let led = back(&service, &Visit { cookie, query }).await;
        assert_eq!(led.why(), "not-begun", "{what}");
    }
    let refused = format!("error=access_denied&error_description=<b>&state={own}");
    let refused = back(&service, &Visit { cookie: visit.cookie.clone(), query: refused }).await;
    assert_eq!(refused.why(), "refused");
    assert!(refused.to.ends_with("/portal/job/new?x=1#sign-in=refused"), "{}", refused.to);

    let long = format!("code={}&state={own}", "a".repeat(4097));
    let long = back(&service, &Visit { cookie: visit.cookie.clone(), query: long }).await;
    assert_eq!(long.why(), "refused");

    service.set_clock(601);
    let visit = begin(&service, &fake).await;
    service.set_clock(1202);
    fake.change(|fake| {
        fake.claims["iat"] = json!(seconds() + 1202);
        fake.claims["exp"] = json!(seconds() + 1802);
    });
    assert_eq!(back(&service, &visit).await.why(), "not-begun", "it took too long");
    service.set_clock(0);
    fake.reset();
    let visit = begin(&service, &fake).await;
    assert_eq!(back(&service, &visit).await.why(), "");
    assert_eq!(back(&service, &visit).await.why(), "not-begun", "a code is good once");
    for elsewhere in ["//evil.example", "/evil.example", "..%2F..%2Fevil", "%5Cevil"] {
        fake.change(|fake| fake.odd = HashMap::from([(DISCOVERY, Odd::Redirect)]));
        let led = led(&service, &format!("/session/oidc?back={elsewhere}"), None).await;
        assert_eq!(led.to, format!("{}/portal/#sign-in=provider", service.base_url));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_sign_ins_have_anything_in_common() {
    let fake = Fake::start().await;
    let service = fake.service(&ADMIT);
    let asked = async || {
        begin(&service, &fake).await;
        fake.0.lock().unwrap().asked.take().unwrap()
    };
    let (one, other) = (asked().await, asked().await);
    for name in ["state", "nonce", "code_challenge"] {
        assert!(one[name].len() >= 43, "{name} can be guessed");
        assert_ne!(one[name], other[name], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_subject_of_another_issuer_is_somebody_else() {
    let (fake, second) = (Fake::start().await, Fake::start().await);
    let secret = tempfile::NamedTempFile::new().unwrap();
    let settings = fake.settings(secret.path());
    let mut service = Service::start_with_clock(&all(&settings, &ADMIT));
    assert_eq!(account_of(&service, &sign_in(&service, &fake).await).await, "ada");
    service.stop();
    let issuer = format!("oidc.issuer={}", second.origin());
    let more = [&ADMIT[..], &[issuer.as_str()]].concat();
    service.restart_with(&all(&settings, &more));
    assert_eq!(account_of(&service, &sign_in(&service, &second).await).await, "ada-2");
}

const DISCOVERY: &str = "/.well-known/openid-configuration";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_says_that_is_not_right_signs_nobody_in() {
    let fake = Fake::start().await;
    let service = fake.service(&ADMIT);
    let now = seconds();
    let cases: Vec<(&str, Value)> = vec![
        ("is of another issuer", json!({ "iss": "https://other.example" })),
        ("is for another client", json!({ "aud": "other" })),
        ("is for another client", json!({ "aud": ["other", "third"] })),
        ("is for another client", json!({ "aud": null })),
        ("was given out to another client", json!({ "aud": ["molbox", "other"] })),
        ("was given out to another client", json!({ "azp": "other" })),
        ("has expired", json!({ "exp": now - 120 })),
        ("does not say when it expires", json!({ "exp": null })),
        ("compare the clocks", json!({ "iat": now - 1200 })),
        ("compare the clocks", json!({ "iat": now + 600, "exp": now + 900 })),
        ("does not say when it was issued", json!({ "iat": null })),
        ("is of another sign-in", json!({ "nonce": "another" })),
        ("is of another sign-in", json!({ "nonce": null })),
        ("is empty or too long", json!({ "sub": "" })),
        ("is empty or too long", json!({ "sub": "a".repeat(256) })),
    ];
    let mut logged = 0;
    for (cause, claims) in cases {
        fake.reset();
        fake.change(|fake| {
            fake.claims.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            fake.userinfo["sub"] = fake.claims["sub"].clone();
        });
        assert_eq!(sign_in(&service, &fake).await.why(), "provider", "{claims}");
        logged = until_logged(&service, logged, cause);
    }
    fake.reset();
    fake.change(|fake| fake.userinfo["sub"] = json!("bob-1"));
    assert_eq!(sign_in(&service, &fake).await.why(), "provider");
    until_logged(&service, logged, "tells of another subject");

    fake.reset();
    let visit = begin(&service, &fake).await;
    let query = format!("{}&iss=https://other.example", visit.query);
    assert_eq!(back(&service, &Visit { query, ..visit }).await.why(), "provider");
    let visit = begin(&service, &fake).await;
    fake.change(|fake| {
        fake.discovery["authorization_response_iss_parameter_supported"] = json!(true);
    });
    assert_eq!(back(&service, &visit).await.why(), "provider", "it does not name its issuer");
    let visit = begin(&service, &fake).await;
    let query = format!("{}&iss={}", visit.query, fake.origin());
    assert_eq!(back(&service, &Visit { query, ..visit }).await.why(), "");
}

/// Waits until the log has a cause behind a place: it is written behind the answers. The place
/// behind it.
fn until_logged(service: &Service, from: usize, cause: &str) -> usize {
    wait_for(&format!("the log says {cause:?}"), || {
        let at = service.log().get(from..)?.find(cause)?;
        Some(from + at + cause.len())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_at_another_place_or_without_end_is_not_followed() {
    let fake = Fake::start().await;
    let service = fake.service(&ADMIT);
    for (name, value) in [
        ("issuer", "https://other.example"),
        ("issuer", ""),
        ("token_endpoint", "http://login.example/token"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("userinfo_endpoint", "ftp://127.0.0.1/"),
    ] {
        fake.reset();
        fake.change(|fake| fake.discovery[name] = json!(value));
        let led = led(&service, "/session/oidc", None).await;
        assert_eq!(led.why(), "provider", "{name} {value}");
    }
    fake.reset();
    let visit = begin(&service, &fake).await;
    fake.change(|fake| fake.odd = HashMap::from([("/token", Odd::Broken)]));
    let logged = service.log().len();
    assert_eq!(back(&service, &visit).await.why(), "provider", "an answer with an error's status");
    until_logged(&service, logged, "token endpoint answers 500");
    for (odd, cause) in [
        (Odd::Redirect, "307"),
        (Odd::Endless, "larger than"),
        (Odd::Silent, "does not answer within"),
    ] {
        // One silence is as long as another.
        let paths: &[_] = match odd {
            Odd::Silent => &["/token"],
            _ => &[DISCOVERY, "/token", "/userinfo"],
        };
        for &path in paths {
            fake.reset();
            let visit = begin(&service, &fake).await;
            fake.change(|fake| fake.odd = HashMap::from([(path, odd)]));
            let logged = service.log().len();
            assert_eq!(back(&service, &visit).await.why(), "provider", "{path} {cause}");
            until_logged(&service, logged, cause);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_looks_for_the_provider() {
    let fake = Fake::start().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    let settings = fake.settings(secret.path());
    let service = Service::start_with_clock(&all(&settings, &[]));
    let doctor = || {
        let mut molboxd = service.place().molboxd();
        molboxd.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let said = molboxd.arg("doctor").output().unwrap().stdout;
        String::from_utf8(said).unwrap()
    };
    assert!(doctor().contains(&format!("{} answers", fake.origin())), "{}", doctor());
    fake.change(|fake| fake.discovery["issuer"] = json!("https://other.example"));
    assert!(doctor().contains("of the issuer \"https://other.example\""), "{}", doctor());
    std::fs::write(secret.path(), "").unwrap();
    assert!(doctor().contains("is empty"), "{}", doctor());
}

#[tokio::test]
async fn those_who_try_too_often_wait() {
    let fake = Fake::start().await;
    let service = fake.service(&["sessions.tries_per_minute_from_address=2"]);
    let visit = begin(&service, &fake).await;
    assert_eq!(back(&service, &visit).await.why(), "unknown");
    assert_eq!(back(&service, &visit).await.why(), "too-many");
    assert_eq!(led(&service, "/session/oidc", None).await.why(), "too-many");
}

#[tokio::test]
async fn the_ways_to_sign_in_name_the_provider_only_where_there_is_one() {
    let fake = Fake::start().await;
    let service = fake.service(&["oidc.label=With the university"]);
    let get = async |service: &Service, path: &str| {
        reqwest::get(format!("{}{path}", service.base_url)).await.unwrap()
    };
    let ways: Value = get(&service, "/info/sign-in").await.json().await.unwrap();
    assert_eq!(ways["oidc_label"], "With the university");
    let service = Service::start();
    let ways: Value = get(&service, "/info/sign-in").await.json().await.unwrap();
    assert!(ways.get("oidc_label").is_none(), "{ways}");
    for path in ["/session/oidc", "/session/oidc/callback?code=a&state=b"] {
        assert_eq!(get(&service, path).await.status(), 404);
    }
}
