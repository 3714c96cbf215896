//! Custom energies, as far as OpenMM's parser can do them: it calls itself for each parenthesis,
//! and what it makes of an expression grows with the square of its terms, and with what it defines.

use std::collections::HashMap;

/// Operands and operators, with each name in place of which its definition stands. A sum of 1,000
/// terms takes OpenMM 8.6 a minute; the longest of published force fields have some hundred.
const MAX_TERMS: usize = 1000;
/// Parentheses within each other. Sixty thousand end the process, a hundred sines take seconds.
const MAX_DEPTH: usize = 100;

/// Whether an expression, with the definitions that follow it after `;`, is one of bounded size.
/// What it means is left to OpenMM.
pub(super) fn check(text: &str) -> Result<(), String> {
    // The last definition first: one may use those after it.
    let mut defined: HashMap<&str, Size> = HashMap::new();
    for part in text.rsplit(';') {
        let (name, expression) =
            part.split_once('=').map_or(("", part), |(name, rest)| (name.trim(), rest));
        let size = size(expression, &defined);
        if size.depth > MAX_DEPTH {
            return Err(format!(
                "has more than {MAX_DEPTH} parentheses or signs within each other"
            ));
        }
        if size.terms > MAX_TERMS {
            return Err(format!(
                "has more than {MAX_TERMS} terms, with what it defines in its place"
            ));
        }
        defined.insert(name, size);
    }
    Ok(())
}

/// How much the parser makes of an expression.
#[derive(Clone, Copy, Default)]
struct Size {
    terms: usize,
    depth: usize,
}

fn size(expression: &str, defined: &HashMap<&str, Size>) -> Size {
    let mut terms = 0_usize;
    let mut open = 0_usize;
    let mut signs = 0;
    let mut depth = 0;
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        if word.is_empty() {
            match first {
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                // A sign before a sign, or a power of a power, is one within the other.
                '-' | '^' => signs += 1,
                '+' | '*' | '/' | ',' => signs = 0,
                _ => {}
            }
            terms += usize::from(!first.is_whitespace() && first != ')');
            depth = depth.max(open + signs);
        } else {
            let inner = defined.get(word).copied().unwrap_or(Size { terms: 1, depth: 0 });
            // Once there are too many it does not matter how many.
            terms = terms.saturating_add(inner.terms);
            depth = depth.max(open + inner.depth);
        }
        rest = &rest[word.len().max(first.len_utf8())..];
    }
    Size { terms, depth }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn expressions_of_force_fields_pass() {
        for text in [
            "0",
            "138.935456*q1*q2/r; q1=charge1; q2=charge2",
            "sqrt(epsilon1*epsilon2)*((sigma/r)^12-2*(sigma/r)^6); sigma=(sigma1+sigma2)/2",
            "k*(1-cos(theta-theta0)) + step(r-1.5e-3)*min(a, -b)",
            "select(isnan(x), 0, 1)",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_grows_beyond_measure_does_not() {
        let nested = |n: usize| format!("{}r{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(check(&nested(100)), Ok(()));
        assert!(check(&nested(101)).is_err());
        assert!(check(&nested(60_000)).is_err());
        assert!(check(&format!("{}r", "-".repeat(10_000))).is_err());
        assert!(check(&vec!["r"; 101].join("^")).is_ok());
        assert!(check(&vec!["r"; 102].join("^")).is_err());
        assert!(check(&vec!["r"; 500].join("+")).is_ok());
        assert!(check(&vec!["r"; 501].join("+")).is_err());
        // Each definition is twice the one after it.
        let mut doubled = "a0".to_owned();
        for n in 0..200 {
            doubled += &format!("; a{n}=a{}+a{}", n + 1, n + 1);
        }
        assert!(check(&doubled).is_err());
        let mut within = "a0".to_owned();
        for n in 0..60 {
            within += &format!("; a{n}=((a{}))", n + 1);
        }
        assert!(check(&within).unwrap_err().contains("parentheses"));
    }
}
