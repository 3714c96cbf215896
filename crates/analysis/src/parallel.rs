//! Work that several threads share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What a function makes of each item, in the order of the items.
pub(crate) fn in_order<T: Sync, R: Send>(
    items: &[T],
    n_threads: usize,
    f: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(n) else { return results };
            results.push((n, f(item)));
        }
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads.min(items.len())).map(|_| scope.spawn(work)).collect();
        let mut results = work();
        results.extend(
            others.into_iter().flat_map(|other| other.join().expect("the function does not panic")),
        );
        results
    });
    // In order, sums of blocks have the same bits for any number of threads.
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}
