"""Packages that few need, imported by what needs them."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import MolboxError


class MissingPackage(MolboxError, ImportError):
    """A package that this needs is not installed."""


def needed(module: str, extra: str) -> Any:
    """A module of an optional dependency.

    Raises
    ------
    MissingPackage
        When it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            # It is there, and lacks something itself.
            raise
        text = f'{package} is not installed: pip install "molbox-client[{extra}]"'
        raise MissingPackage(text) from None
