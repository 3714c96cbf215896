//! How fast tasks have been here, and how fast another would be.
//!
//! The time of a step is `rate × (atoms + offset)`: work grows with the atoms, and what a step
//! costs besides, such as launching kernels, is as if there were more of them. The offset is
//! chosen from a list, the rate as a median of the measured ratios, so that one job that shared its
//! machine, or ran before it was upgraded, moves nothing; both are positive whatever was measured.
//! A line by least squares through three points of one size has any slope, and often a negative
//! offset.

use crate::plan::simulate::GROMACS;

/// Measurements of a kind that are looked at, and kept.
pub(crate) const KEPT: usize = 100;
/// What has a speed that depends on the threads that it has: OpenMM's platform, and GROMACS.
const CPU: [&str; 2] = ["CPU", GROMACS];
/// Time goes down with threads to the power of this. Assumed, not measured: it matters only where
/// a task would get other threads than those that were measured.
const THREADS_EXPONENT: f64 = 0.85;
/// Atoms whose work is what a step costs besides.
const OFFSETS: [f64; 10] =
    [0.0, 100.0, 300.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0, 32_000.0, 64_000.0];
/// What is assumed while all that was measured has one size: OpenMM on a CPU and on a GPU.
const CPU_OFFSET: f64 = 300.0;
const GPU_OFFSET: f64 = 16_000.0;
/// How much an offset has to explain to be preferred to that, in units of a factor e.
const PRIOR_WEIGHT: f64 = 0.02;
/// Share of the weight of the next newer measurement: the last ten count for two thirds.
const AGEING: f64 = 0.9;
/// Share of the work of a step, at the usual cutoff, that grows with the volume of the cutoff: of
/// 6130 atoms on a CPU, 0.8 nm took 0.74 of the time of 1 nm, and 1.2 nm 1.64.
const PAIRS_SHARE: f64 = 0.6;
const USUAL_CUTOFF_NM: f64 = 1.0;

/// What one task has shown, newest first in a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) task: String,
    /// OpenMM's, or `gromacs`; empty for the build of a system and for an analysis.
    pub(crate) platform: String,
    pub(crate) threads: u64,
    pub(crate) atoms: u64,
    pub(crate) cutoff_pm: u64,
    /// Of a step of dynamics; none of a build, and of a job with too few steps to tell.
    pub(crate) step_ns: Option<u64>,
    /// Of a step of the minimisation; none where it had too few to tell.
    pub(crate) minimise_step_ns: Option<u64>,
    /// Steps until it had converged; none where its limit ended it.
    pub(crate) minimise_steps: Option<u64>,
    /// What it took besides; none while it runs, and when it was resumed.
    pub(crate) rest_ms: Option<u64>,
}

/// What a task would have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) threads: u64,
    pub(crate) atoms: u64,
    pub(crate) cutoff_nm: f64,
    /// At most so many of the minimisation.
    pub(crate) minimise_steps: u64,
    pub(crate) steps: u64,
}

