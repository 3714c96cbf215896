"""Alternate locations and models: one of each, before any reader sees the file.

Readers take the first location of each atom, whatever its occupancy, and some mix those of two
residue types at one place. Here the location with the largest occupancy is taken for a residue as a
whole, the first one when they are equal. Of models the first is taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

# A word of mmCIF: quoted, or without spaces.
WORD = re.compile(r"'(?:[^']|'(?=\S))*'|\"(?:[^\"]|\"(?=\S))*\"|\S+")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """An atom of the file: its line, residue, residue name, location and occupancy."""

    line: int
    residue: Key
    name: str
    location: str
    occupancy: float


def choose(text: str, file_format: str) -> tuple[str, list[str], int]:
    """The text with one location for each residue, what was chosen, and the number of models.

    Raises
    ------
    ValueError
        Naming the line, when an atom of a PDB file has no coordinates.

    """
    lines = text.splitlines(keepends=True)
    n_models = 1
    if file_format == "pdb":
        n_models = _empty_later_models(lines)
        rows = _pdb_rows(lines)
    else:
        rows, n_models = _cif_rows(lines)
    by_residue: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if row.location:
            by_residue[row.residue].append(row)
    dropped: set[int] = set()
    chosen: list[str] = []
    for (chain, number, _), atoms in by_residue.items():
        occupancies: dict[str, list[float]] = defaultdict(list)
        for atom in atoms:
            occupancies[atom.location].append(atom.occupancy)
        if len(occupancies) < 2:
            continue
        best = min(occupancies, key=lambda location: (-max(occupancies[location]), location))
        dropped |= {atom.line for atom in atoms if atom.location != best}
        names = {atom.location: atom.name for atom in atoms}
        others = ", ".join(sorted(set(names) - {best}))
        mixed = f", so it is {names[best]}" if len(set(names.values())) > 1 else ""
        chosen.append(f"{names[best]} {number} of chain {chain}: location {best} taken, {others} left out{mixed}")
    # What is left is not alternate any more. In PDB files the mark has a column.
    for row in rows:
        if file_format == "pdb" and row.location:
            line = lines[row.line]
            lines[row.line] = f"{line[:16]} {line[17:]}"
    return "".join(line for i, line in enumerate(lines) if i not in dropped), chosen, n_models


def _empty_later_models(lines: list[str]) -> int:
    """Empty the lines of all models but the first; returns how many models there are.

    So are the records that begin and end a model: some programs misplace the number in them.
    """
    n_models = 0
    for i, line in enumerate(lines):
        is_mark = line.startswith(("MODEL ", "ENDMDL"))
        n_models += line.startswith("MODEL ")
        if is_mark or (n_models > 1 and line.startswith(("ATOM  ", "HETATM", "ANISOU", "TER"))):
            lines[i] = ""
    return max(n_models, 1)


def _pdb_rows(lines: list[str]) -> list[Row]:
    rows = []
    for i, line in enumerate(lines):
        if line.startswith(("ATOM  ", "HETATM")):
            for column in (30, 38, 46):
                field = line[column : column + 8]
                try:
                    float(field)
                except ValueError:
                    place = f"columns {column + 1} to {column + 8}"
                    raise ValueError(f"line {i + 1}: {field.strip()!r} in {place} is no coordinate") from None
            residue = (line[21], line[22:26].strip(), line[26])
            rows.append(Row(i, residue, line[17:20].strip(), line[16].strip(), _number(line[54:60])))
    return rows


def _cif_rows(lines: list[str]) -> tuple[list[Row], int]:
    """The atoms of the first model and the number of models; the lines of the others are emptied."""
    columns: list[str] = []
    rows, models, is_in = [], dict[str, None](), False
    for i, line in enumerate(lines):
        if line.startswith("_atom_site."):
            columns.append(line.split(".", 1)[1].split()[0])
            is_in = True
        elif is_in and line.startswith(("ATOM", "HETATM")):
            words = WORD.findall(line)
            if len(words) != len(columns):
                continue
            value = dict(zip(columns, words, strict=True))
            location = value.get("label_alt_id", ".")
            model = value.get("pdbx_PDB_model_num", "1")
            models[model] = None
            if model != next(iter(models)):
                lines[i] = ""
                continue
            rows.append(
                Row(
                    i,
                    (
                        value.get("auth_asym_id", value.get("label_asym_id", "")),
                        value.get("auth_seq_id", value.get("label_seq_id", "")),
                        value.get("pdbx_PDB_ins_code", "?"),
                    ),
                    value.get("label_comp_id", ""),
                    "" if location in {".", "?"} else location,
                    _number(value.get("occupancy", "1")),
                )
            )
        elif is_in and line.startswith(("#", "loop_", "_")):
            is_in = False
    return rows, max(len(models), 1)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
