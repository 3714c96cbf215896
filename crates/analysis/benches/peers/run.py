"""Measure this crate and its peers on the same files, and print a table with ratios."""

from __future__ import annotations

import os
import subprocess
import sys

FOLDER = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
TASKS = {
    "big": ["read", "rmsd", "rmsf", "distance", "hbond", "solvent"],
    "small": ["read", "rmsd", "rmsf", "distance", "hbond", "secondary", "surface"],
}
# Those that not all peers have, or take minutes for.
PEERS_OF = {"secondary": ["mdtraj"], "surface": ["mdtraj"], "solvent": ["cpptraj"]}
PEERS = {
    "cpptraj": [sys.executable, "with_cpptraj.py"],
    "mdtraj": [os.environ["MDTRAJ"], "with_mdtraj.py"],
    "MDAnalysis": [os.environ["MDANALYSIS"], "with_mdanalysis.py"],
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def lines(command: list[str]) -> list[str]:
    done = subprocess.run(command, cwd=HERE, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
    if done.returncode != 0:
        print(" ".join(command), done.stderr, file=sys.stderr)
    return done.stdout.splitlines()


def peer(name: str, system: str, task: str) -> tuple[float, float, float]:
    """Frames per second of processor time, the mean that was computed, and the peak memory in MB."""
    python, script = PEERS[name]
    result = next(line for line in lines([python, script, FOLDER, system, task]) if line.startswith("RESULT"))
    _, n_frames, cpu, mean, peak = result.split()
    return int(n_frames) / float(cpu), float(mean), float(peak)


def said(system: str, task: str, n_threads: int) -> dict[str, str]:
    (line,) = lines([os.environ["SPEED"], FOLDER, system, task, str(n_threads)])
    return dict(word.split("=") for word in line.split()[2:])


def ours(system: str, task: str) -> tuple[float, float, float]:
    values = said(system, task, 1)
    return int(values["frames"]) / float(values["cpu"]), float(values["result"]), float(values["peak_mb"])


def cost(system: str, task: str, n_threads: int) -> float:
    """Microseconds of the first thread's processor for a frame, the best of some rounds."""
    runs = [said(system, task, n_threads) for _ in range(ROUNDS)]
    return min(1e6 * float(run["cpu"]) / int(run["frames"]) for run in runs)


for system in ("big", "small"):
    print(f"\n| {system} | ours | " + " | ".join(PEERS) + " | ratio | means | peak MB |")
    print("|---" * (len(PEERS) + 5) + "|")
    for task in TASKS[system]:
        peers = PEERS_OF.get(task, list(PEERS))
        best: dict[str, tuple[float, float, float]] = {}
        for _ in range(ROUNDS):
            runs = {"ours": ours(system, task), **{name: peer(name, system, task) for name in peers}}
            best = {name: max(run, best.get(name, run)) for name, run in runs.items()}
        rates = {name: run[0] for name, run in best.items()}
        ratio = rates.pop("ours") / max(rates.values())
        cells = [f"{best[name][0]:.0f}" if name in best else "" for name in ("ours", *PEERS)]
        means = ", ".join(f"{run[1]:.7g}" for run in best.values())
        peaks = ", ".join(f"{run[2]:.0f}" for run in best.values())
        print(f"| {task} | " + " | ".join(cells) + f" | {ratio:.1f} | {means} | {peaks} |", flush=True)

THREADS = (1, 2, 4, 8)
raw = cost("big", "raw", 1)
print(f"\n| big, µs a frame, {raw:.1f} to read all of it | " + " | ".join(map(str, THREADS)) + " | rate of 1 to raw |")
print("|---" * (2 + len(THREADS)) + "|")
for task in ["read_solute", *TASKS["big"][1:], "all"]:
    costs = [cost("big", task, n_threads) for n_threads in THREADS]
    print(f"| {task} | " + " | ".join(f"{cost:.1f}" for cost in costs) + f" | {raw / costs[0]:.1f} |", flush=True)
