//! An S3 server of one's own, which ends with the tests. Also for the tests of the object store inside
//! of the crate.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Access key and secret.
const KEY: [&str; 2] = ["molbox", "molbox-secret"];

/// A server (versitygw) with a folder for each bucket.
pub(crate) struct S3 {
    program: PathBuf,
    folder: PathBuf,
    address: SocketAddr,
    /// With a certificate for `localhost`.
    has_tls: bool,
    n_buckets: AtomicU32,
    /// Holds the pipe whose end tells the server that nobody needs it.
    process: Child,
}

/// An empty bucket, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) endpoint: String,
    pub(crate) credentials_file: PathBuf,
    /// Where the server keeps what is in it, a file for each object.
    pub(crate) folder: PathBuf,
}

impl Bucket {
    /// What `molboxd` is told of it, `key=value`.
    pub(crate) fn told(&self) -> Vec<String> {
        vec![
            format!("objects.url=\"s3://{}\"", self.name),
            format!("objects.endpoint={:?}", self.endpoint),
            format!("objects.credentials_file={:?}", self.credentials_file),
        ]
    }
}

/// The server of this process; none where versitygw is not installed.
pub(crate) fn shared() -> Option<&'static S3> {
    static SHARED: OnceLock<Option<S3>> = OnceLock::new();
    SHARED.get_or_init(S3::start).as_ref()
}

impl S3 {
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(false)
    }

    /// With TLS: the server, and its certificate.
    pub(crate) fn start_with_tls() -> Option<(Self, PathBuf)> {
        let server = Self::start_with(true)?;
        let certificate = server.folder.join(CERTIFICATE);
        Some((server, certificate))
    }

    fn start_with(has_tls: bool) -> Option<Self> {
        let Some(program) = program() else {
            let missing = "versitygw is not installed \
                (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            println!("skipped: tests on S3: {missing}");
            return None;
        };
        let folder = tempfile::tempdir().unwrap().keep();
        fs::create_dir(folder.join("buckets")).unwrap();
        fs::create_dir(folder.join("users")).unwrap();
        if has_tls {
            make_certificate(&folder);
        }
        fs::write(folder.join("key"), KEY.join("\n")).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = run(&program, &folder, address, has_tls);
        let n_buckets = AtomicU32::new(0);
        let server = Self { program, folder, address, has_tls, n_buckets, process };
        server.wait();
        Some(server)
    }

    /// Ends the server as its death would.
    pub(crate) fn crash(&mut self) {
        let pid = fs::read_to_string(self.folder.join("pid")).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
        // Its shell would remove the folder if it heard that nobody needs the server.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) {
        self.process = run(&self.program, &self.folder, self.address, self.has_tls);
        self.wait();
    }

    fn wait(&self) {
        let since = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(since.elapsed() < Duration::from_secs(60), "versitygw does not start: {log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes a user who owns no bucket; the file with the key.
    pub(crate) fn user(&self) -> PathBuf {
        let [access, secret] = KEY;
        let mut admin = Command::new(&self.program);
        admin.args(["admin", "--access", access, "--secret", secret]);
        admin.args(["--endpoint-url", &format!("http://{}", self.address), "create-user"]);
        admin.args(["--access", "guest", "--secret", "guest-secret", "--role", "user"]);
        let made = admin.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let file = self.folder.join("guest");
        fs::write(&file, "guest\nguest-secret").unwrap();
        file
    }

    /// Makes a bucket.
    pub(crate) fn bucket(&self) -> Bucket {
        let name = format!("molbox-{}", self.n_buckets.fetch_add(1, Ordering::Relaxed));
        // Which is what makes one.
        let folder = self.folder.join("buckets").join(&name);
        fs::create_dir(&folder).unwrap();
        Bucket {
            name,
            folder,
            endpoint: match self.has_tls {
                true => format!("https://localhost:{}", self.address.port()),
                false => format!("http://{}", self.address),
            },
            credentials_file: self.folder.join("key"),
        }
    }
}

/// Runs a server until its input ends, also as that of a process that was killed, and removes its
/// folder then.
fn run(program: &Path, folder: &Path, address: SocketAddr, has_tls: bool) -> Child {
    let script =
        "\"$@\" >>log 2>&1 & echo $! >pid; read -r _; kill -KILL $!; cd /; rm -rf \"$OLDPWD\"";
    // By their whole paths: it goes to the folder of its buckets before it reads them.
    let certificate = has_tls.then(|| {
        let [certificate, key] = [CERTIFICATE, "key.pem"].map(|name| folder.join(name));
        ["--cert".into(), certificate, "--key".into(), key]
    });
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program)
        .args(["--port", &address.to_string(), "--quiet", "--iam-dir"])
        .arg(folder.join("users"))
        .args(certificate.iter().flatten())
        .arg("posix")
        .arg(folder.join("buckets"))
        .env("ROOT_ACCESS_KEY", KEY[0])
        .env("ROOT_SECRET_KEY", KEY[1])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

const CERTIFICATE: &str = "certificate.pem";

/// A certificate that nobody else has signed, for `localhost`.
fn make_certificate(folder: &Path) {
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    make.args(["-noenc", "-days", "2", "-subj", "/CN=localhost"]);
    make.args(["-addext", "subjectAltName=DNS:localhost"]);
    make.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    make.args(["-keyout", "key.pem", "-out", CERTIFICATE]).current_dir(folder);
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Where Go installs programs, or in the path.
fn program() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let searched = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&searched)
        .chain(home.map(|home| home.join("go/bin")))
        .map(|folder| folder.join("versitygw"))
        .find(|program| program.exists())
}
