//! How many requests a key may make, and how many with wrong keys an address.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bucket of tokens for each key: it fills evenly, a request takes one, a full one allows a
/// burst.
#[derive(Default)]
pub(crate) struct Rates(Mutex<HashMap<String, Bucket>>);

struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Buckets are looked through for full ones when there are this many.
const MANY: usize = 10_000;

impl Rates {
    /// Takes a token of this key, or tells how long to wait for one.
    pub(crate) fn take(&self, key: &str, per_minute: u32, now: Instant) -> Result<(), Duration> {
        if per_minute == 0 {
            return Ok(());
        }
        let size = f64::from(per_minute);
        let per_second = f64::from(per_minute) / 60.0;
        let level = |bucket: &Bucket| {
            let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
            (bucket.tokens + since * per_second).min(size)
        };
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > MANY {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| level(bucket) < size);
        }
        let tokens = buckets.get(key).map_or(size, level);
        let is_taken = tokens >= 1.0;
        let left = if is_taken { tokens - 1.0 } else { tokens };
        buckets.insert(key.to_owned(), Bucket { tokens: left, filled: now });
        if is_taken { Ok(()) } else { Err(Duration::from_secs_f64((1.0 - tokens) / per_second)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_make_its_burst_and_then_as_many_as_flow_in() {
        let (rates, start) = (Rates::default(), Instant::now());
        for _ in 0..60 {
            assert_eq!(rates.take("a", 60, start), Ok(()));
        }
        assert_eq!(rates.take("a", 60, start), Err(Duration::from_secs(1)));
        assert_eq!(rates.take("b", 60, start), Ok(()), "each key has its own");
        assert_eq!(rates.take("a", 60, start + Duration::from_secs(1)), Ok(()));
        assert!(rates.take("a", 60, start + Duration::from_secs(1)).is_err());
        for _ in 0..60 {
            assert_eq!(rates.take("a", 60, start + Duration::from_secs(3600)), Ok(()));
        }
        assert!(
            rates.take("a", 60, start + Duration::from_secs(3600)).is_err(),
            "it fills up to its size only"
        );
        assert_eq!(rates.take("a", 0, start), Ok(()));
    }
}
