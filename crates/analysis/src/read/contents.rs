//! What a structure file contains, counted as it is read: in the memory of a residue, whatever the
//! size of the file.

use std::collections::{BTreeSet, HashMap};

use super::bonds::Family;
use super::structure::Record;
use crate::Element;
use crate::cell::{norm, sub};
use crate::error::FormatErrorKind;
use crate::topology::WATER;

/// What the first model of a structure file has, one location of each atom, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Models in the file.
    pub n_models: usize,
    /// Atoms, as many as [`Structure`](crate::Structure) has of the file.
    pub n_atoms: usize,
    /// How many of them are hydrogens.
    pub n_hydrogens: usize,
    /// Residues; each molecule of water and each ion is one.
    pub n_residues: usize,
    /// Residues of which the file has several locations.
    pub n_located: usize,
    /// Chains by their identifiers, in the order in which they begin.
    pub chains: Vec<ChainContents>,
    /// What is neither water nor a standard residue, by its name.
    pub heterogens: Vec<Heterogen>,
    /// Residues that are missing from chains, those that follow each other together.
    pub missing: Vec<MissingRun>,
    /// Whether a list has more entries than [`MOST`](Self::MOST), and only the first are given.
    pub is_cut: bool,
}

/// What stands under one identifier of a chain, which may be in several places of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainContents {
    /// The author's identifier; empty where there is none.
    pub id: String,
    /// Residues of each kind, in the order of the kinds.
    n_residues_of: [usize; 5],
    /// Number of atoms.
    pub n_atoms: usize,
    /// Residues of the chain's sequence, if the file has one.
    pub n_sequence: Option<usize>,
    /// Residues that are missing.
    pub n_missing: usize,
    /// The author's lowest and highest number in the polymer.
    numbers: Option<[i64; 2]>,
}

impl ChainContents {
    /// Residues of a kind.
    pub fn n_residues(&self, kind: ResidueKind) -> usize {
        self.n_residues_of[kind as usize]
    }
}

/// What a residue is, by its name and its atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidueKind {
    /// Of a protein: a standard amino acid, or one with its backbone.
    Protein,
    /// Of DNA or RNA: a standard nucleotide, or one with its sugar.
    NucleicAcid,
    /// A single atom.
    Ion,
    /// Anything else.
    Other,
    /// Water.
    Water,
}

impl ResidueKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Protein, Self::NucleicAcid, Self::Ion, Self::Other, Self::Water];

    /// By its name alone: a standard amino acid or nucleotide, or water; none of another.
    pub fn of_name(residue: &str) -> Option<Self> {
        match Family::of(residue) {
            _ if WATER.contains(&residue) => Some(Self::Water),
            Family::AminoAcid => Some(Self::Protein),
            Family::Nucleotide => Some(Self::NucleicAcid),
            Family::Other => None,
        }
    }

    fn is_polymer(self) -> bool {
        matches!(self, Self::Protein | Self::NucleicAcid)
    }
}

/// Residues of one name that are neither water nor standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heterogen {
    /// Name, such as `HEM`.
    pub name: String,
    /// What the first of them is.
    pub kind: ResidueKind,
    /// How many there are.
    pub count: usize,
}

/// Residues that are missing from a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRun {
    /// The author's identifier of the chain.
    pub chain: String,
    /// The first, such as `GLY13`; only the number where the file does not name it.
    pub first: String,
    /// The last.
    pub last: String,
    /// How many there are.
    pub count: usize,
    /// Where in the chain.
    pub place: MissingPlace,
    /// Whether the file lists them; otherwise the author's numbers skip them where the chain is
    /// broken.
    pub is_listed: bool,
}

/// Where in a chain residues are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPlace {
    /// Before the first that is there.
    Start,
    /// Between those that are there.
    Middle,
    /// After the last that is there.
    End,
    /// None is there.
    Whole,
}

impl Contents {
    /// Entries that each list has at most.
    pub const MOST: usize = 1000;

    /// Residues that are missing from all chains.
    pub fn n_missing(&self) -> usize {
        self.missing.iter().fold(0, |sum: usize, run| sum.saturating_add(run.count))
    }
}

/// Missing residues that a file lists are read up to so many.
const MOST_LISTED: usize = 100_000;

