"""Running a simulation: minimisation, equilibration stages, production.

Killed at any moment and started again, it resumes as if nothing had been: from the last commit, which
`commit.py` explains.

A checkpoint is good on the same platform only; the portable state beside it serves on others.

On one thread of the CPU platform, resuming is exact to the bit. OpenMM's forces depend in their last
bits on the neighbour list, which is as old as the context; so there commits are made at fixed steps,
and the context is made anew after each, as it would be after a kill. Asked to stop, it leaves without
another commit, and the few steps since the last are run again.

The last commit of a production stage stays when it has succeeded. Given it, the results and a plan with
more steps, the same code continues: the job is extended.
"""

from __future__ import annotations

from molbox_worker import minimise
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import versions
from molbox_worker.plan import SimulateTask
from molbox_worker.result import SimulationResult
from molbox_worker.simulation import Simulation
from molbox_worker.stage import StageRun


def simulate(task: TaskDirectory, spec: SimulateTask) -> SimulationResult:
    """Run, or resume, the simulation of a task."""
    simulation = Simulation(task, spec)
    minimise.run(simulation)
    for index, stage in enumerate(spec.plan.stages):
        StageRun(simulation, index, stage).run()
    return SimulationResult(simulation.ended, simulation.model.platform.getName(), versions())
