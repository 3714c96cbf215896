"""Making a deposited structure complete: what is missing, foreign or doubled in it.

Everything that is removed, added, replaced or guessed becomes a warning, and every residue of the
file is counted as kept, replaced or removed. What cannot be built as what it is, and stands where
leaving it out would change the rest, ends the build with its name.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openmm import Vec3, app, unit
from openmm.app import element
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from molbox_worker import chains, names, templates
from molbox_worker.added import add_missing
from molbox_worker.chains import Run, is_nucleotide
from molbox_worker.decide import SINGLY_CHARGED, Decision
from molbox_worker.job import Job, JobError
from molbox_worker.structure import HYDROGENS, WATER, Atom, Link, Residue, Structure
from molbox_worker.structure import read as read_structure

# More residues of a kind are counted, not listed.
MAX_NAMED = 20
# A coordinate beyond this is a damaged file, in nm.
MAX_COORDINATE_NM = 10_000.0
# No residue reaches further than this, in nm; lipids have 3.
MAX_RESIDUE_NM = 10.0
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
# While hydrogens are placed, a ligand has no name: Modeller would complete it by that of an amino acid.
NO_NAME = "~"
# Identifiers that any reader of mmCIF and PDB takes as they are: `_` and `data_` begin something else there.
GOOD_CHAIN = re.compile(r"[A-Za-z0-9]{1,8}")


@dataclass
class Account:
    """What became of the residues of a file.

    Attributes
    ----------
    counts : Counter
        Residues ``kept``, ``replaced``, ``removed`` and ``built``.
    identities : Counter
        Chain, number and insertion code of the residues that the system has to have.
    joined : set of frozenset
        Pairs of these that are bonded.
    deposited : array, shape (n, 3)
        Places of the atoms that are to stay where they are, in nm.
    authors : dict
        What the file calls each chain.

    """

    counts: Counter[str] = field(default_factory=Counter)
    identities: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    joined: set[frozenset[tuple[str, str, str]]] = field(default_factory=set)
    deposited: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))
    authors: dict[str, str] = field(default_factory=dict)


# What `Modeller.addHydrogens` is to place: None by the pH, a variant, or names with their parents' names.
Hydrogens = str | list[tuple[str, str]] | None


@dataclass
class Prepared:
    """A structure that is complete but for hydrogens.

    Attributes
    ----------
    modeller : Modeller
        Topology and positions.
    hydrogens : list
        What to place on each residue.
    openmm_names, final_names : list of str
        What each is called while hydrogens are placed, and otherwise.
    account : Account
        What became of the file's residues.

    """

    modeller: app.Modeller
    hydrogens: list[Hydrogens] = field(default_factory=list)
    openmm_names: list[str] = field(default_factory=list)
    final_names: list[str] = field(default_factory=list)
    account: Account = field(default_factory=Account)

    def add(self, topology: app.Topology, positions_nm: NDArray[np.float64]) -> None:
        """Put a molecule beside it, hydrogens and all."""
        self.modeller.add(topology, [Vec3(*place) for place in positions_nm] * unit.nanometer)
        taken = {chain.id for chain in self.modeller.topology.chains()}
        new_chains = list(self.modeller.topology.chains())[-topology.getNumChains() :]
        for chain, name in zip(new_chains, chain_letters(taken), strict=False):
            chain.id = name
        new = [residue.name for residue in topology.residues()]
        self.hydrogens += [None] * len(new)
        self.openmm_names += [NO_NAME] * len(new)
        self.final_names += new
        self.account.deposited = np.concatenate([self.account.deposited, positions_nm])

    def remove(self, waters: set[app.topology.Residue]) -> None:
        """Take waters out."""
        gone = {residue.index for residue in waters}
        positions = _positions(self.modeller.positions)
        places = {tuple(positions[atom.index]) for residue in waters for atom in residue.atoms()}
        for residue in waters:
            self.account.identities[residue.chain.id, residue.id, residue.insertionCode] -= 1
        self.account.identities = +self.account.identities
        stays = [tuple(place) not in places for place in self.account.deposited]
        self.account.deposited = self.account.deposited[stays]
        self.account.counts["kept"] -= len(waters)
        self.account.counts["removed"] += len(waters)
        self.forget(gone)
        self.modeller.delete(list(waters))

    def forget(self, gone: set[int]) -> None:
        """Drop what is known of residues by their indices."""
        stays = [i for i in range(len(self.hydrogens)) if i not in gone]
        self.hydrogens = [self.hydrogens[i] for i in stays]
        self.openmm_names = [self.openmm_names[i] for i in stays]
        self.final_names = [self.final_names[i] for i in stays]


def nothing() -> Prepared:
    """A structure of no residues."""
    return Prepared(app.Modeller(app.Topology(), [] * unit.nanometer))


def read(job: Job, plan: dict[str, Any]) -> Structure:
    """Read the structure file and keep the chains that are asked for."""
    protein = plan["protein"]
    # One column for each character: gemmi counts bytes.
    text = job.input(protein["file"]).read_text(errors="replace").encode("ascii", "replace").decode()
    try:
        structure = read_structure(text, protein["format"])
    except (ValueError, RuntimeError) as error:
        message = f"{protein['name']} cannot be read as {protein['format']}: {_in_lines(str(error))}"
        raise JobError("unreadable", message, remedy="check the file and its format", loc=LOC) from error
    if not any(residue.atoms for residue in structure.residues()):
        what = "has no atoms" if structure.n_models == 1 else "has no atoms in its first model"
        raise JobError("no_atoms", f"{protein['name']} {what}", remedy="check the file and its format", loc=LOC)
    if structure.n_models > 1:
        job.warn("model_chosen", f"{protein['name']} has {structure.n_models} models; the first was taken")
    if plan.get("chains"):
        _keep_chains(structure, plan["chains"])
    for residue in structure.residues():
        _check_atoms(residue, protein["name"])
    kept = {id(residue) for residue in structure.residues()}
    structure.links = [link for link in structure.links if {id(link.first[0]), id(link.second[0])} <= kept]
    structure.chains = chains.rejoined(structure.chains)
    _name_chains_of_file(job, structure)
    _report_locations(job, [pair for pair in structure.locations if id(pair[0]) in kept])
    return structure


def _in_lines(problem: str) -> str:
    """What gemmi says of a file, in one line and with its place as a line."""
    return re.sub(r"^string:(\d+):\d+\(\d+\)|^Problem in line (\d+)", r"line \1\2", " ".join(problem.split()))


def _report_locations(job: Job, chosen: list[tuple[Residue, str]]) -> None:
    waters = [residue for residue, _ in chosen if residue.name in names.WATERS]
    for residue, what in chosen:
        if residue.name not in names.WATERS:
            job.warn("location_chosen", f"{residue}: {what}")
    if waters:
        job.warn("location_chosen", f"{len(waters)} waters: of several locations the most occupied one taken")


def _check_atoms(residue: Residue, name: str) -> None:
    for atom in residue.atoms:
        if not np.isfinite(atom.place).all() or np.abs(atom.place).max() > MAX_COORDINATE_NM:
            what = f"{name}: the coordinates of {atom.name} of {residue} are no place"
            raise JobError("bad_coordinates", what, remedy="correct them in the file", loc=LOC)
    if residue.atoms and (extent := np.ptp([atom.place for atom in residue.atoms], axis=0).max()) > MAX_RESIDUE_NM:
        what = f"{name}: {residue} would be {extent:.0f} nm large"
        raise JobError("bad_coordinates", what, remedy="correct its coordinates in the file", loc=LOC)
    twice = [atom for atom, count in Counter(atom.name for atom in residue.atoms).items() if count > 1]
    if twice:
        raise JobError(
            "unreadable",
            f"{name}: {residue} has {twice[0]} more than once",
            remedy="give each atom a name of its own, and alternate locations their marks",
            loc=LOC,
        )


def _keep_chains(structure: Structure, wanted: list[str]) -> None:
    present = {chain.name for chain in structure.chains}
    missing = [chain for chain in wanted if chain not in present]
    if missing:
        raise JobError(
            "no_such_chain",
            f"the structure has no chain {', '.join(missing)}; it has {', '.join(sorted(present))}",
            loc=["body", "chain_id"],
        )
    structure.chains = [chain for chain in structure.chains if chain.name in wanted]


def prepare(job: Job, plan: dict[str, Any], structure: Structure, base: app.ForceField, seed: int) -> Prepared:
    """Complete the structure: gaps, nonstandard residues, heterogens, missing atoms."""
    account = Account()
    _identify(job, structure)
    n_residues = sum(1 for _ in structure.residues())
    for residue in structure.residues():
        if chains.is_monomer(residue) and not residue.heavy:
            _refuse_bare(residue)
    runs = chains.find_runs(job, structure)
    bare = chains.drop_bare_ends(job, runs)
    for chain in structure.chains:
        chain.residues = [residue for residue in chain.residues if residue not in bare]
    runs = [run for run in runs if run.residues]
    _refuse_bare_residues(runs)
    decision = Decision(job, plan, base, runs, structure)
    runs, others = decision.runs, decision.others
    account.counts["removed"] = len(bare) + len(decision.removed)
    if not runs and not others:
        _refuse_nothing(decision.removed)
    _refuse_collapsed_residues(runs)
    account.counts["replaced"] = _replace_artefacts(job, runs)
    _remove_leading_phosphates(job, runs)
    if not plan["keep_hydrogens"]:
        _remove_hydrogens(runs, others)
    runs, account.counts["built"] = add_missing(job, runs, others, seed)
    others = _remove_overlapping_water(job, runs, others, account)
    coordinate(job, [residue for run in runs for residue in run.residues], others)
    account.counts["kept"] = n_residues - account.counts["removed"] - account.counts["replaced"]
    return _assemble(job, plan, runs, others, decision.links, account)


# --- what residues are


def _identify(job: Job, structure: Structure) -> None:
    """Give residues and atoms OpenMM's names where theirs stand for the same."""
    for chain in structure.chains:
        chain.residues = [part for residue in chain.residues for part in _without_caps(residue)]
    n_deuterium = 0
    for residue in structure.residues():
        n_deuterium += _replace_deuterium(residue)
        _name(residue)
    if n_deuterium:
        job.warn("deuterium_replaced", f"{n_deuterium} deuterium atoms were taken for hydrogens")
    for chain in structure.chains:
        renamed = [r for r in chain.residues if r.name in names.DNA and r.deposited in names.RNA]
        if renamed:
            count = f"{len(renamed)} nucleotides of chain {chain.name} have no O2'"
            job.warn("residue_replaced", f"{count}: taken as DNA, though the first is called {renamed[0].deposited}")


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
        mine = [atom for atom in residue.atoms if not atom.is_heavy and _parent(atom, residue.heavy) in own]
        residue.atoms = [atom for atom in residue.atoms if atom not in own and atom not in mine]
        new = Residue(cap, residue.chain, residue.number + 2 * at - 1, residue.insertion, cap, own + mine)
        for atom in own:
            atom.name = atoms[atom.name]
        parts.insert(at * len(parts), new)
    return parts


