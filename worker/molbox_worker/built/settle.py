"""The topology of a built system in our terms: names of water and ions, chains, and whole molecules."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit

from molbox_worker.assemble import GOOD_CHAIN
from molbox_worker.built.load import Loaded
from molbox_worker.directory import TaskDirectory
from molbox_worker.prepared import chain_letters
from molbox_worker.topology import IONS, WATER, kind

# Covalent radii, nm; of what is not listed, that of a metal.
RADII = {"H": 0.031, "C": 0.076, "N": 0.071, "O": 0.066, "F": 0.057, "P": 0.107, "S": 0.105, "Cl": 0.102, "Br": 0.12}
OTHER_RADIUS = 0.14
# Bonds are shorter than this times the sum of radii, ends of angles are further apart.
LONGEST = 1.3


def settle(task: TaskDirectory, loaded: Loaded) -> app.Topology:
    """A topology like the loaded one, with the names that masks, restraints and reports go by."""
    topology = app.Topology()
    renamed: Counter[tuple[str, str]] = Counter()
    atoms: dict[app.topology.Atom, app.topology.Atom] = {}
    for name, residues in _chains(loaded):
        chain = topology.addChain(name)
        for residue in residues:
            old = list(residue.atoms())
            elements = [_element(loaded.system, atom) for atom in old]
            new_name, atom_names = _names(residue, elements)
            if new_name != residue.name:
                renamed[residue.name, new_name] += 1
            # Molecules of solvent share a chain, and each of GROMACS begins at 1.
            is_counted = _is_solvent(residue) and not loaded.keeps_chains
            number, insertion = (str(residue.index + 1), "") if is_counted else (residue.id, residue.insertionCode)
            copy = topology.addResidue(new_name, chain, number, insertion)
            for atom, atom_name, element in zip(old, atom_names, elements, strict=True):
                atoms[atom] = topology.addAtom(atom_name, element, copy)
    for first, second in loaded.topology.bonds():
        topology.addBond(atoms[first], atoms[second])
    box = [vector.value_in_unit(unit.nanometer) for vector in loaded.system.getDefaultPeriodicBoxVectors()]
    topology.setPeriodicBoxVectors(box * unit.nanometer)
    if renamed:
        parts = [f"{old} is {new} here ({count})" for (old, new), count in sorted(renamed.items())]
        task.warn("residue_renamed", f"{'; '.join(parts)}: masks select them by these names")
    return topology


def _element(system: openmm.System, atom: app.topology.Atom) -> app.Element | None:
    """The element that the file has, or the one of the atom's mass; None for a virtual site."""
    if system.isVirtualSite(atom.index) or atom.element is not None:
        return None if system.isVirtualSite(atom.index) else atom.element
    mass = system.getParticleMass(atom.index)
    return app.Element.getByMass(mass) if mass._value > 0 else None


def _names(residue: app.topology.Residue, elements: list[app.Element | None]) -> tuple[str, list[str]]:
    """What a residue and its atoms are called: water and ions by what they are, others as they were."""
    own = [atom.name for atom in residue.atoms()]
    symbols = [element.symbol if element else "" for element in elements]
    if sorted(filter(None, symbols)) == ["H", "H", "O"]:
        hydrogens, sites = iter(("H1", "H2")), iter(("M", "M2"))
        return WATER, [{"O": "O"}.get(s) or next(hydrogens if s == "H" else sites) for s in symbols]
    if len(symbols) == 1 and (symbols[0].upper() in IONS or symbols[0] in {"Mg", "Ca", "Zn"}):
        return symbols[0].upper(), [symbols[0].upper()]
    return residue.name, own


def _chains(loaded: Loaded) -> list[tuple[str, list[app.topology.Residue]]]:
    """Residues by chain: those of the author, or one for each molecule and one for each run of solvent."""
    if loaded.keeps_chains:
        # What a reader would not take as it is gets a letter when it is written.
        named = ((chain.id.strip(), list(chain.residues())) for chain in loaded.topology.chains())
        return [(name if GOOD_CHAIN.fullmatch(name) else "", residues) for name, residues in named]
    joined: dict[int, int] = {}
    for a, b in loaded.topology.bonds():
        low, high = sorted((a.residue.index, b.residue.index))
        if low != high:
            # The nearest one before: a disulfide may lead to another chain.
            joined[high] = max(low, joined.get(high, low))
    runs: list[list[app.topology.Residue]] = []
    was_solvent = False
    ends: dict[int, int] = {}
    for residue in loaded.topology.residues():
        is_solvent = _is_solvent(residue)
        run = ends.get(joined[residue.index]) if residue.index in joined else None
        # A residue that is bonded to an earlier one is of its chain, if nothing else has come in between.
        is_of_last = (run == len(runs) - 1) if run is not None else is_solvent and was_solvent
        if not is_of_last or not runs:
            runs.append([])
        runs[-1].append(residue)
        ends[residue.index] = len(runs) - 1
        was_solvent = is_solvent
    return [(name, run) for run, name in zip(runs, chain_letters(set()), strict=False)]


def _is_solvent(residue: app.topology.Residue) -> bool:
    """Whether a residue is one of many that share a chain: water, an ion, a lipid."""
    n_atoms = sum(1 for _ in residue.atoms())
    elements = Counter(atom.element.symbol for atom in residue.atoms() if atom.element)
    return n_atoms == 1 or elements == {"H": 2, "O": 1} or kind(residue) == "lipid"


def add_bonds(topology: app.Topology, system: openmm.System) -> None:
    """Add bonds that the forces have and a structure file has not: those of residues that only it knows."""
    known = {frozenset(bond) for bond in topology.bonds()}
    atoms = list(topology.atoms())
    lengths: dict[tuple[int, int], float] = {}
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            for i in range(force.getNumBonds()):
                a, b, length, _ = force.getBondParameters(i)
                lengths[a, b] = length._value
    for i in range(system.getNumConstraints()):
        a, b, length = system.getConstraintParameters(i)
        lengths[a, b] = length._value
    for (a, b), length in lengths.items():
        pair = frozenset((atoms[a], atoms[b]))
        if pair not in known and length < LONGEST * (_radius(atoms[a]) + _radius(atoms[b])):
            topology.addBond(atoms[a], atoms[b])
            known.add(pair)


def _radius(atom: app.topology.Atom) -> float:
    return RADII.get(atom.element.symbol if atom.element else "", OTHER_RADIUS)


def whole(topology: app.Topology, places: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places, in nm, with each molecule in one piece: snapshots of simulations are cut at the faces of the box."""
    bonded: dict[int, list[int]] = defaultdict(list)
    for a, b in topology.bonds():
        bonded[a.index].append(b.index)
        bonded[b.index].append(a.index)
    found = places.copy()
    done: set[int] = set()
    for start in sorted(bonded):
        waiting = [start] if start not in done else []
        done.add(start)
        while waiting:
            atom = waiting.pop()
            for other in bonded[atom]:
                if other not in done:
                    done.add(other)
                    step = found[other] - found[atom]
                    for axis in (2, 1, 0):
                        step = step - round(step[axis] / vectors[axis, axis]) * vectors[axis]
                    found[other] = found[atom] + step
                    waiting.append(other)
    return np.asarray(found)
