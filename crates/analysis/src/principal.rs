//! Principal components: the directions in which a group moves most.

use std::f64::consts::PI;

use crate::eigen::largest;
use crate::frames::Frames;
use crate::group::{Group, ImageGroup, Weights};
use crate::points::Points;
use crate::setup::Setup;
use crate::source::{Members, View};
use crate::superpose::Target;
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{Error, Topology};

/// Atoms of a group at most: the covariance grows with their square.
pub(crate) const MAX_ATOMS: usize = 500;

/// The default of the number of components.
pub(crate) const N_COMPONENTS: usize = 5;

/// Frames whose products are added at once.
const AT_ONCE: usize = 4;

/// Principal components of the positions of a group.
///
/// The eigenvectors of the covariance of its 3n coordinates, by frames − 1, frames superposed on
/// their average, which is that of frames superposed on the first (Amadei, Linssen and Berendsen,
/// Proteins 17, 412, 1993).
#[derive(Clone, Debug, PartialEq)]
pub struct PrincipalComponents {
    /// The atoms, all alike; 2 to 500.
    pub group: Group,
    /// How many components are given, from the one with the largest variance on.
    pub n_components: usize,
}

/// Atoms by their labels, and what is the same in all passes.
#[derive(Clone, Debug)]
struct Common {
    request: PrincipalComponents,
    members: Members,
    /// Number from 1 and label of each atom.
    atoms: Vec<(i64, String)>,
}

/// The pass that finds the average.
#[derive(Debug)]
pub(crate) struct Average {
    common: Common,
    reference: Target,
}

/// The pass that finds the covariance.
#[derive(Debug)]
struct Covariance {
    common: Common,
    reference: Target,
}

/// The pass that projects frames.
#[derive(Debug)]
struct Projection {
    common: Common,
    reference: Target,
    /// The mean of the deviations from the reference.
    mean: Vec<f64>,
    /// Mean positions in Å.
    positions: Vec<[f64; 3]>,
    components: Vec<(f64, Vec<f64>)>,
    /// The variance of all coordinates.
    total: f64,
}

impl PrincipalComponents {
    pub(crate) fn image_group(&self) -> ImageGroup {
        ImageGroup::of(&self.group)
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Average, Error> {
        let parameter = |name, bounds| Err(Error::Parameter { analysis, name, bounds });
        if self.group.atoms.len() > MAX_ATOMS {
            return parameter("group", "of at most 500 atoms, such as α-carbons");
        }
        if self.n_components == 0 || self.n_components > 3 * MAX_ATOMS {
            return parameter("n_components", "from 1 to 1500");
        }
        let members = setup.members(&self.group);
        let weighing = setup.weighing(&self.group, Weights::Equal)?;
        let reference = Target::new(&setup.first_positions(&members), weighing);
        reference.check(true).map_err(|problem| {
            let label = self.group.label.clone();
            Error::NoRotation { analysis, label, problem }
        })?;
        let atoms = labels(setup.topology(), &self.group);
        Ok(Average { common: Common { request: self.clone(), members, atoms }, reference })
    }
}

fn labels(topology: &Topology, group: &Group) -> Vec<(i64, String)> {
    group.atoms.iter().map(|atom| (atom as i64 + 1, topology.atom_label(atom))).collect()
}

/// Sums of deviations.
#[derive(Debug)]
pub(crate) struct Sums {
    n_frames: usize,
    deviation: Points,
    square: Vec<f64>,
    points: Points,
}

impl Task for Average {
    type Tally = Sums;

    fn start(&self) -> Sums {
        let deviation = Points::zeros(self.common.members.len());
        let square = deviation.x.clone();
        Sums { n_frames: 0, deviation, square, points: Points::default() }
    }

    fn frame(&self, view: &View<'_>, sums: &mut Sums) {
        self.common.members.positions(view, &mut sums.points);
        let motion = self.reference.fit(&sums.points);
        let Sums { deviation, square, points, .. } = sums;
        self.reference.add_deviations(points, &motion, deviation, square);
        sums.n_frames += 1;
    }

    fn append(&self, sums: &mut Sums, mut next: Sums) {
        sums.n_frames += next.n_frames;
        let columns = sums.deviation.columns_mut().into_iter().zip(next.deviation.columns_mut());
        for (sum, next) in columns {
            sum.iter_mut().zip(next).for_each(|(sum, next)| *sum += *next);
        }
    }

    fn finish(&self, sums: Sums, _: &Frames<'_>) -> Outcome {
        let reference = self.reference.moved(&sums.deviation, sums.n_frames);
        Outcome::Again(Box::new(Covariance { common: self.common.clone(), reference }))
    }
}

impl Common {
    /// x₁, y₁, z₁, x₂ and so on, as deviations from the reference.
    fn deviations(&self, view: &View<'_>, reference: &Target, points: &mut Points) -> Vec<f64> {
        self.members.positions(view, points);
        let motion = reference.fit(points);
        let n = self.members.len();
        let mut vectors = Points::zeros(n);
        let mut squares = vectors.x.clone();
        reference.add_deviations(points, &motion, &mut vectors, &mut squares);
        (0..n).flat_map(|n| vectors.get(n)).collect()
    }

