"""The run of one stage by GROMACS.

One process of mdrun per segment of a fixed number of steps, each from the checkpoint that the one before
left at its end: killed, it is run again to the same bytes, in every ensemble. From a checkpoint within a
segment the last bits differ at constant pressure. Asked to stop, it leaves without the present segment.

What is mdrun's own lies in ``work/gromacs`` and is made anew in each attempt.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import openmm

from molbox_worker import method
from molbox_worker.diagnose import Chunk, Diagnosis, collapsed, diagnose, unstable
from molbox_worker.gromacs import mdp
from molbox_worker.gromacs.files import Array, Energies, Energy, Frame, Trajectory, read_g96, write_g96
from molbox_worker.gromacs.molecules import Molecules
from molbox_worker.gromacs.program import DISK_FULL, Broken, Gromacs, ended
from molbox_worker.gromacs.terms import Terms, Unsupported
from molbox_worker.gromacs.topology import write_topology
from molbox_worker.model import counted, place, place_of, read_state
from molbox_worker.plan import Stage
from molbox_worker.result import Stopped, TaskError
from molbox_worker.simulation import Simulation
from molbox_worker.stage import StageRun

GROMACS = "gromacs"
# Estimated time of a segment; to start one takes 0.2 to 0.5 s.
SEGMENT_SECONDS = 30.0
# What a step costs on one thread, in seconds per atom: 1.5e-6 to 2.9e-6 with the slowest build there is.
SECONDS_PER_ATOM_STEP = 2e-6
# How often a run is looked at.
POLL_SECONDS = 0.2
# OpenMM looks for what broke within so many steps.
DIAGNOSED_STEPS = 50
# Signals by which mdrun dies of coordinates that are no numbers any more.
DEATHS = {signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS}
BROKEN = r"LINCS WARNING|can not be settled|Too many LINCS|total potential energy is|[Nn]ot finite|not a number|\bnan\b"
# Bytes at the end of what mdrun prints, which have the last step.
TAIL_BYTES = 500
# Names of the box's widths in an .edr, of a rectangular box and of others.
WIDTHS = {"Box-X", "Box-Y", "Box-Z", "Box-XX", "Box-YY", "Box-ZZ"}
# How both programs call a box that the list of neighbours does not fit into.
NARROW = "longer than half the shortest box vector"
# Daemons that watch memory ask before they kill.
ASKED = "Received the TERM signal"
# As of bonds of a sheet to its own image.
WIDE = r"no domain decomposition for 1 ranks|inconsistent shifts"
# The largest deviation of a constraint and its atoms, counted from one.
DEVIATION = r"rms \S+, max (\S+) \(between atoms (\d+) and (\d+)\)"
NO_MEMORY = r"[Nn]ot enough memory|bad_alloc|Cannot allocate memory"


class Killed(MemoryError):
    """Something has killed mdrun."""


class GromacsRun(StageRun):
    """The run of one stage by GROMACS."""

    def __init__(self, simulation: Simulation, index: int, stage: Stage, gromacs: Gromacs) -> None:
        super().__init__(simulation, index, stage)
        self._gromacs = gromacs
        self._folder = simulation.task.work / "gromacs"
        self._segment, self._log_of_mdrun = self._folder / "segment", self._folder / "mdrun.txt"
        self._reported = 0

    def _begin(self, start: openmm.State) -> int:
        """Have grompp make the input of the stage; returns the step that it begins or resumes at."""
        last = self._commits.last
        with self._simulation.task.heartbeat():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
            system = self._model.system(self._stage, start)
            self._weigh(system)
            self._terms = terms = Terms(system)
            write_topology(self._folder / "stage.top", terms, self._model.topology)
            self._molecules = Molecules(terms, self._model.topology)
            self._checkpoint = self._own_checkpoint()
            resumed = read_state(self._commits.content(last.checkpoint.state)) if last.checkpoint else start
            self._positions, self._velocities, self._box = _arrays(resumed)
            if self._checkpoint is None:
                self._make_input(start, resumed, last.step)
            else:
                self._make_input(start, start, 0)
            used = method.of_gromacs(self._model, self._stage, self._gromacs, terms, system, self._parameters)
            self._note(used, last.step)
        return last.step

    def _own_checkpoint(self) -> bytes | None:
        """The checkpoint of mdrun that is committed; None where the portable state has to serve."""
        checkpoint = self._commits.last.checkpoint
        if checkpoint is None or checkpoint.platform != GROMACS:
            return None
        try:
            return self._commits.content(checkpoint.file)
        except TaskError as error:
            self._warn_of_checkpoint(error)
            return None

    def _warn_of_checkpoint(self, problem: object) -> None:
        message = f"the checkpoint does not fit here ({problem}); resumed from its state"
        self._simulation.task.warn("state_resumed", message)

    def _make_input(self, start: openmm.State, state: openmm.State, step: int) -> None:
        """Have grompp make the input of a run from a state at a step of the stage that began with `start`."""
        positions, velocities, box = _arrays(state)
        write_g96(self._folder / "start.g96", positions, box, velocities)
        held, _, held_box = _arrays(start)
        # Restraints hold to the nearest image, whose distance to the others is not to change with the box.
        held = self._molecules.in_box(held, held_box)
        write_g96(self._folder / "held.g96", held, held_box)
        parameters = mdp.stage_parameters(
            self._model.plan,
            self._stage,
            self._terms,
            box,
            mdp.stiffness(self._stage, held, held_box),
            self._model.stage_seed(self._stage, 0),
            first_step=step,
            has_velocities=velocities is not None,
        )
        # A list that is made more often needs less room around the cutoff. In a box that becomes narrower than that
        # while it runs, mdrun runs on, and soundly: pairs beyond the cutoff have no part in the energy.
        for self._list_steps in mdp.ALL_LIST_STEPS:
            try:
                self._grompp({**parameters, "nstlist": self._list_steps})
                return
            except Unsupported as error:
                if NARROW not in str(error):
                    raise
        raise self._too_narrow()

    def _too_narrow(self) -> Unsupported:
        """That the list of neighbours, which reaches farther than the cutoff, does not fit into the box."""
        return Unsupported(
            f"the box, {np.diag(self._box).min():.3f} nm wide, is too narrow for a list of neighbours that reaches"
            f" beyond the cutoff, {self._model.plan.cutoff_nm:g} nm",
            remedy="build with a larger minimum_padding or lower non_bonded_cutoff",
        )

    def _grompp(self, parameters: mdp.Parameters) -> None:
        (self._folder / "stage.mdp").write_text(mdp.text(parameters))
        self._parameters = parameters
        arguments = "-f stage.mdp -c start.g96 -r held.g96 -p stage.top -o stage.tpr -po all.mdp"
        self._gromacs.grompp(self._folder, *arguments.split())
        if not (self._folder / "stage.tpr").exists():
            raise Broken("grompp wrote no input for mdrun")

    def _take_steps(self, step: int, start: openmm.State) -> openmm.Context:
        self._first_step = step
        length = self._segment_steps()
        while step < self._stage.steps:
            # At the same steps in each attempt, as long as the number of threads is the same.
            end = min(step - step % length + length, self._stage.steps)
            self._take_segment(step, end, start)
            step = end
            if step < self._stage.steps:
                assert self._checkpoint is not None
                state = self._context_at(step, start).getState(positions=True, velocities=True)
                self._commit(step, GROMACS, self._checkpoint, state)
        return self._context_at(step, start)

    def _context_at(self, step: int, start: openmm.State) -> openmm.Context:
        """Where the stage is at a step, counted as OpenMM does: from the begin of the stage."""
        context = self._context(start)
        context.setTime(step * self._model.timestep_ps)
        context.setStepCount(step)
        return context

    def _segment_steps(self) -> int:
        """Steps of a segment: whole intervals between lists and between pressure couplings."""
        seconds = min(self._simulation.checkpoint_seconds, SEGMENT_SECONDS) * self._model.threads
        n_lists = int(seconds / (SECONDS_PER_ATOM_STEP * self._model.n_atoms * mdp.LIST_STEPS))
        return max(1, n_lists) * mdp.LIST_STEPS

    def _context(self, start: openmm.State) -> openmm.Context:
        """Where the stage is; before its first step it may have to draw velocities, as OpenMM does."""
        if self._velocities is not None:
            return self._molecules.context(self._positions, self._velocities, self._box)
        context = self._model.context(self._stage, start)
        place(context, start)
        context.setVelocitiesToTemperature(self._model.plan.temperature_k, self._model.seed)
        return context

    def _take_segment(self, step: int, end: int, start: openmm.State) -> None:
        """Run a segment, write what it gives, and take over where it ends."""
        try:
            failure = self._try_segment(step, end)
            if isinstance(failure, Killed):
                self._simulation.task.log(f"{self._stage.name}: {failure}; run again from step {step}")
                self._reopen_files()
                failure = self._try_segment(step, end)
            if isinstance(failure, Broken) and self._checkpoint is not None:
                # It took no step from the checkpoint, which another version may have written.
                self._resume_from_state(step, start)
                failure = self._try_segment(step, end)
            if failure is not None:
                raise failure
            self._take_over()
        except openmm.OpenMMException as error:
            raise self._unstable(step, end, start) from error

    def _try_segment(self, step: int, end: int) -> Exception | None:
        """Run a segment and write what it gives; returns what kept it from its end."""
        folder = self._segment
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # The step is printed often enough to be the heartbeat of millions of atoms.
        arguments = ["-s", "../stage.tpr", "-deffnm", "segment", "-c", "end.g96", "-v", "-stepout", str(mdp.LIST_STEPS)]
        arguments += ["-nsteps", str(end - step), "-nstlist", str(self._list_steps)]
        if self._checkpoint is not None:
            (folder / "start.cpt").write_bytes(self._checkpoint)
            arguments += ["-cpi", "start.cpt"]
        self._seen = step
        self._near = self._positions
        self._status = self._follow(folder, step, end, arguments)
        is_whole = any(folder.glob("end*.g96")) and (folder / "segment.cpt").exists()
        return None if self._status == 0 and is_whole else self._failure(step)

    def _resume_from_state(self, step: int, start: openmm.State) -> None:
        """Have the stage go on from positions and velocities, in the place of a checkpoint."""
        text = self._log_of_mdrun.read_text(errors="replace")
        self._warn_of_checkpoint(f"mdrun {ended(self._status, text)}")
        self._checkpoint = None
        state = self._context(start).getState(positions=True, velocities=True)
        self._make_input(start, state, step)

    def _follow(self, folder: Path, step: int, end: int, arguments: list[str]) -> int:
        """Have mdrun take the steps of a segment, and write what becomes of them; returns its exit status."""
        energies = Energies(folder, "*.edr", is_double=self._gromacs.is_double)
        frames = Trajectory(folder, "*.trr")
        process = self._gromacs.mdrun(folder, self._log_of_mdrun, self._model.threads, *arguments)
        try:
            status = None
            while status is None:
                if self._simulation.task.stop_requested:
                    raise Stopped
                status = _wait(process)
                for energy in energies.new():
                    self._write_energies(energy, step, end)
                for frame in frames.new():
                    self._write_frame(frame, step, end)
                self._report_seen()
            if status and self._simulation.task.stop_requested:
                # Clusters tell all processes.
                raise Stopped
            # A shell between them makes a signal a status above 128.
            return 128 - status if 128 < status < 128 + signal.NSIG else status
        finally:
            process.kill()
            process.wait()
            energies.close()
            frames.close()

    def _write_energies(self, energy: Energy, step: int, end: int) -> None:
        """Write the line of a step; the last of a segment has energies in any case, and so has its first."""
        terms, stage = energy.terms, self._stage
        if not step < energy.step <= end:
            return
        volume = terms.get("Volume", float(np.linalg.det(self._box)))
        widths = [value for name, value in terms.items() if name in WIDTHS]
        # mdrun runs on with a box in which atoms meet their own images.
        if widths and min(widths) < 2 * self._model.plan.cutoff_nm:
            raise collapsed(self._model, stage, energy.step, min(widths))
        self._seen = energy.step
        if stage.log_freq and energy.step % stage.log_freq == 0:
            self._log_energies(energy.step, terms["Potential"], terms["Kinetic En."], volume)

    def _write_frame(self, frame: Frame, step: int, end: int) -> None:
        # The file has 32 bits of the step.
        at = step + (frame.step - step) % 2**32
        if frame.positions is None or not step < at <= end:
            return
        self._near = self._molecules.whole(frame.positions, frame.box, self._near)
        if self._stage.traj_freq and at % self._stage.traj_freq == 0:
            self._files.write_frame(self._near, frame.box)

    def _report_seen(self) -> None:
        """Report the step that mdrun has come to, once."""
        with self._log_of_mdrun.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            steps = re.findall(rb"step (\d+)", file.read())
        seen = max(self._seen, int(steps[-1]) if steps else 0)
        if seen > self._seen:
            self._seen = min(seen, self._stage.steps)
        if self._seen > self._reported:
            self._reported = self._seen
            self._report(self._seen, self._first_step)

    def _take_over(self) -> None:
        """Take what a segment has left as where the next begins."""
        folder = self._segment
        # mdrun numbers it by the part of the run.
        (end,) = folder.glob("end*.g96")
        positions, velocities, box = read_g96(end)
        if not (np.isfinite(positions).all() and np.isfinite(velocities).all()):
            raise openmm.OpenMMException("Particle coordinate is NaN")
        self._positions = self._molecules.whole(positions, box, self._near)
        # The barostat scales axes; of numbers that are rounded OpenMM may say that the box is not reduced.
        self._velocities, self._box = velocities, self._box * (np.diag(box) / np.diag(self._box))
        self._checkpoint = (folder / "segment.cpt").read_bytes()

    def _failure(self, step: int) -> Exception:
        """What kept mdrun from the end of a segment that began at a step."""
        text = self._log_of_mdrun.read_text(errors="replace")
        if re.search(DISK_FULL, text):
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if re.search(NO_MEMORY, text):
            return MemoryError("mdrun had not enough memory")
        if -self._status in {signal.SIGKILL, signal.SIGTERM} or ASKED in text:
            return Killed("mdrun was killed, as where memory is short")
        if unsupported := self._unsupported(text):
            return unsupported
        if re.search(BROKEN, text) or -self._status in DEATHS:
            broken: Exception = openmm.OpenMMException("Particle coordinate is NaN")
            return broken
        words = f"mdrun {ended(self._status, text)}"
        return Broken(words) if self._seen == step else RuntimeError(words)

    def _unsupported(self, text: str) -> Unsupported | None:
        """What only mdrun has against a run."""
        if NARROW in text:
            return self._too_narrow()
        if re.search(WIDE, text):
            return Unsupported("terms across the whole box")
        if -self._status == signal.SIGILL:
            # A cluster's nodes may differ. `grompp` and `--version` have few of the instructions.
            return Unsupported(f"it was built for {self._gromacs.simd}, which this processor lacks")
        return None

    def _unstable(self, step: int, end: int, start: openmm.State) -> Exception:
        """Why a segment broke, as OpenMM finds it from where the segment began."""
        task, model, stage = self._simulation.task, self._model, self._stage
        task.log(f"{stage.name}: mdrun broke after step {self._seen}; OpenMM looks for the reason")
        text = self._log_of_mdrun.read_text(errors="replace")
        with task.heartbeat():
            before = self._context(start).getState(positions=True, velocities=True)
            chunk = Chunk(step, min(end - step, DIAGNOSED_STEPS), before)
            found = diagnose(model, stage, start, chunk)
        if found.is_sound and self._seen == step and not re.search(BROKEN, text):
            return Broken(f"before its first step mdrun {ended(self._status, text)}")
        if found.is_sound:
            # It may break later with OpenMM too. Its forces are those of any sound structure.
            found = self._as_mdrun_has_it(text, found)
        return unstable(model, stage, found, seen=self._seen)

    def _as_mdrun_has_it(self, text: str, found: Diagnosis) -> Diagnosis:
        """What mdrun printed as it broke, with the names of atoms, where OpenMM found nothing."""
        named = []
        if deviation := re.search(DEVIATION, text):
            atoms = list(self._model.topology.atoms())
            named = [atoms[int(number) - 1] for number in deviation.groups()[1:]]
            places = " and ".join(map(place_of, named))
            words = f"a bond is not held, relative deviation {deviation[1]} between {places}"
        elif broken := re.search(f"[^\\n]*(?:{BROKEN})[^\\n]*", text):
            words = " ".join(broken[0].split())
        else:
            words = f"it {ended(self._status, text)}"
        where = f"of mdrun: {words}; OpenMM took {found.last - found.first} steps from step {found.first} on soundly"
        return replace(found, where=where, residues=[counted(atom.residue) for atom in named])


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status of a process that has ended in a while; None if it has not."""
    try:
        return process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _arrays(state: openmm.State) -> tuple[Array, Array | None, Array]:
    """Positions, velocities if there are any, and box of a state."""
    positions = np.array(state.getPositions(asNumpy=True)._value)
    box = np.array(state.getPeriodicBoxVectors(asNumpy=True)._value)
    if not state.getDataTypes() & openmm.State.Velocities:
        return positions, None, box
    return positions, np.array(state.getVelocities(asNumpy=True)._value), box
