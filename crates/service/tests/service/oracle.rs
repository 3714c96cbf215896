//! Refusals as FastAPI gives them: every recorded request is sent, and the answers compared.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::Service;

/// Kinds that the schema check gives. Past it, our own checks speak.
const OF_THE_SCHEMA: [&str; 17] = [
    "bool_parsing",
    "bool_type",
    "enum",
    "finite_number",
    "float_parsing",
    "float_type",
    "greater_than",
    "greater_than_equal",
    "int_from_float",
    "int_parsing",
    "int_parsing_size",
    "int_type",
    "json_invalid",
    "list_type",
    "model_attributes_type",
    "string_too_short",
    "string_type",
];

/// Recorded answers that we give otherwise on purpose.
fn decided_otherwise(case: &Value) -> Option<(u16, &'static str)> {
    let id = case["id"].as_str().unwrap();
    match case["status"].as_u64().unwrap() {
        // Upstream's own failures.
        500 => Some((422, "")),
        // Redirects are not used.
        307 => Some((404, "")),
        // The key is checked before anything is read.
        _ if id == "auth-missing-and-malformed" => Some((401, "unauthorized")),
        _ => None,
    }
}

#[tokio::test]
async fn recorded_requests_are_refused_as_fastapi_refuses_them() {
    let service = Service::start();
    let key = service.key("ada");
    let recorded: Value = serde_json::from_str(include_str!("../data/fastapi.json")).unwrap();
    let http =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let (mut alike, mut wrong) = (0, Vec::new());
    for case in recorded["cases"].as_array().unwrap() {
        let path = case["path"].as_str().unwrap();
        let base =
            if path.starts_with("/margin") { &service.margin_url } else { &service.base_url };
        let method: Method = case["method"].as_str().unwrap().parse().unwrap();
        let mut request = http.request(method, format!("{base}{path}"));
        for (name, value) in case["headers"].as_object().unwrap() {
            let value = if name.eq_ignore_ascii_case("x-api-key") {
                key.as_str()
            } else {
                value.as_str().unwrap()
            };
            request = request.header(name, value);
        }
        if let Some(body) = case["body"].as_str() {
            request = request.body(body.to_owned());
        } else if let Some(body) = case["body_base64"].as_str() {
            request = request.body(unbase64(body));
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let answer: Value = response.json().await.unwrap_or_default();
        let kinds: Vec<&str> = answer["detail"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item["type"].as_str())
            .collect();
        let was = case["status"].as_u64().unwrap() as u16;
        let is_fine = match decided_otherwise(case) {
            Some((wanted, kind)) => status == wanted && (kind.is_empty() || kinds == [kind]),
            None if was == 200 && case["group"] == "lax" => {
                status == 422 || !kinds.iter().any(|k| OF_THE_SCHEMA.contains(k))
            }
            // Accepted as far as the schema goes; what it refers to is not there.
            None if was == 200 => {
                let is_lax = status == 422
                    && kinds.iter().all(|k| k.ends_with("_type") || *k == "finite_number");
                let is_past = ![400, 401, 405].contains(&status)
                    && !kinds.iter().any(|k| OF_THE_SCHEMA.contains(k));
                is_past
                    || (is_lax && case["group"] != "accepted" && case["group"] != "accepted-null")
            }
            None if was == 422 => {
                status == 422 && refusal(&answer["detail"]) == refusal(&case["detail"])
            }
            None => status == was,
        };
        if is_fine {
            alike += 1;
        } else {
            wrong.push(format!(
                "{}: {was} {} -> {status} {}",
                case["id"], case["detail"], answer["detail"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{alike} alike, not these:\n{}", wrong.join("\n"));
    assert!(alike > 100);
}

/// What of a refusal binds: where, what kind, and in what words.
fn refusal(detail: &Value) -> Vec<Value> {
    let items = detail.as_array().into_iter().flatten();
    items.map(|item| json!([item["loc"], item["type"], item["msg"]])).collect()
}

fn unbase64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let text = text.trim_end_matches('=').as_bytes();
    let bits = text.iter().flat_map(|&byte| (0..6).rev().map(move |bit| (digit(byte) >> bit) & 1));
    let bits: Vec<u8> = bits.collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |value, bit| value << 1 | bit)).collect()
}
