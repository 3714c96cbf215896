"""Ligands: from a file and a pose to a residue beside the structure.

Formats differ in what they hold. SDF, MOL and MOL2 have bond orders and charges, and hydrogens that
they lack are added by valence. PDB has neither, so it needs all hydrogens, and bond orders and charge
are worked out from the geometry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openmm import app, unit
from rdkit import Chem, rdBase
from rdkit.Chem import rdDetermineBonds

from molbox_worker import force_field, gaff
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import called
from molbox_worker.plan import BuildPlan, BuildTask, LigandFile
from molbox_worker.prepared import Prepared
from molbox_worker.result import TaskError
from molbox_worker.topology import WATER, is_common_name

# Atoms that are nearer than this are in the same place, those of crystal water in the ligand's.
CLASH_NM = 0.10
WATER_CLASH_NM = 0.24
# A ligand further from the structure than this was probably forgotten to be placed.
FAR_NM = 3.0
# What is before or after each molecule of a file with several.
SEPARATORS = {"sdf": "$$$$", "mol2": "@<TRIPOS>MOLECULE"}
# A line of an atom whose type is GAFF's: lower case, beginning with the element.
GAFF_TYPE = re.compile(r"^(\s*\d+\s+\S+(?:\s+-?\d+\.\d+){3}\s+)(cl|br|[chnospfi])[a-z0-9*+-]*(?=\s)", re.MULTILINE)
# Charges that are tried for a PDB file, whose bonds follow from it.
PDB_CHARGES = (0, 1, -1, 2, -2)

# What it logs is asked for again and reported in the error.
rdBase.DisableLog("rdApp.*")


@dataclass(frozen=True)
class Ligand:
    """A ligand in place.

    Attributes
    ----------
    index
        Its place in the request, from 0.
    what
        Name for its owner, for example ``ligand 1 (xylene.sdf)``.
    molecule
        All atoms, hydrogens included, with the conformer as read.
    positions_nm : array, shape (n, 3)
        Positions after rotation and translation.

    """

    index: int
    what: str
    residue_name: str
    molecule: Chem.Mol
    positions_nm: NDArray[np.float64]

    def loc(self, field: str = "ligands") -> list[str | int]:
        """Path of the request field that concerns it."""
        return ["body", field, self.index]

    def topology(self) -> app.Topology:
        """A topology with its one residue."""
        topology = app.Topology()
        residue = topology.addResidue(self.residue_name, topology.addChain(id=" "))
        elements = [app.Element.getByAtomicNumber(atom.GetAtomicNum()) for atom in self.molecule.GetAtoms()]
        names = atom_names(self.molecule)
        atoms = [topology.addAtom(name, element, residue) for name, element in zip(names, elements, strict=True)]
        for bond in self.molecule.GetBonds():
            topology.addBond(atoms[bond.GetBeginAtomIdx()], atoms[bond.GetEndAtomIdx()])
        return topology


def read(task: TaskDirectory, plan: BuildPlan) -> list[Ligand]:
    """Read and place the ligands of a plan."""
    ligands = []
    for index, entry in enumerate(plan.ligands):
        what = f"ligand {index + 1} ({entry.name})"
        loc: list[str | int] = ["body", "ligands", index]
        name = entry.residue_name
        if is_common_name(name):
            raise TaskError(
                "ligand_name_taken",
                f"{what} cannot be called {name}: that is a residue of proteins, nucleic acids, lipids or solvent",
                remedy="choose another name",
                loc=["body", "ligand_residue_names", index],
            )
        molecule, n_molecules = _read(task.input(entry.file), entry.format, what, loc)
        if n_molecules > 1:
            task.warn("ligand_chosen", f"{what} has {n_molecules} molecules; the first was taken")
        molecule = _complete(task, molecule, what, loc)
        positions = _place(molecule, entry)
        ligands.append(Ligand(index, what, name, molecule, positions))
        task.log(f"{what} as {name}: {Chem.MolToSmiles(Chem.RemoveHs(molecule))}, {molecule.GetNumAtoms()} atoms")
    _same_name_same_molecule(ligands)
    return ligands


def _read(path: Path, file_format: str, what: str, loc: list[str | int]) -> tuple[Chem.Mol, int]:
    """The first molecule of a file, unsanitised for all but PDB, and how many there are."""
    text = path.read_text("utf-8-sig", errors="replace")
    if file_format == "mol2":
        # RDKit takes a comment for the end, and knows no atom types but Tripos'; antechamber writes GAFF's.
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
        text = GAFF_TYPE.sub(lambda match: match[1] + match[2].capitalize(), "".join(lines))
    first, n_molecules = _first(text, SEPARATORS.get(file_format))
    readers: dict[str, Callable[..., Chem.Mol | None]] = {
        "sdf": Chem.MolFromMolBlock,
        "mol": Chem.MolFromMolBlock,
        "mol2": Chem.MolFromMol2Block,
        "pdb": partial(Chem.MolFromPDBBlock, proximityBonding=False),
    }
    try:
        molecule = readers[file_format](first, removeHs=False, sanitize=False)
    except (RuntimeError, ValueError):
        molecule = None
    if molecule is None or molecule.GetNumAtoms() == 0:
        raise TaskError(
            "ligand_unreadable",
            f"{what} cannot be read as {file_format}, or has no atoms",
            remedy="check the file and its format" + (", with Tripos atom types" if file_format == "mol2" else ""),
            loc=loc,
        )
    if not np.isfinite(molecule.GetConformer().GetPositions()).all():
        raise TaskError("bad_coordinates", f"{what}: not all coordinates are numbers", loc=loc)
    if file_format == "pdb":
        molecule = _with_bonds(molecule, what, loc)
    return (_open(molecule) if file_format == "mol2" else molecule), n_molecules


def _open(molecule: Chem.Mol) -> Chem.Mol:
    """A molecule read from MOL2 with room for hydrogens, if its carbons lack them.

    RDKit takes what a MOL2 has for all: where a hydrogen is lacking, it sees a radical or an anion. With the
    hydrogens of the carbons there, that is right.
    """
    opened = Chem.Mol(molecule)
    for atom in opened.GetAtoms():
        kind = atom.GetProp("_TriposAtomType")
        # In a nitro group the next atom is positive.
        is_bare = not any(other.GetFormalCharge() > 0 for other in atom.GetNeighbors())
        if kind == "N.4":
            atom.SetFormalCharge(1)
        elif atom.GetFormalCharge() < 0 and kind != "O.co2" and is_bare:
            atom.SetFormalCharge(0)
        atom.SetNoImplicit(atom.GetAtomicNum() == 1)
    opened.UpdatePropertyCache(strict=False)
    lacks = any(atom.GetSymbol() == "C" and atom.GetNumImplicitHs() for atom in opened.GetAtoms())
    return opened if lacks else molecule


def _first(text: str, separator: str | None) -> tuple[str, int]:
    """The first molecule of a text, and how many it has; `separator` begins or ends each."""
    if separator is None:
        return text, 1
    parts = [part for part in re.split(rf"^{re.escape(separator)}.*\n?", text, flags=re.MULTILINE) if part.strip()]
    prefix = f"{separator}\n" if text.lstrip().startswith(separator) else ""
    return prefix + (parts[0] if parts else ""), len(parts)


def _with_bonds(molecule: Chem.Mol, what: str, loc: list[str | int]) -> Chem.Mol:
    """A molecule read from PDB, with bonds that fit its geometry and the smallest charge."""
    elements = {atom.GetSymbol() for atom in molecule.GetAtoms()}
    if "H" not in elements and "C" in elements:
        raise TaskError(
            "ligand_no_hydrogens",
            f"{what} has no hydrogens, so that its bond orders are unknown: PDB files do not hold them",
            remedy="register the ligand as SDF or MOL2, or add its hydrogens",
            loc=loc,
        )
    if "H" not in elements and molecule.GetNumAtoms() > 1:
        # Of sulfate, the smallest charge with closed shells is 0.
        raise TaskError(
            "ligand_bonds",
            f"{what} has no carbon and no hydrogens, so that its charge is unknown: PDB files do not hold it",
            remedy="register the ligand as SDF or MOL2, which hold bond orders and charges",
            loc=loc,
        )
    names = [atom.GetPDBResidueInfo().GetName().strip() for atom in molecule.GetAtoms()]
    bare = Chem.RWMol()
    for atom in molecule.GetAtoms():
        bare.AddAtom(Chem.Atom(atom.GetAtomicNum()))
    bare.AddConformer(Chem.Conformer(molecule.GetConformer()))
    for charge in PDB_CHARGES:
        candidate = Chem.Mol(bare)
        try:
            rdDetermineBonds.DetermineBonds(candidate, charge=charge, embedChiral=False)
        except (ValueError, RuntimeError):
            continue
        if not any(atom.GetNumRadicalElectrons() for atom in candidate.GetAtoms()):
            for atom, name in zip(candidate.GetAtoms(), names, strict=True):
                atom.SetProp("_TriposAtomName", name)
            return candidate
    raise TaskError(
        "ligand_bonds",
        f"{what}: no bond orders and charge fit its geometry",
        remedy="register the ligand as SDF or MOL2, which hold bond orders and charges",
        loc=loc,
    )


def _is_measured(molecule: Chem.Mol) -> bool:
    """Whether a molecule in the plane of the paper, as benzene may lie, has the lengths of real bonds.

    In a drawing all bonds are of one length, or hydrogens are left out.
    """
    if any(atom.GetNumImplicitHs() for atom in molecule.GetAtoms()):
        return False
    conformer = molecule.GetConformer()
    lengths: dict[bool, list[float]] = {True: [], False: []}
    for bond in molecule.GetBonds():
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        has_hydrogen = any(atom.GetAtomicNum() == 1 for atom in ends)
        between = conformer.GetAtomPosition(ends[0].GetIdx()) - conformer.GetAtomPosition(ends[1].GetIdx())
        lengths[has_hydrogen].append(between.Length())
    of_hydrogens, of_others = lengths[True], lengths[False]
    if not of_hydrogens or not of_others:
        return False
    is_shorter = np.mean(of_hydrogens) < 0.9 * np.mean(of_others)
    return bool(is_shorter and min(of_hydrogens) > 0.9 and max(of_hydrogens) < 1.5 and min(of_others) > 1.1)


def _complete(task: TaskDirectory, molecule: Chem.Mol, what: str, loc: list[str | int]) -> Chem.Mol:
    """Check a molecule as chemistry and add what hydrogens it lacks."""
    problems = [_in_the_files_numbers(problem) for problem in Chem.DetectChemistryProblems(molecule)]
    if problems:
        raise TaskError(
            "ligand_chemistry",
            f"{what}: {'; '.join(problems[:3])}",
            remedy="check bond orders and formal charges",
            loc=loc,
        )
    Chem.SanitizeMol(molecule)
    fragments = Chem.GetMolFrags(molecule)
    if len(fragments) > 1:
        sizes = ", ".join(str(len(fragment)) for fragment in fragments)
        raise TaskError(
            "ligand_fragments",
            f"{what} consists of {len(fragments)} molecules, of {sizes} atoms",
            remedy="give each molecule a file of its own, and leave counter-ions out",
            loc=loc,
        )
    positions = molecule.GetConformer().GetPositions()
    heavy = sum(atom.GetAtomicNum() > 1 for atom in molecule.GetAtoms())
    if _is_measured(molecule):
        molecule.GetConformer().Set3D(True)
    is_flat = not molecule.GetConformer().Is3D()
    if is_flat or (heavy > 1 and np.ptp(positions, axis=0).max() < 0.1):
        raise TaskError(
            "ligand_flat",
            f"{what} is a drawing: it has no coordinates in space",
            remedy="register it with a three-dimensional geometry, and all its hydrogens",
            loc=loc,
        )
    n_atoms = molecule.GetNumAtoms()
    molecule = Chem.AddHs(molecule, addCoords=True)
    added = molecule.GetNumAtoms() - n_atoms
    if added:
        charge = Chem.GetFormalCharge(molecule)
        message = f"{what}: {added} hydrogens added by valence, at charge {charge:+d}; its pKa was not considered"
        task.warn("ligand_hydrogens_added", message)
    radical = next((atom for atom in molecule.GetAtoms() if atom.GetNumRadicalElectrons()), None)
    if radical is not None:
        raise TaskError(
            "ligand_radical",
            f"{what}: atom {radical.GetIdx() + 1} ({radical.GetSymbol()}) has an unpaired electron",
            remedy="check its charge and hydrogens",
            loc=loc,
        )
    return molecule


def _in_the_files_numbers(problem: Any) -> str:
    """RDKit's words with atoms counted from 1, as files do."""
    text = str(problem.Message()).strip()
    if hasattr(problem, "GetAtomIdx"):
        text = text.replace(f"# {problem.GetAtomIdx()} ", f"{problem.GetAtomIdx() + 1} ")
    if hasattr(problem, "GetAtomIndices"):
        atoms = " ".join(str(i + 1) for i in problem.GetAtomIndices())
        text = f"aromatic bonds of atoms {atoms} cannot be drawn as single and double ones"
    return text


