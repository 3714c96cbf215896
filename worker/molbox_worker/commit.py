"""What of a simulation is safely on disk: the folder ``work/commit`` of a task directory.

``commit.json`` counts. It names the other files of the folder, and the lengths to which trajectory and
log of the stage are promised. A commit makes all of these durable first and replaces ``commit.json``
last: that rename is the moment of the commit. What the folder holds beyond it is removed, and what
the files of the stage hold beyond those lengths is cut off at the next start.

The folder is all that is needed besides the results to resume elsewhere: the service keeps it with
them, for a job that is retried or extended.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molbox_worker import directory
from molbox_worker.directory import dump
from molbox_worker.result import StageResult, TaskError, TaskWarning

COMMIT = "commit.json"


@dataclass(frozen=True)
class File:
    """A file of the folder.

    Attributes
    ----------
    name
        Its name.
    sha256
        Of its content: OpenMM loads a truncated checkpoint without complaint.

    """

    name: str
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a stage.

    Attributes
    ----------
    platform
        Name of the platform that can load `file`.
    file
        Everything, to the bit, for the same platform, version and processor.
    state
        What any of them can resume from.

    """

    platform: str
    file: File
    state: File


@dataclass(frozen=True)
class Minimised:
    """How far the minimisation has come.

    Attributes
    ----------
    index
        Index of the pass.
    pass_steps, steps
        Steps of this pass, and of all.
    energy_before
        Potential energy at the start, kJ/mol.
    positions
        Positions, shape (n_atoms, 3), nm.

    """

    index: int
    pass_steps: int
    steps: int
    energy_before: float
    positions: File


@dataclass(frozen=True)
class Commit:
    """The content of ``commit.json``.

    Attributes
    ----------
    fingerprint
        Digest of what the simulation is made of: another one cannot resume from here.
    number
        Commits so far, by which the service sees that an attempt made progress.
    stage
        Index of the stage that is under way; None while the energy is minimised.
    step
        Steps of that stage.
    seconds
        Wall time spent in it.
    minimised
        How far the minimisation has come, while it is under way.
    start
        State in which the stage began.
    checkpoint
        Where in the stage it is; None at its start.
    files
        Lengths of its trajectory and log.
    ended
        Results of the stages that have ended, the minimisation first.
    warnings
        What the user is to know.

    """

    fingerprint: str
    number: int = 0
    stage: int | None = None
    step: int = 0
    seconds: float = 0.0
    minimised: Minimised | None = None
    start: File | None = None
    checkpoint: Checkpoint | None = None
    files: dict[str, int] | None = None
    ended: list[StageResult] = field(default_factory=list)
    warnings: list[TaskWarning] = field(default_factory=list)


class CommitFolder:
    """The folder, and the commit that it holds.

    Parameters
    ----------
    path
        The folder; made when it is not there.
    fingerprint
        Of the simulation that resumes from it or begins.
    check_attempt
        Raises when the folder is another attempt's by now; called before each commit.

    Raises
    ------
    TaskError
        ``inputs_changed`` when the commit is another simulation's.

    """

    def __init__(self, path: Path, fingerprint: str, check_attempt: Callable[[], None]) -> None:
        self._path = path
        self._check_attempt = check_attempt
        path.mkdir(exist_ok=True)
        self.last = Commit(fingerprint)
        if (path / COMMIT).exists():
            self.last = _read(json.loads((path / COMMIT).read_text()))
            if self.last.fingerprint != fingerprint:
                raise TaskError("inputs_changed", "the inputs are not those that the committed progress was made with")
        self._remove_others()

    def write(self, **changes: Any) -> None:
        """Commit: `changes` are members of `Commit`, and what they name has been put here."""
        self.last = replace(self.last, **changes, number=self.last.number + 1)
        self._check_attempt()
        directory.replace(self._path / COMMIT, dump(asdict(self.last)))
        self._remove_others()

    def put(self, name: str, content: bytes) -> File:
        """Write a file that the next commit is to name."""
        # A name of its own: what the last commit names stays what it is until then.
        name = f"{self.last.number + 1}.{name}"
        directory.replace(self._path / name, content)
        return File(name, hashlib.sha256(content).hexdigest())

    def put_array(self, name: str, array: NDArray[np.float64]) -> File:
        """Write an array, to the bit."""
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        return self.put(name, content.getvalue())

    def content(self, file: File) -> bytes:
        """The content of a file that the commit names.

        Raises
        ------
        TaskError
            ``checkpoint_damaged`` when it is not what was written.

        """
        path = self._path / file.name
        content = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise TaskError(
                "checkpoint_damaged",
                f"{file.name} is not what was written",
                remedy="submit the job again; the operator looks at the disk",
            )
        return content

    def array(self, file: File) -> NDArray[np.float64]:
        """The array in a file that the commit names."""
        array: NDArray[np.float64] = np.load(io.BytesIO(self.content(file)), allow_pickle=False)
        return array

    def _remove_others(self) -> None:
        named = {COMMIT}
        last = self.last
        for file in (
            last.start,
            last.minimised and last.minimised.positions,
            last.checkpoint and last.checkpoint.file,
            last.checkpoint and last.checkpoint.state,
        ):
            if file:
                named.add(file.name)
        for path in self._path.iterdir():
            if path.name not in named:
                path.unlink()


def _read(content: dict[str, Any]) -> Commit:
    known = {member.name for member in fields(Commit)}
    # Those of a later version mean nothing here.
    content = {name: value for name, value in content.items() if name in known}

    def file(value: dict[str, Any] | None) -> File | None:
        return File(**value) if value else None

    minimised, checkpoint = content["minimised"], content["checkpoint"]
    if minimised:
        minimised = Minimised(**{**minimised, "positions": File(**minimised["positions"])})
    if checkpoint:
        pair = {name: File(**checkpoint[name]) for name in ("file", "state")}
        checkpoint = Checkpoint(**{**checkpoint, **pair})
    return Commit(
        **{
            **content,
            "minimised": minimised,
            "checkpoint": checkpoint,
            "start": file(content["start"]),
            "ended": [StageResult(**stage) for stage in content["ended"]],
            "warnings": [TaskWarning.read(warning) for warning in content["warnings"]],
        }
    )
