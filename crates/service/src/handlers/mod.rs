//! What the operations do: parse, authorise, call, answer. Each handler has the name of its
//! operation and stands in the file of its tag.

pub(crate) mod account;
pub(crate) mod analysis;
pub(crate) mod docs;
pub(crate) mod file;
pub(crate) mod job;
pub(crate) mod margin;
mod record;
pub(crate) mod service;
pub(crate) mod system;
pub(crate) mod upload;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use molbox::Request;
use molbox::workflow::types::{LocItem, Notice, ValidationError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::bundle::Layout;
use crate::db::{Answer, Before, Claim, Deed, Deletion, Filter, KeyRow, Lane, Once, OverQuota, TaskRow, Unqueued};
use crate::error::ApiError;
use crate::room::Share;
use crate::validate::{IDEMPOTENCY_KEY, loc, violation};

use record::{both, record};

/// A request that has passed its checks.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    /// The key; none for an operation that takes none.
    pub(crate) key: Option<KeyRow>,
    pub(crate) path: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    /// The body in the document's form; null without one, and for an operation that takes more
    /// than JSON.
    pub(crate) body: Value,
    /// Values of the body that are not among those that the document allows.
    pub(crate) outside: Vec<ValidationError>,
    /// Members of the body that are there more than once in one object; the last one counts.
    pub(crate) repeated: Vec<Vec<LocItem>>,
    /// The body as it came, of an operation that takes more than JSON.
    pub(crate) bytes: Vec<u8>,
    /// What the body holds of the memory for bodies; none for an operation without.
    pub(crate) share: Option<Share>,
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    /// Where it comes from.
    pub(crate) address: Option<String>,
    /// The `x-request-id` of the answer.
    pub(crate) request_id: String,
    /// The caller's name for this request, of an operation that takes one.
    pub(crate) idempotency_key: Option<String>,
    /// Digest of what is asked for.
    pub(crate) fingerprint: [u8; 32],
}

impl Call {
    /// Number of the account.
    pub(crate) fn account(&self) -> i64 {
        self.good_key().account
    }

    /// Identifier of the key.
    pub(crate) fn key_id(&self) -> &str {
        &self.good_key().id
    }

    fn good_key(&self) -> &KeyRow {
        self.key.as_ref().expect("the operation takes a key")
    }

    /// A path parameter.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.path.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// A query parameter; the last of repeated ones.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Media type of the body, without its parameters, in lower case.
    pub(crate) fn media(&self) -> String {
        media(self.header(CONTENT_TYPE.as_str()))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as its wire type, and warnings about it, JSON.
    ///
    /// # Errors
    ///
    /// 422 with the values that the document does not allow.
    pub(crate) fn request<T: Request>(&self) -> Result<(T, String), ApiError> {
        let (request, warnings, outside) = self.readable()?;
        if outside.is_empty() { Ok((request, warnings)) } else { Err(ApiError::invalid(outside)) }
    }

    /// The same for those who look for what else is wrong: with the values that are not allowed, which
    /// have to be refused in the end.
    pub(crate) fn readable<T: Request>(&self) -> Result<(T, String, Vec<ValidationError>), ApiError> {
        let request = T::deserialize(&self.body).map_err(|e| {
            ApiError::internal(anyhow::Error::new(e).context("a body that passed the document's check"))
        })?;
        let warnings = serde_json::to_string(&request_warnings::<T>(&self.body, &self.repeated));
        Ok((request, warnings.map_err(ApiError::internal)?, self.outside.clone()))
    }

    /// What a write needs so that repeating the request does nothing again.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            account: self.account(),
            key: self.idempotency_key.clone(),
            operation: self.operation,
            fingerprint: self.fingerprint,
            now: self.app.now(),
            deed: self.deed(),
        }
    }

    /// What is done by it, for the audit log.
    pub(crate) fn deed(&self) -> Deed {
        let key = self.key.as_ref();
        Deed {
            at: self.app.now(),
            account: key.map(|key| key.account_name.clone()),
            key: key.map(|key| key.id.clone()),
            operator: None,
            address: self.address.clone(),
            request: Some(self.request_id.clone()),
            action: self.operation,
        }
    }

    /// Notes in the audit log that something is downloaded, once a minute for those who take it in pieces. On a
    /// disk without room for that it is downloaded all the same.
    pub(crate) async fn note_download(&self, id: &str) {
        let deed = self.deed();
        let who =
            format!("{id} {} {}", deed.key.as_deref().unwrap_or_default(), deed.address.as_deref().unwrap_or_default());
        if self.method == Method::HEAD || !self.app.downloads.claim(&who, deed.at) {
            return;
        }
        if let Err(error) = self.app.db.note(deed, id.to_owned()).await {
            let (request, account) = (&self.request_id, self.key.as_ref().map(|key| &key.account_name));
            tracing::error!(request, ?account, id, cause = format!("{error:#}"), "note a download in the audit log");
        }
    }
}

