//! Configuration: a TOML file, over it the environment, over it the command line.
//!
//! A key `a.b` is `[a] b = …` in the file, `MOLBOXD_A__B` in the environment and `--set a.b=…` on
//! the command line. `molboxd config` prints every key with its meaning and its default, from the
//! same lines that declare them here.

use std::collections::BTreeMap;
use std::net::{AddrParseError, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};
use ipnet::IpNet;
use jiff::SignedDuration;
use molbox::workflow::types::Engines;
use serde::{Deserialize, Serialize};

use crate::record::{self, Lane};
use crate::shown::counted;
use crate::web::is_issuer;

/// Days of which hours are kept: the longest time that they can be limited in.
pub(crate) const MOST_DAYS: u32 = 366;
/// Results are kept so many days at most, a century: the end of what is kept is a moment that a
/// calendar has.
const LONGEST_KEPT_DAYS: u32 = 36_500;

/// Of what a button says.
const LABEL_CHARACTERS: usize = 100;

/// Declares a section: a struct, its defaults, and the documentation of its keys.
macro_rules! section {
    ($(#[doc = $about:literal])* $name:ident { $($(#[doc = $doc:literal])* $key:ident: $type:ty = $default:expr,)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $name {
            $($(#[doc = $doc])* pub(crate) $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $name {
            /// Keys and what they mean, in the order of their declaration.
            const KEYS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($key), concat!($($doc),*)),)*];
        }
    };
}

section! {
    /// Where the service listens and keeps its data.
    Config {
        /// Folder for database, files and results.
        data: PathBuf = "molbox-data".into(),
        /// Address of the simulation workflow; port 0 takes a free one.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8080)),
        /// Address of the margin endpoint.
        margin_listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8081)),
        /// Address for Prometheus: `/metrics` and `/healthz`, which take no key there. Empty: none, and `/metrics` takes a key on the address of the workflow.
        metrics_listen: Listen = Listen::default(),
        /// Deployment stage, the last segment of the base address.
        stage: String = "local".to_owned(),
        /// Base address as clients see it, without the stage; upload links begin with it. Empty: `http://` and the address that is listened on.
        public_url: String = String::new(),
        /// Base address of the margin endpoint as clients see it. Empty: `http://` and the address that is listened on.
        margin_public_url: String = String::new(),
        /// Proxies whose `x-forwarded-for` is believed, as networks: `["10.0.0.0/8"]`. They must write it themselves, not pass on what clients send.
        proxies: Vec<IpNet> = Vec::new(),
        /// How long the audit log keeps who did what, in days; 0 for ever.
        audit_days: u32 = 400,
        /// Where records are kept.
        database: Database = Database::default(),
        /// Where files and results are kept.
        objects: Objects = Objects::default(),
        /// Connections, on each address.
        connections: Connections = Connections::default(),
        /// What requests may ask for.
        limits: Limits = Limits::default(),
        /// How long results are kept.
        retention: Retention = Retention::default(),
        /// People who sign in with a browser.
        sessions: Sessions = Sessions::default(),
        /// People who sign in by an identity provider (OpenID Connect).
        oidc: Oidc = Oidc::default(),
        /// The margin endpoint.
        margin: Margin = Margin::default(),
        /// Public structure entries.
        pdb: Pdb = Pdb::default(),
        /// The workers and what they may use.
        worker: Worker = Worker::default(),
        /// Where tasks run.
        tasks: Tasks = Tasks::default(),
        /// How this server comes and goes among others.
        server: Server = Server::default(),
    }
}

section! {
    /// Where records are kept.
    Database {
        /// Address of PostgreSQL 14 or newer: `postgres://molbox@db.example.org/molbox`. Empty: `molbox.sqlite` in the data folder.
        url: String = String::new(),
        /// File with certificates that are believed besides those of the machine, PEM. TLS is used, and the certificate checked, unless the server is on this machine or the address says `?sslmode=disable`.
        ca_file: PathBuf = PathBuf::new(),
        /// File with the password for it.
        password_file: PathBuf = PathBuf::new(),
        /// Most connections to it that this server holds.
        connections: usize = 16,
    }
}

section! {
    /// Where files and results are kept.
    Objects {
        /// Bucket of S3, perhaps with a prefix: `s3://molbox-results`, `s3://molbox-results/prod`. Empty: `objects` in the data folder.
        url: String = String::new(),
        /// Address of a store that is not AWS: `https://s3.example.org`; http on loopback only. Empty: AWS.
        endpoint: String = String::new(),
        /// Region of the bucket: `eu-central-1`. Empty: that of the environment, or `us-east-1`.
        region: String = String::new(),
        /// File with the access key in its first line and its secret in the second. Empty: those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`), or of the instance.
        credentials_file: PathBuf = PathBuf::new(),
        /// Have upload links lead to the bucket itself, for sites where what passes through molboxd is too much: good for 60 minutes whatever becomes of the key, for one `PUT` of at most 5 GiB, and of any size until the file is registered. Browsers need the bucket to allow the service's origin (CORS).
        direct_uploads: bool = false,
        /// Most that copies of objects of a bucket take in `scratch` of the data folder, in bytes. What was just written or read is not fetched again; those that were not used for the longest time give way, also where the disk gets full.
        cache_bytes: u64 = 20 << 30,
        /// How long what was deleted is kept in the store, in days: records that are restored from a backup of that age find it.
        keep_deleted_days: u32 = 0,
    }
}

