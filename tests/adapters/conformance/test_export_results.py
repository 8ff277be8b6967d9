"""`ExportResults`: at most one a job, and gone is gone."""

from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from domain.account import User
from domain.errors import Refusal
from domain.export import ExportResult, GoneReason, JobId
from domain.instants import Instant
from domain.ports import Attempt, Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.steps import save_all, stage_all
from tests.builders import a_rendered_file, a_result, an_enqueue, an_id, chunks_of
from tests.fakes import START, ManualClock

JOB: Final = JobId(an_id(1))
CHUNKS: Final = chunks_of("id\r\n1\r\n", "2\r\n")
RESULT: Final = a_result(JOB, a_rendered_file(CHUNKS))


async def find(store: Store, job_id: JobId = JOB) -> ExportResult | None:
    """Return the job's result."""
    return await store.read(Bulkhead.EXPORTS, lambda uow: uow.results.find(job_id))


async def lost(store: Store) -> list[Attempt]:
    """Return the attempts that the sweep would find."""
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.result_store.lost(as_of=uow.now, limit=9))


def publish(uow: UnitOfWork, result: ExportResult) -> None:
    """Stage the chunks and publish them."""
    stage_all(uow, Attempt(result.job_id, result.attempt), CHUNKS)
    uow.results.publish(result)


@pytest.fixture
async def published(store: Store, owner: User) -> ExportResult:
    """The result of one job, beside another job that has none."""
    await store.write(save_all, an_enqueue(owner.id, 1), an_enqueue(owner.id, 2))
    await store.write(publish, RESULT)
    return RESULT


async def test_a_result_is_kept_exactly(store: Store, published: ExportResult) -> None:
    """Every member is read back equal, and another job has no result."""
    assert await find(store) == published
    assert await find(store, JobId(an_id(2))) is None


async def test_a_second_result_is_refused_by_the_store(store: Store, published: ExportResult) -> None:
    """Whatever its attempt: there is at most one, also for a caller that checks nothing."""
    second = replace(published, attempt=2, row_count=99)
    with pytest.raises(Refusal):
        await store.write(lambda uow: uow.results.publish(second))
    assert await find(store) == published


async def test_a_result_that_is_rolled_back_was_never_there(store: Store, owner: User) -> None:
    """Its chunks are as unpublished as before."""
    await store.write(save_all, an_enqueue(owner.id, 1))

    def fail_after_publishing(uow: UnitOfWork) -> None:
        publish(uow, RESULT)
        raise LookupError

    with pytest.raises(LookupError):
        await store.write(fail_after_publishing)
    assert await find(store) is None


@pytest.mark.parametrize("reason", GoneReason)
async def test_a_result_is_gone_as_of_now(
    store: Store, published: ExportResult, clock: ManualClock, reason: GoneReason
) -> None:
    """It stays known, with the reason and the instant, and nothing else about it changes."""
    clock.advance(timedelta(seconds=5))
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=reason))
    assert await find(store) == replace(published, gone_at=Instant(START + 5000), gone_reason=reason)


async def test_gone_twice_is_gone_since_the_first_time(
    store: Store, published: ExportResult, clock: ManualClock
) -> None:
    """Neither reason nor instant are told anew."""
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.DELETED))
    clock.advance(timedelta(seconds=5))
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.EXPIRED))
    assert await find(store) == replace(published, gone_at=START, gone_reason=GoneReason.DELETED)


async def test_the_chunks_of_a_result_that_is_gone_are_the_sweeps(store: Store, published: ExportResult) -> None:
    """Published they are nobody's to delete; gone they are found, until they are deleted."""
    attempt = Attempt(JOB, published.attempt)
    assert await lost(store) == []
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.DELETED))
    assert await lost(store) == [attempt]
    assert await store.write(lambda uow: uow.result_store.delete(attempt, limit=9))
    assert await lost(store) == []
    assert await store.read(Bulkhead.DOWNLOADS, lambda uow: uow.result_store.read(attempt, 0)) is None


async def test_a_job_without_a_result_has_none_that_could_go(store: Store, published: ExportResult) -> None:
    """`mark_gone` of a job that has no result makes none, and touches no other."""
    await store.write(lambda uow: uow.results.mark_gone(JobId(an_id(2)), reason=GoneReason.EXPIRED))
    assert await find(store, JobId(an_id(2))) is None
    assert await find(store) == published
    assert await lost(store) == []


async def expired(store: Store, as_of: int, *, limit: int = 9) -> list[ExportResult]:
    """Return the results that are to be marked as expired."""
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.results.expired(as_of=Instant(as_of), limit=limit))


async def lost_at(store: Store, as_of: int) -> list[Attempt]:
    """Return the attempts that the sweep would find at that instant."""
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.result_store.lost(as_of=Instant(as_of), limit=9))


async def test_what_has_expired_is_found_longest_over_first(store: Store, published: ExportResult) -> None:
    """To the millisecond, as many as asked for, until it is marked or deleted."""
    second = replace(published, job_id=JobId(an_id(2)), expires_at=Instant(published.expires_at - 1))
    await store.write(publish, second)
    assert await expired(store, second.expires_at - 1) == []
    assert await expired(store, second.expires_at) == [second]
    assert await expired(store, published.expires_at) == [second, published]
    assert await expired(store, published.expires_at, limit=1) == [second]
    await store.write(lambda uow: uow.results.mark_expired(second.job_id, needed_until=START))
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.DELETED))
    assert await expired(store, published.expires_at) == []


async def test_an_expired_result_is_gone_since_it_expired_and_its_chunks_are_needed_for_a_while(
    store: Store, published: ExportResult, clock: ManualClock
) -> None:
    """However late it is marked; until the instant that is stated no sweep finds them, from it on one does."""
    clock.advance(timedelta(days=9))
    needed_until = Instant(clock.now() + 5000)
    for _ in range(2):
        await store.write(lambda uow: uow.results.mark_expired(JOB, needed_until=needed_until))
        assert await find(store) == replace(published, gone_at=published.expires_at, gone_reason=GoneReason.EXPIRED)
    assert await lost_at(store, needed_until - 1) == []
    assert await lost_at(store, needed_until) == [Attempt(JOB, published.attempt)]


async def test_a_deleted_result_does_not_expire_and_an_expired_one_can_be_deleted(
    store: Store, published: ExportResult, clock: ManualClock
) -> None:
    """Deleted it stays, and its chunks go at once, whatever downloads were promised."""
    needed_until = Instant(clock.now() + 5000)
    await store.write(lambda uow: uow.results.mark_expired(JOB, needed_until=needed_until))
    deleted_at = clock.advance(timedelta(seconds=1))
    await store.write(lambda uow: uow.results.mark_gone(JOB, reason=GoneReason.DELETED))
    gone = replace(published, gone_at=deleted_at, gone_reason=GoneReason.DELETED)
    assert await find(store) == gone
    assert await lost(store) == [Attempt(JOB, published.attempt)]
    await store.write(lambda uow: uow.results.mark_expired(JOB, needed_until=needed_until))
    assert await find(store) == gone
    assert await lost(store) == [Attempt(JOB, published.attempt)]
