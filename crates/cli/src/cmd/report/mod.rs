//! The report of a run: what was done, with which parameters, what came of it, how to cite it.
//! Markdown, and the same as a page with its pictures in it.

mod cite;
mod logged;
mod markdown;
mod measured;
mod methods;
mod replicas;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use molbox::Finite;
use molbox::run::Run;
use molbox::workflow::types::{
    AnalysisRecord, AnalysisSettings, JobRecord, JobSettings, StageResult, SystemRecord,
    SystemSettings,
};
use molbox_analysis::{ResidueAxis, Series, Structure};
use pulldown_cmark::{Event, Options, Parser, Tag, html};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::logged::Log;
use self::markdown::escaped;
use self::measured::Analysis;
use crate::failure::Failure;
use crate::output::counted;
use crate::schema;

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
    let citations = simulated(run).next().map(|job| job.citations.as_slice());
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
    let first = simulated(run).next().context("a run with results has a job")?;
    let parameters = &first.parameters;

    let found: Vec<Found> =
        results.iter().map(|result| Found::read(result, parameters)).collect::<Result<_>>()?;

    let mut text = format!("# {}\n\n", title(run));
    writeln!(text, "Molecular dynamics of `{}`{}.\n", title(run), times(run))?;
    let analyses = run.replicas.iter().filter_map(|replica| replica.analysis.as_ref()).collect();
    let warnings = warnings(system, &jobs, analyses, &found);
    if !warnings.is_empty() {
        writeln!(text, "## Know first\n\n- {}\n", warnings.join("\n- "))?;
    }
    done(&mut text, run, system, parameters)?;
    let bundles: Vec<&Path> =
        results.iter().filter_map(|result| result.bundle.as_deref()).collect();
    let with_results: Vec<&JobRecord> = simulated(run).collect();
    let methods = methods::text(run, system, &with_results, &bundles)?;
    if !methods.is_empty() {
        writeln!(text, "\n## Methods\n\n{}", methods.trim_end())?;
    }
    came_of_it(&mut text, run, &jobs, results, &found)?;

    writeln!(text, "\n## Parameters")?;
    system_table(&mut text, &built(system))?;
    table(&mut text, "Job", "JobCreateParams", &value(parameters)?)?;
    if let Some(analysis) = &run.plan.analysis {
        table(&mut text, "Analysis", "AnalysisRequest", &value(analysis)?)?;
        let groups = found.iter().map(|it| &it.analysis.groups).find(|groups| !groups.is_empty());
        measured::selected(&mut text, groups.map_or(&[], Vec::as_slice))?;
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

/// The jobs that ended well. Of others there is nothing to report but that.
fn simulated(run: &Run) -> impl Iterator<Item = &JobRecord> {
    run.replicas.iter().map(|replica| &replica.job).filter(|job| job.status == "succeeded")
}

/// What became of a job without results: `was cancelled`, `failed: The system blew up`.
fn unsimulated(job: &JobRecord) -> Option<String> {
    match (job.status.as_str(), &job.error) {
        ("succeeded", _) => None,
        ("cancelled", _) => Some("was cancelled".to_owned()),
        (status, None) => Some(status.to_owned()),
        (status, Some(error)) => Some(format!("{status}: {}", error.message)),
    }
}

/// What was found in the results of a replica.
#[derive(Default)]
struct Found {
    log: Log,
    analysis: Analysis,
}

impl Found {
    fn read(result: &Results, parameters: &JobSettings) -> Result<Self> {
        let log = result.bundle.as_deref().map(|bundle| Log::read(bundle, parameters));
        let analysis = result.tables.as_deref().map(Analysis::read);
        Ok(Self {
            log: log.transpose()?.unwrap_or_default(),
            analysis: analysis.transpose()?.unwrap_or_default(),
        })
    }
}

/// A warning about a mask with the mask itself, for who reads it has no fields of a request:
/// `rmsd_masks[0][0]: …` as ``rmsd of `:HOH`: …``.
fn with_mask(message: &str, request: &AnalysisSettings) -> String {
    let of_mask = || {
        let (place, said) = message.split_once(": ")?;
        let analysis = place.split_once("_masks[")?.0;
        let request = serde_json::to_value(request).ok()?;
        let pointer = format!("/{}", place.replace('[', "/").replace(']', ""));
        let mask = request.pointer(&pointer)?.as_str()?;
        Some(format!("{} of `{mask}`: {said}", analysis.replace('_', " ")))
    };
    of_mask().unwrap_or_else(|| message.to_owned())
}

/// What to know before anything else: the service's warnings, and what was too short.
fn warnings(
    system: &SystemRecord,
    jobs: &[&JobRecord],
    analyses: Vec<&AnalysisRecord>,
    found: &[Found],
) -> Vec<String> {
    let of_jobs = jobs.iter().flat_map(|job| &job.warnings);
    let of_analyses = analyses.into_iter().flat_map(|analysis| {
        analysis.warnings.iter().map(|warning| with_mask(&warning.message, &analysis.request))
    });
    let others = system.warnings.iter().chain(of_jobs).map(|warning| warning.message.clone());
    let missing = jobs.iter().zip(1..).filter_map(|(job, n)| {
        let what = unsimulated(job)?;
        Some(format!("Replica {n} ({}) {what}. It is left out of all that follows.", job.job_id))
    });
    let mut warnings: Vec<String> = missing.collect();
    for warning in others.chain(of_analyses) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    let of = |n: usize| (found.len() > 1).then_some(n);
    warnings.extend(found.iter().zip(1..).filter_map(|(it, n)| it.log.warning(of(n))));
    warnings
}

/// The results: what was simulated, the replicas together, then each.
fn came_of_it(
    text: &mut String,
    run: &Run,
    jobs: &[&JobRecord],
    results: &[Results],
    found: &[Found],
) -> Result<()> {
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
    let means: Vec<_> = found.iter().map(|it| replicas::means(&it.log, &it.analysis)).collect();
    replicas::compared(text, &means)?;
    let analyses: Vec<Analysis> = found.iter().map(|it| it.analysis.clone()).collect();
    let overlay = replicas::overlay(&analyses)
        .map(|figure| ("replicas.png".to_owned(), "what replicas measured", figure));
    let axis = if analyses.len() > 1 { axis(run, results) } else { ResidueAxis::default() };
    let fluctuations = replicas::fluctuations(&analyses, &axis)
        .into_iter()
        .map(|(table, figure)| (format!("replicas_{table}.png"), "RMSF of replicas", figure));
    for (name, shown, figure) in overlay.into_iter().chain(fluctuations) {
        fs::write(run.folder().join(&name), figure.png())?;
        writeln!(text, "\n![{shown}, over each other]({name})")?;
    }
    for (index, (result, found)) in results.iter().zip(found).enumerate() {
        writeln!(text, "\n### Replica {}\n", index + 1)?;
        if let Some(what) = unsimulated(jobs[index]) {
            writeln!(text, "It {what}.")?;
        }
        replica(text, run, index, result, found)?;
    }
    Ok(())
}

/// The residues of the first replica that has results, with their secondary structure in the first
/// analysed frame; none where its files are not there or cannot be read, as figures do without.
fn axis(run: &Run, results: &[Results]) -> ResidueAxis {
    let Some(bundle) = results.iter().find_map(|result| result.bundle.as_deref()) else {
        return ResidueAxis::default();
    };
    let find = |formats: [&str; 2]| {
        let paths = formats.map(|format| bundle.join("production").with_extension(format));
        paths.into_iter().find(|path| path.exists())
    };
    let structure = find(["pdb", "cif"]).and_then(|path| Structure::open(&path).ok());
    let trajectory = find(["dcd", "xtc"]).and_then(|path| Series::open(&[path]).ok());
    let first = run.plan.analysis.as_ref().and_then(|analysis| analysis.first_frame);
    let first = usize::try_from(first.unwrap_or_default()).unwrap_or(usize::MAX);
    structure.zip(trajectory).map_or_else(ResidueAxis::default, |(structure, trajectory)| {
        ResidueAxis::of_frame(&structure.topology, &trajectory, first)
    })
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
    format!("{}, {} ns/day", counted(stage.frames, "frame"), shown(speed))
}

/// What was asked for, with what the service chose where nothing was given.
fn built(system: &SystemRecord) -> SystemSettings {
    let mut request = system.request.clone();
    if let Some(summary) = &system.summary {
        request.force_field = Some(summary.force_field.clone());
        request.water_type = Some(summary.water_type.clone());
        request.seed = i64::try_from(summary.seed).ok();
    }
    if request.membrane.is_some() {
        request.box_shape = Some(methods::RECTANGULAR.to_owned());
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
            "- Built `{}`: {}, {}, {:.1} nm³, {}, {}.",
            system.system_id,
            counted(summary.atoms, "atom"),
            counted(summary.residues, "residue"),
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
        let word = if steps == "1" { "step" } else { "steps" };
        writeln!(text, "- Minimised the energy in {steps} {word}.")?;
    }
    for stage in parameters.equilibration.iter().flatten() {
        let restraint = stage.restraint_mask.as_ref().map(|mask| {
            format!(
                ", `{mask}` restrained with {} kJ/mol/nm²",
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
            "- Produced {time} ns, {kind}, a frame every {}.",
            stage.traj_freq.map_or_else(|| "? steps".to_owned(), |every| counted(every, "step"))
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
    Found { log, analysis }: &Found,
) -> Result<()> {
    log.table(text)?;
    if let Some(figure) = log.figure() {
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
    measured::averages(text, &analysis.measured)?;
    writeln!(text, "Tables: {}", link(run, tables))?;
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

fn times(run: &Run) -> String {
    match (simulated(run).count(), run.replicas.len()) {
        (_, 1) => String::new(),
        (n, all) if n == all => format!(", {n} replicas"),
        (n, all) => format!(", {n} of {all} replicas"),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_had_not_settled_is_among_the_warnings_that_come_first() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let system: SystemRecord = serde_json::from_str(system).unwrap();
        let mut log = "time (ps),density (g/mL)\n".to_owned();
        for n in 0..100_u8 {
            let density = f64::from(n.min(70)) * 0.01 + f64::from(n % 3) * 0.001;
            writeln!(log, "{n},{density}").unwrap();
        }
        let found = Found { log: Log::of([("production", log)]), ..Found::default() };
        let warnings = warnings(&system, &[], Vec::new(), &[found]);
        let [of_system, of_log] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(of_system, "SO4 101 of chain A removed");
        let expected = "The density had not settled within production: the first ";
        assert!(of_log.starts_with(expected), "{of_log}");
    }

    #[test]
    fn what_analyses_warn_of_comes_first_once_for_all_replicas() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let mut system: SystemRecord = serde_json::from_str(system).unwrap();
        system.warnings.clear();
        let analysis = |frames: &str| -> AnalysisRecord {
            let example = include_str!("../../../../../openapi/examples/analysis_view.200.json");
            let mut record: Value = serde_json::from_str(example).unwrap();
            let warning = |message: &str| json!({"code": "analysis", "message": message});
            record["warnings"] = json!([warning("rmsd_masks[0][0]: water, too"), warning(frames)]);
            serde_json::from_value(record).unwrap()
        };
        let [first, second] = ["frame 3 left out", "frame 7 left out"].map(analysis);
        let warnings = warnings(&system, &[], vec![&first, &second], &[]);
        let expected = ["rmsd of `@CA`: water, too", "frame 3 left out", "frame 7 left out"];
        assert_eq!(warnings, expected);
    }

    #[test]
    fn the_table_of_a_membrane_says_that_its_box_is_rectangular() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let mut system: SystemRecord = serde_json::from_str(system).unwrap();
        system.request.membrane = Some("POPC".to_owned());
        assert_eq!(built(&system).box_shape.as_deref(), Some("rectangular"));
        system.request.membrane = None;
        assert_eq!(built(&system).box_shape, system.request.box_shape);
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
             - Equilibrated: NVT, 0.1 ns, `!:HOH,NA,CL&!@/H` restrained with 1000.0 kJ/mol/nm².\n\
             - Equilibrated: NPT, 0.2 ns, `@CA` restrained with 1000.0 kJ/mol/nm².\n\
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
