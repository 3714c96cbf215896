"""Membranes: how they lie, and how pressure acts on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import BUILD, DATA, EXAMPLES, Directory, positions_nm, structure, task_of
from openmm import app
from openmm.app import modeller as openmm_modeller
from test_gromacs_energies import compare, needs_gmx_d

from molbox_worker import membrane
from molbox_worker.directory import TaskDirectory
from molbox_worker.summary import _kinds_of_molecules
from molbox_worker.topology import LIPIDS, kind, read_topology

Builder = Callable[..., Directory]
Simulator = Callable[..., Directory]


@pytest.fixture(scope="module")
def helix(builder: Builder) -> Directory:
    """A helix that spans a bilayer of DLPC, the smallest of OpenMM's patches."""
    directory = builder(
        DATA / "2nwl_helix.pdb", membrane="DLPC", padding_nm=0.5, concentration=0.3, task={"threads": 2}
    )
    assert directory.result["status"] == "succeeded", directory.log()
    return directory


def test_a_bilayer_lies_in_the_plane_around_the_helix(helix: Directory) -> None:
    summary = helix.result["summary"]
    assert summary["molecules"]["protein"] == 1
    assert summary["molecules"]["lipid"] % 2 == 0
    file = structure(helix)
    x = positions_nm(file)
    phosphorus = [a.index for a in file.topology.atoms() if a.element is not None and a.element.symbol == "P"]
    z = x[phosphorus, 2]
    assert (z > 0).sum() == (z < 0).sum() == summary["molecules"]["lipid"] / 2
    # Head groups of DLPC are 1.5 nm from the middle.
    assert np.abs(z).mean() == pytest.approx(1.5, abs=0.25)
    lipids = {r.name for r in file.topology.residues() if any(a.index in set(phosphorus) for a in r.atoms())}
    tails = [
        a.index for r in file.topology.residues() if r.name in lipids for a in r.atoms() if a.name.startswith("C2")
    ]
    water = [a.index for r in file.topology.residues() if r.name == "HOH" for a in r.atoms() if a.name == "O"]
    core = np.abs(x[water, 2]) < 0.5
    assert core.sum() < 0.01 * len(water), "the core is dry"
    assert np.abs(x[tails, 2]).mean() < np.abs(z).mean()
    # The helix stays where its file has it.
    alpha = [a.index for a in file.topology.atoms() if a.name == "CA"]
    assert x[alpha[0]] == pytest.approx([0.9028, 1.8748, -1.0707], abs=1e-3)
    # The salt: 0.3 mol/L of the water.
    molecules = summary["molecules"]
    assert min(molecules["NA"], molecules["CL"]) == pytest.approx(0.3 / 55.4 * molecules["water"], rel=0.2)
    assert summary["net_charge"] == pytest.approx(0, abs=0.01)


def molecule(topology: app.Topology, residues: dict[str, Sequence[str]]) -> None:
    """A molecule of residues, by name, each a row of atoms of these elements."""
    chain, last = topology.addChain(), None
    for name, symbols in residues.items():
        residue = topology.addResidue(name, chain)
        for symbol in symbols:
            atom = topology.addAtom(symbol, app.Element.getBySymbol(symbol), residue)
            if last:
                topology.addBond(last, atom)
            last = atom


def test_lipids_of_amber_and_charmm_are_known_whole_and_in_parts() -> None:
    topology = app.Topology()
    molecule(topology, {"ST": "C" * 17, "PGR": "CCCPO", "OL": "C" * 17})
    molecule(topology, {"XX": "CCCO", "LAL": "C" * 11})
    molecule(topology, {"POPG": "C" * 40 + "P"})
    molecule(topology, {"CHL1": "C" * 27 + "O"})
    # Dehydroalanine in a protein, spermine, chlorophyll, a palmitoylated cysteine.
    molecule(topology, {"ALA": "NCCO", "DHA": "NCCO"})
    molecule(topology, {"SPM": "NCCCNCCCCNCCCN"})
    molecule(topology, {"CHL": [*("C" * 55), "Mg"]})
    molecule(topology, {"CYS": "NCCO", "PA": "C" * 15})
    kinds = [kind(residue) for residue in topology.residues()]
    assert _kinds_of_molecules(topology, kinds) == ["lipid"] * 4 + ["protein", "SPM", "CHL", "protein"]


@needs_gmx_d
def test_gromacs_has_openmms_energies_of_a_bilayer(helix: Directory, tmp_path: Path) -> None:
    compare(helix, tmp_path).check()


def test_an_atom_that_is_caught_while_a_membrane_relaxes_is_let_out(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "task", task_of(BUILD))
    system = openmm.System()
    force = openmm.CustomNonbondedForce("(0.3/r)^12")
    for mass in (0.0, 16.0):
        system.addParticle(mass)
        force.addParticle([])
    system.addForce(force)
    caught = [openmm.Vec3(0, 0, 0), openmm.Vec3(0.001, 0, 0)]

    def relax(modeller: Any) -> openmm.State:
        integrator = modeller.LangevinIntegrator(10.0, 50.0, 0.001)
        context = modeller.Context(system, integrator, openmm.Platform.getPlatformByName("CPU"))
        context.setPositions(caught)
        integrator.step(20)
        return context.getState(positions=True)

    with pytest.raises(openmm.OpenMMException, match="NaN"):
        relax(openmm_modeller)
    reported: list[float] = []
    with membrane._relaxation(TaskDirectory(directory.path), reported.append, 2):
        positions = relax(openmm_modeller).getPositions(asNumpy=True)._value
    assert np.linalg.norm(positions[1]) > 0.2 and reported == [0.5]


