//! The report of a run: what was done, with which parameters, what came of it, how to cite it.
//! Markdown, and the same as a page with its pictures in it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use molbox::run::Run;
use molbox_plot::Figure;
use pulldown_cmark::{Event, Options, Parser, Tag, html};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::schema;

/// The page; a run without it is not finished.
pub(crate) const FILE: &str = "report.html";

/// Folders of a replica's results.
pub(crate) struct Results {
    pub(crate) bundle: Option<PathBuf>,
    pub(crate) tables: Option<PathBuf>,
}

/// What to cite for a value: member of the system's summary, values, reference.
const REFERENCES: [(&str, &[&str], &str); 18] = [
    (
        "force_field",
        &["amber14"],
        "Force field ff14SB: J. A. Maier et al., J. Chem. Theory Comput. 11, 3696 (2015), doi:10.1021/acs.jctc.5b00255",
    ),
    (
        "force_field",
        &["amber14-ff15ipq"],
        "Force field ff15ipq: K. T. Debiec et al., J. Chem. Theory Comput. 12, 3926 (2016), doi:10.1021/acs.jctc.6b00567",
    ),
    (
        "force_field",
        &["amber19"],
        "Force field ff19SB: C. Tian et al., J. Chem. Theory Comput. 16, 528 (2020), doi:10.1021/acs.jctc.9b00591",
    ),
    (
        "force_field",
        &["amberfb15"],
        "Force field AMBER-FB15: L.-P. Wang et al., J. Phys. Chem. B 121, 4023 (2017), doi:10.1021/acs.jpcb.7b02320",
    ),
    (
        "force_field",
        &["charmm36"],
        "Force field CHARMM36: R. B. Best et al., J. Chem. Theory Comput. 8, 3257 (2012), doi:10.1021/ct300400x",
    ),
    (
        "force_field",
        &["charmm36_2024"],
        "Force field CHARMM36m: J. Huang et al., Nat. Methods 14, 71 (2017), doi:10.1038/nmeth.4067",
    ),
    (
        "water_type",
        &["tip3p"],
        "Water model TIP3P: W. L. Jorgensen et al., J. Chem. Phys. 79, 926 (1983), doi:10.1063/1.445869",
    ),
    (
        "water_type",
        &["tip3pfb", "tip4pfb"],
        "Water models TIP3P-FB and TIP4P-FB: L.-P. Wang et al., J. Phys. Chem. Lett. 5, 1885 (2014), doi:10.1021/jz500737m",
    ),
    (
        "water_type",
        &["tip3p-pme-b", "tip3p-pme-f"],
        "Water model TIP3P for Ewald sums: D. J. Price and C. L. Brooks, J. Chem. Phys. 121, 10096 (2004), doi:10.1063/1.1808117",
    ),
    (
        "water_type",
        &["tip4pew"],
        "Water model TIP4P-Ew: H. W. Horn et al., J. Chem. Phys. 120, 9665 (2004), doi:10.1063/1.1683075",
    ),
    (
        "water_type",
        &["tip4p2005"],
        "Water model TIP4P/2005: J. L. F. Abascal and C. Vega, J. Chem. Phys. 123, 234505 (2005), doi:10.1063/1.2121687",
    ),
    (
        "water_type",
        &["tip5p"],
        "Water model TIP5P: M. W. Mahoney and W. L. Jorgensen, J. Chem. Phys. 112, 8910 (2000), doi:10.1063/1.481505",
    ),
    (
        "water_type",
        &["tip5pew"],
        "Water model TIP5P-E: S. W. Rick, J. Chem. Phys. 120, 6085 (2004), doi:10.1063/1.1652434",
    ),
    (
        "water_type",
        &["opc"],
        "Water model OPC: S. Izadi et al., J. Phys. Chem. Lett. 5, 3863 (2014), doi:10.1021/jz501780a",
    ),
    (
        "water_type",
        &["opc3"],
        "Water model OPC3: S. Izadi and A. V. Onufriev, J. Chem. Phys. 145, 074501 (2016), doi:10.1063/1.4960175",
    ),
    (
        "water_type",
        &["spce"],
        "Water model SPC/E: H. J. C. Berendsen et al., J. Phys. Chem. 91, 6269 (1987), doi:10.1021/j100308a038",
    ),
    (
        "lipids",
        &["amber14", "amber19"],
        "Lipids of the Amber family: C. J. Dickson et al., J. Chem. Theory Comput. 10, 865 (2014), doi:10.1021/ct4010307, \
         and 18, 1726 (2022), doi:10.1021/acs.jctc.1c01217",
    ),
    (
        "lipids",
        &["charmm36", "charmm36_2024"],
        "Lipids of CHARMM36: J. B. Klauda et al., J. Phys. Chem. B 114, 7830 (2010), doi:10.1021/jp101759q",
    ),
];

