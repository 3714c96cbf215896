"""The System as GROMACS calculates it: each term of the energy, and the forces, are OpenMM's."""

from __future__ import annotations

import math
import random
import shutil
import subprocess
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import AMBER19, DATA, Directory
from numpy.typing import NDArray
from openmm import app, unit
from test_residues import part

from molbox_worker.gromacs import files, mdp
from molbox_worker.gromacs.terms import Terms, Unsupported
from molbox_worker.gromacs.topology import write_topology
from molbox_worker.model import restraint
from molbox_worker.nbfix import simplify
from molbox_worker.plan import Stage
from molbox_worker.topology import read_topology

Builder = Callable[..., Directory]

needs_gmx_d = pytest.mark.skipif(
    shutil.which("gmx_d") is None, reason="needs gmx_d, GROMACS in double precision: Debian's package gromacs"
)
TOLERANCE = 5e-4
# The first half of villin, which has a helix and most kinds of residues.
PEPTIDE = "".join(part(42, 58))
# The names of energies in an .edr by the force of OpenMM, whose names the System has.
NAMES = {
    "HarmonicBondForce": ("Bond", "Harmonic Pot."),
    "HarmonicAngleForce": ("Angle",),
    "PeriodicTorsionForce": ("Proper Dih.",),
    "RBTorsionForce": ("Ryckaert-Bell.",),
    "CustomTorsionForce": ("Improper Dih.",),
    "CMAPTorsionForce": ("CMAP Dih.",),
    "restraint": ("Position Rest.",),
    "NonbondedForce": ("LJ (SR)", "Coulomb (SR)", "LJ-14", "Coulomb-14", "Coul. recip."),
}
# What an .edr has besides energies of terms.
IDLE = {
    *("Disper. corr.", "Potential", "Kinetic En.", "Total Energy", "Conserved En.", "Temperature", "Pressure"),
    *("Pres. DC", "Constr. rmsd", "T-rest", "#Surf*SurfTen"),
    *(f"{what}-{row}{column}" for what in ("Vir", "Pres") for row in "XYZ" for column in "XYZ"),
}
# What one program has as parts of the other's.
SAME_AS = {
    **dict.fromkeys(("NBFIX", "LennardJones14", "CustomBondForce"), "NonbondedForce"),
    # Of OpenMM's loaders of other programs' files.
    **dict.fromkeys(("LennardJonesForce", "LennardJonesExceptions"), "NonbondedForce"),
    **dict.fromkeys(("HarmonicTorsionForce", "ImproperTorsionForce"), "CustomTorsionForce"),
    "UreyBradleyForce": "HarmonicBondForce",
}


