"""The trajectory of some atoms of production alone, made of the whole one when that is there.

The numbers are the same to the bit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molbox_worker.dcd import CELL_BYTES, HEADER_BYTES

NAME = "excerpt"
# Where the header has the number of atoms.
N_ATOMS_AT = 268
# Bytes that are read at a time.
CHUNK_BYTES = 1 << 26


def write_trajectory(source: Path, target: Path, atoms: NDArray[np.int64], report: Callable[[], None]) -> None:
    """Write the frames of a trajectory of ours, of some of its atoms alone.

    Parameters
    ----------
    source
        A trajectory as `DcdFile` writes it, closed.
    target
        The file; one that is there is replaced.
    atoms : array of shape (n,)
        Indices of the atoms, ascending.
    report
        Called while it goes on.

    """
    with source.open("rb") as read, target.open("wb") as write:
        header = bytearray(read.read(HEADER_BYTES))
        (n_atoms,) = struct.unpack_from("<i", header, N_ATOMS_AT)
        struct.pack_into("<i", header, N_ATOMS_AT, len(atoms))
        write.write(header)
        block = 4 * n_atoms + 8
        frame_bytes = CELL_BYTES + 3 * block
        # The cell, then of each axis the numbers between two that say how long they are.
        numbers = CELL_BYTES + 4 + 4 * atoms
        axes = [
            np.concatenate(([CELL_BYTES + axis * block], numbers + axis * block, [CELL_BYTES + (axis + 1) * block - 4]))
            for axis in range(3)
        ]
        words = np.concatenate([np.arange(0, CELL_BYTES, 4), *axes]) // 4
        markers = np.cumsum([0, len(atoms) + 2, len(atoms) + 2]) + CELL_BYTES // 4
        n_frames = max(1, CHUNK_BYTES // frame_bytes)
        while chunk := read.read(n_frames * frame_bytes):
            frames = np.frombuffer(chunk, dtype="<u4").reshape(-1, frame_bytes // 4)[:, words]
            for at in (markers, markers + len(atoms) + 1):
                frames[:, at] = 4 * len(atoms)
            write.write(frames.tobytes())
            report()
