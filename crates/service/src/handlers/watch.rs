//! Streams of records as they change, as server-sent events.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::file;
use super::record_text::record;
use super::task::find;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::record::{FileStatus, Kind};

/// How often what is followed is looked at.
const TICK: Duration = Duration::from_millis(500);
/// So much longer than a look took the account's next one waits: all its streams together take a fifth
/// of a CPU, however many there are and whatever they follow.
const PAUSE: u32 = 4;
/// A comment keeps a quiet connection open.
const KEEP_ALIVE_TICKS: u32 = 30;
/// What has ended so long before a look is told: of what was queued again and ended between two
/// looks no other trace is left, and an end is written a little later than the time that it has.
const LATE: Duration = Duration::from_secs(10);

pub(crate) async fn job_watch(call: Call) -> Result<Response, ApiError> {
    find(&call, Kind::Job).await?;
    Ok(stream(call, Followed::Job { last: String::new() }))
}

pub(crate) async fn account_watch(call: Call) -> Result<Response, ApiError> {
    let newest_file = call.app.db.newest_file(call.account()).await?;
    let account = Account { newest_file, ..Account::default() };
    Ok(stream(call, Followed::Account(account)))
}

fn stream(call: Call, followed: Followed) -> Response {
    let watch = Watch { call, followed, due: VecDeque::new(), quiet: 0, is_over: false };
    let events = futures::stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((event.map_err(|error| std::io::Error::other(format!("{error:?}"))), watch))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // nginx would keep events back until it has some kilobytes of them.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(events)).into_response()
}

/// What a stream follows.
enum Followed {
    /// The job that the path names, with its record as it was last sent.
    Job {
        last: String,
    },
    Account(Account),
}

/// What has been sent of an account.
#[derive(Default)]
struct Account {
    /// Hashes of the records of what may still change, by identifier.
    sent: HashMap<String, u64>,
    hasher: RandomState,
    /// Every file up to this number has been sent, unless it is pending.
    newest_file: i64,
    /// Files that were pending at the last look.
    pending: Vec<String>,
    /// Tasks that were open then.
    open: Vec<(Kind, String)>,
    last_look: Option<Timestamp>,
}

struct Watch {
    call: Call,
    followed: Followed,
    /// Events that are to be sent.
    due: VecDeque<String>,
    /// Looks since the last event.
    quiet: u32,
    is_over: bool,
}

impl Watch {
    /// The next event; none when what is followed has ended or was deleted, the key or the session
    /// is no longer good, or the service ends.
    async fn next(&mut self) -> Option<Result<String, ApiError>> {
        loop {
            if let Some(event) = self.due.pop_front() {
                self.quiet = 0;
                return Some(Ok(event));
            }
            let mut stopping = self.call.app.stopping.subscribe();
            if self.is_over || *stopping.borrow_and_update() {
                return None;
            }
            let turn = self.call.app.watches.take(self.call.account(), "").await;
            let start = Instant::now();
            let looked = match self.call.app.is_still_good(self.call.caller().id()).await {
                Ok(true) => self.look().await,
                Ok(false) => return None,
                Err(error) => Err(error),
            };
            let pause = start.elapsed() * PAUSE;
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                drop(turn);
            });
            if let Err(error) = looked {
                self.is_over = true;
                return (!error.is_not_found()).then_some(Err(error));
            }
            if self.is_over || !self.due.is_empty() {
                continue;
            }
            self.quiet += 1;
            if self.quiet.is_multiple_of(KEEP_ALIVE_TICKS) {
                return Some(Ok(": still there\n\n".to_owned()));
            }
            tokio::select! {
                () = tokio::time::sleep(TICK) => {}
                _ = stopping.changed() => {}
            }
        }
    }

    async fn look(&mut self) -> Result<(), ApiError> {
        match &mut self.followed {
            Followed::Job { last } => {
                let job = find(&self.call, Kind::Job).await?;
                let now = record(&self.call.app, &job)?;
                self.is_over = !job.status.is_open();
                if now != *last {
                    self.due.push_back(event(Kind::Job.name(), &now));
                    *last = now;
                }
            }
            Followed::Account(account) => account.look(&self.call, &mut self.due).await?,
        }
        Ok(())
    }
}

impl Account {
    /// Adds what has changed since the last look.
    async fn look(&mut self, call: &Call, due: &mut VecDeque<String>) -> Result<(), ApiError> {
        let (app, owner, now) = (&call.app, call.account(), call.app.now());
        let before = std::mem::take(&mut self.sent);

        let mut files = Vec::new();
        let listed = app.db.pending_and_newer(owner, self.newest_file).await?;
        let known: HashSet<&str> = listed.iter().map(|file| &*file.id).collect();
        for id in std::mem::take(&mut self.pending) {
            // One that is not there any more has expired or was deleted.
            if !known.contains(&*id) {
                files.extend(app.db.file(owner, &id).await?);
            }
        }
        files.extend(listed);
        for row in &files {
            self.newest_file = self.newest_file.max(row.seq);
            if row.status == FileStatus::Pending {
                self.pending.push(row.id.clone());
            }
            self.tell(&before, &row.id, "file", file::record(row)?, due);
        }

        let since = self.last_look.replace(now).unwrap_or(now) - LATE;
        let mut tasks = Vec::new();
        let listed = app.db.open_and_ended(owner, since).await?;
        let known: HashSet<&str> = listed.iter().map(|task| &*task.id).collect();
        for (kind, id) in std::mem::take(&mut self.open) {
            if !known.contains(&*id) {
                tasks.extend(app.db.task(owner, kind, &id).await?);
            }
        }
        tasks.extend(listed);
        for task in &tasks {
            if task.status.is_open() {
                self.open.push((task.kind, task.id.clone()));
            }
            self.tell(&before, &task.id, task.kind.name(), record(app, task)?, due);
        }
        Ok(())
    }

    /// Sends a record that is not what was sent before.
    fn tell(
        &mut self,
        before: &HashMap<String, u64>,
        id: &str,
        name: &str,
        record: String,
        due: &mut VecDeque<String>,
    ) {
        let hash = self.hasher.hash_one(&record);
        if before.get(id) != Some(&hash) {
            due.push_back(event(name, &record));
        }
        self.sent.insert(id.to_owned(), hash);
    }
}

fn event(name: &str, record: &str) -> String {
    format!("event: {name}\ndata: {record}\n\n")
}
