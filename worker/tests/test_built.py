"""Systems that other programs have built: brought whole, and refused when they are not sound or not safe."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
from conftest import BUILD, DATA, SIMULATE, STAGE, Directory, changed, task_of, warnings
from openmm import app, unit

from molbox_worker.built.bring import _check_forces
from molbox_worker.result import TaskError

BUILT = DATA / "built"
SETTINGS: dict[str, Any] = {
    "nonbondedMethod": app.PME,
    "nonbondedCutoff": 1.0 * unit.nanometer,
    "constraints": app.HBonds,
    "rigidWater": True,
}
# Of each program: the files that are given loose.
LOOSE = {
    "amber": ["system.prmtop", "system.rst7"],
    "charmm": ["system.psf", "system.crd", "system.pdb", "system.prm", "system.rtf"],
    "openmm": ["system.xml", "system.pdb"],
}
ALIASES = {"rst7": "inpcrd"}
Bring = Callable[..., Directory]


def content(program: str) -> dict[str, bytes]:
    """The files of a program's archive."""
    with zipfile.ZipFile(BUILT / f"{program}.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def packed(files: dict[str, bytes]) -> bytes:
    """An archive of files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def bring(tmp_path_factory: pytest.TempPathFactory) -> Bring:
    """Bring files as a built system; names are those that their owner gives them."""

    def run(files: dict[str, bytes], **changes: Any) -> Directory:
        given = []
        for index, name in enumerate(files, 1):
            stem, extension = name.rsplit(".", 1)
            kind = ALIASES.get(extension, extension)
            given.append({"file_id": "file_1", "file": f"built_{index}.{kind}", "format": kind, "name": stem})
        plan = changed(BUILD, {"built": given, **changes})
        directory = Directory(tmp_path_factory.mktemp("built") / "task", task_of(plan))
        for entry, data in zip(given, files.values(), strict=True):
            (directory.path / "input" / entry["file"]).write_bytes(data)
        directory.run()
        return directory

    return run


def loose(program: str) -> dict[str, bytes]:
    found = content(program)
    return {name: found[name] for name in LOOSE[program]}


@pytest.fixture(scope="module")
def brought(bring: Bring) -> dict[str, Directory]:
    """Each program's system, brought."""
    done = {program: bring(loose(program)) for program in LOOSE}
    done["gromacs"] = bring({"system.zip": (BUILT / "gromacs.zip").read_bytes()})
    for program, directory in done.items():
        assert directory.result["status"] == "succeeded", (program, directory.result, directory.log())
    return done


def loaded(program: str, folder: Path) -> tuple[openmm.System, Any]:
    """The same system as OpenMM's own loader of the program's files makes it, and the positions."""
    for name, data in content(program).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    path = {Path(name).name: str(folder / name) for name in content(program)}
    if program == "amber":
        places = app.AmberInpcrdFile(path["system.rst7"])
        prmtop = app.AmberPrmtopFile(path["system.prmtop"], periodicBoxVectors=places.boxVectors)
        return prmtop.createSystem(**SETTINGS), places.positions
    if program == "gromacs":
        gro = app.GromacsGroFile(path["conf.gro"])
        top = app.GromacsTopFile(path["topol.top"], periodicBoxVectors=gro.getPeriodicBoxVectors())
        return top.createSystem(**SETTINGS), gro.positions
    pdb = app.PDBFile(path["system.pdb"])
    if program == "charmm":
        box = pdb.topology.getPeriodicBoxVectors()
        psf = app.CharmmPsfFile(path["system.psf"], periodicBoxVectors=box)
        parameters = app.CharmmParameterSet(path["system.rtf"], path["system.prm"])
        crd = app.CharmmCrdFile(path["system.crd"])
        system = psf.createSystem(parameters, **SETTINGS, flexibleConstraints=False)
        # What OpenMM leaves out of a PSF's system alone, and jobs run with.
        next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce)).setUseDispersionCorrection(True)
        return system, crd.positions
    system = openmm.XmlSerializer.deserialize(Path(path["system.xml"]).read_text())
    system.removeForce(system.getNumForces() - 1)
    return system, pdb.positions


