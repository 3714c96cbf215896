//! The document against the interface that it describes, and the generated types and the examples
//! against the document.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use molbox::{margin, workflow};
use molbox_codegen::{Document, Part};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The operations of the interface: base address, method, path, request, what 200 is.
const OPERATIONS: &str = "
    workflow GET  /submit/upload-url                      -                   json
    workflow POST /submit/file/                           FileRegistration    json
    workflow POST /submit/system                          SystemBuildRequest  json
    workflow POST /submit/job                             JobCreateParams     json
    workflow POST /submit/analysis                        AnalysisRequest     json
    workflow GET  /info/files                             -                   json
    workflow GET  /info/jobs                              -                   json
    workflow GET  /info/job/{job_id}                      -                   json
    workflow GET  /info/systems                           -                   json
    workflow GET  /info/system/{system_id}                -                   json
    workflow GET  /info/analysis/{analysis_id}            -                   json
    workflow GET  /retrieve/job/{job_id}                  -                   application/zip
    workflow GET  /retrieve/analysis/{job_id}             -                   json
    margin   POST /margin/submit_job/historical/{data_format} MarginJobRequest text/csv
";

/// The fields of the interface: type, bound, whether null is accepted.
const FIELDS: &str = "
    FileRegistration.name                   string
    FileRegistration.type                   string
    FileRegistration.format                 string
    FileRegistration.file_id                string
    FileRegistration.pdb_id                 string
    SystemBuildRequest.box_name             string
    SystemBuildRequest.box_shape            string
    SystemBuildRequest.chain_id             string
    SystemBuildRequest.concentration        number
    SystemBuildRequest.force_field          string
    SystemBuildRequest.ions                 string
    SystemBuildRequest.keep_Hs              boolean
    SystemBuildRequest.ligand_input_formats [string]
    SystemBuildRequest.ligand_residue_names [string]
    SystemBuildRequest.ligand_rotations     [[any]]
    SystemBuildRequest.ligand_translations  [[any]]
    SystemBuildRequest.ligands              [string]
    SystemBuildRequest.membrane             string
    SystemBuildRequest.minimum_padding      number
    SystemBuildRequest.pH                   number
    SystemBuildRequest.protein              string
    SystemBuildRequest.water_type           string
    JobCreateParams.box_id                  string length>=1
    JobCreateParams.batch_index             integer >=0 null
    JobCreateParams.batch_name              string null
    JobCreateParams.equilibration           [EquilibrationStep] null
    JobCreateParams.production              ProductionParams null
    JobCreateParams.temperature             number >=0 null
    JobCreateParams.pressure                number >=0 null
    JobCreateParams.surface_tension         number >=0 null
    JobCreateParams.friction                number >=0 null
    JobCreateParams.integration_timestep    number >0 null
    JobCreateParams.ewald_error_tolerance   number >0 null
    JobCreateParams.non_bonded_cutoff       number >0 null
    JobCreateParams.minimization_steps      integer >=0 null
    JobCreateParams.trajectory_output_format TrajectoryFormats null
    EquilibrationStep.traj_freq             integer >=0 null
    EquilibrationStep.time                  number >=0 null
    EquilibrationStep.log_freq              integer >=0 null
    EquilibrationStep.type                  Ensembles null
    EquilibrationStep.restraint_force       number >=0 null
    EquilibrationStep.restraint_mask        string null
    ProductionParams.traj_freq              integer >=0 null
    ProductionParams.time                   number >=0 null
    ProductionParams.log_freq               integer >=0 null
    ProductionParams.type                   Ensembles null
    AnalysisRequest.downsample_frames       number
    AnalysisRequest.distance_masks          [string]
    AnalysisRequest.rmsd_masks              [[string]]
    AnalysisRequest.rmsf_masks              [string]
    AnalysisRequest.hbond_angle             number
    AnalysisRequest.hbond_distance          number
    MarginJobRequest.marginDate             string
    MarginJobRequest.numScenarios           integer
    MarginJobRequest.timeHorizonDays        integer
    MarginJobRequest.volatilityLookbackDays number
    MarginJobRequest.ewmaDecayFactor        number
    MarginJobRequest.volatilityMultiplier   number
    MarginJobRequest.settings               HistoricalSettings
    MarginJobRequest.portfolio              Portfolio
    HistoricalSettings.startDate            string
    HistoricalSettings.endDate              string
    HistoricalSettings.addedDates           [string]
    HistoricalSettings.excludedDates        [string]
    Portfolio.futures                       [FuturesPosition]
    FuturesPosition.ticker                  string
    FuturesPosition.type                    string
    FuturesPosition.quantity                number
    HTTPValidationError.detail              [ValidationError]
    ValidationError.loc                     [LocItem]
    ValidationError.msg                     string
    ValidationError.type                    string
