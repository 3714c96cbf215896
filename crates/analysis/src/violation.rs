//! What is wrong with parameters, and where.

use std::fmt;

use crate::mask::{MaskWarning, ParseError, SelectError};

/// A place in [`Params`](crate::Params): a field, and in lists the index, counted from 0, at each
/// level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// Indexes into it.
    pub indexes: Vec<usize>,
}

/// All that is wrong with parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidParams(pub Vec<Violation>);

/// What is wrong at a place in parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct Violation {
    /// Where.
    pub at: Field,
    /// What.
    pub kind: ViolationKind,
}

/// What can be wrong with a parameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ViolationKind {
    /// A text is no mask.
    #[error(transparent)]
    Parse(ParseError),
    /// A mask cannot be applied.
    #[error(transparent)]
    Select(SelectError),
    /// A mask selects nothing, and what that may come from.
    #[error("{mask:?} selects no atom{}", hints(.warnings))]
    Empty {
        /// The mask.
        mask: String,
        /// Why, perhaps.
        warnings: Vec<MaskWarning>,
    },
    /// A distance needs two masks.
    #[error("a distance is between two masks, and here {n_masks} of them stand together")]
    NotTwo {
        /// Masks in the string.
        n_masks: usize,
    },
    /// What is looked for within a mask or between two has more.
    #[error("one mask or two are needed, and here {n_masks} of them stand together")]
    NotOneOrTwo {
        /// Masks in the string.
        n_masks: usize,
    },
    /// Water on both sides, each pair of molecules of which would be a row.
    #[error(
        "{n_waters} molecules of water are on both sides, at most {limit} may be; leave water out, or make it one \
         of two masks"
    )]
    MuchWater {
        /// Molecules on the side that has fewer.
        n_waters: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Residues without a backbone have no secondary structure.
    #[error(
        "{mask:?} selects no residue with atoms N, CA, C and O, so that there is no secondary structure"
    )]
    NoBackbone {
        /// The mask.
        mask: String,
    },
    /// Residues of which none has a dihedral angle that is asked for.
    #[error(
        "{mask:?} selects no residue with an angle of `dihedral_angles`; take residues of a protein, with their \
         neighbours in the chain, or other angles"
    )]
    NoDihedral {
        /// The mask.
        mask: String,
    },
    /// More atoms than a covariance is made of.
    #[error(
        "{mask:?} selects {n_atoms} atoms, at most {limit} may be; take α-carbons, as by `@CA`, or a part"
    )]
    ManyAtoms {
        /// The mask.
        mask: String,
        /// Atoms that it selects.
        n_atoms: usize,
        /// How many there may be.
        limit: usize,
    },
    /// One atom has no distance from itself.
    #[error("{mask:?} selects one atom, which is at no distance from itself; give a second mask")]
    SameAtom {
        /// The mask.
        mask: String,
    },
    /// Nothing is asked for that the field applies to.
    #[error("has no effect without `{needs}`; give these, or leave it out")]
    Unused {
        /// The field that it applies to.
        needs: &'static str,
    },
    /// An atom is not the same in the reference.
    #[error("{atom} {problem}")]
    Unmatched {
        /// The atom, the residue or the mask.
        atom: String,
        /// What is the matter with it.
        problem: String,
    },
    /// A single mask has no other to pair with.
    #[error("a single mask is paired with the next single one, and there is none")]
    Unpaired,
    /// A list of masks is empty.
    #[error("no mask")]
    NoMask,
    /// One atom is superposed on itself exactly, so that nothing is measured.
    #[error(
        "{mask:?} selects one atom, which has no other to be superposed with or measured from; take two or more"
    )]
    OneAtom {
        /// The mask.
        mask: String,
    },
    /// There is nothing that could make a hydrogen bond.
    #[error("{label} has {problem}, so that there is no hydrogen bond to look for")]
    NoHydrogenBonds {
        /// The group.
        label: String,
        /// What it lacks.
        problem: &'static str,
    },
    /// A number is out of its bounds.
    #[error("must be {0}")]
    Bounds(&'static str),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.indexes.iter().try_for_each(|index| write!(f, "[{index}]"))
    }
}

fn hints(warnings: &[MaskWarning]) -> String {
    warnings.iter().map(|warning| format!("; {warning}")).collect()
}
