"""Writes peers.json: what other programs calculate from mini_md and mini_tri.

Python 3.11, MDAnalysis 2.11.0, mdtraj 1.11.1, pymbar 4.0.3, scipy 1.17.1, numpy 2.4.6, from PyPI.
"""

import json
import warnings

import MDAnalysis as mda
import mdtraj
import numpy as np
from MDAnalysis.analysis import align, contacts, pca, rms
from MDAnalysis.analysis.rdf import InterRDF
from MDAnalysis.lib import distances
from pymbar import timeseries
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import circmean, circstd

warnings.filterwarnings("ignore")
CASES = {"mini_md": "mini.pdb", "mini_tri": "mini_tri.pdb"}


def rounded(values):
    return [float(f"{x:.9g}") for x in np.asarray(values, float).ravel()]


def pairwise(universe):
    """RMSD of all pairs of frames by MDAnalysis, clusters of them by scipy."""
    atoms = universe.select_atoms("resindex 0:11 and name CA")
    frames = np.array([atoms.positions.astype(float) for _ in universe.trajectory])
    n = len(frames)
    condensed = np.array(
        [rms.rmsd(frames[i], frames[j], superposition=True) for i in range(n) for j in range(i + 1, n)]
    )
    square = squareform(condensed)
    cuts = {}
    for method in ("average", "complete", "single"):
        tree = linkage(condensed, method)
        # Between two heights, so that rounding decides nothing.
        heights = tree[:, 2]
        for count in (2, 5, 9):
            cutoff = float(f"{(heights[n - count - 1] + heights[n - count]) / 2:.6g}")
            labels = fcluster(tree, cutoff, "distance")
            assert len(set(labels)) == count
            members = [np.flatnonzero(labels == label) for label in set(labels)]
            members.sort(key=lambda frames: (-len(frames), frames[0]))
            medoids = [int(m[square[np.ix_(m, m)].sum(1).argmin()]) for m in members]
            cuts[f"{method}|{count}|{cutoff}"] = {"members": [m.tolist() for m in members], "medoids": medoids}
    return {"mask": ":1-12@CA", "rmsd": rounded(condensed), "clusters": cuts}


def convergence(name):
    """Statistical inefficiency and equilibration by pymbar of the series of other programs."""
    values = json.load(open(f"{name}.json"))["values"]
    found = {}
    for key, value in values.items():
        series = np.array(value.get("expected", []))
        if len(series) < 20 or key.startswith("rmsf"):
            continue
        g = timeseries.statistical_inefficiency(series)
        start, g_after, n_effective = timeseries.detect_equilibration(series, fast=False, nskip=1)
        found[key] = [float(g), int(start), float(g_after), float(n_effective)]
    return found


def dihedrals(trajectory):
    """Angles in degrees by mdtraj, and their circular mean and deviation by scipy."""
    found = {}
    kinds = ["phi", "psi", "omega", "chi1", "chi2", "chi3", "chi4", "chi5"]
    for kind in kinds:
        compute = getattr(mdtraj, f"compute_{kind}")
        # One frame a call, in 64 bits as far as it goes; mdtraj's own are 32.
        atoms, _ = compute(trajectory[0])
        for four in atoms:
            # Named by the residue of its second atom, of omega by that of its first.
            residue = trajectory.topology.atom(four[0 if kind == "omega" else 1]).residue.index
            angles = mdtraj.compute_dihedrals(trajectory, [four])[:, 0].astype(float)
            found[f"{kind}_{residue + 1}"] = {
                "angles": [float(f"{x:.6g}") for x in np.degrees(angles)],
                "mean": float(np.degrees(circmean(angles, np.pi, -np.pi))),
                "deviation": float(np.degrees(circstd(angles, np.pi, -np.pi))),
            }
    return found


