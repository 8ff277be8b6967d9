"""The worker's share of maintenance: when, for how long, by whom, and never by a clock that cannot be right."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from domain.errors import StoreFull
from domain.export import ExportResult, JobId, JobStatus, LeaseToken
from domain.maintenance import MaintenanceGrant
from domain.task import NewTask, TaskId
from domain.use_cases.exports import delete_result
from domain.use_cases.imports import begin_import, store_batch
from domain.use_cases.maintenance import ABANDONED_AFTER, Chore, maintain, maintenance_is_free, take_maintenance
from entrypoints.attempt import Outcome
from entrypoints.maintenance import Maintenance
from tests.entrypoints.worker.bench import Bench, bench
from tests.processes import eventually_so

LIMIT_SECONDS = 20
TICK_SECONDS = 30
LEASE_SECONDS = 120
WEEK_SECONDS = 604_800


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    """Opens a bench whose worker maintains every half minute under leases of two minutes."""
    with anyio.fail_after(LIMIT_SECONDS):
        async with bench(
            tmp_path, lease_seconds=60, maintenance_seconds=TICK_SECONDS, maintenance_lease_seconds=LEASE_SECONDS
        ) as opened:
            yield opened


@pytest.fixture
def maintenance(at: Bench) -> Maintenance:
    """The share of one worker."""
    return Maintenance(at.app, worker_id="worker under test")


@pytest.fixture
def neighbour(at: Bench) -> Maintenance:
    """The share of another worker in the same database."""
    return Maintenance(at.app, worker_id="another worker")


async def tick(maintenance: Maintenance) -> int:
    """Let it do what it does when it is time; return how many steps there were."""
    steps = 1
    while await maintenance.step():
        steps += 1
    return steps


async def last_grant(at: Bench) -> MaintenanceGrant | None:
    """Return the last grant of the lease."""
    return await at.look(lambda uow: uow.maintenance.last())


async def leave_an_import(at: Bench, count: int) -> int:
    """Leave an import behind that is old enough to be taken back."""
    number = await at.store.write(begin_import, at.owner_id)
    rows = [(TaskId(at.app.randomness.new_id()), NewTask(title="never seen")) for _ in range(count)]
    await at.store.write(store_batch, at.owner_id, number, rows)
    return number


async def abandoned(at: Bench) -> list[int]:
    """Return what is left of imports."""
    return await at.look(lambda uow: uow.imports.abandoned(before=at.clock.now(), limit=9))


async def succeed(at: Bench) -> tuple[JobId, ExportResult]:
    """Make an export with a result."""
    job_id = await at.enqueue()
    assert await at.worker.process_next() is Outcome.SUCCEEDED
    result = await at.result(job_id)
    assert result is not None
    return job_id, result


# ── Who ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_of_two_workers_one_maintains(at: Bench, maintenance: Maintenance, neighbour: Maintenance) -> None:
    """The other asks without taking a lock, and takes over once the first has been silent for a whole lease."""
    await tick(maintenance)
    at.store.written.clear()
    for _ in range(3):
        assert await tick(neighbour) == 1
        at.let_pass(TICK_SECONDS * 1.25)
    assert at.store.written == []
    at.let_pass(LEASE_SECONDS)
    assert await tick(neighbour) > 1
    grant = await last_grant(at)
    assert grant is not None
    assert (grant.number, grant.worker_id) == (2, "another worker")
    at.store.written.clear()
    at.let_pass(TICK_SECONDS * 1.25)
    assert await tick(maintenance) == 1
    assert at.store.written == []


async def test_a_holder_maintains_under_one_grant_until_it_is_over(at: Bench, maintenance: Maintenance) -> None:
    """It asks for the next one when its own clock says that the lease ran out, and not before."""
    numbers = []
    for _ in range(8):
        await tick(maintenance)
        grant = await last_grant(at)
        assert grant is not None
        numbers.append(grant.number)
        at.let_pass(TICK_SECONDS * 1.25)
    assert numbers[0] == 1
    assert numbers[2] == 1
    assert numbers[-1] > 1
    assert at.store.written.count("take_maintenance") == numbers[-1]


@pytest.mark.usefixtures("json_logs")
async def test_a_holder_that_slept_past_its_lease_stops_quietly_and_deletes_nothing(
    at: Bench, maintenance: Maintenance, capfd: pytest.CaptureFixture[str]
) -> None:
    """Between two of its batches another worker took over: the rest of its tick is refused, and left to the other."""
    await leave_an_import(at, 1800)
    at.let_pass(ABANDONED_AFTER.total_seconds() + 1)
    while "import_batches_swept" not in capfd.readouterr().err and len(await abandoned(at)) == 1:
        assert await maintenance.step()
        if at.store.written.count("maintain") == len(Chore):
            break
    before = await abandoned(at)
    at.let_pass(LEASE_SECONDS)
    policy = at.app.policies.maintenance
    assert await at.store.write(
        take_maintenance, worker_id="another worker", lease_token=LeaseToken("another"), policy=policy
    )
    at.store.written.clear()
    assert await maintenance.step() is False
    assert at.store.written == ["maintain"]
    assert await abandoned(at) == before != []
    assert '"event":"maintenance.lost"' in capfd.readouterr().err
    at.let_pass(TICK_SECONDS * 1.25)
    assert await tick(maintenance) == 1
    assert at.store.written == ["maintain"]


# ── When ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_maintenance_waits_for_its_time(at: Bench, maintenance: Maintenance) -> None:
    """Between two ticks it does not even ask."""
    await tick(maintenance)
    at.store.written.clear()
    asked: list[bool] = []
    at.store.run_before(maintenance_is_free, lambda: asked.append(True))
    at.let_pass(TICK_SECONDS * 0.74)
    assert await tick(maintenance) == 1
    assert (at.store.written, asked) == ([], [])
    at.let_pass(TICK_SECONDS * 0.52)
    assert await tick(maintenance) > 1
    assert at.store.written == ["maintain"] * len(Chore)


async def test_a_tick_that_used_up_its_budget_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    """Time is counted while batches run: here each takes a second of three."""
    async with bench(tmp_path, long_tasks=0, maintenance_budget_seconds=3, maintenance_seconds=TICK_SECONDS) as at:
        maintenance = Maintenance(at.app, worker_id="worker under test")
        for _ in range(20):
            at.store.run_before(maintain, lambda: at.let_pass(1))
        assert await tick(maintenance) == 3
        at.let_pass(1)
        assert await tick(maintenance) == 1
        assert at.store.written.count("maintain") == 3


async def test_chores_take_turns(at: Bench, maintenance: Maintenance) -> None:
    """One with much to do keeps no other waiting: each has had its first batch before any has its second."""
    await leave_an_import(at, 1800)
    job_id, _ = await succeed(at)
    await at.store.write(delete_result, at.owner_id, job_id)
    at.let_pass(ABANDONED_AFTER.total_seconds() + 1)
    for _ in Chore:
        assert await maintenance.step()
    assert await at.chunk(job_id, 1, 0) is None
    assert len(await abandoned(at)) == 1
    await tick(maintenance)
    assert await abandoned(at) == []


async def test_work_does_not_wait_for_long_maintenance(at: Bench) -> None:
    """Between two batches the worker looks for work."""
    await leave_an_import(at, 1800)
    at.let_pass(ABANDONED_AFTER.total_seconds() + 1)
    job_id = await at.enqueue()
    at.store.written.clear()
    running = asyncio.create_task(at.worker.run())

    async def is_done() -> bool:
        return (await at.job(job_id)).status is JobStatus.SUCCEEDED and not await abandoned(at)

    await eventually_so(is_done)
    at.stopping.set()
    await running
    assert at.store.written[:3] == ["take_maintenance", "maintain", "claim_export"]


async def test_maintenance_that_fails_does_not_keep_the_worker_from_its_work(at: Bench) -> None:
    """An error is put off to the next tick; exports go on."""
    job_id = await at.enqueue()
    at.store.fail_before(maintain, StoreFull("no space"))
    running = asyncio.create_task(at.worker.run())

    async def is_done() -> bool:
        return (await at.job(job_id)).status is JobStatus.SUCCEEDED

    await eventually_so(is_done)
    at.stopping.set()
    await running
    assert at.store.written.count("maintain") == 0


# ── What ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_lost_attempt_staged_is_removed(at: Bench, maintenance: Maintenance) -> None:
    """Its bytes are gone after a tick; those of the committed result stay."""
    job_id = await at.enqueue()

    async def outlive(seq: int) -> None:
        if seq == 2:
            at.let_pass(60)

    at.before_chunk = outlive
    assert await at.worker.process_next() is Outcome.LOST
    assert await at.chunk(job_id, 1, 1) is not None
    at.before_chunk = None
    assert await at.worker.process_next() is Outcome.SUCCEEDED
    await tick(maintenance)
    assert [await at.chunk(job_id, 1, seq) for seq in range(3)] == [None] * 3
    assert await at.staged_progress(job_id, 1) is None
    assert all([await at.chunk(job_id, 2, seq) for seq in range(3)])


async def test_an_attempt_under_way_is_spared(at: Bench, maintenance: Maintenance) -> None:
    """What the current attempt of a running export has staged is not touched, and it completes."""
    await at.enqueue()

    async def maintain_all(seq: int) -> None:
        if seq == 2:
            assert await tick(maintenance) == len(Chore)

    at.before_chunk = maintain_all
    assert await at.worker.process_next() is Outcome.SUCCEEDED


@pytest.mark.usefixtures("json_logs")
async def test_a_tick_tells_what_it_did(at: Bench, maintenance: Maintenance, capfd: pytest.CaptureFixture[str]) -> None:
    """In one line with counts; one that found nothing to do tells nothing."""
    await tick(maintenance)
    assert "maintenance.done" not in capfd.readouterr().err
    await succeed(at)
    at.let_pass(WEEK_SECONDS)
    await tick(maintenance)
    told = capfd.readouterr().err
    assert told.count('"event":"maintenance.done"') == 1
    assert '"results_expired":1' in told


# ── Clocks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("json_logs")
@pytest.mark.parametrize("jump", [timedelta(days=400), -timedelta(days=400)], ids=["ahead", "back"])
async def test_a_tick_in_which_the_clock_jumped_deletes_nothing_and_says_so(
    at: Bench, maintenance: Maintenance, capfd: pytest.CaptureFixture[str], jump: timedelta
) -> None:
    """Not even the lease is asked for; what had expired by then is found by a later tick."""
    job_id, _ = await succeed(at)
    at.clock.step(jump)
    at.store.written.clear()
    assert await tick(maintenance) == 1
    assert at.store.written == []
    assert '"event":"clock.jumped"' in capfd.readouterr().err
    at.clock.step(-jump)
    at.let_pass(TICK_SECONDS * 1.25)
    assert await tick(maintenance) == 1
    at.let_pass(TICK_SECONDS * 1.25)
    assert await tick(maintenance) == len(Chore)
    assert await at.chunk(job_id, 1, 0) is not None
    assert await at.events(job_id) == ["enqueue", "claim", "complete"]


async def test_a_clock_that_jumps_in_the_middle_of_a_tick_ends_it(at: Bench, maintenance: Maintenance) -> None:
    """The batches before the jump are done, those after it are not."""
    await leave_an_import(at, 1800)
    at.let_pass(ABANDONED_AFTER.total_seconds() + 1)
    for _ in Chore:
        assert await maintenance.step()
    at.clock.step(timedelta(minutes=2))
    at.store.written.clear()
    assert await maintenance.step() is False
    assert await maintenance.step() is False
    assert at.store.written == []
    assert len(await abandoned(at)) == 1


async def test_a_clock_that_jumps_between_the_check_and_the_transaction_deletes_nothing(
    at: Bench, maintenance: Maintenance
) -> None:
    """What is over is judged by the time that was checked, whatever the transaction's clock says."""
    job_id, _ = await succeed(at)
    at.let_pass(WEEK_SECONDS - 10)

    def jump() -> None:
        at.clock.step(timedelta(seconds=LEASE_SECONDS * 0.75))

    assert list(Chore)[1] is Chore.EXPIRE_RESULTS
    assert await maintenance.step()
    at.store.run_before(maintain, jump)
    assert await maintenance.step()
    result = await at.result(job_id)
    assert result is not None
    assert at.clock.now() > result.expires_at
    assert await at.events(job_id) == ["enqueue", "claim", "complete"]


async def test_a_clock_that_is_corrected_a_little_is_trusted(at: Bench, maintenance: Maintenance) -> None:
    """Half a minute is what a correction may be."""
    await tick(maintenance)
    at.let_pass(TICK_SECONDS * 1.25)
    at.clock.step(timedelta(seconds=30))
    at.store.written.clear()
    assert await tick(maintenance) == len(Chore)
