//! What a file of this machine is, by its first bytes: known before a folder is made and anything
//! is sent.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use molbox_analysis::Structure;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::output::counted as counted_of;

/// So much of a file tells what it is.
const HEAD: u64 = 64 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A path without `.gz`, as its content is called.
pub(crate) fn unpacked_name(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("gz") => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// The name of a structure: that of its file without folder and extensions.
pub(crate) fn stem(path: &str) -> Option<String> {
    let name = unpacked_name(Path::new(path));
    name.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned)
}

/// The content, which is decompressed when it is gzip.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    Ok(if is_gzip(path)? { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// Decompresses a file into a folder, which is made, when its content is gzip, whatever its name says: under
/// that name without `.gz`. None is a file that can be sent as it is.
pub(crate) fn unpacked(path: &Path, folder: &Path) -> Result<Option<PathBuf>, Failure> {
    if !is_gzip(path).map_err(|e| Failure::file(path, &e))? {
        return Ok(None);
    }
    let to = folder.join(unpacked_name(path).file_name().unwrap_or_default());
    let unpack = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        io::copy(&mut open(path)?, &mut File::create(&to)?).map(drop)
    };
    unpack().map_err(|e| unread(path, &e))?;
    Ok(Some(to))
}

/// What is read or sent of a file: itself, or, when it is compressed, what is in it, in a folder that
/// is there as long as it is held.
pub(crate) fn to_read(path: PathBuf) -> Result<(PathBuf, Option<TempDir>), Failure> {
    compression(&path)?;
    if !is_gzip(&path).map_err(|e| Failure::file(&path, &e))? {
        return Ok((path, None));
    }
    let folder = tempfile::tempdir().map_err(|e| Failure::file(&env::temp_dir(), &e))?;
    let unpacked = unpacked(&path, folder.path())?;
    Ok((unpacked.unwrap_or(path), Some(folder)))
}

/// Why a file that may be compressed could not be read.
fn unread(path: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error.kind() {
        InvalidData | InvalidInput | UnexpectedEof => {
            let what = "is compressed by gzip, and damaged or cut off";
            Failure::invalid(format!("{}: {what} ({error})", path.display()))
                .remedy("download or copy it again")
        }
        _ => Failure::file(path, error),
    }
}

fn is_gzip(path: &Path) -> io::Result<bool> {
    let mut magic = Vec::new();
    File::open(path)?.take(2).read_to_end(&mut magic)?;
    Ok(magic == GZIP)
}

