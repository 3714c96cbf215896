//! How fast tasks were.

use jiff::Timestamp;

use super::{Db, Result, values};
use crate::record::Kind;
use crate::speed::{KEPT, Measured};

impl Db {
    /// Keeps what a task has shown, in place of what it has shown before; of its kind only the
    /// newest.
    pub(crate) async fn note_speed(
        &self,
        kind: Kind,
        measured: Measured,
        now: Timestamp,
    ) -> Result<()> {
        self.write(move |tx| {
            let sql = "
                insert into speed
                    (task, kind, platform, threads, atoms, cutoff_pm, step_ns, rest_ms, at)
                values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                on conflict (task) do update
                set platform = excluded.platform, threads = excluded.threads,
                    atoms = excluded.atoms, cutoff_pm = excluded.cutoff_pm,
                    step_ns = coalesce(excluded.step_ns, speed.step_ns),
                    rest_ms = coalesce(excluded.rest_ms, speed.rest_ms), at = excluded.at";
            let Measured { task, platform, .. } = &measured;
            let [threads, atoms, cutoff_pm] =
                [measured.threads, measured.atoms, measured.cutoff_pm].map(int);
            let [step_ns, rest_ms] = [measured.step_ns, measured.rest_ms].map(|it| it.map(int));
            let values =
                values![task, kind, platform, threads, atoms, cutoff_pm, step_ns, rest_ms, now];
            tx.execute(sql, values)?;
            let sql = "
                delete from speed
                where kind = ?1 and task not in
                    (select task from speed where kind = ?1 order by at desc, task limit ?2)";
            tx.execute(sql, values![kind, KEPT as i64]).map(drop)
        })
        .await
    }

    /// What tasks of a kind have shown, newest first.
    pub(crate) async fn speeds(&self, kind: Kind) -> Result<Vec<Measured>> {
        let sql = "
            select task, platform, threads, atoms, cutoff_pm, step_ns, rest_ms
            from speed where kind = ?1 order by at desc, task";
        self.read(|tx| {
            tx.all(sql, values![kind], |row| {
                let count = |column| row.get::<i64>(column).map(i64::unsigned_abs);
                let optional = |column| row.get::<Option<i64>>(column);
                Ok(Measured {
                    task: row.get(0)?,
                    platform: row.get(1)?,
                    threads: count(2)?,
                    atoms: count(3)?,
                    cutoff_pm: count(4)?,
                    step_ns: optional(5)?.map(i64::unsigned_abs),
                    rest_ms: optional(6)?.map(i64::unsigned_abs),
                })
            })
        })
        .await
    }
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
