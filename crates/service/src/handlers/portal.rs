//! The portal's files, outside of the document like the reference: static, the same for everybody,
//! and without a key. What they show, they ask of the operations.

use std::io::Read as _;
use std::sync::Arc;

use anyhow::Result;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::read::GzEncoder;
use reqwest::Url;
use sha2::{Digest, Sha256};

use super::asset::{Asset, etag, file, missing, unpacked};
use crate::error::ApiError;
use crate::hex::hex;
use crate::http::answer::answer;

/// The portal; empty when the program was built without it.
const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/portal.rs"));
/// The file that answers every address which is none of a file.
const PAGE: &str = "index.html";
/// Below this, names contain a hash of what they name.
const HASHED: &str = "assets/";

/// What the page may load: what comes from here, and what it makes itself. To other origins it
/// sends files, where the store of objects takes them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; worker-src 'self' blob:; \
    base-uri 'self'; form-action 'self'; frame-ancestors 'none'";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// What to do when there is no portal.
pub(crate) const MISSING: &str =
    "this molboxd was built without its portal; run `cargo xtask portal` and build again";
const MISSING_PAGE: &str = "This molboxd was built without its portal; run \
    <code>cargo xtask portal</code> and build again.";

/// Whether this program has its portal.
pub(crate) fn is_built() -> bool {
    ASSETS.iter().any(|asset| asset.path == PAGE)
}

/// The portal of a service at an address.
pub(crate) struct Portal {
    assets: &'static [Asset],
    page: Option<Page>,
    policy: HeaderValue,
}

/// The page with its address in it: one build is served below any stage.
struct Page {
    gzip: Bytes,
    etag: HeaderValue,
}

impl Portal {
    /// `base_url` is where the service is reached; `is_elsewhere`, whether also at other addresses;
    /// `uploads`, where files go that it does not take itself.
    pub(crate) fn at(base_url: &str, is_elsewhere: bool, uploads: Option<&Url>) -> Result<Self> {
        let mut portal = Self::of(ASSETS, base_url, is_elsewhere)?;
        if let Some(uploads) = uploads {
            let from = format!("connect-src 'self' {};", uploads.origin().ascii_serialization());
            portal.policy = POLICY.replace("connect-src 'self';", &from).try_into()?;
        }
        Ok(portal)
    }

    fn of(assets: &'static [Asset], base_url: &str, is_elsewhere: bool) -> Result<Self> {
        let page = assets.iter().find(|asset| asset.path == PAGE);
        let page = page.map(|page| Page::at(page, base_url, is_elsewhere)).transpose()?;
        Ok(Self { assets, page, policy: HeaderValue::from_static(POLICY) })
    }

    fn answer(&self, path: &str, asked: &HeaderMap) -> Result<Response, ApiError> {
        let Some(page) = &self.page else {
            return Ok(missing(MISSING, MISSING_PAGE, asked));
        };
        if let Some(asset) = self.assets.iter().find(|asset| asset.path == path && path != PAGE) {
            let etag = etag(asset.sha256).map_err(ApiError::internal)?;
            let mut response = file(&Bytes::from_static(asset.gzip), asset.media, etag, asked)?;
            if path.starts_with(HASHED) {
                let for_good = HeaderValue::from_static("max-age=31536000, immutable");
                response.headers_mut().insert(CACHE_CONTROL, for_good);
            }
            return Ok(response);
        }
        if path.starts_with(HASHED) {
            // Of another build. The page would be no answer to who wants a script.
            return Err(ApiError::no_such_path());
        }
        let media = "text/html; charset=utf-8";
        let mut response = file(&page.gzip, media, page.etag.clone(), asked)?;
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(REFERRER_POLICY, SAME_ORIGIN);
        headers.insert(OPENER_POLICY, SAME_ORIGIN);
        Ok(response)
    }
}

impl Page {
    fn at(page: &Asset, base_url: &str, is_elsewhere: bool) -> Result<Self> {
        let address = format!("{base_url}/portal/");
        let mut head = format!("<head>\n<base href=\"{}\">", attribute(path_of(&address)));
        if !is_elsewhere {
            // The portal compares: what it uploads from another address goes to another origin.
            head += &format!("\n<link rel=\"canonical\" href=\"{}\">", attribute(&address));
        }
        let html = String::from_utf8(unpacked(page.gzip)?)?.replacen("<head>", &head, 1);
        let mut gzip = Vec::new();
        GzEncoder::new(html.as_bytes(), Compression::best()).read_to_end(&mut gzip)?;
        Ok(Self { gzip: gzip.into(), etag: etag(&hex(&Sha256::digest(&html)))? })
    }
}

/// The path of an address that begins with a scheme and a host.
fn path_of(address: &str) -> &str {
    let host = address.find("://").map_or(0, |at| at + 3);
    address[host..].find('/').map_or("/", |at| &address[host + at..])
}

/// A text in the quotes of an attribute.
fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;")
}

/// The page, at the portal's own address.
pub(crate) async fn page(State(portal): State<Arc<Portal>>, headers: HeaderMap) -> Response {
    answer(portal.answer("", &headers))
}

/// A file of the portal, or the page: which one it shows, it sees by its address.
pub(crate) async fn below(
    State(portal): State<Arc<Portal>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    answer(portal.answer(&path, &headers))
}

