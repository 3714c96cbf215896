//! Requests that were answered before: the write and its answer are one transaction, so that a
//! repeated request finds either both or neither.

use std::convert::Infallible;

use anyhow::Result;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::audit::note;
use super::{Db, Deed};

/// How long an answer is kept, in microseconds.
const KEPT: i64 = 24 * 3600 * 1_000_000;

/// An answer as it is sent, and kept for a repeated request. Its status is 200: a request that was
/// refused may be repeated with the same key, and is looked at anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A request that is to be done once.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) account: i64,
    /// The caller's `Idempotency-Key`, if there is one.
    pub(crate) key: Option<String>,
    pub(crate) operation: &'static str,
    /// Digest of what was asked for.
    pub(crate) fingerprint: [u8; 32],
    pub(crate) now: i64,
    /// Who does it.
    pub(crate) deed: Deed,
}

/// What became of a request that is to be done once.
#[derive(Debug)]
pub(crate) enum Once<R> {
    /// It was done now.
    Done,
    /// It could not be done; nothing was written, and no answer is kept.
    Refused(R),
    /// It was done before, with this answer.
    Again(Answer),
    /// The key was used for another request.
    Reused,
}

/// What became of a request that has been made before.
#[derive(Debug)]
pub(crate) enum Before {
    Same(Answer),
    Another,
}

impl Db {
    /// What became of a request that has been made before; none if it has not.
    pub(crate) fn answered(&self, claim: &Claim) -> rusqlite::Result<Option<Before>> {
        let Some(key) = &claim.key else { return Ok(None) };
        self.read(|db| before(db, claim, key))
    }

    /// Keeps the answer of a request that can be done twice without harm, such as a cancellation:
    /// repeated, it is answered as the first time.
    pub(crate) async fn remember(&self, claim: Claim, answer: Answer) -> Result<Once<Infallible>> {
        self.write_once(claim, answer, None, |_| Ok(Ok(()))).await
    }

    /// Writes, and notes it under the identifier of what it is done to, unless a request with this key has been
    /// done already. A change that gives a reason why not did nothing.
    pub(super) async fn write_once<R: Send + 'static>(
        &self,
        claim: Claim,
        answer: Answer,
        subject: Option<String>,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<(), R>> + Send + 'static,
    ) -> Result<Once<R>> {
        self.write(move |tx| {
            let change = |tx: &Transaction<'_>| {
                let done = change(tx)?;
                if let (Ok(()), Some(subject)) = (&done, &subject) {
                    note(tx, &claim.deed, subject)?;
                }
                Ok::<_, rusqlite::Error>(done)
            };
            let Some(key) = &claim.key else { return Ok(change(tx)?.map_or_else(Once::Refused, |()| Once::Done)) };
            tx.execute("delete from idempotency where created_at < ?", [claim.now - KEPT])?;
            match before(tx, &claim, key)? {
                Some(Before::Same(answer)) => return Ok(Once::Again(answer)),
                Some(Before::Another) => return Ok(Once::Reused),
                None => {}
            }
            if let Err(reason) = change(tx)? {
                return Ok(Once::Refused(reason));
            }
            let sql = "
                insert into idempotency (account, key, operation, fingerprint, headers, body, created_at)
                values (?, ?, ?, ?, ?, ?, ?)";
            let headers = serde_json::to_string(&answer.headers).expect("strings");
            let values =
                params![claim.account, key, claim.operation, claim.fingerprint, headers, answer.body, claim.now];
            tx.prepare_cached(sql)?.execute(values)?;
            Ok(Once::Done)
        })
        .await
    }
}

fn before(db: &Connection, claim: &Claim, key: &str) -> rusqlite::Result<Option<Before>> {
    let sql = "
        select operation, fingerprint, headers, body from idempotency
        where account = ? and key = ? and created_at >= ?";
    db.prepare_cached(sql)?
        .query_row(params![claim.account, key, claim.now - KEPT], |row| {
            let (operation, fingerprint): (String, [u8; 32]) = (row.get(0)?, row.get(1)?);
            if operation != claim.operation || fingerprint != claim.fingerprint {
                return Ok(Before::Another);
            }
            let headers: String = row.get(2)?;
            let unreadable = |error| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error));
            let headers = serde_json::from_str(&headers).map_err(unreadable)?;
            Ok(Before::Same(Answer { headers, body: row.get(3)? }))
        })
        .optional()
}
