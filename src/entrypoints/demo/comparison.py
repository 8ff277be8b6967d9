"""The independent comparison: a file before its import and after its export, row by row.

Nothing of the program is used in here, on purpose. The rules are written a second time, with Python's own CSV reader
and its own dates, so that a mistake in the program is not made twice.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

COLUMNS: Final = ("title", "description", "status", "priority", "due_at", "created_at", "updated_at")
_INSTANTS: Final = ("due_at", "created_at", "updated_at")
_TEXTS: Final = ("title", "description")
_DEFAULTS: Final = {"description": "", "status": "open", "priority": "3"}
# What Python's reader takes when nobody changed it: no cell of an export may be longer.
_USUAL_LIMIT: Final = 131_072
# The limit is kept in a C long, which has 32 bits on some systems.
_NO_LIMIT: Final = (1 << 31) - 1
_WHITE: Final = " \t\r\n\u00a0\u3000\u200b\ufeff"
_SIGNS: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_FIRST: Final = frozenset("\t\r\n'")
_SET_BY_THE_SERVICE: Final = "(set by the service)"
_SHOWN: Final = 5


class Record(NamedTuple):
    """A record of a CSV file: the line on which it begins, and its cells by column; no cells when it is misshapen."""

    line: int
    cells: Mapping[str, str]


class Comparison(NamedTuple):
    """What was found. Each of `differences` is a sentence; there is none when all is well."""

    row_count: int
    equal_count: int
    escaped_count: int
    differences: Sequence[str]


def read_records(path: Path, *, limit: int = _NO_LIMIT) -> Iterator[Record]:
    """Yield the records of a file below its header."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        csv.field_size_limit(limit)
        reader = csv.reader(file, delimiter=next((sign for sign in first if sign in ",;\t|"), ","), strict=True)
        header = next(reader)
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                yield Record(line, dict(zip(header, cells, strict=True)) if len(cells) == len(header) else {})
            line = reader.line_num + 1


def compare(before: Path, after: Path, *, refused_lines: frozenset[int], began_at: int, ended_at: int) -> Comparison:
    """Compare the file that was imported with the one that was exported.

    Every record of `before` must be in `after`, equal in all seven columns and as often as it was there, unless its
    line is among those that the import refused. Instants that `before` leaves to the service must lie between
    `began_at` and `ended_at`, in milliseconds since the epoch.
    """
    records = list(read_records(before))
    accepted = [record for record in records if record.line not in refused_lines]
    differences = [
        f"line {line} was refused, and no record begins there"
        for line in sorted(refused_lines - {record.line for record in records})
    ]
    exported = list(read_records(after, limit=_USUAL_LIMIT))
    differences += _faults_of_protection(exported)
    differences += _faults_of_order(exported)

    left_open = {name for name in _INSTANTS[1:] if any(not record.cells.get(name) for record in accepted)}
    expected = {record.line: _expected(record.cells) for record in accepted}
    found = [_found(record.cells, left_open, began_at, ended_at) for record in exported]
    missing, unexpected = Counter(expected.values()), Counter(found)
    missing.subtract(unexpected)
    lost = {row for row, count in missing.items() if count > 0}
    differences += [
        f"the record of line {line} is not in the export as it was" for line, row in expected.items() if row in lost
    ]
    surplus = -sum(count for count in missing.values() if count < 0)
    if surplus:
        differences.append(f"{surplus:,} rows of the export are not in the file that was imported")
    return Comparison(
        row_count=len(exported),
        equal_count=len(exported) - surplus,
        escaped_count=sum(record.cells[name].startswith("'") for record in exported for name in _TEXTS),
        differences=differences,
    )


def _expected(cells: Mapping[str, str]) -> tuple[str, ...]:
    stated = {name: cells.get(name) or _DEFAULTS.get(name, "") for name in COLUMNS}
    for name in _INSTANTS:
        stated[name] = _instant(stated[name])
    stated["created_at"] = stated["created_at"] or _SET_BY_THE_SERVICE
    stated["updated_at"] = stated["updated_at"] or stated["created_at"]
    return tuple(stated[name] for name in COLUMNS)


def _found(cells: Mapping[str, str], left_open: set[str], began_at: int, ended_at: int) -> tuple[str, ...]:
    read = dict(cells)
    for name in _TEXTS:
        read[name] = read[name].removeprefix("'")
    for name in left_open:
        moment = datetime.fromisoformat(read[name]).timestamp() * 1000
        if began_at <= moment <= ended_at:
            read[name] = _SET_BY_THE_SERVICE
    return tuple(read[name] for name in COLUMNS)


def _instant(text: str) -> str:
    """Return the one spelling in which the export shows the instant."""
    if not text:
        return ""
    moment = datetime.fromisoformat(text.upper()).astimezone(UTC)
    shown = moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return f"{shown}Z"


def _faults_of_protection(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        for name in _TEXTS:
            cell = record.cells[name]
            text = cell.removeprefix("'")
            needs_it = text[:1] in _FIRST or text.lstrip(_WHITE)[:1] in _SIGNS
            if needs_it != (text != cell):
                said = "is not protected" if needs_it else "is protected without need"
                yield f"the {name} on line {record.line} of the export {said}"


def _faults_of_order(records: Sequence[Record]) -> Iterator[str]:
    moments = [datetime.fromisoformat(record.cells["created_at"]) for record in records]
    for earlier, later, record in zip(moments, moments[1:], records[1:], strict=False):
        if later < earlier:
            yield f"line {record.line} of the export is out of order"


def some_of(sentences: Sequence[str]) -> str:
    """Return the first few sentences, and how many more there are."""
    more = f"; and {len(sentences) - _SHOWN:,} more" if len(sentences) > _SHOWN else ""
    return "; ".join(sentences[:_SHOWN]) + more
