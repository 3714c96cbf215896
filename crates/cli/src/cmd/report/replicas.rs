//! Replicas over each other and beside each other: each is one independent value of a mean.

use molbox_analysis::ResidueAxis;
use molbox_plot::{Band, Figure, Line, Panel, PlacedResidue, ResiduePlaces, Track};

use super::logged::Log;
use super::markdown::{Markdown, md, row};
use super::measured::{Analysis, Fluctuation, Fluctuations, Measured};
use crate::statistics;

/// Panels of a figure at most: beyond, a picture takes more memory than it is worth.
const MOST_PANELS: usize = 24;

/// The mean of a quantity in one replica, where it is in equilibrium.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mean {
    /// Where it is from, quantity and unit.
    what: [String; 3],
    mean: f64,
    /// From when on it is, and of how many independent samples; none where that cannot be known.
    basis: Option<String>,
}

/// The means of a replica: of what was logged by production, and of what was measured.
pub(super) fn means(log: &Log, analysis: &Analysis) -> Vec<Mean> {
    let logged =
        log.production().map(|it| Mean { what: it.what(), mean: it.mean(), basis: it.basis() });
    let measured = analysis.measured.iter().map(|it| Mean {
        what: it.what.clone(),
        mean: it.mean(),
        basis: it.basis(),
    });
    logged.chain(measured).collect()
}

/// The means of replicas beside each other, with what they differ by.
pub(super) fn compared(text: &mut Markdown, replicas: &[Vec<Mean>]) {
    // One that came to nothing has none.
    let replicas: Vec<&Vec<Mean>> = replicas.iter().filter(|means| !means.is_empty()).collect();
    let [first, _, ..] = replicas.as_slice() else { return };
    let mut rows = Markdown::default();
    for (nth, Mean { what, .. }) in first.iter().enumerate() {
        // One may have logged nothing, so that the others' places are not its own.
        let of_the_name = first[..nth].iter().filter(|it| it.what == *what).count();
        let same = replicas
            .iter()
            .filter_map(|replica| replica.iter().filter(|it| it.what == *what).nth(of_the_name));
        let found: Vec<&Mean> = same.collect();
        let means: Vec<f64> = found.iter().map(|it| it.mean).collect();
        let Some(deviation) =
            statistics::deviation(&means).filter(|_| means.len() == replicas.len())
        else {
            continue;
        };
        let mean = statistics::mean(&means);
        let error = deviation / (means.len() as f64).sqrt();
        let digits = statistics::decimals(mean, error);
        let each: Vec<String> = means.iter().map(|mean| format!("{mean:.digits$}")).collect();
        let bases: Vec<&str> =
            found.iter().map(|it| it.basis.as_deref().unwrap_or("too few values")).collect();
        let bases = bases.join("; ");
        let [mean, deviation, error] =
            [mean, deviation, error].map(|value| format!("{value:.digits$}"));
        let [of, quantity, unit] = what;
        let each = each.join(", ");
        rows.push(row(&[of, quantity, unit, &each, &mean, &deviation, &error, &bases]));
    }
    if rows.is_empty() {
        return;
    }
    text.push(md!(
        "\n### Replicas compared\n\n| of | quantity | unit | mean of each | mean | standard \
         deviation | standard error | in equilibrium from, effective samples, of each \
         |\n|---|---|---|---|---|---|---|---|\n{}\n\
         The mean of each is over the part of a replica in which the quantity is in equilibrium, as \
         in its own tables below. Deviation and error are between the {} replicas.\n",
        rows,
        replicas.len()
    ));
}

