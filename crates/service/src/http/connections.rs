//! Connections of an address: how many there are, how long each may take, how they end.
//!
//! One that waits for a request is worth the least, and no more is one whose request is nobody's who is
//! known: when all places are taken, the one that has waited longest gives way, so that any number of
//! silent or slow connections of strangers keeps nobody out. Of those that stay an account has its
//! share. When all are busy, a few more are taken, on which operators learn how the service is and
//! everybody else learns to come later.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Extensions, Request, Response};
use axum::response::IntoResponse;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::config::Connections;
use crate::error::ApiError;
use crate::http::peer::Peer;

/// How long a connection is left in peace when others want its place: its last answer may still be
/// under way, or its first request.
const PEACE: Duration = Duration::from_secs(1);

/// The head of a request, and what is read or written at a time. hyper's default is six times this,
/// which a thousand half-sent heads would fill.
const BUFFER_BYTES: usize = 64 << 10;

/// When a request that finds all places taken may come again, in seconds.
const RETRY_SECONDS: u64 = 5;

/// What is answered on every connection, by the end of its path.
const ALWAYS_ANSWERED: [&str; 3] = ["/healthz", "/livez", "/metrics"];

/// Files that one connection may need: its socket, what it uploads, and what it downloads.
const FILES_PER_CONNECTION: u64 = 3;
/// Files of everything else: database, log, tasks, listeners.
const OTHER_FILES: u64 = 512;

/// Lets the service have as many files open as its connections may need; usual is 1,024.
pub(crate) fn raise_file_limit(limits: &Connections, addresses: u64) {
    let needed =
        (limits.most + limits.reserve) as u64 * addresses * FILES_PER_CONNECTION + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is no limit.
    let Some(current) = current.filter(|current| *current < needed) else { return };
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    if raised > current
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum })
    {
        tracing::warn!(%error, current, "raise the number of files that may be open");
    } else if raised < needed {
        tracing::warn!(
            raised,
            needed,
            "fewer files may be open than connections.most may need; see `ulimit -Hn`"
        );
    }
}

/// The connections of one address.
pub(crate) struct Door {
    limits: Connections,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// Connections that are open and have not been dismissed.
    open: usize,
    /// Waits so far: a number for each.
    waits: u64,
    /// Connections that wait for a request, or that carry a stranger's, the longest first.
    waiting: BTreeMap<u64, (Instant, Arc<Mark>)>,
    /// How many requests each account has under way.
    of_account: HashMap<i64, usize>,
}

/// What a connection and those that want its place share.
#[derive(Default)]
struct Mark {
    is_dismissed: AtomicBool,
    dismissal: Notify,
}

impl Places {
    /// Has the connection give way that has waited longest, if it waits since `before`.
    fn dismiss(&mut self, before: Instant) -> bool {
        let Some(oldest) = self.waiting.first_entry().filter(|oldest| oldest.get().0 <= before)
        else {
            return false;
        };
        let (_, mark) = oldest.remove();
        mark.is_dismissed.store(true, Ordering::Relaxed);
        mark.dismissal.notify_one();
        self.open -= 1;
        true
    }
}

impl Door {
    pub(crate) fn new(limits: Connections) -> Arc<Self> {
        Arc::new(Self { limits, places: Mutex::default() })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; none when even the reserve is busy.
    fn admit(self: &Arc<Self>) -> Option<Place> {
        let most = self.limits.most;
        let now = Instant::now();
        let mut places = self.places();
        let is_reserve = places.open >= most
            && !now.checked_sub(PEACE).is_some_and(|before| places.dismiss(before));
        if is_reserve && places.open >= most + self.limits.reserve && !places.dismiss(now) {
            return None;
        }
        places.open += 1;
        drop(places);
        let place = Place {
            door: self.clone(),
            mark: Arc::default(),
            wait: Mutex::default(),
            account: Mutex::default(),
            is_reserve,
        };
        place.wait();
        Some(place)
    }
}

/// The place of a connection.
struct Place {
    door: Arc<Door>,
    mark: Arc<Mark>,
    /// Its number among those that wait; none while it is busy.
    wait: Mutex<Option<u64>>,
    /// Whose request it carries, once that is known.
    account: Mutex<Option<i64>>,
    /// Whether it is one of those that get no more than an apology.
    is_reserve: bool,
}

impl Place {
    /// Notes that a request is waited for, or who makes it.
    fn wait(&self) {
        let mut places = self.door.places();
        // It is on its way out, and is counted no more.
        if self.mark.is_dismissed.load(Ordering::Relaxed) {
            return;
        }
        places.waits += 1;
        let number = places.waits;
        places.waiting.insert(number, (Instant::now(), self.mark.clone()));
        *self.wait.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
    }

