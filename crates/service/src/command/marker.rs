//! What a backup says of itself: whose it is, whether it is whole, and the digests of what is in it
//! besides contents, whose digests are in the database.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::app::known_secret;
use crate::db::is_used;
use crate::files;
use crate::folder::DATABASE;
use crate::hex::hex;
use crate::objects::bundle::HashWriter;
use crate::shown::quoted;

/// Without it a folder is no backup.
pub(super) const MARKER: &str = "backup.json";
/// The file with the secret of an installation.
pub(super) const SECRET: &str = "secret";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    molboxd: String,
    /// When the database was copied, RFC 3339.
    at: String,
    /// Whether database and content belong together.
    pub(super) is_whole: bool,
    /// None of a backup by molboxd 0.1, which has nothing of what follows either.
    owner: Option<Owner>,
    /// Database, secret and market data by their paths in the backup; empty until it is whole.
    #[serde(default)]
    files: BTreeMap<PathBuf, Measured>,
    /// Digest of all of the above.
    sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Measured {
    size_bytes: u64,
    sha256: String,
}

/// The installation that a backup is of, known by its secret, which this does not reveal: what is
/// restored has it, too, and it stays where records are moved to a server and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Owner(String);

impl Owner {
    /// Whose a data folder is; none where no service has been yet.
    pub(super) fn of(data: &Path) -> Result<Option<Self>> {
        Ok(known_secret(&data.join(SECRET))?.map(|secret| {
            let mut mac: Hmac<Sha256> = Hmac::new_from_slice(&secret).expect("any length is a key");
            mac.update(b"owner of backups");
            Self(hex(&mac.finalize().into_bytes()))
        }))
    }
}

impl Marker {
    /// That of a backup which is being taken.
    pub(super) fn new(owner: Owner, now: Timestamp) -> Self {
        Self {
            molboxd: env!("CARGO_PKG_VERSION").to_owned(),
            at: now.to_string(),
            is_whole: false,
            owner: Some(owner),
            files: BTreeMap::new(),
            sha256: None,
        }
    }

    /// The same once all of it is in its place, with what these files and folders of it have.
    pub(super) fn complete(&mut self, folder: &Path, names: &[&str]) -> Result<()> {
        for name in names {
            measure_all(folder, Path::new(name), &mut self.files)
                .with_context(|| format!("read {}", folder.join(name).display()))?;
        }
        self.is_whole = true;
        Ok(())
    }

    /// What the backup in a folder says; none where there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MARKER);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("read {}", path.display()))?,
        };
        let damaged = || {
            let remedy = "take a backup anew to another folder, or restore another one";
            format!("{} is damaged; {remedy}", path.display())
        };
        let marker: Self = serde_json::from_slice(&text).with_context(damaged)?;
        // That of molboxd 0.1 has none.
        let is_unsealed = marker.owner.is_none() && marker.sha256.is_none();
        if !is_unsealed && marker.sha256 != marker.sealed()?.sha256 {
            bail!("{}: it has not the SHA-256 that it names", damaged());
        }
        Ok(Some(marker))
    }

    fn sealed(&self) -> Result<Self> {
        let open = Self { sha256: None, ..self.clone() };
        let sha256 = hex(&Sha256::digest(serde_json::to_vec(&open)?));
        Ok(Self { sha256: Some(sha256), ..open })
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(MARKER);
        files::write(&path, &serde_json::to_vec_pretty(&self.sealed()?)?)
            .with_context(|| format!("write {}", path.display()))
    }

    /// Refuses to have the backup in a folder be replaced by one of `owner`, if something would be
    /// lost by that.
    pub(super) fn check_replaceable(&self, folder: &Path, owner: &Owner) -> Result<()> {
        let (at, place) = (&self.at, folder.display());
        let remedy = "name another folder, or remove this one if nobody needs it";
        // Each backup has the secret. One that was cut off before has nothing to lose.
        let found = self.owner.clone().map_or_else(|| Owner::of(folder), |it| Ok(Some(it)))?;
        if found.is_some_and(|found| found != *owner) {
            bail!("{place} has the backup of another installation, of {at}: {remedy}");
        }
        if folder.join(DATABASE).exists() && is_used(folder)? {
            bail!("{}, and what it wrote would be lost: {remedy}", self.used(folder));
        }
        if let Some(problem) = self.problem(folder, Path::new(DATABASE)) {
            bail!(
                "another program has written to the backup in {place} since it was made, {at}, or it \
                 is damaged: {problem}; {remedy}"
            );
        }
        Ok(())
    }

    /// Refuses to restore from a folder in which there is more than what was backed up.
    pub(super) fn check_unused(&self, folder: &Path) -> Result<()> {
        if is_used(folder)? {
            bail!(
                "{}: make a backup of what is there by `molboxd --data {} backup FOLDER`, and \
                 restore that",
                self.used(folder),
                quoted(&folder.to_string_lossy())
            );
        }
        Ok(())
    }

    /// Whether it names digests, as that of a whole backup does, but for one by molboxd 0.1.
    pub(super) fn has_digests(&self) -> bool {
        !self.files.is_empty()
    }

    /// What of its files is not in a folder as it was in the backup.
    pub(super) fn problems(&self, folder: &Path) -> Vec<String> {
        self.files.keys().filter_map(|name| self.problem(folder, name)).collect()
    }

    fn problem(&self, folder: &Path, name: &Path) -> Option<String> {
        let before = self.files.get(name)?;
        let what = match measure(&folder.join(name)) {
            Ok(now) if now == *before => return None,
            Ok(now) if now.size_bytes != before.size_bytes => {
                format!("has {} bytes, not {}", now.size_bytes, before.size_bytes)
            }
            Ok(now) => format!("has the SHA-256 {}, not {}", now.sha256, before.sha256),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "is missing".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        Some(format!("{} {what}", name.display()))
    }

    fn used(&self, folder: &Path) -> String {
        format!(
            "a service or a command has used {} as its data folder since the backup there was made, \
             {}",
            folder.display(),
            self.at
        )
    }
}

fn measure(path: &Path) -> io::Result<Measured> {
    let mut sha256 = Sha256::new();
    let size_bytes = io::copy(&mut File::open(path)?, &mut HashWriter(&mut sha256))?;
    Ok(Measured { size_bytes, sha256: hex(&sha256.finalize()) })
}

/// Measures a file, or all files below a folder, if it is there.
fn measure_all(
    folder: &Path,
    name: &Path,
    files: &mut BTreeMap<PathBuf, Measured>,
) -> io::Result<()> {
    let path = folder.join(name);
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            measure_all(folder, &name.join(entry?.file_name()), files)?;
        }
    // A name that is no text cannot be noted; no file with market data has one.
    } else if path.exists() && name.to_str().is_some() {
        files.insert(name.to_owned(), measure(&path)?);
    }
    Ok(())
}
