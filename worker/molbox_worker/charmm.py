"""CHARMM force fields at the speed of Amber's, as far as templates are concerned.

OpenMM tries every patch of CHARMM on each of 419 templates in every `createSystem` (24 s and 2.4 GB).
Templates that cannot occur need no patches.
"""

from __future__ import annotations

from collections import Counter

from openmm import app, unit
from openmm.app import forcefield
from openmm.app.internal import compiled

from molbox_worker import names
from molbox_worker.prepared import Prepared

AMINO_ACIDS = frozenset(
    "ALA ARG ASN ASP CYS GLN GLU GLY HSD HSE HSP ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL".split()  # noqa: SIM905
)
BASES = frozenset({"ADE", "CYT", "GUA", "THY", "URA"})
NUCLEOTIDES = frozenset({"A", "C", "G", "U", "DA", "DC", "DG", "DT"})
# Of a nucleotide: its ends, and deoxyribose. The others make modified ones, which preparation replaces;
# methylated deoxyuridine would be thymidine again.
NUCLEIC_PATCHES = ("5TER", "5MET", "5PHO", "5POM", "3TER", "3PHO", "3PO3", "3POM", "DEO", "MET2")
# CHARMM's names of the atoms of caps, by OpenMM's.
CAP_ATOMS = {
    "ACE": {"CH3": "CAY", "C": "CY", "O": "OY", "H1": "HY1", "H2": "HY2", "H3": "HY3"},
    "NME": {"N": "NT", "H": "HNT", "C": "CAT", "H1": "HT1", "H2": "HT2", "H3": "HT3"},
    "NH2": {"N": "NT", "HN1": "HT1", "HN2": "HT2"},
}


def prune(force_field: app.ForceField, topology: app.Topology) -> None:
    """Forget the patches of residues that the structure does not have."""
    names = {residue.name for residue in topology.residues()}
    if names & NUCLEOTIDES:
        names |= BASES
    if not names <= NUCLEOTIDES | BASES:
        names |= AMINO_ACIDS
    force_field._templatePatches = {
        name: {patch for patch in which if name not in BASES or patch[0].startswith(NUCLEIC_PATCHES)}
        for name, which in force_field._templatePatches.items()
        if name in names
    }


def merge_caps(prepared: Prepared, force_field: app.ForceField) -> None:
    """Make caps parts of the residues that they are bonded to: CHARMM patches these."""
    modeller = prepared.modeller
    carriers = _carriers(modeller.topology)
    if not carriers:
        return
    topology = app.Topology()
    atoms: dict[app.topology.Atom, app.topology.Atom] = {}
    for chain in modeller.topology.chains():
        copy = topology.addChain(chain.id)
        for residue in chain.residues():
            if residue in carriers:
                continue
            parts = [cap for cap, carrier in carriers.items() if carrier is residue] + [residue]
            new = topology.addResidue(residue.name, copy, residue.id, residue.insertionCode)
            for part in sorted(parts, key=lambda part: part.index):
                renamed = {} if part is residue else CAP_ATOMS[part.name]
                for atom in part.atoms():
                    atoms[atom] = topology.addAtom(renamed.get(atom.name, atom.name), atom.element, new)
    for a, b in modeller.topology.bonds():
        topology.addBond(atoms[a], atoms[b])
    positions = modeller.positions.value_in_unit(unit.nanometer)
    capped = set(carriers.values())
    amino_acids = {atoms[next(each.atoms())].residue.index for each in capped if each.name in names.AMINO_ACIDS}
    _forget_dipeptides(force_field, topology, amino_acids)
    modeller.topology = topology
    modeller.positions = [positions[atom.index] for atom in atoms] * unit.nanometer
    account = prepared.account
    gone = {(cap.chain.id, cap.id, cap.insertionCode) for cap in carriers}
    account.identities = Counter({key: n for key, n in account.identities.items() if key not in gone})
    account.joined = {pair for pair in account.joined if not pair & gone}
    prepared.forget({cap.index for cap in carriers})


def _forget_dipeptides(force_field: app.ForceField, topology: app.Topology, indices: set[int]) -> None:
    """Forget templates of whole molecules that these amino acids with their caps are, too.

    OpenMM tries patches only where no template fits. Of alanine between ACE and NME it finds two in charmm36 (ALAD,
    AANM); of proline it finds one (PDIP) whose types are those of small molecules, without CMAP.
    """
    bonded: list[set[int]] = [set() for _ in topology.atoms()]
    for a, b in topology.bonds():
        bonded[a.index].add(b.index)
        bonded[b.index].add(a.index)
    for residue in topology.residues():
        if residue.index not in indices:
            continue
        signature = forcefield._createResidueSignature([atom.element for atom in residue.atoms()])
        for template in [*force_field._templateSignatures.get(signature, [])]:
            if compiled.matchResidueToTemplate(residue, template, bonded, False, True) is not None:
                force_field._templateSignatures[signature].remove(template)
                del force_field._templates[template.name]


def _carriers(topology: app.Topology) -> dict[app.topology.Residue, app.topology.Residue]:
    """The residue that each cap is bonded to."""
    carriers = {}
    for pair in topology.bonds():
        for atom, other in (pair, pair[::-1]):
            if atom.residue.name in CAP_ATOMS and other.residue.name not in CAP_ATOMS:
                carriers[atom.residue] = other.residue
    return carriers
