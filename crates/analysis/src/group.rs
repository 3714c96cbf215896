//! Atoms by name: what is measured, and what its atoms weigh.

use crate::atom_set::AtomSet;
use crate::mask::{Mask, MaskWarning, SelectError, Selection};
use crate::topology::Topology;

/// Atoms, and what results call them.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// As a rule the mask that selected them.
    pub label: String,
    /// The atoms.
    pub atoms: AtomSet,
}

/// What counts how much in a centre, a superposition or a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// All atoms the same.
    #[default]
    Equal,
    /// Each atom its mass.
    Mass,
}

/// Atoms whose images depend on each other.
pub(crate) struct ImageGroup {
    pub(crate) atoms: AtomSet,
    pub(crate) label: String,
    /// Whether their place in space matters too, as it does where nothing is superposed.
    pub(crate) in_place: bool,
}

impl ImageGroup {
    pub(crate) fn of(group: &Group) -> Self {
        Self { atoms: group.atoms.clone(), label: group.label.clone(), in_place: false }
    }

    /// Adds a group that is superposed or measured with those before.
    pub(crate) fn add(&mut self, group: &Group) {
        if !group.atoms.is_subset(&self.atoms) {
            self.atoms.union_with(&group.atoms);
            self.label = format!("{}, {}", self.label, group.label);
        }
    }
}

impl Weights {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Equal => "equal weights",
            Self::Mass => "mass",
        }
    }
}

impl Group {
    /// The atoms that a mask selects, and what it warns of.
    ///
    /// # Errors
    ///
    /// See [`Mask::select`].
    pub fn select(
        mask: &Mask,
        topology: &Topology,
        positions: Option<&[[f64; 3]]>,
    ) -> Result<(Self, Vec<MaskWarning>), SelectError> {
        let Selection { atoms, warnings } = mask.select(topology, positions)?;
        Ok((Self { label: mask.to_string(), atoms }, warnings))
    }

    /// All molecules but water and single atoms.
    pub fn solute(topology: &Topology) -> Self {
        Self { label: "solute".to_owned(), atoms: topology.solute() }
    }
}
