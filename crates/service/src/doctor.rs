//! Whether everything is there that the service needs, and what to do if not: `molboxd doctor`, and
//! what a running service finds of itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use reqwest::Url;
use rustix::process::geteuid;
use serde_json::Value;
use tokio::task::block_in_place;

use crate::accounts::oidc;
use crate::app::{installation, refuse_foreign};
use crate::clock::Clock;
use crate::config::{Config, Engine, Sandbox};
use crate::db::Db;
use crate::exec::Executors;
use crate::files;
use crate::finding::{Examination, Finding, Found};
use crate::folder;
use crate::handlers::portal;
use crate::objects::{Objects, Unfinished};
use crate::runner::environment;
use crate::shown::{counted, in_bytes};
use crate::tenure;
use crate::web;

/// Runs every check.
pub(crate) async fn examine(config: &Config) -> Vec<Finding> {
    let data = sound("data folder", data(config));
    let database = async {
        let db = Db::open(config)?;
        // What is wrong with the contents alone is reported of them.
        if let (Ok(objects), Ok(_)) =
            block_in_place(|| (Objects::to_read(config), belonging(config)))
        {
            block_in_place(|| refuse_foreign(config, &db, &objects))?;
            tenure::check(&db, &Arc::new(objects), Clock::default().now()).await?;
        }
        database(&db, config, Clock::default().now(), Duration::MAX).await
    };
    let mut findings = vec![data, Finding { about: "database", result: database.await }];
    findings.extend(objects(config));
    findings.extend(surroundings(config).await);
    findings.extend(provider(config).await);
    findings.push(sound("addresses", addresses(config).await));
    findings
}

/// How long the check of the database may take, beside which the service works.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Runs the checks that a running service can make of itself.
pub(crate) async fn examine_running(config: &Config, db: &Db, now: Timestamp) -> Examination {
    let database = database(db, config, now, CHECK_LIMIT).await;
    let mut findings =
        vec![sound("data folder", data(config)), Finding { about: "database", result: database }];
    findings.extend(objects(config));
    findings.extend(surroundings(config).await);
    findings.extend(provider(config).await);
    Examination { at: now, findings }
}

fn sound(about: &'static str, result: Result<String>) -> Finding {
    Finding { about, result: result.map(Found::Sound) }
}

/// What is around the service.
async fn surroundings(config: &Config) -> Vec<Finding> {
    let mut found = Value::Null;
    let mut findings = match config.tasks.executor {
        Engine::Process => Vec::new(),
        // What it refuses, no worker would show.
        Engine::Slurm => match cluster(config).await {
            Ok(checked) => {
                found = checked;
                vec![Finding { about: "tasks", result: Ok(on_cluster(config, &found)) }]
            }
            Err(error) => vec![sound("tasks", Err(error))],
        },
    };
    let is_checked = config.tasks.executor == Engine::Process || found != Value::Null;
    if is_checked {
        let (workers, sandbox) = workers(config, found).await;
        findings.extend([sound("workers", workers), Finding { about: "sandbox", result: sandbox }]);
    }
    findings.extend([
        sound("pdb mirror", mirror(config).await),
        Finding { about: "portal", result: Ok(portal(config)) },
    ]);
    findings
}

/// How long a job may wait in Slurm's queue before its wait is what is reported.
const QUEUE_LIMIT: Duration = Duration::from_secs(180);

/// Whether Slurm takes jobs with the real options, and what one that is a check finds on a node.
async fn cluster(config: &Config) -> Result<Value> {
    folder::make(&config.data)?;
    let executors = Executors::new(config, &installation(&config.data)?);
    executors.test().await?;
    let checked = environment::check(config, None, Some(QUEUE_LIMIT)).await;
    checked.map_err(|broken| anyhow!("{}", broken.cause))
}

fn on_cluster(config: &Config, found: &Value) -> Found {
    let node = found["node"].as_str().unwrap_or("?");
    let seconds = found["seen_after_seconds"].as_f64().unwrap_or_default();
    let text = format!(
        "Slurm takes jobs; one ran on node {node}, and its end was seen here after {seconds:.1} s; a \
         job counts as lost after {} s of silence (tasks.slurm.settle_seconds)",
        config.tasks.slurm.settle_seconds
    );
    let broken = found["broken_nodes"].as_array().into_iter().flatten();
    let broken: Vec<&str> = broken.filter_map(Value::as_str).collect();
    if broken.is_empty() {
        return Found::Sound(text);
    }
    Found::Weak(format!(
        "{text}; it did not begin on {}, which need the folder {} (tasks.folder) and the program \
         (tasks.slurm.molboxd)",
        broken.join(", "),
        config.tasks_root().display()
    ))
}

