//! Work: builds and simulations by a real worker, through the client.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Service, example, kill_task, processes, python, wait_for};
use crate::holds::FakeWorker;
use futures::StreamExt;
use molbox::workflow::types::{EquilibrationStep, JobRecord, ProductionParams, SystemRecord};
use molbox::{Client, Error};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A box of salt water: the least that can be simulated.
pub(crate) async fn water(molbox: &Client) -> SystemRecord {
    let system = molbox
        .system_submit()
        .body_map(|s| s.box_name("water").minimum_padding(1.2).seed(7))
        .send()
        .await;
    let id = system.unwrap().system_id.clone();
    molbox.wait_system(&id).await.unwrap()
}

fn stage() -> molbox::workflow::types::builder::EquilibrationStep {
    EquilibrationStep::builder()
}

pub(crate) async fn short_job(molbox: &Client, system: &SystemRecord) -> JobRecord {
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

pub(crate) fn archive(path: &Path) -> BTreeMap<String, Vec<u8>> {
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
            s.box_name("villin in brine")
                .protein("villin")
                .box_shape("dodecahedron")
                .minimum_padding(0.5)
                .ions("KCl")
                .concentration(0.3)
                .seed(5)
        })
        .send()
        .await
        .unwrap();
    assert_eq!((system.status.as_str(), system.attempts), ("queued", 0));
    let listed = molbox.system_list().send().await.unwrap();
    assert_eq!(listed.items[0].system_id, system.system_id, "visible at once");
    assert_eq!(listed.items[0].box_name.as_deref(), Some("villin in brine"));
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
    // Nothing for DNA, RNA and lipids, of which the force field has parameters too.
    assert_eq!(system.citations.len(), 3, "{:?}", system.citations);
    for (citation, part) in system.citations.iter().zip(["ff14SB", "TIP3P", "Ions"]) {
        assert!(citation.contains(part) && citation.contains("doi:10."), "{citation}");
    }

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
    for part in ["OpenMM", "barostat", "Heavy hydrogens"] {
        assert!(job.citations.iter().any(|citation| citation.contains(part)), "{part}");
    }
    assert!(job.citations.ends_with(&system.citations), "{:?}", job.citations);

    let folder = tempfile::tempdir().unwrap();
    let path = molbox.download_job(&job.job_id, folder.path().join("results.zip")).await.unwrap();
    let files = archive(&path);
    for name in [
        "manifest.json",
        "README.txt",
        "log.txt",
        "minimization.pdb",
        "equilibration_1.pdb",
        "equilibration_1.csv",
        "production.pdb",
        "production.csv",
        "production.dcd",
        "production.method.json",
        "ro-crate-metadata.json",
        "system/input/protein.pdb",
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
        let digest: String =
            Sha256::digest(&files[name]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(entry["sha256"], digest, "{name}");
        assert_eq!(entry["size_bytes"], files[name].len(), "{name}");
    }
    assert_eq!(files["system/input/protein.pdb"], fs::read(example("1vii.pdb")).unwrap());
    let of_system: Value = serde_json::from_slice(&files["system/manifest.json"]).unwrap();
    assert_eq!(
        of_system["inputs"],
        serde_json::json!([{"field": "protein", "file_id": file.file_id, "file": "protein.pdb", "name": "villin"}])
    );
    assert_eq!(of_system["settings"]["force_field"], "amber14", "defaults are filled in");
    check_crate(&files);
    let method: Value = serde_json::from_slice(&files["production.method.json"]).unwrap();
    assert_eq!(method["integrator"]["timestep_fs"], 4.0);
    assert_eq!(method["nonbonded"]["method"], "PME");
    assert_eq!(manifest["versions"]["openmm"], "8.6.1");
    assert_eq!(manifest["seed"], job.parameters.seed.unwrap());
    assert_eq!(manifest["citations"], Value::from(job.citations));
    assert_eq!(manifest["parameters"]["integration_timestep"], 4.0);
    let n_atoms = summary.atoms as usize;
    assert_eq!(files["production.dcd"].len(), 276 + 2 * (56 + 3 * (4 * n_atoms + 8)));

    // The same job gives the same bytes, whole or in parts, and other programs can read them.
    let again = molbox.download_job(&job.job_id, folder.path().join("again.zip")).await.unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&path).unwrap());
    if let Some(python) = python() {
        let code =
            "import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is not None)";
        assert!(Command::new(python).args(["-c", code]).arg(&path).status().unwrap().success());
    }
    let system =
        molbox.download_system(&system.system_id, folder.path().join("system.zip")).await.unwrap();
    assert!(archive(&system).contains_key("topology.json"));
    drop(file);
}

