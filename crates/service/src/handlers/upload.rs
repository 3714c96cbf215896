//! The target of upload links: outside of the document, for a link is opaque.

use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use axum::body::{BodyDataStream, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, Stream, StreamExt};
use multer::{Field, Multipart};

use crate::accounts::link::UploadLink;
use crate::app::App;
use crate::db::{Arrival, Deed, OverQuota, Pending};
use crate::error::ApiError;
use crate::http::answer::answer;
use crate::http::arriving::Part;
use crate::http::body::query_of;
use crate::http::call::Call;
use crate::http::connections::{Pace, Visitor};
use crate::http::peer::origin;
use crate::http::validate::{loc, violation};
use crate::objects::garbage::sweep;
use crate::objects::{Key, ReceiveError};

/// Takes the content of a file: raw by PUT or POST, or the first file of a form by POST. Until the
/// file is registered, sending again replaces what was sent.
pub(crate) async fn upload(
    State(app): State<Arc<App>>,
    Path(file_id): Path<String>,
    request: Request,
) -> Response {
    // On its own, so that it comes to its end when nobody waits for the answer any more: what has
    // arrived is taken then, or removed.
    let received = tokio::spawn(async move { receive(&app, &file_id, request).await });
    answer(received.await.unwrap_or_else(|error| Err(ApiError::internal(error))))
}

/// What of a refused upload is read all the same, so that its sender comes to see the answer: one
/// that is cut off while it sends sees a broken connection instead.
const DRAIN_BYTES: usize = 64 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

