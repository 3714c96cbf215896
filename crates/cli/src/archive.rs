//! Bundles, unpacked.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use zip::unstable::read::ZipIterable;

use crate::failure::Failure;

/// Unpacks a zip beside itself. A bundle has one folder for everything; another zip gets one of the
/// file's name. Files that are there already are written anew.
pub(crate) fn unpack(zip: &Path) -> Result<PathBuf, Failure> {
    Ok(extract(zip).with_context(|| format!("unpack {}", zip.display()))?)
}

/// A name that a zip lists more than once: of its files programs read the first, the last or all.
pub(crate) fn repeated_name(zip: &Path) -> anyhow::Result<Option<String>> {
    let mut archive = ZipIterable::try_new(File::open(zip)?, zip::read::Config::default())?;
    let mut names = HashSet::new();
    for entry in archive.files()? {
        let name = entry?.name()?.into_owned();
        if !names.insert(name.clone()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn extract(zip: &Path) -> anyhow::Result<PathBuf> {
    let mut archive = zip::ZipArchive::new(File::open(zip)?)?;
    if let Some(name) = repeated_name(zip)? {
        bail!("{name:?} is in it twice");
    }
    let beside = zip.parent().unwrap_or(Path::new(""));
    let mut names = Vec::new();
    for index in 0..archive.len() {
        // None for a name that leads out of the folder.
        let name = archive
            .by_index(index)?
            .enclosed_name()
            .context("a name in it leads out of the folder")?;
        names.push(name);
    }
    let top = names
        .first()
        .and_then(|name| name.components().next())
        .map(|c| PathBuf::from(c.as_os_str()));
    let shared = top.filter(|top| names.iter().all(|name| name.starts_with(top) && name != top));
    let into = if shared.is_some() { beside.to_owned() } else { zip.with_extension("") };
    for (index, name) in names.iter().enumerate() {
        let mut entry = archive.by_index(index)?;
        let path = into.join(name);
        if entry.is_dir() {
            fs::create_dir_all(&path)?;
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        io::copy(&mut entry, &mut File::create(&path)?)?;
    }
    Ok(shared.map_or(into, |shared| beside.join(shared)))
}
