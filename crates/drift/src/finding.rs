//! What a comparison says: one change, where it is, and what it means to clients.

use serde_json::{Value, json};

/// What a change means to a client that was made before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing on the wire.
    Cosmetic,
    /// Clients go on working.
    Compatible,
    /// Some client stops working, or gets something else than it asked for.
    Breaking,
}

impl Verdict {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosmetic => "cosmetic",
            Self::Compatible => "compatible",
            Self::Breaking => "breaking",
        }
    }
}

/// What the Rust that is generated of both documents comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Rust {
    /// Nobody asked.
    NotCompared,
    /// There is no code to compare, for this reason.
    Unknown(String),
    /// The changes of its public surface, the worst first.
    Compared(Vec<RustChange>),
}

/// One change of the public surface of generated Rust.
#[derive(Clone, Debug, PartialEq)]
pub struct RustChange {
    /// [`Verdict::Breaking`] or [`Verdict::Compatible`].
    pub verdict: Verdict,
    /// Its path in the generated module.
    pub item: String,
    /// What happened to it.
    pub message: String,
}

/// Which way a value travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

impl Direction {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }

    /// Of a callback or webhook, where the service is the client.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Self::Request => Self::Response,
            Self::Response => Self::Request,
        }
    }
}

/// What happened to the set of values that are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Some value is no longer admitted.
    Narrower,
    /// Some value is newly admitted.
    Wider,
    /// Both.
    Changed,
}

impl Effect {
    /// The whole of the judgement of values: who sends must not send what the other side does not
    /// expect. So requests may only come to admit more, responses only less.
    pub(crate) fn verdict(self, direction: Direction) -> Verdict {
        match (self, direction) {
            (Self::Narrower, Direction::Response) | (Self::Wider, Direction::Request) => {
                Verdict::Compatible
            }
            _ => Verdict::Breaking,
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The operations that it reaches; none when it concerns the document.
    pub operations: Vec<String>,
    /// The place: a part of the operation, or a component and a path in it.
    pub at: String,
    /// Which way the value travels; none when it is no value.
    pub direction: Option<Direction>,
    /// What kind of change it is, a word of the table in the README.
    pub rule: &'static str,
    /// What happened.
    pub message: String,
    /// On the wire.
    pub verdict: Verdict,
    /// For code that uses a client generated anew, in a language other than Rust.
    pub code: Verdict,
    /// What happened to the set of values that are admitted; none when it is the same.
    pub effect: Option<Effect>,
}

impl Finding {
    /// Whether it is the same change, seen from another operation.
    pub(crate) fn is_same_change(&self, other: &Self) -> bool {
        (&self.at, self.direction, self.rule, &self.message, self.verdict)
            == (&other.at, other.direction, other.rule, &other.message, other.verdict)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "verdict": self.verdict.name(),
            "generated_code": self.code.name(),
            "languages": self.languages().iter().map(|language| language.name()).collect::<Vec<_>>(),
            "rule": self.rule,
            "direction": self.direction.map(Direction::name),
            "at": self.at,
            "message": self.message,
            "operations": self.operations,
        })
    }
}

/// Changes that are the same become one that names all operations.
pub(crate) fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut out: Vec<Finding> = Vec::new();
    for finding in findings {
        match out.iter_mut().find(|known| known.is_same_change(&finding)) {
            Some(known) => {
                known.code = known.code.max(finding.code);
                let new: Vec<String> = finding
                    .operations
                    .into_iter()
                    .filter(|name| !known.operations.contains(name))
                    .collect();
                known.operations.extend(new);
            }
            None => out.push(finding),
        }
    }
    out.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    out
}
