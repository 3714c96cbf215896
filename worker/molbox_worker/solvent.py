"""Making room for added water where the faces of a periodic box meet.

Modeller fills a box with copies of one of water, and looks at oxygens alone where its faces meet: of
445 waters in a cube of 2.4 nm, 13 are left with atoms nearer to those of others than 0.6 of their
radii. They are turned and moved with the others held; what finds no room goes. Ions that took the
places of two such waters are moved too, and none of them goes.
"""

from __future__ import annotations

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit
from openmm.app import element

from molbox_worker import contacts, relax
from molbox_worker.directory import TaskDirectory
from molbox_worker.topology import WATER

# Waters that come nearer to others than this, as a share of radii, are moved.
CROWDED = 0.75
# Those that are nearer still once they are moved are taken out.
NO_ROOM = 0.62
# TIP3P (Jorgensen 1983): e, nm, kJ/mol. Other atoms are spheres of their radii.
CHARGE, SIGMA, EPSILON = 0.417, 0.315075, 0.635968
OTHER_EPSILON = 0.4
# Sites of water that are no atoms keep their places in it like atoms, Da.
SITE_MASS = 1.0
AROUND_NM = 0.45
CUTOFF_NM = 0.5
# Of the bonds that keep a water's shape, kJ/mol/nm²: constraints would take the minimiser several passes.
STIFF = 5e5
STEPS = 50
ROUNDS = 3


def settle(task: TaskDirectory, modeller: app.Modeller, n_residues: int) -> None:
    """Move or take out waters that lie on others, and move ions that do; `n_residues` were there before."""
    vectors = np.array(modeller.topology.getPeriodicBoxVectors().value_in_unit(unit.nanometer))
    for _ in range(ROUNDS):
        places = relax.positions(modeller)
        crowded = _crowded(modeller.topology, places, vectors, CROWDED, n_residues)
        if not crowded:
            return
        places = _moved(task, modeller.topology, places, vectors, crowded)
        modeller.positions = [openmm.Vec3(*place) for place in places] * unit.nanometer
    doomed = _crowded(modeller.topology, relax.positions(modeller), vectors, NO_ROOM, n_residues, one_of_each=True)
    if doomed:
        task.log(f"{len(doomed)} added waters taken out that lay on others")
        modeller.delete(sorted(doomed, key=lambda residue: residue.index))


def _crowded(
    topology: app.Topology,
    places: NDArray[np.float64],
    vectors: NDArray[np.float64],
    share: float,
    n_residues: int,
    *,
    one_of_each: bool = False,
) -> set[app.topology.Residue]:
    """Added waters with atoms nearer to others than a share of radii; of each pair all, or enough.

    Where all are wanted, also added ions that are as near to what is no added water: two chlorides were 0.178 nm
    apart.
    """
    pairs, _, _ = contacts.unbonded(topology, places, vectors, share)
    residues = [atom.residue for atom in topology.atoms()]
    found: set[app.topology.Residue] = set()
    for first, second in pairs[np.lexsort(pairs.T)]:
        ends = {residues[first], residues[second]}
        added = [end for end in ends if end.name == WATER and end.index >= n_residues]
        if one_of_each:
            if added and not ends & found:
                found.add(max(added, key=lambda residue: residue.index))
        else:
            found |= set(added or [end for end in ends if end.index >= n_residues and len(end) == 1])
    return found


def _moved(
    task: TaskDirectory,
    topology: app.Topology,
    places: NDArray[np.float64],
    vectors: NDArray[np.float64],
    freed: set[app.topology.Residue],
) -> NDArray[np.float64]:
    """The places once these waters and ions are minimised among what is around them, shape (n, 3)."""
    free = sorted(atom.index for residue in freed for atom in residue.atoms())
    atoms = list(topology.atoms())
    around = contacts.around(places, np.array(free), AROUND_NM, vectors)
    # Waters as a whole, so that they are neutral.
    whole = {atom.index for i in around for atom in atoms[i].residue.atoms() if atoms[i].residue.name == WATER}
    chosen = sorted(whole | set(around.tolist()))
    system = openmm.System()
    system.setDefaultPeriodicBoxVectors(*(openmm.Vec3(*vector) for vector in vectors))
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(CUTOFF_NM)
    system.addForce(force)
    bonds = openmm.HarmonicBondForce()
    bonds.setUsesPeriodicBoundaryConditions(True)
    system.addForce(bonds)
    sizes = contacts.radii(topology)
    index = {}
    for i in chosen:
        atom = atoms[i]
        is_free = atom.residue in freed
        mass = atom.element.mass._value if atom.element else SITE_MASS
        index[i] = system.addParticle(mass if is_free else 0.0)
        if atom.residue.name == WATER and atom.element is not None:
            is_oxygen = atom.element is element.oxygen
            force.addParticle(-2 * CHARGE if is_oxygen else CHARGE, SIGMA, EPSILON if is_oxygen else 0.0)
        else:
            size = sizes[i] if np.isfinite(sizes[i]) else 0.0
            force.addParticle(0.0, 2 * size / 2 ** (1 / 6), OTHER_EPSILON if size else 0.0)
    for residue in {atoms[i].residue for i in chosen if atoms[i].residue.name == WATER}:
        inner = [atom.index for atom in residue.atoms() if atom.index in index]
        for a in inner:
            for b in inner:
                if a < b:
                    force.addException(index[a], index[b], 0.0, 1.0, 0.0)
                    if residue in freed:
                        bonds.addBond(index[a], index[b], float(np.linalg.norm(places[a] - places[b])), STIFF)
    moved = places.copy()
    moved[chosen] = relax.minimized(task, system, places[chosen], STEPS)
    for residue in freed:
        inner = [atom.index for atom in residue.atoms()]
        moved[inner] = _laid_on(places[inner], moved[inner])
    return np.asarray(moved)


def _laid_on(shape: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """A shape, turned and moved to lie as near to its target as it can; both (n, 3)."""
    from_centre, to_centre = shape.mean(axis=0), target.mean(axis=0)
    u, _, v = np.linalg.svd((shape - from_centre).T @ (target - to_centre))
    # Three points lie in a plane: a mirror image is as near, and no turn.
    u[:, -1] *= np.sign(np.linalg.det(u @ v))
    return np.asarray((shape - from_centre) @ u @ v + to_centre)
