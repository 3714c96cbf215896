//! The target of upload links: outside of the document, for a link is opaque.

use std::sync::Arc;

use axum::extract::{FromRequest, Multipart, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::error::ApiError;
use crate::objects::ReceiveError;
use crate::routes::{answer, query_of};
use crate::validate::{loc, violation};

/// Takes the content of a file: raw by PUT or POST, or the first file of a form by POST. Until the
/// file is registered, sending again replaces what was sent.
pub(crate) async fn upload(State(app): State<Arc<App>>, Path(file_id): Path<String>, request: Request) -> Response {
    answer(receive(&app, &file_id, request).await)
}

async fn receive(app: &App, file_id: &str, request: Request) -> Result<Response, ApiError> {
    let query = query_of(&request);
    let part = |name: &str| query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    app.check_upload_link(file_id, part("expires"), part("signature"))?;
    if app.db.pending_file_format(file_id)?.is_none() {
        return Err(ApiError::link_refused("the file has been registered; ask for another link"));
    }
    app.check_disk()?;
    let key = object_key(file_id);
    let unique = app.new_id("upload");
    let max = app.config.limits.upload_bytes;
    let media = request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let received = if media.starts_with("multipart/form-data") {
        let mut form = Multipart::from_request(request, &()).await.map_err(|e| broken(&e.body_text()))?;
        loop {
            let field = form.next_field().await.map_err(|e| broken(&e.body_text()))?;
            let field = field.ok_or_else(|| broken("the form has no file"))?;
            if field.file_name().is_some() {
                break app.objects.receive(&key, &unique, max, field).await;
            }
        }
    } else {
        app.objects.receive(&key, &unique, max, request.into_body().into_data_stream()).await
    };
    match received {
        Ok(_) => Ok(StatusCode::OK.into_response()),
        Err(ReceiveError::TooLarge) => Err(ApiError::too_large(max)),
        Err(ReceiveError::Broken(message)) => Err(broken(&message)),
        Err(ReceiveError::Store(error)) => Err(error.into()),
    }
}

fn broken(message: &str) -> ApiError {
    ApiError::invalid(vec![violation("upload_broken", vec![loc("body")], format!("the upload broke off: {message}"))])
}

/// Key of a file's content.
pub(crate) fn object_key(file_id: &str) -> String {
    format!("files/{file_id}")
}
