//! The report of a run: what was done, with which parameters, what came of it, how to cite it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use molbox::run::Run;
use molbox_plot::{Figure, Line, Panel};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// Folders of a replica's results.
pub(crate) struct Results {
    pub(crate) bundle: Option<PathBuf>,
    pub(crate) tables: Option<PathBuf>,
}

/// What to cite for a value: member of the system's summary, value, reference.
const REFERENCES: [(&str, &str, &str); 11] = [
    (
        "force_field",
        "amber14",
        "Force field ff14SB: J. A. Maier et al., J. Chem. Theory Comput. 11, 3696 (2015), doi:10.1021/acs.jctc.5b00255",
    ),
    (
        "force_field",
        "amber14-ff15ipq",
        "Force field ff15ipq: K. T. Debiec et al., J. Chem. Theory Comput. 12, 3926 (2016), doi:10.1021/acs.jctc.6b00567",
    ),
    (
        "force_field",
        "amber19",
        "Force field ff19SB: C. Tian et al., J. Chem. Theory Comput. 16, 528 (2020), doi:10.1021/acs.jctc.9b00591",
    ),
    (
        "force_field",
        "amberfb15",
        "Force field AMBER-FB15: L.-P. Wang et al., J. Phys. Chem. B 121, 4023 (2017), doi:10.1021/acs.jpcb.7b02320",
    ),
    (
        "force_field",
        "charmm36",
        "Force field CHARMM36: R. B. Best et al., J. Chem. Theory Comput. 8, 3257 (2012), doi:10.1021/ct300400x",
    ),
    (
        "force_field",
        "charmm36_2024",
        "Force field CHARMM36m: J. Huang et al., Nat. Methods 14, 71 (2017), doi:10.1038/nmeth.4067",
    ),
    (
        "water_type",
        "tip3p",
        "Water model TIP3P: W. L. Jorgensen et al., J. Chem. Phys. 79, 926 (1983), doi:10.1063/1.445869",
    ),
    (
        "water_type",
        "tip3pfb",
        "Water model TIP3P-FB: L.-P. Wang et al., J. Phys. Chem. Lett. 5, 1885 (2014), doi:10.1021/jz500737m",
    ),
    (
        "water_type",
        "tip4pew",
        "Water model TIP4P-Ew: H. W. Horn et al., J. Chem. Phys. 120, 9665 (2004), doi:10.1063/1.1683075",
    ),
    (
        "water_type",
        "opc",
        "Water model OPC: S. Izadi et al., J. Phys. Chem. Lett. 5, 3863 (2014), doi:10.1021/jz501780a",
    ),
    (
        "water_type",
        "spce",
        "Water model SPC/E: H. J. C. Berendsen et al., J. Phys. Chem. 91, 6269 (1987), doi:10.1021/j100308a038",
    ),
];

const ENGINE: &str =
    "Simulation engine OpenMM 8: P. Eastman et al., J. Phys. Chem. B 128, 109 (2024), doi:10.1021/acs.jpcb.3c06662";
const EWALD: &str =
    "Electrostatics by particle mesh Ewald: U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), doi:10.1063/1.470117";

const SIZE: (u32, u32) = (1000, 800);

