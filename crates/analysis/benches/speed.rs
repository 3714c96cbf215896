//! Frames per second of one analysis: `speed FOLDER SYSTEM TASK [THREADS [SECONDS]]`, where the
//! folder holds `SYSTEM.pdb` and `SYSTEM.dcd`. `peers/run.py` calls it beside other programs on the
//! same files, `instructions.py` under callgrind.
#![expect(clippy::print_stdout, reason = "this prints its measurements")]

use std::fs;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use molbox_analysis::{
    Analysis, AtomSet, Axis, Between, Clustering, Clusters, Contacts, Control, Damaged, Density,
    DihedralKind, Dihedrals, Distance, Frame, FrameRange, Group, HydrogenBonds, Images, Mask,
    NativeContacts, PROBE_RADIUS, PrincipalComponents, Rdf, Request, Rmsd, Rmsf,
    SecondaryStructure, Series, Structure, Superpose, SurfaceArea, Topology, Values, Weights,
    analyze,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<_> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [folder, system, task, rest @ ..] = arguments.as_slice() else {
        println!("usage: speed FOLDER SYSTEM TASK [THREADS [SECONDS]]");
        return Ok(());
    };
    let n_threads = rest.first().map_or(Ok(1), |n| n.parse())?;
    let least_seconds: f64 = rest.get(1).map_or(Ok(0.2), |seconds| seconds.parse())?;
    let path = |ending: &str| Path::new(folder).join(format!("{system}.{ending}"));
    let topology = Structure::open(&path("pdb"))?.topology;
    let (start, cpu_start) = (Instant::now(), cpu_seconds()?);
    let (mut n_frames, mut result) = (0, 0.0);
    // Again and again, as the clock of the processor's time is coarse.
    while n_frames == 0 || start.elapsed().as_secs_f64() < least_seconds {
        let trajectory = Series::open(&[path("dcd")])?;
        result = match task.as_str() {
            "raw" => raw(&path("dcd"))?,
            "read" => read(&trajectory, &AtomSet::all(topology.n_atoms()))?,
            "read_solute" => read(&trajectory, &group(&topology, masks(system)[0])?.atoms)?,
            _ => run(&topology, &trajectory, tasks(&topology, system, task)?, n_threads)?,
        };
        n_frames += trajectory.n_frames();
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu_start);
    println!(
        "{system} {task} threads={n_threads} frames={n_frames} seconds={seconds:.4} cpu={cpu:.4} \
         fps={:.0} result={result} peak_mb={}",
        n_frames as f64 / seconds,
        peak_mb()?
    );
    Ok(())
}

/// The solute, and two parts of it.
fn masks(system: &str) -> [&'static str; 3] {
    match system {
        "big" => ["::A,B", "::A", "::B"],
        "small" => ["*", ":1-6", ":21-26"],
        _ => [":1-12", ":1-6", ":7-12"],
    }
}

fn group(topology: &Topology, mask: &str) -> Result<Group, Failure> {
    Ok(Group::select(&Mask::parse(mask)?, topology, None)?.0)
}

