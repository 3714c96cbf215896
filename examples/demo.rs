//! The main job from a structure file to results, an analysis with plots, and a margin: `cargo
//! xtask demo` runs this against a service of its own. With a service of yours:
//!
//! ```text
//! MOLBOX_BASE_URL=… MOLBOX_MARGIN_URL=… MOLBOX_API_KEY=… \
//!     cargo run --example demo -- examples/1vii.pdb out
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use molbox::Client;
use molbox::margin::types::{MarginJobRequest, Portfolio};
use molbox::workflow::types::{EquilibrationStep, JobRecord, ProductionParams, Progress};
use molbox_analysis::{AtomSet, Frame, Trajectory};
use molbox_plot::Figure;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(structure), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: demo STRUCTURE OUT".into());
    };
    let start = Instant::now();
    let molbox = Client::from_env()?;
    // With one the numbers are the same each time.
    let seed: Option<u32> =
        std::env::var("MOLBOX_DEMO_SEED").ok().map(|seed| seed.parse()).transpose()?;
    let seed = seed.map(u64::from);

    let file = molbox.upload(&structure).await?;
    println!(
        "uploaded   {} as {} ({} bytes)",
        structure.display(),
        file.name,
        file.size_bytes.unwrap_or(0)
    );

    let system = molbox
        .system_submit()
        .body_map(|system| {
            system
                .box_name(format!("{} in water", file.name))
                .protein(file.file_id.as_str())
                .box_shape("dodecahedron")
                .minimum_padding(0.7) // nm
                .concentration(0.15) // mol/L
                .seed(seed)
        })
        .send()
        .await?;
    let bar = bar("building");
    let system = molbox
        .wait_system(&system.system_id)
        .on_progress(|system| show(&bar, system.progress.as_ref()))
        .await?;
    bar.finish_and_clear();
    let built = system.summary.as_ref().ok_or("a built system has a summary")?;
    println!(
        "built      {}: {} atoms, {} waters",
        system.system_id, built.atoms, built.molecules["water"]
    );
    for warning in &system.warnings {
        println!("           {}", warning.message);
    }

    let job = molbox
        .job_submit()
        .body_map(|job| {
            let stage = EquilibrationStep::builder;
            job.box_id(system.system_id.as_str())
                .batch_name("demo")
                .seed(seed)
                .temperature(300) // K
                .integration_timestep(4) // fs
                .equilibration([
                    stage()
                        .type_("NVT")
                        .time(0.002)
                        .log_freq(25)
                        .restraint_mask("!:HOH,NA,CL&!@/H"),
                    stage()
                        .type_("NPT")
                        .time(0.004)
                        .log_freq(25)
                        .restraint_mask("@CA")
                        .restraint_force(100),
                ])
                .production(ProductionParams::builder().time(0.008).traj_freq(50).log_freq(25))
        })
        .send()
        .await?;
    let bar = self::bar("simulating");
    let job =
        molbox.wait_job(&job.job_id).on_progress(|job| show(&bar, job.progress.as_ref())).await?;
    bar.finish_and_clear();
    report(&job);

    let zip = molbox.download_job(&job.job_id, out.join("results.zip")).await?;
    let folder = unpack(&zip, &out)?;
    let frames = check_trajectory(&folder.join("production.dcd"), built.atoms)?;
    println!(
        "checked    production.dcd: {frames} frames of {} atoms, all numbers finite",
        built.atoms
    );
    let picture = out.join("energies.png");
    fs::write(&picture, plot(&folder)?.png())?;
    let mut pictures = vec![picture];
    pictures.extend(analyse(&molbox, &job, &out).await?);
    margin(&out).await?;

    println!("results    {}", folder.display());
    println!("bundle     {}", zip.display());
    for picture in pictures {
        println!("picture    {}", picture.display());
    }
    println!("{:.0} s from the file to the results", start.elapsed().as_secs_f64());
    Ok(())
}

fn bar(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:10} {bar:40} {percent:>3} % {msg}")
        .expect("a template");
    ProgressBar::new(1000).with_style(style).with_prefix(what.to_owned())
}

fn show(bar: &ProgressBar, progress: Option<&Progress>) {
    let Some(progress) = progress else { return };
    bar.set_position((1000.0 * progress.fraction.get()) as u64);
    let mut text = progress.stage.clone().unwrap_or_default();
    if let (Some(step), Some(steps)) = (progress.step, progress.steps) {
        text += &format!(" {step}/{steps}");
    }
    if let Some(speed) = progress.ns_per_day {
        text += &format!(", {:.1} ns/day", speed.get());
    }
    if let Some(eta) = progress.eta_seconds {
        text += &format!(", {:.0} s to go", eta.get());
    }
    bar.set_message(text);
}

