//! DCD files, read to their last frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::{Dcd, Trajectory};

fuzz_target!(|bytes: &[u8]| molbox_fuzz::trajectory(bytes, Dcd::open, Trajectory::Dcd));
