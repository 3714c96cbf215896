//! File formats: their names, and whether a content is what it is said to be.

pub(crate) mod contents;
mod expression;
mod force_field;
pub(crate) mod ligand;
mod molecule;
mod problem;
mod system;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use molbox_analysis::{
    AtomSet, Error, FormatError, FormatErrorKind, Frame, Place, Structure, Trajectory,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;
use crate::shown::without_folders;
use problem::Problem;
use system::Rest;

/// So much of a file tells what it is.
const HEAD: u64 = 4096;

/// A format that a file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Pdb,
    Cif,
    Sdf,
    Mol,
    Mol2,
    Xml,
    Dcd,
    Xtc,
    Trr,
    Nc,
    Prmtop,
    Inpcrd,
    Top,
    Gro,
    Psf,
    Crd,
    Prm,
    Rtf,
    Str,
    Xsc,
    Zip,
}

/// A content that is what it is said to be.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) sha256: String,
    /// The kind that it shows to be, where its format leaves that open.
    pub(crate) kind: Option<&'static str>,
}

impl Format {
    const ALL: [Self; 21] = [
        Self::Pdb,
        Self::Cif,
        Self::Sdf,
        Self::Mol,
        Self::Mol2,
        Self::Xml,
        Self::Dcd,
        Self::Xtc,
        Self::Trr,
        Self::Nc,
        Self::Prmtop,
        Self::Inpcrd,
        Self::Top,
        Self::Gro,
        Self::Psf,
        Self::Crd,
        Self::Prm,
        Self::Rtf,
        Self::Str,
        Self::Xsc,
        Self::Zip,
    ];

    /// The format that people call by this name or extension.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.trim_start_matches('.').to_ascii_lowercase();
        let name = match name.as_str() {
            "mmcif" => "cif",
            "parm7" => "prmtop",
            "rst7" => "inpcrd",
            "par" => "prm",
            "ncdf" | "netcdf" => "nc",
            name => name,
        };
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pdb => "pdb",
            Self::Cif => "cif",
            Self::Sdf => "sdf",
            Self::Mol => "mol",
            Self::Mol2 => "mol2",
            Self::Xml => "xml",
            Self::Dcd => "dcd",
            Self::Xtc => "xtc",
            Self::Trr => "trr",
            Self::Nc => "nc",
            Self::Prmtop => "prmtop",
            Self::Inpcrd => "inpcrd",
            Self::Top => "top",
            Self::Gro => "gro",
            Self::Psf => "psf",
            Self::Crd => "crd",
            Self::Prm => "prm",
            Self::Rtf => "rtf",
            Self::Str => "str",
            Self::Xsc => "xsc",
            Self::Zip => "zip",
        }
    }

    /// Content type to send a file with.
    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::Pdb => "chemical/x-pdb",
            Self::Cif => "chemical/x-mmcif",
            Self::Sdf => "chemical/x-mdl-sdfile",
            Self::Mol => "chemical/x-mdl-molfile",
            Self::Mol2 => "chemical/x-mol2",
            Self::Xml => "application/xml",
            Self::Zip => "application/zip",
            _ => "application/octet-stream",
        }
    }

    /// Kinds of file that can be in this format, the usual one first.
    pub(crate) fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Pdb => &["structure", "protein", "ligand", "topology"],
            Self::Cif => &["structure", "protein", "topology"],
            Self::Sdf | Self::Mol | Self::Mol2 => &["ligand"],
            Self::Xml => &["force_field", SYSTEM],
            Self::Dcd | Self::Xtc | Self::Trr | Self::Nc => &["trajectory"],
            // What names the atoms of a trajectory, if it comes alone; of a built system a part.
            Self::Prmtop | Self::Psf | Self::Gro => &[SYSTEM, "topology"],
            _ => &[SYSTEM],
        }
    }
}

/// The kind of files that are of a built system and of nothing else.
pub(crate) const SYSTEM: &str = "system";

