//! What can go wrong, by what the caller can do about it.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Why there is no market data, no request or no margin.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file of market data could not be read.
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The market data contradicts itself or cannot be read. At most [`MAX_LISTED`] are listed.
    MarketData(Vec<FileError>),
    /// The request is not one that can be calculated. At most [`MAX_LISTED`] are listed.
    Refused(Vec<Violation>),
    /// The caller asked to stop.
    Cancelled,
}

/// How many errors about one input are kept: a file with a million bad rows is answered
/// within bounds.
pub const MAX_LISTED: usize = 1000;

/// Something wrong in a file of market data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
}

/// Something wrong in a request, as the answer with status 422 has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Where: `["body", "portfolio", "futures", 0, "ticker"]`.
    pub loc: Vec<Loc>,
    /// What is wrong, for people.
    pub msg: String,
    /// What is wrong, for programs: `value_error.missing`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

/// One step of the way to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Loc {
    /// Name of a field.
    Field(&'static str),
    /// Index in a list, from 0.
    Index(usize),
}

impl From<&'static str> for Loc {
    fn from(name: &'static str) -> Self {
        Self::Field(name)
    }
}

impl From<usize> for Loc {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, .. } => write!(f, "read market data from {}", path.display()),
            Self::MarketData(errors) => list(f, errors),
            Self::Refused(violations) => list(f, violations),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::MarketData(_) | Self::Refused(_) | Self::Cancelled => None,
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (n, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if n == 0 { "" } else { "\n" })?;
    }
    Ok(())
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.loc.iter().enumerate() {
            match step {
                Loc::Field(name) => write!(f, "{}{name}", if n == 0 { "" } else { "." })?,
                Loc::Index(index) => write!(f, "[{index}]")?,
            }
        }
        write!(f, ": {}", self.msg)
    }
}
