//! The route table, and what happens to every request before its handler: key, body, document.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{ACCEPT, ALLOW, CONNECTION, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use futures::StreamExt;
use molbox::workflow::types::LocItem;
use sha2::{Digest, Sha256};
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;

use crate::app::App;
use crate::bundle::hex;
use crate::error::ApiError;
use crate::handlers::{self, Call, account, analysis, file, job, margin, media, service, system};
use crate::json::{self, Json, JsonError};
use crate::validate::{IDEMPOTENCY_KEY, loc, violation};

const API_KEY: &str = "x-api-key";
/// Members that are given more than once are named up to so many; a request with more has one cause.
const MAX_REPEATED: usize = 20;
/// The interface asks for a link by GET, and it makes a file. HEAD, which is GET without its content, must
/// make nothing.
const MAKES: &str = "upload_url_create";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;

/// One operation of the document and what carries it out.
pub(crate) struct Route {
    /// Its `operationId`; the handler has the same name.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    handler: Handler,
}

macro_rules! routes {
    ($($method:ident $path:literal $module:ident::$operation:ident)*) => {
        &[$(Route {
            operation: stringify!($operation),
            method: Method::$method,
            path: $path,
            handler: |call| Box::pin($module::$operation(call)),
        }),*]
    };
}

/// Operations on the base address of the simulation workflow.
pub(crate) const WORKFLOW: &[Route] = routes! {
    GET    "/submit/upload-url"              file::upload_url_create
    POST   "/submit/file/"                   file::file_register
    POST   "/submit/system"                  system::system_submit
    POST   "/submit/job"                     job::job_submit
    POST   "/submit/analysis"                analysis::analysis_submit
    GET    "/info/files"                     file::file_list
    GET    "/info/file/{file_id}"            file::file_view
    DELETE "/info/file/{file_id}"            file::file_delete
    GET    "/info/jobs"                      job::job_list
    GET    "/info/job/{job_id}"              job::job_view
    DELETE "/info/job/{job_id}"              job::job_delete
    GET    "/info/job/{job_id}/log"          job::job_log
    GET    "/info/job/{job_id}/events"       job::job_watch
    GET    "/info/systems"                   system::system_list
    GET    "/info/system/{system_id}"        system::system_view
    DELETE "/info/system/{system_id}"        system::system_delete
    GET    "/info/analyses"                  analysis::analysis_list
    GET    "/info/analysis/{analysis_id}"    analysis::analysis_view
    DELETE "/info/analysis/{analysis_id}"    analysis::analysis_delete
    GET    "/info/account"                   account::account_view
    GET    "/retrieve/file/{file_id}"        file::file_download
    GET    "/retrieve/system/{system_id}"    system::system_download
    GET    "/retrieve/job/{job_id}"          job::job_download
    GET    "/retrieve/analysis/{job_id}"     analysis::analysis_retrieve
    POST   "/extend/job/{job_id}"            job::job_extend
    POST   "/retry/job/{job_id}"             job::job_retry
    POST   "/cancel/system/{system_id}"      system::system_cancel
    POST   "/cancel/job/{job_id}"            job::job_cancel
    POST   "/cancel/analysis/{analysis_id}"  analysis::analysis_cancel
    GET    "/healthz"                        service::service_health
    GET    "/metrics"                        service::service_metrics
    GET    "/openapi.json"                   service::service_document
};

/// Operations on the margin address.
pub(crate) const MARGIN: &[Route] = routes! {
    POST   "/margin/submit_job/historical/{data_format}"  margin::margin_submit
    GET    "/healthz"                                     service::service_health
    GET    "/openapi.json"                                service::service_document
};

/// The simulation workflow under its stage, and the upload links beside it.
pub(crate) fn workflow(app: &Arc<App>) -> Router {
    let uploads = on(MethodFilter::PUT.or(MethodFilter::POST), handlers::upload::upload);
    let stage = router(app, WORKFLOW).route("/upload/{file_id}", uploads.with_state(app.clone())).merge(docs());
    finish(app, Router::new().nest(&format!("/{}", app.config.stage), stage))
}

/// The margin endpoint. Its requests and answers may be compressed: portfolios are large texts.
pub(crate) fn margin(app: &Arc<App>) -> Router {
    let decompression = RequestDecompressionLayer::new().pass_through_unaccepted(true);
    finish(app, router(app, MARGIN).layer(CompressionLayer::new()).layer(decompression).merge(docs()))
}

/// The reference, on both addresses. It is large text; what else is downloaded of the workflow is not.
fn docs() -> Router {
    Router::new()
        .route("/docs", on(MethodFilter::GET, handlers::docs::page))
        .route("/docs/{file}", on(MethodFilter::GET, handlers::docs::file))
        .layer(CompressionLayer::new())
}

