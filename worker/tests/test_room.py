"""Room: crystal water that lies on something, and atoms that are built where others are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import DATA, Directory, positions_nm, structure, text, warnings
from test_residues import HEAVY, SMALL, part
from test_structure import hetatm

Builder = Callable[..., Directory]
X = np.array([1.0, 0.0, 0.0])


def place(name: str, residue: int, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    """Position of an atom of villin, or so far from it, in Å."""
    line = next(line for line in HEAVY if line[12:16].strip() == name and int(line[22:26]) == residue)
    return np.array([float(line[30:38]) + x, float(line[38:46]) + y, float(line[46:54]) + z])


def closest_contact(directory: Directory) -> float:
    return float(directory.result["summary"]["check"]["closest_contact"]["ratio"])


def waters(directory: Directory) -> set[str]:
    """Numbers of the crystal waters that were kept, all of them above 900."""
    residues = structure(directory, "prepared").topology.residues()
    return {residue.id for residue in residues if residue.name == "HOH"}


def test_water_on_the_location_that_is_taken_goes(builder: Builder) -> None:
    # Of the place where the side chain is in the other half of the crystal.
    lines = []
    for line in part(44, 54):
        if line[12:16].strip() == "CZ" and line[22:26] == "  47":
            away = f"{float(line[46:54]) + 14:8.3f}"
            lines += [
                f"{line[:16]}A{line[17:56]}0.60{line[60:]}",
                f"{line[:16]}B{line[17:46]}{away}{line[54:56]}0.40{line[60:]}",
            ]
        else:
            lines.append(line)
    there = hetatm("O", "HOH", 901, tuple(place("CZ", 47, 0.1, 0.05)))
    crystal = there + hetatm("O", "HOH", 902, tuple(place("CZ", 47, z=14.0)))
    built = builder("".join(lines) + crystal, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["water_removed"] == ["1 crystal waters removed that lay on other atoms"]
    assert waters(built) == {"902"}
    assert built.result["summary"]["check"]["residues"] == {"kept": 12, "replaced": 0, "removed": 1, "built": 0}


@pytest.mark.parametrize("apart", [0.0, 0.9, 2.0])
def test_of_waters_on_each_other_the_more_occupied_one_stays(builder: Builder, apart: float) -> None:
    at = place("CA", 49, z=14.0)
    crystal = hetatm("O", "HOH", 901, tuple(at)) + hetatm("O", "HOH", 902, tuple(at + apart * X))
    crystal = crystal.replace("  1.00  0.00", "  0.40  0.00", 1)
    built = builder("".join(part(44, 54)) + crystal, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["water_removed"] == ["1 crystal waters removed that lay on others"]
    assert waters(built) == {"902"}
    assert closest_contact(built) > 0.6


def test_water_at_a_distance_stays_with_its_hydrogens_apart(builder: Builder) -> None:
    at = place("CA", 49, z=14.0)
    crystal = "".join(hetatm("O", "HOH", 901 + i, tuple(at + 2.6 * i * X)) for i in range(3))
    built = builder("".join(part(44, 54)) + crystal, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert waters(built) == {"901", "902", "903"} and "water_removed" not in warnings(built)
    assert closest_contact(built) > 0.6


def test_waters_that_share_a_number_get_numbers_of_their_own(builder: Builder) -> None:
    # As at the end of files in which numbers have run out.
    at = place("CA", 49, z=14.0)
    crystal = "".join(hetatm("O", "HOH", 901, tuple(at + 3.0 * i * X)) for i in range(2))
    built = builder("".join(part(44, 54)) + "TER\n" + crystal, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert waters(built) == {"901", "902"}
    (message,) = warnings(built)["residue_renumbered"]
    assert "HOH 901 of chain A" in message
    sizes = {len(list(residue.atoms())) for residue in structure(built).topology.residues() if residue.name == "HOH"}
    assert sizes == {3}


def test_water_around_a_metal_stays(builder: Builder) -> None:
    at = place("CA", 49, z=14.0)
    crystal = hetatm("MG", "MG", 900, tuple(at)) + "".join(
        hetatm("O", "HOH", 901 + i, tuple(at + 2.08 * np.eye(3)[i % 3] * (1 if i < 3 else -1))) for i in range(6)
    )
    built = builder("".join(part(44, 54)) + crystal, **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert len(waters(built)) == 6 and "water_removed" not in warnings(built)


def test_side_chains_are_built_where_there_is_room(builder: Builder) -> None:
    # All of crambin's, whose core is dense: 37 residues.
    lines = [line for line in (DATA / "1ejg.pdb").read_text().splitlines(keepends=True) if line.startswith("ATOM")]
    lines = [line for line in lines if line[16] in " A" and line[12:16].strip() in {"N", "CA", "C", "O", "CB", "SG"}]
    built = builder("".join(lines), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert len(warnings(built)["atoms_added"]) > 30
    assert closest_contact(built) > 0.6
    assert built.result["summary"]["check"]["longest_bond"]["ratio"] < 1.2
    file = structure(built)
    x = positions_nm(file)
    # What the file has stays where it is.
    kept = {(a.residue.id, a.name): x[a.index] * 10 for a in file.topology.atoms() if a.residue.chain.id == "A"}
    for line in lines:
        expected = [float(line[k : k + 8]) for k in (30, 38, 46)]
        assert kept[line[22:26].strip(), line[12:16].strip()] == pytest.approx(expected, abs=2e-3)


def test_a_core_is_rebuilt_among_its_neighbours(builder: Builder) -> None:
    # Aromatic and aliphatic side chains of T4 lysozyme, packed against each other.
    cut = {"PHE", "TRP", "TYR", "LEU", "ILE", "MET"}
    lines = [
        line
        for line in text(DATA / "t4-lysozyme.pdb.gz").splitlines(keepends=True)
        if line.startswith("ATOM") and (line[17:20] not in cut or line[12:16].strip() in {"N", "CA", "C", "O", "CB"})
    ]
    built = builder("".join(lines), box_shape="octahedron", padding_nm=0.5)
    assert built.result["status"] == "succeeded", built.log()
    assert len(warnings(built)["atoms_added"]) > 40
    assert closest_contact(built) > 0.6


def test_where_nothing_has_room_the_build_is_refused_by_name(builder: Builder) -> None:
    # A chloride where each course of a side chain begins.
    lines = [line for line in part(44, 54) if line[22:26] != "  47" or line[12:16].strip() in {"N", "CA", "C", "O"}]
    chloride = hetatm("CL", "CL", 901, tuple(place("CB", 47) + (place("CB", 47) - place("CA", 47)) / 2))
    failure = builder("".join(lines) + chloride).result["error"]
    assert failure["code"] == "atoms_overlap"
    assert "side chain of PHE 47 of chain A" in failure["message"] and "CL 901 of chain A" in failure["message"]
    assert failure["loc"] == ["body", "protein"]


def test_added_water_is_given_room_where_the_faces_of_a_box_meet(builder: Builder) -> None:
    for shape in ("cube", "octahedron"):
        built = builder(box_shape=shape, padding_nm=1.5)
        assert built.result["status"] == "succeeded", built.log()
        assert closest_contact(built) > 0.74
        assert built.result["summary"]["check"]["largest_force"]["force"] < 2e4
        # As dense as what it was filled with.
        assert built.result["summary"]["density"] > 0.94


def test_a_thiolate_at_a_metal_is_counted_as_one(builder: Builder) -> None:
    sulfur = part(52, 60, {56: "CYS"})
    sulfur = [
        line.replace(" OG ", " SG ").replace("           O", "           S") if "OG  CYS" in line else line
        for line in sulfur
    ]
    cb, sg = place("CB", 56), place("OG", 56)
    zinc = sg + 2.3 * (sg - cb) / np.linalg.norm(sg - cb)
    built = builder("".join(sulfur) + hetatm("ZN", "ZN", 901, tuple(zinc)), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["metal_ligand"] == ["CYS 56 of chain A holds a metal: taken as CYM"]
    assert built.result["summary"]["variants"] == {"CYM": 1}
