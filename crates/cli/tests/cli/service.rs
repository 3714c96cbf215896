//! Verbs against a service.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{
    Heard, Service, failure, interrupt, matches, molbox, ok, repository, with_input,
};

#[test]
fn files_are_uploaded_listed_downloaded_and_deleted() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    let file = service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", "villin"]);
    matches("file_upload.json", &file);
    let file: Value = serde_json::from_str(&file).unwrap();
    let id = file["file_id"].as_str().unwrap();
    matches("file_list.json", &service.ok(&["file", "list", "--name", "villin"]));
    service.ok(&["file", "download", id, "-o", "copy.pdb"]);
    assert_eq!(fs::read(service.folder().join("copy.pdb")).unwrap(), fs::read(&pdb).unwrap());
    // Under the name that it has here already, another file is left alone.
    fs::write(service.folder().join("villin.pdb"), "mine").unwrap();
    let (code, error) = failure(&mut service.molbox(&["file", "download", "villin"]));
    assert_eq!((code, error["code"].as_str()), (6, Some("conflict")), "{error}");
    assert!(error["remedy"].as_str().unwrap().contains("--output"), "{error}");
    assert_eq!(fs::read(service.folder().join("villin.pdb")).unwrap(), b"mine");
    for _ in 0..2 {
        fs::copy(&pdb, service.folder().join("villin.pdb")).unwrap();
        service.ok(&["file", "download", "villin"]);
    }

    let (code, error) = failure(&mut service.molbox(&[
        "file",
        "upload",
        pdb.to_str().unwrap(),
        "--name",
        "villin",
    ]));
    assert_eq!((code, error["code"].as_str()), (6, Some("conflict")), "{error}");
    service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", "another"]);
    for (limit, has_more) in [("1", true), ("2", false)] {
        let output = service.molbox(&["file", "list", "-n", limit]).output().unwrap();
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(rows.as_array().unwrap().len().to_string(), limit);
        let remarks = String::from_utf8(output.stderr).unwrap();
        assert_eq!(remarks.contains("--all shows the older ones too"), has_more, "{remarks}");
    }
    service.ok(&["file", "delete", "another", "--yes"]);
    service.ok(&["file", "delete", id, "--yes"]);
    let (code, error) = failure(&mut service.molbox(&["file", "show", id]));
    assert_eq!((code, error["code"].as_str()), (4, Some("not_found")), "{error}");
    let (code, error) =
        failure(service.molbox(&["file", "list"]).env("MOLBOX_API_KEY", "mbx_wrong"));
    assert_eq!((code, error["code"].as_str()), (3, Some("auth")), "{error}");
}

#[test]
fn a_file_is_known_by_its_name_and_the_newest_as_latest() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    for name in ["first", "second"] {
        service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", name]);
    }
    assert_eq!(service.json(&["file", "show", "first"])["name"], "first");
    assert_eq!(service.json(&["file", "show", "latest"])["name"], "second");
    let (code, error) = failure(&mut service.molbox(&["file", "delete", "third", "--yes"]));
    assert_eq!((code, &error["message"]), (4, &"no file called third".into()), "{error}");
}

#[test]
fn nothing_is_deleted_without_a_terminal_unless_it_is_said() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", "villin"]);
    let (code, error) = failure(&mut service.molbox(&["file", "delete", "villin"]));
    assert_eq!((code, &error["remedy"]), (2, &"give --yes".into()), "{error}");
    service.ok(&["file", "show", "villin"]);
}

