"""A file as chunks: the same bytes however they are cut, each piece on its own and all of them together."""

import gzip
from datetime import timedelta
from hashlib import sha256
from typing import Final
from zlib import crc32

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from adapters.rendering.csv_file import CHUNK_BYTES, CsvFile
from adapters.rendering.csv_rows import CsvRows
from domain.errors import ResultTooLarge
from domain.export import Chunk, RenderedFile
from domain.gzip_member import GZIP_HEADER, gzip_byte_count, gzip_trailer
from domain.parameters import ExportParameters
from domain.policies import Policies, ResultPolicy
from domain.ports import TaskRow
from tests.adapters.rendering.rows import PARAMETERS, ROWS, Snapshot, a_row
from tests.builders import a_rendered_file
from tests.fakes import START

DEFAULT: Final = ExportParameters()
UNLIMITED: Final = ResultPolicy(max_rows=10**6, max_bytes=10**9, retention=timedelta(days=1))
# A chunk is closed by the row that fills it: no longer than a megabyte and that row.
LONGEST_ROW: Final = 110_000


def rendered(
    rows: list[TaskRow], policies: Policies, parameters: ExportParameters = DEFAULT, *, batch: int = 3
) -> tuple[list[Chunk], RenderedFile]:
    """Return the chunks of a file and what is known of the whole."""
    file = CsvFile(Snapshot(rows, batch=batch), parameters, limits=policies.result)
    return list(file.chunks()), file.file()


def lines_of(rows: list[TaskRow], parameters: ExportParameters = DEFAULT) -> bytes:
    """Return the file as one piece."""
    writer = CsvRows(parameters)
    return (writer.header() + "".join(writer.lines(rows))).encode()


def gzip_member(chunks: list[Chunk], file: RenderedFile) -> bytes:
    """Return what a client that accepts gzip is sent."""
    trailer = gzip_trailer(crc32=file.digests.crc32, byte_count=file.staged.byte_count)
    return GZIP_HEADER + b"".join(chunk.payload for chunk in chunks) + trailer


@pytest.fixture(scope="module")
def long_rows() -> list[TaskRow]:
    """Rows for a file of several chunks: text of one and of four bytes a character, short rows and long ones."""
    texts = ("x" * 100_000, "\U0001f600" * 20_000, "short", '"quoted"\r\n' * 2_000)
    return [a_row(number, title=f"Task {number}", description=texts[number % len(texts)]) for number in range(80)]


def assert_sound(chunks: list[Chunk], file: RenderedFile, expected: bytes) -> None:
    """Assert that the chunks are the expected file, each by itself and all together."""
    plain = [chunk.text() for chunk in chunks]
    assert b"".join(plain) == expected
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.byte_count for chunk in chunks] == [len(text) for text in plain]
    assert [chunk.byte_offset for chunk in chunks] == [sum(map(len, plain[:seq])) for seq in range(len(plain))]
    for chunk in chunks:
        chunk.verify()
    member = gzip_member(chunks, file)
    assert gzip.decompress(member) == expected
    assert len(member) == gzip_byte_count(file.staged.payload_byte_count)
    assert file.digests.sha256 == sha256(expected).hexdigest()
    assert file.digests.gzip_sha256 == sha256(member).hexdigest()
    assert file.digests.crc32 == crc32(expected)


@given(rows=ROWS, parameters=PARAMETERS)
def test_a_file_is_its_lines(rows: list[TaskRow], parameters: ExportParameters) -> None:
    """In every dialect the chunks hold the header line and a record for each row; digests and gzip form are right."""
    file = CsvFile(Snapshot(rows), parameters, limits=UNLIMITED)
    chunks = list(file.chunks())
    assert_sound(chunks, file.file(), lines_of(rows, parameters))
    assert file.file().staged.row_count == len(rows)


def test_a_long_file_is_cut_into_pieces_of_about_a_megabyte(long_rows: list[TaskRow], policies: Policies) -> None:
    """No piece but the last is shorter than a megabyte of bytes, and none is longer by more than a row."""
    chunks, file = rendered(long_rows, policies)
    assert len(chunks) > 3
    assert all(CHUNK_BYTES <= chunk.byte_count < CHUNK_BYTES + LONGEST_ROW for chunk in chunks[:-1])
    assert 0 < chunks[-1].byte_count < CHUNK_BYTES + LONGEST_ROW
    assert_sound(chunks, file, lines_of(long_rows))


