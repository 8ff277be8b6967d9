"""Results: raw-deflate pieces that make one gzip member, bytes that are checked, and the instant at which they go."""

import gzip
import zlib
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from rich.pretty import pretty_repr

from domain.errors import ChunkDamaged
from domain.export import (
    GZIP_HEADER,
    Chunk,
    ErrorCode,
    ExportResult,
    FailureKind,
    GoneReason,
    JobId,
    JobStatus,
    gzip_byte_count,
    gzip_trailer,
)
from domain.instants import Instant

pieces = st.lists(st.binary(max_size=2000), max_size=6)


def segments(plain: list[bytes]) -> list[bytes]:
    """Return the pieces as they are staged: each deflated raw, with nothing before it needed, ended by a full flush."""
    made = []
    for piece in plain:
        deflate = zlib.compressobj(wbits=-15)
        made.append(deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH))
    return made


def chunk_of(payload: bytes) -> Chunk:
    """Return a chunk that holds the payload."""
    return Chunk(seq=3, byte_offset=10, byte_count=20, row_count=1, sha256=sha256(payload).hexdigest(), payload=payload)


# ── Framing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(pieces)
def test_header_segments_and_trailer_are_one_gzip_member(plain: list[bytes]) -> None:
    """What is sent is one member: a reader that stops after the first one misses nothing."""
    whole, payloads = b"".join(plain), segments(plain)
    file = GZIP_HEADER + b"".join(payloads) + gzip_trailer(crc32=zlib.crc32(whole), byte_count=len(whole))
    assert gzip.decompress(file) == whole
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(file) == whole
    assert (reader.eof, reader.unused_data) == (True, b"")
    assert len(file) == gzip_byte_count(sum(map(len, payloads)))


@given(pieces)
def test_each_segment_inflates_on_its_own(plain: list[bytes]) -> None:
    """A plain download inflates piece by piece, from any piece on."""
    assert [zlib.decompressobj(wbits=-15).decompress(payload) for payload in segments(plain)] == plain


@given(pieces.filter(any), st.data())
def test_a_damaged_member_is_noticed_by_any_reader(plain: list[bytes], data: st.DataObject) -> None:
    """The trailer's checksum is of the plain bytes, so that a wrong one does not decompress."""
    whole = b"".join(plain)
    wrong = data.draw(st.integers(1, 2**32 - 1)) ^ zlib.crc32(whole)
    file = GZIP_HEADER + b"".join(segments(plain)) + gzip_trailer(crc32=wrong, byte_count=len(whole))
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(file)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_the_trailer_ends_with_checksum_and_length(crc32: int, byte_count: int) -> None:
    """Both are little-endian, and the length is taken modulo two to the 32, as RFC 1952 has it."""
    trailer = gzip_trailer(crc32=crc32, byte_count=byte_count)
    assert trailer[-8:-4] == crc32.to_bytes(4, "little")
    assert int.from_bytes(trailer[-4:], "little") == byte_count % 2**32
    assert len(trailer) == gzip_byte_count(0) - len(GZIP_HEADER)


def test_equal_files_are_equal_bytes() -> None:
    """The header holds no time and no name, so nothing but the content decides the digest."""
    assert bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]) == GZIP_HEADER


# ── Chunks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.binary())
def test_a_chunk_that_is_as_it_was_stored_passes(payload: bytes) -> None:
    """Verifying says nothing when there is nothing to say."""
    chunk_of(payload).verify()


@given(st.binary(min_size=1), st.data())
def test_a_chunk_with_any_bit_changed_is_damaged(payload: bytes, data: st.DataObject) -> None:
    """One wrong bit anywhere is refused, and the refusal names the chunk."""
    at, bit = data.draw(st.integers(0, len(payload) - 1)), data.draw(st.integers(0, 7))
    changed = payload[:at] + bytes([payload[at] ^ 1 << bit]) + payload[at + 1 :]
    with pytest.raises(ChunkDamaged, match="chunk 3"):
        replace(chunk_of(payload), payload=changed).verify()


@pytest.mark.parametrize("payload", [b"", b"abc", b"abcde"])
def test_a_chunk_cut_short_or_made_longer_is_damaged(payload: bytes) -> None:
    """A length that changed is damage like any other."""
    with pytest.raises(ChunkDamaged):
        replace(chunk_of(b"abcd"), payload=payload).verify()


def test_a_chunk_does_not_print_its_payload() -> None:
    """The payload is an owner's text, and no log is the place for it."""
    chunk = chunk_of(b"buy flowers")
    for text in (repr(chunk), str(chunk), pretty_repr(chunk)):
        assert "flowers" not in text
        assert "seq=3" in text


# ── Results ───────────────────────────────────────────────────────────────────────────────────────────────────────────

EXPIRES_AT = Instant(1_000)
RESULT = ExportResult(
    job_id=JobId("job"),
    attempt=1,
    content_type="text/csv",
    chunk_count=1,
    byte_count=4,
    sha256="",
    gzip_byte_count=30,
    gzip_sha256="",
    crc32=0,
    row_count=1,
    formula_escaped_count=0,
    snapshot_at=Instant(0),
    created_at=Instant(1),
    expires_at=EXPIRES_AT,
)


def test_a_result_can_be_read_until_the_instant_at_which_it_expires() -> None:
    """The last millisecond before it is in, the instant itself is out, whether or not the sweep has come by."""
    assert RESULT.gone(Instant(EXPIRES_AT - 1)) is None
    assert RESULT.gone(EXPIRES_AT) == (GoneReason.EXPIRED, EXPIRES_AT)
    assert RESULT.gone(Instant(EXPIRES_AT + 1)) == (GoneReason.EXPIRED, EXPIRES_AT)


@pytest.mark.parametrize("reason", GoneReason)
@pytest.mark.parametrize("now", [500, 999, 1_000, 5_000])
def test_a_result_that_was_removed_stays_gone_for_the_reason_it_was(reason: GoneReason, now: int) -> None:
    """What is recorded wins: a deletion stays one after the retention, and a clock that went back revives nothing."""
    gone = replace(RESULT, gone_at=Instant(700), gone_reason=reason)
    assert gone.gone(Instant(now)) == (reason, 700)


def test_the_terminal_statuses_are_the_last_three() -> None:
    """Queued and running jobs go on by themselves, no other does."""
    assert [status for status in JobStatus if status.is_terminal] == [
        JobStatus.SUCCEEDED,
        JobStatus.FAILED,
        JobStatus.CANCELLED,
    ]


def test_the_words_of_an_export_are_those_of_its_contract() -> None:
    """Clients, rows and files hold these words, so they do not change by accident."""
    assert [status.value for status in JobStatus] == ["queued", "running", "succeeded", "failed", "cancelled"]
    assert [kind.value for kind in FailureKind] == ["transient", "environment", "permanent"]
    assert [reason.value for reason in GoneReason] == ["expired", "deleted"]
    assert [code.value for code in ErrorCode] == [
        "attempts_exhausted",
        "invalid_parameters",
        "owner_disabled",
        "ownership_violation",
        "result_too_large",
        "internal_error",
        "deadline_exceeded",
        "cancelled",
    ]
