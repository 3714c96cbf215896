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


def measured(work):
    """Run `work`, which returns the number of frames and a mean to compare, and print its cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    n_frames, mean = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    with open("/proc/self/status") as status:
        peak_kb = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    print("RESULT", n_frames, wall, cpu, mean, int(peak_kb) // 1024)
