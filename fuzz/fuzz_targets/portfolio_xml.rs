//! Portfolios in XML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_margin::DataFormat;

fuzz_target!(|document: &[u8]| molbox_fuzz::portfolio(document, DataFormat::Xml));
