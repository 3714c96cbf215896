"""Count the instructions of each analysis under callgrind, on the trajectory of the tests.

Times differ from run to run and from machine to machine, instructions hardly do. Counted is what an
analysis takes beyond reading the topology and the atoms of the solute, which is counted as `read`.
With no argument the counts are compared with those in `instructions.txt`; `--write` writes them there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RECORD = HERE / "instructions.txt"
TASKS = ["rmsd", "rmsf", "distance", "hbond", "solvent", "contacts", "secondary", "surface", "all"]
LARGEST_CHANGE = 0.03


def program() -> str:
    build = ["cargo", "bench", "--no-run", "-p", "molbox-analysis", "--bench", "speed"]
    said = subprocess.run(build, check=True, capture_output=True, text=True).stderr
    return re.search(r"\((\S*speed-\w+)\)", said)[1]


def count(speed: str, task: str) -> int:
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*tool, speed, str(HERE / "../tests/data"), "mini_tri", task, "1", "0"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(re.search(r"I\s+refs:\s+([\d,]+)", said)[1].replace(",", ""))


def main() -> None:
    speed = program()
    read = count(speed, "read_solute")
    counts = {"read": read, **{task: count(speed, task) - read for task in TASKS}}
    if sys.argv[1:] == ["--write"]:
        lines = [f"{task} {n}\n" for task, n in counts.items()]
        RECORD.write_text("# Instructions on mini_tri, 40 frames of 2111 atoms of which 218 are solute\n" + "".join(lines))
        return
    before = dict(line.split() for line in RECORD.read_text().splitlines() if not line.startswith("#"))
    changes = {task: n / int(before[task]) - 1 for task, n in counts.items()}
    for task, change in changes.items():
        print(f"{task:12} {counts[task]:>12} {change:+.1%}")
    if max(changes.values()) > LARGEST_CHANGE:
        sys.exit(f"more than {LARGEST_CHANGE:.0%} above what is recorded; if it has to be, write the record anew")


main()
