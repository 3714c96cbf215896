"""CHARMM force fields at the speed of Amber's.

OpenMM tries every patch of CHARMM on each of 419 templates in every `createSystem` (24 s and 2.4 GB),
and makes of Lennard-Jones a tabulated function of two types (46 times as slow on a CPU as its own).
Templates that cannot occur need no patches, and all pairs but those of NBFIX follow the combination
rule, which `NonbondedForce` knows.
"""

from __future__ import annotations

import math
from collections import Counter

import openmm
from openmm import app, unit

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
# Two coefficients are the same when rounding alone distinguishes them.
SAME = 1e-6


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


def merge_caps(prepared: Prepared) -> None:
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
                names = {} if part is residue else CAP_ATOMS[part.name]
                for atom in part.atoms():
                    atoms[atom] = topology.addAtom(names.get(atom.name, atom.name), atom.element, new)
    for a, b in modeller.topology.bonds():
        topology.addBond(atoms[a], atoms[b])
    positions = modeller.positions.value_in_unit(unit.nanometer)
    modeller.topology = topology
    modeller.positions = [positions[atom.index] for atom in atoms] * unit.nanometer
    account = prepared.account
    gone = {(cap.chain.id, cap.id, cap.insertionCode) for cap in carriers}
    account.identities = Counter({key: n for key, n in account.identities.items() if key not in gone})
    account.joined = {pair for pair in account.joined if not pair & gone}
    prepared.forget({cap.index for cap in carriers})


def _carriers(topology: app.Topology) -> dict[app.topology.Residue, app.topology.Residue]:
    """The residue that each cap is bonded to."""
    carriers = {}
    for pair in topology.bonds():
        for atom, other in (pair, pair[::-1]):
            if atom.residue.name in CAP_ATOMS and other.residue.name not in CAP_ATOMS:
                carriers[atom.residue] = other.residue
    return carriers


def simplify(system: openmm.System) -> int:
    """Put Lennard-Jones into `NonbondedForce`; returns how many pairs of types NBFIX sets apart.

    Cutoff and exclusions stay. The long-range dispersion correction takes the combination rule for
    the pairs of NBFIX too: -0.014 of -48,853 kJ/mol for crambin in salt water.
    """
    index = next((i for i, force in enumerate(system.getForces()) if force.getName() == "LennardJones"), None)
    if index is None:
        return 0
    tabulated = system.getForce(index)
    plain = next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    n_types, _, a = tabulated.getTabulatedFunction(0).getFunctionParameters()
    b = tabulated.getTabulatedFunction(1).getFunctionParameters()[2]
    types = [int(tabulated.getParticleParameters(i)[0]) for i in range(tabulated.getNumParticles())]
    used = sorted(set(types))
    own = {t: _sigma_epsilon(a[t * (n_types + 1)], b[t * (n_types + 1)]) for t in used}
    nbfix: dict[tuple[int, int], tuple[float, float]] = {}
    for i, first in enumerate(used):
        for second in used[i:]:
            sigma = (own[first][0] + own[second][0]) / 2
            epsilon = math.sqrt(own[first][1] * own[second][1])
            at = first + n_types * second
            rule = 4 * epsilon * sigma**12, 4 * epsilon * sigma**6
            if not all(
                math.isclose(x, y, rel_tol=SAME, abs_tol=1e-18) for x, y in zip(rule, (a[at], b[at]), strict=True)
            ):
                nbfix[first, second] = (a[at] - rule[0], b[at] - rule[1])
    for particle, t in enumerate(types):
        charge, _, _ = plain.getParticleParameters(particle)
        plain.setParticleParameters(particle, charge, *own[t])
    plain.setUseDispersionCorrection(tabulated.getUseLongRangeCorrection())
    if nbfix:
        system.addForce(_correction(tabulated, types, nbfix))
    system.removeForce(index)
    return len(nbfix)


def _sigma_epsilon(a: float, b: float) -> tuple[float, float]:
    # Without depth, the size does not matter.
    return ((a / b) ** (1 / 6), b * b / (4 * a)) if a and b else (0.1, 0.0)


def _correction(
    tabulated: openmm.CustomNonbondedForce, types: list[int], nbfix: dict[tuple[int, int], tuple[float, float]]
) -> openmm.CustomNonbondedForce:
    """What NBFIX adds to the combination rule, for the few atoms that it concerns."""
    concerned = sorted({t for pair in nbfix for t in pair})
    # Row 0 is for all other types.
    row = {t: i + 1 for i, t in enumerate(concerned)}
    n = len(concerned) + 1
    tables = [[0.0] * (n * n), [0.0] * (n * n)]
    for (first, second), differences in nbfix.items():
        for table, difference in zip(tables, differences, strict=True):
            table[row[first] + n * row[second]] = table[row[second] + n * row[first]] = difference
    force = openmm.CustomNonbondedForce("a(type1, type2)/r^12 - b(type1, type2)/r^6")
    force.setName("NBFIX")
    for name, table in zip("ab", tables, strict=True):
        force.addTabulatedFunction(name, openmm.Discrete2DFunction(n, n, table))
    force.addPerParticleParameter("type")
    for t in types:
        force.addParticle([row.get(t, 0)])
    for i in range(tabulated.getNumExclusions()):
        force.addExclusion(*tabulated.getExclusionParticles(i))
    force.setNonbondedMethod(tabulated.getNonbondedMethod())
    force.setCutoffDistance(tabulated.getCutoffDistance())
    force.setUseLongRangeCorrection(False)
    members: dict[int, list[int]] = {t: [] for t in concerned}
    for particle, t in enumerate(types):
        if t in members:
            members[t].append(particle)
    for first, second in nbfix:
        force.addInteractionGroup(members[first], members[second])
    return force
