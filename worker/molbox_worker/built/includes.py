"""GROMACS topologies with their includes put in, so that no file is opened that is not the user's own.

OpenMM follows `#include` wherever it leads, absolute paths and `..` among them.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from molbox_worker.built.files import LOC, BuiltFile
from molbox_worker.result import TaskError

MAX_DEPTH = 20
# Of all files together: what is included more than once counts each time.
MAX_LINES = 20_000_000
MAX_BYTES = 1 << 29
# A macro whose value has two others grows by a factor of two with each that is stacked so.
MAX_MACROS_IN_VALUE = 1


class Expanded:
    """A topology without includes.

    Attributes
    ----------
    lines
        Its lines.
    n_atoms
        Atoms of all molecules that it lists.

    """

    def __init__(self, top: BuiltFile, files: list[BuiltFile]) -> None:
        self.lines: list[str] = []
        self._top = top
        self._by_name = {PurePosixPath(file.name): file for file in files}
        self._defines: dict[str, str] = {}
        self._conditions: list[bool] = []
        self._n_bytes = 0
        self._category = ""
        self._atoms: dict[str, int] = {}
        self._molecule: str | None = None
        self.n_atoms = 0
        self._read(top, 0)
        if self._conditions:
            raise self._invalid(top, len(self.lines), "an #ifdef has no #endif")

    def write(self, path: Path) -> None:
        """Write it as one file."""
        path.write_text("".join(self.lines))

    def _read(self, file: BuiltFile, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._unsafe(file, 1, "files include each other without an end", "take the circle out")
        # Comments may be in any encoding; the rest is ASCII.
        for number, line in enumerate(file.path.read_text(errors="replace").splitlines(keepends=True), 1):
            text = line.split(";", 1)[0].strip()
            if text.startswith("#"):
                self._direct(text, line, file, number, depth)
            elif all(self._conditions):
                self._count(text, file, number)
                self._keep(line, file, number)

    def _direct(self, text: str, line: str, file: BuiltFile, number: int, depth: int) -> None:
        """Follow a line for the preprocessor."""
        words = text.split()
        command, is_read = words[0], all(self._conditions)
        if command in {"#ifdef", "#ifndef"} and len(words) > 1:
            self._conditions.append((words[1] in self._defines) == (command == "#ifdef"))
        elif command == "#else" and self._conditions:
            self._conditions[-1] = not self._conditions[-1]
        elif command == "#endif" and self._conditions:
            self._conditions.pop()
        elif not is_read:
            return
        elif command == "#include":
            self._read(self._included(text, file, number), depth + 1)
        elif command == "#define" and len(words) > 1:
            self._define(words[1], words[2:], file, number)
            self._keep(line, file, number)
        elif command == "#undef" and len(words) > 1:
            self._defines.pop(words[1], None)
            self._keep(line, file, number)
        else:
            raise self._invalid(file, number, f"{text!r} cannot be followed")

    def _define(self, name: str, value: list[str], file: BuiltFile, number: int) -> None:
        names = [word for word in re.findall(r"\w+", " ".join(value)) if word in self._defines]
        if len(names) > MAX_MACROS_IN_VALUE:
            why = f"the macro {name} stands for {len(names)} others"
            raise self._unsafe(file, number, why, "write its value out")
        self._defines[name] = " ".join(value)

    def _included(self, text: str, file: BuiltFile, number: int) -> BuiltFile:
        """The file that a line includes: beside the one that it stands in, or beside the topology."""
        name = text.removeprefix("#include").strip(' \t"<>')
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name:
            remedy = "put the file into the archive, beside the topology, and include it by that name"
            raise self._unsafe(file, number, f"#include {name!r} leads out of the archive", remedy)
        for folder in (PurePosixPath(self._top.name).parent, PurePosixPath(file.name).parent):
            if found := self._by_name.get(folder / path):
                return found
        raise TaskError(
            "built_incomplete",
            f"{file.name}, line {number}: {name!r} is included and not there",
            remedy="give a zip archive with the topology and all that it includes, or one file without includes, which"
            " `gmx grompp -pp processed.top` writes",
            loc=LOC,
        )

    def _keep(self, line: str, file: BuiltFile, number: int) -> None:
        self._n_bytes += len(line)
        if len(self.lines) >= MAX_LINES or self._n_bytes > MAX_BYTES:
            remedy = "give the topology of one system"
            raise self._unsafe(file, number, "with all includes the topology is too long", remedy)
        self.lines.append(line if line.endswith("\n") else line + "\n")

    def _count(self, text: str, file: BuiltFile, number: int) -> None:
        """Count atoms, so that a number of molecules that is out of all bounds is met before they are made."""
        if text.startswith("["):
            self._category = text.strip("[] \t")
            return
        words = text.split()
        if not words:
            return
        if self._category == "moleculetype":
            self._molecule = words[0]
            self._atoms[words[0]] = 0
        elif self._category == "atoms" and self._molecule is not None:
            self._atoms[self._molecule] += 1
        elif self._category == "molecules":
            if len(words) < 2 or not words[1].isdecimal():
                raise self._invalid(file, number, f"{text!r} has no number of molecules")
            # One that is not defined, OpenMM names.
            self.n_atoms += self._atoms.get(words[0], 0) * int(words[1])

    @staticmethod
    def _invalid(file: BuiltFile, number: int, why: str) -> TaskError:
        return TaskError("built_unreadable", f"{file.name}, line {number}: {why}", remedy="correct the file", loc=LOC)

    @staticmethod
    def _unsafe(file: BuiltFile, number: int, why: str, remedy: str) -> TaskError:
        return TaskError("built_unsafe", f"{file.name}, line {number}: {why}", remedy=remedy, loc=LOC)
