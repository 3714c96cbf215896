//! Deviations of all frames from each other, and the clusters that they make.

use crate::Error;
use crate::frames::Frames;
use crate::group::{Group, ImageGroup, Weights};
use crate::linkage::{Cut, Distances, Linkage};
use crate::parallel::in_order;
use crate::points::{LANES, Points, Weighing};
use crate::setup::Setup;
use crate::source::{Members, View};
use crate::superpose::{Target, least_rmsd};
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};

/// Frames that are compared with each other at most, as pairs grow with their square.
const MAX_FRAMES: usize = 1000;

/// Frames that each other is compared with at once, as it is loaded from memory for all of them.
const ROWS: usize = 8;

/// Bytes of coordinates that are kept of them at most.
const MAX_BYTES: usize = 128 << 20;

/// The default of the cutoff, in Å.
pub(crate) const CUTOFF: f64 = 2.0;

/// The deviation of each analysed frame from each other, in Å, as the least that a superposition
/// leaves: min √(1/n Σ |R·xᵢ + t − yᵢ|²), R a proper rotation; and the clusters that frames make by
/// it.
///
/// At most 1000 frames are compared, fewer of very large groups: of more, every second, third and
/// so on of those that are analysed.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The atoms that are superposed and measured, all alike.
    pub group: Group,
    /// How clusters are made.
    pub method: Clustering,
}

/// How clusters are made of deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clustering {
    /// By a tree that joins the two closest clusters again and again.
    Hierarchical {
        /// What the distance of two clusters is.
        linkage: Linkage,
        /// How far they are joined.
        cut: Cut,
    },
    /// The frame with the most others within the cutoff makes a cluster with them, which are taken
    /// out, and so on (Daura and others, Angew. Chem. Int. Ed. 38, 236, 1999).
    Neighbours {
        /// The largest deviation of a neighbour, in Å.
        cutoff: f64,
    },
}

#[derive(Debug)]
pub(crate) struct Collection {
    request: Clusters,
    members: Members,
    weighing: Weighing,
    step: usize,
}

/// Frames so far, those that are compared with their atoms about their centre.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    n_frames: usize,
    points: Vec<Points>,
}

impl Clusters {
    pub(crate) fn image_group(&self) -> ImageGroup {
        ImageGroup::of(&self.group)
    }

    /// Of how many analysed frames one is compared.
    pub(crate) fn step(&self, n_analyzed: usize) -> usize {
        let bytes = 24 * self.group.atoms.len().max(1);
        n_analyzed.div_ceil(MAX_FRAMES.min(MAX_BYTES / bytes).max(2))
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Collection, Error> {
        let members = setup.members(&self.group);
        let weighing = setup.weighing(&self.group, Weights::Equal)?;
        let first = Target::new(&setup.first_positions(&members), weighing.clone());
        first.check(false).map_err(|problem| {
            let label = self.group.label.clone();
            Error::NoRotation { analysis, label, problem }
        })?;
        let step = self.step(setup.frames.n_analyzed());
        Ok(Collection { request: self.clone(), members, weighing, step })
    }
}

impl Task for Collection {
    type Tally = Kept;

    fn start(&self) -> Kept {
        Kept::default()
    }

    fn frame(&self, view: &View<'_>, kept: &mut Kept) {
        // A block does not know which of its frames are compared.
        let mut points = Points::default();
        self.members.positions(view, &mut points);
        let centre = self.weighing.centre(&points);
        let n = self.members.len();
        for (column, centre) in points.columns_mut().into_iter().zip(centre) {
            column[..n].iter_mut().for_each(|x| *x -= centre);
        }
        kept.points.push(points);
        kept.n_frames += 1;
    }

    fn append(&self, kept: &mut Kept, next: Kept) {
        let compared = next.points.into_iter().enumerate();
        let compared = compared.filter(|(n, _)| (kept.n_frames + n).is_multiple_of(self.step));
        kept.points.extend(compared.map(|(_, points)| points));
        kept.n_frames += next.n_frames;
    }

    fn finish(&self, kept: Kept, frames: &Frames<'_>) -> Outcome {
        let distances = self.distances(&kept.points, frames.n_threads);
        let clusters = match self.request.method {
            Clustering::Hierarchical { linkage, cut } => distances.hierarchical(linkage, cut),
            Clustering::Neighbours { cutoff } => distances.by_neighbours(cutoff),
        };
        let by_frame: Vec<Column> =
            frames.columns().into_iter().map(|column| column.every(self.step)).collect();
        let numbers: Vec<i64> = frames.analyzed.iter().map(|frame| *frame as i64).collect();
        let numbers: Vec<i64> = numbers.into_iter().step_by(self.step).collect();
        let n_clusters = clusters.iter().max().map_or(0, |most| most + 1);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); n_clusters];
        clusters.iter().enumerate().for_each(|(frame, cluster)| members[*cluster].push(frame));
        let medoids: Vec<usize> = members.iter().map(|members| distances.medoid(members)).collect();
        Outcome::Tables(vec![
            self.clusters(&distances, &members, &medoids, &by_frame),
            self.by_frame(&distances, &clusters, &medoids, by_frame),
            self.pairwise(distances, &numbers),
        ])
    }
}

