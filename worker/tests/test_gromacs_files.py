"""Files of GROMACS, read while they grow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_gromacs_energies import Comparison, chains, needs_gmx_d

from molbox_worker.gromacs.files import Energies, Trajectory, read_g96, write_g96


@needs_gmx_d
def test_a_frame_is_read_once_wherever_the_file_ended_before(tmp_path: Path) -> None:
    Comparison(tmp_path, *chains())
    folder = tmp_path / "growing"
    folder.mkdir()
    for name, n_frames in (("point.trr", 2), ("point.edr", 1)):
        whole = (tmp_path / name).read_bytes() * n_frames
        # Every byte of the headers, and every so many of the numbers.
        for cut in [*range(400), *range(400, len(whole), 97)]:
            path = folder / name
            path.write_bytes(whole[:cut])
            reader = Trajectory(folder, "*.trr") if name == "point.trr" else Energies(folder, "*.edr", is_double=True)
            first = list(reader.new())
            with path.open("ab") as file:
                file.write(whole[cut:])
            rest, again = list(reader.new()), list(reader.new())
            reader.close()
            assert len(first) + len(rest) == n_frames, (name, cut)
            assert not again, "nothing is read twice"


def test_a_structure_comes_back_with_nine_decimals(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    positions, velocities = chance.normal(0, 30, (7, 3)).round(9), chance.normal(0, 1, (7, 3)).round(9)
    box = np.array([[5.0, 0, 0], [1.25, 4.5, 0], [-1.0, 0.5, 4.0]])
    write_g96(tmp_path / "a.g96", positions, box, velocities)
    for found, wanted in zip(read_g96(tmp_path / "a.g96"), (positions, velocities, box), strict=True):
        assert np.array_equal(found, wanted)


def test_what_is_no_file_of_gromacs_is_not_read_as_one(tmp_path: Path) -> None:
    for name in ("a.trr", "a.edr"):
        (tmp_path / name).write_bytes(b"\x00" * 4000)
    with pytest.raises(ValueError, match=r"no frame of a \.trr"):
        list(Trajectory(tmp_path, "a.trr").new())
    with pytest.raises(ValueError, match=r"no \.edr"):
        list(Energies(tmp_path, "a.edr", is_double=False).new())
