//! What any database promises. Each test runs on every database there is, each time on a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use molbox::workflow::types;
use tokio::sync::oneshot;

use super::runner::take;
use super::transfer::TABLES;
use super::{
    Allowance, Answer, Before, Db, Deed, Deletion, End, Error, Extended, FileRow, Filter,
    IdempotentWrite, LEASE, Lease, Once, OverHours, OverQuota, Period, Reads, Requeue, Row, Scope,
    Server, Tx, Unqueued, Unregistered, values,
};
use crate::clock::Clock;
use crate::config::{Config, Database};
use crate::folder::failure::storage_failure;
use crate::formats::Format;
use crate::record::{FileStatus, Kind, Lane, NewTask, PRIORITY, Retention, Role, Status, Task};

const UNLIMITED: Allowance = Allowance { open_tasks: 0, bytes: 0, hours: 0, hours_days: 30 };
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A server for the tests, as those of the whole service have it.
#[path = "../../tests/service/postgres.rs"]
#[allow(dead_code, clippy::print_stdout, reason = "those use all of it, and say what is skipped")]
mod postgres;

/// Hands a promise every kind of database, new. What it spawns runs at once with it.
fn on_each_database<F: Future<Output = ()>>(promise: impl Fn(Arc<Db>) -> F) {
    let urls =
        [String::new()].into_iter().chain(postgres::shared().map(|server| server.database()));
    for url in urls {
        with_database(url, &promise);
    }
}

/// The same for the database at an address, which is SQLite's where it is empty.
fn with_database<T, F: Future<Output = T>>(url: String, work: impl Fn(Arc<Db>) -> F) -> T {
    let data = tempfile::tempdir().unwrap();
    let database = Database { url, ..Database::default() };
    let config = Config { data: data.path().to_owned(), database, ..Config::default() };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let db = Arc::new(Db::open(&config).unwrap());
    runtime.block_on(work(db))
}

/// A moment, in microseconds since 1970.
fn at(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(microseconds).unwrap()
}

/// Makes an account; its number.
async fn account(db: &Db, name: &str) -> i64 {
    let made = db.create_account(name.to_owned(), Role::User, Deed::default()).await.unwrap();
    made.unwrap().id
}

fn queued(account: i64, kind: Kind, id: &str) -> NewTask {
    NewTask {
        id: id.to_owned(),
        account,
        kind,
        name: None,
        parent: None,
        request: "{}".to_owned(),
        parameters: "{}".to_owned(),
        seed: 1,
        warnings: "[]".to_owned(),
        bytes: 0,
        priority: PRIORITY,
        created_at: at(0),
    }
}

/// A request with this key, without one if it is empty.
fn request(account: i64, key: &str) -> IdempotentWrite {
    IdempotentWrite {
        account,
        key: Some(key.to_owned()).filter(|key| !key.is_empty()),
        operation: "job_submit",
        fingerprint: [7; 32],
        now: at(0),
        deed: Deed::default(),
    }
}

fn answer(body: &str) -> Answer {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Answer { headers, body: body.to_owned() }
}

async fn queue(db: &Db, task: NewTask, reads: Reads) -> Once<Unqueued> {
    let request = request(task.account, "");
    db.create_task(task, reads, UNLIMITED, request, answer("")).await.unwrap()
}

/// Queues tasks that read nothing.
async fn queue_all(db: &Db, account: i64, kind: Kind, ids: &[String]) {
    for id in ids {
        let done = queue(db, queued(account, kind, id), Reads::default()).await;
        assert!(matches!(done, Once::Stored), "{id}: {done:?}");
    }
}

fn numbered(prefix: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{prefix}_{i}")).collect()
}

fn file(id: &str, size: i64) -> FileRow {
    FileRow {
        seq: 0,
        id: id.to_owned(),
        name: id.to_owned(),
        kind: "protein".to_owned(),
        format: Format::Pdb,
        status: FileStatus::Ready,
        size: Some(size),
        sha256: Some("00".repeat(32)),
        pdb_id: None,
        created_at: at(0),
        object: Some(format!("files/{id}")),
        warnings: "[]".to_owned(),
    }
}

async fn store(db: &Db, account: i64, file: FileRow, max_bytes: u64) -> Once<Unregistered> {
    let request = request(account, "");
    db.create_ready_file(file, account, max_bytes, request, answer("")).await.unwrap()
}

/// The right to run tasks, of a server of this name.
async fn lease(db: &Db, server: &str) -> Lease {
    let name = format!("host-{server}");
    if db.is_shared() {
        // What it had before is free: it is started anew.
        let (id, process) = (server.to_owned(), "suite".to_owned());
        assert_eq!(db.be_server(id, process, None, at(0)).await.unwrap(), None);
    }
    db.take_lease(name, server.to_owned(), at(0)).await.unwrap().expect("nobody else has it")
}

async fn claim(db: &Db, lease: &Lease, lane: Lane, now: Timestamp) -> Option<(Task, usize)> {
    db.claim(lease.clone(), lane, 9, now).await.unwrap()
}

/// Begins an attempt of a task; false when it is not queued.
async fn begin(db: &Db, lease: &Lease, account: i64, id: &str, now: Timestamp) -> bool {
    let (owner, task) = (lease.clone(), id.to_owned());
    let taken = db.write(Scope::Account(account), move |tx| take(tx, &owner, &task, now)).await;
    taken.unwrap().is_some()
        && db.begin_attempt(lease.clone(), account, id.to_owned(), now).await.unwrap()
}

fn ended(status: Status) -> End {
    End { status, outcome: "{}".to_owned(), bundle: None, bytes: 0 }
}

/// Runs as many of these as there are at once; what became of each.
async fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    n: usize,
    each: impl Fn(usize) -> F,
) -> Vec<T> {
    let running: Vec<_> = (0..n).map(|i| tokio::spawn(each(i))).collect();
    let mut done = Vec::new();
    for one in running {
        done.push(one.await.unwrap());
    }
    done
}

#[test]
fn what_is_written_is_read_as_it_was() {
    on_each_database(|db| async move {
        let account = account(&db, "Zoë's \"lab\"; --").await;
        let text = "{\"a\": \"'Å' ?1 $1 \\\\ \\n\",  \"b\":1.50}".to_owned();
        let task = NewTask {
            name: Some(String::new()),
            request: text.clone(),
            parameters: text.repeat(10_000),
            seed: i64::MAX,
            created_at: at(-1),
            warnings: "[ ]".to_owned(),
            bytes: 3,
            priority: 51,
            ..queued(account, Kind::Job, "job_1")
        };
        // It needs none that is there.
        queue(&db, task.clone(), Reads::default()).await;
        let found = db.task(account, Kind::Job, "job_1").await.unwrap().unwrap();
        assert!(found.seq > 0);
        let expected = Task {
            seq: found.seq,
            id: task.id,
            account,
            kind: Kind::Job,
            name: task.name,
            parent: None,
            status: Status::Queued,
            request: task.request,
            parameters: task.parameters,
            seed: i64::MAX,
            attempts: 0,
            fruitless: 0,
            created_at: at(-1),
            started_at: None,
            finished_at: None,
            is_cancelled: false,
            outcome: None,
            warnings: task.warnings,
            bytes: 3,
            priority: 51,
            expires_at: None,
        };
        assert_eq!(found, expected);
        assert!(matches!(store(&db, account, file("file_1", 5), 0).await, Once::Stored));
        let found = db.file(account, "file_1").await.unwrap().unwrap();
        assert_eq!(found, FileRow { seq: found.seq, ..file("file_1", 5) });
    });
}

