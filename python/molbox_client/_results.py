"""What is made of the files of a bundle: trajectories, tables, systems."""

from __future__ import annotations

import filecmp
import json
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._bundle import inner_name
from ._errors import InvalidRequest, MolboxError, UnexpectedAnswer, naming
from ._http import member
from ._optional import needed

if TYPE_CHECKING:
    import pandas

_TRAJECTORIES = (".xtc", ".dcd")
_COMPLETE = ".complete"


class NoResult(MolboxError, LookupError):
    """There is nothing of what was asked for, for example no trajectory."""


def is_unpacked(folder: Path, stamp: str, *, is_cache: bool) -> bool:
    """Whether a folder has all files of a bundle, `job_…-end`.

    In a cache they are as they were unpacked; in a folder of the user's own they may be edited.

    Raises
    ------
    InvalidRequest
        When it has those of another job, which would be mixed with them, or is a file.
    """
    if folder.is_file():
        raise InvalidRequest(f"folder: {folder} is a file")
    found, sizes = _marked(folder)
    if found is not None and found.partition("-")[0] != stamp.partition("-")[0]:
        raise InvalidRequest(f"folder: {folder} has the files of {found.partition('-')[0]}")
    if found != stamp or not sizes:
        return False
    there = {name: folder / name for name in sizes}
    if not all(path.is_file() for path in there.values()):
        return False
    return not is_cache or all(there[name].stat().st_size == sizes[name] for name in sizes)


def _marked(folder: Path) -> tuple[str | None, dict[str, int]]:
    """The stamp of the bundle that was unpacked into a folder, and the sizes of its files."""
    mark = folder / _COMPLETE
    if not mark.is_file():
        return None, {}
    text = mark.read_text(encoding="utf-8")
    try:
        known = json.loads(text)
    except ValueError:
        # An earlier version has written the stamp alone.
        return text, {}
    return known["stamp"], known["sizes"]


def unpack(bundle: Path, folder: Path, stamp: str, *, is_cache: bool) -> None:
    """Unpack a bundle so that the folder has all of it, or is not there.

    Names in the bundle begin with a folder of the job's name, which is left out.

    Raises
    ------
    FileExistsError
        When a file of one of the names is there, with another content, that is of no bundle.
    """
    base = beside(folder)
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as name:
        new = Path(name) / "files"
        try:
            _extract(bundle, new)
        except zipfile.BadZipFile as error:
            raise UnexpectedAnswer(f"is no bundle: {error}") from error
        names = sorted(
            path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()
        )
        sizes = {name: (new / name).stat().st_size for name in names}
        mark = json.dumps({"stamp": stamp, "sizes": sizes})
        if not folder.is_dir():
            (new / _COMPLETE).write_text(mark, encoding="utf-8")
            try:
                new.rename(folder)
                return
            except OSError:
                # Another thread or process was first.
                if not folder.is_dir():
                    raise
            (new / _COMPLETE).unlink()
        _merge(new, folder, names if is_cache else _needed(new, folder, names, stamp))
        keep(folder / _COMPLETE, mark.encode())


def beside(folder: Path) -> Path:
    """Where files are kept on their way into a folder: on its disk, and where one may write."""
    return folder if folder.is_dir() else folder.parent


def _needed(new: Path, folder: Path, names: Sequence[str], stamp: str) -> list[str]:
    """Files that a folder of the user's own gets: none in the place of what was written there."""
    found, sizes = _marked(folder)
    if found == stamp and sizes:
        return [name for name in names if not (folder / name).exists()]
    for name in names:
        there = folder / name
        if not there.exists() or there.stat().st_size == sizes.get(name):
            continue
        if not filecmp.cmp(there, new / name, shallow=False):
            raise FileExistsError(f"{there}: is there, with another content; give another folder")
    return list(names)


def _merge(new: Path, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).replace(folder / name)


def _extract(bundle: Path, folder: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        for item in archive.infolist():
            inner = inner_name(item.filename)
            if inner is None:
                continue
            target = folder / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(target), archive.open(item) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)