/// To the portal, from addresses above it. The way is relative, so that it is right also behind a
/// proxy that takes a part of the path away.
pub(crate) fn redirect(way: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, way)]).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::header::{
        ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
        X_CONTENT_TYPE_OPTIONS,
    };

    use super::*;

    fn packed(content: &str) -> &'static [u8] {
        let mut gzip = Vec::new();
        GzEncoder::new(content.as_bytes(), Compression::best()).read_to_end(&mut gzip).unwrap();
        gzip.leak()
    }

    fn portal(base_url: &str, is_elsewhere: bool) -> Portal {
        let html = "<html><head><script src=\"./assets/a-1.js\"></script></head></html>";
        let assets = vec![
            Asset {
                path: "assets/a-1.js",
                media: "text/javascript",
                sha256: "e1",
                gzip: packed("1"),
            },
            Asset { path: PAGE, media: "text/html", sha256: "e2", gzip: packed(html) },
        ];
        Portal::of(assets.leak(), base_url, is_elsewhere).unwrap()
    }

    async fn get(
        portal: &Portal,
        path: &str,
        headers: &[(HeaderName, &str)],
    ) -> (Response, String) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let mut response = portal.answer(path, &headers.collect()).unwrap();
        let body = std::mem::take(response.body_mut());
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let is_packed = response.headers().contains_key(CONTENT_ENCODING);
        let bytes = if is_packed { unpacked(&bytes).unwrap() } else { bytes.to_vec() };
        (response, String::from_utf8(bytes).unwrap())
    }

    #[tokio::test]
    async fn every_address_that_is_no_file_shows_the_page_with_its_base() {
        let portal = portal("https://md.example.org/a&b/prod", false);
        for path in ["", "job/job_1", "index.html", "no/such/page.js"] {
            let (response, html) = get(&portal, path, &[]).await;
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(response.headers()[CACHE_CONTROL], "no-cache");
            assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY);
            assert_eq!(response.headers()[OPENER_POLICY], "same-origin");
            let base = "<head>\n<base href=\"/a&amp;b/prod/portal/\">";
            assert!(html.contains(base), "{html}");
            let canonical =
                "rel=\"canonical\" href=\"https://md.example.org/a&amp;b/prod/portal/\"";
            assert!(html.contains(canonical), "{html}");
        }
    }

    #[tokio::test]
    async fn a_service_that_is_reached_at_several_addresses_names_none() {
        let (_, html) = get(&portal("http://127.0.0.1:8080/local", true), "", &[]).await;
        assert!(html.contains("<base href=\"/local/portal/\">"), "{html}");
        assert!(!html.contains("canonical"), "{html}");
    }

    #[tokio::test]
    async fn files_with_a_hash_are_kept_for_good_and_those_of_other_builds_are_not_found() {
        let portal = portal("http://127.0.0.1:8080/local", true);
        let (response, script) = get(&portal, "assets/a-1.js", &[]).await;
        assert_eq!(script, "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/javascript");
        assert_eq!(response.headers()[CACHE_CONTROL], "max-age=31536000, immutable");
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(portal.answer("assets/a-0.js", &HeaderMap::new()).unwrap_err().is_not_found());
    }

    #[tokio::test]
    async fn who_takes_gzip_gets_it_as_it_is_stored_and_others_get_the_content() {
        let portal = portal("http://127.0.0.1:8080/local", true);
        for (accepted, is_packed) in
            [("gzip", true), ("br, GZIP;q=0.5", true), ("gzip;q=0", false), ("identity", false)]
        {
            let asked = [(ACCEPT_ENCODING, accepted)];
            let (response, script) = get(&portal, "assets/a-1.js", &asked).await;
            assert_eq!(script, "1");
            assert_eq!(response.headers().contains_key(CONTENT_ENCODING), is_packed, "{accepted}");
            assert_eq!(response.headers()[VARY], "accept-encoding");
        }
    }

    #[tokio::test]
    async fn what_a_browser_has_is_not_sent_again() {
        let portal = portal("http://127.0.0.1:8080/local", true);
        for path in ["", "assets/a-1.js"] {
            let (first, _) = get(&portal, path, &[]).await;
            let etag = first.headers()[ETAG].to_str().unwrap();
            for known in [etag.to_owned(), format!("\"other\", {etag}")] {
                let (again, body) = get(&portal, path, &[(IF_NONE_MATCH, &known)]).await;
                assert_eq!((again.status(), body.as_str()), (StatusCode::NOT_MODIFIED, ""));
                assert_eq!(again.headers()[ETAG], first.headers()[ETAG]);
            }
            let (other, _) = get(&portal, path, &[(IF_NONE_MATCH, "\"other\"")]).await;
            assert_eq!(other.status(), 200);
        }
    }

    #[tokio::test]
    async fn a_program_without_a_portal_says_how_to_build_it() {
        let portal = Portal::of(&[], "http://127.0.0.1:8080/local", true).unwrap();
        for path in ["", "job/job_1", "assets/a-1.js"] {
            let (response, text) = get(&portal, path, &[]).await;
            assert_eq!(response.status(), 503);
            assert!(text.contains("cargo xtask portal"), "{text}");
            assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
            let (response, page) = get(&portal, path, &[(ACCEPT, "text/html,*/*;q=0.8")]).await;
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
            assert!(page.contains("<code>cargo xtask portal</code>"), "{page}");
        }
    }
}
