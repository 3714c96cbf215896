//! Upload links: a temporary grant to send the content of one file, for whoever has the link.
//!
//! A link is signed with HMAC-SHA-256 over the file, the identifier of the key that asked for it,
//! and the moment at which it ends, which it does with its key too; what else it grants (account,
//! format, size) stands in the database under the file's identifier.

use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

use crate::error::ApiError;
use crate::hex::{hex, unhex};

/// How long a link is good: the interface says 60 minutes.
pub(crate) const LIFETIME: SignedDuration = SignedDuration::from_mins(60);

/// The parts of a link that a client sends.
pub(crate) struct UploadLink<'a> {
    pub(crate) expires: &'a str,
    pub(crate) key: &'a str,
    pub(crate) signature: &'a str,
}

impl<'a> UploadLink<'a> {
    /// Of a query; a part that is missing is empty.
    pub(crate) fn of(query: &'a [(String, String)]) -> Self {
        Self {
            expires: part(query, "expires"),
            key: part(query, "key"),
            signature: part(query, "signature"),
        }
    }
}

fn part<'a>(query: &'a [(String, String)], name: &str) -> &'a str {
    query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
}

/// Signs and checks the upload links of an installation.
pub(crate) struct UploadLinks {
    secret: [u8; 32],
}

impl UploadLinks {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// The query of a link.
    pub(crate) fn query(&self, file_id: &str, key_id: &str, expires: Timestamp) -> String {
        let expires = expires.as_microsecond();
        let signature = hex(&self.mac(file_id, key_id, expires).finalize().into_bytes());
        format!("expires={expires}&key={key_id}&signature={signature}")
    }

    /// Checks that a link is one that was made, and has not expired.
    pub(crate) fn check(
        &self,
        file_id: &str,
        link: &UploadLink<'_>,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let (Ok(expires), Some(signature)) = (link.expires.parse(), unhex(link.signature)) else {
            return Err(ApiError::link_refused("the link is not whole"));
        };
        // Compares in constant time.
        if self.mac(file_id, link.key, expires).verify_slice(&signature).is_err() {
            return Err(ApiError::link_refused("the link has been altered"));
        }
        if expires <= now.as_microsecond() {
            return Err(ApiError::link_refused("the link has expired; ask for another"));
        }
        Ok(())
    }

    /// Of what a link grants; `expires` in microseconds since 1970, as its query has it.
    fn mac(&self, file_id: &str, key_id: &str, expires: i64) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.secret).expect("any length is a key");
        mac.update(format!("upload\n{file_id}\n{key_id}\n{expires}").as_bytes());
        mac
    }
}