/// What files that are no text begin with, what they are, and what helps.
const KNOWN: &[(&[u8], &str, &str)] = &[
    (b"PK\x03\x04", "a zip archive", "unpack it, and give the structure that is in it"),
    (b"\xff\xfe", UTF_16, SAVE_AS_UTF_8),
    (b"\xfe\xff", UTF_16, SAVE_AS_UTF_8),
    (b"\x89PNG", "a PNG picture", OF_ATOMS),
    (b"\xff\xd8\xff", "a JPEG picture", OF_ATOMS),
    (b"%PDF", "a PDF document", OF_ATOMS),
    (b"BZh", "compressed by bzip2", "decompress it with `bunzip2`"),
    (b"\xfd7zXZ", "compressed by xz", "decompress it with `unxz`"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "decompress it with `unzstd`"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, and give the structure that is in it"),
    (b"\x89HDF", "an HDF5 file", OF_ATOMS),
];
const UTF_16: &str = "text in UTF-16";
const SAVE_AS_UTF_8: &str = "save it as UTF-8, which editors offer when they save";
const OF_ATOMS: &str = "give a file of atoms with their coordinates, such as .pdb or .cif";

/// Refuses what is named as if it were compressed, and is not.
pub(crate) fn compression(path: &Path) -> Result<(), Failure> {
    if unpacked_name(path) == path || is_gzip(path).map_err(|e| Failure::file(path, &e))? {
        return Ok(());
    }
    let failure = Failure::invalid(format!("{}: is not compressed by gzip", path.display()));
    Err(failure.remedy("leave .gz out of its name, if it is what that says without it"))
}

/// Refuses what cannot be a structure, and says what it is.
pub(crate) fn structure(path: &Path) -> Result<(), Failure> {
    let (text, is_all) = head(path)?;
    let shown = path.display();
    let name = unpacked_name(path);
    let extension = name.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default().to_lowercase().as_str() {
        "pdb" | "ent" if is_mmcif(&text) => {
            Err(Failure::invalid(format!("{shown}: is mmCIF, not PDB")).remedy("rename it to .cif"))
        }
        "cif" | "mmcif" if has_atom(&text) && !is_mmcif(&text) => {
            Err(Failure::invalid(format!("{shown}: is PDB, not mmCIF")).remedy("rename it to .pdb"))
        }
        "pdb" | "ent" if is_all && !has_atom(&text) => {
            Err(Failure::invalid(format!("{shown}: {NO_ATOM}")))
        }
        "pdb" | "ent" | "cif" | "mmcif" => Ok(()),
        "sdf" | "mol" | "mol2" => Err(Failure::invalid(format!("{shown}: is a ligand's format"))
            .remedy(format!("give the protein, and this by --ligand {shown}"))),
        _ => {
            Err(Failure::invalid(format!("{shown}: its extension is of no format for structures"))
                .remedy("these are .pdb, .ent, .cif and .mmcif, each also with .gz"))
        }
    }
}

/// What is in a structure, as far as it can be read: `596 atoms in 36 residues`.
pub(crate) fn counted(path: &Path) -> Option<String> {
    let mut text = String::new();
    open(path).ok()?.read_to_string(&mut text).ok()?;
    let topology = Structure::from_text(&text).ok()?.topology;
    let (atoms, residues) = (topology.n_atoms(), topology.residues().len());
    Some(format!("{} in {}", counted_of(atoms, "atom"), counted_of(residues, "residue")))
}

/// Extensions of topologies of built systems, and of archives that hold one.
const TOPOLOGIES: [&str; 6] = ["prmtop", "parm7", "top", "psf", "xml", "zip"];
/// Extensions of what belongs to such a topology.
const PARTS: [&str; 16] = [
    "inpcrd", "rst7", "ncrst", "restrt", "gro", "crd", "cor", "prm", "par", "rtf", "str", "xsc",
    "pdb", "ent", "cif", "mmcif",
];

/// Those of them that hold coordinates.
const COORDINATES: [&str; 11] =
    ["inpcrd", "rst7", "ncrst", "restrt", "gro", "crd", "cor", "pdb", "ent", "cif", "mmcif"];

/// Whether files are of a system that another program has built: a topology is among them.
///
/// # Errors
///
/// Files that belong to nothing.
pub(crate) fn is_built(files: &[String]) -> Result<bool, Failure> {
    let extension = |file: &String| {
        let extension = Path::new(file).extension().and_then(|extension| extension.to_str());
        extension.unwrap_or_default().to_lowercase()
    };
    let is = |file: &String, known: &[&str]| known.contains(&extension(file).as_str());
    let has_topology = files.iter().any(|file| is(file, &TOPOLOGIES));
    if !has_topology && files.len() < 2 {
        return Ok(false);
    }
    let other = files.iter().find(|file| !is(file, &TOPOLOGIES) && !is(file, &PARTS));
    match other {
        Some(file) => Err(Failure::invalid(format!("{file}: is of no system that is built"))
            .remedy("of a structure give one file, and ligands by --ligand")),
        None if has_topology => one_topology(files, is).map(|()| true),
        None => Err(Failure::invalid("several files are those of a built system, and have a topology")
            .remedy("that is a .prmtop, .top, .psf or .xml, or a .zip with all; of a structure give one file")),
    }
}

/// Refuses files of a built system that can be seen to be too many or too few; what is in an archive is
/// seen by the service.
fn one_topology(files: &[String], is: impl Fn(&String, &[&str]) -> bool) -> Result<(), Failure> {
    let is_archive = |file: &&String| is(file, &["zip"]);
    let topologies = files.iter().filter(|file| is(file, &TOPOLOGIES) && !is_archive(file));
    match topologies.collect::<Vec<_>>().as_slice() {
        [one, other, ..] => {
            Err(Failure::invalid(format!("{one}, {other}: a built system has one topology"))
                .remedy("leave the others out"))
        }
        [one] if !files.iter().any(|file| is_archive(&file) || is(file, &COORDINATES)) => {
            let failure = Failure::invalid(format!("{one}: there are no coordinates for it"));
            Err(failure.remedy("give a file of them too, such as .inpcrd, .gro, .crd or .pdb"))
        }
        _ => Ok(()),
    }
}

/// Refuses what cannot be a molecule in any format, and says what it is.
pub(crate) fn ligand(path: &Path) -> Result<(), Failure> {
    let (text, is_all) = head(path)?;
    let name = unpacked_name(path);
    let extension = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let problem = match extension.to_lowercase().as_str() {
        "sdf" | "mol" if text.lines().nth(3).is_none() => {
            "has no molecule: its fourth line counts atoms"
        }
        "mol2" if is_all && !text.contains("@<TRIPOS>MOLECULE") => "has no molecule",
        "pdb" | "ent" if is_all && !has_atom(&text) => NO_ATOM,
        _ => return Ok(()),
    };
    Err(Failure::invalid(format!("{}: {problem}", path.display())))
}

const NO_ATOM: &str = "has no atom; no line begins ATOM or HETATM";

/// The beginning of a text, and whether it is all of it.
fn head(path: &Path) -> Result<(String, bool), Failure> {
    compression(path)?;
    let mut bytes = Vec::new();
    let read = open(path).and_then(|content| content.take(HEAD).read_to_end(&mut bytes));
    read.map_err(|e| unread(path, &e))?;
    let shown = path.display();
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).trim_start().to_lowercase();
    if start.is_empty() {
        return Err(Failure::invalid(format!("{shown}: is empty")));
    }
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        return Err(Failure::invalid(format!("{shown}: is a web page, not a structure")).remedy(
            "download the file itself: of a public entry https://files.rcsb.org/download/1L2Y.cif",
        ));
    }
    if let Some((_, what, remedy)) = KNOWN.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Err(Failure::invalid(format!("{shown}: is {what}")).remedy(*remedy));
    }
    if bytes.contains(&0) {
        return Err(Failure::invalid(format!("{shown}: is no text")).remedy(
            "a structure or a ligand is text; is this the file that was meant, and whole?",
        ));
    }
    let is_all = (bytes.len() as u64) < HEAD;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_all))
}

