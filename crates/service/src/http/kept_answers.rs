//! How much is kept of answers that no quota counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::error::ApiError;
use crate::http::validate::IDEMPOTENCY_KEY;

/// How long an answer counts, in hours: as long as it is kept.
const WINDOW: SignedDuration = SignedDuration::from_hours(24);
/// Most bytes of answers that are kept for an account in that time though they are of nothing that it
/// has: what it has is bounded by its quotas.
const MOST_BYTES: u64 = 4 << 30;

/// Bytes of the answers of cancellations and margins that are kept, by account, and since when. Those of
/// an earlier run of the service do not count.
#[derive(Default)]
pub(crate) struct KeptAnswers(Mutex<HashMap<i64, (Timestamp, u64)>>);

impl KeptAnswers {
    /// Whether another request of an account may name a key.
    ///
    /// # Errors
    ///
    /// 429 when it has to wait for the first answers to be forgotten.
    pub(crate) fn check(&self, account: i64, now: Timestamp) -> Result<(), ApiError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&(since, bytes)) = all.get(&account) else { return Ok(()) };
        let left = WINDOW.saturating_sub(now.duration_since(since));
        if !left.is_positive() {
            all.remove(&account);
        } else if bytes >= MOST_BYTES {
            let msg = format!(
                "{bytes} bytes of answers are kept for requests with {IDEMPOTENCY_KEY} in the last 24 hours; leave it out"
            );
            return Err(ApiError::too_many(msg, left.unsigned_abs()));
        }
        Ok(())
    }

    pub(crate) fn add(&self, account: i64, bytes: usize, now: Timestamp) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(account).or_insert((now, 0)).1 += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_too_many_answers_kept_names_no_more_keys_for_a_day() {
        let (kept, hour) = (KeptAnswers::default(), SignedDuration::from_hours(1));
        let now = Timestamp::UNIX_EPOCH;
        kept.add(1, usize::try_from(MOST_BYTES).unwrap() - 1, now);
        assert!(kept.check(1, now).is_ok());
        kept.add(1, 1, now + hour);
        assert!(kept.check(1, now + hour * 23).is_err());
        assert!(kept.check(2, now).is_ok(), "each account has its own");
        assert!(kept.check(1, now + hour * 24).is_ok());
    }
}