/// What replicas have measured, over each other; nothing of a run with one.
pub(super) fn overlay(replicas: &[Analysis]) -> Option<Figure> {
    let (_, first) = first(replicas, |replica| replica.measured.is_empty())?;
    let mut panels = Vec::new();
    let all = replicas.iter().flat_map(|replica| &replica.measured);
    let is_long = all.flat_map(|one| &one.times).any(|ps| *ps >= 1000.0);
    for (nth, one) in first.measured.iter().enumerate().filter(|(_, one)| one.has_times) {
        let lines = lines(replicas, |replica| {
            let it: &Measured = replica.measured.get(nth).filter(|it| it.what == one.what)?;
            let times = it.times.iter().map(|ps| if is_long { ps / 1000.0 } else { *ps });
            Some(times.zip(it.values.iter().copied()).collect())
        });
        panels.push(panel(one.name.clone(), one.unit.clone(), lines));
    }
    let n_panels = panels.len();
    panels.truncate(MOST_PANELS);
    named_once(&mut panels);
    (!panels.is_empty()).then(|| Figure {
        title: "Replicas".to_owned(),
        subtitle: match n_panels {
            1 => String::new(),
            n if n <= MOST_PANELS => format!("{n} quantities"),
            n => format!("the first {MOST_PANELS} of {n} quantities; tables have the others"),
        },
        x_label: "time".to_owned(),
        x_unit: if is_long { "ns" } else { "ps" }.to_owned(),
        panels,
        ..Figure::default()
    })
}

/// The fluctuations of residues in all replicas, a figure for each table, with its name; along it
/// the secondary structure of an axis of the first of them.
pub(super) fn fluctuations(replicas: &[Analysis], axis: &ResidueAxis) -> Vec<(String, Figure)> {
    let Some((n, first)) = first(replicas, |replica| replica.fluctuations.is_empty()) else {
        return Vec::new();
    };
    let figures = first.fluctuations.iter().filter_map(|of_first| {
        let same = |replica: &Analysis| {
            let mut all = replica.fluctuations.iter();
            all.find(|it| it.table == of_first.table && are_of_the_same(it, of_first)).cloned()
        };
        let all: Vec<Option<Fluctuations>> = replicas.iter().map(same).collect();
        (all.iter().flatten().count() > 1).then(|| {
            let ResiduePlaces { of_rows: places, names } = places(of_first);
            let measured =
                of_first.residues.iter().zip(&places).map(|(residue, place)| PlacedResidue {
                    label: &residue.label,
                    place: *place,
                    of_system: residue.of_system,
                    molecule: residue.molecule,
                });
            let mut panels = chains(of_first, &places, &all);
            let n_panels = panels.len();
            panels.truncate(MOST_PANELS);
            named_once(&mut panels);
            let left_out = match n_panels {
                n if n <= MOST_PANELS => String::new(),
                n => format!("; the first {MOST_PANELS} of {n} chains"),
            };
            let figure = Figure {
                tracks: Track::by_chain(measured, axis).unwrap_or_default(),
                track_note: format!("in {} of replica {n}", axis.origin),
                title: "Replicas".to_owned(),
                subtitle: of_first.title.clone() + &left_out,
                x_label: "residue number".to_owned(),
                x_is_whole: true,
                x_names: names,
                panels,
                ..Figure::default()
            };
            (of_first.table.clone(), figure)
        })
    });
    figures.collect()
}

/// The first replica that has something, with its number; none where it would be alone.
fn first(
    replicas: &[Analysis],
    is_empty: impl Fn(&Analysis) -> bool,
) -> Option<(usize, &Analysis)> {
    let mut some = (1..).zip(replicas).filter(|(_, replica)| !is_empty(replica));
    some.next().filter(|_| some.next().is_some())
}

fn are_of_the_same(a: &Fluctuations, b: &Fluctuations) -> bool {
    a.residues.iter().map(|it| &it.label).eq(b.residues.iter().map(|it| &it.label))
}

