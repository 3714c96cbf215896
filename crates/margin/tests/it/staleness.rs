//! Margins from data that is old, or that is too little to rest on.

use std::fmt::Write as _;
use std::sync::Arc;

use molbox_margin::{Date, Store};
use serde_json::{Value, json};

use crate::common::{calculate, job, refused, report, store_of, summary, with};

/// Days of 2023 and 2024 up to one of them.
fn days_to(last: &str) -> Vec<Date> {
    let last: Date = last.parse().unwrap();
    let months = (2023..=2024).flat_map(|year| (1..=12).map(move |month| (year, month)));
    let days = months
        .flat_map(|(year, month)| (1..=31).filter_map(move |day| Date::new(year, month, day)));
    days.filter(|day| *day <= last).collect()
}

/// A store with a price on each day up to the last of each ticker, and a rate of EUR.
fn store(contracts: &str, prices: &[(&str, &str)], rates_to: &str) -> Arc<Store> {
    let header =
        "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate\n";
    let mut rows = String::from("date,ticker,settle\n");
    for (ticker, last) in prices {
        for (n, day) in days_to(last).into_iter().enumerate() {
            writeln!(rows, "{day},{ticker},{}", 100 + (n * n) % 17).unwrap();
        }
    }
    let mut rates = String::from("date,currency,rate\n");
    for day in days_to(rates_to) {
        writeln!(rates, "{day},EUR,1.25").unwrap();
    }
    store_of(&format!("{header}{contracts}"), &rows, &rates)
}

const CONTRACTS: &str =
    "NEW,new,X,USD,10,1,log,OLD,\nOLD,old,X,USD,10,1,log,,\nEUR1,euro,X,EUR,10,1,absolute,,\n";

fn on(date: &str, positions: &[(&str, f64)]) -> Value {
    with(job(positions), json!({ "marginDate": date, "settings": {} }))
}

#[test]
fn a_risk_factor_that_ended_is_refused() {
    let store = store(CONTRACTS, &[("NEW", "2024-12-31"), ("OLD", "2024-06-30")], "2024-12-31");
    let violations = refused(calculate(&on("2024-12-31", &[("NEW", 1.0)]), &store));
    assert_eq!(summary(&violations), ["portfolio.futures[0].ticker value_error.history"]);
    let msg = violations[0].to_string();
    assert!(msg.contains("OLD") && msg.contains("2024-06-30"), "{msg}");
    // The same contracts while the factor was alive, and up to seven days after.
    for date in ["2024-06-28", "2024-07-07"] {
        assert!(
            calculate(&on(date, &[("NEW", 1.0)]), &store).unwrap().summary.initial_margin > 0.0,
            "{date}"
        );
    }
    let late = refused(calculate(&on("2024-07-08", &[("NEW", 1.0)]), &store));
    assert_eq!(summary(&late), ["portfolio.futures[0].ticker value_error.history"]);
}

#[test]
fn a_single_new_price_does_not_renew_an_old_history() {
    let contracts = "AAA,a,X,USD,10,1,log,,\n";
    let header =
        "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate\n";
    let mut rows = String::from("date,ticker,settle\n");
    for (n, day) in days_to("2023-12-31").into_iter().enumerate() {
        writeln!(rows, "{day},AAA,{}", 100 + n % 7).unwrap();
    }
    let store = store_of(
        &format!("{header}{contracts}"),
        &(rows + "2024-12-31,AAA,104\n"),
        "date,currency,rate\n",
    );
    let violations = refused(calculate(&on("2024-12-31", &[("AAA", 1.0)]), &store));
    assert_eq!(summary(&violations), ["portfolio.futures[0].ticker value_error.history"]);
}

#[test]
fn an_exchange_rate_that_ended_is_refused() {
    let prices = [("OLD", "2024-12-31"), ("EUR1", "2024-12-31")];
    let store = store(CONTRACTS, &prices, "2024-12-20");
    let violations = refused(calculate(&on("2024-12-31", &[("OLD", 1.0), ("EUR1", 1.0)]), &store));
    assert_eq!(summary(&violations), ["portfolio.futures[1].ticker value_error.no_fx"]);
}

