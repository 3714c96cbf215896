"""GAFF2 parameters with AM1-BCC charges for small molecules.

AM1 geometry and charges come from MOPAC; atom types, bond charge corrections and force constants
from the AmberTools programs that acpype's wheel carries. They run as separate programs (they are
under the GPL) in a folder below the task directory. AmberTools' own AM1 program is not used: it needs
Fortran libraries that the wheel lacks, takes 20 times as long, and its charges differ by 0.0004 e
(root mean square over a Tyk2 ligand).

Atoms are put into canonical order first, so that the same molecule in the same shape has the same
parameters however its file orders it, and can be kept in a cache.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from molbox_worker.directory import TaskDirectory, dump, replace
from molbox_worker.result import Stopped, TaskError, TaskWarning, as_json

# GAFF2's elements.
ELEMENTS = ("C", "N", "O", "S", "P", "H", "F", "Cl", "Br", "I")
# Beyond this, AM1 takes hours.
MAX_ATOMS = 250
KCAL = 4.184
# Charges are written with six decimals; a sum further from an integer is another molecule's.
MAX_CHARGE_ERROR = 0.01
# A bond that AM1 has stretched further than this is broken, Å.
MAX_STRETCH = 0.5
SECTIONS = ("MASS", "BOND", "ANGLE", "DIHE", "IMPROPER", "NONBON")
REVISION = "1"


@dataclass(frozen=True)
class Parameters:
    """Parameters of a molecule.

    Attributes
    ----------
    xml
        An OpenMM force field with one residue template.
    charge
        Net charge, e.
    notes
        Warnings about them, as `TaskDirectory.warn` takes them. They name no file: the next one may have another name.
    is_cached
        Whether they were taken from the cache.

    """

    xml: str
    charge: int
    notes: list[TaskWarning]
    is_cached: bool


def parametrise(
    task: TaskDirectory, cache: Path, molecule: Chem.Mol, what: str, seconds: float, loc: list[str | int]
) -> Parameters:
    """Parametrise a molecule with all its hydrogens and a conformer; `what` names it to its owner.

    What another task of the account has found is taken from the folder `cache`.
    """
    _check(molecule, what, loc)
    if not has_tools():
        raise TaskError(
            "ligand_tools_missing",
            f"{what} cannot be parametrised here: the service lacks the programs for charges of ligands",
            remedy="register a force-field file for the ligand; the operator installs worker/requirements.txt",
            loc=loc,
        )
    order = list(Chem.CanonicalRankAtoms(molecule, breakTies=True))
    molecule = Chem.RenumberAtoms(molecule, [int(i) for i in np.argsort(order)])
    key = _key(molecule)
    path = cache / f"gaff2-{key}.json"
    if path.exists():
        cached = json.loads(path.read_text())
        notes = [TaskWarning.read(note) for note in cached["notes"]]
        return Parameters(**{**cached, "notes": notes}, is_cached=True)
    folder = task.work / "ligand" / key
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    programs = Programs(task, folder, what, time.monotonic() + seconds, seconds, loc)
    charges, notes = _am1_bcc(programs, molecule)
    programs.run("parmchk2", "-i", "typed.mol2", "-f", "mol2", "-o", "all.frcmod", "-s", "gaff2", "-a", "Y")
    xml, guessed = _force_field(molecule, charges, folder, f"gaff-{key[:12]}")
    if guessed:
        text = f"GAFF2 has no good value for {', '.join(guessed[:5])}{' …' if len(guessed) > 5 else ''}"
        notes.append(TaskWarning("ligand_parameters_guessed", f"{text}; similar ones were taken"))
    found = Parameters(xml, Chem.GetFormalCharge(molecule), notes, is_cached=False)
    cache.mkdir(parents=True, exist_ok=True)
    replace(path, dump({"xml": found.xml, "charge": found.charge, "notes": as_json(notes)}))
    shutil.rmtree(folder)
    return found


def _check(molecule: Chem.Mol, what: str, loc: list[str | int]) -> None:
    foreign = sorted({atom.GetSymbol() for atom in molecule.GetAtoms()} - set(ELEMENTS))
    if foreign:
        raise TaskError(
            "ligand_element",
            f"{what} has {', '.join(foreign)}, for which GAFF2 has no parameters; it has {', '.join(ELEMENTS)}",
            remedy="leave the ligand out, or register a force-field file with its parameters",
            loc=loc,
        )
    if molecule.GetNumAtoms() > MAX_ATOMS:
        raise TaskError(
            "ligand_too_large",
            f"{what} has {molecule.GetNumAtoms()} atoms; charges are calculated for at most {MAX_ATOMS}",
            remedy="register a force-field file with its parameters",
            loc=loc,
        )


def _key(molecule: Chem.Mol) -> str:
    """What distinguishes molecules and their shapes: the graph, the charge and all distances to 0.01 Å."""
    positions = molecule.GetConformer().GetPositions()
    # Atoms that symmetry makes equal have the same rank: their order means nothing.
    ranks = np.array(Chem.CanonicalRankAtoms(molecule, breakTies=False))
    i, j = np.triu_indices(len(ranks), k=1)
    lengths = np.linalg.norm(positions[i] - positions[j], axis=1).round(2)
    low, high = np.minimum(ranks[i], ranks[j]), np.maximum(ranks[i], ranks[j])
    distances = sorted(zip(low.tolist(), high.tolist(), lengths.tolist(), strict=True))
    charge = Chem.GetFormalCharge(molecule)
    method = f"{REVISION}/{version('mopactools')}/{version('acpype')}"
    text = f"{method}/{Chem.MolToSmiles(molecule)}/{charge}/{distances}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Programs:
    """Runs the programs for one molecule, within one time limit."""

    def __init__(
        self, task: TaskDirectory, folder: Path, what: str, deadline: float, seconds: float, loc: list[str | int]
    ) -> None:
        self._task = task
        self.folder = folder
        self.what = what
        self.loc = loc
        self._deadline = deadline
        self._seconds = seconds
        home = _amber_home()
        assert home is not None, "parametrise has looked"
        self.home = home
        self._environment = {
            **os.environ,
            "AMBERHOME": str(self.home),
            "PATH": f"{self.home}/bin/wrapped_progs:{self.home}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "LD_LIBRARY_PATH": f"{self.home}/lib",
            # One thread gives the same sums every time.
            "OMP_NUM_THREADS": "1",
        }

    def run(self, name: str, *arguments: str) -> None:
        """Run a program of AmberTools; all must succeed."""
        code, text = self._execute([str(self.home / "bin/wrapped_progs" / name), *arguments])
        if code != 0:
            raise self.failure(name, text)

    def am1(self, molecule: Chem.Mol, *, relax: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """AM1 charges, and positions in Å, relaxed if asked for."""
        content = {
            "elements": [atom.GetAtomicNum() for atom in molecule.GetAtoms()],
            "positions": molecule.GetConformer().GetPositions().tolist(),
            "charge": Chem.GetFormalCharge(molecule),
            "relax": relax,
        }
        (self.folder / "molecule.json").write_text(json.dumps(content, allow_nan=False))
        code, text = self._execute([sys.executable, "-I", "-B", "-m", "molbox_worker.am1", "."])
        if code != 0:
            raise self.failure("MOPAC", text)
        answer = json.loads((self.folder / "am1.json").read_text())
        if answer["errors"]:
            raise self.failure("MOPAC", "\n".join(answer["errors"]))
        return np.array(answer["charges"]), np.array(answer["positions"])

    def failure(self, program: str, text: str) -> TaskError:
        """The failure of a program, with what it printed about it."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        fatal = [line for line in lines if "rror" in line or "annot" in line] or lines[-2:]
        return TaskError(
            "ligand_not_parametrised",
            f"{self.what}: {program} failed: {'; '.join(fatal[:3])[:500] or 'it prints nothing'}",
            remedy="check bond orders, hydrogens and charge of the file",
            loc=self.loc,
        )

    def _execute(self, command: list[str]) -> tuple[int, str]:
        output = self.folder / "output.txt"
        with output.open("w") as file:
            # Standard input is inherited: it is the lock of the task directory, which is held for as long as
            # anything writes there.
            process = subprocess.Popen(command, cwd=self.folder, env=self._environment, stdout=file, stderr=file)
        try:
            while process.poll() is None:
                if self._task.stop_requested:
                    raise Stopped
                if time.monotonic() > self._deadline:
                    raise TaskError(
                        "ligand_time_limit",
                        f"{self.what}: its charges took longer than the limit of {self._seconds:g} s",
                        remedy="give a smaller molecule or a relaxed structure, or register a force-field file",
                        loc=self.loc,
                    )
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                _end(process)
        return process.returncode, output.read_text(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.kill()
    except PermissionError:
        # Where the kernel cannot keep signals inside of a sandbox, it sends none. The service kills what a
        # worker leaves when that ends.
        return
    process.wait()


def has_tools() -> bool:
    """Whether the programs for ligands are installed; all else can be done without them."""
    return find_spec("mopactools") is not None and _amber_home() is not None


def _amber_home() -> Path | None:
    # Found, not imported: it is a program here, not a library.
    found = find_spec("acpype")
    if found is None or not found.submodule_search_locations:
        return None
    # The package of conda-forge is without them.
    home = Path(next(iter(found.submodule_search_locations))) / "amber_linux"
    return home if home.is_dir() else None


def _am1_bcc(programs: Programs, molecule: Chem.Mol) -> tuple[list[float], list[TaskWarning]]:
    """AM1-BCC charges by atom; leaves `typed.mol2` with GAFF2 types in the folder."""
    notes: list[TaskWarning] = []
    charges, positions = programs.am1(molecule, relax=True)
    stretched = _most_stretched(molecule, positions)
    if stretched:
        # Zwitterions pass their proton on in the gas phase.
        message = f"AM1 breaks the bond {stretched}; its charges are those of the file's geometry"
        notes.append(TaskWarning("ligand_not_relaxed", message))
        charges, _ = programs.am1(molecule, relax=False)
    ranks = np.array(Chem.CanonicalRankAtoms(molecule, breakTies=False))
    equal = [float(charges[ranks == rank].mean()) for rank in ranks]
    folder, charge = programs.folder, str(Chem.GetFormalCharge(molecule))
    (folder / "am1.charges").write_text("".join(f"{x:.6f}\n" for x in equal))
    _write_sdf(molecule, folder / "molecule.sdf")
    common = ("-rn", "LIG", "-pf", "n", "-dr", "n", "-s", "2", "-nc", charge)
    files = ("-i", "molecule.sdf", "-fi", "sdf", "-o", "am1.ac", "-fo", "ac")
    programs.run("antechamber", *files, "-at", "bcc", "-j", "4", "-c", "rc", "-cf", "am1.charges", *common)
    corrections = str(programs.home / "dat/antechamber/BCCPARM.DAT")
    programs.run("am1bcc", "-i", "am1.ac", "-o", "bcc.ac", "-f", "ac", "-p", corrections, "-s", "2", "-j", "4")
    files = ("-i", "bcc.ac", "-fi", "ac", "-o", "typed.mol2", "-fo", "mol2")
    programs.run("antechamber", *files, "-at", "gaff2", "-j", "4", *common)
    return [atom[2] for atom in _mol2_atoms(folder / "typed.mol2")], notes


def _write_sdf(molecule: Chem.Mol, path: Path) -> None:
    copy = Chem.Mol(molecule)
    Chem.Kekulize(copy, clearAromaticFlags=True)
    path.write_text(Chem.MolToMolBlock(copy, kekulize=False) + "$$$$\n")


def _most_stretched(molecule: Chem.Mol, relaxed: NDArray[np.float64]) -> str | None:
    """The bond that relaxing has broken, or None."""
    before = molecule.GetConformer().GetPositions()
    for bond in molecule.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        length, was = (float(np.linalg.norm(x[i] - x[j])) for x in (relaxed, before))
        if length > was + MAX_STRETCH:
            return f"{bond.GetBeginAtom().GetSymbol()}-{bond.GetEndAtom().GetSymbol()}"
    return None


def _mol2_atoms(path: Path) -> list[tuple[str, str, float]]:
    """Name, type and charge of each atom."""
    section, atoms = "", []
    for line in path.read_text().splitlines():
        if line.startswith("@<TRIPOS>"):
            section = line.strip()[9:]
        elif section == "ATOM" and line.split():
            fields = line.split()
            atoms.append((fields[1], fields[5], float(fields[8])))
    return atoms


def _frcmod(path: Path) -> dict[str, list[str]]:
    section, lines = "", dict[str, list[str]]((name, []) for name in SECTIONS)
    for line in path.read_text().splitlines():
        if line.strip() in SECTIONS:
            section = line.strip()
        elif section and line.strip():
            lines[section].append(line)
    return lines


def _terms(lines: list[str], n_types: int) -> Iterator[tuple[list[str], list[float], str]]:
    """Types, numbers and comment of each line; types take two columns and are joined by hyphens."""
    for line in lines:
        end = 3 * n_types - 1
        types = [line[3 * i : 3 * i + 2].strip() for i in range(n_types)]
        numbers = []
        for word in line[end:].split():
            try:
                numbers.append(float(word))
            except ValueError:
                break
        yield types, numbers, line[end:]


def _force_field(molecule: Chem.Mol, charges: list[float], folder: Path, name: str) -> tuple[str, list[str]]:
    """The parameters as an OpenMM force field, and the terms that GAFF2 had to guess."""
    types = [atom[1] for atom in _mol2_atoms(folder / "typed.mol2")]
    terms = _frcmod(folder / "all.frcmod")
    guessed = []
    total = Chem.GetFormalCharge(molecule)
    error = total - sum(charges)
    assert abs(error) < MAX_CHARGE_ERROR, f"charges of {name} sum to {sum(charges)}, not {total}"

    def cls(gaff: str) -> str:
        return "" if gaff == "X" else f"{name}-{gaff}"

    def add(parent: ElementTree.Element, tag: str, **attributes: Any) -> ElementTree.Element:
        return ElementTree.SubElement(parent, tag, {key: str(value) for key, value in attributes.items()})

    def classes(gaff: list[str]) -> dict[str, str]:
        return {f"class{i + 1}": cls(one) for i, one in enumerate(gaff)}

    def note(kind: str, gaff: list[str], comment: str) -> None:
        if "ATTN" in comment:
            guessed.append(f"{kind} {'-'.join(gaff)}")

    root = ElementTree.Element("ForceField")
    section = add(root, "AtomTypes")
    masses = {line.split()[0]: float(line.split()[1]) for line in terms["MASS"]}
    elements = {one: atom.GetSymbol() for one, atom in zip(types, molecule.GetAtoms(), strict=True)}
    for one in sorted(elements):
        type_name = cls(one)
        attributes = {"name": type_name, "class": type_name, "element": elements[one], "mass": masses[one]}
        add(section, "Type", **attributes)
    template = add(add(root, "Residues"), "Residue", name=name)
    for index, one in enumerate(types):
        # Rounding errors are spread over all atoms.
        add(template, "Atom", name=f"A{index}", type=cls(one), charge=f"{charges[index] + error / len(types):.8f}")
    for bond in molecule.GetBonds():
        ends = {"atomName1": f"A{bond.GetBeginAtomIdx()}", "atomName2": f"A{bond.GetEndAtomIdx()}"}
        add(template, "Bond", **ends)

    section = add(root, "HarmonicBondForce")
    for gaff, (k, length, *_), comment in _terms(terms["BOND"], 2):
        note("bond", gaff, comment)
        add(section, "Bond", **classes(gaff), length=f"{length / 10:.6f}", k=f"{2 * k * KCAL * 100:.6f}")
    section = add(root, "HarmonicAngleForce")
    for gaff, (k, angle, *_), comment in _terms(terms["ANGLE"], 3):
        note("angle", gaff, comment)
        add(section, "Angle", **classes(gaff), angle=f"{math.radians(angle):.9f}", k=f"{2 * k * KCAL:.6f}")
    section = add(root, "PeriodicTorsionForce", ordering="amber")
    series: dict[str, str] = {}
    for gaff, (divider, k, phase, period, *_), comment in _terms(terms["DIHE"], 4):
        note("torsion", gaff, comment)
        term = len(series) // 3 + 1
        series |= {
            f"periodicity{term}": str(abs(int(period))),
            f"phase{term}": f"{math.radians(phase):.9f}",
            f"k{term}": f"{k / divider * KCAL:.6f}",
        }
        # A negative period means that the torsion has a further term.
        if period > 0:
            add(section, "Proper", **classes(gaff), **series)
            series = {}
    for (a, b, centre, d), (k, phase, period, *_), _comment in _terms(terms["IMPROPER"], 4):
        values = {"periodicity1": abs(int(period)), "phase1": f"{math.radians(phase):.9f}", "k1": f"{k * KCAL:.6f}"}
        add(section, "Improper", **classes([centre, a, b, d]), **values)
    section = add(root, "NonbondedForce", coulomb14scale="0.8333333333333334", lj14scale="0.5")
    add(section, "UseAttributeFromResidue", name="charge")
    for line in terms["NONBON"]:
        gaff_type, radius, epsilon = line.split()[:3]
        if gaff_type in elements:
            sigma = float(radius) * 2 ** (5 / 6) / 10
            add(section, "Atom", type=cls(gaff_type), sigma=f"{sigma:.9f}", epsilon=f"{float(epsilon) * KCAL:.6f}")
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode"), guessed
