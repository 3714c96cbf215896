//! The whole workflow with one command.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Service, ok, python, repository};

#[test]
fn an_interrupted_run_is_taken_up_and_ends_with_a_report() {
    // `cargo xtask test` makes the worker's environment.
    if python().is_none() {
        return;
    }
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    let parts = json!({"job": {"equilibration": [{"type": "NVT", "time": "0.4 ps", "log_freq": 20}], "minimization_steps": 50}});
    fs::write(service.folder().join("parts.json"), parts.to_string()).unwrap();
    let run = [
        "run",
        pdb.to_str().unwrap(),
        "--preset",
        "quick",
        "--file",
        "parts.json",
        "--minimum-padding",
        "7A",
        "--time",
        "1ps",
        "--traj-freq",
        "25",
        "--log-freq",
        "25",
        "--replicas",
        "2",
        "--rmsd",
        "@CA",
        "--output",
        "villin",
    ];
    let mut first = service.molbox(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
    assert!(Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap().success());
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("molbox run --resume villin"), "{said}");

    let summary: Value = serde_json::from_str(&ok(&mut service.molbox(&["run", "--resume"]))).unwrap();
    assert_eq!(summary["replicas"].as_array().unwrap().len(), 2);
    assert_eq!(service.json(&["system", "list"]).as_array().unwrap().len(), 1, "nothing is submitted twice");
    assert_eq!(service.json(&["job", "list"]).as_array().unwrap().len(), 2, "nothing is submitted twice");
    let report = fs::read_to_string(service.folder().join("villin/report.md")).unwrap();
    for part in ["How to cite", "OpenMM", "ff14SB", "\"integration_timestep\": 4"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let pictures: Vec<&str> =
        report.lines().filter_map(|line| line.strip_prefix("![")?.split('(').nth(1)?.strip_suffix(')')).collect();
    assert!(pictures.len() >= 4, "energies and RMSD of two replicas: {pictures:?}");
    for picture in pictures {
        assert!(service.folder().join("villin").join(picture).exists(), "{picture}");
    }
    // All that is left to do is to say where everything is.
    ok(&mut service.molbox(&["run", "--resume", "villin"]));

    let job = summary["replicas"][0]["job_id"].as_str().unwrap();
    assert!(service.ok(&["job", "log", job]).contains("production"));
    let watched = service.ok(&["job", "watch", job]);
    assert_eq!(serde_json::from_str::<Value>(watched.lines().last().unwrap()).unwrap()["status"], "succeeded");
    assert_eq!(service.json(&["analysis", "data", job])["job_id"], job);
    let folder = service.json(&["job", "download", job, "-o", "bundle.zip", "--unpack"])["folder"].clone();
    let bundle = service.folder().join(folder.as_str().unwrap());
    let trajectory = bundle.join("production.dcd");
    assert!(trajectory.exists());
    let structure = fs::read_dir(&bundle)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "pdb"));
    if let Some(structure) = structure {
        let files = [trajectory.to_str().unwrap(), structure.to_str().unwrap()];
        let here = service.json(&["analyze", files[0], files[1], "--rmsd", "@CA", "-o", "tables"]);
        assert_eq!(here["tables"][0]["kind"], "rmsd");
        assert!(service.folder().join("tables/rmsd.png").exists());
    }
}
