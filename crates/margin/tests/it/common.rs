//! Stores for the tests.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use molbox_margin::{Error, File, Store, sample};

pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The store that a case names.
pub(crate) fn store(name: &str) -> Arc<Store> {
    static SAMPLE: LazyLock<Arc<Store>> = LazyLock::new(|| {
        let [contracts, prices, fx] = sample::files();
        store_of(&contracts.1, &prices.1, &fx.1)
    });
    match name {
        "sample" => SAMPLE.clone(),
        _ => Arc::new(Store::load(&folder("cases/stores").join(name), "USD").unwrap()),
    }
}

pub(crate) fn store_of(contracts: &str, prices: &str, fx: &str) -> Arc<Store> {
    Arc::new(parse(contracts, &[prices], fx).unwrap())
}

pub(crate) fn parse(contracts: &str, prices: &[&str], fx: &str) -> Result<Store, Error> {
    let prices: Vec<_> = prices.iter().map(|text| File { name: "prices.csv", bytes: text.as_bytes() }).collect();
    let contracts = File { name: "contracts.csv", bytes: contracts.as_bytes() };
    Store::parse(contracts, &prices, Some(File { name: "fx.csv", bytes: fx.as_bytes() }), "USD")
}