#[test]
fn nobody_finds_what_is_another_account_s_or_of_another_kind() {
    on_each_database(|db| async move {
        let (own, other) = (account(&db, "own").await, account(&db, "other").await);
        queue_all(&db, own, Kind::Job, &numbered("job", 1)).await;
        store(&db, own, file("file_1", 5), 0).await;
        assert_eq!(db.task(other, Kind::Job, "job_0").await.unwrap(), None);
        assert_eq!(db.task(own, Kind::System, "job_0").await.unwrap(), None);
        assert_eq!(db.latest_task(other, Kind::Job).await.unwrap(), None);
        assert_eq!(db.file(other, "file_1").await.unwrap(), None);
        assert_eq!(db.ready_file(other, "file_1").await.unwrap(), None);
        let (id, deed) = ("job_0".to_owned(), Deed::default());
        assert_eq!(db.cancel_task(other, Kind::Job, id, deed.clone()).await.unwrap(), None);
        let deleted = db.delete_file(other, "file_1".to_owned(), deed).await.unwrap();
        assert_eq!(deleted, (Deletion::NotFound, None));
    });
}

#[test]
fn accounts_take_turns_and_one_that_is_disabled_has_none() {
    on_each_database(|db| async move {
        let (a, b, c) = (account(&db, "a").await, account(&db, "b").await, account(&db, "c").await);
        // One that has submitted all before the others does not have all of its tasks run before
        // theirs.
        for (account, name, n) in [(a, "a", 4), (b, "b", 2), (c, "c", 2)] {
            queue_all(&db, account, Kind::Job, &numbered(name, n)).await;
        }
        queue_all(&db, a, Kind::Analysis, &numbered("ana", 1)).await;
        let disabled = types::AccountChange { disabled: Some(true), ..Default::default() };
        let done = db.change_account("c".to_owned(), disabled, Deed::default()).await.unwrap();
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(db.queue(&Filter::default(), 99).await.unwrap().len(), 7, "theirs has ended");
        let late = queued(c, Kind::Job, "c_late");
        let (reads, write) = (Reads::default(), request(c, "late"));
        let refused = db.create_task(late, reads, UNLIMITED, write, answer("")).await.unwrap();
        assert!(matches!(refused, Once::Refused(Unqueued::Disabled)));
        let mut started = Vec::new();
        let lease = lease(&db, "one").await;
        while let Some((task, _)) = claim(&db, &lease, Lane::Workers, at(1)).await {
            started.push(task.id);
        }
        assert_eq!(started, ["a_0", "b_0", "a_1", "b_1", "a_2", "a_3"]);
        let (waiting, n) = claim(&db, &lease, Lane::Analyses, at(1)).await.unwrap();
        assert_eq!((waiting.id.as_str(), n), ("ana_0", 1));
    });
}

#[test]
fn runners_that_claim_at_once_start_every_task_once() {
    on_each_database(|db| async move {
        let (a, b) = (account(&db, "a").await, account(&db, "b").await);
        let (of_a, of_b) = (numbered("a", 30), numbered("b", 10));
        queue_all(&db, a, Kind::Job, &of_a).await;
        queue_all(&db, b, Kind::System, &of_b).await;
        let claimed = at_once(4, |i| {
            let db = db.clone();
            async move {
                let lease = lease(&db, &format!("server {i}")).await;
                let mut own = Vec::new();
                while let Some((task, _)) = claim(&db, &lease, Lane::Workers, at(1)).await {
                    assert_eq!((task.status, task.attempts), (Status::Running, 0), "{}", task.id);
                    own.push(task.id);
                }
                if db.is_shared() {
                    let running = db.running_tasks(&lease).await.unwrap();
                    let mut adopted: Vec<_> = running.into_iter().map(|task| task.id).collect();
                    let mut claimed = own.clone();
                    adopted.sort();
                    claimed.sort();
                    assert_eq!(adopted, claimed, "each adopts its own");
                }
                own
            }
        });
        let mut claimed = claimed.await.concat();
        claimed.sort();
        let mut all = [of_a, of_b].concat();
        all.sort();
        assert_eq!(claimed, all);
    });
}

#[test]
fn an_allowance_holds_for_those_who_write_at_once() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        let allowance = Allowance { open_tasks: 5, ..UNLIMITED };
        let queued = at_once(20, |i| {
            let (db, task) = (db.clone(), queued(account, Kind::Job, &format!("job_{i}")));
            let request = request(account, "");
            async move {
                db.create_task(task, Reads::default(), allowance, request, answer(""))
                    .await
                    .unwrap()
            }
        });
        let queued = queued.await;
        assert_eq!(queued.iter().filter(|done| matches!(done, Once::Stored)).count(), 5);
        let too_many = |done: &&Once<_>| matches!(done, Once::Refused(Unqueued::TooMany(5)));
        assert_eq!(queued.iter().filter(too_many).count(), 15);
        let stored = at_once(20, |i| {
            let (db, file) = (db.clone(), file(&format!("file_{i}"), 10));
            async move { store(&db, account, file, 72).await }
        });
        let stored = stored.await;
        assert_eq!(stored.iter().filter(|done| matches!(done, Once::Stored)).count(), 7);
        let over = OverQuota { held: 70, max: 72 };
        let is_over = |done: &&Once<_>| matches!(done, Once::Refused(Unregistered::OverQuota(by)) if *by == over);
        assert_eq!(stored.iter().filter(is_over).count(), 13);
    });
}

#[test]
fn a_name_is_one_file_s_whoever_registers_it_at_once() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        let stored = at_once(8, |i| {
            let file = FileRow { name: "1l2y".to_owned(), ..file(&format!("file_{i}"), 1) };
            let db = db.clone();
            async move { store(&db, account, file, 0).await }
        });
        let stored = stored.await;
        assert_eq!(stored.iter().filter(|done| matches!(done, Once::Stored)).count(), 1);
        let taken = |done: &&Once<_>| matches!(done, Once::Refused(Unregistered::NameTaken));
        assert_eq!(stored.iter().filter(taken).count(), 7);
        assert_eq!(db.files(account, &Filter::default(), 9).await.unwrap().len(), 1);
    });
}

#[test]
fn a_repeated_request_is_answered_as_the_first_and_writes_nothing() {
    on_each_database(|db| async move {
        let (own, other) = (account(&db, "own").await, account(&db, "other").await);
        let submit = |task: NewTask, request: IdempotentWrite| {
            let (db, answer) = (db.clone(), answer(&task.id));
            async move {
                db.create_task(task, Reads::default(), UNLIMITED, request, answer).await.unwrap()
            }
        };
        let job = |id: &str| queued(own, Kind::Job, id);
        let first = request(own, "key");
        assert!(db.answered(&first).await.unwrap().is_none());
        assert!(matches!(submit(job("job_1"), first.clone()).await, Once::Stored));
        let again =
            submit(job("job_2"), IdempotentWrite { now: at(0) + DAY, ..first.clone() }).await;
        assert!(matches!(again, Once::Replayed(found) if found == answer("job_1")));
        let before = db.answered(&first).await.unwrap();
        assert!(matches!(before, Some(Before::Replayed(found)) if found == answer("job_1")));
        for another in [
            IdempotentWrite { fingerprint: [8; 32], ..first.clone() },
            IdempotentWrite { operation: "job_extend", ..first.clone() },
        ] {
            assert!(matches!(submit(job("job_2"), another.clone()).await, Once::KeyReused));
            assert!(matches!(db.answered(&another).await.unwrap(), Some(Before::KeyReused)));
        }
        assert_eq!(db.task(own, Kind::Job, "job_2").await.unwrap(), None);
        // A key is its account's, and it is kept for a day.
        let theirs = submit(queued(other, Kind::Job, "job_3"), request(other, "key")).await;
        assert!(matches!(theirs, Once::Stored));
        let later = IdempotentWrite { now: at(1) + DAY, ..first };
        assert!(db.answered(&later).await.unwrap().is_none());
        assert!(matches!(submit(job("job_4"), later).await, Once::Stored));
    });
}

#[test]
fn a_request_that_is_refused_leaves_its_key_free() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        let job =
            NewTask { parent: Some("box_0".to_owned()), ..queued(account, Kind::Job, "job_1") };
        let submit = || {
            db.create_task(
                job.clone(),
                Reads::default(),
                UNLIMITED,
                request(account, "key"),
                answer(""),
            )
        };
        let refused = submit().await.unwrap();
        assert!(matches!(refused, Once::Refused(Unqueued::Deleted(id)) if id == "box_0"));
        queue_all(&db, account, Kind::System, &numbered("box", 1)).await;
        assert!(matches!(submit().await.unwrap(), Once::Stored));
    });
}

