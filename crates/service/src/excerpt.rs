//! Trajectories that are downloaded in part: some atoms of some frames, as a file that is never
//! written.

use std::io;
use std::num::NonZeroUsize;

use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::response::Response;
use futures::Stream;
use molbox_analysis::{AtomSet, Dcd, Error, Excerpt, FrameRange, Series, Trajectory};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::error::{ApiError, not_ready};
use crate::files::CHUNK_BYTES;
use crate::hex::hex;
use crate::http::call::Call;
use crate::http::download::{Content, ranged};
use crate::http::validate::{loc, violation};
use crate::objects::Key;
use crate::plan::topology::{BadMask, selected};
use crate::record::Task;
use crate::registered::{self, Named};
use crate::runner::commit::Commit;
use crate::runner::output::Output;

/// Atoms and frames as a query asks for them.
pub(crate) struct Asked {
    mask: Option<String>,
    from: usize,
    to: Option<usize>,
    stride: NonZeroUsize,
}

impl Asked {
    pub(crate) fn of(call: &Call) -> Self {
        let whole = |name| call.whole(name).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        Self {
            mask: call.query("mask").map(str::to_owned),
            from: whole("from").unwrap_or(0),
            to: whole("to"),
            // The document has it begin with 1.
            stride: whole("stride").and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// Of a trajectory of so many frames.
    fn frames(&self, n_frames: usize) -> Result<FrameRange, ApiError> {
        let (field, msg) = match self.to {
            _ if self.from >= n_frames => {
                let from = self.from;
                let msg = format!(
                    "there is no frame {from}, counted from 0; the trajectory has {n_frames}"
                );
                ("from", msg)
            }
            Some(to) if to < self.from => {
                ("to", format!("is before the first frame that is asked for, {}", self.from))
            }
            to => {
                let last = Some(to.unwrap_or(usize::MAX).min(n_frames - 1));
                return Ok(FrameRange { first: self.from, last, stride: self.stride });
            }
        };
        let at = vec![loc("query"), loc(field)];
        Err(ApiError::invalid(vec![violation("out_of_range", at, msg)]))
    }
}

/// A file that is made of a trajectory.
pub(crate) struct Made {
    excerpt: Excerpt,
    /// None while there may be more frames.
    etag: Option<String>,
}

impl Made {
    /// The file of these atoms; `digest` is that of the whole trajectory when nothing changes it.
    ///
    /// # Errors
    ///
    /// Those of reading the first frame.
    fn new(
        trajectory: Trajectory,
        atoms: &AtomSet,
        frames: FrameRange,
        digest: Option<&str>,
    ) -> Result<Self, Error> {
        let excerpt = Excerpt::new(trajectory, atoms, frames)?;
        let etag = digest.map(|digest| {
            let mut sha256 = Sha256::new();
            sha256.update(digest);
            let frames = [frames.first, frames.stride.get(), excerpt.n_frames()];
            let runs = atoms.ranges().into_iter().flat_map(|run| [run.start, run.end]);
            for number in frames.into_iter().chain(runs) {
                sha256.update((number as u64).to_le_bytes());
            }
            format!("\"excerpt-{}\"", hex(&sha256.finalize()))
        });
        Ok(Self { excerpt, etag })
    }

    /// What of a stage of a job is asked for: of one that has not ended, only frames that stay
    /// what they are whatever is killed. Reads files and takes long.
    ///
    /// # Errors
    ///
    /// 409 for a stage without frames, 422 for a mask or frames that are not there.
    pub(crate) fn of_job(
        app: &App,
        job: &Task,
        (number, stage): (usize, &str),
        asked: &Asked,
    ) -> Result<Self, ApiError> {
        let is_open = job.status.is_open();
        let none = || {
            let yet = if is_open { " yet" } else { "" };
            let needs = format!("it has no frames of {stage}{yet}");
            not_ready(vec![loc("path"), loc("job_id")], &job.id, job.status, &needs)
        };
        let name = format!("{stage}.dcd");
        // Before the file is looked at, of which more may be committed meanwhile.
        let committed = match is_open {
            true => Commit::of(app, &job.id)?.map_or(0, |commit| commit.trajectory_bytes(number)),
            false => u64::MAX,
        };
        let output = Output::of(app, &job.id, &name)?.ok_or_else(none)?;
        let dcd = match output.read(&app.objects, Dcd::open)? {
            Ok(dcd) => dcd,
            // Its header is not on the disk yet, or never came there.
            Err(Error::Format { .. }) => return Err(none()),
            Err(error) => return Err(ApiError::internal(error)),
        };
        let n_frames = dcd.n_frames_within(committed);
        if n_frames == 0 {
            return Err(none());
        }
        let system = job.parent.as_deref().unwrap_or_default();
        let built = app.systems.read(&app.objects, system)?;
        let atoms = match &asked.mask {
            Some(mask) => {
                selected(built.topology(), built.positions(), mask).map_err(BadMask::in_query)?
            }
            None => AtomSet::all(built.topology().n_atoms()),
        };
        let frames = asked.frames(n_frames)?;
        let digest = if is_open { None } else { Some(digest(app, &job.id, &name)?) };
        Self::new(Trajectory::Dcd(dcd), &atoms, frames, digest.as_deref())
            .map_err(ApiError::internal)
    }

    /// What of a registered trajectory is asked for; `named` names its atoms, if a mask is to
    /// choose among them. Takes long when the trajectory is.
    ///
    /// # Errors
    ///
    /// 422 for a structure of other atoms, a mask without one or of no atoms, frames that are not
    /// there or that cannot be read.
    pub(crate) fn of_file(
        trajectory: Trajectory,
        sha256: &str,
        named: Option<&Named>,
        again: impl FnOnce() -> Result<Series, ApiError>,
        asked: &Asked,
    ) -> Result<Self, ApiError> {
        let n_atoms = trajectory.n_atoms();
        let wrong = |kind, msg: String| {
            ApiError::invalid(vec![violation(kind, vec![loc("query"), loc("topology")], msg)])
        };
        if let Some(named) = named
            && named.topology().n_atoms() != n_atoms
        {
            let msg = format!(
                "has {} atoms, the trajectory {n_atoms}; give the structure that it was made from",
                named.topology().n_atoms()
            );
            return Err(wrong("value_error", msg));
        }
        let atoms = match (&asked.mask, named) {
            (None, _) => AtomSet::all(n_atoms),
            (Some(mask), Some(named)) => {
                let positions = named.positions(again, false, ["path", "file_id"])?;
                selected(named.topology(), &positions, mask).map_err(BadMask::in_query)?
            }
            (Some(_), None) => {
                let msg = "a mask needs the structure that names the atoms; give its file";
                return Err(wrong("missing", msg.to_owned()));
            }
        };
        let frames = asked.frames(trajectory.n_frames())?;
        Self::new(trajectory, &atoms, frames, Some(sha256))
            .map_err(|error| registered::unread_frames(error, ["path", "file_id"]))
    }

    /// The file as an answer, whole or the range that is asked for.
    pub(crate) fn answer(self, call: &Call, name: &str) -> Result<Response, ApiError> {
        let Self { excerpt, etag } = self;
        let [n_atoms, n_frames] = [excerpt.n_atoms(), excerpt.n_frames()];
        let content =
            Content { size: excerpt.size(), etag, media: "application/octet-stream", name };
        let mut response = ranged(call, content, |start, end| bytes(excerpt, start, end))?;
        response.headers_mut().insert("x-atoms", HeaderValue::from(n_atoms));
        response.headers_mut().insert("x-frames", HeaderValue::from(n_frames));
        Ok(response)
    }
}

/// Digest of a file of a job that has ended, as its manifest has it.
fn digest(app: &App, job: &str, name: &str) -> Result<String, ApiError> {
    #[derive(Deserialize)]
    struct Manifest {
        files: Vec<Listed>,
    }

    #[derive(Deserialize)]
    struct Listed {
        name: String,
        sha256: String,
    }

    let manifest = app.objects.read(&Key::task(job).under("manifest.json"))?;
    let manifest: Manifest = serde_json::from_slice(&manifest).map_err(ApiError::internal)?;
    let path = format!("{job}/{name}");
    let listed = manifest.files.into_iter().find(|listed| listed.name == path);
    let listed = listed.ok_or_else(|| anyhow::anyhow!("the manifest of {job} has no {name}"))?;
    Ok(listed.sha256)
}

/// The bytes of a file from one place up to another, a chunk at a time.
fn bytes(
    excerpt: Excerpt,
    start: u64,
    end: u64,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    futures::stream::try_unfold((excerpt, start), move |(mut excerpt, at)| async move {
        if at >= end {
            return Ok(None);
        }
        let read = tokio::task::spawn_blocking(move || {
            let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let mut chunk = vec![0; length];
            excerpt.read(at, &mut chunk).map(|()| (chunk, excerpt))
        });
        let (chunk, excerpt) = read.await?.map_err(io::Error::other)?;
        let next = at + chunk.len() as u64;
        Ok(Some((Bytes::from(chunk), (excerpt, next))))
    })
}
