//! What any object store promises. Each test runs on every store there is, each time on an empty
//! one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use super::{Key, Objects, ReceiveError, bundle};
use crate::config::{self, Config};
use crate::files::CHUNK_BYTES;

#[allow(dead_code, clippy::print_stdout, reason = "those use all of it, and say what is skipped")]
/// A server for the tests, as those of the whole service have it.
#[path = "../../tests/service/s3.rs"]
mod s3;

impl s3::Bucket {
    fn settings(&self, prefix: &str) -> config::Objects {
        config::Objects {
            url: format!("s3://{}/{prefix}", self.name),
            endpoint: self.endpoint.clone(),
            credentials_file: self.credentials_file.clone(),
            ..config::Objects::default()
        }
    }
}

/// Hands a promise every kind of store, empty, and a folder for what is on this machine besides.
fn on_each_store(promise: impl Fn(&Arc<Objects>, &Path)) {
    let _entered = runtime().enter();
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    promise(&Arc::new(Objects::open(data.path()).unwrap()), scratch.path());
    if let Some(server) = s3::shared() {
        let scratch = tempfile::tempdir().unwrap();
        promise(&Arc::new(in_bucket(&server.bucket(), data.path())), scratch.path());
    }
}

/// The store in a bucket, with a prefix there.
fn in_bucket(bucket: &s3::Bucket, data: &Path) -> Objects {
    let mut config = Config { data: data.to_owned(), ..Config::default() };
    config.objects = bucket.settings("some/prefix");
    let _entered = runtime().enter();
    Objects::of(&config).unwrap()
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

fn streamed(objects: &Arc<Objects>, key: &Key, range: Range<u64>) -> io::Result<Vec<u8>> {
    let chunks: Vec<Bytes> = wait(objects.clone().stream(key.clone(), range).try_collect())?;
    Ok(chunks.concat())
}

fn received(
    objects: &Objects,
    key: &Key,
    max: u64,
    parts: &[Result<&'static str, &str>],
) -> Result<u64, ReceiveError<String>> {
    let parts: Vec<Result<Bytes, String>> =
        parts.iter().map(|part| part.map(Bytes::from).map_err(str::to_owned)).collect();
    wait(objects.receive(key, max, futures::stream::iter(parts)))
}

/// Bytes that are different everywhere, more than are held at a time.
fn long() -> Vec<u8> {
    (0..2 * CHUNK_BYTES as u32 / 4 + 5).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn an_object_is_read_as_it_was_written() {
    on_each_store(|objects, scratch| {
        let key = Key::upload("one");
        let content = long();
        objects.write(&key, &content).unwrap();
        let size = content.len() as u64;
        assert_eq!(objects.read(&key).unwrap(), content);
        assert_eq!(objects.size(&key).unwrap(), size);
        assert!(objects.exists(&key).unwrap());
        let mut whole = Vec::new();
        assert_eq!(objects.read_to(&key, &mut whole).unwrap(), size);
        assert_eq!(whole, content);
        assert_eq!(fs::read(objects.local(&key).unwrap().path()).unwrap(), content);
        objects.fetch(&key, &scratch.join("fetched")).unwrap();
        objects.lend(&key, &scratch.join("lent")).unwrap();
        for copy in ["fetched", "lent"] {
            assert_eq!(fs::read(scratch.join(copy)).unwrap(), content, "{copy}");
        }
        let stats = objects.stats(&key).unwrap();
        assert_eq!(
            stats.into_iter().map(|(key, stat)| (key, stat.size)).collect::<Vec<_>>(),
            [(key, size)]
        );
    });
}

#[test]
fn what_is_received_is_there_whole_or_not_at_all() {
    on_each_store(|objects, _| {
        let key = Key::upload("one");
        assert_eq!(received(objects, &key, 9, &[Ok("first "), Ok("one")]).unwrap(), 9);
        let too_large = received(objects, &key, 9, &[Ok("another "), Ok("one")]);
        assert!(matches!(too_large, Err(ReceiveError::TooLarge)), "{too_large:?}");
        let broken = received(objects, &key, 99, &[Ok("another "), Err("gone")]);
        assert!(
            matches!(&broken, Err(ReceiveError::Content(cause)) if cause == "gone"),
            "{broken:?}"
        );
        assert_eq!(objects.read(&key).unwrap(), b"first one");
        let other = Key::upload("other");
        received(objects, &other, 1, &[Ok("too large")]).unwrap_err();
        assert!(!objects.exists(&other).unwrap());
        assert_eq!(objects.all().unwrap(), [key]);
    });
}

#[test]
fn any_range_is_read() {
    on_each_store(|objects, _| {
        let key = Key::upload("one");
        let content = long();
        objects.write(&key, &content).unwrap();
        let chunk = CHUNK_BYTES;
        let size = content.len();
        for range in [
            0..size,
            0..1,
            7..7,
            chunk - 1..chunk + 1,
            3..2 * chunk + 3,
            size - 1..size,
            size..size,
        ] {
            let bytes = range.start as u64..range.end as u64;
            assert_eq!(
                streamed(objects, &key, bytes.clone()).unwrap(),
                &content[range.clone()],
                "{range:?}"
            );
            assert_eq!(
                objects.read_part(&key, bytes).unwrap(),
                &content[range.clone()],
                "{range:?}"
            );
        }
        let beyond = size as u64 - 2..size as u64 + 1;
        // A download has promised its length; who reads a part takes what there is.
        assert_eq!(
            streamed(objects, &key, beyond.clone()).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(objects.read_part(&key, beyond).unwrap(), &content[size - 2..]);
    });
}

#[test]
fn what_is_missing_is_not_found_and_takes_nothing() {
    on_each_store(|objects, scratch| {
        objects.write(&Key::task("job_1").under("log.txt"), b"log").unwrap();
        for key in [Key::upload("one"), Key::task("job_1").under("frames"), Key::task("job_2")] {
            let to = scratch.join("copy");
            let found = [
                objects.read(&key).map(drop),
                objects.read_part(&key, 0..1).map(drop),
                objects.read_to(&key, &mut io::sink()).map(drop),
                objects.local(&key).map(drop),
                objects.fetch(&key, &to),
                objects.lend(&key, &to),
                streamed(objects, &key, 0..1).map(drop),
                objects.list(&key).map(drop),
            ];
            for (n, found) in found.into_iter().enumerate() {
                assert_eq!(found.unwrap_err().kind(), io::ErrorKind::NotFound, "{key} {n}");
            }
            assert!(!to.exists());
            assert!(!objects.exists(&key).unwrap() && objects.size(&key).unwrap() == 0);
            assert!(objects.stats(&key).unwrap().is_empty());
            objects.remove(&key).unwrap();
        }
    });
}

#[test]
fn of_those_who_write_one_object_at_once_one_wins_and_readers_see_no_mixture() {
    on_each_store(|objects, _| {
        let key = Key::upload("one");
        let content = |writer: u8| vec![writer; 3 * CHUNK_BYTES];
        objects.write(&key, &content(0)).unwrap();
        let is_whole =
            |read: &[u8]| read.len() == 3 * CHUNK_BYTES && read.iter().all(|byte| *byte == read[0]);
        thread::scope(|scope| {
            let writers: Vec<_> = (1..5)
                .map(|writer| {
                    scope.spawn(move || {
                        (0..5)
                            .try_for_each(|_| objects.write(&Key::upload("one"), &content(writer)))
                    })
                })
                .collect();
            while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
                assert!(is_whole(&objects.read(&key).unwrap()));
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
        assert!(is_whole(&objects.read(&key).unwrap()));
        assert_eq!(objects.all().unwrap(), [key]);
    });
}

#[test]
fn a_write_that_fails_or_is_cut_off_leaves_what_was_there() {
    on_each_store(|objects, _| {
        let key = Key::task("job_1").under("log.txt");
        let other = Key::task("job_1").under("other");
        objects.write(&key, b"before").unwrap();
        for key in [&key, &other] {
            let failed = objects.write_with(key, |out| {
                out.write_all(b"half")?;
                Err(io::Error::other("no more"))
            });
            assert_eq!(failed.unwrap_err().to_string(), "no more");
            objects.abandon(key, b"half").unwrap();
        }
        assert_eq!(objects.read(&key).unwrap(), b"before");
        assert_eq!(objects.list(&Key::task("job_1")).unwrap(), std::slice::from_ref(&key));
        assert_eq!(objects.size(&Key::task("job_1")).unwrap(), 6);
        // After a crash the next one clears up, and writes as if nothing had been.
        objects.clear_unfinished().unwrap();
        objects.write(&other, b"whole").unwrap();
        assert_eq!(objects.read(&other).unwrap(), b"whole");
        assert_eq!(objects.list(&Key::task("job_1")).unwrap(), [key, other]);
    });
}

#[test]
fn who_reads_an_object_reads_the_same_to_its_end_though_it_is_replaced() {
    on_each_store(|objects, _| {
        let key = Key::upload("one");
        let content = long();
        objects.write(&key, &content).unwrap();
        let mut stream = Box::pin(objects.clone().stream(key.clone(), 0..content.len() as u64));
        let mut read = wait(stream.next()).unwrap().unwrap().to_vec();
        objects.write(&key, &vec![0; content.len()]).unwrap();
        read.extend(wait(stream.try_collect::<Vec<_>>()).unwrap().concat());
        assert_eq!(read, content);
    });
}

#[test]
fn keys_are_listed_in_order_and_only_those_right_under_one() {
    on_each_store(|objects, _| {
        let task = Key::task("job_1");
        let commit = task.under("commit");
        for key in [
            task.under("b"),
            task.under("a"),
            commit.under("c"),
            Key::task("job_10").under("a"),
            Key::upload("job_1"),
        ] {
            objects.write(&key, key.as_str().as_bytes()).unwrap();
        }
        assert_eq!(objects.list(&task).unwrap(), [task.under("a"), task.under("b")]);
        assert_eq!(objects.list(&commit).unwrap(), [commit.under("c")]);
        let all: BTreeSet<_> = objects.stats(&task).unwrap().into_keys().collect();
        assert_eq!(all, BTreeSet::from([task.under("a"), task.under("b"), commit.under("c")]));
        assert_eq!(objects.all().unwrap(), [Key::upload("job_1"), task, Key::task("job_10")]);
    });
}

#[test]
fn a_folder_is_adopted_as_a_whole_and_once() {
    on_each_store(|objects, scratch| {
        let folder = scratch.join("collected");
        let task = Key::task("job_1");
        fs::create_dir_all(folder.join("commit")).unwrap();
        fs::write(folder.join("log.txt"), "log").unwrap();
        fs::write(folder.join("commit/commit.json"), "{}").unwrap();
        assert!(!objects.exists(&task).unwrap());
        // Not by whom others have superseded.
        objects
            .adopt(&folder, &task, &|| ready(Err(io::ErrorKind::Other.into())).boxed())
            .unwrap_err();
        assert!(!objects.exists(&task).unwrap() && folder.join("log.txt").exists());
        objects.adopt(&folder, &task, &always).unwrap();
        assert!(!folder.exists());
        objects.adopt(&folder, &task, &always).unwrap();
        assert_eq!(objects.read(&task.under("log.txt")).unwrap(), b"log");
        assert_eq!(objects.read(&task.under("commit").under("commit.json")).unwrap(), b"{}");
        assert_eq!(objects.size(&task).unwrap(), 5);
        // What is there is not mixed with another.
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("frames"), "").unwrap();
        objects.adopt(&folder, &task, &always).unwrap_err();
        assert_eq!(objects.list(&task).unwrap(), [task.under("log.txt")]);
    });
}

#[test]
fn what_others_have_put_after_the_question_stays_with_whom_may_write_no_more() {
    let Some(server) = s3::shared() else { return };
    let _entered = runtime().enter();
    let data = tempfile::tempdir().unwrap();
    let objects = Arc::new(in_bucket(&server.bucket(), data.path()));
    let task = Key::task("job_1");
    let [log, readme] = ["log.txt", "README.md"].map(|name| task.under(name));
    let folder = data.path().join("collected");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("log.txt"), "of the first").unwrap();
    let n_asked = AtomicUsize::new(0);
    // It stands still when it has been allowed, and others end the task meanwhile.
    let may = || {
        let is_first = n_asked.fetch_add(1, Ordering::SeqCst) == 0;
        let objects = objects.clone();
        let all = [log.clone(), readme.clone()];
        async move {
            if !is_first {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let put = move || all.iter().try_for_each(|key| objects.write(key, b"of the last"));
            spawn_blocking(put).await.unwrap()
        }
        .boxed()
    };
    let refused = objects.adopt(&folder, &task, &may).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    n_asked.store(0, Ordering::SeqCst);
    let refused = objects.put(&readme, b"of the first", &may).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    for key in [&log, &readme] {
        assert_eq!(objects.read(key).unwrap(), b"of the last");
    }
    // Whoever may replaces what is there.
    objects.put(&readme, b"once more", &always).unwrap();
    assert_eq!(objects.read(&readme).unwrap(), b"once more");
}

/// Of whom nobody else can write.
fn always() -> BoxFuture<'static, io::Result<()>> {
    ready(Ok(())).boxed()
}

#[test]
fn one_is_removed_or_all_under_a_key_and_nothing_else() {
    on_each_store(|objects, _| {
        let task = Key::task("job_1");
        let other = Key::task("job_10").under("a");
        for key in
            [task.under("a"), task.under("commit").under("b"), task.under("c"), other.clone()]
        {
            objects.write(&key, b"1").unwrap();
        }
        objects.remove(&task.under("a")).unwrap();
        assert_eq!(objects.list(&task).unwrap(), [task.under("c")]);
        objects.remove(&task).unwrap();
        assert!(!objects.exists(&task).unwrap());
        assert_eq!(objects.read(&other).unwrap(), b"1");
    });
}

#[test]
fn an_object_is_deflated_in_chunks_of_one_length_however_it_is_read() {
    // The result depends on them, and is the same whichever process made it, from wherever.
    let text: String = (0..200_000).map(|n: u64| format!("{}\n", n * n % 977)).collect();
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    text.as_bytes().chunks(CHUNK_BYTES).for_each(|chunk| encoder.write_all(chunk).unwrap());
    let expected = encoder.finish().unwrap();
    on_each_store(|objects, _| {
        let key = Key::task("box_1").under("system.xml");
        objects.write(&key, text.as_bytes()).unwrap();
        let entry = bundle::Entry { name: "box_1/system.xml".to_owned(), key: key.clone() };
        let deflated = key.with_suffix(bundle::DEFLATED);
        // The second time it is at hand.
        for _ in 0..2 {
            bundle::measure(objects, &entry, &always).unwrap();
            assert!(objects.read(&deflated).unwrap() == expected);
            objects.local(&key).unwrap();
        }
    });
}

#[test]
fn what_was_fetched_is_a_copy() {
    on_each_store(|objects, scratch| {
        let key = Key::upload("one");
        let copy = scratch.join("copy");
        objects.write(&key, b"stored").unwrap();
        objects.fetch(&key, &copy).unwrap();
        fs::OpenOptions::new().write(true).open(&copy).unwrap().write_all(b"SPOILT").unwrap();
        assert_eq!(objects.read(&key).unwrap(), b"stored");
    });
}
