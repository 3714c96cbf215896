//! Signing in by an identity provider: OpenID Connect's authorization code flow with PKCE.
//!
//! The ID token comes straight from the token endpoint over TLS, which may stand for its signature
//! (OpenID Connect Core 3.1.3.7, item 6): so nothing here takes a token from a browser. What has to
//! be remembered between the way out and the way back is in a cookie that the service signs.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use axum::http::HeaderValue;
use futures::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use reqwest::{RequestBuilder, StatusCode, Url};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::accounts::session::set_cookie;
use crate::config::Oidc;
use crate::db::Identity;
use crate::hex::{hex, unhex};
use crate::random;
use crate::web;

pub(crate) const COOKIE_NAME: &str = "molbox_oidc";
/// Where the cookie goes and people come back to, below the workflow's address.
const PLACE: &str = "/session/oidc";
/// How long somebody may take at the provider.
const LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// How far the provider's clock may be from the service's.
const SKEW: SignedDuration = SignedDuration::from_mins(1);
/// How long the provider may take for one answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Most of one answer.
const MAX_BYTES: usize = 256 << 10;
/// Of a code.
const CODE_BYTES: usize = 4096;
/// Of a subject, as OpenID Connect has it.
const SUBJECT_BYTES: usize = 255;
/// Of the page to go back to.
const BACK_BYTES: usize = 1000;

/// The identity provider that signs people in.
pub(crate) struct Provider {
    config: Oidc,
    secret: String,
    client: reqwest::Client,
    key: [u8; 32],
}

/// Somebody who has signed in at the provider.
pub(crate) struct Person {
    pub(crate) identity: Identity,
    /// What they are called there.
    pub(crate) name: Option<String>,
    pub(crate) is_admitted: bool,
}

/// Why nobody was signed in.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The browser did not begin it here, or too long ago.
    NotBegun,
    /// The provider let nobody in, or the person did not want it to.
    Refused,
    /// The provider cannot be reached, or what it says is not right; never with a secret, a code or
    /// a token.
    Provider(anyhow::Error),
}

impl From<anyhow::Error> for Failed {
    fn from(cause: anyhow::Error) -> Self {
        Self::Provider(cause)
    }
}

/// What of the discovery document is used.
pub(crate) struct Endpoints {
    authorization: Url,
    token: Url,
    userinfo: Option<Url>,
    /// Whether the secret goes into the body, because the provider takes it in no header.
    is_posted: bool,
    /// Whether those who come back tell the issuer.
    names_issuer: bool,
}

/// A sign-in that was begun; what else it needs comes from `state` and the service's secret.
pub(crate) struct Begun {
    state: String,
    /// The page of the portal where it began.
    pub(crate) back: String,
}

impl Provider {
    /// The provider that is configured; `secret` is the installation's.
    pub(crate) fn of(config: &Oidc, secret: &[u8; 32]) -> Result<Option<Self>> {
        if !config.is_set() {
            return Ok(None);
        }
        let own = self::secret(config)?;
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(secret).expect("any length is a key");
        mac.update(b"openid connect");
        let key = mac.finalize().into_bytes().into();
        Ok(Some(Self { config: config.clone(), secret: own, client: web::client()?, key }))
    }

    /// What the button says.
    pub(crate) fn label(&self) -> &str {
        &self.config.label
    }

