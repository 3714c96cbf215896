"""The part of a download that has arrived: `<name>.<digest>.part` beside its target.

The command line and the Rust client resume the same parts.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import IO

import httpx

from ._errors import Damaged, UnexpectedAnswer
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
    """A file that grows, and the digest of what is in it."""

    def __init__(self, path: Path, etag: str, *, is_new: bool) -> None:
        self.path, self.etag, self.size = path, etag, 0
        self._sha256 = hashlib.sha256()
        if not is_new:
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    self._add(chunk)
        self._file: IO[bytes] = path.open("wb" if is_new else "ab")

    @classmethod
    def create(cls, to: Path, etag: str) -> Part:
        """A new, empty part."""
        known = digest(etag)
        name = f"{to.name}.{known}.part" if known else f"{to.name}.part"
        return cls(to.with_name(name), etag, is_new=True)

    @classmethod
    def left_behind(cls, to: Path) -> Part | None:
        """What an earlier download to the same target left; its name has the digest of all."""
        pattern = re.compile(re.escape(to.name) + r"\.([0-9a-f]{64})\.part")
        for entry in to.parent.iterdir():
            if match := pattern.fullmatch(entry.name):
                return cls(entry, f'"sha256-{match[1]}"', is_new=False)
        return None

    def _add(self, chunk: bytes) -> None:
        self._sha256.update(chunk)
        self.size += len(chunk)

    def append(self, chunk: bytes) -> None:
        """More of the content."""
        self._file.write(chunk)
        self._add(chunk)

    def close(self) -> None:
        """Keep what has arrived; another download resumes it."""
        if self._file.closed:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Remove what is of no use."""
        self._file.close()
        self.path.unlink(missing_ok=True)

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
        """Put the whole in its place, once its digest is right."""
        self.close()
        promised, found = digest(self.etag), self._sha256.hexdigest()
        if promised is not None and promised != found:
            self.path.unlink()
            raise Damaged(f"{to}: SHA-256 is {found}, not {promised}; it was removed")
        os.replace(self.path, to)
        return to
