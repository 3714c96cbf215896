//! Tasks, and the kinds and states of what the service keeps. Their words stand here alone: the
//! database and the wire have the same.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use molbox::workflow::types;
use serde::{Deserialize, Serialize};

/// A type whose values are words, in the database as on the wire.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub(crate) enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The value that has this word.
            pub(crate) fn named(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words! {
    /// What a task is.
    Kind {
        System = "system",
        Job = "job",
        Analysis = "analysis",
    }
}

impl Kind {
    /// How the identifiers of such tasks begin.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::System => "box",
            Self::Job => "job",
            Self::Analysis => "ana",
        }
    }

    /// Where such tasks wait.
    pub(crate) fn lane(self) -> Lane {
        match self {
            Self::System | Self::Job => Lane::Workers,
            Self::Analysis => Lane::Analyses,
        }
    }
}

/// Which tasks wait for each other, by the number that the database has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Systems and jobs, which take a worker.
    Workers = 0,
    /// Analyses, which need not wait for days until a simulation has ended.
    Analyses = 1,
}

impl Lane {
    pub(crate) const ALL: [Self; 2] = [Self::Workers, Self::Analyses];
}

words! {
    /// The state of a task.
    Status {
        Queued = "queued",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether a task in this state has not ended.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// Of tasks whose request names none; the document has it too.
pub(crate) const PRIORITY: i64 = 50;

/// What a request makes a task of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewTask {
    pub(crate) id: String,
    pub(crate) account: i64,
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    /// The system of a job, the job of an analysis.
    pub(crate) parent: Option<String>,
    /// As it was sent, JSON.
    pub(crate) request: String,
    /// Its plan, JSON.
    pub(crate) parameters: String,
    pub(crate) seed: i64,
    /// Warnings about the request itself, JSON.
    pub(crate) warnings: String,
    /// What it may come to write.
    pub(crate) bytes: i64,
    /// Among those of its account.
    pub(crate) priority: i64,
    pub(crate) created_at: Timestamp,
}

/// What may still change of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// One that was queued again ends once more.
    pub(crate) finished_at: Timestamp,
    /// When it is deleted, if that was announced.
    pub(crate) expires_at: Option<Timestamp>,
}

/// The record of a task that has ended, as JSON.
pub(crate) struct EndedRecord {
    pub(crate) ended: Ended,
    pub(crate) text: Arc<str>,
}

/// A system, job or analysis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    /// Number in the order in which tasks were queued.
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) account: i64,
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) status: Status,
    pub(crate) request: String,
    pub(crate) parameters: String,
    pub(crate) seed: i64,
    pub(crate) attempts: i64,
    /// Attempts in a row that brought it no further.
    pub(crate) fruitless: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) is_cancelled: bool,
    /// What there is to say about its end, JSON.
    pub(crate) outcome: Option<String>,
    pub(crate) warnings: String,
    /// What it has written, or may come to write as long as it is open.
    pub(crate) bytes: i64,
    /// Which of its account's that wait is next: the highest first.
    pub(crate) priority: i64,
    /// When it is deleted, if that was announced.
    pub(crate) expires_at: Option<Timestamp>,
}

#[cfg(test)]
impl Task {
    /// A task to begin tests with.
    pub(crate) fn example() -> Self {
        Self {
            seq: 1,
            id: "job_1".to_owned(),
            account: 1,
            kind: Kind::Job,
            name: None,
            parent: Some("box_1".to_owned()),
            status: Status::Running,
            request: "{}".to_owned(),
            parameters: "{}".to_owned(),
            seed: 1,
            attempts: 1,
            fruitless: 0,
            created_at: Timestamp::UNIX_EPOCH,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Some(Timestamp::UNIX_EPOCH),
            is_cancelled: false,
            outcome: None,
            warnings: "[]".to_owned(),
            bytes: 0,
            priority: PRIORITY,
            expires_at: Some(Timestamp::UNIX_EPOCH),
        }
    }
}

/// How long results are kept after their task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    pub(crate) kept: SignedDuration,
    /// How long before they are deleted that is announced, at least.
    pub(crate) warned: SignedDuration,
}

words! {
    /// What an account may do besides having its own things.
    Role {
        User = "user",
        /// Manages accounts and the queue.
        Admin = "admin",
    }
}

impl From<types::Role> for Role {
    fn from(role: types::Role) -> Self {
        match role {
            types::Role::User => Self::User,
            types::Role::Admin => Self::Admin,
        }
    }
}

words! {
    /// The state of a file.
    FileStatus {
        /// Its link was given, its content is not registered.
        Pending = "pending",
        Ready = "ready",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_words_of_the_document() {
        for role in Role::ALL {
            let of_document: types::Role = role.name().parse().unwrap();
            assert_eq!(Role::from(of_document), *role);
        }
    }

    #[test]
    fn states_have_the_words_of_the_document() {
        let words = Status::ALL
            .iter()
            .map(|it| it.name())
            .chain(FileStatus::ALL.iter().map(|it| it.name()));
        let words: Vec<&str> = words.collect();
        for word in &words {
            assert_eq!(word.parse::<types::Status>().unwrap().to_string(), *word);
        }
        let document = document();
        let known = document["components"]["schemas"]["Status"]["enum"].as_array().unwrap();
        assert_eq!(known.len(), words.len());
    }

    #[test]
    fn the_usual_priority_is_that_of_the_document() {
        for schema in ["SystemBuildRequest", "JobCreateParams", "AnalysisRequest"] {
            let field = &document()["components"]["schemas"][schema]["properties"]["priority"];
            let said = field["description"].as_str().unwrap().trim_end();
            assert!(said.ends_with(&format!("which counts as {PRIORITY}.")), "{schema}: {said}");
        }
    }

    fn document() -> serde_json::Value {
        serde_json::from_str(crate::http::validate::DOCUMENT).unwrap()
    }
}
