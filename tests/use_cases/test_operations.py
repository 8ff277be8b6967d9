"""Operators on the real store: they see every owner's jobs, requeue what the protocol lets them, and no more."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.errors import AdmissionRefused, InvalidInput, NoSuchTransition, NotFound, NotHolding
from domain.export import ErrorCode, ExportJob, JobId, JobStatus
from domain.instants import Instant
from domain.lifecycle import used_attempts
from domain.policies import Policies
from domain.ports import Bulkhead, JobFilter
from domain.use_cases.operations import (
    JobRecord,
    QueueStatus,
    RequeueOrder,
    cancel_job,
    dead_letters,
    list_jobs,
    operator_named,
    queue_status,
    requeue_job,
    requeue_jobs,
    show_job,
    try_requeue,
)
from tests.builders import an_id
from tests.fakes import START, ManualClock
from tests.use_cases.bench import ENVIRONMENT, PERMANENT, Bench, contents

ORDER = RequeueOrder(actor="operator eve", reason="the limit was raised")


async def a_dead_letter(bench: Bench, owner: User, key: str = "key-1") -> ExportJob:
    """Ask for an export and let it fail for good."""
    return await bench.bring(owner, await bench.enqueue(owner, key), JobStatus.FAILED)


async def record_of(store: SqliteStore, job_id: str) -> JobRecord:
    """Return the job as operators see it."""
    return await store.read(Bulkhead.OPERATIONS, show_job, job_id)


async def ids_of(store: SqliteStore, chosen: JobFilter, *, owner: str | None = None, limit: int = 50) -> list[JobId]:
    """Return the ids of the first page of what is chosen."""
    page = await store.read(Bulkhead.OPERATIONS, list_jobs, chosen, owner=owner, limit=limit)
    return [view.job.id for view in page.items]


class TestListing:
    """Jobs of all owners."""

    async def test_jobs_of_every_owner_are_listed_with_their_names(
        self, store: SqliteStore, bench: Bench, owner: User, neighbour: User
    ) -> None:
        """The newest comes first, whoever owns it."""
        first = await bench.enqueue(owner)
        bench.clock.advance(timedelta(seconds=1))
        second = await bench.enqueue(neighbour)
        page = await store.read(Bulkhead.OPERATIONS, list_jobs, JobFilter(), limit=50)
        assert [(view.job.id, view.owner) for view in page.items] == [(second.id, "Bob"), (first.id, "Ann")]
        assert page.following is None

    async def test_one_owners_jobs_are_listed_alone(
        self, store: SqliteStore, bench: Bench, owner: User, neighbour: User
    ) -> None:
        """By name; an owner who does not exist has none."""
        await bench.enqueue(owner)
        theirs = await bench.enqueue(neighbour)
        assert await ids_of(store, JobFilter(), owner="Bob") == [theirs.id]
        assert await ids_of(store, JobFilter(), owner="Nobody") == []

    async def test_pages_hold_every_job_once(self, store: SqliteStore, bench: Bench, owner: User) -> None:
        """Walked page by page, through every status and several jobs of one instant, nothing is missing or repeated."""
        made = {(await bench.enqueue(owner, f"key-{number}")).id for number in range(7)}
        await bench.fail(await bench.claim(), PERMANENT)
        await bench.claim()
        seen: list[JobId] = []
        place = None
        while True:
            page = await store.read(Bulkhead.OPERATIONS, list_jobs, JobFilter(), before=place, limit=2)
            assert len(page.items) <= 2
            seen += [view.job.id for view in page.items]
            place = page.following
            if place is None:
                break
        assert len(seen) == len(set(seen))
        assert set(seen) == made

    async def test_a_running_job_shows_its_progress_and_a_succeeded_one_its_result(
        self, store: SqliteStore, bench: Bench, owner: User
    ) -> None:
        """What an owner sees of them, an operator sees too."""
        await bench.enqueue(owner)
        holder = await bench.claim()
        await bench.stage(holder)
        running = (await record_of(store, holder.job_id)).view
        assert running.progress is not None
        assert running.progress.rows_total == 3
        await bench.complete(holder)
        succeeded = (await record_of(store, holder.job_id)).view
        assert succeeded.result is not None
        assert succeeded.result.row_count == 4

    async def test_an_unknown_job_is_not_found(self, store: SqliteStore) -> None:
        """For every verb that names one."""
        with pytest.raises(NotFound):
            await record_of(store, an_id(99))
        with pytest.raises(NotFound):
            await store.write(cancel_job, an_id(99), actor="operator", reason="why not")


class TestRequeue:
    """Dead letters are tried again by a person."""

    async def test_a_requeued_dead_letter_succeeds(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies
    ) -> None:
        """With a new budget and deadline; the history and the number of attempts go on, and say who, when and why."""
        dead = await a_dead_letter(bench, owner)
        now = bench.clock.advance(timedelta(hours=3))
        view = await store.write(
            requeue_job, dead.id, replace(ORDER, attempts=2, deadline_seconds=600), policies=policies
        )
        assert view.job.status is JobStatus.QUEUED
        assert view.job.deadline_at == now + 600_000
        assert view.job.max_attempts - used_attempts(view.job) == 2
        holder = await bench.claim()
        assert holder.attempt == 2
        await bench.stage(holder)
        assert (await bench.complete(holder)).status is JobStatus.SUCCEEDED
        record = await record_of(store, dead.id)
        assert [entry.event for entry in record.history] == ["enqueue", "claim", "fail", "requeue", "claim", "complete"]
        act = record.history[3]
        assert (act.actor, act.reason, act.at) == ("operator eve", "the limit was raised", now)

    async def test_what_is_left_open_is_as_for_a_new_export(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies
    ) -> None:
        """The service's own number of attempts and time to the deadline."""
        dead = await a_dead_letter(bench, owner)
        view = await store.write(requeue_job, dead.id, ORDER, policies=policies)
        assert view.job.max_attempts - used_attempts(view.job) == policies.retry.max_attempts
        assert view.job.deadline_at == START + policies.deadline.default // timedelta(milliseconds=1)

    @pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.FAILED])
    async def test_only_a_dead_letter_is_requeued(
        self, status: JobStatus, database: Path, bench: Bench, owner: User
    ) -> None:
        """Any other status is refused in the protocol's words, and nothing changes."""
        job = await bench.bring(owner, await bench.enqueue(owner), status)
        before = contents(database)
        with pytest.raises(NoSuchTransition, match=f"cannot requeue a {status.value} export: no rule leads there"):
            await bench.store.write(requeue_job, job.id, ORDER, policies=bench.policies)
        assert contents(database) == before

    @pytest.mark.parametrize(
        ("where", "order"),
        [
            ("/reason", replace(ORDER, reason="")),
            ("/reason", replace(ORDER, reason=" blank")),
            ("/reason", replace(ORDER, reason="two\nlines")),
            ("/reason", replace(ORDER, reason="\x1b[2Jgone")),
            ("/reason", replace(ORDER, reason="half \ud800")),
            ("/reason", replace(ORDER, reason="x" * 501)),
            ("/attempts", replace(ORDER, attempts=0)),
            ("/attempts", replace(ORDER, attempts=101)),
            ("/deadline_seconds", replace(ORDER, deadline_seconds=9)),
            ("/deadline_seconds", replace(ORDER, deadline_seconds=86_401)),
            ("/deadline_seconds", replace(ORDER, deadline_seconds=10**30)),
        ],
    )
    async def test_an_order_that_cannot_be_meant_is_refused(
        self, where: str, order: RequeueOrder, database: Path, bench: Bench, owner: User
    ) -> None:
        """The refusal names the member, and nothing changes."""
        dead = await a_dead_letter(bench, owner)
        before = contents(database)
        with pytest.raises(InvalidInput) as refused:
            await bench.store.write(requeue_job, dead.id, order, policies=bench.policies)
        assert [error.where for error in refused.value.errors] == [where]
        assert contents(database) == before

    async def test_bounds_are_accepted(self, store: SqliteStore, bench: Bench, owner: User, policies: Policies) -> None:
        """The longest reason, the most attempts and both deadlines can be stated."""
        dead = await a_dead_letter(bench, owner)
        for deadline, attempts in ((10, 1), (86_400, 100)):
            order = replace(ORDER, reason="é" * 500, attempts=attempts, deadline_seconds=deadline)
            await store.write(requeue_job, dead.id, order, policies=policies)
            await bench.fail(await bench.claim(), PERMANENT)

    async def test_no_more_is_requeued_than_admission_accepts(
        self, store: SqliteStore, database: Path, bench: Bench, owner: User, policies: Policies
    ) -> None:
        """A batch ends where the queue is full, what was requeued before stays so, and one alone is refused."""
        dead = [(await a_dead_letter(bench, owner, f"key-{number}")).id for number in range(3)]
        tight = replace(policies, admission=replace(policies.admission, max_pending=2))
        tried = await store.read(Bulkhead.OPERATIONS, try_requeue, dead, ORDER, policies=tight)
        batch = await store.write(requeue_jobs, dead, ORDER, policies=tight)
        for found in (tried, batch):
            assert [(outcome.job_id, outcome.refusal) for outcome in found.outcomes] == [
                (dead[0], None),
                (dead[1], None),
            ]
            assert found.halt is not None
            assert found.halt.limit == "max_pending"
        assert [(await bench.job(job_id)).status.value for job_id in dead] == ["queued", "queued", "failed"]
        before = contents(database)
        with pytest.raises(AdmissionRefused):
            await store.write(requeue_job, dead[2], ORDER, policies=tight)
        assert contents(database) == before

    async def test_a_batch_tells_what_became_of_each(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies
    ) -> None:
        """One that succeeded and one that does not exist are refused, each in words; the others are requeued, once."""
        dead = await a_dead_letter(bench, owner)
        succeeded = await bench.succeed(owner, "key-2")
        ids = [dead.id, succeeded.id, an_id(99), dead.id]
        batch = await store.write(requeue_jobs, ids, ORDER, policies=policies)
        assert {outcome.job_id: outcome.refusal for outcome in batch.outcomes} == {
            dead.id: None,
            succeeded.id: "cannot requeue a succeeded export: no rule leads there",
            an_id(99): f"there is no export '{an_id(99)}'",
        }
        assert batch.halt is None
        assert (await bench.job(dead.id)).status is JobStatus.QUEUED
        assert (await bench.job(succeeded.id)) == succeeded

    async def test_a_try_tells_the_same_and_changes_nothing(
        self, store: SqliteStore, database: Path, bench: Bench, owner: User, policies: Policies
    ) -> None:
        """Not one row of any table differs."""
        dead = await a_dead_letter(bench, owner)
        succeeded = await bench.succeed(owner, "key-2")
        before = contents(database)
        tried = await store.read(Bulkhead.OPERATIONS, try_requeue, [dead.id, succeeded.id], ORDER, policies=policies)
        assert contents(database) == before
        assert tried == await store.write(requeue_jobs, [dead.id, succeeded.id], ORDER, policies=policies)

    async def test_a_batch_is_made_of_the_dead_letters_that_are_chosen(
        self, store: SqliteStore, bench: Bench, owner: User, neighbour: User
    ) -> None:
        """Whatever status the filter names: only failed jobs can be meant. By owner, by code, up to a limit."""
        mine = await a_dead_letter(bench, owner)
        bench.clock.advance(timedelta(seconds=1))
        theirs = await a_dead_letter(bench, neighbour)
        await bench.succeed(owner, "key-2")

        async def found(chosen: JobFilter, *, owner: str | None = None, limit: int = 9) -> list[JobId]:
            return await store.read(Bulkhead.OPERATIONS, dead_letters, chosen, owner=owner, limit=limit)

        assert await found(JobFilter()) == [theirs.id, mine.id]
        assert await found(JobFilter(status=frozenset({JobStatus.SUCCEEDED}))) == [theirs.id, mine.id]
        assert await found(JobFilter(), owner="Ann") == [mine.id]
        assert await found(JobFilter(), owner="Nobody") == []
        assert await found(JobFilter(), limit=1) == [theirs.id]
        assert await found(JobFilter(code=ErrorCode.RESULT_TOO_LARGE)) == [theirs.id, mine.id]
        assert await found(JobFilter(code=ErrorCode.INTERNAL_ERROR)) == []
        assert await found(JobFilter(finished_after=START)) == [theirs.id]


