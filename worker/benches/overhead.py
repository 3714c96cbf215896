"""What the worker adds to OpenMM: `python worker/benches/overhead.py [STEPS]`.

The same system, settings and seed are run by the worker through its task directory and by the least
script that OpenMM allows, in turn. The cost of a step is the difference of a long and a short run
divided by their steps, in CPU time, which other programs on the machine hardly change; what is left
of the short run is start-up.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "tests"))

from conftest import BUILD, EXAMPLES, SIMULATE, STAGE, Directory, changed, input_file, task_of  # noqa: E402

# As jobs are run: a frame and a line every 2500 steps is the default.
FREQUENCY = 500
BARE = """
import sys
import openmm
folder, steps = sys.argv[1], int(sys.argv[2])
system = openmm.XmlSerializer.deserialize(open(folder + "/system.xml").read())
state = openmm.XmlSerializer.deserialize(open(folder + "/state.xml").read())
integrator = openmm.LangevinMiddleIntegrator(300, 1, 0.002)
integrator.setConstraintTolerance(1e-6)
platform = openmm.Platform.getPlatformByName("CPU")
context = openmm.Context(system, integrator, platform, {"Threads": "1", "DeterministicForces": "true"})
context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
context.setPositions(state.getPositions())
context.setVelocitiesToTemperature(300, 7)
integrator.step(steps)
"""


def cpu_seconds(command: list[str]) -> float:
    """CPU time of a program."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def worker(system: Path, folder: Path, steps: int) -> float:
    """CPU time of a simulation by the worker."""
    shutil.rmtree(folder, ignore_errors=True)
    stage = {**STAGE, "steps": steps, "traj_freq": FREQUENCY, "log_freq": FREQUENCY}
    job = Directory(folder, task_of(changed(SIMULATE, {"minimization_steps": 0, "stages": [stage]})))
    for name in ("system.xml", "state.xml", "topology.json"):
        shutil.copy(system / name, folder / "input" / name)
    return cpu_seconds(job.command())


def main(steps: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        villin = {"protein": input_file("protein.pdb"), "padding_nm": 0.6, "box_shape": "dodecahedron"}
        build = Directory(folder / "build", task_of(changed(BUILD, villin)))
        shutil.copy(EXAMPLES / "1vii.pdb", build.path / "input" / "protein.pdb")
        assert build.run() == 0, build.log()
        # Minimised once, so that both start from what can be run.
        minimised = Directory(folder / "minimised", task_of(changed(SIMULATE, {"minimization_steps": 100})))
        for file in ("system.xml", "state.xml", "topology.json"):
            shutil.copy(build.output(file), minimised.path / "input" / file)
        assert minimised.run() == 0, minimised.log()
        shutil.copy(minimised.output("minimization.state.xml"), build.output("state.xml"))

        measured: dict[str, list[float]] = {"worker": [], "bare": []}
        start_up: dict[str, list[float]] = {"worker": [], "bare": []}
        for _ in range(3):
            for which, costs in measured.items():
                times = []
                for n in (steps // 4, steps):
                    if which == "worker":
                        times.append(worker(build.output(""), folder / "job", n))
                    else:
                        times.append(cpu_seconds([sys.executable, "-c", BARE, str(build.output("")), str(n)]))
                step = (times[1] - times[0]) / (steps - steps // 4)
                costs.append(step)
                start_up[which].append(times[0] - step * (steps // 4))
        ours, bare = (statistics.median(measured[which]) for which in ("worker", "bare"))
        report = {
            "atoms": build.result["summary"]["atoms"],
            "steps": steps,
            "frequency": FREQUENCY,
            "worker_ms_per_step": round(ours * 1000, 3),
            "bare_ms_per_step": round(bare * 1000, 3),
            "ratio": round(ours / bare, 4),
            "worker_start_up_s": round(statistics.median(start_up["worker"]), 2),
            "bare_start_up_s": round(statistics.median(start_up["bare"]), 2),
            "build_steps_s": build.result["seconds"],
        }
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
