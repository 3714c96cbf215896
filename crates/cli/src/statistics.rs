//! What can be said of the mean of a series whose values depend on each other, as frames of a
//! simulation do.

use std::iter;

use molbox_analysis::block_error;

/// Fewer values or blocks than this tell nothing of their spread.
const LEAST: usize = 8;

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample; none of fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Part of the scale of some numbers below which another is what rounding leaves of 0.
const ROUNDING: f64 = 1e-12;

/// The largest of some values without their signs: what others of them are large or small beside.
pub(crate) fn scale(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

/// A number for people, which is 0 where it is what rounding leaves of 0 beside others of such a
/// scale: the RMSD from itself was 4e-18.
pub(crate) fn unrounded(number: f64, scale: f64) -> f64 {
    if number.abs() <= ROUNDING * scale { 0.0 } else { number }
}

/// Decimals with which a mean is written whose error is this: two digits of the error; three
/// where there is no error to go by.
pub(crate) fn decimals(mean: f64, error: f64) -> usize {
    if error > ROUNDING * mean.abs() && error.is_finite() {
        (1.0 - error.log10().floor()).clamp(0.0, 9.0) as usize
    } else {
        3
    }
}

/// Standard error of the mean of a series, by blocking (Flyvbjerg and Petersen, J. Chem. Phys. 91,
/// 461, 1989): neighbours are averaged until what is left no longer depends on each other; the
/// largest error of all levels is taken, for the one where it levels off is rarely clear. None of a
/// series that is too short.
pub(crate) fn standard_error(values: &[f64]) -> Option<f64> {
    let lengths = iter::successors(Some(1), |block| Some(2 * block));
    lengths
        .take_while(|block| values.len() / block >= LEAST)
        .map(|block| block_error(values, block).0)
        .reduce(f64::max)
}

/// By how much the last third of a series is above its first, when that is more than three times
/// what the thirds are uncertain by: a sign that the system had not settled.
pub(crate) fn drift(values: &[f64]) -> Option<f64> {
    let third = values.len() / 3;
    let [first, last] = [&values[..third], &values[values.len() - third..]];
    let error = standard_error(first)?.hypot(standard_error(last)?);
    let difference = mean(last) - mean(first);
    (difference.abs() > 3.0 * error && error > 0.0).then_some(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values between -1 and 1 that depend on each other by `memory`.
    fn series(n: usize, memory: f64) -> Vec<f64> {
        let mut state = 1_u64;
        let mut last = 0.0;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            last = memory * last + (1.0 - memory) * random;
            last
        };
        (0..n).map(next).collect()
    }

    #[test]
    fn of_independent_values_the_error_is_the_usual_one() {
        let values = series(4096, 0.0);
        let usual = deviation(&values).unwrap() / 64.0;
        let error = standard_error(&values).unwrap();
        assert!(error >= usual && error < 2.0 * usual, "{error} for {usual}");
    }

    #[test]
    fn of_values_that_depend_on_each_other_it_is_larger() {
        // With a memory of 0.95 there is one independent value in (1 + 0.95) / (1 - 0.95) = 39.
        let values = series(8192, 0.95);
        let naive = deviation(&values).unwrap() / (8192_f64).sqrt();
        let error = standard_error(&values).unwrap();
        assert!((3.0..14.0).contains(&(error / naive)), "{}", error / naive);
    }

    #[test]
    fn what_rises_all_the_time_drifts_and_what_varies_does_not() {
        let noise = series(600, 0.2);
        assert_eq!(drift(&noise), None);
        let rising: Vec<f64> =
            noise.iter().enumerate().map(|(n, x)| x + n as f64 / 100.0).collect();
        let drift = drift(&rising).unwrap();
        assert!((drift - 4.0).abs() < 0.3, "two thirds of 6: {drift}");
    }

    #[test]
    fn a_number_is_as_long_as_its_error_allows() {
        for (error, expected) in [(0.0123, 3), (0.58, 2), (1.2, 1), (12.0, 0), (340.0, 0)] {
            assert_eq!(decimals(1000.0, error), expected, "{error}");
        }
        assert_eq!([0.0, f64::NAN].map(|error| decimals(1.0, error)), [3, 3]);
        assert_eq!(decimals(0.0, 0.0), 3);
        assert_eq!(decimals(300.1, 5.7e-14), 3, "what rounding leaves of 300.1 in all frames");
        assert_eq!(decimals(-2.5e5, 1e-9), 3);
        assert_eq!(decimals(0.0, 1.2e-7), 8);
    }

    #[test]
    fn what_rounding_leaves_of_0_is_0_beside_its_scale() {
        let rmsd = [4e-18, 1.25, -2.5];
        assert_eq!(scale(&rmsd), 2.5);
        assert_eq!(rmsd.map(|value| unrounded(value, 2.5)), [0.0, 1.25, -2.5]);
        assert_eq!(unrounded(4e-18, scale(&[4e-18])), 4e-18, "there is nothing to compare it with");
        assert_eq!(unrounded(2e-9, 2.5), 2e-9);
    }

    #[test]
    fn a_few_frames_have_no_error() {
        assert_eq!(standard_error(&[1.0; 7]), None);
        assert_eq!(deviation(&[1.0]), None);
    }
}
