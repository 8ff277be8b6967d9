"""Results: bytes that are checked, and the instant at which they go."""

from hashlib import sha256

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from rich.pretty import pretty_repr

from domain.errors import ChunkDamaged
from domain.export import Chunk, ErrorCode, ExportResult, FailureKind, GoneReason, JobId, JobStatus
from domain.gzip_member import deflated
from domain.instants import Instant


def chunk_of(payload: bytes) -> Chunk:
    """Return a chunk that holds the payload."""
    return Chunk(seq=3, byte_offset=10, byte_count=20, row_count=1, sha256=sha256(payload).hexdigest(), payload=payload)


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


@given(st.binary())
def test_a_chunk_gives_the_text_that_it_was_made_of(plain: bytes) -> None:
    """Byte for byte, from the chunk alone."""
    assert replace(chunk_of(deflated(plain)), byte_count=len(plain)).text() == plain


@pytest.mark.parametrize("payload", [deflated(b"x" * 19), deflated(b"x" * 21), b"", b"no piece"])
def test_a_chunk_whose_payload_holds_another_text_is_damaged(payload: bytes) -> None:
    """Also where its digest is right: nothing is handed out that is shorter or longer than it should be."""
    with pytest.raises(ChunkDamaged, match="chunk 3"):
        chunk_of(payload).text()


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
