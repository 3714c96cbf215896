//! Several servers on one database and one bucket: they answer as one, and when one of them dies
//! nothing that was acknowledged is lost and nothing is done twice.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use molbox::Client;
use molbox::workflow::types::{EquilibrationStep, JobRecord, ProductionParams};
use reqwest::StatusCode;

use crate::common::{Service, example, kill_task, processes, settings_of, wait_for};
use crate::holds::FakeWorker;
use crate::s3::Bucket;
use crate::slurm;
use crate::way::Way;
use crate::work::{archive, endless_job, wait_until, water};
use crate::{postgres, s3};

/// What servers share.
pub(crate) struct Shared {
    database: String,
    bucket: Bucket,
}

impl Shared {
    /// None, and a word of it, where there is no PostgreSQL or no S3.
    pub(crate) fn new() -> Option<Self> {
        let (postgres, s3) = (postgres::shared()?, s3::shared()?);
        Some(Self { database: postgres.database(), bucket: s3.bucket() })
    }

    pub(crate) fn start(&self, settings: &[&str]) -> Service {
        Service::start_shared(&self.database, &self.bucket, settings)
    }
}

fn has_begun(job: &JobRecord) -> bool {
    job.progress.as_ref().is_some_and(|progress| progress.fraction.get() > 0.0)
}

async fn status(service: &Service, path: &str) -> StatusCode {
    reqwest::get(format!("{}/{path}", service.base_url)).await.unwrap().status()
}

#[tokio::test]
async fn what_one_server_has_done_the_others_know() {
    let Some(shared) = Shared::new() else { return };
    let runs = shared.start(&[]);
    let answers = shared.start(&["tasks.runner=off"]);
    let key = runs.key("ada");
    let (one, other) = (runs.client_with(&key), answers.client_with(&key));
    // A link of one server is good at the other, and what was sent there is registered here.
    let link = one.upload_url_create().filetype("pdb").send().await.unwrap().into_inner();
    let (_, path) = link.upload_url.split_once("/upload/").unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    let url = format!("{}/upload/{path}", answers.base_url);
    let sent = reqwest::Client::new().put(url).body(content.clone()).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let registered =
        one.file_register().body_map(|file| file.file_id(link.file_id.as_str()).name("villin"));
    registered.send().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("villin.pdb");
    other.download_file(link.file_id.as_str(), &to).await.unwrap();
    assert!(fs::read(&to).unwrap() == content);
    // A request that is repeated elsewhere is the same, and the runner's progress is seen there.
    let system = water(&other).await.system_id.as_str().to_owned();
    let submit = |molbox: Client| {
        let system = system.clone();
        async move {
            let job = molbox.job_submit().idempotency_key("one").body_map(|job| {
                job.box_id(system.as_str())
                    .minimization_steps(10)
                    .equilibration(Vec::<EquilibrationStep>::new())
                    .production(ProductionParams::builder().time(100))
            });
            job.send().await.unwrap().job_id.as_str().to_owned()
        }
    };
    let job = submit(other.clone()).await;
    assert_eq!(submit(one.clone()).await, job);
    wait_until(&other, &job, has_begun).await;
    other.job_cancel().job_id(job.as_str()).send().await.unwrap();
    wait_until(&one, &job, |job| job.status == "cancelled").await;
    other.download_job(&job, folder.path().join("job.zip")).await.unwrap();
    // A key is revoked everywhere at once.
    let id = answers.command(&["key", "list", "ada"]);
    answers.command(&["key", "revoke", id.split('\t').next().unwrap()]);
    for molbox in [&one, &other] {
        let error = molbox.job_list().send().await.unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::UNAUTHORIZED));
    }
}

