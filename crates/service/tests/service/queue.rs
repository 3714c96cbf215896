//! Whose task starts next, and what those that wait are told.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use molbox::workflow::Client;
use molbox::workflow::types::{
    EquilibrationStep, Estimate, JobCreateParams, JobExtension, JobRecord, ProductionParams,
    QueuePlace, SystemRecord,
};

use serde_json::{Value, json};

use crate::common::Service;
use crate::postgres;
use crate::work::{endless_job, short_job, until_it_produces, wait_until, water};

fn place(job: &JobRecord) -> &QueuePlace {
    job.queue.as_ref().expect("it was waited for")
}

/// A job, once it is known where it waits and that so many do.
async fn placed(molbox: &Client, id: &str, length: u64) -> JobRecord {
    let is_known = |job: &JobRecord| job.queue.as_ref().is_some_and(|it| it.length == length);
    wait_until(molbox, id, is_known).await
}

#[tokio::test]
async fn with_one_slot_a_turn_goes_to_who_was_served_least() {
    let service = Service::start_with(&["worker.slots=1"]);
    let clients = ["ada", "bob", "cyd"].map(|name| service.client(name));
    let mut systems: Vec<SystemRecord> = Vec::new();
    for client in &clients {
        systems.push(water(client).await);
    }
    let [ada, bob, cyd] = &clients;
    let running = endless_job(ada, &systems[0]).await;
    until_it_produces(ada, &running).await;
    let mut waiting = Vec::new();
    for (client, system) in [
        (ada, &systems[0]),
        (ada, &systems[0]),
        (bob, &systems[1]),
        (bob, &systems[1]),
        (cyd, &systems[2]),
    ] {
        waiting.push((client, short_job(client, system).await.job_id));
    }
    let (mut positions, mut times) = (Vec::new(), Vec::new());
    for (client, id) in &waiting {
        let job = placed(client, id, 5).await;
        let place = place(&job);
        positions.push(place.position);
        times.extend(place.expected_start_at.clone().map(|time| (time, place.position)));
    }
    assert_eq!(BTreeSet::from_iter(positions.clone()), BTreeSet::from([1, 2, 3, 4, 5]));
    // Builds were short; what ada runs counts a minute at least.
    assert!(positions[2].max(positions[4]) == 2, "bob and cyd are next: {positions:?}");
    assert!(positions[0] < positions[1] && positions[2] < positions[3], "{positions:?}");

    times.sort();
    assert!(times.is_sorted_by_key(|(_, position)| position), "{times:?}");

    ada.job_cancel().job_id(running.as_str()).send().await.unwrap();
    let mut started = Vec::new();
    for (client, id) in &waiting {
        let job = client.wait_job(id).await.unwrap();
        assert_eq!(job.queue, None, "it waits no longer");
        started.push((job.started_at.unwrap(), id.clone()));
    }
    started.sort();
    let first: BTreeSet<&str> = started[..2].iter().map(|(_, id)| id.as_str()).collect();
    let expected = BTreeSet::from([waiting[2].1.as_str(), waiting[4].1.as_str()]);
    assert_eq!(first, expected, "{started:?}");
}

#[tokio::test]
async fn a_task_of_higher_priority_is_before_its_account_s_others_and_nobody_else_s() {
    let service = Service::start_with(&["worker.slots=1"]);
    let [ada, bob] = ["ada", "bob"].map(|name| service.client(name));
    let systems = [water(&ada).await, water(&bob).await];
    let running = endless_job(&ada, &systems[0]).await;
    until_it_produces(&ada, &running).await;
    let usual = short_job(&ada, &systems[0]).await.job_id;
    let others = short_job(&bob, &systems[1]).await.job_id;
    let mut urgent = job(&systems[0], 0.001);
    urgent.priority = Some(90);
    let check =
        async || ada.job_check().body(urgent.clone()).send().await.unwrap().estimate.clone();
    placed(&bob, &others, 2).await;
    // Bob's turn is next, and then ada's of higher priority.
    assert_eq!(check().await.queue.unwrap().position, 2);
    let urgent = ada.job_submit().body(urgent.clone()).send().await.unwrap().into_inner();
    assert_eq!(urgent.request.priority, Some(90));
    let mut places = Vec::new();
    for (client, id) in [(&bob, &others), (&ada, &urgent.job_id), (&ada, &usual)] {
        places.push(place(&placed(client, id, 3).await).position);
    }
    assert_eq!(places, [1, 2, 3]);
    let listed = service.command(&["task", "list", "--account", "ada"]);
    let at = |id: &str| listed.find(id).unwrap();
    assert!(at(&urgent.job_id) < at(&usual), "{listed}");
    ada.job_cancel().job_id(running.as_str()).send().await.unwrap();
    let mut started = Vec::new();
    for (client, id) in [(&bob, &others), (&ada, &urgent.job_id), (&ada, &usual)] {
        started.push(client.wait_job(id).await.unwrap().started_at.clone().unwrap());
    }
    assert!(started.is_sorted(), "{started:?}");
}

