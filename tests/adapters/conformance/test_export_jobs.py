"""`ExportJobs`: a job is stored only by a step of the protocol, whole, with its line of history, or not at all."""

from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from domain.account import User
from domain.errors import StaleVersion
from domain.events import Cancel, Claim, Complete, Event, Expire, Fail, Release, Requeue
from domain.export import (
    ErrorCode,
    ExportJob,
    Failure,
    FailureKind,
    HistoryEntry,
    JobId,
    JobStatus,
    LeaseToken,
    Staged,
)
from domain.instants import Instant
from domain.lifecycle import Transition, advance
from domain.pages import Position
from domain.ports import Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.steps import live, save_all
from tests.builders import HOUR, an_enqueue, an_id
from tests.fakes import START

LONGEST: Final = timedelta(minutes=2)
TOKEN: Final = LeaseToken("the-lease-token")
WHOLE: Final = Staged(chunk_count=1, byte_count=2, row_count=3, payload_byte_count=4)
CLAIM: Final = Claim(
    now=Instant(START + 1), worker_id="worker-1", lease_token=TOKEN, lease=timedelta(minutes=1), longest_lease=LONGEST
)
COMPLETE: Final = Complete(
    now=Instant(START + 2), lease_token=TOKEN, longest_lease=LONGEST, expected=WHOLE, found=WHOLE
)
RELEASE: Final = Release(now=Instant(START + 2), lease_token=TOKEN, longest_lease=LONGEST)
FAIL: Final = Fail(
    now=Instant(START + 2),
    lease_token=TOKEN,
    longest_lease=LONGEST,
    failure=Failure(FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR, "ZeroDivisionError"),
    retry_at=Instant(START + 2000),
    retry_ends_at=Instant(START + 2000),
)
BURY: Final = replace(FAIL, failure=Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge"))
CANCEL: Final = Cancel(now=Instant(START + 3), actor="owner", reason="not needed any more")
EXPIRE: Final = Expire(now=Instant(START + HOUR), longest_lease=LONGEST)
REQUEUE: Final = Requeue(
    now=Instant(START + 3), actor="operator", reason="the disk was full", attempts=2, deadline_at=Instant(START + HOUR)
)

# One life for each status that a job can have, and for each set of members that a job can have.
LIVES: Final[dict[str, tuple[Event, ...]]] = {
    "queued": (),
    "running": (CLAIM,),
    "lost and claimed again": (CLAIM, replace(CLAIM, now=Instant(START + 60_001), lease_token=LeaseToken("next"))),
    "in backoff": (CLAIM, FAIL),
    "excused": (CLAIM, RELEASE),
    "succeeded": (CLAIM, COMPLETE),
    "dead letter": (CLAIM, BURY),
    "late": (EXPIRE,),
    "cancelled": (CANCEL,),
    "requeued": (CLAIM, BURY, REQUEUE),
}


async def get(store: Store, job_id: JobId) -> ExportJob | None:
    """Return the job."""
    return await store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.get(job_id))


async def history(store: Store, job_id: JobId) -> list[HistoryEntry]:
    """Return the history of the job."""
    return await store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(job_id))


@pytest.mark.parametrize("events", LIVES.values(), ids=LIVES)
async def test_a_job_is_kept_exactly_wherever_it_stands(store: Store, owner: User, events: tuple[Event, ...]) -> None:
    """After every kind of life the job reads as the protocol left it, by each of the ways to find it."""
    made = an_enqueue(owner.id, request_id="request-1", traceparent="00-1-2-01")
    job = await store.write(live, made, *events)
    found = await store.read(
        Bulkhead.EXPORTS,
        lambda uow: [
            uow.exports.get(job.id),
            uow.exports.find(owner.id, job.id),
            uow.exports.find_by_key(owner.id, job.request_key),
            *uow.exports.page(owner.id, frozenset(), before=None, limit=9),
        ],
    )
    assert found == [job] * 4


