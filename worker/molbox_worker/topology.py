"""The topology as a file that the service reads: `topology.json`.

All arrays are flat: atoms refer to residues and residues to chains by index.

- ``atoms``: ``name``, ``element`` (symbol, empty for a virtual site), ``mass`` (Da, before any
  repartitioning), ``residue``
- ``residues``: ``name``, ``id`` (author number), ``insertion``, ``chain``
- ``chains``: ``id``
- ``bonds``: pairs of atom indices
- ``positions``: x, y, z of each atom of the built system, in nm
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app

from molbox_worker.names import MIRRORED

WATER = "HOH"
IONS = {"NA", "K", "LI", "CS", "RB", "CL", "BR", "F", "I"}
# OpenMM's patches, and the lipids that are offered; the heads and tails of Amber's Lipid21; sterols, sphingomyelins
# and cardiolipins; and what CHARMM and GROMACS call by two acyls and a head.
LIPIDS = frozenset(
    "POP DLP DMP DOP DPP POPC POPE DLPC DLPE DMPC DOPC DPPC"  # noqa: SIM905
    " PA PC OL PE PS PGR PH- SPM LAL MY ST AR DHA SA CHL CHL1 CHOL ERG SITO STIG"
    " ASM BSM LSM NSM OSM PSM SSM TOCL1 TOCL2 TMCL1 TMCL2 TLCL1 TLCL2 PMCL1 PMCL2 TYCL1 TYCL2".split()
) | {
    acyls + head
    for acyls in "DA DD DE DG DI DL DM DN DO DP DS DU DY PL PM PO PP PV PY SA SD SL SO YO".split()  # noqa: SIM905
    for head in ("PA", "PC", "PE", "PG", "PI", "PS")
}
# Carbons of the shortest tail; spermine, which is SPM too, has ten.
TAIL_CARBONS = 11
PROTEIN = frozenset(
    "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL "  # noqa: SIM905
    "ASH GLH LYN CYX CYM HID HIE HIP HSD HSE HSP ACE NME NMA NH2 HYP NLE SEP TPO PTR ALY".split()
) | set(MIRRORED)
NUCLEIC_ACID = {"A", "C", "G", "U", "I", "DA", "DC", "DG", "DT", "DI"}


def write_topology(path: Path, topology: app.Topology, system: openmm.System, state: openmm.State) -> None:
    """Write `topology.json`."""
    atoms = list(topology.atoms())
    residues = list(topology.residues())
    content: dict[str, Any] = {
        "atoms": {
            "name": [atom.name for atom in atoms],
            "element": [atom.element.symbol if atom.element else "" for atom in atoms],
            "mass": [system.getParticleMass(i)._value for i in range(len(atoms))],
            "residue": [atom.residue.index for atom in atoms],
        },
        "residues": {
            "name": [residue.name for residue in residues],
            "id": [residue.id for residue in residues],
            "insertion": [residue.insertionCode.strip() for residue in residues],
            "chain": [residue.chain.index for residue in residues],
        },
        "chains": {"id": [chain.id for chain in topology.chains()]},
        "bonds": [[bond[0].index, bond[1].index] for bond in topology.bonds()],
        "positions": state.getPositions(asNumpy=True)._value.round(5).tolist(),
    }
    path.write_text(json.dumps(content, separators=(",", ":"), allow_nan=False))


def kind(residue: app.topology.Residue) -> str:
    """What a residue belongs to: protein, nucleic_acid, lipid, water, or the residue's own name."""
    name: str = residue.name
    if name == WATER:
        return "water"
    if name in PROTEIN:
        return "protein"
    # Iodide is I, and so is inosine; an ion is alone.
    if name in NUCLEIC_ACID and len(list(residue.atoms())) > 1:
        return "nucleic_acid"
    return "lipid" if _is_lipid(residue) else name


def _is_lipid(residue: app.topology.Residue) -> bool:
    """Whether a residue is a lipid or a part of one: in the PDB, names of theirs are of other things too."""
    found = Counter(atom.element.symbol for atom in residue.atoms() if atom.element)
    is_long = found["P"] > 0 or found["C"] >= TAIL_CARBONS
    return residue.name in LIPIDS and is_long and found.keys() <= {"C", "H", "N", "O", "P"}


def read_topology(path: Path) -> app.Topology:
    """Read `topology.json` back into OpenMM's form."""
    content = json.loads(path.read_text())
    topology = app.Topology()
    chains = [topology.addChain(id=name) for name in content["chains"]["id"]]
    columns = content["residues"]
    residues = [
        topology.addResidue(name, chains[chain], id=number, insertionCode=insertion)
        for name, number, insertion, chain in zip(
            columns["name"], columns["id"], columns["insertion"], columns["chain"], strict=True
        )
    ]
    columns = content["atoms"]
    atoms = [
        topology.addAtom(name, app.Element.getBySymbol(element) if element else None, residues[residue])
        for name, element, residue in zip(columns["name"], columns["element"], columns["residue"], strict=True)
    ]
    for first, second in content["bonds"]:
        topology.addBond(atoms[first], atoms[second])
    return topology


def is_common_name(name: str) -> bool:
    """Whether a residue name is one of proteins, nucleic acids, lipids, water or ions."""
    return name == WATER or name in PROTEIN | NUCLEIC_ACID | LIPIDS | IONS


def is_solvent(what: str) -> bool:
    """Whether a kind of residue surrounds the molecules of interest: water, ions, lipids."""
    return what in {"water", "lipid"} or what in IONS


def nearest(steps: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Steps between atoms of a molecule, in nm, by their nearest images in a box; shape (n, 3)."""
    for axis in (2, 1, 0):
        steps = steps - np.round(steps[:, axis] / vectors[axis, axis])[:, None] * vectors[axis]
    return steps
