//! Numbers with units: `500ps` where the document counts nanoseconds.

use std::ops::RangeInclusive;

/// Units of one dimension: names, and how many of the first one each is, as a ratio so that
/// `7 Å` is 0.7 nm and not 0.7000000000000001.
const DIMENSIONS: [&[(&[&str], f64, f64)]; 11] = [
    &[
        (&["ps"], 1.0, 1.0),
        (&["fs"], 1.0, 1e3),
        (&["ns"], 1e3, 1.0),
        (&["us", "µs", "μs"], 1e6, 1.0),
        (&["ms"], 1e9, 1.0),
    ],
    &[(&["K"], 1.0, 1.0)],
    &[
        (&["bar"], 1.0, 1.0),
        (&["atm"], 1.01325, 1.0),
        (&["Pa"], 1.0, 1e5),
        (&["kPa"], 1.0, 1e2),
        (&["MPa"], 10.0, 1.0),
    ],
    &[(&["nm"], 1.0, 1.0), (&["Å", "Å", "A", "angstrom"], 1.0, 10.0), (&["pm"], 1.0, 1e3)],
    &[(&["mol/L", "M"], 1.0, 1.0), (&["mmol/L", "mM"], 1.0, 1e3)],
    &[
        (&["kJ/mol/nm²", "kJ/mol·nm²", "kJ/mol/nm^2", "kJ/mol/nm2"], 1.0, 1.0),
        (&["kcal/mol/Å²", "kcal/mol/A^2", "kcal/mol/A2"], 418.4, 1.0),
    ],
    &[
        (&["ps⁻¹", "/ps", "1/ps", "ps^-1"], 1.0, 1.0),
        (&["/fs", "1/fs"], 1e3, 1.0),
        (&["/ns", "1/ns"], 1.0, 1e3),
    ],
    &[(&["degrees", "°", "deg"], 1.0, 1.0), (&["rad"], 180.0 / std::f64::consts::PI, 1.0)],
    &[(&["bar·nm", "bar*nm"], 1.0, 1.0), (&["mN/m"], 10.0, 1.0)],
    &[
        (&["s"], 1.0, 1.0),
        (&["min", "m"], 60.0, 1.0),
        (&["h"], 3600.0, 1.0),
        (&["d"], 86400.0, 1.0),
    ],
    &[(&["steps", "step"], 1.0, 1.0)],
];

/// A number in `unit` from a text that may name another unit of its dimension.
pub(crate) fn parse(text: &str, unit: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = split(text);
    let digits = text[..split].trim();
    let suffix = text[split..].trim();
    let value: f64 = digits.parse().map_err(|_| format!("must be a number, got {text:?}"))?;
    if suffix.is_empty() || suffix == unit {
        return Ok(value);
    }
    if unit == "K" && ["°C", "C", "degC"].contains(&suffix) {
        return Ok(value + 273.15);
    }
    let Some(dimension) =
        DIMENSIONS.iter().find(|units| units.iter().any(|(names, ..)| names.contains(&unit)))
    else {
        return Err(format!("is a plain number, got the unit {suffix:?}"));
    };
    let [from, to] =
        [suffix, unit].map(|name| dimension.iter().find(|(names, ..)| names.contains(&name)));
    match (from, to) {
        (Some((_, n, d)), Some((_, unit_n, unit_d))) => Ok(value * (n * unit_d) / (d * unit_n)),
        _ => {
            let others = dimension
                .iter()
                .filter(|(names, ..)| !names.contains(&unit))
                .map(|(names, ..)| names[0]);
            let others: Vec<&str> = others.chain((unit == "K").then_some("°C")).collect();
            let also = if others.is_empty() {
                String::new()
            } else {
                format!(", also {}", others.join(", "))
            };
            Err(format!("is in {unit}{also}; got the unit {suffix:?}"))
        }
    }
}

/// Where the number ends and its unit begins.
fn split(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let is_exponent = matches!(bytes[at], b'e' | b'E')
            && bytes[at + 1..]
                .iter()
                .find(|b| !matches!(b, b'+' | b'-'))
                .is_some_and(u8::is_ascii_digit);
        let is_sign =
            matches!(bytes[at], b'+' | b'-') && (at == 0 || matches!(bytes[at - 1], b'e' | b'E'));
        if !(bytes[at].is_ascii_digit() || bytes[at] == b'.' || is_exponent || is_sign) {
            break;
        }
        at += 1;
    }
    at
}

/// Seconds from `90s`, `30min`, `2h`, or a bare number of seconds.
pub(crate) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let seconds = parse(text, "s")?;
    std::time::Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("must be a time >= 0, got {text:?}"))
}

/// A whole number that is not less than another.
pub(crate) fn whole<T>(text: &str, least: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let number = text.trim().parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| format!("must be a whole number >= {least}, got {text:?}"))
}

/// A whole number of a range.
pub(crate) fn whole_within(text: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    number.ok_or_else(|| format!("must be a whole number from {least} to {most}, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::{parse, whole, whole_within};

    #[test]
    fn what_is_no_whole_number_is_refused_in_words() {
        assert_eq!(whole("3", 1u32), Ok(3));
        for text in ["x", "0", "-1", "1.5"] {
            let message = format!("must be a whole number >= 1, got {text:?}");
            assert_eq!(whole(text, 1u32), Err(message));
        }
        assert_eq!(whole_within("3", 2..=3), Ok(3));
        for text in ["x", "1", "4"] {
            let message = format!("must be a whole number from 2 to 3, got {text:?}");
            assert_eq!(whole_within(text, 2..=3), Err(message));
        }
    }

    #[test]
    fn units_are_converted_without_noise() {
        for (text, unit, value) in [
            ("500ps", "ns", 0.5),
            ("0.5", "ns", 0.5),
            ("1 ns", "ns", 1.0),
            ("2µs", "ns", 2000.0),
            ("4fs", "fs", 4.0),
            ("0.004 ps", "fs", 4.0),
            ("7Å", "nm", 0.7),
            ("150mM", "mol/L", 0.15),
            ("310K", "K", 310.0),
            ("37°C", "K", 310.15),
            ("1 atm", "bar", 1.01325),
            ("1 /ps", "ps⁻¹", 1.0),
            ("2.39 kcal/mol/A^2", "kJ/mol/nm²", 2.39 * 418.4),
            ("1e-3ns", "ns", 1e-3),
            ("-1", "ns", -1.0),
        ] {
            assert_eq!(parse(text, unit), Ok(value), "{text}");
        }
    }

    #[test]
    fn another_dimension_is_refused_with_what_is_known() {
        assert_eq!(
            parse("5K", "ns").unwrap_err(),
            "is in ns, also ps, fs, us, ms; got the unit \"K\""
        );
        assert_eq!(parse("5ns", "K").unwrap_err(), "is in K, also °C; got the unit \"ns\"");
        assert_eq!(parse("ns", "ns").unwrap_err(), "must be a number, got \"ns\"");
        assert_eq!(parse("7x", "pH").unwrap_err(), "is a plain number, got the unit \"x\"");
    }
}
