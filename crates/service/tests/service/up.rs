//! `molboxd up`, `down` and `status`, as somebody meets them who has just installed molbox: with a
//! home folder and a search path of their own, and a Python that says what the test has it say.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use molbox::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::wait_for;
use crate::sessions::PASSWORD;

/// Two that look for a free port at the same moment find the same one.
static PORTS: Mutex<()> = Mutex::new(());

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A user's home folder, with what that user has installed.
struct Home {
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Home {
    /// With a Python that has all that is needed, as far as it says.
    fn new() -> Self {
        let alone = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let home = Self { folder: tempfile::tempdir().unwrap(), _alone: alone };
        for folder in ["bin", "home", "system"] {
            fs::create_dir(home.path(folder)).unwrap();
        }
        for program in ["sh", "cat"] {
            symlink(format!("/bin/{program}"), home.path("system").join(program)).unwrap();
        }
        home.python(&sound());
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("home/.local/share/molbox")
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Has `python3` say this of itself.
    fn python(&self, found: &Value) {
        self.script("bin/python3", &format!("echo '{found}'"));
    }

    /// A command of this user; the programs are those of the folder `bin` and no others.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let path = ["bin", "system"].map(|name| self.path(name).display().to_string()).join(":");
        command.env_clear().env("PATH", path).env("HOME", self.path("home"));
        command.current_dir(self.path("home")).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_molboxd")));
        command.args(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is said by a command that is refused.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    fn up(&self) -> String {
        self.ok(&["up", "--detach", "--no-browser"])
    }

    fn profiles(&self) -> toml::Table {
        fs::read_to_string(self.path("home/.config/molbox/config.toml")).unwrap().parse().unwrap()
    }

    fn write_profiles(&self, text: &str) {
        let folder = self.path("home/.config/molbox");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    fn addresses(&self) -> Value {
        serde_json::from_slice(&fs::read(self.data().join("addresses.json")).unwrap()).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

/// What a Python says that has everything.
fn sound() -> Value {
    json!({
        "version": [3, 12], "worker": VERSION, "libc": "2.41", "has_openmm": true,
        "has_pip": true, "is_managed": false,
    })
}

/// The account that a profile leads to.
fn account_of(profile: &toml::Value) -> String {
    let text = |name: &str| profile[name].as_str().unwrap();
    let connection = Connection::new(text("base_url"), text("api_key")).unwrap().retries(0);
    let workflow = connection.workflow().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let viewed = runtime.block_on(async { workflow.account_view().send().await });
    viewed.unwrap().account.as_str().to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn from_nothing_there_is_a_service_with_account_key_profile_and_market_data() {
    let home = Home::new();
    let said = home.up();
    let profiles = home.profiles();
    let local = &profiles["profile"]["local"];
    let url = local["base_url"].as_str().unwrap();
    assert!(said.contains(&format!("molbox runs at {url}\n")), "{said}");
    assert!(said.contains("data     ~/.local/share/molbox\n"), "{said}");
    assert!(said.contains("log      ~/.local/state/molbox/molboxd.log\n"), "{said}");
    assert!(said.contains("next     molbox run protein.pdb --preset quick\n"), "{said}");
    assert!(said.contains("stop     molboxd down; "), "{said}");
    assert_eq!(profiles["default"].as_str(), Some("local"));
    let account = account_of(local);
    assert!(said.contains(&format!("account  {account}, logged in by the profile \"local\"")));
    // Who reads none of it: others of the machine.
    assert_eq!(mode(&home.data()), 0o700);
    assert_eq!(mode(&home.path("home/.config/molbox/config.toml")), 0o600);
    assert_eq!(mode(&home.path("home/.local/state/molbox/molboxd.log")), 0o600);
    let key = local["api_key"].as_str().unwrap();
    let started = format!("/proc/{}/cmdline", home.addresses()["pid"]);
    let log = wait_for("it has logged", || {
        let log = home.path("home/.local/state/molbox/molboxd.log");
        fs::read_to_string(log).ok().filter(|log| log.contains("listening"))
    });
    for shown in [&said, &fs::read_to_string(started).unwrap(), &log] {
        assert!(!shown.contains(key), "the key is shown");
    }
    assert!(home.data().join("market/contracts.csv").exists());
    // The command that it shows is about its own data, wherever it is given.
    let Some((_, command)) = said.split_once("(no password yet: `molboxd ") else {
        assert!(said.contains("portal   none"), "{said}");
        return;
    };
    let command = command.split('`').next().unwrap();
    let link = home.ok(&command.split(' ').collect::<Vec<_>>());
    choose_password(url, &link);
    let said = home.up();
    assert!(said.contains("/portal/\n") && !said.contains("password"), "there is one: {said}");
}

/// Opens the link of an invitation, and chooses a password there.
fn choose_password(base_url: &str, link: &str) {
    let (_, token) = link.trim().split_once('#').unwrap();
    let chosen = json!({ "token": token, "password": PASSWORD });
    let request = reqwest::Client::new().post(format!("{base_url}/session/invitation"));
    let request = request.header("sec-fetch-site", "same-origin").json(&chosen);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(request.send()).unwrap();
    assert_eq!(answer.status(), 200);
}

#[test]
fn a_second_up_shows_the_service_that_runs_and_changes_nothing() {
    let home = Home::new();
    home.up();
    let (profiles, addresses) = (home.profiles(), home.addresses());
    let said = home.up();
    let url = addresses["base_url"].as_str().unwrap();
    assert!(said.starts_with(&format!("molbox runs already at {url}\n")), "{said}");
    assert_eq!(home.profiles(), profiles);
    assert_eq!(home.addresses(), addresses);
    let status = home.ok(&["status"]);
    assert!(status.starts_with(&format!("molbox runs at {url} (process ")), "{status}");
}

#[test]
fn after_down_the_next_up_has_the_ports_and_the_key_of_before() {
    let home = Home::new();
    home.up();
    let (profiles, before) = (home.profiles(), home.addresses());
    assert!(home.ok(&["down"]).starts_with("ended the service of ~/.local/share/molbox"));
    let status = home.run(&["status"]);
    assert_eq!(status.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&status.stdout).contains("`molboxd up` starts it"));
    assert!(home.ok(&["down"]).starts_with("no molbox runs on"));
    home.up();
    assert_eq!(home.profiles(), profiles);
    assert_eq!(home.addresses()["base_url"], before["base_url"]);
    assert_ne!(home.addresses()["pid"], before["pid"]);
}

#[test]
fn a_port_that_another_program_has_by_now_is_passed_over_and_the_profile_follows() {
    let home = Home::new();
    home.up();
    let before = home.profiles();
    home.ok(&["down"]);
    let url = before["profile"]["local"]["base_url"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let _holder = TcpListener::bind(address).unwrap();
    home.up();
    let after = home.profiles();
    let local = &after["profile"]["local"];
    assert_ne!(local["base_url"].as_str().unwrap(), url);
    assert_eq!(local["api_key"], before["profile"]["local"]["api_key"]);
    account_of(local);
    home.ok(&["down"]);
    let said = home.refusal(&["up", "--detach", "--listen", address]);
    assert!(said.contains(&format!("another program listens on {address}")), "{said}");
    assert!(said.contains("--listen"), "{said}");
}

#[test]
fn profiles_of_other_services_stay_as_they_are() {
    let home = Home::new();
    let lab = "[profile.lab]\nbase_url = 'https://md.example.org/prod'\napi_key = 'mbx_lab'\n";
    let other = "[profile.local]\nbase_url = 'http://127.0.0.1:9/local'\napi_key = 'mbx_other'\n";
    home.write_profiles(&format!("default = 'lab'\n{lab}{other}"));
    let said = home.up();
    let profiles = home.profiles();
    assert_eq!(profiles["default"].as_str(), Some("lab"));
    assert_eq!(profiles["profile"]["lab"]["api_key"].as_str(), Some("mbx_lab"));
    assert_eq!(profiles["profile"]["local"]["api_key"].as_str(), Some("mbx_other"));
    account_of(&profiles["profile"]["local-2"]);
    assert!(said.contains("--preset quick --profile local-2\n"), "{said}");
}

#[test]
fn a_profile_that_was_lost_gets_a_new_key_and_that_is_said() {
    let home = Home::new();
    home.up();
    let before = home.profiles();
    home.write_profiles("");
    let said = home.up();
    assert!(said.contains("with a new key"), "{said}");
    let after = home.profiles();
    assert_ne!(after["profile"]["local"]["api_key"], before["profile"]["local"]["api_key"]);
    assert_eq!(account_of(&after["profile"]["local"]), account_of(&before["profile"]["local"]));
}

#[test]
fn in_the_foreground_it_serves_until_it_is_interrupted() {
    let home = Home::new();
    let out = home.path("out");
    let mut command = home.command(Path::new(env!("CARGO_BIN_EXE_molboxd")));
    command.args(["up", "--no-browser"]).stdout(fs::File::create(&out).unwrap());
    let mut up = Ended(command.stderr(Stdio::null()).spawn().unwrap());
    wait_for("it says how it ends", || {
        fs::read_to_string(&out).unwrap().contains("Ctrl-C ends it").then_some(())
    });
    account_of(&home.profiles()["profile"]["local"]);
    let pid = up.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(up.0.wait().unwrap().success());
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

/// A process that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_a_python_lacks_is_named_with_the_line_that_installs_it() {
    let home = Home::new();
    let python = home.path("bin/python3").display().to_string();
    let pip = format!("{python} -m pip install");
    let worker = format!("`{pip} 'molbox-worker=={VERSION}'`");
    for (what, value, sentence) in [
        ("worker", json!(null), format!("has no molbox-worker: install it: {worker}")),
        (
            "worker",
            json!("0.0.1"),
            format!("has molbox-worker 0.0.1, and this is molboxd {VERSION}: install it: {worker}"),
        ),
        ("has_openmm", json!(false), format!("has no OpenMM: install it: `{pip} 'openmm>=8.6'`")),
        ("version", json!([3, 8]), "is Python 3.8, and the worker needs 3.10 or newer".to_owned()),
    ] {
        let mut found = sound();
        found[what] = value;
        home.python(&found);
        let said = home.refusal(&["up", "--detach"]);
        assert!(said.contains(&sentence), "{what}: {said}");
    }
    let mut of_uv = sound();
    (of_uv["worker"], of_uv["has_pip"]) = (json!(null), json!(false));
    home.python(&of_uv);
    let said = home.refusal(&["up", "--detach"]);
    let line = format!("`uv pip install --python {python} 'molbox-worker=={VERSION}'`");
    assert!(said.contains(&line), "{said}");
    let mut old = sound();
    (old["has_openmm"], old["libc"]) = (json!(false), json!("2.31"));
    home.python(&old);
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains("need glibc 2.34, and this machine has 2.31"), "{said}");
    assert!(
        said.contains("conda") && said.contains("Apptainer") && !said.contains("pip"),
        "{said}"
    );
    let mut managed = sound();
    (managed["worker"], managed["is_managed"]) = (json!(null), json!(true));
    home.python(&managed);
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains(&format!("`{python} -m venv ~/molbox && ")), "{said}");
    home.script("bin/python3", "echo 'Segmentation fault' >&2; exit 139");
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains("does not work as Python 3 does") && said.contains("Segmentation fault"));
    fs::remove_file(&python).unwrap();
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains("there is no python3: install Python 3.10 or newer"), "{said}");
}

#[test]
fn the_python_beside_the_program_is_taken_where_an_installer_has_put_both() {
    let home = Home::new();
    let environment = home.path("environment/bin");
    fs::create_dir_all(&environment).unwrap();
    let real = environment.join("molboxd");
    let built = Path::new(env!("CARGO_BIN_EXE_molboxd"));
    fs::hard_link(built, &real).or_else(|_| fs::copy(built, &real).map(drop)).unwrap();
    // As `uv tool` and `pipx` link programs, and without a `python3` beside, as in `--user`.
    let link = home.path("bin/molboxd");
    symlink(&real, &link).unwrap();
    let python = home.path("elsewhere");
    home.script("elsewhere", &format!("echo '{}'", sound()));
    home.script(
        "environment/bin/molbox-worker",
        &format!("[ \"$1\" = --print-python ] && echo {}", python.display()),
    );
    let mut lacking = sound();
    lacking["worker"] = json!(null);
    home.python(&lacking);
    let up = home.command(&link).args(["up", "--detach", "--no-browser"]).output().unwrap();
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let command = fs::read_to_string(format!("/proc/{}/cmdline", home.addresses()["pid"])).unwrap();
    assert!(command.contains(&format!("worker.python=\"{}\"", python.display())), "{command}");
    let doctor = home.run(&["--data", home.data().to_str().unwrap(), "doctor"]);
    let found = String::from_utf8(doctor.stdout).unwrap();
    assert!(found.contains(&format!("workers: {}: ", python.display())), "as it runs: {found}");
}

#[test]
fn setup_makes_an_environment_that_the_service_s_user_can_read_and_tries_it() {
    let home = Home::new();
    for program in ["cp", "mkdir"] {
        symlink(format!("/bin/{program}"), home.path("system").join(program)).unwrap();
    }
    let answers = |found: &Value| {
        format!(
            "case \"$2\" in\n\
             venv) mkdir -p \"$3/bin\" && cp \"$0\" \"$3/bin/python\" ;;\n\
             pip) echo \"$@\" > \"$HOME/pip\" ;;\n\
             *) echo '{found}' ;;\n\
             esac"
        )
    };
    home.script("bin/python3", &answers(&sound()));
    let asked = || fs::read_to_string(home.path("home/pip")).unwrap().trim().to_owned();
    let folder = home.path("home/workers");
    let said = home.ok(&["setup", "workers"]);
    let python = folder.join("env/bin/python");
    assert!(said.contains(&python.display().to_string()), "{said}");
    assert_eq!([mode(&folder), mode(&python)], [0o755, 0o755]);
    assert!(asked().ends_with(&format!(" molbox-worker=={VERSION}")), "{}", asked());

    home.ok(&["setup", "workers", "--cuda", "--wheels", "packages"]);
    let packages = home.path("home/packages");
    let from = format!("--no-index --find-links {} ", packages.display());
    assert!(asked().contains(&from), "{}", asked());
    assert!(asked().ends_with(&format!(" molbox-worker[cuda]=={VERSION}")), "{}", asked());

    home.script("home/workers/env/bin/python", "exit 1");
    let refusal = home.refusal(&["setup", "workers"]);
    assert!(refusal.contains("--wheels FOLDER"), "{refusal}");
    let refusal = home.refusal(&["setup", "workers", "--wheels", "packages"]);
    let remedy = format!("`pip download --dest FOLDER 'molbox-worker=={VERSION}'`");
    assert!(refusal.contains(" from packages: fill the folder"), "{refusal}");
    assert!(refusal.contains(&remedy), "{refusal}");

    let mut other = sound();
    other["has_openmm"] = false.into();
    home.script("home/workers/env/bin/python", &answers(&other));
    let refusal = home.refusal(&["setup", "workers"]);
    assert!(refusal.contains("has no OpenMM"), "{refusal}");
}

#[test]
fn root_sets_workers_up_with_a_python_that_the_user_of_the_service_can_start() {
    let home = Home::new();
    let base = "case \"$2\" in venv) mkdir -p \"$3/bin\" && cp \"$0\" \"$3/bin/python\" ;; pip) ;;";
    let base = format!("{base} *) echo '{}' ;; esac", sound());
    // As those in /root come before those of the system.
    for (name, folder_mode) in [("bin", 0o700), ("system", 0o755), (".", 0o755)] {
        home.script(&format!("{name}/python3"), &base);
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(folder_mode)).unwrap();
    }
    for program in ["cp", "mkdir"] {
        symlink(format!("/bin/{program}"), home.path("system").join(program)).unwrap();
    }
    let said = home.ok(&["setup", "workers"]);
    let chosen = if rustix::process::getuid().is_root() { "system" } else { "bin" };
    assert!(said.contains(&format!("with {}/python3\n", home.path(chosen).display())), "{said}");
}

#[test]
fn no_service_is_left_behind_when_its_profile_cannot_be_written() {
    let home = Home::new();
    // A link to nowhere, in whose place not even root can make a folder.
    fs::create_dir(home.path("home/.config")).unwrap();
    symlink("nowhere", home.path("home/.config/molbox")).unwrap();
    let refusal = home.refusal(&["up", "--detach", "--no-browser"]);
    assert!(refusal.contains("set MOLBOX_CONFIG"), "{refusal}");
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

#[test]
fn a_folder_that_is_no_good_is_refused_before_anything_is_written() {
    let home = Home::new();
    let mounts = home.path("mounts");
    let device = "36 1 0:40 / / rw - ext4 /dev/sda1 rw\n";
    let folder = home.folder.path().canonicalize().unwrap();
    let nfs = format!("40 36 0:41 / {} rw - nfs4 server:/home rw\n", folder.display());
    fs::write(&mounts, format!("{device}{nfs}")).unwrap();
    let mounts = mounts.to_str().unwrap();
    #[cfg(debug_assertions)]
    {
        let said = home.refusal(&["--mounts", mounts, "up", "--detach"]);
        assert!(said.contains("a file system of another machine (nfs4)"), "{said}");
        assert!(said.contains("--data"), "{said}");
        assert!(!home.data().exists());
    }
    // Nobody makes a folder there.
    let said = home.refusal(&["--data", "/sys/molbox", "up", "--detach"]);
    assert!(said.contains("no data can be kept there") && said.contains("--data"), "{said}");
    let said = home.refusal(&["--data", "/etc/passwd/molbox", "up", "--detach"]);
    assert!(said.contains("no data can be kept there") && said.contains("--data"), "{said}");
    fs::create_dir_all(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o755)).unwrap();
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains("chmod 700"), "{said}");
    assert!(!home.path("home/.config").exists());
}

#[test]
fn data_of_a_newer_version_are_left_alone() {
    let home = Home::new();
    home.up();
    home.ok(&["down"]);
    let database = rusqlite::Connection::open(home.data().join("molbox.sqlite")).unwrap();
    database.pragma_update(None, "user_version", 9999).unwrap();
    drop(database);
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains("newer molboxd"), "{said}");
    assert!(said.contains("the service did not start; its log"), "{said}");
}

