//! Sets of atoms: one bit each, and the contiguous ranges they form.

use std::ops::{Not, Range};

/// A set of atom indices below a fixed number of atoms.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AtomSet {
    words: Vec<u64>,
    n_atoms: usize,
}

impl AtomSet {
    /// No atom of `n_atoms`.
    pub fn none(n_atoms: usize) -> Self {
        Self { words: vec![0; n_atoms.div_ceil(64)], n_atoms }
    }

    /// Every atom of `n_atoms`.
    pub fn all(n_atoms: usize) -> Self {
        let mut all = Self::none(n_atoms);
        all.insert_range(0..n_atoms);
        all
    }

    /// The atoms of `n_atoms` for which `holds` is true.
    pub fn from_fn(n_atoms: usize, mut holds: impl FnMut(usize) -> bool) -> Self {
        let mut set = Self::none(n_atoms);
        for (word, first) in set.words.iter_mut().zip((0..).step_by(64)) {
            for bit in 0..64.min(n_atoms - first) {
                *word |= u64::from(holds(first + bit)) << bit;
            }
        }
        set
    }

    /// Number of atoms that could be in the set.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Number of atoms in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no atom is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether an atom is in the set.
    pub fn contains(&self, atom: usize) -> bool {
        atom < self.n_atoms && self.words[atom / 64] >> (atom % 64) & 1 == 1
    }

    /// Adds one atom.
    ///
    /// # Panics
    ///
    /// If there is no such atom.
    pub fn insert(&mut self, atom: usize) {
        assert!(atom < self.n_atoms, "atom {atom} of {}", self.n_atoms);
        self.words[atom / 64] |= 1 << (atom % 64);
    }

    /// Adds a range of atoms.
    ///
    /// # Panics
    ///
    /// If it reaches beyond the last atom.
    pub fn insert_range(&mut self, atoms: Range<usize>) {
        assert!(atoms.end <= self.n_atoms, "atoms {atoms:?} of {}", self.n_atoms);
        if atoms.is_empty() {
            return;
        }
        let first = atoms.start / 64;
        let last = (atoms.end - 1) / 64;
        let head = u64::MAX << (atoms.start % 64);
        let tail = u64::MAX >> (63 - (atoms.end - 1) % 64);
        if first == last {
            self.words[first] |= head & tail;
        } else {
            self.words[first] |= head;
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= tail;
        }
    }

    /// Adds the atoms of another set.
    pub fn union_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Keeps the atoms that are in the other set too.
    pub fn intersect_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// Whether all of its atoms are in the other set.
    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    /// The atoms, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().zip((0..).step_by(64)).flat_map(|(word, first)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.checked_sub(1)?;
                Some(first + bit)
            })
        })
    }

    /// The maximal runs of neighbouring atoms, ascending.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for atom in self.iter() {
            match ranges.last_mut() {
                Some(run) if run.end == atom => run.end += 1,
                _ => ranges.push(atom..atom + 1),
            }
        }
        ranges
    }
}

impl Not for AtomSet {
    type Output = Self;

    fn not(mut self) -> Self {
        self.words.iter_mut().for_each(|word| *word = !*word);
        if let Some(last) = self.words.last_mut()
            && !self.n_atoms.is_multiple_of(64)
        {
            *last &= (1 << (self.n_atoms % 64)) - 1;
        }
        self
    }
}

impl std::fmt::Debug for AtomSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::AtomSet;

    #[test]
    fn ranges_are_what_was_inserted() {
        for n_atoms in [0, 1, 63, 64, 65, 200] {
            for start in 0..n_atoms {
                for end in start + 1..=n_atoms {
                    let mut set = AtomSet::none(n_atoms);
                    set.insert_range(start..end);
                    assert_eq!(set.ranges().as_slice(), std::slice::from_ref(&(start..end)));
                    assert_eq!((!!set.clone(), set.len()), (set, end - start));
                }
            }
            assert_eq!(!AtomSet::none(n_atoms), AtomSet::all(n_atoms));
        }
    }

    #[test]
    fn iteration_gives_what_the_predicate_holds_for() {
        let thirds = AtomSet::from_fn(1000, |atom| atom % 3 == 0);
        assert_eq!(thirds.iter().collect::<Vec<_>>(), (0..1000).step_by(3).collect::<Vec<_>>());
        assert!(thirds.contains(999) && !thirds.contains(1000));
    }
}
