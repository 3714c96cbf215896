"""Making a deposited structure complete: what is missing, foreign or doubled in it.

Everything that is removed, added, replaced or guessed becomes a warning.
"""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Iterable
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openmm import app, unit
from openmm.app import element
from pdbfixer import PDBFixer
from pdbfixer.pdbfixer import dnaResidues, proteinResidues, rnaResidues

from molbox_worker import force_field, locations
from molbox_worker.engine import platform
from molbox_worker.job import Job, JobError, Stopped
from molbox_worker.topology import WATER

# More residues of a kind are counted, not listed.
MAX_NAMED = 20
# Longer gaps are not built: a loop of this length is already a guess.
MAX_BUILT_GAP = 20
# A loop is built anew when atoms that are not bonded come nearer than this, so many times in all.
LOOP_ROOM_NM = 0.13
LOOP_ATTEMPTS = 4
# A coordinate beyond this is a damaged file, in nm.
MAX_COORDINATE_NM = 10_000.0
# Three points give a place and an orientation.
MIN_HEAVY_ATOMS = 3
# Residues further apart are not bonded; bonds of the backbone have 0.13 and 0.16 nm.
MAX_BACKBONE_BOND_NM = 0.25
# Atoms nearer than this to a metal are its ligands.
METAL_BOND_NM = 0.28
POLYMER = {*proteinResidues, *dnaResidues, *rnaResidues}
KEPT = {*POLYMER, "N", "ACE", "NME", "NMA", "NH2", WATER}
HEAVY_WATER = "DOD"
GLYCANS = {"NAG", "NDG", "BMA", "MAN", "FUC", "FUL", "GAL", "GLA", "GLC", "BGC", "SIA", "XYP", "XYS", "NGA", "A2G"}
SINGLY_CHARGED = {"NA", "K", "LI", "RB", "CS", "CL", "BR", "F", "IOD", "I"}
HYDROGENS = (element.hydrogen, element.deuterium)
LOC: list[str | int] = ["body", "protein"]


def _no_download(_self: PDBFixer, _name: str) -> None:
    """Keep PDBFixer from fetching residue definitions: a worker has no network."""


PDBFixer._downloadCCDDefinition = _no_download


def read(job: Job, plan: dict[str, Any]) -> PDBFixer:
    """Read the structure file and keep the chains that are asked for."""
    protein = plan["protein"]
    text = job.input(protein["file"]).read_text(errors="replace")
    if protein["format"] == "pdb" and not any(line.startswith(("ATOM", "HETATM")) for line in text.splitlines()):
        raise JobError("no_atoms", f"{protein['name']} has no atoms", loc=LOC)
    try:
        text, chosen, n_models = locations.choose(text, protein["format"])
        file = io.StringIO(text)
        fixer = PDBFixer(pdbfile=file) if protein["format"] == "pdb" else PDBFixer(pdbxfile=file)
    except Exception as error:
        # The readers raise whatever their code runs into.
        what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        message = f"{protein['name']} cannot be read as {protein['format']}: {what}"
        raise JobError("unreadable", message, remedy="check the file and its format", loc=LOC) from error
    if fixer.topology.getNumAtoms() == 0:
        raise JobError("no_atoms", f"{protein['name']} has no atoms", loc=LOC)
    if n_models > 1:
        job.warn("model_chosen", f"{protein['name']} has {n_models} models; the first was taken")
    _check_coordinates(fixer, protein["name"])
    if plan.get("chains"):
        _keep_chains(fixer, plan["chains"])
    kept = {(chain.id, residue.id) for chain in fixer.topology.chains() for residue in chain.residues()}
    for message in chosen:
        number, chain = message.split(":", 1)[0].split()[1], message.split(":", 1)[0].split()[-1]
        if (chain, number) in kept:
            job.warn("location_chosen", message)
    return fixer


