//! What requests may say, and everything that they are refused for.

use std::sync::Arc;

use molbox_margin::{DataFormat, Request, Store, sample};
use serde_json::{Value, json};

use crate::common::{calculate, job, parse, refused, report, store, summary, with};

fn refusal(job: &Value) -> Vec<String> {
    refusal_on(job, &store("sample"))
}

fn refusal_on(job: &Value, store: &Arc<Store>) -> Vec<String> {
    summary(&refused(calculate(job, store)))
}

fn one() -> Value {
    job(&[("XEQ1", 1.0)])
}

/// A job with one position that has these fields.
fn position(fields: Value) -> Value {
    let mut job = one();
    job["portfolio"]["futures"][0] = with(job["portfolio"]["futures"][0].clone(), fields);
    job
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (field, values) in [
        ("numScenarios", json!([0, -1, 1_000_001, 10.5, 1e300])),
        ("timeHorizonDays", json!([0, 251, 2.5, -2])),
        ("volatilityLookbackDays", json!([0.5, 0, -250])),
        ("ewmaDecayFactor", json!([0, -0.97, 1.0001])),
        ("volatilityMultiplier", json!([0, -1])),
        ("seed", json!([1.5, 1e300])),
    ] {
        for value in values.as_array().unwrap() {
            assert_eq!(
                refusal(&with(one(), json!({ field: value }))),
                [format!("{field} value_error.number")],
                "{value}"
            );
        }
    }
    for quantity in [json!(-1), json!(-1e-300)] {
        let refused = refusal(&position(json!({ "quantity": quantity })));
        assert_eq!(refused, ["portfolio.futures[0].quantity value_error.number"]);
    }
}

#[test]
fn values_of_another_json_type_are_refused() {
    for field in [
        "numScenarios",
        "timeHorizonDays",
        "volatilityLookbackDays",
        "ewmaDecayFactor",
        "volatilityMultiplier",
        "seed",
    ] {
        for value in [json!("10"), json!(true), json!([10]), json!({})] {
            assert_eq!(
                refusal(&with(one(), json!({ field: value }))),
                [format!("{field} type_error")],
                "{value}"
            );
        }
    }
    assert_eq!(
        refusal(&with(one(), json!({ "marginDate": 20_241_231 }))),
        ["marginDate type_error"]
    );
    assert_eq!(refusal(&with(one(), json!({ "settings": [] }))), ["settings type_error"]);
    let settings = json!({ "startDate": 1, "addedDates": "2024-01-02", "excludedDates": [true] });
    let expected = [
        "settings.startDate type_error",
        "settings.addedDates type_error",
        "settings.excludedDates[0] type_error",
    ];
    assert_eq!(refusal(&with(one(), json!({ "settings": settings }))), expected);
    for (field, value) in [
        ("ticker", json!(1)),
        ("type", json!(true)),
        ("quantity", json!("NaN")),
        ("entryPrice", json!("1")),
    ] {
        assert_eq!(
            refusal(&position(json!({ field: value }))),
            [format!("portfolio.futures[0].{field} type_error")]
        );
    }
    assert_eq!(refusal(&json!([1])), [" type_error"]);
}

#[test]
fn malformed_dates_are_refused() {
    assert_eq!(
        refusal(&with(one(), json!({ "marginDate": "2024-02-30" }))),
        ["marginDate value_error.date"]
    );
    let settings = json!({ "startDate": "2024", "endDate": "tomorrow", "addedDates": ["2024-01-02", ""], "excludedDates": ["x"] });
    let expected = [
        "settings.startDate value_error.date",
        "settings.endDate value_error.date",
        "settings.addedDates[1] value_error.date",
        "settings.excludedDates[0] value_error.date",
    ];
    assert_eq!(refusal(&with(one(), json!({ "settings": settings }))), expected);
    assert_eq!(
        refusal(&position(json!({ "entryDate": "1/2/24" }))),
        ["portfolio.futures[0].entryDate value_error.date"]
    );
}

