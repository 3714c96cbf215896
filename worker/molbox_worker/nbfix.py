"""Lennard-Jones with pairs of its own (NBFIX), at the speed of Lennard-Jones without.

OpenMM makes of it a tabulated function of two types, 46 times as slow on a CPU as its own. All pairs but
those of NBFIX follow the combination rule, which `NonbondedForce` knows.
"""

from __future__ import annotations

import math

import openmm

# As the files of CHARMM have it, and as the loaders of CHARMM, GROMACS and Amber do, with the root of the first table.
PLAIN = "acoef(type1,type2)/r^12-bcoef(type1,type2)/r^6"
ROOTED = "(a/r6)^2-b/r6;r6=r^6;a=acoef(type1,type2);b=bcoef(type1,type2)"
NAME = "NBFIX"
CORRECTION = "a(type1,type2)/r^12-b(type1,type2)/r^6"
# Two coefficients are the same when rounding alone distinguishes them.
SAME = 1e-6

Pairs = dict[tuple[int, int], tuple[float, float]]


def formula(force: openmm.CustomNonbondedForce) -> str:
    """The energy of a force without what does not matter in its text."""
    text: str = force.getEnergyFunction()
    return text.replace(" ", "").rstrip(";")


def simplify(system: openmm.System) -> int:
    """Put Lennard-Jones into `NonbondedForce`; returns how many pairs of types NBFIX sets apart.

    Cutoff, switch and exclusions stay. A table that mostly follows another rule stays as it is.
    """
    plain = next((force for force in system.getForces() if isinstance(force, openmm.NonbondedForce)), None)
    index = next((i for i, force in enumerate(system.getForces()) if _is_table_of(force, plain)), None)
    if plain is None or index is None:
        return 0
    tabulated = system.getForce(index)
    n_types, a, b = _tables(tabulated)
    types = [int(tabulated.getParticleParameters(i)[0]) for i in range(tabulated.getNumParticles())]
    used = sorted(set(types))
    own = {t: _sigma_epsilon(a[t * (n_types + 1)], b[t * (n_types + 1)]) for t in used}
    nbfix: Pairs = {}
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
    if 4 * len(nbfix) > len(used) * (len(used) + 1):
        return 0
    for particle, t in enumerate(types):
        charge, _, _ = plain.getParticleParameters(particle)
        plain.setParticleParameters(particle, charge, *own[t])
    plain.setUseDispersionCorrection(tabulated.getUseLongRangeCorrection())
    plain.setUseSwitchingFunction(tabulated.getUseSwitchingFunction())
    plain.setSwitchingDistance(tabulated.getSwitchingDistance())
    if nbfix:
        system.addForce(_correction(tabulated, types, nbfix))
    system.removeForce(index)
    return len(nbfix)


def _is_table_of(force: openmm.Force, plain: openmm.NonbondedForce | None) -> bool:
    """Whether a force is all of Lennard-Jones, but for exceptions, beside the charges of another."""
    if plain is None or not isinstance(force, openmm.CustomNonbondedForce) or formula(force) not in {PLAIN, ROOTED}:
        return False
    excluded = {frozenset(force.getExclusionParticles(i)) for i in range(force.getNumExclusions())}
    return (
        force.getNumInteractionGroups() == 0
        and force.getNumTabulatedFunctions() == 2
        and all(plain.getParticleParameters(i)[2]._value == 0 for i in range(plain.getNumParticles()))
        and excluded == {frozenset(plain.getExceptionParameters(i)[:2]) for i in range(plain.getNumExceptions())}
    )


def _tables(force: openmm.CustomNonbondedForce) -> tuple[int, list[float], list[float]]:
    """The number of types, and the coefficients of r^-12 and r^-6 by two of them."""
    tables = {
        force.getTabulatedFunctionName(i): force.getTabulatedFunction(i).getFunctionParameters() for i in range(2)
    }
    n_types, _, a = tables["acoef"]
    return n_types, [x * x for x in a] if formula(force) == ROOTED else a, tables["bcoef"][2]


def _sigma_epsilon(a: float, b: float) -> tuple[float, float]:
    # Without depth, the size does not matter.
    return ((a / b) ** (1 / 6), b * b / (4 * a)) if a and b else (0.1, 0.0)


def _correction(tabulated: openmm.CustomNonbondedForce, types: list[int], nbfix: Pairs) -> openmm.CustomNonbondedForce:
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
    force.setName(NAME)
    for name, table in zip("ab", tables, strict=True):
        force.addTabulatedFunction(name, openmm.Discrete2DFunction(n, n, table))
    force.addPerParticleParameter("type")
    for t in types:
        force.addParticle([row.get(t, 0)])
    for i in range(tabulated.getNumExclusions()):
        force.addExclusion(*tabulated.getExclusionParticles(i))
    force.setNonbondedMethod(tabulated.getNonbondedMethod())
    force.setCutoffDistance(tabulated.getCutoffDistance())
    force.setUseSwitchingFunction(tabulated.getUseSwitchingFunction())
    force.setSwitchingDistance(tabulated.getSwitchingDistance())
    force.setUseLongRangeCorrection(tabulated.getUseLongRangeCorrection())
    members: dict[int, list[int]] = {t: [] for t in concerned}
    for particle, t in enumerate(types):
        if t in members:
            members[t].append(particle)
    for first, second in nbfix:
        force.addInteractionGroup(members[first], members[second])
    return force
