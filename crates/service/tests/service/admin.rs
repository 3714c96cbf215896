//! What administrators do, what they see, and what nobody else does.

use std::fs;
use std::path::Path;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::{Service, example};
use crate::sessions::{Browser, PASSWORD, body, problem};
use crate::work::{endless_job, until_it_produces, water};

/// Tasks stay queued.
const NO_WORKER: &str = "worker.python=\"/nonexistent/python\"";

/// An administrator who has signed in.
async fn admin(service: &Service, name: &str) -> Browser {
    let link = service.command(&["account", "create", name, "--admin"]);
    let mut browser = Browser::new(service);
    let answer = browser.accept(link.split_once('#').unwrap().1, PASSWORD).await;
    assert_eq!(body(answer).await["role"], "admin");
    browser
}

impl Browser {
    async fn get(&self, path: &str) -> Value {
        let answer = self.request(Method::GET, path).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        body(answer).await
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        self.request(Method::POST, path).json(body).send().await.unwrap()
    }

    /// Changes an account, which is to succeed.
    async fn change(&self, account: &str, change: &Value) -> Value {
        let answer = self.post(&format!("/admin/account/{account}"), change).await;
        assert_eq!(answer.status(), 200, "{change}");
        body(answer).await
    }
}

#[tokio::test]
async fn administrators_alone_do_what_is_theirs() {
    let service = Service::start();
    let root = admin(&service, "root").await;
    let ada = Browser::of(&service, "ada").await;
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let mut n_operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if !path.starts_with("/admin/") || operation.get("operationId").is_none() {
                continue;
            }
            assert_eq!(operation["tags"], json!(["admin"]), "{method} {path}");
            let path = path.replace("{account}", "ada");
            let path = path.replace("{task_id}", "job_00000000000000000000");
            // Not even what is wrong with it.
            let request = ada.request(method.to_uppercase().parse().unwrap(), &path).body("{");
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status(), 403, "{method} {path}");
            let refused = body(refused).await;
            assert_eq!(refused["detail"][0]["type"], "forbidden");
            assert_eq!(refused["detail"][0]["loc"], json!(["cookie", "molbox_session"]));
            n_operations += 1;
        }
    }
    assert_eq!(n_operations, 7);
    let forged = root.plain(Method::POST, "/admin/account").json(&json!({ "account": "eve" }));
    let forged = forged.header("sec-fetch-site", "cross-site").send().await.unwrap();
    assert_eq!(problem(forged).await, (403, "cross_origin".to_owned()));
    // A role is that of the account, from one request to the next.
    root.change("ada", &json!({ "role": "admin" })).await;
    assert_eq!(ada.get("/admin/accounts").await["items"][0]["account"], "ada");
    root.change("ada", &json!({ "role": "user" })).await;
    assert_eq!(ada.status(Method::GET, "/admin/accounts").await, 403);
    // What is not the administrator's own is not there, as for everybody.
    let file = service.client("ada").upload(example("1vii.pdb")).await.unwrap();
    let path = format!("/info/file/{}", file.file_id.as_str());
    assert_eq!(root.status(Method::GET, &path).await, 404);
    assert_eq!(ada.status(Method::GET, &path).await, 200);
}

