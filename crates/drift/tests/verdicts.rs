//! What counts as a change, as a table: `verdicts.yaml`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use openapi_drift::{Api, Report, Verdict};
use serde_json::{Map, Value};

/// The table, with a document to change.
struct Table(Value);

impl Table {
    fn read() -> Self {
        Self(serde_saphyr::from_str(include_str!("verdicts.yaml")).unwrap())
    }

    fn document(&self) -> Value {
        self.0["document"].clone()
    }

    /// A place with its first word spelled out.
    fn pointer(&self, place: &str) -> String {
        let (first, rest) = place.split_once('/').unwrap();
        match self.0["places"][first].as_str() {
            Some(prefix) => format!("{prefix}/{rest}"),
            None => place.to_owned(),
        }
    }

    fn apply(&self, document: &mut Value, changes: &Value) {
        // From the last place to the first, so that positions in lists stay what they were.
        for (place, value) in changes.as_object().into_iter().flatten().rev() {
            let pointer = self.pointer(place);
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let key = key.replace("~1", "/");
            let at =
                document.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no place"));
            match (at, value) {
                (Value::Object(map), Value::Null) => drop(map.remove(&key)),
                (Value::Object(map), value) => drop(map.insert(key, value.clone())),
                (Value::Array(items), Value::Null) => drop(items.remove(key.parse().unwrap())),
                (Value::Array(items), value) => {
                    match items.get_mut(key.parse::<usize>().unwrap()) {
                        Some(item) => *item = value.clone(),
                        None => items.push(value.clone()),
                    }
                }
                _ => panic!("{pointer} is in neither an object nor a list"),
            }
        }
    }

    fn relocate(&self, document: &mut Value, places: &Value) {
        let [from, to] = [0, 1].map(|index| places[index].as_str().unwrap().to_owned());
        let (parent, from) = from.rsplit_once('/').unwrap();
        let to = to.rsplit_once('/').unwrap().1.replace("~1", "/");
        let map = document.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        // In the same place of the order.
        let renamed: Map<String, Value> =
            std::mem::take(map)
                .into_iter()
                .map(|(key, value)| {
                    if key == from.replace("~1", "/") { (to.clone(), value) } else { (key, value) }
                })
                .collect();
        *map = renamed;
    }

    fn sides(&self, case: &Value) -> (Api, Api) {
        let mut old = self.document();
        self.apply(&mut old, &case["given"]);
        let mut new = old.clone();
        if !case["move"].is_null() {
            self.relocate(&mut new, &case["move"]);
        }
        self.apply(&mut new, &case["change"]);
        (Api::new(old), Api::new(new))
    }
}

#[test]
fn every_change_is_judged_as_the_table_says() {
    let table = Table::read();
    let mut wrong = Vec::new();
    for case in table.0["cases"].as_array().unwrap() {
        let (old, new) = table.sides(case);
        let report = Report::new(&old, &new);
        let name = |verdict: Option<Verdict>| verdict.map_or("none", Verdict::name);
        let found = [name(report.wire()), name(report.others())];
        if found != [case["wire"].as_str().unwrap(), case["code"].as_str().unwrap()] {
            wrong.push(format!("{}: {found:?} for {:#?}", case["claim"], report.findings));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_narrows_one_way_widens_the_other() {
    let table = Table::read();
    for case in table.0["cases"].as_array().unwrap() {
        let (old, new) = table.sides(case);
        let (forth, back) = (Report::new(&old, &new), Report::new(&new, &old));
        assert_eq!(forth.wire().is_none(), back.wire().is_none(), "{}", case["claim"]);
        assert_eq!(Report::new(&new, &new).wire(), None, "{}", case["claim"]);
    }
}

#[test]
fn a_breaking_change_needs_a_version_that_says_so() {
    let table = Table::read();
    for (old, new, is_announced) in [
        ("0.1.0", "0.1.0", false),
        ("0.1.0", "0.1.1", false),
        ("0.1.0", "0.2.0", true),
        ("0.9.3", "1.0.0", true),
        ("1.4.0", "1.5.0", false),
        ("1.4.0", "2.0.0-rc.1", true),
        ("0.2.0", "0.1.0", false),
        ("one", "two", false),
    ] {
        let mut documents = [table.document(), table.document()];
        documents[0]["info"]["version"] = old.into();
        documents[1]["info"]["version"] = new.into();
        documents[1]["paths"].as_object_mut().unwrap().remove("/jobs");
        let [before, after] = documents.map(Api::new);
        assert_eq!(Report::new(&before, &after).is_announced(), is_announced, "{old} -> {new}");
    }
}

#[test]
fn a_change_of_a_shared_schema_is_reported_once_with_all_its_operations() {
    let table = Table::read();
    let (old, mut new) = (Api::new(table.document()), table.document());
    new["components"]["schemas"]["JobRecord"]["properties"].as_object_mut().unwrap().remove("note");
    let report = Report::new(&old, &Api::new(new));
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    assert_eq!(finding.at, "JobRecord.note");
    assert_eq!(finding.operations, ["POST /jobs", "GET /jobs/{job_id}"]);
}

#[test]
fn what_is_no_openapi_is_refused() {
    for text in ["{}", "swagger: '2.0'", "openapi: 3.0.3\ninfo: ["] {
        assert!(Api::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_no_guess() {
    let text = |reference: &str| {
        format!(
            "{{openapi: 3.1.0, info: {{title: T, version: '1'}}, paths: {{/a: {{$ref: \
             '{reference}'}}}}, x-a: {{}}}}"
        )
    };
    for reference in ["#/components/pathItems/A", "other.yaml#/A"] {
        let error = Api::parse(&text(reference)).err().unwrap();
        assert!(error.to_string().contains(reference), "{error:#}");
    }
    assert!(Api::parse(&text("#/x-a")).is_ok());
}
