//! Analyses of what jobs have written, and of trajectories that users bring.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use molbox::workflow::types::builder::AnalysisRequest as AnalysisBuilder;
use molbox::workflow::types::{AnalysisRecord, EquilibrationStep, Notice, ProductionParams};
use molbox::{Client, Error};
use serde_json::{Value, json};

use crate::common::{Service, example};
use crate::work::{archive, endless_job, until_it_produces, water};

async fn analysed(molbox: &Client, id: &str) -> AnalysisRecord {
    molbox.wait_analysis(id).await.unwrap()
}

/// The villin headpiece, a job of twenty frames on it, and the key of its account.
async fn villin(service: &Service) -> (Client, String, String) {
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system =
        molbox.system_submit().body_map(|s| s.protein("villin").minimum_padding(0.5).seed(1));
    let system = molbox.wait_system(&system.send().await.unwrap().system_id).await.unwrap();
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(100)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.0004).traj_freq(10))
    });
    let job = molbox.wait_job(&job.send().await.unwrap().job_id).await.unwrap();
    (molbox, job.job_id.as_str().to_owned(), key)
}

async fn retrieve(service: &Service, key: &str, id: &str, accept: &str) -> (u16, Vec<u8>) {
    let request =
        reqwest::Client::new().get(format!("{}/retrieve/analysis/{id}", service.base_url));
    let response = request.header("x-api-key", key).header("accept", accept).send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn a_job_is_analysed_into_tables_files_and_plots() {
    let service = Service::start();
    let (molbox, job, key) = villin(&service).await;
    assert_eq!(retrieve(&service, &key, &job, "*/*").await.0, 409, "nothing has been analysed yet");

    // No job is named: the one submitted last is meant, and the answer says which.
    let analysis = molbox
        .analysis_submit()
        .body_map(|a| {
            a.downsample_frames(2)
                .distance_masks([":1@CA :36@CA"])
                .rmsd_masks([vec!["@CA".to_owned()]])
                .rmsf_masks(["@CA"])
                .hbond_distance(3.5)
                .hbond_angle(120)
        })
        .send()
        .await
        .unwrap();
    assert_eq!(analysis.job_id.as_ref().unwrap().as_str(), job);
    let record = analysed(&molbox, &analysis.analysis_id).await;
    assert_eq!(record.status, "succeeded");

    let (status, data) = retrieve(&service, &key, &job, "application/json").await;
    assert_eq!(status, 200);
    let data: Value = serde_json::from_slice(&data).unwrap();
    assert_eq!(
        (&data["frames_total"], &data["frames_analyzed"], &data["stride"]),
        (&json!(20), &json!(10), &json!(2))
    );
    let tables: BTreeMap<&str, &Value> = data["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["name"].as_str().unwrap(), t))
        .collect();
    for name in ["distance", "rmsd", "rmsf", "hydrogen_bonds"] {
        assert!(tables.contains_key(name), "{name} is missing from {:?}", tables.keys());
    }
    let column = |table: &str, name: &str| -> Vec<f64> {
        let columns = tables[table]["columns"].as_array().unwrap();
        let column =
            columns.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{columns:?}"));
        assert_eq!(column["unit"], "Å");
        column["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let rmsd = column("rmsd", "rmsd_angstrom");
    assert!(rmsd[0].abs() < 1e-6 && rmsd[1..].iter().all(|d| (0.01..2.0).contains(d)), "{rmsd:?}");
    assert!(column("distance", "distance_angstrom").iter().all(|d| (3.0..60.0).contains(d)));
    assert_eq!(column("rmsf", "rmsf_angstrom").len(), 36);
    assert!(tables["rmsd"]["definition"].as_str().unwrap().len() > 20, "definitions are told");

    let folder = tempfile::tempdir().unwrap();
    let bundle = |id: String| {
        let (service, key, path) = (&service, &key, folder.path().join(&id));
        async move {
            let (status, bytes) = retrieve(service, key, &id, "application/zip").await;
            assert_eq!(status, 200);
            fs::write(&path, bytes).unwrap();
            archive(&path)
        }
    };
    let files = bundle(analysis.analysis_id.as_str().to_owned()).await;
    for name in [
        "manifest.json",
        "data.json",
        "rmsd.csv",
        "rmsd.parquet",
        "rmsd.png",
        "rmsd.svg",
        "rmsd.pdf",
        "rmsf.csv",
    ] {
        assert!(files.contains_key(name), "{name} is missing from {:?}", files.keys());
    }
    assert!(files["rmsd.csv"].starts_with(b"frame,time_ps,"));
    assert!(
        files["rmsd.parquet"].starts_with(b"PAR1") && files["rmsd.png"].starts_with(b"\x89PNG")
    );
    assert!(files["rmsd.pdf"].starts_with(b"%PDF-"));

    // The same again gives the same bytes.
    let again = molbox.analysis_submit().body(record.request.clone()).send().await.unwrap();
    analysed(&molbox, &again.analysis_id).await;
    let again = bundle(again.analysis_id.as_str().to_owned()).await;
    let describes = ["manifest.json", "ro-crate-metadata.json", "data.json"];
    for (name, bytes) in files.iter().filter(|(name, _)| !describes.contains(&name.as_str())) {
        assert!(again[name] == *bytes, "{name} is not the same");
    }

    // With nothing asked for, there is a report.
    let usual = molbox.analysis_submit().body_map(|a| a.job_id(job.as_str())).send().await.unwrap();
    analysed(&molbox, &usual.analysis_id).await;
    let files = bundle(usual.analysis_id.as_str().to_owned()).await;
    assert!(
        ["rmsd.csv", "rmsf.csv", "hydrogen_bonds.csv"].iter().all(|name| files.contains_key(*name)),
        "{:?}",
        files.keys()
    );

    // A trajectory of the user's own, with and without a topology of its own.
    let results = archive(&molbox.download_job(&job, folder.path().join("job.zip")).await.unwrap());
    for name in ["production.dcd", "system/system.pdb"] {
        fs::write(folder.path().join(name.replace('/', "_")), &results[name]).unwrap();
    }
    molbox.upload(folder.path().join("production.dcd")).name("frames").await.unwrap();
    molbox.upload(folder.path().join("system_system.pdb")).name("atoms").await.unwrap();
    let own = molbox.analysis_submit().body_map(|a| {
        a.topology("atoms")
            .trajectory("frames")
            .downsample_frames(2)
            .rmsd_masks([vec!["@CA".to_owned()]])
    });
    let own = own.send().await.unwrap();
    assert_eq!(own.job_id, None);
    analysed(&molbox, &own.analysis_id).await;
    let (_, data) = retrieve(&service, &key, &own.analysis_id, "*/*").await;
    let data: Value = serde_json::from_slice(&data).unwrap();
    let values = data["tables"][0]["columns"].as_array().unwrap();
    let values =
        values.iter().find(|c| c["name"] == "rmsd_angstrom").unwrap()["values"].as_array().unwrap();
    assert!(
        values.iter().zip(&rmsd).all(|(a, b)| (a.as_f64().unwrap() - b).abs() < 1e-6),
        "{values:?} {rmsd:?}"
    );
    let mismatched = molbox
        .analysis_submit()
        .body_map(|a| a.topology("villin").trajectory("frames"))
        .send()
        .await;
    assert_eq!(mismatched.unwrap_err().status().unwrap(), 422);
}

/// The dodecahedral test system's trajectory with an x that is no number, of the first atom in
/// frame 3.
fn damaged_trajectory() -> Vec<u8> {
    const N_ATOMS: usize = 2111;
    let frame_bytes = 56 + 3 * (4 * N_ATOMS + 8);
    let mut bytes = fs::read(test_data("mini_tri.dcd")).unwrap();
    let at = bytes.len() - 37 * frame_bytes + 60;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    bytes
}

pub(crate) fn test_data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/data").join(name)
}

#[tokio::test]
async fn a_damaged_frame_fails_the_analysis_or_is_left_out_by_request() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.dcd");
    fs::write(&path, damaged_trajectory()).unwrap();
    molbox.upload(path).name("frames").await.unwrap();
    molbox.upload(test_data("mini_tri.pdb")).name("atoms").await.unwrap();
    let submit = |skips: Option<bool>| {
        let request = molbox.analysis_submit().body_map(|a| {
            let a = a.topology("atoms").trajectory("frames").rmsf_masks([":1-12"]);
            if let Some(skips) = skips { a.skip_damaged_frames(skips) } else { a }
        });
        request.send()
    };
    for skips in [None, Some(false)] {
        let failed = submit(skips).await.unwrap().analysis_id.clone();
        let error = molbox.wait_analysis(&failed).await.unwrap_err();
        let record = molbox.analysis_view().analysis_id(failed.as_str()).send().await.unwrap();
        let failure = record.error.as_ref().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(failure.code, "frame_damaged");
        let message = &failure.message;
        assert!(
            message.starts_with("trajectory.dcd, frame 3 (counted from 0): atom 1, A:SER"),
            "{message}"
        );
        assert!(failure.remedy.as_ref().unwrap().contains("skip_damaged_frames"), "{failure:?}");
    }
    let left_out = analysed(&molbox, &submit(Some(true)).await.unwrap().analysis_id).await;
    assert!(
        left_out.warnings[0].message.starts_with("1 damaged frame was left out: 3"),
        "{:?}",
        left_out.warnings
    );
    let data =
        molbox.analysis_retrieve().job_id(left_out.analysis_id.as_str()).send().await.unwrap();
    assert_eq!((data.frames_total, data.frames_analyzed), (40, 39));
}

#[tokio::test]
async fn files_of_amber_charmm_and_gromacs_are_analysed_as_they_are() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let formats = test_data("formats");
    for name in ["pep.psf", "pep.gro", "cdf2.nc", "pep.trr"] {
        molbox.upload(formats.join(name)).name(name).await.unwrap();
    }
    let prmtop = molbox.upload(formats.join("pep.prmtop")).name("pep.prmtop").kind("topology");
    prmtop.await.unwrap();
    let refused = molbox.upload(formats.join("hdf5.nc")).await.unwrap_err().to_string();
    assert!(refused.contains("NetCDF-4 (HDF5)"), "{refused}");

    // Types where there are some; distances in the first frame where there are no positions.
    let distances = async |topology: &str, trajectory: &str| {
        let submitted = molbox.analysis_submit().body_map(|a| {
            let a = a.topology(topology).trajectory(trajectory);
            let a = a.distance_masks([":1-3 :10-12"]).gyration_masks([":1<:6.0"]);
            if topology == "pep.prmtop" { a.rmsf_masks(["@%CT,N3"]) } else { a }
        });
        let id = submitted.send().await.unwrap().analysis_id.clone();
        analysed(&molbox, &id).await;
        let (_, data) = retrieve(&service, &key, &id, "*/*").await;
        let data: Value = serde_json::from_slice(&data).unwrap();
        let column = |table: usize, name: &str| -> Vec<f64> {
            let columns = data["tables"][table]["columns"].as_array().unwrap();
            let column = columns.iter().find(|column| column["name"] == name);
            let column = column.unwrap_or_else(|| panic!("{name}: {columns:?}"));
            column["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        assert_eq!(column(0, "time_ps"), [1.5, 3.0, 4.5, 6.0]);
        column(0, "distance_angstrom")
    };
    let expected = distances("pep.prmtop", "cdf2.nc").await;
    for (topology, trajectory) in
        [("pep.prmtop", "pep.trr"), ("pep.psf", "cdf2.nc"), ("pep.gro", "pep.trr")]
    {
        let found = distances(topology, trajectory).await;
        let is_near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 2e-5);
        assert!(is_near && found.len() == 4, "{topology} {trajectory}: {found:?} {expected:?}");
    }

    // Of a file of a built system only the beginning is looked at before somebody needs it.
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged.prmtop");
    let text = fs::read_to_string(formats.join("pep.prmtop")).unwrap();
    fs::write(&damaged, text.replace("%FLAG MASS", "%FLAG LENGTH")).unwrap();
    molbox.upload(&damaged).name("damaged").await.unwrap();
    let request = molbox.analysis_submit();
    let request = request.body_map(|a| a.topology("damaged").trajectory("cdf2.nc"));
    let error = request.send().await.unwrap_err();
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    assert!(refusal.violations[0].msg.contains("no %FLAG MASS"), "{error}");

    let other = molbox.analysis_submit();
    molbox.upload(test_data("mini_tri.xtc")).name("other").await.unwrap();
    let other = other.body_map(|a| a.topology("pep.psf").trajectory("other"));
    let error = other.send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 422);
    assert!(error.to_string().contains("251") && error.to_string().contains("2111"), "{error}");
}

#[tokio::test]
async fn masks_that_cannot_be_are_told_by_their_place() {
    let service = Service::start();
    let (molbox, job, _) = villin(&service).await;
    let wrong = molbox.analysis_submit().body_map(|a| {
        a.job_id(job.as_str())
            .downsample_frames(1.5)
            .distance_masks([":1@CA :2@CA", ":1@CA :99@CA"])
            .rmsd_masks([vec!["@CA".to_owned()], vec!["@CA".to_owned(), "(".to_owned()]])
            .rmsf_masks(["@NOTHING"])
            .hbond_angle(181)
    });
    let error = wrong.send().await.unwrap_err();
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    let said = refusal
        .violations
        .iter()
        .map(|v| (serde_json::to_value(&v.loc).unwrap(), v.type_.as_str()));
    // What can be told without atoms comes first, and all of it at once.
    let said: Vec<_> = said.collect();
    assert_eq!(
        said,
        [
            (json!(["body", "hbond_angle"]), "less_than_equal"),
            (json!(["body", "downsample_frames"]), "out_of_range"),
            (json!(["body", "rmsd_masks", 1, 1]), "mask"),
        ]
    );
    let wrong = molbox.analysis_submit().body_map(|a| {
        a.job_id(job.as_str())
            .distance_masks([":1@CA :2@CA", ":1@CA :99@CA"])
            .rmsf_masks(["@NOTHING"])
    });
    let error = wrong.send().await.unwrap_err();
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    let said: Vec<_> =
        refusal.violations.iter().map(|v| serde_json::to_value(&v.loc).unwrap()).collect();
    assert_eq!(said, [json!(["body", "distance_masks", 1]), json!(["body", "rmsf_masks", 0])]);
    let endless = molbox.analysis_submit().body_map(|a| {
        a.job_id(job.as_str()).rmsd_masks([vec!["@CA".to_owned()]]).rmsf_masks(["@CA"; 1000])
    });
    let error = endless.send().await.unwrap_err();
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    let [one] = refusal.violations.as_slice() else { panic!("{error}") };
    assert_eq!(serde_json::to_value(&one.loc).unwrap(), json!(["body", "rmsf_masks"]));
    assert!(one.msg.contains("at most 1000") && one.msg.contains("have 1001"), "{}", one.msg);
}

#[tokio::test]
async fn a_running_job_is_analysed_on_request_alone() {
    let service = Service::start_with(&["worker.checkpoint_seconds=1", "worker.slots=2"]);
    let molbox = service.client("ada");
    let none = molbox.analysis_submit().send().await.unwrap_err();
    assert_eq!(none.status().unwrap(), 422, "there is no job yet");
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    let so_far =
        || molbox.analysis_submit().body_map(|a| a.job_id(job.as_str()).allow_unfinished(true));
    let early = so_far().send().await.unwrap_err();
    assert_eq!(early.status().unwrap(), 409);
    assert!(early.to_string().contains("has no frames yet"), "{early}");
    until_it_produces(&molbox, &job).await;
    let refused =
        molbox.analysis_submit().body_map(|a| a.job_id(job.as_str())).send().await.unwrap_err();
    assert_eq!(
        (refused.status().unwrap().as_u16(), refused.violations()[0].path()),
        (409, "job_id".to_owned())
    );
    assert!(refused.violations()[0].msg.starts_with(&format!("{job} is running; ")), "{refused}");
    let latest = molbox.analysis_submit().send().await.unwrap_err();
    assert_eq!(
        latest.status().unwrap(),
        409,
        "the job that is meant when none is named is one, too"
    );
    let no = molbox
        .analysis_submit()
        .body_map(|a| a.job_id(job.as_str()).allow_unfinished(false))
        .send()
        .await;
    assert_eq!(no.unwrap_err().status().unwrap(), 409);
    assert!(molbox.analysis_list().send().await.unwrap().items.is_empty(), "nothing was queued");
    let download = molbox.job_download().job_id(job.as_str()).send().await.err().unwrap();
    assert_eq!(download.status().unwrap(), 409, "nor can its results be downloaded");

    let analysis = so_far().body_map(|a| a.distance_masks([":1@O :2@O"]));
    let analysis = analysis.send().await.unwrap();
    let record = analysed(&molbox, &analysis.analysis_id).await;
    assert_eq!(record.status, "succeeded");
    let partial = |record: &AnalysisRecord| {
        let of_job = |warning: &&Notice| warning.code == "partial_trajectory";
        record.warnings.iter().find(of_job).map(|warning| warning.message.clone())
    };
    assert_eq!(
        partial(&record),
        Some(format!("{job} has not ended; the frames that it has written are analysed"))
    );
    let data =
        molbox.analysis_retrieve().job_id(analysis.analysis_id.as_str()).send().await.unwrap();
    assert!(data.frames_analyzed > 0);
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    molbox.wait_job(&job).await.unwrap_err();
    let ended =
        molbox.analysis_submit().body_map(|a| a.job_id(job.as_str()).distance_masks([":1@O :2@O"]));
    let ended = ended.send().await.unwrap();
    let ended = analysed(&molbox, &ended.analysis_id).await;
    assert_eq!(ended.status, "succeeded", "a cancelled job has ended");
    assert_eq!(
        partial(&ended),
        Some(format!("{job} was cancelled; the frames that it has written are analysed"))
    );
    molbox.analysis_delete().analysis_id(ended.analysis_id.as_str()).send().await.unwrap();
    // Analyses of it stay when the job goes, and go by themselves.
    molbox.wait_job(&job).await.unwrap_err();
    molbox.job_delete().job_id(job.as_str()).send().await.unwrap();
    molbox.analysis_retrieve().job_id(analysis.analysis_id.as_str()).send().await.unwrap();
    molbox.analysis_delete().analysis_id(analysis.analysis_id.as_str()).send().await.unwrap();
    assert!(molbox.analysis_list().send().await.unwrap().items.is_empty());
}

/// The tables of an analysis by their names.
async fn tables(service: &Service, key: &str, id: &str) -> BTreeMap<String, Value> {
    let (status, data) = retrieve(service, key, id, "application/json").await;
    assert_eq!(status, 200);
    let data: Value = serde_json::from_slice(&data).unwrap();
    let tables = data["tables"].as_array().unwrap().iter();
    tables.map(|table| (table["name"].as_str().unwrap().to_owned(), table.clone())).collect()
}

fn numbers(table: &Value, name: &str) -> Vec<f64> {
    let columns = table["columns"].as_array().unwrap();
    let column = columns
        .iter()
        .find(|c| c["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {columns:?}"));
    column["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[tokio::test]
async fn every_analysis_and_every_reference_has_a_field() {
    let service = Service::start();
    let (molbox, job, key) = villin(&service).await;
    let submitted = molbox.analysis_submit().body_map(|a| {
        a.job_id(job.as_str())
            .first_frame(4)
            .last_frame(15)
            .downsample_frames(3)
            .hbond_masks([":1-36", ":1-18 :19-36", ":HOH :1-36"])
            .hbond_criterion("Baker-Hubbard")
            .contact_masks([":1-18&!@/H :19-36&!@/H"])
            .contact_distance(4)
            .gyration_masks([":1-36"])
            .surface_masks([":1-36"])
            .surface_probe(1.5)
            .secondary_structure_masks([":1-36"])
            .cluster_masks(["@CA"])
            .cluster_method("complete")
            .cluster_count(2)
            .dihedral_masks([":1-36"])
            .dihedral_angles(["phi", "psi"])
            .native_contact_masks([":1-36"])
            .rdf_masks([":1-36@N :HOH@O"])
            .rdf_distance(6)
            .rdf_bin(0.1)
            .density_masks([":HOH"])
            .density_bin(1)
            .pca_masks(["@CA"])
            .pca_components(2)
            .end_to_end_masks(["@CA"])
            .rmsf_masks(["@CA"])
            .convergence(false)
    });
    let record = analysed(&molbox, &submitted.send().await.unwrap().analysis_id).await;
    assert_eq!(record.status, "succeeded", "{:?}", record.error);
    let found = tables(&service, &key, &record.analysis_id).await;
    for name in [
        "hydrogen_bonds",
        "hydrogen_bonds_3",
        "contacts",
        "contacts_by_frame",
        "radius_of_gyration",
        "surface_area",
        "surface_area_by_frame",
        "secondary_structure",
        "secondary_structure_by_frame",
        "clusters",
        "pairwise_rmsd",
        "dihedrals_by_frame",
        "ramachandran",
        "native_contacts_by_frame",
        "rdf",
        "density",
        "projections",
        "end_to_end",
    ] {
        assert!(found.contains_key(name), "{name} is missing from {:?}", found.keys());
    }
    assert_eq!(numbers(&found["radius_of_gyration"], "frame"), [4.0, 7.0, 10.0, 13.0]);
    assert!(
        numbers(&found["radius_of_gyration"], "radius_angstrom")
            .iter()
            .all(|r| (8.0..12.0).contains(r))
    );
    assert!(found["hydrogen_bonds"]["definition"].as_str().unwrap().contains("Baker"));

    let rmsd = async |configure: &dyn Fn(AnalysisBuilder) -> AnalysisBuilder| {
        let body = molbox
            .analysis_submit()
            .body_map(|a| configure(a.job_id(job.as_str()).rmsd_masks([vec!["@CA".to_owned()]])));
        let record = analysed(&molbox, &body.send().await.unwrap().analysis_id).await;
        assert_eq!(record.status, "succeeded", "{:?}", record.error);
        let table = tables(&service, &key, &record.analysis_id).await.remove("rmsd").unwrap();
        (table["title"].as_str().unwrap().to_owned(), numbers(&table, "rmsd_angstrom"))
    };
    let system = molbox.job_view().job_id(job.as_str()).send().await.unwrap().box_id.clone();
    let (title, from_7) = rmsd(&|a| a.reference_frame(7)).await;
    assert_eq!(title, "RMSD from frame 7: @CA");
    assert!(from_7[7].abs() < 1e-6 && from_7[0] > 0.01, "{from_7:?}");
    // The same frame as one of another trajectory.
    let (title, of_job) = rmsd(&|a| a.reference_job(job.as_str()).reference_frame(7)).await;
    assert_eq!(title, format!("RMSD from frame 7 of {job}: @CA"));
    assert_eq!(of_job, from_7);
    let (title, as_built) = rmsd(&|a| a.reference_system(system.as_str())).await;
    assert_eq!(title, format!("RMSD from {} as built: @CA", system.as_str()));
    let (title, deposited) = rmsd(&|a| a.reference_file("villin")).await;
    assert_eq!(title, "RMSD from villin: @CA");
    // Heavy atoms stay where they were when hydrogens and water are added.
    for (a, b) in as_built.iter().zip(&deposited) {
        assert!((a - b).abs() < 2e-3 && *a > 0.05, "{as_built:?} {deposited:?}");
    }
}

#[tokio::test]
async fn a_reference_that_cannot_be_is_refused_at_its_field() {
    let service = Service::start();
    let (molbox, job, _) = villin(&service).await;
    let ca = || [vec!["@CA".to_owned()]];
    let refused =
        async |status: u16, field: &str, configure: &dyn Fn(AnalysisBuilder) -> AnalysisBuilder| {
            let body = molbox.analysis_submit().body_map(|a| configure(a.job_id(job.as_str())));
            let error = body.send().await.unwrap_err();
            assert_eq!(error.status().map(|s| s.as_u16()), Some(status), "{field}: {error}");
            assert!(error.to_string().contains(field), "{field}: {error}");
        };
    refused(422, "reference_frame", &|a| a.rmsd_masks(ca()).reference_frame(20)).await;
    refused(422, "first_frame", &|a| a.rmsd_masks(ca()).first_frame(20)).await;
    refused(422, "last_frame", &|a| a.rmsd_masks(ca()).first_frame(3).last_frame(2)).await;
    refused(422, "reference_file", &|a| {
        a.rmsd_masks(ca()).reference_job(job.as_str()).reference_file("villin")
    })
    .await;
    refused(422, "reference_frame", &|a| {
        a.rmsd_masks(ca()).reference_file("villin").reference_frame(0)
    })
    .await;
    refused(404, "reference_file", &|a| a.rmsd_masks(ca()).reference_file("nothing")).await;
    refused(404, "reference_job", &|a| {
        a.rmsd_masks(ca()).reference_job("job_00000000000000000000")
    })
    .await;
    refused(404, "reference_system", &|a| {
        a.rmsd_masks(ca()).reference_system("sys_00000000000000000000")
    })
    .await;
    refused(422, "reference_frame", &|a| a.gyration_masks(["@CA"]).reference_frame(3)).await;
    refused(422, "rmsd_masks", &|a| {
        a.rmsd_masks([vec!["!@/H".to_owned()]]).reference_file("villin")
    })
    .await;
    refused(422, "hbond_masks", &|a| a.hbond_masks([":HOH"])).await;
    refused(422, "hbond_criterion", &|a| a.hbond_criterion("luzar")).await;
    refused(422, "cluster_count", &|a| a.cluster_masks(["@CA"]).cluster_cutoff(1).cluster_count(2))
        .await;
    refused(422, "dihedral_masks", &|a| a.dihedral_masks([":HOH"])).await;
    refused(422, "pca_masks", &|a| a.pca_masks([":HOH"])).await;

    // Another account's job and system are none.
    let stranger = service.client_with(&service.key("bob"));
    stranger.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let own = stranger.analysis_submit().body_map(|a| {
        a.topology("villin").trajectory("villin").rmsd_masks(ca()).reference_job(job.as_str())
    });
    assert!(own.send().await.unwrap_err().to_string().contains("reference_job"));
}
