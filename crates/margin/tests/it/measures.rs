//! Measures, levels, floors, stress and currencies.

use std::fmt::Write as _;

use molbox_margin::{Date, Report, Simulation};
use serde_json::{Value, json};

use crate::common::{calculate, job, refused, report, store_of, summary, with};

/// Relative, for sums that are added up in another order.
const ROUNDING: f64 = 1e-12;

const MIXED: [(&str, f64); 4] = [("XEQ1", 10.0), ("XBD2", -7.5), ("XIR1", 4.0), ("XEQ4", -1.0)];

fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() <= ROUNDING * a.abs().max(b.abs()), "{a} and {b}");
}

fn mixed(fields: Value) -> Report {
    report(&with(job(&MIXED), fields))
}

fn simulation(report: &Report) -> &Simulation {
    report.summary.simulation.as_ref().unwrap()
}

fn sum_of_parts(report: &Report, rates: &[(&str, f64)]) -> f64 {
    let rate = |currency: &str| {
        rates.iter().find(|(name, _)| *name == currency).map_or(1.0, |(_, rate)| *rate)
    };
    report.rows.iter().map(|row| row.initial_margin * rate(&row.currency)).sum()
}

/// Rates of the sample on its last day.
fn rates() -> Vec<(&'static str, f64)> {
    let [_, _, (_, fx)] = molbox_margin::sample::files();
    let last = |currency: &str| -> f64 {
        let row = format!("2024-12-31,{currency},");
        fx.lines().find_map(|line| line.strip_prefix(&row)).unwrap().parse().unwrap()
    };
    vec![("EUR", last("EUR")), ("JPY", last("JPY"))]
}

/// A ticker with a price on each day of 2022 to 2024, in USD, of absolute returns.
fn moving(price: impl Fn(usize) -> f64) -> std::sync::Arc<molbox_margin::Store> {
    let mut rows = String::from("date,ticker,settle\n");
    let days = (2022..=2024)
        .flat_map(|year| (1..=12).map(move |month| (year, month)))
        .flat_map(|(year, month)| (1..=28).filter_map(move |day| Date::new(year, month, day)));
    for (n, day) in days.enumerate() {
        writeln!(rows, "{day},AAA,{}", price(n)).unwrap();
    }
    let contracts = "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,\
                     lastTradeDate\nAAA,a,X,USD,10,1,absolute,,\n";
    store_of(contracts, &rows, "date,currency,rate\n")
}

#[test]
fn both_measures_are_those_of_the_losses_at_every_level() {
    for n in [97_usize, 1000, 10_000] {
        for level in [0.5, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9999] {
            let found = mixed(json!({
                "numScenarios": n, "confidenceLevel": level, "includeLosses": true,
            }));
            let mut losses = found.losses.clone().unwrap();
            assert_eq!(losses.len(), n);
            losses.sort_by(|a, b| b.total_cmp(a));
            // In whole hundredths of a percent, so that nothing is rounded.
            let basis_points = ((1.0 - level) * 1e4_f64).round() as usize;
            let above = n * basis_points / 10_000;
            let in_tail = n as f64 * basis_points as f64 / 1e4;
            let whole: f64 = losses[..above].iter().sum();
            let shortfall = (whole + (in_tail - above as f64) * losses[above]) / in_tail;
            assert_close(simulation(&found).value_at_risk, losses[above]);
            assert!((simulation(&found).expected_shortfall / shortfall - 1.0).abs() < 1e-9);
            assert_eq!(found.summary.initial_margin, simulation(&found).expected_shortfall);
        }
    }
}

#[test]
fn a_margin_that_is_the_value_at_risk_is_divided_among_the_positions() {
    let shortfall = mixed(json!({}));
    let found = mixed(json!({ "riskMeasure": "value_at_risk", "confidenceLevel": 0.975 }));
    assert_eq!(found.summary.initial_margin, simulation(&found).value_at_risk);
    assert!(found.summary.initial_margin < shortfall.summary.initial_margin);
    assert_close(sum_of_parts(&found, &rates()), found.summary.initial_margin);
    let answer: Value = serde_json::from_str(&found.json()).unwrap();
    assert_eq!(answer["summary"]["riskMeasure"], "value_at_risk");
    assert_eq!(answer["summary"]["confidence"], 0.975);
}

