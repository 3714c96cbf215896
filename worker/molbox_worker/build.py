"""Building a system: from a structure file to a solvated, parametrised box.

The plan (`task.json`, key ``plan``) holds what the service has resolved and checked; see the
service's `tasks/build.rs` for its fields. Lengths are in nm, energies in kJ/mol.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit

from molbox_worker import charmm, force_field, prepare
from molbox_worker.engine import DALTON_PER_NM3, MAX_PDB_ATOMS, is_charmm, platform, templates_explained, versions
from molbox_worker.job import Job, JobError, Stopped, replace
from molbox_worker.topology import WATER, is_solvent, kind, write_topology

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
# The direct-space cutoff that a new system is made with; a job sets its own.
CUTOFF_NM = 1.0
# A box as built is less dense than it becomes at constant pressure.
SHRINKAGE_NM = 0.1
# Of liquid water, and near enough of proteins.
ATOMS_PER_NM3 = 100
# Of atoms that lie on top of each other rather than too close, kJ/mol/nm.
SUSPICIOUS_FORCE = 1e8


def build(job: Job) -> dict[str, Any]:
    """Build the system of a job directory; returns what `result.json` says about it."""
    plan = job.task["plan"]
    seed = job.task["seed"]
    random.seed(seed)
    np.random.seed(seed % 2**32)
    steps = Steps(job, {**WEIGHTS, "solvate": MEMBRANE_WEIGHT} if plan.get("membrane") else WEIGHTS)

    base = steps.run("force_field", lambda: force_field.load(job, plan, []))
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    if plan.get("protein"):
        fixer = steps.run("read", lambda: prepare.read(job, plan))
        modeller = steps.run("prepare", lambda: prepare.prepare(job, plan, fixer, base, seed))
    if plan.get("ligands"):
        # RDKit takes 0.1 s to import.
        from molbox_worker import ligand

        ligands = steps.run("ligands", lambda: ligand.read(job, plan))
        ligand.add(job, modeller, ligands)
        base = steps.run("parametrise_ligands", lambda: ligand.parametrise(job, plan, base, ligands))
    if modeller.topology.getNumAtoms():
        _name_chains(modeller.topology)
        _write_structure(job, "prepared", modeller.topology, modeller.positions)
    if is_charmm(plan):
        charmm.prune(base, modeller.topology)
    variants = steps.run("hydrogens", lambda: _add_hydrogens(job, plan, modeller, base))
    steps.run("solvate", lambda: _solvate(job, plan, modeller, base, steps.tell))
    _name_chains(modeller.topology)
    system = steps.run("parametrise", lambda: _parametrise(job, plan, modeller.topology, base))
    state = steps.run("check", lambda: _check(job, system, modeller, seed))

    def write() -> None:
        write_topology(job.output / "topology.json", modeller.topology, system, state)
        replace(job.output / "system.xml", openmm.XmlSerializer.serialize(system).encode())
        replace(job.output / "state.xml", openmm.XmlSerializer.serialize(state).encode())
        _write_structure(job, "system", modeller.topology, state.getPositions())

    steps.run("write", write)
    return {
        "summary": _summary(job, plan, modeller.topology, system, state, variants),
        "versions": versions(),
        "seconds": steps.seconds,
    }


class Steps:
    """Runs the steps of a build, tells progress, keeps times, and stops between them when asked."""

    def __init__(self, job: Job, weights: dict[str, int]) -> None:
        self._job = job
        self._weights = weights
        self._names = list(weights)
        self._name = self._names[0]
        self.seconds: dict[str, float] = {}

    def tell(self, share: float = 0.0) -> None:
        """Say how much of the present step is done, from 0 to 1."""
        index = self._names.index(self._name)
        before = sum(self._weights[earlier] for earlier in self._names[:index])
        done = (before + share * self._weights[self._name]) / sum(self._weights.values())
        self._job.progress(done, stage=self._name, stage_index=index, stage_count=len(self._names))

    def run(self, name: str, step: Callable[[], T]) -> T:
        """Run one step and return what it returns."""
        if self._job.stop_requested:
            raise Stopped
        self._name = name
        self.tell()
        start = time.monotonic()
        try:
            with self._job.heartbeat():
                result = step()
        except openmm.OpenMMException as error:
            if "NaN" not in str(error):
                raise
            raise JobError(
                "not_finite",
                f"atoms lie so close together that they could not be relaxed (in the step {name!r})",
                remedy="check the coordinates of the structure and the poses of the ligands",
                loc=["body", "protein" if self._job.task["plan"].get("protein") else "ligands"],
            ) from error
        self.seconds[name] = round(time.monotonic() - start, 3)
        self._job.log(f"{name}: {self.seconds[name]:.2f} s")
        return result


def _add_hydrogens(job: Job, plan: dict[str, Any], modeller: app.Modeller, base: app.ForceField) -> dict[str, int]:
    """Place hydrogens at the pH; returns how many residues took which protonation variant."""
    if modeller.topology.getNumAtoms() == 0:
        return {}
    chosen_platform = platform(job)[0]
    waters = _take_out_water(modeller) if _water(plan, base)[1] > 3 else None
    chosen = prepare.variants_beside_metals(job, modeller)
    if plan["keep_hydrogens"]:
        in_file = [prepare.variant_of_file(residue) for residue in modeller.topology.residues()]
        chosen = [beside_metal or told for beside_metal, told in zip(chosen, in_file, strict=True)]
    if modeller.topology.getNumAtoms():
        with templates_explained(modeller.topology):
            modeller.addHydrogens(base, pH=plan["ph"], variants=chosen, platform=chosen_platform)
    if waters is not None:
        # Of four sites and more, it has no template without the last ones, which come after its hydrogens.
        waters.addHydrogens(platform=chosen_platform)
        modeller.add(waters.topology, waters.positions)
    if _needs_extra_particles(plan, base):
        modeller.addExtraParticles(base)
    found = Counter(variant(residue) for residue in modeller.topology.residues())
    return {name: found[name] for name in sorted(found) if name}


def _take_out_water(modeller: app.Modeller) -> app.Modeller | None:
    """The structure's own water, which is no longer in it; None when it has none."""
    residues = list(modeller.topology.residues())
    if not any(residue.name == WATER for residue in residues):
        return None
    waters = app.Modeller(modeller.topology, modeller.positions)
    waters.delete([residue for residue in residues if residue.name != WATER])
    modeller.delete([residue for residue in residues if residue.name == WATER])
    return waters


