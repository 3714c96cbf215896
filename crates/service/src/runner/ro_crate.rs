//! `ro-crate-metadata.json`: a bundle as a research object, for programs that index, archive and
//! repeat what others have calculated.
//!
//! RO-Crate 1.1 (<https://w3id.org/ro/crate/1.1>) by the profile Process Run Crate 0.5
//! (<https://w3id.org/ro/wfrun/process/0.5>), which is the one of Workflow Run RO-Crate for what
//! is not run from a workflow's file: a build and a simulation are an action each, with the
//! software, the files and parameters that went in and the files that came out. Who did it and
//! under which licence it may be used nobody has told the service; `molbox bundle publish` adds it.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::formats::Format;
use crate::objects::bundle::Measured;
use crate::runner::readme;

const SPECIFICATION: &str = "https://w3id.org/ro/crate/1.1";
const PROFILE: &str = "https://w3id.org/ro/wfrun/process/0.5";
/// Terms of Workflow Run RO-Crate, which the context of RO-Crate 1.1 lacks.
const TERMS: [(&str, &str); 2] = [
    ("resourceUsage", "https://w3id.org/ro/terms/workflow-run#resourceUsage"),
    ("sha256", "https://w3id.org/ro/terms/workflow-run#sha256"),
];

/// A bundle, to be described.
pub(super) struct Described<'a> {
    pub(super) id: &'a str,
    /// What its owner calls the task.
    pub(super) name: Option<&'a str>,
    /// The content of its manifest.
    pub(super) manifest: &'a Value,
    /// Of a job.
    pub(super) system: Option<&'a OfSystem>,
    /// How each stage of a job was run.
    pub(super) methods: &'a [Value],
    /// All files but this one.
    pub(super) files: &'a [Measured],
}

/// The manifest of a system, as far as its jobs' bundles repeat it; one of an earlier version lacks
/// some of it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OfSystem {
    pub(super) citations: Vec<String>,
    settings: Value,
    seed: Option<i64>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    molboxd: String,
    versions: BTreeMap<String, String>,
}

/// An action of a crate: what made files of files.
struct Action<'a> {
    /// Last part of its identifier: `build`.
    id: &'a str,
    name: String,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    status: &'a str,
    error: Option<&'a str>,
    molboxd: &'a str,
    versions: BTreeMap<String, String>,
    parameters: Vec<(String, Value)>,
    resources: Vec<(String, Value)>,
    inputs: Vec<&'a str>,
    outputs: Vec<&'a str>,
}

