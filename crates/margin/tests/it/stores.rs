//! Market data: what is accepted, and how errors are made.

use std::fs;

use molbox_margin::{Error, File, MAX_LISTED, Store};

use crate::common::{folder, parse, store};

const CONTRACTS: &str = "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate\nAAA,,,EUR,10,,log,,\n";
const PRICES: &str = "date,ticker,settle\n2024-01-02,AAA,1\n";
const FX: &str = "date,currency,rate\n2024-01-02,EUR,1.1\n";

fn errors(contracts: &str, prices: &[&str], fx: &str) -> Vec<String> {
    match parse(contracts, prices, fx) {
        Err(Error::MarketData(errors)) => errors.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_sample_is_the_same_as_other_languages_make_it() {
    let expected = "16e2a69d0de7a9ae16358033478faad2129e795601328db2dc0f152dc6c70724";
    assert_eq!(store("sample").sha256(), expected);
}

#[test]
fn every_error_names_its_file_and_line() {
    let row = |row: &str| errors(&format!("{CONTRACTS}{row}\n"), &[PRICES], FX);
    assert_eq!(row("AAA,,,USD,1,,log,,"), ["contracts.csv:3: AAA again, the first is on line 2"]);
    assert_eq!(row("BBB,,,USD,0,,log,,"), ["contracts.csv:3: 0 is not above zero"]);
    assert_eq!(
        row("BBB,,,USD,1,,ratio,,"),
        ["contracts.csv:3: returnType \"ratio\" is not log or absolute"]
    );
    assert_eq!(
        row("BBB,,,USD,1,,log,CCC,"),
        ["contracts.csv:3: riskFactor \"CCC\" is not in the contracts"]
    );
    assert_eq!(
        row("BBB,,,USD,1,,log,,2024-02-30"),
        ["contracts.csv:3: \"2024-02-30\" is not a date YYYY-MM-DD"]
    );
    assert_eq!(row("BBB,USD,1"), ["contracts.csv:3: 3 fields, the header has 9"]);
    assert_eq!(row(",,,USD,1,,log,,"), ["contracts.csv:3: \"\" is not a name"]);

    let row = |row: &str| errors(CONTRACTS, &[&format!("{PRICES}\n{row}\n")], FX);
    assert_eq!(
        row("2024-01-02,AAA,2"),
        ["prices.csv:4: AAA on 2024-01-02 again, the first is at prices.csv:2"]
    );
    assert_eq!(row("2024-01-03,BBB,2"), ["prices.csv:4: \"BBB\" is not in the contracts"]);
    assert_eq!(row("2024-01-03,AAA,1e999"), ["prices.csv:4: \"1e999\" is not a number"]);
    assert_eq!(row("03.01.2024,AAA,1"), ["prices.csv:4: \"03.01.2024\" is not a date YYYY-MM-DD"]);
    assert_eq!(row("x,AAA,1\n2024-01-03,AAA,y").len(), 2);

    let row = |row: &str| errors(CONTRACTS, &[PRICES], &format!("{FX}{row}\n"));
    assert_eq!(
        row("2024-01-02,EUR,2"),
        ["fx.csv:3: EUR on 2024-01-02 again, the first is at fx.csv:2"]
    );
    assert_eq!(row("2024-01-02,JPY,-1"), ["fx.csv:3: -1 is not above zero"]);
    assert_eq!(row("2024-01-02,USD,1.1"), ["fx.csv:3: USD is the base currency, its rate is 1"]);
}

#[test]
fn missing_columns_are_reported_once() {
    assert_eq!(errors("ticker\n", &[PRICES], FX), ["contracts.csv:1: no column currency"]);
    assert_eq!(
        errors(CONTRACTS, &["date,ticker,settle,date\n"], FX),
        ["prices.csv:1: two columns date"]
    );
    assert_eq!(errors(CONTRACTS, &[PRICES], ""), ["fx.csv:1: no column date"]);
    assert_eq!(
        errors(CONTRACTS, &["date;ticker;settle\n"], FX),
        ["prices.csv:1: no column date: commas have to separate the columns"]
    );
}

#[test]
fn errors_are_bounded() {
    let prices = PRICES.to_owned() + &"x,y,z\n".repeat(3 * MAX_LISTED);
    assert_eq!(errors(CONTRACTS, &[&prices], FX).len(), MAX_LISTED);
}

#[test]
fn a_row_that_is_not_utf8_is_reported() {
    let file = |name, bytes| File { name, bytes };
    let prices = [PRICES.as_bytes(), b"2024-01-03,\xff,1\n"].concat();
    let read = Store::parse(
        file("contracts.csv", CONTRACTS.as_bytes()),
        &[file("prices.csv", &prices)],
        None,
        "USD",
    );
    assert_eq!(read.unwrap_err().to_string(), "prices.csv:3: not UTF-8");
}

#[test]
fn prices_come_in_any_order_and_any_number_of_files() {
    let prices = [
        "date,ticker,settle\n2024-01-04,AAA,3\n2024-01-03,AAA,\n",
        "settle,ticker,date\n1,AAA,2024-01-02\n",
    ];
    let store = parse(CONTRACTS, &prices, FX).unwrap();
    let settlements = &store.contracts()[store.find("AAA").unwrap()].settlements;
    assert_eq!(settlements.values(), [1.0, 3.0]);
    assert_eq!(settlements.days()[0].to_string(), "2024-01-02");
}

#[test]
fn a_folder_of_price_files_is_read_as_one() {
    let whole = store("hand");
    let folder = std::env::temp_dir().join(format!("molbox-margin-store-{}", std::process::id()));
    fs::create_dir_all(folder.join("prices")).unwrap();
    let read = |name: &str| {
        fs::read_to_string(crate::common::folder("cases/stores/hand").join(name)).unwrap()
    };
    fs::write(folder.join("contracts.csv"), read("contracts.csv")).unwrap();
    fs::write(folder.join("fx.csv"), read("fx.csv")).unwrap();
    let (header, rows) = (["date,ticker,settle"], read("prices.csv"));
    for ticker in ["AAA", "BBB", "CCC"] {
        let rows: Vec<_> =
            header.iter().copied().chain(rows.lines().filter(|row| row.contains(ticker))).collect();
        fs::write(folder.join("prices").join(format!("{ticker}.csv")), rows.join("\n")).unwrap();
    }
    let parts = Store::load(&folder, "USD").unwrap();
    fs::remove_dir_all(&folder).unwrap();
    for (a, b) in whole.contracts().iter().zip(parts.contracts()) {
        assert_eq!((&a.ticker, a.settlements.values()), (&b.ticker, b.settlements.values()));
    }
    assert_ne!(whole.sha256(), parts.sha256());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = Store::load(&folder("nowhere"), "USD").unwrap_err();
    assert!(
        matches!(&error, Error::Read { path, .. } if path.ends_with("nowhere/contracts.csv")),
        "{error}"
    );
}
