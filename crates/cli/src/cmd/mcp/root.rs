//! The folder in which an assistant may read and write files, and nowhere else.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::failure::{Code, Failure};

/// A longer path is no path that anybody has.
const MAX_PATH_BYTES: usize = 1000;

/// A folder without links in its path.
#[derive(Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        let shown = format!("--root {}", folder.display());
        let real = folder.canonicalize().map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::usage(format!("{shown}: there is no such folder"))
                .remedy("make it, or name another by its whole path: settings of assistants know no `~`"),
            _ => Failure::file(folder, &error),
        })?;
        if !real.is_dir() {
            return Err(Failure::usage(format!("{shown}: is no folder")));
        }
        Ok(Self(real))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where a file is that is there, its links resolved.
    pub(super) fn existing(&self, path: &str) -> Result<PathBuf, Failure> {
        let joined = self.joined(path)?;
        let real = joined.canonicalize().map_err(|e| Failure::file(Path::new(path), &e))?;
        if !real.is_file() {
            return Err(Failure::new(Code::File, format!("{path}: is no file")));
        }
        self.inside(real, path)
    }

    /// Where something may be made that is not there yet: the folder above it, as far as there is
    /// one, without links, and plain names below.
    pub(super) fn new_path(&self, path: &str) -> Result<PathBuf, Failure> {
        let joined = self.joined(path)?;
        // A link that leads nowhere is there, too.
        if joined.symlink_metadata().is_ok() {
            let failure = Failure::new(Code::Conflict, format!("{path}: is there already"));
            return Err(failure.remedy("give another name; what is there is left alone"));
        }
        self.resolved(&joined, path)
    }

    /// Where something is, or may be made, its links resolved.
    pub(super) fn place(&self, path: &str) -> Result<PathBuf, Failure> {
        let joined = self.joined(path)?;
        self.resolved(&joined, path)
    }

    /// How a path is shown: from this folder on.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.0).unwrap_or(path).display().to_string()
    }

    /// A path from this folder on, or an absolute one; without steps that lead up.
    fn joined(&self, path: &str) -> Result<PathBuf, Failure> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(Failure::invalid("a path has 1 to 1000 bytes, none of them 0"));
        }
        let given = Path::new(path);
        if given.components().any(|step| step == Component::ParentDir) {
            return Err(self.outside(path));
        }
        Ok(self.0.join(given))
    }

    /// A path whose part that is there has its links resolved.
    fn resolved(&self, joined: &Path, shown: &str) -> Result<PathBuf, Failure> {
        let mut below: Vec<&OsStr> = Vec::new();
        let mut above = joined;
        while above.symlink_metadata().is_err() {
            let (Some(folder), Some(name)) = (above.parent(), above.file_name()) else {
                return Err(self.outside(shown));
            };
            below.push(name);
            above = folder;
        }
        let real = above.canonicalize().map_err(|e| Failure::file(Path::new(shown), &e))?;
        let whole = below.iter().rev().fold(real, |path, name| path.join(name));
        self.inside(whole, shown)
    }

    fn inside(&self, real: PathBuf, shown: &str) -> Result<PathBuf, Failure> {
        let Ok(below) = real.strip_prefix(&self.0) else { return Err(self.outside(shown)) };
        // Settings and keys are kept there, and nobody simulates them.
        let is_hidden = |step: Component<'_>| step.as_os_str().as_encoded_bytes().starts_with(b".");
        if below.components().any(is_hidden) {
            return Err(Failure::invalid(format!("{shown}: hidden files are left alone"))
                .remedy("give a path none of whose names begins with a dot"));
        }
        Ok(real)
    }

    fn outside(&self, shown: &str) -> Failure {
        Failure::invalid(format!("{shown}: is not in {}", self.0.display())).remedy(
            "files are read and written in that folder alone; the user can choose another one \
             with `molbox mcp --root FOLDER`",
        )
    }
}

/// Refuses the folder of a run that has links in it: what is written to them lands where they lead.
pub(super) fn without_links(folder: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|e| Failure::file(folder, &e))? {
        let entry = entry.map_err(|e| Failure::file(folder, &e))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|e| Failure::file(&path, &e))?;
        if kind.is_symlink() {
            let failure = Failure::invalid(format!("{}: is a link", path.display()));
            return Err(failure.remedy("a run makes no links: begin it anew in another folder"));
        }
        if kind.is_dir() {
            without_links(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_of_the_folder_is_named() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("root");
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::create_dir(folder.join(".ssh")).unwrap();
        fs::write(outside.path().join("secret.pdb"), "").unwrap();
        fs::write(folder.join("in.pdb"), "").unwrap();
        fs::write(folder.join(".ssh/key.pdb"), "").unwrap();
        symlink(outside.path().join("secret.pdb"), folder.join("link.pdb")).unwrap();
        symlink(outside.path(), folder.join("up")).unwrap();
        symlink(folder.join("in.pdb"), folder.join("inner.pdb")).unwrap();
        symlink(outside.path().join("new.zip"), folder.join("dangling.zip")).unwrap();
        let missing = Root::new(&outside.path().join("~/simulations")).unwrap_err();
        assert!(missing.remedy.unwrap().contains("make it, or name another by its whole path"));
        let root = Root::new(&folder).unwrap();

        assert!(root.existing("in.pdb").is_ok());
        assert!(root.existing("sub/../in.pdb").is_err(), "no steps up, wherever they lead");
        assert!(root.existing(folder.join("in.pdb").to_str().unwrap()).is_ok());
        assert!(root.existing("inner.pdb").is_ok(), "a link that stays inside");
        for path in [
            "../secret.pdb",
            "/etc/passwd",
            "link.pdb",
            "up/secret.pdb",
            "inner.pdb/../../secret.pdb",
            ".ssh/key.pdb",
            "sub",
            "missing.pdb",
            "",
            "in.pdb\0",
        ] {
            assert!(root.existing(path).is_err(), "{path:?}");
        }
        assert!(root.new_path("new.zip").is_ok());
        assert!(root.new_path("a/b/new.zip").is_ok());
        for path in
            ["in.pdb", "up/new.zip", "dangling.zip", "../new.zip", "/tmp/new.zip", ".bashrc"]
        {
            assert!(root.new_path(path).is_err(), "{path:?}");
        }
        assert!(root.place("up/run").is_err());
        assert!(root.place("sub").is_ok());
    }
}
