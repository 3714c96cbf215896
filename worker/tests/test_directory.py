"""What the task directory shows to others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import BUILD, Directory, changed, input_file, task_of

from molbox_worker.directory import without_folders


def test_a_failure_that_nobody_expected_shows_no_folder_of_the_machine(tmp_path: Path) -> None:
    # Its structure is not there.
    directory = Directory(tmp_path / "task", task_of(changed(BUILD, {"protein": input_file("protein.pdb")})))
    assert directory.run() == 1, directory.log()
    assert directory.result["error"]["code"] == "internal"
    shown = directory.log() + (directory.work / "result.json").read_text()
    assert 'File "build.py"' in directory.log(), "it shows where it failed"
    assert not re.search(r"/\w+/\w", shown), shown


@pytest.mark.parametrize(
    "text",
    ["1e6 kJ/mol/nm", "https://example.org/a/b", "C/C=C/C", ":1/2/3@CA", "a / b", "1/4"],
)
def test_what_is_no_path_is_left_as_it_is(text: str) -> None:
    assert without_folders(f"see {text}") == f"see {text}"
