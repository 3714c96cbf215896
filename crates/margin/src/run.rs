//! How a calculation is run: on how many threads, and until when.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::error::Error;

/// Means of a calculation. Nothing here changes its result.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// Threads that work on it, the calling one included; 0 is the same as 1.
    pub threads: usize,
    /// Set to stop soon, within some milliseconds, with [`Error::Cancelled`].
    pub cancel: &'r AtomicBool,
}

impl Default for Run<'_> {
    /// The calling thread alone, to the end.
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { threads: 1, cancel: &NEVER }
    }
}

impl Run<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Does `work` on every item, each on any of the threads.
    pub(crate) fn spread<T>(
        &self,
        items: impl Iterator<Item = T> + Send,
        work: impl Fn(T) + Sync,
    ) -> Result<(), Error> {
        let items = Mutex::new(items);
        let worker = || {
            while !self.is_cancelled() {
                let item = items.lock().expect("no thread panics while it takes an item").next();
                match item {
                    Some(item) => work(item),
                    None => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(worker);
            }
            worker();
        });
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}
