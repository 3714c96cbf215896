"""What the scripts of all peers share: the systems, and how a measurement is printed."""

from __future__ import annotations

import os
import sys
import time

FOLDER, SYSTEM, TASK = sys.argv[1:4]
TOPOLOGY = os.path.join(FOLDER, SYSTEM + ".pdb")
TRAJECTORY = os.path.join(FOLDER, SYSTEM + ".dcd")
IS_BIG = SYSTEM == "big"
CHUNK = 100


def printed(n_frames: int, cpu: float, mean: float, peak_kb: int):
    """Print what a measurement has found, as `run.py` reads it."""
    print("RESULT", n_frames, cpu, mean, peak_kb // 1024)


def measured(work):
    """Run `work`, which returns the number of frames and a mean to compare, and print its cost."""
    cpu = time.process_time()
    n_frames, mean = work()
    cpu = time.process_time() - cpu
    with open("/proc/self/status") as status:
        peak_kb = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    printed(n_frames, cpu, mean, int(peak_kb))
