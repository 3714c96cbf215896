//! What a write has for itself.

use crate::record::Lane;

/// What a write has for itself: whoever else writes the same waits until it is committed. So what
/// it looks at first is still true when it writes. SQLite has one writer, for which all is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Rows that a statement finds by what they have to be.
    Rows,
    /// Which accounts there are and what they are. Taken before that of one of them.
    Accounts,
    /// Whose turn it is in a lane. Taken before that of an account.
    Lane(Lane),
    /// Everything of one account.
    Account(i64),
}
