"""The first stage of a simulation: its energy is minimised, and committed piece by piece."""

from __future__ import annotations

import math
import time

import numpy as np
import openmm
from numpy.typing import NDArray

from molbox_worker import springs
from molbox_worker.commit import Minimised
from molbox_worker.model import CONSTRAINT_TOLERANCE, counted, place, place_of, read_state
from molbox_worker.result import StageResult, Stopped, TaskError
from molbox_worker.simulation import MINIMIZATION, Simulation, StageClock, chunk_of

# Time between commits. They are small, and a step takes longer than one of dynamics.
COMMIT_SECONDS = 3.0
# Steps before the first commit, where the number is found by the clock.
FIRST_CHUNK = 10


def run(simulation: Simulation) -> None:
    """Minimise the energy, unless that is committed already."""
    last = simulation.commits.last
    if last.stage is not None:
        return
    clock = StageClock(last.seconds)
    model, task = simulation.model, simulation.task
    context = model.context(None, None)
    built = read_state(task.input("state.xml").read_bytes())
    place(context, built)
    # Coordinates of a file need not keep the constraints, which have no energy.
    context.applyConstraints(CONSTRAINT_TOLERANCE)
    context.computeVirtualSites()
    before = last.minimised.energy_before if last.minimised else _energy(context)
    if not math.isfinite(before):
        raise _not_finite("of the starting structure")
    limit = model.plan.minimization_steps
    steps = 0
    try:
        if limit > 0:
            positions, steps = _minimise(simulation, context, limit, before, clock)
            if model.is_exact:
                # A resumed attempt has calculated less with it.
                context.reinitialize()
                place(context, built)
            context.setPositions(positions)
            context.applyConstraints(CONSTRAINT_TOLERANCE)
            context.computeVirtualSites()
        after, forces = _energy(context), springs.net_forces(context)
    except openmm.OpenMMException as error:
        if "nan" in str(error).lower():
            raise _not_finite("in the minimisation") from error
        raise
    if not math.isfinite(after):
        raise _not_finite("after minimisation")
    task.log(f"minimization: {before:.0f} -> {after:.0f} kJ/mol in {steps} steps")
    _report_forces(simulation, forces, steps)
    ended = StageResult(
        name=MINIMIZATION,
        steps=steps,
        frames=0,
        seconds=round(clock.seconds(), 3),
        energy_before=before,
        energy_after=after,
        largest_force=float(forces.max()),
    )
    simulation.write_structure(MINIMIZATION, context)
    content = simulation.write_state(MINIMIZATION, context.getState(positions=True))
    start = simulation.commits.put("start.xml", content)
    simulation.commit(stage=0, step=0, seconds=0.0, ended=[ended], minimised=None, start=start)
    simulation.report(0, MINIMIZATION, steps, steps, is_end=True)


def _minimise(
    simulation: Simulation, context: openmm.Context, limit: int, before: float, clock: StageClock
) -> tuple[NDArray[np.float64], int]:
    """Go through the passes from where they were left; returns positions in nm and the steps of all."""
    model, commits = simulation.model, simulation.commits
    minimised = commits.last.minimised
    if minimised:
        index, pass_steps, steps = minimised.index, minimised.pass_steps, minimised.steps
        positions = commits.array(minimised.positions)
    else:
        index, pass_steps, steps = 0, 0, 0
        positions = np.array(context.getState(positions=True).getPositions(asNumpy=True)._value)
    box = context.getState().getPeriodicBoxVectors()
    system = springs.SpringSystem(
        model.system(None, None), box, model.platform, model.properties, is_exact=model.is_exact
    )
    chunk = simulation.exact_steps(COMMIT_SECONDS) if model.is_exact else FIRST_CHUNK
    while index < len(springs.SPRINGS):
        allowed = springs.allowance(index, limit, steps, pass_steps)
        n_steps = min(chunk, allowed)
        n_done, begin = 0, time.monotonic()
        if n_steps:
            system.stiffen(springs.SPRINGS[index])
            positions, n_done = system.minimise(positions, n_steps, _OnStep(simulation, steps, limit))
        if simulation.task.stop_requested:
            raise Stopped
        if not np.isfinite(positions).all():
            raise openmm.OpenMMException("Particle coordinate is NaN")
        steps, pass_steps = steps + n_done, pass_steps + n_done
        if n_done < n_steps or n_done == allowed:
            simulation.task.log(f"minimization: pass {index + 1} of {len(springs.SPRINGS)}, {pass_steps} steps")
            index, pass_steps = index + 1, 0
        elif not model.is_exact:
            chunk = chunk_of(chunk, time.monotonic() - begin, COMMIT_SECONDS)
        file = commits.put_array("minimization.npy", positions)
        simulation.commit(minimised=Minimised(index, pass_steps, steps, before, file), seconds=clock.seconds())
    return positions, steps


class _OnStep:
    """Reports how far a minimisation has come, and ends it when the service asks for that."""

    def __init__(self, simulation: Simulation, steps_before: int, limit: int) -> None:
        self._simulation = simulation
        self._steps = steps_before
        self._limit = limit

    def __call__(self) -> bool:
        """Called after each step; true ends it."""
        self._steps += 1
        self._simulation.report(0, MINIMIZATION, self._steps, self._limit)
        return self._simulation.task.stop_requested


def _report_forces(simulation: Simulation, forces: NDArray[np.float64], steps: int) -> None:
    """Log the net forces that remain, kJ/mol/nm by atom, and warn of large ones."""
    rms, largest = float(np.sqrt(np.mean(forces**2))), float(forces.max())
    simulation.task.log(f"net forces {rms:.1f} kJ/mol/nm (root mean square), at most {largest:.0f}")
    if rms <= springs.LARGE_RMS_FORCE and largest <= springs.LARGE_FORCE:
        return
    atom = list(simulation.model.topology.atoms())[int(np.argmax(forces))]
    simulation.task.warn(
        "minimization_unfinished",
        f"after {steps} of at most {simulation.model.plan.minimization_steps} minimization steps net forces of "
        f"{rms:.0f} kJ/mol/nm remain (root mean square; {largest:.0f} on {place_of(atom)}): beyond "
        f"{springs.LARGE_RMS_FORCE:.0f}, or {springs.LARGE_FORCE:.0f} on one atom, the simulation starts hot; "
        "give more minimization_steps",
        counted(atom.residue),
    )


def _energy(context: openmm.Context) -> float:
    """Potential energy, kJ/mol."""
    return float(context.getState(energy=True).getPotentialEnergy()._value)


def _not_finite(where: str) -> TaskError:
    return TaskError("not_finite", f"the energy {where} is not finite", stage=MINIMIZATION, loc=["body", "box_id"])