/// Time of a job in s, on the platform of the newest measurement; none when nothing was measured.
pub(crate) fn job_seconds(measured: &[Measured], asked: &Asked) -> Option<f64> {
    let platform = &measured.first()?.platform;
    let here: Vec<&Measured> = measured.iter().filter(|it| it.platform == *platform).collect();
    let is_cpu = CPU.contains(&platform.as_str());
    let work = |threads: u64, cutoff_nm: f64| {
        let threads = if is_cpu { threads.max(1) as f64 } else { 1.0 };
        let pairs = (cutoff_nm / USUAL_CUTOFF_NM).powi(3);
        threads.powf(-THREADS_EXPONENT) * (1.0 - PAIRS_SHARE + PAIRS_SHARE * pairs)
    };
    let usual_offset = if is_cpu { CPU_OFFSET } else { GPU_OFFSET };
    let step_seconds = |of: fn(&Measured) -> Option<u64>| {
        let points = here.iter().filter_map(|it| {
            let seconds = of(it)? as f64 / 1e9;
            Some(Point::new(it.atoms, seconds / work(it.threads, it.cutoff_pm as f64 / 1e3)))
        });
        let points: Vec<Point> = points.collect();
        let seconds = predicted(&points, asked.atoms, usual_offset)?;
        Some(seconds * work(asked.threads, asked.cutoff_nm))
    };
    let stepping = match asked.steps {
        0 => 0.0,
        steps => step_seconds(|it| it.step_ns)? * steps as f64,
    };
    let mut converged: Vec<(f64, f64)> = here
        .iter()
        .filter_map(|it| it.minimise_steps)
        .zip(0..)
        .map(|(steps, rank)| (steps as f64, AGEING.powi(rank)))
        .collect();
    let until_converged =
        if converged.is_empty() { f64::INFINITY } else { weighted_median(&mut converged) };
    let minimising = (asked.minimise_steps as f64).min(until_converged)
        * step_seconds(|it| it.minimise_step_ns).unwrap_or(0.0);
    let rest = rest_seconds(here.iter().copied(), asked.atoms).unwrap_or(0.0);
    Some(minimising + stepping + rest)
}

/// Time of a build in s; none when no system was built.
pub(crate) fn build_seconds(measured: &[Measured], atoms: u64) -> Option<f64> {
    rest_seconds(measured.iter(), atoms)
}

/// Time in s that tasks of a kind take, whatever their size; none when there was none.
pub(crate) fn usual_seconds(measured: &[Measured]) -> Option<f64> {
    let mut times: Vec<f64> =
        measured.iter().filter_map(|it| Some(it.rest_ms? as f64 / 1e3)).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn rest_seconds<'a>(measured: impl Iterator<Item = &'a Measured>, atoms: u64) -> Option<f64> {
    let rest: Vec<Point> =
        measured.filter_map(|it| Some(Point::new(it.atoms, it.rest_ms? as f64 / 1e3))).collect();
    // Starting a worker, importing OpenMM: seconds, the work of some thousand atoms.
    predicted(&rest, atoms, 4000.0)
}

/// A size and a time.
struct Point {
    atoms: f64,
    log_seconds: f64,
}

impl Point {
    fn new(atoms: u64, seconds: f64) -> Self {
        Self { atoms: atoms as f64, log_seconds: seconds.max(1e-9).ln() }
    }
}

/// The time of a size, from others, newest first.
fn predicted(points: &[Point], atoms: u64, usual_offset: f64) -> Option<f64> {
    let weights: Vec<f64> = (0..points.len()).map(|rank| AGEING.powi(rank as i32)).collect();
    let total: f64 = weights.iter().sum();
    let fits = OFFSETS.iter().map(|&offset| {
        let mut ratios: Vec<(f64, f64)> = points
            .iter()
            .zip(&weights)
            .map(|(point, weight)| {
                (point.log_seconds - (point.atoms + offset).max(1.0).ln(), *weight)
            })
            .collect();
        let rate = weighted_median(&mut ratios);
        let misfit: f64 = ratios.iter().map(|(ratio, weight)| weight * (ratio - rate).abs()).sum();
        let surprise = ((offset + 100.0) / (usual_offset + 100.0)).ln().abs();
        (misfit / total + PRIOR_WEIGHT * surprise, offset, rate)
    });
    let (_, offset, rate) = fits.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| total > 0.0)?;
    Some((rate + (atoms as f64 + offset).max(1.0).ln()).exp())
}

