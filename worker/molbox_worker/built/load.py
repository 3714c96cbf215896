"""Built systems read by OpenMM's loaders of other programs' files.

Cutoff and Ewald tolerance are a job's, and set there; bonds of hydrogens are constrained and water is rigid, as
in systems of our own, but for a serialized `System`, which is taken as it is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit

from molbox_worker.built import serialized
from molbox_worker.built.files import LOC, BuiltFile
from molbox_worker.built.includes import Expanded
from molbox_worker.directory import TaskDirectory, without_folders
from molbox_worker.result import TaskError
from molbox_worker.solvate import CUTOFF_NM

Coordinates = tuple[NDArray[np.float64], Any, app.Topology | None]
SETTINGS: dict[str, Any] = {
    "nonbondedMethod": app.PME,
    "nonbondedCutoff": CUTOFF_NM * unit.nanometer,
    "constraints": app.HBonds,
    "rigidWater": True,
}

# No box of a structure file is so narrow.
PLACEHOLDER_NM = 0.2


@dataclass(frozen=True)
class Loaded:
    """A built system as its files have it.

    Attributes
    ----------
    source
        The program and the file of the topology.
    topology
        Its molecules.
    system
        How they interact.
    positions : array, shape (n, 3)
        nm.
    keeps_chains
        Whether the chains are those of its author.

    """

    source: str
    topology: app.Topology
    system: openmm.System
    positions: NDArray[np.float64]
    keeps_chains: bool


def load(task: TaskDirectory, files: list[BuiltFile], max_atoms: int) -> Loaded:
    """Read the one system that the files make."""
    topologies = [file for file in files if file.kind in LOADERS]
    if len(topologies) != 1:
        found = f"there are {len(topologies)}: {_listed(topologies)}" if topologies else "there is none"
        raise TaskError(
            "built_incomplete",
            f"a built system has one topology, a prmtop, top, psf or xml file; {found}",
            remedy="give the files of one system, as a list or in a zip archive",
            loc=LOC,
        )
    (topology,) = topologies
    loader, kinds = LOADERS[topology.kind]
    places = _place_files(topology, files, kinds)
    coordinates = _read(places)
    n_atoms = len(coordinates[0])
    if n_atoms > max_atoms:
        message = f"{places.name} has {n_atoms} atoms, the service takes {max_atoms}"
        raise TaskError("too_large", message, remedy="give a smaller system", loc=LOC)
    box = coordinates[1] or _box_of_others(files, places)
    loaded = loader(task, topology, files, (coordinates[0], box, coordinates[2]))
    if loaded.system.getNumParticles() != n_atoms or loaded.topology.getNumAtoms() != n_atoms:
        raise _other_atoms(topology, max(loaded.system.getNumParticles(), loaded.topology.getNumAtoms()), n_atoms)
    is_used = {topology.name, places.name, *_extra_names(topology, files)}
    if others := [file for file in files if file.name not in is_used and file.kind != "itp"]:
        task.warn("built_unused", f"not read: {_listed(others)}; {topology.name} and {places.name} make the system")
    return loaded


def _extra_names(topology: BuiltFile, files: list[BuiltFile]) -> set[str]:
    kinds = {"psf": {"parameters", "xsc", "pdb"}}.get(topology.kind, set())
    return {file.name for file in files if file.kind in kinds}


def _listed(files: list[BuiltFile]) -> str:
    return ", ".join(sorted(file.name for file in files))


def _place_files(topology: BuiltFile, files: list[BuiltFile], kinds: tuple[str, ...]) -> BuiltFile:
    """The file of the coordinates: of the first kind of which there is one."""
    for kind in kinds:
        found = [file for file in files if file.kind == kind]
        if len(found) == 1:
            return found[0]
        if found:
            raise TaskError(
                "built_incomplete",
                f"{_listed(found)}: only one of them can have the coordinates of {topology.name}",
                remedy="leave the others out",
                loc=LOC,
            )
    raise TaskError(
        "built_incomplete",
        f"there are no coordinates for {topology.name}",
        remedy=f"give a file of them too: {' or '.join(kinds)}",
        loc=LOC,
    )


def _other_atoms(topology: BuiltFile, n_atoms: int, n_places: int) -> TaskError:
    return TaskError(
        "atoms_differ",
        f"{topology.name} has {n_atoms} atoms, and there are coordinates of {n_places}",
        remedy="give the coordinates that belong to the topology, with all of its water and ions",
        loc=LOC,
    )


@contextmanager
def _explained(file: BuiltFile) -> Iterator[None]:
    """Make what a loader raises an error about its file; it raises whatever its reading runs into."""
    try:
        yield
    except (TaskError, MemoryError):
        raise
    except Exception as error:
        what = without_folders(" ".join(str(error).split()))[:300] or type(error).__name__
        raise TaskError(
            "built_unreadable",
            f"{file.name} cannot be read: {type(error).__name__}: {what}",
            remedy="check that the file is whole, and that the program that it is of reads it",
            loc=LOC,
        ) from error


def _read(file: BuiltFile) -> Coordinates:
    with _explained(file):
        return READERS[file.kind](file.path)


def _nm(positions: Any) -> NDArray[np.float64]:
    places = np.array(positions.value_in_unit(unit.nanometer), dtype=np.float64)
    return places.reshape(-1, 3)


def _inpcrd(path: Path) -> Coordinates:
    read = app.AmberInpcrdFile(str(path))
    return _nm(read.positions), read.boxVectors, None


def _gro(path: Path) -> Coordinates:
    read = app.GromacsGroFile(str(path))
    box = read.getPeriodicBoxVectors()
    has_box = all(box[i][i]._value > 0 for i in range(3))
    return _nm(read.getPositions()), box if has_box else None, None


def _crd(path: Path) -> Coordinates:
    return _nm(app.CharmmCrdFile(str(path)).positions), None, None


def _pdb(path: Path) -> Coordinates:
    read = app.PDBFile(str(path))
    return _nm(read.positions), _box(read.topology), read.topology


def _cif(path: Path) -> Coordinates:
    read = app.PDBxFile(str(path))
    return _nm(read.positions), _box(read.topology), read.topology


def _box(topology: app.Topology) -> Any:
    """The box of a structure file, unless it is a placeholder: programs write one of 1 Å where there is none."""
    box = topology.getPeriodicBoxVectors()
    return box if box and all(box[i][i]._value > PLACEHOLDER_NM for i in range(3)) else None


READERS: dict[str, Callable[[Path], Coordinates]] = {
    "inpcrd": _inpcrd,
    "gro": _gro,
    "crd": _crd,
    "pdb": _pdb,
    "cif": _cif,
}


def _box_of_others(files: list[BuiltFile], places: BuiltFile) -> Any:
    """The box of another file, where that of the coordinates has none: CHARMM's has none ever."""
    for file in files:
        if file.kind == "xsc":
            return _box_of_xsc(file)
        if file.kind in {"pdb", "cif"} and file is not places and (box := _read(file)[1]):
            return box
    return None


