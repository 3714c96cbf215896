"""The backbone of loops that a structure lacks, annealed between the residues that are there.

PDBFixer lays residues on an arc and pulls them apart with soft spheres. Of 1BHL's 16 it left eight
peptide bonds twisted or cis, in 160 s; such bonds stay as they are in a simulation. Here bonds,
angles, flat and trans peptides and the hand of each CA are forces, while the spheres grow from soft
to hard, so that the chain can pass through itself and others before it settles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm.app import element
from scipy.spatial import cKDTree

from molbox_worker.contacts import near_pairs, radius
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import platform
from molbox_worker.result import Stopped
from molbox_worker.structure import Atom, Residue

# Of peptides, nm and degrees: Engh and Huber 1991.
BONDS = {("N", "CA"): 0.1458, ("CA", "C"): 0.1525, ("C", "O"): 0.1231, ("CA", "CB"): 0.1530}
PEPTIDE_NM = 0.1329
ANGLES = {("N", "CA", "C"): 111.0, ("N", "CA", "CB"): 110.4, ("CB", "CA", "C"): 110.1, ("CA", "C", "O"): 120.1}
PEPTIDE_ANGLES = {("CA", "C", "+N"): 117.2, ("O", "C", "+N"): 122.7, ("C", "+N", "+CA"): 121.7}
# The improper torsion N-CA-C-CB of an L-amino acid.
HAND_DEGREES = -122.5
PHI_DEGREES, PHI_STRENGTH = -80.0, 5.0
# The ring of proline holds this one: another leaves its CD no room.
PROLINE_PHI_DEGREES, PROLINE_PHI_STRENGTH = -65.0, 100.0
PROLINE_PHI_TOLERANCE = 35.0
# What counts as sound: degrees off a flat peptide bond, its length and off the hand's, and a share of radii.
FLAT_DEGREES = 30.0
LONGEST = 1.1
HAND_TOLERANCE = 27.0
ROOM = 0.75
ATTEMPTS = 4
STEPS, STAGES = 300, 30
HOT_K, COLD_K = 1000.0, 20.0
# Spheres, as a share of radii, and how far around a loop atoms can be in its way, nm.
SPHERE = 0.88
AROUND_NM = 1.0
RESIDUE_NM = 0.36
BACKBONE = ("N", "CA", "C", "O", "CB")
PHI = ("C", "+N", "+CA", "+C")
ELEMENTS = {"N": element.nitrogen, "CA": element.carbon, "C": element.carbon, "O": element.oxygen, "CB": element.carbon}
Place = NDArray[np.float64]


@dataclass
class Loop:
    """Residues to build between two that are bonded to them."""

    before: Residue
    names: list[str]
    after: Residue

    @property
    def has_ends(self) -> bool:
        """Whether the backbones of both residues are there."""
        return all(name in end for end in (self.before, self.after) for name in ("N", "CA", "C"))


def build(task: TaskDirectory, loop: Loop, obstacles: Sequence[Atom], seed: int) -> list[list[Atom]] | None:
    """Backbone atoms of each residue of a loop; None when no course of it is sound.

    `obstacles` are all heavy atoms of the structure but for water.
    """
    model = _Model(loop, obstacles)
    for attempt in range(ATTEMPTS):
        if task.stop_requested:
            raise Stopped
        places = model.annealed(task, attempt_seed(seed, attempt))
        if model.is_sound(places):
            return model.atoms(places)
    return None


def attempt_seed(seed: int, attempt: int) -> int:
    """The seed of an attempt, from 1 to 2³¹ - 1: to OpenMM 0 is a seed that it draws, and more is too large."""
    return (seed + attempt - 1) % 0x7FFFFFFF + 1


class _Model:
    """A loop, the ends that it is bonded to, and what is around it; only the loop moves."""

    def __init__(self, loop: Loop, obstacles: Sequence[Atom]) -> None:
        self._loop = loop
        self._atoms: dict[tuple[int, str], int] = {}
        places: list[Place] = []
        self._elements: list[element.Element] = []
        residues = [loop.before.name, *loop.names, loop.after.name]
        ends = {0: loop.before, len(residues) - 1: loop.after}
        arc = _arc(loop, np.array([atom.place for atom in obstacles]))
        for i, name in enumerate(residues):
            for k, atom in enumerate(BACKBONE):
                there = ends[i].atom(atom) if i in ends else None
                if (i in ends and there is None) or (atom == "CB" and name == "GLY"):
                    continue
                self._atoms[i, atom] = len(places)
                places.append(there.place if there else arc[i - 1] + 0.02 * np.array([k - 2, k % 2, k % 3]))
                self._elements.append(ELEMENTS[atom])
        self._names = residues
        self._n_own = len(places)
        own = {id(atom) for end in ends.values() for atom in end.atoms}
        near = [atom for atom in obstacles if id(atom) not in own or atom.name not in BACKBONE]
        tree = cKDTree(np.array([atom.place for atom in near]).reshape(-1, 3))
        reach = AROUND_NM + RESIDUE_NM * (len(loop.names) + 1) / 2
        middle = (places[self._atoms[0, "CA"]] + places[self._atoms[len(residues) - 1, "CA"]]) / 2
        for i in tree.query_ball_point(middle, reach):
            places.append(near[i].place)
            self._elements.append(near[i].element)
        self._start = np.array(places)
        self._moves = np.zeros(len(places), dtype=bool)
        self._moves[[index for (i, _), index in self._atoms.items() if i not in ends]] = True
        # The O of the residue before lies in the plane of the bond to the loop.
        if (0, "O") in self._atoms:
            self._moves[self._atoms[0, "O"]] = False
        self._system = self._forces()

    def _indices(self, i: int, atoms: Sequence[str]) -> list[int] | None:
        """Indices of atoms of residue i, `+` before those of the next; None when one is not there."""
        found = [self._atoms.get((i + name.startswith("+"), name.removeprefix("+"))) for name in atoms]
        return [index for index in found if index is not None] if None not in found else None

    def _forces(self) -> openmm.System:
        system = openmm.System()
        for moves in self._moves:
            system.addParticle(12.0 if moves else 0.0)
        bonds, angles = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
        torsions = openmm.PeriodicTorsionForce()
        joined: list[tuple[int, int]] = []
        for i in range(len(self._names)):
            lengths = {**BONDS, ("C", "+N"): PEPTIDE_NM}
            for pair, length in lengths.items():
                if ends := self._indices(i, pair):
                    bonds.addBond(*ends, length, 2.5e5)
                    joined.append((ends[0], ends[1]))
            for triple, angle in {**ANGLES, **PEPTIDE_ANGLES}.items():
                if ends := self._indices(i, triple):
                    angles.addAngle(*ends, np.radians(angle), 1000.0)
            self._turn(torsions, i, ("CA", "C", "+N", "+CA"), 180.0, 200.0)
            self._turn(torsions, i, ("O", "C", "+N", "+CA"), 0.0, 200.0)
            self._turn(torsions, i, ("N", "CA", "C", "CB"), HAND_DEGREES, 300.0)
            following = self._names[i + 1] if i + 1 < len(self._names) else "GLY"
            if following == "PRO":
                self._turn(torsions, i, PHI, PROLINE_PHI_DEGREES, PROLINE_PHI_STRENGTH)
            elif following != "GLY":
                self._turn(torsions, i, PHI, PHI_DEGREES, PHI_STRENGTH)
        spheres = openmm.CustomNonbondedForce("hard*max(0, sphere*(r1+r2)-r)^2")
        spheres.addGlobalParameter("hard", 0.0)
        spheres.addGlobalParameter("sphere", SPHERE)
        spheres.addPerParticleParameter("r")
        for symbol in self._elements:
            spheres.addParticle([radius(symbol)])
        spheres.createExclusionsFromBonds(joined, 3)
        moving = np.flatnonzero(self._moves).tolist()
        spheres.addInteractionGroup(moving, range(len(self._elements)))
        spheres.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffNonPeriodic)
        spheres.setCutoffDistance(0.4)
        for force in (bonds, angles, torsions, spheres):
            system.addForce(force)
        return system

    def _turn(
        self, torsions: openmm.PeriodicTorsionForce, i: int, atoms: tuple[str, ...], degrees: float, strength: float
    ) -> None:
        if ends := self._indices(i, atoms):
            torsions.addTorsion(*ends, 1, np.radians(degrees - 180.0), strength)

    def annealed(self, task: TaskDirectory, seed: int) -> Place:
        """Places of all atoms once the loop has cooled, nm."""
        integrator = openmm.LangevinMiddleIntegrator(HOT_K, 5.0, 0.002)
        integrator.setRandomNumberSeed(seed)
        context = openmm.Context(self._system, integrator, *platform(task))
        noise = np.random.default_rng(seed).normal(scale=0.03, size=self._start.shape)
        context.setPositions(self._start + noise * self._moves[:, None])
        openmm.LocalEnergyMinimizer.minimize(context, 100.0, 200)
        context.setVelocitiesToTemperature(HOT_K, seed)
        for stage in range(STAGES):
            share = stage / (STAGES - 1)
            context.setParameter("hard", 10.0 ** (2.0 + 3.0 * share))
            integrator.setTemperature(HOT_K * (COLD_K / HOT_K) ** share)
            integrator.step(STEPS)
        openmm.LocalEnergyMinimizer.minimize(context, 10.0, 500)
        return np.asarray(context.getState(positions=True).getPositions(asNumpy=True)._value)

    def is_sound(self, places: Place) -> bool:
        """Whether bonds, peptides and hands are those of a protein, and nothing is in the way."""
        if not np.isfinite(places).all():
            return False
        for i in range(len(self._names) - 1):
            torsion, bond = self._indices(i, ("CA", "C", "+N", "+CA")), self._indices(i, ("C", "+N"))
            assert torsion and bond
            if abs(_torsion(places[torsion])) < 180.0 - FLAT_DEGREES:
                return False
            if np.linalg.norm(places[bond[0]] - places[bond[1]]) > LONGEST * PEPTIDE_NM:
                return False
            phi = self._indices(i, PHI) if self._names[i + 1] == "PRO" else None
            if phi and abs(_torsion(places[phi]) - PROLINE_PHI_DEGREES) > PROLINE_PHI_TOLERANCE:
                return False
        for i in range(1, len(self._names) - 1):
            hand = self._indices(i, ("N", "CA", "C", "CB"))
            if hand and abs(_torsion(places[hand]) - HAND_DEGREES) > HAND_TOLERANCE:
                return False
        return self._room(places) >= ROOM

    def _room(self, places: Place) -> float:
        spheres = next(f for f in self._system.getForces() if isinstance(f, openmm.CustomNonbondedForce))
        excluded = {tuple(sorted(spheres.getExclusionParticles(k))) for k in range(spheres.getNumExclusions())}
        radii = np.array([radius(symbol) for symbol in self._elements])
        pairs, distances = near_pairs(places, 0.3)
        shares = [1.0]
        for (a, b), distance in zip(pairs.tolist(), distances, strict=True):
            if (self._moves[a] or self._moves[b]) and (min(a, b), max(a, b)) not in excluded:
                shares.append(float(distance / (radii[a] + radii[b])))
        return min(shares)

    def atoms(self, places: Place) -> list[list[Atom]]:
        """The loop's atoms by residue, without CB."""
        return [
            [Atom(name, ELEMENTS[name], places[self._atoms[i, name]], built=True) for name in ("N", "CA", "C", "O")]
            for i in range(1, len(self._names) - 1)
        ]