section! {
    /// Connections, on each address.
    Connections {
        /// Connections at a time. When all are taken, the one that has waited longest for a request gives way.
        most: usize = 1024,
        /// Connections beyond these, while all are busy: `/healthz` and `/metrics` are answered there, everything else is refused with 503.
        reserve: usize = 32,
        /// Requests that one account may have under way at a time; a further one is refused with 429. 0: half of `most`.
        account: usize = 0,
        /// How long the head of a request may take, and a connection be silent between requests, in seconds.
        head_seconds: u64 = 75,
        /// How long the body of a request may pause, in seconds.
        body_seconds: u64 = 30,
        /// How fast it has to come, in bytes per second, after a first such time; 0 for any speed.
        body_bytes_per_second: u64 = 1024,
        /// How long a client may take nothing of its answer, in seconds.
        answer_seconds: u64 = 120,
        /// How long requests that are under way when the service is asked to end may take, in seconds. A download that is cut off resumes where it was.
        stop_seconds: u64 = 10,
    }
}

section! {
    /// What requests may ask for.
    Limits {
        /// Largest request body, in bytes.
        body_bytes: u64 = 1 << 20,
        /// Most values of a body in JSON, all members of its arrays and objects counted.
        body_values: usize = 1_000_000,
        /// Most that request bodies hold in memory at a time, in bytes; those of one account hold half of it. Uploads go to the disk and are not counted.
        bodies_bytes: u64 = 256 << 20,
        /// Upload links of an account that wait for the registration of their file, at a time; a further one is refused with 429.
        pending_files: u32 = 1000,
        /// Largest uploaded file, in bytes.
        upload_bytes: u64 = 5 << 30,
        /// Largest file, other than of PDB and trajectories, that can be registered, largest entry of the mirror, packed and unpacked, and largest structure of which atoms can be chosen: these are read whole. In bytes.
        text_bytes: u64 = 128 << 20,
        /// Registrations at a time that are checked; an account that has none waits for no other account.
        registrations: usize = 2,
        /// How long a registration or a margin waits for its turn, in seconds, before it is refused with 503.
        wait_seconds: u64 = 60,
        /// Requests with wrong keys that come from an address in a minute, before they are refused with 429; right keys are accepted all the same. 0 for any number.
        wrong_keys_per_minute: u32 = 60,
        /// Requests that a key may make in a minute, evenly or in a burst; 0 for any number.
        requests_per_minute: u32 = 1200,
        /// Most atoms of a system, and of a structure or a trajectory in XTC that can be registered.
        atoms: u64 = 1_000_000,
        /// Tasks that an account may have queued or running at a time; 0 for any number.
        open_tasks: u32 = 1000,
        /// Most that an account may hold, in bytes: files, results, and what its open jobs may come to write; 0 for any number.
        account_bytes: u64 = 1_000_000_000_000,
        /// Time that tasks of an account may have slots in `hours_days` days before nothing more of it is queued, in h; 0 for any time.
        account_hours: u32 = 0,
        /// How many days of the calendar in UTC that is counted in, today among them, 1 to 366.
        hours_days: u32 = 30,
        /// How long a file may wait for its content and its registration before it is deleted, in hours; 0 for ever.
        pending_hours: u32 = 24,
        /// Most that trajectories and logs of a job may have, as estimated before it is queued, in bytes; 0 for what the disk has free, which they never may exceed.
        result_bytes: u64 = 500_000_000_000,
        /// Free space that is left on the disk of the data folder, in bytes; with less, nothing new is accepted.
        free_disk_bytes: u64 = 256 << 20,
    }
}

section! {
    /// How long results are kept: of systems, jobs and analyses that have ended; never what was uploaded.
    Retention {
        /// Days after its end that a task and its results are deleted, a system after its last job; at most 36500, 0 keeps all for ever.
        days: u32 = 0,
        /// How many days before that it is announced, at least, 1 to `days`: in records (`expires_at`), listings, streams of events and webhooks. Nothing is deleted that was not announced so long before.
        warn_days: u32 = 7,
    }
}

impl Retention {
    /// How long results are kept; none when that is for ever.
    pub(crate) fn times(&self) -> Option<record::Retention> {
        let days = |days: u32| SignedDuration::from_hours(24 * i64::from(days));
        (self.days > 0)
            .then(|| record::Retention { kept: days(self.days), warned: days(self.warn_days) })
    }

    /// Why a task that somebody knows may not be there; empty where results are kept for ever.
    pub(crate) fn of_what_is_gone(&self) -> String {
        match self.days as usize {
            0 => String::new(),
            days => format!("; what ended more than {} ago is deleted", counted(days, "day")),
        }
    }

