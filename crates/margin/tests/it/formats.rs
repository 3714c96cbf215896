//! Portfolios in five notations, and the ways in which a request can bring one.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use molbox_margin::{DataFormat, Error, Report, Request, Run};
use serde_json::{Value, json};

use crate::common::{folder, refused, store, summary};

const FORMATS: [(DataFormat, &str); 5] = [
    (DataFormat::Csv, "portfolio.csv"),
    (DataFormat::Json, "portfolio.json"),
    (DataFormat::Yaml, "portfolio.yaml"),
    (DataFormat::Xml, "portfolio.xml"),
    (DataFormat::Fpml, "portfolio.fpml.xml"),
];

fn document(name: &str) -> String {
    fs::read_to_string(folder("../../../examples/portfolio").join(name)).unwrap()
}

fn settings() -> Value {
    json!({ "marginDate": "2024-12-31", "numScenarios": 500, "settings": { "startDate": "2022-01-01" } })
}

fn csv(request: Result<Request, Error>) -> String {
    request.and_then(|request| request.calculate(Run::default())).unwrap().csv()
}

/// Violations of a portfolio that is a document of its own.
fn refusal(document: impl AsRef<[u8]>, format: DataFormat) -> Vec<String> {
    summary(&refused(Request::from_parts(&settings(), document.as_ref(), format, &store("sample"))))
}

fn read(document: &str, format: DataFormat) -> Report {
    Request::from_parts(&settings(), document.as_bytes(), format, &store("sample"))
        .unwrap()
        .calculate(Run::default())
        .unwrap()
}

#[test]
fn one_portfolio_in_five_formats_and_five_ways_gives_one_report() {
    let store = store("sample");
    let mut job = settings();
    job["portfolio"] = serde_json::from_str(&document("portfolio.json")).unwrap();
    let expected = csv(Request::from_value(&job, DataFormat::Fpml, &store));
    assert_eq!(expected.lines().count(), 4);
    assert_eq!(
        csv(Request::from_json(job.to_string().as_bytes(), DataFormat::Csv, &store)),
        expected
    );

    for (format, name) in FORMATS {
        let document = document(name);
        // In FpML every trade has a date, which the JSON of the first position leaves out: it is
        // the settlement before, which is what it would be without.
        assert_eq!(
            csv(Request::from_parts(&settings(), document.as_bytes(), format, &store)),
            expected,
            "{name}"
        );

        let mut job = settings();
        job["portfolio"] = json!(document);
        assert_eq!(csv(Request::from_value(&job, format, &store)), expected, "{name}");
        job["portfolio"] = json!({ "data": document });
        assert_eq!(csv(Request::from_value(&job, format, &store)), expected, "{name}");
        job["portfolio"] =
            json!({ "data": BASE64_STANDARD.encode(&document), "encoding": "base64" });
        assert_eq!(
            csv(Request::from_json(job.to_string().as_bytes(), format, &store)),
            expected,
            "{name}"
        );

        let fields = [
            ("marginDate", "2024-12-31"),
            ("numScenarios", "500"),
            ("startDate", "2022-01-01"),
            ("shape", "lines"),
        ];
        assert_eq!(
            csv(Request::from_document(document.as_bytes(), format, fields, &store)),
            expected,
            "{name}"
        );
    }
}

#[test]
fn xml_and_yaml_can_hold_a_whole_job() {
    let store = store("sample");
    let mut job = settings();
    job["settings"]["addedDates"] = json!(["2008-10-10", "2020-03-12"]);
    job["portfolio"] = serde_json::from_str(&document("portfolio.json")).unwrap();
    let expected = csv(Request::from_value(&job, DataFormat::Json, &store));

    let yaml = serde_json::to_string_pretty(&job).unwrap();
    assert_eq!(
        csv(Request::from_document(yaml.as_bytes(), DataFormat::Yaml, [], &store)),
        expected
    );
    let portfolio = document("portfolio.xml");
    let portfolio = portfolio.split_once("?>").unwrap().1;
    for dates in ["<date>2008-10-10</date><date>2020-03-12</date>", "2008-10-10, 2020-03-12"] {
        let xml = format!(
            "<marginJob><marginDate>2024-12-31</marginDate><numScenarios>500</numScenarios>
             <settings><startDate>2022-01-01</startDate><addedDates>{dates}</addedDates></settings>
             <comment>ignored</comment>{portfolio}</marginJob>"
        );
        assert_eq!(
            csv(Request::from_document(xml.as_bytes(), DataFormat::Xml, [], &store)),
            expected
        );
        let twice = Request::from_document(
            xml.as_bytes(),
            DataFormat::Xml,
            [("numScenarios", "500")],
            &store,
        );
        assert_eq!(summary(&refused(twice)), ["numScenarios value_error"]);
    }
}

