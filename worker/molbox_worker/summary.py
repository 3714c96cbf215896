"""The summary of a built system."""

from __future__ import annotations

from collections import Counter

import numpy as np
import openmm
from openmm import app, unit

from molbox_worker import check
from molbox_worker.engine import DALTON_PER_NM3
from molbox_worker.plan import BuildTask
from molbox_worker.result import Findings, SystemSummary
from molbox_worker.topology import is_solvent, kind


def summarise(
    spec: BuildTask,
    topology: app.Topology,
    system: openmm.System,
    state: openmm.State,
    variants: dict[str, int],
    findings: Findings,
) -> SystemSummary:
    """What a built system holds; `variants` are its protonation variants, `findings` those of the check."""
    box = state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.nanometer)
    volume = float(abs(np.linalg.det(box)))
    n_atoms = system.getNumParticles()
    mass = sum(system.getParticleMass(i)._value for i in range(n_atoms))
    kinds = [kind(residue) for residue in topology.residues()]
    solvent = [name for name, what in zip(_names(topology), kinds, strict=True) if is_solvent(what)]
    return SystemSummary(
        atoms=n_atoms,
        residues=topology.getNumResidues(),
        chains=topology.getNumChains(),
        molecules=dict(Counter(_kinds_of_molecules(topology, kinds))),
        # Adding zero takes the sign off a rounded -0.0.
        net_charge=round(check.net_charge(system), 4) + 0.0,
        box_vectors=[[round(float(x), 6) for x in row] for row in box],
        volume=round(volume, 6),
        density=round(mass / volume * DALTON_PER_NM3, 6),
        force_field=spec.plan.force_field.name,
        water_type=spec.plan.water.name,
        variants=variants,
        seed=spec.seed,
        solvent_residues=sorted(set(solvent)),
        check=findings,
    )


def _names(topology: app.Topology) -> list[str]:
    return [residue.name for residue in topology.residues()]


def _kinds_of_molecules(topology: app.Topology, kinds: list[str]) -> list[str]:
    """The kind of each molecule, that is of each connected component; that of its first residue.

    A lipid may have its head in the middle, and a head is not always known by its name.
    """
    parent = list(range(topology.getNumAtoms()))

    def root(atom: int) -> int:
        while parent[atom] != atom:
            parent[atom] = parent[parent[atom]]
            atom = parent[atom]
        return atom

    for bond in topology.bonds():
        first, second = root(bond[0].index), root(bond[1].index)
        parent[max(first, second)] = min(first, second)
    found: dict[int, str] = {}
    for atom in topology.atoms():
        # A virtual site has no bond and belongs to its residue.
        if atom.element is not None:
            what, molecule = kinds[atom.residue.index], root(atom.index)
            if found.setdefault(molecule, what) not in {"protein", "nucleic_acid"} and what == "lipid":
                found[molecule] = what
    return list(found.values())
