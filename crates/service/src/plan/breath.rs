//! How narrow a box becomes at constant pressure, in which twice the cutoff has to fit.
//!
//! Boxes are built less dense than they become: `addSolvent` keeps water away from the copies of the
//! box and from what it surrounds. And then their volume fluctuates.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Of a molecule of water, in Da, and what it takes in liquid water at 300 K, in nm³; in TIP3P it is
/// 0.0305.
const WATER_DA: f64 = 18.015;
const WATER_NM3: f64 = 0.0300;
/// What else is in the box is as dense as proteins at most, in g/mL.
const REST_DENSITY: f64 = 1.4;
const DALTON_PER_NM3: f64 = 1.66053906660e-3;
/// How water is compressed (Li 1967): by `TAIT` log10((B + p) / (B + 1)) of its volume; B in bar, and
/// p as far as it was measured. Higher ones are mostly of another unit, of which there is a warning.
const TAIT: f64 = 0.3150;
const TAIT_BAR: f64 = 2996.0;
const HIGHEST_BAR: f64 = 1e4;
/// Isothermal compressibility of water, 1/bar, a little more than measured as models have it.
const COMPRESSIBILITY: f64 = 5e-5;
/// Boltzmann's constant, in bar nm³/K.
const BOLTZMANN: f64 = 0.1380649;
/// Of the area of a bilayer, in bar nm: 0.24 N/m.
const AREA_MODULUS: f64 = 2400.0;
/// Standard deviations that a volume stays within for as long as jobs run: of a hundred thousand
/// independent volumes, three are farther down.
const DEVIATIONS: f64 = 4.0;

/// What a built system holds, as far as its density depends on it; a part of its summary.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Contents {
    /// In g/mL.
    density: Option<f64>,
    #[serde(default)]
    molecules: BTreeMap<String, u64>,
}

/// A box as it was built.
pub(super) struct UnitCell {
    /// Reduced, in nm.
    pub(super) vectors_nm: [[f64; 3]; 3],
    pub(super) contents: Contents,
    /// Whether its plane and its normal change apart from each other.
    pub(super) has_membrane: bool,
}

impl UnitCell {
    /// Its widths, in nm: the diagonal of reduced vectors.
    fn widths(&self) -> [f64; 3] {
        let [a, b, c] = self.vectors_nm;
        [a[0], b[1], c[2]]
    }

    pub(super) fn shortest_width(&self) -> f64 {
        self.widths().into_iter().fold(f64::INFINITY, f64::min)
    }

    fn volume(&self) -> f64 {
        self.widths().into_iter().product()
    }

    /// Its shortest width, in nm, when it is as dense as it becomes at a pressure in bar.
    pub(super) fn settled_width(&self, pressure: f64) -> f64 {
        self.shortest_width() * self.settled(pressure)
    }

    /// The shortest of its widths, in nm, that are to be met at a pressure in bar and a temperature in K.
    pub(super) fn least_width(&self, pressure: f64, temperature: f64) -> f64 {
        let settled = self.settled(pressure);
        let [a, b, c] = self.widths().map(|width| width * settled);
        let thermal = BOLTZMANN * temperature;
        if self.has_membrane {
            // Its volume hardly changes, so that what the plane gains the normal loses.
            let area = (thermal / (AREA_MODULUS * a * b)).sqrt();
            let plane = a.min(b) * (1.0 - DEVIATIONS * area / 2.0);
            return plane.min(c * (1.0 - DEVIATIONS * area)).max(0.0);
        }
        let volume = (thermal * COMPRESSIBILITY / (a * b * c)).sqrt();
        a.min(b).min(c) * (1.0 - DEVIATIONS * volume / 3.0).max(0.0)
    }

    /// The share of its widths that is left when it is as dense as it becomes.
    fn settled(&self, pressure: f64) -> f64 {
        let as_built = self.volume();
        let dense = self.dense_volume().map_or(as_built, |dense| dense.min(as_built));
        let pressure = pressure.clamp(1.0, HIGHEST_BAR);
        let compressed = 1.0 - TAIT * ((TAIT_BAR + pressure) / (TAIT_BAR + 1.0)).log10();
        (dense / as_built * compressed).cbrt()
    }

