//! Systems that other programs have built: registered, brought, and simulated like any other.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use molbox::Client;
use molbox::workflow::types::{EquilibrationStep, ProductionParams};
use serde_json::{Value, json};

use crate::common::{Service, example};
use crate::estimates::post;
use crate::work::archive;

fn packed(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../worker/tests/data/built/{program}.zip"))
}

async fn upload(molbox: &Client, program: &str) {
    molbox.upload(packed(program)).await.unwrap();
}

#[tokio::test]
async fn a_system_of_another_program_goes_from_its_files_to_a_bundle() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    upload(&molbox, "gromacs").await;
    let asked = molbox.system_submit().body_map(|s| s.built(["gromacs.zip"]).box_name("ala"));
    let system = asked.send().await.unwrap();
    let system = molbox.wait_system(&system.system_id).await.unwrap();
    let summary = system.summary.as_ref().unwrap();
    assert_eq!(summary.force_field, "GROMACS, topol.top");
    assert_eq!((summary.atoms, summary.molecules["water"]), (1166, 380));
    assert_eq!(system.request.built, ["gromacs.zip"]);
    let codes: Vec<&str> = system.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, [] as [&str; 0]);

    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(20)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().time(0.0002).traj_freq(25).log_freq(10))
    });
    let job = molbox.wait_job(&job.send().await.unwrap().job_id).await.unwrap();
    let bundle = molbox.download_job(&job.job_id, folder.path().join("job.zip")).await.unwrap();
    let files = archive(&bundle);
    let of_system: Value = serde_json::from_slice(&files["system/manifest.json"]).unwrap();
    assert_eq!(of_system["summary"]["force_field"], "GROMACS, topol.top");
    assert_eq!(of_system["parameters"]["built"][0]["name"], "gromacs.zip");
    assert_eq!(of_system["parameters"]["force_field"]["name"], "as in its files");
    assert!(of_system["citations"].as_array().unwrap().is_empty(), "{of_system}");
}

#[tokio::test]
async fn a_system_of_free_hydrogens_takes_short_steps_alone() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let mut zip = zip::ZipArchive::new(fs::File::open(packed("openmm")).unwrap()).unwrap();
    let mut read = |name: &str| io::read_to_string(zip.by_name(name).unwrap()).unwrap();
    let (text, places) = (read("system.xml"), read("system.pdb"));
    // The first of its constraints holds a hydrogen of the peptide, which becomes a bond.
    let (before, after) = text.split_once("<Constraint ").unwrap();
    let (constraint, after) = after.split_once('\n').unwrap();
    let bond = format!("<Bonds>\n<Bond k=\"284512\" {constraint}\n");
    let text = format!("{before}{}", after.replacen("<Bonds>\n", &bond, 1));
    for (name, content) in [("system.xml", text), ("system.pdb", places)] {
        fs::write(folder.path().join(name), content).unwrap();
        molbox.upload(folder.path().join(name)).name(name).await.unwrap();
    }
    let asked = molbox.system_submit().body_map(|s| s.built(["system.xml", "system.pdb"]));
    let system = asked.send().await.unwrap();
    let system = molbox.wait_system(&system.system_id).await.unwrap();
    let is_warned = system.warnings.iter().any(|warning| warning.code == "hydrogens_free");
    assert!(is_warned, "{system:?}");
    let check = async |timestep: f64| {
        let job = molbox.job_check().body_map(|job| {
            job.box_id(system.system_id.as_str())
                .integration_timestep(timestep)
                .non_bonded_cutoff(0.9)
                .production(ProductionParams::builder().time(0.001).traj_freq(0))
        });
        job.send().await
    };
    assert!(check(1.0).await.unwrap().warnings.is_empty());
    let warnings = check(2.0).await.unwrap().into_inner().warnings;
    assert!(warnings[0].message.contains("not constrained"), "{warnings:?}");
    let error = check(5.0).await.unwrap_err();
    let fields: Vec<String> = error.violations().iter().map(|each| each.path()).collect();
    assert_eq!(fields, ["integration_timestep"], "{error}");
}