/// Whether a bundle is a research object by RO-Crate 1.1 and Process Run Crate 0.5, as far as that
/// can be told without its contexts: every file described with its digest, every reference with
/// its entity, every action with its software.
fn check_crate(files: &BTreeMap<String, Vec<u8>>) {
    let content: Value = serde_json::from_slice(&files["ro-crate-metadata.json"]).unwrap();
    assert_eq!(content["@context"][0], "https://w3id.org/ro/crate/1.1/context");
    let graph = content["@graph"].as_array().unwrap();
    let entities: BTreeMap<&str, &Value> =
        graph.iter().map(|entity| (entity["@id"].as_str().unwrap(), entity)).collect();
    assert_eq!(entities.len(), graph.len(), "each is described once");
    let descriptor = entities["ro-crate-metadata.json"];
    assert_eq!(descriptor["conformsTo"]["@id"], "https://w3id.org/ro/crate/1.1");
    assert_eq!(descriptor["about"]["@id"], "./");
    let root = entities["./"];
    assert_eq!(root["conformsTo"]["@id"], "https://w3id.org/ro/wfrun/process/0.5");
    for field in ["name", "description", "datePublished", "license", "hasPart", "mentions"] {
        assert!(!root[field].is_null(), "{field}");
    }
    fn references<'v>(value: &'v Value, is_entity: bool, out: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                if !is_entity && let Some(id) = members.get("@id") {
                    out.push(id.as_str().unwrap());
                }
                members.values().for_each(|member| references(member, false, out));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, false, out)),
            _ => {}
        }
    }
    let mut referred = Vec::new();
    graph.iter().for_each(|entity| references(entity, true, &mut referred));
    for id in referred {
        let is_outside = ["https://w3id.org/ro/crate/1.1", "http://schema.org/"];
        assert!(
            entities.contains_key(id) || is_outside.iter().any(|outside| id.starts_with(outside)),
            "{id} is referred to, and not there"
        );
    }
    for (name, content) in files.iter().filter(|(name, _)| *name != "ro-crate-metadata.json") {
        let entity = entities.get(name.as_str()).unwrap_or_else(|| panic!("{name}"));
        let digest: String =
            Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (&entity["@type"], &entity["sha256"]),
            (&"File".into(), &digest.into()),
            "{name}"
        );
        assert_eq!(entity["contentSize"], content.len().to_string(), "{name}");
    }
    let ids = |value: &Value| -> Vec<String> {
        let all = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        all.iter().filter_map(|it| Some(it["@id"].as_str()?.to_owned())).collect()
    };
    for (action, input, output) in [
        ("#build", "system/input/protein.pdb", "system/system.xml"),
        ("#simulation", "system/system.xml", "production.dcd"),
    ] {
        let action = entities[action];
        assert_eq!(action["@type"], "CreateAction");
        let software = entities[ids(&action["instrument"])[0].as_str()];
        assert_eq!(software["@type"], "SoftwareApplication");
        assert!(ids(&software["softwareRequirements"]).iter().any(|id| id.contains("openmm")));
        assert!(ids(&action["object"]).contains(&input.to_owned()), "{action}");
        assert!(ids(&action["result"]).contains(&output.to_owned()), "{action}");
        let times = ["startTime", "endTime"]
            .map(|field| action[field].as_str().unwrap_or_else(|| panic!("{field} of {action}")));
        let [start, end] = times.map(|time| time.parse::<jiff::Timestamp>().unwrap());
        assert!(start < end, "{action}");
    }
    assert_eq!(entities["#simulation/parameter/integration_timestep"]["value"], 4.0);
    assert!(entities.keys().any(|id| id.starts_with("https://doi.org/10.")), "what to cite");
}

