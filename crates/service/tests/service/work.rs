//! Work: builds and simulations by a real worker, through the client.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use crate::common::{Service, example, kill_task, python, wait_for};
use molbox::workflow::types::{EquilibrationStep, JobRecord, ProductionParams, SystemRecord};
use molbox::{Client, Error};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A box of salt water: the least that can be simulated.
async fn water(molbox: &Client) -> SystemRecord {
    let system = molbox.system_submit().body_map(|s| s.box_name("water").minimum_padding(1.2).seed(7)).send().await;
    let id = system.unwrap().system_id.clone();
    molbox.wait_system(&id).await.unwrap()
}

fn stage() -> molbox::workflow::types::builder::EquilibrationStep {
    EquilibrationStep::builder()
}

async fn short_job(molbox: &Client, system: &SystemRecord) -> JobRecord {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .batch_name("short")
            .batch_index(3)
            .minimization_steps(20)
            .equilibration([stage().time(0.0001).log_freq(10)])
            .production(ProductionParams::builder().time(0.0002).traj_freq(25).log_freq(10))
    });
    job.send().await.unwrap().into_inner()
}

fn archive(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut zip = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
    (0..zip.len())
        .map(|index| {
            let mut file = zip.by_index(index).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            (file.name().unwrap().split_once('/').unwrap().1.to_owned(), bytes)
        })
        .collect()
}

#[tokio::test]
async fn a_protein_goes_from_a_file_to_a_bundle() {
    let service = Service::start();
    let molbox = service.client("ada");
    let file = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = molbox
        .system_submit()
        .body_map(|s| {
            s.protein("villin").box_shape("dodecahedron").minimum_padding(0.5).ions("KCl").concentration(0.3).seed(5)
        })
        .send()
        .await
        .unwrap();
    assert_eq!((system.status.as_str(), system.attempts), ("queued", 0));
    let listed = molbox.system_list().send().await.unwrap();
    assert_eq!(listed.items[0].system_id, system.system_id, "visible at once");
    let mut stages = Vec::new();
    let system = molbox
        .wait_system(&system.system_id)
        .on_progress(|s| stages.extend(s.progress.as_ref().and_then(|p| p.stage.clone())))
        .await
        .unwrap();
    assert!(!stages.is_empty(), "progress was seen while it was built");
    let summary = system.summary.unwrap();
    assert_eq!(summary.molecules["protein"], 1);
    assert!(summary.molecules.contains_key("K") && !summary.molecules.contains_key("NA"));
    assert!(summary.net_charge.get().abs() < 1e-3);

    // No box is named: the system submitted last is meant, and the answer says which.
    let job = molbox
        .job_submit()
        .body_map(|job| {
            job.minimization_steps(300)
                .integration_timestep(4)
                .equilibration([stage().time(0.0002).restraint_mask("@CA").type_("NPT")])
                .production(ProductionParams::builder().time(0.0004).traj_freq(50))
        })
        .send()
        .await
        .unwrap();
    assert_eq!(job.box_id, system.system_id);
    assert_eq!(job.parameters.temperature.unwrap().get(), 300.0, "defaults are shown");
    let stage = &job.parameters.equilibration.as_ref().unwrap()[0];
    assert_eq!(stage.restraint_force.unwrap().get(), 1000.0);
    assert_eq!(job.request.temperature, None, "and so is what was asked");
    let early = molbox.job_download().job_id(&job.job_id).send().await.err().unwrap();
    assert_eq!(early.status().unwrap(), 409);
    let job = molbox.wait_job(&job.job_id).await.unwrap();
    let names: Vec<&str> = job.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["minimization", "equilibration_1", "production"]);
    assert_eq!(job.platform.as_deref(), Some("CPU"));
    assert_eq!(job.attempts, 1);

    let folder = tempfile::tempdir().unwrap();
    let path = molbox.download_job(&job.job_id, folder.path().join("results.zip")).await.unwrap();
    let files = archive(&path);
    for name in [
        "manifest.json",
        "log.txt",
        "minimization.pdb",
        "equilibration_1.pdb",
        "equilibration_1.csv",
        "production.pdb",
        "production.csv",
        "production.dcd",
        "system/prepared.pdb",
        "system/system.pdb",
        "system/system.cif",
        "system/system.xml",
        "system/log.txt",
    ] {
        assert!(files.contains_key(name), "{name} is missing from {:?}", files.keys());
    }
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    for entry in manifest["files"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap().split_once('/').unwrap().1;
        let digest: String = Sha256::digest(&files[name]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(entry["sha256"], digest, "{name}");
        assert_eq!(entry["size_bytes"], files[name].len(), "{name}");
    }
    assert_eq!(manifest["versions"]["openmm"], "8.6.1");
    assert_eq!(manifest["seed"], job.parameters.seed.unwrap());
    assert_eq!(manifest["parameters"]["integration_timestep"], 4.0);
    let n_atoms = summary.atoms as usize;
    assert_eq!(files["production.dcd"].len(), 276 + 2 * (56 + 3 * (4 * n_atoms + 8)));

    // The same job gives the same bytes, whole or in parts, and other programs can read them.
    let again = molbox.download_job(&job.job_id, folder.path().join("again.zip")).await.unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&path).unwrap());
    if let Some(python) = python() {
        let code = "import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is not None)";
        assert!(Command::new(python).args(["-c", code]).arg(&path).status().unwrap().success());
    }
    let system = molbox.download_system(&system.system_id, folder.path().join("system.zip")).await.unwrap();
    assert!(archive(&system).contains_key("topology.json"));
    drop(file);
}