async fn receive(app: &Arc<App>, file_id: &str, request: Request) -> Result<Response, ApiError> {
    let (address, request_id) =
        origin(&app.config.proxies, request.headers(), request.extensions());
    let query = query_of(&request);
    let link = UploadLink::of(&query);
    let key = Some(link.key.to_owned());
    let deed = || Deed {
        at: app.now(),
        key,
        address,
        request: Some(request_id),
        action: "upload",
        ..Deed::default()
    };
    let allowed = match check_headers(request.headers()) {
        Ok(()) => allowed(app, file_id, &link, request.extensions()).await,
        Err(error) => Err(error),
    };
    let (object, allowance) = match allowed {
        Ok(allowed) => allowed,
        Err(error) => {
            drain(request.into_body().into_data_stream()).await;
            return Err(error);
        }
    };
    let max = app.config.limits.account_bytes;
    // Given back when the account holds what has arrived.
    let mut part = app.arriving.part(allowance.account);
    let arrived = match write(app, &link, &object, &allowance, &mut part, request).await {
        // The key may have been revoked while the last of it arrived.
        Ok(size) => match check_key(app, &link).await {
            // What arrived in a folder that is not in its place has not arrived: the write finds
            // that out.
            Ok(()) => {
                let taken = app
                    .db
                    .take_upload(file_id.to_owned(), object.to_string(), size, max, deed())
                    .await;
                taken.map_err(ApiError::from)
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let (garbage, answer) = match arrived {
        Ok(Arrival::Taken { replaced }) => {
            (replaced.map(Key::stored), Ok(StatusCode::OK.into_response()))
        }
        Ok(Arrival::Registered) => (Some(object), Err(ApiError::link_refused(REGISTERED))),
        Ok(Arrival::Deleted) => (Some(object), Err(ApiError::link_refused(DELETED))),
        Ok(Arrival::OverQuota(over)) => (Some(object), Err(over_quota(over))),
        Err(error) => (Some(object), Err(error)),
    };
    if let Some(key) = garbage {
        sweep(&app.objects, &app.db, key).await;
    }
    answer
}

/// That what comes is a whole content as it is: a part would be taken for all of it, and what is packed
/// for what it is called.
fn check_headers(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_packed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    let wrong = if headers.contains_key(CONTENT_RANGE) {
        (CONTENT_RANGE, "a content is sent as a whole; send all of it, without this header")
    } else if headers.get(CONTENT_ENCODING).is_some_and(is_packed) {
        (
            CONTENT_ENCODING,
            "a content is stored as it is sent; unpack it, and leave this header out",
        )
    } else {
        return Ok(());
    };
    let at = vec![loc("header"), loc(wrong.0.as_str())];
    Err(ApiError::invalid(vec![violation("value_error", at, wrong.1)]))
}

/// Takes what was sent to the store itself as the content of a pending file, if anything was: a copy,
/// for its link goes on working. Key of the copy.
pub(crate) async fn take_sent(call: &Call, file_id: &str) -> Result<Option<Key>, ApiError> {
    let app = &call.app;
    let sent = Key::sent(file_id);
    if !app.config.objects.direct_uploads || !app.objects.exists(&sent)? {
        return Ok(None);
    }
    let max = app.config.limits.account_bytes;
    let pending = app.db.pending_file(file_id, max).await?;
    let Some(pending) = pending else { return Ok(None) };
    let allowance = Allowance::of(app, pending);
    let turn = app.turn(&app.registrations, call.account()).await?;
    let object = app.new_object();
    app.db.announce_object(object.to_string(), app.now()).await?;
    let (objects, from, to) = (app.objects.clone(), sent.clone(), object.clone());
    let copied = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut size = objects.size(&from)?;
        if size <= allowance.bytes() {
            objects.copy(&from, &to)?;
            // More may have arrived meanwhile; the copy stays what it is.
            size = objects.size(&to)?;
        }
        if size <= allowance.bytes() {
            return Ok(Ok(size));
        }
        objects.remove(&from)?;
        Ok(Err(allowance.refusal()))
    });
    let copied: io::Result<Result<u64, ApiError>> = copied.await.map_err(ApiError::internal)?;
    let taken = match copied {
        Ok(Ok(size)) => {
            let deed = Deed { action: "upload", ..call.deed() };
            let (file, key) = (file_id.to_owned(), object.to_string());
            app.db.take_upload(file, key, size, max, deed).await.map_err(ApiError::from)
        }
        Ok(Err(refusal)) => Err(refusal),
        Err(error) => Err(error.into()),
    };
    let (garbage, taken) = match taken {
        Ok(Arrival::Taken { replaced }) => (replaced.map(Key::stored), Ok(Some(object))),
        // What comes of it, the registration finds out.
        Ok(Arrival::Registered | Arrival::Deleted) => (Some(object), Ok(None)),
        Ok(Arrival::OverQuota(over)) => (Some(object), Err(over_quota(over))),
        Err(error) => (Some(object), Err(error)),
    };
    if let Some(key) = garbage {
        sweep(&app.objects, &app.db, key).await;
    }
    if taken.is_ok() {
        app.objects.remove(&sent)?;
    }
    taken
}

const REGISTERED: &str =
    "the file has been registered, or there is none any more; ask for another link";
const DELETED: &str = "the file has been deleted; ask for another link";

fn over_quota(over: OverQuota) -> ApiError {
    ApiError::content_over_quota(vec![loc("body")], over, 0)
}

/// How large an upload may be.
struct Allowance {
    account: i64,
    largest: u64,
    /// What the account holds, and may hold; none where it may hold any amount.
    quota: Option<OverQuota>,
}

impl Allowance {
    fn of(app: &App, pending: Pending) -> Self {
        let Pending { account, held, max } = pending;
        let quota = (max != 0).then_some(OverQuota { held, max });
        Self { account, largest: app.config.largest_upload(), quota }
    }

    /// What the account has room for.
    fn left(&self) -> u64 {
        self.quota.map_or(u64::MAX, |quota| quota.max.saturating_sub(quota.held))
    }

    fn bytes(&self) -> u64 {
        self.largest.min(self.left())
    }

    /// That the account has no more room beside so many bytes of its other uploads under way.
    fn refusal_beside(&self, others: u64) -> ApiError {
        let quota = self.quota.filter(|_| others > 0);
        let refusal = |over| ApiError::content_over_quota(vec![loc("body")], over, others);
        quota.map_or_else(|| self.refusal(), refusal)
    }

    fn refusal(&self) -> ApiError {
        let quota = self.quota.filter(|_| self.left() < self.largest);
        quota.map_or_else(|| ApiError::too_large(self.largest), over_quota)
    }
}

/// Key of the object that an upload may write, and how large it may be; whether its link is good,
/// its file waits for content, and there is room.
async fn allowed(
    app: &App,
    file_id: &str,
    link: &UploadLink<'_>,
    of_request: &Extensions,
) -> Result<(Key, Allowance), ApiError> {
    app.links.check(file_id, link, app.now())?;
    check_key(app, link).await?;
    let pending = app.db.pending_file(file_id, app.config.limits.account_bytes).await?;
    let pending = pending.ok_or_else(|| ApiError::link_refused(REGISTERED))?;
    Visitor::keep(of_request, pending.account)?;
    app.check_disk()?;
    let object = app.new_object();
    app.db.announce_object(object.to_string(), app.now()).await?;
    Ok((object, Allowance::of(app, pending)))
}

/// Checks that the key of a link is still good.
async fn check_key(app: &App, link: &UploadLink<'_>) -> Result<(), ApiError> {
    if app.is_still_good(link.key).await? {
        return Ok(());
    }
    Err(ApiError::link_refused("the key or the session that asked for the link is no longer good"))
}

/// What a form may hold before its file, but for the rest of a piece: what is not yet understood is kept,
/// and looked through again with each piece that comes.
const FORM_BYTES: usize = 16 << 10;

/// After so many bytes it is looked again whether an upload may go on.
const LOOK_BYTES: usize = 16 << 20;

/// Why the content of an upload does not go on.
#[derive(Debug)]
enum Stop {
    Broken(String),
    Refused(ApiError),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(message) => f.write_str(message),
            Self::Refused(_) => f.write_str("refused"),
        }
    }
}

