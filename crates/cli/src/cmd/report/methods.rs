//! The paragraph on methods, for a paper: what was really done. Each statement comes from the
//! records and from what the worker noted of each stage; what is not known is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use molbox::run::Run;
use molbox::workflow::types::{JobRecord, JobSettings, SystemRecord, SystemSummary};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::markdown::{Markdown, code, joined, listed, md};
use crate::output::counted;

/// How a stage was run, as the worker noted it: `NAME.method.json` of a bundle.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Method {
    stage: String,
    ensemble: String,
    steps: u64,
    engine: Engine,
    machine: Machine,
    integrator: Integrator,
    barostat: Option<Barostat>,
    constraints: Constraints,
    nonbonded: Option<Nonbonded>,
    restraint: Option<Restraint>,
    hydrogen_mass_da: Option<f64>,
    /// What ran steps before, where that was something else.
    #[serde(default)]
    before: Vec<Before>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Before {
    engine: Engine,
    machine: Machine,
    integrator: Integrator,
    barostat: Option<Barostat>,
    /// From and to.
    steps: [u64; 2],
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Engine {
    name: String,
    version: String,
    precision: String,
    platform: Option<String>,
    simd: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Machine {
    processor: String,
    architecture: String,
    system: String,
    threads: u32,
    gpu: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Integrator {
    name: String,
    timestep_fs: f64,
    temperature_k: Option<f64>,
    friction_per_ps: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Barostat {
    name: String,
    pressure_bar: f64,
    interval_steps: u64,
    surface_tension_bar_nm: Option<f64>,
    tau_ps: Option<f64>,
    compressibility_per_bar: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Constraints {
    of_water: u64,
    of_others: u64,
    algorithms: Vec<String>,
    tolerance: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Nonbonded {
    method: String,
    cutoff_nm: f64,
    switch_nm: Option<f64>,
    dispersion_correction: bool,
    ewald_tolerance: f64,
    mesh: Option<Vec<u64>>,
    order: u64,
    width_per_nm: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Restraint {
    atoms: u64,
    force: f64,
}

/// What of a bundle's manifest the paragraph needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    molboxd: String,
    versions: BTreeMap<String, String>,
    settings: Settings,
    parameters: Parameters,
    citations: Vec<String>,
}

/// What the service made of the request for a system.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    force_field: Files,
    water: Water,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Files {
    files: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Water {
    file: Option<String>,
}

/// Shape of the box of every membrane.
pub(super) const RECTANGULAR: &str = "rectangular";

/// What a system was built with, defaults filled in.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Settings {
    box_shape: Option<String>,
    minimum_padding: Option<f64>,
    concentration: Option<f64>,
    ions: Option<String>,
    #[serde(rename = "pH")]
    ph: Option<f64>,
    #[serde(rename = "keep_Hs")]
    keep_hydrogens: Option<bool>,
    membrane: Option<String>,
    chain_id: Option<String>,
    built: Vec<String>,
}

/// The section on methods, of the jobs that have results and the folders of all bundles; empty
/// without one, and of bundles of earlier versions.
pub(super) fn text(
    run: &Run,
    system: &SystemRecord,
    jobs: &[&JobRecord],
    bundles: &[&Path],
) -> Result<Markdown> {
    let Some(bundle) = bundles.first() else {
        return Ok(Markdown::default());
    };
    let mut text = Markdown::default();
    let built: Manifest = json(&bundle.join("system/manifest.json"))?.unwrap_or_default();
    let simulated: Manifest = json(&bundle.join("manifest.json"))?.unwrap_or_default();
    let first = jobs.first().context("a run with results has a job")?;
    let mut all = Vec::new();
    for bundle in bundles {
        all.push(methods(bundle, first)?);
    }
    let methods = all.first().context("a bundle was found")?;

    text.push(md!("{}\n\n", of_system(run, system, &built)));
    text.push(md!("{}\n\n", of_minimisation(jobs)));
    if !methods.is_empty() {
        text.push(md!("{}\n\n", of_protocol(methods, &first.parameters)));
        text.push(md!("{}\n\n", of_physics(methods)));
    }
    text.push(md!("{}\n\n", of_machine(jobs, &all, &simulated)));
    Ok(text)
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(content) => {
            let read = serde_json::from_slice(&content);
            Ok(Some(read.with_context(|| format!("read {}", path.display()))?))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

/// How each stage was run, in their order.
fn methods(bundle: &Path, job: &JobRecord) -> Result<Vec<Method>> {
    let stages = job.stages.iter().map(|stage| stage.name.as_str());
    // A file of the bundle, whatever a service calls its stages.
    let stages = stages.filter(|name| !name.contains(['/', '\\']));
    let paths = stages.map(|name| bundle.join(format!("{name}.method.json")));
    let found = paths.map(|path| json(&path));
    found.filter_map(Result::transpose).collect()
}

fn of_system(run: &Run, system: &SystemRecord, built: &Manifest) -> Markdown {
    let mut said = Vec::new();
    let settings = &built.settings;
    let structure = run.plan.structure.rsplit('/').next().unwrap_or_default();
    let program = |name: &str, called: &str| {
        built.versions.get(name).map(|version| md!("{} {}", called, version))
    };
    let by: Vec<Markdown> = [
        (!built.molboxd.is_empty()).then(|| md!("molbox {}", built.molboxd)),
        // Nothing of a system that is there whole is completed.
        program("pdbfixer", "PDBFixer").filter(|_| settings.built.is_empty()),
        program("openmm", "OpenMM"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let by = (!by.is_empty()).then(|| md!(" with {}", listed(&by)));
    if settings.built.is_empty() {
        let chains = settings.chain_id.as_ref().map(|chains| md!(", chains {}", chains));
        let of = if structure.is_empty() { md!("Solvent") } else { code(structure) };
        said.push(md!("The system was built of {}{}{}.", of, chains, by));
    } else {
        said.push(md!("The system was read from the files of another program{}.", by));
    }
    if let (Some(ph), false) = (settings.ph, structure.is_empty()) {
        let kept = if settings.keep_hydrogens == Some(true) {
            "Hydrogens of the structure were kept and missing ones added"
        } else {
            "Hydrogens were added"
        };
        let variants = system.summary.iter().flat_map(|summary| &summary.variants);
        let variants: Vec<Markdown> =
            variants.map(|(name, count)| md!("{} {}", count, name)).collect();
        let variants = (!variants.is_empty())
            .then(|| md!(" (protonation states: {})", joined(&variants, ", ")));
        said.push(md!("{} for pH {}{}.", kept, ph, variants));
    }
    if let Some(lipid) = &settings.membrane {
        said.push(md!("It was placed in a bilayer of {}.", lipid));
    }
    let Some(summary) = &system.summary else { return joined(&said, " ") };
    said.push(interactions(summary, built));
    said.extend(of_box(summary, settings));
    if let (Some(ions), Some(concentration)) = (&settings.ions, settings.concentration) {
        said.push(md!(
            "Water and {} were added, ions to neutralise the system and, as was asked for, {} mol/L \
             beyond that.",
            ions,
            concentration
        ));
        said.extend(salt(summary, ions));
    }
    let molecules: Vec<Markdown> =
        summary.molecules.iter().map(|(name, count)| md!("{} {}", count, name)).collect();
    said.push(md!(
        "It has {} atoms ({}) in {} nm³, {} g/mL, and a net charge of {} e.",
        summary.atoms,
        joined(&molecules, ", "),
        format!("{:.1}", summary.volume.get()),
        format!("{:.3}", summary.density.get()),
        // Not minus zero.
        format!("{:.2}", summary.net_charge.get() + 0.0)
    ));
    said.push(md!("Seed of the build: {}.", summary.seed));
    joined(&said, " ")
}

/// The force fields by the names under which they were published, of what the system has of each.
fn interactions(summary: &SystemSummary, built: &Manifest) -> Markdown {
    let mut text = md!("Force field: {}; water model: {}", summary.force_field, summary.water_type);
    let files = built.parameters.force_field.files.iter().chain(&built.parameters.water.file);
    let files: Vec<Markdown> = files.map(|file| code(file)).collect();
    if !files.is_empty() {
        text.push(md!(", of OpenMM's {}", listed(&files)));
    }
    let cited = built.citations.iter().filter_map(|citation| citation.split_once(": "));
    let cited: Vec<Markdown> = cited.map(|(what, article)| md!("{} ({})", what, article)).collect();
    if !cited.is_empty() {
        text.push(md!(". That is: {}", joined(&cited, "; ")));
    }
    md!("{}.", text)
}

/// The periodic box as it was built.
fn of_box(summary: &SystemSummary, settings: &Settings) -> Option<Markdown> {
    let mut said = Vec::new();
    // What was chosen, or is the default, of a membrane's box is not what it became.
    let shape = settings.membrane.as_ref().map(|_| RECTANGULAR.to_owned());
    let shape = shape.or_else(|| settings.box_shape.clone());
    if let (Some(shape), Some(padding)) = (shape, settings.minimum_padding) {
        said.push(md!(
            "The periodic box ({}) reaches at least {} nm beyond the solute.",
            shape,
            padding
        ));
    }
    if let Some((lengths, angles)) = edges(summary) {
        said.push(md!(
            "Its edges are {} nm, with angles of {}°, as it was built.",
            joined(&lengths.map(|length| format!("{length:.3}")), ", "),
            joined(&angles.map(|angle| format!("{angle:.2}")), ", ")
        ));
    }
    (!said.is_empty()).then(|| joined(&said, " "))
}

/// Lengths of the edges of a box, in nm, and the angles between b and c, c and a, a and b, in
/// degrees.
fn edges(summary: &SystemSummary) -> Option<([f64; 3], [f64; 3])> {
    let mut vectors = [[0.0; 3]; 3];
    if summary.box_vectors.len() != 3 {
        return None;
    }
    for (vector, row) in vectors.iter_mut().zip(&summary.box_vectors) {
        let row: Vec<f64> = row.iter().map(|length| length.get()).collect();
        *vector = row.try_into().ok()?;
    }
    let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let lengths = vectors.map(|vector| dot(vector, vector).sqrt());
    if lengths.contains(&0.0) {
        return None;
    }
    let angle = |i: usize, j: usize| {
        (dot(vectors[i], vectors[j]) / (lengths[i] * lengths[j]))
            .clamp(-1.0, 1.0)
            .acos()
            .to_degrees()
    };
    Some((lengths, [angle(1, 2), angle(2, 0), angle(0, 1)]))
}

/// How much salt there is, in pairs of ions: what was asked for is rounded to whole ions, and
/// concentrations by water and by volume are not the same.
fn salt(summary: &SystemSummary, ions: &str) -> Option<Markdown> {
    let second = ions.char_indices().skip(1).find(|(_, c)| c.is_ascii_uppercase())?.0;
    let (positive, negative) = ions.split_at(second);
    let [positive, negative] = [positive, negative].map(str::to_uppercase);
    let count = |name: &str| summary.molecules.get(name).copied().unwrap_or(0);
    let water = count("water");
    let pairs = count(&positive).min(count(&negative));
    if water == 0 {
        return None;
    }
    Some(md!(
        "There are {} {} and {} {}, that is {} in {} of water: {} mol/kg of water, and {} mol/L of the \
         box as it was built.",
        count(&positive),
        positive,
        count(&negative),
        negative,
        counted(pairs, "pair"),
        counted(water, "molecule"),
        format!("{:.3}", pairs as f64 / (water as f64 * WATER_KG_PER_MOL)),
        format!("{:.3}", pairs as f64 / (summary.volume.get() * PER_NM3_OF_A_MOLAR))
    ))
}

/// Mass of a mole of water.
const WATER_KG_PER_MOL: f64 = 0.018_015_3;
/// Molecules in a cubic nanometre at 1 mol/L.
const PER_NM3_OF_A_MOLAR: f64 = 0.602_214_076;

fn of_minimisation(jobs: &[&JobRecord]) -> Markdown {
    let minimised =
        jobs.iter().flat_map(|job| &job.stages).filter(|stage| stage.name == "minimization");
    let mut said: Vec<Markdown> = minimised
        .filter_map(|stage| {
            Some(md!(
                "{}, from {} to {} kJ/mol{}",
                counted(stage.steps, "step"),
                short(stage.energy_before?.get()),
                short(stage.energy_after?.get()),
                stage
                    .largest_force
                    .map(|force| md!(", largest net force {} kJ/mol/nm", short(force.get())))
            ))
        })
        .collect();
    // Replicas begin alike, and the same steps lead to the same place.
    said.dedup();
    match said.as_slice() {
        [] => md!(""),
        [one] => md!("The energy was minimised by OpenMM: {}.", one),
        many => md!("The energy of each replica was minimised by OpenMM: {}.", joined(many, "; ")),
    }
}

/// The stages with their ensembles, lengths and restraints.
fn of_protocol(methods: &[Method], parameters: &JobSettings) -> Markdown {
    let mut said = Vec::new();
    for method in methods {
        let ns = method.steps as f64 * method.integrator.timestep_fs * 1e-6;
        let nth =
            method.stage.strip_prefix("equilibration_").and_then(|nth| nth.parse::<usize>().ok());
        let equilibration =
            nth.and_then(|nth| parameters.equilibration.as_ref()?.get(nth.checked_sub(1)?));
        let name = match nth {
            Some(nth) => format!("equilibration {nth}"),
            None => method.stage.clone(),
        };
        let mut stage = md!(
            "{}, {} ns ({}) at constant {}",
            name,
            short(ns),
            counted(method.steps, "step"),
            match method.ensemble.as_str() {
                "NPT" => "pressure",
                _ => "volume",
            }
        );
        if let Some(restraint) = &method.restraint {
            let mask = equilibration.and_then(|stage| stage.restraint_mask.as_ref());
            let mask = mask.map(|mask| md!(" ({})", code(mask)));
            stage.push(md!(
                ", {}{} held harmonically where {} as it began, {} kJ/mol/nm²",
                counted(restraint.atoms, "atom"),
                mask,
                if restraint.atoms == 1 { "it was" } else { "they were" },
                short(restraint.force)
            ));
        }
        let frames = if nth.is_some() {
            equilibration.and_then(|stage| stage.traj_freq)
        } else {
            parameters.production.as_ref().and_then(|production| production.traj_freq)
        };
        if let Some(every) = frames.filter(|every| *every > 0) {
            let ps = every as f64 * method.integrator.timestep_fs * 1e-3;
            stage.push(md!(", a frame every {} ps", short(ps)));
        }
        said.push(stage);
    }
    let mut text = md!("Stages: {}.", joined(&said, "; "));
    let drawn = parameters.temperature.map(|kelvin| format!("{:?}", kelvin.get()));
    if let (Some(temperature), false) = (drawn, methods.is_empty()) {
        text.push(md!(" Velocities were drawn at {} K as the first began.", temperature));
    }
    text
}

/// What moved the atoms and what acted between them: once where it is the same in all stages.
fn of_physics(methods: &[Method]) -> Markdown {
    let mut said = Vec::new();
    said.extend(each(methods, |method| Some(integrator(&method.integrator))));
    said.extend(each(methods, |method| method.barostat.as_ref().map(barostat)));
    said.extend(each(methods, |method| Some(constraints(&method.constraints))));
    said.extend(each(methods, |method| {
        let mass = method.hydrogen_mass_da?;
        Some(md!(
            "Hydrogens outside of water had a mass of {} Da, taken from the atoms that they are \
             bonded to",
            mass
        ))
    }));
    said.extend(each(methods, |method| method.nonbonded.as_ref().map(nonbonded)));
    let said: Vec<Markdown> = said.iter().map(|sentence| md!("{}.", sentence)).collect();
    joined(&said, " ")
}

/// What is stated of the stages: one sentence where all have the same, and else one for each that
/// differs, with the stages that it is of.
fn each(methods: &[Method], state: impl Fn(&Method) -> Option<Markdown>) -> Vec<Markdown> {
    let mut stated: Vec<(Markdown, Vec<&str>)> = Vec::new();
    for method in methods {
        let Some(sentence) = state(method) else { continue };
        match stated.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, stages)) => stages.push(&method.stage),
            None => stated.push((sentence, vec![&method.stage])),
        }
    }
    let of_all = stated.len() == 1 && stated[0].1.len() == methods.len();
    let with_stages = stated.into_iter().map(|(sentence, stages)| match of_all {
        true => sentence,
        false => md!("{} ({})", sentence, stages.join(", ").replace('_', " ")),
    });
    with_stages.collect()
}

fn integrator(integrator: &Integrator) -> Markdown {
    let name = match integrator.name.as_str() {
        "LangevinMiddleIntegrator" => md!("the Langevin middle integrator"),
        "sd" => md!("the stochastic dynamics integrator (`sd`)"),
        "md" => md!("the leap-frog integrator (`md`)"),
        other => md!("{}", other),
    };
    let mut text = md!("Steps of {} fs were taken by {}", short(integrator.timestep_fs), name);
    if let (Some(temperature), Some(friction)) =
        (integrator.temperature_k, integrator.friction_per_ps)
    {
        text.push(md!(" at {} K with a friction of {}/ps", short(temperature), short(friction)));
    } else {
        text.push(md!(" without a thermostat"));
    }
    text
}

fn barostat(barostat: &Barostat) -> Markdown {
    let name = match barostat.name.as_str() {
        "MonteCarloBarostat" => "a Monte Carlo barostat",
        "MonteCarloMembraneBarostat" => {
            "a Monte Carlo barostat that scales the plane of the membrane and its normal apart"
        }
        "C-rescale" => "stochastic cell rescaling",
        other => other,
    };
    let mut text = md!(
        "The pressure was kept at {} bar by {}, every {}",
        short(barostat.pressure_bar),
        name,
        counted(barostat.interval_steps, "step")
    );
    if let Some(tau) = barostat.tau_ps {
        text.push(md!(", with a time constant of {} ps", short(tau)));
    }
    if let Some(compressibility) = barostat.compressibility_per_bar {
        let compressibility = format!("{compressibility:e}");
        text.push(md!(" and a compressibility of {}/bar", compressibility));
    }
    if let Some(tension) = barostat.surface_tension_bar_nm {
        text.push(md!(", at a surface tension of {} bar nm", short(tension)));
    }
    text
}

fn constraints(constraints: &Constraints) -> Markdown {
    let Constraints { of_water, of_others, algorithms, tolerance } = constraints;
    if of_water + of_others == 0 {
        return md!("No distances were constrained");
    }
    let tolerance = tolerance.map(|tolerance| md!(", to a relative {}", format!("{tolerance:e}")));
    md!(
        "{} distances within water and {} others were constrained by {}{}",
        of_water,
        of_others,
        listed(algorithms),
        tolerance
    )
}

fn nonbonded(nonbonded: &Nonbonded) -> Markdown {
    let mesh = nonbonded.mesh.as_ref();
    let mesh = mesh.map(|mesh| md!("mesh {} as the stage began, ", joined(mesh, " × ")));
    let method = match nonbonded.method.as_str() {
        "PME" => "particle mesh Ewald",
        other => other,
    };
    let switch = match nonbonded.switch_nm {
        Some(switch) => md!("switched off from {} nm to the same cutoff", short(switch)),
        None => md!("cut off there too"),
    };
    let correction = match nonbonded.dispersion_correction {
        true => "with a correction for the dispersion beyond",
        false => "without a correction for the dispersion beyond",
    };
    md!(
        "Charges were calculated by {}, in direct space up to {} nm (error tolerance {}, \
         {}splines of order {}, width {}/nm); Lennard-Jones interactions were {}, {}",
        method,
        short(nonbonded.cutoff_nm),
        format!("{:e}", nonbonded.ewald_tolerance),
        mesh,
        nonbonded.order,
        format!("{:.3}", nonbonded.width_per_nm),
        switch,
        correction
    )
}

/// A program with its version, and how it calculated.
fn of_engine(engine: &Engine) -> Markdown {
    let Engine { name, version, precision, platform, simd } = engine;
    let name = match name.as_str() {
        "openmm" => "OpenMM",
        "gromacs" => "GROMACS",
        other => other,
    };
    let of = platform.as_ref().map(|platform| md!("platform {}, ", platform));
    let simd = simd.as_ref().map(|simd| md!(", {}", simd));
    md!("{} {} ({}{} precision{})", name, version, of, precision, simd)
}

/// Programs, machines, seeds and times of the jobs.
fn of_machine(jobs: &[&JobRecord], all: &[Vec<Method>], simulated: &Manifest) -> Markdown {
    let mut said = Vec::new();
    let mut engines = Vec::new();
    let mut machines = Vec::new();
    let stages = || all.iter().flatten();
    let parts = stages().flat_map(|stage| {
        let before = stage.before.iter().map(|part| (&part.engine, &part.machine));
        before.chain([(&stage.engine, &stage.machine)])
    });
    for (engine, machine) in parts {
        add(&mut engines, of_engine(engine));
        let Machine { processor, architecture, system, threads, gpu } = machine;
        let gpu = gpu.as_ref().map(|gpu| md!(", {}", gpu));
        let count = counted(u64::from(*threads), "thread");
        add(&mut machines, md!("{} of {} ({}, {}){}", count, processor, architecture, system, gpu));
    }
    if !engines.is_empty() {
        said.push(md!("The stages were run by {} on {}.", listed(&engines), listed(&machines)));
    }
    for (stage, part) in stages().flat_map(|stage| stage.before.iter().map(move |it| (stage, it))) {
        let [from, to] = part.steps;
        let barostat = part.barostat.as_ref().map(|barostat| md!(" and {}", barostat.name));
        said.push(md!(
            "Of {}, steps {} to {} were run by {} with {}{}.",
            stage.stage,
            from,
            to,
            of_engine(&part.engine),
            part.integrator.name,
            barostat
        ));
    }
    if !simulated.molboxd.is_empty() {
        let versions = simulated.versions.iter();
        let versions: Vec<Markdown> =
            versions.map(|(name, version)| md!("{} {}", name, version)).collect();
        said.push(md!("Versions: molboxd {}, {}.", simulated.molboxd, joined(&versions, ", ")));
    }
    let seeds: Vec<String> =
        jobs.iter().filter_map(|job| job.parameters.seed.map(|seed| seed.to_string())).collect();
    let plural = if seeds.len() == 1 { "Seed" } else { "Seeds" };
    if !seeds.is_empty() {
        said.push(md!(
            "{} of the simulation{}: {}; each stage has its own, made from it.",
            plural,
            if seeds.len() == 1 { "" } else { "s" },
            seeds.join(", ")
        ));
    }
    let times: Vec<String> = jobs
        .iter()
        .filter_map(|job| {
            let seconds: f64 = job.stages.iter().map(|stage| stage.seconds.get()).sum();
            let day = job.finished_at.as_ref()?.to_string();
            Some(format!("{} on {}", duration(seconds), day.get(..10)?))
        })
        .collect();
    if !times.is_empty() {
        said.push(md!("Wall time: {}.", times.join(", ")));
    }
    joined(&said, " ")
}

fn add(to: &mut Vec<Markdown>, one: Markdown) {
    if !to.contains(&one) {
        to.push(one);
    }
}

/// A number with six significant digits at most.
pub(super) fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let decimals = (5 - number.abs().log10().floor() as i64).clamp(0, 12) as usize;
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A stage as a worker notes it.
    fn noted(stage: &str, ensemble: &str) -> Value {
        let barostat =
            json!({"name": "C-rescale", "pressure_bar": 1.0, "interval_steps": 20, "tau_ps": 5.0});
        json!({
            "stage": stage,
            "ensemble": ensemble,
            "steps": 50000,
            "engine": {"name": "gromacs", "version": "2022.5", "precision": "mixed", "simd": "SSE4.1"},
            "machine": {"processor": "EPYC", "architecture": "x86_64", "system": "Linux", "threads": 2},
            "integrator": {"name": "sd", "timestep_fs": 4.0, "temperature_k": 310.0, "friction_per_ps": 1.0, "seed": 9},
            "barostat": if ensemble == "NPT" { barostat } else { Value::Null },
            "constraints": {"of_water": 30, "of_others": 7, "algorithms": ["SETTLE", "LINCS"]},
            "nonbonded": {
                "method": "PME", "cutoff_nm": 0.9, "dispersion_correction": true, "ewald_tolerance": 5e-4,
                "mesh": [20, 24, 28], "order": 5, "width_per_nm": 2.92,
            },
        })
    }

    fn read(stage: &str, ensemble: &str) -> Method {
        serde_json::from_value(noted(stage, ensemble)).unwrap()
    }

    #[test]
    fn what_all_replicas_came_to_by_minimisation_stands_once() {
        let example = include_str!("../../../../../openapi/examples/job_view.200.succeeded.json");
        let [one, mut other] =
            [(); 2].map(|()| serde_json::from_str::<JobRecord>(example).unwrap());
        let said = of_minimisation(&[&one, &other]);
        assert_eq!(said, of_minimisation(&[&one]));
        other.stages.iter_mut().for_each(|stage| stage.steps += 1);
        let said = of_minimisation(&[&one, &other]).to_string();
        assert!(said.contains("of each replica"), "{said}");
    }

    #[test]
    fn what_is_the_same_in_all_stages_stands_once_and_the_rest_with_its_stages() {
        let methods = [read("equilibration_1", "NVT"), read("production", "NPT")];
        let text = of_physics(&methods).to_string();
        assert_eq!(text.matches("Steps of 4 fs").count(), 1, "{text}");
        assert!(text.contains("stochastic dynamics integrator (`sd`) at 310 K"), "{text}");
        assert!(text.contains("time constant of 5 ps (production)."), "{text}");
        assert!(
            text.contains("constrained by SETTLE and LINCS."),
            "no tolerance is made up: {text}"
        );
        assert!(text.contains("mesh 20 × 24 × 28"), "{text}");
    }

    /// The sentences on a system that was built with these settings, by some programs.
    fn said_of(settings: Value) -> String {
        let versions = json!({"openmm": "8.6", "pdbfixer": "1.12"});
        said_by(json!({ "settings": settings, "versions": versions }))
    }

    /// The same of a system's manifest.
    fn said_by(manifest: Value) -> String {
        let record = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let system =
            record(include_str!("../../../../../openapi/examples/system_view.200.succeeded.json"));
        let run: Run = serde_json::from_value(json!({
            "id": "run_1", "files": [], "system": null, "replicas": [], "is_done": true,
            "plan": {"structure": "1vii.pdb", "system": {}, "job": {}, "analysis": null, "replicas": 1},
        }))
        .unwrap();
        let system: SystemRecord = serde_json::from_value(system).unwrap();
        let built = serde_json::from_value(manifest).unwrap();
        of_system(&run, &system, &built).to_string()
    }

    #[test]
    fn force_fields_have_the_names_of_their_articles() {
        let text = said_by(json!({
            "parameters": {
                "force_field": {"files": ["amber14-all.xml"]},
                "water": {"file": "amber14/tip3p.xml"},
            },
            "citations": [
                "Force field ff14SB of proteins: J. A. Maier et al. (2015), doi:10.1021/x",
                "Ions: I. S. Joung and T. E. Cheatham (2008), doi:10.1021/y",
            ],
        }));
        assert!(
            text.contains(
                "Force field: amber14; water model: tip3p, of OpenMM's `amber14-all.xml` and \
                 `amber14/tip3p.xml`. That is: Force field ff14SB of proteins (J. A. Maier et al. \
                 (2015), doi:10.1021/x); Ions (I. S. Joung and T. E. Cheatham (2008), \
                 doi:10.1021/y)."
            ),
            "{text}"
        );
    }

    #[test]
    fn salt_is_what_was_placed_and_a_box_has_its_edges() {
        let text = said_of(json!({
            "ions": "NaCl", "concentration": 0.15, "box_shape": "cube", "minimum_padding": 1.0,
        }));
        for part in [
            "as was asked for, 0.15 mol/L beyond that. There are 7 NA and 9 CL, that is 7 pairs in \
             2411 molecules of water: 0.161 mol/kg of water, and 0.137 mol/L of the box",
            "Its edges are 4.938, 4.938, 4.938 nm, with angles of 60.00, 60.00, 90.00°, as it was built.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let of_another_salt = said_of(json!({"ions": "KBr", "concentration": 0.15}));
        assert!(of_another_salt.contains("There are 0 K and 0 BR, that is 0 pairs"));
    }

    #[test]
    fn the_box_of_a_membrane_is_rectangular_whatever_was_asked_for() {
        let of = |membrane: Value| {
            said_of(json!({"box_shape": "cube", "minimum_padding": 1.0, "membrane": membrane}))
        };
        assert!(of(json!("POPC")).contains("The periodic box (rectangular) reaches"));
        assert!(of(Value::Null).contains("The periodic box (cube) reaches"));
    }

    #[test]
    fn a_program_that_completes_structures_is_named_where_one_was_completed() {
        let built = said_of(json!({ "built": ["system.prmtop", "system.inpcrd"] }));
        assert!(built.contains("files of another program with OpenMM 8.6."), "{built}");
        assert!(said_of(json!({})).contains("with PDBFixer 1.12 and OpenMM 8.6."));
    }

    #[test]
    fn what_ran_the_first_steps_of_a_stage_is_told() {
        let mut production = noted("production", "NPT");
        let mut before = production.clone();
        before["engine"] =
            json!({"name": "openmm", "version": "8.6", "precision": "mixed", "platform": "CPU"});
        before["integrator"]["name"] = json!("LangevinMiddleIntegrator");
        before["barostat"]["name"] = json!("MonteCarloBarostat");
        before["steps"] = json!([0, 4040]);
        production["before"] = json!([before]);
        let simulated = serde_json::from_value(json!({})).unwrap();
        let all = [vec![serde_json::from_value(production).unwrap()]];
        let text = of_machine(&[], &all, &simulated).to_string();
        for part in [
            "run by OpenMM 8.6 (platform CPU, mixed precision) and GROMACS 2022.5 (mixed precision,",
            "Of production, steps 0 to 4040 were run by OpenMM 8.6 (platform CPU, mixed precision) \
             with LangevinMiddleIntegrator and MonteCarloBarostat.",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn what_the_engine_did_not_tell_is_left_out() {
        let mut method = read("production", "NPT");
        method.barostat = None;
        method.nonbonded.as_mut().unwrap().mesh = None;
        method.integrator.friction_per_ps = None;
        let text = of_physics(&[method]).to_string();
        assert!(!text.contains("pressure") && !text.contains("as the stage began"), "{text}");
        assert!(text.contains("without a thermostat"), "{text}");
    }

    #[test]
    fn numbers_have_no_digits_that_say_nothing() {
        assert_eq!([0.1, 1000.0, -121_835.62, 0.0].map(short), ["0.1", "1000", "-121836", "0"]);
        assert_eq!(listed(&["a", "b", "c"]).to_string(), "a, b and c");
        assert_eq!(listed(&["a"]).to_string(), "a");
    }
}
