"""OpenMM and GROMACS on the same systems: `python worker/benches/engines.py FOLDER [SYSTEM ...]`.

Of each system, number of threads and time step the worker runs both engines in turn, and `gmx mdrun` the same
input without the worker. The cost of a step is the difference of a long and a short run divided by their steps, so
that start-up is left out: CPU time, which other programs on the machine hardly change, and wall time, from which
ns/day follow and which they do. The systems are built once and kept in FOLDER.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "tests"))

from conftest import BUILD, DATA, EXAMPLES, SIMULATE, STAGE, Directory, changed, input_file, task_of  # noqa: E402

from molbox_worker.gromacs.program import find  # noqa: E402

# Structure and changes of the plan.
SYSTEMS: dict[str, tuple[Path, dict[str, Any]]] = {
    "villin": (EXAMPLES / "1vii.pdb", {"padding_nm": 0.8, "box_shape": "dodecahedron"}),
    "lysozyme": (DATA / "t4-lysozyme.pdb.gz", {"padding_nm": 1.0, "box_shape": "dodecahedron"}),
    "transporter": (DATA / "2nwl_a.pdb.gz", {"padding_nm": 1.2, "membrane": "POPC", "max_atoms": 200_000}),
}
ENGINES = ("openmm", "gromacs", "mdrun")
ROUNDS = 3
# Steps of a long run of one engine: so many atoms times steps take 12 s on one thread.
ATOM_STEPS = {"openmm": 1_600_000, "gromacs": 6_400_000, "mdrun": 6_400_000}
LIST_STEPS = 20
FREQUENCY = 2500
DAY_S = 86_400


@dataclass(frozen=True)
class Cost:
    """What something took, in seconds."""

    cpu: float
    wall: float

    def per_step_beyond(self, short: Cost, steps: int) -> Cost:
        """The cost of each step that a run took more than a short one."""
        return Cost((self.cpu - short.cpu) / steps, (self.wall - short.wall) / steps)


def cost(command: list[str], folder: Path) -> Cost:
    """What a program takes."""
    before, start = os.times(), time.monotonic()
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after, end = os.times(), time.monotonic()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(cpu, end - start)


def build(folder: Path, name: str) -> Path:
    """The folder of a minimised system; built if it is not there."""
    structure, changes = SYSTEMS[name]
    ready = folder / name / "ready"
    if not ready.is_dir():
        shutil.rmtree(folder / name, ignore_errors=True)
        protein = {"protein": input_file("protein.pdb")}
        built = Directory(folder / name / "build", task_of(changed(BUILD, {**protein, **changes}), {"threads": 2}))
        content = structure.read_bytes()
        unpacked = gzip.decompress(content) if structure.suffix == ".gz" else content
        (built.path / "input" / "protein.pdb").write_bytes(unpacked)
        assert built.run() == 0, built.log()
        plan = changed(SIMULATE, {"minimization_steps": 200, "stages": [{**STAGE, "steps": 500}]})
        minimised = Directory(folder / name / "minimised", task_of(plan, {"threads": 2}))
        _copy(built.output(""), minimised.path / "input")
        assert minimised.run() == 0, minimised.log()
        shutil.copy(minimised.output("production.state.xml"), built.output("state.xml"))
        _copy(built.output(""), ready)
    return ready


def _copy(system: Path, to: Path) -> None:
    to.mkdir(exist_ok=True)
    for name in ("system.xml", "state.xml", "topology.json"):
        shutil.copy(system / name, to / name)


def job(system: Path, folder: Path, engine: str, steps: int, threads: int, timestep_fs: float) -> Directory:
    """A task that simulates a system at constant volume."""
    shutil.rmtree(folder, ignore_errors=True)
    stage = {**STAGE, "steps": steps, "traj_freq": FREQUENCY, "log_freq": FREQUENCY}
    plan = {"minimization_steps": 0, "stages": [stage], "engine": engine, "timestep_fs": timestep_fs}
    directory = Directory(folder, task_of(changed(SIMULATE, plan), {"threads": threads}))
    _copy(system, directory.path / "input")
    return directory


def measure(system: Path, work: Path, n_atoms: int, threads: int, timestep_fs: float) -> dict[str, list[Cost]]:
    """Costs of a step of each engine, round by round."""
    gromacs = find(None)
    assert gromacs is not None, "needs gmx"

    def worker(engine: str) -> Callable[[int], Cost]:
        def run(steps: int) -> Cost:
            directory = job(system, work / engine, engine, steps, threads, timestep_fs)
            return cost(directory.command(), directory.path)

        return run

    def mdrun(steps: int) -> Cost:
        # The input is what the worker has made for its own run.
        fixed = f"-ntmpi 1 -ntomp {threads} -pin off -nb cpu -notunepme -nstlist {LIST_STEPS} -nsteps {steps}"
        command = [gromacs.path, "-nobackup", "mdrun", "-s", "stage.tpr", "-deffnm", "bare", *fixed.split()]
        return cost(command, work / "gromacs" / "work" / "gromacs")

    runs = {"openmm": worker("openmm"), "gromacs": worker("gromacs"), "mdrun": mdrun}
    costs: dict[str, list[Cost]] = {engine: [] for engine in ENGINES}
    for _ in range(ROUNDS):
        for engine in ENGINES:
            long = max(4, threads * ATOM_STEPS[engine] // n_atoms // LIST_STEPS // 4 * 4) * LIST_STEPS
            short = long // 4
            first = runs[engine](short)
            costs[engine].append(runs[engine](long).per_step_beyond(first, long - short))
    return costs


def main(folder: Path, names: list[str]) -> None:
    """Measure and print, a line of JSON for each case."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        system = build(folder, name)
        n_atoms = len(json.loads((system / "topology.json").read_text())["positions"])
        for threads in (1, 2):
            for timestep_fs in (2.0, 4.0):
                costs = measure(system, folder / "work", n_atoms, threads, timestep_fs)
                cpu, wall = (
                    {engine: statistics.median(getattr(each, kind) for each in costs[engine]) for engine in ENGINES}
                    for kind in ("cpu", "wall")
                )
                ns_per_day = {engine: timestep_fs * 1e-6 * DAY_S / seconds for engine, seconds in wall.items()}
                report = {
                    "system": name,
                    "atoms": n_atoms,
                    "threads": threads,
                    "timestep_fs": timestep_fs,
                    "cpu_ms_per_step": {engine: round(seconds * 1000, 2) for engine, seconds in cpu.items()},
                    "wall_ms_per_step": {engine: round(seconds * 1000, 2) for engine, seconds in wall.items()},
                    "ns_per_day": {engine: round(speed, 2) for engine, speed in ns_per_day.items()},
                    "gromacs_to_openmm": {"cpu": ratio(cpu, "openmm"), "wall": ratio(wall, "openmm")},
                    "gromacs_to_mdrun": {"cpu": ratio(cpu, "mdrun"), "wall": ratio(wall, "mdrun")},
                }
                print(json.dumps(report), flush=True)


def ratio(seconds: dict[str, float], peer: str) -> float:
    """The time of a step by GROMACS in jobs to that of another."""
    return round(seconds["gromacs"] / seconds[peer], 3)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(SYSTEMS))