    fn check(&self) -> Result<()> {
        if self.days > LONGEST_KEPT_DAYS {
            bail!(
                "configuration: retention.days must be at most {LONGEST_KEPT_DAYS}, or 0 for ever, and is {}",
                self.days
            );
        }
        if self.days > 0 && !(1..=self.days).contains(&self.warn_days) {
            bail!(
                "configuration: retention.warn_days must be from 1 to retention.days, which is {}, and is {}",
                self.days,
                self.warn_days
            );
        }
        Ok(())
    }
}

section! {
    /// People who sign in with a browser.
    Sessions {
        /// How long a session may be unused before it ends, in hours.
        idle_hours: u32 = 12,
        /// How long it may last at all, in days.
        days: u32 = 30,
        /// Passwords that may be tried for an account from an address in a minute, and ten times as many from all; 0 for any number.
        tries_per_minute: u32 = 5,
        /// Passwords and invitations that may be tried from an address in a minute; 0 for any number.
        tries_per_minute_from_address: u32 = 20,
    }
}

section! {
    /// People who sign in by an identity provider (OpenID Connect).
    Oidc {
        /// Address of the provider, exactly as its discovery document has it: `https://…`. `public_url` must be set, and the provider know `{public_url}/{stage}/session/oidc/callback` as the redirect URI. Empty: none.
        issuer: String = String::new(),
        /// What the provider calls this service.
        client_id: String = String::new(),
        /// File with the secret that the provider gave this service.
        client_secret_file: PathBuf = PathBuf::new(),
        /// What the button on the sign-in page says.
        label: String = "Sign in with your organization".to_owned(),
        /// What the provider is asked for; `openid` is one of it. Providers tell groups for a scope of their own.
        scopes: Vec<String> = ["openid", "profile"].map(str::to_owned).into(),
        /// Claim that lets somebody in who has no account yet, and gets one: `groups`, for example, a text or a list of them. Empty: only those get in whose accounts were linked by `molboxd account link`.
        admit_claim: String = String::new(),
        /// Its values that let in.
        admit_values: Vec<String> = Vec::new(),
    }
}

section! {
    /// The margin endpoint.
    Margin {
        /// Folder of the market data: `contracts.csv`, `prices.csv` or `prices/*.csv`, and `fx.csv`. Empty: `market` in the data folder.
        market: PathBuf = PathBuf::new(),
        /// Currency of the exchange rates, and of the totals of portfolios in several currencies.
        base_currency: String = "USD".to_owned(),
        /// Calculations at a time; 0 for one per CPU. An account that has none running waits for no other account: it gets one beyond these.
        calculations: usize = 0,
        /// Longest time of a calculation, in seconds; 0 for any.
        seconds: u64 = 300,
        /// Threads of one calculation.
        threads: usize = 1,
        /// Largest request body, in bytes, after it has been decompressed.
        body_bytes: u64 = 32 << 20,
        /// How many times its size a compressed body may have when it has been decompressed, beyond the first MiB.
        compression_ratio: u64 = 200,
    }
}

section! {
    /// Public structure entries.
    Pdb {
        /// Where entries come from: a URL or a file path in which `{id}` stands for the entry in lower case, `{ID}` in upper case; it ends in `.cif` or `.pdb`, perhaps with `.gz`. For example `https://files.rcsb.org/download/{ID}.cif`. Empty: nowhere.
        mirror: String = String::new(),
        /// How long an entry is waited for, in seconds.
        timeout_seconds: u64 = 30,
    }
}

section! {
    /// How this server comes and goes among others.
    Server {
        /// How long requests are still taken when the service is asked to end, in seconds, while `/healthz` answers 503: a load balancer has to notice.
        drain_seconds: u64 = 0,
        /// How long a start waits for a database or an object store of another machine that does not answer, in seconds: after a power cut machines come back in any order. What refuses is not waited for.
        wait_seconds: u64 = 120,
    }
}

