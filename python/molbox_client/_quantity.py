"""Numbers with units: plain in the document's unit, text, pint, or openmm.unit."""

from __future__ import annotations

import math
import re
from typing import Any

from ._errors import InvalidRequest

# Units of one dimension, and what one of them is of the first, as a ratio: 7 Å are 0.7 nm, not
# 0.7000000000000001. The command line reads the same.
_DIMENSIONS: list[dict[str, tuple[float, float]]] = [
    {"ps": (1, 1), "fs": (1, 1e3), "ns": (1e3, 1), "us": (1e6, 1), "µs": (1e6, 1), "ms": (1e9, 1)},
    {"nm": (1, 1), "Å": (1, 10), "A": (1, 10), "angstrom": (1, 10), "pm": (1, 1e3)},
    {"bar": (1, 1), "atm": (1.01325, 1), "Pa": (1, 1e5), "kPa": (1, 1e2), "MPa": (10, 1)},
    {"mol/L": (1, 1), "M": (1, 1), "mmol/L": (1, 1e3), "mM": (1, 1e3)},
    {"degrees": (1, 1), "deg": (1, 1), "°": (1, 1), "rad": (180 / math.pi, 1)},
    {"ps⁻¹": (1, 1), "1/ps": (1, 1), "/ps": (1, 1), "ps^-1": (1, 1), "1/ns": (1, 1e3)}
    | {"/ns": (1, 1e3), "1/fs": (1e3, 1), "/fs": (1e3, 1)},
    {"kJ/mol/nm²": (1, 1), "kJ/mol·nm²": (1, 1), "kJ/mol/nm^2": (1, 1), "kJ/mol/nm2": (1, 1)}
    | {"kcal/mol/Å²": (418.4, 1), "kcal/mol/A^2": (418.4, 1), "kcal/mol/A2": (418.4, 1)},
    {"bar·nm": (1, 1), "bar*nm": (1, 1), "mN/m": (10, 1)},
]
_PINT = {
    "Å": "angstrom",
    "ps⁻¹": "1/picosecond",
    "degrees": "degree",
    "bar·nm": "bar*nanometer",
    "mol/L": "mol/liter",
    "kJ/mol/nm²": "kilojoule/mol/nanometer**2",
}
_TEXT = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S.*?)?\s*")


def number(value: Any, unit: str, at: str) -> Any:
    """A value in `unit`; each one of a list. What is no quantity is returned as it is."""
    if hasattr(value, "value_in_unit"):
        found = _checked(lambda: plain(value.value_in_unit(_openmm(unit))), value, unit, at)
        return _rounded(found)
    if is_quantity(value):
        pint = _PINT.get(unit, unit)
        return _rounded(_checked(lambda: plain(value.to(pint).magnitude), value, unit, at))
    if isinstance(value, (list, tuple)):
        return [number(item, unit, f"{at}[{index}]") for index, item in enumerate(value)]
    return _parsed(value, unit, at) if isinstance(value, str) else value


def _rounded(value: Any) -> Any:
    """What was converted, without the last digits, which are of the conversion: 100 ps are 0.1 ns.

    Twelve are more than anybody measures.
    """
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def is_quantity(value: Any) -> bool:
    """Whether it is one of openmm.unit or pint."""
    return hasattr(value, "value_in_unit") or (hasattr(value, "magnitude") and hasattr(value, "to"))


def plain(value: Any) -> Any:
    """Numbers and arrays of numpy as those of Python, by shape: numpy is not imported."""
    if getattr(getattr(value, "dtype", None), "kind", None) == "m":
        # As a number it would lose its unit.
        return _texts((value / value.dtype.type(1, "fs")).tolist())
    # A quantity has what its magnitude has, and would lose its unit.
    return value.tolist() if hasattr(value, "tolist") and not is_quantity(value) else value


def is_missing(value: Any) -> bool:
    """Whether it is what tables have where there is nothing: NaN, NaT, or NA of pandas."""
    try:
        # The first two are not equal to themselves.
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        # Of NA it cannot be asked, nor of arrays.
        return type(value).__name__ == "NAType"


def _texts(femtoseconds: Any) -> Any:
    if isinstance(femtoseconds, list):
        return [_texts(one) for one in femtoseconds]
    return f"{femtoseconds} fs"


def _checked(convert: Any, value: Any, unit: str, at: str) -> Any:
    # The libraries have exceptions of their own, without a common base but this.
    try:
        return convert()
    except Exception as error:
        raise InvalidRequest(f"{at}: is in {unit}, got {value}: {error}") from error


def _parsed(text: str, unit: str, at: str) -> Any:
    match = _TEXT.fullmatch(text)
    if match is None:
        example = f"such as '1 {unit}'"
        raise InvalidRequest(f"{at}: must be a number, with a unit or not, {example}, got {text!r}")
    figure, given = float(match[1]), match[2]
    if given is None or given == unit:
        return figure
    if unit == "K" and given in ("C", "°C", "degC"):
        return _rounded(figure + 273.15)
    # Two characters look like this: the micro sign, and the Greek letter.
    given = given.replace("μ", "µ").replace("\u212b", "Å")
    dimension = next((units for units in _DIMENSIONS if unit in units), {unit: (1.0, 1.0)})
    if given not in dimension:
        others = [name for name in dimension if name != unit] + (["°C"] if unit == "K" else [])
        raise InvalidRequest(f"{at}: is in {unit} (also {', '.join(others)}), got {text!r}")
    (n, d), (unit_n, unit_d) = dimension[given], dimension[unit]
    return _rounded(figure * (n * unit_d) / (d * unit_n))


def _openmm(unit: str) -> Any:
    from openmm import unit as u

    return {
        "ns": u.nanosecond,
        "fs": u.femtosecond,
        "nm": u.nanometer,
        "Å": u.angstrom,
        "K": u.kelvin,
        "bar": u.bar,
        "mol/L": u.molar,
        "ps⁻¹": u.picosecond**-1,
        "degrees": u.degree,
        "bar·nm": u.bar * u.nanometer,
        "kJ/mol/nm²": u.kilojoule_per_mole / u.nanometer**2,
    }[unit]