def variant(residue: app.topology.Residue) -> str:
    """The protonation variant of a residue by Amber's name, told by its hydrogens; "" for the usual one."""
    names = {atom.name for atom in residue.atoms()}
    told = {
        "ASP": "ASH" if "HD2" in names else "",
        "GLU": "GLH" if "HE2" in names else "",
        "LYS": "" if {"HZ1", "HZ2", "HZ3"} <= names else "LYN",
        "CYS": "" if "HG" in names else "CYX",
        "HIS": {(True, True): "HIP", (True, False): "HID", (False, True): "HIE"}.get(
            ("HD1" in names, "HE2" in names), ""
        ),
    }
    return told.get(residue.name, "")


def _needs_extra_particles(plan: dict[str, Any], base: app.ForceField) -> bool:
    """Whether water has more than three sites, or other residues may have some, as CHARMM's."""
    return is_charmm(plan) or _water(plan, base)[1] > 3


def _water(plan: dict[str, Any], base: app.ForceField) -> tuple[str, int]:
    """The model whose geometry `addSolvent` places, and its sites; a custom force field's by its template."""
    water = plan["water"]
    if water.get("model"):
        return water["model"], water["sites"]
    sites = force_field.water_sites(base)
    return {3: "tip3p", 4: "tip4pew", 5: "tip5p"}[sites], sites


