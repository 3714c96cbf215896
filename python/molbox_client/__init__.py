"""Client of a molbox service: molecular dynamics and margins behind REST.

>>> import molbox_client as molbox
>>> client = molbox.Client()
>>> job = client.run("1vii.pdb", preset="quick", time="10 ps")
>>> job.energies().loc["production"].plot(x="time (ps)", y="temperature (K)")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._async import AsyncAnalysis, AsyncClient, AsyncFile, AsyncJob, AsyncSystem, AsyncTask
from ._errors import (
    AuthenticationFailed,
    Conflict,
    ConnectionFailed,
    Damaged,
    InvalidRequest,
    MolboxError,
    MolboxWarning,
    NotFound,
    Refused,
    TaskFailed,
    TooManyRequests,
    UnexpectedAnswer,
    WaitTimeout,
)
from ._margin import Margin
from ._optional import MissingPackage
from ._results import NoResult
from ._sync import Analysis, Client, File, Job, System, Task
from ._version import __version__

if TYPE_CHECKING:
    from . import _records as records
    from . import _requests as requests

__all__ = [
    "Analysis",
    "AsyncAnalysis",
    "AsyncClient",
    "AsyncFile",
    "AsyncJob",
    "AsyncSystem",
    "AsyncTask",
    "AuthenticationFailed",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Damaged",
    "File",
    "InvalidRequest",
    "Job",
    "Margin",
    "MissingPackage",
    "MolboxError",
    "MolboxWarning",
    "NoResult",
    "NotFound",
    "Refused",
    "System",
    "Task",
    "TaskFailed",
    "TooManyRequests",
    "UnexpectedAnswer",
    "WaitTimeout",
    "__version__",
    "records",
    "requests",
]


def __getattr__(name: str) -> Any:
    # Models take a third of a second to be made, which a script that only asks need not spend.
    if name in ("records", "requests"):
        import importlib

        return importlib.import_module(f"._{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
