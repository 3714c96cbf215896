//! `molbox analyze`: trajectories of this machine, without a service.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use molbox::workflow::types::AnalysisRequest;
use molbox_analysis::{
    Control, Error, Files, InvalidParams, Params, Report, Table, Values, analyze_files,
};
use molbox_plot::{Figure, Width};
use serde_json::{Value, json};

use crate::content;
use crate::context::Context;
use crate::destination;
use crate::failure::{Code, Failure};
use crate::output::counted;
use crate::request::{self, Body, Flags};
use crate::statistics;
use crate::units;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Trajectory in DCD, XTC, TRR or Amber's NetCDF, in parts if there are several, and what names
    /// its atoms, PDB, mmCIF, GRO, Amber's prmtop or PSF; in any order.
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write each table as CSV and Parquet, with a plot, to this folder.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// How wide plots are in print, in mm: 183, both columns of a journal's page, or 89, one.
    #[arg(long, value_name = "MM", default_value = "183", value_parser = width)]
    figure_width: Width,
    /// Threads to use. Default: one for each processor.
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| units::whole(text, NonZeroUsize::MIN))]
    threads: Option<NonZeroUsize>,
    /// Structure file of this machine, PDB, mmCIF or GRO, that RMSD are measured from. Each mask must
    /// select as many residues there, which are compared in their order, with atoms of the same names.
    #[arg(long, value_name = "FILE")]
    reference_file: Option<PathBuf>,
    #[command(flatten)]
    analysis: Flags<Analysis>,
}

#[derive(Debug)]
enum Analysis {}

