//! Where everything random comes from: the operating system.

use std::cell::RefCell;

/// Fills a slice with random bytes.
pub(crate) fn fill(bytes: &mut [u8]) {
    // It fails on systems without randomness alone, where there can be no keys either.
    getrandom::fill(bytes).expect("the system has randomness");
}

/// Random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// A number for one request, which is no secret: many are drawn at once.
pub(crate) fn request() -> [u8; 8] {
    thread_local!(static DRAWN: RefCell<Vec<[u8; 8]>> = const { RefCell::new(Vec::new()) });
    DRAWN.with_borrow_mut(|drawn| {
        drawn.pop().unwrap_or_else(|| {
            let all: [u8; 256] = bytes();
            let (numbers, _) = all.as_chunks();
            drawn.extend_from_slice(&numbers[1..]);
            numbers[0]
        })
    })
}
