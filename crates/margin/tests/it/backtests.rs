//! Backtests, and the tests of exceedances.

use molbox_margin::{Backtest, Coverage, DataFormat, Error, Run};
use serde_json::{Value, json};

use crate::common::{job, refused, store, store_of, with};

fn backtest(job: &Value, first: &str, last: &str) -> Result<Backtest, Error> {
    let [first, last] = [first, last].map(|day| day.parse().unwrap());
    Backtest::of(
        job,
        DataFormat::Json,
        &store("sample"),
        first,
        Some(last),
        Run::default(),
        |_, _| (),
    )
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} and {expected}");
}

#[test]
fn days_between_which_one_was_skipped_do_not_follow_each_other() {
    let together = Coverage::of(&[false, true, true, false, false], 0.99);
    let apart = Coverage::of_runs(&[vec![false, true], vec![true, false, false]], 0.99);
    assert_eq!((apart.n_days, apart.exceedances), (together.n_days, together.exceedances));
    assert_eq!(apart.unconditional, together.unconditional);
    // From calm to breach, from breach to calm, from calm to calm: Σ n ln(n / all) of each row.
    let best = |n: f64, all: f64| n * (n / all).ln();
    let each = best(1.0, 2.0) + best(1.0, 2.0) + best(1.0, 1.0);
    let all = best(2.0, 3.0) + best(1.0, 3.0);
    assert_close(apart.independence.statistic, 2.0 * (each - all));
    assert!(together.independence != apart.independence);
}

/// Statistics and probabilities that a program of `NumPy` and `SciPy` 1.17.1 (`chi2.sf`) gave.
#[test]
fn coverage_is_that_of_another_program() {
    let of = |n: usize, at: &[usize], level: f64| {
        let exceeds: Vec<bool> = (0..n).map(|day| at.contains(&day)).collect();
        Coverage::of(&exceeds, level)
    };
    for (found, exceedances, [unconditional, independence, conditional]) in [
        (
            of(250, &[10, 11, 100, 200], 0.99),
            4,
            [
                (0.7691383643858458, 0.380483738238954),
                (4.106993251527205, 0.04270622318383066),
                (4.876131615913051, 0.08732960043122948),
            ],
        ),
        (
            of(1000, &[3, 50, 51, 52, 400, 401, 700, 900, 901, 902, 999], 0.99),
            11,
            [
                (0.0978343969784703, 0.7544440842190968),
                (33.98765326760156, 5.546290285856903e-09),
                (34.08548766458003, 3.966709507742825e-08),
            ],
        ),
        (
            of(500, &[100], 0.95),
            1,
            [
                (42.754957483707344, 6.20444472987464e-11),
                (0.00401606695593415, 0.9494699277668971),
                (42.75897355066328, 5.188082428400981e-10),
            ],
        ),
        (
            of(255, &[], 0.99),
            0,
            [
                (5.12567128528574, 0.023574450485913),
                (-0.0, 1.0),
                (5.12567128528574, 0.07708584232989268),
            ],
        ),
    ] {
        assert_eq!(found.exceedances, exceedances);
        for (test, (statistic, p_value)) in [
            (found.unconditional, unconditional),
            (found.independence, independence),
            (found.conditional, conditional),
        ] {
            assert_close(test.statistic, statistic);
            assert_close(test.p_value, p_value);
        }
    }
}

#[test]
fn losses_are_those_of_the_settlements_after() {
    let job = with(job(&[("XEQ1", 2.0), ("XEQ1", -1.0)]), json!({ "timeHorizonDays": 3 }));
    let found = backtest(&job, "2024-01-01", "2024-06-30").unwrap();
    let [_, (_, prices), _] = molbox_margin::sample::files();
    let price = |day: String| -> f64 {
        let row = format!("{day},XEQ1,");
        prices.lines().find_map(|line| line.strip_prefix(&row)).unwrap().parse().unwrap()
    };
    assert!(found.days.len() > 35 && found.skipped.is_empty());
    for (day, next) in found.days.iter().zip(&found.days[1..]) {
        assert_eq!(day.until, next.date, "periods follow one another");
        let change = price(day.until.to_string()) - price(day.date.to_string());
        assert_close(day.loss, -50.0 * change);
    }
}

#[test]
fn a_margin_of_the_past_knows_nothing_of_what_came_after() {
    let job = job(&[("XEQ1", 1.0), ("XBD1", -2.0)]);
    let found = backtest(&job, "2023-01-01", "2023-01-31").unwrap();
    for day in &found.days {
        let alone = with(job.clone(), json!({ "marginDate": day.date.to_string() }));
        let alone = crate::common::report(&alone).summary.initial_margin;
        assert_eq!(day.initial_margin, alone);
    }
}

/// Single contracts, since how the sample's move together changes with the years.
#[test]
fn exceedances_of_the_sample_data_are_those_of_the_level() {
    let fields = json!({
        "timeHorizonDays": 1, "confidenceLevel": 0.95, "numScenarios": 1000, "settings": {},
    });
    for positions in [[("XEQ1", 1.0)], [("XBD1", -1.0)]] {
        let found = backtest(&with(job(&positions), fields.clone()), "2021-01-01", "2024-12-31");
        let found = found.unwrap();
        assert!(found.coverage.n_days > 900);
        assert!(found.coverage.unconditional.p_value > 0.05, "{:?}", found.coverage);
        assert!(found.margin_exceedances < found.coverage.exceedances);
    }
}

#[test]
fn a_contract_that_has_expired_since_has_a_backtest_of_its_time() {
    let [(_, contracts), (_, prices), (_, fx)] = molbox_margin::sample::files();
    let expiring = |line: &str| {
        let is_it = line.starts_with("XEQ1,");
        if is_it { format!("{line}2024-03-28\n") } else { format!("{line}\n") }
    };
    let contracts: String = contracts.lines().map(expiring).collect();
    let job = job(&[("XEQ1", 1.0), ("XBD1", -2.0)]);
    let of = |store| {
        let [first, last] = ["2024-01-02", "2024-12-31"].map(|day| day.parse().unwrap());
        let (format, run) = (DataFormat::Json, Run::default());
        Backtest::of(&job, format, &store, first, Some(last), run, |_, _| ())
    };
    let found = of(store_of(&contracts, &prices, &fx)).unwrap();
    let before = of(store("sample")).unwrap();
    let expiry = "2024-03-28".parse().unwrap();
    let of_its_time = before.days.iter().filter(|day| day.date <= expiry);
    let losses =
        |days: &[molbox_margin::Day]| -> Vec<f64> { days.iter().map(|day| day.loss).collect() };
    let of_its_time: Vec<_> = of_its_time.cloned().collect();
    assert_eq!(losses(&found.days), losses(&of_its_time));
    assert!(found.skipped.iter().all(|day| day.date > expiry && day.reason.contains("expired")));
}

#[test]
fn a_backtest_without_a_day_says_why() {
    let whole = with(job(&[("XEQ1", 1.0)]), json!({ "settings": {} }));
    let violations = refused(backtest(&whole, "2004-01-01", "2005-01-10"));
    assert!(violations[0].msg.contains("daily returns"), "{}", violations[0].msg);
    let violations = refused(backtest(&whole, "2025-01-01", "2025-12-31"));
    assert!(
        violations[0].msg.contains("fewer than 2 days with a settlement of every ticker follow"),
        "{}",
        violations[0].msg
    );
}
