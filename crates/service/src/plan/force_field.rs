//! The force fields and water models that OpenMM ships and this service builds with, and what to
//! cite for each.

/// A family of force fields that share their water files.
pub(super) struct ForceField {
    pub(super) name: &'static str,
    pub(super) files: &'static [&'static str],
    pub(super) water_folder: &'static str,
    pub(super) waters: &'static [WaterModel],
    pub(super) default_water: &'static str,
    /// Anions with parameters beside its water; all of them have each cation.
    pub(super) anions: &'static [&'static str],
    pub(super) citation: &'static str,
    /// What to cite for its lipids; none where it has no parameters for any.
    pub(super) lipids: Option<&'static str>,
}

impl ForceField {
    pub(super) fn family(&self) -> &'static str {
        if self.name.starts_with("charmm") { "charmm" } else { "amber" }
    }
}

/// The force field of ours that has a name.
pub(super) fn named(name: &str) -> Option<&'static ForceField> {
    FORCE_FIELDS.iter().find(|force_field| force_field.name == name)
}

/// A water model of a force field.
pub(super) struct WaterModel {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// The model of the same geometry that `addSolvent` places.
    pub(super) geometry: &'static str,
    /// Number of sites.
    pub(super) sites: u8,
}

const fn water(
    name: &'static str,
    file: &'static str,
    geometry: &'static str,
    sites: u8,
) -> WaterModel {
    WaterModel { name, file, geometry, sites }
}

const AMBER_LIPIDS: &str = "Lipids of the Amber family: C. J. Dickson et al., J. Chem. Theory \
    Comput. 10, 865 (2014), doi:10.1021/ct4010307, and 18, 1726 (2022), \
    doi:10.1021/acs.jctc.1c01217";
const CHARMM_LIPIDS: &str = "Lipids of CHARMM36: J. B. Klauda et al., J. Phys. Chem. B 114, 7830 \
    (2010), doi:10.1021/jp101759q";

pub(super) const FORCE_FIELDS: [ForceField; 6] = [
    ForceField {
        name: "amber14",
        files: &["amber14-all.xml"],
        water_folder: "amber14/",
        waters: &AMBER_WATERS,
        default_water: "tip3p",
        anions: &NEGATIVE,
        citation: "Force field ff14SB: J. A. Maier et al., J. Chem. Theory Comput. 11, 3696 \
            (2015), doi:10.1021/acs.jctc.5b00255",
        lipids: Some(AMBER_LIPIDS),
    },
    ForceField {
        name: "amber19",
        files: &["amber19-all.xml"],
        water_folder: "amber19/",
        waters: &AMBER_WATERS,
        default_water: "opc",
        anions: &NEGATIVE,
        citation: "Force field ff19SB: C. Tian et al., J. Chem. Theory Comput. 16, 528 (2020), \
            doi:10.1021/acs.jctc.9b00591",
        lipids: Some(AMBER_LIPIDS),
    },
    ForceField {
        name: "amber14-ff15ipq",
        files: &["amber14/protein.ff15ipq.xml"],
        water_folder: "amber14/",
        waters: &AMBER_WATERS,
        default_water: "spce",
        anions: &NEGATIVE,
        citation: "Force field ff15ipq: K. T. Debiec et al., J. Chem. Theory Comput. 12, 3926 \
            (2016), doi:10.1021/acs.jctc.6b00567",
        lipids: None,
    },
    // Its sodium and chloride are not those of the amber14 folder.
    ForceField {
        name: "amberfb15",
        files: &["amberfb15.xml"],
        water_folder: "",
        waters: &FB15_WATERS,
        default_water: "tip3pfb",
        anions: &["Cl"],
        citation: "Force field AMBER-FB15: L.-P. Wang et al., J. Phys. Chem. B 121, 4023 \
            (2017), doi:10.1021/acs.jpcb.7b02320",
        lipids: None,
    },
    ForceField {
        name: "charmm36",
        files: &["charmm36.xml"],
        water_folder: "charmm36/",
        waters: &CHARMM_WATERS,
        default_water: "tip3p",
        anions: &["Cl"],
        citation: "Force field CHARMM36: R. B. Best et al., J. Chem. Theory Comput. 8, 3257 \
            (2012), doi:10.1021/ct300400x",
        lipids: Some(CHARMM_LIPIDS),
    },
    ForceField {
        name: "charmm36_2024",
        files: &["charmm36_2024.xml"],
        water_folder: "charmm36_2024/",
        waters: &CHARMM_WATERS,
        default_water: "tip3p",
        anions: &["Cl"],
        citation: "Force field CHARMM36m: J. Huang et al., Nat. Methods 14, 71 (2017), \
            doi:10.1038/nmeth.4067",
        lipids: Some(CHARMM_LIPIDS),
    },
];