impl Format {
    /// Whether files in this format can be ligands.
    pub(crate) fn is_of_ligands(self) -> bool {
        self.kinds().contains(&"ligand")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads a file: whether it is what it is said to be, its size and checksum. PDB files and
/// trajectories are read bit by bit, others whole, if they have no more than `max_text_bytes`;
/// structures and compressed trajectories have no more than `max_atoms`.
pub(crate) fn check(
    path: &Path,
    format: Format,
    max_text_bytes: u64,
    max_atoms: u64,
) -> io::Result<Result<Content, Problem>> {
    let size = std::fs::metadata(path)?.len();
    if size == 0 {
        return Ok(Err(Problem::whole("it is empty; what wrote or downloaded it has failed")));
    }
    // Who saves the address of a download gets the page around it, with the file's name.
    if is_web_page(&head(path)?) {
        let words = "it is a web page (HTML); download the file that the page is about";
        return Ok(Err(Problem::whole(words)));
    }
    let checked = match format {
        Format::Dcd | Format::Xtc | Format::Trr | Format::Nc => {
            Some(trajectory(path, format, max_atoms))
        }
        Format::Pdb => Some(pdb(path, max_atoms)?),
        Format::Cif | Format::Sdf | Format::Mol | Format::Mol2 | Format::Xml => None,
        Format::Gro => Some(match of_built_system(path, format)? {
            Ok(()) => gro(path, max_atoms)?,
            problem => problem,
        }),
        _ => Some(of_built_system(path, format)?),
    };
    if let Some(checked) = checked {
        return Ok(match checked {
            Ok(()) => Ok(Content { size, sha256: digest(path)?, kind: None }),
            Err(problem) => Err(problem),
        });
    }
    if size > max_text_bytes {
        return Ok(Err(Problem::whole(format!(
            "it has {size} bytes; {max_text_bytes} is the most that is read"
        ))));
    }
    let bytes = std::fs::read(path)?;
    let sha256 = hex(&Sha256::digest(&bytes));
    let kind = (format == Format::Xml).then(|| kind_of_xml(&bytes));
    Ok(check_text(&bytes, format, max_atoms).map(|()| Content { size, sha256, kind }))
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

fn is_web_page(head: &[u8]) -> bool {
    let text = text_of(head).trim_start().to_ascii_lowercase();
    text.starts_with("<!doctype html") || text.starts_with("<html")
}

/// Whether a file of a built system begins as one of its format, and is text where that is.
fn of_built_system(path: &Path, format: Format) -> io::Result<Result<(), Problem>> {
    let head = head(path)?;
    match system::check_head(&head, format.name()) {
        Ok(Rest::Text) => {}
        other => return Ok(other.map(drop)),
    }
    if let Err(problem) = check_line_ends(&head) {
        return Ok(Err(problem));
    }
    let mut text = Text { file: File::open(path)?, line: 1, is_binary: false };
    io::copy(&mut text, &mut io::sink())?;
    Ok(if text.is_binary { Err(not_text(text.line)) } else { Ok(()) })
}

/// What OpenMM has written: a system when its first element says so, else a force field.
fn kind_of_xml(bytes: &[u8]) -> &'static str {
    if system::is_system(&text_of(bytes)) { SYSTEM } else { "force_field" }
}

/// Whether a file is a PDB file. One of 300 MB took a gigabyte when it was read whole.
fn pdb(path: &Path, max_atoms: u64) -> io::Result<Result<(), Problem>> {
    let mut text = Text { file: File::open(path)?, line: 1, is_binary: false };
    let checked =
        Structure::check_pdb(BufReader::with_capacity(1 << 20, &mut text), most(max_atoms))?;
    if text.is_binary {
        return Ok(Err(not_text(text.line)));
    }
    Ok(structure(checked))
}

/// That a GRO file has no more atoms than its second line may say, and all where atoms can be.
fn gro(path: &Path, max_atoms: u64) -> io::Result<Result<(), Problem>> {
    let text = BufReader::with_capacity(1 << 20, File::open(path)?);
    Ok(structure(Structure::check_gro(text, most(max_atoms))?))
}

fn most(max_atoms: u64) -> usize {
    usize::try_from(max_atoms).unwrap_or(usize::MAX)
}

/// A file up to the first byte that no text has.
struct Text {
    file: File,
    /// Of what was read last.
    line: usize,
    is_binary: bool,
}

impl Read for Text {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_binary {
            return Ok(0);
        }
        let mut n = self.file.read(into)?;
        if into[..n].contains(&0) {
            n = into[..n].iter().take_while(|byte| **byte != 0).count();
            self.is_binary = true;
        }
        self.line += into[..n].iter().filter(|byte| **byte == b'\n').count();
        Ok(n)
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sha256 = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&sha256.finalize())),
            n => sha256.update(&chunk[..n]),
        }
    }
}