    /// Notes that it has come; false when the connection has been dismissed before.
    fn end_wait(&self) -> bool {
        let number = self.wait.lock().unwrap_or_else(PoisonError::into_inner).take();
        number.is_none_or(|number| self.door.places().waiting.remove(&number).is_some())
    }

    /// Counts its request as one of an account's; how many those are already, if it may have no more.
    fn take_share(&self, account: i64) -> Result<(), usize> {
        let mut places = self.door.places();
        let under_way = places.of_account.entry(account).or_default();
        if *under_way >= self.door.limits.share() {
            return Err(*under_way);
        }
        *under_way += 1;
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(account);
        Ok(())
    }

    fn give_share_back(&self) {
        let account = self.account.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(account) = account else { return };
        let mut places = self.door.places();
        match places.of_account.get(&account).copied().unwrap_or_default() {
            0 | 1 => drop(places.of_account.remove(&account)),
            n => drop(places.of_account.insert(account, n - 1)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end_wait();
        if !self.mark.is_dismissed.load(Ordering::Relaxed) {
            self.door.places().open -= 1;
        }
    }
}

/// A connection that carries a request or its answer.
struct Busy(Arc<Place>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.give_share_back();
        // Nobody has said who made the request.
        self.0.end_wait();
        self.0.wait();
    }
}

/// The connection of a request that comes from nobody who is known yet.
#[derive(Clone)]
pub(crate) struct Visitor(Arc<Place>);

impl Visitor {
    /// Lets the connection keep its place until all is answered: the request is one of this account's.
    ///
    /// # Errors
    ///
    /// 429 when the account has its share of requests under way.
    pub(crate) fn keep(of_request: &Extensions, account: i64) -> Result<(), ApiError> {
        let Some(Self(place)) = of_request.get() else { return Ok(()) };
        place.take_share(account).map_err(|under_way| {
            let msg = format!(
                "the account has {under_way} requests under way, as many as it may; end some first"
            );
            ApiError::too_many(msg, Duration::from_secs(RETRY_SECONDS))
        })?;
        place.end_wait();
        Ok(())
    }
}

/// Serves an address until `stopped`, and then what is under way for a while.
pub(crate) async fn serve(
    door: Arc<Door>,
    listener: TcpListener,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    // Every connection has the sender; who receives learns when none is left.
    let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match accepted {
            Ok((stream, address)) => {
                if let Some(place) = door.admit() {
                    let router = router.clone();
                    let stopped = stopped.clone();
                    let open = open.clone();
                    tokio::spawn(async move {
                        carry(place, stream, address, router, stopped).await;
                        drop(open);
                    });
                }
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                // No file is left for it; the next call would fail the same.
                tracing::error!(%error, "accept a connection");
                door.places().dismiss(Instant::now());
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop((listener, open));
    // Of those that wait, some have sent half a head, and hyper would wait for the rest.
    if let Some(before) = Instant::now().checked_sub(PEACE) {
        while door.places().dismiss(before) {}
    }
    let limit = Duration::from_secs(door.limits.stop_seconds);
    if tokio::time::timeout(limit, all_closed.recv()).await.is_err() {
        tracing::info!("the connections that are still open are cut off");
    }
}

/// Whether it is the connection that failed, and not the listener.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Carries a connection to its end.
async fn carry(
    place: Place,
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = &place.door.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head_seconds))
        .max_buf_size(BUFFER_BYTES)
        .keep_alive(!place.is_reserve);
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection that is gone already");
        return;
    }
    let stream =
        Stalling { stream, limit: Duration::from_secs(limits.answer_seconds), stalled: None };
    let mark = place.mark.clone();
    let place = Arc::new(place);
    let service =
        service_fn(move |request| answer(place.clone(), address, router.clone(), request));
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut is_asked_to_end = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke off");
                }
                return;
            }
            () = mark.dismissal.notified() => return,
            _ = stopped.wait_for(|stopped| *stopped), if !is_asked_to_end => {
                is_asked_to_end = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Ends a connection that gave way at the moment in which its next request came.
#[derive(Debug)]
struct Dismissed;

impl fmt::Display for Dismissed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the place was given to another connection")
    }
}

