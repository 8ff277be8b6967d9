"""Imported files: every record comes out as it was written, or is refused by its line with every reason."""

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import pytest
from hypothesis import given, strategies as st

from adapters.importing.files import FileReader
from domain.csv_dialect import protect
from domain.errors import InvalidInput
from domain.instants import EARLIEST, LATEST, Instant, format_instant, parse_instant
from domain.parameters import Column, FormulaProtection
from domain.ports import ImportFormat, ImportRow, RefusedRow
from domain.task import DESCRIPTION_LENGTH, TITLE_LENGTH, NewTask, TaskStatus

DATA = Path(__file__).resolve().parents[2] / "data"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
COLUMNS = ("title", "description", "status", "priority", "due_at", "created_at", "updated_at")

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
# What breaks naive readers, far more often than chance would bring it.
AWKWARD = st.text(st.sampled_from("\r\n\t\"',;|=+-@ \ufeff\u2028\x85\x1c\x0bé😀a"), max_size=30)
INSTANTS = st.none() | st.integers(EARLIEST, LATEST).map(Instant)
TASKS = st.builds(
    NewTask,
    title=(TEXT | AWKWARD).filter(bool),
    description=TEXT | AWKWARD,
    status=st.sampled_from(TaskStatus),
    priority=st.integers(1, 4),
    due_at=INSTANTS,
    created_at=INSTANTS,
    updated_at=INSTANTS,
)


def read(
    content: bytes | BinaryIO, kind: ImportFormat = ImportFormat.CSV, *, apostrophe: bool = False
) -> list[ImportRow | RefusedRow]:
    """Return every record of a file."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    protection = FormulaProtection.APOSTROPHE if apostrophe else FormulaProtection.NONE
    return list(FileReader().read(file, kind, formula_protection=protection))


def read_text(text: str) -> list[ImportRow | RefusedRow]:
    """Return every record of a CSV file with this text."""
    return read(text.encode())


def unreadable(content: bytes, kind: ImportFormat = ImportFormat.CSV) -> str:
    """Return why a file as a whole cannot be read."""
    with pytest.raises(InvalidInput) as refusal:
        read(content, kind)
    return str(refusal.value)


def tasks_of(rows: Sequence[ImportRow | RefusedRow]) -> list[NewTask]:
    """Return the tasks of rows that are all sound."""
    assert [row for row in rows if isinstance(row, RefusedRow)] == []
    return [row.task for row in rows if isinstance(row, ImportRow)]


def text_of(instant: Instant | None) -> str:
    """Return an instant as a cell."""
    return "" if instant is None else format_instant(instant)


def cells_of(task: NewTask) -> list[str]:
    """Return a task as the cells of `COLUMNS`."""
    return [
        task.title,
        task.description,
        task.status.value,
        str(task.priority),
        text_of(task.due_at),
        text_of(task.created_at),
        text_of(task.updated_at),
    ]


def written(rows: Sequence[Sequence[str]], *, delimiter: str = ",") -> bytes:
    """Return a CSV file as Python's own writer makes it, every cell in quotes."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()


def members_of(task: NewTask) -> dict[str, str | int | None]:
    """Return a task as the members of a JSON object."""
    stated: dict[str, str | int | None] = {
        name: cell or None if name.endswith("_at") else cell for name, cell in zip(COLUMNS, cells_of(task), strict=True)
    }
    return stated | {"priority": task.priority}


