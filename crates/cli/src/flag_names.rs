//! What flags are called whose names are not those of their fields.

/// Flags with names of their own; the others are called as their field.
pub(crate) const NAMES: [(&str, &str); 22] = [
    ("pH", "ph"),
    ("keep_Hs", "keep-hs"),
    ("ligands", "ligand"),
    ("production.type", "ensemble"),
    ("distance_masks", "distance"),
    ("rmsd_masks", "rmsd"),
    ("rmsf_masks", "rmsf"),
    ("hbond_masks", "hbond"),
    ("contact_masks", "contact"),
    ("gyration_masks", "gyration"),
    ("surface_masks", "surface"),
    ("secondary_structure_masks", "secondary-structure"),
    ("cluster_masks", "cluster"),
    ("dihedral_masks", "dihedral"),
    ("native_contact_masks", "native-contact"),
    ("rdf_masks", "rdf"),
    ("density_masks", "density"),
    ("pca_masks", "pca"),
    ("lipid_masks", "lipid"),
    ("end_to_end_masks", "end-to-end"),
    ("portfolio.futures", "future"),
    ("downsample_frames", "stride"),
];

/// A field as whoever gave it by a flag of another name knows it: `rmsd_masks[0][0]` as `--rmsd`.
pub(crate) fn shown_place(field: &str) -> String {
    let is_of = |own: &&(&str, &str)| {
        field.strip_prefix(own.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
    };
    let flag = NAMES.iter().find(is_of).map(|(_, name)| format!("--{name}"));
    let is_given = |flag: &String| {
        std::env::args().any(|arg| arg.strip_prefix(flag).is_some_and(is_end_of_flag))
    };
    flag.filter(is_given).unwrap_or_else(|| field.to_owned())
}

fn is_end_of_flag(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('=')
}