";

/// Enumerations of the interface.
const ENUMS: [(&str, &[&str]); 3] = [
    ("Ensembles", &["NPT", "NVT"]),
    ("TrajectoryFormats", &["dcd"]),
    ("DataFormat", &["fpml", "csv", "json", "xml", "yaml"]),
];

/// Schemas whose fields the interface requires; in no other request is one required.
const REQUIRED: [(&str, &[&str]); 1] = [("ValidationError", &["loc", "msg", "type"])];

fn document() -> Document {
    Document::read(include_str!("../openapi/molbox.yaml")).unwrap()
}

fn resolved<'a>(document: &'a Document, value: &'a Value) -> &'a Value {
    value["$ref"].as_str().map_or(value, |reference| document.resolve(reference).unwrap())
}

/// A property in the words of the table.
fn words(document: &Document, schema: &Value) -> String {
    if let Some(any) = schema["anyOf"].as_array() {
        assert_eq!(any[1], json!({"enum": [null]}));
        return format!("{} null", words(document, &any[0]));
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        let target = document.resolve(reference).unwrap();
        // A string with a name of its own for its restriction is still a string.
        let is_plain = target["type"] == "string" && target.get("enum").is_none();
        return if is_plain { words(document, target) } else { name.to_owned() };
    }
    let mut text = match schema["type"].as_str() {
        Some("array") => format!("[{}]", words(document, &schema["items"])),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    };
    if let Some(length) = schema["minLength"].as_u64() {
        text += &format!(" length>={length}");
    }
    if let Some(minimum) = schema["minimum"].as_f64() {
        text += if schema["exclusiveMinimum"] == true { " >" } else { " >=" };
        text += &minimum.to_string();
    }
    if schema["nullable"] == true {
        text += " null";
    }
    text
}

fn table(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|words| !words.is_empty())
}