#[test]
fn missing_fields_of_a_position_are_refused() {
    for field in ["ticker", "type", "quantity"] {
        let expected = [format!("portfolio.futures[0].{field} value_error.missing")];
        assert_eq!(refusal(&position(json!({ field: null }))), expected);
    }
    for portfolio in [json!(null), json!({}), json!({ "futures": null })] {
        let refused = refusal(&with(one(), json!({ "portfolio": portfolio })));
        assert_eq!(refused, ["portfolio.futures value_error.missing"]);
    }
}

#[test]
fn tickers_that_cannot_be_valued_are_refused() {
    let odd = store("odd");
    let on = |ticker: &str, date: &str| {
        let job = with(job(&[(ticker, 1.0)]), json!({ "marginDate": date, "settings": null }));
        refusal_on(&job, &odd)
    };
    let ticker = |kind: &str| [format!("portfolio.futures[0].ticker value_error.{kind}")];
    assert_eq!(on("NONE", "2024-12-31"), ticker("unknown_ticker"));
    assert_eq!(on("EQC", "2023-06-01"), ticker("no_price"));
    assert_eq!(on("EQC", "2025-01-08"), ticker("no_price"));
    assert_eq!(on("OLD", "2024-12-31"), ticker("expired"));
    assert_eq!(on("NEG", "2024-12-31"), ticker("price"));
    assert_eq!(on("EQC", "2023-06-14"), ticker("history"));
    assert!(
        calculate(
            &with(job(&[("EQC", 1.0)]), json!({ "marginDate": "2025-01-07", "settings": null })),
            &odd
        )
        .is_ok()
    );
}

#[test]
fn a_missing_exchange_rate_is_refused_where_it_is_needed() {
    let [(_, contracts), (_, prices), (_, fx)] = sample::files();
    let without: String =
        fx.lines().filter(|line| !line.contains("JPY")).map(|line| format!("{line}\n")).collect();
    let store = Arc::new(parse(&contracts, &[&prices], &without).unwrap());
    let mixed = job(&[("XEQ3", 1.0), ("XEQ4", 1.0), ("XEQ1", 1.0)]);
    assert_eq!(refusal_on(&mixed, &store), ["portfolio.futures[1].ticker value_error.no_fx"]);
    // Alone it is in its own currency.
    assert!(calculate(&job(&[("XEQ4", 1.0)]), &store).is_ok());
}

#[test]
fn dates_that_contradict_each_other_are_refused() {
    let settings = |settings: Value| refusal(&with(one(), json!({ "settings": settings })));
    assert_eq!(
        settings(json!({ "startDate": "2024-02-01", "endDate": "2024-01-31" })),
        ["settings.startDate value_error"]
    );
    assert_eq!(
        settings(json!({ "startDate": "2025-02-01", "endDate": "2025-03-01" })),
        ["settings.startDate value_error"]
    );
    assert_eq!(
        settings(json!({ "startDate": "2024-01-06", "endDate": "2024-01-07" })),
        ["settings value_error.empty_pool"]
    );
    let day = json!({ "startDate": "2024-01-05", "endDate": "2024-01-05", "excludedDates": ["2024-01-05"] });
    assert_eq!(settings(day), ["settings value_error.empty_pool"]);
    let added = json!({ "addedDates": ["2024-01-02", "2024-01-06", "2025-01-02", "2005-01-10", "2024-01-06"] });
    let expected = [1, 2, 3, 4].map(|n| format!("settings.addedDates[{n}] value_error.date"));
    assert_eq!(settings(added), expected);
    // The first ticker that lacks the date is named: 1 May is a holiday in Europe.
    let europe = with(
        job(&[("XEQ1", 1.0), ("XBD2", 1.0)]),
        json!({ "settings": { "addedDates": ["2024-05-01"] } }),
    );
    assert_eq!(
        refused(calculate(&europe, &store("sample")))[0].msg,
        "2024-05-01 has no usable return for XBD2"
    );
    assert_eq!(
        refusal(&position(json!({ "entryDate": "2025-01-01" }))),
        ["portfolio.futures[0].entryDate value_error"]
    );
    assert_eq!(
        refusal(&position(json!({ "entryDate": "2004-01-01" }))),
        ["portfolio.futures[0].entryDate value_error.no_price"]
    );
}

