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
//! A selector right after another narrows it where it is a step to a finer level: `:1@CA` is atom
//! CA of residue 1. Anywhere else, also after a distance, it is as if there were a `|` before it:
//! `::A:10` is chain A *or* residue 10, and `:2&:1<:5.0:5` is `(:2&(:1<:5.0))|:5`. Such a mask
//! carries a [`MaskWarning::Union`].
//!
//! It differs from cpptraj, on purpose, where that misreads a likely slip or refuses a real name:
//! blanks inside names and `@` right after a distance are errors, as is an empty mask; names may
//! hold any printable ASCII; elements match in any case; `:;10A` takes an insertion code; residues
//! and molecules are the topology's own, never guessed from distances.

mod images;
mod language;
mod near;
mod parse;
mod select;
mod selection;
mod syntax;

use std::fmt;
use std::str::FromStr;

pub use images::WithoutImages;
pub use parse::{Expected, ParseError};
pub use selection::{MaskWarning, SelectError, Selection};
pub use syntax::Kind;

use crate::{AtomSet, Cell, Topology};

/// A parsed mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    text: String,
    expr: syntax::Expr,
    warnings: Vec<MaskWarning>,
}

impl Mask {
    /// Parses a mask.
    ///
    /// # Errors
    ///
    /// [`ParseError`] with the column and what was expected there. A mask is bounded in length,
    /// depth and cost, so that any text is dealt with at once.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (expr, warnings) = parse::parse(text).map_err(|error| {
            let meant = language::as_mask(text).filter(|mask| parse::parse(mask).is_ok());
            ParseError { meant, ..error }
        })?;
        Ok(Self { text: text.to_owned(), expr, warnings })
    }

    /// Parses masks separated by blanks, as in `:25@CA :124@CA`. A blank separates where the next
    /// character can start a mask and the one before it can end one, outside parentheses.
    ///
    /// # Errors
    ///
    /// [`ParseError`], its column counted over the whole text.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ParseError> {
        let masks = split(text).into_iter().map(|(column, part)| {
            Self::parse(part).map_err(|error| ParseError { column: error.column + column, ..error })
        });
        masks.collect()
    }

    /// The atoms that the mask selects.
    ///
    /// `positions` in Å are needed only if the mask [measures distances](Self::needs_positions).
    ///
    /// # Errors
    ///
    /// See [`SelectError`]. To select nothing is none, but warned of.
    pub fn select(
        &self,
        topology: &Topology,
        positions: Option<&[[f64; 3]]>,
    ) -> Result<Selection, SelectError> {
        select::select(&self.expr, self.warnings.clone(), topology, positions, None)
    }

    /// The atoms that it would select if distances were between nearest periodic images.
    pub(crate) fn select_with_images(
        &self,
        topology: &Topology,
        positions: &[[f64; 3]],
        cell: &Cell,
    ) -> Result<AtomSet, SelectError> {
        let selection =
            select::select(&self.expr, Vec::new(), topology, Some(positions), Some(cell))?;
        Ok(selection.atoms)
    }

    /// How the atoms that it has [selected](Self::select) differ from those that it would select
    /// between nearest images; none where they do not.
    pub fn without_images(
        &self,
        topology: &Topology,
        positions: &[[f64; 3]],
        cell: &Cell,
        atoms: &AtomSet,
    ) -> Option<WithoutImages> {
        if !self.needs_positions() {
            return None;
        }
        // What selects something without images has something to measure from.
        let with = self.select_with_images(topology, positions, cell).ok()?;
        let differ = || {
            let all = 0..topology.n_atoms();
            all.filter(|atom| atoms.contains(*atom) != with.contains(*atom))
        };
        let first = topology.atom_label(differ().next()?);
        let n_only_with = differ().filter(|atom| with.contains(*atom)).count();
        let n_only_without = differ().count() - n_only_with;
        Some(WithoutImages { mask: self.to_string(), n_only_without, n_only_with, first })
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
    let mut depth = 0_usize;
    let mut last = None;
    let mut blank = false;
    for (column, (at, c)) in text.char_indices().enumerate() {
        let starts_mask = matches!(c, ':' | '@' | '^' | '*' | '(' | '!');
        let ended = last.is_some_and(|c| {
            !matches!(c, '&' | '|' | '!' | '<' | '>' | ',' | ':' | '@' | '^' | '(')
        });
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
    starts
        .iter()
        .zip(ends)
        .map(|((column, at), end)| (*column, text[*at..end].trim_end()))
        .collect()
}