/// Leaves the names of lines and bands to the first panel, as far as others have the same.
fn named_once(panels: &mut [Panel]) {
    fn names(panel: &Panel) -> Vec<Option<String>> {
        let bands = panel.bands.iter().map(|band| band.name.clone());
        panel.lines.iter().map(|line| line.name.clone()).chain(bands).collect()
    }
    let Some((first, others)) = panels.split_first_mut() else { return };
    let of_first = names(first);
    for panel in others.iter_mut().filter(|panel| names(panel) == of_first) {
        panel.lines.iter_mut().for_each(|line| line.name = None);
        panel.bands.iter_mut().for_each(|band| band.name = None);
    }
}

/// The places of the residues, which are the same in all replicas.
fn places(of: &Fluctuations) -> ResiduePlaces {
    let rows = of.residues.iter().map(|residue| {
        let Fluctuation { chain, molecule, label, number, .. } = residue;
        ((chain.as_str(), *molecule), label.as_str(), *number as i64)
    });
    ResiduePlaces::of(rows)
}

/// A panel for each chain, or for each molecule where several are alike.
fn chains(first: &Fluctuations, places: &[i64], replicas: &[Option<Fluctuations>]) -> Vec<Panel> {
    let mut parts: Vec<(&str, Option<i64>)> = Vec::new();
    for Fluctuation { chain, molecule, .. } in &first.residues {
        if !parts.contains(&(chain, *molecule)) {
            parts.push((chain, *molecule));
        }
    }
    let is_alone = parts.len() == 1;
    let panels = parts.into_iter().map(|part| {
        let label = match part {
            _ if is_alone => "RMSF".to_owned(),
            ("", Some(molecule)) => format!("RMSF, molecule {molecule}"),
            ("", None) => "RMSF, no chain".to_owned(),
            (chain, Some(molecule)) => format!("RMSF, chain {chain}, molecule {molecule}"),
            (chain, None) => format!("RMSF, chain {chain}"),
        };
        let lines = lines(replicas, |replica| Some(along(replica.as_ref()?, places, part)));
        panel(label, first.unit.clone(), lines)
    });
    panels.collect()
}

/// The fluctuations along a chain; where residues are missing the line is broken.
fn along(
    fluctuations: &Fluctuations,
    places: &[i64],
    part: (&str, Option<i64>),
) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let placed = fluctuations.residues.iter().zip(places);
    for (residue, place) in placed.filter(|(it, _)| (it.chain.as_str(), it.molecule) == part) {
        let place = *place as f64;
        if points.last().is_some_and(|last| !(0.0..=1.0).contains(&(place - last.0))) {
            points.push((f64::NAN, f64::NAN));
        }
        points.push((place, residue.rmsf));
    }
    points
}

/// A line for each replica that has one, by the number of its folder.
fn lines<T>(replicas: &[T], points: impl Fn(&T) -> Option<Vec<(f64, f64)>>) -> Vec<Line> {
    let lines = replicas.iter().zip(1..).filter_map(|(replica, n)| {
        Some(Line { name: Some(format!("replica {n}")), points: points(replica)? })
    });
    lines.collect()
}

fn panel(y_label: String, unit: String, lines: Vec<Line>) -> Panel {
    let bands = band(&lines).into_iter().collect();
    Panel { y_label, unit, is_whole: false, lines, bands }
}

/// The mean of lines with their standard deviation, as far as all of them go; none of a line alone,
/// and none where they were not measured at the same places.
fn band(lines: &[Line]) -> Option<Band> {
    let [first, _, ..] = lines else { return None };
    let n_points = lines.iter().map(|line| line.points.len()).min()?;
    let mut points = Vec::with_capacity(n_points);
    for (nth, (x, _)) in first.points.iter().copied().take(n_points).enumerate() {
        let is_same = |other: f64| other == x || (other.is_nan() && x.is_nan());
        if !lines.iter().all(|line| is_same(line.points[nth].0)) {
            return None;
        }
        let values: Vec<f64> = lines.iter().map(|line| line.points[nth].1).collect();
        points.push((x, statistics::mean(&values), statistics::deviation(&values)?));
    }
    Some(Band { name: Some("mean ± standard deviation".to_owned()), points })
}

