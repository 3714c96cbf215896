"""Running a simulation: minimisation, equilibration stages, production.

Killed at any moment and started again, it resumes as if nothing had been: from the last commit, which
`commit.py` explains.

A checkpoint is good on the same platform only; the portable state beside it serves on others, and with the
other engine.

OpenMM minimises; what runs a stage is OpenMM or GROMACS (`gromacs/`). Left to choose, it is GROMACS where
OpenMM would calculate on a CPU and `gmx` is there, but for what GROMACS cannot calculate exactly as OpenMM does.

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
from molbox_worker.engine import GPU, versions
from molbox_worker.gromacs import mdp, program
from molbox_worker.gromacs.program import Broken, Gromacs
from molbox_worker.gromacs.run import GROMACS, GromacsRun
from molbox_worker.gromacs.terms import Unsupported
from molbox_worker.method import version_of
from molbox_worker.plan import SimulateTask, Stage
from molbox_worker.result import SimulationResult, Stopped, TaskError
from molbox_worker.simulation import OPENMM, Simulation
from molbox_worker.stage import OpenMMRun

MISSING_REMEDY = "leave engine out, or have the operator install GROMACS or set `worker.gromacs`"


def simulate(task: TaskDirectory, spec: SimulateTask) -> SimulationResult:
    """Run, or resume, the simulation of a task."""
    simulation = Simulation(task, spec)
    gromacs = _gromacs(simulation, spec)
    simulation.engine = GROMACS if gromacs else OPENMM
    minimise.run(simulation)
    for index, stage in enumerate(spec.plan.stages):
        last = simulation.commits.last.stage
        if last is None or last > index:
            continue
        if task.stop_requested:
            raise Stopped
        _run(simulation, index, stage, gromacs)
    # It may be here, or run this attempt, and have no part in what there is.
    ran = version_of(task.output, spec.plan.stages, GROMACS)
    has_part = {GROMACS: ran} if ran else {}
    return SimulationResult(
        simulation.ended, simulation.model.platform.getName(), simulation.engine, {**versions(), **has_part}
    )


def _gromacs(simulation: Simulation, spec: SimulateTask) -> Gromacs | None:
    """The GROMACS that is to run the stages; None where OpenMM is.

    Raises
    ------
    TaskError
        ``engine_missing`` where it is asked for and not there.

    """
    wanted, on_gpu = spec.plan.engine, simulation.model.platform.getName() in GPU
    if wanted == OPENMM or (wanted == "auto" and on_gpu):
        return None
    found = program.find(spec.gromacs)
    if found:
        simulation.task.log(f"GROMACS {found.version}, {found.simd}, {spec.threads} threads")
    elif wanted == GROMACS:
        raise TaskError(
            "engine_missing",
            "there is no gmx here that runs",
            remedy=MISSING_REMEDY,
            loc=["body", "engine"],
        )
    return found


def _run(simulation: Simulation, index: int, stage: Stage, gromacs: Gromacs | None) -> None:
    """Run a stage with the engine that began it, or with the faster that can."""
    checkpoint = simulation.commits.last.checkpoint
    wanted = simulation.model.plan.engine
    is_openmms = checkpoint is not None and GROMACS not in {checkpoint.platform, wanted}
    if gromacs and not is_openmms:
        try:
            mdp.refuse(simulation.model.plan, stage)
            simulation.engine = GROMACS
            GromacsRun(simulation, index, stage, gromacs).run()
            return
        except (Unsupported, Broken) as reason:
            if isinstance(reason, Unsupported):
                code, why = "engine_unsupported", f"GROMACS cannot run this as OpenMM does: {reason}"
                remedy = f"leave engine out, {reason.remedy}" if reason.remedy else "leave engine out"
            else:
                code, why, remedy = "engine_missing", f"the gmx here does not work: {reason}", MISSING_REMEDY
            name = stage.name
            if wanted == GROMACS:
                raise TaskError(code, f"{name}: {why}", remedy=remedy, loc=["body", "engine"], stage=name) from reason
            simulation.task.warn("engine_changed", f"{name}: run by OpenMM, for {why}")
    simulation.engine = OPENMM
    OpenMMRun(simulation, index, stage).run()
