//! Public structure entries, from the mirror that the operator has configured.
//!
//! Only the entry's identifier comes from the request, and the document gives its form: the
//! service fetches nothing else, and follows no redirect.

use std::io::{self, Read};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use tokio::io::AsyncReadExt;

use crate::config::Pdb;
use crate::error::ApiError;
use crate::formats::Format;
use crate::http::validate::loc;
use crate::web;

/// The mirror, if the operator has configured one.
pub(crate) struct Mirror {
    client: reqwest::Client,
    config: Pdb,
    /// Most bytes of an entry, which is held in memory: packed, and unpacked.
    max_bytes: u64,
}

/// Whether a text has the form of an entry's identifier: `1L2Y`, `pdb_00001l2y`.
pub(crate) fn is_id(text: &str) -> bool {
    let is_short = text.len() == 4 && text.as_bytes()[0].is_ascii_digit();
    let is_long = text.len() == 12 && text.starts_with("pdb_");
    (is_short || is_long)
        && text.trim_start_matches("pdb_").bytes().all(|b| b.is_ascii_alphanumeric())
}

impl Mirror {
    pub(crate) fn new(config: &Pdb, max_bytes: u64) -> Result<Self> {
        Ok(Self { client: web::client()?, config: config.clone(), max_bytes })
    }

    pub(crate) fn is_configured(&self) -> bool {
        !self.config.mirror.is_empty()
    }

    /// The content of an entry, unpacked, and its format.
    ///
    /// # Errors
    ///
    /// 422 without a mirror and for an entry that is too large, 404 when the mirror does not have the
    /// entry, 503 when it cannot be reached; `field` is that of the request.
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
        let bytes = tokio::time::timeout(limit, self.read(&place))
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
        let most = self.max_bytes;
        let bytes = if is_packed && bytes.len() as u64 <= most {
            let unpacked = tokio::task::spawn_blocking(move || unpack(&bytes, most));
            let unpacked = unpacked.await.map_err(ApiError::internal)?;
            unpacked.context("unpack an entry of the mirror")?
        } else {
            bytes
        };
        if bytes.len() as u64 > most {
            let msg = format!(
                "the mirror's entry {id} has more than {most} bytes, the most that is read \
                 (`limits.text_bytes` of the service)"
            );
            return Err(ApiError::invalid_body("file_content", vec![loc(field)], msg));
        }
        Ok((bytes, format))
    }

    /// What is at a place, or its beginning where that is too much; none when there is nothing.
    async fn read(&self, place: &str) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        if !place.starts_with("http://") && !place.starts_with("https://") {
            let file = match tokio::fs::File::open(place).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            file.take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes).await?;
            return Ok(Some(bytes));
        }
        let response = self.client.get(place).send().await?;
        if response.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(anyhow!("it answered {}", response.status()));
        }
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?);
            if bytes.len() as u64 > self.max_bytes {
                break;
            }
        }
        Ok(Some(bytes))
    }
}

/// What was packed, or its beginning where that is more than so many bytes.
fn unpack(bytes: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).take(most.saturating_add(1)).read_to_end(&mut unpacked)?;
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
