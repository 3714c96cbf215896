"""Heavy atoms that a structure lacks: loops, side chains, parts of nucleotides and caps.

Loops of proteins are annealed by `loops`, side chains grown by `complete`. PDBFixer builds loops of
nucleic acids, and completes nucleotides and caps.
"""

from __future__ import annotations

import io
import itertools

import numpy as np
from openmm import Vec3, app, unit
from openmm.app import element
from pdbfixer import PDBFixer

from molbox_worker import chains, complete, loops, names
from molbox_worker.chains import Run
from molbox_worker.contacts import near_pairs, radius
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import platform
from molbox_worker.result import Stopped
from molbox_worker.structure import Atom, Residue

# A loop is built anew when its atoms come nearer to others than this, as a share of their radii.
LOOP_ROOM = 0.75
# Where the best of all attempts comes nearer than this, the gap is left.
NO_ROOM = 0.6
LOOP_ATTEMPTS = 4
ONE_ATOM = "HETATM    1  O   HOH A   1       0.000   0.000   0.000  1.00  0.00           O\n"


def _no_download(_self: PDBFixer, _name: str) -> None:
    """Keep PDBFixer from fetching residue definitions: a worker has no network."""


PDBFixer._downloadCCDDefinition = _no_download


def add_missing(task: TaskDirectory, runs: list[Run], others: list[Residue], seed: int) -> tuple[list[Run], int]:
    """Add all heavy atoms that are missing; returns the runs, and how many residues were built.

    A run ends where no loop could be built.
    """
    for run in runs:
        for i, residue in enumerate(run.residues):
            if residue in run.loops and i > 0:
                last = run.residues[i - 1]
                last.atoms = [atom for atom in last.atoms if atom.name != "OXT"]
    runs = _build_loops(task, runs, others, seed)
    fixer = PDBFixer(pdbfile=io.StringIO(ONE_ATOM))
    # Its own choice would be the fastest platform with all of its threads.
    fixer.platform = platform(task)[0]
    runs = _add_with_pdbfixer(task, fixer, runs, others, seed)
    while True:
        try:
            grown = _grow(fixer, runs, others)
        except complete.NoRoom as error:
            if error.residue.deposited:
                raise
            runs = _without_loop(task, runs, error.residue)
        else:
            break
    for residue, lacking in grown.items():
        _report(task, residue, lacking)
    return runs, _report_built(task, runs)


def _grow(fixer: PDBFixer, runs: list[Run], others: list[Residue]) -> dict[Residue, list[str]]:
    """Grow what amino acids lack; returns the names of the atoms."""
    wanted = {}
    following = {}
    for run in runs:
        for i, residue in enumerate(run.residues):
            is_last = i + 1 == len(run.residues) and not run.is_closed
            if not is_last:
                following[residue] = run.residues[(i + 1) % len(run.residues)]
            template = fixer.templates.get(residue.name)
            if residue.name in names.AMINO_ACIDS and template is not None:
                lacking = complete.missing(residue, template, is_last=is_last)
                if lacking:
                    wanted[residue] = lacking
    residues = [residue for run in runs for residue in run.residues]
    dry = [residue for residue in others if not residue.is_water]
    complete.complete(wanted, residues + dry, fixer.templates, following)
    return wanted


def _build_loops(task: TaskDirectory, runs: list[Run], others: list[Residue], seed: int) -> list[Run]:
    """Build the backbones of proteins' loops; returns the runs."""
    found = []
    for run in runs:
        failed = set()
        for after, missing in list(run.loops.items()):
            i = run.residues.index(after)
            loop = loops.Loop(run.residues[i - 1], missing, after)
            if set(missing) <= names.NUCLEOTIDES:
                continue
            there = [residue for each in runs for residue in each.residues] + others
            obstacles = [atom for residue in there if not residue.is_water for atom in residue.heavy]
            parts = loops.build(task, loop, obstacles, seed) if loop.has_ends else None
            if parts is None:
                failed.add(after)
                continue
            number = loop.before.number
            run.residues[i:i] = [
                Residue(name, run.chain, number + k, "", "", atoms)
                for k, (name, atoms) in enumerate(zip(missing, parts, strict=True), start=1)
            ]
            del run.loops[after]
        found += _split(task, run, failed)
    return found


