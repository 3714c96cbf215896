//! mmCIF files. The check of a registration, which keeps no atoms, agrees with the reader.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_analysis::Structure;

fuzz_target!(|text: &str| {
    let read = Structure::from_mmcif(text);
    let checked = Structure::check_mmcif(text, usize::MAX);
    assert_eq!(read.as_ref().err(), checked.as_ref().err());
    if let Ok(structure) = read {
        molbox_fuzz::structure(&structure);
    }
});
