//! Names of objects, and what is said of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::SystemTime;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// Names an object, or all objects under it: `files/<a name for each upload>`, `tasks/<id>/<name>`,
/// `uploads/<file>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Key(String);

impl Key {
    /// Of a content that is sent.
    pub(crate) fn upload(id: &str) -> Self {
        Self(format!("files/{id}"))
    }

    /// Whether it is one of those that are written once, and never again.
    pub(crate) fn is_upload(&self) -> bool {
        self.0.starts_with("files/")
    }

    /// Of a content that is sent to the store itself, until it is taken.
    pub(crate) fn sent(file: &str) -> Self {
        Self::all_sent().under(file)
    }

    /// Of all those.
    pub(crate) fn all_sent() -> Self {
        Self("uploads".to_owned())
    }

    /// Of all that a task has written.
    pub(crate) fn task(id: &str) -> Self {
        Self(format!("tasks/{id}"))
    }

    /// As a record has it, which was made from a key.
    pub(crate) fn stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// One under this.
    pub(crate) fn under(&self, name: &str) -> Self {
        Self(format!("{self}/{name}"))
    }

    /// Of another form of the same content, beside it.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        Self(format!("{self}{suffix}"))
    }

    /// Its last step.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is under another.
    pub(crate) fn is_under(&self, other: &Self) -> bool {
        self.0.strip_prefix(&other.0).is_some_and(|rest| rest.starts_with('/'))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an upload was not taken.
#[derive(Debug)]
pub(crate) enum ReceiveError<E> {
    /// It has more bytes than allowed.
    TooLarge,
    /// The content does not go on.
    Content(E),
    /// The store refused.
    Store(io::Error),
}

/// Whether objects may still be changed that others may have replaced meanwhile, an error if not.
pub(crate) type May<'a> = &'a (dyn Fn() -> BoxFuture<'a, io::Result<()>> + Sync);

/// Asks on this thread. Never from within a future: of two waits on one thread the inner takes what
/// wakes the outer, which would then sleep for good.
pub(crate) fn ask(may: May<'_>) -> io::Result<()> {
    block_in_place(|| Handle::current().block_on(may()))
}

/// Sizes and times of objects.
pub(crate) type Stats = BTreeMap<Key, Stat>;

/// By what a copy of an object is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}
