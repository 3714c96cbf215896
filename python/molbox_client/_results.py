"""What is made of the files of a bundle: trajectories, tables, systems."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ._errors import InvalidRequest, MolboxError
from ._optional import needed

if TYPE_CHECKING:
    import pandas

_TRAJECTORIES = (".xtc", ".dcd")
_COMPLETE = ".complete"


class NoResult(MolboxError, LookupError):
    """The results do not have what was asked for, for example no trajectory."""


def is_unpacked(folder: Path, stamp: str) -> bool:
    """Whether a folder has all files of a bundle, `job_…-end`.

    Raises
    ------
    InvalidRequest
        When it has those of another job, which would be mixed with them.
    """
    mark = folder / _COMPLETE
    found = mark.read_text() if mark.exists() else None
    if found is not None and found.partition("-")[0] != stamp.partition("-")[0]:
        raise InvalidRequest(f"folder: {folder} has the files of {found.partition('-')[0]}")
    return found == stamp


def unpack(bundle: Path, folder: Path, stamp: str) -> None:
    """Unpack a bundle so that the folder has all of it, or is not there.

    Names in the bundle begin with a folder of the job's name, which is left out.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        new = Path(name) / "files"
        with zipfile.ZipFile(bundle) as archive:
            for item in archive.infolist():
                parts = PurePosixPath(item.filename).parts[1:]
                if item.is_dir() or not parts or ".." in parts:
                    continue
                target = new.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(item) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
        (new / _COMPLETE).write_text(stamp)
        if folder.is_dir():
            # The user's own folder, perhaps with other files.
            shutil.copytree(new, folder, dirs_exist_ok=True)
        else:
            new.rename(folder)


