//! The margin endpoint.

use axum::response::Response;

use super::Call;
use crate::error::ApiError;

pub(crate) async fn margin_submit(_: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_built_yet("the margin calculation"))
}
