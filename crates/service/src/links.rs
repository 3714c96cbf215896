//! Upload links: a temporary grant to send the content of one file, good without a key.
//!
//! A link is signed with HMAC-SHA-256 over the file and the moment at which it ends; what else it
//! grants (account, format, size) stands in the database under the file's identifier.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::app::App;
use crate::bundle::{hex, unhex};
use crate::error::ApiError;

/// How long a link is good, in microseconds: the interface says 60 minutes.
pub(crate) const LIFETIME: i64 = 60 * 60 * 1_000_000;

impl App {
    /// The link for a file, and the moment at which it ends.
    pub(crate) fn upload_link(&self, file_id: &str) -> (String, i64) {
        let expires = self.now() + LIFETIME;
        let signature = hex(&self.link_mac(file_id, expires).finalize().into_bytes());
        (format!("{}/upload/{file_id}?expires={expires}&signature={signature}", self.base_url()), expires)
    }

    /// Checks a link that is used.
    pub(crate) fn check_upload_link(&self, file_id: &str, expires: &str, signature: &str) -> Result<(), ApiError> {
        let (Ok(expires), Some(bytes)) = (expires.parse(), unhex(signature)) else {
            return Err(ApiError::link_refused("the link is not whole"));
        };
        // Compares in constant time.
        if self.link_mac(file_id, expires).verify_slice(&bytes).is_err() {
            return Err(ApiError::link_refused("the link has been altered"));
        }
        if expires <= self.now() {
            return Err(ApiError::link_refused("the link has expired; ask for another"));
        }
        Ok(())
    }

    fn link_mac(&self, file_id: &str, expires: i64) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.secret).expect("any length is a key");
        mac.update(format!("upload\n{file_id}\n{expires}").as_bytes());
        mac
    }
}
