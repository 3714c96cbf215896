"""A prepared structure in OpenMM's form, with chains and numbers that any reader takes."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
from openmm import Vec3, app, unit

from molbox_worker import chains, names, templates
from molbox_worker.chains import Run, is_nucleotide
from molbox_worker.directory import TaskDirectory
from molbox_worker.identify import parent
from molbox_worker.plan import BuildPlan
from molbox_worker.prepared import Account, Hydrogens, Prepared, chain_letters
from molbox_worker.structure import HYDROGENS, Atom, Link, Residue

# Identifiers that any reader of mmCIF and PDB takes as they are: `_` and `data_` begin something else there.
GOOD_CHAIN = re.compile(r"[A-Za-z0-9]{1,8}")


def assemble(
    task: TaskDirectory,
    plan: BuildPlan,
    runs: list[Run],
    others: list[Residue],
    found: list[Link],
    account: Account,
) -> Prepared:
    """Make a topology of residues in chains and beside them, with the bonds within, along chains and `found`.

    `account` takes what the check of the built system compares.
    """
    topology = app.Topology()
    atoms: dict[Atom, app.topology.Atom] = {}
    copies: dict[Residue, app.topology.Residue] = {}
    places = []
    named = _named(task, runs, others)
    _number_anew(task, named)
    for name, residues in named:
        chain = topology.addChain(name)
        for residue in residues:
            _name_acid_hydrogens(residue)
            copies[residue] = topology.addResidue(residue.name, chain, str(residue.number), residue.insertion)
            for atom in residue.atoms:
                atoms[atom] = topology.addAtom(atom.name, atom.element, copies[residue])
                places.append(Vec3(*atom.place))
    _add_bonds(topology, copies, runs, found, atoms)
    identity = {residue: (copy.chain.id, copy.id, copy.insertionCode) for residue, copy in copies.items()}
    account.identities = Counter(identity.values())
    account.authors = {copy.chain.id: residue.chain for residue, copy in copies.items()}
    pairs = [pair for run in runs for pair in run.pairs()] + [(a.first[0], a.second[0]) for a in found]
    account.joined = {frozenset((identity[a], identity[b])) for a, b in pairs}
    deposited = [atom.place for atom in atoms if not atom.built]
    account.deposited = np.array(deposited).reshape(-1, 3)
    final_names = [names.MIRROR_IMAGES[r.name] if r.is_mirrored else r.name for r in copies]
    for copy, name in zip(copies.values(), final_names, strict=True):
        copy.name = name
    ends = {residue for run in runs if run.is_closed for residue in (run.residues[0], run.residues[-1])}
    return Prepared(
        app.Modeller(topology, places * unit.nanometer),
        [_hydrogens(residue, plan, is_inner=residue in ends) for residue in copies],
        [residue.name for residue in copies],
        final_names,
        account,
    )


def _named(task: TaskDirectory, runs: list[Run], others: list[Residue]) -> list[tuple[str, list[Residue]]]:
    """Residues by chains that have a name of their own, which any reader takes as it is."""
    parts = [(run.chain, run.residues) for run in runs]
    parts += [(name, list(part)) for name, part in itertools.groupby(others, key=lambda residue: residue.chain)]
    wanted = {name for name, _ in parts if GOOD_CHAIN.fullmatch(name)}
    fresh = chain_letters(wanted)
    taken: set[str] = set()
    named = []
    for i, (name, residues) in enumerate(parts):
        new = name if name in wanted - taken else next(fresh)
        if i < len(runs) and name not in wanted:
            task.warn("chain_renamed", f"chain {name!r} became {new}: not every reader of mmCIF takes its name")
        taken.add(new)
        named.append((new, residues))
    return named


def _number_anew(task: TaskDirectory, named: list[tuple[str, list[Residue]]]) -> None:
    """Give numbers of their own to residues of a chain that share one, as waters do where numbers wrap.

    Readers take neighbours with one number for one residue.
    """
    for name, residues in named:
        numbers = [(residue.number, residue.insertion) for residue in residues]
        fresh = itertools.count(max(number for number, _ in numbers) + 1)
        taken: set[tuple[int, str]] = set()
        renumbered = []
        for residue, number in zip(residues, numbers, strict=True):
            if number in taken:
                renumbered.append(str(residue))
                residue.number = next(fresh)
            taken.add(number)
        if renumbered:
            which = renumbered[0] if len(renumbered) == 1 else f"{len(renumbered)} residues, {renumbered[0]} the first,"
            task.warn("residue_renumbered", f"{which} had the number of another of chain {name} and got one of its own")


def _add_bonds(
    topology: app.Topology,
    residues: Iterable[Residue],
    runs: list[Run],
    found: list[Link],
    atoms: dict[Atom, app.topology.Atom],
) -> None:
    residues = list(residues)
    topology.createStandardBonds()
    known = {frozenset(bond) for bond in topology.bonds()}
    wanted = [(link.first[1], link.second[1]) for link in found]
    wanted += [bond for residue in residues for bond in residue.bonds if atoms.keys() >= set(bond)]
    for run in runs:
        for before, after in itertools.pairwise(run.residues):
            left, right = chains.PHOSPHODIESTER if is_nucleotide(after) else chains.PEPTIDE
            ends = before.atom(left), after.atom(right)
            if ends[0] and ends[1]:
                wanted.append((ends[0], ends[1]))
    bonded = {atom for bond in known for atom in bond}
    for residue in residues:
        # Hydrogens of the file whose names OpenMM does not know.
        for atom in residue.atoms:
            if atom.element in HYDROGENS and atoms[atom] not in bonded and (heavy := parent(atom, residue.heavy)):
                wanted.append((heavy, atom))
    for first, second in wanted:
        pair = frozenset((atoms[first], atoms[second]))
        if pair not in known:
            known.add(pair)
            topology.addBond(atoms[first], atoms[second])


def _hydrogens(residue: Residue, plan: BuildPlan, *, is_inner: bool) -> Hydrogens:
    if residue.hydrogens is not None:
        return residue.hydrogens
    variant = residue.variant
    if variant is None and plan.keep_hydrogens:
        variant = variant_of_file(residue)
    # Modeller takes the first and the last residue of a chain for ends.
    return templates.standard_hydrogens(residue.name, variant, plan.ph) if is_inner else variant


# The hydrogen that Modeller does not know of each acid and its oxygen, and those that it does.
OTHER_OXYGEN = {"ASP": ("HD1", "OD1", "HD2", "OD2"), "GLU": ("HE1", "OE1", "HE2", "OE2")}
LYSINE = ("HZ1", "HZ2", "HZ3")


def _name_acid_hydrogens(residue: Residue) -> None:
    """Give hydrogens that a file has the names by which Modeller knows them in an acid or a neutral lysine.

    The oxygens of an acid are alike, and so are the hydrogens of lysine: Amber's LYN has HZ2 and HZ3.
    """
    if residue.name == "LYS":
        found = [atom for name in LYSINE if (atom := residue.atom(name))]
        if len(found) == 2:
            found[0].name, found[1].name = LYSINE[:2]
    elif residue.name in OTHER_OXYGEN:
        hydrogen, oxygen, other_hydrogen, other_oxygen = (residue.atom(name) for name in OTHER_OXYGEN[residue.name])
        if hydrogen and oxygen and other_oxygen and not other_hydrogen:
            hydrogen.name = OTHER_OXYGEN[residue.name][2]
            oxygen.name, other_oxygen.name = other_oxygen.name, oxygen.name


def variant_of_file(residue: Residue) -> str | None:
    """Protonation variant that the hydrogens of a residue show; None when they leave it to the pH."""
    found = {atom.name for atom in residue.atoms if atom.element in HYDROGENS}
    if not found:
        return None
    by_hydrogens = {
        "ASP": "ASH" if found & {"HD1", "HD2"} else "ASP",
        "GLU": "GLH" if found & {"HE1", "HE2"} else "GLU",
        "LYS": {3: "LYS", 2: "LYN"}.get(len(found & {"HZ1", "HZ2", "HZ3"})),
        "CYS": "CYS" if "HG" in found else None,
        "HIS": {("HD1", "HE2"): "HIP", ("HD1",): "HID", ("HE2",): "HIE"}.get(tuple(sorted(found & {"HD1", "HE2"}))),
    }
    return by_hydrogens.get(residue.name)
