"""Force fields: OpenMM's own, and files from users.

OpenMM runs what is in `<Script>` and `<InitializationScript>` of a force-field file, evaluates
the attribute `useDispersionCorrection` as Python, and reads the file that `<Include>` names. The
service lets no such file be registered; it is looked at again here, right before OpenMM sees it.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from openmm import app
from openmm.app.forcefield import NonbondedGenerator

from molbox_worker.directory import TaskDirectory
from molbox_worker.plan import BuildPlan
from molbox_worker.result import TaskError

# Elements that OpenMM 8.6 takes for data. Another one may be a new way to run something.
ELEMENTS = frozenset(
    "AddAtom AddBond AddExternalBond AllowPatch AmoebaUreyBradleyForce Angle ApplyToResidue Atom AtomTypes Bond"  # noqa: SIM905
    " CMAPTorsionForce ChangeAtom ComputedValue CustomAngleForce CustomBondForce CustomGBForce CustomHbondForce"
    " CustomManyParticleForce CustomNonbondedForce CustomTorsionForce DateGenerated EnergyTerm Exclusion ExternalBond"
    " ForceField Function GBSAOBCForce GlobalParameter HarmonicAngleForce HarmonicBondForce Improper Info"
    " LennardJonesForce Map NBFixPair NonbondedForce Patch Patches PerAngleParameter PerBondParameter"
    " PerParticleParameter PerTorsionParameter PeriodicTorsionForce Proper RBTorsionForce Reference RemoveAtom"
    " RemoveBond RemoveExternalBond Residue Residues Source Torsion Type TypeFilter UreyBradley"
    " UseAttributeFromResidue VirtualSite".split()
)
TRUTHS = frozenset({"true", "false", "True", "False", "0", "1"})
MAX_DEPTH = 12
LOC: list[str | int] = ["body", "force_field"]


def load(task: TaskDirectory, plan: BuildPlan, extra: list[Path]) -> app.ForceField:
    """The force field of a plan, with its water and with `extra` files of our own making."""
    ours = list(plan.force_field.files)
    custom = plan.force_field.custom
    theirs = []
    if custom:
        check(task.input(custom.file), custom.name)
        theirs.append(str(task.input(custom.file)))
    water = [plan.water.file] if plan.water.file else []
    try:
        return app.ForceField(*ours, *theirs, *water, *(str(path) for path in extra))
    except Exception as error:
        if not custom:
            raise
        # OpenMM raises whatever its reading of the file runs into.
        others = " and ".join(ours + water) or "nothing else"
        raise TaskError(
            "force_field_unreadable",
            f"{custom.name} cannot be used with {others}: {_without_paths(error)}",
            remedy="check the file; its 1-4 scales must be those of the force field that it is added to",
            loc=LOC,
        ) from error


def _without_paths(error: Exception) -> str:
    """The message of an error, but for where files lie on this machine."""
    return re.sub(r"(?:/[^/\s'\"]+)+/", "", str(error))


def check(path: Path, name: str) -> None:
    """Refuse a force-field file that could run code or read files."""
    depth = 0

    def refuse(why: str) -> None:
        raise TaskError(
            "force_field_unsafe",
            f"{name}, line {parser.CurrentLineNumber}: {why}",
            remedy="take it out; parameters alone are read",
            loc=LOC,
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth == 1 and tag != "ForceField":
            refuse(f"the root is <{tag}>, not <ForceField>")
        if tag not in ELEMENTS:
            refuse(f"<{tag}> is not allowed: it may run code or read files")
        if depth > MAX_DEPTH:
            refuse("elements are nested too deeply")
        if attributes.get("useDispersionCorrection", "true").strip() not in TRUTHS:
            refuse("useDispersionCorrection is neither true nor false")

    def end(_tag: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = lambda *_: refuse("DOCTYPE is not allowed")
    try:
        parser.Parse(path.read_bytes(), True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        # Of encodings that it does not know, the parser raises what the codecs do.
        raise TaskError(
            "force_field_unreadable", f"{name} is not XML: {error}", remedy="save it as UTF-8", loc=LOC
        ) from error


def templates(path: Path) -> set[str]:
    """Names of the residues that a checked file has templates for."""
    return {residue.get("name", "") for residue in ElementTree.parse(path).iterfind("Residues/Residue")}


def has_ion(force_field: app.ForceField, name: str, atom_name: str, element: app.Element) -> bool:
    """Whether a force field has one template for a lone atom."""
    return ion_charge(force_field, name, atom_name, element) is not None


def ion_charge(force_field: app.ForceField, name: str, atom_name: str, element: app.Element) -> float | None:
    """The charge that a force field has for a lone atom, e; None when it has not one template for it.

    Templates are found by the element, so it may be the charge of another state of oxidation.
    """
    topology = app.Topology()
    topology.addAtom(atom_name, element, topology.addResidue(name, topology.addChain()))
    try:
        (template,) = force_field.getMatchingTemplates(topology)
    except Exception as error:
        # OpenMM's own class for this is `Exception`: iron may be Fe2+ or Fe3+.
        if not re.search("template", str(error), re.IGNORECASE):
            raise
        return None
    (atom,) = (atom for atom in template.atoms if atom.element is not None)
    if "charge" in atom.parameters:
        return float(atom.parameters["charge"])
    generators = [each for each in force_field._forces if isinstance(each, NonbondedGenerator)]
    return float(generators[0].params.paramsForType[atom.type]["charge"]) if generators else math.nan


def water_sites(force_field: app.ForceField) -> int:
    """Sites of the water that a force field has a template for."""
    for template in force_field._templates.values():
        elements = [atom.element.symbol if atom.element else "" for atom in template.atoms]
        if sorted(element for element in elements if element) == ["H", "H", "O"]:
            return len(elements)
    raise TaskError(
        "no_water",
        "the force field has no water",
        remedy="choose a water_type, or add water to the file",
        loc=["body", "water_type"],
    )
