//! Documents that are meant to do harm, or are broken.

use std::fs;
use std::time::{Duration, Instant};

use molbox_margin::{DataFormat, Error, MAX_LISTED, MAX_POSITIONS, Report, Request};
use serde_json::json;

use crate::common::{calculate, folder, refused, store, store_of, summary, with};

const FORMATS: [DataFormat; 5] =
    [DataFormat::Csv, DataFormat::Json, DataFormat::Yaml, DataFormat::Xml, DataFormat::Fpml];

fn read(document: impl AsRef<[u8]>, format: DataFormat) -> Result<Request, Error> {
    let start = Instant::now();
    let job = json!({ "volatilityLookbackDays": 1 });
    let read = Request::from_parts(&job, document.as_ref(), format, &store("hand"));
    // A thousand times what it takes, in a build without optimisation, on a busy machine.
    assert!(start.elapsed() < Duration::from_secs(60), "{format:?}");
    read
}

fn refusal(document: impl AsRef<[u8]>, format: DataFormat) -> Vec<String> {
    summary(&refused(read(document, format)))
}

const UNREADABLE: [&str; 1] = ["portfolio value_error.document"];

#[test]
fn other_encodings_than_utf8_are_refused() {
    for format in FORMATS {
        let utf16: Vec<u8> =
            "\u{feff}ticker,type,quantity\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(refusal(utf16, format), UNREADABLE);
        assert_eq!(refusal(b"ticker,type,quantity\nM\xfcnchen,long,1\n", format), UNREADABLE);
    }
    let latin = "<?xml version='1.0' encoding='ISO-8859-1'?><portfolio><futures/></portfolio>";
    assert_eq!(refusal(latin, DataFormat::Xml), UNREADABLE);
    assert!(read(latin.replace("ISO-8859-1", "UTF-8"), DataFormat::Xml).is_ok());
}

#[test]
fn document_types_and_entities_are_refused() {
    let bomb = "<!DOCTYPE p [<!ENTITY a 'aaaaaaaa'><!ENTITY b \
                '&a;&a;&a;&a;'>]><portfolio><futures>&b;</futures></portfolio>";
    let file = "<!DOCTYPE p SYSTEM 'file:///etc/passwd'><portfolio><futures/></portfolio>";
    let undefined = "<portfolio><futures><future ticker='AAA' \
                     type='long'><quantity>&one;</quantity></future></futures></portfolio>";
    for document in [bomb, file, undefined] {
        assert_eq!(refusal(document, DataFormat::Xml), UNREADABLE, "{document}");
    }
}

#[test]
fn aliases_of_yaml_do_not_multiply() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..12 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(",");
        bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
    }
    assert_eq!(refusal(bomb + "futures: []\n", DataFormat::Yaml), UNREADABLE);
}

#[test]
fn nesting_is_bounded() {
    const DEPTH: usize = 200_000;
    assert_eq!(refusal("[".repeat(DEPTH), DataFormat::Json), UNREADABLE);
    assert_eq!(
        refusal(format!("{{\"futures\": {}", "[".repeat(DEPTH)), DataFormat::Json),
        UNREADABLE
    );
    assert_eq!(refusal("[".repeat(DEPTH), DataFormat::Yaml), UNREADABLE);
    assert_eq!(refusal("- ".repeat(DEPTH), DataFormat::Yaml), UNREADABLE);
    assert_eq!(refusal(format!("<portfolio>{}", "<a>".repeat(DEPTH)), DataFormat::Xml), UNREADABLE);
    assert_eq!(
        refusal(format!("<portfolio><futures><future>{}", "<a>".repeat(DEPTH)), DataFormat::Xml),
        UNREADABLE
    );
}

#[test]
fn attributes_and_namespaces_do_not_take_quadratic_time() {
    let attributes: String = (0..300_000).map(|n| format!(" a{n}=''")).collect();
    assert_eq!(
        refusal(
            format!("<portfolio><futures><future{attributes}/></futures></portfolio>"),
            DataFormat::Xml
        ),
        UNREADABLE
    );
    assert_eq!(refusal(format!("<portfolio{attributes}/>"), DataFormat::Xml), UNREADABLE);
    let siblings: String = (0..100_000).map(|n| format!("<a xmlns:b{n}='{n}'/>")).collect();
    assert!(read(format!("<portfolio><futures/>{siblings}</portfolio>"), DataFormat::Xml).is_ok());
}