def _solvate(
    job: Job, plan: dict[str, Any], modeller: app.Modeller, base: app.ForceField, tell: Callable[[float], None]
) -> None:
    model, sites = _water(plan, base)
    if plan.get("membrane"):
        if sites != 3:
            raise JobError(
                "membrane_water",
                f"the water has {sites} sites; the patches that membranes are made of have 3",
                remedy="choose a water_type with three sites, for example tip3p",
                loc=["body", "water_type"],
            )
        from molbox_worker import membrane

        _refuse_many_atoms(plan, membrane.estimated_volume(modeller, plan["padding_nm"]))
        with templates_explained(modeller.topology, field="membrane"):
            membrane.add(job, plan, modeller, base, tell)
        _refuse_narrow_box(modeller.topology)
        return
    vectors = box_vectors(plan["box_shape"], plan["padding_nm"], _positions(modeller))
    _refuse_many_atoms(plan, vectors[0][0] * vectors[1][1] * vectors[2][2])
    _refuse_width(min(vectors[i][i] for i in range(3)))
    with templates_explained(modeller.topology):
        modeller.addSolvent(
            base,
            model=model,
            boxVectors=[openmm.Vec3(*vector) for vector in vectors] * unit.nanometer,
            positiveIon=plan["positive_ion"],
            negativeIon=plan["negative_ion"],
            ionicStrength=plan["concentration"] * unit.molar,
            neutralize=True,
        )
    if _needs_extra_particles(plan, base):
        modeller.addExtraParticles(base)


def _refuse_many_atoms(plan: dict[str, Any], volume_nm3: float) -> None:
    n_atoms = int(ATOMS_PER_NM3 * volume_nm3)
    if n_atoms > plan["max_atoms"]:
        raise JobError(
            "too_large",
            f"the system would have about {n_atoms} atoms, the service takes {plan['max_atoms']}",
            remedy="lower minimum_padding, choose the dodecahedron, or keep fewer chains",
            loc=["body", "minimum_padding"],
        )


def _refuse_narrow_box(topology: app.Topology) -> None:
    vectors = topology.getPeriodicBoxVectors().value_in_unit(unit.nanometer)
    _refuse_width(min(vectors[i][i] for i in range(3)))


def _refuse_width(width: float) -> None:
    if width < 2 * CUTOFF_NM + SHRINKAGE_NM:
        raise JobError(
            "box_too_small",
            f"the box would be {width:.2f} nm wide; it needs twice the cutoff of {CUTOFF_NM:g} nm and room to shrink,"
            f" {2 * CUTOFF_NM + SHRINKAGE_NM:g} nm",
            remedy="raise minimum_padding",
            loc=["body", "minimum_padding"],
        )


def box_vectors(shape: str, padding_nm: float, positions_nm: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    """Vectors of a periodic box that leaves `padding_nm` between the molecules and every face.

    A rectangular box follows the extent of the molecules as they lie; the others hold their
    bounding sphere, so that they may turn. Shape of `positions_nm`: (n, 3).
    """
    if len(positions_nm) == 0:
        extent, radius = np.zeros(3), 0.0
    else:
        low, high = positions_nm.min(axis=0), positions_nm.max(axis=0)
        extent = high - low
        radius = float(np.linalg.norm(positions_nm - (low + high) / 2, axis=1).max())
    if shape == "rectangular":
        a, b, c = (float(length) + 2 * padding_nm for length in extent)
        return [(a, 0.0, 0.0), (0.0, b, 0.0), (0.0, 0.0, c)]
    width = 2 * (radius + padding_nm)
    third = 1 / 3
    unit_vectors = {
        "cube": [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)],
        "dodecahedron": [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.5, math.sqrt(2) / 2)],
        "octahedron": [
            (1.0, 0.0, 0.0),
            (third, 2 * math.sqrt(2) * third, 0.0),
            (-third, math.sqrt(2) * third, math.sqrt(6) * third),
        ],
    }[shape]
    return [(x * width, y * width, z * width) for x, y, z in unit_vectors]


def _name_chains(topology: app.Topology) -> None:
    """Give blank and repeated chain identifiers a name: mmCIF with them cannot be read back."""
    seen: set[str] = set()
    unnamed = []
    for chain in topology.chains():
        if not chain.id.strip() or chain.id in seen:
            unnamed.append(chain)
        seen.add(chain.id)
    prepare.name_chains(unnamed, seen)


def _parametrise(job: Job, plan: dict[str, Any], topology: app.Topology, base: app.ForceField) -> openmm.System:
    with templates_explained(topology):
        system = base.createSystem(
            topology,
            nonbondedMethod=app.PME,
            nonbondedCutoff=CUTOFF_NM * unit.nanometer,
            constraints=app.HBonds,
            rigidWater=True,
        )
    if is_charmm(plan):
        job.log(f"{charmm.simplify(system)} pairs of atom types have Lennard-Jones parameters of their own (NBFIX)")
    return system