def _check_coordinates(fixer: PDBFixer, name: str) -> None:
    for atom, position in zip(fixer.topology.atoms(), fixer.positions, strict=True):
        x = np.array([position[0]._value, position[1]._value, position[2]._value])
        if not np.isfinite(x).all() or np.abs(x).max() > MAX_COORDINATE_NM:
            place = f"{atom.name} of {place_of(atom.residue)}"
            raise JobError("bad_coordinates", f"{name}: the coordinates of {place} are no place", loc=LOC)


def place_of(residue: app.topology.Residue) -> str:
    """A residue as its author calls it."""
    return f"{residue.name} {residue.id}{residue.insertionCode.strip()} in chain {residue.chain.id}"


def _keep_chains(fixer: PDBFixer, wanted: list[str]) -> None:
    present = [chain.id for chain in fixer.topology.chains()]
    missing = [chain for chain in wanted if chain not in present]
    if missing:
        raise JobError(
            "no_such_chain",
            f"the structure has no chain {', '.join(missing)}; it has {', '.join(sorted(set(present)))}",
            loc=["body", "chain_id"],
        )
    fixer.removeChains(chainIds=sorted(set(present) - set(wanted)))


def prepare(job: Job, plan: dict[str, Any], fixer: PDBFixer, base: app.ForceField, seed: int) -> app.Modeller:
    """Complete the structure: gaps, nonstandard residues, heterogens, missing atoms, hydrogens."""
    custom = plan["force_field"].get("custom")
    known = force_field.templates(job.input(custom["file"])) - POLYMER if custom else set()
    _refuse_bare_residues(fixer)
    _tell_repeated_chains(job, fixer)
    _replace_deuterium(job, fixer)
    _find_gaps(job, fixer)
    _split_at_breaks(job, fixer)
    fixer.findNonstandardResidues()
    fixer.nonstandardResidues = [pair for pair in fixer.nonstandardResidues if pair[0].name not in known]
    for residue, standard in fixer.nonstandardResidues:
        job.warn(
            "residue_replaced",
            f"nonstandard residue {residue.name} {residue.id} of chain {residue.chain.id} replaced by {standard}",
        )
    fixer.replaceNonstandardResidues()
    is_amber = plan["force_field"]["family"] == "amber"
    _remove_heterogens(job, fixer, base, KEPT | known, takes_lone=not is_amber)
    if fixer.topology.getNumAtoms() == 0:
        raise JobError("no_atoms", "nothing is left of the structure once heterogens are removed", loc=LOC)
    if is_amber:
        _remove_leading_phosphates(job, fixer)
    fixer.findMissingAtoms()
    for residue, atoms in fixer.missingAtoms.items():
        names = ", ".join(atom.name for atom in atoms)
        job.warn(
            "atoms_added",
            f"missing atoms {names} added to {residue.name} {residue.id} of chain {residue.chain.id}",
        )
    _add_missing_atoms(job, fixer, seed)
    modeller = app.Modeller(fixer.topology, fixer.positions)
    # Sites without an atom, as of water with four: the water model adds its own.
    modeller.delete([a for a in modeller.topology.atoms() if a.element is None and a.residue.name == WATER])
    if not plan["keep_hydrogens"]:
        # Those of residues that only a custom force field knows could not be placed anew.
        modeller.delete([a for a in modeller.topology.atoms() if a.element in HYDROGENS and a.residue.name in KEPT])
    _tell_disulfides(job, modeller.topology)
    # The cell of the crystal is not the box of the simulation.
    modeller.topology.setPeriodicBoxVectors(None)
    return modeller


