//! `README.txt` of a job's bundle: what each of its files is.

use std::fmt::Write as _;

/// Its name in the bundle.
pub(crate) const README: &str = "README.txt";

/// The record of a bundle, for programs, and the same as an RO-Crate.
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const RO_CRATE: &str = "ro-crate-metadata.json";

/// What files are called, with `*` for the name of a stage, and what they are.
const FILES: [(&str, &str); 21] = [
    (MANIFEST, "what was asked for, versions, seed, citations, warnings, checksum of every file"),
    (RO_CRATE, "the same for programs that read research objects: RO-Crate"),
    ("log.txt", "what the programs reported while they ran"),
    ("minimization.pdb", "the structure once its energy was minimised"),
    ("minimization.cif", "the structure once its energy was minimised"),
    ("minimization.state.xml", "OpenMM's State then: positions, molecules whole, and box"),
    ("excerpt.dcd", "frames of production of the atoms that were asked for alone"),
    ("excerpt.*", "their structure after its last step; it goes with excerpt.dcd as topology"),
    (
        "*.dcd",
        "trajectory of the stage: a frame every traj_freq steps, all atoms, in Å, molecules whole and \
         not moved back into the box",
    ),
    ("*.csv", "log of the stage: time, energies, temperature, volume, density"),
    (
        "*.pdb",
        "the structure in which the stage ended: after its last step, molecules whole and in the box",
    ),
    (
        "*.cif",
        "the structure in which the stage ended: after its last step, molecules whole and in the box",
    ),
    (
        "*.state.xml",
        "OpenMM's State then: positions as in the trajectory, not moved into the box, velocities, box",
    ),
    ("*.method.json", "how the stage was run: engine, integrator, barostat, cutoffs, processor"),
    (
        "system/manifest.json",
        "of the build of the system: what was asked for, versions, seed, warnings",
    ),
    ("system/log.txt", "what the programs reported while they built it"),
    (
        "system/system.*",
        "the system as it was built: structure (.pdb, .cif), forces for OpenMM (.xml)",
    ),
    ("system/prepared.*", "the molecules before water and ions were added around them"),
    ("system/state.xml", "positions and box of the system as it was built"),
    ("system/input/*", "the files that the system was built from"),
    ("system/topology.json", "names, elements, masses, bonds of its atoms, by which masks select"),
];

/// The text for the files of a bundle, by their names in it, and those that describe them, which
/// every bundle has and which are written last.
pub(super) fn text(id: &str, names: &[&str]) -> String {
    let mut text = format!("Results of {id}\n\n");
    let names = [&[MANIFEST, RO_CRATE][..], names].concat();
    let widest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    for name in &names {
        let line = format!("{name:widest$}  {}", meaning(name));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text += "\nTo look at it: open the .pdb or .cif of production with its trajectory, in VMD, PyMOL, \
             ChimeraX or MDAnalysis. Atoms are the same, in the same order, in all of these files";
    let has_excerpt = names.contains(&"excerpt.dcd");
    text += if has_excerpt { ", but for the excerpt.\n" } else { ".\n" };
    text
}

/// What a file of a job's bundle is, by its name in it; nothing of one that is not known.
pub(super) fn meaning(name: &str) -> &'static str {
    FILES.iter().find(|(pattern, _)| is_of(pattern, name)).map_or("", |(_, meaning)| meaning)
}

/// Whether a name is of a pattern with a star at most.
fn is_of(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).is_some_and(
                |part| {
                    // A stage has no folder.
                    !part.is_empty() && !part.contains('/')
                },
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_explained_and_the_frame_of_a_structure_named() {
        let names = ["log.txt", "minimization.pdb", "production.dcd", "production.pdb"];
        let all = text("job_1", &[&names[..], &["system/system.xml", "other"]].concat());
        let line = |name: &str| {
            all.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).unwrap()
        };
        assert!(line("production.pdb").contains("ended: after its last step"));
        assert!(line("minimization.pdb").contains("minimised"));
        assert!(line("system/system.xml").contains("forces for OpenMM"));
        assert!(text("job_1", &["excerpt.dcd"]).contains("that were asked for alone"));
        assert!(line("manifest.json").contains("checksum of every file"));
        assert!(line("ro-crate-metadata.json").contains("RO-Crate"));
        assert_eq!(line("other"), "", "what is not known is listed all the same");
    }

    #[test]
    fn the_page_on_bundles_has_each_file_that_is_explained() {
        // The README and the page were two lists, of which one lacked files that the other had.
        let page = include_str!("../../../../docs/bundle.md");
        for (pattern, _) in FILES {
            let name = pattern.strip_prefix("system/").unwrap_or(pattern);
            let name = match name.strip_prefix('*') {
                Some(rest) => format!("`NAME{rest}`"),
                None => format!("`{}", name.trim_end_matches('*')),
            };
            assert!(page.contains(&name), "{pattern}: {name}");
        }
        assert!(page.contains(&format!("`{README}`")));
    }
}
