//! Systems: building, listing, downloading.

use axum::response::Response;
use molbox::workflow::types::SystemBuildRequest;

use super::file::provide_entry;
use super::record_text::record;
use super::task::{bundle, cancelled, delete_task, find, json, queue};
use crate::db::Reads;
use crate::error::{ApiError, not_ready};
use crate::http::answer::text;
use crate::http::call::Call;
use crate::http::download::download;
use crate::http::page::{page, paged};
use crate::http::validate::loc;
use crate::plan::build;
use crate::record::{Kind, NewTask};

const KIND: Kind = Kind::System;

pub(crate) async fn system_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<SystemBuildRequest>()?;
    app.check_disk()?;
    if let Some(protein) = &request.protein {
        provide_entry(&call, "protein", protein).await?;
    }
    let plan = build::resolve(app, call.account(), &request, outside).await?;
    let task = NewTask {
        id: app.new_id(KIND.prefix()),
        account: call.account(),
        kind: KIND,
        name: request.box_name.clone(),
        parent: None,
        request: json(&request)?,
        parameters: json(&plan)?,
        seed: request.seed.map_or_else(|| app.new_seed(), |seed| seed as i64),
        warnings,
        bytes: 0,
        created_at: app.now(),
    };
    queue(&call, task, Reads { files: plan.inputs(), reference: None }).await
}

pub(crate) async fn system_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.tasks(call.account(), KIND, &filter, limit + 1).await?;
    paged(&call, rows, &filter, limit, |row| row.seq, |row| record(&call.app, row))
}

pub(crate) async fn system_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&call.app, &find(&call, KIND).await?)?))
}

pub(crate) async fn system_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn system_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND).await
}

pub(crate) async fn system_download(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let Some(layout) = bundle(&call, &row).await? else {
        let at = vec![loc("path"), loc("system_id")];
        return Err(not_ready(at, &row.id, row.status, "it can be downloaded when it has ended"));
    };
    call.note_download(&row.id).await;
    download(&call, layout, "application/zip", &format!("{}.zip", row.id))
}
