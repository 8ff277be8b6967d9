"""`Retention`: what is over goes for good, with everything that hangs on it, and nothing else does."""

from hashlib import sha256
from typing import Final

import pytest

from domain.account import User
from domain.events import Cancel
from domain.export import GoneReason, JobId
from domain.instants import Instant
from domain.ports import Attempt, Bulkhead, Store, UnitOfWork
from domain.use_cases.exports import get_export
from tests.adapters.conformance.steps import live, save_all, stage_all
from tests.builders import a_rendered_file, a_result, an_enqueue, an_id, chunks_of
from tests.fakes import START

CHUNKS: Final = chunks_of("id\r\n", "1\r\n")
JOB: Final = JobId(an_id(1))


async def ended(store: Store, *, before: int = START, limit: int = 9) -> list[JobId]:
    """Return the jobs that could be forgotten."""
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.retention.ended(before=Instant(before), limit=limit))


async def history_length(store: Store, job_id: JobId) -> int:
    """Return how many lines of history there are of the job."""
    return len(await store.read(Bulkhead.OPERATIONS, lambda uow: uow.exports.history(job_id)))


@pytest.fixture
async def cancelled(store: Store, owner: User) -> list[JobId]:
    """Three exports that were cancelled, one second after another, beside one that waits; longest over first."""
    for number in (3, 1, 2):
        cancel = Cancel(now=Instant(START + number * 1000), actor="owner")
        await store.write(live, an_enqueue(owner.id, number), cancel)
    await store.write(save_all, an_enqueue(owner.id, 4))
    return [JobId(an_id(number)) for number in (1, 2, 3)]


async def test_what_ended_by_an_instant_is_found_longest_over_first(store: Store, cancelled: list[JobId]) -> None:
    """To the millisecond, as many as asked for, and never one that has not ended."""
    assert await ended(store, before=START + 999) == []
    assert await ended(store, before=START + 1000) == cancelled[:1]
    assert await ended(store, before=START + 10**9) == cancelled
    assert await ended(store, before=START + 10**9, limit=2) == cancelled[:2]


async def test_a_job_with_a_result_that_is_not_gone_is_kept(store: Store, owner: User) -> None:
    """However long ago it ended; nor one whose chunks are still there."""
    await store.write(live, an_enqueue(owner.id), Cancel(now=START, actor="owner"))
    attempt = Attempt(JOB, 1)

    def publish(uow: UnitOfWork) -> None:
        stage_all(uow, attempt, CHUNKS)
        uow.results.publish(a_result(JOB, a_rendered_file(CHUNKS)))

    await store.write(publish)
    assert await ended(store) == []
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.DELETED))
    assert await ended(store) == []
    assert not await store.write(lambda uow: uow.result_store.delete(attempt, limit=1))
    assert await ended(store) == []
    assert await store.write(lambda uow: uow.result_store.delete(attempt, limit=1))
    assert await ended(store) == [JOB]
    await store.write(lambda uow: uow.retention.forget(JOB))
    assert await store.read(Bulkhead.OPERATIONS, lambda uow: uow.results.find(JOB)) is None


async def test_a_forgotten_job_leaves_nothing_and_takes_no_other_along(
    store: Store, owner: User, cancelled: list[JobId]
) -> None:
    """Row, history and key are gone, those of the others are there; its key makes a new export."""
    await store.write(lambda uow: uow.retention.forget(JOB))
    assert await store.read(Bulkhead.OPERATIONS, lambda uow: uow.exports.get(JOB)) is None
    assert await store.read(Bulkhead.OPERATIONS, lambda uow: uow.exports.find_by_key(owner.id, "key-1")) is None
    assert [await history_length(store, job_id) for job_id in cancelled] == [0, 2, 2]
    assert await ended(store, before=START + 10**9) == cancelled[1:]
    again = an_enqueue(owner.id, 5, request_key="key-1")
    await store.write(save_all, again)
    assert (await store.read(Bulkhead.EXPORTS, get_export, owner.id, an_id(5))).job == again.after


async def test_free_pages_are_given_back_a_few_at_a_time(store: Store, owner: User) -> None:
    """As many as asked for, until there are none; nothing that is kept is lost by it."""
    await store.write(save_all, an_enqueue(owner.id))
    noise = "".join(sha256(bytes([number])).hexdigest() for number in range(200))
    large = chunks_of(*[noise] * 4)
    await store.write(stage_all, Attempt(JOB, 1), large)
    assert await store.write(lambda uow: uow.retention.give_back(pages=99)) == 0
    await store.write(lambda uow: uow.result_store.delete(Attempt(JOB, 1), limit=9))
    given = [await store.write(lambda uow: uow.retention.give_back(pages=1)) for _ in range(2)]
    while count := await store.write(lambda uow: uow.retention.give_back(pages=5)):
        given.append(count)
    assert given[:2] == [1, 1]
    assert all(1 <= count <= 5 for count in given)
    assert sum(given) >= 4
    assert await history_length(store, JOB) == 1
