"""What the worker reports: the dataclasses of `result.json` and `progress.json`, and the errors of tasks.

The service reads both. `tests/contract` holds a `result.json` for each way to end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import islice
from typing import Any

# A message that is about more of them names the first.
MOST_RESIDUES = 100


@dataclass(frozen=True)
class ResidueName:
    """How the author of a structure calls a residue.

    Attributes
    ----------
    chain_id, residue_id, residue_name
        The number with its insertion code.
    index
        Number by which masks count it, in a system that is built.

    """

    chain_id: str
    residue_id: str
    residue_name: str
    index: int | None = None

    def __str__(self) -> str:
        return f"{self.residue_name} {self.residue_id} of chain {self.chain_id}"


@dataclass(frozen=True)
class TaskWarning:
    """Something that the user should know but that stops nothing; `docs/errors.md` lists the codes."""

    code: str
    message: str
    residues: list[ResidueName] | None = None

    @classmethod
    def read(cls, content: dict[str, Any]) -> TaskWarning:
        """What `as_json` made of one."""
        residues = content.get("residues")
        return cls(**{**content, "residues": residues and [ResidueName(**each) for each in residues]})


@dataclass(frozen=True)
class Failure:
    """Why a task failed.

    Attributes
    ----------
    code
        Machine-readable kind, for example ``no_template``; `docs/errors.md` lists them.
    message
        What is wrong and where.
    remedy
        What helps.
    loc
        Path of the request field that caused it.
    stage, step
        Where in a simulation it happened.
    residues
        Where in the structure it happened.

    """

    code: str
    message: str
    remedy: str | None = None
    loc: list[str | int] | None = None
    stage: str | None = None
    step: int | None = None
    residues: list[ResidueName] | None = None


class TaskError(Exception):
    """A task that cannot be carried out; the parameters are those of `Failure`."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        remedy: str | None = None,
        loc: list[str | int] | None = None,
        stage: str | None = None,
        step: int | None = None,
        residues: Iterable[ResidueName] = (),
    ) -> None:
        super().__init__(message)
        self.failure = Failure(code, message, remedy, loc, stage, step, first_of(residues))


def first_of(residues: Iterable[ResidueName]) -> list[ResidueName] | None:
    """Each once, as many as are named; None when there are none."""
    return list(islice(dict.fromkeys(residues), MOST_RESIDUES)) or None


class Stopped(Exception):
    """The service asked the worker to stop; the task can be resumed from what is committed."""


class Superseded(SystemExit):
    """The directory is a later attempt's: a node that was given up for lost was not.

    The worker ends at once, with the status that `run-task` has for the same; nothing is recorded.
    """

    def __init__(self) -> None:
        super().__init__(75)


@dataclass(frozen=True)
class Energies:
    """The last line of a stage's log.

    Attributes
    ----------
    time
        Since the start of the stage, ns.
    potential_energy, kinetic_energy
        kJ/mol.
    temperature
        K.
    volume
        nm³.
    density
        g/mL.

    """

    time: float
    potential_energy: float
    kinetic_energy: float
    temperature: float
    volume: float
    density: float


@dataclass(frozen=True)
class StageResult:
    """A stage that has ended; the minimisation is the first.

    Attributes
    ----------
    name
        The name of its files.
    steps, frames
        Steps taken, frames written.
    seconds
        Wall time of all attempts.
    energy_before, energy_after
        Potential energy around a minimisation, kJ/mol.
    largest_force
        Largest net force that a minimisation left, kJ/mol/nm.
    ns_per_day
        Speed of a stage with steps.

    """

    name: str
    steps: int
    frames: int
    seconds: float
    energy_before: float | None = None
    energy_after: float | None = None
    largest_force: float | None = None
    ns_per_day: float | None = None


@dataclass(frozen=True)
class Progress:
    """The content of `progress.json`: how far a task has come, for people.

    Attributes
    ----------
    stage
        Step of a build or stage of a simulation.
    stage_index, stage_count
        Which of how many it is, from 0.
    fraction
        Share of the whole task that is done, from 0 to 1.
    warnings
        So far.
    step, steps
        Of the stage.
    ns_per_day, eta_seconds
        Speed, and the time that is left.
    energies
        Last ones logged.
    stages
        Those that have ended.
    platform
        OpenMM's platform.
    engine
        What runs the stage: ``openmm`` or ``gromacs``.

    """

    stage: str
    stage_index: int
    stage_count: int
    fraction: float
    warnings: list[TaskWarning] = field(default_factory=list)
    step: int | None = None
    steps: int | None = None
    ns_per_day: float | None = None
    eta_seconds: float | None = None
    energies: Energies | None = None
    stages: list[StageResult] | None = None
    platform: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class LongestBond:
    """The bond that is longest beside its length in the force field; `length` in nm."""

    ratio: float
    length: float
    atoms: list[str]


