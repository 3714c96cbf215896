//! Page tokens: none but the one that was made is good, and any filter comes back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| molbox_service::fuzzing::page_token(text));
