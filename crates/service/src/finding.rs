//! What a look at the installation found, and the last look of a running service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use tokio::sync::Mutex;

/// One check: what it is about, and what was found or is wrong.
pub(crate) struct Finding {
    pub(crate) about: &'static str,
    pub(crate) result: Result<Found>,
}

/// What a check found.
pub(crate) enum Found {
    Sound(String),
    /// The service works, but with less protection than it could have.
    Weak(String),
}

/// What a running service found of itself.
pub(crate) struct Examination {
    pub(crate) at: Timestamp,
    pub(crate) findings: Vec<Finding>,
}

/// How long findings are shown before it is looked again.
const FRESH: Duration = Duration::from_secs(60);

/// The last examination of a running service, and when it began. There is one at a time, for it
/// starts workers.
#[derive(Default)]
pub(crate) struct LastExamination(Mutex<Option<(Instant, Arc<Examination>)>>);

impl LastExamination {
    /// What was found lately, or is found now by `examine`.
    pub(crate) async fn or(&self, examine: impl Future<Output = Examination>) -> Arc<Examination> {
        let mut last = self.0.lock().await;
        if let Some((_, found)) = last.as_ref().filter(|(began, _)| began.elapsed() < FRESH) {
            return found.clone();
        }
        let began = Instant::now();
        let found = Arc::new(examine.await);
        *last = Some((began, found.clone()));
        found
    }
}
