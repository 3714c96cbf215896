"""Membranes: a bilayer in the plane z = 0 around a structure that is oriented to it.

OpenMM tiles a patch of its own, takes out what overlaps the structure shrunk in the plane, and lets
the lipids relax while the structure grows back. Here the input is checked, the growing reports its
progress, can be stopped, and takes our seed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit
from openmm.app import modeller as openmm_modeller

from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import platform
from molbox_worker.plan import BuildPlan
from molbox_worker.result import Stopped, TaskError
from molbox_worker.topology import LIPIDS, WATER, nearest

# The hydrophobic core reaches this far from the middle, nm.
CORE_NM = 1.2
# Modeller lets a structure grow back in so many rounds.
ROUNDS_PER_NM = 10
# What lets a lipid out that is caught: kJ/mol/nm, and so many times shorter steps.
FORCE_TOLERANCE = 10.0
MINIMIZATION_STEPS = 100
SHORTER = 4
# Of a bond to that of the other lipids. Modeller ends at 10 K: of one in a hundred it is above 1.02.
STRETCHED = 1.1
# Of the residues in the core; proteins in the frame of the OPM database have under 0.1.
MAX_CHARGED = 0.25
# Width and height of OpenMM's patches, roughly, nm.
PATCH_NM = (6.5, 7.0)
CHARGED = frozenset({"ASP", "GLU", "LYS", "ARG"})
# A water to build a bilayer without a protein around: in the water, above the head groups, nm.
SEED_WATER = {"O": (0.0, 0.0, 2.6), "H1": (0.0957, 0.0, 2.6), "H2": (-0.024, 0.0927, 2.6)}


def add(
    task: TaskDirectory,
    plan: BuildPlan,
    modeller: app.Modeller,
    force_field: app.ForceField,
    report: Callable[[float], None],
) -> None:
    """Add the plan's membrane, with water and ions; `report` is called with the share that is done."""
    if modeller.topology.getNumAtoms() == 0:
        _add_seed_water(modeller)
    else:
        check_orientation(modeller)
    n_solute = modeller.topology.getNumResidues()
    with _relaxation(task, report, int(np.ptp(_positions(modeller), axis=0)[:2].max() * ROUNDS_PER_NM) + 1):
        modeller.addMembrane(
            force_field,
            lipidType=plan.membrane,
            minimumPadding=plan.padding_nm * unit.nanometer,
            positiveIon=plan.positive_ion,
            negativeIon=plan.negative_ion,
            ionicStrength=plan.concentration * unit.molar,
            neutralize=True,
            # Minutes on one thread; which system it gives is not promised.
            platform=platform(task, threads=task.spec.threads)[0],
        )
    take_out_caught(task, modeller, n_solute)
    leaves = _lipids_per_leaf(modeller, n_solute)
    area = modeller.topology.getUnitCellDimensions()[0]._value * modeller.topology.getUnitCellDimensions()[1]._value
    task.log(f"{plan.membrane}: {leaves[0]} lipids below and {leaves[1]} above z = 0, box {area:.2f} nm² in the plane")


def check_orientation(modeller: app.Modeller) -> None:
    """Refuse a structure that cannot lie in the membrane as it is."""
    atoms = [atom for atom in modeller.topology.atoms() if atom.residue.name != WATER]
    z = _positions(modeller)[[atom.index for atom in atoms], 2]
    remedy = (
        "orient it first: the membrane lies in the plane z = 0 with its normal along z; "
        "the OPM database has files in this frame"
    )
    loc: list[str | int] = ["body", "membrane"]
    if z.min() > CORE_NM or z.max() < -CORE_NM:
        raise TaskError(
            "membrane_not_oriented",
            f"the structure lies from z = {z.min():.2f} to {z.max():.2f} nm and does not touch the membrane,"
            f" whose core is within {CORE_NM:g} nm of z = 0",
            remedy=remedy,
            loc=loc,
        )
    inside = [
        atom.residue.name for atom, height in zip(atoms, z, strict=True) if atom.name == "CA" and abs(height) < CORE_NM
    ]
    n_charged = sum(name in CHARGED for name in inside)
    if inside and n_charged / len(inside) > MAX_CHARGED:
        raise TaskError(
            "membrane_not_oriented",
            f"{n_charged} of the {len(inside)} residues that would lie in the membrane's core carry a charge;"
            " no membrane protein lies like that",
            remedy=remedy,
            loc=loc,
        )