/// The crate of a bundle.
pub(super) fn of(bundle: &Described<'_>) -> Value {
    let mut graph = Graph::default();
    let files: Vec<&str> = bundle.files.iter().map(|file| within(bundle.id, &file.name)).collect();
    let actions = actions(bundle, &files);
    let manifest = bundle.manifest;
    let kind = manifest["kind"].as_str().unwrap_or_default();
    let title = match bundle.name {
        Some(name) => format!("{name} ({})", bundle.id),
        None => bundle.id.to_owned(),
    };
    let citations: Vec<&str> =
        manifest["citations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let cited: Vec<(String, &str)> = citations
        .iter()
        .flat_map(|citation| dois(citation).into_iter().map(move |doi| (doi, *citation)))
        .collect();
    graph.add(json!({
        "@id": readme::RO_CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": SPECIFICATION},
    }));
    graph.add(json!({
        "@id": "./",
        "@type": "Dataset",
        "name": title,
        "description": description(kind, bundle.methods),
        "identifier": bundle.id,
        "datePublished": manifest["finished_at"],
        "conformsTo": {"@id": PROFILE},
        "license": {"@id": "#licence"},
        "hasPart": refs(files.iter().copied()),
        "mentions": refs(actions.iter().map(|action| format!("#{}", action.id)).chain(["#document".to_owned()])),
        "citation": refs(cited.iter().map(|(doi, _)| doi)),
    }));
    graph.add(json!({
        "@id": PROFILE,
        "@type": "CreativeWork",
        "name": "Process Run Crate",
        "version": "0.5",
    }));
    graph.add(json!({
        "@id": "#licence",
        "@type": "CreativeWork",
        "name": "No licence was given",
        "description": "All rights are with those who did this; `molbox bundle publish` adds who that is, and a licence.",
    }));
    graph.add(json!({
        "@id": "#document",
        "@type": "CreativeWork",
        "name": "OpenAPI document of molbox, by which requests and records are read",
        "version": manifest["document"],
        "encodingFormat": "application/vnd.oai.openapi+json",
    }));
    for (doi, text) in cited {
        graph.add(json!({"@id": doi, "@type": "ScholarlyArticle", "name": text, "url": doi}));
    }
    for (file, name) in bundle.files.iter().zip(&files) {
        graph.add(json!({
            "@id": name,
            "@type": "File",
            "name": name,
            "description": Some(readme::meaning(name)).filter(|text| !text.is_empty()),
            "alternateName": uploaded_name(manifest, name),
            "contentSize": file.size_bytes.to_string(),
            "encodingFormat": media(name),
            "sha256": file.sha256,
        }));
    }
    actions.into_iter().for_each(|action| action.add_to(&mut graph));
    let terms: Map<String, Value> =
        TERMS.iter().map(|(term, of)| ((*term).to_owned(), json!(of))).collect();
    json!({"@context": [format!("{SPECIFICATION}/context"), terms], "@graph": graph.entities})
}

/// What was done, in the order in which it was.
fn actions<'a>(bundle: &'a Described<'a>, files: &[&'a str]) -> Vec<Action<'a>> {
    let manifest = bundle.manifest;
    let own = Action {
        id: match manifest["kind"].as_str() {
            Some("system") => "build",
            Some("job") => "simulation",
            _ => "analysis",
        },
        name: format!("{} {}", manifest["kind"].as_str().unwrap_or("task"), bundle.id),
        started_at: time(&manifest["started_at"]),
        finished_at: time(&manifest["finished_at"]),
        status: manifest["status"].as_str().unwrap_or_default(),
        error: manifest["error"]["message"].as_str(),
        molboxd: manifest["molboxd"].as_str().unwrap_or_default(),
        versions: serde_json::from_value(manifest["versions"].clone()).unwrap_or_default(),
        parameters: Vec::new(),
        resources: resources(manifest, bundle.methods),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    let is_described = |name: &&str| [readme::MANIFEST, readme::README].contains(name);
    let (inputs, outputs): (Vec<&str>, Vec<&str>) = files
        .iter()
        .copied()
        .filter(|name| !is_described(name) && !name.starts_with("system/"))
        .partition(|name| name.starts_with("input/"));
    let Some(system) = bundle.system else {
        let asked = match &manifest["settings"] {
            Value::Null => &manifest["parameters"],
            settings => settings,
        };
        let parameters = flat(asked, &manifest["seed"]);
        return vec![Action { parameters, inputs, outputs, ..own }];
    };
    let of_system = files.iter().copied().filter(|name| name.starts_with("system/"));
    let (given, built): (Vec<&str>, Vec<&str>) =
        of_system.partition(|name| name.starts_with("system/input/"));
    let build = Action {
        id: "build",
        name: format!("system {}", manifest["system"].as_str().unwrap_or_default()),
        started_at: system.started_at,
        finished_at: system.finished_at,
        status: "succeeded",
        error: None,
        molboxd: &system.molboxd,
        versions: system.versions.clone(),
        parameters: flat(&system.settings, &json!(system.seed)),
        resources: Vec::new(),
        inputs: given,
        outputs: built.clone(),
    };
    let parameters = flat(&manifest["parameters"], &manifest["seed"]);
    vec![build, Action { parameters, inputs: built, outputs, ..own }]
}

