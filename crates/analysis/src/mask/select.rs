//! Syntax tree and topology to a set of atoms.

use std::cell::LazyCell;
use std::ops::{Range, RangeInclusive};

use super::near::which_are_near;
use super::selection::{MaskWarning, SelectError, Selection};
use super::syntax::{Expr, Item, Kind, Match, Pattern, Selector, Unit, Within};
use crate::topology::{Residue, WATER};
use crate::{AtomSet, Cell, Element, Topology};

/// Names of one meaning in different programs and force fields.
const SYNONYMS: [&[&str]; 5] = [
    &WATER,
    &["NA", "Na+", "NA+", "SOD"],
    &["CL", "Cl-", "CL-", "CLA"],
    &["K", "K+", "POT"],
    &["MG", "MG2", "Mg2+"],
];

/// Most warnings about the numbers of one selector.
const MOST_NUMBERS: usize = 20;

pub(super) fn select(
    expr: &Expr,
    warnings: Vec<MaskWarning>,
    topology: &Topology,
    positions: Option<&[[f64; 3]]>,
    cell: Option<&Cell>,
) -> Result<Selection, SelectError> {
    let n_atoms = topology.n_atoms();
    if let Some(positions) = positions.filter(|positions| positions.len() != n_atoms) {
        return Err(SelectError::PositionCount { n_positions: positions.len(), n_atoms });
    }
    let mut evaluation = Evaluation { topology, positions, cell, warnings };
    let atoms = evaluation.expr(expr)?;
    if atoms.is_empty() {
        evaluation.warnings.push(MaskWarning::Empty);
    }
    Ok(Selection { atoms, warnings: evaluation.warnings })
}

struct Evaluation<'a> {
    topology: &'a Topology,
    positions: Option<&'a [[f64; 3]]>,
    /// Whose images count in distances.
    cell: Option<&'a Cell>,
    warnings: Vec<MaskWarning>,
}

