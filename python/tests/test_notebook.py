"""The notebook of the examples, as it stands and executed again; the programs of the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import molbox_client as molbox

from .service import Real, real_service

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/first-protein.ipynb"
EXAMPLES = ROOT / "docs/examples"
# A program takes minutes of a CPU as it stands; shortened it is the same program.
SHORT: dict[str, Any] = {
    "equilibration": [],
    "minimization_steps": 10,
    "production": {"traj_freq": 20, "log_freq": 20},
}


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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_service(tmp_path_factory.mktemp("service")) as real:
        yield real


@pytest.fixture
def names(
    service: Real, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What programs share: they run in a folder with a structure, logged in."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MOLBOX_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MOLBOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shared: dict[str, Any] = {}
    yield shared
    for one in ("client", "mb"):
        if one in shared:
            shared[one].close()


def peptide() -> str:
    """Three residues of the villin headpiece: few atoms need little water."""
    lines = (ROOT / "examples/1vii.pdb").read_text().splitlines()
    kept = [line for line in lines if line.startswith("ATOM") and 42 <= int(line[22:26]) <= 44]
    return "\n".join([*kept, "END", ""])


def check_notebook(names: dict[str, Any]) -> None:
    for number, cell in enumerate(code_cells(), 1):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert isinstance(names["job"], molbox.Job)
    stages = names["job"].record.stages or []
    assert len(names["radii"]) == stages[-1].frames


# The libraries that read results warn of what is none of ours.
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_on_a_peptide(names: dict[str, Any]) -> None:
    Path("1vii.pdb").write_text(peptide())
    check_notebook(names)
    assert len(names["rmsf"]) == 3


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(names: dict[str, Any]) -> None:
    Path("1vii.pdb").write_bytes((ROOT / "examples/1vii.pdb").read_bytes())
    check_notebook(names)


@pytest.mark.filterwarnings("ignore")
def test_the_programs_of_the_pages_run_shortened(
    names: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("1vii.pdb").write_text(peptide())
    whole = molbox.Client.run

    def run(self: molbox.Client, structure: str, **asked: Any) -> molbox.Job:
        return whole(self, structure, **asked, time="0.4 ps", **SHORT)

    monkeypatch.setattr(molbox.Client, "run", run)
    programs = sorted(EXAMPLES.glob("*.py"))
    # Those of a page go on where the one before has ended.
    text = (ROOT / "docs/tutorials/notebook.md").read_text()
    in_page = [EXAMPLES / name for name in re.findall(r'--8<-- "(.+\.py)"', text)]
    alone = [path for path in programs if path not in in_page]
    assert [path.name for path in alone] == ["first_protein.py"]
    for path in [*in_page, *alone]:
        exec(compile(path.read_text(), path.name, "exec"), names)
    printed = capsys.readouterr().out
    assert "did you mean temperature?" in printed
    # The tables of both programs.
    assert printed.count("rmsd_angstrom") == 2
