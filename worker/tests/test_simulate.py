"""Running simulations: physics, files, and resuming after a kill."""

from __future__ import annotations

import csv
import json
import math
import platform
import shutil
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import Directory
from numpy.typing import NDArray
from openmm import app

from molbox_worker import excerpt, method
from molbox_worker.dcd import AKMA_PS, DcdFile
from molbox_worker.directory import dump


def rows(path: Path) -> list[dict[str, float]]:
    with path.open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def frames(path: Path) -> NDArray[np.float32]:
    """Coordinates of a DCD file, read by its layout: shape (frames, atoms, 3), in Å."""
    data = path.read_bytes()
    n_frames = struct.unpack_from("<i", data, 8)[0]
    n_atoms = struct.unpack_from("<i", data, 268)[0]
    size = 56 + 3 * (4 * n_atoms + 8)
    assert len(data) == 276 + n_frames * size, "the header's count and the size agree"
    out = np.empty((n_frames, n_atoms, 3), dtype=np.float32)
    for frame in range(n_frames):
        for axis in range(3):
            at = 276 + frame * size + 56 + axis * (4 * n_atoms + 8) + 4
            out[frame, :, axis] = np.frombuffer(data, "<f4", n_atoms, at)
    return out


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_stages_run_in_order_and_write_what_was_asked(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(
        water,
        [
            {"name": "equilibration_1", "ensemble": "NVT", "steps": 60, "log_freq": 20},
            {"name": "production", "ensemble": "NPT", "steps": 100, "traj_freq": 25, "log_freq": 10},
        ],
    )
    assert job.run() == 0, job.log()
    stages = job.result["stages"]
    assert [stage["name"] for stage in stages] == ["minimization", "equilibration_1", "production"]
    assert [stage["frames"] for stage in stages] == [0, 0, 4]
    assert stages[0]["steps"] <= 50
    assert stages[0]["energy_after"] < stages[0]["energy_before"]
    assert [row["step"] for row in rows(job.output("equilibration_1.csv"))] == [20, 40, 60]
    assert [row["step"] for row in rows(job.output("production.csv"))] == list(range(10, 101, 10))
    assert not job.output("equilibration_1.dcd").exists()
    assert np.isfinite(frames(job.output("production.dcd"))).all()
    for name in ("minimization", "equilibration_1", "production"):
        assert job.output(f"{name}.pdb").exists()


def test_an_excerpt_has_the_numbers_of_its_atoms_in_every_frame_to_the_bit(
    villin: Directory, simulation: Callable[..., Directory]
) -> None:
    # With gaps, and the last atom; more frames than are read at a time would be slow to simulate.
    atoms = [*range(0, 596, 2), 4000]
    job = simulation(villin, [{"ensemble": "NPT", "steps": 40, "traj_freq": 10}], excerpt_atoms=atoms)
    assert job.run() == 0, job.log()
    whole, part = job.output("production.dcd"), job.output("excerpt.dcd")
    expected = frames(whole)[:, atoms]
    assert (frames(part).view(np.uint32) == expected.view(np.uint32)).all()
    # Times and cells are those of the whole.
    n_atoms = struct.unpack_from("<i", whole.read_bytes(), 268)[0]
    assert whole.read_bytes()[:268] == part.read_bytes()[:268]
    cells = [
        [path.read_bytes()[276 + n * size :][:56] for n in range(4)]
        for path, size in ((whole, 56 + 3 * (4 * n_atoms + 8)), (part, 56 + 3 * (4 * len(atoms) + 8)))
    ]
    assert cells[0] == cells[1]
    of_all, of_part = (app.PDBFile(str(job.output(f"{name}.pdb"))) for name in ("production", "excerpt"))
    named = [(atom.name, atom.residue.name, atom.residue.id, atom.residue.chain.id) for atom in of_all.topology.atoms()]
    found = [
        (atom.name, atom.residue.name, atom.residue.id, atom.residue.chain.id) for atom in of_part.topology.atoms()
    ]
    assert found == [named[atom] for atom in atoms]
    positions = of_all.getPositions(asNumpy=True)._value[atoms]
    assert (of_part.getPositions(asNumpy=True)._value == positions).all()
    assert of_part.topology.getPeriodicBoxVectors() == of_all.topology.getPeriodicBoxVectors()


def test_an_excerpt_is_written_in_as_many_parts_as_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DcdFile(tmp_path / "whole.dcd", 5, 1, 0.001, None)
    generator = np.random.default_rng(3)
    for _ in range(7):
        whole.write(generator.normal(size=(5, 3)), np.diag([1.0, 2.0, 3.0]))
    whole.commit()
    whole.close()
    monkeypatch.setattr(excerpt, "CHUNK_BYTES", 2 * (56 + 3 * 28))
    calls: list[None] = []
    atoms = np.array([1, 4])
    excerpt.write_trajectory(tmp_path / "whole.dcd", tmp_path / "part.dcd", atoms, lambda: calls.append(None))
    assert (frames(tmp_path / "part.dcd") == frames(tmp_path / "whole.dcd")[:, atoms]).all()
    assert len(calls) == 4


def header_of(path: Path) -> tuple[int, int]:
    """How many frames a trajectory says that it has, and how many there are."""
    data = path.read_bytes()
    (n_atoms,) = struct.unpack_from("<i", data, 268)
    (counted,) = struct.unpack_from("<i", data, 8)
    return counted, (len(data) - 276) // (56 + 3 * (4 * n_atoms + 8))


def test_a_trajectory_counts_the_frames_that_are_not_committed(tmp_path: Path) -> None:
    path = tmp_path / "left.dcd"
    left = DcdFile(path, 5, 10, 0.001, None)
    committed = 0
    for i in range(7):
        left.write(np.zeros((5, 3)), np.eye(3))
        committed = committed or left.commit()
        assert header_of(path) == (i + 1, i + 1), "as whoever reads it at any moment finds it"
    resumed = DcdFile(path, 5, 10, 0.001, committed)
    assert header_of(path) == (1, 1)
    resumed.close()
    left.close()
    assert b"OpenMM" not in path.read_bytes()[:276], "it may be of GROMACS"


def test_a_stage_has_its_method_as_the_engine_was_given_it(
    villin: Directory, simulation: Callable[..., Directory]
) -> None:
    held = list(range(20))
    stages = [
        {"name": "equilibration_1", "ensemble": "NVT", "steps": 2, "restraint_force": 500.0, "restraint_atoms": held},
        {"ensemble": "NPT", "steps": 2},
    ]
    job = simulation(villin, stages, timestep_fs=4.0, hydrogen_mass_da=3.0, cutoff_nm=0.9, threads=2)
    assert job.run() == 0, job.log()
    first, last = (
        json.loads(job.output(f"{name}.method.json").read_text()) for name in ("equilibration_1", "production")
    )
    system = openmm.XmlSerializer.deserialize(villin.output("system.xml").read_text())
    constraints = first["constraints"]
    assert constraints["of_water"] + constraints["of_others"] == system.getNumConstraints()
    molecules = villin.result["summary"]["molecules"]
    assert constraints["of_water"] == 3 * molecules["water"], "three distances each"
    assert constraints["algorithms"] == ["SETTLE", "CCMA"]
    assert first["restraint"] == {"atoms": 20, "force": 500.0}
    assert "restraint" not in last
    assert "barostat" not in first
    assert (last["barostat"]["name"], last["barostat"]["pressure_bar"]) == ("MonteCarloBarostat", 1.0)
    assert first["integrator"]["name"] == "LangevinMiddleIntegrator"
    assert (first["integrator"]["timestep_fs"], first["hydrogen_mass_da"]) == (4.0, 3.0)
    assert first["integrator"]["seed"] != last["integrator"]["seed"]
    nonbonded = last["nonbonded"]
    assert (nonbonded["method"], nonbonded["cutoff_nm"], nonbonded["dispersion_correction"]) == ("PME", 0.9, True)
    # What the direct space leaves out at the cutoff is the tolerance, by OpenMM's definition.
    left_out = math.exp(-((nonbonded["width_per_nm"] * 0.9) ** 2)) / 2
    assert left_out == pytest.approx(nonbonded["ewald_tolerance"], rel=1e-6)
    # As fine as the tolerance needs, by OpenMM's definition, and rounded up to what is fast.
    box = np.array([vector[axis]._value for axis, vector in enumerate(system.getDefaultPeriodicBoxVectors())])
    needed = 2 * nonbonded["width_per_nm"] * box / (3 * nonbonded["ewald_tolerance"] ** 0.2)
    mesh = np.array(nonbonded["mesh"])
    assert (mesh >= needed).all() and (mesh <= 1.2 * needed + 1).all(), (mesh, needed)
    machine = last["machine"]
    assert (machine["threads"], machine["architecture"]) == (2, platform.machine())
    assert machine["processor"]
    assert last["engine"]["version"] == job.result["versions"]["openmm"]


def test_nvt_keeps_the_volume_and_npt_changes_it(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(
        water,
        [
            {"name": "equilibration_1", "ensemble": "NVT", "steps": 50, "log_freq": 10},
            {"name": "production", "ensemble": "NPT", "steps": 200, "log_freq": 10},
        ],
    )
    assert job.run() == 0, job.log()
    assert len({row["volume (nm^3)"] for row in rows(job.output("equilibration_1.csv"))}) == 1
    assert len({row["volume (nm^3)"] for row in rows(job.output("production.csv"))}) > 1


def test_pressure_acts(water: Directory, simulation: Callable[..., Directory]) -> None:
    density = {}
    for pressure in (1, 5000):
        stage = {"ensemble": "NPT", "steps": 1000, "log_freq": 100}
        job = simulation(water, [stage], pressure_bar=pressure)
        assert job.run() == 0, job.log()
        density[pressure] = np.mean([row["density (g/mL)"] for row in rows(job.output("production.csv"))[5:]])
    # Water of 4.5e-5 per bar gives up a tenth of its volume, and the box as built has voids to lose.
    assert density[5000] > density[1] + 0.05


def test_without_friction_energy_is_conserved(water: Directory, simulation: Callable[..., Directory]) -> None:
    spread = {}
    for friction in (0, 50):
        stages = [{"name": "equilibration_1", "steps": 200}, {"steps": 400, "log_freq": 20}]
        job = simulation(water, stages, friction_per_ps=friction, timestep_fs=1, ewald_tolerance=1e-5)
        assert job.run() == 0, job.log()
        written = rows(job.output("production.csv"))
        total = [row["potential energy (kJ/mol)"] + row["kinetic energy (kJ/mol)"] for row in written]
        spread[friction] = np.std(total)
    # Nothing goes in or out but what the finite step and the cutoff do.
    assert spread[0] < 0.2 * spread[50], spread


@pytest.mark.parametrize(("cutoff", "tolerance"), [(0.8, 5e-4), (1.1, 1e-5)])
def test_cutoff_and_ewald_tolerance_are_those_of_the_energy(
    water: Directory, simulation: Callable[..., Directory], cutoff: float, tolerance: float
) -> None:
    job = simulation(water, [], cutoff_nm=cutoff, ewald_tolerance=tolerance, minimization_steps=0)
    assert job.run() == 0, job.log()
    system = openmm.XmlSerializer.deserialize(water.output("system.xml").read_text())
    nonbonded = next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    energy = {}
    for which in ("as built", "as asked"):
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
        context.setState(openmm.XmlSerializer.deserialize(water.output("state.xml").read_text()))
        context.applyConstraints(1e-6)
        energy[which] = context.getState(energy=True).getPotentialEnergy()._value
        nonbonded.setCutoffDistance(cutoff)
        nonbonded.setEwaldErrorTolerance(tolerance)
    # The CPU platform calculates in single precision.
    assert job.result["stages"][0]["energy_before"] == pytest.approx(energy["as asked"], rel=2e-5)
    assert abs(energy["as built"] - energy["as asked"]) > 1e-4 * abs(energy["as asked"])


def test_the_thermostat_holds_the_temperature(water: Directory, simulation: Callable[..., Directory]) -> None:
    # A strong coupling, so that few steps decorrelate.
    job = simulation(water, [{"steps": 1500, "log_freq": 10}], friction_per_ps=50, temperature_k=350)
    assert job.run() == 0, job.log()
    temperatures = [row["temperature (K)"] for row in rows(job.output("production.csv"))[75:]]
    # One value scatters by T sqrt(2/3N) = 10 K here; 75 correlated ones leave less than 5 K.
    assert np.mean(temperatures) == pytest.approx(350, abs=10)


def test_a_restraint_holds_its_atoms(water: Directory, simulation: Callable[..., Directory]) -> None:
    topology = json.loads(water.output("topology.json").read_text())
    oxygens = [i for i, name in enumerate(topology["atoms"]["name"]) if name == "O"]
    held, free = oxygens[::2], oxygens[1::2]
    force = 100_000.0
    stage = {"steps": 600, "traj_freq": 5, "restraint_force": force, "restraint_atoms": held}
    job = simulation(water, [stage], friction_per_ps=10)
    assert job.run() == 0, job.log()
    written = frames(job.output("production.dcd"))[20:] / 10
    variance = written.var(axis=0).sum(axis=1)
    # Equipartition: k <r²> = 3 kT; what surrounds an atom holds it a little more.
    assert 0.7 < variance[held].mean() / (3 * 0.0083145 * 300 / force) < 1.1
    assert variance[free].mean() > 2 * variance[held].mean()


def test_heavier_hydrogens_leave_the_mass_and_water_alone(
    villin: Directory, simulation: Callable[..., Directory]
) -> None:
    stage = {"steps": 20, "log_freq": 10}
    density = {}
    for mass in (None, 3.0):
        job = simulation(villin, [stage], hydrogen_mass_da=mass, timestep_fs=4 if mass else 1)
        assert job.run() == 0, job.log()
        density[mass] = rows(job.output("production.csv"))[0]["density (g/mL)"]
    # The same volume, so the same density is the same mass.
    assert density[3.0] == pytest.approx(density[None], rel=1e-5)


def test_a_zero_step_stage_and_no_minimisation_are_allowed(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    job = simulation(water, [{"steps": 0}], minimization_steps=0)
    assert job.run() == 0, job.log()
    assert [stage["steps"] for stage in job.result["stages"]] == [0, 0]


def test_an_unstable_simulation_says_where_it_broke(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(water, [{"steps": 2000}], temperature_k=1e7, timestep_fs=5, minimization_steps=0)
    assert job.run() == 2
    failure = job.result["error"]
    assert failure["code"] == "unstable"
    assert failure["stage"] == "production"
    assert 0 <= failure["step"] < 2000
    assert "integration_timestep" in failure["remedy"]
    # Where it broke: atoms with their forces, and the term of the energy.
    assert " of HOH " in failure["message"] and "kJ/mol/nm" in failure["message"]
    assert any(term in failure["message"] for term in ("NonbondedForce", "HarmonicBondForce"))


def test_a_box_that_collapses_in_openmm_is_told(water: Directory, simulation: Callable[..., Directory]) -> None:
    box = openmm.XmlSerializer.deserialize(water.output("state.xml").read_text()).getPeriodicBoxVectors()
    cutoff = round(box[0][0]._value / 2 - 0.02, 3)
    job = simulation(water, [{"ensemble": "NPT", "steps": 4000}], pressure_bar=50_000, cutoff_nm=cutoff)
    assert job.run() == 2, job.log()
    assert job.result["error"]["code"] == "box_collapsed", job.result["error"]


def changed_system(job: Directory, change: Callable[[openmm.System], None]) -> None:
    """Change the system of a job, as it might have been brought."""
    path = job.path / "input" / "system.xml"
    system = openmm.XmlSerializer.deserialize(path.read_text())
    change(system)
    path.write_text(openmm.XmlSerializer.serialize(system))


def nonbonded_of(system: openmm.System) -> openmm.NonbondedForce:
    return next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))


def test_a_cutoff_before_the_systems_switch_is_refused(water: Directory, simulation: Callable[..., Directory]) -> None:
    def switch(system: openmm.System) -> None:
        nonbonded_of(system).setUseSwitchingFunction(True)
        nonbonded_of(system).setSwitchingDistance(1.0)

    job = simulation(water, [{"steps": 10}], cutoff_nm=1.0)
    changed_system(job, switch)
    assert job.run() == 2
    error = job.result["error"]
    assert (error["code"], error["loc"]) == ("cutoff_below_switch", ["body", "non_bonded_cutoff"]), error
    assert "is switched off from 1 nm on" in error["message"]


def test_a_mesh_that_the_system_fixes_gives_way_to_the_tolerance(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    as_built, fixed = (simulation(water, [{"steps": 2}], minimization_steps=0) for _ in range(2))
    changed_system(fixed, lambda system: nonbonded_of(system).setPMEParameters(2.0, 16, 16, 16))
    methods = []
    for job in (as_built, fixed):
        assert job.run() == 0, job.log()
        methods.append(json.loads(job.output("production.method.json").read_text())["nonbonded"])
    assert methods[0] == methods[1]
    assert methods[0]["width_per_nm"] != 2.0


def test_the_energy_before_is_that_of_molecules_whose_constraints_are_kept(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    job = simulation(water, [], minimization_steps=0)
    path = job.path / "input" / "state.xml"
    context = openmm.Context(
        openmm.XmlSerializer.deserialize((job.path / "input" / "system.xml").read_text()),
        openmm.VerletIntegrator(0.001),
        openmm.Platform.getPlatformByName("Reference"),
    )
    context.setState(openmm.XmlSerializer.deserialize(path.read_text()))
    positions = context.getState(positions=True).getPositions(asNumpy=True)._value
    noise = np.random.default_rng(5).normal(scale=0.01, size=positions.shape)
    context.setPositions(positions + noise)
    path.write_text(openmm.XmlSerializer.serialize(context.getState(positions=True)))
    as_given = context.getState(energy=True).getPotentialEnergy()._value
    context.applyConstraints(1e-6)
    kept = context.getState(energy=True).getPotentialEnergy()._value
    assert job.run() == 0, job.log()
    assert abs(kept - as_given) > 0.05 * abs(kept)
    assert job.result["stages"][0]["energy_before"] == pytest.approx(kept, rel=1e-3)


def test_an_instability_of_more_forces_than_openmm_has_groups_is_told(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    def add_forces(system: openmm.System) -> None:
        for i in range(40):
            force = openmm.CustomExternalForce("0*x")
            force.setName(f"field {i}")
            system.addForce(force)

    job = simulation(water, [{"steps": 2000}], temperature_k=1e7, timestep_fs=5, minimization_steps=0)
    changed_system(job, add_forces)
    assert job.run() == 2
    assert job.result["error"]["code"] == "unstable", job.result


def test_an_instability_is_traced_to_the_atoms_that_cause_it(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    # Two oxygens are put almost into one place.
    topology = json.loads(water.output("topology.json").read_text())
    first, second = [i for i, name in enumerate(topology["atoms"]["name"]) if name == "O"][10:12]
    job = simulation(water, [{"steps": 200}], minimization_steps=0)
    path = job.path / "input" / "state.xml"
    state = openmm.XmlSerializer.deserialize(path.read_text())
    positions = state.getPositions(asNumpy=True)._value.copy()
    positions[second : second + 3] += positions[first] - positions[second] + [0.02, 0, 0]
    context = openmm.Context(
        openmm.XmlSerializer.deserialize((job.path / "input" / "system.xml").read_text()),
        openmm.VerletIntegrator(0.001),
        openmm.Platform.getPlatformByName("Reference"),
    )
    context.setPositions(positions)
    path.write_text(openmm.XmlSerializer.serialize(context.getState(positions=True)))
    assert job.run() == 2
    failure = job.result["error"]
    assert failure["code"] == "unstable", failure
    residues = {topology["residues"]["id"][topology["atoms"]["residue"][i]] for i in (first, second)}
    assert all(f"HOH {residue} " in failure["message"] for residue in residues), failure["message"]
    named = {residue["residue_id"]: topology["residues"]["id"][residue["index"] - 1] for residue in failure["residues"]}
    assert residues <= named.keys() and all(number == counted for number, counted in named.items()), failure
    assert "NonbondedForce" in failure["message"]


def test_on_one_thread_a_killed_simulation_gives_the_same_bytes(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    stages = [
        {"name": "equilibration_1", "steps": 150, "log_freq": 10},
        {"ensemble": "NPT", "steps": 500, "traj_freq": 20, "log_freq": 10},
    ]
    whole = simulation(water, stages, checkpoint_seconds=0.5)
    assert whole.run() == 0, whole.log()
    killed = simulation(water, stages, checkpoint_seconds=0.5)
    commit = killed.work / "commit" / "commit.json"
    for _ in range(3):
        process = killed.start()
        before = commit.read_bytes() if commit.exists() else b""
        wait_for(lambda p=process, b=before: p.poll() is not None or (commit.exists() and commit.read_bytes() != b))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert killed.run() == 0, killed.log()
    for name in ("production.dcd", "production.csv", "production.pdb", "production.state.xml", "equilibration_1.csv"):
        assert whole.output(name).read_bytes() == killed.output(name).read_bytes(), name


@pytest.mark.parametrize("threads", [1, 2])
def test_a_finished_job_can_be_extended(water: Directory, simulation: Callable[..., Directory], threads: int) -> None:
    stages = [
        {"name": "equilibration_1", "steps": 40, "log_freq": 10},
        {"ensemble": "NPT", "steps": 130, "traj_freq": 20, "log_freq": 10},
    ]
    longer = [stages[0], {**stages[1], "steps": 300}]
    short = simulation(water, stages, threads=threads, checkpoint_seconds=0.5)
    assert short.run() == 0, short.log()
    extended = simulation(water, longer, threads=threads, checkpoint_seconds=0.5)
    # What the service puts there: the results of the job as it was.
    for folder in ("output", "commit"):
        shutil.copytree(short.work / folder, extended.work / folder)
    assert extended.run() == 0, extended.log()
    assert "minimization:" not in extended.log(), "it does not begin again"
    assert [row["step"] for row in rows(extended.output("production.csv"))] == list(range(10, 301, 10))
    written = frames(extended.output("production.dcd"))
    assert len(written) == 15
    before = frames(short.output("production.dcd"))
    assert np.array_equal(written[: len(before)], before), "what was written stays"
    assert [stage["steps"] for stage in extended.result["stages"]][1:] == [40, 300]
    if threads == 1:
        whole = simulation(water, longer, threads=threads, checkpoint_seconds=0.5)
        assert whole.run() == 0, whole.log()
        for name in ("production.dcd", "production.csv", "production.state.xml"):
            assert whole.output(name).read_bytes() == extended.output(name).read_bytes(), name


def test_a_killed_simulation_goes_on_without_a_missing_or_doubled_frame(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    stages = [
        {"name": "equilibration_1", "steps": 300, "traj_freq": 50, "log_freq": 10},
        {"name": "production", "ensemble": "NPT", "steps": 2000, "traj_freq": 20, "log_freq": 5},
    ]
    job = simulation(water, stages, checkpoint_seconds=0.3)
    commit, kills = job.work / "commit" / "commit.json", 0
    while True:
        process = job.start()
        before = commit.read_bytes() if commit.exists() else b""
        # Each life must commit something before it is ended, so that this ends.
        wait_for(lambda p=process, b=before: p.poll() is not None or (commit.exists() and commit.read_bytes() != b))
        if process.poll() is None and kills < 5:
            time.sleep(0.05 * kills)
            process.send_signal(signal.SIGKILL)
            kills += 1
        if process.wait() == 0:
            break
    assert kills == 5
    for stage in stages:
        name, steps = stage["name"], stage["steps"]
        assert isinstance(steps, int)
        logged = [row["step"] for row in rows(job.output(f"{name}.csv"))]
        assert logged == list(range(stage["log_freq"], steps + 1, stage["log_freq"]))  # type: ignore[call-overload]
        written = frames(job.output(f"{name}.dcd"))
        assert len(written) == steps // stage["traj_freq"]  # type: ignore[operator]
        moves = np.abs(np.diff(written, axis=0)).reshape(len(written) - 1, -1).max(axis=1)
        assert (moves > 0).all(), "no frame is there twice"


def test_sigterm_commits_and_leaves(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(water, [{"steps": 1_000_000, "log_freq": 10}], checkpoint_seconds=1000, threads=2)
    process = job.start()
    wait_for(lambda: progress(job).get("stage") == "production")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 3
    commit = json.loads((job.work / "commit" / "commit.json").read_text())
    assert commit["step"] > 0
    assert (job.work / "commit" / commit["checkpoint"]["file"]["name"]).exists()
    assert not (job.work / "result.json").exists()


def test_on_one_thread_a_stopped_simulation_gives_the_same_bytes(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    stages = [{"ensemble": "NPT", "steps": 600, "traj_freq": 20, "log_freq": 20}]
    whole = simulation(water, stages, checkpoint_seconds=0.5)
    assert whole.run() == 0, whole.log()
    stopped = simulation(water, stages, checkpoint_seconds=0.5)
    process = stopped.start()
    wait_for(lambda: committed_step(stopped) > 0)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 3
    assert stopped.run() == 0, stopped.log()
    for name in ("production.dcd", "production.csv"):
        assert whole.output(name).read_bytes() == stopped.output(name).read_bytes(), name


def progress(job: Directory) -> dict[str, Any]:
    path = job.work / "progress.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def committed_step(job: Directory) -> int:
    path = job.work / "commit" / "commit.json"
    return int(json.loads(path.read_text())["step"]) if path.exists() else 0


def test_a_directory_that_is_a_later_attempt_s_is_committed_to_no_more(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    job = simulation(water, [{"steps": 100_000_000}], checkpoint_seconds=0.1)
    fence = job.path / "attempt"
    fence.write_text("1")
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    # As the service does before it starts another attempt.
    (job.path / "attempt.tmp").write_text("2")
    (job.path / "attempt.tmp").replace(fence)
    before = (job.work / "commit" / "commit.json").read_bytes()
    assert process.wait() == 75
    # It may have been at it just then.
    after = (job.work / "commit" / "commit.json").read_bytes()
    assert json.loads(after)["number"] <= json.loads(before)["number"] + 1
    assert not (job.work / "result.json").exists()


def test_a_damaged_checkpoint_is_noticed(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(water, [{"steps": 400, "log_freq": 20}], checkpoint_seconds=0.2)
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    checkpoint = json.loads((job.work / "commit" / "commit.json").read_text())["checkpoint"]
    # The state beside it serves as well.
    _cut(job, checkpoint["file"]["name"])
    undamaged = shutil.copytree(job.path, job.path.with_name("undamaged"))
    method = job.output("production.method.json")
    seed = json.loads(method.read_text())["integrator"]["seed"]
    assert job.run() == 0, job.log()
    # The same random forces over again would be no heat bath.
    assert json.loads(method.read_text())["integrator"]["seed"] != seed
    assert [warning["code"] for warning in job.result["warnings"]] == ["state_resumed"]
    assert [row["step"] for row in rows(job.output("production.csv"))] == list(range(20, 401, 20))
    job.path = undamaged
    _cut(job, checkpoint["state"]["name"])
    assert job.run() == 2
    assert job.result["error"]["code"] == "checkpoint_damaged"


def _cut(job: Directory, name: str) -> None:
    path = job.work / "commit" / name
    path.write_bytes(path.read_bytes()[:-1000])


def test_a_simulation_goes_on_on_another_platform_from_its_state(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    job = simulation(water, [{"steps": 400, "log_freq": 20}], checkpoint_seconds=0.2)
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    commit = json.loads((job.work / "commit" / "commit.json").read_text())
    # As if that had been a GPU's.
    commit["checkpoint"]["platform"] = "CUDA"
    (job.work / "commit" / "commit.json").write_text(json.dumps(commit))
    assert job.run() == 0, job.log()
    assert [row["step"] for row in rows(job.output("production.csv"))] == list(range(20, 401, 20))


def test_on_one_thread_a_killed_minimisation_gives_the_same_bytes(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    settings = {"minimization_steps": 60, "checkpoint_seconds": 0.05}
    whole = simulation(water, [], **settings)
    assert whole.run() == 0, whole.log()
    killed = simulation(water, [], **settings)
    assert lives(killed) > 5
    assert whole.output("minimization.state.xml").read_bytes() == killed.output("minimization.state.xml").read_bytes()
    ends = [job.result["stages"][0] for job in (whole, killed)]
    assert [end.pop("seconds") > 0 for end in ends] == [True, True]
    assert ends[0] == ends[1]
    assert ends[0]["steps"] == 60


def test_a_minimisation_ends_however_often_it_is_killed(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(water, [], minimization_steps=100, threads=2)
    assert lives(job) > 2
    end = job.result["stages"][0]
    assert end["steps"] == 100
    whole = simulation(water, [], minimization_steps=100, threads=2)
    assert whole.run() == 0
    # It takes another way down each time: of 5,900 kJ/mol they were 300 apart.
    energy = whole.result["stages"][0]["energy_after"]
    assert end["energy_after"] == pytest.approx(energy, abs=0.1 * (end["energy_before"] - energy))


def lives(job: Directory) -> int:
    """Run a job whose worker is killed after each commit; how many it took."""
    commit, n_lives = job.work / "commit" / "commit.json", 0
    while True:
        n_lives += 1
        before = commit.read_bytes() if commit.exists() else b""
        process = job.start()
        wait_for(lambda p=process, b=before: p.poll() is not None or (commit.exists() and commit.read_bytes() != b))
        process.send_signal(signal.SIGKILL)
        if process.wait() >= 0:
            assert process.returncode == 0, job.log()
            return n_lives


def test_a_minimisation_with_steps_to_spare_gets_as_low_as_openmm_does(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    # More than OpenMM counts to.
    job = simulation(water, [], minimization_steps=2**40)
    assert job.run() == 0, job.log()
    end = job.result["stages"][0]
    assert end["steps"] < 5000
    assert not warnings_of(job), "it converged"
    assert end["largest_force"] < 300
    system = openmm.XmlSerializer.deserialize(water.output("system.xml").read_text())
    integrator = openmm.VerletIntegrator(0.001)
    integrator.setConstraintTolerance(1e-6)
    # On one thread, like the job: the minimum that is found hangs on the last bits of the forces.
    one_thread = {"Threads": "1", "DeterministicForces": "true"}
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("CPU"), one_thread)
    context.setState(openmm.XmlSerializer.deserialize(water.output("state.xml").read_text()))
    openmm.LocalEnergyMinimizer.minimize(context)
    own = context.getState(energy=True).getPotentialEnergy()._value
    # Of the many minima of water each finds another, 1.2 % apart at times.
    assert end["energy_after"] < own + 0.03 * abs(own)
    assert end["energy_before"] > own + 1_000, "there was something to do"


def warnings_of(job: Directory) -> dict[str, str]:
    return {warning["code"]: warning["message"] for warning in job.result["warnings"]}


@pytest.mark.parametrize(("steps", "is_told"), [(0, True), (5, True), (150, False)])
def test_large_forces_that_remain_are_told(
    water: Directory, simulation: Callable[..., Directory], steps: int, is_told: bool
) -> None:
    job = simulation(water, [{"steps": 10}], minimization_steps=steps)
    assert job.run() == 0, job.log()
    assert job.result["stages"][0]["steps"] == steps, "the limit is of all passes"
    message = warnings_of(job).get("minimization_unfinished")
    assert (message is not None) == is_told, message
    if message:
        assert f"after {steps} of at most {steps}" in message
        assert " of HOH " in message


def test_warnings_survive_a_kill(water: Directory, simulation: Callable[..., Directory]) -> None:
    job = simulation(water, [{"steps": 300}], minimization_steps=2, checkpoint_seconds=0.2)
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert job.run() == 0, job.log()
    assert [warning["code"] for warning in job.result["warnings"]] == ["minimization_unfinished"]


def test_what_is_no_number_in_the_last_step_of_a_stage_is_noticed(
    water: Directory, simulation: Callable[..., Directory]
) -> None:
    # One step with velocities whose squares overflow; nothing is logged and no frame is written.
    for name in ("equilibration_1", "production"):
        job = simulation(water, [{"name": name, "steps": 1}], temperature_k=1e300, timestep_fs=5)
        assert job.run() == 2, job.log()
        assert (job.result["error"]["code"], job.result["error"]["stage"]) == ("unstable", name)
        assert job.result["error"]["step"] == 0


def test_stages_without_steps_are_allowed(water: Directory, simulation: Callable[..., Directory]) -> None:
    stages = [
        {"name": "equilibration_1", "steps": 0, "log_freq": 1},
        {"name": "equilibration_2", "steps": 0, "ensemble": "NPT"},
        {"steps": 20, "traj_freq": 20},
    ]
    job = simulation(water, stages)
    assert job.run() == 0, job.log()
    assert [(stage["steps"], stage["frames"]) for stage in job.result["stages"][1:]] == [(0, 0), (0, 0), (20, 1)]
    assert rows(job.output("equilibration_1.csv")) == []


def test_parts_of_a_stage_that_ran_otherwise_are_kept(tmp_path: Path) -> None:
    def used(precision: str, seed: int = 1) -> method.Method:
        return method.Method(
            stage="production",
            ensemble="NVT",
            steps=100,
            engine=method.Engine("openmm", "8.6", precision, platform="CUDA"),
            machine=method.machine(1),
            integrator=method.Integrator("LangevinMiddleIntegrator", 2.0, 300.0, 1.0, seed),
            barostat=None,
            constraints=method.Constraints(3, 0, ["SETTLE"], 1e-6),
            nonbonded=None,
            restraint=None,
            hydrogen_mass_da=None,
            removes_drift=True,
        )

    def parts() -> list[tuple[str, list[int]]]:
        content = json.loads((tmp_path / "production.method.json").read_text())
        return [(part["engine"]["precision"], part["steps"]) for part in content.get("before", [])]

    method.write(tmp_path, used("mixed"), 0)
    method.write(tmp_path, used("mixed", seed=2), 10)
    assert parts() == [], "a part is none for its seeds"
    method.write(tmp_path, used("double"), 20)
    assert parts() == [("mixed", [0, 20])]
    method.write(tmp_path, used("mixed"), 20)
    assert parts() == [], "the attempt between took no step"
    method.write(tmp_path, used("double"), 30)
    method.write(tmp_path, used("single"), 40)
    method.write(tmp_path, used("single"), 50)
    assert parts() == [("mixed", [0, 30]), ("double", [30, 40])]
    method.write(tmp_path, used("double"), 0)
    assert parts() == [], "the stage began anew"


def test_times_are_exact(water: Directory, simulation: Callable[..., Directory]) -> None:
    for timestep, first, last in ((2, "0.0060", "0.0600"), (0.01, "0.00003", "0.0003"), (1 / 3, "0.", "0.0")):
        job = simulation(water, [{"steps": 30, "log_freq": 3}], timestep_fs=timestep, minimization_steps=100)
        assert job.run() == 0, job.log()
        times = [line.split(",")[1] for line in job.output("production.csv").read_text().splitlines()[1:]]
        assert times[0].startswith(first)
        assert times[-1].startswith(last)
        assert [float(time) for time in times] == pytest.approx([n * timestep * 0.003 for n in range(1, 11)])
        assert len(set(times)) == 10


def test_a_trajectory_of_more_steps_than_its_header_holds_can_be_written(tmp_path: Path) -> None:
    for interval in (2**31, 10**12):
        file = DcdFile(tmp_path / "long.dcd", 3, interval, 0.002, None)
        for _ in range(2):
            file.write(np.zeros((3, 3)), np.eye(3))
        file.commit()
        file.close()
        data = (tmp_path / "long.dcd").read_bytes()
        n_frames, first, between = struct.unpack_from("<3i", data, 8)
        (timestep,) = struct.unpack_from("<f", data, 44)
        assert n_frames == 2
        assert first == between
        assert between * timestep * AKMA_PS == pytest.approx(interval * 0.002)


def test_what_is_no_number_is_not_written_as_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"energy": math.nan})
