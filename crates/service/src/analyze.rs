//! `molboxd analyze`: carries out the analysis of a folder, in a process of its own.

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use molbox::workflow::types::Failure;
use molbox_analysis::{
    Cell, Control, Error, ReferenceStructure, Report, Series, Structure, Topology, TopologyFile,
    Warning, analyze, first_positions, frame_positions,
};
use molbox_plot::Figure;
use serde_json::{Value, json};

use crate::exec::confine::WORK;
use crate::files;
use crate::plan::analyze::{AnalyzeInputs, ReferenceInputs, params};
use crate::plan::topology::Built;
use crate::record::Status;
use crate::runner::collect::without_nulls;
use crate::runner::failure::failure;
use crate::shown::counted;
use crate::worker;

/// Exit status of an analysis that failed for a reason that `result.json` explains.
const FAILED: u8 = 2;

type Task = worker::TaskFile<AnalyzeInputs>;

/// `molboxd analyze`: carries out the analysis of a folder; its exit status.
pub(crate) fn run(folder: &Path) -> Result<u8> {
    let task: Task = serde_json::from_slice(&fs::read(folder.join("task.json"))?)?;
    // The task's log.
    let mut log = io::stdout();
    let work = folder.join(WORK);
    let output = work.join("output");
    fs::create_dir_all(&output)?;
    match calculate(folder, &task) {
        // The other two are in the way of anybody who writes there.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull => {
            Err(source.into())
        }
        Ok(report) => {
            for warning in &report.warnings {
                writeln!(log, "warning: {warning}")?;
            }
            writeln!(
                log,
                "{} of {}, {}",
                report.n_analyzed,
                counted(report.n_frames, "frame"),
                counted(report.tables.len(), "table")
            )?;
            write_results(&output, &task, &report)?;
            let result = json!({ "status": Status::Succeeded, "warnings": warnings(&report), "versions": versions() });
            finish(&work, &task, result)?;
            Ok(0)
        }
        Err(error) => {
            let failure = explain(&error, &folder.join("input"));
            writeln!(log, "failed: {}: {}", failure.code, failure.message)?;
            let result = json!({ "status": Status::Failed, "error": failure, "warnings": [], "versions": versions() });
            finish(&work, &task, result)?;
            Ok(FAILED)
        }
    }
}

fn calculate(folder: &Path, task: &Task) -> Result<Report, Error> {
    let atoms = atoms(&folder.join("input").join(&task.plan.structure))?;
    let n_locations = atoms.n_locations;
    calculate_named(folder, task, atoms).map_err(|error| error.with_locations(n_locations))
}

fn calculate_named(folder: &Path, task: &Task, atoms: Atoms) -> Result<Report, Error> {
    let input = folder.join("input");
    let Atoms { topology, positions, cell, warnings: of_topology, .. } = atoms;
    let params = params(&task.plan.request);
    let parsed = params.parse().map_err(Error::Params)?;
    let files: Vec<PathBuf> = task.plan.trajectory.iter().map(|name| input.join(name)).collect();
    let trajectory = Series::open(&files)?;
    let positions = match positions {
        Some(positions) => positions,
        None => {
            let never = AtomicBool::new(false);
            first_positions(&topology, &trajectory, params.skip_damaged_frames, &never)?
        }
    };
    let reference = task.plan.reference.as_ref();
    let other = reference.map(|reference| {
        atoms_of(reference, &input, &topology, &trajectory, params.skip_damaged_frames)
    });
    let other = other.transpose()?;
    let reference =
        reference.zip(other.as_ref()).map(|(reference, (topology, (positions, cell)))| {
            ReferenceStructure {
                field: "reference_frame",
                label: reference.label.clone(),
                topology: topology.as_ref(),
                positions,
                cell: *cell,
            }
        });
    let cell = cell.or_else(|| trajectory.first_cell());
    let selected = parsed
        .in_cell(cell)
        .select(&topology, &positions, reference.as_ref())
        .map_err(Error::Params)?;
    let progress = |done: usize, all: usize| {
        let said = json!({ "fraction": done as f64 / all.max(1) as f64, "stage": "frames", "step": done, "steps": all });
        // A picture of the moment; the next one makes up for it.
        let _ = write(&folder.join(WORK).join("progress.json"), said.to_string().as_bytes());
    };
    let control = Control {
        n_threads: NonZeroUsize::new(task.threads).unwrap_or(NonZeroUsize::MIN),
        progress: &progress,
        cancelled: &AtomicBool::new(false),
    };
    let report = analyze(&topology, &trajectory, &selected.request, &control)?;
    Ok(Report {
        warnings: of_topology.into_iter().chain(selected.warnings).chain(report.warnings).collect(),
        ..report
    }
    .completed(&params, &control))
}

/// The topology of a reference, none where it is that of the trajectory, and where its atoms are,
/// in Å.
fn atoms_of(
    reference: &ReferenceInputs,
    input: &Path,
    topology: &Topology,
    trajectory: &Series,
    skips_damaged: bool,
) -> Result<(Option<Topology>, Placed), Error> {
    let never = AtomicBool::new(false);
    let frame = reference.frame.unwrap_or(0);
    let Some(name) = &reference.structure else {
        return Ok((None, frame_positions(topology, trajectory, frame, skips_damaged, &never)?));
    };
    let (other, as_built) = structure(&input.join(name))?;
    let Some(frames) = &reference.trajectory else { return Ok((Some(other), (as_built, None))) };
    let frames = Series::open(&[input.join(frames)])?;
    let positions = frame_positions(&other, &frames, frame, skips_damaged, &never)?;
    Ok((Some(other), positions))
}

