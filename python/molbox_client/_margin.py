"""Portfolios in, margins out."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date as Date
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import InvalidRequest
from ._http import member, read
from ._optional import needed
from ._quantity import is_missing, plain
from ._request import body
from ._source import path_of

if TYPE_CHECKING:
    import pandas

    from . import _records as records

_FORMATS = {".csv": "csv", ".json": "json", ".xml": "xml", ".fpml": "fpml"}
_FORMATS |= {".yaml": "yaml", ".yml": "yaml"}


def request(
    portfolio: Any, date: Date | str | None, settings: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Data format and body of a margin job."""
    fields = dict(settings)
    if date is not None:
        fields["marginDate"] = _day(date)
        if fields["marginDate"] is None:
            raise InvalidRequest(f"date: must be a date, got {date!r}")
    data_format, fields["portfolio"] = _portfolio(portfolio)
    return data_format, body("MarginJobRequest", fields)


def _day(value: Any) -> Any:
    """A date as text; of a time, as pandas has it of a column of dates, the day."""
    value = plain(value)
    if is_missing(value):
        return None
    if isinstance(value, datetime):
        value = value.date()
    return value.isoformat() if isinstance(value, Date) else value


def _position(position: Any) -> Any:
    if not isinstance(position, Mapping):
        return position
    # What a row of a table lacks is a field that is left out.
    return {name: _day(value) for name, value in position.items() if not is_missing(value)}


def _portfolio(portfolio: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(portfolio, (str, Path)):
        return _of_file(path_of(portfolio, "portfolio", "write it to a file"))
    if isinstance(portfolio, Mapping):
        return "json", dict(portfolio)
    if hasattr(portfolio, "to_dicts"):
        # Of polars; that of pandas comes next.
        portfolio = portfolio.to_dicts()
    if hasattr(portfolio, "to_dict") and hasattr(portfolio, "columns"):
        portfolio = portfolio.to_dict("records")
    if isinstance(portfolio, (list, tuple)):
        return "json", {"futures": [_position(one) for one in portfolio]}
    raise InvalidRequest(
        "portfolio: must be positions, a DataFrame of them, or a file, "
        f"got {type(portfolio).__name__}"
    )


def _of_file(path: Path) -> tuple[str, dict[str, Any]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    # FpML is XML, and is often called `.fpml.xml`.
    is_fpml = ".fpml" in (suffix.lower() for suffix in path.suffixes)
    data_format = "fpml" if is_fpml else _FORMATS.get(path.suffix.lower())
    if data_format is None:
        raise InvalidRequest(f"portfolio: {path} is none of {', '.join(_FORMATS)}")
    content = path.read_bytes()
    try:
        return data_format, {"data": content.decode()}
    except UnicodeDecodeError:
        return data_format, {"data": base64.b64encode(content).decode(), "encoding": "base64"}


class Margin:
    """The margin of a portfolio."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self._report = report

    @cached_property
    def record(self) -> records.MarginReport:
        """All of it: `.rows`, `.summary`, `.warnings`."""
        from . import _records as records

        return read(records.MarginReport, self._report)

    @property
    def initial(self) -> float:
        """Initial margin of the whole portfolio, in its base currency."""
        return self.record.summary.initialMargin

    @property
    def maintenance(self) -> float:
        """Maintenance margin of the whole portfolio, in its base currency."""
        return self.record.summary.maintenanceMargin

    @property
    def currency(self) -> str | None:
        """The base currency."""
        return self.record.summary.baseCurrency

    def __repr__(self) -> str:
        return f"<margin {self.initial:.2f} {self.currency or ''}>"

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each position, in the order of the portfolio; the summary is in `.attrs`."""
        pd = needed("pandas", "analysis")
        frame: pandas.DataFrame = pd.DataFrame(member(self._report, "rows", list))
        frame.attrs = dict(member(self._report, "summary", dict))
        return frame
