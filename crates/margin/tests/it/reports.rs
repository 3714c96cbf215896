//! The answer in its notations.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::{calculate, job, report, store_of, with};

const HEADER: &str = "ticker,positionType,currency,entryDate,entryMarketValue,currentMarketValue,initialMargin,maintenanceMargin,variationMargin,size,quantity,portfolioWeight";

#[test]
fn csv_has_the_documented_columns() {
    let csv = report(&job(&[("XEQ1", 1.5), ("XEQ4", -2.0)])).csv();
    assert!(csv.starts_with(&format!("{HEADER}\nXEQ1,long,USD,2024-12-30,")));
    assert!(csv.ends_with('\n') && !csv.contains('\r'));
    assert!(csv.lines().all(|line| line.split(',').count() == 12));
}

/// The lines of a filing as maps from column to field.
fn lines_of(filing: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(filing.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_filing_stands_by_itself() {
    let report = report(&job(&[("XEQ1", 1.5), ("XEQ4", -2.0)]));
    let filing = report.filing("digest");
    assert!(filing.starts_with(&format!("{HEADER},dailySigma,exchangeRate,")), "{filing}");
    let lines = lines_of(&filing);
    assert_eq!(lines.len(), 3, "{filing}");
    let number = |line: usize, column: &str| lines[line][column].parse::<f64>().unwrap();
    let total = &lines[2];
    assert_eq!(
        (&*total["ticker"], &*total["positionType"], &*total["currency"]),
        ("total", "total", "USD")
    );
    for (column, expected) in [
        ("seed", "42"),
        ("numScenarios", "1000"),
        ("timeHorizonDays", "2"),
        ("confidence", "0.99"),
        ("riskMeasure", "expected_shortfall"),
        ("marketData", "digest"),
        ("exchangeRate", "1"),
        ("volatilityLookbackDays", "250"),
        ("ewmaDecayFactor", "0.97"),
        ("volatilityMultiplier", "1"),
        ("volatilityFloor", "0"),
        ("startDate", "2020-01-01"),
        ("endDate", "2024-12-31"),
        ("addedDates", ""),
        ("stressStartDate", ""),
    ] {
        assert_eq!(total[column], expected, "{column}");
    }
    assert!(
        total["warnings"].is_empty() && lines.iter().all(|line| line["marginDate"] == "2024-12-31")
    );
    let simulation = report.summary.simulation.as_ref().unwrap();
    assert_eq!(number(1, "exchangeRate"), simulation.rates[0].1);
    for (line, (_, sigma)) in simulation.sigmas.iter().enumerate() {
        assert!((number(line, "dailySigma") - sigma).abs() <= 5.1e-9);
    }
    // Rounded each by itself.
    assert!((number(2, "initialMargin") - report.summary.initial_margin).abs() <= 0.0051);
    let sum = number(0, "initialMarginConverted") + number(1, "initialMarginConverted");
    assert!((sum - number(2, "initialMargin")).abs() < 0.02, "{filing}");
    for column in ["currentMarketValue", "initialMargin", "maintenanceMargin", "variationMargin"] {
        let decimals =
            |line: &BTreeMap<String, String>| line[column].split_once('.').unwrap().1.len();
        assert!(lines.iter().all(|line| decimals(line) == 2), "{column}: {filing}");
    }
}

#[test]
fn a_filing_has_every_setting_that_was_asked_for() {
    let settings = json!({
        "startDate": "2012-01-02",
        "endDate": "2024-12-30",
        "addedDates": ["2008-10-15", "2009-03-02"],
        "excludedDates": ["2020-03-16"],
        "stressStartDate": "2009-01-05",
        "stressEndDate": "2009-06-30",
    });
    let asked = json!({
        "volatilityLookbackDays": 120,
        "ewmaDecayFactor": 0.94,
        "volatilityMultiplier": 1.25,
        "volatilityFloor": 0.5,
        "stressWeight": 0.4,
        "settings": settings,
    });
    let filing = report(&with(job(&[("XEQ1", 1.0)]), asked.clone())).filing("digest");
    let total = &lines_of(&filing)[1];
    let of_job = asked.as_object().unwrap().iter().filter(|(name, _)| *name != "settings");
    for (name, value) in of_job.chain(settings.as_object().unwrap()) {
        let expected = match value {
            Value::Array(dates) => {
                dates.iter().map(|date| date.as_str().unwrap()).collect::<Vec<_>>().join(";")
            }
            Value::String(date) => date.clone(),
            number => number.to_string(),
        };
        assert_eq!(total[name], expected, "{name}");
    }
}

#[test]
fn a_filing_of_nothing_has_a_total_of_zero() {
    let empty = report(&json!({ "portfolio": { "futures": [] } }));
    let lines = lines_of(&empty.filing("digest"));
    assert_eq!(lines.len(), 1);
    assert_eq!((&*lines[0]["positionType"], &*lines[0]["initialMargin"]), ("total", "0.00"));
}

#[test]
fn a_filing_has_the_warnings() {
    let few =
        report(&with(job(&[("XEQ1", 1.0)]), json!({ "settings": { "startDate": "2024-12-01" } })));
    assert_eq!(lines_of(&few.filing(""))[1]["warnings"], few.warnings.join("; "));
}

#[test]
fn all_notations_say_the_same() {
    let report = report(&job(&[("XEQ1", 1.5), ("XEQ4", -2.0), ("XCM3", 0.0)]));
    let json: Value = serde_json::from_str(&report.json()).unwrap();
    let yaml: Value = serde_saphyr::from_str(&report.yaml()).unwrap();
    // Whole numbers are integers in one and not in the other.
    let text = |value: &Value| {
        value
            .as_f64()
            .map_or_else(|| value.as_str().unwrap().to_owned(), |number| number.to_string())
    };
    let lines: Vec<String> = serde_json::from_str(&report.lines()).unwrap();
    assert_eq!(lines, report.csv().lines().collect::<Vec<_>>());
    let xml = report.xml();
    for (n, line) in lines[1..].iter().enumerate() {
        let mut row = String::new();
        for (column, cell) in HEADER.split(',').zip(line.split(',')) {
            assert_eq!(text(&json["rows"][n][column]), cell);
            assert_eq!(text(&yaml["rows"][n][column]), cell);
            row += &format!("<{column}>{cell}</{column}>");
        }
        assert!(xml.contains(&format!("<row>{row}</row>")));
    }
    for (name, value) in json["summary"].as_object().unwrap() {
        let Value::Object(sigma) = value else {
            assert_eq!(text(&yaml["summary"][name]), text(value));
            assert!(xml.contains(&format!("<{name}>{}</{name}>", text(value))));
            continue;
        };
        for (ticker, sigma) in sigma {
            assert_eq!(text(&yaml["summary"]["sigma"][ticker]), text(sigma));
            assert!(xml.contains(&format!("<sigma ticker=\"{ticker}\">{sigma}</sigma>")));
        }
    }
}

#[test]
fn warnings_are_in_all_notations_that_have_a_place_for_them() {
    let few =
        report(&with(job(&[("XEQ1", 1.0)]), json!({ "settings": { "startDate": "2024-12-01" } })));
    let [warning] = &few.warnings[..] else { panic!("{:?}", few.warnings) };
    assert!(few.xml().contains(&format!("<warnings><warning>{warning}</warning></warnings>")));
    for text in [few.json(), few.yaml()] {
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["warnings"], json!([warning]));
    }
}

#[test]
fn an_empty_portfolio_has_a_report_in_every_notation() {
    let empty = report(&json!({ "portfolio": { "futures": [] } }));
    assert_eq!(empty.csv(), format!("{HEADER}\n"));
    let expected = json!({ "rows": [], "summary": { "initialMargin": 0.0, "maintenanceMargin": 0.0 }, "warnings": [] });
    assert_eq!(serde_json::from_str::<Value>(&empty.json()).unwrap(), expected);
    let yaml: Value = serde_saphyr::from_str(&empty.yaml()).unwrap();
    assert_eq!(yaml["rows"], json!([]));
    assert!(empty.xml().contains("<rows>\n</rows>"));
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
    let contracts = "ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\n\"A, \
                     \"\"B\"\" <&> 'C': #\",USD,1,absolute,,\n";
    let rows: String = (2..6)
        .map(|day| format!("2024-01-0{day},\"A, \"\"B\"\" <&> 'C': #\",{}\n", day * day))
        .collect();
    let store = store_of(contracts, &format!("date,ticker,settle\n{rows}"), "date,currency,rate\n");
    let fields = json!({ "marginDate": null, "settings": null, "volatilityLookbackDays": 1 });
    let report = calculate(&with(job(&[(name, 1.0)]), fields), &store).unwrap();
    let csv = report.csv();
    assert_eq!(
        &csv::Reader::from_reader(csv.as_bytes()).records().next().unwrap().unwrap()[0],
        name
    );
    for text in [report.json(), report.yaml()] {
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["rows"][0]["ticker"], name);
        assert!(read["summary"]["sigma"][name].is_number());
    }
    assert!(
        report.xml().contains("<ticker>A, &quot;B&quot; &lt;&amp;&gt; &apos;C&apos;: #</ticker>")
    );
}
