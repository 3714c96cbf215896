//! Passwords: what is kept of them, and how one is tried.
//!
//! Argon2id with 19 MiB and 2 passes, which OWASP's Password Storage Cheat Sheet recommends. Two
//! are worked on at a time, on threads of their own: the memory has a bound, and requests go on.

use std::sync::Arc;

use anyhow::anyhow;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use crate::error::ApiError;
use crate::random;

const AT_A_TIME: usize = 2;
const SALT: usize = 16;
/// The hash of a password that nobody has: a name that no account has takes as long as another.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Turns for working on passwords.
pub(crate) struct Passwords(Arc<Semaphore>);

impl Default for Passwords {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Passwords {
    /// What is to be kept of a password, a PHC string.
    pub(crate) async fn hash(&self, password: String) -> Result<String, ApiError> {
        self.work(move || {
            let salt = random::bytes::<SALT>();
            let hash: PasswordHash =
                argon2()
                    .hash_password_with_salt(password.as_bytes(), &salt)
                    .map_err(|error| ApiError::internal(anyhow!("hash a password: {error}")))?;
            Ok(hash.to_string())
        })
        .await
    }

    /// Whether a password is the one that was kept; false, after as long, when none was.
    pub(crate) async fn is_right(
        &self,
        password: String,
        kept: Option<String>,
    ) -> Result<bool, ApiError> {
        self.work(move || {
            let hash = kept.as_deref().unwrap_or(NOBODY);
            let hash = PasswordHash::new(hash)
                .map_err(|error| ApiError::internal(anyhow!("a stored password: {error}")))?;
            let is_right = argon2().verify_password(password.as_bytes(), &hash).is_ok();
            Ok(is_right && kept.is_some())
        })
        .await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.0.clone().acquire_owned().await.map_err(ApiError::internal)?;
        let work = move || {
            // Until it has ended, also when nobody waits for it any more.
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)?
    }
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(19 * 1024, 2, 1, None).expect("parameters that it allows");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(hash: &str) -> String {
        hash.rsplitn(3, '$').nth(2).unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_password_is_told_from_others_and_none_is_right_where_none_was_chosen() {
        let passwords = Passwords::default();
        let kept = passwords.hash("correct horse battery".to_owned()).await.unwrap();
        assert_eq!(parameters(&kept), parameters(NOBODY), "each takes as long");
        assert_ne!(kept, passwords.hash("correct horse battery".to_owned()).await.unwrap());
        for (tried, kept, is_right) in [
            ("correct horse battery", Some(&kept), true),
            ("correct horse batterY", Some(&kept), false),
            ("", Some(&kept), false),
            ("correct horse battery", None, false),
        ] {
            let found = passwords.is_right(tried.to_owned(), kept.cloned()).await.unwrap();
            assert_eq!(found, is_right, "{tried:?}");
        }
    }
}
