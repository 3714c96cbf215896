//! One at a time: requests that name themselves by an `Idempotency-Key`, so that one that is repeated
//! while the first is under way waits for its answer, and looks for the streams of an account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// The account and the key.
type Name = (i64, String);

/// Who is under way.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits until none of this name is under way; the next waits until the guard is dropped.
    pub(crate) async fn take(&self, account: i64, key: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody holds or awaits those that the table alone knows.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry((account, key.to_owned())).or_default().clone()
        };
        turn.lock_owned().await
    }
}
