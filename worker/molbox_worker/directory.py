"""The directory of a task: the only tie between the service and the worker.

=======================  ==========  ==============================================================
file                     written by  holds
=======================  ==========  ==============================================================
``task.json``            service     what to do: `plan.py` has its fields
``input/``               service     the files that the plan names
``log.txt``              service     what the worker prints
``attempt``              service     number of the attempt that the directory belongs to
``work/``                worker      nothing else can it write to, but the cache that the task names
``work/output/``         worker      the files that become the results
``work/progress.json``   worker      how far it has come, for people; replaced whole
``work/commit/``         worker      what is safely on disk, to resume from after a kill
``work/heartbeat``       worker      nothing; written by a worker that is long at a step without progress
``work/result.json``     worker      how it ended; its presence means that it ended by itself
=======================  ==========  ==============================================================

Everything is replaced by rename, so a reader never sees half a file. `result.py` has the fields of
what the worker writes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from molbox_worker.plan import BuildTask, EnvironmentTask, SimulateTask, read_task
from molbox_worker.result import FailedResult, Progress, ResidueName, Result, Superseded, TaskWarning, as_json, first_of

HEARTBEAT_SECONDS = 2.0


class TaskDirectory:
    """The directory of a task.

    Attributes
    ----------
    work
        Its folder that the worker writes to.
    output
        The folder of its results.
    spec
        The content of ``task.json``.

    Raises
    ------
    InvalidTask
        When ``task.json`` is not what this version reads.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec: BuildTask | SimulateTask | EnvironmentTask = read_task((path / "task.json").read_text())
        self.work = path / "work"
        self.output = self.work / "output"
        self.output.mkdir(parents=True, exist_ok=True)
        self.stop_requested = False
        self._has_fence = self._attempt() is not None
        self.warnings: list[TaskWarning] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.stop_requested = True

    def input(self, name: str) -> Path:
        """Path of an input file that the plan names."""
        return self.path / "input" / name

    def _attempt(self) -> int | None:
        """The attempt that the directory belongs to; None when that cannot be read."""
        try:
            # Opened each time: on NFS what is opened is as it is, while what is known of a file may be old.
            return int((self.path / "attempt").read_text())
        except (FileNotFoundError, PermissionError):
            return None

    def check_attempt(self) -> None:
        """Give up when the directory is another attempt's by now.

        Raises
        ------
        Superseded
            Also when what could be read cannot be any more: the sandbox lets a worker read the file
            that was there when it began, not the one that has replaced it.

        """
        if self._has_fence and self._attempt() != self.spec.attempt:
            raise Superseded

    def log(self, message: str) -> None:
        """Write a line to the log, which the service shows while the task runs."""
        log(message)

    def warn(self, code: str, message: str, *residues: ResidueName) -> None:
        """Record something that the user should know but that stops nothing, and the residues it is about."""
        self.log(f"warning: {message}")
        warning = TaskWarning(code, message, first_of(residues))
        # An earlier attempt may have recorded it.
        if warning not in self.warnings:
            self.warnings.append(warning)

    def report(self, progress: Progress) -> None:
        """Report how far the task has come; its warnings are added."""
        # Not fsynced: it is for people, and a second old at most.
        progress = dataclasses.replace(progress, fraction=round(progress.fraction, 6), warnings=self.warnings)
        replace(self.work / "progress.json", dump(as_json(progress)), sync=False)

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Write the heartbeat every few seconds, during what takes long and reports no progress.

        OpenMM lets other threads run while it works; a process that is stopped writes none.
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

    def finish(self, result: Result) -> None:
        """Record how the task ended."""
        self.check_attempt()
        write_result(self.work, result, self.spec.attempt, self.warnings)


def write_result(work: Path, result: Result, attempt: int, warnings: list[TaskWarning]) -> None:
    """Write ``result.json``."""
    status = "failed" if isinstance(result, FailedResult) else "succeeded"
    content = {"status": status, **as_json(result), "attempt": attempt, "warnings": as_json(warnings)}
    replace(work / "result.json", dump(content))


def log(message: str) -> None:
    """Print a line with the time, and without folders of this machine."""
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), without_folders(message), flush=True)


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
