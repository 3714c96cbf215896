"""The terms of a System in the functions and units of GROMACS.

Nothing is approximated: what has no exact twin is `Unsupported`. Energies agree with OpenMM's to 1e-6 of
each term but for the dispersion correction, which GROMACS averages without excluded pairs (2e-3 of it).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import openmm
from numpy.typing import NDArray

from molbox_worker import nbfix

DEGREES = 180 / math.pi
# Without depth, the size does not matter.
NO_SIZE = 0.1
# Points of a map along an angle.
SMALLEST_MAP = 24
# Two lengths of a constraint, in nm, or two ratios that rounding alone distinguishes.
SAME = 1e-9

# Torsions that are harmonic about an angle, as OpenMM's files and its loaders of CHARMM, Amber and GROMACS spell them,
# and the share of k in GROMACS's force constant.
PI = r"3\.14159\d*"
HARMONIC_TORSIONS = {
    rf"k\*\(?min\(dtheta,2\*(pi|{PI})-dtheta\)\)?\^2;dtheta=abs\(theta-theta0\)(;pi={PI})?": 2,
    r"0\.5\*k\*\(thetap-theta0\)\^2;thetap=step\(-\(theta-theta0\+pi\)\)\*2\*pi\+theta\+step\(theta-theta0-pi\)"
    rf"\*\(-2\*pi\);pi={PI}": 1,
}
PLAIN_TORSION = "k*(theta-theta0)^2"
LENNARD_JONES_14 = r"([0-9.e+-]+)\*epsilon\*\(\(sigma/r\)\^12-\(sigma/r\)\^6\)"
# Lennard-Jones whose coefficients are geometric means, as in OPLS, and what is left of it three bonds apart.
GEOMETRIC = "A1*A2/r^12-C1*C2/r^6"
GEOMETRIC_14 = "-C/r^6+A/r^12"
RESTRAINT = "0.5*k_restraint*periodicdistance(x,y,z,x0,y0,z0)^2"
# What an .mdp says, not the topology.
ELSEWHERE = {"CMMotionRemover", "MonteCarloBarostat", "MonteCarloMembraneBarostat"}

# GROMACS's number of geometric means for both sigma and epsilon.
GEOMETRIC_RULE = 3

Atoms = tuple[int, ...]
Values = tuple[float, ...]
Pair = tuple[int, int]
# Sigma, nm, epsilon, kJ/mol, and row of NBFIX.
LennardJones = tuple[float, float, int]


class Unsupported(Exception):
    """The System has something that GROMACS cannot calculate exactly as OpenMM does; `remedy` helps besides OpenMM."""

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.remedy = remedy


@dataclass(frozen=True)
class DirectSpace:
    """Where what is not bonded is cut off and Lennard-Jones switched, nm; whether what is beyond is corrected for."""

    cutoff: float
    switch: float | None
    has_correction: bool


class Terms:
    """The terms of a System, with the atoms' indices in it; lists of numbers have one for each particle.

    In Da, e, nm and kJ/mol. `lines` has atoms, function and parameters by section of the topology, `rule`
    GROMACS's number of how sigma and epsilon make those of a pair, `fudge` the factor of charges three bonds
    apart. By `labels` bonded types tell apart the maps of CMAP, `map_of_types` has which belongs to five of
    them. `nbfix` has what pairs of `nbfix_rows` add to c12 and c6.
    """

    def __init__(self, system: openmm.System) -> None:
        self.n_atoms: int = system.getNumParticles()
        self.masses: list[float] = [system.getParticleMass(i)._value for i in range(self.n_atoms)]
        self.is_site: list[bool] = [system.isVirtualSite(i) for i in range(self.n_atoms)]
        self.charges: list[float] = []
        self.sigmas: list[float] = []
        self.epsilons: list[float] = []
        self.lines: dict[str, list[tuple[Atoms, Values]]] = defaultdict(list)
        self.direct: DirectSpace | None = None
        self.rule = 2
        self.fudge = 1.0
        self.maps: list[list[float]] = []
        self.map_of_types: dict[tuple[str, ...], int] = {}
        self.labels = ["A"] * self.n_atoms
        self.nbfix_rows: list[int] | None = None
        self.nbfix: dict[Pair, tuple[float, float]] = {}
        self.removes_drift = False
        self._map_terms: list[tuple[int, Atoms]] = []
        self._exceptions: dict[Pair, Values] = {}
        self._pairs_14: dict[Pair, Values] = {}
        self._custom: openmm.CustomNonbondedForce | None = None
        readers = {
            "HarmonicBondForce": self._bonds,
            "HarmonicAngleForce": self._angles,
            "PeriodicTorsionForce": self._torsions,
            "RBTorsionForce": self._rb_torsions,
            "CustomTorsionForce": self._harmonic_torsions,
            "CMAPTorsionForce": self._cmap,
            "NonbondedForce": self._nonbonded,
            "CustomBondForce": self._lennard_jones_14,
            "CustomNonbondedForce": self._lennard_jones,
            "CustomExternalForce": self._restraints,
        }
        for force in system.getForces():
            kind = type(force).__name__
            if kind in readers:
                readers[kind](force)
            elif kind not in ELSEWHERE:
                raise Unsupported(f"the force {force.getName()} ({kind})")
            self.removes_drift |= kind == "CMMotionRemover"
        if self.direct is None:
            raise Unsupported("a system without charges and Lennard-Jones")
        if self._custom is not None:
            self._read_custom(self._custom)
        if self.direct.switch == 0 and self.direct.has_correction:
            raise Unsupported("Lennard-Jones that is switched off from the first and corrected beyond the cutoff")
        self._write_pairs()
        self._constraints(system)
        self._sites(system)
        self._label()

    def lennard_jones(self) -> list[LennardJones]:
        """What each particle has of it."""
        return list(zip(self.sigmas, self.epsilons, self.nbfix_rows or [0] * self.n_atoms, strict=True))

    def pair(self, first: LennardJones, second: LennardJones) -> tuple[float, float]:
        """Coefficients c6 and c12 of a pair."""
        (sigma, epsilon, row), (other_sigma, other_epsilon, other_row) = first, second
        size = math.sqrt(sigma * other_sigma) if self.rule == GEOMETRIC_RULE else (sigma + other_sigma) / 2
        depth = math.sqrt(epsilon * other_epsilon)
        more_c12, more_c6 = self.nbfix.get(_pair(row, other_row), (0.0, 0.0))
        return 4 * depth * size**6 + more_c6, 4 * depth * size**12 + more_c12

    def energy_at(self, distance: float) -> float:
        """Lennard-Jones of all with all, each at a distance (nm) from each, kJ/mol; pairs count twice."""
        counts = Counter(self.lennard_jones())
        total = 0.0
        for first, n_first in counts.items():
            for second, n_second in counts.items():
                c6, c12 = self.pair(first, second)
                total += n_first * n_second * (c12 / distance**12 - c6 / distance**6)
        return total

    def _bonds(self, force: openmm.HarmonicBondForce) -> None:
        for i in range(force.getNumBonds()):
            a, b, length, k = force.getBondParameters(i)
            if k._value:
                # Harmonic as any bond, but no bond of chemistry to GROMACS: Urey-Bradley is among them.
                self.lines["bonds"].append(((a, b), (6, length._value, k._value)))

    def _angles(self, force: openmm.HarmonicAngleForce) -> None:
        for i in range(force.getNumAngles()):
            a, b, c, angle, k = force.getAngleParameters(i)
            if k._value:
                self.lines["angles"].append(((a, b, c), (1, angle._value * DEGREES, k._value)))

    def _torsions(self, force: openmm.PeriodicTorsionForce) -> None:
        for i in range(force.getNumTorsions()):
            *atoms, n, phase, k = force.getTorsionParameters(i)
            if k._value:
                self.lines["dihedrals"].append((tuple(atoms), (9, phase._value * DEGREES, k._value, n)))

    def _rb_torsions(self, force: openmm.RBTorsionForce) -> None:
        for i in range(force.getNumTorsions()):
            a, b, c, d, *coefficients = force.getTorsionParameters(i)
            self.lines["dihedrals"].append(((a, b, c, d), (3, *(each._value for each in coefficients))))

    def _harmonic_torsions(self, force: openmm.CustomTorsionForce) -> None:
        """Impropers of CHARMM and GROMACS."""
        text = _plain(force.getEnergyFunction())
        names = [force.getPerTorsionParameterName(i) for i in range(force.getNumPerTorsionParameters())]
        share = next((share for form, share in HARMONIC_TORSIONS.items() if re.fullmatch(form, text)), None)
        if not (share or text == PLAIN_TORSION) or set(names) != {"k", "theta0"}:
            raise Unsupported(f"torsions of the form {text}")
        for i in range(force.getNumTorsions()):
            *atoms, values = force.getTorsionParameters(i)
            k, theta0 = (values[names.index(name)] for name in ("k", "theta0"))
            # About zero it is periodic as it is.
            if not share and theta0:
                raise Unsupported(f"torsions of the form {text} that are not about zero")
            self.lines["dihedrals"].append((tuple(atoms), (2, theta0 * DEGREES, (share or 2) * k)))

    def _cmap(self, force: openmm.CMAPTorsionForce) -> None:
        first = len(self.maps)
        for i in range(force.getNumMaps()):
            size, energies = force.getMapParameters(i)
            grid = np.array([getattr(each, "_value", each) for each in energies]).reshape(size, size).T
            # GROMACS' splines end half a map away: exact to 1e-7 with 24 points, 1e-5 with 16.
            if size % 2 or size < SMALLEST_MAP or (self.maps and len(self.maps[0]) != size * size):
                raise Unsupported(f"maps of CMAP of several or odd sizes, or below {SMALLEST_MAP}")
            # OpenMM's map begins at 0 and its first angle is the fastest, GROMACS' at -180 with the second.
            self.maps.append(np.roll(grid, (size // 2, size // 2), (0, 1)).ravel().tolist())
        for i in range(force.getNumTorsions()):
            which, *atoms = force.getTorsionParameters(i)
            if atoms[1:4] != atoms[4:7]:
                raise Unsupported("a CMAP term of two torsions that do not share three atoms")
            self._map_terms.append((first + which, (*atoms[:4], atoms[7])))

    def _nonbonded(self, force: openmm.NonbondedForce) -> None:
        if self.direct is not None:
            raise Unsupported("charges in more than one force")
        if force.getNonbondedMethod() != openmm.NonbondedForce.PME:
            raise Unsupported("charges that are not summed by PME")
        if force.getNumParticleParameterOffsets() or force.getNumExceptionParameterOffsets():
            raise Unsupported("charges or Lennard-Jones that depend on a parameter")
        if not force.getIncludeDirectSpace():
            raise Unsupported("charges and Lennard-Jones without their direct space")
        for i in range(self.n_atoms):
            charge, sigma, epsilon = (each._value for each in force.getParticleParameters(i))
            self.charges.append(charge)
            self.sigmas.append(sigma if epsilon else NO_SIZE)
            self.epsilons.append(epsilon)
        for i in range(force.getNumExceptions()):
            a, b, product, sigma, epsilon = force.getExceptionParameters(i)
            self._exceptions[_pair(a, b)] = (product._value, sigma._value, epsilon._value)
        self.direct = DirectSpace(
            cutoff=force.getCutoffDistance()._value,
            switch=force.getSwitchingDistance()._value if force.getUseSwitchingFunction() else None,
            has_correction=force.getUseDispersionCorrection(),
        )

    def _lennard_jones_14(self, force: openmm.CustomBondForce) -> None:
        """Lennard-Jones between atoms three bonds apart, where it is a force of its own."""
        text = _plain(force.getEnergyFunction())
        names = [force.getPerBondParameterName(i) for i in range(force.getNumPerBondParameters())]
        factor = re.fullmatch(LENNARD_JONES_14, text)
        wanted = {"sigma", "epsilon"} if factor else {"A", "C"} if text == GEOMETRIC_14 else None
        if set(names) != wanted:
            raise Unsupported(f"bonds of the form {text}")
        for i in range(force.getNumBonds()):
            a, b, values = force.getBondParameters(i)
            found = dict(zip(names, values, strict=True))
            if factor:
                own = found["sigma"], found["epsilon"] * float(factor[1]) / 4
            else:
                own = sigma_epsilon(found["C"], found["A"])
            if _pair(a, b) in self._pairs_14:
                raise Unsupported("two Lennard-Jones terms of one pair")
            self._pairs_14[_pair(a, b)] = own

    def _lennard_jones(self, force: openmm.CustomNonbondedForce) -> None:
        if self._custom is not None or nbfix.formula(force) not in {nbfix.CORRECTION, GEOMETRIC}:
            raise Unsupported(f"the force {force.getName()}: {force.getEnergyFunction()}")
        self._custom = force

    def _read_custom(self, force: openmm.CustomNonbondedForce) -> None:
        """What a force has of Lennard-Jones beside that of the charges, which is read by now."""
        assert self.direct is not None
        switch = force.getSwitchingDistance()._value if force.getUseSwitchingFunction() else None
        own = DirectSpace(force.getCutoffDistance()._value, switch, force.getUseLongRangeCorrection())
        if {_pair(*force.getExclusionParticles(i)) for i in range(force.getNumExclusions())} != set(self._exceptions):
            raise Unsupported(f"the force {force.getName()} with other exclusions than those of the charges")
        if force.getNonbondedMethod() != openmm.CustomNonbondedForce.CutoffPeriodic:
            raise Unsupported(f"the force {force.getName()} without a cutoff in a periodic box")
        if own.cutoff != self.direct.cutoff:
            raise Unsupported(f"the force {force.getName()} with another cutoff than that of the charges")
        if nbfix.formula(force) == GEOMETRIC:
            self.direct = own
            self._geometric(force)
        elif switch != self.direct.switch:
            raise Unsupported("NBFIX with another switch than that of Lennard-Jones")
        elif own.has_correction != self.direct.has_correction:
            raise Unsupported("NBFIX with another correction beyond the cutoff than that of Lennard-Jones")
        else:
            self._nbfix(force)

    def _geometric(self, force: openmm.CustomNonbondedForce) -> None:
        """Lennard-Jones of roots of coefficients, which multiplied are those of pairs."""
        names = [force.getPerParticleParameterName(i) for i in range(force.getNumPerParticleParameters())]
        if set(names) != {"A", "C"} or any(self.epsilons) or force.getNumInteractionGroups():
            raise Unsupported(f"the force {force.getName()} beside other Lennard-Jones")
        self.rule = GEOMETRIC_RULE
        for i in range(self.n_atoms):
            found = dict(zip(names, force.getParticleParameters(i), strict=True))
            self.sigmas[i], self.epsilons[i] = sigma_epsilon(found["C"] ** 2, found["A"] ** 2)

    def _nbfix(self, force: openmm.CustomNonbondedForce) -> None:
        """The worker's own correction: what `nbfix.simplify` has left of a table of types."""
        rows = [int(force.getParticleParameters(i)[0]) for i in range(self.n_atoms)]
        members: dict[int, set[int]] = defaultdict(set)
        for i, row in enumerate(rows):
            members[row].add(i)
        a, b = (_table(force, i) for i in range(2))
        for i in range(force.getNumInteractionGroups()):
            first, second = force.getInteractionGroupParameters(i)
            pair = _pair(rows[first[0]], rows[second[0]])
            if [set(first), set(second)] != [members[rows[group[0]]] for group in (first, second)]:
                raise Unsupported("NBFIX between some atoms of a type")
            self.nbfix[pair] = (float(a[pair]), float(b[pair]))
        if not self.nbfix:
            raise Unsupported("NBFIX between all atoms")
        self.nbfix_rows = rows

    def _restraints(self, force: openmm.CustomExternalForce) -> None:
        text = _plain(force.getEnergyFunction())
        if text != RESTRAINT:
            raise Unsupported(f"a field of the form {text}")
        names = [force.getPerParticleParameterName(i) for i in range(force.getNumPerParticleParameters())]
        of_all = [force.getGlobalParameterName(i) for i in range(force.getNumGlobalParameters())]
        if of_all != ["k_restraint"] or names != ["x0", "y0", "z0"]:
            raise Unsupported("restraints with other parameters than those of a job")
        if self.lines["position_restraints"]:
            raise Unsupported("restraints by more than one force")
        k = force.getGlobalParameterDefaultValue(0)
        for i in range(force.getNumParticles()):
            self.lines["position_restraints"].append(((force.getParticleParameters(i)[0],), (1, k, k, k)))

    def _write_pairs(self) -> None:
        """Exceptions: none of them by the rule, and those that interact with what they have."""
        if not self._pairs_14.keys() <= self._exceptions.keys():
            raise Unsupported("Lennard-Jones of pairs that are not excluded")
        self.fudge = self._common_ratio()
        for (a, b), (product, *plain) in self._exceptions.items():
            self.lines["exclusions"].append(((a, b), ()))
            if (a, b) in self._pairs_14 and plain[1]:
                raise Unsupported("two Lennard-Jones terms of one pair")
            sigma, epsilon = self._pairs_14.get((a, b), plain)
            if not product and not epsilon:
                continue
            size = sigma if epsilon else NO_SIZE
            by_rule = self.fudge * self.charges[a] * self.charges[b]
            if math.isclose(product, by_rule, rel_tol=1e-8, abs_tol=1e-12):
                self.lines["pairs"].append(((a, b), (1, size, epsilon)))
            else:
                # The product as a factor and two charges of one.
                self.lines["pairs"].append(((a, b), (2, product, 1.0, 1.0, size, epsilon)))

    def _common_ratio(self) -> float:
        """The ratio that most products of charges of exceptions have to those of their atoms."""
        ratios = [
            product / (self.charges[a] * self.charges[b])
            for (a, b), (product, _, _) in self._exceptions.items()
            if product and self.charges[a] * self.charges[b]
        ]
        if not ratios:
            return 1.0
        common = Counter(round(ratio, 9) for ratio in ratios).most_common(1)[0][0]
        return float(np.median([ratio for ratio in ratios if abs(ratio - common) < SAME]))

    def _constraints(self, system: openmm.System) -> None:
        """Rigid water as such, and what else there is."""
        lengths: dict[int, dict[int, float]] = defaultdict(dict)
        for i in range(system.getNumConstraints()):
            a, b, length = system.getConstraintParameters(i)
            lengths[a][b] = lengths[b][a] = length._value
        waters = [first for first in sorted(lengths) if self._is_rigid_water(first, lengths)]
        for first in waters:
            self.lines["settles"].append(((first,), (1, lengths[first][first + 1], lengths[first + 1][first + 2])))
        # GROMACS moves all of it with the masses of the first.
        if len({(values, *self.masses[first : first + 3]) for (first,), values in self.lines["settles"]}) > 1:
            raise Unsupported("rigid water of more than one shape or mass")
        done = set(waters)
        rest = {a: others for a, others in lengths.items() if not {a, a - 1, a - 2} & done}
        if self._has_angle(rest):
            raise Unsupported("constraints of angles, which LINCS cannot hold")
        for a in sorted(rest):
            self.lines["constraints"] += [((a, b), (1, length)) for b, length in sorted(lengths[a].items()) if a < b]

    def _has_angle(self, lengths: dict[int, dict[int, float]]) -> bool:
        """Whether constraints are coupled by an angle that one of them holds.

        The expansion of LINCS does not converge where three are a triangle: water in another order than
        O, H, H was at 323 K for 300. Nor does it where an angle is held whose other side is a bond.
        """
        sides = {a: dict(others) for a, others in lengths.items()}
        for (a, b), (_, length, _) in self.lines["bonds"]:
            sides.setdefault(a, {}).setdefault(b, length)
            sides.setdefault(b, {}).setdefault(a, length)
        for a, others in lengths.items():
            for b, length in others.items():
                for corner in sides[a].keys() & sides[b].keys():
                    n_held = (corner in lengths.get(a, {})) + (corner in lengths.get(b, {}))
                    # Urey-Bradley terms are bonds too, opposite to a constraint that is shorter.
                    is_opposite = length > max(sides[a][corner], sides[b][corner])
                    if n_held == 2 or (n_held and is_opposite):
                        return True
        return False

    def _is_rigid_water(self, first: int, lengths: dict[int, dict[int, float]]) -> bool:
        """Whether an atom and the two after it are a triangle with two equal sides and corners."""
        second, third = first + 1, first + 2
        return (
            lengths[first].keys() == {second, third}
            and lengths.get(second, {}).keys() == {first, third}
            and lengths.get(third, {}).keys() == {first, second}
            and self.masses[second] == self.masses[third]
            and abs(lengths[first][second] - lengths[first][third]) < SAME
        )

    def _sites(self, system: openmm.System) -> None:
        for i in range(self.n_atoms):
            if not self.is_site[i]:
                if self.masses[i] == 0:
                    raise Unsupported("an atom without mass that is no virtual site")
                continue
            site = system.getVirtualSite(i)
            parents = tuple(site.getParticle(k) for k in range(site.getNumParticles()))
            kind = type(site).__name__
            if any(self.is_site[parent] for parent in parents):
                raise Unsupported("a virtual site that hangs on another")
            if kind.endswith("AverageSite") and abs(sum(map(site.getWeight, range(len(parents)))) - 1) > SAME:
                raise Unsupported("a virtual site whose weights are not one in sum")
            if kind == "TwoParticleAverageSite":
                self.lines["virtual_sites2"].append(((i, *parents), (1, site.getWeight(1))))
            elif kind == "ThreeParticleAverageSite":
                self.lines["virtual_sites3"].append(((i, *parents), (1, site.getWeight(1), site.getWeight(2))))
            elif kind == "OutOfPlaneSite":
                own = (site.getWeight12(), site.getWeight13(), site.getWeightCross())
                self.lines["virtual_sites3"].append(((i, *parents), (4, *own)))
            elif kind == "LocalCoordinatesSite":
                water, weights = self._site_of_water(site, parents)
                self.lines["virtual_sites3"].append(((i, *water), (4, *weights)))
            else:
                raise Unsupported(f"a virtual site of the kind {kind}")

    def _site_of_water(self, site: openmm.LocalCoordinatesSite, parents: Atoms) -> tuple[Atoms, Values]:
        """A site in the axes of rigid water by weights of its three atoms and of their cross product."""
        triangles = {atoms[0]: values for atoms, values in self.lines["settles"]}
        first = min(parents)
        water = (first, first + 1, first + 2)
        if first not in triangles or set(parents) != set(water):
            raise Unsupported("a site in the axes of atoms that are no rigid water")
        side, base = triangles[first][1:]
        height = math.sqrt(side * side - base * base / 4)
        corners = np.array([[0, 0, 0], [base / 2, height, 0], [-base / 2, height, 0]])
        ordered = corners[[parent - first for parent in parents]]
        origin, x, y = (
            np.array(weights) @ ordered for weights in (site.getOriginWeights(), site.getXWeights(), site.getYWeights())
        )
        z = np.cross(x, y)
        x, z = x / np.linalg.norm(x), z / np.linalg.norm(z)
        place = origin + np.array(site.getLocalPosition()._value) @ np.array([x, np.cross(z, x), z])
        _, second, third = corners
        found = np.linalg.solve(np.array([second, third, np.cross(second, third)]).T, place)
        return water, tuple(found.tolist())

    def _label(self) -> None:
        """A map is looked up by five types of atoms: the middle one is labelled with its maps."""
        middle: dict[int, set[int]] = defaultdict(set)
        for which, atoms in self._map_terms:
            middle[atoms[2]].add(which)
        for atom, maps in middle.items():
            self.labels[atom] = "C" + "_".join(map(str, sorted(maps)))
        for which, atoms in self._map_terms:
            types = tuple(self.labels[atom] for atom in atoms)
            if self.map_of_types.setdefault(types, which) != which:
                raise Unsupported("CMAP terms of one atom that differ")
            self.lines["cmap"].append((atoms, (1,)))


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _plain(expression: str) -> str:
    return expression.replace(" ", "").rstrip(";")


def sigma_epsilon(c6: float, c12: float) -> tuple[float, float]:
    """The size and the depth of Lennard-Jones by its coefficients."""
    if not c6 and not c12:
        return NO_SIZE, 0.0
    if c6 <= 0 or c12 <= 0:
        raise Unsupported("Lennard-Jones that does not attract")
    return (c12 / c6) ** (1 / 6), c6 * c6 / (4 * c12)


def _table(force: openmm.CustomNonbondedForce, which: int) -> NDArray[np.float64]:
    """A function of two types as an array of two indices."""
    n, m, values = force.getTabulatedFunction(which).getFunctionParameters()
    table: NDArray[np.float64] = np.array(values).reshape(m, n).T
    return table