    fn n_coordinates(&self) -> usize {
        3 * self.members.len()
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let definition = "eigenvectors of the covariance of all coordinates, by frames − 1 and \
                          with equal weights, frames superposed on their average, which is that of \
                          frames superposed on the first (Amadei, Linssen and Berendsen 1993)";
        let groups = vec![TableGroup::new("group", &self.request.group)];
        Table::new(kind, title, definition.to_owned(), groups, columns)
    }
}

/// Sums of products.
#[derive(Debug)]
struct Products {
    n_frames: usize,
    sum: Vec<f64>,
    /// The upper half of Σ d·dᵀ, row by row.
    products: Vec<f64>,
    /// Deviations whose products are not added yet.
    waiting: Vec<Vec<f64>>,
    points: Points,
}

impl Products {
    fn add(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let n = self.sum.len();
        let mut rest = self.products.as_mut_slice();
        for i in 0..n {
            let (row, after) = rest.split_at_mut(n - i);
            if let [a, b, c, d] = waiting.as_slice() {
                let at = [a[i], b[i], c[i], d[i]];
                let columns = a[i..].iter().zip(&b[i..]).zip(c[i..].iter().zip(&d[i..]));
                for (sum, ((a, b), (c, d))) in row.iter_mut().zip(columns) {
                    *sum += (at[0] * a + at[1] * b) + (at[2] * c + at[3] * d);
                }
            } else {
                for one in &waiting {
                    let at = one[i];
                    row.iter_mut().zip(&one[i..]).for_each(|(sum, x)| *sum += at * x);
                }
            }
            rest = after;
        }
    }
}

impl Task for Covariance {
    type Tally = Products;

    fn start(&self) -> Products {
        let n = self.common.n_coordinates();
        Products {
            n_frames: 0,
            sum: vec![0.0; n],
            products: vec![0.0; n * (n + 1) / 2],
            waiting: Vec::new(),
            points: Points::default(),
        }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Products) {
        let deviations = self.common.deviations(view, &self.reference, &mut tally.points);
        tally.sum.iter_mut().zip(&deviations).for_each(|(sum, x)| *sum += x);
        tally.waiting.push(deviations);
        tally.n_frames += 1;
        if tally.waiting.len() == AT_ONCE {
            tally.add();
        }
    }

    fn append(&self, tally: &mut Products, mut next: Products) {
        next.add();
        tally.n_frames += next.n_frames;
        tally.sum.iter_mut().zip(&next.sum).for_each(|(sum, next)| *sum += next);
        tally.products.iter_mut().zip(&next.products).for_each(|(sum, next)| *sum += next);
    }

    fn finish(&self, tally: Products, _: &Frames<'_>) -> Outcome {
        let n = self.common.n_coordinates();
        let n_frames = tally.n_frames as f64;
        let mean: Vec<f64> = tally.sum.iter().map(|sum| sum / n_frames).collect();
        // One frame has no covariance.
        let divisor = (n_frames - 1.0).max(1.0);
        let mut matrix = vec![0.0; n * n];
        let mut products = tally.products.iter();
        for i in 0..n {
            for j in i..n {
                let sum = products.next().expect("half a matrix has a number for each pair");
                let covariance = (sum - n_frames * mean[i] * mean[j]) / divisor;
                matrix[i * n + j] = covariance;
                matrix[j * n + i] = covariance;
            }
        }
        let total = (0..n).map(|k| matrix[k * n + k]).sum();
        let n_wanted = self.common.request.n_components.min(n);
        let components =
            if tally.n_frames > 1 { largest(&matrix, n, n_wanted) } else { Vec::new() };
        let positions = self.reference.positions(self.common.members.len());
        let positions = positions.into_iter().zip(mean.as_chunks::<3>().0);
        let positions = positions.map(|(at, mean)| [0, 1, 2].map(|k| at[k] + mean[k])).collect();
        Outcome::Again(Box::new(Projection {
            common: self.common.clone(),
            reference: self.reference.clone(),
            mean,
            positions,
            components,
            total,
        }))
    }
}

/// Projections of the frames so far, those of one frame after those of another.
#[derive(Debug, Default)]
struct Projected {
    values: Vec<f64>,
    points: Points,
}

impl Task for Projection {
    type Tally = Projected;

    fn start(&self) -> Projected {
        Projected::default()
    }

    fn frame(&self, view: &View<'_>, projected: &mut Projected) {
        let deviations = self.common.deviations(view, &self.reference, &mut projected.points);
        projected.values.extend(self.components.iter().map(|(_, component)| {
            let deviations = deviations.iter().zip(&self.mean).map(|(x, mean)| x - mean);
            deviations.zip(component).map(|(x, along)| x * along).sum::<f64>()
        }));
    }

    fn append(&self, projected: &mut Projected, next: Projected) {
        projected.values.extend(next.values);
    }

