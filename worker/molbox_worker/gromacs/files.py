"""What GROMACS reads and writes: structures, trajectories and energies, the latter two while they grow.

`.trr` and `.edr` are big-endian XDR. A frame that is not whole yet is left for the next time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from molbox_worker.gromacs.topology import NAMES

TRR_MAGIC = 1993
EDR_MAGIC = -55555
EDR_FRAME_MAGIC = -7777777
# Bytes of an element of a block of an .edr, by the number of its type.
BLOCK_BYTES = {0: 4, 1: 4, 2: 8, 3: 8, 4: 4}
# Order of the elements of the box in a .g96.
BOX_ROWS = (0, 1, 2, 0, 0, 1, 1, 2, 2)
BOX_COLUMNS = (0, 1, 2, 1, 2, 0, 2, 0, 1)
# Columns of a .g96 before the numbers.
G96_NAMES = 24
G96_WIDTH = 15

Array = NDArray[np.float64]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Frame:
    """A frame of a trajectory, nm and kJ/mol/nm: each atom in the box; `step` is modulo 2**32, as in the file."""

    step: int
    box: Array
    positions: Array | None
    forces: Array | None


@dataclass(frozen=True)
class Energy:
    """Energies of a step by their name in GROMACS, in its units."""

    step: int
    terms: dict[str, float]


class _Short(Exception):
    """The data end within what is read."""


class _Cursor:
    """Reads on in data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, n_bytes: int) -> bytes:
        if self.at + n_bytes > len(self._data):
            raise _Short
        self.at += n_bytes
        return self._data[self.at - n_bytes : self.at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        form = ">" + form
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, form: str) -> Any:
        return self.numbers(form)[0]

    def text(self) -> str:
        length = self.number("i")
        return self.take((length + 3) // 4 * 4)[:length].decode()


class Growing(Generic[Item]):
    """A file that grows, read item by item."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder = folder
        self._pattern = pattern
        self._file: BinaryIO | None = None
        self._rest = b""

    def new(self) -> Iterator[Item]:
        """What has become whole since the last time."""
        if self._file is None:
            # mdrun numbers its files by the part of the run.
            path = next(self._folder.glob(self._pattern), None)
            if path is None:
                return
            self._file = path.open("rb")
        self._rest += self._file.read()
        cursor = _Cursor(self._rest)
        whole = 0
        try:
            while True:
                item = self._item(cursor)
                whole = cursor.at
                if item is not None:
                    yield item
        except _Short:
            self._rest = self._rest[whole:]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _item(self, cursor: _Cursor) -> Item | None:
        raise NotImplementedError


class Trajectory(Growing[Frame]):
    """Frames of a ``.trr``."""

    def _item(self, cursor: _Cursor) -> Frame:
        if cursor.number("i") != TRR_MAGIC:
            raise ValueError("no frame of a .trr")
        cursor.number("i")
        cursor.text()
        _, _, box_bytes, virial, pressure, _, _, *sizes = cursor.numbers("10i")
        n_atoms, step, _ = cursor.numbers("3i")
        is_double = (box_bytes // 9 or max(sizes) // (3 * n_atoms)) == 8
        cursor.numbers("2d" if is_double else "2f")
        kind = ">f8" if is_double else ">f4"

        def array(n_bytes: int, rows: int) -> Array | None:
            if not n_bytes:
                return None
            return np.frombuffer(cursor.take(n_bytes), kind).reshape(rows, 3).astype(np.float64)

        box = array(box_bytes, 3)
        cursor.take(virial + pressure)
        positions, _, forces = (array(n_bytes, n_atoms) for n_bytes in sizes)
        if box is None:
            raise ValueError("a frame of a .trr without a box")
        return Frame(step % 2**32, box, positions, forces)


class Energies(Growing[Energy]):
    """Energies of an ``.edr``, of a build in single or in double precision."""

    def __init__(self, folder: Path, pattern: str, *, is_double: bool) -> None:
        super().__init__(folder, pattern)
        self._is_double = is_double
        self._names: list[str] | None = None

    def _item(self, cursor: _Cursor) -> Energy | None:
        if self._names is None:
            self._names = _names(cursor)
            return None
        cursor.number("d" if self._is_double else "f")
        if cursor.number("i") != EDR_FRAME_MAGIC:
            raise ValueError("no frame of an .edr")
        _version, _time, step, n_sum, _steps, _dt, n_terms, _, n_blocks = cursor.numbers("idqiqdiii")
        parts = [cursor.numbers("2i") for _ in range(n_blocks) for _ in range(cursor.numbers("2i")[1])]
        cursor.numbers("3i")
        # With the sums since the last frame where there are any.
        width = 3 if n_sum > 0 else 1
        kind, n_bytes = (">f8", 8) if self._is_double else (">f4", 4)
        values = np.frombuffer(cursor.take(n_bytes * n_terms * width), kind)[::width]
        for part, count in parts:
            cursor.take(count * BLOCK_BYTES[part])
        return Energy(step, dict(zip(self._names, values.tolist(), strict=True))) if n_terms else None


def _names(cursor: _Cursor) -> list[str]:
    magic, _version, n_terms = cursor.numbers("3i")
    if magic != EDR_MAGIC:
        raise ValueError("no .edr")
    # Each name is followed by its unit.
    return [(cursor.text(), cursor.text())[0] for _ in range(n_terms)]


def write_g96(path: Path, positions: Array, box: Array, velocities: Array | None = None) -> None:
    """Write a structure in nm and nm/ps with nine decimals; names are those of the topology."""
    residue, name = NAMES

    def block(title: str, values: Array) -> Iterator[str]:
        yield title
        for i, (x, y, z) in enumerate(values.tolist(), 1):
            yield f"{1:5d} {residue:<5} {name:<5}{i % 10**7:7d}{x:15.9f}{y:15.9f}{z:15.9f}"
        yield "END"

    lines = ["TITLE", "molbox", "END", *block("POSITION", positions)]
    if velocities is not None:
        lines += block("VELOCITY", velocities)
    lines += ["BOX", "".join(f"{x:15.9f}" for x in box[BOX_ROWS, BOX_COLUMNS]), "END"]
    path.write_text("\n".join(lines) + "\n")


def read_g96(path: Path) -> tuple[Array, Array, Array]:
    """Positions, velocities and box of a structure that GROMACS wrote."""
    blocks: dict[str, list[str]] = {}
    lines = iter(path.read_text().splitlines())
    for title in lines:
        blocks[title] = []
        for line in lines:
            if line == "END":
                break
            blocks[title].append(line)
    numbers = [float(word) for word in blocks["BOX"][0].split()]
    box = np.zeros((3, 3))
    # A rectangular box has three numbers.
    box[BOX_ROWS[: len(numbers)], BOX_COLUMNS[: len(numbers)]] = numbers
    return _columns(blocks["POSITION"]), _columns(blocks["VELOCITY"]), box


def _columns(lines: list[str]) -> Array:
    at = [G96_NAMES + i * G96_WIDTH for i in range(3)]
    return np.array([[float(line[start : start + G96_WIDTH]) for start in at] for line in lines])