#[test]
fn of_requests_with_one_key_at_once_one_is_done() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        let done = at_once(8, |i| {
            let (db, id) = (db.clone(), format!("job_{i}"));
            let (task, request) = (queued(account, Kind::Job, &id), request(account, "key"));
            async move {
                let reads = Reads::default();
                db.create_task(task, reads, UNLIMITED, request, answer(&id)).await.unwrap()
            }
        });
        let done = done.await;
        assert_eq!(done.iter().filter(|done| matches!(done, Once::Stored)).count(), 1);
        let tasks = db.tasks(account, Kind::Job, &Filter::default(), 9).await.unwrap();
        let [task] = tasks.as_slice() else { panic!("{tasks:?}") };
        let same = answer(&task.id);
        let again = |done: &&Once<_>| matches!(done, Once::Replayed(found) if *found == same);
        assert_eq!(done.iter().filter(again).count(), 7);
    });
}

/// Writes prefixes of garbage while another write has the account for itself: all of them
/// together, but those that are dropped before; what became of the others.
async fn write_together(
    db: &Arc<Db>,
    account: i64,
    n: usize,
    is_dropped: impl Fn(usize) -> bool,
    write: impl Fn(&Tx<'_>, usize) -> Result<(), Error> + Clone + Send + 'static,
) -> Vec<(usize, Result<(), Error>)> {
    let scope = Scope::Account(account);
    let (inside, is_inside) = oneshot::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (server, first) = (db.clone(), write.clone());
    let holding = tokio::spawn(async move {
        let hold = move |tx: &Tx<'_>| {
            inside.send(()).unwrap();
            goes_on.recv().unwrap();
            first(tx, 0)
        };
        server.write(scope, hold).await
    });
    is_inside.await.unwrap();
    let mut waiting: Vec<_> = (1..n)
        .map(|i| {
            let write = write.clone();
            (i, Box::pin(db.write(scope, move |tx| write(tx, i))))
        })
        .collect();
    for (_, waits) in &mut waiting {
        assert!(futures::poll!(waits).is_pending());
    }
    waiting.retain(|(i, _)| !is_dropped(*i));
    go_on.send(()).unwrap();
    let mut done = vec![(0, holding.await.unwrap())];
    let (numbers, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
    done.extend(numbers.into_iter().zip(join_all(waiting).await));
    done
}

const GARBAGE: &str = "insert into garbage (prefix) values (?1)";

fn prefix(i: usize) -> String {
    format!("files/{i:02}")
}

async fn prefixes(db: &Db) -> Vec<String> {
    let mut prefixes = db.garbage(at(1), true).await.unwrap();
    prefixes.sort();
    prefixes
}

#[test]
fn of_writes_that_are_committed_together_an_error_undoes_one_and_none_is_done_for_nobody() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        let write = |tx: &Tx<'_>, i: usize| {
            tx.execute(GARBAGE, values![prefix(i)])?;
            match i % 4 {
                1 => Err(Error::other("changed its mind")),
                // Refused by the database itself, at once or by the time of its end.
                2 => tx.execute(GARBAGE, values![prefix(i)]).map(drop),
                3 => tx.execute_later(GARBAGE, values![prefix(i)]),
                _ => Ok(()),
            }
        };
        let commits = || {
            db.read(|tx| tx.one("select count(*) from commit_mark", &[], |row| row.get::<i64>(0)))
        };
        let before = if db.is_shared() { commits().await.unwrap() } else { 0 };
        for (i, done) in write_together(&db, account, 21, |i| i == 8, write).await {
            assert_eq!(done.is_ok(), i % 4 == 0, "{i}: {done:?}");
        }
        assert_eq!(prefixes(&db).await, [0, 4, 12, 16, 20].map(prefix));
        if db.is_shared() {
            assert_eq!(
                commits().await.unwrap() - before,
                2,
                "that of the first, and one for the others"
            );
        }
    });
}

#[test]
fn writes_whose_connection_breaks_before_they_are_committed_are_none_and_are_told_so() {
    on_each_shared_database(|db| async move {
        let account = account(&db, "a").await;
        let write = |tx: &Tx<'_>, i: usize| {
            tx.execute(GARBAGE, values![prefix(i)])?;
            match i {
                3 => tx.execute("select pg_terminate_backend(pg_backend_pid())", &[]).map(drop),
                _ => Ok(()),
            }
        };
        for (i, done) in write_together(&db, account, 6, |_| false, write).await {
            let is_known = matches!((i, &done), (0, Ok(())) | (1.., Err(Error::Unreachable(_))));
            assert!(is_known, "{i}: {done:?}");
        }
        assert_eq!(prefixes(&db).await, [prefix(0)]);
        // What comes next has another connection.
        queue_all(&db, account, Kind::Job, &numbered("job", 1)).await;
    });
}

#[test]
fn a_write_that_fails_leaves_nothing_and_takes_no_other_with_it() {
    on_each_database(|db| async move {
        let done = at_once(20, |i| {
            let db = db.clone();
            async move {
                db.write(Scope::Rows, move |tx| {
                    tx.execute(GARBAGE, values![prefix(i)])?;
                    if i % 2 == 1 {
                        return Err(Error::other("changed its mind"));
                    }
                    // Refused by the database itself.
                    if i % 4 == 2 {
                        tx.execute(GARBAGE, values![prefix(i)])?;
                    }
                    Ok(())
                })
                .await
            }
        });
        for (i, done) in done.await.into_iter().enumerate() {
            assert_eq!(done.is_ok(), i % 4 == 0, "{i}: {done:?}");
        }
        assert_eq!(prefixes(&db).await, [0, 4, 8, 12, 16].map(prefix));
    });
}

#[test]
fn pages_have_every_item_once_while_others_come_and_go() {
    on_each_database(|db| async move {
        let lease = lease(&db, "one").await;
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 20)).await;
        let (mut filter, mut seen, mut page) = (Filter::default(), Vec::new(), 0);
        loop {
            let rows = db.tasks(account, Kind::Job, &filter, 3).await.unwrap();
            let Some(last) = rows.last() else { break };
            filter.before = Some(last.seq);
            let gone = rows[0].id.clone();
            seen.extend(rows.into_iter().map(|row| row.id));
            // New ones come first, and what was seen may be gone when the next page is asked for.
            queue_all(&db, account, Kind::Job, &[format!("new_{page}")]).await;
            db.end_task(lease.clone(), account, gone.clone(), ended(Status::Failed), at(1))
                .await
                .unwrap();
            let deed = Deed::default();
            let deleted = db.delete_task(account, Kind::Job, gone, String::new(), deed).await;
            assert_eq!(deleted.unwrap(), Deletion::Done);
            page += 1;
        }
        let mut expected = numbered("job", 20);
        expected.reverse();
        assert_eq!(seen, expected);
    });
}

#[test]
fn a_listing_has_what_was_asked_for() {
    on_each_database(|db| async move {
        let lease = lease(&db, "one").await;
        let account = account(&db, "a").await;
        for (id, name) in [("job_0", "x"), ("job_1", "y"), ("job_2", "x"), ("job_3", "x")] {
            let task = NewTask { name: Some(name.to_owned()), ..queued(account, Kind::Job, id) };
            queue(&db, task, Reads::default()).await;
        }
        for id in ["job_1", "job_2"] {
            assert!(begin(&db, &lease, account, id, at(1)).await);
        }
        let listed = |status: Option<types::Status>, name: Option<&str>| {
            let filter = Filter { before: None, status, name: name.map(str::to_owned) };
            let db = db.clone();
            async move {
                let rows = db.tasks(account, Kind::Job, &filter, 9).await.unwrap();
                rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
            }
        };
        let running = Some(types::Status::Running);
        assert_eq!(listed(None, None).await, ["job_3", "job_2", "job_1", "job_0"]);
        assert_eq!(listed(None, Some("x")).await, ["job_3", "job_2", "job_0"]);
        assert_eq!(listed(running, None).await, ["job_2", "job_1"]);
        assert_eq!(listed(running, Some("x")).await, ["job_2"]);
        assert!(listed(None, Some("X")).await.is_empty());
        let counts = db.task_counts().await.unwrap();
        let counted = |status| (Kind::Job, status, 2);
        assert!(counts.contains(&counted(Status::Running)), "{counts:?}");
        assert!(counts.contains(&counted(Status::Queued)), "{counts:?}");
    });
}

