//! What is asked of a trajectory.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use crate::cluster::Clusters;
use crate::contact::Contacts;
use crate::density::Density;
use crate::dihedral::Dihedrals;
use crate::distance::Distance;
use crate::end_to_end::EndToEnd;
use crate::frames::FrameRange;
use crate::group::{Group, ImageGroup, Weights};
use crate::gyration::Gyration;
use crate::hbond::HydrogenBonds;
use crate::membrane::Membrane;
use crate::native::NativeContacts;
use crate::principal::PrincipalComponents;
use crate::rdf::Rdf;
use crate::reference::Reference;
use crate::rmsd::Rmsd;
use crate::rmsf::Rmsf;
use crate::secondary::SecondaryStructure;
use crate::setup::Setup;
use crate::surface::SurfaceArea;
use crate::task::AnyTask;
use crate::{AtomSet, Error, Topology};

/// Analyses to be made in one pass over a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What to compute; each gives a table or more.
    pub analyses: Vec<Analysis>,
    /// Which frames are analysed.
    pub frames: FrameRange,
    /// Where RMSD are measured from, in place of the first analysed frame.
    pub reference: Option<Reference>,
    /// Which periodic images are taken.
    pub images: Images,
    /// What becomes of damaged frames.
    pub damaged: Damaged,
}

/// One analysis.
#[derive(Clone, Debug, PartialEq)]
pub enum Analysis {
    /// Deviations of frames from each other, and clusters of them.
    Clusters(Clusters),
    /// Contacts between two groups.
    Contacts(Contacts),
    /// Densities along an axis.
    Density(Density),
    /// Dihedral angles.
    Dihedrals(Dihedrals),
    /// Distance of two centres.
    Distance(Distance),
    /// Distance of the ends of a chain.
    EndToEnd(EndToEnd),
    /// Radius of gyration.
    Gyration(Gyration),
    /// Hydrogen bonds.
    HydrogenBonds(HydrogenBonds),
    /// Area, thickness and order of a bilayer.
    Membrane(Membrane),
    /// Fraction of native contacts.
    NativeContacts(NativeContacts),
    /// Principal components.
    PrincipalComponents(PrincipalComponents),
    /// Radial distribution function.
    Rdf(Rdf),
    /// Deviation from the first frame or a reference.
    Rmsd(Rmsd),
    /// Fluctuation about the mean.
    Rmsf(Rmsf),
    /// Secondary structure.
    SecondaryStructure(SecondaryStructure),
    /// Solvent-accessible surface area.
    SurfaceArea(SurfaceArea),
}

/// How an analysis is to run.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Threads that read and compute; the results do not depend on it.
    pub n_threads: NonZeroUsize,
    /// Called now and then with the frames done and the frames to do, over all passes.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Set from elsewhere to stop early.
    pub cancelled: &'a AtomicBool,
}

/// Which periodic image of a molecule is taken where an analysis depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// Broken molecules are made whole, and those that jump are unwrapped: moved by whole cell
    /// vectors, each centre into the image that is nearest to where it was in the frame before.
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
    /// They are left out, which a [warning](Warning::LeftOut) reports. It takes a pass over the
    /// files to find them.
    LeaveOut,
}

impl Request {
    /// The atoms whose images depend on each other, with the analysis they belong to.
    pub(crate) fn image_groups(&self) -> impl Iterator<Item = (usize, ImageGroup)> {
        let analyses = self.analyses.iter().enumerate();
        analyses.flat_map(|(idx, analysis)| {
            analysis.image_groups().into_iter().map(move |image_groups| (idx, image_groups))
        })
    }

    /// Groups whose atoms weigh what their masses are, with the analysis they belong to.
    pub(crate) fn groups_by_mass(&self) -> impl Iterator<Item = (usize, &Group)> {
        let analyses = self
            .analyses
            .iter()
            .enumerate()
            .filter(|(_, analysis)| analysis.weights() == Weights::Mass);
        analyses.flat_map(|(idx, analysis)| {
            analysis.groups().into_iter().map(move |group| (idx, group))
        })
    }
}

impl Analysis {
    fn weights(&self) -> Weights {
        match self {
            Self::Distance(Distance { weights, .. })
            | Self::Gyration(Gyration { weights, .. })
            | Self::Rmsd(Rmsd { weights, .. }) => *weights,
            Self::Clusters(_)
            | Self::Contacts(_)
            | Self::Density(_)
            | Self::Dihedrals(_)
            | Self::EndToEnd(_)
            | Self::HydrogenBonds(_)
            | Self::Membrane(_)
            | Self::NativeContacts(_)
            | Self::PrincipalComponents(_)
            | Self::Rdf(_)
            | Self::Rmsf(_)
            | Self::SecondaryStructure(_)
            | Self::SurfaceArea(_) => Weights::Equal,
        }
    }

