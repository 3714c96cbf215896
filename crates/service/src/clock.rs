//! The clock by which everything is dated and expires.
//!
//! How long something takes, how long to wait and how often it may be done is measured by
//! `std::time::Instant` where it is needed: that runs on evenly when somebody sets the machine's
//! clock, and dates nothing. What a file was last changed at is compared with what it was before,
//! not with the clock.

#[cfg(debug_assertions)]
use std::path::{Path, PathBuf};

#[cfg(debug_assertions)]
use jiff::SignedDuration;
use jiff::Timestamp;

/// The clock. Of a build for use it is the machine's; one for tests can be given another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// Holds the seconds by which it is ahead of the machine's, and is read each time.
    #[cfg(debug_assertions)]
    ahead: Option<PathBuf>,
}

impl Clock {
    /// A clock that is ahead of the machine's by the seconds that a file holds.
    #[cfg(debug_assertions)]
    pub(crate) fn ahead(file: Option<PathBuf>) -> Self {
        Self { ahead: file }
    }

    /// The present, to the microsecond: what is stored is what was shown.
    pub(crate) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        #[cfg(debug_assertions)]
        let now = now + SignedDuration::from_secs(self.ahead.as_deref().map_or(0, seconds));
        Timestamp::from_microsecond(now.as_microsecond()).expect("a moment, with fewer digits")
    }
}

#[cfg(debug_assertions)]
fn seconds(file: &Path) -> i64 {
    let text =
        std::fs::read_to_string(file).expect("whoever names a file for the clock has made it");
    text.trim().parse().expect("it holds whole seconds")
}