#[test]
fn a_task_that_is_deleted_is_none_whoever_knew_it() {
    on_each_database(|db| async move {
        let lease = lease(&db, "one").await;
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 1)).await;
        assert_eq!(db.bundle("job_0").await.unwrap(), Some(None));
        let end = End { bundle: Some("{}".to_owned()), ..ended(Status::Succeeded) };
        db.end_task(lease.clone(), account, "job_0".to_owned(), end, at(1)).await.unwrap();
        assert_eq!(db.bundle("job_0").await.unwrap(), Some(Some("{}".to_owned())));
        let id = || "job_0".to_owned();
        let deleted = db.delete_task(account, Kind::Job, id(), id(), Deed::default()).await;
        assert_eq!(deleted.unwrap(), Deletion::Done);
        // As for a download that had found it.
        assert_eq!(db.bundle("job_0").await.unwrap(), None);
    });
}

#[test]
fn what_others_need_is_not_deleted_before_them() {
    on_each_database(|db| async move {
        let lease = lease(&db, "one").await;
        let account = account(&db, "a").await;
        store(&db, account, file("file_1", 1), 0).await;
        let reads = Reads { files: vec!["file_1".to_owned()], reference: None };
        queue(&db, queued(account, Kind::System, "box_1"), reads).await;
        let job =
            NewTask { parent: Some("box_1".to_owned()), ..queued(account, Kind::Job, "job_1") };
        let delete_file = || db.delete_file(account, "file_1".to_owned(), Deed::default());
        let delete = |kind, id: &str| {
            let garbage = format!("tasks/{id}");
            db.delete_task(account, kind, id.to_owned(), garbage, Deed::default())
        };
        let needed_by = |id: &str| Deletion::NeededBy(id.to_owned());

        assert_eq!(delete_file().await.unwrap(), (needed_by("box_1"), None));
        let box_1 = delete(Kind::System, "box_1").await.unwrap();
        assert_eq!(box_1, Deletion::InState(Status::Queued));
        db.end_task(lease.clone(), account, "box_1".to_owned(), ended(Status::Succeeded), at(1))
            .await
            .unwrap();
        let object = Some("files/file_1".to_owned());
        assert_eq!(delete_file().await.unwrap(), (Deletion::Done, object));

        queue(&db, job, Reads::default()).await;
        for _ in 0..2 {
            // A job has its system for good.
            assert_eq!(delete(Kind::System, "box_1").await.unwrap(), needed_by("job_1"));
            db.end_task(
                lease.clone(),
                account,
                "job_1".to_owned(),
                ended(Status::Succeeded),
                at(1),
            )
            .await
            .unwrap();
        }
        assert_eq!(delete(Kind::Job, "job_1").await.unwrap(), Deletion::Done);
        assert_eq!(delete(Kind::System, "box_1").await.unwrap(), Deletion::Done);
        assert_eq!(delete(Kind::System, "box_1").await.unwrap(), Deletion::NotFound);
        let garbage: BTreeSet<String> =
            db.garbage(at(1), true).await.unwrap().into_iter().collect();
        let expected = ["files/file_1", "tasks/box_1", "tasks/job_1"].map(str::to_owned);
        assert_eq!(garbage, BTreeSet::from(expected));
    });
}

#[test]
fn a_file_is_either_deleted_or_read_when_both_are_asked_at_once() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        for i in 0..10 {
            let id = format!("file_{i}");
            store(&db, account, file(&id, 1), 0).await;
            let reads = Reads { files: vec![id.clone()], reference: None };
            let task = queued(account, Kind::System, &format!("box_{i}"));
            let (queuing, deleting) = (db.clone(), db.clone());
            let queuing = tokio::spawn(async move { queue(&queuing, task, reads).await });
            let deleting = tokio::spawn(async move {
                deleting.delete_file(account, id, Deed::default()).await.unwrap().0
            });
            match (queuing.await.unwrap(), deleting.await.unwrap()) {
                (Once::Stored, Deletion::NeededBy(id)) => assert_eq!(id, format!("box_{i}")),
                (Once::Refused(Unqueued::Deleted(id)), Deletion::Done) => {
                    assert_eq!(id, format!("file_{i}"));
                }
                both => panic!("{both:?}"),
            }
        }
    });
}

#[test]
fn a_state_changes_from_the_one_that_it_is_in() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 2)).await;
        let id = || "job_0".to_owned();
        let lease = lease(&db, "one").await;
        let requeue = || db.requeue_task(lease.clone(), account, id(), Requeue::Fruitless, at(2));
        let start = async |now| begin(&db, &lease, account, "job_0", at(now)).await;
        assert!(!requeue().await.unwrap());
        assert!(start(1).await);
        assert!(!start(2).await);
        assert!(requeue().await.unwrap());
        assert!(start(3).await);
        let task = db.task(account, Kind::Job, "job_0").await.unwrap().unwrap();
        assert_eq!((task.attempts, task.fruitless, task.started_at), (2, 1, Some(at(1))));
        // One that has begun is marked, one that has not ends.
        let cancel = |id: &str| db.cancel_task(account, Kind::Job, id.to_owned(), Deed::default());
        let task = cancel("job_0").await.unwrap().unwrap();
        assert_eq!((task.status, task.is_cancelled), (Status::Running, true));
        assert_eq!(cancel("job_1").await.unwrap().unwrap().status, Status::Cancelled);
        let ended_by = at_once(8, |i| {
            let (db, id, lease) = (db.clone(), id(), lease.clone());
            let end = ended(Status::Failed);
            async move { db.end_task(lease, account, id, end, at(i as i64)).await.unwrap() }
        });
        assert_eq!(ended_by.await.into_iter().filter(|ended| *ended).count(), 1);
        assert!(!start(9).await);
    });
}

#[test]
fn a_task_that_was_claimed_and_not_begun_is_put_back_as_it_was() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 2)).await;
        let lease = lease(&db, "one").await;
        assert!(begin(&db, &lease, account, "job_0", at(1)).await);
        let (claimed, _) = claim(&db, &lease, Lane::Workers, at(2)).await.unwrap();
        assert_eq!((claimed.id.as_str(), claimed.attempts, claimed.started_at), ("job_1", 0, None));
        db.put_back_unbegun(lease.clone(), at(3)).await.unwrap();
        let running = db.running_tasks(&lease).await.unwrap();
        assert_eq!(running.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["job_0"]);
        let back = db.task(account, Kind::Job, "job_1").await.unwrap().unwrap();
        assert_eq!((back.status, back.attempts, back.started_at), (Status::Queued, 0, None));
        assert_eq!(back.fruitless, 0);
    });
}

/// What `turn` says of accounts, and what it has to say by their tasks.
async fn turns(db: &Db) -> [Vec<[i64; 4]>; 2] {
    let kept = "
        select lane, account, coalesce(oldest, -1), running from turn order by lane, account";
    let counted = "
        select lane, account, coalesce(min(case when status = 'queued' then seq end), -1),
            cast(sum(case when status = 'running' then 1 else 0 end) as bigint)
        from task group by lane, account order by lane, account";
    let mut said = Vec::new();
    for sql in [kept, counted] {
        let row =
            |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get::<i64>(2)?, row.get::<i64>(3)?]);
        said.push(db.read(|tx| tx.all(sql, &[], row)).await.unwrap());
    }
    said.try_into().unwrap()
}

