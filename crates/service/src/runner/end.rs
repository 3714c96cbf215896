//! Ends tasks: collects what they left, and notes what became of them.

use std::sync::Arc;

use anyhow::Result;
use tokio::task::{JoinError, spawn_blocking};

use crate::app::App;
use crate::db::{End, Lease, Requeue};
use crate::exec::attempt::Attempt;
use crate::objects::Key;
use crate::objects::bundle::Layout;
use crate::record::{Status, Task};
use crate::runner::collect::{Unusable, collect};
use crate::runner::failure::invalid_result;
use crate::runner::folder::{progress, settle_last};
use crate::runner::kept::{is_kept, keep};
use crate::runner::left;
use crate::runner::outcome::Outcome;

/// Queues a task again for another attempt, whichever server makes it.
pub(super) async fn queue_again(
    app: Arc<App>,
    lease: Lease,
    row: Task,
    attempt: Attempt,
    behind: Requeue,
) -> Result<()> {
    if is_kept(&app, &row) {
        let (keeping, own, job) = (app.clone(), lease.clone(), row.clone());
        spawn_blocking(move || keep(&keeping, &own, &job)).await??;
    }
    app.db.requeue_task(lease, row.account, row.id, behind, app.now()).await?;
    if behind == Requeue::NotBegun {
        attempt.withdraw()?;
    }
    Ok(())
}

/// Ends a task that was cancelled while nothing of it ran.
pub(super) async fn cancelled(app: Arc<App>, lease: Lease, row: Task, next: Attempt) -> Result<()> {
    let (settling, of, folder) = (app.clone(), row.clone(), next.folder.clone());
    spawn_blocking(move || settle_last(&settling, &of, &next)).await??;
    let so_far = progress(&folder).unwrap_or_default();
    let outcome = Outcome::default().with(so_far);
    collected(app, lease, row, Status::Cancelled, outcome).await
}

/// Collects what a task left, and ends it; it has failed when that cannot be used. It can be done
/// again.
pub(super) async fn collected(
    app: Arc<App>,
    lease: Lease,
    row: Task,
    status: Status,
    outcome: Outcome,
) -> Result<()> {
    match collect_and_end(&app, &lease, &row, status, outcome).await {
        Err(error) if error.is::<Unusable>() || error.is::<JoinError>() => {
            tracing::error!(task = %row.id, cause = format!("{error:#}"), "results that cannot be used");
            let outcome = Outcome::failed(invalid_result(row.kind));
            collect_and_end(&app, &lease, &row, Status::Failed, outcome).await
        }
        ended => ended,
    }
}

async fn collect_and_end(
    app: &Arc<App>,
    lease: &Lease,
    row: &Task,
    status: Status,
    mut outcome: Outcome,
) -> Result<()> {
    outcome.hide_folders()?;
    let (copy, collecting, own) = (row.clone(), app.clone(), lease.clone());
    let collecting = spawn_blocking(move || collect(&collecting, &own, &copy, status, outcome));
    let (outcome, layout) = collecting.await??;
    end(app, lease, row.account, &row.id, status, outcome, Some(layout)).await?;
    tracing::info!(task = %row.id, %status, "ended");
    // What is left is of no use to anybody.
    let folder = app.task_folder(&row.id);
    if let Err(error) = spawn_blocking(move || left::remove(&folder)).await? {
        tracing::warn!(task = %row.id, %error, "remove the folder of a task");
    }
    Ok(())
}

/// Ends a task, with the layout of its bundle if it has one.
pub(super) async fn end(
    app: &App,
    lease: &Lease,
    account: i64,
    id: &str,
    status: Status,
    outcome: Outcome,
    layout: Option<Layout>,
) -> Result<()> {
    let bundle = layout.map(|layout| serde_json::to_string(&layout)).transpose()?;
    let (objects, key) = (app.objects.clone(), Key::task(id));
    let bytes = spawn_blocking(move || objects.size(&key)).await??;
    let end = End { status, outcome: outcome.to_json(), bundle, bytes };
    app.db.end_task(lease.clone(), account, id.to_owned(), end, app.now()).await?;
    app.forget(id);
    Ok(())
}
