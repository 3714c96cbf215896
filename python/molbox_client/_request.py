"""Bodies of requests: names checked, units converted, values and bounds held to the document."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ._errors import InvalidRequest
from ._fields import FIELDS, Field
from ._quantity import number, plain


def body(schema: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a request. A field that is None is left out: that means the same."""
    from pydantic import ValidationError

    from . import _requests

    request = _object(schema, schema, fields, "")
    try:
        model = getattr(_requests, schema).model_validate(request)
    except ValidationError as error:
        problems = [_problem(schema, one) for one in error.errors()]
        raise InvalidRequest("; ".join(problems)) from None
    sent: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return sent


def _object(root: str, schema: str, fields: Mapping[str, Any], at: str) -> dict[str, Any]:
    request: dict[str, Any] = {}
    for name, value in fields.items():
        known = FIELDS[schema].get(name)
        if known is None:
            raise InvalidRequest(_unknown(root, schema, at, name))
        if value is not None:
            request[name] = _value(root, known, _named(known, value, at + name), at + name)
    return request


def _named(known: Field, value: Any, at: str) -> Any:
    """A value of a field, with identifiers in the place of jobs, systems and files."""
    kind = known.get("kind")
    if kind is None:
        return value
    if isinstance(value, (list, tuple)):
        return [identified(kind, item, f"{at}[{index}]") for index, item in enumerate(value)]
    return identified(kind, value, at)


def is_handle(value: Any) -> bool:
    """Whether it is one of the objects that a client answers with: a job, a file and so on."""
    return hasattr(value, "client") and hasattr(value, "kind") and hasattr(value, "id")


def identified(kind: str, value: Any, at: str) -> Any:
    """The identifier of such an object, if it is of this kind; what is none as it is."""
    if not is_handle(value):
        return value
    if value.kind != kind:
        raise InvalidRequest(
            f"{at}: must be {'an' if kind == 'analysis' else 'a'} {kind}, got {value!r}"
        )
    return value.id


def _value(root: str, known: Field, value: Any, at: str) -> Any:
    value = plain(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        value = list(value)
    if "object" in known:
        if hasattr(value, "model_dump"):
            value = value.model_dump(by_alias=True, exclude_none=True)
        if isinstance(value, Mapping):
            return _object(root, known["object"], value, f"{at}.")
        if isinstance(value, list):
            return [_value(root, known, item, f"{at}[{index}]") for index, item in enumerate(value)]
        names = ", ".join(FIELDS[known["object"]])
        raise InvalidRequest(f"{at}: must be a mapping of {names}, got {value!r}")
    if "unit" in known and isinstance(value, bool):
        raise InvalidRequest(f"{at}: must be a number, got {value}")
    if "values" in known:
        _listed(known["values"], value, at)
    if "spellings" in known and isinstance(value, str):
        # A service takes one alone, of what people write as `npt` or `OpenMM`.
        return next((one for one in known["spellings"] if folded(one) == folded(value)), value)
    return _finite(number(value, known["unit"], at) if "unit" in known else value, at)


def _finite(value: Any, at: str) -> Any:
    """A value in which no number is infinite or none: JSON has null for both, a field left out."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _finite(item, f"{at}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"{at}: must be a finite number, got {value}")
    return value


def _listed(values: list[str], value: Any, at: str) -> None:
    """Case and separators do not matter: the service reads `popc` as `POPC`."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _listed(values, item, f"{at}[{index}]")
    elif isinstance(value, str) and folded(value) not in map(folded, values):
        near = _near(value, values)
        question = f"; did you mean {near[0]}?" if near else ""
        raise InvalidRequest(f"{at}: must be one of {', '.join(values)}, got {value!r}{question}")


def folded(name: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(filter(str.isalnum, name)).lower()


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Names that are probably meant: alike, or with this one in them."""
    by_folded = {folded(one): one for one in known}
    wanted = folded(name)
    inside = [one for one in by_folded if wanted in one and len(wanted) > 2]
    alike = difflib.get_close_matches(wanted, by_folded, 1)
    return [by_folded[one] for one in (alike or inside[:1])]


def _unknown(root: str, schema: str, at: str, name: str) -> str:
    # What is misplaced is found under its own name, wherever it belongs.
    near = [path for path in _paths(root) if path.rsplit(".", 1)[-1] == name]
    near = near or [at + one for one in _near(name, FIELDS[schema])]
    known = f"there are {', '.join(FIELDS[schema])}"
    hint = f"did you mean {' or '.join(near)}?" if near else known
    return f"{at}{name}: no such field; {hint}"


def _paths(schema: str, at: str = "") -> Iterable[str]:
    """Paths of all fields of a request, `production.time` among them."""
    for name, known in FIELDS[schema].items():
        yield at + name
        if "object" in known:
            yield from _paths(known["object"], f"{at}{name}.")


def _problem(schema: str, error: Any) -> str:
    path, known = "", Field(object=schema)
    for item in error["loc"]:
        path += f"[{item}]" if isinstance(item, int) else f".{item}" if path else str(item)
        if isinstance(item, str) and "object" in known:
            known = FIELDS[known["object"]].get(item, Field())
    value = error["input"]
    # What was given may have been in another one.
    unit = f" {known['unit']}" if "unit" in known and isinstance(value, (int, float)) else ""
    return f"{path}: {error['msg'][:1].lower()}{error['msg'][1:]}, got {value!r}{unit}"
