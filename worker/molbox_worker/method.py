"""How a stage was run: what the engine was really given, read back from it, and on what machine.

`NAME.method.json` beside a stage's other files has it. A paper's methods section, and the comparison of a
run with its repetition, are made from these files.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openmm

from molbox_worker.directory import replace
from molbox_worker.engine import GPU, versions
from molbox_worker.gromacs import mdp
from molbox_worker.gromacs.program import Gromacs
from molbox_worker.gromacs.terms import Terms
from molbox_worker.model import Model
from molbox_worker.plan import Stage
from molbox_worker.result import as_json
from molbox_worker.topology import WATER

# What is kept of a part of a stage that something else went on with.
OF_PART = ("engine", "machine", "integrator", "barostat", "constraints")
# Of OpenMM's mesh, in all of its platforms.
OPENMM_PME_ORDER = 5


@dataclass(frozen=True)
class Machine:
    """Where a stage was run, in its last attempt, and the threads of the processor that the engine was given."""

    processor: str
    architecture: str
    system: str
    threads: int
    gpu: str | None = None


@dataclass(frozen=True)
class Engine:
    """The program that took the steps; `platform` is OpenMM's, `simd` what GROMACS was built for."""

    name: str
    version: str
    precision: str
    platform: str | None = None
    simd: str | None = None


@dataclass(frozen=True)
class Integrator:
    """What moves the atoms: ``LangevinMiddleIntegrator``, ``sd`` or ``md``; without friction it is no thermostat."""

    name: str
    timestep_fs: float
    temperature_k: float | None
    friction_per_ps: float | None
    seed: int


@dataclass(frozen=True)
class Barostat:
    """What keeps the pressure.

    Attributes
    ----------
    name
        ``MonteCarloBarostat``, ``MonteCarloMembraneBarostat`` or ``C-rescale``.
    interval_steps
        Steps between its changes of the box.
    surface_tension_bar_nm
        Of a membrane, whose plane and normal change apart.
    tau_ps, compressibility_per_bar
        Of C-rescale; the latter is that of water, or less where restraints are stiff.
    seed
        Of what is random in it, where that is not the integrator's.

    """

    name: str
    pressure_bar: float
    interval_steps: int
    surface_tension_bar_nm: float | None = None
    tau_ps: float | None = None
    compressibility_per_bar: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Constraints:
    """How many distances are held, by SETTLE, CCMA, SHAKE or LINCS, and within what relative tolerance."""

    of_water: int
    of_others: int
    algorithms: list[str]
    tolerance: float | None = None


@dataclass(frozen=True)
class Nonbonded:
    """What is not bonded: Lennard-Jones is switched off from `switch_nm` on.

    `mesh` has the points of PME as the stage began, `order` is that of its splines, `width_per_nm` that of the
    charges' Gaussians.
    """

    method: str
    cutoff_nm: float
    switch_nm: float | None
    dispersion_correction: bool
    ewald_tolerance: float
    mesh: list[int]
    order: int
    width_per_nm: float


@dataclass(frozen=True)
class Restraint:
    """Atoms that are held to where the stage began; the energy is half of `force` (kJ/mol/nm²) by distance squared."""

    atoms: int
    force: float


@dataclass(frozen=True)
class Method:
    """How a stage was run: the content of `NAME.method.json`."""

    stage: str
    ensemble: str
    steps: int
    engine: Engine
    machine: Machine
    integrator: Integrator
    barostat: Barostat | None
    constraints: Constraints
    nonbonded: Nonbonded | None
    restraint: Restraint | None
    hydrogen_mass_da: float | None
    removes_drift: bool


def write(output: Path, method: Method, step: int) -> dict[str, Any] | None:
    """Write the file of a stage that is begun, or taken up at a step, into the folder of results.

    What ran the steps before stays as the member `before`, by parts, where it was something else. Returns
    the part that ends at the step, if there is one.
    """
    path, found = _path(output, method.stage), as_json(method)
    parts = _parts_before(path, found, step)
    if parts:
        found["before"] = parts
    replace(path, json.dumps(found, indent=1).encode() + b"\n")
    return parts[-1] if parts and parts[-1]["steps"][1] == step else None


def read(output: Path, stage: str) -> dict[str, Any] | None:
    """How a stage was run, by its file in the folder of results; None where it took no step."""
    path = _path(output, stage)
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found