def test_a_lipid_in_which_the_structure_has_grown_is_taken_out(helix: Directory, tmp_path: Path) -> None:
    topology = read_topology(helix.output("topology.json"))
    state = openmm.XmlSerializer.deserialize(helix.output("state.xml").read_text())
    topology.setPeriodicBoxVectors(state.getPeriodicBoxVectors())
    positions = state.getPositions(asNumpy=True)
    lipids = [residue for residue in topology.residues() if residue.name in LIPIDS]
    n_solute, n_residues = lipids[0].index, topology.getNumResidues()
    directory = TaskDirectory(Directory(tmp_path / "task", task_of(BUILD)).path)
    modeller = app.Modeller(topology, positions)
    membrane.take_out_caught(directory, modeller, n_solute)
    assert modeller.topology.getNumResidues() == n_residues and not directory.warnings, "all are at rest"

    caught = lipids[7]
    phosphorus = next(atom for atom in caught.atoms() if atom.element.symbol == "P")
    first, second = next(bond for bond in topology.bonds() if phosphorus in bond)
    away = positions[second.index] - positions[first.index]
    # An eighth longer, and across the box.
    positions[second.index] += away / 8 + state.getPeriodicBoxVectors(asNumpy=True)[1]
    modeller = app.Modeller(topology, positions)
    membrane.take_out_caught(directory, modeller, n_solute)
    assert [warning.code for warning in directory.warnings] == ["lipid_removed"]
    kept = [residue.id for residue in modeller.topology.residues() if residue.name in LIPIDS]
    assert kept == [lipid.id for lipid in lipids if lipid is not caught]
    assert modeller.topology.getNumResidues() == n_residues - 1


def test_lipids_count_as_solvent_for_default_restraints(helix: Directory) -> None:
    solvent = set(helix.result["summary"]["solvent_residues"])
    assert "HOH" in solvent and solvent & {"DLP", "DLPC", "PC", "LAL"}
    assert "ALA" not in solvent


def test_surface_tension_acts_on_the_plane_alone(water: Directory, simulation: Simulator) -> None:
    # Pressure knows no lipids: a box of water shows the same.
    boxes = {}
    for tension in (0.0, 5000.0):
        job = simulation(
            water,
            [{"ensemble": "NPT", "steps": 1000, "log_freq": 500}],
            membrane=True,
            surface_tension_bar_nm=tension,
        )
        assert job.run() == 0, job.log()
        state = openmm.XmlSerializer.deserialize(job.output("production.state.xml").read_text())
        boxes[tension] = np.diag(state.getPeriodicBoxVectors(asNumpy=True)._value)
    start = np.diag(np.array(water.result["summary"]["box_vectors"]))
    for box in boxes.values():
        # x and y are scaled as one, z on its own.
        assert box[0] / box[1] == pytest.approx(start[0] / start[1], rel=1e-6)
        assert box[2] / start[2] != pytest.approx(box[0] / start[0], rel=1e-6)
    # Against a tension of 300 kJ/mol/nm² a larger area is better; a tenth of it is lost in 2 ps of noise.
    assert np.prod(boxes[5000.0][:2]) > np.prod(boxes[0.0][:2])


@pytest.mark.parametrize(("shift", "words"), [(0.0, "carry a charge"), (80.0, "does not touch the membrane")])
def test_a_structure_that_is_not_oriented_is_refused(builder: Builder, shift: float, words: str) -> None:
    lines = (EXAMPLES / "1vii.pdb").read_text().splitlines(keepends=True)
    text = "".join(
        f"{line[:46]}{float(line[46:54]) + shift:8.3f}{line[54:]}" if line.startswith("ATOM") else line
        for line in lines
    )
    failure = builder(text, membrane="POPC").result["error"]
    assert failure["code"] == "membrane_not_oriented"
    assert words in failure["message"] and "z = 0" in failure["remedy"]
    assert failure["loc"] == ["body", "membrane"]


def test_a_membrane_that_is_too_large_is_refused_before_it_is_made(builder: Builder) -> None:
    failure = builder(DATA / "2nwl_helix.pdb", membrane="POPC", padding_nm=5.0, max_atoms=50_000).result["error"]
    assert failure["code"] == "too_large" and "50000" in failure["message"]


def test_a_membrane_needs_water_with_three_sites(builder: Builder) -> None:
    water = {"name": "opc", "file": "amber14/opc.xml", "model": "tip4pew", "sites": 4}
    failure = builder(DATA / "2nwl_helix.pdb", membrane="DLPC", water=water).result["error"]
    assert failure["code"] == "membrane_water" and failure["loc"] == ["body", "water_type"]
