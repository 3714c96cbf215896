//! Root-mean-square deviation from the first frame.

use crate::Error;
use crate::frames::Frames;
use crate::points::Points;
use crate::request::{Group, Weights};
use crate::setup::{Setup, Together};
use crate::source::{Members, View};
use crate::superpose::{Motion, Reference};
use crate::table::{Column, Table, TableGroup};
use crate::task::PerFrame;

/// The deviation of each frame from the first analysed one, in Å:
/// √(Σ wᵢ·|R·xᵢ + t − yᵢ|² / Σ wᵢ) over the measured atoms, y being the first frame.
///
/// R and t superpose the atoms of `fit` by least squares with the same weights, R a proper rotation;
/// without `fit`, R = 1 and t = 0. What is measured is not superposed again.
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
    fit: Option<(Members, Reference)>,
    /// None for the group that is superposed.
    measures: Vec<Option<(Members, Reference)>>,
    measures_fit: bool,
}

impl Rmsd {
    pub(crate) fn together(&self) -> Option<Together> {
        let mut groups = self.fit.iter().chain(&self.measures);
        let mut together = Together::of(groups.next()?);
        groups.for_each(|group| together.atoms.union_with(&group.atoms));
        Some(Together { in_place: self.fit.is_none(), ..together })
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Task, Error> {
        let part = |group: &Group| -> Result<_, Error> {
            let members = setup.members(group);
            let reference = Reference::new(&setup.first_positions(&members), setup.weighing(group, self.weights)?);
            Ok((members, reference))
        };
        let is_fit = |group: &Group| self.fit.as_ref().is_some_and(|fit| fit.atoms == group.atoms);
        let measures = self.measures.iter().map(|group| if is_fit(group) { Ok(None) } else { part(group).map(Some) });
        let measures = measures.collect::<Result<Vec<_>, Error>>()?;
        let fit = self.fit.as_ref().map(part).transpose()?;
        if let (Some(group), Some((_, reference))) = (&self.fit, &fit) {
            reference.check(measures.iter().any(Option::is_some)).map_err(|problem| {
                let label = group.label.clone();
                Error::NoRotation { analysis, label, problem }
            })?;
        }
        let measures_fit = measures.iter().any(Option::is_none);
        Ok(Task { request: self.clone(), fit, measures, measures_fit })
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
            Some(_) => "after least-squares superposition of the fit group, which measured groups follow",
            None => "without superposition",
        };
        let mut columns = frames.columns();
        for (n, group) in measures.iter().enumerate() {
            let name =
                if measures.len() == 1 { "rmsd_angstrom".to_owned() } else { format!("rmsd_{}_angstrom", n + 1) };
            let values = values.iter().skip(n).step_by(measures.len()).copied().collect();
            columns.push(Column::numbers(name, Some("Å"), format!("RMSD of {}", group.label), values));
        }
        let mut groups: Vec<_> = fit.iter().map(|group| TableGroup::new("fit", group)).collect();
        groups.extend(measures.iter().map(|group| TableGroup::new("measure", group)));
        let definition = format!(
            "root-mean-square deviation from the first analysed frame, weighted by {}, {superposed}",
            weights.noun()
        );
        Table::new("rmsd", "RMSD from the first frame", definition, groups, columns)
    }
}
