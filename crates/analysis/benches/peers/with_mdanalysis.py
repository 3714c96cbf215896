"""MDAnalysis."""

import warnings

import MDAnalysis
import numpy as np
from common import IS_BIG, TASK, TOPOLOGY, TRAJECTORY, measured
from MDAnalysis.analysis import align, rms
from MDAnalysis.analysis.hydrogenbonds import HydrogenBondAnalysis
from MDAnalysis.lib.distances import calc_bonds

warnings.filterwarnings("ignore")
UNIVERSE = MDAnalysis.Universe(TOPOLOGY, TRAJECTORY)
FRAMES = UNIVERSE.trajectory
ALPHA = "protein and name CA"


def read():
    for _ in FRAMES:
        pass
    return len(FRAMES), 0.0


def rmsd():
    values = rms.RMSD(UNIVERSE, UNIVERSE, select=ALPHA, ref_frame=0).run().results.rmsd[:, 2]
    return len(values), values.mean()


def rmsf():
    average = align.AverageStructure(UNIVERSE, UNIVERSE, select=ALPHA, ref_frame=0).run().results.universe
    align.AlignTraj(UNIVERSE, average, select=ALPHA, in_memory=True).run()
    return len(FRAMES), rms.RMSF(UNIVERSE.select_atoms(ALPHA)).run().results.rmsf.mean()


def distance():
    if IS_BIG:
        a, b = (UNIVERSE.select_atoms("protein and chainID " + chain) for chain in "AB")
    else:
        a, b = UNIVERSE.residues[0:6].atoms, UNIVERSE.residues[20:26].atoms
    values = [calc_bonds(a.center_of_mass(), b.center_of_mass(), box=frame.dimensions) for frame in FRAMES]
    return len(values), np.mean(values)


def hbond():
    heavy = "protein and element N O F"
    analysis = HydrogenBondAnalysis(
        UNIVERSE, donors_sel=heavy, hydrogens_sel="protein and element H", acceptors_sel=heavy,
        d_a_cutoff=3.0, d_h_a_angle_cutoff=135.0, update_selections=False)
    return len(FRAMES), len(analysis.run().results.hbonds) / len(FRAMES)


measured(globals()[TASK])
