"""Progress on standard error: in a notebook, a terminal, or nowhere."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Progress:
    """Shows nothing; what shows something overrides it."""

    def update(self, n: int) -> None:
        """`n` bytes more have passed."""

    def show(self, record: Mapping[str, Any]) -> None:
        """The record of a task, as it is now."""


class _Bar(Progress):
    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def update(self, n: int) -> None:
        self.bar.update(n)

    def show(self, record: Mapping[str, Any]) -> None:
        progress = record.get("progress") or {}
        is_done = record.get("status") == "succeeded"
        self.bar.n = 1.0 if is_done else float(progress.get("fraction") or 0)
        words = [str(progress.get("stage") or record.get("status"))]
        if speed := progress.get("ns_per_day"):
            words.append(f"{speed:.3g} ns/day")
        self.bar.set_postfix_str(", ".join(words))


def _is_wanted(wanted: bool | None) -> bool:
    if wanted is None:
        return sys.stderr.isatty() or "ipykernel" in sys.modules
    return wanted


def _tqdm() -> Any:
    with warnings.catch_warnings():
        # Without ipywidgets a notebook gets bars of text, which are good enough.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm


@contextmanager
def shown(
    wanted: bool | None, title: str, total: int | None = None, done: int = 0
) -> Iterator[Progress]:
    """Progress of bytes, of which there are `total`.

    Without `wanted` where somebody watches: a terminal, or a notebook.
    """
    if not _is_wanted(wanted):
        yield Progress()
        return
    with _tqdm()(
        desc=title, total=total, initial=done, leave=False, unit="B", unit_scale=True
    ) as bar:
        yield _Bar(bar)


@contextmanager
def shown_task(wanted: bool | None, title: str) -> Iterator[Progress]:
    """Progress of a task, from 0 to 1."""
    if not _is_wanted(wanted):
        yield Progress()
        return
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
    with _tqdm()(desc=title, total=1.0, leave=False, bar_format=form) as bar:
        yield _Bar(bar)
