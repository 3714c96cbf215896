//! Trajectory files, read to their last frame.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use molbox_analysis::AtomSet;
use molbox_analysis::read::{Frame, Trajectory};

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("molbox-fuzz-{}", std::process::id()));
    fs::write(&path, bytes).expect("a file of some bytes");
    if let Ok(trajectory) = Trajectory::open(&path) {
        // Memory is bounded by what a file of this size can hold.
        assert!(trajectory.n_atoms() <= bytes.len() && trajectory.n_frames() <= bytes.len());
        let window = trajectory.window(&AtomSet::all(trajectory.n_atoms()));
        let mut frame = Frame::new();
        for index in 0..trajectory.n_frames() {
            if trajectory.read(index, &window, &mut frame).is_ok() {
                assert_eq!(frame.x().len(), window.n_slots());
            }
        }
    }
});
