//! Who asks: API keys, sessions of people who have signed in, and the signed links that stand for
//! one upload.

pub(crate) mod invitation;
pub(crate) mod key;
pub(crate) mod link;
pub(crate) mod oidc;
pub(crate) mod password;
pub(crate) mod session;

use jiff::Timestamp;

use crate::config::Sessions;
use crate::db::{Db, KeyRow, SessionRow};
use crate::error::ApiError;
use crate::record::Role;

/// Who makes a request, by the way in that was taken.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Key(KeyRow),
    Session(SessionRow),
}

impl Caller {
    /// Number of the account.
    pub(crate) fn account(&self) -> i64 {
        match self {
            Self::Key(key) => key.account,
            Self::Session(session) => session.account,
        }
    }

    pub(crate) fn account_name(&self) -> &str {
        match self {
            Self::Key(key) => &key.account_name,
            Self::Session(session) => &session.account_name,
        }
    }

    /// Whether an administrator has signed in.
    pub(crate) fn is_admin(&self) -> bool {
        matches!(self, Self::Session(session) if session.role == Role::Admin)
    }

    /// Public identifier of the key or the session.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Key(key) => &key.id,
            Self::Session(session) => &session.id,
        }
    }
}

/// Whether the key or the session with this identifier, which was good, is so still: for what
/// takes long, and for links.
pub(crate) async fn is_still_good(
    db: &Db,
    id: &str,
    sessions: &Sessions,
    now: Timestamp,
) -> Result<bool, ApiError> {
    if id.strip_prefix(session::PREFIX).is_some_and(|rest| rest.starts_with('_')) {
        let row = db.session(id).await?;
        return Ok(row.is_some_and(|row| session::is_good(&row, sessions, now)));
    }
    Ok(db.key(id).await?.is_some_and(|row| key::is_good(&row, now)))
}
