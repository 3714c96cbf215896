"""Measure this crate and its peers on the same files, and print a table with ratios."""

from __future__ import annotations

import os
import subprocess
import sys

FOLDER = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
TASKS = ["read", "rmsd", "rmsf", "distance", "hbond"]
PEERS = {
    "cpptraj": [os.environ["PYTRAJ"], "with_pytraj.py"],
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
    _, n_frames, _, cpu, mean, peak = result.split()
    return int(n_frames) / float(cpu), float(mean), float(peak)


def ours(system: str, task: str) -> tuple[float, float, float]:
    (line,) = lines([os.environ["SPEED"], FOLDER, system, task, "1"])
    values = dict(word.split("=") for word in line.split()[2:])
    return int(values["frames"]) / float(values["cpu"]), float(values["result"]), float(values["peak_mb"])


for system in ("big", "small"):
    print(f"\n| {system} | ours | " + " | ".join(PEERS) + " | ratio | means | peak MB |")
    print("|---" * (len(PEERS) + 5) + "|")
    for task in TASKS:
        best: dict[str, tuple[float, float, float]] = {}
        for _ in range(ROUNDS):
            runs = {"ours": ours(system, task), **{name: peer(name, system, task) for name in PEERS}}
            best = {name: max(run, best.get(name, run)) for name, run in runs.items()}
        rates = [best["ours"][0]] + [best[name][0] for name in PEERS]
        ratio = rates[0] / max(rates[1:])
        means = ", ".join(f"{run[1]:.7g}" for run in best.values())
        peaks = ", ".join(f"{run[2]:.0f}" for run in best.values())
        print(f"| {task} | " + " | ".join(f"{rate:.0f}" for rate in rates) + f" | {ratio:.1f} | {means} | {peaks} |", flush=True)