#[test]
fn the_worst_scenarios_are_the_largest_losses_with_their_days() {
    let found = mixed(json!({ "worstScenarios": 25, "includeLosses": true }));
    let mut losses = found.losses.clone().unwrap();
    losses.sort_by(|a, b| b.total_cmp(a));
    let worst = found.worst_scenarios.as_ref().unwrap();
    assert_eq!(worst.iter().map(|scenario| scenario.loss).collect::<Vec<_>>(), losses[..25]);
    let (first, last) = (simulation(&found).first_pool_date, simulation(&found).last_pool_date);
    for scenario in worst {
        assert_eq!(scenario.dates.len(), 2);
        assert!(scenario.dates.iter().all(|date| (first..=last).contains(date)));
    }
    for text in [found.xml(), found.yaml()] {
        assert!(text.contains("worstScenarios") && text.contains("losses"));
    }
    let answer: Value = serde_json::from_str(&found.json()).unwrap();
    assert_eq!(answer["worstScenarios"][0]["dates"].as_array().unwrap().len(), 2);
    let plain: Value = serde_json::from_str(&mixed(json!({})).json()).unwrap();
    assert!(plain.get("worstScenarios").is_none() && plain.get("losses").is_none());
}

/// One day of the pool with a fall of 30, which the worst scenario must be.
#[test]
fn the_worst_scenario_names_the_day_of_the_fall() {
    let store = moving(|n| 1000.0 + (n % 7) as f64 - if n >= 500 { 30.0 } else { 0.0 });
    let request = json!({
        "marginDate": "2024-12-28", "timeHorizonDays": 1, "numScenarios": 5000,
        "worstScenarios": 1,
        "portfolio": { "futures": [{ "ticker": "AAA", "type": "long", "quantity": 1 }] },
    });
    let found = calculate(&request, &store).unwrap();
    let days: Vec<Date> = (2022..=2024)
        .flat_map(|year| (1..=12).map(move |month| (year, month)))
        .flat_map(|(year, month)| (1..=28).filter_map(move |day| Date::new(year, month, day)))
        .collect();
    assert_eq!(found.worst_scenarios.unwrap()[0].dates, [days[500]]);
}

#[test]
fn totals_in_another_currency_are_those_of_the_base_currency_at_its_rate() {
    let (base, rates) = (mixed(json!({})), rates());
    for (currency, rate) in &rates {
        let found = mixed(json!({ "resultCurrency": currency }));
        assert_eq!(*simulation(&found).base_currency, **currency);
        assert_close(found.summary.initial_margin * rate, base.summary.initial_margin);
        for (row, of_base) in found.rows.iter().zip(&base.rows) {
            assert_close(row.initial_margin, of_base.initial_margin);
            assert_eq!(row.currency, of_base.currency);
        }
    }
    // Of one currency the totals are in it, unless another one is asked for.
    let dollars = report(&with(job(&[("XEQ1", 1.0)]), json!({ "resultCurrency": "EUR" })));
    let own = report(&job(&[("XEQ1", 1.0)]));
    assert_close(dollars.summary.initial_margin * rates[0].1, own.summary.initial_margin);
    let same = report(&with(job(&[("XEQ1", 1.0)]), json!({ "resultCurrency": "USD" })));
    assert_eq!(same.json(), own.json());
}

#[test]
fn a_floor_lifts_volatilities_to_a_part_of_those_of_the_whole_history() {
    // A calm end after a wild time.
    let store = moving(|n| 1000.0 + if n < 600 { 10.0 } else { 1.0 } * (n % 2) as f64);
    let request = json!({
        "marginDate": "2024-12-28", "volatilityLookbackDays": 100, "timeHorizonDays": 1,
        "portfolio": { "futures": [{ "ticker": "AAA", "type": "long", "quantity": 1 }] },
    });
    let sigma = |floor: f64| {
        let found = with(request.clone(), json!({ "volatilityFloor": floor }));
        let found = calculate(&found, &store).unwrap();
        (simulation(&found).sigmas[0].1, found.summary.initial_margin)
    };
    let n_returns = 3 * 336 - 1;
    // 599 moves of ten, one of nine or eleven between, the rest of one.
    let squares = 599.0 * 100.0 + 100.0 + f64::from(n_returns - 600);
    let whole = (squares / f64::from(n_returns)).sqrt();
    let (calm, margin) = sigma(0.0);
    assert!((calm - 1.0).abs() < 1e-9);
    let (half, of_half) = sigma(0.5);
    assert!((half / (0.5 * whole) - 1.0).abs() < 0.01, "{half} and {}", 0.5 * whole);
    assert_close(of_half / margin, half / calm);
    let fields = json!({ "volatilityFloor": 0.5, "volatilityMultiplier": 1.7 });
    let multiplied = calculate(&with(request.clone(), fields), &store).unwrap();
    assert_close(multiplied.summary.initial_margin, 1.7 * of_half);
}

