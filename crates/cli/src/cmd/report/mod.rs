//! The report of a run: what was done, with which parameters, what came of it, how to cite it.
//! Markdown, and the same as a page with its pictures in it.

mod cite;
mod methods;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use molbox::Finite;
use molbox::run::Run;
use molbox::workflow::types::{JobRecord, JobSettings, StageResult, SystemRecord, SystemSettings};
use molbox_plot::{Figure, Line, Panel};
use pulldown_cmark::{Event, Options, Parser, Tag, html};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::{schema, statistics};

/// The page; a run without it is not finished.
pub(crate) const FILE: &str = "report.html";

/// Folders of a replica's results.
pub(crate) struct Results {
    pub(crate) bundle: Option<PathBuf>,
    pub(crate) tables: Option<PathBuf>,
}

/// Tables that are wider than the page move by themselves, and on paper nothing is cut off.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem \
    auto;padding:0 1rem;color:#1a1a1a}img{max-width:100%}\
    table{display:block;overflow-x:auto;border-collapse:collapse;font-size:.9rem}\
    td,th{padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ccc;text-align:left;\
    vertical-align:top}code{background:#f3f3f3;padding:0 .2rem;overflow-wrap:anywhere}\
    td code{overflow-wrap:normal}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}\
    @media print{body{font-size:10pt;max-width:none;margin:0}table{display:table}\
    td code{overflow-wrap:anywhere}\
    img,tr{break-inside:avoid}}";

/// Writes `report.md`, its pictures, and `report.html` with the pictures in it, into the folder of
/// a run.
pub(crate) fn write(run: &Run, results: &[Results]) -> Result<PathBuf, Failure> {
    let text = text(run, results)?;
    let citations = run.replicas.first().map(|replica| replica.job.citations.as_slice());
    let bibtex = cite::bibtex(citations.unwrap_or_default());
    // The page comes last, and whole: it says that the run is finished.
    let all = [(cite::FILE, bibtex), ("report.md", text.clone()), (FILE, page(run, &text)?)];
    for (name, content) in all {
        let path = run.folder().join(name);
        let partial = run.folder().join(name).with_extension("tmp");
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
                let picture =
                    fs::read(&path).with_context(|| format!("read {}", path.display()))?;
                let dest_url =
                    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(picture)).into();
                Event::Start(Tag::Image { link_type, dest_url, title, id })
            }
            // Names and messages that look like HTML are text all the same.
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            other => other,
        });
    }
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta \
             name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n<title>"
    );
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
    let system = run.system.as_ref().context("a run with results has a system")?;
    let jobs: Vec<&JobRecord> = run.replicas.iter().map(|replica| &replica.job).collect();
    let first = jobs.first().context("a run with results has a job")?;
    let parameters = &first.parameters;

    let mut text = format!("# {}\n\n", title(run));
    writeln!(text, "Molecular dynamics of `{}`{}.\n", title(run), replicas(jobs.len()))?;
    let warnings = system.warnings.iter().chain(jobs.iter().flat_map(|job| &job.warnings));
    let mut known: Vec<&str> = Vec::new();
    for warning in warnings {
        if !known.contains(&warning.message.as_str()) {
            known.push(&warning.message);
        }
    }
    if !known.is_empty() {
        writeln!(text, "## Know first\n\n- {}\n", known.join("\n- "))?;
    }
    done(&mut text, run, system, parameters)?;
    let bundles: Vec<&Path> =
        results.iter().filter_map(|result| result.bundle.as_deref()).collect();
    let methods = methods::text(run, system, &bundles)?;
    if !methods.is_empty() {
        writeln!(text, "\n## Methods\n\n{}", methods.trim_end())?;
    }

    writeln!(text, "\n## Results\n")?;
    writeln!(
        text,
        "| replica | job | seed | engine | platform | production | results |\n|---|---|---|---|---|---|---|"
    )?;
    for (index, (job, result)) in jobs.iter().zip(results).enumerate() {
        let production = job.stages.iter().find(|stage| stage.name == "production");
        writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {} | {} |",
            index + 1,
            job.job_id,
            shown(job.parameters.seed),
            shown(job.engine.as_deref()),
            shown(job.platform.as_deref()),
            production.map(speed).unwrap_or_default(),
            result.bundle.as_deref().map(|folder| link(run, folder)).unwrap_or_default()
        )?;
    }
    let measured: Vec<Vec<Measured>> = results
        .iter()
        .map(|result| result.tables.as_deref().map_or(Ok(Vec::new()), measured))
        .collect::<Result<_>>()?;
    compared(&mut text, &measured)?;
    if let Some(figure) = overlay(&measured) {
        let picture = run.folder().join("replicas.png");
        fs::write(&picture, figure.png())?;
        writeln!(text, "\n![replicas over each other]({})", relative(run, &picture))?;
    }
    for (index, (result, measured)) in results.iter().zip(&measured).enumerate() {
        writeln!(text, "\n### Replica {}\n", index + 1)?;
        replica(&mut text, run, index, result, measured, parameters)?;
    }

    writeln!(text, "\n## Parameters")?;
    system_table(&mut text, &built(system))?;
    table(&mut text, "Job", "JobCreateParams", &value(parameters)?)?;
    if let Some(analysis) = &run.plan.analysis {
        table(&mut text, "Analysis", "AnalysisRequest", &value(analysis)?)?;
    }

    writeln!(text, "\n## How to cite\n")?;
    // A job's are those of its system too.
    for reference in &first.citations {
        writeln!(text, "- {reference}")?;
    }
    writeln!(text, "- Workflow: molbox {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(text, "\nFor BibTeX: [{0}]({0})", cite::FILE)?;
    for (index, result) in results.iter().enumerate() {
        if let Some(bundle) = &result.bundle {
            files(&mut text, index, jobs.len(), bundle)?;
        }
    }
    Ok(text)
}

