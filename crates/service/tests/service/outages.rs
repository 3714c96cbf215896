//! PostgreSQL that is not there, dies, or is cut off in the middle of what it is asked: nothing that
//! was acknowledged is lost, and nothing that was refused is done.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use molbox::Client;
use tempfile::TempDir;

use crate::common::{Service, wait_for};
use crate::postgres::{self, Postgres, SOCKET};

/// Nothing is started, and everything is accepted.
const SETTINGS: [&str; 3] = [
    "worker.python=\"/nonexistent/python\"",
    "limits.open_tasks=0",
    "limits.requests_per_minute=0",
];

/// Where a connection is cut when a commit goes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The commit does not arrive.
    Before,
    /// Its answer does not.
    After,
}

/// A way to a server on which every fifth commit is cut.
struct Way {
    folder: TempDir,
    is_on: Arc<AtomicBool>,
    n_cut: Arc<AtomicUsize>,
}

impl Way {
    fn to(server: PathBuf, cut: Cut) -> Self {
        Self::and(server, cut, || ())
    }

    /// The same; something is done before each cut.
    fn and(server: PathBuf, cut: Cut, before: impl Fn() + Clone + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let (is_on, n_cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (cuts, counted) = (is_on.clone(), n_cut.clone());
        let n_commits = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, Ok(server)) = (client.unwrap(), UnixStream::connect(&server)) else {
                    continue;
                };
                let (cuts, counted, n_commits) = (cuts.clone(), counted.clone(), n_commits.clone());
                let before = before.clone();
                let is_cut = move |sent: &[u8]| {
                    let is_commit = sent.windows(7).any(|text| text == b"commit\0");
                    let is_cut = is_commit
                        && cuts.load(Ordering::Relaxed)
                        && n_commits.fetch_add(1, Ordering::Relaxed) % 5 == 4;
                    if is_cut {
                        before();
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    is_cut
                };
                connect(client, server, cut, is_cut);
            }
        });
        Self { folder, is_on, n_cut }
    }
}

/// Carries what two ends say to each other, until one of them ends or the connection is cut.
fn connect(
    client: UnixStream,
    server: UnixStream,
    cut: Cut,
    is_cut: impl Fn(&[u8]) -> bool + Send + 'static,
) {
    let is_mute = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    let mute = is_mute.clone();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from_client.read(&mut buffer) {
            if is_cut(&buffer[..n]) {
                if cut == Cut::After {
                    mute.store(true, Ordering::SeqCst);
                    if to_server.write_all(&buffer[..n]).is_ok() {
                        // The answer is heard below, and goes no further.
                        continue;
                    }
                }
                break;
            }
            if to_server.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        drop(to_server.shutdown(Shutdown::Both));
        drop(from_client.shutdown(Shutdown::Both));
    });
    let (mut from_server, mut to_client) = (server, client);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from_server.read(&mut buffer) {
            // What was sent with the commit is answered before it.
            let is_answer = buffer[..n].windows(7).any(|text| text == b"COMMIT\0");
            let is_heard = is_mute.load(Ordering::SeqCst) && is_answer;
            if is_heard || to_client.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        drop(to_client.shutdown(Shutdown::Both));
        drop(from_server.shutdown(Shutdown::Both));
    });
}

/// Submits so many systems, eight at a time, by these clients in turn: those that were acknowledged,
/// and how many were not.
async fn submit(clients: &[Client], n: usize) -> (BTreeSet<String>, usize) {
    let (mut acknowledged, mut n_refused) = (BTreeSet::new(), 0);
    for _ in 0..n / 8 {
        let each = clients.iter().cycle().take(8).map(|molbox| async {
            molbox.system_submit().body_map(|system| system.minimum_padding(1.2)).send().await
        });
        for answer in futures::future::join_all(each).await {
            match answer {
                Ok(record) => assert!(acknowledged.insert(record.system_id.to_string())),
                Err(error) => {
                    assert_eq!(error.status().map(|status| status.as_u16()), Some(503), "{error}");
                    n_refused += 1;
                }
            }
        }
    }
    (acknowledged, n_refused)
}