#[tokio::test]
async fn a_bundle_keeps_what_it_was_built_from_when_that_is_deleted() {
    let service = Service::start();
    let molbox = service.client("ada");
    let file = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = molbox.system_submit().body_map(|s| s.protein("villin").minimum_padding(0.5));
    let system = system.send().await.unwrap();
    molbox.wait_system(&system.system_id).await.unwrap();
    molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("system.zip");
    let bundle = molbox.download_system(&system.system_id, &path).await.unwrap();
    let files = archive(&bundle);
    assert_eq!(files["input/protein.pdb"], fs::read(example("1vii.pdb")).unwrap());
    let described: Value = serde_json::from_slice(&files["ro-crate-metadata.json"]).unwrap();
    let graph = described["@graph"].as_array().unwrap();
    let input = graph.iter().find(|entity| entity["@id"] == "input/protein.pdb").unwrap();
    assert_eq!(input["alternateName"], "villin");
}

#[tokio::test]
async fn a_build_that_cannot_be_ends_as_failed_with_what_to_do() {
    let service = Service::start();
    let molbox = service.client("ada");
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = molbox
        .system_submit()
        .body_map(|s| s.protein("villin").chain_id("A,Q"))
        .send()
        .await
        .unwrap();
    let error = molbox.wait_system(&system.system_id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    let failure = task.failure.as_ref().unwrap();
    assert_eq!(failure.code, "no_such_chain");
    assert!(failure.message.contains("no chain Q; it has A"), "{}", failure.message);
    assert!(
        failure.log.iter().any(|line| line.contains("failed: no_such_chain: ")),
        "{:?}",
        failure.log
    );
    let refused = molbox
        .job_submit()
        .body_map(|j| j.box_id(system.system_id.as_str()))
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused.status().unwrap(), 409);
    let folder = tempfile::tempdir().unwrap();
    let bundle =
        molbox.download_system(&system.system_id, folder.path().join("failed.zip")).await.unwrap();
    assert!(archive(&bundle).contains_key("log.txt"), "the log of a failure can be had");
}

/// Submits a job that blows up in its production; its identifier.
pub(crate) async fn unstable_job(molbox: &Client, system: &SystemRecord) -> String {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .temperature(1e7)
            .integration_timestep(5)
            .minimization_steps(0)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.01))
    });
    job.send().await.unwrap().job_id.as_str().to_owned()
}

#[tokio::test]
async fn a_simulation_that_blows_up_says_where() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = unstable_job(&molbox, &system).await;
    let error = molbox.wait_job(&id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    let failure = task.failure.as_ref().unwrap();
    assert_eq!((failure.code.as_str(), failure.stage.as_deref()), ("unstable", Some("production")));
    assert!(failure.remedy.is_some() && failure.step.is_some());
    let record = molbox.job_view().job_id(id).send().await.unwrap();
    let ended: Vec<_> = record.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(ended, ["minimization"], "the stages before the one that failed");
}