class TestCancel:
    """Operators end what nobody needs."""

    @pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.RUNNING])
    async def test_a_job_that_has_not_ended_is_cancelled(
        self, status: JobStatus, store: SqliteStore, bench: Bench, owner: User
    ) -> None:
        """Who, why and when stand in its history."""
        job = await bench.bring(owner, await bench.enqueue(owner), status)
        view = await store.write(cancel_job, job.id, actor="operator eve", reason="not needed")
        assert view.job.status is JobStatus.CANCELLED
        act = (await record_of(store, job.id)).history[-1]
        assert (act.event, act.actor, act.reason, act.at) == ("cancel", "operator eve", "not needed", START)

    async def test_a_running_attempt_is_fenced_off(self, store: SqliteStore, bench: Bench, owner: User) -> None:
        """Its worker can write nothing from then on."""
        await bench.enqueue(owner)
        holder = await bench.claim()
        await store.write(cancel_job, holder.job_id, actor="operator", reason="not needed")
        with pytest.raises(NotHolding):
            await bench.stage(holder)

    @pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED])
    async def test_what_has_ended_is_refused(
        self, status: JobStatus, store: SqliteStore, database: Path, bench: Bench, owner: User
    ) -> None:
        """In the protocol's words, and nothing changes."""
        job = await bench.bring(owner, await bench.enqueue(owner), status)
        before = contents(database)
        with pytest.raises(NoSuchTransition, match=f"cannot cancel a {status.value} export"):
            await store.write(cancel_job, job.id, actor="operator", reason="not needed")
        assert contents(database) == before

    async def test_a_reason_is_needed(self, store: SqliteStore, bench: Bench, owner: User) -> None:
        """An empty one is refused."""
        job = await bench.enqueue(owner)
        with pytest.raises(InvalidInput):
            await store.write(cancel_job, job.id, actor="operator", reason="")
        assert await bench.job(job.id) == job


