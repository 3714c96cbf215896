//! Distance between the ends of a chain.

use crate::Error;
use crate::cell::{norm, sub};
use crate::frames::Frames;
use crate::group::{Group, ImageGroup};
use crate::points::Points;
use crate::setup::Setup;
use crate::source::{Members, View};
use crate::table::{Column, Table, TableGroup};
use crate::task::PerFrame;

/// The distance in each frame between the first atom of a group and the last, in Å, the molecule
/// being whole: not that of nearest images, which a chain longer than half the cell would have
/// nearer.
#[derive(Clone, Debug, PartialEq)]
pub struct EndToEnd {
    /// The chain, such as its α-carbons; at least two atoms.
    pub group: Group,
}

#[derive(Debug)]
pub(crate) struct Task {
    request: EndToEnd,
    members: Members,
}

impl EndToEnd {
    pub(crate) fn image_group(&self) -> ImageGroup {
        ImageGroup::of(&self.group)
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Task, Error> {
        let members = setup.members(&self.group);
        if members.len() < 2 {
            let bounds = "of at least two atoms";
            return Err(Error::Parameter { analysis, name: "group", bounds });
        }
        Ok(Task { request: self.clone(), members })
    }
}

impl PerFrame for Task {
    fn values(&self, view: &View<'_>, points: &mut Points, values: &mut Vec<f64>) {
        self.members.positions(view, points);
        values.push(norm(sub(points.get(self.members.len() - 1), points.get(0))));
    }

    fn table(&self, values: Vec<f64>, frames: &Frames<'_>) -> Table {
        let mut columns = frames.columns();
        columns.push(Column::numbers(
            "distance_angstrom",
            Some("Å"),
            "end-to-end distance",
            values,
        ));
        let group = &self.request.group;
        let ends = [group.atoms.iter().next(), group.atoms.iter().last()];
        let ends =
            ends.map(|end| end.map_or_else(String::new, |atom| frames.topology.atom_label(atom)));
        let definition =
            format!("distance between {} and {}, the molecule whole", ends[0], ends[1]);
        let groups = vec![TableGroup::new("group", group)];
        Table::new("end_to_end", "End-to-end distance", definition, groups, columns)
    }
}
