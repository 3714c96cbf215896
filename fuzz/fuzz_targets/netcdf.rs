//! Amber's NetCDF files, read to their last frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::{Netcdf, Trajectory};

fuzz_target!(|bytes: &[u8]| molbox_fuzz::trajectory(bytes, Netcdf::open, Trajectory::Netcdf));
