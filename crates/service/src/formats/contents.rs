//! What a registered file contains, and what a build would make of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use molbox::Finite;
use molbox::workflow::types::{
    self, FileContents, LigandContents, Notice, StructureContents, TrajectoryContents,
};
use molbox_analysis::{
    ChainContents, Contents, Element, Heterogen, MissingPlace, MissingRun, ResidueKind, Topology,
    Trajectory,
};

use super::ligand::{self, Ligand};
use super::{Format, text_of};
use crate::shown::counted;

/// How a file is read: a ligand in a PDB file is not looked at as a structure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    Structure,
    Ligand,
    Trajectory,
}

impl Reading {
    /// Of a file of this kind; none for one that lists no atoms.
    pub(crate) fn of(kind: &str, format: Format) -> Option<Self> {
        match format {
            Format::Pdb if kind == "ligand" => Some(Self::Ligand),
            Format::Pdb | Format::Cif => Some(Self::Structure),
            Format::Sdf | Format::Mol | Format::Mol2 => Some(Self::Ligand),
            Format::Dcd | Format::Xtc | Format::Trr | Format::Nc => Some(Self::Trajectory),
            _ => None,
        }
    }
}

/// What a file contains that was registered in a format: structures in PDB files and trajectories
/// are read bit by bit, others whole, which are no larger than a registration reads.
///
/// # Errors
///
/// What cannot be read, or is not what it was when it was registered.
pub(crate) fn contents(
    file_id: &str,
    path: &Path,
    format: Format,
    reading: Reading,
) -> anyhow::Result<FileContents> {
    let mut contents = FileContents {
        file_id: file_id.to_owned(),
        structure: None,
        ligand: None,
        trajectory: None,
        warnings: Vec::new(),
        extra: Default::default(),
    };
    match reading {
        Reading::Structure => {
            let found = structure(path, format)?;
            contents.warnings = structure_warnings(&found);
            contents.structure = Some(shown(found));
        }
        Reading::Ligand => {
            let text = text(path)?;
            let found = ligand::read(&text, format)
                .ok_or_else(|| anyhow::anyhow!("{file_id} has no molecule any more"))?;
            let n_molecules = n_molecules(&text, format);
            contents.warnings = ligand_warnings(&found, n_molecules, format);
            contents.ligand = Some(ligand_contents(&found, n_molecules));
        }
        Reading::Trajectory => {
            contents.trajectory = Some(trajectory_contents(&Trajectory::open(path)?));
        }
    }
    Ok(contents)
}

fn text(path: &Path) -> io::Result<String> {
    Ok(text_of(&std::fs::read(path)?).into_owned())
}

fn structure(path: &Path, format: Format) -> anyhow::Result<Contents> {
    Ok(if format == Format::Cif {
        Contents::of_mmcif(&text(path)?)?
    } else {
        Contents::of_pdb(BufReader::with_capacity(1 << 20, File::open(path)?))??
    })
}

fn shown(found: Contents) -> StructureContents {
    StructureContents {
        models: found.n_models as u64,
        atoms: found.n_atoms as u64,
        hydrogens: found.n_hydrogens as u64,
        residues: found.n_residues as u64,
        alternates: found.n_located as u64,
        missing_residues: found.n_missing() as u64,
        chains: found.chains.iter().map(chain).collect(),
        heterogens: found.heterogens.iter().map(heterogen).collect(),
        missing: found.missing.iter().map(missing).collect(),
        truncated: found.is_cut,
        extra: Default::default(),
    }
}

fn kind_name(kind: ResidueKind) -> &'static str {
    match kind {
        ResidueKind::Protein => "protein",
        ResidueKind::NucleicAcid => "nucleic_acid",
        ResidueKind::Water => "water",
        ResidueKind::Ion => "ion",
        ResidueKind::Other => "other",
    }
}

