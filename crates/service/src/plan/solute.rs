//! What a build would put into its box, as far as that can be told from the files before.
//!
//! The worker decides on every residue with the force field at hand. This counts what it nearly
//! always comes to: standard residues complete with their hydrogens, the water and the ions of the
//! file, and nothing of what else lies beside the chains.

use std::borrow::Cow;
use std::collections::BTreeSet;

use molbox::workflow::types::Notice;
use molbox_analysis::{Structure, Topology};

use crate::formats::{Format, contents, ligand};
use crate::plan::force_field::{NEGATIVE, POSITIVE};

/// Molecules that are to be solvated. Lengths in nm.
#[derive(Clone, Debug, Default)]
pub(super) struct Solute {
    /// But for water.
    pub(super) atoms: u64,
    /// Molecules of water in the file, which are kept.
    pub(super) waters: u64,
    /// In units of the elementary charge, at about neutral pH.
    pub(super) charge: i64,
    /// What a build fails for: chains that are to be kept and are not in the structure.
    pub(super) no_such_chain: Option<String>,
    /// What becomes of parts of the structure that nobody may expect.
    pub(super) warnings: Vec<Notice>,
    positions: Vec<[f64; 3]>,
}

/// Atoms of a residue within a chain, and its charge.
struct Standard {
    atoms: u64,
    charge: i64,
}

/// Where a solute is, in the coordinates of its files, and how large.
#[derive(Default)]
pub(super) struct SoluteSize {
    pub(super) middle_nm: [f64; 3],
    /// Along each axis.
    pub(super) extent_nm: [f64; 3],
    /// About the middle.
    pub(super) radius_nm: f64,
}

/// A bond of an atom to the hydrogen that the file may lack, as far as it widens the box.
const HYDROGEN_NM: f64 = 0.06;

impl Solute {
    /// Adds a structure, or those of its chains that are kept. None when the file cannot be read.
    pub(super) fn add_structure(
        &mut self,
        text: &[u8],
        format: Format,
        chains: Option<&[String]>,
    ) -> Option<()> {
        let text: Cow<'_, str> = String::from_utf8_lossy(text);
        let parsed = if format == Format::Cif {
            Structure::from_mmcif(&text)
        } else {
            Structure::from_pdb(&text)
        };
        let Structure { topology, positions, .. } = parsed.ok()?;
        self.no_such_chain = chains.and_then(|wanted| no_such_chain(&topology, wanted));
        self.warnings = contents::warnings(&text, format, chains, &topology);
        let mut last_chain = None;
        for (index, residue) in topology.residues().enumerate() {
            let chain = topology.chain_id(residue.chain);
            if chains.is_some_and(|chains| !chains.iter().any(|kept| kept == chain)) {
                continue;
            }
            let own = topology.residue_atoms(index);
            if topology.is_water(index) {
                self.waters += 1;
            } else if let Some(Standard { atoms, charge }) = standard(residue.name) {
                // Of the residues at its ends a chain has one hydrogen, two hydrogens or an oxygen
                // more.
                if last_chain.replace(residue.chain) != Some(residue.chain) {
                    self.atoms += 3;
                }
                self.atoms += atoms;
                self.charge += charge;
            } else if own.len() == 1 {
                self.atoms += 1;
                self.charge += charge_of_ion(residue.name);
            } else {
                continue;
            }
            self.positions.extend(own.map(|atom| positions[atom].map(|x| x / 10.0)));
        }
        Some(())
    }

    /// Adds a ligand, moved by `translation`. None when the file cannot be read.
    pub(super) fn add_ligand(
        &mut self,
        text: &[u8],
        format: Format,
        translation: Option<&[f64]>,
    ) -> Option<()> {
        let ligand = ligand::read(&String::from_utf8_lossy(text), format)?;
        self.atoms += ligand.atoms.len() as u64;
        self.charge += ligand.charge.unwrap_or(0);
        let moved = |place: [f64; 3]| {
            std::array::from_fn(|axis| place[axis] / 10.0 + translation.map_or(0.0, |by| by[axis]))
        };
        self.positions.extend(ligand.atoms.iter().map(|atom| moved(atom.position)));
        Some(())
    }

