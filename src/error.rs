//! What can go wrong with a call, by what the caller can do about it.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::InvalidRequest;
use crate::workflow::types;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request is not one that the document allows, or cannot be made. Nothing was sent.
    Invalid(InvalidRequest),
    /// The service refused the request, or failed: it answered with an error status.
    Refused(Box<Refusal>),
    /// The service was not reached, or the connection broke, also after retries.
    Connection(reqwest::Error),
    /// Nothing of an upload was taken for the idle timeout, also after retries.
    Stalled {
        /// The idle timeout.
        after: Duration,
    },
    /// The service answered something that the document does not describe.
    Unexpected {
        /// Status of the answer, when it is known.
        status: Option<StatusCode>,
        /// What was wrong with it.
        message: String,
    },
    /// The task that was waited for failed or was cancelled.
    TaskFailed(Box<TaskFailure>),
    /// The task that was waited for did not end in time. It still runs; wait for it again by its
    /// id.
    TimedOut {
        /// Identifier of the task.
        id: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// A file of this machine could not be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A download ended early. What has arrived in a file is kept; the same download resumes there.
    Truncated {
        /// The part that has arrived; none when it was written to a writer.
        path: Option<PathBuf>,
        /// Bytes of it.
        received: u64,
        /// Bytes of the whole.
        total: u64,
    },
    /// The writer that a download goes to could not write it.
    Write(std::io::Error),
    /// What was downloaded is not what the service sent: checksum or size differ.
    Damaged {
        /// The file that was being written, and has been removed; none when it was written to a
        /// writer.
        path: Option<PathBuf>,
        /// SHA-256 or size as promised and as received.
        message: String,
    },
}

/// An answer with an error status.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Status of the answer.
    pub status: StatusCode,
    /// Everything that was wrong. When the body was not what the document says, one entry with
    /// its text and the type `unexpected_body`.
    pub violations: Vec<types::ValidationError>,
    /// Identifier of the request in the service's logs.
    pub request_id: Option<String>,
    /// When the service would take the request again.
    pub retry_after: Option<Duration>,
}

/// A task that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFailure {
    /// Identifier of the system, job or analysis.
    pub id: String,
    /// `failed`, `cancelled`, or what a later service has besides.
    pub status: String,
    /// Why, for a failed one.
    pub failure: Option<types::Failure>,
}

impl Error {
    pub(crate) fn invalid(message: impl fmt::Display) -> Self {
        Self::Invalid(InvalidRequest::new(INVALID, message))
    }

    pub(crate) fn argument(name: &str, message: impl fmt::Display) -> Self {
        Self::Invalid(InvalidRequest::new(INVALID, message).within(name))
    }

    pub(crate) fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }

    /// Status of the answer, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Unexpected { status, .. } => *status,
            Self::Connection(source) => source.status(),
            _ => None,
        }
    }

    /// Identifier of the request in the service's logs, if the service answered.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.request_id.as_deref(),
            _ => None,
        }
    }

    /// Everything that is wrong with the request, as the client or the service found it; empty for
    /// other errors.
    pub fn violations(&self) -> &[types::ValidationError] {
        match self {
            Self::Invalid(invalid) => &invalid.violations,
            Self::Refused(refusal) => &refusal.violations,
            _ => &[],
        }
    }

    /// Whether the same call may succeed later: the service was out of reach or overloaded.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Stalled { .. } | Self::Truncated { .. } => true,
            Self::Refused(refusal) => is_transient(refusal.status),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Connection(source) => match source.url() {
                Some(url) => write!(f, "reach {}", url.origin().ascii_serialization()),
                None => f.write_str("reach the service"),
            },
            Self::Stalled { after } => {
                write!(f, "nothing of the upload was taken for {} s", after.as_secs())
            }
            Self::Unexpected { status: Some(status), message } => {
                write!(f, "unexpected answer ({status}): {message}")
            }
            Self::Unexpected { status: None, message } => write!(f, "unexpected answer: {message}"),
            Self::TaskFailed(task) => task.fmt(f),
            Self::TimedOut { id, after } => {
                write!(f, "{id} has not ended after {} s", after.as_secs())
            }
            Self::File { path, .. } => write!(f, "use file {}", path.display()),
            Self::Write(_) => f.write_str("write what is downloaded"),
            Self::Truncated { path: Some(path), received, total } => {
                write!(
                    f,
                    "{received} of {total} bytes arrived, kept in {}; try again to resume",
                    path.display()
                )
            }
            Self::Truncated { path: None, received, total } => {
                write!(f, "{received} of {total} bytes arrived")
            }
            Self::Damaged { path: Some(path), message } => {
                write!(f, "download to {}, which was removed: {message}", path.display())
            }
            Self::Damaged { path: None, message } => write!(f, "download: {message}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(source) => Some(source),
            Self::File { source, .. } | Self::Write(source) => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for (index, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if index == 0 { ": " } else { "; " })?;
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.status)?;
        if let Some(failure) = &self.failure {
            write!(f, ": {}", failure.message)?;
            if let Some(remedy) = &failure.remedy {
                write!(f, " ({remedy})")?;
            }
        }
        Ok(())
    }
}

/// Kind of what no rule of the document has a kind for.
const INVALID: &str = "value_error";

/// A refusal on its way through the generated code, whose error has room for a text: its violations
/// as JSON, read again below.
pub(crate) fn refused<E>(invalid: InvalidRequest) -> progenitor_client::Error<E> {
    progenitor_client::Error::InvalidRequest(
        serde_json::to_string(&invalid.violations).expect("texts and numbers"),
    )
}

impl From<InvalidRequest> for Error {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<progenitor_client::Error<types::HttpValidationError>> for Error {
    fn from(error: progenitor_client::Error<types::HttpValidationError>) -> Self {
        use progenitor_client::Error as Raw;
        match error {
            Raw::InvalidRequest(text) | Raw::Custom(text) => match serde_json::from_str(&text) {
                Ok(violations) => Self::Invalid(InvalidRequest { violations }),
                Err(_) => Self::invalid(text),
            },
            Raw::CommunicationError(source)
            | Raw::InvalidUpgrade(source)
            | Raw::ResponseBodyError(source) => Self::Connection(source),
            Raw::ErrorResponse(response) => {
                let refusal =
                    Refusal::new(response.status(), response.headers(), response.detail.clone());
                Self::Refused(Box::new(refusal))
            }
            Raw::InvalidResponsePayload(bytes, source) => {
                let text: String = String::from_utf8_lossy(&bytes).chars().take(200).collect();
                Self::Unexpected { status: None, message: format!("{source}, in {text:?}") }
            }
            // An error status has been read by the hook that ran the request.
            Raw::UnexpectedResponse(response) => match response.extensions().get::<Refusal>() {
                Some(refusal) => Self::Refused(Box::new(refusal.clone())),
                None => Self::Unexpected {
                    status: Some(response.status()),
                    message: "a status that the document does not have".to_owned(),
                },
            },
        }
    }
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        headers: &HeaderMap,
        violations: Vec<types::ValidationError>,
    ) -> Self {
        let request_id =
            headers.get("x-request-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
        Self { status, violations, request_id, retry_after: retry_after(headers) }
    }
}

pub(crate) fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// What `retry-after` asks for, in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
}