/// The value with half of the weight on either side; the mean of two that have.
fn weighted_median(values: &mut [(f64, f64)]) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (index, (value, weight)) in values.iter().enumerate() {
        below += weight;
        if (below - half).abs() < 1e-12 && index + 1 < values.len() {
            return f64::midpoint(*value, values[index + 1].0);
        }
        if below >= half {
            return *value;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(platform: &str, atoms: u64, step_us: f64) -> Measured {
        Measured {
            task: String::new(),
            platform: platform.to_owned(),
            threads: 1,
            atoms,
            cutoff_pm: 1000,
            step_ns: Some((step_us * 1e3) as u64),
            minimise_step_ns: None,
            minimise_steps: None,
            rest_ms: None,
        }
    }

    fn asked(atoms: u64, steps: u64) -> Asked {
        Asked { threads: 1, atoms, cutoff_nm: 1.0, minimise_steps: 10_000, steps }
    }

    fn step_us(measured: &[Measured], atoms: u64) -> f64 {
        job_seconds(measured, &asked(atoms, 1_000_000)).unwrap()
    }

    fn is_within(found: f64, expected: f64, share: f64) {
        assert!((found / expected - 1.0).abs() <= share, "{found} for {expected}");
    }

    #[test]
    fn three_jobs_of_two_sizes_foretell_a_third() {
        // 2 µs an atom and 400 µs besides, with noise of a tenth; the same on a GPU, smaller.
        for (platform, rate, besides) in [("CPU", 2.0, 400.0), ("CUDA", 0.01, 150.0)] {
            let time = |atoms: u64| rate * atoms as f64 + besides;
            let jobs = [(2500, 1.1), (12_000, 0.93), (2500, 0.95)]
                .map(|(atoms, noise)| measured(platform, atoms, time(atoms) * noise));
            for atoms in [1000, 5000, 40_000] {
                is_within(step_us(&jobs, atoms), time(atoms), 0.2);
            }
        }
    }

    #[test]
    fn a_job_that_shared_the_machine_moves_nothing() {
        let slow = measured("CPU", 4000, 30_000.0);
        let jobs = [slow.clone(), measured("CPU", 3000, 6400.0), measured("CPU", 6000, 12_400.0)];
        is_within(step_us(&jobs, 4000), 8400.0, 0.2);
        let alone = measured("CPU", 3000, 6400.0);
        assert!(step_us(&[slow], 4000) > 2.0 * step_us(&[alone], 4000));
    }

    #[test]
    fn a_minimisation_takes_the_steps_of_others_or_its_limit_and_longer_with_a_longer_cutoff() {
        let of = |atoms: u64, steps: u64| Measured {
            minimise_step_ns: Some(2_000 * atoms),
            minimise_steps: Some(steps),
            rest_ms: Some(1000),
            ..measured("CPU", atoms, atoms as f64)
        };
        let jobs = [of(3000, 1000), of(12_000, 1200), of(3000, 900)];
        let seconds = |asked: Asked| job_seconds(&jobs, &asked).unwrap();
        let whole = asked(6000, 0);
        is_within(seconds(whole), 13.0, 0.1);
        is_within(seconds(Asked { minimise_steps: 100, ..whole }), 2.2, 0.1);
        is_within(seconds(Asked { minimise_steps: 0, ..whole }), 1.0, 0.1);
        is_within(seconds(Asked { cutoff_nm: 1.2, ..whole }), 1.0 + 12.0 * 1.437, 0.1);
    }

    #[test]
    fn another_platform_is_forgotten_when_there_is_a_newer() {
        let jobs = [measured("CUDA", 20_000, 400.0), measured("CPU", 20_000, 50_000.0)];
        is_within(step_us(&jobs, 20_000), 400.0, 0.01);
        assert!(job_seconds(&[], &asked(1, 1)).is_none());
    }

    #[test]
    fn any_measurement_gives_a_time_that_is_positive_and_finite() {
        for atoms in [0, 1, 10_000_000] {
            for step in [0.0, 1.0, 1e12] {
                let jobs = [measured("CPU", atoms, step), measured("CPU", 1, 1.0)];
                let found = step_us(&jobs, 1000);
                assert!(found.is_finite() && found > 0.0, "{atoms} {step}: {found}");
            }
        }
    }
}
