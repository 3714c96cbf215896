//! The route table, and what happens to every request before its handler: key, body, document.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use axum::body::HttpBody;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use futures::FutureExt;
use sha2::{Digest, Sha256};
use tokio::task::block_in_place;
use tower_http::compression::CompressionLayer;

use crate::accounts::{Caller, key, session};
use crate::app::App;
use crate::error::ApiError;
use crate::handlers::portal::{Portal, redirect};
use crate::handlers::{self, account, admin, analysis, file, job, margin, service, system, watch};
use crate::handlers::{key as keys, session as sessions};
use crate::hex::hex;
use crate::http::answer::{Failure, answer};
use crate::http::body::{Arriving, LARGE_BYTES, is_json, parse, query_of};
use crate::http::call::{Call, media};
use crate::http::connections::{Pace, Visitor};
use crate::http::json::Json;
use crate::http::once;
use crate::http::peer::{Asker, Peer, RequestId, origin};
use crate::http::validate::{IDEMPOTENCY_KEY, Operation, loc, violation};
use crate::objects::Key;

const API_KEY: &str = "x-api-key";
/// Members that are given more than once are named up to so many; a request with more has one
/// cause.
const MAX_REPEATED: usize = 20;
/// Largest body of who has not signed in, of whom a password is the most there is to read: bodies of
/// all of them together have the room of one account.
const OPEN_BODY_BYTES: u64 = 16 << 10;
/// The interface asks for a link by GET, and it makes a file. HEAD, which is GET without its
/// content, must make nothing.
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
    POST   "/check/system"                   system::system_check
    POST   "/check/job"                      job::job_check
    POST   "/check/analysis"                 analysis::analysis_check
    GET    "/info/files"                     file::file_list
    GET    "/info/file/{file_id}"            file::file_view
    GET    "/info/file/{file_id}/contents"   file::file_contents
    DELETE "/info/file/{file_id}"            file::file_delete
    GET    "/info/jobs"                      job::job_list
    GET    "/info/job/{job_id}"              job::job_view
    DELETE "/info/job/{job_id}"              job::job_delete
    GET    "/info/job/{job_id}/log"          job::job_log
    GET    "/info/job/{job_id}/series"       job::job_series
    GET    "/info/job/{job_id}/events"       watch::job_watch
    GET    "/info/systems"                   system::system_list
    GET    "/info/system/{system_id}"        system::system_view
    DELETE "/info/system/{system_id}"        system::system_delete
    GET    "/info/system/{system_id}/atoms"  system::mask_view
    GET    "/info/analyses"                  analysis::analysis_list
    GET    "/info/analysis/{analysis_id}"    analysis::analysis_view
    DELETE "/info/analysis/{analysis_id}"    analysis::analysis_delete
    GET    "/info/account"                   account::account_view
    GET    "/info/sign-in"                   sessions::sign_in_view
    POST   "/session"                        sessions::session_create
    GET    "/session"                        sessions::session_view
    DELETE "/session"                        sessions::session_end
    POST   "/session/invitation/check"       sessions::invitation_check
    POST   "/session/invitation"             sessions::invitation_accept
    GET    "/info/sessions"                  sessions::session_list
    DELETE "/info/session/{session_id}"      sessions::session_revoke
    POST   "/session/password"               sessions::password_change
    GET    "/info/usage"                     account::usage_view
    GET    "/info/events"                    watch::account_watch
    GET    "/admin/accounts"                 admin::account_list
    POST   "/admin/account"                  admin::account_create
    POST   "/admin/account/{account}"        admin::account_change
    POST   "/admin/account/{account}/invitation"  admin::invitation_create
    GET    "/admin/queue"                    admin::queue_list
    POST   "/admin/queue/{task_id}/cancel"   admin::queue_cancel
    GET    "/admin/service"                  admin::service_view
    GET    "/info/keys"                      keys::key_list
    POST   "/submit/key"                     keys::key_create
    DELETE "/info/key/{key_id}"              keys::key_revoke
    GET    "/retrieve/file/{file_id}"        file::file_download
    GET    "/retrieve/file/{file_id}/structure"  file::file_structure
    GET    "/retrieve/file/{file_id}/trajectory"  file::file_trajectory
    GET    "/retrieve/system/{system_id}"    system::system_download
    GET    "/retrieve/system/{system_id}/structure"  system::system_structure
    GET    "/retrieve/job/{job_id}"          job::job_download
    GET    "/retrieve/job/{job_id}/trajectory"  job::job_trajectory
    GET    "/retrieve/analysis/{job_id}"     analysis::analysis_retrieve
    POST   "/extend/job/{job_id}"            job::job_extend
    POST   "/retry/job/{job_id}"             job::job_retry
    POST   "/cancel/system/{system_id}"      system::system_cancel
    POST   "/cancel/job/{job_id}"            job::job_cancel
    POST   "/cancel/analysis/{analysis_id}"  analysis::analysis_cancel
    GET    "/healthz"                        service::service_health
    GET    "/livez"                          service::service_live
    GET    "/metrics"                        service::service_metrics
    GET    "/openapi.json"                   service::service_document
};

