//! What holds for every portfolio.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use molbox_margin::{DataFormat, Error, Report, Request, Run, sample};
use serde_json::{Value, json};

use crate::common::{calculate, job, report, store, store_of, with};

/// Relative, for sums that are added up in another order.
const ROUNDING: f64 = 1e-12;

const MIXED: [(&str, f64); 5] =
    [("XEQ1", 10.0), ("XBD2", -7.5), ("XIR1", 4.0), ("XEQ4", -1.0), ("XSP1", 3.0)];

fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() <= ROUNDING * a.abs().max(b.abs()), "{a} and {b}");
}

fn margin(positions: &[(&str, f64)]) -> f64 {
    report(&job(positions)).summary.initial_margin
}

/// Units of USD per unit of a currency on the last day of the sample.
fn fx(currency: &str) -> f64 {
    let [_, _, (_, fx)] = sample::files();
    let row = format!("2024-12-31,{currency},");
    fx.lines().find_map(|line| line.strip_prefix(&row)).map_or(1.0, |rate| rate.parse().unwrap())
}

#[test]
fn margins_of_positions_add_up_to_the_margin_of_the_portfolio() {
    let report = report(&job(&MIXED));
    let sum: f64 = report.rows.iter().map(|row| row.initial_margin * fx(&row.currency)).sum();
    assert_close(sum, report.summary.initial_margin);
    assert!(report.rows.iter().any(|row| row.initial_margin < 0.0), "one of the positions hedges");
}

#[test]
fn margin_scales_with_the_portfolio() {
    let tripled = MIXED.map(|(ticker, n)| (ticker, 3.0 * n));
    assert_close(margin(&tripled), 3.0 * margin(&MIXED));
}

#[test]
fn margin_of_two_portfolios_is_at_most_the_sum_of_theirs() {
    // All tickers in both, so that both draw from the same dates.
    let random = |seed: u64| -> Vec<(&str, f64)> {
        let n = |i: usize| ((seed * 7919 + i as u64 * 104_729) % 41) as f64 - 20.0;
        MIXED.iter().enumerate().map(|(i, (ticker, _))| (*ticker, n(i))).collect()
    };
    for seed in 0..20 {
        let (a, b) = (random(2 * seed), random(2 * seed + 1));
        let both: Vec<_> = a.iter().zip(&b).map(|((ticker, a), (_, b))| (*ticker, a + b)).collect();
        assert!(margin(&both) <= (margin(&a) + margin(&b)) * (1.0 + ROUNDING));
    }
}

#[test]
fn an_exact_offset_has_no_margin() {
    for offset in
        [&[("XEQ1", 7.0), ("XEQ1", -7.0)][..], &[("XEQ1", 0.1), ("XEQ1", 0.2), ("XEQ1", -0.3)]]
    {
        let report = report(&job(offset));
        assert_eq!(report.summary.initial_margin.to_bits(), 0);
        assert!(report.rows.iter().all(|row| row.initial_margin.to_bits() == 0));
    }
}

#[test]
fn both_sides_of_an_offset_share_the_rate_of_the_net_position() {
    let net = report(&job(&[("XEQ1", 2.0), ("XCM1", 5.0)]));
    let gross = report(&job(&[("XEQ1", 3.0), ("XCM1", 5.0), ("XEQ1", -1.0)]));
    assert_close(gross.rows[0].initial_margin, 1.5 * net.rows[0].initial_margin);
    assert_close(gross.rows[2].initial_margin, -0.5 * net.rows[0].initial_margin);
    assert_eq!(gross.summary.initial_margin, net.summary.initial_margin);
}

