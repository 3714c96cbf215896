"""Whether this environment can carry out tasks: a task of the kind ``environment``.

The service has it carried out when it starts, and when a task has ended in a way for which the environment
may be to blame. What fails here fails for every task.
"""

from __future__ import annotations

import sys

import numpy as np
import openmm
from openmm import app

# What the tasks need: whether it can be imported is what is asked.
from molbox_worker import build, simulate  # noqa: F401
from molbox_worker.directory import TaskDirectory
from molbox_worker.engine import platform, versions
from molbox_worker.gaff import has_tools
from molbox_worker.gromacs import program
from molbox_worker.result import EnvironmentResult


def check(task: TaskDirectory) -> EnvironmentResult:
    """Take one step on the platform and the device that tasks are given; returns what there is.

    Raises
    ------
    TaskError
        ``platform_missing``.
    OpenMMException
        When the platform or its device does not work.

    """
    app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    chosen, properties = platform(task)
    system = openmm.System()
    system.addParticle(1.0)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), chosen, properties)
    context.setPositions(np.zeros((1, 3)))
    context.getIntegrator().step(1)
    context.getState(positions=True)
    gromacs = program.find(task.spec.gromacs)
    return EnvironmentResult(
        platform=chosen.getName(),
        versions={**versions(), "python": sys.version.split()[0]},
        # Only builds with ligands need them.
        ligand_tools=has_tools(),
        platforms=[openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())],
        gromacs=f"{gromacs.path}, {gromacs.version}, {gromacs.simd}" if gromacs else "",
    )
