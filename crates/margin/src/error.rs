//! What can go wrong, by what the caller can do about it.

use std::fmt;
use std::path::PathBuf;

/// Why there is no market data.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file of market data could not be read.
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The market data contradicts itself or cannot be read. At most [`MAX_COMPLAINTS`] are listed.
    MarketData(Vec<Complaint>),
}

/// How many complaints about one input are kept: a file with a million bad rows is answered
/// within bounds.
pub const MAX_COMPLAINTS: usize = 1000;

/// Something wrong in a file of market data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, .. } => write!(f, "read market data from {}", path.display()),
            Self::MarketData(complaints) => list(f, complaints),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::MarketData(_) => None,
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (n, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if n == 0 { "" } else { "\n" })?;
    }
    Ok(())
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}
