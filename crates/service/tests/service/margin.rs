//! The margin endpoint: results and refusals that other programs calculated, and every way in and
//! out that the document names.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::TryStreamExt;
use molbox::Connection;
use molbox::margin::types::{FuturesPosition, MarginJobRequest, Portfolio};
use openapi_drift::{Api, violations};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::common::Service;

fn margin_data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../margin/tests").join(name)
}

/// A service with the market data of a case, and a key.
fn serve(store: &str) -> (Service, String) {
    let folder = margin_data("cases/stores").join(store);
    let setting = format!("margin.market={:?}", folder.display().to_string());
    let service = if folder.exists() { Service::start_with(&[&setting]) } else { with_sample() };
    let key = service.key("ada");
    (service, key)
}

/// A service that has been given the sample data while it ran.
fn with_sample() -> Service {
    let service = Service::start();
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    service
}

fn post(service: &Service, key: &str, path: &str) -> reqwest::RequestBuilder {
    let url = format!("{}/margin/submit_job/historical/{path}", service.margin_url);
    reqwest::Client::new().post(url).header("x-api-key", key)
}

fn one_future() -> Value {
    json!({ "marginDate": "2024-12-31", "numScenarios": 500, "portfolio": { "futures": [
        { "ticker": "XEQ1", "type": "long", "quantity": 2 },
    ] } })
}

#[tokio::test]
async fn every_case_has_the_result_that_other_programs_calculated() {
    let mut checked = 0;
    for store in ["hand", "odd", "sample"] {
        let (service, key) = serve(store);
        for case in fs::read_dir(margin_data("cases")).unwrap().map(|entry| entry.unwrap().path()) {
            let read = |name: &str| fs::read_to_string(case.join(name)).unwrap_or_default();
            if read("store.txt").trim() != store {
                continue;
            }
            let response = post(&service, &key, "json")
                .header(CONTENT_TYPE, "application/json")
                .body(read("request.json"))
                .send()
                .await
                .unwrap();
            assert_eq!(response.status(), 200, "{}", case.display());
            assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/csv"));
            let initial: f64 =
                response.headers()["x-margin-initial"].to_str().unwrap().parse().unwrap();
            let expected: Value = serde_json::from_str(&read("expected.json")).unwrap();
            let wanted = expected["summary"]["initialMargin"].as_f64().unwrap();
            assert!((initial - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{initial} {wanted}");
            let warnings =
                response.headers().get("x-margin-warnings").map(|v| v.to_str().unwrap().to_owned());
            // The cases are older than the warning of few scenarios.
            let warnings = warnings.unwrap_or_default();
            let warnings: Vec<&str> = warnings
                .split("; ")
                .filter(|w| !w.is_empty() && !w.contains(" scenarios: "))
                .collect();
            assert_eq!(json!(warnings), expected["warnings"], "{}", case.display());
            same_table(&response.text().await.unwrap(), &read("expected.csv"));
            checked += 1;
        }
    }
    assert_eq!(checked, 10);
}

/// Numbers to 1e-9, relative to the gross margin; everything else equal.
fn same_table(got: &str, expected: &str) {
    let gross: f64 = expected
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(6).unwrap().parse::<f64>().unwrap().abs())
        .sum();
    assert_eq!(got.lines().count(), expected.lines().count());
    for (got, expected) in got.lines().zip(expected.lines()) {
        for (got, expected) in got.split(',').zip(expected.split(',')) {
            match (got.parse::<f64>(), expected.parse::<f64>()) {
                (Ok(got), Ok(wanted)) => {
                    assert!(
                        (got - wanted).abs() <= 1e-9 * gross.max(wanted.abs()).max(1.0),
                        "{got} {wanted}"
                    );
                }
                _ => assert_eq!(got, expected),
            }
        }
    }
}

#[tokio::test]
async fn every_refusal_has_the_expected_status_place_and_type() {
    let cases: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(margin_data("cases/errors.json")).unwrap())
            .unwrap();
    let (service, key) = serve("sample");
    for case in cases.iter().filter(|case| case["store"] == "sample") {
        let response = post(&service, &key, "json").json(&case["request"]).send().await.unwrap();
        assert_eq!(response.status().as_u16(), case["status"], "{}", case["name"]);
        assert_eq!(
            response.json::<Value>().await.unwrap()["detail"],
            case["detail"],
            "{}",
            case["name"]
        );
    }
}

