//! Contents in a bucket of S3: that is not there, dies in the middle of what it is asked, or is not
//! the one that is meant. Nothing that was acknowledged is lost, and nothing is mixed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use molbox::Client;
use serde_json::{Value, json};

use crate::common::{Place, Service, example, wait_for};
use crate::files::atom;
use crate::postgres::{self, Postgres};
use crate::s3::{self, Bucket, S3};
use crate::way::Way;
use crate::work::{archive, endless_job, short_job, until_it_produces, wait_until, water};

/// Nothing is started, and everything is accepted.
const SETTINGS: [&str; 2] =
    ["worker.python=\"/nonexistent/python\"", "limits.requests_per_minute=0"];

/// A PDB file of more bytes than a part of an upload; each another one.
fn large(n: usize) -> Vec<u8> {
    let remarks = "REMARK 999 as long as a part\n".repeat((17 << 20) / 29);
    [format!("REMARK   1 {n}\n{remarks}").into_bytes(), atom(0.0)].concat()
}

/// Uploads until one is refused: what was acknowledged.
async fn upload_until_refused(molbox: &Client, from: usize) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    for n in from.. {
        let content = if n % 3 == 2 { large(n) } else { [atom(n as f64), b"\n".to_vec()].concat() };
        let path = folder.path().join(format!("{n}.pdb"));
        fs::write(&path, &content).unwrap();
        match molbox.upload(&path).name(format!("file {n}")).await {
            Ok(file) => drop(acknowledged.insert(file.file_id.to_string(), content)),
            Err(error) => {
                assert_eq!(error.status().map(|status| status.as_u16()), Some(503), "{error}");
                assert!(error.to_string().contains("object store"), "{error}");
                return acknowledged;
            }
        }
    }
    unreachable!("it goes on until then")
}

