//! XTC files, read to their last frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::{Trajectory, Xtc};

fuzz_target!(
    // The decoder panics where data are damaged, and its caller expects that.
    init: molbox_fuzz::allow_caught_panics("/molly-"),
    |bytes: &[u8]| molbox_fuzz::trajectory(bytes, Xtc::open, Trajectory::Xtc)
);
