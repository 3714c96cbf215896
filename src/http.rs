//! How a request travels: with the key, past redirects and transient errors, to an answer that
//! can be decoded.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use progenitor_client::{ClientHooks, ClientInfo, OperationInfo};
use reqwest::header::{HeaderName, HeaderValue, LOCATION};
#[cfg(any(feature = "rustls", feature = "native-tls"))]
use reqwest::tls;
use reqwest::{ClientBuilder, Method, Proxy, Request, Response, StatusCode, Url};

use crate::error::{is_transient, retry_after};
use crate::workflow::types::{HttpValidationError, ValidationError};
use crate::{ApiKey, Error, Refusal, margin, workflow};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Longer than this is not waited for; the error has the time to come back.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// Without a byte; events come every 15 s.
const IDLE: Duration = Duration::from_secs(60);
/// A margin may wait a minute for its turn and be calculated for five, in which nothing is sent.
const IDLE_OF_MARGINS: Duration = Duration::from_secs(7 * 60);
const FIRST_DELAY: Duration = Duration::from_millis(250);
const MAX_REDIRECTS: usize = 5;
/// An error body is read up to here.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// Where a client connects to, and how patiently.
///
/// ```no_run
/// # fn main() -> Result<(), molbox::Error> {
/// let connection = molbox::Connection::new("https://md.example.org/prod", "mbx_…")?;
/// let molbox = connection.retries(8).workflow()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Connection {
    base_url: String,
    key: ApiKey,
    connect_timeout: Duration,
    /// Unless it is the one of the endpoint.
    idle_timeout: Option<Duration>,
    deadline: Option<Duration>,
    retries: u32,
    on_retry: OnRetry,
    /// What callers have set up of the HTTP client, in order.
    setup: Vec<Setup>,
}

type Setup = Arc<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>;

/// A request that did not succeed and will be sent again.
#[derive(Debug)]
#[non_exhaustive]
pub struct Retry {
    /// Why it did not.
    pub error: Error,
    /// How long is waited before it is sent again.
    pub delay: Duration,
    /// Which retry that will be, counted from 1.
    pub number: u32,
    /// The most retries of one request.
    pub of: u32,
}

type RetryCallback = dyn Fn(&Retry) + Send + Sync;

/// Who wants to know of retries.
#[derive(Clone, Default)]
struct OnRetry(Option<Arc<RetryCallback>>);

impl fmt::Debug for OnRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnRetry").field(&self.0.is_some()).finish()
    }
}

