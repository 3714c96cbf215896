//! Files of accounts.

use jiff::{SignedDuration, Timestamp};

use super::audit::note;
use super::garbage::{discard_object, keep_object};
use super::quota::has_quota;
use super::words::is_open;
use super::{
    Answer, Db, Deed, Deletion, Error, Filter, IdempotentWrite, Once, OverQuota, Result, Row,
    Scope, Tx, values,
};
use crate::formats::Format;
use crate::record::FileStatus;

/// A file. One that is `pending` has a link but no content yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRow {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: Format,
    pub(crate) status: FileStatus,
    pub(crate) size: Option<i64>,
    pub(crate) sha256: Option<String>,
    pub(crate) pdb_id: Option<String>,
    pub(crate) created_at: Timestamp,
    /// Key of the content: of a pending file the content that arrived last.
    pub(crate) object: Option<String>,
    /// Warnings about the registration, JSON.
    pub(crate) warnings: String,
}

/// What became of an upload whose content has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the content of its file now, in place of this object.
    Taken { replaced: Option<String> },
    /// The file has been registered with another content.
    Registered,
    /// The file has been deleted, or its account disabled.
    Deleted,
    /// The account would hold more than it may.
    OverQuota(OverQuota),
}

/// A file that waits for its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Number of its account.
    pub(crate) account: i64,
    /// What its account holds, without what has arrived for it so far, in bytes.
    pub(crate) held: u64,
    /// What its account may hold; 0 is no limit.
    pub(crate) max: u64,
}

/// Why a file that waits for its content was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmade {
    OverQuota(OverQuota),
    /// As many wait as may.
    TooMany,
}

/// Why a file was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unregistered {
    /// Another file has the name.
    NameTaken,
    /// It has been registered already.
    IsReady,
    /// Other content arrived while this was checked.
    Replaced,
    /// It has been deleted.
    Deleted,
    /// The account would hold more than it may.
    OverQuota(OverQuota),
}

const COLUMNS: &str =
    "seq, id, name, kind, format, status, size, sha256, pdb_id, created_at, object, warnings";

fn file_row(row: &Row<'_>) -> Result<FileRow> {
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
        object: row.get(10)?,
        warnings: row.get(11)?,
    })
}

impl Db {
    /// Makes a file that waits for its content, in an account that has room for any, and has fewer than
    /// so many that wait.
    pub(crate) async fn create_pending_file(
        &self,
        account: i64,
        file: FileRow,
        max_bytes: u64,
        most_pending: u32,
        deed: Deed,
    ) -> Result<Result<(), Unmade>> {
        self.write(Scope::Account(account), move |tx| {
            if let Err(over) = has_quota(tx, account, 0, max_bytes)? {
                return Ok(Err(Unmade::OverQuota(over)));
            }
            let pending = "select count(*) from file where account = ?1 and status = ?2";
            let pending: i64 =
                tx.one(pending, values![account, FileStatus::Pending], |row| row.get(0))?;
            if pending >= i64::from(most_pending) {
                return Ok(Err(Unmade::TooMany));
            }
            let sql = "
                insert into file (id, account, name, kind, format, status, created_at)
                values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let values = values![
                file.id,
                account,
                file.name,
                file.kind,
                file.format,
                FileStatus::Pending,
                file.created_at
            ];
            tx.execute(sql, values)?;
            note(tx, &deed, &file.id)?;
            Ok(Ok(()))
        })
        .await
    }

    /// Whether files have waited for their registration since before this moment.
    pub(crate) async fn has_expired_files(&self, before: Timestamp) -> Result<bool> {
        let sql = format!(
            "select 1 from file where status = '{}' and created_at < ?1",
            FileStatus::Pending
        );
        self.read(|tx| tx.exists(&sql, values![before])).await
    }

