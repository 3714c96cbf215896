//! The audit log: what is done is in it, by whom and from where, and nothing that is secret.

use reqwest::header::RANGE;
use serde_json::Value;

use crate::common::{Service, example};
use crate::files::atom;

/// The entries that are asked for.
pub(crate) fn audit(service: &Service, filters: &[&str]) -> Vec<Value> {
    let lines = service.command(&[&["audit", "--json"], filters].concat());
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Action and subject of entries.
pub(crate) fn deeds(entries: &[Value]) -> Vec<(&str, &str)> {
    entries
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), entry["subject"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn what_is_made_changed_downloaded_and_deleted_is_noted_and_nothing_secret() {
    let service = Service::start_with(&["worker.python=\"/bin/false\""]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let key_id = molbox.account_view().send().await.unwrap().key_id.clone();
    let http = reqwest::Client::new();
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    http.put(&link.upload_url).body(atom(1.0)).send().await.unwrap();
    let file = link.file_id.as_str();
    molbox.file_register().body_map(|f| f.file_id(file).name("one")).send().await.unwrap();
    // An excerpt, then the whole in pieces, and looked at.
    let excerpt = http
        .get(format!("{}/retrieve/file/{file}/structure?mask=@CA", service.base_url))
        .header("x-api-key", &key);
    assert_eq!(excerpt.send().await.unwrap().status(), 200);
    for range in ["bytes=0-9", "bytes=10-19", "bytes=20-"] {
        let part = http
            .get(format!("{}/retrieve/file/{file}", service.base_url))
            .header("x-api-key", &key);
        assert_eq!(part.header(RANGE, range).send().await.unwrap().status(), 206);
    }
    molbox.file_list().send().await.unwrap();
    let system = molbox
        .system_submit()
        .body_map(|s| s.protein("one"))
        .idempotency_key("once")
        .send()
        .await
        .unwrap();
    let again = molbox
        .system_submit()
        .body_map(|s| s.protein("one"))
        .idempotency_key("once")
        .send()
        .await
        .unwrap();
    assert_eq!(system.system_id, again.system_id);
    let system = system.system_id.as_str();
    molbox.file_delete().file_id(file).send().await.unwrap_err();
    molbox.system_cancel().system_id(system).send().await.unwrap();
    molbox.wait_system(system).await.unwrap_err();
    molbox.system_cancel().system_id(system).send().await.unwrap();
    molbox.system_delete().system_id(system).send().await.unwrap();
    molbox.system_delete().system_id(system).send().await.unwrap_err();
    molbox.file_delete().file_id(file).send().await.unwrap();
    service.command(&["key", "revoke", &key_id]);
    service.command(&["account", "disable", "ada"]);

    let entries = audit(&service, &[]);
    let expected = [
        ("account_create", "ada"),
        ("key_create", key_id.as_str()),
        ("upload_url_create", file),
        ("upload", file),
        ("file_register", file),
        ("file_structure", file),
        ("file_download", file),
        ("system_submit", system),
        ("system_cancel", system),
        ("system_delete", system),
        ("file_delete", file),
        ("key_revoke", key_id.as_str()),
        ("account_disable", "ada"),
    ];
    assert_eq!(deeds(&entries), expected, "each once, and nothing that was refused or did nothing");
    for entry in &entries {
        assert_eq!(entry["account"], "ada", "{entry}");
        let by_command = entry["action"].as_str().unwrap().starts_with("account_")
            || entry["subject"] == key_id.as_str();
        assert_eq!(entry["operator"].is_string(), by_command, "{entry}");
        assert_eq!(entry["address"].as_str(), (!by_command).then_some("127.0.0.1"), "{entry}");
        assert_eq!(entry["key"].as_str(), (!by_command).then_some(key_id.as_str()), "{entry}");
        if let Some(request) = entry["request"].as_str() {
            service.wait_until_it_logs(request);
        }
    }
    let all = service.command(&["audit", "--json"]);
    for secret in [key.as_str(), "signature", "ATOM", "REMARK"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn entries_are_found_by_what_they_are_about() {
    let service = Service::start();
    let [ada, bob] = ["ada", "bob"].map(|account| service.client(account));
    let file = ada.upload(example("1vii.pdb")).name("one").await.unwrap();
    bob.upload_url_create().filetype("pdb").send().await.unwrap();
    ada.file_delete().file_id(&file.file_id).send().await.unwrap();
    let of = |filters: &[&str]| audit(&service, filters);
    let id = file.file_id.as_str();
    let of_file = of(&["--subject", id]);
    let actions: Vec<&str> = deeds(&of_file).into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["upload_url_create", "upload", "file_register", "file_delete"]);
    assert_eq!(of(&["--account", "bob", "--action", "upload_url_create"]).len(), 1);
    let of_ada = of(&["--account", "ada"]);
    assert!(
        of_ada.iter().all(|entry| entry["account"] == "ada") && of_ada.len() == 6,
        "{of_ada:?}"
    );
    assert_eq!(of(&["--key", of_file[0]["key"].as_str().unwrap()]).len(), 4);
    let last = of_file[3]["seq"].to_string();
    assert!(of(&["--after", &last]).is_empty());
    assert!(
        of(&["--until", "2020-01-01"]).is_empty()
            && !of(&["--since", "2020-01-01T00:00:00Z"]).is_empty()
    );
    assert!(
        service
            .failing_command(&["audit", "--since", "yesterday"])
            .contains("must be a date, 2026-01-31")
    );
    let line = service.command(&["audit", "--subject", id, "--action", "file_delete"]);
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!(
        fields[1..],
        ["ada", of_file[3]["key"].as_str().unwrap(), "127.0.0.1", "file_delete", id]
    );
}

#[tokio::test]
async fn a_change_that_cannot_be_noted_is_not_made() {
    let service = Service::start();
    let molbox = service.client("ada");
    let file = molbox.upload(example("1vii.pdb")).name("one").await.unwrap();
    let (stop, go_on) = if service.has_postgres() {
        (
            "create function stop() returns trigger language plpgsql as
                 $$ begin raise exception 'no entry'; end $$;
             create trigger stop before insert on audit for each row execute function stop()",
            "drop trigger stop on audit",
        )
    } else {
        (
            "create trigger stop before insert on audit begin select raise(abort, 'no entry'); end",
            "drop trigger stop",
        )
    };
    service.sql(stop);
    for error in [
        molbox.system_submit().send().await.err().unwrap(),
        molbox.file_delete().file_id(&file.file_id).send().await.err().unwrap(),
        molbox.upload_url_create().filetype("pdb").send().await.err().unwrap(),
    ] {
        assert_eq!(error.status().unwrap(), 500, "{error}");
    }
    assert!(service.failing_command(&["account", "create", "bob"]).contains("no entry"));
    service.sql(go_on);
    assert_eq!(molbox.file_list().send().await.unwrap().items.len(), 1);
    assert!(molbox.system_list().send().await.unwrap().items.is_empty());
    assert!(!service.command(&["account", "list"]).contains("bob"));
}

#[tokio::test]
async fn the_address_behind_a_proxy_is_believed_only_of_those_that_are_named() {
    for (proxies, address) in [("[]", "127.0.0.1"), (r#"["127.0.0.0/8"]"#, "198.51.100.7")] {
        let service = Service::start_with(&[&format!("proxies={proxies}")]);
        let key = service.key("ada");
        let url = format!("{}/submit/upload-url?filetype=pdb", service.base_url);
        let request = reqwest::Client::new().get(url).header("x-api-key", key);
        request.header("x-forwarded-for", "192.0.2.1, 198.51.100.7").send().await.unwrap();
        assert_eq!(audit(&service, &["--action", "upload_url_create"])[0]["address"], address);
    }
}