section! {
    /// The workers and what they may use.
    Worker {
        /// Python interpreter of the workers' environment.
        python: PathBuf = "python3".into(),
        /// Workers at a time; 0 for one per CPU.
        slots: usize = 0,
        /// Analyses at a time, besides the workers.
        analyses: usize = 1,
        /// CPU cores that workers share; one takes as many as are free, or its part of them when others wait, and at least one. 0 for all of the machine.
        cpus: usize = 0,
        /// OpenMM platform. Empty: the best that the machine has.
        platform: String = String::new(),
        /// What runs the stages of jobs that do not name an engine: `auto`, OpenMM on a GPU and GROMACS on CPUs where it is installed, `openmm`, or `gromacs`.
        engine: Engines = Engines::Auto,
        /// GROMACS: the path of `gmx`, or of a script that loads a module and becomes it with the same arguments. Empty: the `gmx` of the search path.
        gromacs: String = String::new(),
        /// Indices of the GPUs that workers may use, one worker each. Empty: none.
        gpus: Vec<u32> = Vec::new(),
        /// Most memory of each process of a worker, in MiB: addresses, or with GPUs what can be written to. Several processes, and files in memory, may take more together. 0 for no limit.
        memory_mb: u64 = 0,
        /// Longest time between two checkpoints of a simulation, in seconds.
        checkpoint_seconds: f64 = 60.0,
        /// How long a worker may be without a heartbeat before it counts as hung, in seconds.
        heartbeat_timeout_seconds: u64 = 300,
        /// Longest time that an attempt may take, in seconds; 0 for any.
        wall_seconds: u64 = 0,
        /// How long a worker that is asked to stop may take before it is killed, in seconds.
        stop_seconds: u64 = 20,
        /// How workers and analyses are confined, without network and without files of other tasks: `auto` as far as the machine can, `required`, or `off`.
        sandbox: Sandbox = Sandbox::Auto,
        /// Number of the first of the users that tasks run as, where the service is started as root: one for each task at a time, and one for checks (`slots` + `analyses` + 1 in all). They need no entry in `/etc/passwd`, and must be nobody else's. 0: the user of the service.
        user: u32 = 0,
        /// Most processes and threads of the user that a task runs as; 0 for no limit. The kernel does not limit root.
        processes: u64 = 4096,
        /// Longest time for the charges of a ligand, in seconds.
        ligand_seconds: u64 = 600,
        /// How often a task is started in a row without getting any further before it counts as failed. Attempts that end with the machine or the service are not counted.
        attempts: u32 = 3,
    }
}

section! {
    /// Where tasks run.
    Tasks {
        /// What runs systems and jobs: `process`, as processes of this machine, or `slurm`, as jobs of a cluster.
        executor: Engine = Engine::Process,
        /// Folder in which tasks work: `tasks`, `cache` and `check` lie there. With Slurm every node and every server has it at this path. Empty: the data folder.
        folder: PathBuf = PathBuf::new(),
        /// Whether this server runs tasks: `auto`, whenever no other server does it in its place, or `off`.
        runner: Runs = Runs::Auto,
        /// How long a server that runs tasks as its own processes may be away before others begin them anew, in seconds.
        lost_seconds: u64 = 600,
        /// How often what the simulations of such a server have committed is copied to the bucket, in seconds: a machine that never comes back loses that much and what was not committed yet. 0: only when an attempt ends.
        keep_seconds: u64 = 300,
        /// Tasks as jobs of Slurm.
        slurm: Slurm = Slurm::default(),
    }
}

section! {
    /// Tasks as jobs of Slurm.
    Slurm {
        /// Partition. Empty: Slurm's default.
        partition: String = String::new(),
        /// Account that jobs are charged to. Empty: the user's default.
        account: String = String::new(),
        /// Quality of service. Empty: the default.
        qos: String = String::new(),
        /// GPUs of a task, as `--gres` has it: `gpu:1`. Empty: none.
        gpus: String = String::new(),
        /// CPU cores of a task.
        cpus: usize = 1,
        /// More options of `sbatch`: `["--constraint=ib"]`. Memory is `worker.memory_mb`, time `worker.wall_seconds`, where these are set.
        options: Vec<String> = Vec::new(),
        /// Most jobs in Slurm's queue at a time, those that wait there and those that run; what else is queued waits in the service, which shares places between accounts.
        slots: usize = 100,
        /// How often Slurm is asked what became of the jobs, in seconds; one question for all.
        poll_seconds: f64 = 30.0,
        /// Whether analyses are jobs too, without GPUs and at most `worker.analyses` at a time; else they are processes of the server that runs tasks.
        analyses: bool = false,
        /// Most submissions in a second.
        submit_per_second: u32 = 10,
        /// How long a job that Slurm has ended may give signs of life, in seconds, before it counts as lost. Above the time for which nodes and this server keep attributes of files (NFS: `acregmax`, 60).
        settle_seconds: u64 = 90,
        /// Slurm's configuration, `slurm.conf`. Empty: what `SLURM_CONF` names, or Slurm's default.
        conf: PathBuf = PathBuf::new(),
        /// `molboxd` as the nodes have it, of this version. Empty: the path of this program.
        molboxd: PathBuf = PathBuf::new(),
    }
}

/// An address to listen on, or none: an empty text.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

impl TryFrom<String> for Listen {
    type Error = AddrParseError;

    fn try_from(text: String) -> Result<Self, AddrParseError> {
        if text.is_empty() {
            Ok(Self(None))
        } else {
            text.parse().map(|address| Self(Some(address)))
        }
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.0.map(|address| address.to_string()).unwrap_or_default()
    }
}

/// What runs tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    Process,
    Slurm,
}

/// How workers are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sandbox {
    Auto,
    Required,
    Off,
}

/// Whether a server runs tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runs {
    Auto,
    Off,
}

const PREFIX: &str = "MOLBOXD_";