/// Memory of the machine, in bytes: all, and what programs can have; none where the kernel does not
/// say.
pub(crate) fn memory() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((bytes("MemTotal")?, bytes("MemAvailable")?))
}

fn data(config: &Config) -> Result<String> {
    folder::make(&config.data)?;
    let probe = config.data.join("doctor.tmp");
    std::fs::write(&probe, "written")
        .with_context(|| format!("write in {}", config.data.display()))?;
    std::fs::remove_file(&probe)?;
    if config.has_tasks_elsewhere()
        && let Ok(Some(name)) = belonging(config)
    {
        folder::has_tasks(&config.data, config.tasks_root(), &name)?;
    }
    // It is made for the first task.
    let of_tasks = Some(config.tasks_root()).filter(|folder| folder.exists());
    for folder in of_tasks.into_iter().chain([config.data.as_path()]) {
        let free = files::free_bytes(folder)?;
        if free < config.limits.free_disk_bytes {
            bail!(
                "{} are free in {}, less than limits.free_disk_bytes; make room",
                in_bytes(free.into()),
                folder.display()
            );
        }
    }
    let free = files::free_bytes(&config.data)?;
    Ok(format!("{}, {} free", config.data.display(), in_bytes(free.into())))
}

/// The name of whose the contents are, if they are anybody's yet.
fn belonging(config: &Config) -> Result<Option<String>> {
    let objects = Objects::to_read(config)?;
    match folder::settled(&config.data, &objects, &installation(&config.data)?)? {
        Some(name) => Ok(Some(name)),
        None => objects.installation(),
    }
}

/// Whether contents are where they are to be, and a store elsewhere does all that is asked of it.
fn objects(config: &Config) -> Option<Finding> {
    let about = "objects";
    if config.objects.url.is_empty() {
        return belonging(config).err().map(|error| Finding { about, result: Err(error) });
    }
    let try_out = || {
        let objects = Objects::to_read(config)?;
        if belonging(config)?.is_none() {
            objects.refuse_strangers()?;
        }
        let unfinished = objects.try_out()?;
        let does = format!(
            "{} writes, reads, lists and removes, checks what comes, and writes once what is to be",
            objects.place()
        );
        Ok(match unfinished {
            Unfinished::Removed => Found::Sound(does),
            Unfinished::Stays => Found::Weak(format!(
                "{does}; no rule there removes parts of uploads that were cut off, which only a service \
                 does as long as there is one: give it AbortIncompleteMultipartUpload after two days"
            )),
            Unfinished::Unknown => Found::Sound(format!(
                "{does}; whether it removes parts of uploads that were cut off it does not tell"
            )),
        })
    };
    Some(Finding { about, result: try_out() })
}

async fn database(db: &Db, config: &Config, now: Timestamp, limit: Duration) -> Result<Found> {
    let is_sound = block_in_place(|| db.check(limit))?;
    let verdict =
        if is_sound { "sound" } else { "too large to be checked here, see `molboxd check`" };
    let accounts = match usize::try_from(db.n_accounts().await?)? {
        0 => "there is no account yet, make one with `molboxd account create NAME`".to_owned(),
        accounts => counted(accounts, "account"),
    };
    Ok(match db.examine(config.database.connections, now).await? {
        None if accounts.starts_with("there") => Found::Sound(format!("{verdict}; {accounts}")),
        None => Found::Sound(format!("{verdict}, {accounts}")),
        Some((server, faults)) if faults.is_empty() => {
            Found::Sound(format!("{server}; {accounts}"))
        }
        Some((server, faults)) => {
            Found::Weak(format!("{server}; {accounts}; {}", faults.join("; ")))
        }
    })
}

