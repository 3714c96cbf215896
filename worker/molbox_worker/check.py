"""The check that every system passes before its build may succeed, whatever path led there."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app
from scipy.spatial import cKDTree

from molbox_worker import names, relax
from molbox_worker.contacts import unbonded
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import called
from molbox_worker.prepared import Account
from molbox_worker.result import ClosestContact, Findings, LargestForce, LongestBond, ResidueName, TaskError
from molbox_worker.structure import FLAT_NM3, HYDROGENS, ca_volume
from molbox_worker.topology import WATER, nearest

# Of its length in the force field.
LONGEST_BOND = 1.2
# The same within a residue, between atoms that the file has. Disordered side chains are deposited
# like this, 1US0 at 0.66 Å among them, and minimisation heals it. It is reported.
LONGEST_DEPOSITED_BOND = 1.5
# Of the sum of radii. Hydrogen bonds and salt bridges are above: see contacts.DEEPER_NM.
CLOSEST_CONTACT = 0.6
# The same where a hydrogen takes part. Few files have them, and where deposited atoms crowd each
# other they cannot be placed any better: of 40 crystal structures 3 have 0.58 to 0.60 after
# minimisation, with forces below 1e5. It is reported.
CLOSEST_HYDROGEN = 0.5
# Contacts up to so many times as long are looked for first; the closest one is reported.
MARGIN = 1.25
# kJ/mol/nm, of any atom once what was added is minimised. Crystal structures have up to 1e5.
LARGEST_FORCE = 1e6
# Charges of templates are rounded: 5e-4 e of a whole membrane.
CHARGE_TOLERANCE = 0.01
# What stays where the file has it may move by the rounding of single precision, nm.
STAYS_NM = 1e-4
CIS_DEGREES = 30
MAX_NAMED = 20
LOC: list[str | int] = ["body", "protein"]


def place(atom: app.topology.Atom, authors: dict[str, str] | None = None) -> str:
    """An atom as its author calls it; `authors` has the chains' identifiers in the file by ours."""
    return f"{atom.name} of {_called(atom.residue, authors or {})}"


def _called(residue: app.topology.Residue, authors: dict[str, str]) -> ResidueName:
    found = called(residue)
    return replace(found, chain_id=authors.get(found.chain_id, found.chain_id))


def check(
    task: TaskDirectory,
    topology: app.Topology,
    system: openmm.System,
    state: openmm.State,
    account: Account,
    *,
    is_neutral: bool = True,
) -> Findings:
    """Refuse a system that is not what it should be.

    Parameters
    ----------
    task
        Takes the warnings.
    topology, system
        The whole system.
    state
        Its positions, energy, forces and box, once what was added to the structure is minimised.
    account
        What became of the residues of the structure.
    is_neutral
        Whether ions were added that make it neutral.

    Raises
    ------
    TaskError
        ``not_finite``, ``bond_stretched``, ``bond_missing``, ``atoms_overlap``, ``force_too_large``,
        ``charge_not_whole``, ``wrong_handed`` or ``residues_unaccounted``.

    """
    positions = np.asarray(state.getPositions(asNumpy=True)._value)
    vectors = np.asarray(state.getPeriodicBoxVectors(asNumpy=True)._value)
    atoms = list(topology.atoms())
    authors = account.authors
    _check_energy(state, atoms, authors)
    _check_residues(topology, positions, account)
    longest_bond = check_bonds(task, topology, system, positions, vectors, account)
    closest = check_contacts(topology, positions, vectors, authors)
    if closest and closest.ratio < CLOSEST_CONTACT:
        first, second = closest.atoms
        apart = f"{closest.distance:.3f} nm apart"
        task.warn("hydrogen_crowded", f"{first} and {second} are {apart}: the atoms around leave no more room")
    largest_force = _check_forces(state, atoms, authors)
    if is_neutral:
        _check_charge(system)
    check_hands(topology, positions, authors)
    _report_cis(task, topology, positions)
    residues = {key: account.counts[key] for key in ("kept", "replaced", "removed", "built")}
    return Findings(longest_bond, closest, largest_force, residues)


