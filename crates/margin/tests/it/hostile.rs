//! Documents that are meant to do harm, or are broken.

use std::fs;
use std::time::{Duration, Instant};

use molbox_margin::{DataFormat, Error, MAX_COMPLAINTS, MAX_POSITIONS, Request};
use serde_json::json;

use crate::common::{folder, refused, store, summary};

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
        let utf16: Vec<u8> = "\u{feff}ticker,type,quantity\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(refusal(utf16, format), UNREADABLE);
        assert_eq!(refusal(b"ticker,type,quantity\nM\xfcnchen,long,1\n", format), UNREADABLE);
    }
    let latin = "<?xml version='1.0' encoding='ISO-8859-1'?><portfolio><futures/></portfolio>";
    assert_eq!(refusal(latin, DataFormat::Xml), UNREADABLE);
    assert!(read(latin.replace("ISO-8859-1", "UTF-8"), DataFormat::Xml).is_ok());
}

#[test]
fn document_types_and_entities_are_refused() {
    let bomb =
        "<!DOCTYPE p [<!ENTITY a 'aaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><portfolio><futures>&b;</futures></portfolio>";
    let file = "<!DOCTYPE p SYSTEM 'file:///etc/passwd'><portfolio><futures/></portfolio>";
    let undefined = "<portfolio><futures><future ticker='AAA' type='long'><quantity>&one;</quantity></future></futures></portfolio>";
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
    assert_eq!(refusal(format!("{{\"futures\": {}", "[".repeat(DEPTH)), DataFormat::Json), UNREADABLE);
    assert_eq!(refusal("[".repeat(DEPTH), DataFormat::Yaml), UNREADABLE);
    assert_eq!(refusal("- ".repeat(DEPTH), DataFormat::Yaml), UNREADABLE);
    assert_eq!(refusal(format!("<portfolio>{}", "<a>".repeat(DEPTH)), DataFormat::Xml), UNREADABLE);
    assert_eq!(refusal(format!("<portfolio><futures><future>{}", "<a>".repeat(DEPTH)), DataFormat::Xml), UNREADABLE);
}

#[test]
fn attributes_and_namespaces_do_not_take_quadratic_time() {
    let attributes: String = (0..300_000).map(|n| format!(" a{n}=''")).collect();
    assert_eq!(
        refusal(format!("<portfolio><futures><future{attributes}/></futures></portfolio>"), DataFormat::Xml),
        UNREADABLE
    );
    assert_eq!(refusal(format!("<portfolio{attributes}/>"), DataFormat::Xml), UNREADABLE);
    let siblings: String = (0..100_000).map(|n| format!("<a xmlns:b{n}='{n}'/>")).collect();
    assert!(read(format!("<portfolio><futures/>{siblings}</portfolio>"), DataFormat::Xml).is_ok());
}

#[test]
fn repeated_keys_are_refused() {
    let position = r#"{"ticker": "AAA", "type": "long", "quantity": 1, "quantity": 2}"#;
    for document in [format!("{{\"futures\": [{position}]}}"), "{\"futures\": [], \"futures\": []}".to_owned()] {
        assert_eq!(refusal(&document, DataFormat::Json), UNREADABLE);
        assert_eq!(refusal(&document, DataFormat::Yaml), UNREADABLE);
    }
    for position in ["<future ticker='AAA' ticker='AAA'/>", "<future ticker='AAA'><ticker>BBB</ticker></future>"] {
        assert_eq!(
            refusal(format!("<portfolio><futures>{position}</futures></portfolio>"), DataFormat::Xml),
            UNREADABLE
        );
    }
    assert_eq!(refusal("<portfolio><futures/><futures/></portfolio>", DataFormat::Xml), UNREADABLE);
    assert_eq!(refusal("ticker,type,quantity,quantity\n", DataFormat::Csv), UNREADABLE);
    let job = b"{\"numScenarios\": 1, \"numScenarios\": 2, \"portfolio\": {\"futures\": []}}";
    assert_eq!(summary(&refused(Request::from_json(job, DataFormat::Json, &store("hand")))), [" value_error.document"]);
}

#[test]
fn a_document_ends_where_it_should() {
    for document in
        ["<portfolio><futures>", "<portfolio><futures/></portfolio><portfolio/>", "<portfolio/>x", "", "x", "<a/>"]
    {
        assert_eq!(refusal(document, DataFormat::Xml), UNREADABLE, "{document}");
    }
    for document in ["{\"futures\": []}{}", "{\"futures\": [", "", "nonsense"] {
        assert_eq!(refusal(document, DataFormat::Json), UNREADABLE, "{document}");
    }
    for document in
        ["ticker,type\nAAA,long\n", "ticker,type,quantity\nAAA,long\n", "ticker,type,quantity\nAAA,\"long,1\n"]
    {
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
    let nested = format!("<portfolio><futures/><{name}>{}</{name}></portfolio>", "<b/>".repeat(100_000));
    assert_eq!(refusal(nested, DataFormat::Xml), UNREADABLE);
    assert_eq!(refusal("<portfolio><futures/future ticker='AAA'/></portfolio>", DataFormat::Xml), UNREADABLE);
}

#[test]
fn numbers_that_no_double_holds_are_refused() {
    let row = |number: &str| refusal(format!("ticker,type,quantity\nAAA,long,{number}\n"), DataFormat::Csv);
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
    let document = "ticker,type,quantity\n".to_owned() + &"NONE,long,1\n".repeat(10 * MAX_COMPLAINTS);
    assert_eq!(refusal(document, DataFormat::Csv).len(), MAX_COMPLAINTS);
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
    let names = ["portfolio.csv", "portfolio.json", "portfolio.yaml", "portfolio.xml", "portfolio.fpml.xml"];
    let mut state = 1_u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
                        .splice(at..at, original[from.min(original.len())..to.min(original.len())].to_vec())
                        .for_each(drop),
                    _ => document.splice(at..at, TOKENS[random(TOKENS.len())].iter().copied()).for_each(drop),
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
