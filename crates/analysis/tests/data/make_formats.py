"""Make the files of `formats/`, in the formats of other programs, and what these read in them: `make_formats.py`.

The peptide of `mini_tri.pdb` with eleven waters, and the first frames of `mini_tri.dcd`. Needs OpenMM, ParmEd, MDAnalysis,
mdtraj and netCDF4.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import MDAnalysis as mda
import mdtraj
import netCDF4
import numpy as np
import parmed
from openmm import app
from parmed.tools import addPDB

warnings.filterwarnings("ignore")
HERE = Path(__file__).parent
OUT = HERE / "formats"
N_ATOMS = 218 + 33
N_FRAMES = 4
TIMES_PS = [1.5, 3.0, 4.5, 6.0]


def reduced() -> tuple[app.Topology, object]:
    pdb = app.PDBFile(str(HERE / "mini_tri.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([atom for atom in modeller.topology.atoms() if atom.index >= N_ATOMS])
    return modeller.topology, modeller.positions


def topologies(topology: app.Topology, positions: object) -> None:
    field = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    # Rigid water has its constraint among the bonds of Amber's and CHARMM's files.
    system = field.createSystem(topology, constraints=None, rigidWater=False)
    parm = parmed.openmm.load_topology(topology, system, positions)
    parm.box = None
    parm.save(str(OUT / "pep.psf"), overwrite=True)
    amber = parmed.amber.AmberParm.from_structure(parm)
    amber.save(str(OUT / "pep.prmtop"), overwrite=True)
    name_types(OUT / "pep.prmtop", field, topology)
    with_chains = parmed.amber.AmberParm(str(OUT / "pep.prmtop"))
    app.PDBFile.writeFile(topology, positions, str(OUT / "pep.pdb"), keepIds=True)
    addPDB(with_chains, str(OUT / "pep.pdb")).execute()
    with_chains.save(str(OUT / "pep_chains.prmtop"), overwrite=True)
    sections = (OUT / "pep_chains.prmtop").read_text().split("%FLAG ")
    (OUT / "chains.sections").write_text("".join("%FLAG " + section for section in sections if section.startswith("RESIDUE_") and section.split()[0] not in ("RESIDUE_LABEL", "RESIDUE_POINTER")))


def name_types(prmtop: Path, field: app.ForceField, topology: app.Topology) -> None:
    """Amber's types in place of those that ParmEd makes up: `CX` of `protein-CX`."""
    types = []
    for residue, template in zip(topology.residues(), field.getMatchingTemplates(topology)):
        of_name = {atom.name: atom.type for atom in template.atoms}
        for atom in residue.atoms():
            kind = of_name.get(atom.name) or of_name["H1"]
            types.append(kind.split("-")[-1])
    before, section = prmtop.read_text().split("%FLAG AMBER_ATOM_TYPE")
    rows = ["".join(f"{kind:4}" for kind in types[n : n + 20]) for n in range(0, len(types), 20)]
    after = section[section.index("%FLAG") :]
    prmtop.write_text(before + "%FLAG AMBER_ATOM_TYPE\n%FORMAT(20a4)\n" + "\n".join(rows) + "\n" + after)


def netcdf(name: str, kind: str, xyz, cells, is_double=False, frames=None, velocities=False) -> None:
    """By Amber's convention; `frames` where their number is fixed."""
    with netCDF4.Dataset(OUT / name, "w", format=kind) as file:
        file.Conventions, file.ConventionVersion = "AMBER", "1.0"
        file.program, file.programVersion = "make_formats.py", "1"
        file.createDimension("frame", frames)
        file.createDimension("spatial", 3)
        file.createDimension("atom", xyz.shape[1])
        file.createDimension("cell_spatial", 3)
        file.createDimension("cell_angular", 3)
        file.createDimension("label", 5)
        file.createVariable("spatial", "c", ("spatial",))[:] = list("xyz")
        file.createVariable("cell_angular", "c", ("cell_angular", "label"))[:] = [list("alpha"), list("beta "), list("gamma")]
        kind_of = "f8" if is_double else "f4"
        time = file.createVariable("time", kind_of, ("frame",))
        time.units = "picosecond"
        coordinates = file.createVariable("coordinates", kind_of, ("frame", "atom", "spatial"))
        coordinates.units = "angstrom"
        lengths = file.createVariable("cell_lengths", "f8", ("frame", "cell_spatial"))
        lengths.units = "angstrom"
        angles = file.createVariable("cell_angles", "f8", ("frame", "cell_angular"))
        angles.units = "degree"
        if velocities:
            velocities = file.createVariable("velocities", "f4", ("frame", "atom", "spatial"))
            velocities.scale_factor, velocities.units = 20.455, "angstrom/picosecond"
            velocities[:] = 0.01 * xyz
        time[:] = TIMES_PS
        coordinates[:] = xyz
        lengths[:], angles[:] = cells[:, :3], cells[:, 3:]


