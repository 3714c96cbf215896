//! What ends when it is taken away, and what nobody is shown: the data folder, links, streams, row
//! numbers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::common::{Service, example, wait_for};
use crate::files::{SlowUpload, atom};
use crate::work::{endless_job, until_it_produces, water};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below a folder that others than its owner have any right to.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if mode(&path) & 0o077 != 0 {
            open.push(path.display().to_string());
        }
        if path.is_dir() {
            open.extend(open_to_others(&path));
        }
    }
    open
}

#[tokio::test]
async fn a_data_folder_is_its_owner_s_alone_and_another_is_refused() {
    let mut service = Service::start();
    service.client("ada").upload(example("1vii.pdb")).await.unwrap();
    assert_eq!(mode(&service.data), 0o700);
    assert_eq!(open_to_others(&service.data.join("objects")), [""; 0]);
    for name in ["molbox.sqlite", "molbox.sqlite-wal", "secret", "addresses.json"] {
        assert_eq!(mode(&service.data.join(name)), 0o600, "{name}");
    }
    service.stop();
    for others in [0o740, 0o704, 0o750, 0o770, 0o722, 0o777] {
        set_mode(&service.data, others);
        for command in
            [&["serve"][..], &["account", "create", "bob"], &["key", "create", "ada"], &["doctor"]]
        {
            let refused = service.failing_command(command);
            let remedy =
                format!("mode {others:o}), which holds the data of all accounts: run `chmod 700 ");
            assert!(refused.contains(&remedy), "{command:?}: {refused}");
        }
    }
    // Users of tasks may pass through.
    set_mode(&service.data, 0o711);
    // As an earlier version made them.
    for (name, readable) in [("molbox.sqlite", 0o644), ("secret", 0o640), ("objects", 0o755)] {
        set_mode(&service.data.join(name), readable);
    }
    service.restart();
    for (name, private) in [("molbox.sqlite", 0o600), ("secret", 0o600), ("objects", 0o700)] {
        assert_eq!(mode(&service.data.join(name)), private, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_disabled_account_has_under_way_ends_and_others_go_on() {
    let service = Service::start_with(&["worker.slots=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let running = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &running).await;
    let queued = endless_job(&molbox, &system).await;
    let watched =
        molbox.job_watch().job_id(queued.as_str()).send().await.unwrap().into_inner_stream();
    let [unused, begun] =
        [molbox.upload_url_create().filetype("pdb"), molbox.upload_url_create().filetype("pdb")]
            .map(|link| link.send());
    let (unused, begun) = (unused.await.unwrap().into_inner(), begun.await.unwrap().into_inner());
    let content = atom(1.0);
    let upload = SlowUpload::begin(&service, &begun.upload_url, &content[..300_000]);
    // More than what connections hold on their way.
    let large = tempfile::NamedTempFile::with_suffix(".pdb").unwrap();
    fs::write(
        &large,
        [b"REMARK 999 a line of a large file\n".repeat(1 << 20), content.clone()].concat(),
    )
    .unwrap();
    let large = molbox.upload(large.path()).name("large").await.unwrap();
    let mut download =
        molbox.file_download().file_id(&large.file_id).send().await.unwrap().into_inner_stream();
    download.next().await.unwrap().unwrap();

    service.command(&["account", "disable", "ada"]);
    let sent =
        reqwest::Client::new().put(&unused.upload_url).body(content.clone()).send().await.unwrap();
    assert_eq!(sent.status(), 403, "a link is refused at once");
    assert_eq!(upload.finish(&content[300_000..]).await, 403, "and what is on its way at its end");
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, watched.collect::<Vec<_>>()).await.expect("a stream ends");
    let rest =
        tokio::time::timeout(limit, download.collect::<Vec<_>>()).await.expect("a download ends");
    assert!(rest.iter().any(Result::is_err), "it breaks off");

    let task = |id: &str| {
        service.sql(&format!(
            "select status, attempts, (select count(*) from bundle where task = task.id)
             from task where id = '{id}'"
        ))
    };
    wait_for("the running job is cancelled", || {
        task(&running).starts_with("cancelled").then_some(())
    });
    assert_eq!(task(&running), "cancelled|1|1", "and keeps what it wrote");
    assert_eq!(task(&queued), "cancelled|0|0", "what was queued has never started");
    water(&service.client("bob")).await;
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let service = Service::start_with(&["worker.slots=1"]);
    let (molbox, key) = (service.client("ada"), service.key("ada"));
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    let revoked = service.client_with(&key);
    let watched =
        revoked.job_watch().job_id(job.as_str()).send().await.unwrap().into_inner_stream();
    service.command(&["key", "revoke", &revoked.account_view().send().await.unwrap().key_id]);
    tokio::time::timeout(Duration::from_secs(60), watched.collect::<Vec<_>>())
        .await
        .expect("a stream ends");
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_breaks_off_when_its_key_is_revoked() {
    let service = Service::start();
    let molbox = service.client("ada");
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let upload = SlowUpload::begin(&service, &link.upload_url, &atom(1.0)[..300_000]);
    let key = molbox.account_view().send().await.unwrap().key_id.clone();
    service.command(&["key", "revoke", &key]);
    assert_eq!(upload.breaks_off(&service, &vec![b' '; 17 << 20]).await, 403);
}

/// Asks with a key; the status and the body.
#[tokio::test]
async fn a_link_ends_with_the_key_that_asked_for_it_and_with_no_other() {
    let service = Service::start();
    let [revoked, other] = [service.client("ada"), service.client("ada")];
    let http = reqwest::Client::new();
    let mut links = Vec::new();
    for molbox in [&revoked, &other] {
        links.push(
            molbox.upload_url_create().filetype("pdb").send().await.unwrap().upload_url.clone(),
        );
    }
    let send =
        async |link: &str| http.put(link).body(atom(1.0)).send().await.unwrap().status().as_u16();
    // The link of one key with the name of the other has been altered.
    let first = revoked.account_view().send().await.unwrap().key_id.clone();
    let second = other.account_view().send().await.unwrap().key_id.clone();
    assert_eq!(send(&links[0].replace(&first, &second)).await, 403);
    assert_eq!(send(&links[0]).await, 200);
    service.command(&["key", "revoke", &first]);
    assert_eq!([send(&links[0]).await, send(&links[1]).await], [403, 200]);
}

async fn ask(method: Method, url: &str, key: &str) -> (StatusCode, String) {
    let answer =
        reqwest::Client::new().request(method, url).header("x-api-key", key).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_page_token_shows_nothing_and_is_good_for_its_listing_alone() {
    let service = Service::start();
    let [ada, bob] = ["ada", "bob"].map(|account| service.key(account));
    let molbox = service.client_with(&ada);
    for _ in 0..3 {
        molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    }
    let url =
        |listing: &str, rest: &str| format!("{}/info/{listing}?limit=1{rest}", service.base_url);
    let next = async || -> String {
        let page: Value =
            serde_json::from_str(&ask(Method::GET, &url("files", ""), &ada).await.1).unwrap();
        page["next_page"].as_str().unwrap().to_owned()
    };
    let (token, another) = (next().await, next().await);
    assert_ne!(token, another, "two tokens of one page have nothing in common");
    let with = |token: &str| format!("&page_token={token}");
    assert_eq!(ask(Method::GET, &url("files", &with(&token)), &ada).await.0, 200);
    let altered = format!("{}{}", if token.starts_with('0') { "1" } else { "0" }, &token[1..]);
    let of_earlier_versions = "5b322c6e756c6c2c6e756c6c5d";
    for (what, listing, token, key) in [
        ("altered", "files", altered.as_str(), &ada),
        ("shortened", "files", &token[..token.len() - 2], &ada),
        ("another account's", "files", &token, &bob),
        ("another listing's", "jobs", &token, &ada),
        ("made up", "files", of_earlier_versions, &ada),
        ("empty", "files", "", &ada),
    ] {
        let (status, body) = ask(Method::GET, &url(listing, &with(token)), key).await;
        assert_eq!(status, 422, "{what}: {body}");
        assert!(body.contains(r#""type":"page_token""#), "{what}: {body}");
    }
}

#[tokio::test]
async fn head_makes_no_link_and_no_file() {
    let service = Service::start();
    let key = service.key("ada");
    let url = format!("{}/submit/upload-url?filetype=pdb", service.base_url);
    let answer = reqwest::Client::new().head(&url).header("x-api-key", &key).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.headers()["allow"].to_str().unwrap()),
        (405, "GET")
    );
    let molbox = service.client_with(&key);
    assert!(molbox.file_list().send().await.unwrap().items.is_empty());
    let listed = reqwest::Client::new()
        .head(format!("{}/info/files", service.base_url))
        .header("x-api-key", &key);
    assert_eq!(
        listed.send().await.unwrap().status(),
        200,
        "where nothing is made it is what it was"
    );
}
