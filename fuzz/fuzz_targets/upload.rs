//! Registered files: the first byte chooses the format.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((which, content)) = bytes.split_first() {
        molbox_service::fuzzing::upload(*which, content);
    }
});