    /// Where a browser goes to sign in, and the cookie that it takes along. `base_url` is the
    /// workflow's.
    pub(crate) async fn begin(
        &self,
        base_url: &str,
        back: &str,
        now: Timestamp,
    ) -> Result<(Url, HeaderValue)> {
        let mut url = discover(&self.client, &self.config.issuer).await?.authorization;
        let state = hex(&random::bytes::<32>());
        let challenge = base64url(&Sha256::digest(self.verifier(&state)));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", &redirect_uri(base_url))
            .append_pair("scope", &self.config.scopes.join(" "))
            .append_pair("state", &state)
            .append_pair("nonce", &self.nonce(&state))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let expires = now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX).as_microsecond();
        let said = format!("{state}.{expires}.{}", hex(back.as_bytes()));
        let pair = format!("{COOKIE_NAME}={said}.{}", self.derived("cookie", &said));
        Ok((url, set_cookie(&pair, base_url, PLACE, LIFETIME.as_secs(), "Lax")))
    }

    /// What a cookie says that was made by [`Self::begin`] and has not expired.
    pub(crate) fn begun(&self, cookie: &str, now: Timestamp) -> Option<Begun> {
        let (said, signature) = cookie.rsplit_once('.')?;
        // Compares in constant time.
        self.mac("cookie", said).verify_slice(&unhex(signature)?).ok()?;
        let mut parts = said.split('.');
        let (state, expires, back) = (parts.next()?, parts.next()?, parts.next()?);
        let is_good = expires.parse::<i64>().ok()? > now.as_microsecond();
        let back = String::from_utf8(unhex(back)?).ok()?;
        is_good.then(|| Begun { state: state.to_owned(), back })
    }

    /// Who has signed in at the provider, from the query that came back with their browser.
    pub(crate) async fn finish(
        &self,
        begun: &Begun,
        query: &[(String, String)],
        base_url: &str,
        now: Timestamp,
    ) -> Result<Person, Failed> {
        let part =
            |name| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if part("state") != Some(&begun.state) {
            return Err(Failed::NotBegun);
        }
        let endpoints = discover(&self.client, &self.config.issuer).await?;
        // Of a mix-up with another provider (RFC 9207).
        let is_ours = part("iss").map_or(!endpoints.names_issuer, |it| it == self.config.issuer);
        if !is_ours {
            return Err(anyhow!("it came back with another issuer, or with none").into());
        }
        let code = part("code").filter(|code| code.len() <= CODE_BYTES).ok_or(Failed::Refused)?;
        let got = self.tokens(&endpoints, code, &begun.state, base_url).await?;
        let token = got["id_token"].as_str().and_then(claims);
        let token = token.context("the token endpoint answers without an ID token")?;
        self.check(&token, &self.nonce(&begun.state), now)?;
        let subject = text(&token, "sub").unwrap_or_default();
        let mut said = Map::new();
        if let Some(userinfo) = endpoints.userinfo {
            let access = got["access_token"].as_str();
            let access = access.context("the token endpoint answers without an access token")?;
            let request = self.client.get(userinfo).bearer_auth(access);
            said = success(ask(request).await?, "userinfo endpoint")?;
            if text(&said, "sub") != Some(subject) {
                return Err(anyhow!("the userinfo endpoint tells of another subject").into());
            }
        }
        let (issuer, subject) = (self.config.issuer.clone(), subject.to_owned());
        said.extend(token);
        Ok(Person {
            name: text(&said, "preferred_username").map(str::to_owned),
            is_admitted: is_admitted(&self.config, &said),
            identity: Identity { issuer, subject },
        })
    }

    /// What the token endpoint gives for a code.
    async fn tokens(
        &self,
        endpoints: &Endpoints,
        code: &str,
        state: &str,
        base_url: &str,
    ) -> Result<Value, Failed> {
        let (id, secret) = (&self.config.client_id, &self.secret);
        let verifier = self.verifier(state);
        let redirect_uri = redirect_uri(base_url);
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", &verifier),
        ];
        if endpoints.is_posted {
            fields.extend([("client_id", id.as_str()), ("client_secret", secret)]);
        }
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self
            .client
            .post(endpoints.token.clone())
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        if !endpoints.is_posted {
            // RFC 6749, 2.3.1: both are encoded as in a form.
            let encoded =
                |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            request = request.basic_auth(encoded(id), Some(encoded(secret)));
        }
        let (status, answer) = ask(request).await?;
        if text(&answer, "error") == Some("invalid_grant") {
            // Used before, or too old.
            return Err(Failed::NotBegun);
        }
        Ok(Value::Object(success((status, answer), "token endpoint")?))
    }

    /// Refuses an ID token that is not for this service, this sign-in and this moment.
    fn check(&self, token: &Map<String, Value>, nonce: &str, now: Timestamp) -> Result<()> {
        let Oidc { issuer, client_id, .. } = &self.config;
        ensure!(text(token, "iss") == Some(issuer), "the ID token is of another issuer");
        let audiences = texts(token.get("aud"));
        ensure!(audiences.contains(&client_id.as_str()), "the ID token is for another client");
        let party = text(token, "azp");
        let is_ours = party.map_or(audiences.len() == 1, |party| party == client_id);
        ensure!(is_ours, "the ID token was given out to another client");
        let at = |name: &str| {
            let seconds = token.get(name).and_then(Value::as_f64);
            seconds.and_then(|seconds| Timestamp::from_second(seconds as i64).ok())
        };
        let expires = at("exp").context("the ID token does not say when it expires")?;
        ensure!(now.duration_since(expires) < SKEW, "the ID token has expired");
        let issued = at("iat").context("the ID token does not say when it was issued")?;
        let age = now.duration_since(issued);
        ensure!(
            age > -SKEW && age < LIFETIME,
            "the ID token was issued {} s ago by the clock of this machine; compare the clocks",
            age.as_secs()
        );
        ensure!(text(token, "nonce") == Some(nonce), "the ID token is of another sign-in");
        let subject = text(token, "sub").unwrap_or_default();
        ensure!(
            !subject.is_empty() && subject.len() <= SUBJECT_BYTES,
            "the subject of the ID token is empty or too long"
        );
        Ok(())
    }

    fn mac(&self, what: &str, text: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.key).expect("any length is a key");
        mac.update(format!("{what}\n{text}").as_bytes());
        mac
    }

    fn derived(&self, what: &str, text: &str) -> String {
        hex(&self.mac(what, text).finalize().into_bytes())
    }

    fn nonce(&self, state: &str) -> String {
        self.derived("nonce", state)
    }

    fn verifier(&self, state: &str) -> String {
        self.derived("verifier", state)
    }
}