/// Writes `report.md` and its pictures into the folder of a run.
pub(crate) fn write(run: &Run, results: &[Results]) -> Result<PathBuf, Failure> {
    let path = run.folder().join("report.md");
    let text = text(run, results)?;
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn text(run: &Run, results: &[Results]) -> Result<String> {
    let mut text = format!("# {}\n\n", run.plan.structure);
    let system = value(&run.system)?;
    let summary = &system["summary"];
    let jobs: Vec<Value> = run.replicas.iter().map(|replica| value(&replica.job)).collect::<Result<_>>()?;
    let parameters = jobs.first().map(|job| job["parameters"].clone()).unwrap_or_default();

    writeln!(text, "Molecular dynamics of `{}`{}.\n", run.plan.structure, replicas(jobs.len()))?;
    writeln!(text, "## What was done\n")?;
    writeln!(
        text,
        "- Built `{}`: {} atoms, {} residues, {:.1} nm³, {}, {}.",
        plain(&system["system_id"]),
        plain(&summary["atoms"]),
        plain(&summary["residues"]),
        summary["volume"].as_f64().unwrap_or_default(),
        plain(&summary["force_field"]),
        plain(&summary["water_type"])
    )?;
    let molecules = summary["molecules"].as_object().into_iter().flatten();
    let molecules: Vec<String> = molecules.map(|(name, count)| format!("{count} {name}")).collect();
    writeln!(text, "  Molecules: {}.", molecules.join(", "))?;
    writeln!(text, "- Minimised the energy, at most {} steps.", plain(&parameters["minimization_steps"]))?;
    for stage in parameters["equilibration"].as_array().into_iter().flatten() {
        let mask = stage["restraint_mask"].as_str();
        let restraint =
            mask.map(|mask| format!(", `{mask}` restrained with {} kJ/mol·nm²", plain(&stage["restraint_force"])));
        let (kind, time) = (plain(&stage["type"]), plain(&stage["time"]));
        writeln!(text, "- Equilibrated: {kind}, {time} ns{}.", restraint.unwrap_or_default())?;
    }
    if let Some(production) = parameters.get("production").filter(|production| production.is_object()) {
        let (kind, time) = (plain(&production["type"]), plain(&production["time"]));
        writeln!(text, "- Produced {time} ns, {kind}, a frame every {} steps.", plain(&production["traj_freq"]))?;
    }
    if run.plan.analysis.is_some() {
        writeln!(text, "- Analysed the trajectories (definitions stand in each table's description).")?;
    }

    writeln!(text, "\n## Results\n")?;
    writeln!(text, "| replica | job | seed | platform | production | results |\n|---|---|---|---|---|---|")?;
    for (index, (job, result)) in jobs.iter().zip(results).enumerate() {
        let stages = job["stages"].as_array();
        let production = stages.and_then(|stages| stages.iter().find(|stage| stage["name"] == "production"));
        let speed = production.map(|stage| {
            let speed = stage["ns_per_day"].as_f64().map_or_else(|| "?".to_owned(), |speed| format!("{speed:.1}"));
            format!("{} frames, {speed} ns/day", plain(&stage["frames"]))
        });
        writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {} |",
            index + 1,
            plain(&job["job_id"]),
            plain(&job["parameters"]["seed"]),
            plain(&job["platform"]),
            speed.unwrap_or_default(),
            result.bundle.as_deref().map(|folder| link(run, folder)).unwrap_or_default()
        )?;
    }
    for (index, result) in results.iter().enumerate() {
        writeln!(text, "\n### Replica {}\n", index + 1)?;
        if let Some(bundle) = &result.bundle
            && let Some(figure) = energies(bundle, &parameters)?
        {
            let picture = run.replica_folder(index).join("energies.png");
            fs::write(&picture, figure.png(SIZE.0, SIZE.1)?)?;
            writeln!(text, "![energies, temperature and density]({})\n", relative(run, &picture))?;
        }
        if let Some(tables) = &result.tables {
            for picture in pictures(tables)? {
                let name = picture.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('_', " ");
                writeln!(text, "![{name}]({})\n", relative(run, &picture))?;
            }
            writeln!(text, "Tables: {}", link(run, tables))?;
        }
    }
    let warnings = |record: &Value| -> Vec<String> {
        let warnings = record["warnings"].as_array().into_iter().flatten();
        warnings.map(|warning| plain(&warning["message"])).collect()
    };
    let mut told: Vec<String> = warnings(&system).into_iter().chain(jobs.iter().flat_map(warnings)).collect();
    told.dedup();
    if !told.is_empty() {
        writeln!(text, "\n## Warnings\n\n- {}", told.join("\n- "))?;
    }

    writeln!(text, "\n## Parameters\n\nThe system as it was asked for, and the job with every default filled in:\n")?;
    writeln!(text, "```json\n{}\n```\n", serde_json::to_string_pretty(&system["request"])?)?;
    writeln!(text, "```json\n{}\n```\n", serde_json::to_string_pretty(&parameters)?)?;
    writeln!(text, "Versions, seeds and checksums of every file stand in each bundle's manifest.\n")?;

    writeln!(text, "## How to cite\n")?;
    let mut cited = vec![ENGINE, EWALD];
    let of_values = REFERENCES.iter().filter(|(member, value, _)| {
        // A force field of the user's may follow.
        plain(&summary[*member]).split(',').next() == Some(*value)
    });
    cited.extend(of_values.map(|(.., reference)| *reference));
    for reference in cited {
        writeln!(text, "- {reference}")?;
    }
    writeln!(text, "- Workflow: molbox {}", env!("CARGO_PKG_VERSION"))?;
    Ok(text)
}

fn replicas(count: usize) -> String {
    if count == 1 { String::new() } else { format!(", {count} replicas") }
}

fn value(record: &impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(record)?)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    }
}

fn relative(run: &Run, path: &Path) -> String {
    path.strip_prefix(run.folder()).unwrap_or(path).display().to_string()
}

fn link(run: &Run, path: &Path) -> String {
    let path = relative(run, path);
    format!("[{path}]({path}/)")
}

/// The PNG files of a folder, by name.
fn pictures(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pictures = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "png") {
            pictures.push(path);
        }
    }
    pictures.sort();
    Ok(pictures)
}

/// Potential energy, temperature and density over all stages; nothing when none was logged.
fn energies(bundle: &Path, parameters: &Value) -> Result<Option<Figure>> {
    let n_stages = parameters["equilibration"].as_array().map_or(0, Vec::len);
    let stages = (1..=n_stages).map(|n| format!("equilibration_{n}")).chain(["production".to_owned()]);
    let wanted = ["potential energy (kJ/mol)", "temperature (K)", "density (g/mL)"];
    let panel = |label: &str| Panel { y_label: label.to_owned(), lines: vec![Line::default()] };
    let mut figure = Figure {
        title: "Course of the simulation".to_owned(),
        x_label: "time (ps)".to_owned(),
        panels: wanted.map(panel).into(),
        marks: Vec::new(),
    };
    let mut begin = 0.0;
    for stage in stages {
        let Ok(log) = fs::read_to_string(bundle.join(&stage).with_extension("csv")) else { continue };
        let mut lines = log.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| head.iter().position(|head| *head == name);
        figure.marks.push((begin, stage));
        let mut end = begin;
        for line in lines {
            let cells: Vec<f64> = line.split(',').filter_map(|cell| cell.parse().ok()).collect();
            let at = |name: &str| column(name).and_then(|column| cells.get(column).copied());
            let Some(time) = at("time (ps)") else { continue };
            end = begin + time;
            for (panel, name) in figure.panels.iter_mut().zip(wanted) {
                if let Some(value) = at(name) {
                    panel.lines[0].points.push((end, value));
                }
            }
        }
        begin = end;
    }
    let has_points = figure.panels.iter().any(|panel| !panel.lines[0].points.is_empty());
    Ok(has_points.then_some(figure))
}
