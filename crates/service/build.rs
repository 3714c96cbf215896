//! Puts the portal and the guides into the program, compressed: what `cargo xtask portal` has left in
//! `portal/dist` and `cargo xtask docs` in `docs/dist`, and nothing when they have not been run.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::{env, error};

use libdeflater::{CompressionError, CompressionLvl, Compressor};
use sha2::{Digest, Sha256};

/// Folders of what is served as it is, and the tables that are made of them. Each has a file that is
/// committed: what is not there would count as changed at every build.
const FOLDERS: [(&str, &str); 2] =
    [("../../portal/dist", "portal.rs"), ("../../docs/dist", "docs.rs")];
/// The one file of each that is not served.
const README: &str = "README";

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    for (folder, table) in FOLDERS {
        println!("cargo::rerun-if-changed={folder}");
        embed(Path::new(folder), &out, table)?;
    }
    Ok(())
}

/// Writes the files of a folder, compressed, and a table of them.
fn embed(folder: &Path, out: &Path, table: &str) -> Result<(), Box<dyn error::Error>> {
    let mut paths = Vec::new();
    list(folder, folder, &mut paths)?;
    paths.sort();
    let mut rows = "&[\n".to_owned();
    for (index, path) in paths.iter().filter(|path| *path != README).enumerate() {
        let content = fs::read(folder.join(path))?;
        let packed = format!("{table}.{index}.gz");
        fs::write(out.join(&packed), gzip(&content)?)?;
        let digest = Sha256::digest(&content);
        writeln!(
            rows,
            "    Asset {{ path: {path:?}, media: {:?}, sha256: {:?}, gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{packed}\")) }},",
            media(path).ok_or_else(|| {
                format!("{}: no media type is known for it", folder.join(path).display())
            })?,
            digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}")),
        )?;
    }
    rows += "]\n";
    fs::write(out.join(table), rows)?;
    Ok(())
}

fn gzip(content: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let mut compressor = Compressor::new(CompressionLvl::best());
    let mut packed = vec![0; compressor.gzip_compress_bound(content.len())];
    let length = compressor.gzip_compress(content, &mut packed)?;
    packed.truncate(length);
    Ok(packed)
}

/// Adds the files below a folder, by their paths from `root`.
fn list(root: &Path, folder: &Path, paths: &mut Vec<String>) -> Result<(), Box<dyn error::Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, paths)?;
        } else {
            let path = path.strip_prefix(root)?;
            let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
            paths.push(text.replace('\\', "/"));
        }
    }
    Ok(())
}

fn media(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    match name.rsplit_once('.').map_or(name, |(_, extension)| extension) {
        "css" => Some("text/css; charset=utf-8"),
        "csv" => Some("text/csv; charset=utf-8"),
        "gz" => Some("application/gzip"),
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "json" => Some("application/json"),
        "LICENSE" | "md" | "mol2" | "pdb" | "py" | "toml" | "txt" | "yaml" => {
            Some("text/plain; charset=utf-8")
        }
        "png" => Some("image/png"),
        "svg" => Some("image/svg+xml"),
        "xml" => Some("application/xml"),
        _ => None,
    }
}