#[tokio::test]
async fn a_ligand_goes_from_a_file_into_a_box() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("methane.sdf");
    // Hydrogens are added where a file has none.
    fs::write(&path, "methane\n  molbox          3D\n\n  1  0  0  0  0  0            999 V2000\n    0.1000    0.2000    0.3000 C   0  0\nM  END\n$$$$\n")
        .unwrap();
    molbox.upload(&path).name("methane").await.unwrap();
    let system = molbox
        .system_submit()
        .body_map(|s| {
            s.ligands(["methane"])
                .ligand_residue_names(["MTH"])
                .ligand_translations([vec![1.into(), 0.into(), 0.into()]])
                .minimum_padding(1.2)
        })
        .send()
        .await
        .unwrap();
    let system = molbox.wait_system(&system.system_id).await.unwrap();
    let summary = system.summary.unwrap();
    assert_eq!(summary.molecules["MTH"], 1);
    assert!(
        system.warnings.iter().any(|warning| warning.code == "ligand_hydrogens_added"),
        "{:?}",
        system.warnings
    );
}

#[tokio::test]
async fn a_finished_job_is_extended_under_its_identifier() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = short_job(&molbox, &system).await;
    let id = job.job_id.clone();
    let extend = || molbox.job_extend().job_id(&id).body_map(|more| more.time(0.0001)).send();
    let error = extend().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 409, "it has not ended: {error}");
    let before = molbox.wait_job(&id).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    molbox.download_job(&id, folder.path().join("before.zip")).await.unwrap();

    let extended = extend().await.unwrap().into_inner();
    let early = molbox.job_download().job_id(&id).send().await.err().unwrap();
    assert_eq!(early.status().unwrap(), 409, "the results of before are not its results");
    assert_eq!((extended.job_id.as_str(), extended.status.as_str()), (id.as_str(), "queued"));
    let after = molbox.wait_job(&id).await.unwrap();
    let production = after.stages.last().unwrap();
    assert_eq!(
        (production.name.as_str(), production.steps, production.frames),
        ("production", 150, 6)
    );
    assert_eq!(after.created_at, before.created_at);
    assert_eq!(after.stages[0], before.stages[0], "what came before is not run again");

    molbox.download_job(&id, folder.path().join("after.zip")).await.unwrap();
    let (first, second) =
        (archive(&folder.path().join("before.zip")), archive(&folder.path().join("after.zip")));
    let log = |files: &BTreeMap<String, Vec<u8>>| {
        String::from_utf8(files["production.csv"].clone()).unwrap()
    };
    assert!(log(&second).starts_with(&log(&first)), "the log grows");
    assert_eq!(log(&second).lines().count(), 1 + 15);
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    assert!(
        !second.keys().any(|name| name.contains("resume") || name.contains("checkpoint")),
        "{:?}",
        second.keys()
    );
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
    let mut fields: Vec<String> =
        error.violations().iter().map(|violation| violation.path()).collect();
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
async fn a_cutoff_that_the_box_shrinks_below_is_refused_before_it_runs() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let half = system.summary.as_ref().unwrap().box_vectors[0][0].get() / 2.0;
    let check = async |ensemble: &'static str| {
        let job = molbox.job_check().body_map(|job| {
            job.box_id(system.system_id.as_str())
                .non_bonded_cutoff(half - 0.01)
                .equilibration(Vec::<EquilibrationStep>::new())
                .production(ProductionParams::builder().type_(ensemble).time(0.001).traj_freq(0))
        });
        job.send().await
    };
    check("NVT").await.unwrap();
    let error = check("NPT").await.unwrap_err();
    let fields: Vec<String> = error.violations().iter().map(|each| each.path()).collect();
    assert_eq!(fields, ["non_bonded_cutoff"], "{error}");
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
            .production(
                ProductionParams::builder().type_("NVT").time(0.006).traj_freq(100).log_freq(50),
            )
    });
    let id = job.send().await.unwrap().job_id.clone();
    let folder = service.data.join("tasks").join(id.as_str());
    let committed = |after: u64| {
        let text = std::fs::read_to_string(folder.join("work/commit/commit.json")).ok()?;
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
    let steps: Vec<u64> =
        log.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(steps, (1..=60).map(|n| n * 50).collect::<Vec<u64>>());
    let n_atoms = system.summary.unwrap().atoms as usize;
    assert_eq!(files["production.dcd"].len(), 276 + 30 * (56 + 3 * (4 * n_atoms + 8)));
}