#[tokio::test]
async fn tasks_of_a_machine_that_is_lost_are_done_by_another() {
    let Some(shared) = Shared::new() else { return };
    let settings = ["tasks.lost_seconds=1", "worker.checkpoint_seconds=0.2"];
    let mut lost = shared.start(&settings);
    let key = lost.key("ada");
    let molbox = lost.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    wait_until(&molbox, &job, |job| job.attempts == 1).await;
    let queued = endless_job(&molbox, &system).await;
    lost.kill();
    let other = shared.start(&settings);
    let molbox = other.client_with(&key);
    // What waits is taken at once, what ran when its machine counts as lost.
    wait_until(&molbox, &queued, |job| job.status == "running").await;
    let record = molbox.job_view().job_id(job.as_str()).send().await.unwrap().into_inner();
    assert_eq!((record.status.as_str(), record.attempts), ("running", 1));
    molbox.job_cancel().job_id(queued.as_str()).send().await.unwrap();
    let name = format!("host-{}", identifier(&lost.data));
    other.sql(&format!("update runner set expires_at = 0 where name = '{name}'"));
    wait_until(&molbox, &job, |job| job.attempts == 2 && job.status == "running").await;
    // The lost one comes back, finds the task elsewhere, and ends what is left of it.
    lost.restart();
    wait_for("the processes of the lost attempt have ended", || {
        let folder = lost.data.join("tasks").join(&job);
        (!folder.exists()).then_some(())
    });
    let record = molbox.job_view().job_id(job.as_str()).send().await.unwrap().into_inner();
    assert_eq!((record.status.as_str(), record.attempts), ("running", 2));
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    wait_until(&molbox, &job, |job| job.status == "cancelled").await;
}

/// How often a simulation has committed that works in this folder.
fn commits(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("work/commit/commit.json")).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["number"].as_u64()
}

fn wait_for_commits(folder: &Path, after: u64) -> u64 {
    wait_for("it has committed", || commits(folder).filter(|number| *number > after + 2))
}

#[tokio::test]
async fn a_job_of_a_lost_machine_goes_on_from_its_last_commit_where_all_have_its_folder() {
    let Some(shared) = Shared::new() else { return };
    let work = tempfile::tempdir().unwrap();
    let settings = [
        &format!("tasks.folder={:?}", work.path().display().to_string()),
        "tasks.lost_seconds=1",
        "worker.checkpoint_seconds=0.2",
    ];
    let mut lost = shared.start(&settings);
    let key = lost.key("ada");
    let molbox = lost.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    let folder = work.path().join("tasks").join(&job);
    wait_for_commits(&folder, 0);
    lost.kill();
    wait_for("nothing of it lives", || (!kill_task(&folder)).then_some(()));
    let committed = commits(&folder).unwrap();
    let other = shared.start(&settings);
    let name = format!("host-{}", identifier(&lost.data));
    other.sql(&format!("update runner set expires_at = 0 where name = '{name}'"));
    let molbox = other.client_with(&key);
    wait_until(&molbox, &job, |job| job.attempts == 2 && job.status == "running").await;
    wait_for_commits(&folder, committed);
    let log = fs::read_to_string(folder.join("log.txt")).unwrap();
    assert!(log.contains("resuming at step"), "{log}");
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    wait_until(&molbox, &job, |job| job.status == "cancelled").await;
}

/// Breaks a server's environment and ends its simulation, once that has committed more often than so;
/// how often it has.
async fn break_off(
    service: &Service,
    fake: &FakeWorker,
    molbox: &Client,
    job: &str,
    before: u64,
) -> u64 {
    let folder = service.data.join("tasks").join(job);
    wait_for_commits(&folder, before);
    fake.set("import");
    let processes = processes(&folder);
    processes.iter().filter(|process| !process.is_run_task()).for_each(|it| it.signal("KILL"));
    wait_until(molbox, job, |job| job.status == "queued").await;
    commits(&folder).unwrap()
}

