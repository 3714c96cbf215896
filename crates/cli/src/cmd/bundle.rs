//! `molbox bundle`: results as they lie on this machine.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::bundle::{self, Bundle, CRATE};
use crate::context::Context;
use crate::failure::{Code, Failure};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Check each file of a bundle by its digest, the manifest and the research object.
    ///
    /// Names what is missing, changed, or there without being listed, and ends with status 14 then.
    Check {
        /// The zip that `molbox job download` has written, or its folder.
        #[arg(value_name = "BUNDLE")]
        bundle: PathBuf,
    },
    /// Add who made a bundle, and its licence, for a repository that publishes it.
    ///
    /// Example: molbox bundle publish job_….zip --author 'Ada Lovelace <0000-0002-1825-0097>'
    /// --license CC-BY-4.0
    // With the options that have to be there it is longer than a line.
    #[command(override_usage = "molbox bundle publish [OPTIONS] <BUNDLE>")]
    Publish(Publish),
}

#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// The zip that `molbox job download` has written, or its folder.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Author: a name, with an ORCID after it in angle brackets if there is one; once for each.
    #[arg(long = "author", value_name = "NAME", required = true, value_parser = Agent::person)]
    authors: Vec<Agent>,
    /// Where the authors work: a name, with an address after it in angle brackets if there is one, such as
    /// that of <https://ror.org>; once for each.
    #[arg(long = "affiliation", value_name = "NAME", value_parser = Agent::organization)]
    affiliations: Vec<Agent>,
    /// Licence: an identifier of SPDX, such as CC-BY-4.0 or CC0-1.0, or an address.
    #[arg(long, value_name = "LICENCE", value_parser = licence)]
    license: String,
    /// Who publishes it: a name, with an address after it in angle brackets if there is one.
    #[arg(long, value_name = "NAME", value_parser = Agent::organization)]
    publisher: Option<Agent>,
    /// Title. Default: the name of the task.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What it shows, in some sentences.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Zip to write. Default: the name of the bundle with `-published`. Of a folder the file
    /// `ro-crate-metadata.json` is replaced.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Somebody who has a part in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Agent {
    name: String,
    /// An address that names them and nobody else.
    id: Option<String>,
}

impl Agent {
    fn of(text: &str, address: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        let (name, id) = match text.strip_suffix('>').and_then(|text| text.split_once('<')) {
            Some((name, id)) => (name.trim(), Some(address(id.trim())?)),
            None => (text.trim(), None),
        };
        if name.is_empty() {
            return Err("a name is needed".to_owned());
        }
        Ok(Self { name: name.to_owned(), id })
    }

    fn person(text: &str) -> Result<Self, String> {
        Self::of(text, orcid)
    }

    fn organization(text: &str) -> Result<Self, String> {
        Self::of(text, address)
    }

    /// Its entity in a crate; `part` is what a bundle has it as, which names it where nothing else does.
    fn entity(&self, kind: &str, part: &str, nth: usize) -> Value {
        let local = || format!("#{part}-{nth}");
        let at = self.id.clone().unwrap_or_else(local);
        let mut entity = json!({"@id": at, "@type": kind, "name": self.name});
        if let Some(address) = &self.id {
            entity["url"] = json!(address);
        }
        entity
    }
}

/// An ORCID as an address; its last digit is a checksum of the others (ISO 7064, 11-2).
fn orcid(text: &str) -> Result<String, String> {
    let number = text.trim_start_matches("https://orcid.org/");
    let digits: Vec<char> = number.chars().filter(|c| *c != '-').collect();
    let (last, others) = digits.split_last().ok_or("an ORCID has 16 digits")?;
    let total = others.iter().try_fold(0, |total, digit| {
        let digit = digit.to_digit(10).ok_or_else(|| format!("{text:?} is no ORCID"))?;
        Ok::<_, String>((total + digit) * 2)
    })?;
    let check = match (12 - total % 11) % 11 {
        10 => 'X',
        digit => char::from_digit(digit, 10).unwrap_or('X'),
    };
    if digits.len() != 16 || check != *last {
        return Err(format!("{text:?} is no ORCID, for example 0000-0002-1825-0097"));
    }
    let parts: Vec<String> = digits.chunks(4).map(|part| part.iter().collect()).collect();
    Ok(format!("https://orcid.org/{}", parts.join("-")))
}

