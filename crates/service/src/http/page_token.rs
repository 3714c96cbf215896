//! Page tokens: where the next page of a listing begins, sealed.
//!
//! A listing goes by the number of the row, which counts what all accounts of the installation have
//! ever made: so a token is encrypted. It is good for the listing and the account that it was made
//! for, and what is altered anywhere is none.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::db::Filter;
use crate::hex::{hex, unhex};

/// Seals and opens the page tokens of an installation.
pub(crate) struct PageTokens(LessSafeKey);

impl PageTokens {
    /// With a key of its own, from the secret of the installation.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(secret).expect("any length is a key");
        mac.update(b"page tokens");
        let key = UnboundKey::new(&AES_256_GCM, &mac.finalize().into_bytes()).expect("32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// The token of a page; `nonce` is drawn anew for each.
    pub(crate) fn seal(&self, listing: &str, page: &Filter, nonce: [u8; NONCE_LEN]) -> String {
        // Of one length whatever the number is.
        let mut sealed = page.before.unwrap_or_default().to_le_bytes().to_vec();
        sealed.extend(serde_json::to_vec(&(&page.status, &page.name)).expect("strings"));
        let at = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(at, Aad::from(listing), &mut sealed)
            .expect("a page is short");
        hex(&[&nonce, sealed.as_slice()].concat())
    }

    /// The page of a token; none for what is no token of this listing.
    pub(crate) fn open(&self, listing: &str, token: &str) -> Option<Filter> {
        let bytes = unhex(token)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let at = Nonce::assume_unique_for_key(*nonce);
        let page: &[u8] = self.0.open_in_place(at, Aad::from(listing), &mut sealed).ok()?;
        let (before, filter) = page.split_first_chunk()?;
        let (status, name) = serde_json::from_slice(filter).ok()?;
        Some(Filter { before: Some(i64::from_le_bytes(*before)), status, name })
    }
}

#[cfg(test)]
mod tests {
    use molbox::workflow::types;

    use super::*;

    #[test]
    fn a_token_opens_as_it_was_sealed_and_not_when_any_of_it_is_altered() {
        let tokens = PageTokens::new(&[7; 32]);
        let page = Filter { before: Some(1234), status: Some(types::Status::Ready), name: None };
        let token = tokens.seal("file_list 1", &page, [9; 12]);
        assert_eq!(tokens.open("file_list 1", &token), Some(page.clone()));
        assert_eq!(tokens.open("file_list 2", &token), None, "another account's");
        assert_eq!(tokens.open("job_list 1", &token), None, "another listing's");
        assert_eq!(
            PageTokens::new(&[8; 32]).open("file_list 1", &token),
            None,
            "another installation's"
        );
        for at in 0..token.len() {
            let digit = if token.as_bytes()[at] == b'0' { "1" } else { "0" };
            let mut altered = token.clone();
            altered.replace_range(at..=at, digit);
            assert_eq!(tokens.open("file_list 1", &altered), None, "digit {at}");
            assert_eq!(tokens.open("file_list 1", &token[..at]), None, "{at} digits");
        }
        for other in ["é", "zz", "0é0", &token.replace('0', "+")] {
            assert_eq!(tokens.open("file_list 1", other), None, "{other}");
        }
        let far = Filter { before: Some(i64::MAX), ..page };
        assert_eq!(
            tokens.seal("file_list 1", &far, [9; 12]).len(),
            token.len(),
            "its length shows nothing"
        );
    }
}
