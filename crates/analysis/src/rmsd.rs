//! Root-mean-square deviation from the first frame or a reference.

use crate::Error;
use crate::frames::Frames;
use crate::group::{Group, ImageGroup, Weights};
use crate::points::Points;
use crate::reference::Reference;
use crate::setup::Setup;
use crate::source::{Members, View};
use crate::superpose::{Motion, Target};
use crate::table::{Column, Table, TableGroup};
use crate::task::PerFrame;

/// What deviations are measured from unless there is a reference.
const FIRST_FRAME: &str = "the first analysed frame";

/// The deviation of each frame from the first analysed one, or from the reference of the request,
/// in Å: √(Σ wᵢ·|R·xᵢ + t − yᵢ|² / Σ wᵢ) over the measured atoms, y being what it is measured from.
///
/// R and t superpose the atoms of `fit` by least squares with the same weights, R a proper
/// rotation; without `fit`, R = 1 and t = 0. What is measured is not superposed again.
#[derive(Clone, Debug, PartialEq)]
pub struct Rmsd {
    /// The atoms to superpose, if any.
    pub fit: Option<Group>,
    /// The atoms to measure, each group for itself.
    pub measures: Vec<Group>,
    /// What weighs in the superposition and in the deviation.
    pub weights: Weights,
}

#[derive(Debug)]
pub(crate) struct Task {
    request: Rmsd,
    fit: Option<(Members, Target)>,
    /// None for the group that is superposed.
    measures: Vec<Option<(Members, Target)>>,
    measures_fit: bool,
    /// What y is, for people.
    origin: String,
}

impl Rmsd {
    pub(crate) fn image_group(&self) -> Option<ImageGroup> {
        let mut groups = self.fit.iter().chain(&self.measures);
        let mut all = ImageGroup::of(groups.next()?);
        groups.for_each(|group| all.add(group));
        Some(ImageGroup { in_place: self.fit.is_none(), ..all })
    }

    pub(crate) fn task(
        &self,
        setup: &Setup<'_>,
        reference: Option<&Reference>,
        analysis: usize,
    ) -> Result<Task, Error> {
        let mut measures = Vec::new();
        for group in &self.measures {
            let is_fit = self.fit.as_ref().is_some_and(|fit| fit.atoms == group.atoms);
            let part = (!is_fit).then(|| self.part(setup, reference, analysis, group));
            measures.push(part.transpose()?);
        }
        let fit = self.fit.as_ref().map(|group| self.part(setup, reference, analysis, group));
        let fit = fit.transpose()?;
        if let (Some(group), Some((_, reference))) = (&self.fit, &fit) {
            reference.check(measures.iter().any(Option::is_some)).map_err(|problem| {
                let label = group.label.clone();
                Error::NoRotation { analysis, label, problem }
            })?;
        }
        let measures_fit = measures.iter().any(Option::is_none);
        let origin = reference.map_or(FIRST_FRAME, Reference::label).to_owned();
        Ok(Task { request: self.clone(), fit, measures, measures_fit, origin })
    }

    /// A group, and where it is in the reference or else in the first frame.
    fn part(
        &self,
        setup: &Setup<'_>,
        reference: Option<&Reference>,
        analysis: usize,
        group: &Group,
    ) -> Result<(Members, Target), Error> {
        let members = setup.members(group);
        let points = match reference {
            Some(reference) => reference.points(group, analysis)?,
            None => setup.first_positions(&members),
        };
        let target = Target::new(&points, setup.weighing(group, self.weights)?);
        Ok((members, target))
    }
}

impl PerFrame for Task {
    fn values(&self, view: &View<'_>, points: &mut Points, values: &mut Vec<f64>) {
        let mut motion = Motion::IDENTITY;
        let mut of_fit = None;
        if let Some((members, reference)) = &self.fit {
            members.positions(view, points);
            motion = reference.fit(points);
            of_fit = self.measures_fit.then(|| reference.rmsd(points, &motion));
        }
        for measure in &self.measures {
            let deviation = measure.as_ref().map(|(members, reference)| {
                members.positions(view, points);
                reference.rmsd(points, &motion)
            });
            values.extend(deviation.or(of_fit));
        }
    }

    fn table(&self, values: Vec<f64>, frames: &Frames<'_>) -> Table {
        let Rmsd { fit, measures, weights } = &self.request;
        let superposed = match fit {
            Some(_) => {
                "after least-squares superposition of the fit group, which measured groups follow"
            }
            None => "without superposition",
        };
        let mut columns = frames.columns();
        for (n, group) in measures.iter().enumerate() {
            let name = if measures.len() == 1 {
                "rmsd_angstrom".to_owned()
            } else {
                format!("rmsd_{}_angstrom", n + 1)
            };
            let values = values.iter().skip(n).step_by(measures.len()).copied().collect();
            columns.push(Column::numbers(
                name,
                Some("Å"),
                format!("RMSD of {}", group.label),
                values,
            ));
        }
        let mut groups: Vec<_> = fit.iter().map(|group| TableGroup::new("fit", group)).collect();
        groups.extend(measures.iter().map(|group| TableGroup::new("measure", group)));
        let definition = format!(
            "root-mean-square deviation from {}, weighted by {}, {superposed}",
            self.origin,
            weights.noun()
        );
        let title = match self.origin.as_str() {
            FIRST_FRAME => match frames.analyzed.first() {
                Some(0) | None => "RMSD from the first frame".to_owned(),
                Some(first) => format!("RMSD from frame {first}"),
            },
            origin => format!("RMSD from {origin}"),
        };
        Table::new("rmsd", &title, definition, groups, columns)
    }
}
