//! `cargo xtask spec diff`: what changed, and whether the version says so.

use anyhow::Result;
use serde_json::{Value, json};

use super::compare::compare;
use super::finding::{Finding, Verdict};
use super::shape::Api;

/// What a comparison comes to.
pub struct Report {
    pub findings: Vec<Finding>,
    versions: (String, String),
}

/// How far a version goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bump {
    Less,
    Same,
    Patch,
    Minor,
    Major,
}

impl Report {
    pub fn new(old: &Api, new: &Api) -> Self {
        let version = |api: &Api| api.value["info"]["version"].as_str().unwrap_or_default().to_owned();
        Self { findings: compare(old, new), versions: (version(old), version(new)) }
    }

    pub fn verdict(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.verdict).max()
    }

    /// The same for code that uses a generated client.
    pub fn code(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.code).max()
    }

    /// Whether the version went up far enough for what changed on the wire.
    pub fn is_announced(&self) -> bool {
        if self.verdict() != Some(Verdict::Breaking) {
            return true;
        }
        let (Some(old), Some(new)) = (numbers(&self.versions.0), numbers(&self.versions.1)) else { return false };
        let needed = if old[0] == 0 { Bump::Minor } else { Bump::Major };
        bump(old, new) >= needed
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    pub fn json(&self) -> Value {
        json!({
            "verdict": self.verdict().map_or("none", Verdict::name),
            "generated_code": self.code().map_or("none", Verdict::name),
            "old_version": self.versions.0,
            "new_version": self.versions.1,
            "announced": self.is_announced(),
            "counts": {
                "breaking": self.count(Verdict::Breaking),
                "compatible": self.count(Verdict::Compatible),
                "cosmetic": self.count(Verdict::Cosmetic),
            },
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }

    /// The report for people; what is cosmetic is only counted unless `all` is wanted.
    pub fn text(&self, all: bool) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            if finding.verdict == Verdict::Cosmetic && finding.code != Verdict::Breaking && !all {
                continue;
            }
            let direction = finding.direction.map_or(String::new(), |direction| format!(" in a {}", direction.name()));
            let code = match (finding.verdict, finding.code) {
                (Verdict::Breaking, _) | (_, Verdict::Cosmetic | Verdict::Compatible) => "",
                (_, Verdict::Breaking) => " (breaks code that uses a generated client)",
            };
            let verdict = finding.verdict.name();
            text += &format!("{verdict:<10} {}: {}{direction}{code} [{}]\n", finding.at, finding.message, finding.rule);
            text += &match finding.operations.as_slice() {
                [] => String::new(),
                [one] => format!("           {one}\n"),
                [first, rest @ ..] => format!("           {first} and {} more\n", rest.len()),
            };
        }
        let counts = [Verdict::Breaking, Verdict::Compatible, Verdict::Cosmetic];
        let counts = counts.map(|verdict| format!("{} {}", self.count(verdict), verdict.name()));
        text += &format!("{}; version {} -> {}\n", counts.join(", "), self.versions.0, self.versions.1);
        if !self.is_announced() {
            text += &format!("a breaking change needs a new {} version: raise info.version\n", self.needed());
        }
        text
    }

    fn needed(&self) -> &'static str {
        if self.versions.0.starts_with("0.") { "minor" } else { "major" }
    }
}

/// The three numbers of a version; what follows a hyphen is of no account.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.trim_start_matches('v').split(['-', '+']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse().ok());
    let out = [parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?];
    Some(out)
}

fn bump(old: [u64; 3], new: [u64; 3]) -> Bump {
    match new.cmp(&old) {
        std::cmp::Ordering::Less => Bump::Less,
        std::cmp::Ordering::Equal => Bump::Same,
        std::cmp::Ordering::Greater if new[0] > old[0] => Bump::Major,
        std::cmp::Ordering::Greater if new[1] > old[1] => Bump::Minor,
        std::cmp::Ordering::Greater => Bump::Patch,
    }
}

/// Compares, prints, and returns the exit code: 0, or 3 for a breaking change that the version does
/// not announce.
pub fn diff(old: &Api, new: &Api, json: bool, all: bool) -> Result<u8> {
    let report = Report::new(old, new);
    crate::print(&if json { serde_json::to_string_pretty(&report.json())? + "\n" } else { report.text(all) })?;
    Ok(if report.is_announced() { 0 } else { 3 })
}