#[test]
fn whose_turn_it_is_follows_from_what_is_queued_runs_and_ran() {
    on_each_database(|db| async move {
        let [a, b] = [account(&db, "a").await, account(&db, "b").await];
        let one = lease(&db, "one").await;
        let agree = async |when: &str| {
            let [kept, counted] = turns(&db).await;
            assert_eq!(kept, counted, "{when}");
        };
        queue_all(&db, a, Kind::Job, &numbered("a", 3)).await;
        queue_all(&db, a, Kind::Analysis, &numbered("ana", 1)).await;
        queue_all(&db, b, Kind::Job, &numbered("b", 3)).await;
        agree("queued").await;
        let mut running = Vec::new();
        for second in 1..=3 {
            let (task, _) = claim(&db, &one, Lane::Workers, at(second * 1_000_000)).await.unwrap();
            agree("claimed").await;
            running.push(task);
        }
        let ids: Vec<_> = running.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["a_0", "b_0", "a_1"]);
        // The older one of an account that is put back is its next.
        let behind = Requeue::Progressed;
        assert!(db.requeue_task(one.clone(), a, ids[0].into(), behind, at(9)).await.unwrap());
        agree("put back").await;
        let end = ended(Status::Succeeded);
        assert!(db.end_task(one.clone(), a, ids[2].into(), end, at(9)).await.unwrap());
        agree("ended").await;
        db.cancel_task(b, Kind::Job, "b_1".into(), Deed::default()).await.unwrap();
        agree("cancelled").await;
        let failed = ended(Status::Failed);
        let later = at(3_600_000_000);
        assert!(db.end_task(one.clone(), b, ids[1].into(), failed, later).await.unwrap());
        let retry = request(b, "retry");
        let retried = db.retry_task("b_0".into(), 0, UNLIMITED, retry, answer("")).await.unwrap();
        assert!(matches!(retried, Once::Stored), "{retried:?}");
        agree("queued again").await;
        db.delete_task(a, Kind::Job, "a_1".into(), String::new(), Deed::default()).await.unwrap();
        agree("deleted").await;
        // Of an hour's service and of seconds', the latter's turn comes first, by rank or without.
        for sql in ["update served set at = at", "update served set ms = ms + 1, rank = account"] {
            db.write(Scope::Rows, move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
            let unknown = "select count(*) from turn where rank is null";
            let unknown: i64 = db.read(|tx| tx.one(unknown, &[], |row| row.get(0))).await.unwrap();
            assert_eq!(unknown, if sql.contains("rank") { 0 } else { 2 }, "{sql}");
            let (next, _) = claim(&db, &one, Lane::Workers, later).await.unwrap();
            assert_eq!(next.id, "a_0", "{sql}");
            let behind = Requeue::NotBegun;
            assert!(db.requeue_task(one.clone(), a, next.id, behind, later).await.unwrap());
        }
    });
}

#[test]
fn of_what_an_account_has_waiting_the_highest_priority_is_next_and_nobody_else_s() {
    on_each_database(|db| async move {
        let [a, b] = [account(&db, "a").await, account(&db, "b").await];
        for (account, id, priority) in [
            (a, "a_low", 10),
            (b, "b", 50),
            (a, "a_usual", 50),
            (a, "a_high", 90),
            (a, "a_late", 90),
        ] {
            let task = NewTask { priority, ..queued(account, Kind::Job, id) };
            assert!(matches!(queue(&db, task, Reads::default()).await, Once::Stored));
        }
        let one = lease(&db, "one").await;
        let mut order = Vec::new();
        for second in 1..=5 {
            let (task, _) = claim(&db, &one, Lane::Workers, at(second)).await.unwrap();
            order.push(task.id);
        }
        // Turns are those of tasks without priorities: a's oldest was first.
        assert_eq!(order, ["a_high", "b", "a_late", "a_usual", "a_low"]);
    });
}

/// A task that had a slot from one moment to another.
async fn run_for(db: &Db, account: i64, id: &str, from: Timestamp, to: Timestamp) {
    queue_all(db, account, Kind::Job, &[id.to_owned()]).await;
    let one = lease(db, "one").await;
    assert!(begin(db, &one, account, id, from).await);
    assert!(db.end_task(one, account, id.into(), ended(Status::Failed), to).await.unwrap());
}

#[test]
fn hours_are_counted_by_the_days_in_which_they_were_served_and_limit_what_is_queued() {
    on_each_database(|db| async move {
        let [a, b] = [account(&db, "a").await, account(&db, "b").await];
        let hour = SignedDuration::from_hours(1);
        let start = at(0) + 100 * DAY;
        // Three hours on one day, and five on the next.
        run_for(&db, a, "job_0", start + DAY - 3 * hour, start + DAY + 5 * hour).await;
        let hours = async |account, now, days| {
            db.slot_ms(account, Period { now, days }).await.unwrap() as f64 / 3.6e6
        };
        let noon = start + DAY + 12 * hour;
        assert_eq!((hours(a, noon, 1).await, hours(a, noon, 2).await), (5.0, 8.0));
        assert_eq!((hours(a, noon + DAY, 2).await, hours(a, noon + 2 * DAY, 2).await), (5.0, 0.0));
        assert_eq!(hours(b, noon, 2).await, 0.0);
        assert_eq!(
            hours(a, noon - DAY, 9).await,
            3.0,
            "not what a clock that was ahead has counted"
        );
        // What runs counts from the beginning of the days that are counted.
        queue_all(&db, a, Kind::Job, &["job_1".to_owned()]).await;
        let one = lease(&db, "one").await;
        assert!(begin(&db, &one, a, "job_1", noon).await);
        assert_eq!(hours(a, noon + hour, 2).await, 9.0);
        assert_eq!(hours(a, noon + 2 * DAY, 2).await, 24.0 + 12.0);
        let all = db.all_slot_ms(Period { now: noon + hour, days: 2 }).await.unwrap();
        assert_eq!(all, BTreeMap::from([(a, 9 * 3_600_000)]));

        let allowance = Allowance { hours: 9, hours_days: 2, ..UNLIMITED };
        let queue_at = async |id: &str, now| {
            let request = IdempotentWrite { now, ..request(a, "") };
            let task = queued(a, Kind::Job, id);
            db.create_task(task, Reads::default(), allowance, request, answer("")).await.unwrap()
        };
        let early = queue_at("job_2", noon + hour - SignedDuration::from_secs(1)).await;
        assert!(matches!(early, Once::Stored), "{early:?}");
        let Once::Refused(Unqueued::OverHours(over)) = queue_at("job_3", noon + hour).await else {
            panic!("it has had its nine hours");
        };
        // The three of the first day are not counted from midnight on.
        let until = start + 2 * DAY;
        assert_eq!(over, OverHours { ms: 9 * 3_600_000, most_hours: 9, days: 2, until });
        let end = ended(Status::Failed);
        assert!(db.end_task(one, a, "job_1".into(), end, noon + hour).await.unwrap());
        assert!(matches!(queue_at("job_3", until - hour).await, Once::Refused(_)));
        assert!(matches!(queue_at("job_3", until).await, Once::Stored));

        let limits = types::AccountLimits { bytes: None, hours: Some(20), open_tasks: None };
        let change = types::AccountChange { disabled: None, limits: Some(limits), role: None };
        let changed = db.change_account("a".into(), change, Deed::default()).await.unwrap();
        assert_eq!(changed.unwrap().used.most_hours, Some(20));
        assert!(matches!(queue_at("job_4", noon + hour).await, Once::Stored));
    });
}

