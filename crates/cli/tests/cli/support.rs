//! The binary, a service for it, and what it should say.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::proxy::request;

/// The service's binary, beside the one that is tested.
fn molboxd() -> &'static Path {
    static MOLBOXD: OnceLock<PathBuf> = OnceLock::new();
    MOLBOXD.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_molbox")).with_file_name("molboxd");
        if !path.exists() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "-p", "molbox-service", "--bin", "molboxd"])
                .status();
            assert!(built.unwrap().success() && path.exists(), "build {}", path.display());
        }
        path
    })
}

/// A running service with sample market data, and a folder to work in; gone with the value.
pub(crate) struct Service {
    child: Child,
    folder: TempDir,
    pub(crate) base_url: String,
    pub(crate) margin_url: String,
    pub(crate) key: String,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// One that can build, simulate and analyse.
    pub(crate) fn with_worker() -> Self {
        Self::with_worker_and(&[])
    }

    /// The same with settings.
    pub(crate) fn with_worker_and(settings: &[&str]) -> Self {
        assert!(
            python().is_some(),
            "no Python environment for the worker: `cargo xtask test` makes it"
        );
        Self::with(settings)
    }

    /// One with settings, each as `name=value`.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        for words in [&["market", "sample"][..], &["account", "create", "ada"]] {
            assert!(
                Command::new(molboxd())
                    .arg("--data")
                    .arg(&data)
                    .args(words)
                    .output()
                    .unwrap()
                    .status
                    .success()
            );
        }
        let key = Command::new(molboxd())
            .arg("--data")
            .arg(&data)
            .args(["key", "create", "ada"])
            .output()
            .unwrap();
        let key = String::from_utf8(key.stdout).unwrap().trim().to_owned();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(molboxd());
        command.arg("--data").arg(&data);
        command.args(["--set", "listen=\"127.0.0.1:0\"", "--set", "margin_listen=\"127.0.0.1:0\""]);
        // The same on any machine, whatever else is installed.
        command.args(["--set", "worker.engine=\"openmm\""]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        if let Some(python) = python() {
            command.args(["--set", &format!("worker.python={:?}", python.display().to_string())]);
        }
        let child = command
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let start = Instant::now();
        let addresses = loop {
            let text = fs::read_to_string(data.join("addresses.json")).unwrap_or_default();
            if let Ok(addresses) = serde_json::from_str::<Value>(&text) {
                break addresses;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the service does not listen");
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = |name: &str| addresses[name].as_str().unwrap().to_owned();
        let (base_url, margin_url) = (text("base_url"), text("margin_base_url"));
        Self { child, folder, base_url, margin_url, key }
    }

    /// Where commands run.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command line on this service.
    pub(crate) fn molbox(&self, arguments: &[&str]) -> Command {
        let mut command = molbox(self.folder(), arguments);
        command.env("MOLBOX_API_KEY", &self.key);
        command.env("MOLBOX_BASE_URL", &self.base_url).env("MOLBOX_MARGIN_URL", &self.margin_url);
        command
    }

    /// Carries out a command of the service's own.
    pub(crate) fn molboxd(&self, words: &[&str]) -> String {
        let data = self.folder().join("data");
        ok(Command::new(molboxd()).arg("--data").arg(data).args(words))
    }

    /// What a command that succeeds writes to standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        ok(&mut self.molbox(arguments))
    }

    /// The same, read as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Workers would go on without their service.
        for entry in fs::read_dir(self.folder().join("data/tasks")).into_iter().flatten().flatten()
        {
            let leader = fs::read_to_string(entry.path().join("lock")).unwrap_or_default();
            if !leader.is_empty() {
                let kill = format!("kill -9 -{leader}");
                let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
            }
        }
    }
}

/// A server that answers everything as it is told, and what it has heard.
pub(crate) struct Heard {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    /// One that answers 200 with the same.
    pub(crate) fn start(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::with(move |_| ("200 OK", answer.clone()))
    }

    /// One that is told status and JSON for each body.
    pub(crate) fn with(
        mut answer: impl FnMut(&[u8]) -> (&'static str, String) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = requests.clone();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let Ok((head, body)) = request(&mut client) else { continue };
                let (status, content) = answer(&body);
                heard.lock().unwrap().push(head);
                let length = content.len();
                let head = "content-type: application/json\r\nconnection: close";
                let _ = write!(
                    client,
                    "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{content}"
                );
            }
        });
        Self { address, requests }
    }

    /// The keys that came since the last call.
    pub(crate) fn keys(&self) -> Vec<String> {
        let heard = std::mem::take(&mut *self.requests.lock().unwrap());
        let key = |head: &String| {
            let line = head.lines().find_map(|line| line.strip_prefix("x-api-key: "));
            line.unwrap_or_default().to_owned()
        };
        heard.iter().map(key).collect()
    }
}

/// The worker's interpreter: what `cargo xtask test` names, or what it has made.
fn python() -> Option<PathBuf> {
    let made =
        Path::new(env!("CARGO_BIN_EXE_molbox")).ancestors().nth(2)?.join("worker-env/bin/python");
    std::env::var_os("MOLBOX_TEST_PYTHON")
        .map(PathBuf::from)
        .or(Some(made))
        .filter(|python| python.exists())
}

/// The command line in a folder, with nothing of this environment's settings.
pub(crate) fn molbox(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_molbox"));
    command.current_dir(folder).args(arguments);
    for name in
        ["MOLBOX_API_KEY", "MOLBOX_PROFILE", "MOLBOX_BASE_URL", "MOLBOX_MARGIN_URL", "NO_COLOR"]
    {
        command.env_remove(name);
    }
    command.env("MOLBOX_CONFIG", folder.join("config.toml"));
    command
}

pub(crate) fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command with a text on its standard input.
pub(crate) fn with_input(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The exit status and the error that a failing command reports as JSON; it writes no result.
pub(crate) fn failure(command: &mut Command) -> (i32, Value) {
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{command:?}");
    let error: Value = serde_json::from_slice(&output.stderr)
        .unwrap_or_else(|_| panic!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), error["error"].clone())
}

/// What Ctrl-C sends.
pub(crate) fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Compares a text with a file, without what differs from run to run. `MOLBOX_BLESS=1` writes it.
pub(crate) fn matches(name: &str, text: &str) {
    let replaced = [
        (r"(file|box|job|ana)_[0-9a-z]{20}", "${1}_…"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<day and second>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"just now|\d+ min ago", "<age>"),
        (r"within \d+ s", "within 1 s"),
        (r"(service|command line) \d+\.\d+\.\d+", "${1} <version>"),
        (r"/tmp/\.tmp\w+", "<folder>"),
        (r#""key_id": "\w+""#, "\"key_id\": \"<key>\""),
        (r#""request_id": "\w+""#, "\"request_id\": \"<request>\""),
    ];
    let text = replaced.iter().fold(text.to_owned(), |text, (pattern, by)| {
        Regex::new(pattern).unwrap().replace_all(&text, *by).into_owned()
    });
    // Operations look like short identifiers, but not in a table.
    let text = match name.starts_with("terminal_") {
        true => Regex::new(r"(file|box|job|ana)_[0-9a-z]{6}\b")
            .unwrap()
            .replace_all(&text, "${1}_000000")
            .into_owned(),
        false => text,
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("MOLBOX_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{} is not this; MOLBOX_BLESS=1 writes it", path.display());
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
