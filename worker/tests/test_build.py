"""Building systems: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable

import numpy as np
import openmm
import pytest
from conftest import AMBER19, EXAMPLES, Directory, positions_nm, structure
from openmm import app, unit

from molbox_worker.solvate import box_vectors

VILLIN = EXAMPLES / "1vii.pdb"


def energy(system: openmm.System, positions: object, box: object) -> float:
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPeriodicBoxVectors(*box)
    context.setPositions(positions)
    return float(context.getState(energy=True).getPotentialEnergy()._value)


def test_the_energy_is_that_of_openmms_app_layer(villin: Directory) -> None:
    system = openmm.XmlSerializer.deserialize(villin.output("system.xml").read_text())
    state = openmm.XmlSerializer.deserialize(villin.output("state.xml").read_text())
    cif = app.PDBxFile(str(villin.output("system.cif")))
    force_field = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    reference = force_field.createSystem(
        cif.topology,
        nonbondedMethod=app.PME,
        nonbondedCutoff=1.0 * unit.nanometer,
        constraints=app.HBonds,
        rigidWater=True,
    )
    positions, box = state.getPositions(), state.getPeriodicBoxVectors()
    ours, theirs = energy(system, positions, box), energy(reference, positions, box)
    # The same terms summed in the same order.
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_the_summary_counts_what_is_in_the_box(villin: Directory) -> None:
    summary = villin.result["summary"]
    topology = json.loads(villin.output("topology.json").read_text())
    assert summary["atoms"] == len(topology["atoms"]["name"]) == len(topology["positions"])
    assert summary["residues"] == len(topology["residues"]["name"])
    molecules = summary["molecules"]
    assert molecules["protein"] == 1
    assert molecules["water"] == topology["residues"]["name"].count("HOH")
    # 6 basic and 4 acidic residues, so two more chlorides than sodiums.
    assert molecules["CL"] - molecules["NA"] == 2
    assert summary["net_charge"] == pytest.approx(0, abs=1e-3)
    # 55.4 mol/L of water for each mol/L of salt.
    assert molecules["NA"] == pytest.approx(0.15 / 55.4 * molecules["water"], abs=1)
    assert 0.85 < summary["density"] < 1.05
    vectors = np.array(summary["box_vectors"])
    assert summary["volume"] == pytest.approx(abs(np.linalg.det(vectors)), rel=1e-5)
    # The log says of the check what the summary does, in words.
    [line] = [line for line in villin.log().splitlines() if "potential energy" in line]
    bond, force = summary["check"]["longest_bond"], summary["check"]["largest_force"]
    assert f"; longest bond {' to '.join(bond['atoms'])}: {bond['length']:.4f} nm, " in line
    assert line.endswith(
        f"; largest force {force['force']:.3g} kJ/mol/nm on {force['atom']}; residues kept 36, "
        "replaced 0, removed 0, built 0"
    )


def test_hydrogens_follow_the_ph(builder: Callable[..., Directory]) -> None:
    acid = builder(VILLIN, ph=2.0, padding_nm=0.6).result["summary"]
    # All four aspartic and glutamic acids take up a proton.
    assert acid["variants"] == {"ASH": 2, "GLH": 2}
    assert acid["molecules"]["CL"] - acid["molecules"]["NA"] == 6


def test_hydrogens_of_the_file_stay_where_they_are_when_kept(builder: Callable[..., Directory]) -> None:
    kept = builder(VILLIN, keep_hydrogens=True, ph=2.0, padding_nm=0.6)
    placed = builder(VILLIN, ph=2.0, padding_nm=0.6)
    # Protonation is the file's, whatever the pH.
    assert kept.result["summary"]["variants"] == {}
    assert placed.result["summary"]["variants"] == {"ASH": 2, "GLH": 2}
    expected = {
        (line[22:26].strip(), line[12:16].strip()): [float(line[i : i + 8]) / 10 for i in (30, 38, 46)]
        for line in VILLIN.read_text().splitlines()
        if line.startswith("ATOM") and line[76:78].strip() == "H"
    }
    moved = {}
    for directory in (kept, placed):
        file = structure(directory, "system")
        x = positions_nm(file)
        found = {(a.residue.id, a.name): x[a.index] for a in file.topology.atoms() if a.residue.chain.id == "A"}
        moved[directory] = max(np.linalg.norm(found[key] - expected[key]) for key in expected if key in found)
    assert moved[kept] < 1e-3 < moved[placed]


def test_salt_is_as_asked(builder: Callable[..., Directory]) -> None:
    without = builder(VILLIN, concentration=0.0, positive_ion="Li+", negative_ion="Br-", padding_nm=0.6)
    molecules = without.result["summary"]["molecules"]
    # Only what neutralises the protein's two positive charges.
    assert (molecules.get("LI", 0), molecules["BR"]) == (0, 2)
    salty = builder(concentration=2.0, positive_ion="Cs+", negative_ion="I-").result["summary"]["molecules"]
    assert salty["CS"] == salty["I"] == pytest.approx(2.0 / 55.4 * (salty["water"] + 2 * salty["CS"]), abs=1)


def test_a_box_of_water_alone_is_built_with_amber19(builder: Callable[..., Directory]) -> None:
    built = builder(**AMBER19)
    assert built.result["status"] == "succeeded", built.result
    assert set(built.result["summary"]["molecules"]) == {"water", "NA", "CL"}


@pytest.mark.parametrize("shape", ["cube", "rectangular", "dodecahedron", "octahedron"])
def test_a_box_is_built_in_its_shape(builder: Callable[..., Directory], shape: str) -> None:
    built = builder(VILLIN, box_shape=shape, padding_nm=0.6)
    summary = built.result["summary"]
    solute = structure(built, "prepared")
    expected = np.array(box_vectors(shape, 0.6, positions_nm(solute)))
    # Hydrogens come after this file is written, and reach out a little.
    assert np.array(summary["box_vectors"]) == pytest.approx(expected, rel=0.1, abs=1e-6)
    file = structure(built)
    assert file.topology.getPeriodicBoxVectors() is not None
    assert 0.85 < summary["density"] < 1.0


def test_the_same_seed_gives_the_same_bytes(builder: Callable[..., Directory]) -> None:
    first, second, other = builder(seed=3), builder(seed=3), builder(seed=4)
    for name in ("system.xml", "state.xml", "topology.json"):
        assert first.output(name).read_bytes() == second.output(name).read_bytes(), name
    assert first.output("state.xml").read_bytes() != other.output("state.xml").read_bytes()


@pytest.mark.parametrize("shape", ["cube", "rectangular", "dodecahedron", "octahedron"])
def test_padding_separates_the_molecules_from_every_face(shape: str) -> None:
    positions = np.random.default_rng(5).normal(size=(500, 3))
    padding = 0.8
    vectors = np.array(box_vectors(shape, padding, positions))
    # A face lies half-way to an image.
    steps = [np.array(step) for step in itertools.product((-1, 0, 1), repeat=3) if any(step)]
    images = np.array([step @ vectors for step in steps])
    if shape == "rectangular":
        assert np.allclose(np.diag(vectors), np.ptp(positions, axis=0) + 2 * padding)
        return
    centre = (positions.min(axis=0) + positions.max(axis=0)) / 2
    radius = np.linalg.norm(positions - centre, axis=1).max()
    assert np.linalg.norm(images, axis=1).min() / 2 - radius == pytest.approx(padding)
    nearest = {"cube": 6, "dodecahedron": 12, "octahedron": 8}[shape]
    distances = np.linalg.norm(images, axis=1)
    assert (distances < distances.min() * (1 + 1e-9)).sum() == nearest, "faces of the cell"


def test_a_dodecahedron_is_the_smallest_box() -> None:
    positions = np.random.default_rng(5).normal(size=(100, 3))
    volumes = {
        shape: abs(np.linalg.det(np.array(box_vectors(shape, 1.0, positions))))
        for shape in ("cube", "dodecahedron", "octahedron")
    }
    assert volumes["dodecahedron"] / volumes["cube"] == pytest.approx(math.sqrt(2) / 2)
    assert volumes["octahedron"] / volumes["cube"] == pytest.approx(4 * math.sqrt(3) / 9)


def test_a_chain_can_be_chosen_and_an_unknown_one_is_named(builder: Callable[..., Directory]) -> None:
    assert builder(VILLIN, chains=["A"], padding_nm=0.6).result["status"] == "succeeded"
    failure = builder(VILLIN, chains=["A", "Q"]).result["error"]
    assert failure["code"] == "no_such_chain"
    assert "no chain Q" in failure["message"] and "it has A" in failure["message"]


def test_a_foreign_residue_is_removed_and_reported(builder: Callable[..., Directory]) -> None:
    ligand = "HETATM 9999  C1  XYZ A 900      10.000  10.000  10.000  1.00  0.00           C  \n"
    text = VILLIN.read_text().replace("END", ligand + "END")
    result = builder(text, padding_nm=0.6).result
    assert result["status"] == "succeeded"
    removed = {
        "code": "heterogen_removed",
        "message": "XYZ 900 of chain A removed",
        "residues": [{"chain_id": "A", "residue_id": "900", "residue_name": "XYZ"}],
    }
    assert removed in result["warnings"]


def atom(name: str, residue: str, x: str = "0.000") -> str:
    return f"ATOM      1  {name:3} {residue} A   1    {x:>8}   0.000   0.000  1.00  0.00           {name[0]}  \n"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", "no_atoms", "no atoms"),
        ("not a structure\n", "no_atoms", "no atoms"),
        (atom("CA", "ALA", "x.y"), "unreadable", "line 1: 'x.y' in columns 31 to 38 is no coordinate"),
        (atom("CA", "ALA")[:40] + "\n", "unreadable", "line 1: '' in columns 39 to 46"),
        (atom("CA", "ALA", "nan"), "bad_coordinates", "CA of ALA 1 of chain A"),
        (atom("C1", "XYZ"), "no_atoms", "nothing is left"),
    ],
)
def test_a_broken_structure_is_explained(builder: Callable[..., Directory], text: str, code: str, words: str) -> None:
    failure = builder(text).result["error"]
    assert failure["code"] == code
    assert words in failure["message"]
    assert failure["loc"] == ["body", "protein"]


def test_a_missing_template_names_the_residue_by_its_authors_number(builder: Callable[..., Directory]) -> None:
    # A carbon under a name that alanine has not; the one that is missed is added beside it.
    text = VILLIN.read_text().replace(" CB  ALA A  49", " ZZ  ALA A  49")
    failure = builder(text, keep_hydrogens=True).result["error"]
    assert failure["code"] == "no_template"
    assert "ALA 49 of chain A" in failure["message"]


@pytest.mark.parametrize("shape", ["cube", "rectangular", "dodecahedron", "octahedron"])
def test_a_box_of_solvent_alone_is_as_wide_as_the_cutoff_needs(builder: Callable[..., Directory], shape: str) -> None:
    built = builder(padding_nm=1.0, box_shape=shape)
    assert built.result["status"] == "succeeded", built.log()
    assert min(np.diag(built.result["summary"]["box_vectors"])) == pytest.approx(2.2)


def test_a_box_that_is_too_large_is_refused(builder: Callable[..., Directory]) -> None:
    large = builder(padding_nm=5.0, max_atoms=50_000).result["error"]
    assert large["code"] == "too_large" and "50000" in large["message"]


def test_a_platform_that_is_not_there_is_an_error(builder: Callable[..., Directory]) -> None:
    # No protein and no hydrogens: the platform is first asked for when the energy is checked.
    directory = builder(task={"platform": "HIP"})
    assert directory.result["error"]["code"] == "platform_missing"
