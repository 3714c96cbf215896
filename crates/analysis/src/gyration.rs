//! Radius of gyration.

use crate::Error;
use crate::frames::Frames;
use crate::group::{Group, Weights};
use crate::points::{Points, Weighing};
use crate::setup::Setup;
use crate::source::{Members, View};
use crate::table::{Column, Table, TableGroup};
use crate::task::PerFrame;

/// The radius of gyration in each frame, in Å: √(Σ wᵢ·|xᵢ − c|² / Σ wᵢ), where c is the centre by
/// the same weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Gyration {
    /// The atoms.
    pub group: Group,
    /// What weighs, in the sum and in the centre.
    pub weights: Weights,
}

#[derive(Debug)]
pub(crate) struct Task {
    request: Gyration,
    members: Members,
    weighing: Weighing,
}

impl Gyration {
    pub(crate) fn task(&self, setup: &Setup<'_>) -> Result<Task, Error> {
        let members = setup.members(&self.group);
        let weighing = setup.weighing(&self.group, self.weights)?;
        Ok(Task { request: self.clone(), members, weighing })
    }
}

impl PerFrame for Task {
    fn values(&self, view: &View<'_>, points: &mut Points, values: &mut Vec<f64>) {
        self.members.positions(view, points);
        let centre = self.weighing.centre(points);
        values.push(self.weighing.spread_about(centre, points));
    }

    fn table(&self, values: Vec<f64>, frames: &Frames<'_>) -> Table {
        let Gyration { group, weights } = &self.request;
        let mut columns = frames.columns();
        columns.push(Column::numbers("radius_angstrom", Some("Å"), "radius of gyration", values));
        let definition = format!(
            "root of the mean squared distance from the centre of {}, by the same weights",
            weights.noun()
        );
        let groups = vec![TableGroup::new("group", group)];
        Table::new("radius_of_gyration", "Radius of gyration", definition, groups, columns)
    }
}