def _parent(hydrogen: Atom, heavy: list[Atom]) -> Atom | None:
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


def _name_chains_of_file(job: Job, structure: Structure) -> None:
    """Give letters to chains without an identifier, and report what is called alike."""
    polymers = [chain for chain in structure.chains if any(map(chains.is_monomer, chain.residues))]
    blank = [chain for chain in structure.chains if not chain.name.strip()]
    nameless = [chain for chain in polymers if chain in blank]
    if nameless:
        job.warn("chain_renamed", f"{len(nameless)} chains without an identifier were given letters")
    fresh = chain_letters({chain.name for chain in structure.chains})
    for chain in blank:
        sequence = structure.sequences.pop(chain.name, [])
        chain.name = next(fresh)
        # Of several chains without an identifier, none can be told to have the sequence.
        if len(nameless) == 1 and chain in nameless:
            structure.sequences[chain.name] = sequence
        for residue in chain.residues:
            residue.chain = chain.name
    for name, count in Counter(chain.name for chain in polymers).items():
        if count > 1:
            job.warn(
                "chain_renamed", f"{count} chains are called {name}; the first keeps its name, others were renamed"
            )


def chain_letters(taken: set[str]) -> Iterator[str]:
    """Names of letters that are not taken, the shortest first."""
    all_names = (
        "".join(letters) for n in itertools.count(1) for letters in itertools.product(ascii_uppercase, repeat=n)
    )
    return (name for name in all_names if name not in taken)