/// The secret that the provider gave this service.
pub(crate) fn secret(config: &Oidc) -> Result<String> {
    let path = &config.client_secret_file;
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read oidc.client_secret_file {}", path.display()))?;
    let secret = text.trim().to_owned();
    ensure!(!secret.is_empty(), "oidc.client_secret_file {} is empty", path.display());
    Ok(secret)
}

/// Ends the cookie of a sign-in that is over.
pub(crate) fn no_cookie(base_url: &str) -> HeaderValue {
    set_cookie(&format!("{COOKIE_NAME}="), base_url, PLACE, 0, "Lax")
}

/// A page of the portal to go back to; the first one for what could lead anywhere else.
pub(crate) fn page(back: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.~?=&+%,:".contains(&byte);
    let path = back.split('?').next().unwrap_or_default().to_lowercase().replace("%2e", ".");
    let is_inside = !path.split('/').any(|step| [".", ".."].contains(&step))
        && !path.starts_with('/')
        && back.len() <= BACK_BYTES
        && back.bytes().all(is_plain);
    if is_inside { back } else { "" }
}

/// Where the provider sends people back to.
pub(crate) fn redirect_uri(base_url: &str) -> String {
    format!("{base_url}{PLACE}/callback")
}

/// What a provider says of itself.
pub(crate) async fn discover(client: &reqwest::Client, issuer: &str) -> Result<Endpoints> {
    let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    endpoints(issuer, &success(ask(client.get(&place)).await?, "discovery document")?)
}

/// What is used of the discovery document of an issuer.
fn endpoints(issuer: &str, said: &Map<String, Value>) -> Result<Endpoints> {
    let named = text(said, "issuer").unwrap_or_default();
    ensure!(named == issuer, "the discovery document is of the issuer {named:?}, not {issuer:?}");
    let may_be_here = Url::parse(issuer).is_ok_and(|url| web::is_here(&url));
    let endpoint = |name: &str| {
        let Some(text) = text(said, name) else { return Ok(None) };
        let url = Url::parse(text).with_context(|| format!("{name} of the discovery document"))?;
        let is_safe = url.scheme() == "https" || may_be_here && web::is_private(&url);
        ensure!(is_safe, "{name} of the discovery document is no https address");
        Ok(Some(url))
    };
    let needed = |name: &str| {
        endpoint(name)?.with_context(|| format!("the discovery document has no {name}"))
    };
    let methods = texts(said.get("token_endpoint_auth_methods_supported"));
    let (takes_basic, takes_post) =
        (methods.contains(&"client_secret_basic"), methods.contains(&"client_secret_post"));
    Ok(Endpoints {
        authorization: needed("authorization_endpoint")?,
        token: needed("token_endpoint")?,
        userinfo: endpoint("userinfo_endpoint")?,
        is_posted: takes_post && !takes_basic,
        names_issuer: said.get("authorization_response_iss_parameter_supported")
            == Some(&Value::Bool(true)),
    })
}

/// Asks the provider; the answer is an object of JSON, whatever its status.
async fn ask(request: RequestBuilder) -> Result<(StatusCode, Map<String, Value>)> {
    let answer = async {
        // The error names the address, which holds no secret; the request is not shown.
        let response = request.header("accept", "application/json").send().await?;
        let status = response.status();
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?);
            ensure!(
                bytes.len() <= MAX_BYTES,
                "the provider's answer is larger than {MAX_BYTES} bytes"
            );
        }
        // What it holds is not shown: it may be a token.
        let Ok(Value::Object(said)) = serde_json::from_slice(&bytes) else {
            bail!("the provider answers {status} with no object of JSON");
        };
        Ok((status, said))
    };
    let limit = || anyhow!("the provider does not answer within {} s", LIMIT.as_secs());
    tokio::time::timeout(LIMIT, answer).await.unwrap_or_else(|_| Err(limit()))
}