def _add_missing_atoms(job: Job, fixer: PDBFixer, seed: int) -> None:
    """Add them; of several courses of a built loop, which are guesses, the one with the most room is taken."""
    # Its own choice would be the fastest platform with all of its threads.
    fixer.platform = platform(job)[0]
    before = fixer.topology, fixer.positions
    best: tuple[float, app.Topology, Any] | None = None
    for attempt in range(LOOP_ATTEMPTS):
        fixer.topology, fixer.positions = before
        fixer.addMissingAtoms(seed=seed + attempt)
        if not fixer.missingResidues:
            return
        room = _room_of_new_atoms(fixer, _positions(before[1]))
        job.log(f"loops, attempt {attempt + 1}: what is not bonded to a new atom is {room:.3f} nm from it or more")
        if best is None or room > best[0]:
            best = room, fixer.topology, fixer.positions
        if room >= LOOP_ROOM_NM:
            break
        if job.stop_requested:
            raise Stopped
    assert best is not None
    _, fixer.topology, fixer.positions = best


def _room_of_new_atoms(fixer: PDBFixer, before: NDArray[np.float64]) -> float:
    """Shortest distance of heavy atoms, one of them new, that no bond or angle joins."""
    positions = _positions(fixer.positions)
    places = {tuple(place) for place in before}
    heavy = [atom.index for atom in fixer.topology.atoms() if atom.element not in HYDROGENS]
    joined: dict[int, set[int]] = {index: set() for index in heavy}
    for a, b in fixer.topology.bonds():
        if a.index in joined and b.index in joined:
            joined[a.index].add(b.index)
            joined[b.index].add(a.index)
    shortest = LOOP_ROOM_NM
    for a in heavy:
        if tuple(positions[a]) in places:
            continue
        near = np.flatnonzero(np.linalg.norm(positions[heavy] - positions[a], axis=1) < shortest)
        for b in (heavy[i] for i in near):
            if b != a and b not in joined[a] and not joined[a] & joined[b]:
                shortest = min(shortest, float(np.linalg.norm(positions[a] - positions[b])))
    return shortest


def _refuse_bare_residues(fixer: PDBFixer) -> None:
    """Refuse a residue of which too little is there to tell where the rest has to be.

    At the ends of a chain one atom is enough: there is room.
    """
    for chain in fixer.topology.chains():
        residues = [residue for residue in chain.residues() if residue.name in POLYMER]
        for i, residue in enumerate(residues):
            n_heavy = sum(atom.element not in HYDROGENS for atom in residue.atoms())
            if n_heavy == 0 or (n_heavy < MIN_HEAVY_ATOMS and 0 < i < len(residues) - 1):
                raise JobError(
                    "residue_bare",
                    f"{place_of(residue)} has {n_heavy} heavy atoms where it stands in the file; the others cannot be"
                    f" placed from fewer than {MIN_HEAVY_ATOMS}",
                    remedy="write all atoms of a residue together, and give a structure with side chains and backbone",
                    loc=LOC,
                )


def _tell_repeated_chains(job: Job, fixer: PDBFixer) -> None:
    polymers = [chain for chain in fixer.topology.chains() if any(r.name in POLYMER for r in chain.residues())]
    blank = [chain for chain in fixer.topology.chains() if not chain.id.strip()]
    n_polymers = sum(chain in polymers for chain in blank)
    if n_polymers:
        job.warn("chain_renamed", f"{n_polymers} chains without an identifier were given letters")
    name_chains(blank, {chain.id for chain in fixer.topology.chains()})
    for sequence in fixer.sequences:
        # Of several chains without an identifier, none can be told to have the sequence.
        if not sequence.chainId.strip() and n_polymers == 1:
            sequence.chainId = next(chain.id for chain in blank if chain in polymers)
    for name, count in Counter(chain.id for chain in polymers).items():
        if count > 1:
            job.warn(
                "chain_renamed", f"{count} chains are called {name}; the first keeps its name, others were renamed"
            )


def name_chains(chains: Iterable[app.topology.Chain], taken: set[str]) -> None:
    """Give chains names of letters that are not taken, the shortest first."""
    names = ("".join(letters) for n in itertools.count(1) for letters in itertools.product(ascii_uppercase, repeat=n))
    fresh = (name for name in names if name not in taken)
    for chain in chains:
        chain.id = next(fresh)


