//! Portfolios: the first byte chooses the format and the way in.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use molbox_margin::{DataFormat, File, Request, Run, Store};
use serde_json::json;

const FORMATS: [DataFormat; 5] =
    [DataFormat::Csv, DataFormat::Json, DataFormat::Yaml, DataFormat::Xml, DataFormat::Fpml];

static STORE: LazyLock<Arc<Store>> = LazyLock::new(|| {
    let contracts = "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate\n\
                     A,A,X,USD,10,1,absolute,,\nB,B,X,USD,5,1,log,,\n";
    let mut prices = String::from("date,ticker,settle\n");
    for day in 1..29 {
        prices += &format!("2024-02-{day:02},A,{}\n2024-02-{day:02},B,{}\n", 100 + day % 3, 50 + day % 5);
    }
    let file = |name, text: &'static str| File { name, bytes: text.as_bytes() };
    let prices = File { name: "prices.csv", bytes: prices.as_bytes() };
    Arc::new(Store::parse(file("contracts.csv", contracts), &[prices], None, "USD").expect("good data"))
});

fuzz_target!(|bytes: &[u8]| {
    let Some((which, document)) = bytes.split_first() else { return };
    let format = FORMATS[usize::from(*which) % 5];
    let job = json!({ "numScenarios": 10 });
    let request = match which / 5 % 3 {
        0 => Request::from_json(document, format, &STORE),
        1 => Request::from_parts(&job, document, format, &STORE),
        _ => Request::from_document(document, format, [("numScenarios", "10")], &STORE),
    };
    // Its own size is bounded elsewhere.
    if let Ok(request) = request
        && document.len() < 2000
        && !document.windows(5).any(|w| w.iter().all(u8::is_ascii_digit))
    {
        let report = request.calculate(Run::default()).expect("what was accepted can be calculated");
        assert!(report.summary.initial_margin >= 0.0);
    }
});