/// Settings, and with a dot sections, that each server has for itself.
const OWN: [&str; 31] = [
    "data",
    "listen",
    "margin_listen",
    "metrics_listen",
    "database.",
    "objects.credentials_file",
    "objects.cache_bytes",
    "connections.",
    "limits.bodies_bytes",
    "limits.registrations",
    "limits.wait_seconds",
    "limits.free_disk_bytes",
    "oidc.client_secret_file",
    "margin.market",
    "margin.calculations",
    "margin.seconds",
    "margin.threads",
    "worker.python",
    "worker.slots",
    "worker.analyses",
    "worker.cpus",
    "worker.platform",
    "worker.gromacs",
    "worker.gpus",
    "worker.memory_mb",
    "worker.sandbox",
    "worker.user",
    "worker.processes",
    "tasks.runner",
    "tasks.slurm.conf",
    "server.",
];

/// Notes each value of a section by its name.
fn flatten(name: &str, value: &serde_json::Value, all: &mut BTreeMap<String, String>) {
    let Some(section) = value.as_object() else {
        all.insert(name.to_owned(), value.to_string());
        return;
    };
    for (key, value) in section {
        let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        flatten(&name, value, all);
    }
}

/// A table of the configuration: its name, what it is about, its keys with their descriptions.
type Section = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SECTIONS: [Section; 13] = [
    ("database", "Where records are kept.", Database::KEYS),
    ("objects", "Where files and results are kept.", Objects::KEYS),
    ("connections", "Connections, on each address.", Connections::KEYS),
    ("limits", "What requests may ask for.", Limits::KEYS),
    (
        "retention",
        "How long results are kept: of systems, jobs and analyses that have ended; never what was uploaded.",
        Retention::KEYS,
    ),
    ("sessions", "People who sign in with a browser.", Sessions::KEYS),
    ("oidc", "People who sign in by an identity provider (OpenID Connect).", Oidc::KEYS),
    ("margin", "The margin endpoint.", Margin::KEYS),
    ("pdb", "Public structure entries.", Pdb::KEYS),
    ("worker", "The workers and what they may use.", Worker::KEYS),
    ("tasks", "Where tasks run.", Tasks::KEYS),
    ("tasks.slurm", "Tasks as jobs of Slurm.", Slurm::KEYS),
    ("server", "How this server comes and goes among others.", Server::KEYS),
];

/// What S3 takes by one link, and copies at once.
const LARGEST_BY_LINK: u64 = 5 << 30;

/// CPU cores of this machine, or of its share that this process has.
pub(crate) fn cores() -> usize {
    // To ask takes several files of the control group, and forecasts ask for each queued task.
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *CORES
}

impl Connections {
    /// How many requests of an account may be under way.
    pub(crate) fn share(&self) -> usize {
        if self.account == 0 { self.most.div_ceil(2) } else { self.account }
    }
}

impl Config {
    /// Most bytes of an upload.
    pub(crate) fn largest_upload(&self) -> u64 {
        let largest = self.limits.upload_bytes;
        if self.objects.direct_uploads { largest.min(LARGEST_BY_LINK) } else { largest }
    }

