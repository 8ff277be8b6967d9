"""Lines of CSV: another reader finds what was written, another writer writes the same, and only text is protected."""

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final
from zoneinfo import TZPATH, ZoneInfo, reset_tzpath

import pytest
from hypothesis import assume, given, strategies as st
from msgspec.structs import replace

from adapters.rendering.csv_rows import CsvRows
from domain.csv_dialect import unprotect
from domain.errors import InvalidParameters
from domain.instants import Instant, parse_instant
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
from tests.adapters.rendering.rows import (
    DIALECTS,
    LATER_ROWS,
    PARAMETERS,
    ROWS,
    a_row,
    read_back,
    written_by_csv_writer,
)
from tests.fakes import START

TEXTS: Final = {Column.TITLE, Column.DESCRIPTION}
INSTANTS: Final = {Column.DUE_AT, Column.CREATED_AT, Column.UPDATED_AT}
DEFAULT: Final = ExportParameters()
UNPROTECTED: Final = CsvOptions(formula_protection=FormulaProtection.NONE)


def written(rows: list[TaskRow], parameters: ExportParameters) -> str:
    """Return the file with these rows."""
    writer = CsvRows(parameters)
    return writer.header() + "".join(writer.lines(rows))


def value_of(column: Column, cell: str, parameters: ExportParameters) -> object:
    """Return what a cell of the column means, by the rules that a client is told."""
    if column in TEXTS:
        return unprotect(cell) if parameters.csv.formula_protection is FormulaProtection.APOSTROPHE else cell
    if column in INSTANTS:
        return parse_instant(cell) if cell else None
    return int(cell) if column in {Column.PRIORITY, Column.VERSION} else cell


@given(rows=ROWS, parameters=PARAMETERS)
def test_another_reader_finds_what_was_written(rows: list[TaskRow], parameters: ExportParameters) -> None:
    """In every dialect, any choice of columns and any zone, each cell read back means the value that it was given."""
    header, *records = read_back(written(rows, parameters), parameters)
    assert header == [column.value for column in parameters.columns]
    cells = [dict(zip(Column, row, strict=True)) for row in rows]
    expected = [[row[column] for column in parameters.columns] for row in cells]
    assert [
        [value_of(column, cell, parameters) for column, cell in zip(parameters.columns, record, strict=True)]
        for record in records
    ] == expected


@given(rows=LATER_ROWS, parameters=PARAMETERS)
def test_another_writer_writes_the_same_bytes(rows: list[TaskRow], parameters: ExportParameters) -> None:
    """Without formula protection the file is `csv.writer`'s, wherever the two dialects coincide."""
    parameters = replace(parameters, csv=replace(parameters.csv, formula_protection=FormulaProtection.NONE))
    # It leaves a lone CR without quotes when lines end with LF.
    assume(parameters.csv.line_ending is LineEnding.CRLF or not any("\r" in str(cell) for row in rows for cell in row))
    assert written(rows, parameters).encode() == written_by_csv_writer(rows, parameters).encode()


@given(rows=ROWS, parameters=PARAMETERS)
def test_each_record_ends_as_the_dialect_says(rows: list[TaskRow], parameters: ExportParameters) -> None:
    """Header line and records alike, the last one included."""
    ending = {LineEnding.CRLF: "\r\n", LineEnding.LF: "\n"}[parameters.csv.line_ending]
    writer = CsvRows(parameters)
    assert all(line.endswith(ending) for line in [writer.header(), *writer.lines(rows)])


@given(rows=ROWS, parameters=PARAMETERS)
def test_as_many_cells_are_counted_as_were_changed(rows: list[TaskRow], parameters: ExportParameters) -> None:
    """The count is that of the text cells which do not read back as they are; without protection it is zero."""
    writer = CsvRows(parameters)
    text = writer.header() + "".join(writer.lines(rows))
    records = read_back(text, parameters)[1:]
    changed = [
        cell
        for row, record in zip(rows, records, strict=True)
        for column, cell in zip(parameters.columns, record, strict=True)
        if column in TEXTS and cell != row[list(Column).index(column)]
    ]
    assert writer.formula_escaped_count == len(changed)
    assert all(cell.startswith("'") for cell in changed)
    assert parameters.csv.formula_protection is FormulaProtection.APOSTROPHE or not changed


