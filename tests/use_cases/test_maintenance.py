"""Maintenance: one holder at a time, nothing before its time, nothing by a stale holder, nothing left at last."""

from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.errors import ChunkDamaged, NotFound, NotMaintaining, ResultGone
from domain.export import ErrorCode, ExportJob, GoneReason, JobStatus, LeaseToken
from domain.instants import later
from domain.maintenance import MaintenanceGrant
from domain.ports import Bulkhead, KeyedOutcome, UnitOfWork
from domain.use_cases.exports import delete_result, get_export, open_result, read_chunk
from domain.use_cases.imports import begin_import, publish_import, store_batch
from domain.use_cases.maintenance import ABANDONED_AFTER, MAINTENANCE, Chore, maintain, maintenance_is_free
from tests.builders import a_new_task, an_id, chunks_of
from tests.fakes import START, ManualClock
from tests.use_cases.bench import CHUNKS, Bench, contents

LEASE: Final = timedelta(minutes=1)
MILLISECOND: Final = timedelta(milliseconds=1)
AGES: Final = timedelta(days=400)


async def is_free(bench: Bench) -> bool:
    """Tell whether anyone could take the lease."""
    return await bench.store.read(Bulkhead.OPERATIONS, maintenance_is_free, policy=bench.policies.maintenance)


async def do_everything(bench: Bench) -> dict[Chore, int]:
    """Do every chore until none has any more to do; return how much each had."""
    done = dict.fromkeys(Chore, 0)
    while True:
        counts = {chore: await bench.maintain(chore) for chore in Chore}
        if not any(counts.values()):
            return done
        done = {chore: done[chore] + counts[chore] for chore in Chore}


async def begin_to_import(store: SqliteStore, owner: User, count: int, *, first: int = 1) -> int:
    """Store tasks of an import that is not published; return its number."""
    number = await store.write(begin_import, owner.id)
    rows: list[Any] = [(an_id(first + row), a_new_task()) for row in range(count)]
    await store.write(store_batch, owner.id, number, rows)
    return number


def keyed(owner: User, key: str) -> KeyedOutcome:
    """Return what a request with a key came to."""
    return KeyedOutcome(owner.id, "POST /v1/tasks", key, "0" * 64, "task-1", "{}")


@pytest.fixture
async def work_for_each_chore(bench: Bench, store: SqliteStore, owner: User, clock: ManualClock) -> None:
    """Something of every kind that a long time makes ripe: forgotten after a while, expired, lost, abandoned, free."""
    await bench.cancel(owner, (await bench.enqueue(owner, "ended")).id)
    await bench.succeed(owner, "succeeded")
    deleted = await bench.succeed(owner, "deleted")
    await store.write(delete_result, owner.id, deleted.id)
    await bench.enqueue(owner, "never claimed")
    await begin_to_import(store, owner, 3)
    await store.write(lambda uow: uow.idempotency_keys.add(keyed(owner, "key")))
    clock.advance(AGES)


# ── One holder ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_worker_maintains_at_a_time(bench: Bench, clock: ManualClock) -> None:
    """Who asks while the lease is live gets nothing; once it is over, to the millisecond, the next number."""
    assert await is_free(bench)
    first = await bench.take_maintenance("worker-1")
    assert first is not None
    for pause in (timedelta(), LEASE - MILLISECOND):
        clock.advance(pause)
        assert not await is_free(bench)
        assert await bench.take_maintenance("worker-1") is None
        assert await bench.take_maintenance("worker-2") is None
    clock.advance(MILLISECOND)
    assert await is_free(bench)
    second = await bench.take_maintenance("worker-2")
    assert second is not None
    assert (first.number, second.number, second.worker_id) == (1, 2, "worker-2")
    assert first.lease_token != second.lease_token


async def test_a_clock_that_was_set_back_freezes_no_lease(bench: Bench, clock: ManualClock) -> None:
    """A lease that seems to last for longer than any lease may is free, and its holder may not write."""
    grant = await bench.take_maintenance()
    clock.step(-timedelta(hours=1))
    with pytest.raises(NotMaintaining):
        await bench.maintain(Chore.SWEEP_CHUNKS, grant)
    assert await bench.take_maintenance("worker-2") is not None