#[test]
fn every_operation_of_the_interface_is_in_the_document_as_it_stands_there() {
    let document = document();
    for row in table(OPERATIONS) {
        let [part, method, path, request, success] = row[..] else { panic!("{row:?}") };
        let operation = document
            .operations()
            .find(|op| op.path == path && op.method == method.to_lowercase())
            .unwrap_or_else(|| panic!("{method} {path} is missing"));
        assert_eq!(operation.part, if part == "margin" { Part::Margin } else { Part::Workflow }, "{path}");
        let body = &operation.value["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let expected = format!("#/components/schemas/{request}");
        assert_eq!(body.as_str().unwrap_or("-"), if request == "-" { "-" } else { &expected }, "{path}");
        let ok = resolved(&document, &operation.value["responses"]["200"]);
        let media = if success == "json" { "application/json" } else { success };
        assert!(ok["content"].get(media).is_some(), "{path}: 200 is not {media}");
        let refusal = resolved(&document, &operation.value["responses"]["422"]);
        let schema = &refusal["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(schema, "#/components/schemas/HTTPValidationError", "{path}");
        assert!(operation.value.get("security").is_none(), "{path} takes the key");
        assert!(operation.value.get("x-origin").is_none(), "{path} is the interface's, not ours");
    }
    assert_eq!(table(OPERATIONS).count(), 14);
}

#[test]
fn what_is_not_of_the_interface_is_marked_as_ours() {
    let document = document();
    let known: Vec<(&str, &str)> = table(OPERATIONS).map(|row| (row[1], row[2])).collect();
    for operation in document.operations() {
        let item = &document.value["paths"][operation.path];
        let is_ours = operation.value["x-origin"] == "molbox" || item["x-origin"] == "molbox";
        let is_known = known.contains(&(operation.method.to_uppercase().as_str(), operation.path));
        assert_eq!(is_ours, !is_known, "{} {}", operation.method, operation.path);
    }
    let fields: Vec<&str> = table(FIELDS).map(|row| row[0]).collect();
    for (name, schema) in document.value["components"]["schemas"].as_object().unwrap() {
        let of_interface = fields.iter().any(|field| field.split('.').next() == Some(name));
        for (property, value) in schema["properties"].as_object().into_iter().flatten().filter(|_| of_interface) {
            let is_known = fields.contains(&format!("{name}.{property}").as_str());
            assert_eq!(value["x-origin"] == "molbox", !is_known, "{name}.{property}");
        }
    }
}

#[test]
fn every_field_of_the_interface_has_its_type_its_bound_and_its_nullability() {
    let document = document();
    for row in table(FIELDS) {
        let (schema, property) = row[0].split_once('.').unwrap();
        let value = &document.value["components"]["schemas"][schema]["properties"][property];
        assert!(!value.is_null(), "{} is missing", row[0]);
        assert_eq!(words(&document, value), row[1..].join(" "), "{}", row[0]);
    }
    for (name, values) in ENUMS {
        assert_eq!(document.value["components"]["schemas"][name]["enum"], json!(values), "{name}");
    }
    for name in table(FIELDS).map(|row| row[0].split('.').next().unwrap()) {
        let required = REQUIRED.iter().find(|(schema, _)| *schema == name).map_or(json!(null), |(_, r)| json!(r));
        assert_eq!(document.value["components"]["schemas"][name]["required"], required, "{name}");
    }
}

#[test]
fn the_rest_of_the_interface_stands_in_the_document() {
    let value = document().value;
    assert_eq!(value["openapi"], "3.0.3");
    assert_eq!(value["info"]["version"], "0.1.0");
    let scheme = &value["components"]["securitySchemes"]["ApiKey"];
    assert_eq!(
        (&scheme["type"], &scheme["in"], &scheme["name"]),
        (&json!("apiKey"), &json!("header"), &json!("x-api-key"))
    );
    assert_eq!(value["security"], json!([{"ApiKey": []}]));
    assert_eq!(value["servers"][0]["url"], "{base_url}");
    let margin = &value["paths"]["/margin/submit_job/historical/{data_format}"];
    assert_eq!(margin["servers"][0]["url"], "{margin_base_url}");
    let filetype = &value["paths"]["/submit/upload-url"]["get"]["parameters"][0];
    assert_eq!((&filetype["name"], &filetype["in"]), (&json!("filetype"), &json!("query")));
    let format = &margin["post"]["parameters"][0];
    assert_eq!((&format["name"], &format["required"]), (&json!("data_format"), &json!(true)));
    let columns = "`ticker`, `positionType`, `currency`, `entryDate`, `entryMarketValue`, `currentMarketValue`, \
                   `initialMargin`, `maintenanceMargin`, `variationMargin`, `size`, `quantity`, `portfolioWeight`";
    assert!(margin["post"]["responses"]["200"]["description"].as_str().unwrap().contains(columns));
}

/// Whether a request of this schema is refused by the generated type, and with what words.
fn refusal(schema: &str, body: &Value) -> Option<String> {
    fn of<T: molbox::Request>(body: &Value) -> Option<String> {
        molbox::from_json::<T>(&body.to_string()).err().map(|error| error.to_string())
    }
    match schema {
        "EquilibrationStep" => of::<workflow::types::EquilibrationStep>(body),
        "FileRegistration" => of::<workflow::types::FileRegistration>(body),
        "JobCreateParams" => of::<workflow::types::JobCreateParams>(body),
        "JobExtension" => of::<workflow::types::JobExtension>(body),
        "ProductionParams" => of::<workflow::types::ProductionParams>(body),
        "SystemBuildRequest" => of::<workflow::types::SystemBuildRequest>(body),
        "AnalysisRequest" => of::<workflow::types::AnalysisRequest>(body),
        "MarginJobRequest" => of::<margin::types::MarginJobRequest>(body),
        "HistoricalSettings" => of::<margin::types::HistoricalSettings>(body),
        "Portfolio" => of::<margin::types::Portfolio>(body),
        "FuturesPosition" => of::<margin::types::FuturesPosition>(body),
        other => panic!("{other} is a request without a type in this table"),
    }
}

/// Values that a schema refuses, and a value at its edge that it accepts.
fn beyond_and_within(document: &Document, schema: &Value) -> (Vec<Value>, Option<Value>) {
    let schema = schema["anyOf"].as_array().map_or(schema, |any| &any[0]);
    let schema = resolved(document, schema);
    match (schema["minimum"].as_f64(), schema["exclusiveMinimum"] == true) {
        (Some(minimum), exclusive) => {
            let mut beyond = vec![json!(minimum - 1.0), json!("text")];
            if schema["type"] == "integer" {
                return (vec![json!(minimum as i64 - 1), json!(0.5)], Some(json!(minimum as i64)));
            }
            if exclusive {
                beyond.push(json!(minimum));
            }
            (beyond, Some(if exclusive { json!(f64::MIN_POSITIVE) } else { json!(minimum) }))
        }
        _ if schema["enum"].is_array() => (vec![json!("no such value")], Some(schema["enum"][0].clone())),
        _ if schema["minLength"].is_u64() => (vec![json!("")], Some(json!("x"))),
        _ if schema["pattern"].is_string() => (vec![json!("../etc/passwd"), json!("")], None),
        _ => (Vec::new(), None),
    }
}

#[test]
fn the_generated_types_enforce_every_bound_of_every_request() {
    let document = document();
    let mut bounds = 0;
    let requests =
        table(FIELDS).map(|row| row[0].split('.').next().unwrap().to_owned()).chain(["JobExtension".to_owned()]);
    let mut requests: Vec<String> = requests.filter(|name| !name.contains("Error")).collect();
    requests.dedup();
    for name in requests {
        let schema = &document.value["components"]["schemas"][&name];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (property, value) in schema["properties"].as_object().unwrap() {
            let (beyond, within) = beyond_and_within(&document, value);
            for wrong in &beyond {
                let error = refusal(&name, &json!({ property: wrong }));
                let error = error.unwrap_or_else(|| panic!("{name}.{property} takes {wrong}"));
                assert!(error.starts_with(property), "{name}.{property}: {wrong}: the error names the field: {error}");
                bounds += 1;
            }
            if let Some(within) = within.filter(|_| required.is_empty() || required == [property]) {
                assert_eq!(refusal(&name, &json!({ property: within })), None, "{name}.{property} takes {within}");
            }
        }
    }
    assert!(bounds >= 45, "only {bounds} values were tried");
}

#[test]
fn the_examples_are_what_their_schemas_say_and_none_is_missing() {
    let document = document();
    let root = schemas_for_validation(&document);
    let mut examples: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/examples")).unwrap() {
        let path = entry.unwrap().path();
        examples.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap());
    }
    let mut check = |prefix: String, content: &Value| {
        let mut found = 0;
        let names: Vec<String> = examples.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
        for name in names {
            let text = examples.remove(&name).unwrap();
            if name.ends_with(".json") {
                let schema = content["application/json"]["schema"]["$ref"].as_str().unwrap();
                validate(&root, schema, &serde_json::from_str(&text).unwrap(), &name);
            }
            found += 1;
        }
        // Archives and arbitrary bytes have no example that says anything.
        let has_text = content
            .as_object()
            .into_iter()
            .flatten()
            .any(|(media, _)| media == "application/json" || media.starts_with("text/"));
        assert!(found > 0 || !has_text, "{prefix}: no example");
    };
    for operation in document.operations() {
        let id = operation.value["operationId"].as_str().unwrap();
        check(format!("{id}.request."), &operation.value["requestBody"]["content"]);
        for (status, response) in operation.value["responses"].as_object().unwrap() {
            if response.get("$ref").is_none() {
                check(format!("{id}.{status}."), &response["content"]);
            }
        }
    }
    for (name, response) in document.value["components"]["responses"].as_object().unwrap() {
        check(format!("{name}."), &response["content"]);
    }
    assert!(examples.is_empty(), "examples of nothing: {examples:?}");
}

