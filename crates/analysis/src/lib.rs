//! Trajectory analysis: topology and trajectory in, numbers out.
//!
//! The crate touches nothing but its arguments and the files it is handed: no network, clock,
//! environment or printing. The same input gives the same bits, whatever the number of threads.
//!
//! Lengths are in Å, angles in degrees, masses in Da, times in ps, everywhere.

pub mod atom_set;
pub mod cell;
pub mod contact;
pub mod distance;
pub mod element;
mod episodes;
pub mod error;
mod frames;
pub mod gyration;
pub mod hbond;
pub mod mask;
mod neighbours;
mod notice;
pub mod params;
mod points;
pub mod read;
pub mod request;
pub mod rmsd;
pub mod rmsf;
pub mod run;
pub mod secondary;
mod setup;
mod source;
mod superpose;
pub mod surface;
pub mod table;
mod task;
pub mod topology;
mod write;

pub use atom_set::AtomSet;
pub use cell::Cell;
pub use element::Element;
pub use error::Error;
pub use mask::Mask;
pub use params::{Params, analyze_files};
pub use request::{Analysis, Group, Request};
pub use run::{Control, Report, analyze};
pub use topology::Topology;
