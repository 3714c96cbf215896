//! Where results go on this machine: known to take them before anything is calculated.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Folders that were made; those in which nothing is go with it.
#[derive(Debug)]
pub(crate) struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Whatever has come into it since keeps it there.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Makes a folder in which files can be written, and those that it is in.
pub(crate) fn folder(folder: &Path) -> Result<Made, Failure> {
    let missing = folder.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists());
    let made = Made(missing.map(Path::to_owned).collect());
    fs::create_dir_all(folder)
        .and_then(|()| tempfile::tempfile_in(folder))
        .map_err(|error| Failure::file(folder, &error))?;
    Ok(made)
}

/// Refuses a file that cannot be written; one that is there stays as it is.
pub(crate) fn file(path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let probed = match fs::metadata(path) {
        // A pipe waits for its reader when it is opened.
        Ok(known) if !known.is_file() && !known.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(_) => tempfile::tempfile_in(folder).map(drop),
    };
    probed.map_err(|error| Failure::file(path, &error))
}
