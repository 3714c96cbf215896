//! Trajectory analysis: topology and trajectory in, numbers out.
//!
//! The crate touches nothing but its arguments and the files it is handed: no network, clock,
//! environment or printing. The same input gives the same bits, whatever the number of threads.
//!
//! Lengths are in Å, angles in degrees, masses in Da, times in ps, everywhere.

mod atom_set;
mod cell;
mod cluster;
mod contact;
mod convergence;
mod density;
mod dihedral;
mod distance;
mod eigen;
mod element;
mod end_to_end;
mod episodes;
mod error;
mod frames;
mod group;
mod gyration;
mod hbond;
mod images;
mod linkage;
mod mask;
mod matching;
mod membrane;
mod mmcif;
mod native;
mod neighbours;
mod parallel;
mod params;
mod part;
mod pdb;
mod points;
mod prepare;
mod principal;
mod rdf;
mod read;
mod reference;
mod request;
mod residues;
mod rmsd;
mod rmsf;
mod run;
mod secondary;
mod setup;
mod source;
mod superpose;
mod surface;
mod table;
mod task;
mod topology;
mod violation;
mod warning;
mod write;

pub use atom_set::AtomSet;
pub use cell::Cell;
pub use cluster::{Clustering, Clusters};
pub use contact::Contacts;
pub use convergence::{
    Equilibration, SettledMean, block_error, equilibration, statistical_inefficiency,
};
pub use density::{Axis, Density};
pub use dihedral::{DihedralKind, Dihedrals};
pub use distance::Distance;
pub use element::Element;
pub use end_to_end::EndToEnd;
pub use error::{Damage, Error, FormatError, FormatErrorKind, Place};
pub use frames::FrameRange;
pub use group::{Group, Weights};
pub use gyration::Gyration;
pub use hbond::{Between, Criterion, HydrogenBonds};
pub use linkage::{Cut, Linkage};
pub use mask::{
    Expected, Kind, Mask, MaskWarning, ParseError, SelectError, Selection, WithoutImages,
};
pub use matching::ReferenceStructure;
pub use membrane::Membrane;
pub use mmcif::MmcifWriter;
pub use native::NativeContacts;
pub use params::{Files, Params, Parsed, Selected, analyze_files};
pub use part::{Part, parts};
pub use principal::PrincipalComponents;
pub use rdf::Rdf;
pub use read::{
    ChainContents, Contents, Dcd, Excerpt, Frame, Heterogen, MissingPlace, MissingRun, Netcdf,
    Overlap, ReadPlan, ResidueKind, Series, Structure, TopologyFile, Trajectory, Trr, Xtc,
    XtcIndex,
};
pub use reference::{Reference, first_positions, frame_positions};
pub use request::{Analysis, Control, Damaged, Images, Request};
pub use residues::{AxisResidue, Fold, ResidueAxis};
pub use rmsd::Rmsd;
pub use rmsf::{Rmsf, Superpose};
pub use run::{Report, analyze};
pub use secondary::SecondaryStructure;
pub use surface::{PROBE_RADIUS, SurfaceArea};
pub use table::{Column, Table, TableGroup, Values};
pub use topology::{Atom, InvalidTopology, Residue, Topology};
pub use violation::{Field, InvalidParams, Violation, ViolationKind};
pub use warning::Warning;
