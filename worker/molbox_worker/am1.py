"""`python -m molbox_worker.am1 FOLDER`: AM1 geometry and charges of a molecule, by MOPAC.

A program of its own, so that it can be given a time limit and MOPAC's failures end nothing else.
Reads ``molecule.json`` (``elements``, ``positions`` in Å, ``charge``, ``relax``), writes ``am1.json``
(``charges``, ``positions``, ``errors``).
"""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np


def _load_openmp() -> None:
    """Load a release of OpenMP that needs no shared memory.

    That of ``mopactools`` ends where a confined process has none. A library of the same name that is
    loaded already is used in its place.
    """
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files("intel-openmp") or []:
            if file.name == "libiomp5.so":
                ctypes.CDLL(str(file.locate()), mode=ctypes.RTLD_GLOBAL)


_load_openmp()
from mopactools import api  # noqa: E402


def main(folder: Path) -> None:
    """Calculate one molecule."""
    molecule = json.loads((folder / "molecule.json").read_text())
    system = api.MopacSystem()
    system.natom = system.natom_move = len(molecule["elements"])
    system.charge = molecule["charge"]
    system.model = "AM1"
    system.atom = molecule["elements"]
    system.coord = np.array(molecule["positions"], dtype=np.float64).ravel()
    found = api.from_data(system, api.MopacState(), relax=molecule["relax"])
    answer: dict[str, object] = {"errors": [str(text).strip() for text in found.error_msg]}
    if not found.error_msg:
        positions = found.coord_update if molecule["relax"] else system.coord
        answer["charges"] = found.charge.tolist()
        answer["positions"] = np.reshape(positions, (-1, 3)).tolist()
    (folder / "am1.json").write_text(json.dumps(answer, allow_nan=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