#[test]
fn what_is_waited_for_before_a_retry_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/local", listener.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]).unwrap();
            let body =
                r#"{"detail": [{"loc": [], "msg": "the disk is full", "type": "unavailable"}]}"#;
            let length = body.len();
            write!(client, "HTTP/1.1 503 Later\r\nretry-after: 2\r\ncontent-length: {length}\r\n")
                .and_then(|()| write!(client, "connection: close\r\n\r\n{body}"))
                .unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let mut list = crate::support::molbox(folder.path(), &["job", "list", "--retries", "1"]);
    let output = list.env("MOLBOX_API_KEY", "mbx_x").env("MOLBOX_BASE_URL", address).output();
    answers.join().unwrap();
    let remarks = String::from_utf8(output.unwrap().stderr).unwrap();
    let (retry, error) = remarks.split_once('\n').unwrap();
    assert_eq!(retry, "the disk is full; trying again in 3 s (1 of 1)");
    assert!(!error.contains("retry-after"), "{error}");
}

#[test]
fn a_compressed_file_is_uploaded_as_what_is_in_it() {
    let service = Service::start();
    let content = fs::read(repository().join("examples/1vii.pdb")).unwrap();
    let packed = fs::File::create(service.folder().join("villin.pdb.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&content).unwrap();
    packed.finish().unwrap();
    let file = service.json(&["file", "upload", "villin.pdb.gz"]);
    assert_eq!([&file["name"], &file["format"]], ["villin", "pdb"], "{file}");
    let id = file["file_id"].as_str().unwrap();
    service.ok(&["file", "download", id, "-o", "copy.pdb"]);
    assert_eq!(fs::read(service.folder().join("copy.pdb")).unwrap(), content);
}

#[test]
fn a_refusal_names_the_field_and_the_remedy() {
    let service = Service::start();
    let (code, error) = failure(&mut service.molbox(&[
        "system",
        "submit",
        "--protein",
        "nothing",
        "--box-shape",
        "egg",
    ]));
    assert!(code == 4 || code == 5, "{error}");
    assert!(
        error["fields"][0]["at"].as_str().is_some_and(|at| at == "protein" || at == "box_shape"),
        "{error}"
    );
}

#[test]
fn requests_take_identifiers_as_short_as_tables_show_them() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    let file = service.json(&["file", "upload", pdb.to_str().unwrap(), "--name", "villin"]);
    let short = |record: &Value, field: &str, kind: &str| {
        let id = record[field].as_str().unwrap();
        id[..kind.len() + 7].to_owned()
    };
    let protein = short(&file, "file_id", "file");
    let system = service.json(&["system", "submit", "--protein", &protein]);
    assert_eq!(system["request"]["protein"], file["file_id"]);
    // It is not built here, and is found all the same.
    for id in [short(&system, "system_id", "box"), "latest".to_owned()] {
        let (code, error) = failure(&mut service.molbox(&["job", "submit", "--box-id", &id]));
        assert_eq!(code, 6, "{error}");
        let whole = system["system_id"].as_str().unwrap();
        assert!(error["message"].as_str().unwrap().contains(whole), "{error}");
    }
    let (code, error) =
        failure(&mut service.molbox(&["analysis", "submit", "--job-id", "job_0a1b2c"]));
    assert_eq!(code, 4, "{error}");
    assert_eq!(error["remedy"], "`molbox job list --all` shows them");
}

#[test]
fn a_dry_run_asks_the_service_and_submits_nothing() {
    let service = Service::start();
    let flags = ["system", "submit", "--dry-run", "--minimum-padding", "0.9"];
    let output = service.molbox(&flags).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let request: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(request["minimum_padding"], 0.9, "what would be sent is all of the output");
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(remarks.contains("atoms: ") && remarks.contains("memory: "), "{remarks}");
    assert!(!remarks.contains("box vectors"), "nobody reads them: {remarks}");
    let (code, error) = failure(&mut service.molbox(&[&flags[..], &["--protein", "no"]].concat()));
    assert_eq!((code, &error["fields"][0]["at"]), (4, &"protein".into()), "{error}");
    assert_eq!(service.json(&["system", "list"]), serde_json::json!([]));
    let estimate = service.json(&["system", "estimate", "--minimum-padding", "0.9"]);
    assert_eq!(service.json(&["estimate", "system", "--minimum-padding", "0.9"]), estimate);
    assert!(estimate["estimate"]["atoms"].as_u64().unwrap() > 100, "{estimate}");
}

#[test]
fn files_that_are_uploaded_together_are_not_called_the_same() {
    let service = Service::start();
    let pdb = fs::read(repository().join("examples/1vii.pdb")).unwrap();
    for name in ["system.pdb", "system.ent", "villin.pdb"] {
        fs::write(service.folder().join(name), &pdb).unwrap();
    }
    service.ok(&["file", "upload", "system.pdb", "system.ent", "villin.pdb"]);
    let files = service.json(&["file", "list"]);
    let mut names: Vec<_> =
        files.as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["system.ent", "system.pdb", "villin"]);
}

