//! Distance between the centres of two groups of atoms.

use crate::Error;
use crate::cell::{norm, sub};
use crate::frames::Frames;
use crate::group::{Group, Weights};
use crate::points::Points;
use crate::setup::Setup;
use crate::source::{Centre, View};
use crate::table::{Column, Table, TableGroup};
use crate::task::PerFrame;

/// The distance between two centres in each frame, in Å.
///
/// The centre of a group is Σ wᵢ·xᵢ / Σ wᵢ. With `nearest_image` the distance is that of the
/// nearest periodic images of the two centres; without, and in frames that have no cell, that of
/// the centres as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// One group.
    pub a: Group,
    /// The other.
    pub b: Group,
    /// What weighs in the centres.
    pub weights: Weights,
    /// Whether the nearest image counts.
    pub nearest_image: bool,
}

#[derive(Debug)]
pub(crate) struct Task {
    request: Distance,
    a: Centre,
    b: Centre,
}

impl Distance {
    pub(crate) fn task(&self, setup: &Setup<'_>) -> Result<Task, Error> {
        let [a, b] = [&self.a, &self.b].map(|group| {
            let weighing = setup.weighing(group, self.weights)?;
            Ok(Centre::new(setup.members(group), &weighing))
        });
        Ok(Task { request: self.clone(), a: a?, b: b? })
    }
}

impl PerFrame for Task {
    fn values(&self, view: &View<'_>, _: &mut Points, values: &mut Vec<f64>) {
        let apart = sub(self.a.of(view), self.b.of(view));
        let cell = view.frame.cell().filter(|_| self.request.nearest_image);
        values.push(norm(cell.map_or(apart, |cell| cell.nearest(apart))));
    }

    fn table(&self, values: Vec<f64>, frames: &Frames<'_>) -> Table {
        let Distance { a, b, weights, nearest_image } = &self.request;
        let images = if *nearest_image {
            "the nearest periodic images of the two"
        } else {
            "the two as they are"
        };
        let mut columns = frames.columns();
        columns.push(Column::numbers(
            "distance_angstrom",
            Some("Å"),
            "distance of the two centres",
            values,
        ));
        let definition =
            format!("distance between the centres of {} of two groups, {images}", weights.noun());
        let groups = vec![TableGroup::new("a", a), TableGroup::new("b", b)];
        Table::new("distance", "Distance of two centres", definition, groups, columns)
    }
}