/// Neighbours in a chain whose backbones are further apart are not bonded, in Å.
const LONGEST_BACKBONE_BOND: f64 = 2.5;

/// A residue that a file lists as missing.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) chain: String,
    pub(super) name: String,
    pub(super) number: i64,
    pub(super) insertion_code: Option<char>,
}

/// Counts atoms as they come.
#[derive(Debug, Default)]
pub(super) struct Census {
    contents: Contents,
    /// Where the chains and heterogens are in their lists.
    chains: HashMap<String, usize>,
    heterogens: HashMap<String, usize>,
    listed: Vec<Listed>,
    sequences: HashMap<String, usize>,
    present: Option<Present>,
    /// The residue before in the polymer of the present chain.
    before: Option<Before>,
    gaps: Vec<Gap>,
}

/// The first and the last number that an author skips in a broken chain.
#[derive(Debug)]
struct Gap {
    chain: String,
    numbers: (i64, i64),
}

/// The residue that is being read.
#[derive(Debug)]
struct Present {
    chain: String,
    name: String,
    number: i64,
    insertion_code: Option<char>,
    starts_chain: bool,
    location: Option<String>,
    /// Names of its atoms, and whether they have a location.
    atoms: HashMap<String, bool>,
    has_locations: bool,
    /// Whether it has more than hydrogens.
    has_others: bool,
    n_atoms: usize,
    /// Places of the atoms of backbones, as `BACKBONE` has them.
    backbone: [Option<[f64; 3]>; 7],
}

const BACKBONE: [&str; 7] = ["N", "CA", "C", "P", "C5'", "C3'", "O3'"];

/// Names that are remembered of a residue: no molecule has more, and a hostile file may.
const MOST_NAMES: usize = 10_000;

/// A residue of a polymer, as far as the next one needs it.
#[derive(Debug)]
struct Before {
    chain: String,
    kind: ResidueKind,
    number: i64,
    end: Option<[f64; 3]>,
}

impl Present {
    fn new(record: &Record<'_>) -> Self {
        Self {
            chain: record.chain.to_owned(),
            name: record.residue.to_owned(),
            number: record.number,
            insertion_code: record.insertion_code,
            starts_chain: record.starts_chain,
            location: None,
            atoms: HashMap::new(),
            has_locations: false,
            has_others: false,
            n_atoms: 0,
            backbone: [None; 7],
        }
    }

    /// Whether an atom is in its place, be it of another residue in another location.
    fn is_place_of(&self, record: &Record<'_>) -> bool {
        let at = (self.number, self.insertion_code, self.chain.as_str());
        at == (record.number, record.insertion_code, record.chain) && !record.starts_chain
    }

    /// Counts an atom of it; not one that was counted in another location.
    fn add(&mut self, record: &Record<'_>) -> bool {
        if record.location.is_some() && self.atoms.get(record.name) == Some(&true) {
            self.has_locations = true;
            return false;
        }
        if self.atoms.len() < MOST_NAMES {
            let is_located = self.atoms.entry(record.name.to_owned()).or_default();
            *is_located |= record.location.is_some();
        }
        if self.location.is_none() {
            self.location = record.location.map(str::to_owned);
        }
        if let Some(at) = BACKBONE.iter().position(|name| *name == record.name) {
            self.backbone[at] = Some(record.position);
        }
        self.has_others |= record.element != Some(Element::H);
        self.n_atoms += 1;
        true
    }

    fn kind(&self) -> ResidueKind {
        let [n, ca, c, _, c5, c3, o3] = self.backbone.map(|place| place.is_some());
        match ResidueKind::of_name(&self.name) {
            Some(kind) => kind,
            None if n && ca && c => ResidueKind::Protein,
            None if c5 && c3 && o3 => ResidueKind::NucleicAcid,
            None if self.n_atoms == 1 => ResidueKind::Ion,
            None => ResidueKind::Other,
        }
    }

    /// Whether it is listed by its name. Selenomethionine is bonded as methionine is, and none.
    fn is_heterogen(&self, kind: ResidueKind) -> bool {
        kind != ResidueKind::Water
            && (Family::of(&self.name) == Family::Other || self.name == "MSE")
    }