/// One of each atom, in Å.
type Positions = Vec<[f64; 3]>;

/// Positions, and the cell of a frame that they are in.
type Placed = (Positions, Option<Cell>);

/// What names atoms, where they are and in which cell, if the file says so, and what may be wrong
/// with it.
struct Atoms {
    topology: Topology,
    positions: Option<Positions>,
    cell: Option<Cell>,
    warnings: Vec<Warning>,
    /// Alternate locations that it has besides.
    n_locations: usize,
}

fn atoms(path: &Path) -> Result<Atoms, Error> {
    if path.extension().is_some_and(|extension| extension == "json") {
        let (topology, positions) = structure(path)?;
        let positions = Some(positions);
        let warnings = Vec::new();
        return Ok(Atoms { topology, positions, cell: None, warnings, n_locations: 0 });
    }
    let file = TopologyFile::open(path)?;
    let (warnings, n_locations) = (file.warnings(), file.n_locations());
    Ok(match file {
        TopologyFile::Structure(Structure { topology, positions, cell, .. }) => {
            Atoms { topology, positions: Some(positions), cell, warnings, n_locations }
        }
        TopologyFile::Topology(topology) => {
            Atoms { topology, positions: None, cell: None, warnings, n_locations }
        }
    })
}

fn structure(path: &Path) -> Result<(Topology, Positions), Error> {
    if path.extension().is_none_or(|extension| extension != "json") {
        let structure = Structure::open(path)?;
        return Ok((structure.topology, structure.positions));
    }
    match read_built(path) {
        Ok(built) => Ok(built.parts()),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

fn read_built(path: &Path) -> io::Result<Built> {
    Built::parse(&fs::read(path)?).map_err(|e| io::Error::other(format!("{e:#}")))
}

/// The failure in the form of the records; `input` is the folder of the files that it may name.
fn explain(error: &Error, input: &Path) -> Failure {
    let causes =
        std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let message = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let message = message.replace(&format!("{}/", input.display()), "");
    match error {
        Error::AtomCount { .. } => {
            failure("atom_count", message, "give the topology that belongs to the trajectory")
        }
        Error::NoSuchFrame { .. } => failure(
            "no_frames",
            message,
            "analyse again when the job has written that frame, or name another",
        ),
        Error::NoFrames => {
            failure("no_frames", message, "analyse again when the job has written frames")
        }
        Error::Format { .. } => {
            failure("trajectory_damaged", message, "check the file, or run the job again")
        }
        Error::Damaged { .. } => {
            let remedy = "run the job again, or leave such frames out with skip_damaged_frames";
            failure("frame_damaged", message, remedy)
        }
        Error::AllDamaged { .. } => {
            failure("frame_damaged", message, "check the file, or run the job again")
        }
        Error::Io { .. } => {
            let remedy = "analyse again; tell the operator of the service if it stays so";
            failure("trajectory_unreadable", message, remedy)
        }
        Error::NotFinite { .. } => failure("internal", message, "tell the operator of the service"),
        _ => failure("not_analysed", message, "see the message; change the masks or the topology"),
    }
}

fn warnings(report: &Report) -> Vec<Value> {
    report
        .warnings
        .iter()
        .map(|w| json!({ "code": "analysis", "message": w.to_string() }))
        .collect()
}

fn versions() -> Value {
    json!({ "molbox-analysis": env!("CARGO_PKG_VERSION") })
}

/// The data as JSON, each table as CSV and Parquet, and plots of those that have a course.
fn write_results(output: &Path, task: &Task, report: &Report) -> Result<()> {
    let data = json!({
        "analysis_id": task.id,
        "job_id": task.plan.job,
        "stride": report.stride,
        "frames_total": report.n_frames,
        "frames_analyzed": report.n_analyzed,
        "tables": report.tables,
    });
    write(&output.join("data.json"), &serde_json::to_vec(&without_nulls(data))?)?;
    for table in &report.tables {
        let name = &table.name;
        write(&output.join(format!("{name}.csv")), table.to_csv().as_bytes())?;
        write(&output.join(format!("{name}.parquet")), &table.to_parquet())?;
        if let Some(pdb) = &table.pdb {
            write(&output.join(format!("{name}.pdb")), pdb.as_bytes())?;
        }
        if let Some(figure) = Figure::along(table, &report.residues) {
            write(&output.join(format!("{name}.png")), &figure.png())?;
            write(&output.join(format!("{name}.svg")), figure.svg().as_bytes())?;
            write(&output.join(format!("{name}.pdf")), &figure.pdf())?;
        }
    }
    Ok(())
}

fn finish(work: &Path, task: &Task, mut result: Value) -> Result<()> {
    result["attempt"] = task.attempt.into();
    write(&work.join("result.json"), result.to_string().as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    files::write(path, bytes).with_context(|| format!("write {}", path.display()))
}