/// The files of a bundle with their digests, as its manifest has them.
fn files(text: &mut String, index: usize, count: usize, bundle: &Path) -> Result<()> {
    #[derive(Deserialize)]
    struct Manifest {
        id: String,
        files: Vec<File>,
    }

    #[derive(Deserialize)]
    struct File {
        name: String,
        size_bytes: u64,
        sha256: String,
    }

    let path = bundle.join("manifest.json");
    let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let Manifest { id, files } =
        serde_json::from_slice(&content).with_context(|| format!("read {}", path.display()))?;
    let of = if count == 1 { String::new() } else { format!(" of replica {}", index + 1) };
    writeln!(text, "\n## Files{of}\n\n| file of `{id}` | bytes | SHA-256 |\n|---|--:|---|")?;
    for file in files {
        let name = file.name.strip_prefix(&format!("{id}/")).unwrap_or(&file.name);
        writeln!(text, "| {} | {} | `{}` |", escaped(name), file.size_bytes, file.sha256)?;
    }
    writeln!(
        text,
        "\n`molbox bundle check` compares them; `molbox rerun` repeats the simulation."
    )?;
    Ok(())
}

/// What a stage wrote, and how fast.
fn speed(stage: &StageResult) -> String {
    let speed = stage.ns_per_day.map(|speed| format!("{:.1}", speed.get()));
    format!("{} frames, {} ns/day", stage.frames, shown(speed))
}

/// What was asked for, with what the service chose where nothing was given.
fn built(system: &SystemRecord) -> SystemSettings {
    let mut request = system.request.clone();
    if let Some(summary) = &system.summary {
        request.force_field = Some(summary.force_field.clone());
        request.water_type = Some(summary.water_type.clone());
        request.seed = i64::try_from(summary.seed).ok();
    }
    request
}

