"""Force fields: the CHARMM family, water models, and files from users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import CHARMM36_2024, DATA, EXAMPLES, Directory, input_file, positions_nm, structure
from openmm import app, unit
from test_gromacs_energies import compare, needs_gmx_d
from test_residues import part

from molbox_worker import charmm
from molbox_worker.topology import read_topology

Builder = Callable[..., Directory]


def family(name: str, water: str = "water", model: str = "tip3p", sites: int = 3) -> dict[str, Any]:
    return {
        "force_field": {"name": name, "family": "charmm", "files": [f"{name}.xml"], "custom": None},
        "water": {"name": water, "file": f"{name}/{water}.xml", "model": model, "sites": sites},
    }


def energy_and_forces(system: openmm.System, start: openmm.State) -> tuple[float, Any]:
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPeriodicBoxVectors(*start.getPeriodicBoxVectors())
    context.setPositions(start.getPositions())
    state = context.getState(energy=True, forces=True)
    return state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value


def without_corrections(*systems: openmm.System) -> None:
    for system in systems:
        for force in system.getForces():
            if isinstance(force, openmm.NonbondedForce):
                force.setUseDispersionCorrection(False)
            if isinstance(force, openmm.CustomNonbondedForce):
                force.setUseLongRangeCorrection(False)


@pytest.fixture(scope="module")
def crambin(builder: Builder) -> Directory:
    directory = builder(DATA / "1ejg.pdb", box_shape="octahedron", padding_nm=0.6, **family("charmm36_2024"))
    assert directory.result["status"] == "succeeded", directory.log()
    return directory


def test_charmm_has_the_energy_and_forces_of_openmms_app_layer(crambin: Directory) -> None:
    built = openmm.XmlSerializer.deserialize(crambin.output("system.xml").read_text())
    file = structure(crambin)
    force_field = app.ForceField("charmm36_2024.xml", "charmm36_2024/water.xml")
    # What it takes 24 s without.
    charmm.prune(force_field, file.topology)
    reference = force_field.createSystem(
        file.topology, nonbondedMethod=app.PME, nonbondedCutoff=1.0 * unit.nanometer, constraints=app.HBonds
    )
    without_corrections(built, reference)
    # The structure file rounds positions and box.
    start = openmm.XmlSerializer.deserialize(crambin.output("state.xml").read_text())
    ours, our_forces = energy_and_forces(built, start)
    theirs, their_forces = energy_and_forces(reference, start)
    # Sums of other terms in double precision; the combination rule is undone and done again.
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert np.abs(our_forces - their_forces).max() < 1e-9 * np.abs(their_forces).max()


def test_charmm_has_no_tabulated_lennard_jones(crambin: Directory) -> None:
    system = openmm.XmlSerializer.deserialize(crambin.output("system.xml").read_text())
    assert "LennardJones" not in {force.getName() for force in system.getForces()}


def amber(name: str, files: list[str], water: str, folder: str, sites: int = 3) -> dict[str, Any]:
    model = {3: "tip3p", 4: "tip4pew"}[sites]
    return {
        "force_field": {"name": name, "family": "amber", "files": files, "custom": None},
        "water": {"name": water, "file": f"{folder}{water}.xml", "model": model, "sites": sites},
    }


def between_caps(number: int) -> str:
    """A residue of villin between ACE and NME, whose atoms are those of its neighbours."""
    before, after = {"CA": "CH3", "C": "C", "O": "O"}, {"N": "N", "CA": "C"}
    capped = []
    for line in part(number - 1, number + 1):
        name, at = line[12:16].strip(), int(line[22:26])
        cap, kept = ("ACE", before) if at < number else ("NME", after)
        if at == number:
            capped.append(line)
        elif name in kept:
            capped.append(f"{line[:12]} {kept[name]:<3}{line[16:17]}{cap}{line[20:]}")
    return "".join(capped)


def test_alanine_between_caps_has_the_energies_of_charmms_own_dipeptide(builder: Builder) -> None:
    # Both ALAD and AANM, of the types of small molecules, fit it.
    built = builder(between_caps(49), padding_nm=0.5, **family("charmm36"))
    assert built.result["status"] == "succeeded", built.log()
    topology = read_topology(built.output("topology.json"))
    start = openmm.XmlSerializer.deserialize(built.output("state.xml").read_text())
    topology.setPeriodicBoxVectors(start.getPeriodicBoxVectors())
    alanine = next(residue for residue in topology.residues() if residue.name == "ALA")
    reference = app.ForceField("charmm36.xml", "charmm36/water.xml").createSystem(
        topology,
        nonbondedMethod=app.PME,
        nonbondedCutoff=1.0 * unit.nanometer,
        constraints=app.HBonds,
        residueTemplates={alanine: "ALAD"},
    )
    system = openmm.XmlSerializer.deserialize(built.output("system.xml").read_text())
    without_corrections(system, reference)
    ours, our_forces = energy_and_forces(system, start)
    theirs, their_forces = energy_and_forces(reference, start)
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert np.abs(our_forces - their_forces).max() < 1e-9 * np.abs(their_forces).max()


def test_proline_between_caps_is_a_proteins_proline(builder: Builder) -> None:
    # PDIP, which fits it, has the types of small molecules and no CMAP.
    built = builder(between_caps(62), padding_nm=0.5, **family("charmm36"))
    assert built.result["status"] == "succeeded", built.log()
    system = openmm.XmlSerializer.deserialize(built.output("system.xml").read_text())
    (cmap,) = (force for force in system.getForces() if isinstance(force, openmm.CMAPTorsionForce))
    assert cmap.getNumTorsions() == 1


# Each with its default water, and one with five sites. The charge is what the water's authors give to
# the site that is negative: Jorgensen 1983, Berendsen 1987, Wang 2014, Izadi 2014, Mahoney 2000.
@pytest.mark.parametrize(
    ("plan", "sites", "charge"),
    [
        (amber("amber14", ["amber14-all.xml"], "tip3p", "amber14/"), 3, -0.834),
        (amber("amber19", ["amber19-all.xml"], "opc", "amber19/", 4), 4, -1.3582),
        (amber("amber14-ff15ipq", ["amber14/protein.ff15ipq.xml"], "spce", "amber14/"), 3, -0.8476),
        (amber("amberfb15", ["amberfb15.xml"], "tip3pfb", ""), 3, -0.84845),
        (family("charmm36"), 3, -0.834),
        (family("charmm36", "tip5p", "tip5p", 5), 5, -0.241),
    ],
    ids=lambda value: value["force_field"]["name"] + " " + value["water"]["name"] if isinstance(value, dict) else None,
)
def test_a_family_builds_a_protein_in_its_water(
    builder: Builder, plan: dict[str, Any], sites: int, charge: float
) -> None:
    built = builder(EXAMPLES / "1vii.pdb", box_shape="octahedron", padding_nm=0.5, **plan)
    assert built.result["status"] == "succeeded", built.log()
    summary = built.result["summary"]
    assert (summary["molecules"]["protein"], summary["water_type"]) == (1, plan["water"]["name"])
    assert summary["net_charge"] == pytest.approx(0, abs=1e-3)
    water = next(r for r in structure(built).topology.residues() if r.name == "HOH")
    system = openmm.XmlSerializer.deserialize(built.output("system.xml").read_text())
    nonbonded = next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    indices = [atom.index for atom in water.atoms()]
    assert min(nonbonded.getParticleParameters(i)[0]._value for i in indices) == pytest.approx(charge, abs=1e-4)
    assert len(indices) == sites and sum(map(system.isVirtualSite, indices)) == sites - 3


# A neutral atom of argon's size; a residue that no protein has.
ARGON = """<ForceField>
 <AtomTypes><Type name="argon" class="argon" element="Ar" mass="39.948"/></AtomTypes>
 <Residues><Residue name="AR"><Atom name="AR" type="argon" charge="0"/></Residue></Residues>
 <NonbondedForce coulomb14scale="0.8333333333333334" lj14scale="0.5">
  <UseAttributeFromResidue name="charge"/>
  <Atom type="argon" sigma="0.34" epsilon="0.996"/>
 </NonbondedForce>
