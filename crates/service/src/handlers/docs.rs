//! The documentation, outside of the document like the upload links: it takes no key, and
//! everything that it needs comes from here. The interactive reference is always there; the guides
//! are when `cargo xtask docs` was run before the program was built.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};

use super::asset::{Asset, etag, file};
use super::portal::redirect;
use crate::app::App;
use crate::error::ApiError;
use crate::http::answer::answer;
use crate::http::validate::DOCUMENT;

/// The guides; empty when the program was built without them.
const SITE: &[Asset] = include!(concat!(env!("OUT_DIR"), "/docs.rs"));
/// The front page of the guides.
const INDEX: &str = "index.html";
/// The interactive reference, below `/docs/`.
const REFERENCE: &str = "api.html";
/// What pages of the guides may load: what comes from here. Tables have inline styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// The documents that clients are generated from, and the server that each names.
const WORKFLOW: (&str, &str) =
    (include_str!("../../../../openapi/openapi-workflow.json"), "\"http://127.0.0.1:8080/local\"");
const MARGIN: (&str, &str) =
    (include_str!("../../../../openapi/openapi-margin.json"), "\"http://127.0.0.1:8081\"");

pub(crate) async fn workflow_document(State(app): State<Arc<App>>) -> Response {
    served_at(WORKFLOW, &app.base_url())
}

pub(crate) async fn margin_document(State(app): State<Arc<App>>) -> Response {
    served_at(MARGIN, app.margin_base_url())
}

/// A document with the address of this service as its server.
fn served_at((document, default): (&str, &str), url: &str) -> Response {
    let text = document.replacen(default, &serde_json::Value::from(url).to_string(), 1);
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// From `/docs` to what is there; the way is relative, as that to the portal.
pub(crate) async fn entrance() -> Response {
    redirect("docs/")
}

/// To `docs/` below the stage, from what people type: the address without a stage.
pub(crate) async fn to_stage(stage: String, uri: Uri) -> Response {
    // The path as it was sent, which is good for a header; and relative, as that to the portal.
    let path = uri.path().strip_prefix("/docs").unwrap_or_default();
    let up = "../".repeat(path.matches('/').count());
    let below = if path.is_empty() { "/" } else { path };
    redirect(&format!("{up}{stage}/docs{below}"))
}

/// `/docs/`: the guides' front page, or the reference where there are no guides.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    answer(front(SITE, &headers))
}

fn front(site: &'static [Asset], asked: &HeaderMap) -> Result<Response, ApiError> {
    match page(site, INDEX, asked) {
        Some(response) => response,
        None => Ok(redirect(REFERENCE)),
    }
}

/// What is below `/docs/`.
pub(crate) async fn below(Path(path): Path<String>, headers: HeaderMap) -> Response {
    answer(at(SITE, &path, &headers))
}

fn at(site: &'static [Asset], path: &str, asked: &HeaderMap) -> Result<Response, ApiError> {
    if path == REFERENCE {
        return Ok(reference());
    }
    if path == "api" {
        return Ok(redirect(REFERENCE));
    }
    if let Some(script) = script(path) {
        // The program may be replaced by a newer one: a while, not for good.
        let headers = [(CONTENT_TYPE, "text/javascript"), (CACHE_CONTROL, "max-age=3600")];
        return Ok((headers, script).into_response());
    }
    if let Some(response) = page(site, path, asked) {
        return response;
    }
    // A folder of pages, from an address that was shortened by hand.
    let index = |folder: &str| page(site, &format!("{folder}/{INDEX}"), asked);
    match path.strip_suffix('/') {
        Some(folder) => index(folder).unwrap_or_else(|| Err(ApiError::no_such_path())),
        None if index(path).is_some() => {
            let name = path.rsplit('/').next().unwrap_or(path);
            Ok(redirect(&format!("{name}/")))
        }
        None => Err(ApiError::no_such_path()),
    }
}

