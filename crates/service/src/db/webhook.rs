//! Where ends of tasks are reported to, and what is still to be sent.

use jiff::Timestamp;
use serde_json::json;

use super::audit::note;
use super::{Db, Deed, Result, Row, Scope, Tx, values};

/// A report that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    /// Name of the account.
    pub(crate) account: String,
    pub(crate) task: String,
    pub(crate) body: String,
    pub(crate) url: String,
    pub(crate) secret: String,
    /// How often it was tried.
    pub(crate) tries: i64,
}

fn delivery(row: &Row<'_>) -> Result<Delivery> {
    Ok(Delivery {
        id: row.get(0)?,
        account: row.get(1)?,
        task: row.get(2)?,
        body: row.get(3)?,
        url: row.get(4)?,
        secret: row.get(5)?,
        tries: row.get(6)?,
    })
}

/// What is reported of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Report {
    /// It ends now.
    Ended,
    /// It has ended, and its results are deleted at a time.
    Expires { finished_at: Timestamp, expires_at: Timestamp },
}

/// Has something reported of a task, in the transaction in which it happens: one is not without the
/// other.
pub(super) fn report(tx: &Tx<'_>, id: &str, now: Timestamp, what: Report) -> Result<()> {
    let sql = "
        select account.id, account.name, kind, status, task.name
        from task join account on account.id = task.account
                  join webhook on webhook.account = task.account
        where task.id = ?1";
    type Found = (i64, String, String, String, Option<String>);
    let found: Option<Found> = tx.first(sql, values![id], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    let Some((account, name, kind, status, called)) = found else { return Ok(()) };
    // A task that is extended or tried again ends once more.
    let delivery = format!("{id}-{}", now.as_microsecond());
    let (event, finished_at) = match what {
        Report::Ended => ("task_ended", now),
        Report::Expires { finished_at, .. } => ("task_expires", finished_at),
    };
    let mut body = json!({
        "event": event,
        "delivery_id": delivery,
        "task_id": id,
        "kind": kind,
        "name": called,
        "status": status,
        "account": name,
        "finished_at": finished_at.to_string(),
    });
    if let Report::Expires { expires_at, .. } = what {
        body["expires_at"] = expires_at.to_string().into();
    }
    let sql = "
        insert into delivery (id, account, task, body, due_at) values (?1, ?2, ?3, ?4, ?5)
        on conflict do nothing";
    tx.execute(sql, values![delivery, account, id, body.to_string(), now]).map(drop)
}

impl Db {
    /// Has the ends of an account's tasks reported to an address, or nowhere; false when there is
    /// no such account. What was to be sent before is not sent any more.
    pub(crate) async fn set_webhook(
        &self,
        name: String,
        to: Option<(String, String)>,
        deed: Deed,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Accounts, move |tx| {
            let sql = "select id from account where name = ?1";
            let account: Option<i64> = tx.first(sql, values![name], |row| row.get(0))?;
            let Some(account) = account else { return Ok(false) };
            tx.execute("delete from delivery where account = ?1", values![account])?;
            tx.execute("delete from webhook where account = ?1", values![account])?;
            if let Some((url, secret)) = to {
                let sql = "insert into webhook (account, url, secret) values (?1, ?2, ?3)";
                tx.execute(sql, values![account, url, secret])?;
            }
            note(tx, &deed, &name)?;
            Ok(true)
        })
        .await
    }

    /// Where the ends of an account's tasks are reported to.
    pub(crate) async fn webhook(&self, account: i64) -> Result<Option<String>> {
        let sql = "select url from webhook where account = ?1";
        self.read(|tx| tx.first(sql, values![account], |row| row.get(0))).await
    }

    /// Reports that are due, so many of an account, the one of each that has waited longest first.
    pub(crate) async fn due_deliveries(
        &self,
        now: Timestamp,
        limit: i64,
        of_account: i64,
    ) -> Result<Vec<Delivery>> {
        let sql = "
            select due.id, account.name, task, body, url, secret, tries
            from (select *, row_number() over (partition by account order by due_at, id) as number
                  from delivery where due_at <= ?1) as due
                 join account on account.id = due.account
                 join webhook on webhook.account = due.account
            where number <= ?3 order by number, due_at, due.id limit ?2";
        self.read(|tx| tx.all(sql, values![now, limit, of_account], delivery)).await
    }

    /// Takes a report for one try; false when another server was first. It is due again at `next`,
    /// also when whoever tries it is killed.
    pub(crate) async fn take_delivery(
        &self,
        id: String,
        tries: i64,
        next: Timestamp,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let sql = "
                update delivery set tries = tries + 1, due_at = ?1 where id = ?2 and tries = ?3";
            Ok(tx.execute(sql, values![next, id, tries])? == 1)
        })
        .await
    }

    /// Removes a report that was taken, or is given up.
    pub(crate) async fn drop_delivery(&self, id: String) -> Result<()> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            tx.execute("delete from delivery where id = ?1", values![id]).map(drop)
        })
        .await
    }
}
