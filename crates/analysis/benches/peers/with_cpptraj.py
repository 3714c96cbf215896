"""cpptraj, the program itself: `CPPTRAJ` names it."""

import os
import resource
import struct
import subprocess
import tempfile

from common import IS_BIG, TASK, TOPOLOGY, TRAJECTORY, printed

CPPTRAJ = os.environ["CPPTRAJ"]
SOLUTE = "::A,B" if IS_BIG else "*"
ALPHA = f"({SOLUTE})&@CA"
PARTS = "::A ::B" if IS_BIG else ":1-6 :21-26"

# What each writes into the file `out` has the numbers in `COLUMN`.
TASKS = {
    # It reads nothing without an action: the least that there is.
    "read": "distance D @1 @2 noimage out out",
    "rmsd": f"rms R first {ALPHA} out out",
    "rmsf": f"rms first {ALPHA}\naverage crdset AVERAGE {ALPHA}\nrun\n"
    f"rms ref AVERAGE {ALPHA}\natomicfluct F out out {ALPHA}",
    "distance": f"distance D {PARTS} out out",
    # Without `image`, which takes twice as long and finds the same here; water needs it.
    "hbond": f"hbond H {SOLUTE} out out",
    "solvent": f"hbond H {SOLUTE} solventdonor :HOH solventacceptor :HOH@O image out out",
}
COLUMN = {"solvent": 2}.get(TASK, 1)
# So that the frames take longer than what else the program does.
REPEATS = 1 if IS_BIG else 25


def cost(script: str, folder: str) -> tuple[float, float, float]:
    """Seconds of processor time in the system and outside, and the peak memory so far in KB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([CPPTRAJ], input=script, cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or "Error" in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, after.ru_maxrss


with tempfile.TemporaryDirectory() as folder:
    reading = f"parm {TOPOLOGY}\n"
    start = cost(reading + "quit\n", folder)
    frames = f"trajin {TRAJECTORY}\n" * REPEATS
    *whole, peak_kb = cost(f"{reading}{frames}{TASKS[TASK]}\nrun\nquit\n", folder)
    rows = [line.split() for line in open(os.path.join(folder, "out")) if not line.startswith("#")]
    mean = sum(float(row[COLUMN]) for row in rows) / len(rows)
    with open(TRAJECTORY, "rb") as file:
        (n_frames,) = struct.unpack_from("<i", file.read(12), 8)
    printed(REPEATS * n_frames, sum(whole) - sum(start[:2]), mean, int(peak_kb))