fn router(app: &Arc<App>, routes: &'static [Route]) -> Router {
    routes.iter().fold(Router::new(), |router, route| {
        let filter = MethodFilter::try_from(route.method.clone()).expect("a standard method");
        let mut method: MethodRouter = on(filter, dispatch).layer(Extension(route)).with_state(app.clone());
        if route.operation == MAKES {
            method = method.on(MethodFilter::HEAD, || async { ([(ALLOW, "GET")], ApiError::no_such_method()) });
        }
        router.route(route.path, method)
    })
}

fn finish(app: &Arc<App>, router: Router) -> Router {
    router
        .fallback(|| async { ApiError::no_such_path() })
        .method_not_allowed_fallback(|| async { ApiError::no_such_method() })
        .layer(middleware::from_fn_with_state(app.clone(), identify))
}

/// Gives every request its identifier, and logs how it ended.
async fn identify(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_plain =
        |id: &&str| (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let id = given.filter(is_plain).map_or_else(|| hex(&app.random::<8>()), str::to_owned);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let start = Instant::now();
    let has_body = !request.body().is_end_stream();
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    if has_body && matches!(status, 401 | 403 | 404 | 405 | 413 | 429 | 503) {
        // Perhaps refused before the body was read: nothing can follow it on this connection, and
        // a client that is told so does not send its next request there.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let milliseconds = start.elapsed().as_micros() as f64 / 1000.0;
    match response.extensions_mut().remove::<Failure>() {
        // The one place where a failure is logged, with its chain.
        Some(Failure(cause)) => {
            tracing::error!(request = %id, %method, path, status, milliseconds, cause = format!("{cause:#}"), "failed");
        }
        None => tracing::info!(request = %id, %method, path, status, milliseconds, "answered"),
    }
    let value = HeaderValue::from_str(&id).expect("letters and digits");
    response.headers_mut().insert(REQUEST_ID, value);
    response
}

/// What went wrong inside, on its way to the log.
#[derive(Clone)]
struct Failure(Arc<anyhow::Error>);

async fn dispatch(
    State(app): State<Arc<App>>,
    Extension(route): Extension<&'static Route>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    // What is not UTF-8 is no path of ours.
    let Ok(path) = path else { return ApiError::no_such_path().into_response() };
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let start = Instant::now();
    let response = answer(carry_out(app.clone(), route, path, request).await);
    app.metrics.answered(route.operation, response.status().as_u16(), start.elapsed());
    response
}

/// Runs the handler of a request, unless the request has been answered before.
async fn carry_out(
    app: Arc<App>,
    route: &'static Route,
    path: Vec<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let call = prepare(app.clone(), route, path, request).await?;
    let Some(key) = call.idempotency_key.clone() else { return (route.handler)(call).await };
    let _turn = app.turns.take(call.account(), &key).await;
    match app.db.answered(&call.claim())? {
        Some(before) => handlers::again(before),
        None => (route.handler)(call).await,
    }
}

/// The response of a handler; a failure's cause goes along for the log.
pub(crate) fn answer(result: Result<Response, ApiError>) -> Response {
    match result {
        Ok(response) => response,
        Err(mut error) => {
            let cause = error.take_cause();
            let mut response = error.into_response();
            if let Some(cause) = cause {
                response.extensions_mut().insert(Failure(Arc::new(cause)));
            }
            response
        }
    }
}

/// Key first, then the body, then everything that the document says about both.
async fn prepare(
    app: Arc<App>,
    route: &'static Route,
    path: Vec<(String, String)>,
    request: Request,
) -> Result<Call, ApiError> {
    let query = query_of(&request);
    let operation = app.contract.operation(route.operation).expect("a test compares routes and document");
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let key = if operation.is_secured {
        app.db.check_folder().map_err(anyhow::Error::new)?;
        Some(app.authenticate(parts.headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes))?)
    } else {
        None
    };
    if let Some(key) = &key {
        let per_minute = app.config.limits.requests_per_minute;
        app.rates
            .take(&key.id, per_minute, Instant::now())
            .map_err(|wait| ApiError::too_many(format!("the key may make {per_minute} requests a minute"), wait))?;
    }

    let mut fingerprint = Sha256::new();
    let mut asked_for = |part: &[u8]| {
        fingerprint.update(part.len().to_le_bytes());
        fingerprint.update(part);
    };
    path.iter().chain(&query).for_each(|(name, value)| {
        asked_for(name.as_bytes());
        asked_for(value.as_bytes());
    });
    for name in [ACCEPT, CONTENT_TYPE] {
        parts.headers.get_all(&name).iter().for_each(|value| asked_for(value.as_bytes()));
        asked_for(name.as_str().as_bytes());
    }
    let mut violations = operation.check_parameters(&path, &query, |name| header(name).map(Cow::into_owned));
    let mut idempotency_key = None;
    if operation.takes_idempotency_key() {
        let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        // Printable, or `violations` has it.
        idempotency_key = keys.next().and_then(|key| key.to_str().ok()).map(str::to_owned);
        if keys.next().is_some() {
            let at = vec![loc("header"), loc(IDEMPOTENCY_KEY)];
            violations.push(violation("value_error", at, "is given more than once"));
        }
    }
    let (mut value, mut bytes, mut outside) = (Json::Null, Vec::new(), Vec::new());
    if operation.has_body() {
        let takes_more = operation.takes_more_than_json();
        let limits = (app.config.limits.body_bytes, app.config.margin.body_bytes);
        bytes = read(body, if takes_more { limits.1 } else { limits.0 }).await?;
        asked_for(&bytes);
        let content_type = header(CONTENT_TYPE.as_str());
        let content_type = content_type.as_deref();
        let is_document = content_type.is_some_and(|content_type| !is_json(&media(Some(content_type))));
        if takes_more && content_type.is_some() && !bytes.is_empty() && (violations.is_empty() || is_document) {
            // The handler reads it, by its content type.
        } else if bytes.is_empty() {
            violations.push(violation("missing", vec![loc("body")], "Field required"));
        } else {
            // What is not said to be JSON is a text, which no body of the document is.
            value = if is_json(&media(content_type)) { parse(&bytes)? } else { Json::Str(String::new()) };
            let body = operation.check_body(&mut value);
            if body.is_readable && violations.is_empty() {
                outside = body.violations;
            } else {
                violations.extend(body.violations);
            }
        }
    }
    if !violations.is_empty() {
        return Err(ApiError::invalid(violations));
    }
    if let Some(key) = &key {
        app.note_use(key);
    }
    let repeated = value.repeated(MAX_REPEATED);
    let bytes = if operation.takes_more_than_json() { bytes } else { Vec::new() };
    Ok(Call {
        app,
        key,
        path,
        query,
        body: value.into_serde(),
        outside,
        repeated,
        bytes,
        headers: parts.headers,
        operation: route.operation,
        idempotency_key,
        fingerprint: fingerprint.finalize().into(),
    })
}

/// The query parameters of a request, decoded.
pub(crate) fn query_of(request: &Request) -> Vec<(String, String)> {
    form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect()
}

pub(crate) fn is_json(media: &str) -> bool {
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Json, ApiError> {
    json::parse(bytes).map_err(|error| match error {
        JsonError::Unreadable => ApiError::unreadable_body(),
        JsonError::Syntax { message, at } => {
            let mut error =
                violation("json_invalid", vec![loc("body"), LocItem::Int64(at as i64)], "JSON decode error");
            error.ctx.insert("error".to_owned(), message.into());
            ApiError::invalid(vec![error])
        }
    })
}

/// A whole body, as far as it may be large.
async fn read(body: Body, max_bytes: u64) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        // The sender went away: nobody reads the answer.
        bytes.extend_from_slice(&chunk.map_err(|_| ApiError::unreadable_body())?);
        if bytes.len() as u64 > max_bytes {
            return Err(ApiError::too_large(max_bytes));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::{MARGIN, Route, WORKFLOW};
    use crate::app::DOCUMENT;

    #[test]
    fn the_routes_are_those_of_the_document() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let mut documented = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if let Some(id) = operation["operationId"].as_str() {
                    documented.insert((
                        item.get("servers").is_some(),
                        method.to_uppercase(),
                        path.clone(),
                        id.to_owned(),
                    ));
                }
            }
        }
        let served = |is_margin: bool, routes: &'static [Route]| {
            routes.iter().map(move |route| {
                (is_margin, route.method.to_string(), route.path.to_owned(), route.operation.to_owned())
            })
        };
        let mut served: BTreeSet<_> = served(false, WORKFLOW).chain(served(true, MARGIN)).collect();
        // The document has them once, and says that both addresses serve them.
        for (path, operation) in [("/healthz", "service_health"), ("/openapi.json", "service_document")] {
            served.remove(&(true, "GET".to_owned(), path.to_owned(), operation.to_owned()));
        }
        let unserved: Vec<_> = documented.difference(&served).collect();
        let undocumented: Vec<_> = served.difference(&documented).collect();
        assert!(unserved.is_empty(), "documented but not served: {unserved:?}");
        assert!(undocumented.is_empty(), "served but not documented: {undocumented:?}");
    }
}
