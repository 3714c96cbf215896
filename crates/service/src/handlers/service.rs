//! The service itself.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::Health;

use crate::app::App;
use crate::error::ApiError;
use crate::http::answer::json;
use crate::http::call::Call;
use crate::http::validate::DOCUMENT;
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
    let text = app.metrics.text(app.db.task_counts().await?, &app.objects, &app.holds)?;
    Ok((
        [(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))],
        text,
    )
        .into_response())
}

pub(crate) async fn service_document(_: Call) -> Result<Response, ApiError> {
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT).into_response())
}
