//! Notes how fast tasks are, for the estimates of others.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::app::App;
use crate::exec::attempt::Attempt;
use crate::plan::simulate::{self, GROMACS, MINIMIZATION, Parameters};
use crate::record::{Kind, Task};
use crate::runner::folder::task_file;
use crate::runner::outcome::Outcome;
use crate::speed::Measured;

/// Time in which steps show how long they take: the first are slower.
const LEAST_SECONDS: f64 = 0.5;
/// The same of a minimisation, whose first pass begins with the making of a context.
const LEAST_STEPS: u64 = 100;

/// Notes what a task has shown, as far as it has; `elapsed` since the beginning of one that was
/// not interrupted. What cannot be noted is logged: the task does not suffer for it.
pub(super) async fn note(
    app: &App,
    row: &Task,
    attempt: &Attempt,
    outcome: &Outcome,
    elapsed: Option<Duration>,
) {
    let noted = match measured(app, row, attempt, outcome, elapsed).await {
        Ok(Some(measured)) => {
            app.db.note_speed(row.kind, measured, app.now()).await.map_err(anyhow::Error::new)
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = noted {
        tracing::warn!(task = %row.id, cause = format!("{error:#}"), "note how fast a task is");
    }
}

async fn measured(
    app: &App,
    row: &Task,
    attempt: &Attempt,
    outcome: &Outcome,
    elapsed: Option<Duration>,
) -> Result<Option<Measured>> {
    let Some(task) = task_file(&attempt.folder) else { return Ok(None) };
    let threads = task.threads as u64;
    let rest_ms = |besides: f64| {
        let rest = elapsed.map(|elapsed| elapsed.as_secs_f64() - besides);
        rest.filter(|rest| *rest > 0.0).map(|rest| (rest * 1e3) as u64)
    };
    match (row.kind, &outcome.summary, &outcome.platform) {
        (Kind::System, Some(summary), _) => Ok(Some(Measured {
            task: row.id.clone(),
            platform: String::new(),
            threads,
            atoms: summary.atoms,
            cutoff_pm: 0,
            step_ns: None,
            minimise_step_ns: None,
            minimise_steps: None,
            rest_ms: rest_ms(0.0),
        })),
        (Kind::Analysis, ..) => Ok(rest_ms(0.0).map(|rest_ms| Measured {
            task: row.id.clone(),
            platform: String::new(),
            threads,
            atoms: 0,
            cutoff_pm: 0,
            step_ns: None,
            minimise_step_ns: None,
            minimise_steps: None,
            rest_ms: Some(rest_ms),
        })),
        (Kind::Job, _, Some(platform)) => {
            let parameters: Parameters = serde_json::from_str(&row.parameters)?;
            let (steps, seconds) = dynamics(outcome, parameters.timestep_fs());
            let step_ns = (steps > 0 && seconds >= LEAST_SECONDS)
                .then(|| (seconds / steps as f64 * 1e9) as u64);
            let (minimised, minimising) = minimisation(outcome);
            let limit = parameters.minimization_steps();
            let minimise_step_ns = (minimised >= LEAST_STEPS && minimising >= LEAST_SECONDS)
                .then(|| (minimising / minimised as f64 * 1e9) as u64);
            let rest_ms = rest_ms(minimising + seconds).filter(|_| task.commits == 0);
            if step_ns.is_none() && rest_ms.is_none() {
                return Ok(None);
            }
            let system = row.parent.as_deref().context("a job without a system")?;
            let system = app.db.task(row.account, Kind::System, system).await?;
            let system = system.context("a job whose system is gone")?;
            let system =
                simulate::System::of(&system).map_err(|error| anyhow::anyhow!("{error:?}"))?;
            Ok(Some(Measured {
                task: row.id.clone(),
                platform: outcome
                    .engine
                    .as_ref()
                    .filter(|engine| *engine == GROMACS)
                    .unwrap_or(platform)
                    .clone(),
                threads,
                atoms: system.atoms,
                cutoff_pm: (parameters.cutoff_nm() * 1e3) as u64,
                step_ns,
                minimise_step_ns,
                minimise_steps: Some(minimised).filter(|steps| *steps > 0 && *steps < limit),
                rest_ms,
            }))
        }
        _ => Ok(None),
    }
}

/// Steps of the minimisation of a job that has ended it, and the time that they took in s.
fn minimisation(outcome: &Outcome) -> (u64, f64) {
    let found = outcome.stages.iter().flatten().find(|stage| stage.name == MINIMIZATION);
    found.map_or((0, 0.0), |stage| (stage.steps, stage.seconds.get()))
}

/// Steps of dynamics that a job has taken, and the time that they took in s.
fn dynamics(outcome: &Outcome, timestep_fs: f64) -> (u64, f64) {
    let (mut steps, mut seconds) = (0, 0.0);
    for stage in outcome.stages.iter().flatten().filter(|stage| stage.name != MINIMIZATION) {
        steps = u64::saturating_add(steps, stage.steps);
        seconds += stage.seconds.get();
    }
    if let Some(progress) = &outcome.progress
        && let (Some(step), Some(speed)) = (progress.step, progress.ns_per_day)
        && speed.get() > 0.0
    {
        let ended = outcome
            .stages
            .iter()
            .flatten()
            .any(|stage| Some(&stage.name) == progress.stage.as_ref());
        if !ended {
            steps = steps.saturating_add(step);
            seconds += step as f64 * timestep_fs * 1e-6 / speed.get() * 86_400.0;
        }
    }
    (steps, seconds)
}
