//! Chemical elements: symbols and masses.

use std::num::NonZeroU8;

/// A chemical element, by atomic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Element(NonZeroU8);

impl Element {
    /// Hydrogen.
    pub const H: Self = Self::from_number(1);
    /// Carbon.
    pub const C: Self = Self::from_number(6);
    /// Nitrogen.
    pub const N: Self = Self::from_number(7);
    /// Oxygen.
    pub const O: Self = Self::from_number(8);
    /// Fluorine.
    pub const F: Self = Self::from_number(9);
    /// Sulfur.
    pub const S: Self = Self::from_number(16);

    const fn from_number(number: u8) -> Self {
        Self(NonZeroU8::new(number).expect("atomic numbers start at 1"))
    }

    /// The element of a symbol in any case; deuterium (`D`) is hydrogen.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        if symbol.eq_ignore_ascii_case("D") {
            return Some(Self::H);
        }
        let row = TABLE.iter().position(|(known, _)| known.eq_ignore_ascii_case(symbol))?;
        Some(Self::from_number(row as u8 + 1))
    }

    /// The element of an atomic number; none of 0 and below, as virtual sites have.
    pub fn from_atomic_number(number: i64) -> Option<Self> {
        let number = u8::try_from(number).ok().filter(|n| usize::from(*n) <= TABLE.len())?;
        NonZeroU8::new(number).map(Self)
    }

    /// Whether it forms ions and complexes rather than molecules.
    pub fn is_metal(self) -> bool {
        !matches!(self.number(), 1 | 2 | 5..=10 | 14..=18 | 33..=36 | 52..=54 | 85 | 86)
    }

    /// Every element of which a mass is known.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=TABLE.len() as u8).map(Self::from_number)
    }

    /// Atomic number.
    pub fn number(self) -> u8 {
        self.0.get()
    }

    /// Symbol as chemists write it: `Na`.
    pub fn symbol(self) -> &'static str {
        TABLE[usize::from(self.0.get()) - 1].0
    }

    /// Van der Waals radius in Å by Bondi (J. Phys. Chem. 68, 441, 1964), or 2 Å where he has none.
    pub fn radius(self) -> f64 {
        let found = RADII.binary_search_by_key(&self.number(), |(number, _)| *number);
        found.map_or(2.0, |at| RADII[at].1)
    }

    /// Atomic mass in Da, the value that the simulation engine gives this element, so that a centre
    /// of mass is the same here and there.
    pub fn mass_da(self) -> f64 {
        TABLE[usize::from(self.0.get()) - 1].1
    }
}

/// Radii in Å by atomic number.
#[rustfmt::skip]
const RADII: [(u8, f64); 38] = [
    (1, 1.20), (2, 1.40), (3, 1.82), (6, 1.70), (7, 1.55), (8, 1.52), (9, 1.47), (10, 1.54), (11, 2.27), (12, 1.73),
    (14, 2.10), (15, 1.80), (16, 1.80), (17, 1.75), (18, 1.88), (19, 2.75), (28, 1.63), (29, 1.40), (30, 1.39),
    (31, 1.87), (33, 1.85), (34, 1.90), (35, 1.85), (36, 2.02), (46, 1.63), (47, 1.72), (48, 1.58), (49, 1.93),
    (50, 2.17), (52, 2.06), (53, 1.98), (54, 2.16), (78, 1.75), (79, 1.66), (80, 1.55), (81, 1.96), (82, 2.02),
    (92, 1.86),
];

#[rustfmt::skip]
const TABLE: [(&str, f64); 111] = [
    ("H", 1.007947), ("He", 4.003), ("Li", 6.9412), ("Be", 9.0121823), ("B", 10.8117),
    ("C", 12.01078), ("N", 14.00672), ("O", 15.99943), ("F", 18.99840325), ("Ne", 20.17976),
    ("Na", 22.989769282), ("Mg", 24.30506), ("Al", 26.98153868), ("Si", 28.08553), ("P", 30.9737622),
    ("S", 32.0655), ("Cl", 35.4532), ("Ar", 39.9481), ("K", 39.09831), ("Ca", 40.0784),
    ("Sc", 44.9559126), ("Ti", 47.8671), ("V", 50.94151), ("Cr", 51.99616), ("Mn", 54.9380455),
    ("Fe", 55.8452), ("Co", 58.9331955), ("Ni", 58.69342), ("Cu", 63.5463), ("Zn", 65.4094),
    ("Ga", 69.7231), ("Ge", 72.641), ("As", 74.921602), ("Se", 78.963), ("Br", 79.9041),
    ("Kr", 83.7982), ("Rb", 85.46783), ("Sr", 87.621), ("Y", 88.905852), ("Zr", 91.2242),
    ("Nb", 92.906382), ("Mo", 95.942), ("Tc", 98.0), ("Ru", 101.072), ("Rh", 102.905502),
    ("Pd", 106.421), ("Ag", 107.86822), ("Cd", 112.4118), ("In", 114.8183), ("Sn", 118.7107),
    ("Sb", 121.7601), ("Te", 127.603), ("I", 126.904473), ("Xe", 131.2936), ("Cs", 132.90545192),
    ("Ba", 137.3277), ("La", 138.905477), ("Ce", 140.1161), ("Pr", 140.907652), ("Nd", 144.2423),
    ("Pm", 145.0), ("Sm", 150.362), ("Eu", 151.9641), ("Gd", 157.253), ("Tb", 158.925352),
    ("Dy", 162.5001), ("Ho", 164.930322), ("Er", 167.2593), ("Tm", 168.934212), ("Yb", 173.043),
    ("Lu", 174.9671), ("Hf", 178.492), ("Ta", 180.947882), ("W", 183.841), ("Re", 186.2071),
    ("Os", 190.233), ("Ir", 192.2173), ("Pt", 195.0849), ("Au", 196.9665694), ("Hg", 200.592),
    ("Tl", 204.38332), ("Pb", 207.21), ("Bi", 208.980401), ("Po", 209.0), ("At", 210.0),
    ("Rn", 222.018), ("Fr", 223.0), ("Ra", 226.0), ("Ac", 227.0), ("Th", 232.038062),
    ("Pa", 231.035882), ("U", 238.028913), ("Np", 237.0), ("Pu", 244.0), ("Am", 243.0),
    ("Cm", 247.0), ("Bk", 247.0), ("Cf", 251.0), ("Es", 252.0), ("Fm", 257.0),
    ("Md", 258.0), ("No", 259.0), ("Lr", 262.0), ("Rf", 261.0), ("Db", 262.0),
    ("Sg", 266.0), ("Bh", 264.0), ("Hs", 269.0), ("Mt", 268.0), ("Ds", 281.0),
    ("Rg", 272.0),
];

#[cfg(test)]
mod tests {
    use super::{Element, RADII};

    #[test]
    fn every_symbol_names_its_element() {
        for element in Element::all() {
            assert_eq!(Element::from_symbol(&element.symbol().to_uppercase()), Some(element));
        }
        assert_eq!(Element::from_symbol("Xx"), None);
        assert!(RADII.is_sorted_by_key(|(number, _)| *number), "or some are not found");
        assert_eq!(Element::from_symbol("ZN").map(Element::mass_da), Some(65.4094));
    }
}
