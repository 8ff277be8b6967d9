"""Rows of an owner's tasks as lines of CSV (RFC 4180), in the dialect that was asked for."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files
from re import compile as pattern, escape
from typing import Final
from zoneinfo import ZoneInfo

from domain.csv_dialect import characters_to_quote, is_risky, protect, quoted
from domain.errors import InvalidParameters
from domain.instants import Instant, format_instant, format_instant_in
from domain.parameters import COLUMN_TYPES, Column, ColumnType, ExportParameters, FormulaProtection, LineEnding, Quoting
from domain.ports import TaskRow

_LINE_ENDINGS: Final = {LineEnding.CRLF: "\r\n", LineEnding.LF: "\n"}
_POSITIONS: Final = {column: position for position, column in enumerate(Column)}
BOM: Final = "\ufeff"


class CsvRows:
    """Writes rows as text and counts the cells that formula protection changed.

    To make one raises `InvalidParameters` when this host does not know the time zone that is asked for.
    """

    def __init__(self, parameters: ExportParameters) -> None:
        self._parameters = parameters
        self._ending = _LINE_ENDINGS[parameters.csv.line_ending]
        self._delimiter = parameters.csv.delimiter.value
        self._needs_quotes = pattern(f"[{escape(characters_to_quote(self._delimiter))}]").search
        self._cells = [(_POSITIONS[column], self._writer(COLUMN_TYPES[column])) for column in parameters.columns]
        # A record whose only cell is empty would be an empty line, which readers skip.
        self._lone_cell = len(self._cells) == 1
        self.formula_escaped_count = 0

    def header(self) -> str:
        """Return the header line, behind a byte-order mark when one was asked for."""
        mark = BOM if self._parameters.csv.bom else ""
        names = (self._quote(column.value) for column in self._parameters.columns)
        return mark + self._delimiter.join(names) + self._ending

    def line(self, row: TaskRow) -> str:
        """Return one record, line ending included."""
        text = self._delimiter.join([write(row[position]) for position, write in self._cells])
        return ('""' if self._lone_cell and not text else text) + self._ending

    def lines(self, rows: Sequence[TaskRow]) -> list[str]:
        """Return a record for each row."""
        return [self.line(row) for row in rows]

    def _writer(self, kind: ColumnType) -> Callable[[object], str]:
        all_quoted = self._parameters.csv.quoting is Quoting.ALL
        bare = self._bare_writer(kind)
        if kind is ColumnType.TEXT:
            return (lambda value: quoted(bare(value))) if all_quoted else (lambda value: self._quote(bare(value)))
        # Keywords, numbers and instants hold none of the characters that need quotes, in any dialect.
        return (lambda value: quoted(bare(value))) if all_quoted else bare

    def _bare_writer(self, kind: ColumnType) -> Callable[[object], str]:
        match kind:
            case ColumnType.INSTANT:
                return _instant_writer(self._parameters.timezone)
            case ColumnType.TEXT if self._parameters.csv.formula_protection is FormulaProtection.APOSTROPHE:
                return self._protect
            case _:
                return str

    def _protect(self, value: object) -> str:
        text = str(value)
        if is_risky(text):
            self.formula_escaped_count += 1
            return protect(text)
        return text

    def _quote(self, text: str) -> str:
        return quoted(text) if self._needs_quotes(text) or self._parameters.csv.quoting is Quoting.ALL else text


def _instant_writer(timezone: str) -> Callable[[object], str]:
    if timezone == "UTC":
        return lambda value: "" if value is None else format_instant(_instant(value))
    zone = _zone(timezone)
    return lambda value: "" if value is None else format_instant_in(_instant(value), zone)


@lru_cache
def _zone(name: str) -> ZoneInfo:
    # From the pinned tz database and not from the host's, which `ZoneInfo(name)` prefers: the same export is the same
    # bytes on every host.
    database = files("tzdata")
    if name not in database.joinpath("zones").read_text(encoding="utf-8").split():
        raise InvalidParameters(f"this program does not know the time zone {name!r}")
    with database.joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _instant(value: object) -> Instant:
    if not isinstance(value, int):
        raise TypeError("an instant is an integer")
    return Instant(value)