class TestCsv:
    """CSV files."""

    @given(tasks=st.lists(TASKS, max_size=8), order=st.permutations(range(7)), delimiter=st.sampled_from(",;\t|"))
    def test_what_a_csv_writer_wrote_is_read_back_equal(
        self, tasks: list[NewTask], order: list[int], delimiter: str
    ) -> None:
        """Any text in any order of columns, under each delimiter, comes back character by character."""
        rows = [[cells[place] for place in order] for cells in [COLUMNS, *map(cells_of, tasks)]]
        assert tasks_of(read(written(rows, delimiter=delimiter))) == tasks

    @given(tasks=st.lists(TASKS, max_size=8))
    def test_protected_text_is_read_back_unprotected(self, tasks: list[NewTask]) -> None:
        """Exactly the apostrophe that an export adds is taken off, and no other."""
        cells = [[protect(title), protect(description), *rest] for title, description, *rest in map(cells_of, tasks)]
        unprotected = tasks_of(read(written([COLUMNS, *cells]), apostrophe=True))
        assert unprotected == tasks

    @given(tasks=st.lists(TASKS, min_size=1, max_size=6))
    def test_a_row_is_named_by_the_line_on_which_it_begins(self, tasks: list[NewTask]) -> None:
        """The line is counted as Python's reader counts lines, cells of many lines included."""
        content = written([COLUMNS, *map(cells_of, tasks)])
        reader = csv.reader(io.StringIO(content.decode(), newline=""))
        ends = [reader.line_num for _ in reader]
        assert [row.line for row in read(content)] == [end + 1 for end in ends[:-1]]

    @pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
    def test_each_line_end_ends_a_record(self, end: str) -> None:
        """CRLF, LF and CR are all taken, the last record's may be missing, and blank lines are passed over."""
        rows = read_text(end.join(["", "title,priority", "a,1", "", "b,2"]))
        assert [(row.line, row.task.title) for row in rows if isinstance(row, ImportRow)] == [(3, "a"), (5, "b")]
        assert len(rows) == 2

    def test_an_absent_or_empty_cell_is_the_default(self) -> None:
        """A title is enough; instants that are not stated are left to the service."""
        full = "title,description,status,priority,due_at,created_at,updated_at\r\na,,,,,,\r\n"
        assert tasks_of(read_text("title\r\na\r\n")) == tasks_of(read_text(full)) == [NewTask("a")]

    def test_id_and_version_are_accepted_and_not_used(self) -> None:
        """A file of all the columns of an export is a file of new tasks."""
        content = f"{','.join(Column)}\r\nx,a,b,done,1,,,,99\r\n"
        assert tasks_of(read_text(content)) == [NewTask("a", "b", TaskStatus.DONE, 1)]

    def test_a_leading_byte_order_mark_is_no_part_of_the_header(self) -> None:
        """One mark is dropped at the start of the file; inside of text it stays."""
        assert tasks_of(read("\ufefftitle\r\n\ufeffa\r\n".encode())) == [NewTask("\ufeffa")]

    @pytest.mark.parametrize(
        ("cells", "column", "reason"),
        [
            ("a,,opened,,", "status", "must be open, in_progress or done, not 'opened'"),
            ("a,,OPEN,,", "status", "must be open, in_progress or done, not 'OPEN'"),
            ("a,,,5,", "priority", "must be 1, 2, 3 or 4, not '5'"),
            ("a,,, 1,", "priority", "must be 1, 2, 3 or 4, not ' 1'"),
            ("a,,,\u0661,", "priority", "must be 1, 2, 3 or 4, not '\u0661'"),
            ("a,,,,2026-01-31", "due_at", "not an RFC 3339 date-time with an offset"),
            ("a,,,,2026-02-30T00:00:00Z", "due_at", "no such date or time"),
            ("a,,,,2026-01-31T00:00:00.0001Z", "due_at", "finer than a millisecond"),
            ("a,,,,9999-12-31T00:00:00Z", "due_at", "outside the range"),
            (",,,,", "title", "must have 1 to 500 characters and has 0"),
            (f"{'a' * (TITLE_LENGTH + 1)},,,,", "title", "must have 1 to 500 characters and has 501"),
            (f"a,{'b' * (DESCRIPTION_LENGTH + 1)},,,", "description", "0 to 100,000 characters and has 100,001"),
            (f"a,{'b' * 1_000_000},,,", "description", "0 to 100,000 characters and has 1,000,000"),
            ("a\0,,,,", "title", "must not contain the NUL character"),
            ("a,,", None, "has 3 cells where the header names 5 columns"),
            ("a,,,,,,", None, "has 7 cells where the header names 5 columns"),
        ],
    )
    def test_a_faulty_record_is_refused_by_line_column_and_reason(
        self, cells: str, column: str | None, reason: str
    ) -> None:
        """The records around it are read as if it were not there."""
        before, found, after = read_text(f"title,description,status,priority,due_at\r\nx,,,,\r\n{cells}\r\ny,,,,\r\n")
        assert isinstance(found, RefusedRow)
        assert (found.line, found.column) == (3, column)
        assert reason in found.reason
        assert (before, after) == (ImportRow(2, NewTask("x")), ImportRow(4, NewTask("y")))

    def test_every_fault_of_a_record_is_named(self) -> None:
        """One look at the refusal mends the whole record."""
        (row,) = read_text("title,status,due_at\r\n,later,tomorrow\r\n")
        assert isinstance(row, RefusedRow)
        assert row.column == "status"
        assert "; due_at: not an RFC 3339" in row.reason
        assert "; title: must have 1 to 500" in row.reason

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "the file is empty"),
            (b"\r\n\r\n", "the file is empty"),
            (b"title,colour\r\n", "line 1: there is no column 'colour'"),
            (b"Title\r\n", "line 1: there is no column 'Title'"),
            (b"\ntitle,title\r\n", "line 2: the column 'title' is there twice"),
            (b"status\r\n", "line 1: the column 'title' is missing"),
            (b'title\r\na\r\n"b\r\nc', "line 3: broken quoting in the record that begins here"),
            (b'title\r\na\r\n"b"c\r\n', "line 3: broken quoting in the record that begins here"),
            (b"title\r\na\r\nb\xff\r\n", "line 3: not UTF-8 (byte 0xff)"),
            (b"title\r\na\r\nb\xc3", "line 3: not UTF-8 (byte 0xc3)"),
            ("title\r\na\r\n".encode("utf-16"), "line 1: not UTF-8 (byte 0xff)"),
            (b'title\r\na\r\n"' + b"b\r\n" * 2_000_000, "line 3: the record that begins here is longer than 4,194,304"),
        ],
    )
    def test_a_file_that_cannot_be_read_is_refused_by_line_and_reason(self, content: bytes, reason: str) -> None:
        """What no single record can answer for refuses the whole file, and says where."""
        assert unreadable(content).startswith(reason)

    def test_every_awkward_row_comes_back_equal_or_is_refused_with_a_reason(self) -> None:
        """Of sixty traps fifty-nine are kept exactly; the one with instants that cannot be kept is named by line."""
        path = DATA / "edge-tasks.csv"
        expected, lines = independently(path)
        rows = read(path.read_bytes())
        assert len(rows) == len(expected) == 60
        refused = [row for row in rows if isinstance(row, RefusedRow)]
        assert [(row.line, row.column) for row in refused] == [(lines[56], "due_at")]
        assert "outside the range" in refused[0].reason
        assert "; updated_at: finer than a millisecond" in refused[0].reason
        assert [cells_of(row.task) for row in rows if isinstance(row, ImportRow)] == expected[:56] + expected[57:]

    def test_the_real_sample_comes_back_equal(self) -> None:
        """All 2,972 bug reports are read as Python's reader reads them."""
        path = EXAMPLES / "tasks-real.csv"
        expected, lines = independently(path)
        rows = read(path.read_bytes())
        assert [cells_of(task) for task in tasks_of(rows)] == expected
        assert [row.line for row in rows] == lines

    def test_memory_does_not_grow_with_the_file(self) -> None:
        """A file four times as long is read in the same memory."""
        peaks = [peak_of_reading(row_count) for row_count in (2_000, 8_000)]
        assert peaks[1] < peaks[0] * 1.5

    def test_the_file_stays_open(self) -> None:
        """Who opened the file closes it, also when the reading stops early."""
        file = io.BytesIO(b"title\r\na\r\nb\r\n")
        rows = FileReader().read(file, ImportFormat.CSV, formula_protection=FormulaProtection.NONE)
        next(rows)
        assert isinstance(rows, Iterator)
        del rows
        assert not file.closed


