"""Molecules as people expect them in trajectories: whole, and moving on rather than wrapped into the box.

GROMACS writes each atom in the box, which breaks the molecules at its faces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app

from molbox_worker.gromacs.files import Array
from molbox_worker.gromacs.terms import Terms
from molbox_worker.gromacs.topology import atoms_of_line
from molbox_worker.topology import nearest

# What holds two atoms close together.
SHORT = ("bonds", "constraints", "settles", "virtual_sites2", "virtual_sites3")


class Molecules:
    """The atoms as trees of what is bonded: `levels` has those at each distance from `roots` and what each hangs on."""

    def __init__(self, terms: Terms, topology: app.Topology) -> None:
        neighbours: list[list[int]] = [[] for _ in range(terms.n_atoms)]
        for first, *others in _short(terms, topology):
            for other in others:
                neighbours[first].append(other)
                neighbours[other].append(first)
        is_seen = [False] * terms.n_atoms
        roots = []
        levels: list[tuple[list[int], list[int]]] = []
        for root in range(terms.n_atoms):
            if is_seen[root]:
                continue
            roots.append(root)
            is_seen[root] = True
            reached, depth = [root], 0
            while reached:
                found = []
                for parent in reached:
                    for atom in neighbours[parent]:
                        if not is_seen[atom]:
                            is_seen[atom] = True
                            found.append((atom, parent))
                if found and depth == len(levels):
                    levels.append(([], []))
                for atom, parent in found:
                    levels[depth][0].append(atom)
                    levels[depth][1].append(parent)
                reached, depth = [atom for atom, _ in found], depth + 1
        self.roots: NDArray[np.int64] = np.array(roots)
        self.levels: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = [
            (np.array(atoms), np.array(parents)) for atoms, parents in levels
        ]

    def whole(self, positions: Array, box: Array, near: Array) -> Array:
        """Positions, nm, with each molecule whole, at the image whose first atom is nearest to its place in `near`."""
        out: Array = positions.copy()
        out[self.roots] = near[self.roots] + nearest(out[self.roots] - near[self.roots], box)
        for atoms, parents in self.levels:
            out[atoms] = out[parents] + nearest(out[atoms] - out[parents], box)
        return out

    def in_box(self, positions: Array, box: Array) -> Array:
        """Positions of whole molecules, nm, each moved so that its first atom is in the box."""
        middle = np.broadcast_to(box.sum(axis=0) / 2, positions.shape)
        return self.whole(positions, box, middle)

    def bonds(self) -> Iterator[tuple[int, int]]:
        """Pairs of atoms that hold the molecules together."""
        for atoms, parents in self.levels:
            yield from zip(atoms.tolist(), parents.tolist(), strict=True)

    def context(self, positions: Array, velocities: Array, box: Array) -> openmm.Context:
        """A context that knows the molecules and no forces: to write states and structures as OpenMM does."""
        system = openmm.System()
        bonds = openmm.HarmonicBondForce()
        for _ in range(len(positions)):
            system.addParticle(1.0)
        for first, second in self.bonds():
            bonds.addBond(first, second, 0.0, 0.0)
        system.addForce(bonds)
        platform = openmm.Platform.getPlatformByName("Reference")
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
        context.setPeriodicBoxVectors(*box.tolist())
        context.setPositions(positions)
        context.setVelocities(velocities)
        return context


def _short(terms: Terms, topology: app.Topology) -> Iterable[tuple[int, ...]]:
    for section in SHORT:
        for atoms, _ in terms.lines[section]:
            yield atoms_of_line(section, atoms)
    for bond in topology.bonds():
        yield bond[0].index, bond[1].index
