//! What the research object of a bundle repeats of its manifests. Publishing a bundle changes none
//! of it, so that whatever differs was edited.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

/// The manifest of a bundle, whose facts a research object repeats.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The manifest of the system that a job was run on.
pub(crate) const OF_SYSTEM: &str = "system/manifest.json";

/// The entities of a research object, by their identifiers.
pub(crate) type Entities<'a> = BTreeMap<&'a str, &'a Value>;

/// What a research object has otherwise than the manifest of the task, and that of the system of a
/// job: a sentence for each.
pub(crate) fn changed(
    entities: &Entities<'_>,
    manifest: &Value,
    system: Option<&Value>,
) -> Vec<String> {
    let root = entity(entities, "./");
    let document = entity(entities, "#document");
    let mut facts = vec![
        Fact::new("identifier", &root["identifier"], &manifest["id"], MANIFEST),
        Fact::new("datePublished", &root["datePublished"], &manifest["finished_at"], MANIFEST),
        Fact::new("version of #document", &document["version"], &manifest["document"], MANIFEST),
    ];
    let own = match manifest["kind"].as_str() {
        Some("system") => "build",
        Some("job") => "simulation",
        _ => "analysis",
    };
    facts.extend(action(entities, own, manifest, MANIFEST));
    facts.extend(system.into_iter().flat_map(|of| action(entities, "build", of, OF_SYSTEM)));
    let cited = cited(manifest);
    let articles = of_type(entities, "ScholarlyArticle");
    let articles = articles.map(|(id, article)| (id.to_owned(), article["name"].clone()));
    facts.extend(each("citation", &articles.collect(), &cited, MANIFEST));
    let referred: BTreeSet<&str> = ids(&root["citation"]).collect();
    let mut all: Vec<String> = facts.iter().filter_map(Fact::changed).collect();
    if !referred.iter().copied().eq(cited.keys().map(String::as_str)) {
        all.push(format!("its root cites other articles than {MANIFEST}"));
    }
    all.extend(programs(entities, manifest, system));
    all
}

/// Something that both have.
struct Fact {
    what: String,
    found: Value,
    wanted: Value,
    by: &'static str,
}

impl Fact {
    fn new(what: impl Into<String>, found: &Value, wanted: &Value, by: &'static str) -> Self {
        Self { what: what.into(), found: found.clone(), wanted: wanted.clone(), by }
    }

    fn changed(&self) -> Option<String> {
        let Self { what, found, wanted, by } = self;
        (found != wanted).then(|| format!("its {what} is {found}, {wanted} by {by}"))
    }
}

/// Facts of the same kind by their names, those of either.
fn each(
    what: &str,
    found: &BTreeMap<String, Value>,
    wanted: &BTreeMap<String, Value>,
    by: &'static str,
) -> Vec<Fact> {
    let names: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let fact = |name: &String| {
        let [found, wanted] = [found, wanted].map(|all| all.get(name).unwrap_or(&Value::Null));
        Fact::new(format!("{what} {name}"), found, wanted, by)
    };
    names.into_iter().map(fact).collect()
}