</ForceField>"""
CUSTOM = input_file("force_field.xml", "argon.xml")


def argon(force_field: dict[str, Any], builder: Builder, xml: str = ARGON) -> Directory:
    atom = "HETATM    1 AR    AR A   1       0.000   0.000   0.000  1.00  0.00          AR  \nEND\n"
    return builder(atom, inputs={"force_field.xml": xml}, force_field=force_field, padding_nm=1.2)


@needs_gmx_d
def test_gromacs_has_openmms_energies_of_a_registered_force_field(builder: Builder, tmp_path: Path) -> None:
    amber14 = {"name": "amber14", "family": "amber", "files": ["amber14-all.xml"], "custom": CUSTOM}
    compare(argon(amber14, builder), tmp_path).check()


def test_a_file_adds_its_residues_to_a_force_field(builder: Builder) -> None:
    built = argon({"name": "amber14", "family": "amber", "files": ["amber14-all.xml"], "custom": CUSTOM}, builder)
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["summary"]["molecules"]["AR"] == 1
    system = openmm.XmlSerializer.deserialize(built.output("system.xml").read_text())
    nonbonded = next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    assert [x._value for x in nonbonded.getParticleParameters(0)] == pytest.approx([0, 0.34, 0.996])
    # And without the file, it has no parameters and goes.
    without = argon({"name": "amber14", "family": "amber", "files": ["amber14-all.xml"], "custom": None}, builder)
    assert without.result["error"]["code"] == "no_atoms"


def test_a_file_can_stand_alone_with_water_of_its_own(builder: Builder) -> None:
    water = (app.forcefield.__file__.rsplit("/", 1)[0]) + "/data/spce.xml"
    with open(water) as file:
        xml = file.read()
    built = builder(
        inputs={"force_field.xml": xml},
        force_field={"name": "spce.xml", "family": "custom", "files": [], "custom": CUSTOM},
        water={"name": "custom", "file": None, "model": None, "sites": None},
        concentration=0.0,
    )
    assert built.result["status"] == "succeeded", built.log()
    assert positions_nm(structure(built)).shape[0] == built.result["summary"]["atoms"]


@pytest.mark.parametrize(
    ("xml", "code", "words"),
    [
        (ARGON.replace("<AtomTypes>", "<Script>open('x')</Script><AtomTypes>"), "force_field_unsafe", "<Script>"),
        (
            ARGON.replace("<AtomTypes>", "<InitializationScript>1</InitializationScript><AtomTypes>"),
            "force_field_unsafe",
            "<InitializationScript>",
        ),
        (ARGON.replace("<AtomTypes>", '<Include file="/etc/passwd"/><AtomTypes>'), "force_field_unsafe", "<Include>"),
        (
            ARGON.replace('lj14scale="0.5"', 'lj14scale="0.5" useDispersionCorrection="print(1)"'),
            "force_field_unsafe",
            "useDispersionCorrection",
        ),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + ARGON, "force_field_unsafe", "DOCTYPE"),
        ("<Residues/>", "force_field_unsafe", "the root is <Residues>"),
        (ARGON[:-20], "force_field_unreadable", "is not XML"),
        ('<?xml version="1.0" encoding="utf-7"?>' + ARGON, "force_field_unreadable", "is not XML"),
        ('<?xml version="1.0" encoding="nothing"?>' + ARGON, "force_field_unreadable", "is not XML"),
        (ARGON.replace('lj14scale="0.5"', 'lj14scale="1.0"'), "force_field_unreadable", "1-4 scales"),
    ],
)
def test_a_file_that_could_run_or_cannot_be_read_is_refused(builder: Builder, xml: str, code: str, words: str) -> None:
    directory = argon(
        {"name": "amber14", "family": "amber", "files": ["amber14-all.xml"], "custom": CUSTOM}, builder, xml
    )
    failure = directory.result["error"]
    assert failure["code"] == code
    assert "argon.xml" in failure["message"] and words in failure["message"]
    assert str(directory.path) not in failure["message"]
    assert failure["loc"] == ["body", "force_field"]


@pytest.mark.parametrize("family", ["amber", "charmm"])
def test_ions_that_the_force_field_lacks_are_refused_as_such(builder: Builder, family: str) -> None:
    amber = {
        "force_field": {"name": "amberfb15", "family": "amber", "files": ["amberfb15.xml"], "custom": None},
        "water": {"name": "tip3pfb", "file": "tip3pfb.xml", "model": "tip3p", "sites": 3},
    }
    plan = amber if family == "amber" else CHARMM36_2024
    failure = builder(positive_ion="K+", negative_ion="Br-", **plan).result["error"]
    assert (failure["code"], failure["loc"]) == ("no_template", ["body", "ions"])
    assert f"{plan['force_field']['name']} has no template for Br-" in failure["message"]