/// What was answered with 200.
fn success(
    (status, said): (StatusCode, Map<String, Value>),
    what: &str,
) -> Result<Map<String, Value>> {
    if status == StatusCode::OK {
        return Ok(said);
    }
    let is_code = |code: &&str| {
        code.len() <= 60 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let code = text(&said, "error").filter(is_code).unwrap_or_default();
    Err(anyhow!("the provider's {what} answers {status} {code}"))
}

/// The claims of a token; its signature is not looked at.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = unbase64url(payload).filter(|_| parts.next().is_none())?;
    serde_json::from_slice(&bytes).ok()
}

/// Whether somebody gets in who has no account yet.
fn is_admitted(config: &Oidc, said: &Map<String, Value>) -> bool {
    let claim = &config.admit_claim;
    if claim == "email" && said.get("email_verified") != Some(&Value::Bool(true)) {
        // People write what they like into their profiles.
        return false;
    }
    let values = texts(said.get(claim));
    !claim.is_empty() && values.iter().any(|value| config.admit_values.iter().any(|it| it == value))
}

fn text<'a>(said: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    said.get(name).and_then(Value::as_str)
}

/// A text, or those of a list.
fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 for addresses, without padding (RFC 4648, 5).
fn base64url(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(*chunk.get(i).unwrap_or(&0)));
        for i in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * i)) as usize % 64]));
        }
    }
    text
}

/// The bytes; none when they are not that.
fn unbase64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0;
        for i in 0..4 {
            let digit = chunk.get(i).map(|it| DIGITS.iter().position(|digit| digit == it));
            bits = bits << 6 | digit.unwrap_or(Some(0))? as u32;
        }
        let all = bits.to_be_bytes();
        bytes.extend_from_slice(&all[1..chunk.len()]);
    }
    (text.len() % 4 != 1).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_addresses_is_read_as_it_is_written() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (&[251, 255], "-_8")]
        {
            assert_eq!(base64url(bytes), text);
            assert_eq!(unbase64url(text).as_deref(), Some(bytes));
        }
        for other in ["Z", "Zm9vZ", "Zg==", "Zm+v", "Zm9v\n"] {
            assert_eq!(unbase64url(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_provider_elsewhere_has_no_endpoint_without_tls_nor_on_this_machine_in_the_clear() {
        let endpoints = |issuer: &str, token: &str| {
            let said = serde_json::json!({
                "issuer": issuer, "authorization_endpoint": "https://login.example/authorize",
                "token_endpoint": token,
            });
            endpoints(issuer, said.as_object().unwrap()).is_ok()
        };
        let (elsewhere, here) = ("https://login.example", "http://127.0.0.1:1");
        assert!(endpoints(elsewhere, "https://token.example"));
        assert!(!endpoints(elsewhere, "http://token.example"));
        assert!(!endpoints(elsewhere, "http://127.0.0.1:1/token"));
        assert!(endpoints(here, "http://127.0.0.1:1/token"));
        assert!(!endpoints(here, "http://token.example"));
    }

    #[test]
    fn a_token_has_three_parts_of_which_the_second_has_the_claims() {
        let claims = |token: &str| claims(token).is_some();
        assert!(claims("e30.e30.c2ln") && claims("e30.e30."));
        for other in
            ["", "e30", "e30.e30", "e30.e30.c2ln.e30", "e30..c2ln", "e30.W10.c2ln", "e.e!.s"]
        {
            assert!(!claims(other), "{other}");
        }
    }

    #[test]
    fn the_way_back_leads_into_the_portal_alone() {
        for good in ["", "jobs", "job/job_1?frame=2&mask=a%2Fb", "jobs?x=.."] {
            assert_eq!(page(good), good);
        }
        for other in [
            "/evil.example",
            "//evil.example",
            "https://evil.example/\n",
            "../session",
            "job/../../session",
            "%2E%2e/session",
            "job/.%2E/x",
            "a\\b",
            "a#b",
            "a\r\nset-cookie:b",
            "é",
            &"a".repeat(1001),
        ] {
            assert_eq!(page(other), "", "{other}");
        }
    }
}