#[test]
fn a_damaged_note_of_the_last_up_is_named_with_what_helps() {
    let home = Home::new();
    home.up();
    home.ok(&["down"]);
    let note = home.data().join("up.json");
    fs::write(&note, "{\n").unwrap();
    let said = home.refusal(&["up", "--detach"]);
    assert!(said.contains("up.json is damaged: remove it"), "{said}");
    fs::remove_file(note).unwrap();
    home.up();
}

#[test]
fn other_machines_are_not_let_in_unasked() {
    let home = Home::new();
    let said = home.refusal(&["up", "--detach", "--listen", "0.0.0.0:18080"]);
    assert!(said.contains("other machines can connect to 0.0.0.0:18080"), "{said}");
    assert!(said.contains("public_url") && said.contains("--insecure"), "{said}");
    // What was refused is not what the next one begins with.
    home.up();
}

#[test]
fn a_service_on_all_addresses_is_announced_by_one_that_leads_there() {
    let home = Home::new();
    let listen = ["--set", "margin_listen=\"0.0.0.0:0\"", "up", "--listen", "0.0.0.0:0"];
    let said = home.ok(&[&listen[..], &["--insecure", "--detach", "--no-browser"]].concat());
    assert!(said.starts_with("molbox runs at http://127.0.0.1:"), "{said}");
    let profiles = home.profiles();
    let local = &profiles["profile"]["local"];
    assert!(local["base_url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    assert!(local["margin_url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    account_of(local);
}

#[test]
fn purge_removes_what_up_has_made_and_nothing_else() {
    let home = Home::new();
    home.write_profiles("[profile.lab]\nbase_url = 'https://md.example.org/prod'\n");
    home.up();
    let said = home.refusal(&["down", "--purge"]);
    assert!(said.contains("nobody can be asked here; add --yes"), "{said}");
    home.ok(&["status"]);
    home.ok(&["down", "--purge", "--yes"]);
    assert!(!home.data().exists());
    assert!(!home.path("home/.local/state/molbox/molboxd.log").exists());
    let profiles = home.profiles();
    assert!(profiles["profile"].get("local").is_none() && profiles.get("default").is_none());
    assert!(profiles["profile"].get("lab").is_some());
    // A folder that somebody else has filled.
    let folder = home.path("home/theirs");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let folder = folder.to_str().unwrap();
    home.ok(&["--data", folder, "account", "create", "ada"]);
    let up = home.ok(&["--data", folder, "up", "--detach", "--no-browser"]);
    let stop = format!("stop     molboxd --data {folder} down; ");
    assert!(up.contains(&stop), "{up}");
    assert!(up.contains("take a key of yours to `molbox login`"), "{up}");
    let said = home.refusal(&["--data", folder, "down", "--purge", "--yes"]);
    assert!(said.contains("was not made by `molboxd up`"), "{said}");
    home.ok(&["--data", folder, "down"]);
    assert!(Path::new(folder).join("molbox.sqlite").exists());
}

#[test]
fn purge_removes_no_folder_in_which_other_files_lay_before_up() {
    let home = Home::new();
    let folder = home.path("home/project");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.join("thesis.tex"), "years").unwrap();
    let data = ["--data", folder.to_str().unwrap()];
    for _ in 0..2 {
        home.ok(&[&data[..], &["up", "--detach", "--no-browser"]].concat());
        home.ok(&[&data[..], &["down"]].concat());
    }
    let said = home.refusal(&[&data[..], &["down", "--purge", "--yes"]].concat());
    assert!(said.contains("had other files in it"), "{said}");
    assert_eq!(fs::read_to_string(folder.join("thesis.tex")).unwrap(), "years");
    // An empty one was made for it.
    let folder = home.path("home/own");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let data = ["--data", folder.to_str().unwrap()];
    home.ok(&[&data[..], &["up", "--detach", "--no-browser"]].concat());
    home.ok(&[&data[..], &["down", "--purge", "--yes"]].concat());
    assert!(!folder.exists());
}

#[test]
fn a_service_is_ended_also_where_what_up_has_noted_is_damaged() {
    let home = Home::new();
    home.up();
    fs::write(home.data().join("up.json"), "{").unwrap();
    assert!(home.ok(&["down"]).starts_with("ended the service of"));
}

/// What `up` shows on a terminal, with a program that notes what it is to open.
fn on_terminal(home: &Home, settings: &[(&str, &str)]) -> (String, Option<String>) {
    let noted = home.path("opened");
    // Slower than `up`, whose terminal ends with it.
    let opener = "while [ -e /proc/$PPID ]; do sleep 0.01; done; echo \"$1\" >";
    home.script("bin/xdg-open", &format!("{opener} {}", noted.display()));
    let molboxd = env!("CARGO_BIN_EXE_molboxd");
    let mut script = home.command(Path::new("/usr/bin/script"));
    script.args(["-qec", &format!("{molboxd} up --detach"), "/dev/null"]);
    let output = script.env("SHELL", "/bin/sh").envs(settings.iter().copied()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(output.status.success(), "{said}");
    let has_portal = !said.contains("portal   none");
    let is_to_open = has_portal && settings.iter().any(|(name, _)| *name == "DISPLAY");
    let is_here = settings.iter().all(|(name, _)| *name != "SSH_CONNECTION");
    let opened = (is_to_open && is_here).then(|| {
        wait_for("a browser is opened", || {
            fs::read_to_string(&noted).ok().filter(|path| path.ends_with('\n'))
        })
    });
    assert_eq!(opened.is_some(), noted.exists());
    (said, opened.map(|path| path.trim().to_owned()))
}

#[test]
fn on_a_desktop_the_portal_opens_by_a_link_that_no_process_shows() {
    let home = Home::new();
    let (said, opened) = on_terminal(&home, &[("DISPLAY", ":0")]);
    let Some(opened) = opened else {
        // The terminal may break the line within the command.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("cargo xtask portal"), "{said}");
        return;
    };
    // On lines of whatever length the terminal has.
    let mut words = said.split_whitespace().skip_while(|word| *word != "portal").skip(1);
    let link = words.next().unwrap();
    let rest: Vec<_> = words.collect();
    let remark = "(choose a password there: good once, for 10 minutes) ";
    assert!(rest.join(" ").starts_with(remark), "{said}");
    assert!(link.contains("/portal/invitation#"), "{link}");
    let page = Path::new(&opened);
    assert_eq!(mode(page), 0o600);
    assert!(fs::read_to_string(page).unwrap().contains(&format!("url={link}")));
    // Nobody reads what is not printed on a terminal, but it may be kept.
    assert!(!home.up().contains("invitation#"));
}

#[test]
fn over_ssh_no_browser_opens_and_the_line_that_forwards_the_ports_is_shown() {
    let home = Home::new();
    let settings = [("DISPLAY", "localhost:10"), ("SSH_CONNECTION", "192.0.2.1 5 192.0.2.2 22")];
    let (said, opened) = on_terminal(&home, &settings);
    assert_eq!(opened, None);
    let url = home.addresses()["base_url"].as_str().unwrap().to_owned();
    let port = url.strip_prefix("http://127.0.0.1:").unwrap().split('/').next().unwrap().to_owned();
    assert!(said.contains(&format!("ssh -L {port}:127.0.0.1:{port} -L ")), "{said}");
}
