//! Places for work that takes a CPU and memory for long, handed out fairly between accounts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::config::cores;

/// So many run at a time. An account that has none running does not wait for those that others fill
/// with theirs: it gets one beyond, of which there are as many again. Of those that wait, the
/// account with the fewest running is next.
pub(crate) struct Slots {
    count: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Accounts that have some running, and how many.
    of_account: HashMap<i64, usize>,
    /// In the order in which they came.
    waiting: Vec<(i64, oneshot::Sender<Slot>)>,
}

/// A place; given back when it is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    account: i64,
}

impl State {
    fn of(&self, account: i64) -> usize {
        self.of_account.get(&account).copied().unwrap_or_default()
    }

    fn has_room(&self, account: i64, count: usize) -> bool {
        self.running < count || (self.running < 2 * count && self.of(account) == 0)
    }

    fn start(&mut self, account: i64) {
        self.running += 1;
        *self.of_account.entry(account).or_default() += 1;
    }

    fn end(&mut self, account: i64) {
        self.running -= 1;
        match self.of(account) {
            1 => drop(self.of_account.remove(&account)),
            n => drop(self.of_account.insert(account, n - 1)),
        }
    }

    /// Starts those that wait and have room.
    fn start_waiting(&mut self, count: usize) -> Vec<(i64, oneshot::Sender<Slot>)> {
        self.waiting.retain(|(_, waiting)| !waiting.is_closed());
        let mut started = Vec::new();
        loop {
            let with_room =
                (0..self.waiting.len()).filter(|n| self.has_room(self.waiting[*n].0, count));
            let Some(next) = with_room.min_by_key(|n| self.of(self.waiting[*n].0)) else {
                return started;
            };
            let next = self.waiting.remove(next);
            self.start(next.0);
            started.push(next);
        }
    }
}

impl Slots {
    /// So many places; 0 for one per CPU.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let count = if count == 0 { cores() } else { count };
        Arc::new(Self { count, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for an account; none when none came free in time.
    pub(crate) async fn take(self: &Arc<Self>, account: i64, timeout: Duration) -> Option<Slot> {
        let turn = {
            let mut state = self.state();
            if state.has_room(account, self.count) {
                state.start(account);
                return Some(Slot { slots: self.clone(), account });
            }
            let (sender, turn) = oneshot::channel();
            state.waiting.push((account, sender));
            turn
        };
        tokio::time::timeout(timeout, turn).await.ok()?.ok()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let started = {
            let mut state = self.slots.state();
            state.end(self.account);
            state.start_waiting(self.slots.count)
        };
        for (account, waiting) in started {
            // Dropped here, and so given to the next, when nobody waits for it any more.
            drop(waiting.send(Self { slots: self.slots.clone(), account }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn an_account_that_has_none_running_does_not_wait_for_others() {
        let slots = Slots::new(2);
        let (_a, _b) = (slots.take(1, LONG).await.unwrap(), slots.take(1, LONG).await.unwrap());
        assert!(slots.take(1, Duration::ZERO).await.is_none());
        let _c = slots.take(2, Duration::ZERO).await.unwrap();
        let _d = slots.take(3, Duration::ZERO).await.unwrap();
        assert!(slots.take(4, Duration::ZERO).await.is_none(), "twice as many is all");
    }

    #[tokio::test]
    async fn the_account_with_the_fewest_running_is_next() {
        let slots = Slots::new(2);
        let a = slots.take(1, LONG).await.unwrap();
        let _b = slots.take(1, LONG).await.unwrap();
        let _c = slots.take(2, LONG).await.unwrap();
        let next = |account| {
            let slots = slots.clone();
            tokio::spawn(async move { slots.take(account, LONG).await.map(drop) })
        };
        let (first, second) = (next(1), next(2));
        while slots.state().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        // One of the first account ends: its next would be its second, as that of the other
        // account.
        drop(a);
        assert!(slots.state().waiting.len() == 2, "three run, and both accounts have one");
        drop(_b);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_place_that_nobody_waits_for_any_more_goes_to_the_next() {
        let slots = Slots::new(1);
        let a = slots.take(1, LONG).await.unwrap();
        assert!(slots.take(1, Duration::ZERO).await.is_none());
        drop(a);
        assert!(slots.take(1, Duration::ZERO).await.is_some());
        assert_eq!(slots.state().running, 0);
    }
}
