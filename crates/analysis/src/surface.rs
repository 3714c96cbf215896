//! Solvent-accessible surface by points on spheres.

use std::f64::consts::PI;
use std::ops::Range;

use crate::cell::{difference, norm};
use crate::frames::Frames;
use crate::group::Group;
use crate::neighbours::{Cloud, Neighbours};
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{Cell, Error};

/// The default radius of the probe, that of water, in Å.
pub const PROBE_RADIUS: f64 = 1.4;

/// Points on the sphere of each atom.
const N_POINTS: usize = 960;

/// Atoms around one after which it is looked whether any of its points is still free.
const CAPS_BETWEEN_LOOKS: usize = 4;

/// The solvent-accessible surface area in each frame, in Å², and of each residue, the mean over
/// frames.
///
/// It is the area over which the centre of a probe can roll (Shrake and Rupley, J. Mol. Biol. 79,
/// 351, 1973): around each atom a sphere of its van der Waals radius and that of the probe, of
/// which the part that is in no other atom's sphere counts, by 960 points on a golden spiral. Radii
/// are [Bondi's](crate::Element::radius). The group is taken as if it were alone in its periodic
/// cell: its atoms cover each other where nearest images put them, so that in a narrow cell, or
/// where a chain goes through it, images of the group cover it too. What is no element has no
/// surface.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceArea {
    /// The atoms.
    pub group: Group,
    /// Radius of the probe in Å, from 0 to 5.
    pub probe_radius: f64,
}

impl SurfaceArea {
    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Surface, Error> {
        if !(0.0..=5.0).contains(&self.probe_radius) {
            return Err(Error::Parameter {
                analysis,
                name: "probe_radius",
                bounds: "from 0 to 5 Å",
            });
        }
        let mut surface = Surface {
            request: self.clone(),
            slots: Vec::new(),
            radii: Vec::new(),
            residues: Vec::new(),
            residue_of: Vec::new(),
            points: spiral(),
        };
        for atom in self.group.atoms.iter() {
            let here = setup.topology().atom(atom);
            let Some(element) = here.element else { continue };
            surface.residue_of.push(here.residue);
            surface.slots.push(setup.slot(atom) as u32);
            surface.radii.push(element.radius() + self.probe_radius);
        }
        if surface.radii.is_empty() {
            return Err(Error::NoRadius { label: self.group.label.clone() });
        }
        surface.residues.clone_from(&surface.residue_of);
        surface.residues.sort_unstable();
        surface.residues.dedup();
        for residue in &mut surface.residue_of {
            *residue = surface.residues.binary_search(residue).expect("it is one of them");
        }
        Ok(surface)
    }
}

/// The spheres and the points on them.
#[derive(Debug)]
pub(crate) struct Surface {
    request: SurfaceArea,
    slots: Vec<u32>,
    /// Of the spheres, in Å.
    radii: Vec<f64>,
    residues: Vec<usize>,
    /// The place of each atom's residue among the residues.
    residue_of: Vec<usize>,
    points: Cloud,
}

/// Areas in some frames, in Å².
#[derive(Debug, Default)]
pub(crate) struct Tally {
    totals: Vec<f64>,
    /// Of each residue, summed over frames.
    by_residue: Vec<f64>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    neighbours: Neighbours,
    centres: Cloud,
    pairs: Vec<[u32; 2]>,
    caps: Vec<Cap>,
    /// 1 for each point of a sphere that is in no cap so far.
    free: Vec<u32>,
}

/// The part of a sphere that is within another: of points on the unit sphere those whose product
/// with the axis is above the cosine of half the opening.
#[derive(Clone, Copy, Debug)]
struct Cap {
    axis: [f64; 3],
    cosine: f64,
}

impl Task for Surface {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally { by_residue: vec![0.0; self.residues.len()], ..Tally::default() }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let Tally { totals, by_residue, scratch } = tally;
        let Scratch { neighbours, centres, pairs, caps, free } = scratch;
        let cell = view.frame.cell();
        centres.read(view.frame, self.slots.iter().copied());
        let reach = 2.0 * self.radii.iter().copied().fold(0.0, f64::max);
        pairs.clear();
        neighbours.pairs(centres, centres, cell, reach, |i, j| {
            if i != j {
                pairs.push([i as u32, j as u32]);
            }
        });
        // Pairs come sorted by their first, or the second if that set is the larger; here it is
        // not.
        let mut of_all = pairs.chunk_by(|a, b| a[0] == b[0]).peekable();
        let mut total = 0.0;
        for atom in 0..self.slots.len() {
            caps.clear();
            if let Some(of_atom) = of_all.next_if(|pairs| pairs[0][0] as usize == atom) {
                caps.extend(
                    of_atom
                        .iter()
                        .filter_map(|[_, other]| self.cap(centres, cell, atom, *other as usize)),
                );
            }
            let part = self.n_free(caps, free) as f64 / N_POINTS as f64;
            let area = 4.0 * PI * self.radii[atom] * self.radii[atom] * part;
            by_residue[self.residue_of[atom]] += area;
            total += area;
        }
        totals.push(total);
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        tally.totals.extend(next.totals);
        tally.by_residue.iter_mut().zip(next.by_residue).for_each(|(sum, next)| *sum += next);
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let n_frames = tally.totals.len() as f64;
        let labels =
            self.residues.iter().map(|residue| frames.topology.residue_label(*residue)).collect();
        let numbers = self.residues.iter().map(|residue| *residue as i64 + 1).collect();
        let means = tally.by_residue.iter().map(|sum| sum / n_frames).collect();
        let by_residue = vec![
            Column::integers("residue", RESIDUE_INDEX, numbers),
            Column::texts("name", "chain and residue", labels),
            Column::numbers("area_angstrom2", Some("Å²"), "mean area of the residue", means),
        ];
        let mut by_frame = frames.columns();
        by_frame.push(Column::numbers(
            "area_angstrom2",
            Some("Å²"),
            "area of the group",
            tally.totals,
        ));
        Outcome::Tables(vec![
            self.table("surface_area", "Solvent-accessible surface of residues", by_residue),
            self.table(
                "surface_area_by_frame",
                "Solvent-accessible surface in each frame",
                by_frame,
            ),
        ])
    }
}

