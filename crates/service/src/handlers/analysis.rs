//! Analyses: submission, listing, data.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::{AnalysisRequest, Notice};

use super::{
    Call, cancelled, delete_task, download, new_task, not_ready, page, paged, queue, record, stored, task_prefix, text,
};
use crate::bundle::read_chunks;
use crate::db::TaskRow;
use crate::error::ApiError;
use crate::tasks::analyze;
use crate::validate::loc;

const KIND: &str = "analysis";

pub(crate) async fn analysis_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<AnalysisRequest>()?;
    app.check_disk()?;
    let (resolving, account, asked) = (app.clone(), call.account(), request.clone());
    // Reads topologies, perhaps large ones.
    let plan = tokio::task::spawn_blocking(move || analyze::resolve(&resolving, account, &asked, outside));
    let (plan, partial) = plan.await.map_err(ApiError::internal)??;
    let mut notices: Vec<Notice> = stored(&warnings)?;
    notices.extend(partial);
    let warnings = serde_json::to_string(&notices).map_err(ApiError::internal)?;
    let row = TaskRow { parent: plan.job.clone(), ..new_task(&call, KIND, "ana", &request, &plan, warnings)? };
    queue(&call, row, plan.inputs()).await
}

pub(crate) async fn analysis_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.tasks(call.account(), KIND, &filter, limit + 1)?;
    paged(&call, rows, &filter, limit, |row| row.seq, |row| record(&call.app, row))
}

pub(crate) async fn analysis_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&call.app, &find(&call, call.parameter("analysis_id"))?)?))
}

pub(crate) async fn analysis_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn analysis_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND).await
}

pub(crate) async fn analysis_retrieve(call: Call) -> Result<Response, ApiError> {
    let row = analysed(&call)?;
    call.note_download(&row.id).await;
    if call.headers.get_all(ACCEPT).iter().any(|value| value.as_bytes().starts_with(b"application/zip")) {
        let layout = call.app.db.bundle(&row.id)?;
        let layout = layout.ok_or_else(|| ApiError::internal(anyhow::anyhow!("{} has no bundle", row.id)))?;
        return download(&call, stored(&layout)?, "application/zip", &format!("{}.zip", row.id));
    }
    let file = call.app.objects.open_object(&format!("{}/data.json", task_prefix(&row.id)))?;
    let size = file.metadata()?.len();
    let body = Body::from_stream(read_chunks(tokio::fs::File::from_std(file), size));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

/// The analysis that is asked for, by itself or by its job; it has to have succeeded.
fn analysed(call: &Call) -> Result<TaskRow, ApiError> {
    let (db, id) = (&call.app.db, call.parameter("job_id"));
    let at = || vec![loc("path"), loc("job_id")];
    let needs = "its data can be retrieved when it has succeeded";
    if let Some(row) = db.task(call.account(), KIND, id)? {
        return if row.status == "succeeded" { Ok(row) } else { Err(not_ready(at(), id, &row.status, needs)) };
    }
    if db.task(call.account(), "job", id)?.is_none() {
        return Err(ApiError::not_found("job", id));
    }
    if let Some(row) = db.latest_analysis(call.account(), id, Some("succeeded"))? {
        return Ok(row);
    }
    Err(match db.latest_analysis(call.account(), id, None)? {
        Some(row) => not_ready(at(), &row.id, &row.status, needs),
        None => ApiError::conflict(at(), format!("{id} has not been analysed; submit an analysis of it")),
    })
}

fn find(call: &Call, id: &str) -> Result<TaskRow, ApiError> {
    call.app.db.task(call.account(), KIND, id)?.ok_or_else(|| ApiError::not_found(KIND, id))
}
