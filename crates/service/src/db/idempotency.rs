//! Requests that were answered before: the write and its answer are one transaction, so that a
//! repeated request finds either both or neither.

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::Db;

/// How long an answer is kept, in microseconds.
const KEPT: i64 = 24 * 3600 * 1_000_000;

/// A request that is to be done once.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) account: i64,
    /// The caller's `Idempotency-Key`, if there is one.
    pub(crate) key: Option<String>,
    pub(crate) operation: &'static str,
    /// Digest of what was asked for.
    pub(crate) fingerprint: [u8; 32],
    /// The answer, JSON, that goes with the write.
    pub(crate) answer: String,
    pub(crate) now: i64,
}

/// What became of a request that is to be done once.
#[derive(Debug)]
pub(crate) enum Once<T> {
    /// It was done now.
    Done(T),
    /// It was done before, with this answer.
    Again(String),
    /// The key was used for another request.
    Reused,
}

impl Db {
    /// What became of a request that has been made before; none if it has not.
    pub(crate) fn answered(&self, claim: &Claim) -> Result<Option<Once<bool>>> {
        let Some(key) = &claim.key else { return Ok(None) };
        Ok(self.read(|db| before(db, claim, key))?)
    }

    /// Keeps the answer of a request that writes nothing else.
    pub(crate) async fn remember(&self, claim: Claim) -> Result<Once<bool>> {
        self.write_once(claim, |_| Ok(true)).await
    }

    /// Writes, unless a request with this key has been done already. A write that returns false
    /// did nothing, and its answer is not kept.
    pub(super) async fn write_once(
        &self,
        claim: Claim,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<bool> + Send + 'static,
    ) -> Result<Once<bool>> {
        self.write(move |tx| {
            let Some(key) = &claim.key else { return change(tx).map(Once::Done) };
            tx.execute("delete from idempotency where created_at < ?", [claim.now - KEPT])?;
            if let Some(done) = before(tx, &claim, key)? {
                return Ok(done);
            }
            let done = change(tx)?;
            if done {
                let sql = "
                    insert into idempotency (account, key, operation, fingerprint, body, created_at)
                    values (?, ?, ?, ?, ?, ?)";
                let values = params![claim.account, key, claim.operation, claim.fingerprint, claim.answer, claim.now];
                tx.prepare_cached(sql)?.execute(values)?;
            }
            Ok(Once::Done(done))
        })
        .await
    }
}

fn before(db: &Connection, claim: &Claim, key: &str) -> rusqlite::Result<Option<Once<bool>>> {
    let sql = "select operation, fingerprint, body from idempotency where account = ? and key = ? and created_at >= ?";
    let before: Option<(String, [u8; 32], String)> = db
        .prepare_cached(sql)?
        .query_row(params![claim.account, key, claim.now - KEPT], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(before.map(|(operation, fingerprint, body)| {
        let is_same = operation == claim.operation && fingerprint == claim.fingerprint;
        if is_same { Once::Again(body) } else { Once::Reused }
    }))
}
