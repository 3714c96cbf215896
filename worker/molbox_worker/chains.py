"""Runs of residues that are bonded to each other, and the gaps in them.

What a file has under one chain identifier may be several molecules, and one molecule may lack
residues. Bonds follow from distances; what is missing, from the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from molbox_worker import names
from molbox_worker.directory import TaskDirectory
from molbox_worker.structure import Chain, Residue, Structure

# Longer gaps are not built: a loop of this length is already a guess.
MAX_BUILT_GAP = 20
# Residues further apart are not bonded; bonds of the backbone have 0.13 and 0.16 nm.
MAX_BACKBONE_BOND_NM = 0.25
# The same for neighbours of which the atoms of the bond are missing, between any of their atoms.
MAX_NEIGHBOUR_NM = 0.40
# Nearer than this they are bonded by other atoms than those of the backbone.
TOUCHING_NM = 0.2
# A residue more makes a chain this much longer, at most.
RESIDUE_NM = {"protein": 0.40, "nucleic acid": 0.75}
PEPTIDE, PHOSPHODIESTER = ("C", "N"), ("O3'", "P")


@dataclass(eq=False)
class Run:
    """Residues bonded one to the next.

    Attributes
    ----------
    loops
        Names of residues to build before some of them.
    is_closed
        Whether the last one is bonded to the first, as in a cyclic peptide.

    """

    chain: str
    residues: list[Residue]
    loops: dict[Residue, list[str]] = field(default_factory=dict)
    is_closed: bool = False

    def pairs(self) -> list[tuple[Residue, Residue]]:
        """Neighbours that are bonded, not through a loop."""
        following = zip(self.residues, self.residues[1:], strict=False)
        return [(before, after) for before, after in following if after not in self.loops]


def is_monomer(residue: Residue) -> bool:
    """Whether a residue can be part of a chain of them, nonstandard ones and caps included."""
    present = {atom.name for atom in residue.atoms}
    return residue.name in names.POLYMER or present >= {"N", "CA", "C"} or present >= {"C3'", "O3'", "C5'"}


def is_nucleotide(residue: Residue) -> bool:
    """Whether a residue has the sugar of a nucleotide."""
    return residue.name in names.NUCLEOTIDES or "C1'" in residue


def rejoined(parts: list[Chain]) -> list[Chain]:
    """Chains in which a TER separated residues that are bonded: some programs write one where numbers jump."""
    found: list[Chain] = []
    for part in parts:
        before = found[-1] if found and found[-1].name == part.name else None
        if before and before.residues and part.residues and bond_length(before.residues[-1], part.residues[0]):
            before.residues += part.residues
        else:
            found.append(part)
    return found


def find_runs(task: TaskDirectory, structure: Structure) -> list[Run]:
    """The runs of all chains; gaps in them are to be built, or end a run and are reported."""
    runs = []
    for chain in structure.chains:
        monomers = [residue for residue in chain.residues if is_monomer(residue)]
        if monomers:
            runs += _runs(task, chain, monomers, structure.sequences.get(chain.name, []))
    return runs


def _runs(task: TaskDirectory, chain: Chain, monomers: list[Residue], sequence: list[str]) -> list[Run]:
    gaps = _missing(monomers, sequence)
    for end, position in (("start", 0), ("end", len(monomers))):
        if position in gaps:
            task.warn("residues_missing", f"{describe(gaps[position], chain.name)} at its {end}: left out")
    runs = [Run(chain.name, monomers[:1])]
    for i in range(1, len(monomers)):
        before, after = monomers[i - 1], monomers[i]
        length = bond_length(before, after)
        is_bonded = length is not None
        if i in gaps and not is_bonded:
            why = _why_not_built(gaps[i], before, after)
            if why is None:
                runs[-1].loops[after] = [names.ARTEFACTS.get(name, name) for name in gaps[i]]
                is_bonded = True
            else:
                task.warn("residues_missing", f"{describe(gaps[i], chain.name)} in a gap {why}: left out")
        elif not is_bonded and _is_break(before, after) and (apart := nearest(before, after)) > TOUCHING_NM:
            ends = f"{before} and {after}, {apart:.2f} nm apart"
            what = f"a chain was ended and begun anew between {ends}"
            task.warn("chain_broken", what, before.called, after.called)
        if is_bonded:
            runs[-1].residues.append(after)
        else:
            runs.append(Run(chain.name, [after]))
    return runs


def describe(gap: list[str], chain: str) -> str:
    """The residues that a gap lacks, and that they are missing."""
    word, are = ("residue", "is") if len(gap) == 1 else ("residues", "are")
    return f"{len(gap)} {word} ({'-'.join(gap[:5])}{'…' if len(gap) > 5 else ''}) of chain {chain} {are} missing"


def _is_break(before: Residue, after: Residue) -> bool:
    """Whether two residues that are not bonded are of one chain all the same, by what they are."""
    return before.name in names.POLYMER and after.name in names.POLYMER


def _why_not_built(gap: list[str], before: Residue, after: Residue) -> str | None:
    unknown = [name for name in gap if name not in names.AMINO_ACIDS | names.NUCLEOTIDES | set(names.ARTEFACTS)]
    reach = RESIDUE_NM["nucleic acid" if is_nucleotide(before) else "protein"] * (len(gap) + 1)
    if len(gap) > MAX_BUILT_GAP:
        return "too long to build"
    if unknown:
        return f"with {unknown[0]}, of which no loop can be built,"
    if (apart := nearest(before, after)) > reach:
        return f"of {apart:.1f} nm, which they cannot span,"
    return None


def is_bare(residue: Residue) -> bool:
    """Whether too little of an amino acid is there to know where the rest has to be."""
    return residue.name in names.AMINO_ACIDS and any(name not in residue for name in ("N", "CA", "C"))


def drop_bare_ends(task: TaskDirectory, runs: list[Run]) -> list[Residue]:
    """Take out residues without a whole backbone at ends and beside loops; returns them.

    Beside a loop such a residue is built with it.
    """
    dropped = []
    for run in runs:
        for after in list(run.loops):
            before = run.residues[run.residues.index(after) - 1]
            if is_bare(before) and before is not run.residues[0]:
                run.loops[after].insert(0, before.name)
                dropped.append(before)
            if is_bare(after) and after is not run.residues[-1]:
                following = run.residues[run.residues.index(after) + 1]
                run.loops[following] = [*run.loops.pop(after), after.name, *run.loops.get(following, [])]
                dropped.append(after)
        ends = [run.residues[0], run.residues[-1]] if len(run.residues) > 1 else run.residues
        for end in {id(residue): residue for residue in ends}.values():
            if is_bare(end):
                run.loops.pop(end, None)
                what = f"{end} has no whole backbone at an end and was left out"
                task.warn("residues_missing", what, end.called)
                dropped.append(end)
        run.residues = [residue for residue in run.residues if residue not in dropped]
        if run.residues:
            run.loops.pop(run.residues[0], None)
    return dropped


def bond_length(before: Residue, after: Residue) -> float | None:
    """Length in nm of the bond between neighbours in a chain; None when they are not bonded.

    0 when atoms of the bond are missing but the residues touch.
    """
    is_amino = not is_nucleotide(before) and not is_nucleotide(after)
    left, right = PEPTIDE if is_amino else PHOSPHODIESTER
    if is_amino and (after.name == "ACE" or before.name in {"NME", "NH2"}):
        return None
    end, start = before.atom(left), after.atom(right)
    if end and start:
        length = float(np.linalg.norm(end.place - start.place))
        return length if length < MAX_BACKBONE_BOND_NM else None
    if not is_amino and start is None:
        # Without its phosphate a nucleotide begins a strand.
        return None
    follows = after.number in {before.number, before.number + 1}
    return 0.0 if follows and nearest(before, after) < MAX_NEIGHBOUR_NM else None


def nearest(before: Residue, after: Residue) -> float:
    """Shortest distance of two residues' heavy atoms, nm; infinite when one has none."""
    here, there = (np.array([atom.place for atom in residue.heavy]).reshape(-1, 3) for residue in (before, after))
    return float(np.linalg.norm(here[:, None] - there[None], axis=2).min(initial=np.inf))


def _missing(residues: list[Residue], sequence: list[str]) -> dict[int, list[str]]:
    """Names of missing residues by the index of the residue that they come before.

    As PDBFixer finds them: by the numbers of those that are there. Nothing when numbers and sequence
    do not fit.
    """
    numbers = [residue.number for residue in residues]
    for i, residue in enumerate(residues):
        if residue.insertion:
            numbers[i:] = [number + 1 for number in numbers[i:]]
    low = min(numbers)
    there = {number - low: i for i, number in enumerate(numbers)}
    n_places = max(numbers) - low + 1
    for offset in range(len(sequence) - n_places + 1):
        if all(_is_same(sequence[offset + place], residues[i]) for place, i in there.items()):
            break
    else:
        return {}
    missing: dict[int, list[str]] = {}
    index = 0
    for i, name in enumerate(sequence):
        if i - offset in there:
            index = there[i - offset] + 1
        else:
            missing.setdefault(index, []).append(name)
    return missing


def _is_same(name: str, residue: Residue) -> bool:
    return name in {residue.deposited, residue.name}