#[test]
fn data_that_is_days_old_has_a_warning_for_each_kind() {
    let prices = [("NEW", "2024-12-30"), ("OLD", "2024-12-27"), ("EUR1", "2024-12-31")];
    let store = store(CONTRACTS, &prices, "2024-12-26");
    let warnings =
        |date: &str| calculate(&on(date, &[("NEW", 1.0), ("EUR1", 1.0)]), &store).unwrap().warnings;
    assert_eq!(
        warnings("2024-12-31"),
        [
            "the last price of NEW is of 2024-12-30, a day before the margin date",
            "the last exchange rate of EUR is of 2024-12-26, 5 days before the margin date",
            "the last daily return of OLD is of 2024-12-27, 4 days before the margin date",
        ]
    );
    assert_eq!(warnings("2024-12-25"), [""; 0]);
    // Of the currency that totals are converted to as well.
    let in_euro = with(on("2024-12-31", &[("NEW", 1.0)]), json!({ "resultCurrency": "EUR" }));
    let warnings = calculate(&in_euro, &store).unwrap().warnings;
    let rate = "the last exchange rate of EUR is of 2024-12-26, 5 days before the margin date";
    assert!(warnings.iter().any(|warning| warning == rate), "{warnings:?}");
}

#[test]
fn a_weekend_makes_no_price_old() {
    // 2024-12-27 was a Friday.
    let store = store(CONTRACTS, &[("OLD", "2024-12-27")], "2024-12-27");
    let warnings = |date: &str| calculate(&on(date, &[("OLD", 1.0)]), &store).unwrap().warnings;
    assert_eq!(warnings("2024-12-29"), [""; 0]);
    assert_eq!(
        warnings("2024-12-30"),
        ["the last price of OLD is of 2024-12-27, 3 days before the margin date"]
    );
}

#[test]
fn few_scenarios_have_a_warning_with_standard_errors() {
    let warnings =
        |n: u32| report(&with(job(&[("XEQ1", 1.0)]), json!({ "numScenarios": n }))).warnings;
    assert_eq!(warnings(1000), [""; 0]);
    // 100 √(0.99 × 0.01 / 400) = 0.497.
    let [of_400] = &warnings(400)[..] else { panic!() };
    let start = "only 400 scenarios: the worst 1 % are 4 of them, the standard error of the \
                 percentile is 0.50 points, that of the margin about ";
    let percent: f64 =
        of_400.strip_prefix(start).unwrap().strip_suffix(" %").unwrap().parse().unwrap();
    assert!((1.0..60.0).contains(&percent), "{of_400}");
    assert_eq!(
        warnings(1),
        ["only 1 scenario: the worst 1 % are 0.01 of it, the standard error of the percentile is \
          9.95 points"]
    );
    assert_eq!(
        report(&with(job(&[("XEQ1", 1.0), ("XEQ1", -1.0)]), json!({ "numScenarios": 10 })))
            .warnings,
        [""; 0],
        "an offset rests on no scenario"
    );
}

#[test]
fn the_standard_error_is_the_spread_of_other_seeds() {
    let margin = |seed: u64| {
        report(&with(
            job(&[("XEQ1", 1.0)]),
            json!({ "numScenarios": 500, "seed": seed, "timeHorizonDays": 3 }),
        ))
    };
    let reports: Vec<_> = (0..60).map(margin).collect();
    let margins: Vec<f64> = reports.iter().map(|report| report.summary.initial_margin).collect();
    let mean = margins.iter().sum::<f64>() / 60.0;
    let spread =
        (margins.iter().map(|margin| (margin / mean - 1.0).powi(2)).sum::<f64>() / 59.0).sqrt();
    let reported = reports
        .iter()
        .map(|report| {
            let warning = &report.warnings[0];
            warning
                .rsplit_once("about ")
                .unwrap()
                .1
                .strip_suffix(" %")
                .unwrap()
                .parse::<f64>()
                .unwrap()
                / 100.0
        })
        .sum::<f64>()
        / 60.0;
    assert!((0.5..2.0).contains(&(reported / spread)), "reported {reported}, found {spread}");
}

