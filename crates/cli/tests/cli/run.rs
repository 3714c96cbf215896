//! The whole workflow with one command.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::proxy::Proxy;
use crate::support::{Service, failure, interrupt, matches, molbox, ok, repository, with_input};

/// All that a structure needs to look like one.
const ATOM: &str = "ATOM      1  N   MET A   1      27.340  24.430   2.614\n";
const MOLECULE: &str = "drug\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n";

/// A short run of villin, beginning in `villin`, by these flags besides.
fn short_run(service: &Service, flags: &[&str]) -> Command {
    let parts = json!({"job": {"equilibration": [{"type": "NVT", "time": "0.1 ps", "log_freq": 20}], "minimization_steps": 100}});
    fs::write(service.folder().join("parts.json"), parts.to_string()).unwrap();
    let mut command =
        service.molbox(&["run", "--preset", "quick", "--file", "parts.json", "--output", "villin"]);
    command.args(["--minimum-padding", "7A", "--traj-freq", "10", "--log-freq", "10"]).args(flags);
    command.arg(repository().join("examples/1vii.pdb"));
    command
}

/// The events that a run has written, each on a line.
fn events(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_interrupted_run_is_resumed_and_ends_with_a_report() {
    let service = Service::with_worker();
    let flags = ["--time", "0.2ps", "--replicas", "2", "--rmsd", "@CA", "--rmsf", "@CA"];
    let mut run = short_run(&service, &flags);
    let mut first = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let state = service.folder().join("villin/molbox-run.json");
    let has_jobs = || {
        let text = fs::read_to_string(&state).unwrap_or_default();
        serde_json::from_str::<Value>(&text)
            .is_ok_and(|run| run["replicas"].as_array().is_some_and(|jobs| jobs.len() == 2))
    };
    while !has_jobs() {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        assert!(start.elapsed() < Duration::from_secs(300), "no jobs");
        std::thread::sleep(Duration::from_millis(50));
    }
    interrupt(&first);
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("molbox run --resume villin"), "{stderr}");
    let begun = events(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((&begun[0]["event"], &begun[1]["event"]), (&json!("uploaded"), &json!("system")));

    let (code, error) = failure(&mut service.molbox(&["run", "--resume", "--time", "5ps"]));
    assert_eq!((code, error["code"].as_str()), (2, Some("usage")), "{error}");
    let events = events(&ok(&mut service.molbox(&["run", "--resume"])));
    for (a, b) in events.iter().zip(&events[1..]) {
        assert_ne!(a, b, "an event says something new");
    }
    let summary = events.last().unwrap();
    assert_eq!(summary["event"], "done");
    assert_eq!(summary["replicas"].as_array().unwrap().len(), 2);
    for (noun, n) in [("system", 1), ("job", 2), ("analysis", 2)] {
        assert_eq!(
            service.json(&[noun, "list"]).as_array().unwrap().len(),
            n,
            "each {noun} is submitted once"
        );
    }
    let report = fs::read_to_string(service.folder().join("villin/report.md")).unwrap();
    for part in [
        "How to cite",
        "OpenMM",
        "ff14SB",
        "barostat",
        "| integration_timestep | `4.0` | fs |",
        "| RMSD of @CA | Å |",
        "### Replicas compared",
        "| production | density | g/mL |",
        "(replicas_rmsf.png)",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let pictures: Vec<&str> = report
        .lines()
        .filter_map(|line| line.strip_prefix("![")?.split('(').nth(1)?.strip_suffix(')'))
        .collect();
    assert!(pictures.len() >= 4, "energies and RMSD of two replicas: {pictures:?}");
    let page_path = service.folder().join("villin/report.html");
    let page = fs::read_to_string(&page_path).unwrap();
    assert_eq!(
        page.matches("src=\"data:image/png;base64,").count(),
        pictures.len(),
        "the page is whole by itself"
    );

    // All that is left to do is the report.
    fs::remove_file(&page_path).unwrap();
    ok(&mut service.molbox(&["run", "--resume"]));
    assert_eq!(fs::read_to_string(&page_path).unwrap(), page);
    let (code, error) = failure(&mut service.molbox(&["run", "--resume"]));
    assert_eq!((code, error["message"].as_str()), (4, Some("no interrupted run in this folder")));

    let job = summary["replicas"][0]["job_id"].as_str().unwrap();
    assert!(service.ok(&["job", "log", job]).contains("production"));
    let watched = service.ok(&["job", "watch", job]);
    assert_eq!(
        serde_json::from_str::<Value>(watched.lines().last().unwrap()).unwrap()["status"],
        "succeeded"
    );
    assert_eq!(service.json(&["analysis", "data", job])["job_id"], job);
    let folder =
        service.json(&["job", "download", job, "-o", "bundle.zip", "--unpack"])["folder"].clone();
    let bundle = service.folder().join(folder.as_str().unwrap());
    let files = ["production.dcd", "production.pdb"]
        .map(|name| bundle.join(name).to_str().unwrap().to_owned());
    let here = service.json(&["analyze", &files[0], &files[1], "--rmsd", "@CA", "-o", "tables"]);
    assert_eq!(here["tables"][0]["kind"], "rmsd");
    assert!(service.folder().join("tables/rmsd.png").exists());
}

#[test]
fn a_cancelled_replica_is_left_out_of_the_report_until_it_is_retried() {
    let service = Service::with(&["worker.slots=1"]);
    let mut run = short_run(&service, &["--time", "2ps", "--replicas", "2", "--rmsd", "@CA"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let queued = loop {
        let jobs = service.json(&["job", "list"]);
        let jobs = jobs.as_array().unwrap();
        let of = |status: &str| jobs.iter().find(|job| job["status"] == status);
        if let (Some(_), Some(queued)) = (of("running"), of("queued")) {
            break queued.clone();
        }
        assert!(start.elapsed() < Duration::from_secs(300), "no jobs");
        std::thread::sleep(Duration::from_millis(50));
    };
    let cancelled = queued["job_id"].as_str().unwrap();
    service.ok(&["job", "cancel", cancelled]);
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(9), "{stderr}");
    for said in [
        format!("cancelled    {cancelled}"),
        format!("the report has the other replicas; `molbox job retry {cancelled}` queues it"),
        "`molbox run --resume villin`".to_owned(),
    ] {
        assert!(stderr.contains(&said), "{said}: {stderr}");
    }
    let report = || fs::read_to_string(service.folder().join("villin/report.md")).unwrap();
    let n = queued["batch_index"].as_u64().unwrap() + 1;
    for part in [
        "`1vii.pdb`, 1 of 2 replicas.",
        &format!("- Replica {n} ({cancelled}) was cancelled."),
        &format!("### Replica {n}\n\nIt was cancelled."),
        "| RMSD of @CA |",
        "## How to cite\n\n- ",
    ] {
        assert!(report().contains(part), "{part}: {}", report());
    }

    service.ok(&["job", "retry", cancelled]);
    ok(&mut service.molbox(&["run", "--resume", "villin"]));
    assert!(report().contains("`1vii.pdb`, 2 replicas."), "{}", report());
    assert!(!report().contains("cancelled"), "{}", report());
    assert_eq!(service.json(&["job", "list"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_run_that_was_cancelled_is_retried_and_resumed() {
    let service = Service::with_worker();
    let mut run = short_run(&service, &["--time", "100ps", "--no-analysis"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let job = loop {
        if let Some(job) = service.json(&["job", "list"]).as_array().unwrap().first() {
            break job["job_id"].as_str().unwrap().to_owned();
        }
        assert!(run.try_wait().unwrap().is_none(), "it waits for the job");
        assert!(start.elapsed() < Duration::from_secs(300), "no job");
        std::thread::sleep(Duration::from_millis(50));
    };
    service.ok(&["job", "cancel", &job, "--wait"]);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let remedy = format!("`molbox job retry {job}` queues it again");
    assert!(stderr.contains(&remedy) && stderr.contains("or begin anew"), "{stderr}");
    let output = service.molbox(&["run", "--resume", "villin"]).output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&remedy), "{stderr}");
    service.ok(&["job", "retry", &job]);
    let resumed = service.molbox(&["run", "--resume", "villin"]).stdout(Stdio::null()).spawn();
    let mut resumed = resumed.unwrap();
    let is_running = || service.json(&["job", "show", &job])["status"] == "running";
    while !is_running() {
        assert!(resumed.try_wait().unwrap().is_none(), "it waits for the job");
        assert!(start.elapsed() < Duration::from_secs(300), "not running");
        std::thread::sleep(Duration::from_millis(50));
    }
    service.ok(&["job", "cancel", &job]);
    assert_eq!(resumed.wait().unwrap().code(), Some(9));
}

#[test]
fn a_run_killed_at_each_request_does_nothing_twice() {
    let proxy = Proxy::start();
    let service = Service::with_worker();
    let (host, path) = service.base_url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    proxy.forward_to(host);
    let base_url = format!("http://{}/{path}", proxy.address);
    let begin = || short_run(&service, &["--time", "0.2ps", "--replicas", "2"]);
    let mut command = begin();
    loop {
        command.env("MOLBOX_BASE_URL", &base_url).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = proxy.spawn(&mut command).wait_with_output().unwrap();
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.signal(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
        // Nothing begins before the job is checked.
        let has_begun = service.folder().join("villin").exists();
        command = if has_begun { service.molbox(&["run", "--resume"]) } else { begin() };
    }
    let every_kind_of_request = [
        "GET /local/info/analysis/ID",
        "GET /local/info/files",
        "GET /local/info/job/ID",
        "GET /local/info/system/ID",
        "GET /local/retrieve/analysis/ID",
        "GET /local/retrieve/job/ID",
        "GET /local/submit/upload-url",
        "POST /local/check/job",
        "POST /local/submit/analysis",
        "POST /local/submit/file/",
        "POST /local/submit/job",
        "POST /local/submit/system",
        "PUT /local/upload/ID",
    ];
    assert_eq!(proxy.met(), every_kind_of_request);
    for (noun, n) in [("system", 1), ("job", 2), ("analysis", 2)] {
        assert_eq!(
            service.json(&[noun, "list"]).as_array().unwrap().len(),
            n,
            "each {noun} is submitted once"
        );
    }
    assert_eq!(service.json(&["file", "list", "--status", "ready"]).as_array().unwrap().len(), 1);
    assert!(service.folder().join("villin/report.html").exists());
}

#[test]
fn a_run_says_at_which_place_it_waits() {
    let service = Service::with(&["worker.slots=1"]);
    let output = short_run(&service, &["--time", "0.2ps", "--replicas", "2"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let waits = |line: &&str| line.contains("place 1 of 1");
    let lines: Vec<&str> = stderr.lines().filter(waits).collect();
    assert!(lines.iter().all(|line| line.contains(": queued, place")), "{stderr}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("replica")).count(), 1, "{stderr}");
}

#[test]
fn a_ligand_goes_into_the_system_and_the_report() {
    let service = Service::with_worker();
    let ligand = repository().join("worker/tests/data/p-xylene.mol2");
    // Beside the protein: the file has it in a pocket of another one.
    let place =
        ["--ligand", ligand.to_str().unwrap(), "--ligand-translations", "[[-4.16, -2.59, -1.61]]"];
    let mut run =
        short_run(&service, &[&place[..], &["--time", "0.1ps", "--no-analysis"]].concat());
    let summary = ok(&mut run).lines().last().unwrap().to_owned();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["replicas"][0]["analysis"], Value::Null);
    let system = service.json(&["system", "show", summary["system_id"].as_str().unwrap()]);
    assert_eq!(system["request"]["ligands"].as_array().unwrap().len(), 1);
    let report = fs::read_to_string(service.folder().join("villin/report.md")).unwrap();
    assert!(report.contains("GAFF") && report.contains("AM1-BCC"), "{report}");
}

#[test]
fn a_protein_that_lies_askew_gets_no_membrane_and_the_reader_a_remedy() {
    let service = Service::with_worker();
    let output = short_run(&service, &["--membrane", "POPC"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(9), "{stderr}");
    assert!(stderr.contains("orient it first"), "{stderr}");
}

#[test]
fn a_preset_is_what_would_be_sent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("protein.pdb"), ATOM).unwrap();
    fs::write(folder.path().join("drug.sdf"), MOLECULE).unwrap();
    let cases: [(&str, &[&str]); 4] = [
        ("quick", &["--preset", "quick", "--time", "20ps"]),
        ("standard", &["--ligand", "drug.sdf", "--temperature", "37°C", "--replicas", "3"]),
        ("membrane", &["--membrane", "POPE", "--pressure", "1atm"]),
        ("none", &["--preset", "membrane", "--box-shape", "rectangular", "--no-analysis"]),
    ];
    for (name, flags) in cases {
        let plan = ok(molbox(folder.path(), &["run", "protein.pdb", "--dry-run"]).args(flags));
        matches(&format!("run_{name}.json"), &plan);
    }
}

#[test]
fn a_production_too_short_for_the_frequencies_of_its_preset_has_those_of_the_service() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("protein.pdb"), ATOM).unwrap();
    let production = |flags: &[&str]| {
        let plan = ok(molbox(folder.path(), &["run", "protein.pdb", "--dry-run"]).args(flags));
        serde_json::from_str::<Value>(&plan).unwrap()["job"]["production"].clone()
    };
    // 1500 steps of 4 fs.
    assert_eq!(production(&["--time", "6ps"]), json!({"time": 0.006, "log_freq": 1250}));
    assert_eq!(production(&["--time", "2ps"]), json!({"time": 0.002}));
    let given = json!({"time": 0.002, "traj_freq": 600});
    assert_eq!(
        production(&["--time", "2ps", "--traj-freq", "600"]),
        given,
        "what is asked for is not changed"
    );
}

#[test]
fn a_run_that_cannot_be_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pdb", "plain"] {
        fs::write(folder.path().join(name), ATOM).unwrap();
    }
    fs::write(folder.path().join("page.pdb"), "<!DOCTYPE html>\n<html>").unwrap();
    fs::write(folder.path().join("empty.pdb"), "").unwrap();
    fs::create_dir(folder.path().join("folder.pdb")).unwrap();
    fs::write(folder.path().join("line.sdf"), "CCO\n").unwrap();
    let cases: [(&[&str], i32, &str); 12] = [
        (&["page.pdb"], 5, "page.pdb: is a web page, not a structure"),
        (&["empty.pdb"], 5, "empty.pdb: is empty"),
        (&["none.pdb"], 11, "none.pdb: No such file or directory"),
        (&["folder.pdb"], 5, "folder.pdb: is no file"),
        (&["plain"], 5, "plain: has no extension that gives its format"),
        (
            &["a.pdb", "--ligand", "line.sdf"],
            5,
            "line.sdf: has no molecule: its fourth line counts atoms",
        ),
        (&["a.pdb", "--ligand", "none.sdf"], 11, "none.sdf: No such file or directory"),
        (
            &["a.pdb", "--rmsd", "@@"],
            5,
            "--rmsd: mask \"@@\": column 2: expected a name, a number or `*`, found `@`",
        ),
        (&["a.pdb", "--equilibration", r#"[{"restraint_mask": ":"}]"#], 5, ""),
        (&["a.pdb", "--file", "a.pdb"], 5, "a.pdb: is neither .toml, .yaml nor .json, but .pdb"),
        (&["--resume", "none"], 4, "no run in none"),
        (&[""], 2, "no structure was given"),
    ];
    for (arguments, exit, message) in cases {
        let (code, error) = failure(molbox(folder.path(), &["run"]).args(arguments));
        assert_eq!(code, exit, "{arguments:?}: {error}");
        assert!(message.is_empty() || error["message"] == message, "{arguments:?}: {error}");
    }
    assert!(!folder.path().join("page-run").exists(), "nothing is begun");
}

#[test]
fn a_run_that_came_to_nothing_is_begun_anew_and_any_other_by_request() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    let gzip = Command::new("sh")
        .args(["-c", &format!("gzip -c {} > {}", pdb.display(), "1vii.pdb.gz")])
        .current_dir(service.folder())
        .status();
    assert!(gzip.unwrap().success());
    let run = |flags: &[&str]| {
        let mut command = service.molbox(&["run", "1vii.pdb.gz"]);
        let output = command.args(flags).output().unwrap();
        let remarks = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), remarks)
    };
    let (code, remarks) = run(&["--force-field", "amber99sb"]);
    assert_eq!(code, Some(5), "{remarks}");
    assert!(remarks.contains("--force-field: must be one of") && remarks.contains("begins anew"));
    let (code, remarks) = run(&["--force-field", "amber98"]);
    assert!(code == Some(5) && remarks.contains("beginning anew"), "{remarks}");
    let files = service.json(&["file", "list"]);
    let names: Vec<&str> =
        files.as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1vii"], "a content is registered once, and by its name");

    let state = service.folder().join("1vii-run/molbox-run.json");
    let mut alive: Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    alive["failure"] = Value::Null;
    fs::write(&state, alive.to_string()).unwrap();
    let (code, remarks) = run(&[]);
    assert!(code == Some(6) && remarks.contains("--restart"), "{remarks}");
    let (code, remarks) = run(&["--restart", "--force-field", "amber99sb"]);
    assert!(code == Some(5) && !remarks.contains("holds a run"), "{remarks}");
}

#[test]
fn a_public_entry_is_fetched_where_the_service_has_no_mirror_of_them() {
    let service = Service::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/{{ID}}.cif", listener.local_addr().unwrap());
    let entry = fs::read(repository().join("worker/tests/data/1as5.cif")).unwrap();
    let mirror = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let n = client.read(&mut request).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", entry.len());
        client.write_all(&[head.as_bytes(), &entry].concat()).unwrap();
        String::from_utf8_lossy(&request[..n]).into_owned()
    });
    // What is refused comes after the upload.
    let mut run = service.molbox(&["run", "1as5", "--force-field", "amber99sb"]);
    let output = run.env("MOLBOX_PDB_URL", &url).output().unwrap();
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(5) && remarks.contains("force_field"), "{remarks}");
    assert!(mirror.join().unwrap().starts_with("GET /1AS5.cif "));
    let files = service.json(&["file", "list", "--status", "ready"]);
    assert_eq!((&files[0]["name"], &files[0]["format"]), (&json!("1AS5"), &json!("cif")));

    let mut run = service.molbox(&["run", "1L2Y", "--output", "other"]);
    let (code, error) = failure(run.env("MOLBOX_PDB_URL", "http://127.0.0.1:1/{ID}").arg("-q"));
    assert_eq!(code, 10, "{error}");
    assert!(error["remedy"].as_str().unwrap().contains("molbox run 1L2Y.cif"), "{error}");

    assert_eq!(service.json(&["usage"])["public_entries"], false);
}

#[test]
fn a_structure_that_nobody_knows_is_refused_before_a_folder_is_made() {
    let service = Service::start();
    for structure in ["alanin", ".", "P12345"] {
        let (code, error) = failure(service.molbox(&["run", structure]).arg("-q"));
        assert_eq!(code, 4, "{structure}: {error}");
        assert!(error["message"].as_str().unwrap().contains(structure), "{error}");
    }
    let made = fs::read_dir(service.folder()).unwrap().flatten();
    let made = made.filter(|entry| entry.path().join("molbox-run.json").exists()).count();
    assert_eq!(made, 0, "nothing is begun");
}

#[test]
fn a_dry_run_with_a_key_is_checked_by_the_service() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    fs::copy(&pdb, service.folder().join("1vii.pdb")).unwrap();
    let (code, unknown) = failure(&mut service.molbox(&["run", "villin", "--dry-run"]));
    assert_eq!(code, 4, "{unknown}");
    assert!(unknown["message"].as_str().unwrap().starts_with("no file villin here"), "{unknown}");
    let mut entry = service.molbox(&["run", "1L2Y", "--dry-run", "-q"]);
    let (code, unreached) = failure(entry.env("MOLBOX_PDB_URL", "http://127.0.0.1:1/{ID}"));
    assert_eq!(code, 10, "it is fetched, as in a run: {unreached}");
    let dry = ["run", "1vii.pdb", "--dry-run"];
    let output = service.molbox(&dry).output().unwrap();
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(!remarks.contains("warning"), "{remarks}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["resolved"]["system"]["force_field"], "amber14", "defaults are filled in");
    assert_eq!(plan["resolved"]["job"]["temperature"], 300, "those of the job too");
    assert_eq!(plan["resolved"]["job"]["production"]["type"], "NPT", "and of its stages");
    assert_eq!(plan["resolved"]["system"]["protein"], Value::Null, "it has no identifier yet");
    let atoms = plan["estimate"]["atoms"].as_u64().unwrap();
    assert!(atoms > 1000, "{plan}");
    // 1.3 ns in steps of 4 fs, and a frame every 2500 of the last 1 ns.
    let each = &plan["of_each_job"];
    assert_eq!((&each["steps"], &each["frames"]), (&json!(325_000), &json!(100)));
    // The service knows what a job on so many atoms takes; the trajectory has a head.
    assert_eq!(each["trajectory_bytes"], 276 + 100 * (80 + 12 * atoms));
    assert_eq!(each["atoms"], atoms);
    assert!(each["memory_bytes"].as_u64() > Some(0), "{plan}");
    for flags in [["--force-field", "amber99sb"], ["--concentration", "150"]] {
        let (code, error) = failure(service.molbox(&dry).args(flags).arg("-q"));
        assert_eq!(code, 5, "{flags:?}: {error}");
    }
    let chain = service.molbox(&dry).args(["--chain-id", "A"]).output().unwrap();
    assert!(chain.status.success(), "{}", String::from_utf8_lossy(&chain.stderr));
    // What the service finds in the files, too.
    fs::write(service.folder().join("broken.pdb"), "ATOM  x\n").unwrap();
    let (code, error) = failure(&mut service.molbox(&["run", "broken.pdb", "--dry-run", "-q"]));
    let message = error["message"].as_str().unwrap();
    assert!(code == 5 && message.contains("broken.pdb cannot be taken as pdb"), "{error}");
    let larger = service.molbox(&dry).args(["--ligand", "drug.sdf"]).output().unwrap();
    assert!(!larger.status.success(), "there is no such file");
    assert_eq!(service.json(&["file", "list"]), json!([]), "what was sent for it is not kept");
    // Of a job, too, though its system is not built: 2.5e12 steps.
    for run in [&dry[..], &dry[..2]] {
        let (code, error) = failure(service.molbox(run).args(["--time", "10ms", "-q"]));
        assert_eq!(code, 5, "{error}");
        assert!(error["message"].as_str().is_some_and(|it| it.contains("steps")), "{error}");
    }
    assert!(!service.folder().join("1vii-run").exists(), "nothing is begun");
}

#[test]
fn a_system_of_another_program_is_run_from_its_files() {
    let service = Service::with_worker();
    let parts =
        json!({"job": {"equilibration": [{"type": "NVT", "time": "0.1 ps", "log_freq": 20}]}});
    fs::write(service.folder().join("parts.json"), parts.to_string()).unwrap();
    let mut run = service.molbox(&["run", "--preset", "quick", "--file", "parts.json"]);
    run.args(["--time", "0.2ps", "--traj-freq", "10", "--log-freq", "10", "--rmsd", "@CA,C,N"]);
    run.arg(repository().join("worker/tests/data/built/gromacs.zip"));
    ok(&mut run);
    let report = fs::read_to_string(service.folder().join("gromacs-run/report.md")).unwrap();
    for part in ["# gromacs.zip", "1166 atoms", "GROMACS, topol.top, as in its files", "| built | "]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    let system = report.split("### Job").next().unwrap();
    assert!(!system.contains("box_shape") && !system.contains("| pH |"), "{system}");
    let files = service.json(&["file", "list"]);
    assert_eq!((&files[0]["name"], &files[0]["type"]), (&json!("gromacs.zip"), &json!("system")));
}

#[test]
fn files_of_a_built_system_are_planned_together() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.prmtop", "%VERSION\n"), ("a.rst7", "x\n"), ("a.pdb", ATOM)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let plan =
        ok(&mut molbox(folder.path(), &["run", "a.prmtop", "a.rst7", "--dry-run", "--json"]));
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["built"], json!(["a.prmtop", "a.rst7"]));
    assert_eq!(plan["system"], json!({"box_name": "a"}), "the files decide the rest");
    let mut run = molbox(folder.path(), &["run", "a.pdb", "a.rst7", "--dry-run"]);
    let (code, error) = failure(&mut run);
    assert!(code == 5 && error["message"].as_str().unwrap().contains("have a topology"), "{error}");
    let mut run = molbox(folder.path(), &["run", "a.prmtop", "a.pdb", "--dry-run", "--ph", "6"]);
    let (code, error) = failure(&mut run);
    assert!(
        code == 5 && error["message"].as_str().unwrap().contains("beside the files"),
        "{error}"
    );
}

