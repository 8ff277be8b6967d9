"""Rows and dialects for Hypothesis, and a second renderer: Python's own `csv.writer`, told nothing of ours."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from domain.instants import EARLIEST, LATEST, Instant
from domain.parameters import (
    Column,
    CsvOptions,
    Delimiter,
    ExportParameters,
    FormulaProtection,
    LineEnding,
    Quoting,
)
from domain.ports import TaskRow
from domain.task import TaskStatus
from tests.fakes import START

ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "America/St_Johns",
    "Pacific/Apia",
    "Africa/Monrovia",
    "Australia/Lord_Howe",
)

_TEXT: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
# What breaks naive writers, far more often than chance would bring it.
_AWKWARD: Final = st.text(st.sampled_from("\r\n\t\"',;|=+-@ \ufeff\u2028\u00a0\uff1dé😀a"), max_size=8)


def rows_with(instants: st.SearchStrategy[int]) -> st.SearchStrategy[list[TaskRow]]:
    """Return rows whose instants are drawn from these."""
    row: st.SearchStrategy[TaskRow] = st.tuples(
        st.uuids().map(str),
        _TEXT | _AWKWARD,
        _TEXT | _AWKWARD,
        st.sampled_from([status.value for status in TaskStatus]),
        st.integers(1, 4),
        st.none() | instants,
        instants,
        instants,
        st.integers(1, 10**6),
    )
    return st.lists(row, max_size=5)


ROWS: Final = rows_with(st.integers(EARLIEST, LATEST))
# From 1973 on no zone's offset has seconds, which ISO 8601 as Python writes it shows and RFC 3339 does not.
LATER_ROWS: Final = rows_with(st.integers(100_000_000_000, LATEST))
COLUMNS: Final = st.lists(st.sampled_from(Column), unique=True, min_size=1).map(tuple)
DIALECTS: Final = st.builds(
    CsvOptions,
    delimiter=st.sampled_from(Delimiter),
    line_ending=st.sampled_from(LineEnding),
    bom=st.booleans(),
    quoting=st.sampled_from(Quoting),
    formula_protection=st.sampled_from(FormulaProtection),
)
PARAMETERS: Final = st.builds(ExportParameters, columns=COLUMNS, csv=DIALECTS, timezone=st.sampled_from(ZONES))


def read_back(text: str, parameters: ExportParameters) -> list[list[str]]:
    """Return the records of a file as Python's own reader has them, header line first and byte-order mark gone."""
    text = text.removeprefix("\ufeff") if parameters.csv.bom else text
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=parameters.csv.delimiter.value, strict=True)
    return list(reader)


def written_by_csv_writer(rows: Sequence[TaskRow], parameters: ExportParameters) -> str:
    """Return the file as `csv.writer` makes it, without formula protection."""
    out = io.StringIO()
    writer = csv.writer(
        out,
        delimiter=parameters.csv.delimiter.value,
        lineterminator={LineEnding.CRLF: "\r\n", LineEnding.LF: "\n"}[parameters.csv.line_ending],
        quoting=csv.QUOTE_ALL if parameters.csv.quoting is Quoting.ALL else csv.QUOTE_MINIMAL,
    )
    writer.writerow([column.value for column in parameters.columns])
    for row in rows:
        cells = dict(zip(Column, row, strict=True))
        writer.writerow([_plain(column, cells[column], parameters.timezone) for column in parameters.columns])
    return ("\ufeff" if parameters.csv.bom else "") + out.getvalue()


def _plain(column: Column, value: object, timezone: str) -> object:
    if column not in {Column.DUE_AT, Column.CREATED_AT, Column.UPDATED_AT} or not isinstance(value, int):
        return value
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).astimezone(ZoneInfo(timezone))
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z") if timezone == "UTC" else text


class Snapshot:
    """`TaskSnapshot` of rows that the test states, in batches of the size that it states."""

    def __init__(self, rows: Sequence[TaskRow], *, batch: int = 3) -> None:
        self.snapshot_at: Instant = START
        self.row_count = len(rows)
        self._rows = rows
        self._batch = batch

    def batches(self) -> Iterator[Sequence[TaskRow]]:
        """Yield the rows."""
        for start in range(0, len(self._rows), self._batch):
            yield self._rows[start : start + self._batch]


def a_row(number: int, *, title: str = "Water the plants", description: str = "") -> TaskRow:
    """Return the row of a task."""
    return (f"0198c0de-1111-7000-8000-{number:012x}", title, description, "open", 3, None, START, START, 1)
