//! Who did what: written in the transaction of what was done, where there is one.

use anyhow::Result;
use rusqlite::{Connection, Row, Transaction, params};
use serde::Serialize;

use super::{Db, Whole};
use crate::app::rfc3339;

/// Something that is done, by whom and from where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deed {
    /// In microseconds since 1970.
    pub(crate) at: i64,
    /// The account whose key does it, or to which a command does it.
    pub(crate) account: Option<String>,
    /// Public part of the key.
    pub(crate) key: Option<String>,
    /// The user of this machine who gave the command; `molboxd` for the service itself.
    pub(crate) operator: Option<String>,
    /// Address of the client.
    pub(crate) address: Option<String>,
    /// The `x-request-id` of the answer.
    pub(crate) request: Option<String>,
    /// An operation of the document, or a command: `job_submit`, `key_revoke`.
    pub(crate) action: &'static str,
}

/// An entry of the audit log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) seq: i64,
    /// RFC 3339 in UTC.
    pub(crate) at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
    pub(crate) action: String,
    pub(crate) subject: String,
}

/// Which entries are asked for; all that is given has to hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    pub(crate) account: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) action: Option<String>,
    pub(crate) subject: Option<String>,
    /// In microseconds since 1970: from, and up to but not including.
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
    /// After the entry with this number.
    pub(crate) after: i64,
}

/// Notes that something is done to `subject`.
pub(super) fn note(tx: &Transaction<'_>, deed: &Deed, subject: &str) -> rusqlite::Result<()> {
    let sql = "
        insert into audit (at, account, key, operator, address, request, action, subject)
        values (?, ?, ?, ?, ?, ?, ?, ?)";
    let Deed { at, account, key, operator, address, request, action } = deed;
    tx.prepare_cached(sql)?.execute(params![at, account, key, operator, address, request, action, subject]).map(drop)
}

impl Db {
    /// Notes what changes nothing here, such as a download.
    pub(crate) async fn note(&self, deed: Deed, subject: String) -> Result<()> {
        self.write_also_when_full(move |tx| note(tx, &deed, &subject)).await
    }

    /// Forgets the entries of before this moment, so many at most; whether there may be more.
    pub(crate) async fn forget_audit(&self, before: i64, limit: usize) -> Result<bool> {
        self.write_also_when_full(move |tx| {
            // The oldest have the lowest numbers, whatever the clock did.
            let sql = "delete from audit where at < ? and seq in (select seq from audit order by seq limit ?)";
            Ok(tx.execute(sql, params![before, limit as i64])? == limit)
        })
        .await
    }
}

impl Whole {
    /// Hands every entry that is asked for to `show`, oldest first.
    pub(crate) fn audit(&self, search: &Search, show: &mut dyn FnMut(&Entry) -> Result<()>) -> Result<()> {
        let sql = "
            select seq, at, account, key, operator, address, request, action, subject from audit
            where seq > ?1 and (?2 is null or account = ?2) and (?3 is null or key = ?3)
                and (?4 is null or action = ?4) and (?5 is null or subject = ?5)
                and (?6 is null or at >= ?6) and (?7 is null or at < ?7)
            order by seq";
        let Search { account, key, action, subject, since, until, after } = search;
        let connection: &Connection = self.connection();
        let mut query = connection.prepare(sql)?;
        let mut rows = query.query(params![after, account, key, action, subject, since, until])?;
        while let Some(row) = rows.next()? {
            show(&entry(row)?)?;
        }
        Ok(())
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        seq: row.get(0)?,
        at: rfc3339(row.get(1)?),
        account: row.get(2)?,
        key: row.get(3)?,
        operator: row.get(4)?,
        address: row.get(5)?,
        request: row.get(6)?,
        action: row.get(7)?,
        subject: row.get(8)?,
    })
}