/// Whether a text is of its format, a structure one of no more than `max_atoms`.
pub(crate) fn check_text(bytes: &[u8], format: Format, max_atoms: u64) -> Result<(), Problem> {
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        return Err(not_text(line));
    }
    // Names of authors in old files are Latin-1; nothing that counts is.
    let text = text_of(bytes);
    if matches!(format, Format::Sdf | Format::Mol | Format::Mol2) {
        check_line_ends(bytes)?;
    }
    match format {
        Format::Pdb => match Structure::check_pdb(text.as_bytes(), most(max_atoms)) {
            Ok(checked) => structure(checked),
            Err(error) => Err(Problem::whole(error.to_string())),
        },
        Format::Cif => structure(Structure::check_mmcif(&text, most(max_atoms))),
        Format::Sdf => molecule::check_sdf(&text),
        Format::Mol => molecule::check_mol(&text),
        Format::Mol2 => molecule::check_mol2(&text),
        Format::Xml if system::is_system(&text) => system::check(&text),
        Format::Xml => force_field::check(&text),
        _ => unreachable!("these are read from their files"),
    }
}

/// A text, without the mark that some programs put before its first line.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

/// Refuses the lines of old Macs: whatever is read by lines is one line then.
fn check_line_ends(text: &[u8]) -> Result<(), Problem> {
    if text.contains(&b'\r') && !text.contains(&b'\n') {
        let words = "expected lines that end with a line feed, found a carriage return alone";
        return Err(Problem::at(1, words));
    }
    Ok(())
}

fn not_text(line: usize) -> Problem {
    Problem::at(line, "it is not text")
}

fn structure(checked: Result<(), FormatError>) -> Result<(), Problem> {
    checked.map_err(|error| match (error.place, &error.problem) {
        (_, FormatErrorKind::TooManyAtoms { most }) => Problem::limit(format!(
            "it has more than {most} atoms, the most that is read (`limits.atoms` of the service)"
        )),
        (Place::Line(line), problem) => Problem::at(line, problem.to_string()),
        (_, problem) => Problem::whole(problem.to_string()),
    })
}

/// Whether a file is a trajectory of its format with a frame at least.
fn trajectory(path: &Path, format: Format, max_atoms: u64) -> Result<(), Problem> {
    match Trajectory::open(path).and_then(|trajectory| first_frame(trajectory, max_atoms)) {
        Ok(trajectory) if format_of(&trajectory) != format => {
            Err(Problem::whole("it is a trajectory of another format"))
        }
        Ok(trajectory) if trajectory.n_frames() == 0 => {
            Err(Problem::whole("it has no whole frame"))
        }
        // An atom of the other formats takes 12 bytes of the file; of XTC 2 bits can be enough, and
        // a file of 4 MB claimed 32 million, which took 500 MB for each who asked for a frame.
        Ok(Trajectory::Xtc(xtc)) if xtc.n_atoms() as u64 > max_atoms => {
            Err(Problem::whole(format!(
                "its frames have {} atoms; {max_atoms} is the most that is read (`limits.atoms` of \
                 the service)",
                xtc.n_atoms()
            )))
        }
        Ok(_) => Ok(()),
        Err(Error::Format { source, .. }) => {
            Err(Problem::whole(format!("{}: {}", source.place, source.problem)))
        }
        Err(error) => Err(Problem::whole(without_folders(&error.to_string()))),
    }
}