impl Body for Analysis {
    const SCHEMA: &'static str = "AnalysisRequest";
    const WITHOUT: &'static [&'static str] = &[
        "job_id",
        "allow_unfinished",
        "topology",
        "trajectory",
        "reference_job",
        "reference_system",
        // Of a file here, and nothing waits for a slot.
        "reference_file",
        "priority",
    ];
    type Checked = AnalysisRequest;
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let mut body = json!({});
    arguments.analysis.over(&mut body);
    if let Some(warning) = arguments.analysis.without_effect(&body) {
        context.output.warning(warning);
    }
    let request = request::check::<Analysis>(&body)?;
    let params = Params {
        downsample_frames: request.downsample_frames.map(molbox::Finite::get),
        distance_masks: request.distance_masks,
        rmsd_masks: request.rmsd_masks,
        rmsf_masks: request.rmsf_masks,
        hbond_angle: request.hbond_angle.map(molbox::Finite::get),
        hbond_distance: request.hbond_distance.map(molbox::Finite::get),
        hbond_masks: request.hbond_masks,
        hbond_criterion: request.hbond_criterion,
        contact_masks: request.contact_masks,
        contact_distance: request.contact_distance.map(molbox::Finite::get),
        gyration_masks: request.gyration_masks,
        surface_masks: request.surface_masks,
        surface_probe: request.surface_probe.map(molbox::Finite::get),
        secondary_structure_masks: request.secondary_structure_masks,
        cluster_masks: request.cluster_masks,
        cluster_method: request.cluster_method,
        cluster_cutoff: request.cluster_cutoff.map(molbox::Finite::get),
        cluster_count: request.cluster_count,
        dihedral_masks: request.dihedral_masks,
        dihedral_angles: request.dihedral_angles,
        native_contact_masks: request.native_contact_masks,
        rdf_masks: request.rdf_masks,
        rdf_distance: request.rdf_distance.map(molbox::Finite::get),
        rdf_bin: request.rdf_bin.map(molbox::Finite::get),
        density_masks: request.density_masks,
        density_axis: request.density_axis,
        density_bin: request.density_bin.map(molbox::Finite::get),
        pca_masks: request.pca_masks,
        pca_components: request.pca_components,
        lipid_masks: request.lipid_masks,
        end_to_end_masks: request.end_to_end_masks,
        without_convergence: request.convergence == Some(false),
        first_frame: request.first_frame,
        last_frame: request.last_frame,
        reference_frame: request.reference_frame,
        skip_damaged_frames: request.skip_damaged_frames.unwrap_or(false),
    };
    let (trajectory, topology): (Vec<_>, Vec<_>) =
        arguments.files.iter().partition(|path| is_trajectory(path));
    let ([topology], [_, ..]) = (topology.as_slice(), trajectory.as_slice()) else {
        return Err(Failure::usage(
            "one file that names the atoms (.pdb, .cif, .gro, .prmtop, .psf) and at least one \
             trajectory (.dcd, .xtc, .trr, .nc) are needed",
        ));
    };
    let trajectory: Vec<PathBuf> = trajectory.into_iter().cloned().collect();
    if let Some(path) = trajectory.iter().find(|path| content::unpacked_name(path) != **path) {
        let message = format!("{}: a trajectory is not read from within gzip", path.display());
        return Err(Failure::invalid(message).remedy("unpack it, with `gunzip`"));
    }
    if arguments.reference_file.is_some() && params.reference_frame.is_some() {
        let problem = "a frame is of a trajectory, and `--reference-file` has none; leave it out";
        let problems = vec![("reference_frame".to_owned(), problem.to_owned())];
        return Err(Failure::invalid_fields(problems).expect("something is wrong"));
    }
    let (topology, _unpacked) = content::to_read(topology.to_path_buf())?;
    let reference = arguments.reference_file.clone().map(content::to_read).transpose()?;
    let reference = reference.as_ref().map(|(path, _unpacked)| path.as_path());
    // First, for an analysis may take hours.
    let _made = arguments.output.as_deref().map(destination::folder).transpose()?;

    let bar = context.output.bar("analysing");
    let shown = bar.clone();
    let progress = move |done: usize, all: usize| {
        shown.set_position((1000 * done / all.max(1)) as u64);
        shown.set_message(format!("frame {done} of {all}"));
    };
    let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let control = Control {
        n_threads: arguments.threads.unwrap_or(processors),
        progress: &progress,
        cancelled: &AtomicBool::new(false),
    };
    let files = Files { topology: &topology, trajectory: &trajectory, reference };
    let report = analyze_files(&files, &params, &control);
    bar.finish_and_clear();
    let report = report.map_err(failure)?;
    for warning in &report.warnings {
        context.output.warning(&warning.to_string());
    }
    let frames = counted(report.n_frames, "frame");
    context.output.note(&format!("{} of {frames} analysed", report.n_analyzed));
    if let Some(folder) = &arguments.output {
        write(folder, &report, arguments.figure_width)?;
    }
    if context.output.is_json() {
        return context.output.json(&json!({
            "stride": report.stride,
            "frames_total": report.n_frames,
            "frames_analyzed": report.n_analyzed,
            "warnings": report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "tables": report.tables,
        }));
    }
    for selected in selections(&report.tables) {
        context.output.note(&selected);
    }
    let errors = standard_errors(&report.tables);
    let rows: Vec<Value> = report.tables.iter().flat_map(|table| summary(table, &errors)).collect();
    let columns = [
        ("TABLE", "/table"),
        ("COLUMN", "/column"),
        ("UNIT", "/unit"),
        ("ROWS", "/rows"),
        ("MEAN", "/mean"),
        ("ERROR", "/error"),
        ("LEAST", "/least"),
        ("LARGEST", "/largest"),
    ];
    context.output.table(&columns, &rows)?;
    match &arguments.output {
        Some(folder) => context.output.note(&format!("tables and plots in {}", folder.display())),
        None => context
            .output
            .note("--output FOLDER writes the tables and plots, --json shows all numbers"),
    }
    Ok(())
}