def _refuse_bare_residues(runs: list[Run]) -> None:
    """Refuse a residue of which too little is there to tell where the rest has to be."""
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
            raise JobError(
                "atoms_overlap",
                f"{first.name} and {second.name} of {residue} have the same place",
                remedy="correct the coordinates there",
                loc=LOC,
            )


def _refuse_bare(residue: Residue) -> None:
    lacking = [name for name in ("N", "CA", "C") if residue.name in names.AMINO_ACIDS and name not in residue]
    without = f" and lacks {' and '.join(lacking)}" if lacking and residue.heavy else ""
    raise JobError(
        "residue_bare",
        f"{residue} has {len(residue.heavy)} heavy atoms where it stands in the file{without}; the others cannot be"
        f" placed from fewer than {MIN_HEAVY_ATOMS}, of an amino acid N, CA and C",
        remedy="write all atoms of a residue together, and give a structure with side chains and backbone",
        loc=LOC,
    )


def _refuse_nothing(removed: list[Residue]) -> None:
    lone = next((r for r in removed if r.name in names.AMINO_ACIDS | names.NUCLEOTIDES), None)
    if lone is not None:
        raise JobError(
            "no_atoms",
            f"{lone} is a chain by itself: it is bonded to no neighbour, the force field has no residue that is both"
            " ends of a chain, and nothing is left without it",
            remedy="give nucleotides their phosphates, and an amino acid caps, ACE before and NME after it",
            loc=LOC,
        )
    raise JobError(
        "no_atoms",
        "nothing is left of the structure once heterogens are removed",
        remedy="give a structure with a protein or a nucleic acid, or register the molecule as a ligand",
        loc=LOC,
    )


