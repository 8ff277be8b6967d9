"""What an export is asked to contain, and the one canonical form in which two requests are compared."""

from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from domain.errors import InputError, InvalidInput, InvalidParameters
from domain.task import PRIORITIES, TaskFilter


class ExportFormat(StrEnum):
    """The media type of the file."""

    CSV = "csv"


# RFC 4180, section 3: every file begins with a header line, and says so.
MEDIA_TYPES: Final = {ExportFormat.CSV: "text/csv; charset=utf-8; header=present"}


class Column(StrEnum):
    """A member of a task, as a column of the file."""

    ID = "id"
    TITLE = "title"
    DESCRIPTION = "description"
    STATUS = "status"
    PRIORITY = "priority"
    DUE_AT = "due_at"
    CREATED_AT = "created_at"
    UPDATED_AT = "updated_at"
    VERSION = "version"


class ColumnType(StrEnum):
    """What a column holds; only text can carry a spreadsheet formula."""

    TEXT = "text"
    KEYWORD = "keyword"
    INTEGER = "integer"
    INSTANT = "instant"


COLUMN_TYPES: Final[dict[Column, ColumnType]] = {
    Column.ID: ColumnType.KEYWORD,
    Column.TITLE: ColumnType.TEXT,
    Column.DESCRIPTION: ColumnType.TEXT,
    Column.STATUS: ColumnType.KEYWORD,
    Column.PRIORITY: ColumnType.INTEGER,
    Column.DUE_AT: ColumnType.INSTANT,
    Column.CREATED_AT: ColumnType.INSTANT,
    Column.UPDATED_AT: ColumnType.INSTANT,
    Column.VERSION: ColumnType.INTEGER,
}


class Delimiter(StrEnum):
    """What stands between two cells."""

    COMMA = ","
    SEMICOLON = ";"
    TAB = "\t"
    PIPE = "|"


class LineEnding(StrEnum):
    """What ends a record: RFC 4180 has CRLF."""

    CRLF = "crlf"
    LF = "lf"


class Quoting(StrEnum):
    """Which cells stand in quotes: those that need it, or all."""

    MINIMAL = "minimal"
    ALL = "all"


class FormulaProtection(StrEnum):
    """What keeps a spreadsheet from reading text as a formula: one leading apostrophe, or nothing."""

    APOSTROPHE = "apostrophe"
    NONE = "none"


class CsvOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The dialect of a CSV file; the defaults are RFC 4180 with formula protection."""

    delimiter: Delimiter = Delimiter.COMMA
    line_ending: LineEnding = LineEnding.CRLF
    bom: bool = False
    quoting: Quoting = Quoting.MINIMAL
    formula_protection: FormulaProtection = FormulaProtection.APOSTROPHE


class ExportParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """One export, fully stated. `deadline_seconds` is None where the request leaves the deadline to the service."""

    format: ExportFormat = ExportFormat.CSV
    columns: tuple[Column, ...] = tuple(Column)
    filter: TaskFilter = TaskFilter()
    timezone: str = "UTC"
    csv: CsvOptions = CsvOptions()
    deadline_seconds: int | None = None


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = msgspec.json.Decoder(ExportParameters)


def canonical(parameters: ExportParameters) -> ExportParameters:
    """Return the equal request in its one spelling: filter lists are sets, so they are sorted and hold nothing twice.

    The order of `columns` is the order in the file and is kept.

    Raises:
        InvalidInput: no column, a column twice, or a priority that does not exist.
    """
    faults: list[InputError] = []
    if not parameters.columns:
        faults.append(InputError("/columns", "must name at least one column"))
    if len(set(parameters.columns)) != len(parameters.columns):
        faults.append(InputError("/columns", "must not name a column twice"))
    if not set(parameters.filter.priority) <= set(PRIORITIES):
        faults.append(InputError("/filter/priority", "must be 1, 2, 3 or 4"))
    if faults:
        raise InvalidInput(*faults)
    chosen = msgspec.structs.replace(
        parameters.filter,
        status=tuple(sorted(set(parameters.filter.status))),
        priority=tuple(sorted(set(parameters.filter.priority))),
    )
    return msgspec.structs.replace(parameters, filter=chosen)


def encode(parameters: ExportParameters) -> str:
    """Return the canonical JSON text: every default filled in, members in one order, no spacing."""
    return _ENCODER.encode(canonical(parameters)).decode()


def digest(text: str) -> str:
    """Return the SHA-256 of a canonical text, in lower-case hexadecimal."""
    return sha256(text.encode()).hexdigest()


def decode(text: str) -> ExportParameters:
    """Return the parameters that `encode` wrote.

    Raises:
        InvalidParameters: this version of the program cannot read them.
    """
    try:
        return canonical(_DECODER.decode(text))
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidParameters(f"the stored parameters cannot be read: {error}") from error


def renewed(text: str) -> str:
    """Return what this version of the program writes for stored parameters; an unreadable text as it is.

    A member that was added since then counts as its default, so that an upgrade makes no conflict of a replay.
    """
    try:
        return encode(decode(text))
    except InvalidParameters:
        return text


def differing_members(stored: str, sent: str) -> tuple[str, ...]:
    """Return the members, as JSON Pointers in order, in which two canonical texts differ.

    A stored text that is not JSON differs as a whole: "/".
    """
    try:
        known = msgspec.json.decode(stored)
    except msgspec.DecodeError:
        known = None
    return tuple(sorted(_differences("", known, msgspec.json.decode(sent))))


def _differences(where: str, stored: object, sent: object) -> list[str]:
    if isinstance(stored, dict) and isinstance(sent, dict):
        members = sorted(stored.keys() | sent.keys())
        return [
            found for name in members for found in _differences(f"{where}/{name}", stored.get(name), sent.get(name))
        ]
    return [] if stored == sent else [where or "/"]