#[tokio::test]
async fn what_the_files_decide_cannot_be_chosen_beside_them() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    upload(&molbox, "amber").await;
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let fields = &document["components"]["schemas"]["SystemBuildRequest"]["properties"];
    let refused = fields.as_object().unwrap().keys().map(String::as_str);
    let refused =
        refused.filter(|field| !["built", "box_name", "priority", "seed"].contains(field));
    let mut body = json!({
        "built": ["amber.zip"], "box_name": "ala", "seed": 7, "box_shape": "cube", "chain_id": "A",
        "concentration": 0.15, "force_field": "amber14", "ions": "NaCl", "keep_Hs": false,
        "ligand_input_formats": ["sdf"], "ligand_residue_names": ["LIG"], "ligand_rotations": [[]],
        "ligand_translations": [[]], "ligands": ["amber.zip"], "membrane": "POPC",
        "minimum_padding": 1, "pH": 7, "priority": 60, "protein": "amber.zip", "water_type": "tip3p"
    });
    let (status, answer) = post(&service, &key, "/check/system", &body).await;
    assert_eq!(status, 422, "{answer}");
    let told: BTreeSet<&str> = answer["detail"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|violation| violation["msg"].as_str().unwrap().contains("beside built"))
        .map(|violation| violation["loc"][1].as_str().unwrap())
        .collect();
    assert_eq!(told, refused.collect());
    body.as_object_mut()
        .unwrap()
        .retain(|field, _| ["built", "box_name", "priority", "seed"].contains(&&**field));
    let (status, answer) = post(&service, &key, "/check/system", &body).await;
    assert_eq!((status, &answer["parameters"]), (200, &body));
}

#[tokio::test]
async fn files_of_a_built_system_are_checked_when_they_are_registered() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let system = r#"<System type="System" version="1"><Forces/></System>"#;
    let file = molbox.upload(write("mine.xml", system)).await.unwrap();
    assert_eq!((file.type_.as_str(), file.name.as_str()), ("system", "mine"));
    let unsafe_one = system.replace("<Forces/>", r#"<Forces><Force type="PythonForce"/></Forces>"#);
    let error = molbox.upload(write("code.xml", &unsafe_one)).await.unwrap_err();
    assert!(error.to_string().contains("a PythonForce is not allowed"), "{error}");
    let error = molbox.upload(write("as.xml", system)).kind("force_field").await.unwrap_err();
    assert!(error.to_string().contains("as is a system"), "{error}");
    let error = molbox.upload(write("a.prmtop", "ATOM\n")).await.unwrap_err();
    assert!(
        error.to_string().contains("cannot be taken as prmtop: it does not begin with"),
        "{error}"
    );
    let file = molbox.upload(write("a.parm7", "%VERSION\n")).await.unwrap();
    assert_eq!((file.name.as_str(), file.format.as_str()), ("a.parm7", "prmtop"));
    molbox.upload(example("1vii.pdb")).await.unwrap();

    let refused = [
        (json!({"force_field": "mine"}), "force_field", "mine is a built system"),
        (json!({"built": ["nobody"]}), "built", "no registered file"),
        (json!({"built": ["a.parm7", "a.parm7"]}), "built", "a.parm7 is given more than once"),
        (json!({"protein": "a.parm7"}), "protein", "must be a pdb or cif file"),
    ];
    for (body, field, words) in refused {
        let (status, answer) = post(&service, &key, "/check/system", &body).await;
        let detail = &answer["detail"][0];
        assert!(status >= 400 && detail["loc"][1] == field, "{answer}");
        assert!(detail["msg"].as_str().unwrap().contains(words), "{answer}");
    }
    let asked = molbox.system_submit().body_map(|s| s.built(["a.parm7", "1vii"]));
    let id = asked.send().await.unwrap().system_id.to_string();
    molbox.wait_system(&id).await.unwrap_err();
    let system = molbox.system_view().system_id(id).send().await.unwrap();
    let error = system.error.as_ref().unwrap();
    assert_eq!(serde_json::to_value(&error.loc).unwrap(), json!(["body", "built"]));
    assert!(error.message.starts_with("a.parm7"), "{}", error.message);
}

#[tokio::test]
async fn a_box_of_solvent_alone_is_pointed_out() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let (_, alone) = post(&service, &key, "/check/system", &json!({})).await;
    assert_eq!(alone["warnings"][0]["code"], "solvent_alone");
    assert_eq!(alone["warnings"][0]["loc"], json!(["body", "protein"]));
    for body in [json!({"protein": "villin"}), json!({"membrane": "POPC"})] {
        let (_, preview) = post(&service, &key, "/check/system", &body).await;
        assert_eq!(preview["warnings"], json!([]), "{body}");
    }
}