/// Operations on the margin address.
pub(crate) const MARGIN: &[Route] = routes! {
    POST   "/margin/submit_job/historical/{data_format}"  margin::margin_submit
    GET    "/healthz"                                     margin::service_health
    GET    "/openapi.json"                                service::service_document
};

/// The simulation workflow under its stage, and beside it the upload links and the portal.
pub(crate) fn workflow(app: &Arc<App>) -> Result<Router> {
    let uploads = on(MethodFilter::PUT.or(MethodFilter::POST), handlers::upload::upload);
    let stage = router(app, WORKFLOW)
        .route("/upload/{file_id}", uploads.with_state(app.clone()))
        .merge(by_provider(app))
        .merge(docs(
            "/openapi-workflow.json",
            on(MethodFilter::GET, handlers::docs::workflow_document).with_state(app.clone()),
        ));
    // A base address is what an operator says it is: both may be the same.
    let margin = MARGIN.iter().filter(|route| route.operation == "margin_submit");
    let stage = stage.merge(router(app, margin).layer(CompressionLayer::new())).merge(portal(app)?);
    let name = &app.config.stage;
    let router = Router::new()
        .nest(&format!("/{name}"), stage)
        .route("/", to_portal(format!("{name}/portal/")))
        .route(&format!("/{name}/"), to_portal("portal/".to_owned()));
    // A stage of that name has these addresses for itself.
    let router = if name == "docs" { router } else { router.merge(to_docs(name)) };
    Ok(finish(app, router))
}

/// Where browsers go to sign in by an identity provider, and come back to: addresses of pages, and
/// so outside of the document.
fn by_provider(app: &Arc<App>) -> Router {
    Router::new()
        .route("/session/oidc", on(MethodFilter::GET, handlers::oidc::begin))
        .route("/session/oidc/callback", on(MethodFilter::GET, handlers::oidc::callback))
        .with_state(app.clone())
}

/// An address above the portal.
fn to_portal(way: String) -> MethodRouter {
    on(MethodFilter::GET, || async move { redirect(&way) })
}

/// Addresses of the documentation that lack the stage.
fn to_docs(stage: &str) -> Router {
    let stage = stage.to_owned();
    let to_stage = move |uri: Uri| handlers::docs::to_stage(stage.clone(), uri);
    let to_stage = on(MethodFilter::GET, to_stage);
    ["/docs", "/docs/", "/docs/{*path}"]
        .into_iter()
        .fold(Router::new(), |router, path| router.route(path, to_stage.clone()))
}

/// The portal below the stage, which is all that an operator's proxy may pass on.
fn portal(app: &App) -> Result<Router> {
    let uploads = app.objects.link(&Key::all_sent(), Duration::from_secs(1))?;
    let is_elsewhere = app.config.public_url.is_empty();
    let portal = Arc::new(Portal::at(&app.base_url(), is_elsewhere, uploads.as_ref())?);
    Ok(Router::new()
        .route("/portal/", on(MethodFilter::GET, handlers::portal::page))
        .route("/portal/{*path}", on(MethodFilter::GET, handlers::portal::below))
        .with_state(portal)
        .route("/", to_portal(format!("{}/portal/", app.config.stage)))
        .route("/portal", to_portal("portal/".to_owned())))
}

/// The margin endpoint. Its requests and answers may be compressed: portfolios are large texts.
pub(crate) fn margin(app: &Arc<App>) -> Router {
    finish(
        app,
        router(app, MARGIN)
            .layer(CompressionLayer::new())
            .merge(docs(
                "/openapi-margin.json",
                on(MethodFilter::GET, handlers::docs::margin_document).with_state(app.clone()),
            ))
            // What a browser shows of an address that somebody has been given.
            .route("/", on(MethodFilter::GET, handlers::docs::entrance)),
    )
}

