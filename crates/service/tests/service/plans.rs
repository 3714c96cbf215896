//! What workers are given: examples of `task.json`, which the worker's tests read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Service, example, python, wait_for};

/// Keeps `task.json` beside itself, and ends each task at once, as if it had been carried out.
const WORKER: &str = r#"
import json, os, shutil, sys

folder, here = sys.argv[-1], os.path.dirname(os.path.abspath(__file__))
task = json.load(open(folder + "/task.json"))
names = ["N", "CA", "C", "O", "CB", "O", "H1", "H2", "NA", "CL"]
topology = {
    "atoms": {
        "name": names,
        "element": ["N", "C", "C", "O", "C", "O", "H", "H", "Na", "Cl"],
        "mass": [14.0, 12.0, 12.0, 16.0, 12.0, 16.0, 1.0, 1.0, 23.0, 35.5],
        "residue": [0, 0, 0, 0, 0, 1, 1, 1, 2, 3],
    },
    "residues": {
        "name": ["ALA", "HOH", "NA", "CL"],
        "id": ["1", "2", "3", "4"],
        "insertion": ["", "", "", ""],
        "chain": [0, 1, 1, 1],
    },
    "chains": {"id": ["A", "B"]},
    "bonds": [[0, 1], [1, 2], [2, 3], [1, 4], [5, 6], [5, 7]],
    "positions": [[0.1 * i, 0.0, 0.0] for i in range(len(names))],
}
summary = {
    "atoms": len(names), "residues": 4, "chains": 2, "molecules": {"protein": 1, "water": 1, "NA": 1, "CL": 1},
    "net_charge": 0.0, "box_vectors": [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]], "volume": 27.0,
    "density": 1.0, "force_field": "amber14", "water_type": "tip3p", "seed": task["seed"],
    "solvent_residues": ["CL", "HOH", "NA"],
}
came_to = {
    "build": {"summary": summary},
    "simulate": {"stages": [], "platform": "CPU", "engine": "openmm"},
    "environment": {"platform": "CPU", "platforms": ["CPU"], "ligand_tools": True},
}
if task["kind"] == "build":
    os.makedirs(folder + "/work/output", exist_ok=True)
    json.dump(topology, open(folder + "/work/output/topology.json", "w"))
    for name in ("system.xml", "state.xml"):
        open(f"{folder}/work/output/{name}", "w").write("<Nothing/>")
shutil.copy(folder + "/task.json", f"{here}/{task['id']}.partial")
os.rename(f"{here}/{task['id']}.partial", f"{here}/{task['id']}.json")
result = {"attempt": task["attempt"], "status": "succeeded", "warnings": [], "versions": {}, **came_to[task["kind"]]}
json.dump(result, open(folder + "/work/result.json", "w"))
"#;

const FORCE_FIELD: &str = "<ForceField>\n <AtomTypes/>\n</ForceField>\n";

/// Where the examples lie.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worker/tests/contract")
}

/// What differs from run to run and from machine to machine is replaced by something of its form.
fn settled(mut task: Value) -> String {
    fn settle(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member.as_str()) {
                        ("id" | "file_id", Some(id)) => {
                            let kind = id.split_once('_').map(|(kind, _)| kind.to_owned());
                            kind.into_iter()
                                .for_each(|kind| *member = format!("{kind}_{:020}", 1).into());
                        }
                        ("boot", Some(_)) => {
                            *member = "00000000-0000-0000-0000-000000000000".into()
                        }
                        ("cache", Some(_)) => *member = "/var/lib/molbox/cache/1".into(),
                        _ => settle(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(settle),
            _ => {}
        }
    }
    settle(&mut task);
    serde_json::to_string_pretty(&task).unwrap() + "\n"
}