class TestJsonLines:
    """JSON Lines files."""

    @given(tasks=st.lists(TASKS, max_size=8), ascii_only=st.booleans())
    def test_what_a_json_writer_wrote_is_read_back_equal(self, tasks: list[NewTask], *, ascii_only: bool) -> None:
        """Any text, escaped or plain, comes back character by character."""
        members = [members_of(task) for task in tasks]
        content = "\n".join(json.dumps(member, ensure_ascii=ascii_only) for member in members).encode()
        assert tasks_of(read(content, ImportFormat.JSON_LINES)) == tasks

    def test_blank_lines_and_a_byte_order_mark_are_passed_over(self) -> None:
        """Lines are counted by LF, the blank ones too."""
        rows = read(b'\xef\xbb\xbf\n{"title":"a"}\r\n \n{"title":"b"}', ImportFormat.JSON_LINES)
        assert rows == [ImportRow(2, NewTask("a")), ImportRow(4, NewTask("b"))]

    @pytest.mark.parametrize(
        ("line", "column", "reason"),
        [
            (b"{}", None, "missing required field `title`"),
            (b'{"title":1}', "title", "Expected `str`"),
            (b'{"title":"a","colour":1}', None, "unknown field `colour`"),
            (b'{"title":"a","priority":"1"}', "priority", "Expected `int`"),
            (b'{"title":"a","priority":0}', "priority", "must be 1, 2, 3 or 4"),
            (b'{"title":"a","priority":1e400}', "priority", "Number out of range"),
            (b'{"title":"a","priority":1' + b"0" * 30 + b"}", "priority", "must be 1, 2, 3 or 4"),
            (b'{"title":"a","status":"later"}', "status", "Invalid enum value 'later'"),
            (b'{"title":"a","due_at":""}', "due_at", "not an RFC 3339 date-time"),
            (b'{"title":"a","due_at":0}', "due_at", "Expected `str | null`"),
            (b'{"title":"\\u0000"}', "title", "must not contain the NUL character"),
            (b'{"title":"\\ud800"}', None, "not a JSON object"),
            (b'{"title":"a"', None, "truncated"),
            (b'{"title":"a"} {"title":"b"}', None, "trailing characters"),
            (b'{"title":"a","id":' + b"[" * 100_000, "id", "Expected `str | null`"),
            (b"[]", None, "Expected `object`"),
            (b'{"title":"' + b"a" * 5_000_000, None, "longer than 4,194,304 bytes"),
        ],
    )
    def test_a_faulty_line_is_refused_by_number_and_reason(self, line: bytes, column: str | None, reason: str) -> None:
        """The lines around it are read as if it were not there."""
        content = b'{"title":"x"}\n' + line + b'\n{"title":"y","id":"7","version":7}\n'
        before, found, after = read(content, ImportFormat.JSON_LINES)
        assert isinstance(found, RefusedRow)
        assert (found.line, found.column) == (2, column)
        assert reason in found.reason
        assert (before, after) == (ImportRow(1, NewTask("x")), ImportRow(3, NewTask("y")))

    def test_bytes_that_are_not_utf8_refuse_the_file(self) -> None:
        """The message names the line and the byte."""
        reason = unreadable(b'{"title":"a"}\n{"title":"\xe9"}\n', ImportFormat.JSON_LINES)
        assert reason.startswith("line 2: not UTF-8 (byte 0xe9)")

    def test_an_apostrophe_is_taken_off_when_asked_for(self) -> None:
        """As in a CSV file: one, at the beginning of title and description."""
        content = b'{"title":"\'=1","description":"\'\'a"}'
        assert read(content, ImportFormat.JSON_LINES, apostrophe=True) == [ImportRow(1, NewTask("=1", "'a"))]


