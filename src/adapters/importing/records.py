"""What the kinds of file have in common: a record becomes a sound row, or a refused one with every reason."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from domain.csv_dialect import unprotect
from domain.errors import InputError
from domain.instants import Instant, InstantError, parse_instant
from domain.ports import ImportRow, RefusedRow
from domain.task import NewTask, faults_of

# Long enough to recognise a value in an editor, short enough for a line of an error message.
_SHOWN_LENGTH: Final = 40


class Record:
    """One record while its cells are read; faults are gathered, so that one look at the file mends them all."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._faults: list[InputError] = []

    def instant(self, column: str, text: str | None) -> Instant | None:
        """Return the instant of a cell; None when there is none, or when it is at fault."""
        if text is None:
            return None
        try:
            return parse_instant(text)
        except InstantError as error:
            self.fault(column, f"{error} ({shown(text)})")
            return None

    def fault(self, column: str, reason: str) -> None:
        """Note what is wrong with a cell."""
        self._faults.append(InputError(column, reason))

    def row(self, task: NewTask, *, is_protected: bool) -> ImportRow | RefusedRow:
        """Return the row that states this task, refused when a cell or a value is at fault."""
        if is_protected:
            task = replace(task, title=unprotect(task.title), description=unprotect(task.description))
        faults = [*self._faults, *faults_of(task)]
        return refused(self._line, faults) if faults else ImportRow(self._line, task)


def refused(line: int, faults: Sequence[InputError]) -> RefusedRow:
    """Return the refusal of a record: the column of its first fault, and the reasons of all."""
    first, *others = ((fault.where.removeprefix("/"), fault.reason) for fault in faults)
    column, reason = first
    further = "".join(f"; {other}: {why}" for other, why in others)
    return RefusedRow(line, column or None, reason + further)


def shown(text: str) -> str:
    """Return the beginning of a text as it can stand in a message: quoted, without control characters."""
    return repr(text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…")