fn done(
    text: &mut String,
    run: &Run,
    system: &SystemRecord,
    parameters: &JobSettings,
) -> Result<()> {
    writeln!(text, "## What was done\n")?;
    for file in &run.files {
        writeln!(text, "- Uploaded `{}` as `{}`.", file.name, file.file_id)?;
    }
    if let Some(summary) = &system.summary {
        writeln!(
            text,
            "- Built `{}`: {} atoms, {} residues, {:.1} nm³, {}, {}.",
            system.system_id,
            summary.atoms,
            summary.residues,
            summary.volume.get(),
            summary.force_field,
            summary.water_type
        )?;
        let molecules: Vec<String> =
            summary.molecules.iter().map(|(name, count)| format!("{count} {name}")).collect();
        writeln!(text, "  Molecules: {}.", molecules.join(", "))?;
    }
    let stages = run.replicas.iter().flat_map(|replica| &replica.job.stages);
    let steps: Vec<u64> =
        stages.filter(|stage| stage.name == "minimization").map(|stage| stage.steps).collect();
    if let (Some(least), Some(most)) = (steps.iter().min(), steps.iter().max()) {
        let steps = if least == most { most.to_string() } else { format!("{least} to {most}") };
        writeln!(text, "- Minimised the energy in {steps} steps.")?;
    }
    for stage in parameters.equilibration.iter().flatten() {
        let restraint = stage.restraint_mask.as_ref().map(|mask| {
            format!(
                ", `{mask}` restrained with {} kJ/mol·nm²",
                shown(stage.restraint_force.map(number))
            )
        });
        let kind = shown(stage.type_.as_deref());
        let time = shown(stage.time.map(number));
        writeln!(text, "- Equilibrated: {kind}, {time} ns{}.", restraint.unwrap_or_default())?;
    }
    if let Some(stage) = &parameters.production {
        let kind = shown(stage.type_.as_deref());
        let time = shown(stage.time.map(number));
        writeln!(
            text,
            "- Produced {time} ns, {kind}, a frame every {} steps.",
            shown(stage.traj_freq)
        )?;
    }
    if run.replicas.iter().any(|replica| replica.tables.is_some()) {
        writeln!(text, "- Analysed the trajectories.")?;
    }
    Ok(())
}

fn replica(
    text: &mut String,
    run: &Run,
    index: usize,
    result: &Results,
    measured: &[Measured],
    parameters: &JobSettings,
) -> Result<()> {
    if let Some(bundle) = &result.bundle
        && let Some(figure) = energies(bundle, parameters)?
    {
        let picture = run.replica_folder(index).join("energies.png");
        fs::write(&picture, figure.png())?;
        writeln!(text, "![energies, temperature and density]({})\n", relative(run, &picture))?;
    }
    let Some(tables) = &result.tables else { return Ok(()) };
    for picture in pictures(tables)? {
        let name = picture
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default()
            .replace('_', " ");
        writeln!(text, "![{name}]({})\n", relative(run, &picture))?;
    }
    averages(text, measured)?;
    writeln!(text, "Tables: {}", link(run, tables))?;
    Ok(())
}

/// The tables of an analysis, as far as averages are made of them.
#[derive(Deserialize)]
struct Data {
    tables: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    title: String,
    columns: Vec<Column>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    unit: Option<String>,
    definition: String,
    values: Vec<Value>,
}

impl Column {
    /// What was measured. Columns of texts have no mean, nor has one in which a value is missing.
    fn measured(&self) -> Option<Vec<f64>> {
        let is_abscissa = ["frame", "time_ps"].contains(&self.name.as_str());
        let values: Option<Vec<f64>> = self.values.iter().map(Value::as_f64).collect();
        values.filter(|values| !is_abscissa && !values.is_empty())
    }
}

/// A quantity of an analysis, measured in each frame.
struct Measured {
    /// Analysis, definition and unit, as cells of a table.
    what: String,
    /// The definition and the unit alone.
    name: String,
    unit: String,
    /// In ps, or the frames where there are no times.
    times: Vec<f64>,
    has_times: bool,
    values: Vec<f64>,
}

