//! What of a job can be run, and hardly anybody means: it is run, and warned of.

use molbox::workflow::types::{Ensembles, LocItem, Notice};

use crate::app::App;
use crate::error::ApiError;
use crate::http::validate::loc;
use crate::plan::simulate::{Parameters, System};

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
    found
        .into_iter()
        .map(|(field, message)| notice(vec![loc("body"), loc(field)], message))
        .collect()
}

/// Which masks have distances that end at a face of the box, where that decides what they select.
///
/// # Errors
///
/// When the system cannot be read, which it is only for masks with distances: it takes longer than
/// all else.
pub(crate) fn of_masks(
    app: &App,
    parameters: &Parameters,
    system: &System<'_>,
) -> Result<Vec<Notice>, ApiError> {
    let measuring: Vec<_> =
        parameters.masks().filter(|(_, mask)| mask.contains(['<', '>'])).collect();
    let Some(cell) = system.cell().filter(|_| !measuring.is_empty()) else {
        return Ok(Vec::new());
    };
    let built = system.built(app)?;
    let notices = measuring
        .into_iter()
        .filter_map(|(at, mask)| Some(notice(at, built.without_images(mask, &cell)?)));
    Ok(notices.collect())
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