    /// Reads the file, if one is named, the environment, and `key=value` settings, later ones over
    /// earlier ones.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        settings: &[(String, String)],
    ) -> Result<Self> {
        Self::load_with_defaults(&[], file, environment, settings)
    }

    /// The settings that servers of one installation have alike, by their names: those that say what
    /// is done, and not what a machine is or how others are reached from there.
    pub(crate) fn alike(&self) -> Result<BTreeMap<String, String>> {
        let mut alike = BTreeMap::new();
        flatten("", &serde_json::to_value(self)?, &mut alike);
        let is_own = |name: &str| {
            OWN.iter().any(|own| {
                name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || own.ends_with('.'))
            })
        };
        alike.retain(|name, _| !is_own(name));
        Ok(alike)
    }

    /// Whether workers may be given a GPU.
    pub(crate) fn has_gpus(&self) -> bool {
        let is_asked_for = ["CUDA", "HIP", "OpenCL"].contains(&&*self.worker.platform);
        is_asked_for || !self.worker.gpus.is_empty() || !self.tasks.slurm.gpus.is_empty()
    }

    /// The same with other defaults for some keys.
    pub(crate) fn load_with_defaults(
        defaults: &[(String, String)],
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        settings: &[(String, String)],
    ) -> Result<Self> {
        let mut table = match file {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("read {}", path.display()))?;
                text.parse().with_context(|| format!("read {}", path.display()))?
            }
            None => toml::Table::new(),
        };
        for (name, value) in environment {
            // Of the command line and of the log, which are not the configuration.
            if let Some(key) =
                name.strip_prefix(PREFIX).filter(|key| !["CONFIG", "LOG"].contains(key))
            {
                set(&mut table, &key.to_lowercase().replace("__", "."), &value)?;
            }
        }
        for (key, value) in settings {
            set(&mut table, key, value)?;
        }
        for (key, value) in defaults {
            if !is_set(&table, key) {
                set(&mut table, key, value)?;
            }
        }
        let config: Self = table.try_into().map_err(|error: toml::de::Error| {
            anyhow!("configuration: {}", in_words(&error.to_string()))
        })?;
        if config.stage.is_empty()
            || !config.stage.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            bail!("configuration: stage {:?} must be letters, digits, - and _", config.stage);
        }
        if !config.pdb.mirror.is_empty() && !config.pdb.mirror.to_lowercase().contains("{id}") {
            bail!("configuration: pdb.mirror {:?} must hold {{id}} or {{ID}}", config.pdb.mirror);
        }
        let largest = config.limits.body_bytes.max(config.margin.body_bytes);
        if config.limits.bodies_bytes / 2 < largest {
            bail!(
                "configuration: limits.bodies_bytes must be at least twice the largest body, {largest} bytes"
            );
        }
        if config.limits.registrations == 0 || config.connections.most == 0 {
            bail!("configuration: limits.registrations and connections.most must be at least 1");
        }
        if config.database.connections == 0 {
            bail!("configuration: database.connections must be at least 1");
        }
        if !(1..=MOST_DAYS).contains(&config.limits.hours_days) {
            bail!("configuration: limits.hours_days must be from 1 to {MOST_DAYS}");
        }
        config.retention.check()?;
        config.oidc.check(&config.public_url)?;
        config.tasks.check()?;
        if config.tasks.executor == Engine::Slurm && !config.worker.gpus.is_empty() {
            bail!("configuration: with Slurm, GPUs come from tasks.slurm.gpus, not worker.gpus");
        }
        // Whoever takes over does not see what another's jobs work on, and would begin them once more.
        let is_shared = !config.database.url.is_empty() && !config.objects.url.is_empty();
        if config.has_cluster() && is_shared && config.tasks.folder.as_os_str().is_empty() {
            bail!(
                "configuration: tasks.folder must be named, as several servers may have database.url \
                 and objects.url, and jobs of Slurm: one folder that all of them and the nodes have at \
                 one path; of a single server it may be the data folder"
            );
        }
        Ok(config)
    }

    /// CPU cores that workers share.
    pub(crate) fn cpus(&self) -> usize {
        match self.worker.cpus {
            0 => cores(),
            cpus => cpus,
        }
    }

    /// Workers at a time.
    pub(crate) fn slots(&self) -> usize {
        match self.tasks.executor {
            Engine::Slurm => self.tasks.slurm.slots,
            Engine::Process if self.worker.slots == 0 => self.cpus(),
            Engine::Process => self.worker.slots,
        }
    }

    /// Whether a cluster runs the tasks.
    pub(crate) fn has_cluster(&self) -> bool {
        self.tasks.executor == Engine::Slurm
    }

    /// Whether a cluster runs the tasks of a lane.
    pub(crate) fn is_on_cluster(&self, lane: Lane) -> bool {
        self.has_cluster() && (lane == Lane::Workers || self.tasks.slurm.analyses)
    }

    /// CPU cores of a worker while all slots are taken.
    pub(crate) fn cpus_of_a_worker(&self) -> usize {
        match self.tasks.executor {
            Engine::Slurm => self.tasks.slurm.cpus,
            Engine::Process => (self.cpus() / self.slots()).max(1),
        }
    }

    /// The folder that `tasks`, `cache` and `check` lie in.
    pub(crate) fn tasks_root(&self) -> &Path {
        let folder = &self.tasks.folder;
        if folder.as_os_str().is_empty() { &self.data } else { folder }
    }

    /// Whether tasks work in another folder than that of the data.
    pub(crate) fn has_tasks_elsewhere(&self) -> bool {
        self.tasks_root() != self.data
    }

    /// Every key with its meaning and its default, as a commented file.
    pub(crate) fn documentation() -> String {
        let defaults = toml::Table::try_from(Self::default()).expect("the defaults are TOML");
        let all = toml::Value::Table(defaults.clone());
        let mut text =
            "# Every setting of molboxd with its default, as `molboxd config` prints them.\n"
                .to_owned();
        let is_section = |key: &str| SECTIONS.iter().any(|(name, ..)| *name == key);
        for (key, doc) in Self::KEYS.iter().filter(|(key, _)| !is_section(key)) {
            text += &format!("\n#{doc}\n#{key} = {}\n", defaults[*key]);
        }
        for (section, about, keys) in SECTIONS {
            text += &format!("\n# {about}\n[{section}]\n");
            let values = section.split('.').fold(&all, |table, name| &table[name]);
            for (key, doc) in
                keys.iter().filter(|(key, _)| !is_section(&format!("{section}.{key}")))
            {
                text += &format!("\n#{doc}\n#{key} = {}\n", values[*key]);
            }
        }
        text
    }

    /// The same as a file to begin with: what was set on the command line is set in it.
    pub(crate) fn file(settings: &[(String, String)]) -> Result<String> {
        let mut text = Self::documentation();
        for (name, value) in settings {
            let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
            let start = match section {
                "" => 0,
                section => {
                    let head = format!("\n[{section}]\n");
                    text.find(&head).with_context(|| format!("no setting {name}"))? + head.len()
                }
            };
            let line = format!("\n#{key} = ");
            let at = text[start..].find(&line).with_context(|| format!("no setting {name}"))?;
            let (begin, rest) = (start + at + 1, start + at + line.len());
            let end = text[rest..].find('\n').map_or(text.len(), |end| rest + end);
            // What is no value of TOML is a text, as on the command line.
            let value = match format!("x = {value}").parse::<toml::Table>() {
                Ok(_) => value.clone(),
                Err(_) => toml::Value::from(value.as_str()).to_string(),
            };
            text.replace_range(begin..end, &format!("{key} = {value}"));
        }
        Ok(text)
    }
}

