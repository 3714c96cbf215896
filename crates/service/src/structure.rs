//! Structures as text, a chunk at a time.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use futures::Stream;
use molbox_analysis::{AtomSet, Cell, MmcifWriter, Structure, Topology};
use serde::Deserialize;

use crate::app::App;
use crate::error::{ApiError, NOT_FOUND, not_ready, stored};
use crate::files::CHUNK_BYTES;
use crate::http::call::Call;
use crate::http::download::while_good;
use crate::http::validate::{loc, violation};
use crate::objects::Key;
use crate::plan::topology::{BadMask, Built, selected};
use crate::record::{Status, Task};

/// Most bytes of a structure that was completed, for each atom that a system may have. The worker
/// writes some hundred.
const PREPARED_BYTES: u64 = 200;

/// That a system has been built.
pub(crate) fn check_built(system: &Task) -> Result<(), ApiError> {
    if system.status == Status::Succeeded {
        return Ok(());
    }
    let at = vec![loc("path"), loc("system_id")];
    Err(not_ready(at, &system.id, system.status, "its atoms are known when it has succeeded"))
}

/// A structure that is written.
pub(crate) enum Model {
    Built(Arc<Built>, Option<Box<Cell>>),
    /// As a file has it.
    Read(Arc<Structure>),
}

impl Model {
    /// The system as it was built.
    pub(crate) fn built(app: &App, system: &Task) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Outcome {
            summary: Summary,
        }

        #[derive(Deserialize)]
        struct Summary {
            /// In nm.
            box_vectors: [[f64; 3]; 3],
        }

        check_built(system)?;
        let Outcome { summary } = stored(system.outcome.as_deref().unwrap_or("null"))?;
        let vectors = summary.box_vectors.map(|vector| vector.map(|nm| nm * 10.0));
        let built = app.systems.read(&app.objects, &system.id)?;
        Ok(Self::Built(built, Cell::from_vectors(vectors).map(Box::new)))
    }

    /// The structure that was completed, without what it was put into; also of a system that could
    /// not be built from it.
    pub(crate) fn prepared(app: &App, system: &Task) -> Result<Self, ApiError> {
        if system.status.is_open() {
            check_built(system)?;
        }
        let key = Key::task(&system.id).under("prepared.cif");
        if !app.objects.exists(&key)? {
            let msg =
                format!("{} has no structure that was completed; ask for `system`", system.id);
            let at = vec![loc("query"), loc("of")];
            return Err(ApiError::unresolved(vec![violation(NOT_FOUND, at, msg)]));
        }
        // Which a worker has written.
        let most = app.config.limits.atoms.saturating_mul(PREPARED_BYTES);
        let text = app.objects.read_at_most(&key, most)?;
        let text = text.ok_or_else(|| {
            ApiError::internal(anyhow::anyhow!("{key} has more than {most} bytes"))
        })?;
        let structure = Structure::from_mmcif(&String::from_utf8_lossy(&text));
        let structure = structure.map_err(ApiError::internal)?;
        Ok(Self::Read(Arc::new(structure)))
    }

    fn topology(&self) -> &Topology {
        match self {
            Self::Built(built, _) => built.topology(),
            Self::Read(structure) => &structure.topology,
        }
    }

    /// In Å.
    fn positions(&self) -> &[[f64; 3]] {
        match self {
            Self::Built(built, _) => built.positions(),
            Self::Read(structure) => &structure.positions,
        }
    }

    fn cell(&self) -> Option<&Cell> {
        match self {
            Self::Built(_, cell) => cell.as_deref(),
            Self::Read(structure) => structure.cell.as_ref(),
        }
    }
}

/// Atoms of a structure as mmCIF.
pub(crate) struct StructureText {
    model: Model,
    name: String,
    atoms: AtomSet,
}

/// Atoms whose rows are made at once.
const ROWS: usize = 1024;

impl StructureText {
    pub(crate) fn new(model: Model, name: String, mask: Option<&str>) -> Result<Self, ApiError> {
        let (topology, positions) = (model.topology(), model.positions());
        let atoms = match mask {
            Some(mask) => selected(topology, positions, mask).map_err(BadMask::in_query)?,
            None => AtomSet::all(topology.n_atoms()),
        };
        Ok(Self { model, name, atoms })
    }

    /// The text as an answer.
    pub(crate) fn answer(self, call: &Call, name: &str) -> Result<Response, ApiError> {
        let n_atoms = self.atoms.len();
        let mut response = Response::new(Body::from_stream(while_good(call, self.stream())));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("chemical/x-mmcif"));
        let disposition = format!("attachment; filename=\"{name}\"");
        let disposition = HeaderValue::try_from(disposition).map_err(ApiError::internal)?;
        headers.insert(CONTENT_DISPOSITION, disposition);
        headers.insert("x-atoms", HeaderValue::from(n_atoms));
        Ok(response)
    }

    /// A chunk at a time: a million atoms take a hundred megabytes.
    fn stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let text = Arc::new(self);
        futures::stream::try_unfold(None, move |next: Option<usize>| {
            let text = text.clone();
            async move {
                if next.is_some_and(|next| next >= text.atoms.n_atoms()) {
                    return Ok(None);
                }
                let made = tokio::task::spawn_blocking(move || text.chunk(next));
                let (chunk, next) = made.await?;
                Ok(Some((Bytes::from(chunk), Some(next))))
            }
        })
    }

    /// What comes before the atoms, or the rows of atoms from one on; and the atom that is next.
    fn chunk(&self, next: Option<usize>) -> (String, usize) {
        let writer = MmcifWriter::new(self.model.topology(), self.model.positions(), &self.atoms);
        let Some(mut next) = next else {
            return (writer.head(&self.name, self.model.cell()), 0);
        };
        let mut text = String::new();
        while text.len() < CHUNK_BYTES / 2 && next < self.atoms.n_atoms() {
            let end = self.atoms.n_atoms().min(next + ROWS);
            text += &writer.rows(next..end);
            next = end;
        }
        (text, next)
    }
}
