//! What is wrong with the content of a file.

use std::fmt;

/// Why a content is not what it is said to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Line, from 1; none when it is about the whole.
    line: Option<u64>,
    message: String,
}

impl Problem {
    pub(super) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line as u64), message: message.into() }
    }

    pub(super) fn whole(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
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
