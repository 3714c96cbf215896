"""Why a simulation broke: the failure in words of its physics, and the atoms where it began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import openmm
from numpy.typing import NDArray

from molbox_worker.model import Model, counted, place, place_of
from molbox_worker.plan import Stage
from molbox_worker.result import ResidueName, TaskError

# From one step to the next, forces do not grow by this much in anything that holds together.
DEADLY_FORCE = 1e4
MAX_MORE_STEPS = 50
# Atoms that the report of an instability names.
WORST_ATOMS = 3
# Beyond this, K, water boils at any pressure and bonds are no springs any more.
HOT_K = 1000


@dataclass(frozen=True)
class Chunk:
    """Steps that are taken in one call.

    Attributes
    ----------
    first
        The step before them.
    before
        Positions and velocities before them.

    """

    first: int
    n_steps: int
    before: openmm.State


@dataclass(frozen=True)
class Diagnosis:
    """What was found as steps were taken once more.

    Attributes
    ----------
    first, last
        Where they began, and the last sound step.
    where
        What is wrong, and on which atoms.

    """

    first: int
    last: int
    is_sound: bool
    where: str
    residues: list[ResidueName]


def explained(
    error: openmm.OpenMMException, model: Model, stage: Stage, start: openmm.State, chunk: Chunk
) -> Exception:
    """The error of a stage in words of its physics; itself when it has to do with something else.

    Restraints hold to `start`, and the steps of `chunk` are the last that were tried.
    """
    text = str(error)
    # Of a box that is too small at first, and of one that becomes it.
    if "cutoff distance cannot be greater than half" in text or "periodic box size has decreased" in text:
        box = np.diag(chunk.before.getPeriodicBoxVectors(asNumpy=True)._value)
        return collapsed(model, stage, chunk.first, float(box.min()))
    if "nan" in text.lower() or "constraint" in text.lower():
        return unstable(model, stage, diagnose(model, stage, start, chunk))
    unexplained: Exception = error
    return unexplained


def collapsed(model: Model, stage: Stage, step: int, width_nm: float) -> TaskError:
    """The failure of a stage whose box has become too narrow after a step."""
    return TaskError(
        "box_collapsed",
        f"{stage.name}: after step {step} the box shrank below twice the cutoff, "
        f"{model.plan.cutoff_nm:g} nm; it was {width_nm:.3f} nm wide",
        remedy="build with a larger minimum_padding, lower non_bonded_cutoff, or ask for NVT stages alone",
        loc=["body", "non_bonded_cutoff"],
        stage=stage.name,
        step=step,
    )


def unstable(model: Model, stage: Stage, found: Diagnosis, *, seen: int = 0) -> TaskError:
    """The failure of a stage that broke, and not before the step `seen`."""
    last = max(found.last, seen)
    remedy = "minimise longer, lower integration_timestep, or add restrained equilibration stages"
    loc: list[str | int] = ["body", "integration_timestep"]
    hot = ""
    if model.plan.temperature_k > HOT_K:
        hot = f" at {model.plan.temperature_k:g} K, which is far above what force fields are made for"
        remedy, loc = f"lower temperature; else {remedy}", ["body", "temperature"]
    return TaskError(
        "unstable",
        f"{stage.name}: the simulation became unstable after step {last}{hot}: {found.where}",
        remedy=remedy,
        loc=loc,
        stage=stage.name,
        step=last,
        residues=found.residues,
    )


def diagnose(model: Model, stage: Stage, start: openmm.State, chunk: Chunk) -> Diagnosis:
    """Run a chunk once more, step by step, and look where it breaks."""
    first = chunk.first
    context = model.context(stage, start, grouped=True)
    place(context, chunk.before)
    context.setVelocities(chunk.before.getVelocities())
    at_first = _terms(context)
    last, terms, is_sound = first, at_first, False
    forces = _forces(context)
    # Random forces are others than the first time, so it may take longer.
    for step in range(first + 1, first + 2 * chunk.n_steps + MAX_MORE_STEPS):
        try:
            context.getIntegrator().step(1)
            now = _forces(context)
        except openmm.OpenMMException:
            break
        # What comes after a force that no molecule survives shows where it spread to, not where it began.
        if not np.isfinite(now).all() or now.max() > DEADLY_FORCE * max(1.0, float(forces.max())):
            break
        last, forces, terms = step, now, _terms(context)
    else:
        is_sound = True
    atoms = list(model.topology.atoms())
    worst = [int(i) for i in np.argsort(-forces)[:WORST_ATOMS]]
    named = ", ".join(f"{place_of(atoms[i])} ({forces[i]:.3g} kJ/mol/nm)" for i in worst)
    before_all = dict.fromkeys(terms, 0.0) if last == first else at_first
    term = max(terms, key=lambda name: terms[name] - before_all[name])
    if last == first:
        energy = f"of the energy terms, {term} is highest: {terms[term]:.4g} kJ/mol"
    else:
        energy = (
            f"of the energy terms, {term} is highest above its start:"
            f" {terms[term]:.4g} kJ/mol, at step {first} it was {at_first[term]:.4g}"
        )
    where = f"the largest forces are on {named}; {energy}"
    return Diagnosis(first, last, is_sound, where, [counted(atoms[i].residue) for i in worst])


def _forces(context: openmm.Context) -> NDArray[np.float64]:
    """Length of the force on each atom, kJ/mol/nm."""
    forces = context.getState(forces=True).getForces(asNumpy=True)._value
    return np.asarray(np.linalg.norm(forces, axis=1))


def _terms(context: openmm.Context) -> dict[str, float]:
    """Energy by force, kJ/mol, for a context with groups; the forces of the last group are one term."""
    names: dict[int, list[str]] = {}
    for force in context.getSystem().getForces():
        names.setdefault(force.getForceGroup(), []).append(force.getName())
    return {
        " and ".join(dict.fromkeys(found)): context.getState(energy=True, groups={group}).getPotentialEnergy()._value
        for group, found in names.items()
    }
