//! What of a simulation counts, as its worker has committed it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::objects::{Key, Objects};
use crate::plan::simulate::Parameters;
use crate::runner::left::{self, COLLECTED, COMMIT, MAX_JSON};

/// What of a simulation counts: it names the rest.
pub(super) const COMMITTED: &str = "commit.json";

/// Whether a job that has ended left something to go on from.
pub(crate) fn has_commit(objects: &Objects, id: &str) -> io::Result<bool> {
    objects.exists(&commit_key(id))
}

fn commit_key(id: &str) -> Key {
    Key::task(id).under(COMMIT).under(COMMITTED)
}

/// What of a simulation is safely on disk, as its worker has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// Commits so far.
    pub(super) number: u64,
    /// The stage that is under way; none while the energy is minimised.
    stage: Option<usize>,
    /// Steps of that stage.
    #[serde(default)]
    step: u64,
    /// Lengths of the files of that stage.
    files: Option<BTreeMap<String, u64>>,
}

impl Commit {
    fn read(commit: Value) -> Option<Self> {
        serde_json::from_value(commit).ok()
    }

    /// The commit of a job that has not ended: in its folder, for a moment among what is collected,
    /// and while it waits to go on among its objects.
    pub(crate) fn of(app: &App, id: &str) -> io::Result<Option<Self>> {
        let folder = app.task_folder(id);
        let mut found = left::read_json(&folder, &[COMMIT, COMMITTED])?;
        if found.is_none() {
            found = left::read_json_below(&folder, &[COLLECTED, COMMIT, COMMITTED])?;
        }
        if found.is_none() && has_commit(&app.objects, id)? {
            let text = app.objects.read_at_most(&commit_key(id), MAX_JSON)?;
            found = text.and_then(|text| serde_json::from_slice(&text).ok());
        }
        Ok(found.and_then(Self::read))
    }

    pub(super) fn is_minimised(&self) -> bool {
        self.stage.is_some()
    }

    /// Steps that a job of these parameters has no more to do.
    pub(super) fn steps(&self, parameters: &Parameters) -> u64 {
        self.stage.map_or(0, |stage| {
            // A stranger's numbers.
            parameters.steps_before(stage).saturating_add(self.step)
        })
    }

    /// Bytes of the trajectory of a stage that stay what they are whatever is killed.
    pub(crate) fn trajectory_bytes(&self, stage: usize) -> u64 {
        self.bytes_of(stage, "dcd")
    }

    /// The same of its log.
    pub(super) fn log_bytes(&self, stage: usize) -> u64 {
        self.bytes_of(stage, "log")
    }

    fn bytes_of(&self, stage: usize, file: &str) -> u64 {
        match self.stage {
            Some(under_way) if under_way > stage => u64::MAX,
            Some(under_way) if under_way == stage => {
                self.files.as_ref().and_then(|files| files.get(file)).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }
}

/// The commit in the folder of a job.
pub(super) fn committed(folder: &Path) -> Option<Commit> {
    // What cannot be read has not got anywhere.
    left::read_json(folder, &[COMMIT, COMMITTED]).ok().flatten().and_then(Commit::read)
}

/// How often a simulation has committed what it had come to.
pub(super) fn n_commits(folder: &Path) -> u64 {
    committed(folder).map_or(0, |commit| commit.number)
}
