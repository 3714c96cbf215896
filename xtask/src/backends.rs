//! What takes the place of a default of the service: PostgreSQL, S3 and Slurm, and its tests on them.

use std::path::Path;
use std::process::Command;

use crate::shell::cargo;

/// A server of its own, that a service can be tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Postgres,
    S3,
    Slurm,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Postgres, Self::S3, Self::Slurm];

    /// As the variable has it that asks for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::S3 => "s3",
            Self::Slurm => "slurm",
        }
    }

    /// What the tests of the service are asked by to use it.
    fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "MOLBOX_TEST_DATABASE",
            Self::S3 => "MOLBOX_TEST_OBJECTS",
            Self::Slurm => "MOLBOX_TEST_TASKS",
        }
    }

    /// Why it cannot be started here, if so.
    pub fn missing(self) -> Option<&'static str> {
        let (is_there, missing) = match self {
            Self::Postgres => (
                Path::new("/usr/lib/postgresql").exists() || has("initdb"),
                "PostgreSQL is not installed (Debian: postgresql)",
            ),
            Self::S3 => (
                has("versitygw"),
                "versitygw is not installed \
                 (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)",
            ),
            Self::Slurm => (
                ["slurmctld", "slurmd", "munged"].into_iter().all(has),
                "Slurm is not installed (Debian: slurm-wlm, munge)",
            ),
        };
        (!is_there).then_some(missing)
    }

    /// What of the service `cargo xtask test` tests on it: what it matters for most. `cargo xtask soak`
    /// takes all of it.
    pub fn fixed_part(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &[
                "access::",
                "admin::",
                "audits::",
                "kills::",
                "queue::",
                "quotas::",
                "repeats::",
                "retention::",
                "sessions::",
                "webhooks::",
            ],
            Self::S3 => &["files::", "kills::", "quotas::", "retries::"],
            Self::Slurm => &["attempts::", "cluster::", "kills::"],
        }
    }

    /// Tests that are about the default alone, with the reason.
    pub fn skipped(self) -> &'static [(&'static str, &'static str)] {
        const FILE: &str = "it is about a database that is a file of the data folder";
        const DISK: &str = "it is about contents that are in the data folder";
        const SLOTS: &str = "it is about slots and CPUs of this machine";
        const QUEUED: &str = "workers that do not start keep its tasks queued; Slurm tries them";
        const PROCESSES: &str = "it is about a server that is lost with the processes it ran";
        match self {
            Self::Postgres => &[
                ("access::a_data_folder_is_its_owner_s_alone", FILE),
                ("admin::a_backup_has_hashes_of_tokens", FILE),
                ("backups::", FILE),
                ("clock::what_is_deleted_is_kept", "servers that share a database have its clock"),
                (
                    "files::an_upload_that_a_kill_cuts_off",
                    "servers that share a database take it for another's, for two days",
                ),
                ("files::an_installation_of_the_first_version", FILE),
                ("folder::a_copy_of_the_folder", FILE),
                ("folder::a_database_that_another_program_holds", FILE),
                ("folder::a_database_that_is_damaged", FILE),
                ("folder::a_folder_that_is_moved_away", FILE),
                ("folder::contents_without_their_database", FILE),
                ("mounted::on_a_full_disk", FILE),
                ("sessions::what_is_secret_is_in_no_log", FILE),
            ],
            Self::S3 => &[
                ("access::a_data_folder_is_its_owner_s_alone", DISK),
                (
                    "attempts::results_that_were_collected",
                    "it puts an older database back, which a bucket that has gone on refuses",
                ),
                ("backups::", "it names a configuration without a bucket"),
                ("confinement::as_root::", DISK),
                ("files::an_installation_of_the_first_version", DISK),
                ("folder::", DISK),
                ("mounted::", DISK),
                ("moves::", "it names a configuration without a bucket"),
                ("outages::a_database_is_that_of_one_data_folder", DISK),
            ],
            Self::Slurm => &[
                ("access::what_a_disabled_account_has_under_way", SLOTS),
                ("admin::a_disabled_account_has_nothing", QUEUED),
                ("admin::a_task_that_runs_is_seen", SLOTS),
                ("admin::lists_have_heads", QUEUED),
                ("admin::the_queue_shows_who_waits", QUEUED),
                ("admin::the_service_tells_what_it_has", "GPUs of a job come from Slurm"),
                (
                    "attempts::a_worker_whose_run_task_was_killed_can_be_cancelled",
                    "Slurm asks a job to stop by its run-task",
                ),
                ("attempts::the_loss_of_the_machine", "it is the service's machine, not a node"),
                (
                    "attempts::results_that_were_collected",
                    "it tells a loss from a kill by the machine's run",
                ),
                (
                    "confinement::as_root",
                    "users of their own are of workers that the service starts",
                ),
                (
                    "confinement::what_is_required_and_missing",
                    "it takes from this machine's kernel what a node's has",
                ),
                ("folder::a_folder_that_is_moved_away", "nodes lose the folder, too"),
                ("holds::a_lost_gpu", "GPUs of a job come from Slurm"),
                ("lost::a_job_", PROCESSES),
                ("mounted::", "a file system of the service's alone, which no node has"),
                ("queue::", SLOTS),
                (
                    "quotas::an_account_is_charged_no_weekend",
                    "jobs go on while the machine of the service is off",
                ),
                ("quotas::an_account_that_had_slots", SLOTS),
                ("retries::a_job_cancelled_before_its_next_attempt", SLOTS),
                ("servers::a_job_that_its_server_cannot_go_on_with", PROCESSES),
                ("servers::a_server_that_stood_still", PROCESSES),
                ("servers::tasks_of_a_machine_that_is_lost", PROCESSES),
            ],
        }
    }
}