#[test]
fn columns_of_csv_come_in_any_order_and_others_are_ignored() {
    let report = read(
        "\u{feff}quantity, note,type,ticker\r\n2,\"a, b\",LONG,XEQ1\r\n\r\n0.5,,short, XCM1 \r\n",
        DataFormat::Csv,
    );
    assert_eq!(
        report
            .csv()
            .lines()
            .skip(1)
            .map(|line| line.split(',').nth(10).unwrap())
            .collect::<Vec<_>>(),
        ["2", "0.5"]
    );
}

#[test]
fn what_is_wrong_with_a_position_is_reported_alike_in_all_formats() {
    let expected = [
        "portfolio.futures[0].quantity value_error.number",
        "portfolio.futures[1].ticker value_error.unknown_ticker",
        "portfolio.futures[1].type type_error.enum",
        "portfolio.futures[2].quantity type_error",
        "portfolio.futures[2].entryDate value_error.date",
        "portfolio.futures[3].ticker value_error.missing",
        "portfolio.futures[3].quantity value_error.missing",
    ];
    let csv = "ticker,type,quantity,entryDate\nXEQ1,long,-1,\nNONE,buy,1,\nXEQ1,short,many,31.12.2024\n,long,,\n";
    assert_eq!(refusal(csv, DataFormat::Csv), expected);
    let json = r#"{"futures": [{"ticker": "XEQ1", "type": "long", "quantity": -1}, {"ticker": "NONE", "type": "buy", "quantity": 1},
        {"ticker": "XEQ1", "type": "short", "quantity": "many", "entryDate": "31.12.2024"}, {"ticker": null, "type": "long"}]}"#;
    assert_eq!(refusal(json, DataFormat::Json), expected);
    assert_eq!(refusal(json, DataFormat::Yaml), expected);
    let xml = "<portfolio><futures><future ticker='XEQ1' type='long' quantity='-1'/>
        <future><ticker>NONE</ticker><type>buy</type><quantity>1</quantity></future>
        <future ticker='XEQ1' type='short'><quantity>many</quantity><entryDate>31.12.2024</entryDate></future>
        <future type='long'><quantity/></future></futures></portfolio>";
    assert_eq!(refusal(xml, DataFormat::Xml), expected);
}

#[test]
fn a_portfolio_without_futures_is_refused_and_one_with_none_is_not() {
    for (document, format) in [
        ("{}", DataFormat::Json),
        ("{\"futures\": null}", DataFormat::Json),
        ("a: 1", DataFormat::Yaml),
        ("<portfolio/>", DataFormat::Xml),
        ("<dataDocument xmlns='http://www.fpml.org/FpML-5/reporting'/>", DataFormat::Fpml),
    ] {
        assert_eq!(
            refusal(document, format),
            ["portfolio.futures value_error.missing"],
            "{document}"
        );
    }
    for (document, format) in [
        ("{\"futures\": []}", DataFormat::Json),
        ("futures: []", DataFormat::Yaml),
        ("<portfolio><futures/></portfolio>", DataFormat::Xml),
        ("ticker,type,quantity\n", DataFormat::Csv),
        ("ticker;type;quantity\r\n;;\r\n", DataFormat::Csv),
    ] {
        assert_eq!(read(document, format).csv().lines().count(), 1, "{document}");
    }
}

#[test]
fn what_stands_among_the_positions_of_xml_and_is_none_is_refused() {
    let position = "<ticker>XEQ1</ticker><type>long</type><quantity>1</quantity>";
    for (futures, name) in [
        (position.to_owned(), "<ticker>"),
        (format!("<future>{position}</future><futrue>{position}</futrue>"), "<futrue>"),
    ] {
        for document in [
            format!("<portfolio><futures>{futures}</futures></portfolio>"),
            format!("<marginJob><portfolio><futures>{futures}</futures></portfolio></marginJob>"),
        ] {
            let fields = [("marginDate", "2024-12-31")];
            let read = Request::from_document(
                document.as_bytes(),
                DataFormat::Xml,
                fields,
                &store("sample"),
            );
            let violations = refused(read);
            assert_eq!(summary(&violations), [" value_error.document"], "{document}");
            assert!(violations[0].msg.contains(name), "{}", violations[0].msg);
        }
    }
}