/// What of a body was not taken as it was written: members that the document does not have, which it
/// does not forbid, and those that are there more than once.
fn request_warnings<T: Request>(body: &Value, repeated: &[Vec<LocItem>]) -> Vec<Notice> {
    let notice = |code: &str, path: Vec<LocItem>, message: String| {
        let loc = std::iter::once(loc("body")).chain(path).collect();
        Notice { code: code.to_owned(), message, loc, extra: Default::default() }
    };
    let unknown = molbox::unknown_fields::<T>(body);
    let mut warnings: Vec<Notice> = Vec::new();
    for field in &unknown.listed {
        warnings.push(notice("unknown_field", field.loc.clone(), unknown_field(field)));
    }
    if unknown.more > 0 {
        warnings.push(notice("unknown_field", Vec::new(), more_unknown_fields(unknown.more)));
    }
    for path in repeated {
        let field = molbox::UnknownField { loc: path.clone(), nearest: Vec::new() };
        let message = format!("{} is given more than once; the last one counts", field.path());
        warnings.push(notice("repeated_field", path.clone(), message));
    }
    warnings
}

/// What to say about members that the document does not have, after the first of them.
pub(crate) fn more_unknown_fields(count: usize) -> String {
    format!("{count} more fields that this request does not have were ignored")
}

/// What to say about a member that the document does not have.
pub(crate) fn unknown_field(field: &molbox::UnknownField) -> String {
    let question = field.question().map(|question| format!("; {question}")).unwrap_or_default();
    format!("{} is not a field of this request and was ignored{question}", field.path())
}

/// The media type of a `Content-Type`, without its parameters, in lower case.
pub(crate) fn media(content_type: Option<&str>) -> String {
    content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// 200 with a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<Response, ApiError> {
    Ok(text(serde_json::to_string(value).map_err(ApiError::internal)?))
}

/// 200 with JSON.
pub(crate) fn text(json: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json).into_response()
}

/// The answer that a record is, which is JSON.
pub(crate) fn record_answer(record: String) -> Answer {
    Answer { headers: vec![(CONTENT_TYPE.to_string(), "application/json".to_owned())], body: record }
}