impl Action<'_> {
    fn add_to(self, graph: &mut Graph) {
        let Self { id, .. } = self;
        let programs: Vec<String> =
            self.versions.iter().map(|(name, version)| program(graph, name, version)).collect();
        let molboxd = address("molboxd", self.molboxd);
        graph.add(json!({
            "@id": molboxd,
            "@type": "SoftwareApplication",
            "name": "molboxd",
            "url": "https://pypi.org/project/molboxd/",
            "softwareVersion": self.molboxd,
            "softwareRequirements": refs(programs),
        }));
        let mut values = |kind: &str, values: Vec<(String, Value)>| -> Vec<String> {
            let named = values.into_iter().map(|(name, value)| {
                let at = format!("#{id}/{kind}/{}", name.replace(['[', ' '], "/").replace(']', ""));
                graph.add(json!({
                    "@id": at,
                    "@type": "PropertyValue",
                    "name": name,
                    "value": value,
                }));
                at
            });
            named.collect()
        };
        let parameters = values("parameter", self.parameters);
        let resources = values("resource", self.resources);
        let objects = self.inputs.into_iter().map(str::to_owned).chain(parameters);
        let ended = if self.status == "succeeded" { "Completed" } else { "Failed" };
        let is_error = self.status != "succeeded";
        graph.add(json!({
            "@id": format!("#{id}"),
            "@type": "CreateAction",
            "name": self.name,
            "description": done(id),
            "startTime": self.started_at.map(iso),
            "endTime": self.finished_at.map(iso),
            "actionStatus": format!("http://schema.org/{ended}ActionStatus"),
            "error": is_error.then(|| self.error.unwrap_or(self.status)),
            "instrument": {"@id": molboxd},
            "object": refs(objects),
            "result": refs(self.outputs),
            "resourceUsage": refs(resources),
        }));
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A time in the one form of ISO 8601 that the profile takes.
fn iso(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string()
}

/// What an action does, by its identifier.
fn done(id: &str) -> &'static str {
    match id {
        "build" => "Completes a structure, adds hydrogens, water and ions, and parametrises it.",
        "simulation" => {
            "Minimises the energy of a system, equilibrates it and simulates its molecular dynamics."
        }
        _ => "Makes tables of a trajectory.",
    }
}

/// Describes a program once; its identifier.
fn program(graph: &mut Graph, name: &str, version: &str) -> String {
    let at = address(name, version);
    let url = match name {
        "gromacs" => "https://www.gromacs.org/".to_owned(),
        "openmm" => "https://openmm.org/".to_owned(),
        other => format!("https://pypi.org/project/{other}/"),
    };
    graph.add(json!({
        "@id": at,
        "@type": "SoftwareApplication",
        "name": name,
        "url": url,
        "softwareVersion": version,
    }));
    at
}

/// Where a version of a program is published.
fn address(name: &str, version: &str) -> String {
    // A distribution's addition, as in `2022.5-Debian_2022.5-2`, is no part of the release.
    let release = version.split(['-', '+', ' ']).next().unwrap_or_default();
    match name {
        "gromacs" => format!("https://manual.gromacs.org/{release}/"),
        _ => format!("https://pypi.org/project/{name}/{release}/"),
    }
}

fn description(kind: &str, methods: &[Value]) -> String {
    // A stage that one of them cannot calculate is run by the other, also from its middle on.
    let parts = methods
        .iter()
        .flat_map(|method| method["before"].as_array().into_iter().flatten().chain([method]));
    let mut engines: Vec<&str> = parts.filter_map(|part| part["engine"]["name"].as_str()).collect();
    engines.sort_unstable();
    engines.dedup();
    let by = if engines.is_empty() { "" } else { " by " };
    match kind {
        "system" => "A molecular system, built to be simulated.".to_owned(),
        "job" => format!(
            "A molecular dynamics simulation{by}{}, with the system that it was run on and the files that this was built from.",
            engines.join(" and ")
        ),
        _ => "Tables of numbers from a trajectory of molecular dynamics.".to_owned(),
    }
}

/// Machine, threads and wall time of each stage.
fn resources(manifest: &Value, methods: &[Value]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for method in methods {
        let stage = method["stage"].as_str().unwrap_or_default();
        let machine = method["machine"].as_object().into_iter().flatten();
        all.extend(machine.map(|(name, value)| (format!("{stage} {name}"), value.clone())));
    }
    for stage in manifest["stages"].as_array().into_iter().flatten() {
        let name = stage["name"].as_str().unwrap_or_default();
        all.push((format!("{name} seconds"), stage["seconds"].clone()));
    }
    all
}