#[test]
fn a_calculation_that_is_too_large_is_refused() {
    let tickers: Vec<(String, f64)> = (0..81).map(|n| (format!("T{n}"), 1.0)).collect();
    let mut contracts =
        String::from("ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\n");
    let mut prices = String::from("date,ticker,settle\n");
    for (ticker, _) in &tickers {
        contracts.push_str(&format!("{ticker},USD,1,absolute,,\n"));
        for (day, price) in [(2, 1), (3, 2), (4, 4)] {
            prices.push_str(&format!("2024-01-0{day},{ticker},{price}\n"));
        }
    }
    let store = Arc::new(parse(&contracts, &[&prices], "date,currency,rate\n").unwrap());
    let positions: Vec<_> = tickers.iter().map(|(ticker, n)| (ticker.as_str(), *n)).collect();
    let fields = json!({ "marginDate": null, "settings": null, "volatilityLookbackDays": 1, "numScenarios": 1_000_000, "timeHorizonDays": 250 });
    let largest = with(job(&positions[..80]), fields.clone());
    assert!(Request::from_value(&largest, DataFormat::Json, &store).is_ok());
    assert_eq!(
        refusal_on(&with(job(&positions), fields), &store),
        ["numScenarios value_error.too_large"]
    );
}

#[test]
fn amounts_that_overflow_are_refused() {
    assert_eq!(
        refusal(&with(one(), json!({ "volatilityMultiplier": 1e9 }))),
        [" value_error.overflow"]
    );
    let huge = "portfolio.futures[0] value_error.overflow";
    assert_eq!(refusal(&position(json!({ "entryPrice": -1e307 }))), [huge]);
    assert_eq!(refusal(&with(job(&[("XEQ1", 1e305), ("XEQ1", -1e305)]), json!({}))), [huge]);
}

#[test]
fn all_violations_are_reported_at_once() {
    let mut job = with(
        one(),
        json!({ "numScenarios": 0, "ewmaDecayFactor": "x", "settings": { "startDate": "x" } }),
    );
    job["portfolio"]["futures"] = json!([
        { "ticker": "XEQ1", "type": "long" },
        { "ticker": "XEQ1", "type": "long", "quantity": 1, "entryDate": "2025-01-01" },
        { "ticker": "NONE", "type": "up", "quantity": -1 },
    ]);
    let expected = [
        "numScenarios value_error.number",
        "ewmaDecayFactor type_error",
        "settings.startDate value_error.date",
        "portfolio.futures[0].quantity value_error.missing",
        "portfolio.futures[2].ticker value_error.unknown_ticker",
        "portfolio.futures[2].type type_error.enum",
        "portfolio.futures[2].quantity value_error.number",
        "portfolio.futures[1].entryDate value_error",
    ];
    assert_eq!(refusal(&job), expected);
}

#[test]
fn null_is_missing_and_unknown_fields_are_ignored() {
    let plain = json!({ "portfolio": one()["portfolio"] });
    let fields = [
        "marginDate",
        "numScenarios",
        "timeHorizonDays",
        "volatilityLookbackDays",
        "ewmaDecayFactor",
        "volatilityMultiplier",
        "settings",
        "seed",
    ];
    let nulls = fields.iter().fold(plain.clone(), |job, field| with(job, json!({ *field: null })));
    assert_eq!(report(&nulls).json(), report(&plain).json());
    let defaults = json!({
        "marginDate": "2024-12-31", "numScenarios": 10_000, "timeHorizonDays": 2.0, "volatilityLookbackDays": 250.9,
        "ewmaDecayFactor": 0.97, "volatilityMultiplier": 1, "seed": 42.0, "comment": { "any": ["thing"] },
        "settings": { "startDate": null, "endDate": "2030-01-01", "addedDates": [], "futures": [1] },
    });
    assert_eq!(report(&with(plain.clone(), defaults)).json(), report(&plain).json());
    let mut stranger = plain.clone();
    stranger["portfolio"]["futures"][0]["comment"] = json!("x");
    stranger["futures"] = json!([{ "ticker": "NONE" }]);
    assert_eq!(report(&stranger).json(), report(&plain).json());
}

