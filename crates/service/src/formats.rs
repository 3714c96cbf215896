//! File formats: their names, and whether a content is what it is said to be.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use sha2::{Digest, Sha256};

use crate::bundle::hex;

/// A longer line is no text of these formats.
const MAX_LINE: u64 = 1 << 20;

/// A format that a file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Pdb,
    Cif,
    Sdf,
    Mol,
    Mol2,
    Xml,
    Dcd,
    Xtc,
}

/// A content that is what it is said to be.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

/// Why a content is not what it is said to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Line, from 1; none when it is about the whole.
    line: Option<u64>,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Format {
    const ALL: [Self; 8] = [Self::Pdb, Self::Cif, Self::Sdf, Self::Mol, Self::Mol2, Self::Xml, Self::Dcd, Self::Xtc];

    /// The format that people call by this name or extension.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.trim_start_matches('.').to_ascii_lowercase();
        let name = if name == "mmcif" { "cif" } else { &name };
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// What to say about a name that is none.
    pub(crate) fn expected(name: &str) -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
        format!("must be one of {}, got {name:?}", names.join(", "))
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
            Self::Dcd | Self::Xtc => "application/octet-stream",
        }
    }

    pub(crate) fn usual_kind(self) -> &'static str {
        match self {
            Self::Pdb | Self::Cif => "structure",
            Self::Sdf | Self::Mol | Self::Mol2 => "ligand",
            Self::Xml => "force_field",
            Self::Dcd | Self::Xtc => "trajectory",
        }
    }

    /// Whether nothing of the service reads it yet.
    pub(crate) fn is_later(self) -> bool {
        !matches!(self, Self::Pdb | Self::Cif)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads a file once: whether it is what it is said to be, its size and checksum.
pub(crate) fn check(file: File, format: Format) -> io::Result<Result<Content, Problem>> {
    let mut hashed = Hashed { file, sha256: Sha256::new(), size: 0 };
    let problem = match format {
        Format::Pdb => check_lines(&mut hashed, pdb_line, "it has no ATOM or HETATM record")?,
        Format::Cif => check_lines(&mut hashed, cif_line, "it has no atoms (no _atom_site.Cartn_x)")?,
        _ => None,
    };
    io::copy(&mut hashed, &mut io::sink())?;
    Ok(match problem {
        Some(problem) => Err(problem),
        None => Ok(Content { size: hashed.size, sha256: hex(&hashed.sha256.finalize()) }),
    })
}

/// Walks over the lines; `look` tells whether a line has what the format needs, or what is wrong
/// with it.
fn check_lines(
    file: &mut Hashed,
    look: fn(&str) -> Result<bool, String>,
    nothing: &str,
) -> io::Result<Option<Problem>> {
    let mut reader = BufReader::new(file);
    let mut found = false;
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let problem = |message: String| Some(Problem { line: Some(number), message });
        let is_text = bytes.len() < MAX_LINE as usize && !bytes.contains(&0);
        if !is_text {
            return Ok(problem("it is not text".to_owned()));
        }
        match look(&String::from_utf8_lossy(&bytes)) {
            Ok(has) => found |= has,
            Err(message) => return Ok(problem(message)),
        }
    }
    Ok((!found).then(|| Problem { line: None, message: nothing.to_owned() }))
}

/// Coordinates stand in columns 31 to 54 of an atom's record.
fn pdb_line(line: &str) -> Result<bool, String> {
    if !line.starts_with("ATOM  ") && !line.starts_with("HETATM") {
        return Ok(false);
    }
    for (axis, columns) in [("x", 30..38), ("y", 38..46), ("z", 46..54)] {
        let text = line.get(columns).map_or("", str::trim);
        let value: Option<f64> = text.parse().ok();
        if !value.is_some_and(f64::is_finite) {
            return Err(format!("the {axis} coordinate is {text:?}, not a number"));
        }
    }
    Ok(true)
}

fn cif_line(line: &str) -> Result<bool, String> {
    Ok(line.trim_start().to_ascii_lowercase().starts_with("_atom_site.cartn_x"))
}

/// A file whose checksum is taken as it is read.
struct Hashed {
    file: File,
    sha256: Sha256,
    size: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.sha256.update(&buffer[..n]);
        self.size += n as u64;
        Ok(n)
    }
}
