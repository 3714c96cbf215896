"""`python -m molbox_worker JOBDIR`: carries out the task of a job directory, or goes on with it.

Exit status: 0 succeeded, 2 failed for a reason that `result.json` explains, 3 stopped by a signal
with everything committed, 4 the disk is full, 5 a module is missing or broken, 1 anything else (a
defect: the traceback is in `result.json`).
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from pathlib import Path

from molbox_worker.job import Job, JobError, Stopped, without_folders

# How OpenMM reports that a GPU or its driver fails: by CUDA's, HIP's and OpenCL's own codes.
DEVICE_ERROR = r"CUDA_ERROR_|hipError|CL_DEVICE_|CL_OUT_OF_RESOURCES|[Nn]o compatible \w+ (device|platform)"

# The service counts threads; numpy's would come on top.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"


def main(argv: list[str]) -> int:
    """Carry out the task and say how it ended."""
    if len(argv) != 2:
        print("usage: python -m molbox_worker JOBDIR", file=sys.stderr)
        return 64
    job = Job(Path(argv[1]))
    try:
        # Each brings in what it needs: start-up is part of every task.
        with job.heartbeat():
            if job.task["kind"] == "build":
                from molbox_worker.build import build as run
            elif job.task["kind"] == "environment":
                from molbox_worker.environment import check as run
            else:
                from molbox_worker.simulate import simulate as run
        job.finish(status="succeeded", **run(job))
    except Stopped:
        job.log("stopped")
        return 3
    except JobError as error:
        job.log(f"failed: {error.failure['code']}: {error}")
        job.finish(status="failed", error=error.failure)
        return 2
    except Exception as error:
        return fail(job, error)
    return 0


def fail(job: Job, error: Exception) -> int:
    """Record a failure that nobody expected; returns the exit status."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        # There may be no room to say so in a file.
        return 4
    trace = without_folders(traceback.format_exc())
    print(trace, flush=True)
    if isinstance(error, ImportError):
        job.log(f"cannot import {error.name}: {error}")
        return 5
    code = failure_code(error)
    job.log(f"failed: {code}: {error}")
    message = f"{type(error).__name__}: {error}"
    job.finish(status="failed", error={"code": code, "message": message}, traceback=trace)
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
