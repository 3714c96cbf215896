//! The topology of a built system, as the worker wrote it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use molbox_analysis::{
    Atom, AtomSet, Cell, Element, Mask, Residue, SelectError, Selection, Topology,
};
use serde::Deserialize;

use crate::error::ApiError;
use crate::http::validate::{loc, violation};
use crate::objects::{Key, Objects};
use crate::recent::Recent;

/// `topology.json`; the worker's `topology.py` describes it.
#[derive(Deserialize)]
struct Stored {
    atoms: Atoms,
    residues: Residues,
    chains: Chains,
    bonds: Vec<[u32; 2]>,
    /// In nm.
    positions: Vec<[f64; 3]>,
}

#[derive(Deserialize)]
struct Atoms {
    name: Vec<String>,
    element: Vec<String>,
    mass: Vec<f64>,
    residue: Vec<usize>,
}

#[derive(Deserialize)]
struct Residues {
    name: Vec<String>,
    id: Vec<String>,
    insertion: Vec<String>,
    chain: Vec<usize>,
}

#[derive(Deserialize)]
struct Chains {
    id: Vec<String>,
}

/// A built system to select atoms from.
pub(crate) struct Built {
    topology: Topology,
    /// Positions as built, in Å.
    positions: Vec<[f64; 3]>,
    /// Masks that select something, each with what to say of it: most jobs on a system have those of
    /// the one before.
    good: Mutex<HashMap<String, Vec<String>>>,
}

/// How many masks are remembered for a system, and how long they may be.
const MAX_MASKS: usize = 100;
const MAX_MASK_LENGTH: usize = 1000;

impl Recent<Built> {
    /// A system that has been built. Reading one takes a thousand times longer than what a job's
    /// submission wants of it.
    pub(crate) fn read(&self, objects: &Objects, system_id: &str) -> anyhow::Result<Arc<Built>> {
        self.find_or_read(system_id, || {
            let key = Key::task(system_id).under("topology.json");
            // A large one keeps its thread busy for a while.
            let built = tokio::task::block_in_place(|| {
                let text = objects.read(&key).with_context(|| format!("read {key}"))?;
                Built::parse(&text).with_context(|| format!("read {key}"))
            })?;
            let n_atoms = built.topology.n_atoms();
            Ok((Arc::new(built), n_atoms))
        })
    }
}

/// Why a mask cannot be used.
pub(crate) struct BadMask {
    /// What is wrong, for people.
    message: String,
    /// Where, in characters from 1, if it is at one place.
    column: Option<usize>,
}

impl BadMask {
    /// The refusal of a request that has the mask in its query.
    pub(crate) fn in_query(self) -> ApiError {
        let mut violation = violation("mask", vec![loc("query"), loc("mask")], self.message);
        violation.ctx.extend(self.column.map(|column| ("column".to_owned(), column.into())));
        ApiError::invalid(vec![violation])
    }
}

/// What a mask selects of a structure, perhaps nothing; positions are in Å.
///
/// # Errors
///
/// What is wrong with the mask.
pub(crate) fn selection(
    topology: &Topology,
    positions: &[[f64; 3]],
    mask: &str,
) -> Result<Selection, BadMask> {
    let bad =
        |column, error: &dyn std::error::Error| BadMask { message: error.to_string(), column };
    let parsed = Mask::parse(mask).map_err(|e| bad(Some(e.column), &e))?;
    parsed.select(topology, Some(positions)).map_err(|e| match e {
        SelectError::NoPositions { column } | SelectError::NothingToMeasureFrom { column } => {
            bad(Some(column), &e)
        }
        SelectError::PositionCount { .. } => bad(None, &e),
    })
}

/// The atoms of a mask, of which there must be some.
///
/// # Errors
///
/// The same, and what may have been meant by a mask that selects nothing.
pub(crate) fn selected(
    topology: &Topology,
    positions: &[[f64; 3]],
    mask: &str,
) -> Result<AtomSet, BadMask> {
    selected_with_warnings(topology, positions, mask).map(|(atoms, _)| atoms)
}

/// The same, with what the user may not have meant.
fn selected_with_warnings(
    topology: &Topology,
    positions: &[[f64; 3]],
    mask: &str,
) -> Result<(AtomSet, Vec<String>), BadMask> {
    let Selection { atoms, warnings } = selection(topology, positions, mask)?;
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    if atoms.is_empty() {
        return Err(BadMask { message: warnings.join("; "), column: None });
    }
    Ok((atoms, warnings))
}

impl Built {
    /// The atoms of a mask, of which there must be some.
    ///
    /// # Errors
    ///
    /// What is wrong with the mask, for people.
    pub(crate) fn select(&self, mask: &str) -> Result<Vec<usize>, String> {
        Ok(self.selected(mask)?.0.iter().collect())
    }

    /// Checks that a mask selects any atoms: what it selects, and the user may not have meant.
    ///
    /// # Errors
    ///
    /// The same.
    pub(crate) fn check(&self, mask: &str) -> Result<Vec<String>, String> {
        if let Some(warnings) = self.good().get(mask) {
            return Ok(warnings.clone());
        }
        let (_, warnings) = self.selected(mask)?;
        if mask.len() <= MAX_MASK_LENGTH {
            let mut good = self.good();
            if good.len() == MAX_MASKS {
                good.clear();
            }
            good.insert(mask.to_owned(), warnings.clone());
        }
        Ok(warnings)
    }

    fn selected(&self, mask: &str) -> Result<(AtomSet, Vec<String>), String> {
        selected_with_warnings(&self.topology, &self.positions, mask)
            .map_err(|bad| format!("{mask:?}: {}", bad.message))
    }

    /// What to say of a mask whose distances end at a face of the cell, where that decides what it
    /// selects.
    pub(crate) fn without_images(&self, mask: &str, cell: &Cell) -> Option<String> {
        let mask = Mask::parse(mask).ok().filter(Mask::needs_positions)?;
        let atoms = mask.select(&self.topology, Some(&self.positions)).ok()?.atoms;
        let difference = mask.without_images(&self.topology, &self.positions, cell, &atoms)?;
        Some(difference.to_string())
    }

    fn good(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Positions as built, in Å.
    pub(crate) fn positions(&self) -> &[[f64; 3]] {
        &self.positions
    }

    /// A copy of both.
    pub(crate) fn parts(&self) -> (Topology, Vec<[f64; 3]>) {
        (self.topology.clone(), self.positions.clone())
    }

    pub(crate) fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let stored: Stored = serde_json::from_slice(text)?;
        let atoms = stored.atoms;
        let residues = stored.residues;
        let topology = Topology::new(
            (0..atoms.name.len()).map(|i| Atom {
                name: &atoms.name[i],
                element: Element::from_symbol(&atoms.element[i]),
                atom_type: None,
                mass_da: atoms.mass[i],
                residue: atoms.residue[i],
            }),
            (0..residues.name.len()).map(|i| Residue {
                name: &residues.name[i],
                // OpenMM numbers what it adds itself; an author's number may be no number.
                number: residues.id[i].parse().unwrap_or(i as i64 + 1),
                insertion_code: residues.insertion[i].chars().next(),
                chain: residues.chain[i],
            }),
            stored.chains.id.iter().map(String::as_str),
            stored.bonds,
        )?;
        let positions = stored.positions.iter().map(|nm| nm.map(|x| x * 10.0)).collect();
        Ok(Self { topology, positions, good: Mutex::default() })
    }
}
