//! What the service asks of other servers with, and which of their addresses it trusts.

use std::error::Error;
use std::io;
use std::net::IpAddr;

use anyhow::{Context, Result};
use reqwest::Url;
use rustls::CertificateError::{
    Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
    NotValidYetContext,
};

/// A client that follows no redirects: what is asked for stands where it was configured.
pub(crate) fn client() -> Result<reqwest::Client> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("molboxd/", env!("CARGO_PKG_VERSION")))
        .build();
    client.context("start the HTTP client")
}

/// Why no connection by TLS comes about with a server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// Its certificate is of another name than it was asked for by.
    Name,
    /// Its certificate is not good at this time.
    Time,
    /// Its certificate is by nobody that is believed here.
    Signer,
    /// It does not speak TLS, or not as this program does.
    NoTls,
}

/// Why a server is not believed; none where an error is not about that.
pub(crate) fn distrust(error: &(dyn Error + 'static)) -> Option<Distrust> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref::<rustls::Error>() {
            return Some(match refused {
                rustls::Error::InvalidCertificate(
                    NotValidForName | NotValidForNameContext { .. },
                ) => Distrust::Name,
                rustls::Error::InvalidCertificate(
                    Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
                ) => Distrust::Time,
                rustls::Error::InvalidCertificate(_) => Distrust::Signer,
                _ => Distrust::NoTls,
            });
        }
        // What an error of input and output is made of it does not call its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Whether an address is one of this machine.
pub(crate) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.parse::<IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback())
}

/// Whether nobody else can answer at an address of HTTP: TLS vouches for it, or it is here.
pub(crate) fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_here(url)
}

/// Whether an address can be an identity provider's.
pub(crate) fn is_issuer(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    is_plain && is_private(&url)
}

#[cfg(test)]
mod tests {
    use super::is_issuer;

    #[test]
    fn an_issuer_has_tls_or_is_on_this_machine() {
        for good in [
            "https://login.example",
            "https://login.example/a/b",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(is_issuer(good), "{good}");
        }
        for other in [
            "http://login.example",
            "http://127.0.0.1.evil.example",
            "login.example",
            "https://login.example?a",
            "https://login.example#a",
            "https://u@login.example",
            "ftp://127.0.0.1",
            "file:///etc",
        ] {
            assert!(!is_issuer(other), "{other}");
        }
    }
}
