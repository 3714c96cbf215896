"""One stage of a simulation, from its start or its last commit to its end."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import Any

import numpy as np
import openmm

from molbox_worker import excerpt, method
from molbox_worker.commit import Checkpoint
from molbox_worker.diagnose import Chunk, explained
from molbox_worker.engine import DALTON_PER_NM3
from molbox_worker.model import degrees_of_freedom, mass, place, read_state
from molbox_worker.plan import Stage
from molbox_worker.result import Energies, StageResult, Stopped, TaskError, as_json
from molbox_worker.simulation import Simulation, StageClock, chunk_of
from molbox_worker.stage_files import StageFiles

BOLTZMANN = 0.00831446261815324  # kJ/mol/K
# A chunk of steps takes about this long, so that signals and progress are not kept waiting.
CHUNK_SECONDS = 0.5
FIRST_CHUNK = 10
# Estimated time between commits, where a run is exact.
EXACT_SECONDS = 30.0
NAMES = {"openmm": "OpenMM", "gromacs": "GROMACS"}


class StageRun:
    """The run of one stage; `OpenMMRun` and `GromacsRun` take its steps."""

    def __init__(self, simulation: Simulation, index: int, stage: Stage) -> None:
        self._simulation = simulation
        self._model = simulation.model
        self._commits = simulation.commits
        self._index = index
        self._stage = stage

    def run(self) -> None:
        """Run the stage, from its start or its last commit, to its end."""
        last, stage = self._commits.last, self._stage
        start = self._simulation.start()
        step = self._begin(start)
        self._files = self._open_files()
        self._simulation.task.log(f"{stage.name}: {stage.ensemble}, from step {step} of {stage.steps}")
        self._clock = StageClock(last.seconds)
        self._end(self._take_steps(step, start))

    def _begin(self, start: openmm.State) -> int:
        """Make ready to take steps from where the stage starts or was left; returns the step."""
        raise NotImplementedError

    def _take_steps(self, step: int, start: openmm.State) -> openmm.Context:
        """Take the steps that are left, and write and commit what is due; returns where they lead."""
        raise NotImplementedError

    def _note(self, used: method.Method, step: int) -> None:
        """Note how the stage is run from a step on, and warn where another engine ran what is before."""
        if step == self._stage.steps:
            return
        task, engine = self._simulation.task, as_json(used.engine)
        before = method.write(task.output, used, step)
        self._note_threads(used, step, before or self._stage_before(step))
        if before and any(before["engine"][name] != engine[name] for name in ("name", "precision")):
            now, then = (
                f"{NAMES[each['name']]} {each['version']} in {each['precision']} precision"
                for each in (engine, before["engine"])
            )
            message = f"{self._stage.name}: run by {now} from step {step} on; {then} ran the steps before"
            task.warn("engine_changed", message)

    def _stage_before(self, step: int) -> dict[str, Any] | None:
        """How the stage before was run, where this one begins."""
        if step or not self._index:
            return None
        return method.read(self._simulation.task.output, self._model.plan.stages[self._index - 1].name)

    def _note_threads(self, used: method.Method, step: int, before: dict[str, Any] | None) -> None:
        """Warn where what would have been exact goes on with another number of threads, as the service gives it."""
        if before is None or not method.is_exact(before):
            return
        then, now = before["machine"]["threads"], used.machine.threads
        if then != now:
            message = (
                f"{self._stage.name}: run with threads: {now} from step {step} on, with threads: {then} before;"
                " bit for bit it is what no single number of threads gives"
            )
            self._simulation.task.warn("threads_changed", message)

    def _open_files(self) -> StageFiles:
        """Trajectory and log, cut to what is committed."""
        output, model, committed = self._simulation.task.output, self._model, self._commits.last.files
        return StageFiles(output, self._stage, model.n_atoms, model.timestep_ps, committed)

    def _reopen_files(self) -> None:
        """Forget what was written since the last commit."""
        self._files.close()
        self._files = self._open_files()

    def _weigh(self, system: openmm.System) -> None:
        """Note what the lines of the log need."""
        self._mass = mass(system)
        self._degrees_of_freedom = degrees_of_freedom(system)

    def _log_energies(self, step: int, potential: float, kinetic: float, volume: float) -> None:
        """Write the line of a step: energies in kJ/mol, volume in nm³."""
        if not math.isfinite(potential + kinetic):
            raise openmm.OpenMMException("Energy is NaN")
        # Exactly: 50 steps of 2 fs are 0.1 ps.
        time_ps = step * Decimal(repr(self._model.plan.timestep_fs)) / 1000
        energies = Energies(
            time=float(time_ps / 1000),
            potential_energy=potential,
            kinetic_energy=kinetic,
            temperature=2 * kinetic / (self._degrees_of_freedom * BOLTZMANN),
            volume=volume,
            density=self._mass / volume * DALTON_PER_NM3,
        )
        self._simulation.energies = energies
        self._files.write_energies(step, time_ps, energies)

    def _report(self, step: int, first_step: int) -> None:
        """Report a step, and the speed since the first of this attempt."""
        speed = (step - first_step) / self._clock.this_attempt()
        self._simulation.report(self._index + 1, self._stage.name, step, self._stage.steps, speed)

    def _commit(self, step: int, platform: str, checkpoint: bytes, state: openmm.State) -> None:
        lengths = self._files.commit()
        found = Checkpoint(
            platform,
            self._commits.put("checkpoint.chk", checkpoint),
            self._commits.put("checkpoint.xml", openmm.XmlSerializer.serialize(state).encode()),
        )
        self._simulation.commit(step=step, seconds=self._clock.seconds(), files=lengths, checkpoint=found)

    def _end(self, context: openmm.Context) -> None:
        """Write what is at the end of the stage, and commit it but for production.

        An extension continues from the last commit within production. Where that is exact it is the
        one before the end; the few steps since are run again, to the same bits.
        """
        simulation, stage = self._simulation, self._stage
        n_frames = self._files.close()
        seconds = self._clock.seconds()
        simulation.write_structure(stage.name, context)
        if stage.is_production and n_frames and self._model.plan.excerpt_atoms:
            self._write_excerpt(context)
        content = simulation.write_state(stage.name, context.getState(positions=True, velocities=True))
        speed = self._model.ns_per_day(stage.steps / seconds) if stage.steps and seconds > 0 else None
        ended = StageResult(stage.name, stage.steps, n_frames, round(seconds, 3), ns_per_day=speed)
        simulation.ended = [*simulation.ended, ended]
        if not stage.is_production:
            simulation.commit(
                stage=self._index + 1,
                step=0,
                seconds=0.0,
                files=None,
                checkpoint=None,
                start=self._commits.put("start.xml", content),
                ended=simulation.ended,
            )
        simulation.report(self._index + 1, stage.name, stage.steps, stage.steps, is_end=True)
        simulation.task.log(f"{stage.name}: {stage.steps} steps, {n_frames} frames, {seconds:.1f} s")

    def _write_excerpt(self, context: openmm.Context) -> None:
        """Write the frames and the last structure of the atoms that have files of their own.

        Stopped meanwhile, it leaves what there is: it is written anew when the stage ends again.
        """
        task, stage = self._simulation.task, self._stage

        def report() -> None:
            if task.stop_requested:
                raise Stopped
            self._simulation.report(self._index + 1, stage.name, stage.steps, stage.steps)

        atoms = np.array(self._model.plan.excerpt_atoms)
        source, target = task.output / f"{stage.name}.dcd", task.output / f"{excerpt.NAME}.dcd"
        excerpt.write_trajectory(source, target, atoms, report)
        self._simulation.write_structure(excerpt.NAME, context, atoms)


class OpenMMRun(StageRun):
    """The run of one stage by OpenMM."""

    def _begin(self, start: openmm.State) -> int:
        """Put a context where the stage starts or was left; returns the step."""
        self._context = context = self._model.context(self._stage, start)
        self._weigh(context.getSystem())
        checkpoint = self._commits.last.checkpoint
        if checkpoint is None:
            place(context, start)
            try:
                context.setVelocities(start.getVelocities())
            except openmm.OpenMMException:
                # A minimised structure has none.
                context.setVelocitiesToTemperature(self._model.plan.temperature_k, self._model.seed)
            return 0
        if checkpoint.platform == self._model.platform.getName():
            try:
                context.loadCheckpoint(self._commits.content(checkpoint.file))
                return self._commits.last.step
            except (openmm.OpenMMException, TaskError) as error:
                # Another version or another processor, or a damaged file: the portable state serves.
                message = f"the checkpoint does not fit here ({error}); resumed from its state"
                self._simulation.task.warn("state_resumed", message)
        # The state has no random numbers: with the seeds of the stage's start they would come once more.
        step = self._commits.last.step
        self._context = context = self._model.context(self._stage, start, step=step)
        context.setState(read_state(self._commits.content(checkpoint.state)))
        return step

    def _take_steps(self, step: int, start: openmm.State) -> openmm.Context:
        model, stage = self._model, self._stage
        self._chunk = Chunk(0, 0, start)
        try:
            self._steps(step)
        except openmm.OpenMMException as error:
            raise explained(error, model, stage, start, self._chunk) from error
        if stage.is_production and stage.steps and not model.is_exact:
            self._commit_now(stage.steps)
        return self._context

    def _steps(self, step: int) -> None:
        """Take the steps that are left, and do after each chunk of them what is due."""
        simulation, stage, context = self._simulation, self._stage, self._context
        integrator = context.getIntegrator()
        is_exact, exact_steps = self._model.is_exact, simulation.exact_steps(EXACT_SECONDS)
        first_step, chunk = step, FIRST_CHUNK
        # OpenMM 8.6.1 has what tells the mesh on a CPU from the first energies on; before them it reads memory that
        # nobody has set.
        context.getState(energy=True)
        self._note(method.of_openmm(self._model, stage, context), step)
        last_commit = time.monotonic()
        events = [frequency for frequency in (stage.traj_freq, stage.log_freq) if frequency]
        if is_exact:
            events.append(exact_steps)
        while step < stage.steps:
            n = min(stage.steps - step, chunk, *(frequency - step % frequency for frequency in events))
            self._chunk = Chunk(step, n, _finite_state(context))
            begin = time.monotonic()
            integrator.step(n)
            step += n
            if n == chunk:
                chunk = chunk_of(chunk, time.monotonic() - begin, CHUNK_SECONDS)
            self._write(step)
            self._report(step, first_step)
            if is_exact:
                is_due = step % exact_steps == 0 and step < stage.steps
            else:
                is_due = time.monotonic() - last_commit > simulation.checkpoint_seconds
            if is_due or (simulation.task.stop_requested and not is_exact):
                self._commit_now(step)
                last_commit = time.monotonic()
            if simulation.task.stop_requested:
                raise Stopped
            if is_due and is_exact:
                context.reinitialize(preserveState=True)
        _finite_state(context)

    def _write(self, step: int) -> None:
        """Write the line and the frame that are due at a step."""
        stage = self._stage
        if stage.log_freq and step % stage.log_freq == 0:
            state = self._context.getState(energy=True)
            potential, kinetic = state.getPotentialEnergy()._value, state.getKineticEnergy()._value
            self._log_energies(step, potential, kinetic, state.getPeriodicBoxVolume()._value)
        if stage.traj_freq and step % stage.traj_freq == 0:
            state = self._context.getState(positions=True)
            box = state.getPeriodicBoxVectors(asNumpy=True)._value
            self._files.write_frame(state.getPositions(asNumpy=True)._value, box)

    def _commit_now(self, step: int) -> None:
        state = _finite_state(self._context)
        self._commit(step, self._model.platform.getName(), self._context.createCheckpoint(), state)


def _finite_state(context: openmm.Context) -> openmm.State:
    """Positions and velocities, which must be numbers: what is not would be found later, if at all."""
    state = context.getState(positions=True, velocities=True, parameters=True)
    for array in (state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value):
        if not np.isfinite(array).all():
            raise openmm.OpenMMException("Particle coordinate is NaN")
    return state