#[cfg(test)]
mod tests {
    use molbox_analysis::{AxisResidue, Fold};

    use super::*;

    fn of(values: [f64; 2]) -> Analysis {
        let measured = vec![Measured {
            what: ["RMSD", "RMSD of @CA", "Å"].map(str::to_owned),
            name: "RMSD of @CA".to_owned(),
            unit: "Å".to_owned(),
            times: vec![500.0, 1000.0],
            has_times: true,
            values: values.to_vec(),
            settled: None,
        }];
        Analysis { measured, ..Analysis::default() }
    }

    fn table(replicas: &[Vec<Mean>]) -> String {
        let mut text = Markdown::default();
        compared(&mut text, replicas);
        text.to_string()
    }

    #[test]
    fn replicas_are_drawn_over_each_other_with_their_mean_and_deviation() {
        let figure = overlay(&[of([1.0, 2.0]), of([2.0, 3.0])]).unwrap();
        assert_eq!((figure.panels.len(), figure.x_unit.as_str()), (1, "ns"));
        let Panel { lines, bands, .. } = &figure.panels[0];
        assert_eq!(lines[1].name.as_deref(), Some("replica 2"));
        assert_eq!(lines[1].points, [(0.5, 2.0), (1.0, 3.0)]);
        let deviation = 0.5_f64.sqrt();
        assert_eq!(bands[0].points, [(0.5, 1.5, deviation), (1.0, 2.5, deviation)]);
        assert!(overlay(&[of([1.0, 2.0])]).is_none());
        let mut other = of([1.0, 2.0]);
        other.measured[0].times = vec![250.0, 1000.0];
        let figure = overlay(&[of([1.0, 2.0]), other]).unwrap();
        assert!(figure.panels[0].bands.is_empty(), "nothing is a mean of other times");
    }

