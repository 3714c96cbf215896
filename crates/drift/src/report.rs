//! What a comparison comes to, for people and for machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::compare::compare;
use crate::finding::{Finding, Rust, Verdict};
use crate::languages::Language;
use crate::shape::Api;

/// Everything that changed between two documents.
#[derive(Debug)]
pub struct Report {
    /// On the wire and in clients of other languages, the worst first.
    pub findings: Vec<Finding>,
    /// In the Rust that is generated of both.
    pub rust: Rust,
    level: Level,
    versions: [String; 2],
}

/// Who counts when something breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Clients that were made before the change.
    Wire,
    /// The same, and code that uses the generated Rust.
    Rust,
    /// Both, and code that uses a client of another generator.
    Any,
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
    /// Compares the documents, but not the Rust that is generated of them.
    pub fn new(old: &Api, new: &Api) -> Self {
        let report = Self {
            findings: compare(old, new),
            rust: Rust::NotCompared,
            level: Level::Wire,
            versions: Default::default(),
        };
        report.with_version_at(old, new, "/info/version")
    }

    /// The same, and the Rust that is generated of both, whose users count from then on.
    #[cfg(feature = "rust")]
    pub fn with_rust(old: &Api, new: &Api) -> Self {
        let rust = crate::rust::compare(old, new);
        Self { rust, level: Level::Rust, ..Self::new(old, new) }
    }

    /// Takes these for those who count when something breaks.
    #[must_use]
    pub fn at_level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Takes the versions from another place than `/info/version`, where the documents have it.
    #[must_use]
    pub fn with_version_at(mut self, old: &Api, new: &Api, pointer: &str) -> Self {
        self.versions = [old, new].map(|api| {
            let version = api.value.pointer(pointer).unwrap_or(&api.value["info"]["version"]);
            version.as_str().unwrap_or_default().to_owned()
        });
        self
    }

    /// What the change means to clients that were made before it; none when nothing changed.
    pub fn wire(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.verdict).max()
    }

    /// What it means to code that uses a generated Rust client, once that is generated anew; none
    /// when nothing changed.
    ///
    /// # Errors
    ///
    /// Why it is unknown.
    pub fn rust(&self) -> Result<Option<Verdict>, &str> {
        match &self.rust {
            Rust::NotCompared => Err("not compared"),
            Rust::Unknown(reason) => Err(reason),
            Rust::Compared(changes) => {
                // A value that is refused from now on compiles all the same.
                let wire = self.wire().map(|verdict| verdict.min(Verdict::Compatible));
                Ok(changes.iter().map(|change| change.verdict).max().max(wire))
            }
        }
    }

    /// The same for clients of other generators, in any language; none when nothing changed.
    pub fn others(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.code).max()
    }

    /// The same for one language.
    pub fn language(&self, language: Language) -> Option<Verdict> {
        let verdicts = self.findings.iter().map(|finding| {
            if finding.languages().contains(&language) {
                Verdict::Breaking
            } else {
                finding.code.min(Verdict::Compatible)
            }
        });
        verdicts.max()
    }

    /// Whether something breaks for those who count.
    ///
    /// # Errors
    ///
    /// Why it is unknown, when users of Rust count and nothing else breaks.
    pub fn is_broken(&self) -> Result<bool, &str> {
        let breaking = Some(Verdict::Breaking);
        if self.wire() == breaking || self.level == Level::Any && self.others() == breaking {
            return Ok(true);
        }
        Ok(self.level >= Level::Rust && self.rust()? == breaking)
    }

    /// Whether the version went up far enough for what breaks, or may break, for those who count.
    pub fn is_announced(&self) -> bool {
        if self.is_broken() == Ok(false) {
            return true;
        }
        let [old, new] = &self.versions;
        let (Some(old), Some(new)) = (numbers(old), numbers(new)) else { return false };
        let needed = if old[0] == 0 { Bump::Minor } else { Bump::Major };
        bump(old, new) >= needed
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// The report for machines; the README describes it.
    pub fn json(&self) -> Value {
        let mut generated = Map::new();
        generated.insert("rust".to_owned(), self.rust().map_or("unknown", name_or_none).into());
        generated.insert("others".to_owned(), name_or_none(self.others()).into());
        for language in Language::ALL {
            let name = name_or_none(self.language(language));
            generated.insert(language.name().to_owned(), name.into());
        }
        let changes = match &self.rust {
            Rust::Compared(changes) => changes.as_slice(),
            _ => &[],
        };
        let changes = changes
            .iter()
            .map(|change| json!({"verdict": change.verdict.name(), "item": change.item, "message": change.message}));
        json!({
            "verdict": name_or_none(self.wire()),
            "generated_code": generated,
            "rust_unknown": self.rust().err(),
            "old_version": self.versions[0],
            "new_version": self.versions[1],
            "announced": self.is_announced(),
            "counts": {
                "breaking": self.count(Verdict::Breaking),
                "compatible": self.count(Verdict::Compatible),
                "cosmetic": self.count(Verdict::Cosmetic),
            },
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
            "rust_changes": changes.collect::<Vec<_>>(),
        })
    }

    /// The report for people; what is cosmetic is only counted unless `all` is wanted.
    pub fn text(&self, all: bool) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            if finding.verdict != Verdict::Cosmetic || finding.code == Verdict::Breaking || all {
                text += &shown(finding);
            }
        }
        if let Rust::Compared(changes) = &self.rust {
            for change in changes {
                let verdict = change.verdict.name();
                writeln!(text, "{verdict:<10} Rust {}: {}", change.item, change.message)
                    .expect("a string grows");
            }
        }
        let counts = [Verdict::Breaking, Verdict::Compatible, Verdict::Cosmetic];
        let counts = counts.map(|verdict| format!("{} {}", self.count(verdict), verdict.name()));
        let [old, new] = &self.versions;
        text +=
            &format!("on the wire: {}\ngenerated code: {}\n", counts.join(", "), self.generated());
        text += &format!("version: {old} -> {new}\n");
        if !self.is_announced() {
            let needed = if old.starts_with("0.") { "minor" } else { "major" };
            let what = if self.is_broken().is_ok() { "breaking" } else { "perhaps breaking" };
            text += &format!("a {what} change needs a new {needed} version\n");
        }
        text
    }

    /// The verdicts for generated code in a line, languages of the same verdict together.
    fn generated(&self) -> String {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for language in Language::ALL {
            let verdict = name_or_unchanged(self.language(language));
            groups.entry(verdict).or_default().push(language.name());
        }
        let rust = match self.rust() {
            Ok(verdict) => name_or_unchanged(verdict).to_owned(),
            Err(reason) => format!("unknown ({reason})"),
        };
        let others =
            groups.iter().map(|(verdict, languages)| format!("{} {verdict}", languages.join(", ")));
        std::iter::once(format!("rust {rust}")).chain(others).collect::<Vec<_>>().join("; ")
    }
}

/// As JSON has it.
fn name_or_none(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("none", Verdict::name)
}

/// As people read it.
fn name_or_unchanged(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("unchanged", Verdict::name)
}

/// A finding for people: a line, and one with the operations that it reaches.
fn shown(finding: &Finding) -> String {
    let direction =
        finding.direction.map_or(String::new(), |direction| format!(" in a {}", direction.name()));
    let broken: Vec<&str> = finding.languages().into_iter().map(Language::name).collect();
    let code = match (finding.verdict, broken.as_slice()) {
        (Verdict::Breaking, _) | (_, []) => String::new(),
        (_, languages) => format!(" (breaks code in {})", languages.join(", ")),
    };
    let verdict = finding.verdict.name();
    let at = &finding.at;
    let line =
        format!("{verdict:<10} {at}: {}{direction}{code} [{}]\n", finding.message, finding.rule);
    match finding.operations.as_slice() {
        [] => line,
        [one] => format!("{line}           {one}\n"),
        [first, rest @ ..] => format!("{line}           {first} and {} more\n", rest.len()),
    }
}

/// The three numbers of a version; what follows a hyphen or a plus is ignored.
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
