"""Structures as they are deposited: what is doubled, missing, broken or foreign in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import DATA, EXAMPLES, Directory, positions_nm, structure, text, warnings

from molbox_worker.structure import read

Builder = Callable[..., Directory]
VILLIN = (EXAMPLES / "1vii.pdb").read_text()


def hetatm(name: str, residue: str, number: int, place: tuple[float, float, float], element: str = "") -> str:
    x, y, z = place
    return (
        f"HETATM 9{number}  {name:<3} {residue:>3} A {number}    {x:8.3f}{y:8.3f}{z:8.3f}"
        f"  1.00  0.00          {element or name:>2}  \n"
    )


def place(name: str, residue: int) -> np.ndarray:
    """Position of an atom of villin, in Å."""
    line = next(line for line in VILLIN.splitlines() if line[12:16].strip() == name and line[22:26] == f"{residue:4}")
    return np.array([float(line[30:38]), float(line[38:46]), float(line[46:54])])


def test_the_location_with_the_larger_occupancy_is_taken(builder: Builder) -> None:
    text = (DATA / "1ejg.pdb").read_text()
    # Of residue 7, B is made the larger part.
    swapped = []
    for line in text.splitlines(keepends=True):
        if line.startswith("ATOM") and line[17:26] == "ILE A   7" and line[16] in "AB":
            swapped.append(line[:56] + {"A": "0.30", "B": "0.70"}[line[16]] + line[60:])
        else:
            swapped.append(line)
    built = builder("".join(swapped), padding_nm=0.6, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    reported = warnings(built)
    assert "ILE 7 of chain A: location B taken, A left out" in reported["location_chosen"]
    # Their backbones go with it.
    assert "VAL 8 of chain A: location B taken, A left out" in reported["location_chosen"]
    assert any("LEU 25 of chain A" in message and "so it is LEU" in message for message in reported["location_chosen"])
    file = structure(built, "prepared")
    ours = {
        atom.name: positions_nm(file)[atom.index] * 10
        for atom in file.topology.atoms()
        if (atom.residue.name, atom.residue.id) == ("ILE", "7")
    }
    theirs = {
        line[12:16].strip(): [float(line[30:38]), float(line[38:46]), float(line[46:54])]
        for line in text.splitlines()
        if line.startswith("ATOM") and line[17:26] == "ILE A   7" and line[16] in " B" and line[76:78].strip() != "H"
    }
    assert set(ours) == set(theirs)
    for name, position in theirs.items():
        assert ours[name] == pytest.approx(position, abs=1e-3)
    assert len(reported["disulfide_bond"]) == 3
    assert built.result["summary"]["variants"] == {"CYX": 6}


CIF = "data_x\nloop_\n" + "".join(
    f"_atom_site.{column}\n"
    for column in [
        *("group_PDB", "id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id", "label_asym_id"),
        *("label_entity_id", "label_seq_id", "auth_asym_id", "auth_seq_id", "occupancy", "Cartn_x", "Cartn_y"),
        *("Cartn_z", "pdbx_PDB_model_num"),
    ]
)


def test_locations_of_mmcif_are_chosen_alike() -> None:
    rows = [
        "ATOM 1 N N . SER A 1 5 A 5 1.00 0.0 0 0 1\n",
        'ATOM 2 O "O5\'" A SER A 1 5 A 5 0.40 1.0 0 0 1\n',
        'ATOM 3 O "O5\'" B THR A 1 5 A 5 0.60 2.0 0 0 1\n',
        "ATOM 4 N N . GLY A 1 6 A 6 1.00 0.0 0 0 1\n",
    ]
    structure = read(CIF + "".join(rows) + "#\n", "cif")
    found = [(residue.name, [atom.place[0] * 10 for atom in residue.atoms]) for residue in structure.residues()]
    assert found == [("THR", [0.0, 2.0]), ("GLY", [0.0])]
    ((residue, what),) = structure.locations
    assert (str(residue), what) == ("THR 5 of chain A", "location B taken, A left out, so it is THR")
    assert structure.n_models == 1


def test_a_chain_ends_where_its_next_residue_is_out_of_reach(builder: Builder) -> None:
    # With an insertion code, which reports have to name.
    broken = "".join(
        f"{line[:26]}A{line[27:]}" if line.startswith("ATOM") and int(line[22:26]) == 54 else line
        for line in VILLIN.splitlines(keepends=True)
        if not (line.startswith("ATOM") and 55 <= int(line[22:26]) <= 60) and not line.startswith("SEQRES")
    )
    built = builder(broken, padding_nm=0.6, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    assert "between THR 54A of chain A and LEU 61 of chain A, " in warnings(built)["chain_broken"][0]
    assert built.result["summary"]["molecules"]["protein"] == 2
    file = structure(built)
    x = positions_nm(file)
    lengths = [np.linalg.norm(x[a.index] - x[b.index]) for a, b in file.topology.bonds()]
    assert max(lengths) < 0.25, "no bond reaches over the gap"
    last = next(r for r in file.topology.residues() if r.id == "54" and r.name == "THR")
    assert "OXT" in {atom.name for atom in last.atoms()}, "the end is a carboxylate"


def test_a_dimer_with_a_gap_and_heterogens_is_completed(builder: Builder) -> None:
    # Three residues at the tip of a flap are taken out; the file's sequence still has them.
    lines = text(DATA / "1hvr.pdb.gz").splitlines(keepends=True)
    gap = "".join(
        line for line in lines if not (line.startswith("ATOM") and line[21] == "B" and 49 <= int(line[22:26]) <= 51)
    )
    built = builder(gap, padding_nm=0.5, box_shape="rectangular")
    assert built.result["status"] == "succeeded", built.log()
    reported = warnings(built)
    assert reported["residues_built"] == [
        "3 residues (GLY-ILE-GLY) of chain B are missing in a gap: built without a template"
    ]
    assert reported["heterogen_removed"] == ["XK2 263 of chain A removed"]
    assert reported["residue_replaced"] == [f"CSO 67 of chain {chain} replaced by CYS, without OD" for chain in "AB"]
    assert built.result["summary"]["molecules"]["protein"] == 2
    file = structure(built)
    chains = {chain.id: [residue.name for residue in chain.residues()] for chain in file.topology.chains()}
    assert chains["A"] == chains["B"], "a dimer of one sequence"
    x = positions_nm(file)
    lengths = [np.linalg.norm(x[a.index] - x[b.index]) for a, b in file.topology.bonds() if a.residue is not b.residue]
    assert max(lengths) < 0.25, "the loop closes the gap"


def test_of_several_chains_the_wanted_one_is_kept(builder: Builder) -> None:
    built = builder(DATA / "1hvr.pdb.gz", chains=["B"], padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["summary"]["molecules"]["protein"] == 1
    protein = [r for r in structure(built).topology.residues() if r.name not in {"HOH", "NA", "CL"}]
    assert len(protein) == 99 and {residue.chain.id for residue in protein} == {"B"}
    assert "heterogen_removed" not in warnings(built), "the inhibitor is in chain A"


def test_a_residue_in_two_places_of_the_file_is_put_together(builder: Builder) -> None:
    lines = [line for line in VILLIN.splitlines(keepends=True) if line.startswith("ATOM")]
    hydrogens = [line for line in lines if line[76:78].strip() == "H"]
    moved = "".join([line for line in lines if line not in hydrogens] + hydrogens)
    built = builder(moved, keep_hydrogens=True, padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["warnings"] == []


def test_a_residue_of_hydrogens_alone_is_refused_by_name(builder: Builder) -> None:
    lines = [line for line in VILLIN.splitlines(keepends=True) if line.startswith("ATOM")]
    bare = "".join(line for line in lines if line[22:26] != "  49" or line[76:78].strip() == "H")
    failure = builder(bare).result["error"]
    assert failure["code"] == "residue_bare"
    assert "ALA 49 of chain A has 0 heavy atoms" in failure["message"] and "together" in failure["remedy"]
    assert failure["loc"] == ["body", "protein"]


def test_a_trace_of_alpha_carbons_is_refused(builder: Builder) -> None:
    trace = "".join(line for line in VILLIN.splitlines(keepends=True) if line[12:16] == " CA ")
    assert builder(trace).result["error"]["code"] == "residue_bare"


def test_a_misplaced_model_number_and_a_blank_chain_do_no_harm(builder: Builder) -> None:
    # As several programs write them.
    lines = [line[:21] + " " + line[22:] for line in VILLIN.splitlines(keepends=True) if line.startswith("ATOM")]
    model = "MODEL         1\n" + "".join(lines) + "TER\nENDMDL\n"
    built = builder(model + "END\n", padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built) == {"chain_renamed": ["a chain without an identifier was given a letter"]}


def test_a_chain_ends_before_the_water_that_bears_its_name(builder: Builder) -> None:
    # As simulation programs write it: no TER, and no second oxygen at the end.
    lines = [line for line in VILLIN.splitlines(keepends=True) if line.startswith("ATOM") and line[12:16] != " OXT"]
    water = hetatm("O", "HOH", 901, (20.0, 0.0, 0.0)).replace("HETATM", "ATOM  ")
    built = builder("".join(lines) + water + "END\n", padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    names = [r.name for r in structure(built).topology.residues() if "OXT" in {atom.name for atom in r.atoms()}]
    assert names == ["PHE"]


def test_crystal_water_takes_the_sites_of_its_model(builder: Builder) -> None:
    text = (DATA / "4c64.pdb").read_text()
    crystal = {line[22:26].strip() for line in text.splitlines() if line[17:20] == "HOH"}
    water = {"name": "opc", "file": "amber14/opc.xml", "model": "tip4pew", "sites": 4}
    built = builder(DATA / "4c64.pdb", padding_nm=0.5, box_shape="rectangular", water=water)
    assert built.result["status"] == "succeeded", built.log()
    # Of four, one lies on another and three on DNA.
    first = [r for r in structure(built).topology.residues() if r.name == "HOH"][: len(crystal) - 4]
    assert {residue.id for residue in first} < crystal, "they come before those that are added"
    assert {len(list(residue.atoms())) for residue in first} == {4}


def test_charmm_takes_thymidine_for_what_it_is(builder: Builder) -> None:
    # With every patch of the force field, methylated deoxyuridine would fit as well.
    force_field = {"name": "charmm36_2024", "family": "charmm", "files": ["charmm36_2024.xml"], "custom": None}
    water = {"name": "tip3p", "file": "charmm36_2024/water.xml", "model": "tip3p", "sites": 3}
    built = builder(DATA / "4c64.pdb", padding_nm=0.5, box_shape="rectangular", force_field=force_field, water=water)
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["summary"]["molecules"]["nucleic_acid"] == 2
    assert built.result["summary"]["net_charge"] == pytest.approx(0, abs=1e-3)


def test_metals_with_parameters_stay(builder: Builder) -> None:
    zinc = place("OD1", 44) + np.array([2.1, 0, 0])
    text = VILLIN.replace(
        "END",
        hetatm("ZN", "ZN", 901, tuple(zinc))
        + hetatm("FE", "FE", 902, (40.0, 0.0, 0.0))
        + hetatm("C1", "NAG", 903, (-40.0, 0.0, 0.0), "C")
        + "END",
    )
    built = builder(text, padding_nm=0.5)
    assert built.result["status"] == "succeeded", built.log()
    reported = warnings(built)
    assert "ZN 901 of chain A" in reported["metal_kept"][0]
    assert reported["heterogen_removed"] == ["FE 902 of chain A removed"]
    assert "NAG 903 of chain A removed" in reported["glycan_removed"][0]
    assert built.result["summary"]["molecules"]["ZN"] == 1
    assert built.result["summary"]["net_charge"] == pytest.approx(0, abs=1e-3)


def test_an_ion_of_another_charge_than_the_force_fields_is_removed(builder: Builder) -> None:
    # Nickel of columns 79 and 80 is Ni3+; copper and manganese tell it by their names.
    nickel = hetatm("NI", "NI", 903, (40.0, 0.0, 0.0))[:78]
    text = VILLIN.replace(
        "END",
        hetatm("CU", "CU1", 901, (-40.0, 0.0, 0.0))
        + hetatm("MN", "MN3", 902, (0.0, 40.0, 0.0))
        + f"{nickel}3+\n"
        + hetatm("CU", "CU", 904, (0.0, -40.0, 0.0))
        + "END",
    )
    built = builder(text, padding_nm=0.5)
    assert built.result["status"] == "succeeded", built.log()
    reported = warnings(built)
    (kept,) = reported["metal_kept"]
    assert kept.startswith("CU 904 of chain A kept as an ion of charge +2 without bonds")
    assert reported["heterogen_removed"] == [
        "CU1 901 of chain A removed: its charge is +1, and the force field has a template of charge +2 alone",
        "MN3 902 of chain A removed: its charge is +3, and the force field has a template of charge +2 alone",
        "NI 903 of chain A removed: its charge is +3, and the force field has a template of charge +2 alone",
    ]


def test_deuterium_is_hydrogen_and_one_model_is_taken(builder: Builder) -> None:
    lines = [line for line in VILLIN.splitlines(keepends=True) if line.startswith("ATOM")]
    deuterated = [
        line[:12] + " D  " + line[16:76] + " D" + line[78:] if line[12:16] == " H  " else line for line in lines
    ]
    models = "MODEL        1\n" + "".join(deuterated) + "ENDMDL\nMODEL        2\n" + "".join(lines) + "ENDMDL\nEND\n"
    built = builder(models, keep_hydrogens=True, padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    reported = warnings(built)
    assert "2 models" in reported["model_chosen"][0]
    assert "deuterium atoms" in reported["deuterium_replaced"][0]
    assert built.result["summary"]["molecules"]["protein"] == 1


def test_what_is_removed_is_named_or_counted(builder: Builder) -> None:
    # As the OPM database marks a membrane; and a free amino acid, as a substrate.
    plane = "".join(hetatm("N", "DUM", 100 + i, (40.0 + i, 0.0, 15.0)) for i in range(30))
    free = "".join(
        hetatm(name, "ASP", 501, (30.0 + 1.5 * i, 0.0, 0.0), name[0])
        for i, name in enumerate(["N", "CA", "C", "O", "CB", "CG", "OD1", "OD2"])
    )
    built = builder(VILLIN.replace("END", "TER\n" + plane + "TER\n" + free + "END"), padding_nm=0.5)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["heterogen_removed"] == [
        "30 residues DUM removed",
        "ASP 501 of chain A removed: the force field has no amino acid that is a chain by itself",
    ]


def test_sites_of_water_that_are_no_atoms_are_left_to_its_model(builder: Builder) -> None:
    water = hetatm("O", "HOH", 901, (20.0, 0.0, 0.0)) + hetatm("MW", "HOH", 901, (20.1, 0.1, 0.0), " ")
    built = builder(VILLIN.replace("END", water + "END"), padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()


def test_of_models_in_mmcif_the_first_is_taken() -> None:
    rows = "".join(f"ATOM {i} N N . GLY A 1 6 A 6 1.00 {i} 0 0 {model}\n" for i, model in enumerate((1, 1, 2)))
    structure = read(CIF + rows.replace("ATOM 1 N N", "ATOM 1 C CA") + "#\n", "cif")
    assert [atom.name for residue in structure.residues() for atom in residue.atoms] == ["N", "CA"]
    assert structure.n_models == 2


def test_heavy_water_is_water(builder: Builder) -> None:
    water = hetatm("O", "DOD", 901, (20.0, 0.0, 0.0)) + hetatm("D1", "DOD", 901, (20.9, 0.3, 0.0), "D")
    built = builder(VILLIN.replace("END", water + "END"), padding_nm=0.5, box_shape="octahedron")
    assert built.result["status"] == "succeeded", built.log()
    assert set(warnings(built)) == {"deuterium_replaced"}
    oxygen = [a for a in structure(built, "prepared").topology.atoms() if a.residue.name == "HOH"]
    assert [atom.name for atom in oxygen] == ["O"]


def test_chains_of_one_name_are_told_apart(builder: Builder) -> None:
    lines = [line for line in VILLIN.splitlines(keepends=True) if line.startswith("ATOM")]
    moved = [f"{line[:30]}{float(line[30:38]) + 40:8.3f}{line[38:]}" for line in lines]
    built = builder("".join(lines) + "TER\n" + "".join(moved) + "TER\nEND\n", padding_nm=0.5, box_shape="rectangular")
    assert built.result["status"] == "succeeded", built.log()
    assert "2 chains are called A" in warnings(built)["chain_renamed"][0]
    assert built.result["summary"]["molecules"]["protein"] == 2
    names = [chain.id for chain in structure(built).topology.chains()]
    assert len(set(names)) == len(names)


def test_dna_is_built_and_loses_its_leading_phosphate(builder: Builder) -> None:
    text = (DATA / "4c64.pdb").read_text()
    built = builder(text, padding_nm=0.5, box_shape="rectangular", positive_ion="K+")
    assert built.result["status"] == "succeeded", built.log()
    molecules = built.result["summary"]["molecules"]
    assert molecules["nucleic_acid"] == 2
    # Eleven phosphates in each strand.
    assert molecules["K"] - molecules["CL"] == 22
    first = "ATOM      1  O5'"
    phosphorus = f"{'ATOM   9999  P    DC A   1':<30}{8.5:8.3f}{13.1:8.3f}{23.9:8.3f}  1.00 20.00           P  "
    begun = builder(text.replace(first, f"{phosphorus}\n{first}"), padding_nm=0.5, box_shape="rectangular")
    assert warnings(begun)["phosphate_removed"] == [
        "the phosphate at the start of a strand, on DC 1 of chain A, was removed"
    ]