impl OnRetry {
    /// Reports a retry, and why: reads the answer for it, which nobody else will.
    async fn report(
        &self,
        result: reqwest::Result<Response>,
        delay: Duration,
        number: u32,
        of: u32,
    ) {
        let Some(on_retry) = &self.0 else { return };
        let error = match result {
            Ok(response) => match readable(response).await {
                Ok(response) => refusal(&response),
                Err(error) => Error::Connection(error),
            },
            Err(error) => Error::Connection(error),
        };
        on_retry(&Retry { error, delay, number, of });
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection to the service at `base_url` (with the deployment stage, without a query)
    /// with an API key.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when either cannot be used.
    pub fn new(base_url: &str, key: &str) -> Result<Self, Error> {
        let url = Url::parse(base_url)
            .map_err(|e| Error::argument("base_url", format!("{e}, got {base_url:?}")))?;
        if !matches!(url.scheme(), "http" | "https")
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(Error::argument(
                "base_url",
                format!("must be http(s)://host/path, got {base_url:?}"),
            ));
        }
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            key: ApiKey::new(key)?,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: None,
            deadline: None,
            retries: 4,
            on_retry: OnRetry::default(),
            setup: Vec::new(),
        })
    }

    /// A connection from the environment: the base address from `variable` or else
    /// `default_url`, the key from `MOLBOX_API_KEY`.
    pub(crate) fn from_env(variable: &str, default_url: &str) -> Result<Self, Error> {
        let base_url = std::env::var(variable).unwrap_or_else(|_| default_url.to_owned());
        let key = std::env::var("MOLBOX_API_KEY").map_err(|_| {
            Error::argument("MOLBOX_API_KEY", "not set; put an API key of the service into it")
        })?;
        Self::new(&base_url, &key)
            .map_err(|e| Error::invalid(format!("from {variable} and MOLBOX_API_KEY: {e}")))
    }

    /// How long to wait for a connection. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long to wait for the next byte, of an answer or of an upload that is taken. There is no
    /// limit to a whole transfer of files. Default: 60 s, of margins 7 minutes: the request must
    /// be sent within them, and the margin calculated.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// How long a call may take in all, with its retries and the body of its answer; each request
    /// of an upload, a download or a wait counts by itself. Default: without end.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Trusts these certificates besides those of the system: PEM, one or several, for a service
    /// whose certificate an authority of its own has signed.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when they cannot be read.
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    pub fn root_certificates(self, pem: &[u8]) -> Result<Self, Error> {
        let certificates = tls::Certificate::from_pem_bundle(pem)
            .map_err(|e| Error::argument("pem", Chain(&e)))?;
        if certificates.is_empty() {
            return Err(Error::argument("pem", "holds no certificate"));
        }
        Ok(self.http(move |http| {
            certificates.iter().cloned().fold(http, ClientBuilder::add_root_certificate)
        }))
    }

    /// Shows the service a certificate of the client (mutual TLS): PEM, the key and its
    /// certificates.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when they cannot be read.
    #[cfg(feature = "rustls")]
    pub fn identity(self, pem: &[u8]) -> Result<Self, Error> {
        let identity =
            tls::Identity::from_pem(pem).map_err(|e| Error::argument("pem", Chain(&e)))?;
        Ok(self.http(move |http| http.identity(identity.clone())))
    }

    /// Connects through a proxy, `http://host:port`. Default: that of `HTTPS_PROXY`, `HTTP_PROXY`
    /// and `NO_PROXY` of the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the address cannot be used.
    pub fn proxy(self, address: &str) -> Result<Self, Error> {
        let proxy = Proxy::all(address).map_err(|e| Error::argument("address", Chain(&e)))?;
        Ok(self.http(move |http| http.proxy(proxy.clone())))
    }

    /// Sets up the HTTP client: whatever [`reqwest::ClientBuilder`] has, for example a DNS resolver
    /// or a pool. An own [`reqwest::Client`] is not taken: one that follows redirects would carry
    /// the key to other hosts.
    ///
    /// ```
    /// # fn main() -> Result<(), molbox::Error> {
    /// let connection = molbox::Connection::new("https://md.example.org/prod", "mbx_…")?
    ///     .http(|http| http.pool_max_idle_per_host(2).https_only(true));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn http(
        mut self,
        setup: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.setup.push(Arc::new(setup));
        self
    }

    /// How often to repeat a request after a transient error, when it is safe to. Default: 4.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Called before each wait for a retry of a request, with why and for how long: a service
    /// whose disk is full may be waited for for minutes. Uploads and downloads that are resumed
    /// after their connection broke are not reported.
    ///
    /// ```
    /// # fn main() -> Result<(), molbox::Error> {
    /// let connection = molbox::Connection::new("https://md.example.org/prod", "mbx_…")?
    ///     .on_retry(|retry| eprintln!("{}; again in {} s", retry.error, retry.delay.as_secs()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_retry(mut self, callback: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.on_retry = OnRetry(Some(Arc::new(callback)));
        self
    }

    /// The client of the simulation workflow.
    ///
    /// # Errors
    ///
    /// [`Error::Connection`] when the TLS library cannot start.
    pub fn workflow(&self) -> Result<workflow::Client, Error> {
        let idle_timeout = self.idle_timeout.unwrap_or(IDLE);
        let http = self.client(Some(idle_timeout))?;
        Ok(workflow::Client::new_with_client(&self.base_url, http, self.inner(idle_timeout)?))
    }

    /// The client of the margin endpoint.
    ///
    /// # Errors
    ///
    /// [`Error::Connection`] when the TLS library cannot start.
    pub fn margin(&self) -> Result<margin::Client, Error> {
        let idle_timeout = self.idle_timeout.unwrap_or(IDLE_OF_MARGINS);
        let http = self.client(Some(idle_timeout))?;
        Ok(margin::Client::new_with_client(&self.base_url, http, self.inner(idle_timeout)?))
    }

    fn inner(&self, idle_timeout: Duration) -> Result<Inner, Error> {
        // One without its limit on reads, which counts from the beginning of a request, and would
        // end every upload that takes longer.
        let uploads = self.client(None)?;
        let Self { retries, deadline, .. } = *self;
        let on_retry = self.on_retry.clone();
        Ok(Inner { key: self.key.clone(), retries, on_retry, deadline, idle_timeout, uploads })
    }

    /// The key is not among its default headers: the same client uploads to links that must
    /// not see it. Redirects are followed by [`follow`], which keeps the key at home.
    fn client(&self, idle_timeout: Option<Duration>) -> Result<reqwest::Client, Error> {
        let mut defaults = reqwest::Client::builder()
            .connect_timeout(self.connect_timeout)
            .user_agent(concat!("molbox-rust/", env!("CARGO_PKG_VERSION")));
        if let Some(timeout) = idle_timeout {
            defaults = defaults.read_timeout(timeout);
        }
        let wanted = self.setup.iter().fold(defaults, |http, setup| setup(http));
        // After the caller's setup, which must not bring redirects back: they would carry the key
        // to other hosts.
        wanted
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .build()
            .map_err(Error::Connection)
    }
}

