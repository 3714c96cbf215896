"""What `task.json` asks for: the dataclasses of its content, read once and strictly.

The service writes each field every time, those without a value as null. What it writes and what is
read here are one contract: `tests/contract` holds files that the service wrote, and the tests read
each of them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


class InvalidTask(Exception):
    """A `task.json` that is not what this version of the worker reads.

    Parameters
    ----------
    message
        Which field it is, and what is wrong with it.
    attempt
        The attempt that the file names, for `result.json`.

    """

    def __init__(self, message: str, attempt: int | None = None) -> None:
        super().__init__(message)
        self.attempt = attempt


@dataclass(frozen=True)
class InputFile:
    """A file in the folder ``input``.

    Attributes
    ----------
    file_id
        Identifier of the registered file.
    format
        ``pdb``, ``cif``, ``sdf`` and so on.

    """

    file_id: str
    file: str
    format: str
    name: str


@dataclass(frozen=True)
class LigandFile(InputFile):
    """The file of a ligand, and its pose.

    Attributes
    ----------
    residue_name
        What its residue is called in the system.
    rotation
        Three angles in degrees, a quaternion, or nine elements of a matrix by rows.
    translation
        Three lengths, nm.

    """

    residue_name: str
    rotation: list[float] | None
    translation: list[float] | None


@dataclass(frozen=True)
class ForceFieldFiles:
    """A force field: OpenMM's files, a registered one, or both.

    Attributes
    ----------
    name
        What the request calls it.
    family
        ``amber``, ``charmm``, or ``custom`` for a registered file alone.

    """

    name: str
    family: str
    files: list[str]
    custom: InputFile | None

    @property
    def is_charmm(self) -> bool:
        """Whether it is of the CHARMM family."""
        return self.family == "charmm"


@dataclass(frozen=True)
class WaterModel:
    """A water model; without a file the force field has water of its own.

    Attributes
    ----------
    name
        What the request calls it.
    file
        OpenMM's file of its parameters.
    model
        The model of the same geometry that `Modeller.addSolvent` places.
    sites
        Sites of a molecule.

    """

    name: str
    file: str | None
    model: str | None
    sites: int | None


@dataclass(frozen=True)
class BuildPlan:
    """A system that is to be built.

    Attributes
    ----------
    built
        Files of a system that another program has built; with them nothing else has a part but `max_atoms`.
    chains
        Identifiers of the chains to keep; None for all.
    keep_hydrogens
        Whether the hydrogens of the structure decide on protonation.
    ph
        The pH that decides otherwise.
    positive_ion, negative_ion
        ``Na+`` and ``Cl-``, for example.
    concentration
        Of ions beyond those that neutralise, mol/L.
    box_shape
        ``cube``, ``rectangular``, ``dodecahedron`` or ``octahedron``.
    padding_nm
        Least distance of the molecules from the faces of the box.
    max_atoms
        Most atoms that the service takes.

    """

    built: list[InputFile]
    protein: InputFile | None
    ligands: list[LigandFile]
    membrane: str | None
    chains: list[str] | None
    keep_hydrogens: bool
    ph: float
    force_field: ForceFieldFiles
    water: WaterModel
    positive_ion: str
    negative_ion: str
    concentration: float
    box_shape: Literal["cube", "rectangular", "dodecahedron", "octahedron"]
    padding_nm: float
    max_atoms: int


@dataclass(frozen=True)
class Stage:
    """One stage of a simulation.

    Attributes
    ----------
    name
        ``equilibration_1`` and so on, or ``production``; the name of its files.
    ensemble
        NVT or NPT.
    steps, traj_freq, log_freq
        Steps in all, between frames, between log lines; 0 for no frames, no lines.
    restraint_force
        Force constant, kJ/mol/nm².
    restraint_atoms
        Atoms that are held at their positions at the start of the stage.

    """

    name: str
    ensemble: Literal["NVT", "NPT"]
    steps: int
    traj_freq: int
    log_freq: int
    restraint_force: float
    restraint_atoms: list[int]

    @property
    def is_production(self) -> bool:
        """Whether it is the stage that a job may be extended by."""
        return self.name == "production"


@dataclass(frozen=True)
class SimulatePlan:
    """A simulation that is to be run.

    A commit is that of one plan: a field that is added, renamed or removed leaves the jobs that are
    under way without theirs, unless `Model.fingerprint` leaves it out.

    Attributes
    ----------
    temperature_k, pressure_bar
        Of the thermostat and of the barostat.
    membrane
        Whether pressure acts on the plane of a membrane and on its normal apart.
    friction_per_ps
        Of the thermostat.
    ewald_tolerance
        Error tolerance of the Ewald summation.
    cutoff_nm
        Of the interactions in direct space.
    minimization_steps
        At most; 0 for none.
    engine
        ``openmm`` or ``gromacs`` for that one, ``auto`` for the faster that can run a stage.
    excerpt_atoms
        Atoms of which production has files of their own besides; empty for none.
    hydrogen_mass_da
        Mass of hydrogens outside of water; None leaves all masses as they are.
    stages
        What comes after the minimisation, in order.

    """

    temperature_k: float
    pressure_bar: float
    surface_tension_bar_nm: float
    membrane: bool
    friction_per_ps: float
    timestep_fs: float
    ewald_tolerance: float
    cutoff_nm: float
    minimization_steps: int
    hydrogen_mass_da: float | None
    engine: Literal["auto", "openmm", "gromacs"]
    excerpt_atoms: list[int]
    stages: list[Stage]


@dataclass(frozen=True)
class EnvironmentPlan:
    """How the environment is checked: always in the same way."""

    seconds: int


@dataclass(frozen=True, kw_only=True)
class Task:
    """What any task has.

    Attributes
    ----------
    kind
        ``build``, ``simulate`` or ``environment``.
    id
        What the service calls it.
    attempt
        Number of the attempt, which `result.json` repeats.
    boot
        For the service: which start of the machine the attempt belongs to.
    commits
        For the service: commits before the attempt.
    seed
        Of everything random.
    platform
        OpenMM's platform; None for the best there is.
    gromacs
        The program ``gmx``; None for the one on the search path.
    threads
        Threads of the CPU platform, and of GROMACS.
    user
        For the service: the user as whom it runs.
    cache
        Folder of what is worth keeping for other tasks of the account.
    ligand_seconds
        Longest time for the charges of a ligand.
    checkpoint_seconds
        Time between commits.

    """

    kind: str
    id: str
    attempt: int
    boot: str | None
    commits: int
    seed: int
    platform: str | None
    gromacs: str | None
    threads: int
    device: int | None
    user: int | None
    cache: str
    ligand_seconds: float
    checkpoint_seconds: float


@dataclass(frozen=True, kw_only=True)
class BuildTask(Task):
    """The build of a system."""

    plan: BuildPlan


@dataclass(frozen=True, kw_only=True)
class SimulateTask(Task):
    """A job."""

    plan: SimulatePlan


@dataclass(frozen=True, kw_only=True)
class EnvironmentTask(Task):
    """A check whether tasks can be carried out at all."""

    plan: EnvironmentPlan


KINDS: dict[str, type[BuildTask | SimulateTask | EnvironmentTask]] = {
    "build": BuildTask,
    "simulate": SimulateTask,
    "environment": EnvironmentTask,
}


def read_task(text: str) -> BuildTask | SimulateTask | EnvironmentTask:
    """The content of `task.json`.

    Raises
    ------
    InvalidTask
        Names the first field that is unknown, missing or of another type.

    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidTask(f"task.json is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidTask("task.json is not an object")
    attempt = content.get("attempt")
    try:
        kind = content.get("kind")
        if kind not in KINDS:
            raise InvalidTask(f"task.json: kind: must be one of {', '.join(KINDS)}, got {kind!r}")
        return from_json(KINDS[kind], content, "")
    except InvalidTask as error:
        raise InvalidTask(str(error), attempt if type(attempt) is int else None) from error


def from_json(cls: type[T], content: object, path: str) -> T:
    """A dataclass of an object as it was parsed; `path` is where in `task.json` it stands.

    Values are kept as they are: 300 is a float too, and remains an int.

    Raises
    ------
    InvalidTask
        Names the field.

    """
    if not isinstance(content, dict):
        raise _invalid(path, "an object", content)
    types = get_type_hints(cls)
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    within = f"{path}." if path else ""
    unknown, missing = [name for name in content if name not in known], [name for name in known if name not in content]
    if unknown:
        raise InvalidTask(f"task.json: {within}{unknown[0]}: unknown field")
    if missing:
        raise InvalidTask(f"task.json: {within}{missing[0]}: missing field")
    return cls(**{name: _value(types[name], content[name], within + name) for name in known})


def _value(kind: Any, value: object, path: str) -> Any:
    """A value of a field, which is to be of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return None if value is None else _value(inner, value, path)
    if origin is Literal:
        if value not in arguments:
            raise _invalid(path, f"one of {', '.join(arguments)}", value)
        return value
    if origin is list:
        if not isinstance(value, list):
            raise _invalid(path, "a list", value)
        return [_value(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value)]
    if is_dataclass(kind):
        return from_json(kind, value, path)  # type: ignore[arg-type]
    is_number = type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]
    if not (is_number if kind is float else type(value) is kind):
        names = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
        raise _invalid(path, names[kind], value)
    return value


def _invalid(path: str, expected: str, value: object) -> InvalidTask:
    return InvalidTask(f"task.json: {path or 'plan'}: must be {expected}, got {json.dumps(value)[:80]}")