#[tokio::test]
async fn one_portfolio_in_five_formats_gives_the_same_file() {
    let (service, key) = serve("sample");
    let document =
        |name: &str| fs::read_to_string(crate::common::example("portfolio").join(name)).unwrap();
    let of_json: Value = serde_json::from_str(&document("portfolio.json")).unwrap();
    let mut files = Vec::new();
    for (format, name, media) in [
        ("json", "portfolio.json", "application/json"),
        ("csv", "portfolio.csv", "text/csv"),
        ("xml", "portfolio.xml", "application/xml"),
        ("yaml", "portfolio.yaml", "application/yaml"),
        ("fpml", "portfolio.fpml.xml", "application/fpml+xml"),
    ] {
        let text = document(name);
        // As a string in the job, as data in the portfolio, in a form, and as a body of its own.
        let jobs = [
            json!({ "marginDate": "2024-12-31", "portfolio": text }),
            json!({ "marginDate": "2024-12-31", "portfolio": { "data": text } }),
            json!({ "marginDate": "2024-12-31", "portfolio": of_json }),
        ];
        for job in jobs {
            files.push(post(&service, &key, format).json(&job).send().await.unwrap());
        }
        let form = format!(
            "--x\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{{\"marginDate\": \"2024-12-31\"}}\r\n\
             --x\r\ncontent-disposition: form-data; name=\"portfolio\"; filename=\"{name}\"\r\n\r\n{text}\r\n--x--\r\n"
        );
        files.push(
            post(&service, &key, format)
                .header(CONTENT_TYPE, "multipart/form-data; boundary=x")
                .body(form)
                .send()
                .await
                .unwrap(),
        );
        let path = format!("{format}?marginDate=2024-12-31");
        let alone = post(&service, &key, &path).header(CONTENT_TYPE, media).body(text);
        files.push(alone.send().await.unwrap());
    }
    let mut texts = Vec::new();
    for file in files {
        let status = file.status();
        let text = file.text().await.unwrap();
        assert_eq!(status, 200, "{text}");
        texts.push(text);
    }
    assert_eq!(texts.len(), 25);
    texts.dedup();
    assert_eq!(texts.len(), 1);
}

#[tokio::test]
async fn numbers_beside_a_document_count_in_every_format() {
    let (service, key) = serve("sample");
    let document =
        |name: &str| fs::read_to_string(crate::common::example("portfolio").join(name)).unwrap();
    for (format, name, media) in [
        ("json", "portfolio.json", "application/json"),
        ("csv", "portfolio.csv", "text/csv"),
        ("xml", "portfolio.xml", "application/xml"),
        ("yaml", "portfolio.yaml", "application/yaml"),
        ("fpml", "portfolio.fpml.xml", "application/fpml+xml"),
    ] {
        let margin = async |number: &str| {
            let path = format!("{format}?marginDate=2024-12-31&numScenarios=500&{number}");
            let sent = post(&service, &key, &path)
                .header(CONTENT_TYPE, media)
                .body(document(name))
                .send()
                .await
                .unwrap();
            assert_eq!(sent.status(), 200, "{format} {number}");
            sent.headers()["x-margin-initial"].to_str().unwrap().to_owned()
        };
        let usual = margin("").await;
        for number in [
            "ewmaDecayFactor=0.9",
            "volatilityLookbackDays=100",
            "volatilityMultiplier=2",
            "riskMeasure=value_at_risk",
            "confidenceLevel=0.9",
            "volatilityFloor=1",
            "resultCurrency=JPY",
            "stressWeight=1&stressStartDate=2008-09-01&stressEndDate=2008-12-31",
        ] {
            assert_ne!(margin(number).await, usual, "{format} {number}");
        }
    }
}

