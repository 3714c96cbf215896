"""The command `molbox-worker`: tells the service which Python it belongs to, or carries a task out."""

from __future__ import annotations

import sys

from molbox_worker import __version__


def main() -> int:
    """Answer `--print-python` and `--version`, which import nothing; carry out a task otherwise."""
    arguments = sys.argv[1:]
    if arguments == ["--print-python"]:
        print(sys.executable)
        return 0
    if arguments == ["--version"]:
        print(f"molbox-worker {__version__}")
        return 0
    from molbox_worker.__main__ import main as carry_out

    return carry_out(sys.argv)