/// The trajectory, if the first of compressed frames can be decoded. That it is of atoms in places
/// where none can be is for the analysis, which can leave such frames out.
fn first_frame(trajectory: Trajectory, max_atoms: u64) -> Result<Trajectory, Error> {
    let n_atoms = trajectory.n_atoms();
    let is_compressed = matches!(trajectory, Trajectory::Xtc(_));
    if is_compressed && trajectory.n_frames() > 0 && n_atoms as u64 <= max_atoms {
        let plan = trajectory.read_plan(&AtomSet::all(n_atoms));
        match trajectory.read(0, &plan, &mut Frame::new()) {
            Ok(()) | Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(trajectory)
}

fn format_of(trajectory: &Trajectory) -> Format {
    match trajectory {
        Trajectory::Dcd(_) => Format::Dcd,
        Trajectory::Xtc(_) => Format::Xtc,
        Trajectory::Trr(_) => Format::Trr,
        Trajectory::Netcdf(_) => Format::Nc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str, format: Format) -> String {
        check_text(text.as_bytes(), format, 1000)
            .err()
            .map_or_else(|| "fine".to_owned(), |p| p.to_string())
    }

    const SDF: &str = "ethanol\n  made by hand\n\n  3  2  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000 C   0  0\n    1.5000    0.0000    0.0000 C   0  0\n    2.0000    1.2000    0.0000 O   0  0\n  1  2  1  0\n  2  3  1  0\nM  END\n$$$$\n";
    const MOL2: &str = "@<TRIPOS>MOLECULE\nx\n 2 1 0 0 0\nSMALL\nNO_CHARGES\n@<TRIPOS>ATOM\n 1 C1 0.0 0.0 0.0 C.3\n 2 O1 1.4 0.0 0.0 O.3\n@<TRIPOS>BOND\n 1 1 2 1\n";
    const XML: &str = "<ForceField><AtomTypes><Type name=\"a\" class=\"A\" element=\"C\" mass=\"12.0\"/></AtomTypes></ForceField>";

    #[test]
    fn what_is_empty_or_a_web_page_is_refused_as_such_whatever_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for format in Format::ALL {
            for (content, words) in [
                ("", "it is empty"),
                ("\n <!DOCTYPE html>\n<html><body>4AKE</body></html>\n", "it is a web page"),
            ] {
                std::fs::write(&path, content).unwrap();
                let refused = check(&path, format, 1000, 1000).unwrap().unwrap_err().to_string();
                assert!(refused.starts_with(words), "{format}: {refused}");
            }
        }
    }

    #[test]
    fn lines_of_old_macs_are_refused_as_such_whatever_the_format() {
        let words = "line 1: expected lines that end with a line feed";
        for (text, format) in [(SDF, Format::Sdf), (MOL2, Format::Mol2)] {
            assert_eq!(problem(text, format), "fine");
            assert_eq!(problem(&text.replace('\n', "\r\n"), format), "fine");
            let refused = problem(&text.replace('\n', "\r"), format);
            assert!(refused.starts_with(words), "{format}: {refused}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for format in [Format::Gro, Format::Top, Format::Inpcrd] {
            std::fs::write(&path, "title\r    1\r   0.0   0.0   0.0\r").unwrap();
            let refused = check(&path, format, 1000, 1000).unwrap().unwrap_err().to_string();
            assert!(refused.starts_with(words), "{format}: {refused}");
        }
    }

    #[test]
    fn a_gro_file_has_no_more_atoms_than_are_read_and_none_that_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.gro");
        let refused = |x: &str, max_atoms| {
            let atom = format!("    5ALA     CA    1{x:>8}   0.000   0.000\n");
            std::fs::write(&path, format!("title\n 1\n{atom}   3.0   3.0   3.0\n")).unwrap();
            let checked = check(&path, Format::Gro, 1000, max_atoms).unwrap();
            checked.err().map(|problem| problem.to_string())
        };
        assert_eq!(refused("1.000", 1), None);
        let far = refused("1e300", 1).expect("no atom is there");
        assert!(far.starts_with("line 3: ") && far.contains("as x of CA of ALA 5"), "{far}");
        assert!(refused("1.000", 0).is_some_and(|why| why.contains("limits.atoms")));
    }

    #[test]
    fn compressed_trajectories_are_of_so_many_atoms_and_have_a_first_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.xtc");
        let data =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/data/mini_tri.xtc");
        let mut bytes = std::fs::read(data).unwrap();
        let problem = |bytes: &[u8], max_atoms| {
            std::fs::write(&path, bytes).unwrap();
            check(&path, Format::Xtc, 0, max_atoms)
                .unwrap()
                .err()
                .map(|problem| problem.to_string())
        };
        assert_eq!(problem(&bytes, 2111), None);
        let expected = "its frames have 2111 atoms; 2110 is the most that is read (`limits.atoms` of \
                        the service)";
        assert_eq!(problem(&bytes, 2110).as_deref(), Some(expected));

        // How many bits small differences take.
        bytes[84..88].copy_from_slice(&8_i32.to_be_bytes());
        let expected = "byte 0: expected a frame of coordinates, found coordinates of 8 bits";
        assert_eq!(problem(&bytes, 2111).as_deref(), Some(expected));
    }

    #[test]
    fn what_is_well_made_is_taken() {
        for (text, format) in
            [(SDF, Format::Sdf), (SDF, Format::Mol), (MOL2, Format::Mol2), (XML, Format::Xml)]
        {
            assert_eq!(problem(text, format), "fine", "{format}");
        }
        let v3000 = "x\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\nM  V30 COUNTS 1 0 0 0 0\nM  V30 BEGIN ATOM\nM  V30 1 C 0 0 0 0\nM  V30 END ATOM\nM  V30 END CTAB\nM  END\n";
        assert_eq!(problem(v3000, Format::Sdf), "fine");
        let of_antechamber = MOL2.replace("C.3", "c3").replace("O.3", "oh");
        assert_eq!(problem(&of_antechamber, Format::Mol2), "fine");
    }

    #[test]
    fn a_mark_before_the_first_line_hides_nothing() {
        for (text, format) in [(SDF, Format::Sdf), (MOL2, Format::Mol2), (XML, Format::Xml)] {
            assert_eq!(problem(&format!("\u{feff}{text}"), format), "fine", "{format}");
        }
        let system = "\u{feff}<System openmmVersion=\"8.3\" type=\"System\" version=\"1\"/>";
        assert_eq!(kind_of_xml(system.as_bytes()), SYSTEM);
    }

    #[test]
    fn lines_of_a_force_field_are_counted_once() {
        // A second of a debug build; counted anew for each element it was an hour.
        let text = format!("<ForceField>{}<Script/></ForceField>", "<Info/>\n".repeat(500_000));
        assert_eq!(
            problem(&text, Format::Xml),
            "line 500001: <Script> is not allowed: it can run code or read files"
        );
    }

    #[test]
    fn a_file_of_a_built_system_is_text_where_its_format_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let said = |format: Format, content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            let checked = check(&path, format, 10, 1000).unwrap();
            checked.err().map_or_else(|| "fine".to_owned(), |problem| problem.to_string())
        };
        assert_eq!(said(Format::Gro, b"longer than what is read whole\n 1\n"), "fine");
        assert_eq!(said(Format::Gro, b"title\n 1\n\0"), "line 3: it is not text");
        assert_eq!(said(Format::Zip, b"PK\x03\x04\0\0"), "fine");
        assert_eq!(said(Format::Psf, b"ATOM"), "it does not begin with PSF");
    }

    #[test]
    fn what_is_not_is_told_with_its_line() {
        for (text, format, words) in [
            (
                SDF.replace("1.5000", "1.5x00"),
                Format::Sdf,
                "line 6: the x coordinate is \"1.5x00\", not a number",
            ),
            (
                SDF.replace("M  END", "M  CHG  2   1   1   3  99\nM  END"),
                Format::Sdf,
                "line 10: the charge of an atom is \"99\", not from -15 to 15",
            ),
            (SDF.replace(" O   0", " Qq  0"), Format::Sdf, "line 7: \"Qq\" is no element"),
            (
                SDF.replace("  2  3  1  0\n", "  2  9  1  0\n"),
                Format::Sdf,
                "line 9: a bond to atom 9 of 3",
            ),
            (SDF.replace("M  END\n", ""), Format::Sdf, "it has no M  END"),
            (SDF.replace("  3  2", "  9  2"), Format::Sdf, "line 8: the x coordinate"),
            ("x\n".to_owned(), Format::Sdf, "it has no counts line"),
            (MOL2.replace(" 2 1 0", " 3 1 0"), Format::Mol2, "it has 2 atoms, its header says 3"),
            (MOL2.replace("1.4", "nan"), Format::Mol2, "line 8: the x coordinate is \"nan\""),
            (MOL2.replace(" 1 1 2 1", " 1 1 7 1"), Format::Mol2, "line 10: a bond to atom 7 of 2"),
            ("hello".to_owned(), Format::Mol2, "it has no @<TRIPOS>MOLECULE"),
            (XML.replace("</AtomTypes>", ""), Format::Xml, "line 1: "),
            (
                XML.replace("12.0", "__import__('os')"),
                Format::Xml,
                "line 1: mass of <Type> is \"__import__('os')\", not a number",
            ),
            (
                XML.replace("<AtomTypes>", "<Script>x</Script><AtomTypes>"),
                Format::Xml,
                "line 1: <Script> is not allowed: it can run code",
            ),
            (
                XML.replace("<AtomTypes>", "<Include file=\"/etc/passwd\"/><AtomTypes>"),
                Format::Xml,
                "<Include> is not allowed",
            ),
            (
                format!("<!DOCTYPE x [<!ENTITY a \"b\">]>{XML}"),
                Format::Xml,
                "line 1: DOCTYPE is not allowed",
            ),
            (
                XML.replace("ForceField", "Residues"),
                Format::Xml,
                "line 1: the root is <Residues>, not <ForceField>",
            ),
            ("".to_owned(), Format::Xml, "it has no element"),
            (
                format!("<?xml version=\"1.0\" encoding=\"utf-7\"?>{XML}"),
                Format::Xml,
                "its encoding is utf-7",
            ),
            ("ATOM\0".to_owned(), Format::Pdb, "line 1: it is not text"),
        ] {
            let found = problem(&text, format);
            assert!(found.contains(words), "{words:?} expected, found {found:?}");
        }
    }

    #[test]
    fn an_evaluated_attribute_takes_no_expression() {
        let with = |value: &str| {
            format!(
                "<ForceField><NonbondedForce coulomb14scale=\"1\" lj14scale=\"1\" useDispersionCorrection=\"{value}\"/></ForceField>"
            )
        };
        assert_eq!(problem(&with("False"), Format::Xml), "fine");
        assert_eq!(
            problem(&format!("<?xml version='1.0' encoding='UTF-8'?>{XML}"), Format::Xml),
            "fine"
        );
        assert!(problem(&with("exit()"), Format::Xml).contains("useDispersionCorrection"));
    }

    #[test]
    fn garbage_of_any_kind_is_refused_in_bounded_time_and_without_a_panic() {
        let mut state = 17_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let seeds = [(SDF, Format::Sdf), (MOL2, Format::Mol2), (XML, Format::Xml)];
        for round in 0..3000 {
            let (text, format) = seeds[round % seeds.len()];
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..1 + random() % 4 {
                let at = random() % bytes.len();
                match random() % 3 {
                    0 => bytes[at] = (random() % 256) as u8,
                    1 => drop(bytes.drain(at..(at + random() % 9).min(bytes.len()))),
                    _ => bytes.insert(at, b"0 <>\n9"[random() % 6]),
                }
                bytes.push(b'\n');
            }
            // Either way is fine; what counts is that there is a way.
            let _ = check_text(&bytes, format, 1000);
        }
        let deep = format!("<ForceField>{}", "<Patches>".repeat(100_000));
        assert!(problem(&deep, Format::Xml).contains("nested"));
    }
}