def atom_names(molecule: Chem.Mol) -> list[str]:
    """Names of the file where they are good and each is used once; else element and number."""
    given = [atom.GetProp("_TriposAtomName") if atom.HasProp("_TriposAtomName") else "" for atom in molecule.GetAtoms()]
    if len(set(given)) == len(given) and all(name.isalnum() and len(name) <= 4 for name in given):
        return given
    count: Counter[str] = Counter()
    names = []
    for atom in molecule.GetAtoms():
        symbol = atom.GetSymbol().upper()
        count[symbol] += 1
        names.append(f"{symbol}{count[symbol]}")
    return names


def _place(molecule: Chem.Mol, entry: LigandFile) -> NDArray[np.float64]:
    """Rotate a ligand about the mean of its heavy atoms, then move it; nm."""
    positions = np.asarray(molecule.GetConformer().GetPositions(), dtype=np.float64) / 10
    if entry.rotation:
        heavy = [atom.GetAtomicNum() > 1 for atom in molecule.GetAtoms()]
        centre = positions[heavy].mean(axis=0) if any(heavy) else positions.mean(axis=0)
        positions = (positions - centre) @ rotation_matrix(entry.rotation).T + centre
    if entry.translation:
        positions = positions + np.array(entry.translation, dtype=np.float64)
    return positions


