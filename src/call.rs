//! Any request at all: what no builder sends.

use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Body, Method, RequestBuilder, Response, Url};
use serde::Serialize;

use crate::{Error, http, margin, workflow};

macro_rules! call {
    ($client:ty, $path:literal) => {
        impl $client {
            /// Any request to this base address, with the key, redirects, retries and errors of
            /// every other: for what has no builder, or a media type that its builder does not ask
            /// for.
            ///
            /// ```no_run
            /// # async fn f(
            #[doc = concat!("#     molbox: molbox::", stringify!($client))]
            /// # ) -> Result<(), molbox::Error> {
            #[doc = concat!("let answer = molbox.call(\"GET\", \"", $path, "\")?.send().await?;")]
            /// let bytes = answer.bytes().await?;
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            ///
            /// [`Error::Invalid`] when the method or the path cannot be.
            pub fn call(&self, method: &str, path: &str) -> Result<Call<'_>, Error> {
                let (method, url) = target(&self.baseurl, method, path)?;
                Ok(Call {
                    sender: Sender { client: &self.client, inner: &self.inner },
                    request: self.client.request(method, url),
                })
            }
        }
    };
}

call!(workflow::Client, "/info/jobs");
call!(margin::Client, "/healthz");

fn target(base_url: &str, method: &str, path: &str) -> Result<(Method, Url), Error> {
    let method = Method::from_bytes(method.to_uppercase().as_bytes())
        .map_err(|_| Error::argument("method", format!("must be one like GET, got {method:?}")))?;
    if !path.starts_with('/') {
        return Err(Error::argument("path", format!("must begin with a slash, got {path:?}")));
    }
    let url = Url::parse(&format!("{base_url}{path}")).map_err(|e| Error::argument("path", e))?;
    Ok((method, url))
}

#[derive(Clone, Copy)]
struct Sender<'a> {
    client: &'a reqwest::Client,
    inner: &'a http::Inner,
}

/// A request of any kind, sent by [`send`](Self::send).
#[must_use = "a request is sent by `.send()`"]
pub struct Call<'a> {
    sender: Sender<'a>,
    request: RequestBuilder,
}

impl Call<'_> {
    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.query(&[(name, value)]);
        self
    }

    /// Sets a header.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when it is none.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable_header(name))?;
        let value = HeaderValue::from_str(value).map_err(|_| unsendable_header(name))?;
        self.request = self.request.header(parsed, value);
        Ok(self)
    }

    /// Sets the body; say with [`header`](Self::header) of which `content-type` it is.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.request = self.request.body(Body::from(bytes.into()));
        self
    }

    /// Sets the body to a value as JSON, for example to the settings of a record with what a later
    /// service has added to them.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when it is no JSON, as a map whose keys are not texts.
    pub fn json(mut self, value: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(value).map_err(|e| Error::argument("body", e))?;
        self.request = self.request.header(CONTENT_TYPE, "application/json");
        Ok(self.body(bytes))
    }

    /// Sends it.
    ///
    /// # Errors
    ///
    /// As every call.
    pub async fn send(self) -> Result<Answer, Error> {
        let request = self.request.build().map_err(|e| Error::invalid(e.to_string()))?;
        let Sender { client, inner } = self.sender;
        http::exchange(client, inner, request).await.map(|response| Answer { response })
    }
}

fn unsendable_header(name: &str) -> Error {
    Error::invalid(format!("header {name}: cannot be sent"))
}

/// An answer with a status of success.
#[derive(Debug)]
pub struct Answer {
    response: Response,
}

impl Answer {
    /// Status of the answer.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header of the answer, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// All headers that are text, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.response
            .headers()
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// The next piece of the body; nothing at its end.
    ///
    /// # Errors
    ///
    /// [`Error::Connection`] when the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.response.chunk().await.map_err(Error::Connection)?.map(|bytes| bytes.to_vec()))
    }

    /// The whole body.
    ///
    /// # Errors
    ///
    /// [`Error::Connection`] when the connection breaks.
    pub async fn bytes(self) -> Result<Vec<u8>, Error> {
        Ok(self.response.bytes().await.map_err(Error::Connection)?.to_vec())
    }

    pub(crate) fn into_response(self) -> Response {
        self.response
    }
}