/// What an analysis has measured in each frame.
fn measured(tables: &Path) -> Result<Vec<Measured>> {
    let path = tables.join("data.json");
    let data = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let data: Data =
        serde_json::from_str(&data).with_context(|| format!("read {}", path.display()))?;
    let mut all = Vec::new();
    for table in
        data.tables.iter().filter(|table| table.columns.iter().any(|column| column.name == "frame"))
    {
        let along = |name: &str| table.columns.iter().find(|column| column.name == name);
        let has_times = along("time_ps").is_some();
        let along = along("time_ps").or_else(|| along("frame")).map(|column| &column.values);
        let times: Vec<f64> =
            along.into_iter().flatten().map(|time| time.as_f64().unwrap_or(f64::NAN)).collect();
        for column in &table.columns {
            let Some(values) = column.measured() else { continue };
            let unit = column.unit.clone().unwrap_or_default();
            let name = readable(&column.definition);
            let what = [table.title.as_str(), &name, &unit].map(escaped).join(" | ");
            all.push(Measured { what, name, unit, times: times.clone(), has_times, values });
        }
    }
    Ok(all)
}

/// Masks that people have a word for, the longest first: `@CA` is part of others.
const WORDS: [(&str, &str); 5] = [
    ("!:HOH,NA,CL", "all but water and ions"),
    ("@N,CA,C,O", "the backbone"),
    ("@CA,C,N", "the backbone"),
    ("@N,CA,C", "the backbone"),
    ("@CA&@/C", "the α-carbons"),
];

/// A definition with words for the masks that have one: `RMSD of the α-carbons (@CA&@/C)`.
fn readable(definition: &str) -> String {
    for (mask, words) in WORDS {
        if let Some((before, after)) = definition.split_once(mask)
            && (before.is_empty() || before.ends_with(' '))
            && (after.is_empty() || after.starts_with([' ', ';', ')']) || after.starts_with(", "))
        {
            return format!("{before}{words} ({mask}){after}");
        }
    }
    definition.to_owned()
}

/// Panels of a figure that are still large enough to be read.
const MOST_PANELS: usize = 6;

/// What replicas have measured, over each other; nothing of a run with one.
fn overlay(replicas: &[Vec<Measured>]) -> Option<Figure> {
    let [first, _, ..] = replicas else { return None };
    let mut panels = Vec::new();
    let is_long = replicas.iter().flatten().flat_map(|one| &one.times).any(|ps| *ps >= 1000.0);
    for (nth, one) in first.iter().enumerate().filter(|(_, one)| one.has_times) {
        let same = |replica: &Vec<Measured>| {
            let it = replica.get(nth).filter(|it| it.what == one.what)?;
            let times = it.times.iter().map(|ps| if is_long { ps / 1000.0 } else { *ps });
            Some(times.zip(it.values.iter().copied()).collect::<Vec<_>>())
        };
        let lines = replicas.iter().enumerate().filter_map(|(n, replica)| {
            Some(Line { name: Some(format!("replica {}", n + 1)), points: same(replica)? })
        });
        panels.push(Panel {
            y_label: one.name.clone(),
            unit: one.unit.clone(),
            is_whole: false,
            lines: lines.collect(),
        });
    }
    panels.truncate(MOST_PANELS);
    (!panels.is_empty()).then(|| Figure {
        title: "Replicas".to_owned(),
        x_label: "time".to_owned(),
        x_unit: if is_long { "ns" } else { "ps" }.to_owned(),
        panels,
        ..Figure::default()
    })
}

/// Mean with its standard error, and extremes, of what was measured in each frame.
fn averages(text: &mut String, measured: &[Measured]) -> Result<()> {
    if measured.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "| analysis | quantity | unit | mean | standard error | least | largest \
         |\n|---|---|---|---|---|---|---|"
    )?;
    for Measured { what, values, .. } in measured {
        let mean = statistics::mean(values);
        let error = statistics::standard_error(values)
            .map_or_else(|| "too few frames".to_owned(), |error| format!("{error:.3}"));
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        writeln!(text, "| {what} | {mean:.3} | {error} | {least:.3} | {largest:.3} |")?;
    }
    writeln!(
        text,
        "\nStandard errors are of the mean, by blocking, for successive frames are alike.\n"
    )?;
    for Measured { what, values, .. } in measured {
        if let Some(drift) = statistics::drift(values) {
            let name = what.split(" | ").nth(1).unwrap_or(what);
            writeln!(
                text,
                "**{name}** changes by {drift:.3} from the first third to the last, by more than \
                 three standard errors: the system may not have been equilibrated, and its mean \
                 means little.\n"
            )?;
        }
    }
    Ok(())
}