/// What every request of a client needs besides its HTTP client.
#[derive(Clone, Debug)]
pub struct Inner {
    key: ApiKey,
    pub(crate) retries: u32,
    on_retry: OnRetry,
    pub(crate) deadline: Option<Duration>,
    pub(crate) idle_timeout: Duration,
    /// Sends files, and has no limit of its own to the time that takes.
    pub(crate) uploads: reqwest::Client,
}

/// An error with its causes, the deepest last.
struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)?;
        self.0.source().map_or(Ok(()), |source| write!(f, ": {}", Chain(source)))
    }
}

macro_rules! hooks {
    ($client:ty) => {
        impl ClientHooks<Inner> for $client {
            async fn pre<E>(
                &self,
                request: &mut Request,
                _: &OperationInfo,
            ) -> Result<(), progenitor_client::Error<E>> {
                prepare(&self.inner, request);
                Ok(())
            }

            async fn exec(&self, request: Request, _: &OperationInfo) -> reqwest::Result<Response> {
                let response = persist(self.client(), &self.inner, request).await?;
                if response.status().is_success() { Ok(response) } else { readable(response).await }
            }
        }
    };
}

hooks!(workflow::Client);
hooks!(margin::Client);

/// Runs a request that no builder made.
pub(crate) async fn exchange(
    client: &reqwest::Client,
    inner: &Inner,
    mut request: Request,
) -> Result<Response, Error> {
    prepare(inner, &mut request);
    let response = persist(client, inner, request).await.map_err(Error::Connection)?;
    if response.status().is_success() {
        return Ok(response);
    }
    Err(refusal(&readable(response).await.map_err(Error::Connection)?))
}

/// The error that an answer stands for which `readable` has read.
pub(crate) fn refusal(response: &Response) -> Error {
    let refusal = response.extensions().get::<Refusal>().expect("put there by `readable`");
    Error::Refused(Box::new(refusal.clone()))
}

fn prepare(inner: &Inner, request: &mut Request) {
    let is_post = request.method() == Method::POST;
    let headers = request.headers_mut();
    // progenitor's own, not part of this interface.
    headers.remove("api-version");
    headers.insert(API_KEY, inner.key.header());
    // With a key of its own a POST can be repeated, too: the service does it once.
    if is_post && !headers.contains_key(IDEMPOTENCY_KEY) {
        let key = format!("{:016x}{:016x}", random(), random());
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_str(&key).expect("hexadecimal digits"));
    }
}

/// Runs a request, again after a transient error when that cannot do anything twice.
async fn persist(
    client: &reqwest::Client,
    inner: &Inner,
    request: Request,
) -> reqwest::Result<Response> {
    let end = inner.deadline.map(|deadline| Instant::now() + deadline);
    let repeatable = request.method().is_safe() || request.headers().contains_key(IDEMPOTENCY_KEY);
    let mut request = Some(request);
    let mut attempt = 0;
    loop {
        let mut this = request.take().expect("kept for as long as there are attempts");
        if attempt < inner.retries {
            request = this.try_clone();
        }
        if let Some(end) = end {
            *this.timeout_mut() = Some(end.saturating_duration_since(Instant::now()));
        }
        let result = follow(client, this).await;
        let delay = match &result {
            Ok(response) => retry_delay(response, repeatable, attempt),
            // Nothing of it was sent, or sending it twice is harmless.
            Err(error) if error.is_connect() || (repeatable && !error.is_builder()) => {
                Some(backoff(attempt))
            }
            Err(_) => None,
        };
        let is_in_time = |delay: &Duration| end.is_none_or(|end| Instant::now() + *delay < end);
        let Some(delay) = delay.filter(|_| request.is_some()).filter(is_in_time) else {
            return result;
        };
        attempt += 1;
        inner.on_retry.report(result, delay, attempt, inner.retries).await;
        tokio::time::sleep(delay).await;
    }
}

