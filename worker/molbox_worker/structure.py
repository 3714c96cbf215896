"""A structure as its file has it: chains of residues of atoms, covalent links, sequences.

Gemmi reads both formats. One model is kept, the first, and one alternate location for each residue as
a whole: that with the largest occupancy, the first one when they are equal. Places are in nm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import gemmi
import numpy as np
from numpy.typing import NDArray
from openmm import app
from openmm.app import element

from molbox_worker import names
from molbox_worker.result import ResidueName

WATER = "HOH"
HYDROGENS = (element.hydrogen, element.deuterium)
# Bonds that a record claims over more than this are with a copy of the molecule elsewhere in the
# crystal, or left from before something was moved.
MAX_RECORDED_BOND_NM = 0.30
# Atoms by which neighbours in a chain are bonded.
ALTERNATING = frozenset({"N", "C", "P", "O3'"})
# Atoms of one name that are no further apart were written twice.
SAME_ANGSTROM = 0.01
# Further away a second atom of its name is of another residue: side chains of arginine swing over 1.4 nm.
ANCHOR_REACH_ANGSTROM = 2.0
REACH_ANGSTROM = 15.0
COORDINATE_COLUMNS = (30, 38, 46)
# Beyond 9999 they begin with a letter, in base 36. Some single molecules have none.
RESIDUE_NUMBER = re.compile(r"-?[0-9]*|[A-Za-z][0-9A-Za-z]{3}")
# Atoms of a residue that have one place in all of its locations, more or less.
ANCHORS = frozenset({"N", "CA", "C", "P", "C1'"})
# Of the volume, in nm³, that the bonds of CA span; 2.6e-3 in an L-amino acid.
FLAT_NM3 = 0.5e-3


@dataclass(eq=False, slots=True)
class Atom:
    """An atom, with its place in nm, shape (3,); `built` when the file does not have it.

    The `charge` is that of the file, in e; most have none.
    """

    name: str
    element: app.Element | None
    place: NDArray[np.float64]
    occupancy: float = 1.0
    built: bool = False
    charge: int = 0

    @property
    def is_heavy(self) -> bool:
        """Whether it is neither a hydrogen nor a site without an atom."""
        return self.element is not None and self.element not in HYDROGENS


@dataclass(eq=False, slots=True)
class Residue:
    """A residue, as it is to be built.

    Attributes
    ----------
    name
        Name by which OpenMM knows its atoms and hydrogens.
    chain, number, insertion
        How its author calls it.
    deposited
        Its name in the file; empty when it was built.
    variant
        Protonation that its name asks for; None leaves it to the pH.
    recorded
        Its own bonds by the records of the file.
    bonds
        Its own bonds, when OpenMM does not know the residue.
    hydrogens : list of (name, parent's name) or None
        The hydrogens that its template has, when OpenMM does not know the residue.

    """

    name: str
    chain: str
    number: int
    insertion: str
    deposited: str
    atoms: list[Atom]
    variant: str | None = None
    is_mirrored: bool = False
    recorded: list[tuple[Atom, Atom]] = field(default_factory=list)
    bonds: list[tuple[Atom, Atom]] = field(default_factory=list)
    hydrogens: list[tuple[str, str]] | None = None

    def __str__(self) -> str:
        return str(self.called)

    @property
    def called(self) -> ResidueName:
        """How its author calls it."""
        return ResidueName(self.chain, f"{self.number}{self.insertion}", self.deposited or self.name)

    def __contains__(self, name: str) -> bool:
        return any(atom.name == name for atom in self.atoms)

    def atom(self, name: str) -> Atom | None:
        """The atom of this name."""
        return next((atom for atom in self.atoms if atom.name == name), None)

    @property
    def heavy(self) -> list[Atom]:
        """Its atoms but for hydrogens and sites without an atom."""
        return [atom for atom in self.atoms if atom.is_heavy]

    @property
    def has_hand_of_d(self) -> bool:
        """Whether the bonds of its CA lie as in a D-amino acid."""
        places = [atom.place for name in ("N", "CA", "C", "CB") if (atom := self.atom(name)) is not None]
        return len(places) == 4 and ca_volume(*places) < -FLAT_NM3

    @property
    def is_water(self) -> bool:
        """Whether it is water."""
        return self.name == WATER


def ca_volume(
    n: NDArray[np.float64], ca: NDArray[np.float64], c: NDArray[np.float64], cb: NDArray[np.float64]
) -> float:
    """The volume, in nm³, that the bonds of CA span; positive in an L-amino acid."""
    return float(np.dot(n - ca, np.cross(c - ca, cb - ca)))


@dataclass(frozen=True)
class Link:
    """A bond between residues that the file records."""

    first: tuple[Residue, Atom]
    second: tuple[Residue, Atom]

    @property
    def length(self) -> float:
        """Distance of its atoms, in nm."""
        return float(np.linalg.norm(self.first[1].place - self.second[1].place))


@dataclass(eq=False)
class Chain:
    """Residues that follow each other in the file under one identifier."""

    name: str
    residues: list[Residue]


@dataclass(eq=False)
class Structure:
    """What a file holds.

    `sequences` are those of whole chains, by their identifiers; `locations` say which of several was
    taken for a residue.
    """

    chains: list[Chain]
    links: list[Link] = field(default_factory=list)
    sequences: dict[str, list[str]] = field(default_factory=dict)
    locations: list[tuple[Residue, str]] = field(default_factory=list)
    n_models: int = 1

    def residues(self) -> Iterator[Residue]:
        """All residues, in the order of the file."""
        for chain in self.chains:
            yield from chain.residues


def read(text: str, file_format: str) -> Structure:
    """The structure of a PDB or mmCIF text.

    Raises
    ------
    ValueError
        Naming the line, when the text is not of its format.

    """
    long_names: dict[str, str] = {}
    if file_format == "pdb":
        text, n_models, long_names = _whole_pdb(text)
        model = gemmi.read_pdb_string(text, split_chain_on_ter=True)
        sequences = {entity.name: _one_of_each(entity.full_sequence) for entity in model.entities}
    else:
        document = gemmi.cif.read_string(text)
        block = next((block for block in document if block.find_loop("_atom_site.id")), None)
        if block is None:
            return Structure([])
        model = gemmi.make_structure_from_block(block)
        n_models = len(model)
        of_part = {residue.subchain: chain.name for chain in model[0] for residue in chain} if len(model) else {}
        sequences = {
            of_part[part]: _one_of_each(entity.full_sequence)
            for entity in model.entities
            for part in entity.subchains
            if part in of_part
        }
    structure = Structure([], n_models=max(n_models, 1))
    structure.sequences = {name: sequence for name, sequence in sequences.items() if sequence}
    by_serial: dict[int, tuple[Residue, Atom]] = {}
    for chain in model[0] if len(model) else []:
        residues = _residues(chain, structure, long_names, by_serial)
        structure.chains.append(Chain(chain.name, residues))
    structure.links = _links(model, structure, by_serial)
    return structure


def _one_of_each(sequence: list[str]) -> list[str]:
    """A sequence with the first residue of each place where the crystal has several."""
    return [name.split(",")[0] for name in sequence]


def _whole_pdb(text: str) -> tuple[str, int, dict[str, str]]:
    """A PDB text with its first model alone; the number of models; residue names of four letters.

    Numbers of models are misplaced or repeated by some programs, so the records go. Where a name has
    four letters, as in files of simulation programs, gemmi would read two letters of a chain.
    """
    lines = []
    n_models = 0
    long_names: dict[str, str] = {}
    for i, line in enumerate(text.splitlines()):
        record = line[:6].upper().rstrip()
        n_models += record == "MODEL"
        if record in {"MODEL", "ENDMDL"}:
            continue
        is_atom = record in {"ATOM", "HETATM"}
        if n_models > 1 and (is_atom or record in {"ANISOU", "TER"}):
            continue
        if is_atom:
            _check_columns(i + 1, line)
            lines.append(_atom_line(_without_entry(line), long_names))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n", n_models, {short: name for name, short in long_names.items()}


def _atom_line(line: str, long_names: dict[str, str]) -> str:
    """An atom's line with its element, and with a short name for one of four letters."""
    if not line[20:21].strip():
        return _with_element(line, line[17:20].strip())
    name = line[17:21].strip()
    short = long_names.setdefault(name, f"~{len(long_names):02}")
    return _with_element(f"{line[:17]}{short} {line[21:]}", name)


def _without_entry(line: str) -> str:
    """An atom's line without what columns 73 to 80 had before 1996: the entry's name and the line's number."""
    element, charge = line[76:78].strip(), line[78:80].strip()
    is_modern = (not element or element.isalpha()) and re.fullmatch(r"([0-9][+-]|[+-][0-9]|[+-])?", charge)
    return line if is_modern else line[:72]


def _with_element(line: str, residue: str) -> str:
    """An atom's line with its element, where it has none and the residue shows it.

    By its columns alone, HG of a serine that is written one to the left would be mercury.
    """
    letter = line[12:16].strip().lstrip("0123456789")[:1].upper()
    if line[76:78].strip() or letter not in names.LETTERS or not names.is_of_polymer(residue):
        return line
    return f"{line[:76]:<76} {letter}{line[78:]}"


def _check_columns(number: int, line: str) -> None:
    """Refuse an atom's line whose place or residue number gemmi would take for another."""
    for column in COORDINATE_COLUMNS:
        text = line[column : column + 8]
        try:
            float(text)
        except ValueError:
            place = f"columns {column + 1} to {column + 8}"
            raise ValueError(f"line {number}: {text.strip()!r} in {place} is no coordinate") from None
    if len(line.rstrip()) < COORDINATE_COLUMNS[-1] + 8:
        raise ValueError(f"line {number} ends within its coordinates, before column {COORDINATE_COLUMNS[-1] + 8}")
    if not RESIDUE_NUMBER.fullmatch(line[22:26].strip()):
        raise ValueError(f"line {number}: {line[22:26].strip()!r} in columns 23 to 26 is no residue number")


def _residues(
    chain: gemmi.Chain,
    structure: Structure,
    long_names: dict[str, str],
    by_serial: dict[int, tuple[Residue, Atom]],
) -> list[Residue]:
    """The residues of a chain, one location of each."""
    found: list[Residue] = []
    groups = _groups(chain)
    for group, location in zip(groups, _chosen_locations(groups), strict=True):
        others = set(_occupancies(group)) - {location}
        taken = [
            (residue, atom)
            for residue in group
            for atom in residue
            if not others or not atom.has_altloc() or atom.altloc == location
        ]
        # Atoms without a location belong to all of them.
        name = next((residue.name for residue, atom in taken if atom.altloc == location), taken[0][0].name)
        name = long_names.get(name, name)
        for part in _molecules([atom for _, atom in taken]):
            once, repeated = _one_of_each_name(f"{name} {group[0].seqid} of chain {chain.name}", part)
            new = _residue(name, chain.name, group[0].seqid, once, by_serial)
            if repeated:
                what = f"{', '.join(repeated)} are there more than once without a mark; the first were taken"
                structure.locations.append((new, what))
            if others:
                mixed = f", so it is {name}" if len({other.name for other in group}) > 1 else ""
                what = f"location {location} taken, {', '.join(sorted(others))} left out{mixed}"
                structure.locations.append((new, what))
            found.append(new)
    return found


def _groups(chain: gemmi.Chain) -> list[list[gemmi.Residue]]:
    """Residues with the others that are alternate locations of them under other names."""
    groups: list[list[gemmi.Residue]] = []
    for residue in chain:
        if len(residue) == 0:
            continue
        before = groups[-1][-1] if groups else None
        is_location = before is not None and residue.seqid == before.seqid and residue.name != before.name
        if is_location and _occupancies([residue]) and _occupancies(groups[-1]):
            groups[-1].append(residue)
        else:
            groups.append([residue])
    return groups


def _occupancies(group: list[gemmi.Residue]) -> dict[str, float]:
    """The largest occupancy of each location."""
    found: dict[str, float] = {}
    for residue in group:
        for atom in residue:
            if atom.has_altloc():
                found[atom.altloc] = max(found.get(atom.altloc, -1.0), atom.occ)
    return found


def _chosen_locations(groups: list[list[gemmi.Residue]]) -> list[str]:
    """The location of each residue that is taken: the most occupied one.

    Neighbours whose backbones have locations take that with the largest sum of occupancies together.
    Between locations of crambin, bonds of the backbone are up to 1.21 times as long as they should be.
    """
    occupancies = [_occupancies(group) for group in groups]
    sums: list[dict[str, float]] = []
    for i, group in enumerate(groups):
        if not (i and _has_alternate_backbone(group) and _has_alternate_backbone(groups[i - 1])):
            sums.append({})
        else:
            sums.append(sums[-1])
        for location, occupancy in occupancies[i].items():
            sums[-1][location] = sums[-1].get(location, 0.0) + occupancy
    return [
        min(own, key=lambda location: (-together[location], -own[location], location), default="")
        for own, together in zip(occupancies, sums, strict=True)
    ]


def _has_alternate_backbone(group: list[gemmi.Residue]) -> bool:
    return any(atom.has_altloc() and atom.name in ALTERNATING for residue in group for atom in residue)


def _molecules(atoms: list[gemmi.Atom]) -> list[list[gemmi.Atom]]:
    """Atoms of a residue, in several parts where waters or ions share one number.

    In mmCIF they have none when the author's numbers are left out.
    """
    heavy = Counter(atom.name for atom in atoms if not atom.is_hydrogen())
    if len(heavy) != 1 or max(heavy.values()) == 1:
        return [atoms]
    parts: list[list[gemmi.Atom]] = []
    for atom in atoms:
        if not atom.is_hydrogen() or not parts:
            parts.append([])
        parts[-1].append(atom)
    return parts


def _one_of_each_name(what: str, atoms: list[gemmi.Atom]) -> tuple[list[gemmi.Atom], list[str]]:
    """Atoms of a residue without repeated ones, and the names of those that were at another place.

    Raises ValueError when they are so far away that they are of another residue.
    """
    first: dict[str, gemmi.Atom] = {}
    moved: dict[str, None] = {}
    for atom in atoms:
        other = first.setdefault(atom.name, atom)
        distance = other.pos.dist(atom.pos)
        # Open Babel calls all hydrogens of a molecule H, however large it is.
        is_far = distance > (ANCHOR_REACH_ANGSTROM if atom.name in ANCHORS else REACH_ANGSTROM)
        if is_far and not atom.is_hydrogen():
            places = f"two places, {distance / 10:.2f} nm apart"
            raise ValueError(f"{what} has {atom.name} at {places}: residues need numbers of their own")
        if distance > SAME_ANGSTROM:
            moved[atom.name] = None
    return list(first.values()), list(moved)


def _residue(
    name: str,
    chain: str,
    seqid: gemmi.SeqId,
    atoms: list[gemmi.Atom],
    by_serial: dict[int, tuple[Residue, Atom]],
) -> Residue:
    insertion = seqid.icode.strip()
    residue = Residue(name, chain, seqid.num or 0, insertion, name, [])
    for atom in atoms:
        # PDB files have three decimals of an Å; what comes beyond is of the conversion.
        place = np.array(atom.pos.tolist(), dtype=np.float64) / 10
        residue.atoms.append(Atom(atom.name, _element(atom, len(atoms)), place, atom.occ, charge=atom.charge))
        by_serial[atom.serial] = (residue, residue.atoms[-1])
    return residue


def _element(atom: gemmi.Atom, n_atoms: int) -> app.Element | None:
    if atom.element.name == "X":
        symbol = names.ELEMENTS_OF_IONS.get(atom.name.upper()) if n_atoms == 1 else None
        guess = re.match(r"[CNOSPH]", atom.name.lstrip("0123456789").upper())
        symbol = symbol or (guess[0] if guess and n_atoms > 1 else None)
    else:
        symbol = names.ELEMENTS_OF_IONS.get(atom.name.upper(), atom.element.name) if n_atoms == 1 else atom.element.name
    try:
        return app.Element.getBySymbol(symbol) if symbol else None
    except KeyError:
        # A name in the wrong columns: NH1 reads as nihonium.
        return app.Element.getBySymbol(atom.name[0].upper()) if atom.name[:1].upper() in "CHNOPS" else None


def _links(model: gemmi.Structure, structure: Structure, by_serial: dict[int, tuple[Residue, Atom]]) -> list[Link]:
    """Bonds between residues by the records LINK, SSBOND and CONECT, or the category struct_conn."""
    residues = {(r.chain, r.number, r.insertion, r.deposited): r for r in structure.residues()}
    pairs: list[tuple[tuple[Residue, Atom], tuple[Residue, Atom]]] = []
    for record in model.connections:
        if record.type in {gemmi.ConnectionType.MetalC, gemmi.ConnectionType.Hydrog}:
            continue
        ends = []
        for partner in (record.partner1, record.partner2):
            seqid = partner.res_id.seqid
            key = (partner.chain_name, seqid.num or 0, seqid.icode.strip(), partner.res_id.name)
            residue = residues.get(key)
            atom = residue.atom(partner.atom_name) if residue else None
            if residue and atom:
                ends.append((residue, atom))
        if len(ends) == 2:
            pairs.append((ends[0], ends[1]))
    for serial, others in model.conect_map.items():
        for other in others:
            if serial in by_serial and other in by_serial:
                pairs.append((by_serial[serial], by_serial[other]))
    links: dict[frozenset[int], Link] = {}
    for first, second in pairs:
        link = Link(first, second)
        is_bond = first[1].is_heavy and second[1].is_heavy and link.length < MAX_RECORDED_BOND_NM
        if first[0] is second[0]:
            if first[1] is not second[1]:
                first[0].recorded.append((first[1], second[1]))
        elif is_bond:
            links.setdefault(frozenset((id(first[1]), id(second[1]))), link)
    return list(links.values())