    #[test]
    fn replicas_are_drawn_in_a_panel_for_each_quantity_with_one_legend() {
        let several = |n: usize| {
            let one = of([1.0, 2.0]);
            let measured = vec![one.measured[0].clone(); n];
            Analysis { measured, ..one }
        };
        let figure = overlay(&[several(9), several(9)]).unwrap();
        assert_eq!((figure.panels.len(), figure.subtitle.as_str()), (9, "9 quantities"));
        let named = |panel: &Panel| panel.lines.iter().filter(|line| line.name.is_some()).count();
        assert_eq!(
            figure.panels.iter().map(named).collect::<Vec<_>>(),
            [2, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        let figure = overlay(&[several(30), several(30)]).unwrap();
        assert_eq!(figure.panels.len(), 24);
        assert!(figure.subtitle.starts_with("the first 24 of 30 quantities"));
    }

    #[test]
    fn a_replica_is_compared_by_its_mean_in_equilibrium() {
        let noise = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        let drifting = |seed: u32, at: f64| {
            let mut one = of([0.0; 2]);
            let it = &mut one.measured[0];
            it.values = (0..300)
                .map(|n: u32| at + noise(n + seed) - 0.1 * f64::from(100_u32.saturating_sub(n)))
                .collect();
            it.times = (0..300).map(|n| 5.0 * f64::from(n)).collect();
            it.settled = molbox_analysis::SettledMean::of(&it.values);
            means(&Log::default(), &one)
        };
        let replicas = [drifting(0, 10.0), drifting(1000, 12.0)];
        assert!((replicas[0][0].mean - 10.5).abs() < 0.1, "{replicas:?}");
        assert!((replicas[1][0].mean - 12.5).abs() < 0.1, "{replicas:?}");
        let text = table(&replicas);
        let bases = [&replicas[0], &replicas[1]].map(|it| it[0].basis.clone().unwrap());
        assert!(bases[0].contains(" ns (3"), "100 of 300 frames: {bases:?}");
        assert!(text.contains(&format!(" | {} |\n", bases.join("; "))), "{text}");
    }

    #[test]
    fn replicas_are_compared_by_their_means() {
        let of = |values| means(&Log::default(), &of(values));
        let text = table(&[of([1.0, 2.0]), of([2.0, 3.0]), of([3.0, 4.0])]);
        let row = "| RMSD | RMSD of @CA | Å | 1.50, 2.50, 3.50 | 2.50 | 1.00 | 0.58 | ";
        assert!(text.contains(row), "{text}");
        assert_eq!(table(&[of([1.0, 2.0])]), "");
    }

    #[test]
    fn what_one_replica_has_logged_is_compared_with_the_same_of_others() {
        let density = |text: &str| Log::of([("production", text)]);
        let [a, b] = ["0.8", "1.2"].map(|value| density(&format!("density (g/mL)\n{value}\n")));
        let rmsd = of([1.0, 2.0]);
        let text = table(&[means(&a, &rmsd), means(&b, &rmsd)]);
        assert!(text.contains("| production | density | g/mL | 0.80, 1.20 | 1.00 | 0.28 | 0.20 |"));
        let text = table(&[means(&a, &rmsd), means(&Log::default(), &rmsd)]);
        assert!(!text.contains("density") && text.contains("RMSD of @CA"), "{text}");
    }

    #[test]
    fn fluctuations_of_replicas_have_a_panel_for_each_chain_and_a_band() {
        let of = |rmsf: f64| {
            let residues = [("A", 1), ("A", 2), ("A", 7), ("B", 1)].map(|(chain, number)| {
                let label = format!("{chain}:ALA{number}");
                let number = f64::from(number);
                let chain = chain.to_owned();
                Fluctuation { chain, number, of_system: None, molecule: None, label, rmsf }
            });
            let fluctuations = Fluctuations {
                table: "rmsf".to_owned(),
                title: "RMSF of atoms: @CA".to_owned(),
                unit: "Å".to_owned(),
                residues: residues.to_vec(),
            };
            Analysis { fluctuations: vec![fluctuations], ..Analysis::default() }
        };
        let labels = ["A:ALA1", "A:ALA2", "A:ALA7", "B:ALA1"].into_iter().zip(1..);
        let residues = labels.map(|(label, number)| AxisResidue {
            number,
            label: label.to_owned(),
            in_file: label[5..].to_owned(),
            chain: label[..1].to_owned(),
            fold: if number < 3 { Fold::Helix } else { Fold::Other },
        });
        let axis = ResidueAxis { residues: residues.collect(), origin: "the first analysed frame" };
        let [(name, figure)] = fluctuations(&[of(1.0), of(3.0)], &axis).try_into().unwrap();
        assert_eq!((name.as_str(), figure.x_label.as_str()), ("rmsf", "residue number"));
        let labels: Vec<&str> = figure.panels.iter().map(|panel| &*panel.y_label).collect();
        assert_eq!(labels, ["RMSF, chain A", "RMSF, chain B"]);
        let helices: Vec<_> = figure.tracks[0].folds.iter().map(|it| (it.fold, it.range)).collect();
        assert_eq!(helices, [(Fold::Helix, (0.5, 2.5))]);
        assert_eq!(figure.track_note, "in the first analysed frame of replica 1");
        let Panel { lines, bands, unit, .. } = &figure.panels[0];
        assert_eq!((lines.len(), unit.as_str()), (2, "Å"));
        assert_eq!((lines[0].points[1], lines[0].points[3]), ((2.0, 1.0), (7.0, 1.0)));
        assert!(lines[0].points[2].0.is_nan(), "between 2 and 7 nothing was measured");
        assert_eq!(bands[0].points[3], (7.0, 2.0, 2.0_f64.sqrt()));
        assert!(fluctuations(&[of(1.0)], &axis).is_empty());
        let mut shorter = of(1.0);
        shorter.fluctuations[0].residues.pop();
        assert!(fluctuations(&[of(1.0), shorter], &axis).is_empty(), "of other residues");
    }
}