def estimated_volume(modeller: app.Modeller, padding_nm: float) -> float:
    """Volume of the box that a membrane makes, nm³; it consists of whole patches in the plane."""
    x = _positions(modeller)
    extent = np.ptp(x, axis=0) if len(x) else np.zeros(3)
    width, depth = (PATCH_NM[0] * np.ceil((length + 2 * padding_nm) / PATCH_NM[0]) for length in extent[:2])
    return float(width * depth * max(PATCH_NM[1], extent[2] + 2 * padding_nm))


@contextmanager
def _relaxation(task: TaskDirectory, report: Callable[[float], None], rounds: int) -> Iterator[None]:
    """Have Modeller use an integrator that takes our seed, reports progress, and stops when asked.

    Where a lipid is caught by the growing structure, its forces end Modeller's dynamics. There it is
    let out by minimisation and shorter steps.
    """
    seed = random.getrandbits(31) or 1
    contexts: list[openmm.Context] = []

    def context(*arguments: Any) -> openmm.Context:
        contexts.append(openmm.Context(*arguments))
        return contexts[-1]

    class Integrator(openmm.LangevinIntegrator):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.setRandomNumberSeed(seed)
            self._calls = 0

        def step(self, steps: int) -> None:
            if task.stop_requested:
                raise Stopped
            before = contexts[-1].getState(positions=True, velocities=True)
            try:
                super().step(steps)
            except openmm.OpenMMException as error:
                task.log(f"membrane: round {self._calls + 1} again with shorter steps ({str(error).split('.')[0]})")
                contexts[-1].setState(before)
                openmm.LocalEnergyMinimizer.minimize(contexts[-1], FORCE_TOLERANCE, MINIMIZATION_STEPS)
                contexts[-1].setVelocitiesToTemperature(self.getTemperature(), seed)
                step_size = self.getStepSize()
                self.setStepSize(step_size / SHORTER)
                super().step(steps * SHORTER)
                self.setStepSize(step_size)
            self._calls += 1
            report(min(self._calls / rounds, 1.0))

    originals = openmm_modeller.LangevinIntegrator, openmm_modeller.Context
    openmm_modeller.LangevinIntegrator, openmm_modeller.Context = Integrator, context
    try:
        yield
    finally:
        openmm_modeller.LangevinIntegrator, openmm_modeller.Context = originals


def take_out_caught(task: TaskDirectory, modeller: app.Modeller, n_solute: int) -> None:
    """Take out lipids in which the structure has grown; its own are the first `n_solute` residues.

    They hang on it, by a bond that is longer than in the others.
    """
    bonds = [
        (a, b)
        for a, b in modeller.topology.bonds()
        if a.residue is b.residue and a.residue.name in LIPIDS and a.residue.index >= n_solute
    ]
    pairs = np.array([(a.index, b.index) for a, b in bonds]).reshape(-1, 2)
    positions = _positions(modeller)
    vectors = np.array(modeller.topology.getPeriodicBoxVectors().value_in_unit(unit.nanometer))
    lengths = np.linalg.norm(nearest(positions[pairs[:, 0]] - positions[pairs[:, 1]], vectors), axis=1)
    alike = defaultdict(list)
    for (a, b), length in zip(bonds, lengths, strict=True):
        alike[a.name, b.name].append(length)
    most = {names: STRETCHED * np.median(found) for names, found in alike.items()}
    caught = {a.residue for (a, b), length in zip(bonds, lengths, strict=True) if length > most[a.name, b.name]}
    if caught:
        task.warn("lipid_removed", f"lipids taken out that the structure had grown into: {len(caught)}")
        modeller.delete(sorted(caught, key=lambda residue: residue.index))


def _add_seed_water(modeller: app.Modeller) -> None:
    topology = app.Topology()
    residue = topology.addResidue(WATER, topology.addChain(id=" "))
    atoms = [topology.addAtom(name, app.Element.getBySymbol(name[0]), residue) for name in SEED_WATER]
    for hydrogen in atoms[1:]:
        topology.addBond(atoms[0], hydrogen)
    modeller.add(topology, [openmm.Vec3(*place) for place in SEED_WATER.values()] * unit.nanometer)


def _lipids_per_leaf(modeller: app.Modeller, n_solute: int) -> tuple[int, int]:
    positions = _positions(modeller)
    leaves = [0, 0]
    for residue in list(modeller.topology.residues())[n_solute:]:
        if residue.name in LIPIDS:
            phosphorus = next((atom for atom in residue.atoms() if atom.element is app.element.phosphorus), None)
            if phosphorus is not None:
                leaves[int(positions[phosphorus.index, 2] > 0)] += 1
    return leaves[0], leaves[1]


def _positions(modeller: app.Modeller) -> NDArray[np.float64]:
    return np.array(modeller.positions.value_in_unit(unit.nanometer), dtype=np.float64).reshape(-1, 3)