/// The document's schemas in the words of JSON Schema draft 4, to which only nullability is new.
fn schemas_for_validation(document: &Document) -> Value {
    fn rewrite(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.values_mut().for_each(rewrite);
                if map.remove("nullable") == Some(json!(true)) {
                    let plain = Value::Object(std::mem::take(map));
                    map.insert("anyOf".to_owned(), json!([plain, {"type": "null"}]));
                }
                // In draft 4 an unknown format is no error, but these are not formats of its.
                map.remove("format");
            }
            Value::Array(items) => items.iter_mut().for_each(rewrite),
            _ => {}
        }
    }
    let mut schemas = document.value["components"]["schemas"].clone();
    for schema in schemas.as_object_mut().unwrap().values_mut() {
        // Properties may be called `format` and `nullable`; only schemas are rewritten.
        rewrite_properties(schema, &mut rewrite);
    }
    json!({"components": {"schemas": schemas}})
}

fn rewrite_properties(schema: &mut Value, rewrite: &mut impl FnMut(&mut Value)) {
    match schema.get_mut("properties").and_then(Value::as_object_mut) {
        Some(properties) => properties.values_mut().for_each(rewrite),
        None => rewrite(schema),
    }
}

fn validate(root: &Value, reference: &str, example: &Value, name: &str) {
    let mut compiler = boon::Compiler::new();
    compiler.set_default_draft(boon::Draft::V4);
    compiler.add_resource("molbox:document", root.clone()).unwrap();
    let mut schemas = boon::Schemas::new();
    let schema = compiler.compile(&format!("molbox:document{reference}"), &mut schemas).unwrap();
    if let Err(error) = schemas.validate(example, schema) {
        panic!("{name}: {error}");
    }
}

