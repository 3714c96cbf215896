//! A service of its own for each test that wants one, spoken to through the client.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use molbox::{Client, Connection};
use rusqlite::types::ValueRef;
use serde_json::Value;
use tempfile::TempDir;

use crate::s3::{self, Bucket};
use crate::slurm::Slurm;
use crate::{postgres, slurm};

/// A running service; it ends with the value.
pub(crate) struct Service {
    child: Child,
    /// The data folder as this process sees it.
    pub(crate) data: PathBuf,
    place: Place,
    pub(crate) base_url: String,
    pub(crate) margin_url: String,
    settings: Vec<String>,
    /// Gone with the service.
    _folder: Option<TempDir>,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With settings, `key=value`.
    pub(crate) fn start_with(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut service = Self::start_in(&folder.path().join("data"), settings);
        service._folder = Some(folder);
        service
    }

    /// With a clock that the test sets, which builds for use have not.
    #[cfg(debug_assertions)]
    pub(crate) fn start_with_clock(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let place = Place { clock: Some(data.with_extension("clock")), ..Place::here(&data) };
        place.set_clock(0);
        let mut service = Self::start_at(&data, place, settings);
        service._folder = Some(folder);
        service
    }

    /// Sets the clock so many seconds ahead of the machine's.
    #[cfg(debug_assertions)]
    pub(crate) fn set_clock(&self, seconds_ahead: i64) {
        self.place.set_clock(seconds_ahead);
    }

    /// With its records in a database of PostgreSQL.
    pub(crate) fn start_on(url: &str, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let place = Place { database: url.to_owned(), ..Place::here(&data) };
        let mut service = Self::start_at(&data, place, settings);
        service._folder = Some(folder);
        service
    }

    /// With its contents in a bucket.
    pub(crate) fn start_in_bucket(bucket: &Bucket, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let place = Place { bucket: Some(bucket.clone()), ..Place::here(&data) };
        let mut service = Self::start_at(&data, place, settings);
        service._folder = Some(folder);
        service
    }

    /// With its records in a database of PostgreSQL and its contents in a bucket, so that others can
    /// work beside it.
    pub(crate) fn start_shared(url: &str, bucket: &Bucket, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let place = Place::on(&data, url, bucket);
        let mut service = Self::start_at(&data, place, settings);
        service._folder = Some(folder);
        service
    }

    /// Asks the service to end, and does not wait for it.
    pub(crate) fn ask_to_end(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    /// Waits until the service has ended by itself.
    pub(crate) fn wait(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    /// On data with their records in a file there, whatever is tested otherwise.
    pub(crate) fn start_in_sqlite(data: &Path) -> Self {
        Self::start_at_url(data, "")
    }

    /// On data with their contents there, and their records in a file there.
    pub(crate) fn start_in_disk(data: &Path) -> Self {
        let place = Place { database: String::new(), bucket: None, ..Place::here(data) };
        Self::start_at(data, place, &[])
    }

    /// The same with their contents in a bucket.
    pub(crate) fn start_at_bucket(data: &Path, bucket: &Bucket) -> Self {
        let bucket = Some(bucket.clone());
        let place = Place { database: String::new(), bucket, ..Place::here(data) };
        Self::start_at(data, place, &[])
    }

    /// On data whose records are in a database of PostgreSQL.
    pub(crate) fn start_at_url(data: &Path, url: &str) -> Self {
        let place = Place { database: url.to_owned(), ..Place::here(data) };
        Self::start_at(data, place, &[])
    }

    /// On data that others keep.
    pub(crate) fn start_in(data: &Path, settings: &[&str]) -> Self {
        Self::start_at(data, Place::here(data), settings)
    }

    /// On data that lie somewhere else for the service than for this process.
    pub(crate) fn start_at(data: &Path, place: Place, settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let child = spawn(data, &place, &settings);
        let mut service = Self {
            child,
            data: data.to_owned(),
            place,
            base_url: String::new(),
            margin_url: String::new(),
            settings,
            _folder: None,
        };
        service.wait_until_it_listens();
        service
    }

    fn wait_until_it_listens(&mut self) {
        let addresses = self.data.join("addresses.json");
        let pid = u64::from(self.child.id());
        let addresses = wait_for("the service listens", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the service did not start: {}", self.log());
            let text = fs::read_to_string(&addresses).ok()?;
            let value: Value = serde_json::from_str(&text).ok()?;
            (value["pid"] == pid).then_some(value)
        });
        self.base_url = addresses["base_url"].as_str().unwrap().to_owned();
        self.margin_url = addresses["margin_base_url"].as_str().unwrap().to_owned();
    }

    /// Kills the service, and starts it again on the same data.
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills the service and all of its tasks at once, as a power cut would, and starts it again.
    pub(crate) fn power_cut_and_restart(&mut self) {
        self.kill();
        for entry in fs::read_dir(self.data.join("tasks")).unwrap().flatten() {
            while kill_task(&entry.path()) {}
        }
        self.restart();
    }

    /// Kills the service; its tasks go on.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether the service has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Starts the service again after it has ended.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.data, &self.place, &self.settings);
        self.wait_until_it_listens();
    }

