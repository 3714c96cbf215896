//! Amber atom masks: `:1-10@CA`, `::A&!:HOH`, `(:LIG<:5.0)&@/O`.
//!
//! The language is that of cpptraj. `:` takes residues by index or name, `::` chains, `:;` residues
//! by the author's number, `@` atoms by index or name, `@%` atom types, `@/` elements, `^`
//! molecules. Indices count from 1 over the whole system; a name may hold `?` for one character and
//! end in `*` for any rest. `<` and `>` take what is nearer to, or not nearer than, a distance in Å
//! from all before them: `@` atoms, `:` residues with any such atom, `;` residues with such a
//! centre, `^` molecules; distances are measured without periodic images. From tight to loose:
//! distances, `!`, `&`, `|`.
//!
//! A selector right after another narrows it where it is a step to a finer level: `:1@CA` is atom CA
//! of residue 1. Anywhere else, also after a distance, it is as if there were a `|` before it:
//! `::A:10` is chain A *or* residue 10, and `:2&:1<:5.0:5` is `(:2&(:1<:5.0))|:5`. Such a mask
//! carries a [`Warning::Union`].
//!
//! It differs from cpptraj, on purpose, where that misreads a likely slip or refuses a real name:
//! blanks inside names and `@` right after a distance are errors, as is an empty mask; names may
//! hold any printable ASCII; elements match in any case; `:;10A` takes an insertion code; residues
//! and molecules are the topology's own, never guessed from distances.

mod near;
mod parse;
mod select;
mod syntax;

use std::fmt;
use std::str::FromStr;

pub use parse::{Expected, ParseError};
pub use syntax::Kind;

use crate::{AtomSet, Topology};

/// A parsed mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    text: String,
    expr: syntax::Expr,
    warnings: Vec<Warning>,
}

/// What a mask selects from a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The atoms.
    pub atoms: AtomSet,
    /// What the user may not have meant.
    pub warnings: Vec<Warning>,
}

/// A mask that selects, but perhaps not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No atom is selected.
    Empty,
    /// Selectors stand side by side and are joined by "or".
    Union {
        /// Where the second one starts.
        column: usize,
    },
    /// Text after a `*` has no effect.
    AfterWildcard {
        /// Where the name starts.
        column: usize,
    },
    /// `%` or `/` counts only right after `@`, not within the list.
    MarkerInList {
        /// Where it stands.
        column: usize,
    },
    /// Nothing has this name, while something has another name of the same meaning or spelling.
    OtherName {
        /// Where the name starts.
        column: usize,
        /// What the name was looked for among.
        kind: Kind,
        /// The name in the mask.
        name: String,
        /// The name in the topology.
        instead: String,
    },
    /// A name took others that differ from it by a final `*`.
    Stem {
        /// Where the name starts.
        column: usize,
        /// The name in the topology.
        name: String,
    },
    /// A range starts after the last residue, atom or molecule.
    BeyondEnd {
        /// Where the range starts.
        column: usize,
        /// What is counted.
        kind: Kind,
        /// How many there are.
        last: usize,
    },
    /// The topology does not say what the selector asks for: types, chain ids, or bonds.
    Unknown {
        /// What was asked for.
        kind: Kind,
    },
}

/// Why a mask cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A distance needs coordinates.
    #[error("column {column}: a distance needs coordinates, and there are none")]
    NoPositions {
        /// Where the distance stands.
        column: usize,
    },
    /// A distance from no atom at all.
    #[error("column {column}: nothing to measure the distance from, since no atom is selected before it")]
    NothingToMeasureFrom {
        /// Where the distance stands.
        column: usize,
    },
    /// The coordinates are those of something else.
    #[error("{n_positions} coordinates for {n_atoms} atoms")]
    PositionCount {
        /// Coordinates given.
        n_positions: usize,
        /// Atoms of the topology.
        n_atoms: usize,
    },
}

impl Mask {
    /// Parses a mask.
    ///
    /// # Errors
    ///
    /// [`ParseError`] with the column and what was expected there. A mask is bounded in length,
    /// depth and cost, so that any text is dealt with at once.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (expr, warnings) = parse::parse(text)?;
        Ok(Self { text: text.to_owned(), expr, warnings })
    }

    /// Parses masks separated by blanks, as in `:25@CA :124@CA`. A blank separates where the next
    /// character can start a mask and the one before it can end one, outside parentheses.
    ///
    /// # Errors
    ///
    /// [`ParseError`], its column counted over the whole text.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ParseError> {
        let shift =
            |first_column: usize| move |error: ParseError| ParseError { column: error.column + first_column, ..error };
        split(text).into_iter().map(|(column, part)| Self::parse(part).map_err(shift(column))).collect()
    }

    /// The atoms that the mask selects.
    ///
    /// `positions` in Å are needed only if the mask [measures distances](Self::needs_positions).
    ///
    /// # Errors
    ///
    /// See [`SelectError`]. To select nothing is none, but warned of.
    pub fn select(&self, topology: &Topology, positions: Option<&[[f64; 3]]>) -> Result<Selection, SelectError> {
        select::select(&self.expr, self.warnings.clone(), topology, positions)
    }

    /// Whether a distance is part of the mask.
    pub fn needs_positions(&self) -> bool {
        self.expr.measures()
    }
}

impl FromStr for Mask {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The parts of a list of masks, each with the number of characters before it.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut starts = vec![(0, 0)];
    let (mut depth, mut last, mut blank) = (0_usize, None, false);
    for (column, (at, c)) in text.char_indices().enumerate() {
        let starts_mask = matches!(c, ':' | '@' | '^' | '*' | '(' | '!');
        let ended = last.is_some_and(|c| !matches!(c, '&' | '|' | '!' | '<' | '>' | ',' | ':' | '@' | '^' | '('));
        if blank && depth == 0 && starts_mask && ended {
            starts.push((column, at));
        }
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        blank = c.is_whitespace();
        last = if blank { last } else { Some(c) };
    }
    let ends = starts.iter().skip(1).map(|(_, at)| *at).chain([text.len()]);
    starts.iter().zip(ends).map(|((column, at), end)| (*column, text[*at..end].trim_end())).collect()
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no atom is selected"),
            Self::Union { column } => write!(
                f,
                "column {column}: this selector adds to the one before it; write `&` between them for what is in both, \
                 or `|` if this is meant"
            ),
            Self::AfterWildcard { column } => {
                write!(f, "column {column}: what follows `*` in a name has no effect, for `*` takes any rest")
            }
            Self::MarkerInList { column } => write!(
                f,
                "column {column}: `%` and `/` mark types and elements only right after `@`; this looks for a name"
            ),
            Self::OtherName { column, kind, name, instead } => {
                write!(f, "column {column}: no {} is named {name}, but some are named {instead}", kind.noun())
            }
            Self::Stem { column, name } => {
                write!(f, "column {column}: takes {name} as well; write `\\*` or `'` to tell the two apart")
            }
            Self::BeyondEnd { column, kind, last } => {
                write!(f, "column {column}: starts after the last {}, number {last}", kind.noun())
            }
            Self::Unknown { kind } => match kind {
                Kind::Molecule => f.write_str("the topology has no bonds, so each atom is a molecule of its own"),
                _ => write!(f, "the topology does not tell the {} of its atoms", kind.noun()),
            },
        }
    }
}