def listed(folder: Path) -> dict[str, Path]:
    """Files of an unpacked bundle by their name in it, `production.dcd`, `system/system.xml`."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in found}
    names.pop(_COMPLETE, None)
    return names


def trajectory_of(files: Mapping[str, Path]) -> tuple[Path, Path]:
    """Topology and trajectory: of the production, else of the last stage that has one."""
    stages = [name for name in files if name.endswith(_TRAJECTORIES) and "/" not in name]
    ordered = sorted(stages, key=lambda name: (name.startswith("production."), name))
    if not ordered:
        raise NoResult("there is no trajectory: no stage has written a frame")
    stem = ordered[-1].rsplit(".", 1)[0]
    return structure_of(files, stem, "system/system"), files[ordered[-1]]


def structure_of(files: Mapping[str, Path], *stems: str) -> Path:
    """The first of these structures that is there: PDB, or mmCIF of more than 99,999 atoms."""
    names = [f"{stem}.{ending}" for stem in stems for ending in ("pdb", "cif")]
    found = next((files[name] for name in names if name in files), None)
    if found is None:
        raise NoResult(f"the bundle lacks {names[-2]}")
    return found


def _read_mmcif(path: Path) -> Any:
    # Of what a client has, OpenMM alone reads it.
    return needed("openmm.app", "openmm").PDBxFile(str(path))


def universe(files: Mapping[str, Path], options: Mapping[str, Any]) -> Any:
    """Topology and trajectory, by MDAnalysis."""
    mda = needed("MDAnalysis", "analysis")
    topology, trajectory = trajectory_of(files)
    with warnings.catch_warnings():
        # It warns of every DCD, of what a PDB leaves out, and of elements of ions.
        warnings.simplefilter("ignore")
        if topology.suffix != ".cif":
            return mda.Universe(str(topology), str(trajectory), **options)
        structure = _read_mmcif(topology)
        made = mda.Universe(structure, str(trajectory), **options)
    # MDAnalysis counts residues and chains of OpenMM from one; masks and papers have the file's.
    residues = list(structure.topology.residues())
    made.residues.resids = made.residues.resnums = [int(residue.id) for residue in residues]
    made.add_TopologyAttr("icodes", [residue.insertionCode.strip() for residue in residues])
    made.segments.segids = [chain.id for chain in structure.topology.chains()]
    return made


def mdtraj_trajectory(files: Mapping[str, Path]) -> Any:
    """Topology and trajectory, by mdtraj."""
    mdtraj = needed("mdtraj", "mdtraj")
    topology, trajectory = trajectory_of(files)
    read = str(topology)
    if topology.suffix == ".cif":
        read = mdtraj.Topology.from_openmm(_read_mmcif(topology).topology)
    return mdtraj.load(str(trajectory), top=read)


def energies(files: Mapping[str, Path], stages: Sequence[str]) -> pandas.DataFrame:
    """The logs of all stages, one below the other."""
    pd = needed("pandas", "analysis")
    logs = {name: files[f"{name}.csv"] for name in stages if f"{name}.csv" in files}
    if not logs:
        raise NoResult("there are no energies: no stage has written a log")
    tables = {name: pd.read_csv(path) for name, path in logs.items()}
    table: pandas.DataFrame = pd.concat(tables, names=["stage", "row"])
    return table


def openmm_objects(files: Mapping[str, Path], stages: Sequence[str]) -> tuple[Any, Any, Any]:
    """System, topology and last state, by OpenMM."""
    openmm = needed("openmm", "openmm")
    app = needed("openmm.app", "openmm")
    structure = structure_of(files, "system/system")
    reader = app.PDBxFile if structure.suffix == ".cif" else app.PDBFile
    states = [f"{name}.state.xml" for name in stages]
    last = next((files[name] for name in reversed(states) if name in files), None)
    read = openmm.XmlSerializer.deserialize
    system = read(files["system/system.xml"].read_text())
    state = read((last or files["system/state.xml"]).read_text())
    return system, reader(str(structure)).topology, state


def widget(files: Mapping[str, Path]) -> Any:
    """A view of the trajectory in a notebook."""
    nglview = needed("nglview", "notebook")
    return nglview.show_mdanalysis(universe(files, {}))


def tables(data: Mapping[str, Any]) -> dict[str, pandas.DataFrame]:
    """The tables of an analysis by name."""
    pd = needed("pandas", "analysis")
    frames = {}
    for table in data["tables"]:
        columns = table["columns"]
        frame = pd.DataFrame({column["name"]: column["values"] for column in columns})
        frame.attrs = {
            "title": table["title"],
            "definition": table["definition"],
            "units": {one["name"]: one["unit"] for one in columns if one.get("unit")},
        }
        frames[table["name"]] = frame
    return frames


def methods(job: Mapping[str, Any]) -> str:
    """A paragraph for a paper, and what to cite, from the record of a job."""
    parameters = job.get("parameters") or {}
    engine = {"openmm": "OpenMM", "gromacs": "GROMACS"}.get(
        str(job.get("engine")), job.get("engine")
    )
    words = [f"Simulations were run with molbox{f' and {engine}' if engine else ''}."]
    if (temperature := parameters.get("temperature")) is not None:
        words.append(f"The temperature was {temperature:g} K.")
    if (timestep := parameters.get("integration_timestep")) is not None:
        words.append(f"The time step was {timestep:g} fs.")
    if (cutoff := parameters.get("non_bonded_cutoff")) is not None:
        words.append(f"Non-bonded interactions were cut off at {cutoff:g} nm.")
    for step in parameters.get("equilibration") or []:
        words.append(f"The system was equilibrated for {_stage(step)}.")
    if production := parameters.get("production"):
        words.append(f"Production took {_stage(production)}.")
    references = [f"- {citation}" for citation in job.get("citations") or []]
    return "\n".join([" ".join(words), *([""] if references else []), *references])


def _stage(stage: Mapping[str, Any]) -> str:
    ensemble = {"NPT": "constant pressure", "NVT": "constant volume"}.get(stage.get("type", ""))
    text = f"{stage.get('time', 0):g} ns" + (f" at {ensemble}" if ensemble else "")
    if mask := stage.get("restraint_mask"):
        text += f", with {stage.get('restraint_force', 0):g} kJ/mol·nm² on {mask}"
    return text