fn report(job: &JobRecord) {
    println!("simulated  {} on {}", job.job_id, job.platform.as_deref().unwrap_or("?"));
    for stage in &job.stages {
        let speed = stage
            .ns_per_day
            .map_or_else(String::new, |speed| format!(", {:.1} ns/day", speed.get()));
        println!(
            "           {:16} {:6} steps {:3} frames {:6.1} s{speed}",
            stage.name,
            stage.steps,
            stage.frames,
            stage.seconds.get()
        );
    }
}

/// Unpacks a bundle; returns the folder that it holds.
fn unpack(zip: &Path, out: &Path) -> Result<PathBuf> {
    let mut archive = zip::ZipArchive::new(File::open(zip)?)?;
    archive.extract(out)?;
    let first = archive.file_names().next().ok_or("the bundle is empty")??;
    Ok(out.join(first.split('/').next().unwrap_or_default()))
}

/// Number of frames of a whole trajectory file, every number of which must be finite.
fn check_trajectory(path: &Path, n_atoms: u64) -> Result<usize> {
    let trajectory = Trajectory::open(path)?;
    if trajectory.n_atoms() as u64 != n_atoms
        || trajectory.trailing_bytes() > 0
        || trajectory.n_missing() > 0
    {
        return Err(format!("{} is not a whole file of {n_atoms} atoms", path.display()).into());
    }
    let plan = trajectory.read_plan(&AtomSet::all(trajectory.n_atoms()));
    let mut frame = Frame::new();
    for index in 0..trajectory.n_frames() {
        trajectory.read(index, &plan, &mut frame)?;
        if ![frame.x(), frame.y(), frame.z()].into_iter().flatten().all(|number| number.is_finite())
        {
            return Err(
                format!("{}: frame {index} has numbers that are none", path.display()).into()
            );
        }
    }
    Ok(trajectory.n_frames())
}

/// Analyses a job's trajectory; returns the pictures of what came of it.
async fn analyse(molbox: &Client, job: &JobRecord, out: &Path) -> Result<Vec<PathBuf>> {
    let analysis = molbox
        .analysis_submit()
        .body_map(|analysis| {
            analysis
                .job_id(job.job_id.as_str())
                .distance_masks([":1@CA :36@CA"])
                .rmsd_masks([vec!["@CA".to_owned()]])
                .rmsf_masks(["@CA"])
                .hbond_distance(3) // Å
        })
        .send()
        .await?;
    let bar = bar("analysing");
    let analysis = molbox
        .wait_analysis(&analysis.analysis_id)
        .on_progress(|a| show(&bar, a.progress.as_ref()))
        .await?;
    bar.finish_and_clear();
    let data = molbox.analysis_retrieve().job_id(analysis.analysis_id.as_str()).send().await?;
    println!("analysed   {} of {} frames", data.frames_analyzed, data.frames_total);
    let zip = molbox.download_analysis(&analysis.analysis_id, out.join("analysis.zip")).await?;
    let folder = unpack(&zip, out)?;
    Ok(["rmsd", "distance", "rmsf"].map(|table| folder.join(table).with_extension("png")).into())
}

/// The margin of one portfolio, written in each of the five formats: the same file each time.
async fn margin(out: &Path) -> Result<()> {
    let margin = molbox::margin::Client::from_env()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/portfolio");
    let mut first: Option<Vec<u8>> = None;
    for (format, name) in [
        ("csv", "portfolio.csv"),
        ("json", "portfolio.json"),
        ("xml", "portfolio.xml"),
        ("yaml", "portfolio.yaml"),
        ("fpml", "portfolio.fpml.xml"),
    ] {
        let text = fs::read_to_string(folder.join(name))?;
        let job = MarginJobRequest::builder()
            .margin_date("2024-12-31")
            .portfolio(Portfolio::builder().data(text));
        let answer = margin.margin_submit().data_format(format).body(job).send().await?;
        let total = answer.headers()["x-margin-initial"].to_str()?.to_owned();
        let file = answer.into_inner().into_inner().try_collect::<Vec<_>>().await?.concat();
        match &first {
            None => {
                println!("margin     {total} USD for the portfolio in csv");
                fs::write(out.join("margin.csv"), &file)?;
                first = Some(file);
            }
            Some(first) if *first == file => {
                println!("           the same file for the portfolio in {format}")
            }
            Some(_) => return Err(format!("the portfolio in {format} has another margin").into()),
        }
    }
    Ok(())
}

/// Potential energy, temperature and density over all stages.
fn plot(folder: &Path) -> Result<Figure> {
    let stages = ["equilibration_1", "equilibration_2", "production"];
    let log = |stage: &str| fs::read_to_string(folder.join(stage).with_extension("csv"));
    let logs = stages.into_iter().map(log).collect::<std::io::Result<Vec<_>>>()?;
    let logs = stages.into_iter().zip(logs.iter().map(String::as_str));
    Figure::of_logs("Villin headpiece in water", logs).ok_or_else(|| "the logs are empty".into())
}