impl Error for Stop {}

impl From<multer::Error> for Stop {
    /// The parser of forms hands on what ended the body.
    fn from(error: multer::Error) -> Self {
        match error {
            multer::Error::StreamReadFailed(cause) => {
                cause.downcast().map_or_else(|cause| Self::Broken(cause.to_string()), |stop| *stop)
            }
            error => Self::Broken(error.to_string()),
        }
    }
}

/// How long before connections are cut off an upload is ended that is under way when the service ends:
/// what has arrived is removed then, and its sender hears why.
const LAST_WORD: Duration = Duration::from_secs(1);
/// When it may be sent again, to another server or to the next, in seconds.
const RETRY_SECONDS: u64 = 5;

/// Comes when uploads are ended because the service ends, so long before connections are cut off.
async fn ending(app: &App, before: Duration) {
    if app.stopping.subscribe().wait_for(|stopping| *stopping).await.is_ok() {
        let limit = Duration::from_secs(app.config.connections.stop_seconds);
        tokio::time::sleep(limit.saturating_sub(before).max(limit / 2)).await;
    }
}

fn ended() -> Stop {
    Stop::Refused(ApiError::overloaded("the service ends; send the content again", RETRY_SECONDS))
}

/// Sends a content to its object. A store that does not answer is waited for as long as there is time
/// for another word.
async fn send(
    app: &App,
    object: &Key,
    max_bytes: u64,
    content: impl Stream<Item = Result<Bytes, Stop>> + Unpin,
) -> Result<u64, ReceiveError<Stop>> {
    tokio::select! {
        biased;
        received = app.objects.receive(object, max_bytes, content) => received,
        () = ending(app, LAST_WORD / 2) => Err(ReceiveError::Content(ended())),
    }
}

/// The body of an upload, which ends when its key is no longer good, the disk is full, or the service ends.
fn while_good<E: fmt::Display>(
    app: &App,
    link: &UploadLink<'_>,
    body: impl Stream<Item = Result<Bytes, E>>,
) -> impl Stream<Item = Result<Bytes, Stop>> {
    let mut since = 0;
    let (mut body, mut ending) = (Box::pin(body), Box::pin(ending(app, LAST_WORD).fuse()));
    let body = futures::stream::poll_fn(move |context| {
        if ending.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(ended())));
        }
        let next = body.as_mut().poll_next(context);
        next.map(|next| next.map(|it| it.map_err(|error| Stop::Broken(error.to_string()))))
    });
    body.then(move |piece| {
        since += piece.as_ref().map_or(0, Bytes::len);
        let is_due = since >= LOOK_BYTES;
        if is_due {
            since = 0;
        }
        async move {
            let piece = piece?;
            if is_due {
                app.check_disk().map_err(Stop::Refused)?;
                check_key(app, link).await.map_err(Stop::Refused)?;
            }
            Ok(piece)
        }
    })
}

/// The content of an upload, which ends when the account is full: of several uploads each has its own limit,
/// and the account one for all.
fn within<E: Into<Stop>>(
    allowance: &Allowance,
    part: &mut Part,
    content: impl Stream<Item = Result<Bytes, E>>,
) -> impl Stream<Item = Result<Bytes, Stop>> {
    content.map(move |piece| {
        let piece = piece.map_err(Into::into)?;
        let grown = part.grow(piece.len() as u64, allowance.left());
        grown.map_err(|others| Stop::Refused(allowance.refusal_beside(others)))?;
        Ok(piece)
    })
}