#[test]
fn reports_to_one_account_keep_no_other_s_waiting() {
    on_each_database(|db| async move {
        let (from, to) = (at(1_000_000), at(2_000_000));
        for (name, n_tasks) in [("silent", 5), ("ada", 1)] {
            let account = account(&db, name).await;
            let hook = Some((format!("https://{name}.example/hook"), "secret".to_owned()));
            assert!(db.set_webhook(name.into(), hook, Deed::default()).await.unwrap());
            for id in numbered(name, n_tasks) {
                run_for(&db, account, &id, from, to).await;
            }
        }
        let due = db.due_deliveries(to, 4, 3).await.unwrap();
        let accounts: Vec<&str> = due.iter().map(|delivery| delivery.account.as_str()).collect();
        // The first of each account comes before the second of any.
        assert!(accounts[..2].contains(&"ada"), "{accounts:?}");
        assert_eq!(accounts.iter().filter(|name| **name == "silent").count(), 3, "{accounts:?}");
        assert!(accounts.contains(&"ada"), "{accounts:?}");
    });
}

#[test]
fn nothing_is_deleted_that_was_not_announced_and_what_is_used_again_stays() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        let end = at(0) + 100 * DAY;
        let retention = Retention { kept: 30 * DAY, warned: 7 * DAY };
        let one = lease(&db, "one").await;
        for (id, kind, parent) in
            [("box_1", Kind::System, None), ("job_1", Kind::Job, Some("box_1".to_owned()))]
        {
            let task = NewTask { parent, ..queued(account, kind, id) };
            assert!(matches!(queue(&db, task, Reads::default()).await, Once::Stored));
            assert!(begin(&db, &one, account, id, end).await);
            let done = ended(Status::Succeeded);
            assert!(db.end_task(one.clone(), account, id.into(), done, end).await.unwrap());
        }
        let expiry =
            async |kind, id| db.task(account, kind, id).await.unwrap().map(|task| task.expires_at);
        let announce = async |now| db.announce_expiry(retention, now, 9).await.unwrap();
        let delete = async |id: &str, at| {
            let deed = Deed { at, ..Deed::default() };
            db.delete_expired(id.into(), account, format!("tasks/{id}"), deed).await.unwrap()
        };
        let second = SignedDuration::from_secs(1);
        assert_eq!(announce(end + 23 * DAY - second).await, 0);
        assert!(!delete("job_1", end + 1000 * DAY).await, "it was never announced");
        // The system is its job's.
        assert_eq!(announce(end + 23 * DAY).await, 1);
        assert_eq!(expiry(Kind::Job, "job_1").await, Some(Some(end + 30 * DAY)));
        assert_eq!(expiry(Kind::System, "box_1").await, Some(None));
        let listed = db.open_and_ended(account, end + 23 * DAY).await.unwrap();
        assert_eq!(listed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["job_1"]);
        assert_eq!(db.expired(end + 30 * DAY - second, 9).await.unwrap(), []);
        assert!(!delete("job_1", end + 30 * DAY - second).await);

        // Kept for longer it is put off, for ever it is taken back, and announced anew it has its days.
        let longer = Retention { kept: 40 * DAY, ..retention };
        db.put_off_expiry(Some(longer)).await.unwrap();
        assert_eq!(expiry(Kind::Job, "job_1").await, Some(Some(end + 40 * DAY)));
        db.put_off_expiry(None).await.unwrap();
        assert_eq!(expiry(Kind::Job, "job_1").await, Some(None));
        assert_eq!(announce(end + 50 * DAY).await, 1);
        assert_eq!(expiry(Kind::Job, "job_1").await, Some(Some(end + 57 * DAY)));

        // One that is extended is no result any more; cancelled, it is one again.
        let extended = Extended { parameters: "{}".into(), warnings: "[]".into(), bytes: 0 };
        let write = request(account, "");
        let done = db.extend_task("job_1".into(), extended, UNLIMITED, write, answer("")).await;
        assert!(matches!(done.unwrap(), Once::Stored));
        assert_eq!(expiry(Kind::Job, "job_1").await, Some(None));
        assert!(!delete("job_1", end + 1000 * DAY).await);
        let failed = ended(Status::Failed);
        db.end_task(one, account, "job_1".into(), failed, end + 51 * DAY).await.unwrap();
        assert_eq!(announce(end + 60 * DAY).await, 0);
        assert_eq!(announce(end + 74 * DAY).await, 1);

        // An analysis that reads it puts it off, and while it is open keeps it.
        let parent = Some("job_1".to_owned());
        let analysis = NewTask { parent, ..queued(account, Kind::Analysis, "ana_1") };
        assert!(matches!(queue(&db, analysis, Reads::default()).await, Once::Stored));
        assert_eq!(expiry(Kind::Job, "job_1").await, Some(None));
        assert_eq!(announce(end + 75 * DAY).await, 1);
        let due = end + 82 * DAY;
        assert_eq!(db.expired(due, 9).await.unwrap().len(), 1);
        assert!(!delete("job_1", due).await, "it is read");
        let cancelled = Deed { at: end + 75 * DAY, ..Deed::default() };
        db.cancel_task(account, Kind::Analysis, "ana_1".into(), cancelled).await.unwrap();
        assert!(delete("job_1", due).await);
        assert_eq!(expiry(Kind::Job, "job_1").await, None);
        assert!(db.garbage(due, true).await.unwrap().contains(&"tasks/job_1".to_owned()));
        // Now nobody has the system any more.
        assert_eq!(announce(due).await, 1);
        assert_eq!(expiry(Kind::System, "box_1").await, Some(Some(due + 7 * DAY)));
    });
}

#[test]
fn a_cancelled_task_that_waits_is_ended_by_one_runner() {
    on_each_database(|db| async move {
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 1)).await;
        let (one, other) = (lease(&db, "one").await, lease(&db, "other").await);
        let id = || "job_0".to_owned();
        assert!(begin(&db, &one, account, "job_0", at(1)).await);
        let behind = Requeue::Progressed;
        assert!(db.requeue_task(one.clone(), account, id(), behind, at(2)).await.unwrap());
        let of = |lease: &Lease| db.claim_cancelled(lease.clone(), account, id());
        assert!(!of(&one).await.unwrap(), "it is not cancelled");
        db.cancel_task(account, Kind::Job, id(), Deed::default()).await.unwrap();
        assert!(of(&one).await.unwrap());
        assert!(of(&one).await.unwrap(), "also once more, if it was cut off");
        if db.is_shared() {
            assert!(!of(&other).await.unwrap());
        }
        assert!(claim(&db, &other, Lane::Workers, at(3)).await.is_none());
        assert_eq!(db.oldest_queued(Lane::Workers).await.unwrap(), None);
        // However long that takes, it keeps none of the others waiting.
        let behind = account_with_jobs(&db, "b", &["job_b"]).await;
        queue_all(&db, account, Kind::Job, &["job_1".to_owned()]).await;
        let mut claimed = Vec::new();
        while let Some((task, _)) = claim(&db, &other, Lane::Workers, at(3)).await {
            claimed.push((task.account, task.id));
        }
        claimed.sort();
        assert_eq!(claimed, [(account, "job_1".to_owned()), (behind, "job_b".to_owned())]);
        let end = ended(Status::Cancelled);
        assert!(db.end_task(one.clone(), account, id(), end, at(4)).await.unwrap());
        assert!(!of(&one).await.unwrap());
    });
}

/// Makes an account with queued jobs; its number.
async fn account_with_jobs(db: &Db, name: &str, ids: &[&str]) -> i64 {
    let account = account(db, name).await;
    let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
    queue_all(db, account, Kind::Job, &ids).await;
    account
}