impl Error for Dismissed {}

async fn answer(
    place: Arc<Place>,
    address: SocketAddr,
    mut router: Router,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dismissed> {
    if !place.end_wait() {
        return Err(Dismissed);
    }
    let limits = &place.door.limits;
    let is_refused = place.is_reserve
        && !ALWAYS_ANSWERED.iter().any(|path| request.uri().path().ends_with(path));
    let busy = Busy(place.clone());
    if is_refused {
        let mut refusal =
            ApiError::overloaded("all connections are taken", RETRY_SECONDS).into_response();
        refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return Ok(refusal);
    }
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Peer(address.ip()));
    parts.extensions.insert(Visitor(place.clone()));
    place.wait();
    let body = if body.is_end_stream() {
        Body::empty()
    } else {
        let pace = Pace::default();
        parts.extensions.insert(pace.clone());
        Body::new(Paced {
            body,
            pause: Duration::from_secs(limits.body_seconds),
            bytes_per_second: limits.body_bytes_per_second,
            received: 0,
            waited: Duration::ZERO,
            wait: None,
            pace,
        })
    };
    let Ok(response) = router.call(Request::from_parts(parts, body)).await;
    Ok(response.map(|body| Body::new(Carried { body, _busy: busy })))
}

/// The body of an answer, which keeps its connection busy.
struct Carried {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether the body of a request came too slowly, for whoever learns only that it broke off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<AtomicBool>);

impl Pace {
    /// The error of a body that broke off: that it was too slow, or another one.
    pub(crate) fn error_or(pace: Option<&Self>, other: impl FnOnce() -> ApiError) -> ApiError {
        if pace.is_some_and(|pace| pace.0.load(Ordering::Relaxed)) {
            ApiError::too_slow()
        } else {
            other()
        }
    }
}

/// The body of a request, which may pause for a while, and has to come at some speed.
struct Paced {
    body: Incoming,
    pause: Duration,
    bytes_per_second: u64,
    received: u64,
    /// How long it was waited for, which is not how long it takes: the service may be slow, too.
    waited: Duration,
    /// Since when it is waited for now, and until when.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
    pace: Pace,
}

/// Marks a body that came too slowly; see [`Pace`].
#[derive(Debug)]
struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body came too slowly")
    }
}

impl Error for TooSlow {}

impl Paced {
    /// How much longer it may be waited for.
    fn timeout(&self) -> Duration {
        let earned = self
            .received
            .checked_div(self.bytes_per_second)
            .map_or(self.pause, Duration::from_secs);
        (self.pause + earned).saturating_sub(self.waited).min(self.pause)
    }
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = frame {
            if let Some((since, _)) = self.wait.take() {
                self.waited += since.elapsed();
            }
            let data =
                frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            self.received += data.map_or(0, |data| data.len() as u64);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let timeout = self.timeout();
        let (_, end) = self.wait.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(timeout))));
        ready!(end.as_mut().poll(context));
        self.pace.0.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that breaks off when its other end takes nothing for too long.
struct Stalling {
    stream: TcpStream,
    limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stalling {
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let end = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
