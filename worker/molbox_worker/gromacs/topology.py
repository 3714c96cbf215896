"""The topology of a System as a file of GROMACS, with every parameter spelt out.

grompp has nothing to derive: exclusions, pairs, constraints and sites are explicit, and numbers have the
digits that a double needs. Atoms keep their order, so that frames do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from openmm import app

from molbox_worker.gromacs.terms import LennardJones, Terms, sigma_epsilon

# Of a molecule, in this order.
SECTIONS = (
    "pairs",
    "bonds",
    "constraints",
    "settles",
    "angles",
    "dihedrals",
    "cmap",
    "virtual_sites2",
    "virtual_sites3",
    "exclusions",
    "position_restraints",
)
# grompp reads each number of a map into 20 bytes without looking.
MAP_DIGITS = 19
MAP_COLUMNS = 8
# Of every residue and atom.
NAMES = ("MOL", "X")

# Type, charge and mass of an atom. Nothing that GROMACS calculates depends on names.
Row = tuple[str, float, float]
Line = tuple[str, tuple[int, ...], tuple[float, ...]]
# A kind of molecule: its atoms and its lines.
Kind = tuple[tuple[Row, ...], tuple[Line, ...]]
Kinds = dict[Kind, int]
# An atom type: what decides about Lennard-Jones, whether it is a site, label of CMAP.
AtomType = tuple[LennardJones, bool, str]


def write_topology(path: Path, terms: Terms, topology: app.Topology) -> None:
    """Write the terms of a System; the bonds of its `topology` keep together what they join."""
    kinds, names = _types(terms)
    molecules, sequence = _molecules(terms, topology, names)
    with path.open("w") as file:
        _put(file, f"[ defaults ]\n1 {terms.rule} no 1.0", _number(terms.fudge))
        _put(file, "\n[ atomtypes ]")
        for ((sigma, epsilon, _), is_site, label), name in kinds.items():
            _put(file, name, label, "0 1.0 0.0", "V" if is_site else "A", _number(sigma), _number(epsilon))
        _put_nbfix(file, terms, kinds)
        _put_maps(file, terms)
        for (rows, lines), which in molecules.items():
            _put_molecule(file, which, rows, lines)
        _put(file, "\n[ system ]\nmolbox\n\n[ molecules ]")
        for which, count in sequence:
            _put(file, f"m{which}", count)


def _types(terms: Terms) -> tuple[dict[AtomType, str], list[str]]:
    """The atom types by what they are, and the name of each atom's."""
    kinds: dict[AtomType, str] = {}
    names = []
    labels = set()
    for kind in zip(terms.lennard_jones(), terms.is_site, terms.labels, strict=True):
        if kind not in kinds:
            # grompp wants each bonded type that a map names to be the name of an atom type too.
            label = kind[2]
            kinds[kind] = f"t{len(kinds)}" if label in labels else label
            labels.add(label)
        names.append(kinds[kind])
    return kinds, names


def _molecules(terms: Terms, topology: app.Topology, names: list[str]) -> tuple[Kinds, list[list[int]]]:
    """The kinds of molecules by their content, and the order in which so many of each follow each other."""
    by_first: dict[int, list[Line]] = defaultdict(list)
    for section, lines in terms.lines.items():
        for atoms, values in lines:
            by_first[atoms[0]].append((section, atoms, values))
    of_atom = list(zip(names, terms.charges, terms.masses, strict=True))

    def content(start: int, end: int) -> Kind:
        local = tuple(
            (section, tuple(atom - start for atom in atoms), values)
            for i in range(start, end)
            for section, atoms, values in by_first[i]
        )
        return tuple(of_atom[start:end]), local

    found = [(start, end, content(start, end)) for start, end in _blocks(_joined(terms, topology), terms.n_atoms)]
    waters = [i for i, (_, _, kind) in enumerate(found) if any(section == "settles" for section, _, _ in kind[1])]
    if len({found[i][2] for i in waters}) > 1:
        # GROMACS allows rigid water in one kind of molecule, and restraints may hold some of it: that is one molecule.
        first, last = waters[0], waters[-1]
        start, end = found[first][0], found[last][1]
        found[first : last + 1] = [(start, end, content(start, end))]
    kinds: Kinds = {}
    sequence: list[list[int]] = []
    for _, _, kind in found:
        which = kinds.setdefault(kind, len(kinds))
        if sequence and sequence[-1][0] == which:
            sequence[-1][1] += 1
        else:
            sequence.append([which, 1])
    return kinds, sequence


