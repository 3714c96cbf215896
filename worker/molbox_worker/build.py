"""Building a system: from a structure file to a solvated, parametrised box.

The plan holds what the service has resolved and checked. Lengths are in nm, energies in kJ/mol.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import openmm
from openmm import app, unit

from molbox_worker import charmm, check, force_field, hydrogens, nbfix, prepare, relax, solvate, structure_input
from molbox_worker.directory import TaskDirectory, replace
from molbox_worker.engine import platform, templates_explained, versions
from molbox_worker.plan import BuildPlan, BuildTask
from molbox_worker.prepared import Account, chain_letters, nothing
from molbox_worker.result import BuildResult, Findings, Progress, Stopped, TaskError
from molbox_worker.structure_output import write_structure
from molbox_worker.summary import summarise
from molbox_worker.topology import write_topology

T = TypeVar("T")

# Share of a build's time by step, roughly.
WEIGHTS = {
    "force_field": 3,
    "read": 1,
    "prepare": 4,
    "ligands": 1,
    "parametrise_ligands": 20,
    "hydrogens": 10,
    "solvate": 40,
    "parametrise": 12,
    "check": 4,
    "write": 5,
}
# The same of a step that grows a membrane.
MEMBRANE_WEIGHT = 1000
# The same of a system that another program has built.
BROUGHT_WEIGHTS = {"read": 10, "check": 10, "write": 5}


def build(task: TaskDirectory, spec: BuildTask) -> BuildResult:
    """Build the system of a task."""
    plan, seed = spec.plan, spec.seed
    if plan.built:
        return _bring(task, spec)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    steps = Steps(task, plan, {**WEIGHTS, "solvate": MEMBRANE_WEIGHT} if plan.membrane else WEIGHTS)

    base = steps.run("force_field", lambda: force_field.load(task, plan, []))
    prepared = nothing()
    protein = plan.protein
    if protein:
        structure = steps.run("read", lambda: structure_input.read(task, protein, plan.chains))
        prepared = steps.run("prepare", lambda: prepare.prepare(task, plan, structure, base, seed))
    modeller = prepared.modeller
    if plan.ligands:
        # RDKit takes 0.1 s to import.
        from molbox_worker import ligand

        ligands = steps.run("ligands", lambda: ligand.read(task, plan))
        ligand.add(task, prepared, ligands)
        base = steps.run("parametrise_ligands", lambda: ligand.parametrise(task, spec, base, ligands))
    if modeller.topology.getNumAtoms():
        write_structure(task.output, "prepared", modeller.topology, modeller.positions)
    if plan.force_field.is_charmm:
        charmm.prune(base, modeller.topology)
    variants = steps.run("hydrogens", lambda: hydrogens.add(task, plan, prepared, base))
    steps.run("solvate", lambda: solvate.solvate(task, plan, modeller, base, steps.report))
    _name_chains(modeller.topology)
    system = steps.run("parametrise", lambda: _parametrise(task, modeller.topology, base))
    state, findings = steps.run("check", lambda: _check(task, system, modeller, prepared.account))

    steps.run("write", lambda: _write(task, modeller.topology, system, state))
    summary = summarise(spec, modeller.topology, system, state, variants, findings)
    return BuildResult(summary, versions(), steps.seconds)


def _bring(task: TaskDirectory, spec: BuildTask) -> BuildResult:
    """Take a system that another program has built for that of a task."""
    from molbox_worker.built import bring, files, load

    steps = Steps(task, spec.plan, BROUGHT_WEIGHTS)
    loaded = steps.run("read", lambda: load.load(task, files.gather(task, spec.plan.built), spec.plan.max_atoms))
    task.log(f"{loaded.source}: {loaded.topology.getNumAtoms()} atoms")
    brought = steps.run("check", lambda: bring.bring(task, loaded))
    _name_chains(brought.topology)
    steps.run("write", lambda: _write(task, brought.topology, brought.system, brought.state))
    summary = summarise(spec, brought.topology, brought.system, brought.state, {}, brought.findings)
    summary = dataclasses.replace(summary, force_field=loaded.source, water_type="as in its files")
    return BuildResult(summary, versions(), steps.seconds)


def _write(task: TaskDirectory, topology: app.Topology, system: openmm.System, state: openmm.State) -> None:
    write_topology(task.output / "topology.json", topology, system, state)
    replace(task.output / "system.xml", openmm.XmlSerializer.serialize(system).encode())
    replace(task.output / "state.xml", openmm.XmlSerializer.serialize(state).encode())
    write_structure(task.output, "system", topology, state.getPositions())


class Steps:
    """Runs the steps of a build, reports progress, keeps times, and stops between them when asked."""

    def __init__(self, task: TaskDirectory, plan: BuildPlan, weights: dict[str, int]) -> None:
        self._task = task
        self._plan = plan
        self._weights = weights
        self._names = list(weights)
        self._name = self._names[0]
        self.seconds: dict[str, float] = {}

    def report(self, share: float = 0.0) -> None:
        """Report how much of the present step is done, from 0 to 1."""
        index = self._names.index(self._name)
        before = sum(self._weights[earlier] for earlier in self._names[:index])
        done = (before + share * self._weights[self._name]) / sum(self._weights.values())
        self._task.report(Progress(self._name, index, len(self._names), done))

    def run(self, name: str, step: Callable[[], T]) -> T:
        """Run one step and return what it returns."""
        if self._task.stop_requested:
            raise Stopped
        self._name = name
        self.report()
        start = time.monotonic()
        try:
            with self._task.heartbeat():
                result = step()
        except openmm.OpenMMException as error:
            if "NaN" not in str(error):
                raise
            raise TaskError(
                "not_finite",
                f"atoms lie so close together that they could not be relaxed (in the step {name!r})",
                remedy="check the coordinates of the structure and the poses of the ligands",
                loc=["body", self._field()],
            ) from error
        self.seconds[name] = round(time.monotonic() - start, 3)
        self._task.log(f"{name}: {self.seconds[name]:.2f} s")
        return result

    def _field(self) -> str:
        """The field of the request that has the coordinates."""
        if self._plan.built:
            return "built"
        return "protein" if self._plan.protein else "ligands"


def _name_chains(topology: app.Topology) -> None:
    """Give blank and repeated chain identifiers a name: mmCIF with them cannot be read back."""
    seen: set[str] = set()
    unnamed = []
    for chain in topology.chains():
        if not chain.id.strip() or chain.id in seen:
            unnamed.append(chain)
        seen.add(chain.id)
    for chain, name in zip(unnamed, chain_letters(seen), strict=False):
        chain.id = name


def _parametrise(task: TaskDirectory, topology: app.Topology, base: app.ForceField) -> openmm.System:
    with templates_explained(topology):
        system = base.createSystem(
            topology,
            nonbondedMethod=app.PME,
            nonbondedCutoff=solvate.CUTOFF_NM * unit.nanometer,
            constraints=app.HBonds,
            rigidWater=True,
        )
    if n_pairs := nbfix.simplify(system):
        task.log(f"pairs of atom types with Lennard-Jones parameters of their own (NBFIX): {n_pairs}")
    return system


def _check(
    task: TaskDirectory, system: openmm.System, modeller: app.Modeller, account: Account
) -> tuple[openmm.State, Findings]:
    """The state of the system as it is written, and what the check found."""
    integrator = openmm.VerletIntegrator(0.001 * unit.picosecond)
    context = openmm.Context(system, integrator, *platform(task))
    context.setPositions(modeller.positions)
    state = context.getState(positions=True, energy=True, forces=True)
    forces = np.linalg.norm(state.getForces(asNumpy=True)._value, axis=1)
    worst = list(modeller.topology.atoms())[int(np.nan_to_num(forces, nan=np.inf).argmax())]
    task.log(f"largest force {forces.max():.3g} kJ/mol/nm on {check.place(worst, account.authors)}")
    if not forces.max() <= check.LARGEST_FORCE:
        task.log("what was added to the structure is minimised in the box")
        context.setPositions(relax.in_box(task, system, state, account.deposited))
        state = context.getState(positions=True, energy=True, forces=True)
    findings = check.check(task, modeller.topology, system, state, account)
    energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
    task.log(f"potential energy {energy:.0f} kJ/mol; {findings.line()}")
    return context.getState(positions=True), findings
