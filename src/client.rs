//! How to come by a client.

use crate::{Connection, Error, margin, workflow};

impl workflow::Client {
    /// A client of the simulation workflow at `base_url`, the deployment stage its last segment.
    /// [`Connection`] has more to choose.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the address or the key cannot be used.
    pub fn new(base_url: &str, key: &str) -> Result<Self, Error> {
        Connection::new(base_url, key)?.workflow()
    }

    /// A client from the environment: `MOLBOX_API_KEY`, and `MOLBOX_BASE_URL` or else
    /// `http://127.0.0.1:8080/local`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the key is not set, or either cannot be used.
    pub fn from_env() -> Result<Self, Error> {
        Connection::from_env("MOLBOX_BASE_URL", "http://127.0.0.1:8080/local")?.workflow()
    }
}

impl margin::Client {
    /// A client of the margin endpoint at `base_url`. [`Connection`] has more to choose.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the address or the key cannot be used.
    pub fn new(base_url: &str, key: &str) -> Result<Self, Error> {
        Connection::new(base_url, key)?.margin()
    }

    /// A client from the environment: `MOLBOX_API_KEY`, and `MOLBOX_MARGIN_URL` or else
    /// `http://127.0.0.1:8081`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the key is not set, or either cannot be used.
    pub fn from_env() -> Result<Self, Error> {
        Connection::from_env("MOLBOX_MARGIN_URL", "http://127.0.0.1:8081")?.margin()
    }
}