    /// Deletes the files that have waited for their registration since before this moment; their
    /// content becomes garbage. Gives the objects that are to be removed, of so many files at most.
    pub(crate) async fn expire_pending_files(
        &self,
        before: Timestamp,
        limit: usize,
        deed: Deed,
    ) -> Result<Vec<String>> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let sql = format!(
                // What is registered meanwhile is found by the inner select, and not deleted.
                "delete from file where status = '{pending}' and created_at < ?1 and id in
                     (select id from file where status = '{pending}' and created_at < ?1 limit ?2)
                 returning id, object, (select name from account where account.id = file.account)",
                pending = FileStatus::Pending
            );
            let expired: Vec<(String, Option<String>, String)> =
                tx.all(&sql, values![before, limit as i64], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            let mut objects = Vec::new();
            for (id, object, account) in expired {
                note(tx, &Deed { account: Some(account), ..deed.clone() }, &id)?;
                if let Some(object) = object {
                    discard_object(tx, &object, SignedDuration::ZERO, deed.at)?;
                    objects.push(object);
                }
            }
            Ok(objects)
        })
        .await
    }

    /// The account's file with this identifier.
    pub(crate) async fn file(&self, account: i64, id: &str) -> Result<Option<FileRow>> {
        let sql = format!("select {COLUMNS} from file where id = ?1 and account = ?2");
        self.read(|tx| tx.first(&sql, values![id, account], file_row)).await
    }

    /// A file that waits for its content, any account's that is not disabled: an upload link is
    /// good by itself. Accounts without a limit of their own may hold `max_bytes`.
    pub(crate) async fn pending_file(&self, id: &str, max_bytes: u64) -> Result<Option<Pending>> {
        let sql = "
            select account.id, account.bytes - file.bytes, coalesce(most_bytes, ?3)
            from file join account on account.id = file.account
            where file.id = ?1 and status = ?2 and disabled_at is null";
        let max = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        self.read(|tx| {
            tx.first(sql, values![id, FileStatus::Pending, max], |row| {
                let (held, max): (i64, i64) = (row.get(1)?, row.get(2)?);
                let (held, max) = (held.unsigned_abs(), max.unsigned_abs());
                Ok(Pending { account: row.get(0)?, held, max })
            })
        })
        .await
    }

    /// Key of the content of a registered file, any account's: a task has named it.
    pub(crate) async fn file_object(&self, id: &str) -> Result<Option<String>> {
        let sql = "select object from file where id = ?1 and status = ?2";
        self.read(|tx| tx.first(sql, values![id, FileStatus::Ready], |row| row.get(0))).await
    }

    /// Makes an object that has been announced and written, of this size, the content of a pending
    /// file.
    pub(crate) async fn take_upload(
        &self,
        id: String,
        object: String,
        size: u64,
        max_bytes: u64,
        deed: Deed,
    ) -> Result<Arrival> {
        self.write(Scope::Rows, move |tx| {
            let sql = "select account from file where id = ?1";
            let account: Option<i64> = tx.first(sql, values![id], |row| row.get(0))?;
            let Some(account) = account else { return Ok(Arrival::Deleted) };
            tx.lock(Scope::Account(account))?;
            let sql = "
                select status, object, file.bytes, account.name
                from file join account on account.id = file.account
                where file.id = ?1 and disabled_at is null";
            let found: Option<(FileStatus, Option<String>, i64, String)> =
                tx.first(sql, values![id], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?;
            let Some((status, replaced, before, name)) = found else {
                return Ok(Arrival::Deleted);
            };
            if status != FileStatus::Pending {
                return Ok(Arrival::Registered);
            }
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            if let Err(over) = has_quota(tx, account, size - before, max_bytes)? {
                return Ok(Arrival::OverQuota(over));
            }
            let sql = "update file set object = ?1, bytes = ?2 where id = ?3";
            tx.execute(sql, values![object, size, id])?;
            let at = deed.at;
            note(tx, &Deed { account: Some(name), ..deed }, &id)?;
            if !keep_object(tx, &object)? {
                return Err(Error::other(format!("{object} took so long that it was removed")));
            }
            if let Some(replaced) = &replaced {
                discard_object(tx, replaced, SignedDuration::ZERO, at)?;
            }
            Ok(Arrival::Taken { replaced })
        })
        .await
    }

    /// The account's registered file with this identifier or name.
    pub(crate) async fn ready_file(
        &self,
        account: i64,
        id_or_name: &str,
    ) -> Result<Option<FileRow>> {
        let sql = format!(
            "select {COLUMNS} from file
             where account = ?1 and status = '{}' and (id = ?2 or name = ?2)
             order by id = ?2 desc limit 1",
            FileStatus::Ready
        );
        self.read(|tx| tx.first(&sql, values![account, id_or_name], file_row)).await
    }

    /// Registers a pending file with the content that was checked.
    pub(crate) async fn register_file(
        &self,
        file: FileRow,
        account: i64,
        write: IdempotentWrite,
        answer: Answer,
    ) -> Result<Once<Unregistered>> {
        self.write_once(write, answer, Some(file.id.clone()), move |tx| {
            let sql = "select status, object from file where id = ?1 and account = ?2";
            let found: Option<(FileStatus, Option<String>)> =
                tx.first(sql, values![file.id, account], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((status, object)) = found else {
                return Ok(Err(Unregistered::Deleted));
            };
            if status != FileStatus::Pending {
                return Ok(Err(Unregistered::IsReady));
            }
            if object != file.object {
                return Ok(Err(Unregistered::Replaced));
            }
            if is_taken(tx, account, &file.name)? {
                return Ok(Err(Unregistered::NameTaken));
            }
            let sql = "
                update file
                set name = ?1, kind = ?2, format = ?3, status = ?4, size = ?5, sha256 = ?6,
                    pdb_id = ?7, created_at = ?8, warnings = ?9, bytes = ?10
                where id = ?11";
            // What arrived, unless it did so under the first version, which did not count it.
            let bytes = file.size.unwrap_or(0);
            let values = values![
                file.name,
                file.kind,
                file.format,
                FileStatus::Ready,
                file.size,
                file.sha256,
                file.pdb_id,
                file.created_at,
                file.warnings,
                bytes,
                file.id,
            ];
            tx.execute(sql, values)?;
            Ok(Ok(()))
        })
        .await
    }

    /// Makes a file of an object that has been announced and written.
    pub(crate) async fn create_ready_file(
        &self,
        file: FileRow,
        account: i64,
        max_bytes: u64,
        write: IdempotentWrite,
        answer: Answer,
    ) -> Result<Once<Unregistered>> {
        self.write_once(write, answer, Some(file.id.clone()), move |tx| {
            if is_taken(tx, account, &file.name)? {
                return Ok(Err(Unregistered::NameTaken));
            }
            let size = file.size.unwrap_or(0);
            if let Err(over) = has_quota(tx, account, size, max_bytes)? {
                return Ok(Err(Unregistered::OverQuota(over)));
            }
            let sql = "
                insert into file
                    (id, account, name, kind, format, status, size, sha256, pdb_id, created_at, object, warnings,
                     bytes)
                values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
            let values = values![
                file.id,
                account,
                file.name,
                file.kind,
                file.format,
                FileStatus::Ready,
                file.size,
                file.sha256,
                file.pdb_id,
                file.created_at,
                file.object,
                file.warnings,
                size,
            ];
            tx.execute(sql, values)?;
            if let Some(object) = &file.object {
                // A moment after it was announced.
                keep_object(tx, object).map(drop)?;
            }
            Ok(Ok(()))
        })
        .await
    }

    /// Deletes a file; its content becomes garbage. One that a task is still to read stays. Gives
    /// the object that is to be removed, if there is one.
    pub(crate) async fn delete_file(
        &self,
        account: i64,
        id: String,
        deed: Deed,
    ) -> Result<(Deletion, Option<String>)> {
        let kept = self.kept;
        self.write_also_when_full(Scope::Account(account), move |tx| {
            let sql = "select object from file where id = ?1 and account = ?2";
            let found: Option<Option<String>> =
                tx.first(sql, values![id, account], |row| row.get(0))?;
            let Some(object) = found else {
                return Ok((Deletion::NotFound, None));
            };
            let sql = format!(
                "select task.id from task_input join task on task.id = task_input.task
                 where file = ?1 and {} order by seq limit 1",
                is_open()
            );
            let dependent = tx.first(&sql, values![id], |row| row.get(0))?;
            if let Some(dependent) = dependent {
                return Ok((Deletion::NeededBy(dependent), None));
            }
            tx.execute("delete from file where id = ?1", values![id])?;
            note(tx, &deed, &id)?;
            if let Some(object) = &object {
                discard_object(tx, object, kept, deed.at)?;
            }
            Ok((Deletion::Done, object))
        })
        .await
    }

    /// The account's files that wait for their content, and those that are newer than this number,
    /// oldest first.
    pub(crate) async fn pending_and_newer(&self, account: i64, seq: i64) -> Result<Vec<FileRow>> {
        let pending = FileStatus::Pending;
        let sql = format!(
            "select {COLUMNS} from file where account = ?1 and status = '{pending}' and seq <= ?2
             union all
             select {COLUMNS} from file where account = ?1 and seq > ?2
             order by 1"
        );
        self.read(|tx| tx.all(&sql, values![account, seq], file_row)).await
    }

    /// The number of the account's newest file; 0 where there is none.
    pub(crate) async fn newest_file(&self, account: i64) -> Result<i64> {
        let sql = "select coalesce(max(seq), 0) from file where account = ?1";
        self.read(|tx| tx.one(sql, values![account], |row| row.get(0))).await
    }

    /// A page of the account's files, newest first.
    pub(crate) async fn files(
        &self,
        account: i64,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<FileRow>> {
        let Filter { before, name, .. } = filter;
        let sql = listing(filter);
        self.read(|tx| {
            tx.all(&sql, values![account, before, limit as i64, filter.status(), name], file_row)
        })
        .await
    }
}

/// Whether a registered file of the account has this name.
fn is_taken(tx: &Tx<'_>, account: i64, name: &str) -> Result<bool> {
    let sql = format!(
        "select 1 from file where account = ?1 and name = ?2 and status = '{}'",
        FileStatus::Ready
    );
    tx.exists(&sql, values![account, name])
}

/// The query of a page. It has the conditions that are asked for only, so that each has its index.
pub(super) fn listing(filter: &Filter) -> String {
    let status = if filter.status.is_some() { "status = ?4" } else { "cast(?4 as text) is null" };
    let name = if filter.name.is_some() { "name = ?5" } else { "cast(?5 as text) is null" };
    format!(
        "select {COLUMNS} from file
         where account = ?1 and seq < coalesce(?2, 9223372036854775807) and {status} and {name}
         order by seq desc limit ?3"
    )
}