fn tasks(topology: &Topology, system: &str, task: &str) -> Result<Vec<Analysis>, Failure> {
    let group = |mask: &str| group(topology, mask);
    let [solute, a, b] = masks(system);
    let alpha_carbons = || group(&format!("({solute})&@CA"));
    Ok(match task {
        "rmsd" => {
            let group = alpha_carbons()?;
            vec![Analysis::Rmsd(Rmsd {
                fit: Some(group.clone()),
                measures: vec![group],
                weights: Weights::Equal,
            })]
        }
        "rmsf" => {
            vec![Analysis::Rmsf(Rmsf {
                group: alpha_carbons()?,
                superpose: Superpose::Average,
                fit: None,
            })]
        }
        "distance" => {
            let distance = Distance {
                a: group(a)?,
                b: group(b)?,
                weights: Weights::Mass,
                nearest_image: true,
            };
            vec![Analysis::Distance(distance)]
        }
        "hbond" => {
            vec![Analysis::HydrogenBonds(HydrogenBonds::new(Between::Within(group(solute)?)))]
        }
        "solvent" => {
            let between = Between::Solvent(group(solute)?, group(":HOH")?);
            vec![Analysis::HydrogenBonds(HydrogenBonds::new(between))]
        }
        "contacts" => {
            let heavy = || group(&format!("({solute})&!@/H"));
            vec![Analysis::Contacts(Contacts { a: heavy()?, b: heavy()?, max_distance: 4.5 })]
        }
        "clusters" => {
            let method = Clustering::Neighbours { cutoff: 1.0 };
            vec![Analysis::Clusters(Clusters { group: alpha_carbons()?, method })]
        }
        "dihedrals" => {
            let kinds = DihedralKind::USUAL.to_vec();
            vec![Analysis::Dihedrals(Dihedrals { group: group(solute)?, kinds })]
        }
        "native" => {
            let (a, b) = (group(solute)?, group(solute)?);
            vec![Analysis::NativeContacts(NativeContacts { a, b, max_distance: 4.5 })]
        }
        "rdf" => {
            let (a, b) = (group(":HOH@O")?, group(":HOH@O")?);
            vec![Analysis::Rdf(Rdf { a, b, max_distance: 10.0, bin: 0.05 })]
        }
        "density" => {
            let (group, centre) = (group(":HOH")?, group(solute)?);
            vec![Analysis::Density(Density { group, centre, axis: Axis::Z, bin: 0.5 })]
        }
        "principal" => {
            let group = alpha_carbons()?;
            vec![Analysis::PrincipalComponents(PrincipalComponents { group, n_components: 5 })]
        }
        "secondary" => {
            vec![Analysis::SecondaryStructure(SecondaryStructure { group: group(solute)? })]
        }
        "surface" => {
            vec![Analysis::SurfaceArea(SurfaceArea {
                group: group(solute)?,
                probe_radius: PROBE_RADIUS,
            })]
        }
        "all" => {
            let tasks =
                ["rmsd", "rmsf", "distance", "hbond"].map(|task| tasks(topology, system, task));
            tasks.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
        }
        other => return Err(format!("no task {other:?}").into()),
    })
}

/// Reads the whole file and looks at nothing.
fn raw(path: &Path) -> Result<f64, Failure> {
    let (mut file, mut buffer, mut n_bytes) = (fs::File::open(path)?, vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(n_bytes as f64),
            n => n_bytes += n,
        }
    }
}

fn read(trajectory: &Series, atoms: &AtomSet) -> Result<f64, Failure> {
    let (plan, mut frame) = (trajectory.read_plan(atoms), Frame::new());
    let mut sum = 0.0;
    for n in 0..trajectory.n_frames() {
        trajectory.read(n, &plan, &mut frame)?;
        sum += f64::from(frame.x()[0]);
    }
    Ok(sum)
}

/// The mean of the last column of the last table.
fn run(
    topology: &Topology,
    trajectory: &Series,
    analyses: Vec<Analysis>,
    n_threads: usize,
) -> Result<f64, Failure> {
    // As the peers take them: coordinates as they are, but for distances and hydrogen bonds.
    let frames = FrameRange::default();
    let request = Request {
        analyses,
        frames,
        reference: None,
        images: Images::AsWritten,
        damaged: Damaged::Fail,
    };
    let (n_threads, cancelled) =
        (NonZeroUsize::new(n_threads).ok_or("no threads")?, AtomicBool::new(false));
    let control = Control { n_threads, progress: &|_, _| {}, cancelled: &cancelled };
    let report = analyze(topology, trajectory, &request, &control)?;
    let column = report.tables.last().and_then(|table| table.columns.last()).ok_or("no table")?;
    Ok(match &column.values {
        Values::Numbers(values) => values.iter().sum::<f64>() / values.len() as f64,
        Values::Integers(values) => values.iter().sum::<i64>() as f64 / values.len() as f64,
        Values::Texts(values) => values.len() as f64,
    })
}

/// Time on a processor of the thread that asks.
fn cpu_seconds() -> Result<f64, Failure> {
    let times = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(times.split(' ').next().ok_or("no time")?.parse::<f64>()? / 1e9)
}

fn peak_mb() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no peak in the status")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
}