impl Surface {
    /// What another atom covers of an atom's sphere, if anything.
    fn cap(&self, centres: &Cloud, cell: Option<&Cell>, atom: usize, other: usize) -> Option<Cap> {
        let v = Cell::nearest_or(cell, difference(centres.get(other), centres.get(atom)));
        let here = self.radii[atom];
        let there = self.radii[other];
        let distance = norm(v);
        if distance == 0.0 {
            // Of spheres with one centre the largest has all the surface, of equal ones the first.
            let is_covered = there > here || there == here && other < atom;
            return is_covered.then_some(Cap { axis: [0.0, 1.0, 0.0], cosine: -2.0 });
        }
        let cosine = (here * here + distance * distance - there * there) / (2.0 * here * distance);
        (cosine < 1.0).then(|| Cap { axis: v.map(|x| x / distance), cosine })
    }

    /// Points of a sphere that are in no cap.
    fn n_free(&self, caps: &mut [Cap], free: &mut Vec<u32>) -> usize {
        // The largest first, since these alone may leave nothing.
        caps.sort_unstable_by(|a, b| a.cosine.total_cmp(&b.cosine));
        free.clear();
        free.resize(N_POINTS, 1);
        for some in caps.chunks(CAPS_BETWEEN_LOOKS) {
            some.iter().for_each(|cap| cap.cover(&self.points, free));
            if free.iter().fold(0, |any, free| any | free) == 0 {
                return 0;
            }
        }
        free.iter().sum::<u32>() as usize
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let SurfaceArea { group, probe_radius } = &self.request;
        let definition = format!(
            "solvent-accessible surface area of the group and its periodic images alone (Shrake \
             and Rupley 1973), {N_POINTS} points on each atom, radii of Bondi (1964), probe of {probe_radius} Å"
        );
        Table::new(kind, title, definition, vec![TableGroup::new("group", group)], columns)
    }
}

impl Cap {
    /// Takes the points that are in it from those that are free.
    fn cover(&self, points: &Cloud, free: &mut [u32]) {
        // To test a range of points, four at a time, took a peptide from 205 to 353 frames a second.
        let range = self.range();
        let [u, v, w] = self.axis.map(|x| x as f32);
        let cosine = self.cosine as f32;
        let Cloud { x, y, z } = points;
        let points = x[range.clone()].iter().zip(&y[range.clone()]).zip(&z[range.clone()]);
        for (((x, y), z), free) in points.zip(&mut free[range]) {
            *free &= u32::from(u * x + v * y + w * z <= cosine);
        }
    }

    /// The points at heights that it reaches; they rise from one to the next.
    fn range(&self) -> Range<usize> {
        let y = self.axis[1];
        let cosine = self.cosine;
        let sines = ((1.0 - y * y).max(0.0) * (1.0 - cosine * cosine).max(0.0)).sqrt();
        let low = if -y >= cosine { -1.0 } else { y * cosine - sines };
        let high = if y >= cosine { 1.0 } else { y * cosine + sines };
        let [first, last] = [low, high].map(|y| ((y + 1.0) * N_POINTS as f64 - 1.0) / 2.0);
        // With a point to spare at both ends for rounding; below the first is the first.
        let end = (last as usize + 3).min(N_POINTS);
        ((first - 1.0) as usize).min(end)..end
    }
}

/// Points that are evenly spread over the unit sphere, from the lowest to the highest, each turned
/// against the one before by the golden angle.
fn spiral() -> Cloud {
    let golden_angle = PI * (3.0 - 5_f64.sqrt());
    let mut points = Cloud::default();
    for n in 0..N_POINTS {
        let y = (2 * n + 1) as f64 / N_POINTS as f64 - 1.0;
        let (sin, cos) = (n as f64 * golden_angle).sin_cos();
        let across = (1.0 - y * y).sqrt();
        points.x.push((cos * across) as f32);
        points.y.push(y as f32);
        points.z.push((sin * across) as f32);
    }
    points
}