fn is_mmcif(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with("data_"))
}

fn has_atom(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("ATOM  ") || line.starts_with("HETATM"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const ATOM: &str = "ATOM      1  N   MET A   1      27.340  24.430   2.614\n";

    #[test]
    fn files_of_a_built_system_have_a_topology() {
        let said = |files: &[&str]| {
            let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
            is_built(&files).map_err(|failure| failure.message)
        };
        assert_eq!(said(&["1L2Y"]), Ok(false));
        assert_eq!(said(&["a.pdb"]), Ok(false));
        assert_eq!(said(&["a.rst7"]), Ok(false), "which is then refused as a structure");
        assert_eq!(said(&["a.prmtop", "a.rst7"]), Ok(true));
        assert_eq!(said(&["a.XML", "a.pdb"]), Ok(true));
        assert_eq!(said(&["system.zip"]), Ok(true));
        assert_eq!(said(&["a.zip", "a.top"]), Ok(true), "the rest may be in the archive");
        assert!(said(&["a.psf", "a.prm"]).unwrap_err().contains("no coordinates"));
        assert!(said(&["a.prmtop", "a.gro", "b.xml"]).unwrap_err().contains("one topology"));
        assert!(said(&["a.pdb", "b.sdf"]).unwrap_err().starts_with("b.sdf: "));
        assert!(said(&["a.pdb", "b.pdb"]).unwrap_err().contains("have a topology"));
    }

    #[test]
    fn what_is_no_structure_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            structure(&path)
                .err()
                .map(|failure| failure.message.rsplit(": ").next().unwrap().to_owned())
        };
        assert_eq!(said("empty.pdb", b"").as_deref(), Some("is empty"));
        assert_eq!(
            said("page.pdb", b"\n<!DOCTYPE HTML><html>").as_deref(),
            Some("is a web page, not a structure")
        );
        assert_eq!(said("a.pdb", b"# made\ndata_1L2Y\n").as_deref(), Some("is mmCIF, not PDB"));
        assert_eq!(said("a.cif", ATOM.as_bytes()).as_deref(), Some("is PDB, not mmCIF"));
        assert_eq!(said("a.pdb", b"PK\x03\x04rest").as_deref(), Some("is a zip archive"));
        assert_eq!(said("a.pdb", b"\xff\xfeA\0T\0").as_deref(), Some("is text in UTF-16"));
        assert_eq!(said("a.pdb", b"\x89PNG\r\n\x1a\n\0").as_deref(), Some("is a PNG picture"));
        assert_eq!(said("a.pdb", b"\x01\0\x02").as_deref(), Some("is no text"));
        assert_eq!(
            said("b.pdb.gz", ATOM.as_bytes()).as_deref(),
            Some("is not compressed by gzip"),
            "whatever the name says"
        );
        let ligand = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            ligand(&path).err().map(|failure| failure.message)
        };
        assert!(ligand("a.sdf", "CCO\n").is_some_and(|said| said.contains("fourth line")));
        assert!(ligand("a.mol2", "CCO\n").is_some_and(|said| said.ends_with("no molecule")));
        assert!(ligand("a.pdb", "REMARK\n").is_some_and(|said| said.contains("no atom")));
        assert_eq!(ligand("b.pdb", ATOM), None);
        assert_eq!(said("a.ent", ATOM.as_bytes()), None);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(ATOM.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(said("a.pdb.gz", &gzip), None);
        assert_eq!(said("a.pdb", &gzip), None, "whatever the name says");
        assert!(
            said("a.pdb.gz", &gzip[..gzip.len() / 2]).is_some_and(|said| said.contains("cut off"))
        );
        assert!(said("a.sdf", b"x").is_some_and(|said| said == "is a ligand's format"));
    }
}
