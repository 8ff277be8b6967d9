"""What workers do to exports: fenced at every step, and an end for every job, whatever becomes of its workers."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.errors import (
    EnvironmentFailure,
    GuardRefused,
    InvalidParameters,
    NoSuchTransition,
    NotFound,
    NotHolding,
    OwnerDisabled,
    OwnershipViolation,
    ProtocolRefusal,
    ResultTooLarge,
    StoreFull,
)
from domain.export import Chunk, ErrorCode, Failure, FailureKind, JobStatus, LeaseToken
from domain.instants import Instant, later
from domain.parameters import ExportParameters
from domain.policies import classify
from domain.ports import Attempt, Bulkhead
from domain.use_cases.accounts import disable_user
from domain.use_cases.exports import cancel_export
from domain.use_cases.work import (
    Holder,
    has_work,
    holder_of,
    prepare_attempt,
    still_holds,
    was_committed,
)
from tests.builders import a_rendered_file, an_id, chunks_of
from tests.fakes import START, ManualClock, SequentialRandomness
from tests.use_cases.bench import CHUNKS, ENVIRONMENT, PERMANENT, TRANSIENT, Bench, contents

LEASE: Final = timedelta(minutes=1)
MILLISECOND: Final = timedelta(milliseconds=1)


async def work_is_there(bench: Bench) -> bool:
    """Tell whether an idle worker sees work, without a lock."""
    return await bench.store.read(Bulkhead.OPERATIONS, has_work, lease=bench.policies.lease)


async def holds(bench: Bench, holder: Holder) -> bool:
    """Tell whether the attempt may still write."""
    return await bench.store.read(Bulkhead.OPERATIONS, still_holds, holder, lease=bench.policies.lease)


# ── Claiming ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_empty_queue_has_no_work(bench: Bench, database: Path) -> None:
    """A claim takes nothing and changes nothing, and the look before it says so."""
    before = contents(database)
    assert not await work_is_there(bench)
    assert await bench.try_to_claim() is None
    assert contents(database) == before


async def test_a_claim_takes_the_export_under_a_lease(bench: Bench, owner: User) -> None:
    """It is counted, has a fresh token and an end in database time, and is nobody else's until then."""
    made = await bench.enqueue(owner)
    assert await work_is_there(bench)
    job = await bench.try_to_claim("worker-7")
    assert job is not None
    assert (job.id, job.status, job.attempt_count, job.worker_id) == (made.id, JobStatus.RUNNING, 1, "worker-7")
    assert (job.lease_until, job.started_at) == (later(START, LEASE), START)
    assert job == await bench.job(made.id)
    assert await bench.try_to_claim() is None
    assert not await work_is_there(bench)


async def test_no_lease_goes_beyond_the_deadline(bench: Bench, owner: User) -> None:
    """There is nothing to be won after it."""
    made = await bench.enqueue(owner, deadline_seconds=20)
    job = await bench.try_to_claim()
    assert job is not None
    assert job.lease_until == made.deadline_at


async def test_two_workers_that_claim_at_once_get_different_exports(
    bench: Bench, database: Path, owner: User, randomness: SequentialRandomness
) -> None:
    """Through two processes: each export is claimed once, and none is claimed by both."""
    for number in range(10):
        await bench.enqueue(owner, f"key-{number}")
    async with SqliteStore.open(
        database,
        clock=ManualClock(),
        randomness=randomness,
        read_connections=1,
        write_wait_seconds=20,
        read_wait_seconds=5,
    ) as second:
        benches = [bench, Bench(second, bench.policies, bench.clock, randomness)]
        claimed = await asyncio.gather(*(some.try_to_claim() for _ in range(6) for some in benches))
    jobs = [job.id for job in claimed if job is not None]
    assert len(jobs) == len(set(jobs)) == 10
    assert claimed.count(None) == 2


async def test_a_lost_export_is_claimed_again_and_the_loss_is_told(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """At the end of the lease and not before: the number goes up, and the history names the worker that was lost."""
    job = await bench.enqueue(owner)
    await bench.claim("worker-1")
    clock.advance(LEASE - MILLISECOND)
    assert await bench.try_to_claim("worker-2") is None
    clock.advance(MILLISECOND)
    assert await work_is_there(bench)
    again = await bench.try_to_claim("worker-2")
    assert again is not None
    assert (again.id, again.attempt_count, again.worker_id) == (job.id, 2, "worker-2")
    history = await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(job.id))
    assert history[-1].detail == "attempt 1 of worker worker-1 was lost"


