//! Where residues are on an axis, and what they are called there.

use std::collections::{BTreeMap, HashMap};

use molbox_analysis::AxisResidue;

/// A place on an axis and what it is called.
pub type Named = (i64, String);

/// The places of the rows of a table along the residues of chains, which lie over each other.
///
/// As a rule a place is the number that the file has. Residues of one number in a chain, which
/// insertion codes or names tell apart, have a place each: those with codes behind the number, so
/// that all after them move, and others, as a ligand that is numbered anew, behind the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResiduePlaces {
    /// Of each row.
    pub of_rows: Vec<i64>,
    /// What places are called, ascending; none where all are called by their number.
    pub names: Vec<Named>,
}

/// What a place is shared by in all chains: which of several residues of one number and code it is,
/// its number, and which of the codes of this number.
type Slot = (usize, i64, usize);

impl ResiduePlaces {
    /// Of rows in the order of a table: the chain or molecule of each, its label, of which what is
    /// after `@` is not looked at, and its number in the file.
    pub fn of<'a, P: Copy + Eq + std::hash::Hash>(
        rows: impl Iterator<Item = (P, &'a str, i64)>,
    ) -> Self {
        let mut codes: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
        let mut residues: HashMap<(P, i64, &str), Vec<&str>> = HashMap::new();
        let mut names: BTreeMap<Slot, String> = BTreeMap::new();
        let mut slots = Vec::new();
        for (part, label, number) in rows {
            let label = label.split_once('@').map_or(label, |(residue, _)| residue);
            let code = insertion_code(label, number);
            let nth_code = place_in(codes.entry(number).or_default(), code);
            let copy = place_in(residues.entry((part, number, code)).or_default(), label);
            let slot = (copy, number, nth_code);
            names.entry(slot).or_insert_with(|| match copy {
                0 => format!("{number}{code}"),
                _ => label.split_once(':').map_or(label, |(_, residue)| residue).to_owned(),
            });
            slots.push(slot);
        }
        if names.keys().all(|(copy, _, nth_code)| *copy == 0 && *nth_code == 0)
            && codes.values().all(|codes| codes == &[""])
        {
            return Self {
                of_rows: slots.into_iter().map(|(_, number, _)| number).collect(),
                names: Vec::new(),
            };
        }
        let mut places: BTreeMap<Slot, i64> = BTreeMap::new();
        let mut last: Option<(Slot, i64)> = None;
        for slot in names.keys() {
            let at = match last {
                None => slot.1,
                // Where what is numbered anew begins, a line ends.
                Some((before, at)) if before.0 != slot.0 => at.saturating_add(2),
                Some((before, at)) => at.saturating_add((slot.1.saturating_sub(before.1)).max(1)),
            };
            places.insert(*slot, at);
            last = Some((*slot, at));
        }
        Self {
            of_rows: slots.iter().map(|slot| places[slot]).collect(),
            names: names.into_iter().map(|(slot, name)| (places[&slot], name)).collect(),
        }
    }
}

/// Where a text is in a list, to which it is added if it is not.
fn place_in<'a>(known: &mut Vec<&'a str>, text: &'a str) -> usize {
    known.iter().position(|one| *one == text).unwrap_or_else(|| {
        known.push(text);
        known.len() - 1
    })
}

/// What a label, as `A:LYS10B`, has behind the number of its residue.
fn insertion_code(label: &str, number: i64) -> &str {
    label.rsplit_once(&number.to_string()).map_or("", |(_, code)| code)
}

/// What residues are called that have their places by their numbers through the whole system: with
/// their chains where these are several. None where they are called so anyway.
pub(crate) fn names<'a>(residues: impl Iterator<Item = &'a AxisResidue> + Clone) -> Vec<Named> {
    let mut chains: Vec<&str> = residues.clone().map(|residue| residue.chain.as_str()).collect();
    chains.dedup();
    let has_several = chains.len() > 1;
    let names: Vec<Named> = residues
        .map(|residue| {
            let AxisResidue { number, in_file, chain, .. } = residue;
            let name = match has_several && !chain.is_empty() {
                true => format!("{chain}:{in_file}"),
                false => in_file.clone(),
            };
            (*number as i64, name)
        })
        .collect();
    let are_numbers = names.iter().all(|(number, name)| *name == number.to_string());
    if are_numbers { Vec::new() } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(rows: &[(&str, &str, i64)]) -> ResiduePlaces {
        ResiduePlaces::of(rows.iter().copied())
    }

    #[test]
    fn chains_without_insertion_codes_lie_over_each_other_by_their_numbers() {
        let rows = [("A", "A:ALA7@CA", 7), ("A", "A:GLY9@CA", 9), ("B", "B:SER7@CA", 7)];
        assert_eq!(places(&rows), ResiduePlaces { of_rows: vec![7, 9, 7], names: Vec::new() });
    }

    #[test]
    fn residues_with_insertion_codes_have_places_of_their_own_in_all_chains() {
        let rows = [
            ("H", "H:SER52", 52),
            ("H", "H:PRO52A", 52),
            ("H", "H:TYR53", 53),
            ("L", "L:ALA52", 52),
            ("L", "L:GLY53", 53),
        ];
        let found = places(&rows);
        assert_eq!(found.of_rows, [52, 53, 54, 52, 54]);
        let names: Vec<_> = found.names.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["52", "52A", "53"]);
    }

    #[test]
    fn what_is_numbered_anew_in_a_chain_is_behind_it() {
        let rows = [("A", "A:ALA1", 1), ("A", "A:GLY2", 2), ("A", "A:LIG1", 1), ("A", "A:ZN4", 4)];
        let found = places(&rows);
        assert_eq!(found.of_rows, [1, 2, 6, 4]);
        assert_eq!(found.names.last(), Some(&(6, "LIG1".to_owned())));
    }

    #[test]
    fn atoms_of_a_residue_are_in_one_place_and_names_may_end_in_digits() {
        let rows = [("", "DA510@C1'", 10), ("", "DA510@P", 10), ("", "DA510A@P", 10)];
        assert_eq!(places(&rows).of_rows, [10, 10, 11]);
    }
}