def _without_loop(task: TaskDirectory, runs: list[Run], member: Residue) -> list[Run]:
    """The runs without the loop that a residue is of, for whose side chain there is no room."""
    found = []
    for run in runs:
        if member not in run.residues:
            found.append(run)
            continue
        start = end = run.residues.index(member)
        while not run.residues[start - 1].deposited:
            start -= 1
        while not run.residues[end].deposited:
            end += 1
        after = run.residues[end]
        run.loops[after] = [residue.name for residue in run.residues[start:end]]
        del run.residues[start:end]
        found += _split(task, run, {after})
    return found


def _report_built(task: TaskDirectory, runs: list[Run]) -> int:
    """Report the loops that were built; returns how many residues they have."""
    n_built = 0
    for run in runs:
        for is_built, part in itertools.groupby(run.residues, key=lambda residue: not residue.deposited):
            if is_built:
                built = [residue.name for residue in part]
                n_built += len(built)
                what = chains.describe(built, run.chain)
                task.warn("residues_built", f"{what} in a gap: built without a template")
    return n_built


def _split(task: TaskDirectory, run: Run, failed: set[Residue]) -> list[Run]:
    """A run in parts, each begun by one of the residues before which no loop could be built."""
    parts = [Run(run.chain, [])]
    for residue in run.residues:
        if residue in failed:
            what = chains.describe(run.loops[residue], run.chain)
            task.warn("residues_missing", f"{what} in a gap for which no sound loop was found: left out")
            parts.append(Run(run.chain, []))
        elif residue in run.loops:
            parts[-1].loops[residue] = run.loops[residue]
        parts[-1].residues.append(residue)
    if len(parts) == 1:
        return [run]
    if run.is_closed:
        # The ring is open now: its last residue continues with its first.
        first = parts.pop(0)
        parts[-1].residues += first.residues
        parts[-1].loops |= first.loops
    return parts


def _report(task: TaskDirectory, residue: Residue, lacking: list[str]) -> None:
    # Ends of chains seldom have their second oxygen, and built residues are reported as such.
    inner = [name for name in lacking if name != "OXT"]
    if inner and residue.deposited:
        task.warn("atoms_added", f"missing atoms {', '.join(inner)} added to {residue}", residue.called)


def _add_with_pdbfixer(
    task: TaskDirectory, fixer: PDBFixer, runs: list[Run], others: list[Residue], seed: int
) -> list[Run]:
    fixer.topology, fixer.positions, copies = _topology(runs, others)
    fixer.missingResidues = {
        (chain, i): run.loops[residue]
        for chain, run in enumerate(runs)
        for i, residue in enumerate(run.residues)
        if residue in run.loops
    }
    fixer.missingTerminals = {}
    fixer.missingAtoms = _missing_of_others(task, fixer, runs, copies)
    if not fixer.missingResidues and not fixer.missingAtoms:
        return runs
    before = fixer.topology, fixer.positions
    best: tuple[float, app.Topology, object] | None = None
    for attempt in range(LOOP_ATTEMPTS):
        fixer.topology, fixer.positions = before
        fixer.addMissingAtoms(seed=loops.attempt_seed(seed, attempt))
        room = _room(runs, others, fixer)
        task.log(f"missing parts, attempt {attempt + 1}: {room:.2f} of the radii to the nearest other atom")
        if best is None or room > best[0]:
            best = room, fixer.topology, fixer.positions
        if room >= LOOP_ROOM:
            break
        if task.stop_requested:
            raise Stopped
    assert best is not None
    room, fixer.topology, fixer.positions = best
    if fixer.missingResidues and room < NO_ROOM:
        open_runs = [part for run in runs for part in _split(task, run, set(run.loops))]
        return _add_with_pdbfixer(task, fixer, open_runs, others, seed)
    _take_added(runs, fixer)
    return runs


