//! Why a database did not do what it was asked for, in words of any database.

use std::fmt;
use std::sync::Arc;

use crate::folder::Displaced;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// What the database itself reports.
pub(crate) type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// A failure, by what can be done about it. Of a transaction that several writes were in, each has
/// it.
#[derive(Clone, Debug)]
pub(crate) enum Error {
    /// There is no room for what was to be written.
    Full(Cause),
    /// Another program holds the database.
    Busy(Cause),
    /// The database's server has no connection left for this program.
    Crowded(Cause),
    /// What is stored is damaged.
    Damaged(Cause),
    /// It cannot be opened, or not be written.
    ReadOnly(Cause),
    /// What it is stored on fails.
    Io(Cause),
    /// The database's server does not answer.
    Unreachable(Cause),
    /// A server answers that is not believed to be the one that is meant.
    Untrusted(Cause),
    /// The machine has no memory left.
    NoMemory(Cause),
    /// It took longer than it was given.
    Interrupted(Cause),
    /// Another server runs the tasks by now: nothing was written.
    Superseded(Cause),
    /// It is not where it was when the service began: nothing was written.
    Displaced(Displaced),
    /// A mistake of this program, or in what is stored.
    Other(Cause),
}

impl Error {
    pub(super) fn other(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(Arc::from(cause.into()))
    }

    fn cause(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Self::Full(cause)
            | Self::Busy(cause)
            | Self::Crowded(cause)
            | Self::Damaged(cause)
            | Self::ReadOnly(cause)
            | Self::Io(cause)
            | Self::Unreachable(cause)
            | Self::Untrusted(cause)
            | Self::NoMemory(cause)
            | Self::Interrupted(cause)
            | Self::Superseded(cause)
            | Self::Other(cause) => &**cause,
            Self::Displaced(displaced) => displaced,
        }
    }
}

/// As the database reports it, which names the database or the disk by itself.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.cause(), f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().source()
    }
}
