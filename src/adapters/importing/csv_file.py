"""CSV, by RFC 4180 as Python's own reader understands it, one record in memory at a time."""

import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from re import compile as pattern
from typing import BinaryIO, Final

from adapters.importing.records import Record, refused, shown
from domain.errors import InputError, InvalidInput
from domain.parameters import Column, Delimiter
from domain.ports import ImportRow, RefusedRow
from domain.task import DEFAULT_PRIORITY, PRIORITIES, NewTask, TaskStatus

# Forty times the longest description: whatever is longer is no task but a quote that nobody closed. It bounds memory.
_LONGEST_RECORD: Final = 4 << 20
_DEFAULT_DELIMITER: Final = Delimiter.COMMA.value
_NOT_UTF8: Final = pattern("[\udc80-\udcff]")
_STATUSES: Final = {status.value: status for status in TaskStatus} | {"": TaskStatus.OPEN}
_PRIORITIES: Final = {str(priority): priority for priority in PRIORITIES} | {"": DEFAULT_PRIORITY}


def read_csv(file: BinaryIO, *, is_protected: bool) -> Iterator[ImportRow | RefusedRow]:
    """Yield the tasks of a CSV file. Its delimiter is the one in its header: comma, semicolon, TAB or pipe.

    A record's line is the physical one on which it begins, and LF, CR and CRLF each end a line. An empty cell stands
    for the default, or for no instant. Lines without anything in them are passed over.

    Raises:
        InvalidInput: not UTF-8, no header, an unknown, repeated or missing column, broken quoting, or a record of more
            than 4 Mi characters.
    """
    # Python's reader stops at 131,072 characters a cell, in the middle of a record that could still be refused by its
    # line. The limit is the process's: the bound on whole records below is what holds memory here.
    csv.field_size_limit(_LONGEST_RECORD)
    text = TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        records = _records(_Lines(text))
        header = _header(records)
        for line, cells in records:
            if len(cells) == len(header):
                yield _row(line, dict(zip(header, cells, strict=True)), is_protected=is_protected)
            else:
                reason = f"has {len(cells):,} cells where the header names {len(header)} columns"
                yield refused(line, [InputError("", reason)])
    finally:
        if not file.closed:
            text.detach()


class _Lines(Iterator[str]):
    """The physical lines of a text, their line ends kept; knows where the current record began and how long it is."""

    def __init__(self, text: TextIOWrapper) -> None:
        self._text = text
        self._number = 0
        self._record_length = 0
        self._first: str | None = None
        self.record_line = 1

    def __next__(self) -> str:
        if self._first is not None:
            line, self._first = self._first, None
            return line
        line = self._text.readline(_LONGEST_RECORD + 1 - self._record_length)
        if not line:
            raise StopIteration
        self._number += 1
        self._record_length += len(line)
        if self._record_length > _LONGEST_RECORD:
            reason = (
                f"the record that begins here is longer than {_LONGEST_RECORD:,} characters: a quote may not be closed"
            )
            raise _unreadable(self.record_line, reason)
        if not line.isascii() and (wrong := _NOT_UTF8.search(line)) is not None:
            byte = ord(wrong[0]) - 0xDC00
            raise _unreadable(self._number, f"not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8 and send it again")
        return line

    def begin_record(self) -> None:
        """Count the length of a record anew, from the next line on."""
        self._record_length = 0
        self.record_line = self._number + 1

    def peek(self) -> str:
        """Return the next line without taking it; empty at the end of the file. To be asked once, at the start."""
        self._first = next(self, None)
        return self._first or ""


def _records(lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    delimiter = next((sign for sign in lines.peek() if sign in set(Delimiter)), _DEFAULT_DELIMITER)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield lines.record_line, cells
            lines.begin_record()
    except csv.Error as error:
        raise _unreadable(lines.record_line, f"broken quoting in the record that begins here: {error}") from error


def _header(records: Iterator[tuple[int, list[str]]]) -> Sequence[Column]:
    line, names = next(records, (1, []))
    if not names:
        raise InvalidInput(InputError("", "the file is empty; a CSV file begins with a line that names its columns"))
    known = {column.value: column for column in Column}
    faults = [f"there is no column {shown(name)}" for name in names if name not in known]
    faults += [f"the column {name!r} is there twice" for name in known if names.count(name) > 1]
    if Column.TITLE not in names:
        faults.append("the column 'title' is missing")
    if faults:
        faults[-1] += f"; the header can name {', '.join(known)}"
        raise InvalidInput(*(InputError(f"line {line}", fault) for fault in faults))
    return [known[name] for name in names]


def _row(line: int, cells: dict[Column, str], *, is_protected: bool) -> ImportRow | RefusedRow:
    record = Record(line)
    status = _STATUSES.get(cells.get(Column.STATUS, ""))
    if status is None:
        record.fault(Column.STATUS, f"must be {_choice([*TaskStatus])}, not {shown(cells[Column.STATUS])}")
    priority = _PRIORITIES.get(cells.get(Column.PRIORITY, ""))
    if priority is None:
        choice = _choice([str(priority) for priority in PRIORITIES])
        record.fault(Column.PRIORITY, f"must be {choice}, not {shown(cells[Column.PRIORITY])}")
    task = NewTask(
        title=cells[Column.TITLE],
        description=cells.get(Column.DESCRIPTION, ""),
        status=status or TaskStatus.OPEN,
        priority=priority or DEFAULT_PRIORITY,
        due_at=record.instant(Column.DUE_AT, cells.get(Column.DUE_AT) or None),
        created_at=record.instant(Column.CREATED_AT, cells.get(Column.CREATED_AT) or None),
        updated_at=record.instant(Column.UPDATED_AT, cells.get(Column.UPDATED_AT) or None),
    )
    return record.row(task, is_protected=is_protected)


def _choice(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _unreadable(line: int, reason: str) -> InvalidInput:
    return InvalidInput(InputError(f"line {line}", reason))