#[tokio::test]
async fn a_build_that_cannot_be_ends_as_failed_with_what_to_do() {
    let service = Service::start();
    let molbox = service.client("ada");
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = molbox.system_submit().body_map(|s| s.protein("villin").chain_id("A,Q")).send().await.unwrap();
    let error = molbox.wait_system(&system.system_id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    let failure = task.failure.as_ref().unwrap();
    assert_eq!(failure.code, "no_such_chain");
    assert!(failure.message.contains("no chain Q; it has A"), "{}", failure.message);
    assert!(failure.log.iter().any(|line| line.contains("no chain Q")), "{:?}", failure.log);
    let refused = molbox.job_submit().body_map(|j| j.box_id(system.system_id.as_str())).send().await.unwrap_err();
    assert_eq!(refused.status().unwrap(), 409);
    let folder = tempfile::tempdir().unwrap();
    let bundle = molbox.download_system(&system.system_id, folder.path().join("failed.zip")).await.unwrap();
    assert!(archive(&bundle).contains_key("log.txt"), "the log of a failure can be had");
}

#[tokio::test]
async fn a_simulation_that_blows_up_says_where() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .temperature(1e7)
            .integration_timestep(5)
            .minimization_steps(0)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.01))
    });
    let job = job.send().await.unwrap();
    let error = molbox.wait_job(&job.job_id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    let failure = task.failure.as_ref().unwrap();
    assert_eq!((failure.code.as_str(), failure.stage.as_deref()), ("unstable", Some("production")));
    assert!(failure.remedy.is_some() && failure.step.is_some());
}

#[tokio::test]
async fn what_a_job_cannot_be_is_told_before_it_runs() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .integration_timestep(6)
            .non_bonded_cutoff(1.3)
            .ewald_error_tolerance(0.5)
            .equilibration([
                stage().restraint_mask(":XYZ"),
                stage().restraint_mask("@CA &"),
                stage().restraint_force(5),
                stage().time(0.001).traj_freq(1000),
            ])
            .production(ProductionParams::builder().time(1e9))
    });
    let error = job.send().await.unwrap_err();
    let mut fields: Vec<String> = error.violations().iter().map(|violation| violation.path()).collect();
    fields.sort();
    let expected = [
        "equilibration[0].restraint_mask",
        "equilibration[1].restraint_mask",
        "equilibration[2].restraint_mask",
        "equilibration[3].traj_freq",
        "ewald_error_tolerance",
        "integration_timestep",
        "non_bonded_cutoff",
        "production.time",
    ];
    assert_eq!(fields, expected, "{error}");
}

