//! Command lines that people paste into a shell.

use std::borrow::Cow;

/// A word as a shell takes it: in quotes where it has spaces or anything else of its own.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    // There is no way to write a NUL, and neither arguments nor paths have one.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_make_something_else_of_it() {
        for plain in ["protein.pdb", "runs/a-1", "villin"] {
            assert_eq!(quoted(plain), plain);
        }
        assert_eq!(quoted("Ada L"), "'Ada L'");
        for odd in ["it's", "$HOME", "a;b", "~", "*", "", "grüße"] {
            let quoted = quoted(odd).into_owned();
            assert_eq!(shlex::split(&quoted).unwrap(), [odd]);
            assert_ne!(quoted, odd);
        }
    }
}
