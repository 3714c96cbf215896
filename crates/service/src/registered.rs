//! Structures and trajectories that are registered files, opened.

use std::borrow::Cow;
use std::fs;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use molbox_analysis::{
    Error, FormatError, Series, Structure, Topology, Trajectory, Xtc, first_positions,
};

use crate::app::App;
use crate::error::ApiError;
use crate::formats::Format;
use crate::http::validate::{loc, violation};
use crate::objects::Key;
use crate::shown::without_folders;

/// A structure, whole. One that has not been asked for of late is read, which takes long.
///
/// # Errors
///
/// 422 for a file of more bytes than a text may have, or of a built system that cannot be read, with
/// the place of what names it.
pub(crate) fn structure(
    app: &App,
    file_id: &str,
    key: &Key,
    format: Format,
    at: [&str; 2],
) -> Result<Arc<Structure>, ApiError> {
    app.structures.find_or_read(file_id, || {
        let text = text(app, file_id, key, at)?;
        let parsed = match format {
            Format::Cif => Structure::from_mmcif(&text),
            Format::Gro => Structure::from_gro(&text),
            _ => Structure::from_pdb(&text),
        };
        let structure = match parsed {
            Ok(structure) => structure,
            // Of files of built systems only the beginning was checked when they were registered.
            Err(error) if format == Format::Gro => return Err(unread(file_id, &error, at)),
            Err(error) => return Err(ApiError::internal(anyhow::anyhow!("{key}: {error:?}"))),
        };
        let weight = weight(&structure.topology);
        Ok((Arc::new(structure), weight))
    })
}

/// What a structure or a topology weighs where those are kept that were asked for of late: its atoms
/// and its bonds, of which a molecule has about as many and a file may give any number.
fn weight(topology: &Topology) -> usize {
    topology.n_atoms() + topology.bonds().len() / BONDS_OF_AN_ATOM
}

/// Bonds that take about as much memory as an atom.
const BONDS_OF_AN_ATOM: usize = 8;

/// The text of a file that is read whole.
fn text(app: &App, file_id: &str, key: &Key, at: [&str; 2]) -> Result<String, ApiError> {
    let content = app.objects.local(key)?;
    let max_bytes = app.config.limits.text_bytes;
    let n_bytes = fs::metadata(content.path())?.len();
    if n_bytes > max_bytes {
        let msg = format!(
            "{file_id} has {n_bytes} bytes; atoms can be chosen of structures of {max_bytes} at \
             most (`limits.text_bytes` of the service)"
        );
        return Err(ApiError::invalid(vec![violation("value_error", at.map(loc).to_vec(), msg)]));
    }
    // Without a copy of what is text, as almost all of these are.
    Ok(String::from_utf8(fs::read(content.path())?)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn unread(file_id: &str, error: &FormatError, at: [&str; 2]) -> ApiError {
    let msg = format!("{file_id} cannot be read: {error}");
    ApiError::invalid(vec![violation("value_error", at.map(loc).to_vec(), msg)])
}

/// That a trajectory cannot be read: 422 for what its file is, at the place of what names it.
pub(crate) fn unread_frames(error: Error, at: [&str; 2]) -> ApiError {
    if matches!(error, Error::Io { .. } | Error::Cancelled) {
        return ApiError::internal(error);
    }
    let causes = iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let msg = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let msg = without_folders(&msg);
    ApiError::invalid(vec![violation("value_error", at.map(loc).to_vec(), msg)])
}

/// What names the atoms of a trajectory.
pub(crate) enum Named {
    Structure(Arc<Structure>),
    /// Without positions.
    Topology(Arc<Topology>),
}

impl Named {
    pub(crate) fn topology(&self) -> &Topology {
        match self {
            Self::Structure(structure) => &structure.topology,
            Self::Topology(topology) => topology,
        }
    }

    /// Alternate locations that it has besides.
    pub(crate) fn n_locations(&self) -> usize {
        match self {
            Self::Structure(structure) => structure.n_locations(),
            Self::Topology(_) => 0,
        }
    }

    /// Where its atoms are, in Å: what distances in masks are measured in. Without positions of its
    /// own those of the first frame of a trajectory of as many atoms, which is opened for it.
    ///
    /// # Errors
    ///
    /// Those of opening it; 422 for a frame that cannot be read, at the place of the trajectory.
    pub(crate) fn positions(
        &self,
        trajectory: impl FnOnce() -> Result<Series, ApiError>,
        skips_damaged: bool,
        at: [&str; 2],
    ) -> Result<Cow<'_, [[f64; 3]]>, ApiError> {
        let topology = match self {
            Self::Structure(structure) => return Ok(Cow::Borrowed(&structure.positions)),
            Self::Topology(topology) => topology,
        };
        let never = AtomicBool::new(false);
        match first_positions(topology, &trajectory()?, skips_damaged, &never) {
            Ok(positions) => Ok(Cow::Owned(positions)),
            Err(error) => Err(unread_frames(error, at)),
        }
    }
}

/// Whether what names atoms has been read of late.
pub(crate) fn is_kept(app: &App, file_id: &str) -> bool {
    app.structures.found(file_id).is_some() || app.topologies.found(file_id).is_some()
}

/// What names the atoms of a trajectory, whole, as [`structure`] reads it.
///
/// # Errors
///
/// The same; 422 too for a topology that cannot be read.
pub(crate) fn named(
    app: &App,
    file_id: &str,
    key: &Key,
    format: Format,
    at: [&str; 2],
) -> Result<Named, ApiError> {
    let parse = match format {
        Format::Prmtop => Topology::from_prmtop,
        Format::Psf => Topology::from_psf,
        _ => return structure(app, file_id, key, format, at).map(Named::Structure),
    };
    let topology = app.topologies.find_or_read(file_id, || {
        let text = text(app, file_id, key, at)?;
        let topology = parse(&text).map_err(|error| unread(file_id, &error, at))?;
        let weight = weight(&topology);
        Ok::<_, ApiError>((Arc::new(topology), weight))
    });
    topology.map(Named::Topology)
}

/// A trajectory. One in XTC that has not been asked for of late is walked through, which takes
/// long.
///
/// # Errors
///
/// 422 for a file that cannot be read, with the place of what names it: an earlier version checked
/// less of it when it was registered.
pub(crate) fn trajectory(
    app: &App,
    file_id: &str,
    key: &Key,
    format: Format,
    at: [&str; 2],
) -> Result<Trajectory, ApiError> {
    let unread = |error| unread_frames(error, at);
    let content = app.objects.local(key)?;
    if format != Format::Xtc {
        return Trajectory::open(content.path()).map_err(unread);
    }
    let index = app.frames.find_or_read(file_id, || {
        let index = Xtc::open(content.path()).map_err(unread)?.index().clone();
        let n_frames = index.n_frames();
        Ok::<_, ApiError>((index, n_frames))
    })?;
    Xtc::open_indexed(content.path(), index).map(Trajectory::Xtc).map_err(unread)
}
