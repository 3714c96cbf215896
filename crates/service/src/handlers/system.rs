//! Systems: building, listing, downloading.

use axum::response::Response;
use molbox::workflow::types::SystemBuildRequest;
use serde::Serialize;
use serde_json::value::RawValue;

use super::file::provide_entry;
use super::{
    Call, Common, Said, cancelled, common, delete_task, download, json, new_task, not_ready, page, paged, queue, stored,
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
    json(&paged(&call, rows, &filter, limit, |row| row.seq, |row| record(&call.app, row))?)
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

/// `SystemRecord` of the document.
#[derive(Serialize)]
pub(super) struct Record {
    system_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    box_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Box<RawValue>>,
    #[serde(flatten)]
    common: Common,
}

impl Record {
    pub(super) fn new(row: &TaskRow, common: Common, said: Said) -> Self {
        Self { system_id: row.id.clone(), box_name: row.name.clone(), summary: said.summary, common }
    }
}

fn record(app: &App, row: &TaskRow) -> Result<Record, ApiError> {
    let (common, said) = common(app, row)?;
    Ok(Record::new(row, common, said))
}