def test_an_operator_is_told_apart_from_every_owner() -> None:
    """History names one as such, whatever the name; what cannot be shown is no name."""
    assert [operator_named(name) for name in ("operator", "eve", "owner")] == [
        "operator",
        "operator eve",
        "operator owner",
    ]
    for name in ("", "\t", "x" * 201):
        with pytest.raises(InvalidInput):
            operator_named(name)


class TestQueueStatus:
    """How the queue does."""

    @staticmethod
    async def status(store: SqliteStore, policies: Policies) -> QueueStatus:
        """Return it."""
        return await store.read(Bulkhead.OPERATIONS, queue_status, policies=policies)

    async def test_an_empty_queue_is_told(self, store: SqliteStore, policies: Policies) -> None:
        """Nothing waits, nobody works."""
        status = await self.status(store, policies)
        assert set(status.counts.values()) == {0}
        assert (status.oldest_available_at, status.oldest_claim_at, status.workers) == (None, None, [])

    async def test_counts_ages_and_workers_are_those_of_the_jobs(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies, clock: ManualClock
    ) -> None:
        """The oldest that could be claimed, the longest under lease, and who holds it."""
        await a_dead_letter(bench, owner, "key-0")
        clock.advance(timedelta(seconds=1))
        await bench.enqueue(owner, "key-1")
        claimed_at = clock.advance(timedelta(seconds=1))
        await bench.claim("worker-2")
        queued_at = clock.advance(timedelta(seconds=1))
        await bench.enqueue(owner, "key-2")
        clock.advance(timedelta(seconds=1))
        await bench.enqueue(owner, "key-3")
        status = await self.status(store, policies)
        assert {name.value: count for name, count in status.counts.items()} == {
            "queued": 2,
            "running": 1,
            "succeeded": 0,
            "failed": 1,
            "cancelled": 0,
        }
        assert (status.oldest_available_at, status.oldest_claim_at) == (queued_at, claimed_at)
        assert [(worker.worker_id, worker.last_seen_at, worker.running_count) for worker in status.workers] == [
            ("worker-1", START, 0),
            ("worker-2", claimed_at, 1),
        ]

    async def test_rates_count_what_happened_in_each_window(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies, clock: ManualClock
    ) -> None:
        """What is older than a window is not in it; a retry is neither a coming nor an end."""
        await bench.succeed(owner, "key-1")
        clock.advance(timedelta(minutes=2))
        dead = await a_dead_letter(bench, owner, "key-2")
        await store.write(requeue_job, dead.id, ORDER, policies=policies)
        await bench.fail(await bench.claim(), ENVIRONMENT)
        cancelled = await bench.enqueue(owner, "key-3")
        await bench.cancel(owner, cancelled.id)
        minute, quarter, hour = (rate.happened for rate in (await self.status(store, policies)).rates)
        assert (minute.enqueued_count, minute.requeued_count) == (2, 1)
        assert (minute.succeeded_count, minute.failed_count, minute.cancelled_count) == (0, 1, 1)
        assert quarter == hour == replace(minute, enqueued_count=3, succeeded_count=1)

    async def test_limits_tell_how_near_they_are(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies, clock: ManualClock
    ) -> None:
        """A share of 1 is a limit reached."""
        for number in range(2):
            await bench.enqueue(owner, f"key-{number}")
        clock.advance(timedelta(minutes=30))
        stated = replace(policies.admission, max_pending=2, oldest_age=timedelta(hours=1))
        tight = replace(policies, admission=stated)
        limits = {use.name: use for use in (await self.status(store, tight)).limits}
        assert [*limits] == ["max_pending", "oldest_age_seconds", "max_database_bytes", "min_free_bytes"]
        assert (limits["max_pending"].used, limits["max_pending"].limit, limits["max_pending"].share) == (2, 2, 1)
        assert limits["oldest_age_seconds"].share == pytest.approx(0.5)
        assert 0 < limits["max_database_bytes"].share < 1
        assert limits["min_free_bytes"].share == 0
        everything = replace(policies, admission=replace(policies.admission, min_free_bytes=1 << 60))
        assert (await self.status(store, everything)).limits[-1].share > 1

    async def test_a_worker_that_was_seen_long_ago_is_not_told(
        self, store: SqliteStore, bench: Bench, owner: User, policies: Policies, clock: ManualClock
    ) -> None:
        """Unless it still holds a job."""
        await bench.enqueue(owner)
        await bench.claim("holder")
        await bench.enqueue(owner, "key-2")
        await bench.fail(await bench.claim("gone"), PERMANENT)
        clock.advance(timedelta(minutes=16))
        status = await self.status(store, policies)
        assert [(worker.worker_id, worker.running_count) for worker in status.workers] == [("holder", 1)]
        assert status.at == Instant(START + 16 * 60_000)