#[tokio::test]
async fn a_worker_that_dies_each_time_ends_as_failed() {
    let fake = FakeWorker::new();
    fake.set("dies");
    let service = Service::start_with(&[&fake.setting(), "worker.attempts=2"]);
    let molbox = service.client("ada");
    let system = molbox.system_submit().send().await.unwrap();
    let error = molbox.wait_system(&system.system_id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    let failure = task.failure.as_ref().unwrap();
    assert_eq!(failure.code, "worker_died");
    assert!(failure.log.last().unwrap().starts_with("failed: worker_died: "), "{:?}", failure.log);
    let system = molbox.system_view().system_id(&system.system_id).send().await.unwrap();
    assert_eq!(system.attempts, 2);
}

#[tokio::test]
async fn a_repeated_submission_does_nothing_again() {
    let service = Service::start();
    let molbox = service.client("ada");
    let submit = |name: &'static str| {
        molbox.system_submit().idempotency_key("once").body_map(move |s| s.box_name(name)).send()
    };
    let (first, again) = tokio::join!(submit("a"), submit("a"));
    assert_eq!(first.unwrap().system_id, again.unwrap().system_id);
    assert_eq!(submit("b").await.unwrap_err().status().unwrap(), 409);
    assert_eq!(molbox.system_list().send().await.unwrap().items.len(), 1);
    service.client("bob").system_submit().idempotency_key("once").send().await.unwrap();
}

/// A simulation that does not end by itself in a test's time.
pub(crate) async fn endless_job(molbox: &Client, system: &SystemRecord) -> String {
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(20)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(
                ProductionParams::builder().type_("NVT").time(10).traj_freq(100).log_freq(50),
            )
    });
    job.send().await.unwrap().job_id.as_str().to_owned()
}

pub(crate) async fn until_it_produces(molbox: &Client, id: &str) {
    wait_until(molbox, id, |job| {
        job.progress.as_ref().and_then(|p| p.step).is_some_and(|step| step > 200)
    })
    .await;
}

