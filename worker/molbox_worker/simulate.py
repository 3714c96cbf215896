"""Running a simulation: minimisation, equilibration stages, production.

Killed at any moment and started again, it goes on as if nothing had been: from the last commit, which
`commit.py` explains.

A checkpoint is good on the same platform only; the portable state beside it serves on others.

On one thread of the CPU platform, going on is exact to the bit. OpenMM's forces depend in their last
bits on the neighbour list, which is as old as the context; so there commits are made at fixed steps,
and the context is made anew after each, as it would be after a kill. Asked to stop, it leaves without
another commit, and the few steps since the last are run again.

The last commit of a production stage stays when it has succeeded. Given it, the results and a plan with
more steps, the same code goes on: the job is extended.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app

from molbox_worker import minimise
from molbox_worker.commit import Checkpoint, CommitFolder, File, Minimised
from molbox_worker.dcd import DcdFile
from molbox_worker.engine import DALTON_PER_NM3, MAX_PDB_ATOMS, platform, versions
from molbox_worker.job import Job, JobError, Stopped, replace
from molbox_worker.topology import WATER, read_topology

PRODUCTION = "production"
BOLTZMANN = 0.00831446261815324  # kJ/mol/K
BAROSTAT_INTERVAL = 25
CONSTRAINT_TOLERANCE = 1e-6
# A chunk of steps takes about this long, so that signals and progress are not kept waiting.
CHUNK_SECONDS = 0.5
# Estimated time between commits in steps, so that a run on one CPU thread is exact; and what a step
# costs there, in seconds per atom.
EXACT_SECONDS = 30.0
SECONDS_PER_ATOM_STEP = 4.3e-6
# The same of a minimisation. Its commits are small, and a step takes longer than one of dynamics.
MINIMISER_SECONDS = 3.0
# Its first steps between commits, where that is found by the clock.
MINIMISER_CHUNK = 10
# From one step to the next, forces do not grow by this much in anything that holds together.
DEADLY_FORCE = 1e4
MAX_MORE_STEPS = 50
# Atoms that the report of an instability names.
WORST_ATOMS = 3
# Digits after the point of times, at least: as many as a time step of 0.1 fs needs.
TIME_DIGITS = 4
LOG_HEADER = (
    "step,time (ps),potential energy (kJ/mol),kinetic energy (kJ/mol),temperature (K),volume (nm^3),density (g/mL)\n"
)


@dataclass(frozen=True)
class Stage:
    """One stage of the plan.

    Attributes
    ----------
    name : str
        ``equilibration_1`` and so on, or ``production``; the name of its files.
    ensemble : str
        NVT or NPT.
    steps, traj_freq, log_freq : int
        Steps in all, between frames, between log lines; 0 for no frames, no lines.
    restraint_force : float
        Force constant, kJ/mol/nm².
    restraint_atoms : list of int
        Atoms that are held at their positions at the start of the stage.

    """

    name: str
    ensemble: str
    steps: int
    traj_freq: int
    log_freq: int
    restraint_force: float
    restraint_atoms: list[int]


def simulate(job: Job) -> dict[str, Any]:
    """Run, or go on with, the simulation of a job directory; returns what `result.json` says."""
    simulation = Simulation(job)
    simulation.minimise()
    for index, stage in enumerate(simulation.stages):
        simulation.run(index, stage)
    return {
        "stages": simulation.ended,
        "platform": simulation.platform.getName(),
        "versions": versions(),
    }


class Simulation:
    """A simulation and what of it is committed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.plan: dict[str, Any] = job.task["plan"]
        self.seed: int = job.task["seed"]
        self.stages = [Stage(**stage) for stage in self.plan["stages"]]
        self.platform, self.properties = platform(job)
        self.system_xml = job.input("system.xml").read_text()
        self.topology = read_topology(job.input("topology.json"))
        self.n_atoms = self.topology.getNumAtoms()
        self.timestep_ps = self.plan["timestep_fs"] / 1000
        self.is_exact = self.platform.getName() == "CPU" and job.task["threads"] == 1
        self.exact_steps = self._steps_in(EXACT_SECONDS)
        self.commits = CommitFolder(job.work / "commit", self._fingerprint())
        self.ended = self.commits.last.ended
        self._before_chunk: tuple[int, int, openmm.State] = (0, 0, None)
        self._last_progress = 0.0
        self._energies: dict[str, float] | None = None
        job.warnings = [*self.commits.last.warnings]
        job.log(f"platform {self.platform.getName()} {self.properties}, {self.n_atoms} atoms")
        if self.commits.last.number:
            job.log(f"going on from {self._place_of_commit()}")

    def _steps_in(self, seconds: float) -> int:
        """Steps between commits where that is to be the same in each attempt."""
        seconds = min(self.job.task["checkpoint_seconds"], seconds)
        return max(1, int(seconds / (SECONDS_PER_ATOM_STEP * self.n_atoms)))

    def _fingerprint(self) -> str:
        # Production may be given more steps; anything else that changes makes another simulation.
        stages = [
            {**stage, "steps": stage["steps"] if stage["name"] != PRODUCTION else 0} for stage in self.plan["stages"]
        ]
        inputs = json.dumps({**self.plan, "stages": stages}, sort_keys=True) + str(self.seed) + self.system_xml
        return hashlib.sha256(inputs.encode()).hexdigest()

    def _place_of_commit(self) -> str:
        last = self.commits.last
        if last.stage is None:
            return f"step {last.minimised.steps if last.minimised else 0} of the minimization"
        name = self.stages[last.stage].name if last.stage < len(self.stages) else "the end"
        return f"step {last.step} of {name}"

    def _write_commit(self, **changes: Any) -> None:
        self.commits.write(warnings=[*self.job.warnings], **changes)
        self.ended = self.commits.last.ended

    # Minimisation

    def minimise(self) -> None:
        """Minimise the energy, unless that is committed already."""
        last = self.commits.last
        if last.stage is not None:
            return
        clock = Clock(last.seconds)
        context = self._context(None, None)
        built = self._read_state(self.job.input("state.xml").read_bytes())
        self._place(context, built)
        before = last.minimised.energy_before if last.minimised else self._energy(context)
        if not math.isfinite(before):
            raise self._not_finite("of the starting structure")
        limit = self.plan["minimization_steps"]
        steps = 0
        try:
            if limit > 0:
                positions, steps = self._minimise(context, limit, before, clock)
                if self.is_exact:
                    # An attempt that went on has calculated less with it.
                    context.reinitialize()
                    self._place(context, built)
                context.setPositions(positions)
                context.applyConstraints(CONSTRAINT_TOLERANCE)
                context.computeVirtualSites()
            after, forces = self._energy(context), minimise.net_forces(context)
        except openmm.OpenMMException as error:
            if "nan" in str(error).lower():
                raise self._not_finite("in the minimisation") from error
            raise
        if not math.isfinite(after):
            raise self._not_finite("after minimisation")
        rms, largest = float(np.sqrt(np.mean(forces**2))), float(forces.max())
        self.job.log(
            f"minimization: {before:.0f} -> {after:.0f} kJ/mol in {steps} steps; "
            f"net forces {rms:.1f} kJ/mol/nm (root mean square), at most {largest:.0f}"
        )
        if rms > minimise.LARGE_RMS_FORCE or largest > minimise.LARGE_FORCE:
            atom = list(self.topology.atoms())[int(np.argmax(forces))]
            self.job.warn(
                "minimization_unfinished",
                f"after {steps} of at most {limit} minimization steps net forces of {rms:.0f} kJ/mol/nm remain (root "
                f"mean square; {largest:.0f} on {_place_of(atom)}): beyond {minimise.LARGE_RMS_FORCE:.0f}, or "
                f"{minimise.LARGE_FORCE:.0f} on one atom, the simulation starts hot; give more minimization_steps",
            )
        ended = {
            "name": "minimization",
            "steps": steps,
            "frames": 0,
            "seconds": round(clock.seconds(), 3),
            "energy_before": before,
            "energy_after": after,
            "largest_force": largest,
        }
        self._write_structure("minimization", context)
        start = self._put_start("minimization", context.getState(positions=True))
        self._write_commit(stage=0, step=0, seconds=0.0, ended=[ended], minimised=None, start=start)
        self._progress(0, "minimization", steps, steps, is_end=True)

    def _minimise(
        self, context: openmm.Context, limit: int, before: float, clock: Clock
    ) -> tuple[NDArray[np.float64], int]:
        """Go through the passes from where they were left; returns positions in nm and the steps of all."""
        minimised = self.commits.last.minimised
        if minimised:
            index, pass_steps, steps = minimised.index, minimised.pass_steps, minimised.steps
            positions = self.commits.array(minimised.positions)
        else:
            index, pass_steps, steps = 0, 0, 0
            context.applyConstraints(CONSTRAINT_TOLERANCE)
            positions = np.array(context.getState(positions=True).getPositions(asNumpy=True)._value)
        box = context.getState().getPeriodicBoxVectors()
        springs = minimise.SpringSystem(
            self._system(None, None), box, self.platform, self.properties, is_exact=self.is_exact
        )
        chunk = self._steps_in(MINIMISER_SECONDS) if self.is_exact else MINIMISER_CHUNK
        while index < len(minimise.SPRINGS):
            allowed = minimise.allowance(index, limit, steps, pass_steps)
            n_steps = min(chunk, allowed)
            taken, begin = 0, time.monotonic()
            if n_steps:
                springs.stiffen(minimise.SPRINGS[index])
                tell = MinimisationProgress(self, steps, limit)
                positions, taken = springs.minimise(positions, n_steps, tell)
            if self.job.stop_requested:
                raise Stopped
            if not np.isfinite(positions).all():
                raise openmm.OpenMMException("Particle coordinate is NaN")
            steps, pass_steps = steps + taken, pass_steps + taken
            if taken < n_steps or taken == allowed:
                self.job.log(f"minimization: pass {index + 1} of {len(minimise.SPRINGS)}, {pass_steps} steps")
                index, pass_steps = index + 1, 0
            elif not self.is_exact:
                took = time.monotonic() - begin
                chunk = max(1, min(chunk * 2, int(chunk * MINIMISER_SECONDS / max(took, 1e-6))))
            file = self.commits.put_array("minimization.npy", positions)
            self._write_commit(minimised=Minimised(index, pass_steps, steps, before, file), seconds=clock.seconds())
        return positions, steps

    def _energy(self, context: openmm.Context) -> float:
        return float(context.getState(energy=True).getPotentialEnergy()._value)

    def _not_finite(self, where: str) -> JobError:
        return JobError("not_finite", f"the energy {where} is not finite", stage="minimization", loc=["body", "box_id"])

    # Stages

    def run(self, index: int, stage: Stage) -> None:
        """Run one stage to its end, unless that is committed already."""
        last = self.commits.last
        if last.stage is None or last.stage > index:
            return
        if self.job.stop_requested:
            raise Stopped
        start = self._start()
        context = self._context(stage, start)
        step = self._begin(context, start)
        files = StageFiles(self.job.output, stage, self.n_atoms, self.timestep_ps, last.files)
        self.job.log(f"{stage.name}: {stage.ensemble}, from step {step} of {stage.steps}")
        clock = Clock(last.seconds)
        try:
            self._steps(index, stage, context, files, step, clock)
        except openmm.OpenMMException as error:
            raise self._explain(error, stage) from error
        if stage.name == PRODUCTION and stage.steps and not self.is_exact:
            self._commit_step(context, files, stage.steps, clock.seconds())
        n_frames = files.close()
        self._end(index, stage, context, n_frames, clock.seconds())

    def _begin(self, context: openmm.Context, start: openmm.State) -> int:
        """Put the context where the stage starts or was left; returns the step."""
        checkpoint = self.commits.last.checkpoint
        if checkpoint is None:
            self._place(context, start)
            try:
                context.setVelocities(start.getVelocities())
            except openmm.OpenMMException:
                # A minimised structure has none.
                context.setVelocitiesToTemperature(self.plan["temperature_k"], self.seed)
            return 0
        if checkpoint.platform == self.platform.getName():
            try:
                context.loadCheckpoint(self.commits.content(checkpoint.file))
                return self.commits.last.step
            except (openmm.OpenMMException, JobError) as error:
                # Another version or another processor, or a damaged file: the portable state serves.
                self.job.warn("state_resumed", f"the checkpoint does not fit here ({error}); went on from its state")
        context.setState(self._read_state(self.commits.content(checkpoint.state)))
        return self.commits.last.step

    def _steps(
        self, index: int, stage: Stage, context: openmm.Context, files: StageFiles, step: int, clock: Clock
    ) -> None:
        integrator = context.getIntegrator()
        first_step, chunk = step, 10
        last_commit = time.monotonic()
        interval = self.job.task["checkpoint_seconds"]
        events = [frequency for frequency in (stage.traj_freq, stage.log_freq) if frequency]
        if self.is_exact:
            events.append(self.exact_steps)
        while step < stage.steps:
            n = min(stage.steps - step, chunk, *(frequency - step % frequency for frequency in events))
            self._before_chunk = (step, n, self._finite_state(context))
            begin = time.monotonic()
            integrator.step(n)
            step += n
            if n == chunk:
                took = time.monotonic() - begin
                chunk = max(1, min(chunk * 2, int(chunk * CHUNK_SECONDS / max(took, 1e-6))))
            if stage.log_freq and step % stage.log_freq == 0:
                self._log_energies(context, files, step)
            if stage.traj_freq and step % stage.traj_freq == 0:
                state = context.getState(positions=True)
                box = state.getPeriodicBoxVectors(asNumpy=True)._value
                files.write_frame(state.getPositions(asNumpy=True)._value, box)
            speed = (step - first_step) / clock.this_attempt()
            self._progress(index + 1, stage.name, step, stage.steps, speed)
            if self.is_exact:
                is_due = step % self.exact_steps == 0 and step < stage.steps
            else:
                is_due = time.monotonic() - last_commit > interval
            if is_due or (self.job.stop_requested and not self.is_exact):
                self._commit_step(context, files, step, clock.seconds())
                last_commit = time.monotonic()
            if self.job.stop_requested:
                raise Stopped
            if is_due and self.is_exact:
                context.reinitialize(preserveState=True)
        self._finite_state(context)

    def _finite_state(self, context: openmm.Context) -> openmm.State:
        """Positions and velocities, which must be numbers: what is not would be found later, if at all."""
        state = context.getState(positions=True, velocities=True, parameters=True)
        for array in (state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value):
            if not np.isfinite(array).all():
                raise openmm.OpenMMException("Particle coordinate is NaN")
        return state

    def _log_energies(self, context: openmm.Context, files: StageFiles, step: int) -> None:
        state = context.getState(energy=True)
        potential, kinetic = state.getPotentialEnergy()._value, state.getKineticEnergy()._value
        if not math.isfinite(potential + kinetic):
            raise openmm.OpenMMException("Energy is NaN")
        volume = state.getPeriodicBoxVolume()._value
        time_ps = self._time_ps(step)
        self._energies = {
            "time": float(time_ps / 1000),
            "potential_energy": potential,
            "kinetic_energy": kinetic,
            "temperature": 2 * kinetic / (self.degrees_of_freedom * BOLTZMANN),
            "volume": volume,
            "density": self.mass / volume * DALTON_PER_NM3,
        }
        e = self._energies
        files.write_log(
            f"{step},{_decimal(time_ps)},{potential:.4f},{kinetic:.4f},"
            f"{e['temperature']:.3f},{volume:.5f},{e['density']:.5f}\n"
        )

    def _time_ps(self, step: int) -> Decimal:
        """Time since the start of the stage, exactly: 50 steps of 2 fs are 0.1 ps."""
        return step * Decimal(repr(self.plan["timestep_fs"])) / 1000

    def _commit_step(self, context: openmm.Context, files: StageFiles, step: int, seconds: float) -> None:
        state = self._finite_state(context)
        lengths = files.commit()
        checkpoint = Checkpoint(
            self.platform.getName(),
            self.commits.put("checkpoint.chk", context.createCheckpoint()),
            self.commits.put("checkpoint.xml", openmm.XmlSerializer.serialize(state).encode()),
        )
        self._write_commit(step=step, seconds=seconds, files=lengths, checkpoint=checkpoint)

    def _end(self, index: int, stage: Stage, context: openmm.Context, n_frames: int, seconds: float) -> None:
        self._write_structure(stage.name, context)
        start = self._put_start(stage.name, context.getState(positions=True, velocities=True))
        ended = {"name": stage.name, "steps": stage.steps, "frames": n_frames, "seconds": round(seconds, 3)}
        if stage.steps and seconds > 0:
            ended["ns_per_day"] = self._ns_per_day(stage.steps / seconds)
        self.ended = [*self.ended, ended]
        if stage.name != PRODUCTION:
            changes = {"step": 0, "seconds": 0.0, "files": None, "checkpoint": None}
            self._write_commit(stage=index + 1, start=start, ended=self.ended, **changes)
        self._progress(index + 1, stage.name, stage.steps, stage.steps, is_end=True)
        # An extension goes on from the last commit within production. Where that is exact it is the one
        # before the end; the few steps since are run again, to the same bits.
        self.job.log(f"{stage.name}: {stage.steps} steps, {n_frames} frames, {seconds:.1f} s")

    def _explain(self, error: openmm.OpenMMException, stage: Stage) -> Exception:
        """The failure of a simulation in words of its physics."""
        text = str(error)
        step, _, before = self._before_chunk
        if "cutoff distance cannot be greater than half" in text:
            box = np.diag(before.getPeriodicBoxVectors(asNumpy=True)._value)
            return JobError(
                "box_collapsed",
                f"{stage.name}: after step {step} the box shrank below twice the cutoff, {self.plan['cutoff_nm']:g} nm;"
                f" it was {box.min():.3f} nm wide",
                remedy="equilibrate with restraints and at constant volume first, or lower non_bonded_cutoff",
                loc=["body", "non_bonded_cutoff"],
                stage=stage.name,
                step=step,
            )
        if "nan" in text.lower() or "constraint" in text.lower():
            last, where = self._diagnose(stage)
            return JobError(
                "unstable",
                f"{stage.name}: the simulation became unstable after step {last}: {where}",
                remedy="minimise longer, lower integration_timestep, or add restrained equilibration stages",
                loc=["body", "integration_timestep"],
                stage=stage.name,
                step=last,
            )
        unexplained: Exception = error
        return unexplained

    def _diagnose(self, stage: Stage) -> tuple[int, str]:
        """Run the last chunk once more, step by step; the last sound step, and what went wrong there."""
        first, n_steps, before = self._before_chunk
        context = self._context(stage, self._start(), grouped=True)
        self._place(context, before)
        context.setVelocities(before.getVelocities())
        at_first = self._terms(context)
        last, terms = first, at_first
        forces = self._forces(context)
        # Random forces are others than the first time, so it may take longer.
        for step in range(first + 1, first + 2 * n_steps + MAX_MORE_STEPS):
            try:
                context.getIntegrator().step(1)
                now = self._forces(context)
            except openmm.OpenMMException:
                break
            # What comes after a force that no molecule survives tells where it spread to, not where it began.
            if not np.isfinite(now).all() or now.max() > DEADLY_FORCE * max(1.0, float(forces.max())):
                break
            last, forces, terms = step, now, self._terms(context)
        atoms = list(self.topology.atoms())
        worst = [int(i) for i in np.argsort(-forces)[:WORST_ATOMS]]
        named = ", ".join(f"{_place_of(atoms[i])} ({forces[i]:.3g} kJ/mol/nm)" for i in worst)
        before_all = dict.fromkeys(terms, 0.0) if last == first else at_first
        term = max(terms, key=lambda name: terms[name] - before_all[name])
        return last, (
            f"the largest forces are on {named}; of the energy terms, {term} is highest above its start:"
            f" {terms[term]:.4g} kJ/mol, at step {first} it was {at_first[term]:.4g}"
        )

    def _forces(self, context: openmm.Context) -> NDArray[np.float64]:
        forces = context.getState(forces=True).getForces(asNumpy=True)._value
        return np.asarray(np.linalg.norm(forces, axis=1))

    def _terms(self, context: openmm.Context) -> dict[str, float]:
        """Energy by force, for a context with groups."""
        return {
            force.getName(): context.getState(energy=True, groups={i}).getPotentialEnergy()._value
            for i, force in enumerate(context.getSystem().getForces())
        }

    # Contexts

    def _system(self, stage: Stage | None, start: openmm.State | None) -> openmm.System:
        """The system of a stage, or of the minimisation."""
        system = openmm.XmlSerializer.deserialize(self.system_xml)
        self._set_nonbonded(system)
        if self.plan["hydrogen_mass_da"]:
            self._repartition(system, self.plan["hydrogen_mass_da"])
        temperature = self.plan["temperature_k"]
        if stage and start and stage.restraint_atoms and stage.restraint_force > 0:
            system.addForce(_restraint(stage, start))
        if stage and stage.ensemble == "NPT":
            barostat = self._barostat(temperature)
            barostat.setRandomNumberSeed(self._stage_seed(stage, 1))
            system.addForce(barostat)
        return system

    def _context(self, stage: Stage | None, start: openmm.State | None, *, grouped: bool = False) -> openmm.Context:
        """A context for a stage, or for the minimisation; `grouped` gives each force a group of its own."""
        system = self._system(stage, start)
        temperature = self.plan["temperature_k"]
        if grouped:
            for i, force in enumerate(system.getForces()):
                force.setForceGroup(i)
        self.mass = sum(system.getParticleMass(i)._value for i in range(self.n_atoms))
        self.degrees_of_freedom = _degrees_of_freedom(system)
        integrator = openmm.LangevinMiddleIntegrator(temperature, self.plan["friction_per_ps"], self.timestep_ps)
        integrator.setConstraintTolerance(CONSTRAINT_TOLERANCE)
        integrator.setRandomNumberSeed(self._stage_seed(stage, 0))
        return openmm.Context(system, integrator, self.platform, self.properties)

    def _barostat(self, temperature: float) -> openmm.Force:
        """Scales the box as a whole; with a membrane, its plane apart from its normal."""
        if not self.plan.get("membrane"):
            return openmm.MonteCarloBarostat(self.plan["pressure_bar"], temperature, BAROSTAT_INTERVAL)
        return openmm.MonteCarloMembraneBarostat(
            self.plan["pressure_bar"],
            self.plan["surface_tension_bar_nm"],
            temperature,
            openmm.MonteCarloMembraneBarostat.XYIsotropic,
            openmm.MonteCarloMembraneBarostat.ZFree,
            BAROSTAT_INTERVAL,
        )

    def _stage_seed(self, stage: Stage | None, which: int) -> int:
        """A seed of its own for each random part of each stage; OpenMM takes 31 bits."""
        name = f"{self.seed}/{stage.name if stage else 'minimization'}/{which}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") & 0x7FFFFFFF or 1

    def _set_nonbonded(self, system: openmm.System) -> None:
        for force in system.getForces():
            if isinstance(force, openmm.NonbondedForce):
                force.setCutoffDistance(self.plan["cutoff_nm"])
                force.setEwaldErrorTolerance(self.plan["ewald_tolerance"])
            elif isinstance(force, openmm.CustomNonbondedForce):
                force.setCutoffDistance(self.plan["cutoff_nm"])

    def _repartition(self, system: openmm.System, hydrogen_mass_da: float) -> None:
        """Make hydrogens heavier at the cost of the atom that they are bonded to; water is rigid."""
        hydrogen = app.element.hydrogen
        for first, second in self.topology.bonds():
            heavy, light = (second, first) if first.element is hydrogen else (first, second)
            if light.element is not hydrogen or heavy.element is hydrogen or heavy.residue.name == WATER:
                continue
            transfer = hydrogen_mass_da - system.getParticleMass(light.index)._value
            system.setParticleMass(light.index, hydrogen_mass_da)
            system.setParticleMass(heavy.index, system.getParticleMass(heavy.index)._value - transfer)

    def _place(self, context: openmm.Context, state: openmm.State) -> None:
        context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
        context.setPositions(state.getPositions())

    # Files

    def _read_state(self, content: bytes) -> openmm.State:
        return openmm.XmlSerializer.deserialize(content.decode())

    def _start(self) -> openmm.State:
        """The state in which the present stage began."""
        start = self.commits.last.start
        assert start is not None
        return self._read_state(self.commits.content(start))

    def _put_start(self, ended: str, state: openmm.State) -> File:
        """Keep the state at the end of a stage, for the next and for people."""
        content = openmm.XmlSerializer.serialize(state).encode()
        replace(self.job.output / f"{ended}.state.xml", content)
        return self.commits.put("start.xml", content)

    def _write_structure(self, name: str, context: openmm.Context) -> None:
        """The present structure with molecules whole and in the box."""
        state = context.getState(positions=True, enforcePeriodicBox=True)
        self.topology.setPeriodicBoxVectors(state.getPeriodicBoxVectors())
        as_pdb = self.n_atoms <= MAX_PDB_ATOMS
        writer = app.PDBFile if as_pdb else app.PDBxFile
        with (self.job.output / f"{name}.{'pdb' if as_pdb else 'cif'}").open("w") as file:
            writer.writeFile(self.topology, state.getPositions(), file, keepIds=True)

    # Progress

    def _ns_per_day(self, steps_per_second: float) -> float:
        return float(steps_per_second * self.timestep_ps / 1000 * 86_400)

    def _progress(
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
        if now - self._last_progress < 0.5 and not is_end:
            return
        self._last_progress = now
        # A minimisation step costs about as much as a step of dynamics, and it seldom takes its limit.
        minimisation = self.ended[0]["steps"] if self.ended else self.plan["minimization_steps"]
        work = [minimisation, *(stage.steps for stage in self.stages)]
        done = sum(work[:index]) + step
        self.job.progress(
            done / max(1, sum(work)),
            stage=name,
            stage_index=index,
            stage_count=len(work),
            step=step,
            steps=steps,
            ns_per_day=self._ns_per_day(steps_per_second) if steps_per_second else None,
            eta_seconds=(sum(work) - done) / steps_per_second if steps_per_second else None,
            energies=self._energies,
            stages=self.ended,
            platform=self.platform.getName(),
        )


class MinimisationProgress:
    """Tells how far a minimisation has come, and ends it when the service asks for that."""

    def __init__(self, simulation: Simulation, steps_before: int, limit: int) -> None:
        self._simulation = simulation
        self._steps = steps_before
        self._limit = limit

    def __call__(self) -> bool:
        """Called after each step; true ends it."""
        self._steps += 1
        self._simulation._progress(0, "minimization", self._steps, self._limit)
        return self._simulation.job.stop_requested


class StageFiles:
    """Trajectory and log of a stage, cut to what is committed and continued."""

    def __init__(
        self, folder: Path, stage: Stage, n_atoms: int, timestep_ps: float, committed: dict[str, int] | None
    ) -> None:
        self._dcd: DcdFile | None = None
        if stage.traj_freq:
            length = committed["dcd"] if committed else None
            self._dcd = DcdFile(folder / f"{stage.name}.dcd", n_atoms, stage.traj_freq, timestep_ps, length)
        self._log: BinaryIO
        if committed:
            self._log = (folder / f"{stage.name}.csv").open("r+b")
            self._log.truncate(committed["log"])
            self._log.seek(committed["log"])
        else:
            self._log = (folder / f"{stage.name}.csv").open("w+b")
            self._log.write(LOG_HEADER.encode())

    def write_frame(self, positions_nm: Any, box_nm: Any) -> None:
        """Append a frame to the trajectory."""
        if not np.isfinite(positions_nm).all():
            raise openmm.OpenMMException("Particle coordinate is NaN")
        assert self._dcd is not None
        self._dcd.write(positions_nm, box_nm)

    def write_log(self, line: str) -> None:
        """Append a line to the log."""
        self._log.write(line.encode())

    def commit(self) -> dict[str, int]:
        """Make both durable; returns their lengths."""
        lengths = {"dcd": self._dcd.commit()} if self._dcd else {}
        self._log.flush()
        os.fsync(self._log.fileno())
        return {**lengths, "log": self._log.tell()}

    def close(self) -> int:
        """Commit and close; returns the number of frames."""
        self.commit()
        self._log.close()
        if self._dcd is None:
            return 0
        self._dcd.close()
        return self._dcd.n_frames


class Clock:
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


def _restraint(stage: Stage, start: openmm.State) -> openmm.CustomExternalForce:
    """Harmonic restraint k/2 |x - x0|² to the positions of `start`, nearest periodic image."""
    force = openmm.CustomExternalForce("0.5*k_restraint*periodicdistance(x, y, z, x0, y0, z0)^2")
    force.setName("restraint")
    force.addGlobalParameter("k_restraint", stage.restraint_force)
    for name in ("x0", "y0", "z0"):
        force.addPerParticleParameter(name)
    positions = start.getPositions(asNumpy=True)._value
    for atom in stage.restraint_atoms:
        force.addParticle(atom, [float(x) for x in positions[atom]])
    return force


def _degrees_of_freedom(system: openmm.System) -> int:
    """Three per particle with mass, less one per constraint, less three when drift is removed."""
    n = 3 * sum(1 for i in range(system.getNumParticles()) if system.getParticleMass(i)._value > 0)
    for i in range(system.getNumConstraints()):
        first, second, _ = system.getConstraintParameters(i)
        if system.getParticleMass(first)._value > 0 or system.getParticleMass(second)._value > 0:
            n -= 1
    if any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces()):
        n -= 3
    return n


def _decimal(value: Decimal) -> str:
    """A number as people write it, without an exponent, with as many digits as it has."""
    digits = max(TIME_DIGITS, -int(value.normalize().as_tuple().exponent))
    return f"{value:.{digits}f}"


def _place_of(atom: app.topology.Atom) -> str:
    residue = atom.residue
    return f"{atom.name} of {residue.name} {residue.id} in chain {residue.chain.id}"
