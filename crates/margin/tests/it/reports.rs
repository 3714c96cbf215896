//! The answer in its notations.

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