def _arc(loop: Loop, obstacles: Place) -> Place:
    """Points of a bow from one end of a loop to the other, away from what is around it; shape (n, 3)."""
    first, last = loop.before.atom("C"), loop.after.atom("N")
    assert first is not None and last is not None
    n = len(loop.names)
    chord = last.place - first.place
    middle = (first.place + last.place) / 2
    near = obstacles[np.linalg.norm(obstacles - middle, axis=1) < 1.5]
    away = middle - near.mean(axis=0) if len(near) else np.array([0.0, 0.0, 1.0])
    away = away - chord * (away @ chord) / max(chord @ chord, 1e-9)
    if np.linalg.norm(away) < 1e-3:
        away = np.cross(chord, [1.0, 0.3, 0.2])
    away /= np.linalg.norm(away)
    slack = max(RESIDUE_NM * (n + 1) - float(np.linalg.norm(chord)), 0.0)
    height = 0.4 * slack
    shares = np.arange(1, n + 1)[:, None] / (n + 1)
    return np.asarray(first.place + shares * chord + height * np.sin(np.pi * shares) * away)


def _torsion(points: Place) -> float:
    """Torsion of four points, degrees."""
    a, b, c = np.diff(points, axis=0)
    left, right = np.cross(a, b), np.cross(b, c)
    return float(np.degrees(np.arctan2(np.linalg.norm(b) * (a @ right), left @ right)))
