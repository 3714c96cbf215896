//! What running tasks say of themselves, for servers that do not run them.

use jiff::{SignedDuration, Timestamp};

use super::runner::Lease;
use super::value::ToValue;
use super::{Db, Result, Scope, values};

/// Tasks whose progress one statement writes at most.
const AT_A_TIME: usize = 64;
/// A write may be committed so much later than the moment that it has.
const LATE: SignedDuration = SignedDuration::from_secs(10);

impl Db {
    /// Keeps what running tasks have said of themselves, each as JSON.
    pub(crate) async fn report_progress(
        &self,
        lease: Lease,
        said: Vec<(String, String)>,
        now: Timestamp,
    ) -> Result<()> {
        self.write(Scope::Rows, move |tx| {
            lease.check(tx)?;
            let now = tx.now(now)?;
            for some in said.chunks(AT_A_TIME) {
                let rows: Vec<String> = (0..some.len())
                    .map(|n| format!("(?{}, ?{}, ?1)", 2 * n + 2, 2 * n + 3))
                    .collect();
                let sql = format!(
                    "insert into progress (task, said, at) values {}
                     on conflict (task) do update set said = excluded.said, at = excluded.at",
                    rows.join(", ")
                );
                let mut values = vec![now.to_value()];
                values.extend(some.iter().flat_map(|(id, said)| [id.to_value(), said.to_value()]));
                tx.execute(&sql, &values)?;
            }
            Ok(())
        })
        .await
    }

    /// What running tasks have said since a moment, all of them without one; and the moment from
    /// which to ask the next time.
    pub(crate) async fn progress_since(
        &self,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(Vec<(String, String)>, Timestamp)> {
        self.read(|tx| {
            let now = tx.now(now)?;
            let sql = "select task, said from progress where at >= ?1";
            let since = since.unwrap_or(Timestamp::UNIX_EPOCH);
            let said = tx.all(sql, values![since], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok((said, now.checked_sub(LATE).unwrap_or(now)))
        })
        .await
    }
}