impl Worker {
    /// Programs by a path from the present folder: workers start in folders of their own. A bare name
    /// is looked for on the search path.
    pub(crate) fn make_absolute(&mut self) -> std::io::Result<()> {
        if self.python.components().count() > 1 {
            self.python = std::path::absolute(&self.python)?;
        }
        if self.gromacs.contains('/') {
            self.gromacs = std::path::absolute(&self.gromacs)?.display().to_string();
        }
        Ok(())
    }
}

impl Tasks {
    fn check(&self) -> Result<()> {
        let folder = &self.folder;
        if !folder.as_os_str().is_empty() && !folder.is_absolute() {
            bail!("configuration: tasks.folder {folder:?} must be an absolute path");
        }
        let slurm = &self.slurm;
        if slurm.cpus == 0 || slurm.slots == 0 || slurm.submit_per_second == 0 {
            bail!(
                "configuration: tasks.slurm.cpus, tasks.slurm.slots and \
                 tasks.slurm.submit_per_second must be at least 1"
            );
        }
        if !(0.1..=3600.0).contains(&slurm.poll_seconds) {
            bail!("configuration: tasks.slurm.poll_seconds must be from 0.1 to 3600");
        }
        if !slurm.molboxd.as_os_str().is_empty() && !slurm.molboxd.is_absolute() {
            bail!("configuration: tasks.slurm.molboxd must be an absolute path");
        }
        Ok(())
    }
}

impl Oidc {
    /// Whether people sign in by a provider at all.
    pub(crate) fn is_set(&self) -> bool {
        !self.issuer.is_empty()
    }

    fn check(&self, public_url: &str) -> Result<()> {
        if !self.is_set() {
            return Ok(());
        }
        let Self { issuer, admit_claim, admit_values, .. } = self;
        if !is_issuer(issuer) {
            bail!(
                "configuration: oidc.issuer {issuer:?} must be an https address without query and \
                 fragment; http is good on loopback only"
            );
        }
        if public_url.is_empty() {
            bail!(
                "configuration: oidc.issuer needs public_url, where the provider sends people to"
            );
        }
        if self.client_id.is_empty() || self.client_secret_file.as_os_str().is_empty() {
            bail!("configuration: oidc.issuer needs oidc.client_id and oidc.client_secret_file");
        }
        if self.label.is_empty() || self.label.chars().count() > LABEL_CHARACTERS {
            bail!("configuration: oidc.label must have 1 to {LABEL_CHARACTERS} characters");
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            bail!("configuration: oidc.scopes must contain openid");
        }
        if admit_claim.is_empty() != admit_values.is_empty() {
            bail!("configuration: oidc.admit_claim and oidc.admit_values go together");
        }
        Ok(())
    }
}

