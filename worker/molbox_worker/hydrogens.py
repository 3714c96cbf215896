"""Hydrogens: which each residue has at a pH and in a force field, and where they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import openmm
from openmm import app
from openmm.app import element
from openmm.app.forcefield import ForceField

from molbox_worker import charmm, check, force_field, relax
from molbox_worker.decide import OTHER_FORCE_FIELD
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import called, explain_template, platform
from molbox_worker.plan import BuildPlan
from molbox_worker.prepared import Hydrogens, Prepared
from molbox_worker.result import TaskError

# What the usual form of a titratable residue has not and has, beside one that the pH asks for.
USUAL: dict[str, tuple[str, set[str], list[tuple[str, str]]]] = {
    "ASH": ("ASP", {"HD2"}, []),
    "GLH": ("GLU", {"HE2"}, []),
    "LYN": ("LYS", set(), [("HZ3", "NZ")]),
    "CYM": ("CYS", set(), [("HG", "SG")]),
}


def add(task: TaskDirectory, plan: BuildPlan, prepared: Prepared, base: app.ForceField) -> dict[str, int]:
    """Place hydrogens at the pH; returns how many residues took which protonation variant.

    What was added to the structure is minimised, and what overlaps is refused before solvent is made.
    """
    modeller = prepared.modeller
    if modeller.topology.getNumAtoms() == 0:
        return {}
    _rename(modeller, prepared.openmm_names)
    _place(task, plan, modeller, prepared.hydrogens)
    if plan.force_field.is_charmm:
        charmm.merge_caps(prepared, base)
    _match(task, plan, prepared, base)
    found = Counter(variant(residue) for residue in modeller.topology.residues())
    _rename(modeller, prepared.final_names)
    if needs_extra_particles(plan, base):
        modeller.addExtraParticles(base)
    relax.alone(task, modeller, base, prepared.account.deposited)
    places, authors = relax.positions(modeller), prepared.account.authors
    check.check_contacts(modeller.topology, places, None, authors)
    check.check_hands(modeller.topology, places, authors)
    return {name: found[name] for name in sorted(found) if name}


class _NoForces:
    """In the place of a force field: leaves hydrogens where Modeller puts them at first.

    The force field itself would have to know each residue before its hydrogens are there, and the
    sites of water. They come to their places when what was added is relaxed.
    """

    def createSystem(self, topology: app.Topology, **_options: object) -> openmm.System:  # noqa: N802
        """A system in which nothing moves."""
        system = openmm.System()
        for _ in topology.atoms():
            system.addParticle(1.0)
        return system


def _place(task: TaskDirectory, plan: BuildPlan, modeller: app.Modeller, wanted: Sequence[Hydrogens]) -> None:
    modeller.addHydrogens(_NoForces(), pH=plan.ph, variants=wanted, platform=platform(task)[0])


def _rename(modeller: app.Modeller, names: list[str]) -> None:
    for residue, name in zip(modeller.topology.residues(), names, strict=True):
        residue.name = name


def _match(task: TaskDirectory, plan: BuildPlan, prepared: Prepared, base: app.ForceField) -> None:
    """See that the force field has each residue in its form; where it has not, leave the usual one.

    Amber has no neutral acids and lysines at the ends of chains.
    """
    modeller = prepared.modeller
    while True:
        topology = modeller.topology
        try:
            base._matchAllResiduesToTemplates(ForceField._SystemData(topology), topology, {}, False, True, False)
        except Exception as error:
            # OpenMM raises ValueError for a template that is missing, and plain Exception for two that fit.
            if type(error) not in {ValueError, Exception}:
                raise
            index = _residue_of(error)
            if index is None or not _make_usual(task, plan, prepared, index):
                _rename(modeller, prepared.final_names)
                _refuse_unknown(plan, prepared, index)
                raise explain_template(error, topology, "protein") from error
        else:
            return


def _refuse_unknown(plan: BuildPlan, prepared: Prepared, index: int | None) -> None:
    """Refuse a form that a name asks for, and what looked as if a patch could make it."""
    wanted = prepared.hydrogens[index] if index is not None else None
    if index is None or wanted is None:
        return
    residue = list(prepared.modeller.topology.residues())[index]
    name = wanted if isinstance(wanted, str) else residue.name
    ends = list(residue.chain.residues())
    where = "at an end of a chain" if residue in (ends[0], ends[-1]) else "within a chain"
    raise TaskError(
        "no_template",
        f"{called(residue, name)}: there is no template of it {where} in {plan.force_field.name}",
        remedy=OTHER_FORCE_FIELD,
        loc=["body", "protein"],
        residues=[called(residue)],
    )


def _residue_of(error: Exception) -> int | None:
    match = re.match(r"No template found for residue (\d+) ", str(error))
    return int(match[1]) if match else None


def _make_usual(task: TaskDirectory, plan: BuildPlan, prepared: Prepared, index: int) -> bool:
    """Give a residue its usual form, when the pH alone asks for another; whether it did."""
    modeller = prepared.modeller
    residue = list(modeller.topology.residues())[index]
    form = variant(residue)
    if form not in USUAL or prepared.hydrogens[index] is not None:
        return False
    usual, lost, new = USUAL[form]
    lists = _hydrogens(modeller.topology)
    lists[index] = [pair for pair in lists[index] if pair[0] not in lost] + new
    prepared.hydrogens[index] = usual
    _place(task, plan, modeller, lists)
    task.warn(
        "variant_unavailable",
        f"{called(residue)} would be {form} at pH {plan.ph:g};"
        f" {plan.force_field.name} has no such residue there, so it is {usual}",
        called(residue),
    )
    return True


def _hydrogens(topology: app.Topology) -> list[list[tuple[str, str]]]:
    """The hydrogens of each residue, and what they hang on."""
    lists: list[list[tuple[str, str]]] = [[] for _ in topology.residues()]
    for pair in topology.bonds():
        for atom, parent in (pair, pair[::-1]):
            if atom.element is element.hydrogen and atom.residue is parent.residue:
                lists[atom.residue.index].append((atom.name, parent.name))
    return lists


def variant(residue: app.topology.Residue) -> str:
    """The protonation variant of a residue by Amber's name, shown by its hydrogens; "" for the usual one."""
    found = {atom.name for atom in residue.atoms()}
    if residue.name == "CYS" and "HG" not in found:
        sulfur = next(atom for atom in residue.atoms() if atom.name == "SG")
        return "CYX" if any(sulfur in bond for bond in residue.external_bonds()) else "CYM"
    by_hydrogens = {
        "ASP": "ASH" if "HD2" in found else "",
        "GLU": "GLH" if "HE2" in found else "",
        "LYS": "" if {"HZ1", "HZ2", "HZ3"} <= found else "LYN",
        "HIS": {(True, True): "HIP", (True, False): "HID", (False, True): "HIE"}.get(
            ("HD1" in found, "HE2" in found), ""
        ),
    }
    return by_hydrogens.get(residue.name, "")


def needs_extra_particles(plan: BuildPlan, base: app.ForceField) -> bool:
    """Whether water has more than three sites, or other residues may have some, as CHARMM's."""
    return plan.force_field.is_charmm or water(plan, base)[1] > 3


def water(plan: BuildPlan, base: app.ForceField) -> tuple[str, int]:
    """The model whose geometry `addSolvent` places, and its sites; a custom force field's by its template."""
    wanted = plan.water
    if wanted.model is not None and wanted.sites is not None:
        return wanted.model, wanted.sites
    sites = force_field.water_sites(base)
    return {3: "tip3p", 4: "tip4pew", 5: "tip5p"}[sites], sites
