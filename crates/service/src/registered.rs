//! Structures and trajectories that are registered files, opened.

use std::fs;
use std::sync::Arc;

use molbox_analysis::{Error, Structure, Trajectory, Xtc};

use crate::app::App;
use crate::error::ApiError;
use crate::formats::Format;
use crate::http::validate::{loc, violation};
use crate::objects::Key;

/// A structure, whole. One that has not been asked for of late is read, which takes long.
///
/// # Errors
///
/// 422 for a file of more bytes than a text may have, with the place of what names it.
pub(crate) fn structure(
    app: &App,
    file_id: &str,
    key: &Key,
    format: Format,
    at: [&str; 2],
) -> Result<Arc<Structure>, ApiError> {
    app.structures.find_or_read(file_id, || {
        let content = app.objects.local(key)?;
        let max_bytes = app.config.limits.text_bytes;
        let n_bytes = fs::metadata(content.path())?.len();
        if n_bytes > max_bytes {
            let msg = format!(
                "{file_id} has {n_bytes} bytes; atoms can be chosen of structures of {max_bytes} \
                 at most (`limits.text_bytes` of the service)"
            );
            return Err(ApiError::invalid(vec![violation(
                "value_error",
                at.map(loc).to_vec(),
                msg,
            )]));
        }
        let text = fs::read(content.path())?;
        let text = String::from_utf8_lossy(&text);
        let parsed = match format {
            Format::Cif => Structure::from_mmcif(&text),
            _ => Structure::from_pdb(&text),
        };
        // It was checked when it was registered.
        let structure = parsed.map_err(|e| ApiError::internal(anyhow::anyhow!("{key}: {e:?}")))?;
        let n_atoms = structure.topology.n_atoms();
        Ok((Arc::new(structure), n_atoms))
    })
}

/// A trajectory. One in XTC that has not been asked for of late is walked through, which takes
/// long.
pub(crate) fn trajectory(
    app: &App,
    file_id: &str,
    key: &Key,
    format: Format,
) -> Result<Trajectory, ApiError> {
    let unread = |error: Error| ApiError::internal(anyhow::Error::new(error));
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