/// What operators ask, on an address of its own, without a key.
pub(crate) fn operators(app: &Arc<App>) -> Router {
    let metrics = on(MethodFilter::GET, |State(app): State<Arc<App>>| async move {
        answer(service::metrics(&app).await)
    });
    let is_health = |route: &&Route| ["service_health", "service_live"].contains(&route.operation);
    let health = WORKFLOW.iter().filter(is_health);
    finish(app, router(app, health).route("/metrics", metrics.with_state(app.clone())))
}

/// The documentation, on both addresses, and the document that clients of one are generated from.
/// They are large text; what else is downloaded of the workflow is not.
fn docs(path: &str, document: MethodRouter) -> Router {
    Router::new()
        .route(path, document)
        .route("/docs", on(MethodFilter::GET, handlers::docs::entrance))
        .route("/docs/", on(MethodFilter::GET, handlers::docs::index))
        .route("/docs/{*path}", on(MethodFilter::GET, handlers::docs::below))
        .layer(CompressionLayer::new())
}

fn router(app: &Arc<App>, routes: impl IntoIterator<Item = &'static Route>) -> Router {
    routes.into_iter().fold(Router::new(), |router, route| {
        let filter = MethodFilter::try_from(route.method.clone()).expect("a standard method");
        let mut method: MethodRouter =
            on(filter, dispatch).layer(Extension(route)).with_state(app.clone());
        if route.operation == MAKES {
            method = method.on(MethodFilter::HEAD, || async {
                ([(ALLOW, "GET")], ApiError::no_such_method())
            });
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

fn is_plain(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Gives every request its identifier, and logs how it ended.
async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let id =
        given.filter(|id| is_plain(id)).map_or_else(|| hex(&app.request_number()), str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let asker = Asker::default();
    request.extensions_mut().insert(asker.clone());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let start = Instant::now();
    let has_body = !request.body().is_end_stream();
    let mut response = next.run(request).await;
    guard(response.headers_mut(), method.is_safe());
    let status = response.status().as_u16();
    if has_body && matches!(status, 401 | 403 | 404 | 405 | 408 | 413 | 429 | 503) {
        // Perhaps refused before the body was read: nothing can follow it on this connection, and
        // a client that is told so does not send its next request there.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let milliseconds = start.elapsed().as_micros() as f64 / 1000.0;
    let account = asker.account();
    match response.extensions_mut().remove::<Failure>() {
        // The one place where a failure is logged, with its chain.
        Some(Failure(cause)) => {
            tracing::error!(request = %id, account, %method, path, status, milliseconds, cause = format!("{cause:#}"), "failed");
        }
        None => {
            tracing::info!(request = %id, account, %method, path, status, milliseconds, "answered");
        }
    }
    let value = HeaderValue::from_str(&id).expect("letters and digits");
    response.headers_mut().insert(REQUEST_ID, value);
    response
}

/// Has nobody else keep or guess what is an account's: a shared cache on the way knows nothing of keys.
/// What has said more of itself is left as it is.
fn guard(headers: &mut HeaderMap, is_read: bool) {
    let kept = if is_read { "private, no-cache" } else { "no-store" };
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static(kept));
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

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
    let response = answer(without_panic(carry_out(app.clone(), route, path, request)).await);
    app.metrics.answered(route.operation, response.status().as_u16(), start.elapsed());
    response
}

/// A panic is a fault of ours: who asked is told so as of any other, instead of by a connection that
/// breaks off.
async fn without_panic<T>(work: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(ApiError::internal(anyhow!("panic: {}", text.unwrap_or("without a text"))))
    })
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
    match app.db.answered(&call.idempotent_write()).await? {
        Some(before) => once::replayed(before),
        None => {
            app.kept_answers.check(call.account(), app.now())?;
            (route.handler)(call).await
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
    let mut query = query_of(&request);
    let operation =
        app.contract.operation(route.operation).expect("a test compares routes and document");
    let (parts, body) = request.into_parts();
    let pace = parts.extensions.get::<Pace>().cloned();
    let caller = admit(&app, operation, route.operation, &parts).await?;
    if let (Some(caller), Some(asker)) = (&caller, parts.extensions.get::<Asker>()) {
        asker.is(caller.account_name());
    }

    let mut fingerprint = Fingerprint::of(&path, &query, &parts.headers);
    let mut violations =
        operation.check_parameters(&path, &mut query, |name| text_of(&parts.headers, name));
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
    let mut value = Json::Null;
    let mut bytes = Vec::new();
    let mut outside = Vec::new();
    let mut share = None;
    let mut is_gzip = false;
    if operation.has_body() {
        let takes_more = operation.takes_more_than_json();
        let encoding = text_of(&parts.headers, CONTENT_ENCODING.as_str()).filter(|_| takes_more);
        is_gzip = encoding.is_some_and(|encoding| encoding.trim().eq_ignore_ascii_case("gzip"));
        let max_bytes = match takes_more {
            true => app.config.margin.body_bytes,
            false if caller.is_none() => app.config.limits.body_bytes.min(OPEN_BODY_BYTES),
            false => app.config.limits.body_bytes,
        };
        let account = caller.as_ref().map_or(0, Caller::account);
        let mut arriving = Arriving::new(max_bytes, app.room.share(account));
        if is_gzip {
            arriving.unpack(body, app.config.margin.compression_ratio, pace.as_ref()).await?;
        } else {
            arriving.read(body, pace.as_ref()).await?;
        }
        let (body, held) = arriving.done();
        (bytes, share) = (body, Some(held));
        if bytes.len() > LARGE_BYTES {
            block_in_place(|| fingerprint.add(&bytes));
        } else {
            fingerprint.add(&bytes);
        }
        let content_type = text_of(&parts.headers, CONTENT_TYPE.as_str());
        let is_json = is_json(&media(content_type.as_deref()));
        let is_document = content_type.is_some() && !is_json;
        if takes_more
            && content_type.is_some()
            && !bytes.is_empty()
            && (violations.is_empty() || is_document)
        {
            // The handler reads it, by its content type.
        } else if bytes.is_empty() {
            violations.push(violation("missing", vec![loc("body")], "Field required"));
        } else {
            let mut read = || {
                // What is not said to be JSON is a text, which no body of the document is.
                value = if is_json {
                    parse(&bytes, app.config.limits.body_values)?
                } else {
                    Json::Str(String::new())
                };
                Ok::<_, ApiError>(operation.check_body(&mut value))
            };
            let body = if bytes.len() > LARGE_BYTES { block_in_place(read) } else { read() }?;
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
    if let Some(caller) = &caller {
        note_use(&app, caller);
    }
    let (address, request_id) = origin(&app.config.proxies, &parts.headers, &parts.extensions);
    let repeated = value.repeated(MAX_REPEATED);
    let bytes = if operation.takes_more_than_json() { bytes } else { Vec::new() };
    let mut headers = parts.headers;
    if is_gzip {
        // The body is not, any more.
        headers.remove(CONTENT_ENCODING);
    }
    Ok(Call {
        app,
        caller,
        path,
        query,
        body: value.into_serde(),
        outside,
        repeated,
        bytes,
        share,
        headers,
        operation: route.operation,
        method: parts.method,
        address,
        request_id,
        idempotency_key,
        fingerprint: fingerprint.0.finalize().into(),
    })
}

/// Who makes a request, which must be good and may not ask too often; nobody for an operation that
/// is open to all. A key counts before a session.
async fn admit(
    app: &App,
    operation: &Operation,
    id: &str,
    parts: &Parts,
) -> Result<Option<Caller>, ApiError> {
    let is_open = !operation.takes_key && !operation.takes_session;
    let is_safe = session::is_safe(&parts.method);
    if is_open {
        // Else another's page could sign somebody in, as whom it likes.
        if !is_safe {
            session::check_origin(&parts.headers, &app.config.public_url)?;
        }
        return Ok(None);
    }
    app.db.check_folder().map_err(anyhow::Error::new)?;
    let peer = parts.extensions.get::<Peer>().expect("every connection has another end");
    let client = peer.client(&parts.headers, &app.config.proxies);
    let has_key = parts.headers.contains_key(API_KEY);
    let token = session::token(&parts.headers).filter(|_| operation.takes_session && !has_key);
    let caller = match token {
        Some(token) => {
            // A link from elsewhere may lead to what only reads.
            if !is_safe || id == MAKES && session::names_origin(&parts.headers) {
                session::check_origin(&parts.headers, &app.config.public_url)?;
            }
            let row = app.db.session_of(session::hash(token)).await?;
            let row = row.filter(|row| session::is_good(row, &app.config.sessions, app.now()));
            let over = || app.wrong_keys.instead_of(ApiError::session_over(), client);
            Caller::Session(row.ok_or_else(over)?)
        }
        None => {
            let header = parts.headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes);
            let key = key::authenticate(&app.db, &app.wrong_keys, app.now(), header, client);
            Caller::Key(key.await?)
        }
    };
    if matches!(caller, Caller::Key(_)) && !operation.takes_key {
        let msg = "an API key does not do this; sign in to the portal with a browser";
        return Err(ApiError::forbidden(vec![loc("header"), loc(API_KEY)], msg));
    }
    let per_minute = app.config.limits.requests_per_minute;
    Visitor::keep(&parts.extensions, caller.account())?;
    let taken = app.rates.take(caller.id(), app.part_of(per_minute), Instant::now());
    taken.map_err(|wait| {
        let who = if matches!(caller, Caller::Key(_)) { "key" } else { "session" };
        ApiError::too_many(format!("the {who} may make {per_minute} requests a minute"), wait)
    })?;
    // Before anything that it sends is looked at.
    if operation.is_for_admins && !caller.is_admin() {
        let msg = "this is for administrators; one of them can make the account one";
        return Err(ApiError::forbidden(vec![loc("cookie"), loc(session::COOKIE_NAME)], msg));
    }
    Ok(Some(caller))
}

/// Notes that a key or a session was used, a minute late at most.
fn note_use(app: &Arc<App>, caller: &Caller) {
    let now = app.now();
    let last = match caller {
        Caller::Key(key) => key.last_used_at,
        Caller::Session(session) => Some(session.seen_at),
    };
    if !app.uses.is_due(caller.id(), last, now) {
        return;
    }
    let app = app.clone();
    let caller = caller.clone();
    tokio::spawn(async move {
        let noted = match caller {
            Caller::Key(key) => app.db.touch_key(key.id, now).await,
            Caller::Session(session) => app.db.touch_session(session.id, now).await,
        };
        if let Err(error) = noted {
            tracing::warn!(cause = format!("{error:#}"), "note that a key or a session was used");
        }
    });
}

/// A header as text; what is not UTF-8 in it is replaced.
fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Digest of what is asked for: each part with its length, so that none can pass for another.
struct Fingerprint(Sha256);

impl Fingerprint {
    fn of(path: &[(String, String)], query: &[(String, String)], headers: &HeaderMap) -> Self {
        let mut fingerprint = Self(Sha256::new());
        for (name, value) in path.iter().chain(query) {
            fingerprint.add(name.as_bytes());
            fingerprint.add(value.as_bytes());
        }
        for name in [ACCEPT, CONTENT_TYPE] {
            headers.get_all(&name).iter().for_each(|value| fingerprint.add(value.as_bytes()));
            fingerprint.add(name.as_str().as_bytes());
        }
        fingerprint
    }

    fn add(&mut self, part: &[u8]) {
        self.0.update(part.len().to_le_bytes());
        self.0.update(part);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::response::IntoResponse;
    use serde_json::Value;

    use super::{MARGIN, Route, WORKFLOW, without_panic};
    use crate::http::validate::DOCUMENT;

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
                (
                    is_margin,
                    route.method.to_string(),
                    route.path.to_owned(),
                    route.operation.to_owned(),
                )
            })
        };
        let mut served: BTreeSet<_> = served(false, WORKFLOW).chain(served(true, MARGIN)).collect();
        // The document has them once, and says that both addresses serve them.
        for (path, operation) in
            [("/healthz", "service_health"), ("/openapi.json", "service_document")]
        {
            served.remove(&(true, "GET".to_owned(), path.to_owned(), operation.to_owned()));
        }
        let unserved: Vec<_> = documented.difference(&served).collect();
        let undocumented: Vec<_> = served.difference(&documented).collect();
        assert!(unserved.is_empty(), "documented but not served: {unserved:?}");
        assert!(undocumented.is_empty(), "served but not documented: {undocumented:?}");
    }

    #[tokio::test]
    async fn a_panic_is_answered_as_any_other_failure_and_its_text_is_for_the_log() {
        let panicking = async {
            let number = usize::MAX;
            assert!(number.checked_add(1).is_some(), "{number} and one");
            Ok(())
        };
        let mut error = without_panic(panicking).await.unwrap_err();
        let cause = error.take_cause().unwrap().to_string();
        assert_eq!(cause, format!("panic: {} and one", usize::MAX));
        assert_eq!(error.into_response().status(), 500);
        assert_eq!(without_panic(async { Ok(5) }).await.unwrap(), 5);
    }
}