#[tokio::test]
async fn a_job_that_its_server_cannot_go_on_with_resumes_on_another_from_its_last_commit() {
    let Some(shared) = Shared::new() else { return };
    let start = |fake: &FakeWorker| {
        fake.set("real");
        shared.start(&[&fake.setting(), "worker.checkpoint_seconds=0.2"])
    };
    let fakes = [FakeWorker::new(), FakeWorker::new()];
    let mut first = start(&fakes[0]);
    let key = first.key("ada");
    let molbox = first.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    let committed = break_off(&first, &fakes[0], &molbox, &job, 0).await;
    let mut second = start(&fakes[1]);
    let molbox = second.client_with(&key);
    wait_until(&molbox, &job, |job| job.status == "running" && job.attempts == 2).await;
    break_off(&second, &fakes[1], &molbox, &job, committed).await;
    // Whoever ends it while it waits has what it has come to, too.
    first.kill();
    second.kill();
    let third = shared.start(&["worker.python=\"/nonexistent/python\""]);
    let molbox = third.client_with(&key);
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    wait_until(&molbox, &job, |job| job.status == "cancelled").await;
    let folder = tempfile::tempdir().unwrap();
    let files = archive(&molbox.download_job(&job, folder.path().join("job.zip")).await.unwrap());
    assert!(!files["production.dcd"].is_empty());
    let log = String::from_utf8(files["log.txt"].clone()).unwrap();
    assert!(log.contains("resuming at step"), "{log}");
    let kept = third.objects().join("tasks").join(&job).join("kept");
    assert!(!kept.exists(), "it has become results");
}