    /// Where it is and how large; all 0 without atoms.
    pub(super) fn size(&self) -> SoluteSize {
        if self.positions.is_empty() {
            return SoluteSize::default();
        }
        let ends = |axis: usize| {
            let along = self.positions.iter().map(|place| place[axis]);
            along.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
                (low.min(x), high.max(x))
            })
        };
        let ends = [ends(0), ends(1), ends(2)];
        let middle = ends.map(|(low, high)| f64::midpoint(low, high));
        let distance = |place: &[f64; 3]| {
            (0..3).map(|axis| (place[axis] - middle[axis]).powi(2)).sum::<f64>().sqrt()
        };
        let radius = self.positions.iter().map(distance).fold(0.0, f64::max);
        let hydrogens = if self.has_hydrogens() { 0.0 } else { HYDROGEN_NM };
        SoluteSize {
            middle_nm: middle,
            extent_nm: ends.map(|(low, high)| high - low + 2.0 * hydrogens),
            radius_nm: radius + hydrogens,
        }
    }

    /// Whether the files have about all hydrogens: half of the atoms of organic molecules are.
    fn has_hydrogens(&self) -> bool {
        self.positions.len() as u64 * 4 > (self.atoms + 3 * self.waters) * 3
    }
}

/// Says which of the wanted chains a structure lacks, as the build would.
fn no_such_chain(topology: &Topology, wanted: &[String]) -> Option<String> {
    let has: BTreeSet<&str> =
        topology.residues().map(|residue| topology.chain_id(residue.chain)).collect();
    let missing: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|chain| !has.contains(chain)).collect();
    let has = Vec::from_iter(has).join(", ");
    (!missing.is_empty())
        .then(|| format!("the structure has no chain {}; it has {has}", missing.join(", ")))
}

/// What a residue of a chain becomes.
fn standard(name: &str) -> Option<Standard> {
    let (atoms, charge) = match name {
        "ALA" => (10, 0),
        "ARG" => (24, 1),
        "ASN" => (14, 0),
        "ASP" => (12, -1),
        "CYS" | "CYX" | "CSO" | "CSX" | "CME" | "CAS" => (11, 0),
        "GLN" => (17, 0),
        "GLU" => (15, -1),
        "GLY" => (7, 0),
        "HIS" | "HID" | "HIE" | "HSD" | "HSE" => (17, 0),
        "HIP" | "HSP" => (18, 1),
        "ILE" | "LEU" => (19, 0),
        "LYS" => (22, 1),
        "MET" | "MSE" => (17, 0),
        "PHE" => (20, 0),
        "PRO" => (14, 0),
        "SER" => (11, 0),
        "THR" => (14, 0),
        "TRP" => (24, 0),
        "TYR" => (21, 0),
        "VAL" => (16, 0),
        "ACE" | "NME" => (6, 0),
        "NH2" => (3, 0),
        "A" => (33, -1),
        "C" => (31, -1),
        "G" => (34, -1),
        "U" | "DC" => (30, -1),
        "DA" | "DT" => (32, -1),
        "DG" => (33, -1),
        _ => return None,
    };
    Some(Standard { atoms, charge })
}

/// Whether a residue of a protein, a nucleic acid or the solvent is called so, which no ligand may be.
/// The worker knows more of them, lipids too.
pub(super) fn is_common_name(name: &str) -> bool {
    let mut ions = POSITIVE.iter().chain(&NEGATIVE).map(|ion| ion.to_ascii_uppercase());
    standard(name).is_some() || name == "HOH" || ions.any(|ion| ion == name)
}

/// Charge of a residue of one atom.
fn charge_of_ion(name: &str) -> i64 {
    match name {
        "CL" | "BR" | "F" | "IOD" | "I" | "CLA" => -1,
        "NA" | "K" | "LI" | "RB" | "CS" | "SOD" | "POT" | "CES" | "LIT" | "RUB" => 1,
        _ => 2,
    }
}