    /// The volume of what is in it, in nm³, without the gaps of a box that was just filled with water;
    /// none of a membrane, whose lipids are less dense, and of what is not mostly water.
    fn dense_volume(&self) -> Option<f64> {
        let water = *self.contents.molecules.get("water")? as f64;
        let mass = self.contents.density? / DALTON_PER_NM3 * self.volume();
        let rest = (mass - water * WATER_DA).max(0.0);
        let is_mostly_water = rest < water * WATER_DA;
        (is_mostly_water && !self.has_membrane)
            .then(|| water * WATER_NM3 + rest * DALTON_PER_NM3 / REST_DENSITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cube of water with something in it.
    fn cube(width: f64, density: f64, water: u64) -> UnitCell {
        UnitCell {
            vectors_nm: [[width, 0.0, 0.0], [0.0, width, 0.0], [0.0, 0.0, width]],
            contents: Contents {
                density: Some(density),
                molecules: BTreeMap::from([("water".to_owned(), water)]),
            },
            has_membrane: false,
        }
    }

    /// With other vectors.
    fn shaped(cell: UnitCell, vectors_nm: [[f64; 3]; 3]) -> UnitCell {
        UnitCell { vectors_nm, ..cell }
    }

    /// Builds of alanine dipeptide and of water alone, and the widths that they had over the last
    /// 16 to 27 ps of 16 to 40 ps at 1 bar and 300 K with a cutoff of 0.8 nm, their mean and the
    /// least of all: by GROMACS, the last by OpenMM.
    fn measured() -> Vec<(&'static str, UnitCell, f64, f64)> {
        let dodecahedron = [[2.9698, 0.0, 0.0], [0.0, 2.9698, 0.0], [1.4849, 1.4849, 2.1]];
        let octahedron = [[2.572, 0.0, 0.0], [0.8573, 2.4249, 0.0], [-0.8573, 1.2125, 2.1]];
        vec![
            ("cube", cube(2.1, 0.892341, 265), 2.0281, 2.0168),
            ("dodecahedron", shaped(cube(2.1, 0.95694, 578), dodecahedron), 2.0748, 2.0642),
            ("octahedron", shaped(cube(2.1, 0.934768, 398), octahedron), 2.0636, 2.0511),
            ("wide cube", cube(2.9201, 0.965352, 789), 2.8949, 2.8821),
            ("OPC", cube(2.1, 0.902064, 268), 2.0308, 2.0136),
            ("water", cube(2.1, 0.956936, 293), 2.0784, 2.0645),
            ("water, dodecahedron", shaped(cube(2.1, 0.986008, 604), dodecahedron), 2.0952, 2.0873),
            ("cube, OpenMM", cube(2.1, 0.892341, 265), 2.0292, 2.0114),
        ]
    }

    #[test]
    fn boxes_settle_a_little_wider_than_is_said_and_stay_wider_than_the_least() {
        for (name, cell, mean, least) in measured() {
            let settled = cell.settled_width(1.0);
            assert!((mean - 0.025..mean).contains(&settled), "{name}: {settled} for {mean}");
            let said = cell.least_width(1.0, 300.0);
            assert!(said < least && said > least - 0.06, "{name}: {said} for {least}");
        }
    }

    #[test]
    fn pressure_compresses_water_as_measured() {
        // 3.9 % at 1 kbar and 20 % at 10 kbar (Li 1967; Grindley and Lind 1971).
        let share = |pressure| {
            let cell = cube(3.0, 1.2, 900);
            (cell.settled_width(pressure) / cell.settled_width(1.0)).powi(3)
        };
        assert!((share(1e3) - 0.961).abs() < 0.002, "{}", share(1e3));
        assert!((share(1e4) - 0.80).abs() < 0.02, "{}", share(1e4));
        assert_eq!(share(1e300), share(1e4));
    }

    #[test]
    fn what_is_as_dense_as_it_becomes_does_not_shrink() {
        // Of another solvent the density is not known, nor of a membrane.
        let methanol = cube(3.0, 0.79, 10);
        let membrane = UnitCell { has_membrane: true, ..cube(3.0, 0.9, 700) };
        for cell in [cube(3.0, 1.05, 900), methanol, membrane] {
            assert_eq!(cell.settled_width(1.0), 3.0);
            assert_eq!(cell.least_width(1.0, 0.0), 3.0);
        }
    }

    #[test]
    fn the_plane_of_a_membrane_fluctuates_less_than_its_normal() {
        let cell = |widths: [f64; 3]| UnitCell {
            vectors_nm: [[widths[0], 0.0, 0.0], [0.0, widths[1], 0.0], [0.0, 0.0, widths[2]]],
            contents: Contents::default(),
            has_membrane: true,
        };
        // 25 nm²: 2.6 % of the area.
        let plane = 5.0 - cell([5.0, 5.0, 9.0]).least_width(1.0, 300.0);
        let normal = 5.0 - cell([5.0, 5.0, 5.0]).least_width(1.0, 300.0);
        assert!(
            (0.2..0.3).contains(&plane) && (normal - 2.0 * plane).abs() < 1e-9,
            "{plane} {normal}"
        );
    }
}
