//! What a task would take, before it is queued.

use molbox::Finite;
use molbox::workflow::types::{Estimate, Notice};

use super::build::{BoxSize, BuildPlan};
use super::simulate::{Parameters, Size};
use super::solute::{Solute, SoluteSize};
use crate::app::App;
use crate::db;
use crate::error::ApiError;
use crate::http::validate::loc;
use crate::objects::Key;
use crate::record::{Kind, Status};
use crate::speed::{self, Asked};

/// Memory of a worker that has read its programs, in bytes. These and the following were measured
/// as the largest resident set of workers with OpenMM 8 on a CPU, of 21 builds and 4 jobs of 800 to
/// 150 000 atoms.
const BUILD_BYTES: f64 = 112e6;
const JOB_BYTES: f64 = 56e6;
/// What a CHARMM force field takes besides, and the programs that ligands need.
const CHARMM_BYTES: f64 = 75e6;
const LIGAND_TOOLS_BYTES: f64 = 40e6;
const BUILD_BYTES_PER_ATOM: f64 = 4100.0;
const JOB_BYTES_PER_ATOM: f64 = 6100.0;

/// Waters that `addSolvent` puts into a box, ions in their places included: `DENSITY` per nm³,
/// less `FACE` per nm² of the faces where copies of one box of water meet, less what the solute
/// takes by its volume and by its surface. Fitted to 21 builds of four shapes with 0 to 3120
/// atoms of solute, within 1.3 % (root mean square) and 4 % of all of them.
const DENSITY: f64 = 33.08;
const FACE: f64 = 0.348;
const PER_ATOM: f64 = 0.235;
const PER_SURFACE_ATOM: f64 = 2.92;
/// Moles of water in a litre, as `addSolvent` counts ions by.
const WATER_MOLAR: f64 = 55.4;

/// What a job of these parameters would take, on a system of so many atoms; where they are not known,
/// its steps and frames.
pub(crate) async fn of_job(
    app: &App,
    parameters: &Parameters,
    atoms: Option<u64>,
    size: Size,
) -> Result<Estimate, ApiError> {
    let counted = Estimate { steps: Some(size.steps), frames: Some(size.frames), ..unknown() };
    let Some(atoms) = atoms else { return Ok(counted) };
    let asked = Asked {
        threads: expected_threads(app).await?,
        atoms,
        cutoff_nm: parameters.cutoff_nm(),
        minimise_steps: parameters.minimization_steps(),
        steps: size.steps,
    };
    let seconds = speed::job_seconds(&app.db.speeds(Kind::Job).await?, &asked);
    Ok(Estimate {
        atoms: Some(atoms),
        memory_bytes: Some(bytes(JOB_BYTES + JOB_BYTES_PER_ATOM * atoms as f64)),
        trajectory_bytes: Some(size.trajectory_bytes),
        result_bytes: Some(size.result_bytes),
        hours: hours(seconds),
        ..counted
    })
}

/// What the build of a system would take, and what it would do to the structure that nobody may
/// expect. Nothing of one whose files are not read and of one that another program has built, and
/// no numbers of a membrane, whose box is that of whole patches. `entry` is the content of a public
/// structure entry that is not stored. Also no numbers of a build that would fail, for which there
/// is a warning.
pub(crate) async fn of_system(
    app: &App,
    plan: &BuildPlan,
    account: i64,
    entry: Option<Vec<u8>>,
) -> Result<(Estimate, Vec<Notice>), ApiError> {
    let Some(Looked { extent, warnings }) = look(app, plan, account, entry).await? else {
        return Ok((unknown(), Vec::new()));
    };
    let Some(Extent { atoms, waters, cell, middle_nm }) = extent else {
        return Ok((unknown(), warnings));
    };
    let seconds = speed::build_seconds(&app.db.speeds(Kind::System).await?, atoms);
    let charmm = if plan.is_charmm() { CHARMM_BYTES } else { 0.0 };
    let ligands = if plan.ligands().next().is_some() { LIGAND_TOOLS_BYTES } else { 0.0 };
    let memory = BUILD_BYTES + charmm + ligands + BUILD_BYTES_PER_ATOM * atoms as f64;
    let estimate = Estimate {
        atoms: Some(atoms),
        waters: Some(waters),
        memory_bytes: Some(bytes(memory)),
        hours: hours(seconds),
        box_vectors: cell.vectors_nm.iter().map(numbers).collect(),
        box_middle: numbers(&middle_nm),
        ..unknown()
    };
    Ok((estimate, warnings))
}

fn no_such_chain(message: String) -> Notice {
    Notice {
        code: "no_such_chain".to_owned(),
        message,
        loc: vec![loc("body"), loc("chain_id")],
        residues: Vec::new(),
        extra: Default::default(),
    }
}

/// An estimate without numbers.
pub(super) fn unknown() -> Estimate {
    Estimate {
        atoms: None,
        waters: None,
        memory_bytes: None,
        steps: None,
        frames: None,
        trajectory_bytes: None,
        result_bytes: None,
        hours: None,
        queue: None,
        box_vectors: Vec::new(),
        box_middle: Vec::new(),
        extra: Default::default(),
    }
}

/// What was found in the files of a system.
struct Looked {
    /// None where it is not known, and of a build that would fail.
    extent: Option<Extent>,
    warnings: Vec<Notice>,
}

