//! Force fields, as a registration checks them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| molbox_service::fuzzing::upload(content, "xml"));