def _check_energy(state: openmm.State, atoms: list[app.topology.Atom], authors: dict[str, str]) -> None:
    energy = state.getPotentialEnergy()._value
    if math.isfinite(energy):
        return
    forces = np.linalg.norm(state.getForces(asNumpy=True)._value, axis=1)
    worst = atoms[int(np.nan_to_num(forces, nan=np.inf).argmax())]
    raise TaskError(
        "not_finite",
        f"the energy is not finite: atoms lie on top of each other, worst at {place(worst, authors)}",
        remedy="check the coordinates of the structure file",
        loc=LOC,
        residues=[_called(worst.residue, authors)],
    )


def check_bonds(
    task: TaskDirectory,
    topology: app.Topology,
    system: openmm.System,
    positions: NDArray[np.float64],
    vectors: NDArray[np.float64] | None,
    account: Account,
) -> LongestBond | None:
    """The bond that is longest beside its length in the force field; refuses one that is too long.

    One that is strained in the file already, within a residue, is reported.
    """
    authors = account.authors
    atoms = list(topology.atoms())
    bonded = {(a.index, b.index) if a.index < b.index else (b.index, a.index) for a, b in topology.bonds()}
    lengths: dict[tuple[int, int], float] = {}
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            for i in range(force.getNumBonds()):
                a, b, length, strength = force.getBondParameters(i)
                if strength._value > 0:
                    lengths[min(a, b), max(a, b)] = length._value
        elif isinstance(force, openmm.CustomBondForce):
            for i in range(force.getNumBonds()):
                a, b, _ = force.getBondParameters(i)
                lengths.setdefault((min(a, b), max(a, b)), math.nan)
    for i in range(system.getNumConstraints()):
        a, b, length = system.getConstraintParameters(i)
        lengths[min(a, b), max(a, b)] = length._value
    without = sorted(pair for pair in bonded - lengths.keys() if not any(map(system.isVirtualSite, pair)))
    if without:
        a, b = (atoms[i] for i in without[0])
        raise TaskError(
            "bond_missing",
            f"the force field has no parameters for the bond of {place(a, authors)} to {place(b, authors)}:"
            " nothing would hold it",
            remedy="add the bond's parameters to the force-field file",
            loc=["body", "force_field"],
            residues=[_called(atoms[i].residue, authors) for i in without[0]],
        )
    pairs = np.array(sorted(bonded & lengths.keys()), dtype=np.int64).reshape(-1, 2)
    natural = np.array([lengths[a, b] for a, b in pairs.tolist()])
    pairs, natural = pairs[np.isfinite(natural)], natural[np.isfinite(natural)]
    if len(pairs) == 0:
        return None
    steps = positions[pairs[:, 0]] - positions[pairs[:, 1]]
    found = np.linalg.norm(steps if vectors is None else nearest(steps, vectors), axis=1)
    ratios = found / natural
    # Water is rigid: its shape is that of the water model from the first step on.
    is_dry = np.array([atoms[a].residue.name != WATER for a in pairs[:, 0]])
    stays = relax.stay(positions, account.deposited)
    is_inner = np.array([atoms[a].residue is atoms[b].residue for a, b in pairs.tolist()])
    is_deposited = stays[pairs].all(axis=1) & is_inner
    is_refused = ratios > np.where(is_deposited, LONGEST_DEPOSITED_BOND, LONGEST_BOND)
    worst = int(np.where(is_refused if is_refused.any() else is_dry, ratios, 0.0).argmax())
    first, second = (atoms[i] for i in pairs[worst])
    residues = [_called(first.residue, authors), _called(second.residue, authors)]
    what = (
        f"the bond of {place(first, authors)} to {place(second, authors)} is {found[worst]:.3f} nm long,"
        f" {ratios[worst]:.2f} times its length in the force field"
    )
    if is_refused[worst]:
        raise TaskError(
            "bond_stretched",
            what,
            remedy="correct the coordinates there, or take residues out so that a gap is left",
            loc=LOC,
            residues=residues,
        )
    n_strained = int(((ratios > LONGEST_BOND) & is_dry).sum())
    if n_strained:
        more = f", and {n_strained - 1} more are too long" if n_strained > 1 else ""
        task.warn("bond_strained", f"{what}, as in the file{more}: minimisation shortens it", *residues)
    return LongestBond(
        ratio=round(float(ratios[worst]), 3),
        length=round(float(found[worst]), 4),
        atoms=[place(first, authors), place(second, authors)],
    )


