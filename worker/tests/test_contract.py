"""The contract with the service: its `task.json` is read strictly, and each `result.json` has an example.

`contract/task_*.json` are written by a test of the service and `contract/result_*.json` by this one;
each side reads those of the other. `MOLBOX_BLESS=1` renews them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.abc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BUILD, CONTRACT, Directory, changed, example, input_file, task_of
from test_residues import part

from molbox_worker import result
from molbox_worker.__main__ import load
from molbox_worker.directory import TaskDirectory
from molbox_worker.model import Model
from molbox_worker.plan import InvalidTask, SimulateTask, read_task
from molbox_worker.result import as_json

TASKS = sorted(path.stem.removeprefix("task_") for path in CONTRACT.glob("task_*.json"))


@pytest.mark.parametrize("name", TASKS)
def test_a_task_of_the_service_is_read_to_the_last_field(name: str) -> None:
    written = json.loads((CONTRACT / f"task_{name}.json").read_text())
    assert dataclasses.asdict(example(name)) == written


def test_each_kind_of_task_has_an_example() -> None:
    assert {example(name).kind for name in TASKS} == {"build", "simulate", "environment"}


def without(content: dict[str, Any], *path: str | int) -> None:
    *before, last = path
    inner: Any = content
    for step in before:
        inner = inner[step]
    del inner[last]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("build", lambda task: task.update(colour=1), "colour: unknown field"),
        ("build", lambda task: without(task, "seed"), "seed: missing field"),
        ("build", lambda task: without(task, "plan", "force_field", "custom"), "plan.force_field.custom: missing"),
        ("build", lambda task: task["plan"].update(padding=1.0), "plan.padding: unknown field"),
        ("build", lambda task: task["plan"].update(ph="7"), 'plan.ph: must be a number, got "7"'),
        ("build", lambda task: task["plan"].update(ph=None), "plan.ph: must be a number, got null"),
        ("build", lambda task: task["plan"].update(keep_hydrogens=1), "plan.keep_hydrogens: must be true or false"),
        ("build", lambda task: task["plan"].update(box_shape="ball"), "plan.box_shape: must be one of cube, "),
        ("build", lambda task: task["plan"].update(chains="A"), "plan.chains: must be a list"),
        ("build", lambda task: task.update(plan=[]), "plan: must be an object, got []"),
        ("build", lambda task: task.update(kind="brew"), "kind: must be one of build, simulate, environment"),
        ("build", lambda task: task.update(threads=True), "threads: must be a whole number, got true"),
        (
            "simulate",
            lambda task: task["plan"]["stages"][1].update(ensemble="NVE"),
            "plan.stages[1].ensemble: must be one of NVT, NPT",
        ),
        (
            "simulate",
            lambda task: task["plan"]["stages"][0].update(restraint_atoms=[0, 1.5]),
            "plan.stages[0].restraint_atoms[1]: must be a whole number, got 1.5",
        ),
        ("simulate", lambda task: task.update(plan=json.loads('{"a": NaN}')), "plan.a: unknown field"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_named(
    name: str, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    task = json.loads((CONTRACT / f"task_{name}.json").read_text())
    change(task)
    with pytest.raises(InvalidTask, match=re.escape(f"task.json: {message}")) as error:
        read_task(json.dumps(task))
    assert error.value.attempt == 1


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "build"', "1"])
def test_what_is_no_task_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidTask, match=r"task\.json"):
        read_task(text)


def test_a_task_of_another_version_is_the_operators_to_fix(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "task", task_of(BUILD))
    path = directory.path / "task.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "red"}))
    assert directory.run() == 2, directory.log()
    assert directory.result["status"] == "failed"
    assert directory.result["error"]["code"] == "environment_broken"
    assert "task.json: colour: unknown field" in directory.result["error"]["message"]
    # Without an attempt there is none that a result could be of.
    (directory.work / "result.json").unlink()
    path.write_text("{}")
    assert directory.run() == 5
    assert not (directory.work / "result.json").exists()


@pytest.mark.parametrize("error", [MemoryError(), SystemError("error return without exception set"), RuntimeError()])
def test_whatever_keeps_a_module_from_being_imported_is_the_environments(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == "molbox_worker.build":
                raise error

    directory = Directory(tmp_path / "task", task_of(BUILD))
    monkeypatch.delitem(sys.modules, "molbox_worker.build", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(ImportError, match=type(error).__name__):
        load(TaskDirectory(directory.path))


# An interpreter in which the module of checks is imported for ever, from a file system that hangs.
HANGING = """
import importlib.abc, signal, sys
from molbox_worker.__main__ import main

class Hanging(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, *_):
        while fullname == "molbox_worker.environment":
            signal.pause()