/// 200 with an answer.
fn response(answer: &Answer) -> Result<Response, ApiError> {
    let mut response = Response::new(Body::from(answer.body.clone()));
    for (name, value) in &answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(ApiError::internal)?;
        let value = HeaderValue::from_str(value).map_err(ApiError::internal)?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// The answer of a write that is done once; `refused` turns the reason why it could not be done
/// into an error.
pub(crate) fn once<R>(
    done: Once<R>,
    answer: &Answer,
    refused: impl FnOnce(R) -> ApiError,
) -> Result<Response, ApiError> {
    match done {
        Once::Done => response(answer),
        Once::Refused(reason) => Err(refused(reason)),
        Once::Again(first) => again(Before::Same(first)),
        Once::Reused => again(Before::Another),
    }
}

/// The first answer of a request that is repeated, or 409 for a key that another request has.
pub(crate) fn again(before: Before) -> Result<Response, ApiError> {
    match before {
        Before::Same(answer) => response(&answer),
        Before::Another => {
            let at = vec![loc("header"), loc(IDEMPOTENCY_KEY)];
            Err(ApiError::conflict(at, "the key was used for another request in the last 24 hours"))
        }
    }
}

/// Answers, and keeps the answer for a repeated request.
pub(crate) async fn remembered(call: &Call, answer: Answer) -> Result<Response, ApiError> {
    if call.idempotency_key.is_none() {
        return response(&answer);
    }
    let done = call.app.db.remember(call.claim(), answer.clone()).await?;
    once(done, &answer, |never| match never {})
}

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Which page of a listing is asked for: filter and size.
pub(crate) fn page(call: &Call) -> Result<(Filter, usize), ApiError> {
    // A number too large for the machine is larger than the limit.
    let limit = call.query("limit").map_or(DEFAULT_LIMIT, |text| text.trim().parse().unwrap_or(MAX_LIMIT));
    let filter = match call.query("page_token") {
        Some(token) => call.app.pages.open(&listing(call), token).ok_or_else(|| {
            let at = vec![loc("query"), loc("page_token")];
            ApiError::invalid(vec![violation("page_token", at, "is no next_page of a page before")])
        })?,
        None => Filter {
            before: None,
            status: call.query("status").map(str::to_owned),
            name: call.query("name").map(str::to_owned),
        },
    };
    Ok((filter, limit.min(MAX_LIMIT)))
}

/// What a page token is good for: this listing of this account.
fn listing(call: &Call) -> String {
    format!("{} {}", call.operation, call.account())
}

/// A page of records, each of them JSON: at most `limit`, and the token of the next when there are more.
pub(crate) fn paged<R>(
    call: &Call,
    mut rows: Vec<R>,
    filter: &Filter,
    limit: usize,
    seq: impl Fn(&R) -> i64,
    record: impl Fn(&R) -> Result<String, ApiError>,
) -> Result<Response, ApiError> {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let mut page = "{\"items\":[".to_owned();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            page.push(',');
        }
        page += &record(row)?;
    }
    page.push(']');
    if let Some(row) = rows.last().filter(|_| has_more) {
        let next = Filter { before: Some(seq(row)), ..filter.clone() };
        // A token needs no escapes.
        page += &format!(",\"next_page\":\"{}\"", call.app.pages.seal(&listing(call), &next, call.app.random()));
    }
    page.push('}');
    Ok(text(page))
}

/// A stored JSON text as its wire type.
pub(crate) fn stored<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> ApiError {
    ApiError::internal(anyhow::Error::new(error).context("a stored record"))
}

/// Key of what a task has written.
pub(crate) fn task_prefix(id: &str) -> String {
    format!("tasks/{id}")
}

async fn cancel_task(call: &Call, kind: &'static str) -> Result<TaskRow, ApiError> {
    let (app, id) = (&call.app, call.parameter(&format!("{kind}_id")));
    let row = app.db.cancel_task(call.account(), kind, id.to_owned(), call.deed()).await?;
    let row = row.ok_or_else(|| ApiError::not_found(kind, id))?;
    if ["queued", "running"].contains(&row.status.as_str()) {
        app.cancel(id);
    }
    Ok(row)
}

/// Cancels the task that the path names, and answers with its record as it is then.
pub(crate) async fn cancelled(call: &Call, kind: &'static str) -> Result<Response, ApiError> {
    let row = cancel_task(call, kind).await?;
    // To cancel twice does nothing more, so the answer need not be one transaction with it.
    remembered(call, record_answer(record(&call.app, &row)?)).await
}