def _topology(
    runs: list[Run], others: list[Residue]
) -> tuple[app.Topology, unit.Quantity, dict[Residue, app.topology.Residue]]:
    """What is there, each run as a chain, in OpenMM's form."""
    topology = app.Topology()
    places = []
    copies = {}
    for chain_name, residues in [(run.chain, run.residues) for run in runs] + [("", others)]:
        chain = topology.addChain(chain_name)
        for residue in residues:
            copies[residue] = topology.addResidue(residue.name, chain, str(residue.number), residue.insertion)
            for atom in residue.atoms:
                topology.addAtom(atom.name, atom.element, copies[residue])
                places.append(Vec3(*atom.place))
    topology.createStandardBonds()
    return topology, places * unit.nanometer, copies


def _missing_of_others(
    task: TaskDirectory, fixer: PDBFixer, runs: list[Run], copies: dict[Residue, app.topology.Residue]
) -> dict[app.topology.Residue, list[app.topology.Atom]]:
    """Atoms that nucleotides and caps lack; a strand begins without a phosphate."""
    found = {}
    for run in runs:
        for i, residue in enumerate(run.residues):
            template = fixer.templates.get(residue.name)
            if template is None or residue.name in names.AMINO_ACIDS:
                continue
            without = {"P", "OP1", "OP2"} if i == 0 else set()
            lacking = [
                atom
                for atom in template.topology.atoms()
                if atom.name not in residue and atom.name not in without and atom.element is not element.hydrogen
            ]
            if lacking:
                found[copies[residue]] = lacking
                _report(task, residue, [atom.name for atom in lacking])
    return found


def _room(runs: list[Run], others: list[Residue], fixer: PDBFixer) -> float:
    """Shortest distance of an added atom from one that no bond or angle joins it to, as a share of radii.

    Water does not count: it may go.
    """
    old = {tuple(atom.place) for run in runs for residue in run.residues for atom in residue.atoms}
    atoms = [
        atom
        for atom in fixer.topology.atoms()
        if atom.element not in (None, element.hydrogen) and atom.residue.name != "HOH"
    ]
    places = np.array([[x for x in fixer.positions[atom.index]._value] for atom in atoms])
    is_new = [tuple(place) not in old for place, atom in zip(places, atoms, strict=True)]
    joined: dict[int, set[int]] = {atom.index: set() for atom in atoms}
    for a, b in fixer.topology.bonds():
        if a.index in joined and b.index in joined:
            joined[a.index].add(b.index)
            joined[b.index].add(a.index)
    pairs, distances = near_pairs(places, 0.3)
    shares = [1.0]
    for (i, j), distance in zip(pairs, distances, strict=True):
        a, b = atoms[i], atoms[j]
        is_joined = b.index in joined[a.index] or bool(joined[a.index] & joined[b.index])
        if (is_new[i] or is_new[j]) and not is_joined:
            shares.append(float(distance) / (radius(a.element) + radius(b.element)))
    return min(shares)


def _take_added(runs: list[Run], fixer: PDBFixer) -> None:
    """Put what PDBFixer has added into the runs."""
    positions = fixer.positions.value_in_unit(unit.nanometer)
    for run, chain in zip(runs, fixer.topology.chains(), strict=False):
        copies = list(chain.residues())
        residues: list[Residue] = []
        old = iter(run.residues)
        waiting = next(old)
        while copies:
            n_new = len(run.loops.get(waiting, ()))
            residues += [_new_residue(run, copy, positions) for copy in copies[:n_new]]
            present = {atom.name for atom in waiting.atoms}
            waiting.atoms += [
                Atom(atom.name, atom.element, np.array(positions[atom.index]), built=True)
                for atom in copies[n_new].atoms()
                if atom.name not in present
            ]
            residues.append(waiting)
            copies = copies[n_new + 1 :]
            if copies:
                waiting = next(old)
        run.residues = residues
        run.loops = {}


def _new_residue(run: Run, copy: app.topology.Residue, positions: list[Vec3]) -> Residue:
    atoms = [Atom(atom.name, atom.element, np.array(positions[atom.index]), built=True) for atom in copy.atoms()]
    return Residue(copy.name, run.chain, int(copy.id), "", "", atoms)
