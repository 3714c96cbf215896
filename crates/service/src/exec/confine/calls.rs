//! System calls that a task's command has no use for.

use std::collections::BTreeMap;
use std::env;

use anyhow::Result;
use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

/// Refused whatever their arguments.
const NEVER: &[c_long] = &[
    // The network, and services of this machine. Pairs of streams stay: they reach nobody.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other namespaces and file systems.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Other processes, and their share of the machine.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // The process group and the lock by which the service finds all processes of a task.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_flock,
    // Modes, owners and times of files: Landlock does not see to them.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // Links, pipes and devices, for the service to stumble over.
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_mknodat,
    // Memory and queues that outlive a process.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_personality,
    SYS_FCHMODAT2,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
];
/// Newer than the list of the C library; the numbers are the same everywhere.
const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
/// Older forms of what is refused above.
#[cfg(target_arch = "x86_64")]
const NEVER_OLDER: &[c_long] = &[
    libc::SYS_symlink,
    libc::SYS_link,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OLDER: &[c_long] = &[];
/// Signals to other processes, and cutting files: what Landlock keeps in from its version 6 and 3
/// on.
const WITHOUT_LANDLOCK: [c_long; 5] = [
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_truncate,
];
/// Flags of `clone`.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Of `fcntl`: leases stop who opens the same file, notices and owners have others be signalled.
const FILE_CONTROLS: [i32; 4] = [libc::F_SETLEASE, libc::F_NOTIFY, libc::F_SETOWN, F_SETOWN_EX];
const F_SETOWN_EX: i32 = 15;

/// What of the second argument of `socketpair` is the type; the rest are flags.
const SOCKET_TYPE: u64 = 0xf;

/// Negative numbers of 32 bits, as a filter compares them.
const NEGATIVE: u64 = 1 << 31;

type Refused = BTreeMap<c_long, Vec<SeccompRule>>;

/// Takes system calls away from this process and from all that it will start; more of them where
/// Landlock is missing or old.
pub(super) fn restrict(has_landlock: bool) -> Result<()> {
    let mut refused: Refused =
        NEVER.iter().chain(NEVER_OLDER).map(|&call| (call, Vec::new())).collect();
    // Limits and CPUs of other processes.
    for call in [libc::SYS_prlimit64, libc::SYS_sched_setaffinity] {
        refused.insert(call, vec![when(0, SeccompCmpOp::Ne, 0)?]);
    }
    // Of a pair, what is no stream can send to any address; those of the machine's services too.
    let other_domains = when(0, SeccompCmpOp::Ne, unsigned(libc::AF_UNIX))?;
    let other_types = (0..=SOCKET_TYPE).filter(|&kind| kind != unsigned(libc::SOCK_STREAM));
    let other_types = other_types.map(|kind| when(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), kind));
    let pairs = [Ok(other_domains)].into_iter().chain(other_types);
    refused.insert(libc::SYS_socketpair, pairs.collect::<Result<_>>()?);
    // Signals to many: to its process group, which is the service's way to find a task, or to
    // everybody.
    refused.insert(
        libc::SYS_kill,
        vec![when(0, SeccompCmpOp::Eq, 0)?, when(0, SeccompCmpOp::Ge, NEGATIVE)?],
    );
    let flags = NAMESPACES.map(unsigned);
    let namespaces = flags.map(|flag| when(0, SeccompCmpOp::MaskedEq(flag), flag));
    refused.insert(libc::SYS_clone, namespaces.into_iter().collect::<Result<_>>()?);
    let controls = FILE_CONTROLS.map(|control| when(1, SeccompCmpOp::Eq, unsigned(control)));
    refused.insert(libc::SYS_fcntl, controls.into_iter().collect::<Result<_>>()?);
    if !has_landlock {
        refused.extend(WITHOUT_LANDLOCK.map(|call| (call, Vec::new())));
        // A program that aborts signals itself.
        let own = u64::from(getpid().as_raw_pid().unsigned_abs());
        for call in [libc::SYS_kill, libc::SYS_tgkill] {
            refused.insert(call, vec![when(0, SeccompCmpOp::Ne, own)?]);
        }
    }
    seccompiler::apply_filter(&numbers_of_x32())?;
    // The C library takes `clone` in its place, whose flags a filter can see.
    seccompiler::apply_filter(&refuse([(libc::SYS_clone3, Vec::new())].into(), libc::ENOSYS)?)?;
    seccompiler::apply_filter(&refuse(refused, libc::EPERM)?)?;
    Ok(())
}

/// A constant of the C library as a filter compares it.
fn unsigned(constant: i32) -> u64 {
    u64::from(constant.unsigned_abs())
}

fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

fn refuse(calls: Refused, error: i32) -> Result<BpfProgram> {
    let answer = SeccompAction::Errno(error.unsigned_abs());
    let filter =
        SeccompFilter::new(calls, SeccompAction::Allow, answer, env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// Refuses the numbers of x32: the same calls once more, on processors of type x86-64.
fn numbers_of_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let load = 0x20;
    let skip_unless_at_least = 0x35;
    let answer = 0x06;
    let allow = 0x7fff_0000;
    let refuse = 0x0005_0000 | libc::EPERM.unsigned_abs();
    vec![
        sock_filter { code: load, jt: 0, jf: 0, k: 0 },
        sock_filter { code: skip_unless_at_least, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: answer, jt: 0, jf: 0, k: refuse },
        sock_filter { code: answer, jt: 0, jf: 0, k: allow },
    ]
}
