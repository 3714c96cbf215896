//! Amber's prmtop files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::Topology;

fuzz_target!(|text: &str| {
    if let Ok(topology) = Topology::from_prmtop(text) {
        molbox_fuzz::topology(&topology);
    }
});
