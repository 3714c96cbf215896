"""What residues are: taken as they are named, replaced, removed, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import openmm
import pytest
from conftest import (
    AMBER19,
    CHARMM36_2024,
    DATA,
    EXAMPLES,
    Directory,
    input_file,
    positions_nm,
    structure,
    text,
    warnings,
)
from openmm import app, unit

Builder = Callable[..., Directory]
HEAVY = [
    line
    for line in (EXAMPLES / "1vii.pdb").read_text().splitlines(keepends=True)
    if line.startswith("ATOM") and line[76:78].strip() != "H"
]
SMALL = {"box_shape": "octahedron", "padding_nm": 0.5}


def part(first: int, last: int, names: dict[int, str] | None = None) -> list[str]:
    """Heavy atoms of some residues of villin, some under other names."""
    lines = [line for line in HEAVY if first <= int(line[22:26]) <= last]
    names = names or {}
    return [f"{line[:17]}{names.get(int(line[22:26]), line[17:20]):>3}{line[20:]}" for line in lines]


def with_atoms(lines: Iterable[str], residue: int, atoms: dict[str, str], *, near: str) -> str:
    """A structure with atoms added to a residue, 0.14 nm from another atom of it, each elsewhere."""
    lines = list(lines)
    own = [i for i, line in enumerate(lines) if int(line[22:26]) == residue]
    start = next(lines[i] for i in own if lines[i][12:16].strip() == near)
    place = np.array([float(start[k : k + 8]) for k in (30, 38, 46)])
    steps = np.array([[1.2, 0.6, 0.4], [-0.6, 1.2, 0.4], [0.4, -0.6, 1.2]])
    new = []
    for (name, symbol), step in zip(atoms.items(), steps, strict=False):
        x, y, z = place + step
        new.append(f"{start[:12]} {name:<3}{start[16:30]}{x:8.3f}{y:8.3f}{z:8.3f}{start[54:76]}{symbol:>2}\n")
    at = own[-1] + 1
    return "".join(lines[:at] + new + lines[at:])


def longest_bond(directory: Directory) -> float:
    file = structure(directory)
    x = positions_nm(file)
    return max(float(np.linalg.norm(x[a.index] - x[b.index])) for a, b in file.topology.bonds())


@pytest.mark.parametrize(
    ("residue", "name", "variant", "charge"),
    [
        (65, "LYN", {"LYN": 1}, -1),
        (46, "ASH", {"ASH": 1}, 1),
        (45, "GLH", {"GLH": 1}, 1),
    ],
)
def test_a_protonation_that_is_named_is_built_whatever_the_ph(
    builder: Builder, residue: int, name: str, variant: dict[str, int], charge: int
) -> None:
    named = builder("".join(part(44, 66, {residue: name})), **SMALL)
    assert named.result["status"] == "succeeded", named.log()
    assert named.result["warnings"] == [], "nothing was removed or replaced"
    assert named.result["summary"]["variants"] == variant
    plain = builder("".join(part(44, 66)), **SMALL).result["summary"]["molecules"]
    molecules = named.result["summary"]["molecules"]
    assert (molecules["CL"] - molecules["NA"]) - (plain["CL"] - plain["NA"]) == charge
    assert longest_bond(named) < 0.21, "no bond reaches over a hole"


def with_acid_hydrogen(text: str, residue: int, hydrogen: str, carbon: str, oxygens: tuple[str, str]) -> str:
    """A structure with a hydrogen on the first oxygen of an acid, on the side of the other."""
    lines = text.splitlines(keepends=True)
    rows = {
        line[12:16].strip(): i for i, line in enumerate(lines) if line[:4] == "ATOM" and int(line[22:26]) == residue
    }
    middle, first, other = (
        np.array([float(lines[rows[name]][k : k + 8]) for k in (30, 38, 46)]) for name in (carbon, *oxygens)
    )
    along = (first - middle) / np.linalg.norm(first - middle)
    across = other - middle - along * ((other - middle) @ along)
    x, y, z = first + 0.97 * (np.cos(1.2) * along + np.sin(1.2) * across / np.linalg.norm(across))
    line = lines[rows[oxygens[0]]]
    lines.insert(rows[oxygens[0]], f"{line[:12]} {hydrogen:<3}{line[16:30]}{x:8.3f}{y:8.3f}{z:8.3f}{line[54:76]} H\n")
    return "".join(lines)


def test_kept_hydrogens_of_acids_and_neutral_lysine_have_any_of_their_names(builder: Builder) -> None:
    text = (EXAMPLES / "1vii.pdb").read_text()
    # Amber's own names of a neutral lysine; and acids with their hydrogens on the first oxygen.
    text = "".join(
        line for line in text.splitlines(keepends=True) if not (line[12:16] == " HZ1" and line[17:26] == "LYS A  65")
    )
    text = with_acid_hydrogen(text, 46, "HD1", "CG", ("OD1", "OD2"))
    text = with_acid_hydrogen(text, 45, "HE1", "CD", ("OE1", "OE2"))
    built = builder(text, keep_hydrogens=True, **SMALL)
    assert built.result["status"] == "succeeded", built.result
    assert built.result["summary"]["variants"] == {"ASH": 1, "GLH": 1, "LYN": 1}
    # It stays where the file has it, and its oxygen with it.
    file = structure(built)
    x = positions_nm(file)
    atoms = {(a.residue.id, a.name): a.index for a in file.topology.atoms() if a.residue.chain.id == "A"}
    place = next(line for line in text.splitlines() if line[12:26] == " HD1 ASP A  46")
    given = np.array([float(place[k : k + 8]) for k in (30, 38, 46)]) / 10
    assert x[atoms["46", "HD2"]] == pytest.approx(given, abs=1e-3)
    assert np.linalg.norm(x[atoms["46", "HD2"]] - x[atoms["46", "OD2"]]) == pytest.approx(0.097, abs=0.003)


def test_a_protonation_that_the_force_field_lacks_at_an_end_gives_way_to_the_usual_one(builder: Builder) -> None:
    built = builder("".join(part(48, 54)), ph=11.0, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    (message,) = warnings(built)["variant_unavailable"]
    assert message.startswith("LYS 48 of chain A would be LYN at pH 11; amber14 has no such residue there")
    assert built.result["summary"]["variants"] == {}


def test_a_named_protonation_that_the_force_field_lacks_at_an_end_is_refused(builder: Builder) -> None:
    failure = builder("".join(part(44, 54, {44: "ASH"}))).result["error"]
    assert failure["code"] == "no_template"
    assert "ASH 44 of chain A" in failure["message"] and "an end of a chain" in failure["message"]


@pytest.mark.parametrize("name", ["HSD", "HSE", "HSP"])
def test_charmms_names_of_histidine_are_its_protonation(builder: Builder, name: str) -> None:
    # The only histidine of conotoxin PnIB is at its start.
    renamed = (DATA / "1as5.cif").read_text().replace(" HIS ", f" {name} ")
    built = builder(renamed, protein=input_file("protein.cif", "test"), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    expected = {"HSD": "HID", "HSE": "HIE", "HSP": "HIP"}[name]
    assert built.result["summary"]["variants"] == {"CYX": 6, expected: 1}


def test_a_name_of_another_molecule_is_not_taken_for_a_protonation(builder: Builder) -> None:
    # HIP is phosphohistidine in the PDB.
    phosphorylated = with_atoms(part(44, 66, {47: "HIP"}), 47, {"P": "P"}, near="CZ")
    failure = builder(phosphorylated).result["error"]
    assert (failure["code"], failure["loc"]) == ("no_template", ["body", "protein"])
    assert "HIP 47 of chain A" in failure["message"]


def test_hydroxyproline_stays_where_the_force_field_has_it(builder: Builder) -> None:
    cif = {"protein": input_file("protein.cif", "test")}
    built = builder(DATA / "1as5.cif", **SMALL, **cif)
    assert built.result["status"] == "succeeded", built.log()
    residues = [residue for residue in structure(built).topology.residues() if residue.name == "HYP"]
    assert [residue.id for residue in residues] == ["2", "3", "14"]
    assert all({"OD1", "HD1"} <= {atom.name for atom in residue.atoms()} for residue in residues)
    assert built.result["summary"]["check"]["residues"] == {"kept": 25, "replaced": 0, "removed": 0, "built": 0}
    without = builder(DATA / "1as5.cif", **FB15, **cif).result["error"]
    assert without["code"] == "no_template" and "HYP 2 of chain A" in without["message"]


FB15 = {
    "force_field": {"name": "amberfb15", "family": "amber", "files": ["amberfb15.xml"], "custom": None},
    "water": {"name": "tip3pfb", "file": "tip3pfb.xml", "model": "tip3p", "sites": 3},
}


def test_selenomethionine_becomes_methionine_in_its_place(builder: Builder) -> None:
    lines = [
        f"{line[:12]}SE  {line[16:76]}SE\n" if line[12:16] == " SD " else line for line in part(49, 57, {53: "MSE"})
    ]
    built = builder("".join(lines), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built) == {"residue_replaced": ["MSE 53 of chain A replaced by MET, its selenium by sulfur"]}
    file = structure(built)
    sulfur = next(atom for atom in file.topology.atoms() if atom.name == "SD")
    place = next([float(line[k : k + 8]) / 10 for k in (30, 38, 46)] for line in lines if line[12:16] == "SE  ")
    assert sulfur.residue.name == "MET" and positions_nm(file)[sulfur.index] == pytest.approx(place, abs=1e-3)


def test_what_is_lost_of_a_replaced_residue_is_named(builder: Builder) -> None:
    lines = [line for line in text(DATA / "1hvr.pdb.gz").splitlines(keepends=True) if line[:4] in {"ATOM", "HETA"}]
    around = "".join(line for line in lines if line[21] == "A" and 63 <= int(line[22:26]) <= 71)
    built = builder(around, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["residue_replaced"] == ["CSO 67 of chain A replaced by CYS, without OD"]
    (warning,) = (each for each in built.result["warnings"] if each["code"] == "residue_replaced")
    assert warning["residues"] == [{"chain_id": "A", "residue_id": "67", "residue_name": "CSO"}]
    assert built.result["summary"]["check"]["residues"] == {"kept": 8, "replaced": 1, "removed": 0, "built": 0}


@pytest.mark.parametrize(
    ("name", "residue", "atoms", "near"),
    [
        ("MLY", 65, {"CH1": "C", "CH2": "C"}, "NZ"),
        ("M3L", 65, {"CM1": "C", "CM2": "C", "CM3": "C"}, "NZ"),
        ("UNK", 57, {}, "CB"),
        # Of a fluorescent protein: an inner residue whatever its atoms are.
        ("CRO", 56, {"C1": "C", "N2": "N"}, "CB"),
        ("SEP", 56, {"P": "P"}, "OG"),
        ("KCX", 65, {"CX": "C"}, "NZ"),
    ],
)
def test_a_residue_within_a_chain_that_cannot_be_built_is_refused_by_name(
    builder: Builder, name: str, residue: int, atoms: dict[str, str], near: str
) -> None:
    modified = with_atoms(part(44, 70, {residue: name}), residue, atoms, near=near)
    failure = builder(modified).result["error"]
    assert failure["code"] == "no_template"
    assert f"{name} {residue} of chain A is part of a chain" in failure["message"]
    assert failure["residues"] == [{"chain_id": "A", "residue_id": str(residue), "residue_name": name}]
    assert "force-field file" in failure["remedy"] and "chain_id" in failure["remedy"]
    assert failure["loc"] == ["body", "protein"]


@pytest.mark.parametrize("n_merged", [1, 3])
def test_a_residue_within_a_chain_is_refused_whatever_its_backbone_is_called(builder: Builder, n_merged: int) -> None:
    # CRO of 1EMA has N1, CA1 and C3, and is one residue where three were.
    merged = range(56, 56 + n_merged)
    lines = []
    for line in part(44, 70, dict.fromkeys(merged, "CRO")):
        number = int(line[22:26])
        name = f"{line[13:16].strip():>2}{number - 55}"
        lines.append(f"HETATM{line[6:12]}{name:<4}{line[16:22]}  56{line[26:]}" if number in merged else line)
    failure = builder("".join(lines)).result["error"]
    assert failure["code"] == "no_template", failure
    assert "CRO 56 of chain A is part of a chain" in failure["message"]


def test_an_unknown_residue_at_an_end_is_removed_and_the_end_is_a_real_one(builder: Builder) -> None:
    built = builder("".join(part(44, 54, {44: "XXA", 54: "XXB"})), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    first, second = warnings(built)["heterogen_removed"]
    assert first.startswith("XXA 44 of chain A removed") and "begins with GLU 45" in first
    assert second.startswith("XXB 54 of chain A removed") and "ends with MET 53" in second
    residues = {residue.id: residue for residue in structure(built).topology.residues() if residue.chain.id == "A"}
    assert {"H2", "H3"} <= {atom.name for atom in residues["45"].atoms()}
    assert "OXT" in {atom.name for atom in residues["53"].atoms()}
    assert built.result["summary"]["check"]["residues"] == {"kept": 9, "replaced": 0, "removed": 2, "built": 0}


def test_a_phosphorylated_residue_stays_where_the_force_field_has_it(builder: Builder) -> None:
    refused = builder(DATA / "1fmo_loop.pdb").result["error"]
    assert refused["code"] == "no_template" and "TPO 197 of chain E" in refused["message"]
    built = builder(DATA / "1fmo_loop.pdb", **SMALL, **CHARMM36_2024)
    assert built.result["status"] == "succeeded", built.log()
    residue = next(residue for residue in structure(built).topology.residues() if residue.name == "TPO")
    names = [atom.name for atom in residue.atoms()]
    assert {"P", "O1P", "O2P", "O3P"} < set(names)
    assert sum(name.startswith("H") for name in names) == 6, "a dianion"
    # An arginine, and two charges of the phosphate; the ends cancel.
    molecules = built.result["summary"]["molecules"]
    assert molecules["NA"] - molecules["CL"] == 1


# --- the other hand


def mirrored(lines: Iterable[str], names: dict[str, str]) -> str:
    """The mirror image of a structure, with the names of D-amino acids."""
    return "".join(
        f"{line[:17]}{names.get(line[17:20], line[17:20])}{line[20:30]}{-float(line[30:38]):8.3f}{line[38:]}"
        for line in lines
    )


D_NAMES = {
    **{"ASP": "DAS", "GLU": "DGL", "PHE": "DPN", "LYS": "DLY", "ALA": "DAL", "VAL": "DVA"},
    **{"MET": "MED", "THR": "DTH"},
}


def test_amber14_is_the_same_for_mirror_images_and_amber19_is_not() -> None:
    energies = {}
    for name in ("amber14", "amber19"):
        force_field = app.ForceField(f"{name}-all.xml")
        pdb = app.PDBFile(str(EXAMPLES / "1vii.pdb"))
        modeller = app.Modeller(pdb.topology, pdb.positions)
        modeller.addHydrogens(force_field)
        system = force_field.createSystem(modeller.topology)
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
        x = np.array(modeller.positions.value_in_unit(unit.nanometer))
        for hand in (1.0, -1.0):
            context.setPositions(x * [hand, 1, 1])
            energies[name, hand] = context.getState(energy=True).getPotentialEnergy()._value
    assert energies["amber14", 1.0] == pytest.approx(energies["amber14", -1.0], rel=1e-9)
    assert abs(energies["amber19", 1.0] - energies["amber19", -1.0]) > 10


def test_d_amino_acids_are_built_as_what_they_are(builder: Builder) -> None:
    lines = part(44, 54)
    image = mirrored(lines, D_NAMES)
    built = builder(image, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["warnings"] == []
    residues = [residue.name for residue in structure(built).topology.residues() if residue.chain.id == "A"]
    assert residues == [D_NAMES.get(name, name) for name in residues_of(lines)]
    assert built.result["summary"]["molecules"]["protein"] == 1
    refused = builder(image, **AMBER19).result["error"]
    assert refused["code"] == "no_template" and "DAS 44 of chain A is a D-amino acid" in refused["message"]
    assert "amber14" in refused["remedy"]


def residues_of(lines: Iterable[str]) -> list[str]:
    return list({line[22:26]: line[17:20] for line in lines}.values())


def test_a_residue_that_is_called_d_and_is_not_is_refused(builder: Builder) -> None:
    failure = builder("".join(part(44, 54, {49: "DAL"}))).result["error"]
    assert failure["code"] == "wrong_handed"
    assert "DAL 49 of chain A is that of an L-" in failure["message"]


def test_residues_with_the_shape_of_d_amino_acids_are_built_as_these_and_reported(builder: Builder) -> None:
    lines = part(44, 54)
    image = mirrored(lines, {})
    built = builder(image, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    names = residues_of(lines)
    residues = [residue.name for residue in structure(built).topology.residues() if residue.chain.id == "A"]
    assert residues == [D_NAMES.get(name, name) for name in names]
    messages = warnings(built)["configuration_kept"]
    assert len(messages) == len([name for name in names if name != "GLY"])
    assert "ASP 44 of chain A has the shape of a D-amino acid: taken as DAS" in messages
    # The correction maps of this one are those of L-amino acids.
    refused = builder(image, **AMBER19).result["error"]
    assert refused["code"] == "no_template" and refused["loc"] == ["body", "protein"]
    assert "ASP 44 of chain A has the shape of a D-amino acid" in refused["message"]


def test_an_amino_acid_that_is_a_chain_by_itself_is_refused_with_its_name(builder: Builder) -> None:
    failure = builder("".join(part(49, 49))).result["error"]
    assert failure["code"] == "no_atoms"
    assert "ALA 49 of chain A is a chain by itself" in failure["message"] and "ACE" in failure["remedy"]


def test_nucleotides_without_phosphates_are_refused_for_that(builder: Builder) -> None:
    lines = (DATA / "4c64.pdb").read_text().splitlines(keepends=True)
    bare = "".join(line for line in lines if line.startswith("ATOM") and "P" not in line[12:16])
    failure = builder(bare).result["error"]
    assert failure["code"] == "no_atoms"
    assert "of chain A is a chain by itself" in failure["message"] and "phosphates" in failure["remedy"]


def test_a_side_chain_of_a_d_amino_acid_is_completed_on_its_side(builder: Builder) -> None:
    bare = "".join(
        line
        for line in mirrored(part(44, 54), D_NAMES).splitlines(keepends=True)
        if line[22:26] not in {"  47", "  51"} or line[12:16].strip() in {"N", "CA", "C", "O"}
    )
    built = builder(bare, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert [message.split(" added to ")[1] for message in warnings(built)["atoms_added"]] == [
        "DPN 47 of chain A",
        "DPN 51 of chain A",
    ]
