"""Trajectory and log of a stage."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import openmm

from molbox_worker.dcd import DcdFile
from molbox_worker.plan import Stage
from molbox_worker.result import Energies

# Digits after the point of times, at least: as many as a time step of 0.1 fs needs.
TIME_DIGITS = 4
LOG_HEADER = (
    "step,time (ps),potential energy (kJ/mol),kinetic energy (kJ/mol),temperature (K),volume (nm^3),density (g/mL)\n"
)


class StageFiles:
    """Trajectory and log of a stage, cut to what is committed and continued."""

    def __init__(
        self, folder: Path, stage: Stage, n_atoms: int, timestep_ps: float, committed: dict[str, int] | None
    ) -> None:
        self._dcd: DcdFile | None = None
        if stage.traj_freq:
            length = committed["dcd"] if committed else None
            self._dcd = DcdFile(folder / f"{stage.name}.dcd", n_atoms, stage.traj_freq, timestep_ps, length)
        self._log: BinaryIO
        if committed:
            self._log = (folder / f"{stage.name}.csv").open("r+b")
            self._log.truncate(committed["log"])
            self._log.seek(committed["log"])
        else:
            self._log = (folder / f"{stage.name}.csv").open("w+b")
            self._log.write(LOG_HEADER.encode())

    def write_frame(self, positions_nm: Any, box_nm: Any) -> None:
        """Append a frame to the trajectory."""
        if not np.isfinite(positions_nm).all():
            raise openmm.OpenMMException("Particle coordinate is NaN")
        assert self._dcd is not None
        self._dcd.write(positions_nm, box_nm)

    def write_energies(self, step: int, time_ps: Decimal, energies: Energies) -> None:
        """Append a line to the log."""
        line = (
            f"{step},{_decimal(time_ps)},{energies.potential_energy:.4f},{energies.kinetic_energy:.4f},"
            f"{energies.temperature:.3f},{energies.volume:.5f},{energies.density:.5f}\n"
        )
        self._log.write(line.encode())
        # The service shows rows while the job runs.
        self._log.flush()

    def commit(self) -> dict[str, int]:
        """Make both durable; returns their lengths."""
        lengths = {"dcd": self._dcd.commit()} if self._dcd else {}
        self._log.flush()
        os.fsync(self._log.fileno())
        return {**lengths, "log": self._log.tell()}

    def close(self) -> int:
        """Commit and close; returns the number of frames."""
        self.commit()
        self._log.close()
        if self._dcd is None:
            return 0
        self._dcd.close()
        return self._dcd.n_frames


def _decimal(value: Decimal) -> str:
    """A number as people write it, without an exponent, with as many digits as it has."""
    digits = max(TIME_DIGITS, -int(value.normalize().as_tuple().exponent))
    return f"{value:.{digits}f}"
