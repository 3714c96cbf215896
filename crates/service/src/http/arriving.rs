//! Bytes of uploads that are under way, by account: in the records it holds them when all have come.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has arrived of the uploads of each account.
#[derive(Default)]
pub(crate) struct Arriving(Mutex<HashMap<i64, u64>>);

/// The part of one upload; given back when it is dropped.
pub(crate) struct Part {
    all: Arc<Arriving>,
    account: i64,
    bytes: u64,
}

impl Arriving {
    /// Nothing yet.
    pub(crate) fn part(self: &Arc<Self>, account: i64) -> Part {
        Part { all: self.clone(), account, bytes: 0 }
    }

    fn of_accounts(&self) -> MutexGuard<'_, HashMap<i64, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// Takes more.
    ///
    /// # Errors
    ///
    /// What the account's other uploads have, when with this all would have more than `most`.
    pub(crate) fn grow(&mut self, bytes: u64, most: u64) -> Result<(), u64> {
        let mut of_accounts = self.all.of_accounts();
        let taken = of_accounts.entry(self.account).or_default();
        if taken.saturating_add(bytes) > most {
            return Err(*taken - self.bytes);
        }
        *taken += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Leaves its room to the account's other uploads.
    pub(crate) fn give_back(&mut self) {
        let bytes = mem::take(&mut self.bytes);
        let mut of_accounts = self.all.of_accounts();
        let taken = of_accounts.remove(&self.account).unwrap_or_default();
        if taken > bytes {
            of_accounts.insert(self.account, taken - bytes);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_of_an_account_share_what_it_has_room_for() {
        let all = Arc::new(Arriving::default());
        let (mut first, mut second) = (all.part(1), all.part(1));
        first.grow(60, 100).unwrap();
        second.grow(40, 100).unwrap();
        assert_eq!([first.grow(1, 100), second.grow(1, 100)], [Err(40), Err(60)]);
        all.part(2).grow(100, 100).unwrap();
        drop(first);
        second.grow(60, 100).unwrap();
        drop(second);
        assert_eq!(*all.of_accounts(), HashMap::new());
    }
}
