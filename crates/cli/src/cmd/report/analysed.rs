//! What to cite for analyses: their tables say in their definitions by whose method they were made.

/// How a definition names a method, and the article.
const CITED: [(&str, &str); 10] = [
    (
        "Kabsch and Sander 1983",
        "Secondary structure: W. Kabsch and C. Sander, Biopolymers 22, 2577 (1983), \
         doi:10.1002/bip.360221211",
    ),
    (
        "Shrake and Rupley 1973",
        "Accessible surface: A. Shrake and J. A. Rupley, J. Mol. Biol. 79, 351 (1973), \
         doi:10.1016/0022-2836(73)90011-9",
    ),
    (
        "Best, Hummer and Eaton 2013",
        "Native contacts: R. B. Best et al., Proc. Natl. Acad. Sci. 110, 17874 (2013), \
         doi:10.1073/pnas.1311599110",
    ),
    (
        "Baker and Hubbard 1984",
        "Hydrogen bonds: E. N. Baker and R. E. Hubbard, Prog. Biophys. Mol. Biol. 44, 97 (1984), \
         doi:10.1016/0079-6107(84)90007-5",
    ),
    (
        "Wernet and Nilsson 2004",
        "Hydrogen bonds: Ph. Wernet et al., Science 304, 995 (2004), doi:10.1126/science.1096205",
    ),
    (
        "Daura and others 1999",
        "Clusters: X. Daura et al., Angew. Chem. Int. Ed. 38, 236 (1999), \
         doi:10.1002/(SICI)1521-3773(19990115)38:1/2<236::AID-ANIE236>3.0.CO;2-M",
    ),
    (
        "Amadei, Linssen and Berendsen 1993",
        "Principal components: A. Amadei et al., Proteins 17, 412 (1993), \
         doi:10.1002/prot.340170408",
    ),
    (
        "Chodera and others 2007",
        "Independent samples: J. D. Chodera et al., J. Chem. Theory Comput. 3, 26 (2007), \
         doi:10.1021/ct0502864",
    ),
    (
        "Chodera 2016",
        "Start of equilibrium: J. D. Chodera, J. Chem. Theory Comput. 12, 1799 (2016), \
         doi:10.1021/acs.jctc.5b00784",
    ),
    (
        "Flyvbjerg and Petersen 1989",
        "Averages of blocks: H. Flyvbjerg and H. G. Petersen, J. Chem. Phys. 91, 461 (1989), \
         doi:10.1063/1.457480",
    ),
];

/// The articles that texts name, each once.
pub(super) fn cited(texts: &[&str]) -> Vec<&'static str> {
    let is_named = |(name, _): &&(&str, &str)| texts.iter().any(|text| text.contains(name));
    CITED.iter().filter(is_named).map(|(_, article)| *article).collect()
}
