//! A server that answers as a test says and remembers what it was asked.

use std::sync::{Arc, Mutex};

use molbox::{Client, Connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

// The document's examples, as answers.
pub(crate) const JOB: &str = include_str!("../../openapi/examples/job_view.200.succeeded.json");
pub(crate) const QUEUED: &str = include_str!("../../openapi/examples/job_submit.200.json");
pub(crate) const RUNNING: &str = include_str!("../../openapi/examples/job_view.200.running.json");
pub(crate) const FAILED: &str = include_str!("../../openapi/examples/job_view.200.failed.json");
pub(crate) const REFUSAL: &str = include_str!("../../openapi/examples/ValidationFailed.json");
pub(crate) const JOB_ID: &str = "job_7cpejpkq0zxnh8yydfbe";

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What the server does with a request.
pub(crate) enum Answer {
    /// Bytes of a whole response.
    Whole(Vec<u8>),
    /// A head, then its body in pieces with a pause before each.
    Slow { head: String, pieces: Vec<Vec<u8>>, pause: std::time::Duration },
    /// Some bytes, then the connection breaks.
    Broken(Vec<u8>),
}

/// A response with these header lines.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    Answer::Whole([head.as_bytes(), body].concat())
}

pub(crate) fn json(status: &str, body: &str) -> Answer {
    answer(status, "content-type: application/json\r\n", body)
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Answers the request number `n`, from 0, with `reply(n, request)`.
    pub(crate) async fn start(
        reply: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/local", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, reply) = (received.clone(), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, reply) = (log.clone(), reply.clone());
                tokio::spawn(async move { serve(stream, &log, &*reply).await });
            }
        });
        Self { base_url, received }
    }

    /// A server that gives this one answer.
    pub(crate) async fn always(make: impl Fn() -> Answer + Send + Sync + 'static) -> Self {
        Self::start(move |_, _| make()).await
    }

    pub(crate) fn client(&self) -> Client {
        self.connection().workflow().unwrap()
    }

    pub(crate) fn connection(&self) -> Connection {
        Connection::new(&self.base_url, "mbx_secret").unwrap()
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Received>>,
    reply: &(impl Fn(usize, &Received) -> Answer + Sync),
) {
    let Some(request) = read(&mut stream).await else { return };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    // The client may have gone: that is part of some tests.
    match reply(number, &request) {
        Answer::Whole(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answer::Broken(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
        }
        Answer::Slow { head, pieces, pause } => {
            let _ = stream.write_all(head.as_bytes()).await;
            for piece in pieces {
                tokio::time::sleep(pause).await;
                if stream.write_all(&piece).await.is_err() {
                    return;
                }
            }
            let _ = stream.shutdown().await;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| l.split_once(':'))
        .map(|(k, v)| (k.to_lowercase(), v.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(k, _)| k == "content-length")
        .and_then(|(_, v)| v.parse().ok())
        .unwrap_or(0);
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            break;
        }
    }
    Some(Received { line, headers, body })
}
