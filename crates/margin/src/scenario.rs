//! Random numbers that are known by their number.

/// Output number `counter`, from 0, of `SplitMix64` with this seed (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014).
pub(crate) fn splitmix64(seed: u64, counter: u64) -> u64 {
    let z = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        assert_eq!([0, 1].map(|c| splitmix64(1_234_567, c)), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }
}