class Comparison:
    """Energies by the name of OpenMM's force and forces of a structure, from both programs."""

    def __init__(self, folder: Path, system: openmm.System, topology: app.Topology, state: Any) -> None:
        self.folder, self.system = folder, system
        self.terms = Terms(system)
        write_topology(folder / "topol.top", self.terms, topology)
        assert self.terms.direct is not None
        box = np.array(state.getPeriodicBoxVectors(asNumpy=True)._value)
        for i, force in enumerate(system.getForces()):
            force.setForceGroup(i)
            if isinstance(force, openmm.NonbondedForce):
                # Its own grid, before it is made one that is fast to transform.
                force.setPMEParameters(*_ewald(self.terms, box))
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
        context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
        # As many digits as the structure for GROMACS has; sites and rigid water exactly where they belong.
        context.setPositions(state.getPositions(asNumpy=True)._value.round(9))
        context.applyConstraints(1e-10)
        context.computeVirtualSites()
        found = context.getState(positions=True, forces=True)
        self.positions = found.getPositions(asNumpy=True)._value
        self.box = box
        self.openmm_forces = found.getForces(asNumpy=True)._value
        self.openmm: dict[str, float] = {}
        for i, force in enumerate(system.getForces()):
            energy = context.getState(energy=True, groups={i}).getPotentialEnergy()._value
            name = SAME_AS.get(force.getName(), force.getName())
            if name in NAMES:
                self.openmm[name] = self.openmm.get(name, 0.0) + energy
        self.correction = self._correction(context)
        self.openmm["NonbondedForce"] -= self.correction
        self._run()

    def _correction(self, context: openmm.Context) -> float:
        """The dispersion correction, which depends on the volume alone."""
        with_it = self._nonbonded(context)
        for force in self.system.getForces():
            if isinstance(force, openmm.NonbondedForce):
                force.setUseDispersionCorrection(False)
            elif isinstance(force, openmm.CustomNonbondedForce):
                force.setUseLongRangeCorrection(False)
        context.reinitialize(preserveState=True)
        return with_it - self._nonbonded(context)

    def _nonbonded(self, context: openmm.Context) -> float:
        kinds = openmm.NonbondedForce, openmm.CustomNonbondedForce
        groups = {i for i, force in enumerate(self.system.getForces()) if isinstance(force, kinds)}
        return float(context.getState(energy=True, groups=groups).getPotentialEnergy()._value)

    def _run(self) -> None:
        assert self.terms.direct is not None
        cutoff = self.terms.direct.cutoff
        parameters = {
            **mdp.energy_parameters(self.terms.direct, TOLERANCE, self.box),
            "integrator": "md",
            "nsteps": 0,
            "verlet-buffer-tolerance": -1,
            # A shorter list lacks pairs within the cutoff whose molecules are mostly beyond it: some at 1.05 nm.
            "rlist": cutoff + 0.1,
            "nstlist": 1,
            "nstfout": 1,
            "nstcalcenergy": 1,
            "nstenergy": 1,
            "continuation": "yes",
            "comm-mode": "none",
        }
        (self.folder / "point.mdp").write_text(mdp.text(parameters))
        files.write_g96(self.folder / "conf.g96", self.positions, self.box)
        held = self.positions.copy()
        for force in self.system.getForces():
            for i in range(force.getNumParticles() if force.getName() == "restraint" else 0):
                atom, place = force.getParticleParameters(i)
                held[atom] = place
        files.write_g96(self.folder / "held.g96", held, self.box)
        self._gmx_d("grompp -f point.mdp -c conf.g96 -r held.g96 -p topol.top -o point.tpr -maxwarn 9")
        self._gmx_d("mdrun -s point.tpr -deffnm point -ntmpi 1 -ntomp 1 -pin off -notunepme")
        (energies,) = files.Energies(self.folder, "point.edr", is_double=True).new()
        (frame,) = files.Trajectory(self.folder, "point.trr").new()
        assert frame.forces is not None
        self.gromacs = {name: sum(energies.terms.get(part, 0.0) for part in NAMES[name]) for name in self.openmm}
        self.gromacs_correction = energies.terms.get("Disper. corr.", 0.0)
        self.others = energies.terms.keys() - {part for name in self.openmm for part in NAMES[name]}
        self.gromacs_forces = frame.forces

    def _gmx_d(self, arguments: str) -> None:
        command = ["gmx_d", "-nobackup", *arguments.split()]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def table(self) -> str:
        lines = [
            f"{name:24}{energy:16.6f}{self.gromacs[name]:16.6f}{self.gromacs[name] - energy:12.2e}"
            for name, energy in self.openmm.items()
        ]
        return "\n".join(lines)

    def check(self) -> None:
        """Each term to 1e-6, or to 1e-6 kJ/mol where it is nearly nothing; forces to 1e-5 of their mean."""
        for name, energy in self.openmm.items():
            assert self.gromacs[name] == pytest.approx(energy, rel=1e-6, abs=1e-6), f"{name}\n{self.table()}"
        # GROMACS leaves out excluded pairs as it averages.
        assert self.gromacs_correction == pytest.approx(self.correction, rel=5e-3)
        ours, theirs = (self._of_bodies(forces) for forces in (self.openmm_forces, self.gromacs_forces))
        rms = math.sqrt((ours**2).sum(axis=1).mean())
        assert math.sqrt(((ours - theirs) ** 2).sum(axis=1).mean()) < 1e-5 * rms
        assert np.linalg.norm(ours - theirs, axis=1).max() < 1e-4 * rms

    def _of_bodies(self, forces: NDArray[np.float64]) -> NDArray[np.float64]:
        """Forces on atoms; of rigid water with sites, force and torque of the whole.

        How the force on a site is shared out to atoms that are rigid is each program's own.
        """
        terms = self.terms
        forces = forces.copy()
        sites = {atoms[0] for name in ("virtual_sites2", "virtual_sites3") for atoms, _ in terms.lines[name]}
        waters = np.array([atoms[0] for atoms, _ in terms.lines["settles"]], dtype=int)
        if not sites or not len(waters):
            return forces[[not is_site for is_site in terms.is_site]]
        triangles = waters[:, None] + np.arange(3)
        rest = [i for i in range(terms.n_atoms) if i not in sites and i not in set(triangles.ravel().tolist())]
        places, on_them = self.positions[triangles], forces[triangles]
        arms = places - places[:, :1]
        # Over a nanometre, so that it is a force.
        return np.concatenate([forces[rest], on_them.sum(axis=1), np.cross(arms, on_them).sum(axis=1)])


def _ewald(terms: Terms, box: NDArray[np.float64]) -> tuple[float, int, int, int]:
    assert terms.direct is not None
    alpha, grid = mdp.ewald(terms.direct.cutoff, TOLERANCE, box)
    return alpha, *grid


def compare(
    built: Directory, folder: Path, change: Callable[[openmm.System, app.Topology, Any], object] = lambda *_: None
) -> Comparison:
    """Both programs' energies of a built system, after a change of it."""
    assert built.result["status"] == "succeeded", built.log()
    system = openmm.XmlSerializer.deserialize(built.output("system.xml").read_text())
    state = openmm.XmlSerializer.deserialize(built.output("state.xml").read_text())
    topology = read_topology(built.output("topology.json"))
    change(system, topology, state)
    return Comparison(folder, system, topology, state)


