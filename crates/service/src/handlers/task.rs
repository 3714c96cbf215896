//! What systems, jobs and analyses share: to be queued, found, cancelled, deleted.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use molbox::workflow::types::{Estimate, LocItem};
use serde::Serialize;

use super::record_text::{new_record, record};
use crate::app::App;
use crate::db::{Listed, Reads, Unqueued};
use crate::error::{ApiError, not_ready, stored};
use crate::http::answer::{deleted, record_answer};
use crate::http::call::Call;
use crate::http::once::{once, remembered};
use crate::http::page::{page, paged};
use crate::http::validate::loc;
use crate::objects::Key;
use crate::objects::bundle::Layout;
use crate::objects::garbage::sweep_deleted;
use crate::record::{Ended, EndedRecord, Kind, NewTask, PRIORITY, Task};
use crate::shown::counted;

/// The task that the path names.
pub(crate) async fn find(call: &Call, kind: Kind) -> Result<Task, ApiError> {
    let id = call.parameter(&format!("{kind}_id"));
    let found = call.app.db.task(call.account(), kind, id).await?;
    found.ok_or_else(|| not_there(&call.app, kind, id))
}

/// Of a task that is not there, or not the account's.
pub(crate) fn not_there(app: &App, kind: Kind, id: &str) -> ApiError {
    ApiError::no_such_task(kind.name(), id, &app.config.retention.of_what_is_gone())
}

/// A page of tasks. Those that have ended are written once and kept: they change no more, unless
/// they are queued again.
pub(crate) async fn listed(call: &Call, kind: Kind) -> Result<Response, ApiError> {
    let (filter, limit) = page(call)?;
    let app = &call.app;
    let known = |id: &str, ended| {
        let record = app.records.found(id)?;
        (record.ended == ended).then(|| record.text.clone())
    };
    let rows = app.db.tasks_or(call.account(), kind, &filter, limit + 1, known).await?;
    paged(call, rows, &filter, limit, Listed::seq, |row| match row {
        Listed::Known(_, text) => Ok(text.clone()),
        Listed::Read(task) => {
            let text: Arc<str> = record(app, task)?.into();
            if let Some(finished_at) = task.finished_at {
                let ended = Ended { finished_at, expires_at: task.expires_at };
                let record = EndedRecord { ended, text: text.clone() };
                app.records.keep(&task.id, Arc::new(record), text.len());
            }
            Ok(text)
        }
    })
}

/// Layout of a task's bundle; none while there is nothing to download.
pub(crate) async fn bundle(call: &Call, row: &Task) -> Result<Option<Layout>, ApiError> {
    // It may have been deleted since its row was read.
    let found = call.app.db.bundle(&row.id).await?;
    let layout = found.ok_or_else(|| not_there(&call.app, row.kind, &row.id))?;
    layout.map(|layout| stored(&layout)).transpose()
}

/// The priority of a request.
pub(crate) fn priority(asked: Option<u64>) -> i64 {
    asked.and_then(|asked| i64::try_from(asked).ok()).unwrap_or(PRIORITY)
}

/// An estimate, with where a task of this priority would wait.
pub(crate) fn with_place(call: &Call, kind: Kind, priority: i64, estimate: Estimate) -> Estimate {
    let queue = call.app.place_of_new(kind, call.account(), priority, estimate.hours);
    Estimate { queue, ..estimate }
}

async fn cancel_task(call: &Call, kind: Kind) -> Result<Task, ApiError> {
    let (app, id) = (&call.app, call.parameter(&format!("{kind}_id")));
    let row = app.db.cancel_task(call.account(), kind, id.to_owned(), call.deed()).await?;
    app.wake.notify_one();
    row.ok_or_else(|| not_there(app, kind, id))
}

/// Cancels the task that the path names, and answers with its record as it is then.
pub(crate) async fn cancelled(call: &Call, kind: Kind) -> Result<Response, ApiError> {
    let row = cancel_task(call, kind).await?;
    // To cancel twice does nothing more, so the answer need not be one transaction with it.
    remembered(call, record_answer(record(&call.app, &row)?)).await
}

/// Deletes the task that the path names, with its objects.
pub(crate) async fn delete_task(call: &Call, kind: Kind) -> Result<Response, ApiError> {
    let id = call.parameter(&format!("{kind}_id")).to_owned();
    let key = Key::task(&id);
    let result = call
        .app
        .db
        .delete_task(call.account(), kind, id.clone(), key.to_string(), call.deed())
        .await?;
    call.app.systems.forget(&id);
    call.app.records.forget(&id);
    let answer = deleted(kind.name(), &id, result)?;
    sweep_deleted(&call.app.objects, &call.app.db, key).await;
    Ok(answer)
}

/// A value as rows have it.
pub(crate) fn json(value: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(value).map_err(ApiError::internal)
}

/// Queues a task that reads these, once, and answers with its record.
pub(crate) async fn queue(call: &Call, task: NewTask, reads: Reads) -> Result<Response, ApiError> {
    let answer = record_answer(new_record(&call.app, &task)?);
    let lane = task.kind.lane();
    let done = call
        .app
        .db
        .create_task(task, reads, call.app.allowance(), call.idempotent_write(), answer.clone())
        .await?;
    call.app.queued(lane).notify_one();
    once(done, &answer, |reason| unqueued(reason, || vec![loc("body")]))
}

/// Why a task was not queued; `at` is what named that which is in the way.
pub(crate) fn unqueued(reason: Unqueued, at: impl FnOnce() -> Vec<LocItem>) -> ApiError {
    match reason {
        Unqueued::TooMany(max) => {
            let tasks = counted(max as usize, "task");
            let msg = format!(
                "the account has {tasks} queued or running already, as many as it may \
                 (limits.open_tasks, or a limit of its own); wait until one has ended, cancel one, \
                 or ask the operator for more"
            );
            ApiError::too_many(msg, Duration::from_secs(60))
        }
        Unqueued::OverQuota(over) => ApiError::over_quota(over),
        Unqueued::OverHours(over) => ApiError::over_hours(over),
        Unqueued::InState(id, status) => {
            not_ready(at(), &id, status, "its state has changed in the meantime")
        }
        Unqueued::Deleted(id) => {
            ApiError::conflict(at(), format!("{id} has been deleted in the meantime"))
        }
        Unqueued::Disabled => ApiError::unauthorized("the account has been disabled"),
    }
}
