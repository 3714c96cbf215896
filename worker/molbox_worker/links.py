"""Bonds between residues other than along a chain: which there are, and which can be built."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from molbox_worker.chains import PEPTIDE, PHOSPHODIESTER, Run
from molbox_worker.contacts import is_bond, near_pairs
from molbox_worker.structure import Atom, Link, Residue

# Sulfur atoms further apart are not bonded: 1.2 times the length of a disulfide bond.
MAX_DISULFIDE_NM = 0.245
# No two atoms share electrons over more.
MAX_BOND_NM = 0.29
# A recorded bond may be as much longer than the radii of its atoms; hydrogen bonds are longer still.
RECORDED_SLACK = 1.4
# Atoms of standard residues by which chains continue.
BACKBONE = {*PEPTIDE, *PHOSPHODIESTER}


def find(residues: Iterable[Residue], recorded: list[Link], runs: list[Run]) -> list[Link]:
    """All bonds between residues, recorded or by distance, but for those along runs and to metals."""
    along = {frozenset((id(before), id(after))) for run in runs for before, after in run.pairs()}
    links: dict[frozenset[int], Link] = {}
    for link in [*recorded, *_near(residues)]:
        pair = frozenset((id(link.first[0]), id(link.second[0])))
        atoms = frozenset((id(link.first[1]), id(link.second[1])))
        if pair in along and _is_backbone(link):
            continue
        if is_disulfide(link) and link.length > MAX_DISULFIDE_NM:
            continue
        if not _is_covalent(link):
            continue
        links.setdefault(atoms, link)
    return list(links.values())


def _is_covalent(link: Link) -> bool:
    """Whether it may share electrons; CONECT records have hydrogen bonds too, and bonds to metals."""
    elements = link.first[1].element, link.second[1].element
    return is_bond(*elements, link.length, slack=RECORDED_SLACK)


def _near(residues: Iterable[Residue]) -> list[Link]:
    """Atoms of two residues that are as near to each other as bonded ones."""
    ends = [(residue, atom) for residue in residues for atom in residue.heavy]
    places = np.array([atom.place for _, atom in ends]).reshape(-1, 3)
    pairs, distances = near_pairs(places, MAX_BOND_NM)
    return [
        Link(ends[i], ends[j])
        for (i, j), distance in zip(pairs, distances, strict=True)
        if ends[i][0] is not ends[j][0] and is_bond(ends[i][1].element, ends[j][1].element, float(distance))
    ]


def _is_backbone(link: Link) -> bool:
    return {link.first[1].name, link.second[1].name} in ({"C", "N"}, {"O3'", "P"})


def is_disulfide(link: Link) -> bool:
    """Whether it joins the sulfur atoms of two cysteines."""
    return all(residue.name == "CYS" and atom.name == "SG" for residue, atom in (link.first, link.second))


def closed_run(link: Link, runs: list[Run]) -> Run | None:
    """The run whose last residue the link bonds to its first, as in a cyclic peptide."""
    ends = {id(link.first[0]): link.first[1], id(link.second[0]): link.second[1]}
    for run in runs:
        first, last = run.residues[0], run.residues[-1]
        if len(run.residues) > 2 and set(ends) == {id(first), id(last)}:
            names = (ends[id(last)].name, ends[id(first)].name)
            return run if names == PEPTIDE else None
    return None


def describe(end: tuple[Residue, Atom]) -> str:
    """An atom as its author calls it."""
    return f"{end[1].name} of {end[0]}"