#[tokio::test]
async fn a_simulation_survives_the_death_of_the_service_and_of_its_worker() {
    let mut service = Service::start_with(&["worker.checkpoint_seconds=1"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(20)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.006).traj_freq(100).log_freq(50))
    });
    let id = job.send().await.unwrap().job_id.clone();
    let folder = service.data.join("tasks").join(id.as_str());
    let committed = |after: u64| {
        let text = std::fs::read_to_string(folder.join("commit.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["step"].as_u64().filter(|step| *step > after)
    };

    // The service dies; the worker goes on and is adopted.
    let step = wait_for("something is committed", || committed(0));
    service.kill_and_restart();
    let step = wait_for("more is committed without a new start", || committed(step));
    let molbox = service.client_with(&key);
    let job = molbox.job_view().job_id(id.as_str()).send().await.unwrap();
    assert_eq!((job.status.as_str(), job.attempts), ("running", 1));

    // The worker dies with all around it; it is started again from what it committed.
    assert!(kill_task(&folder));
    wait_for("it is going on", || committed(step));
    let job = molbox.wait_job(&id).await.unwrap();
    assert_eq!(job.attempts, 2);
    let stage = job.stages.iter().find(|stage| stage.name == "production").unwrap();
    assert_eq!((stage.steps, stage.frames), (3000, 30));

    let out = tempfile::tempdir().unwrap();
    let files = archive(&molbox.download_job(&id, out.path().join("results.zip")).await.unwrap());
    let log = String::from_utf8(files["production.csv"].clone()).unwrap();
    let steps: Vec<u64> = log.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(steps, (1..=60).map(|n| n * 50).collect::<Vec<u64>>());
    let n_atoms = system.summary.unwrap().atoms as usize;
    assert_eq!(files["production.dcd"].len(), 276 + 30 * (56 + 3 * (4 * n_atoms + 8)));
}

#[tokio::test]
async fn a_worker_that_dies_each_time_ends_as_failed() {
    let service = Service::start_with(&["worker.python=\"/bin/false\"", "worker.attempts=2"]);
    let molbox = service.client("ada");
    let system = molbox.system_submit().send().await.unwrap();
    let error = molbox.wait_system(&system.system_id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    assert_eq!(task.failure.as_ref().unwrap().code, "worker_died");
    let system = molbox.system_view().system_id(&system.system_id).send().await.unwrap();
    assert_eq!(system.attempts, 2);
}

#[tokio::test]
async fn a_repeated_submission_does_nothing_again() {
    let service = Service::start();
    let molbox = service.client("ada");
    let submit =
        |name: &'static str| molbox.system_submit().idempotency_key("once").body_map(move |s| s.box_name(name)).send();
    let (first, again) = tokio::join!(submit("a"), submit("a"));
    assert_eq!(first.unwrap().system_id, again.unwrap().system_id);
    assert_eq!(submit("b").await.unwrap_err().status().unwrap(), 409);
    assert_eq!(molbox.system_list().send().await.unwrap().items.len(), 1);
    service.client("bob").system_submit().idempotency_key("once").send().await.unwrap();
}

#[tokio::test]
async fn no_account_sees_what_belongs_to_another() {
    let service = Service::start();
    let (ada, bob) = (service.client("ada"), service.client("bob"));
    let file = ada.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = water(&ada).await;
    let job = short_job(&ada, &system).await;
    ada.wait_job(&job.job_id).await.unwrap();

    let refused = [
        bob.file_view().file_id(&file.file_id).send().await.map(drop),
        bob.file_download().file_id(&file.file_id).send().await.map(drop),
        bob.file_delete().file_id(&file.file_id).send().await.map(drop),
        bob.file_register().body_map(|f| f.file_id(file.file_id.as_str())).send().await.map(drop),
        bob.system_submit().body_map(|s| s.protein(file.file_id.as_str())).send().await.map(drop),
        bob.system_submit().body_map(|s| s.protein("villin")).send().await.map(drop),
        bob.system_view().system_id(&system.system_id).send().await.map(drop),
        bob.system_download().system_id(&system.system_id).send().await.map(drop),
        bob.system_delete().system_id(&system.system_id).send().await.map(drop),
        bob.system_cancel().system_id(&system.system_id).send().await.map(drop),
        bob.job_submit().body_map(|j| j.box_id(system.system_id.as_str())).send().await.map(drop),
        bob.job_view().job_id(&job.job_id).send().await.map(drop),
        bob.job_log().job_id(&job.job_id).send().await.map(drop),
        bob.job_watch().job_id(&job.job_id).send().await.map(drop),
        bob.job_download().job_id(&job.job_id).send().await.map(drop),
        bob.job_delete().job_id(&job.job_id).send().await.map(drop),
        bob.job_cancel().job_id(&job.job_id).send().await.map(drop),
        bob.job_extend().job_id(&job.job_id).body_map(|e| e.time(1)).send().await.map(drop),
    ];
    for (index, result) in refused.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().status().map(|s| s.as_u16()), Some(404), "number {index}");
    }
    assert!(bob.file_list().send().await.unwrap().items.is_empty());
    assert!(bob.system_list().send().await.unwrap().items.is_empty());
    assert!(bob.job_list().send().await.unwrap().items.is_empty());
    let none = bob.job_submit().send().await.unwrap_err();
    assert_eq!(none.status().unwrap(), 422, "the latest system of another account is no default");
}