async def test_a_clock_that_jumped_back_freezes_no_export(bench: Bench, owner: User, clock: ManualClock) -> None:
    """A lease that seems to go on longer than any may is as good as over."""
    await bench.enqueue(owner, deadline_seconds=86_400)
    await bench.claim()
    clock.step(-timedelta(hours=3))
    assert (await bench.claim("worker-2")).attempt == 2


async def test_a_claim_survives_a_clock_that_jumped_back(bench: Bench, owner: User, clock: ManualClock) -> None:
    """An export from the future waits for it: no claim fails over it, and it is taken when its time has come."""
    await bench.enqueue(owner)
    clock.step(-timedelta(seconds=5))
    assert not await work_is_there(bench)
    assert await bench.try_to_claim() is None
    clock.advance(timedelta(seconds=5))
    assert (await bench.claim()).attempt == 1


async def test_a_claim_ends_on_its_way_what_can_never_succeed(
    bench: Bench, owner: User, neighbour: User, clock: ManualClock
) -> None:
    """Those past their deadline end, queued or lost alike, and the first sound one is taken in the same commit."""
    late = await bench.enqueue(owner, "late", deadline_seconds=30)
    lost = await bench.enqueue(neighbour, "lost", deadline_seconds=30)
    holder = await bench.claim()
    clock.advance(timedelta(seconds=30))
    sound = await bench.enqueue(neighbour, "sound")
    claimed = await bench.claim("worker-2")
    assert claimed.job_id == sound.id
    assert holder.job_id in {late.id, lost.id}
    for job in (late, lost):
        ended = await bench.job(job.id)
        assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)
        assert (await bench.events(job.id))[-1] == "expire"


async def test_many_dead_exports_hold_up_a_sound_one_for_a_few_claims_only(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """One claim ends a few dozen of one owner's at most, so that the lock is short; the next one goes on with it."""
    late = [await bench.enqueue(owner, f"late-{number}", deadline_seconds=10) for number in range(70)]
    clock.advance(timedelta(seconds=10))
    sound = await bench.enqueue(owner, "sound")
    claimed: list[str | None] = []
    ended: list[int] = []
    for _ in range(3):
        job = await bench.try_to_claim()
        claimed.append(job.id if job is not None else None)
        ended.append([(await bench.job(other.id)).status for other in late].count(JobStatus.FAILED))
    assert claimed == [None, None, sound.id]
    assert 0 < ended[0] <= 40
    assert ended[-1] == len(late)


async def test_an_export_that_kills_its_workers_ends(bench: Bench, owner: User, clock: ManualClock) -> None:
    """Each lost attempt uses the budget; after the last one the next claim buries it with `attempts_exhausted`."""
    job = await bench.enqueue(owner)
    for attempt in range(1, bench.policies.retry.max_attempts + 1):
        assert (await bench.claim()).attempt == attempt
        clock.advance(LEASE)
    assert await work_is_there(bench)
    assert await bench.try_to_claim() is None
    ended = await bench.job(job.id)
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED)
    assert not await work_is_there(bench)


async def test_a_job_without_a_lease_has_no_holder(bench: Bench, owner: User) -> None:
    """The right to write is what a claim returns, and nothing else."""
    with pytest.raises(NotHolding):
        holder_of(await bench.enqueue(owner))


# ── Preparing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_attempt_is_told_what_the_export_is_to_contain(bench: Bench, owner: User) -> None:
    """The parameters as they were accepted."""
    await bench.enqueue(owner, timezone="Europe/Berlin")
    job = await bench.try_to_claim()
    assert job is not None
    parameters = await bench.store.read(Bulkhead.EXPORTS, prepare_attempt, job)
    assert parameters == ExportParameters(timezone="Europe/Berlin")


async def test_an_export_of_a_disabled_owner_fails_for_good(bench: Bench, owner: User) -> None:
    """`owner_disabled`, from an owner who was enabled when it was accepted."""
    await bench.enqueue(owner)
    job = await bench.try_to_claim()
    assert job is not None
    await bench.store.write(disable_user, owner.name)
    with pytest.raises(OwnerDisabled) as refusal:
        await bench.store.read(Bulkhead.EXPORTS, prepare_attempt, job)
    ended = await bench.fail(holder_of(job), classify(refusal.value))
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.OWNER_DISABLED)