#[tokio::test]
async fn worst_scenarios_and_losses_are_answered_where_asked_for() {
    let (service, key) = serve("sample");
    let sent = post(
        &service,
        &key,
        "csv?numScenarios=500&worstScenarios=3&includeLosses=true&shape=report",
    )
    .header(CONTENT_TYPE, "text/csv")
    .body("ticker,type,quantity\nXEQ1,long,2\n")
    .send()
    .await
    .unwrap();
    assert_eq!(sent.status(), 200);
    let report: Value = sent.json().await.unwrap();
    let worst = report["worstScenarios"].as_array().unwrap();
    assert_eq!((worst.len(), report["losses"].as_array().unwrap().len()), (3, 500));
    assert_eq!(worst[0]["dates"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_client_downloads_the_file() {
    let (service, key) = serve("sample");
    let margin = Connection::new(&service.margin_url, &key).unwrap().margin().unwrap();
    let future = FuturesPosition::builder().ticker("XEQ1").type_("long").quantity(2);
    let job = MarginJobRequest::builder()
        .margin_date("2024-12-31")
        .num_scenarios(500)
        .portfolio(Portfolio::builder().futures([future]));
    let file = margin.margin_submit().data_format("csv").body(job).send().await.unwrap();
    let chunks: Vec<_> = file.into_inner().into_inner().try_collect().await.unwrap();
    let file = String::from_utf8(chunks.concat()).unwrap();
    assert!(file.starts_with("ticker,positionType,currency,"), "{file}");
    assert_eq!(file.lines().count(), 2);
    let error = margin.margin_submit().data_format("pdf").send().await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "path data_format: must be one of fpml, csv, json, xml, yaml, got \"pdf\""
    );
}

#[tokio::test]
async fn the_answer_is_the_file_that_accept_asks_for() {
    let (service, key) = serve("sample");
    let ask = |accept: &'static str| {
        let request = post(&service, &key, "json").header(ACCEPT, accept).json(&one_future());
        async { request.send().await.unwrap() }
    };
    let csv = ask("*/*").await;
    assert_eq!(
        csv.headers()["content-disposition"],
        "attachment; filename=\"margin_2024-12-31.csv\""
    );
    assert_eq!(csv.headers()["x-margin-currency"], "USD");
    let sha256 = csv.headers()["x-market-data"].to_str().unwrap().to_owned();
    assert_eq!(sha256.len(), 64);
    let csv = csv.text().await.unwrap();
    let json: Value = ask("application/json").await.json().await.unwrap();
    let initial = json["summary"]["initialMargin"].as_f64().unwrap();
    assert!(csv.contains(&initial.to_string()), "{csv} {json}");
    assert!(
        ask("application/xml")
            .await
            .text()
            .await
            .unwrap()
            .contains(&format!("<initialMargin>{initial}<"))
    );
    assert!(
        ask("application/yaml")
            .await
            .text()
            .await
            .unwrap()
            .contains(&format!("initialMargin: {initial}\n"))
    );
    let lines = post(&service, &key, "json?shape=lines").json(&one_future()).send().await.unwrap();
    let lines: Vec<String> = lines.json().await.unwrap();
    assert_eq!(lines, csv.lines().collect::<Vec<_>>());

    let gzip = post(&service, &key, "json")
        .header("accept-encoding", "gzip")
        .json(&one_future())
        .send()
        .await
        .unwrap();
    assert_eq!(gzip.headers()["content-encoding"], "gzip");
    let mut text = String::new();
    GzDecoder::new(&gzip.bytes().await.unwrap()[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, csv);
}

#[tokio::test]
async fn a_file_to_keep_has_a_line_for_the_total_and_the_documented_one_has_not() {
    let (service, key) = serve("sample");
    let ask = async |accept: &'static str| {
        let request = post(&service, &key, "json").header(ACCEPT, accept).json(&one_future());
        let response = request.send().await.unwrap();
        let digest = response.headers()["x-market-data"].to_str().unwrap().to_owned();
        assert_eq!(response.headers()[CONTENT_TYPE], "text/csv; charset=utf-8");
        (digest, response.text().await.unwrap())
    };
    let (digest, filing) = ask("text/csv; total=present").await;
    let (_, plain) = ask("text/csv").await;
    let (filing, plain): (Vec<&str>, Vec<&str>) =
        (filing.lines().collect(), plain.lines().collect());
    assert_eq!((filing.len(), plain.len()), (3, 2));
    assert!(filing[0].starts_with(&format!("{},", plain[0])), "{}", filing[0]);
    assert!(filing[2].starts_with("total,total,USD,") && filing[2].contains(&digest));
}

#[tokio::test]
async fn a_table_without_rows_is_an_empty_portfolio_and_one_with_semicolons_is_read() {
    let (service, key) = serve("sample");
    let send = async |csv: &str| {
        let alone = post(&service, &key, "csv?marginDate=2024-12-31&numScenarios=500")
            .header(CONTENT_TYPE, "text/csv")
            .body(csv.to_owned());
        let job = json!({ "marginDate": "2024-12-31", "numScenarios": 500, "portfolio": { "data": csv } });
        let inside = post(&service, &key, "csv").json(&job);
        [alone.send().await.unwrap(), inside.send().await.unwrap()]
    };
    for answer in send("ticker,type,quantity\n").await {
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.text().await.unwrap().lines().count(), 1, "the header alone");
    }
    for answer in send("ticker;type;quantity\r\nXEQ1;long;2,5\r\n").await {
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        assert!(text.lines().nth(1).unwrap().contains(",2.5,"), "{text}");
    }
    for answer in send("ticker,type,quantity\nXEQ1,long,1\nXEQ1,long,-1\n").await {
        let refusal: Value = answer.json().await.unwrap();
        let violation = &refusal["detail"][0];
        assert_eq!(violation["loc"], json!(["body", "portfolio", "futures", 1, "quantity"]));
        assert_eq!(violation["msg"], "line 3: must be at least 0");
    }
}

