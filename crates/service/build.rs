//! Puts the portal into the program, compressed: what `cargo xtask portal` has left in
//! `portal/dist`, and nothing when it has not been run.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::{env, error};

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

/// Has a file that is committed: what is not there would count as changed at every build.
const DIST: &str = "../../portal/dist";
/// The one file of it that is not the portal's.
const README: &str = "README";

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed={DIST}");
    println!("cargo::rerun-if-changed=build.rs");
    let dist = Path::new(DIST);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let mut paths = Vec::new();
    list(dist, dist, &mut paths)?;
    paths.sort();
    let mut table = "&[\n".to_owned();
    for (index, path) in paths.iter().filter(|path| *path != README).enumerate() {
        let content = fs::read(dist.join(path))?;
        let packed = format!("{index}.gz");
        let packed_to = File::create(out.join(&packed))?;
        let mut gzip = GzBuilder::new().write(packed_to, Compression::best());
        io::copy(&mut content.as_slice(), &mut gzip)?;
        gzip.finish()?;
        let digest = Sha256::digest(&content);
        writeln!(
            table,
            "    Asset {{ path: {path:?}, media: {:?}, sha256: {:?}, gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{packed}\")) }},",
            media(path)?,
            digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}")),
        )?;
    }
    table += "]\n";
    fs::write(out.join("portal.rs"), table)?;
    Ok(())
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

fn media(path: &str) -> Result<&'static str, String> {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("md") => Ok("text/plain; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        _ => Err(format!("portal/dist/{path}: no media type is known for it")),
    }
}
