//! Cases with results that other programs calculated.

use std::fs;

use serde_json::{Value, json};

use crate::common::{calculate, folder, refused, store};

/// Relative. Other programs add up in another order.
const TOLERANCE: f64 = 1e-12;

#[test]
fn every_case_has_the_expected_result() {
    let mut cases: Vec<_> =
        fs::read_dir(folder("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|case| case.join("request.json").exists());
    assert_eq!(cases.len(), 10);
    for case in cases {
        let read = |name| fs::read_to_string(case.join(name)).unwrap();
        let request = serde_json::from_str(&read("request.json")).unwrap();
        let report = calculate(&request, &store(read("store.txt").trim())).unwrap();
        let of_rows = csv_deviation(&report.csv(), &read("expected.csv"));
        let expected: Value = serde_json::from_str(&read("expected.json")).unwrap();
        let answer: Value = serde_json::from_str(&report.json()).unwrap();
        let of_summary = json_deviation(&answer["summary"], &expected["summary"]);
        // The cases are older than the warning of few scenarios, which has tests of its own.
        let of_scenarios =
            |warning: &&Value| warning.as_str().is_some_and(|text| text.contains(" scenarios: "));
        let warnings: Vec<_> =
            answer["warnings"].as_array().unwrap().iter().filter(|w| !of_scenarios(w)).collect();
        assert_eq!(json!(warnings), expected["warnings"], "{}", case.display());
        assert!(
            of_rows < TOLERANCE && of_summary < TOLERANCE,
            "{} {of_rows:e} {of_summary:e}",
            case.display()
        );
    }
}

/// Largest difference of two numbers, relative to the expected one, or to the gross margin for
/// margins; everything else has to be equal.
fn csv_deviation(csv: &str, expected: &str) -> f64 {
    let table = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let (rows, expected) = (table(csv), table(expected));
    assert_eq!(rows[0], expected[0]);
    assert_eq!(rows.len(), expected.len());
    let number = |text: &str| text.parse::<f64>().unwrap();
    let gross: f64 = expected[1..].iter().map(|row| number(&row[6]).abs()).sum();
    let mut worst = 0.0_f64;
    for (row, expected) in rows[1..].iter().zip(&expected[1..]) {
        assert_eq!(row[..4], expected[..4]);
        for (column, (value, expected)) in row.iter().zip(expected).enumerate().skip(4) {
            let scale = if matches!(column, 6 | 7) { gross } else { number(expected).abs() };
            worst = worst.max((number(value) - number(expected)).abs() / scale.max(1.0));
        }
    }
    worst
}

fn json_deviation(value: &Value, expected: &Value) -> f64 {
    match (value, expected) {
        (Value::Object(map), Value::Object(expected)) => {
            assert_eq!(map.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            map.iter().map(|(key, value)| json_deviation(value, &expected[key])).fold(0.0, f64::max)
        }
        (Value::Number(number), Value::Number(expected)) => {
            let (number, expected) = (number.as_f64().unwrap(), expected.as_f64().unwrap());
            (number - expected).abs() / expected.abs().max(1e-3)
        }
        _ => {
            assert_eq!(value, expected);
            0.0
        }
    }
}

#[test]
fn every_refusal_has_the_expected_place_and_type() {
    let cases = fs::read_to_string(folder("cases/errors.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let violations =
            refused(calculate(&case["request"], &store(case["store"].as_str().unwrap())));
        assert_eq!(serde_json::to_value(violations).unwrap(), case["detail"], "{}", case["name"]);
    }
}
