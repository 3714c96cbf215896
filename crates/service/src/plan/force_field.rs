//! The force fields and water models that OpenMM ships and this service builds with, and what to
//! cite for each.

use std::collections::{BTreeMap, HashSet};

use molbox_analysis::ResidueKind;

use super::topology::Built;

/// A family of force fields that share their water files.
pub(super) struct ForceField {
    pub(super) name: &'static str,
    pub(super) files: &'static [&'static str],
    pub(super) water_folder: &'static str,
    pub(super) waters: &'static [WaterModel],
    pub(super) default_water: &'static str,
    /// Anions with parameters beside its water; all of them have each cation.
    pub(super) anions: &'static [&'static str],
    /// What to cite for each kind of molecule that it has parameters for.
    pub(super) parts: &'static [(Matter, &'static str)],
}

/// A kind of molecule whose parameters have an article of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    Protein,
    Dna,
    Rna,
    Lipid,
    Ion,
}

/// What of that a built system holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents(Vec<Matter>);

impl Contents {
    /// Of a system with so many molecules of each kind.
    pub(crate) fn of(system: &Built, molecules: &BTreeMap<String, u64>) -> Self {
        let ions = POSITIVE.iter().chain(&NEGATIVE);
        let has_ions = ions.map(|ion| ion.to_uppercase()).any(|ion| molecules.contains_key(&ion));
        let topology = system.topology();
        // Uranium is U, and so is uracil; an ion is alone.
        let residues = topology.residues().enumerate();
        let names: HashSet<&str> = residues
            .filter(|(index, _)| topology.residue_atoms(*index).len() > 1)
            .map(|(_, residue)| residue.name)
            .collect();
        // Of a chain of other residues alone, nothing is known to cite.
        let has_any = |kind, is_one: fn(&str) -> bool| {
            names.iter().any(|name| ResidueKind::of_name(name) == Some(kind) && is_one(name))
        };
        let found = [
            (Matter::Protein, has_any(ResidueKind::Protein, |_| true)),
            (Matter::Dna, has_any(ResidueKind::NucleicAcid, |name| name.starts_with('D'))),
            (Matter::Rna, has_any(ResidueKind::NucleicAcid, |name| !name.starts_with('D'))),
            (Matter::Lipid, molecules.contains_key("lipid")),
            (Matter::Ion, has_ions),
        ];
        Self(
            found.into_iter().filter(|(_, is_there)| *is_there).map(|(matter, _)| matter).collect(),
        )
    }

    pub(super) fn has(&self, matter: Matter) -> bool {
        self.0.contains(&matter)
    }
}

impl ForceField {
    pub(super) fn family(&self) -> &'static str {
        if self.name.starts_with("charmm") { "charmm" } else { "amber" }
    }

    /// Whether it has parameters for lipids.
    pub(super) fn has_lipids(&self) -> bool {
        self.parts.iter().any(|(matter, _)| *matter == Matter::Lipid)
    }

    /// What to cite for its part in a system of these contents.
    pub(super) fn citations(&self, contents: &Contents) -> impl Iterator<Item = &'static str> {
        let parts = self.parts.iter().filter(|(matter, _)| contents.has(*matter));
        parts.map(|(_, citation)| *citation)
    }

    /// What to cite for ions in one of its waters, whose file has their parameters.
    pub(super) fn citation_of_ions(&self, water: &str) -> Option<&'static str> {
        match (self.family(), water) {
            ("charmm", _) => Some(CHARMM_IONS),
            // The ions of the files without a folder are older, and name no source.
            _ if self.water_folder.is_empty() => None,
            (_, "opc" | "opc3") => Some(OPC_IONS),
            _ => Some(AMBER_IONS),
        }
    }

    /// What to cite for one of its waters.
    pub(super) fn citation_of_water(&self, water: &str) -> Option<&'static str> {
        match (self.family(), water) {
            ("charmm", "tip3p") => Some(CHARMM_TIP3P),
            _ => citation_of_water(water),
        }
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

