"""A real service for tests, when there is one: `MOLBOXD` and `MOLBOX_TEST_PYTHON` name it.

`MOLBOXD` is the program, `MOLBOX_TEST_PYTHON` the interpreter with the worker and OpenMM.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

# How long a service may take until it listens.
START_LIMIT = 60


@dataclass(frozen=True)
class Real:
    """Where it is, and a key for it."""

    base_url: str
    margin_url: str
    api_key: str

    def environment(self) -> dict[str, str]:
        """What a program is to have in its environment."""
        return {
            "MOLBOX_BASE_URL": self.base_url,
            "MOLBOX_MARGIN_URL": self.margin_url,
            "MOLBOX_API_KEY": self.api_key,
        }


@contextmanager
def real_service(folder: Path) -> Iterator[Real]:
    """A service with sample market data in a folder of its own."""
    program, python = os.environ.get("MOLBOXD"), os.environ.get("MOLBOX_TEST_PYTHON")
    if not program or not python:
        pytest.skip("needs MOLBOXD and MOLBOX_TEST_PYTHON")
    molboxd = [program, "--data", str(folder / "data")]
    run(*molboxd, "market", "sample")
    run(*molboxd, "account", "create", "ada")
    key = run(*molboxd, "key", "create", "ada").strip()
    settings = {
        "listen": '"127.0.0.1:0"',
        "margin_listen": '"127.0.0.1:0"',
        "worker.python": json.dumps(python),
        "worker.engine": '"openmm"',
    }
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with (folder / "molboxd.log").open("wb") as log:
        process = subprocess.Popen([*molboxd, *options, "serve"], stdout=log, stderr=log)
    try:
        addresses = listening(process, folder / "data/addresses.json")
        yield Real(addresses["base_url"], addresses["margin_base_url"], key)
    finally:
        process.terminate()
        process.wait()


def listening(process: subprocess.Popen[bytes], path: Path) -> dict[str, str]:
    """Its addresses, once it has written them."""
    end = time.monotonic() + START_LIMIT
    while not path.exists():
        assert process.poll() is None, "molboxd has ended"
        assert time.monotonic() < end, "molboxd does not listen"
        time.sleep(0.05)
    addresses: dict[str, str] = json.loads(path.read_text())
    return addresses


def run(*command: str) -> str:
    """What a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout
