//! Requests that were answered before: the write and its answer are one transaction, so that a
//! repeated request finds either both or neither.

use std::convert::Infallible;

use jiff::{SignedDuration, Timestamp};

use super::audit::note;
use super::{Db, Deed, Error, Result, Scope, Tx, values};

/// How long an answer is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// An answer as it is sent, and kept for a repeated request. Its status is 200: a request that was
/// refused may be repeated with the same key, and is looked at anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A write that is done once, however often its request is repeated.
#[derive(Clone, Debug)]
pub(crate) struct IdempotentWrite {
    pub(crate) account: i64,
    /// The caller's `Idempotency-Key`, if there is one.
    pub(crate) key: Option<String>,
    pub(crate) operation: &'static str,
    /// Digest of what was asked for.
    pub(crate) fingerprint: [u8; 32],
    pub(crate) now: Timestamp,
    /// Who does it.
    pub(crate) deed: Deed,
}

/// What became of a write that is done once.
#[derive(Debug)]
pub(crate) enum Once<R> {
    /// It was done now.
    Stored,
    /// It could not be done; nothing was written, and no answer is kept.
    Refused(R),
    /// It was done before, with this answer.
    Replayed(Answer),
    /// The key was used for another request.
    KeyReused,
}

/// What became of a request that has been made before.
#[derive(Debug)]
pub(crate) enum Before {
    Replayed(Answer),
    KeyReused,
}

impl Db {
    /// What became of a request that has been made before; none if it has not.
    pub(crate) async fn answered(&self, write: &IdempotentWrite) -> Result<Option<Before>> {
        let Some(key) = &write.key else { return Ok(None) };
        self.read(|tx| before(tx, write, key)).await
    }

    /// Keeps the answer of a request that can be done twice without harm, such as a cancellation:
    /// repeated, it is answered as the first time.
    pub(crate) async fn remember(
        &self,
        write: IdempotentWrite,
        answer: Answer,
    ) -> Result<Once<Infallible>> {
        self.write_once(write, answer, None, |_| Ok(Ok(()))).await
    }

    /// Forgets answers that are kept no longer, so many at most; whether there may be more.
    pub(crate) async fn forget_answers(&self, now: Timestamp, limit: usize) -> Result<bool> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let sql = "
                delete from idempotency where created_at < ?1 and (account, key) in (
                    select account, key from idempotency
                    where created_at < ?1 order by created_at limit ?2
                )";
            Ok(tx.execute(sql, values![now - KEPT, limit as i64])? == limit)
        })
        .await
    }

    /// Writes, and notes it under the identifier of what it is done to, unless a request with this
    /// key has been done already. A change that gives a reason why not did nothing.
    pub(super) async fn write_once<R: Send + 'static>(
        &self,
        write: IdempotentWrite,
        answer: Answer,
        subject: Option<String>,
        change: impl FnOnce(&Tx<'_>) -> Result<Result<(), R>> + Send + 'static,
    ) -> Result<Once<R>> {
        self.write(Scope::Account(write.account), move |tx| {
            let done_and_noted = || {
                let done = change(tx)?;
                if let (Ok(()), Some(subject)) = (&done, &subject) {
                    note(tx, &write.deed, subject)?;
                }
                Ok::<_, Error>(done)
            };
            let Some(key) = &write.key else {
                return Ok(done_and_noted()?.map_or_else(Once::Refused, |()| Once::Stored));
            };
            match before(tx, &write, key)? {
                Some(Before::Replayed(answer)) => return Ok(Once::Replayed(answer)),
                Some(Before::KeyReused) => return Ok(Once::KeyReused),
                None => {}
            }
            if let Err(reason) = done_and_noted()? {
                return Ok(Once::Refused(reason));
            }
            let sql = "
                insert into idempotency
                    (account, key, operation, fingerprint, headers, body, created_at)
                values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                on conflict (account, key) do update
                set operation = excluded.operation, fingerprint = excluded.fingerprint,
                    headers = excluded.headers, body = excluded.body,
                    created_at = excluded.created_at";
            let headers = serde_json::to_string(&answer.headers).expect("strings");
            let IdempotentWrite { account, operation, fingerprint, now, .. } = &write;
            tx.execute_later(
                sql,
                values![account, key, operation, fingerprint, headers, answer.body, now],
            )?;
            Ok(Once::Stored)
        })
        .await
    }
}

fn before(tx: &Tx<'_>, write: &IdempotentWrite, key: &str) -> Result<Option<Before>> {
    let sql = "
        select operation, fingerprint, headers, body from idempotency
        where account = ?1 and key = ?2 and created_at >= ?3";
    tx.first(sql, values![write.account, key, write.now - KEPT], |row| {
        let (operation, fingerprint): (String, [u8; 32]) = (row.get(0)?, row.get(1)?);
        if operation != write.operation || fingerprint != write.fingerprint {
            return Ok(Before::KeyReused);
        }
        let headers: String = row.get(2)?;
        let headers = serde_json::from_str(&headers).map_err(Error::other)?;
        Ok(Before::Replayed(Answer { headers, body: row.get(3)? }))
    })
}