    fn finish(&self, projected: Projected, frames: &Frames<'_>) -> Outcome {
        let n = self.components.len();
        let series: Vec<Vec<f64>> = (0..n)
            .map(|k| projected.values.iter().skip(k).step_by(n.max(1)).copied().collect())
            .collect();
        let mut by_frame = frames.columns();
        by_frame.extend(series.iter().enumerate().map(|(k, values)| {
            let name = format!("pc{}_angstrom", k + 1);
            let definition = format!("projection on component {}", k + 1);
            Column::numbers(name, Some("Å"), definition, values.clone())
        }));
        Outcome::Tables(vec![
            self.common.table(
                "principal_components",
                "Principal components",
                self.variances(&series),
            ),
            self.common.table("projections", "Projections on principal components", by_frame),
            self.common.table("principal_modes", "Modes of principal components", self.modes()),
        ])
    }
}

impl Projection {
    /// A row for each component.
    fn variances(&self, series: &[Vec<f64>]) -> Vec<Column> {
        let values: Vec<f64> = self.components.iter().map(|(value, _)| *value).collect();
        let mut so_far = 0.0;
        let cumulative = values.iter().map(|value| {
            so_far += value;
            so_far / self.total
        });
        let cosines = series.iter().enumerate().map(|(k, values)| cosine_content(values, k + 1));
        vec![
            Column::integers(
                "component",
                "number of the component, from 1 for the largest variance",
                (1..=values.len() as i64).collect(),
            ),
            Column::numbers("variance_angstrom2", Some("Å²"), "eigenvalue", values.clone()),
            Column::numbers(
                "fraction",
                None,
                "part of the variance of all coordinates",
                values.iter().map(|value| value / self.total).collect(),
            ),
            Column::numbers("cumulative", None, "the same of all up to it", cumulative.collect()),
            Column::numbers(
                "cosine_content",
                None,
                "likeness to random diffusion, 0 to 1 (Hess 2002)",
                cosines.collect(),
            ),
        ]
    }

    /// A row for each atom.
    fn modes(&self) -> Vec<Column> {
        let is_empty = self.components.is_empty();
        let atoms = if is_empty { &[][..] } else { &self.common.atoms[..] };
        let mut columns = vec![
            Column::integers(
                "atom",
                "number of the atom, counted from 1",
                atoms.iter().map(|(number, _)| *number).collect(),
            ),
            Column::texts(
                "name",
                "chain, residue and atom",
                atoms.iter().map(|(_, label)| label.clone()).collect(),
            ),
        ];
        for (k, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let positions = self.positions[..atoms.len()].iter().map(|at| at[k]).collect();
            let name = format!("mean_{axis}_angstrom");
            columns.push(Column::numbers(name, Some("Å"), "mean position", positions));
        }
        for (n, (_, component)) in self.components.iter().enumerate() {
            for (k, axis) in ["x", "y", "z"].into_iter().enumerate() {
                let along = component.iter().skip(k).step_by(3).copied().collect();
                let definition = format!("component {} of unit length", n + 1);
                columns.push(Column::numbers(
                    format!("pc{}_{axis}", n + 1),
                    None,
                    definition,
                    along,
                ));
            }
        }
        columns
    }
}

/// (Σ cos(kπt/T) pₜ)² / (Σ cos²(kπt/T) Σ pₜ²) (Hess, Phys. Rev. E 65, 031910, 2002), by the
/// trapezoidal rule. Σ cos² is T/2, but T where there are as few frames as k has turns.
fn cosine_content(series: &[f64], k: usize) -> f64 {
    let last = series.len().saturating_sub(1);
    if last == 0 {
        return 0.0;
    }
    let weight = |n: usize| if n == 0 || n == last { 0.5 } else { 1.0 };
    let cosine = |n: usize| (k as f64 * PI * n as f64 / last as f64).cos();
    let along: f64 = series.iter().enumerate().map(|(n, x)| weight(n) * cosine(n) * x).sum();
    let square: f64 = series.iter().enumerate().map(|(n, x)| weight(n) * x * x).sum();
    let of_cosine: f64 = (0..=last).map(|n| weight(n) * cosine(n) * cosine(n)).sum();
    if square > 0.0 { along * along / (of_cosine * square) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::cosine_content;

    #[test]
    fn a_cosine_is_all_cosine() {
        let series = |k: f64| {
            (0..=100)
                .map(|n| (k * 0.031_415_926_535_897_93 * f64::from(n)).cos())
                .collect::<Vec<_>>()
        };
        assert!((cosine_content(&series(2.0), 2) - 1.0).abs() < 1e-12);
        assert!(cosine_content(&series(2.0), 3) < 1e-12);
    }

    #[test]
    fn of_two_frames_it_is_all_and_no_more() {
        assert!((cosine_content(&[1.5, -1.5], 1) - 1.0).abs() < 1e-12);
        assert!((cosine_content(&[1.0, -2.0, 1.0], 2) - 0.9).abs() < 1e-12);
    }
}
