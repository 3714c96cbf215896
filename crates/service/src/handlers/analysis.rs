//! Analyses: submission, listing, data.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::{AnalysisPreview, AnalysisRequest, AnalysisSettings, Notice};
use tokio::runtime::Handle;

use super::record_text::{both, record};
use super::task::{
    bundle, cancelled, delete_task, find, json, listed, not_there, priority, queue, with_place,
};
use crate::db::Reads;
use crate::error::{ApiError, not_ready, stored};
use crate::http::answer::{self, text};
use crate::http::call::Call;
use crate::http::download::{download, while_good};
use crate::http::validate::loc;
use crate::objects::Key;
use crate::plan::analyze;
use crate::record::{Kind, NewTask, Status, Task};

const KIND: Kind = Kind::Analysis;

pub(crate) async fn analysis_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<AnalysisRequest>()?;
    app.check_disk()?;
    let (account, asked) = (call.account(), request.clone());
    let names_file = [&request.topology, &request.trajectory, &request.reference_file]
        .into_iter()
        .any(Option::is_some);
    // Reads topologies, perhaps large ones.
    let resolved = call.in_turn(!names_file, move |app| {
        Handle::current().block_on(analyze::resolve(app, account, &asked, outside))
    });
    let (plan, partial) = resolved.await?;
    let partial: Vec<_> = partial.into_iter().collect();
    let warnings = both(&warnings, &json(&partial)?);
    let task = NewTask {
        id: app.new_id(KIND.prefix()),
        account: call.account(),
        kind: KIND,
        name: None,
        parent: plan.job.clone(),
        request: json(&request)?,
        parameters: json(&plan)?,
        // It draws nothing.
        seed: 0,
        warnings,
        bytes: 0,
        priority: priority(request.priority),
        created_at: app.now(),
    };
    queue(&call, task, Reads { files: plan.inputs(), reference: plan.reference_task() }).await
}

pub(crate) async fn analysis_check(call: Call) -> Result<Response, ApiError> {
    let (request, warnings, outside) = call.readable::<AnalysisRequest>()?;
    let (account, asked) = (call.account(), request.clone());
    // The same, and the number of frames of a trajectory.
    let checked = call.in_turn(false, move |app| {
        Handle::current().block_on(async {
            let (plan, partial) = analyze::resolve(app, account, &asked, outside).await?;
            let estimate = plan.estimate(app, &asked).await?;
            Ok((plan, partial, estimate))
        })
    });
    let (plan, partial, estimate) = checked.await?;
    let mut warnings: Vec<Notice> = stored(&warnings)?;
    warnings.extend(partial);
    let priority = priority(request.priority);
    let settings = serde_json::to_value(&request).and_then(serde_json::from_value);
    let asked: AnalysisSettings = settings.map_err(ApiError::internal)?;
    answer::json(&AnalysisPreview {
        parameters: AnalysisSettings { job_id: plan.job, ..asked },
        warnings,
        estimate: with_place(&call, KIND, priority, estimate),
        extra: Default::default(),
    })
}

pub(crate) async fn analysis_list(call: Call) -> Result<Response, ApiError> {
    listed(&call, KIND).await
}

pub(crate) async fn analysis_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&call.app, &find(&call, KIND).await?)?))
}

pub(crate) async fn analysis_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn analysis_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND).await
}

pub(crate) async fn analysis_retrieve(call: Call) -> Result<Response, ApiError> {
    let row = analysed(&call).await?;
    call.note_download(&row.id).await;
    if call
        .headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.as_bytes().starts_with(b"application/zip"))
    {
        let layout = bundle(&call, &row).await?;
        let layout = layout
            .ok_or_else(|| ApiError::internal(anyhow::anyhow!("{} has no bundle", row.id)))?;
        return download(&call, layout, "application/zip", &format!("{}.zip", row.id));
    }
    let (objects, key) = (&call.app.objects, Key::task(&row.id).under("data.json"));
    let size = objects.size(&key)?;
    if size == 0 {
        // Every analysis that has succeeded has data: it has been deleted since it was found.
        return Err(not_there(&call.app, KIND, &row.id));
    }
    let data = objects.clone().stream(key, 0..size);
    let body = Body::from_stream(while_good(&call, data));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

/// The analysis that is asked for, by itself or by its job; it has to have succeeded.
async fn analysed(call: &Call) -> Result<Task, ApiError> {
    let (db, id) = (&call.app.db, call.parameter("job_id"));
    let at = || vec![loc("path"), loc("job_id")];
    let needs = "its data can be retrieved when it has succeeded";
    if let Some(row) = db.task(call.account(), KIND, id).await? {
        return if row.status == Status::Succeeded {
            Ok(row)
        } else {
            Err(not_ready(at(), id, row.status, needs))
        };
    }
    if db.task(call.account(), Kind::Job, id).await?.is_none() {
        return Err(not_there(&call.app, Kind::Job, id));
    }
    if let Some(row) = db.latest_analysis(call.account(), id, Some(Status::Succeeded)).await? {
        return Ok(row);
    }
    Err(match db.latest_analysis(call.account(), id, None).await? {
        Some(row) => not_ready(at(), &row.id, row.status, needs),
        None => ApiError::conflict(
            at(),
            format!("{id} has not been analysed; submit an analysis of it"),
        ),
    })
}
