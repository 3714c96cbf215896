"""Files of a bundle without the rest: of a long simulation nearly all of it is the trajectory."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath

# What the list of files takes, which is at the end; one that is longer is not read.
END_BYTES = 1 << 16
# A bundle up to this size is downloaded as a whole, which has everything for the next question.
SMALL_BYTES = 32_000_000


def inner_name(name: str) -> str | None:
    """A name in a bundle without the folder of the job's name; none for what is no file of it."""
    parts = PurePosixPath(name).parts[1:]
    return None if name.endswith("/") or not parts or ".." in parts else "/".join(parts)


class _Pieces(io.RawIOBase):
    """A file of which some ranges are there."""

    def __init__(self, size: int) -> None:
        self.size, self._at = size, 0
        self.pieces: list[tuple[int, bytes]] = []

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (0, self._at, self.size)[whence] + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        wanted = self.size if size is None or size < 0 else size
        for first, content in self.pieces:
            if first <= self._at < first + len(content):
                found = content[self._at - first :][:wanted]
                self._at += len(found)
                return found
        return b""


class Remote:
    """A bundle of which the end has arrived.

    Raises
    ------
    zipfile.BadZipFile
        When the list of its files is not in that.
    """

    def __init__(self, end: bytes, first: int, size: int) -> None:
        self.size = size
        self._file = _Pieces(size)
        self._file.pieces.append((first, end))
        self._archive = zipfile.ZipFile(self._file)
        self._items = {
            name: item
            for item in self._archive.infolist()
            if (name := inner_name(item.filename)) is not None
        }

    def names(self, is_wanted: Callable[[str], bool]) -> list[str]:
        """Those of its files that are wanted."""
        return [name for name in self._items if is_wanted(name)]

    def range_of(self, name: str) -> tuple[int, int]:
        """First and last byte of a file, with what stands before it."""
        first = self._items[name].header_offset
        others = [one.header_offset for one in self._archive.infolist()]
        end = min((one for one in others if one > first), default=self._archive.start_dir)
        return first, end - 1

    def content(self, name: str, piece: bytes) -> bytes:
        """A file whose range has arrived, with its checksum compared.

        Raises
        ------
        zipfile.BadZipFile
            When it is not what was packed.
        """
        first, _ = self.range_of(name)
        self._file.pieces.append((first, piece))
        try:
            return self._archive.read(self._items[name])
        except (EOFError, zlib.error) as error:
            raise zipfile.BadZipFile(f"{name}: {error}") from error
        finally:
            self._file.pieces.pop()