#[tokio::test]
async fn a_server_that_stood_still_until_it_was_lost_leaves_the_results_of_another_as_they_are() {
    let Some(shared) = Shared::new() else { return };
    let settings = ["tasks.lost_seconds=1"];
    let still = shared.start(&settings);
    let key = still.key("ada");
    let molbox = still.client_with(&key);
    let system = molbox.system_submit().body_map(|system| system.minimum_padding(1.2)).send().await;
    let id = system.unwrap().system_id.as_str().to_owned();
    let folder = still.data.join("tasks").join(&id);
    wait_for("its worker has begun", || processes(&folder).pop());
    signal(&still, "STOP");
    wait_for("its worker has ended", || folder.join("exit.json").exists().then_some(()));
    let other = shared.start(&settings);
    let name = format!("host-{}", identifier(&still.data));
    other.sql(&format!("update runner set expires_at = 0 where name = '{name}'"));
    let molbox = other.client_with(&key);
    assert_eq!(molbox.wait_system(&id).await.unwrap().attempts, 2);
    let download = async || {
        let folder = tempfile::tempdir().unwrap();
        let path = molbox.download_system(&id, folder.path().join("system.zip")).await.unwrap();
        fs::read(path).unwrap()
    };
    let before = download().await;
    signal(&still, "CONT");
    wait_for("it has given up what it has of the task", || (!folder.exists()).then_some(()));
    assert!(download().await == before, "of any bytes the client has checked the SHA-256");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_while_it_sent_results_leaves_those_of_another_as_they_are() {
    let Some(shared) = Shared::new() else { return };
    let way = Way::to(&shared.bucket, "tasks/");
    let endpoint = format!("objects.endpoint={:?}", way.endpoint);
    let still = shared.start(&["tasks.lost_seconds=1", &endpoint]);
    let key = still.key("ada");
    let molbox = still.client_with(&key);
    let system = molbox.system_submit().body_map(|system| system.minimum_padding(1.2)).send().await;
    let id = system.unwrap().system_id.as_str().to_owned();
    wait_for("some of its results are on their way", || way.is_used().then_some(()));
    signal(&still, "STOP");
    let other = shared.start(&["tasks.lost_seconds=1"]);
    let name = format!("host-{}", identifier(&still.data));
    other.sql(&format!("update runner set expires_at = 0 where name = '{name}'"));
    let molbox = other.client_with(&key);
    assert_eq!(molbox.wait_system(&id).await.unwrap().attempts, 2);
    signal(&still, "CONT");
    way.release();
    let folder = still.data.join("tasks").join(&id);
    wait_for("it has given up what it has of the task", || (!folder.exists()).then_some(()));
    let to = tempfile::tempdir().unwrap();
    molbox.download_system(&id, to.path().join("system.zip")).await.unwrap();
    assert!(other.command(&["check"]).ends_with("1 task: 0 damaged, 0 orphans"));
}

#[tokio::test]
async fn a_server_that_may_run_no_tasks_any_more_holds_none() {
    let Some(postgres) = postgres::shared() else { return };
    let broken = ["worker.python=\"/nonexistent/python\""];
    let service = Service::start_on(&postgres.database(), &broken);
    let molbox = service.client("ada");
    let until = async |is_held: bool| {
        while molbox.service_health().send().await.unwrap().held.is_empty() == is_held {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until(true).await;
    service.sql(
        "update runner set holder = 'another', token = token + 1, expires_at = 9000000000000000",
    );
    until(false).await;
}

/// What migrations of a newer program may do to a schema that this one goes on with: they add.
const ADDITIONS: &str = "begin;
    do $$ declare found record; begin
        for found in
            select tablename from pg_tables
            where schemaname = 'public' and tablename not in ('schema_version', 'progress')
        loop
            execute format('alter table %I add column later bigint not null default 0', found.tablename);
        end loop;
    end $$;
    create table later (id bigint primary key);
    create index task_later on task (later);
    update schema_version set version = version + 1;
    commit";

#[tokio::test(flavor = "multi_thread")]
async fn servers_go_on_while_a_newer_program_adds_to_the_schema_and_start_again_with_it() {
    let Some(shared) = Shared::new() else { return };
    let (mut one, other) = (shared.start(&[]), shared.start(&["tasks.runner=off"]));
    let key = one.key("ada");
    let molbox = one.client_with(&key);
    let system = water(&molbox).await;
    let job = endless_job(&molbox, &system).await;
    wait_until(&molbox, &job, has_begun).await;
    let submitting = tokio::spawn({
        let urls = [one.base_url.clone(), other.base_url.clone()];
        let key = key.clone();
        async move {
            for n in 0..40 {
                submit(&urls[n % 2..=n % 2], &key, n).await;
            }
        }
    });
    other.sql(ADDITIONS);
    submitting.await.unwrap();
    let listed = molbox.system_list().send().await.unwrap();
    assert_eq!(listed.items.len(), 41, "none was refused for good, and none done twice");
    // Nobody gave it up meanwhile, and it ends as ever.
    one.stop();
    one.restart();
    let molbox = one.client_with(&key);
    let record = molbox.job_cancel().job_id(job.as_str()).send().await.unwrap().into_inner();
    assert_eq!((record.status.as_str(), record.attempts), ("running", 1));
    wait_until(&molbox, &job, |job| job.status == "cancelled").await;
    molbox.download_job(&job, one.data.with_extension("zip")).await.unwrap();
    let said = one.command(&["migrate"]);
    assert!(said.contains("is up to date"), "{said}");
    assert!(one.command(&["check"]).ends_with("0 damaged, 0 orphans"));
    assert!(one.command(&["audit"]).contains("account_create"));
}

#[test]
fn what_servers_do_not_bear_is_migrated_once_all_have_ended() {
    let Some(server) = postgres::shared() else { return };
    let broken = ["worker.python=\"/nonexistent/python\""];
    let mut service = Service::start_on(&server.database(), &broken);
    wait_for("it shows that it is there", || {
        (service.sql("select count(*) from server") == "1").then_some(())
    });
    // Whatever takes long is given its time.
    service.sql(
        "create function is_unlimited() returns event_trigger language plpgsql as $$ begin
             if current_setting('statement_timeout') <> '0' then raise 'in a hurry'; end if;
         end $$",
    );
    let date = |oldest: u32| {
        service.sql("drop event trigger if exists hurry");
        service.sql("alter table task drop column queued_at");
        service.sql(&format!("update schema_version set version = 23, oldest = {oldest}"));
        service
            .sql("create event trigger hurry on ddl_command_end execute function is_unlimited()");
    };
    date(17);
    let said = service.command(&["migrate"]);
    assert!(said.contains("is up to date"), "{said}");
    date(16);
    let said = service.failing_command(&["migrate"]);
    assert!(said.contains("a server works on it") && said.contains("stop all servers"), "{said}");
    assert!(said.contains("database.url"), "{said}");
    let schema = || service.sql("select version, oldest from schema_version");
    assert_eq!(schema(), "23|16");
    service.ask_to_end();
    wait_for("it has ended", || (service.sql("select count(*) from server") == "0").then_some(()));
    service.command(&["migrate"]);
    assert_eq!(schema(), "24|17");
    service.wait();
}

fn signal(service: &Service, signal: &str) {
    let pid = service.pid().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
}

/// The identifier of the server that runs the tasks of the cluster.
fn holder(service: &Service) -> String {
    service.sql("select holder from runner where name = 'slurm' and expires_at > extract(epoch from clock_timestamp()) * 1000000")
}

pub(crate) fn identifier(data: &Path) -> String {
    let bytes = fs::read(data.join("server")).unwrap();
    bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn who_runs_the_cluster_s_tasks_is_replaced_within_20_seconds_and_they_go_on() {
    let (Some(shared), Some(cluster)) = (Shared::new(), slurm::shared()) else { return };
    let work = tempfile::tempdir().unwrap();
    let mut settings = settings_of(cluster);
    settings.push(format!("tasks.folder={:?}", work.path().display().to_string()));
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut first = shared.start(&settings);
    let key = first.key("ada");
    let molbox = first.client_with(&key);
    let system = water(&molbox).await;
    assert_eq!(holder(&first), identifier(&first.data));
    let second = shared.start(&settings);
    let job = endless_job(&molbox, &system).await;
    wait_until(&molbox, &job, has_begun).await;
    first.kill();
    let start = Instant::now();
    let molbox = second.client_with(&key);
    wait_for("the other server runs the tasks", || {
        (holder(&second) == identifier(&second.data)).then_some(())
    });
    let takeover = start.elapsed();
    println!("taken over {takeover:.1?} after a kill");
    assert!(takeover < Duration::from_secs(20), "{takeover:?}");
    second.wait_until_it_logs("adopted");
    let record = molbox.job_view().job_id(job.as_str()).send().await.unwrap().into_inner();
    assert_eq!((record.status.as_str(), record.attempts), ("running", 1), "it went on");
    // Who is asked to end gives the right back.
    first.restart();
    second.ask_to_end();
    let start = Instant::now();
    wait_for("the first runs them again", || {
        (holder(&first) == identifier(&first.data)).then_some(())
    });
    println!("given back {:.1?} after a request to end", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let molbox = first.client_with(&key);
    molbox.job_cancel().job_id(job.as_str()).send().await.unwrap();
    let record = wait_until(&molbox, &job, |job| job.status == "cancelled").await;
    assert_eq!(record.attempts, 1);
}

#[test]
fn a_copy_of_a_data_folder_is_no_second_server_of_that_name() {
    let Some(shared) = Shared::new() else { return };
    let mut service = shared.start(&["tasks.runner=off"]);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["bucket", "installation", "secret", "server"] {
        fs::copy(service.data.join(name), copy.join(name)).unwrap();
    }
    let mut place = service.place().clone();
    place.data = copy.clone();
    let mut serve = place.molboxd();
    serve.args(["--set", "listen=\"127.0.0.1:0\"", "--set", "margin_listen=\"127.0.0.1:0\""]);
    let output = serve.arg("serve").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("remove `server` from it"), "{said}");
    // Who is killed is back at once; a copy that has a name of its own is another server.
    service.kill_and_restart();
    assert!(!service.log().contains("goes by the name"), "{}", service.log());
    fs::remove_file(copy.join("server")).unwrap();
    let _other = Service::start_at(&copy, place, &["tasks.runner=off"]);
    wait_for("there are two", || (service.sql("select count(*) from server") == "2").then_some(()));
}

#[test]
fn settings_that_servers_are_to_have_alike_and_have_not_are_named() {
    let Some(shared) = Shared::new() else { return };
    let one = shared.start(&["tasks.runner=off", "worker.cpus=2"]);
    let other = shared.start(&["limits.requests_per_minute=7", "public_url=https://md.lab"]);
    let doctor = || {
        let mut doctor = one.place().molboxd();
        doctor.args(["--set", "worker.python=\"/nonexistent/python\"", "doctor"]);
        String::from_utf8(doctor.output().unwrap().stdout).unwrap()
    };
    let report = doctor();
    let line = report.lines().find(|line| line.contains(" database: ")).unwrap();
    let differ = "its servers differ in settings that are to be alike: \
        limits.requests_per_minute, public_url";
    assert!(line.contains(differ) && line.contains("2 servers"), "{report}");
    // Neither what they are, nor what each machine has for itself.
    for part in ["md.lab", "worker.cpus", "tasks.runner", "listen"] {
        assert!(!line.contains(part), "{part} is in: {line}");
    }
    drop(other);
}

#[tokio::test]
async fn a_server_that_is_to_end_says_so_and_answers_until_it_does() {
    let mut service = Service::start_with(&["server.drain_seconds=600"]);
    let molbox = service.client("ada");
    assert_eq!(status(&service, "healthz").await, 200);
    service.ask_to_end();
    let start = Instant::now();
    while status(&service, "healthz").await != 503 {
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status(&service, "livez").await, 200);
    let system = molbox.system_submit().body_map(|system| system.minimum_padding(1.2));
    let id = system.send().await.unwrap().system_id.clone();
    assert_eq!(molbox.system_view().system_id(id).send().await.unwrap().status, "queued");
    // Who asks twice does not want to wait.
    service.ask_to_end();
    service.wait();
    service.restart();
    let molbox = service.client_with(&service.key("ada"));
    assert_eq!(molbox.system_list().send().await.unwrap().items.len(), 1);
}

#[test]
fn all_servers_take_the_market_data_that_one_is_asked_to_take() {
    let Some(shared) = Shared::new() else { return };
    let market = tempfile::tempdir().unwrap();
    let setting = format!("margin.market={:?}", market.path().join("market").display().to_string());
    let (one, other) = (shared.start(&[&setting]), shared.start(&[&setting]));
    one.command(&["--set", &setting, "market", "sample"]);
    let said = one.command(&["--set", &setting, "market", "reload"]);
    assert!(said.contains("contracts in use"), "{said}");
    let in_use = |service: &Service| {
        let text = fs::read_to_string(service.data.join("market.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["sha256"].clone()
    };
    assert!(in_use(&one).is_string());
    assert_eq!(in_use(&one), in_use(&other));
    assert_eq!(one.sql("select count(distinct market) from server"), "1");
}

/// Sends a submission to one server after the other until one answers.
async fn submit(servers: &[String], key: &str, n: usize) -> String {
    for url in servers.iter().cycle().take(400) {
        let client = molbox::Connection::new(url, key).unwrap().retries(0).workflow().unwrap();
        let name = format!("system {n}");
        let system = client
            .system_submit()
            .idempotency_key(format!("submission {n}"))
            .body_map(|system| system.box_name(name).minimum_padding(1.2));
        match system.send().await {
            Ok(record) => return record.system_id.as_str().to_owned(),
            Err(error) if error.status().is_none_or(|status| status.is_server_error()) => {
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            Err(error) => panic!("refused: {error}"),
        }
    }
    panic!("no server answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_servers_that_are_killed_in_turn_nothing_is_lost_and_nothing_done_twice() {
    let Some(shared) = Shared::new() else { return };
    // Nothing is started, so that all there is are submissions.
    let settings = ["limits.open_tasks=0", "limits.requests_per_minute=0", "tasks.runner=off"];
    // Each on an address of its own, which it has again when it is started again.
    let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let start = |address: std::net::SocketAddr| {
        let listen = format!("listen=\"{address}\"");
        let all: Vec<&str> = settings.iter().copied().chain([listen.as_str()]).collect();
        shared.start(&all)
    };
    let mut servers = [start(port()), start(port())];
    let key = servers[0].key("ada");
    let urls: Vec<String> = servers.iter().map(|server| server.base_url.clone()).collect();
    let submitting = tokio::spawn({
        let (urls, key) = (urls.clone(), key.clone());
        async move {
            let mut acknowledged = BTreeSet::new();
            for n in 0..300 {
                assert!(acknowledged.insert(submit(&urls, &key, n).await), "two have one name");
            }
            acknowledged
        }
    });
    let mut kills = 0;
    while !submitting.is_finished() {
        let server = &mut servers[kills % 2];
        server.kill();
        server.restart();
        kills += 1;
    }
    println!("{kills} kills");
    assert!(kills >= 4, "{kills}");
    let acknowledged = submitting.await.unwrap();
    let molbox = servers[0].client_with(&key);
    let listed = molbox.system_list().stream();
    let listed: Vec<String> =
        listed.map_ok(|system| system.system_id.as_str().to_owned()).try_collect().await.unwrap();
    assert_eq!(listed.len(), acknowledged.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), acknowledged);
}
