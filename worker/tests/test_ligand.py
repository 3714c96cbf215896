"""Ligands: parameters, poses, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import BUILD, DATA, EXAMPLES, Directory, input_file, positions_nm, structure, task_of, warnings
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import AllChem
from test_gromacs_energies import compare, needs_gmx_d

from molbox_worker.directory import TaskDirectory
from molbox_worker.gaff import has_tools
from molbox_worker.ligand import _complete, _read, rotation_matrix
from molbox_worker.result import TaskError

XYLENE = DATA / "p-xylene.mol2"
Builder = Callable[..., Directory]


def entry(file: str = "xylene.mol2", name: str = "PXY", **changes: Any) -> dict[str, Any]:
    """The plan's entry for a ligand in the input folder."""
    pose = {"rotation": None, "translation": None}
    return {**input_file(file), "residue_name": name, **pose, **changes}


def drawn(smiles: str, *, with_hydrogens: bool = True) -> str:
    """An SDF with a geometry."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    AllChem.EmbedMolecule(molecule, randomSeed=3)
    return Chem.MolToMolBlock(molecule if with_hydrogens else Chem.RemoveHs(molecule)) + "$$$$\n"


def charges(directory: Directory, name: str = "PXY") -> NDArray[np.float64]:
    root = ElementTree.parse(directory.output(f"{name}.gaff2.xml")).getroot()
    return np.array([float(atom.attrib["charge"]) for atom in root.iterfind("Residues/Residue/Atom")])


def ligand_positions(directory: Directory, name: str = "PXY") -> NDArray[np.float64]:
    file = structure(directory, "prepared")
    return positions_nm(file)[[atom.index for atom in file.topology.atoms() if atom.residue.name == name]]


def test_an_acpype_without_the_programs_of_amber_is_no_tool_for_ligands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_tools()
    (tmp_path / "acpype").mkdir()
    (tmp_path / "acpype/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert not has_tools()


@pytest.fixture(scope="module")
def xylene(builder: Builder) -> Directory:
    """p-xylene in water, with a cache of its own."""
    return builder(inputs={"xylene.mol2": XYLENE}, ligands=[entry()])


def test_charges_are_am1_bcc(xylene: Directory) -> None:
    assert xylene.result["status"] == "succeeded", xylene.log()
    assert xylene.result["summary"]["molecules"]["PXY"] == 1
    # AM1-BCC by antechamber and sqm, from openmmtools' ligand.mol2; sqm's geometry differs a little.
    reference = [-0.0819] * 2 + [-0.1267, -0.1278] * 2 + [-0.0527] * 2 + [0.1298] * 4 + [0.0432] * 6
    assert np.sort(charges(xylene)) == pytest.approx(np.sort(reference), abs=0.005)
    assert charges(xylene).sum() == pytest.approx(0, abs=1e-6)


def mol2(atoms: list[str], bonds: list[str]) -> str:
    head = f"@<TRIPOS>MOLECULE\nx\n{len(atoms)} {len(bonds)} 0 0 0\nSMALL\nNO_CHARGES\n\n"
    return head + "\n".join(["@<TRIPOS>ATOM", *atoms, "@<TRIPOS>BOND", *bonds]) + "\n"


def bare(types: str, *bonds: str) -> str:
    """A MOL2 of atoms of these types, in a zigzag, and their bonds."""
    steps = enumerate(types.split(), 1)
    atoms = [f"{i} X{i} {1.3 * i:.1f} {0.7 * (i % 2):.1f} {0.1 * i:.1f} {kind} 1 X 0.0" for i, kind in steps]
    return mol2(atoms, [f"{i} {bond}" for i, bond in enumerate(bonds, 1)])


def completed(text: str, folder: Path, kind: str = "mol2") -> tuple[Chem.Mol, list[str]]:
    """A MOL2, or another format, with the hydrogens that it lacks, and the codes of warnings."""
    directory = Directory(folder / "task", task_of(BUILD))
    path = directory.path / "input" / f"a.{kind}"
    path.write_text(text)
    task = TaskDirectory(directory.path)
    molecule = _complete(task, _read(path, kind, "ligand 1", [])[0], "ligand 1", [])
    return molecule, [warning.code for warning in task.warnings]


XYLENE_BONDS = ("1 2 ar", "2 3 ar", "3 4 ar", "4 5 ar", "5 6 ar", "6 1 ar", "1 7 1", "4 8 1")


@pytest.mark.parametrize(
    ("text", "smiles"),
    [
        (bare("C.ar C.ar C.ar C.ar C.ar C.ar C.3 C.3", *XYLENE_BONDS), "Cc1ccc(C)cc1"),
        (bare("N.4 C.3 C.2 O.co2 O.co2", "1 2 1", "2 3 1", "3 4 ar", "3 5 ar"), "[NH3+]CC(=O)[O-]"),
        (bare("O.3 C.3 C.3 N.3", "1 2 1", "2 3 1", "3 4 1"), "NCCO"),
        (bare("C.3 N.pl3 C.cat N.pl3 N.pl3", "1 2 1", "2 3 1", "3 4 1", "3 5 2"), "CNC(N)=[NH2+]"),
        (bare("C.3 N.pl3 O.2 O.2", "1 2 1", "2 3 2", "2 4 2"), "C[N+](=O)[O-]"),
    ],
)
def test_a_mol2_without_hydrogens_gets_them_by_valence(text: str, smiles: str, tmp_path: Path) -> None:
    molecule, codes = completed(text, tmp_path)
    assert Chem.MolToSmiles(Chem.RemoveHs(molecule)) == Chem.MolToSmiles(Chem.MolFromSmiles(smiles))
    assert codes == ["ligand_hydrogens_added"]


def test_a_mol2_with_the_hydrogens_of_its_carbons_has_them_all(tmp_path: Path) -> None:
    hydrogens = ["3 H1 -0.4 1.0 0.0 H 1 X 0.0", "4 H2 -0.4 -0.5 0.9 H 1 X 0.0", "5 H3 -0.4 -0.5 -0.9 H 1 X 0.0"]
    methanolate = mol2(
        ["1 C 0.0 0.0 0.0 C.3 1 X 0.0", "2 O 1.4 0.0 0.0 O.3 1 X 0.0", *hydrogens],
        ["1 1 2 1", "2 1 3 1", "3 1 4 1", "4 1 5 1"],
    )
    molecule, codes = completed(methanolate, tmp_path)
    assert Chem.MolToSmiles(Chem.RemoveHs(molecule)) == "C[O-]"
    assert codes == []


def benzene(carbons: float, hydrogens: float) -> str:
    """An SDF in the plane of the paper: a ring of carbons, and hydrogens outside of it, at these radii in Å."""
    molecule = Chem.AddHs(Chem.MolFromSmiles("c1ccccc1"))
    conformer = Chem.Conformer(12)
    for atom in range(12):
        radius = carbons if atom < 6 else hydrogens
        place = [radius * f(np.pi / 3 * (atom % 6)) for f in (np.cos, np.sin)]
        conformer.SetAtomPosition(atom, [*place, 0.0])
    conformer.Set3D(False)
    molecule.AddConformer(conformer)
    return Chem.MolToMolBlock(molecule) + "$$$$\n"


def test_a_flat_molecule_in_the_plane_of_the_paper_is_no_drawing(tmp_path: Path) -> None:
    molecule, codes = completed(benzene(1.39, 2.48), tmp_path, "sdf")
    assert Chem.MolToSmiles(Chem.RemoveHs(molecule)) == "c1ccccc1"
    assert codes == [] and molecule.GetConformer().Is3D()
    # All bonds of one length, hydrogens too, as programs draw them.
    with pytest.raises(TaskError, match="is a drawing"):
        completed(benzene(1.5, 3.0), tmp_path / "drawn", "sdf")


@needs_gmx_d
def test_gromacs_has_openmms_energies_of_a_ligand(xylene: Directory, tmp_path: Path) -> None:
    compare(xylene, tmp_path).check()


def test_the_same_molecule_is_taken_from_the_cache(builder: Builder, xylene: Directory) -> None:

    cache = xylene.spec.cache
    # In another order of atoms and another place, but the same shape.
    molecule = Chem.MolFromMol2File(str(XYLENE), removeHs=False)
    shuffled = Chem.RenumberAtoms(molecule, list(reversed(range(molecule.GetNumAtoms()))))
    again = builder(
        inputs={"xylene.sdf": Chem.MolToMolBlock(shuffled)},
        ligands=[entry("xylene.sdf", translation=[1.0, 2.0, 3.0])],
        task={"cache": cache},
    )
    assert "from the cache" in again.log() and "from the cache" not in xylene.log()
    assert again.output("PXY.gaff2.xml").read_bytes() == xylene.output("PXY.gaff2.xml").read_bytes()


def test_formats_say_the_same(builder: Builder, xylene: Directory) -> None:
    molecule = Chem.MolFromMol2File(str(XYLENE), removeHs=False)
    pdb = builder(inputs={"xylene.pdb": Chem.MolToPDBBlock(molecule)}, ligands=[entry("xylene.pdb")])
    assert charges(pdb) == pytest.approx(charges(xylene), abs=1e-3)


def test_of_several_molecules_the_first_is_taken_and_told(builder: Builder, xylene: Directory) -> None:
    cache = xylene.spec.cache
    molecule = Chem.MolFromMol2File(str(XYLENE), removeHs=False)
    files = {
        "xylene.mol2": "# by hand\n\n" + XYLENE.read_text() + "\n" + XYLENE.read_text(),
        "xylene.sdf": Chem.MolToMolBlock(molecule) + "$$$$\n" + drawn("CC") + drawn("CCC"),
    }
    for name, count in (("xylene.mol2", 2), ("xylene.sdf", 3)):
        built = builder(inputs={name: files[name]}, ligands=[entry(name)], task={"cache": cache})
        assert built.result["status"] == "succeeded", built.log()
        assert warnings(built)["ligand_chosen"] == [f"ligand 1 ({name}) has {count} molecules; the first was taken"]
        assert "from the cache" in built.log(), "it is the molecule that is known"


def test_the_types_of_gaff_are_read_as_elements(builder: Builder, xylene: Directory) -> None:
    cache = xylene.spec.cache
    types = {"C.ar": "ca", "C.3": "c3", " H ": " hc "}
    text = XYLENE.read_text()
    assert all(tripos in text for tripos in types)
    for tripos, gaff in types.items():
        text = text.replace(tripos, gaff)
    built = builder(inputs={"xylene.mol2": text}, ligands=[entry()], task={"cache": cache})
    assert built.result["status"] == "succeeded", built.log()
    assert "from the cache" in built.log()


def test_hydrogens_that_a_file_lacks_are_added(builder: Builder) -> None:
    built = builder(inputs={"amine.sdf": drawn("C[NH3+]", with_hydrogens=False)}, ligands=[entry("amine.sdf", "MAM")])
    assert built.result["status"] == "succeeded", built.log()
    assert "6 hydrogens added by valence, at charge +1" in warnings(built)["ligand_hydrogens_added"][0]
    assert charges(built, "MAM").sum() == pytest.approx(1, abs=1e-6)
    # One chloride for the charge.
    molecules = built.result["summary"]["molecules"]
    assert molecules["CL"] - molecules["NA"] == 1


def test_a_ligand_is_turned_about_its_centre_and_then_moved(builder: Builder, xylene: Directory) -> None:
    moved = builder(inputs={"xylene.mol2": XYLENE}, ligands=[entry(rotation=[0, 0, 90], translation=[0.5, 0, -0.25])])
    before, after = ligand_positions(xylene), ligand_positions(moved)
    centre = before[:8].mean(axis=0)
    assert after[:8].mean(axis=0) == pytest.approx(centre + np.array([0.5, 0, -0.25]), abs=1e-4)
    turned = (before - centre)[:, [1, 0, 2]] * [-1, 1, 1]
    assert after - after[:8].mean(axis=0) == pytest.approx(turned, abs=2e-4)


def test_a_ligand_is_built_in_the_cavity_of_its_protein(builder: Builder, xylene: Directory) -> None:
    cache = xylene.spec.cache
    built = builder(
        DATA / "t4-lysozyme.pdb.gz",
        inputs={"xylene.mol2": XYLENE},
        ligands=[entry()],
        task={"cache": cache},
        padding_nm=0.5,
        box_shape="rectangular",
    )
    assert built.result["status"] == "succeeded", built.log()
    molecules = built.result["summary"]["molecules"]
    assert (molecules["protein"], molecules["PXY"]) == (1, 1)
    file = structure(built)
    x = positions_nm(file)
    atoms = list(file.topology.atoms())
    pose = [atom.index for atom in atoms if atom.residue.name == "PXY"]
    assert x[pose] == pytest.approx(ligand_positions(built), abs=1e-4), "it stays where its file has it"
    near = {
        f"{atom.residue.name}{atom.residue.id}"
        for atom in atoms
        if atom.residue.name != "PXY" and np.linalg.norm(x[pose] - x[atom.index], axis=1).min() < 0.3
    }
    # The cavity that the mutation L99A makes is lined by these, and dry.
    assert {"ALA99", "VAL111", "LEU118"} <= near and not any(name.startswith("HOH") for name in near), near


def test_rotations_can_be_given_in_three_ways() -> None:
    angles = rotation_matrix([20, -35, 110])
    # Angle and axis of a rotation from its matrix.
    w = np.sqrt(1 + np.trace(angles)) / 2
    axis = [angles[2, 1] - angles[1, 2], angles[0, 2] - angles[2, 0], angles[1, 0] - angles[0, 1]]
    quaternion = [*(np.array(axis) / (4 * w)), w]
    assert rotation_matrix(quaternion) == pytest.approx(angles)
    for length in (2, 1e-200, 1e200):
        assert rotation_matrix([length * x for x in quaternion]) == pytest.approx(angles)
    assert rotation_matrix(angles.ravel().tolist()) == pytest.approx(angles)
    # About fixed axes: x first.
    assert rotation_matrix([90, 0, 90]) @ [0, 1, 0] == pytest.approx([0, 0, 1])


def test_a_ligand_in_the_proteins_place_is_refused_by_name(builder: Builder) -> None:
    nearby = builder(
        EXAMPLES / "1vii.pdb",
        inputs={"xylene.mol2": XYLENE},
        ligands=[entry(translation=[-4.24, -4.55, -1.79])],
        padding_nm=0.6,
    )
    failure = nearby.result["error"]
    assert failure["code"] == "ligand_overlaps"
    assert "ligand 1 (xylene.mol2) overlaps" in failure["message"] and "in chain A" in failure["message"]
    assert failure["loc"] == ["body", "ligand_translations", 0]


PERCHLORATE = "".join(
    f"HETATM{i + 1:5} {name:<4} LIG A   1    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          {name[:-1]:>2}  \n"
    for i, (name, x, y, z) in enumerate(
        [
            ("CL1", 0.0, 0.0, 0.0),
            ("O1", 0.831, 0.831, 0.831),
            ("O2", 0.831, -0.831, -0.831),
            ("O3", -0.831, 0.831, -0.831),
            ("O4", -0.831, -0.831, 0.831),
        ]
    )
)
BAD_VALENCE = drawn("CC").replace("  1  2  1  0", "  1  2  4  0").replace("  1  2  4  0", "  1  2  3  0", 1)


@pytest.mark.parametrize(
    ("files", "ligands", "code", "words"),
    [
        ({"a.sdf": ""}, [entry("a.sdf")], "ligand_unreadable", "cannot be read as sdf"),
        ({"a.sdf": "nonsense\n\n$$$$\n"}, [entry("a.sdf")], "ligand_unreadable", "ligand 1 (a.sdf)"),
        ({"a.mol2": "nonsense\n"}, [entry("a.mol2")], "ligand_unreadable", "cannot be read as mol2"),
        ({"a.sdf": BAD_VALENCE}, [entry("a.sdf")], "ligand_chemistry", "Explicit valence for atom 1 C"),
        ({"a.sdf": drawn("CCN.Cl")}, [entry("a.sdf")], "ligand_fragments", "2 molecules"),
        ({"a.sdf": drawn("C[CH]C")}, [entry("a.sdf")], "ligand_radical", "unpaired electron"),
        ({"a.sdf": drawn("OB(O)C")}, [entry("a.sdf")], "ligand_element", "has B"),
        (
            {"a.sdf": Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))},
            [entry("a.sdf")],
            "ligand_flat",
            "no coordinates in space",
        ),
        (
            {"a.pdb": Chem.MolToPDBBlock(Chem.MolFromMolBlock(drawn("CCO")))},
            [entry("a.pdb")],
            "ligand_no_hydrogens",
            "no hydrogens",
        ),
        ({"a.pdb": PERCHLORATE}, [entry("a.pdb")], "ligand_bonds", "its charge is unknown"),
        ({"a.sdf": drawn("CCO")}, [entry("a.sdf", "ALA")], "ligand_name_taken", "ALA"),
        (
            {"a.sdf": drawn("CCO"), "b.sdf": drawn("CCN")},
            [entry("a.sdf", "LIG"), entry("b.sdf", "LIG")],
            "ligand_name_taken",
            "different molecules",
        ),
    ],
)
def test_a_bad_ligand_is_explained(
    builder: Builder, files: dict[str, Path | str], ligands: list[dict[str, Any]], code: str, words: str
) -> None:
    result = builder(inputs=files, ligands=ligands).result
    assert result["status"] == "failed"
    assert result["error"]["code"] == code, result["error"]
    assert words in result["error"]["message"]
    assert result["error"]["loc"][0] == "body"


def test_parameters_have_a_time_limit(builder: Builder) -> None:
    failure = builder(
        inputs={"a.sdf": drawn("c1ccccc1CCN")}, ligands=[entry("a.sdf")], task={"ligand_seconds": 0.05}
    ).result["error"]
    assert failure["code"] == "ligand_time_limit" and "0.05 s" in failure["message"]


CHARMM = {
    "force_field": {"name": "charmm36", "family": "charmm", "files": ["charmm36.xml"], "custom": None},
    "water": {"name": "tip3p", "file": "charmm36/water.xml", "model": "tip3p", "sites": 3},
}


def test_gaff_does_not_go_with_charmm(builder: Builder) -> None:
    unknown = {"a.sdf": drawn("FC1(Cl)CC1CN")}
    failure = builder(inputs=unknown, ligands=[entry("a.sdf")], **CHARMM).result["error"]
    assert failure["code"] == "ligand_force_field" and "1-4" in failure["message"]


def test_a_ligand_that_the_force_field_knows_takes_its_parameters(builder: Builder) -> None:
    ethanol = builder(inputs={"a.sdf": drawn("CCO")}, ligands=[entry("a.sdf", "EOH")], **CHARMM)
    assert ethanol.result["status"] == "succeeded", ethanol.log()
    assert ethanol.result["summary"]["molecules"]["EOH"] == 1
    assert not ethanol.output("EOH.gaff2.xml").exists()
