"""JSON Lines: one JSON object a line, each read strictly and on its own."""

from collections.abc import Iterator
from re import compile as pattern
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from adapters.importing.records import Record, refused
from domain.errors import InputError, InvalidInput
from domain.ports import ImportRow, RefusedRow
from domain.task import DEFAULT_PRIORITY, NewTask, TaskStatus

# The longest description, every character spelt as an escaped surrogate pair, is 1.2 MB. It bounds memory.
_LONGEST_LINE: Final = 4 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_WHITE: Final = b" \t\r\n"
_LOCATED: Final = pattern(r"(?P<reason>.*) - at `\$\.(?P<member>\w+)`")


class _Line(Struct, forbid_unknown_fields=True):
    title: str
    description: str = ""
    status: TaskStatus = TaskStatus.OPEN
    priority: int = DEFAULT_PRIORITY
    due_at: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    id: str | None = None
    version: int | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)


def read_json_lines(file: BinaryIO, *, is_protected: bool) -> Iterator[ImportRow | RefusedRow]:
    """Yield the tasks of a JSON Lines file. LF ends a line; lines without anything in them are passed over.

    A line that is not sound is refused, whatever is wrong with it, and the next one is read.

    Raises:
        InvalidInput: not UTF-8.
    """
    for number, line in _lines(file):
        if line is None:
            reason = f"the line is longer than {_LONGEST_LINE:,} bytes"
            yield refused(number, [InputError("", reason)])
        elif line.strip(_WHITE):
            yield _row(number, line, is_protected=is_protected)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) <= _LONGEST_LINE:
            yield number, line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(_LONGEST_LINE)
        yield number, None


def _row(number: int, line: bytes, *, is_protected: bool) -> ImportRow | RefusedRow:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 (byte 0x{line[error.start]:02x}); save the file as UTF-8 and send it again"
        raise InvalidInput(InputError(f"line {number}", reason)) from error
    try:
        stated = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        return refused(number, [_fault(error)])
    record = Record(number)
    task = NewTask(
        title=stated.title,
        description=stated.description,
        status=stated.status,
        priority=stated.priority,
        due_at=record.instant("due_at", stated.due_at),
        created_at=record.instant("created_at", stated.created_at),
        updated_at=record.instant("updated_at", stated.updated_at),
    )
    return record.row(task, is_protected=is_protected)


def _fault(error: msgspec.MsgspecError) -> InputError:
    if not isinstance(error, msgspec.ValidationError):
        return InputError("", f"not a JSON object: {error}")
    found = _LOCATED.fullmatch(str(error))
    return InputError("", str(error)) if found is None else InputError(found["member"], found["reason"])