fn chain(chain: &ChainContents) -> types::ChainContents {
    let kinds = ResidueKind::ALL.into_iter().filter(|kind| chain.n_residues(*kind) > 0);
    let waters = chain.n_residues(ResidueKind::Water);
    let residues: usize = ResidueKind::ALL.map(|kind| chain.n_residues(kind)).into_iter().sum();
    types::ChainContents {
        chain_id: chain.id.clone(),
        kinds: kinds.map(|kind| kind_name(kind).to_owned()).collect(),
        residues: (residues - waters) as u64,
        waters: waters as u64,
        atoms: chain.n_atoms as u64,
        missing_residues: chain.n_missing as u64,
        sequence_length: chain.n_sequence.map(|length| length as u64),
        extra: Default::default(),
    }
}

fn heterogen(heterogen: &Heterogen) -> types::Heterogen {
    types::Heterogen {
        name: heterogen.name.clone(),
        kind: kind_name(heterogen.kind).to_owned(),
        count: heterogen.count as u64,
        extra: Default::default(),
    }
}

fn missing(run: &MissingRun) -> types::MissingResidues {
    let place = match run.place {
        MissingPlace::Start => "start",
        MissingPlace::Middle => "middle",
        MissingPlace::End => "end",
        MissingPlace::Whole => "whole",
    };
    types::MissingResidues {
        chain_id: run.chain.clone(),
        first: run.first.clone(),
        last: run.last.clone(),
        count: run.count as u64,
        place: place.to_owned(),
        listed: run.is_listed,
        extra: Default::default(),
    }
}

/// Warnings of one kind that are given one by one; of others the number.
const MOST_NAMED: usize = 20;
/// Gaps that a worker builds have at most so many residues; `chains.py` there decides.
const MOST_BUILT: usize = 20;
/// What an experiment leaves on residues, of which a worker makes the standard ones; `names.py`
/// there decides.
const ARTEFACTS: [&str; 5] = ["MSE", "CSO", "CSX", "CME", "CAS"];

/// Ends of chains and mirror images of amino acids, which force fields have; `names.py` there
/// decides.
const BUILT: [&str; 24] = [
    "ACE", "NME", "NH2", "NMA", "NHE", "DAL", "DAR", "DSG", "DAS", "DCY", "DGN", "DGL", "DHI",
    "DIL", "DLE", "DLY", "MED", "DPN", "DPR", "DSN", "DTH", "DTR", "DTY", "DVA",
];

fn notice(code: &str, message: String) -> Notice {
    Notice {
        code: code.to_owned(),
        message,
        loc: Vec::new(),
        residues: Vec::new(),
        extra: Default::default(),
    }
}

/// What a build would make of a structure that nobody may expect, all of it or the chains that are
/// kept. None when it cannot be read.
pub(crate) fn warnings(
    text: &str,
    format: Format,
    chains: Option<&[String]>,
    topology: &Topology,
) -> Vec<Notice> {
    let found = if format == Format::Cif {
        Contents::of_mmcif(text).ok()
    } else {
        Contents::of_pdb(text.as_bytes()).ok().and_then(Result::ok)
    };
    let Some(mut found) = found else { return Vec::new() };
    if let Some(chains) = chains {
        let is_kept = |chain: &str| chains.iter().any(|kept| kept == chain);
        found.missing.retain(|run| is_kept(&run.chain));
        // Whose they are was not counted.
        found.n_located = 0;
        for heterogen in &mut found.heterogens {
            let own = topology.residues().filter(|residue| residue.name == heterogen.name);
            heterogen.count =
                own.filter(|residue| is_kept(topology.chain_id(residue.chain))).count();
        }
        found.heterogens.retain(|heterogen| heterogen.count > 0);
    }
    structure_warnings(&found)
}

