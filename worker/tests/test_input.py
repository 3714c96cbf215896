"""Files as careless and hostile people send them: read as what they mean, or refused with a reason."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from conftest import BUILD, Directory, changed, input_file, task_of
from openmm import app
from test_residues import part
from test_structure import hetatm

from molbox_worker import prepare, structure_input
from molbox_worker.directory import TaskDirectory
from molbox_worker.prepared import Prepared
from molbox_worker.result import TaskError

PEPTIDE = "".join(part(44, 54))
SERIAL, LOCATION, CHAIN, NUMBER, X, OCCUPANCY, B_FACTOR = (
    slice(6, 11),
    slice(16, 17),
    slice(21, 22),
    slice(22, 26),
    slice(30, 38),
    slice(54, 60),
    slice(60, 66),
)


@pytest.fixture(scope="module")
def amber() -> app.ForceField:
    return app.ForceField("amber14-all.xml", "amber14/tip3p.xml")


def prepared(folder: Path, base: app.ForceField, content: str | bytes, file_format: str = "pdb") -> Prepared:
    """The content of a file, read and completed."""
    plan = changed(BUILD, {"protein": input_file(f"protein.{file_format}", "the file")})
    directory = Directory(folder / "task", task_of(plan))
    data = content if isinstance(content, bytes) else content.encode()
    (directory.path / "input" / plan.protein.file).write_bytes(data)
    task = TaskDirectory(directory.path)
    return prepare.prepare(task, plan, structure_input.read(task, plan.protein, plan.chains), base, seed=7)


def put(column: slice, text: str, *, at: int | None = None) -> str:
    """The peptide with other text in a column of all lines, or of one."""
    lines = PEPTIDE.splitlines(keepends=True)
    width = column.stop - column.start
    for i in range(len(lines)) if at is None else [at]:
        lines[i] = f"{lines[i][: column.start]}{text:>{width}}{lines[i][column.stop :]}"
    return "".join(lines)


def mmcif(old: str = "", new: str = "") -> str:
    """The peptide as mmCIF, with the first occurrence of a text replaced."""
    pdb = app.PDBFile(io.StringIO(PEPTIDE))
    file = io.StringIO()
    app.PDBxFile.writeFile(pdb.topology, pdb.positions, file, keepIds=True)
    return file.getvalue().replace(old, new, 1)


FIRST_X = PEPTIDE[X].strip()
ALL_AT_ONE_PLACE = "".join(f"{line[:30]}{'   1.000' * 3}{line[54:]}" for line in PEPTIDE.splitlines(keepends=True))
COPY = "".join(f"{line[:21]}B{line[22:]}" for line in PEPTIDE.splitlines(keepends=True))
SALT_IN_WATER = hetatm("O", "HOH", 901, (30.0, 0.0, 0.0), "O") + hetatm("Na+", "HOH", 901, (31.0, 0.0, 0.0), "NA")


@pytest.mark.parametrize(
    ("content", "file_format", "code", "words"),
    [
        ("", "pdb", "no_atoms", "the file has no atoms"),
        ("HEADER    NOTHING\nEND\n", "pdb", "no_atoms", "the file has no atoms"),
        ("<html><body>404 Not Found</body></html>", "pdb", "no_atoms", "the file has no atoms"),
        (gzip.compress(PEPTIDE.encode()), "pdb", "no_atoms", "the file has no atoms"),
        ("", "cif", "no_atoms", "the file has no atoms"),
        ("data_nothing\n", "cif", "no_atoms", "the file has no atoms"),
        (f"MODEL        1\nENDMDL\nMODEL        2\n{PEPTIDE}ENDMDL\n", "pdb", "no_atoms", "in its first model"),
        (PEPTIDE.splitlines()[0], "pdb", "no_atoms", "nothing is left"),
        (put(X, "99999.99", at=3), "pdb", "bad_coordinates", "ASP 44 of chain A would be 10001 nm large"),
        (put(X, "1.0e+30", at=3), "pdb", "bad_coordinates", "O of ASP 44 of chain A"),
        (put(X, "nan", at=3), "pdb", "bad_coordinates", "O of ASP 44 of chain A"),
        (put(X, "-inf", at=3), "pdb", "bad_coordinates", "O of ASP 44 of chain A"),
        (put(X, "********", at=3), "pdb", "unreadable", "line 4: '********' in columns 31 to 38"),
        (put(X, "", at=3), "pdb", "unreadable", "line 4: '' in columns 31 to 38"),
        (mmcif(FIRST_X, "nan"), "cif", "bad_coordinates", "N of ASP 44 of chain A"),
        (mmcif(FIRST_X, "?"), "cif", "bad_coordinates", "N of ASP 44 of chain A"),
        (mmcif(FIRST_X, "left"), "cif", "bad_coordinates", "N of ASP 44 of chain A"),
        (mmcif(FIRST_X, "1e300"), "cif", "bad_coordinates", "N of ASP 44 of chain A"),
        (mmcif()[:-40], "cif", "unreadable", "line 4: Wrong number of values in loop _atom_site"),
        (mmcif(), "pdb", "unreadable", "the file cannot be read as pdb: line 31"),
        (PEPTIDE, "cif", "unreadable", "the file cannot be read as cif: line 1"),
        (PEPTIDE.replace("    ", "\t"), "pdb", "unreadable", "the file cannot be read as pdb: line 1"),
        ("".join(f"{line[:50]}\n" for line in PEPTIDE.splitlines()), "pdb", "unreadable", "line 1 ends within"),
        (put(NUMBER, "****"), "pdb", "unreadable", "line 1: '****' in columns 23 to 26 is no residue number"),
        (put(NUMBER, "44"), "pdb", "unreadable", "ASP 44 of chain A has N at two places, 0.46 nm apart"),
        (put(NUMBER, "A000"), "pdb", "unreadable", "ASP 10000 of chain A has N at two places, 0.46 nm apart"),
        (ALL_AT_ONE_PLACE, "pdb", "atoms_overlap", "N and CA of ASP 44 of chain A have the same place"),
        (PEPTIDE + "TER\n" + COPY, "pdb", "atoms_overlap", "ASP 44 of chain A and ASP 44 of chain B lie on each other"),
        (PEPTIDE.replace("ALA", "ÄLA"), "pdb", "no_template", "?LA 49 of chain A is part of a chain"),
        (PEPTIDE + SALT_IN_WATER, "pdb", "no_template", "HOH 901 of chain A is called water and consists of O, NA+"),
    ],
)
def test_what_means_nothing_is_refused_with_the_reason(
    tmp_path: Path, amber: app.ForceField, content: str | bytes, file_format: str, code: str, words: str
) -> None:
    with pytest.raises(TaskError) as error:
        prepared(tmp_path, amber, content, file_format)
    failure = error.value.failure
    assert (failure.code, failure.loc) == (code, ["body", "protein"]), failure.message
    assert words in failure.message and "\n" not in failure.message
    assert failure.remedy


@pytest.mark.parametrize(
    ("content", "file_format"),
    [
        (PEPTIDE.replace("\n", "\r\n"), "pdb"),
        (PEPTIDE.replace("\n", "\r\n", 20), "pdb"),
        (PEPTIDE.replace("\n", "\r"), "pdb"),
        ("MODEL\n" + PEPTIDE + "ENDMDL\n", "pdb"),
        ("MODEL     first\n" + PEPTIDE + "ENDMDL\nMODEL     second\nENDMDL\n", "pdb"),
        (put(SERIAL, "*****"), "pdb"),
        (put(SERIAL, "A000A"), "pdb"),
        (put(CHAIN, "_"), "pdb"),
        (put(CHAIN, " "), "pdb"),
        (put(LOCATION, "?", at=5), "pdb"),
        (put(LOCATION, "B"), "pdb"),
        (put(OCCUPANCY, "0.00"), "pdb"),
        (put(OCCUPANCY, "half"), "pdb"),
        (put(B_FACTOR, "******"), "pdb"),
        ("".join(f"{line[:54]}\n" for line in PEPTIDE.splitlines()), "pdb"),
        (PEPTIDE.lower(), "pdb"),
        (PEPTIDE + "CONECT abcde    1\nCONECT\nCONECT99999    1\n", "pdb"),
        ("LINK         N\nSSBOND\nSEQRES\nCRYST1 abc\n" + PEPTIDE, "pdb"),
        ("CRYST1    0.000    0.000    0.000   0.00   0.00   0.00 P 1           1\n" + PEPTIDE, "pdb"),
        ("SEQRES   1 A    3  ALA GLY TRP\n" + PEPTIDE, "pdb"),
        ("REMARK   1 AUTHOR \u00c5. M\u00dcLLER\n" + PEPTIDE, "pdb"),
        (("REMARK   1 AUTHOR \u00c5. M\u00dcLLER\n" + PEPTIDE).encode("latin-1"), "pdb"),
        (mmcif(), "cif"),
        ("data_other\n_cell.length_a 1\n" + mmcif(), "cif"),
        (mmcif().replace("\n", "\r\n"), "cif"),
    ],
)
def test_what_only_looks_odd_is_read_as_what_it_is(
    tmp_path: Path, amber: app.ForceField, content: str | bytes, file_format: str
) -> None:
    found = prepared(tmp_path, amber, content, file_format)
    names = [residue.name for residue in found.modeller.topology.residues()]
    assert names == ["ASP", "GLU", "ASP", "PHE", "LYS", "ALA", "VAL", "PHE", "GLY", "MET", "THR"]
    # The end of a chain gets its second oxygen.
    assert found.modeller.topology.getNumAtoms() == len(PEPTIDE.splitlines()) + 1


def test_a_chain_whose_name_readers_do_not_take_gets_one_that_they_do(tmp_path: Path, amber: app.ForceField) -> None:
    topology = prepared(tmp_path, amber, put(CHAIN, "_")).modeller.topology
    file = io.StringIO()
    app.PDBxFile.writeFile(topology, [(0, 0, 0)] * topology.getNumAtoms(), file, keepIds=True)
    read = app.PDBxFile(io.StringIO(file.getvalue()))
    assert read.topology.getNumAtoms() == topology.getNumAtoms()
    assert [chain.id for chain in read.topology.chains()] == ["A"]


def test_caps_that_charmm_writes_into_residues_are_caps(tmp_path: Path, amber: app.ForceField) -> None:
    before = {"CA": "CAY", "C": "CY", "O": "OY"}
    after = {"N": "NT", "CA": "CAT"}
    lines = [(line, before, 49) for line in part(48, 48)] + [(line, {}, 0) for line in part(49, 50)]
    lines += [(line, after, 50) for line in part(51, 51)]
    capped = []
    for line, caps, number in lines:
        name = line[12:16].strip()
        if number and name in caps:
            capped.append(
                f"{line[:12]} {caps[name]:<3}{line[16:17]}{'ALA' if number == 49 else 'VAL'} A  {number}{line[26:]}"
            )
        elif not number:
            capped.append(line)
    found = prepared(tmp_path, amber, "".join(capped))
    residues = [(residue.name, residue.id) for residue in found.modeller.topology.residues()]
    assert residues == [("ACE", "48"), ("ALA", "49"), ("VAL", "50"), ("NME", "51")]
    assert found.account.counts == {"kept": 4, "replaced": 0, "removed": 0, "built": 0}
