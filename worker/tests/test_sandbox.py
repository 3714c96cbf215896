"""What a worker cannot do, whatever it is given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Directory

ATTEMPT = """
import os, socket, subprocess, sys
from pathlib import Path
from molbox_worker import sandbox
from molbox_worker.job import Job
sandbox.enter(Job(Path(sys.argv[1])))
import numpy, openmm, pdbfixer, rdkit.Chem
def told(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "done"
other = Path(sys.argv[2])
print(told(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)))
print(told(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)))
print(told(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)))
print(told(lambda: socket.socketpair()))
print(told(other.read_text))
print(told(lambda: other.write_text("changed")))
print(told(lambda: (other.parent / "new").write_text("")))
print(told(lambda: (Path(sys.argv[1]) / "output" / "mine").write_text("")))
print(told(lambda: Path("/usr/mine").write_text("")))
print(subprocess.run(["cat", str(other)], capture_output=True).returncode)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp and Landlock are Linux's")
def test_a_worker_reaches_neither_the_network_nor_other_files(tmp_path: Path) -> None:
    directory, other = tmp_path / "job", tmp_path / "other"
    directory.mkdir()
    other.mkdir()
    (other / "secret").write_text("of another account")
    (directory / "task.json").write_text(json.dumps({"sandbox": "required"}))
    command = [sys.executable, "-c", ATTEMPT, str(directory), str(other / "secret")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    log, *told = done.stdout.splitlines()
    assert "sandbox: no network, no files of other jobs" in log
    not_permitted, denied = "Operation not permitted", "Permission denied"
    assert told[:3] == [not_permitted] * 3
    assert told[3] == "done", "local sockets are for threads and drivers"
    assert told[4:7] == [denied] * 3
    assert told[7] == "done"
    assert told[8] == denied
    assert told[9] == "1", "what it starts is shut in too"
    assert (other / "secret").read_text() == "of another account"


def test_builds_run_in_it(water: Directory) -> None:
    assert "sandbox: " in water.log().splitlines()[0]
