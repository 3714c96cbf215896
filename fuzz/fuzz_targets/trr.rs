//! TRR files, read to their last frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::{Trajectory, Trr};

fuzz_target!(|bytes: &[u8]| molbox_fuzz::trajectory(bytes, Trr::open, Trajectory::Trr));