def _check(job: Job, system: openmm.System, modeller: app.Modeller, seed: int) -> openmm.State:
    """Refuse what has no finite energy."""
    integrator = openmm.VerletIntegrator(0.001 * unit.picosecond)
    chosen, properties = platform(job)
    context = openmm.Context(system, integrator, chosen, properties)
    context.setPositions(modeller.positions)
    state = context.getState(positions=True, energy=True, forces=True)
    energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
    forces = np.linalg.norm(state.getForces(asNumpy=True)._value, axis=1)
    worst = list(modeller.topology.atoms())[int(forces.argmax())]
    place = f"{worst.name} of {worst.residue.name} {worst.residue.id} in chain {worst.residue.chain.id}"
    if not math.isfinite(energy):
        raise JobError(
            "not_finite",
            f"the energy is not finite: atoms lie on top of each other, worst at {place}",
            remedy="check the coordinates of the structure file",
            loc=["body", "protein"],
        )
    job.log(f"potential energy {energy:.0f} kJ/mol, largest force {forces.max():.0f} kJ/mol/nm at {place}")
    if forces.max() > SUSPICIOUS_FORCE:
        job.warn("large_force", f"a force of {forces.max():.3g} kJ/mol/nm remains at {place}; minimise well")
    return context.getState(positions=True)


def _write_structure(job: Job, name: str, topology: app.Topology, positions: Any) -> None:
    with (job.output / f"{name}.cif").open("w") as file:
        app.PDBxFile.writeFile(topology, positions, file, keepIds=True)
    if topology.getNumAtoms() <= MAX_PDB_ATOMS:
        with (job.output / f"{name}.pdb").open("w") as file:
            app.PDBFile.writeFile(topology, positions, file, keepIds=True)


def _positions(modeller: app.Modeller) -> NDArray[np.float64]:
    positions = modeller.positions.value_in_unit(unit.nanometer)
    return np.array([[p[0], p[1], p[2]] for p in positions], dtype=np.float64).reshape(-1, 3)


def _summary(
    job: Job,
    plan: dict[str, Any],
    topology: app.Topology,
    system: openmm.System,
    state: openmm.State,
    variants: dict[str, int],
) -> dict[str, Any]:
    """What the built system holds, as the service's record shows it."""
    box = state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.nanometer)
    volume = float(abs(np.linalg.det(box)))
    n_atoms = system.getNumParticles()
    mass = sum(system.getParticleMass(i)._value for i in range(n_atoms))
    nonbonded = next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    charge = sum(nonbonded.getParticleParameters(i)[0]._value for i in range(n_atoms))
    kinds = [kind(residue) for residue in topology.residues()]
    solvent = [name for name, what in zip(_names(topology), kinds, strict=True) if is_solvent(what)]
    return {
        "atoms": n_atoms,
        "residues": topology.getNumResidues(),
        "chains": topology.getNumChains(),
        "molecules": dict(Counter(_kinds_of_molecules(topology, kinds))),
        # Adding zero takes the sign off a rounded -0.0.
        "net_charge": round(charge, 4) + 0.0,
        "box_vectors": [[round(float(x), 6) for x in row] for row in box],
        "volume": round(volume, 6),
        "density": round(mass / volume * DALTON_PER_NM3, 6),
        "force_field": plan["force_field"]["name"],
        "water_type": plan["water"]["name"],
        "variants": variants,
        "seed": job.task["seed"],
        # For the masks of default restraints.
        "solvent_residues": sorted(set(solvent)),
    }


def _names(topology: app.Topology) -> list[str]:
    return [residue.name for residue in topology.residues()]


def _kinds_of_molecules(topology: app.Topology, kinds: list[str]) -> list[str]:
    """The kind of each molecule, that is of each connected component; that of its first residue."""
    parent = list(range(topology.getNumAtoms()))

    def root(atom: int) -> int:
        while parent[atom] != atom:
            parent[atom] = parent[parent[atom]]
            atom = parent[atom]
        return atom

    for bond in topology.bonds():
        first, second = root(bond[0].index), root(bond[1].index)
        parent[max(first, second)] = min(first, second)
    # A virtual site has no bond and belongs to its residue.
    return [
        kinds[atom.residue.index]
        for atom in topology.atoms()
        if atom.element is not None and parent[atom.index] == atom.index
    ]