@pytest.mark.usefixtures("work_for_each_chore")
@pytest.mark.parametrize("chore", Chore)
async def test_a_stale_holder_can_change_nothing(
    bench: Bench, database: Path, clock: ManualClock, chore: Chore
) -> None:
    """Once its lease is over, also when nobody else has it yet, and least of all when another worker has."""
    for _ in range(2):
        for earlier in Chore:
            if earlier is not chore:
                await bench.maintain(earlier)
    clock.advance(LEASE)
    stale = await bench.take_maintenance("worker-1")
    assert stale is not None
    clock.advance(LEASE)
    before = contents(database)
    with pytest.raises(NotMaintaining):
        await bench.maintain(chore, stale)
    assert contents(database) == before
    successor = await bench.take_maintenance("worker-2")
    assert successor is not None
    before = contents(database)
    forged: list[MaintenanceGrant] = [
        stale,
        replace(stale, number=successor.number),
        replace(successor, number=stale.number),
        replace(successor, lease_token=LeaseToken("guessed")),
    ]
    for presented in forged:
        with pytest.raises(NotMaintaining):
            await bench.maintain(chore, presented)
        assert contents(database) == before


@pytest.mark.usefixtures("work_for_each_chore")
async def test_nothing_is_over_that_was_not_over_by_a_clock_that_was_checked(
    bench: Bench, database: Path, clock: ManualClock
) -> None:
    """A wall clock that jumps ahead between the check and the transaction makes nothing expire and deletes nothing."""
    clock.step(-AGES)
    checked = clock.now()
    clock.step(AGES)
    grant = await bench.take_maintenance()
    assert grant is not None
    before = contents(database)
    for chore in set(Chore) - {Chore.SWEEP_CHUNKS, Chore.GIVE_BACK_PAGES}:
        count = await bench.store.write(maintain, grant, chore, as_of=checked, policies=bench.policies)
        assert (chore, count) == (chore, 0)
    assert contents(database) == before


@pytest.mark.usefixtures("work_for_each_chore")
async def test_in_the_end_nothing_is_left_of_what_is_over(bench: Bench, database: Path, clock: ManualClock) -> None:
    """Rows, history, results, chunks, hidden tasks and keys are gone, and every chore that deletes had its part."""
    first = await do_everything(bench)
    clock.advance(AGES)
    second = await do_everything(bench)
    left = contents(database)
    for table in (
        "export_jobs",
        "export_events",
        "export_results",
        "export_result_chunks",
        "unpublished_attempts",
        "open_imports",
        "tasks",
        "idempotency_keys",
    ):
        assert (table, left[table]) == (table, [])
    idle = {chore for chore in Chore if not first[chore] + second[chore]}
    assert idle <= {Chore.GIVE_BACK_PAGES}
    assert first[Chore.FORGET_EXPORTS] + second[Chore.FORGET_EXPORTS] == 4


# ── Exports that can never succeed ────────────────────────────────────────────────────────────────────────────────────


async def test_an_export_that_waits_past_its_deadline_ends(bench: Bench, owner: User, clock: ManualClock) -> None:
    """Not a millisecond before; whether it waits in line or in backoff, and though no claim ever met it."""
    waiting = await bench.enqueue(owner, "waiting")
    backing_off = await bench.enqueue(owner, "backing off")
    claimed = await bench.claim()
    assert claimed.job_id == waiting.id
    await bench.fail(claimed)
    clock.advance(bench.policies.deadline.default - MILLISECOND)
    assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 0
    clock.advance(MILLISECOND)
    assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 2
    for job in (waiting, backing_off):
        ended = await bench.job(job.id)
        assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)
        assert (await bench.events(job.id))[-1] == "expire"
    assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 0
    assert await bench.try_to_claim() is None
    following = await bench.enqueue(owner, "following")
    assert (await bench.claim()).job_id == following.id


async def test_an_export_whose_last_attempt_was_lost_ends(bench: Bench, owner: User, clock: ManualClock) -> None:
    """Once that attempt's lease is over, to the millisecond, with the code of a job without attempts."""
    job = await bench.enqueue(owner)
    for _ in range(bench.policies.retry.max_attempts - 1):
        await bench.claim()
        clock.advance(LEASE)
        assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 0
    await bench.claim()
    clock.advance(LEASE - MILLISECOND)
    assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 0
    clock.advance(MILLISECOND)
    assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 1
    ended = await bench.job(job.id)
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED)


