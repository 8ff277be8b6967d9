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
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.result_store.lost(limit=9))


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
