//! The document against an earlier one: that of the last commit, and that of the last release.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use openapi_drift::{Api, Direction, Effect, Finding, Report, Rust, Verdict, at_revision};

use super::interface::pointer;
use super::published::{Address, published};
use super::source::{PATH, WITH_EXAMPLES};

/// Where the released documents lie: `<version>.json`, each a copy of `openapi/openapi.json` as it
/// was then. They are in the repository because shallow clones and archives have no tags.
pub const RELEASED: &str = "openapi/released";

/// Where the document has the number of our release; `info.version` is the interface's.
pub const RELEASE: &str = "/info/x-release";

/// The document that the working tree's is held against, and what it is.
pub fn last_commit(root: &Path) -> Result<(String, Api)> {
    // In an archive without git the derived copy is as old as the last commit.
    if let Ok(text) = at_revision(root, &format!("HEAD:{PATH}")) {
        return Ok(("the last commit".to_owned(), Api::parse(&text)?));
    }
    let path = root.join(WITH_EXAMPLES);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok((WITH_EXAMPLES.to_owned(), Api::parse(&text)?))
}

/// The document of the newest release, with its version; none before the first.
pub fn last_release(root: &Path) -> Result<Option<(String, Api)>> {
    let folder = root.join(RELEASED);
    if !folder.exists() {
        return Ok(None);
    }
    let mut newest: Option<([u64; 3], PathBuf)> = None;
    for entry in fs::read_dir(&folder).with_context(|| format!("read {RELEASED}"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(version) = name.strip_suffix(".json").and_then(numbers) else {
            bail!("{RELEASED}/{name}: not a <version>.json such as 0.1.0.json");
        };
        if newest.as_ref().is_none_or(|(other, _)| version > *other) {
            newest = Some((version, path));
        }
    }
    let Some((numbers, path)) = newest else { return Ok(None) };
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let api = Api::parse(&text).with_context(|| format!("read {}", path.display()))?;
    let version = numbers.map(|number| number.to_string()).join(".");
    if api.value.pointer(RELEASE).is_none_or(|stated| *stated != version) {
        bail!("{}: its {RELEASE} is not {version}", path.display());
    }
    Ok(Some((version, api)))
}

/// Three numbers with points between them.
pub fn numbers(version: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Both documents compared, with the Rust of both, and our releases as their versions; and what
/// breaks clients that were generated from the documents of the two addresses alone.
pub fn report(old: &Api, new: &Api) -> Report {
    let mut report = Report::with_rust(old, new).with_version_at(old, new, RELEASE);
    // Those of others have no such documents.
    if [old, new].iter().any(|api| api.value.pointer(RELEASE).is_none()) {
        return report;
    }
    for address in Address::BOTH {
        let [old, new] = [old, new].map(|api| Api::new(published(&api.value, address)));
        for mut finding in Report::new(&old, &new).findings {
            let is_known = report.findings.iter().any(|known| is_same(known, &finding));
            if finding.verdict == Verdict::Breaking && !is_known {
                finding.message += &format!(" ({})", address.file());
                report.findings.push(finding);
            }
        }
    }
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    report
}

/// Whether a change that is known says the same for all operations of the other.
fn is_same(known: &Finding, other: &Finding) -> bool {
    (&known.at, known.rule, known.direction, known.verdict)
        == (&other.at, other.rule, other.direction, other.verdict)
        && other.operations.iter().all(|operation| known.operations.contains(operation))
}

/// What somebody has to want: it breaks clients, or demands less of requests than before. JSON
/// pointers and messages.
pub fn loosened(report: &Report, new: &Api) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = report
        .findings
        .iter()
        .filter_map(|finding| {
            let what = meaning(finding)?;
            let direction =
                finding.direction.map_or(String::new(), |way| format!(" in a {}", way.name()));
            let operation =
                finding.operations.first().map_or(String::new(), |name| format!(" ({name})"));
            let message =
                format!("{}{operation}: {}{direction}: {what}", finding.at, finding.message);
            Some((pointer(new, finding), message))
        })
        .collect();
    match &report.rust {
        Rust::Compared(changes) => {
            let breaking = changes.iter().filter(|change| change.verdict == Verdict::Breaking);
            out.extend(breaking.map(|change| {
                let message = format!(
                    "{}: {}: breaks code that uses the Rust client",
                    change.item, change.message
                );
                (String::new(), message)
            }));
        }
        Rust::Unknown(reason) => {
            out.push((String::new(), format!("the verdict for Rust is unknown: {reason}")))
        }
        Rust::NotCompared => {}
    }
    out
}

/// What the change means; none when it needs no decision.
fn meaning(finding: &Finding) -> Option<&'static str> {
    let is_addition = ["operation-added", "parameter-added", "property-added", "response-added"]
        .contains(&finding.rule);
    let is_wider =
        finding.effect == Some(Effect::Wider) && finding.direction == Some(Direction::Request);
    Some(match (finding.verdict, finding.rule) {
        (Verdict::Breaking, _) => "breaks clients",
        _ if is_addition => return None,
        (_, "security") => "opens the operation",
        (_, "response-removed") => "clients no longer learn of it",
        (_, "media-type-added") => "the service must do it",
        (_, "enum" | "x-values") if is_wider => "the service must do what is new",
        _ if is_wider => "demands less than before",
        _ if finding.code == Verdict::Breaking => "breaks code that uses a generated client",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::{RELEASED, last_commit, last_release, report};
    use crate::spec::diff_release;
    use openapi_drift::{Api, Verdict};

    /// A folder in the place of the repository, with these released documents.
    fn folder(released: &[(&str, &str)]) -> TempDir {
        let folder = TempDir::new().unwrap();
        for (file, release) in released {
            write(folder.path(), file, &document(release));
        }
        folder
    }

    fn write(root: &Path, file: &str, document: &Value) {
        fs::create_dir_all(root.join(RELEASED)).unwrap();
        fs::write(root.join(RELEASED).join(file), document.to_string()).unwrap();
    }

    fn document(release: &str) -> Value {
        let mut document = crate::regenerate::document().unwrap().value;
        document["info"]["x-release"] = json!(release);
        document
    }

    #[test]
    fn the_newest_release_is_that_of_the_highest_version() {
        let folder = folder(&[
            ("0.9.0.json", "0.9.0"),
            ("0.10.0.json", "0.10.0"),
            ("0.2.11.json", "0.2.11"),
        ]);
        assert_eq!(last_release(folder.path()).unwrap().unwrap().0, "0.10.0");
    }

    #[test]
    fn without_a_release_nothing_is_compared() {
        for released in [None, Some(())] {
            let folder = TempDir::new().unwrap();
            if released.is_some() {
                fs::create_dir_all(folder.path().join(RELEASED)).unwrap();
            }
            assert!(last_release(folder.path()).unwrap().is_none());
            assert_eq!(
                diff_release(folder.path(), &Api::new(document("0.1.0")), true, false).unwrap(),
                0
            );
        }
    }

    #[test]
    fn a_released_document_has_the_version_of_its_name() {
        for (file, release, words) in [
            ("0.1.0.json", "0.2.0", "is not 0.1.0"),
            ("latest.json", "0.1.0", "not a <version>.json"),
            ("0.1.json", "0.1.0", "not a <version>.json"),
        ] {
            let error = last_release(folder(&[(file, release)]).path()).err().unwrap();
            assert!(format!("{error:#}").contains(words), "{file}: {error:#}");
        }
    }

    #[test]
    fn a_break_since_the_release_needs_a_release_that_says_so() {
        let folder = folder(&[("0.1.0.json", "0.1.0")]);
        let code = |release: &str, change: fn(&mut Value)| {
            let mut new = document(release);
            change(&mut new);
            diff_release(folder.path(), &Api::new(new), true, false).unwrap()
        };
        let on_the_wire: fn(&mut Value) =
            |new| drop(new["paths"].as_object_mut().unwrap().remove("/info/jobs"));
        // The wire is as it was, and the type of a field is another.
        let in_rust: fn(&mut Value) = |new| {
            let field =
                &mut new["components"]["schemas"]["AnalysisRequest"]["properties"]["hbond_angle"];
            field["nullable"] = json!(true);
            new["components"]["schemas"]["JobExtension"]["properties"]["time"]["exclusiveMinimum"] =
                json!(false);
        };
        for change in [on_the_wire, in_rust] {
            assert_eq!(code("0.1.0", change), 3);
            assert_eq!(code("0.1.1", change), 3);
            assert_eq!(code("0.2.0", change), 0);
            assert_eq!(code("1.0.0", change), 0);
        }
        // The interface's own number announces nothing.
        assert_eq!(
            code("0.1.0", |new| {
                new["paths"].as_object_mut().unwrap().remove("/info/jobs");
                new["info"]["version"] = json!("0.2.0");
            }),
            3
        );
        assert_eq!(code("0.1.0", |_| {}), 0);
    }

    #[test]
    fn what_breaks_clients_of_the_document_of_an_address_alone_is_a_break() {
        // JSON comes unasked, and so from now on only when it is asked for.
        let margin = "/paths/~1margin~1submit_job~1historical~1{data_format}/post";
        let at = format!("{margin}/responses/200/content");
        let mut old = document("0.1.0");
        let content = old.pointer_mut(&at).unwrap().as_object_mut().unwrap();
        let csv = content.shift_remove("text/csv").unwrap();
        content.insert("text/csv".to_owned(), csv);
        let report = report(&Api::new(old), &Api::new(document("0.1.0")));
        let breaks: Vec<&str> = report
            .findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Breaking)
            .map(|finding| finding.message.as_str())
            .collect();
        assert_eq!(breaks, ["is now required (openapi/openapi-margin.json)"]);
    }

    #[test]
    fn an_archive_without_git_has_its_derived_copy_for_the_last_commit() {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("openapi")).unwrap();
        fs::write(folder.path().join("openapi/openapi.json"), document("0.1.0").to_string())
            .unwrap();
        assert_eq!(last_commit(folder.path()).unwrap().0, "openapi/openapi.json");
    }
}