/// Quantities of the positions of a document.
fn quantities(document: &str) -> Vec<f64> {
    read(document, DataFormat::Csv).rows.iter().map(|row| row.quantity).collect()
}

#[test]
fn fields_of_csv_are_separated_by_what_the_header_shows() {
    let expected = [2.5, 3.0];
    for document in [
        "ticker,type,quantity\nXEQ1,long,2.5\nXEQ2,short,3\n",
        // As a German Excel writes it, with a mark of the byte order and everything in quotes.
        "\u{feff}ticker;type;quantity\r\nXEQ1;long;2,5\r\nXEQ2;short;3\r\n",
        "\u{feff}\"ticker\";\"type\";\"quantity\"\r\n\"XEQ1\";\"long\";\"2,5\"\r\n\"XEQ2\";\"short\";\"3\"",
        "sep=;\r\nticker;type;quantity\r\nXEQ1;long;2,5\r\nXEQ2;short;3\r\n",
        // By a program that does not know of commas, and one that knows of tabs.
        "ticker;type;quantity\nXEQ1;long;2.5\nXEQ2;short;3\n",
        "ticker\ttype\tquantity\rXEQ1\tlong\t2.5\rXEQ2\tshort\t3\r",
        // Other separators in the names of columns that are not needed.
        "ticker;type;quantity;a, b, c\nXEQ1;long;2,5;x\nXEQ2;short;3;\n",
        // Columns and lines of a spreadsheet that are empty.
        "ticker,type,quantity,,\n,,,,\nXEQ1,long,2.5,,\nXEQ2,short,3,,\n,,,,\n\n",
    ] {
        assert_eq!(quantities(document), expected, "{document:?}");
    }
    let with_entry =
        "ticker;type;quantity;entryDate;entryPrice\nXEQ1;long;2,5;2024-12-02;5900,25\n";
    let row = &read(with_entry, DataFormat::Csv).rows[0];
    assert_eq!(row.entry_market_value, 2.5 * row.size * 5900.25);
}

#[test]
fn a_number_that_can_be_read_in_two_ways_is_refused() {
    for (document, at, part) in [
        ("ticker;type;quantity\nXEQ1;long;1.500\n", "[0].quantity", "write 1500 or 1,500"),
        ("ticker;type;quantity\nXEQ1;long;1.500,5\n", "[0].quantity", "has a point"),
        ("ticker;type;quantity\nXEQ1;long;1,5\nXEQ1;long;2.5\n", "[1].quantity", "has a point"),
        ("ticker,type,quantity\nXEQ1,long,\"1,5\"\n", "[0].quantity", "has a comma"),
        ("ticker\ttype\tquantity\nXEQ1\tlong\t1,5\n", "[0].quantity", "has a comma"),
    ] {
        let sample = store("sample");
        let read = Request::from_parts(&settings(), document.as_bytes(), DataFormat::Csv, &sample);
        let violations = refused(read);
        assert_eq!(
            summary(&violations),
            [format!("portfolio.futures{at} type_error")],
            "{document}"
        );
        assert!(violations[0].msg.contains(part), "{}", violations[0].msg);
    }
    // Another number of the file shows that points are decimal.
    let shown = "ticker;type;quantity;entryDate;entryPrice\nXEQ1;long;1.500;2024-12-02;4500.25\n";
    assert_eq!(quantities(shown), [1.5]);
    // A decimal comma between commas, which makes a field of its own.
    let split = "ticker,type,quantity,\nXEQ1,long,1,5\n";
    assert_eq!(refusal(split, DataFormat::Csv), ["portfolio value_error.document"]);
}

