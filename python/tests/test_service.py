"""The whole of it against a real service: the villin headpiece, and the README's program."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import molbox_client as molbox

from .service import Real, real_service

ROOT = Path(__file__).resolve().parents[2]
VILLIN = ROOT / "examples/1vii.pdb"
# As little as there is to simulate: minutes of a CPU are not for a test.
SHORT = {"equilibration": [], "minimization_steps": 10, "seed": 7}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_service(tmp_path_factory.mktemp("service")) as real:
        yield real


@pytest.fixture(autouse=True)
def settings(service: Real, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MOLBOX_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MOLBOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def readme_program() -> str:
    text = (ROOT / "README.md").read_text()
    return text.split("```python\n")[1].split("```")[0]


# The libraries that read results warn of what is none of ours.
@pytest.mark.filterwarnings("ignore")
def test_the_readme_s_program_runs_and_its_job_gives_what_a_user_wants(tmp_path: Path) -> None:
    (tmp_path / "1vii.pdb").write_bytes(VILLIN.read_bytes())
    program = readme_program()
    # It takes a quarter of an hour of a CPU as it stands; shortened it is the same program.
    short = program.replace('time="10 ps"', f'time="0.2 ps", **{SHORT!r}')
    assert short != program
    names: dict[str, object] = {}
    exec(compile(short, "README.md", "exec"), names)
    job = names["job"]
    assert isinstance(job, molbox.Job)
    assert job.status == "succeeded"
    assert job.record.parameters.temperature == 300

    client = job.client
    n_atoms = client.system(job.record.box_id).record.summary.atoms  # type: ignore[union-attr]
    energies = job.energies()
    assert energies.loc["production"]["time (ps)"].iloc[-1] == pytest.approx(0.2)
    universe = job.universe()
    assert universe.atoms.n_atoms == n_atoms
    assert len(universe.trajectory) == job.record.stages[-1].frames  # type: ignore[index]
    system, topology, state = job.openmm()
    assert system.getNumParticles() == topology.getNumAtoms() == n_atoms
    assert len(state.getPositions()) == n_atoms
    table = job.analyze(rmsd_masks=[["@CA"]]).to_pandas()["rmsd"]
    assert table["rmsd_angstrom"].iloc[0] == pytest.approx(0, abs=1e-3)
    assert "production: 50 steps" in job.log(3)
    assert "OpenMM" in job.cite()
    assert [one.id for one in client.jobs()] == [job.id]

    # The same atoms again, from memory: another content, so another file.
    protein = universe.select_atoms("protein")
    uploaded = client.upload(protein, name="from memory")
    assert uploaded.record.format == "pdb"
    assert uploaded.download(tmp_path / "back.pdb").read_bytes().count(b"ATOM  ") == len(protein)

    job.delete()
    with pytest.raises(molbox.NotFound):
        job.refresh()
    # The README's program leaves that to its end.
    client.close()


def test_a_wrong_field_a_failed_task_and_a_conflict_are_told(tmp_path: Path) -> None:
    with molbox.Client() as client:
        with pytest.raises(molbox.Refused, match="protein: "):
            client.build(protein="of nobody")
        broken = (
            b"ATOM      1  CA  ALA A   1       0.000   0.000   0.000  1.00  0.00           C\nEND\n"
        )
        file = client.upload(broken, format="pdb", name="broken")
        with pytest.raises(molbox.Conflict):
            client.upload(broken, format="pdb", name="broken")
        with pytest.raises(molbox.TaskFailed) as failed:
            client.build(protein=file.id)
        assert failed.value.status == "failed"
        assert failed.value.failure.message in str(failed.value)


def test_many_requests_at_once_and_a_margin() -> None:
    async def together() -> list[str]:
        async with molbox.AsyncClient() as client:
            accounts = await asyncio.gather(*(client.whoami() for _ in range(20)))
            margin = await client.margin([{"ticker": "XEQ1", "type": "long", "quantity": 10}])
            assert margin.initial > margin.maintenance > 0
            return [account.account for account in accounts]

    assert asyncio.run(together()) == ["ada"] * 20


def test_nothing_is_printed_on_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    with molbox.Client() as client:
        client.upload(VILLIN, name="loud", progress=True)
    assert printed.getvalue() == ""


def test_a_run_is_estimated_as_it_is_called(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"preset": "quick", "time": "10 ps", "temperature": "37 C"}
    with molbox.Client() as client:
        path = tmp_path / "estimated.pdb"
        path.write_bytes(VILLIN.read_bytes())
        estimate = client.estimate(path, **arguments, engine="OpenMM", wait=False)
        # 10 and 20 ps of equilibration, 10 of production, in steps of 4 fs.
        assert estimate.steps == 10_000
        assert estimate.atoms == pytest.approx(9000, rel=0.1)
        # What was uploaded for it is gone again.
        assert not [file for file in client.files() if file.name.startswith("estimated")]
        file = client.upload(path)
        assert client.upload(path).id == file.id
        path.write_bytes(path.read_bytes() + b"REMARK\n")
        with pytest.raises(
            molbox.Conflict, match=r"client\.files\(name='estimated'\) has that one"
        ):
            client.upload(path)


def test_a_job_takes_the_newest_system_and_says_which() -> None:
    with molbox.Client() as client:
        for name in ("older", "newer"):
            box = client.build(box_name=name, minimum_padding="1.5 nm")
        with pytest.warns(molbox.MolboxWarning, match=f"system of the account, {box.id}, 'newer'"):
            job = client.submit(engine="openmm", equilibration=[], minimization_steps=10)
        assert job.record.box_id == box.id
        with pytest.warns(molbox.MolboxWarning, match="the estimate is of the newest system"):
            client.estimate(production={"type": "npt", "time": 1})
        job.wait()