/// The fields of a request, those of its lists and objects by paths: `equilibration[0].time`.
fn flat(request: &Value, seed: &Value) -> Vec<(String, Value)> {
    fn flatten(at: &str, value: &Value, out: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let dot = if at.is_empty() { "" } else { "." };
                    flatten(&format!("{at}{dot}{name}"), member, out);
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(index, item)| flatten(&format!("{at}[{index}]"), item, out));
            }
            Value::Null => {}
            value => out.push((at.to_owned(), value.clone())),
        }
    }
    let mut all = Vec::new();
    flatten("", request, &mut all);
    if !seed.is_null() {
        all.retain(|(name, _)| name != "seed");
        all.push(("seed".to_owned(), seed.clone()));
    }
    all
}

/// What its owner calls the file of an input.
fn uploaded_name(manifest: &Value, name: &str) -> Option<String> {
    let file = name.strip_prefix("input/")?;
    let mut inputs = manifest["inputs"].as_array()?.iter();
    inputs.find(|input| input["file"] == file)?["name"].as_str().map(str::to_owned)
}

/// The identifiers of articles that a citation names, as addresses.
fn dois(citation: &str) -> Vec<String> {
    let parts = citation.split("doi:").skip(1);
    parts
        .map(|part| part.split([' ', ',', ';']).next().unwrap_or_default())
        .map(|doi| format!("https://doi.org/{}", doi.trim_end_matches('.')))
        .collect()
}

/// The name of a file within its bundle's folder.
fn within<'a>(id: &str, name: &'a str) -> &'a str {
    name.strip_prefix(id).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name)
}

fn media(name: &str) -> &'static str {
    let extension = name.rsplit('.').next().unwrap_or_default();
    match extension {
        "json" => "application/json",
        "csv" => "text/csv",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        "parquet" => "application/vnd.apache.parquet",
        other => Format::named(other).map_or("application/octet-stream", Format::media),
    }
}

/// References, as the specification asks for: one stands alone.
fn refs<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Value {
    let mut all: Vec<Value> = ids.into_iter().map(|id| json!({"@id": id.into()})).collect();
    match all.len() {
        0 => Value::Null,
        1 => all.remove(0),
        _ => Value::Array(all),
    }
}

/// The entities of a crate, each once, in the order in which they came.
#[derive(Default)]
struct Graph {
    entities: Vec<Value>,
    ids: HashSet<String>,
}

impl Graph {
    /// Adds an entity, without what is null, unless there is one of its identifier.
    fn add(&mut self, entity: Value) {
        if self.ids.insert(entity["@id"].to_string()) {
            let Value::Object(members) = entity else { return };
            let members = members.into_iter().filter(|(_, value)| !value.is_null()).collect();
            self.entities.push(Value::Object(members));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_their_paths_and_the_seed_that_was_drawn() {
        let request =
            json!({"seed": 1, "equilibration": [{"time": 0.5}], "note": null, "masks": ["@CA"]});
        let expected =
            [("equilibration[0].time", json!(0.5)), ("masks[0]", json!("@CA")), ("seed", json!(7))];
        assert_eq!(flat(&request, &json!(7)), expected.map(|(at, value)| (at.to_owned(), value)));
    }

    #[test]
    fn times_are_in_the_form_that_the_profile_takes() {
        let at = time(&json!("2026-11-25T15:00:00.123456789Z")).map(iso);
        assert_eq!(at.as_deref(), Some("2026-11-25T15:00:00.123+00:00"));
    }

    #[test]
    fn every_article_of_a_citation_is_named() {
        let citation = "A, Phys. 1, 2 (1995), doi:10.1016/0010-4655(95)00059-O; B, Lett. 3 (2004), doi:10.1/x.y";
        assert_eq!(
            dois(citation),
            ["https://doi.org/10.1016/0010-4655(95)00059-O", "https://doi.org/10.1/x.y"]
        );
    }

    #[test]
    fn a_release_is_found_by_its_number_alone() {
        assert_eq!(
            address("gromacs", "2022.5-Debian_2022.5-2"),
            "https://manual.gromacs.org/2022.5/"
        );
        assert_eq!(address("openmm", "8.6.1"), "https://pypi.org/project/openmm/8.6.1/");
    }
}