#[test]
fn what_is_wrong_in_csv_names_the_line_of_the_file_and_the_field() {
    let messages = |document: &str| -> Vec<String> {
        let sample = store("sample");
        let read = Request::from_parts(&settings(), document.as_bytes(), DataFormat::Csv, &sample);
        refused(read).iter().map(ToString::to_string).collect()
    };
    let found = messages(
        "ticker,type,quantity,entryDate,note\r\n\r\nXEQ1,long,1,,\"two\r\nlines\"\r\nNONE,long,1,,\r\n,,,,\r\n\
         XEQ1,buy,-1,,\r\nXEQ1,long,\"1,5\",,\r\n",
    );
    assert_eq!(found.len(), 4, "{found:?}");
    let expected = [
        "body.portfolio.futures[1].ticker: line 5: unknown ticker",
        "body.portfolio.futures[2].type: line 7: must be long or short",
        "body.portfolio.futures[2].quantity: line 7: must be at least 0",
        "body.portfolio.futures[3].quantity: line 8: \"1,5\" has a comma",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    let found = messages("ticker,type,quantity\nxeq1,long,1\n");
    assert!(found[0].ends_with("unknown ticker \"xeq1\"; did you mean \"XEQ1\"?"), "{found:?}");
    // What only the market data shows.
    let found = messages("ticker,type,quantity,entryDate\nXEQ1,long,1,\nXEQ1,long,1,2004-01-01\n");
    let expected = "body.portfolio.futures[1].entryDate: line 3: no settlement price";
    assert!(found[0].starts_with(expected), "{found:?}");
    // What is no table.
    for (document, expected) in [
        ("ticker,type,quantity\nXEQ1,long,1\nXEQ1,long\n", "CSV, line 3: 2 fields"),
        ("Ticker,Typ,Menge\n", "CSV, line 1: no column ticker"),
        ("ticker|type|quantity\n", "separated by commas, semicolons or tabs"),
    ] {
        let found = messages(document);
        assert!(found[0].contains(expected), "{found:?}");
    }
}

#[test]
fn a_quote_that_is_missing_hides_no_position() {
    let rows = "XEQ2,long,5,\nXEQ3,long,1,";
    for note in ["\"open", "\"closed\" and more", "\"a\"\"", "\"ends below"] {
        let end = if note.ends_with("below") { "\"\n" } else { "\n" };
        let document = format!("ticker,type,quantity,note\nXEQ1,long,1,{note}\n{rows}{end}");
        let sample = store("sample");
        let read = Request::from_parts(&settings(), document.as_bytes(), DataFormat::Csv, &sample);
        let violations = refused(read);
        assert_eq!(summary(&violations), ["portfolio value_error.document"], "{document}");
        assert!(violations[0].msg.starts_with("CSV, line 2: "), "{}", violations[0].msg);
    }
    let balanced =
        "ticker,type,quantity,note\nXEQ1,long,1,\"a \"\"b\"\"\nc, d\" \nXEQ2,long,5,5\" x\n";
    assert_eq!(quantities(balanced), [1.0, 5.0]);
}

#[test]
fn positions_where_none_are_read_are_refused_in_documents() {
    let future = "<future ticker='XEQ1' type='long' quantity='1'/>";
    for stray in [
        format!("{future}<futures>{future}</futures>"),
        format!("<futures>{future}</futures><Futures>{future}</Futures>"),
        format!("<futures>{future}</futures><positions>{future}</positions>"),
        format!("<futures>{future}</futures><desk>{future}</desk>"),
        format!("<futures>{future}XEQ1,long,1</futures>"),
        format!("<futures>{future}<![CDATA[XEQ1,long,1]]></futures>"),
        format!(
            "<futures><future ticker='XEQ1' type='long' quantity='1'>{future}</future></futures>"
        ),
    ] {
        let document = format!("<portfolio>{stray}</portfolio>");
        let found = refusal(&document, DataFormat::Xml);
        assert!(found[0].starts_with("portfolio value_error"), "{document} {found:?}");
    }
    // Words that other things have, too, and elements that hold none.
    let harmless = format!(
        "<portfolio><futures>{future}</futures><owner><position>Head</position></owner></portfolio>"
    );
    assert_eq!(read(&harmless, DataFormat::Xml).rows.len(), 1);

    let position = r#"{"ticker": "XEQ1", "type": "long", "quantity": 1}"#;
    for (rest, at) in [
        (r#""data": "ticker,type,quantity""#.to_owned(), "portfolio.data value_error"),
        (format!(r#""portfolio": {{"futures": [{position}]}}"#), "futures value_error"),
    ] {
        let document = format!("{{\"futures\": [{position}], {rest}}}");
        for format in [DataFormat::Json, DataFormat::Yaml] {
            assert_eq!(refusal(&document, format), [at], "{document}");
        }
    }
    // Unknown fields are ignored, and told in the answer.
    let harmless = format!(r#"{{"futures": [{position}], "positions": [{position}]}}"#);
    assert_eq!(read(&harmless, DataFormat::Json).rows.len(), 1);
    let two_documents = "futures: []\n---\nfutures: [{ticker: XEQ1, type: long, quantity: 1}]\n";
    assert_eq!(refusal(two_documents, DataFormat::Yaml), ["portfolio value_error.document"]);
}

#[test]
fn the_portfolio_is_given_once() {
    let store = store("sample");
    let mut job = settings();
    job["portfolio"] = json!({ "futures": [] });
    let both = Request::from_parts(&job, b"ticker,type,quantity\n", DataFormat::Csv, &store);
    assert_eq!(summary(&refused(both)), ["portfolio value_error"]);
    job["portfolio"] = json!({ "futures": [], "data": "ticker,type,quantity\n" });
    assert_eq!(
        summary(&refused(Request::from_value(&job, DataFormat::Csv, &store))),
        ["portfolio.data value_error"]
    );
}

#[test]
fn what_cannot_be_decoded_is_reported_where_it_is() {
    let store = store("sample");
    for (portfolio, expected) in [
        (json!({ "data": "%%%", "encoding": "base64" }), "portfolio.data value_error.document"),
        (json!({ "data": "eHg=", "encoding": "rot13" }), "portfolio.encoding type_error.enum"),
        (json!({ "data": 7 }), "portfolio.data type_error"),
        (json!({ "data": "no header" }), "portfolio.data value_error.document"),
        (json!("no header"), "portfolio value_error.document"),
        (json!([1]), "portfolio type_error"),
        (json!({ "futures": {} }), "portfolio.futures type_error"),
        (json!({ "futures": [7] }), "portfolio.futures[0] type_error"),
    ] {
        let mut job = settings();
        job["portfolio"] = portfolio;
        assert_eq!(
            summary(&refused(Request::from_value(&job, DataFormat::Csv, &store))),
            [expected],
            "{job}"
        );
    }
}

/// A trade in a future, as executed: another wrapper, prefixes, comments, no onBehalfOf.
fn executed(future: &str, quantity: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='utf-8'?><f:executionNotification xmlns:f='http://www.fpml.org/FpML-5/confirmation'>
        <f:header><f:messageId>1</f:messageId></f:header><!-- an execution -->
        <f:trade><f:tradeHeader>
            <f:partyTradeIdentifier><f:partyReference href='b'/><f:tradeId>1</f:tradeId></f:partyTradeIdentifier>
            <f:partyTradeIdentifier><f:partyReference href='a'/><f:tradeId>2</f:tradeId></f:partyTradeIdentifier>
            <f:tradeDate>2024-12-02Z</f:tradeDate></f:tradeHeader>
          <f:instrumentTradeDetails>
            <f:buyerPartyReference href='a'/><f:sellerPartyReference href='b'/>
            <f:future id='x'><!-- an underlying --><f:instrumentId>US1</f:instrumentId>{future}</f:future>
            <f:quantity>{quantity}</f:quantity>
            <f:pricing><f:quote><f:value>4<!-- -->2<![CDATA[.]]>&#53;</f:value></f:quote></f:pricing>
          </f:instrumentTradeDetails></f:trade>
        <f:party id='a'/><f:party id='b'/></f:executionNotification>"
    )
}

#[test]
fn a_trade_of_fpml_is_that_of_its_first_party() {
    let future = "<f:instrumentId>XCM1</f:instrumentId><f:currency>USD</f:currency><f:multiplier>1000.0</f:multiplier>";
    let rows = read(&executed(future, "<f:number>3</f:number>"), DataFormat::Fpml).rows;
    assert_eq!((rows[0].side.as_str(), rows[0].quantity, &*rows[0].ticker), ("short", 3.0, "XCM1"));
    assert_eq!(rows[0].entry_date.to_string(), "2024-12-02");
    assert_eq!(rows[0].entry_market_value, -3.0 * 1000.0 * 42.5);
}

#[test]
fn a_contract_reference_names_a_future_too() {
    let future = "<f:futureContractReference>XCM1</f:futureContractReference>";
    assert_eq!(
        &*read(&executed(future, "<f:number>3</f:number>"), DataFormat::Fpml).rows[0].ticker,
        "XCM1"
    );
}

#[test]
fn what_fpml_says_otherwise_than_the_contracts_is_refused() {
    let number = "<f:number>3</f:number>";
    let known = "<f:instrumentId>XCM1</f:instrumentId>";
    for (future, quantity, expected) in [
        (format!("{known}<f:currency>EUR</f:currency>"), number, "[0].currency value_error"),
        (format!("{known}<f:multiplier>100</f:multiplier>"), number, "[0].multiplier value_error"),
        (
            known.to_owned(),
            "<f:nominal><f:amount>3</f:amount></f:nominal>",
            "[0].quantity value_error",
        ),
        (String::new(), number, "[0].ticker value_error.unknown_ticker"),
        (known.to_owned(), "<f:number>-3</f:number>", "[0].quantity value_error.number"),
        (known.to_owned(), "", "[0].quantity value_error.missing"),
    ] {
        assert_eq!(
            refusal(executed(&future, quantity), DataFormat::Fpml),
            [format!("portfolio.futures{expected}")]
        );
    }
    let stranger =
        executed(known, number).replace("href='b'/><f:tradeId>1", "href='c'/><f:tradeId>1");
    assert_eq!(refusal(stranger, DataFormat::Fpml), ["portfolio.futures[0].type value_error"]);
}

#[test]
fn of_quotes_of_fpml_the_price_is_read() {
    let future = "<f:instrumentId>XCM1</f:instrumentId>";
    let with = |quotes: &str| {
        let trade = executed(future, "<f:number>3</f:number>");
        let (before, rest) = trade.split_once("<f:quote>").unwrap();
        let (_, after) = rest.split_once("</f:quote>").unwrap();
        format!("{before}{quotes}{after}")
    };
    let quote =
        |value: &str, of: &str| format!("<f:quote><f:value>{value}</f:value>{of}</f:quote>");
    let of_yield = quote("4.1", "<f:measureType>Yield</f:measureType>");
    let in_yield = quote("4.1", "<f:quoteUnits>Yield</f:quoteUnits>");
    let price = quote("42.5", "<f:measureType>SettlementPrice</f:measureType>");
    for quotes in [&price, &format!("{of_yield}{price}"), &format!("{price}{in_yield}")] {
        let rows = read(&with(quotes), DataFormat::Fpml).rows;
        assert_eq!(rows[0].entry_market_value, -3.0 * 1000.0 * 42.5, "{quotes}");
    }
    for quotes in [&of_yield, &in_yield, &format!("{price}{price}")] {
        let expected = ["portfolio.futures[0].entryPrice value_error"];
        assert_eq!(refusal(with(quotes), DataFormat::Fpml), expected, "{quotes}");
    }
}

#[test]
fn a_trade_that_is_not_in_a_future_is_never_left_out() {
    let futures = document("portfolio.fpml.xml");
    for (from, to) in [
        ("instrumentTradeDetails>", "swap>"),
        ("future>", "equity>"),
        ("<trade>", "<constituent><tradeReference/></constituent><trade>"),
    ] {
        let mixed = futures.replacen(from, to, if from == "<trade>" { 1 } else { 2 });
        assert_eq!(refusal(&mixed, DataFormat::Fpml), ["portfolio.futures[0] value_error"], "{to}");
    }
    // What is read of one, and stands there more than once.
    for (from, to, at) in [
        ("</instrumentTradeDetails>", "</instrumentTradeDetails><instrumentTradeDetails/>", 0),
        ("</future>", "</future><future/>", 0),
        ("</quantity>", "</quantity><quantity><number>5</number></quantity>", 0),
        ("<trade>", "<constituent><trade/><trade/></constituent><trade>", 0),
        ("</dataDocument>", "<portfolio><future/></portfolio></dataDocument>", 3),
        ("</dataDocument>", "<Trade/></dataDocument>", 3),
    ] {
        let changed = futures.replacen(from, to, 1);
        let expected = [format!("portfolio.futures[{at}] value_error")];
        assert_eq!(refusal(&changed, DataFormat::Fpml), expected, "{to}");
    }
    let constituents = futures
        .replace("<trade>", "<constituent><trade>")
        .replace("</trade>", "</trade></constituent>");
    assert_eq!(read(&constituents, DataFormat::Fpml).csv(), read(&futures, DataFormat::Fpml).csv());
}

#[test]
fn the_own_party_is_named_before_the_trades() {
    let futures = document("portfolio.fpml.xml");
    let own = "<onBehalfOf><partyReference href=\"us\"/></onBehalfOf>";
    let late =
        futures.replace(own, "").replace("</dataDocument>", &format!("{own}</dataDocument>"));
    assert_eq!(refusal(late, DataFormat::Fpml), ["portfolio value_error.document"]);
    let other_namespace = futures.replace("fpml.org", "example.org");
    assert_eq!(refusal(other_namespace, DataFormat::Fpml), ["portfolio value_error.document"]);
}