async fn listed(molbox: &Client) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut token: Option<String> = None;
    loop {
        let mut request = molbox.system_list().limit(100);
        if let Some(token) = &token {
            request = request.page_token(token.as_str());
        }
        let page = request.send().await.unwrap().into_inner();
        for item in &page.items {
            assert!(all.insert(item.system_id.to_string()), "it is listed twice");
        }
        match page.next_page {
            Some(next) => token = Some(next.to_string()),
            None => return all,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_cut_off_is_acknowledged_or_undone() {
    let Some(server) = postgres::shared() else { return };
    // Each submission has a commit of its own, or some of one account share one.
    for (cut, n_accounts, least) in
        [(Cut::Before, 8, 40), (Cut::After, 8, 40), (Cut::Before, 1, 5), (Cut::After, 1, 5)]
    {
        let case = format!("{cut:?}, {n_accounts} accounts");
        let way = Way::to(server.socket(), cut);
        let url = server.database();
        let name = url.rsplit('/').next().unwrap();
        let url = postgres::address(way.folder.path(), name);
        let service = Service::start_on(&url, &SETTINGS);
        let clients: Vec<Client> =
            (0..n_accounts).map(|i| service.client(&format!("account-{i}"))).collect();
        way.is_on.store(true, Ordering::Relaxed);
        let (acknowledged, n_refused) = submit(&clients, 200).await;
        way.is_on.store(false, Ordering::Relaxed);
        let mut all = BTreeSet::new();
        for molbox in &clients {
            all.append(&mut listed(molbox).await);
        }
        assert_eq!(all, acknowledged, "{case}");
        let n_cut = way.n_cut.load(Ordering::Relaxed);
        match cut {
            // The service writes by itself, too: that it is there, and that it runs the tasks.
            Cut::Before => {
                let most = n_cut * 8 / n_accounts;
                assert!((1..=most).contains(&n_refused), "{case}: {n_refused} of {n_cut}");
            }
            Cut::After => assert_eq!((n_refused, acknowledged.len()), (0, 200), "{case}"),
        }
        assert!(n_cut >= least, "{case}: {n_cut} commits were cut");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_cut_off_is_asked_for_until_a_server_that_takes_over_is_written_to() {
    let Some(server) = postgres::shared() else { return };
    let (url, elsewhere) = (server.database(), server.database());
    let name = url.rsplit('/').next().unwrap().to_owned();
    let alter = format!("alter database {name} set default_transaction_read_only =");
    // Connections from then on find it as one that has not taken over yet.
    let away = {
        let (elsewhere, sql) = (elsewhere.clone(), format!("{alter} on"));
        move || drop(server.sql(&elsewhere, &sql))
    };
    let way = Way::and(server.socket(), Cut::After, away);
    let service = Service::start_on(&postgres::address(way.folder.path(), &name), &SETTINGS);
    let molbox = service.client("ada");
    way.is_on.store(true, Ordering::Relaxed);
    let submitting = tokio::spawn({
        let molbox = molbox.clone();
        async move { submit(&[molbox], 8).await }
    });
    wait_for("a commit is cut", || (way.n_cut.load(Ordering::Relaxed) > 0).then_some(()));
    way.is_on.store(false, Ordering::Relaxed);
    server.sql(&elsewhere, &format!("{alter} off"));
    let (acknowledged, _) = submitting.await.unwrap();
    assert_eq!(listed(&molbox).await, acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_dies_takes_nothing_that_was_acknowledged_with_it() {
    let Some(mut server) = Postgres::start() else { return };
    let url = server.database();
    let service = Service::start_on(&url, &SETTINGS);
    let molbox = service.client("ada");
    let mut acknowledged = BTreeSet::new();
    for _ in 0..3 {
        let mut submitting = tokio::spawn({
            let molbox = molbox.clone();
            async move { submit(&[molbox], 400).await }
        });
        wait_for("submissions are under way", || {
            let n: usize = server.sql(&url, "select count(*) from task").parse().unwrap();
            (n > acknowledged.len() + 20).then_some(())
        });
        server.crash();
        let health = reqwest::get(format!("{}/healthz", service.base_url)).await.unwrap();
        assert_eq!(health.status(), 503);
        server.restart();
        let (new, n_refused) =
            (&mut submitting).await.unwrap_or_else(|error| panic!("{error}: {}", service.log()));
        assert!(n_refused > 0, "it was there all the time");
        acknowledged.extend(new);
        let all = listed(&molbox).await;
        let lost: Vec<_> = acknowledged.difference(&all).collect();
        assert!(lost.is_empty(), "{lost:?}");
        acknowledged = all;
    }
}

#[test]
fn a_server_that_is_started_before_its_database_waits_for_it() {
    let Some(mut server) = Postgres::start() else { return };
    let mut service = Service::start_on(&server.database(), &SETTINGS);
    service.stop();
    server.crash();
    service.restart_before("database.url", || server.restart());
    service.command(&["account", "list"]);
    // Who looks after it by itself sets none.
    service.stop();
    server.crash();
    let mut serve = service.place().molboxd();
    serve.args(["--set", "server.wait_seconds=0", "--set", SETTINGS[0], "serve"]);
    let said = String::from_utf8(serve.output().unwrap().stderr).unwrap();
    assert!(said.contains("database.url") && !said.contains("waiting"), "{said}");
}

#[test]
fn a_database_that_cannot_be_used_is_named_with_its_setting() {
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let refusal = |url: &str, more: &[&str]| -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.arg("--data").arg(folder.path().join("data"));
        command.args(["--set", &format!("database.url={url:?}")]);
        let output = command.args(more).args(["account", "list"]).output().unwrap();
        assert!(!output.status.success(), "{url}");
        String::from_utf8(output.stderr).unwrap()
    };
    let nowhere = postgres::address(folder.path(), "molbox");
    for (url, more, parts) in [
        ("mysql://db.example.org/molbox", &[][..], &["database.url", "PostgreSQL"][..]),
        ("postgres://db/molbox?sslmode=verify-ca", &[], &["database.url", "verify-full"]),
        ("postgres://db/molbox?sslrootcert=ca.pem", &[], &["database.url", "database.ca_file"]),
        (&nowhere, &[], &["database.url", "molbox"]),
        (&url.replace("molbox_", "nobody_"), &[], &["database.url", "does not exist"]),
        (&url.replace("//molbox@", "//nobody@"), &[], &["database.url", "nobody"]),
        (&url, &["--set", "database.password_file=\"/nonexistent\""], &["database.password_file"]),
        (
            "postgres://molbox@db.example.org/molbox",
            &["--set", "database.ca_file=\"/nonexistent\""],
            &["database.ca_file"],
        ),
        (&url, &["--set", "database.connections=0"], &["database.connections"]),
    ] {
        let said = refusal(url, more);
        for part in parts {
            assert!(said.contains(part), "{url}: {part} is not in: {said}");
        }
    }
    // Of another program, also of one that has a table of this name.
    for table in ["orders (id int)", "schema_version (installed_rank int, version text)"] {
        let other = server.database();
        server.sql(&other, &format!("create table {table}"));
        let said = refusal(&other, &[]);
        assert!(
            said.contains("tables of another program") && said.contains("database.url"),
            "{said}"
        );
        assert_eq!(
            server.sql(&other, "select count(*) from pg_tables where schemaname = 'public'"),
            "1"
        );
    }
    let latin =
        "create database latin template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'";
    server.sql(&url, latin);
    let name = url.rsplit('/').next().unwrap();
    let said = refusal(&url.replace(name, "latin"), &[]);
    assert!(said.contains("encoding 'UTF8'") && said.contains("database.url"), "{said}");
    // Of a newer program, and of one that is older than this one can bring up to date.
    let other = server.database();
    server.sql(&other, "create table schema_version (version bigint, oldest bigint)");
    server.sql(&other, "insert into schema_version values (1000, 999)");
    assert!(refusal(&other, &[]).contains("made by a newer molboxd"));
    server.sql(&other, "update schema_version set version = 3, oldest = 3");
    assert!(refusal(&other, &[]).contains("`molboxd migrate`"));
}

#[test]
fn a_clock_that_is_not_that_of_the_database_is_named_and_no_server_starts_far_from_it() {
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let run = |command: &[&str]| -> (bool, String) {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(folder.path().join("data"));
        for setting in [&format!("database.url={url:?}"), SETTINGS[0]] {
            molboxd.args(["--set", setting]);
        }
        for address in ["listen", "margin_listen"] {
            molboxd.args(["--set", &format!("{address}=\"127.0.0.1:0\"")]);
        }
        let output = molboxd.args(command).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    assert!(run(&["account", "create", "ada"]).0);
    // A function of this name that is found before the server's own.
    let name = url.rsplit('/').next().unwrap();
    server.sql(&url, &format!("alter database {name} set search_path = public, pg_catalog"));
    let shift = |seconds: i32| {
        let sql = format!(
            "create or replace function clock_timestamp() returns timestamptz language sql volatile
             as $$ select pg_catalog.clock_timestamp() + interval '{seconds} s' $$"
        );
        server.sql(&url, &sql);
    };
    let apart = |seconds: i32| {
        let way = if seconds > 0 { "behind" } else { "ahead of" };
        format!(" s {way} that of database.url: set both by NTP")
    };
    for seconds in [-90, 90] {
        shift(seconds);
        for command in ["serve", "doctor"] {
            let (done, said) = run(&[command]);
            assert!(!done && said.contains(&apart(seconds)), "{seconds}: {said}");
        }
    }
    for (seconds, is_named) in [(-20, true), (0, false), (20, true)] {
        shift(seconds);
        assert!(run(&["account", "list"]).0, "{seconds}");
        let (_, said) = run(&["doctor"]);
        assert!(said.contains(" database: PostgreSQL "), "{said}");
        assert_eq!(said.contains(&apart(seconds)), is_named, "{seconds}: {said}");
    }
}

#[test]
fn a_password_that_is_missing_or_wrong_is_named_with_its_setting() {
    let Some((server, port, certificate)) = Postgres::start_with_tls() else { return };
    let database = server.database();
    server.sql(&database, "alter role molbox password 'right'");
    server.sql(&database, "create role guest login password 'right'");
    server.sql(&database, "revoke create on schema public from public");
    server.ask_for_passwords(&database);
    let folder = tempfile::tempdir().unwrap();
    let run = |run: &[&str], role: &str, password: Option<&str>| -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.arg("--data").arg(folder.path().join("data"));
        let url = format!("postgres://{role}@127.0.0.1:{port}/molbox_0?sslmode=disable");
        command.args(["--set", &format!("database.url={url:?}")]);
        command.args(["--set", &format!("database.ca_file={certificate:?}")]);
        if let Some(password) = password {
            let file = folder.path().join("password");
            std::fs::write(&file, password).unwrap();
            command.args(["--set", &format!("database.password_file={file:?}")]);
        }
        let output = command.args(run).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let list = |role: &str, password| run(&["account", "list"], role, password);
    for password in [None, Some("wrong"), Some("")] {
        // What refuses is waited for by none.
        for said in [list("molbox", password), run(&["serve"], "molbox", password)] {
            let (done, said) = said;
            assert!(!done && said.contains("database.password_file"), "{password:?}: {said}");
            assert!(!said.contains("wrong") && !said.contains("waiting"), "{said}");
        }
    }
    let (done, said) = list("guest", Some("right"));
    assert!(!done && said.contains("make the role of database.url own the database"), "{said}");
    let (done, said) = list("molbox", Some("right\n"));
    assert!(done, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_for_a_connection_where_the_database_has_no_more() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let name = url.rsplit('/').next().unwrap();
    server.sql(&url, &format!("create role few login; alter database {name} owner to few"));
    let service = Service::start_on(&url.replace("molbox@", "few@"), &SETTINGS);
    let molbox = service.client("ada");
    server.sql(&url, "alter role few connection limit 1");
    let lists = (0..200).map(|_| molbox.system_list().send());
    for listed in futures::future::join_all(lists).await {
        listed.unwrap();
    }
}

#[test]
fn a_database_is_that_of_one_data_folder() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let service = Service::start_on(&url, &SETTINGS);
    let elsewhere = tempfile::tempdir().unwrap();
    let data = elsewhere.path().join("data");
    let refusal = |run: &str, url: &str| -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.args(["--set", SETTINGS[0]]);
        command.arg("--data").arg(&data).args(["--set", &format!("database.url={url:?}")]);
        for address in ["listen", "margin_listen"] {
            command.args(["--set", &format!("{address}=\"127.0.0.1:0\"")]);
        }
        let output = command.arg(run).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    for run in ["serve", "doctor"] {
        let said = refusal(run, &url);
        assert!(said.contains("is that of another data folder"), "{run}: {said}");
    }
    drop(service);
    std::fs::create_dir_all(data.join("objects/tasks/job_0")).unwrap();
    let new = server.database();
    for _ in 0..2 {
        let said = refusal("serve", &new);
        assert!(said.contains("has contents in objects/tasks but"), "{said}");
    }
}

#[test]
fn a_connection_to_elsewhere_is_encrypted_to_who_the_certificate_says() {
    let Some((server, port, certificate)) = Postgres::start_with_tls() else { return };
    server.database();
    let folder = tempfile::tempdir().unwrap();
    let run = |run: &[&str], host: &str, more: &str, ca_file: &str| -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.arg("--data").arg(folder.path().join("data"));
        let url = format!("postgres://molbox@{host}:{port}/molbox_0?hostaddr=127.0.0.1{more}");
        command.args(["--set", &format!("database.url={url:?}")]);
        command.args(["--set", &format!("database.ca_file={ca_file:?}")]);
        let output = command.args(run).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let list =
        |host: &str, more: &str, ca_file: &str| run(&["account", "list"], host, more, ca_file);
    let ca_file = certificate.to_str().unwrap();
    let (done, said) = list("localhost", "&sslmode=verify-full", ca_file);
    assert!(done, "{said}");
    for (host, more, ca_file, part) in [
        // Nobody else is believed, without being asked to check: it is not this machine.
        ("db.example.org", "", ca_file, "name the server in database.url as its certificate does"),
        ("db.example.org", "&sslmode=verify-full", ca_file, "certificate not valid for name"),
        ("localhost", "&sslmode=verify-full", "", "set database.ca_file to a file with"),
    ] {
        for command in [&["account", "list"][..], &["serve"]] {
            let (done, said) = run(command, host, more, ca_file);
            assert!(!done && said.contains(part), "{host} {more}: {said}");
            assert!(!said.contains("waiting"), "{said}");
        }
    }
    assert!(list("db.example.org", "&sslmode=disable", "").0);
    // One that admits nobody without TLS.
    server.admit(&postgres::address(&server.folder(), "molbox_0"), "hostssl all all all trust");
    let (done, said) = list("localhost", "&sslmode=disable", "");
    assert!(!done && said.contains("set sslmode=verify-full in database.url"), "{said}");
    assert!(list("localhost", "&sslmode=verify-full", ca_file).0);
}

/// The port of a server that answers the question for TLS, the first that it is asked, with no.
fn without_tls() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut question = [0; 8];
            if stream.read_exact(&mut question).is_ok() {
                drop(stream.write_all(b"N"));
            }
        }
    });
    port
}

#[test]
fn a_server_without_tls_elsewhere_is_named_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("postgres://molbox@db.example.org:{}/m?hostaddr=127.0.0.1", without_tls());
    for run in [&["account", "list"][..], &["serve"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        command.arg("--data").arg(folder.path().join("data"));
        let output =
            command.args(["--set", &format!("database.url={url:?}")]).args(run).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && !said.contains("waiting"), "{said}");
        for part in ["does not offer TLS", "sslmode=disable in database.url"] {
            assert!(said.contains(part), "{said}");
        }
    }
}

#[test]
fn a_database_that_takes_no_writes_is_named_with_its_setting() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let service = Service::start_on(&url, &SETTINGS);
    let name = url.rsplit('/').next().unwrap();
    // As all of a standby is.
    server.sql(&url, &format!("alter database {name} set default_transaction_read_only = on"));
    let said = service.failing_command(&["account", "create", "ada"]);
    for part in ["(25006)", "database.url leads to a standby", "target_session_attrs=read-write"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[test]
fn a_pooler_before_the_database_is_refused_and_named_with_its_setting() {
    let Some(server) = postgres::shared() else { return };
    let Some(program) = pooler() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let name = url.rsplit('/').next().unwrap();
    // How it is installed; and as people have it who have met its refusal of settings.
    for more in ["", "ignore_startup_parameters = options"] {
        for mode in ["session", "transaction", "statement"] {
            let pooler = Pooler::start(&program, server, mode, more);
            let url = format!("postgres://molbox@127.0.0.1:{}/{name}", pooler.port);
            for run in [&["account", "list"][..], &["serve"]] {
                let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
                command.arg("--data").arg(folder.path().join("data"));
                command.args(["--set", &format!("database.url={url:?}")]);
                let output = command.args(run).output().unwrap();
                let said = String::from_utf8(output.stderr).unwrap();
                assert!(!output.status.success() && !said.contains("waiting"), "{mode}: {said}");
                for part in ["a pooler (PgBouncer)", "name PostgreSQL itself in database.url"] {
                    assert!(said.contains(part), "{mode} {more}: {said}");
                }
            }
        }
    }
}

/// A pooler before a server, until this is dropped.
struct Pooler {
    port: u16,
    process: Child,
    _folder: TempDir,
}

impl Pooler {
    fn start(program: &Path, server: &Postgres, mode: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            "[databases]\n* = host={} port=5432 user=molbox\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n{more}\n",
            server.folder().display()
        );
        let settings = folder.path().join("pgbouncer.ini");
        fs::write(&settings, text).unwrap();
        let mut pooler = postgres::as_user(program);
        pooler.arg("--quiet").arg(&settings).stdout(Stdio::null()).stderr(Stdio::null());
        let process = pooler.spawn().unwrap();
        wait_for("the pooler listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { port, process, _folder: folder }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The pooler (`pgbouncer`); none, and a word of it, where it is not installed.
fn pooler() -> Option<PathBuf> {
    let program = PathBuf::from("/usr/sbin/pgbouncer");
    if program.exists() {
        return Some(program);
    }
    let missing = "PgBouncer is not installed (Debian: pgbouncer)";
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    println!("skipped: a test of poolers: {missing}");
    None
}