def amber(
    name: str, files: list[str], water: str = "tip3p", folder: str = "amber14/", sites: int = 3
) -> dict[str, Any]:
    return {
        "force_field": {"name": name, "family": "amber", "files": files, "custom": None},
        "water": {
            "name": water,
            "file": f"{folder}{water}.xml",
            "model": "tip4pew" if sites == 4 else "tip3p",
            "sites": sites,
        },
    }


def charmm(name: str = "charmm36_2024", water: str = "water", model: str = "tip3p", sites: int = 3) -> dict[str, Any]:
    return {
        "force_field": {"name": name, "family": "charmm", "files": [f"{name}.xml"], "custom": None},
        "water": {"name": water, "file": f"{name}/{water}.xml", "model": model, "sites": sites},
    }


def name_of(plan: dict[str, Any]) -> str:
    return f"{plan['force_field']['name']} {plan['water']['name']}"


FAMILIES = [
    amber("amber14", ["amber14-all.xml"]),
    AMBER19,
    amber("amber14-ff15ipq", ["amber14/protein.ff15ipq.xml"], "spce"),
    amber("amberfb15", ["amberfb15.xml"], "tip3pfb", ""),
    charmm("charmm36"),
    charmm(),
]


def hold_alpha_carbons(system: openmm.System, topology: app.Topology, state: Any) -> None:
    """Restraints to places a little off, so that they have energy."""
    atoms = [atom.index for atom in topology.atoms() if atom.name == "CA"]
    assert atoms
    stage = Stage("production", "NVT", 0, 0, 0, 1000.0, atoms)
    force = restraint(stage, state)
    chance = np.random.default_rng(1)
    for i, atom in enumerate(atoms):
        _, place = force.getParticleParameters(i)
        force.setParticleParameters(i, atom, (np.array(place) + chance.normal(0, 0.02, 3)).round(9).tolist())
    system.addForce(force)


@needs_gmx_d
@pytest.mark.parametrize("plan", FAMILIES, ids=name_of)
def test_a_protein_has_openmms_energies_in_each_family(builder: Builder, plan: dict[str, Any], tmp_path: Path) -> None:
    built = builder(PEPTIDE, box_shape="cube", padding_nm=0.3, concentration=0.3, **plan)
    found = compare(built, tmp_path, hold_alpha_carbons)
    found.check()
    assert found.openmm["restraint"] > 1
    assert found.others <= IDLE, "no term is left out"


def dna() -> list[str]:
    """Six nucleotides of one strand, AATTCG, which have all bases."""
    lines = (DATA / "4c64.pdb").read_text().splitlines(keepends=True)
    atoms = [line for line in lines if line.startswith("ATOM") and line[21] == "A" and line[16] in " A"]
    return [line for line in atoms if 5 <= int(line[22:26]) <= 10]


def rna() -> list[str]:
    """The same with the oxygen of ribose, and uracil for thymine."""
    made = []
    for _, group in groupby(dna(), key=lambda line: line[22:26]):
        lines = [line for line in group if line[12:16].strip() != "C7"]
        places = {line[12:16].strip(): np.array([float(line[i : i + 8]) for i in (30, 38, 46)]) for line in lines}
        first, second = (places[name] - places["C2'"] for name in ("C1'", "C3'"))
        away, across = (each / np.linalg.norm(each) for each in (-first - second, np.cross(first, second)))
        x, y, z = places["C2'"] + 0.83 * away + 1.17 * across
        last = lines[-1]
        lines.append(f"{last[:12]} O2'{last[16:30]}{x:8.3f}{y:8.3f}{z:8.3f}{last[54:76]} O\n")
        base = lines[0][19].replace("T", "U")
        made += [f"{line[:17]}  {base}{line[20:]}" for line in lines]
    return made


@needs_gmx_d
@pytest.mark.parametrize("strand", [dna, rna])
def test_a_nucleic_acid_has_openmms_energies(builder: Builder, strand: Callable[[], list[str]], tmp_path: Path) -> None:
    built = builder("".join(strand()), box_shape="rectangular", padding_nm=0.5)
    found = compare(built, tmp_path)
    found.check()
    has_ribose = "O2'" in {atom.name for atom in read_topology(built.output("topology.json")).atoms()}
    assert has_ribose == (strand is rna) and built.result["summary"]["molecules"]["nucleic_acid"] == 1
    assert found.others <= IDLE, "no term is left out"


def solvated(files: list[str], model: str, *, is_charmm: bool) -> tuple[openmm.System, app.Topology, openmm.State]:
    """A box of salt water of some files of a force field, as the worker makes it."""
    force_field = app.ForceField(*files)
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    size = openmm.Vec3(2.5, 2.5, 2.5) * unit.nanometer
    # OpenMM draws the places of ions from here.
    random.seed(7)
    modeller.addSolvent(force_field, model, boxSize=size, ionicStrength=0.5 * unit.molar)
    system = force_field.createSystem(
        modeller.topology, nonbondedMethod=app.PME, nonbondedCutoff=1.0 * unit.nanometer, constraints=app.HBonds
    )
    if is_charmm:
        simplify(system)
    return system, modeller.topology, state_of(system, modeller.positions)


def state_of(system: openmm.System, positions: Any) -> openmm.State:
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(positions)
    return context.getState(positions=True)


