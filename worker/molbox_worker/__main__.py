"""`python -m molbox_worker TASKDIR`: carries out the task of a directory, or resumes it.

Exit status: 0 succeeded, 2 failed for a reason that `result.json` explains, 3 stopped by a signal
with everything committed, 4 the disk is full, 5 a module is missing or broken, or the task is
another version's, 75 the directory is another attempt's by now, 1 anything else (a defect: the
traceback is in `result.json`).
"""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from molbox_worker import __version__
from molbox_worker.directory import TaskDirectory, log, without_folders, write_result
from molbox_worker.plan import BuildTask, InvalidTask, SimulateTask
from molbox_worker.result import FailedResult, Failure, Result, Stopped, TaskError

# How OpenMM reports that a GPU or its driver fails: by CUDA's, HIP's and OpenCL's own codes.
DEVICE_ERROR = r"CUDA_ERROR_|hipError|CL_DEVICE_|CL_OUT_OF_RESOURCES|[Nn]o compatible \w+ (device|platform)"

# The service counts threads; numpy's would come on top.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

# A build makes millions of objects that stay, and looking through them all for cycles after every few
# hundred was a seventh of its time.
gc.set_threshold(50_000, 20, 100)


def main(argv: list[str]) -> int:
    """Carry out the task and record how it ended; returns the exit status."""
    if len(argv) != 2:
        print("usage: python -m molbox_worker TASKDIR", file=sys.stderr)
        return 64
    try:
        task = TaskDirectory(Path(argv[1]))
    except InvalidTask as error:
        return refuse(Path(argv[1]), error)
    try:
        task.finish(load(task)())
    except Stopped:
        task.log("stopped")
        return 3
    except TaskError as error:
        task.log(f"failed: {error.failure.code}: {error}")
        task.finish(FailedResult(error.failure))
        return 2
    except Exception as error:
        return fail(task, error)
    return 0


def load(task: TaskDirectory) -> Callable[[], Result]:
    """What carries out the task. Each kind imports what it needs: start-up is part of every task.

    Raises
    ------
    ImportError
        Whatever keeps a module from being imported: memory that is too small for it comes as any error.

    """
    spec = task.spec
    try:
        with task.heartbeat():
            if isinstance(spec, BuildTask):
                from molbox_worker.build import build

                return partial(build, task, spec)
            if isinstance(spec, SimulateTask):
                from molbox_worker.simulate import simulate

                return partial(simulate, task, spec)
            # The service waits no longer, and may be gone: what stands still is to end by itself.
            signal.alarm(spec.plan.seconds)
            from molbox_worker.environment import check

            return partial(check, task)
    except (Stopped, OSError, ImportError):
        raise
    except Exception as error:
        raise ImportError(f"{type(error).__name__}: {error}") from error


def refuse(path: Path, error: InvalidTask) -> int:
    """Record that the task is not one of this version; returns the exit status."""
    remedy = "the operator installs the worker of the service's version"
    message = f"this worker, {__version__}, cannot read its task: {error}"
    log(f"failed: environment_broken: {message}; {remedy}")
    if error.attempt is None:
        return 5
    (path / "work").mkdir(exist_ok=True)
    failure = Failure("environment_broken", message, remedy)
    write_result(path / "work", FailedResult(failure), error.attempt, [])
    return 2


def fail(task: TaskDirectory, error: Exception) -> int:
    """Record a failure that nobody expected; returns the exit status."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        # There may be no room to record it in a file.
        return 4
    trace = without_folders(traceback.format_exc())
    print(trace, flush=True)
    if isinstance(error, ImportError):
        task.log(f"cannot import {error.name or 'the worker'}: {error}")
        return 5
    code = failure_code(error)
    task.log(f"failed: {code}: {error}")
    message = without_folders(f"{type(error).__name__}: {error}")
    task.finish(FailedResult(Failure(code, message), trace))
    return 1 if code == "internal" else 2


def failure_code(error: Exception) -> str:
    """What kind of failure it is that nobody expected."""
    text = str(error)
    if isinstance(error, MemoryError) or re.search(r"bad_alloc|OUT_OF_MEMORY|out of memory", text, re.IGNORECASE):
        return "out_of_memory"
    # OpenMM has one exception for everything; it is not imported here, for it may be what is broken.
    if type(error).__name__ == "OpenMMException" and re.search(DEVICE_ERROR, text):
        return "gpu_lost"
    return "internal"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