/// The first file of a form. Its parser takes all that there is before it looks at any of it, so that
/// until then it gets another piece only when it has looked at all that it has.
async fn file_of<'a>(
    body: impl Stream<Item = Result<Bytes, Stop>> + Send + 'a,
    boundary: String,
) -> Result<Field<'a>, Stop> {
    let gate = Arc::new(Gate::default());
    let mut form = Multipart::new(gate.clone().pieces(body), boundary);
    poll_fn(|context| {
        loop {
            match form.poll_next_field(context) {
                Poll::Ready(Ok(Some(field))) if field.file_name().is_none() => {}
                Poll::Ready(Ok(Some(field))) => {
                    gate.has_file.store(true, Ordering::Relaxed);
                    return Poll::Ready(Ok(field));
                }
                Poll::Ready(Ok(None)) => {
                    return Poll::Ready(Err(Stop::Broken("the form has no file".to_owned())));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                // The body is waited for.
                Poll::Pending if gate.is_open.load(Ordering::Relaxed) => return Poll::Pending,
                Poll::Pending if gate.n_bytes.load(Ordering::Relaxed) > FORM_BYTES => {
                    let message = format!("the form has no file in its first {FORM_BYTES} bytes");
                    return Poll::Ready(Err(Stop::Broken(message)));
                }
                Poll::Pending => gate.is_open.store(true, Ordering::Relaxed),
            }
        }
    })
    .await
}

/// Between the body of a form and its parser.
#[derive(Default)]
struct Gate {
    /// Until the next piece.
    is_open: AtomicBool,
    /// From then on it is open.
    has_file: AtomicBool,
    n_bytes: AtomicUsize,
}

impl Gate {
    fn pieces(
        self: Arc<Self>,
        body: impl Stream<Item = Result<Bytes, Stop>> + Send,
    ) -> impl Stream<Item = Result<Bytes, Stop>> + Send {
        let mut body = Box::pin(body);
        futures::stream::poll_fn(move |context| {
            if !self.is_open.load(Ordering::Relaxed) && !self.has_file.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            let piece = ready!(body.as_mut().poll_next(context));
            if let Some(Ok(piece)) = &piece {
                self.n_bytes.fetch_add(piece.len(), Ordering::Relaxed);
                self.is_open.store(false, Ordering::Relaxed);
            }
            Poll::Ready(piece)
        })
    }
}

/// Writes the content of an upload to its object; its size.
async fn write(
    app: &App,
    link: &UploadLink<'_>,
    object: &Key,
    allowance: &Allowance,
    part: &mut Part,
    request: Request,
) -> Result<u64, ApiError> {
    let max = allowance.bytes();
    let pace = request.extensions().get::<Pace>().cloned();
    let broken = |message: &str| Pace::error_or(pace.as_ref(), || broken(message));
    let media =
        request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let is_form = media.starts_with("multipart/form-data");
    let boundary = is_form.then(|| multer::parse_boundary(media)).transpose();
    let mut body = request.into_body().into_data_stream();
    let received = match boundary {
        Ok(None) => {
            let content = while_good(app, link, &mut body);
            send(app, object, max, pin!(within(allowance, part, content))).await
        }
        Ok(Some(boundary)) => match file_of(while_good(app, link, &mut body), boundary).await {
            Ok(file) => send(app, object, max, pin!(within(allowance, part, file))).await,
            Err(stop) => Err(ReceiveError::Content(stop)),
        },
        Err(error) => Err(ReceiveError::Content(error.into())),
    };
    if received.is_err() {
        // The account's other uploads do not wait for the answer to this one.
        part.give_back();
        // For no more than an answer there is time when the service ends.
        if !*app.stopping.borrow() {
            drain(body).await;
        }
    }
    received.map_err(|error| match error {
        ReceiveError::TooLarge => allowance.refusal(),
        ReceiveError::Content(Stop::Broken(message)) => broken(&message),
        ReceiveError::Content(Stop::Refused(error)) => error,
        ReceiveError::Store(error) => error.into(),
    })
}

async fn drain(mut content: BodyDataStream) {
    let mut left = DRAIN_BYTES;
    let reading = async {
        while let Some(Ok(chunk)) = content.next().await
            && chunk.len() <= left
        {
            left -= chunk.len();
        }
    };
    // Whoever sends more, or more slowly, does without the answer.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
}

fn broken(message: &str) -> ApiError {
    ApiError::invalid(vec![violation(
        "upload_broken",
        vec![loc("body")],
        format!("the upload broke off: {message}"),
    )])
}