#[test]
fn a_task_waits_since_it_was_queued_last() {
    on_each_database(|db| async move {
        let account = account_with_jobs(&db, "a", &["job_0"]).await;
        let lease = lease(&db, "one").await;
        let waits_since = async || db.oldest_queued(Lane::Workers).await.unwrap();
        let id = || "job_0".to_owned();
        assert_eq!(waits_since().await, Some(at(0)));
        for (behind, queued_at) in [(Requeue::NotBegun, at(0)), (Requeue::Interrupted, at(20))] {
            assert!(begin(&db, &lease, account, "job_0", at(10)).await);
            assert_eq!(waits_since().await, None);
            assert!(db.requeue_task(lease.clone(), account, id(), behind, at(20)).await.unwrap());
            assert_eq!(waits_since().await, Some(queued_at), "{behind:?}");
        }
        assert!(begin(&db, &lease, account, "job_0", at(30)).await);
        let end = ended(Status::Succeeded);
        assert!(db.end_task(lease, account, id(), end, at(40)).await.unwrap());
        let before = db.task(account, Kind::Job, "job_0").await.unwrap().unwrap();
        let extended = Extended { parameters: "{}".into(), warnings: "[]".into(), bytes: 0 };
        let write = IdempotentWrite { now: at(50), ..request(account, "") };
        let done = db.extend_task(id(), extended, UNLIMITED, write, answer("")).await;
        assert!(matches!(done.unwrap(), Once::Stored));
        assert_eq!(waits_since().await, Some(at(50)));
        let after = db.task(account, Kind::Job, "job_0").await.unwrap().unwrap();
        assert_eq!(after.attempts, before.attempts, "each attempt has a number of its own");
    });
}

/// What only databases promise that several servers work on.
fn on_each_shared_database<F: Future<Output = ()>>(promise: impl Fn(Arc<Db>) -> F) {
    if let Some(server) = postgres::shared() {
        with_database(server.database(), promise);
    }
}

/// Has the lease of a name run out.
async fn run_out(db: &Db, name: &'static str) {
    let long_ago = -(LEASE.as_micros() as i64) - 3_600_000_000;
    let done = db.write(Scope::Rows, move |tx| {
        let sql = "update runner set expires_at = expires_at + ?2 where name = ?1";
        tx.execute(sql, values![name, long_ago])
    });
    assert_eq!(done.await.unwrap(), 1);
}

#[test]
fn one_server_at_a_time_has_the_right_to_run_tasks() {
    on_each_shared_database(|db| async move {
        let take = |server: &str| db.take_lease("slurm".to_owned(), server.to_owned(), at(0));
        let first = take("a").await.unwrap().unwrap();
        assert_eq!(take("b").await.unwrap(), None);
        assert!(db.renew_lease(first.clone(), at(0)).await.unwrap());
        // Who ends gives it back; who is killed is waited for.
        db.give_back_lease(first.clone(), at(0)).await.unwrap();
        let second = take("b").await.unwrap().unwrap();
        assert!(!db.renew_lease(first, at(0)).await.unwrap());
        assert_eq!(take("a").await.unwrap(), None);
        run_out(&db, "slurm").await;
        let third = take("a").await.unwrap().unwrap();
        assert!(!db.renew_lease(second, at(0)).await.unwrap());
        // Another process of this name waits too, until it is known that this one is gone.
        assert_eq!(take("a").await.unwrap(), None);
        let (id, process) = ("a".to_owned(), "anew".to_owned());
        assert_eq!(db.be_server(id, process, None, at(0)).await.unwrap(), None);
        assert_ne!(take("a").await.unwrap().unwrap(), third);
        let of_those_at_once = at_once(8, |i| {
            let db = db.clone();
            async move { db.take_lease("other".to_owned(), format!("server {i}"), at(0)).await.unwrap() }
        });
        assert_eq!(of_those_at_once.await.into_iter().flatten().count(), 1);
    });
}

#[test]
fn a_server_is_one_process() {
    on_each_shared_database(|db| async move {
        let be =
            |process: &str, gone| db.be_server("a".to_owned(), process.to_owned(), gone, at(0));
        let show = |process: &str| {
            let server = Server { id: "a".to_owned(), version: "1".to_owned(), market: None };
            db.be_seen(server, process.to_owned(), at(0))
        };
        assert_eq!(be("first", None).await.unwrap(), None);
        assert_eq!(be("first", None).await.unwrap(), None);
        let held = be("second", None).await.unwrap().unwrap();
        assert_eq!(held.process.as_deref(), Some("first"));
        assert!(show("first").await.unwrap());
        let shown = be("second", Some(held.clone())).await.unwrap().unwrap();
        assert_ne!(shown, held, "it is not gone");
        assert_eq!(be("second", Some(shown)).await.unwrap(), None);
        assert!(!show("first").await.unwrap(), "another is it by now");
        db.be_gone("a".to_owned()).await.unwrap();
        assert_eq!(be("third", None).await.unwrap(), None);
    });
}

#[test]
fn who_has_lost_the_right_to_run_tasks_writes_nothing_of_them() {
    on_each_shared_database(|db| async move {
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 2)).await;
        let late = lease(&db, "late").await;
        let (task, _) = claim(&db, &late, Lane::Workers, at(1)).await.unwrap();
        run_out(&db, "host-late").await;
        let name = "host-late".to_owned();
        let now = db.take_lease(name, "other".to_owned(), at(0)).await.unwrap().unwrap();
        let is_refused = |done: Result<bool, Error>| matches!(done, Err(Error::Superseded(_)));
        let id = || task.id.clone();
        let end = ended(Status::Failed);
        assert!(is_refused(db.end_task(late.clone(), account, id(), end.clone(), at(2)).await));
        let behind = Requeue::Fruitless;
        assert!(is_refused(db.requeue_task(late.clone(), account, id(), behind, at(2)).await));
        let claimed = db.claim(late.clone(), Lane::Workers, 9, at(2)).await.map(|it| it.is_some());
        assert!(is_refused(claimed));
        let said = vec![(id(), "{}".to_owned())];
        assert!(is_refused(db.report_progress(late, said, at(2)).await.map(|()| true)));
        let running = db.running_tasks(&now).await.unwrap();
        assert_eq!(running, std::slice::from_ref(&task), "as it was, and the other's by now");
        assert!(db.end_task(now, account, id(), end, at(3)).await.unwrap());
        assert_eq!(db.task(account, Kind::Job, "job_1").await.unwrap().unwrap().attempts, 0);
    });
}

#[test]
fn tasks_of_a_server_that_is_lost_for_long_are_queued_again() {
    on_each_shared_database(|db| async move {
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 2)).await;
        let (here, lost) = (lease(&db, "here").await, lease(&db, "lost").await);
        let (own, _) = claim(&db, &here, Lane::Workers, at(1)).await.unwrap();
        let (its, _) = claim(&db, &lost, Lane::Workers, at(1)).await.unwrap();
        assert!(db.begin_attempt(lost, account, its.id.clone(), at(1)).await.unwrap());
        let hour = std::time::Duration::from_secs(3600);
        assert!(db.requeue_orphans(hour, at(2)).await.unwrap().is_empty());
        run_out(&db, "host-lost").await;
        assert!(db.requeue_orphans(2 * hour, at(2)).await.unwrap().is_empty());
        let requeued = db.requeue_orphans(hour, at(2)).await.unwrap();
        assert_eq!(requeued, std::slice::from_ref(&its.id));
        assert!(db.requeue_orphans(hour, at(2)).await.unwrap().is_empty());
        let status = db.status_here(&here, &its.id).await.unwrap();
        assert_eq!(status, Some(Status::Queued), "not one that runs there");
        // When it is back, it finds that the task is not its own any more.
        let back = lease(&db, "lost").await;
        assert!(db.running_tasks(&back).await.unwrap().is_empty());
        let (again, _) = claim(&db, &here, Lane::Workers, at(3)).await.unwrap();
        assert_eq!((again.id.as_str(), again.attempts), (its.id.as_str(), 1));
        assert_eq!(again.fruitless, 0, "it is not to blame");
        let status = async |lease: &Lease| db.status_here(lease, &its.id).await.unwrap();
        assert_eq!((status(&here).await, status(&back).await), (Some(Status::Running), None));
        assert_eq!(db.running_tasks(&here).await.unwrap().len(), 2, "{} too", own.id);
    });
}

