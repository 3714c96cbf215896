"""The files of a built system: archives unpacked, and what each file is.

Nothing leaves the folder that it is unpacked into, whatever names an archive has.
"""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from molbox_worker.directory import TaskDirectory
from molbox_worker.plan import InputFile
from molbox_worker.result import TaskError

LOC: list[str | int] = ["body", "built"]
# Of an archive, unpacked. A million atoms are 300 MB as text.
MAX_BYTES = 1 << 30
MAX_MEMBERS = 2000
# Bytes of a name that any file system takes.
MAX_NAME = 200
# Compressed text shrinks to a tenth; an archive that grows by more than this is made to fill disks.
MAX_RATIO = 200
CHUNK = 1 << 20

# What an extension says. `.top` and `.crd` are of two programs each: the first bytes decide.
KINDS = {
    "prmtop": "prmtop",
    "parm7": "prmtop",
    "inpcrd": "inpcrd",
    "rst7": "inpcrd",
    "ncrst": "inpcrd",
    "restrt": "inpcrd",
    "top": "top",
    "itp": "itp",
    "gro": "gro",
    "psf": "psf",
    "crd": "crd",
    "cor": "crd",
    "prm": "parameters",
    "par": "parameters",
    "rtf": "parameters",
    "str": "parameters",
    "inp": "parameters",
    "xsc": "xsc",
    "pdb": "pdb",
    "cif": "cif",
    "xml": "xml",
}


@dataclass(frozen=True)
class BuiltFile:
    """A file of a built system.

    Attributes
    ----------
    path
        Where it is.
    name
        What its owner calls it; of a member of an archive, its path in it.
    kind
        A value of `KINDS`.

    """

    path: Path
    name: str
    kind: str


def gather(task: TaskDirectory, given: list[InputFile]) -> list[BuiltFile]:
    """The files that a request names, and in place of each archive what it holds."""
    found = []
    for index, file in enumerate(given):
        path, name = task.input(file.file), _called(file)
        if file.format == "zip":
            folder = task.work / "built" / str(index)
            # An earlier attempt may have been killed while it unpacked.
            shutil.rmtree(folder, ignore_errors=True)
            found += _unpack(path, name, folder)
        else:
            found.append(_of(path, name, KINDS[file.format]))
    return found


def _called(file: InputFile) -> str:
    """A file's name with its extension: files of one system are often called alike but for that."""
    extension = f".{file.format}"
    return file.name if file.name.endswith(extension) else file.name + extension


def _of(path: Path, name: str, kind: str) -> BuiltFile:
    with path.open("rb") as file:
        head = file.read(4096)
    if kind == "top" and head.lstrip().startswith(b"%VERSION"):
        kind = "prmtop"
    if kind == "crd" and not head.lstrip().startswith(b"*"):
        kind = "inpcrd"
    if kind == "xml" and b"<System" not in head:
        # OpenMM writes states, integrators and force fields as XML too.
        kind = "other"
    return BuiltFile(path, name, kind)


def _unpack(path: Path, archive: str, folder: Path) -> list[BuiltFile]:
    """What an archive holds, as far as it belongs to a built system."""
    try:
        with zipfile.ZipFile(path) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            _check_members(members, archive)
            for member in members:
                _write(opened, member, folder / member.filename, archive)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
        raise TaskError(
            "built_unreadable", f"{archive} cannot be unpacked: {error}", remedy="make the archive anew", loc=LOC
        ) from error
    found = []
    for member in members:
        place = PurePosixPath(member.filename)
        kind = KINDS.get(place.suffix.lower().removeprefix("."))
        # What macOS adds to archives has the names of the files that it is about.
        if kind and not any(part.startswith((".", "__MACOSX")) for part in place.parts):
            found.append(_of(folder / member.filename, member.filename, kind))
    return found


def _check_members(members: list[zipfile.ZipInfo], archive: str) -> None:
    def refuse(why: str, remedy: str) -> None:
        raise TaskError("built_unsafe", f"{archive}: {why}", remedy=remedy, loc=LOC)

    if len(members) > MAX_MEMBERS:
        refuse(f"it has {len(members)} files, {MAX_MEMBERS} is the most", "pack the files of the system alone")
    seen = set()
    for member in members:
        name = member.filename
        is_inside = not re.match(r"[A-Za-z]:|/", name) and ".." not in PurePosixPath(name).parts
        if not is_inside or "\\" in name or any(ord(letter) < 32 for letter in name):
            refuse(f"{name!r} leads out of the archive", "pack the files by relative paths, without `..`")
        if any(len(part.encode()) > MAX_NAME for part in PurePosixPath(name).parts):
            refuse(f"{name[:40]!r}… is too long a name", "give the file a shorter one")
        if stat.S_ISLNK(member.external_attr >> 16):
            refuse(f"{name!r} is a link", "pack the file itself")
        if member.flag_bits & 1:
            refuse(f"{name!r} is encrypted", "pack it without a password")
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            refuse(f"{name!r} is compressed in another way than zip's usual one", "pack it with `zip`")
        if name in seen:
            refuse(f"{name!r} is in it twice", "make the archive anew")
        seen.add(name)
    size, packed = sum(member.file_size for member in members), sum(member.compress_size for member in members)
    if size > MAX_BYTES or size > MAX_RATIO * max(packed, 1 << 16):
        refuse(f"unpacked it would have {size / 1e6:.0f} MB", "pack the files of the system alone")


def _write(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, archive: str) -> None:
    """Write a member; one that is longer than the archive says is cut off by `zipfile` and fails its checksum."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with opened.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, CHUNK)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        message = f"{archive}: {member.filename!r} is a file and a folder"
        raise TaskError("built_unreadable", message, remedy="make the archive anew", loc=LOC) from error
