"""What residues and atoms of a file are: OpenMM's names where theirs stand for the same."""

from __future__ import annotations

import numpy as np
from openmm.app import element

from molbox_worker import names
from molbox_worker.directory import TaskDirectory
from molbox_worker.structure import WATER, Atom, Residue, Structure


def identify(task: TaskDirectory, structure: Structure) -> None:
    """Give residues and atoms OpenMM's names where theirs stand for the same."""
    for chain in structure.chains:
        chain.residues = [part for residue in chain.residues for part in _without_caps(residue)]
    n_deuterium = 0
    for residue in structure.residues():
        n_deuterium += _replace_deuterium(residue)
        _name(residue)
    if n_deuterium:
        taken = "deuterium atom was" if n_deuterium == 1 else "deuterium atoms were"
        task.warn("deuterium_replaced", f"{n_deuterium} {taken} taken for hydrogen")
    for chain in structure.chains:
        renamed = [r for r in chain.residues if r.name in names.DNA and r.deposited in names.RNA]
        if renamed:
            have = "nucleotide has" if len(renamed) == 1 else "nucleotides have"
            count = f"in chain {chain.name} {len(renamed)} {have} no O2'"
            task.warn("residue_replaced", f"{count}: taken as DNA, though the first is called {renamed[0].deposited}")


def _without_caps(residue: Residue) -> list[Residue]:
    """The residue, and before and after it the caps that CHARMM writes into it."""
    present = {atom.name for atom in residue.atoms}
    if not present >= {"N", "CA", "C"}:
        return [residue]
    parts = [residue]
    for atoms, at in ((names.CAP_BEFORE, 0), (names.CAP_AFTER, 1)):
        taken = present & atoms.keys()
        if not taken or (at == 0 and len(taken) < len(atoms)) or "NT" in present - taken:
            continue
        cap = "ACE" if at == 0 else "NME" if "CAT" in taken else "NH2"
        own = [atom for atom in residue.atoms if atom.is_heavy and atom.name in taken]
        mine = [atom for atom in residue.atoms if not atom.is_heavy and parent(atom, residue.heavy) in own]
        residue.atoms = [atom for atom in residue.atoms if atom not in own and atom not in mine]
        new = Residue(cap, residue.chain, residue.number + 2 * at - 1, residue.insertion, cap, own + mine)
        for atom in own:
            atom.name = atoms[atom.name]
        parts.insert(at * len(parts), new)
    return parts


def parent(hydrogen: Atom, heavy: list[Atom]) -> Atom | None:
    """The heavy atom that a hydrogen is nearest to; None when there is none."""
    return min(heavy, key=lambda atom: float(np.linalg.norm(atom.place - hydrogen.place)), default=None)


def _replace_deuterium(residue: Residue) -> int:
    found = [atom for atom in residue.atoms if atom.element is element.deuterium]
    for atom in found:
        atom.element = element.hydrogen
        atom.name = "H" + atom.name[1:] if atom.name.startswith("D") else atom.name
    return len(found)


def _name(residue: Residue) -> None:
    if residue.name.upper() in names.POLYMER | names.WATERS:
        residue.name = residue.name.upper()
        for atom in residue.atoms:
            atom.name = atom.name.upper()
    heavy = {atom.name for atom in residue.heavy}
    if residue.name in names.WATERS:
        residue.name = WATER
        # Sites that are no atoms are left to the water model.
        residue.atoms = [atom for atom in residue.atoms if atom.element is not None]
    elif len(residue.atoms) == 1 and residue.name in names.IONS:
        residue.name = names.IONS[residue.name]
    elif residue.name in names.OTHER_CAPS:
        residue.name = names.OTHER_CAPS[residue.name]
    elif residue.name in names.MIRRORED and names.is_made_of(names.MIRRORED[residue.name], heavy):
        residue.name, residue.is_mirrored = names.MIRRORED[residue.name], True
    elif residue.name in names.RNA:
        residue.name = names.deoxy(residue.name, heavy)
    elif residue.name not in names.POLYMER and (found := names.standard(residue.name, heavy)):
        residue.name, residue.variant = found
    if residue.name in names.POLYMER or residue.is_water:
        replacements = names.atom_names(residue.name)
        for atom in residue.atoms:
            atom.name = replacements.get(atom.name, atom.name)
            if atom.element is not None:
                # Where names are shifted by a column, CA reads as calcium.
                letter = atom.name.lstrip("0123456789")[:1]
                atom.element = element.get_by_symbol(letter) if letter in names.LETTERS else atom.element