@pytest.mark.parametrize("text", ["", "[]", '{"format":"xml"}', '{"columns":[]}', '{"unknown":1}'])
async def test_an_export_whose_parameters_cannot_be_read_fails_for_good(bench: Bench, owner: User, text: str) -> None:
    """It still loads, and ends with `invalid_parameters` instead of being tried for ever."""
    await bench.enqueue(owner)
    job = await bench.try_to_claim()
    assert job is not None
    with pytest.raises(InvalidParameters) as refusal:
        await bench.store.read(Bulkhead.EXPORTS, prepare_attempt, replace(job, parameters_json=text))
    ended = await bench.fail(holder_of(job), classify(refusal.value))
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.INVALID_PARAMETERS)


# ── The fence ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Step = Callable[[Bench, Holder], Awaitable[Any]]

WRITES: Final[dict[str, Step]] = {
    "stage": lambda bench, holder: bench.stage(holder, chunks_of("", "more\r\n")[1:]),
    "complete": lambda bench, holder: bench.complete(holder),
    "fail": lambda bench, holder: bench.fail(holder),
    "fail for good": lambda bench, holder: bench.fail(holder, PERMANENT),
    "be excused": lambda bench, holder: bench.fail(holder, ENVIRONMENT),
    "release": lambda bench, holder: bench.release(holder),
}


async def expired(bench: Bench, holder: Holder) -> None:
    """Let the lease run out: to the millisecond."""
    assert bench.clock.advance(LEASE) == (await bench.job(holder.job_id)).lease_until


async def claimed_again(bench: Bench, holder: Holder) -> None:
    """Let another worker have the export."""
    await expired(bench, holder)
    await bench.claim("worker-2")


async def claimed_again_and_done(bench: Bench, holder: Holder) -> None:
    """Let another worker finish the export."""
    await expired(bench, holder)
    other = await bench.claim("worker-2")
    await bench.stage(other)
    await bench.complete(other)


async def cancelled(bench: Bench, holder: Holder) -> None:
    """Let the owner want no file any more."""
    job = await bench.job(holder.job_id)
    await bench.store.write(cancel_export, job.owner_id, job.id)


async def released(bench: Bench, holder: Holder) -> None:
    """Let the worker itself have given the export back."""
    await bench.release(holder)


async def backed_off(bench: Bench, holder: Holder) -> None:
    """Let the worker itself have failed."""
    await bench.fail(holder)


async def completed(bench: Bench, holder: Holder) -> None:
    """Let the worker itself have succeeded."""
    await bench.complete(holder)


async def set_back(bench: Bench, holder: Holder) -> None:
    """Let the clock jump back beyond the longest lease."""
    bench.clock.step(-timedelta(hours=1))
    assert (await bench.job(holder.job_id)).lease_token == holder.lease_token


WAYS_TO_BECOME_STALE: Final[tuple[Step, ...]] = (
    expired,
    claimed_again,
    claimed_again_and_done,
    cancelled,
    released,
    backed_off,
    completed,
    set_back,
)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("become_stale", WAYS_TO_BECOME_STALE)
async def test_a_stale_worker_can_write_nothing(
    bench: Bench, database: Path, owner: User, become_stale: Step, write: str
) -> None:
    """However it became stale and whatever it tries, it does not hold the export any more, and nothing changes."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder)
    await become_stale(bench, holder)
    before = contents(database)
    assert not await holds(bench, holder)
    with pytest.raises(NotHolding):
        await WRITES[write](bench, holder)
    assert contents(database) == before


@pytest.mark.parametrize("write", WRITES)
async def test_a_worker_with_a_guessed_token_can_write_nothing(
    bench: Bench, database: Path, owner: User, write: str
) -> None:
    """Id and number of the attempt are right, and they are not what counts."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder)
    before = contents(database)
    guessed = Holder(holder.job_id, holder.attempt, LeaseToken("guessed"))
    with pytest.raises(NotHolding):
        await WRITES[write](bench, guessed)
    assert contents(database) == before


