//! What can go wrong with a call, by what the caller can do about it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::workflow::types;
use crate::{http, unknown};

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request is not one that the document allows. Nothing was sent.
    Invalid(String),
    /// The service refused the request, or failed: it answered with an error status.
    Refused(Box<Refusal>),
    /// The service was not reached, or the connection broke, also after retries.
    Connection(reqwest::Error),
    /// The service answered something that the document does not describe.
    Unexpected {
        /// Status of the answer, when it is known.
        status: Option<StatusCode>,
        /// What was wrong with it.
        message: String,
    },
    /// The task that was waited for failed or was cancelled.
    TaskFailed(Box<TaskFailure>),
    /// The task that was waited for did not end in time. It goes on; wait for it again by its id.
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
        /// What the system said.
        source: std::io::Error,
    },
    /// A download ended early. What has arrived is kept; the same download resumes there.
    Truncated {
        /// The part that has arrived.
        path: PathBuf,
        /// Bytes of it.
        received: u64,
        /// Bytes of the whole.
        total: u64,
    },
    /// What was downloaded is not what the service sent: checksum or size differ.
    Damaged {
        /// The file that was being written; it has been removed.
        path: PathBuf,
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
    /// `failed` or `cancelled`.
    pub status: String,
    /// Why, for a failed one.
    pub failure: Option<types::Failure>,
}

impl Error {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
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

    /// Every violation that the service found; empty for other errors.
    pub fn violations(&self) -> &[types::ValidationError] {
        match self {
            Self::Refused(refusal) => &refusal.violations,
            _ => &[],
        }
    }

    /// Whether the same call may succeed later: the service was out of reach or overloaded.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Truncated { .. } => true,
            Self::Refused(refusal) => http::is_transient(refusal.status),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(message) => f.write_str(message),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Connection(source) => match source.url() {
                Some(url) => write!(f, "reach {}", url.origin().ascii_serialization()),
                None => f.write_str("reach the service"),
            },
            Self::Unexpected { status: Some(status), message } => write!(f, "unexpected answer ({status}): {message}"),
            Self::Unexpected { status: None, message } => write!(f, "unexpected answer: {message}"),
            Self::TaskFailed(task) => task.fmt(f),
            Self::TimedOut { id, after } => write!(f, "{id} has not ended after {} s", after.as_secs()),
            Self::File { path, .. } => write!(f, "use file {}", path.display()),
            Self::Truncated { path, received, total } => {
                write!(f, "{received} of {total} bytes arrived, kept in {}; try again to resume", path.display())
            }
            Self::Damaged { path, message } => {
                write!(f, "download to {}, which was removed: {message}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(source) => Some(source),
            Self::File { source, .. } => Some(source),
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

/// Reads `equilibration[1].time: Input should be greater than or equal to 0`.
impl fmt::Display for types::ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if path.is_empty() { f.write_str(&self.msg) } else { write!(f, "{path}: {}", self.msg) }
    }
}

impl types::ValidationError {
    /// Path of what was refused, `equilibration[1].time`; of anything but the body with its place
    /// in front, `header x-api-key`.
    pub fn path(&self) -> String {
        use types::LocItem::String as Name;
        let mut loc = self.loc.as_slice();
        let mut path = String::new();
        match loc {
            [Name(place), rest @ ..] if place == "body" && !rest.is_empty() => loc = rest,
            [Name(place), rest @ ..] if ["path", "query", "header"].contains(&place.as_str()) => {
                path.push_str(place);
                path.push(' ');
                loc = rest;
            }
            _ => {}
        }
        path.push_str(&unknown::path(loc));
        path
    }
}

impl From<progenitor_client::Error<types::HttpValidationError>> for Error {
    fn from(error: progenitor_client::Error<types::HttpValidationError>) -> Self {
        use progenitor_client::Error as Raw;
        match error {
            Raw::InvalidRequest(message) | Raw::Custom(message) => Self::Invalid(message),
            Raw::CommunicationError(source) | Raw::InvalidUpgrade(source) | Raw::ResponseBodyError(source) => {
                Self::Connection(source)
            }
            Raw::ErrorResponse(response) => {
                let refusal = Refusal::new(response.status(), response.headers(), response.detail.clone());
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
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, violations: Vec<types::ValidationError>) -> Self {
        let request_id = headers.get("x-request-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
        Self { status, violations, request_id, retry_after: http::retry_after(headers) }
    }
}