def trajectories(universe: mda.Universe) -> None:
    atoms = universe.atoms[:N_ATOMS]
    xyz, cells = [], []
    with mda.Writer(str(OUT / "pep.trr"), n_atoms=N_ATOMS) as trr:
        for ts, time in zip(universe.trajectory[:N_FRAMES], TIMES_PS):
            ts.time = time
            xyz.append(atoms.positions.copy())
            cells.append(ts.dimensions.copy())
            trr.write(atoms)
    xyz, cells = np.array(xyz), np.array(cells, dtype=float)
    netcdf("cdf1.nc", "NETCDF3_CLASSIC", xyz, cells)
    netcdf("cdf2.nc", "NETCDF3_64BIT_OFFSET", xyz, cells, velocities=True)
    netcdf("cdf5.nc", "NETCDF3_64BIT_DATA", xyz, cells, is_double=True)
    netcdf("fixed.nc", "NETCDF3_CLASSIC", xyz, cells, frames=N_FRAMES)
    netcdf("hdf5.nc", "NETCDF4", xyz[:1, :2], cells[:1])
    cell = [mdtraj.utils.lengths_and_angles_to_box_vectors(*(cells[:, :3].T / 10), *cells[:, 3:].T)]
    vectors = np.array(cell[0]).transpose(1, 0, 2).astype(np.float32)
    with mdtraj.formats.NetCDFTrajectoryFile(str(OUT / "mdtraj.nc"), "w") as file:
        file.write(xyz, time=np.array(TIMES_PS), cell_lengths=cells[:, :3], cell_angles=cells[:, 3:])
    with mdtraj.formats.TRRTrajectoryFile(str(OUT / "mdtraj.trr"), "w") as file:
        file.write(xyz / 10, time=np.array(TIMES_PS, np.float32), step=np.arange(N_FRAMES), box=vectors)
    universe.trajectory[0]
    atoms.universe.dimensions = cells[0]
    atoms.write(str(OUT / "pep.gro"))


def numbers() -> dict:
    """What MDAnalysis and mdtraj read."""
    found = {"topologies": {}, "trajectories": {}}
    for name in ["pep.prmtop", "pep_chains.prmtop", "pep.psf", "pep.gro"]:
        universe = mda.Universe(str(OUT / name), to_guess=())
        atoms = universe.atoms
        entry = {"names": list(atoms.names), "residues": list(universe.residues.resnames), "resids": [int(n) for n in universe.residues.resids]}
        if hasattr(atoms, "charges"):
            entry |= {"types": list(atoms.types), "charges": atoms.charges.tolist(), "masses": atoms.masses.tolist()}
            entry["bonds"] = sorted(sorted(int(n) for n in bond) for bond in universe.bonds.to_indices())
        if name.endswith("gro"):
            entry["positions"] = atoms.positions[[0, 100, -1]].tolist()
            entry["dimensions"] = universe.dimensions.tolist()
        if hasattr(atoms, "chainIDs"):
            entry["chains"] = list(atoms.chainIDs)
        found["topologies"][name] = entry
    for name in ["pep.trr", "mdtraj.trr", "cdf1.nc", "cdf2.nc", "mdtraj.nc", "cdf5.nc", "fixed.nc"]:
        entry = {}
        if name in ("pep.trr", "mdtraj.trr", "cdf2.nc", "mdtraj.nc"):
            trajectory = mda.Universe(str(OUT / "pep.gro"), str(OUT / name), format="NCDF" if name.endswith("nc") else None).trajectory
            entry["mdanalysis"] = [
                {"time": ts.time, "dimensions": ts.dimensions.tolist(), "ends": ts.positions[[0, 100, -1]].tolist(), "mean": ts.positions.astype(float).mean(0).tolist()}
                for ts in trajectory
            ]
        trajectory = mdtraj.load(str(OUT / name), top=str(OUT / "pep.gro"))
        entry["mdtraj"] = [
            {
                "time": float(frame.time[0]),
                "dimensions": [*(10.0 * frame.unitcell_lengths[0]).tolist(), *frame.unitcell_angles[0].tolist()],
                "ends": (10.0 * frame.xyz[0, [0, 100, -1]]).tolist(),
                "mean": (10.0 * frame.xyz[0].astype(float).mean(0)).tolist(),
            }
            for frame in trajectory
        ]
        found["trajectories"][name] = entry
    return found


OUT.mkdir(exist_ok=True)
topologies(*reduced())
trajectories(mda.Universe(str(HERE / "mini_tri.pdb"), str(HERE / "mini_tri.dcd")))
(OUT / "expected.json").write_text(json.dumps(numbers(), separators=(",", ":"), default=float) + "\n")
for name in [*OUT.glob(".*"), OUT / "pep.pdb", OUT / "pep_chains.prmtop"]:
    Path(name).unlink()
