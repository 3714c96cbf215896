//! Downloads, whole or in ranges.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_RANGE, RANGE,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use futures::{Stream, StreamExt};

use crate::error::ApiError;
use crate::http::call::Call;
use crate::objects::bundle::Layout;

/// What is downloaded, but for its bytes.
pub(crate) struct Content<'a> {
    pub(crate) size: u64,
    /// By what it is recognised; none for what may change.
    pub(crate) etag: Option<String>,
    pub(crate) media: &'static str,
    /// Name of the file that it becomes.
    pub(crate) name: &'a str,
}

/// A download, whole or the range that is asked for.
pub(crate) fn download(
    call: &Call,
    layout: Layout,
    media: &'static str,
    name: &str,
) -> Result<Response, ApiError> {
    let etag = Some(format!("\"sha256-{}\"", layout.sha256));
    let content = Content { size: layout.size, etag, media, name };
    let objects = call.app.objects.clone();
    // A store that does not answer is named; after the first byte it could only be cut off.
    layout.objects().next().map_or(Ok(false), |(key, _)| objects.exists(key))?;
    ranged(call, content, |start, end| layout.stream(objects, start, end))
}

/// The same of any content, of which `bytes` gives those from one place up to but not including
/// another.
pub(crate) fn ranged<S>(
    call: &Call,
    content: Content<'_>,
    bytes: impl FnOnce(u64, u64) -> S,
) -> Result<Response, ApiError>
where
    S: Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    let Content { size, etag, media, name } = content;
    let is_current =
        call.header(IF_RANGE.as_str()).is_none_or(|value| Some(value) == etag.as_deref());
    let range =
        call.header(RANGE.as_str()).filter(|_| is_current).and_then(|text| byte_range(text, size));
    let (start, end) = match range {
        Some(None) => return Err(ApiError::range_not_satisfiable(size)),
        Some(Some(range)) => range,
        None => (0, size),
    };
    let mut response = Response::new(Body::from_stream(while_good(call, bytes(start, end))));
    let headers = response.headers_mut();
    let text = |text: String| HeaderValue::from_str(&text).map_err(ApiError::internal);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CONTENT_LENGTH, (end - start).into());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(etag) = etag {
        headers.insert(ETAG, text(etag)?);
    }
    headers.insert(CONTENT_DISPOSITION, text(format!("attachment; filename=\"{name}\""))?);
    if range.is_some() {
        headers.insert(
            CONTENT_RANGE,
            text(format!("bytes {start}-{}/{size}", end.saturating_sub(1)))?,
        );
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// After so many chunks, 4 MiB, it is looked whether the key of a download is still good.
const LOOK: usize = 16;

/// The content of a download, which breaks off when its key is revoked or expires, or its account
/// is disabled.
pub(crate) fn while_good(
    call: &Call,
    content: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let app = call.app.clone();
    let caller = call.caller().id().to_owned();
    content.enumerate().then(move |(number, chunk)| {
        let look = number.is_multiple_of(LOOK).then(|| (app.clone(), caller.clone()));
        async move {
            let Some((app, caller)) = look else { return chunk };
            match app.is_still_good(&caller).await {
                Ok(true) => chunk,
                Ok(false) => Err(io::Error::other("the key, or the session, is no longer good")),
                Err(error) => Err(io::Error::other(format!("{error:?}"))),
            }
        }
    })
}

/// The bytes of a `Range` header, `start..end`: none when it is not one range of bytes and so to
/// be ignored (RFC 9110), `Some(None)` when it lies outside.
fn byte_range(text: &str, size: u64) -> Option<Option<(u64, u64)>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().unwrap_or(u64::MAX))
    };
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
            let start = number(first)?;
            let last = number(last)?;
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