    /// Where the residue before and the one after are bonded.
    fn ends(&self, kind: ResidueKind) -> [Option<[f64; 3]>; 2] {
        let [n, _, c, p, _, _, o3] = self.backbone;
        if kind == ResidueKind::Protein { [n, c] } else { [p, o3] }
    }
}

impl Census {
    /// Name and number of the residue that is being read.
    pub(super) fn last_residue(&self) -> Option<(&str, i64)> {
        self.present.as_ref().map(|present| (present.name.as_str(), present.number))
    }

    /// Whether the residue that is being read has an atom of this name.
    pub(super) fn last_residue_has(&self, name: &str) -> bool {
        self.present.as_ref().is_some_and(|present| present.atoms.contains_key(name))
    }

    /// That no more atoms were counted than these.
    pub(super) fn check(&self, most: usize) -> Result<(), FormatErrorKind> {
        let is_fine = self.contents.n_atoms <= most;
        if is_fine { Ok(()) } else { Err(FormatErrorKind::TooManyAtoms { most }) }
    }

    /// Whether an atom was counted.
    pub(super) fn has_atoms(&self) -> bool {
        self.present.is_some()
    }

    /// Counts an atom, unless it is another location of one that was counted.
    pub(super) fn atom(&mut self, record: &Record<'_>) {
        if let Some(present) = self.present.as_mut().filter(|present| present.is_place_of(record)) {
            let is_located = present.location.is_some();
            if present.name != record.residue
                && is_located
                && record.location != present.location.as_deref()
            {
                present.has_locations = true;
                return;
            }
            if present.name == record.residue {
                let is_counted = present.add(record);
                return self.count(record, is_counted);
            }
        }
        self.close();
        let mut present = Present::new(record);
        present.add(record);
        self.present = Some(present);
        self.count(record, true);
    }

    fn count(&mut self, record: &Record<'_>, is_counted: bool) {
        self.contents.n_atoms += usize::from(is_counted);
        let is_hydrogen = record.element == Some(Element::H);
        self.contents.n_hydrogens += usize::from(is_counted && is_hydrogen);
    }

