"""Reading the structure that is to be built: the chains that are wanted, with atoms at sound places."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from molbox_worker import chains, names
from molbox_worker.directory import TaskDirectory
from molbox_worker.plan import InputFile
from molbox_worker.prepared import chain_letters
from molbox_worker.result import TaskError
from molbox_worker.structure import Residue, Structure
from molbox_worker.structure import read as parse

# A coordinate beyond this is a damaged file, in nm.
MAX_COORDINATE_NM = 10_000.0
# No residue reaches further than this, in nm; lipids have 3.
MAX_RESIDUE_NM = 10.0
LOC: list[str | int] = ["body", "protein"]


def read(task: TaskDirectory, protein: InputFile, wanted: list[str] | None) -> Structure:
    """Read the structure file and keep the chains that are wanted; None for all."""
    # One column for each character: gemmi counts bytes.
    text = task.input(protein.file).read_text("utf-8-sig", errors="replace").encode("ascii", "replace").decode()
    try:
        structure = parse(text, protein.format)
    except (ValueError, RuntimeError) as error:
        message = f"{protein.name} cannot be read as {protein.format}: {_in_lines(str(error))}"
        raise TaskError("unreadable", message, remedy="check the file and its format", loc=LOC) from error
    if not any(residue.atoms for residue in structure.residues()):
        what = "has no atoms" if structure.n_models == 1 else "has no atoms in its first model"
        raise TaskError("no_atoms", f"{protein.name} {what}", remedy="check the file and its format", loc=LOC)
    if structure.n_models > 1:
        task.warn("model_chosen", f"{protein.name} has {structure.n_models} models; the first was taken")
    if wanted:
        _keep_chains(structure, wanted)
    for residue in structure.residues():
        _check_atoms(residue, protein.name)
    kept = {id(residue) for residue in structure.residues()}
    structure.links = [link for link in structure.links if {id(link.first[0]), id(link.second[0])} <= kept]
    structure.chains = chains.rejoined(structure.chains)
    _name_chains_of_file(task, structure)
    _report_locations(task, [pair for pair in structure.locations if id(pair[0]) in kept])
    return structure


def _in_lines(problem: str) -> str:
    """What gemmi reports of a file, in one line and with its place as a line."""
    return re.sub(r"^string:(\d+):\d+\(\d+\)|^Problem in line (\d+)", r"line \1\2", " ".join(problem.split()))


def _report_locations(task: TaskDirectory, chosen: list[tuple[Residue, str]]) -> None:
    waters = [residue.called for residue, _ in chosen if residue.name in names.WATERS]
    for residue, what in chosen:
        if residue.name not in names.WATERS:
            task.warn("location_chosen", f"{residue}: {what}", residue.called)
    if waters:
        word = "water" if len(waters) == 1 else "waters"
        what = f"{len(waters)} {word}: of several locations the most occupied one taken"
        task.warn("location_chosen", what, *waters)


def _check_atoms(residue: Residue, name: str) -> None:
    for atom in residue.atoms:
        if not np.isfinite(atom.place).all() or np.abs(atom.place).max() > MAX_COORDINATE_NM:
            what = f"{name}: the coordinates of {atom.name} of {residue} are no place"
            remedy = "correct them in the file"
            raise TaskError("bad_coordinates", what, remedy=remedy, loc=LOC, residues=[residue.called])
    if residue.atoms and (extent := np.ptp([atom.place for atom in residue.atoms], axis=0).max()) > MAX_RESIDUE_NM:
        what = f"{name}: {residue} would be {extent:.0f} nm large"
        remedy = "correct its coordinates in the file"
        raise TaskError("bad_coordinates", what, remedy=remedy, loc=LOC, residues=[residue.called])
    twice = [atom for atom, count in Counter(atom.name for atom in residue.atoms).items() if count > 1]
    if twice:
        raise TaskError(
            "unreadable",
            f"{name}: {residue} has {twice[0]} more than once",
            remedy="give each atom a name of its own, and alternate locations their marks",
            loc=LOC,
            residues=[residue.called],
        )


def _keep_chains(structure: Structure, wanted: list[str]) -> None:
    present = {chain.name for chain in structure.chains}
    missing = [chain for chain in wanted if chain not in present]
    if missing:
        raise TaskError(
            "no_such_chain",
            f"the structure has no chain {', '.join(missing)}; it has {', '.join(sorted(present))}",
            loc=["body", "chain_id"],
        )
    structure.chains = [chain for chain in structure.chains if chain.name in wanted]


def _name_chains_of_file(task: TaskDirectory, structure: Structure) -> None:
    """Give letters to chains without an identifier, and report what is called alike."""
    polymers = [chain for chain in structure.chains if any(map(chains.is_monomer, chain.residues))]
    blank = [chain for chain in structure.chains if not chain.name.strip()]
    nameless = [chain for chain in polymers if chain in blank]
    if nameless:
        given = "a chain" if len(nameless) == 1 else f"{len(nameless)} chains"
        letters = "was given a letter" if len(nameless) == 1 else "were given letters"
        task.warn("chain_renamed", f"{given} without an identifier {letters}")
    fresh = chain_letters({chain.name for chain in structure.chains})
    for chain in blank:
        sequence = structure.sequences.pop(chain.name, [])
        chain.name = next(fresh)
        # Of several chains without an identifier, none can be known to have the sequence.
        if len(nameless) == 1 and chain in nameless:
            structure.sequences[chain.name] = sequence
        for residue in chain.residues:
            residue.chain = chain.name
    for name, count in Counter(chain.name for chain in polymers).items():
        if count > 1:
            task.warn(
                "chain_renamed", f"{count} chains are called {name}; the first keeps its name, others were renamed"
            )
