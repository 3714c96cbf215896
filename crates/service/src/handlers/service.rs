//! The service itself.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::Health;

use super::{Call, json};
use crate::app::DOCUMENT;
use crate::error::ApiError;

pub(crate) async fn service_health(call: Call) -> Result<Response, ApiError> {
    // A key that cannot be: the database answers, which is the point.
    call.app.db.key("")?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    json(&Health { status: "ok".to_owned(), version, extra: Default::default() })
}

pub(crate) async fn service_metrics(_: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_built_yet("metrics"))
}

pub(crate) async fn service_document(_: Call) -> Result<Response, ApiError> {
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT).into_response())
}
