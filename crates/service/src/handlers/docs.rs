//! The reference as a page, outside of the document like the upload links: it takes no key, and
//! everything that it needs comes from here.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::error::ApiError;

/// The document as the page reads it.
const DOCUMENT: &str =
    concat!("window.openapi = ", include_str!("../../../../openapi/openapi.json"), ";\n");

/// A file of the page: its path below `/docs`, its media type, its content.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("openapi.js", "text/javascript", DOCUMENT.as_bytes()),
    ("reference.js", "text/javascript", include_bytes!("../../../../docs/site/reference.js")),
    (
        "redoc.standalone.js",
        "text/javascript",
        include_bytes!("../../../../docs/site/redoc.standalone.js"),
    ),
];

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

pub(crate) async fn page() -> Response {
    (
        [(CONTENT_TYPE, "text/html; charset=utf-8")],
        include_str!("../../../../docs/site/reference.html"),
    )
        .into_response()
}

pub(crate) async fn file(axum::extract::Path(name): axum::extract::Path<String>) -> Response {
    match FILES.iter().find(|(file, ..)| *file == name) {
        // The program may be replaced by a newer one: a while, not for good.
        Some((_, media, bytes)) => {
            ([(CONTENT_TYPE, *media), (CACHE_CONTROL, "max-age=3600")], *bytes).into_response()
        }
        None => ApiError::no_such_path().into_response(),
    }
}