def check_contacts(
    topology: app.Topology,
    positions: NDArray[np.float64],
    vectors: NDArray[np.float64] | None,
    authors: dict[str, str],
) -> ClosestContact | None:
    """The nearest atoms by their radii that no bond or angle joins; refuses those that are too near."""
    for share in (CLOSEST_CONTACT * MARGIN, 1.0):
        pairs, distances, ratios = unbonded(topology, positions, vectors, share)
        if len(pairs):
            break
    else:
        return None
    atoms = list(topology.atoms())
    has_hydrogen = np.array([any(atoms[i].element in HYDROGENS for i in pair) for pair in pairs])
    is_refused = ratios < np.where(has_hydrogen, CLOSEST_HYDROGEN, CLOSEST_CONTACT)
    worst = int(ratios.argmin())
    if is_refused.any():
        # Hydrogens are where other atoms leave them room: heavy atoms first.
        worst = int(np.lexsort((ratios, has_hydrogen, ~is_refused))[0])
    first, second = (atoms[i] for i in pairs[worst])
    if is_refused[worst]:
        n_more = int(is_refused.sum()) - 1
        are = "pair is" if n_more == 1 else "pairs are"
        more = f", and {n_more} more {are} as near" if n_more else ""
        raise TaskError(
            "atoms_overlap",
            f"{place(first, authors)} and {place(second, authors)} are {distances[worst]:.3f} nm apart without a bond,"
            f" {ratios[worst]:.2f} of the sum of their radii{more}",
            remedy="correct the coordinates there, leave one of the two out, or give their bond by a LINK record",
            loc=LOC,
            residues=[_called(first.residue, authors), _called(second.residue, authors)],
        )
    return ClosestContact(
        ratio=round(float(ratios[worst]), 3),
        distance=round(float(distances[worst]), 4),
        atoms=[place(first, authors), place(second, authors)],
    )


def _check_forces(state: openmm.State, atoms: list[app.topology.Atom], authors: dict[str, str]) -> LargestForce:
    forces = np.linalg.norm(state.getForces(asNumpy=True)._value, axis=1)
    worst = int(np.nan_to_num(forces, nan=np.inf).argmax())
    if not forces[worst] <= LARGEST_FORCE:
        raise TaskError(
            "force_too_large",
            f"a force of {forces[worst]:.2g} kJ/mol/nm is left on {place(atoms[worst], authors)} after minimisation;"
            f" no sound structure has more than {LARGEST_FORCE:.0e}",
            remedy="correct the coordinates there",
            loc=LOC,
            residues=[_called(atoms[worst].residue, authors)],
        )
    return LargestForce(float(f"{forces[worst]:.4g}"), place(atoms[worst], authors))


def _check_charge(system: openmm.System) -> None:
    charge = net_charge(system)
    if abs(charge) > CHARGE_TOLERANCE:
        is_whole = abs(charge - round(charge)) < CHARGE_TOLERANCE
        raise TaskError(
            "charge_not_neutral",
            f"the charges of the system add up to {charge:+.3f} e"
            + (": its ions do not neutralise it" if is_whole else ", which no number of ions neutralises"),
            remedy="the charges of each molecule's template have to add up to a whole number",
            loc=["body", "force_field"],
        )


def net_charge(system: openmm.System) -> float:
    """Sum of the partial charges, e."""
    total = 0.0
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            total += sum(force.getParticleParameters(i)[0]._value for i in range(force.getNumParticles()))
    return total


