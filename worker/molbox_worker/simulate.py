"""Running a simulation: minimisation, equilibration stages, production.

Killed at any moment and started again, it goes on as if nothing had been.

What counts is `commit.json`. A commit makes the trajectory durable, then the log, then writes the
checkpoint under a new name, and last replaces `commit.json`, which names the length of each file
and the checkpoint: that rename is the moment of the commit. Whatever the files hold beyond those
lengths was never promised and is cut off at the next start.

A checkpoint is good on the same platform only; the portable state beside it serves on others.

On one thread of the CPU platform, going on is exact to the bit. OpenMM's forces depend in their last
bits on the neighbour list, which is as old as the context; so there commits are made at fixed steps,
and the context is made anew after each, as it would be after a kill. Only a commit on being asked to
stop comes when it comes: what follows it is as good, and differs in the last bits.

A succeeded production stage leaves `production.resume.json` among the results, with the checkpoint
that it names, and can be extended: given them and a plan with more steps, the same code goes on.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app

from molbox_worker.dcd import DcdFile
from molbox_worker.engine import DALTON_PER_NM3, MAX_PDB_ATOMS, platform, versions
from molbox_worker.job import Job, JobError, Stopped, replace
from molbox_worker.topology import WATER, read_topology

PRODUCTION = "production"
RESUME = f"{PRODUCTION}.resume.json"
BOLTZMANN = 0.00831446261815324  # kJ/mol/K
BAROSTAT_INTERVAL = 25
CONSTRAINT_TOLERANCE = 1e-6
FORCE_TOLERANCE = 10.0  # kJ/mol/nm, root mean square
# OpenMM minimises in passes, each with stiffer stand-ins for the constraints and a limit of its own.
MINIMISER_PASSES = 6
# A chunk of steps takes about this long, so that signals and progress are not kept waiting.
CHUNK_SECONDS = 0.5
# Estimated time between commits in steps, so that a run on one CPU thread is exact; and what a step
# costs there, in seconds per atom.
EXACT_SECONDS = 30.0
SECONDS_PER_ATOM_STEP = 4.3e-6
# From one step to the next, forces do not grow by this much in anything that holds together.
DEADLY_FORCE = 1e4
MAX_MORE_STEPS = 50
# Atoms that the report of an instability names.
WORST_ATOMS = 3
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
        "stages": simulation.commit["ended"],
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
        seconds = min(job.task["checkpoint_seconds"], EXACT_SECONDS)
        self.exact_steps = max(1, round(seconds / (SECONDS_PER_ATOM_STEP * self.n_atoms)))
        self.commit = self._last_commit()
        self._before_chunk: tuple[int, int, openmm.State] = (0, 0, None)
        self._last_progress = 0.0
        self._energies: dict[str, float] | None = None
        job.log(f"platform {self.platform.getName()} {self.properties}, {self.n_atoms} atoms")

    def _last_commit(self) -> dict[str, Any]:
        # Production may be given more steps; anything else that changes makes another simulation.
        stages = [
            {**stage, "steps": stage["steps"] if stage["name"] != PRODUCTION else 0} for stage in self.plan["stages"]
        ]
        inputs = json.dumps({**self.plan, "stages": stages}, sort_keys=True) + str(self.seed) + self.system_xml
        fingerprint = hashlib.sha256(inputs.encode()).hexdigest()
        path = self.job.path / "commit.json"
        if not path.exists():
            self._take_up_production()
        if not path.exists():
            return {"fingerprint": fingerprint, "stage": None, "step": 0, "seconds": 0.0, "ended": []}
        commit: dict[str, Any] = json.loads(path.read_text())
        if commit["fingerprint"] != fingerprint:
            raise JobError("inputs_changed", "the inputs are not those that the committed progress was made with")
        self.job.log(f"going on from step {commit['step']} of {self._stage_name(commit['stage'])}")
        return commit

    def _take_up_production(self) -> None:
        """Make what a succeeded production stage left behind the present commit, if it is there."""
        left = self.job.output / RESUME
        if not left.exists():
            return
        commit = json.loads(left.read_text())
        start = self.stages[commit["stage"] - 1].name if commit["stage"] > 0 else "minimization"
        copies = {f"{start}.state.xml": f"state_{commit['stage']}.xml"}
        if commit.get("checkpoint"):
            names = (commit["checkpoint"]["file"], commit["checkpoint"]["state"])
            copies |= {f"{PRODUCTION}.{name}": name for name in names}
        for source, target in copies.items():
            replace(self.job.path / target, (self.job.output / source).read_bytes())
        replace(self.job.path / "commit.json", left.read_bytes())

    def _stage_name(self, index: int) -> str:
        return self.stages[index].name if index < len(self.stages) else "the end"

    def _write_commit(self, **changes: Any) -> None:
        self.commit.update(changes)
        replace(self.job.path / "commit.json", json.dumps(self.commit).encode())

    # Minimisation

    def minimise(self) -> None:
        """Minimise the energy, unless that is committed already."""
        if self.commit["stage"] is not None:
            return
        start = time.monotonic()
        context = self._context(None, None)
        self._place(context, self._read_state(self.job.input("state.xml")))
        before, _ = self._energy_and_force(context)
        if not math.isfinite(before):
            raise JobError("not_finite", "the energy of the starting structure is not finite", loc=["body", "box_id"])
        limit = self.plan["minimization_steps"]
        reporter = MinimisationProgress(self, limit)
        if limit > 0:
            # 0 would mean "until converged".
            per_pass = max(1, limit // MINIMISER_PASSES)
            openmm.LocalEnergyMinimizer.minimize(context, FORCE_TOLERANCE, per_pass, reporter)
            if self.job.stop_requested:
                raise Stopped
            if reporter.positions_at_limit is not None:
                context.setPositions(reporter.positions_at_limit)
                context.applyConstraints(CONSTRAINT_TOLERANCE)
                context.computeVirtualSites()
        after, force = self._energy_and_force(context)
        if not math.isfinite(after):
            raise JobError(
                "not_finite",
                "the energy is not finite after minimisation",
                stage="minimization",
                loc=["body", "box_id"],
            )
        self.job.log(f"minimization: {before:.0f} -> {after:.0f} kJ/mol, largest force {force:.0f} kJ/mol/nm")
        ended = {
            "name": "minimization",
            "steps": reporter.steps,
            "frames": 0,
            "seconds": round(time.monotonic() - start, 3),
            "energy_before": before,
            "energy_after": after,
            "largest_force": force,
        }
        self._write_structure("minimization", context)
        self._write_state(0, context.getState(positions=True))
        self._write_commit(stage=0, step=0, seconds=0.0, ended=[ended], checkpoint=None)

    def _energy_and_force(self, context: openmm.Context) -> tuple[float, float]:
        state = context.getState(energy=True, forces=True)
        forces = state.getForces(asNumpy=True)._value
        return float(state.getPotentialEnergy()._value), float(np.linalg.norm(forces, axis=1).max())

    # Stages

    def run(self, index: int, stage: Stage) -> None:
        """Run one stage to its end, unless that is committed already."""
        if self.commit["stage"] > index:
            return
        if self.job.stop_requested:
            raise Stopped
        start = self._read_state(self.job.path / f"state_{index}.xml")
        context = self._context(stage, start)
        step = self._begin(context, start)
        files = StageFiles(self.job.output, stage, self.n_atoms, self.timestep_ps, self.commit.get("files"))
        self.job.log(f"{stage.name}: {stage.ensemble}, from step {step} of {stage.steps}")
        try:
            self._steps(index, stage, context, files, step)
        except openmm.OpenMMException as error:
            raise self._explain(error, index, stage, context) from error
        if stage.name == PRODUCTION and stage.steps and not self.is_exact:
            self._commit_step(context, files, stage.steps, self.commit["seconds"])
        n_frames = files.close()
        self._end(index, stage, context, n_frames)

    def _begin(self, context: openmm.Context, start: openmm.State) -> int:
        """Put the context where the stage starts or was left; returns the step."""
        checkpoint = self.commit.get("checkpoint")
        if checkpoint is None:
            self._place(context, start)
            try:
                context.setVelocities(start.getVelocities())
            except openmm.OpenMMException:
                # A minimised structure has none.
                context.setVelocitiesToTemperature(self.plan["temperature_k"], self.seed)
            return 0
        if checkpoint["platform"] == self.platform.getName():
            content = (self.job.path / checkpoint["file"]).read_bytes()
            # OpenMM loads a truncated checkpoint without complaint.
            if hashlib.sha256(content).hexdigest() != checkpoint["sha256"]:
                raise JobError("checkpoint_damaged", f"{checkpoint['file']} is not what was written")
            try:
                context.loadCheckpoint(content)
                return int(self.commit["step"])
            except openmm.OpenMMException as error:
                # Another version or another processor: the portable state serves.
                self.job.warn("state_resumed", f"the checkpoint does not fit here ({error}); went on from its state")
        context.setState(self._read_state(self.job.path / checkpoint["state"]))
        return int(self.commit["step"])

    def _steps(self, index: int, stage: Stage, context: openmm.Context, files: StageFiles, step: int) -> None:
        integrator = context.getIntegrator()
        clock = Clock(self.commit["seconds"])
        first_step, chunk = step, 10
        last_commit = time.monotonic()
        interval = self.job.task["checkpoint_seconds"]
        events = [frequency for frequency in (stage.traj_freq, stage.log_freq) if frequency]
        if self.is_exact:
            events.append(self.exact_steps)
        while step < stage.steps:
            n = min(stage.steps - step, chunk, *(frequency - step % frequency for frequency in events))
            self._before_chunk = (step, n, context.getState(positions=True, velocities=True))
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
            if is_due or self.job.stop_requested:
                self._commit_step(context, files, step, clock.seconds())
                last_commit = time.monotonic()
                if self.job.stop_requested:
                    raise Stopped
                if self.is_exact:
                    context.reinitialize(preserveState=True)
        self.commit["seconds"] = clock.seconds()

    def _log_energies(self, context: openmm.Context, files: StageFiles, step: int) -> None:
        state = context.getState(energy=True)
        potential, kinetic = state.getPotentialEnergy()._value, state.getKineticEnergy()._value
        if not math.isfinite(potential + kinetic):
            raise openmm.OpenMMException("Energy is NaN")
        volume = state.getPeriodicBoxVolume()._value
        self._energies = {
            "time": step * self.timestep_ps / 1000,
            "potential_energy": potential,
            "kinetic_energy": kinetic,
            "temperature": 2 * kinetic / (self.degrees_of_freedom * BOLTZMANN),
            "volume": volume,
            "density": self.mass / volume * DALTON_PER_NM3,
        }
        e = self._energies
        files.write_log(
            f"{step},{step * self.timestep_ps:.4f},{potential:.4f},{kinetic:.4f},"
            f"{e['temperature']:.3f},{volume:.5f},{e['density']:.5f}\n"
        )

    def _commit_step(self, context: openmm.Context, files: StageFiles, step: int, seconds: float) -> None:
        lengths = files.commit()
        content = context.createCheckpoint()
        name, previous = f"checkpoint_{step}", self.commit.get("checkpoint")
        replace(self.job.path / f"{name}.chk", content)
        state = context.getState(positions=True, velocities=True, parameters=True)
        replace(self.job.path / f"{name}.xml", openmm.XmlSerializer.serialize(state).encode())
        checkpoint = {
            "file": f"{name}.chk",
            "sha256": hashlib.sha256(content).hexdigest(),
            "platform": self.platform.getName(),
            "state": f"{name}.xml",
        }
        self._write_commit(step=step, seconds=seconds, files=lengths, checkpoint=checkpoint)
        self._forget(previous, checkpoint)

    def _forget(self, previous: dict[str, str] | None, present: dict[str, str] | None) -> None:
        """Remove a checkpoint that no commit names any more."""
        if previous and previous != present:
            for key in ("file", "state"):
                (self.job.path / previous[key]).unlink(missing_ok=True)

    def _end(self, index: int, stage: Stage, context: openmm.Context, n_frames: int) -> None:
        self._write_structure(stage.name, context)
        self._write_state(index + 1, context.getState(positions=True, velocities=True))
        seconds = self.commit["seconds"]
        ended = {"name": stage.name, "steps": stage.steps, "frames": n_frames, "seconds": round(seconds, 3)}
        if stage.steps and seconds > 0:
            ended["ns_per_day"] = self._ns_per_day(stage.steps / seconds)
        if stage.name == PRODUCTION:
            self._leave_resumable()
        previous = self.commit.get("checkpoint")
        self._write_commit(
            stage=index + 1,
            step=0,
            seconds=0.0,
            files=None,
            checkpoint=None,
            ended=[*self.commit["ended"], ended],
        )
        self._forget(previous, None)
        self.job.log(f"{stage.name}: {stage.steps} steps, {n_frames} frames, {seconds:.1f} s")

    def _leave_resumable(self) -> None:
        """Leave the last commit among the results, to go on from when the job is extended.

        Where going on is exact that is the commit before the end; the few steps since are run again,
        to the same bits. Elsewhere it is one of the end itself.
        """
        checkpoint = self.commit.get("checkpoint")
        names = {checkpoint["file"], checkpoint["state"]} if checkpoint else set()
        for name in names:
            replace(self.job.output / f"{PRODUCTION}.{name}", (self.job.path / name).read_bytes())
        replace(self.job.output / RESUME, json.dumps(self.commit).encode())
        for old in self.job.output.glob(f"{PRODUCTION}.checkpoint_*"):
            if old.name.removeprefix(f"{PRODUCTION}.") not in names:
                old.unlink()

    def _explain(self, error: openmm.OpenMMException, index: int, stage: Stage, context: openmm.Context) -> Exception:
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
            last, where = self._diagnose(index, stage)
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

    def _diagnose(self, index: int, stage: Stage) -> tuple[int, str]:
        """Run the last chunk once more, step by step; the last sound step, and what went wrong there."""
        first, n_steps, before = self._before_chunk
        context = self._context(stage, self._read_state(self.job.path / f"state_{index}.xml"), grouped=True)
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

    def _context(self, stage: Stage | None, start: openmm.State | None, *, grouped: bool = False) -> openmm.Context:
        """A context for a stage, or for the minimisation; `grouped` gives each force a group of its own."""
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

    def _read_state(self, path: Path) -> openmm.State:
        return openmm.XmlSerializer.deserialize(path.read_text())

    def _write_state(self, index: int, state: openmm.State) -> None:
        content = openmm.XmlSerializer.serialize(state).encode()
        replace(self.job.path / f"state_{index}.xml", content)
        name = self.stages[index - 1].name if index > 0 else "minimization"
        replace(self.job.output / f"{name}.state.xml", content)

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

    def _progress(self, index: int, name: str, step: int, steps: int, steps_per_second: float | None = None) -> None:
        """Tell progress, twice a second at most."""
        now = time.monotonic()
        if now - self._last_progress < 0.5:
            return
        self._last_progress = now
        # A minimisation step costs about as much as a step of dynamics.
        work = [self.plan["minimization_steps"], *(stage.steps for stage in self.stages)]
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
            stages=self.commit["ended"],
            platform=self.platform.getName(),
        )


class MinimisationProgress(openmm.MinimizationReporter):
    """Counts steps, ends the minimisation at their limit, and tells progress."""

    def __init__(self, simulation: Simulation, limit: int) -> None:
        super().__init__()
        self._simulation = simulation
        self._limit = limit
        self.steps = 0
        self.positions_at_limit: NDArray[np.float64] | None = None

    def report(self, _iteration: int, x: list[float], _gradient: object, _args: object) -> bool:
        """Called by OpenMM after each step; True ends the minimisation, where it began.

        So the positions at the limit are kept here.
        """
        if self.positions_at_limit is not None:
            return True
        self.steps += 1
        self._simulation._progress(0, "minimization", self.steps, self._limit)
        if self.steps >= self._limit:
            self.positions_at_limit = np.array(x).reshape(-1, 3)
        return self.positions_at_limit is not None or self._simulation.job.stop_requested


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


def _place_of(atom: app.topology.Atom) -> str:
    residue = atom.residue
    return f"{atom.name} of {residue.name} {residue.id} in chain {residue.chain.id}"
