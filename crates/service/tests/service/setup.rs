//! The set-up of `docs/operating.md`, line by line, as its page has it: in a folder that stands
//! for the root of a machine, as a user without rights.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::wait_for;

/// A user that has nothing.
const NOBODY: u32 = 65534;

/// The unit that the page installs.
const UNIT: &str = include_str!("../../../../packaging/molbox.service");

/// What only an administrator of a machine can do, noted instead; and what takes the network.
const STANDS_FOR: [(&str, &str); 6] = [
    // `sudo -u molbox command`, `sudo command`.
    ("sudo", "[ \"$1\" = -u ] && shift 2\nexec \"$@\""),
    ("useradd", "echo useradd \"$@\" >> $ROOT/noted"),
    ("systemctl", "echo systemctl \"$@\" >> $ROOT/noted"),
    ("cargo", "[ \"$1\" = xtask ] || install -D -m 755 $MOLBOXD target/release/molboxd"),
    (
        "python3",
        "mkdir -p $3/bin && printf '#!/bin/sh\\n' > $3/bin/pip && chmod 755 $3/bin/pip && \
                 ln -s $PYTHON $3/bin/python",
    ),
    // Whose a file is, is for root alone.
    (
        "install",
        "kept=\nwhile [ $# -gt 0 ]; do\n  case $1 in\n    -o|-g) shift ;;\n    *) kept=\"$kept $1\" ;;\n  \
                 esac\n  shift\ndone\nexec /usr/bin/install $kept",
    ),
];

/// The root of a machine.
struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Self { folder };
        for path in
            ["bin", "etc", "opt/molbox", "usr/local/bin", "var/lib", "sources/packaging", "tmp"]
        {
            fs::create_dir_all(root.path(path)).unwrap();
        }
        fs::create_dir_all(root.path("etc/systemd/system")).unwrap();
        fs::write(root.path("sources/packaging/molbox.service"), UNIT).unwrap();
        for (name, script) in STANDS_FOR {
            let path = root.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let molboxd = root.path("molboxd");
        fs::copy(env!("CARGO_BIN_EXE_molboxd"), &molboxd).unwrap();
        if rustix::process::getuid().is_root() {
            let mut all = vec![root.folder.path().to_owned()];
            while let Some(path) = all.pop() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
                if path.is_dir() {
                    all.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                }
            }
        }
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A text with this root in the place of the machine's.
    fn within(&self, text: &str) -> String {
        let root = self.folder.path().display().to_string();
        ["/etc/molbox", "/etc/systemd", "/opt/molbox", "/usr/local/bin", "/var/lib/molbox"]
            .iter()
            .fold(text.to_owned(), |text, path| text.replace(path, &format!("{root}{path}")))
    }

    /// A shell with these lines, of a user without rights.
    fn shell(&self, script: &str) -> Command {
        let mut command = if rustix::process::getuid().is_root() {
            let mut command = Command::new("setpriv");
            let ids = ["--reuid", "--regid"].map(|id| format!("{id}={NOBODY}"));
            command.args(ids).args(["--clear-groups", "sh", "-ec", script]);
            command
        } else {
            let mut command = Command::new("sh");
            command.args(["-ec", script]);
            command
        };
        let path = format!(
            "{}:{}:/usr/bin:/bin",
            self.path("bin").display(),
            self.path("usr/local/bin").display()
        );
        command
            .current_dir(self.path("sources"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("tmp"))
            .env("ROOT", self.folder.path())
            .env("MOLBOXD", self.path("molboxd"))
            .env("PYTHON", "/usr/bin/python3");
        command
    }

    fn run(&self, line: &str) -> String {
        let output = self.shell(&self.within(line)).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The blocks of a language in the section of the page.
pub(crate) fn blocks<'a>(section: &'a str, language: &str) -> Vec<&'a str> {
    let parts = section.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n')).collect()
}

fn section() -> &'static str {
    let page = include_str!("../../../../docs/operating.md");
    let (_, after) = page.split_once("\n## Set up\n").unwrap();
    after.split_once("\n## ").unwrap().0
}

/// A service that ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_line_of_the_set_up_works_as_it_is_written() {
    let root = Root::new();
    let mut key = None;
    let mut serving = None;
    let mut n_lines = 0;
    for line in blocks(section(), "sh").into_iter().flat_map(str::lines) {
        let line = line.split_once(" #").map_or(line, |(line, _)| line).trim();
        n_lines += 1;
        if line.ends_with(" doctor") {
            // It finds this interpreter without OpenMM; that it asks the right one is the claim.
            let output = root.shell(&root.within(line)).output().unwrap();
            let found = String::from_utf8(output.stdout).unwrap();
            assert!(found.contains("ok      database"), "{found}");
            continue;
        }
        if line.starts_with("curl ") {
            serving = Some(serve(&root));
            // The port is another one here.
            let host = address(&root);
            let path = line.rsplit_once("127.0.0.1:8080").unwrap().1;
            let answer = get(&host, path);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            continue;
        }
        let said = root.run(line);
        if line.contains(" key create ") {
            key = Some(said.trim().to_owned());
        }
    }
    assert!(n_lines >= 14, "{n_lines}");
    let config = fs::read_to_string(root.path("etc/molbox.toml")).unwrap();
    let config: Value = toml_of(&config);
    assert_eq!(config["data"], root.within("/var/lib/molbox"));
    assert_eq!(config["worker"]["python"], root.within("/opt/molbox/env/bin/python"));
    let noted = fs::read_to_string(root.path("noted")).unwrap();
    assert!(noted.contains("useradd --system") && noted.contains("enable --now molbox"), "{noted}");
    assert!(key.unwrap().starts_with("mbx_"));
    assert!(serving.is_some(), "the last line asks for its health");
}

fn toml_of(text: &str) -> Value {
    serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
}

/// Where the service listens: host and port.
fn address(root: &Root) -> String {
    let path = root.path("var/lib/molbox/addresses.json");
    let text = wait_for("its address", || fs::read_to_string(&path).ok());
    let addresses: Value = serde_json::from_str(&text).unwrap();
    let url = addresses["base_url"].as_str().unwrap();
    url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
}

/// What a server answers, head and all.
fn get(host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The service as the unit starts it, on a free port.
fn serve(root: &Root) -> Serving {
    let unit = fs::read_to_string(root.path("etc/systemd/system/molbox.service")).unwrap();
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        root.within(line.unwrap_or_else(|| panic!("no {key}")))
    };
    let command = format!(
        "export {}; exec {} --set listen=127.0.0.1:0 --set margin_listen=127.0.0.1:0",
        value("Environment="),
        value("ExecStart=")
    );
    let log = fs::File::create(root.path("log")).unwrap();
    let mut command = root.shell(&command);
    Serving(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("molbox.service");
    // Its program is not installed here.
    let unit = UNIT.replace("ExecStart=molboxd", "ExecStart=/bin/true");
    fs::write(&path, &unit).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let of_unit: Vec<&str> = said.lines().filter(|line| line.contains("molbox.service")).collect();
    assert_eq!(of_unit, Vec::<&str>::new());
}

#[test]
fn the_unit_is_as_tight_as_the_page_says() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/molbox.service");
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager"]).arg(unit);
    let output = analyze.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let rated = said.lines().last().unwrap_or_default();
    let words = rated.split_once("molbox.service: ").map_or("", |(_, rest)| rest);
    let exposure: f64 = words.split(' ').next().unwrap().parse().unwrap();
    // A newer systemd looks at more.
    assert!(exposure <= 1.5, "{said}");
    let page = section();
    assert!(page.contains("rates the unit 1.2 (OK)"), "{rated}");
}
