//! What a mask selects, what it warns of, and why it cannot be applied.

use std::fmt;
use std::ops::RangeInclusive;

use super::syntax::Kind;
use crate::AtomSet;

/// Chains that are named where one is not there.
const MOST_CHAINS: usize = 12;

/// What a mask selects from a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The atoms.
    pub atoms: AtomSet,
    /// What the user may not have meant.
    pub warnings: Vec<MaskWarning>,
}

/// A mask that selects, but perhaps not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskWarning {
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
    /// Residues are counted from the first, while others have these numbers in the file.
    Numbered {
        /// Where the number stands.
        column: usize,
        /// The numbers.
        range: RangeInclusive<i64>,
        /// The residue that the first counts to, if there are as many.
        counted: Option<String>,
        /// The first of the residues that have the numbers.
        named: String,
        /// The number that it has.
        number: i64,
        /// Its chain, where others have that number too.
        chain: Option<String>,
    },
    /// A residue counted from the first is water or an ion, behind all molecules.
    CountedIntoSolvent {
        /// Where the number stands.
        column: usize,
        /// The number.
        number: usize,
        /// The residue that it counts to.
        counted: String,
        /// How many residues there are up to the last one before it that is no solvent.
        last: usize,
        /// That residue.
        last_label: String,
    },
    /// No chain has this id.
    NoChain {
        /// Where the id starts.
        column: usize,
        /// The id in the mask.
        name: String,
        /// Those that there are.
        chains: Vec<String>,
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
    #[error(
        "column {column}: nothing to measure the distance from, since no atom is selected before it"
    )]
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

impl fmt::Display for MaskWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no atom is selected"),
            Self::Union { column } => write!(
                f,
                "column {column}: this selector adds to the one before it; write `&` between them \
                 for what is in both, or `|` if this is meant"
            ),
            Self::AfterWildcard { column } => {
                write!(
                    f,
                    "column {column}: what follows `*` in a name has no effect, for `*` takes any \
                     rest"
                )
            }
            Self::MarkerInList { column } => write!(
                f,
                "column {column}: `%` and `/` mark types and elements only right after `@`; this \
                 looks for a name"
            ),
            Self::OtherName { column, kind, name, instead } => {
                write!(
                    f,
                    "column {column}: no {} is named {name}, but some are named {instead}",
                    kind.noun()
                )
            }
            Self::Stem { column, name } => {
                write!(
                    f,
                    "column {column}: takes {name} as well; write `\\*` or `'` to tell the two \
                     apart"
                )
            }
            Self::BeyondEnd { column, kind, last } => {
                write!(f, "column {column}: starts after the last {}, number {last}", kind.noun())
            }
            Self::Numbered { column, range, counted, named, number, chain } => {
                let (first, last) = (range.start(), range.end());
                let range =
                    if first == last { first.to_string() } else { format!("{first}-{last}") };
                write!(f, "column {column}: `:{range}` counts residues from the first")?;
                if let Some(counted) = counted {
                    write!(f, ", to {counted}")?;
                }
                write!(f, "; {named}, number {number} of the file, is `")?;
                // Others, of the solvent for instance, have the number too.
                if let Some(chain) = chain {
                    write!(f, "::{chain}&")?;
                }
                write!(f, ":;{range}`")
            }
            Self::CountedIntoSolvent { column, number, counted, last, last_label } => write!(
                f,
                "column {column}: `:{number}` counts residues from the first, to {counted}; the last \
                 before it that is no water or ion is {last_label}, `:{last}`"
            ),
            Self::NoChain { column, name, chains } => {
                write!(f, "column {column}: there is no chain {name}; there ")?;
                match chains.as_slice() {
                    [one] => write!(f, "is {one}"),
                    [some @ .., last] if some.len() < MOST_CHAINS => {
                        write!(f, "are {} and {last}", some.join(", "))
                    }
                    many => {
                        let (some, others) = many.split_at(MOST_CHAINS);
                        write!(f, "are {} and {} others", some.join(", "), others.len())
                    }
                }
            }
            Self::Unknown { kind } => match kind {
                Kind::Molecule => {
                    f.write_str("the topology has no bonds, so each atom is a molecule of its own")
                }
                _ => write!(f, "the topology does not have the {} of its atoms", kind.noun()),
            },
        }
    }
}