@pytest.mark.parametrize("write", WRITES)
async def test_a_worker_of_an_export_that_is_not_there_can_write_nothing(
    bench: Bench, database: Path, owner: User, write: str
) -> None:
    """Nothing is made on the way."""
    await bench.enqueue(owner)
    before = contents(database)
    holder = await bench.claim()
    await bench.release(holder)
    gone = Holder(type(holder.job_id)(an_id(9)), 1, holder.lease_token)
    before = contents(database)
    with pytest.raises(NotFound):
        await WRITES[write](bench, gone)
    assert contents(database) == before


@pytest.mark.parametrize("write", WRITES)
async def test_a_worker_that_holds_can_write_to_the_last_millisecond(
    bench: Bench, owner: User, clock: ManualClock, write: str
) -> None:
    """The fence is at `lease_until`, not before it."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder)
    clock.advance(LEASE - MILLISECOND)
    assert await holds(bench, holder)
    before = await bench.job(holder.job_id)
    if write == "stage":
        more = replace(CHUNKS[-1], seq=len(CHUNKS))
        await bench.stage(holder, [more])
        assert await bench.job(holder.job_id) == before
    else:
        await WRITES[write](bench, holder)
        assert (await bench.job(holder.job_id)).version == before.version + 1


# ── Completing ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_success_and_result_are_one_commit(bench: Bench, owner: User, clock: ManualClock) -> None:
    """The export has succeeded, its result is that of the attempt, readable from now for the time of the policy."""
    job = await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder)
    clock.advance(timedelta(seconds=3))
    assert not await bench.store.read(Bulkhead.EXPORTS, was_committed, holder)
    ended = await bench.complete(holder)
    result = await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.results.find(job.id))
    file = a_rendered_file(CHUNKS)
    assert result is not None
    assert (ended.status, ended.finished_at, ended.last_error_code) == (JobStatus.SUCCEEDED, START + 3000, None)
    assert (result.attempt, result.chunk_count, result.byte_count, result.row_count) == (
        1,
        len(CHUNKS),
        file.staged.byte_count,
        file.staged.row_count,
    )
    assert (result.sha256, result.gzip_sha256, result.crc32) == (
        file.digests.sha256,
        file.digests.gzip_sha256,
        file.digests.crc32,
    )
    assert result.gzip_byte_count == len(b"".join(chunk.payload for chunk in CHUNKS)) + 20
    assert (result.created_at, result.expires_at) == (START + 3000, later(Instant(START + 3000), timedelta(days=7)))
    assert await bench.store.read(Bulkhead.EXPORTS, was_committed, holder)
    assert await bench.events(job.id) == ["enqueue", "claim", "complete"]


@pytest.mark.parametrize(
    "staged",
    [[], CHUNKS[:1], CHUNKS[1:], [CHUNKS[0], replace(CHUNKS[1], byte_count=5)], [*CHUNKS, replace(CHUNKS[1], seq=2)]],
    ids=["nothing", "a part", "without the first", "other counts", "more"],
)
async def test_a_file_that_is_not_wholly_staged_is_not_committed(
    bench: Bench, database: Path, owner: User, staged: list[Chunk]
) -> None:
    """The store's own count decides: the attempt still holds, nothing changed, and there is no result."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder, staged)
    before = contents(database)
    with pytest.raises(GuardRefused):
        await bench.complete(holder)
    assert contents(database) == before
    assert await holds(bench, holder)


async def test_the_bytes_of_an_earlier_attempt_complete_no_later_one(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """What a lost worker staged is not there for the one that comes after it."""
    await bench.enqueue(owner)
    await bench.stage(await bench.claim())
    clock.advance(LEASE)
    second = await bench.claim()
    with pytest.raises(GuardRefused):
        await bench.complete(second)
    await bench.stage(second)
    await bench.complete(second)


async def test_between_cancel_and_complete_the_order_of_commits_decides(bench: Bench, owner: User) -> None:
    """Cancelled first, the file is not committed; committed first, the export cannot be cancelled."""
    first = await bench.enqueue(owner, "key-1")
    holder = await bench.claim()
    await bench.stage(holder)
    await bench.cancel(owner, first.id)
    with pytest.raises(NotHolding):
        await bench.complete(holder)
    assert await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.results.find(first.id)) is None
    second = await bench.succeed(owner, "key-2")
    with pytest.raises(NoSuchTransition):
        await bench.cancel(owner, second.id)
    assert (await bench.job(second.id)).status is JobStatus.SUCCEEDED