#[tokio::test]
async fn accounts_are_made_invited_and_listed_a_page_at_a_time() {
    let service = Service::start();
    let root = admin(&service, "root").await;
    let made = root.post("/admin/account", &json!({ "account": "grace hopper ✓" })).await;
    let made = body(made).await;
    assert_eq!((&made["role"], &made["has_password"]), (&json!("user"), &json!(false)));
    let taken = root.post("/admin/account", &json!({ "account": "grace hopper ✓" })).await;
    let taken = body(taken).await;
    assert_eq!(taken["detail"][0]["type"], "conflict");
    assert_eq!(taken["detail"][0]["loc"], json!(["body", "account"]));
    let long = "a".repeat(201);
    for name in [
        "",
        " ",
        " a",
        "a ",
        ".",
        "..",
        ".a",
        "a/b",
        "a?",
        "a#",
        "5%",
        "a\u{7}",
        "a\nb",
        long.as_str(),
    ] {
        let refused = root.post("/admin/account", &json!({ "account": name })).await;
        assert_eq!(refused.status(), 422, "{name:?}");
        if !name.is_empty() {
            let said = service.failing_command(&["account", "create", name]);
            assert!(said.contains("is no name of an account"), "{said}");
        }
    }

    let path = "/admin/account/grace%20hopper%20%E2%9C%93";
    let invitation = root.post(&format!("{path}/invitation"), &json!({})).await;
    let invitation = body(invitation).await;
    let token = invitation["token"].as_str().unwrap();
    let link = format!("{}/portal/invitation#{token}", service.base_url);
    assert_eq!(invitation["link"], link);
    let listed = root.get("/admin/accounts").await;
    assert!(!listed.to_string().contains(token), "it is shown once");
    assert_eq!(listed["items"][0]["invited_until"], invitation["expires_at"]);
    let mut grace = Browser::new(&service);
    assert_eq!(grace.accept(token, PASSWORD).await.status(), 200);
    let unknown = root.post("/admin/account/nobody/invitation", &json!({})).await;
    assert_eq!(problem(unknown).await, (404, "not_found".to_owned()));
    let unknown = root.post("/admin/account/nobody", &json!({ "disabled": true })).await;
    assert_eq!(problem(unknown).await, (404, "not_found".to_owned()));

    let first = root.get("/admin/accounts?limit=1").await;
    assert_eq!(first["items"][0]["account"], "grace hopper ✓");
    assert_eq!(first["items"][0]["has_password"], true);
    assert_eq!(first["items"][0].get("invited_until"), None, "it was accepted");
    let next = first["next_page"].as_str().unwrap();
    let second = root.get(&format!("/admin/accounts?limit=1&page_token={next}")).await;
    assert_eq!(second["items"][0]["account"], "root");
    assert_eq!(second.get("next_page"), None);
    let list = service.command(&["account", "list"]);
    let roles: Vec<_> =
        list.lines().map(|line| line.split('\t').take(2).collect::<Vec<_>>()).collect();
    assert_eq!(roles, [["grace hopper ✓", "user"], ["root", "admin"]]);
    let audit = service.command(&["audit", "--account", "root", "--json"]);
    for action in ["account_create", "invitation_create"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
    assert!(!audit.contains(token) && !service.log().contains(token));
}

#[tokio::test]
async fn a_command_line_that_is_shown_can_be_pasted_whatever_the_account_is_called() {
    let service = Service::start();
    for (name, word) in [("Ada L", "'Ada L'"), ("-ada", "-- -ada")] {
        let said = service.command(&["account", "create", "--", name]);
        for command in ["molboxd key create", "molboxd account invite"] {
            let shown = format!("{command} {word}");
            assert!(said.contains(&format!("`{shown}`")), "{said}");
            let words = shlex::split(&shown).unwrap();
            let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            service.command(&words);
        }
    }
    let said = service.failing_command(&["key", "create", "it's me"]);
    assert!(said.contains("`molboxd account create \"it's me\"`"), "{said}");
    let said = service.failing_command(&["key", "list", "nobody"]);
    assert!(said.contains("there is no account named nobody"), "{said}");
}

/// What a command shows on a terminal of so many columns.
fn on_terminal(service: &Service, width: usize, arguments: &[&str]) -> String {
    let mut molboxd = service.place().molboxd();
    molboxd.args(arguments);
    let words = std::iter::once(molboxd.get_program()).chain(molboxd.get_args());
    let line = shlex::try_join(words.map(|word| word.to_str().unwrap())).unwrap();
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &format!("stty rows 40 cols {width} && {line}"), "/dev/null"]);
    for (name, value) in molboxd.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    String::from_utf8(script.output().unwrap().stdout).unwrap().replace('\r', "")
}

