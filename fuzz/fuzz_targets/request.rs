//! Request bodies, against every operation that takes one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| molbox_service::fuzzing::request(bytes));