/// Whether workers work, and how they are confined.
/// `found` is what a check has found already.
async fn workers(config: &Config, found: Value) -> (Result<String>, Result<Found>) {
    if found != Value::Null {
        return (Ok(versions(config, &found)), Ok(sandbox(config, &found)));
    }
    let gpus = &config.worker.gpus;
    let gpus: Vec<_> =
        if gpus.is_empty() { vec![None] } else { gpus.iter().copied().map(Some).collect() };
    let mut found = Value::Null;
    for gpu in gpus {
        let name = gpu.map_or_else(String::new, |gpu| format!("GPU {gpu}: "));
        match environment::check(config, gpu, None).await {
            Ok(checked) => found = checked,
            Err(broken) => {
                let unknown = anyhow!("not known as long as workers do not start");
                return (Err(anyhow!("{name}{}", broken.cause)), Err(unknown));
            }
        }
    }
    (Ok(versions(config, &found)), Ok(sandbox(config, &found)))
}

fn versions(config: &Config, found: &Value) -> String {
    let platforms: Vec<&str> =
        found["platforms"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let gromacs = match found["gromacs"].as_str() {
        Some(gromacs) if !gromacs.is_empty() => format!("GROMACS {gromacs}"),
        _ => "no GROMACS, which is faster on CPUs".to_owned(),
    };
    let version = |name: &str| found["versions"][name].as_str().unwrap_or("?");
    let ligands = match found["ligand_tools"] == true {
        true => "",
        false => {
            "; without the programs for charges of ligands, whose builds fail: install worker/requirements.txt"
        }
    };
    format!(
        "Python {}, OpenMM {} with {}; {gromacs}; {} on {}{ligands}",
        version("python"),
        version("openmm"),
        platforms.join(", "),
        counted(config.slots(), "slot"),
        counted(config.cpus(), "CPU"),
    )
}

/// How workers are confined, as a worker's log has it.
fn sandbox(config: &Config, found: &Value) -> Found {
    let confined = found["sandbox"].as_str().unwrap_or("unknown");
    let is_root = geteuid().is_root() && config.worker.user == 0;
    let root = "; the service is root: start it as a user of its own, or set worker.user";
    let text = format!("{confined}{}", if is_root { root } else { "" });
    let is_weak =
        is_root || confined.starts_with("without") || config.worker.sandbox == Sandbox::Off;
    if is_weak { Found::Weak(text) } else { Found::Sound(text) }
}

async fn mirror(config: &Config) -> Result<String> {
    let mirror = &config.pdb.mirror;
    if mirror.is_empty() {
        return Ok("none; entries cannot be asked for by pdb_id".to_owned());
    }
    let place = mirror.replace("{id}", "1l2y").replace("{ID}", "1L2Y");
    if !place.starts_with("http") {
        if !Path::new(&place).exists() {
            bail!("{place} is not there");
        }
        return Ok(format!("{place} is there"));
    }
    let limit = Duration::from_secs(config.pdb.timeout_seconds);
    let answer = tokio::time::timeout(limit, web::client()?.head(&place).send()).await;
    let status = answer.with_context(|| format!("{place} does not answer"))??.status();
    if !status.is_success() {
        bail!("{place} answers {status}");
    }
    Ok(format!("{place} answers"))
}

/// Whether the identity provider is there, if people sign in by one.
async fn provider(config: &Config) -> Option<Finding> {
    let issuer = &config.oidc.issuer;
    let ask = async {
        oidc::secret(&config.oidc)?;
        oidc::discover(&web::client()?, issuer).await?;
        Ok(format!("{issuer} answers"))
    };
    if config.oidc.is_set() { Some(sound("identity provider", ask.await)) } else { None }
}

/// Whether the addresses can be had, or the service of this data folder has them.
async fn addresses(config: &Config) -> Result<String> {
    if folder::is_served(&config.data)? {
        return Ok("the service of this data folder has them: it runs".to_owned());
    }
    for (name, address) in [("listen", config.listen), ("margin_listen", config.margin_listen)] {
        tokio::net::TcpListener::bind(address).await.with_context(|| {
            format!("listen on {address}: set {name} to another, or end the program that has it")
        })?;
    }
    Ok(format!("{} and {} are free", config.listen, config.margin_listen))
}

fn portal(config: &Config) -> Found {
    let text = if portal::is_built() { "built in" } else { portal::MISSING };
    if is_private(config) {
        return Found::Sound(text.to_owned());
    }
    Found::Weak(format!(
        "{text}; passwords, sessions and keys can be read on their way: put a server with TLS before \
         it, and set public_url to its https address"
    ))
}

/// Whether nobody can read what is sent to the service on its way.
fn is_private(config: &Config) -> bool {
    if config.public_url.is_empty() {
        return config.listen.ip().is_loopback();
    }
    let Ok(url) = Url::parse(&config.public_url) else { return false };
    web::is_private(&url)
}
