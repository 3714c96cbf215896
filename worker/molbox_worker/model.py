"""What a simulation is made of: the system of each of its stages, and the context to run it in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

import openmm
from openmm import app

from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import called, platform
from molbox_worker.plan import SimulateTask, Stage
from molbox_worker.result import ResidueName, TaskError
from molbox_worker.topology import WATER, read_topology

BAROSTAT_INTERVAL = 25
CONSTRAINT_TOLERANCE = 1e-6
# OpenMM has 32 groups of forces.
LAST_GROUP = 31
# What a step costs on one CPU thread, in seconds per atom.
SECONDS_PER_ATOM_STEP = 4.3e-6


class Model:
    """The molecules, the plan and the platform of a simulation; nothing in it changes.

    Attributes
    ----------
    plan
        What is asked for.
    seed
        Of everything random.
    topology
        The molecules.
    n_atoms
        Their number of atoms.
    platform, properties
        Where to calculate.
    timestep_ps
        Time step.
    threads
        Threads of a CPU.
    is_exact
        Whether a resumed simulation gives the same bits as one that was never stopped.

    """

    def __init__(self, task: TaskDirectory, spec: SimulateTask) -> None:
        self.plan = spec.plan
        self.seed = spec.seed
        self.platform, self.properties = platform(task)
        self._system_xml = task.input("system.xml").read_text()
        self.topology = read_topology(task.input("topology.json"))
        self.n_atoms: int = self.topology.getNumAtoms()
        self.timestep_ps = self.plan.timestep_fs / 1000
        self.threads = spec.threads
        self.is_exact = self.platform.getName() == "CPU" and spec.threads == 1

    def fingerprint(self) -> str:
        """Digest of what makes the simulation this one."""
        plan = asdict(self.plan)
        # Production may be given more steps; anything else that changes makes another simulation.
        for stage, content in zip(self.plan.stages, plan["stages"], strict=True):
            content["steps"] = 0 if stage.is_production else stage.steps
        # Either engine resumes what the other has left, and excerpts are made of what is written.
        del plan["engine"], plan["excerpt_atoms"]
        inputs = json.dumps(plan, sort_keys=True) + str(self.seed) + self._system_xml
        return hashlib.sha256(inputs.encode()).hexdigest()

    def steps_in(self, seconds: float) -> int:
        """Steps in so many seconds, estimated without a clock: the same in each attempt."""
        return max(1, int(seconds / (SECONDS_PER_ATOM_STEP * self.n_atoms)))

    def ns_per_day(self, steps_per_second: float) -> float:
        """The speed of a simulation."""
        return float(steps_per_second * self.timestep_ps / 1000 * 86_400)

    def system(self, stage: Stage | None, start: openmm.State | None, step: int = 0) -> openmm.System:
        """The system of a stage that began in the state `start`, or of the minimisation; to continue at a step."""
        system = openmm.XmlSerializer.deserialize(self._system_xml)
        self._set_nonbonded(system)
        if self.plan.hydrogen_mass_da:
            self._repartition(system, self.plan.hydrogen_mass_da)
        if stage and start and stage.restraint_atoms and stage.restraint_force > 0:
            system.addForce(restraint(stage, start))
        if stage and stage.ensemble == "NPT":
            barostat = self._barostat()
            barostat.setRandomNumberSeed(self.stage_seed(stage, 1, step))
            system.addForce(barostat)
        return system

    def context(
        self, stage: Stage | None, start: openmm.State | None, *, step: int = 0, grouped: bool = False
    ) -> openmm.Context:
        """A context for a stage, or for the minimisation; `grouped` gives each force a group of its own.

        One that continues at a `step` has other random numbers than the steps before.
        """
        system = self.system(stage, start, step)
        if grouped:
            for i, force in enumerate(system.getForces()):
                force.setForceGroup(min(i, LAST_GROUP))
        integrator = openmm.LangevinMiddleIntegrator(
            self.plan.temperature_k, self.plan.friction_per_ps, self.timestep_ps
        )
        integrator.setConstraintTolerance(CONSTRAINT_TOLERANCE)
        integrator.setRandomNumberSeed(self.stage_seed(stage, 0, step))
        return openmm.Context(system, integrator, self.platform, self.properties)

    def _barostat(self) -> openmm.Force:
        """Scales the box as a whole; with a membrane, its plane apart from its normal."""
        plan = self.plan
        if not plan.membrane:
            return openmm.MonteCarloBarostat(plan.pressure_bar, plan.temperature_k, BAROSTAT_INTERVAL)
        return openmm.MonteCarloMembraneBarostat(
            plan.pressure_bar,
            plan.surface_tension_bar_nm,
            plan.temperature_k,
            openmm.MonteCarloMembraneBarostat.XYIsotropic,
            openmm.MonteCarloMembraneBarostat.ZFree,
            BAROSTAT_INTERVAL,
        )

    def stage_seed(self, stage: Stage | None, which: int, step: int = 0) -> int:
        """A seed of its own for each random part of each stage, from a step on; OpenMM takes 31 bits."""
        name = f"{self.seed}/{stage.name if stage else 'minimization'}/{which}" + (f"/{step}" if step else "")
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") & 0x7FFFFFFF or 1

    def _set_nonbonded(self, system: openmm.System) -> None:
        for force in system.getForces():
            if not isinstance(force, openmm.NonbondedForce | openmm.CustomNonbondedForce):
                continue
            if force.getUseSwitchingFunction() and force.getSwitchingDistance()._value >= self.plan.cutoff_nm:
                switch = force.getSwitchingDistance()._value
                raise TaskError(
                    "cutoff_below_switch",
                    f"the system's {force.getName()} is switched off from {switch:g} nm on,"
                    f" and the cutoff is {self.plan.cutoff_nm:g} nm",
                    remedy=f"give a non_bonded_cutoff beyond {switch:g} nm, or bring the system without a switch",
                    loc=["body", "non_bonded_cutoff"],
                )
            force.setCutoffDistance(self.plan.cutoff_nm)
            if isinstance(force, openmm.NonbondedForce):
                force.setEwaldErrorTolerance(self.plan.ewald_tolerance)
                # A mesh that a brought system fixes would override the tolerance.
                force.setPMEParameters(0, 0, 0, 0)
                force.setLJPMEParameters(0, 0, 0, 0)

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


def place(context: openmm.Context, state: openmm.State) -> None:
    """Put the atoms and the box of a context where a state has them."""
    context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
    context.setPositions(state.getPositions())


def read_state(content: bytes) -> openmm.State:
    """A state that OpenMM has serialized."""
    return openmm.XmlSerializer.deserialize(content.decode())


def mass(system: openmm.System) -> float:
    """Mass of a system, Da."""
    return float(sum(system.getParticleMass(i)._value for i in range(system.getNumParticles())))


def degrees_of_freedom(system: openmm.System) -> int:
    """Three per particle with mass, less one per constraint, less three when drift is removed."""
    n = 3 * sum(1 for i in range(system.getNumParticles()) if system.getParticleMass(i)._value > 0)
    for i in range(system.getNumConstraints()):
        first, second, _ = system.getConstraintParameters(i)
        if system.getParticleMass(first)._value > 0 or system.getParticleMass(second)._value > 0:
            n -= 1
    if any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces()):
        n -= 3
    return n


def restraint(stage: Stage, start: openmm.State) -> openmm.CustomExternalForce:
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


def place_of(atom: app.topology.Atom) -> str:
    """An atom with its residue and chain, for people."""
    residue = atom.residue
    return f"{atom.name} of {residue.name} {residue.id} in chain {residue.chain.id}"


def counted(residue: app.topology.Residue) -> ResidueName:
    """How its author calls a residue, and how masks count it."""
    return replace(called(residue), index=residue.index + 1)