@pytest.mark.parametrize("events", LIVES.values(), ids=LIVES)
async def test_the_history_holds_every_step_in_order(store: Store, owner: User, events: tuple[Event, ...]) -> None:
    """One line for each saved step, as the protocol wrote it, the first being the making."""
    step = an_enqueue(owner.id)
    steps = [step]
    for event in events:
        step = advance(step.after, event)
        steps.append(step)
    await store.write(save_all, *steps)
    lines = await history(store, step.after.id)
    assert lines == [saved.entry for saved in steps]
    assert [line.version for line in lines] == list(range(1, len(steps) + 1))


async def test_nothing_is_known_of_a_job_that_was_never_saved(store: Store, owner: User) -> None:
    """No job, and no history."""
    assert await get(store, JobId(an_id())) is None
    assert await history(store, JobId(an_id())) == []
    found = await store.read(
        Bulkhead.EXPORTS, lambda uow: [uow.exports.find(owner.id, an_id()), uow.exports.find_by_key(owner.id, "key-1")]
    )
    assert found == [None, None]


async def test_another_owners_job_is_not_there(store: Store, owner: User, neighbour: User) -> None:
    """Neither by its id, nor by its key, nor in a list."""
    job = await store.write(live, an_enqueue(owner.id))
    found = await store.read(
        Bulkhead.EXPORTS,
        lambda uow: [
            uow.exports.find(neighbour.id, job.id),
            uow.exports.find_by_key(neighbour.id, job.request_key),
            *uow.exports.page(neighbour.id, frozenset(), before=None, limit=9),
        ],
    )
    assert found == [None, None]


async def test_the_history_of_a_job_is_its_own(store: Store, owner: User) -> None:
    """Lines of other jobs are not in it."""
    job = await store.write(live, an_enqueue(owner.id, 1), CANCEL)
    await store.write(live, an_enqueue(owner.id, 2), CLAIM)
    assert {line.job_id for line in await history(store, job.id)} == {job.id}


async def what_is_stored(
    store: Store, owner: User
) -> tuple[list[ExportJob], list[list[HistoryEntry]], list[ExportJob]]:
    """Return the owner's jobs, their histories, and what a claim would be offered."""

    def look(uow: UnitOfWork) -> tuple[list[ExportJob], list[list[HistoryEntry]], list[ExportJob]]:
        jobs = uow.exports.page(owner.id, frozenset(), before=None, limit=99)
        histories = [uow.exports.history(job.id) for job in jobs]
        return (
            jobs,
            histories,
            uow.queue.candidates(longest_lease_until=Instant(START + 120_000), running_limit=9, limit=9),
        )

    return await store.write(look)


async def assert_refused(store: Store, owner: User, step: Transition) -> None:
    """Assert that the step is refused, that the transaction goes on, and that nothing changed."""
    before = await what_is_stored(store, owner)

    def save(uow: UnitOfWork) -> None:
        with pytest.raises(StaleVersion):
            uow.exports.save(step)

    await store.write(save)
    assert await what_is_stored(store, owner) == before


@pytest.mark.parametrize("event", [CLAIM, CANCEL, EXPIRE])
async def test_a_step_from_another_version_is_refused(store: Store, owner: User, event: Event) -> None:
    """The second of two steps from one version loses: `StaleVersion`, and neither job, history nor queue changes."""
    made = an_enqueue(owner.id)
    await store.write(live, made, CLAIM)
    await assert_refused(store, owner, advance(made.after, event))


async def test_a_step_from_a_later_version_is_refused(store: Store, owner: User) -> None:
    """A version that the store has not reached is another version too."""
    made = an_enqueue(owner.id)
    await store.write(live, made)
    await assert_refused(store, owner, advance(advance(made.after, CLAIM).after, RELEASE))


async def test_a_step_of_a_job_that_is_not_there_is_refused(store: Store, owner: User) -> None:
    """Only a step without a job before it makes one."""
    await assert_refused(store, owner, advance(an_enqueue(owner.id).after, CLAIM))
    assert await what_is_stored(store, owner) == ([], [], [])