async def test_an_export_that_is_late_and_lost_ends_once(bench: Bench, owner: User, clock: ManualClock) -> None:
    """Found twice, it is ended once, as late."""
    job = await bench.enqueue(owner)
    for _ in range(bench.policies.retry.max_attempts):
        await bench.claim()
        clock.advance(LEASE)
    clock.advance(bench.policies.deadline.default)
    assert await bench.maintain(Chore.EXPIRE_EXPORTS) == 1
    assert (await bench.job(job.id)).last_error_code is ErrorCode.DEADLINE_EXCEEDED


async def test_what_can_still_succeed_is_left_alone(
    bench: Bench, database: Path, owner: User, clock: ManualClock
) -> None:
    """A waiting export, one in its first attempt, one whose attempt was lost and can be claimed, one that ended."""
    await bench.enqueue(owner, "lost")
    await bench.claim()
    clock.advance(LEASE)
    await bench.succeed(owner, "succeeded")
    await bench.enqueue(owner, "running")
    await bench.claim()
    await bench.enqueue(owner, "waiting")
    assert await bench.take_maintenance() is not None
    before = contents(database)
    for chore in Chore:
        if chore is not Chore.GIVE_BACK_PAGES:
            assert (chore, await bench.maintain(chore, await last_grant(bench))) == (chore, 0)
    assert contents(database) == before


async def last_grant(bench: Bench) -> MaintenanceGrant:
    """Return the grant in force."""
    grant = await bench.store.read(Bulkhead.OPERATIONS, lambda uow: uow.maintenance.last())
    assert grant is not None
    return grant


async def test_one_transaction_ends_a_bounded_number(bench: Bench, owner: User, clock: ManualClock) -> None:
    """The rest waits for the next one."""
    for number in range(70):
        await bench.enqueue(owner, f"key-{number}")
    clock.advance(bench.policies.deadline.default)
    counts = [await bench.maintain(Chore.EXPIRE_EXPORTS) for _ in range(4)]
    assert counts == [32, 32, 6, 0]


# ── Results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def succeeded(bench: Bench, owner: User) -> ExportJob:
    """An export with a result that can be read for a week."""
    return await bench.succeed(owner)


async def test_a_result_is_readable_until_it_expires_and_gone_from_then_on(
    bench: Bench, owner: User, clock: ManualClock, succeeded: ExportJob
) -> None:
    """To the millisecond, whatever maintenance does; what it records is since when, not when it came by."""
    expires_at = later(START, bench.policies.result.retention)
    clock.advance(bench.policies.result.retention - MILLISECOND)
    await do_everything(bench)
    result = await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, succeeded.id)
    for seq, chunk in enumerate(CHUNKS):
        assert await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq) == chunk
    assert (await bench.job(succeeded.id)).version == succeeded.version
    clock.advance(MILLISECOND)
    for _ in range(2):
        with pytest.raises(ResultGone) as refusal:
            await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, succeeded.id)
        assert (refusal.value.reason, refusal.value.at) == (GoneReason.EXPIRED, expires_at)
        clock.advance(timedelta(seconds=10))
        await bench.maintain(Chore.EXPIRE_RESULTS)
    view = await bench.store.read(Bulkhead.EXPORTS, get_export, owner.id, succeeded.id)
    assert (view.job.status, view.job.version) == (JobStatus.SUCCEEDED, succeeded.version + 1)
    history = await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(succeeded.id))
    assert (history[-1].event, history[-1].actor, history[-1].reason) == ("remove_result", MAINTENANCE, "expired")


async def test_a_download_that_began_in_time_has_its_time(
    bench: Bench, owner: User, clock: ManualClock, succeeded: ExportJob
) -> None:
    """Every chunk can be read until the download time is over, to the millisecond; then they go."""
    clock.advance(bench.policies.result.retention - MILLISECOND)
    result = await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, succeeded.id)
    clock.advance(MILLISECOND)
    assert (await do_everything(bench))[Chore.EXPIRE_RESULTS] == 1
    clock.advance(bench.policies.maintenance.download - MILLISECOND)
    await do_everything(bench)
    for seq, chunk in enumerate(CHUNKS):
        assert await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq) == chunk
    clock.advance(MILLISECOND)
    assert (await do_everything(bench))[Chore.SWEEP_CHUNKS] > 0
    for seq in range(len(CHUNKS)):
        with pytest.raises(ChunkDamaged):
            await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq)