def atoms_of_line(section: str, atoms: tuple[int, ...]) -> tuple[int, ...]:
    """The atoms that a line joins: rigid water is named by its first."""
    return (atoms[0], atoms[0] + 1, atoms[0] + 2) if section == "settles" else atoms


def _joined(terms: Terms, topology: app.Topology) -> Iterator[tuple[int, ...]]:
    """Atoms that any term or bond joins."""
    for section, lines in terms.lines.items():
        for atoms, _ in lines:
            yield atoms_of_line(section, atoms)
    for bond in topology.bonds():
        yield bond[0].index, bond[1].index


def _blocks(joined: Iterator[tuple[int, ...]], n_atoms: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of atoms that nothing joins to others: molecules, or several that interleave."""
    # The farthest atom that one is joined to.
    reach = list(range(n_atoms))
    for atoms in joined:
        low, high = min(atoms), max(atoms)
        reach[low] = max(reach[low], high)
    start, end = 0, 0
    for i in range(n_atoms):
        if i > end:
            yield start, i
            start = i
        end = max(end, reach[i])
    yield start, n_atoms


def _put_nbfix(file: TextIO, terms: Terms, kinds: dict[AtomType, str]) -> None:
    if not terms.nbfix:
        return
    _put(file, "\n[ nonbond_params ]")
    items = list(kinds.items())
    for at, (first, first_name) in enumerate(items):
        for second, second_name in items[at:]:
            low, high = sorted((first[0][2], second[0][2]))
            if (low, high) in terms.nbfix:
                own = sigma_epsilon(*terms.pair(first[0], second[0]))
                _put(file, first_name, second_name, 1, *map(_number, own))


def _put_maps(file: TextIO, terms: Terms) -> None:
    if not terms.map_of_types:
        return
    _put(file, "\n[ cmaptypes ]")
    for types, which in terms.map_of_types.items():
        grid = [_short(each) for each in terms.maps[which]]
        size = math.isqrt(len(grid))
        lines = [" ".join(grid[i : i + MAP_COLUMNS]) for i in range(0, len(grid), MAP_COLUMNS)]
        _put(file, *types, 1, size, size, "\\\n" + "\\\n".join(lines))


def _put_molecule(file: TextIO, which: int, rows: tuple[Row, ...], lines: tuple[Line, ...]) -> None:
    _put(file, f"\n[ moleculetype ]\nm{which} 0\n\n[ atoms ]")
    for i, (kind, charge, mass) in enumerate(rows, 1):
        _put(file, i, kind, 1, *NAMES, i, _number(charge), _number(mass))
    by_section: dict[str, list[tuple[tuple[int, ...], tuple[float, ...]]]] = defaultdict(list)
    for section, atoms, values in lines:
        by_section[section].append((atoms, values))
    # grompp takes no exclusions where nothing of this kind stands before them, even if there is none.
    by_section["bonds"] += []
    for section in SECTIONS:
        if section in by_section:
            _put(file, f"\n[ {section} ]")
            for atoms, values in by_section[section]:
                _put(file, *(atom + 1 for atom in atoms), *map(_number, values))


def _put(file: TextIO, *words: object) -> None:
    print(*words, file=file)


def _number(value: float) -> str:
    """All the digits of a number; whole ones of functions and periodicities remain such."""
    return str(value) if isinstance(value, int) else repr(float(value))


def _short(value: float) -> str:
    text, digits = repr(float(value)), 17
    while len(text) > MAP_DIGITS:
        digits -= 1
        text = f"{value:.{digits}g}"
    return text
