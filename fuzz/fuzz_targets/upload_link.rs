//! Upload links: the file and the query of one. None but the one that was made is good.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|link: &str| molbox_service::fuzzing::upload_link(link));
