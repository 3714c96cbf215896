//! Why tasks fail, and whose fault it is.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whose fault a failure is. A task ends as failed through the first three; the others have nothing
/// to do with it, and it waits until they have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fault {
    /// What was asked for cannot be.
    Request,
    /// A file that was given.
    Input,
    /// This program, or what it is made of.
    Engine,
    /// Disk, memory or GPU of the machine.
    Machine,
    /// How the service is set up.
    Operator,
}

/// Every code of a failure, of the service and of the worker; `docs/errors.md` explains them.
const FAULTS: [(Fault, &[&str]); 5] = [
    (
        Fault::Request,
        &[
            "atom_count",
            "box_collapsed",
            "box_too_small",
            "ligand_force_field",
            "ligand_name_taken",
            "ligand_overlaps",
            "ligand_rotation",
            "ligand_time_limit",
            "ligand_tools_missing",
            "membrane_water",
            "no_atoms",
            "no_frames",
            "no_such_chain",
            "not_analysed",
            "out_of_memory",
            "too_large",
            "unstable",
            "wall_limit",
        ],
    ),
    (
        Fault::Input,
        &[
            "ambiguous_template",
            "atoms_overlap",
            "bad_coordinates",
            "bond_missing",
            "bond_stretched",
            "charge_not_neutral",
            "covalent_link",
            "force_field_error",
            "force_field_unreadable",
            "force_field_unsafe",
            "force_too_large",
            "frame_damaged",
            "ligand_bonds",
            "ligand_chemistry",
            "ligand_element",
            "ligand_flat",
            "ligand_fragments",
            "ligand_no_hydrogens",
            "ligand_not_parametrised",
            "ligand_radical",
            "ligand_too_large",
            "ligand_unreadable",
            "membrane_not_oriented",
            "no_template",
            "no_water",
            "not_finite",
            "residue_bare",
            "trajectory_damaged",
            "unreadable",
            "wrong_handed",
        ],
    ),
    (
        Fault::Engine,
        &[
            "checkpoint_damaged",
            "inputs_changed",
            "internal",
            "not_started",
            "residues_unaccounted",
            "result_invalid",
            "worker_died",
            "worker_hung",
        ],
    ),
    (Fault::Machine, &["disk_full", "gpu_lost", "trajectory_unreadable"]),
    (Fault::Operator, &["environment_broken", "platform_missing", "sandbox_unavailable"]),
];

impl Fault {
    /// Whose fault a failure with this code is; a code that is missing above is a defect of ours.
    pub(crate) fn of(code: &str) -> Self {
        let found = FAULTS.iter().find(|(_, codes)| codes.contains(&code));
        found.map_or(Self::Engine, |(fault, _)| *fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A failure that the service reports, in the form of the records.
pub(crate) fn failure(code: &str, message: impl Into<String>, remedy: &str) -> Value {
    json!({ "code": code, "message": message.into(), "fault": Fault::of(code), "remedy": remedy })
}

/// What to do when a task needs more memory than there is.
pub(crate) const MORE_MEMORY: &str = "ask for fewer atoms or a shorter trajectory; the operator gives workers more \
     memory (worker.memory_mb, worker.slots) or the machine";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_page_of_errors_has_the_fault_of_each_code() {
        let page = include_str!("../../../../docs/errors.md");
        let section = page.split("\n## ").find(|section| section.starts_with("Failures\n")).unwrap();
        let rows = section.lines().filter_map(|line| {
            let cells: Vec<&str> =
                line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect();
            (cells.len() == 4).then(|| (cells[0], cells[1].to_owned()))
        });
        let explained: BTreeMap<&str, String> = rows.filter(|(code, _)| *code != "code").collect();
        let table = FAULTS.iter().flat_map(|(fault, codes)| codes.iter().map(|code| (*code, fault.to_string())));
        assert_eq!(explained, table.collect());
    }
}
