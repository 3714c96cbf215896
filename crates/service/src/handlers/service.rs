//! The service itself.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::{Health, Progress};
use serde::Deserialize;

use crate::app::App;
use crate::error::ApiError;
use crate::http::answer::json;
use crate::http::call::Call;
use crate::http::validate::DOCUMENT;
use crate::metrics::Now;
use crate::record::Lane;
use crate::runner::hold::Hold;

pub(crate) async fn service_health(call: Call) -> Result<Response, ApiError> {
    if *call.app.leaving.borrow() {
        let cause = anyhow::anyhow!("it was asked to end");
        return Err(ApiError::unavailable("this server is about to end", cause));
    }
    call.app.db.check_folder().map_err(anyhow::Error::new)?;
    // A key that cannot be: the database answers, which is the point.
    call.app.db.key("").await?;
    let held: Vec<_> = call.app.holds.all().iter().map(Hold::shown).collect();
    let status = if held.is_empty() { "ok" } else { "held" }.to_owned();
    json(&Health { status, version: version(), held, extra: Default::default() })
}

pub(crate) async fn service_live(_: Call) -> Result<Response, ApiError> {
    let status = "ok".to_owned();
    json(&Health { status, version: version(), held: Vec::new(), extra: Default::default() })
}

fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

pub(crate) async fn service_metrics(call: Call) -> Result<Response, ApiError> {
    metrics(&call.app).await
}

/// All that is counted, as Prometheus reads it.
pub(crate) async fn metrics(app: &App) -> Result<Response, ApiError> {
    let text = app.metrics.text(now(app).await?, &app.objects, &app.holds)?;
    Ok((
        [(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))],
        text,
    )
        .into_response())
}

/// The queues as they are.
async fn now(app: &App) -> Result<Now, ApiError> {
    let at = app.now();
    let wait = async |lane| -> Result<f64, ApiError> {
        let oldest = app.db.oldest_queued(lane).await?;
        Ok(oldest.map_or(0.0, |oldest| at.duration_since(oldest).as_secs_f64().max(0.0)))
    };
    Ok(Now {
        tasks: app.db.task_counts().await?,
        lanes: [
            (Lane::Workers, app.config.slots(), wait(Lane::Workers).await?),
            (Lane::Analyses, app.config.worker.analyses, wait(Lane::Analyses).await?),
        ],
        ns_per_day: app.db.running_jobs().await?.iter().filter_map(|id| speed(app, id)).sum(),
        gpus: app.config.worker.gpus.iter().map(|gpu| (*gpu, app.holds.has_gpu(*gpu))).collect(),
    })
}

/// How fast a running simulation says that it is, in ns/day.
fn speed(app: &App, id: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Said {
        progress: Progress,
    }
    let said: Said = serde_json::from_str(&app.progress(id)?).ok()?;
    Some(said.progress.ns_per_day?.get())
}

pub(crate) async fn service_document(_: Call) -> Result<Response, ApiError> {
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT).into_response())
}
