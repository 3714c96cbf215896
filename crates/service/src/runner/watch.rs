//! Watches over a running task: stops one that was cancelled, gives no sign of life, or takes too
//! long, and kills it when it does not stop.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::config::Worker;
use crate::exec::attempt::{Attempt, EXIT};
use crate::exec::{Executors, Stop};
use crate::record::{Kind, Task};
use crate::runner::failure::Why;
use crate::runner::left::{self, LOG};

/// How long a killed task may take to die before it is killed again.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// What is known of a task since this service has seen it run.
pub(crate) struct Watch {
    since: Instant,
    /// How long it had run when this service began.
    before: Duration,
    heartbeat: Heartbeat,
    stopping: Option<Stopping>,
}

/// When a worker last touched a file. The clock may jump, so that only a change counts, and when
/// it was seen.
struct Heartbeat {
    modified: Option<SystemTime>,
    seen: Instant,
}

/// A worker that has been asked to stop or killed, and why.
#[derive(Clone, Copy)]
struct Stopping {
    why: Why,
    asked: Instant,
    /// When it was killed last.
    killed: Option<Instant>,
}

impl Stopping {
    fn is_kill_due(self) -> bool {
        self.killed.is_none_or(|killed| killed.elapsed() > KILL_TIMEOUT)
    }
}

impl Watch {
    pub(crate) fn new(before: Duration) -> Self {
        let now = Instant::now();
        let heartbeat = Heartbeat { modified: None, seen: now };
        Self { since: now, before, heartbeat, stopping: None }
    }

    /// How long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.before + self.since.elapsed()
    }

    /// Why the task was stopped, if it was.
    pub(crate) fn why(&self) -> Option<Why> {
        self.stopping.map(|stopping| stopping.why)
    }

    /// Looks at the task, which waits for a place: neither silence nor time is counted.
    pub(crate) async fn wait(&mut self, executors: &Executors, attempt: &Attempt, row: &Task) {
        let now = Instant::now();
        (self.since, self.before) = (now, Duration::ZERO);
        self.heartbeat.seen = now;
        let is_due = self.stopping.is_none_or(|stopping| stopping.is_kill_due());
        if row.is_cancelled && is_due {
            report("kill a task", executors.stop(attempt, Stop::Kill).await);
            self.stopping = Some(Stopping { why: Why::Cancelled, asked: now, killed: Some(now) });
        }
    }

    /// Looks at the task, which runs.
    pub(crate) async fn look(
        &mut self,
        worker: &Worker,
        executors: &Executors,
        attempt: &Attempt,
        row: &Task,
    ) {
        self.heartbeat.look(&attempt.folder);
        if let Some(stopping) = &mut self.stopping {
            let (since, timeout) = match stopping.killed {
                Some(killed) => (killed, KILL_TIMEOUT),
                None => (stopping.asked, Duration::from_secs(worker.stop_seconds)),
            };
            if since.elapsed() > timeout {
                report("kill a task", executors.stop(attempt, Stop::Kill).await);
                stopping.killed = Some(Instant::now());
            }
            return;
        }
        let why = if row.is_cancelled {
            Why::Cancelled
        } else if is_over(self.heartbeat.seen.elapsed(), worker.heartbeat_timeout_seconds) {
            Why::Silent
        } else if is_over(self.elapsed(), worker.wall_seconds) {
            Why::WallLimit
        } else {
            return;
        };
        tracing::info!(task = %attempt.task, ?why, "stopping");
        // What gives no sign of life would not hear, and a simulation alone has something to save.
        let is_killed = why == Why::Silent || (why == Why::Cancelled && row.kind != Kind::Job);
        if is_killed {
            report("kill a task", executors.stop(attempt, Stop::Kill).await);
        } else {
            report("stop a task", executors.stop(attempt, Stop::Ask).await);
        }
        let now = Instant::now();
        self.stopping = Some(Stopping { why, asked: now, killed: is_killed.then_some(now) });
    }
}

fn is_over(elapsed: Duration, seconds: u64) -> bool {
    seconds > 0 && elapsed > Duration::from_secs(seconds)
}

/// A signal that could not be sent is sent again.
fn report(what: &str, sent: io::Result<()>) {
    if let Err(error) = sent {
        tracing::error!(%error, "{what}");
    }
}

/// When a task last gave a sign of life, by the files in its folder.
pub(super) fn last_sign(folder: &Path) -> Option<SystemTime> {
    let of_worker =
        ["heartbeat", "progress.json"].iter().filter_map(|name| left::modified(folder, &[name]));
    let of_ours = [LOG, EXIT]
        .iter()
        .filter_map(|name| fs::symlink_metadata(folder.join(name)).ok()?.modified().ok());
    of_worker.chain(of_ours).max()
}

impl Heartbeat {
    fn look(&mut self, folder: &Path) {
        let newest = last_sign(folder);
        if newest != self.modified {
            *self = Self { modified: newest, seen: Instant::now() };
        }
    }
}