const FF14SB: &str = "Force field ff14SB of proteins: J. A. Maier et al., J. Chem. Theory Comput. \
    11, 3696 (2015), doi:10.1021/acs.jctc.5b00255";
const FF19SB: &str = "Force field ff19SB of proteins: C. Tian et al., J. Chem. Theory Comput. 16, \
    528 (2020), doi:10.1021/acs.jctc.9b00591";
const FF15IPQ: &str = "Force field ff15ipq of proteins: K. T. Debiec et al., J. Chem. Theory \
    Comput. 12, 3926 (2016), doi:10.1021/acs.jctc.6b00567";
const FB15: &str = "Force field AMBER-FB15 of proteins: L.-P. Wang et al., J. Phys. Chem. B 121, \
    4023 (2017), doi:10.1021/acs.jpcb.7b02320";
const OL15: &str = "Force field OL15 of DNA: M. Zgarbová et al., J. Chem. Theory Comput. 11, 5723 \
    (2015), doi:10.1021/acs.jctc.5b00716";
const OL21: &str = "Force field OL21 of DNA: M. Zgarbová et al., J. Chem. Theory Comput. 17, 6292 \
    (2021), doi:10.1021/acs.jctc.1c00697";
const OL3: &str = "Force field OL3 of RNA: M. Zgarbová et al., J. Chem. Theory Comput. 7, 2886 \
    (2011), doi:10.1021/ct200162x";
// Lipid17 itself was never published.
const LIPID17: &str = "Force field Lipid17 of lipids, which extends Lipid14: C. J. Dickson et al., \
    J. Chem. Theory Comput. 10, 865 (2014), doi:10.1021/ct4010307";
const LIPID21: &str = "Force field Lipid21 of lipids: C. J. Dickson et al., J. Chem. Theory Comput. \
    18, 1726 (2022), doi:10.1021/acs.jctc.1c01217";
const CHARMM36: &str = "Force field CHARMM36 of proteins: R. B. Best et al., J. Chem. Theory \
    Comput. 8, 3257 (2012), doi:10.1021/ct300400x";
const CHARMM36M: &str = "Force field CHARMM36m of proteins: J. Huang et al., Nat. Methods 14, 71 \
    (2017), doi:10.1038/nmeth.4067";
const CHARMM_DNA: &str = "Force field CHARMM36 of DNA: K. Hart et al., J. Chem. Theory Comput. 8, \
    348 (2012), doi:10.1021/ct200723y";
const CHARMM_RNA: &str = "Force field CHARMM36 of RNA: E. J. Denning et al., J. Comput. Chem. 32, \
    1929 (2011), doi:10.1002/jcc.21777";
const CHARMM_LIPIDS: &str = "Force field CHARMM36 of lipids: J. B. Klauda et al., J. Phys. Chem. B \
    114, 7830 (2010), doi:10.1021/jp101759q";

const AMBER_IONS: &str = "Ions: I. S. Joung and T. E. Cheatham, J. Phys. Chem. B 112, 9020 (2008), \
    doi:10.1021/jp8001614";
const OPC_IONS: &str = "Ions: A. Sengupta et al., J. Chem. Inf. Model. 61, 869 (2021), \
    doi:10.1021/acs.jcim.0c01390";
const CHARMM_IONS: &str = "Ions: D. Beglov and B. Roux, J. Chem. Phys. 100, 9050 (1994), \
    doi:10.1063/1.466711";
// Its hydrogens have a radius, unlike Jorgensen's.
const CHARMM_TIP3P: &str = "Water model TIP3P of CHARMM: W. L. Jorgensen et al., J. Chem. Phys. 79, \
    926 (1983), doi:10.1063/1.445869, and A. D. MacKerell et al., J. Phys. Chem. B 102, 3586 \
    (1998), doi:10.1021/jp973084f";