def _replace_deuterium(job: Job, fixer: PDBFixer) -> None:
    """Make deuterium hydrogen. Readers know its names not, and have given it no bonds."""
    for residue in fixer.topology.residues():
        residue.name = WATER if residue.name == HEAVY_WATER else residue.name
    deuterium = [atom for atom in fixer.topology.atoms() if atom.element is element.deuterium]
    if not deuterium:
        return
    positions = _positions(fixer.positions)
    bonded = {atom for bond in fixer.topology.bonds() for atom in bond}
    for atom in deuterium:
        atom.element = element.hydrogen
        atom.name = "H" + atom.name[1:] if atom.name.startswith("D") else atom.name
        heavy = [other for other in atom.residue.atoms() if other.element not in HYDROGENS]
        if atom not in bonded and heavy:
            lengths = np.linalg.norm(positions[[other.index for other in heavy]] - positions[atom.index], axis=1)
            fixer.topology.addBond(heavy[int(lengths.argmin())], atom)
    job.warn("deuterium_replaced", f"{len(deuterium)} deuterium atoms were taken for hydrogens")


def _find_gaps(job: Job, fixer: PDBFixer) -> None:
    """Have gaps between residues built; ends and long gaps are reported only."""
    fixer.findMissingResidues()
    chains = list(fixer.topology.chains())
    for (chain_index, position), names in list(fixer.missingResidues.items()):
        chain = chains[chain_index]
        n_residues = len(list(chain.residues()))
        what = f"{len(names)} residues ({'-'.join(names[:5])}{'…' if len(names) > 5 else ''}) of chain {chain.id}"
        if position in (0, n_residues):
            end = "start" if position == 0 else "end"
            job.warn("residues_missing", f"{what} are missing at its {end} and were left out")
        elif len(names) > MAX_BUILT_GAP:
            job.warn("residues_missing", f"{what} are missing in a gap too long to build and were left out")
        else:
            job.warn("residues_built", f"{what} are missing in a gap and were built without a template")
            continue
        del fixer.missingResidues[(chain_index, position)]


def _split_at_breaks(job: Job, fixer: PDBFixer) -> None:
    """End a chain where its next residue is out of reach and the gap is not built, or is no part of it.

    Readers bond neighbours in a chain at any distance; such a bond would pull the ends together. And
    the last residue before water in the same chain would not be taken for an end.
    """
    breaks = _find_breaks(job, fixer)
    if not breaks:
        return
    topology = app.Topology()
    topology.setPeriodicBoxVectors(fixer.topology.getPeriodicBoxVectors())
    copies: dict[app.topology.Atom, app.topology.Atom] = {}
    side: dict[app.topology.Residue, app.topology.Chain] = {}
    missing = {}
    for chain in fixer.topology.chains():
        copy, first = topology.addChain(chain.id), 0
        n_residues = len(list(chain.residues()))
        for i, residue in enumerate(chain.residues()):
            if (chain.index, i) in breaks:
                copy, first = topology.addChain(chain.id), i
            side[residue] = copy
            new = topology.addResidue(residue.name, copy, residue.id, residue.insertionCode)
            for atom in residue.atoms():
                copies[atom] = topology.addAtom(atom.name, atom.element, new, atom.id)
            for at in (i, i + 1) if i + 1 == n_residues else (i,):
                if (chain.index, at) in fixer.missingResidues:
                    missing[(copy.index, at - first)] = fixer.missingResidues[(chain.index, at)]
    for a, b in fixer.topology.bonds():
        is_backbone = {a.name, b.name} in ({"C", "N"}, {"O3'", "P"})
        if a.residue is b.residue or not is_backbone or side[a.residue] is side[b.residue]:
            topology.addBond(copies[a], copies[b])
    fixer.topology, fixer.missingResidues = topology, missing