    pub(crate) fn groups(&self) -> Vec<&Group> {
        match self {
            Self::Contacts(Contacts { a, b, .. })
            | Self::Distance(Distance { a, b, .. })
            | Self::NativeContacts(NativeContacts { a, b, .. })
            | Self::Rdf(Rdf { a, b, .. }) => vec![a, b],
            Self::Clusters(Clusters { group, .. })
            | Self::Dihedrals(Dihedrals { group, .. })
            | Self::EndToEnd(EndToEnd { group })
            | Self::Membrane(Membrane { group, .. })
            | Self::PrincipalComponents(PrincipalComponents { group, .. })
            | Self::Gyration(Gyration { group, .. })
            | Self::SecondaryStructure(SecondaryStructure { group })
            | Self::SurfaceArea(SurfaceArea { group, .. }) => vec![group],
            Self::Density(Density { group, centre, .. }) => vec![group, centre],
            Self::HydrogenBonds(bonds) => bonds.groups(),
            Self::Rmsf(Rmsf { group, fit, .. }) => fit.iter().chain([group]).collect(),
            Self::Rmsd(Rmsd { fit, measures, .. }) => fit.iter().chain(measures).collect(),
        }
    }

    /// The atoms of which it needs coordinates.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        match self {
            Self::Dihedrals(dihedrals) => return dihedrals.atoms(topology),
            Self::HydrogenBonds(bonds) => return bonds.atoms(topology),
            Self::Membrane(membrane) => return membrane.atoms(topology),
            Self::NativeContacts(contacts) => return contacts.atoms(topology),
            Self::SecondaryStructure(structure) => return structure.atoms(topology),
            _ => {}
        }
        let mut atoms = AtomSet::none(topology.n_atoms());
        self.groups().into_iter().for_each(|group| atoms.union_with(&group.atoms));
        atoms
    }

    fn image_groups(&self) -> Vec<ImageGroup> {
        match self {
            Self::Distance(Distance { a, b, .. }) => vec![ImageGroup::of(a), ImageGroup::of(b)],
            Self::Clusters(clusters) => vec![clusters.image_group()],
            Self::PrincipalComponents(components) => vec![components.image_group()],
            Self::EndToEnd(ends) => vec![ends.image_group()],
            Self::Gyration(gyration) => vec![ImageGroup::of(&gyration.group)],
            Self::Contacts(_)
            | Self::Density(_)
            | Self::Dihedrals(_)
            | Self::HydrogenBonds(_)
            | Self::Membrane(_)
            | Self::NativeContacts(_)
            | Self::Rdf(_)
            | Self::SecondaryStructure(_)
            | Self::SurfaceArea(_) => Vec::new(),
            Self::Rmsd(rmsd) => rmsd.image_group().into_iter().collect(),
            Self::Rmsf(rmsf) => vec![rmsf.image_group()],
        }
    }

    /// Of how many analysed frames one is kept, where the results would else be too many, and what
    /// is measured.
    pub(crate) fn thinned(
        &self,
        n_analyzed: usize,
        topology: &Topology,
    ) -> Option<(usize, String)> {
        let (step, label) = match self {
            Self::Clusters(clusters) => (clusters.step(n_analyzed), &clusters.group.label),
            Self::Dihedrals(dihedrals) => {
                (dihedrals.step(n_analyzed, topology), &dihedrals.group.label)
            }
            _ => return None,
        };
        (step > 1).then(|| (step, label.clone()))
    }

    pub(crate) fn task(
        &self,
        setup: &Setup<'_>,
        reference: Option<&Reference>,
        idx: usize,
    ) -> Result<Box<dyn AnyTask>, Error> {
        Ok(match self {
            Self::Clusters(clusters) => Box::new(clusters.task(setup, idx)?),
            Self::Contacts(contacts) => Box::new(contacts.task(setup, idx)?),
            Self::Density(density) => Box::new(density.task(setup, idx)?),
            Self::Dihedrals(dihedrals) => Box::new(dihedrals.task(setup, idx)?),
            Self::Distance(distance) => Box::new(distance.task(setup)?),
            Self::EndToEnd(ends) => Box::new(ends.task(setup, idx)?),
            Self::Gyration(gyration) => Box::new(gyration.task(setup)?),
            Self::HydrogenBonds(bonds) => Box::new(bonds.task(setup, idx)?),
            Self::Membrane(membrane) => Box::new(membrane.task(setup, idx)?),
            Self::NativeContacts(contacts) => Box::new(contacts.task(setup, reference, idx)?),
            Self::PrincipalComponents(components) => Box::new(components.task(setup, idx)?),
            Self::Rdf(rdf) => Box::new(rdf.task(setup, idx)?),
            Self::Rmsd(rmsd) => Box::new(rmsd.task(setup, reference, idx)?),
            Self::Rmsf(rmsf) => Box::new(rmsf.task(setup, idx)?),
            Self::SecondaryStructure(structure) => Box::new(structure.task(setup, idx)?),
            Self::SurfaceArea(surface) => Box::new(surface.task(setup, idx)?),
        })
    }
}
