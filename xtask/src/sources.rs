//! The sources of the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Hands every file of a folder that has the extension to `look`.
pub fn each_file(folder: &Path, extension: &str, look: &mut dyn FnMut(&Path, &str)) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, extension, look)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            look(&path, &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