const AMBER_WATERS: [WaterModel; 7] = [
    water("tip3p", "tip3p.xml", "tip3p", 3),
    water("tip3pfb", "tip3pfb.xml", "tip3p", 3),
    water("spce", "spce.xml", "spce", 3),
    water("opc3", "opc3.xml", "tip3p", 3),
    water("tip4pew", "tip4pew.xml", "tip4pew", 4),
    water("tip4pfb", "tip4pfb.xml", "tip4pew", 4),
    water("opc", "opc.xml", "tip4pew", 4),
];
const FB15_WATERS: [WaterModel; 3] = [
    water("tip3p", "tip3p.xml", "tip3p", 3),
    water("tip3pfb", "tip3pfb.xml", "tip3p", 3),
    water("tip4pfb", "tip4pfb.xml", "tip4pew", 4),
];
const CHARMM_WATERS: [WaterModel; 8] = [
    water("tip3p", "water.xml", "tip3p", 3),
    water("tip3p-pme-b", "tip3p-pme-b.xml", "tip3p", 3),
    water("tip3p-pme-f", "tip3p-pme-f.xml", "tip3p", 3),
    water("spce", "spce.xml", "spce", 3),
    water("tip4pew", "tip4pew.xml", "tip4pew", 4),
    water("tip4p2005", "tip4p2005.xml", "tip4pew", 4),
    water("tip5p", "tip5p.xml", "tip5p", 5),
    water("tip5pew", "tip5pew.xml", "tip5p", 5),
];

/// What to cite for a water model, whichever force field it is of.
pub(super) fn citation_of_water(name: &str) -> Option<&'static str> {
    Some(match name {
        "tip3p" => {
            "Water model TIP3P: W. L. Jorgensen et al., J. Chem. Phys. 79, 926 (1983), \
             doi:10.1063/1.445869"
        }
        "tip3pfb" | "tip4pfb" => {
            "Water models TIP3P-FB and TIP4P-FB: L.-P. Wang et al., J. Phys. Chem. Lett. 5, 1885 \
             (2014), doi:10.1021/jz500737m"
        }
        "tip3p-pme-b" | "tip3p-pme-f" => {
            "Water model TIP3P for Ewald sums: D. J. Price and C. L. Brooks, J. Chem. Phys. 121, \
             10096 (2004), doi:10.1063/1.1808117"
        }
        "tip4pew" => {
            "Water model TIP4P-Ew: H. W. Horn et al., J. Chem. Phys. 120, 9665 (2004), \
             doi:10.1063/1.1683075"
        }
        "tip4p2005" => {
            "Water model TIP4P/2005: J. L. F. Abascal and C. Vega, J. Chem. Phys. 123, 234505 \
             (2005), doi:10.1063/1.2121687"
        }
        "tip5p" => {
            "Water model TIP5P: M. W. Mahoney and W. L. Jorgensen, J. Chem. Phys. 112, 8910 \
             (2000), doi:10.1063/1.481505"
        }
        "tip5pew" => {
            "Water model TIP5P-E: S. W. Rick, J. Chem. Phys. 120, 6085 (2004), \
             doi:10.1063/1.1652434"
        }
        "opc" => {
            "Water model OPC: S. Izadi et al., J. Phys. Chem. Lett. 5, 3863 (2014), \
             doi:10.1021/jz501780a"
        }
        "opc3" => {
            "Water model OPC3: S. Izadi and A. V. Onufriev, J. Chem. Phys. 145, 074501 (2016), \
             doi:10.1063/1.4960175"
        }
        "spce" => {
            "Water model SPC/E: H. J. C. Berendsen et al., J. Phys. Chem. 91, 6269 (1987), \
             doi:10.1021/j100308a038"
        }
        _ => return None,
    })
}

/// What to cite for ligands.
pub(super) const GAFF: [&str; 2] = [
    "Ligands by GAFF: J. Wang et al., J. Comput. Chem. 25, 1157 (2004), doi:10.1002/jcc.20035",
    "Charges by AM1-BCC: A. Jakalian et al., J. Comput. Chem. 23, 1623 (2002), \
     doi:10.1002/jcc.10128",
];

pub(super) const POSITIVE: [&str; 5] = ["Na", "K", "Li", "Cs", "Rb"];
pub(super) const NEGATIVE: [&str; 4] = ["Cl", "Br", "F", "I"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_something_to_cite_for_every_water_model() {
        for water in FORCE_FIELDS.iter().flat_map(|force_field| force_field.waters) {
            assert!(citation_of_water(water.name).is_some(), "{}", water.name);
        }
    }
}
