"""Water, ions and membranes: the box around the molecules.

Lengths are in nm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit

from molbox_worker import force_field, hydrogens, membrane, relax, solvent
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import templates_explained
from molbox_worker.plan import BuildPlan
from molbox_worker.result import TaskError

# The direct-space cutoff that a new system is made with; a job sets its own.
CUTOFF_NM = 1.0
# A box as built is less dense than it becomes at constant pressure: water keeps away from the copies of the box
# and from what it surrounds. Around alanine dipeptide a cube of 2.1 nm became 2.03 nm, and fluctuates by 0.04 nm.
SHRINKAGE_NM = 0.2
NARROWEST_NM = 2 * CUTOFF_NM + SHRINKAGE_NM
# Of liquid water, and near enough of proteins.
ATOMS_PER_NM3 = 100


def solvate(
    task: TaskDirectory, plan: BuildPlan, modeller: app.Modeller, base: app.ForceField, report: Callable[[float], None]
) -> None:
    """Put the molecules into water and ions, and a membrane if the plan has one; `report` takes the share done."""
    model, sites = hydrogens.water(plan, base)
    n_residues = modeller.topology.getNumResidues()
    if plan.membrane:
        if sites != 3:
            raise TaskError(
                "membrane_water",
                f"the water has {sites} sites; the patches that membranes are made of have 3",
                remedy="choose a water_type with three sites, for example tip3p",
                loc=["body", "water_type"],
            )
        _refuse_many_atoms(plan, membrane.estimated_volume(modeller, plan.padding_nm))
        with templates_explained(modeller.topology, field="membrane"):
            membrane.add(task, plan, modeller, base, report)
        _refuse_narrow_box(modeller.topology)
        _refuse_missing_ions(plan, modeller.topology, n_residues, base)
        solvent.settle(task, modeller, n_residues)
        return
    vectors = box_vectors(plan.box_shape, plan.padding_nm, relax.positions(modeller))
    _refuse_many_atoms(plan, vectors[0][0] * vectors[1][1] * vectors[2][2])
    with templates_explained(modeller.topology), _without_scripts(base, modeller.topology):
        modeller.addSolvent(
            base,
            model=model,
            boxVectors=[openmm.Vec3(*vector) for vector in vectors] * unit.nanometer,
            positiveIon=plan.positive_ion,
            negativeIon=plan.negative_ion,
            ionicStrength=plan.concentration * unit.molar,
            neutralize=True,
        )
    _refuse_missing_ions(plan, modeller.topology, n_residues, base)
    solvent.settle(task, modeller, n_residues)
    if hydrogens.needs_extra_particles(plan, base):
        modeller.addExtraParticles(base)


@contextmanager
def _without_scripts(base: app.ForceField, topology: app.Topology) -> Iterator[None]:
    """Keep the scripts of a force field from a topology of no atoms: that of Lipid21 fails on it."""
    scripts = base._scripts
    if topology.getNumAtoms() == 0:
        base._scripts = []
    try:
        yield
    finally:
        base._scripts = scripts


def _refuse_missing_ions(plan: BuildPlan, topology: app.Topology, n_residues: int, base: app.ForceField) -> None:
    """Refuse added ions that the force field lacks; residues from `n_residues` on were added."""
    added = {residue.name for residue in topology.residues() if residue.index >= n_residues}
    for ion in (plan.positive_ion, plan.negative_ion):
        symbol = ion.rstrip("+-")
        name = symbol.upper()
        if name in added and not force_field.has_ion(base, name, name, app.Element.getBySymbol(symbol)):
            raise TaskError(
                "no_template",
                f"{plan.force_field.name} has no template for {ion}, that is for a residue {name} of one atom",
                remedy="choose ions that it has, or add them to the force-field file",
                loc=["body", "ions"],
            )


def _refuse_many_atoms(plan: BuildPlan, volume_nm3: float) -> None:
    n_atoms = int(ATOMS_PER_NM3 * volume_nm3)
    if n_atoms > plan.max_atoms:
        raise TaskError(
            "too_large",
            f"the system would have about {n_atoms} atoms, the service takes {plan.max_atoms}",
            remedy="lower minimum_padding, choose the dodecahedron, or keep fewer chains",
            loc=["body", "minimum_padding"],
        )


def _refuse_narrow_box(topology: app.Topology) -> None:
    vectors = topology.getPeriodicBoxVectors().value_in_unit(unit.nanometer)
    width = min(vectors[i][i] for i in range(3))
    if width < NARROWEST_NM:
        raise TaskError(
            "box_too_small",
            f"the membrane's box would be {width:.2f} nm wide; it needs twice the cutoff of {CUTOFF_NM:g} nm and room"
            f" to shrink, {NARROWEST_NM:g} nm",
            remedy="raise minimum_padding",
            loc=["body", "minimum_padding"],
        )


def box_vectors(shape: str, padding_nm: float, positions_nm: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    """Vectors of a periodic box that leaves at least `padding_nm` between the molecules and every face.

    A rectangular box follows the extent of the molecules as they lie; the others hold their
    bounding sphere, so that they may turn. None is narrower than the cutoff allows. Shape of
    `positions_nm`: (n, 3).
    """
    if len(positions_nm) == 0:
        extent, radius = np.zeros(3), 0.0
    else:
        low, high = positions_nm.min(axis=0), positions_nm.max(axis=0)
        extent = high - low
        radius = float(np.linalg.norm(positions_nm - (low + high) / 2, axis=1).max())
    if shape == "rectangular":
        a, b, c = (max(float(length) + 2 * padding_nm, NARROWEST_NM) for length in extent)
        return [(a, 0.0, 0.0), (0.0, b, 0.0), (0.0, 0.0, c)]
    third = 1 / 3
    unit_vectors = {
        "cube": [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)],
        "dodecahedron": [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.5, math.sqrt(2) / 2)],
        "octahedron": [
            (1.0, 0.0, 0.0),
            (third, 2 * math.sqrt(2) * third, 0.0),
            (-third, math.sqrt(2) * third, math.sqrt(6) * third),
        ],
    }[shape]
    narrowest = min(unit_vectors[i][i] for i in range(3))
    width = max(2 * (radius + padding_nm), NARROWEST_NM / narrowest)
    return [(x * width, y * width, z * width) for x, y, z in unit_vectors]
