"""The check that every system passes: what it refuses, and what it says of one that passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import BUILD, DATA, Directory, changed, input_file, positions_nm, structure, task_of, warnings
from openmm import app
from openmm.unit import nanometer
from test_force_field import ARGON, CUSTOM
from test_residues import SMALL, part
from test_structure import hetatm

from molbox_worker import build, check, contacts, hydrogens, relax, solvate, solvent
from molbox_worker.directory import TaskDirectory
from molbox_worker.plan import BuildPlan, BuildTask
from molbox_worker.prepared import Account
from molbox_worker.result import TaskError

Builder = Callable[..., Directory]
AMBER14 = {"name": "amber14", "family": "amber", "files": ["amber14-all.xml"], "custom": CUSTOM}


def moved(lines: list[str], atom: tuple[str, int], step: tuple[float, float, float]) -> str:
    """A structure with one atom moved, in Å."""
    found = []
    for line in lines:
        if (line[12:16].strip(), int(line[22:26])) == atom:
            place = [float(line[k : k + 8]) + x for k, x in zip((30, 38, 46), step, strict=True)]
            found.append(line[:30] + "".join(f"{x:8.3f}" for x in place) + line[54:])
        else:
            found.append(line)
    return "".join(found)


def molecule(*, charge: float = 0.0, bond: str = "", away: float = 3.8) -> tuple[str, str]:
    """Two argons that are bonded: a structure, and a force field that has them."""
    atoms = "".join(f'<Atom name="A{i}" type="argon" charge="{charge}"/>' for i in (1, 2))
    xml = ARGON.replace(
        '<Residue name="AR"><Atom name="AR" type="argon" charge="0"/></Residue>',
        f'<Residue name="AR2">{atoms}<Bond atomName1="A1" atomName2="A2"/></Residue>',
    ).replace("<NonbondedForce", f"{bond}<NonbondedForce")
    text = hetatm("A1", "AR2", 901, (0.0, 0.0, 0.0), "AR") + hetatm("A2", "AR2", 901, (away, 0.0, 0.0), "AR")
    return text.replace("HETATM 9901", "HETATM    2").replace(
        "HETATM    2", "HETATM    1", 1
    ) + "CONECT    1    2\n", xml


def spring(length: float, strength: float) -> str:
    bond = f'<Bond class1="argon" class2="argon" length="{length}" k="{strength}"/>'
    return f"<HarmonicBondForce>{bond}</HarmonicBondForce>"


def stretched(share: float) -> str:
    """Part of villin with a bond of a side chain longer by a share of it."""
    lines = part(44, 54)
    cg, od1 = (
        np.array([float(line[k : k + 8]) for k in (30, 38, 46)])
        for name in ("CG", "OD1")
        for line in lines
        if line[12:16].strip() == name and line[22:26] == "  44"
    )
    return moved(lines, ("OD1", 44), tuple(share * (od1 - cg)))


def test_a_bond_that_is_too_long_is_refused(builder: Builder) -> None:
    failure = builder(stretched(0.6)).result["error"]
    assert (failure["code"], failure["loc"]) == ("bond_stretched", ["body", "protein"])
    assert "OD1 of ASP 44 of chain A" in failure["message"] and "times its length" in failure["message"]


def test_a_bond_between_residues_may_be_strained_less(builder: Builder) -> None:
    lines = part(44, 54)
    c, n = (
        np.array([float(line[k : k + 8]) for k in (30, 38, 46)])
        for name, number in (("C", "  49"), ("N", "  50"))
        for line in lines
        if line[12:16].strip() == name and line[22:26] == number
    )
    beyond = [line for line in lines if int(line[22:26]) >= 50]
    places = [[float(line[k : k + 8]) for k in (30, 38, 46)] + 0.27 * (n - c) for line in beyond]
    apart = [
        line[:30] + "".join(f"{value:8.3f}" for value in x) + line[54:] for line, x in zip(beyond, places, strict=True)
    ]
    failure = builder("".join(line for line in lines if int(line[22:26]) < 50) + "".join(apart)).result["error"]
    assert failure["code"] == "bond_stretched"
    assert "C of ALA 49" in failure["message"]


def test_a_bond_that_is_strained_within_a_residue_of_the_file_is_reported(builder: Builder) -> None:
    built = builder(stretched(0.25), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    (message,) = warnings(built)["bond_strained"]
    assert "OD1 of ASP 44 of chain A" in message and "as in the file" in message
    assert built.result["summary"]["check"]["longest_bond"]["ratio"] > 1.2


@pytest.mark.parametrize(
    ("symbols", "apart", "is_refused"),
    [("HH", 0.126, False), ("HH", 0.105, True), ("CC", 0.21, False), ("CC", 0.20, True)],
)
def test_atoms_without_a_bond_keep_apart_hydrogens_a_little_less(symbols: str, apart: float, is_refused: bool) -> None:
    topology = app.Topology()
    chain = topology.addChain("A")
    places = []
    for i, symbol in enumerate(symbols):
        residue = topology.addResidue("XXX", chain, str(i))
        inner = topology.addAtom("C1", app.element.carbon, residue)
        outer = topology.addAtom("X1", app.Element.getBySymbol(symbol), residue)
        topology.addBond(inner, outer)
        places += [[i * (apart + 0.3) - 0.15, 0, 0], [i * apart, 0, 0]]
    positions = np.array(places)
    if is_refused:
        with pytest.raises(TaskError) as error:
            check.check_contacts(topology, positions, None, {})
        assert error.value.failure.code == "atoms_overlap"
    else:
        found = check.check_contacts(topology, positions, None, {})
        assert found is not None and found.distance == pytest.approx(apart)


def test_atoms_in_each_other_are_refused_with_both_names(builder: Builder) -> None:
    ring = np.mean([[float(line[k : k + 8]) for k in (30, 38, 46)] for line in part(47, 47) if "CE" in line[12:16]], 0)
    failure = builder("".join(part(44, 54)) + hetatm("ZN", "ZN", 901, tuple(ring))).result["error"]
    assert (failure["code"], failure["loc"]) == ("atoms_overlap", ["body", "protein"])
    assert "ZN of ZN 901" in failure["message"] and "PHE 47 of chain A" in failure["message"]
    assert "without a bond" in failure["message"]


def test_a_bond_without_parameters_is_refused(builder: Builder) -> None:
    text, xml = molecule()
    failure = builder(text, inputs={"force_field.xml": xml}, force_field=AMBER14, padding_nm=1.2).result["error"]
    assert (failure["code"], failure["loc"]) == ("bond_missing", ["body", "force_field"])
    assert "A1 of AR2 901 of chain A to A2 of AR2 901 of chain A" in failure["message"]


def test_a_force_that_minimisation_leaves_is_refused(builder: Builder) -> None:
    # A spring so stiff that a tenth of its length is too much, between atoms that stay.
    text, xml = molecule(bond=spring(0.345, 1e9))
    failure = builder(text, inputs={"force_field.xml": xml}, force_field=AMBER14, padding_nm=1.2).result["error"]
    assert (failure["code"], failure["loc"]) == ("force_too_large", ["body", "protein"])
    assert "of AR2 901 of chain A" in failure["message"] and "after minimisation" in failure["message"]


@pytest.mark.parametrize(("charge", "words"), [(0.2, "no number of ions neutralises"), (0.05, "add up to +0.100 e")])
def test_a_charge_that_is_not_whole_is_refused(builder: Builder, charge: float, words: str) -> None:
    text, xml = molecule(charge=charge, bond=spring(0.38, 1e4))
    failure = builder(text, inputs={"force_field.xml": xml}, force_field=AMBER14, padding_nm=1.2).result["error"]
    assert (failure["code"], failure["loc"]) == ("charge_not_neutral", ["body", "force_field"])
    assert words in failure["message"]


def test_a_sound_molecule_of_a_custom_force_field_passes(builder: Builder) -> None:
    text, xml = molecule(bond=spring(0.38, 1e4))
    built = builder(text, inputs={"force_field.xml": xml}, force_field=AMBER14, padding_nm=1.2)
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["summary"]["molecules"]["AR2"] == 1


def test_an_energy_that_is_no_number_is_refused(tmp_path: Path) -> None:
    topology = app.Topology()
    residue = topology.addResidue("AR", topology.addChain("A"), "901")
    topology.addAtom("AR", app.Element.getBySymbol("Ar"), residue)
    system = openmm.System()
    system.addParticle(39.9)
    force = openmm.CustomExternalForce("sqrt(-1 - x^2)")
    force.addParticle(0)
    system.addForce(force)
    reference = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), reference)
    context.setPositions([openmm.Vec3(1, 0, 0)])
    state = context.getState(positions=True, energy=True, forces=True)
    with pytest.raises(TaskError) as error:
        check.check(task_directory(tmp_path, "")[0], topology, system, state, Account())
    assert error.value.failure.code == "not_finite"
    assert "AR of AR 901 of chain A" in error.value.failure.message


def task_directory(path: Path, text: str) -> tuple[TaskDirectory, BuildTask]:
    """A task directory for a build in this process."""
    plan = changed(BUILD, {**SMALL, "protein": input_file("protein.pdb", "test")})
    directory = Directory(path / "task", task_of(plan))
    (directory.path / "input" / "protein.pdb").write_text(text)
    task = TaskDirectory(directory.path)
    assert isinstance(task.spec, BuildTask)
    return task, task.spec


def drop_a_residue(prepared: Any) -> None:
    residue = list(prepared.modeller.topology.residues())[5]
    prepared.modeller.delete([residue])


def cut_a_chain(prepared: Any) -> None:
    bond = next(pair for pair in prepared.modeller.topology.bonds() if {atom.name for atom in pair} == {"C", "N"})
    prepared.modeller.topology._bonds.remove(bond)


def close_a_gap(prepared: Any) -> None:
    """As readers do, which bond neighbours in a chain at any distance."""
    first, second = (list(chain.residues()) for chain in list(prepared.modeller.topology.chains())[:2])
    ends = [next(a for a in r.atoms() if a.name == n) for r, n in ((first[-1], "C"), (second[0], "N"))]
    prepared.modeller.topology.addBond(*ends)


def move_an_atom(prepared: Any) -> None:
    prepared.modeller.positions[7] = prepared.modeller.positions[7] + openmm.Vec3(0.002, 0, 0) * nanometer


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (drop_a_residue, "residue 49 of chain A was lost"),
        (cut_a_chain, "residues 44 of chain A and 45 of chain A are not bonded any more"),
        (close_a_gap, "are bonded by the way"),
        (move_an_atom, "an atom of the structure was moved by 0.002 nm or lost"),
    ],
)
def test_a_system_that_is_not_the_structure_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Callable[[Any], None], words: str
) -> None:
    # Between hydrogens and solvent, so that templates have been matched; parameters come without them.
    place = hydrogens.add

    def faulty(task: TaskDirectory, plan: BuildPlan, prepared: Any, base: app.ForceField) -> dict[str, int]:
        variants = place(task, plan, prepared, base)
        fault(prepared)
        return variants

    def parametrise(_task: TaskDirectory, topology: app.Topology, _base: app.ForceField) -> openmm.System:
        system = openmm.System()
        for _ in topology.atoms():
            system.addParticle(12.0)
        return system

    monkeypatch.setattr(hydrogens, "add", faulty)
    monkeypatch.setattr(build, "_parametrise", parametrise)
    monkeypatch.setattr(solvate, "solvate", lambda *_: None)
    lines = part(44, 54) if fault is not close_a_gap else part(44, 48) + part(51, 54)
    with pytest.raises(TaskError) as error:
        build.build(*task_directory(tmp_path, "".join(lines)))
    assert error.value.failure.code == "residues_unaccounted"
    assert words in error.value.failure.message


def test_atoms_across_the_face_of_a_box_are_near_each_other(
    monkeypatch: pytest.MonkeyPatch, builder: Builder, tmp_path: Path
) -> None:
    # What settles water there is left out.
    monkeypatch.setattr(solvent, "settle", lambda *_: None)
    with pytest.raises(TaskError) as error:
        build.build(*task_directory(tmp_path, "".join(part(44, 54))))
    assert error.value.failure.code == "atoms_overlap"
    assert "HOH" in error.value.failure.message


def test_ions_in_the_places_of_waters_on_each_other_are_moved_and_none_is_lost(tmp_path: Path) -> None:
    width = 2.4
    modeller = app.Modeller(app.Topology(), [] * nanometer)
    modeller.addSolvent(app.ForceField("amber14/tip3p.xml"), boxSize=openmm.Vec3(width, width, width) * nanometer)
    vectors = np.eye(3) * width
    places = relax.positions(modeller)
    oxygens = [atom.index for atom in modeller.topology.atoms() if atom.element is app.element.oxygen]
    steps = places[oxygens][:, None] - places[oxygens][None]
    apart = np.linalg.norm(steps - width * np.round(steps / width), axis=2) + width * np.eye(len(oxygens))
    nearest = {oxygens[i] for i in np.unravel_index(apart.argmin(), apart.shape)}
    assert apart.min() < 0.2, "they meet across a face"
    for atom in list(modeller.topology.atoms()):
        if atom.index in nearest:
            atom.residue.name = atom.name = "CL"
            atom.element = app.element.chlorine
    ions = [residue for residue in modeller.topology.residues() if residue.name == "CL"]
    modeller.delete([atom for ion in ions for atom in ion.atoms() if atom.element is app.element.hydrogen])
    task, _ = task_directory(tmp_path, "".join(part(44, 46)))
    solvent.settle(task, modeller, 0)
    _, _, ratios = contacts.unbonded(modeller.topology, relax.positions(modeller), vectors, check.CLOSEST_CONTACT)
    assert len(ratios) == 0
    assert sum(residue.name == "CL" for residue in modeller.topology.residues()) == 2


def test_a_peptide_bond_that_is_cis_is_reported(builder: Builder) -> None:
    # The second half of a peptide without side chains, turned by half a circle.
    backbone = {"N", "CA", "C", "O"}
    lines = [line for line in part(44, 46, dict.fromkeys(range(44, 47), "GLY")) if line[12:16].strip() in backbone]
    places = {
        (line[12:16].strip(), int(line[22:26])): np.array([float(line[k : k + 8]) for k in (30, 38, 46)])
        for line in lines
    }
    start, end = places["C", 45], places["N", 46]
    axis = (end - start) / np.linalg.norm(end - start)
    turned = []
    for line in lines:
        name, number = line[12:16].strip(), int(line[22:26])
        x = places[name, number]
        if number > 46 or (number == 46 and name != "N"):
            arm = x - end
            x = end + 2 * axis * (axis @ arm) - arm
        turned.append(line[:30] + "".join(f"{value:8.3f}" for value in x) + line[54:])
    built = builder("".join(turned), **{**SMALL, "padding_nm": 1.2})
    assert built.result["status"] == "succeeded", built.log()
    messages = {warning["code"]: warning["message"] for warning in built.result["warnings"]}
    assert messages == {"cis_peptide": "the peptide bonds between GLY 45 and GLY 46 are cis"}


def test_the_summary_has_the_figures_of_the_check(builder: Builder) -> None:
    built = builder(DATA / "2nwl_helix.pdb", **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    found = built.result["summary"]["check"]
    file = structure(built)
    x = positions_nm(file)
    first, second = found["longest_bond"]["atoms"]
    index = {
        f"{a.name} of {a.residue.name} {a.residue.id} of chain {a.residue.chain.id}": a.index
        for a in file.topology.atoms()
    }
    length = np.linalg.norm(x[index[first]] - x[index[second]])
    assert found["longest_bond"]["length"] == pytest.approx(length, abs=1e-4)
    assert 1.0 < found["longest_bond"]["ratio"] < 1.2
    assert 0.6 < found["closest_contact"]["ratio"] < 1.0
    assert found["largest_force"]["force"] < 1e6 and found["largest_force"]["atom"] in index
    assert sum(found["residues"].values()) == found["residues"]["kept"] == 16
    json.dumps(found, allow_nan=False)