#[test]
fn excluded_dates_win_over_added_ones_and_repeating_a_date_adds_no_weight() {
    let drawn = |settings: Value| {
        let simulation =
            report(&with(one(), json!({ "settings": settings }))).summary.simulation.unwrap();
        (simulation.n_pool_dates, simulation.first_pool_date.to_string())
    };
    let window = json!({ "startDate": "2024-01-02" });
    let (n_dates, first) = drawn(window.clone());
    assert_eq!(first, "2024-01-02");
    let added =
        with(window.clone(), json!({ "addedDates": ["2008-10-10", "2008-10-10", "2024-01-03"] }));
    assert_eq!(drawn(added.clone()), (n_dates + 1, "2008-10-10".to_owned()));
    let excluded = with(added, json!({ "excludedDates": ["2008-10-10", "1999-01-01"] }));
    assert_eq!(drawn(excluded), (n_dates, first));
}

#[test]
fn a_holiday_is_valued_at_the_settlement_before() {
    let sunday = report(&with(one(), json!({ "marginDate": "2024-12-29" })));
    let friday = report(&with(one(), json!({ "marginDate": "2024-12-27" })));
    assert_eq!(sunday.csv(), friday.csv());
}

#[test]
fn entries_decide_about_the_variation_alone() {
    let row = |fields: Value| report(&position(fields)).rows[0].clone();
    let plain = row(json!({}));
    assert_eq!(plain.entry_date.to_string(), "2024-12-30");
    let dated = row(json!({ "entryDate": "2024-11-29" }));
    assert_eq!(dated.entry_date.to_string(), "2024-11-29");
    let priced = row(json!({ "entryPrice": 4000 }));
    assert_eq!((priced.entry_market_value, priced.entry_date), (4000.0 * 50.0, plain.entry_date));
    assert_eq!(priced.variation_margin, plain.current_market_value - 200_000.0);
    for row in [dated, priced] {
        assert_eq!(row.initial_margin, plain.initial_margin);
    }
}

#[test]
fn a_lookback_that_is_longer_than_the_data_is_shortened_with_a_warning() {
    let warnings =
        |days: u32| report(&with(one(), json!({ "volatilityLookbackDays": days }))).warnings;
    let n_returns = store("sample").contracts()[0].settlements.days().len() - 1;
    assert_eq!(warnings(n_returns as u32), [""; 0]);
    let expected = format!("only {n_returns} daily returns of XEQ1 for its volatility");
    assert_eq!(warnings(n_returns as u32 + 1), [expected]);
}

#[test]
fn a_margin_that_rests_on_next_to_no_volatility_is_warned_of() {
    let warnings = |days: u32, position| {
        let fields = json!({ "volatilityLookbackDays": days });
        report(&with(job(&[("XEQ1", position)]), fields)).warnings
    };
    // One return is no estimate: some are as good as nothing, and the next is many times that.
    let found = warnings(1, 1.0);
    let [warning] = &found[..] else { panic!("{found:?}") };
    assert!(warning.contains(" in the pool a price moved by more than 50 times"), "{warning}");
    assert!(warning.contains(", XEQ1 on 20") && warning.contains(" from 1 daily return "));
    assert_eq!(warnings(250, 1.0), [""; 0]);
    assert_eq!(warnings(20, 1.0), [""; 0]);
    assert_eq!(warnings(1, 0.0), [""; 0], "nothing is calculated with it");
}