pub(crate) async fn wait_until(
    molbox: &Client,
    id: &str,
    state: impl Fn(&JobRecord) -> bool,
) -> JobRecord {
    for _ in 0..3000 {
        let job = molbox.job_view().job_id(id).send().await.unwrap().into_inner();
        if state(&job) {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{id} did not come into the state that was waited for");
}

#[tokio::test]
async fn a_cancelled_job_stops_within_seconds_and_keeps_what_it_wrote() {
    let service = Service::start_with(&["worker.slots=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let running = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &running).await;
    // The only slot is taken: these wait.
    let queued = endless_job(&molbox, &system).await;
    let waiting = endless_job(&molbox, &system).await;
    let cancelled = molbox.job_cancel().job_id(waiting.as_str()).send().await.unwrap();
    assert_eq!(cancelled.status, "cancelled");

    let start = Instant::now();
    let stopping = molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
    assert_eq!((stopping.status.as_str(), stopping.cancelling), ("running", Some(true)));
    let error = molbox.wait_job(&running).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    assert_eq!((task.status.as_str(), &task.failure), ("cancelled", &None));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let again = molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
    assert_eq!(again.status, "cancelled", "what has ended stays as it is");
    assert_eq!(again.cancelling, None);
    assert_eq!(again.stages[0].name, "minimization");

    let folder = tempfile::tempdir().unwrap();
    let files =
        archive(&molbox.download_job(&running, folder.path().join("results.zip")).await.unwrap());
    let rows = String::from_utf8(files["production.csv"].clone()).unwrap().lines().count() - 1;
    let n_atoms = system.summary.as_ref().unwrap().atoms as usize;
    let frames = (files["production.dcd"].len() - 276) / (56 + 3 * (4 * n_atoms + 8));
    assert!(rows > 2 && frames == rows / 2, "{rows} rows, {frames} frames");
    molbox.job_cancel().job_id(queued.as_str()).send().await.unwrap();
}

#[tokio::test]
async fn a_job_cancelled_while_it_waits_never_starts() {
    // The only slot is taken by a job that does not end.
    let service = Service::start_with(&["worker.slots=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let first = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &first).await;
    let mut rest = Vec::new();
    for _ in 0..4 {
        rest.push(endless_job(&molbox, &system).await);
    }
    let last = rest.last().unwrap();
    let cancelled = molbox.job_cancel().job_id(last.as_str()).send().await.unwrap().into_inner();
    assert_eq!((cancelled.status.as_str(), cancelled.attempts), ("cancelled", 0));
    assert!(cancelled.finished_at.is_some());
    let nothing = molbox.job_download().job_id(last.as_str()).send().await.err().unwrap();
    assert_eq!(nothing.status().unwrap(), 409);
    for id in rest.iter().chain([&first]) {
        molbox.job_cancel().job_id(id.as_str()).send().await.unwrap();
    }
}

#[tokio::test]
async fn a_cancellation_survives_the_death_of_the_service() {
    let mut service = Service::start_with(&["worker.stop_seconds=1"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    molbox.job_cancel().job_id(id.as_str()).send().await.unwrap();
    service.kill_and_restart();
    let molbox = service.client_with(&key);
    wait_until(&molbox, &id, |job| job.status == "cancelled").await;
}

#[tokio::test]
async fn deleting_follows_what_depends_on_what() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = short_job(&molbox, &system).await;
    let busy = molbox.system_delete().system_id(&system.system_id).send().await.unwrap_err();
    assert_eq!(busy.status().unwrap(), 409);
    assert!(busy.to_string().contains(job.job_id.as_str()), "{busy}");
    let running = molbox.job_delete().job_id(&job.job_id).send().await.unwrap_err();
    assert_eq!(running.status().unwrap(), 409);
    assert!(running.to_string().contains("cancel it first"), "{running}");
    molbox.wait_job(&job.job_id).await.unwrap();
    let needed = molbox.system_delete().system_id(&system.system_id).send().await.unwrap_err();
    assert_eq!(needed.status().unwrap(), 409, "the job's bundle has the system in it");

    let objects = |id: &str| service.objects().join("tasks").join(id);
    assert!(objects(&job.job_id).exists());
    molbox.job_delete().job_id(&job.job_id).send().await.unwrap();
    assert!(!objects(&job.job_id).exists());
    assert_eq!(
        molbox.job_view().job_id(&job.job_id).send().await.unwrap_err().status().unwrap(),
        404
    );
    molbox.system_delete().system_id(&system.system_id).send().await.unwrap();
    assert!(!objects(&system.system_id).exists());
    assert!(molbox.system_list().send().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_file_that_a_build_is_to_read_is_not_deleted() {
    // The disk is declared full once the file is there, so that the build stays queued.
    let service = Service::start_with(&["worker.attempts=1"]);
    let molbox = service.client("ada");
    let file = molbox.upload(example("1vii.pdb")).await.unwrap();
    let system =
        molbox.system_submit().body_map(|s| s.protein(file.file_id.as_str())).send().await.unwrap();
    let refused = molbox.file_delete().file_id(&file.file_id).send().await.unwrap_err();
    assert_eq!(refused.status().unwrap(), 409);
    assert!(refused.to_string().contains(system.system_id.as_str()), "{refused}");
    molbox.wait_system(&system.system_id).await.unwrap();
    molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle =
        molbox.download_system(&system.system_id, folder.path().join("s.zip")).await.unwrap();
    assert!(archive(&bundle).contains_key("prepared.pdb"), "the system stands without its file");
}

#[tokio::test]
async fn the_log_is_read_by_offsets_while_it_grows_and_after() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = short_job(&molbox, &system).await;
    let id = job.job_id.as_str();
    let read = |offset: u64| {
        let request = molbox.job_log().job_id(id).offset(offset);
        async move {
            let stream = request.send().await.unwrap().into_inner_stream();
            stream.map(|chunk| chunk.unwrap().to_vec()).concat().await
        }
    };
    let mut text: Vec<u8> = Vec::new();
    while molbox.job_view().job_id(id).send().await.unwrap().status != "succeeded" {
        text.extend(read(text.len() as u64).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    text.extend(read(text.len() as u64).await);
    assert_eq!(text, read(0).await, "the pieces make the whole");
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("platform CPU") && text.contains("production: 100 steps, 4 frames"),
        "{text}"
    );
    assert!(read(1 << 40).await.is_empty());
}

#[tokio::test]
async fn a_watched_job_tells_its_changes_until_it_ends() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = short_job(&molbox, &system).await;
    let stream = molbox.job_watch().job_id(&job.job_id).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let bytes: Vec<u8> =
        stream.into_inner_stream().map(|chunk| chunk.unwrap().to_vec()).concat().await;
    let text = String::from_utf8(bytes).unwrap();
    let records: Vec<JobRecord> = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("event: job\ndata: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert!(records.len() >= 2, "{text}");
    assert_eq!(records.last().unwrap().status, "succeeded");
    let is_ordered = records.windows(2).all(|pair| rank(&pair[0].status) <= rank(&pair[1].status));
    assert!(is_ordered, "states only move forward");
}

fn rank(status: &str) -> usize {
    ["queued", "running", "succeeded"].iter().position(|state| *state == status).unwrap()
}

#[tokio::test]
async fn a_worker_that_stands_still_is_ended_and_started_again() {
    let service = Service::start_with(&[
        "worker.heartbeat_timeout_seconds=3",
        "worker.checkpoint_seconds=0.5",
    ]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &id).await;
    processes(&service.data.join("tasks").join(&id))
        .iter()
        .for_each(|process| process.signal("STOP"));
    wait_until(&molbox, &id, |job| job.attempts == 2 && job.status == "running").await;
    until_it_produces(&molbox, &id).await;
    molbox.job_cancel().job_id(id.as_str()).send().await.unwrap();
    wait_until(&molbox, &id, |job| job.status == "cancelled").await;
}

#[tokio::test]
async fn a_task_that_takes_too_long_ends_as_failed_with_what_it_wrote() {
    let mut service = Service::start();
    let key = service.key("ada");
    let system = water(&service.client_with(&key)).await;
    service.stop();
    service.restart_with(&["worker.wall_seconds=12"]);
    let molbox = service.client_with(&key);
    let id = endless_job(&molbox, &system).await;
    let error = molbox.wait_job(&id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    let failure = task.failure.as_ref().unwrap();
    assert_eq!(failure.code, "wall_limit");
    assert!(failure.log.iter().any(|line| line.contains("stopped")), "{:?}", failure.log);
    let folder = tempfile::tempdir().unwrap();
    let files =
        archive(&molbox.download_job(&id, folder.path().join("results.zip")).await.unwrap());
    assert!(files.contains_key("minimization.pdb"));
}

#[tokio::test]
async fn an_account_has_its_share_of_tasks_and_of_requests() {
    let service = Service::start_with(&[
        "limits.open_tasks=2",
        "limits.requests_per_minute=20",
        "worker.slots=1",
    ]);
    let molbox = service.client("ada");
    for _ in 0..2 {
        molbox.system_submit().body_map(|s| s.minimum_padding(3)).send().await.unwrap();
    }
    let error = molbox.system_submit().send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 429);
    assert!(error.to_string().contains("2 tasks"), "{error}");
    let error = loop {
        if let Err(error) = molbox.account_view().send().await {
            break error;
        }
    };
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!(refusal.status, 429);
    assert!(refusal.retry_after.unwrap() >= Duration::from_secs(1));
    service.client("bob").account_view().send().await.unwrap();
}
