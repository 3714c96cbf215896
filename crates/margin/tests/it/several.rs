//! Several portfolios in one request.

use molbox_margin::{DataFormat, Request, Requests, Run};
use serde_json::{Value, json};

use crate::common::{self, store};

fn position(ticker: &str, side: &str, quantity: f64) -> Value {
    json!({"ticker": ticker, "type": side, "quantity": quantity})
}

/// A job with these portfolios.
fn job(portfolios: Value) -> Value {
    json!({"marginDate": "2024-12-31", "numScenarios": 500, "seed": 3, "worstScenarios": 2, "portfolios": portfolios})
}

fn desks() -> Value {
    json!([
        {"name": "equities", "futures": [position("XEQ1", "long", 2.0), position("XEQ2", "short", 1.0)]},
        {"name": "empty", "futures": []},
        {"name": "a, b", "data": "ticker,type,quantity\nXEQ1,short,3\n"},
    ])
}

fn refused(job: Value) -> Vec<String> {
    let read = Requests::from_value(job, DataFormat::Csv, &store("sample"));
    common::refused(read).iter().map(ToString::to_string).collect()
}

#[test]
fn each_portfolio_has_the_numbers_that_it_has_by_itself() {
    let store = store("sample");
    let together = Requests::from_value(job(desks()), DataFormat::Csv, &store).unwrap();
    let reports = together.calculate(Run::default()).unwrap();
    assert_eq!(reports.portfolios.len(), 3);
    for (named, portfolio) in reports.portfolios.iter().zip(desks().as_array().unwrap()) {
        assert_eq!(portfolio["name"], &*named.name);
        let mut alone = job(Value::Null);
        alone["portfolio"] = portfolio.clone();
        alone["portfolio"].as_object_mut().unwrap().remove("name");
        alone.as_object_mut().unwrap().remove("portfolios");
        let alone = Request::from_value(&alone, DataFormat::Csv, &store).unwrap();
        let alone = alone.calculate(Run::default()).unwrap();
        assert_eq!(named.report.json(), alone.json(), "byte for byte");
        assert_eq!(named.report.csv(), alone.csv());
    }
}

/// A value whose numbers are all doubles: YAML has whole ones as integers.
fn with_doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(items) => items.into_iter().map(with_doubles).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, with_doubles(member))).collect()
        }
        other => other,
    }
}

#[test]
fn an_answer_names_the_portfolio_in_every_notation() {
    let together = Requests::from_value(job(desks()), DataFormat::Csv, &store("sample")).unwrap();
    let reports = together.calculate(Run::default()).unwrap();
    let csv = reports.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 4, "{csv}");
    assert!(lines[0].starts_with("portfolio,ticker,positionType"), "{csv}");
    assert!(
        lines[1].starts_with("equities,XEQ1,long,") && lines[3].starts_with("\"a, b\",XEQ1,short,"),
        "{csv}"
    );
    let filing = reports.filing("digest");
    let first: Vec<&str> = filing.lines().map(|line| line.split(",XEQ").next().unwrap()).collect();
    assert_eq!(first.len(), 7, "two, none and one, with a total each: {filing}");
    assert!(first[0].starts_with("portfolio,ticker,") && first[3].starts_with("equities,total,"));
    assert!(first[4].starts_with("empty,total,") && first[6].starts_with("\"a, b\",total,"));
    let json: Value = serde_json::from_str(&reports.json()).unwrap();
    assert_eq!(json["portfolios"][2]["name"], "a, b");
    assert_eq!(json["portfolios"][1]["report"]["rows"], json!([]));
    let yaml: Value = serde_saphyr::from_str(&reports.yaml()).unwrap();
    assert_eq!(with_doubles(yaml), with_doubles(json), "the same keys and numbers");
    let xml = reports.xml();
    assert_eq!(xml.matches("<?xml").count(), 1, "{xml}");
    assert_eq!(xml.matches("<margin>").count(), 3);
    assert!(xml.contains("<portfolio name=\"equities\">"), "{xml}");
}

#[test]
fn what_is_wrong_with_a_portfolio_names_it_and_its_place() {
    let found = refused(job(json!([
        {"name": "good", "futures": [position("XEQ1", "long", 1.0)]},
        {"name": "bad", "futures": [position("XEQ1", "long", 1.0), position("LOST", "long", 1.0)]},
    ])));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("body.portfolios[1].futures[1].ticker"), "{found:?}");
    assert!(found[0].contains("(portfolio \"bad\")"), "{found:?}");
}

#[test]
fn what_is_wrong_with_the_fields_that_they_share_stands_once() {
    let mut job = job(desks());
    job["ewmaDecayFactor"] = json!(2);
    let found = refused(job);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("body.ewmaDecayFactor") && !found[0].contains("portfolio"),
        "{found:?}"
    );
}

#[test]
fn names_and_numbers_of_portfolios_have_limits() {
    let one = |name: Value| json!({"name": name, "futures": []});
    for (portfolios, part) in [
        (json!([]), "from 1 to 100 portfolios, got 0"),
        (json!("none"), "must be a list"),
        (json!([3]), "must be an object"),
        (json!([{"futures": []}]), "body.portfolios[0].name"),
        (json!([one(json!(" "))]), "must have from 1 to 100 characters"),
        (json!([one(json!("x".repeat(101)))]), "must have from 1 to 100 characters"),
        (json!([one(json!("a")), one(json!("a"))]), "is given more than once"),
        ((0..101).map(|n| one(json!(n.to_string()))).collect(), "got 101"),
    ] {
        let found = refused(job(portfolios));
        assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:?}");
    }
    let mut both = job(desks());
    both["portfolio"] = json!({"futures": []});
    assert!(refused(both)[0].contains("cannot be given beside portfolios"));
    let mut losses = job(desks());
    losses["includeLosses"] = json!(true);
    losses["numScenarios"] = json!(400_000);
    assert!(refused(losses)[0].contains("body.includeLosses"));
}

#[test]
fn an_empty_list_is_none_and_another_is_not_passed_over() {
    let store = store("sample");
    let mut alone = job(Value::Null);
    alone["portfolio"] = json!({"futures": [position("XEQ1", "long", 2.0)]});
    let read = |job: &Value| {
        Request::from_json(job.to_string().as_bytes(), DataFormat::Json, &store).map(|request| {
            assert_eq!(request.unknown_fields().listed, []);
            request.calculate(Run::default()).unwrap().csv()
        })
    };
    let margin = read(&alone).unwrap();
    alone["portfolios"] = json!([]);
    assert_eq!(read(&alone).unwrap(), margin);

    alone["portfolios"] = desks();
    let problems = |found: Result<String, _>| common::refused(found)[0].to_string();
    assert!(problems(read(&alone)).starts_with("body.portfolios: several portfolios"));
    let documents = [
        (DataFormat::Yaml, "portfolios: [{name: a, futures: []}]"),
        (DataFormat::Yaml, "portfolio: {futures: []}\nportfolios: [{name: a, futures: []}]"),
        (
            DataFormat::Xml,
            "<marginJob><portfolio><futures/></portfolio><portfolios><portfolio/></portfolios></marginJob>",
        ),
    ];
    for (format, document) in documents {
        let read = Request::from_document(document.as_bytes(), format, [], &store);
        let found = common::refused(read);
        let is_named = found.iter().any(|problem| problem.to_string().contains("body.portfolios:"));
        assert!(is_named, "{found:?}");
    }
}