async def test_a_result_that_was_deleted_does_not_expire(
    bench: Bench, owner: User, clock: ManualClock, succeeded: ExportJob
) -> None:
    """It is gone since it was deleted, and its history tells nothing else."""
    await bench.store.write(delete_result, owner.id, succeeded.id)
    clock.advance(bench.policies.result.retention)
    assert (await do_everything(bench))[Chore.EXPIRE_RESULTS] == 0
    with pytest.raises(ResultGone) as refusal:
        await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, succeeded.id)
    assert (refusal.value.reason, refusal.value.at) == (GoneReason.DELETED, START)


async def test_a_result_that_expired_can_be_deleted_while_its_bytes_are_there(
    bench: Bench, database: Path, owner: User, clock: ManualClock, succeeded: ExportJob
) -> None:
    """Once: then it is deleted, its bytes go at once, and no download is waited for. Without bytes it is refused."""
    deleted_at = clock.advance(bench.policies.result.retention)
    other = await bench.succeed(owner, "other")
    assert (await do_everything(bench))[Chore.EXPIRE_RESULTS] == 1
    await bench.store.write(delete_result, owner.id, succeeded.id)
    assert (await do_everything(bench))[Chore.SWEEP_CHUNKS] == 1
    for verb in (open_result, delete_result):
        with pytest.raises(ResultGone) as refusal:
            await bench.store.write(verb, owner.id, succeeded.id)
        assert (refusal.value.reason, refusal.value.at) == (GoneReason.DELETED, deleted_at)
    expired_at = clock.advance(bench.policies.result.retention)
    clock.advance(bench.policies.maintenance.download)
    await do_everything(bench)
    before = contents(database)
    with pytest.raises(ResultGone) as refusal:
        await bench.store.write(delete_result, owner.id, other.id)
    assert (refusal.value.reason, refusal.value.at) == (GoneReason.EXPIRED, expired_at)
    assert contents(database) == before


