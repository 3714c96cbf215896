//! What a disk can do to the service: fill up, become read-only, be copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use molbox::Error;
use molbox::workflow::types::{EquilibrationStep, ProductionParams};

use crate::common::{Service, example, wait_for};
use crate::work::water;

/// A disk of its own, as small as a test needs; it goes with the value.
struct Disk(PathBuf);

impl Disk {
    /// None where this user may not mount.
    fn new(folder: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={megabytes}m");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs", folder.to_str().unwrap()]).then(|| Self(folder.to_owned()))
    }

    fn make(&self, option: &str) {
        assert!(mount(&["-o", &format!("remount,{option}"), self.0.to_str().unwrap()]), "{option}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str]) -> bool {
    Command::new("mount").args(arguments).output().is_ok_and(|output| output.status.success())
}

fn unavailable(error: Error, what: &str) {
    assert_eq!(error.status().unwrap(), 503, "{error}");
    assert!(error.to_string().contains(what), "{error}");
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
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(&folder.path().join("data"), 40) else {
        return println!("skipped: this user may not mount a small disk");
    };
    let service = Service::start_in(&disk.0, &["limits.free_disk_bytes=0"]);
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
        let path = molbox.download_file(&file.file_id, folder.path().join("back.pdb")).await.unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), content(n));
    }
    // Room is made, and work goes on.
    molbox.file_delete().file_id(&kept[0].file_id).send().await.unwrap();
    let system = water(&molbox).await;

    // A simulation that fills the disk says so; what it committed before stays.
    let ballast = wait_for("the disk is nearly full", || {
        let path = disk.0.join("ballast");
        fs::write(&path, vec![0; 1 << 20]).ok()?;
        let free = rustix::fs::statvfs(&disk.0).ok().map(|stat| stat.f_bavail * stat.f_frsize)?;
        fs::write(&path, vec![0; (free as usize).saturating_sub(2 << 20) + (1 << 20)]).ok()?;
        Some(path)
    });
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(10)
            .equilibration(Vec::<EquilibrationStep>::new())
            .production(ProductionParams::builder().type_("NVT").time(0.002).traj_freq(1))
    });
    let job = job.send().await.unwrap();
    let seen = wait_for("the job has met the full disk", || {
        let folder = disk.0.join("tasks").join(job.job_id.as_str());
        let attempts = fs::read_to_string(disk.0.with_extension("log")).ok()?.matches("queued again").count();
        (attempts > 0 && folder.exists()).then_some(attempts)
    });
    assert!(seen > 0);
    fs::remove_file(ballast).unwrap();
    for file in &kept[1..] {
        molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    }
    let job = molbox.wait_job(&job.job_id).await.unwrap();
    assert!(job.attempts > 1);
    assert_eq!(job.stages.last().unwrap().frames, 1000);
}

#[test]
fn a_folder_that_is_read_only_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(&folder.path().join("data"), 40) else {
        return println!("skipped: this user may not mount a small disk");
    };
    let mut service = Service::start_in(&disk.0, &[]);
    service.stop();
    disk.make("ro");
    let error = service.failing_command(&["serve"]);
    assert!(error.contains("data/") && error.contains("Read-only file system"), "{error}");
    let error = service.failing_command(&["doctor"]);
    assert!(error.contains("broken  data folder"), "{error}");
}

#[tokio::test]
async fn a_copy_of_the_folder_is_a_backup() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let file = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let system = water(&molbox).await;
    service.stop();

    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("data");
    assert!(Command::new("cp").arg("--archive").arg(&service.data).arg(&copy).status().unwrap().success());
    let restored = Service::start_in(&copy, &[]);
    let molbox = restored.client_with(&key);
    assert_eq!(molbox.file_view().file_id(&file.file_id).send().await.unwrap().name, "villin");
    let path = molbox.download_system(&system.system_id, folder.path().join("system.zip")).await.unwrap();
    assert!(crate::work::archive(&path).contains_key("system.pdb"));
}
