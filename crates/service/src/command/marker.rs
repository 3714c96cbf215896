//! What a backup says of itself: whose it is, and whether it is whole.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::app::known_secret;
use crate::db::is_used;
use crate::files;
use crate::folder::DATABASE;
use crate::hex::hex;
use crate::shown::quoted;

/// Without it a folder is no backup.
pub(super) const MARKER: &str = "backup.json";
/// The file with the secret of an installation.
pub(super) const SECRET: &str = "secret";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    molboxd: String,
    /// When the database was copied, RFC 3339.
    at: String,
    /// Whether database and content belong together.
    pub(super) is_whole: bool,
    /// None of a backup by molboxd 0.1.
    owner: Option<Owner>,
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
        }
    }

    /// What the backup in a folder says; none where there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MARKER);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("read {}", path.display()))?,
        };
        let marker = serde_json::from_slice(&text);
        marker.map(Some).with_context(|| format!("{} is damaged", path.display()))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(MARKER);
        files::write(&path, &serde_json::to_vec_pretty(self)?)
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

    fn used(&self, folder: &Path) -> String {
        format!(
            "a service or a command has used {} as its data folder since the backup there was made, \
             {}",
            folder.display(),
            self.at
        )
    }
}