impl Evaluation<'_> {
    fn expr(&mut self, expr: &Expr) -> Result<AtomSet, SelectError> {
        match expr {
            Expr::Select(selector) => Ok(self.selector(selector)),
            Expr::Not(inner) => Ok(!self.expr(inner)?),
            Expr::And(terms) => self.fold(terms, AtomSet::intersect_with),
            Expr::Or(terms) => self.fold(terms, AtomSet::union_with),
            Expr::Within(within) => self.within(within),
        }
    }

    fn fold(
        &mut self,
        terms: &[Expr],
        join: fn(&mut AtomSet, &AtomSet),
    ) -> Result<AtomSet, SelectError> {
        let mut all = self.expr(&terms[0])?;
        for term in &terms[1..] {
            join(&mut all, &self.expr(term)?);
        }
        Ok(all)
    }

    fn selector(&mut self, Selector { kind, items }: &Selector) -> AtomSet {
        if items.contains(&Item::All) {
            return AtomSet::all(self.topology.n_atoms());
        }
        self.warn_of_what_is_unknown(*kind);
        match kind {
            Kind::Residue => self.residues(items),
            Kind::Chain => self.chains(items),
            Kind::AuthorNumber => self.author_numbers(items),
            Kind::Atom => self.atoms(items),
            Kind::AtomType => self.atom_types(items),
            Kind::Element => self.elements(items),
            Kind::Molecule => self.molecules(items),
        }
    }

    fn warn_of_what_is_unknown(&mut self, kind: Kind) {
        let topology = self.topology;
        let known = match kind {
            Kind::Chain => topology.chains().any(|id| !id.is_empty()),
            Kind::AtomType => topology.atoms().any(|atom| atom.atom_type.is_some()),
            Kind::Element => topology.atoms().any(|atom| atom.element.is_some()),
            Kind::Molecule => !topology.bonds().is_empty(),
            Kind::Residue | Kind::AuthorNumber | Kind::Atom => true,
        };
        let warning = MaskWarning::Unknown { kind };
        if !known && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn residues(&mut self, items: &[Item]) -> AtomSet {
        let topology = self.topology;
        let names = (0..topology.n_residues()).map(|residue| topology.residue_name_id(residue));
        let named = self.named(Kind::Residue, items, names);
        let mut set = residues_where(topology, |residue| named[topology.residue_name_id(residue)]);
        for range in self.indices(Kind::Residue, items, topology.n_residues()) {
            range.for_each(|residue| insert(&mut set, topology, residue));
        }
        self.warn_of_numbers(items);
        set
    }

    /// Warns of residues by index where a macromolecule has others of these numbers, for tables
    /// show the numbers of the file; and of one that is counted into the solvent. Of a list whose
    /// first ones are wrong nobody reads what else is.
    fn warn_of_numbers(&mut self, items: &[Item]) {
        let topology = self.topology;
        let most = self.warnings.len() + MOST_NUMBERS;
        let numbered = LazyCell::new(|| ByNumber::new(topology));
        let solute = LazyCell::new(|| topology.solute());
        let is_solvent =
            |residue| topology.residue_atoms(residue).all(|atom| !solute.contains(atom));
        let first_of_solute =
            LazyCell::new(|| (0..topology.n_residues()).find(|residue| !is_solvent(*residue)));
        for (range, column) in items.iter().filter_map(range_of) {
            if self.warnings.len() >= most {
                break;
            }
            let first = *range.start() as usize - 1;
            let is_there = first < topology.n_residues();
            let is_one = range.start() == range.end();
            // Of a range within molecules the result says what it selects.
            let is_meant = || match is_one {
                // Waters are numbered too, and may be by chance as they are counted.
                true => {
                    topology.residue(first).number == *range.start() && is_of_chain(topology, first)
                }
                false => !is_solvent(first),
            };
            if is_there && is_meant() {
                continue;
            }
            let counted = is_there.then(|| topology.residue_label(first));
            if let Some(named) = numbered.first_in(range) {
                let chain = topology.chain_id(topology.residue(named).chain);
                let is_alone = || {
                    let number = topology.residue(named).number;
                    (0..topology.n_residues())
                        .all(|it| it == named || topology.residue(it).number != number)
                };
                let chain = (!chain.is_empty() && !is_alone()).then(|| chain.to_owned());
                self.warnings.push(MaskWarning::Numbered {
                    column,
                    range: range.clone(),
                    counted,
                    number: topology.residue(named).number,
                    named: topology.residue_label(named),
                    chain,
                });
            } else if is_there
                && is_one
                && is_solvent(first)
                && first_of_solute.is_some_and(|it| it < first)
            {
                let last = (0..first).rev().find(|residue| !is_solvent(*residue));
                if let Some(last) = last {
                    self.warnings.push(MaskWarning::CountedIntoSolvent {
                        column,
                        number: first + 1,
                        counted: topology.residue_label(first),
                        last: last + 1,
                        last_label: topology.residue_label(last),
                    });
                }
            }
        }
    }

    fn chains(&mut self, items: &[Item]) -> AtomSet {
        let topology = self.topology;
        let names = (0..topology.n_residues()).map(|residue| topology.chain_name_id(residue));
        let named = self.named(Kind::Chain, items, names);
        residues_where(topology, |residue| named[topology.chain_name_id(residue)])
    }

    fn author_numbers(&self, items: &[Item]) -> AtomSet {
        let ranges = Ranges::new(
            items.iter().filter_map(range_of).map(|(range, _)| range.clone()).collect(),
        );
        let mut inserted: Vec<_> = items.iter().filter_map(inserted_of).collect();
        inserted.sort_unstable();
        residues_where(self.topology, |residue| {
            let Residue { number, insertion_code, .. } = self.topology.residue(residue);
            ranges.contain(number)
                || insertion_code
                    .is_some_and(|code| inserted.binary_search(&(number, code)).is_ok())
        })
    }

    fn atoms(&mut self, items: &[Item]) -> AtomSet {
        let topology = self.topology;
        let names = (0..topology.n_atoms()).map(|atom| topology.atom_name_id(atom));
        let named = self.named(Kind::Atom, items, names);
        let mut set =
            AtomSet::from_fn(topology.n_atoms(), |atom| named[topology.atom_name_id(atom)]);
        for range in self.indices(Kind::Atom, items, topology.n_atoms()) {
            set.insert_range(range);
        }
        set
    }

    fn atom_types(&mut self, items: &[Item]) -> AtomSet {
        let topology = self.topology;
        let names = (0..topology.n_atoms()).filter_map(|atom| topology.atom_type_id(atom));
        let named = self.named(Kind::AtomType, items, names);
        AtomSet::from_fn(topology.n_atoms(), |atom| {
            topology.atom_type_id(atom).is_some_and(|name| named[name])
        })
    }

    fn elements(&self, items: &[Item]) -> AtomSet {
        let named = Element::all().filter(|element| {
            patterns(items).any(|(p, _)| p.matches(element.symbol(), true) == Match::Yes)
        });
        let named: Vec<_> = named.collect();
        let topology = self.topology;
        AtomSet::from_fn(topology.n_atoms(), |atom| {
            topology.element(atom).is_some_and(|e| named.contains(&e))
        })
    }

    fn molecules(&mut self, items: &[Item]) -> AtomSet {
        let topology = self.topology;
        let mut chosen = AtomSet::none(topology.n_molecules());
        for range in self.indices(Kind::Molecule, items, topology.n_molecules()) {
            chosen.insert_range(range);
        }
        AtomSet::from_fn(topology.n_atoms(), |atom| chosen.contains(topology.molecule_of(atom)))
    }

    /// Which of the topology's names the items take, out of those that things of this kind have.
    fn named(&mut self, kind: Kind, items: &[Item], ids: impl Iterator<Item = usize>) -> Vec<bool> {
        // A pattern is matched against a few hundred distinct names, not against every atom.
        let names = self.topology.names();
        let mut named = vec![false; names.len()];
        if patterns(items).next().is_none() {
            return named;
        }
        let mut used = vec![false; names.len()];
        ids.for_each(|id| used[id] = true);
        let used: Vec<usize> = (0..names.len()).filter(|id| used[*id]).collect();
        for (pattern, column) in patterns(items) {
            let mut found = false;
            for id in &used {
                let name = &names[*id];
                let met = pattern.matches(name, false);
                if met == Match::Stem {
                    self.warnings.push(MaskWarning::Stem { column, name: name.to_string() });
                }
                named[*id] |= met != Match::No;
                found |= met != Match::No;
            }
            if !found
                && let Some((name, instead)) =
                    other_name(pattern, used.iter().map(|id| &*names[*id]))
            {
                self.warnings.push(MaskWarning::OtherName { column, kind, name, instead });
            } else if !found
                && kind == Kind::Chain
                && let Some(name) = pattern.literal()
            {
                let mut chains: Vec<String> = Vec::new();
                for id in self.topology.chains().filter(|id| !id.is_empty()) {
                    if !chains.iter().any(|known| known == id) {
                        chains.push(id.to_owned());
                    }
                }
                // One that has none warns of that.
                if !chains.is_empty() {
                    self.warnings.push(MaskWarning::NoChain { column, name, chains });
                }
            }
        }
        named
    }

    /// The index ranges among the items, counted from 0, as far as there is something.
    fn indices(&mut self, kind: Kind, items: &[Item], n: usize) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for (range, column) in items.iter().filter_map(range_of) {
            let first = *range.start() as u64 as usize;
            let last = *range.end() as u64 as usize;
            if first > n {
                self.warnings.push(MaskWarning::BeyondEnd { column, kind, last: n });
            } else {
                ranges.push(first - 1..last.min(n));
            }
        }
        ranges
    }

    fn within(&mut self, within: &Within) -> Result<AtomSet, SelectError> {
        let Within { unit, farther, cutoff, column, .. } = *within;
        let base = self.expr(&within.base)?;
        let positions = self.positions.ok_or(SelectError::NoPositions { column })?;
        if base.is_empty() {
            return Err(SelectError::NothingToMeasureFrom { column });
        }
        let base: Vec<_> = base.iter().map(|atom| positions[atom]).collect();
        let topology = self.topology;
        let near = match unit {
            Unit::ResidueCentre => {
                let atoms = (0..topology.n_residues()).map(|it| topology.residue_atoms(it));
                let centres = atoms.map(|atoms| centre(atoms.map(|atom| positions[atom])));
                which_are_near(centres, base, self.cell, cutoff)
            }
            _ => which_are_near(positions.iter().copied(), base, self.cell, cutoff),
        };
        let set = match unit {
            Unit::Atom => AtomSet::from_fn(topology.n_atoms(), |atom| near[atom]),
            Unit::Residue => residues_where(topology, |residue| {
                topology.residue_atoms(residue).any(|atom| near[atom])
            }),
            Unit::ResidueCentre => residues_where(topology, |residue| near[residue]),
            Unit::Molecule => {
                let mut chosen = AtomSet::none(topology.n_molecules());
                for atom in (0..topology.n_atoms()).filter(|atom| near[*atom]) {
                    chosen.insert(topology.molecule_of(atom));
                }
                AtomSet::from_fn(topology.n_atoms(), |atom| {
                    chosen.contains(topology.molecule_of(atom))
                })
            }
        };
        Ok(if farther { !set } else { set })
    }
}

