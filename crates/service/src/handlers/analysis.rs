//! Analyses.

use axum::response::Response;
use molbox::workflow::types::AnalysisPage;

use super::{Call, json, page};
use crate::error::ApiError;

pub(crate) async fn analysis_submit(_: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_built_yet("analysis"))
}

pub(crate) async fn analysis_list(call: Call) -> Result<Response, ApiError> {
    // Refuses a bad token; there are no analyses before they can be submitted.
    page(&call)?;
    json(&AnalysisPage { items: Vec::new(), next_page: None })
}

pub(crate) async fn analysis_view(call: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_found("analysis", call.parameter("analysis_id")))
}

pub(crate) async fn analysis_delete(call: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_found("analysis", call.parameter("analysis_id")))
}

pub(crate) async fn analysis_cancel(call: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_found("analysis", call.parameter("analysis_id")))
}

pub(crate) async fn analysis_retrieve(_: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_built_yet("analysis"))
}
