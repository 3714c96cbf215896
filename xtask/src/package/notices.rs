//! What the licences of others ask for where their work is in our programs: that their texts go with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell::{cargo, output, root};

/// The packages that our programs are.
const OURS: [&str; 2] = ["molbox-cli", "molbox-service"];
/// How files are called that have such a text.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Texts that name no author: that of another crate will do where one has left it out.
const SHARED: [&str; 2] = ["Apache-2.0", "MPL-2.0"];

/// Names, licences and texts of all that is compiled into our programs for this platform.
pub fn notices() -> Result<String> {
    let mut list = String::from(
        "The programs of molbox contain work of others, whose licences are below. The sources of the \
         crates, with which the programs can be built anew, are on https://crates.io.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in compiled_in()? {
        let [name, version, manifest] = ["name", "version", "manifest_path"]
            .map(|key| package[key].as_str().unwrap_or_default().to_owned());
        let name = format!("{name} {version}");
        let licence = package["license"].as_str().unwrap_or("see below");
        list += &format!("{name}: {licence}\n");
        let folder = Path::new(&manifest).parent().context("a manifest lies in a folder")?;
        let found = texts_in(folder)?;
        ensure!(
            !found.is_empty() || SHARED.iter().any(|shared| licence.contains(shared)),
            "{name} has no text of its licence, {licence}, beside its manifest"
        );
        found.into_iter().for_each(|text| texts.entry(text).or_default().push(name.clone()));
    }
    list += "DejaVu Sans\n";
    for text in texts_in(&root().join("crates/plot/fonts"))? {
        texts.entry(text).or_default().push("DejaVu Sans".to_owned());
    }
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        list += &format!("\n{}\n{}:\n\n{text}\n", "=".repeat(72), names.join(", "));
    }
    Ok(list)
}

/// The packages of others that our programs are linked with, as cargo describes them, by name.
fn compiled_in() -> Result<Vec<Value>> {
    let said = String::from_utf8(output(Command::new("rustc").arg("-vV"))?)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc's host")?;
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", host]);
    let metadata: Value = serde_json::from_slice(&output(&mut command)?)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let ours = packages.iter().filter(|package| OURS.iter().any(|name| package["name"] == *name));
    let mut left: Vec<String> = ours.map(|package| id(&package["id"])).collect();
    let needs: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            // What only builds or tests is in no program.
            let is_linked =
                |need: &Value| list(&need["dep_kinds"]).iter().any(|k| k["kind"].is_null());
            let linked = list(&node["deps"]).into_iter().filter(is_linked);
            (id(&node["id"]), linked.map(|need| id(&need["pkg"])).collect())
        })
        .collect();
    let mut found = BTreeSet::new();
    while let Some(next) = left.pop() {
        if found.insert(next.clone()) {
            left.extend(needs.get(&next).into_iter().flatten().cloned());
        }
    }
    let is_of_others = |p: &Value| found.contains(&id(&p["id"])) && !p["source"].is_null();
    let mut of_others: Vec<Value> = packages.into_iter().filter(is_of_others).collect();
    of_others.sort_by_key(|package| id(&package["name"]));
    Ok(of_others)
}

/// The texts of licences in a folder, in the order of their files.
fn texts_in(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    let texts = files.into_iter().map(|path| {
        let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        let lines: Vec<&str> = text.trim_matches('\n').lines().map(str::trim_end).collect();
        Ok(lines.join("\n"))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::notices;

    #[test]
    fn packages_have_the_licences_of_all_that_is_in_the_programs() {
        let notices = notices().unwrap();
        for words in [
            // The font of figures, and of crates one for each kind of licence that asks for its text.
            "Bitstream Vera",
            "rustls-webpki ",
            "UNICODE LICENSE V3",
            "Mozilla Public License",
            "Redistributions in binary form must reproduce",
        ] {
            assert!(notices.contains(words), "{words} is missing");
        }
        // What only tests and tools of ours need is in no program.
        assert!(!notices.contains("\npublic-api "));
        assert!(!notices.contains("\nmolbox-"));
    }
}