def _find_breaks(job: Job, fixer: PDBFixer) -> set[tuple[int, int]]:
    """Where chains are to be ended: indices of a chain and of the first residue after the break."""
    positions = _positions(fixer.positions)
    breaks: set[tuple[int, int]] = set()
    for chain in fixer.topology.chains():
        residues = list(chain.residues())
        for i in range(1, len(residues)):
            if _is_link(residues[i - 1]) != _is_link(residues[i]):
                breaks.add((chain.index, i))
                continue
            length = _backbone_bond(residues[i - 1], residues[i], positions)
            if length > MAX_BACKBONE_BOND_NM and (chain.index, i) not in fixer.missingResidues:
                breaks.add((chain.index, i))
                ends = f"{residues[i - 1].name} {residues[i - 1].id} and {residues[i].name} {residues[i].id}"
                job.warn(
                    "chain_broken", f"chain {chain.id} was ended and begun anew between {ends}, {length:.2f} nm apart"
                )
    return breaks


def _is_link(residue: app.topology.Residue) -> bool:
    """Whether a residue can be part of a chain of them, nonstandard ones and caps included."""
    names = {atom.name for atom in residue.atoms()}
    return residue.name in KEPT - {WATER} or names >= {"N", "CA", "C"} or names >= {"C3'", "O3'", "C5'"}


def _backbone_bond(before: app.topology.Residue, after: app.topology.Residue, positions: NDArray[np.float64]) -> float:
    """Distance over which two neighbours in a chain would be bonded; 0 when they have no such atoms."""
    for left, right in (("C", "N"), ("O3'", "P")):
        ends = [atom.index for atom in before.atoms() if atom.name == left]
        starts = [atom.index for atom in after.atoms() if atom.name == right]
        if ends and starts and before.name in KEPT and after.name in KEPT:
            return float(np.linalg.norm(positions[ends[0]] - positions[starts[0]]))
    return 0.0


def _remove_heterogens(job: Job, fixer: PDBFixer, base: app.ForceField, kept: set[str], *, takes_lone: bool) -> None:
    """Remove what has no parameters. PDBFixer's own function would take caps of chains too."""
    foreign: dict[tuple[str, str], list[app.topology.Residue]] = {}
    for residue in fixer.topology.residues():
        # Amber has amino acids within a chain and at its ends, none that are both ends.
        chain = [other for other in residue.chain.residues() if other.name in KEPT - {WATER}]
        is_lone = residue.name in proteinResidues and len(chain) == 1
        if is_lone and not takes_lone:
            foreign.setdefault(("heterogen_removed", residue.name), []).append(residue)
        elif residue.name in kept:
            continue
        elif len(list(residue.atoms())) == 1 and _is_known_ion(residue, base):
            if residue.name not in SINGLY_CHARGED:
                place = f"{residue.name} {residue.id} of chain {residue.chain.id}"
                job.warn("metal_kept", f"{place} kept as an ion without bonds; its coordination may change")
        else:
            code = "glycan_removed" if residue.name in GLYCANS else "heterogen_removed"
            foreign.setdefault((code, residue.name), []).append(residue)
    for (code, name), residues in foreign.items():
        why = ": glycans are not built, what carried it is left bare" if code == "glycan_removed" else ""
        why = ": the force field has no amino acid that is a chain by itself" if name in proteinResidues else why
        if len(residues) > MAX_NAMED:
            job.warn(code, f"{len(residues)} residues {name} removed{why}")
            continue
        for residue in residues:
            job.warn(code, f"{name} {residue.id} of chain {residue.chain.id} removed{why}")
    if foreign:
        modeller = app.Modeller(fixer.topology, fixer.positions)
        modeller.delete([residue for residues in foreign.values() for residue in residues])
        fixer.topology, fixer.positions = modeller.topology, modeller.positions
        # Recomputed for the residues that remain.
        fixer.missingAtoms, fixer.missingTerminals = {}, {}


def _is_known_ion(residue: app.topology.Residue, base: app.ForceField) -> bool:
    """Whether the force field has one template for a lone atom."""
    (atom,) = residue.atoms()
    if atom.element is None:
        return False
    topology = app.Topology()
    topology.addAtom(atom.name, atom.element, topology.addResidue(residue.name, topology.addChain()))
    try:
        return not base.getUnmatchedResidues(topology)
    except Exception as error:
        # OpenMM's own class for this is `Exception`: iron may be Fe2+ or Fe3+.
        if "templates" not in str(error):
            raise
        return False