    /// Starts the service again while what a setting names is away, and brings that back once the log
    /// says that it is waited for.
    pub(crate) fn restart_before(&mut self, setting: &str, bring_back: impl FnOnce()) {
        self.child = spawn(&self.data, &self.place, &self.settings);
        wait_for("it says what it waits for", || {
            let log = fs::read_to_string(self.data.with_extension("log")).unwrap();
            let mut lines = log.lines().filter(|line| line.contains("waiting for 120 s at most"));
            lines.next().map(|line| assert!(line.contains(&format!("({setting})")), "{line}"))
        });
        bring_back();
        self.wait_until_it_listens();
    }

    /// Starts the service again with other settings.
    pub(crate) fn restart_with(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        self.restart();
    }

    /// Asks the service to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.ask_to_end();
        self.wait();
    }

    /// Runs a command of `molboxd` on the service's data; its standard output.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let output = self.place.molboxd().args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&[output.stderr, output.stdout].concat())
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a command that is to fail; all that it says.
    pub(crate) fn failing_command(&self, arguments: &[&str]) -> String {
        let output = self.place.molboxd().args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} succeeded");
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Where the file of each object lies, below `files` and `tasks`: in the data folder, or in that of
    /// the server that has the bucket.
    pub(crate) fn objects(&self) -> PathBuf {
        match &self.place.bucket {
            Some(bucket) => bucket.folder.clone(),
            None => self.data.join("objects"),
        }
    }

    /// Whether its records are in PostgreSQL.
    pub(crate) fn has_postgres(&self) -> bool {
        !self.place.database.is_empty()
    }

    /// Address of its database; empty for a file.
    pub(crate) fn database(&self) -> &str {
        &self.place.database
    }

    /// Has its database run a statement; the values of its rows, in lines, with `|` between them.
    pub(crate) fn sql(&self, sql: &str) -> String {
        if self.has_postgres() {
            let server = postgres::shared().expect("it was there for the service");
            return server.sql(&self.place.database, sql);
        }
        let database = rusqlite::Connection::open(self.data.join("molbox.sqlite")).unwrap();
        let mut statement = database.prepare(sql).unwrap();
        let n_columns = statement.column_count();
        let mut rows = statement.query(()).unwrap();
        let mut lines = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let value = |n| match row.get_ref(n).unwrap() {
                ValueRef::Null => String::new(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                other => panic!("{other:?} is not for tests"),
            };
            lines.push((0..n_columns).map(value).collect::<Vec<_>>().join("|"));
        }
        lines.join("\n")
    }

    /// A key of an account, which is made when it is not there.
    pub(crate) fn key(&self, account: &str) -> String {
        if !self
            .command(&["account", "list"])
            .lines()
            .any(|line| line.split('\t').next() == Some(account))
        {
            self.command(&["account", "create", account]);
        }
        self.command(&["key", "create", account])
    }

    pub(crate) fn client(&self, account: &str) -> Client {
        self.client_with(&self.key(account))
    }

    pub(crate) fn client_with(&self, key: &str) -> Client {
        Connection::new(&self.base_url, key).unwrap().retries(0).workflow().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the service has logged; a line may come a moment later than what it is about.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.data.with_extension("log")).unwrap()
    }

    /// Waits until the service has logged something.
    pub(crate) fn wait_until_it_logs(&self, text: &str) {
        wait_for(&format!("{text:?} is logged"), || self.log().contains(text).then_some(()));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Workers would go on without their service.
        for entry in fs::read_dir(self.data.join("tasks")).into_iter().flatten().flatten() {
            kill_task(&entry.path());
        }
    }
}

