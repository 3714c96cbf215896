//! Files of accounts.

use anyhow::Result;
use rusqlite::{OptionalExtension, Row, params};

use super::{Claim, Db, Deletion, Filter, Once};

/// A file. One that is `pending` has a link but no content yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRow {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) status: String,
    pub(crate) size: Option<i64>,
    pub(crate) sha256: Option<String>,
    pub(crate) pdb_id: Option<String>,
    pub(crate) created_at: i64,
}

const COLUMNS: &str = "seq, id, name, kind, format, status, size, sha256, pdb_id, created_at";

fn file_row(row: &Row<'_>) -> rusqlite::Result<FileRow> {
    Ok(FileRow {
        seq: row.get(0)?,
        id: row.get(1)?,
        name: row.get(2)?,
        kind: row.get(3)?,
        format: row.get(4)?,
        status: row.get(5)?,
        size: row.get(6)?,
        sha256: row.get(7)?,
        pdb_id: row.get(8)?,
        created_at: row.get(9)?,
    })
}

impl Db {
    /// Makes a file that waits for its content.
    pub(crate) async fn create_pending_file(&self, account: i64, file: FileRow) -> Result<()> {
        self.write(move |tx| {
            let sql = "
                insert into file (id, account, name, kind, format, status, created_at)
                values (?, ?, ?, ?, ?, 'pending', ?)";
            let values = params![file.id, account, file.name, file.kind, file.format, file.created_at];
            tx.execute(sql, values).map(drop)
        })
        .await
    }

    /// The account's file with this identifier.
    pub(crate) fn file(&self, account: i64, id: &str) -> rusqlite::Result<Option<FileRow>> {
        self.read(|db| {
            let sql = format!("select {COLUMNS} from file where id = ? and account = ?");
            db.prepare_cached(&sql)?.query_row(params![id, account], file_row).optional()
        })
    }

    /// The format of a file that waits for its content, whosever it is: an upload link is good by
    /// itself.
    pub(crate) fn pending_file_format(&self, id: &str) -> rusqlite::Result<Option<String>> {
        self.read(|db| {
            let sql = "select format from file where id = ? and status = 'pending'";
            db.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()
        })
    }

    /// The account's registered file with this identifier or name.
    pub(crate) fn ready_file(&self, account: i64, id_or_name: &str) -> rusqlite::Result<Option<FileRow>> {
        self.read(|db| {
            let sql = format!(
                "select {COLUMNS} from file
                 where account = ?1 and status = 'ready' and (id = ?2 or name = ?2) order by id = ?2 desc limit 1"
            );
            db.prepare_cached(&sql)?.query_row(params![account, id_or_name], file_row).optional()
        })
    }

    /// Registers a pending file; `Once::Done(false)` when it is not pending or the name is taken.
    pub(crate) async fn register_file(&self, file: FileRow, account: i64, claim: Claim) -> Result<Once<bool>> {
        self.write_once(claim, move |tx| {
            let taken = "select 1 from file where account = ? and name = ? and status = 'ready'";
            if tx.prepare_cached(taken)?.exists(params![account, file.name])? {
                return Ok(false);
            }
            let sql = "
                update file
                set name = ?, kind = ?, format = ?, status = 'ready', size = ?, sha256 = ?, pdb_id = ?, created_at = ?
                where id = ? and account = ? and status = 'pending'";
            let values = params![
                file.name,
                file.kind,
                file.format,
                file.size,
                file.sha256,
                file.pdb_id,
                file.created_at,
                file.id,
                account
            ];
            Ok(tx.execute(sql, values)? == 1)
        })
        .await
    }

    /// Makes a file whose content is there already; `Once::Done(false)` when the name is taken.
    pub(crate) async fn create_ready_file(&self, file: FileRow, account: i64, claim: Claim) -> Result<Once<bool>> {
        self.write_once(claim, move |tx| {
            let sql = "
                insert into file (id, account, name, kind, format, status, size, sha256, pdb_id, created_at)
                values (?, ?, ?, ?, ?, 'ready', ?, ?, ?, ?) on conflict do nothing";
            let values = params![
                file.id,
                account,
                file.name,
                file.kind,
                file.format,
                file.size,
                file.sha256,
                file.pdb_id,
                file.created_at
            ];
            Ok(tx.execute(sql, values)? == 1)
        })
        .await
    }

    /// Deletes a file; its content becomes garbage. One that a task is still to read stays.
    pub(crate) async fn delete_file(&self, account: i64, id: String, garbage: String) -> Result<Deletion> {
        self.write(move |tx| {
            let sql = "select 1 from file where id = ? and account = ?";
            if !tx.prepare_cached(sql)?.exists(params![id, account])? {
                return Ok(Deletion::NotFound);
            }
            let sql = "
                select task.id from task_input join task on task.id = task_input.task
                where file = ? and status in ('queued', 'running') order by seq limit 1";
            let dependent: Option<String> = tx.prepare_cached(sql)?.query_row([&id], |row| row.get(0)).optional()?;
            if let Some(dependent) = dependent {
                return Ok(Deletion::NeededBy(dependent));
            }
            tx.execute("delete from file where id = ?", [&id])?;
            tx.execute("insert or ignore into garbage (prefix) values (?)", [garbage])?;
            Ok(Deletion::Done)
        })
        .await
    }

    /// A page of the account's files, newest first.
    pub(crate) fn files(&self, account: i64, filter: &Filter, limit: usize) -> rusqlite::Result<Vec<FileRow>> {
        self.read(|db| {
            let values = params![account, filter.before, limit as i64, filter.status, filter.name];
            db.prepare_cached(&listing(filter))?.query_map(values, file_row)?.collect()
        })
    }
}

/// The query of a page. It has the conditions that are asked for only, so that each has its index.
pub(super) fn listing(filter: &Filter) -> String {
    let status = if filter.status.is_some() { "status = ?4" } else { "?4 is null" };
    let name = if filter.name.is_some() { "name = ?5" } else { "?5 is null" };
    format!(
        "select {COLUMNS} from file
         where account = ?1 and seq < coalesce(?2, 9223372036854775807) and {status} and {name}
         order by seq desc limit ?3"
    )
}
