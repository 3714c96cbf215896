"""What the job directory shows to others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from molbox_worker.job import without_folders


def test_a_failure_that_nobody_expected_shows_no_folder_of_the_machine(tmp_path: Path) -> None:
    task = {"kind": "build", "id": "box", "attempt": 1, "plan": {}, "seed": 1, "threads": 1}
    (tmp_path / "task.json").write_text(json.dumps(task))
    run = subprocess.run([sys.executable, "-m", "molbox_worker", tmp_path], capture_output=True, text=True, check=False)
    result = json.loads((tmp_path / "work/result.json").read_text())
    assert (run.returncode, result["error"]["code"]) == (1, "internal"), run.stderr
    shown = run.stdout + json.dumps(result)
    assert 'File "build.py"' in run.stdout, "it shows where it failed"
    assert not re.search(r"/\w+/\w", shown), shown


@pytest.mark.parametrize(
    "text",
    ["1e6 kJ/mol/nm", "https://example.org/a/b", "C/C=C/C", ":1/2/3@CA", "a / b", "1/4"],
)
def test_what_is_no_path_is_left_as_it_is(text: str) -> None:
    assert without_folders(f"see {text}") == f"see {text}"