const ENGINE: &str =
    "Simulation engine OpenMM 8: P. Eastman et al., J. Phys. Chem. B 128, 109 (2024), doi:10.1021/acs.jpcb.3c06662";
const EWALD: &str =
    "Electrostatics by particle mesh Ewald: U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), doi:10.1063/1.470117";
const THERMOSTAT: &str =
    "Langevin middle integrator: Z. Zhang et al., J. Phys. Chem. A 123, 6056 (2019), doi:10.1021/acs.jpca.9b02771";
const CONSTRAINTS: [&str; 2] = [
    "Rigid water by SETTLE: S. Miyamoto and P. A. Kollman, J. Comput. Chem. 13, 952 (1992), doi:10.1002/jcc.540130805",
    "Rigid bonds by CCMA: P. Eastman and V. S. Pande, J. Chem. Theory Comput. 6, 434 (2010), doi:10.1021/ct900463w",
];
const BAROSTAT: &str = "Monte Carlo barostat: K.-H. Chow and D. M. Ferguson, Comput. Phys. Commun. 91, 283 (1995), \
    doi:10.1016/0010-4655(95)00059-O; J. Åqvist et al., Chem. Phys. Lett. 384, 288 (2004), \
    doi:10.1016/j.cplett.2003.12.039";
const HEAVY_HYDROGENS: &str =
    "Heavy hydrogens: C. W. Hopkins et al., J. Chem. Theory Comput. 11, 1864 (2015), doi:10.1021/ct5010406";
const LIGANDS: [&str; 2] = [
    "Ligands by GAFF: J. Wang et al., J. Comput. Chem. 25, 1157 (2004), doi:10.1002/jcc.20035",
    "Charges by AM1-BCC: A. Jakalian et al., J. Comput. Chem. 23, 1623 (2002), doi:10.1002/jcc.10128",
];
/// Above it hydrogens are made heavier, in fs.
const LONGEST_STEP_FS: f64 = 2.5;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    img{max-width:100%}table{border-collapse:collapse}td,th{padding:.2rem .8rem;border-bottom:1px solid #ccc;\
    text-align:left}code{background:#f3f3f3;padding:0 .2rem;overflow-wrap:anywhere}";

/// Writes `report.md`, its pictures, and `report.html` with the pictures in it, into the folder of a run.
pub(crate) fn write(run: &Run, results: &[Results]) -> Result<PathBuf, Failure> {
    let text = text(run, results)?;
    // The page comes last, and whole: it says that the run is finished.
    for (name, content) in [("report.md", text.clone()), (FILE, page(run, &text)?)] {
        let (path, partial) = (run.folder().join(name), run.folder().join(name).with_extension("tmp"));
        let written = fs::write(&partial, content).and_then(|()| fs::rename(&partial, &path));
        written.map_err(|e| Failure::file(&path, &e))?;
    }
    Ok(run.folder().join(FILE))
}

/// The report as a page of its own.
fn page(run: &Run, text: &str) -> Result<String> {
    let mut events = Vec::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        events.push(match event {
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let path = run.folder().join(&*dest_url);
                let picture = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
                let dest_url = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(picture)).into();
                Event::Start(Tag::Image { link_type, dest_url, title, id })
            }
            // Names and messages that look like HTML are text all the same.
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            other => other,
        });
    }
    let mut page = format!("<!doctype html>\n<meta charset=\"utf-8\">\n<style>{STYLE}</style>\n<title>");
    html::push_html(&mut page, std::iter::once(Event::Text(title(run).into())));
    page.push_str("</title>\n");
    html::push_html(&mut page, events.into_iter());
    Ok(page)
}

/// The structure, without the folders that lead to it.
fn title(run: &Run) -> &str {
    let structure = run.plan.structure.as_str();
    Path::new(structure).file_name().and_then(|name| name.to_str()).unwrap_or(structure)
}

fn text(run: &Run, results: &[Results]) -> Result<String> {
    let mut text = format!("# {}\n\n", title(run));
    let system = value(&run.system)?;
    let jobs: Vec<Value> = run.replicas.iter().map(|replica| value(&replica.job)).collect::<Result<_>>()?;
    let parameters = jobs.first().map(|job| job["parameters"].clone()).unwrap_or_default();

    writeln!(text, "Molecular dynamics of `{}`{}.\n", title(run), replicas(jobs.len()))?;
    done(&mut text, run, &system, &parameters)?;

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
        replica(&mut text, run, index, result, &parameters)?;
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

    writeln!(text, "\n## Parameters")?;
    let mut built = system["request"].clone();
    for member in ["force_field", "water_type", "seed"] {
        built[member] = system["summary"][member].clone();
    }
    table(&mut text, "System", "SystemBuildRequest", &built)?;
    table(&mut text, "Job", "JobCreateParams", &parameters)?;
    if let Some(analysis) = &run.plan.analysis {
        table(&mut text, "Analysis", "AnalysisRequest", &value(analysis)?)?;
    }
    writeln!(text, "\nVersions, seeds and checksums of every file stand in each bundle's manifest.\n")?;

    writeln!(text, "## How to cite\n")?;
    for reference in references(&system, &parameters) {
        writeln!(text, "- {reference}")?;
    }
    writeln!(text, "- Workflow: molbox {}", env!("CARGO_PKG_VERSION"))?;
    Ok(text)
}

/// What was done, in sentences.
fn done(text: &mut String, run: &Run, system: &Value, parameters: &Value) -> Result<()> {
    let summary = &system["summary"];
    writeln!(text, "## What was done\n")?;
    for file in &run.files {
        writeln!(text, "- Uploaded `{}` as `{}`.", file.name, file.file_id)?;
    }
    writeln!(
        text,
        "- Built `{}`: {} atoms, {} residues, {} nm³, {}, {}.",
        plain(&system["system_id"]),
        plain(&summary["atoms"]),
        plain(&summary["residues"]),
        summary["volume"].as_f64().map_or_else(|| "?".to_owned(), |volume| format!("{volume:.1}")),
        plain(&summary["force_field"]),
        plain(&summary["water_type"])
    )?;
    let molecules = summary["molecules"].as_object().into_iter().flatten();
    let molecules: Vec<String> = molecules.map(|(name, count)| format!("{count} {name}")).collect();
    writeln!(text, "  Molecules: {}.", molecules.join(", "))?;
    let stages = run.replicas.iter().flat_map(|replica| &replica.job.stages);
    let steps: Vec<u64> = stages.filter(|stage| stage.name == "minimization").map(|stage| stage.steps).collect();
    if let (Some(least), Some(most)) = (steps.iter().min(), steps.iter().max()) {
        let steps = if least == most { most.to_string() } else { format!("{least} to {most}") };
        writeln!(text, "- Minimised the energy in {steps} steps.")?;
    }
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
    if run.replicas.iter().any(|replica| replica.tables.is_some()) {
        writeln!(text, "- Analysed the trajectories.")?;
    }
    Ok(())
}

/// Pictures and averages of a replica.
fn replica(text: &mut String, run: &Run, index: usize, result: &Results, parameters: &Value) -> Result<()> {
    if let Some(bundle) = &result.bundle
        && let Some(figure) = energies(bundle, parameters)?
    {
        let picture = run.replica_folder(index).join("energies.png");
        fs::write(&picture, figure.png())?;
        writeln!(text, "![energies, temperature and density]({})\n", relative(run, &picture))?;
    }
    let Some(tables) = &result.tables else { return Ok(()) };
    for picture in pictures(tables)? {
        let name = picture.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('_', " ");
        writeln!(text, "![{name}]({})\n", relative(run, &picture))?;
    }
    averages(text, tables)?;
    writeln!(text, "Tables: {}", link(run, tables))?;
    Ok(())
}

