//! The query and the body of a request.

use std::io::Write as _;
use std::mem;

use axum::body::Body;
use axum::extract::Request;
use flate2::write::MultiGzDecoder;
use futures::StreamExt;
use molbox::workflow::types::LocItem;

use crate::error::ApiError;
use crate::http::connections::Pace;
use crate::http::json::{self, Json, JsonError};
use crate::http::room::Share;
use crate::http::validate::{loc, violation};

/// A body beyond this is read where no other request waits for it.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

/// The query parameters of a request, decoded.
pub(crate) fn query_of(request: &Request) -> Vec<(String, String)> {
    form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
        .into_owned()
        .collect()
}

pub(crate) fn is_json(media: &str) -> bool {
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

/// Reads a body, or a part of one, as JSON.
pub(crate) fn parse(bytes: &[u8], max_values: usize) -> Result<Json, ApiError> {
    parse_small(bytes, max_values)?.ok_or_else(|| ApiError::too_many_values(max_values))
}

/// The same; nothing when it has more than `max_values` values.
pub(crate) fn parse_small(bytes: &[u8], max_values: usize) -> Result<Option<Json>, ApiError> {
    let parsed = json::parse(bytes, max_values);
    parsed.map(Some).or_else(|error| match error {
        JsonError::TooMany => Ok(None),
        JsonError::Unreadable => Err(ApiError::unreadable_body()),
        JsonError::Syntax { message, at } => {
            let mut error = violation(
                "json_invalid",
                vec![loc("body"), LocItem::Int64(at as i64)],
                "JSON decode error",
            );
            error.ctx.insert("error".to_owned(), message.into());
            Err(ApiError::invalid(vec![error]))
        }
    })
}

/// A body that is read into memory, as far as it may be large and there is room.
pub(crate) struct Arriving {
    body: Vec<u8>,
    max_bytes: u64,
    share: Share,
}

impl Arriving {
    /// Nothing yet, of at most `max_bytes`.
    pub(crate) fn new(max_bytes: u64, share: Share) -> Self {
        Self { body: Vec::new(), max_bytes, share }
    }

    /// What has been read, and what it holds of the memory for bodies.
    pub(crate) fn done(self) -> (Vec<u8>, Share) {
        (self.body, self.share)
    }

    pub(crate) async fn read(&mut self, body: Body, pace: Option<&Pace>) -> Result<(), ApiError> {
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            // The sender went away: nobody reads the answer.
            let chunk = chunk.map_err(|_| Pace::error_or(pace, ApiError::unreadable_body))?;
            self.take(&chunk)?;
        }
        Ok(())
    }

    /// Reads one that is compressed; what comes out may be `ratio` times as large.
    pub(crate) async fn unpack(
        &mut self,
        body: Body,
        ratio: u64,
        pace: Option<&Pace>,
    ) -> Result<(), ApiError> {
        let mut chunks = body.into_data_stream();
        let mut received = 0_u64;
        let mut unpacked = 0_u64;
        let mut gzip = MultiGzDecoder::new(Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Pace::error_or(pace, ApiError::unreadable_body))?;
            // A little at a time, so that what comes out is counted before there is much of it.
            for part in chunk.chunks(PART_BYTES) {
                gzip.write_all(part).map_err(|_| ApiError::unreadable_body())?;
                received += part.len() as u64;
                let out = mem::take(gzip.get_mut());
                unpacked += out.len() as u64;
                self.take(&out)?;
                if unpacked > MIB && unpacked / ratio.max(1) > received {
                    return Err(ApiError::too_compressed(ratio));
                }
            }
        }
        let rest = gzip.finish().map_err(|_| ApiError::unreadable_body())?;
        self.take(&rest)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        if (self.body.len() + bytes.len()) as u64 > self.max_bytes {
            return Err(ApiError::too_large(self.max_bytes));
        }
        self.share.grow(bytes.len())?;
        self.body.extend_from_slice(bytes);
        Ok(())
    }
}

/// Compressed bytes that are unpacked at a time: at gzip's best ratio they make a MiB.
const PART_BYTES: usize = 1 << 10;
const MIB: u64 = 1 << 20;
