//! Systems: building, listing, downloading.

use axum::response::Response;
use molbox::workflow::types::{SystemBuildRequest, SystemPage, SystemRecord, SystemSummary};

use super::file::provide_entry;
use super::{
    Call, cancelled, common, delete_task, download, json, new_task, not_ready, page, paged, queue, said, stored,
};
use crate::app::App;
use crate::db::TaskRow;
use crate::error::ApiError;
use crate::tasks::build;
use crate::validate::loc;

const KIND: &str = "system";

pub(crate) async fn system_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<SystemBuildRequest>()?;
    app.check_disk()?;
    if let Some(protein) = &request.protein {
        provide_entry(&call, "protein", protein).await?;
    }
    let plan = build::resolve(app, call.account(), &request, outside)?;
    let row = TaskRow {
        name: request.box_name.clone(),
        seed: request.seed.map_or_else(|| app.new_seed(), |seed| seed as i64),
        ..new_task(&call, KIND, "box", &request, &plan, warnings)?
    };
    queue(&call, row, plan.inputs(), record).await
}

pub(crate) async fn system_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.tasks(call.account(), KIND, &filter, limit + 1)?;
    let (items, next_page) = paged(&call, rows, &filter, limit, |row| row.seq, |row| record(&call.app, row))?;
    json(&SystemPage { items, next_page })
}

pub(crate) async fn system_view(call: Call) -> Result<Response, ApiError> {
    json(&record(&call.app, &find(&call)?)?)
}

pub(crate) async fn system_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn system_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND, record).await
}

pub(crate) async fn system_download(call: Call) -> Result<Response, ApiError> {
    let row = find(&call)?;
    let Some(layout) = call.app.db.bundle(&row.id)? else {
        let at = vec![loc("path"), loc("system_id")];
        return Err(not_ready(at, &row.id, &row.status, "it can be downloaded when it has ended"));
    };
    call.note_download(&row.id).await;
    download(&call, stored(&layout)?, "application/zip", &format!("{}.zip", row.id))
}

fn find(call: &Call) -> Result<TaskRow, ApiError> {
    let id = call.parameter("system_id");
    call.app.db.task(call.account(), KIND, id)?.ok_or_else(|| ApiError::not_found(KIND, id))
}

fn record(app: &App, row: &TaskRow) -> Result<SystemRecord, ApiError> {
    let common = common(app, row)?;
    let ours = |_| ApiError::internal(anyhow::anyhow!("an identifier of our own"));
    let is_running = row.status == "running";
    let summary: Option<SystemSummary> = said(&common.said, "summary")?;
    Ok(SystemRecord {
        system_id: row.id.parse().map_err(ours)?,
        box_name: row.name.clone(),
        status: row.status.clone(),
        request: stored(&row.request)?,
        created_at: common.created_at,
        started_at: common.started_at,
        finished_at: common.finished_at,
        attempts: common.attempts,
        progress: if is_running { said(&common.said, "progress")? } else { None },
        summary,
        warnings: common.warnings,
        error: said(&common.said, "error")?,
        held: common.held,
        extra: Default::default(),
    })
}