/// Mean and extremes of what was measured in each frame, with its definition.
fn averages(text: &mut String, tables: &Path) -> Result<()> {
    let path = tables.join("data.json");
    let data = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let data: Value = serde_json::from_str(&data).with_context(|| format!("read {}", path.display()))?;
    let columns = |table: &'_ Value| table["columns"].as_array().cloned().unwrap_or_default();
    let mut rows = String::new();
    for table in data["tables"].as_array().into_iter().flatten() {
        if !columns(table).iter().any(|column| column["name"] == "frame") {
            continue;
        }
        for column in columns(table) {
            // Columns of texts have no mean, nor has one in which a value is missing.
            let values = column["values"].as_array().into_iter().flatten();
            let values: Option<Vec<f64>> = values.map(Value::as_f64).collect();
            let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
            if ["frame", "time_ps"].iter().any(|name| column["name"] == *name) {
                continue;
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (what, unit) = (plain(&column["definition"]), column["unit"].as_str().unwrap_or_default());
            let row = [plain(&table["title"]), what, unit.to_owned()].map(|cell| escaped(&cell)).join(" | ");
            writeln!(rows, "| {row} | {mean:.3} | {least:.3} | {largest:.3} |")?;
        }
    }
    if !rows.is_empty() {
        writeln!(text, "| analysis | quantity | unit | mean | least | largest |\n|---|---|---|---|---|---|\n{rows}")?;
    }
    Ok(())
}

/// The fields of a request with values and units; what was not given has its default.
fn table(text: &mut String, title: &str, name: &str, request: &Value) -> Result<()> {
    let mut rows = Vec::new();
    fields(&mut rows, "", schema::named(name), request);
    writeln!(text, "\n### {title}\n\n| field | value | unit |\n|---|---|---|")?;
    for (field, value, unit) in rows {
        writeln!(text, "| {field} | `{}` | {} |", escaped(&value), unit.unwrap_or_default())?;
    }
    Ok(())
}

type Row = (String, String, Option<&'static str>);

fn fields(rows: &mut Vec<Row>, prefix: &str, schema: &'static Value, request: &Value) {
    for (name, field) in schema::fields(schema) {
        let path = format!("{prefix}{name}");
        let given = request.get(name).filter(|value| !value.is_null());
        match given.or(field.get("x-default")) {
            Some(Value::Array(items)) if items.iter().any(Value::is_object) => {
                for (index, item) in items.iter().enumerate() {
                    let items = &schema::resolved(field)["items"];
                    fields(rows, &format!("{path}[{index}]."), items, item);
                }
            }
            Some(value @ Value::Object(_)) => fields(rows, &format!("{path}."), field, value),
            Some(Value::Array(items)) if items.is_empty() => {}
            Some(value) => rows.push((path, plain(value), schema::unit(field))),
            None => {}
        }
    }
}

/// What to cite for a system and what was done with it.
fn references(system: &Value, parameters: &Value) -> Vec<&'static str> {
    let mut cited = vec![ENGINE, EWALD, THERMOSTAT];
    cited.extend(CONSTRAINTS);
    let stages = parameters["equilibration"].as_array().into_iter().flatten().chain(parameters.get("production"));
    if stages.into_iter().any(|stage| stage["type"] == "NPT") {
        cited.push(BAROSTAT);
    }
    if parameters["integration_timestep"].as_f64().is_some_and(|step| step > LONGEST_STEP_FS) {
        cited.push(HEAVY_HYDROGENS);
    }
    let mut of = system["summary"].clone();
    if system["request"]["membrane"].is_string() {
        of["lipids"] = of["force_field"].clone();
    }
    let of_values = REFERENCES.iter().filter(|(member, values, _)| {
        // A force field of the user's may follow.
        of[*member].as_str().and_then(|value| value.split(',').next()).is_some_and(|value| values.contains(&value))
    });
    cited.extend(of_values.map(|(.., reference)| *reference));
    if system["request"]["ligands"].as_array().is_some_and(|ligands| !ligands.is_empty()) {
        cited.extend(LIGANDS);
    }
    cited
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

/// Text for a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn relative(run: &Run, path: &Path) -> String {
    path.strip_prefix(run.folder()).unwrap_or(path).display().to_string()
}

fn link(run: &Run, path: &Path) -> String {
    let path = relative(run, path);
    format!("[files]({path}/)")
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

/// The course of the simulation; nothing when none was logged.
fn energies(bundle: &Path, parameters: &Value) -> Result<Option<Figure>> {
    let n_stages = parameters["equilibration"].as_array().map_or(0, Vec::len);
    let stages = (1..=n_stages).map(|n| format!("equilibration_{n}")).chain(["production".to_owned()]);
    let mut logs = Vec::new();
    for stage in stages {
        let path = bundle.join(&stage).with_extension("csv");
        // A simulation that was stopped has no logs of the stages that it did not reach.
        if path.exists() {
            let log = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            logs.push((stage, log));
        }
    }
    Ok(Figure::of_logs("Course of the simulation", logs.iter().map(|(stage, log)| (stage.as_str(), log.as_str()))))
}
