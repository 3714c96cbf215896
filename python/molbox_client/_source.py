"""What is uploaded: files, bytes, and structures of other libraries, which are not imported."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ._errors import InvalidRequest, naming
from ._http import CHUNK_BYTES

# The format that an extension stands for, where it is not its name; as in `src/transfer.rs`, which
# has the names, too.
_USUAL = {"ent": "pdb", "mmcif": "cif", "parm7": "prmtop", "par": "prm", "cor": "crd"}
_USUAL |= {"rst7": "inpcrd", "restrt": "inpcrd", "ncrst": "inpcrd", "ncdf": "nc", "netcdf": "nc"}
# What is known by its name without the extension. Files of built systems are many of one name.
_OF_ONE_NAME = {"pdb", "ent", "cif", "mmcif", "sdf", "mol", "mol2", "xml", "dcd", "xtc", "trr"}
_OF_ONE_NAME |= {"nc", "ncdf", "netcdf"}
_GZIP = b"\x1f\x8b"
# What a service takes of one file unless its operator has set another limit. A kilobyte can be
# unpacked to a megabyte, and a wrong one would fill the disk.
MOST_UNPACKED = 5 << 30


@dataclass(frozen=True)
class Content:
    """What is to be sent, from its beginning as often as it is opened."""

    origin: Path | bytes
    format: str
    # What to register the file under; none for what is no file.
    name: str | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.origin) if isinstance(self.origin, bytes) else self.origin.stat().st_size

    def open(self) -> IO[bytes]:
        """A stream of its bytes."""
        return io.BytesIO(self.origin) if isinstance(self.origin, bytes) else self.origin.open("rb")

    def sha256(self) -> str:
        """Digest, in hexadecimal."""
        found = hashlib.sha256()
        with self.open() as file:
            while chunk := file.read(1 << 18):
                found.update(chunk)
        return found.hexdigest()


def content(source: Any, format: str | None = None, at: str = "source") -> Content:
    """The content of a source.

    Parameters
    ----------
    source : str, Path, bytes, MDAnalysis.AtomGroup, rdkit.Chem.Mol or (Topology, positions)
        A file of this machine, its bytes, or what another library has in memory.
    format : str, optional
        `pdb`, `sdf` and so on; of a file its extension is enough.
    at : str
        The argument that it is.
    """
    if not isinstance(format, (str, type(None))):
        raise InvalidRequest(f"format: must be a text, such as 'pdb', got {format!r}")
    if isinstance(source, bytes):
        if not format:
            raise InvalidRequest("format: bytes have none of their own, give it, such as 'pdb'")
        return _content(source, format, at)
    if isinstance(source, (str, Path)):
        return _of_file(path_of(source, at), format, at)
    if hasattr(source, "universe") and hasattr(source, "write"):
        if not len(source):
            raise InvalidRequest(f"{at}: the AtomGroup has no atoms; look at what selects them")
        return Content(_pdb_of_atoms(source), "pdb")
    if hasattr(source, "GetConformers"):
        return Content(_molfile(source, at), "sdf")
    if isinstance(source, tuple) and len(source) == 2 and hasattr(source[0], "residues"):
        return Content(_pdb_of_topology(*source), "pdb")
    raise InvalidRequest(
        f"{at}: must be a path, bytes, an MDAnalysis AtomGroup, an RDKit molecule or "
        f"(openmm.app.Topology, positions), got {type(source).__name__}"
    )


def path_of(source: str | Path, at: str, instead: str = "give it as bytes, text.encode()") -> Path:
    """A path, which the text of a file is not: it would be refused as an endless one."""
    text = str(source)
    if "\n" in text or "\r" in text:
        raise InvalidRequest(f"{at}: is the text of a file, not a path to one; {instead}")
    if not text or "\0" in text:
        raise InvalidRequest(f"{at}: must be a path, got {text!r}")
    return Path(source).expanduser()


def without_gz(path: Path) -> Path:
    """What a file is called when it is not compressed."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _of_file(path: Path, format: str | None, at: str) -> Content:
    if not path.is_file():
        raise _no_file(path)
    name = without_gz(path)
    extension = name.suffix.removeprefix(".").lower()
    found = format or _USUAL.get(extension, extension)
    if not found:
        raise InvalidRequest(f"format: {path} has no extension to tell it by; give it")
    is_of_one_name = not extension or extension in _OF_ONE_NAME
    return _content(path, found, at, name.stem if is_of_one_name else name.name)


def _no_file(path: Path) -> OSError:
    if path.is_dir():
        return IsADirectoryError(f"{path}: is a folder, not a file")
    return FileNotFoundError(f"{path}: no such file")


def _content(origin: Path | bytes, format: str, at: str, name: str | None = None) -> Content:
    """A file or bytes, or what is in them when that is compressed, whatever it is called."""
    packed = Content(origin, format, name)
    with packed.open() as file:
        if file.read(len(_GZIP)) != _GZIP:
            return packed
    shown = "what was given" if isinstance(origin, bytes) else origin
    handle, path = tempfile.mkstemp(prefix="molbox-", suffix=f".{format}")
    found = Content(Path(path), format, name)
    # Not longer there than what it is the content of.
    weakref.finalize(found, Path(path).unlink, missing_ok=True)
    try:
        with naming(Path(path)), os.fdopen(handle, "wb") as to, packed.open() as file:
            _unpack(file, to, f"{at}: {shown}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidRequest(f"{at}: {shown} cannot be decompressed: {error}") from error
    return found


def _unpack(packed: IO[bytes], to: IO[bytes], shown: str) -> None:
    with gzip.open(packed) as file:
        size = 0
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            if size > MOST_UNPACKED:
                raise InvalidRequest(
                    f"{shown} has more than {MOST_UNPACKED} bytes when it is "
                    "decompressed; do that first, if it is meant, and give the result"
                )
            to.write(chunk)


def is_file(source: Any) -> bool:
    """Whether a structure is one to be uploaded, and not the name of what the service has.

    Raises
    ------
    FileNotFoundError
        For what looks like a path, and is none: it would be refused as an unknown name.
    """
    if not isinstance(source, (str, Path)):
        return True
    path = path_of(source, "structure")
    if path.is_file():
        return True
    if isinstance(source, Path) or path.suffix or len(path.parts) > 1:
        raise _no_file(path)
    return False


def _pdb_of_atoms(atoms: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "atoms.pdb"
        atoms.write(str(path))
        return path.read_bytes()


def _pdb_of_topology(topology: Any, positions: Any) -> bytes:
    from openmm.app import PDBFile

    text = io.StringIO()
    PDBFile.writeFile(topology, positions, text, keepIds=True)
    return text.getvalue().encode()


def _molfile(molecule: Any, at: str) -> bytes:
    if not molecule.GetNumConformers():
        raise InvalidRequest(f"{at}: the molecule has no conformer, so no coordinates")
    from rdkit import Chem

    return f"{Chem.MolToMolBlock(molecule)}\n$$$$\n".encode()