AMBER_WATERS = {"spce": "spce", "opc3": "tip3p", "tip4pew": "tip4pew", "tip4pfb": "tip4pew"}
CHARMM_WATERS = {"tip3p-pme-b": "tip3p", "tip4p2005": "tip4pew", "tip5p": "tip5p", "tip5pew": "tip5p"}


@needs_gmx_d
@pytest.mark.parametrize(
    ("files", "model"),
    [
        *(([f"amber14/{name}.xml"], model) for name, model in AMBER_WATERS.items()),
        *((["charmm36_2024.xml", f"charmm36_2024/{name}.xml"], model) for name, model in CHARMM_WATERS.items()),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else None,
)
def test_salt_water_has_openmms_energies_in_each_model(files: list[str], model: str, tmp_path: Path) -> None:
    found = Comparison(tmp_path, *solvated(files, model, is_charmm="charmm" in files[0]))
    found.check()
    assert abs(found.openmm["NonbondedForce"]) > 100


def chains() -> tuple[openmm.System, app.Topology, openmm.State]:
    """Two interleaved chains and forty others of five atoms and a site, with what no force field here has."""
    system, topology, positions = openmm.System(), app.Topology(), []
    system.setDefaultPeriodicBoxVectors(*np.diag([3.0, 3.1, 3.2]).tolist())
    chain = topology.addChain()
    carbon = app.element.carbon
    bonds, torsions = openmm.HarmonicBondForce(), openmm.RBTorsionForce()
    nonbonded = openmm.NonbondedForce()
    nonbonded.setNonbondedMethod(openmm.NonbondedForce.PME)
    nonbonded.setCutoffDistance(1.0)
    nonbonded.setUseSwitchingFunction(True)
    nonbonded.setSwitchingDistance(0.8)
    charges = [0.3, -0.2, 0.1, -0.4, 0.2]
    chance = np.random.default_rng(3)
    for molecule in range(42):
        residue = topology.addResidue("CHN", chain)
        start = np.array([molecule % 4, molecule // 4 % 4, molecule // 16]) * 0.7
        for k in range(5):
            system.addParticle(12.0)
            topology.addAtom(f"C{k}", carbon, residue)
            nonbonded.addParticle(charges[k], 0.3 + 0.01 * k, 0.4)
            positions.append(start + np.array([0.13 * k, 0.05 * (k % 2), 0.02 * k * k]) + chance.normal(0, 0.01, 3))
        site = system.addParticle(0.0)
        topology.addAtom("M", None, residue)
        positions.append(start)
        # The second atom of the first two chains is the other's.
        own = [site - 5 + k for k in range(5)]
        if molecule < 2:
            own[1] = 1 if molecule else 7
        system.setVirtualSite(site, openmm.TwoParticleAverageSite(own[0], own[2], 0.3, 0.7))
        nonbonded.addParticle(0.0, 0.3, 0.0)
        for a, b in pairwise(own):
            bonds.addBond(a, b, 0.15, 2e5)
        torsions.addTorsion(*own[:4], 9.3, 13.4, -0.13, -31.3, 0.5, 0.2)
        torsions.addTorsion(*own[1:], 1.0, -2.0, 3.0, -4.0, 5.0, -6.0)
        for i, a in enumerate(own):
            for j, b in enumerate(own[i + 1 :], i + 1):
                # One ratio for most of those three bonds apart, and another for every third.
                scale = 0.0 if j - i < 3 else (0.7 if molecule % 3 else 1.0)
                product = charges[a % 6] * charges[b % 6]
                nonbonded.addException(a, b, scale * product, 0.31, 0.2 if scale else 0.0)
            nonbonded.addException(a, site, 0.0, 0.3, 0.0)
    positions[1], positions[7] = positions[7], positions[1]
    for force in (bonds, torsions, nonbonded):
        system.addForce(force)
    return system, topology, state_of(system, positions)


@needs_gmx_d
def test_what_no_force_field_here_has_is_carried_over_too(tmp_path: Path) -> None:
    found = Comparison(tmp_path, *chains())
    functions = {values[0] for _, values in found.terms.lines["pairs"]}
    assert functions == {1, 2}, "there are two ratios of charges"
    assert found.openmm["RBTorsionForce"] > 1
    found.check()


@needs_gmx_d
def test_maps_that_are_not_smooth_are_carried_over(tmp_path: Path) -> None:
    system, topology, state = chains()
    system.addForce(mapped(24, 24, 24))
    found = Comparison(tmp_path, system, topology, state)
    assert abs(found.openmm["CMAPTorsionForce"]) > 1
    found.check()


def redrawn(seed: int) -> tuple[openmm.System, app.Topology, openmm.State]:
    """The chains in a box of any shape, with parameters by chance, many of them zero."""
    system, topology, state = chains()
    chance = np.random.default_rng(seed)
    box = np.diag(chance.uniform(3.0, 4.0, 3))
    for row, column in (1, 0), (2, 0), (2, 1):
        box[row, column] = chance.choice([-1, 1]) * chance.uniform(0.2, 0.45) * box[column, column]
    system.setDefaultPeriodicBoxVectors(*box.tolist())

    def some(low: float, high: float) -> float:
        return float(chance.choice([0.0, chance.uniform(low, high)]))

    torsions = openmm.PeriodicTorsionForce()
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            for i in range(force.getNumBonds()):
                a, b, *_ = force.getBondParameters(i)
                force.setBondParameters(i, a, b, chance.uniform(0.1, 0.2), some(1e3, 3e5))
        elif isinstance(force, openmm.RBTorsionForce):
            for i in range(force.getNumTorsions()):
                atoms = force.getTorsionParameters(i)[:4]
                force.setTorsionParameters(i, *atoms, *chance.normal(0, 9, 6))
                torsions.addTorsion(*atoms, int(chance.integers(1, 7)), chance.uniform(-6, 6), some(-9, 9))
        elif isinstance(force, openmm.NonbondedForce):
            # It counts pairs that are excluded, of which there are many in so thin a box.
            force.setUseDispersionCorrection(False)
            force.setUseSwitchingFunction(bool(chance.integers(2)))
            # Sites are so near to atoms that both programs' digits would be compared.
            for i in (i for i in range(force.getNumParticles()) if not system.isVirtualSite(i)):
                force.setParticleParameters(i, some(-0.5, 0.5), chance.uniform(0.05, 0.15), some(0.1, 0.9))
            for i in range(force.getNumExceptions()):
                a, b, *_ = force.getExceptionParameters(i)
                if system.isVirtualSite(b):
                    continue
                force.setExceptionParameters(i, a, b, some(-0.2, 0.2), chance.uniform(0.05, 0.1), some(0.1, 0.9))
    system.addForce(torsions)
    return system, topology, state_of(system, state.getPositions(asNumpy=True)._value)


@needs_gmx_d
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_parameters_are_they_are_carried_over(seed: int, tmp_path: Path) -> None:
    Comparison(tmp_path, *redrawn(seed)).check()


@needs_gmx_d
def test_exclusions_are_carried_over_where_no_bond_is(tmp_path: Path) -> None:
    system, topology, state = chains()
    system.removeForce(0)
    found = Comparison(tmp_path, system, topology, state)
    assert not any(found.terms.lines[section] for section in ("bonds", "constraints", "settles"))
    found.check()


@needs_gmx_d
def test_what_is_switched_off_from_the_start_on_is_switched_off(tmp_path: Path) -> None:
    system, topology, state = chains()
    (nonbonded,) = (force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    nonbonded.setSwitchingDistance(0.0)
    with pytest.raises(Unsupported, match="switched off from the first"):
        Terms(system)
    nonbonded.setUseDispersionCorrection(False)
    Comparison(tmp_path, system, topology, state).check()


@needs_gmx_d
def test_a_bond_that_is_constrained_as_well_keeps_its_energy(tmp_path: Path) -> None:
    system, topology, state = chains()
    system.addConstraint(2, 3, 0.15)
    found = Comparison(tmp_path, system, topology, state)
    assert found.terms.lines["constraints"]
    found.check()


PI = "pi = 3.141592653589793"
# As OpenMM's files spell it, and its loaders of CHARMM, Amber and GROMACS; with the parameters in their order.
SPELLINGS = [
    ("k*(min(dtheta, 2*pi-dtheta))^2; dtheta = abs(theta-theta0); " + PI, ("k", "theta0")),
    ("k*min(dtheta, 2*pi-dtheta)^2; dtheta = abs(theta-theta0);pi = 3.141593;", ("k", "theta0")),
    ("k*min(dtheta, 2*3.141592653589793-dtheta)^2; dtheta = abs(theta-theta0)", ("k", "theta0")),
    (
        "0.5*k*(thetap-theta0)^2; thetap = step(-(theta-theta0+pi))*2*pi+theta+step(theta-theta0-pi)*(-2*pi); " + PI,
        ("theta0", "k"),
    ),
]


def harmonic_torsion(form: str, names: tuple[str, str], values: dict[str, float]) -> openmm.Force:
    force = openmm.CustomTorsionForce(form)
    for name in names:
        force.addPerTorsionParameter(name)
    force.addTorsion(0, 7, 2, 3, [values[name] for name in names])
    force.addTorsion(12, 13, 14, 15, [values[name] for name in names])
    return force


@needs_gmx_d
def test_harmonic_torsions_are_carried_over_however_they_are_spelt(tmp_path: Path) -> None:
    system, topology, state = chains()
    for i, (form, names) in enumerate(SPELLINGS):
        system.addForce(harmonic_torsion(form, names, {"k": 100.0 + i, "theta0": 3.0 - i}))
    found = Comparison(tmp_path, system, topology, state)
    assert len([values for _, values in found.terms.lines["dihedrals"] if values[0] == 2]) == 8
    assert found.openmm["CustomTorsionForce"] > 10
    found.check()


def geometric() -> tuple[openmm.System, app.Topology, openmm.State]:
    """The chains with Lennard-Jones as OpenMM's loader of GROMACS's files makes it of OPLS."""
    system, topology, state = chains()
    nonbonded = next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    custom = openmm.CustomNonbondedForce("A1*A2/r^12-C1*C2/r^6")
    exceptions = openmm.CustomBondForce("-C/r^6+A/r^12")
    for name in "CA":
        custom.addPerParticleParameter(name)
        exceptions.addPerBondParameter(name)
    for i in range(nonbonded.getNumParticles()):
        charge, sigma, epsilon = nonbonded.getParticleParameters(i)
        c6 = 4 * epsilon._value * sigma._value**6
        custom.addParticle([math.sqrt(c6), math.sqrt(c6 * sigma._value**6)])
        nonbonded.setParticleParameters(i, charge, 1.0, 0.0)
    for i in range(nonbonded.getNumExceptions()):
        a, b, product, sigma, epsilon = nonbonded.getExceptionParameters(i)
        custom.addExclusion(a, b)
        if epsilon._value:
            c6 = 4 * epsilon._value * sigma._value**6
            exceptions.addBond(a, b, [c6, c6 * sigma._value**6])
            nonbonded.setExceptionParameters(i, a, b, product, 1.0, 0.0)
    custom.setName("LennardJonesForce")
    custom.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffPeriodic)
    custom.setCutoffDistance(1.0)
    custom.setUseLongRangeCorrection(True)
    exceptions.setName("LennardJonesExceptions")
    system.addForce(custom)
    system.addForce(exceptions)
    return system, topology, state


@needs_gmx_d
def test_lennard_jones_by_geometric_means_is_carried_over(tmp_path: Path) -> None:
    found = Comparison(tmp_path, *geometric())
    assert found.terms.rule == 3
    found.check()
    assert found.correction < -0.01


def with_force(force: openmm.Force) -> openmm.System:
    system, _, _ = chains()
    system.addForce(force)
    return system


def mapped(*sizes: int) -> openmm.CMAPTorsionForce:
    """A term of CMAP for each of some maps, in a molecule of its own."""
    force, chance = openmm.CMAPTorsionForce(), np.random.default_rng(2)
    for which, size in enumerate(sizes):
        force.addMap(size, chance.normal(0, 3, size * size).tolist())
        a, b, c, d, e = range(24 + 6 * which, 29 + 6 * which)
        force.addTorsion(which, a, b, c, d, b, c, d, e)
    return force


def with_site(site: openmm.VirtualSite) -> openmm.System:
    system, _, _ = chains()
    system.setVirtualSite(5, site)
    return system


def plain_torsion() -> openmm.Force:
    force = openmm.CustomTorsionForce("k*(theta-theta0)^2")
    for name in ("k", "theta0"):
        force.addPerTorsionParameter(name)
    force.addTorsion(0, 2, 3, 4, [10.0, 3.1])
    return force


def held(atom: int, *names: str, is_global: bool = False) -> openmm.Force:
    """A restraint of an atom, with its force constant among the parameters or not."""
    force = openmm.CustomExternalForce("0.5*k_restraint*periodicdistance(x, y, z, x0, y0, z0)^2")
    if is_global:
        force.addGlobalParameter("k_restraint", 1000.0)
    for name in names:
        force.addPerParticleParameter(name)
    force.addParticle(atom, [0.5] * len(names))
    return force


def test_restraints_are_as_stiff_as_their_energy_grows_with_the_box() -> None:
    """About their centre, which GROMACS moves with the box."""
    places = np.random.default_rng(1).normal(0, (1, 2, 3), (20, 3))
    places -= places.mean(axis=0)
    system, box, stretch = openmm.System(), np.diag([40.0, 50.0, 60.0]), 1e-3
    system.setDefaultPeriodicBoxVectors(*box.tolist())
    for _ in places:
        system.addParticle(1.0)
    stage = Stage("production", "NPT", 0, 0, 0, 1000.0, list(range(20)))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(places)
    system.addForce(restraint(stage, context.getState(positions=True)))
    context.reinitialize()
    pressures = []
    for axis in range(3):
        stretched = places.copy()
        stretched[:, axis] *= 1 + stretch
        context.setPositions(stretched)
        energy = context.getState(energy=True).getPotentialEnergy() / unit.AVOGADRO_CONSTANT_NA
        pressure = 2 * energy / stretch**2 / (np.linalg.det(box) * unit.nanometer**3)
        pressures.append(pressure.value_in_unit(unit.bar))
    found = mdp.stiffness(stage, places + np.array([7.0, 8.0, 9.0]), box)
    assert found == pytest.approx(max(pressures), rel=1e-6)
    assert mdp.stiffness(Stage("production", "NPT", 0, 0, 0, 0.0, []), places, box) == 0


def test_the_pressure_of_a_cutoff_is_that_of_the_pairs_that_cross_it() -> None:
    """Of points without order: as they are scaled, those in a shell at the cutoff lose their energy."""
    sizes, cutoff, scale = {"a": (0.3, 0.6), "b": (0.2, 0.3)}, 1.0, 0.01
    kinds = [["a", "b"][i % 3 == 0] for i in range(2000)]
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.PME)
    force.setCutoffDistance(cutoff)
    force.setUseDispersionCorrection(False)
    system, box = openmm.System(), np.diag([3.0, 3.5, 4.0])
    for kind in kinds:
        system.addParticle(1.0)
        force.addParticle(0.0, *sizes[kind])
    system.addForce(force)
    places = np.random.default_rng(1).uniform(0, np.diag(box), (len(kinds), 3))
    lost = 0.0
    for i, place in enumerate(places):
        apart = places[:i] - place
        apart = np.linalg.norm(apart - np.round(apart / np.diag(box)) * np.diag(box), axis=1)
        for j in np.flatnonzero((apart < cutoff) & (apart > cutoff / (1 + scale))):
            (sigma, epsilon), (other_sigma, other_epsilon) = sizes[kinds[i]], sizes[kinds[j]]
            sixth = ((sigma + other_sigma) / 2 / cutoff) ** 6
            lost += 4 * (epsilon * other_epsilon) ** 0.5 * (sixth**2 - sixth)
    pressure = lost / (3 * scale * np.linalg.det(box)) * 16.6054
    assert pressure < -10
    assert mdp.pressure_of_cutoff(Terms(system), box) == pytest.approx(pressure, rel=0.05)
    force.setUseDispersionCorrection(True)
    assert mdp.pressure_of_cutoff(Terms(system), box) == 0, "GROMACS's correction has it"
    force.setUseDispersionCorrection(False)
    force.setUseSwitchingFunction(True)
    force.setSwitchingDistance(0.8)
    assert mdp.pressure_of_cutoff(Terms(system), box) == 0, "there is no jump"


@pytest.mark.parametrize(
    ("traj_freq", "width", "expected"), [(50_000, 4.0, 1250), (100, 4.0, 100), (0, 4.0, 1388), (50_000, 2.2, 400)]
)
def test_frames_are_written_often_enough_to_follow_molecules(traj_freq: int, width: float, expected: int) -> None:
    assert mdp.frame_steps(traj_freq, np.diag([width, width, 9.0]), 0.002) == expected


def held_twice() -> openmm.System:
    system = with_force(held(0, "x0", "y0", "z0", is_global=True))
    system.addForce(held(1, "x0", "y0", "z0", is_global=True))
    return system


LENNARD_JONES_14 = openmm.CustomBondForce("4*epsilon*((sigma/r)^12-(sigma/r)^6)")


def with_parameters(force: openmm.CustomBondForce, *names: str) -> openmm.Force:
    for name in names:
        force.addPerBondParameter(name)
    return force


def nbfix_of_another(
    method: int = openmm.CustomNonbondedForce.CutoffPeriodic, *, has_correction: bool = True
) -> openmm.Force:
    """What has the form of our correction, and is not for the few pairs that ours is for."""
    force = openmm.CustomNonbondedForce("a(type1, type2)/r^12 - b(type1, type2)/r^6")
    for name in "ab":
        force.addTabulatedFunction(name, openmm.Discrete2DFunction(1, 1, [1e-6]))
    force.addPerParticleParameter("type")
    system, _, _ = chains()
    (nonbonded,) = (force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    for _ in range(system.getNumParticles()):
        force.addParticle([0])
    for i in range(nonbonded.getNumExceptions()):
        force.addExclusion(*nonbonded.getExceptionParameters(i)[:2])
    force.setNonbondedMethod(method)
    force.setUseLongRangeCorrection(has_correction)
    force.setCutoffDistance(1.0)
    force.setUseSwitchingFunction(True)
    force.setSwitchingDistance(0.8)
    return force


def with_nonbonded(change: Callable[[openmm.NonbondedForce], object]) -> openmm.System:
    system, _, _ = chains()
    change(next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce)))
    return system


def depend_on_a_parameter(force: openmm.NonbondedForce) -> None:
    force.addGlobalParameter("share", 1.0)
    force.addParticleParameterOffset("share", 0, 0.1, 0.0, 0.0)


def exceptions_depend_on_a_parameter(force: openmm.NonbondedForce) -> None:
    force.addGlobalParameter("share", 1.0)
    force.addExceptionParameterOffset("share", 0, 0.1, 0.0, 0.0)


def without_mass() -> openmm.System:
    system, _, _ = chains()
    system.setParticleMass(0, 0.0)
    return system


def heavy_water() -> openmm.System:
    """Salt water with one molecule of D2O."""
    system, topology, _ = solvated(["amber14/tip3p.xml"], "tip3p", is_charmm=False)
    water = next(residue for residue in topology.residues() if residue.name == "HOH")
    for atom in list(water.atoms())[1:]:
        system.setParticleMass(atom.index, 2.014)
    return system


def with_constraints(*constraints: tuple[int, int, float]) -> openmm.System:
    system, _, _ = chains()
    for a, b, length in constraints:
        system.addConstraint(a, b, length)
    return system


def water_in_another_order() -> openmm.System:
    """Rigid water whose oxygen is between its hydrogens."""
    system, topology, state = solvated(["amber14/tip3p.xml"], "tip3p", is_charmm=False)
    assert len(Terms(system).lines["settles"]) > 100
    modeller = app.Modeller(topology, state.getPositions())
    modeller.delete([residue for residue in topology.residues() if residue.name != "HOH"])
    other = app.Topology()
    other.setPeriodicBoxVectors(topology.getPeriodicBoxVectors())
    chain = other.addChain()
    for residue in modeller.topology.residues():
        oxygen, first, second = residue.atoms()
        again = other.addResidue("HOH", chain)
        left, middle, right = (other.addAtom(atom.name, atom.element, again) for atom in (first, oxygen, second))
        other.addBond(left, middle)
        other.addBond(middle, right)
    force_field = app.ForceField("amber14/tip3p.xml")
    return force_field.createSystem(
        other, nonbondedMethod=app.PME, nonbondedCutoff=1.0 * unit.nanometer, constraints=app.HBonds
    )


@pytest.mark.parametrize(
    "make",
    [
        water_in_another_order,
        lambda: with_constraints((1, 2, 0.15), (2, 3, 0.15), (1, 3, 0.24)),
        # The side between the third and the fourth is a bond.
        lambda: with_constraints((2, 3, 0.15), (2, 4, 0.24)),
    ],
)
def test_constraints_of_angles_are_not_left_to_lincs(make: Callable[[], openmm.System]) -> None:
    with pytest.raises(Unsupported, match="constraints of angles, which LINCS cannot hold"):
        Terms(make())


def test_constraints_of_bonds_under_urey_bradley_terms_are_lincs() -> None:
    system = with_constraints((2, 3, 0.15), (3, 4, 0.15))
    (bonds,) = (force for force in system.getForces() if isinstance(force, openmm.HarmonicBondForce))
    bonds.addBond(2, 4, 0.24, 1e4)
    assert [atoms for atoms, _ in Terms(system).lines["constraints"]] == [(2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (heavy_water, "rigid water of more than one shape or mass"),
        (lambda: with_force(openmm.NonbondedForce()), "charges in more than one force"),
        (lambda: with_force(openmm.CustomAngleForce("k*theta")), r"the force CustomAngleForce"),
        (lambda: with_force(openmm.CustomBondForce("k*r")), r"bonds of the form k\*r"),
        (lambda: with_force(with_parameters(LENNARD_JONES_14, "sigma")), r"bonds of the form 4\*epsilon"),
        (lambda: with_force(nbfix_of_another()), "NBFIX between all atoms"),
        (lambda: with_force(openmm.CustomExternalForce("x^2")), r"a field of the form x\^2"),
        (lambda: with_force(held(0, "k_restraint", "x0", "y0", "z0")), "restraints with other parameters"),
        (lambda: with_force(held(0, "z0", "y0", "x0", is_global=True)), "restraints with other parameters"),
        (held_twice, "restraints by more than one force"),
        (lambda: with_force(openmm.CustomNonbondedForce("1/r^4")), r"the force CustomNonbondedForce: 1/r\^4"),
        (lambda: with_force(plain_torsion()), "not about zero"),
        (lambda: with_nonbonded(lambda force: force.setNonbondedMethod(force.CutoffPeriodic)), "PME"),
        (lambda: with_nonbonded(lambda force: force.setNonbondedMethod(force.LJPME)), "PME"),
        (lambda: with_nonbonded(lambda force: force.setIncludeDirectSpace(False)), "without their direct space"),
        (lambda: with_nonbonded(depend_on_a_parameter), "depend on a parameter"),
        (lambda: with_nonbonded(exceptions_depend_on_a_parameter), "depend on a parameter"),
        (lambda: with_force(nbfix_of_another(openmm.CustomNonbondedForce.NoCutoff)), "without a cutoff"),
        (lambda: with_force(nbfix_of_another(has_correction=False)), "another correction beyond the cutoff"),
        (lambda: with_force(openmm.MonteCarloAnisotropicBarostat([1.0, 1.0, 1.0], 300.0)), "Barostat"),
        (without_mass, "an atom without mass"),
        (lambda: with_site(openmm.TwoParticleAverageSite(0, 2, 0.3, 0.6)), "weights are not one"),
        (lambda: with_site(openmm.ThreeParticleAverageSite(0, 2, 3, 0.3, 0.6, 0.2)), "weights are not one"),
        (lambda: with_site(openmm.TwoParticleAverageSite(11, 2, 0.3, 0.7)), "hangs on another"),
        (lambda: with_force(mapped(24, 26)), "maps of CMAP of several or odd sizes"),
        (lambda: with_force(mapped(25)), "maps of CMAP of several or odd sizes"),
        (lambda: with_force(mapped(22)), "maps of CMAP of several or odd sizes, or below 24"),
        (openmm.System, "without charges"),
        (
            lambda: with_site(
                openmm.LocalCoordinatesSite(0, 2, 3, [1, 0, 0], [-1, 1, 0], [-1, 0, 1], openmm.Vec3(0, 0, 0.1))
            ),
            "no rigid water",
        ),
    ],
)
def test_what_has_no_twin_is_named(make: Callable[[], openmm.System], words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        Terms(make())