/// Names and values of what is no list and no object, numbers written alike.
fn leaves(name: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| leaves(name, value, out)),
        Value::Array(items) => {
            items.iter().for_each(|item| leaves(name.trim_end_matches('s'), item, out))
        }
        Value::String(text) => out.push((name.to_owned(), text.clone())),
        other => out.push((name.to_owned(), other.as_f64().unwrap().to_string())),
    }
}

/// The same of XML, where a ticker is an attribute.
fn leaves_of_xml(text: &str) -> Vec<(String, String)> {
    let document = roxmltree::Document::parse(text).unwrap();
    let elements = document
        .descendants()
        .filter(|node| node.is_element() && node.first_element_child().is_none());
    let leaf = |node: roxmltree::Node<'_, '_>| {
        let name = node.attribute("ticker").unwrap_or(node.tag_name().name());
        let text = node.text().unwrap_or_default();
        (
            name.to_owned(),
            text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string()),
        )
    };
    elements
        .filter(|node| !["rows", "warnings"].contains(&node.tag_name().name()))
        .map(leaf)
        .collect()
}

/// Texts that differ in the last digits of numbers at most.
fn assert_alike(got: &str, expected: &str) {
    let words = |text: &str| -> Vec<String> {
        text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && !".+-".contains(c))
            .map(str::to_owned)
            .collect()
    };
    let number = |word: &str| word.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<f64>();
    assert_eq!(words(got).len(), words(expected).len(), "{got}\n{expected}");
    for (got, wanted) in words(got).iter().zip(&words(expected)) {
        match (number(got), number(wanted)) {
            (Ok(got), Ok(wanted)) => {
                assert!((got - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{got} {wanted}")
            }
            _ => assert_eq!(got, wanted),
        }
    }
}

#[tokio::test]
async fn each_media_type_of_the_answer_keeps_to_its_schema_and_is_as_its_example() {
    let (service, key) = serve("sample");
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let api = Api::new(document.clone());
    let operation = &document["paths"]["/margin/submit_job/historical/{data_format}"]["post"];
    let content = &operation["responses"]["200"]["content"];
    let ask = async |path: &str, accept: &str, job: &Value| {
        let response =
            post(&service, &key, path).header(ACCEPT, accept).json(job).send().await.unwrap();
        assert_eq!(response.status(), 200, "{job}");
        let media = response.headers()[CONTENT_TYPE]
            .to_str()
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        (media, response.text().await.unwrap())
    };
    let examples = &operation["requestBody"]["content"]["application/json"]["examples"];
    let one_future = &examples["one_future"]["value"];
    let hedged = &examples["hedged"]["value"];
    let empty = json!({ "marginDate": "2024-12-31", "portfolio": { "futures": [] } });
    for job in [one_future, hedged, &empty] {
        let mut reports = Vec::new();
        for (media, documented) in content.as_object().unwrap() {
            let (answered, text) = ask("json", media, job).await;
            assert_eq!(answered, *media);
            if job == one_future {
                let example = &documented["examples"]["example"]["value"];
                let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
                assert_alike(&text, &example);
            }
            reports.push(text);
        }
        let [csv, json, xml, yaml] = &reports[..] else { panic!("{} media types", reports.len()) };
        let json: Value = serde_json::from_str(json).unwrap();
        let schema = &content["application/json"]["schema"];
        assert_eq!(violations(&api, schema, &json), [], "{json}");
        let mut said = Vec::new();
        leaves("", &json, &mut said);
        let mut in_yaml = Vec::new();
        leaves("", &serde_saphyr::from_str(yaml).unwrap(), &mut in_yaml);
        assert_eq!(in_yaml, said);
        assert_eq!(leaves_of_xml(xml), said);

        let (media, report) = ask("json?shape=report", "text/csv", job).await;
        assert_eq!((media.as_str(), &report), ("application/json", &reports[1]));
        let (media, lines) = ask("json?shape=lines", "*/*", job).await;
        assert_eq!(media, "application/json");
        let lines: Value = serde_json::from_str(&lines).unwrap();
        assert_eq!(violations(&api, schema, &lines), []);
        assert_eq!(lines, json!(csv.lines().collect::<Vec<_>>()));
        if job == one_future {
            assert_alike(
                &lines.to_string(),
                &content["application/json"]["examples"]["lines"]["value"].to_string(),
            );
        }
        let columns = document["components"]["schemas"]["MarginRow"]["properties"]
            .as_object()
            .unwrap()
            .keys();
        let columns: Vec<&str> = columns.map(String::as_str).collect();
        assert_eq!(lines[0], columns.join(","));
        for (line, row) in csv.lines().skip(1).zip(json["rows"].as_array().unwrap()) {
            let mut cells = Vec::new();
            leaves("", row, &mut cells);
            let cells: Vec<String> = cells.into_iter().map(|(_, value)| value).collect();
            assert_eq!(line, cells.join(","));
        }
        assert_eq!(csv.lines().count(), 1 + json["rows"].as_array().unwrap().len());
    }
}

#[tokio::test]
async fn bodies_may_be_compressed_and_are_bounded_when_they_are_not_any_more() {
    let (service, key) = serve("sample");
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let send = |encoding: &'static str, body: Vec<u8>| {
        let request = post(&service, &key, "json")
            .header(CONTENT_TYPE, "application/json")
            .header("content-encoding", encoding)
            .body(body);
        async { request.send().await.unwrap() }
    };
    assert_eq!(send("gzip", gzip(one_future().to_string().as_bytes())).await.status(), 200);
    let bomb = gzip(&vec![b' '; 100 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(send("gzip", bomb).await.status(), 413);
    assert_eq!(send("br", b"{}".to_vec()).await.status(), 415);
}

#[tokio::test]
async fn what_disagrees_with_the_data_format_is_refused() {
    let (service, key) = serve("sample");
    let csv = "ticker,type,quantity\nXEQ1,long,1\n";
    for (path, media, status, at) in [
        ("xml", "text/csv", 415, json!(["header", "content-type"])),
        ("csv", "application/yaml", 415, json!(["header", "content-type"])),
        ("csv", "text/plain", 415, json!(["header", "content-type"])),
        ("pdf", "text/csv", 422, json!(["path", "data_format"])),
        ("csv?numScenarios=x", "text/csv", 422, json!(["query", "numScenarios"])),
        ("csv?numScenarios=0", "text/csv", 422, json!(["query", "numScenarios"])),
        ("json?seed=1", "application/json", 422, json!(["query", "seed"])),
    ] {
        let body = if media.ends_with("json") { one_future().to_string() } else { csv.to_owned() };
        let response =
            post(&service, &key, path).header(CONTENT_TYPE, media).body(body).send().await.unwrap();
        assert_eq!(response.status(), status, "{path} {media}");
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["detail"][0]["loc"], at, "{path} {media}: {error}");
    }
    let no_portfolio = "--x\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{}\r\n--x--\r\n";
    let form = post(&service, &key, "csv")
        .header(CONTENT_TYPE, "multipart/form-data; boundary=x")
        .body(no_portfolio);
    let error: Value = form.send().await.unwrap().json().await.unwrap();
    assert_eq!(error["detail"][0]["loc"], json!(["body", "portfolio"]));
}

#[tokio::test]
async fn a_form_takes_a_portfolio_as_large_as_any_other_body() {
    let (service, key) = serve("sample");
    // Long notes, not many positions: these take their time.
    let line = format!("XEQ1,long,2,{}\n", "x".repeat(3_000));
    let csv = format!("ticker,type,quantity,note\n{}", line.repeat(1_000));
    let form = format!(
        "--x\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{{\"marginDate\": \"2024-12-31\"}}\r\n\
         --x\r\ncontent-disposition: form-data; name=\"portfolio\"; filename=\"p.csv\"\r\n\r\n{csv}\r\n--x--\r\n"
    );
    let sent = post(&service, &key, "csv")
        .header(CONTENT_TYPE, "multipart/form-data; boundary=x")
        .body(form);
    let answer = sent.send().await.unwrap();
    let status = answer.status();
    assert_eq!(status, 200, "{}", answer.text().await.unwrap());
}

#[tokio::test]
async fn a_form_of_many_parts_is_refused_before_they_are_read() {
    let (service, key) = serve("sample");
    let part = "--x\r\ncontent-disposition: form-data; name=a\r\n\r\n\r\n";
    let portfolio = "--x\r\ncontent-disposition: form-data; name=portfolio\r\n\r\n\
                     ticker,type,quantity\nXEQ1,long,1\r\n--x--\r\n";
    for (n_others, status) in [(63, 200), (64, 422), (100_000, 422)] {
        let form = format!("{}{portfolio}", part.repeat(n_others));
        let sent = post(&service, &key, "csv")
            .header(CONTENT_TYPE, "multipart/form-data; boundary=x")
            .body(form);
        let answer = sent.send().await.unwrap();
        assert_eq!(answer.status(), status, "{n_others}");
        if status == 422 {
            let error: Value = answer.json().await.unwrap();
            let message = error["detail"][0]["msg"].as_str().unwrap();
            assert!(
                message.contains("more than 64 parts; it takes two, job and portfolio"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_whatever_happened_to_the_data() {
    let (mut service, key) = serve("sample");
    let ask = |service: &Service, job: Value| {
        let request = post(service, &key, "json").header("idempotency-key", "one").json(&job);
        async { request.send().await.unwrap() }
    };
    let first = ask(&service, one_future()).await.text().await.unwrap();
    let prices = service.data.join("market/prices.csv");
    let text = fs::read_to_string(&prices).unwrap();
    let cut = text.rfind("2024-12-31,XEQ1").unwrap();
    let line = text[cut..].lines().next().unwrap().len();
    fs::write(&prices, format!("{}2024-12-31,XEQ1,1{}", &text[..cut], &text[cut + line..]))
        .unwrap();
    service.kill_and_restart();
    assert_eq!(ask(&service, one_future()).await.text().await.unwrap(), first);
    let anew = post(&service, &key, "json")
        .json(&one_future())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_ne!(anew, first);
    let mut other = one_future();
    other["seed"] = json!(7);
    assert_eq!(ask(&service, other).await.status(), 409);
}

#[tokio::test]
async fn market_data_is_exchanged_as_a_whole_and_only_when_it_is_good() {
    let service = Service::start();
    let key = service.key("ada");
    let none = post(&service, &key, "json").json(&one_future()).send().await.unwrap();
    assert_eq!(none.status(), 503);
    assert_eq!(none.headers()["retry-after"], "3600", "clients do not wait for an operator");

    service.command(&["market", "sample"]);
    assert!(service.failing_command(&["market", "sample"]).contains("is there already"));
    let said = service.command(&["market", "check"]);
    assert!(
        said.contains("12 contracts") && said.contains("from 2005-01-03 to 2024-12-31"),
        "{said}"
    );
    service.command(&["market", "reload"]);
    let sha256 = async || {
        let response = post(&service, &key, "json").json(&one_future()).send().await.unwrap();
        response.headers()["x-market-data"].to_str().unwrap().to_owned()
    };
    let first = sha256().await;
    assert!(said.contains(&first));

    let prices = service.data.join("market/prices.csv");
    let good = fs::read_to_string(&prices).unwrap();
    fs::write(&prices, good.replacen("2005-01-04,XEQ1,", "2005-01-04,XEQ1,x", 1)).unwrap();
    let error = service.failing_command(&["market", "reload"]);
    assert!(error.contains("prices.csv:"), "{error}");
    assert_eq!(sha256().await, first);

    fs::write(&prices, format!("{good}2025-01-02,XEQ1,5000\n")).unwrap();
    service.command(&["market", "reload"]);
    assert_ne!(sha256().await, first);
}

#[tokio::test]
async fn a_calculation_ends_when_its_caller_leaves() {
    let setting = "margin.calculations=1";
    let service = Service::start_with(&[setting]);
    let key = service.key("ada");
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let tickers = [
        "XEQ1", "XEQ2", "XEQ3", "XEQ4", "XBD1", "XBD2", "XIR1", "XFX1", "XCM1", "XCM2", "XCM3",
        "XSP1",
    ];
    let futures: Vec<Value> = tickers
        .iter()
        .map(|ticker| json!({ "ticker": ticker, "type": "long", "quantity": 1 }))
        .collect();
    let long = json!({ "marginDate": "2024-12-31", "numScenarios": 1_000_000, "timeHorizonDays": 250,
        "portfolio": { "futures": futures } });
    let request = post(&service, &key, "json").json(&long).timeout(Duration::from_millis(500));
    assert!(request.send().await.unwrap_err().is_timeout());
    // The only slot is free again long before the calculation could have been done: it takes
    // minutes.
    let next = post(&service, &key, "json").json(&one_future()).timeout(Duration::from_secs(40));
    assert_eq!(next.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn several_portfolios_in_one_request_have_the_bytes_that_each_has_by_itself() {
    let (service, key) = serve("sample");
    let answer = async |body: &Value, accept: &str| -> (u16, String) {
        let request = post(&service, &key, "json").header(CONTENT_TYPE, "application/json");
        let response = request.header(ACCEPT, accept).body(body.to_string()).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let desks = [
        ("long", json!({ "futures": [{ "ticker": "XEQ1", "type": "long", "quantity": 2 }] })),
        ("short", json!({ "futures": [{ "ticker": "XEQ2", "type": "short", "quantity": 1 }] })),
    ];
    let shared = json!({ "marginDate": "2024-12-31", "numScenarios": 500 });
    let mut several = shared.clone();
    several["portfolios"] = desks
        .iter()
        .map(|(name, portfolio)| json!({ "name": name, "futures": portfolio["futures"] }))
        .collect();
    let (status, together) = answer(&several, "application/json").await;
    assert_eq!(status, 200, "{together}");
    let mut expected = Vec::new();
    for (name, portfolio) in &desks {
        let mut single = shared.clone();
        single["portfolio"] = portfolio.clone();
        let (_, alone) = answer(&single, "application/json").await;
        // As clients that were generated for Java send what is not given.
        single["portfolios"] = json!([]);
        assert_eq!(answer(&single, "application/json").await, (200, alone.clone()));
        expected.push(format!("{{\"name\":\"{name}\",\"report\":{alone}}}"));
    }
    assert_eq!(together, format!("{{\"portfolios\":[{}]}}", expected.join(",")));
    let (status, refusal) = answer(&json!([null, null, []]), "application/json").await;
    assert_eq!(status, 422, "{refusal}");
    let (_, csv) = answer(&several, "text/csv").await;
    let names: Vec<&str> = csv.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(names, ["portfolio", "long", "short"]);

    several["portfolios"][1]["futures"][0]["ticker"] = json!("LOST");
    let (status, refusal) = answer(&several, "application/json").await;
    let refusal: Value = serde_json::from_str(&refusal).unwrap();
    let violation = &refusal["detail"][0];
    assert_eq!(status, 422);
    assert_eq!(
        violation["loc"],
        json!(["body", "portfolios", 1, "futures", 0, "ticker"]),
        "{refusal}"
    );
    assert!(violation["msg"].as_str().unwrap().contains("(portfolio \"short\")"), "{refusal}");
}