fn structure_warnings(found: &Contents) -> Vec<Notice> {
    let mut warnings = Vec::new();
    if found.n_models > 1 {
        let message = format!("{} models; the first would be taken", found.n_models);
        warnings.push(notice("model_chosen", message));
    }
    if found.n_located > 0 {
        let residues = counted(found.n_located, "residue");
        let message = format!("{residues} in several locations; the most occupied would be taken");
        warnings.push(notice("location_chosen", message));
    }
    let has_sequence =
        |id: &str| found.chains.iter().any(|chain| chain.id == id && chain.n_sequence.is_some());
    // Of a chain of which nothing is there, nothing is built or ended.
    let gaps = found.missing.iter().filter(|run| run.place != MissingPlace::Whole);
    warnings.extend(gaps.clone().take(MOST_NAMED).map(|run| gap(run, has_sequence(&run.chain))));
    if let Some(more) = gaps.count().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        let message = format!("residues are missing in {}", counted(more, "more place"));
        warnings.push(notice("residues_missing", message));
    }
    let removed = found.heterogens.iter().filter_map(fate);
    warnings.extend(removed.clone().take(MOST_NAMED));
    if let Some(more) = removed.count().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        let message = format!("{} may be removed", counted(more, "more kind of residue"));
        warnings.push(notice("heterogen_removed", message));
    }
    warnings
}

/// What becomes of a place where residues are missing.
fn gap(run: &MissingRun, has_sequence: bool) -> Notice {
    let chain = match run.chain.as_str() {
        "" => "the chain without an identifier".to_owned(),
        id => format!("chain {id}"),
    };
    let range = match run.count {
        1 => run.first.clone(),
        _ => format!("{} to {}", run.first, run.last),
    };
    let what = format!("{} of {chain} ({range})", counted(run.count, "residue"));
    let are = if run.count == 1 { "is" } else { "are" };
    let (code, message) = match run.place {
        MissingPlace::Start | MissingPlace::Whole => {
            ("residues_missing", format!("{what} {are} missing at its start and would be left out"))
        }
        MissingPlace::End => {
            ("residues_missing", format!("{what} {are} missing at its end and would be left out"))
        }
        MissingPlace::Middle if !has_sequence => (
            "chain_broken",
            format!(
                "{what} {are} missing in a gap, and the file has no sequence to build them from: \
                 the chain would end and begin anew"
            ),
        ),
        MissingPlace::Middle if run.count > MOST_BUILT => (
            "residues_missing",
            format!("{what} {are} missing in a gap too long to build and would be left out"),
        ),
        MissingPlace::Middle => {
            ("residues_built", format!("{what} {are} missing in a gap and would be built"))
        }
    };
    notice(code, message)
}

/// What becomes of a heterogen, unless it stays as it is.
fn fate(heterogen: &Heterogen) -> Option<Notice> {
    let Heterogen { name, kind, count } = heterogen;
    Some(match kind {
        ResidueKind::Ion | ResidueKind::Water => return None,
        _ if BUILT.contains(&name.as_str()) => return None,
        ResidueKind::Protein | ResidueKind::NucleicAcid if ARTEFACTS.contains(&name.as_str()) => {
            notice(
                "residue_replaced",
                format!("{name} ({count}) would become the standard residue"),
            )
        }
        ResidueKind::Protein | ResidueKind::NucleicAcid => {
            let message = format!("{name} ({count}) needs a force field that has a template of it");
            notice("no_template", message)
        }
        ResidueKind::Other => {
            let message = format!(
                "{name} ({count}) would be removed, unless the force field has a template of it"
            );
            notice("heterogen_removed", message)
        }
    })
}

fn n_molecules(text: &str, format: Format) -> usize {
    let count = |is_one: fn(&str) -> bool| text.lines().filter(|line| is_one(line)).count();
    match format {
        Format::Sdf => count(|line| line.starts_with("M  END")),
        Format::Mol2 => count(|line| line.trim() == "@<TRIPOS>MOLECULE"),
        _ => 1,
    }
}

fn n_hydrogens(ligand: &Ligand) -> usize {
    ligand.atoms.iter().filter(|atom| atom.element == Some(Element::H)).count()
}

