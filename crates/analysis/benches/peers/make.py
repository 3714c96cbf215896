"""Make the trajectories of the benchmarks with OpenMM: `make.py FOLDER`.

big    HIV-1 protease (entry 4E43, chains A and B) in water and salt, 40 frames repeated to 2000
small  neopetrosiamide, 28 residues, in implicit solvent, 2000 frames

Both structures are among the files of MDAnalysisTests.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import MDAnalysisTests
from openmm import LangevinMiddleIntegrator, MonteCarloBarostat, Platform, Vec3
from openmm.app import PME, DCDReporter, ForceField, HBonds, Modeller, NoCutoff, PDBFile, Simulation
from openmm.unit import bar, kelvin, molar, nanometer, picosecond
from pdbfixer import PDBFixer

FOLDER = Path(sys.argv[1])
STRUCTURES = Path(MDAnalysisTests.__file__).parent / "data"
N_FRAMES = 2000


def fixed(path: Path, chains: str) -> PDBFixer:
    """The protein of some chains, complete with hydrogens at pH 7."""
    fixer = PDBFixer(filename=str(path))
    fixer.removeHeterogens(False)
    fixer.removeChains([n for n, chain in enumerate(fixer.topology.chains()) if chain.id not in chains])
    fixer.findMissingResidues()
    fixer.missingResidues = {}
    fixer.findNonstandardResidues()
    fixer.replaceNonstandardResidues()
    fixer.findMissingAtoms()
    fixer.addMissingAtoms()
    fixer.addMissingHydrogens(7.0)
    return fixer


def run(name: str, topology, positions, system, temperature_k: float, step_ps: float, n_frames: int, interval: int):
    integrator = LangevinMiddleIntegrator(temperature_k * kelvin, 1 / picosecond, step_ps * picosecond)
    integrator.setRandomNumberSeed(1)
    simulation = Simulation(topology, system, integrator, Platform.getPlatformByName("CPU"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=60)
    simulation.context.setVelocitiesToTemperature(temperature_k * kelvin, 7)
    simulation.step(200)
    state = simulation.context.getState(positions=True, enforcePeriodicBox=system.usesPeriodicBoundaryConditions())
    # The structure may come with a placeholder, which some programs take for a cell of 1 Å.
    is_periodic = system.usesPeriodicBoundaryConditions()
    topology.setPeriodicBoxVectors(state.getPeriodicBoxVectors() if is_periodic else None)
    with open(FOLDER / f"{name}.pdb", "w") as file:
        PDBFile.writeFile(topology, state.getPositions(), file, keepIds=True)
    simulation.reporters.append(DCDReporter(str(FOLDER / f"{name}.dcd"), interval))
    simulation.step(n_frames * interval)


def repeat(path: Path, n_frames: int):
    """Write the frames of a DCD file with a cell again and again."""
    content = path.read_bytes()
    start = 92 + 8 + struct.unpack_from("<i", content, 92)[0] + 12
    (n_atoms,) = struct.unpack_from("<i", content, start - 8)
    size = 56 + 3 * (4 * n_atoms + 8)
    n_real = (len(content) - start) // size
    with open(path, "wb") as file:
        file.write(content[:8] + struct.pack("<i", n_frames) + content[12:start])
        for n in range(n_frames):
            file.write(content[start + n % n_real * size :][:size])


def big():
    fixer = fixed(STRUCTURES / "4E43.pdb", "AB")
    field = ForceField("amber14-all.xml", "amber14/tip3pfb.xml")
    modeller = Modeller(fixer.topology, fixer.positions)
    modeller.addSolvent(field, model="tip3p", boxSize=Vec3(6.45, 6.45, 6.45) * nanometer, ionicStrength=0.15 * molar)
    system = field.createSystem(modeller.topology, nonbondedMethod=PME, nonbondedCutoff=0.9 * nanometer, constraints=HBonds)
    system.addForce(MonteCarloBarostat(1 * bar, 300 * kelvin))
    run("big", modeller.topology, modeller.positions, system, 300, 0.003, 40, 25)
    repeat(FOLDER / "big.dcd", N_FRAMES)


def small():
    text = (STRUCTURES / "nmr_neopetrosiamide.pdb").read_text()
    first_model = FOLDER / "first_model.pdb"
    first_model.write_text(text[: text.index("ENDMDL")] + "END\n")
    fixer = fixed(first_model, "A ")
    field = ForceField("amber14-all.xml", "implicit/obc2.xml")
    system = field.createSystem(fixer.topology, nonbondedMethod=NoCutoff, constraints=HBonds)
    run("small", fixer.topology, fixer.positions, system, 320, 0.002, N_FRAMES, 50)


big()
small()