#[tokio::test]
async fn lists_have_heads_on_a_terminal_and_fit_it() {
    let service = Service::start_with(&[NO_WORKER]);
    let nothing = on_terminal(&service, 80, &["account", "list"]);
    assert!(nothing.starts_with("there is no account yet; make one with `molboxd "), "{nothing}");
    let nothing = on_terminal(&service, 80, &["task", "list"]);
    assert!(nothing.starts_with("nothing runs or is queued; "), "{nothing}");
    service.command(&["account", "create", "ada"]);
    let nothing = on_terminal(&service, 80, &["key", "list", "ada"]);
    assert_eq!(nothing.trim(), "ada has no key; make one with `molboxd key create ada`");
    let nothing = on_terminal(&service, 80, &["audit", "--account", "bob"]);
    assert!(nothing.contains("leave out a filter"), "{nothing}");

    let ada = service.client("ada");
    ada.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await.unwrap();
    service.command(&["account", "limit", "ada", "--open-tasks", "20"]);
    let lists: [(&[&str], &str); 4] = [
        (&["account", "list"], "ACCOUNT  ROLE  STATE   MADE                  LIMITS"),
        (&["key", "list", "ada"], "KEY       NAME     STATE   LAST USED"),
        (&["task", "list"], "TASK                      ACCOUNT  KIND    STATE     SUBMITTED"),
        (&["audit"], "AT                    ACCOUNT  BY"),
    ];
    for (list, heads) in lists {
        let wide = on_terminal(&service, 200, list);
        assert!(wide.starts_with(heads), "{wide}");
        let row = wide.lines().nth(1).unwrap();
        let is_moment = |cell: &&str| cell.ends_with('Z') && cell.contains(':');
        let moment = row.split("  ").map(str::trim).find(is_moment).unwrap();
        assert_eq!(moment.len(), "2026-11-26 07:50:12Z".len(), "to the second: {row}");
        let narrow = on_terminal(&service, 75, list);
        let longest = narrow.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 75, "{narrow}");
        let json = on_terminal(&service, 75, &[list, &["--json"]].concat());
        let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert!(json.lines().all(is_json), "{json}");
    }
}