fn ligand_contents(ligand: &Ligand, n_molecules: usize) -> LigandContents {
    LigandContents {
        molecules: n_molecules as u64,
        atoms: ligand.atoms.len() as u64,
        hydrogens: n_hydrogens(ligand) as u64,
        formula: formula(ligand),
        charge: ligand.charge,
        extra: Default::default(),
    }
}

/// Carbon, then hydrogen, then the others by their symbols; all by their symbols without carbon.
fn formula(ligand: &Ligand) -> String {
    let mut counts: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    let symbols = || ligand.atoms.iter().filter_map(|atom| atom.element).map(Element::symbol);
    let is_organic = symbols().any(|symbol| symbol == "C");
    for symbol in symbols() {
        let rank = match symbol {
            "C" => 0,
            "H" if is_organic => 1,
            _ => 2,
        };
        *counts.entry((rank, symbol)).or_default() += 1;
    }
    let part = |((_, symbol), count): (&(u8, &str), &usize)| match count {
        1 => (*symbol).to_owned(),
        _ => format!("{symbol}{count}"),
    };
    counts.iter().map(part).collect()
}

fn ligand_warnings(ligand: &Ligand, n_molecules: usize, format: Format) -> Vec<Notice> {
    let mut warnings = Vec::new();
    if n_molecules > 1 {
        let message = format!("{n_molecules} molecules; the first would be taken");
        warnings.push(notice("ligand_chosen", message));
    }
    let has_carbon =
        ligand.atoms.iter().any(|atom| atom.element.is_some_and(|e| e.symbol() == "C"));
    if has_carbon && n_hydrogens(ligand) == 0 {
        // Of a PDB file bonds and their orders are found by hydrogens alone.
        warnings.push(if format == Format::Pdb {
            let message = "it has no hydrogens, and its bond orders cannot be determined without";
            notice("ligand_no_hydrogens", format!("{message}: register it as SDF or MOL2"))
        } else {
            let message = "it has no hydrogens; they would be added by valence";
            notice("ligand_hydrogens_added", message.to_owned())
        });
    }
    warnings
}

fn trajectory_contents(trajectory: &Trajectory) -> TrajectoryContents {
    let n_frames = trajectory.n_frames();
    let time = |frame: Option<usize>| {
        frame.and_then(|frame| trajectory.time_ps(frame)).and_then(|ps| Finite::try_from(ps).ok())
    };
    TrajectoryContents {
        atoms: trajectory.n_atoms() as u64,
        frames: n_frames as u64,
        start: time((n_frames > 0).then_some(0)),
        end: time(n_frames.checked_sub(1)),
        extra: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of a table in the worker's source, or items of a set.
    fn names<'t>(source: &'t str, table: &str) -> Vec<&'t str> {
        let (_, rest) = source.split_once(&format!("\n{table} = ")).unwrap();
        let (text, _) = rest.split_once('}').unwrap();
        let parts: Vec<&str> = text.split('"').collect();
        let is_table = parts.iter().any(|part| part.starts_with(':'));
        let words = parts.chunks_exact(2).zip(parts.iter().skip(2).step_by(2));
        words
            .filter(|(_, after)| !is_table || after.starts_with(':'))
            .map(|(pair, _)| pair[1])
            .collect()
    }

    #[test]
    fn residues_that_stay_or_change_are_those_of_the_worker() {
        let source = include_str!("../../../../worker/molbox_worker/names.py");
        let built = ["CAPS", "OTHER_CAPS", "MIRRORED"].map(|table| names(source, table)).concat();
        let sorted = |mut words: Vec<&'static str>| {
            words.sort_unstable();
            words
        };
        assert_eq!(sorted(BUILT.to_vec()), sorted(built));
        assert_eq!(sorted(ARTEFACTS.to_vec()), sorted(names(source, "ARTEFACTS")));
    }
}