def is_exact(part: dict[str, Any]) -> bool:
    """Whether the steps of a part are the same bits each time: on the same processor and as many threads."""
    engine, threads = part["engine"], part["machine"]["threads"]
    return bool(engine["name"] == "gromacs" or (engine["platform"] == "CPU" and threads == 1))


def version_of(output: Path, stages: list[Stage], engine: str) -> str | None:
    """The version of an engine that ran steps of a stage, the last of several; None if it ran none."""
    files = [_path(output, stage.name) for stage in stages]
    methods = [json.loads(path.read_text()) for path in files if path.exists()]
    engines = [part["engine"] for each in methods for part in (*each.get("before", []), each)]
    return next((str(each["version"]) for each in reversed(engines) if each["name"] == engine), None)


def _path(output: Path, stage: str) -> Path:
    return output / f"{stage}.method.json"


def _parts_before(path: Path, found: dict[str, Any], step: int) -> list[dict[str, Any]]:
    """What ran the steps of a stage before one from which on it is run as found, by parts that differ."""
    if not step or not path.exists():
        return []
    earlier = json.loads(path.read_text())
    parts: list[dict[str, Any]] = earlier.get("before", [])
    first = parts[-1]["steps"][1] if parts else 0
    parts.append({**{name: earlier[name] for name in OF_PART if name in earlier}, "steps": [first, step]})
    # An attempt may have ended without a commit.
    parts = [part for part in parts if part["steps"][0] < min(part["steps"][1], step)]
    while parts and _is_same(parts[-1], found):
        parts.pop()
    return parts


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two parts of a stage were run alike. What is random has other seeds from a portable state on."""

    def without_seed(part: Any) -> Any:
        return {name: each for name, each in part.items() if name != "seed"} if isinstance(part, dict) else part

    return all(without_seed(one.get(name)) == without_seed(other.get(name)) for name in OF_PART)


def of_openmm(model: Model, stage: Stage, context: openmm.Context) -> Method:
    """Of a stage that a context is to run, read from the context, which has calculated energies."""
    system, integrator = context.getSystem(), context.getIntegrator()
    chosen = context.getPlatform()
    name = chosen.getName()
    is_on_gpu = name in GPU
    gpu = chosen.getPropertyValue(context, "DeviceName") if is_on_gpu else None
    # The Reference platform alone has doubles throughout.
    precision = chosen.getPropertyValue(context, "Precision") if is_on_gpu else "mixed"
    of_water, of_others = _constraints(model, system)
    others = ["SHAKE", "CCMA"] if is_on_gpu else ["CCMA"]
    friction = integrator.getFriction()._value
    return Method(
        stage=stage.name,
        ensemble=stage.ensemble,
        steps=stage.steps,
        engine=Engine("openmm", versions()["openmm"], "double" if name == "Reference" else precision, platform=name),
        machine=machine(model.threads, gpu),
        integrator=Integrator(
            type(integrator).__name__,
            integrator.getStepSize()._value * 1000,
            integrator.getTemperature()._value if friction else None,
            friction or None,
            integrator.getRandomNumberSeed(),
        ),
        barostat=next(filter(None, map(_barostat, system.getForces())), None),
        constraints=Constraints(
            of_water,
            of_others,
            ["SETTLE"] * bool(of_water) + others * bool(of_others),
            integrator.getConstraintTolerance(),
        ),
        nonbonded=_nonbonded(system, context),
        restraint=_restraint(stage),
        hydrogen_mass_da=model.plan.hydrogen_mass_da,
        removes_drift=any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces()),
    )


def of_gromacs(
    model: Model, stage: Stage, gromacs: Gromacs, terms: Terms, system: openmm.System, given: mdp.Parameters
) -> Method:
    """Of a stage that GROMACS is given these parameters for."""
    of_water, of_others = _constraints(model, system)
    is_water_settled, has_lincs = bool(terms.lines["settles"]), bool(terms.lines["constraints"])
    barostat = None
    if "pcoupl" in given:
        is_membrane = given["pcoupltype"] == "surface-tension"
        barostat = Barostat(
            str(given["pcoupl"]),
            model.plan.pressure_bar,
            int(str(given["nstpcouple"])),
            surface_tension_bar_nm=model.plan.surface_tension_bar_nm if is_membrane else None,
            tau_ps=float(str(given["tau-p"])),
            compressibility_per_bar=float(str(given["compressibility"]).split()[0]),
        )
    direct = terms.direct
    assert direct is not None
    is_thermostatted = given["integrator"] == "sd"
    grid = [int(str(given[f"fourier-n{axis}"])) for axis in "xyz"]
    return Method(
        stage=stage.name,
        ensemble=stage.ensemble,
        steps=stage.steps,
        engine=Engine("gromacs", gromacs.version, "double" if gromacs.is_double else "mixed", simd=gromacs.simd),
        machine=machine(model.threads),
        integrator=Integrator(
            str(given["integrator"]),
            float(str(given["dt"])) * 1000,
            float(str(given["ref-t"])) if is_thermostatted else None,
            1 / float(str(given["tau-t"])) if is_thermostatted else None,
            int(str(given.get("ld-seed", model.stage_seed(stage, 0)))),
        ),
        barostat=barostat,
        constraints=Constraints(of_water, of_others, ["SETTLE"] * is_water_settled + ["LINCS"] * has_lincs),
        nonbonded=Nonbonded(
            str(given["coulombtype"]),
            float(str(given["rcoulomb"])),
            direct.switch,
            direct.has_correction,
            model.plan.ewald_tolerance,
            grid,
            int(str(given["pme-order"])),
            mdp.ewald_width(direct.cutoff, model.plan.ewald_tolerance),
        ),
        restraint=_restraint(stage),
        hydrogen_mass_da=model.plan.hydrogen_mass_da,
        removes_drift=terms.removes_drift,
    )


def machine(threads: int, gpu: str | None = None) -> Machine:
    """The machine that this runs on."""
    return Machine(_processor(), platform.machine(), f"{platform.system()} {platform.release()}", threads, gpu)


def _processor() -> str:
    """The name that Linux has for the processor; elsewhere the family."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _constraints(model: Model, system: openmm.System) -> tuple[int, int]:
    """How many constraints there are within water, and elsewhere."""
    is_water = [atom.residue.name == WATER for atom in model.topology.atoms()]
    n_water = sum(is_water[system.getConstraintParameters(i)[0]] for i in range(system.getNumConstraints()))
    return n_water, system.getNumConstraints() - n_water


