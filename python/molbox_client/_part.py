"""The part of a download that has arrived: `<name>.<digest>.part` beside its target.

The command line and the Rust client resume the same parts.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

import httpx

from ._errors import Damaged, UnexpectedAnswer, naming
from ._http import CHUNK_BYTES

_DIGEST = re.compile(r'(?:W/)?"sha256-([0-9a-f]{64})"')
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


def digest(etag: str) -> str | None:
    """The digest in an `ETag` of the service.

    A proxy that compresses makes it weak; the content is the same once it is unpacked.
    """
    match = _DIGEST.fullmatch(etag)
    return match and match[1]


def content_range(response: httpx.Response) -> tuple[int, int | None] | None:
    """First byte of a partial answer, and the size of the whole."""
    match = _RANGE.match(response.headers.get("content-range", ""))
    if match is None:
        return None
    return int(match[1]), None if match[2] == "*" else int(match[2])


class Part:
    """A file that grows, and that no other process appends to as long as it is open.

    Another that wants it, of this client or of the Rust one, begins a part of its own.
    """

    def __init__(self, path: Path, file: IO[bytes], etag: str) -> None:
        self.path, self.etag = path, etag
        self._file = file
        self.size = file.seek(0, os.SEEK_END)

    @classmethod
    def create(cls, to: Path, etag: str) -> Part:
        """A new, empty part."""
        known = digest(etag)
        path = to.with_name(f"{to.name}.{known}.part" if known else f"{to.name}.part")
        file = _locked(path, "a+b")
        while file is None:
            path = to.with_name(f"{path.name.removesuffix('.part')}.{secrets.token_hex(4)}.part")
            file = _locked(path, "a+b")
        file.truncate(0)
        return cls(path, file, etag)

    @classmethod
    def left_behind(cls, to: Path) -> Part | None:
        """What an earlier download to the same target left; its name has the digest of all."""
        pattern = re.compile(re.escape(to.name) + r"\.([0-9a-f]{64})(\.[0-9a-f]{8})?\.part")
        for entry in to.parent.iterdir():
            if match := pattern.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    if file := _locked(entry, "r+b"):
                        return cls(entry, file, f'"sha256-{match[1]}"')
        return None

    def append(self, chunk: bytes) -> None:
        """More of the content."""
        with naming(self.path):
            self._file.write(chunk)
        self.size += len(chunk)

    def close(self) -> None:
        """Keep what has arrived; another download resumes it."""
        if self._file.closed:
            return
        with naming(self.path), closing(self._file):
            self._file.flush()
            os.fsync(self._file.fileno())

    def discard(self) -> None:
        """Remove what is of no use."""
        with self._leaving():
            self.path.unlink(missing_ok=True)

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """For the end of the part: nobody else gets hold of it before, where that can be."""
        if sys.platform == "win32":
            # Files that are open are neither moved nor removed there.
            self._file.close()
        yield
        self._file.close()

    def is_continued_by(self, response: httpx.Response) -> bool:
        """Whether an answer has what is missing of the same content."""
        found = response.headers.get("etag", "")
        ours, theirs = digest(self.etag), digest(found)
        # A weak one is that of contents which are alike, and not byte by byte.
        is_same = ours == theirs if ours and theirs else self.etag == found and found[:1] == '"'
        begins = content_range(response)
        is_next = begins is not None and begins[0] == self.size
        return response.status_code == httpx.codes.PARTIAL_CONTENT and is_same and is_next

    def total(self, response: httpx.Response) -> int | None:
        """Size of the whole; none when the answer does not have it, as behind some proxies.

        Raises
        ------
        UnexpectedAnswer
            When nobody can tell whether it ended early: neither length nor digest are known, and
            the connection ends with the content.
        """
        begins = content_range(response)
        if begins is not None and begins[1] is not None:
            return begins[1]
        length = response.headers.get("content-length", "")
        if length.isdigit() and "content-encoding" not in response.headers:
            return self.size + int(length)
        is_chunked = "transfer-encoding" in response.headers
        if not is_chunked and digest(self.etag) is None:
            raise UnexpectedAnswer(
                "a content without length and digest, of which nobody knows where it ends"
            )
        return None

    def finish(self, to: Path) -> Path:
        """Put the whole in its place, once its size and digest are right: those of the file.

        What arrived may not be what is there: a program without locks may have written to it.
        """
        with naming(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
        promised, sha256, size = digest(self.etag), hashlib.sha256(), 0
        self._file.seek(0)
        while chunk := self._file.read(CHUNK_BYTES):
            sha256.update(chunk)
            size += len(chunk)
        found = sha256.hexdigest()
        if promised is not None and promised != found:
            self.discard()
            raise Damaged(f"{to}: SHA-256 is {found}, not {promised}; it was removed")
        if size != self.size:
            self.discard()
            raise Damaged(f"{to}: has {size} bytes, not {self.size}; it was removed")
        with self._leaving():
            os.replace(self.path, to)
        return to


def _locked(path: Path, mode: str) -> IO[bytes] | None:
    """A file that is open and locked; none when another process has it.

    Windows and some network drives have no such lock: there the digest alone tells.
    """
    file: IO[bytes] = path.open(mode)
    if sys.platform == "win32":
        return file
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        return file
    # Whoever had it may have moved it to its place, or removed it, before it was locked here.
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    file.close()
    return None