@given(dialect=DIALECTS)
def test_a_number_or_an_instant_is_never_protected(dialect: CsvOptions) -> None:
    """A sign in front of a number is a sign, and an instant before the year 1000 begins with a zero."""
    row = ("-1", "x", "", "open", -3, -62_135_510_400_000, -1, -1, -2)
    columns = tuple(column for column in Column if column not in TEXTS)
    writer = CsvRows(ExportParameters(columns=columns, csv=dialect))
    writer.line(row)
    assert writer.formula_escaped_count == 0
    (record,) = read_back(writer.line(row), ExportParameters(columns=columns, csv=replace(dialect, bom=False)))
    assert record[:3] == ["-1", "open", "-3"]
    assert not any(cell.startswith("'") for cell in record)


@pytest.mark.parametrize(
    ("title", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  -2", "'  -2"),
        ("'quoted'", "''quoted'"),
        ("\t=x", "'\t=x"),
        ("\uff1d1", "'\uff1d1"),
        ("a=b", "a=b"),
        ("", ""),
        ("1-1", "1-1"),
    ],
)
def test_a_text_that_looks_like_a_formula_gets_an_apostrophe(title: str, cell: str) -> None:
    """In front of it, and only there; any other text stays as it is."""
    parameters = ExportParameters(columns=(Column.ID, Column.TITLE))
    writer = CsvRows(parameters)
    (record,) = read_back(writer.line(a_row(1, title=title)), parameters)
    assert record[1] == cell
    assert writer.formula_escaped_count == (title != cell)


@pytest.mark.parametrize("delimiter", Delimiter)
def test_a_cell_is_quoted_where_it_must_be_and_nowhere_else(delimiter: Delimiter) -> None:
    """The delimiter in force, a quote, or either half of a line ending; other delimiters are text like any other."""
    parameters = ExportParameters(
        columns=(Column.TITLE, Column.PRIORITY),
        csv=replace(UNPROTECTED, delimiter=delimiter, line_ending=LineEnding.LF),
    )
    writer = CsvRows(parameters)
    for title in ('"', "\r", "\n", delimiter.value, "a\r\nb"):
        assert writer.line(a_row(1, title=title)) == f'"{title.replace(chr(34), chr(34) * 2)}"{delimiter.value}3\n'
    for title in ("'", " ", "é", *(other.value for other in Delimiter if other is not delimiter)):
        assert writer.line(a_row(1, title=title)) == f"{title}{delimiter.value}3\n"


def test_all_cells_are_quoted_when_that_was_asked_for() -> None:
    """Numbers, keywords, instants, empty ones and the header line included."""
    parameters = ExportParameters(csv=CsvOptions(quoting=Quoting.ALL))
    writer = CsvRows(parameters)
    for line in (writer.header(), writer.line(a_row(1))):
        cells = line.removesuffix("\r\n").split(",")
        assert len(cells) == len(Column)
        assert all(len(cell) >= 2 and cell[0] == cell[-1] == '"' for cell in cells)


@pytest.mark.parametrize("quoting", Quoting)
def test_a_record_of_one_empty_cell_is_not_an_empty_line(quoting: Quoting) -> None:
    """Readers skip those, and the row would be gone."""
    for column, row in ((Column.DESCRIPTION, a_row(1)), (Column.DUE_AT, a_row(1))):
        parameters = ExportParameters(columns=(column,), csv=CsvOptions(quoting=quoting))
        assert CsvRows(parameters).line(row) == '""\r\n'


def test_empty_cells_beside_others_are_empty() -> None:
    """No quotes, no word for nothing."""
    parameters = ExportParameters(columns=(Column.DESCRIPTION, Column.DUE_AT))
    assert CsvRows(parameters).line(a_row(1)) == ",\r\n"


