"""Residues that OpenMM's tables lack but the force field has: their bonds and hydrogens.

A template is taken by name and by the graph of its heavy atoms: a name alone is not enough, as PCA is
pyroglutamate in the PDB and coumaric acid in CHARMM.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from openmm import app
from openmm.app.forcefield import ForceField
from openmm.app.internal import compiled

from molbox_worker.contacts import is_bond
from molbox_worker.structure import Atom, Residue

# As in Modeller.
PKA_HIS = 6.5


def own_bonds(residue: Residue) -> list[tuple[Atom, Atom]]:
    """Bonds of a residue's atoms; each hydrogen has one, to the nearest atom.

    Those of heavy atoms are the file's where it has some for each of them, and follow from distances
    where not.
    """
    heavy = residue.heavy
    recorded = {frozenset(pair) for pair in residue.recorded if pair[0].is_heavy and pair[1].is_heavy}
    if {atom for pair in recorded for atom in pair} == set(heavy):
        bonds = [(a, b) for a, b in combinations(heavy, 2) if {a, b} in recorded]
    else:
        bonds = [
            (a, b)
            for a, b in combinations(heavy, 2)
            if is_bond(a.element, b.element, float(np.linalg.norm(a.place - b.place)))
        ]
    for atom in residue.atoms:
        if atom.element is not None and not atom.is_heavy and heavy:
            nearest = min(heavy, key=lambda other: float(np.linalg.norm(other.place - atom.place)))
            bonds.append((nearest, atom))
    return bonds


def hydrogens(force_field: ForceField, residue: Residue, outside: set[str]) -> list[tuple[str, str]] | None:
    """The hydrogens that the force field's template of a residue has, and what they hang on.

    Parameters
    ----------
    force_field
        Its templates are looked through.
    residue
        Its heavy atoms and their `bonds` have to be those of the template.
    outside
        Names of its atoms that are bonded to other residues.

    Returns
    -------
    list of (name, parent's name) or None
        None when there is no such template.

    """
    for name in (residue.name, f"N{residue.name}", f"C{residue.name}"):
        template = force_field._templates.get(name)
        if template is not None:
            found = _matched(residue, template, outside)
            if found is not None:
                return found
    return None


def _matched(residue: Residue, template: ForceField._TemplateData, outside: set[str]) -> list[tuple[str, str]] | None:
    heavy = [i for i, atom in enumerate(template.atoms) if atom.element not in (None, app.element.hydrogen)]
    place = {index: i for i, index in enumerate(heavy)}
    reduced = ForceField._TemplateData(template.name)
    for index in heavy:
        atom = template.atoms[index]
        reduced.addAtom(ForceField._TemplateAtomData(atom.name, atom.type, atom.element))
    for a, b in template.bonds:
        if a in place and b in place:
            reduced.addBond(place[a], place[b])
    for index in template.externalBonds:
        reduced.addExternalBond(place[index])
    topology = app.Topology()
    chain = topology.addChain()
    copy = topology.addResidue(residue.name, chain)
    atoms = {id(atom): topology.addAtom(atom.name, atom.element, copy) for atom in residue.heavy}
    bonded: list[set[int]] = [set() for _ in atoms]
    for first, second in residue.bonds:
        if id(first) in atoms and id(second) in atoms:
            a, b = atoms[id(first)].index, atoms[id(second)].index
            bonded[a].add(b)
            bonded[b].add(a)
    for atom in list(copy.atoms()):
        if atom.name in outside:
            other = topology.addAtom("X", app.element.carbon, topology.addResidue("X", chain))
            bonded[atom.index].add(other.index)
            bonded.append({atom.index})
    match = compiled.matchResidueToTemplate(copy, reduced, bonded, False, False)
    if match is None:
        return None
    ours = {template.atoms[heavy[match[i]]].name: atom.name for i, atom in enumerate(copy.atoms())}
    found = []
    for index, atom in enumerate(template.atoms):
        if atom.element is app.element.hydrogen:
            (parent,) = (template.atoms[other].name for other in template.atoms[index].bondedTo)
            found.append((atom.name, ours[parent]))
    return found


def standard_hydrogens(name: str, variant: str | None = None, ph: float = 7.0) -> list[tuple[str, str]]:
    """The hydrogens that a residue of OpenMM's tables has within a chain, and what they hang on."""
    app.Modeller._loadStandardHydrogenDefinitions()
    spec = app.Modeller._residueHydrogens[name]
    if variant is None and name == "HIS":
        variant = "HIE" if ph > PKA_HIS else "HIP"
    found = []
    for hydrogen in spec.hydrogens:
        by_ph = ph <= hydrogen.maxph and (variant is None or hydrogen.variants is None)
        by_variant = hydrogen.variants is not None and variant in hydrogen.variants
        is_inner = hydrogen.terminal is None or "-" in hydrogen.terminal
        if (by_ph or by_variant) and is_inner:
            found.append((hydrogen.name, hydrogen.parent))
    return found
