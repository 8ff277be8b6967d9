"""Which new exports are accepted, on the real store: in which order, never one too many, and with nothing lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.errors import (
    IdempotencyConflict,
    InvalidInput,
    LimitReached,
    QueueFull,
    QueueTooOld,
    QuotaExceeded,
    StorageBudgetReached,
)
from domain.export import Chunk, ExportJob, JobId, JobStatus
from domain.policies import Policies
from domain.ports import Bulkhead
from domain.task import TaskId
from domain.use_cases.exports import delete_result, enqueue_export, open_result, read_chunk, watch_export
from domain.use_cases.tasks import create_task
from tests.builders import a_new_task, an_export_request, an_id, chunks_of
from tests.fakes import ManualClock, SequentialRandomness
from tests.use_cases.bench import PERMANENT, Bench, contents

SECOND: Final = timedelta(seconds=1)


def limited(bench: Bench, **limits: object) -> Bench:
    """Return the same bench under other limits."""
    bench.policies = replace(bench.policies, admission=replace(bench.policies.admission, **limits))
    return bench


# ── The order of decisions ────────────────────────────────────────────────────────────────────────────────────────────

EVERYTHING_REACHED: Final[dict[str, object]] = {
    "max_pending": 1,
    "oldest_age": timedelta(milliseconds=1),
    "max_database_bytes": 1,
    "min_free_bytes": 1 << 62,
    "active_per_owner": 1,
}


async def test_what_was_accepted_is_answered_when_every_limit_is_reached(
    bench: Bench, database: Path, clock: ManualClock, owner: User
) -> None:
    """A replay is a replay and a conflict a conflict, with nothing written; only a new key meets the limits."""
    job = await bench.enqueue(owner)
    clock.advance(SECOND)
    limited(bench, **EVERYTHING_REACHED)
    before = contents(database)
    assert (await bench.enqueue(owner)).id == job.id
    with pytest.raises(IdempotencyConflict):
        await bench.enqueue(owner, timezone="Asia/Tokyo")
    with pytest.raises(QuotaExceeded):
        await bench.enqueue(owner, "key-2")
    assert contents(database) == before


async def test_what_cannot_be_meant_is_told_before_any_limit(bench: Bench, owner: User) -> None:
    """A request that would never be accepted is not sent away to come back."""
    limited(bench, **EVERYTHING_REACHED)
    with pytest.raises(InvalidInput):
        await bench.enqueue(owner, deadline_seconds=1)
    with pytest.raises(InvalidInput):
        await bench.enqueue(owner, columns=())


async def test_an_owners_own_limit_is_told_before_everybodys(bench: Bench, owner: User, neighbour: User) -> None:
    """It is the one that the owner can do something about; everybody else meets the queue's."""
    await bench.enqueue(owner)
    limited(bench, active_per_owner=1, max_pending=1)
    with pytest.raises(QuotaExceeded):
        await bench.enqueue(owner, "key-2")
    with pytest.raises(QueueFull):
        await bench.enqueue(neighbour)


@pytest.mark.parametrize("status", JobStatus)
async def test_an_owner_may_have_another_once_one_has_ended(bench: Bench, owner: User, status: JobStatus) -> None:
    """Queued and running exports count; an end of any kind makes room."""
    limited(bench, active_per_owner=1)
    job = await bench.enqueue(owner)
    await bench.bring(owner, job, status)
    if status.is_terminal:
        await bench.enqueue(owner, "key-2")
    else:
        with pytest.raises(QuotaExceeded):
            await bench.enqueue(owner, "key-2")


async def test_a_refused_key_is_free(bench: Bench, owner: User) -> None:
    """The same key makes an export once there is room."""
    limited(bench, max_pending=1)
    await bench.enqueue(owner)
    with pytest.raises(QueueFull):
        await bench.enqueue(owner, "key-2")
    await bench.claim()
    assert (await bench.enqueue(owner, "key-2")).status is JobStatus.QUEUED


async def test_exports_that_wait_for_too_long_keep_new_ones_out(
    bench: Bench, clock: ManualClock, owner: User, neighbour: User
) -> None:
    """To the millisecond, and until the oldest of them is taken."""
    limited(bench, oldest_age=60 * SECOND)
    await bench.enqueue(owner)
    clock.advance(60 * SECOND)
    await bench.enqueue(neighbour)
    clock.advance(timedelta(milliseconds=1))
    with pytest.raises(QueueTooOld):
        await bench.enqueue(neighbour, "key-2")
    await bench.claim()
    await bench.enqueue(neighbour, "key-2")