/// The means of replicas beside each other, with what they differ by: each is one independent
/// value.
fn compared(text: &mut String, replicas: &[Vec<Measured>]) -> Result<()> {
    let [first, _, ..] = replicas else { return Ok(()) };
    let mut rows = String::new();
    for (nth, Measured { what, .. }) in first.iter().enumerate() {
        let same =
            replicas.iter().filter_map(|replica| replica.get(nth)).filter(|it| it.what == *what);
        let means: Vec<f64> = same.map(|it| statistics::mean(&it.values)).collect();
        let Some(deviation) =
            statistics::deviation(&means).filter(|_| means.len() == replicas.len())
        else {
            continue;
        };
        let mean = statistics::mean(&means);
        let error = deviation / (means.len() as f64).sqrt();
        let each: Vec<String> = means.iter().map(|mean| format!("{mean:.3}")).collect();
        writeln!(
            rows,
            "| {what} | {} | {mean:.3} | {deviation:.3} | {error:.3} |",
            each.join(", ")
        )?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n### Replicas compared\n\n| analysis | quantity | unit | mean of each | mean | standard \
         deviation | standard error |\n|---|---|---|---|---|---|---|\n{rows}"
    )?;
    writeln!(text, "Deviation and error are between the {} replicas.", replicas.len())?;
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

/// The fields of a system; of one that another program has built those that were given, for its
/// files have decided the rest.
fn system_table(text: &mut String, settings: &SystemSettings) -> Result<()> {
    const SCHEMA: &str = "SystemBuildRequest";
    if settings.built.is_empty() {
        return table(text, "System", SCHEMA, &value(settings)?);
    }
    let given = value(settings)?;
    writeln!(text, "\n### System\n\n| field | value | unit |\n|---|---|---|")?;
    let fields = schema::fields(schema::named(SCHEMA));
    for (name, value) in fields.filter_map(|(name, _)| Some((name, given.get(name)?))) {
        if !value.is_null() && *value != Value::Array(Vec::new()) {
            writeln!(text, "| {name} | `{}` |  |", escaped(&plain(value)))?;
        }
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

fn replicas(count: usize) -> String {
    if count == 1 { String::new() } else { format!(", {count} replicas") }
}

/// A question mark where nothing is known.
fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

/// A number as JSON has it: 1.0, not 1.
fn number(number: Finite) -> String {
    format!("{:?}", number.get())
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
fn energies(bundle: &Path, parameters: &JobSettings) -> Result<Option<Figure>> {
    let n_stages = parameters.equilibration.as_ref().map_or(0, Vec::len);
    let stages =
        (1..=n_stages).map(|n| format!("equilibration_{n}")).chain(["production".to_owned()]);
    let mut logs = Vec::new();
    for stage in stages {
        let path = bundle.join(&stage).with_extension("csv");
        // A simulation that was stopped has no logs of the stages that it did not reach.
        if path.exists() {
            let log =
                fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            logs.push((stage, log));
        }
    }
    Ok(Figure::of_logs(
        "Course of the simulation",
        logs.iter().map(|(stage, log)| (stage.as_str(), log.as_str())),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_compared_by_their_means() {
        let of = |values: [f64; 2]| {
            vec![Measured {
                what: "RMSD | RMSD of @CA | Å".to_owned(),
                name: "RMSD of @CA".to_owned(),
                unit: "Å".to_owned(),
                times: vec![500.0, 1000.0],
                has_times: true,
                values: values.to_vec(),
            }]
        };
        let figure = overlay(&[of([1.0, 2.0]), of([2.0, 3.0])]).unwrap();
        assert_eq!((figure.panels.len(), figure.x_unit.as_str()), (1, "ns"));
        let lines = &figure.panels[0].lines;
        assert_eq!(lines[1].name.as_deref(), Some("replica 2"));
        assert_eq!(lines[1].points, [(0.5, 2.0), (1.0, 3.0)]);
        assert!(overlay(&[of([1.0, 2.0])]).is_none());
        let mut text = String::new();
        compared(&mut text, &[of([1.0, 2.0]), of([2.0, 3.0]), of([3.0, 4.0])]).unwrap();
        let row = "| RMSD | RMSD of @CA | Å | 1.500, 2.500, 3.500 | 2.500 | 1.000 | 0.577 |";
        assert!(text.contains(row), "{text}");
        let mut alone = String::new();
        compared(&mut alone, &[of([1.0, 2.0])]).unwrap();
        assert_eq!(alone, "");
    }

    #[test]
    fn masks_that_have_a_word_are_given_it() {
        assert_eq!(readable("RMSD of @CA&@/C"), "RMSD of the α-carbons (@CA&@/C)");
        assert_eq!(readable("RMSD of @CA"), "RMSD of @CA");
        for mask in [":1@CA,C,N", "@CA,C,N,CB"] {
            assert_eq!(readable(mask), mask, "a part is not the whole");
        }
        assert_eq!(readable("RMSD of @CA,C,N, fitted"), "RMSD of the backbone (@CA,C,N), fitted");
    }

    #[test]
    fn a_report_has_what_was_done_and_what_to_cite() {
        let record = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let system =
            record(include_str!("../../../../../openapi/examples/system_view.200.succeeded.json"));
        let job =
            record(include_str!("../../../../../openapi/examples/job_view.200.succeeded.json"));
        let run: Run = serde_json::from_value(json!({
            "id": "run_1",
            "plan": {"structure": "/data/1vii.pdb", "system": {}, "job": {}, "replicas": 1},
            "files": [],
            "system": system,
            "replicas": [{"job": job}],
            "is_done": true,
        }))
        .unwrap();
        let report = text(&run, &[Results { bundle: None, tables: None }]).unwrap();
        let (before, parameters) = report.split_once("\n## Parameters\n").unwrap();
        assert_eq!(
            before,
            "# 1vii.pdb\n\n\
             Molecular dynamics of `1vii.pdb`.\n\n\
             ## Know first\n\n\
             - SO4 101 of chain A removed\n\n\
             ## What was done\n\n\
             - Built `box_77jpjj2n2sksrj1kkw21`: 7845 atoms, 2463 residues, 85.1 nm³, amber14, \
             tip3p.\n  Molecules: 9 CL, 7 NA, 1 protein, 2411 water.\n\
             - Minimised the energy in 1187 steps.\n\
             - Equilibrated: NVT, 0.1 ns, `!:HOH,NA,CL&!@/H` restrained with 1000.0 kJ/mol·nm².\n\
             - Equilibrated: NPT, 0.2 ns, `@CA` restrained with 1000.0 kJ/mol·nm².\n\
             - Produced 10.0 ns, NPT, a frame every 5000 steps.\n\n\
             ## Results\n\n\
             | replica | job | seed | engine | platform | production | results |\n\
             |---|---|---|---|---|---|---|\n\
             | 1 | `job_7cpejpkq0zxnh8yydfbe` | 679010578 | openmm | CPU | 500 frames, 13.4 \
             ns/day |  |\n\n\
             ### Replica 1\n\n"
        );
        for part in [
            "| seed | `591563821` |  |",
            "| integration_timestep | `4.0` | fs |",
            "TIP3P: W. L. Jorgensen",
            "ff14SB",
        ] {
            assert!(parameters.contains(part), "{part}: {parameters}");
        }
        assert!(!parameters.contains("Lipids") && !parameters.contains("GAFF"), "{parameters}");
    }
}