def native_contacts(universe):
    """Fractions of native contacts by MDAnalysis, of pairs chosen as we do, nearest images."""
    atoms = universe.select_atoms("resindex 0:11 and not element H")
    box = universe.trajectory[0].dimensions
    apart = distances.distance_array(atoms.positions, atoms.positions, box=box)
    residues = atoms.resindices
    i, j = np.nonzero(np.triu((apart <= 4.5) & (abs(residues[:, None] - residues[None]) >= 4)))
    r0 = apart[i, j]
    soft, hard = [], []
    for ts in universe.trajectory:
        r = distances.calc_bonds(atoms.positions[i], atoms.positions[j], box=ts.dimensions)
        soft.append(contacts.soft_cut_q(r, r0, beta=5.0, lambda_constant=1.8))
        hard.append(contacts.hard_cut_q(r, 4.5))
    return {"mask": ":1-12", "pairs": len(r0), "soft": rounded(soft), "hard": rounded(hard)}


def rdfs(universe):
    """g(r) by MDAnalysis, one frame at a time, so that each has its own volume."""
    found = {}
    for key, a, b in [(":HOH@O", "resname HOH and name O", None), ("@/NA :HOH@O", "element Na", "resname HOH and name O")]:
        first = universe.select_atoms(a)
        second = universe.select_atoms(b or a)
        same = (1, 1) if b is None else None
        sums, counts, frames = 0, 0, 0
        for n in range(0, len(universe.trajectory), 10):
            rdf = InterRDF(first, second, nbins=100, range=(0.0, 10.0), exclusion_block=same).run(n, n + 1)
            sums, counts, frames = sums + rdf.results.rdf, counts + rdf.results.count, frames + 1
        found[key] = {"g": rounded(sums / frames), "count": [int(x) for x in counts]}
    return found


def densities(universe):
    """Mass density along z by MDAnalysis in each frame, the peptide at 0."""
    water = universe.select_atoms("resname HOH")
    peptide = universe.select_atoms("resindex 0:11")
    edges = np.arange(-10.0, 10.01, 0.5)
    mass, number = np.zeros(40), np.zeros(40)
    frames = 0
    for ts in universe.trajectory:
        length = ts.dimensions[2]
        own = peptide.positions[:, 2].astype(float)
        around = own[0]
        # The peptide in one piece, which is shorter than half the cell.
        own -= around + length * np.round((own - around) / length)
        centre = around + (peptide.masses * own).sum() / peptide.masses.sum()
        z = water.positions[:, 2].astype(float) - centre
        z -= length * np.round(z / length)
        volume = ts.volume / length * 0.5
        mass += np.histogram(z, edges, weights=water.masses)[0] / volume
        number += np.histogram(z, edges)[0] / volume
        frames += 1
    return {"number": rounded(number / frames), "mass": rounded(mass / frames * 1.66053906660)}


def components(name, structure):
    """Principal components by MDAnalysis, of frames superposed on their average."""
    universe = mda.Universe(structure, f"{name}.dcd", in_memory=True)
    select = "resindex 0:11 and name CA"
    average = align.AverageStructure(universe, universe, select=select, ref_frame=0).run()
    mean = average.results.universe.select_atoms(select)
    align.AlignTraj(universe, mean.universe, select=select, in_memory=True).run()
    result = pca.PCA(universe, select=select, align=False).run()
    atoms = universe.select_atoms(select)
    projections = result.transform(atoms, n_components=3)
    cosines = [float(pca.cosine_content(projections, k)) for k in range(3)]
    heavy = universe.select_atoms("resindex 0:11 and not element H")
    fluctuations = rms.RMSF(heavy).run().results.rmsf
    return {
        "rmsf_of_others": rounded(fluctuations),
        "variance": rounded(result.results.variance[:5]),
        "total": float(result.results.variance.sum()),
        "projections": rounded(projections),
        "cosine_content": cosines,
    }


def main():
    result = {}
    for name, structure in CASES.items():
        universe = mda.Universe(structure, f"{name}.dcd")
        trajectory = mdtraj.load(f"{name}.dcd", top=structure)
        result[name] = {
            "pairwise": pairwise(universe),
            "convergence": convergence(name),
            "dihedrals": dihedrals(trajectory),
            "native_contacts": native_contacts(universe),
            "rdf": rdfs(universe),
            "components": components(name, structure),
        }
        if name == "mini_md":
            result[name]["density"] = densities(universe)
    with open("peers.json", "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