#[test]
fn a_price_that_does_not_move_is_refused_unless_there_is_a_floor() {
    let header =
        "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate\n";
    let mut rows = String::from("date,ticker,settle\n");
    for (n, day) in days_to("2024-12-31").into_iter().enumerate() {
        writeln!(rows, "{day},AAA,{}", if n < 400 { 100 + n % 7 } else { 100 }).unwrap();
    }
    let store =
        store_of(&format!("{header}AAA,a,X,USD,10,1,log,,\n"), &rows, "date,currency,rate\n");
    let calm = with(on("2024-12-31", &[("AAA", 1.0)]), json!({ "volatilityLookbackDays": 60 }));
    let violations = refused(calculate(&calm, &store));
    assert_eq!(summary(&violations), ["portfolio.futures[0].ticker value_error.dead_series"]);
    assert!(
        violations[0].msg.starts_with(
            "the price of AAA did not change in the last 60 daily returns, from which the \
             volatility of AAA is calibrated: give a volatilityFloor above 0"
        ),
        "{}",
        violations[0].msg
    );
    let floored = calculate(&with(calm, json!({ "volatilityFloor": 0.5 })), &store).unwrap();
    assert!(floored.summary.initial_margin > 0.0);
    assert!(
        floored.warnings.contains(&"the volatility floor holds for 1 of 1 ticker".to_owned()),
        "{:?}",
        floored.warnings
    );
}

#[test]
fn a_day_of_entry_without_a_settlement_is_rolled_back_to_the_one_before() {
    let entered = |entry: Value| {
        let position =
            json!({ "ticker": "XEQ1", "type": "long", "quantity": 1, "entryDate": entry });
        let job = with(job(&[]), json!({ "portfolio": { "futures": [position] } }));
        report(&job).rows[0].clone()
    };
    // A Sunday and the Friday before it.
    let (sunday, friday) = (entered(json!("2024-12-01")), entered(json!("2024-11-29")));
    assert_eq!(sunday.entry_date.to_string(), "2024-11-29");
    assert_eq!(sunday, friday);
}

#[test]
fn a_day_of_entry_long_after_the_last_settlement_is_refused() {
    let store = store(CONTRACTS, &[("OLD", "2024-12-31")], "2024-12-31");
    let position =
        |fields: Value| with(json!({ "ticker": "OLD", "type": "long", "quantity": 1 }), fields);
    let job = |fields: Value| {
        with(on("2024-12-31", &[]), json!({ "portfolio": { "futures": [position(fields)] } }))
    };
    let before = refused(calculate(&job(json!({ "entryDate": "2022-12-31" })), &store));
    assert_eq!(summary(&before), ["portfolio.futures[0].entryDate value_error.no_price"]);
    // With a price of its own, the day is what was given.
    let priced =
        calculate(&job(json!({ "entryDate": "2022-12-31", "entryPrice": 90 })), &store).unwrap();
    assert_eq!(priced.rows[0].entry_date.to_string(), "2022-12-31");
}

#[test]
fn warnings_count_one_of_something_as_one() {
    let one = json!({ "numScenarios": 1000, "timeHorizonDays": 1, "settings": {
        "startDate": "2024-12-30", "endDate": "2024-12-30",
        "stressStartDate": "2024-12-30", "stressEndDate": "2024-12-30",
    } });
    let warnings = report(&with(job(&[("XEQ1", 1.0)]), one)).warnings;
    assert_eq!(warnings, ["only 1 historical date in the pool", "only 1 day of stress"]);
}

#[test]
fn a_price_that_never_moved_is_named_where_it_leaves_nothing_to_draw() {
    let mut prices = String::from("date,ticker,settle\n");
    for (n, day) in days_to("2024-12-31").into_iter().enumerate() {
        writeln!(prices, "{day},DEAD,5\n{day},LIVE,{}", 100 + (n * n) % 17).unwrap();
    }
    let contracts = "ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\n\
                     LIVE,USD,10,log,,\nDEAD,USD,10,log,,\n";
    let store = store_of(contracts, &prices, "date,currency,rate\n");
    let positions = on("2024-12-31", &[("LIVE", 1.0), ("DEAD", 1.0)]);
    let violations = refused(calculate(&positions, &store));
    assert_eq!(summary(&violations), ["settings value_error.empty_pool"]);
    let msg = violations[0].to_string();
    assert!(
        msg.contains(
            "for every ticker; DEAD has none there: it has no prices, or they never moved"
        ),
        "{msg}"
    );
}

#[test]
fn a_multiplier_that_is_no_factor_has_a_warning() {
    let warnings = |multiplier: f64| {
        report(&with(job(&[("XEQ1", 1.0)]), json!({ "volatilityMultiplier": multiplier }))).warnings
    };
    for usual in [0.1, 1.5, 10.0] {
        assert_eq!(warnings(usual), [""; 0], "{usual}");
    }
    for odd in [0.01, 150.0] {
        let warning = format!(
            "volatilityMultiplier: {odd} is a factor and no percentage; scenarios have {odd} times \
             the volatility of the margin date"
        );
        assert_eq!(warnings(odd), [warning]);
    }
}