async def test_cancel_and_complete_at_once_have_one_winner(
    bench: Bench, database: Path, owner: User, randomness: SequentialRandomness
) -> None:
    """Through two processes at the same time, again and again: one is refused, and the result is there if it lost."""
    async with SqliteStore.open(
        database,
        clock=ManualClock(),
        randomness=randomness,
        read_connections=1,
        write_wait_seconds=20,
        read_wait_seconds=5,
    ) as second:
        worker = Bench(second, bench.policies, bench.clock, randomness)
        for number in range(12):
            job = await bench.enqueue(owner, f"key-{number}")
            holder = await worker.claim()
            await worker.stage(holder)
            outcomes = await asyncio.gather(
                bench.cancel(owner, job.id), worker.complete(holder), return_exceptions=True
            )
            refused = [isinstance(outcome, ProtocolRefusal) for outcome in outcomes]
            result = await bench.store.read(Bulkhead.EXPORTS, lambda uow, job_id: uow.results.find(job_id), job.id)
            assert sorted(refused) == [False, True]
            assert (result is not None) == refused[0]
            status = (await bench.job(job.id)).status
            assert status is (JobStatus.SUCCEEDED if refused[0] else JobStatus.CANCELLED)


# ── Failing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_passing_failure_is_tried_again_after_a_growing_delay(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """Two seconds, then four, made longer by the jitter; not a millisecond earlier, and a younger export goes ahead."""
    job = await bench.enqueue(owner)
    failed = await bench.fail(await bench.claim(), jitter=0.5)
    assert (failed.status, failed.available_at) == (JobStatus.QUEUED, later(START, timedelta(seconds=2.5)))
    assert (failed.attempt_count, failed.excused_count, failed.lease_token) == (1, 0, None)
    clock.advance(timedelta(seconds=2.5) - MILLISECOND)
    assert await bench.try_to_claim() is None
    again_at = clock.advance(MILLISECOND)
    failed = await bench.fail(await bench.claim())
    assert failed.available_at == later(again_at, timedelta(seconds=4))
    younger = await bench.enqueue(owner, "younger")
    assert (await bench.claim()).job_id == younger.id
    assert (await bench.events(job.id)) == ["enqueue", "claim", "fail", "claim", "fail"]


async def test_a_passing_failure_of_the_last_attempt_is_the_end(bench: Bench, owner: User, clock: ManualClock) -> None:
    """With the code of the failure, after exactly as many attempts as the policy grants."""
    job = await bench.enqueue(owner)
    for _ in range(bench.policies.retry.max_attempts - 1):
        assert (await bench.fail(await bench.claim())).status is JobStatus.QUEUED
        clock.advance(timedelta(minutes=2))
    ended = await bench.fail(await bench.claim())
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.INTERNAL_ERROR)
    assert (await bench.job(job.id)).attempt_count == 3


async def test_a_failure_of_the_environment_uses_no_budget(bench: Bench, owner: User, clock: ManualClock) -> None:
    """However often the disk is full, the export is tried again until its deadline, and the number still goes up."""
    await bench.enqueue(owner)
    for attempt in range(1, 9):
        holder = await bench.claim()
        assert holder.attempt == attempt
        job = await bench.fail(holder, ENVIRONMENT)
        assert (job.status, job.excused_count) == (JobStatus.QUEUED, attempt)
        assert job.last_error_code is None
        clock.advance(timedelta(minutes=2))


async def test_a_permanent_failure_is_the_end_at_once(bench: Bench, owner: User) -> None:
    """No other try, and the code is kept."""
    await bench.enqueue(owner)
    ended = await bench.fail(await bench.claim(), PERMANENT)
    assert (ended.status, ended.last_error_code, ended.attempt_count) == (
        JobStatus.FAILED,
        ErrorCode.RESULT_TOO_LARGE,
        1,
    )
    assert await bench.try_to_claim() is None


@pytest.mark.parametrize("failure", [TRANSIENT, ENVIRONMENT])
async def test_a_failure_whose_next_try_would_be_too_late_is_the_end(
    bench: Bench, owner: User, clock: ManualClock, failure: Failure
) -> None:
    """The next try would be done at the deadline: `deadline_exceeded` now, and nobody waits for it."""
    await bench.enqueue(owner, deadline_seconds=30)
    holder = await bench.claim()
    # Two seconds of backoff and one of work are left.
    clock.advance(timedelta(seconds=27))
    ended = await bench.fail(holder, failure)
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)


