//! Fields of a request that there are not. They are ignored, and counted, so that a warning can
//! name them.

use crate::check::Place;
use crate::error::Loc;

/// So many are listed; a request with more has one cause.
const MAX_LISTED: usize = 20;
/// Names are kept up to so many characters.
const MAX_NAME: usize = 100;

/// A field that a request does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Where it stands, `["body", "portfolio", "futures", 0]`.
    pub within: Vec<Loc>,
    /// Its name, the beginning of a long one.
    pub name: String,
}

/// Fields that a request does not have: the first of them, and how many there are besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownFields {
    /// In the order of the request.
    pub listed: Vec<UnknownField>,
    /// How many are not listed.
    pub more: usize,
}

impl UnknownFields {
    pub(crate) fn append(&mut self, later: Self) {
        let room = MAX_LISTED.saturating_sub(self.listed.len());
        self.more += later.more + later.listed.len().saturating_sub(room);
        self.listed.extend(later.listed.into_iter().take(room));
    }

    pub(crate) fn add(&mut self, place: Place, tail: &[Loc], name: &str) {
        if self.listed.len() == MAX_LISTED {
            self.more += 1;
        } else {
            let name = name.chars().take(MAX_NAME).collect();
            self.listed.push(UnknownField { within: place.path(tail), name });
        }
    }
}