#[test]
fn a_request_survives_the_generated_types() {
    fn survives<T: DeserializeOwned + Serialize>(name: &str, text: &str) {
        fn without_nulls(value: Value) -> Value {
            match value {
                Value::Object(map) => {
                    map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
                }
                Value::Array(items) => items.into_iter().map(without_nulls).collect(),
                Value::Number(number) => json!(number.as_f64()),
                other => other,
            }
        }
        let written: Value = serde_json::from_str(text).unwrap();
        let typed: T = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut again = serde_json::to_value(typed).unwrap();
        // An empty list that may not be null is sent by leaving it out.
        if let (Some(again), Some(written)) = (again.as_object_mut(), written.as_object()) {
            for (key, value) in written.iter().filter(|(_, value)| **value == json!([])) {
                again.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        assert_eq!(without_nulls(again), without_nulls(written), "{name}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/examples");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        match name.split_once(".request").map(|(operation, _)| operation) {
            Some("file_register") => survives::<workflow::types::FileRegistration>(&name, &text),
            Some("system_submit") => survives::<workflow::types::SystemBuildRequest>(&name, &text),
            Some("job_submit") => survives::<workflow::types::JobCreateParams>(&name, &text),
            Some("job_extend") => survives::<workflow::types::JobExtension>(&name, &text),
            Some("analysis_submit") => survives::<workflow::types::AnalysisRequest>(&name, &text),
            Some("margin_submit") => {
                // `excludedDates: []` lies a level below.
                let text = text.replace("\"excludedDates\": []", "\"excludedDates\": [\"2020-03-16\"]");
                survives::<margin::types::MarginJobRequest>(&name, &text);
            }
            Some(other) => panic!("{other} is a request without a type in this test"),
            None => continue,
        }
        count += 1;
    }
    assert!(count >= 10);
}

#[test]
fn a_record_with_members_of_a_later_version_keeps_them() {
    let text = include_str!("../openapi/examples/job_view.200.running.json");
    let mut later: Value = serde_json::from_str(text).unwrap();
    later["from_a_later_version"] = json!({"x": 1});
    later["progress"]["temperature_of_the_day"] = json!(20);
    let record: workflow::types::JobRecord = serde_json::from_value(later.clone()).unwrap();
    let again = serde_json::to_value(record).unwrap();
    assert_eq!(again["from_a_later_version"], later["from_a_later_version"]);
    assert_eq!(again["progress"]["temperature_of_the_day"], 20);
}

#[test]
fn tiny_and_zero_numbers_pass_exactly() {
    let text =
        r#"{"temperature": 0, "integration_timestep": 2.2250738585072014e-308, "ewald_error_tolerance": 5e-324}"#;
    let job: workflow::types::JobCreateParams = molbox::from_json(text).unwrap();
    assert_eq!(job.temperature.unwrap().get(), 0.0);
    let again: workflow::types::JobCreateParams = molbox::from_json(&serde_json::to_string(&job).unwrap()).unwrap();
    assert_eq!(again.integration_timestep.unwrap().get(), f64::MIN_POSITIVE);
    assert_eq!(again.ewald_error_tolerance.unwrap().get(), 5e-324);
}
