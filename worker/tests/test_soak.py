"""What takes minutes to show: `pytest -m soak`, and part of `cargo xtask soak`."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import DATA, EXAMPLES, Directory, input_file, positions_nm, structure, warnings
from test_simulate import frames, progress, rows, wait_for

Builder = Callable[..., Directory]
Simulator = Callable[..., Directory]

pytestmark = pytest.mark.soak
KELVIN, BAR_NM3 = 0.00831446261815324, 0.0602214076  # kJ/mol


def water_model(name: str, model: str, sites: int) -> dict[str, Any]:
    return {"water": {"name": name, "file": f"amber14/{name}.xml", "model": model, "sites": sites}}


# By each engine: the ensembles are the same.
by_each_engine = pytest.mark.parametrize(
    "engine",
    [
        "openmm",
        pytest.param(
            "gromacs",
            marks=pytest.mark.skipif(shutil.which("gmx") is None, reason="needs gmx: Debian's package gromacs"),
        ),
    ],
)


def decorrelated(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error from ten blocks."""
    blocks = np.array([block.mean() for block in np.array_split(np.array(values), 10)])
    return float(blocks.mean()), float(blocks.std(ddof=1) / math.sqrt(len(blocks)))


@by_each_engine
@pytest.mark.parametrize(
    ("name", "model", "sites", "published"),
    [
        # Jorgensen and Tirado-Rives, PNAS 102, 6665 (2005), with Ewald summation by Horn et al.; Horn et al.,
        # J. Chem. Phys. 120, 9665 (2004); Izadi et al., J. Phys. Chem. Lett. 5, 3863 (2014).
        ("tip3p", "tip3p", 3, 0.982),
        ("tip4pew", "tip4pew", 4, 0.995),
        ("opc", "tip4pew", 4, 0.997),
    ],
)
def test_water_has_its_published_density(
    builder: Builder, simulation: Simulator, name: str, model: str, sites: int, published: float, engine: str
) -> None:
    box = builder(concentration=0.0, **water_model(name, model, sites))
    stages = [
        {"name": "equilibration_1", "ensemble": "NPT", "steps": 10_000},
        {"ensemble": "NPT", "steps": 40_000, "log_freq": 100},
    ]
    # Heavier hydrogens do not change what depends on positions, and water is rigid either way.
    settings = {"temperature_k": 298, "pressure_bar": 1, "timestep_fs": 4, "hydrogen_mass_da": 3.0}
    job = simulation(box, stages, engine=engine, **settings)
    assert job.run() == 0, job.log()
    written = rows(job.output("production.csv"))
    density, error = decorrelated([row["density (g/mL)"] for row in written])
    # Four standard errors, and a half per cent for the cutoff and the size of the box.
    assert density == pytest.approx(published, abs=4 * error + 0.005)
    temperature, error = decorrelated([row["temperature (K)"] for row in written])
    # The middle scheme is exact in positions; its kinetic energy, after a whole step, is low by a per cent.
    assert temperature == pytest.approx(298, abs=4 * error + 3)


@by_each_engine
def test_volumes_at_two_pressures_are_those_of_one_ensemble(
    water: Directory, simulation: Simulator, engine: str
) -> None:
    # The logarithm of the ratio of two volume distributions is a line with the slope -(P2 - P1)/kT, whatever the
    # model: Shirts, J. Chem. Theory Comput. 9, 909 (2013). Estimated, as there, by maximum likelihood.
    volumes = []
    pressures = (1.0, 400.0)
    for pressure in pressures:
        stages = [
            {"name": "equilibration_1", "ensemble": "NPT", "steps": 10_000},
            {"ensemble": "NPT", "steps": 60_000, "log_freq": 100},
        ]
        job = simulation(water, stages, engine=engine, pressure_bar=pressure, timestep_fs=4, hydrogen_mass_da=3.0)
        assert job.run() == 0, job.log()
        volumes.append(np.array([row["volume (nm^3)"] for row in rows(job.output("production.csv"))]))
    slope, error = logistic_slope(volumes[0], volumes[1])
    expected = -(pressures[1] - pressures[0]) * BAR_NM3 / (KELVIN * 300)
    # Of 600 volumes every fourth or so is a new one, so that the error is twice that of independent ones.
    assert slope == pytest.approx(expected, abs=4 * 2 * error), (slope, expected, error)
    assert 2 * error < 0.25 * abs(expected), "the run shows something"


def logistic_slope(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Slope of ln(p2/p1) over the value, and its standard error for independent samples, by Newton's method."""
    x = np.concatenate([first, second])
    centre = x.mean()
    design = np.stack([np.ones_like(x), x - centre], axis=1)
    is_second = np.repeat([0.0, 1.0], [len(first), len(second)])
    weights = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ weights))
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        weights += np.linalg.solve(hessian, design.T @ (is_second - p))
    return float(weights[1]), float(np.sqrt(np.linalg.inv(hessian)[1, 1]))


