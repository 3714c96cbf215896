//! The answer in its notations.

use serde_json::{Value, json};

use crate::common::{calculate, job, report, store_of, with};

const HEADER: &str = "ticker,positionType,currency,entryDate,entryMarketValue,currentMarketValue,initialMargin,\
                      maintenanceMargin,variationMargin,size,quantity,portfolioWeight";

#[test]
fn csv_has_the_documented_columns() {
    let csv = report(&job(&[("XEQ1", 1.5), ("XEQ4", -2.0)])).csv();
    assert!(csv.starts_with(&format!("{HEADER}\nXEQ1,long,USD,2024-12-30,")));
    assert!(csv.ends_with('\n') && !csv.contains('\r'));
    assert!(csv.lines().all(|line| line.split(',').count() == 12));
}

#[test]
fn an_empty_portfolio_has_a_report() {
    let empty = report(&json!({ "portfolio": { "futures": [] } }));
    assert_eq!(empty.csv(), format!("{HEADER}\n"));
    let expected = json!({ "rows": [], "summary": { "initialMargin": 0.0, "maintenanceMargin": 0.0 }, "warnings": [] });
    assert_eq!(serde_json::from_str::<Value>(&empty.json()).unwrap(), expected);
    assert_eq!(empty.margin_date, None);
}

#[test]
fn numbers_have_neither_exponents_nor_minus_zeros() {
    let csv = report(&job(&[("XEQ1", 0.0), ("XEQ1", -0.0), ("XCM1", 1e-9), ("XCM2", 1e18)])).csv();
    for cell in csv.lines().skip(1).flat_map(|line| line.split(',').skip(4)) {
        assert!(cell.parse::<f64>().unwrap().is_finite());
        assert!(!cell.contains(['e', 'E']) && cell != "-0", "{cell}");
    }
    assert!(csv.contains(",1000000000000000000,"));
}

#[test]
fn names_with_marks_of_a_notation_survive_it() {
    let name = "A, \"B\" <&> 'C': #";
    let contracts = "ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\n\"A, \"\"B\"\" <&> 'C': #\",USD,1,absolute,,\n";
    let rows: String =
        (2..6).map(|day| format!("2024-01-0{day},\"A, \"\"B\"\" <&> 'C': #\",{}\n", day * day)).collect();
    let store = store_of(contracts, &format!("date,ticker,settle\n{rows}"), "date,currency,rate\n");
    let fields = json!({ "marginDate": null, "settings": null, "volatilityLookbackDays": 1 });
    let report = calculate(&with(job(&[(name, 1.0)]), fields), &store).unwrap();
    let csv = report.csv();
    assert_eq!(&csv::Reader::from_reader(csv.as_bytes()).records().next().unwrap().unwrap()[0], name);
    let json: Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["rows"][0]["ticker"], name);
    assert!(json["summary"]["sigma"][name].is_number());
}