def keep(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as new:
        new.write(content)
    Path(new.name).replace(path)


def listed(folder: Path) -> dict[str, Path]:
    """Files of an unpacked bundle by their name in it, `production.dcd`, `system/system.xml`."""
    return {name: folder / name for name in _marked(folder)[1]}


def trajectory_of(files: Mapping[str, Path]) -> tuple[Path, Path]:
    """Topology and trajectory: of the production, else of the last stage that has one."""
    # The excerpt is of production, too, and has other atoms than the system.
    stages = [
        name
        for name in files
        if name.endswith(_TRAJECTORIES) and "/" not in name and not name.startswith("excerpt.")
    ]
    ordered = sorted(stages, key=_place)
    if not ordered:
        raise NoResult("there is no trajectory: no stage has written a frame")
    stem = ordered[-1].rsplit(".", 1)[0]
    return structure_of(files, stem, "system/system"), files[ordered[-1]]


def _place(name: str) -> tuple[bool, int, str]:
    """Where the stage of a file comes: equilibrations by their numbers, production after them."""
    stage = name.rsplit(".", 1)[0]
    number = stage.rpartition("_")[2]
    return stage == "production", int(number) if number.isdecimal() else 0, name


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


def mdtraj_trajectory(files: Mapping[str, Path], job: Mapping[str, Any]) -> Any:
    """Topology and trajectory, by mdtraj, with the times of a job's record."""
    mdtraj = needed("mdtraj", "mdtraj")
    topology, trajectory = trajectory_of(files)
    read = str(topology)
    if topology.suffix == ".cif":
        read = mdtraj.Topology.from_openmm(_read_mmcif(topology).topology)
    loaded = mdtraj.load(str(trajectory), top=read)
    interval = _interval_ps(job.get("parameters") or {}, trajectory.stem)
    if trajectory.suffix == ".dcd" and interval:
        # Of a DCD mdtraj gives the numbers of the frames as their times. The first is of the end of
        # an interval.
        loaded.time = [interval * nth for nth in range(1, loaded.n_frames + 1)]
    return loaded


def _interval_ps(parameters: Mapping[str, Any], stage: str) -> float | None:
    """Time between frames of a stage; none where the record does not have it."""
    settings = _settings_of(parameters, stage)
    frequency, timestep_fs = settings.get("traj_freq"), parameters.get("integration_timestep")
    return frequency * timestep_fs * 1e-3 if frequency and timestep_fs else None


def _settings_of(parameters: Mapping[str, Any], stage: str) -> Mapping[str, Any]:
    """What a stage was to be like: `production`, or `equilibration_1` and so on."""
    equilibration = enumerate(parameters.get("equilibration") or [], 1)
    settings: dict[str, Any] = {f"equilibration_{nth}": one for nth, one in equilibration}
    settings["production"] = parameters.get("production") or {}
    found: Mapping[str, Any] = settings.get(stage, {})
    return found


def energies(files: Mapping[str, Path], stages: Sequence[str]) -> pandas.DataFrame:
    """The logs of all stages, one below the other."""
    pd = needed("pandas", "analysis")
    logs = {name: files[f"{name}.csv"] for name in stages if f"{name}.csv" in files}
    if not logs:
        raise NoResult("there are no energies: no stage has written a log")
    tables = {name: pd.read_csv(path) for name, path in logs.items()}
    table: pandas.DataFrame = pd.concat(tables, names=["stage", "row"])
    return table


def is_for_openmm(name: str) -> bool:
    """Whether a file of a bundle is one that `openmm_objects` may read."""
    return name.startswith("system/system.") or name.endswith(".state.xml")


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
    for table in member(data, "tables", list):
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
    if not job.get("stages"):
        raise NoResult(f"there is nothing to cite: the job is {job.get('status')}, without a stage")
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
    for stage in job.get("stages") or []:
        settings = _settings_of(parameters, stage["name"])
        if stage["name"] == "minimization" or not timestep:
            continue
        done = _stage(settings, stage["steps"] * timestep * 1e-6)
        is_production = stage["name"] == "production"
        words.append(
            f"Production took {done}."
            if is_production
            else f"The system was equilibrated for {done}."
        )
    if job.get("status") != "succeeded":
        words.append(
            f"The job is {job.get('status')}: these are the stages that have ended, and no others."
        )
    references = [f"- {citation}" for citation in job.get("citations") or []]
    return "\n".join([" ".join(words), *([""] if references else []), *references])


def _stage(stage: Mapping[str, Any], time_ns: float) -> str:
    ensemble = {"NPT": "constant pressure", "NVT": "constant volume"}.get(stage.get("type", ""))
    text = f"{time_ns:g} ns" + (f" at {ensemble}" if ensemble else "")
    if mask := stage.get("restraint_mask"):
        text += f", with {stage.get('restraint_force', 0):g} kJ/mol/nm² on {mask}"
    return text