/// What a system will have, and where its box lies in the coordinates of its files.
struct Extent {
    atoms: u64,
    waters: u64,
    cell: BoxSize,
    middle_nm: [f64; 3],
}

/// What the files of a system say of it; none when they are not read.
async fn look(
    app: &App,
    plan: &BuildPlan,
    account: i64,
    entry: Option<Vec<u8>>,
) -> Result<Option<Looked>, ApiError> {
    if plan.is_built() {
        return Ok(None);
    }
    let mut keys: Vec<Key> = Vec::new();
    for file in plan.structures().filter(|file| !file.is_empty()) {
        keys.push(app.content_of(file).await?);
    }
    let mut total = 0;
    for key in &keys {
        total += app.objects.size(key)?;
    }
    // Larger structures are seldom built, and reading one whole takes several times its size.
    if total > app.config.limits.text_bytes {
        return Ok(None);
    }
    let turn = app.turn(&app.registrations, account).await?;
    let (objects, plan, max) = (app.objects.clone(), plan.clone(), app.config.limits.atoms);
    let looked = tokio::task::spawn_blocking(move || {
        // Until it has been read, also when nobody waits for it any more.
        let _turn = turn;
        let mut texts = Vec::from_iter(entry);
        for key in &keys {
            texts.push(objects.read(key)?);
        }
        Ok::<_, std::io::Error>(looked(&plan, &texts, max))
    });
    Ok(looked.await.map_err(ApiError::internal)??)
}

fn looked(plan: &BuildPlan, texts: &[Vec<u8>], max_atoms: u64) -> Option<Looked> {
    let mut solute = solute(plan, texts)?;
    if let Some(message) = solute.no_such_chain.take() {
        return Some(Looked { extent: None, warnings: vec![no_such_chain(message)] });
    }
    // The box of a membrane is that of whole patches.
    let extent = (!plan.has_membrane()).then(|| size(plan, &solute));
    let extent = extent.filter(|size| size.atoms <= max_atoms);
    Some(Looked { extent, warnings: solute.warnings })
}

fn size(plan: &BuildPlan, solute: &Solute) -> Extent {
    let SoluteSize { middle_nm, extent_nm, radius_nm } = solute.size();
    let cell = plan.box_size(extent_nm, radius_nm);
    let (atoms, waters) = atoms_and_waters(plan, solute, &cell);
    Extent { atoms, waters, cell, middle_nm }
}

/// What the files of a plan hold, the structure first; none when one of them cannot be read.
fn solute(plan: &BuildPlan, texts: &[Vec<u8>]) -> Option<Solute> {
    let mut solute = Solute::default();
    let mut texts = texts.iter();
    if let Some(format) = plan.protein_format() {
        solute.add_structure(texts.next()?, format, plan.chains())?;
    }
    for (format, translation) in plan.ligands() {
        solute.add_ligand(texts.next()?, format, translation)?;
    }
    Some(solute)
}

/// Atoms of a system that is to be built, with the sites of its water, and molecules of water.
fn atoms_and_waters(plan: &BuildPlan, solute: &Solute, cell: &BoxSize) -> (u64, u64) {
    let n = solute.atoms as f64;
    let places = DENSITY * cell.volume_nm3()
        - FACE * cell.faces_nm2
        - PER_ATOM * n
        - PER_SURFACE_ATOM * n.powf(2.0 / 3.0);
    let places = places.max(solute.waters as f64).max(0.0);
    let neutralising = solute.charge.unsigned_abs() as f64;
    let salt =
        2.0 * ((places - neutralising).max(0.0) * plan.concentration() / WATER_MOLAR).round();
    let ions = (neutralising + salt).min(places);
    let waters = places - ions;
    let atoms = n + ions + waters * f64::from(plan.water_sites());
    (atoms.round() as u64, waters.round() as u64)
}

/// Threads that a job would be given if it were started now.
async fn expected_threads(app: &App) -> db::Result<u64> {
    let each = app.config.cpus_of_a_worker() as u64;
    if app.config.has_cluster() {
        return Ok(each);
    }
    let (cpus, slots) = (app.config.cpus() as u64, app.config.slots() as u64);
    let counts = app.db.task_counts().await?;
    let n = |wanted: Status| {
        let of_lane = counts.iter().filter(|(kind, ..)| *kind != Kind::Analysis);
        let found = of_lane.filter(|(_, status, _)| *status == wanted);
        found.map(|(.., n)| n.unsigned_abs()).sum::<u64>()
    };
    let (running, waiting) = (n(Status::Running).min(slots - 1), n(Status::Queued) + 1);
    let used = running * each;
    Ok((cpus.saturating_sub(used) / waiting.min(slots - running)).max(1))
}

fn numbers(vector: &[f64; 3]) -> Vec<Finite> {
    vector.iter().filter_map(|value| Finite::new(*value).ok()).collect()
}

/// In four significant digits: more than an estimate is worth.
fn hours(seconds: Option<f64>) -> Option<Finite> {
    let hours = format!("{:.3e}", seconds? / 3600.0);
    Finite::new(hours.parse().ok()?).ok()
}

fn bytes(number: f64) -> u64 {
    number.round() as u64
}