# --- changes


def _replace_artefacts(job: Job, runs: list[Run]) -> int:
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
            job.warn("residue_replaced", f"{len(replaced)} residues {name} replaced by {residue.name}, {change}")
        else:
            for residue, change in replaced:
                job.warn("residue_replaced", f"{residue} replaced by {residue.name}, {change}")
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


def _remove_leading_phosphates(job: Job, runs: list[Run]) -> None:
    """Strands start with a hydroxyl group in the force fields."""
    for run in runs:
        first = run.residues[0]
        if first.name not in names.NUCLEOTIDES:
            continue
        phosphate = {"P", "OP1", "OP2", "OP3", "HOP2", "HOP3"}
        if any(atom.name in phosphate for atom in first.atoms):
            first.atoms = [atom for atom in first.atoms if atom.name not in phosphate]
            job.warn("phosphate_removed", f"the phosphate at the start of a strand, on {first}, was removed")


def _remove_hydrogens(runs: list[Run], others: list[Residue]) -> None:
    """Remove those that can be placed anew."""
    for residue in [residue for run in runs for residue in run.residues] + others:
        residue.atoms = [atom for atom in residue.atoms if atom.element not in HYDROGENS]


def _remove_overlapping_water(job: Job, runs: list[Run], others: list[Residue], account: Account) -> list[Residue]:
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
        job.warn("water_removed", f"{n_on_others} crystal waters removed that lay on other atoms")
    if len(removed) > n_on_others:
        job.warn("water_removed", f"{len(removed) - n_on_others} crystal waters removed that lay on others")
    account.counts["removed"] += len(removed)
    return [residue for residue in others if residue not in removed]


def _oxygen(water: Residue) -> Atom:
    return next(atom for atom in water.atoms if atom.element is element.oxygen)


