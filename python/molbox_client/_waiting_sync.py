"""How the blocking client waits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def sleep(seconds: float) -> None:
    """Pause."""
    time.sleep(seconds)


def here() -> object:
    """Where connections can be used: this process."""
    return os.getpid()


def interruptions() -> tuple[type[BaseException], ...]:
    """What ends a wait from outside."""
    return (KeyboardInterrupt,)


def in_thread(work: Callable[[], T]) -> T:
    """Do what reads and calculates for long."""
    return work()