def independently(path: Path) -> tuple[list[list[str]], list[int]]:
    """Return the cells of a file as Python's reader reads them, and the line on which each record begins."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        assert tuple(next(reader)) == COLUMNS
        lines, rows = [reader.line_num + 1], []
        for cells in reader:
            rows.append(cells)
            lines.append(reader.line_num + 1)
    return rows, lines[:-1]


def peak_of_reading(row_count: int) -> int:
    """Return the highest memory use, in bytes, while a file of so many rows is read and forgotten."""
    with TemporaryFile() as file:
        file.write(b"title,description,created_at\r\n")
        for number in range(row_count):
            file.write(f'{number},"{"text " * 200}\r\n",2026-01-31T08:30:00Z\r\n'.encode())
        file.seek(0)
        tracemalloc.start()
        try:
            rows = FileReader().read(file, ImportFormat.CSV, formula_protection=FormulaProtection.NONE)
            assert sum(isinstance(row, ImportRow) for row in rows) == row_count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_instants_are_read_as_the_domain_reads_them() -> None:
    """An offset is understood, and the same instant is kept."""
    rows = read_text("title,due_at\r\na,2026-01-31T10:30:00.25+02:00\r\n")
    assert tasks_of(rows) == [NewTask("a", due_at=parse_instant("2026-01-31T08:30:00.250Z"))]