# ── Sweeping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_sweep_takes_a_bounded_number_of_chunks(bench: Bench, database: Path, owner: User) -> None:
    """None of the attempt that runs; then a few at a time, until nothing is left."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder, chunks_of(*(f"{number}\r\n" for number in range(40))))
    assert await bench.maintain(Chore.SWEEP_CHUNKS) == 0
    await bench.release(holder)
    left = []
    for _ in range(4):
        count = await bench.maintain(Chore.SWEEP_CHUNKS)
        left.append((len(contents(database)["export_result_chunks"]), count))
    assert left == [(24, 1), (8, 1), (0, 1), (0, 0)]


async def test_abandoned_imports_are_taken_back_in_batches(
    bench: Bench, store: SqliteStore, database: Path, owner: User, clock: ManualClock
) -> None:
    """After their time and not before; what is published, or under way since less than that, stays."""
    published = await begin_to_import(store, owner, 2)
    await store.write(publish_import, owner.id, published, keyed=None)
    await begin_to_import(store, owner, 600, first=11)
    clock.advance(ABANDONED_AFTER)
    assert await bench.maintain(Chore.SWEEP_IMPORTS) == 0
    clock.advance(MILLISECOND)
    under_way = await begin_to_import(store, owner, 3, first=1011)
    left = []
    for _ in range(3):
        count = await bench.maintain(Chore.SWEEP_IMPORTS)
        left.append((len(contents(database)["tasks"]), count))
    assert left == [(105, 1), (5, 1), (5, 0)]
    await store.write(publish_import, owner.id, under_way, keyed=None)


async def test_an_import_that_is_taken_back_too_early_is_refused_and_never_shown_by_half(
    bench: Bench, store: SqliteStore, database: Path, owner: User, clock: ManualClock
) -> None:
    """Its process may live still: neither its next batch nor its publishing succeeds."""
    number = await begin_to_import(store, owner, 600)
    clock.advance(ABANDONED_AFTER + MILLISECOND)
    assert await bench.maintain(Chore.SWEEP_IMPORTS)
    rows: list[Any] = [(an_id(999), a_new_task())]
    with pytest.raises(NotFound):
        await store.write(store_batch, owner.id, number, rows)
    with pytest.raises(NotFound):
        await store.write(publish_import, owner.id, number, keyed=None)
    assert len(contents(database)["open_imports"]) == 1


# ── Retention ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_export_is_forgotten_at_its_retention(bench: Bench, owner: User, clock: ManualClock) -> None:
    """Counted from its end, to the millisecond, however it ended; its key then makes a new export."""
    jobs = [
        await bench.succeed(owner, "succeeded"),
        await bench.bring(owner, await bench.enqueue(owner, "failed"), JobStatus.FAILED),
        await bench.bring(owner, await bench.enqueue(owner, "cancelled"), JobStatus.CANCELLED),
    ]
    clock.advance(bench.policies.maintenance.retention - MILLISECOND)
    done = await do_everything(bench)
    assert (done[Chore.FORGET_EXPORTS], done[Chore.EXPIRE_RESULTS]) == (0, 1)
    clock.advance(MILLISECOND)
    assert (await do_everything(bench))[Chore.FORGET_EXPORTS] == len(jobs)
    for job in jobs:
        with pytest.raises(NotFound):
            await bench.store.read(Bulkhead.EXPORTS, get_export, owner.id, job.id)
        assert await bench.events(job.id) == []
        again = await bench.enqueue(owner, job.request_key)
        assert again.id != job.id


async def test_a_row_outlasts_its_result_whatever_the_settings_say(
    bench: Bench, owner: User, clock: ManualClock
) -> None:
    """A result that was promised for longer than rows are kept now can be read until then, and downloaded."""
    job = await bench.succeed(owner)
    bench.policies = replace(
        bench.policies, maintenance=replace(bench.policies.maintenance, retention=timedelta(seconds=1))
    )
    clock.advance(bench.policies.result.retention - MILLISECOND)
    await do_everything(bench)
    result = await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
    clock.advance(bench.policies.maintenance.download)
    await do_everything(bench)
    assert await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, 0) == CHUNKS[0]
    clock.advance(MILLISECOND)
    await do_everything(bench)
    with pytest.raises(NotFound):
        await bench.store.read(Bulkhead.EXPORTS, get_export, owner.id, job.id)


async def test_a_key_is_known_until_its_retention(
    bench: Bench, store: SqliteStore, database: Path, owner: User, clock: ManualClock
) -> None:
    """To the millisecond, and a younger one stays."""
    await store.write(lambda uow: uow.idempotency_keys.add(keyed(owner, "old")))
    clock.advance(MILLISECOND)
    await store.write(lambda uow: uow.idempotency_keys.add(keyed(owner, "young")))
    clock.advance(bench.policies.maintenance.retention - 2 * MILLISECOND)
    assert await bench.maintain(Chore.FORGET_KEYS) == 0
    clock.advance(MILLISECOND)
    assert await bench.maintain(Chore.FORGET_KEYS) == 1
    assert [row[2] for row in contents(database)["idempotency_keys"]] == ["young"]


async def test_keys_are_forgotten_a_bounded_number_at_a_time(
    bench: Bench, store: SqliteStore, owner: User, clock: ManualClock
) -> None:
    """The rest waits for the next transaction."""

    def keep_many(uow: UnitOfWork) -> None:
        for number in range(700):
            uow.idempotency_keys.add(keyed(owner, f"key-{number}"))

    await store.write(keep_many)
    clock.advance(AGES)
    assert [await bench.maintain(Chore.FORGET_KEYS) for _ in range(3)] == [500, 200, 0]


# ── The place on the disk ─────────────────────────────────────────────────────────────────────────────────────────────


def size_of(database: Path) -> int:
    """Return how many bytes the file has."""
    return database.stat().st_size


async def test_the_file_comes_back_to_its_size_after_a_burst_expired(
    bench: Bench, store: SqliteStore, database: Path, owner: User, clock: ManualClock
) -> None:
    """Within a tenth of what it was, once the results' download time is over and the log was checkpointed."""
    await begin_to_import(store, owner, 500)
    noise = "".join(sha256(f"{number}".encode()).hexdigest() for number in range(5000))
    await bench.succeed(owner, "one that stays until the end")
    await store.checkpoint()
    before = size_of(database)
    for number in range(20):
        await bench.enqueue(owner, f"burst-{number}")
        holder = await bench.claim()
        chunks = chunks_of(*[noise] * 3)
        await bench.stage(holder, chunks)
        await bench.complete(holder, chunks)
    await store.checkpoint()
    assert size_of(database) > 10 * before
    clock.advance(bench.policies.result.retention)
    await do_everything(bench)
    await store.checkpoint()
    assert size_of(database) > 10 * before
    clock.advance(bench.policies.maintenance.download)
    done = await do_everything(bench)
    await store.checkpoint()
    assert done[Chore.GIVE_BACK_PAGES] > 0
    assert size_of(database) <= 1.1 * before
