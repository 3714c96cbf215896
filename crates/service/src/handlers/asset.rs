//! Files that the build puts into the program, compressed, and how they are sent.

use std::io::Read as _;

use axum::body::Bytes;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, InvalidHeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

use crate::error::ApiError;

/// A file as the build of the program found it.
pub(super) struct Asset {
    /// Below the address of what it belongs to.
    pub(super) path: &'static str,
    pub(super) media: &'static str,
    /// Of its content, in hexadecimal.
    pub(super) sha256: &'static str,
    pub(super) gzip: &'static [u8],
}

pub(super) fn unpacked(gzip: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut content)?;
    Ok(content)
}

/// Weak: it is the same for the content and for its compressed form.
pub(super) fn etag(sha256: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::try_from(format!("W/\"{sha256}\""))
}

/// 200 with a content as it is stored, for those who take it so; 304 when they have it.
pub(super) fn file(
    gzip: &Bytes,
    media: &'static str,
    etag: HeaderValue,
    asked: &HeaderMap,
) -> Result<Response, ApiError> {
    let is_known = values(asked, &IF_NONE_MATCH)
        .any(|value| value == "*" || value.as_bytes() == etag.as_bytes());
    let mut response = match () {
        () if is_known => StatusCode::NOT_MODIFIED.into_response(),
        () if takes_gzip(asked) => {
            ([(CONTENT_ENCODING, "gzip"), (CONTENT_TYPE, media)], gzip.clone()).into_response()
        }
        () => ([(CONTENT_TYPE, media)], unpacked(gzip)?).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, etag);
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// 503 for what this program was built without: one sentence, for browsers as a page.
pub(super) fn missing(text: &'static str, html: &str, asked: &HeaderMap) -> Response {
    let takes_pages = values(asked, &ACCEPT).any(|value| {
        let media = value.split(';').next().unwrap_or_default();
        media.trim().eq_ignore_ascii_case("text/html")
    });
    let mut response = if takes_pages {
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>molbox</title>\n\
             <p>{html}</p></html>\n"
        );
        let media = [(CONTENT_TYPE, "text/html; charset=utf-8")];
        (StatusCode::SERVICE_UNAVAILABLE, media, page).into_response()
    } else {
        let media = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
        (StatusCode::SERVICE_UNAVAILABLE, media, text).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, nothing);
    response
}

/// `gzip, deflate;q=0.5`; a quality of zero refuses.
fn takes_gzip(asked: &HeaderMap) -> bool {
    values(asked, &ACCEPT_ENCODING).any(|value| {
        let (name, quality) = value.split_once(';').unwrap_or((value, ""));
        let quality = quality.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse);
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_ok_and(|quality: f64| quality > 0.0)
    })
}

/// What a header lists, also when it is there more than once.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lists = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}