fn address(text: &str) -> Result<String, String> {
    match text.starts_with("https://") || text.starts_with("http://") {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no address, for example https://ror.org/05gq02987")),
    }
}

/// A licence as an address.
fn licence(text: &str) -> Result<String, String> {
    if let Ok(address) = address(text) {
        return Ok(address);
    }
    let is_identifier = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    match !text.is_empty() && text.chars().all(is_identifier) {
        true => Ok(format!("https://spdx.org/licenses/{text}")),
        false => Err("an identifier of SPDX, such as CC-BY-4.0, or an address".to_owned()),
    }
}

pub(crate) fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Check { bundle } => check(context, &bundle),
        Command::Publish(publish) => self::publish(context, &publish),
    }
}

fn check(context: &Context, path: &Path) -> Result<(), Failure> {
    let mut bundle = Bundle::open(path)?;
    let bar = context.output.bar("checking");
    let problems = bundle.check(|done, all| {
        bar.set_position((1000 * done / all.max(1)) as u64);
        bar.set_message(format!("file {done} of {all}"));
    });
    bar.finish_and_clear();
    let problems = problems?;
    let has_crate = bundle.has(CRATE);
    let n_files = bundle.names().count();
    if context.output.is_json() {
        context.output.json(&json!({
            "bundle": path,
            "files": n_files,
            "crate": has_crate,
            "problems": problems,
        }))?;
    } else if !problems.is_empty() {
        let rows: Vec<Value> = problems.iter().map(|problem| json!(problem)).collect();
        context.output.table(&[("FILE", "/file"), ("IS", "/kind"), ("WHY", "/detail")], &rows)?;
    }
    if !has_crate {
        context.output.note(&format!("it has no {CRATE}: a service of an earlier version made it"));
    }
    if problems.is_empty() {
        let are = if n_files == 1 { "file is as it was" } else { "files are as they were" };
        context.output.note(&format!("{n_files} {are} made"));
        return Ok(());
    }
    let things =
        if problems.len() == 1 { "1 thing is" } else { &format!("{} things are", problems.len()) };
    let message = format!("{}: {things} not as when it was made", path.display());
    Err(Failure::new(Code::Damaged, message)
        .remedy("download it again, with `molbox job download`"))
}

fn publish(context: &Context, arguments: &Publish) -> Result<(), Failure> {
    let mut bundle = Bundle::open(&arguments.bundle)?;
    if !bundle.has(CRATE) {
        let message = format!("{}: it has no {CRATE}", arguments.bundle.display());
        return Err(Failure::new(Code::File, message)
            .remedy("download it from a service of this version, with `molbox job download`"));
    }
    let mut content: Value = bundle.json(CRATE)?;
    describe(&mut content, arguments).ok_or_else(|| {
        let message = format!("{}: its {CRATE} has no root", arguments.bundle.display());
        Failure::new(Code::Damaged, message)
            .remedy("`molbox bundle check` names what else is wrong")
    })?;
    let to = match &arguments.output {
        _ if bundle.is_folder() => arguments.bundle.join(CRATE),
        Some(output) => output.clone(),
        None => {
            let stem = arguments.bundle.file_stem().and_then(|stem| stem.to_str());
            arguments.bundle.with_file_name(format!("{}-published.zip", stem.unwrap_or("bundle")))
        }
    };
    bundle::with_crate(&bundle, &content, &to)?;
    context.output.record(&json!({ "published": to }))
}

