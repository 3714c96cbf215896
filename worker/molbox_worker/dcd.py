"""DCD trajectories that survive a kill.

Frames have a fixed size, so the length of the file shows how many are whole; the count in the
header is for other programs and is brought up to date with each frame: a job that is cancelled or
fails leaves frames that are not committed. The layout is that of
OpenMM's own writer: CHARMM version 24, cell as [a, cos γ, b, cos β, cos α, c], lengths in Å.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 276
CELL_BYTES = 56
# CHARMM's unit of time, in ps.
AKMA_PS = 0.04888821
# The header counts in 32 bits.
MAX_COUNT = 2**31 - 1


class DcdFile:
    """A trajectory being written.

    Parameters
    ----------
    path
        The file.
    n_atoms
        Number of atoms of every frame.
    interval
        Steps between frames; the first frame is of step `interval`.
    timestep_ps
        Time step.
    committed
        Length that is known to be good; the file is cut to it and continued. None starts anew.

    """

    def __init__(self, path: Path, n_atoms: int, interval: int, timestep_ps: float, committed: int | None) -> None:
        self._n_atoms = n_atoms
        # Fewer and longer steps take as long.
        factor = -(-interval // MAX_COUNT)
        self._interval, timestep_ps = interval // factor, timestep_ps * (interval / (interval // factor))
        self._frame_bytes = CELL_BYTES + 3 * (4 * n_atoms + 8)
        self._file: BinaryIO
        if committed is None:
            self._file = path.open("w+b")
            self._file.write(_header(n_atoms, self._interval, timestep_ps))
            self.n_frames = 0
        else:
            self._file = path.open("r+b")
            self._file.truncate(committed)
            self._file.seek(0, os.SEEK_END)
            self.n_frames = (committed - HEADER_BYTES) // self._frame_bytes
        self._count()

    def write(self, positions_nm: NDArray[np.float64], box_nm: NDArray[np.float64]) -> None:
        """Append a frame: positions of shape (n_atoms, 3) and box vectors by rows, both in nm."""
        lengths = np.linalg.norm(box_nm, axis=1)
        cosines = (box_nm @ box_nm.T) / np.outer(lengths, lengths)
        cell = (
            lengths[0] * 10,
            cosines[0, 1],
            lengths[1] * 10,
            cosines[0, 2],
            cosines[1, 2],
            lengths[2] * 10,
        )
        marker = struct.pack("<i", 4 * self._n_atoms)
        parts = [struct.pack("<i6di", 48, *cell, 48)]
        coordinates = (positions_nm * 10).astype("<f4")
        for axis in range(3):
            parts += [marker, coordinates[:, axis].tobytes(), marker]
        self._file.write(b"".join(parts))
        self.n_frames += 1
        self._count()

    def _count(self) -> None:
        """Write how many frames there are into the header."""
        self._file.flush()
        os.pwrite(self._file.fileno(), struct.pack("<i", self.n_frames), 8)
        # Steps in all, which nobody needs: frames and the steps between them give the time.
        os.pwrite(self._file.fileno(), struct.pack("<i", min(self.n_frames * self._interval, MAX_COUNT)), 20)

    def commit(self) -> int:
        """Make all frames durable; returns the length of the file."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file; what is not committed may be lost."""
        self._file.close()


def _header(n_atoms: int, interval: int, timestep_ps: float) -> bytes:
    control = struct.pack("<i4c9if", 84, b"C", b"O", b"R", b"D", 0, interval, interval, *[0] * 6, timestep_ps / AKMA_PS)
    control += struct.pack("<13i", 1, *[0] * 8, 24, 84, 164, 2)
    titles = [b"Created by molbox", b"Molecules whole, not wrapped into the box"]
    title = b"".join(struct.pack("<80s", text) for text in titles)
    return control + title + struct.pack("<4i", 164, 4, n_atoms, 4)
