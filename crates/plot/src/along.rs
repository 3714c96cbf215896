//! Figures whose axes are residues.

use molbox_analysis::{AxisResidue, ResidueAxis, Table, Values};

use crate::places::names;
use crate::table::{RESIDUE_NUMBER, places_of};
use crate::{Figure, Track};

/// Rows of chains above a figure at most; with more there are none.
const MAX_TRACKS: usize = 12;

impl Figure {
    /// The [figure of a table](Self::of), with chains and secondary structure where an axis has
    /// residues.
    pub fn along(table: &Table, axis: &ResidueAxis) -> Option<Self> {
        let mut figure = Self::of(table)?;
        let within = |(low, high): (f64, f64)| {
            let is_shown =
                move |residue: &&AxisResidue| (low..=high).contains(&(residue.number as f64));
            axis.residues.iter().filter(is_shown)
        };
        let tracks = match table.kind {
            "rmsf" | "rmsf_by_residue" if figure.x_label == RESIDUE_NUMBER => by_chain(table, axis),
            "contacts" | "native_contacts" => figure.map.as_mut().and_then(|map| {
                let shown = within(map.x);
                map.names = names(shown.clone());
                shown_alone(Track::of(shown.map(|residue| (residue.number as i64, residue))))
            }),
            "secondary_structure" | "surface_area" => {
                let points = figure.panels.iter().flat_map(|panel| &panel.lines);
                let points = points.flat_map(|line| &line.points).map(|(residue, _)| *residue);
                let (low, high) = points.fold((f64::INFINITY, f64::NEG_INFINITY), |range, at| {
                    (at.min(range.0), at.max(range.1))
                });
                figure.x_names = names(within((low, high)));
                let is_shown = |number: &&i64| (low..=high).contains(&(**number as f64));
                let numbers: Vec<i64> = measured(table).iter().filter(is_shown).copied().collect();
                shown_alone(through_system(&numbers, axis))
            }
            _ => None,
        };
        if let Some(states) = &mut figure.states {
            states.track = through_system(&table.residues, axis);
            states.y_names = names(within(states.y));
        }
        let tracks = tracks.unwrap_or_default();
        let has_folds = tracks.iter().any(|track| !track.folds.is_empty());
        let track_note = if has_folds { format!("in {}", axis.origin) } else { String::new() };
        Some(Self { tracks, track_note, ..figure })
    }
}

/// The residues of a table by residue.
fn measured(table: &Table) -> &[i64] {
    match table.column("residue").map(|column| &column.values) {
        Some(Values::Integers(numbers)) => numbers,
        _ => &[],
    }
}

/// The one row of a figure; none of one chain of which nothing is known, as that is what the axis is.
fn shown_alone(track: Track) -> Option<Vec<Track>> {
    (track.spans.len() > 1 || !track.folds.is_empty()).then(|| vec![track])
}

/// A row with all chains of residues, by their numbers through the whole system.
fn through_system(numbers: &[i64], axis: &ResidueAxis) -> Track {
    let measured = axis.residues.iter().filter_map(|residue| {
        let number = residue.number as i64;
        numbers.binary_search(&number).is_ok().then_some((number, residue))
    });
    Track::of(measured)
}

/// A row for each chain of a table of fluctuations.
fn by_chain(table: &Table, axis: &ResidueAxis) -> Option<Vec<Track>> {
    let Values::Texts(labels) = &table.column("name")?.values else { return None };
    let places = places_of(table)?.of_rows;
    // Through the whole system; of atoms there are labels alone.
    let of_system = match table.column("residue").map(|column| &column.values) {
        Some(Values::Integers(of_system)) => Some(of_system),
        _ => None,
    };
    let molecules = match table.column("molecule").map(|column| &column.values) {
        Some(Values::Integers(molecules)) => Some(molecules),
        _ => None,
    };
    let rows = labels.iter().zip(places).enumerate();
    Track::by_chain(
        rows.map(|(row, (label, place))| PlacedResidue {
            label,
            place,
            of_system: of_system.map(|of_system| of_system[row]),
            molecule: molecules.map(|molecules| molecules[row]),
        }),
        axis,
    )
}

/// A residue, or an atom of one, in the order of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedResidue<'a> {
    /// Chain, name and number of the file; what is after `@` is not looked at.
    pub label: &'a str,
    /// [Where it is](crate::ResiduePlaces) on the axis.
    pub place: i64,
    /// Number through the whole system, which copies of a chain do not share as they may labels.
    pub of_system: Option<i64>,
    /// Its molecule, where several have residues of the same label.
    pub molecule: Option<i64>,
}

/// A chain, and the molecule of it where several are alike.
type Part<'a> = (&'a str, Option<i64>);

impl Track {
    /// A row for each chain, by the places that residues have; none where residues cannot be told
    /// apart or are not on the axis, and where nothing is folded.
    pub fn by_chain<'a>(
        placed: impl Iterator<Item = PlacedResidue<'a>>,
        axis: &ResidueAxis,
    ) -> Option<Vec<Self>> {
        let mut all = axis.residues.iter().map(|residue| &residue.label).collect::<Vec<_>>();
        all.sort_unstable();
        let is_ambiguous = all.windows(2).any(|pair| pair[0] == pair[1]);
        let mut residues = axis.residues.iter();
        let mut chains: Vec<(Part<'_>, Vec<(i64, &AxisResidue)>)> = Vec::new();
        let mut last = None;
        for PlacedResidue { label, place, of_system, molecule } in placed {
            if of_system.is_none() && is_ambiguous {
                return None;
            }
            let label = label.split_once('@').map_or(label, |(residue, _)| residue);
            if last == Some((label, of_system)) {
                continue;
            }
            last = Some((label, of_system));
            // Both are in the order of the topology.
            let residue = residues.find(|residue| {
                residue.label == label
                    && of_system.is_none_or(|number| number == residue.number as i64)
            })?;
            let part = (residue.chain.as_str(), molecule);
            match chains.iter_mut().find(|(known, _)| *known == part) {
                Some((_, of_chain)) => of_chain.push((place, residue)),
                None => chains.push((part, vec![(place, residue)])),
            }
        }
        if chains.len() > MAX_TRACKS {
            return None;
        }
        let tracks: Vec<Self> = chains
            .into_iter()
            .map(|((_, molecule), residues)| {
                let track = Self::of(residues.into_iter());
                match molecule {
                    Some(number) => track.named(&number.to_string()),
                    None => track,
                }
            })
            .collect();
        tracks.iter().any(|track| !track.folds.is_empty()).then_some(tracks)
    }
}
