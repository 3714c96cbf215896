//! nginx and TLS before the service: with the lines of `docs/operating.md`, as its page has them.

use std::fs;
use std::net::TcpListener;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll};

use futures::StreamExt as _;
use molbox::Connection;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use crate::audits::audit;
use crate::common::{Service, example, wait_for};
use crate::events::Events;
use crate::setup::blocks;

/// What the page calls the machine; the tests call it as it is.
const HOST: &str = "md.example.org";

/// nginx with the configuration of the page.
struct Nginx {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
    margin_port: u16,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It ends its workers, which a kill would leave.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn section() -> &'static str {
    let page = include_str!("../../../../docs/operating.md");
    page.split_once("\n### TLS\n").unwrap().1.split_once("\n## ").unwrap().0
}

/// The section's only block of a language, with other words in the place of some of its own, of
/// which none may be missing.
fn block(language: &str, others: &[(&str, String)]) -> String {
    let [block] = blocks(section(), language)[..] else { panic!("one block of {language}") };
    others.iter().fold(block.to_owned(), |text, (word, other)| {
        assert!(text.contains(word), "no {word:?} in {text}");
        text.replace(word, other)
    })
}

fn free_ports() -> [u16; 4] {
    let taken = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    taken.map(|listener| listener.local_addr().unwrap().port())
}

/// The settings that the page names, and where the service listens.
fn settings([port, margin_port, own, own_margin]: [u16; 4]) -> Vec<String> {
    let others = [
        ("md.example.org:8443\"", format!("localhost:{margin_port}\"")),
        ("md.example.org\"", format!("localhost:{port}\"")),
    ];
    let of_page = block("toml", &others);
    let of_page = of_page.lines().map(|line| line.replacen(" = ", "=", 1));
    let listens = [("listen", own), ("margin_listen", own_margin)]
        .map(|(key, port)| format!("{key}=\"127.0.0.1:{port}\""));
    of_page.chain(listens).collect()
}

impl Nginx {
    fn start([port, margin_port, own, own_margin]: [u16; 4]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost", "-days", "2"])
            // One that signs others is nobody's own.
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &path("key"), "-out", &path("certificate")])
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        let servers = block(
            "nginx",
            &[
                ("listen 443 ", format!("listen 127.0.0.1:{port} ")),
                ("listen 8443 ", format!("listen 127.0.0.1:{margin_port} ")),
                ("/etc/ssl/certs/md.example.org.pem", path("certificate")),
                ("/etc/ssl/private/md.example.org.key", path("key")),
                (HOST, "localhost".to_owned()),
                ("127.0.0.1:8080", format!("127.0.0.1:{own}")),
                ("127.0.0.1:8081", format!("127.0.0.1:{own_margin}")),
            ],
        );
        let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
        let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", path(kind)))
            .concat();
        let config = format!(
            "daemon off; {user} pid {}; error_log stderr; events {{}}\n\
             http {{\naccess_log off;\n{folders}{servers}}}\n",
            path("pid")
        );
        fs::write(path("config"), config).unwrap();
        let child = Command::new("nginx")
            .args(["-e", "stderr", "-c", &path("config")])
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        let nginx = Self { child, folder, port, margin_port };
        wait_for("nginx listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        nginx
    }

    /// The way to an address through it, believing its certificate.
    fn connect(&self, base_url: &str, key: &str) -> Connection {
        let certificate = fs::read(self.folder.path().join("certificate")).unwrap();
        let connection = Connection::new(base_url, key).unwrap();
        // It is another machine than nginx, as far as that can see.
        let connection = connection.http(|http| http.local_address(CLIENT));
        connection.root_certificates(&certificate).unwrap()
    }
}

/// Where requests come from.
const CLIENT: Option<std::net::IpAddr> =
    Some(std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2)));

/// The same bytes again and again.
struct Again {
    bytes: Vec<u8>,
    at: usize,
}

impl AsyncRead for Again {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let end = self.bytes.len().min(self.at + buffer.remaining());
        buffer.put_slice(&self.bytes[self.at..end]);
        self.at = if end == self.bytes.len() { 0 } else { end };
        Poll::Ready(Ok(()))
    }
}

