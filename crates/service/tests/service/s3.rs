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
        let Some(program) = program() else {
            let missing = "versitygw is not installed \
                (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            println!("skipped: tests on S3: {missing}");
            return None;
        };
        let folder = tempfile::tempdir().unwrap().keep();
        fs::create_dir(folder.join("buckets")).unwrap();
        fs::write(folder.join("key"), KEY.join("\n")).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = run(&program, &folder, address);
        let server = Self { program, folder, address, n_buckets: AtomicU32::new(0), process };
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
        self.process = run(&self.program, &self.folder, self.address);
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

    /// Makes a bucket.
    pub(crate) fn bucket(&self) -> Bucket {
        let name = format!("molbox-{}", self.n_buckets.fetch_add(1, Ordering::Relaxed));
        // Which is what makes one.
        let folder = self.folder.join("buckets").join(&name);
        fs::create_dir(&folder).unwrap();
        Bucket {
            name,
            folder,
            endpoint: format!("http://{}", self.address),
            credentials_file: self.folder.join("key"),
        }
    }
}

/// Runs a server until its input ends, also as that of a process that was killed, and removes its
/// folder then.
fn run(program: &Path, folder: &Path, address: SocketAddr) -> Child {
    let script =
        "\"$@\" >>log 2>&1 & echo $! >pid; read -r _; kill -KILL $!; cd /; rm -rf \"$OLDPWD\"";
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program)
        .args(["--port", &address.to_string(), "--quiet", "posix"])
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

/// Where Go installs programs, or in the path.
fn program() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let searched = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&searched)
        .chain(home.map(|home| home.join("go/bin")))
        .map(|folder| folder.join("versitygw"))
        .find(|program| program.exists())
}
