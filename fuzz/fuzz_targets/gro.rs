//! GRO files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::Structure;

fuzz_target!(|text: &str| {
    if let Ok(structure) = Structure::from_gro(text) {
        molbox_fuzz::structure(&structure);
    }
});
