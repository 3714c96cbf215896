"""A `System` that OpenMM has serialized, from strangers.

OpenMM makes an object of each element with an attribute `type`: forces of plug-ins, which read files,
and `PythonForce`, which is a pickle and runs whatever stands in it, among them. So only types that
calculate and do nothing else pass. Formulas of custom forces are OpenMM's own language, which has no
side effects.

OpenMM's reader of XML ends a comment at the first `>`, and sees elements where others see none. It is
given what was checked, written anew, not the file.
"""

from __future__ import annotations

from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from molbox_worker.built.files import LOC, BuiltFile
from molbox_worker.result import TaskError

# What a job runs with, whatever its cutoff. `formats/system.rs` of the service has the same.
FORCES = frozenset(
    "CMAPTorsionForce CustomAngleForce CustomBondForce CustomCentroidBondForce CustomCompoundBondForce"  # noqa: SIM905
    " CustomExternalForce CustomNonbondedForce CustomTorsionForce HarmonicAngleForce HarmonicBondForce"
    " NonbondedForce PeriodicTorsionForce RBTorsionForce".split()
)
# A job has its own.
REPLACED = frozenset(
    "AndersenThermostat MonteCarloAnisotropicBarostat MonteCarloBarostat MonteCarloFlexibleBarostat"  # noqa: SIM905
    " MonteCarloMembraneBarostat".split()
)
OTHERS = frozenset(
    "CMMotionRemover Continuous1DFunction Continuous2DFunction Continuous3DFunction Discrete1DFunction"  # noqa: SIM905
    " Discrete2DFunction Discrete3DFunction System".split()
)
TYPES = FORCES | REPLACED | OTHERS
MAX_DEPTH = 16


def checked(file: BuiltFile) -> str:
    """The elements of a serialized system, which has nothing but data for the forces above."""
    depth = 0
    parts: list[str] = []

    def refuse(why: str, remedy: str) -> None:
        message = f"{file.name}, line {parser.CurrentLineNumber}: {why}"
        raise TaskError("built_unsafe", message, remedy=remedy, loc=LOC)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth == 1 and (tag != "System" or attributes.get("type") != "System"):
            refuse(f"the root is <{tag}>, not a <System>", "write it by `XmlSerializer.serialize(system)`")
        if depth > 1 and attributes.get("type", "CMMotionRemover") not in TYPES - {"System"}:
            what = attributes["type"]
            remedy = f"take it out; systems may have {', '.join(sorted(FORCES))}"
            refuse(f"a {what} cannot be run here" + (": it is code" if what == "PythonForce" else ""), remedy)
        if depth > MAX_DEPTH:
            refuse("elements are nested too deeply", "write it by `XmlSerializer.serialize(system)`")
        parts.append(f"<{tag}{''.join(f' {name}={quoteattr(value)}' for name, value in attributes.items())}>")

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        parts.append(f"</{tag}>\n")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = lambda *_: refuse("DOCTYPE is not allowed", "take it out")
    try:
        with file.path.open("rb") as opened:
            parser.ParseFile(opened)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise TaskError(
            "built_unreadable", f"{file.name} is not XML: {error}", remedy="save it as UTF-8", loc=LOC
        ) from error
    return '<?xml version="1.0" ?>\n' + "".join(parts)
