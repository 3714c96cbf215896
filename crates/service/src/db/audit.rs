//! Who did what: written in the transaction of what was done, where there is one.

use jiff::Timestamp;
use serde::Serialize;

use super::{Db, Result, Row, Scope, Tx, Whole, values};

/// Something that is done, by whom and from where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deed {
    pub(crate) at: Timestamp,
    /// The account whose key or session does it, or to which a command does it.
    pub(crate) account: Option<String>,
    /// Public part of the key, or identifier of the session.
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
    /// From, and up to but not including.
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// After the entry with this number.
    pub(crate) after: i64,
}

/// Notes that something is done to `subject`.
pub(super) fn note(tx: &Tx<'_>, deed: &Deed, subject: &str) -> Result<()> {
    let sql = "
        insert into audit (at, account, key, operator, address, request, action, subject)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let Deed { at, account, key, operator, address, request, action } = deed;
    tx.execute_later(sql, values![at, account, key, operator, address, request, action, subject])
}

impl Db {
    /// Notes what changes nothing here, such as a download.
    pub(crate) async fn note(&self, deed: Deed, subject: String) -> Result<()> {
        self.write_also_when_full(Scope::Rows, move |tx| note(tx, &deed, &subject)).await
    }

    /// Forgets the entries of before this moment, so many at most; whether there may be more.
    pub(crate) async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<bool> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            // The oldest have the lowest numbers, whatever the clock did.
            let sql = "
                delete from audit
                where at < ?1 and seq in (select seq from audit order by seq limit ?2)";
            Ok(tx.execute(sql, values![before, limit as i64])? == limit)
        })
        .await
    }
}

impl Whole {
    /// Hands every entry that is asked for to `show`, oldest first.
    pub(crate) fn audit(
        &self,
        search: &Search,
        show: &mut dyn FnMut(&Entry) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let sql = "
            select seq, at, account, key, operator, address, request, action, subject from audit
            where seq > ?1 and (cast(?2 as text) is null or account = ?2)
                and (cast(?3 as text) is null or key = ?3)
                and (cast(?4 as text) is null or action = ?4)
                and (cast(?5 as text) is null or subject = ?5)
                and (cast(?6 as bigint) is null or at >= ?6)
                and (cast(?7 as bigint) is null or at < ?7)
            order by seq";
        let Search { account, key, action, subject, since, until, after } = search;
        let values = values![after, account, key, action, subject, since, until];
        self.tx().each(sql, values, |row| show(&entry(row)?))
    }
}

fn entry(row: &Row<'_>) -> Result<Entry> {
    Ok(Entry {
        seq: row.get(0)?,
        at: row.get::<Timestamp>(1)?.to_string(),
        account: row.get(2)?,
        key: row.get(3)?,
        operator: row.get(4)?,
        address: row.get(5)?,
        request: row.get(6)?,
        action: row.get(7)?,
        subject: row.get(8)?,
    })
}
