//! Sessions: 256 random bits in a cookie, of which the SHA-256 is kept, as of keys.
//!
//! A browser sends its cookie whoever makes it send a request. So one that changes something must
//! come from a page of the service itself: `Sec-Fetch-Site` says so or, where a browser does not
//! send that (over plain HTTP), `Origin`.

use axum::http::header::{COOKIE, HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Method, Uri};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::config::Sessions;
use crate::db::SessionRow;
use crate::error::ApiError;
use crate::hex::hex;
use crate::random;

pub(crate) const COOKIE_NAME: &str = "molbox_session";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How the identifiers of sessions begin, by which they are told from those of keys.
pub(crate) const PREFIX: &str = "ses";

/// A token that is given out once and kept as its SHA-256: of a session or an invitation.
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn generate() -> Self {
        Self(hex(&random::bytes::<32>()))
    }

    /// The token itself, for who gets it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub(crate) fn hash(&self) -> [u8; 32] {
        hash(&self.0)
    }
}

/// What is kept of a token.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The token of the session in a request's cookies.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    cookie_named(headers, COOKIE_NAME)
}

/// A cookie of this name: the first, which is of the longest path.
pub(crate) fn cookie_named<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
}

/// When a session ends if it is not used any more.
pub(crate) fn end(row: &SessionRow, sessions: &Sessions) -> Timestamp {
    let idle = SignedDuration::from_hours(sessions.idle_hours.into());
    row.seen_at.saturating_add(idle).map_or(row.expires_at, |end| end.min(row.expires_at))
}

/// Whether a session has not ended, and its account is not disabled.
pub(crate) fn is_good(row: &SessionRow, sessions: &Sessions, now: Timestamp) -> bool {
    end(row, sessions) > now && row.account_disabled_at.is_none()
}

/// The cookie that hands a browser a session, for so many seconds; `base_url` is the workflow's.
///
/// A `Secure` cookie over plain HTTP would be dropped by the browser without a word.
pub(crate) fn cookie(token: &str, seconds: i64, base_url: &str) -> HeaderValue {
    set_cookie(&format!("{COOKIE_NAME}={token}"), base_url, "", seconds, "Strict")
}

/// Sets a cookie for what is below a path of the workflow.
pub(crate) fn set_cookie(
    pair: &str,
    base_url: &str,
    below: &str,
    seconds: i64,
    same_site: &str,
) -> HeaderValue {
    let path = base_url.parse::<Uri>().map_or_else(|_| "/".to_owned(), |url| url.path().to_owned());
    let secure = if is_https(base_url) { "; Secure" } else { "" };
    let text = format!(
        "{pair}; Path={path}{below}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}"
    );
    HeaderValue::from_str(&text).expect("digits, letters and the path of an address")
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Refuses what a page of another origin has a browser send. `public_url` is the address as
/// browsers see it, empty where that is the one that the request names.
///
/// # Errors
///
/// 403, also when the request does not say where it comes from.
pub(crate) fn check_origin(headers: &HeaderMap, public_url: &str) -> Result<(), ApiError> {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter().peekable();
    if sites.peek().is_some() {
        return if sites.all(|site| site == "same-origin") {
            Ok(())
        } else {
            Err(ApiError::cross_origin("the request comes from a page of another origin"))
        };
    }
    let mut origins = headers.get_all(ORIGIN).iter().filter_map(|value| value.to_str().ok());
    let Some(origin) = origins.next().filter(|_| origins.next().is_none()) else {
        return Err(ApiError::cross_origin(
            "a request with a session, or for one, needs `Sec-Fetch-Site` or `Origin`, as \
             browsers send them; programs use an API key",
        ));
    };
    let expected = if public_url.is_empty() {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        format!("http://{host}")
    } else {
        origin_of(public_url)
    };
    if origin.eq_ignore_ascii_case(&expected) {
        return Ok(());
    }
    Err(ApiError::cross_origin(format!(
        "the request comes from {origin:?}; this service is {expected}"
    )))
}

/// Whether a request says where it comes from.
pub(crate) fn names_origin(headers: &HeaderMap) -> bool {
    headers.contains_key(SEC_FETCH_SITE) || headers.contains_key(ORIGIN)
}

/// Scheme, host and port of an address, without the port that its scheme has by itself.
fn origin_of(url: &str) -> String {
    let Ok(url) = url.parse::<Uri>() else { return url.to_owned() };
    let scheme = url.scheme_str().unwrap_or_default();
    let host = url.host().unwrap_or_default();
    match (scheme, url.port_u16()) {
        ("http", Some(80)) | ("https", Some(443)) | (_, None) => format!("{scheme}://{host}"),
        (_, Some(port)) => format!("{scheme}://{host}:{port}"),
    }
}

/// Whether a request with this method changes nothing by itself.
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
            })
            .collect()
    }

    #[test]
    fn a_request_must_say_that_it_comes_from_the_service_itself() {
        let host = ("host", "lab.example:8080");
        for (public_url, given, is_accepted) in [
            ("", &[("sec-fetch-site", "same-origin")][..], true),
            ("", &[("sec-fetch-site", "same-site")], false),
            ("", &[("sec-fetch-site", "cross-site")], false),
            ("", &[("sec-fetch-site", "none")], false),
            ("", &[("sec-fetch-site", "")], false),
            ("", &[("sec-fetch-site", "cross-site"), ("origin", "http://lab.example:8080")], false),
            ("", &[("origin", "http://lab.example:8080")], true),
            ("", &[("origin", "http://LAB.example:8080")], true),
            ("", &[("origin", "https://lab.example:8080")], false),
            ("", &[("origin", "http://lab.example")], false),
            ("", &[("origin", "http://lab.example:8080.evil.example")], false),
            ("", &[("origin", "null")], false),
            ("", &[("referer", "http://lab.example:8080/")], false),
            ("", &[], false),
            ("https://md.example/x", &[("origin", "https://md.example")], true),
            ("https://md.example:443", &[("origin", "https://md.example")], true),
            ("https://md.example", &[("origin", "http://lab.example:8080")], false),
        ] {
            let mut given = headers(given);
            given.extend(headers(&[host]));
            let result = check_origin(&given, public_url);
            assert_eq!(result.is_ok(), is_accepted, "{public_url} {given:?}");
        }
        let two = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")];
        let mut twice = HeaderMap::new();
        for (_, value) in two {
            twice.append("sec-fetch-site", value.parse().unwrap());
        }
        assert!(check_origin(&twice, "").is_err());
    }

    #[test]
    fn a_cookie_is_for_the_stage_alone_and_secure_exactly_over_tls() {
        let text = |base_url| cookie("ab", 60, base_url).to_str().unwrap().to_owned();
        assert_eq!(
            text("http://127.0.0.1:8080/local"),
            "molbox_session=ab; Path=/local; Max-Age=60; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            text("HTTPS://md.example/deep/prod"),
            "molbox_session=ab; Path=/deep/prod; Max-Age=60; HttpOnly; SameSite=Strict; Secure"
        );
        let found = |cookies: &str| token(&headers(&[("cookie", cookies)])).map(str::to_owned);
        assert_eq!(found("a=b; molbox_session=one; molbox_session=two").as_deref(), Some("one"));
        assert_eq!(found("xmolbox_session=one; molbox_session2=two"), None);
    }
}
