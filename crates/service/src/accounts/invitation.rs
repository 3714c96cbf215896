//! Invitations: links by which the owner of an account chooses a password, the first or another.

use jiff::{SignedDuration, Timestamp};

use crate::accounts::session::Token;
use crate::db::{self, Db, Deed, Uninvited};

/// How long an invitation is good that somebody has to be sent.
pub(crate) const TO_BE_SENT: SignedDuration = SignedDuration::from_hours(72);
/// And one that is opened where it was made.
pub(crate) const AT_ONCE: SignedDuration = SignedDuration::from_mins(10);

/// An invitation, which is shown once.
pub(crate) struct Invitation {
    token: Token,
    pub(crate) expires_at: Timestamp,
}

impl Invitation {
    /// Invites the owner of an account; an earlier invitation ends.
    pub(crate) async fn make(
        db: &Db,
        account: String,
        lifetime: SignedDuration,
        deed: Deed,
    ) -> db::Result<Result<Self, Uninvited>> {
        let token = Token::generate();
        let expires_at = deed.at.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let done = db.invite(account, token.hash(), expires_at, deed).await?;
        Ok(done.map(|()| Self { token, expires_at }))
    }

    /// The token itself, for who gets it.
    pub(crate) fn token(&self) -> &str {
        self.token.reveal()
    }

    /// Where the password is chosen; `base_url` is the workflow's. What stands after `#` is sent to
    /// no server and is in no log.
    pub(crate) fn link(&self, base_url: &str) -> String {
        format!("{base_url}/portal/invitation#{}", self.token())
    }
}
