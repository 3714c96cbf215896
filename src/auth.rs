//! The API key.

use std::fmt;

use reqwest::header::HeaderValue;

use crate::Error;

/// An API key. Its `Debug` form does not show it.
#[derive(Clone)]
pub struct ApiKey(HeaderValue);

impl ApiKey {
    /// The key as the service gave it, surrounding white space aside.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when it is empty, has white space inside, or holds what no header can.
    pub fn new(key: &str) -> Result<Self, Error> {
        let key = key.trim();
        if key.is_empty() {
            return Err(Error::argument("api_key", "is empty"));
        }
        if key.contains(char::is_whitespace) {
            return Err(Error::argument("api_key", "has white space inside: is it more than one?"));
        }
        // The text of a wrong key stays out of the message.
        let mut value = HeaderValue::from_str(key)
            .map_err(|_| Error::argument("api_key", "is not printable ASCII"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}