@dataclass(frozen=True)
class ClosestContact:
    """The nearest atoms without a bond, by the sum of their radii; `distance` in nm."""

    ratio: float
    distance: float
    atoms: list[str]


@dataclass(frozen=True)
class LargestForce:
    """The largest force on an atom, kJ/mol/nm."""

    force: float
    atom: str


@dataclass(frozen=True)
class Findings:
    """What the check of a built system found.

    Attributes
    ----------
    longest_bond, closest_contact, largest_force
        The extremes; None in a system without any.
    residues
        Residues of the structure ``kept``, ``replaced``, ``removed`` and ``built``.

    """

    longest_bond: LongestBond | None
    closest_contact: ClosestContact | None
    largest_force: LargestForce
    residues: dict[str, int]

    def line(self) -> str:
        """All of it in a line of the log."""
        found = []
        if bond := self.longest_bond:
            length = f"{bond.length:.4f} nm, {bond.ratio:.2f} times that of the force field"
            found.append(f"longest bond {' to '.join(bond.atoms)}: {length}")
        if contact := self.closest_contact:
            apart = f"{contact.distance:.3f} nm, {contact.ratio:.2f} of the sum of their radii"
            found.append(f"closest atoms {' and '.join(contact.atoms)}: {apart}")
        force = self.largest_force
        found.append(f"largest force {force.force:.3g} kJ/mol/nm on {force.atom}")
        found.append("residues " + ", ".join(f"{kind} {number}" for kind, number in self.residues.items()))
        return "; ".join(found)


@dataclass(frozen=True)
class SystemSummary:
    """What a built system holds, as the service's record shows it.

    Attributes
    ----------
    atoms, residues, chains
        Their numbers.
    molecules
        Molecules by kind.
    net_charge
        e.
    box_vectors
        Shape (3, 3), nm.
    volume, density
        nm³, g/mL.
    force_field, water_type
        As the request names them.
    variants
        Residues by protonation variant.
    seed
        Of everything random.
    solvent_residues
        Names of the residues that the default restraints leave free.
    check
        What the check found.

    """

    atoms: int
    residues: int
    chains: int
    molecules: dict[str, int]
    net_charge: float
    box_vectors: list[list[float]]
    volume: float
    density: float
    force_field: str
    water_type: str
    variants: dict[str, int]
    seed: int
    solvent_residues: list[str]
    check: Findings


@dataclass(frozen=True)
class BuildResult:
    """A system that was built; `seconds` are those of each step."""

    summary: SystemSummary
    versions: dict[str, str]
    seconds: dict[str, float]


@dataclass(frozen=True)
class SimulationResult:
    """A job that was run; `engine` is that of its last stage."""

    stages: list[StageResult]
    platform: str
    engine: str
    versions: dict[str, str]


@dataclass(frozen=True)
class EnvironmentResult:
    """An environment that can carry out tasks.

    Attributes
    ----------
    platform
        The one that tasks are given.
    versions
        Of the programs, by name.
    ligand_tools
        Whether there is what ligands need.
    platforms
        All that there are.
    gromacs
        The program, its version and the instructions that it was built for; empty where there is none.

    """

    platform: str
    versions: dict[str, str]
    ligand_tools: bool
    platforms: list[str]
    gromacs: str


@dataclass(frozen=True)
class FailedResult:
    """A task that failed; `traceback` is that of a failure that nobody expected."""

    error: Failure
    traceback: str | None = None


Result = BuildResult | SimulationResult | EnvironmentResult | FailedResult


def as_json(value: Any) -> Any:
    """Dataclasses as objects, without the fields that are None."""
    if is_dataclass(value):
        found = {member.name: getattr(value, member.name) for member in fields(value)}
        return {name: as_json(each) for name, each in found.items() if each is not None}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return value
