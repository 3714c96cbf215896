"""Building a system: from a structure file to a solvated, parametrised box.

The plan (`task.json`, key ``plan``) holds what the service has resolved and checked; see the
service's `tasks/build.rs` for its fields. Lengths are in nm, energies in kJ/mol.
"""

from __future__ import annotations

import io
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

from molbox_worker import charmm, check, force_field, hydrogens, prepare, relax, solvent
from molbox_worker.engine import DALTON_PER_NM3, MAX_PDB_ATOMS, is_charmm, platform, templates_explained, versions
from molbox_worker.job import Job, JobError, Stopped, replace
from molbox_worker.topology import is_solvent, kind, write_topology

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
# Residues between neighbours of which every program knows the bonds.
STANDARD = frozenset(app.PDBFile._standardResidues)
# The same of a step that grows a membrane.
MEMBRANE_WEIGHT = 1000
# The direct-space cutoff that a new system is made with; a job sets its own.
CUTOFF_NM = 1.0
# A box as built is less dense than it becomes at constant pressure.
SHRINKAGE_NM = 0.1
NARROWEST_NM = 2 * CUTOFF_NM + SHRINKAGE_NM
# Of liquid water, and near enough of proteins.
ATOMS_PER_NM3 = 100


def build(job: Job) -> dict[str, Any]:
    """Build the system of a job directory; returns what `result.json` says about it."""
    plan = job.task["plan"]
    seed = job.task["seed"]
    random.seed(seed)
    np.random.seed(seed % 2**32)
    steps = Steps(job, {**WEIGHTS, "solvate": MEMBRANE_WEIGHT} if plan.get("membrane") else WEIGHTS)

    base = steps.run("force_field", lambda: force_field.load(job, plan, []))
    prepared = prepare.nothing()
    if plan.get("protein"):
        structure = steps.run("read", lambda: prepare.read(job, plan))
        prepared = steps.run("prepare", lambda: prepare.prepare(job, plan, structure, base, seed))
    modeller = prepared.modeller
    if plan.get("ligands"):
        # RDKit takes 0.1 s to import.
        from molbox_worker import ligand

        ligands = steps.run("ligands", lambda: ligand.read(job, plan))
        ligand.add(job, prepared, ligands)
        base = steps.run("parametrise_ligands", lambda: ligand.parametrise(job, plan, base, ligands))
    if modeller.topology.getNumAtoms():
        _write_structure(job, "prepared", modeller.topology, modeller.positions)
    if is_charmm(plan):
        charmm.prune(base, modeller.topology)
    variants = steps.run("hydrogens", lambda: hydrogens.add(job, plan, prepared, base))
    steps.run("solvate", lambda: _solvate(job, plan, modeller, base, steps.tell))
    _name_chains(modeller.topology)
    system = steps.run("parametrise", lambda: _parametrise(job, plan, modeller.topology, base))
    state, findings = steps.run("check", lambda: _check(job, system, modeller, prepared.account))

    def write() -> None:
        write_topology(job.output / "topology.json", modeller.topology, system, state)
        replace(job.output / "system.xml", openmm.XmlSerializer.serialize(system).encode())
        replace(job.output / "state.xml", openmm.XmlSerializer.serialize(state).encode())
        _write_structure(job, "system", modeller.topology, state.getPositions())

    steps.run("write", write)
    return {
        "summary": {**_summary(job, plan, modeller.topology, system, state, variants), "check": findings},
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


def _solvate(
    job: Job, plan: dict[str, Any], modeller: app.Modeller, base: app.ForceField, tell: Callable[[float], None]
) -> None:
    model, sites = hydrogens.water(plan, base)
    n_residues = modeller.topology.getNumResidues()
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
        _refuse_missing_ions(plan, modeller.topology, n_residues, base)
        solvent.settle(job, modeller, n_residues)
        return
    vectors = box_vectors(plan["box_shape"], plan["padding_nm"], _positions(modeller))
    _refuse_many_atoms(plan, vectors[0][0] * vectors[1][1] * vectors[2][2])
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
    _refuse_missing_ions(plan, modeller.topology, n_residues, base)
    solvent.settle(job, modeller, n_residues)
    if hydrogens.needs_extra_particles(plan, base):
        modeller.addExtraParticles(base)


def _refuse_missing_ions(plan: dict[str, Any], topology: app.Topology, n_residues: int, base: app.ForceField) -> None:
    """Refuse added ions that the force field lacks; residues from `n_residues` on were added."""
    added = {residue.name for residue in topology.residues() if residue.index >= n_residues}
    for ion in (plan["positive_ion"], plan["negative_ion"]):
        symbol = ion.rstrip("+-")
        name = symbol.upper()
        if name in added and not force_field.has_ion(base, name, name, app.Element.getBySymbol(symbol)):
            raise JobError(
                "no_template",
                f"{plan['force_field']['name']} has no template for {ion}, that is for a residue {name} of one atom",
                remedy="choose ions that it has, or add them to the force-field file",
                loc=["body", "ions"],
            )


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
    width = min(vectors[i][i] for i in range(3))
    if width < NARROWEST_NM:
        raise JobError(
            "box_too_small",
            f"the membrane's box would be {width:.2f} nm wide; it needs twice the cutoff of {CUTOFF_NM:g} nm and room"
            f" to shrink, {NARROWEST_NM:g} nm",
            remedy="raise minimum_padding",
            loc=["body", "minimum_padding"],
        )


def box_vectors(shape: str, padding_nm: float, positions_nm: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    """Vectors of a periodic box that leaves at least `padding_nm` between the molecules and every face.

    A rectangular box follows the extent of the molecules as they lie; the others hold their
    bounding sphere, so that they may turn. None is narrower than the cutoff allows. Shape of
    `positions_nm`: (n, 3).
    """
    if len(positions_nm) == 0:
        extent, radius = np.zeros(3), 0.0
    else:
        low, high = positions_nm.min(axis=0), positions_nm.max(axis=0)
        extent = high - low
        radius = float(np.linalg.norm(positions_nm - (low + high) / 2, axis=1).max())
    if shape == "rectangular":
        a, b, c = (max(float(length) + 2 * padding_nm, NARROWEST_NM) for length in extent)
        return [(a, 0.0, 0.0), (0.0, b, 0.0), (0.0, 0.0, c)]
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
    narrowest = min(unit_vectors[i][i] for i in range(3))
    width = max(2 * (radius + padding_nm), NARROWEST_NM / narrowest)
    return [(x * width, y * width, z * width) for x, y, z in unit_vectors]


def _name_chains(topology: app.Topology) -> None:
    """Give blank and repeated chain identifiers a name: mmCIF with them cannot be read back."""
    seen: set[str] = set()
    unnamed = []
    for chain in topology.chains():
        if not chain.id.strip() or chain.id in seen:
            unnamed.append(chain)
        seen.add(chain.id)
    for chain, name in zip(unnamed, prepare.chain_letters(seen), strict=False):
        chain.id = name


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


def _check(
    job: Job, system: openmm.System, modeller: app.Modeller, account: prepare.Account
) -> tuple[openmm.State, dict[str, Any]]:
    """The state of the system as it is written, and what the check found."""
    integrator = openmm.VerletIntegrator(0.001 * unit.picosecond)
    context = openmm.Context(system, integrator, *platform(job))
    context.setPositions(modeller.positions)
    state = context.getState(positions=True, energy=True, forces=True)
    forces = np.linalg.norm(state.getForces(asNumpy=True)._value, axis=1)
    worst = list(modeller.topology.atoms())[int(np.nan_to_num(forces, nan=np.inf).argmax())]
    job.log(f"largest force {forces.max():.3g} kJ/mol/nm on {check.place(worst, account.authors)}")
    if not forces.max() <= check.LARGEST_FORCE:
        job.log("what was added to the structure is minimised in the box")
        context.setPositions(relax.in_box(job, system, state, account.deposited))
        state = context.getState(positions=True, energy=True, forces=True)
    findings = check.check(job, modeller.topology, system, state, account)
    energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
    job.log(f"potential energy {energy:.0f} kJ/mol; {findings}")
    return context.getState(positions=True), findings.summary()


def _write_structure(job: Job, name: str, topology: app.Topology, positions: Any) -> None:
    with (job.output / f"{name}.cif").open("w") as file:
        header = io.StringIO()
        app.PDBxFile.writeHeader(topology, header, keepIds=True)
        file.write(_with_links(header.getvalue(), topology))
        app.PDBxFile.writeModel(topology, positions, file, keepIds=True)
    if topology.getNumAtoms() <= MAX_PDB_ATOMS:
        with (job.output / f"{name}.pdb").open("w") as file:
            app.PDBFile.writeFile(topology, positions, file, keepIds=True)


def _with_links(header: str, topology: app.Topology) -> str:
    """The header of a mmCIF file with the bonds that close rings, which OpenMM leaves out of it.

    It writes those of residues that it does not know, and those of disulfides.
    """
    rows: list[str] = []
    for a, b in topology.bonds():
        is_inner = a.residue is b.residue or abs(a.residue.index - b.residue.index) == 1
        is_written = {a.residue.name, b.residue.name} - STANDARD or a.name == b.name == "SG"
        if not is_inner and not is_written:
            ends = [f"{x.residue.chain.id} {x.residue.name} {x.residue.id} {x.name}" for x in (a, b)]
            rows.append(f"ring{len(rows) + 1} covale {ends[0]} {ends[1]}\n")
    start, atoms, rest = header.partition("loop_\n_atom_site.")
    if not rows:
        return header
    if "_struct_conn.id" not in start:
        columns = [f"ptnr{i}_label_{what}" for i in (1, 2) for what in ("asym_id", "comp_id", "seq_id", "atom_id")]
        start += "loop_\n" + "".join(f"_struct_conn.{column}\n" for column in ("id", "conn_type_id", *columns))
    return start.removesuffix("#\n") + "".join(rows) + "#\n" + atoms + rest


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
    kinds = [kind(residue) for residue in topology.residues()]
    solvent = [name for name, what in zip(_names(topology), kinds, strict=True) if is_solvent(what)]
    return {
        "atoms": n_atoms,
        "residues": topology.getNumResidues(),
        "chains": topology.getNumChains(),
        "molecules": dict(Counter(_kinds_of_molecules(topology, kinds))),
        # Adding zero takes the sign off a rounded -0.0.
        "net_charge": round(check.net_charge(system), 4) + 0.0,
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