def test_a_cut_lies_between_two_records(long_rows: list[TaskRow], policies: Policies) -> None:
    """Each piece holds as many whole records as it says."""
    chunks, file = rendered(long_rows, policies)
    writer = CsvRows(DEFAULT)
    lines = [line.encode() for line in writer.lines(long_rows)]
    header = writer.header().encode()
    for chunk in chunks:
        expected = (header if chunk.seq == 0 else b"") + b"".join(lines[: chunk.row_count])
        assert chunk.text() == expected
        del lines[: chunk.row_count]
    assert lines == []
    assert sum(chunk.row_count for chunk in chunks) == file.staged.row_count == len(long_rows)


def test_what_is_known_of_the_whole_is_what_its_chunks_add_up_to(long_rows: list[TaskRow], policies: Policies) -> None:
    """Counts and digests are those of an independent sum over the chunks."""
    chunks, file = rendered(long_rows, policies)
    again = a_rendered_file(chunks)
    assert file.digests == again.digests
    assert (file.staged.chunk_count, file.staged.byte_count, file.staged.payload_byte_count) == (
        again.staged.chunk_count,
        again.staged.byte_count,
        again.staged.payload_byte_count,
    )
    assert file.snapshot_at == START


def test_an_export_without_a_row_is_a_header_line(policies: Policies) -> None:
    """One chunk with no row in it: there is a file."""
    chunks, file = rendered([], policies)
    assert_sound(chunks, file, lines_of([]))
    assert [(chunk.row_count, chunk.byte_offset) for chunk in chunks] == [(0, 0)]
    assert (file.staged.chunk_count, file.staged.row_count) == (1, 0)


def test_no_empty_chunk_follows_a_row_that_fills_the_last_one(policies: Policies) -> None:
    """A file whose last row closes a chunk has no other behind it."""
    rows = [a_row(number, description="x" * 100_000) for number in range(30)]
    whole, _ = rendered(rows, policies)
    filling = whole[0].row_count
    chunks, file = rendered(rows[:filling], policies)
    assert [chunk.row_count for chunk in chunks] == [filling]
    assert file.staged.chunk_count == 1


@given(batch=st.integers(1, 90))
@settings(max_examples=15)
def test_the_size_of_batches_leaves_no_trace(batch: int) -> None:
    """The same rows give the same chunks, to the byte, however they were read; and again the second time."""
    rows = [a_row(number, description="y" * 50_000) for number in range(45)]
    file = CsvFile(Snapshot(rows, batch=batch), DEFAULT, limits=UNLIMITED)
    chunks = list(file.chunks())
    expected = CsvFile(Snapshot(rows, batch=45), DEFAULT, limits=UNLIMITED)
    assert chunks == list(expected.chunks())
    assert file.file() == expected.file()


def test_formulas_are_counted_over_all_chunks(policies: Policies) -> None:
    """Each text cell that got an apostrophe, wherever it lies."""
    rows = [a_row(number, title="=1", description="-" + "x" * 100_000) for number in range(25)]
    chunks, file = rendered(rows, policies)
    assert len(chunks) > 1
    assert file.formula_escaped_count == 50


# ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_as_many_rows_as_allowed_are_rendered_and_one_more_is_refused_at_once(policies: Policies) -> None:
    """Before anything is read or made; the refusal names both figures."""
    rows = [a_row(number) for number in range(3)]
    exact = CsvFile(Snapshot(rows), DEFAULT, limits=replace(policies.result, max_rows=3))
    assert [chunk.row_count for chunk in exact.chunks()] == [3]
    with pytest.raises(ResultTooLarge, match=r"3 rows, and 2 are allowed"):
        CsvFile(Snapshot(rows), DEFAULT, limits=replace(policies.result, max_rows=2))


def test_as_many_bytes_as_allowed_are_rendered(long_rows: list[TaskRow], policies: Policies) -> None:
    """The limit itself is within the limit."""
    size = len(lines_of(long_rows))
    chunks = list(CsvFile(Snapshot(long_rows), DEFAULT, limits=replace(policies.result, max_bytes=size)).chunks())
    assert sum(chunk.byte_count for chunk in chunks) == size


@pytest.mark.parametrize("short_by", [1, CHUNK_BYTES, 3 * CHUNK_BYTES])
def test_the_chunk_that_would_pass_the_limit_is_not_made(
    long_rows: list[TaskRow], policies: Policies, short_by: int
) -> None:
    """Every one before it is: those that end within the limit."""
    limit = len(lines_of(long_rows)) - short_by
    whole, _ = rendered(long_rows, policies)
    file = CsvFile(Snapshot(long_rows), DEFAULT, limits=replace(policies.result, max_bytes=limit))
    made: list[Chunk] = []
    with pytest.raises(ResultTooLarge, match="bytes"):
        made.extend(file.chunks())
    assert made == [chunk for chunk in whole if chunk.byte_offset + chunk.byte_count <= limit]