@pytest.mark.parametrize("failure", [TRANSIENT, ENVIRONMENT])
async def test_a_failure_whose_next_try_can_be_done_in_time_is_not_the_end(
    bench: Bench, owner: User, clock: ManualClock, failure: Failure
) -> None:
    """A millisecond more than backoff and work need is enough for another try."""
    await bench.enqueue(owner, deadline_seconds=30)
    holder = await bench.claim()
    clock.advance(timedelta(seconds=27) - timedelta(milliseconds=1))
    assert (await bench.fail(holder, failure)).status is JobStatus.QUEUED


async def test_what_an_attempt_died_of_is_kept_for_operators(bench: Bench, owner: User) -> None:
    """The history has worker, number, code and the class of the error; the text of an error is nowhere."""
    job = await bench.enqueue(owner)
    failure = classify(ZeroDivisionError("task text that must not be kept"))
    await bench.fail(await bench.claim("worker-7"), failure)
    history = await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(job.id))
    last = history[-1]
    assert (last.event, last.worker_id, last.attempt, last.code) == ("fail", "worker-7", 1, "internal_error")
    assert (last.detail, last.error_class) == ("transient", "ZeroDivisionError")
    assert last.fingerprint == failure.fingerprint


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (StoreFull("x"), FailureKind.ENVIRONMENT, None),
        (EnvironmentFailure("x"), FailureKind.ENVIRONMENT, None),
        (ResultTooLarge("x"), FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE),
        (OwnershipViolation("x"), FailureKind.PERMANENT, ErrorCode.OWNERSHIP_VIOLATION),
        (MemoryError(), FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR),
    ],
)
async def test_the_class_of_an_error_decides_about_the_next_try(
    bench: Bench, owner: User, error: Exception, kind: FailureKind, code: ErrorCode | None
) -> None:
    """The surroundings excuse, a permanent cause ends, and a defect is tried again."""
    failure = classify(error)
    assert (failure.kind, failure.code) == (kind, code)
    await bench.enqueue(owner)
    job = await bench.fail(await bench.claim(), failure)
    assert job.status is (JobStatus.FAILED if kind is FailureKind.PERMANENT else JobStatus.QUEUED)
    assert job.excused_count == (kind is FailureKind.ENVIRONMENT)


async def test_a_released_export_is_there_for_the_next_worker_at_once(bench: Bench, owner: User) -> None:
    """Without delay and without cost: the attempt is counted and excused."""
    job = await bench.enqueue(owner)
    freed = await bench.release(await bench.claim())
    assert (freed.status, freed.available_at, freed.attempt_count, freed.excused_count) == (
        JobStatus.QUEUED,
        START,
        1,
        1,
    )
    assert await work_is_there(bench)
    again = await bench.claim("worker-2")
    assert (again.job_id, again.attempt) == (job.id, 2)


# ── Sweeping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_sweep_takes_the_bytes_of_lost_attempts_and_no_others(
    bench: Bench, database: Path, owner: User, clock: ManualClock
) -> None:
    """A lost attempt's go; those of the attempt that runs now and of a readable result stay."""
    result = await bench.succeed(owner, "done")
    await bench.enqueue(owner, "running")
    await bench.stage(await bench.claim())
    clock.advance(LEASE)
    current = await bench.claim()
    await bench.stage(current)
    assert await bench.sweep() > 0
    kept = {(row[0], row[1]) for row in contents(database)["export_result_chunks"]}
    assert kept == {(result.id, 1), (current.job_id, 2)}
    await bench.complete(current)
    assert await bench.sweep() == 0
    assert len(contents(database)["export_result_chunks"]) == 2 * len(CHUNKS)


async def test_progress_of_a_lost_attempt_is_not_shown_for_the_next(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """Each attempt begins at nothing."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder)
    clock.advance(LEASE)
    second = await bench.claim()
    progress = await bench.store.read(
        Bulkhead.EXPORTS, lambda uow: uow.result_store.progress(Attempt(second.job_id, second.attempt))
    )
    assert progress is None


async def test_a_shorter_lease_policy_cuts_no_lease_that_was_granted(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """A process with other settings judges by the instant that was granted, as long as any process may grant it."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    clock.advance(timedelta(seconds=30))
    short = replace(bench.policies.lease, lease=timedelta(seconds=1))
    assert await bench.store.read(Bulkhead.OPERATIONS, still_holds, holder, lease=short)