@pytest.mark.parametrize(("bom", "start"), [(True, b"\xef\xbb\xbfid,"), (False, b"id,")])
def test_a_byte_order_mark_stands_first_when_it_was_asked_for(bom: bool, start: bytes) -> None:
    """Once, in front of the header line."""
    text = written([a_row(1)], replace(DEFAULT, csv=CsvOptions(bom=bom)))
    assert text.encode().startswith(start)
    assert text.count("\ufeff") == bom


@given(instant=st.integers(-2_000_000_000_000, 4_000_000_000_000).map(Instant), parameters=PARAMETERS)
def test_an_instant_is_the_same_instant_in_every_zone(instant: Instant, parameters: ExportParameters) -> None:
    """What a cell shows in some zone is read back to the millisecond, offsets of odd minutes and seconds included."""
    parameters = replace(parameters, columns=(Column.ID, Column.CREATED_AT))
    row = ("x", "", "", "open", 1, None, instant, instant, 1)
    (record,) = read_back(CsvRows(parameters).line(row), replace(parameters, csv=replace(parameters.csv, bom=False)))
    assert parse_instant(record[1]) == instant


def test_zones_show_their_own_time_of_day() -> None:
    """The offset is the zone's at that instant: summer time in summer, and Z for UTC."""
    columns = (Column.ID, Column.CREATED_AT)
    winter, summer = START, START + timedelta(days=200) // timedelta(milliseconds=1)
    shown = {
        zone: [
            CsvRows(ExportParameters(columns=columns, timezone=zone))
            .line(("x", "", "", "open", 1, None, instant, instant, 1))
            .removesuffix("\r\n")
            .removeprefix("x,")
            for instant in (winter, summer)
        ]
        for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata")
    }
    assert shown == {
        "UTC": ["2023-11-14T22:13:20Z", "2024-06-01T22:13:20Z"],
        "Europe/Berlin": ["2023-11-14T23:13:20+01:00", "2024-06-02T00:13:20+02:00"],
        "Asia/Kolkata": ["2023-11-15T03:43:20+05:30", "2024-06-02T03:43:20+05:30"],
    }


def test_an_instant_that_is_no_integer_is_a_defect() -> None:
    """A row whose columns are not what they should be is not written as if they were."""
    row = ("x", "", "", "open", 1, None, "2023-11-14", START, 1)
    with pytest.raises(TypeError, match="instant"):
        CsvRows(DEFAULT).line(row)


def test_the_zones_of_the_host_change_no_byte(tmp_path: Path) -> None:
    """A host whose own data calls another zone by the name writes what every host writes: the pinned data decides."""
    elsewhere = tmp_path / "Pacific" / "Auckland"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(files("tzdata").joinpath("zoneinfo", "Asia", "Kolkata").read_bytes())
    hosts_own = TZPATH
    reset_tzpath([str(tmp_path)])
    ZoneInfo.clear_cache()
    try:
        assert str(ZoneInfo("Pacific/Auckland").utcoffset(datetime(2024, 1, 1, tzinfo=UTC))) == "5:30:00"
        parameters = ExportParameters(columns=(Column.CREATED_AT,), timezone="Pacific/Auckland")
        assert CsvRows(parameters).line(a_row(1)) == "2023-11-15T11:13:20+13:00\r\n"
    finally:
        reset_tzpath(hosts_own)
        ZoneInfo.clear_cache()


@pytest.mark.parametrize("zone", ["Mars/Olympus_Mons", "../UTC", "America", ""])
def test_a_zone_that_is_not_in_the_pinned_data_is_a_fault_of_the_parameters(zone: str) -> None:
    """No retry would mend it: the zones of the process that accepted the export may be other ones."""
    with pytest.raises(InvalidParameters, match=f"time zone '{zone}'"):
        CsvRows(ExportParameters(timezone=zone))
