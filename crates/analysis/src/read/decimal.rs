//! Numbers as they were before a file rounded them to 32 bits.

/// The number of the fewest digits, at most seven, that differs from `x` by no more than rounding
/// to 32 bits and a unit's constant that is given with other digits can make it.
///
/// A time step of 1 fs, in CHARMM's unit and 32 bits, comes back as 0.00099999998 ps.
pub(super) fn fewest_digits(x: f64) -> Decimal {
    const TOLERANCE: f64 = 3e-7;
    (1..=7)
        .map(|digits| Decimal::rounded(x, digits))
        .find(|decimal| (decimal.times(1) - x).abs() <= TOLERANCE * x.abs())
        .unwrap_or_else(|| Decimal::rounded(x, 9))
}

/// A number by its decimal digits, of which multiples have no more digits than they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i64,
    /// Power of ten of the last digit.
    exponent: i32,
}

impl Decimal {
    /// A finite number rounded to so many digits.
    fn rounded(x: f64, n_digits: i32) -> Self {
        if x == 0.0 {
            return Self { digits: 0, exponent: 0 };
        }
        let exponent = x.abs().log10().floor() as i32 + 1 - n_digits;
        Self { digits: (x / 10_f64.powi(exponent)).round() as i64, exponent }
    }

    /// The number times a whole one: the double that is nearest to it.
    pub(super) fn times(self, n: i64) -> f64 {
        // 63 bits by 63 bits fit, and what a double holds exactly is divided with one rounding.
        let digits = (i128::from(self.digits) * i128::from(n)) as f64;
        let power = 10_f64.powi(self.exponent.abs());
        if self.exponent < 0 { digits / power } else { digits * power }
    }
}

/// The shortest decimal that is this number in 32 bits: 0.2 for 0.20000000298.
pub(super) fn shortest(x: f32) -> f64 {
    x.to_string().parse().expect("a number is written as one")
}

#[cfg(test)]
mod tests {
    use super::{fewest_digits, shortest};

    /// A step as files have it: in CHARMM's unit of time, which programs give with other digits.
    fn stored(step_ps: f64, unit_ps: f64) -> f64 {
        f64::from((step_ps / unit_ps) as f32) * 0.048_888_21
    }

    #[test]
    fn time_steps_come_back_as_they_were_given() {
        for unit_ps in [0.048_888_21, 0.048_888_212_908_4, 0.048_888_2] {
            for thousandth_fs in 1..6000 {
                let step_ps = f64::from(thousandth_fs) / 1e6;
                let found = fewest_digits(stored(step_ps, unit_ps)).times(1);
                assert_eq!(found, step_ps, "{unit_ps}");
            }
        }
    }

    #[test]
    fn multiples_have_no_more_digits_than_they_need() {
        for (step_ps, n, expected) in
            [(0.001, 1000, 1.0), (0.002, 3, 0.006), (0.0025, 7, 0.0175), (0.004, 175, 0.7)]
        {
            assert_eq!(fewest_digits(stored(step_ps, 0.048_888_21)).times(n), expected);
        }
        assert_eq!(fewest_digits(0.004).times(2_000_000_000_000), 8e9);
        assert_eq!(fewest_digits(1234.5).times(2), 2469.0);
    }

    #[test]
    fn the_shortest_decimal_of_32_bits_is_found() {
        assert_eq!([0.2, 100_000.2, 1e-7, 0.0].map(shortest), [0.2, 100_000.2, 1e-7, 0.0]);
    }
}