def _box_of_xsc(file: BuiltFile) -> Any:
    """The vectors of NAMD's box: the last line, nine numbers in Å after the step."""
    with _explained(file):
        lines = [line for line in file.path.read_text().splitlines() if line.strip() and not line.startswith("#")]
        numbers = [float(word) / 10 for word in lines[-1].split()[1:10]]
        vectors = np.array(numbers).reshape(3, 3)
        return app.internal.unitcell.reducePeriodicBoxVectors([openmm.Vec3(*row) for row in vectors] * unit.nanometer)


def _needs_box(file: BuiltFile, box: Any, remedy: str) -> None:
    if not box:
        raise TaskError("box_missing", f"no file has the periodic box of {file.name}", remedy=remedy, loc=LOC)


def _of_amber(_task: TaskDirectory, file: BuiltFile, _files: list[BuiltFile], places: Coordinates) -> Loaded:
    with _explained(file):
        prmtop = app.AmberPrmtopFile(str(file.path), periodicBoxVectors=places[1])
    _needs_box(
        file, prmtop.topology.getPeriodicBoxVectors(), "solvate the system in a box, as tleap's `solvatebox` does"
    )
    with _explained(file):
        system = prmtop.createSystem(**SETTINGS)
    return Loaded(f"Amber, {file.name}", prmtop.topology, system, places[0], keeps_chains=False)


def _of_gromacs(task: TaskDirectory, file: BuiltFile, files: list[BuiltFile], places: Coordinates) -> Loaded:
    _needs_box(file, places[1], "give the gro file that `gmx editconf` or `gmx solvate` wrote, with a box")
    expanded = Expanded(file, files)
    if expanded.n_atoms != len(places[0]):
        raise _other_atoms(file, expanded.n_atoms, len(places[0]))
    path = task.work / "built" / "expanded.top"
    path.parent.mkdir(parents=True, exist_ok=True)
    expanded.write(path)
    with _explained(file):
        # Without a folder of its own OpenMM would look for GROMACS's, and there is nothing left to include.
        top = app.GromacsTopFile(str(path), periodicBoxVectors=places[1], includeDir=str(path.parent))
        system = top.createSystem(**SETTINGS)
    _number(top)
    return Loaded(f"GROMACS, {file.name}", top.topology, system, places[0], keeps_chains=False)