def energies(system: openmm.System, positions: Any) -> list[tuple[str, float]]:
    """Energy of each force, kJ/mol, in double precision."""
    for group, force in enumerate(system.getForces()):
        force.setForceGroup(group)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    return [
        (force.getName(), context.getState(energy=True, groups={group}).getPotentialEnergy()._value)
        for group, force in enumerate(system.getForces())
    ]


@pytest.mark.parametrize("program", ["amber", "charmm", "gromacs", "openmm"])
def test_each_term_of_the_energy_is_that_of_the_programs_loader(
    program: str, brought: dict[str, Directory], tmp_path: Path
) -> None:
    output = brought[program].work / "output"
    system = openmm.XmlSerializer.deserialize((output / "system.xml").read_text())
    state = openmm.XmlSerializer.deserialize((output / "state.xml").read_text())
    found = energies(system, state.getPositions())
    expected = energies(*loaded(program, tmp_path))
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert len(found) >= 5
    for (name, energy), (_, other) in zip(found, expected, strict=True):
        assert energy == pytest.approx(other, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("program", ["amber", "charmm", "gromacs", "openmm"])
def test_water_and_ions_have_our_names_and_the_peptide_a_chain(program: str, brought: dict[str, Directory]) -> None:
    topology = json.loads((brought[program].work / "output" / "topology.json").read_text())
    names = topology["residues"]["name"]
    assert set(names) <= {"ACE", "ALA", "NME", "CT3", "HOH", "NA", "CL"} and names.count("HOH") > 300
    chains = topology["residues"]["chain"]
    assert chains[0] == chains[2] != chains[3], "solvent is a chain of its own"
    assert len(set(chains)) <= 4
    summary = brought[program].result["summary"]
    # ALA alone has a common name of all three.
    assert summary["molecules"]["water"] == names.count("HOH")
    assert summary["solvent_residues"] == ["CL", "HOH", "NA"]
    assert re.fullmatch(r"(Amber|CHARMM|GROMACS|OpenMM), .*\.(prmtop|psf|top|xml)", summary["force_field"])


def test_residues_of_gromacs_keep_their_numbers_and_solvent_is_counted(bring: Bring) -> None:
    files = content("gromacs")
    numbers = {b"ACE": b"41", b"ALA": b"42A", b"NME": b"43"}
    files["topol.top"] = re.sub(
        rb"(?m)^(\s+\d+\s+\w+\s+)\d(\s+)(ACE|ALA|NME)",
        lambda match: match[1] + numbers[match[3]] + match[2] + match[3],
        files["topol.top"],
    )
    directory = bring({"pack.zip": packed(files)})
    assert directory.result["status"] == "succeeded", directory.result
    residues = json.loads(directory.output("topology.json").read_text())["residues"]
    assert residues["id"][:3] == ["41", "42", "43"] and residues["insertion"][:3] == ["", "A", ""]
    solvent = residues["id"][3:]
    assert len(set(solvent)) == len(solvent) > 300


def test_streams_of_charmm_are_read_and_elements_are_those_of_its_types(
    bring: Bring, brought: dict[str, Directory]
) -> None:
    files = loose("charmm")
    stream = (
        b"* water and ions\n*\n\nread rtf card append\n"
        + files.pop("system.rtf")
        + b"\nread param card flex append\n"
        + files.pop("system.prm")
    )
    files["toppar_all.str"] = stream
    # Heavier hydrogens in the PSF: its masses are no longer those of elements.
    psf = files["system.psf"].decode()
    heavy = re.sub(r" 1\.0080 ", " 4.0320 ", psf)
    assert heavy != psf
    files["system.psf"] = heavy.encode()
    directory = bring(files)
    assert directory.result["status"] == "succeeded", directory.result
    elements = [
        json.loads(each.output("topology.json").read_text())["atoms"]["element"]
        for each in (directory, brought["charmm"])
    ]
    assert elements[0] == elements[1]


def test_a_job_runs_on_what_was_brought(
    brought: dict[str, Directory], tmp_path_factory: pytest.TempPathFactory
) -> None:
    stage = {**STAGE, "ensemble": "NPT", "steps": 40, "log_freq": 20, "traj_freq": 20}
    for program, system in brought.items():
        plan = changed(SIMULATE, {"stages": [stage], "minimization_steps": 20, "hydrogen_mass_da": 3.0})
        job = Directory(tmp_path_factory.mktemp(f"job_{program}") / "task", task_of(plan))
        for name in ("system.xml", "state.xml", "topology.json"):
            (job.path / "input" / name).write_bytes(system.output(name).read_bytes())
        job.run()
        assert job.result["status"] == "succeeded", (program, job.result)
        assert job.result["stages"][-1]["steps"] == 40


def test_gromacs_runs_what_it_can_write(
    brought: dict[str, Directory], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for program, system in brought.items():
        job = job_of(system, tmp_path_factory.mktemp(f"gmx_{program}"), "gromacs")
        assert job.result["status"] == "succeeded", (program, job.result)
        assert job.result["engine"] == "gromacs", program


def job_of(system: Directory, folder: Path, engine: str) -> Directory:
    """A short job of a system."""
    plan = changed(SIMULATE, {"stages": [{**STAGE, "log_freq": 50}], "engine": engine})
    job = Directory(folder / "task", task_of(plan))
    for name in ("system.xml", "state.xml", "topology.json"):
        (job.path / "input" / name).write_bytes(system.output(name).read_bytes())
    job.run()
    return job


def with_nbfix(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files of CHARMM with pairs of types of their own, as its stream of water and ions has them."""
    pairs = b"\nNBFIX\nSOD CLA -0.083875 3.731\nOWT3 O -0.300000 3.400\n\nEND"
    return {**files, "system.prm": re.sub(rb"\nEND", lambda _: pairs, files["system.prm"], count=1)}


def test_pairs_of_types_of_their_own_cost_no_table_and_gromacs_runs_them(
    bring: Bring, brought: dict[str, Directory], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = bring(with_nbfix(loose("charmm")))
    assert directory.result["status"] == "succeeded", directory.result
    files = with_nbfix(content("charmm"))
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    psf = app.CharmmPsfFile(
        str(tmp_path / "system.psf"),
        periodicBoxVectors=app.PDBFile(str(tmp_path / "system.pdb")).topology.getPeriodicBoxVectors(),
    )
    tabulated = psf.createSystem(
        app.CharmmParameterSet(str(tmp_path / "system.rtf"), str(tmp_path / "system.prm")),
        **SETTINGS,
        flexibleConstraints=False,
    )
    for force in tabulated.getForces():
        if isinstance(force, openmm.CustomNonbondedForce):
            force.setUseLongRangeCorrection(True)
    system = openmm.XmlSerializer.deserialize(directory.output("system.xml").read_text())
    state = openmm.XmlSerializer.deserialize(directory.output("state.xml").read_text())
    totals = [sum(energy for _, energy in energies(each, state.getPositions())) for each in (system, tabulated)]
    assert totals[0] == pytest.approx(totals[1], abs=1e-3)
    plain = openmm.XmlSerializer.deserialize(brought["charmm"].output("system.xml").read_text())
    assert abs(sum(energy for _, energy in energies(plain, state.getPositions())) - totals[0]) > 1
    pairs = [force for force in system.getForces() if isinstance(force, openmm.CustomNonbondedForce)]
    assert [force.getNumInteractionGroups() for force in pairs] == [2]
    for engine in ("openmm", "gromacs"):
        job = job_of(directory, tmp_path_factory.mktemp(engine), engine)
        assert job.result["status"] == "succeeded", job.result
        assert job.result["engine"] == engine
        method = json.loads(job.output("production.method.json").read_text())
        assert method["nonbonded"]["dispersion_correction"], engine


def test_a_binary_restart_has_the_same_coordinates_as_its_text(bring: Bring, brought: dict[str, Directory]) -> None:
    found = content("amber")
    binary = bring({"system.prmtop": found["system.prmtop"], "last.rst7": found["netcdf.rst7"]})
    places = [
        np.array(json.loads((each.work / "output" / "topology.json").read_text())["positions"])
        for each in (binary, brought["amber"])
    ]
    assert np.abs(places[0] - places[1]).max() < 1e-4


def test_a_barostat_of_the_file_gives_way_to_the_jobs(brought: dict[str, Directory]) -> None:
    codes = {warning["code"]: warning["message"] for warning in brought["openmm"].result["warnings"]}
    assert "MonteCarloBarostat" in codes["force_removed"]
    text = brought["openmm"].output("system.xml").read_text()
    assert "MonteCarloBarostat" not in text


def test_a_molecule_that_the_box_cuts_is_made_whole(bring: Bring, brought: dict[str, Directory]) -> None:
    found = loose("openmm")
    pdb = app.PDBFile(io.StringIO(found["system.pdb"].decode()))
    places = np.array(pdb.positions.value_in_unit(unit.nanometer))
    cut = (places - np.array([0.0, 0.0, places[:22, 2].mean()])) % 2.3
    buffer = io.StringIO()
    app.PDBFile.writeFile(pdb.topology, cut * unit.nanometer, buffer)
    whole = bring({**found, "system.pdb": buffer.getvalue().encode()})
    assert whole.result["status"] == "succeeded", whole.result
    peptide = np.array(json.loads(whole.output("topology.json").read_text())["positions"])[:22]
    assert np.ptp(cut[:22, 2]) > 1.5
    assert np.ptp(peptide, axis=0).max() < 1.0


def refused(directory: Directory, code: str) -> str:
    result = directory.result
    assert result["status"] == "failed" and "traceback" not in result, result
    error = result["error"]
    assert error["code"] == code, error
    assert error["loc"] == ["body", "built"] and error["remedy"], error
    message: str = error["message"]
    assert str(directory.path) not in message
    return message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../outside.itp", "'../outside.itp' leads out of the archive"),
        ("a/../../outside.itp", "leads out of the archive"),
        ("/etc/outside.itp", "'/etc/outside.itp' leads out of the archive"),
        ("C:\\outside.itp", "leads out of the archive"),
        ("a\\..\\outside.itp", "leads out of the archive"),
    ],
)
def test_a_path_out_of_an_archive_is_refused(name: str, words: str, bring: Bring) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = name
        archive.writestr(info, b"; nothing\n")
    directory = bring({"pack.zip": buffer.getvalue()})
    message = refused(directory, "built_unsafe")
    assert message.startswith("pack.zip: ") and (words in message or "leads out" in message)
    assert not list(directory.path.parent.glob("**/outside.itp"))


def test_a_link_in_an_archive_is_refused(bring: Bring) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("system.top")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    assert "'system.top' is a link" in refused(bring({"pack.zip": buffer.getvalue()}), "built_unsafe")


def test_an_archive_that_would_fill_the_disk_is_refused(bring: Bring) -> None:
    bomb = packed({"system.gro": b"0" * (200 << 20)})
    assert "unpacked it would have 210 MB" in refused(bring({"bomb.zip": bomb}), "built_unsafe")
    assert "it has 2001 files" in refused(
        bring({"many.zip": packed({f"{i}.itp": b"" for i in range(2001)})}), "built_unsafe"
    )
    assert "cannot be unpacked" in refused(bring({"cut.zip": bomb[:-30]}), "built_unreadable")
    # What is longer than the archive says of it is cut off there.
    liar = bytearray(packed({"system.gro": b"0" * 4096}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = liar.index(signature) + offset
        liar[at : at + 4] = (64).to_bytes(4, "little")
    assert "cannot be unpacked" in refused(bring({"liar.zip": bytes(liar)}), "built_unreadable")
    damaged = bytearray((BUILT / "amber.zip").read_bytes())
    damaged[5000:5100] = bytes(100)
    assert "cannot be unpacked" in refused(bring({"damaged.zip": bytes(damaged)}), "built_unreadable")
    long = packed({"x" * 300 + ".gro": b"x"})
    assert "is too long a name" in refused(bring({"long.zip": long}), "built_unsafe")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ('#include "/etc/passwd"', "built_unsafe", "#include '/etc/passwd' leads out of the archive"),
        ('#include "../../secret.itp"', "built_unsafe", "leads out of the archive"),
        ("#include <oplsaa.ff/forcefield.itp>", "built_incomplete", "'oplsaa.ff/forcefield.itp' is included and not"),
        ('#include "topol.top"', "built_unsafe", "files include each other without an end"),
        ("#define A 1\n#define B A A\n", "built_unsafe", "the macro B stands for 2 others"),
        ("#ifdef A", "built_unreadable", "an #ifdef has no #endif"),
        ("#if 1", "built_unreadable", "'#if 1' cannot be followed"),
    ],
)
def test_an_include_that_leads_out_or_nowhere_is_refused(line: str, code: str, words: str, bring: Bring) -> None:
    files = content("gromacs")
    files["topol.top"] = line.encode() + b"\n" + files["topol.top"]
    message = refused(bring({"pack.zip": packed(files)}), code)
    assert words in message and message.startswith("topol.top"), message


def test_an_include_that_is_not_read_may_be_missing(bring: Bring) -> None:
    files = content("gromacs")
    del files["posre.itp"]
    assert bring({"pack.zip": packed(files)}).result["status"] == "succeeded"


def test_a_topology_without_includes_needs_no_archive(bring: Bring, brought: dict[str, Directory]) -> None:
    files = content("gromacs")
    expanded = (brought["gromacs"].work / "built" / "expanded.top").read_bytes()
    assert b"#include" not in expanded
    alone = bring({"topol.top": expanded, "conf.gro": files["conf.gro"]})
    assert alone.result["status"] == "succeeded"
    assert alone.output("system.xml").read_bytes() == brought["gromacs"].output("system.xml").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('type="CMMotionRemover"', 'type="PythonForce"', "a PythonForce cannot be run here: it is code"),
        ('type="CMMotionRemover"', 'type="TorchForce" file="/etc/passwd"', "a TorchForce cannot be run here"),
        ('type="CMMotionRemover"', 'type="AmoebaVdwForce"', "a AmoebaVdwForce cannot be run here"),
        ('type="System"', 'type="PythonForce"', "the root is <System>, not a <System>"),
        ("<System ", "<!DOCTYPE System [<!ENTITY a 'b'>]><System ", "DOCTYPE is not allowed"),
    ],
)
def test_a_system_that_could_run_code_is_refused(old: str, new: str, words: str, bring: Bring) -> None:
    files = loose("openmm")
    text = files["system.xml"].decode()
    assert old in text
    files["system.xml"] = text.replace(old, new).encode()
    assert words in refused(bring(files), "built_unsafe")


@pytest.mark.parametrize("force", [openmm.DrudeForce, openmm.CustomGBForce])
def test_a_force_that_jobs_do_not_run_is_refused_whoever_has_loaded_it(force: type) -> None:
    system = openmm.System()
    system.addForce(openmm.NonbondedForce())
    system.getForce(0).setNonbondedMethod(openmm.NonbondedForce.PME)
    system.addForce(openmm.CMMotionRemover())
    _check_forces(system, "CHARMM, system.psf")
    system.addForce(force())
    with pytest.raises(TaskError, match=f"CHARMM, system.psf: a {force.__name__} cannot be run here"):
        _check_forces(system, "CHARMM, system.psf")


def test_what_openmm_would_read_in_a_comment_is_never_given_to_it(bring: Bring) -> None:
    files = loose("openmm")
    # OpenMM's own reader ends the comment at the first `>`.
    hidden = b'<Forces><!-- > <Force type="PythonForce" pickle="x"/> <! -->'
    files["system.xml"] = files["system.xml"].replace(b"<Forces>", hidden)
    with pytest.raises(openmm.OpenMMException, match="in node 'Force'"):
        openmm.XmlSerializer.deserialize(files["system.xml"].decode())
    assert bring(files).result["status"] == "succeeded"


def test_custom_forces_are_formulas_and_run(bring: Bring) -> None:
    files = loose("openmm")
    system = openmm.XmlSerializer.deserialize(files["system.xml"].decode())
    force = openmm.CustomExternalForce("0.5*k*periodicdistance(x,y,z,1,1,1)^2")
    force.addGlobalParameter("k", 1.0)
    force.addParticle(4, [])
    system.addForce(force)
    files["system.xml"] = openmm.XmlSerializer.serialize(system).encode()
    assert bring(files).result["status"] == "succeeded"
    force.setGlobalParameterName(0, "k_restraint")
    force.setEnergyFunction("0.5*k_restraint*x")
    files["system.xml"] = openmm.XmlSerializer.serialize(system).encode()
    assert "is a name of ours" in refused(bring(files), "built_unsafe")


def test_a_system_without_a_box_or_period_is_refused(bring: Bring) -> None:
    amber, charmm, gromacs, serialized = content("amber"), loose("charmm"), content("gromacs"), loose("openmm")
    no_box = "\n".join(amber["system.rst7"].decode().splitlines()[:-1]) + "\n"
    prmtop = amber["system.prmtop"].decode()
    pointers = re.search(r"%FLAG POINTERS\s*\n%FORMAT\(10I8\)\s*\n((?:.*\n){3})", prmtop)
    assert pointers
    # The 28th number says whether there is a box.
    rows = [re.findall(r".{8}", row) for row in pointers[1].splitlines()]
    rows[2][7] = "       0"
    unboxed = prmtop.replace(pointers[1], "".join("".join(row) + "\n" for row in rows))
    amber_files = {"a.prmtop": unboxed.encode(), "a.rst7": no_box.encode()}
    assert "no file has the periodic box of a.prmtop" in refused(bring(amber_files), "box_missing")
    pdb = charmm.pop("system.pdb")
    assert "no file has the periodic box of system.psf" in refused(bring(charmm), "box_missing")
    with_xsc = bring({"pack.zip": packed({**charmm, "a.xsc": b"# step\n0 23 0 0 0 23 0 0 0 23 0 0 0\n"})})
    assert with_xsc.result["status"] == "succeeded", with_xsc.result
    placeholder = re.sub(rb"(?m)^CRYST1.*", b"CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1", pdb)
    files = {**charmm, "system.pdb": placeholder, "a.xsc": b"# step\n0 23 0 0 0 23 0 0 0 23 0 0 0\n"}
    with_placeholder = bring({"pack.zip": packed(files)})
    assert with_placeholder.result["status"] == "succeeded", with_placeholder.result
    lines = gromacs["conf.gro"].decode().splitlines()
    flat = "\n".join([*lines[:-1], "   0.00000   0.00000   0.00000"]) + "\n"
    files = {"pack.zip": packed({**gromacs, "conf.gro": flat.encode()})}
    assert "no file has the periodic box" in refused(bring(files), "box_missing")
    system = openmm.XmlSerializer.deserialize(serialized["system.xml"].decode())
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setNonbondedMethod(openmm.NonbondedForce.NoCutoff)
    serialized["system.xml"] = openmm.XmlSerializer.serialize(system).encode()
    assert "its NonbondedForce is not periodic" in refused(bring(serialized), "not_periodic")


def test_a_box_that_is_too_small_for_the_cutoff_is_refused(bring: Bring) -> None:
    files = loose("openmm")
    files["system.pdb"] = files["system.pdb"].replace(b"23.000   23.000   23.000", b"20.500   23.000   23.000")
    assert "its box is 2.05 nm wide" in refused(bring(files), "box_too_small")


def test_files_that_do_not_make_one_system_are_refused(bring: Bring) -> None:
    amber, serialized = content("amber"), loose("openmm")
    alone = refused(bring({"a.rst7": amber["system.rst7"]}), "built_incomplete")
    assert "a built system has one topology" in alone and "there is none" in alone
    two = {"a.prmtop": amber["system.prmtop"], "system.xml": serialized["system.xml"]}
    assert "there are 2: a.prmtop, system.xml" in refused(bring(two), "built_incomplete")
    assert "no coordinates for a.prmtop" in refused(bring({"a.prmtop": amber["system.prmtop"]}), "built_incomplete")
    charmm = content("charmm")
    bare = {name: charmm[name] for name in ("system.psf", "system.pdb")}
    assert "no parameters for system.psf" in refused(bring(bare), "built_incomplete")
    mixed = {"a.prmtop": amber["system.prmtop"], "system.pdb": serialized["system.pdb"]}
    assert "a.prmtop has 1166 atoms, and there are coordinates of" in refused(bring(mixed), "atoms_differ")
    many = content("gromacs")
    many["topol.top"] = re.sub(rb"SOL +\d+", b"SOL 900000000", many["topol.top"])
    assert "topol.top has 2700000026 atoms" in refused(bring({"pack.zip": packed(many)}), "atoms_differ")
    large = bring({"a.prmtop": amber["system.prmtop"], "a.rst7": amber["system.rst7"]}, max_atoms=1000)
    assert "has 1166 atoms, the service takes 1000" in refused(large, "too_large")


@pytest.mark.parametrize("program", ["amber", "charmm", "openmm"])
def test_damaged_files_are_refused_with_their_name(program: str, bring: Bring) -> None:
    files = loose(program)
    name = LOOSE[program][0]
    files[name] = files[name][: len(files[name]) // 2]
    directory = bring(files)
    error = directory.result["error"]
    assert error["code"] in {"built_unreadable", "atoms_differ"} and name in error["message"], error


def test_hydrogens_whose_bonds_are_not_constrained_are_a_warning(bring: Bring, brought: dict[str, Directory]) -> None:
    assert "hydrogens_free" not in warnings(brought["openmm"])
    files = loose("openmm")
    system = openmm.XmlSerializer.deserialize(files["system.xml"].decode())
    first, second, length = system.getConstraintParameters(0)
    system.removeConstraint(0)
    bonds = next(force for force in system.getForces() if isinstance(force, openmm.HarmonicBondForce))
    bonds.addBond(first, second, length, 284512.0)
    files["system.xml"] = openmm.XmlSerializer.serialize(system).encode()
    (message,) = warnings(bring(files))["hydrogens_free"]
    assert message.startswith("1 bonds of hydrogens are not constrained")


def test_a_charge_that_is_left_is_a_warning(bring: Bring) -> None:
    files = content("gromacs")
    files["topol.top"] = re.sub(rb"CL +2", b"CL 1", files["topol.top"])
    lines = files["conf.gro"].decode().splitlines()
    lines[1] = str(int(lines[1]) - 1)
    del lines[-2]
    files["conf.gro"] = ("\n".join(lines) + "\n").encode()
    result = bring({"pack.zip": packed(files)}).result
    assert result["status"] == "succeeded", result
    assert any(w["code"] == "not_neutral" and "+1.000 e" in w["message"] for w in result["warnings"])


def test_water_that_lies_nearer_than_its_radii_is_let_go(bring: Bring) -> None:
    # `gmx solvate` keeps water only 0.57 of the sum of the radii from what it surrounds.
    files = loose("openmm")
    pdb = app.PDBFile(io.StringIO(files["system.pdb"].decode()))
    places = np.array(pdb.getPositions(asNumpy=True)._value)
    atoms = list(pdb.topology.atoms())
    waters = [atom.index for atom in atoms if atom.residue.name in {"HOH", "WAT"} and atom.element.symbol == "O"]
    solute = [a.index for a in atoms if len(list(a.residue.atoms())) > 3 and a.element.symbol in {"C", "N", "O"}]
    apart = places[waters][:, None] - places[solute]
    water, atom = np.unravel_index(np.linalg.norm(apart, axis=2).argmin(), apart.shape[:2])
    step = apart[water, atom]
    moved = [a.index for a in atoms[waters[water]].residue.atoms()]
    places[moved] += step * (0.175 / np.linalg.norm(step) - 1)
    text = io.StringIO()
    app.PDBFile.writeFile(pdb.topology, places * unit.nanometer, text, keepIds=True)
    result = bring({**files, "system.pdb": text.getvalue().encode()}).result
    assert result["status"] == "succeeded", result
    (message,) = (w["message"] for w in result["warnings"] if w["code"] == "built_relaxed")
    assert "nm apart without a bond" in message, message


def test_coordinates_that_are_no_number_or_overlap_are_refused(bring: Bring) -> None:
    files = loose("openmm")
    text = files["system.pdb"].decode()
    atoms = [line for line in text.splitlines() if line.startswith(("ATOM", "HETATM"))]
    on_top = text.replace(atoms[8][30:54], atoms[10][30:54])
    result = bring({**files, "system.pdb": on_top.encode()}).result
    assert result["status"] == "failed" and result["error"]["loc"] == ["body", "built"], result
    nan = text.replace(atoms[8][30:38], "     nan")
    assert bring({**files, "system.pdb": nan.encode()}).result["error"]["code"] in {
        "bad_coordinates",
        "built_unreadable",
    }


def test_an_atom_where_none_can_be_is_named(bring: Bring) -> None:
    files = loose("openmm")
    text = files["system.pdb"].decode()
    atoms = [line for line in text.splitlines() if line.startswith(("ATOM", "HETATM"))]
    far = text.replace(atoms[8][30:38], "  1.0e30")
    result = bring({**files, "system.pdb": far.encode()}).result
    assert result["error"]["code"] == "bad_coordinates", result
    name = atoms[8][12:16].strip()
    assert result["error"]["message"].startswith(f"atom 9, {name} of "), result
    assert "is at (1e+30, " in result["error"]["message"], result
