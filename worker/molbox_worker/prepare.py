"""Making a deposited structure complete: what is missing, foreign or doubled in it.

Everything that is removed, added, replaced or guessed becomes a warning, and every residue of the
file is counted as kept, replaced or removed. What cannot be built as what it is, and lies where
leaving it out would change the rest, ends the build with its name.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from openmm import app
from openmm.app import element
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from molbox_worker import chains, names
from molbox_worker.added import add_missing
from molbox_worker.assemble import assemble
from molbox_worker.chains import Run
from molbox_worker.decide import SINGLY_CHARGED, Decision
from molbox_worker.directory import TaskDirectory
from molbox_worker.identify import identify
from molbox_worker.plan import BuildPlan
from molbox_worker.prepared import Account, Prepared
from molbox_worker.result import TaskError
from molbox_worker.structure import HYDROGENS, Atom, Residue, Structure

# More residues of a kind are counted, not listed.
MAX_NAMED = 20
# Bonds are twice as long, in nm: atoms that are nearer have no direction to each other.
ONE_PLACE_NM = 0.04
# Three points give a place and an orientation.
MIN_HEAVY_ATOMS = 3
# Oxygens of neighbouring waters are further apart, and from other atoms as well; ions may be nearer.
WATER_ROOM_NM = 0.24
WATER_TO_ION_NM = 0.17
# Atoms nearer than this to a metal are its ligands.
METAL_BOND_NM = 0.28
LOC: list[str | int] = ["body", "protein"]


def prepare(task: TaskDirectory, plan: BuildPlan, structure: Structure, base: app.ForceField, seed: int) -> Prepared:
    """Complete the structure: gaps, nonstandard residues, heterogens, missing atoms."""
    account = Account()
    identify(task, structure)
    n_residues = sum(1 for _ in structure.residues())
    for residue in structure.residues():
        if chains.is_monomer(residue) and not residue.heavy:
            _refuse_bare(residue)
    runs = chains.find_runs(task, structure)
    bare = chains.drop_bare_ends(task, runs)
    for chain in structure.chains:
        chain.residues = [residue for residue in chain.residues if residue not in bare]
    runs = [run for run in runs if run.residues]
    _refuse_bare_residues(runs)
    decision = Decision(task, plan, base, runs, structure)
    runs, others = decision.runs, decision.others
    account.counts["removed"] = len(bare) + len(decision.removed)
    if not runs and not others:
        _refuse_nothing(decision.removed)
    _refuse_collapsed_residues(runs)
    account.counts["replaced"] = _replace_artefacts(task, runs)
    _remove_leading_phosphates(task, runs)
    if not plan.keep_hydrogens:
        _remove_hydrogens(runs, others)
    runs, account.counts["built"] = add_missing(task, runs, others, seed)
    others = _remove_overlapping_water(task, runs, others, account)
    coordinate(task, [residue for run in runs for residue in run.residues], others)
    account.counts["kept"] = n_residues - account.counts["removed"] - account.counts["replaced"]
    return assemble(task, plan, runs, others, decision.links, account)


def _refuse_bare_residues(runs: list[Run]) -> None:
    """Refuse a residue of which too little is there to know where the rest has to be."""
    for residue in [residue for run in runs for residue in run.residues]:
        needed = 1 if residue.name in names.CAPS else MIN_HEAVY_ATOMS
        if chains.is_bare(residue) or len(residue.heavy) < needed:
            _refuse_bare(residue)


def _refuse_collapsed_residues(runs: list[Run]) -> None:
    """Refuse a residue with two atoms in one place."""
    for residue in [residue for run in runs for residue in run.residues]:
        distances = pdist([atom.place for atom in residue.heavy])
        if len(distances) and distances.min() < ONE_PLACE_NM:
            first, second = list(itertools.combinations(residue.heavy, 2))[int(distances.argmin())]
            raise TaskError(
                "atoms_overlap",
                f"{first.name} and {second.name} of {residue} have the same place",
                remedy="correct the coordinates there",
                loc=LOC,
                residues=[residue.called],
            )


def _refuse_bare(residue: Residue) -> None:
    lacking = [name for name in ("N", "CA", "C") if residue.name in names.AMINO_ACIDS and name not in residue]
    without = f" and lacks {' and '.join(lacking)}" if lacking and residue.heavy else ""
    raise TaskError(
        "residue_bare",
        f"{residue} has {len(residue.heavy)} heavy atoms where it is in the file{without}; the others cannot be"
        f" placed from fewer than {MIN_HEAVY_ATOMS}, of an amino acid N, CA and C",
        remedy="write all atoms of a residue together, and give a structure with side chains and backbone",
        loc=LOC,
        residues=[residue.called],
    )


def _refuse_nothing(removed: list[Residue]) -> None:
    lone = next((r for r in removed if r.name in names.AMINO_ACIDS | names.NUCLEOTIDES), None)
    if lone is not None:
        raise TaskError(
            "no_atoms",
            f"{lone} is a chain by itself: it is bonded to no neighbour, the force field has no residue that is both"
            " ends of a chain, and nothing is left without it",
            remedy="give nucleotides their phosphates, and an amino acid caps, ACE before and NME after it",
            loc=LOC,
            residues=[lone.called],
        )
    raise TaskError(
        "no_atoms",
        "nothing is left of the structure once heterogens are removed",
        remedy="give a structure with a protein or a nucleic acid, or register the molecule as a ligand",
        loc=LOC,
    )


def _replace_artefacts(task: TaskDirectory, runs: list[Run]) -> int:
    """Make standard residues of what the experiment changed; returns how many."""
    kinds: dict[str, list[tuple[Residue, str]]] = defaultdict(list)
    for run in runs:
        for residue in run.residues:
            standard = names.ARTEFACTS.get(residue.name)
            if standard is None or residue.hydrogens is not None:
                continue
            kinds[residue.name].append((residue, _replace(residue, standard)))
    for name, replaced in kinds.items():
        if len(replaced) > MAX_NAMED:
            residue, change = replaced[0]
            what = f"{len(replaced)} residues {name} replaced by {residue.name}, {change}"
            task.warn("residue_replaced", what, *[residue.called for residue, _ in replaced])
        else:
            for residue, change in replaced:
                task.warn("residue_replaced", f"{residue} replaced by {residue.name}, {change}", residue.called)
    return sum(map(len, kinds.values()))


def _replace(residue: Residue, standard: str) -> str:
    """Change a residue into the standard one; returns how they differ."""
    residue.name = standard
    selenium = residue.atom("SE")
    if standard == "MET" and selenium is not None:
        selenium.name, selenium.element = "SD", element.sulfur
        change = "its selenium by sulfur"
    else:
        lost = [atom.name for atom in residue.heavy if atom.name not in names.HEAVY[standard]]
        residue.atoms = [atom for atom in residue.heavy if atom.name not in lost]
        change = f"without {' and '.join(lost)}" if lost else "whose atoms it has"
    return change


def _remove_leading_phosphates(task: TaskDirectory, runs: list[Run]) -> None:
    """Strands start with a hydroxyl group in the force fields."""
    for run in runs:
        first = run.residues[0]
        if first.name not in names.NUCLEOTIDES:
            continue
        phosphate = {"P", "OP1", "OP2", "OP3", "HOP2", "HOP3"}
        if any(atom.name in phosphate for atom in first.atoms):
            first.atoms = [atom for atom in first.atoms if atom.name not in phosphate]
            what = f"the phosphate at the start of a strand, on {first}, was removed"
            task.warn("phosphate_removed", what, first.called)


def _remove_hydrogens(runs: list[Run], others: list[Residue]) -> None:
    """Remove those that can be placed anew."""
    for residue in [residue for run in runs for residue in run.residues] + others:
        residue.atoms = [atom for atom in residue.atoms if atom.element not in HYDROGENS]


def _remove_overlapping_water(
    task: TaskDirectory, runs: list[Run], others: list[Residue], account: Account
) -> list[Residue]:
    """Remove crystal water that lies on other atoms, or on a water with a larger occupancy.

    It belongs to another location of what it lies on, or to a place that the crystal has in part.
    """
    dry = [residue for run in runs for residue in run.residues] + [r for r in others if not r.is_water]
    waters = sorted((r for r in others if r.is_water), key=lambda water: -_oxygen(water).occupancy)
    ends = [(residue, atom) for residue in dry for atom in residue.heavy]
    rooms = np.array([WATER_ROOM_NM if len(residue.heavy) > 1 else WATER_TO_ION_NM for residue, _ in ends])
    removed: set[Residue] = set()
    if waters and ends:
        tree = cKDTree(np.array([atom.place for _, atom in ends]))
        for water in waters:
            near = tree.query_ball_point(_oxygen(water).place, WATER_ROOM_NM)
            if any(np.linalg.norm(ends[i][1].place - _oxygen(water).place) < rooms[i] for i in near):
                removed.add(water)
    n_on_others = len(removed)
    left = [water for water in waters if water not in removed]
    if left:
        places = np.array([_oxygen(water).place for water in left])
        for i, j in sorted(cKDTree(places).query_pairs(WATER_ROOM_NM)):
            # Sorted by occupancy: the second has the smaller one.
            if left[i] not in removed:
                removed.add(left[j])
    if n_on_others:
        task.warn("water_removed", f"{n_on_others} crystal waters removed that lay on other atoms")
    if len(removed) > n_on_others:
        task.warn("water_removed", f"{len(removed) - n_on_others} crystal waters removed that lay on others")
    account.counts["removed"] += len(removed)
    return [residue for residue in others if residue not in removed]


def _oxygen(water: Residue) -> Atom:
    return next(atom for atom in water.atoms if atom.element is element.oxygen)


def coordinate(task: TaskDirectory, residues: Iterable[Residue], others: Iterable[Residue]) -> None:
    """Have the atom of a residue that holds a metal take no hydrogen, unless its name asks for it."""
    metals = [atom.place for residue in others for atom in residue.heavy if _is_metal(residue)]
    if not metals:
        return
    by_atom = {("HIS", "ND1"): "HIE", ("HIS", "NE2"): "HID", ("CYS", "SG"): "CYX"}
    for residue in residues:
        for atom in residue.heavy:
            variant = by_atom.get((residue.name, atom.name))
            if variant is None or residue.variant is not None:
                continue
            if np.linalg.norm(np.array(metals) - atom.place, axis=1).min() < METAL_BOND_NM:
                residue.variant = variant
                # CYX without its bond has the atoms of CYM, the thiolate.
                what = f"{residue} holds a metal: taken as {'CYM' if variant == 'CYX' else variant}"
                task.warn("metal_ligand", what, residue.called)


def _is_metal(residue: Residue) -> bool:
    (first, *more) = residue.heavy
    is_heavy = first.element is not None and first.element.atomic_number > 11
    return is_heavy and not more and residue.name not in SINGLY_CHARGED and not residue.is_water
