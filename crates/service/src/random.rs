//! Where everything random comes from: the operating system.

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
