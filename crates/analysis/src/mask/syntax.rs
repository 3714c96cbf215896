//! The syntax tree of a mask.

use std::ops::RangeInclusive;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Select(Selector),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
    Within(Box<Within>),
}

/// What is closer to `base` than `cutoff`, or all that is not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Within {
    pub(super) base: Expr,
    pub(super) unit: Unit,
    pub(super) farther: bool,
    pub(super) cutoff: f64,
    pub(super) column: usize,
}

/// What a distance takes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Atom,
    /// A residue of which any atom is near.
    Residue,
    /// A residue of which the geometric centre is near.
    ResidueCentre,
    Molecule,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selector {
    pub(super) kind: Kind,
    pub(super) items: Vec<Item>,
}

/// What the items of a selector name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `:`, residues by index or name.
    Residue,
    /// `::`, chains by id.
    Chain,
    /// `:;`, residues by the author's number.
    AuthorNumber,
    /// `@`, atoms by index or name.
    Atom,
    /// `@%`, atoms by type.
    AtomType,
    /// `@/`, atoms by element.
    Element,
    /// `^`, molecules by index.
    Molecule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Molecule,
    Residue,
    Atom,
}

impl Level {
    /// Whether a selector of the next level narrows one of this level that stands right before it:
    /// `:1@CA` is "and", but `::A:10` is "or".
    pub(super) fn narrows_to(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Residue, Self::Atom) | (Self::Molecule, Self::Residue | Self::Atom)
        )
    }
}

impl Kind {
    pub(super) fn level(self) -> Level {
        match self {
            Self::Residue | Self::Chain | Self::AuthorNumber => Level::Residue,
            Self::Atom | Self::AtomType | Self::Element => Level::Atom,
            Self::Molecule => Level::Molecule,
        }
    }

    /// What a selector of this kind takes, in a word.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Residue | Self::AuthorNumber => "residue",
            Self::Chain => "chain",
            Self::Atom => "atom",
            Self::AtomType => "atom type",
            Self::Element => "element",
            Self::Molecule => "molecule",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    All,
    Name {
        pattern: Pattern,
        column: usize,
    },
    /// Counted from 1, or as the author counts.
    Numbers {
        range: RangeInclusive<i64>,
        column: usize,
    },
    /// A residue of this number with this insertion code.
    Inserted {
        number: i64,
        code: char,
    },
}

/// A name with wildcards.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) glyphs: Vec<Glyph>,
    /// Whether the name may go on after the glyphs.
    pub(super) prefix: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Glyph {
    Char(char),
    /// A character after `\`, which is never a wildcard or part of a number.
    Escaped(char),
    /// `?`, any one character.
    AnyChar,
    /// `*` or `=`, anything from here on.
    AnyRest,
}

/// How a name meets a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    No,
    Yes,
    /// The pattern is the name but for its final `*`, which old nucleic acid files write for `'`.
    Stem,
}

impl Pattern {
    pub(super) fn matches(&self, name: &str, ignore_case: bool) -> Match {
        let mut rest = name.chars();
        for glyph in &self.glyphs {
            let Some(c) = rest.next() else { return Match::No };
            match glyph {
                Glyph::Char(a) | Glyph::Escaped(a)
                    if *a == c || ignore_case && a.eq_ignore_ascii_case(&c) => {}
                Glyph::AnyChar => {}
                _ => return Match::No,
            }
        }
        match rest.as_str() {
            "*" if !self.prefix => Match::Stem,
            "" => Match::Yes,
            _ if self.prefix => Match::Yes,
            _ => Match::No,
        }
    }

    /// The text, when nothing in it is a wildcard.
    pub(super) fn literal(&self) -> Option<String> {
        if self.prefix { None } else { self.glyphs.iter().map(Glyph::literal).collect() }
    }
}

impl Glyph {
    fn literal(&self) -> Option<char> {
        match self {
            Self::Char(c) | Self::Escaped(c) => Some(*c),
            Self::AnyChar | Self::AnyRest => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Glyph, Match, Pattern};

    #[test]
    fn a_pattern_meets_a_name() {
        let pattern = |text: &str, prefix| Pattern {
            glyphs: text
                .chars()
                .map(|c| if c == '?' { Glyph::AnyChar } else { Glyph::Char(c) })
                .collect(),
            prefix,
        };
        let cases = [
            ("CA", false, "CA", Match::Yes),
            ("CA", false, "CAX", Match::No),
            ("CA", true, "CAX", Match::Yes),
            ("CA", true, "C", Match::No),
            ("C?", false, "C1", Match::Yes),
            ("C?", false, "C", Match::No),
            ("O3", false, "O3*", Match::Stem),
            ("O?*", false, "O3*", Match::Yes),
            ("O", false, "O3*", Match::No),
            ("", true, "", Match::Yes),
        ];
        for (text, prefix, name, expected) in cases {
            assert_eq!(pattern(text, prefix).matches(name, false), expected, "{text} {name}");
        }
        assert_eq!(pattern("Na", false).matches("NA", true), Match::Yes);
    }
}
