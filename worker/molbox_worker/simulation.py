"""A simulation under way: its model, what of it is committed, and how far it has come."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app

from molbox_worker.commit import CommitFolder
from molbox_worker.directory import TaskDirectory, replace
from molbox_worker.engine import MAX_PDB_ATOMS
from molbox_worker.model import Model, read_state
from molbox_worker.plan import SimulateTask
from molbox_worker.result import Energies, Progress

MINIMIZATION = "minimization"
OPENMM = "openmm"
# Progress is reported this often at most.
PROGRESS_SECONDS = 0.5


class Simulation:
    """A simulation under way.

    Attributes
    ----------
    task
        Where its files are.
    model
        What it is made of.
    commits
        What of it is safely on disk.
    checkpoint_seconds
        Time between commits.
    ended
        The stages that have ended, the minimisation first.
    energies
        Last ones logged.
    engine
        What runs the present stage.

    """

    def __init__(self, task: TaskDirectory, spec: SimulateTask) -> None:
        self.task = task
        self.model = Model(task, spec)
        self.checkpoint_seconds = spec.checkpoint_seconds
        self.commits = CommitFolder(task.work / "commit", self.model.fingerprint(), task.check_attempt)
        self.ended = self.commits.last.ended
        self.energies: Energies | None = None
        self.engine = OPENMM
        self._reported_at = 0.0
        task.warnings = [*self.commits.last.warnings]
        task.log(f"platform {self.model.platform.getName()} {self.model.properties}, {self.model.n_atoms} atoms")
        if self.commits.last.number:
            task.log(f"resuming at {self._place_of_commit()}")

    def exact_steps(self, seconds: float) -> int:
        """Steps between commits where that is to be the same in each attempt."""
        return self.model.steps_in(min(self.checkpoint_seconds, seconds))

    def _place_of_commit(self) -> str:
        last, stages = self.commits.last, self.model.plan.stages
        if last.stage is None:
            return f"step {last.minimised.steps if last.minimised else 0} of the minimization"
        name = stages[last.stage].name if last.stage < len(stages) else "the end"
        return f"step {last.step} of {name}"

    def commit(self, **changes: Any) -> None:
        """Commit: `changes` are members of `Commit`."""
        self.commits.write(warnings=[*self.task.warnings], **changes)
        self.ended = self.commits.last.ended

    def start(self) -> openmm.State:
        """The state in which the present stage began."""
        start = self.commits.last.start
        assert start is not None
        return read_state(self.commits.content(start))

    def write_state(self, ended: str, state: openmm.State) -> bytes:
        """Write the state at the end of a stage."""
        content: bytes = openmm.XmlSerializer.serialize(state).encode()
        replace(self.task.output / f"{ended}.state.xml", content)
        return content

    def write_structure(self, name: str, context: openmm.Context, atoms: NDArray[np.int64] | None = None) -> None:
        """Write the present structure with molecules whole and in the box; of these atoms alone, which ascend."""
        state = context.getState(positions=True, enforcePeriodicBox=True)
        topology, positions = self.model.topology, state.getPositions()
        topology.setPeriodicBoxVectors(state.getPeriodicBoxVectors())
        if atoms is not None:
            chosen = set(atoms.tolist())
            part = app.Modeller(topology, positions)
            part.delete([atom for atom in topology.atoms() if atom.index not in chosen])
            topology, positions = part.topology, part.positions
        as_pdb = topology.getNumAtoms() <= MAX_PDB_ATOMS
        writer = app.PDBFile if as_pdb else app.PDBxFile
        with (self.task.output / f"{name}.{'pdb' if as_pdb else 'cif'}").open("w") as file:
            writer.writeFile(topology, positions, file, keepIds=True)

    def report(
        self,
        index: int,
        name: str,
        step: int,
        steps: int,
        steps_per_second: float | None = None,
        *,
        is_end: bool = False,
    ) -> None:
        """Report progress, twice a second at most but for the end of a stage.

        Of a job that fails, the record has the stages that were reported as ended.
        """
        now = time.monotonic()
        if now - self._reported_at < PROGRESS_SECONDS and not is_end:
            return
        self._reported_at = now
        plan = self.model.plan
        # A minimisation step costs about as much as a step of dynamics, and it seldom takes its limit.
        minimisation = self.ended[0].steps if self.ended else plan.minimization_steps
        work = [minimisation, *(stage.steps for stage in plan.stages)]
        done = sum(work[:index]) + step
        progress = Progress(
            name,
            stage_index=index,
            stage_count=len(work),
            fraction=done / max(1, sum(work)),
            step=step,
            steps=steps,
            energies=self.energies,
            stages=self.ended,
            platform=self.model.platform.getName(),
            engine=self.engine,
        )
        if steps_per_second:
            progress = dataclasses.replace(
                progress,
                ns_per_day=self.model.ns_per_day(steps_per_second),
                eta_seconds=(sum(work) - done) / steps_per_second,
            )
        self.task.report(progress)


class StageClock:
    """Wall time of a stage over all attempts."""

    def __init__(self, seconds_before: float) -> None:
        self._before = seconds_before
        self._start = time.monotonic()

    def this_attempt(self) -> float:
        """Seconds since this attempt began the stage."""
        return max(time.monotonic() - self._start, 1e-6)

    def seconds(self) -> float:
        """Seconds over all attempts."""
        return self._before + self.this_attempt()


def chunk_of(chunk: int, duration: float, target: float) -> int:
    """Steps that take about the time `target`, when `chunk` of them took `duration`; at most twice as many."""
    return max(1, min(chunk * 2, int(chunk * target / max(duration, 1e-6))))