async fn content(molbox: &Client, id: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = molbox.download_file(id, folder.path().join("content")).await.unwrap();
    fs::read(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_dies_takes_no_upload_with_it_that_was_acknowledged() {
    let Some(mut server) = S3::start() else { return };
    let service = Service::start_in_bucket(&server.bucket(), &SETTINGS);
    let molbox = service.client("ada");
    let mut acknowledged = BTreeMap::new();
    for round in 0..2 {
        let uploading = tokio::spawn({
            let molbox = molbox.clone();
            async move { upload_until_refused(&molbox, 100 * round).await }
        });
        wait_for("uploads are under way", || {
            let n: usize =
                service.sql("select count(*) from file where status = 'ready'").parse().unwrap();
            (n > acknowledged.len() + 3).then_some(())
        });
        server.crash();
        acknowledged.extend(uploading.await.unwrap());
        server.restart();
    }
    for (id, expected) in &acknowledged {
        assert!(content(&molbox, id).await == *expected, "{id}");
    }
    let n = acknowledged.len();
    let said = service.command(&["check"]);
    assert!(said.contains(&format!("{n} files, 0 tasks: 0 damaged")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_the_store_is_away_is_collected_when_it_is_back() {
    let Some(mut server) = S3::start() else { return };
    let mut service = Service::start_in_bucket(&server.bucket(), &[]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = short_job(&molbox, &system).await.job_id.to_string();
    // One that has not begun needs the store to begin.
    wait_until(&molbox, &job, |job| job.attempts == 1).await;
    server.crash();
    service.wait_until_it_logs("end an attempt");
    let refused = molbox.system_view().system_id(system.system_id.clone()).send().await;
    refused.expect("a record is in the database");
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("system.zip");
    let of_download = molbox.download_system(&system.system_id, to).await.unwrap_err();
    let of_upload = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap_err();
    for refused in [of_download, of_upload] {
        assert_eq!(refused.status().map(|status| status.as_u16()), Some(503), "{refused}");
        let what = "the service's object store does not answer";
        assert!(refused.to_string().contains(what), "{refused}");
    }
    // Neither loses what has not been collected yet.
    service.kill();
    server.restart();
    service.restart();
    let molbox = service.client_with(&key);
    molbox.wait_job(&job).await.unwrap();
    let bundle = molbox.download_job(&job, folder.path().join("job.zip")).await.unwrap();
    let files = archive(&bundle);
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    let listed: Vec<_> = manifest["files"].as_array().unwrap().iter().collect();
    // But for itself and the description of them all.
    assert_eq!(listed.len() + 2, files.len());
    assert!(files.contains_key("production.dcd") && files.contains_key("log.txt"));
    assert_eq!(service.command(&["check"]), "0 files, 2 tasks: 0 damaged, 0 orphans");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_to_the_bucket_itself_is_taken_once_and_changes_no_more() {
    let Some(server) = s3::shared() else { return };
    let bucket = server.bucket();
    let settings =
        ["objects.direct_uploads=true", "limits.upload_bytes=1000000", SETTINGS[0], SETTINGS[1]];
    let service = Service::start_in_bucket(&bucket, &settings);
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, content: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let sent = || fs::read_dir(bucket.folder.join("uploads")).map_or(0, |found| found.count());
    let expected = [atom(3.0), b"\n".to_vec()].concat();
    let file = molbox.upload(of("one.pdb", &expected)).name("one").await.unwrap();
    assert!(content(&molbox, &file.file_id).await == expected);
    assert_eq!(sent(), 0, "what was taken does not lie there twice");

    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap().into_inner();
    let url: reqwest::Url = link.upload_url.parse().unwrap();
    assert!(url.as_str().starts_with(&bucket.endpoint), "{url}");
    assert_eq!(link.max_bytes, Some(1_000_000));
    let id = link.file_id.as_str().to_owned();
    let http = reqwest::Client::new();
    let put = async |url: &reqwest::Url, content: Vec<u8>| {
        http.put(url.clone()).body(content).send().await.unwrap().status().as_u16()
    };
    let register = || molbox.file_register().body_map(|file| file.file_id(id.clone())).send();
    let refused = register().await.unwrap_err();
    assert_eq!(refused.status().map(|status| status.as_u16()), Some(409), "{refused}");
    // Neither a link to another file nor one that is altered takes anything.
    let other: reqwest::Url = url.as_str().replace(&id, "file_other").parse().unwrap();
    assert_eq!(put(&other, vec![1]).await, 403);
    // What is no such file, or too large, is refused with its reason, and another may be sent.
    assert_eq!(put(&url, b"no structure".to_vec()).await, 200);
    let refused = register().await.unwrap_err();
    assert_eq!(refused.status().map(|status| status.as_u16()), Some(422), "{refused}");
    assert_eq!(put(&url, vec![b' '; 1_000_001]).await, 200);
    let refused = register().await.unwrap_err();
    assert_eq!(refused.status().map(|status| status.as_u16()), Some(413), "{refused}");
    assert_eq!(sent(), 0);
    let expected = [atom(1.0), b"\n".to_vec()].concat();
    assert_eq!(put(&url, expected.clone()).await, 200);
    register().await.unwrap();
    // The link goes on working for an hour, and what it takes is nobody's.
    assert_eq!(put(&url, [atom(2.0), b"\n".to_vec()].concat()).await, 200);
    assert!(content(&molbox, &id).await == expected);
    let refused = register().await.unwrap_err();
    assert_eq!(refused.status().map(|status| status.as_u16()), Some(409), "{refused}");
    assert!(content(&molbox, &id).await == expected);
    assert_eq!(service.command(&["check"]), "2 files, 0 tasks: 0 damaged, 0 orphans");
    let page = reqwest::get(format!("{}/portal/", service.base_url)).await.unwrap();
    if page.status() == 200 {
        let policy = page.headers()["content-security-policy"].to_str().unwrap();
        let wanted = format!("connect-src 'self' {};", url.origin().ascii_serialization());
        assert!(policy.contains(&wanted), "{policy}");
    }
}

/// Files below a folder, but for those that say what it is.
fn n_files(folder: &Path) -> usize {
    let Ok(found) = fs::read_dir(folder) else { return 0 };
    let each = found.flatten().map(|found| match found.file_type() {
        Ok(kind) if kind.is_dir() => n_files(&found.path()),
        _ => usize::from(!["installation", "tenure"].iter().any(|it| found.file_name() == *it)),
    });
    each.sum()
}

/// Asks for a link, and sends so many bytes of what has this length to it.
async fn upload(service: &Service, molbox: &Client, bytes: usize, length: usize) -> TcpStream {
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap().into_inner();
    let url: reqwest::Url = link.upload_url.parse().unwrap();
    let host = service.base_url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let (path, query) = (url.path(), url.query().unwrap());
    write!(
        stream,
        "PUT {path}?{query} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(&vec![b' '; bytes]).unwrap();
    stream
}

/// More than one part of what would be more.
async fn half_an_upload(service: &Service, molbox: &Client) -> TcpStream {
    upload(service, molbox, 17 << 20, 1 << 30).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_the_end_of_a_service_cuts_off_is_refused_and_leaves_nothing() {
    let settings = ["connections.stop_seconds=2", SETTINGS[0], SETTINGS[1]];
    let server = s3::shared();
    for bucket in [server.map(S3::bucket), None] {
        let mut service = match &bucket {
            Some(bucket) => Service::start_in_bucket(bucket, &settings),
            None => Service::start_with(&settings),
        };
        let mut upload = half_an_upload(&service, &service.client("ada")).await;
        let partial = service.data.join("partial");
        wait_for("it arrives", || {
            let n = bucket.as_ref().map_or_else(|| n_files(&partial), |it| n_files(&it.folder));
            (n > 0).then_some(())
        });
        service.stop();
        let mut answer = String::new();
        upload.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("the service ends; send the content again"), "{answer}");
        assert_eq!(n_files(&partial), 0);
        assert_eq!(bucket.as_ref().map_or(0, |bucket| n_files(&bucket.folder)), 0);
        assert_eq!(service.command(&["check"]), "0 files, 0 tasks: 0 damaged, 0 orphans");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_waits_for_its_store_when_a_service_ends_is_refused_and_leaves_nothing() {
    let Some(server) = s3::shared() else { return };
    let bucket = server.bucket();
    let way = Way::to(&bucket, "files/");
    let through = Bucket { endpoint: way.endpoint.clone(), ..bucket.clone() };
    let settings = ["connections.stop_seconds=2", SETTINGS[0], SETTINGS[1]];
    let mut service = Service::start_in_bucket(&through, &settings);
    let molbox = service.client("ada");
    let mut upload = upload(&service, &molbox, 1 << 10, 1 << 10).await;
    wait_for("the store has it, and does not say so", || way.is_used().then_some(()));
    service.stop();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("the service ends; send the content again"), "{answer}");
    way.release();
    service.restart();
    wait_for("what the store has taken is removed", || {
        (n_files(&bucket.folder) == 0).then_some(())
    });
}

/// Has all below a folder be as it was three days ago.
fn age(folder: &Path) {
    let then = SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
    for found in fs::read_dir(folder).unwrap().flatten() {
        if found.file_type().unwrap().is_dir() {
            age(&found.path());
        }
        fs::File::open(found.path()).unwrap().set_modified(then).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_an_upload_that_a_killed_service_leaves_are_removed() {
    let Some(server) = s3::shared() else { return };
    for database in [Some(String::new()), postgres::shared().map(Postgres::database)] {
        let Some(database) = database else { continue };
        // Which is escaped in addresses, and in what a store says of it.
        let bucket = server.bucket();
        let below =
            Bucket { name: format!("{}/Mein Präfix+1 & 2", bucket.name), ..bucket.clone() };
        let mut service = Service::start_shared(&database, &below, &SETTINGS);
        let _upload = half_an_upload(&service, &service.client("ada")).await;
        wait_for("it arrives", || (n_files(&bucket.folder) > 0).then_some(()));
        service.kill();
        assert!(n_files(&bucket.folder) > 0);
        if !database.is_empty() {
            // Another server could be sending them for two days.
            age(&bucket.folder);
        }
        service.restart();
        wait_for("they are removed", || (n_files(&bucket.folder) == 0).then_some(()));
    }
}

#[test]
fn a_store_that_cannot_be_used_is_named_with_its_setting() {
    let Some(server) = s3::shared() else { return };
    let bucket = server.bucket();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        format!("objects.credentials_file={path:?}")
    };
    let guest = format!("objects.credentials_file={:?}", server.user());
    let [wrong_secret, wrong_key, one_line] =
        [("secret", "molbox\nsome-other"), ("key", "nobody\nmolbox-secret"), ("line", "molbox")]
            .map(|(name, text)| file(name, text));
    let no_s3 = format!("objects.endpoint={:?}", answering("404 Not Found", "{}"));
    let with_bucket =
        format!("objects.endpoint={:?}", format!("{}/{}/", bucket.endpoint, bucket.name));
    let said = |command: &str, changed: &[&str]| -> String {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(folder.path().join("data"));
        for setting in bucket.told().iter().map(String::as_str).chain(changed.iter().copied()) {
            molboxd.args(["--set", setting]);
        }
        for address in ["listen", "margin_listen"] {
            molboxd.args(["--set", &format!("{address}=\"127.0.0.1:0\"")]);
        }
        molboxd.args(["--set", "worker.python=\"/nonexistent/python\""]);
        molboxd.args(["--set", "server.wait_seconds=0"]);
        let output = molboxd.arg(command).env_remove("AWS_ACCESS_KEY_ID").output().unwrap();
        assert!(!output.status.success(), "{changed:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (changed, parts) in [
        ("objects.url=\"s3://nowhere\"", &["no such bucket (objects.url)", "nowhere"][..]),
        ("objects.url=\"s3://No_such\"", &["no such bucket (objects.url)", "not valid"]),
        ("objects.url=\"https://db.example.org\"", &["objects.url must be s3://"]),
        ("objects.url=\"s3://results?region=eu\"", &["objects.url must be s3://"]),
        ("objects.endpoint=\"http://127.0.0.1:9\"", &["does not answer (objects.endpoint)"]),
        (&no_s3, &["it does not answer as S3 does (objects.endpoint)"]),
        ("objects.endpoint=\"http://s3.example.org\"", &["objects.endpoint", "https"]),
        ("objects.endpoint=\"s3.example.org\"", &["objects.endpoint", "must begin with https://"]),
        (&with_bucket, &["objects.endpoint", "must be the store's alone", "objects.url"]),
        ("objects.region=\"eu-central-1\"", &["another region (objects.region)"]),
        (&wrong_secret, &["does not accept the key (objects.credentials_file)"]),
        (&wrong_key, &["does not accept the key (objects.credentials_file)"]),
        (&guest, &["the key may not do this in the bucket (objects.credentials_file)"]),
        (&one_line, &["objects.credentials_file", "two lines"]),
        ("objects.credentials_file=\"/nonexistent\"", &["objects.credentials_file"]),
    ] {
        for command in ["serve", "doctor"] {
            let said = said(command, &[changed]);
            for part in parts {
                assert!(said.contains(part), "{command} {changed}: {part} is not in: {said}");
            }
            assert!(!said.contains("molbox-secret") && !said.contains("some-other"), "{said}");
        }
    }
    let prefix = format!("objects.url=\"s3://{}/Mein Präfix+1%20\"", bucket.name);
    for changed in [&[][..], &[prefix.as_str()]] {
        let doctor = said("doctor", changed);
        assert!(doctor.contains("ok      objects: the bucket s3://"), "{doctor}");
    }
    assert_eq!(
        fs::read_dir(&bucket.folder)
            .unwrap()
            .flatten()
            .filter(|it| it.file_name() == "doctor")
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_have_in_a_bucket_is_left_alone() {
    let Some(server) = s3::shared() else { return };
    let bucket = server.bucket();
    let service = Service::start_in_bucket(&bucket, &SETTINGS);
    let below = Bucket {
        name: format!("{}/prod", bucket.name),
        folder: bucket.folder.join("prod"),
        ..bucket.clone()
    };
    let other = Service::start_in_bucket(&below, &SETTINGS);
    for service in [&service, &other] {
        let molbox = service.client("ada");
        molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    }
    for service in [&service, &other] {
        assert_eq!(service.command(&["check"]), "1 file, 0 tasks: 0 damaged, 0 orphans");
    }

    let bucket = server.bucket();
    let strange = bucket.folder.join("uploads/photo.jpg");
    fs::create_dir(bucket.folder.join("uploads")).unwrap();
    fs::write(&strange, "of another program").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut service = Service::start_in_disk(&data);
    service.stop();
    let to = folder.path().join("to.toml");
    let told = bucket.told().join("\n");
    fs::write(&to, format!("data = {data:?}\n{told}\n{}\n", SETTINGS[0])).unwrap();
    let run = |molboxd: &mut Command| -> String {
        let output = molboxd.args(["--set", "server.wait_seconds=0"]).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let molboxd = |data: &Path| -> Command {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(data);
        molboxd
    };
    let new = folder.path().join("new");
    for said in [
        run(molboxd(&data).arg("move").arg("--to").arg(&to)),
        run(molboxd(&new).arg("--config").arg(&to).arg("serve")),
        run(molboxd(&new).arg("--config").arg(&to).arg("doctor")),
    ] {
        assert!(said.contains("there is uploads/photo.jpg already"), "{said}");
        assert!(said.contains("objects.url"), "{said}");
    }
    // The other way around: an installation would be among what one above it keeps.
    for prefix in ["files", "tasks/prod", "uploads", "installation"] {
        let url = format!("objects.url=\"s3://{}/{prefix}\"", bucket.name);
        let said = run(molboxd(&new).arg("--config").arg(&to).args(["--set", &url, "serve"]));
        assert!(said.contains("a prefix may not have") && said.contains("objects.url"), "{said}");
    }
    let found = fs::read_dir(&bucket.folder).unwrap().flatten().map(|found| found.file_name());
    assert!(found.eq(["uploads"]) && strange.exists(), "nothing was made or removed");
}

#[test]
fn a_server_that_is_started_before_its_store_waits_for_it() {
    let Some(mut server) = S3::start() else { return };
    let broken = ["worker.python=\"/nonexistent/python\""];
    let mut service = Service::start_in_bucket(&server.bucket(), &broken);
    service.stop();
    server.crash();
    service.restart_before("objects.endpoint", || server.restart());
}

/// A store that refuses each request as S3 does one whose date is far from its own; its address.
fn store_of_another_time() -> String {
    let body = "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the \
        request time and the current time is too large.</Message></Error>";
    answering("403 Forbidden", body)
}

/// The address of what gives each request the same answer.
fn answering(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while head.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/xml\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    format!("http://{address}")
}

#[test]
fn a_store_whose_certificate_is_not_believed_is_named_and_not_waited_for() {
    let Some((server, certificate)) = S3::start_with_tls() else { return };
    let bucket = server.bucket();
    let folder = tempfile::tempdir().unwrap();
    let said = |endpoint: &str, believed: Option<&Path>| -> String {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(folder.path().join("data"));
        for setting in bucket.told() {
            molboxd.args(["--set", &setting]);
        }
        molboxd.args(["--set", &format!("objects.endpoint={endpoint:?}")]);
        molboxd.args(["--set", "worker.python=\"/nonexistent/python\""]);
        if let Some(file) = believed {
            molboxd.env("SSL_CERT_FILE", file);
            let output = molboxd.arg("doctor").output().unwrap();
            return String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        }
        let output = molboxd.env_remove("SSL_CERT_FILE").arg("serve").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && !said.contains("waiting"), "{said}");
        said
    };
    let said_of = said(&bucket.endpoint, None);
    for part in ["it is not believed (objects.endpoint)", "SSL_CERT_FILE"] {
        assert!(said_of.contains(part), "{part} is not in: {said_of}");
    }
    let other_name = bucket.endpoint.replace("localhost", "127.0.0.1");
    let said_of = said(&other_name, Some(&certificate));
    assert!(said_of.contains("name it there as its certificate does"), "{said_of}");
    let said_of = said(&bucket.endpoint, Some(&certificate));
    assert!(said_of.contains("ok      objects: the bucket"), "{said_of}");
    // Something else than TLS answers there.
    let plain = answering("200 OK", "").replace("http://127.0.0.1", "https://localhost");
    let said_of = said(&plain, None);
    assert!(said_of.contains("name an address there that speaks TLS"), "{said_of}");
}

#[test]
fn a_store_whose_clock_is_apart_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "molbox\nmolbox-secret").unwrap();
    for command in ["serve", "doctor"] {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(folder.path().join("data"));
        for setting in [
            "objects.url=\"s3://results\"",
            &format!("objects.endpoint={:?}", store_of_another_time()),
            &format!("objects.credentials_file={key:?}"),
            "listen=\"127.0.0.1:0\"",
            "margin_listen=\"127.0.0.1:0\"",
            "worker.python=\"/nonexistent/python\"",
        ] {
            molboxd.args(["--set", setting]);
        }
        let output = molboxd.arg(command).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success(), "{command}");
        assert!(said.contains("the bucket s3://results"), "{command}: {said}");
        assert!(
            said.contains("its clock and that of this machine differ, set both by NTP"),
            "{said}"
        );
    }
}

#[test]
fn contents_are_where_the_data_folder_knows_them() {
    let Some(server) = s3::shared() else { return };
    let bucket = server.bucket();
    let mut service = Service::start_in_bucket(&bucket, &SETTINGS);
    service.stop();
    let run = |command: &str, data: &Path, bucket: Option<&Bucket>| -> String {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        molboxd.arg("--data").arg(data);
        for setting in bucket.iter().flat_map(|bucket| bucket.told()) {
            molboxd.args(["--set", &setting]);
        }
        if service.has_postgres() {
            molboxd.args(["--set", &format!("database.url={:?}", service.database())]);
        }
        molboxd.args(["--set", SETTINGS[0]]);
        let output = molboxd.arg(command).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let other = Service::start_in_bucket(&server.bucket(), &SETTINGS);
    for (bucket, refusal) in [
        (None, "are in a bucket: name it in objects.url"),
        (Some(&server.bucket()), "has not the contents of"),
        (other.place().bucket.as_ref(), "has the contents of another installation"),
    ] {
        for command in ["serve", "doctor"] {
            let said = run(command, &service.data, bucket);
            assert!(said.contains(refusal), "{command}: {said}");
        }
    }
    if !service.has_postgres() {
        // Records that are new know of nothing that is there.
        let folder = tempfile::tempdir().unwrap();
        let said = run("serve", &folder.path().join("data"), Some(&bucket));
        assert!(said.contains("molbox.sqlite knows nothing"), "{said}");
    }
}

/// What a command says that is to fail in a data folder, on a database and a bucket.
fn refusal(command: &str, data: &Path, database: &str, bucket: &Bucket) -> String {
    let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    molboxd.arg("--data").arg(data).args(["--set", &format!("database.url={database:?}")]);
    for setting in bucket.told().iter().map(String::as_str).chain(SETTINGS) {
        molboxd.args(["--set", setting]);
    }
    for address in ["listen", "margin_listen"] {
        molboxd.args(["--set", &format!("{address}=\"127.0.0.1:0\"")]);
    }
    let output = molboxd.arg(command).output().unwrap();
    assert!(!output.status.success(), "{command}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_server_that_are_new_are_not_tied_to_what_others_know() {
    let (Some(s3), Some(postgres)) = (s3::shared(), postgres::shared()) else { return };
    let bucket = s3.bucket();
    let mut service = Service::start_shared(&postgres.database(), &bucket, &SETTINGS);
    service.client("ada").upload(example("1vii.pdb")).name("villin").await.unwrap();
    service.stop();
    let empty = postgres.database();
    let folder = tempfile::tempdir().unwrap();
    // Of a new server, and of the one whose contents they are.
    for data in [&folder.path().join("data"), &service.data] {
        for command in ["doctor", "serve", "serve"] {
            let said = refusal(command, data, &empty, &bucket);
            assert!(said.contains("knows nothing") && said.contains("database.url"), "{said}");
        }
    }
    assert_eq!(postgres.sql(&empty, "select count(*) from setting"), "0");
    service.restart();
}

#[test]
fn a_server_that_is_started_with_another_bucket_ties_nothing() {
    let (Some(s3), Some(postgres)) = (s3::shared(), postgres::shared()) else { return };
    let (database, bucket, other) = (postgres.database(), s3.bucket(), s3.bucket());
    let _service = Service::start_shared(&database, &bucket, &SETTINGS);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for command in ["doctor", "serve"] {
        let said = refusal(command, &data, &database, &other);
        assert!(said.contains("is that of another data folder"), "{command}: {said}");
    }
    assert!(!other.folder.join("installation").exists());
    assert!(!data.join("bucket").exists());
    let corrected = Place::on(&data, &database, &bucket);
    Service::start_at(&data, corrected, &SETTINGS);
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_move_to_a_bucket_and_back_and_nothing_is_lost() {
    let Some(server) = s3::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let bucket = server.bucket();
    let configuration = |name: &str, bucket: Option<&Bucket>| -> PathBuf {
        let path = folder.path().join(name);
        let mut text = format!("data = {data:?}\n");
        for setting in bucket.iter().flat_map(|bucket| bucket.told()) {
            text += &format!("{setting}\n");
        }
        fs::write(&path, text).unwrap();
        path
    };
    let on_disk = configuration("disk", None);
    let on_s3 = configuration("s3", Some(&bucket));
    let run = |from: &PathBuf, to: &PathBuf| -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output =
            command.arg("--config").arg(from).args(["move", "--to"]).arg(to).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let seen = async |molbox: &Client| -> Value {
        let files = molbox.file_list().send().await.unwrap().into_inner();
        let systems = molbox.system_list().send().await.unwrap().into_inner();
        let usage = molbox.usage_view().send().await.unwrap().into_inner();
        // What runs goes on to take hours.
        let usage = json!([usage.bytes, usage.files, usage.open_tasks]);
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("system.zip");
        let bundle = molbox.download_system(&systems.items[0].system_id, to).await.unwrap();
        let bundle = fs::read(bundle).unwrap().len();
        json!({ "files": files.items, "systems": systems.items, "usage": usage, "bundle": bundle })
    };

    let mut service = Service::start_in_disk(&data);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &job).await;
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let before = seen(&molbox).await;
    assert!(run(&on_disk, &on_s3).1.contains("another molboxd serves"), "it still runs");
    service.stop();
    assert!(run(&on_disk, &on_disk).1.contains("the same objects.url"));
    // As one leaves it that was cut off, and after which something was removed here.
    let name: String =
        fs::read(data.join("installation")).unwrap().iter().map(|it| format!("{it:02x}")).collect();
    fs::write(bucket.folder.join("installation"), name).unwrap();
    fs::create_dir_all(bucket.folder.join("files")).unwrap();
    fs::write(bucket.folder.join("files/removed"), "1").unwrap();
    let (done, said) = run(&on_disk, &on_s3);
    assert!(done && said.starts_with("objects\t"), "{said}");
    assert!(!bucket.folder.join("files/removed").exists());
    let (done, said) = run(&on_disk, &on_s3);
    assert!(
        !done && said.contains("are in a bucket"),
        "the old ones are not used any more: {said}"
    );
    // Without the end of its tasks.
    std::mem::forget(service);
    let mut service = Service::start_at_bucket(&data, &bucket);
    let molbox = service.client_with(&key);
    assert_eq!(seen(&molbox).await, before);
    // What ran goes on: the same attempt.
    let record = molbox.job_cancel().job_id(job.as_str()).send().await.unwrap().into_inner();
    assert_eq!((record.status.as_str(), record.attempts), ("running", 1));
    wait_until(&molbox, &job, |job| job.status.as_str() == "cancelled").await;
    assert_eq!(service.command(&["check"]), "1 file, 2 tasks: 0 damaged, 0 orphans");
    // A copy of it all, put into a bucket that is empty.
    let copy = folder.path().join("copy");
    let said = service.command(&["backup", copy.to_str().unwrap()]);
    assert!(said.contains("is a backup"), "{said}");
    let again = service.command(&["backup", copy.to_str().unwrap()]);
    assert!(again.starts_with("0 objects copied"), "{again}");
    let new = server.bucket();
    let mut restore = Command::new(env!("CARGO_BIN_EXE_molboxd"));
    restore.arg("--data").arg(folder.path().join("restored"));
    for setting in new.told() {
        restore.args(["--set", &setting]);
    }
    let output = restore.arg("restore").arg(&copy).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.contains("1 file, 2 tasks: 0 damaged, 0 orphans"), "{said}");

    molbox.file_delete().file_id(files_of(&molbox).await[0].as_str()).send().await.unwrap();
    let before = seen(&molbox).await;
    service.stop();
    drop(service);
    // As a move leaves it that was killed.
    let unfinished = data.join("partial/1.1");
    fs::write(&unfinished, "1").unwrap();
    let other = server.bucket();
    let on_other = configuration("other", Some(&other));
    let (done, said) = run(&on_s3, &on_other);
    assert!(done && !unfinished.exists(), "{said}");
    let serve = |on: &PathBuf| -> String {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output = serve.arg("--config").arg(on).arg("serve").output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // A server that has heard nothing of it.
    let said = serve(&on_s3);
    assert!(said.contains("has brought its contents elsewhere"), "{said}");
    assert!(said.contains("(objects.url)"), "{said}");
    // As one leaves it that was cut off.
    let mark = other.folder.join("installation");
    let name = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, format!("arriving {name}")).unwrap();
    fs::write(bucket.folder.join("installation"), &name).unwrap();
    let said = serve(&on_other);
    assert!(
        said.contains("was cut off: give it again") && said.contains("(objects.url)"),
        "{said}"
    );
    let (done, said) = run(&on_s3, &on_other);
    assert!(done, "{said}");
    let by_another_name =
        Bucket { endpoint: other.endpoint.replace("127.0.0.1", "localhost"), ..other.clone() };
    let on_another_name = configuration("another-name", Some(&by_another_name));
    let (done, said) = run(&on_other, &on_another_name);
    assert!(!done && said.contains("the same bucket by another name"), "{said}");
    assert_eq!(fs::read_to_string(&mark).unwrap(), name);
    let (done, said) = run(&on_other, &on_disk);
    assert!(done, "{said}");
    let service = Service::start_in_disk(&data);
    let molbox = service.client_with(&key);
    assert_eq!(seen(&molbox).await, before);
    assert_eq!(service.command(&["check"]), "0 files, 2 tasks: 0 damaged, 0 orphans");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_move_has_copied_is_kept_when_the_original_is_lost() {
    let Some(server) = s3::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (data, bucket) = (folder.path().join("data"), server.bucket());
    let mut service = Service::start_in_disk(&data);
    service.client("ada").upload(example("1vii.pdb")).name("villin").await.unwrap();
    service.stop();
    let to = folder.path().join("to.toml");
    fs::write(&to, format!("data = {data:?}\n{}\n", bucket.told().join("\n"))).unwrap();
    let molboxd = |arguments: &[&str]| -> String {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output = molboxd.arg("--data").arg(&data).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let to = to.to_str().unwrap();
    molboxd(&["move", "--to", to]);
    // As one leaves it that was cut off before its last step.
    fs::remove_file(data.join("bucket")).unwrap();
    let original = fs::read_dir(data.join("objects/files")).unwrap().next().unwrap().unwrap();
    fs::remove_file(original.path()).unwrap();
    fs::write(bucket.folder.join("files/nobody-s"), "1").unwrap();
    molboxd(&["move", "--to", to]);
    assert_eq!(molboxd(&["--config", to, "check"]).trim(), "1 file, 0 tasks: 0 damaged, 0 orphans");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_since_a_move_is_not_put_over_what_that_has_brought() {
    let (Some(server), Some(postgres)) = (s3::shared(), postgres::shared()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (data, bucket) = (folder.path().join("data"), server.bucket());
    let mut service = Service::start_in_disk(&data);
    let molbox = service.client("ada");
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = water(&molbox).await;
    service.stop();
    let to = folder.path().join("to.toml");
    let told = format!("data = {data:?}\n{}\n", bucket.told().join("\n"));
    fs::write(&to, &told).unwrap();
    let molboxd = |arguments: &[&str]| -> (bool, String) {
        let mut molboxd = Command::new(env!("CARGO_BIN_EXE_molboxd"));
        let output = molboxd.arg("--data").arg(&data).args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let to = to.to_str().unwrap();
    let (done, said) = molboxd(&["move", "--to", to]);
    assert!(done, "{said}");
    // As one leaves it that was cut off before its last step; then the disk fails.
    fs::remove_file(data.join("bucket")).unwrap();
    let upload = fs::read_dir(data.join("objects/files")).unwrap().next().unwrap().unwrap();
    fs::write(upload.path(), "damaged").unwrap();
    let layout = service.sql("select layout from bundle");
    let results = data.join("objects/tasks").join(system.system_id.as_str());
    let mut results: Vec<PathBuf> =
        fs::read_dir(results).unwrap().map(|it| it.unwrap().path()).collect();
    results.retain(|path| {
        layout.contains(path.strip_prefix(data.join("objects")).unwrap().to_str().unwrap())
    });
    results.sort();
    fs::remove_file(&results[0]).unwrap();
    fs::write(&results[1], "").unwrap();
    let mut spoilt = fs::read(&results[2]).unwrap();
    spoilt[0] ^= 1;
    fs::write(&results[2], spoilt).unwrap();
    // What is refused is so before anything is copied or removed.
    let other = postgres.database();
    let _other = Service::start_on(&other, &SETTINGS);
    let both = folder.path().join("both.toml");
    fs::write(&both, format!("{told}\n[database]\nurl = {other:?}\n")).unwrap();
    let (done, said) = molboxd(&["move", "--to", both.to_str().unwrap()]);
    assert!(!done && said.contains("is that of another data folder"), "{said}");
    let mark = || fs::read_to_string(bucket.folder.join("installation")).unwrap();
    assert!(!mark().contains("arriving"), "{}", mark());
    let (done, said) = molboxd(&["move", "--to", to]);
    assert!(done, "{said}");
    let (done, said) = molboxd(&["--config", to, "check"]);
    assert!(done && said.contains("1 file, 1 task: 0 damaged, 0 orphans"), "{said}");
}

pub(crate) async fn files_of(molbox: &Client) -> Vec<String> {
    let files = molbox.file_list().send().await.unwrap().into_inner();
    files.items.iter().map(|file| file.file_id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_in_a_bucket_and_what_nobody_knows_there_is_found() {
    let Some(server) = s3::shared() else { return };
    let service = Service::start_in_bucket(&server.bucket(), &SETTINGS);
    let molbox = service.client("ada");
    for name in ["lost", "spoilt", "kept"] {
        molbox.upload(example("1vii.pdb")).name(name).await.unwrap();
    }
    let object = |name: &str| {
        let key = service.sql(&format!("select object from file where name = '{name}'"));
        service.objects().join(key)
    };
    fs::remove_file(object("lost")).unwrap();
    let spoilt = fs::read_to_string(object("spoilt")).unwrap().replace("ATOM", "atom");
    fs::write(object("spoilt"), spoilt).unwrap();
    fs::copy(object("kept"), service.objects().join("files/nobody-s")).unwrap();
    let said = service.failing_command(&["check"]);
    for part in [
        "the content is missing",
        "the content has the SHA-256",
        "orphan files/nobody-s: no record refers to it",
        "3 files, 0 tasks: 2 damaged, 1 orphan",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}