/// What was done, when, and with which parameters.
fn action(entities: &Entities<'_>, id: &str, manifest: &Value, by: &'static str) -> Vec<Fact> {
    let action = entity(entities, &format!("#{id}"));
    let mut facts = Vec::new();
    for (here, there) in [("startTime", "started_at"), ("endTime", "finished_at")] {
        let times = [&action[here], &manifest[there]].map(milliseconds);
        facts.push(Fact::new(format!("{here} of #{id}"), &times[0], &times[1], by));
    }
    let is_done = |word: bool| Value::from(if word { "completed" } else { "failed" });
    let status = action["actionStatus"].as_str().unwrap_or_default();
    facts.push(Fact::new(
        format!("status of #{id}"),
        &is_done(status.ends_with("/CompletedActionStatus")),
        &is_done(manifest["status"] == "succeeded"),
        by,
    ));
    let prefix = format!("#{id}/parameter/");
    let parameters = ids(&action["object"]).filter(|of| of.starts_with(&prefix));
    let parameters = parameters
        .map(|of| entity(entities, of))
        .map(|it| (it["name"].as_str().unwrap_or_default().to_owned(), it["value"].clone()));
    let asked = match &manifest["settings"] {
        Value::Null => &manifest["parameters"],
        settings => settings,
    };
    let mut wanted = BTreeMap::new();
    // That of a job's system has its settings alone in the research object.
    if by == MANIFEST || !manifest["settings"].is_null() {
        flatten("", asked, &mut wanted);
    }
    if !manifest["seed"].is_null() {
        wanted.insert("seed".to_owned(), manifest["seed"].clone());
    }
    facts.extend(each(&format!("parameter of #{id}:"), &parameters.collect(), &wanted, by));
    facts
}

/// Programs that the manifests do not name in that version, and those that the research object
/// lacks. One whose release two manifests share it has once.
fn programs(entities: &Entities<'_>, manifest: &Value, system: Option<&Value>) -> Vec<String> {
    let mut wanted = BTreeSet::new();
    for of in [Some(manifest), system].into_iter().flatten() {
        let versions = of["versions"].as_object().into_iter().flatten();
        let versions = versions.map(|(name, version)| (name.as_str(), version.as_str()));
        wanted.extend(versions.chain([("molboxd", of["molboxd"].as_str())]));
    }
    let found: BTreeSet<(&str, Option<&str>)> = of_type(entities, "SoftwareApplication")
        .map(|(_, it)| (it["name"].as_str().unwrap_or_default(), it["softwareVersion"].as_str()))
        .collect();
    let surplus = found.difference(&wanted).map(|(name, version)| {
        format!("its {name} is {}, which no manifest names", version.unwrap_or("of no version"))
    });
    let names: BTreeSet<&str> = found.iter().map(|(name, _)| *name).collect();
    let lost = wanted.iter().filter(|(name, _)| !names.contains(name));
    let lost = lost.map(|(name, _)| format!("it lacks {name}, which a manifest names"));
    surplus.chain(lost).collect()
}

/// The articles of a manifest, by their identifiers as addresses.
fn cited(manifest: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for citation in manifest["citations"].as_array().into_iter().flatten() {
        for part in citation.as_str().unwrap_or_default().split("doi:").skip(1) {
            let doi = part.split([' ', ',', ';']).next().unwrap_or_default();
            let address = format!("https://doi.org/{}", doi.trim_end_matches('.'));
            all.entry(address).or_insert_with(|| citation.clone());
        }
    }
    all
}

/// The fields of a request, those of its lists and objects by paths: `equilibration[0].time`.
fn flatten(at: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
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
        value => drop(out.insert(at.to_owned(), value.clone())),
    }
}

fn entity<'a>(entities: &Entities<'a>, id: &str) -> &'a Value {
    entities.get(id).copied().unwrap_or(&Value::Null)
}

fn of_type<'a>(
    entities: &Entities<'a>,
    kind: &'static str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let all: Vec<_> = entities.iter().map(|(id, entity)| (*id, *entity)).collect();
    all.into_iter().filter(move |(_, entity)| entity["@type"] == kind)
}

/// What one reference or a list of them names.
fn ids(references: &Value) -> impl Iterator<Item = &str> {
    let one = Some(references).filter(|it| it.is_object());
    let several = references.as_array().into_iter().flatten();
    one.into_iter().chain(several).filter_map(|it| it["@id"].as_str())
}

/// A time as a number: both have it in forms of their own.
fn milliseconds(time: &Value) -> Value {
    let time = time.as_str().and_then(|time| time.parse::<Timestamp>().ok());
    time.map(Timestamp::as_millisecond).into()
}