#[test]
fn repeated_keys_are_refused() {
    let position = r#"{"ticker": "AAA", "type": "long", "quantity": 1, "quantity": 2}"#;
    for document in
        [format!("{{\"futures\": [{position}]}}"), "{\"futures\": [], \"futures\": []}".to_owned()]
    {
        assert_eq!(refusal(&document, DataFormat::Json), UNREADABLE);
        assert_eq!(refusal(&document, DataFormat::Yaml), UNREADABLE);
    }
    for position in [
        "<future ticker='AAA' ticker='AAA'/>",
        "<future ticker='AAA'><ticker>BBB</ticker></future>",
    ] {
        assert_eq!(
            refusal(
                format!("<portfolio><futures>{position}</futures></portfolio>"),
                DataFormat::Xml
            ),
            UNREADABLE
        );
    }
    assert_eq!(refusal("<portfolio><futures/><futures/></portfolio>", DataFormat::Xml), UNREADABLE);
    assert_eq!(refusal("ticker,type,quantity,quantity\n", DataFormat::Csv), UNREADABLE);
    let job = b"{\"numScenarios\": 1, \"numScenarios\": 2, \"portfolio\": {\"futures\": []}}";
    assert_eq!(
        summary(&refused(Request::from_json(job, DataFormat::Json, &store("hand")))),
        [" value_error.document"]
    );
}

#[test]
fn a_document_ends_where_it_should() {
    for document in [
        "<portfolio><futures>",
        "<portfolio><futures/></portfolio><portfolio/>",
        "<portfolio/>x",
        "",
        "x",
        "<a/>",
    ] {
        assert_eq!(refusal(document, DataFormat::Xml), UNREADABLE, "{document}");
    }
    for document in ["{\"futures\": []}{}", "{\"futures\": [", "", "nonsense"] {
        assert_eq!(refusal(document, DataFormat::Json), UNREADABLE, "{document}");
    }
    for document in [
        "ticker,type\nAAA,long\n",
        "ticker,type,quantity\nAAA,long\n",
        "ticker,type,quantity\nAAA,\"long,1\n",
    ] {
        assert_eq!(refusal(document, DataFormat::Csv).len(), 1, "{document}");
    }
}

#[test]
fn a_line_does_not_grow_without_bounds() {
    let (header, commas) = ("ticker,type,quantity", ",".repeat(3_000_000));
    assert_eq!(refusal(format!("{header}{commas}"), DataFormat::Csv), UNREADABLE);
    assert_eq!(refusal(format!("{header}\nAAA,long,1{commas}"), DataFormat::Csv), UNREADABLE);
    assert_eq!(refusal(format!("{header}\nAAA,long,\"{commas}\n\""), DataFormat::Csv), UNREADABLE);
}

#[test]
fn names_of_elements_are_bounded() {
    let name = "a".repeat(100_000);
    let nested =
        format!("<portfolio><futures/><{name}>{}</{name}></portfolio>", "<b/>".repeat(100_000));
    assert_eq!(refusal(nested, DataFormat::Xml), UNREADABLE);
    assert_eq!(
        refusal("<portfolio><futures/future ticker='AAA'/></portfolio>", DataFormat::Xml),
        UNREADABLE
    );
}

#[test]
fn numbers_that_no_double_holds_are_refused() {
    let row = |number: &str| {
        refusal(format!("ticker,type,quantity\nAAA,long,{number}\n"), DataFormat::Csv)
    };
    for number in ["1e999", "NaN", "inf", "-inf", "0x10", "1,5", "1_000"] {
        assert_eq!(row(number).len(), 1, "{number}");
    }
    assert_eq!(refusal("{\"futures\": [{\"quantity\": 1e999}]}", DataFormat::Json), UNREADABLE);
    let yaml = "futures: [{ticker: AAA, type: long, quantity: .nan}]";
    assert_eq!(refusal(yaml, DataFormat::Yaml), ["portfolio.futures[0].quantity type_error"]);
}