def _barostat(force: openmm.Force) -> Barostat | None:
    name = type(force).__name__
    if isinstance(force, openmm.MonteCarloBarostat):
        tension = None
    elif isinstance(force, openmm.MonteCarloMembraneBarostat):
        tension = float(force.getDefaultSurfaceTension()._value)
    else:
        return None
    pressure = float(force.getDefaultPressure()._value)
    return Barostat(
        name, pressure, force.getFrequency(), surface_tension_bar_nm=tension, seed=force.getRandomNumberSeed()
    )


def _nonbonded(system: openmm.System, context: openmm.Context) -> Nonbonded | None:
    """Of a system whose charges are on a mesh."""
    forces = [force for force in system.getForces() if isinstance(force, openmm.NonbondedForce)]
    if len(forces) != 1 or forces[0].getNonbondedMethod() != openmm.NonbondedForce.PME:
        return None
    force = forces[0]
    # Lennard-Jones may be in a force beside the charges.
    has_own = any(force.getParticleParameters(i)[2]._value for i in range(force.getNumParticles()))
    custom = [each for each in system.getForces() if isinstance(each, openmm.CustomNonbondedForce)]
    lennard_jones = [force] if has_own or not custom else custom
    switches = [each.getSwitchingDistance()._value for each in lennard_jones if each.getUseSwitchingFunction()]
    corrections = [
        each.getUseLongRangeCorrection()
        if isinstance(each, openmm.CustomNonbondedForce)
        else each.getUseDispersionCorrection()
        for each in lennard_jones
    ]
    cutoff, tolerance = force.getCutoffDistance()._value, force.getEwaldErrorTolerance()
    width, *mesh = force.getPMEParametersInContext(context)
    return Nonbonded(
        "PME",
        cutoff,
        switches[0] if switches else None,
        all(corrections),
        tolerance,
        mesh,
        OPENMM_PME_ORDER,
        width,
    )


def _restraint(stage: Stage) -> Restraint | None:
    if not stage.restraint_atoms or stage.restraint_force <= 0:
        return None
    return Restraint(len(stage.restraint_atoms), stage.restraint_force)
