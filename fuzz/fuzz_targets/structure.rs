//! Structure files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::read::Structure;

fuzz_target!(|text: &str| {
    for structure in [Structure::from_pdb(text), Structure::from_mmcif(text)].into_iter().flatten() {
        assert_eq!(structure.topology.n_atoms(), structure.positions.len());
    }
});