def rotation_matrix(numbers: list[float]) -> NDArray[np.float64]:
    """Matrix of a rotation given as three angles, a quaternion, or nine elements by rows.

    Angles are in degrees, about the fixed axes x, then y, then z; a quaternion is (x, y, z, w) and
    need not have length one. That they are a rotation has been checked with the request.
    """
    values = np.array(numbers, dtype=np.float64)
    if len(values) == 3:
        (cx, cy, cz), (sx, sy, sz) = np.cos(np.radians(values)), np.sin(np.radians(values))
        about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
        about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
        return np.asarray(about_z @ about_y @ about_x)
    if len(values) == 4:
        # The squares of what is tiny or huge are no numbers.
        values /= np.abs(values).max()
        x, y, z, w = values / np.linalg.norm(values)
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
    return values.reshape(3, 3)


def _same_name_same_molecule(ligands: list[Ligand]) -> None:
    first: dict[str, Ligand] = {}
    for ligand in ligands:
        other = first.setdefault(ligand.residue_name, ligand)
        if graph(other.molecule) != graph(ligand.molecule):
            raise TaskError(
                "ligand_name_taken",
                f"{other.what} and {ligand.what} are different molecules, both called {ligand.residue_name}",
                remedy="give each a name of its own",
                loc=ligand.loc("ligand_residue_names"),
            )