/// Deletes the task that the path names, with its objects.
pub(crate) async fn delete_task(call: &Call, kind: &'static str) -> Result<Response, ApiError> {
    let id = call.parameter(&format!("{kind}_id")).to_owned();
    let prefix = task_prefix(&id);
    let result = call.app.db.delete_task(call.account(), kind, id.clone(), prefix.clone(), call.deed()).await?;
    call.app.systems.forget(&id);
    deleted(call, kind, &id, result, Some(prefix)).await
}

/// 204, or why something cannot be deleted; its objects are removed once its record is gone.
pub(crate) async fn deleted(
    call: &Call,
    what: &str,
    id: &str,
    result: Deletion,
    garbage: Option<String>,
) -> Result<Response, ApiError> {
    let at = || vec![loc("path"), loc(format!("{what}_id"))];
    match result {
        Deletion::Done => {
            if let Some(garbage) = garbage {
                sweep(&call.app, garbage).await;
            }
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Deletion::NotFound => Err(ApiError::not_found(what, id)),
        Deletion::InState(state) => Err(ApiError::conflict(at(), format!("{id} is {state}; cancel it first"))),
        Deletion::NeededBy(dependent) => Err(ApiError::conflict(at(), format!("{dependent} needs it"))),
    }
}

/// Removes objects that no record refers to any more. What fails is tried again at the next start.
pub(crate) async fn sweep(app: &Arc<App>, prefix: String) {
    let (objects, key) = (app.objects.clone(), prefix.clone());
    let removed = tokio::task::spawn_blocking(move || objects.remove(&key)).await;
    let result = match removed {
        Ok(Ok(())) => app.db.forget_garbage(prefix.clone()).await,
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = result {
        tracing::warn!(%prefix, cause = format!("{error:#}"), "remove objects");
    }
}

/// A task of the account, not queued yet, without a name, a parent or a seed.
pub(crate) fn new_task(
    call: &Call,
    kind: &'static str,
    prefix: &str,
    request: &impl Serialize,
    parameters: &impl Serialize,
    warnings: String,
) -> Result<TaskRow, ApiError> {
    Ok(TaskRow {
        seq: 0,
        id: call.app.new_id(prefix),
        account: call.account(),
        kind: kind.to_owned(),
        name: None,
        parent: None,
        status: "queued".to_owned(),
        request: serde_json::to_string(request).map_err(ApiError::internal)?,
        parameters: serde_json::to_string(parameters).map_err(ApiError::internal)?,
        seed: 0,
        attempts: 0,
        fruitless: 0,
        created_at: call.app.now(),
        started_at: None,
        finished_at: None,
        is_cancelled: false,
        outcome: None,
        warnings,
        bytes: 0,
    })
}

/// Queues a task that reads these files, once, and answers with its record.
pub(crate) async fn queue(call: &Call, row: TaskRow, inputs: Vec<String>) -> Result<Response, ApiError> {
    let answer = record_answer(record(&call.app, &row)?);
    let lane = Lane::of(&row.kind);
    let done = call.app.db.create_task(row, inputs, call.app.allowance(), call.claim(), answer.clone()).await?;
    call.app.queued(lane).notify_one();
    once(done, &answer, |reason| unqueued(&call.app, reason, || vec![loc("body")]))
}

/// Why a task was not queued; `at` is what named that which is in the way.
pub(crate) fn unqueued(app: &App, reason: Unqueued, at: impl FnOnce() -> Vec<LocItem>) -> ApiError {
    match reason {
        Unqueued::TooMany => {
            let msg = format!("the account has {} tasks queued or running already", app.config.limits.open_tasks);
            ApiError::too_many(msg, Duration::from_secs(60))
        }
        Unqueued::OverQuota(over) => over_quota(app, over),
        Unqueued::InState(id, status) => not_ready(at(), &id, &status, "its state has changed in the meantime"),
        Unqueued::Deleted(id) => ApiError::conflict(at(), format!("{id} has been deleted in the meantime")),
    }
}

/// The refusal of a request that would have its account hold more than it may.
pub(crate) fn over_quota(app: &App, over: OverQuota) -> ApiError {
    ApiError::over_quota(vec![loc("header"), loc("x-api-key")], over, app.config.limits.account_bytes)
}

/// 409 for something that is not in the state that a request needs.
pub(crate) fn not_ready(at: Vec<LocItem>, id: &str, status: &str, needs: &str) -> ApiError {
    ApiError::conflict(at, format!("{id} is {status}; {needs}"))
}

/// A download, whole or the range that is asked for.
pub(crate) fn download(call: &Call, layout: Layout, media: &'static str, name: &str) -> Result<Response, ApiError> {
    let etag = format!("\"sha256-{}\"", layout.sha256);
    let is_current = call.header(IF_RANGE.as_str()).is_none_or(|value| value == etag);
    let range = call.header(RANGE.as_str()).filter(|_| is_current).and_then(|text| byte_range(text, layout.size));
    let size = layout.size;
    let (start, end) = match range {
        Some(None) => return Err(ApiError::range_not_satisfiable(size)),
        Some(Some(range)) => range,
        None => (0, size),
    };
    let content = layout.stream(call.app.objects.clone(), start, end);
    let mut response = Response::new(Body::from_stream(while_good(call, content)));
    let headers = response.headers_mut();
    let text = |text: String| HeaderValue::from_str(&text).map_err(ApiError::internal);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CONTENT_LENGTH, (end - start).into());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(ETAG, text(etag)?);
    headers.insert("content-disposition", text(format!("attachment; filename=\"{name}\""))?);
    if range.is_some() {
        headers.insert(CONTENT_RANGE, text(format!("bytes {start}-{}/{size}", end.saturating_sub(1)))?);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// After so many chunks, 4 MiB, it is looked whether the key of a download is still good.
const LOOK: usize = 16;

/// The content of a download, which breaks off when its key is revoked or expires, or its account is disabled.
fn while_good(
    call: &Call,
    content: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let (app, key) = (call.app.clone(), call.key_id().to_owned());
    content.enumerate().map(move |(number, chunk)| {
        if !number.is_multiple_of(LOOK) {
            return chunk;
        }
        match app.is_still_good(&key) {
            Ok(true) => chunk,
            Ok(false) => Err(io::Error::other("the key is no longer good")),
            Err(error) => Err(io::Error::other(format!("{error:?}"))),
        }
    })
}

/// The bytes of a `Range` header, `start..end`: none when it is not one range of bytes and so to
/// be ignored (RFC 9110), `Some(None)` when it lies outside.
fn byte_range(text: &str, size: u64) -> Option<Option<(u64, u64)>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().unwrap_or(u64::MAX));
    match (first.trim(), last.trim()) {
        ("", "") => None,
        ("", last) => {
            let length = number(last)?.min(size);
            Some((length > 0).then_some((size - length, size)))
        }
        (first, "") => {
            let start = number(first)?;
            Some((start < size).then_some((start, size)))
        }
        (first, last) => {
            let (start, last) = (number(first)?, number(last)?);
            if last < start {
                return None;
            }
            Some((start < size).then_some((start, last.saturating_add(1).min(size))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::byte_range;

    #[test]
    fn ranges_follow_the_standard() {
        assert_eq!(byte_range("bytes=0-", 10), Some(Some((0, 10))));
        assert_eq!(byte_range("bytes=3-4", 10), Some(Some((3, 5))));
        assert_eq!(byte_range("bytes=3-99", 10), Some(Some((3, 10))));
        assert_eq!(byte_range("bytes=-4", 10), Some(Some((6, 10))));
        assert_eq!(byte_range("bytes=-99", 10), Some(Some((0, 10))));
        assert_eq!(byte_range("bytes=10-", 10), Some(None));
        assert_eq!(byte_range("bytes=-0", 10), Some(None));
        for ignored in ["bytes=4-3", "bytes=0-1,3-4", "bytes=-", "bytes=a-b", "lines=0-1"] {
            assert_eq!(byte_range(ignored, 10), None, "{ignored}");
        }
    }
}