def _remove_leading_phosphates(job: Job, fixer: PDBFixer) -> None:
    """Amber's nucleic acids start with a hydroxyl group."""
    doomed = []
    for chain in fixer.topology.chains():
        first = next(iter(chain.residues()), None)
        if first is not None and first.name in {*dnaResidues, *rnaResidues}:
            atoms = [atom for atom in first.atoms() if atom.name in {"P", "OP1", "OP2", "OP3", "O1P", "O2P", "O3P"}]
            if atoms:
                job.warn(
                    "phosphate_removed",
                    f"the phosphate at the start of chain {chain.id}, {first.name} {first.id}, removed",
                )
            doomed += atoms
    if doomed:
        modeller = app.Modeller(fixer.topology, fixer.positions)
        modeller.delete(doomed)
        fixer.topology, fixer.positions = modeller.topology, modeller.positions


def _tell_disulfides(job: Job, topology: app.Topology) -> None:
    for a, b in topology.bonds():
        if a.name == b.name == "SG" and a.residue is not b.residue:
            first, second = (
                f"{atom.residue.name} {atom.residue.id} of chain {atom.residue.chain.id}" for atom in (a, b)
            )
            job.warn("disulfide_bond", f"{first} and {second} are bonded by their sulfur atoms")


def variants_beside_metals(job: Job, modeller: app.Modeller) -> list[str | None]:
    """Protonation variants of residues that hold a metal: their atom towards it takes no hydrogen."""
    atoms = list(modeller.topology.atoms())
    positions = _positions(modeller.positions)
    metals = [
        atom.index
        for atom in atoms
        if atom.element is not None
        and atom.element.atomic_number > 11
        and atom.residue.name not in SINGLY_CHARGED | KEPT
        and len(list(atom.residue.atoms())) == 1
    ]
    variants: list[str | None] = [None] * modeller.topology.getNumResidues()
    if not metals:
        return variants
    told = {("HIS", "ND1"): "HIE", ("HIS", "NE2"): "HID", ("CYS", "SG"): "CYX"}
    for atom in atoms:
        variant = told.get((atom.residue.name, atom.name))
        if variant is None:
            continue
        distance = float(np.linalg.norm(positions[metals] - positions[atom.index], axis=1).min())
        if distance < METAL_BOND_NM and variants[atom.residue.index] is None:
            variants[atom.residue.index] = variant
            # CYX without its bond has the atoms of CYM, the thiolate.
            name = "CYM" if variant == "CYX" else variant
            message = (
                f"{atom.residue.name} {atom.residue.id} of chain {atom.residue.chain.id} holds a metal: taken as {name}"
            )
            job.warn("metal_ligand", message)
    return variants


def variant_of_file(residue: app.topology.Residue) -> str | None:
    """Protonation variant that the hydrogens of a residue tell; None when they leave it to the pH."""
    names = {atom.name for atom in residue.atoms() if atom.element in HYDROGENS}
    if not names:
        return None
    told = {
        "ASP": "ASH" if names & {"HD1", "HD2"} else "ASP",
        "GLU": "GLH" if names & {"HE1", "HE2"} else "GLU",
        "LYS": {3: "LYS", 2: "LYN"}.get(len(names & {"HZ1", "HZ2", "HZ3"})),
        "CYS": "CYS" if "HG" in names else None,
        "HIS": {("HD1", "HE2"): "HIP", ("HD1",): "HID", ("HE2",): "HIE"}.get(tuple(sorted(names & {"HD1", "HE2"}))),
    }
    return told.get(residue.name)


def _positions(positions: Any) -> NDArray[np.float64]:
    return np.array(positions.value_in_unit(unit.nanometer), dtype=np.float64).reshape(-1, 3)