#[tokio::test]
async fn who_waits_is_told_when_it_starts_and_who_asks_when_it_would() {
    let service = Service::start_with(&["worker.slots=1", "worker.cpus=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = |ns: f64| job(&system, ns);
    let submit =
        async |ns: f64| molbox.job_submit().body(job(ns)).send().await.unwrap().into_inner().job_id;
    let short = submit(0.001).await;
    molbox.wait_job(&short).await.unwrap();
    let running = submit(1000.0).await;
    until_it_produces(&molbox, &running).await;
    let waiting = submit(0.001).await;
    let (start, estimate) = after_a_thousand_ns(&molbox, &system, &waiting, 1).await;
    assert_eq!(start.as_second() % 60, 0);
    let asked = estimate.queue.as_ref().expect("it is known");
    assert_eq!((asked.position, asked.length), (2, 2));
    assert!(asked.expected_start_at.as_ref().unwrap().parse::<jiff::Timestamp>().unwrap() >= start);
    let other = service.client("bob");
    let own = water_check(&other).await;
    assert_eq!((own.position, own.length), (1, 2), "one that was not served is before ada");

    molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
    assert_eq!(molbox.wait_job(&waiting).await.unwrap().queue, None);
}

#[tokio::test]
async fn administrators_see_the_places_that_records_have() {
    let service = Service::start_with(&["worker.slots=1", "worker.cpus=1"]);
    let [ada, bob] = ["ada", "bob"].map(|name| service.client(name));
    let systems = [water(&ada).await, water(&bob).await];
    let submit = async |client: &Client, system: &SystemRecord, ns: f64| {
        client.job_submit().body(job(system, ns)).send().await.unwrap().into_inner().job_id
    };
    // From now on it is known how long jobs take.
    let short = submit(&ada, &systems[0], 0.001).await;
    ada.wait_job(&short).await.unwrap();
    // Hours, and a hundredth of what bob's takes: how fast a job is seems to change while it starts.
    let running = submit(&ada, &systems[0], 10.0).await;
    until_it_produces(&ada, &running).await;
    let waiting = [
        (&ada, submit(&ada, &systems[0], 0.001).await),
        (&bob, submit(&bob, &systems[1], 1000.0).await),
        (&bob, submit(&bob, &systems[1], 0.001).await),
        (&ada, submit(&ada, &systems[0], 0.001).await),
    ];
    let mut places = Vec::new();
    for (client, id) in &waiting {
        places.push(place(&placed(client, id, 4).await).position);
    }
    // By then bob was served more than ada, for his first job takes longer than hers.
    assert_eq!(places, [2, 1, 4, 3]);
    // With the settings of the service: who runs both has them in one file.
    let mut list = service.place().molboxd();
    list.args(["--set", "worker.slots=1", "--set", "worker.cpus=1", "task", "list", "--json"]);
    let listed = String::from_utf8(list.output().unwrap().stdout).unwrap();
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<&str> = listed.iter().map(|task| task["task_id"].as_str().unwrap()).collect();
    let id = |nth: usize| waiting[nth].1.as_str();
    assert_eq!(ids, [running.as_str(), id(1), id(0), id(3), id(2)]);
    let positions: Vec<Option<u64>> = listed.iter().map(|it| it["position"].as_u64()).collect();
    assert_eq!(positions, [None, Some(1), Some(2), Some(3), Some(4)]);
}

#[tokio::test]
async fn who_waits_for_a_job_that_was_extended_is_told_when_it_starts() {
    let service = Service::start_with(&["worker.slots=1", "worker.cpus=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let submit = async |ns: f64| {
        molbox.job_submit().body(job(&system, ns)).send().await.unwrap().into_inner().job_id
    };
    let ended = submit(0.001).await;
    molbox.wait_job(&ended).await.unwrap();
    let running = endless_job(&molbox, &system).await;
    until_it_produces(&molbox, &running).await;
    let extension = JobExtension::builder().time(1000.0);
    molbox.job_extend().job_id(ended.as_str()).body(extension).send().await.unwrap();
    let waiting = submit(0.001).await;
    after_a_thousand_ns(&molbox, &system, &waiting, 2).await;
}

/// When a task that waits for 1000 ns of another is told to start, and what such a job is told to
/// take, once the two agree to a factor of two: how fast jobs are here is known better with each look
/// at the one that runs, and the two may be of different looks.
async fn after_a_thousand_ns(
    molbox: &Client,
    system: &SystemRecord,
    waiting: &str,
    position: u64,
) -> (jiff::Timestamp, Estimate) {
    let begin = Instant::now();
    loop {
        let known = wait_until(molbox, waiting, |job| {
            let place = job.queue.as_ref();
            place.is_some_and(|it| it.position == position && it.expected_start_at.is_some())
        });
        let known = known.await;
        let start: jiff::Timestamp =
            place(&known).expected_start_at.as_ref().unwrap().parse().unwrap();
        let created: jiff::Timestamp = known.created_at.parse().unwrap();
        let hours = start.duration_since(created).as_secs_f64() / 3600.0;
        let check = molbox.job_check().body(job(system, 1000.0)).send().await.unwrap();
        let whole = check.estimate.hours.unwrap().get();
        if hours > 0.5 * whole && hours < 2.0 * whole {
            return (start, check.into_inner().estimate);
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{hours} h for {whole} h");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A job of so many ns that keeps no frames.
fn job(system: &SystemRecord, ns: f64) -> JobCreateParams {
    let production = ProductionParams::builder().time(ns).traj_freq(0).log_freq(100);
    JobCreateParams::builder()
        .box_id(system.system_id.as_str())
        .minimization_steps(10)
        .equilibration(Vec::<EquilibrationStep>::new())
        .production(production)
        .try_into()
        .unwrap()
}

/// Where the build of a system would wait.
async fn water_check(molbox: &Client) -> QueuePlace {
    let asked = molbox.system_check().body_map(|system| system.minimum_padding(1.2));
    asked.send().await.unwrap().estimate.queue.clone().expect("it is known")
}

#[tokio::test]
async fn who_runs_the_service_sees_the_queue_of_all_and_cancels_what_is_in_it() {
    // Tasks stay queued.
    let service = Service::start_with(&["worker.python=\"/nonexistent/python\"", "worker.slots=1"]);
    let mut ids = Vec::new();
    for name in ["ada", "ada", "ada", "bob"] {
        let client = service.client(name);
        let system = client.system_submit().body_map(|system| system).send().await.unwrap();
        ids.push(system.system_id.clone());
    }
    let listed = |account: &str| -> Vec<(String, u64)> {
        let lines = service.command(&["task", "list", "--json", "--account", account]);
        let read = |line: &str| {
            let task: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = task["task_id"].as_str().unwrap().to_owned();
            (id, task["position"].as_u64().unwrap())
        };
        lines.lines().map(read).collect()
    };
    let of_ada = |places: [u64; 3]| ids[..3].iter().cloned().zip(places).collect::<Vec<_>>();
    assert_eq!(listed("ada"), of_ada([1, 3, 4]));
    assert_eq!(listed("bob"), [(ids[3].clone(), 2)]);

    service.command(&["account", "limit", "ada", "--weight", "2", "--open-tasks", "7"]);
    assert_eq!(listed("bob"), [(ids[3].clone(), 2)], "of two that had nothing the older is first");
    let shown = service.command(&["account", "show", "ada"]);
    assert!(shown.contains("weight      2\n"), "{shown}");
    assert!(shown.contains("open tasks  3 of 7, its own limit\n"), "{shown}");
    let shown = service.command(&["account", "show", "ada", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["open_tasks"], json!({"used": 3, "most": 7, "is_own": true}), "{shown}");
    assert_eq!((&shown["weight"], &shown["account"]), (&json!(2), &json!("ada")), "{shown}");
    assert!(service.command(&["audit"]).contains("account_weigh\tada"));
    let wrong = service.failing_command(&["account", "limit", "ada", "--weight", "0"]);
    assert!(wrong.contains("from 1 to 100"), "{wrong}");

    let lines = service.command(&["task", "list"]);
    assert!(lines.contains(&format!("{}\tbob\tsystem\tqueued 2\t", ids[3])), "{lines}");
    service.command(&["task", "cancel", &ids[0], &ids[3]]);
    assert_eq!(listed("bob"), []);
    assert_eq!(
        service.client("bob").wait_system(&ids[3]).await.unwrap_err().to_string(),
        format!("{} cancelled", ids[3])
    );
    let none = service.failing_command(&["task", "cancel", "box_00000000000000000000"]);
    assert!(none.contains("molboxd task list"), "{none}");

    let metrics = service.client("ada").call("GET", "/metrics").unwrap().send().await.unwrap();
    let metrics = String::from_utf8(metrics.bytes().await.unwrap().to_vec()).unwrap();
    for line in
        ["molbox_slots{lane=\"workers\"} 1", "molbox_longest_wait_seconds{lane=\"workers\"}"]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    service.wait_until_it_logs("account=\"bob\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_list_many_jobs_takes_no_more_questions_than_to_list_a_few() {
    const JOBS: u64 = 40;
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let mut service = Service::start_on(&url, &[]);
    let key = service.key("ada");
    let system = water(&service.client_with(&key)).await;
    // Nothing of it begins.
    service.stop();
    service.restart_with(&["tasks.runner=off"]);
    let molbox = service.client_with(&key);
    for _ in 0..JOBS {
        endless_job(&molbox, &system).await;
    }
    service.stop();
    let before = server.n_transactions(&url);
    let listed = service.command(&["task", "list"]);
    assert_eq!(listed.lines().count() as u64, JOBS, "{listed}");
    let n_transactions = server.n_transactions(&url) - before;
    assert!(n_transactions < JOBS, "{n_transactions}");
}
