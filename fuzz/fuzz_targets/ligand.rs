//! Ligands: SDF, MOL and MOL2, as a registration checks them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    for format in ["sdf", "mol", "mol2"] {
        molbox_service::fuzzing::upload(content, format);
    }
});