# ── Never one too many ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def processes(
    database: Path, clock: ManualClock, randomness: SequentialRandomness
) -> AsyncIterator[list[SqliteStore]]:
    """Four stores on one database: each has a connection and a thread of its own, as a process has."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                SqliteStore.open(
                    database,
                    clock=clock,
                    randomness=randomness,
                    read_connections=1,
                    write_wait_seconds=1000,
                    read_wait_seconds=5,
                )
            )
            for _ in range(4)
        ]


class Crowd(NamedTuple):
    """Limits under which 200 requests come at once, how many are accepted, and what the others are told."""

    limits: dict[str, object]
    accepted: int
    refusal: type[LimitReached]


@pytest.mark.parametrize(
    "crowd",
    [
        Crowd({"max_pending": 30}, 30, QueueFull),
        Crowd({"active_per_owner": 7}, 7, QuotaExceeded),
        Crowd({"max_pending": 30, "active_per_owner": 7}, 7, QuotaExceeded),
    ],
)
async def test_two_hundred_requests_at_once_overshoot_no_limit(
    processes: list[SqliteStore], database: Path, policies: Policies, owner: User, crowd: Crowd
) -> None:
    """Through four processes at the same time exactly as many are accepted as the limit says; all others are told."""
    policies = replace(policies, admission=replace(policies.admission, **crowd.limits))
    answers = await asyncio.gather(
        *(
            processes[number % 4].write(enqueue_export, an_export_request(owner.id, number), policies=policies)
            for number in range(200)
        ),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert {type(answer) for answer in refused} == {crowd.refusal}
    assert len(answers) - len(refused) == crowd.accepted == len(contents(database)["export_jobs"])


async def fill(bench: Bench, owner: User, chunks: list[Chunk], jobs: list[ExportJob]) -> None:
    """Ask for exports and complete each with the same file, until one is refused."""
    for number in range(100):
        jobs.append(await bench.enqueue(owner, f"key-{number}"))
        holder = await bench.claim()
        await bench.stage(holder, chunks)
        await bench.complete(holder, chunks)


async def test_a_storage_budget_that_fills_loses_nothing_and_stops_no_tasks(
    bench: Bench, clock: ManualClock, owner: User
) -> None:
    """What was accepted is finished and can be read; tasks go on; deleting a result makes room again."""
    used = await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.storage.usage())
    limited(bench, max_database_bytes=used.database_bytes + 400_000)
    # Ids of many kinds, so that the file stays large when it is compressed.
    chunks = chunks_of("".join(sha256(an_id(number).encode()).hexdigest() for number in range(3000)))
    jobs: list[ExportJob] = []
    with pytest.raises(StorageBudgetReached) as refusal:
        await fill(bench, owner, chunks, jobs)
    assert refusal.value.retry_after == timedelta(minutes=1)
    assert len(jobs) > 1
    for job in jobs:
        result = await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
        assert await bench.store.read(Bulkhead.EXPORTS, read_chunk, result, 0) == chunks[0]
    await bench.store.write(create_task, owner.id, a_new_task(), task_id=TaskId(an_id(7)))
    await bench.store.write(delete_result, owner.id, jobs[0].id)
    clock.advance(timedelta(minutes=1))
    await bench.sweep()
    await bench.enqueue(owner, "once more")


# ── When to look again ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_owner_is_told_to_look_again_when_what_waits_is_done(
    bench: Bench, clock: ManualClock, owner: User, policies: Policies
) -> None:
    """By how many wait and how fast they were done of late; never for what has ended."""
    for number in range(13):
        await bench.enqueue(owner, f"key-{number}")
    for _ in range(6):
        clock.advance(SECOND)
        await bench.fail(await bench.claim(), PERMANENT)
    request = an_export_request(owner.id, 77)
    made = await bench.store.write(enqueue_export, request, policies=policies)
    # Six were done in a minute: each takes ten seconds, and seven wait beside this one; nobody is to wait so long.
    assert made.look_again_after == timedelta(seconds=15)
    ended = made.view.job.id
    await bench.cancel(owner, ended)
    assert await look_again(bench, owner, ended) is None
    running = (await bench.claim()).job_id
    assert await look_again(bench, owner, running) == timedelta(seconds=1.5)


async def look_again(bench: Bench, owner: User, job_id: JobId) -> timedelta | None:
    """Return when the owner is to look at the export again."""
    watched = await bench.store.read(Bulkhead.EXPORTS, watch_export, owner.id, job_id, policies=bench.policies)
    return watched.look_again_after