#[test]
fn a_path_that_is_not_text_is_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let ligand = std::ffi::OsStr::from_bytes(b"\xff.sdf");
    for (name, text) in [(std::ffi::OsStr::new("a.pdb"), ATOM), (ligand, MOLECULE)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut run = molbox(folder.path(), &["run", "a.pdb", "--output", "out", "--ligand"]);
    let (code, error) = failure(run.arg(ligand).env("MOLBOX_API_KEY", "mbx_any"));
    assert_eq!(code, 5, "{error}");
    assert!(error["message"].as_str().unwrap().ends_with("a path must be UTF-8"), "{error}");
    assert!(!folder.path().join("out").exists(), "nothing is begun");
}

#[test]
fn an_assistant_resumes_no_run_that_leads_out_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("run")).unwrap();
    let secret = folder.path().join("secret.sdf");
    fs::write(&secret, "a secret").unwrap();
    let state = |plan: Value| {
        let mut state =
            json!({"id": "run-1", "files": [], "system": null, "replicas": [], "is_done": false});
        state["plan"] =
            json!({"structure": "1L2Y", "system": {}, "job": {}, "analysis": null, "replicas": 1});
        for (field, value) in plan.as_object().unwrap() {
            state["plan"][field] = value.clone();
        }
        fs::write(root.join("run/molbox-run.json"), state.to_string()).unwrap();
    };
    let resumed = || {
        let mut mcp = molbox(folder.path(), &["mcp", "--root", "root"]);
        mcp.env("MOLBOX_API_KEY", "mbx_none").env("MOLBOX_BASE_URL", "http://127.0.0.1:9/local");
        let messages = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "molbox_run", "arguments": {"output": "run", "resume": true}}}),
        ];
        let done = with_input(&mut mcp, &messages.map(|it| format!("{it}\n")).concat());
        let answers = String::from_utf8(done.stdout).unwrap();
        let answer = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let answer = answer.into_iter().find(|it| it["id"] == 2).expect("it answers");
        answer["result"]["structuredContent"]["error"]["message"].as_str().unwrap().to_owned()
    };
    for plan in [
        json!({"structure": secret}),
        json!({"ligands": [secret]}),
        json!({"ligands": ["../secret.sdf"]}),
        json!({"built": [secret]}),
        json!({"force_field": secret}),
    ] {
        state(plan.clone());
        let message = resumed();
        assert!(message.contains("is not in"), "{plan}: {message}");
    }
    state(json!({}));
    symlink(folder.path(), root.join("run/replica_1")).unwrap();
    let message = resumed();
    assert!(message.contains("replica_1: is a link"), "{message}");
}

#[test]
fn a_mask_that_cannot_be_read_is_refused_before_the_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "--rmsd",
        "--rmsf",
        "--distance",
        "--hbond",
        "--contact",
        "--gyration",
        "--surface",
        "--secondary-structure",
        "--cluster",
        "--dihedral",
        "--native-contact",
        "--rdf",
        "--density",
        "--pca",
        "--lipid",
        "--end-to-end",
    ];
    for flag in flags {
        let words = ["run", "1L2Y", "--dry-run", flag, "@CA&"];
        let (code, error) = failure(&mut molbox(folder.path(), &words));
        assert_eq!(code, 5, "{flag}: {error}");
        assert!(error["message"].as_str().unwrap().contains("mask \"@CA&\""), "{flag}: {error}");
    }
    ok(&mut molbox(folder.path(), &["run", "1L2Y", "--dry-run", "--rdf", "@CA :HOH@O"]));
}
