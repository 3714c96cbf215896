//! What is asked of a trajectory.

use std::num::NonZeroUsize;

use crate::contact::Contacts;
use crate::distance::Distance;
use crate::gyration::Gyration;
use crate::hbond::HydrogenBonds;
use crate::mask::{Mask, SelectError, Selection, Warning};
use crate::rmsd::Rmsd;
use crate::rmsf::Rmsf;
use crate::secondary::SecondaryStructure;
use crate::setup::{Setup, Together};
use crate::surface::SurfaceArea;
use crate::task::AnyTask;
use crate::{AtomSet, Error, Topology};

/// Analyses to be made in one pass over a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What to compute; each gives a table or more.
    pub analyses: Vec<Analysis>,
    /// Frames 0, `stride`, 2 `stride` and so on are analysed.
    pub stride: NonZeroUsize,
    /// Which periodic images are taken.
    pub images: Images,
    /// What becomes of damaged frames.
    pub damaged: Damaged,
}

/// One analysis.
#[derive(Clone, Debug, PartialEq)]
pub enum Analysis {
    /// Contacts between two groups.
    Contacts(Contacts),
    /// Distance of two centres.
    Distance(Distance),
    /// Radius of gyration.
    Gyration(Gyration),
    /// Hydrogen bonds.
    HydrogenBonds(HydrogenBonds),
    /// Deviation from the first frame.
    Rmsd(Rmsd),
    /// Fluctuation about the mean.
    Rmsf(Rmsf),
    /// Secondary structure.
    SecondaryStructure(SecondaryStructure),
    /// Solvent-accessible surface area.
    SurfaceArea(SurfaceArea),
}

/// Which periodic image of a molecule is taken where an analysis depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// Molecules in pieces are put together, and those that jump are moved by whole cell vectors so
    /// that the centre of each moves less than half a cell from one frame to the next.
    #[default]
    Unwrapped,
    /// Coordinates are taken as they stand in the file.
    AsWritten,
}

/// What becomes of frames that cannot be read or whose numbers cannot be positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damaged {
    /// The first of them ends the analysis.
    #[default]
    Fail,
    /// They are left out, which a [`Notice`](crate::run::Notice) tells. It takes a pass over the files
    /// to find them.
    LeaveOut,
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

/// Atoms, and what results call them.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// As a rule the mask that selected them.
    pub label: String,
    /// The atoms.
    pub atoms: AtomSet,
}

impl Request {
    /// The atoms whose images depend on each other, with the analysis they belong to.
    pub(crate) fn together(&self) -> impl Iterator<Item = (usize, Together)> {
        let analyses = self.analyses.iter().enumerate();
        analyses.flat_map(|(idx, analysis)| analysis.together().into_iter().map(move |together| (idx, together)))
    }

    /// Groups whose atoms weigh what their masses are, with the analysis they belong to.
    pub(crate) fn groups_by_mass(&self) -> impl Iterator<Item = (usize, &Group)> {
        let analyses = self.analyses.iter().enumerate().filter(|(_, analysis)| analysis.weights() == Weights::Mass);
        analyses.flat_map(|(idx, analysis)| analysis.groups().into_iter().map(move |group| (idx, group)))
    }
}

impl Analysis {
    fn weights(&self) -> Weights {
        match self {
            Self::Distance(Distance { weights, .. })
            | Self::Gyration(Gyration { weights, .. })
            | Self::Rmsd(Rmsd { weights, .. }) => *weights,
            Self::Contacts(_)
            | Self::HydrogenBonds(_)
            | Self::Rmsf(_)
            | Self::SecondaryStructure(_)
            | Self::SurfaceArea(_) => Weights::Equal,
        }
    }

    pub(crate) fn groups(&self) -> Vec<&Group> {
        match self {
            Self::Contacts(Contacts { a, b, .. }) | Self::Distance(Distance { a, b, .. }) => vec![a, b],
            Self::Gyration(Gyration { group, .. })
            | Self::Rmsf(Rmsf { group, .. })
            | Self::SecondaryStructure(SecondaryStructure { group })
            | Self::SurfaceArea(SurfaceArea { group, .. }) => vec![group],
            Self::HydrogenBonds(bonds) => bonds.groups(),
            Self::Rmsd(Rmsd { fit, measures, .. }) => fit.iter().chain(measures).collect(),
        }
    }

    /// The atoms of which it needs coordinates.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        match self {
            Self::HydrogenBonds(bonds) => return bonds.atoms(topology),
            Self::SecondaryStructure(structure) => return structure.atoms(topology),
            _ => {}
        }
        let mut atoms = AtomSet::none(topology.n_atoms());
        self.groups().into_iter().for_each(|group| atoms.union_with(&group.atoms));
        atoms
    }

    fn together(&self) -> Vec<Together> {
        match self {
            Self::Distance(Distance { a, b, .. }) => vec![Together::of(a), Together::of(b)],
            Self::Gyration(gyration) => vec![Together::of(&gyration.group)],
            Self::Contacts(_) | Self::HydrogenBonds(_) | Self::SecondaryStructure(_) | Self::SurfaceArea(_) => {
                Vec::new()
            }
            Self::Rmsd(rmsd) => rmsd.together().into_iter().collect(),
            Self::Rmsf(rmsf) => vec![rmsf.together()],
        }
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, idx: usize) -> Result<Box<dyn AnyTask>, Error> {
        Ok(match self {
            Self::Contacts(contacts) => Box::new(contacts.task(setup, idx)?),
            Self::Distance(distance) => Box::new(distance.task(setup)?),
            Self::Gyration(gyration) => Box::new(gyration.task(setup)?),
            Self::HydrogenBonds(bonds) => Box::new(bonds.task(setup, idx)?),
            Self::Rmsd(rmsd) => Box::new(rmsd.task(setup, idx)?),
            Self::Rmsf(rmsf) => Box::new(rmsf.task(setup, idx)?),
            Self::SecondaryStructure(structure) => Box::new(structure.task(setup, idx)?),
            Self::SurfaceArea(surface) => Box::new(surface.task(setup, idx)?),
        })
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
    ) -> Result<(Self, Vec<Warning>), SelectError> {
        let Selection { atoms, warnings } = mask.select(topology, positions)?;
        Ok((Self { label: mask.to_string(), atoms }, warnings))
    }

    /// All molecules but water and single atoms.
    pub fn solute(topology: &Topology) -> Self {
        let mut n_atoms = vec![0_u32; topology.n_molecules()];
        (0..topology.n_atoms()).for_each(|atom| n_atoms[topology.molecule_of(atom)] += 1);
        let is_solute =
            |atom| n_atoms[topology.molecule_of(atom)] > 1 && !topology.is_water(topology.atom(atom).residue);
        Self { label: "solute".to_owned(), atoms: AtomSet::from_fn(topology.n_atoms(), is_solute) }
    }
}