impl Collection {
    fn distances(&self, points: &[Points], n_threads: usize) -> Distances {
        let n_atoms = self.members.len();
        let squares: Vec<f64> = points.iter().map(Points::sum_of_squares).collect();
        let firsts: Vec<usize> = (0..points.len()).step_by(ROWS).collect();
        let rows = in_order(&firsts, n_threads, |&first| {
            let mut rows = vec![Vec::new(); ROWS.min(points.len() - first)];
            for j in first + 1..points.len() {
                for (i, row) in (first..j).zip(&mut rows) {
                    let squares = squares[i] + squares[j];
                    row.push(least_rmsd(&points[i], &points[j], squares, n_atoms));
                }
            }
            rows.concat()
        });
        Distances::new(points.len(), rows.concat())
    }

    /// A row for each cluster.
    fn clusters(
        &self,
        distances: &Distances,
        members: &[Vec<usize>],
        medoids: &[usize],
        by_frame: &[Column],
    ) -> Table {
        let sizes = members.iter().map(|members| members.len() as i64);
        let parts = members.iter().map(|members| members.len() as f64 / distances.n() as f64);
        let spreads = members.iter().zip(medoids).map(|(members, medoid)| {
            let others = members.iter().filter(|frame| *frame != medoid);
            let sum: f64 = others.map(|frame| distances.get(*frame, *medoid)).sum();
            sum / members.len().saturating_sub(1).max(1) as f64
        });
        let mut columns = vec![
            Column::integers(
                "cluster",
                "number of the cluster, from 1 for the one with most frames",
                (1..=members.len() as i64).collect(),
            ),
            Column::integers("frames", "frames in it", sizes.collect()),
            Column::numbers("population", None, "part of the compared frames", parts.collect()),
        ];
        columns.extend(by_frame.iter().map(|column| column.picked(medoids)).map(|mut column| {
            column.name = format!("medoid_{}", column.name);
            column.definition = format!("of the medoid: {}", column.definition);
            column
        }));
        columns.push(Column::numbers(
            "spread_angstrom",
            Some("Å"),
            "mean deviation of the other members from the medoid",
            spreads.collect(),
        ));
        self.table("clusters", "Clusters", columns)
    }

    /// A row for each frame that was compared.
    fn by_frame(
        &self,
        distances: &Distances,
        clusters: &[usize],
        medoids: &[usize],
        mut columns: Vec<Column>,
    ) -> Table {
        let numbers = clusters.iter().map(|cluster| *cluster as i64 + 1).collect();
        columns.push(Column::integers("cluster", "number of its cluster", numbers));
        let from_medoid = clusters.iter().enumerate();
        let from_medoid =
            from_medoid.map(|(frame, cluster)| distances.get(frame, medoids[*cluster]));
        columns.push(Column::numbers(
            "medoid_rmsd_angstrom",
            Some("Å"),
            "deviation from the medoid of its cluster",
            from_medoid.collect(),
        ));
        self.table("clusters_by_frame", "Clusters over time", columns)
    }

    /// A row for each pair of frames.
    fn pairwise(&self, distances: Distances, frames: &[i64]) -> Table {
        let n = frames.len();
        let pairs = || (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let columns = vec![
            Column::integers(
                "frame_a",
                "frame of the trajectory, counted from 0",
                pairs().map(|(i, _)| frames[i]).collect(),
            ),
            Column::integers("frame_b", "a later one", pairs().map(|(_, j)| frames[j]).collect()),
            Column::numbers(
                "rmsd_angstrom",
                Some("Å"),
                "RMSD of the two after superposition",
                distances.pairs().to_vec(),
            ),
        ];
        self.table("pairwise_rmsd", "RMSD of all pairs of frames", columns)
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let method = match self.request.method {
            Clustering::Hierarchical { linkage, cut } => {
                let linkage = match linkage {
                    Linkage::Average => "average linkage (UPGMA)",
                    Linkage::Complete => "complete linkage",
                    Linkage::Single => "single linkage",
                };
                let cut = match cut {
                    Cut::Distance(most) => format!("joined up to {most} Å"),
                    Cut::Count(count) => format!("joined until {count} are left"),
                };
                format!("clusters by {linkage}, {cut}")
            }
            Clustering::Neighbours { cutoff } => format!(
                "clusters by the frame with most neighbours within {cutoff} Å (Daura and others \
                 1999)"
            ),
        };
        let compared = match self.step {
            1 => "all analysed frames".to_owned(),
            step => format!("one of every {step} analysed frames"),
        };
        let definition = format!(
            "least root-mean-square deviation of two frames over all superpositions, by equal \
             weights, of {compared}; {method}; a medoid is the frame with the least sum of \
             deviations from the others of its cluster"
        );
        Table::new(
            kind,
            title,
            definition,
            vec![TableGroup::new("group", &self.request.group)],
            columns,
        )
    }
}

impl Points {
    /// Σ |x|², lane by lane.
    fn sum_of_squares(&self) -> f64 {
        let mut sum = [0.0; LANES];
        for [x, y, z] in self.chunks() {
            (0..LANES).for_each(|k| sum[k] += x[k] * x[k] + y[k] * y[k] + z[k] * z[k]);
        }
        crate::points::total(sum)
    }
}