impl Expr {
    pub(super) fn measures(&self) -> bool {
        match self {
            Self::Select(_) => false,
            Self::Not(inner) => inner.measures(),
            Self::And(terms) | Self::Or(terms) => terms.iter().any(Self::measures),
            Self::Within(_) => true,
        }
    }
}

/// Residues of macromolecules by their numbers, sorted.
struct ByNumber(Vec<(i64, usize)>);

impl ByNumber {
    fn new(topology: &Topology) -> Self {
        let of_chains = (0..topology.n_residues()).filter(|it| is_of_chain(topology, *it));
        let mut all: Vec<_> = of_chains.map(|it| (topology.residue(it).number, it)).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The first residue whose number is in a range.
    fn first_in(&self, range: &RangeInclusive<i64>) -> Option<usize> {
        let from = self.0.partition_point(|(number, _)| number < range.start());
        let all = self.0[from..].iter().take_while(|(number, _)| number <= range.end());
        all.map(|(_, residue)| *residue).min()
    }
}

/// Ranges of numbers, searched in logarithmic time.
struct Ranges {
    starts: Vec<i64>,
    /// The farthest end of the ranges up to each.
    ends: Vec<i64>,
}

impl Ranges {
    fn new(mut ranges: Vec<RangeInclusive<i64>>) -> Self {
        ranges.sort_unstable_by_key(|range| *range.start());
        let ends = ranges.iter().scan(i64::MIN, |end, range| {
            *end = (*end).max(*range.end());
            Some(*end)
        });
        Self { ends: ends.collect(), starts: ranges.iter().map(|range| *range.start()).collect() }
    }

