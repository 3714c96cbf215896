//! Systems: building, listing, downloading.

use axum::response::Response;
use molbox::workflow::types::SystemBuildRequest;

use super::file::provide_entry;
use super::{Call, cancelled, delete_task, download, new_task, not_ready, page, paged, queue, record, stored, text};
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
    queue(&call, row, plan.inputs()).await
}

pub(crate) async fn system_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.tasks(call.account(), KIND, &filter, limit + 1)?;
    paged(&call, rows, &filter, limit, |row| row.seq, |row| record(&call.app, row))
}

pub(crate) async fn system_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&call.app, &find(&call)?)?))
}

pub(crate) async fn system_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn system_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND).await
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