def _number(top: app.GromacsTopFile) -> None:
    """Give residues their numbers in the file, with insertion codes; OpenMM counts them."""
    numbers = (
        number
        for name, count in top._molecules
        for _ in range(count)
        for number, _ in itertools.groupby(fields[2] for fields in top._moleculeTypes[name].atoms)
    )
    for residue, number in zip(top.topology.residues(), numbers, strict=True):
        if match := re.fullmatch(r"(-?\d+)([A-Za-z]?)", number):
            residue.id, residue.insertionCode = match[1], match[2]


def _of_charmm(_task: TaskDirectory, file: BuiltFile, files: list[BuiltFile], places: Coordinates) -> Loaded:
    _needs_box(
        file, places[1], "give a pdb file with a CRYST1 record besides, or NAMD's xsc file: a crd file has no box"
    )
    parameters = [each for each in files if each.kind == "parameters"]
    if not parameters:
        remedy = "give them too: rtf, prm and str files, such as those of the folder toppar"
        raise TaskError("built_incomplete", f"there are no parameters for {file.name}", remedy=remedy, loc=LOC)
    with _explained(file):
        psf = app.CharmmPsfFile(str(file.path), periodicBoxVectors=places[1])
    if psf.topology.getNumAtoms() != len(places[0]):
        raise _other_atoms(file, psf.topology.getNumAtoms(), len(places[0]))
    read = app.CharmmParameterSet()
    for each in sorted(parameters, key=_order_of_parameters):
        with _explained(each):
            _read_parameters(read, each)
    with _explained(file):
        system = psf.createSystem(read, **SETTINGS, flexibleConstraints=False)
    # This loader alone leaves the correction out.
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setUseDispersionCorrection(True)
        elif isinstance(force, openmm.CustomNonbondedForce):
            force.setUseLongRangeCorrection(True)
    # The topology has elements by the masses of the PSF, which may be repartitioned; those of types are not.
    for atom, of_file in zip(psf.topology.atoms(), psf.atom_list, strict=True):
        number = of_file.type.atomic_number
        atom.element = app.Element.getByAtomicNumber(number) if number else None
    return Loaded(f"CHARMM, {file.name}", psf.topology, system, places[0], keeps_chains=True)


def _order_of_parameters(file: BuiltFile) -> tuple[int, str]:
    """Masses first, streams last, which may refer to what parameter files have."""
    name = Path(file.name).name.lower()
    # CHARMM's streams are called toppar_*.str.
    rank = 2 if name.endswith(".str") else 0 if name.endswith(".rtf") or name.startswith("top") else 1
    return rank, name


def _read_parameters(into: app.CharmmParameterSet, file: BuiltFile) -> None:
    path, (rank, _) = str(file.path), _order_of_parameters(file)
    if rank == 0:
        into.readTopologyFile(path)
    elif rank == 1:
        into.readParameterFile(path)
    else:
        into.readStreamFile(path)


def _of_openmm(_task: TaskDirectory, file: BuiltFile, _files: list[BuiltFile], places: Coordinates) -> Loaded:
    topology = places[2]
    if topology is None:
        remedy = "give a pdb or cif file: it has the names of the atoms, which the system has not"
        raise TaskError("built_incomplete", f"there is no structure for {file.name}", remedy=remedy, loc=LOC)
    with _explained(file):
        system = openmm.XmlSerializer.deserialize(serialized.checked(file))
    if places[1]:
        # That of the coordinates: a system that was equilibrated has changed its own.
        system.setDefaultPeriodicBoxVectors(*places[1])
    return Loaded(f"OpenMM, {file.name}", topology, system, places[0], keeps_chains=True)


Loader = Callable[[TaskDirectory, BuiltFile, list[BuiltFile], Coordinates], Loaded]
# By the kind of the topology: who reads it, and the kinds of its coordinates, the best first.
LOADERS: dict[str, tuple[Loader, tuple[str, ...]]] = {
    "prmtop": (_of_amber, ("inpcrd", "pdb", "cif")),
    "top": (_of_gromacs, ("gro", "pdb")),
    "psf": (_of_charmm, ("crd", "pdb", "cif")),
    "xml": (_of_openmm, ("pdb", "cif")),
}