    fn contain(&self, number: i64) -> bool {
        let n_started = self.starts.partition_point(|start| *start <= number);
        n_started > 0 && number <= self.ends[n_started - 1]
    }
}

fn patterns(items: &[Item]) -> impl Iterator<Item = (&Pattern, usize)> {
    items.iter().filter_map(|item| match item {
        Item::Name { pattern, column } => Some((pattern, *column)),
        _ => None,
    })
}

fn range_of(item: &Item) -> Option<(&RangeInclusive<i64>, usize)> {
    if let Item::Numbers { range, column } = item { Some((range, *column)) } else { None }
}

fn inserted_of(item: &Item) -> Option<(i64, char)> {
    if let Item::Inserted { number, code } = item { Some((*number, *code)) } else { None }
}

/// The name that was perhaps meant by one that nothing has, and that one.
fn other_name<'a>(
    pattern: &Pattern,
    mut names: impl Iterator<Item = &'a str>,
) -> Option<(String, String)> {
    let asked = pattern.literal()?;
    let synonyms = SYNONYMS.iter().find(|names| names.contains(&&*asked)).copied().unwrap_or(&[]);
    let instead =
        names.find(|name| synonyms.contains(name) || name.eq_ignore_ascii_case(&asked))?;
    Some((asked, instead.to_owned()))
}

fn residues_where(topology: &Topology, holds: impl Fn(usize) -> bool) -> AtomSet {
    let mut set = AtomSet::none(topology.n_atoms());
    for residue in (0..topology.n_residues()).filter(|residue| holds(*residue)) {
        insert(&mut set, topology, residue);
    }
    set
}

fn insert(set: &mut AtomSet, topology: &Topology, residue: usize) {
    topology.residue_atoms(residue).for_each(|atom| set.insert(atom));
}

/// Whether a residue has the backbone of a protein or a nucleic acid, or caps one: waters and ions
/// are numbered anyhow.
fn is_of_chain(topology: &Topology, residue: usize) -> bool {
    let is_cap = ["ACE", "NME"].contains(&topology.residue(residue).name);
    let has = |wanted: &str| {
        topology.residue_atoms(residue).any(|atom| topology.atom(atom).name == wanted)
    };
    is_cap || has("CA") && has("C") || has("C4'")
}

fn centre(positions: impl ExactSizeIterator<Item = [f64; 3]>) -> [f64; 3] {
    let n = positions.len() as f64;
    let sum = positions.fold([0.0; 3], |sum, p| [sum[0] + p[0], sum[1] + p[1], sum[2] + p[2]]);
    sum.map(|s| s / n)
}
