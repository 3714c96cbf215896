//! A PostgreSQL of one's own, which ends with the tests. Also for the tests of the database inside
//! of the crate.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server in a folder of its own, that is reached by a socket there.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    /// Its settings, `name=value`.
    options: Vec<String>,
    n_databases: AtomicU32,
    /// Holds the pipe whose end tells the server that nobody needs it.
    process: Child,
}

/// The server of this process; none where PostgreSQL is not installed.
pub(crate) fn shared() -> Option<&'static Postgres> {
    static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
    SHARED.get_or_init(Postgres::start).as_ref()
}

impl Postgres {
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_| Vec::new())
    }

    /// With TLS on a port of this machine: the port, and the certificate.
    pub(crate) fn start_with_tls() -> Option<(Self, u16, PathBuf)> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self::start_with(|folder| {
            let mut make = as_user(Path::new("openssl"));
            make.args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ]);
            make.args(["-noenc", "-days", "2", "-subj", "/CN=localhost"]);
            make.args(["-addext", "subjectAltName=DNS:localhost"]);
            make.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
            make.args(["-keyout", "key.pem", "-out", CERTIFICATE]).current_dir(folder);
            let made = make.output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let file = |name| folder.join(name).display().to_string();
            vec![
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", file(CERTIFICATE)),
                format!("ssl_key_file={}", file("key.pem")),
                "listen_addresses=127.0.0.1".to_owned(),
                format!("port={port}"),
            ]
        })?;
        let certificate = server.folder.join(CERTIFICATE);
        Some((server, port, certificate))
    }

    fn start_with(options: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let Some(programs) = programs() else {
            let missing = "PostgreSQL is not installed (Debian: postgresql)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            println!("skipped: tests on PostgreSQL: {missing}");
            return None;
        };
        let folder = tempfile::tempdir().unwrap().keep();
        // It belongs to who runs the server: neither program runs as root.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let data = folder.join("data");
        let made = as_user(&programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=molbox", "--encoding=UTF8"])
            .args(["--locale=C", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut all = vec!["listen_addresses=".to_owned(), "max_connections=500".to_owned()];
        all.extend(options(&folder));
        let process = run(&programs, &folder, &all);
        let n_databases = AtomicU32::new(0);
        let server = Self { programs, folder, options: all, n_databases, process };
        server.wait();
        Some(server)
    }

    /// Ends the server as its death would.
    pub(crate) fn crash(&self) {
        let mut stop = as_user(&self.programs.join("pg_ctl"));
        stop.args(["stop", "--silent", "--mode=immediate", "--pgdata"])
            .arg(self.folder.join("data"));
        assert!(stop.current_dir(&self.folder).status().unwrap().success());
    }

    /// Has who comes over the network show a password from now on.
    pub(crate) fn ask_for_passwords(&self, url: &str) {
        self.admit(url, "host all all 127.0.0.1/32 scram-sha-256");
    }

    /// Has who comes over the network be admitted by this rule from now on.
    pub(crate) fn admit(&self, url: &str, rule: &str) {
        let loaded = || self.sql(url, "select pg_conf_load_time()");
        let before = loaded();
        let rules = format!("local all all trust\n{rule}\n");
        fs::write(self.folder.join("data/pg_hba.conf"), rules).unwrap();
        let mut reload = as_user(&self.programs.join("pg_ctl"));
        reload.args(["reload", "--silent", "--pgdata"]).arg(self.folder.join("data"));
        assert!(reload.current_dir(&self.folder).status().unwrap().success());
        while loaded() == before {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) {
        // Its shell would remove the folder if it heard that nobody needs the server.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = run(&self.programs, &self.folder, &self.options);
        self.wait();
    }

    /// The folder in which its socket lies.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// The socket at which it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    fn wait(&self) {
        let since = Instant::now();
        while !self.program("pg_isready").arg("--quiet").status().unwrap().success() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(since.elapsed() < Duration::from_secs(60), "PostgreSQL does not start: {log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn program(&self, name: &str) -> Command {
        let mut program = Command::new(self.programs.join(name));
        program.arg("--host").arg(&self.folder).args(["--username", "molbox"]);
        if let Some(port) = self.options.iter().find_map(|option| option.strip_prefix("port=")) {
            program.args(["--port", port]);
        }
        program
    }

    /// Has a database run a statement; the values of its rows, in lines, with `|` between them.
    pub(crate) fn sql(&self, url: &str, sql: &str) -> String {
        let mut psql = self.program("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--no-align",
            "--tuples-only",
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        let output = psql.args(["--dbname", url, "--command", sql]).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Makes a copy of a database as it is now, also while servers work on it; its address.
    pub(crate) fn copy(&self, url: &str) -> String {
        let copy = self.database();
        let dump = self.folder.join("dump.sql");
        let mut pg_dump = self.program("pg_dump");
        let dumped = pg_dump.arg("--file").arg(&dump).args(["--dbname", url]).output().unwrap();
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        let mut psql = self.program("psql");
        psql.args(["--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "--dbname", &copy]);
        let read = psql.arg("--file").arg(&dump).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        copy
    }

    /// How many transactions a database has seen, once nobody is connected to it any more.
    pub(crate) fn n_transactions(&self, url: &str) -> u64 {
        let name = url.rsplit('/').next().unwrap();
        let elsewhere = address(&self.folder, "postgres");
        let since = Instant::now();
        let busy = format!("select count(*) from pg_stat_activity where datname = '{name}'");
        while self.sql(&elsewhere, &busy) != "0" {
            assert!(since.elapsed() < Duration::from_secs(60), "{name} stays in use");
            thread::sleep(Duration::from_millis(20));
        }
        let sql = format!(
            "select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'"
        );
        self.sql(&elsewhere, &sql).parse().unwrap()
    }

    /// Makes an empty database; its address.
    pub(crate) fn database(&self) -> String {
        let name = format!("molbox_{}", self.n_databases.fetch_add(1, Ordering::Relaxed));
        let made =
            self.program("createdb").args(["--template", "template0", &name]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        address(&self.folder, &name)
    }
}

const CERTIFICATE: &str = "certificate.pem";
/// Name of the socket of a server in its folder.
pub(crate) const SOCKET: &str = ".s.PGSQL.5432";

/// Address of a database whose socket lies in a folder.
pub(crate) fn address(folder: &Path, name: &str) -> String {
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://molbox@{folder}/{name}")
}

/// Runs a server until its input ends, also as that of a process that was killed, and removes its
/// folder then.
fn run(programs: &Path, folder: &Path, options: &[String]) -> Child {
    let script = "\"$@\" >>log 2>&1 & read -r _; kill -INT $!; wait $!; cd /; rm -rf \"$OLDPWD\"";
    let server = as_user(&programs.join("postgres"));
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(server.get_program())
        .args(server.get_args())
        .arg("-F")
        .args(options.iter().flat_map(|option| ["-c", option.as_str()]))
        .arg("-k")
        .arg(folder)
        .arg("-D")
        .arg(folder.join("data"))
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &Path| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let newest = debian.map(|entry| entry.path()).max_by_key(|path| version(path));
    let searched = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    newest
        .map(|path| path.join("bin"))
        .into_iter()
        .chain(searched)
        .find(|path| path.join("initdb").exists())
}

/// A program as the user `postgres`, where this is root.
pub(crate) fn as_user(program: &Path) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}
