//! The data folder: whether what lies in it belongs together, and whether it is still the one that the
//! service was started on.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

pub(crate) const DATABASE: &str = "molbox.sqlite";
/// What a service keeps besides its database.
const CONTENTS: [&str; 3] = ["objects/files", "objects/tasks", "tasks"];

/// What of a folder is there although no database knows of it; none in a folder that is new, or has
/// both.
pub(crate) fn stray(data: &Path) -> Option<PathBuf> {
    let is_filled =
        |folder: &PathBuf| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some_and(|e| e.is_ok()));
    CONTENTS.iter().map(|name| data.join(name)).find(is_filled)
}

/// Refuses a folder with results and without a database, as it is after a loss or when another folder
/// was meant: a new database would make it a new service, and nobody would find the results again.
pub(crate) fn check_database(data: &Path) -> Result<()> {
    let database = data.join(DATABASE);
    let is_there = match fs::metadata(&database) {
        Ok(found) => found.len() > 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).with_context(|| format!("open {}", database.display())),
    };
    if is_there { Ok(()) } else { stray(data).map_or(Ok(()), |stray| refuse(data, &stray, "no database")) }
}

/// The refusal of a folder whose database does not know what lies beside it.
pub(crate) fn refuse(data: &Path, stray: &Path, lack: &str) -> Result<()> {
    bail!(
        "{} has contents in {} but {lack}: restore {DATABASE} with {DATABASE}-wal from a backup, or name the folder \
         that is meant; to begin anew here, move `objects` and `tasks` away",
        data.display(),
        stray.strip_prefix(data).unwrap_or(stray).display(),
    )
}

/// What a service watches of its folder: the places of which everything else depends, by what they
/// were when it began.
pub(crate) struct Folder {
    places: Vec<(PathBuf, Identity)>,
    is_displaced: AtomicBool,
}

/// Device and inode: a file or folder that is moved keeps them, another in its place has others.
type Identity = (u64, u64);

/// The folder was moved, replaced or unmounted under the service.
#[derive(Clone, Debug)]
pub(crate) struct Displaced(PathBuf);

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not what it was when the service began: moved, replaced or unmounted", self.0.display())
    }
}

impl std::error::Error for Displaced {}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Folder {
    /// Remembers a folder with its database and its objects.
    pub(crate) fn remember(data: &Path) -> Result<Self> {
        let mut places = Vec::new();
        for path in [data.to_owned(), data.join(DATABASE), data.join("objects")] {
            let identity = identity(&path).with_context(|| format!("look at {}", path.display()))?;
            places.push((path, identity));
        }
        Ok(Self { places, is_displaced: AtomicBool::new(false) })
    }

    /// Whether everything is in its place. What is written elsewhere would be lost to whoever looks
    /// here, so nothing is acknowledged until it is back, or the service is started anew.
    pub(crate) fn check(&self) -> Result<(), Displaced> {
        let is_elsewhere = |(path, before): &&(PathBuf, Identity)| identity(path).ok() != Some(*before);
        let displaced = self.places.iter().find(is_elsewhere).map(|(path, _)| Displaced(path.clone()));
        let was = self.is_displaced.swap(displaced.is_some(), Ordering::Relaxed);
        match &displaced {
            Some(displaced) if !was => tracing::error!(%displaced, "nothing is acknowledged any more"),
            None if was => tracing::info!("the data folder is back in its place"),
            _ => {}
        }
        displaced.map_or(Ok(()), Err)
    }
}