def _check_residues(topology: app.Topology, positions: NDArray[np.float64], account: Account) -> None:
    """Refuse a system that lacks residues or bonds of the structure, or has moved what is to stay."""
    there = Counter((r.chain.id, r.id, r.insertionCode) for r in topology.residues())
    lost = account.identities - there
    if lost:
        chain, number, insertion = next(iter(lost))
        raise _unaccounted(f"residue {number}{insertion.strip()} of chain {chain} was lost")
    joined: set[frozenset[tuple[str, str, str]]] = set()
    for a, b in topology.bonds():
        if a.residue is not b.residue:
            joined.add(frozenset((r.chain.id, r.id, r.insertionCode) for r in (a.residue, b.residue)))
    of_structure = {pair for pair in joined if all(identity in account.identities for identity in pair)}
    for pair in of_structure ^ account.joined:
        what = "are bonded by the way" if pair in of_structure else "are not bonded any more"
        ends = " and ".join(f"{number}{code.strip()} of chain {chain}" for chain, number, code in sorted(pair))
        raise _unaccounted(f"residues {ends} {what}")
    if len(account.deposited):
        distances, _ = cKDTree(positions).query(account.deposited)
        if distances.max() > STAYS_NM:
            raise _unaccounted(f"an atom of the structure was moved by {distances.max():.3f} nm or lost")


def _unaccounted(what: str) -> TaskError:
    return TaskError(
        "residues_unaccounted",
        f"the built system is not the structure that was to be built: {what}",
        remedy="this is a defect of the program: report it with the structure file",
        loc=LOC,
    )


def check_hands(topology: app.Topology, positions: NDArray[np.float64], authors: dict[str, str]) -> None:
    """Refuse amino acids whose CA has the other hand than their name, or none."""
    for residue in topology.residues():
        index = {atom.name: atom.index for atom in residue.atoms()}
        is_mirrored = residue.name in names.MIRRORED
        if not (residue.name in names.AMINO_ACIDS or is_mirrored) or not index.keys() >= {"N", "CA", "C", "CB"}:
            continue
        n, ca, c, cb = (positions[index[name]] for name in ("N", "CA", "C", "CB"))
        volume = ca_volume(n, ca, c, cb)
        if (-volume if is_mirrored else volume) < FLAT_NM3:
            other = "an L-amino acid" if is_mirrored else "a D-amino acid"
            shape = "flat" if abs(volume) < FLAT_NM3 else f"that of {other}"
            raise TaskError(
                "wrong_handed",
                f"the shape of {place(next(a for a in residue.atoms() if a.name == 'CA'), authors)} is {shape}",
                remedy="correct its coordinates, or give it the name of what it is, such as DAL or ALA",
                loc=LOC,
                residues=[_called(residue, authors)],
            )


def _report_cis(task: TaskDirectory, topology: app.Topology, positions: NDArray[np.float64]) -> None:
    """Report peptide bonds that are cis, but for those before proline."""
    cis = []
    for pair in topology.bonds():
        if {atom.name for atom in pair} != {"C", "N"} or pair[0].residue is pair[1].residue:
            continue
        c, n = pair if pair[0].name == "C" else pair[::-1]
        before, after = (next((atom for atom in end.residue.atoms() if atom.name == "CA"), None) for end in (c, n))
        if before is None or after is None or n.residue.name in {"PRO", "DPR"}:
            continue
        torsion = _torsion(positions[[before.index, c.index, n.index, after.index]])
        if abs(torsion) < CIS_DEGREES:
            ends = [f"{r.name} {r.id}{r.insertionCode.strip()}" for r in (c.residue, n.residue)]
            cis.append(" and ".join(ends))
    if cis:
        more = f", and {len(cis) - MAX_NAMED} more" if len(cis) > MAX_NAMED else ""
        task.warn("cis_peptide", f"the peptide bonds between {'; '.join(cis[:MAX_NAMED])}{more} are cis")


def _torsion(points: NDArray[np.float64]) -> float:
    """Torsion of four points, degrees."""
    a, b, c = np.diff(points, axis=0)
    left, right = np.cross(a, b), np.cross(b, c)
    return float(np.degrees(np.arctan2(np.linalg.norm(b) * (a @ right), left @ right)))
