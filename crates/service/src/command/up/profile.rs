//! The file in which the command line, `molbox`, has its addresses and keys: a profile is added
//! to it, and what else is in it stays.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use directories::ProjectDirs;
use toml::{Table, Value};

use crate::command::serve::Addresses;
use crate::files;

/// The name of the first profile that `up` makes.
const NAME: &str = "local";
/// What a user does about a file that cannot be written.
const REMEDY: &str = "set MOLBOX_CONFIG to a file for the profile that can be written";

pub(super) struct Profiles {
    path: PathBuf,
    table: Table,
}

impl Profiles {
    pub(super) fn load() -> Result<Self> {
        let path = match env::var_os("MOLBOX_CONFIG").filter(|path| !path.is_empty()) {
            Some(path) => path.into(),
            None => ProjectDirs::from("", "", "molbox")
                .context("there is no home folder")
                .context(REMEDY)?
                .config_dir()
                .join("config.toml"),
        };
        let table = match fs::read_to_string(&path) {
            Ok(text) => text.parse().with_context(|| format!("read {}", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Table::new(),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        if table.get("profile").is_some_and(|profiles| !profiles.is_table()) {
            bail!("{}: `profile` must be a table of profiles", path.display());
        }
        Ok(Self { path, table })
    }

    /// The profile of commands that name none.
    pub(super) fn default(&self) -> Option<&str> {
        self.table.get("default")?.as_str()
    }

    fn value(&self, name: &str, key: &str) -> Option<&str> {
        self.table.get("profile")?.get(name)?.get(key)?.as_str()
    }

    pub(super) fn key(&self, name: &str) -> Option<&str> {
        self.value(name, "api_key")
    }

    /// A name that no profile of another service has.
    pub(super) fn free_name(&self, base_url: &str) -> String {
        let is_free = |name: &String| {
            self.table.get("profile").is_none_or(|all| all.get(name.as_str()).is_none())
                || self.value(name, "base_url") == Some(base_url)
        };
        let numbered = (2..).map(|number| format!("{NAME}-{number}"));
        let mut names = std::iter::once(NAME.to_owned()).chain(numbered);
        names.find(is_free).expect("there are fewer profiles than numbers")
    }

    /// Gives a profile these addresses and this key, and makes it the default where there is none;
    /// whether that changes anything.
    pub(super) fn put(&mut self, name: &str, addresses: &Addresses, key: &str) -> bool {
        let before = self.table.clone();
        let values = [
            ("base_url", addresses.base_url.as_str()),
            ("margin_url", addresses.margin_base_url.as_str()),
            ("api_key", key),
        ];
        let profile = values.map(|(key, value)| (key.to_owned(), Value::from(value)));
        let profiles = self.table.entry("profile").or_insert_with(|| Table::new().into());
        if let Some(profiles) = profiles.as_table_mut() {
            profiles.insert(name.to_owned(), Table::from_iter(profile).into());
        }
        self.table.entry("default").or_insert_with(|| name.into());
        self.table != before
    }

    /// Removes a profile; whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        if self.default() == Some(name) {
            self.table.remove("default");
        }
        let profiles = self.table.get_mut("profile").and_then(Value::as_table_mut);
        profiles.is_some_and(|profiles| profiles.remove(name).is_some())
    }

    /// Writes the file so that nobody else can read it.
    pub(super) fn save(&self) -> Result<()> {
        let write = || {
            if let Some(folder) = self.path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            files::write(&self.path, self.table.to_string().as_bytes())
        };
        write().with_context(|| format!("write {}", self.path.display())).context(REMEDY)
    }
}
