//! Mask text: parsed, and applied to a peptide in water.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use molbox_analysis::{Mask, Structure};

static PEPTIDE: LazyLock<Structure> = LazyLock::new(|| {
    let text = include_str!("../../examples/1vii.pdb");
    Structure::from_pdb(text).expect("a structure of the examples")
});

fuzz_target!(|text: &str| {
    if let Ok(mask) = Mask::parse(text) {
        // What is printed is the same mask.
        let again = Mask::parse(&mask.to_string()).expect("a printed mask is a mask");
        let select = |mask: &Mask| mask.select(&PEPTIDE.topology, Some(&PEPTIDE.positions)).map(|s| s.atoms);
        assert_eq!(select(&mask).ok(), select(&again).ok(), "{text:?} {mask}");
    }
});
