"""What building and simulating have in common: platforms, and OpenMM's errors in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import openmm
from openmm import app

from molbox_worker import __version__
from molbox_worker.directory import TaskDirectory
from molbox_worker.plan import BuildTask
from molbox_worker.result import ResidueName, TaskError

# PDB has five columns for atom numbers.
MAX_PDB_ATOMS = 99_999
DALTON_PER_NM3 = 1.66053906660e-3  # in g/mL

# Best first. OpenCL is left out: where there is no GPU it is a slow emulation that OpenMM itself
# would prefer to its CPU platform.
AUTOMATIC = ("CUDA", "HIP", "CPU")
GPU = {"CUDA", "HIP", "OpenCL"}


def platform(task: TaskDirectory, *, threads: int | None = None) -> tuple[openmm.Platform, dict[str, str]]:
    """The platform that the service asked for, or the best there is, with its properties.

    On a CPU builds have one thread, unless told otherwise: on several, forces are summed in an order that is
    another each time, and so are the last digits of what is minimised.
    """
    wanted = task.spec.platform
    available = {openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())}
    name = wanted or next(name for name in AUTOMATIC if name in available)
    if name not in available:
        raise TaskError(
            "platform_missing",
            f"OpenMM has no platform {name} on this machine; it has {', '.join(sorted(available))}",
            remedy="install the platform's package, or have the service ask for another",
        )
    properties: dict[str, str] = {}
    if name == "CPU":
        threads = threads or (1 if isinstance(task.spec, BuildTask) else task.spec.threads)
        properties = {"Threads": str(threads), "DeterministicForces": "true"}
    elif name in GPU:
        properties = {"Precision": "mixed"}
        if task.spec.device is not None:
            properties["DeviceIndex"] = str(task.spec.device)
    chosen = openmm.Platform.getPlatformByName(name)
    # Modeller makes contexts of its own and takes the platform without properties.
    for key, value in properties.items():
        chosen.setPropertyDefaultValue(key, value)
    return chosen, properties


@contextmanager
def templates_explained(topology: app.Topology, *, field: str = "protein") -> Iterator[None]:
    """Make OpenMM's errors about templates name the residue as its author numbers it."""
    try:
        yield
    except Exception as error:
        # OpenMM raises ValueError for a template that is missing, and plain Exception for two that fit.
        if type(error) not in {ValueError, Exception}:
            raise
        raise explain_template(error, topology, field) from error


def called(residue: app.topology.Residue, name: str | None = None) -> ResidueName:
    """How its author calls a residue; by another name than its own, if one is given."""
    return ResidueName(residue.chain.id, f"{residue.id}{residue.insertionCode.strip()}", name or residue.name)


def explain_template(error: Exception, topology: app.Topology, field: str) -> TaskError:
    """OpenMM's error about a template, with the residue as its author numbers it."""
    match = re.search(r"residue (\d+) \((\w+)\)\.?\s*(.*)", str(error), re.DOTALL)
    if not match:
        return TaskError("force_field_error", str(error), loc=["body", "force_field"])
    residues = list(topology.residues())
    index = int(match[1])
    # OpenMM may count in a topology of its own, as for the patch of a membrane.
    is_ours = index < len(residues) and residues[index].name == match[2]
    found = [called(residues[index])] if is_ours else []
    place = f"residue {found[0] if found else match[2]}"
    detail = match[3].split("  For more information")[0].strip()
    if "Multiple non-identical matching templates" in str(error):
        detail = f"several of its templates fit: {detail.lstrip(': ')}"
        return TaskError("ambiguous_template", f"{place}: {detail}", loc=["body", "force_field"], residues=found)
    return TaskError(
        "no_template",
        f"the force field has no template for {place}. {detail}".strip(),
        remedy="check its atoms and its name, choose another force field, or leave the residue out",
        loc=["body", field],
        residues=found,
    )


def versions() -> dict[str, str]:
    """Versions of the programs that have a part in the result."""
    return {"molbox-worker": __version__, **{name: version(name) for name in ("openmm", "pdbfixer", "numpy")}}
