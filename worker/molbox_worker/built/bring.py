"""Bringing a system that another program has built: read, checked, and stored as one of our own."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app

from molbox_worker import check, nbfix, relax
from molbox_worker.built import settle
from molbox_worker.built.files import LOC
from molbox_worker.built.load import Loaded
from molbox_worker.built.serialized import FORCES, REPLACED
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import DALTON_PER_NM3, platform
from molbox_worker.prepared import Account
from molbox_worker.result import Findings, TaskError
from molbox_worker.solvate import CUTOFF_NM
from molbox_worker.structure_input import MAX_COORDINATE_NM

# Of a trial of the minimisation that each job begins with.
TRIAL_STEPS = 10
# g/mL. What is built leaves no bubbles larger than this comes to; a job at constant pressure closes small ones.
LEAST_DENSITY = 0.7
# Least width of a box: it may be as dense as it becomes, and jobs are checked for whether their cutoff fits.
LEAST_WIDTH_NM = 2 * CUTOFF_NM + 0.1
PERIODIC = {
    openmm.NonbondedForce.CutoffPeriodic,
    openmm.NonbondedForce.Ewald,
    openmm.NonbondedForce.PME,
    openmm.NonbondedForce.LJPME,
}


@dataclasses.dataclass(frozen=True)
class Brought:
    """A system that was brought and is sound.

    Attributes
    ----------
    topology, system
        The whole system.
    state
        Its positions and box.
    findings
        What the check found.

    """

    topology: app.Topology
    system: openmm.System
    state: openmm.State
    findings: Findings


def _check_positions(topology: app.Topology, positions: NDArray[np.float64]) -> None:
    """Refuse positions, in nm, that no atom can have, and name the first."""
    # What is not a number is not below anything either.
    is_place = (np.abs(positions) <= MAX_COORDINATE_NM).all(axis=1)
    if is_place.all():
        return
    index = int(np.argmin(is_place))
    atom = next(atom for atom in topology.atoms() if atom.index == index)
    at = ", ".join(f"{10 * x:g}" for x in positions[index])
    raise TaskError(
        "bad_coordinates",
        f"atom {index + 1}, {atom.name} of {atom.residue.name} {atom.residue.id}, is at ({at}) Å, which is no place",
        remedy="correct the file of the coordinates",
        loc=LOC,
    )


def bring(task: TaskDirectory, loaded: Loaded) -> Brought:
    """Check a loaded system as any other, and give it the names that ours have."""
    system = loaded.system
    _take_out(task, system)
    _check_forces(system, loaded.source)
    nbfix.simplify(system)
    vectors = _box(system, loaded.source)
    topology = settle.settle(task, loaded)
    settle.add_bonds(topology, system)
    _check_positions(topology, loaded.positions)
    places = settle.whole(topology, loaded.positions, vectors)
    try:
        state, findings = _checked(task, topology, system, places)
    except TaskError as error:
        raise _at_built(error) from error
    _warn(task, topology, system, vectors)
    return Brought(topology, system, state, findings)


def _at_built(error: TaskError) -> TaskError:
    """A failure of a check with the field of built systems in place of that of structures."""
    failure = error.failure
    remedy = {"bond_missing": "the topology has the bond and no parameters for it: correct it where it was made"}
    moved = TaskError(failure.code, failure.message)
    moved.failure = dataclasses.replace(failure, loc=LOC, remedy=remedy.get(failure.code, failure.remedy))
    return moved


def _take_out(task: TaskDirectory, system: openmm.System) -> None:
    """Take out barostats and thermostats: a job has its own."""
    removed = []
    for index in reversed(range(system.getNumForces())):
        name = type(system.getForce(index)).__name__
        if name in REPLACED:
            removed.append(name)
            system.removeForce(index)
    if removed:
        task.warn(
            "force_removed", f"{', '.join(sorted(removed))} taken out: a job sets its own temperature and pressure"
        )


def _check_forces(system: openmm.System, source: str) -> None:
    """Refuse what jobs do not run, as Drude particles of a PSF, and what is not periodic: jobs are."""
    forces = system.getForces()
    for force in forces:
        if type(force).__name__ not in FORCES | {"CMMotionRemover"}:
            raise TaskError(
                "built_unsafe",
                f"{source}: a {type(force).__name__} cannot be run here",
                remedy=f"choose a force field without it; systems may have {', '.join(sorted(FORCES))}",
                loc=LOC,
            )
    charged = [force for force in forces if isinstance(force, openmm.NonbondedForce)]
    if len(charged) != 1:
        raise TaskError(
            "not_periodic",
            f"{source}: it has {len(charged)} forces of the kind NonbondedForce, and a job needs one",
            remedy="put charges and Lennard-Jones into one NonbondedForce; what it lacks can be custom forces",
            loc=LOC,
        )
    for force in forces:
        is_cut = isinstance(force, openmm.NonbondedForce) and force.getNonbondedMethod() not in PERIODIC
        is_cut_custom = isinstance(force, openmm.CustomNonbondedForce) and (
            force.getNonbondedMethod() != openmm.CustomNonbondedForce.CutoffPeriodic
        )
        if is_cut or is_cut_custom:
            raise TaskError(
                "not_periodic",
                f"{source}: its {force.getName()} is not periodic",
                remedy="create the system with nonbondedMethod=PME, in a box of water",
                loc=LOC,
            )
        if isinstance(force, openmm.CustomExternalForce) and "k_restraint" in _globals(force):
            raise TaskError(
                "built_unsafe",
                f"{source}: the parameter k_restraint of its {force.getName()} is a name of ours",
                remedy="call it something else, or take the restraint out: a stage of a job has its own",
                loc=LOC,
            )


def _globals(force: openmm.CustomExternalForce) -> set[str]:
    return {force.getGlobalParameterName(i) for i in range(force.getNumGlobalParameters())}


def _box(system: openmm.System, source: str) -> NDArray[np.float64]:
    vectors = np.array([[x._value for x in row] for row in system.getDefaultPeriodicBoxVectors()], dtype=np.float64)
    width = min(vectors[i, i] for i in range(3))
    if not (np.isfinite(vectors).all() and width >= LEAST_WIDTH_NM):
        raise TaskError(
            "box_too_small",
            f"{source}: its box is {width:.2f} nm wide; it needs {LEAST_WIDTH_NM:g} nm,"
            f" twice the cutoff of {CUTOFF_NM:g} nm and room to shrink",
            remedy="build it with a wider margin of water",
            loc=LOC,
        )
    return vectors


def _checked(
    task: TaskDirectory, topology: app.Topology, system: openmm.System, places: NDArray[np.float64]
) -> tuple[openmm.State, Findings]:
    """The state as it is stored: coordinates stay where they are unless no job could begin with them."""
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), *platform(task))
    context.setPositions(places)
    context.computeVirtualSites()
    state = context.getState(positions=True, energy=True, forces=True)
    if math.isfinite(state.getPotentialEnergy()._value) and (strain := _strain(topology, state)):
        task.warn("built_relaxed", f"{strain}: the system is minimised a little")
        context.setPositions(relax.in_box(task, system, state, np.zeros((0, 3))))
        state = context.getState(positions=True, energy=True, forces=True)
    findings = check.check(task, topology, system, state, Account(), is_neutral=False)
    task.log(f"potential energy {state.getPotentialEnergy()._value:.0f} kJ/mol; {findings.line()}")
    kept = context.getState(positions=True)
    _try_minimising(context)
    return kept, findings


def _strain(topology: app.Topology, state: openmm.State) -> str | None:
    """Why no job could begin with a state; programs put water nearer than its radii, as `gmx solvate` does."""
    largest = np.linalg.norm(state.getForces(asNumpy=True)._value, axis=1).max()
    if not largest <= check.LARGEST_FORCE:
        return f"a force of {largest:.2g} kJ/mol/nm was too large"
    positions = np.asarray(state.getPositions(asNumpy=True)._value)
    vectors = np.asarray(state.getPeriodicBoxVectors(asNumpy=True)._value)
    try:
        check.check_contacts(topology, positions, vectors, {})
    except TaskError as error:
        return str(error)
    return None


def _try_minimising(context: openmm.Context) -> None:
    """Refuse what a job could not minimise; the positions are not kept."""
    openmm.LocalEnergyMinimizer.minimize(context, 10.0, TRIAL_STEPS)
    energy = context.getState(energy=True).getPotentialEnergy()._value
    if not math.isfinite(energy):
        raise TaskError("not_finite", "the energy is not finite once it is minimised", loc=LOC)


def _warn(task: TaskDirectory, topology: app.Topology, system: openmm.System, vectors: NDArray[np.float64]) -> None:
    """Report what a job can run with and its owner may not expect."""
    charge = check.net_charge(system)
    if abs(charge) > check.CHARGE_TOLERANCE:
        message = f"the charges add up to {charge:+.3f} e; Ewald summation neutralises that by a uniform background"
        task.warn("not_neutral", message)
    constrained = {frozenset(system.getConstraintParameters(i)[:2]) for i in range(system.getNumConstraints())}
    free = sum(
        1
        for a, b in topology.bonds()
        if "H" in {atom.element.symbol for atom in (a, b) if atom.element}
        and frozenset((a.index, b.index)) not in constrained
    )
    if free:
        message = f"{free} bonds of hydrogens are not constrained: give jobs an integration_timestep of 1 fs at most"
        task.warn("hydrogens_free", message)
    volume = abs(float(np.linalg.det(vectors)))
    mass = sum(system.getParticleMass(i)._value for i in range(system.getNumParticles()))
    density = mass / volume * DALTON_PER_NM3
    if density < LEAST_DENSITY:
        message = f"a density of {density:.2f} g/mL: the box is larger than what is in it"
        task.warn("box_not_full", message)