#[test]
fn a_million_positions_are_read_before_one_more_is_refused() {
    let document = "ticker,type,quantity\n".to_owned() + &"AAA,long,1\n".repeat(MAX_POSITIONS + 1);
    assert_eq!(refusal(document, DataFormat::Csv), ["portfolio.futures value_error.too_large"]);
}

#[test]
fn a_list_of_violations_is_bounded() {
    let document = "ticker,type,quantity\n".to_owned() + &"NONE,long,1\n".repeat(10 * MAX_LISTED);
    assert_eq!(refusal(document, DataFormat::Csv).len(), MAX_LISTED);
}

/// Bytes of a portfolio changed, lost, doubled, or replaced by something with a meaning.
#[test]
fn mutated_documents_are_read_or_refused() {
    const TOKENS: [&[u8]; 16] = [
        b"\"",
        b"'",
        b"<",
        b"</",
        b"&amp;",
        b"<!--",
        b"<![CDATA[",
        b"{",
        b"]",
        b": ",
        b"\n- ",
        b"&a ",
        b"*a",
        b"\xff",
        b"1e9",
        b"\0",
    ];
    let names = [
        "portfolio.csv",
        "portfolio.json",
        "portfolio.yaml",
        "portfolio.xml",
        "portfolio.fpml.xml",
    ];
    let mut state = 1_u64;
    let mut random = |n: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let store = store("sample");
    let start = Instant::now();
    let (mut n_read, mut n_refused) = (0, 0);
    for (format, name) in FORMATS.into_iter().zip(names) {
        let original = fs::read(folder("../../../examples/portfolio").join(name)).unwrap();
        for _ in 0..1000 {
            let mut document = original.clone();
            for _ in 0..1 + random(4) {
                let (at, to) = (random(document.len()), random(document.len()));
                let (from, to) = (at.min(to), at.max(to).min(at.min(to) + 200));
                match random(4) {
                    0 => document[at] = random(256) as u8,
                    1 => drop(document.drain(from..to)),
                    2 => document
                        .splice(
                            at..at,
                            original[from.min(original.len())..to.min(original.len())].to_vec(),
                        )
                        .for_each(drop),
                    _ => document
                        .splice(at..at, TOKENS[random(TOKENS.len())].iter().copied())
                        .for_each(drop),
                }
                document.push(b'\n');
            }
            match Request::from_document(&document, format, [], &store) {
                Ok(_) => n_read += 1,
                Err(Error::Refused(violations)) if !violations.is_empty() => n_refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    assert!(n_read > 100 && n_refused > 1000, "{n_read} {n_refused}");
    assert!(start.elapsed() < Duration::from_secs(120));
}

/// The margin of a contract on 84 days of prices, some of which are these.
fn of_prices(
    return_type: &str,
    spike: &[(usize, &str)],
    fields: serde_json::Value,
) -> Result<Report, Error> {
    let mut prices = String::from("date,ticker,settle\n");
    for n in 0..84 {
        let (month, day) = (n / 28 + 1, n % 28 + 1);
        let usual = (100 + n * n % 11).to_string();
        let price =
            spike.iter().find(|(at, _)| *at == n).map_or(usual.as_str(), |(_, price)| *price);
        prices.push_str(&format!("2024-{month:02}-{day:02},AAA,{price}\n"));
    }
    let contracts = format!(
        "ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\nAAA,USD,10,{return_type},,\n"
    );
    let job = json!({
        "marginDate": "2024-03-28", "volatilityLookbackDays": 30,
        "portfolio": { "futures": [{ "ticker": "AAA", "type": "long", "quantity": 1 }] },
    });
    calculate(&with(job, fields), &store_of(&contracts, &prices, "date,currency,rate\n"))
}

/// Every number of an answer, in whatever part.
fn numbers(value: &serde_json::Value) -> Vec<f64> {
    match value {
        serde_json::Value::Array(items) => items.iter().flat_map(numbers).collect(),
        serde_json::Value::Object(fields) => fields.values().flat_map(numbers).collect(),
        serde_json::Value::Null => panic!("a number that is none"),
        other => other.as_f64().into_iter().collect(),
    }
}

#[test]
fn prices_of_any_size_give_finite_margins_or_are_refused() {
    let spikes: [&[(usize, &str)]; 9] = [
        &[(30, "1e308")],
        &[(30, "1e308"), (31, "-1e308")],
        &[(83, "1e308")],
        &[(30, "1e200")],
        &[(30, "5e-324")],
        &[(83, "5e-324")],
        &[(30, "0")],
        &[(30, "-7")],
        &[(82, "1e154")],
    ];
    let (mut n_refused, mut n_calculated) = (0, 0);
    for return_type in ["absolute", "log"] {
        for spike in spikes {
            for horizon in [1, 2, 50] {
                match of_prices(return_type, spike, json!({ "timeHorizonDays": horizon })) {
                    Ok(report) => {
                        n_calculated += 1;
                        let answer: serde_json::Value =
                            serde_json::from_str(&report.json()).unwrap();
                        let all = numbers(&answer);
                        assert!(
                            all.len() > 12 && all.iter().all(|number| number.is_finite()),
                            "{spike:?} {answer}"
                        );
                    }
                    Err(Error::Refused(violations)) => {
                        n_refused += 1;
                        assert!(!violations.is_empty(), "{spike:?}");
                    }
                    Err(error) => panic!("{spike:?}: {error}"),
                }
            }
        }
    }
    assert!(n_refused > 10 && n_calculated > 10, "{n_refused} {n_calculated}");
}

#[test]
fn prices_without_a_logarithm_have_a_warning_with_their_days() {
    let spike = [(30, "0"), (31, "-7")];
    let warnings = |return_type: &str, fields| -> Vec<String> {
        let warnings = of_prices(return_type, &spike, fields).unwrap().warnings;
        warnings.into_iter().filter(|warning| warning.contains("above zero")).collect()
    };
    let found = warnings("log", json!({}));
    assert_eq!(found.len(), 1, "{found:?}");
    let expected =
        "2 prices of AAA from 2024-02-03 to 2024-02-04 are not above zero: the daily returns";
    assert!(found[0].starts_with(expected), "{found:?}");
    assert_eq!(warnings("absolute", json!({})), [""; 0]);
    // Nothing of what comes after the margin date is used.
    assert_eq!(warnings("log", json!({ "marginDate": "2024-02-02" })), [""; 0]);
    let found = of_prices("log", &[(40, "-1")], json!({})).unwrap().warnings;
    let expected = "the price of AAA on 2024-02-13 is not above zero";
    assert!(found.iter().any(|warning| warning.starts_with(expected)), "{found:?}");
}

#[test]
fn a_move_whose_square_is_infinite_is_refused_by_its_day() {
    let violations = refused(of_prices("absolute", &[(30, "1e200")], json!({})));
    assert_eq!(summary(&violations), ["portfolio.futures[0].ticker value_error.overflow"]);
    assert!(violations[0].to_string().contains("2024-02-03"), "{}", violations[0]);
}

#[test]
fn quantities_whose_sum_overflows_are_no_offset() {
    let long = json!({ "ticker": "AAA", "type": "long", "quantity": 1e307 });
    let many = json!({ "portfolio": { "futures": vec![long; 40] } });
    // Small prices, so that no value of a single position overflows.
    let small: Vec<String> = (0..84).map(|n| format!("{}e-9", 100 + n * n % 11)).collect();
    let small: Vec<(usize, &str)> = small.iter().map(String::as_str).enumerate().collect();
    let violations = refused(of_prices("log", &small, many));
    assert_eq!(violations[0].kind, "value_error.overflow");
}

#[test]
fn factors_of_any_size_give_finite_margins_or_are_refused() {
    for field in ["volatilityMultiplier", "ewmaDecayFactor", "volatilityLookbackDays"] {
        for number in [5e-324, 1e-300, 0.5, 1.0, 1e9, 1e300, f64::MAX] {
            match of_prices("log", &[], json!({ field: number, "timeHorizonDays": 20 })) {
                Ok(report) => {
                    let answer = serde_json::from_str(&report.json()).unwrap();
                    assert!(
                        numbers(&answer).iter().all(|number| number.is_finite()),
                        "{field} {number}: {answer}"
                    );
                }
                Err(Error::Refused(violations)) => assert!(!violations.is_empty()),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
