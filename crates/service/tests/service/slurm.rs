//! A Slurm of one's own on this machine, with two virtual nodes, which ends with the tests. Also for
//! the tests of executors inside of the crate.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// A cluster in a folder of its own: `n1` in the partition `md`, the default; `n2` in `spare`, and in
/// `urgent`, whose jobs take the place of others.
pub(crate) struct Slurm {
    folder: PathBuf,
    /// Holds the pipe whose end tells the daemons that nobody needs them.
    _process: Child,
}

/// The cluster of this process; none where Slurm is not installed.
pub(crate) fn shared() -> Option<&'static Slurm> {
    static SHARED: OnceLock<Option<Slurm>> = OnceLock::new();
    SHARED.get_or_init(Slurm::start).as_ref()
}

const CONF: &str = "slurm.conf";

/// Runs until its input ends, also as that of a process that was killed; then ends the jobs, the
/// daemons and whatever else was started with this configuration, and removes its folder.
const SCRIPT: &str = r#"
export SLURM_CONF="$PWD/slurm.conf"
(umask 077; head -c 128 /dev/urandom >key)
munged --force --key-file="$PWD/key" --socket="$PWD/munge.sock" --pid-file="$PWD/munged.pid" \
    --log-file="$PWD/munged.log" --seed-file="$PWD/munged.seed"
slurmctld
for node in n1 n2; do slurmd -N $node; done
read -r _
timeout 5 scancel --quiet --full --signal=KILL --user="$(id -u)"
timeout 5 scancel --quiet --user="$(id -u)"
kill $(cat slurmctld.pid slurmd.n1.pid slurmd.n2.pid munged.pid)
for process in /proc/[0-9]*; do
    grep -qsF "$SLURM_CONF" "$process/environ" && [ "${process#/proc/}" != $$ ] && kill -KILL "${process#/proc/}"
done
cd /
rm -rf "$OLDPWD"
"#;

impl Slurm {
    pub(crate) fn start() -> Option<Self> {
        if !is_installed() {
            let missing = "Slurm is not installed (Debian: slurm-wlm, munge)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            println!("skipped: tests with Slurm: {missing}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap().keep();
        for part in ["state", "n1", "n2"] {
            fs::create_dir(folder.join(part)).unwrap();
        }
        fs::write(folder.join(CONF), configuration(&folder)).unwrap();
        fs::write(folder.join("gres.conf"), GPUS).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new("sh")
            .args(["-c", SCRIPT])
            .current_dir(&folder)
            // What ends the tests is not to end the shell, which ends the daemons.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let cluster = Self { folder, _process: process };
        cluster.wait();
        Some(cluster)
    }

    /// The file of its configuration.
    pub(crate) fn conf(&self) -> PathBuf {
        self.folder.join(CONF)
    }

    /// Has nodes take jobs again that Slurm has drained, as an administrator would: it does so where
    /// a controller that died gives the number of a job again that a node has still.
    pub(crate) fn resume(&self) {
        for node in ["n1", "n2"] {
            let state =
                self.command("sinfo").args(["--noheader", "--nodes", node, "--format=%t"]).output();
            if String::from_utf8_lossy(&state.unwrap().stdout).starts_with("dr") {
                let node = format!("NodeName={node}");
                self.run("scontrol", &["update", &node, "State=RESUME"]);
            }
        }
    }

    /// Waits until its nodes take jobs.
    pub(crate) fn wait(&self) {
        let since = Instant::now();
        loop {
            self.resume();
            let mut nodes = self.command("sinfo");
            let output = nodes.args(["--noheader", "--Node", "--format=%N %t"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_up = |node: &str| {
                text.lines().any(|line| {
                    let state = line.strip_prefix(node).unwrap_or_default().trim();
                    ["idle", "mix", "alloc"].contains(&state)
                })
            };
            if is_up("n1") && is_up("n2") {
                return;
            }
            let log = fs::read_to_string(self.folder.join("slurmctld.log")).unwrap_or_default();
            assert!(since.elapsed() < Duration::from_secs(60), "Slurm does not start: {log}{text}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// One of Slurm's commands, for this cluster.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.conf());
        command
    }

    /// Runs one of Slurm's commands; its output.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "{program}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Waits until the controller has saved all that it has acknowledged: it does so every few
    /// seconds, and a crash before that has it forget jobs.
    pub(crate) fn save(&self) {
        let state = self.folder.join("state/job_state");
        let saved = || fs::metadata(&state).and_then(|found| found.modified()).ok();
        let before = saved();
        let job = ["--hold", "--parsable", "--output=/dev/null", "--wrap=true"];
        let job = self.run("sbatch", &job);
        let since = Instant::now();
        while saved() == before {
            assert!(since.elapsed() < Duration::from_secs(60), "nothing is saved");
            thread::sleep(Duration::from_millis(50));
        }
        self.run("scancel", &[&job]);
    }

    /// Kills a daemon, `slurmctld` or `slurmd.n1`, as a crash of its machine would.
    pub(crate) fn kill(&self, daemon: &str) {
        let pid = fs::read_to_string(self.folder.join(format!("{daemon}.pid"))).unwrap();
        let pid = pid.trim();
        Command::new("kill").args(["-KILL", pid]).status().unwrap();
        let since = Instant::now();
        // A daemon's parent is the init of the machine, which may take its time to bury it.
        while fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
        {
            assert!(since.elapsed() < Duration::from_secs(60), "{daemon} does not die");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts a daemon again.
    pub(crate) fn restart(&self, daemon: &str) {
        let (program, node) = daemon.split_once('.').unwrap_or((daemon, ""));
        let mut command = self.command(program);
        if !node.is_empty() {
            command.args(["-N", node]);
        }
        // It goes into the background, and would keep our output open.
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{daemon}");
    }
}

/// Whether a cluster can be started.
fn is_installed() -> bool {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &str| {
        std::env::split_paths(&searched).any(|folder| folder.join(program).exists())
    };
    ["munged", "slurmctld", "slurmd", "sbatch"].into_iter().all(has)
}

const GPUS: &str = "AutoDetect=off
NodeName=n[1-2] Name=gpu Type=test File=/dev/null
NodeName=n[1-2] Name=gpu Type=test File=/dev/zero
";

fn configuration(folder: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let id = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(id.stdout).unwrap();
    // Held all at a time, so that they are different ones.
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [controller, first, second] =
        listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
    CONFIGURATION
        .replace("{folder}", &folder.display().to_string())
        .replace("{host}", host)
        .replace("{user}", user.trim())
        .replace("{controller}", &controller.to_string())
        .replace("{first}", &first.to_string())
        .replace("{second}", &second.to_string())
}

/// More CPUs than this machine has, so that jobs wait only where a test wants them to.
const CONFIGURATION: &str = "ClusterName=molbox
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldDebug=info
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
MinJobAge=300
KillWait=5
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=64 RealMemory=64000 Gres=gpu:test:2 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=64 RealMemory=64000 Gres=gpu:test:2 State=UNKNOWN
PartitionName=md Nodes=n1 Default=YES MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=spare Nodes=n2 MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=urgent Nodes=n2 MaxTime=INFINITE State=UP PriorityTier=100 PreemptMode=OFF
";