pub(super) const FORCE_FIELDS: [ForceField; 6] = [
    ForceField {
        name: "amber14",
        files: &["amber14-all.xml"],
        water_folder: "amber14/",
        waters: &AMBER_WATERS,
        default_water: "tip3p",
        anions: &NEGATIVE,
        parts: &[
            (Matter::Protein, FF14SB),
            (Matter::Dna, OL15),
            (Matter::Rna, OL3),
            (Matter::Lipid, LIPID17),
        ],
    },
    ForceField {
        name: "amber19",
        files: &["amber19-all.xml"],
        water_folder: "amber19/",
        waters: &AMBER_WATERS,
        default_water: "opc",
        anions: &NEGATIVE,
        parts: &[
            (Matter::Protein, FF19SB),
            (Matter::Dna, OL21),
            (Matter::Rna, OL3),
            (Matter::Lipid, LIPID21),
        ],
    },
    ForceField {
        name: "amber14-ff15ipq",
        files: &["amber14/protein.ff15ipq.xml"],
        water_folder: "amber14/",
        waters: &AMBER_WATERS,
        default_water: "spce",
        anions: &NEGATIVE,
        parts: &[(Matter::Protein, FF15IPQ)],
    },
    // Its sodium and chloride are not those of the amber14 folder.
    ForceField {
        name: "amberfb15",
        files: &["amberfb15.xml"],
        water_folder: "",
        waters: &FB15_WATERS,
        default_water: "tip3pfb",
        anions: &["Cl"],
        parts: &[(Matter::Protein, FB15)],
    },
    ForceField {
        name: "charmm36",
        files: &["charmm36.xml"],
        water_folder: "charmm36/",
        waters: &CHARMM_WATERS,
        default_water: "tip3p",
        anions: &["Cl"],
        parts: &[
            (Matter::Protein, CHARMM36),
            (Matter::Dna, CHARMM_DNA),
            (Matter::Rna, CHARMM_RNA),
            (Matter::Lipid, CHARMM_LIPIDS),
        ],
    },
    ForceField {
        name: "charmm36_2024",
        files: &["charmm36_2024.xml"],
        water_folder: "charmm36_2024/",
        waters: &CHARMM_WATERS,
        default_water: "tip3p",
        anions: &["Cl"],
        parts: &[
            (Matter::Protein, CHARMM36M),
            (Matter::Dna, CHARMM_DNA),
            (Matter::Rna, CHARMM_RNA),
            (Matter::Lipid, CHARMM_LIPIDS),
        ],
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
fn citation_of_water(name: &str) -> Option<&'static str> {
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
    "Ligands by GAFF2: J. Wang et al., J. Comput. Chem. 25, 1157 (2004), doi:10.1002/jcc.20035; X. \
     He et al., J. Chem. Phys. 153, 114502 (2020), doi:10.1063/5.0019056",
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
        for force_field in &FORCE_FIELDS {
            for water in force_field.waters {
                assert!(force_field.citation_of_water(water.name).is_some(), "{}", water.name);
            }
        }
    }

    #[test]
    fn of_a_force_field_what_is_there_alone_is_cited() {
        let cited = |name: &str, contents: &[Matter]| -> Vec<_> {
            let of: Vec<_> = named(name).unwrap().citations(&Contents(contents.to_vec())).collect();
            of.iter().filter_map(|text| text.split_once(':')).map(|(what, _)| what).collect()
        };
        assert_eq!(
            cited("amber14", &[Matter::Protein, Matter::Ion]),
            ["Force field ff14SB of proteins"]
        );
        assert_eq!(
            cited("amber14", &[Matter::Dna, Matter::Rna]),
            ["Force field OL15 of DNA", "Force field OL3 of RNA"]
        );
        assert_eq!(cited("charmm36_2024", &[Matter::Lipid]), ["Force field CHARMM36 of lipids"]);
        assert!(cited("amberfb15", &[]).is_empty());
    }

    #[test]
    fn ions_are_those_that_were_made_for_their_water() {
        let ions = |name: &str, water: &str| named(name).unwrap().citation_of_ions(water);
        assert_eq!(ions("amber14", "tip3p"), Some(AMBER_IONS));
        assert_eq!(ions("amber19", "opc"), Some(OPC_IONS));
        assert_eq!(ions("charmm36", "tip3p"), Some(CHARMM_IONS));
        assert_eq!(ions("amberfb15", "tip3pfb"), None);
    }
}