    /// Takes a residue that the file lists as missing.
    pub(super) fn missing(&mut self, residue: Listed) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(residue);
        } else {
            self.contents.is_cut = true;
        }
    }

    /// Takes the length of the sequence of a chain, or adds to it.
    pub(super) fn sequence(&mut self, chain: &str, length: impl FnOnce(usize) -> usize) {
        if let Some(known) = self.sequences.get_mut(chain) {
            *known = length(*known);
        } else if self.sequences.len() < Contents::MOST {
            self.sequences.insert(chain.to_owned(), length(0));
        }
    }

    /// Counts the residue that was read.
    fn close(&mut self) {
        let Some(present) = self.present.take() else { return };
        let kind = present.kind();
        if self.is_rest(&present) {
            if let Some(chain) = self.chain(&present.chain) {
                chain.n_atoms += present.n_atoms;
            }
            return;
        }
        self.contents.n_residues += 1;
        self.contents.n_located += usize::from(present.has_locations);
        if present.is_heterogen(kind) {
            self.heterogen(&present.name, kind);
        }
        if let Some(chain) = self.chain(&present.chain) {
            chain.n_residues_of[kind as usize] += 1;
            chain.n_atoms += present.n_atoms;
            if kind.is_polymer() {
                let number = present.number;
                let [low, high] = chain.numbers.unwrap_or([number; 2]);
                chain.numbers = Some([low.min(number), high.max(number)]);
            }
        }
        if kind.is_polymer() {
            self.compare(&present, kind);
            self.before = Some(Before {
                kind,
                number: present.number,
                end: present.ends(kind)[1],
                chain: present.chain,
            });
        }
    }

    /// Whether these are the hydrogens of a residue that was counted, which some files list after all
    /// heavy atoms.
    fn is_rest(&self, present: &Present) -> bool {
        let is_known = Family::of(&present.name) != Family::Other
            || WATER.contains(&present.name.as_str())
            || self.heterogens.contains_key(&present.name);
        !present.has_others && is_known
    }

    fn heterogen(&mut self, name: &str, kind: ResidueKind) {
        let list = &mut self.contents.heterogens;
        if let Some(at) = self.heterogens.get(name) {
            list[*at].count += 1;
        } else if list.len() < Contents::MOST {
            self.heterogens.insert(name.to_owned(), list.len());
            list.push(Heterogen { name: name.to_owned(), kind, count: 1 });
        } else {
            self.contents.is_cut = true;
        }
    }

    /// The entry of a chain; none when the list is full.
    fn chain(&mut self, id: &str) -> Option<&mut ChainContents> {
        let list = &mut self.contents.chains;
        let at = self.chains.get(id).copied();
        if at.is_none() && list.len() == Contents::MOST {
            self.contents.is_cut = true;
            return None;
        }
        let at = at.unwrap_or_else(|| {
            self.chains.insert(id.to_owned(), list.len());
            list.push(ChainContents { id: id.to_owned(), ..ChainContents::default() });
            list.len() - 1
        });
        Some(&mut list[at])
    }

    /// Notes the numbers that are skipped between a residue and the one before, where these are not
    /// bonded: authors skip numbers also where nothing is missing.
    fn compare(&mut self, present: &Present, kind: ResidueKind) {
        let Some(before) = &self.before else { return };
        let numbers = (before.number.saturating_add(1), present.number.saturating_sub(1));
        let is_next = before.chain == present.chain && before.kind == kind && !present.starts_chain;
        if !is_next || numbers.0 > numbers.1 {
            return;
        }
        let is_bonded = match (before.end, present.ends(kind)[0]) {
            (Some(end), Some(start)) => norm(sub(end, start)) < LONGEST_BACKBONE_BOND,
            _ => false,
        };
        if is_bonded {
            return;
        }
        if self.gaps.len() < Contents::MOST {
            self.gaps.push(Gap { chain: present.chain.clone(), numbers });
        } else {
            self.contents.is_cut = true;
        }
    }

    fn run(&mut self, run: MissingRun) {
        if let Some(chain) = self.chain(&run.chain) {
            chain.n_missing = chain.n_missing.saturating_add(run.count);
        }
        if self.contents.missing.len() < Contents::MOST {
            self.contents.missing.push(run);
        } else {
            self.contents.is_cut = true;
        }
    }

    /// All that was counted, in so many models.
    pub(super) fn finish(mut self, n_models: usize) -> Result<Contents, FormatErrorKind> {
        self.close();
        if self.contents.n_atoms == 0 {
            return Err(FormatErrorKind::NoAtoms);
        }
        self.contents.n_models = n_models;
        let listed = std::mem::take(&mut self.listed);
        let follows = |a: &Listed, b: &Listed| {
            a.chain == b.chain
                && (b.number == a.number || Some(b.number) == a.number.checked_add(1))
        };
        for run in listed.chunk_by(follows) {
            let (first, last) = (&run[0], &run[run.len() - 1]);
            let numbers =
                self.chains.get(&first.chain).and_then(|at| self.contents.chains[*at].numbers);
            let place = match numbers {
                None => MissingPlace::Whole,
                Some([low, _]) if last.number < low => MissingPlace::Start,
                Some([_, high]) if first.number > high => MissingPlace::End,
                Some(_) => MissingPlace::Middle,
            };
            self.run(MissingRun {
                chain: first.chain.clone(),
                first: first.label(),
                last: last.label(),
                count: run.len(),
                place,
                is_listed: true,
            });
        }
        let mut numbers: HashMap<&str, BTreeSet<i64>> = HashMap::new();
        for residue in &listed {
            numbers.entry(&residue.chain).or_default().insert(residue.number);
        }
        for Gap { chain, numbers: (first, last) } in std::mem::take(&mut self.gaps) {
            let listed = numbers.get(chain.as_str());
            if listed.is_some_and(|listed| listed.range(first..=last).next().is_some()) {
                continue;
            }
            let count = last.saturating_sub(first).saturating_add(1);
            self.run(MissingRun {
                chain,
                first: first.to_string(),
                last: last.to_string(),
                count: usize::try_from(count).unwrap_or(usize::MAX),
                place: MissingPlace::Middle,
                is_listed: false,
            });
        }
        for chain in &mut self.contents.chains {
            chain.n_sequence = self.sequences.get(&chain.id).copied();
        }
        Ok(self.contents)
    }
}

impl Listed {
    fn label(&self) -> String {
        let code = self.insertion_code.map_or(String::new(), String::from);
        format!("{}{}{code}", self.name, self.number)
    }
}
