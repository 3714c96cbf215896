//! Public structure entries, from the mirror that the operator has configured.
//!
//! Only the entry's identifier comes from the request, and the document gives its form: the
//! service fetches nothing else, and follows no redirect.

use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;

use crate::config::Pdb;
use crate::error::ApiError;
use crate::formats::Format;
use crate::http::validate::loc;
use crate::web;

/// Largest entry, unpacked.
const MAX_BYTES: usize = 512 << 20;

/// The mirror, if the operator has configured one.
pub(crate) struct Mirror {
    client: reqwest::Client,
    config: Pdb,
}

/// Whether a text has the form of an entry's identifier: `1L2Y`, `pdb_00001l2y`.
pub(crate) fn is_id(text: &str) -> bool {
    let is_short = text.len() == 4 && text.as_bytes()[0].is_ascii_digit();
    let is_long = text.len() == 12 && text.starts_with("pdb_");
    (is_short || is_long)
        && text.trim_start_matches("pdb_").bytes().all(|b| b.is_ascii_alphanumeric())
}

impl Mirror {
    pub(crate) fn new(config: &Pdb) -> Result<Self> {
        Ok(Self { client: web::client()?, config: config.clone() })
    }

    pub(crate) fn is_configured(&self) -> bool {
        !self.config.mirror.is_empty()
    }

    /// The content of an entry, unpacked, and its format.
    ///
    /// # Errors
    ///
    /// 422 without a mirror, 404 when the mirror does not have the entry, 503 when it cannot be
    /// reached; `field` is that of the request.
    pub(crate) async fn fetch(&self, id: &str, field: &str) -> Result<(Vec<u8>, Format), ApiError> {
        let mirror = &self.config.mirror;
        if !self.is_configured() {
            let msg =
                "this service has no mirror of public structure entries; upload the file instead";
            return Err(ApiError::invalid_body("no_mirror", vec![loc(field)], msg));
        }
        let place = mirror.replace("{id}", &id.to_lowercase()).replace("{ID}", &id.to_uppercase());
        let (name, is_packed) =
            place.strip_suffix(".gz").map_or((place.as_str(), false), |name| (name, true));
        let format = name.rsplit('.').next().and_then(Format::named);
        let format =
            format.filter(|f| [Format::Pdb, Format::Cif].contains(f)).ok_or_else(|| {
                ApiError::internal(anyhow!(
                    "pdb.mirror {mirror:?} names neither a .cif nor a .pdb file"
                ))
            })?;
        let limit = Duration::from_secs(self.config.timeout_seconds);
        let bytes = tokio::time::timeout(limit, read(&self.client, &place))
            .await
            .unwrap_or_else(|_| Err(anyhow!("no answer within {} s", limit.as_secs())));
        let bytes = bytes.map_err(|e| {
            ApiError::unavailable(
                "the mirror of public structure entries cannot be reached",
                e.context(format!("fetch {place}")),
            )
        })?;
        let Some(bytes) = bytes else {
            return Err(ApiError::not_found_in_body(
                field,
                format!("the mirror has no entry {id}"),
            ));
        };
        let bytes = if is_packed {
            unpack(&bytes).context("unpack an entry of the mirror")?
        } else {
            bytes
        };
        Ok((bytes, format))
    }
}

/// What is at a place; none when there is nothing.
async fn read(client: &reqwest::Client, place: &str) -> Result<Option<Vec<u8>>> {
    if !place.starts_with("http://") && !place.starts_with("https://") {
        return match tokio::fs::read(place).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        };
    }
    let response = client.get(place).send().await?;
    if response.status() == reqwest::StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !response.status().is_success() {
        return Err(anyhow!("it answered {}", response.status()));
    }
    let mut bytes = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?);
        if bytes.len() > MAX_BYTES {
            return Err(anyhow!("the entry is larger than {MAX_BYTES} bytes"));
        }
    }
    Ok(Some(bytes))
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).take(MAX_BYTES as u64 + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() > MAX_BYTES {
        return Err(anyhow!("the entry is larger than {MAX_BYTES} bytes"));
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn identifiers_have_one_of_two_forms() {
        for id in ["1L2Y", "4hhb", "pdb_00001l2y"] {
            assert!(is_id(id), "{id}");
        }
        for other in ["villin", "L12Y", "1L2", "1L2Y5", "1L/Y", "../x", "pdb_1l2y", "pdb_0000/l2y"]
        {
            assert!(!is_id(other), "{other}");
        }
    }
}
