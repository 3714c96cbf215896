//! The figure of a simulation's logs.

use crate::table::in_time_unit;
use crate::{Figure, Line, Panel};

/// Columns that are drawn, each in a panel: its name in the log, and what the axis calls it.
const COLUMNS: [(&str, &str, &str); 3] = [
    ("potential energy (kJ/mol)", "potential energy", "kJ/mol"),
    ("temperature (K)", "temperature", "K"),
    ("density (g/mL)", "density", "g/mL"),
];

impl Figure {
    /// The figure of the logs of a simulation's stages, in their order: potential energy,
    /// temperature and density over time, with a mark where each stage begins. None when nothing
    /// was logged.
    ///
    /// A log is CSV with names in its first line; its times, in ps, begin with the stage. A cell
    /// that is not a number leaves a gap in its line.
    pub fn of_logs<'a>(
        title: &str,
        stages: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Option<Self> {
        let mut courses = COLUMNS.map(|_| Vec::<(f64, f64)>::new());
        let mut marks = Vec::new();
        let mut begin = 0.0;
        for (stage, log) in stages {
            let mut rows = log.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let names = rows.next().unwrap_or_default();
            marks.push((begin, stage.to_owned()));
            let Some(time) = place(&names, "time (ps)") else { continue };
            let mut end = begin;
            for row in rows {
                let at = begin + number(&row, time);
                end = if at.is_finite() { at } else { end };
                for (course, (name, ..)) in courses.iter_mut().zip(COLUMNS) {
                    course.extend(place(&names, name).map(|place| (at, number(&row, place))));
                }
            }
            begin = end;
        }
        let (unit, divisor) = in_time_unit(courses.iter().flatten().map(|(time, _)| *time));
        marks.iter_mut().for_each(|(time, _)| *time /= divisor);
        let mut panels = Vec::new();
        for (points, (_, y_label, unit)) in
            courses.iter().zip(COLUMNS).filter(|(points, _)| !points.is_empty())
        {
            let points = points.iter().map(|(time, y)| (time / divisor, *y)).collect();
            let lines = vec![Line { name: None, points }];
            panels.push(Panel {
                y_label: y_label.to_owned(),
                unit: unit.to_owned(),
                lines,
                ..Panel::default()
            });
        }
        (!panels.is_empty()).then(|| Self {
            title: title.to_owned(),
            x_label: "time".to_owned(),
            x_unit: unit.to_owned(),
            panels,
            marks,
            ..Self::default()
        })
    }
}

fn place(names: &[&str], name: &str) -> Option<usize> {
    names.iter().position(|n| *n == name)
}

fn number(row: &[&str], place: usize) -> f64 {
    row.get(place).and_then(|cell| cell.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use crate::Figure;

    const HEAD: &str =
        "step,time (ps),potential energy (kJ/mol),kinetic energy (kJ/mol),temperature (K)\n";

    #[test]
    fn stages_follow_each_other_with_a_mark_each() {
        let first = format!("{HEAD}1,0.5,-10,1,300\n2,1.0,-11,1,301\n");
        let second = format!("{HEAD}1,0.5,-12,1,302\n");
        let figure =
            Figure::of_logs("Run", [("equilibration_1", &*first), ("production", &*second)])
                .unwrap();
        assert_eq!(
            figure.marks,
            [(0.0, "equilibration_1".to_owned()), (1.0, "production".to_owned())]
        );
        let names: Vec<&str> = figure.panels.iter().map(|panel| &*panel.y_label).collect();
        assert_eq!(names, ["potential energy", "temperature"], "density was not logged");
        assert_eq!(figure.panels[1].lines[0].points, [(0.5, 300.0), (1.0, 301.0), (1.5, 302.0)]);
    }

    #[test]
    fn a_cell_without_a_number_leaves_the_others_in_their_columns() {
        let log = format!("{HEAD}1,0.5,--,1,300\n2,1.0,-11,1,301\n");
        let figure = Figure::of_logs("Run", [("production", &*log)]).unwrap();
        assert!(figure.panels[0].lines[0].points[0].1.is_nan());
        assert_eq!(figure.panels[1].lines[0].points[0], (0.5, 300.0));
    }

    #[test]
    fn what_was_not_logged_has_no_figure() {
        assert!(Figure::of_logs("Run", [("production", HEAD), ("more", "")]).is_none());
    }
}
