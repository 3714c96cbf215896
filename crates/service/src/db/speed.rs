//! How fast tasks were.

use jiff::Timestamp;

use super::{Db, Result, Scope, values};
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
        self.write(Scope::Rows, move |tx| {
            let sql = "
                insert into speed
                    (task, kind, platform, threads, atoms, cutoff_pm, step_ns, minimise_step_ns,
                    minimise_steps, rest_ms, at)
                values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                on conflict (task) do update
                set platform = excluded.platform, threads = excluded.threads,
                    atoms = excluded.atoms, cutoff_pm = excluded.cutoff_pm,
                    step_ns = coalesce(excluded.step_ns, speed.step_ns),
                    minimise_step_ns = coalesce(excluded.minimise_step_ns, speed.minimise_step_ns),
                    minimise_steps = coalesce(excluded.minimise_steps, speed.minimise_steps),
                    rest_ms = coalesce(excluded.rest_ms, speed.rest_ms), at = excluded.at";
            let Measured { task, platform, .. } = &measured;
            let [threads, atoms, cutoff_pm] =
                [measured.threads, measured.atoms, measured.cutoff_pm].map(int);
            let optional = [
                measured.step_ns,
                measured.minimise_step_ns,
                measured.minimise_steps,
                measured.rest_ms,
            ];
            let [step_ns, minimise_step_ns, minimise_steps, rest_ms] =
                optional.map(|it| it.map(int));
            let values = values![
                task,
                kind,
                platform,
                threads,
                atoms,
                cutoff_pm,
                step_ns,
                minimise_step_ns,
                minimise_steps,
                rest_ms,
                now
            ];
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
            select task, platform, threads, atoms, cutoff_pm, step_ns, minimise_step_ns,
                minimise_steps, rest_ms
            from speed where kind = ?1 order by at desc, task";
        self.read(|tx| {
            tx.all(sql, values![kind], |row| {
                let count = |column| row.get::<i64>(column).map(i64::unsigned_abs);
                let optional =
                    |column| row.get::<Option<i64>>(column).map(|it| it.map(i64::unsigned_abs));
                Ok(Measured {
                    task: row.get(0)?,
                    platform: row.get(1)?,
                    threads: count(2)?,
                    atoms: count(3)?,
                    cutoff_pm: count(4)?,
                    step_ns: optional(5)?,
                    minimise_step_ns: optional(6)?,
                    minimise_steps: optional(7)?,
                    rest_ms: optional(8)?,
                })
            })
        })
        .await
    }
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
