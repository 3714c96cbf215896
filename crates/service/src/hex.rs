//! Bytes as hexadecimal digits.

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; none when they are not that.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(16 * digit(*high)? + digit(*low)?)).collect()
}

/// The value of one digit, in upper or lower case.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_they_were_written_and_nothing_else_is() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(unhex("aAfF"), Some(vec![0xaa, 0xff]));
        assert_eq!(unhex(""), Some(Vec::new()));
        for other in ["a", "0g", "+1", " 1", "é", "0é0"] {
            assert_eq!(unhex(other), None, "{other:?}");
        }
    }
}
