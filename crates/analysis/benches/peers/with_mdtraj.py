"""mdtraj, in chunks as its documentation advises."""

import mdtraj
import numpy as np
from common import CHUNK, IS_BIG, TASK, TOPOLOGY, TRAJECTORY, measured

TOP = mdtraj.load_topology(TOPOLOGY)
ALPHA = TOP.select("name CA and protein")


def chunks(atoms=None):
    return mdtraj.iterload(TRAJECTORY, top=TOP, chunk=CHUNK, atom_indices=atoms)


def read():
    return sum(chunk.n_frames for chunk in chunks()), 0.0


def rmsd():
    reference, values = None, []
    for chunk in chunks(ALPHA):
        reference = chunk[0] if reference is None else reference
        values.append(mdtraj.rmsd(chunk, reference))
    values = np.concatenate(values)
    return len(values), 10 * values.mean()


def rmsf():
    traj = mdtraj.load_dcd(TRAJECTORY, top=TOP, atom_indices=ALPHA)
    traj.superpose(traj)
    traj.superpose(mdtraj.Trajectory(traj.xyz.mean(0, keepdims=True), traj.topology))
    deviation = traj.xyz - traj.xyz.mean(0)
    return traj.n_frames, 10 * np.sqrt((deviation**2).sum(-1).mean(0)).mean()


def distance():
    if IS_BIG:
        groups = [TOP.select("protein and chainid %d" % chain) for chain in (0, 1)]
    else:
        groups = [TOP.select("resid 0 to 5"), TOP.select("resid 20 to 25")]
    values = []
    for chunk in chunks(np.concatenate(groups)):
        split = len(groups[0])
        a, b = (mdtraj.compute_center_of_mass(chunk.atom_slice(part))
                for part in (range(split), range(split, chunk.n_atoms)))
        apart = b - a
        if chunk.unitcell_lengths is not None:
            apart -= chunk.unitcell_lengths * np.round(apart / chunk.unitcell_lengths)
        values.append(np.linalg.norm(apart, axis=1))
    values = np.concatenate(values)
    return len(values), 10 * values.mean()


def hbond():
    """Wernet and Nilsson's, since Baker and Hubbard's gives no number per frame."""
    n_bonds, n_frames = 0, 0
    for chunk in chunks(TOP.select("protein")):
        n_bonds += sum(len(bonds) for bonds in mdtraj.wernet_nilsson(chunk, periodic=True))
        n_frames += chunk.n_frames
    return n_frames, n_bonds / n_frames


def secondary():
    n_frames = 0
    for chunk in chunks(TOP.select("protein")):
        n_frames += len(mdtraj.compute_dssp(chunk, simplified=False))
    return n_frames, n_frames


def surface():
    areas = np.concatenate([mdtraj.shrake_rupley(chunk).sum(1) for chunk in chunks(TOP.select("protein"))])
    return len(areas), 100 * areas.mean()


measured(globals()[TASK])