async fn submit(service: &Service, key: &str, what: &str, body: &Value) -> Value {
    let request = reqwest::Client::new().post(format!("{}/submit/{what}", service.base_url));
    let request = request
        .header("x-api-key", key)
        .header("content-type", "application/json")
        .body(body.to_string());
    let response = request.send().await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert!(status.is_success(), "{body}: {text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn what_workers_are_given_is_what_their_tests_read() {
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("python");
    let real = python().expect("the workers' environment");
    fs::write(&fake, format!("#!{}\n{WORKER}", real.display())).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let service = Service::start_with(&[
        &format!("worker.python={:?}", fake.display().to_string()),
        // It writes beside itself.
        "worker.sandbox=\"off\"",
        "worker.cpus=1",
        "worker.platform=\"CPU\"",
    ]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let xylene =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worker/tests/data/p-xylene.mol2");
    molbox.upload(xylene).name("xylene").await.unwrap();
    molbox.upload(write("mine.xml", FORCE_FIELD)).name("mine").await.unwrap();
    molbox.upload(write("topol.top", "[ system ]\n")).await.unwrap();
    molbox.upload(write("conf.gro", "x\n 0\n 3 3 3\n")).await.unwrap();
    let given = |id: &str| -> Value {
        let path = folder.path().join(format!("{id}.json"));
        wait_for("the worker has its task", || serde_json::from_slice(&fs::read(&path).ok()?).ok())
    };

    let mut tasks = BTreeMap::from([("task_environment", given("environment"))]);
    let builds = [
        ("task_build", json!({ "seed": 7 })),
        (
            "task_build_protein",
            json!({
                "protein": "villin", "chain_id": "A", "keep_Hs": true, "pH": 6.5, "force_field": "amber19",
                "box_shape": "dodecahedron", "minimum_padding": 0.6, "ions": "KBr", "concentration": 0.1, "seed": 7
            }),
        ),
        (
            "task_build_ligand",
            json!({
                "protein": "villin", "ligands": ["xylene", "xylene"], "ligand_residue_names": ["XYL", "XY2"],
                "ligand_rotations": [[10, 20, 30], []], "ligand_translations": [[1, 2, 3], []], "seed": 7
            }),
        ),
        ("task_build_membrane", json!({ "protein": "villin", "membrane": "POPC", "seed": 7 })),
        ("task_build_built", json!({ "built": ["topol.top", "conf.gro"], "seed": 7 })),
        ("task_build_force_field", json!({ "force_field": "mine", "seed": 7 })),
        ("task_build_force_field_added", json!({ "force_field": "charmm36, mine", "seed": 7 })),
    ];
    let mut systems = BTreeMap::new();
    for (name, request) in builds {
        let system = submit(&service, &key, "system", &request).await;
        let id = system["system_id"].as_str().unwrap().to_owned();
        molbox.wait_system(&id).await.unwrap();
        tasks.insert(name, given(&id));
        systems.insert(name, id);
    }
    let (system, membrane) = (&systems["task_build"], &systems["task_build_membrane"]);
    let stage = |ensemble: &str| json!({ "type": ensemble, "time": 0.0002, "traj_freq": 50, "log_freq": 50 });
    let jobs = [
        ("task_simulate", json!({ "box_id": system, "seed": 7 })),
        (
            "task_simulate_nvt",
            json!({
                "box_id": system, "equilibration": [], "production": stage("NVT"), "minimization_steps": 50,
                "temperature": 310.15, "friction": 2, "integration_timestep": 1, "ewald_error_tolerance": 0.001,
                "non_bonded_cutoff": 0.9, "seed": 7
            }),
        ),
        (
            "task_simulate_npt",
            json!({
                "box_id": system, "equilibration": [stage("NVT"), stage("NPT"), {
                    "restraint_mask": ":1@CA", "restraint_force": 500, "time": 0.001
                }],
                "production": stage("NPT"), "pressure": 1.01325, "integration_timestep": 4, "seed": 7
            }),
        ),
        (
            "task_simulate_membrane",
            json!({
                "box_id": membrane, "equilibration": [stage("NVT")], "production": stage("NPT"),
                "surface_tension": 20, "seed": 7
            }),
        ),
    ];
    for (name, request) in jobs {
        let job = submit(&service, &key, "job", &request).await;
        let id = job["job_id"].as_str().unwrap();
        molbox.wait_job(id).await.unwrap();
        tasks.insert(name, given(id));
    }

    let is_blessing = std::env::var_os("MOLBOX_BLESS").is_some();
    for (name, task) in &tasks {
        let path = examples().join(format!("{name}.json"));
        let task = settled(task.clone());
        if is_blessing {
            fs::create_dir_all(examples()).unwrap();
            fs::write(&path, &task).unwrap();
        }
        let example = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(example, task, "{} is stale; MOLBOX_BLESS=1 renews it", path.display());
    }
    let known = fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in known.filter(|name| name.starts_with("task_")) {
        assert!(
            tasks.contains_key(name.trim_end_matches(".json")),
            "nothing writes {name} any more"
        );
    }
}