#[test]
fn a_server_that_stood_still_until_it_was_lost_writes_nothing_when_it_goes_on() {
    on_each_shared_database(|db| async move {
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 1)).await;
        let (here, still) = (lease(&db, "here").await, lease(&db, "still").await);
        assert!(begin(&db, &still, account, "job_0", at(1)).await);
        run_out(&db, "host-still").await;
        let hour = std::time::Duration::from_secs(3600);
        assert_eq!(db.requeue_orphans(hour, at(2)).await.unwrap(), ["job_0"]);
        assert!(begin(&db, &here, account, "job_0", at(3)).await);
        // It still has the lease that it had; nobody has taken that name.
        assert!(!db.renew_lease(still.clone(), at(4)).await.unwrap());
        let is_refused = |done: Result<bool, Error>| matches!(done, Err(Error::Superseded(_)));
        assert!(is_refused(db.affirm_lease(still.clone(), at(4)).await.map(|()| true)));
        let id = || "job_0".to_owned();
        let end = ended(Status::Succeeded);
        assert!(is_refused(db.end_task(still.clone(), account, id(), end.clone(), at(4)).await));
        let behind = Requeue::Interrupted;
        assert!(is_refused(db.requeue_task(still, account, id(), behind, at(4)).await));
        db.affirm_lease(here.clone(), at(4)).await.unwrap();
        assert!(db.end_task(here, account, id(), end, at(5)).await.unwrap());
    });
}

#[test]
fn a_task_of_a_lost_server_had_its_slot_until_that_was_seen_last() {
    on_each_shared_database(|db| async move {
        let account = account_with_jobs(&db, "a", &["job_0"]).await;
        let lost = lease(&db, "lost").await;
        let (now, hour) = (Clock::default().now(), SignedDuration::from_hours(1));
        assert!(begin(&db, &lost, account, "job_0", now - 2 * hour).await);
        // Seen an hour ago, and a little more.
        run_out(&db, "host-lost").await;
        let requeued = db.requeue_orphans(std::time::Duration::from_secs(60), now).await.unwrap();
        assert_eq!(requeued, ["job_0"]);
        let ms = db.slot_ms(account, Period { now, days: 2 }).await.unwrap();
        assert!((3_500_000..=3_600_000).contains(&ms), "{ms}");
    });
}

#[test]
fn a_database_that_is_slow_or_gives_a_connection_up_is_to_be_asked_again() {
    on_each_shared_database(|db| async move {
        // As PostgreSQL numbers what takes too long, what waits too long, and what breaks.
        for code in ["57014", "25P03", "57P05", "08006"] {
            let failed = db.write(Scope::Rows, move |tx| {
                let raise = format!("do $$ begin raise 'late' using errcode = '{code}'; end $$");
                tx.execute(&raise, &[]).map(drop)
            });
            let error = anyhow::Error::new(failed.await.unwrap_err());
            let said = storage_failure(&error);
            assert_eq!(said, Some("the service's database does not answer"), "{code}: {error}");
        }
    });
}

#[test]
fn a_database_that_does_not_answer_is_not_waited_for() {
    on_each_shared_database(|db| async move {
        for _ in 0..3 {
            let asked = db.write(Scope::Rows, |tx| {
                let Tx::Postgres(session) = tx else { panic!("it is shared") };
                session.answer_within(Some(std::time::Duration::from_millis(1)));
                // It is cancelled by nobody, and ends long after that.
                tx.execute("select pg_sleep(20)", &[]).map(drop)
            });
            let start = std::time::Instant::now();
            assert!(matches!(asked.await, Err(Error::Unreachable(_))));
            assert!(start.elapsed() < std::time::Duration::from_secs(10), "nor for its rollback");
        }
        // What is asked next is asked on another connection.
        let account = account(&db, "a").await;
        queue_all(&db, account, Kind::Job, &numbered("job", 1)).await;
    });
}

#[test]
fn progress_is_heard_by_all_until_its_task_ends() {
    on_each_shared_database(|db| async move {
        let account = account(&db, "a").await;
        let ids = numbered("job", 150);
        queue_all(&db, account, Kind::Job, &ids).await;
        let lease = lease(&db, "one").await;
        while claim(&db, &lease, Lane::Workers, at(1)).await.is_some() {}
        let said =
            |text: &str| ids.iter().map(|id| (id.clone(), text.to_owned())).collect::<Vec<_>>();
        db.report_progress(lease.clone(), said("1"), at(0)).await.unwrap();
        let (mut heard, next) = db.progress_since(None, at(0)).await.unwrap();
        heard.sort_by_key(|(id, _)| ids.iter().position(|known| known == id));
        assert_eq!(heard, said("1"));
        db.report_progress(lease.clone(), vec![(ids[7].clone(), "2".to_owned())], at(0))
            .await
            .unwrap();
        let (heard, _) = db.progress_since(Some(next), at(0)).await.unwrap();
        assert!(heard.contains(&(ids[7].clone(), "2".to_owned())));
        db.end_task(lease, account, ids[7].clone(), ended(Status::Succeeded), at(2)).await.unwrap();
        let (heard, _) = db.progress_since(None, at(0)).await.unwrap();
        assert_eq!(heard.len(), ids.len() - 1);
    });
}

#[test]
fn servers_know_of_each_other_and_share_what_the_first_had() {
    on_each_shared_database(|db| async move {
        assert_eq!(db.shared("secret", "one").unwrap(), "one");
        assert_eq!(db.shared("secret", "two").unwrap(), "one");
        let server = |id: &str, market: Option<&str>| Server {
            id: id.to_owned(),
            version: "0.1.0".to_owned(),
            market: market.map(str::to_owned),
        };
        db.be_seen(server("b", None), "one".to_owned(), at(0)).await.unwrap();
        db.be_seen(server("a", None), "one".to_owned(), at(0)).await.unwrap();
        db.be_seen(server("b", Some("digest")), "one".to_owned(), at(0)).await.unwrap();
        let all = [server("a", None), server("b", Some("digest"))];
        assert_eq!(db.servers(at(0)).await.unwrap(), all);
        db.be_gone("a".to_owned()).await.unwrap();
        assert_eq!(db.servers(at(0)).await.unwrap(), all[1..]);
        assert_eq!(db.asked_market().await.unwrap(), None);
        for digest in ["one", "two"] {
            db.ask_for_market(digest.to_owned()).await.unwrap();
            assert_eq!(db.asked_market().await.unwrap().as_deref(), Some(digest));
        }
    });
}

#[test]
fn both_databases_have_the_same_tables_columns_and_indexes() {
    let Some(server) = postgres::shared() else { return };
    let of_sqlite = [
        "select tables.name, columns.name from sqlite_master as tables
         join pragma_table_xinfo(tables.name) as columns
         where tables.type = 'table' and tables.name not like 'sqlite%' order by 1, 2",
        "select tbl_name, name from sqlite_master where type = 'index' and sql is not null
         order by 1, 2",
    ];
    let of_postgres = [
        "select cast(table_name as text), cast(column_name as text) from information_schema.columns
         where table_schema = current_schema() and table_name not in ('commit_mark', 'schema_version', 'setting')
         order by 1, 2",
        // Keys of tables are no indexes to SQLite, nor does it need one for what goes with a task.
        r"select cast(tablename as text), cast(indexname as text) from pg_indexes
         where schemaname = current_schema() and indexname not like '%\_key'
             and indexname not like '%\_pkey' and indexname <> 'task_input_of' order by 1, 2",
    ];
    let schema = |url: String, queries: [&'static str; 2]| {
        with_database(url, |db| async move {
            let mut all = Vec::new();
            for sql in queries {
                let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
                let found: Vec<(String, String)> =
                    db.read(|tx| tx.all(sql, &[], pair)).await.unwrap();
                assert!(found.len() > 15, "{found:?}");
                all.push(found);
            }
            all
        })
    };
    let found = schema(server.database(), of_postgres);
    assert_eq!(found, schema(String::new(), of_sqlite));
    let tables: BTreeSet<_> = found[0].iter().map(|(table, _)| table.as_str()).collect();
    // What counts by itself, and what is of the moment.
    let others = ["task_count", "turn", "runner", "server", "progress"];
    let moved = TABLES.into_iter().chain(others).collect();
    assert_eq!(tables, moved, "each table is moved with the others, unless it makes itself");
}
