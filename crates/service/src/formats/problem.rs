//! What is wrong with the content of a file.

use std::fmt;

/// Why a content is not what it is said to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Line, from 1; none when it is about the whole.
    line: Option<u64>,
    message: String,
    /// Whether it is about a limit of the service: the content may be sound.
    is_limit: bool,
}

impl Problem {
    pub(super) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line as u64), message: message.into(), is_limit: false }
    }

    pub(super) fn whole(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into(), is_limit: false }
    }

    pub(super) fn limit(message: impl Into<String>) -> Self {
        Self { is_limit: true, ..Self::whole(message) }
    }

    pub(crate) fn is_limit(&self) -> bool {
        self.is_limit
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
