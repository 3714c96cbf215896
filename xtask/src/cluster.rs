//! The demo on a cluster of its own: PostgreSQL, S3 and Slurm, two servers behind a load balancer.
//! One server and Slurm's controller are killed while the simulation runs, and its results are
//! compared with those of a service that has none of this.

// The servers of the service's tests, which serve here as well.
#[path = "../../crates/service/tests/service/postgres.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "they are written for tests"
)]
mod postgres;
#[path = "../../crates/service/tests/service/s3.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "they are written for tests"
)]
mod s3;
#[path = "../../crates/service/tests/service/slurm.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "they are written for tests"
)]
mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::backends::{Backend, has};
use crate::service::{ENGINE, START_LIMIT, Service};
use crate::shell::{self, root, run, target};
use crate::{portal, python};

/// Of the system and the job, so that both runs are of the same numbers.
const SEED: &str = "20260131";
/// Threads of a worker: with one, OpenMM's CPU platform gives the same bytes each time, if the worker
/// commits at the same steps, which worker.checkpoint_seconds decides.
const THREADS: usize = 1;
/// How long whatever is waited for may take.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the controller stays away.
const AWAY: Duration = Duration::from_secs(5);
/// What a bundle has besides its results: identifiers, times, and the words of the worker.
const OF_THE_RUN: [&str; 4] = ["manifest.json", "log.txt", "README.txt", "ro-crate-metadata.json"];