def graph(molecule: Chem.Mol) -> str:
    """Elements and bonds without orders, charges and stereochemistry: what a force field distinguishes."""
    bare = Chem.RWMol()
    for atom in molecule.GetAtoms():
        copy = Chem.Atom(atom.GetAtomicNum())
        copy.SetNoImplicit(True)
        bare.AddAtom(copy)
    for bond in molecule.GetBonds():
        bare.AddBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), Chem.BondType.SINGLE)
    return str(Chem.MolToSmiles(bare))


def add(task: TaskDirectory, prepared: Prepared, ligands: list[Ligand]) -> None:
    """Put ligands into a structure. Water in their place goes; anything else there is an error."""
    modeller = prepared.modeller
    for ligand in ligands:
        if modeller.topology.getNumAtoms():
            _make_room(task, prepared, ligand)
        prepared.add(ligand.topology(), ligand.positions_nm)


def parametrise(task: TaskDirectory, spec: BuildTask, base: app.ForceField, ligands: list[Ligand]) -> app.ForceField:
    """The force field with parameters for the ligands that it does not know itself."""
    files: dict[str, Path] = {}
    for one in ligands:
        if not base.getUnmatchedResidues(one.topology()):
            task.log(f"{one.what}: the force field has parameters for it")
            continue
        if spec.plan.force_field.is_charmm:
            raise TaskError(
                "ligand_force_field",
                f"{one.what} has no parameters in {spec.plan.force_field.name}, and those that are made for ligands,"
                " GAFF2, go with Amber force fields only: the two scale 1-4 interactions differently",
                remedy="choose an Amber force field, or register a CHARMM force-field file for the ligand",
                loc=["body", "force_field"],
            )
        key = graph(one.molecule)
        if key in files:
            continue
        cache, seconds = Path(spec.cache), spec.ligand_seconds
        found = gaff.parametrise(task, cache, one.molecule, one.what, seconds, one.loc())
        for note in found.notes:
            task.warn(note.code, f"{one.what}: {note.message}")
        task.log(f"{one.what}: GAFF2 and AM1-BCC, charge {found.charge:+d}{', from the cache' * found.is_cached}")
        files[key] = task.output / f"{one.residue_name}.gaff2.xml"
        files[key].write_text(found.xml)
    return force_field.load(task, spec.plan, list(files.values())) if files else base