@pytest.mark.parametrize("threads", [1, 2])
def test_kills_at_random_moments_lose_and_double_nothing(builder: Builder, simulation: Simulator, threads: int) -> None:
    villin = builder(EXAMPLES / "1vii.pdb", box_shape="dodecahedron", padding_nm=0.6)
    stages = [
        {"name": "equilibration_1", "steps": 1000, "traj_freq": 50, "log_freq": 10},
        {"name": "production", "ensemble": "NPT", "steps": 6000, "traj_freq": 20, "log_freq": 5},
    ]
    job = simulation(villin, stages, checkpoint_seconds=1, threads=threads)
    chance = random.Random(threads)
    kills, commit = 0, job.work / "commit" / "commit.json"
    while True:
        process = job.start()
        # At any moment of its life, start-up and commits included; every third life commits something first.
        before = commit.read_bytes() if commit.exists() else b""
        if kills % 3 == 0:
            wait_for(lambda p=process, b=before: p.poll() is not None or (commit.exists() and commit.read_bytes() != b))
        try:
            process.wait(timeout=chance.uniform(0.0, 6.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        if process.wait() == 0:
            break
    assert kills >= 15, "it was killed often enough to mean something"
    for stage in stages:
        steps, traj_freq, log_freq = (int(str(stage[key])) for key in ("steps", "traj_freq", "log_freq"))
        assert [row["step"] for row in rows(job.output(f"{stage['name']}.csv"))] == list(
            range(log_freq, steps + 1, log_freq)
        )
        written = frames(job.output(f"{stage['name']}.dcd"))
        assert len(written) == steps // traj_freq
        moves = np.abs(np.diff(written, axis=0)).reshape(len(written) - 1, -1).max(axis=1)
        assert (moves > 0).all(), "no frame is there twice"


def test_a_transporter_is_built_into_a_bilayer_and_stays_in_it(builder: Builder, simulation: Simulator) -> None:
    built = builder(DATA / "2nwl_a.pdb.gz", membrane="POPC", padding_nm=0.5, max_atoms=200_000, task={"threads": 2})
    assert built.result["status"] == "succeeded", built.log()
    reported = progress(built)
    assert reported["stage"] == "write" and reported["fraction"] > 0.9
    molecules = built.result["summary"]["molecules"]
    assert molecules["lipid"] > 100
    file = structure(built)
    phosphorus = [a.index for a in file.topology.atoms() if a.element is not None and a.element.symbol == "P"]
    stage = {"ensemble": "NPT", "steps": 250, "log_freq": 50}
    job = simulation(built, [stage], membrane=True, minimization_steps=100, threads=2)
    assert job.run() == 0, job.log()
    start = positions_nm(file)[phosphorus, 2]
    state = openmm.XmlSerializer.deserialize(job.output("production.state.xml").read_text())
    end = np.array(state.getPositions(asNumpy=True)._value)[phosphorus, 2]
    # From leaf to leaf it is 3.8 nm in POPC.
    for z in (start, end):
        assert z[start > 0].mean() - z[start < 0].mean() == pytest.approx(3.8, abs=0.5)


def test_a_loop_built_without_a_template_can_be_simulated(builder: Builder, simulation: Simulator) -> None:
    # The helix of villin's middle is taken out, so that ten residues have to be built.
    lines = (EXAMPLES / "1vii.pdb").read_text().splitlines(keepends=True)
    gap = "".join(line for line in lines if not (line.startswith("ATOM") and 54 <= int(line[22:26]) <= 59))
    built = builder(gap, padding_nm=0.8)
    assert built.result["status"] == "succeeded", built.log()
    assert "residues_built" in warnings(built)
    stages = [
        {"name": "equilibration_1", "ensemble": "NVT", "steps": 2000, "log_freq": 500},
        {"ensemble": "NPT", "steps": 2000, "log_freq": 500},
    ]
    job = simulation(built, stages, minimization_steps=500)
    assert job.run() == 0, json.dumps(job.result.get("error"))


def test_a_protein_with_its_ligand_is_stable_with_heavy_hydrogens(builder: Builder, simulation: Simulator) -> None:
    pose = {"rotation": None, "translation": None}
    ligand = {**input_file("xylene.mol2"), "residue_name": "PXY", **pose}
    built = builder(
        DATA / "t4-lysozyme.pdb.gz", inputs={"xylene.mol2": DATA / "p-xylene.mol2"}, ligands=[ligand], padding_nm=0.6
    )
    assert built.result["status"] == "succeeded", built.log()
    topology = json.loads(built.output("topology.json").read_text())
    names = np.array(topology["residues"]["name"])[topology["atoms"]["residue"]]
    atoms = np.array(topology["atoms"]["name"])
    xylene = np.flatnonzero(names == "PXY")
    lining = [
        i
        for i in np.flatnonzero(atoms == "CA")
        if topology["residues"]["id"][topology["atoms"]["residue"][i]] in {"99", "111", "118", "153"}
    ]
    stages = [
        {"name": "equilibration_1", "ensemble": "NVT", "steps": 1000, "log_freq": 500},
        {"ensemble": "NPT", "steps": 2500, "traj_freq": 500, "log_freq": 500},
    ]
    job = simulation(built, stages, minimization_steps=300, timestep_fs=4, hydrogen_mass_da=3.0, threads=2)
    assert job.run() == 0, job.log()
    written = frames(job.output("production.dcd"))
    away = np.linalg.norm(written[:, xylene].mean(axis=1) - written[:, lining].mean(axis=1), axis=1)
    assert (away < 5.0).all(), "it does not leave its cavity in ten picoseconds (Å)"
    assert rows(job.output("production.csv"))[-1]["temperature (K)"] == pytest.approx(300, abs=10)
