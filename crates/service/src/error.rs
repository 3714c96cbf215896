//! Errors of requests: the one place where an error becomes a status.

use std::fmt::Display;
use std::mem;

use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::{HttpValidationError, LocItem, ValidationError};
use serde::de::DeserializeOwned;

use crate::db::{self, OverHours, OverQuota};
use crate::folder::failure::storage_failure;
use crate::http::validate::{joined, loc, violation};
use crate::shown::in_bytes;

/// Type of a violation: something that a request names is not there.
pub(crate) const NOT_FOUND: &str = "not_found";
/// Type of a violation: something is not in the state that the request needs.
const CONFLICT: &str = "conflict";

/// 409 for something that is not in the state that a request needs.
pub(crate) fn not_ready(at: Vec<LocItem>, id: &str, status: impl Display, needs: &str) -> ApiError {
    ApiError::conflict(at, format!("{id} is {status}; {needs}"))
}

/// A stored JSON text as its wire type.
pub(crate) fn stored<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(unreadable)
}

pub(crate) fn unreadable(error: serde_json::Error) -> ApiError {
    ApiError::internal(anyhow::Error::new(error).context("a stored record"))
}

/// An answer that refuses a request, or says that the service failed.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    detail: Vec<ValidationError>,
    retry_after: Option<u64>,
    content_range: Option<String>,
    /// Logged where the error is answered, and not shown.
    cause: Option<anyhow::Error>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &str, loc: Vec<LocItem>, msg: impl Into<String>) -> Self {
        Self {
            status,
            detail: vec![violation(kind, loc, msg)],
            retry_after: None,
            content_range: None,
            cause: None,
        }
    }

    /// Everything that a request breaks of the document, or of what the service can do.
    pub(crate) fn invalid(detail: Vec<ValidationError>) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            detail,
            retry_after: None,
            content_range: None,
            cause: None,
        }
    }

    /// Everything that is wrong with a request whose references have been looked up: 404 when all
    /// of it is that something is not there, 409 when it is the state of something, else 422.
    pub(crate) fn unresolved(detail: Vec<ValidationError>) -> Self {
        let all_are = |kind: &str| detail.iter().all(|violation| violation.type_ == kind);
        let status = match () {
            () if all_are(NOT_FOUND) => StatusCode::NOT_FOUND,
            () if all_are(CONFLICT) => StatusCode::CONFLICT,
            () => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self { status, ..Self::invalid(detail) }
    }

    /// Adds what a refusal says of other places to what is known; a failure of the service comes
    /// back.
    pub(crate) fn add_to(self, violations: &mut Vec<ValidationError>) -> Result<(), Self> {
        if self.status.is_server_error() {
            return Err(self);
        }
        *violations = joined(mem::take(violations), self.detail);
        Ok(())
    }

    /// One thing that a request body breaks, at `path` below the body.
    pub(crate) fn invalid_body(kind: &str, path: Vec<LocItem>, msg: impl Into<String>) -> Self {
        let at = std::iter::once(loc("body")).chain(path).collect();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, at, msg)
    }

    /// The body is not UTF-8, too deep, or has numbers of too many digits.
    pub(crate) fn unreadable_body() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "json_invalid",
            vec![loc("body")],
            "There was an error parsing the body",
        )
    }

    pub(crate) fn unauthorized(msg: &str) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            vec![loc("header"), loc("x-api-key")],
            msg,
        )
    }

    /// A right key of an account that is disabled: only who has all of the key learns that.
    pub(crate) fn account_disabled() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "account_disabled",
            vec![loc("header"), loc("x-api-key")],
            "the account of this API key is disabled; ask whoever runs the service to enable it",
        )
    }

    /// A name, a password or an invitation that does not let anybody in.
    pub(crate) fn not_signed_in(field: &str, msg: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", vec![loc("body"), loc(field)], msg)
    }

    /// A session that is none.
    pub(crate) fn session_over() -> Self {
        let at = vec![loc("cookie"), loc("molbox_session")];
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", at, "the session has ended; sign in")
    }

    /// Something that this way in does not allow.
    pub(crate) fn forbidden(at: Vec<LocItem>, msg: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", at, msg)
    }

    /// A request with a session that does not come from a page of the service.
    pub(crate) fn cross_origin(msg: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "cross_origin", vec![loc("header"), loc("origin")], msg)
    }

    /// `what` is `job`, `file` and so on; the same for one that does not exist and one of another
    /// account.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::no_such_task(what, id, "")
    }

    /// The same of a task, with why one that somebody knows may be gone.
    pub(crate) fn no_such_task(what: &str, id: &str, gone: &str) -> Self {
        let at = vec![loc("path"), loc(format!("{what}_id"))];
        Self::new(StatusCode::NOT_FOUND, NOT_FOUND, at, format!("no {what} {id}{gone}"))
    }

    /// An account that the path names.
    pub(crate) fn no_such_account(name: &str) -> Self {
        let at = vec![loc("path"), loc("account")];
        Self::new(StatusCode::NOT_FOUND, NOT_FOUND, at, format!("no account {name:?}"))
    }

    /// Something that a body refers to.
    pub(crate) fn not_found_in_body(field: &str, msg: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, NOT_FOUND, vec![loc("body"), loc(field)], msg)
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, NOT_FOUND, vec![loc("path")], "Not Found")
    }

    pub(crate) fn no_such_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            vec![loc("method")],
            "Method Not Allowed",
        )
    }

    pub(crate) fn conflict(at: Vec<LocItem>, msg: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, CONFLICT, at, msg)
    }

    pub(crate) fn too_large(max_bytes: u64) -> Self {
        let msg = format!("the body is larger than {max_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", vec![loc("body")], msg)
    }

    pub(crate) fn too_many_values(max_values: usize) -> Self {
        let msg = format!("the body has more than {max_values} values");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", vec![loc("body")], msg)
    }

    /// A compressed body that grows beyond measure.
    pub(crate) fn too_compressed(ratio: u64) -> Self {
        let msg = format!("the body is compressed more than {ratio} times; send it as it is");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", vec![loc("body")], msg)
    }

    pub(crate) fn unsupported_media(msg: impl Into<String>) -> Self {
        let at = vec![loc("header"), loc("content-type")];
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", at, msg)
    }

    pub(crate) fn range_not_satisfiable(size: u64) -> Self {
        let msg = format!("the content has {size} bytes");
        let mut error = Self::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "range",
            vec![loc("header"), loc("range")],
            msg,
        );
        error.content_range = Some(format!("bytes */{size}"));
        error
    }

    /// A key, or an account, that asks for more than its share.
    pub(crate) fn too_many(msg: impl Into<String>, retry_after: std::time::Duration) -> Self {
        let at = vec![loc("header"), loc("x-api-key")];
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", at, msg);
        error.retry_after = Some(retry_after.as_secs_f64().ceil().max(1.0) as u64);
        error
    }

    /// Passwords or invitations that are tried one after another.
    pub(crate) fn too_many_tries(msg: String, retry_after: std::time::Duration) -> Self {
        let detail = vec![violation("rate_limited", vec![loc("body")], msg.clone())];
        Self { detail, ..Self::too_many(msg, retry_after) }
    }

    /// A request that would have its account hold more than it may.
    pub(crate) fn over_quota(over: OverQuota) -> Self {
        Self::content_over_quota(vec![loc("header"), loc("x-api-key")], over, 0)
    }

    /// The same for what is sent with a link instead of a key, beside so many bytes of other uploads that are
    /// under way.
    pub(crate) fn content_over_quota(at: Vec<LocItem>, over: OverQuota, others: u64) -> Self {
        let held = in_bytes(over.held.into());
        let max = in_bytes(over.max.into());
        let beside = match others {
            0 => String::new(),
            others => {
                format!(" beside the {} of its other uploads under way", in_bytes(others.into()))
            }
        };
        let msg = format!(
            "the account holds {held} of the {max} that it may (limits.account_bytes, or a limit of its own), what its open jobs may \
             come to write included, and this has no room{beside}; delete files, systems, jobs or analyses that it does not need, or \
             ask the operator for more"
        );
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "quota", at, msg)
    }

    /// A request that would run more of an account that was served as long as it may be.
    pub(crate) fn over_hours(over: OverHours) -> Self {
        let OverHours { ms, most_hours, days, until } = over;
        let msg = format!(
            "the tasks of the account had slots for {:.1} h in the last {days} days, and it may have {most_hours} h \
             (limits.account_hours, or a limit of its own); it has room again from {until}, or ask the operator for more \
             (`molboxd account limit NAME --hours N`)",
            ms as f64 / 3.6e6
        );
        let at = vec![loc("header"), loc("x-api-key")];
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "hours", at, msg)
    }

    /// A temporary link that is not, or no longer, good.
    pub(crate) fn link_refused(msg: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "link_refused", vec![loc("query")], msg)
    }

    /// A body that arrives too slowly to be waited for.
    pub(crate) fn too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            vec![loc("body")],
            "the body came too slowly, or not at all",
        )
    }

    /// The service has more to do than it can at present.
    pub(crate) fn overloaded(msg: &str, retry_after_seconds: u64) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", Vec::new(), msg);
        error.retry_after = Some(retry_after_seconds);
        error
    }

    /// The service cannot at present, for a reason that passes.
    pub(crate) fn unavailable(msg: &str, cause: anyhow::Error) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", Vec::new(), msg);
        error.retry_after = Some(30);
        error.cause = Some(cause);
        error
    }

    /// The service cannot before its operator has done something, which nobody waits for.
    pub(crate) fn unavailable_as_set_up(msg: &str, cause: anyhow::Error) -> Self {
        let mut error = Self::unavailable(msg, cause);
        error.retry_after = Some(3600);
        error
    }

    pub(crate) fn internal(cause: impl Into<anyhow::Error>) -> Self {
        let mut error =
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", Vec::new(), "internal error");
        error.cause = Some(cause.into());
        error
    }

    /// Whether the thing asked for is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// What went wrong inside, to be logged.
    pub(crate) fn take_cause(&mut self) -> Option<anyhow::Error> {
        self.cause.take()
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(cause: anyhow::Error) -> Self {
        match storage_failure(&cause) {
            Some(what) => Self::unavailable(what, cause),
            None => Self::internal(cause),
        }
    }
}

impl From<db::Error> for ApiError {
    fn from(cause: db::Error) -> Self {
        anyhow::Error::new(cause).into()
    }
}

impl From<std::io::Error> for ApiError {
    fn from(cause: std::io::Error) -> Self {
        anyhow::Error::new(cause).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = HttpValidationError { detail: self.detail, extra: serde_json::Map::new() };
        let body = serde_json::to_vec(&body).expect("strings and numbers");
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(range) = self.content_range {
            headers.insert(
                CONTENT_RANGE,
                HeaderValue::try_from(range).expect("`bytes */` and digits"),
            );
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert("www-authenticate", HeaderValue::from_static("APIKey"));
        }
        response
    }
}
