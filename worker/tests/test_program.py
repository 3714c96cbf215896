"""The command `molbox-worker`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from molbox_worker import __version__

COMMAND = [sys.executable, "-c", "import sys; from molbox_worker.program import main; sys.exit(main())"]


@pytest.mark.parametrize(
    ("argument", "answer"),
    [("--print-python", sys.executable), ("--version", f"molbox-worker {__version__}")],
)
def test_it_says_what_the_service_asks_for(argument: str, answer: str) -> None:
    said = subprocess.run([*COMMAND, argument], capture_output=True, text=True, check=True)
    assert said.stdout == f"{answer}\n"


def test_anything_else_is_a_task() -> None:
    said = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    assert said.returncode == 64
    assert "TASKDIR" in said.stderr