fn spawn(data: &Path, place: &Place, settings: &[String]) -> Child {
    let log = File::options().create(true).append(true).open(data.with_extension("log")).unwrap();
    let mut command = place.molboxd();
    command.args(["--set", "listen=\"127.0.0.1:0\"", "--set", "margin_listen=\"127.0.0.1:0\""]);
    if let Some(python) = python() {
        command.args(["--set", &format!("worker.python={:?}", python.display().to_string())]);
    }
    // What is stated of jobs is stated of OpenMM, whatever else is installed; `engines` has the rest.
    command.args(["--set", "worker.engine=\"openmm\""]);
    let mut all = slurm_settings();
    all.extend_from_slice(settings);
    let has = |start: &str| all.iter().any(|setting| setting.starts_with(start));
    let is_shared = !place.database.is_empty() && place.bucket.is_some();
    if is_shared && has("tasks.executor=slurm") && !has("tasks.folder=") {
        // As servers of one cluster must; where it is by itself.
        all.push(format!("tasks.folder={:?}", place.data.display().to_string()));
    }
    for setting in &all {
        command.args(["--set", setting]);
    }
    command
        .arg("serve")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Where `molboxd` runs, and the data folder as it sees it there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// A command that runs another one somewhere else; none for here.
    pub(crate) within: Vec<String>,
    pub(crate) data: PathBuf,
    /// Holds the seconds by which its clock is ahead, if the test sets it.
    pub(crate) clock: Option<PathBuf>,
    /// Address of the database; empty for the file of the data folder.
    database: String,
    /// Where contents are; none for the data folder.
    pub(crate) bucket: Option<Bucket>,
}

impl Place {
    fn here(data: &Path) -> Self {
        Self::within(Vec::new(), data)
    }

    /// With records in a database of PostgreSQL, and contents in a bucket.
    pub(crate) fn on(data: &Path, url: &str, bucket: &Bucket) -> Self {
        let (database, bucket) = (url.to_owned(), Some(bucket.clone()));
        Self { database, bucket, ..Self::here(data) }
    }

    pub(crate) fn within(within: Vec<String>, data: &Path) -> Self {
        let (database, bucket) = (database_of(data), bucket_of(data));
        Self { within, data: data.to_owned(), clock: None, database, bucket }
    }

    pub(crate) fn molboxd(&self) -> Command {
        let mut words =
            self.within.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_molboxd")]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("--data").arg(&self.data);
        if !self.database.is_empty() {
            command.args(["--set", &format!("database.url={:?}", self.database)]);
        }
        for setting in self.bucket.iter().flat_map(Bucket::told) {
            command.args(["--set", &setting]);
        }
        if let Some(clock) = &self.clock {
            command.arg("--clock-ahead").arg(clock);
        }
        command
    }

    /// Sets the clock at once, for the service and for commands.
    #[cfg(debug_assertions)]
    fn set_clock(&self, seconds_ahead: i64) {
        let clock = self.clock.as_ref().expect("a service whose clock is set");
        let partial = clock.with_extension("partial");
        fs::write(&partial, seconds_ahead.to_string()).unwrap();
        fs::rename(partial, clock).unwrap();
    }
}

/// Address of the database of a data folder, as `MOLBOX_TEST_DATABASE` has it: of PostgreSQL one for
/// each folder, a file of the folder otherwise.
fn database_of(data: &Path) -> String {
    static OF_FOLDERS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    match std::env::var("MOLBOX_TEST_DATABASE").as_deref() {
        Err(_) | Ok("sqlite") => String::new(),
        Ok("postgres") => {
            let server = postgres::shared().expect("PostgreSQL is asked for");
            let mut of_folders = OF_FOLDERS.lock().unwrap();
            of_folders.entry(data.to_owned()).or_insert_with(|| server.database()).clone()
        }
        Ok(other) => panic!("MOLBOX_TEST_DATABASE is sqlite or postgres, not {other}"),
    }
}

