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

    /// Its entity in a crate.
    fn entity(&self, kind: &str, nth: usize) -> Value {
        let local = || format!("#{}-{nth}", kind.to_lowercase());
        json!({"@id": self.id.clone().unwrap_or_else(local), "@type": kind, "name": self.name})
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
        context.output.note(&format!("{n_files} files are as they were made"));
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
    let authors: Vec<Value> =
        (1..).zip(&arguments.authors).map(|(nth, author)| author.entity("Person", nth)).collect();
    let publisher = arguments.publisher.as_ref().map(|one| one.entity("Organization", 1));
    let reference = |entity: &Value| json!({"@id": entity["@id"]});
    let all: Vec<Value> = authors.iter().map(reference).collect();
    // The specification asks for a single one to stand alone.
    let by = if let [one] = all.as_slice() { one.clone() } else { Value::Array(all) };
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
    let before: Vec<Value> = ["license", "author", "publisher"]
        .iter()
        .flat_map(|field| match &root[*field] {
            Value::Array(items) => items.clone(),
            one => vec![one.clone()],
        })
        .map(|reference| reference["@id"].clone())
        .collect();
    graph.retain(|entity| !before.contains(&entity["@id"]));
    for entity in graph.iter_mut() {
        if entity["@type"] == "CreateAction" {
            entity["agent"] = by.clone();
        }
        if entity["@id"] == "./" {
            entity["license"] = reference(&licence);
            entity["author"] = by.clone();
            if let Some(publisher) = &publisher {
                entity["publisher"] = reference(publisher);
            }
            if let Some(title) = &arguments.title {
                entity["name"] = json!(title);
            }
            if let Some(description) = &arguments.description {
                entity["description"] = json!(description);
            }
        }
    }
    graph.extend(authors);
    graph.extend(publisher);
    graph.push(licence);
    Some(())
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