#[tokio::test]
async fn a_name_of_before_names_were_checked_breaks_no_list() {
    let service = Service::start_with(&[NO_WORKER]);
    let ada = service.client("ada");
    ada.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await.unwrap();
    let name = "\u{202e}ada\tadmin\nroot";
    service.sql(&format!("update account set name = '{name}'"));
    service.sql(&format!("update api_key set name = '{name}'"));
    for list in [&["account", "list"][..], &["key", "list", name], &["task", "list"]] {
        let plain = service.command(list);
        assert!(plain.contains("\t?ada?admin?root\t") || plain.starts_with("?ada?"), "{plain:?}");
        assert_eq!(plain.lines().count(), 1, "{plain:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_printed_is_an_error_that_is_said_once() {
    let service = Service::start_with(&[NO_WORKER]);
    for name in ["ada", "bob", "cyd"] {
        service.command(&["account", "create", name]);
    }
    for command in [&["account", "list"][..], &["key", "create", "ada"]] {
        let mut molboxd = service.place().molboxd();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = molboxd.args(command).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{command:?}: {said}");
        assert_eq!(said.matches("write to standard output").count(), 1, "{said}");
    }
}

#[tokio::test]
async fn one_administrator_stays_whoever_disables_and_demotes_at_once() {
    let service = Service::start();
    let names = ["ada", "bob", "cyd", "dan"];
    let mut browsers = Vec::new();
    for name in names {
        browsers.push(admin(&service, name).await);
    }
    // Each its own account, which has signed in until it is done.
    let changes = names.iter().zip(&browsers).enumerate().map(|(n, (name, browser))| async move {
        let change =
            if n % 2 == 0 { json!({ "disabled": true }) } else { json!({ "role": "user" }) };
        let field = if n % 2 == 0 { "disabled" } else { "role" };
        let answer = browser.post(&format!("/admin/account/{name}"), &change).await;
        (*name, field, answer.status().as_u16(), body(answer).await)
    });
    let done = futures::future::join_all(changes).await;
    let refused: Vec<_> = done.iter().filter(|(_, _, status, _)| *status == 409).collect();
    assert_eq!(done.iter().filter(|(_, _, status, _)| *status == 200).count(), 3, "{done:?}");
    let [(last, field, _, refusal)] = refused[..] else { panic!("{done:?}") };
    assert_eq!(refusal["detail"][0]["loc"], json!(["body", field]), "{refusal}");
    assert!(refusal["detail"][0]["msg"].as_str().unwrap().contains("another one first"));
    // Nor is there another way.
    for command in
        [&["account", "disable", last][..], &["account", "change", last, "--role", "user"]]
    {
        let said = service.failing_command(command);
        assert!(said.contains("no administrator would be left"), "{said}");
    }
    let list = service.command(&["account", "list"]);
    let is_good = |line: &&str| line.contains("\tadmin\t") && line.ends_with("\tactive");
    assert_eq!(list.lines().filter(is_good).count(), 1, "{list}");
}

#[tokio::test]
async fn a_disabled_account_has_nothing_and_comes_back_signed_out() {
    let service = Service::start_with(&["sessions.tries_per_minute=0", NO_WORKER]);
    let root = admin(&service, "root").await;
    let mut ada = Browser::of(&service, "ada").await;
    let molbox = service.client("ada");
    let system = molbox.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await.unwrap();
    let open = body(root.post("/admin/account/ada/invitation", &json!({})).await).await;
    let disabled = root.change("ada", &json!({ "disabled": true })).await;
    assert!(disabled["disabled_at"].is_string() && disabled.get("invited_until").is_none());
    assert_eq!(ada.status(Method::GET, "/session").await, 401);
    assert!(molbox.file_list().send().await.is_err());
    assert_eq!(Browser::new(&service).sign_in("ada", PASSWORD).await.status(), 401);
    let token = open["token"].as_str().unwrap();
    assert_eq!(Browser::new(&service).accept(token, PASSWORD).await.status(), 401);
    let invited = root.post("/admin/account/ada/invitation", &json!({})).await;
    assert_eq!(problem(invited).await, (409, "conflict".to_owned()));
    let again = root.change("ada", &json!({ "disabled": true })).await;
    assert_eq!(again["disabled_at"], disabled["disabled_at"], "it was before");
    let task =
        |id: &str| -> String { service.sql(&format!("select status from task where id = '{id}'")) };
    assert_eq!(task(system.system_id.as_str()), "cancelled", "what it has queued");

    let enabled = root.change("ada", &json!({ "disabled": false })).await;
    assert_eq!(enabled.get("disabled_at"), None);
    assert_eq!(ada.status(Method::GET, "/session").await, 401, "a session that has ended has");
    assert_eq!(Browser::new(&service).accept(token, PASSWORD).await.status(), 401);
    assert!(molbox.file_list().send().await.is_ok(), "its keys are as they were");
    assert_eq!(ada.sign_in("ada", PASSWORD).await.status(), 200);
    let system = molbox.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await.unwrap();
    service.command(&["account", "disable", "ada"]);
    assert_eq!(ada.status(Method::GET, "/session").await, 401);
    service.command(&["account", "enable", "ada"]);
    assert_eq!(task(system.system_id.as_str()), "cancelled", "however soon it is enabled again");
    assert_eq!(ada.status(Method::GET, "/session").await, 401, "the command does the same");
    let audit = service.command(&["audit", "--json"]);
    let count = |action: &str| audit.matches(&format!("\"action\":\"{action}\"")).count();
    assert_eq!([count("account_disable"), count("account_enable")], [2, 2], "{audit}");
}

#[tokio::test]
async fn limits_of_an_account_s_own_hold_in_place_of_the_service_s() {
    let service = Service::start_with(&["limits.open_tasks=1", NO_WORKER]);
    let root = admin(&service, "root").await;
    let (ada, bob) = (service.client("ada"), service.client("bob"));
    let submit = async |molbox: &molbox::Client| {
        let system = molbox.system_submit().body_map(|s| s.minimum_padding(1.2)).send().await;
        system.map_err(|error| error.to_string())
    };
    let limits = json!({ "limits": { "open_tasks": 2, "bytes": 1000 } });
    let changed = root.change("ada", &limits).await;
    assert_eq!(changed["limits"], limits["limits"]);
    assert_eq!(changed["usage"]["bytes"], json!({ "used": 0, "most": 1000 }));
    let used = ada.usage_view().send().await.unwrap();
    assert_eq!((used.open_tasks.most, used.bytes.most), (Some(2), Some(1000)));
    let refused = ada.upload(example("1vii.pdb")).await.unwrap_err().to_string();
    assert!(refused.contains("1.0 kB that it may"), "{refused}");
    assert!(bob.upload(example("1vii.pdb")).await.is_ok(), "it is one account's own");

    root.change("ada", &json!({ "limits": { "open_tasks": 2 } })).await;
    assert!(ada.upload(example("1vii.pdb")).await.is_ok(), "what is left out is the service's");
    submit(&bob).await.unwrap();
    let refused = submit(&bob).await.unwrap_err();
    assert!(refused.contains("has 1 task queued"), "{refused}");
    submit(&ada).await.unwrap();
    submit(&ada).await.unwrap();
    let refused = submit(&ada).await.unwrap_err();
    assert!(refused.contains("has 2 tasks"), "{refused}");
    service.command(&["account", "change", "ada", "--open-tasks", "0"]);
    submit(&ada).await.unwrap();
    // A limit that is not named stays.
    service.command(&["account", "change", "ada", "--hours", "200"]);
    let said = service.command(&["account", "change", "ada", "--bytes", "5GB"]);
    let own = "open tasks without a limit\tbytes 5000000000\thours 200";
    assert!(said.contains(own), "{said}");
    let said = service.command(&["account", "change", "ada", "--service-limits"]);
    assert!(said.ends_with("\tactive"), "{said}");
    assert!(submit(&ada).await.is_err());
    for wrong in
        [&["--open-tasks=-1"][..], &["--bytes", "1000000000000001"], &["--role", "king"], &[]]
    {
        service.failing_command(&[&["account", "change", "ada"], wrong].concat());
    }
}

#[tokio::test]
async fn the_queue_shows_who_waits_and_nothing_of_what() {
    let service = Service::start_with(&[NO_WORKER]);
    let root = admin(&service, "root").await;
    let ada = service.client("ada");
    let mut ids = Vec::new();
    for name in ["secret protein", "secret ligand"] {
        let system = ada.system_submit().body_map(|s| s.box_name(name).minimum_padding(1.2));
        ids.push(system.send().await.unwrap().system_id.to_string());
    }
    let queue = root.get("/admin/queue").await;
    assert!(!queue.to_string().contains("secret"), "{queue}");
    let entries = queue["items"].as_array().unwrap();
    assert_eq!([&entries[0]["task_id"], &entries[1]["task_id"]], [&ids[1], &ids[0]]);
    for entry in entries {
        assert_eq!((&entry["account"], &entry["kind"]), (&json!("ada"), &json!("system")));
        assert_eq!((&entry["status"], &entry["is_cancelled"]), (&json!("queued"), &json!(false)));
    }
    assert_eq!(root.get("/admin/queue?status=running").await["items"], json!([]));
    let first = root.get("/admin/queue?status=queued&limit=1").await;
    let next = first["next_page"].as_str().unwrap();
    let second = root.get(&format!("/admin/queue?limit=1&page_token={next}")).await;
    assert_eq!(second["items"][0]["task_id"], ids[0], "a page carries its filter");

    let path = format!("/admin/queue/{}/cancel", ids[0]);
    for _ in 0..2 {
        let cancelled = body(root.post(&path, &json!({})).await).await;
        assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    }
    let record = ada.system_view().system_id(ids[0].as_str()).send().await.unwrap();
    assert_eq!(record.status, "cancelled");
    let left = root.get("/admin/queue").await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["items"][0]["task_id"], ids[1]);
    let audit = service.command(&["audit", "--action", "queue_cancel", "--json"]);
    assert_eq!(audit.lines().count(), 1, "{audit}");
    assert!(audit.contains("\"account\":\"root\"") && audit.contains(&ids[0]), "{audit}");
    let nobody = root.post("/admin/queue/job_00000000000000000000/cancel", &json!({})).await;
    assert_eq!(problem(nobody).await, (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_task_that_runs_is_seen_and_stopped() {
    let service = Service::start_with(&["worker.slots=1"]);
    let root = admin(&service, "root").await;
    let ada = service.client("ada");
    let system = water(&ada).await;
    let job = endless_job(&ada, &system).await;
    until_it_produces(&ada, &job).await;
    let queue = root.get("/admin/queue?status=running").await;
    assert_eq!(queue["items"][0]["task_id"], job);
    assert!(queue["items"][0]["started_at"].is_string(), "{queue}");
    let progress = queue["items"][0]["progress"].as_object().unwrap();
    let fraction = progress["fraction"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&fraction), "{queue}");
    assert!(progress.keys().all(|key| ["fraction", "eta_seconds"].contains(&key.as_str())));
    let service_view = root.get("/admin/service").await;
    let slots = json!({ "slots": 1, "running": 1, "queued": 0 });
    assert_eq!(service_view["slots"]["workers"], slots);
    let stopped = body(root.post(&format!("/admin/queue/{job}/cancel"), &json!({})).await).await;
    assert!(stopped["is_cancelled"] == true || stopped["status"] == "cancelled", "{stopped}");
    ada.wait_job(job.as_str()).await.unwrap_err();
    let record = ada.job_view().job_id(job.as_str()).send().await.unwrap();
    assert_eq!(record.status, "cancelled");
}

#[tokio::test]
async fn the_service_tells_what_it_has_and_what_is_wrong() {
    let service = Service::start_with(&[NO_WORKER, "worker.gpus=[3]"]);
    let root = admin(&service, "root").await;
    let path = example("1vii.pdb");
    let size = fs::metadata(&path).unwrap().len();
    service.client("ada").upload(path).await.unwrap();
    let view = root.get("/admin/service").await;
    assert_eq!(view["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(view["gpus"][0]["index"], 3);
    assert_eq!(view["disk"]["accounts"], json!([{ "account": "ada", "bytes": size }]));
    let bytes = |pointer: &str| view.pointer(pointer).unwrap().as_u64().unwrap();
    assert!(bytes("/disk/total_bytes") >= bytes("/disk/free_bytes"));
    assert!(bytes("/memory/total_bytes") >= bytes("/memory/available_bytes"));
    let finding = |about: &str| {
        let mut findings = view["findings"].as_array().unwrap().iter();
        findings.find(|finding| finding["about"] == about).unwrap_or_else(|| panic!("{about}"))
    };
    for about in ["data folder", "pdb mirror", "portal"] {
        assert_eq!(finding(about)["state"], "ok", "{view}");
    }
    if service.has_postgres() {
        // That of the tests forgets what it has not yet written, when its machine stops.
        let found = finding("database");
        assert_eq!(found["state"], "weak", "{view}");
        assert!(found["message"].as_str().unwrap().contains("fsync is off"), "{view}");
    } else {
        assert_eq!(finding("database")["state"], "ok", "{view}");
    }
    assert_eq!(finding("workers")["state"], "broken");
    assert!(finding("workers")["message"].as_str().unwrap().contains("/nonexistent/python"));
    finding("sandbox");
    // Those who ask together, or soon again, are shown the same.
    let again = root.get("/admin/service").await;
    assert_eq!(again["examined_at"], view["examined_at"]);
}

#[tokio::test]
async fn an_account_keeps_its_newest_hundred_sessions() {
    let service = Service::start();
    let mut ada = Browser::of(&service, "ada").await;
    Browser::of(&service, "bob").await;
    // Up to one that a clock that was ahead has made.
    let insert = |account: &str, prefix: &str| {
        let hash = if service.has_postgres() {
            "sha256(cast(account.name || i as bytea))"
        } else {
            "randomblob(32)"
        };
        let made = service.sql(&format!(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < 150)
             insert into session (id, account, hash, created_at, seen_at, expires_at, browser)
             select '{prefix}' || '000000000000000' || (1000 + i), account.id, {hash},
                    session.created_at + (i - 149) * cast(1000000000 as bigint), seen_at, expires_at, 'made up'
             from n, account join session on session.account = account.id
             where account.name = '{account}' returning 1"
        ));
        assert_eq!(made.lines().count(), 150);
    };
    insert("ada", "ses_a");
    insert("bob", "ses_b");
    assert_eq!(ada.sign_in("ada", PASSWORD).await.status(), 200);
    let count = |account: &str, id: &str| -> i64 {
        let sql = format!(
            "select count(*) from session join account on account.id = session.account
             where name = '{account}' and session.id like '{id}'"
        );
        service.sql(&sql).parse().unwrap()
    };
    assert_eq!(count("ada", "%"), 100);
    assert_eq!(ada.status(Method::GET, "/session").await, 200, "the new one is among them");
    assert_eq!(count("ada", "%1150"), 1, "and so are the newest");
    assert_eq!(count("ada", "%1001"), 0);
    assert_eq!(count("bob", "%"), 151, "another account's stay");
}

/// The content of every file below a folder.
fn contents(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        all.extend(if path.is_dir() { contents(&path) } else { fs::read(path).unwrap() });
    }
    all
}

#[tokio::test]
async fn a_backup_has_hashes_of_tokens_and_no_token() {
    let service = Service::start();
    let root = admin(&service, "root").await;
    let invitation = body(root.post("/admin/account/root/invitation", &json!({})).await).await;
    let cookie = root.cookie.clone().unwrap();
    let backup = service.data.with_extension("backup");
    service.command(&["backup", backup.to_str().unwrap()]);
    let stored = contents(&backup);
    let has = |bytes: &[u8]| stored.windows(bytes.len()).any(|window| window == bytes);
    let session = cookie.split_once('=').unwrap().1;
    for token in [session, invitation["token"].as_str().unwrap()] {
        assert!(has(&Sha256::digest(token.as_bytes())), "what it is compared with is there");
        assert!(!has(token.as_bytes()));
    }
    assert!(!has(PASSWORD.as_bytes()));
    fs::remove_dir_all(backup).unwrap();
}
