//! Market data: three files, separated by a line of dashes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use molbox_margin::{File, Store};

fuzz_target!(|text: &str| {
    let mut parts = text.splitn(3, "---\n");
    let mut part = |name| File { name, bytes: parts.next().unwrap_or_default().as_bytes() };
    let (contracts, prices, fx) = (part("contracts.csv"), part("prices.csv"), part("fx.csv"));
    // Either way; what matters is that it comes back.
    let _ = Store::parse(contracts, &[prices], Some(fx), "USD");
});
