//! What a disk can do to the service: fill up, become read-only. Each test mounts one of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use molbox::Error;
use molbox::workflow::types::{EquilibrationStep, ProductionParams};
use tempfile::TempDir;

use crate::common::{Place, Service, example, wait_for};
use crate::work::water;

/// A disk of its own, as small as a test needs: a file system in memory that is mounted in a
/// namespace, which any user may make. It goes with the value.
struct Disk {
    /// Holds the namespace until its standard input is closed.
    holder: Child,
    /// The disk as this process sees it, and as those in the namespace see it.
    outside: PathBuf,
    inside: PathBuf,
    within: Vec<String>,
    folder: TempDir,
}

impl Disk {
    fn new(megabytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("data");
        fs::create_dir(&inside).unwrap();
        let mount = format!(
            "mount -t tmpfs -o size={megabytes}m,mode=700 tmpfs \"$0\" && echo mounted && exec cat"
        );
        for (unshare, enter) in [
            (&["--user", "--map-root-user", "--mount"][..], &["--user", "--mount"][..]),
            (&["--mount"], &["--mount"]),
        ] {
            let mut holder = Command::new("unshare");
            holder.args(unshare).args(["sh", "-c", &mount]).arg(&inside);
            let mut holder = holder
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line == "mounted\n" {
                let pid = holder.id().to_string();
                let mut within = vec!["nsenter", "--preserve-credentials", "--target", &pid];
                within.extend(enter);
                let within = within.into_iter().map(str::to_owned).collect();
                let outside = PathBuf::from(format!("/proc/{pid}/root{}", inside.display()));
                return Self { holder, outside, inside, within, folder };
            }
            holder.wait().unwrap();
        }
        panic!(
            "this test mounts a small disk, and must not: allow user namespaces \
             (kernel.apparmor_restrict_unprivileged_userns=0, kernel.unprivileged_userns_clone=1), run as root, or \
             leave such tests out by `-- --skip mounted::`"
        );
    }

    fn place(&self) -> Place {
        Place::within(self.within.clone(), &self.inside)
    }

    fn serve(&self, settings: &[&str]) -> Service {
        Service::start_at(&self.outside, self.place(), settings)
    }

    fn make(&self, option: &str) {
        let mut mount = Command::new(&self.within[0]);
        mount
            .args(&self.within[1..])
            .args(["mount", "-o", &format!("remount,{option}")])
            .arg(&self.inside);
        // What a service killed when it stopped may have files open a moment longer.
        wait_for(option, || mount.status().unwrap().success().then_some(()));
    }

    fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.outside).unwrap();
        found.f_bavail * found.f_frsize
    }

    /// Fills the disk to the last byte; the file that does so.
    fn fill(&self) -> PathBuf {
        let path = self.outside.join("ballast");
        let full = fs::write(&path, vec![1; self.free_bytes() as usize + (1 << 20)]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(self.free_bytes(), 0);
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn unavailable(error: Error, what: &str) {
    assert_eq!(error.status().unwrap(), 503, "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

#[tokio::test]
async fn a_full_disk_of_the_tasks_alone_holds_them_until_it_has_room() {
    let disk = Disk::new(8);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let tasks = format!("tasks.folder={:?}", disk.inside.display().to_string());
    let place = Place::within(disk.within.clone(), &data);
    let service = Service::start_at(&data, place, &[&tasks, "limits.free_disk_bytes=6000000"]);
    let molbox = service.client("ada");
    let until = async |held: &[&str]| loop {
        let health = molbox.service_health().send().await.unwrap().into_inner();
        let codes: Vec<&str> = health.held.iter().map(|hold| hold.code.as_str()).collect();
        if codes == held {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    until(&[]).await;
    let filler = disk.outside.join("filler");
    fs::write(&filler, vec![0; 4 << 20]).unwrap();
    until(&["disk_full"; 2]).await;
    let said = service.failing_command(&[
        "--set",
        &tasks,
        "--set",
        "limits.free_disk_bytes=6000000",
        "doctor",
    ]);
    assert!(said.contains("less than limits.free_disk_bytes"), "{said}");
    fs::remove_file(&filler).unwrap();
    until(&[]).await;
}

#[tokio::test]
async fn with_less_room_than_is_wanted_nothing_new_is_accepted() {
    let service = Service::start_with(&["limits.free_disk_bytes=1000000000000000"]);
    let molbox = service.client("ada");
    let full = |error| unavailable(error, "disk is full");
    full(molbox.system_submit().send().await.unwrap_err());
    full(molbox.job_submit().send().await.unwrap_err());
    full(molbox.upload(example("1vii.pdb")).await.unwrap_err());
    assert!(molbox.system_list().send().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_disk_that_fills_up_loses_nothing_that_was_acknowledged() {
    let disk = Disk::new(44);
    let folder = &disk.folder;
    let service = disk.serve(&["limits.free_disk_bytes=0"]);
    let molbox = service.client("ada");
    let protein = fs::read_to_string(example("1vii.pdb")).unwrap();
    // Remarks make it large, and different each time.
    let content = |n: usize| format!("{}{protein}", format!("REMARK 999 {n:060}\n").repeat(50_000));
    let mut kept = Vec::new();
    let error = loop {
        let path = folder.path().join(format!("file{}.pdb", kept.len()));
        fs::write(&path, content(kept.len())).unwrap();
        match molbox.upload(&path).await {
            Ok(file) => kept.push(file),
            Err(error) => break error,
        }
        assert!(kept.len() < 20, "the disk does not fill up");
    };
    unavailable(error, "disk is full");
    assert!(kept.len() > 3);
    let listed = molbox.file_list().send().await.unwrap();
    assert_eq!(listed.items.iter().filter(|file| file.status == "ready").count(), kept.len());
    for (n, file) in kept.iter().enumerate() {
        let path =
            molbox.download_file(&file.file_id, folder.path().join("back.pdb")).await.unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), content(n));
    }
    // Room is made, and work goes on.
    for file in &kept {
        molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    }
    let system = water(&molbox).await;

    // A simulation that fills the disk says so; what it committed before stays.
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(10)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.002).traj_freq(1))
    });
    let job = job.send().await.unwrap();
    let ballast = wait_for("the disk is nearly full", || {
        let path = disk.outside.join("ballast");
        fs::write(&path, vec![0; 1 << 20]).ok()?;
        fs::write(&path, vec![0; (disk.free_bytes() as usize).saturating_sub(2 << 20) + (1 << 20)])
            .ok()?;
        Some(path)
    });
    let seen = wait_for("the job has met the full disk", || {
        let folder = disk.outside.join("tasks").join(job.job_id.as_str());
        let attempts = service.log().matches("queued again").count();
        (attempts > 0 && folder.exists()).then_some(attempts)
    });
    assert!(seen > 0);
    fs::remove_file(ballast).unwrap();
    let job = molbox.wait_job(&job.job_id).await.unwrap();
    assert!(job.attempts > 1);
    assert_eq!(job.stages.last().unwrap().frames, 1000);
}

#[tokio::test]
async fn a_job_that_would_write_more_than_the_disk_has_free_is_refused() {
    let disk = Disk::new(44);
    let service = disk.serve(&["limits.free_disk_bytes=4000000"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().time(1).traj_freq(100))
    });
    let error = job.send().await.unwrap_err();
    assert_eq!(error.status().unwrap(), 422);
    assert!(error.to_string().contains("MB that the service's disk has free"), "{error}");
}

#[tokio::test]
async fn on_a_full_disk_everything_says_so_and_deleting_makes_room() {
    let disk = Disk::new(24);
    // No task starts: none is to write while the disk is looked at.
    let settings = ["limits.free_disk_bytes=0", "worker.python=\"/bin/false\""];
    let mut service = disk.serve(&settings);
    let key = service.key("ada");
    let spare = service.key("ada");
    let molbox = service.client_with(&key);
    let mut files = Vec::new();
    for name in ["one", "two", "three"] {
        files.push(molbox.upload(example("1vii.pdb")).name(name).await.unwrap());
    }
    let system = molbox.system_submit().send().await.unwrap();
    molbox.system_cancel().system_id(&system.system_id).send().await.unwrap();
    molbox.wait_system(&system.system_id).await.unwrap_err();
    wait_for("room is kept", || disk.outside.join("reserve").exists().then_some(()));
    let ballast = disk.fill();
    let full = |error| unavailable(error, "disk is full");
    full(molbox.upload_url_create().filetype("pdb").send().await.unwrap_err());
    full(molbox.upload(example("1vii.pdb")).name("four").await.unwrap_err());
    full(molbox.system_submit().send().await.unwrap_err());
    assert_eq!(
        molbox.file_list().send().await.unwrap().items.len(),
        3,
        "what is there can be looked at"
    );

    // What makes room, or keeps others out, is done.
    molbox.file_delete().file_id(&files[0].file_id).send().await.unwrap();
    molbox.system_delete().system_id(&system.system_id).send().await.unwrap();
    let spare = service.client_with(&spare).account_view().send().await.unwrap();
    service.command(&["key", "revoke", &spare.key_id]);

    // So is a start, also after a kill.
    fs::remove_file(&ballast).unwrap();
    molbox.system_submit().send().await.unwrap();
    wait_for("room is kept again", || disk.outside.join("reserve").exists().then_some(()));
    let ballast = disk.fill();
    service.kill_and_restart();
    service.stop();
    service.restart();
    let molbox = service.client_with(&key);
    molbox.file_delete().file_id(&files[1].file_id).send().await.unwrap();
    assert_eq!(molbox.file_list().send().await.unwrap().items.len(), 1);
    fs::remove_file(ballast).unwrap();
    molbox.upload(example("1vii.pdb")).name("four").await.unwrap();
}

#[test]
fn a_folder_that_is_read_only_is_named() {
    let disk = Disk::new(40);
    let mut service = disk.serve(&[]);
    service.stop();
    disk.make("ro");
    let error = service.failing_command(&["serve"]);
    assert!(error.contains("data/") && error.contains("Read-only file system"), "{error}");
    let error = service.failing_command(&["doctor"]);
    assert!(error.contains("broken  data folder"), "{error}");
}

#[test]
fn up_wants_room_for_a_first_simulation() {
    let disk = Disk::new(64);
    let home = tempfile::tempdir().unwrap();
    let mut up = disk.place().molboxd();
    up.env("HOME", home.path()).args(["up", "--detach", "--no-browser"]);
    let output = up.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("MB are free where") && said.contains("may need 1 GB"), "{said}");
    assert!(said.contains("--data"), "{said}");
}
