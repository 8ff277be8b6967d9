"""`ExportLoad` and `Storage`: what waits, how fast it is done, and how much room there is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

import pytest

from domain.account import User
from domain.admission import Drained
from domain.events import Cancel, Claim, Event, Fail
from domain.export import Failure, FailureKind, JobId, LeaseToken
from domain.instants import Instant, later
from domain.lifecycle import advance
from domain.ports import Attempt, Bulkhead, ExportLoad, ResultStore, StorageUsage, Store, UnitOfWork
from tests.adapters.conformance.steps import save_all
from tests.builders import an_enqueue, an_id, chunks_of
from tests.fakes import START, ManualClock

T = TypeVar("T")

SECOND: Final = timedelta(seconds=1)
LEASE: Final = timedelta(minutes=1)
TOKEN: Final = LeaseToken("the-lease-token")


async def ask(store: Store, question: Callable[[ExportLoad], T]) -> T:
    """Ask one question of the load, as a transaction that writes does."""
    return await store.write(lambda uow: question(uow.load))


def claiming(now: Instant) -> Event:
    """Return a claim for a minute."""
    return Claim(now=now, worker_id="worker-1", lease_token=TOKEN, lease=LEASE, longest_lease=LEASE)


def failing(kind: FailureKind) -> Callable[[Instant], Event]:
    """Return a failure that is tried again after ten seconds, if at all."""
    return lambda now: Fail(
        now=now,
        lease_token=TOKEN,
        longest_lease=LEASE,
        failure=Failure(kind, None, "Whatever"),
        retry_at=later(now, 10 * SECOND),
        retry_ends_at=later(now, 11 * SECOND),
    )


def cancelling(now: Instant) -> Event:
    """Return the end that an owner wants."""
    return Cancel(now=now, actor="owner")


def happen(uow: UnitOfWork, number: int, *events: Callable[[Instant], Event]) -> None:
    """Let things happen to a job now."""
    for event in events:
        job = uow.exports.get(JobId(an_id(number)))
        assert job is not None
        uow.exports.save(advance(job, event(uow.now)))


async def enqueue(store: Store, owner: User, *numbers: int, at: Instant = START) -> None:
    """Enqueue jobs of the owner."""
    await store.write(save_all, *(an_enqueue(owner.id, number, now=at) for number in numbers))


async def test_what_waits_is_counted_up_to_the_limit(store: Store, owner: User, neighbour: User) -> None:
    """Of all owners, in backoff or not; what runs or has ended does not wait."""
    assert await ask(store, lambda load: load.pending(most=10)) == 0
    await enqueue(store, owner, 1, 2, 3)
    await enqueue(store, neighbour, 4, 5)
    await store.write(happen, 1, claiming)
    await store.write(happen, 2, claiming, failing(FailureKind.ENVIRONMENT))
    await store.write(happen, 3, cancelling)
    assert await ask(store, lambda load: load.pending(most=10)) == 3
    assert await ask(store, lambda load: [load.pending(most=most) for most in (1, 2, 3)]) == [1, 2, 3]


async def test_an_owners_active_exports_are_counted_up_to_the_limit(store: Store, owner: User, neighbour: User) -> None:
    """Queued and running ones of this owner; what has ended is not active."""
    await enqueue(store, owner, 1, 2, 3, 4)
    await enqueue(store, neighbour, 5)
    await store.write(happen, 1, claiming)
    await store.write(happen, 2, claiming, failing(FailureKind.ENVIRONMENT))
    await store.write(happen, 3, cancelling)
    assert await ask(store, lambda load: load.active(owner.id, most=10)) == 3
    assert await ask(store, lambda load: load.active(owner.id, most=2)) == 2
    assert await ask(store, lambda load: load.active(neighbour.id, most=10)) == 1


async def test_the_oldest_is_the_one_that_could_be_taken_for_longest(
    store: Store, owner: User, neighbour: User, clock: ManualClock
) -> None:
    """Whoever owns it; one in backoff is as old as the end of its backoff, and not there before that."""
    assert await ask(store, lambda load: load.oldest_available_at()) is None
    await enqueue(store, owner, 1)
    clock.advance(SECOND)
    await enqueue(store, neighbour, 2, at=clock.now())
    assert await ask(store, lambda load: load.oldest_available_at()) == START
    await store.write(happen, 1, claiming, failing(FailureKind.ENVIRONMENT))
    assert await ask(store, lambda load: load.oldest_available_at()) == START + 1000
    await store.write(happen, 2, claiming)
    assert await ask(store, lambda load: load.oldest_available_at()) is None
    clock.advance(10 * SECOND)
    assert await ask(store, lambda load: load.oldest_available_at()) == START + 11_000
    await store.write(happen, 1, claiming)
    assert await ask(store, lambda load: load.oldest_available_at()) is None


async def test_what_ended_after_an_instant_is_counted(store: Store, owner: User, clock: ManualClock) -> None:
    """What failed counts like what succeeded; what its owner cancelled says nothing about workers."""
    await enqueue(store, owner, 1, 2, 3, 4)
    assert await ask(store, lambda load: load.ended(since=later(START, -SECOND), most=10)) == Drained(0, SECOND)
    await store.write(happen, 1, claiming, failing(FailureKind.PERMANENT))
    clock.advance(SECOND)
    await store.write(happen, 2, claiming, failing(FailureKind.PERMANENT))
    await store.write(happen, 3, cancelling)
    clock.advance(SECOND)
    assert await ask(store, lambda load: load.ended(since=Instant(START - 1), most=10)) == Drained(
        2, timedelta(seconds=2.001)
    )
    assert await ask(store, lambda load: load.ended(since=START, most=10)) == Drained(1, 2 * SECOND)
    assert await ask(store, lambda load: load.ended(since=Instant(START + 1000), most=10)) == Drained(0, SECOND)


async def test_of_many_that_ended_the_latest_are_counted(store: Store, owner: User, clock: ManualClock) -> None:
    """In the time since the first of those; a time that is none at all cannot be."""
    await enqueue(store, owner, *range(1, 7))
    for number in range(1, 7):
        clock.advance(SECOND)
        await store.write(happen, number, claiming, failing(FailureKind.PERMANENT))
    assert await ask(store, lambda load: load.ended(since=START, most=3)) == Drained(3, 2 * SECOND)
    assert await ask(store, lambda load: load.ended(since=START, most=1)) == Drained(1, timedelta(milliseconds=1))


# ── Storage ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def usage(store: Store) -> StorageUsage:
    """Return what is used and what is left, as a transaction that writes sees it."""
    return await store.write(lambda uow: uow.storage.usage())


def stage(results: ResultStore, attempt: Attempt, count: int) -> None:
    """Stage chunks that no compression makes small."""
    for chunk in chunks_of(*(f"{number:06}" + "".join(map(chr, range(32, 1000))) * 20 for number in range(count))):
        results.stage(attempt, chunk, rows_total=count)


async def test_bytes_that_are_stored_are_used_until_they_are_deleted(store: Store, owner: User) -> None:
    """The use grows with what is stored, and falls with what is deleted: room that is free again is not used."""
    await enqueue(store, owner, 1)
    before = await usage(store)
    attempt = Attempt(JobId(an_id(1)), 1)
    await store.write(lambda uow: stage(uow.result_store, attempt, 200))
    stored = await usage(store)
    assert stored.database_bytes > before.database_bytes + 200_000
    await store.write(lambda uow: uow.result_store.delete(attempt, limit=1000))
    after = await usage(store)
    assert after.database_bytes < before.database_bytes + 20_000


async def test_some_room_is_left_on_the_volume(store: Store) -> None:
    """And a read transaction sees the same numbers as one that writes."""
    read = await store.read(Bulkhead.EXPORTS, lambda uow: uow.storage.usage())
    assert read.free_bytes > 0
    assert read.database_bytes == (await usage(store)).database_bytes


@pytest.mark.parametrize("name", ["pending", "active", "ended"])
async def test_a_question_takes_no_write_lock(store: Store, owner: User, name: str) -> None:
    """Whoever only looks asks on a read connection."""
    await enqueue(store, owner, 1)
    questions: dict[str, Callable[[UnitOfWork], object]] = {
        "pending": lambda uow: uow.load.pending(most=5),
        "active": lambda uow: uow.load.active(owner.id, most=5),
        "ended": lambda uow: uow.load.ended(since=Instant(START - 1000), most=5),
    }
    answers = {"pending": 1, "active": 1, "ended": Drained(0, SECOND)}
    assert await store.read(Bulkhead.EXPORTS, questions[name]) == answers[name]