#[test]
fn a_job_on_a_queued_system_is_estimated_and_one_is_not_built_of_a_file_of_this_machine() {
    let service = Service::with(&["tasks.runner=\"off\""]);
    let dry = ["system", "submit", "--dry-run", "--protein"];
    fs::copy(repository().join("examples/1vii.pdb"), service.folder().join("1vii.pdb")).unwrap();
    let (code, error) = failure(service.molbox(&dry).arg("1vii.pdb"));
    let message =
        "1vii.pdb is a file of this machine (596 atoms in 36 residues), and not registered";
    assert_eq!((code, &error["message"]), (4, &message.into()));
    let remedy = error["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("`molbox file upload 1vii.pdb` registers it as 1vii;"), "{remedy}");
    service.ok(&["file", "upload", "1vii.pdb"]);
    service.ok(&[&dry[..], &["1vii"]].concat());

    service.ok(&["system", "submit", "--protein", "1vii"]);
    let job = ["job", "submit", "--dry-run", "--box-id", "latest", "--time", "1ns"];
    let output = service.molbox(&job).output().unwrap();
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{remarks}");
    assert!(remarks.contains(" is queued: the job is estimated by the "), "{remarks}");
    assert!(remarks.contains("trajectory: ") && remarks.contains("memory: "), "{remarks}");
    assert_eq!(service.json(&["job", "list"]), serde_json::json!([]));
    let estimate = service.json(&["job", "estimate", "--time", "1ns"]);
    assert!(estimate["estimate"]["atoms"].as_u64() > Some(1000), "{estimate}");
}

#[test]
fn an_address_of_another_service_is_the_cause_of_paths_that_are_not_there() {
    let service = Service::start();
    let (code, error) =
        failure(service.molbox(&["file", "list"]).args(["--base-url", &service.margin_url]));
    assert_eq!((code, error["code"].as_str()), (4, Some("not_found")), "{error}");
    assert!(
        error["remedy"].as_str().unwrap().contains("--base-url is the address for files"),
        "{error}"
    );
    let (code, error) =
        failure(&mut service.molbox(&["file", "show", "file_00000000000000000000"]));
    assert_eq!((code, &error["remedy"]), (4, &Value::Null), "{error}");
}

#[test]
fn warnings_about_a_request_come_on_standard_error() {
    let service = Service::start();
    let warnings = "warning: boxshape is not a field of this request and was ignored; did you mean \
                    box_shape?\nwarning: no protein, ligands or membrane were given: the box holds \
                    water and ions alone\n";
    let remarks = |arguments: &[&str]| {
        let output = service.molbox(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["warnings"][0]["code"], "unknown_field", "{record}");
        String::from_utf8(output.stderr).unwrap()
    };
    // A newer command line, for example, or another client.
    remarks(&["api", "--any-field", "POST", "/submit/system", "-F", "boxshape=cube"]);
    assert_eq!(remarks(&["system", "show", "latest"]), warnings);
    assert_eq!(remarks(&["system", "cancel", "latest"]), warnings);
    assert_eq!(remarks(&["--quiet", "system", "show", "latest"]), "");
}

#[test]
fn the_doctor_finds_nothing_and_then_the_key() {
    let service = Service::start();
    matches("doctor.json", &service.ok(&["doctor"]));
    let output = service.molbox(&["doctor"]).env("MOLBOX_API_KEY", "mbx_wrong").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn the_doctor_knows_the_address_of_margins_from_that_of_the_workflow() {
    let service = Service::start();
    let mut doctor = service.molbox(&["doctor", "--base-url", &service.margin_url]);
    let output = doctor.output().unwrap();
    assert_eq!(output.status.code(), Some(10), "{output:?}");
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let workflow = &findings.as_array().unwrap().iter().find(|one| one["check"] == "workflow");
    assert_eq!(
        workflow.unwrap()["found"],
        "this is not the address of the simulation workflow",
        "{findings}"
    );
}

#[test]
fn a_service_without_market_data_is_remarked_on_and_is_no_failure() {
    let service = Service::with(&["margin.market=\"/nowhere\""]);
    let findings = service.json(&["doctor"]);
    let margin =
        findings.as_array().unwrap().iter().find(|found| found["check"] == "margin").unwrap();
    assert_eq!(margin["status"], "remark");
    assert!(margin["found"].as_str().unwrap().contains("no market data"), "{margin}");
    assert!(margin["remedy"].as_str().unwrap().contains("molboxd market sample"), "{margin}");
}

#[test]
fn a_flag_overrides_the_environment_and_that_the_profile() {
    let service = Service::start();
    let url = service.base_url.clone();
    let login = with_input(
        service.molbox(&["login", "--base-url", &url]).env_remove("MOLBOX_API_KEY"),
        &service.key,
    );
    assert!(login.status.success(), "{login:?}");
    let mut account = service.molbox(&["account"]);
    account.env_remove("MOLBOX_API_KEY").env_remove("MOLBOX_BASE_URL");
    matches("account.json", &ok(&mut account));
    account.env("MOLBOX_BASE_URL", "http://127.0.0.1:1/local").args(["--retries", "0"]);
    account.env("MOLBOX_API_KEY", &service.key);
    assert_eq!(
        account.output().unwrap().status.code(),
        Some(10),
        "the environment overrides the profile"
    );
    account.args(["--base-url", &url]);
    ok(&mut account);
}

#[test]
fn the_key_of_a_profile_goes_to_its_own_service_alone() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Heard::start(r#"{"status": "ok", "held": []}"#);
    let other = Heard::start(r#"{"status": "ok", "held": []}"#);
    let of = |heard: &Heard| format!("http://{}/local", heard.address);
    let [base, elsewhere] = [of(&heard), of(&other)];
    let (margin, margin_elsewhere) = (format!("{base}/margin"), format!("{elsewhere}/margin"));
    let profile = format!(
        "default = \"lab\"\n[profile.lab]\nbase_url = {base:?}\nmargin_url = {margin:?}\napi_key = \"mbx_lab\"\n"
    );
    fs::write(folder.path().join("config.toml"), profile).unwrap();
    let health = ["service", "health", "--retries", "0"];
    let margin_health = [&health[..], &["--at", "margin"]].concat();

    ok(&mut molbox(folder.path(), &health));
    ok(&mut molbox(folder.path(), &margin_health));
    assert_eq!(heard.keys(), ["mbx_lab", "mbx_lab"]);
    ok(molbox(folder.path(), &health).args(["--base-url", &elsewhere]));
    ok(molbox(folder.path(), &margin_health).args(["--base-url", &elsewhere]));
    ok(molbox(folder.path(), &margin_health).env("MOLBOX_MARGIN_URL", &margin_elsewhere));
    assert_eq!(other.keys(), ["none", "none", "none"], "whoever is there does not get it");
    let mut account = molbox(folder.path(), &["account", "--base-url", &elsewhere]);
    let (code, error) = failure(&mut account);
    assert_eq!(code, 3, "{error}");
    assert!(error["message"].as_str().unwrap().contains(&base), "{error}");

    // Nor goes the key for another service to the margins of the profile's.
    let mut margin = molbox(folder.path(), &margin_health);
    ok(margin.env("MOLBOX_BASE_URL", &elsewhere).env("MOLBOX_API_KEY", "mbx_other"));
    assert_eq!(other.keys(), ["mbx_other"]);
    assert_eq!(heard.keys(), [""; 0]);
}

#[test]
fn the_exit_status_says_how_a_wait_ended() {
    let service = Service::with_worker();
    let code = |arguments: &[&str]| {
        let (code, error) = failure(&mut service.molbox(arguments));
        assert_eq!(error["exit"], code);
        (code, error["code"].as_str().unwrap().to_owned())
    };
    service.ok(&["system", "submit", "--minimum-padding", "5nm"]);
    assert_eq!(
        code(&["--quiet", "system", "wait", "latest", "--timeout", "0s"]),
        (8, "timeout".to_owned())
    );
    assert_eq!(
        code(&["system", "delete", "latest", "--yes"]),
        (6, "conflict".to_owned()),
        "it is not finished"
    );
    interrupted_watch_says_how_to_wait_again(&service);
    service.ok(&["system", "cancel", "latest"]);
    assert_eq!(code(&["system", "wait", "latest"]), (9, "task_failed".to_owned()));
}

/// Of the latest system, which is still being built.
fn interrupted_watch_says_how_to_wait_again(service: &Service) {
    let mut watch = service.molbox(&["--json", "system", "watch", "latest"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // It listens for the signal before it has anything to show.
    let mut lines = BufReader::new(watch.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    let record: Value = serde_json::from_str(&line).unwrap();
    interrupt(&watch);
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let id = record["system_id"].as_str().unwrap();
    assert!(stderr.contains(&format!("`molbox system wait {id}` waits again")), "{stderr}");
}

#[test]
fn a_job_that_names_no_system_says_which_it_has_taken() {
    let service = Service::with_worker();
    let water = service.json(&[
        "system",
        "submit",
        "--box-name",
        "drop",
        "--minimum-padding",
        "1.2nm",
        "--wait",
    ]);
    let id = water["system_id"].as_str().unwrap();
    let said = |arguments: &[&str]| {
        let submit = ["job", "submit", "--minimization-steps", "1", "--time", "1ps"];
        let output = service.molbox(&submit).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let taken = format!("on the newest system, drop, {id}; --box-id names another");
    assert!(said(&[]).contains(&taken));
    assert!(!said(&["--box-id", id]).contains("newest"), "it was named");
    assert_eq!(said(&["--quiet"]), "");
}

#[test]
fn the_exit_status_says_what_the_service_would_not_do() {
    let service = Service::with(&["limits.requests_per_minute=1"]);
    service.ok(&["job", "list"]);
    let (code, error) = failure(&mut service.molbox(&["job", "list", "--retries", "0"]));
    assert_eq!((code, error["code"].as_str()), (7, Some("rate")), "{error}");

    for (status, exit, name) in [("500 Oh", 1, "other"), ("503 Later", 10, "unreachable")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/local", listener.local_addr().unwrap());
        let answer = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]).unwrap();
            write!(client, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .unwrap();
        });
        let (code, error) = failure(
            service.molbox(&["job", "list", "--retries", "0"]).env("MOLBOX_BASE_URL", &address),
        );
        assert_eq!((code, error["code"].as_str()), (exit, Some(name)), "{error}");
        answer.join().unwrap();
    }
}

#[test]
fn any_request_can_be_sent() {
    let service = Service::start();
    assert_eq!(service.json(&["api", "GET", "/healthz", "--at", "margin"])["status"], "ok");
    assert_eq!(
        service.json(&["api", "get", "/info/jobs", "--query", "limit=1"])["items"],
        serde_json::json!([])
    );
    let (code, error) =
        failure(&mut service.molbox(&["api", "POST", "/submit/job", "-F", "temperature=-1"]));
    assert_eq!(code, 5);
    assert_eq!(error["fields"][0]["at"], "temperature");
    matches("api_list.json", &service.ok(&["api", "--list"]));
}

#[test]
fn the_margin_of_the_service_is_that_of_this_machine() {
    let service = Service::start();
    fs::write(
        service.folder().join("book.csv"),
        "ticker,type,quantity\nXEQ1,long,10\nXEQ2,short,7.5\n",
    )
    .unwrap();
    let book =
        ["--portfolio", "book.csv", "--margin-date", "2024-12-31", "--num-scenarios", "2000"];
    let written = |how: &str, file: &str| {
        let mut written = service.json(&[&["margin", how, "-o", file], &book[..]].concat());
        assert_eq!(written["file"].take(), file);
        written
    };
    let totals = written("submit", "there.csv");
    assert_eq!(totals, written("local", "here.csv"));
    assert!(
        totals["initialMargin"].as_f64().unwrap()
            > 1.1 * totals["maintenanceMargin"].as_f64().unwrap() - 1e-6
    );
    assert_eq!((&totals["seed"], &totals["currency"]), (&42.into(), &"USD".into()));
    assert_eq!(totals["marginDate"], "2024-12-31");
    let read = |name: &str| fs::read_to_string(service.folder().join(name)).unwrap();
    assert_eq!(read("there.csv"), read("here.csv"));
    let csv = read("here.csv");
    assert_eq!(csv.lines().count(), 4, "a header, two positions, and the total: {csv}");
    let initial = format!("{:.2}", totals["initialMargin"].as_f64().unwrap());
    let total = csv.lines().last().unwrap();
    assert!(total.starts_with("total,total,USD,") && total.contains(&initial), "{csv}");
}

#[test]
fn a_login_finds_the_stage_and_is_refused_in_words_that_help() {
    let service = Service::start();
    let root = service.base_url.trim_end_matches("/local").to_owned();
    let login = |url: &str, key: &str| {
        let mut command = service.molbox(&["login", "--base-url", url]);
        with_input(command.env_remove("MOLBOX_API_KEY"), key)
    };
    let output = login(&root, &service.key);
    assert!(output.status.success(), "{output:?}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["base_url"].as_str(), Some(service.base_url.as_str()));
    // As a browser shows it.
    let output = login(&format!("{}/portal/", service.base_url), &service.key);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["base_url"].as_str(), Some(service.base_url.as_str()));
    // Margins are asked for there, too.
    let mut margin = service.molbox(&["margin", "submit", "--future", "XEQ1:long:1"]);
    for variable in ["MOLBOX_API_KEY", "MOLBOX_BASE_URL", "MOLBOX_MARGIN_URL"] {
        margin.env_remove(variable);
    }
    ok(&mut margin);
    let error = |output: std::process::Output| {
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        (output.status.code().unwrap(), error["error"].clone())
    };
    let (code, nowhere) = error(login("http://md.example.invalid", &service.key));
    assert_eq!(code, 10, "{nowhere}");
    assert!(nowhere["message"].as_str().unwrap().contains("no machine of that name"), "{nowhere}");
    let (code, refused) = error(login(&service.base_url, "mbx_wrong"));
    assert_eq!((code, refused["message"].as_str()), (3, Some("the API key is not valid")));
    assert!(refused["remedy"].as_str().unwrap().contains("copied whole"), "{refused}");
    let (code, elsewhere) = error(login(&service.margin_url, &service.key));
    assert_eq!(code, 4, "{elsewhere}");
    let (code, empty) = error(login("", &service.key));
    assert_eq!((code, empty["message"].as_str()), (2, Some("the address of the service is empty")));
    // Without a scheme: http on this machine, and never elsewhere.
    let address = root.trim_start_matches("http://");
    let output = login(address, &service.key);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["base_url"].as_str(), Some(service.base_url.as_str()));
    let (code, bare) = failure(&mut service.molbox(&["account", "--base-url", address]));
    assert_eq!((code, bare["remedy"].as_str()), (2, Some(&*format!("give it as {root}"))));
    let (_, secure) = error(login("md.example.invalid:8080", &service.key));
    assert!(!secure["message"].as_str().unwrap().contains("http://"), "{secure}");
    let (code, secure) = error(login(&root.replace("http:", "https:"), &service.key));
    assert_eq!(code, 10, "{secure}");
    assert!(secure["remedy"].as_str().unwrap().contains("http:// in place of https://"));
}

#[test]
fn who_logs_in_without_a_profile_uses_that_login_from_then_on() {
    let service = Service::start();
    service.molboxd(&["account", "create", "grace"]);
    let of_grace = service.molboxd(&["key", "create", "grace"]);
    let login = |named: &[&str], key: &str| {
        let arguments = [&["login", "--base-url", &service.base_url], named].concat();
        let output = with_input(service.molbox(&arguments).env_remove("MOLBOX_API_KEY"), key);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let account = || {
        let mut shown = service.molbox(&["account"]);
        for variable in ["MOLBOX_API_KEY", "MOLBOX_BASE_URL"] {
            shown.env_remove(variable);
        }
        let shown: Value = serde_json::from_str(&ok(&mut shown)).unwrap();
        shown["account"].as_str().unwrap().to_owned()
    };
    login(&["--profile", "lab"], &of_grace);
    assert_eq!(account(), "grace", "the only one");
    assert!(login(&[], &service.key).contains("molbox profile use lab"));
    assert_eq!(account(), "ada");
    login(&["--profile", "lab"], &of_grace);
    assert_eq!(account(), "ada", "a profile that is named is used when it is named");
}

#[test]
fn a_key_that_was_revoked_is_said_to_be() {
    let service = Service::start();
    let id = &service.key["mbx_".len()..][..8];
    service.molboxd(&["key", "revoke", id]);
    let (code, error) = failure(&mut service.molbox(&["job", "list"]));
    assert_eq!(code, 3, "{error}");
    assert!(error["message"].as_str().unwrap().starts_with("this API key was revoked on 20"));
}

#[test]
fn who_has_a_disabled_account_is_told_to_ask_and_not_to_log_in_again() {
    let service = Service::start();
    service.molboxd(&["account", "disable", "ada"]);
    let mut login = service.molbox(&["login", "--base-url", &service.base_url]);
    let refused = with_input(login.env_remove("MOLBOX_API_KEY"), &service.key);
    let refused: Value = serde_json::from_slice(&refused.stderr).unwrap();
    let (code, listed) = failure(&mut service.molbox(&["job", "list"]));
    assert_eq!(code, 3, "{listed}");
    for error in [listed, refused["error"].clone()] {
        assert!(error["message"].as_str().unwrap().contains("is disabled; ask"), "{error}");
        let remedy = error["remedy"].as_str().unwrap();
        assert!(remedy.contains("molboxd account enable") && !remedy.contains("log in"), "{error}");
    }
}

#[test]
fn replicas_that_were_submitted_are_named_when_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [queued, refusal] = ["job_submit.200.json", "ValidationFailed.json"]
        .map(|name| fs::read_to_string(repository().join("openapi/examples").join(name)).unwrap());
    let service = Heard::with(move |body| {
        let job: Value = serde_json::from_slice(body).unwrap();
        match job["batch_index"].as_u64() {
            Some(1) => ("422 Unprocessable Entity", refusal.clone()),
            _ => ("200 OK", queued.clone()),
        }
    });
    let words = ["job", "submit", "--box-id", "box_7cpejpkq0zxnh8yydfbe", "--replicas", "3"];
    let mut submit = molbox(folder.path(), &words);
    submit.env("MOLBOX_API_KEY", "mbx_none");
    submit.env("MOLBOX_BASE_URL", format!("http://{}/local", service.address));
    let output = submit.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{errors}");
    let jobs: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(jobs.as_array().unwrap().len(), 2, "{jobs}");
    assert!(jobs[0]["job_id"].as_str().unwrap().starts_with("job_"), "{jobs}");
}
