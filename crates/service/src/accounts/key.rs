//! API keys: `mbx_`, 8 characters that name the key, 43 of its secret, 6 of checksum.
//!
//! The checksum tells a mistyped key before the database is asked; scanners for leaked secrets
//! find keys by the prefix. The secret has 256 random bits, so its SHA-256 is enough at rest.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::db::{Db, KeyRow};
use crate::error::ApiError;
use crate::http::peer::network;
use crate::http::rates::Rates;

const PREFIX: &str = "mbx_";
const ID: usize = 8;
const SECRET: usize = 43;
const CHECKSUM: usize = 6;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key as its owner has it; there is no `Debug` form.
pub(crate) struct Key {
    text: String,
}

impl Key {
    /// A new key from random bytes.
    pub(crate) fn generate(random: &[u8; ID + SECRET]) -> Self {
        // 62 does not divide 256: the first eight digits come up a little more often, which costs
        // less than half a bit of the secret.
        let body: String =
            random.iter().map(|byte| char::from(DIGITS[usize::from(*byte) % 62])).collect();
        let text = format!("{PREFIX}{body}{}", checksum(&body));
        Self { text }
    }

    /// A key in a request; none when it cannot be one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let body = text.strip_prefix(PREFIX)?;
        if body.len() != ID + SECRET + CHECKSUM || !body.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return None;
        }
        let (body, sum) = body.split_at(ID + SECRET);
        (checksum(body) == sum).then(|| Self { text: text.to_owned() })
    }

    /// The public part, by which the key is listed and revoked.
    pub(crate) fn id(&self) -> &str {
        &self.text[PREFIX.len()..PREFIX.len() + ID]
    }

    /// What is kept of it.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    /// The whole key, to be shown once.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }
}

fn checksum(body: &str) -> String {
    let mut sum = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; CHECKSUM];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[sum as usize % 62];
        sum /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Requests with wrong keys, by the address from which they come.
pub(crate) struct WrongKeys {
    rates: Rates,
    per_minute: u32,
}

impl WrongKeys {
    /// So many are refused as wrong; those beyond as too many.
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { rates: Rates::default(), per_minute }
    }

    /// The refusal of a key that is no good.
    fn refuse(&self, client: IpAddr) -> ApiError {
        self.instead_of(ApiError::unauthorized("the API key is not valid"), client)
    }

    /// A refusal, or that there were too many of them.
    pub(crate) fn instead_of(&self, refusal: ApiError, client: IpAddr) -> ApiError {
        match self.rates.take(&network(client).to_string(), self.per_minute, Instant::now()) {
            Ok(()) => refusal,
            Err(wait) => {
                ApiError::too_many("too many requests with wrong keys came from this address", wait)
            }
        }
    }
}

/// The key that a request is made with, from the values of its header.
///
/// # Errors
///
/// 401: one text for no key, which an empty one is too, another for a key that never was; who has
/// the whole of one that is no longer good learns why. 429 for such keys when many came from the
/// client's address. A good key is not refused with them: behind one address there may be a whole
/// laboratory.
pub(crate) async fn authenticate<'h>(
    db: &Db,
    wrong_keys: &WrongKeys,
    now: Timestamp,
    header: impl IntoIterator<Item = &'h [u8]>,
    client: IpAddr,
) -> Result<KeyRow, ApiError> {
    let mut values = header.into_iter().map(<[u8]>::trim_ascii).filter(|value| !value.is_empty());
    let value = values.next().ok_or_else(|| ApiError::unauthorized("Not authenticated"))?;
    if values.any(|other| other != value) {
        return Err(ApiError::unauthorized("more than one API key is given"));
    }
    let refused = || wrong_keys.refuse(client);
    let key = std::str::from_utf8(value).ok().and_then(Key::parse).ok_or_else(refused)?;
    let row = db.key(key.id()).await?.ok_or_else(refused)?;
    let is_right = bool::from(row.hash.ct_eq(&key.hash()));
    match end(&row, now) {
        _ if !is_right => Err(refused()),
        Some(end) => Err(wrong_keys.instead_of(end.refusal(), client)),
        None => Ok(row),
    }
}

/// Whether a key is neither revoked nor expired, nor of an account that has been disabled.
pub(crate) fn is_good(row: &KeyRow, now: Timestamp) -> bool {
    end(row, now).is_none()
}

/// Why a key is no longer good.
enum End {
    /// For good: the same account may have others.
    Revoked(Timestamp),
    Expired(Timestamp),
    /// Until the account is enabled again; no other key of it helps.
    Disabled,
}

impl End {
    fn refusal(&self) -> ApiError {
        let day = |at: &Timestamp| at.strftime("%Y-%m-%d");
        match self {
            Self::Revoked(at) => {
                ApiError::unauthorized(&format!("this API key was revoked on {}", day(at)))
            }
            Self::Expired(at) => {
                ApiError::unauthorized(&format!("this API key expired on {}", day(at)))
            }
            Self::Disabled => ApiError::account_disabled(),
        }
    }
}

fn end(row: &KeyRow, now: Timestamp) -> Option<End> {
    // Of a key that is over for itself nobody is to learn about the account.
    let revoked = row.revoked_at.map(End::Revoked);
    let expired = || row.expires_at.filter(|at| *at <= now).map(End::Expired);
    revoked.or_else(expired).or_else(|| row.account_disabled_at.map(|_| End::Disabled))
}

/// Last use is noted this often.
const USE_NOTED: SignedDuration = SignedDuration::from_secs(60);

/// Uses are looked through for those that are over when there are this many.
const MANY: usize = 10_000;

/// Uses that are on their way to the database, so that each is written once.
#[derive(Default)]
pub(crate) struct Uses(Mutex<HashMap<String, Timestamp>>);

impl Uses {
    /// Whether a use is to be noted: not when the last one was within a minute.
    pub(crate) fn is_due(&self, id: &str, last: Option<Timestamp>, now: Timestamp) -> bool {
        last.is_none_or(|at| now.duration_since(at) >= USE_NOTED) && self.note(id, now)
    }

    /// Notes a use of anything; false when one was noted within a minute.
    pub(crate) fn note(&self, id: &str, now: Timestamp) -> bool {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() > MANY {
            uses.retain(|_, at| now.duration_since(*at) < USE_NOTED);
        }
        let is_due = uses.get(id).is_none_or(|at| now.duration_since(*at) >= USE_NOTED);
        if is_due {
            uses.insert(id.to_owned(), now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_recognised_and_a_mistyped_one_is_not() {
        let key = Key::generate(&std::array::from_fn(|i| (i * 37) as u8));
        let again = Key::parse(key.reveal()).unwrap();
        assert_eq!((again.id(), again.hash()), (key.id(), key.hash()));
        let mistyped = key.reveal().replacen(&key.reveal()[20..21], "~", 1);
        assert!(Key::parse(&mistyped).is_none());
        let mut swapped: Vec<u8> = key.reveal().bytes().collect();
        swapped.swap(20, 21);
        assert!(Key::parse(std::str::from_utf8(&swapped).unwrap()).is_none());
    }
}