/// Puts a value at a dotted key; what is no TOML value is a string.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<()> {
    let parsed =
        format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let (path, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
    let mut table = table;
    for step in path.into_iter().flat_map(|path| path.split('.')) {
        let entry = table.entry(step).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = entry
            .as_table_mut()
            .with_context(|| format!("configuration: {key}: {step} is no section"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

/// Whether a key has a value.
fn is_set(table: &toml::Table, key: &str) -> bool {
    match key.split_once('.') {
        None => table.contains_key(key),
        Some((section, rest)) => table
            .get(section)
            .and_then(toml::Value::as_table)
            .is_some_and(|section| is_set(section, rest)),
    }
}

/// A message without the names of this language's numbers.
fn in_words(message: &str) -> String {
    message
        .trim_end()
        .replace("expected u16", "expected a whole number from 0 to 65535")
        .replace("expected u32", "expected a whole number from 0 to 4294967295")
        .replace("expected u64", "expected a whole number >= 0")
        .replace("expected usize", "expected a whole number >= 0")
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_a_setting_cannot_have_is_refused_in_words() {
        for (key, value, wanted) in [
            ("retention.days", "-1", "integer `-1`, expected a whole number from 0 to 4294967295"),
            ("retention.days", "1.5", "floating point `1.5`, expected a whole number"),
            ("retention.days", "36501", "retention.days must be at most 36500, or 0 for ever"),
            (
                "limits.account_bytes",
                "-1",
                "expected a whole number >= 0\nin `limits.account_bytes`",
            ),
            ("worker.cpus", "-1", "expected a whole number >= 0"),
        ] {
            let settings = [(key.to_owned(), value.to_owned())];
            let error = Config::load(None, std::iter::empty(), &settings).unwrap_err();
            assert!(format!("{error:#}").contains(wanted), "{key}={value}: {error:#}");
        }
        let century = [("retention.days".to_owned(), "36500".to_owned())];
        assert!(Config::load(None, std::iter::empty(), &century).is_ok());
    }

    #[test]
    fn a_default_gives_way_to_whatever_is_set() {
        let settings = [("worker.cpus".to_owned(), "3".to_owned())];
        let defaults = [("worker.cpus", "1"), ("worker.slots", "5"), ("stage", "mine")];
        let defaults = defaults.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let config =
            Config::load_with_defaults(&defaults, None, std::iter::empty(), &settings).unwrap();
        assert_eq!(
            (config.worker.cpus, config.worker.slots, config.stage.as_str()),
            (3, 5, "mine")
        );
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("molboxd.toml");
        std::fs::write(&file, "stage = 'a'\n[worker]\ncpus = 1\nattempts = 9\n").unwrap();
        let environment = [("MOLBOXD_STAGE", "b"), ("MOLBOXD_WORKER__CPUS", "2"), ("PATH", "/bin")];
        let environment = environment.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let settings = [("worker.cpus".to_owned(), "3".to_owned())];
        let config = Config::load(Some(&file), environment.into_iter(), &settings).unwrap();
        assert_eq!(
            (config.stage.as_str(), config.worker.cpus, config.worker.attempts),
            ("b", 3, 9)
        );
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let settings = [("worker.cpu".to_owned(), "3".to_owned())];
        let error = Config::load(None, std::iter::empty(), &settings).unwrap_err();
        assert!(format!("{error:#}").contains("unknown field `cpu`"), "{error:#}");
    }

    /// With these settings; of two for one key the last holds.
    fn of(settings: &[(&str, &str)]) -> Result<Config> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Config::load(None, std::iter::empty(), &settings.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_an_identity_provider_needs_is_named() {
        let whole = [
            ("public_url", "https://md.example"),
            ("oidc.issuer", "https://login.example/realm"),
            ("oidc.client_id", "molbox"),
            ("oidc.client_secret_file", "/etc/molbox/oidc"),
        ];
        let load = |changed: &[(&str, &str)]| of(&[&whole, changed].concat());
        for (changed, named) in [
            (("public_url", ""), "public_url"),
            (("oidc.issuer", "http://login.example"), "oidc.issuer"),
            (("oidc.issuer", "https://login.example?a=b"), "oidc.issuer"),
            (("oidc.client_id", ""), "oidc.client_id"),
            (("oidc.client_secret_file", ""), "oidc.client_secret_file"),
            (("oidc.label", ""), "oidc.label"),
            (("oidc.scopes", "['profile']"), "openid"),
            (("oidc.admit_claim", "groups"), "oidc.admit_values"),
            (("oidc.admit_values", "['md']"), "oidc.admit_claim"),
        ] {
            let error = format!("{:#}", load(&[changed]).unwrap_err());
            assert!(error.contains(named), "{changed:?}: {error}");
        }
        for changed in [&[][..], &[("oidc.issuer", "http://127.0.0.1:3000")]] {
            load(changed).unwrap();
        }
    }

    #[test]
    fn servers_of_one_cluster_name_the_folder_that_all_of_them_have() {
        let whole = [
            ("database.url", "postgres://molbox@db/molbox"),
            ("objects.url", "s3://molbox"),
            ("tasks.executor", "slurm"),
            ("tasks.folder", ""),
        ];
        let load = |changed: &[(&str, &str)]| of(&[&whole, changed].concat());
        let error = format!("{:#}", load(&[]).unwrap_err());
        assert!(error.contains("tasks.folder must be named"), "{error}");
        for alone in [
            ("database.url", ""),
            ("objects.url", ""),
            ("tasks.executor", "process"),
            ("tasks.folder", "/shared/molbox"),
        ] {
            load(&[alone]).unwrap();
        }
        // Of one server whose nodes have its data folder.
        let own = load(&[("data", "/srv/molbox"), ("tasks.folder", "/srv/molbox")]).unwrap();
        assert!(!own.has_tasks_elsewhere());
    }

    #[test]
    fn the_documentation_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.toml");
        let written = std::fs::read_to_string(path).unwrap();
        assert!(
            written == Config::documentation(),
            "stale: cargo run -p molbox-service -- config > docs/configuration.toml"
        );
    }

    #[test]
    fn the_documentation_is_a_file_that_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("molboxd.toml");
        // All settings uncommented.
        let documentation = Config::documentation();
        let text = documentation.lines().map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => setting.to_owned(),
            _ => line.to_owned(),
        });
        std::fs::write(&file, text.collect::<Vec<_>>().join("\n")).unwrap();
        let config = Config::load(Some(&file), std::iter::empty(), &[]).unwrap();
        assert_eq!(
            toml::Table::try_from(config).unwrap(),
            toml::Table::try_from(Config::default()).unwrap()
        );
    }
}