pub fn demo() -> Result<()> {
    let start = Instant::now();
    // All at once, and before anything that takes minutes.
    let haproxy = (!has("haproxy")).then_some("haproxy is not installed (Debian: haproxy)");
    let missing = Backend::ALL.into_iter().filter_map(Backend::missing).chain(haproxy);
    let missing = missing.collect::<Vec<_>>();
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    let python = python::environment()?;
    portal::portal_where_possible()?;
    eprintln!("building");
    shell::example("demo")?;
    let out = target().join("demo-cluster");
    println!("== as a service alone");
    let alone = out.join("alone");
    let settings = [format!("worker.cpus={THREADS}"), "worker.slots=1".to_owned()];
    let service = Service::start(&alone, &python, &settings.each_ref().map(String::as_str))?;
    example(&alone, &service.base_url, &service.margin_url, &service.key("demo")?)?;
    service.stop()?;

    println!("== on a cluster");
    let folder = out.join("cluster");
    let cluster = Cluster::start(&folder, &python)?;
    let key = cluster.servers[0].key("demo")?;
    let (base_url, margin_url) = (cluster.base_url(), cluster.margin_url());
    let run = {
        let folder = folder.clone();
        thread::spawn(move || example(&folder, &base_url, &margin_url, &key))
    };
    let done = cluster.disturb(|| run.is_finished());
    run.join().map_err(|_| anyhow::anyhow!("the demo panicked"))??;
    done?;
    println!("== the same results");
    compare(&alone, &folder)?;
    println!("done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the client's example.
fn example(out: &Path, base_url: &str, margin_url: &str, key: &str) -> Result<()> {
    let mut command = Command::new(shell::example("demo")?);
    command
        .arg(root().join("examples/1vii.pdb"))
        .arg(out)
        .env("MOLBOX_BASE_URL", base_url)
        .env("MOLBOX_MARGIN_URL", margin_url)
        .env("MOLBOX_API_KEY", key)
        .env("MOLBOX_DEMO_SEED", SEED);
    run(&mut command).with_context(|| format!("logs are in {}", out.display()))
}

/// Everything that is started; it ends with the value.
struct Cluster {
    postgres: postgres::Postgres,
    database: String,
    slurm: slurm::Slurm,
    _s3: s3::S3,
    servers: [Server; 2],
    balancer: Child,
    /// Where the balancer listens for the workflow and for margins.
    addresses: [SocketAddr; 2],
}

impl Cluster {
    fn start(folder: &Path, python: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder.join("work"))?;
        let begun = Instant::now();
        let postgres = postgres::Postgres::start().context("no PostgreSQL")?;
        let s3 = s3::S3::start().context("no S3 server")?;
        let slurm = slurm::Slurm::start().context("no Slurm")?;
        println!("PostgreSQL, S3 and Slurm are up after {:.1} s", begun.elapsed().as_secs_f64());
        let (database, bucket) = (postgres.database(), s3.bucket());
        let addresses = [free()?, free()?];
        let mut settings = bucket.told();
        settings.extend([
            format!("database.url={database:?}"),
            format!("worker.python={:?}", python.display().to_string()),
            ENGINE.to_owned(),
            format!("public_url=\"http://{}\"", addresses[0]),
            format!("margin_public_url=\"http://{}\"", addresses[1]),
            format!("margin.market={:?}", folder.join("market").display().to_string()),
            "tasks.executor=slurm".to_owned(),
            format!("tasks.folder={:?}", folder.join("work").display().to_string()),
            format!("tasks.slurm.conf={:?}", slurm.conf().display().to_string()),
            format!("tasks.slurm.cpus={THREADS}"),
            "tasks.slurm.poll_seconds=0.5".to_owned(),
            "tasks.slurm.settle_seconds=5".to_owned(),
        ]);
        let servers =
            [Server::new(folder, "one", &settings)?, Server::new(folder, "two", &settings)?];
        run(servers[0].molboxd().args(["market", "sample"]).stdout(Stdio::null()))?;
        let [mut one, mut two] = servers;
        one.start()?;
        two.start()?;
        let balancer = balance(folder, addresses, [&one, &two])?;
        println!("two servers answer at http://{}", addresses[0]);
        let servers = [one, two];
        Ok(Self { postgres, database, slurm, _s3: s3, servers, balancer, addresses })
    }

    fn base_url(&self) -> String {
        format!("http://{}/local", self.addresses[0])
    }

    fn margin_url(&self) -> String {
        format!("http://{}", self.addresses[1])
    }

    fn sql(&self, sql: &str) -> String {
        self.postgres.sql(&self.database, sql)
    }

    /// Kills the server that runs the tasks, and Slurm's controller, once the simulation has begun;
    /// both come back.
    fn disturb(mut self, is_over: impl Fn() -> bool) -> Result<()> {
        let has_committed = "select count(*) from task where kind = 'job' and status = 'running'
             and exists (select 1 from progress where task = task.id)";
        let begun = self.wait("the simulation runs", &is_over, |it| {
            let job = it.sql(has_committed) == "1";
            job.then(|| it.sql("select id from task where kind = 'job'"))
        })?;
        let holder = self.sql("select holder from runner where name = 'slurm'");
        let n = self.servers.iter().position(|server| server.id() == holder);
        let n = n.context("no server runs the tasks")?;
        self.slurm.save();
        self.servers[n].kill()?;
        let killed = Instant::now();
        println!("killed the server that ran the tasks, {}", self.servers[n].name);
        self.slurm.kill("slurmctld");
        println!("killed Slurm's controller");
        thread::sleep(AWAY);
        self.slurm.restart("slurmctld");
        println!("Slurm's controller is back");
        let other = self.servers[1 - n].id();
        self.wait("the other server runs the tasks", &is_over, |it| {
            let holder = it.sql("select holder from runner where name = 'slurm'");
            (holder == other).then_some(())
        })?;
        println!(
            "{} runs the tasks {:.1} s after the kill; {begun} goes on",
            self.servers[1 - n].name,
            killed.elapsed().as_secs_f64()
        );
        self.servers[n].start()?;
        println!("{} is back", self.servers[n].name);
        while !is_over() {
            thread::sleep(Duration::from_millis(100));
        }
        let attempts = self.sql("select attempts from task where kind = 'job'");
        let jobs = self.sql("select count(*) from task");
        println!("{jobs} tasks in all, the simulation in {attempts} attempts");
        Ok(())
    }

    fn wait<T>(
        &self,
        what: &str,
        is_over: &impl Fn() -> bool,
        mut state: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = state(self) {
                return Ok(found);
            }
            ensure!(!is_over(), "the demo ended before {what}");
            ensure!(start.elapsed() < LIMIT, "it did not come about that {what}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // They may be gone.
        let _ = self.balancer.kill();
        let _ = self.balancer.wait();
        for server in &mut self.servers {
            let _ = server.kill();
        }
    }
}

/// A port of this machine that nobody has now.
fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// One of the servers, with a data folder of its own.
struct Server {
    name: &'static str,
    folder: PathBuf,
    settings: Vec<String>,
    /// Of the workflow and of margins.
    addresses: [SocketAddr; 2],
    process: Option<Child>,
}

impl Server {
    fn new(folder: &Path, name: &'static str, settings: &[String]) -> Result<Self> {
        let addresses = [free()?, free()?];
        let mut settings = settings.to_vec();
        settings.push(format!("listen=\"{}\"", addresses[0]));
        settings.push(format!("margin_listen=\"{}\"", addresses[1]));
        Ok(Self { name, folder: folder.to_owned(), settings, addresses, process: None })
    }

    fn data(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    fn molboxd(&self) -> Command {
        let mut command = Command::new(target().join("debug/molboxd"));
        command.arg("--data").arg(self.data());
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command
    }

    fn start(&mut self) -> Result<()> {
        let log = self.folder.join(self.name).with_extension("log");
        let log = fs::File::options().create(true).append(true).open(log)?;
        let mut command = self.molboxd();
        command.arg("serve").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = self.process.insert(command.spawn().context("start molboxd")?);
        let start = Instant::now();
        while TcpStream::connect(self.addresses[0]).is_err() {
            if let Some(status) = process.try_wait()? {
                bail!("molboxd ended ({status}); its log is in {}", self.folder.display());
            }
            ensure!(start.elapsed() < START_LIMIT, "molboxd does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// By which others know it.
    fn id(&self) -> String {
        let bytes = fs::read(self.data().join("server")).unwrap_or_default();
        bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn key(&self, account: &str) -> Result<String> {
        run(self.molboxd().args(["account", "create", account]).stdout(Stdio::null()))?;
        let output = self.molboxd().args(["key", "create", account]).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// Starts a load balancer before two servers.
fn balance(folder: &Path, at: [SocketAddr; 2], servers: [&Server; 2]) -> Result<Child> {
    let mut text = "\
defaults
    mode http
    timeout connect 2s
    timeout client 10m
    timeout server 10m
    retries 5
    option redispatch
    # What is answered by nobody is asked of the other: a request that may be repeated.
    retry-on conn-failure empty-response
"
    .to_owned();
    for (n, (name, health)) in
        [("workflow", "/local/healthz"), ("margin", "/healthz")].iter().enumerate()
    {
        text += &format!(
            "frontend {name}
    bind {}
    http-request disable-l7-retry if METH_POST !{{ req.hdr(idempotency-key) -m found }}
    default_backend {name}
backend {name}
    option httpchk GET {health}
    http-check expect status 200
    default-server check inter 500ms fall 1 rise 1
",
            at[n]
        );
        for server in servers {
            text += &format!("    server {} {}\n", server.name, server.addresses[n]);
        }
    }
    let conf = folder.join("haproxy.cfg");
    fs::write(&conf, text)?;
    let log = fs::File::create(folder.join("haproxy.log"))?;
    let mut balancer = Command::new("haproxy");
    balancer.arg("-db").arg("-f").arg(&conf).stdout(log.try_clone()?).stderr(log);
    let balancer = balancer.spawn().context("start haproxy (Debian: haproxy)")?;
    let start = Instant::now();
    while TcpStream::connect(at[0]).is_err() {
        ensure!(start.elapsed() < START_LIMIT, "haproxy does not listen");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(balancer)
}

/// Compares what two runs have come to, file by file.
fn compare(one: &Path, other: &Path) -> Result<()> {
    let (one, other) = (results(one)?, results(other)?);
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let mut n_other = 0;
    for name in names {
        let of = |results: &BTreeMap<String, Vec<u8>>| results.get(name).cloned();
        let (Some(here), Some(there)) = (of(&one), of(&other)) else {
            bail!("{name} is in one of the results alone");
        };
        let is_same = here == there;
        n_other += usize::from(!is_same);
        println!("{} {:>10} bytes  {name}", if is_same { "same " } else { "OTHER" }, here.len());
    }
    ensure!(n_other == 0, "{n_other} files are not the same");
    Ok(())
}

/// The files of the bundles that a run was given, without what is of the run: the margin, too.
fn results(out: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::from([("margin.csv".to_owned(), fs::read(out.join("margin.csv"))?)]);
    let mut identifiers = Vec::new();
    for entry in fs::read_dir(out)? {
        let folder = entry?.path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((kind, _)) =
            name.split_once('_').filter(|(kind, _)| ["job", "ana"].contains(kind))
        else {
            continue;
        };
        add(&folder, kind, &mut all)?;
        identifiers.push((name.to_owned(), kind.to_owned()));
    }
    ensure!(all.len() > 10, "{} has no results", out.display());
    for content in all.values_mut() {
        let Ok(text) = std::str::from_utf8(content) else { continue };
        let kinds = identifiers
            .iter()
            .fold(text.to_owned(), |text, (identifier, kind)| text.replace(identifier, kind));
        *content = kinds.into_bytes();
    }
    Ok(all)
}

fn add(folder: &Path, name: &str, all: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let own = path.file_name().and_then(|name| name.to_str()).context("a name")?;
        let name = format!("{name}/{own}");
        if path.is_dir() {
            add(&path, &name, all)?;
        } else if !OF_THE_RUN.contains(&own) {
            all.insert(name, fs::read(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_have_the_same_results_whatever_the_identifiers_of_their_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let run = |name: &str, mean: f64| {
            let (job, ana) = (format!("job_{name}"), format!("ana_{name}"));
            let out = folder.path().join(name);
            let data = format!(r#"{{"analysis_id":"{ana}","job_id":"{job}","mean":{mean}}}"#);
            for folder in [&job, &ana] {
                fs::create_dir_all(out.join(folder).join("plots")).unwrap();
                for n in 0..5 {
                    fs::write(out.join(folder).join(format!("plots/{n}.svg")), "<svg/>").unwrap();
                }
                fs::write(out.join(folder).join("manifest.json"), name).unwrap();
            }
            fs::write(out.join("margin.csv"), "1").unwrap();
            fs::write(out.join(&ana).join("data.json"), data).unwrap();
            fs::write(out.join(&job).join("production.dcd"), [0xff, 0xfe]).unwrap();
            out
        };
        let [one, same, other] =
            [("1", 2.5), ("2", 2.5), ("3", 2.75)].map(|(n, mean)| run(n, mean));
        compare(&one, &same).unwrap();
        assert_eq!(compare(&one, &other).unwrap_err().to_string(), "1 files are not the same");
    }
}