/// Which atoms each mask has selected, which may be others than were meant:
/// `:41@CA: 1 atom, A:ALA81@CA`.
fn selections(tables: &[Table]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for group in tables.iter().flat_map(|table| &table.groups) {
        let Some(first) = &group.first_atom else { continue };
        let to = group.last_atom.as_ref().map(|last| format!(" to {last}")).unwrap_or_default();
        let atoms = if group.n_atoms == 1 { "atom" } else { "atoms" };
        let line = format!("{}: {} {atoms}, {first}{to}", group.label, group.n_atoms);
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

fn is_trajectory(path: &Path) -> bool {
    let formats = ["dcd", "xtc", "trr", "nc", "ncdf", "netcdf"];
    content::unpacked_name(path)
        .extension()
        .is_some_and(|e| formats.iter().any(|format| e.eq_ignore_ascii_case(format)))
}

/// Tables that have no row for a frame, a residue or a bin: means over them say nothing.
const WITHOUT_SUMMARY: [&str; 7] = [
    "block_averages",
    "convergence",
    "dihedrals",
    "dihedrals_by_frame",
    "principal_modes",
    "ramachandran",
    "side_chain_map",
];

/// The standard error of the mean of each series, by its table and column.
fn standard_errors(tables: &[Table]) -> HashMap<(&str, &str), f64> {
    let Some(table) = tables.iter().find(|table| table.kind == "convergence") else {
        return HashMap::new();
    };
    let texts = |name: &str| match table.column(name).map(|column| &column.values) {
        Some(Values::Texts(texts)) => texts.as_slice(),
        _ => &[],
    };
    let errors = table.numbers("standard_error").unwrap_or_default();
    let series = texts("table").iter().zip(texts("column"));
    series
        .zip(errors)
        .map(|((table, column), error)| ((table.as_str(), column.as_str()), *error))
        .collect()
}

fn summary(table: &Table, errors: &HashMap<(&str, &str), f64>) -> Vec<Value> {
    if WITHOUT_SUMMARY.contains(&table.kind) {
        return Vec::new();
    }
    let measured =
        table.columns.iter().filter(|column| !["time_ps", "frame"].contains(&column.name.as_str()));
    let numbers = measured.filter_map(|column| match &column.values {
        Values::Numbers(values) if !values.is_empty() => Some((column, values)),
        _ => None,
    });
    let rows = numbers.map(|(column, values)| {
        let scale = statistics::scale(values);
        let shown = |number| statistics::unrounded(number, scale);
        let error = errors.get(&(table.name.as_str(), column.name.as_str()));
        json!({
            "table": table.name,
            "column": column.name,
            "unit": column.unit,
            "rows": values.len(),
            "mean": shown(statistics::mean(values)),
            "error": error.copied().map(shown),
            "least": shown(values.iter().copied().fold(f64::INFINITY, f64::min)),
            "largest": shown(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        })
    });
    rows.collect()
}

fn width(text: &str) -> Result<Width, String> {
    match text.trim().trim_end_matches("mm").trim_end() {
        "183" => Ok(Width::Double),
        "89" => Ok(Width::Single),
        _ => Err(format!("must be 89 or 183 mm, got {text:?}")),
    }
}

fn write(folder: &Path, report: &Report, width: Width) -> Result<(), Failure> {
    for table in &report.tables {
        let file = folder.join(&table.name);
        write_file(&file.with_extension("csv"), table.to_csv().as_bytes())?;
        write_file(&file.with_extension("parquet"), &table.to_parquet())?;
        if let Some(pdb) = &table.pdb {
            write_file(&file.with_extension("pdb"), pdb.as_bytes())?;
        }
        if let Some(figure) = Figure::along(table, &report.residues) {
            let figure = Figure { width, ..figure };
            write_file(&file.with_extension("png"), &figure.png())?;
            write_file(&file.with_extension("svg"), figure.svg().as_bytes())?;
            write_file(&file.with_extension("pdf"), &figure.pdf())?;
        }
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|e| Failure::file(path, &e))
}

fn failure(error: Error) -> Failure {
    if let Error::Params(InvalidParams(violations)) = &error {
        let problems = violations.iter().map(|it| (it.at.to_string(), it.kind.to_string()));
        return Failure::invalid_fields(problems.collect()).expect("something is wrong");
    }
    let (code, remedy) = match &error {
        Error::Io { path, source } => return Failure::file(path, source),
        Error::Format { .. } | Error::Parts { .. } | Error::AllDamaged { .. } => (Code::File, None),
        Error::Damaged { .. } => (Code::File, Some("--skip-damaged-frames leaves such frames out")),
        Error::NotFinite { .. } => (Code::Other, None),
        _ => (Code::Invalid, None),
    };
    let failure = Failure::new(code, format!("{:#}", anyhow::Error::new(error)));
    match remedy {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}
