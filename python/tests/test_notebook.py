"""The notebook of the examples: executed as it stands, and the same when it is executed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import molbox_client as molbox

from .service import real_service

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/first-protein.ipynb"


def code_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_the_notebook_is_as_its_last_execution_left_it() -> None:
    cells = code_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [one for one in outputs if one["output_type"] == "error"]
    assert sum("image/png" in one.get("data", {}) for one in outputs) == 2
    # What was seen on one machine says nothing to others, and keys have no place here.
    text = NOTEBOOK.read_text()
    assert "/home/" not in text
    assert "/root/" not in text
    assert "mbx_" not in text


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(ROOT / "examples")
    with real_service(tmp_path) as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MOLBOX_CACHE", str(tmp_path / "cache"))
        names: dict[str, Any] = {}
        for number, cell in enumerate(code_cells(), 1):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert isinstance(names["job"], molbox.Job)
    stages = names["job"].record.stages or []
    assert len(names["radii"]) == stages[-1].frames
