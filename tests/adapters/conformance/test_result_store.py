"""`ResultStore`: bytes of attempts, whole or known to be not, and swept once no one can need them."""

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from domain.account import User
from domain.errors import StaleVersion
from domain.events import Cancel, Claim, Event, Fail, Release
from domain.export import (
    Chunk,
    ErrorCode,
    Failure,
    FailureKind,
    GoneReason,
    JobId,
    LeaseToken,
    Progress,
    Staged,
)
from domain.instants import Instant
from domain.ports import Attempt, Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.steps import live, live_on, save_all, stage_all
from tests.builders import a_rendered_file, a_result, an_enqueue, an_id, chunks_of
from tests.fakes import START, SequentialRandomness

JOB: Final = JobId(an_id(1))
FIRST: Final = Attempt(JOB, 1)
CHUNKS: Final = chunks_of("id,title\r\n1,a\r\n", "2,b\r\n3,c\r\n", "4,d\r\n")
TOKEN: Final = LeaseToken("the-lease-token")
LONGEST: Final = timedelta(minutes=2)
CLAIM: Final = Claim(
    now=START, worker_id="worker-1", lease_token=TOKEN, lease=timedelta(minutes=1), longest_lease=LONGEST
)
FAIL: Final = Fail(
    now=START,
    lease_token=TOKEN,
    longest_lease=LONGEST,
    failure=Failure(FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR, "ZeroDivisionError"),
    retry_at=Instant(START + 1),
    retry_ends_at=Instant(START + 1),
)
BURY: Final = replace(FAIL, failure=Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge"))


async def staged(store: Store, attempt: Attempt = FIRST) -> Staged | None:
    """Return what the store has counted of the attempt."""
    return await store.read(Bulkhead.EXPORTS, lambda uow: uow.result_store.staged(attempt))


async def progress(store: Store, attempt: Attempt = FIRST) -> Progress | None:
    """Return how far the attempt has come."""
    return await store.read(Bulkhead.EXPORTS, lambda uow: uow.result_store.progress(attempt))


async def chunks_in(store: Store, attempt: Attempt = FIRST) -> list[Chunk | None]:
    """Return what lies under the first four numbers of the attempt."""
    return await store.read(Bulkhead.DOWNLOADS, lambda uow: [uow.result_store.read(attempt, seq) for seq in range(4)])


async def lost(store: Store, *, limit: int = 99) -> list[Attempt]:
    """Return the attempts whose bytes no one can need, in one order."""
    found = await store.read(Bulkhead.OPERATIONS, lambda uow: uow.result_store.lost(as_of=uow.now, limit=limit))
    return sorted(found, key=lambda attempt: (attempt.job_id, attempt.number))


# ── Staging ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_chunk_is_kept_exactly(store: Store) -> None:
    """Every member is read back equal, and a number that was not staged holds nothing."""
    await store.write(stage_all, FIRST, CHUNKS)
    assert await chunks_in(store) == [*CHUNKS, None]


async def test_a_chunk_is_read_unverified(store: Store) -> None:
    """Bytes that do not match their digest come as they are: it is the reader who checks."""
    damaged = replace(CHUNKS[0], payload=b"\x00\xff" * 50)
    await store.write(stage_all, FIRST, [damaged])
    assert (await chunks_in(store))[0] == damaged


async def test_attempts_do_not_see_each_others_chunks(store: Store) -> None:
    """Neither those of another attempt of the same job, nor those of the same number of another job."""
    await store.write(stage_all, FIRST, CHUNKS)
    for other in (Attempt(JOB, 2), Attempt(JobId(an_id(2)), 1)):
        assert await chunks_in(store, other) == [None] * 4
        assert await staged(store, other) is None
        assert await progress(store, other) is None


async def test_a_number_is_staged_once(store: Store) -> None:
    """A second chunk of a number is `StaleVersion`; the first one, the count and the progress stay."""
    await store.write(stage_all, FIRST, CHUNKS)
    before = await chunks_in(store), await staged(store), await progress(store)

    def stage_again(uow: UnitOfWork) -> None:
        with pytest.raises(StaleVersion):
            uow.result_store.stage(FIRST, replace(CHUNKS[1], payload=b"other"), rows_total=100)

    await store.write(stage_again)
    assert (await chunks_in(store), await staged(store), await progress(store)) == before


async def test_what_is_staged_is_counted_anew(store: Store) -> None:
    """Chunks, bytes of text, rows and bytes of payload are those that lie there, whatever the order of their coming."""
    await store.write(stage_all, FIRST, [CHUNKS[2], CHUNKS[0], CHUNKS[1]])
    assert await staged(store) == a_rendered_file(CHUNKS).staged


async def test_nothing_staged_is_none(store: Store) -> None:
    """There is no empty file: even without a row it has a header line."""
    assert await staged(store) is None


@pytest.mark.parametrize(
    "chunks",
    [
        CHUNKS[1:],
        [CHUNKS[0], CHUNKS[2]],
        [CHUNKS[0], replace(CHUNKS[2], seq=1)],
        [CHUNKS[0], replace(CHUNKS[1], byte_offset=CHUNKS[1].byte_offset - 1), CHUNKS[2]],
        [CHUNKS[0], replace(CHUNKS[1], byte_offset=CHUNKS[2].byte_offset), CHUNKS[2]],
        [replace(CHUNKS[0], byte_offset=1)],
        [replace(CHUNKS[0], seq=1), replace(CHUNKS[1], seq=0), CHUNKS[2]],
        [CHUNKS[0], replace(CHUNKS[1], byte_count=1), CHUNKS[2]],
    ],
    ids=[
        "without the first",
        "without one in the middle",
        "a number that hides a gap of bytes",
        "an overlap",
        "the bytes of another",
        "a start after the start",
        "two that changed places",
        "one that is shorter than it says",
    ],
)
async def test_a_gap_is_none(store: Store, chunks: list[Chunk]) -> None:
    """Where numbers or offsets do not follow one another, there is no file, whatever the sums say."""
    await store.write(stage_all, FIRST, chunks)
    assert await staged(store) is None


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    shifts=st.lists(st.sampled_from([0, 0, 0, 0, 1, -1, 2]), min_size=5, max_size=5),
    missing=st.sets(st.integers(0, 4), max_size=2),
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_file_is_whole_exactly_when_its_chunks_follow_one_another(
    store: Store, randomness: SequentialRandomness, sizes: list[int], shifts: list[int], missing: set[int]
) -> None:
    """For any sizes, offsets and losses, the store's verdict is that of walking through the chunks."""
    attempt = Attempt(JobId(randomness.new_id()), 1)
    whole = chunks_of(*("x" * size for size in sizes))
    chunks = [
        replace(chunk, byte_offset=max(chunk.byte_offset + shift, 0))
        for chunk, shift in zip(whole, shifts, strict=False)
        if chunk.seq not in missing
    ]
    await store.write(stage_all, attempt, chunks)
    expected, end = bool(chunks), 0
    for seq, chunk in enumerate(chunks):
        expected = expected and (chunk.seq, chunk.byte_offset) == (seq, end)
        end += chunk.byte_count
    found = await staged(store, attempt)
    assert (found is not None) == expected
    assert found is None or found == Staged(len(chunks), end, 0, sum(len(chunk.payload) for chunk in chunks))


async def test_progress_is_the_rows_staged_of_all_rows(store: Store) -> None:
    """None before the first chunk, then the sum of rows so far, and it goes on in later transactions."""
    assert await progress(store) is None
    await store.write(stage_all, FIRST, CHUNKS[:1], rows_total=5)
    assert await progress(store) == Progress(CHUNKS[0].row_count, 5)
    await store.write(stage_all, FIRST, CHUNKS[1:], rows_total=5)
    assert await progress(store) == Progress(sum(chunk.row_count for chunk in CHUNKS), 5)


async def test_a_chunk_that_is_rolled_back_was_never_staged(store: Store) -> None:
    """Neither its bytes nor its rows count."""

    def fail_after_staging(uow: UnitOfWork) -> None:
        stage_all(uow, FIRST, CHUNKS)
        raise LookupError

    with pytest.raises(LookupError):
        await store.write(fail_after_staging)
    assert await staged(store) is None
    assert await progress(store) is None


# ── What no one can need ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_current_attempt_of_a_running_job_is_spared(store: Store, owner: User) -> None:
    """Its worker is still staging."""
    await store.write(live, an_enqueue(owner.id, 1), CLAIM)
    await store.write(stage_all, FIRST, CHUNKS)
    assert await lost(store) == []


async def test_an_attempt_whose_lease_is_over_is_spared_until_another_one_begins(store: Store, owner: User) -> None:
    """A lost lease alone does not make its bytes unneeded; the next claim does."""
    job = await store.write(live, an_enqueue(owner.id, 1), CLAIM)
    await store.write(stage_all, FIRST, CHUNKS)
    assert await lost(store) == []
    later = replace(CLAIM, now=Instant(START + 60_000), lease_token=LeaseToken("the-next"))
    await store.write(live_on, job.id, later)
    await store.write(stage_all, Attempt(JOB, 2), CHUNKS[:1])
    assert await lost(store) == [FIRST]


@pytest.mark.parametrize(
    "ending",
    [
        FAIL,
        BURY,
        Release(now=START, lease_token=TOKEN, longest_lease=LONGEST),
        Cancel(now=START, actor="owner"),
    ],
    ids=["backed off", "buried", "released", "cancelled"],
)
async def test_an_attempt_that_ended_without_a_result_is_lost(store: Store, owner: User, ending: Event) -> None:
    """However it ended, its bytes are the sweep's from that commit on."""
    job = await store.write(live, an_enqueue(owner.id, 1), CLAIM)
    await store.write(stage_all, FIRST, CHUNKS)
    await store.write(live_on, job.id, ending)
    assert await lost(store) == [FIRST]


async def test_a_published_attempt_is_spared_and_the_one_before_it_is_lost(store: Store, owner: User) -> None:
    """Of two attempts of one job only the bytes of the result are needed."""
    await store.write(save_all, an_enqueue(owner.id, 1))
    await store.write(stage_all, FIRST, CHUNKS)
    await store.write(stage_all, Attempt(JOB, 2), CHUNKS)
    await store.write(lambda uow: uow.results.publish(a_result(JOB, a_rendered_file(CHUNKS), attempt=2)))
    assert await lost(store) == [FIRST]


async def test_lost_attempts_are_as_many_as_asked_for(store: Store, owner: User) -> None:
    """A sweep takes a bounded number, and running jobs in front of them hide none."""
    for number in range(1, 6):
        await store.write(live, an_enqueue(owner.id, number), CLAIM)
        await store.write(stage_all, Attempt(JobId(an_id(number)), 1), CHUNKS)
    for number in (4, 5):
        await store.write(live_on, JobId(an_id(number)), FAIL)
    assert [attempt.job_id for attempt in await lost(store)] == [an_id(4), an_id(5)]
    assert len(await lost(store, limit=1)) == 1


async def test_bytes_of_a_job_that_is_not_there_are_lost(store: Store) -> None:
    """Bytes that belong to no job can be needed by no one."""
    await store.write(stage_all, FIRST, CHUNKS)
    assert await lost(store) == [FIRST]


async def test_deleting_goes_in_batches_and_says_when_none_is_left(store: Store) -> None:
    """Each call deletes up to its limit; after the last one nothing of the attempt is known."""
    await store.write(stage_all, FIRST, CHUNKS)
    gone = [await store.write(lambda uow: uow.result_store.delete(FIRST, limit=2)) for _ in range(2)]
    assert gone == [False, True]
    assert await chunks_in(store) == [None] * 4
    assert await progress(store) is None
    assert await lost(store) == []


async def test_deleting_what_is_not_there_says_that_none_is_left(store: Store) -> None:
    """A caller that deletes until nothing is left comes to an end."""
    assert await store.write(lambda uow: uow.result_store.delete(FIRST, limit=2))


async def test_deleting_touches_no_other_attempt(store: Store) -> None:
    """Neither another one of the job, nor the same number of another job."""
    others = [Attempt(JOB, 2), Attempt(JobId(an_id(2)), 1)]
    for attempt in (FIRST, *others):
        await store.write(stage_all, attempt, CHUNKS)
    assert await store.write(lambda uow: uow.result_store.delete(FIRST, limit=9))
    for attempt in others:
        assert await chunks_in(store, attempt) == [*CHUNKS, None]
    assert await lost(store) == sorted(others, key=lambda attempt: (attempt.job_id, attempt.number))


async def test_a_readable_result_cannot_be_deleted(store: Store, owner: User) -> None:
    """Its chunks stay whoever asks, until the result is gone; then they go."""
    await store.write(save_all, an_enqueue(owner.id, 1))
    await store.write(stage_all, FIRST, CHUNKS)
    await store.write(lambda uow: uow.results.publish(a_result(JOB, a_rendered_file(CHUNKS))))
    assert not await store.write(lambda uow: uow.result_store.delete(FIRST, limit=9))
    assert await chunks_in(store) == [*CHUNKS, None]
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.DELETED))
    assert await store.write(lambda uow: uow.result_store.delete(FIRST, limit=9))
    assert await chunks_in(store) == [None] * 4
