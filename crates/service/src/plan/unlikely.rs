//! What of a job can be run, and hardly anybody means: it is run, and warned of.

use molbox::workflow::types::{Ensembles, LocItem, Notice};

use crate::app::App;
use crate::error::ApiError;
use crate::http::validate::loc;
use crate::plan::simulate::{Parameters, System, USUAL_TIMESTEP_OF_FREE_HYDROGENS};

/// Code of the warning about a value that is probably a mistake.
const UNLIKELY_VALUE: &str = "unlikely_value";

/// Which values are probably of another unit.
pub(crate) fn notices(parameters: &Parameters) -> Vec<Notice> {
    let runs = |ensemble| parameters.runs().any(|run| run.ensemble == ensemble);
    let has_pressure = runs(Ensembles::Npt);
    let has_thermostat = has_pressure || runs(Ensembles::Nvt);
    let found = molbox::unlikely_values(
        parameters.temperature.get(),
        has_pressure.then_some(parameters.pressure.get()),
        has_thermostat.then_some(parameters.friction.get()),
        parameters.integration_timestep.get(),
    );
    let values =
        found.into_iter().map(|(field, message)| notice(vec![loc("body"), loc(field)], message));
    values.chain(parameters.without_steps().into_iter().map(stage_without_steps)).collect()
}

/// Which values probably do not suit a system.
pub(crate) fn of_system(parameters: &Parameters, system: &System<'_>) -> Option<Notice> {
    let timestep = parameters.timestep_fs();
    (system.has_free_hydrogens && timestep > USUAL_TIMESTEP_OF_FREE_HYDROGENS).then(|| {
        let message = format!(
            "{timestep} fs is long for bonds of hydrogens that are not constrained, as in this system: \
             with {USUAL_TIMESTEP_OF_FREE_HYDROGENS} fs at most their motion is followed"
        );
        notice(vec![loc("body"), loc("integration_timestep")], message)
    })
}

fn stage_without_steps((at, time): (Vec<LocItem>, f64)) -> Notice {
    let message = format!(
        "{time} ns is less than half a time step, so that the stage has no step; times are in ns"
    );
    notice(at, message)
}

/// Which masks may select other atoms than were meant: by distances that end at a face of the box,
/// where that decides, or by residues that others have the numbers of.
///
/// # Errors
///
/// When the system cannot be read, which it is only for masks with distances or numbers of
/// residues: it takes longer than all else.
pub(crate) fn of_masks(
    app: &App,
    parameters: &Parameters,
    system: &System<'_>,
) -> Result<Vec<Notice>, ApiError> {
    let masks: Vec<_> = parameters
        .masks()
        .filter(|(_, mask)| mask.contains(['<', '>']) || has_numbers_of_residues(mask))
        .collect();
    if masks.is_empty() {
        return Ok(Vec::new());
    }
    let built = system.built(app)?;
    let mut notices = Vec::new();
    for (at, mask) in masks {
        let counted = has_numbers_of_residues(mask).then(|| built.check(mask).unwrap_or_default());
        let cut = system.cell().and_then(|cell| built.without_images(mask, &cell));
        let all = counted.into_iter().flatten().chain(cut);
        notices.extend(all.map(|message| notice(at.clone(), message)));
    }
    Ok(notices)
}

/// Whether a mask counts residues, as in `:41@CA`.
fn has_numbers_of_residues(mask: &str) -> bool {
    let mut after = mask.split(':').skip(1);
    after.any(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

fn notice(loc: Vec<LocItem>, message: String) -> Notice {
    Notice {
        code: UNLIKELY_VALUE.to_owned(),
        message,
        loc,
        residues: Vec::new(),
        extra: Default::default(),
    }
}