@pytest.mark.parametrize("members", [{"request_key": "another"}, {"job_id": JobId(an_id(2))}, {}])
async def test_a_job_is_made_once(store: Store, owner: User, members: dict[str, str]) -> None:
    """A second one of the same id, or of the same owner and key, is refused."""
    await store.write(live, an_enqueue(owner.id, 1), CLAIM)
    step = an_enqueue(owner.id, 1)
    event_members = {"id" if name == "job_id" else name: value for name, value in members.items()}
    after = replace(step.after, **event_members)
    await assert_refused(store, owner, replace(step, after=after, entry=replace(step.entry, job_id=after.id)))


async def test_owners_can_use_the_same_key(store: Store, owner: User, neighbour: User) -> None:
    """A key belongs to one owner."""
    mine, other = an_enqueue(owner.id, 1), an_enqueue(neighbour.id, 2, request_key="key-1")
    await store.write(save_all, mine, other)
    found = await store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.find_by_key(neighbour.id, "key-1"))
    assert found == other.after


async def test_a_step_that_is_rolled_back_leaves_no_line_of_history(store: Store, owner: User) -> None:
    """Job and history are one transaction: neither is there without the other."""
    made = an_enqueue(owner.id)
    await store.write(live, made)
    before = await what_is_stored(store, owner)

    def fail_after_saving(uow: UnitOfWork) -> None:
        uow.exports.save(advance(made.after, CLAIM))
        assert len(uow.exports.history(made.after.id)) == 2
        raise LookupError

    with pytest.raises(LookupError):
        await store.write(fail_after_saving)
    assert await what_is_stored(store, owner) == before


async def test_jobs_are_listed_newest_first_and_then_by_id(store: Store, owner: User) -> None:
    """Those of one instant come in the order of their ids, the highest first."""
    ages = {1: 5, 2: 9, 3: 5, 4: 7}
    await store.write(save_all, *(an_enqueue(owner.id, number, now=Instant(START + at)) for number, at in ages.items()))
    jobs = await store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.page(owner.id, frozenset(), before=None, limit=9))
    assert [job.id for job in jobs] == [an_id(number) for number in (2, 4, 3, 1)]


async def test_pages_of_jobs_in_a_row_are_the_whole_list(store: Store, owner: User) -> None:
    """Each page begins right before the last job of the one before it, none is longer than its limit."""
    await store.write(
        save_all, *(an_enqueue(owner.id, number, now=Instant(START + number // 2)) for number in range(1, 8))
    )
    read: list[str] = []
    before = None
    while True:
        jobs = await store.read(
            Bulkhead.EXPORTS,
            lambda uow, position: uow.exports.page(owner.id, frozenset(), before=position, limit=2),
            before,
        )
        if not jobs:
            break
        assert len(jobs) <= 2
        read.extend(job.id for job in jobs)
        before = Position(jobs[-1].created_at, jobs[-1].id)
    assert read == [an_id(number) for number in range(7, 0, -1)]


async def test_a_list_of_jobs_can_be_of_some_statuses(store: Store, owner: User) -> None:
    """Exactly those whose status is named, and all when none is."""
    jobs = [
        await store.write(live, an_enqueue(owner.id, number), *events)
        for number, events in enumerate(LIVES.values(), 1)
    ]
    for status in (
        frozenset({JobStatus.QUEUED}),
        frozenset({JobStatus.RUNNING, JobStatus.FAILED}),
        frozenset({JobStatus.SUCCEEDED}),
        frozenset({JobStatus.CANCELLED}),
        frozenset(JobStatus),
    ):
        found = await store.read(
            Bulkhead.EXPORTS,
            lambda uow, wanted: uow.exports.page(owner.id, wanted, before=None, limit=99),
            status,
        )
        assert found == [job for job in reversed(jobs) if job.status in status]
