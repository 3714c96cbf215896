"""Making a deposited structure complete: what is missing, foreign or doubled in it.

Everything that is removed, added, replaced or guessed becomes a warning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from openmm import app
from openmm.app import element
from pdbfixer import PDBFixer
from pdbfixer.pdbfixer import dnaResidues, proteinResidues, rnaResidues

from molbox_worker.job import Job, JobError

# Longer gaps are not built: a loop of this length is already a guess.
MAX_BUILT_GAP = 20
# A coordinate beyond this is a damaged file, in nm.
MAX_COORDINATE_NM = 10_000.0
KEPT = {*proteinResidues, *dnaResidues, *rnaResidues, "N", "ACE", "NME", "NMA", "NH2", "HOH"}
LOC: list[str | int] = ["body", "protein"]


def _no_download(_self: PDBFixer, _name: str) -> None:
    """Keep PDBFixer from fetching residue definitions: a worker has no network."""


PDBFixer._downloadCCDDefinition = _no_download


def read(job: Job, plan: dict[str, Any]) -> PDBFixer:
    """Read the structure file and keep the chains that are asked for."""
    protein = plan["protein"]
    path = job.input(protein["file"])
    if protein["format"] == "pdb" and not _has_atoms(path):
        raise JobError("no_atoms", f"{protein['name']} has no atoms", loc=LOC)
    try:
        if protein["format"] == "pdb":
            fixer = PDBFixer(filename=str(path))
        else:
            with path.open() as file:
                fixer = PDBFixer(pdbxfile=file)
    except Exception as error:
        # The readers raise whatever their code runs into.
        message = f"{protein['name']} cannot be read as {protein['format']}: {type(error).__name__}: {error}"
        raise JobError("unreadable", message, remedy="check the file and its format", loc=LOC) from error
    if fixer.topology.getNumAtoms() == 0:
        raise JobError("no_atoms", f"{protein['name']} has no atoms", loc=LOC)
    _check_coordinates(fixer, protein["name"])
    if plan.get("chains"):
        _keep_chains(fixer, plan["chains"])
    return fixer


def _has_atoms(path: Path) -> bool:
    with path.open(errors="replace") as file:
        return any(line.startswith(("ATOM", "HETATM")) for line in file)


def _check_coordinates(fixer: PDBFixer, name: str) -> None:
    for atom, position in zip(fixer.topology.atoms(), fixer.positions, strict=True):
        x = np.array([position[0]._value, position[1]._value, position[2]._value])
        if not np.isfinite(x).all() or np.abs(x).max() > MAX_COORDINATE_NM:
            place = f"{atom.name} of {atom.residue.name} {atom.residue.id} in chain {atom.residue.chain.id}"
            raise JobError("bad_coordinates", f"{name}: the coordinates of {place} are no place", loc=LOC)


def _keep_chains(fixer: PDBFixer, wanted: list[str]) -> None:
    present = [chain.id for chain in fixer.topology.chains()]
    missing = [chain for chain in wanted if chain not in present]
    if missing:
        raise JobError(
            "no_such_chain",
            f"the structure has no chain {', '.join(missing)}; it has {', '.join(sorted(set(present)))}",
            loc=["body", "chain_id"],
        )
    fixer.removeChains(chainIds=sorted(set(present) - set(wanted)))


def prepare(job: Job, plan: dict[str, Any], fixer: PDBFixer, seed: int) -> app.Modeller:
    """Complete the structure: gaps, nonstandard residues, heterogens, missing atoms, hydrogens."""
    _find_gaps(job, fixer)
    fixer.findNonstandardResidues()
    for residue, standard in fixer.nonstandardResidues:
        job.warn(
            "residue_replaced",
            f"nonstandard residue {residue.name} {residue.id} of chain {residue.chain.id} replaced by {standard}",
        )
    fixer.replaceNonstandardResidues()
    _remove_heterogens(job, fixer)
    if fixer.topology.getNumAtoms() == 0:
        raise JobError("no_atoms", "nothing is left of the structure once heterogens are removed", loc=LOC)
    fixer.findMissingAtoms()
    for residue, atoms in fixer.missingAtoms.items():
        names = ", ".join(atom.name for atom in atoms)
        job.warn(
            "atoms_added",
            f"missing atoms {names} added to {residue.name} {residue.id} of chain {residue.chain.id}",
        )
    fixer.addMissingAtoms(seed=seed)
    modeller = app.Modeller(fixer.topology, fixer.positions)
    if not plan["keep_hydrogens"]:
        hydrogens = (element.hydrogen, element.deuterium)
        modeller.delete([atom for atom in modeller.topology.atoms() if atom.element in hydrogens])
    # The cell of the crystal is not the box of the simulation.
    modeller.topology.setPeriodicBoxVectors(None)
    return modeller


def _find_gaps(job: Job, fixer: PDBFixer) -> None:
    """Have gaps between residues built; ends and long gaps are reported only."""
    fixer.findMissingResidues()
    chains = list(fixer.topology.chains())
    for (chain_index, position), names in list(fixer.missingResidues.items()):
        chain = chains[chain_index]
        n_residues = len(list(chain.residues()))
        what = f"{len(names)} residues ({'-'.join(names[:5])}{'…' if len(names) > 5 else ''}) of chain {chain.id}"
        if position in (0, n_residues):
            end = "start" if position == 0 else "end"
            job.warn("residues_missing", f"{what} are missing at its {end} and were left out")
        elif len(names) > MAX_BUILT_GAP:
            job.warn("residues_missing", f"{what} are missing in a gap too long to build and were left out")
        else:
            job.warn("residues_built", f"{what} are missing in a gap and were built without a template")
            continue
        del fixer.missingResidues[(chain_index, position)]


def _remove_heterogens(job: Job, fixer: PDBFixer) -> None:
    """Remove what has no parameters. PDBFixer's own function would take caps of chains too."""
    foreign = [residue for residue in fixer.topology.residues() if residue.name not in KEPT]
    for residue in foreign:
        job.warn("heterogen_removed", f"{residue.name} {residue.id} of chain {residue.chain.id} removed")
    if foreign:
        modeller = app.Modeller(fixer.topology, fixer.positions)
        modeller.delete(foreign)
        fixer.topology, fixer.positions = modeller.topology, modeller.positions
        # Recomputed below for the residues that remain.
        fixer.missingAtoms, fixer.missingTerminals = {}, {}
