"""Bonds between residues other than along a chain: built, refused, or cut with what hangs on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import AMBER19, CHARMM36_2024, DATA, Directory, input_file, structure, warnings
from openmm import app
from test_residues import SMALL, part

Builder = Callable[..., Directory]
LACTAM = (DATA / "2n0n_lactam.pdb").read_text()


def without_links(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("LINK"))


@pytest.mark.parametrize("text", [LACTAM, without_links(LACTAM)], ids=["by its record", "by its distance"])
def test_a_lactam_is_refused_by_name(builder: Builder, text: str) -> None:
    failure = builder(text).result["error"]
    assert (failure["code"], failure["loc"]) == ("covalent_link", ["body", "protein"])
    assert "NZ of LYS 5 of chain A is bonded to CD of GLU 9 of chain A (0.133 nm)" in failure["message"]
    assert "amber14" in failure["message"] and "force-field file" in failure["remedy"]


def test_a_recorded_bond_of_poor_geometry_is_refused_too(builder: Builder) -> None:
    # A tenth longer than what distances alone would tell.
    lines = LACTAM.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("ATOM") and line[12:16].strip() == "NZ")
    nz = np.array([float(lines[at][k : k + 8]) for k in (30, 38, 46)])
    cd = next(
        line for line in lines if line.startswith("ATOM") and line[12:16].strip() == "CD" and line[17:20] == "GLU"
    )
    away = nz - np.array([float(cd[k : k + 8]) for k in (30, 38, 46)])
    moved = nz + 0.6 * away / np.linalg.norm(away)
    lines[at] = lines[at][:30] + "".join(f"{x:8.3f}" for x in moved) + lines[at][54:]
    assert builder("".join(lines)).result["error"]["code"] == "covalent_link"


# Amber's own names and types, and a charge of zero each: enough to be built.
def linked_residues() -> str:
    """A force-field file with a lysine and a glutamate that are bonded by their side chains."""
    force_field = app.ForceField("amber14-all.xml")
    residues = []
    for name, template, lost, outside in (
        ("LYL", "LYS", {"HZ2", "HZ3"}, "NZ"),
        ("GLL", "GLH", {"OE2", "HE2"}, "CD"),
    ):
        known = force_field._templates[template]
        atoms = [atom for atom in known.atoms if atom.name not in lost]
        names = {atom.name for atom in atoms}
        # As in the peptide bond of a backbone.
        types = {"NZ": "protein-N", "HZ1": "protein-H"} if name == "LYL" else {"CD": "protein-C", "OE1": "protein-O"}
        # The charges that are lost with atoms are spread over the others.
        rest = sum(atom.parameters["charge"] for atom in atoms)
        lines = [
            f'<Atom name="{atom.name}" type="{types.get(atom.name, atom.type)}"'
            f' charge="{atom.parameters["charge"] - rest / len(atoms):.9f}"/>'
            for atom in atoms
        ]
        bonds = [(known.atoms[a].name, known.atoms[b].name) for a, b in known.bonds]
        lines += [f'<Bond atomName1="{a}" atomName2="{b}"/>' for a, b in bonds if {a, b} <= names]
        lines += [f'<ExternalBond atomName="{atom}"/>' for atom in ("N", "C", outside)]
        residues.append(f'<Residue name="{name}">{"".join(lines)}</Residue>')
    bond = '<Bond type1="protein-C8" type2="protein-N" length="0.1449" k="282001.6"/>'
    forces = f"<HarmonicBondForce>{bond}</HarmonicBondForce>"
    return f"<ForceField><Residues>{''.join(residues)}</Residues>{forces}</ForceField>"


def test_a_link_is_built_where_templates_have_it(builder: Builder) -> None:
    named = LACTAM.replace("LYS A   5", "LYL A   5").replace("GLU A   9", "GLL A   9")
    # The templates are those within a chain; caps make them so.
    custom = input_file("force_field.xml", "linked.xml")
    amber14 = {"name": "amber14,linked.xml", "family": "amber", "files": ["amber14-all.xml"], "custom": custom}
    built = builder(
        with_caps(named), inputs={"force_field.xml": linked_residues()}, force_field=amber14, box_shape="cube"
    )
    assert built.result["status"] == "succeeded", built.log()
    file = structure(built)
    bonds = {frozenset((a.name, b.name)) for a, b in file.topology.bonds() if a.residue is not b.residue}
    assert frozenset(("NZ", "CD")) in bonds
    residue = next(residue for residue in file.topology.residues() if residue.name == "LYL")
    assert [atom.name for atom in residue.atoms() if atom.name.startswith("HZ")] == ["HZ1"]


def with_caps(text: str) -> str:
    """The structure with an acetyl and an amide group where its ends were bonded in the whole peptide."""
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("ATOM")]
    place = {
        (line[22:26].strip(), line[12:16].strip()): np.array([float(line[k : k + 8]) for k in (30, 38, 46)])
        for line in lines
    }
    n, ca = place["5", "N"], place["5", "CA"]
    h = unit_vector(n - ca)
    side = unit_vector(np.cross(h, place["5", "C"] - ca))
    c = n + 1.335 * unit_vector(0.5 * h + 0.85 * side)
    o = c + 1.23 * unit_vector(h + 0.2 * side)
    ch3 = c + 1.5 * unit_vector(-0.5 * h + 0.87 * side)
    ca9, c9, o9 = (place["9", name] for name in ("CA", "C", "O"))
    amide = c9 - 1.335 * unit_vector(unit_vector(ca9 - c9) + unit_vector(o9 - c9))

    def line(name: str, residue: str, number: int, at: np.ndarray) -> str:
        coordinates = "".join(f"{x:8.3f}" for x in at)
        return f"ATOM    900  {name:<3} {residue} A{number:4}    {coordinates}  1.00  0.00           {name[0]}\n"

    start = line("C", "ACE", 4, c) + line("O", "ACE", 4, o) + line("CH3", "ACE", 4, ch3)
    return start + "".join(lines) + line("N", "NH2", 10, amide)


def unit_vector(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x))


@pytest.mark.parametrize("force_field", [{}, AMBER19, CHARMM36_2024], ids=["amber14", "amber19", "charmm36_2024"])
def test_a_cyclic_peptide_is_built_as_a_ring(builder: Builder, force_field: dict[str, object]) -> None:
    built = builder(DATA / "cyclic.pdb", padding_nm=0.8, **force_field)
    assert built.result["status"] == "succeeded", built.log()
    file = structure(built)
    ends = [{a.residue.id, b.residue.id} for a, b in file.topology.bonds() if {a.name, b.name} == {"C", "N"}]
    assert {"1", "6"} in ends
    names = {atom.name for residue in file.topology.residues() if residue.chain.id == "A" for atom in residue.atoms()}
    assert not names & {"OXT", "H2", "H3", "OT1"}, "a ring has no ends"
    assert built.result["summary"]["net_charge"] == pytest.approx(0, abs=1e-3)


def test_a_sugar_goes_and_what_carried_it_gets_its_hydrogens(builder: Builder) -> None:
    built = builder(DATA / "6flr_glycan.pdb", **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["glycan_removed"] == [
        "NAG 401 of chain B removed, which was bonded to ND2 of ASN 352 of chain B: hydrogens take its place"
    ]
    carrier = next(residue for residue in structure(built).topology.residues() if residue.id == "352")
    assert {"HD21", "HD22"} <= {atom.name for atom in carrier.atoms()}
    assert built.result["summary"]["check"]["residues"] == {"kept": 9, "replaced": 0, "removed": 1, "built": 0}


def test_a_ligand_that_is_bonded_goes_and_what_it_was_bonded_to_is_told(builder: Builder) -> None:
    built = builder(DATA / "1pwc_acyl.pdb", **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert warnings(built)["heterogen_removed"] == [
        "PNM 400 of chain A removed, which was bonded to OG of SER 62 of chain A: hydrogens take its place"
    ]
    carrier = next(residue for residue in structure(built).topology.residues() if residue.id == "62")
    assert "HG" in {atom.name for atom in carrier.atoms()}


def test_what_holds_two_parts_of_a_chain_is_not_removed(builder: Builder) -> None:
    # An unknown residue at the end of a peptide whose side chain is bonded to another peptide.
    named = without_links(LACTAM).replace("GLU A   9", "XXX A   9")
    failure = builder(named).result["error"]
    assert failure["code"] == "no_template" and "XXX 9 of chain A is part of a chain" in failure["message"]


def test_a_bond_to_a_copy_elsewhere_in_the_crystal_is_none(builder: Builder) -> None:
    link = "LINK         NZ  LYS A  48                 CG  ASP A  44     1555   2555  1.33  \n"
    built = builder(link + "".join(part(44, 54)), **SMALL)
    assert built.result["status"] == "succeeded", built.log()
    assert built.result["warnings"] == []
