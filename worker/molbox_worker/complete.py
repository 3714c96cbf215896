"""Heavy atoms that amino acids lack: side chains are grown where there is room.

PDBFixer lays its template of a whole residue on the atoms that are there and relaxes what it adds
with soft spheres. Of 134 side chains of T4 lysozyme that were cut back to CB it left 15 pairs of atoms
in each other and broke a ring, in 127 s. Here each side chain takes, torsion by torsion, the course
that leaves its atoms the most room, given all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from openmm import unit
from pdbfixer.pdbfixer import Template
from scipy.spatial import cKDTree

from molbox_worker.contacts import radius
from molbox_worker.result import TaskError
from molbox_worker.structure import Atom, Residue

Place = NDArray[np.float64]

# The torsions that turn parts of a side chain, from the backbone outwards: the bond is that of the last two.
TORSIONS: dict[str, tuple[str, ...]] = {
    "ARG": ("N CA CB", "CA CB CG", "CB CG CD", "CG CD NE"),
    "ASN": ("N CA CB", "CA CB CG"),
    "ASP": ("N CA CB", "CA CB CG"),
    "CYS": ("N CA CB",),
    "GLN": ("N CA CB", "CA CB CG", "CB CG CD"),
    "GLU": ("N CA CB", "CA CB CG", "CB CG CD"),
    "HIS": ("N CA CB", "CA CB CG"),
    "ILE": ("N CA CB", "CA CB CG1"),
    "LEU": ("N CA CB", "CA CB CG"),
    "LYS": ("N CA CB", "CA CB CG", "CB CG CD", "CG CD CE"),
    "MET": ("N CA CB", "CA CB CG", "CB CG SD"),
    "PHE": ("N CA CB", "CA CB CG"),
    "SER": ("N CA CB",),
    "THR": ("N CA CB",),
    "TRP": ("N CA CB", "CA CB CG"),
    "TYR": ("N CA CB", "CA CB CG"),
    "VAL": ("N CA CB",),
}
# What hangs on these alone cannot turn.
BACKBONE = ("N", "C", "CA")
STEP_DEGREES = 30
# Partly grown side chains that are followed at each torsion.
WIDTH = 24
# Each side chain is grown again, given those grown after it, so many times.
SWEEPS = 3
# From here on atoms that are not bonded are in each other's way, as a share of their radii.
CROWDED = 0.95
# Nearer than this share no minimisation brings them apart on the side that they are on.
NO_ROOM = 0.5
REACH_NM = 0.4
# From the CA of an arginine to its end, and more.
SIDE_CHAIN_NM = 0.8
CARBONYL_NM = 0.123
CARBOXYL_NM = 0.125


class NoRoom(TaskError):
    """No course of the side chain of a residue leaves its atoms room."""

    def __init__(self, residue: Residue, message: str) -> None:
        remedy = "give its atoms in the file, or leave out what is in their place"
        loc: list[str | int] = ["body", "protein"]
        super().__init__("atoms_overlap", message, remedy=remedy, loc=loc, residues=[residue.called])
        self.residue = residue


def missing(residue: Residue, template: Template, *, is_last: bool) -> list[str]:
    """Names of the heavy atoms that an amino acid lacks; at the end of a chain it has a carboxylate."""
    wanted = [atom.name for atom in template.topology.atoms()] + ["OXT"] * is_last
    return [name for name in wanted if name not in residue]


def complete(
    wanted: Mapping[Residue, list[str]],
    residues: Sequence[Residue],
    templates: Mapping[str, Template],
    following: Mapping[Residue, Residue],
) -> None:
    """Add the wanted heavy atoms to amino acids whose N, CA and C are there.

    Parameters
    ----------
    wanted
        Names of the atoms that each lacks.
    residues
        All residues whose atoms are in the way of others.
    templates
        PDBFixer's, by name.
    following
        The residue after each, where they are bonded.

    """
    growing = [_Growth(residue, lacking, templates[residue.name]) for residue, lacking in wanted.items()]
    for growth in growing:
        growth.add_backbone(following.get(growth.residue))
    fixed = [atom for residue in residues for atom in residue.heavy]
    tree = cKDTree(np.array([atom.place for atom in fixed]).reshape(-1, 3))
    for growth in growing:
        growth.look_around(tree, fixed)
    for sweep in range(SWEEPS):
        has_changed = False
        for growth in growing:
            others = [atom for other in growing if other is not growth for atom in other.grown]
            has_changed |= growth.grow(others, is_first=sweep == 0)
        if not has_changed:
            break
    for growth in growing:
        growth.refuse_overlap(residues)
    for growth in growing:
        growth.residue.atoms += growth.grown


class _Growth:
    """The side chain of one residue while it is grown.

    Courses that it may take are followed together: places of an atom have the shape (courses, 3).
    """

    def __init__(self, residue: Residue, lacking: list[str], template: Template) -> None:
        self.residue = residue
        self.lacking = lacking
        self.cost = np.inf
        self.grown: list[Atom] = []
        self.around = np.zeros((0, 3)), np.zeros(0)
        # A D-amino acid is the mirror image.
        mirror = np.array([-1.0 if residue.is_mirrored else 1.0, 1.0, 1.0])
        places = template.positions.value_in_unit(unit.nanometer)
        atoms = list(template.topology.atoms())
        self.template = {atom.name: np.array(places[atom.index]) * mirror for atom in atoms}
        self.elements = {atom.name: atom.element for atom in atoms}
        self.bonded: dict[str, set[str]] = {atom.name: set() for atom in atoms}
        for a, b in template.topology.bonds():
            self.bonded[a.name].add(b.name)
            self.bonded[b.name].add(a.name)

    def add_backbone(self, following: Residue | None) -> None:
        """Add O and OXT, which have one place each."""
        n, ca, c = (self._place(name) for name in ("N", "CA", "C"))
        next_n = following.atom("N") if following else None
        if "O" in self.lacking:
            if next_n is not None:
                place = c + CARBONYL_NM * _opposite(c, ca, next_n.place)
            elif "OXT" in self.residue:
                place = c + CARBOXYL_NM * _opposite(c, ca, self._place("OXT"))
            else:
                source = [self.template[name] for name in ("N", "CA", "C")]
                place = _moved(self.template["O"], source, [n, ca, c])
            self._add("O", place)
        if "OXT" in self.lacking:
            self._add("OXT", c + CARBOXYL_NM * _opposite(c, ca, self._place("O")))

    def _place(self, name: str) -> Place:
        atom = self.residue.atom(name)
        assert atom is not None, f"{self.residue} lacks {name}"
        return atom.place

    def _add(self, name: str, place: Place) -> None:
        element = self.elements["O" if name == "OXT" else name]
        self.residue.atoms.append(Atom(name, element, place, built=True))

    def look_around(self, tree: cKDTree, fixed: list[Atom]) -> None:
        """Find the atoms that may be in the way."""
        own = {id(atom) for atom in self.residue.atoms}
        near = [fixed[i] for i in tree.query_ball_point(self._place("CA"), SIDE_CHAIN_NM + REACH_NM)]
        self.around = _places_and_radii([atom for atom in near if id(atom) not in own])

    def grow(self, others: list[Atom], *, is_first: bool) -> bool:
        """Take the course with the most room; returns whether it differs from the one before."""
        present = {atom.name: atom.place[None] for atom in self.residue.heavy if atom.name in self.template}
        ca = self._place("CA")
        near = [atom for atom in others if np.linalg.norm(atom.place - ca) < 2 * SIDE_CHAIN_NM]
        places, sizes = _places_and_radii(near)
        around = np.concatenate([self.around[0], places]), np.concatenate([self.around[1], sizes])
        courses, costs = present, np.zeros(1)
        for reference, group in self._stages():
            lacking = [name for name in group if name not in present]
            if lacking:
                courses, costs = self._turned(courses, costs, reference, group, lacking)
                costs += self._cost(courses, lacking, around)
                best = np.argsort(costs, kind="stable")[:WIDTH]
                courses, costs = {name: places[best] for name, places in courses.items()}, costs[best]
        if not is_first and costs[0] > self.cost - 1e-6:
            return False
        self.cost = costs[0]
        self.grown = [
            Atom(name, self.elements[name], places[0], built=True)
            for name, places in courses.items()
            if name not in present
        ]
        return True

    def refuse_overlap(self, residues: Sequence[Residue]) -> None:
        """Refuse a side chain of which no course leaves room; some is made where atoms only touch."""
        for atom in self.grown:
            for residue in residues:
                for other in residue.heavy if residue is not self.residue else []:
                    distance = float(np.linalg.norm(other.place - atom.place))
                    if distance < NO_ROOM * (radius(atom.element) + radius(other.element)):
                        raise NoRoom(
                            self.residue,
                            f"there is no room for the side chain of {self.residue}, of which atoms are missing:"
                            f" {atom.name} would be {distance:.3f} nm from {other.name} of {residue}",
                        )

    def _stages(self) -> list[tuple[tuple[str, ...], list[str]]]:
        """References and the atoms that turn with them, from the backbone outwards."""
        torsions = [tuple(torsion.split()) for torsion in TORSIONS.get(self.residue.name, ())]
        if not torsions:
            # Alanine, and proline, whose ring is stiff.
            return [(BACKBONE, [name for name in self.template if name not in {"N", "CA", "C", "O"}])]
        stages: list[tuple[tuple[str, ...], list[str]]] = [(BACKBONE, ["CB"])]
        for i, (_, near, far) in enumerate(torsions):
            beyond = self._beyond(near, far)
            if i + 1 < len(torsions):
                beyond -= self._beyond(*torsions[i + 1][1:])
            stages.append((torsions[i], [name for name in self.template if name in beyond]))
        return stages

    def _beyond(self, near: str, far: str) -> set[str]:
        """Atoms on the far side of a bond, without those of the bond."""
        found, new = {near, far}, [far]
        while new:
            fresh = self.bonded[new.pop()] - found
            found |= fresh
            new += fresh
        return found - {near, far}

    def _turned(
        self,
        courses: dict[str, Place],
        costs: NDArray[np.float64],
        reference: tuple[str, ...],
        group: list[str],
        lacking: list[str],
    ) -> tuple[dict[str, Place], NDArray[np.float64]]:
        """The courses with the lacking atoms of a group added, at each turn that it can take."""
        there = next((name for name in group if name not in lacking), None)
        is_free = reference != BACKBONE and there is None
        angles = np.radians(np.arange(0, 360, STEP_DEGREES)) if is_free else np.zeros(1)
        courses = {name: np.repeat(places, len(angles), axis=0) for name, places in courses.items()}
        n = len(next(iter(courses.values())))
        source = [self.template[name] for name in reference]
        target = [np.broadcast_to(courses[name], (n, 3)) for name in reference]
        turn = np.tile(angles, n // len(angles))
        if reference != BACKBONE and there is not None:
            at_zero = _moved(self.template[there], source, target)
            turn = _turn(at_zero, courses[there], target[1], target[2])
        for name in lacking:
            courses[name] = _rotated(_moved(self.template[name], source, target), target[1], target[2], turn)
        return courses, np.repeat(costs, len(angles))

    def _cost(
        self, courses: dict[str, Place], new: list[str], around: tuple[Place, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """How much new atoms are in the way of each other and of all others, for each course."""
        places, radii = around
        cost = np.zeros(len(courses[new[0]]))
        for name in new:
            r = radius(self.elements[name])
            distances = np.linalg.norm(courses[name][:, None] - places[None], axis=2)
            cost += (np.maximum(0.0, CROWDED - distances / (radii + r)) ** 2).sum(axis=1)
            joined = {name} | self.bonded[name] | {x for y in self.bonded[name] for x in self.bonded[y]}
            for other in courses.keys() - joined:
                distance = np.linalg.norm(courses[name] - courses[other], axis=1)
                cost += np.maximum(0.0, CROWDED - distance / (r + radius(self.elements[other]))) ** 2
        return cost


def _places_and_radii(atoms: list[Atom]) -> tuple[Place, NDArray[np.float64]]:
    places = np.array([atom.place for atom in atoms]).reshape(-1, 3)
    return places, np.array([radius(atom.element) for atom in atoms if atom.element])


def _opposite(centre: Place, first: Place, second: Place) -> Place:
    """Direction from a planar centre that leaves two others alone."""
    sides = [(place - centre) / np.linalg.norm(place - centre) for place in (first, second)]
    away = -(sides[0] + sides[1])
    return np.asarray(away / np.linalg.norm(away))


def _frame(points: list[Place]) -> NDArray[np.float64]:
    """Axes of three points by columns: along the last two, in their plane, across it."""
    along = points[2] - points[1]
    along = along / np.linalg.norm(along, axis=-1, keepdims=True)
    across = np.cross(along, points[0] - points[1])
    across = across / np.linalg.norm(across, axis=-1, keepdims=True)
    return np.stack([along, np.cross(across, along), across], axis=-1)


def _moved(place: Place, source: list[Place], target: list[Place]) -> Place:
    """A place as it lies to three source points, laid to three target points; they meet in the last."""
    return np.asarray(target[2] + _frame(target) @ (_frame(source).T @ (place - source[2])))


def _rotated(places: Place, start: Place, end: Place, angles: NDArray[np.float64]) -> Place:
    """Places rotated about axes from start to end; all but the angles (n, 3)."""
    axis = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    arm = places - end
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    along = axis * (axis * arm).sum(axis=1, keepdims=True)
    return np.asarray(end + arm * cosine + np.cross(axis, arm) * sine + along * (1 - cosine))


def _turn(places: Place, wanted: Place, start: Place, end: Place) -> NDArray[np.float64]:
    """Angles about axes from start to end that bring places nearest to the wanted ones; shape (n,)."""
    axis = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    a, b = (arm - axis * (axis * arm).sum(axis=1, keepdims=True) for arm in (places - end, wanted - end))
    return np.asarray(np.arctan2((axis * np.cross(a, b)).sum(axis=1), (a * b).sum(axis=1)))