/// Writes who made it, and its licence, into a crate; none for one without a root.
fn describe(content: &mut Value, arguments: &Publish) -> Option<()> {
    let of = |agents: &[Agent], kind: &str, part: &str| -> Vec<Value> {
        (1..).zip(agents).map(|(nth, agent)| agent.entity(kind, part, nth)).collect()
    };
    let mut authors = of(&arguments.authors, "Person", "person");
    let affiliations = of(&arguments.affiliations, "Organization", "affiliation");
    let publisher = of(arguments.publisher.as_slice(), "Organization", "organization");
    if !affiliations.is_empty() {
        for author in &mut authors {
            author["affiliation"] = references(&affiliations);
        }
    }
    let by = references(&authors);
    let name = arguments.license.rsplit('/').find(|part| !part.is_empty())?.to_owned();
    let licence = json!({
        "@id": arguments.license,
        "@type": "CreativeWork",
        "name": name,
        "description": format!("The licence under which this may be used: {name}"),
    });
    let graph = content["@graph"].as_array_mut()?;
    // Of an earlier publication, too.
    let root = graph.iter().find(|entity| entity["@id"] == "./")?;
    let mut before = ["license", "author", "publisher"]
        .iter()
        .flat_map(|field| ids(&root[*field]))
        .collect::<Vec<_>>();
    let people = graph.iter().filter(|entity| before.contains(&entity["@id"]));
    let employers: Vec<Value> = people.flat_map(|person| ids(&person["affiliation"])).collect();
    before.extend(employers);
    graph.retain(|entity| !before.contains(&entity["@id"]));
    for entity in graph.iter_mut() {
        if entity["@type"] == "CreateAction" {
            entity["agent"] = by.clone();
        }
        if entity["@id"] == "./" {
            entity["license"] = reference(&licence);
            entity["author"] = by.clone();
            if let Some(root) = entity.as_object_mut() {
                root.remove("publisher");
            }
            if !publisher.is_empty() {
                entity["publisher"] = references(&publisher);
            }
            if let Some(title) = &arguments.title {
                entity["name"] = json!(title);
            }
            if let Some(description) = &arguments.description {
                entity["description"] = json!(description);
            }
        }
    }
    graph.push(licence);
    // A university may be where they work and publish it as well.
    for entity in [authors, affiliations, publisher].concat() {
        if !graph.iter().any(|there| there["@id"] == entity["@id"]) {
            graph.push(entity);
        }
    }
    Some(())
}

fn reference(entity: &Value) -> Value {
    json!({"@id": entity["@id"]})
}

/// References to all of them; the specification asks for a single one to stand alone.
fn references(entities: &[Value]) -> Value {
    match entities {
        [one] => reference(one),
        several => several.iter().map(reference).collect(),
    }
}

/// What one reference or a list of them names.
fn ids(references: &Value) -> Vec<Value> {
    match references {
        Value::Array(several) => several.iter().map(|one| one["@id"].clone()).collect(),
        one => vec![one["@id"].clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_has_an_orcid_whose_checksum_is_right() {
        let ada = Agent::person("Ada Lovelace <0000-0002-1825-0097>").unwrap();
        assert_eq!(ada.id.as_deref(), Some("https://orcid.org/0000-0002-1825-0097"));
        assert_eq!(
            Agent::person("Ada <https://orcid.org/0000-0002-1694-233X>").unwrap().name,
            "Ada"
        );
        for wrong in ["Ada <0000-0002-1825-0098>", "Ada <1825-0097>", "<0000-0002-1825-0097>", " "]
        {
            Agent::person(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_licence_is_an_identifier_or_an_address() {
        assert_eq!(licence("CC-BY-4.0").unwrap(), "https://spdx.org/licenses/CC-BY-4.0");
        assert_eq!(licence("https://example.org/terms").unwrap(), "https://example.org/terms");
        licence("free for all").unwrap_err();
    }
}
