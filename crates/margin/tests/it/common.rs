//! Stores and jobs for the tests.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use molbox_margin::{DataFormat, Error, File, Report, Request, Run, Store, Violation, sample};
use serde_json::{Value, json};

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
    let prices: Vec<_> =
        prices.iter().map(|text| File { name: "prices.csv", bytes: text.as_bytes() }).collect();
    let contracts = File { name: "contracts.csv", bytes: contracts.as_bytes() };
    Store::parse(contracts, &prices, Some(File { name: "fx.csv", bytes: fx.as_bytes() }), "USD")
}

/// A job on the sample of 2024 with these positions: ticker, contracts, negative for short.
pub(crate) fn job(positions: &[(&str, f64)]) -> Value {
    let position = |(ticker, n): &(&str, f64)| {
        json!({
            "ticker": ticker, "type": if *n < 0.0 { "short" } else { "long" }, "quantity": n.abs(),
        })
    };
    let futures: Vec<_> = positions.iter().map(position).collect();
    json!({
        "marginDate": "2024-12-31",
        "numScenarios": 1000,
        "settings": { "startDate": "2020-01-01" },
        "portfolio": { "futures": futures },
    })
}

/// `job` with some of its fields replaced.
pub(crate) fn with(mut job: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        job[name] = value.clone();
    }
    job
}

pub(crate) fn calculate(job: &Value, store: &Arc<Store>) -> Result<Report, Error> {
    Request::from_value(job, DataFormat::Json, store)?.calculate(Run::default())
}

/// The margin of a job on the sample.
pub(crate) fn report(job: &Value) -> Report {
    calculate(job, &store("sample")).unwrap()
}

/// What a request is refused for.
pub(crate) fn refused(result: Result<impl Sized, Error>) -> Vec<Violation> {
    match result {
        Err(Error::Refused(violations)) => violations,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

/// The places and types of violations, `numScenarios type_error`.
pub(crate) fn summary(violations: &[Violation]) -> Vec<String> {
    let place =
        |violation: &Violation| violation.to_string().split(": ").next().unwrap().to_owned();
    let without_body =
        |place: String| place.trim_start_matches("body").trim_start_matches('.').to_owned();
    violations
        .iter()
        .map(|violation| format!("{} {}", without_body(place(violation)), violation.kind))
        .collect()
}
