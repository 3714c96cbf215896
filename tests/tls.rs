//! Services whose certificates the system does not know, and that ask for one of the client.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "rustls")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::error::Error as _;
use std::sync::Arc;

use common::{JOB, JOB_ID};
use molbox::{Connection, Error};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Who signs certificates.
struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A connection to a service that trusts this authority.
    fn trusted_by(&self, address: &str) -> Connection {
        let connection = Connection::new(address, "mbx_secret").unwrap().retries(0);
        connection.root_certificates(self.certificate.pem().as_bytes()).unwrap()
    }

    /// A service with a certificate of this authority, which wants to see one of it; its address.
    async fn serve(&self) -> String {
        let (certificate, key) = self.sign("127.0.0.1");
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}/prod", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Who does not shake hands gets nothing.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head_of_answer =
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let answer = format!("{head_of_answer}content-length: {}\r\n\r\n{JOB}", JOB.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        address
    }
}

async fn status(connection: Connection) -> Result<String, Error> {
    Ok(connection.workflow()?.job_view().job_id(JOB_ID).send().await?.into_inner().status)
}

/// An error with everything that led to it.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

#[tokio::test]
async fn a_service_is_trusted_by_its_authority_and_trusts_the_client_by_its_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let address = authority.serve().await;
    let identity = |of: &Authority| {
        let (certificate, key) = of.sign("client");
        format!("{}{}", key.serialize_pem(), certificate.pem())
    };
    let own = identity(&authority);
    let connection = authority.trusted_by(&address).identity(own.as_bytes()).unwrap();
    assert_eq!(status(connection).await.unwrap(), "succeeded");

    // Nobody's authority, another one, no certificate, that of another authority.
    let unknown = Connection::new(&address, "mbx_secret")
        .unwrap()
        .retries(0)
        .identity(own.as_bytes())
        .unwrap();
    let other = stranger.trusted_by(&address).identity(own.as_bytes()).unwrap();
    for connection in [unknown, other] {
        let error = status(connection).await.unwrap_err();
        assert!(matches!(error, Error::Connection(_)), "{error}");
        assert!(chain(&error).contains("invalid peer certificate"), "{}", chain(&error));
    }
    let nobody = authority.trusted_by(&address);
    let somebody = authority.trusted_by(&address).identity(identity(&stranger).as_bytes()).unwrap();
    for connection in [nobody, somebody] {
        let error = status(connection).await.unwrap_err();
        assert!(matches!(error, Error::Connection(_)), "{error}");
    }
}
