"""The program `gmx`: whether it is there, what it was built for, and how it is run."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from molbox_worker.directory import without_folders
from molbox_worker.gromacs.terms import Unsupported

# Long after the last segment: mdrun writes a checkpoint at the end of each, and none between.
NO_CHECKPOINTS = 100_000  # minutes
VERSION_SECONDS = 60
# A million atoms take grompp half a minute on a busy core.
GROMPP_SECONDS = 900
# How a program that is there does not start.
NO_START = {errno.ENOENT, errno.EACCES, errno.ENOEXEC}
# Characters of what a program printed that an error has.
MOST_WORDS = 300
# Warnings of grompp that are known to be of no consequence here; anything else is refused.
KNOWN_WARNINGS = (
    # An estimate from the masses: at 4 fs hydrogens are heavier, and constraints hold the rest.
    "oscillational period",
    # Our builds neutralise; what a registered force field charges is for its author.
    "Ewald electrostatics in a system with net charge",
    # Restraints hold to places that move with the box as a whole.
    "absolute position restraints",
)
# What mdrun prints as it runs, and the last that it prints before.
PROGRESS = r"(?m)^step \d+ *(,.*)?$"
STARTED = r"\n\d+ steps, .* ps.*\n"
FATAL = r"(?:Fatal error|Error in user input|[Ee]rror):\n(.*?)\n\n"
# As the system and as mdrun say it, which keeps the system's words to itself where it writes frames and checkpoints.
DISK_FULL = r"No space left on device|Disk quota exceeded|out of disk space"
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Broken(Exception):
    """The program is there and does not run as GROMACS does."""


@dataclass(frozen=True)
class Gromacs:
    """An installed GROMACS: built for instructions `simd`; with `has_thread_mpi` its ranks are threads."""

    path: str
    version: str
    simd: str
    is_double: bool
    has_thread_mpi: bool

    def grompp(self, folder: Path, *arguments: str) -> None:
        """Make the input of a run in a folder; `Unsupported` has what grompp has against it."""
        try:
            done = subprocess.run(
                [self.path, "-nobackup", "grompp", "-maxwarn", "20", *arguments],
                cwd=folder,
                env=_environment(1),
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=GROMPP_SECONDS,
                preexec_fn=die_with_parent,
            )
        except subprocess.TimeoutExpired as error:
            raise Broken(f"grompp had not ended after {GROMPP_SECONDS:g} s") from error
        except OSError as error:
            raise no_start(error) from error
        text = done.stdout + done.stderr
        if re.search(DISK_FULL, text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        problems = [_line(match[1]) for match in re.finditer(r"\nWARNING \d+ [^\n]*\n(.*?)\n\n", text, re.DOTALL)]
        unknown = [each for each in problems if not any(known in each for known in KNOWN_WARNINGS)]
        if done.returncode:
            errors = re.findall(r"\nERROR \d+ [^\n]*\n(.*?)\n\n", text, re.DOTALL)
            errors = errors or re.findall(FATAL, text, re.DOTALL)[:1]
            if not errors:
                raise Broken(f"grompp {ended(done.returncode, text)}")
            unknown += map(_line, errors)
        if unknown:
            raise Unsupported(f"grompp: {'; '.join(unknown)}")

    def mdrun(self, folder: Path, log: Path, threads: int, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a run in a folder; it ends with this process, and its words go to a log."""
        ranks = ["-ntmpi", "1"] if self.has_thread_mpi else []
        fixed = ["-ntomp", str(threads), "-pin", "off", "-nb", "cpu", "-reprod", "-notunepme", "-noappend"]
        command = [self.path, "-nobackup", "mdrun", *ranks, *fixed, "-cpt", str(NO_CHECKPOINTS), *arguments]
        with log.open("wb") as file:
            try:
                return subprocess.Popen(
                    command,
                    cwd=folder,
                    env=_environment(threads),
                    stdout=file,
                    stderr=file,
                    preexec_fn=die_with_parent,  # noqa: PLW1509
                )
            except OSError as error:
                raise no_start(error) from error


def find(path: str | None) -> Gromacs | None:
    """The GROMACS at a path, or on the search path; None where there is none that runs."""
    program = shutil.which(path or "gmx")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    fields = dict(re.findall(r"^([\w /]+):\s+(.*)$", done.stdout, re.MULTILINE))
    if done.returncode or "GROMACS version" not in fields:
        return None
    return Gromacs(
        path=program,
        version=fields["GROMACS version"],
        simd=fields.get("SIMD instructions", "none"),
        is_double=fields.get("Precision") == "double",
        has_thread_mpi=fields.get("MPI library") == "thread_mpi",
    )


def die_with_parent() -> None:
    """Between fork and exec: have the kernel end this process when the worker is killed.

    A run that outlived its worker would take the cores of the next attempt.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment(threads: int) -> dict[str, str]:
    return {
        **os.environ,
        # The worker's own is 1, and mdrun refuses two numbers.
        "OMP_NUM_THREADS": str(threads),
        # A thread that waits spins for 20 us, then sleeps. On cores that others use, one that spins for long takes
        # the time of the one it waits for; one that sleeps at once is late for the next step.
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "2000",
        # The first warning of a constraint ends the run: what comes after it is no simulation.
        "GMX_MAXCONSTRWARN": "0",
        # No structures of each step on which constraints failed.
        "GMX_SUPPRESS_DUMP": "1",
    }


def no_start(error: OSError) -> Exception:
    """The error of a program that did not start: its own fault, or the machine's."""
    return Broken(f"it does not start: {error.strerror}") if error.errno in NO_START else error


def ended(status: int, text: str) -> str:
    """How a program failed, to be put after its name: its status or signal, and its error or last words."""
    how = f"ended with status {status}" if status >= 0 else f"ended by signal {-status}, {signal.strsignal(-status)}"
    fatal = re.search(FATAL, text, re.DOTALL)
    words = _line(fatal[1] if fatal else re.sub(PROGRESS, "", re.split(STARTED, text)[-1]))
    if not fatal and len(words) > MOST_WORDS:
        words = words[-MOST_WORDS:].partition(" ")[2]
    return f"{how}: {without_folders(words)}" if words else how


def _line(text: str) -> str:
    return " ".join(re.sub(r"[^ -~]+", " ", text).split())
