//! Answers, and how they are sent.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::db::{Answer, Deletion};
use crate::error::ApiError;
use crate::http::validate::loc;

/// What went wrong inside, on its way to the log.
#[derive(Clone)]
pub(crate) struct Failure(pub(crate) Arc<anyhow::Error>);

/// The response of a handler; a failure's cause goes along for the log.
pub(crate) fn answer(result: Result<Response, ApiError>) -> Response {
    match result {
        Ok(response) => response,
        Err(mut error) => {
            let cause = error.take_cause();
            let mut response = error.into_response();
            if let Some(cause) = cause {
                response.extensions_mut().insert(Failure(Arc::new(cause)));
            }
            response
        }
    }
}

/// 200 with a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<Response, ApiError> {
    Ok(text(serde_json::to_string(value).map_err(ApiError::internal)?))
}

/// 200 with JSON.
pub(crate) fn text(json: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json).into_response()
}

/// The answer that a record is, which is JSON.
pub(crate) fn record_answer(record: String) -> Answer {
    Answer {
        headers: vec![(CONTENT_TYPE.to_string(), "application/json".to_owned())],
        body: record,
    }
}

/// 200 with an answer.
pub(crate) fn response(answer: &Answer) -> Result<Response, ApiError> {
    let mut response = Response::new(Body::from(answer.body.clone()));
    for (name, value) in &answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(ApiError::internal)?;
        let value = HeaderValue::from_str(value).map_err(ApiError::internal)?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// 204, or why something cannot be deleted.
pub(crate) fn deleted(what: &str, id: &str, result: Deletion) -> Result<Response, ApiError> {
    let msg = match result {
        Deletion::Done => return Ok(StatusCode::NO_CONTENT.into_response()),
        Deletion::NotFound => return Err(ApiError::not_found(what, id)),
        Deletion::InState(state) => format!("{id} is {state}; cancel it first"),
        Deletion::Cancelling => {
            format!("{id} is being cancelled; delete it when it has ended, in a few seconds")
        }
        Deletion::NeededBy(dependent) => format!("{dependent} needs {id}; delete that first"),
    };
    Err(ApiError::conflict(vec![loc("path"), loc(format!("{what}_id"))], msg))
}
