"""Minimising what was added to a structure, while what its file has stays where it is."""

from __future__ import annotations

import copy

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit
from scipy.spatial import cKDTree

from molbox_worker import nbfix
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import platform, templates_explained

# Of a structure without solvent: kJ/mol/nm, and steps at most.
TOLERANCE = 10.0
MAX_STEPS = 300
# Of the whole box, where something was left in the way of something else.
MAX_STEPS_IN_BOX = 100
CUTOFF_NM = 1.0
# Places are those of the file when no further from it than single precision rounds, nm.
SAME_NM = 1e-4
# Holds what a constraint would, kJ/mol/nm².
STIFF = 5e5


def positions(modeller: app.Modeller) -> NDArray[np.float64]:
    """Positions in nm, shape (n, 3)."""
    places = modeller.positions.value_in_unit(unit.nanometer)
    return np.array([[p[0], p[1], p[2]] for p in places], dtype=np.float64).reshape(-1, 3)


def alone(task: TaskDirectory, modeller: app.Modeller, base: app.ForceField, deposited: NDArray[np.float64]) -> None:
    """Minimise hydrogens and other added atoms of a structure without its solvent.

    `deposited` are the places, in nm, of the atoms that stay; shape (m, 3).
    """
    with templates_explained(modeller.topology):
        system = base.createSystem(
            modeller.topology,
            nonbondedMethod=app.CutoffNonPeriodic,
            nonbondedCutoff=CUTOFF_NM * unit.nanometer,
            constraints=None,
            rigidWater=False,
        )
    nbfix.simplify(system)
    places = positions(modeller)
    stays = stay(places, deposited)
    if stays.all():
        return
    for i in np.flatnonzero(stays):
        system.setParticleMass(int(i), 0.0)
    moved = minimized(task, system, places, MAX_STEPS)
    modeller.positions = [openmm.Vec3(*place) for place in moved] * unit.nanometer


def in_box(
    task: TaskDirectory, system: openmm.System, state: openmm.State, deposited: NDArray[np.float64]
) -> unit.Quantity:
    """Minimise what was added to a structure in the whole box; returns the positions."""
    free = copy.deepcopy(system)
    places = np.asarray(state.getPositions(asNumpy=True)._value)
    stays = stay(places, deposited)
    bonds = openmm.HarmonicBondForce()
    bonds.setUsesPeriodicBoundaryConditions(True)
    for index in reversed(range(free.getNumConstraints())):
        a, b, length = free.getConstraintParameters(index)
        if stays[a] or stays[b]:
            # OpenMM constrains nothing to what has no mass.
            free.removeConstraint(index)
            bonds.addBond(a, b, length, STIFF)
    free.addForce(bonds)
    for force in free.getForces():
        # What is far away has no part in what lies too near, and takes most of the time.
        if isinstance(force, openmm.NonbondedForce):
            force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    for i in np.flatnonzero(stays):
        free.setParticleMass(int(i), 0.0)
    return minimized(task, free, places, MAX_STEPS_IN_BOX) * unit.nanometer


def stay(places: NDArray[np.float64], deposited: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which places, in nm, are those of deposited atoms; shape (n,)."""
    if len(deposited) == 0:
        return np.zeros(len(places), dtype=bool)
    distances, _ = cKDTree(deposited).query(places, distance_upper_bound=SAME_NM)
    return np.asarray(np.isfinite(distances))


def minimized(
    task: TaskDirectory, system: openmm.System, places: NDArray[np.float64], max_steps: int
) -> NDArray[np.float64]:
    """Places, in nm, once the energy is minimised in so many steps; what has no mass stays."""
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), *platform(task))
    context.setPositions(places)
    openmm.LocalEnergyMinimizer.minimize(context, TOLERANCE, max_steps)
    return np.asarray(context.getState(positions=True).getPositions(asNumpy=True)._value)
