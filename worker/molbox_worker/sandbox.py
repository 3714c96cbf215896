"""Shutting a worker in, before it reads what strangers have sent.

It needs no privileges and holds for all programs that the worker starts:

- seccomp lets no socket be made but local ones, so there is no network;
- Landlock leaves the programs of the system to be read, and the job directory and the cache to be
  written; the files of other jobs are not there for it;
- no new privileges can be had, and no core is dumped. Memory is limited by the service.

Both belong to Linux. A kernel older than 5.13 has no Landlock: that is logged, or an error where the
task says ``"sandbox": "required"``. ``"off"`` is for finding faults.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from molbox_worker.job import Job, JobError

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
# Architecture as seccomp tells it, and the number of `socket`. `io_uring_setup`, which could make
# sockets too, is 425 everywhere.
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
IO_URING_SETUP = 425
X32_BIT = 0x40000000
AF_UNIX = 1
EPERM = 1
# Bits of Landlock's rights to files: to run, write, read, list, ... and by version of its interface.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
READ = EXECUTE | READ_FILE | READ_DIR
# Programs, libraries and their settings.
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/sys", "/run/opengl-driver")
# What drivers of GPUs and the C library write to.
DEVICES = ("/dev", "/proc")


def enter(job: Job) -> None:
    """Shut this process in."""
    wanted = job.task.get("sandbox", "auto")
    if wanted == "off":
        job.log("sandbox: off")
        return
    os.environ["TMPDIR"] = str(job.path.resolve())
    os.environ["CUDA_CACHE_PATH"] = str(Path(job.task.get("cache") or job.path).resolve())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    missing = []
    try:
        _no_new_privileges()
        _no_network()
    except OSError as error:
        missing.append(f"no network ({error})")
    try:
        writable = [job.path, *([Path(job.task["cache"])] if job.task.get("cache") else [])]
        for path in writable:
            path.mkdir(parents=True, exist_ok=True)
        _files(_readable(), [*writable, *map(Path, DEVICES)])
    except OSError as error:
        missing.append(f"no access to other files ({error})")
    if missing and wanted == "required":
        raise JobError(
            "sandbox_unavailable",
            f"this machine cannot shut a worker in as it is told to; it lacks: {', '.join(missing)}",
            remedy="run workers on Linux 5.13 or newer, or have the service ask for less",
        )
    job.log(f"sandbox: without {', '.join(missing)}" if missing else "sandbox: no network, no files of other jobs")


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has none")
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _no_new_privileges() -> None:
    _checked(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _no_network() -> None:
    """Refuse sockets of other families than the local one, and io_uring."""
    machine = platform.machine()
    if machine not in MACHINES:
        raise OSError(f"no filter for {machine}")
    architecture, socket = MACHINES[machine]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | EPERM
    # Each: operation, where to when true and when false (in steps ahead), constant. Offsets 4, 0
    # and 16 of the data are the architecture, the number of the call, and its first argument.
    program = [
        (load, 0, 0, 4),
        (equal, 0, 8, architecture),
        (load, 0, 0, 0),
        (at_least, 6, 0, X32_BIT),
        (equal, 5, 0, IO_URING_SETUP),
        (equal, 0, 3, socket),
        (load, 0, 0, 16),
        (equal, 1, 0, AF_UNIX),
        (give, 0, 0, refuse),
        (give, 0, 0, allow),
        (give, 0, 0, refuse),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    _checked(_libc().prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0))


def _readable() -> list[Path]:
    """Where programs, Python and its packages lie."""
    listed = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), os.environ.get("OPENMM_PLUGIN_DIR", "")]
    # With `python -m` the first entry of the path is the folder that the service was started in.
    packages = [path for path in sys.path if path and Path(path) != Path.cwd()]
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(__file__).parent.parent), *packages, *listed]
    return [Path(path) for path in (*SYSTEM, *own) if path]


def _files(readable: Iterable[Path], writable: Iterable[Path]) -> None:
    libc = _libc()
    version = _checked(libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION))
    every_right = (1 << RIGHTS_BY_VERSION.get(version, 16)) - 1
    attribute = ctypes.create_string_buffer(struct.pack("=Q", every_right), 8)
    ruleset = _checked(libc.syscall(LANDLOCK_CREATE_RULESET, attribute, 8, 0))
    try:
        for rights, paths in ((READ, readable), (every_right, writable)):
            for path in paths:
                _allow(libc, ruleset, path, rights & every_right)
        _checked(libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        allowed = rights if path.is_dir() else rights & FILE_RIGHTS
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, descriptor), 12)
        _checked(libc.syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(descriptor)