/// How long to wait before a request with this answer is repeated, if it may be.
fn retry_delay(response: &Response, repeatable: bool, attempt: u32) -> Option<Duration> {
    let status = response.status();
    // These two say that the request was not begun.
    let untouched =
        matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let may_repeat = untouched || (repeatable && is_transient(status));
    if !may_repeat {
        return None;
    }
    delay(retry_after(response.headers()), attempt)
}

/// How long to wait before something is done again, with what the answer has asked for; none when
/// that is too long.
pub(crate) fn delay(wanted: Option<Duration>, attempt: u32) -> Option<Duration> {
    match wanted {
        // Those who are told the same time do not come back together.
        Some(after) => (after <= LONGEST_DELAY).then(|| after + backoff(0) / 2),
        None => Some(backoff(attempt)),
    }
}

/// Half to the whole of a delay that doubles: clients that were refused together do not come
/// back together.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let whole = FIRST_DELAY * 2u32.saturating_pow(attempt.min(10));
    let part = 0.5 + 0.5 * (random() as f64 / u64::MAX as f64);
    whole.mul_f64(part)
}

/// Runs a request; follows redirects of a GET, without the key once the origin is another.
async fn follow(client: &reqwest::Client, mut request: Request) -> reqwest::Result<Response> {
    for _ in 0..MAX_REDIRECTS {
        let again = (request.method() == Method::GET).then(|| request.try_clone()).flatten();
        let response = client.execute(request).await?;
        let (Some(mut again), Some(target)) = (again, redirect(&response)) else {
            return Ok(response);
        };
        if target.origin() != response.url().origin() {
            again.headers_mut().remove(API_KEY);
        }
        *again.url_mut() = target;
        request = again;
    }
    client.execute(request).await
}

fn redirect(response: &Response) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    response.url().join(response.headers().get(LOCATION)?.to_str().ok()?).ok()
}

/// An error answer whose body is what the document says, whatever it was: progenitor would
/// lose the status of one that is not JSON, and the text of JSON of another shape.
pub(crate) async fn readable(mut response: Response) -> reqwest::Result<Response> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_ERROR_BYTES {
            body.truncate(MAX_ERROR_BYTES);
            break;
        }
    }
    let mut violations = violations(&body);
    if violations.is_empty() {
        violations.push(unexpected_body(&response, &body));
    }
    let refusal = Refusal::new(response.status(), response.headers(), violations.clone());
    let error = HttpValidationError { detail: violations, extra: Default::default() };
    let mut plain = http::Response::new(serde_json::to_vec(&error).expect("strings and numbers"));
    *plain.status_mut() = response.status();
    *plain.headers_mut() = response.headers().clone();
    plain.extensions_mut().insert(refusal);
    Ok(plain.into())
}

fn violations(body: &[u8]) -> Vec<ValidationError> {
    serde_json::from_slice::<HttpValidationError>(body)
        .map(|error| error.detail)
        .unwrap_or_default()
}

fn unexpected_body(response: &Response, body: &[u8]) -> ValidationError {
    // `{"detail": "…"}`, `{"message": "…"}`, `{"error": "…"}` are what others answer.
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let reported = json.as_ref().and_then(|json| {
        ["detail", "message", "error"].iter().find_map(|key| json.get(key)?.as_str())
    });
    let msg = match reported {
        Some(text) => text.to_owned(),
        None if body.is_empty() => {
            response.status().canonical_reason().unwrap_or("no explanation").to_owned()
        }
        None => {
            let text = String::from_utf8_lossy(body);
            of_page(&text).unwrap_or_else(|| text.chars().take(500).collect())
        }
    };
    ValidationError {
        loc: Vec::new(),
        msg,
        type_: "unexpected_body".to_owned(),
        input: None,
        ctx: Default::default(),
        extra: Default::default(),
    }
}

/// What to say of a web page in the place of an answer: a proxy on the way answers like this, or
/// another server.
fn of_page(text: &str) -> Option<String> {
    let text = text.trim_start();
    let lower = text.to_ascii_lowercase();
    if !["<!doctype html", "<html"].iter().any(|start| lower.starts_with(start)) {
        return None;
    }
    let title = lower.find("<title>").map(|at| at + "<title>".len());
    let title = title.and_then(|start| {
        let end = start + lower[start..].find('<')?;
        let words: Vec<&str> = text[start..end].split_whitespace().collect();
        Some(words.join(" ").chars().take(100).collect::<String>())
    });
    let named = title.filter(|title| !title.is_empty()).map(|title| format!(", {title:?}"));
    let named = named.unwrap_or_default();
    Some(format!("the answer is a web page{named}, of a proxy on the way or of another server"))
}

/// A random number that nobody else draws; std keys its hashers with the system's randomness.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