sys.meta_path.insert(0, Hanging())
sys.exit(main(["", sys.argv[1]]))
"""


def test_a_check_that_stands_still_ends_by_itself(tmp_path: Path) -> None:
    # The service that waits for it may be gone.
    directory = Directory(tmp_path / "task", changed(example("environment"), {"plan": {"seconds": 1}}))
    ended = subprocess.run([sys.executable, "-c", HANGING, directory.path], check=False, timeout=60)
    assert ended.returncode == -signal.SIGALRM


def test_a_commit_is_found_again_by_the_plan_as_it_was_written(water: Directory, tmp_path: Path) -> None:
    # What identified simulations before their plans were dataclasses, so that none that was under way is lost.
    directory = Directory(tmp_path / "task", example("simulate"))
    for name in ("system.xml", "state.xml", "topology.json"):
        (directory.path / "input" / name).write_bytes(water.output(name).read_bytes())
    task = TaskDirectory(directory.path)
    assert isinstance(task.spec, SimulateTask)
    plan = json.loads((CONTRACT / "task_simulate.json").read_text())["plan"]
    # Either engine resumes what the other has left, and excerpts are made of what is written.
    del plan["engine"], plan["excerpt_atoms"]
    stages = [{**stage, "steps": 0 if stage["name"] == "production" else stage["steps"]} for stage in plan["stages"]]
    inputs = json.dumps({**plan, "stages": stages}, sort_keys=True) + str(task.spec.seed)
    inputs += water.output("system.xml").read_text()
    assert Model(task, task.spec).fingerprint() == hashlib.sha256(inputs.encode()).hexdigest()


# --- result.json

Ended = Callable[["Runs"], Directory]


@dataclasses.dataclass
class Runs:
    """What carries out tasks."""

    build: Callable[..., Directory]
    simulation: Callable[..., Directory]
    path: Path

    def job(self, *stages: dict[str, Any], **changes: Any) -> Directory:
        """A job of a box of salt water."""
        job = self.simulation(self.build(), list(stages), **changes)
        job.run()
        return job

    def task(self, spec: Any) -> Directory:
        """A task without input files."""
        directory = Directory(self.path / "task", spec)
        directory.run()
        return directory


PEPTIDE = "".join(part(44, 54))
SMALL = {"padding_nm": 0.5, "box_shape": "octahedron"}
ENDS: dict[str, Ended] = {
    "build": lambda runs: runs.build(PEPTIDE, **SMALL),
    "build_with_warnings": lambda runs: runs.build("".join(part(44, 54, {50: "MSE"})), **SMALL),
    "build_without_protein": lambda runs: runs.build(),
    "job": lambda runs: runs.job({"name": "equilibration_1", "steps": 10}, {"ensemble": "NPT", "steps": 20}),
    "job_with_warnings": lambda runs: runs.job({"steps": 0}, minimization_steps=1),
    "environment": lambda runs: runs.task(dataclasses.replace(example("environment"), platform="CPU")),
    "failed_by_request": lambda runs: runs.build(padding_nm=5.0, max_atoms=50_000),
    "failed_by_input": lambda runs: runs.build(PEPTIDE.replace("ATOM  ", "REMARK")),
    "failed_in_a_stage": lambda runs: runs.job({"steps": 100}, temperature_k=1e7, timestep_fs=5, minimization_steps=0),
    "failed_by_engine": lambda runs: runs.task(task_of(changed(BUILD, {"protein": input_file("lost.pdb")}))),
    "failed_by_operator": lambda runs: runs.task(dataclasses.replace(example("environment"), platform="HIP")),
    "failed_by_version": lambda runs: runs.task(dataclasses.replace(task_of(BUILD), threads="many")),
}
# Members whose values are a part of the contract, and not only their types.
WORDS = {"status", "code", "loc", "stage", "name", "attempt"}


def form(value: Any, name: str = "") -> Any:
    """A JSON value without what another run, machine or version would have another of."""
    if isinstance(value, dict):
        return {key: form(member, key) for key, member in value.items()}
    if name in WORDS:
        return value
    if isinstance(value, list):
        return [form(item) for item in value]
    return type(value).__name__


@pytest.mark.parametrize("name", ENDS)
def test_each_way_to_end_has_its_example(
    name: str, builder: Callable[..., Directory], simulation: Callable[..., Directory], tmp_path: Path
) -> None:
    ended = ENDS[name](Runs(builder, simulation, tmp_path))
    path = CONTRACT / f"result_{name}.json"
    if os.environ.get("MOLBOX_BLESS"):
        path.write_text(json.dumps(ended.result, indent=2) + "\n")
    assert path.exists(), "MOLBOX_BLESS=1 writes it"
    known = json.loads(path.read_text())
    assert form(known) == form(ended.result), f"{path.name} is stale; MOLBOX_BLESS=1 renews it"
    assert list(known) == list(ended.result)


def test_no_example_is_left_over() -> None:
    assert {path.stem.removeprefix("result_") for path in CONTRACT.glob("result_*.json")} == set(ENDS)


def test_members_without_a_value_are_left_out() -> None:
    failure = result.Failure("code", "message", loc=["body", 1])
    assert as_json(result.FailedResult(failure)) == {
        "error": {"code": "code", "message": "message", "loc": ["body", 1]}
    }
