"""`python -m molbox_worker JOBDIR`: carries out the task of a job directory, or goes on with it.

Exit status: 0 succeeded, 2 failed for a reason that `result.json` explains, 3 stopped by a signal
with everything committed, 4 the disk is full, 1 anything else (a defect: the traceback is in
`result.json`).
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from pathlib import Path

from molbox_worker import sandbox
from molbox_worker.job import Job, JobError, Stopped

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
        sandbox.enter(job)
        # Each brings in what it needs: start-up is part of every task.
        with job.heartbeat():
            if job.task["kind"] == "build":
                from molbox_worker.build import build as run
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
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # There may be no room to say so in a file.
            return 4
        trace = traceback.format_exc()
        print(trace, flush=True)
        job.log(f"failed: internal: {error}")
        message = f"{type(error).__name__}: {error}"
        job.finish(status="failed", error={"code": "internal", "message": message}, traceback=trace)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
