"""Task directories for tests: the worker is started on them as the service starts it."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openmm import app

from molbox_worker.plan import (
    BuildPlan,
    BuildTask,
    EnvironmentTask,
    SimulatePlan,
    SimulateTask,
    from_json,
    read_task,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
DATA = Path(__file__).parent / "data"

CONTRACT = Path(__file__).parent / "contract"
Spec = BuildTask | SimulateTask | EnvironmentTask


def example(name: str) -> Any:
    """A task as the service writes it."""
    return read_task((CONTRACT / f"task_{name}.json").read_text())


def changed(value: Any, changes: dict[str, Any]) -> Any:
    """A task or plan with other values. A field that it has not is an error, and so is one that an object lacks."""
    return from_json(type(value), {**dataclasses.asdict(value), **changes}, "changed")


BUILD = changed(example("build").plan, {"padding_nm": 1.2, "max_atoms": 100_000})
# What is stated of OpenMM is not to depend on what else is installed.
SIMULATE = changed(example("simulate").plan, {"minimization_steps": 50, "stages": [], "engine": "openmm"})
STAGE: dict[str, Any] = {
    "name": "production",
    "ensemble": "NVT",
    "steps": 100,
    "traj_freq": 0,
    "log_freq": 0,
    "restraint_force": 0,
    "restraint_atoms": [],
}
AMBER19: dict[str, Any] = {
    "force_field": {"name": "amber19", "family": "amber", "files": ["amber19-all.xml"], "custom": None},
    "water": {"name": "opc", "file": "amber19/opc.xml", "model": "tip4pew", "sites": 4},
}
CHARMM36_2024: dict[str, Any] = {
    "force_field": {"name": "charmm36_2024", "family": "charmm", "files": ["charmm36_2024.xml"], "custom": None},
    "water": {"name": "tip3p", "file": "charmm36_2024/water.xml", "model": "tip3p", "sites": 3},
}


def task_of(plan: BuildPlan | SimulatePlan, changes: dict[str, Any] | None = None) -> Spec:
    """The task of a plan, on one thread."""
    base = example("build" if isinstance(plan, BuildPlan) else "simulate")
    settings = {"seed": 7, "threads": 1, "platform": "CPU", "cache": "", **(changes or {})}
    task: Spec = dataclasses.replace(changed(base, settings), plan=plan)
    return task


class Directory:
    """A task directory and what the worker made of it."""

    def __init__(self, path: Path, spec: Spec) -> None:
        self.path = path
        (path / "input").mkdir(parents=True)
        # Unless a test shares one, each has a cache of its own.
        self.spec = dataclasses.replace(spec, cache=spec.cache or str(path / "cache"))
        (path / "task.json").write_text(json.dumps(dataclasses.asdict(self.spec)))

    @property
    def work(self) -> Path:
        return self.path / "work"

    def command(self) -> list[str]:
        return [sys.executable, "-I", "-B", "-m", "molbox_worker", str(self.path)]

    def run(self) -> int:
        with (self.path / "log.txt").open("a") as log:
            return subprocess.run(self.command(), stdout=log, stderr=log, check=False).returncode

    def start(self) -> subprocess.Popen[bytes]:
        with (self.path / "log.txt").open("a") as log:
            return subprocess.Popen(self.command(), stdout=log, stderr=log)

    @property
    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.work / "result.json").read_text())
        return result

    def log(self) -> str:
        return (self.path / "log.txt").read_text()

    def output(self, name: str) -> Path:
        return self.work / "output" / name


def text(path: Path) -> str:
    """The content of a file that may be compressed."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def input_file(file: str, name: str | None = None) -> dict[str, Any]:
    """The plan's entry for a file of the input folder; its owner calls it by that name unless told otherwise."""
    return {"file_id": "file_1", "file": file, "format": file.rsplit(".", maxsplit=1)[-1], "name": name or file}


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Directory]:
    """Build a system: the structure's text or file, other input files, changes of the plan and the task."""

    def build(
        structure: Path | str | None = None,
        *,
        seed: int = 7,
        inputs: dict[str, Path | str] | None = None,
        task: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Directory:
        if structure is not None:
            changes = {"protein": input_file("protein.pdb", "test"), **changes}
        plan = changed(BUILD, changes)
        directory = Directory(tmp_path_factory.mktemp("build") / "task", task_of(plan, {"seed": seed, **(task or {})}))
        for name, content in (inputs or {}).items():
            (directory.path / "input" / name).write_text(content if isinstance(content, str) else content.read_text())
        if structure is not None:
            target = directory.path / "input" / plan.protein.file
            target.write_text(structure if isinstance(structure, str) else text(structure))
        directory.run()
        return directory

    return build


def structure(directory: Directory, name: str = "system") -> app.PDBxFile:
    """The built structure, as a viewer reads it."""
    return app.PDBxFile(str(directory.output(f"{name}.cif")))


def positions_nm(file: app.PDBxFile) -> NDArray[np.float64]:
    return np.array(file.getPositions(asNumpy=True)._value)


def warnings(directory: Directory) -> dict[str, list[str]]:
    """Messages by code."""
    found: dict[str, list[str]] = {}
    for warning in directory.result["warnings"]:
        found.setdefault(warning["code"], []).append(warning["message"])
    return found


@pytest.fixture(scope="session")
def villin(builder: Callable[..., Directory]) -> Directory:
    """The villin headpiece in water."""
    directory = builder(EXAMPLES / "1vii.pdb", box_shape="dodecahedron", padding_nm=0.6)
    assert directory.result["status"] == "succeeded", directory.log()
    return directory


@pytest.fixture(scope="session")
def water(builder: Callable[..., Directory]) -> Directory:
    """A box of salt water."""
    directory = builder()
    assert directory.result["status"] == "succeeded", directory.log()
    return directory


@pytest.fixture
def simulation(tmp_path: Path) -> Callable[..., Directory]:
    """A simulation of a built system that has not been started yet."""

    def prepare(system: Directory, stages: list[dict[str, Any]], **changes: Any) -> Directory:
        task = {
            key: changes.pop(key) for key in ("threads", "platform", "checkpoint_seconds", "gromacs") if key in changes
        }
        plan = changed(SIMULATE, {**changes, "stages": [{**STAGE, **stage} for stage in stages]})
        path = tmp_path / f"simulation{len(list(tmp_path.iterdir()))}"
        directory = Directory(path, task_of(plan, task))
        for name in ("system.xml", "state.xml", "topology.json"):
            shutil.copy(system.output(name), directory.path / "input" / name)
        return directory

    return prepare