#[test]
fn a_time_of_stress_adds_a_part_of_what_its_margin_is_above() {
    // Falls of 40 in a row of ten days, and of 1 or 2 at other times.
    let store = moving(|n| {
        let falls = n.clamp(400, 410) - 400;
        2000.0 + (n % 2) as f64 - 40.0 * falls as f64
    });
    let request = |fields| {
        let job = json!({
            "marginDate": "2024-12-28", "timeHorizonDays": 1, "numScenarios": 10,
            "settings": {
                "startDate": "2024-01-01",
                "stressStartDate": "2023-03-01", "stressEndDate": "2023-03-31",
            },
            "portfolio": { "futures": [{ "ticker": "AAA", "type": "long", "quantity": 3 }] },
        });
        calculate(&with(job, fields), &store).unwrap()
    };
    let alone = request(json!({}));
    let stress = simulation(&alone).stress.unwrap();
    // Of ten scenarios the worst counts: 3 contracts of 10, and a fall of 40 and of one that day.
    assert!((3.0 * 10.0 * 39.0..=3.0 * 10.0 * 41.0).contains(&stress.margin), "{}", stress.margin);
    assert_eq!((stress.n_dates, stress.add_on), (28, 0.0));
    let weighted = request(json!({ "stressWeight": 0.25 }));
    let add_on = simulation(&weighted).stress.unwrap().add_on;
    assert_close(add_on, 0.25 * (stress.margin - alone.summary.initial_margin));
    assert_close(weighted.summary.initial_margin, alone.summary.initial_margin + add_on);
    assert_close(sum_of_parts(&weighted, &[]), weighted.summary.initial_margin);
    // Calm times take nothing off.
    let calm = request(json!({
        "stressWeight": 1, "volatilityMultiplier": 1000,
    }));
    assert_eq!(simulation(&calm).stress.unwrap().add_on, 0.0);
}

#[test]
fn parts_add_up_with_stress_and_several_currencies() {
    let settings = json!({
        "startDate": "2020-01-01",
        "stressStartDate": "2008-09-01", "stressEndDate": "2009-03-31",
    });
    let found = mixed(json!({ "stressWeight": 0.25, "settings": settings }));
    assert!(simulation(&found).stress.unwrap().add_on > 0.0);
    assert_close(sum_of_parts(&found, &rates()), found.summary.initial_margin);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let settings = |fields| json!({ "settings": fields });
    for (fields, refusal) in [
        (json!({ "confidenceLevel": 1 }), "confidenceLevel value_error.number"),
        (json!({ "confidenceLevel": 99 }), "confidenceLevel value_error.number"),
        (json!({ "confidenceLevel": "0.99" }), "confidenceLevel type_error"),
        (json!({ "riskMeasure": "VaR" }), "riskMeasure type_error.enum"),
        (json!({ "volatilityFloor": -0.1 }), "volatilityFloor value_error.number"),
        (json!({ "stressWeight": 1.5 }), "stressWeight value_error.number"),
        (json!({ "stressWeight": 0.25 }), "settings.stressStartDate value_error.missing"),
        (json!({ "resultCurrency": "XXX" }), "resultCurrency value_error.no_fx"),
        (json!({ "resultCurrency": 7 }), "resultCurrency type_error"),
        (json!({ "worstScenarios": 1001 }), "worstScenarios value_error.number"),
        (json!({ "worstScenarios": -1 }), "worstScenarios value_error.number"),
        (json!({ "includeLosses": "yes" }), "includeLosses type_error"),
        (
            settings(json!({ "stressStartDate": "2008-09-01" })),
            "settings.stressEndDate value_error.missing",
        ),
        (
            settings(json!({ "stressStartDate": "2009-09-01", "stressEndDate": "2008-09-01" })),
            "settings.stressStartDate value_error",
        ),
        (
            settings(json!({ "stressStartDate": "1990-09-01", "stressEndDate": "1991-09-01" })),
            "settings.stressStartDate value_error.empty_pool",
        ),
    ] {
        let violations =
            refused(calculate(&with(job(&MIXED), fields.clone()), &crate::common::store("sample")));
        assert_eq!(summary(&violations), [refusal], "{fields}");
    }
}
