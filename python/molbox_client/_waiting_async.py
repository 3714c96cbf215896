"""How the asynchronous client waits; `_waiting_sync.py` has the same for the blocking one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    """Let others run for as long."""
    import anyio

    await anyio.sleep(seconds)


def here() -> object:
    """Where connections can be used: this event loop of this process."""
    import anyio.lowlevel

    return os.getpid(), anyio.lowlevel.current_token()


def interruptions() -> tuple[type[BaseException], ...]:
    """What ends a wait from outside: from Python 3.11, asyncio makes a cancellation of Ctrl-C."""
    import anyio

    return KeyboardInterrupt, anyio.get_cancelled_exc_class()


async def in_thread(work: Callable[[], T]) -> T:
    """Do what reads and calculates for long, while others run."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(work)