#[test]
fn the_order_of_positions_does_not_matter() {
    let positions = [
        ("XEQ1", 0.1),
        ("XCM2", -3.0),
        ("XEQ1", 0.7),
        ("XIR1", 2.0),
        ("XEQ1", -0.3),
        ("XFX1", 1.0),
    ];
    let mut reversed = positions;
    reversed.reverse();
    let (mut rows, summary) = (report(&job(&reversed)).rows, report(&job(&reversed)).summary);
    rows.reverse();
    let expected = report(&job(&positions));
    assert_eq!(summary.initial_margin.to_bits(), expected.summary.initial_margin.to_bits());
    let margins = |rows: &[molbox_margin::Row]| {
        rows.iter().map(|row| row.initial_margin.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(margins(&rows), margins(&expected.rows));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let job = with(job(&MIXED), json!({ "numScenarios": 5000, "timeHorizonDays": 5 }));
    let request = Request::from_value(&job, DataFormat::Json, &store("sample")).unwrap();
    let report = |threads| request.calculate(Run { threads, ..Run::default() }).unwrap().json();
    let alone = report(1);
    for threads in [0, 2, 3, 8] {
        assert_eq!(report(threads), alone);
    }
}

#[test]
fn paths_that_are_made_in_batches_are_made_again_for_the_tail() {
    // 250 days x 18,000 scenarios are more draws than are held at a time.
    let job =
        with(job(&[("XIR1", 1.0)]), json!({ "numScenarios": 18_000, "timeHorizonDays": 250 }));
    let report = report(&job);
    assert_close(report.rows[0].initial_margin, report.summary.initial_margin);
}

#[test]
fn only_the_seed_decides_about_the_draws() {
    let seeded = |seed: Value| report(&with(job(&MIXED), json!({ "seed": seed }))).json();
    assert_eq!(seeded(json!(42)), report(&job(&MIXED)).json());
    assert_eq!(seeded(json!(-1)), seeded(json!(u64::MAX)));
    assert_ne!(seeded(json!(1)), seeded(json!(2)));
}

#[test]
fn one_day_with_every_date_as_often_as_any_other_is_historical_simulation_whatever_the_seed() {
    let n_dates = report(&job(&MIXED)).summary.simulation.unwrap().n_pool_dates;
    let shortfall = |times: usize, seed: u64| {
        let fields = json!({ "numScenarios": times * n_dates, "timeHorizonDays": 1, "seed": seed });
        report(&with(job(&MIXED), fields)).summary.initial_margin
    };
    let classical = shortfall(1, 42);
    assert_close(shortfall(1, 7), classical);
    assert_close(shortfall(3, 8), classical);
}

#[test]
fn absolute_moves_are_proportional_to_the_multiplier() {
    let multiplied = |m: f64| {
        report(&with(job(&[("XIR1", 1.0)]), json!({ "volatilityMultiplier": m })))
            .summary
            .initial_margin
    };
    assert_close(multiplied(2.5), 2.5 * multiplied(1.0));
}

#[test]
fn market_data_after_the_margin_date_is_not_used() {
    let [(_, contracts), (_, prices), (_, fx)] = sample::files();
    let known = |text: &str| {
        text.lines()
            .filter(|line| *line < "2015-03-21" || line.starts_with('d'))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let past = store_of(&contracts, &known(&prices), &known(&fx));
    let job = with(job(&MIXED), json!({ "marginDate": "2015-03-20", "settings": null }));
    assert_eq!(calculate(&job, &past).unwrap().json(), report(&job).json());
}

#[test]
fn contracts_that_move_as_one_are_one_contract() {
    // More than are simulated side by side, every third with another calendar.
    const N: usize = 40;
    let [_, (_, prices), _] = sample::files();
    let of_one: Vec<&str> =
        prices.lines().filter(|line| line.contains(",XEQ1,") && *line > "2022").collect();
    let mut contracts =
        String::from("ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\n");
    let mut prices = String::from("date,ticker,settle\n");
    for n in 0..N {
        contracts.push_str(&format!("T{n},USD,50,log,,\n"));
        for line in of_one.iter().skip(if n % 3 == 0 { 1 } else { 0 }) {
            prices.push_str(&format!("{}\n", line.replace("XEQ1", &format!("T{n}"))));
        }
    }
    let store = store_of(&contracts, &prices, "date,currency,rate\n");
    let names: Vec<String> = (0..N).map(|n| format!("T{n}")).collect();
    let margin = |positions: &[(&str, f64)]| {
        let job = with(
            job(positions),
            json!({ "volatilityLookbackDays": 25, "timeHorizonDays": 3, "settings": { "startDate": "2022-06-01" } }),
        );
        calculate(&job, &store).unwrap()
    };
    let apart = margin(&names.iter().map(|name| (name.as_str(), 1.0)).collect::<Vec<_>>());
    let together = margin(&[("T0", N as f64)]);
    // Their histories differ by a day that no volatility since the start date has in its window.
    assert_close(apart.summary.initial_margin, together.summary.initial_margin);
    for row in &apart.rows {
        assert_close(row.initial_margin, together.rows[0].initial_margin / N as f64);
    }
}

#[test]
fn weights_are_fractions_of_the_gross_value() {
    let report = report(&job(&MIXED));
    assert_close(report.rows.iter().map(|row| row.portfolio_weight.abs()).sum(), 1.0);
    for (row, (_, n)) in report.rows.iter().zip(MIXED) {
        assert_eq!(row.portfolio_weight < 0.0, row.current_market_value < 0.0);
        assert_eq!(row.portfolio_weight < 0.0, n < 0.0);
    }
}

#[test]
fn a_portfolio_that_can_only_gain_has_no_margin() {
    // Drawn from the only date of the window, on which the price rose.
    let day = json!({ "settings": { "startDate": "2024-01-09", "endDate": "2024-01-09" }, "marginDate": "2024-01-09" });
    let long = with(job(&[("AAA", 1.0)]), day.clone());
    let Report { rows, summary, .. } =
        calculate(&with(long, json!({ "volatilityLookbackDays": 1 })), &store("hand")).unwrap();
    assert_eq!((rows[0].initial_margin, summary.initial_margin), (0.0, 0.0));
    assert!(summary.simulation.unwrap().value_at_risk < 0.0);
    let short = with(job(&[("AAA", -1.0)]), day);
    let margin = calculate(&with(short, json!({ "volatilityLookbackDays": 1 })), &store("hand"))
        .unwrap()
        .summary
        .initial_margin;
    assert!(margin > 0.0);
}

#[test]
fn a_new_contract_has_the_volatility_of_its_risk_factor() {
    let sigmas = |ticker| {
        let job = with(job(&[(ticker, 1.0)]), json!({ "settings": null }));
        calculate(&job, &store("odd")).unwrap().summary.simulation.unwrap().sigmas[0].1
    };
    assert_eq!(sigmas("EQH5"), sigmas("EQC"));
}

#[test]
fn a_cancelled_calculation_ends_with_nothing() {
    let cancelled = AtomicBool::new(true);
    let request = Request::from_value(&job(&MIXED), DataFormat::Json, &store("sample")).unwrap();
    assert!(matches!(
        request.calculate(Run { threads: 1, cancel: &cancelled }),
        Err(Error::Cancelled)
    ));

    let large = with(job(&MIXED), json!({ "numScenarios": 1_000_000, "timeHorizonDays": 250 }));
    let request = Request::from_value(&large, DataFormat::Json, &store("sample")).unwrap();
    let cancel = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            cancel.store(true, Ordering::Relaxed);
        });
        assert!(matches!(
            request.calculate(Run { threads: 2, cancel: &cancel }),
            Err(Error::Cancelled)
        ));
    });
}