/// Backends in place of their defaults, all at once: a cluster. None of them: the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends(pub Vec<Backend>);

impl Backends {
    /// Every cross of backends, the defaults first.
    pub fn crosses() -> Vec<Self> {
        let of_number = |number: usize| {
            let is_in = |n: &usize| number & (1 << n) != 0;
            Self((0..Backend::ALL.len()).filter(is_in).map(|n| Backend::ALL[n]).collect())
        };
        (0..1 << Backend::ALL.len()).map(of_number).collect()
    }

    /// `postgres+s3`; empty for the defaults.
    pub fn name(&self) -> String {
        self.0.iter().map(|backend| backend.name()).collect::<Vec<_>>().join("+")
    }

    /// Why they cannot be started here, if so.
    pub fn missing(&self) -> Option<&'static str> {
        self.0.iter().find_map(|backend| backend.missing())
    }

    /// What the tests of the service are asked by to use them.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.iter().map(|backend| (backend.variable(), backend.name()))
    }

    /// The tests of the service on them, but those that are about a default alone.
    pub fn tests(&self, python: &Path) -> Command {
        let mut tests = cargo();
        tests.args(["test", "--workspace", "--test", "service", "--"]);
        for (name, _) in self.0.iter().flat_map(|backend| backend.skipped()) {
            tests.args(["--skip", name]);
        }
        tests.env("MOLBOX_TEST_PYTHON", python).envs(self.variables());
        tests
    }
}

/// Whether a program is in the path, or where Go installs programs.
pub fn has(program: &str) -> bool {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let of_go = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    std::env::split_paths(&searched).chain(of_go).any(|folder| folder.join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cross_of_backends_is_there_once() {
        let names: Vec<String> = Backends::crosses().iter().map(Backends::name).collect();
        let expected = [
            "",
            "postgres",
            "s3",
            "postgres+s3",
            "slurm",
            "postgres+slurm",
            "s3+slurm",
            "postgres+s3+slurm",
        ];
        assert_eq!(names, expected);
    }
}
