"""Loops that a structure lacks: built as a protein is, or left out and reported."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openmm
import pytest
from conftest import EXAMPLES, Directory, positions_nm, structure, warnings
from test_residues import HEAVY, SMALL
from test_room import place

from molbox_worker import loops

Builder = Callable[..., Directory]
SEQRES = [line for line in (EXAMPLES / "1vii.pdb").read_text().splitlines(keepends=True) if line.startswith("SEQRES")]


def torsion(points: list[np.ndarray]) -> float:
    """Torsion of four points, degrees."""
    a, b, c = np.diff(points, axis=0)
    left, right = np.cross(a, b), np.cross(b, c)
    return float(np.degrees(np.arctan2(np.linalg.norm(b) * (a @ right), left @ right)))


def test_a_loop_is_of_trans_peptides_and_l_amino_acids(builder: Builder) -> None:
    # The turn between the first helices of villin.
    there = [line for line in HEAVY if not 50 <= int(line[22:26]) <= 55]
    built = builder("".join(SEQRES + there), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    (message,) = warnings(built)["residues_built"]
    assert "6 residues" in message
    file = structure(built)
    x = positions_nm(file)
    places = {
        (int(atom.residue.id), atom.name): x[atom.index]
        for atom in file.topology.atoms()
        if atom.residue.chain.id == "A"
    }
    for i in range(49, 56):
        omega = torsion([places[i, "CA"], places[i, "C"], places[i + 1, "N"], places[i + 1, "CA"]])
        assert abs(omega) > 150, f"between {i} and {i + 1}"
        assert 0.12 < np.linalg.norm(places[i, "C"] - places[i + 1, "N"]) < 0.15
    for i in (50, 51, 53, 54, 55):
        n, ca, c, cb = (places[i, name] for name in ("N", "CA", "C", "CB"))
        assert np.dot(n - ca, np.cross(c - ca, cb - ca)) > 1.5e-3, f"hand of {i}"


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(builder: Builder) -> None:
    # A loop, side chains and hydrogens are built and minimised.
    there = [line for line in HEAVY if not 50 <= int(line[22:26]) <= 55]
    there = [line for line in there if int(line[22:26]) != 48 or line[12:16].strip() in {"N", "CA", "C", "O"}]
    first, second = (builder("".join(SEQRES + there), task={"threads": threads}, **SMALL) for threads in (1, 3))
    assert first.result["status"] == "succeeded", first.log()
    for name in ("system.xml", "state.xml", "topology.json"):
        assert first.output(name).read_bytes() == second.output(name).read_bytes(), name


def test_a_gap_that_no_loop_can_close_is_left_and_reported(builder: Builder) -> None:
    # Two residues are missing, and their neighbours further apart than two can reach.
    end, start = place("C", 52), place("N", 55)
    step = (start - end) / np.linalg.norm(start - end) * 11.6 + end - start
    lines = [line for line in HEAVY if int(line[22:26]) <= 52]
    for line in HEAVY:
        if int(line[22:26]) >= 55:
            x = np.array([float(line[k : k + 8]) for k in (30, 38, 46)]) + step
            lines.append(line[:30] + "".join(f"{value:8.3f}" for value in x) + line[54:])
    built = builder("".join(SEQRES + lines), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    found = warnings(built)
    assert "residues_built" not in found
    (message,) = found["residues_missing"]
    assert "2 residues" in message and "no sound loop" in message
    assert built.result["summary"]["molecules"]["protein"] == 2
    assert built.result["summary"]["check"]["residues"]["built"] == 0


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 - 2, 2**31 - 1])
def test_attempts_have_seeds_that_openmm_keeps_and_takes(seed: int) -> None:
    found = [loops.attempt_seed(seed, attempt) for attempt in range(4)]
    assert len(set(found)) == len(found)
    for each in found:
        integrator = openmm.LangevinMiddleIntegrator(300.0, 1.0, 0.002)
        integrator.setRandomNumberSeed(each)
        assert integrator.getRandomNumberSeed() == each != 0
    # As they always were.
    assert seed in {0, found[0]}
