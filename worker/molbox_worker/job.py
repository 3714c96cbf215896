"""The job directory: the only tie between the service and the worker.

=======================  ==========  ==============================================================
file                     written by  holds
=======================  ==========  ==============================================================
``task.json``            service     what to do: ``kind``, ``plan``, ``platform``, ``threads``, ``seed``,
                                     and the number of the ``attempt``, which ``result.json`` repeats
``input/``               service     the files that the plan names
``log.txt``              service     what the worker prints
``work/``                worker      nothing else can it write to, but the cache that the task names
``work/output/``         worker      the files that become the results
``work/progress.json``   worker      how far it has come, for people; replaced whole
``work/commit/``         worker      what is safely on disk, for going on after a kill
``work/heartbeat``       worker      nothing; written by a worker that is long at a step without progress
``work/result.json``     worker      how it ended; its presence means that it ended by itself
=======================  ==========  ==============================================================

Everything is replaced by rename, so a reader never sees half a file.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HEARTBEAT_SECONDS = 2.0


class JobError(Exception):
    """A request that cannot be carried out, and what its author can do about it.

    Parameters
    ----------
    code : str
        Machine-readable kind, for example ``no_template``.
    message : str
        What is wrong and where.
    remedy : str, optional
        What helps.
    loc : list of str or int, optional
        Path of the request field that caused it.
    stage, step
        Where in a simulation it happened.

    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        remedy: str | None = None,
        loc: list[str | int] | None = None,
        stage: str | None = None,
        step: int | None = None,
    ) -> None:
        super().__init__(message)
        found = {"code": code, "message": message, "remedy": remedy, "loc": loc, "stage": stage, "step": step}
        self.failure = {key: value for key, value in found.items() if value is not None}


class Stopped(Exception):
    """The service asked the worker to stop; what is committed can be gone on from."""


class Job:
    """One job directory.

    Attributes
    ----------
    path : Path
        The directory.
    work : Path
        Its folder that the worker writes to.
    output : Path
        The folder of its results.
    task : dict
        The content of ``task.json``.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.task: dict[str, Any] = json.loads((path / "task.json").read_text())
        self.work = path / "work"
        self.output = self.work / "output"
        self.output.mkdir(parents=True, exist_ok=True)
        self.stop_requested = False
        self.warnings: list[dict[str, str]] = []
        self._progress: dict[str, Any] = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.stop_requested = True

    def input(self, name: str) -> Path:
        """Path of an input file that the plan names."""
        return self.path / "input" / name

    def log(self, message: str) -> None:
        """Write a line to the log, which the service shows while the task runs."""
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), without_folders(message), flush=True)

    def warn(self, code: str, message: str) -> None:
        """Record something that the user should know but that stops nothing."""
        self.log(f"warning: {message}")
        warning = {"code": code, "message": message}
        # An earlier attempt may have said so.
        if warning not in self.warnings:
            self.warnings.append(warning)

    def progress(self, fraction: float, **details: Any) -> None:
        """Say how far the task has come, from 0 to 1."""
        # Not fsynced: it is for people, and a second old at most.
        known = {key: value for key, value in details.items() if value is not None}
        self._progress = {**known, "fraction": round(fraction, 6), "warnings": self.warnings}
        replace(self.work / "progress.json", dump(self._progress), sync=False)

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Give a sign of life every few seconds, for what takes long and tells no progress.

        OpenMM lets other threads run while it works; a process that is stopped gives none.
        """
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                # Written, not touched: a confined process cannot set times.
                (self.work / "heartbeat").write_bytes(b"")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def finish(self, **result: Any) -> None:
        """Record how the task ended."""
        result["attempt"] = self.task["attempt"]
        result["warnings"] = self.warnings
        replace(self.work / "result.json", dump(result))


def without_folders(text: str) -> str:
    """A text without the folders of the absolute paths in it, which show how the machine is set up."""
    return re.sub(r"(?<![\w./:)\]~-])/(?:[\w.+@-]+/)+(?=[\w.])", "", text)


def dump(value: object) -> bytes:
    """A value as JSON.

    Raises
    ------
    ValueError
        When it holds NaN or infinity, which JSON has not; Python would write them all the same.

    """
    return json.dumps(value, allow_nan=False).encode()


def replace(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut when `sync`."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if sync:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