/// The bucket for a data folder, as `MOLBOX_TEST_OBJECTS` has it: of S3 one for each folder, none
/// otherwise.
fn bucket_of(data: &Path) -> Option<Bucket> {
    static OF_FOLDERS: Mutex<BTreeMap<PathBuf, Bucket>> = Mutex::new(BTreeMap::new());
    match std::env::var("MOLBOX_TEST_OBJECTS").as_deref() {
        Err(_) | Ok("disk") => None,
        Ok("s3") => {
            let server = s3::shared().expect("S3 is asked for");
            let mut of_folders = OF_FOLDERS.lock().unwrap();
            Some(of_folders.entry(data.to_owned()).or_insert_with(|| server.bucket()).clone())
        }
        Ok(other) => panic!("MOLBOX_TEST_OBJECTS is disk or s3, not {other}"),
    }
}

/// Whether `MOLBOX_TEST_TASKS` has systems and jobs run as jobs of Slurm, rather than as processes.
pub(crate) fn has_slurm() -> bool {
    match std::env::var("MOLBOX_TEST_TASKS").as_deref() {
        Err(_) | Ok("process") => false,
        Ok("slurm") => true,
        Ok(other) => panic!("MOLBOX_TEST_TASKS is process or slurm, not {other}"),
    }
}

/// What a service is started with for that.
fn slurm_settings() -> Vec<String> {
    if !has_slurm() {
        return Vec::new();
    }
    settings_of(slurm::shared().expect("Slurm is asked for"))
}

/// What a service is started with whose tasks are jobs of a cluster.
pub(crate) fn settings_of(cluster: &Slurm) -> Vec<String> {
    vec![
        "tasks.executor=slurm".to_owned(),
        format!("tasks.slurm.conf={:?}", cluster.conf().display().to_string()),
        "tasks.slurm.poll_seconds=0.2".to_owned(),
        "tasks.slurm.submit_per_second=100".to_owned(),
        "tasks.slurm.settle_seconds=2".to_owned(),
    ]
}

/// A process of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) command: String,
}

/// The processes that name the folder of a task in their command: `run-task` and what it runs.
pub(crate) fn processes(folder: &Path) -> Vec<Process> {
    let id = folder.file_name().unwrap().to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Gone, or a zombie, when it cannot be read or is empty.
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(id) {
            found.push(Process { pid, command });
        }
    }
    found
}

impl Process {
    /// The process that started it; none when it has gone.
    pub(crate) fn parent(&self) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    }

    pub(crate) fn is_run_task(&self) -> bool {
        self.command.contains(" run-task ")
    }

    fn is_step(&self) -> bool {
        self.command.starts_with("slurmstepd: ")
    }

    /// Sends a signal, which may come too late.
    pub(crate) fn signal(&self, signal: &str) {
        let mut command = Command::new("kill");
        command.args(["-s", signal, &self.pid.to_string()]).stderr(Stdio::null()).status().unwrap();
    }
}

/// Kills a task with all around it, as a power cut would; whether there was one.
pub(crate) fn kill_task(folder: &Path) -> bool {
    let mut found = processes(folder);
    // As the death of a node takes all of a job; Slurm would end it before the worker were killed.
    found.splice(0..0, steps_of(&found));
    let is_last = |process: &&Process| !process.is_run_task() && !process.is_step();
    // Who notes how the worker ended goes first.
    found.iter().filter(|process| !is_last(process)).for_each(|process| process.signal("KILL"));
    found.iter().filter(is_last).for_each(|process| process.signal("KILL"));
    !found.is_empty()
}

/// The `slurmstepd` of those that are jobs of Slurm.
fn steps_of(found: &[Process]) -> Vec<Process> {
    let run_tasks = found.iter().filter(|process| process.is_run_task());
    let parents = run_tasks.filter_map(|process| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    });
    let steps = parents.map(|pid: u32| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Process { pid, command }
    });
    steps.filter(Process::is_step).collect()
}

/// The worker's interpreter: what `cargo xtask test` names, or what it has made.
pub(crate) fn python() -> Option<PathBuf> {
    let made =
        Path::new(env!("CARGO_BIN_EXE_molboxd")).ancestors().nth(2)?.join("worker-env/bin/python");
    std::env::var_os("MOLBOX_TEST_PYTHON")
        .map(PathBuf::from)
        .or(Some(made))
        .filter(|python| python.exists())
}

/// Waits for a state; names it when it does not come about.
pub(crate) fn wait_for<T>(what: &str, mut state: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = state() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(300), "it did not come about that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}
