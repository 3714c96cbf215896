//! Jobs that GROMACS runs. They need `gmx`, Debian's package gromacs.

use std::collections::BTreeSet;

use molbox::workflow::types::{EquilibrationStep, JobRecord, ProductionParams, SystemRecord};
use molbox::{Client, Error};
use serde_json::Value;

use crate::common::{Service, python};
use crate::work::{archive, water};

async fn job_on(molbox: &Client, system: &SystemRecord, engine: Option<&str>) -> String {
    let job = molbox.job_submit().body_map(|job| {
        let job = job
            .box_id(system.system_id.as_str())
            .minimization_steps(20)
            .equilibration([EquilibrationStep::builder().time(0.0001).log_freq(10)])
            .production(
                ProductionParams::builder().type_("NPT").time(0.0002).traj_freq(25).log_freq(10),
            );
        match engine {
            Some(engine) => job.engine(engine),
            None => job,
        }
    });
    job.send().await.unwrap().job_id.as_str().to_owned()
}

fn names(files: &[&str]) -> BTreeSet<String> {
    files.iter().map(|name| (*name).to_owned()).collect()
}

fn cites(job: &JobRecord, name: &str) -> bool {
    job.citations.iter().any(|citation| citation.contains(name))
}

#[tokio::test]
async fn a_job_has_the_same_bundle_from_either_engine() {
    let service = Service::start_with(&["worker.engine=\"auto\"", "worker.platform=\"CPU\""]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let mut bundles = Vec::new();
    // The service chooses GROMACS on a CPU.
    for (asked, engine) in [(None, "gromacs"), (Some("openmm"), "openmm")] {
        let id = job_on(&molbox, &system, asked).await;
        let job = molbox.wait_job(&id).await.unwrap();
        assert_eq!(job.engine.as_deref(), Some(engine));
        assert_eq!(job.platform.as_deref(), Some("CPU"));
        assert_eq!(job.parameters.engine.as_deref(), Some(asked.unwrap_or("auto")));
        assert_eq!(job.request.engine.as_deref(), asked);
        assert_eq!(job.stages.last().unwrap().frames, 4);
        assert_eq!((cites(&job, "GROMACS"), cites(&job, "OpenMM")), (engine == "gromacs", true));
        let path = tempfile::NamedTempFile::new().unwrap();
        molbox.download_job(&id, path.path()).await.unwrap();
        let bundle = archive(path.path());
        let manifest: Value = serde_json::from_slice(&bundle["manifest.json"]).unwrap();
        assert_eq!(manifest["engine"], engine);
        assert_eq!(manifest["versions"]["gromacs"].is_string(), engine == "gromacs");
        bundles.push(bundle);
    }
    let [ours, theirs] = &bundles[..] else { unreachable!() };
    assert!(ours.keys().eq(theirs.keys()), "{:?} {:?}", ours.keys(), theirs.keys());
    let wanted = names(&["production.dcd", "production.csv", "equilibration_1.csv"]);
    assert!(wanted.iter().all(|name| ours.contains_key(name)), "{:?}", ours.keys());
    assert_eq!(ours["production.dcd"].len(), theirs["production.dcd"].len());
}

#[tokio::test]
async fn a_job_that_both_engines_ran_cites_what_its_stages_were_run_with() {
    let service = Service::start_with(&["worker.engine=\"auto\"", "worker.platform=\"CPU\""]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    // Without friction GROMACS holds no pressure, so production is OpenMM's.
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .friction(0.0)
            .minimization_steps(20)
            .equilibration([EquilibrationStep::builder().type_("NVT").time(0.0001)])
            .production(ProductionParams::builder().type_("NPT").time(0.0002))
    });
    let job = job.send().await.unwrap();
    let job = molbox.wait_job(&job.job_id).await.unwrap();
    assert_eq!(job.engine.as_deref(), Some("openmm"));
    for part in ["GROMACS", "OpenMM", "SETTLE", "Monte Carlo barostat"] {
        assert!(cites(&job, part), "{part}: {:?}", job.citations);
    }
    // There is water alone, and nothing holds the temperature.
    for part in ["LINCS", "CCMA", "Langevin", "Stochastic dynamics"] {
        assert!(!cites(&job, part), "{part}: {:?}", job.citations);
    }
    let path = tempfile::NamedTempFile::new().unwrap();
    molbox.download_job(&job.job_id, path.path()).await.unwrap();
    let described = String::from_utf8(archive(path.path())["ro-crate-metadata.json"].clone());
    assert!(described.unwrap().contains("simulation by gromacs and openmm, with"));
}

#[tokio::test]
async fn a_gromacs_that_is_not_there_fails_the_job_that_asks_for_it_alone() {
    let service = Service::start_with(&["worker.gromacs=\"/nowhere/gmx\""]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let id = job_on(&molbox, &system, Some("gromacs")).await;
    let error = molbox.wait_job(&id).await.unwrap_err();
    let Error::TaskFailed(task) = &error else { panic!("{error}") };
    assert_eq!(task.failure.as_ref().unwrap().code, "engine_missing");
    // Left to choose, the service takes what it has.
    let id = job_on(&molbox, &system, Some("auto")).await;
    let job = molbox.wait_job(&id).await.unwrap();
    assert_eq!(job.engine.as_deref(), Some("openmm"));
    let python = format!("worker.python={:?}", python().expect("the workers' environment"));
    for (gromacs, words) in [("", "; GROMACS "), ("/nowhere/gmx", "; no GROMACS")] {
        let gromacs = format!("worker.gromacs={gromacs:?}");
        let report = service.command(&["--set", &python, "--set", &gromacs, "doctor"]);
        assert!(report.contains(words), "{report}");
    }
}
