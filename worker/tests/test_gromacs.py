"""Stages run by GROMACS: the same files, the same physics, the same promises as with OpenMM."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import Directory
from test_simulate import committed_step, frames, header_of, nonbonded_of, progress, rows, wait_for, warnings_of

from molbox_worker.gromacs import program
from molbox_worker.gromacs.program import find

pytestmark = pytest.mark.skipif(shutil.which("gmx") is None, reason="needs gmx: Debian's package gromacs")

Simulator = Callable[..., Directory]
NAMES = ("production.dcd", "production.csv", "production.pdb", "production.state.xml")


@pytest.fixture
def gromacs(simulation: Simulator) -> Simulator:
    """A simulation whose stages GROMACS runs."""

    def prepare(system: Directory, stages: list[dict[str, Any]], **changes: Any) -> Directory:
        return simulation(system, stages, **{"engine": "gromacs", **changes})

    return prepare


def test_a_job_has_the_same_files_as_with_openmm(water: Directory, simulation: Simulator) -> None:
    stages = [
        {"name": "equilibration_1", "ensemble": "NVT", "steps": 60, "log_freq": 20},
        {"name": "production", "ensemble": "NPT", "steps": 130, "traj_freq": 25, "log_freq": 7},
    ]
    jobs = {engine: simulation(water, stages, engine=engine) for engine in ("openmm", "gromacs")}
    for engine, job in jobs.items():
        assert job.run() == 0, job.log()
        assert job.result["engine"] == engine
        assert ("gromacs" in job.result["versions"]) == (engine == "gromacs")
    names = [sorted(path.name for path in job.output(".").iterdir()) for job in jobs.values()]
    assert names[0] == names[1]
    for name in ("equilibration_1.csv", "production.csv"):
        ours, theirs = (rows(job.output(name)) for job in jobs.values())
        assert [(row["step"], row["time (ps)"]) for row in ours] == [(row["step"], row["time (ps)"]) for row in theirs]
        assert ours[0].keys() == theirs[0].keys()
    assert [row["step"] for row in rows(jobs["gromacs"].output("production.csv"))] == list(range(7, 130, 7))
    for stage in stages:
        for job in jobs.values():
            state = openmm.XmlSerializer.deserialize(job.output(f"{stage['name']}.state.xml").read_text())
            assert state.getStepCount() == stage["steps"]
            assert state.getTime()._value == pytest.approx(stage["steps"] * 2e-3)
    written = [frames(job.output("production.dcd")) for job in jobs.values()]
    assert written[0].shape == written[1].shape == (5, written[0].shape[1], 3)


def test_a_stage_has_its_method_as_gromacs_was_given_it(villin: Directory, simulation: Simulator) -> None:
    stages = [{"name": "equilibration_1", "ensemble": "NVT", "steps": 20}, {"ensemble": "NPT", "steps": 20}]
    jobs = {engine: simulation(villin, stages, engine=engine) for engine in ("openmm", "gromacs")}
    for job in jobs.values():
        assert job.run() == 0, job.log()
    openmms, ours = (json.loads(job.output("production.method.json").read_text()) for job in jobs.values())
    assert ours.keys() == openmms.keys()
    for same in ("stage", "ensemble", "steps", "removes_drift", "machine"):
        assert ours[same] == openmms[same], same
    for same in ("of_water", "of_others"):
        assert ours["constraints"][same] == openmms["constraints"][same]
    assert ours["constraints"]["algorithms"] == ["SETTLE", "LINCS"]
    assert ours["integrator"]["name"] == "sd"
    for same in ("timestep_fs", "temperature_k", "friction_per_ps"):
        assert ours["integrator"][same] == pytest.approx(openmms["integrator"][same])
    assert (ours["barostat"]["name"], ours["barostat"]["tau_ps"]) == ("C-rescale", 5.0)
    assert ours["nonbonded"]["width_per_nm"] == pytest.approx(openmms["nonbonded"]["width_per_nm"], rel=1e-6)
    # OpenMM tells its mesh on a GPU alone.
    as_both = {"width_per_nm": 0, "mesh": None}
    assert {**ours["nonbonded"], **as_both} == {**openmms["nonbonded"], **as_both}
    first = json.loads(jobs["gromacs"].output("equilibration_1.method.json").read_text())
    assert "barostat" not in first


def test_a_stage_without_steps_ends_with_velocities_that_the_next_begins_with(
    water: Directory, gromacs: Simulator
) -> None:
    stages = [{"name": "equilibration_1", "steps": 0}, {"steps": 20, "log_freq": 1}]
    job = gromacs(water, stages, minimization_steps=0)
    assert job.run() == 0, job.log()
    assert [stage["steps"] for stage in job.result["stages"]] == [0, 0, 20]
    assert rows(job.output("production.csv"))[0]["temperature (K)"] > 200
    state = openmm.XmlSerializer.deserialize(job.output("equilibration_1.state.xml").read_text())
    assert np.abs(state.getVelocities(asNumpy=True)._value).max() > 1


def test_killed_at_any_moment_it_gives_the_same_bytes(water: Directory, gromacs: Simulator) -> None:
    stages = [
        {"name": "equilibration_1", "ensemble": "NVT", "steps": 230, "log_freq": 10},
        # Many segments, each a process that takes a while to start, so that no life runs far.
        {"ensemble": "NPT", "steps": 1600, "traj_freq": 50, "log_freq": 10},
    ]
    whole = gromacs(water, stages, checkpoint_seconds=0.5)
    assert whole.run() == 0, whole.log()
    killed = gromacs(water, stages, checkpoint_seconds=0.5)
    chance, commit, kills = random.Random(1), killed.work / "commit" / "commit.json", 0
    while True:
        process = killed.start()
        # Every other life commits something first, so that this ends.
        before = commit.read_bytes() if commit.exists() else b""
        if kills % 2:
            wait_for(lambda p=process, b=before: p.poll() is not None or (commit.exists() and commit.read_bytes() != b))
        try:
            process.wait(timeout=chance.uniform(0.0, 0.8) if kills < 8 else 300)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        if process.wait() == 0:
            break
    assert kills >= 6, "it was killed often enough to mean something"
    for name in (*NAMES, "equilibration_1.csv"):
        assert whole.output(name).read_bytes() == killed.output(name).read_bytes(), name


def test_mdrun_ends_with_the_worker(water: Directory, gromacs: Simulator) -> None:
    job = gromacs(water, [{"steps": 100_000_000, "log_freq": 20}], checkpoint_seconds=1000)
    process = job.start()
    wait_for(lambda: progress(job).get("stage") == "production" and progress(job)["step"] > 0)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: is_gone(int(child)))


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", maxsplit=1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_stopped_it_leaves_at_once_and_gives_the_same_bytes(water: Directory, gromacs: Simulator) -> None:
    stages = [{"ensemble": "NPT", "steps": 600, "traj_freq": 20, "log_freq": 20}]
    whole = gromacs(water, stages, checkpoint_seconds=0.5)
    assert whole.run() == 0, whole.log()
    stopped = gromacs(water, stages, checkpoint_seconds=0.5)
    process = stopped.start()
    wait_for(lambda: committed_step(stopped) > 0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 3
    assert not (stopped.work / "result.json").exists()
    assert stopped.run() == 0, stopped.log()
    for name in NAMES:
        assert whole.output(name).read_bytes() == stopped.output(name).read_bytes(), name


def test_what_a_stopped_job_leaves_has_the_frames_that_its_header_counts(water: Directory, gromacs: Simulator) -> None:
    job = gromacs(water, [{"steps": 10_000_000, "traj_freq": 20, "log_freq": 20}], checkpoint_seconds=1000)
    process = job.start()
    wait_for(lambda: progress(job).get("stage") == "production" and progress(job)["step"] > 100)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 3
    counted, found = header_of(job.output("production.dcd"))
    assert counted == found > 0


def test_a_finished_job_can_be_extended_to_the_same_bytes(water: Directory, gromacs: Simulator) -> None:
    stages = [
        {"name": "equilibration_1", "steps": 40, "log_freq": 10},
        # No multiple of anything.
        {"ensemble": "NPT", "steps": 271, "traj_freq": 20, "log_freq": 10},
    ]
    longer = [stages[0], {**stages[1], "steps": 500}]
    short = gromacs(water, stages, checkpoint_seconds=0.5)
    assert short.run() == 0, short.log()
    extended = gromacs(water, longer, checkpoint_seconds=0.5)
    for folder in ("output", "commit"):
        shutil.copytree(short.work / folder, extended.work / folder)
    assert extended.run() == 0, extended.log()
    assert "minimization:" not in extended.log(), "it does not begin again"
    whole = gromacs(water, longer, checkpoint_seconds=0.5)
    assert whole.run() == 0, whole.log()
    for name in NAMES:
        assert whole.output(name).read_bytes() == extended.output(name).read_bytes(), name


def test_frames_are_whole_and_move_on(villin: Directory, gromacs: Simulator) -> None:
    job = gromacs(villin, [{"steps": 100, "traj_freq": 20}], threads=2, checkpoint_seconds=0.5)
    assert job.run() == 0, job.log()
    topology = json.loads(villin.output("topology.json").read_text())
    bonds = np.array(topology["bonds"])
    written = frames(job.output("production.dcd"))
    lengths = np.linalg.norm(written[:, bonds[:, 0]] - written[:, bonds[:, 1]], axis=2)
    assert lengths.max() < 2.5, "no bond reaches through the box (Å)"
    assert np.abs(np.diff(written, axis=0)).max() < 3.0, "nothing jumps to another image"
    start = np.array(topology["positions"]).reshape(-1, 3) * 10
    assert np.abs(written[0] - start).max() < 6.0


def test_a_damaged_checkpoint_is_noticed(water: Directory, gromacs: Simulator) -> None:
    job = gromacs(water, [{"steps": 600, "log_freq": 20}], checkpoint_seconds=0.3)
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    checkpoint = json.loads((job.work / "commit" / "commit.json").read_text())["checkpoint"]
    assert checkpoint["platform"] == "gromacs"
    path = job.work / "commit" / checkpoint["file"]["name"]
    path.write_bytes(path.read_bytes()[:-1000])
    assert job.run() == 0, job.log()
    assert [warning["code"] for warning in job.result["warnings"]] == ["state_resumed"]
    assert [row["step"] for row in rows(job.output("production.csv"))] == list(range(20, 601, 20))


def test_a_checkpoint_that_this_gromacs_does_not_read_gives_way_to_the_state(
    water: Directory, gromacs: Simulator
) -> None:
    job = gromacs(water, [{"ensemble": "NPT", "steps": 600, "log_freq": 20}], checkpoint_seconds=0.3)
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    path = job.work / "commit" / "commit.json"
    commit = json.loads(path.read_text())
    file = commit["checkpoint"]["file"]
    # As another version may have written it: whole, and of a form that is not known.
    content = b"another version" * 1000
    (job.work / "commit" / file["name"]).write_bytes(content)
    path.write_text(path.read_text().replace(file["sha256"], hashlib.sha256(content).hexdigest()))
    assert job.run() == 0, job.log()
    assert "the checkpoint does not fit here" in warnings_of(job)["state_resumed"]
    written = rows(job.output("production.csv"))
    assert [row["step"] for row in written] == list(range(20, 601, 20))
    assert min(row["temperature (K)"] for row in written[5:]) > 150, "velocities were taken over"


def killed_and_changed(job: Directory, change: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Kill a job after its first commit and change its task; return the step that was committed."""
    process = job.start()
    wait_for(lambda: committed_step(job) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    path = job.path / "task.json"
    task = json.loads(path.read_text())
    path.write_text(json.dumps({**task, **change(task)}))
    return committed_step(job)


@pytest.mark.parametrize("engines", [("gromacs", "openmm"), ("openmm", "gromacs")])
def test_either_engine_resumes_what_the_other_has_left(
    water: Directory, simulation: Simulator, engines: tuple[str, str]
) -> None:
    job = simulation(
        water, [{"steps": 600, "log_freq": 20, "traj_freq": 60}], checkpoint_seconds=0.3, engine=engines[0]
    )
    taken_at = killed_and_changed(job, lambda task: {"plan": {**task["plan"], "engine": engines[1]}})
    assert job.run() == 0, job.log()
    assert job.result["engine"] == engines[1]
    used = json.loads(job.output("production.method.json").read_text())
    (before,) = used["before"]
    assert (before["engine"]["name"], used["engine"]["name"]) == engines
    assert before["steps"] == [0, taken_at]
    assert {"machine", "integrator", "constraints"} <= before.keys()
    assert f"from step {taken_at} on" in warnings_of(job)["engine_changed"]
    assert job.result["versions"]["gromacs"] in {used["engine"]["version"], before["engine"]["version"]}
    assert [row["step"] for row in rows(job.output("production.csv"))] == list(range(20, 601, 20))
    assert len(frames(job.output("production.dcd"))) == 10
    state = openmm.XmlSerializer.deserialize(job.output("production.state.xml").read_text())
    assert (state.getStepCount(), state.getTime()._value) == (600, pytest.approx(600 * 2e-3))
    temperatures = [row["temperature (K)"] for row in rows(job.output("production.csv"))]
    assert min(temperatures[5:]) > 150, "velocities were taken over"


@pytest.mark.parametrize(
    ("engine", "threads", "is_told"), [("gromacs", 2, True), ("openmm", 1, True), ("openmm", 2, False)]
)
def test_other_threads_than_those_of_the_steps_before_are_told_where_bits_are_promised(
    water: Directory, simulation: Simulator, engine: str, threads: int, is_told: bool
) -> None:
    job = simulation(water, [{"steps": 600, "log_freq": 20}], checkpoint_seconds=0.3, engine=engine, threads=threads)
    taken_at = killed_and_changed(job, lambda _: {"threads": 3 - threads})
    assert job.run() == 0, job.log()
    used = json.loads(job.output("production.method.json").read_text())
    assert [part["machine"]["threads"] for part in (*used["before"], used)] == [threads, 3 - threads]
    assert ("threads_changed" in warnings_of(job)) == is_told
    assert not is_told or f"from step {taken_at} on" in warnings_of(job)["threads_changed"]


def test_left_to_choose_it_is_gromacs_on_a_cpu_and_stays_what_began(water: Directory, simulation: Simulator) -> None:
    job = simulation(water, [{"steps": 40}], engine="auto")
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "gromacs"
    begun = simulation(water, [{"steps": 600}], engine="openmm", checkpoint_seconds=0.3)
    process = begun.start()
    wait_for(lambda: committed_step(begun) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    path = begun.path / "task.json"
    path.write_text(path.read_text().replace('"openmm"', '"auto"'))
    assert begun.run() == 0, begun.log()
    assert begun.result["engine"] == "openmm"


def test_the_versions_have_gromacs_where_it_ran_a_stage(water: Directory, simulation: Simulator) -> None:
    idle = simulation(water, [{"steps": 0}], engine="gromacs")
    assert idle.run() == 0, idle.log()
    assert "gromacs" not in idle.result["versions"]
    assert not idle.output("production.method.json").exists(), "nothing was run"
    other = simulation(water, [{"steps": 20}], engine="auto")
    add_force(other)
    assert other.run() == 0, other.log()
    assert "gromacs" not in other.result["versions"]


def add_force(job: Directory) -> None:
    """A force that GROMACS has not, and that does nothing."""
    path = job.path / "input" / "system.xml"
    system = openmm.XmlSerializer.deserialize(path.read_text())
    force = openmm.CustomExternalForce("0*x")
    force.setName("wall")
    force.addParticle(0, [])
    system.addForce(force)
    path.write_text(openmm.XmlSerializer.serialize(system))


def test_what_gromacs_cannot_calculate_is_openmms_unless_it_was_asked_for(
    water: Directory, simulation: Simulator
) -> None:
    job = simulation(water, [{"steps": 20, "log_freq": 10}], engine="auto")
    add_force(job)
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "openmm"
    assert "a field of the form 0*x" in warnings_of(job)["engine_changed"]
    asked = simulation(water, [{"steps": 20, "log_freq": 10}], engine="gromacs")
    add_force(asked)
    assert asked.run() == 2
    failure = asked.result["error"]
    assert (failure["code"], failure["stage"], failure["loc"]) == (
        "engine_unsupported",
        "production",
        ["body", "engine"],
    )


def test_a_gmx_that_is_not_there_is_missed_only_where_it_is_asked_for(water: Directory, simulation: Simulator) -> None:
    for engine, code in (("auto", 0), ("gromacs", 2)):
        job = simulation(water, [{"steps": 20}], engine=engine, gromacs="/nowhere/gmx")
        assert job.run() == code, job.log()
    assert job.result["error"]["code"] == "engine_missing"


def stand_in(folder: Path, at_mdrun: str = "", *, at_grompp: str = "", at_version: str = "") -> str:
    """A program in the place of gmx that does something else at times; what does not end it goes on to gmx."""
    program = folder / "gmx"
    program.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"*mdrun*) {at_mdrun or ':'} ;;\n*grompp*) {at_grompp or ':'} ;;\n*--version*) {at_version or ':'} ;;\n"
        f'esac\nexec {shutil.which("gmx")} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


GARBAGE = r"printf '\377\376\200\000\033 garbage'; exit 3"


@pytest.mark.parametrize("end", ["kill -ILL $$", "exit 132"])
def test_a_gmx_for_another_processor_gives_way_to_openmm(
    end: str, water: Directory, simulation: Simulator, tmp_path: Path
) -> None:
    gmx = stand_in(tmp_path, end)
    job = simulation(water, [{"steps": 40, "log_freq": 10}], engine="auto", gromacs=gmx)
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "openmm"
    assert "which this processor lacks" in warnings_of(job)["engine_changed"]
    assert [row["step"] for row in rows(job.output("production.csv"))] == [10, 20, 30, 40]


@pytest.mark.parametrize(
    "broken",
    [
        {"at_mdrun": GARBAGE},
        {"at_mdrun": "exit 0"},
        {"at_mdrun": "kill -SEGV $$"},
        {"at_grompp": GARBAGE},
        {"at_grompp": "exit 0"},
    ],
    ids=str,
)
def test_a_gmx_that_does_not_work_gives_way_to_openmm_unless_it_was_asked_for(
    water: Directory, simulation: Simulator, tmp_path: Path, broken: dict[str, str]
) -> None:
    gmx = stand_in(tmp_path, **broken)
    job = simulation(water, [{"steps": 40, "log_freq": 10}], engine="auto", gromacs=gmx)
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "openmm"
    assert "the gmx here does not work" in warnings_of(job)["engine_changed"]
    assert warnings_of(job)["engine_changed"].isprintable()
    assert [row["step"] for row in rows(job.output("production.csv"))] == [10, 20, 30, 40]
    asked = simulation(water, [{"steps": 40}], engine="gromacs", gromacs=gmx)
    assert asked.run() == 2, asked.log()
    assert progress(asked)["engine"] == "gromacs", "it has been that of the job since its minimisation"
    failure = asked.result["error"]
    assert (failure["code"], failure["loc"]) == ("engine_missing", ["body", "engine"])
    assert "does not work" in failure["message"]
    assert ("grompp wrote no input" in failure["message"]) == (broken == {"at_grompp": "exit 0"})


def test_a_gmx_whose_version_is_no_text_is_none(water: Directory, simulation: Simulator, tmp_path: Path) -> None:
    gmx = stand_in(tmp_path, at_version=GARBAGE.replace("3", "0"))
    job = simulation(water, [{"steps": 20}], engine="auto", gromacs=gmx)
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "openmm"


def test_a_grompp_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(stand_in(tmp_path, at_grompp="exec sleep 1000"))
    assert found is not None
    monkeypatch.setattr(program, "GROMPP_SECONDS", 0.5)
    with pytest.raises(program.Broken, match="had not ended"):
        found.grompp(tmp_path)
    with pytest.raises(program.Broken, match="does not start"):
        dataclasses.replace(found, path="/nowhere/gmx").grompp(tmp_path)


STOPPED_BY_OTHERS = "echo Received the TERM signal, stopping within 20 steps; exit 1"


@pytest.mark.parametrize(
    "end",
    ['"$GMX" "$@"; kill -KILL $$', '"$GMX" "$@"; exit 137', STOPPED_BY_OTHERS],
    ids=["killed", "killed behind a script", "asked to end"],
)
def test_an_mdrun_that_others_end_is_run_again_to_the_same_bytes(
    end: str, water: Directory, gromacs: Simulator, tmp_path: Path
) -> None:
    """Daemons that watch memory ask before they kill."""
    stages = [{"ensemble": "NPT", "steps": 600, "traj_freq": 20, "log_freq": 20}]
    whole = gromacs(water, stages)
    assert whole.run() == 0, whole.log()
    flag = tmp_path / "flag"
    once = f"if [ ! -e {flag} ]; then : > {flag}; GMX={shutil.which('gmx')}; {end}; fi"
    ended = gromacs(water, stages, gromacs=stand_in(tmp_path, once))
    assert ended.run() == 0, ended.log()
    assert "run again from step 0" in ended.log()
    for name in NAMES:
        assert whole.output(name).read_bytes() == ended.output(name).read_bytes(), name


@pytest.mark.parametrize("words", ["No space left on device", "maybe you are out of disk space?"])
def test_a_disk_that_is_full_for_mdrun_is_full(
    words: str, water: Directory, gromacs: Simulator, tmp_path: Path
) -> None:
    full = f"echo 'Fatal error:'; echo 'Cannot write trajectory frame; {words}'; echo; exit 1"
    job = gromacs(water, [{"steps": 40}], gromacs=stand_in(tmp_path, full))
    assert job.run() == 4, job.log()
    assert not (job.work / "result.json").exists()


def test_a_stop_that_mdrun_is_told_of_first_is_a_stop(water: Directory, gromacs: Simulator, tmp_path: Path) -> None:
    """A system that goes down, and a cluster, tell all processes of a job."""
    both = f"sleep 0.1; kill -TERM $PPID; {STOPPED_BY_OTHERS}"
    job = gromacs(water, [{"steps": 100}], gromacs=stand_in(tmp_path, both))
    assert job.run() == 3, job.log()
    assert not (job.work / "result.json").exists()


def test_terms_across_the_whole_box_are_openmms(water: Directory, simulation: Simulator) -> None:
    """Such as bonds of a sheet to its own image."""
    job = simulation(water, [{"steps": 40, "log_freq": 10}], engine="auto")
    system = openmm.XmlSerializer.deserialize((job.path / "input/system.xml").read_text())
    state = openmm.XmlSerializer.deserialize((job.path / "input/state.xml").read_text())
    places = state.getPositions(asNumpy=True)._value[:, 0]
    bonds = openmm.HarmonicBondForce()
    bonds.setUsesPeriodicBoundaryConditions(True)
    ring = [int(places.argsort()[i * len(places) // 4]) for i in range(4)]
    for first, second in zip(ring, ring[1:] + ring[:1], strict=True):
        bonds.addBond(first, second, 0.5, 0.1)
    system.addForce(bonds)
    (job.path / "input/system.xml").write_text(openmm.XmlSerializer.serialize(system))
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "openmm"
    assert "across the whole box" in warnings_of(job)["engine_changed"]


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 137", "exit 143"])
def test_an_mdrun_that_is_killed_each_time_has_too_little_memory(
    end: str, water: Directory, gromacs: Simulator, tmp_path: Path
) -> None:
    job = gromacs(water, [{"steps": 40}], gromacs=stand_in(tmp_path, end))
    assert job.run() == 2, job.log()
    assert job.result["error"]["code"] == "out_of_memory"


def test_an_mdrun_that_dies_without_a_word_is_told_by_its_signal_and_not_by_its_progress(
    water: Directory, gromacs: Simulator, tmp_path: Path
) -> None:
    """Behind a script, which makes the signal a status of its own."""
    crash = (
        f'{shutil.which("gmx")} "$@" & until grep -aq "step [1-9]" ../mdrun.txt; do sleep 0.1; done; '
        "kill -SEGV $!; wait $!; exit $?"
    )
    job = gromacs(water, [{"steps": 100_000}], gromacs=stand_in(tmp_path, crash))
    assert job.run() == 2, job.log()
    failure = job.result["error"]
    assert failure["code"] == "unstable"
    assert "of mdrun: it ended by signal 11, Segmentation fault" in failure["message"]
    assert "wall clock" not in failure["message"]
    assert "OpenMP" not in failure["message"], "what it printed as it began is no reason"


def test_last_words_have_no_progress_and_no_half_of_a_word() -> None:
    began = "Using 1 OpenMP thread \n\nstarting mdrun 'box'\n100 steps,      0.2 ps.\n"
    # As read from the file, where each line of progress begins with a carriage return.
    ran = "step 0\nstep 20, remaining wall clock time:     3 s          \nstep 40, will finish Mon Nov 30 17:31:36 2026"
    assert program.ended(1, f"{began}{ran}") == "ended with status 1"
    assert program.ended(1, f"{began}{ran}\nterminate called\n") == "ended with status 1: terminate called"
    many = " ".join(f"word{i}" for i in range(1000))
    assert set(program.ended(1, many).split(": ")[1].split()) <= set(many.split())
    assert program.ended(1, "Using 1 thread \n") == "ended with status 1: Using 1 thread", "it did not begin"


LINCS_WARNING = """
Step 7, time 0.014 (ps)  LINCS WARNING
relative constraint deviation after LINCS:
rms 0.004215, max 0.193012 (between atoms {} and {})
bonds that rotated more than 30 degrees:
"""


def test_where_openmm_finds_nothing_mdruns_own_words_are_told(
    villin: Directory, gromacs: Simulator, tmp_path: Path
) -> None:
    topology = json.loads(villin.output("topology.json").read_text())
    names = topology["atoms"]["name"]
    residue = topology["residues"]["id"][topology["atoms"]["residue"][30]]
    (tmp_path / "words").write_text(LINCS_WARNING.format(31, 32))
    job = gromacs(villin, [{"steps": 40}], gromacs=stand_in(tmp_path, f"cat {tmp_path}/words; exit 1"))
    assert job.run() == 2, job.log()
    failure = job.result["error"]
    assert failure["code"] == "unstable"
    assert f"0.193012 between {names[30]} of" in failure["message"]
    assert "OpenMM took" in failure["message"]
    assert "largest forces" not in failure["message"], "they are those of a sound structure"
    assert failure["residues"][0]["residue_id"] == residue


@pytest.mark.parametrize("engine", ["gromacs", "openmm"])
def test_heat_is_named_where_it_breaks_a_simulation(villin: Directory, simulation: Simulator, engine: str) -> None:
    job = simulation(villin, [{"steps": 400}], engine=engine, temperature_k=10_000)
    assert job.run() == 2, job.log()
    failure = job.result["error"]
    assert (failure["code"], failure["loc"]) == ("unstable", ["body", "temperature"])
    assert "at 10000 K" in failure["message"]
    assert "lower temperature" in failure["remedy"]


def test_a_box_of_two_cutoffs_has_lists_that_reach_no_farther(water: Directory, gromacs: Simulator) -> None:
    box = openmm.XmlSerializer.deserialize(water.output("state.xml").read_text()).getPeriodicBoxVectors()
    job = gromacs(water, [{"steps": 40}], cutoff_nm=round(box[0][0]._value / 2 - 0.002, 3))
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "gromacs"


def test_a_box_that_shrinks_below_two_lists_keeps_openmms_energy(water: Directory, gromacs: Simulator) -> None:
    box = openmm.XmlSerializer.deserialize(water.output("state.xml").read_text()).getPeriodicBoxVectors()
    cutoff = round(box[0][0]._value / 2 - 0.08, 3)
    stage = {"ensemble": "NPT", "steps": 1200, "log_freq": 20}
    job = gromacs(water, [stage], pressure_bar=10_000, cutoff_nm=cutoff)
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "gromacs"
    last = rows(job.output("production.csv"))[-1]
    # The list reaches farther than the cutoff by 0.04 nm at least.
    assert 2 * cutoff < last["volume (nm^3)"] ** (1 / 3) < 2 * cutoff + 0.08, last
    system, end = (
        openmm.XmlSerializer.deserialize(path.read_text())
        for path in (job.path / "input" / "system.xml", job.output("production.state.xml"))
    )
    nonbonded_of(system).setCutoffDistance(cutoff)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPeriodicBoxVectors(*end.getPeriodicBoxVectors())
    context.setPositions(end.getPositions())
    energy = context.getState(energy=True).getPotentialEnergy()._value
    # Single precision, and the dispersion correction without excluded pairs.
    assert last["potential energy (kJ/mol)"] == pytest.approx(energy, rel=5e-5)


def test_atoms_on_top_of_each_other_are_unstable_and_named(water: Directory, gromacs: Simulator) -> None:
    topology = json.loads(water.output("topology.json").read_text())
    first, second = [i for i, name in enumerate(topology["atoms"]["name"]) if name == "O"][10:12]
    job = gromacs(water, [{"steps": 200}], minimization_steps=0)
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
    assert (failure["code"], failure["stage"]) == ("unstable", "production"), failure
    residues = {topology["residues"]["id"][topology["atoms"]["residue"][i]] for i in (first, second)}
    assert all(f"HOH {residue} " in failure["message"] for residue in residues), failure["message"]


def test_a_step_that_is_too_long_is_unstable(villin: Directory, gromacs: Simulator) -> None:
    job = gromacs(villin, [{"steps": 2000}], timestep_fs=9)
    assert job.run() == 2
    assert job.result["error"]["code"] == "unstable", job.result
    assert "integration_timestep" in job.result["error"]["remedy"]


def test_a_box_that_collapses_is_told(water: Directory, gromacs: Simulator) -> None:
    # A tenth denser, the box is narrower than two cutoffs.
    box = openmm.XmlSerializer.deserialize(water.output("state.xml").read_text()).getPeriodicBoxVectors()
    cutoff = box[0][0]._value / 2 - 0.1
    job = gromacs(
        water, [{"ensemble": "NPT", "steps": 4000, "log_freq": 20}], pressure_bar=20_000, cutoff_nm=round(cutoff, 3)
    )
    assert job.run() == 2, job.log()
    assert job.result["error"]["code"] == "box_collapsed", job.result["error"]


def test_without_friction_energy_is_conserved(water: Directory, gromacs: Simulator) -> None:
    spread = {}
    for friction in (0, 50):
        stages = [{"name": "equilibration_1", "steps": 200}, {"steps": 400, "log_freq": 20}]
        job = gromacs(water, stages, friction_per_ps=friction, timestep_fs=1, ewald_tolerance=1e-5)
        assert job.run() == 0, job.log()
        written = rows(job.output("production.csv"))
        total = [row["potential energy (kJ/mol)"] + row["kinetic energy (kJ/mol)"] for row in written]
        spread[friction] = np.std(total)
    assert spread[0] < 0.2 * spread[50], spread


@pytest.mark.parametrize(
    ("ensemble", "temperature", "words"), [("NPT", 300, "constant pressure without friction"), ("NVT", 0, "0 K")]
)
def test_what_a_plan_says_that_gromacs_cannot_run_is_openmms_from_the_start(
    water: Directory, simulation: Simulator, ensemble: str, temperature: float, words: str
) -> None:
    stage = {"ensemble": ensemble, "steps": 40}
    job = simulation(water, [stage], engine="auto", friction_per_ps=0, temperature_k=temperature)
    assert job.run() == 0, job.log()
    assert job.result["engine"] == "openmm"
    assert words in warnings_of(job)["engine_changed"]
    assert not (job.work / "gromacs").exists(), "nothing of it was begun"


@pytest.mark.parametrize("tolerance", [0.05, 1e-4])
def test_each_tolerance_that_openmm_runs_with_has_a_mesh(
    water: Directory, gromacs: Simulator, tolerance: float
) -> None:
    job = gromacs(water, [{"steps": 20, "log_freq": 10}], ewald_tolerance=tolerance)
    assert job.run() == 0, job.log()


def test_molecules_are_followed_where_frames_are_far_apart(water: Directory, gromacs: Simulator) -> None:
    """Within 10 ps some move farther than half of a small box, and would be taken for their images."""
    last = []
    for every in (5000, 50):
        job = gromacs(water, [{"steps": 5000, "traj_freq": every}], temperature_k=400)
        assert job.run() == 0, job.log()
        last.append(frames(job.output("production.dcd"))[-1])
    # Sums of single precision.
    assert np.abs(last[0] - last[1]).max() < 1e-4


@pytest.mark.parametrize("interval", [2**31, 10**12])
def test_an_interval_beyond_the_stage_writes_nothing(water: Directory, gromacs: Simulator, interval: int) -> None:
    job = gromacs(water, [{"steps": 20, "log_freq": interval, "traj_freq": interval}])
    assert job.run() == 0, job.log()
    assert rows(job.output("production.csv")) == []
    assert header_of(job.output("production.dcd")) == (0, 0)


def test_pressure_acts(water: Directory, gromacs: Simulator) -> None:
    density = {}
    for pressure in (1, 5000):
        job = gromacs(water, [{"ensemble": "NPT", "steps": 4000, "log_freq": 100}], pressure_bar=pressure)
        assert job.run() == 0, job.log()
        density[pressure] = np.mean([row["density (g/mL)"] for row in rows(job.output("production.csv"))[20:]])
    assert density[5000] > density[1] + 0.05


def test_the_thermostat_holds_the_temperature(water: Directory, gromacs: Simulator) -> None:
    job = gromacs(water, [{"steps": 1500, "log_freq": 10}], friction_per_ps=50, temperature_k=350)
    assert job.run() == 0, job.log()
    temperatures = [row["temperature (K)"] for row in rows(job.output("production.csv"))[75:]]
    assert np.mean(temperatures) == pytest.approx(350, abs=10)


def test_a_restraint_holds_its_atoms_at_constant_pressure(water: Directory, gromacs: Simulator) -> None:
    topology = json.loads(water.output("topology.json").read_text())
    oxygens = [i for i, name in enumerate(topology["atoms"]["name"]) if name == "O"]
    held, free = oxygens[:1], oxygens[1::2]
    force = 100_000.0
    stage = {"ensemble": "NPT", "steps": 1500, "traj_freq": 5, "restraint_force": force, "restraint_atoms": held}
    job = gromacs(water, [stage], friction_per_ps=10)
    assert job.run() == 0, job.log()
    assert barostat_of(job)["compressibility_per_bar"] == 4.5e-5, "one atom does not make the box stiffer"
    written = frames(job.output("production.dcd"))[20:] / 10
    variance = written.var(axis=0).sum(axis=1)
    # Equipartition of one atom in three hundred frames; the place moves with the box.
    assert 0.3 < variance[held].mean() / (3 * 0.0083145 * 300 / force) < 3
    assert variance[free].mean() > 10 * variance[held].mean()


@pytest.mark.parametrize("membrane", [False, True])
def test_atoms_that_are_held_stiffly_keep_temperature_and_volume_at_constant_pressure(
    membrane: bool, water: Directory, gromacs: Simulator
) -> None:
    """They were unstable: each change of the box changed the pressure by more than it was to."""
    n_atoms = len(json.loads(water.output("topology.json").read_text())["atoms"]["name"])
    stage = {"ensemble": "NPT", "steps": 2500, "log_freq": 5}
    stage |= {"restraint_force": 100_000.0, "restraint_atoms": list(range(n_atoms))}
    job = gromacs(water, [stage], friction_per_ps=10, membrane=membrane)
    assert job.run() == 0, job.log()
    written = rows(job.output("production.csv"))[250:]
    temperatures, volumes = (np.array([row[name] for row in written]) for name in ("temperature (K)", "volume (nm^3)"))
    assert temperatures.mean() == pytest.approx(300, abs=6)
    # kT V over what the restraints have of stiffness, Σ k r²/(9 V), with r² as in a cube.
    width = volumes.mean() ** (1 / 3)
    expected = 3 * volumes.mean() * np.sqrt(0.0083145 * 300 / (n_atoms * 100_000 * width**2 / 4))
    assert volumes.std() < 2.5 * expected
    assert barostat_of(job)["compressibility_per_bar"] < 1e-6


def barostat_of(job: Directory) -> dict[str, Any]:
    barostat: dict[str, Any] = json.loads(job.output("production.method.json").read_text())["barostat"]
    return barostat
