//! Room for request bodies in memory: for all of them together, of which no account takes more than
//! half.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ApiError;

/// When a request that finds no room may come again, in seconds.
const RETRY_SECONDS: u64 = 5;

/// Bytes that are taken, by all and by each account.
pub(crate) struct Room {
    most: u64,
    taken: Mutex<(u64, HashMap<i64, u64>)>,
}

/// The part of one request; given back when it is dropped.
pub(crate) struct Share {
    room: Arc<Room>,
    account: i64,
    bytes: u64,
}

impl Room {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Nothing yet.
    pub(crate) fn share(self: &Arc<Self>, account: i64) -> Share {
        Share { room: self.clone(), account, bytes: 0 }
    }
}

impl Share {
    /// Takes more.
    ///
    /// # Errors
    ///
    /// 429 when the account has its half, 503 when others have the rest.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let bytes = bytes as u64;
        let most = self.room.most;
        let mut taken = self.room.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, of_accounts) = &mut *taken;
        let own = of_accounts.entry(self.account).or_default();
        if *own + bytes > most / 2 {
            let msg = format!(
                "requests of the account that are under way hold {own} bytes, of {} that they may",
                most / 2
            );
            return Err(ApiError::too_many(msg, std::time::Duration::from_secs(RETRY_SECONDS)));
        }
        if *all + bytes > most {
            return Err(ApiError::overloaded(
                "large requests fill the memory that there is for them",
                RETRY_SECONDS,
            ));
        }
        *own += bytes;
        *all += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.room.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, of_accounts) = &mut *taken;
        *all -= self.bytes;
        let own = of_accounts.get(&self.account).copied().unwrap_or_default();
        match own - self.bytes {
            0 => drop(of_accounts.remove(&self.account)),
            rest => drop(of_accounts.insert(self.account, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_account_takes_more_than_half_and_all_of_it_comes_back() {
        let room = Room::new(100);
        let (mut ada, mut bob, mut eve) = (room.share(1), room.share(2), room.share(3));
        ada.grow(40).unwrap();
        assert!(room.share(1).grow(11).is_err());
        bob.grow(50).unwrap();
        assert!(eve.grow(11).is_err());
        eve.grow(10).unwrap();
        drop((ada, bob, eve));
        assert_eq!(*room.taken.lock().unwrap(), (0, HashMap::new()));
        room.share(1).grow(50).unwrap();
    }
}
