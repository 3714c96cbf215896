"""Writing built structures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from openmm import app

from molbox_worker.engine import MAX_PDB_ATOMS

# Residues between neighbours of which every program knows the bonds.
STANDARD = frozenset(app.PDBFile._standardResidues)


def write_structure(folder: Path, name: str, topology: app.Topology, positions: Any) -> None:
    """Write a structure as mmCIF, and as PDB when that can number its atoms."""
    with (folder / f"{name}.cif").open("w") as file:
        header = io.StringIO()
        app.PDBxFile.writeHeader(topology, header, keepIds=True)
        file.write(_with_links(header.getvalue(), topology))
        app.PDBxFile.writeModel(topology, positions, file, keepIds=True)
    if topology.getNumAtoms() <= MAX_PDB_ATOMS:
        with (folder / f"{name}.pdb").open("w") as file:
            app.PDBFile.writeFile(topology, positions, file, keepIds=True)


def _with_links(header: str, topology: app.Topology) -> str:
    """The header of a mmCIF file with the bonds that close rings, which OpenMM leaves out of it.

    It writes those of residues that it does not know, and those of disulfides.
    """
    rows: list[str] = []
    for a, b in topology.bonds():
        is_inner = a.residue is b.residue or abs(a.residue.index - b.residue.index) == 1
        is_written = {a.residue.name, b.residue.name} - STANDARD or a.name == b.name == "SG"
        if not is_inner and not is_written:
            ends = [f"{x.residue.chain.id} {x.residue.name} {x.residue.id} {x.name}" for x in (a, b)]
            rows.append(f"ring{len(rows) + 1} covale {ends[0]} {ends[1]}\n")
    start, atoms, rest = header.partition("loop_\n_atom_site.")
    if not rows:
        return header
    if "_struct_conn.id" not in start:
        columns = [f"ptnr{i}_label_{what}" for i in (1, 2) for what in ("asym_id", "comp_id", "seq_id", "atom_id")]
        start += "loop_\n" + "".join(f"_struct_conn.{column}\n" for column in ("id", "conn_type_id", *columns))
    return start.removesuffix("#\n") + "".join(rows) + "#\n" + atoms + rest