def _make_room(task: TaskDirectory, prepared: Prepared, ligand: Ligand) -> None:
    modeller = prepared.modeller
    heavy = [atom.GetAtomicNum() > 1 for atom in ligand.molecule.GetAtoms()]
    mine = ligand.positions_nm[heavy] if any(heavy) else ligand.positions_nm
    atoms = [atom for atom in modeller.topology.atoms() if atom.element not in (None, app.element.hydrogen)]
    everything = np.array(modeller.positions.value_in_unit(unit.nanometer))
    theirs = everything[[atom.index for atom in atoms]]
    nearest = np.array([np.linalg.norm(mine - place, axis=1).min() for place in theirs])
    in_the_way = [(atom, d) for atom, d in zip(atoms, nearest, strict=True) if atom.residue.name != WATER]
    if in_the_way:
        atom, distance = min(in_the_way, key=lambda pair: pair[1])
        place = f"{atom.name} of {atom.residue.name} {atom.residue.id} in chain {atom.residue.chain.id}"
        if distance < CLASH_NM:
            raise TaskError(
                "ligand_overlaps",
                f"{ligand.what} overlaps {place}: {distance:.3f} nm between atoms",
                remedy="move it with ligand_translations and ligand_rotations",
                loc=ligand.loc("ligand_translations"),
                residues=[called(atom.residue)],
            )
        if distance > FAR_NM:
            task.warn("ligand_far", f"{ligand.what} is {distance:.1f} nm away from the nearest other atom, {place}")
    waters = {
        atom.residue
        for atom, d in zip(atoms, nearest, strict=True)
        if atom.residue.name == WATER and d < WATER_CLASH_NM
    }
    if waters:
        prepared.remove(waters)
        task.warn("water_removed", f"{len(waters)} crystal waters removed in the place of {ligand.what}")
