"""Which atoms are near each other, and how near they may come."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from openmm import app
from scipy.sparse import coo_matrix
from scipy.spatial import cKDTree

from molbox_worker.structure import HYDROGENS

# Of atoms in molecules, nm: Bondi 1964; hydrogen from Rowland and Taylor 1996.
VAN_DER_WAALS = {
    "H": 0.110, "D": 0.110, "B": 0.192, "C": 0.170, "N": 0.155, "O": 0.152, "F": 0.147, "Si": 0.210,
    "P": 0.180, "S": 0.180, "Cl": 0.175, "As": 0.185, "Se": 0.190, "Br": 0.185, "I": 0.198,
}  # fmt: skip
# Of monoatomic ions with six neighbours, nm: Shannon 1976. Others are near to magnesium or zinc.
IONIC = {
    "Li": 0.076, "Na": 0.102, "K": 0.138, "Rb": 0.152, "Cs": 0.167, "Ca": 0.100, "Sr": 0.118, "Ba": 0.135,
    "F": 0.133, "Cl": 0.181, "Br": 0.196, "I": 0.220,
}  # fmt: skip
OTHER_ION_NM = 0.073
# A hydrogen of a hydrogen bond lies this much deeper in the acceptor: 0.15 nm from oxygen in strong ones.
DEEPER_NM = 0.055
# Of atoms in bonds, nm: Cordero 2008.
COVALENT = {
    "H": 0.031, "D": 0.031, "B": 0.084, "C": 0.076, "N": 0.071, "O": 0.066, "F": 0.057, "Si": 0.111, "P": 0.107,
    "S": 0.105, "Cl": 0.102, "As": 0.119, "Se": 0.120, "Br": 0.120, "I": 0.139,
}  # fmt: skip
# Of the sum of these, how short and how long bonds in deposited structures are.
SHORTEST_BOND = 0.70
LONGEST_BOND = 1.18


def radius(element: app.Element) -> float:
    """Van der Waals radius of an atom in a molecule, nm."""
    return VAN_DER_WAALS.get(element.symbol, OTHER_ION_NM)


def is_bond(
    first: app.Element | None, second: app.Element | None, distance_nm: float, *, slack: float = LONGEST_BOND
) -> bool:
    """Whether two atoms are as far from each other as atoms that share electrons; metals do not.

    `slack` is how much longer the bond may be than the sum of the radii, as a factor.
    """
    radii = [COVALENT.get(element.symbol) if element else None for element in (first, second)]
    if radii[0] is None or radii[1] is None:
        return False
    length = radii[0] + radii[1]
    return SHORTEST_BOND * length < distance_nm < slack * length


def radii(topology: app.Topology) -> NDArray[np.float64]:
    """Radius of each atom in nm, shape (n,); NaN for sites without an atom."""
    found = np.full(topology.getNumAtoms(), np.nan)
    for residue in topology.residues():
        atoms = [atom for atom in residue.atoms() if atom.element is not None]
        for atom in atoms:
            is_ion = len(atoms) == 1 and atom.element.symbol != "O"
            size = IONIC.get(atom.element.symbol, OTHER_ION_NM) if is_ion else radius(atom.element)
            found[atom.index] = size
    return found


def _donors_and_acceptors(topology: app.Topology) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which atoms are hydrogens of hydrogen bonds, and which take them; shapes (n,)."""
    symbols = np.array([atom.element.symbol if atom.element else "" for atom in topology.atoms()], dtype="U2")
    accepts = np.isin(symbols, ["N", "O", "S", "F", "Cl", "Br", "I"])
    is_polar = np.zeros(len(symbols), dtype=bool)
    for pair in topology.bonds():
        for atom, other in (pair, pair[::-1]):
            is_polar[atom.index] |= atom.element in HYDROGENS and bool(accepts[other.index])
    return is_polar, accepts


def unbonded(
    topology: app.Topology,
    positions: NDArray[np.float64],
    vectors: NDArray[np.float64] | None,
    share: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of atoms nearer than a share of their radii that neither a bond nor an angle joins.

    Returns
    -------
    pairs, distances, shares
        Indices, shape (m, 2); nm; of the sums of radii.

    """
    sizes = radii(topology)
    real = np.flatnonzero(np.isfinite(sizes))
    reach = 2 * share * float(sizes[real].max(initial=0.0))
    pairs, distances = near_pairs(positions[real], reach, vectors)
    pairs = real[pairs]
    first, second = pairs.T
    is_polar, accepts = _donors_and_acceptors(topology)
    is_hydrogen_bond = (is_polar[first] & accepts[second]) | (is_polar[second] & accepts[first])
    shares = distances / (sizes[first] + sizes[second] - DEEPER_NM * is_hydrogen_bond)
    keep = shares < share
    pairs, distances, shares = pairs[keep], distances[keep], shares[keep]
    free = ~_joined(topology, pairs)
    return pairs[free], distances[free], shares[free]


def _joined(topology: app.Topology, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pairs a bond or an angle joins; shape (m,)."""
    if len(pairs) == 0:
        return np.zeros(0, dtype=bool)
    n = topology.getNumAtoms()
    bonds = np.array([(a.index, b.index) for a, b in topology.bonds()], dtype=np.int64).reshape(-1, 2)
    both = np.concatenate([bonds, bonds[:, ::-1]])
    matrix = coo_matrix((np.ones(len(both), dtype=np.int32), (both[:, 0], both[:, 1])), shape=(n, n)).tocsr()
    near = matrix + matrix @ matrix
    return np.asarray(near[pairs[:, 0], pairs[:, 1]]).ravel() > 0


def near_pairs(
    positions: NDArray[np.float64], reach_nm: float, vectors: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of points nearer than `reach_nm` and their distances; shapes (m, 2) and (m,).

    With the three `vectors` of a periodic box by rows, images count. A pair that meets in several
    images comes once for each.
    """
    if vectors is None:
        index = np.arange(len(positions))
        points = positions
    else:
        points, index = _with_images(positions, reach_nm, vectors)
    n = len(positions)
    found = cKDTree(points).query_pairs(reach_nm, output_type="ndarray")
    # Of two images neither is in the box: their pair is there as well.
    found = found[found.min(axis=1) < n] if len(found) else found.reshape(0, 2)
    distances = np.linalg.norm(points[found[:, 0]] - points[found[:, 1]], axis=1)
    return index[found].astype(np.int64), distances


def around(
    positions: NDArray[np.float64], chosen: NDArray[np.int64], reach_nm: float, vectors: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Indices of the points within `reach_nm` of chosen ones in a periodic box, these included."""
    points, index = _with_images(positions, reach_nm, vectors)
    found = cKDTree(points).query_ball_point(points[chosen], reach_nm)
    return np.unique(index[np.concatenate([np.array(near, dtype=np.int64) for near in found])])


def _with_images(
    positions: NDArray[np.float64], reach_nm: float, vectors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The points moved into the box, and images of those near its faces, with whose images they are."""
    inverse = np.linalg.inv(vectors)
    fractions = positions @ inverse
    fractions -= np.floor(fractions)
    # The distance of opposite faces is one over the length of a column of the inverse.
    margin = reach_nm * np.linalg.norm(inverse, axis=0)
    points = [fractions]
    index = [np.arange(len(positions))]
    for step in itertools.product((-1, 0, 1), repeat=3):
        if any(step):
            moved = fractions + np.array(step)
            is_near = ((moved > -margin) & (moved < 1 + margin)).all(axis=1)
            points.append(moved[is_near])
            index.append(np.flatnonzero(is_near))
    return np.concatenate(points) @ vectors, np.concatenate(index)