# --- in OpenMM's form


def _assemble(
    job: Job,
    plan: dict[str, Any],
    runs: list[Run],
    others: list[Residue],
    found: list[Link],
    account: Account,
) -> Prepared:
    topology = app.Topology()
    atoms: dict[Atom, app.topology.Atom] = {}
    copies: dict[Residue, app.topology.Residue] = {}
    places = []
    named = _named(job, runs, others)
    _number_anew(job, named)
    for name, residues in named:
        chain = topology.addChain(name)
        for residue in residues:
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


def _named(job: Job, runs: list[Run], others: list[Residue]) -> list[tuple[str, list[Residue]]]:
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
            job.warn("chain_renamed", f"chain {name!r} became {new}: not every reader of mmCIF takes its name")
        taken.add(new)
        named.append((new, residues))
    return named


def _number_anew(job: Job, named: list[tuple[str, list[Residue]]]) -> None:
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
            job.warn("residue_renumbered", f"{which} had the number of another of chain {name} and got one of its own")


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
            if atom.element in HYDROGENS and atoms[atom] not in bonded and (parent := _parent(atom, residue.heavy)):
                wanted.append((parent, atom))
    for first, second in wanted:
        pair = frozenset((atoms[first], atoms[second]))
        if pair not in known:
            known.add(pair)
            topology.addBond(atoms[first], atoms[second])


def _hydrogens(residue: Residue, plan: dict[str, Any], *, is_inner: bool) -> Hydrogens:
    if residue.hydrogens is not None:
        return residue.hydrogens
    variant = residue.variant
    if variant is None and plan["keep_hydrogens"]:
        variant = variant_of_file(residue)
    # Modeller takes the first and the last residue of a chain for ends.
    return templates.standard_hydrogens(residue.name, variant, plan["ph"]) if is_inner else variant


def coordinate(job: Job, residues: Iterable[Residue], others: Iterable[Residue]) -> None:
    """Have the atom of a residue that holds a metal take no hydrogen, unless its name says so."""
    metals = [atom.place for residue in others for atom in residue.heavy if _is_metal(residue)]
    if not metals:
        return
    told = {("HIS", "ND1"): "HIE", ("HIS", "NE2"): "HID", ("CYS", "SG"): "CYX"}
    for residue in residues:
        for atom in residue.heavy:
            variant = told.get((residue.name, atom.name))
            if variant is None or residue.variant is not None:
                continue
            if np.linalg.norm(np.array(metals) - atom.place, axis=1).min() < METAL_BOND_NM:
                residue.variant = variant
                # CYX without its bond has the atoms of CYM, the thiolate.
                job.warn("metal_ligand", f"{residue} holds a metal: taken as {'CYM' if variant == 'CYX' else variant}")


def _is_metal(residue: Residue) -> bool:
    (first, *more) = residue.heavy
    is_heavy = first.element is not None and first.element.atomic_number > 11
    return is_heavy and not more and residue.name not in SINGLY_CHARGED and not residue.is_water


def variant_of_file(residue: Residue) -> str | None:
    """Protonation variant that the hydrogens of a residue tell; None when they leave it to the pH."""
    found = {atom.name for atom in residue.atoms if atom.element in HYDROGENS}
    if not found:
        return None
    told = {
        "ASP": "ASH" if found & {"HD1", "HD2"} else "ASP",
        "GLU": "GLH" if found & {"HE1", "HE2"} else "GLU",
        "LYS": {3: "LYS", 2: "LYN"}.get(len(found & {"HZ1", "HZ2", "HZ3"})),
        "CYS": "CYS" if "HG" in found else None,
        "HIS": {("HD1", "HE2"): "HIP", ("HD1",): "HID", ("HE2",): "HIE"}.get(tuple(sorted(found & {"HD1", "HE2"}))),
    }
    return told.get(residue.name)


def _positions(positions: Any) -> NDArray[np.float64]:
    return np.array(positions.value_in_unit(unit.nanometer), dtype=np.float64).reshape(-1, 3)
