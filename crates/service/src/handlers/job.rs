//! Jobs: submission, progress, results.

use axum::response::Response;
use molbox::workflow::types::{JobCreateParams, JobPage, JobRecord};

use super::{Call, common, download, json, not_ready, once, page, paged, said, stored};
use crate::app::App;
use crate::db::TaskRow;
use crate::error::ApiError;
use crate::tasks::simulate;
use crate::validate::loc;

const KIND: &str = "job";

pub(crate) async fn job_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let request: JobCreateParams = call.body()?;
    let system = system(&call, &request)?;
    let parameters = simulate::resolve(app, &request, &system)?;
    let row = TaskRow {
        seq: 0,
        id: app.new_id("job"),
        account: call.account(),
        kind: KIND.to_owned(),
        name: request.batch_name.clone(),
        parent: Some(system.id),
        status: "queued".to_owned(),
        request: serde_json::to_string(&request).map_err(ApiError::internal)?,
        seed: parameters.seed.map_or(0, |seed| seed as i64),
        parameters: serde_json::to_string(&parameters).map_err(ApiError::internal)?,
        attempts: 0,
        created_at: app.now(),
        started_at: None,
        finished_at: None,
        outcome: None,
    };
    let claim = call.claim(&record(app, &row)?)?;
    let text = claim.answer.clone();
    let done = app.db.create_task(row, claim).await?;
    app.wake.notify_one();
    once(done, text, || ApiError::internal(anyhow::anyhow!("a job that could not be stored")))
}

/// The system that a job is to run on, which must be built.
fn system(call: &Call, request: &JobCreateParams) -> Result<TaskRow, ApiError> {
    let at = vec![loc("body"), loc("box_id")];
    let system = match &request.box_id {
        Some(id) => call
            .app
            .db
            .task(call.account(), "system", id)?
            .ok_or_else(|| ApiError::not_found_in_body("box_id", format!("no system {}", id.as_str())))?,
        None => call.app.db.latest_task(call.account(), "system")?.ok_or_else(|| {
            ApiError::invalid_body("missing", vec![loc("box_id")], "there is no system yet; build one and give its id")
        })?,
    };
    if system.status != "succeeded" {
        return Err(not_ready(at, &system.id, &system.status, "a job needs a system that has succeeded"));
    }
    Ok(system)
}

pub(crate) async fn job_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.tasks(call.account(), KIND, &filter, limit + 1)?;
    let (items, next_page) = paged(rows, &filter, limit, |row| row.seq, |row| record(&call.app, row))?;
    json(&JobPage { items, next_page })
}

pub(crate) async fn job_view(call: Call) -> Result<Response, ApiError> {
    json(&record(&call.app, &find(&call)?)?)
}

pub(crate) async fn job_delete(call: Call) -> Result<Response, ApiError> {
    find(&call)?;
    Err(ApiError::not_built_yet("deleting a job"))
}

pub(crate) async fn job_cancel(call: Call) -> Result<Response, ApiError> {
    find(&call)?;
    Err(ApiError::not_built_yet("cancelling a job"))
}

pub(crate) async fn job_extend(call: Call) -> Result<Response, ApiError> {
    find(&call)?;
    Err(ApiError::not_built_yet("extending a job"))
}

pub(crate) async fn job_log(call: Call) -> Result<Response, ApiError> {
    find(&call)?;
    Err(ApiError::not_built_yet("the live log"))
}

pub(crate) async fn job_watch(call: Call) -> Result<Response, ApiError> {
    find(&call)?;
    Err(ApiError::not_built_yet("the stream of progress"))
}

pub(crate) async fn job_download(call: Call) -> Result<Response, ApiError> {
    let row = find(&call)?;
    let Some(layout) = call.app.db.bundle(&row.id)? else {
        let at = vec![loc("path"), loc("job_id")];
        return Err(not_ready(at, &row.id, &row.status, "its results can be downloaded when it has ended"));
    };
    download(&call, stored(&layout)?, "application/zip", &format!("{}.zip", row.id))
}

fn find(call: &Call) -> Result<TaskRow, ApiError> {
    let id = call.parameter("job_id");
    call.app.db.task(call.account(), KIND, id)?.ok_or_else(|| ApiError::not_found(KIND, id))
}

fn record(app: &App, row: &TaskRow) -> Result<JobRecord, ApiError> {
    let common = common(app, row)?;
    let ours = |_| ApiError::internal(anyhow::anyhow!("an identifier of our own"));
    let parameters: JobCreateParams = stored(&row.parameters)?;
    let is_running = row.status == "running";
    Ok(JobRecord {
        job_id: row.id.parse().map_err(ours)?,
        box_id: row.parent.as_deref().unwrap_or_default().parse().map_err(ours)?,
        batch_name: row.name.clone(),
        batch_index: parameters.batch_index,
        status: row.status.clone(),
        request: stored(&row.request)?,
        parameters,
        created_at: common.created_at,
        started_at: common.started_at,
        finished_at: common.finished_at,
        attempts: common.attempts,
        platform: said(&common.said, "platform")?,
        progress: if is_running { said(&common.said, "progress")? } else { None },
        stages: said(&common.said, "stages")?,
        warnings: said(&common.said, "warnings")?,
        error: said(&common.said, "error")?,
        extra: Default::default(),
    })
}