/// A script of the reference, by its path below `/docs/`.
fn script(path: &str) -> Option<Cow<'static, str>> {
    Some(match path {
        // The document is in the program once.
        "openapi.js" => Cow::Owned(format!("window.openapi = {DOCUMENT};\n")),
        "reference.js" => Cow::Borrowed(include_str!("../../../../docs/site/reference.js")),
        "redoc.standalone.js" => {
            Cow::Borrowed(include_str!("../../../../docs/site/redoc.standalone.js"))
        }
        _ => return None,
    })
}

/// A file of the guides; none if there is none of this path.
fn page(
    site: &'static [Asset],
    path: &str,
    asked: &HeaderMap,
) -> Option<Result<Response, ApiError>> {
    let asset = site.iter().find(|asset| asset.path == path)?;
    let response = etag(asset.sha256)
        .map_err(ApiError::internal)
        .and_then(|etag| file(&Bytes::from_static(asset.gzip), asset.media, etag, asked));
    Some(response.map(|mut response| {
        if asset.media.starts_with("text/html") {
            let policy = HeaderValue::from_static(POLICY);
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        }
        response
    }))
}

fn reference() -> Response {
    let html = include_str!("../../../../docs/site/reference.html");
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::http::StatusCode;
    use axum::http::header::LOCATION;
    use flate2::Compression;
    use flate2::read::GzEncoder;

    use super::*;

    fn site() -> &'static [Asset] {
        let mut gzip = Vec::new();
        GzEncoder::new(&b"<h1>molbox</h1>"[..], Compression::fast())
            .read_to_end(&mut gzip)
            .unwrap();
        let gzip: &'static [u8] = gzip.leak();
        let html = "text/html; charset=utf-8";
        let assets = vec![
            Asset { path: INDEX, media: html, sha256: "e1", gzip },
            Asset { path: "guides/install.html", media: html, sha256: "e2", gzip },
            Asset { path: "reference/api/index.html", media: html, sha256: "e4", gzip },
            Asset { path: "assets/a.js", media: "text/javascript", sha256: "e3", gzip },
        ];
        assets.leak()
    }

    #[test]
    fn pages_of_the_guides_load_nothing_from_elsewhere_and_run_no_script_of_their_own_text() {
        let nothing = HeaderMap::new();
        for response in
            [front(site(), &nothing).unwrap(), at(site(), "guides/install.html", &nothing).unwrap()]
        {
            assert_eq!(response.status(), 200);
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.contains("default-src 'none'; script-src 'self';"), "{policy}");
        }
        let script = at(site(), "assets/a.js", &nothing).unwrap();
        assert_eq!(script.headers()[CONTENT_TYPE], "text/javascript");
        assert!(at(site(), "guides/none.html", &nothing).unwrap_err().is_not_found());
    }

    #[test]
    fn a_folder_of_pages_is_its_index_with_and_without_the_last_slash() {
        let nothing = HeaderMap::new();
        assert_eq!(at(site(), "reference/api/", &nothing).unwrap().status(), 200);
        let without = at(site(), "reference/api", &nothing).unwrap();
        // Relative, for the links of the page are; a proxy may have put a path before all.
        assert_eq!(without.headers()[LOCATION], "api/");
        for none in ["reference/", "reference", "assets/", "/", ""] {
            assert!(at(site(), none, &nothing).unwrap_err().is_not_found(), "{none:?}");
        }
    }

    #[test]
    fn without_guides_the_front_page_is_the_reference() {
        let response = front(&[], &HeaderMap::new()).unwrap();
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(response.headers()[LOCATION], REFERENCE);
        let reference = at(&[], REFERENCE, &HeaderMap::new()).unwrap();
        assert_eq!(reference.status(), 200);
        assert!(at(&[], "index.html", &HeaderMap::new()).unwrap_err().is_not_found());
    }

    #[tokio::test]
    async fn the_documentation_is_found_without_the_stage() {
        for (from, way) in [
            ("/docs", "local/docs/"),
            ("/docs/", "../local/docs/"),
            ("/docs/api.html", "../local/docs/api.html"),
            ("/docs/guides/a%20b.html", "../../local/docs/guides/a%20b.html"),
        ] {
            let response = to_stage("local".to_owned(), from.parse().unwrap()).await;
            assert_eq!(response.headers()[LOCATION], way, "{from}");
        }
    }
}