/// A trajectory in DCD, and how large it is.
fn trajectory(n_atoms: usize, n_frames: usize) -> (impl AsyncRead + Send + Unpin + 'static, u64) {
    let record = |content: &[u8]| {
        let length = (content.len() as i32).to_le_bytes();
        [&length, content, &length].concat()
    };
    let mut numbers = [0_i32; 20];
    (numbers[0], numbers[1], numbers[2], numbers[19]) = (n_frames as i32, 1, 1, 24);
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let title = [&1_i32.to_le_bytes()[..], &[b' '; 80]].concat();
    let head = [
        record(&[b"CORD", &numbers[..]].concat()),
        record(&title),
        record(&(n_atoms as i32).to_le_bytes()),
    ]
    .concat();
    let frame = record(&vec![0; 4 * n_atoms]).repeat(3);
    let size = head.len() as u64 + (n_frames * frame.len()) as u64;
    (std::io::Cursor::new(head).chain(Again { bytes: frame, at: 0 }), size)
}

#[tokio::test(flavor = "multi_thread")]
async fn through_the_nginx_of_the_page_come_large_uploads_and_events_and_margins() {
    let ports = free_ports();
    let settings = settings(ports);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let service = Service::start_with(&settings);
    let key = service.key("ada");
    service.command(&["market", "sample"]);
    service.command(&["market", "reload"]);
    let nginx = Nginx::start(ports);
    let base_url = format!("https://localhost:{}/local", nginx.port);
    assert_eq!(service.base_url, base_url, "it is known by the name that clients use");
    let molbox = nginx.connect(&base_url, &key).workflow().unwrap();
    molbox.account_view().send().await.unwrap();

    let offered = Command::new("openssl")
        .args(["s_client", "-alpn", "h2", "-connect", &format!("localhost:{}", nginx.port)])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let offered = String::from_utf8_lossy(&offered.stdout).into_owned();
    assert!(offered.contains("ALPN protocol: h2"), "{offered}");

    // Events come as they happen: nothing else is sent on this stream that would push them out.
    let mut events = Events::of(&molbox).await;
    let small = molbox.upload(example("1vii.pdb")).name("small").await.unwrap();
    events.until("file", &small.file_id, "ready").await;

    let (reader, size) = trajectory(250_000, 1000);
    assert!(size > 3_000_000_000);
    let large = molbox.upload_reader("dcd", reader, size).name("large").await.unwrap();
    assert_eq!(large.size_bytes, Some(size));
    events.until("file", &large.file_id, "ready").await;
    // A part of it, of which nothing is kept on the way.
    let url = format!("{base_url}/retrieve/file/{}", large.file_id);
    let certificate = fs::read(nginx.folder.path().join("certificate")).unwrap();
    let http = reqwest::Client::builder()
        .add_root_certificate(reqwest::Certificate::from_pem(&certificate).unwrap())
        .build()
        .unwrap();
    let whole = http.get(url).header("x-api-key", &key).send().await.unwrap();
    assert_eq!(whole.content_length(), Some(size));
    let first = whole.bytes_stream().next().await.unwrap().unwrap();
    assert_eq!(&first[4..8], b"CORD");

    // Larger than nginx lets through by itself.
    let margin_url = format!("https://localhost:{}", nginx.margin_port);
    let request = json!({ "marginDate": "2024-12-31", "numScenarios": 500, "portfolio": { "futures": [
        { "ticker": "XEQ1", "type": "long", "quantity": 2 },
    ] } });
    let answer = http
        .post(format!("{margin_url}/margin/submit_job/historical/json"))
        .header("x-api-key", &key)
        .header("content-type", "application/json")
        .body(request.to_string() + &" ".repeat(3 << 20))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);

    let entries = audit(&service, &["--action", "file_register"]);
    let from: Vec<_> = entries.iter().map(|entry| entry["address"].as_str().unwrap()).collect();
    assert_eq!(from, ["127.0.0.2"; 2], "the client's address, not the proxy's");
    let log = fs::read_to_string(nginx.folder.path().join("log")).unwrap();
    assert!(!log.contains("buffered to a temporary file"), "{log}");
}
