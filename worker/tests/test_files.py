"""Files of other decades and other programs: the same structure, written otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import EXAMPLES, Directory, positions_nm, structure, warnings

Builder = Callable[..., Directory]
VILLIN = [line for line in (EXAMPLES / "1vii.pdb").read_text().splitlines() if line.startswith("ATOM")]
SMALL = {"box_shape": "dodecahedron", "padding_nm": 0.5}


def heavy_atoms(directory: Directory) -> dict[tuple[str, str], np.ndarray]:
    file = structure(directory, "prepared")
    x = positions_nm(file)
    return {
        (atom.residue.id, atom.name): x[atom.index]
        for atom in file.topology.atoms()
        if atom.element is not None and atom.element.symbol != "H"
    }


@pytest.fixture(scope="module")
def plain(builder: Builder) -> dict[tuple[str, str], np.ndarray]:
    """Heavy atoms of villin as it is written today."""
    return heavy_atoms(builder("\n".join(VILLIN), **SMALL))


def written(builder: Builder, lines: list[str], plain: dict[tuple[str, str], np.ndarray]) -> Directory:
    """Build villin as it is written; it must be the same molecule."""
    built = builder("\n".join(lines) + "\n", **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    found = heavy_atoms(built)
    assert found.keys() == plain.keys()
    assert max(float(np.linalg.norm(found[key] - plain[key])) for key in plain) < 1e-4
    return built


def test_the_entry_and_line_number_that_files_had_before_1996_are_no_element(
    builder: Builder, plain: dict[tuple[str, str], np.ndarray]
) -> None:
    old = [f"{line[:66]:<72}1VII{i:4}" for i, line in enumerate(VILLIN, start=101)]
    built = written(builder, old, plain)
    assert "unreadable" not in warnings(built)


def test_atoms_that_are_written_twice_are_taken_once(
    builder: Builder, plain: dict[tuple[str, str], np.ndarray]
) -> None:
    twice = [line for line in VILLIN for _ in range(3 if line[12:16].strip() in {"CG", "CD"} else 1)]
    assert len(twice) > len(VILLIN) + 40
    built = written(builder, twice, plain)
    assert "location_chosen" not in warnings(built)


def test_of_two_places_without_a_mark_the_first_is_taken_and_reported(
    builder: Builder, plain: dict[tuple[str, str], np.ndarray]
) -> None:
    lines = []
    for line in VILLIN:
        lines.append(line)
        if line[17:26] == "LEU A  42" and line[12:16].strip() in {"CD1", "CD2"}:
            lines.append(f"{line[:30]}{float(line[30:38]) + 0.8:8.3f}{line[38:]}")
    assert len(lines) == len(VILLIN) + 2
    (message,) = warnings(written(builder, lines, plain))["location_chosen"]
    assert "LEU 42" in message and "CD1, CD2" in message


def test_hydrogens_of_a_large_ligand_may_have_one_name(
    builder: Builder, plain: dict[tuple[str, str], np.ndarray]
) -> None:
    # As Open Babel writes them.
    ligand = [
        f"HETATM 99{i:02}  {name:<3} LIG B 900    {x:8.3f}{y:8.3f}   0.000  1.00  0.00          {name[0]:>2}"
        for i, (name, x, y) in enumerate(
            [(f"C{k}", 100 + 1.5 * k, 0.0) for k in range(13)] + [("H", 100 + 1.5 * k, 1.0) for k in range(13)]
        )
    ]
    reported = warnings(written(builder, [*VILLIN, "TER", *ligand], plain))
    assert reported["heterogen_removed"] == ["LIG 900 of chain B removed"]


def test_a_chain_goes_on_after_ter_where_it_is_bonded(
    builder: Builder, plain: dict[tuple[str, str], np.ndarray]
) -> None:
    # Programs write TER wherever the numbers of residues jump.
    lines = []
    for line in VILLIN:
        number = int(line[22:26])
        if lines and number == 60 and int(lines[-1][22:26]) == 59:
            lines.append("TER")
        lines.append(f"{line[:22]}{number + (2 if number >= 60 else 0):4}{line[26:]}")
    lines.append("TER")
    built = builder("\n".join(lines) + "\n", **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert len(heavy_atoms(built)) == len(plain)
    assert "chain_renamed" not in warnings(built)
